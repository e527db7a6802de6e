//! Errors around a workload: the engine's, and those of the workload's own input and settings.

/// A result around a workload.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for which a workload could not be set up or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] heddledb::Error),
    /// Settings, input and database do not fit together. The message says what to change.
    #[error("{0}")]
    Unusable(String),
    /// A file or stream could not be read or written.
    #[error("{what}: {reason}")]
    Stream {
        /// The file or stream, and the failed access.
        what: String,
        /// The operating system's error.
        reason: std::io::Error,
    },
    /// The system refused a thread for a caller.
    #[error(
        "cannot start thread {number} of {callers} callers: {reason}; raise the limit on threads, or run fewer callers"
    )]
    Thread {
        /// The refused thread, counted from 1.
        number: usize,
        /// Callers of the run.
        callers: usize,
        /// The operating system's error.
        reason: std::io::Error,
    },
}

impl Error {
    /// An error of reading or writing `what`.
    pub(crate) fn stream(what: impl Into<String>, reason: std::io::Error) -> Self {
        Error::Stream { what: what.into(), reason }
    }
}
