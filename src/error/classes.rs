//! Common properties of errors: those that a retry may mend, those that depend on stored values, and a short form of
//! each.

use super::Error;

impl Error {
    /// Returns true if the same call may succeed when it is made again, with nothing changed by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict
                | Error::Deadlock
                | Error::Busy { .. }
                | Error::NoLogSpace { .. }
                | Error::LogNotExtended { .. }
                | Error::SnapshotTooOld { .. }
        )
    }

    /// The cause without the way out: for an error that follows from this one, and has a way out of its own.
    pub(crate) fn cause(&self) -> String {
        match self {
            Error::Io { action, path, detail, .. } | Error::TooManyFiles { action, path, detail } => {
                format!("cannot {action} {path}: {detail}")
            }
            Error::StorageFull { path, detail } => format!("no space left to write {path}: {detail}"),
            Error::NotWritable { path, detail } => format!("cannot write {path}: {detail}"),
            Error::NotReadable { path, detail } => format!("cannot read {path}: {detail}"),
            Error::LogFailed { reason } | Error::NoLogSpace { reason } | Error::LogNotExtended { reason } => {
                reason.clone()
            }
            other => other.to_string(),
        }
    }

    /// Returns true if an operation can fail with this because of the value that it meets.
    pub(crate) fn is_of_values_met(&self) -> bool {
        matches!(self, Error::Overflow { .. } | Error::CheckViolation { .. } | Error::DivisionByZero { .. })
    }

    /// Attributes the error to this column.
    pub(crate) fn in_column(self, column: &str) -> Error {
        match self {
            Error::Overflow { detail, .. } => Error::Overflow { what: column.to_string(), detail },
            Error::Inexact { detail, .. } => Error::Inexact { what: column.to_string(), detail },
            Error::NullValue { .. } => Error::NullValue { what: column.to_string() },
            Error::WrongType { expected, found, .. } => {
                Error::WrongType { what: column.to_string(), expected, found }
            }
            other => other,
        }
    }
}
