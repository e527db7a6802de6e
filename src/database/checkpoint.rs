//! Explicit checkpoints, and their reports.

use crate::database::Database;
use crate::error::{Error, Result};
use crate::pipeline::checkpoint::{CheckpointReport, CheckpointStatus, Checkpointer};
use crate::pipeline::nesting;

impl Database {
    /// Makes a checkpoint while all other work continues, and returns when it is complete: from then on the
    /// log before it is not needed, and is removed. Checkpoints are also made automatically: see
    /// [`CheckpointOptions::log_bytes`](crate::CheckpointOptions::log_bytes).
    ///
    /// ```no_run
    /// # let db = heddledb::Database::open("bank", heddledb::Options::default())?;
    /// let report = db.checkpoint()?;
    /// println!("{} records, {} bytes, in {:?}", report.records, report.bytes, report.time);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// It could not be written: the database continues with the checkpoint that it has. [`Error::Nested`] inside a
    /// transaction; [`Error::InvalidOption`] if nothing is logged.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        nesting::check("a checkpoint")?;
        self.shared.check_open()?;
        self.engine().updates_refused().map_or(Ok(()), Err)?;
        let Some(checkpointer) = self.shared.checkpointer() else {
            return Err(Error::InvalidOption {
                option: "durability",
                given: "none".to_string(),
                expected:
                    "async or group, for checkpoints: nothing is logged, so there is nothing to shorten"
                        .to_string(),
            });
        };
        checkpointer.make_now()
    }

    /// Returns the number of checkpoints made since the database was opened, and the reason for which the
    /// last attempt failed, if it did.
    pub fn checkpoints(&self) -> CheckpointStatus {
        self.shared.checkpointer().map(Checkpointer::status).unwrap_or_default()
    }
}
