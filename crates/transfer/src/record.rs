//! Rows of a file, one after the other, arranged by a table's columns.

use std::io::Read;

use crate::csv::{Dialect, LineError, Lines, fields};
use crate::error::{Error, Rejected, Result};
use crate::field::Field;

/// Bytes that are read from a file at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Meaning of CSV's first line: the names of the columns, or a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// The names of the columns, if each of its fields is the name of a column; otherwise a row.
    #[default]
    Auto,
    /// The names of the columns.
    Yes,
    /// A row.
    No,
}

/// A row of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The line on which it begins, from 1; in Parquet the row.
    pub line: u64,
    /// The row as the file has it.
    pub text: String,
    /// The field of each column of the table; `None` if the file does not have the column.
    pub fields: Vec<Option<Field>>,
}

/// The rows of a file.
pub trait Records {
    /// The next row, or one that cannot be read while those behind it can.
    ///
    /// # Errors
    /// The file cannot be read, or is none of its format.
    fn next_record(&mut self) -> Result<Option<std::result::Result<Record, Rejected>>>;
}

/// The table that rows are read for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub table: String,
    pub columns: Vec<String>,
}

impl Target {
    /// The position of a column: of the one with exactly this name, or of the only one whose name differs in the case of letters.
    pub fn position(&self, column: &str) -> Result<usize> {
        let exact = self.columns.iter().position(|known| known == column);
        let alike = || {
            let lower = column.to_lowercase();
            let mut alike =
                self.columns.iter().enumerate().filter(|(_, known)| known.to_lowercase() == lower);
            alike.next().map(|(position, _)| position).filter(|_| alike.next().is_none())
        };
        exact.or_else(alike).ok_or_else(|| Error::UnknownColumn {
            column: column.to_string(),
            table: self.table.clone(),
            known: self.columns.join(", "),
        })
    }
}

/// Rows of CSV.
pub(crate) struct CsvRecords<R> {
    input: R,
    lines: Lines,
    dialect: Dialect,
    target: Target,
    header: Header,
    /// The column of each field of a line; `None` before the first line.
    columns: Option<Vec<usize>>,
    piece: Vec<u8>,
    at_end: bool,
}

impl<R: Read> CsvRecords<R> {
    pub fn new(input: R, dialect: Dialect, header: Header, target: Target) -> CsvRecords<R> {
        let lines = Lines::of_csv(&dialect);
        let piece = vec![0; PIECE_BYTES];
        CsvRecords { input, lines, dialect, target, header, columns: None, piece, at_end: false }
    }

    fn next_line(&mut self) -> Result<Option<crate::csv::Line>> {
        loop {
            let line = self.lines.next_line(self.at_end).map_err(|error| Error::Malformed {
                line: match error {
                    LineError::OpenQuotes(line) | LineError::NotUtf8(line) => line,
                },
                detail: match error {
                    LineError::OpenQuotes(_) => "its quotes do not end".to_string(),
                    LineError::NotUtf8(_) => "it is not UTF-8".to_string(),
                },
            })?;
            match line {
                // An empty line is a row only where a row is one field.
                Some(line) if line.text.is_empty() && self.target.columns.len() > 1 => {}
                Some(line) => return Ok(Some(line)),
                None if self.at_end => return Ok(None),
                None => {
                    let read = self.input.read(&mut self.piece)?;
                    self.at_end = read == 0;
                    self.lines.push(&self.piece[..read]);
                }
            }
        }
    }

    /// Takes the first line as the heading, if it is one.
    fn begin(&mut self, first: &mut crate::csv::Line) -> Result<bool> {
        if let Some(text) = first.text.strip_prefix('\u{feff}') {
            first.text = text.to_string();
        }
        let names = fields(&first.text, &self.dialect);
        let is_heading = match self.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => names.iter().all(|(name, _)| self.target.position(name.trim()).is_ok()),
        };
        if !is_heading {
            self.columns = Some((0..self.target.columns.len()).collect());
            return Ok(false);
        }
        let mut columns = Vec::with_capacity(names.len());
        for (name, _) in &names {
            let position = self.target.position(name.trim())?;
            if columns.contains(&position) {
                let detail = format!("the heading names column {:?} twice", name.trim());
                return Err(Error::Malformed { line: first.place, detail });
            }
            columns.push(position);
        }
        self.columns = Some(columns);
        Ok(true)
    }
}

impl<R: Read> Records for CsvRecords<R> {
    fn next_record(&mut self) -> Result<Option<std::result::Result<Record, Rejected>>> {
        let Some(mut line) = self.next_line()? else { return Ok(None) };
        if self.columns.is_none() && self.begin(&mut line)? {
            return self.next_record();
        }
        let columns = self.columns.as_deref().unwrap_or_default();
        let given = fields(&line.text, &self.dialect);
        if given.len() != columns.len() {
            let reason = format!("it has {} fields, but {} columns are wanted", given.len(), columns.len());
            return Ok(Some(Err(Rejected { line: line.place, column: None, reason, text: line.text })));
        }
        let mut arranged = vec![None; self.target.columns.len()];
        for ((text, quoted), &column) in given.into_iter().zip(columns) {
            let is_null = !quoted && text == self.dialect.null;
            arranged[column] = Some(if is_null { Field::Null } else { Field::Text(text) });
        }
        Ok(Some(Ok(Record { line: line.place, text: line.text, fields: arranged })))
    }
}
