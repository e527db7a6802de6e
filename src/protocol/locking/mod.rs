//! Strict two-phase locking with a central lock manager: the baseline of the DORA paper (VLDB 2010, section 3) and of
//! the SP paper (VLDB 2002).
//!
//! A call claims every key before it looks it up, and every range before it reads it ([`Access::claim`],
//! [`Access::range`]); it acquires its locks one by one, and releases all of them when it has committed or failed,
//! the youngest first. What is claimed becomes these locks ([`crate::lock`]):
//!
//! | claim | on the record | on the key ranges of its table or index | on table and database |
//! | --- | --- | --- | --- |
//! | whether a key has a row | IS (SIX where the call has declared that it writes it) | | IS (IX) |
//! | a key is read | S (likewise) | | IS (IX) |
//! | a key is changed | SIX | | IX |
//! | a key is deleted | X | | IX |
//! | a key is inserted | X | its point, first | IX |
//! | a range is read | S, as its keys are met | the range | IS |
//!
//! Nothing is below a record, so the matrix there has only these compatible modes: IS with all but X, SIX with IS. So
//! whether a row is there conflicts with its insert and its delete only.
//!
//! A record's name is its table and the hash of its key, so it can be locked before it is there, and after it was
//! removed. Secondary indexes are locked like tables.
//!
//! - A thread that meets a lock that does not go with its own waits, and a deadlock costs its youngest an attempt; or,
//!   by option, it releases at once (`LockConflict::NoWait`), [`ATTEMPTS_WITHOUT_WAITING`] times at most. Its start
//!   timestamp stays the same over all attempts, so it becomes the oldest at some time, which is never a victim: no
//!   call starves.
//! - A denied lock marks the attempt for abort: nothing can be claimed any more, whatever the body makes of the error,
//!   and its outcome is discarded.
//! - Waiting happens in bodies only, so no commit section, no room in the log and no latch of an index is held over it;
//!   and the transaction that is waited for has its slot already.
//!
//! Why it is serializable: from its first access to after its install a call holds a lock on everything that it has
//! read and written, on the keys that it did not find, and on the ranges in which it has looked. The epochs of
//! commits that depend on each other rise with them, because an epoch is read while the locks are held.

mod holding;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;

pub(super) use self::holding::Holding;
use super::attempt::{Access, Attempt, Claim, DIRECT};
use super::footprint::Footprint;
use super::{Held, LockConflict, Protocol, Settings, Try};
use crate::diagnostics::activity::{Activity, at};
use crate::error::Result;
use crate::lock::{LockManager, OnConflict};
use crate::storage::commit::{CommitFailure, Excluded};
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::storage::worker_context::Counters;

/// Number of attempts that abort at the first conflict; later attempts wait, so that the transaction does not starve.
const ATTEMPTS_WITHOUT_WAITING: u32 = 32;

/// Claims what it reads and writes; then reads are direct, because no thread can be writing.
static LOCKING: Access = Access {
    claim: Some(claim_key),
    range: Some(claim_range),
    read: DIRECT.read,
    missed: DIRECT.missed,
    reading: DIRECT.reading,
};

fn claim_key<'a>(attempt: &Attempt<'a>, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
    let _acquire = at(Activity::LockAcquire);
    let mut held = attempt.held().borrow_mut();
    let claimed = held.locking.claim_key(table, key, what);
    if claimed.is_err() && held.locking.is_writers(table, key, what) {
        held.denied_write = true;
    }
    claimed
}

fn claim_range<'a>(
    attempt: &Attempt<'a>,
    table: &'a TableCore,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> Result<()> {
    let _acquire = at(Activity::LockAcquire);
    attempt.held().borrow_mut().locking.claim_range(table, (low, high))
}

/// The locking protocol.
pub(super) struct Locking {
    manager: Arc<LockManager>,
    on_conflict: LockConflict,
}

impl Locking {
    pub(super) fn new(settings: &Settings) -> Locking {
        Locking { manager: Arc::new(LockManager::new()), on_conflict: settings.lock_conflict }
    }

    fn on_conflict(&self, attempted: Try) -> OnConflict {
        match self.on_conflict {
            LockConflict::NoWait if attempted.number <= ATTEMPTS_WITHOUT_WAITING => OnConflict::Abort,
            LockConflict::NoWait | LockConflict::Wait => OnConflict::Wait,
        }
    }
}

impl Protocol for Locking {
    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try) {
        attempt.set_access(&LOCKING);
        let mut held = attempt.held().borrow_mut();
        held.locking.begin(&self.manager, footprint, attempted.number == 1, self.on_conflict(attempted));
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        if attempt.held().borrow().locking.is_marked_for_abort() {
            return Err(CommitFailure::Conflict);
        }
        if attempt.workspace().borrow().writes.is_empty() {
            return Ok(None);
        }
        // There is nothing to validate: what was read is locked.
        attempt.commit(&Excluded, |_| true).map(Some)
    }

    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        // What it saw was locked, so it was possible; unless it continued without a lock that it had been denied.
        !attempt.held().borrow().locking.is_marked_for_abort()
    }

    fn end(&self, attempt: &Attempt<'_>) {
        let mut held = attempt.held().borrow_mut();
        held.denied_write = false;
        let release = at(Activity::LockRelease);
        let taken = held.locking.end();
        drop(release);
        let counters = &attempt.worker_context().counters;
        Counters::add(&counters.locks_row, taken.rows + taken.gap_locks);
        Counters::add(&counters.locks_higher, taken.higher);
    }

    fn end_group(&self, _held: &mut Held) {}
}
