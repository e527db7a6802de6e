//! The state of the phased protocol: the columns that are split, the samples, and the columns chosen for the next
//! phase.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::super::{Phase, PhaseCounts, SplitChoice};
use super::classify::{Change, Classifier, Decision, JoinedReport, SplitReport};
use super::idle::Idle;
use super::sample::{Access, Candidate, RecordKey, Sampler, Samples};
use crate::base::atomics::{AtomicBool, Ordering};
use crate::storage::reconcile::{Wanted, begin_split, end_split, is_splittable};
use crate::storage::split_columns::{Quota, SplitSet};
use crate::storage::store::Store;
use crate::storage::table::TableId;
use crate::storage::worker_context::WorkerContext;
use crate::storage::write_set::{WriteSet, WriteView};
use crate::types::key::EncodedKey;

/// The most columns whose history is kept for the report.
const HISTORY: usize = 1_000;

/// The most columns whose bounds are known; beyond that all are forgotten.
const BOUNDS_MAX: usize = 256;

/// See the module's description.
pub(super) struct State {
    /// One for each worker context.
    samplers: Box<[CachePadded<Sampler>]>,
    just_joined: AtomicBool,
    idle: Idle,
    inner: Mutex<Inner>,
    /// The bounds that operations on contended columns ask for; of several, what is within all of them.
    bounds: Mutex<BTreeMap<(RecordKey, usize), Quota>>,
}

#[derive(Default)]
struct Inner {
    /// The columns that are split now.
    set: Option<Arc<SplitSet>>,
    classifier: Classifier,
    /// The columns that will be split in the next split phase.
    chosen: Vec<Wanted>,
    labels: Vec<Wanted>,
    /// The writes to split columns in this phase when their slices were last merged within it.
    merged_writes: Vec<(Candidate, u64)>,
    /// The number of committed calls when the present phase, or this turn of it, began.
    committed: u64,
    /// The number of the last split phase.
    phase: u64,
    counts: PhaseCounts,
}

impl State {
    pub(super) fn new(worker_contexts: usize) -> State {
        State {
            samplers: (0..worker_contexts).map(|_| CachePadded::new(Sampler::new())).collect(),
            just_joined: AtomicBool::new(false),
            idle: Idle::default(),
            bounds: Mutex::default(),
            inner: Mutex::new(Inner {
                counts: PhaseCounts { joined: 1, ..PhaseCounts::default() },
                classifier: Classifier::new(),
                ..Inner::default()
            }),
        }
    }

    /// Notes the bounds that writes to a record ask for: a split column keeps within them.
    pub(super) fn note_bounds(&self, writes: &WriteSet, position: usize, key: &[u8]) {
        let table = writes.touched()[position].table().id();
        writes.visit(position, |write| {
            if let WriteView::Bound { column, bounds: (low, high) } = write {
                let mut known = self.bounds.lock();
                if known.len() >= BOUNDS_MAX {
                    known.clear();
                }
                let record = RecordKey { table, key: EncodedKey::from(key) };
                let kept = known.entry((record, column)).or_insert((low, high));
                *kept = (kept.0.max(low), kept.1.min(high));
            }
            true
        });
    }

    fn bounds_of(&self, wanted: &Wanted) -> Option<Quota> {
        let record = RecordKey { table: wanted.table, key: wanted.key.clone() };
        self.bounds.lock().get(&(record, wanted.column)).copied().filter(|(low, high)| low <= high)
    }

    fn sampler(&self, worker_context: &WorkerContext) -> &Sampler {
        &self.samplers[worker_context.number()]
    }

    /// Samples a conflict: see [`Sampler::report_conflict`].
    pub(super) fn report_conflict(
        &self,
        worker_context: &WorkerContext,
        (table, key): (TableId, &[u8]),
        accesses: &[Access],
    ) {
        self.sampler(worker_context).report_conflict(table, key, accesses);
        self.idle.has_news();
    }

    /// Samples a stash: see [`Sampler::report_stash`].
    pub(super) fn report_stash(
        &self,
        worker_context: &WorkerContext,
        (table, key): (TableId, &[u8]),
        accesses: &[Access],
    ) {
        self.sampler(worker_context).report_stash(table, key, accesses);
        self.idle.has_news();
    }

    /// Samples operations on columns that are always split: see [`Sampler::report_operations`].
    pub(super) fn report_operations(
        &self,
        worker_context: &WorkerContext,
        (table, key): (TableId, &[u8]),
        accesses: &[Access],
    ) -> bool {
        let is_counted = self.sampler(worker_context).report_operations(table, key, accesses);
        self.idle.has_news();
        is_counted
    }

