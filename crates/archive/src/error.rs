//! Errors.

/// The result of the functions of this crate.
pub type Result<T> = std::result::Result<T, ArchiveError>;

/// An operation on an archive has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// An object is not as it was written.
    #[error("{object} is damaged: {detail}")]
    Damaged {
        /// The object's name.
        object: String,
        /// The fault.
        detail: String,
    },
    /// An object is not there.
    #[error("{object} is missing: {detail}")]
    Missing {
        /// The object's name.
        object: String,
        /// The reason for which it should be there.
        detail: String,
    },
    /// Another writer has written an object first.
    #[error("{object} was written by another database: only one can continue a timeline")]
    Conflict {
        /// The object's name.
        object: String,
    },
    /// The object storage cannot be reached, or refuses.
    #[error(
        "cannot {action} {object}: {reason}; check the archive's address, its credentials and the network"
    )]
    Unreachable {
        /// The operation.
        action: &'static str,
        /// The object's name.
        object: String,
        /// The cause.
        reason: String,
    },
    /// The archive does not have what was asked for, or the call is wrong.
    #[error("{0}")]
    Refused(String),
    /// The database, or the directory that is restored.
    #[error(transparent)]
    Database(#[from] heddledb::Error),
}

impl ArchiveError {
    pub(crate) fn damaged(object: &str, detail: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { object: object.to_owned(), detail: detail.into() }
    }

    pub(crate) fn missing(object: &str, detail: impl Into<String>) -> ArchiveError {
        ArchiveError::Missing { object: object.to_owned(), detail: detail.into() }
    }
}
