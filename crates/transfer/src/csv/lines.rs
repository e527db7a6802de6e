//! Data in pieces of any size, cut into lines.
//!
//! Invariants: pieces may end anywhere, within a character too; a line may hold line breaks in quotes, or behind a backslash; `\.` alone on
//! a line ends the data.

use super::Dialect;

/// A line without its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The number of the line, from 1, where one with line breaks in quotes counts once.
    pub number: u64,
    /// The line of the file on which it begins, from 1.
    pub place: u64,
    /// The text.
    pub text: String,
}

/// Data that cannot be cut into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Quotes that do not end.
    #[error("the quotes that begin on line {0} do not end")]
    OpenQuotes(u64),
    /// Bytes that are no text.
    #[error("line {0} is not UTF-8")]
    NotUtf8(u64),
}

/// The quoting that keeps a line break from ending a line.
#[derive(Clone, Copy, Debug)]
enum Quoting {
    Quotes { quote: u8, escape: u8 },
    Backslashes,
}

/// Data on its way to lines.
#[derive(Debug)]
pub struct Lines {
    quoting: Quoting,
    data: Vec<u8>,
    /// Start of the next line.
    start: usize,
    /// Length of the part of the next line that was searched already; `in_quotes` is true if that part ended
    /// inside of quotes.
    searched: usize,
    in_quotes: bool,
    number: u64,
    /// The line of the file on which the next line begins.
    place: u64,
    ended: bool,
}

impl Lines {
    /// Lines of CSV.
    pub fn of_csv(dialect: &Dialect) -> Lines {
        // Both are characters of one byte, or no data has them as a byte of its own.
        Lines::new(Quoting::Quotes { quote: dialect.quote as u8, escape: dialect.escape as u8 })
    }

    /// Lines in which a backslash takes its meaning from the character behind it.
    pub fn of_text() -> Lines {
        Lines::new(Quoting::Backslashes)
    }

    fn new(quoting: Quoting) -> Lines {
        Lines {
            quoting,
            data: Vec::new(),
            start: 0,
            searched: 0,
            in_quotes: false,
            number: 0,
            place: 1,
            ended: false,
        }
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

    /// The number of bytes that are not lines yet.
    pub fn pending(&self) -> usize {
        self.data.len() - self.start
    }

    /// The next line; none if more data is needed. `last`: there is none, and what is left is a line, too.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn next_line(&mut self, last: bool) -> Result<Option<Line>, LineError> {
        if self.ended {
            return Ok(None);
        }
        let end = match self.find_end() {
            Some(end) => end,
            None if last && self.in_quotes => return Err(LineError::OpenQuotes(self.place)),
            None if last && self.start < self.data.len() => self.data.len(),
            None => return Ok(None),
        };
        let line = &self.data[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8(self.place))?.to_string();
        let place = self.place;
        self.place += 1 + text.matches('\n').count() as u64;
        self.start = (end + 1).min(self.data.len());
        (self.searched, self.in_quotes) = (self.start, false);
        self.number += 1;
        if text == "\\." {
            self.ended = true;
            return Ok(None);
        }
        Ok(Some(Line { number: self.number, place, text }))
    }

    /// The next line break that ends a line.
    fn find_end(&mut self) -> Option<usize> {
        let mut at = self.searched;
        while let Some(&byte) = self.data.get(at) {
            match self.quoting {
                Quoting::Quotes { quote, escape } if self.in_quotes && byte == escape && escape != quote => {
                    at += 1;
                }
                Quoting::Quotes { quote, .. } if byte == quote => self.in_quotes = !self.in_quotes,
                // An escaped character, a line break too, belongs to the line.
                Quoting::Backslashes if byte == b'\\' => {
                    if at + 1 >= self.data.len() {
                        break;
                    }
                    at += 1;
                }
                _ if byte == b'\n' && !self.in_quotes => {
                    self.searched = at;
                    return Some(at);
                }
                _ => {}
            }
            at += 1;
        }
        self.searched = at.min(self.data.len());
        None
    }
}
