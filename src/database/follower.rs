//! Following another process's database.

use std::path::Path;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pipeline::follower::{FollowerReport, follow};

impl Database {
    /// Follows the database in a directory, which another process has open with the same
    /// [`CheckpointOptions::follower_socket`](crate::CheckpointOptions::follower_socket), until that is closed: keeps a copy of its data, and writes its checkpoints.
    /// `reported` receives reports of its work at intervals, and returns false to end it. Of the options only
    /// the socket and the disk are used.
    ///
    /// ```no_run
    /// # use heddledb::{Database, Options};
    /// let options = Options::default().checkpoints(|checkpoints| checkpoints.follower_socket("bank/follower.socket"));
    /// let report = Database::follow("bank", &options, &mut |_| true)?;
    /// println!("{} checkpoints", report.checkpoints);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// No primary listens there, or it no longer does ([`Error::DatabaseLost`]): try again. The directory is
    /// not that database's; its checkpoint or its log is damaged.
    pub fn follow(
        directory: impl AsRef<Path>,
        options: &Options,
        reported: &mut dyn FnMut(&FollowerReport) -> bool,
    ) -> Result<FollowerReport> {
        let directory = directory.as_ref();
        let Some(socket) = &options.checkpoints.follower_socket else {
            return Err(Error::InvalidOption {
                option: "checkpoints.follower_socket",
                given: "nothing".to_string(),
                expected: "the socket at which the database waits for a follower".to_string(),
            });
        };
        follow(&options.disk, directory, socket, reported)
    }
}
