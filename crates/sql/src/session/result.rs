//! The results of a statement: rows and their description, command tags, notices, the data of COPY.

use std::sync::Arc;

use crate::bind::tree::BoundColumn;
use crate::error::{SqlError, SqlState};
use crate::types::{Environment, Type, Value};

/// The columns of a result.
pub type Fields = Arc<[Field]>;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The type's modifier, -1 for none.
    pub modifier: i32,
    /// The oid of the table and the number (from 1) of the column that the values are from; zeros for an
    /// expression.
    pub origin: (u32, i16),
}

impl Field {
    /// A column that no table has.
    pub(crate) fn plain(name: &str, ty: Type) -> Field {
        Field { name: name.to_string(), ty, modifier: -1, origin: (0, 0) }
    }

    pub(crate) fn of(column: &BoundColumn) -> Field {
        let origin = column.source.map_or((0, 0), |(table, position)| (table, position as i16 + 1));
        Field { name: column.name.clone(), ty: column.ty, modifier: column.modifier.0, origin }
    }
}

/// A command tag, kept without an allocation.
#[derive(Default)]
pub(crate) struct Tag {
    bytes: [u8; 32],
    length: usize,
}

impl Tag {
    /// Appends a text, and omits the part that does not fit any more.
    pub fn push(&mut self, text: &str) {
        for &byte in text.as_bytes().iter().take(self.bytes.len() - self.length) {
            self.bytes[self.length] = byte;
            self.length += 1;
        }
    }

    pub fn push_number(&mut self, number: u64) {
        let (mut digits, mut start, mut left) = ([0; 20], 20, number);
        loop {
            start -= 1;
            digits[start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.push(std::str::from_utf8(&digits[start..]).unwrap_or_default());
    }
}

impl std::ops::Deref for Tag {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// The transaction status of a connection between statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Outside of a transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a transaction block that has failed: only its end is accepted, or the return to a savepoint.
    Failed,
}

/// The severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Details for debugging.
    Debug,
    /// For the server's log.
    Log,
    /// Information that the client has asked for.
    Info,
    /// For information.
    Notice,
    /// A warning: something may not be as intended.
    Warning,
}

impl Severity {
    /// The severity's name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }

    /// Returns true if a client whose `client_min_messages` is `least` receives messages of this severity.
    pub(crate) fn reaches(self, least: &str) -> bool {
        let least = match least {
            "debug5" | "debug4" | "debug3" | "debug2" | "debug1" | "debug" => 0,
            "log" => 1,
            "warning" => 3,
            "error" | "fatal" | "panic" => 4,
            _ => 2,
        };
        match self {
            Severity::Debug => least == 0,
            Severity::Log => least <= 1,
            Severity::Notice => least <= 2,
            Severity::Warning => least <= 3,
            Severity::Info => true,
        }
    }
}

/// A notice that a client receives beside its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The severity.
    pub severity: Severity,
    /// Its SQLSTATE.
    pub state: SqlState,
    /// The text of the message.
    pub message: String,
    /// Details.
    pub detail: Option<String>,
    /// The way out.
    pub hint: Option<String>,
}

/// The formats of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Columns between tabs.
    Text,
    /// Comma-separated values.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// The source of the data of a COPY … FROM STDIN.
pub trait CopySource {
    /// Appends the next piece of data; `false`: there is no more.
    ///
    /// # Errors
    /// The message with which the client ended the COPY.
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError>;
}

/// The receiver of results. A row is pushed only once it is final: after its transaction's statement was
/// validated, or from a snapshot.
///
/// Results for which an implementation has no method are ignored; COPY is refused with 0A000.
pub trait ResultSink {
    /// The columns of the rows that follow.
    ///
    /// # Errors
    /// Those of the code that receives the results; the statement then ends with it.
    fn describe(&mut self, _fields: &[Field]) -> Result<(), SqlError> {
        Ok(())
    }
    /// A row. `environment`: the settings by which its values are printed.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe).
    fn row(&mut self, values: &[Value], environment: &dyn Environment) -> Result<(), SqlError>;
    /// The end of a statement, with its command tag.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe).
    fn complete(&mut self, _tag: &str) -> Result<(), SqlError> {
        Ok(())
    }
    /// The text held no statement.
    fn empty(&mut self) {}
    /// A portal has given as many rows as it was asked for, and has more.
    fn suspended(&mut self) {}
    /// A COPY … FROM STDIN begins.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe); 0A000 where data cannot be given.
    fn copy_in(&mut self, _format: CopyFormat, _columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        Err(no_copy())
    }
    /// A COPY … TO STDOUT begins.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe).
    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> Result<(), SqlError> {
        Err(no_copy())
    }
    /// A piece of COPY's data: whole lines, or whole tuples.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe).
    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(no_copy())
    }
    /// COPY's data has ended.
    ///
    /// # Errors
    /// Same errors as [`describe`](Self::describe).
    fn copy_done(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

#[cold]
fn no_copy() -> SqlError {
    SqlError::unsupported(
        "COPY from STDIN and to STDOUT are not possible here: what takes the results neither gives nor takes data",
    )
}

/// The result of one statement of a text, collected in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementResult {
    /// The columns; `None` if the statement returns no rows.
    pub fields: Option<Arc<[Field]>>,
    /// The rows, in order.
    pub rows: Vec<Vec<Value>>,
    /// The command tag, such as `INSERT 0 1`; empty for an empty text.
    pub tag: String,
    /// The output of COPY … TO STDOUT.
    pub data: Vec<u8>,
}

/// The size of the pieces in which COPY … FROM STDIN reads data in memory.
const PIECE_BYTES: usize = 64 << 10;

/// Collects results in memory. COPY … FROM STDIN reads `input`.
#[derive(Default)]
pub(crate) struct Collected<'d> {
    pub results: Vec<StatementResult>,
    pub current: StatementResult,
    pub input: Option<&'d [u8]>,
}

impl ResultSink for Collected<'_> {
    fn describe(&mut self, fields: &[Field]) -> Result<(), SqlError> {
        self.current.fields = Some(fields.into());
        Ok(())
    }

    fn row(&mut self, values: &[Value], _environment: &dyn Environment) -> Result<(), SqlError> {
        self.current.rows.push(values.to_vec());
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<(), SqlError> {
        self.current.tag = tag.to_string();
        self.results.push(std::mem::take(&mut self.current));
        Ok(())
    }

    fn empty(&mut self) {
        self.results.push(StatementResult::default());
    }

    fn suspended(&mut self) {
        self.results.push(std::mem::take(&mut self.current));
    }

    fn copy_in(&mut self, _format: CopyFormat, _columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        if self.input.is_none() {
            let message = "COPY FROM STDIN needs data beside the statement";
            return Err(SqlError::unsupported(message).with_hint("Use Connection::copy_from."));
        }
        Ok(self)
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.current.data.extend_from_slice(data);
        Ok(())
    }

    fn copy_done(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

impl CopySource for Collected<'_> {
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        let Some(data) = self.input.take() else { return Ok(false) };
        // In pieces, as a client sends it: no second copy of all of it is made.
        let (piece, rest) = data.split_at(data.len().min(PIECE_BYTES));
        into.extend_from_slice(piece);
        self.input = (!rest.is_empty()).then_some(rest);
        Ok(true)
    }
}
