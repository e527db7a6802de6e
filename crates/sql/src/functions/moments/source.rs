//! The text that `to_date` and `to_timestamp` read: numbers and names at its start.
//!
//! Invariant: reading a field costs what it consumes, as a text may be long and have many fields.

use super::template::{Field, is_space};
use crate::error::{Result, SqlError, SqlState};

pub(super) fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

/// The error of a field's value that does not fit.
pub(super) fn out_of_range(keyword: &str) -> SqlError {
    let message = format!("value for \"{keyword}\" in source string is out of range");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        .with_detail("Value must be in the range -2147483648 to 2147483647.")
}

const FIXED_WIDTH: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// The text that is left to read.
pub(super) struct Source<'t> {
    pub rest: &'t str,
}

impl<'t> Source<'t> {
    /// Passes over blanks, and counts them.
    pub fn skip_blanks(&mut self) -> usize {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches(is_space);
        before - self.rest.len()
    }

    /// Passes over a character.
    pub fn skip_character(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    /// A number of exactly this many characters, or of as many digits as there are; and its length in bytes.
    pub fn number(&mut self, field: &Field, width: Option<usize>) -> Result<(i32, usize)> {
        let before = self.rest.len();
        self.skip_blanks();
        let end =
            width.map(|width| self.rest.char_indices().nth(width).map_or(self.rest.len(), |(end, _)| end));
        let available = &self.rest[..end.unwrap_or(self.rest.len())];
        if let Some(width) = width
            && self.rest.len() < width
        {
            let found = self.rest.len();
            let message = format!("source string too short for \"{}\" formatting field", field.keyword);
            let detail = format!("Field requires {width} characters, but only {found} remain.");
            return Err(invalid(message).with_detail(detail).with_hint(FIXED_WIDTH));
        }
        let blanks = available.len() - available.trim_start_matches(is_space).len();
        let sign = usize::from(available[blanks..].starts_with(['-', '+']));
        let count = available[blanks + sign..].bytes().take_while(u8::is_ascii_digit).count();
        let taken = if count == 0 { 0 } else { blanks + sign + count };
        if let Some(width) = width.filter(|width| (1..*width).contains(&taken)) {
            let error = invalid(format!("invalid value \"{available}\" for \"{}\"", field.keyword));
            let detail = format!("Field requires {width} characters, but only {taken} could be parsed.");
            return Err(error.with_detail(detail).with_hint(FIXED_WIDTH));
        }
        if count == 0 {
            let shown: String = available.chars().take(field.keyword.len()).collect();
            let error = invalid(format!("invalid value \"{shown}\" for \"{}\"", field.keyword));
            return Err(error.with_detail("Value must be an integer."));
        }
        let (digits, rest) = self.rest.split_at(taken);
        self.rest = rest;
        let number = digits[blanks..].parse().map_err(|_| out_of_range(field.keyword))?;
        Ok((number, before - rest.len()))
    }

    /// The place of the name that the text starts with.
    pub fn name(&mut self, field: &Field, names: &[&str]) -> Result<usize> {
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
        Field { keyword, case: Case::Upper, is_filled: false, is_translated: false, ordinal: None }
    }

    #[test]
    fn numbers_end_at_their_width_or_at_the_first_other_character() {
        let mut source = Source { rest: " -12345é" };
        assert_eq!(source.number(&field("YYYY"), Some(4)).expect("a number"), (-123, 5));
        assert_eq!(source.number(&field("YYYY"), None).expect("a number"), (45, 2));
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
