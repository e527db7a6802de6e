//! Lines of text and CSV, and their fields.
//!
//! Invariants: pieces of data may end anywhere, in the midst of a character too; a line of CSV may hold line breaks in
//! quotes; `\.` alone on a line ends the data.

use crate::error::{Result, SqlError, SqlState};
use crate::session::copy::options::CopyOptions;
use crate::session::result::CopyFormat;

/// Data on its way to lines.
pub(super) struct Lines<'o> {
    options: &'o CopyOptions,
    data: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far the next line was searched already, and whether that ended inside of quotes.
    searched: usize,
    in_quotes: bool,
    number: u64,
    ended: bool,
}

impl<'o> Lines<'o> {
    pub fn new(options: &'o CopyOptions) -> Lines<'o> {
        Lines { options, data: Vec::new(), start: 0, searched: 0, in_quotes: false, number: 0, ended: false }
    }

    /// Adds a piece of data.
    pub fn push(&mut self, data: &[u8]) {
        if self.start > 0 {
            self.data.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.data.extend_from_slice(data);
    }

    /// The next line and its number, without its end; `last`: what is left is one, too.
    ///
    /// # Errors
    /// 22021 for bytes that are no UTF-8; 22P04 for quotes that do not end.
    pub fn next_line(&mut self, last: bool) -> Result<Option<(u64, String)>> {
        if self.ended {
            return Ok(None);
        }
        let end = match self.find_end() {
            Some(end) => end,
            None if last && self.in_quotes => {
                let message = "unterminated CSV quoted field";
                return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
            }
            None if last && self.start < self.data.len() => self.data.len(),
            None => return Ok(None),
        };
        let line = &self.data[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
        })?;
        let text = text.to_string();
        self.start = (end + 1).min(self.data.len());
        (self.searched, self.in_quotes) = (self.start, false);
        self.number += 1;
        if text == "\\." {
            self.ended = true;
            return Ok(None);
        }
        Ok(Some((self.number, text)))
    }

    /// The next line break that ends a line.
    fn find_end(&mut self) -> Option<usize> {
        let csv = self.options.format == CopyFormat::Csv;
        let (quote, escape) = (self.options.quote as u8, self.options.escape as u8);
        let mut at = self.searched;
        while let Some(&byte) = self.data.get(at) {
            if csv && self.in_quotes && byte == escape && escape != quote {
                at += 1;
            } else if csv && byte == quote {
                self.in_quotes = !self.in_quotes;
            } else if byte == b'\\' && !csv {
                // An escaped character, a line break too, belongs to the line.
                if at + 1 >= self.data.len() {
                    break;
                }
                at += 1;
            } else if byte == b'\n' && !self.in_quotes {
                self.searched = at;
                return Some(at);
            }
            at += 1;
        }
        self.searched = at.min(self.data.len());
        None
    }
}

/// The fields of a line, and whether each was quoted. In text format NULL is none already.
pub(super) fn fields_of(line: &str, options: &CopyOptions) -> Result<Vec<(Option<String>, bool)>> {
    if options.format == CopyFormat::Csv { csv_fields(line, options) } else { text_fields(line, options) }
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
            Some(character) if character != options.delimiter => raw.push(character),
            _ => {
                let field = if raw == options.null { None } else { Some(unescaped(&raw)?) };
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
    String::from_utf8(bytes).map_err(|_| {
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
    })
}

fn csv_fields(line: &str, options: &CopyOptions) -> Result<Vec<(Option<String>, bool)>> {
    let mut fields = Vec::new();
    let (mut field, mut quoted, mut inside) = (String::new(), false, false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if inside {
            let next = characters.peek().copied();
            if character == options.escape
                && matches!(next, Some(next) if next == options.quote || next == options.escape)
            {
                field.extend(characters.next());
            } else if character == options.quote {
                inside = false;
            } else {
                field.push(character);
            }
        } else if character == options.quote {
            (inside, quoted) = (true, true);
        } else if character == options.delimiter {
            fields.push((Some(std::mem::take(&mut field)), quoted));
            quoted = false;
        } else {
            field.push(character);
        }
    }
    fields.push((Some(field), quoted));
    Ok(fields)
}
