//! Checkpoints that a follower writes: the database's orders, and its checks before it relies on the result.
//!
//! Invariants: whatever a follower does or fails to do, a checkpoint is made; by the database itself, if need be. So
//! the log does not grow for a follower's sake by more than a bound.

use super::Checkpointer;
use crate::diagnostics::work_time::WorkTime;
use crate::durability::checkpoint::{Content, Manifest, NewCheckpoint, Written};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::follower::{FollowerConnection, Ordered};
use crate::pipeline::statistics::Stage;

/// Bytes of log written while a follower is awaited, where the log's size is no reason for checkpoints.
const WAIT_BYTES: u64 = 256 << 20;

impl Checkpointer {
    /// The connection at which a follower is awaited; `None` if none is.
    pub(crate) fn follower_connection(&self) -> Option<&FollowerConnection> {
        self.follower_connection.as_ref()
    }

    /// The life of the thread that serves the follower.
    pub(crate) fn serve(&self, engine: &Engine) {
        if let Some(follower_connection) = &self.follower_connection {
            follower_connection.run(engine, &self.segments, &self.checkpoints);
        }
    }

    /// Orders a checkpoint from a follower, and names it; `None` if there is no follower, or it has failed.
    ///
    /// # Errors
    /// The log has failed, or the database is being closed.
    pub(super) fn make_elsewhere(&self, engine: &Engine) -> Result<Option<Manifest>> {
        let Some(follower_connection) = self
            .follower_connection
            .as_ref()
            .filter(|follower_connection| follower_connection.has_follower())
        else {
            return Ok(None);
        };
        let new = self.begin()?;
        let begun = self.segments.log_bytes();
        let wait_bytes = if self.settings.log_bytes > 0 { self.settings.log_bytes } else { WAIT_BYTES };
        let goes_on = || {
            let grown = self.segments.log_bytes() - begun;
            !self.is_stopped() && engine.progress().failure().is_none() && grown < wait_bytes
        };
        let outcome = match follower_connection.order(new.number(), new.resolved_directories()?, &goes_on) {
            Ordered::Failed => None,
            Ordered::Done { epoch, written } => {
                let named = self.name(engine, &new, epoch, written);
                named.inspect_err(|failure| follower_connection.give_up(failure)).ok()
            }
        };
        if outcome.is_some() {
            return Ok(outcome);
        }
        if self.is_stopped() {
            return Err(Error::Closed);
        }
        if let Some(failure) = engine.progress().failure() {
            return Err(failure);
        }
        // Should it be gone, it is let in again only when the database has done it itself.
        let _ = follower_connection.has_follower();
        // What it has left takes room that the database's own checkpoint needs; what stays, that one removes.
        let _ = self.checkpoints.remove_unnamed(new.number(), &self.settings.directories);
        Ok(None)
    }

    /// Looks at what a follower has written, makes it durable, and gives it its name.
    fn name(&self, engine: &Engine, new: &NewCheckpoint, epoch: u64, written: Written) -> Result<Manifest> {
        let work = WorkTime::begin();
        let tables = new.adopt(written, &|| !self.is_stopped())?;
        // The follower's copy was between two groups: nothing before is needed of the log, and the copy has nothing of
        // later groups. The log is durable through `epoch`: nothing else is sent.
        let manifest = new.finish(Content {
            first_epoch: epoch + 1,
            last_epoch: epoch,
            log_epoch: self.segments.last_epoch(),
            log_start: self.segments.start_before(epoch + 1),
            tables,
        });
        engine.clocks().add(Stage::Checkpoint, work);
        manifest
    }
}
