//! Guesses the format of a file: the delimiter of CSV's fields, and the types of its columns.
//!
//! Invariant: a guess of types is of all rows that were shown to it; a column without any value is text.

use std::io::{self, Cursor, Read};

use heddledb_transfer::csv::{Dialect, fields};

/// Length of the sample of an input.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Delimiters that are tried, the most usual first.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// The beginning of an input, and the input with it in front again.
pub fn sample(mut input: impl Read + 'static) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut sample = Vec::new();
    input.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample)?;
    let whole = Cursor::new(sample.clone()).chain(input);
    Ok((sample, Box::new(whole)))
}

/// The delimiter of CSV fields: the character that cuts the first lines into the same number of fields, and
/// into most.
pub fn delimiter(sample: &[u8]) -> char {
    let text = String::from_utf8_lossy(sample);
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    // The last one may be cut.
    if lines.len() > 1 && sample.len() as u64 == SAMPLE_BYTES {
        lines.pop();
    }
    lines.truncate(20);
    let fields_by = |delimiter: char| {
        let dialect = Dialect { delimiter, ..Dialect::default() };
        let counts: Vec<usize> = lines.iter().map(|line| fields(line, &dialect).len()).collect();
        let first = counts.first().copied().unwrap_or(1);
        // Lines that quotes continue have other numbers: most must agree.
        let agreeing = counts.iter().filter(|count| **count == first).count();
        if agreeing * 2 > counts.len() { first } else { 1 }
    };
    let mut best = (1, DELIMITERS[0]);
    for delimiter in DELIMITERS {
        let count = fields_by(delimiter);
        if count > best.0 {
            best = (count, delimiter);
        }
    }
    best.1
}

/// The type of a column, from the narrowest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No value was seen.
    Nothing,
    Boolean,
    Integer,
    Bigint,
    Numeric,
    Double,
    Date,
    Timestamp,
    TimestampTz,
    Uuid,
    Text,
}

impl Kind {
    fn of(text: &str) -> Kind {
        let text = text.trim();
        if matches!(text, "true" | "false" | "t" | "f" | "TRUE" | "FALSE") {
            Kind::Boolean
        } else if is_number(text) && !text.contains(['.', 'e', 'E']) {
            // What leading zeros begin with is a code, which a number would lose.
            let digits = text.trim_start_matches(['-', '+']);
            match (digits.len() > 1 && digits.starts_with('0'), text.parse::<i64>()) {
                (true, _) => Kind::Text,
                (false, Ok(number)) if i32::try_from(number).is_ok() => Kind::Integer,
                (false, Ok(_)) => Kind::Bigint,
                (false, Err(_)) => Kind::Numeric,
            }
        } else if is_number(text) {
            if text.contains(['e', 'E']) { Kind::Double } else { Kind::Numeric }
        } else if text.parse::<heddledb::Date>().is_ok() && text.len() == 10 {
            Kind::Date
        } else if text.len() == 36 && text.parse::<heddledb::Uuid>().is_ok() {
            Kind::Uuid
        } else if is_moment(text) {
            let behind = &text[19..];
            if behind.contains(['Z', '+', '-']) { Kind::TimestampTz } else { Kind::Timestamp }
        } else {
            Kind::Text
        }
    }

    /// The type that holds values of both.
    fn with(self, other: Kind) -> Kind {
        use Kind::{Bigint, Date, Double, Integer, Nothing, Numeric, Timestamp, TimestampTz};
        let rank = |kind: Kind| match kind {
            Integer => Some(0),
            Bigint => Some(1),
            Numeric => Some(2),
            Double => Some(3),
            _ => None,
        };
        match (self, other) {
            (Nothing, kind) | (kind, Nothing) => kind,
            (one, two) if one == two => one,
            (one, two) => match (rank(one), rank(two)) {
                (Some(first), Some(second)) => {
                    if first > second {
                        one
                    } else {
                        two
                    }
                }
                _ => match (one, two) {
                    (Date, Timestamp) | (Timestamp, Date) => Timestamp,
                    (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => TimestampTz,
                    _ => Kind::Text,
                },
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Bigint => "bigint",
            Kind::Numeric => "numeric",
            Kind::Double => "double precision",
            Kind::Date => "date",
            Kind::Timestamp => "timestamp",
            Kind::TimestampTz => "timestamptz",
            Kind::Uuid => "uuid",
            Kind::Nothing | Kind::Text => "text",
        }
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit() || "+-.".contains(letter))
        && text.ends_with(|letter: char| letter.is_ascii_digit() || letter == '.')
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns true if a text is a date and a time: `2026-11-23 10:00:00`, with `T` between them or not.
fn is_moment(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 19
        && text.is_ascii()
        && text[..10].parse::<heddledb::Date>().is_ok()
        && matches!(bytes[10], b' ' | b'T')
        && bytes[11..19]
            .iter()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 2 | 5) { *byte == b':' } else { byte.is_ascii_digit() })
        && text[19..].chars().all(|letter| letter.is_ascii_digit() || ".:+-Z ".contains(letter))
}

/// The types of columns, as SQL writes them, of the rows that were added.
#[derive(Debug)]
pub struct Types(Vec<Kind>);

impl Types {
    /// The types of this many columns, without any value yet.
    pub fn new(columns: usize) -> Types {
        Types(vec![Kind::Nothing; columns])
    }

    /// Adds a row: the texts of its fields, NULL is none.
    pub fn add(&mut self, row: impl Iterator<Item = Option<String>>) {
        for (kind, text) in self.0.iter_mut().zip(row) {
            if let Some(text) = text {
                *kind = kind.with(Kind::of(&text));
            }
        }
    }

    /// The names of the types.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|kind| kind.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_what_cuts_all_lines_alike() {
        for (text, expected) in [
            ("a,b\n1,2\n", ','),
            ("a;b;c\n1,5;2;3\n2,5;3;4\n", ';'),
            ("a\tb\n1,2\t3\n", '\t'),
            ("a|b\n1|2\n", '|'),
            ("\"a;b\",c\n\"x;y\",z\n", ','),
            ("alone\n1\n", ','),
            ("", ','),
        ] {
            assert_eq!(delimiter(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn types_hold_every_value_of_their_column() {
        let guessed = |values: &[&str]| {
            let mut types = Types::new(1);
            values.iter().for_each(|value| types.add(std::iter::once(Some((*value).to_owned()))));
            types.names().next().unwrap_or_default()
        };
        for (values, expected) in [
            (&["1", "-5"][..], "integer"),
            (&["1", "3000000000"], "bigint"),
            (&["1", "2.50"], "numeric"),
            (&["1", "99999999999999999999"], "numeric"),
            (&["1.5", "1e9"], "double precision"),
            (&["007", "1"], "text"),
            (&["0", "1"], "integer"),
            (&["true", "f"], "boolean"),
            (&["2026-11-23"], "date"),
            (&["2026-11-23", "2026-11-23 10:00:00"], "timestamp"),
            (&["2026-11-23T10:00:00.5Z"], "timestamptz"),
            (&["67e55044-10b1-426f-9247-bb680e5fe0c8"], "uuid"),
            (&["2026-11-23", "1"], "text"),
            (&["x"], "text"),
            (&[], "text"),
        ] {
            assert_eq!(guessed(values), expected, "{values:?}");
        }
    }
}
