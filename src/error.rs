//! Everything that can go wrong, as one enum.

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed.
///
/// Every message says what to do about it. [`Error::is_retryable`] tells whether the same call may succeed when it
/// is made again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value has another type than its column or parameter.
    #[error("{what} is {expected}, but was given {found}; give it a value of that type")]
    WrongType {
        /// The column or parameter.
        what: String,
        /// The type that it has.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A number does not fit its type.
    #[error("{what} is out of range: {detail}; use a wider type or a smaller value")]
    Overflow {
        /// The column, parameter or expression.
        what: String,
        /// The bounds and the value.
        detail: String,
    },
    /// A text that is no value of the type asked for.
    #[error("{text:?} is not a {expected}; write it as {example}")]
    Unparsable {
        /// What was given.
        text: String,
        /// The type wanted.
        expected: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// Bytes that nobody of this format wrote.
    #[error("these bytes are no {what}: {detail}; they are damaged, or another program's")]
    Malformed {
        /// What they should have been.
        what: &'static str,
        /// What is wrong with them.
        detail: String,
    },
    /// The operating system failed to do something with a file.
    #[error("cannot {action} {path}: {detail}; see to the disk, then open the database again")]
    Io {
        /// What was tried: a verb.
        action: &'static str,
        /// The file or directory.
        path: String,
        /// What kind of failure it was.
        kind: std::io::ErrorKind,
        /// The operating system's words.
        detail: String,
    },
    /// The disk, or the user's share of it, is full.
    #[error("no space left to write {path}: {detail}; free some space and try again")]
    StorageFull {
        /// The file that did not fit.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// The database's files may be read at best.
    #[error(
        "cannot write {path}: {detail}; the database needs a writable file system and its owner's permissions"
    )]
    NotWritable {
        /// The file or directory.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// A directory that holds something else than a database.
    #[error(
        "{path} is not a database: {detail}; give the path of a database, or of an empty or new directory"
    )]
    NotADatabase {
        /// The directory.
        path: String,
        /// What was found there.
        detail: String,
    },
    /// Another process, or another part of this one, has the database open.
    #[error("the database {path} is in use; close it there first, only one process at a time may open it")]
    InUse {
        /// The database directory.
        path: String,
    },
    /// A file that a later version of this program wrote.
    #[error(
        "{path} has format version {found}, and this program knows versions up to {supported}; nothing was \
         changed; use a newer program"
    )]
    NewerFormat {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// A file of the database is not as it was written.
    #[error("{path} is damaged at byte {offset}: {detail}; restore the database from a backup")]
    Damaged {
        /// The file.
        path: String,
        /// Where in the file the damage begins.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// A file of the database is gone.
    #[error("{path} is missing: {detail}; put it back, or restore the database from a backup")]
    MissingFile {
        /// The file.
        path: String,
        /// How that is known.
        detail: String,
    },
    /// A file of another database lies among this one's.
    #[error("{path} belongs to another database; put this database's own file back in its place")]
    ForeignFile {
        /// The file.
        path: String,
    },
    /// The log has no room prepared for this group; nothing was written.
    #[error(
        "the log needs room for {needed} bytes and has {available}; free disk space, or wait until a segment is \
         prepared"
    )]
    LogFull {
        /// Bytes that the group may take.
        needed: u64,
        /// Bytes that are prepared.
        available: u64,
    },
    /// The log could not be written, and is closed for good.
    #[error(
        "the log failed: {reason}; results that waited for it are unknown, nothing more is written; open the \
         database again"
    )]
    LogFailed {
        /// The first failure.
        reason: String,
    },
}
