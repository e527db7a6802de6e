//! Phase reconciliation, after Narula, Cutler, Kohler and Morris, "Phase Reconciliation for Contended In-Memory
//! Transactions" (Doppel, OSDI 2014).
//!
//! In joined phases calls run as under Silo's optimistic concurrency control (section 5.1). In split phases contended
//! columns of records are split: each worker context changes a slice of its own by the column's one selected operation,
//! which commutes with itself and returns nothing; whatever else touches a split column is stashed until the next joined
//! phase (section 5.2). At the end of a split phase the slices are merged into the records (section 5.3).
//!
//! Differences from the paper:
//! - Columns are split, not whole records. Several columns of one row can be split for different operations, and the
//!   row's other columns are read and written as usual.
//! - Split-phase transactions are durable like all others.
//! - Overflow is still detected exactly, because each slice has an escrow quota of its column's value range.
//! - A phase change needs no acknowledgment from each thread, because a phase covers commit sections, not procedure
//!   bodies (`crate::storage::epoch`, the gate).
//! - A column stays split only if that raises the commit rate (`classify/trial.rs`), unless a label or its policy asks for it
//!   (`classify/policies.rs`).
//!
//! Why it is serializable: a transaction commits within one phase, since phases change only while no thread is in a
//! commit section. In a joined phase it is optimistic. In a split phase its operations on split columns return nothing and
//! commute with all others' operations on them, so the serial order that its other reads and writes determine is valid for
//! these operations, too (section 5.6). A transaction whose body spans a phase change fails validation and retries if it
//! has read a record that was split or merged since, because that changes the record's word. It also retries if it has read
//! a row of a split record in an earlier split phase, where other columns were hidden, even if the row has not changed.

mod classify;
mod hidden;
mod idle;
mod phase_state;
mod sample;

use std::time::Duration;

use crossbeam_epoch::Guard;
use smallvec::SmallVec;

use self::classify::Classifier;
use self::hidden::{SPLIT_AWARE, SPLIT_AWARE_AND_RESERVED};
use self::phase_state::State;
use self::sample::Access;
use super::attempt::Attempt;
use super::footprint::Footprint;
use super::{Held, MAX_OPTIMISTIC_ATTEMPTS, Phase, PhaseCounts, Phases, Protocol, Settings, Try};
use crate::base::atomics::Ordering;
use crate::storage::commit::{CommitFailure, LockedWrites, WriteLocking};
use crate::storage::read_set::Part;
use crate::storage::reconcile::{Wanted, is_splittable};
use crate::storage::split_columns::SplitColumn;
use crate::storage::split_policy::SplitPolicy;
use crate::storage::store::Store;
use crate::storage::word::Stamp;
use crate::storage::worker_context::WorkerContext;
use crate::storage::write_set::{WriteSet, WriteView};

/// The most rows of one commit of which operations are reported.
const REPORTED_ROWS_MAX: usize = 64;

/// The phased protocol.
pub(super) struct Phased {
    length: Duration,
    state: State,
}

impl Phased {
    pub(super) fn new(settings: &Settings) -> Phased {
        Phased { length: settings.phase, state: State::new(settings.max_worker_contexts) }
    }

    /// Commits an attempt that has written: apart, so that one which has only read needs little of the stack.
    #[inline(never)]
    fn commit_writes(&self, attempt: &Attempt<'_>) -> Result<Stamp, CommitFailure> {
        let reads = attempt.reads().borrow();
        let taking = Splitting { state: &self.state, worker_context: attempt.worker_context() };
        let validate = |taken: &LockedWrites<'_, '_>| {
            loop {
                let holds = reads.still_holds(|record| taken.is_own(record), attempt.highest_seen());
                if holds && reads.is_of_phase(|| phase_now(attempt)) || attempt.is_alone() {
                    return true;
                }
                // An operation on a slice locks nothing, and need not fail because another column of its row is being
                // changed.
                if holds || !taken.is_none() || !reads.wait_for_locked_records() {
                    return false;
                }
            }
        };
        let committed = attempt.commit(&taking, validate);
        match committed {
            Err(CommitFailure::Conflict) => {
                drop(reads);
                self.report_conflict(attempt);
            }
            Ok(_) if attempt.store().splits().notes_operations() => self.report_operations(attempt),
            _ => {}
        }
        committed
    }

