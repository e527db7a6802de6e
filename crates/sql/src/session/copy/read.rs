//! The fields of lines of text and CSV; `heddledb_transfer::csv` cuts data into lines, and lines of CSV into fields.
//!
//! Invariant: in text format a backslash takes its meaning from the character behind it, also where a field ends or is NULL.

use heddledb_transfer::csv::{self, LineError};

use crate::error::{Result, SqlError, SqlState};
use crate::session::copy::options::CopyOptions;
use crate::session::result::CopyFormat;
use crate::types::binary::utf8;

/// A line that cannot be cut from the data: 22021 for bytes that are no UTF-8, 22P04 for quotes that do not end.
pub(super) fn line_error(error: LineError) -> SqlError {
    match error {
        LineError::OpenQuotes(_) => {
            SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field")
        }
        LineError::NotUtf8(_) => {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
        }
    }
}

/// The fields of a line, and whether each was quoted. In text format NULL is none already.
pub(super) fn fields_of(line: &str, options: &CopyOptions) -> Result<Vec<(Option<String>, bool)>> {
    utf8(line.as_bytes())?;
    if options.format != CopyFormat::Csv {
        return text_fields(line, options);
    }
    let fields = csv::fields(line, &options.dialect).into_iter();
    Ok(fields.map(|(field, quoted)| (Some(field), quoted)).collect())
}

fn text_fields(line: &str, options: &CopyOptions) -> Result<Vec<(Option<String>, bool)>> {
    let mut fields = Vec::new();
    let mut raw = String::new();
    let mut characters = line.chars();
    loop {
        let next = characters.next();
        match next {
            Some('\\') => {
                raw.push('\\');
                raw.extend(characters.next());
            }
            Some(character) if character != options.dialect.delimiter => raw.push(character),
            _ => {
                let field = if raw == options.dialect.null { None } else { Some(unescaped(&raw)?) };
                fields.push((field, false));
                raw.clear();
                if next.is_none() {
                    return Ok(fields);
                }
            }
        }
    }
}

/// A field of text format without its backslashes.
fn unescaped(raw: &str) -> Result<String> {
    if !raw.contains('\\') {
        return Ok(raw.to_string());
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&escaped, tail)) = rest.split_first() else {
            bytes.push(b'\\');
            break;
        };
        rest = tail;
        let (radix, most) = match escaped {
            b'b' => (0, 8),
            b'f' => (0, 12),
            b'n' => (0, b'\n'),
            b'r' => (0, b'\r'),
            b't' => (0, b'\t'),
            b'v' => (0, 11),
            b'x' => (16, 2),
            b'0'..=b'7' => {
                rest = &raw.as_bytes()[raw.len() - rest.len() - 1..];
                (8, 3)
            }
            other => (0, other),
        };
        if radix == 0 {
            bytes.push(most);
            continue;
        }
        let digits = rest
            .iter()
            .take(usize::from(most))
            .take_while(|&&digit| char::from(digit).is_digit(radix))
            .count();
        if digits == 0 {
            bytes.push(escaped);
            continue;
        }
        let value = rest[..digits]
            .iter()
            .fold(0_u32, |value, &digit| value * radix + char::from(digit).to_digit(radix).unwrap_or(0));
        bytes.push(value as u8);
        rest = &rest[digits..];
    }
    utf8(&bytes).map(str::to_string)
}