    /// See [`Phases::rest`](super::super::Phases::rest).
    pub(super) fn rest(&self, store: &Store, is_stopped: &dyn Fn() -> bool) {
        let has_nothing_to_do = || {
            !is_stopped()
                && self.samplers.iter().all(|sampler| sampler.is_empty())
                && self.inner.lock().classifier.is_at_rest()
        };
        if self.idle.rest(has_nothing_to_do) {
            // The next turn begins now: what has committed meanwhile without a conflict is no evidence about it.
            self.inner.lock().committed = store.committed();
        }
    }

    /// See [`Phases::wake`](super::super::Phases::wake).
    pub(super) fn wake(&self) {
        self.idle.wake();
    }

    fn drain(&self) -> Samples {
        let mut samples = Samples::default();
        self.samplers.iter().for_each(|sampler| sampler.drain_into(&mut samples));
        samples
    }

    pub(super) fn has_just_joined(&self) -> bool {
        // Relaxed: only the coordinator's thread and the log stage's use it, one after the other.
        self.just_joined.load(Ordering::Relaxed)
    }

    pub(super) fn end_joined(&self, store: &Store, lasted: Duration) -> bool {
        self.just_joined.store(false, Ordering::Relaxed);
        let samples = self.drain();
        let mut inner = self.inner.lock();
        inner.follow_changes(store);
        let committed = inner.committed_since(store);
        let report = JoinedReport { length: lasted, committed, samples };
        let decision = inner.classifier.end_of_joined(&report);
        inner.choose(&decision);
        decision.worth_splitting
    }

    pub(super) fn end_split(&self, store: &Store, lasted: Duration, stashed: u64) -> bool {
        let samples = self.drain();
        let mut inner = self.inner.lock();
        inner.follow_changes(store);
        let committed = inner.committed_since(store);
        let writes = inner.writes_so_far(store);
        inner.merged_writes.clear();
        let report = SplitReport { length: lasted, committed, stashed, samples, writes };
        let decision = inner.classifier.end_of_split(&report);
        inner.choose(&decision);
        decision.may_skip_joined && decision.worth_splitting
    }

    /// See [`Phases::change`](super::super::Phases::change).
    pub(super) fn change(&self, store: &Store, phase: Phase, epochs: (u64, u64), guard: &Guard) -> bool {
        let mut inner = self.inner.lock();
        if phase != Phase::Split {
            inner.reconcile(store, epochs.0, guard);
        }
        match phase {
            Phase::Joined => {
                self.just_joined.store(true, Ordering::Relaxed);
                inner.counts.joined += 1;
                true
            }
            Phase::Split | Phase::SplitAgain => {
                inner.split(store, epochs.1, guard, |wanted| self.bounds_of(wanted))
                    || phase == Phase::SplitAgain
            }
        }
    }

    /// See [`Phases::merge`](super::super::Phases::merge).
    pub(super) fn merge(&self, store: &Store, epochs: (u64, u64), guard: &Guard) {
        let mut inner = self.inner.lock();
        let Some(set) = inner.set.clone() else { return };
        inner.merged_writes = inner.writes_so_far(store);
        inner.reconcile(store, epochs.0, guard);
        let again = set.columns().iter().map(Wanted::from).collect();
        let chosen = std::mem::replace(&mut inner.chosen, again);
        inner.split(store, epochs.1, guard, |wanted| self.bounds_of(wanted));
        inner.chosen = chosen;
    }

    pub(super) fn label(&self, wanted: Wanted, on: bool) {
        let mut inner = self.inner.lock();
        inner.labels.retain(|label| !label.is_of_same_column(&wanted));
        if on {
            inner.labels.push(wanted);
        }
        let labels = inner.labels.iter().map(candidate).collect();
        inner.classifier.set_labels(labels);
        drop(inner);
        self.idle.has_news();
    }

    pub(super) fn report(&self) -> PhaseCounts {
        self.inner.lock().counts.clone()
    }
}

/// The classifier's word for what can be split.
fn candidate(wanted: &Wanted) -> Candidate {
    let record = RecordKey { table: wanted.table, key: wanted.key.clone() };
    Candidate { record, column: wanted.column as u16, operation: wanted.operation }
}

/// A classifier's candidate, as storage splits it.
fn wanted(candidate: &Candidate) -> Wanted {
    Wanted {
        table: candidate.record.table,
        key: candidate.record.key.clone(),
        column: usize::from(candidate.column),
        operation: candidate.operation,
    }
}

