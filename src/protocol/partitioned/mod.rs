//! Thread-to-data execution (DORA, VLDB 2010): each executor owns a part of every table, and runs what touches it.
//!
//! Calls of procedures come here with what they declare locked by the executors that own it
//! ([`local`](super::local), `pipeline/partition`), from before their bodies until their writes are installed. So they
//! read directly, with two exceptions, which are noted and validated at the commit as under an optimistic protocol:
//!
//! - **Secondary indexes** are routed by nobody and locked by nobody: where a call's tables have one, all that it reads is
//!   noted. Who counts by an index and inserts by what was counted fails if somebody else did so meanwhile.
//! - **Closures** declare nothing. They read on their caller's thread and note everything; at their commit they lock the
//!   rows that they write, of all executors concerned at once, and validate while they hold them.
//!
//! Every commit takes what it writes, in order: closures and index reads must see at their validation who is about to
//! install. A call that has failed [`ATTEMPTS_IN_COMPANY`] times runs alone: a closure first locks everything that the
//! executors own, then the gate of the commit sections is closed. So no call starves.
//!
//! Why it is serializable: consider the moment of a commit at which all that it writes is taken and its validation has
//! not begun. What it has read under local locks nobody has changed since, or can change: a procedure that would write
//! it waits for the lock, and so does a closure before its commit section. What it has read otherwise is validated to
//! be as it was. So the call takes effect as if all of it happened then. Of two commits that depend on each other, one
//! of them reads the global epoch while it holds what the other waits for, or is seen by the other's validation: so
//! epochs rise along dependencies, as one contract demands.
//!
//! The central lock manager sees inserts and deletes only (DORA, section 4.2.1): the reservation of the placeholder or of
//! the record that goes, which is its word, is counted as a row lock; no higher lock is ever taken.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use super::attempt::{Attempt, DIRECT, TRACKED};
use super::footprint::Footprint;
use super::local::claim::Want;
use super::local::{Denied, Desk, Grant};
use super::{ATTEMPTS_IN_COMPANY, Held, Protocol, Try};
use crate::storage::commit::{CommitFailure, InOrder, Taken};
use crate::storage::word::Stamp;
use crate::storage::worker_context::Counters;
use crate::storage::write_set::{WriteSet, WriteView};

/// The protocol.
#[derive(Default)]
pub(super) struct Partitioned {
    desk: OnceLock<Arc<dyn Desk>>,
}

/// What a thread holds that runs a closure.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Holding {
    /// Whether the running attempt declares nothing.
    is_closure: bool,
    /// When the closure was first tried.
    start_timestamp: u64,
    grant: Option<Grant>,
}

impl Partitioned {
    /// Locks for who is no executor.
    fn lock(&self, attempt: &Attempt<'_>, wants: Vec<Want>) -> Result<(), CommitFailure> {
        let Some(desk) = self.desk.get() else { return Ok(()) };
        let start_timestamp = attempt.held().borrow().partitioned.start_timestamp;
        let locked = desk.lock(wants, start_timestamp, &mut attempt.workspace().borrow_mut().log_credit);
        match locked {
            Ok(grant) => {
                attempt.held().borrow_mut().partitioned.grant = Some(grant);
                Ok(())
            }
            Err(Denied::Deadlock) => Err(CommitFailure::Conflict),
            Err(Denied::Refused(error)) => Err(CommitFailure::Refused(error, Stamp::ZERO)),
        }
    }

    /// Locks what a closure is going to write.
    fn lock_written(&self, attempt: &Attempt<'_>) -> Result<(), CommitFailure> {
        let held = attempt.held().borrow();
        let has_locks = !held.partitioned.is_closure || held.partitioned.grant.is_some();
        drop(held);
        if has_locks {
            return Ok(());
        }
        let wants = wants(&attempt.workspace().borrow().writes);
        if wants.is_empty() { Ok(()) } else { self.lock(attempt, wants) }
    }
}

/// The rows that are written. Index records are validated, and not locked.
fn wants(writes: &WriteSet) -> Vec<Want> {
    let rows = writes.touched().iter().filter(|touched| !touched.table().is_internal());
    // SAFETY: the call is pinned, so every record that it touched is alive.
    rows.map(|touched| Want::of_written(touched.table(), unsafe { touched.record.as_record() }.key()))
        .collect()
}

/// How many rows come in or go.
fn rows_reserved(writes: &WriteSet) -> u64 {
    let stays = |position: usize| {
        writes.visit(position, |write| !matches!(write, WriteView::Insert | WriteView::Delete))
    };
    let rows = writes.touched().iter().enumerate().filter(|(_, touched)| !touched.table().is_internal());
    rows.filter(|(position, _)| !stays(*position)).count() as u64
}

impl Protocol for Partitioned {
    fn desk(&self) -> Option<&OnceLock<Arc<dyn Desk>>> {
        Some(&self.desk)
    }

    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try) {
        let is_direct = footprint
            .is_some_and(|footprint| footprint.references.iter().all(|one| !one.unrouted && !one.elsewhere));
        attempt.set_access(if is_direct { &DIRECT } else { &TRACKED });
        let is_closure = footprint.is_none();
        let mut held = attempt.held().borrow_mut();
        held.partitioned.is_closure = is_closure;
        held.misled = false;
        if is_closure && attempted.number == 1 {
            held.partitioned.start_timestamp = self.desk.get().map_or(0, |desk| desk.start_timestamp());
        }
        drop(held);
        if attempted.number > ATTEMPTS_IN_COMPANY {
            // What is not granted, because the database is being closed or its log has failed, is refused at the commit. No
            // gate is closed then: the commit asks executors for locks, and they would wait before it.
            if !is_closure || self.lock(attempt, vec![Want::of_everything()]).is_ok() {
                attempt.run_alone();
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
        let validate = |taken: &Taken<'_, '_>| {
            !is_noted || reads.still_holds(|record| taken.is_own(record), attempt.highest_seen())
        };
        let reserved = rows_reserved(&attempt.workspace().borrow().writes);
        let stamp = attempt.commit(&InOrder, validate)?;
        Counters::add(&attempt.worker_context().counters.locks_row, reserved);
        Ok(Some(stamp))
    }

    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        let is_noted = attempt.is_tracked() && !attempt.is_alone();
        // Nothing is taken: whoever is busy with a record is a rival.
        !is_noted || attempt.reads().borrow().still_holds(|_| false, attempt.highest_seen())
    }

    /// A call that was misled does not end here: it is routed anew.
    fn is_stashed(&self, attempt: &Attempt<'_>) -> bool {
        attempt.held().borrow().misled
    }

    fn end(&self, attempt: &Attempt<'_>) {
        attempt.let_others_in();
        if let (Some(desk), Some(grant)) =
            (self.desk.get(), attempt.held().borrow_mut().partitioned.grant.take())
        {
            desk.release(grant, &mut attempt.workspace().borrow_mut().log_credit);
        }
    }

    fn end_group(&self, _held: &mut Held) {}
}
