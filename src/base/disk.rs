//! The interface to the disk: the only way in which the engine accesses files.
//!
//! [`RealDisk`] is based on the standard library; the simulated disk in `testing/` takes its place in tests.
//!
//! Invariants of both:
//! - what was written is readable at once, and durable only after `sync_data` or `sync_all` of the file *and*
//!   `sync_dir` of the directory that holds its name (and of that directory's parent, if it is new);
//! - a failed sync says nothing about what is durable, and a later successful one does not make up for it: a caller
//!   that sees a sync fail must not rely on what was written since the last successful one.

mod real;

pub use real::RealDisk;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A file system, or something that behaves like one.
pub trait Disk: Send + Sync {
    /// Makes a directory and those above it; one that is there already is fine.
    fn create_dir_all(&self, directory: &Path) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;
    /// Returns true if a file or directory of that name is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Opens a file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Opens a file that is there for reading and writing; its content stays.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Makes a file for reading and writing; fails if the name is taken.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Gives a file another name in the same directory, atomically; a file of the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The path by which a directory that is there can be found from anywhere.
    fn resolve(&self, directory: &Path) -> io::Result<PathBuf> {
        Ok(directory.to_path_buf())
    }
    /// Makes the names in a directory durable, as they are now.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// Locks a file exclusively, creating it if it is missing, until the guard is dropped or the process ends; `None`
    /// while another guard holds the lock. Needs permission to write the file.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>>;
    /// Locks an existing file together with other readers, until the guard is dropped or the process ends; `None` while
    /// the file is locked exclusively. Needs permission to read the file only, so that it works on a read-only mount.
    fn try_lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>>;
    /// Returns true if the engine has this bug with files of this disk: tests switch bugs on to see that they are
    /// found.
    #[cfg(test)]
    fn has_bug(&self, _: Bug) -> bool {
        false
    }
}

/// Bugs on purpose, which the tests of durability must find. There are none but in the engine's own tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The log is not synced.
    SyncSkipped,
    /// A group is acknowledged before it is synced, which happens before the next one is written.
    AcknowledgedBeforeSync,
    /// A new segment gets its name before its content is durable.
    SegmentNotSynced,
    /// A new segment's name is not made durable.
    SegmentNameNotSynced,
    /// A checkpoint's parts are not synced before its manifest says that they are there.
    PartNotSynced,
    /// The log before a checkpoint is removed before the checkpoint's name is durable.
    LogRemovedBeforeCheckpoint,
    /// A checkpoint is finished before the log is durable through everything that was copied.
    CheckpointBeforeLog,
    /// Parts of a checkpoint that a follower has written are believed to be what it says, and durable.
    FollowerBelieved,
    /// A block is taken although its payload's checksum is wrong.
    BadChecksumAccepted,
    /// A block that is not there, with later groups behind it, is taken for the log's end.
    HoleSkipped,
    /// The blocks of an unfinished group are taken for a group.
    TornTailAccepted,
    /// Only the first of a group's transactions is replayed.
    GroupHalfReplayed,
    /// The log is read from too late a group on.
    FirstGroupSkipped,
    /// The bytes cut off at the log's end are left there.
    TailNotZeroed,
    /// A group does not say that the one before it was in flight when it was written.
    FlightNotNoted,
    /// A group is acknowledged before the one before it is durable.
    AcknowledgedOutOfOrder,
    /// Of the groups that were in flight when a process ended, only the last one is made durable.
    FlightNotRewritten,
}

#[cfg(test)]
impl Bug {
    pub(crate) const ALL: [Bug; 17] = [
        Bug::SyncSkipped,
        Bug::AcknowledgedBeforeSync,
        Bug::SegmentNotSynced,
        Bug::SegmentNameNotSynced,
        Bug::PartNotSynced,
        Bug::LogRemovedBeforeCheckpoint,
        Bug::CheckpointBeforeLog,
        Bug::FollowerBelieved,
        Bug::BadChecksumAccepted,
        Bug::HoleSkipped,
        Bug::TornTailAccepted,
        Bug::GroupHalfReplayed,
        Bug::FirstGroupSkipped,
        Bug::TailNotZeroed,
        Bug::FlightNotNoted,
        Bug::AcknowledgedOutOfOrder,
        Bug::FlightNotRewritten,
    ];
}

/// True if the engine has a bug with files of a disk: never, except in tests that switch it on.
macro_rules! has_bug {
    ($disk:expr, $bug:ident) => {{
        #[cfg(test)]
        let has = $disk.has_bug(crate::base::disk::Bug::$bug);
        #[cfg(not(test))]
        let has = {
            let _ = &$disk;
            false
        };
        has
    }};
}
pub(crate) use has_bug;

/// An open file. Offsets are the caller's, so that threads can share it.
pub trait File: Send + Sync {
    /// Writes some of `bytes` at `offset`, and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads some bytes at `offset` into `buffer`, and says how many: 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns true if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Makes the content durable, and the length as far as reading the content needs it.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`: continues after short writes and interrupted calls.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills `buffer` from `offset`: continues after short reads and interrupted calls; a file that ends before is
    /// an error of kind `UnexpectedEof`.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Holds a lock of [`Disk::try_lock`] or [`Disk::try_lock_shared`]; dropping it unlocks.
pub trait LockGuard: Send + Sync {}

/// The directory that holds the name of `path`, if there is one above it; for a bare name the present directory.
pub fn parent_of(path: &Path) -> Option<&Path> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        other => other,
    }
}