impl Inner {
    /// Has the classifier forget what may not be split, or cannot be any more.
    fn follow_changes(&mut self, store: &Store) {
        self.classifier.follow_changes(|record, column, operation| {
            let table = store.table(record.table)?;
            let column = usize::from(column);
            let is_there = column < table.definition().columns().len();
            let can_be =
                is_there && operation.is_none_or(|operation| is_splittable(&table, column, operation));
            can_be.then(|| table.split_policies().of(column))
        });
    }

    /// The number of calls that have committed since the last such request.
    fn committed_since(&mut self, store: &Store) -> u64 {
        let now = store.committed();
        now - std::mem::replace(&mut self.committed, now)
    }

    /// The number of operations on each split column in this phase so far.
    fn writes_so_far(&self, store: &Store) -> Vec<(Candidate, u64)> {
        let Some(set) = &self.set else { return Vec::new() };
        let all = || store.worker_contexts().all().map(WorkerContext::slices);
        let columns = set.columns().iter().enumerate();
        columns
            .map(|(number, column)| {
                let candidate = candidate(&Wanted::from(column));
                let before = self.merged_writes.iter().find(|(other, _)| *other == candidate);
                let writes: u64 = all().map(|slices| slices.writes(set.phase(), number)).sum();
                (candidate, writes + before.map_or(0, |(_, writes)| *writes))
            })
            .collect()
    }

    fn choose(&mut self, decision: &Decision) {
        let at = Instant::now();
        for Change { candidate, reason } in &decision.changes {
            let (from, to) = reason.treatments(candidate.operation);
            let choice = SplitChoice { at, wanted: wanted(candidate), from, to, why: reason.why() };
            self.counts.choices.push(choice);
        }
        let surplus = self.counts.choices.len().saturating_sub(HISTORY);
        self.counts.choices.drain(..surplus);
        self.chosen = decision.split.iter().map(wanted).collect();
    }

    /// Merges what is split into its records.
    fn reconcile(&mut self, store: &Store, epoch: u64, guard: &Guard) {
        let Some(set) = self.set.clone() else { return };
        if let Err(error) = end_split(store, &set, epoch, guard) {
            unreachable!("every slice has kept to its share of the room: {error}");
        }
        self.set = None;
        self.counts.reconciliation += 1;
        self.counts.columns.iter_mut().for_each(|(_, _, now)| *now = false);
    }

    /// Splits the chosen columns; returns true if anything is split now.
    fn split(
        &mut self,
        store: &Store,
        since: u64,
        guard: &Guard,
        bounds_of: impl Fn(&Wanted) -> Option<Quota>,
    ) -> bool {
        self.phase += 1;
        self.set = begin_split(store, (self.phase, since), &self.chosen, bounds_of, guard);
        let Some(set) = &self.set else { return false };
        self.counts.split += 1;
        for wanted in set.columns().iter().map(Wanted::from) {
            let columns = &mut self.counts.columns;
            match columns.iter().position(|(other, _, _)| *other == wanted) {
                Some(at) => (columns[at].1, columns[at].2) = (columns[at].1 + 1, true),
                None if columns.len() < HISTORY => columns.push((wanted, 1, true)),
                None => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::operation::Operation;
    use crate::storage::epoch::FIRST;

    #[test]
    fn a_conflict_a_label_and_a_wish_to_stop_end_the_rest_of_the_coordinator() {
        let (state, store) = (State::new(2), Store::new(FIRST, 2, false));
        let is_stopped = AtomicBool::new(false);
        let rests_until = |wake: &dyn Fn()| {
            thread::scope(|scope| {
                let rest = scope.spawn(|| state.rest(&store, &|| is_stopped.load(Ordering::SeqCst)));
                while !state.idle.rests() {
                    thread::yield_now();
                }
                wake();
                rest.join().expect("no panic");
            });
        };
        rests_until(&|| {
            is_stopped.store(true, Ordering::SeqCst);
            state.wake();
        });
        is_stopped.store(false, Ordering::SeqCst);
        let slot_guard = store.worker_contexts().take();
        let access = Access::Operation { column: 1, operation: Operation::Add };
        rests_until(&|| state.report_conflict(slot_guard.worker_context(), (7, b"key"), &[access]));
        // What was sampled keeps it awake until it has faded.
        state.rest(&store, &|| false);
        (0..200).for_each(|_| assert!(!state.end_joined(&store, Duration::from_millis(20))));
        let wanted =
            Wanted { table: 7, key: EncodedKey::from(&b"key"[..]), column: 1, operation: Operation::Add };
        rests_until(&|| state.label(wanted.clone(), true));
        // It is not to rest while there is a label.
        state.rest(&store, &|| false);
    }
}
