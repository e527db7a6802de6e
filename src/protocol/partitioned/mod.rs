//! The partitioned protocol, thread-to-data execution (DORA): each executor owns a part of every table, and runs what touches it.
//!
//! An executor runs a procedure's actions after it has granted their declared keys in its own lock table
//! ([`local`](super::local), `pipeline/partition`), and the locks last until the transaction's writes are installed. So
//! actions read without validation, with four exceptions, whose reads are validated at the commit as under `optimistic`:
//!
//! - **Secondary indexes.** Index records belong to no executor and are not locked. Where a table of the transaction has
//!   secondary indexes, all its reads are validated: a transaction that counts by an index and inserts by the count aborts
//!   if another did the same meanwhile.
//! - **Rows of another executor** that a transaction which writes at one executor only reads, by their whole keys.
//! - **Foreign keys.** A procedure that writes a table which has some, or which some refer to, reads rows of other executors.
//!   If one of them changes other rows, the procedure has locked everything at all executors.
//! - **Closures** declare nothing. They read on the caller's thread; at the commit they acquire the local locks of the rows
//!   that they write, at all executors at once, and validate while they hold them.
//!
//! # Invariants
//! - Only an executor runs a procedure's actions (asserted in debug builds), and an executor runs those actions whose keys it
//!   owns (asserted in `pipeline/partition/executor.rs`).
//! - Every commit locks the record words of what it writes, in order: closures and index reads find out at their validation
//!   that a commit is about to install.
//! - A transaction that has aborted [`MAX_OPTIMISTIC_ATTEMPTS`] times runs alone: a closure first locks everything that the
//!   executors own, then the gate of the commit sections is closed. So no transaction starves.
//!
//! Why it is serializable: consider the moment of a commit at which all its writes are locked and its validation has not
//! begun. What it read under local locks has not changed and cannot change: a procedure that would write it waits for the
//! local lock, and so does a closure before its commit section. What it read otherwise is validated to be unchanged. So the
//! transaction takes effect at that moment. Of two commits that depend on each other, one reads the global epoch while it
//! holds what the other waits for, or is seen by the other's validation: so epochs rise along dependencies, as the commit
//! contract demands.
//!
//! # Source
//! DORA (VLDB 2010), sections 4.1 and 4.2. The central lock manager sees inserts and deletes only (section 4.2.1): locking
//! the placeholder, or the record that is deleted, by its record word is counted as a row lock, and no higher lock is taken.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use super::attempt::{Attempt, DIRECT, TRACKED};
use super::footprint::{Footprint, Reference};
use super::local::local_lock::LocalLock;
use super::local::{Denied, ExternalLocks, Grant};
use super::{Held, MAX_OPTIMISTIC_ATTEMPTS, Protocol, Try};
use crate::storage::commit::{CommitFailure, InOrder, LockedWrites};
use crate::storage::foreign_keys::Reach;
use crate::storage::word::Stamp;
use crate::storage::write_set::WriteSet;

/// The protocol.
#[derive(Default)]
pub(super) struct Partitioned {
    external_locks: OnceLock<Arc<dyn ExternalLocks>>,
}

/// The local locks of a thread that runs a closure.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Holding {
    /// True if the running attempt declares nothing.
    is_closure: bool,
    /// The timestamp of the closure's first attempt.
    start_timestamp: u64,
    grant: Option<Grant>,
}

impl Partitioned {
    /// Acquires local locks for a closure.
    fn acquire(&self, attempt: &Attempt<'_>, locks: Vec<LocalLock>) -> Result<(), CommitFailure> {
        let Some(external) = self.external_locks.get() else { return Ok(()) };
        let start_timestamp = attempt.held().borrow().partitioned.start_timestamp;
        let log_credit = &mut attempt.workspace().borrow_mut().log_credit;
        match external.acquire(locks, start_timestamp, log_credit) {
            Ok(grant) => {
                attempt.held().borrow_mut().partitioned.grant = Some(grant);
                Ok(())
            }
            Err(Denied::Deadlock) => Err(CommitFailure::Conflict),
            Err(Denied::Refused(error)) => Err(CommitFailure::Refused(Box::new(error), Stamp::ZERO)),
        }
    }

