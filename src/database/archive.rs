//! The interface of a database for an archive in object storage: its log and checkpoints as files, and a directory made of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::database::{Database, Shared};
use crate::durability::Segments;
use crate::durability::archive::{CheckpointCopy, FileChunk, LogPiece, Rebuild, SegmentPosition, read_piece};
use crate::durability::backup::{FilesReport, verify};
use crate::durability::checkpoint::Checkpoints;
use crate::durability::log_holds::{ARCHIVE, Hold};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pipeline::nesting;
use crate::types::Uuid;

/// A database's log and checkpoints, for an archive that copies them: see [`Database::archive_source`].
///
/// Reading goes on beside everything else; commits do nothing for it.
pub struct ArchiveSource {
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    checkpoints: Checkpoints,
}

impl fmt::Debug for ArchiveSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ArchiveSource").field("identity", &self.identity()).finish_non_exhaustive()
    }
}

impl Database {
    /// The log and the checkpoints, for an archive that copies them. Which part of the log is held for it says
    /// [`LogOptions::archive_hold_bytes`](crate::LogOptions::archive_hold_bytes); there is one archive at most.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where nothing is logged; [`Error::Closed`].
    pub fn archive_source(&self) -> Result<ArchiveSource> {
        self.check_open()?;
        let Some(checkpointer) = self.shared.checkpointer() else {
            return Err(Error::InvalidOption {
                option: "durability",
                given: "none, or read-only".to_string(),
                expected: "async or group, for an archive: nothing is logged, so there is nothing to copy"
                    .to_string(),
            });
        };
        Ok(ArchiveSource {
            shared: self.shared.clone(),
            segments: checkpointer.segments().clone(),
            checkpoints: checkpointer.checkpoints().clone(),
        })
    }

    /// The last report of the archiver; `None` if there is none.
    pub fn archive_status(&self) -> Option<ArchiveStatus> {
        self.shared.archive_status().lock().clone()
    }

    /// A directory, new or empty, that becomes the database of this identity. `start` is where the first piece of the log begins
    /// that it gets. Of the options only the disk counts.
    ///
    /// # Errors
    /// The directory is not empty ([`Error::NotEmpty`]) or cannot be written; [`Error::Nested`] inside a transaction.
    pub fn rebuild_directory(
        path: impl AsRef<Path>,
        identity: Uuid,
        start: SegmentPosition,
        options: &Options,
    ) -> Result<DirectoryRebuild> {
        nesting::check("a restore")?;
        let uuid = crate::durability::Uuid(identity.bytes());
        let rebuild = Rebuild::begin(options.disk.clone(), path.as_ref(), uuid, start)?;
        Ok(DirectoryRebuild { rebuild, path: path.as_ref().to_path_buf(), options: options.clone() })
    }
}

/// Progress and failures of an archiver: see [`Database::archive_status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// The number of the timeline; 0: the archive was not reached yet.
    pub timeline: u32,
    /// The epoch of the last group that is archived.
    pub archived_epoch: u64,
    /// The epoch of the last group that is durable here.
    pub durable_epoch: u64,
    /// Bytes of whole segments of the log between the two.
    pub bytes_behind: u64,
    /// The number of the last checkpoint that is archived; 0: none is.
    pub checkpoint: u32,
    /// Number of objects that were created.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Number of attempts that have failed.
    pub failures: u64,
    /// The failure of the last attempt, if it has failed.
    pub failure: Option<String>,
    /// True if attempts fail, and the log is beyond the limit up to which it is held for the archive.
    pub alarm: bool,
    /// Time at which the archive was reached last.
    pub last_upload: Option<std::time::SystemTime>,
}

impl ArchiveSource {
    /// Sets the result of [`Database::archive_status`].
    pub fn report(&self, status: ArchiveStatus) {
        *self.shared.archive_status().lock() = Some(status);
    }

    /// The database's identity: no two databases have the same, but for copies of one.
    pub fn identity(&self) -> Uuid {
        Uuid::from_bytes(self.segments.uuid().0)
    }

    /// The epoch of the last group that is durable; 0: there is none.
    pub fn durable_epoch(&self) -> u64 {
        self.segments.last_epoch()
    }

    /// Bytes of all groups that were read when the database was opened, and written since.
    pub fn log_bytes(&self) -> u64 {
        self.segments.log_bytes()
    }

    /// The beginning of the log that is there.
    pub fn first_position(&self) -> SegmentPosition {
        self.segments.first().into()
    }

    /// Groups that are durable, from this place on, until they have this many bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::MissingFile`] if the log no longer reaches back to this place; it is not as it was written, or cannot be read;
    /// [`Error::Closed`].
    pub fn read(&self, from: SegmentPosition, bytes_max: u64) -> Result<Option<LogPiece>> {
        self.shared.check_open()?;
        read_piece(&self.segments, from, bytes_max)
    }

    /// Bytes of whole segments between an epoch and the present segment.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn bytes_behind(&self, epoch: u64) -> Result<u64> {
        self.segments.bytes_behind(epoch)
    }

    /// Holds all groups behind this epoch for the archive, and no earlier ones any more, as long as that keeps no more than
    /// `limit` bytes that recovery does not need. Returns false if the log no longer reaches back so far.
    pub fn hold(&self, epoch: u64, limit: u64) -> bool {
        self.segments.hold(ARCHIVE, Hold { epoch, limit }).is_ok()
    }

    /// Returns true if the log is held, and nothing was removed that the archive needs.
    pub fn is_held(&self) -> bool {
        self.segments.is_held(ARCHIVE)
    }

    /// The newest checkpoint, if there is one, ready to be copied.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub fn newest_checkpoint(&self) -> Result<Option<CheckpointCopy>> {
        CheckpointCopy::newest(&self.checkpoints)
    }
}

/// A directory that is being filled with what an archive holds: see [`Database::rebuild_directory`].
///
/// It is no database before [`finish`](Self::finish) has returned.
pub struct DirectoryRebuild {
    rebuild: Rebuild,
    path: std::path::PathBuf,
    options: Options,
}

impl fmt::Debug for DirectoryRebuild {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DirectoryRebuild").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DirectoryRebuild {
    /// Adds some bytes of a checkpoint's file, each file from its beginning on.
    ///
    /// # Errors
    /// [`Error::Malformed`] if they are none, or not the next ones; the file cannot be written.
    pub fn add_chunk(&mut self, chunk: &FileChunk) -> Result<()> {
        self.rebuild.add_chunk(chunk)
    }

    /// Adds the next piece of the log.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not the next one, or makes no sense; the log cannot be written.
    pub fn add_piece(&mut self, piece: &LogPiece) -> Result<()> {
        self.rebuild.add_piece(piece)
    }

    /// Makes a database of the directory, and reads every byte of it again.
    ///
    /// # Errors
    /// Something cannot be written, or is not as it was: then the directory is no database.
    pub fn finish(mut self) -> Result<FilesReport> {
        let DirectoryRebuild { rebuild, path, options } = &mut self;
        let finished = rebuild.finish().and_then(|()| verify(&options.disk, path, &mut |_, _| ()));
        finished.inspect_err(|_| rebuild.abandon())
    }

    /// Removes what was written.
    pub fn abandon(self) {
        self.rebuild.abandon();
    }
}
