//! A thread's locks under `locking`: those of the running attempt, and the state that claims of more need.
//!
//! Invariants: all locks are of the one lock manager that the attempt began with; nothing is held between two
//! attempts; and once a claim was denied, every later one of the attempt is.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use super::super::attempt::Claim;
use super::super::footprint::{Footprint, Mode as Intent};
use crate::error::{Error, Result};
use crate::lock::{Denied, LockManager, LockName, Locks, Mode, OnConflict, Taken};
use crate::storage::index::hash::hash_key;
use crate::storage::table::{TableCore, TableId};

/// The lock of a transaction that has only looked whether a row is there. Of all modes on a record, only that of an insert or
/// a delete conflicts with it.
const PRESENCE: Mode = Mode::IntentionShared;
/// The lock of a transaction that changes a row: it is compatible with those that only look whether the row is there,
/// and with no reader and no other writer.
const CHANGE: Mode = Mode::SharedIntentionExclusive;

/// See the module's description.
#[derive(Default)]
pub(in crate::protocol) struct Holding {
    /// The lock manager of the database that the last attempt ran in; a thread may call several databases in turn.
    manager: Option<Arc<LockManager>>,
    locks: Locks,
    on_conflict: OnConflict,
    marked_for_abort: bool,
    /// The whole keys that the call has declared to write, by table and hash, in order.
    written: Vec<(TableId, u64)>,
}

impl Holding {
    /// Begins an attempt; `is_first`: of a new call, which is born now.
    pub(super) fn begin(
        &mut self,
        manager: &Arc<LockManager>,
        footprint: Option<&Footprint>,
        is_first: bool,
        on_conflict: OnConflict,
    ) {
        if !self.manager.as_ref().is_some_and(|own| Arc::ptr_eq(own, manager)) {
            self.manager = Some(Arc::clone(manager));
        }
        let start_timestamp = if is_first { manager.start_timestamp() } else { self.locks.start_timestamp() };
        self.locks.begin(start_timestamp);
        self.on_conflict = on_conflict;
        self.marked_for_abort = false;
        self.written.clear();
        let references = footprint.map_or(&[][..], |footprint| &footprint.references);
        let written = references.iter().filter(|reference| reference.whole && reference.mode != Intent::Read);
        self.written.extend(written.map(|reference| (reference.table, hash_key(&reference.key))));
        self.written.sort_unstable();
    }

    /// Claims a key.
    ///
    /// # Errors
    /// [`Error::Conflict`]: the attempt is marked for abort.
    pub(super) fn claim_key(&mut self, table: &TableCore, key: &[u8], what: Claim) -> Result<()> {
        // Not the table's own, which is zero where it has no hash index.
        let hash = hash_key(key);
        let mode = self.mode(table, hash, what);
        // A session that changes the table's definition has another one of the same records.
        let identity = table.records_identity();
        self.take(|manager, locks, on_conflict| {
            // The point first: a thread that reads a range takes it before the keys in it, so the two do not cross.
            if what == Claim::Insert {
                manager.acquire_point(locks, identity, key, on_conflict)?;
            }
            manager.acquire(locks, LockName::Record { table: identity, key: hash }, mode, on_conflict)
        })
    }

    /// Returns true if a claim locks as a writer: also one that reads first what it is going to write.
    pub(super) fn is_writers(&self, table: &TableCore, key: &[u8], what: Claim) -> bool {
        self.mode(table, hash_key(key), what).covers(CHANGE)
    }

    fn mode(&self, table: &TableCore, hash: u64, what: Claim) -> Mode {
        match what {
            // A thread that reads what it is going to write locks it as a writer at once: two that first read it together
            // could but wait for each other then.
            Claim::Read | Claim::Presence if self.written.binary_search(&(table.id(), hash)).is_ok() => {
                CHANGE
            }
            Claim::Presence => PRESENCE,
            Claim::Read => Mode::Shared,
            Claim::Write => CHANGE,
            Claim::Delete | Claim::Insert => Mode::Exclusive,
        }
    }

    /// Claims a range of keys.
    ///
    /// # Errors
    /// Same errors as [`claim_key`](Self::claim_key).
    pub(super) fn claim_range(
        &mut self,
        table: &TableCore,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<()> {
        self.take(|manager, locks, on_conflict| {
            manager.acquire_range(locks, table.records_identity(), range, on_conflict)
        })
    }

    /// Returns true if a claim was denied.
    pub(super) fn is_marked_for_abort(&self) -> bool {
        self.marked_for_abort
    }

    /// Releases all locks; returns the counts of those that were acquired.
    pub(super) fn end(&mut self) -> Taken {
        if let Some(manager) = &self.manager {
            manager.release(&mut self.locks);
        }
        self.locks.taken()
    }

    /// The call's start timestamp.
    #[cfg(test)]
    pub(super) fn start_timestamp(&self) -> u64 {
        self.locks.start_timestamp()
    }

    fn take(
        &mut self,
        acquire: impl FnOnce(&LockManager, &mut Locks, OnConflict) -> std::result::Result<(), Denied>,
    ) -> Result<()> {
        let granted = match &self.manager {
            Some(manager) if !self.marked_for_abort => acquire(manager, &mut self.locks, self.on_conflict),
            _ => Err(Denied::Conflict),
        };
        granted.map_err(|_| {
            self.marked_for_abort = true;
            Error::Conflict
        })
    }
}

/// Nothing is held when a thread ends, however it ends.
impl Drop for Holding {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Holding")
            .field("locks", &self.locks)
            .field("marked_for_abort", &self.marked_for_abort)
            .finish_non_exhaustive()
    }
}