    /// Acquires the locks on the rows that a closure writes.
    fn lock_written(&self, attempt: &Attempt<'_>) -> Result<(), CommitFailure> {
        let held = attempt.held().borrow();
        let has_locks = !held.partitioned.is_closure || held.partitioned.grant.is_some();
        drop(held);
        if has_locks {
            return Ok(());
        }
        let locks = locks_on_rows(&attempt.workspace().borrow().writes);
        if locks.is_empty() { Ok(()) } else { self.acquire(attempt, locks) }
    }
}

/// The locks on the rows that are written. Index records are validated and not locked.
fn locks_on_rows(writes: &WriteSet) -> Vec<LocalLock> {
    let rows = writes.touched().iter().filter(|touched| !touched.table().is_internal());
    // SAFETY: the call is pinned, so every record that it touched is alive.
    rows.map(|touched| LocalLock::of_written(touched.table(), unsafe { touched.record.as_record() }.key()))
        .collect()
}

impl Protocol for Partitioned {
    fn external_locks(&self) -> Option<&OnceLock<Arc<dyn ExternalLocks>>> {
        Some(&self.external_locks)
    }

    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try) {
        let is_direct = footprint.is_some_and(|footprint| {
            let is_locked =
                |one: &Reference| !one.has_secondary_indexes && !one.validated && one.reach == Reach::Nothing;
            footprint.references.iter().all(is_locked)
        });
        attempt.set_access(if is_direct { &DIRECT } else { &TRACKED });
        let is_closure = footprint.is_none();
        debug_assert!(
            is_closure
                || self.external_locks.get().is_none()
                || attempt.worker_context().executor().is_some(),
            "only executors run the actions of procedures"
        );
        let mut held = attempt.held().borrow_mut();
        held.partitioned.is_closure = is_closure;
        held.misrouted = false;
        if is_closure && attempted.number == 1 {
            held.partitioned.start_timestamp =
                self.external_locks.get().map_or(0, |external| external.start_timestamp());
        }
        drop(held);
        if attempted.number > MAX_OPTIMISTIC_ATTEMPTS {
            // If the locks are refused, because the database is being closed or its log has failed, the commit is refused,
            // too. The gate stays open then: the commit requests locks of executors, which would wait for the gate.
            if !is_closure || self.acquire(attempt, vec![LocalLock::on_everything()]).is_ok() {
                attempt.run_exclusively();
            }
        }
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        if attempt.workspace().borrow().writes.is_empty() {
            return if self.validate_reads(attempt) { Ok(None) } else { Err(CommitFailure::Conflict) };
        }
        self.lock_written(attempt)?;
        let reads = attempt.reads().borrow();
        let is_noted = attempt.is_tracked() && !attempt.is_alone();
        let validate = |taken: &LockedWrites<'_, '_>| {
            !is_noted || reads.still_holds(|record| taken.is_own(record), attempt.highest_seen())
        };
        Ok(Some(attempt.commit(&InOrder, validate)?))
    }

    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        let is_noted = attempt.is_tracked() && !attempt.is_alone();
        // It has locked no record: every busy record word is a conflict.
        !is_noted || attempt.reads().borrow().still_holds(|_| false, attempt.highest_seen())
    }

    /// A misrouted transaction is not retried here: it is routed again.
    fn is_stashed(&self, attempt: &Attempt<'_>) -> bool {
        attempt.held().borrow().misrouted
    }

    fn end(&self, attempt: &Attempt<'_>) {
        attempt.end_exclusive();
        if let (Some(external), Some(grant)) =
            (self.external_locks.get(), attempt.held().borrow_mut().partitioned.grant.take())
        {
            external.release(grant, &mut attempt.workspace().borrow_mut().log_credit);
        }
    }

    fn end_group(&self, _held: &mut Held) {}
}
