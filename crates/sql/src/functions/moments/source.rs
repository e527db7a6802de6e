//! The text that `to_date` and `to_timestamp` read: numbers and names at its start.
//!
//! Invariant: reading a field costs what it consumes, as a text may be long and have many fields.

use super::template::Field;
use crate::error::{Result, SqlError, SqlState};

pub(super) fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

/// A value that a field computes, where it fits.
pub(super) fn narrow(field: &Field, value: i64) -> Result<i32> {
    i32::try_from(value).map_err(|_| out_of_range(field))
}

fn out_of_range(field: &Field) -> SqlError {
    let message = format!("value for \"{}\" in source string is out of range", field.keyword);
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        .with_detail("Value must be in the range -2147483648 to 2147483647.")
}

const FIXED_WIDTH: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// The text that is left to read.
pub(super) struct Source<'t> {
    pub rest: &'t str,
}

impl<'t> Source<'t> {
    pub fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    }

    /// A number of so many characters; of as many digits as there are where none is given.
    pub fn number(&mut self, field: &Field, width: Option<usize>) -> Result<i32> {
        self.skip_blanks();
        // Only a width makes this read ahead: the rest may be long, and have many fields.
        let end = width.and_then(|width| self.rest.char_indices().nth(width));
        let available = end.map_or(self.rest, |(end, _)| &self.rest[..end]);
        let sign = usize::from(available.starts_with(['-', '+']));
        let count = available[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let taken = if count == 0 { 0 } else { sign + count };
        if let Some((width, found)) =
            width.map(|width| (width, available.chars().count())).filter(|(width, found)| found < width)
        {
            let message = format!("source string too short for \"{}\" formatting field", field.keyword);
            let detail = format!("Field requires {width} characters, but only {found} remain.");
            return Err(invalid(message).with_detail(detail).with_hint(FIXED_WIDTH));
        }
        if count == 0 {
            let shown: String = available.chars().take(field.keyword.len()).collect();
            let error = invalid(format!("invalid value \"{shown}\" for \"{}\"", field.keyword));
            return Err(error.with_detail("Value must be an integer."));
        }
        if let Some(width) = width.filter(|width| taken < *width) {
            let error = invalid(format!("invalid value \"{available}\" for \"{}\"", field.keyword));
            let detail = format!("Field requires {width} characters, but only {taken} could be parsed.");
            return Err(error.with_detail(detail).with_hint(FIXED_WIDTH));
        }
        let (digits, rest) = self.rest.split_at(taken);
        self.rest = rest;
        digits.parse().map_err(|_| out_of_range(field))
    }

    /// The place of the name that the text starts with.
    pub fn name(&mut self, field: &Field, names: &[&str]) -> Result<usize> {
        self.skip_blanks();
        let begins = |name: &&str| {
            self.rest.get(..name.len()).is_some_and(|written| written.eq_ignore_ascii_case(name))
        };
        match names.iter().position(begins) {
            Some(at) => {
                self.rest = &self.rest[names[at].len()..];
                Ok(at)
            }
            None => {
                let shown: String = self.rest.chars().take_while(|c| !c.is_ascii_whitespace()).collect();
                let error = invalid(format!("invalid value \"{shown}\" for \"{}\"", field.keyword));
                Err(error
                    .with_detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::Case;
    use super::*;

    fn field(keyword: &'static str) -> Field {
        Field { keyword, case: Case::Upper, is_filled: false, ordinal: None }
    }

    #[test]
    fn numbers_end_at_their_width_or_at_the_first_other_character() {
        let mut source = Source { rest: " -12345é" };
        assert_eq!(source.number(&field("YYYY"), Some(4)).expect("a number"), -123);
        assert_eq!(source.number(&field("YYYY"), None).expect("a number"), 45);
        assert_eq!(source.rest, "é");
        assert!(
            source.number(&field("YYYY"), Some(2)).is_err() && source.number(&field("YYYY"), None).is_err()
        );
        assert!(Source { rest: "2147483648" }.number(&field("YYYY"), None).is_err());
    }

    #[test]
    fn names_are_compared_by_their_ascii_letters() {
        let mut source = Source { rest: "friİ" };
        assert_eq!(source.name(&field("DY"), &["Thu", "Fri"]).expect("a name"), 1);
        assert_eq!(source.rest, "İ");
        for text in ["İ", "frİ", "ſun", "fr"] {
            assert!(Source { rest: text }.name(&field("DY"), &["Sun", "Fri"]).is_err(), "{text}");
        }
    }
}