    /// Samples the conflict that failed a commit's validation: the first record of the read set that has changed.
    #[cold]
    fn report_conflict(&self, attempt: &Attempt<'_>) {
        let workspace = attempt.workspace().borrow();
        let Some((record, part)) = attempt.reads().borrow().first_changed() else { return };
        let Some(position) = workspace.writes.position(record) else { return };
        let mut accesses = accesses(&workspace.writes, position);
        if part == Part::Row {
            accesses.push(Access::Record);
        }
        let touched = &workspace.writes.touched()[position];
        // SAFETY: the call is pinned, so every record that it has read is alive.
        let key = unsafe { record.as_record() }.key();
        self.state.note_bounds(&workspace.writes, position, key);
        self.state.report_conflict(attempt.worker_context(), (touched.table().id(), key), &accesses);
    }

    /// Samples the operations of a commit on columns that are to be split wherever an operation meets them, and are not.
    #[cold]
    fn report_operations(&self, attempt: &Attempt<'_>) {
        let workspace = attempt.workspace().borrow();
        let writes = &workspace.writes;
        for (position, touched) in writes.touched().iter().enumerate().take(REPORTED_ROWS_MAX) {
            let table = touched.table();
            if !table.split_policies().has_always() {
                continue;
            }
            let set = attempt.store().splits().current(attempt.guard());
            let split = set.map_or(&[][..], |set| set.of_record(touched.record).1);
            let mut operations = accesses(writes, position);
            operations.retain(|access| match *access {
                Access::Operation { column, .. } => {
                    let column = usize::from(column);
                    table.split_policies().of(column) == SplitPolicy::Always
                        && split.iter().all(|split| split.column != column)
                }
                _ => false,
            });
            if operations.is_empty() {
                continue;
            }
            // SAFETY: the call is pinned, so every record that it touched is alive.
            let key = unsafe { touched.record.as_record() }.key();
            if self.state.report_operations(attempt.worker_context(), (table.id(), key), &operations) {
                self.state.note_bounds(writes, position, key);
            }
        }
    }
}

/// The number of the current split phase, if this is one.
fn phase_now(attempt: &Attempt<'_>) -> Option<u64> {
    attempt.store().splits().current(attempt.guard()).map(|set| set.phase())
}

/// Returns true if what an attempt has read was a possible state, and is of this phase.
#[inline]
fn reads_hold(attempt: &Attempt<'_>) -> bool {
    let reads = attempt.reads().borrow();
    // The phase is checked last: the whole read set was valid at one moment, and the phase has not changed since.
    reads.still_holds(|_| false, attempt.highest_seen()) && reads.is_of_phase(|| phase_now(attempt))
        || attempt.is_alone()
}

/// The accesses that a commit makes to the record at this position.
fn accesses(writes: &WriteSet, position: usize) -> SmallVec<[Access; 4]> {
    let table = writes.touched()[position].table();
    let mut accesses = SmallVec::new();
    writes.visit(position, |write| {
        accesses.extend(match write {
            WriteView::Operate { column, operation, .. } if is_splittable(table, column, operation) => {
                Some(Access::Operation { column: column as u16, operation })
            }
            WriteView::Operate { column, .. } | WriteView::Set { column } => {
                Some(Access::Column(column as u16))
            }
            // The operation before it says what is done to the column.
            WriteView::Bound { .. } => None,
            WriteView::Insert | WriteView::Delete => Some(Access::Record),
        });
        true
    });
    accesses
}

/// Locks a commit's write set, and samples the conflicts and stashes that it meets.
struct Splitting<'p> {
    state: &'p State,
    worker_context: &'p WorkerContext,
}

