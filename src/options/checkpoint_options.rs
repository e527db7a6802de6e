//! Options of checkpoints: their times, their pace, and their directories.

use std::path::PathBuf;

use super::ranges::{invalid, within, within_real};
use crate::error::Result;

/// Options of checkpoints, for [`Options::checkpoints`](crate::Options::checkpoints). Without durability they have no
/// effect.
#[derive(Clone, Debug)]
pub struct CheckpointOptions {
    pub(crate) log_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) spread: f64,
    pub(crate) bytes_per_second: u64,
    pub(crate) threads: Option<usize>,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) follower_socket: Option<PathBuf>,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        CheckpointOptions {
            log_bytes: 256 << 20,
            seconds: 0.0,
            spread: 0.8,
            bytes_per_second: 0,
            threads: None,
            directories: Vec::new(),
            follower_socket: None,
        }
    }
}

impl CheckpointOptions {
    /// Makes a checkpoint when the log has grown by this many bytes since the last one began; 0: never for
    /// that reason. Default: 256 MiB.
    #[must_use]
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Makes a checkpoint when the last one began this many seconds ago, if anything was logged since; 0:
    /// never for that reason. Default: 0.
    #[must_use]
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Spreads a checkpoint that is made for either reason over this share of the interval to the next one,
    /// so that it takes little time from the workers at any moment; it does not wait if nothing commits, or
    /// if a thread waits for [`Database::checkpoint`](crate::Database::checkpoint). The log may exceed
    /// `log_bytes` by this share before the checkpoint is complete. 0: a checkpoint is made as fast as
    /// possible. Default: 0.8.
    #[must_use]
    pub fn spread(mut self, share: f64) -> Self {
        self.spread = share;
        self
    }

    /// Limits the bytes that a checkpoint of the database itself writes in a second; 0: no limit. A follower
    /// writes as fast as it can. Default: 0.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.bytes_per_second = bytes;
        self
    }

    /// The number of threads that write a checkpoint. Default: 1 on fewer than four processors, else 2; but at least
    /// one for each [`directory`](Self::directory), so that all of them are written at once.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Stripes checkpoints over these directories; each further call adds one. Their paths are stored in the
    /// checkpoint as they are given here: give absolute paths, unless the working directory is always the
    /// same. The files there belong to one database directory, which a mark beside them names: a copy of that
    /// directory which was not made by a backup names the same files, and is refused
    /// ([`Error::ForeignCheckpoints`](crate::Error::ForeignCheckpoints)), unless the other directory is gone.
    /// Default: the database's own directory.
    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directories.push(path.into());
        self
    }

    /// Waits for a follower at this socket: another process ([`Database::follow`](crate::Database::follow), or
    /// `heddle follow`) which keeps a copy of all data from the log that it is sent, and writes checkpoints in the
    /// database's place. Without one, and whenever it fails, the database writes them itself. The socket is
    /// created when the database is opened, for its owner only, and removed when it is closed. Without a log
    /// it does not listen. Default: no follower.
    #[must_use]
    pub fn follower_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.follower_socket = Some(path.into());
        self
    }

    /// # Errors
    /// The first option that is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        within("checkpoints.threads", self.threads.unwrap_or(1) as u64, 1, 64)?;
        within_real("checkpoints.seconds", self.seconds, 0.0, 1e9)?;
        within_real("checkpoints.spread", self.spread, 0.0, 1.0)?;
        // A checkpoint's manifest names them as text: another name could not be found again, and the log would be gone.
        match self.directories.iter().find(|path| path.to_str().is_none()) {
            None => Ok(()),
            Some(path) => {
                Err(invalid("checkpoints.directory", &path.display(), "a path that is valid UTF-8"))
            }
        }
    }
}
