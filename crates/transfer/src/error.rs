//! Errors between a table and a file.

use std::fmt;
use std::io;

/// The result of an import or export.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which an import or export has ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database's own error.
    #[error(transparent)]
    Engine(#[from] heddledb::Error),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A format that does not exist.
    #[error("{text:?} is not a format; take csv, json or parquet (a feature of the crate)")]
    UnknownFormat {
        /// The given name.
        text: String,
    },
    /// The file is not of its format.
    #[error("line {line}: {detail}; correct the file, or name its format")]
    Malformed {
        /// The line, from 1; in Parquet the row.
        line: u64,
        /// The mistake.
        detail: String,
    },
    /// A column of the file that the table does not have.
    #[error("the file has a column {column:?}, table {table:?} has not; its columns are: {known}")]
    UnknownColumn {
        /// The column.
        column: String,
        /// The table.
        table: String,
        /// The table's columns.
        known: String,
    },
    /// A row that the table refuses.
    #[error(
        "{rejected}; rows before it that are imported: {imported}; correct it, or have rejected rows collected (`Import::collect_rejected`)"
    )]
    Rejected {
        /// The row.
        rejected: Box<Rejected>,
        /// Number of rows that stay imported.
        imported: u64,
    },
    /// More rows were rejected than were to be collected.
    #[error("more than {most} rows are rejected, the last one: {last}; {imported} rows are imported")]
    TooManyRejected {
        /// The limit on their number.
        most: u64,
        /// The row that exceeds it.
        last: Box<Rejected>,
        /// Number of rows that stay imported.
        imported: u64,
    },
    /// The import of an empty table met rows of another transaction.
    #[error("another transaction has changed the table meanwhile; nothing is imported: import it once more")]
    Interrupted,
}

/// A row of a file that the table refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The line on which it begins, from 1; in Parquet the row.
    pub line: u64,
    /// The column at fault, if it is one column's.
    pub column: Option<String>,
    /// The reason for which it is refused.
    pub reason: String,
    /// The row as the file has it; a row of Parquet as CSV.
    pub text: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}", self.line)?;
        if let Some(column) = &self.column {
            write!(formatter, ", column {column:?}")?;
        }
        write!(formatter, ": {}", self.reason)
    }
}