impl WriteLocking for Splitting<'_> {
    const EXCLUDED: bool = false;
    const SPLITS: bool = true;

    #[cold]
    fn on_conflict_with_rival(&self, writes: &WriteSet, position: usize) {
        let touched = &writes.touched()[position];
        // SAFETY: the call is pinned, so every record that it touched is alive.
        let key = unsafe { touched.record.as_record() }.key();
        self.state.note_bounds(writes, position, key);
        let accesses = accesses(writes, position);
        self.state.report_conflict(self.worker_context, (touched.table().id(), key), &accesses);
    }

    #[cold]
    fn on_split_column(&self, writes: &WriteSet, position: usize, _columns: &[SplitColumn]) {
        let touched = &writes.touched()[position];
        // SAFETY: as above.
        let key = unsafe { touched.record.as_record() }.key();
        self.state.note_bounds(writes, position, key);
        let accesses = accesses(writes, position);
        self.state.report_stash(self.worker_context, (touched.table().id(), key), &accesses);
    }
}

impl Protocol for Phased {
    fn uses_footprints(&self) -> bool {
        false
    }

    fn begin(&self, attempt: &Attempt<'_>, _footprint: Option<&Footprint>, attempted: Try) {
        attempt.set_access(&SPLIT_AWARE);
        if let Some(hot_rows) = attempt.hot_rows() {
            attempt.set_access(&SPLIT_AWARE_AND_RESERVED);
            hot_rows.begin(attempt, attempted);
        }
        // Relaxed: bodies set it on this thread, or on threads that they have joined.
        attempt.worker_context().met_hidden.store(false, Ordering::Relaxed);
        if attempted.number > MAX_OPTIMISTIC_ATTEMPTS {
            attempt.run_exclusively();
        }
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        if self.is_stashed(attempt) {
            return Err(CommitFailure::Stash);
        }
        if !attempt.workspace().borrow().writes.is_empty() {
            return self.commit_writes(attempt).map(Some);
        }
        if reads_hold(attempt) { Ok(None) } else { Err(CommitFailure::Conflict) }
    }

    #[inline]
    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        !self.is_stashed(attempt) && reads_hold(attempt)
    }

    #[inline]
    fn is_stashed(&self, attempt: &Attempt<'_>) -> bool {
        attempt.worker_context().met_hidden.load(Ordering::Relaxed)
    }

    fn end(&self, attempt: &Attempt<'_>) {
        attempt.end_exclusive();
        if let Some(hot_rows) = attempt.hot_rows() {
            hot_rows.end(attempt);
        }
    }

    fn end_group(&self, _held: &mut Held) {}

    fn phases(&self) -> Option<&dyn Phases> {
        Some(self)
    }
}

impl Phases for Phased {
    fn length(&self) -> Duration {
        self.length
    }

    fn has_just_joined(&self) -> bool {
        self.state.has_just_joined()
    }

    fn end_joined(&self, store: &Store, lasted: Duration) -> bool {
        self.state.end_joined(store, lasted)
    }

    fn rest(&self, store: &Store, is_stopped: &dyn Fn() -> bool) {
        self.state.rest(store, is_stopped);
    }

    fn wake(&self) {
        self.state.wake();
    }

    fn should_end_split_early(&self, stashed: u64, committed: u64, all_stashed: bool) -> bool {
        Classifier::should_end_split_early(stashed, committed, all_stashed)
    }

    fn end_split(&self, store: &Store, lasted: Duration, stashed: u64) -> bool {
        self.state.end_split(store, lasted, stashed)
    }

    fn change(&self, store: &Store, phase: Phase, epochs: (u64, u64), guard: &Guard) -> bool {
        self.state.change(store, phase, epochs, guard)
    }

    fn merge(&self, store: &Store, epochs: (u64, u64), guard: &Guard) {
        self.state.merge(store, epochs, guard);
    }

    fn label(&self, wanted: Wanted, on: bool) {
        self.state.label(wanted, on);
    }

    fn report(&self) -> PhaseCounts {
        self.state.report()
    }
}
