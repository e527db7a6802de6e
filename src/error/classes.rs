//! What errors have in common: which a retry may mend, which come of the values that are met, and how each is said in short.

use super::Error;

impl Error {
    /// Whether the same call may succeed when it is made again, with nothing changed by the caller.
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

    /// What went wrong, without the way out: for an error that follows from this one, and has a way out of its own.
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

    /// Whether an operation can fail with this because of the value that it meets.
    pub(crate) fn is_of_values_met(&self) -> bool {
        matches!(self, Error::Overflow { .. } | Error::CheckViolation { .. } | Error::DivisionByZero { .. })
    }

    /// The same error, about this column.
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
