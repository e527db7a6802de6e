//! Snapshots that several sessions read from.
//!
//! # Invariants
//! - A snapshot that is imported is durable, as is every one that a session reads from: it was opened by the session that has
//!   exported it.
//! - A session that imports one has not accessed anything in its transaction, so it is as one that has just opened a snapshot.
//! - Until its first write a session that shares a snapshot reads from no other: neither because of a prediction
//!   (`lock::hot_rows`), nor when the snapshot was released for memory or does not have a table as it is now. Then it fails.

use std::sync::Arc;

use super::waiting::block_on;
use super::{Session, Stop};
use crate::error::Result;
use crate::pipeline::snapshots::Registered;
use crate::protocol::attempt::Need;

/// The snapshot from which a session's transaction reads until its first write, so that other sessions can
/// read from it, too. As long as it exists, the versions of rows that it needs are kept, as they are for an
/// open transaction.
#[derive(Clone)]
pub struct ExportedSnapshot {
    snapshot: Arc<Registered>,
}

impl std::fmt::Debug for ExportedSnapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExportedSnapshot").field("epoch", &self.snapshot.epoch()).finish()
    }
}

impl Session {
    /// The snapshot from which the open transaction reads until its first write; `None` once it has written.
    ///
    /// # Errors
    /// [`Error::NoTransaction`](crate::Error::NoTransaction); the reason for which the transaction was marked for abort.
    pub fn export_snapshot(&mut self) -> Result<Option<ExportedSnapshot>> {
        self.check_transaction()?;
        if self.is_current {
            return Ok(None);
        }
        if self.snapshot.is_none() {
            block_on(self.go_on_after(Stop::Needs(Need::Snapshot), &mut None))?;
        }
        self.is_snapshot_shared = self.snapshot.is_some();
        Ok(self.snapshot.clone().map(|snapshot| ExportedSnapshot { snapshot }))
    }

    /// Returns true if the open transaction has read or written, so that it can import no snapshot.
    pub fn has_snapshot(&self) -> bool {
        self.is_current || self.snapshot.is_some()
    }

    /// Makes the open transaction read from another session's snapshot until its first write. Returns false, and does
    /// nothing, if it has read or written already, or if the snapshot is of another database.
    ///
    /// # Errors
    /// Same errors as [`export_snapshot`](Self::export_snapshot);
    /// [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld).
    pub fn import_snapshot(&mut self, exported: &ExportedSnapshot) -> Result<bool> {
        self.check_transaction()?;
        let is_own = std::ptr::eq(exported.snapshot.engine(), self.shared.engine());
        if self.has_snapshot() || !is_own {
            return Ok(false);
        }
        exported.snapshot.check()?;
        self.snapshot = Some(exported.snapshot.clone());
        self.is_snapshot_shared = true;
        Ok(true)
    }
}
