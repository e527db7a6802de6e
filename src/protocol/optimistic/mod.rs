//! Optimistic concurrency control, after Silo's commit as Doppel's joined phases use it (Doppel, OSDI 2014, section 5.1
//! and figure 2).
//!
//! Calls run side by side and hold nothing; they note every record that they read, with its word, and every index node
//! in which they found a key missing or read a range. At commit they lock their write sets in one order, make the stamp
//! directly, and validate: what was read is unchanged, and locked by no other thread.
//!
//! - Operations that return nothing read only that their record is there: so two additions to one record wait for each
//!   other for some instructions, and neither is retried.
//! - A call that reads and then writes a record about which others have failed queues for it (`hot_rows.rs`).
//! - A call that has failed [`MAX_OPTIMISTIC_ATTEMPTS`] times runs alone: it closes the gate of the commit sections before
//!   its body begins, so that nothing it reads can change. So no call starves.
//!
//! Why it is serializable: at the moment between the last lock and the first look of the validation, the whole write
//! set is locked, and the whole read set is as it was read; the call takes effect as if all of it happened then.

use super::attempt::{Attempt, TRACKED};
use super::footprint::Footprint;
use super::hot_rows::TRACKED_AND_RESERVED;
use super::{Held, MAX_OPTIMISTIC_ATTEMPTS, Protocol, Try};
use crate::storage::commit::{CommitFailure, InOrder, LockedWrites};
use crate::storage::word::Stamp;

/// Commits an attempt that has written: apart, so that one which has only read needs little of the stack.
#[inline(never)]
fn commit_writes(attempt: &Attempt<'_>) -> Result<Stamp, CommitFailure> {
    let reads = attempt.reads().borrow();
    let validate = |taken: &LockedWrites<'_, '_>| {
        reads.still_holds(|record| taken.is_own(record), attempt.highest_seen()) || attempt.is_alone()
    };
    attempt.commit(&InOrder, validate)
}

/// The optimistic protocol, which is stateless.
pub(super) struct Optimistic;

impl Protocol for Optimistic {
    fn uses_footprints(&self) -> bool {
        false
    }

    fn begin(&self, attempt: &Attempt<'_>, _footprint: Option<&Footprint>, attempted: Try) {
        attempt.set_access(&TRACKED);
        if let Some(hot_rows) = attempt.hot_rows() {
            attempt.set_access(&TRACKED_AND_RESERVED);
            hot_rows.begin(attempt, attempted);
        }
        if attempted.number > MAX_OPTIMISTIC_ATTEMPTS {
            attempt.run_exclusively();
        }
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        if !attempt.workspace().borrow().writes.is_empty() {
            return commit_writes(attempt).map(Some);
        }
        if self.validate_reads(attempt) { Ok(None) } else { Err(CommitFailure::Conflict) }
    }

    #[inline]
    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        // No locks are held: a thread that is busy with a record conflicts.
        attempt.reads().borrow().still_holds(|_| false, attempt.highest_seen()) || attempt.is_alone()
    }

    fn end(&self, attempt: &Attempt<'_>) {
        attempt.end_exclusive();
        if let Some(hot_rows) = attempt.hot_rows() {
            hot_rows.end(attempt);
        }
    }

    fn end_group(&self, _held: &mut Held) {}
}
