//! An executor's thread: it takes work from its queue, grants local locks, runs actions, parks requests and releases locks.
//!
//! # Invariants
//! - **Only the executor touches its partition.** A body runs on the executor that owns what it declares; debug builds
//!   assert it before each run ([`Executor::assert_owner`]). Exceptions: actions on rows of several executors run on
//!   one of them while all hold the locks for them, and closures install on their own threads while the executors hold
//!   their locks.
//! - The executor blocks on its queue only, and like every worker on log space. A request that conflicts is parked in the
//!   lock table and granted when its blockers have ended.
//! - What this executor has to tell others is sent before it runs any body, because that may take long or need them.
//! - While the lock table is idle, the transactions of a batch run without entries in it: each one ends before the next one
//!   begins.
//!
//! # Concurrency
//! Everything in [`Executor`] belongs to its thread. Other threads reach it through
//! [`executor_queues`](super::executor_queues).
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.3.

use std::borrow::Borrow;
use std::mem::take;
use std::ops::RangeInclusive;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Executors;
use super::batch::{Batch, Incoming, Sink};
use super::executor_queues::Taken;
use super::external_locks::ExternalRequest;
use super::flow_graph::{Flow, Phase};
use super::pins::Pins;
use super::repartitioning::Repartitioning;
use super::resource_manager::RequestSampler;
use crate::diagnostics::activity::{Activity, at};
use crate::diagnostics::work_time::WorkTime;
use crate::pipeline::call::Output;
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Outcome;
use crate::pipeline::output::Finished;
use crate::pipeline::statistics::Stage;
use crate::pipeline::worker_thread::{GROUP_CALLS, GroupScratch, Pending, execute_group};
use crate::protocol::Held;
use crate::protocol::footprint::{Footprint, Reference};
use crate::protocol::local::OwnerId;
use crate::protocol::local::local_lock::{LocalLock, is_locked, partition_hash_of};
use crate::protocol::local::lock_table::{Acquired, LocalLockTable, LockRequest, Released, Waiting};
use crate::protocol::local::partition_map::{Route, equal_starts, range_of};
use crate::protocol::local::wait_edges::{Entry, Victim};
use crate::storage::worker_context::{Counters, SlotGuard};

/// An entry of an executor's queue.
pub(super) enum Work {
    /// A transaction of this executor alone.
    Whole(Box<Incoming>),
    /// Transactions of a group, all of this executor alone.
    Batch(Box<Batch>),
    /// A phase of a transaction over several executors.
    Phase(Arc<Phase>),
    /// Locks for a thread that is no executor.
    External(Arc<ExternalRequest>),
    /// The executor's range changes: everything behind this was routed by the new map, and waits until all executors
    /// concerned have drained.
    Repartitioning(Arc<Repartitioning>),
}

/// An event at another executor.
pub(super) enum Notice {
    /// The owner has ended: its locks are released.
    Ended(OwnerId),
    /// The owner is the victim of a deadlock: its parked request is canceled.
    MarkedForAbort(OwnerId),
    /// A phase starts whose locks are held.
    Run(Arc<Phase>),
    /// The turn of this step of a serial phase.
    Step(Arc<Phase>, usize),
}

/// An executor: its slot, its lock table, and its work in progress.
pub(super) struct Executor<'e> {
    pub(super) engine: &'e Engine,
    pub(super) executors: &'e Executors,
    pub(super) number: usize,
    pub(super) slot_guard: SlotGuard<'e>,
    pub(super) held: Held,
    scratch: GroupScratch,
    locks: LocalLockTable<Work>,
    pub(super) pins: Pins,
    /// The partition hashes that it owns: a change takes effect when the executor has drained.
    owned: RangeInclusive<u64>,
    /// Granted transactions that will run together.
    #[expect(clippy::vec_box, reason = "they come in boxes, and are large")]
    granted: Vec<Box<Incoming>>,
    /// Owners whose locks are to be released here.
    pub(super) ended: Vec<OwnerId>,
    /// Notices for each executor that have not been sent.
    notices: Vec<Vec<Notice>>,
    /// Transactions that have ended in this turn.
    left: usize,
    finished: Vec<Finished>,
    wrote: bool,
    /// Chooses the requests that are counted for the resource manager.
    sampler: RequestSampler,
    /// Transactions that have ended are dropped last: with one its procedure may go, and with that the last handle of the
    /// database.
    dropped_last: Vec<Ended>,
}

/// The numbers of misrouted transactions in their batch.
type Misrouted = SmallVec<[usize; 4]>;

enum Ended {
    Whole { _incoming: Box<Incoming> },
    Flow { _flow: Arc<Flow> },
}

/// The life of an executor's thread.
pub(crate) fn run(engine: &Arc<Engine>, executors: &Arc<Executors>, number: usize) {
    let mut executor = Executor {
        engine,
        executors,
        number,
        slot_guard: engine.store().worker_contexts().take(),
        held: Held::default(),
        scratch: GroupScratch::default(),
        locks: LocalLockTable::default(),
        pins: Pins::default(),
        owned: range_of(&equal_starts(executors.len()), number),
        granted: Vec::new(),
        ended: Vec::new(),
        notices: (0..executors.len()).map(|_| Vec::new()).collect(),
        left: 0,
        finished: Vec::new(),
        wrote: false,
        sampler: RequestSampler::default(),
        dropped_last: Vec::new(),
    };
    let mut taken = Taken::default();
    let worker_context = executor.slot_guard.worker_context();
    worker_context.be_executor(number);
    engine.show(worker_context, Activity::Handover, || {
        while executors.queues.take(number, &mut taken) {
            let work = WorkTime::begin();
            executor.work(&mut taken);
            engine.clocks().add(Stage::Execute, work);
            executor.deliver();
        }
    });
}

impl Executor<'_> {
    fn work(&mut self, taken: &mut Taken<Work, Notice>) {
        for notice in taken.notices.drain(..) {
            match notice {
                Notice::Ended(owner) => self.ended.push(owner),
                Notice::MarkedForAbort(owner) => self.abort_parked(owner),
                Notice::Run(phase) => self.run_phase(phase),
                Notice::Step(phase, number) => self.run_steps(phase, number),
            }
            self.release_ended();
        }
        for work in taken.incoming.drain(..) {
            self.take_in(work);
            self.release_ended();
        }
        self.run_granted();
        self.send_notices();
        // Last: as long as a transaction is active, no executor ends.
        let left = take(&mut self.left);
        if left > 0 {
            self.executors.queues.leave(left);
        }
    }

    /// Sends the notices that are collected.
    pub(super) fn send_notices(&mut self) {
        for (executor, notices) in
            self.notices.iter_mut().enumerate().filter(|(_, notices)| !notices.is_empty())
        {
            self.executors.queues.notify_all(executor, notices);
        }
    }

    /// Tells another executor something, before the next body or at the end of this turn: one wake-up for all of it.
    pub(super) fn notify(&mut self, executor: usize, notice: Notice) {
        self.notices[executor].push(notice);
    }

    /// Delivers results, and drops transactions that have ended.
    fn deliver(&mut self) {
        self.engine.output().put(self.engine, &mut self.finished);
        if take(&mut self.wrote) {
            self.engine.notify_log();
        }
        self.dropped_last.clear();
    }

    fn take_in(&mut self, work: Work) {
        let (owner, start_timestamp, locks, work) = match work {
            Work::Whole(incoming) => return self.take_in_whole(incoming),
            Work::Batch(batch) => return self.take_in_batch(batch),
            Work::Phase(phase) => {
                (phase.owner, phase.flow.start_timestamp, phase.locks_at(self.number), Work::Phase(phase))
            }
            Work::External(request) => (
                request.owner,
                request.start_timestamp,
                request.locks_at(self.number),
                Work::External(request),
            ),
            Work::Repartitioning(change) => {
                self.run_granted();
                return self.acquire(change.request());
            }
        };
        // Transactions that are granted end before others learn of this request.
        self.run_granted();
        self.count_requested(locks.len());
        self.count_request(|| locks.iter().find_map(|lock| lock.partition_hash));
        self.acquire(LockRequest { owner, start_timestamp, locks, instant: false, task: work });
    }

    fn take_in_batch(&mut self, mut batch: Box<Batch>) {
        self.run_granted();
        if self.locks.is_idle() {
            let references = batch.transactions.iter().flat_map(|one| &one.footprint.references);
            self.count_requested(references.filter(|reference| is_locked(reference)).count());
            batch.transactions.iter().for_each(|one| self.count_request(|| hash_of_whole(one)));
            return self.run_batch(batch);
        }
        // Some locks are held: each transaction requests its own.
        batch.drain().for_each(|incoming| self.take_in_whole(incoming));
    }

    fn take_in_whole(&mut self, incoming: Box<Incoming>) {
        self.count_request(|| hash_of_whole(&incoming));
        let locked = incoming.footprint.references.iter().filter(|reference| is_locked(reference));
        if self.locks.is_idle() {
            self.count_requested(locked.count());
            return self.add_granted(incoming);
        }
        let locks: Vec<LocalLock> = locked.map(LocalLock::of_reference).collect();
        self.count_requested(locks.len());
        let (owner, start_timestamp) = (OwnerId::new(), self.executors.next_start_timestamp());
        let task = Work::Whole(incoming);
        self.acquire(LockRequest { owner, start_timestamp, locks, instant: true, task });
    }

    fn acquire(&mut self, request: LockRequest<Work>) {
        let acquire = at(Activity::LockAcquire);
        match self.locks.acquire(request) {
            Acquired::Granted(work) => {
                drop(acquire);
                self.perform(work);
            }
            Acquired::Parked(waiting) => self.report_waiting(waiting),
        }
    }

    /// Reports a parked request to the deadlock detector.
    fn report_waiting(&mut self, waiting: Waiting) {
        let entry = match self.locks.parked_task(waiting.owner) {
            Some(Work::Repartitioning(change)) => change.countdown.note_parked(&change.route),
            Some(Work::Phase(phase)) if phase.is_later() => {
                phase.countdown.note_parked(&phase.route);
                Entry::Later
            }
            Some(Work::Phase(phase)) => phase.countdown.note_parked(&phase.route),
            Some(Work::External(request)) => {
                request.note_parked();
                Entry::First
            }
            Some(Work::Whole(_) | Work::Batch(_)) | None => Entry::Alone,
        };
        self.mark_for_abort(self.executors.waits.park(self.number, waiting, entry));
    }

    /// Tells the executors where victims of deadlocks are parked.
    fn mark_for_abort(&mut self, victims: Vec<Victim>) {
        for victim in victims {
            for executor in victim.executors {
                self.notify(executor, Notice::MarkedForAbort(victim.owner));
            }
        }
    }

    /// Cancels the parked request of a deadlock's victim.
    fn abort_parked(&mut self, owner: OwnerId) {
        if let (Some(Work::Repartitioning(_)), Some(waiting)) =
            (self.locks.parked_task(owner), self.locks.waiting(owner))
        {
            // It must not be aborted: work behind it was routed by the new map. It is older than every transaction and
            // holds no locks of an earlier entry, so that it is never chosen.
            return self.report_waiting(waiting);
        }
        let (work, released) = self.locks.cancel(owner);
        if let Some(work) = work {
            self.executors.waits.unpark(owner, self.number);
            match work {
                Work::Whole(incoming) => {
                    self.executors.waits.end(owner);
                    // Routed again: behind what waits here now, its rows may belong to another executor.
                    self.route_again(incoming);
                }
                // A batch is never parked.
                Work::Batch(batch) => self.take_in_batch(batch),
                // It is not aborted; see above.
                Work::Repartitioning(change) => self.acquire(change.request()),
                Work::Phase(phase) => {
                    phase.countdown.mark_for_abort();
                    self.report(phase);
                }
                Work::External(request) => request.mark_for_abort(),
            }
        }
        self.perform_released(released, true);
    }

    /// Counts one request of several, for the resource manager.
    #[inline]
    fn count_request(&mut self, hash: impl FnOnce() -> Option<u64>) {
        let requests = &self.executors.requests[self.number];
        if self.sampler.takes_next(requests)
            && let Some(hash) = hash()
        {
            requests.count(hash);
        }
    }

    fn count_requested(&self, locks: usize) {
        Counters::add(&self.slot_guard.worker_context().counters.lock_requests_local, locks as u64);
    }

    /// Counts the locks that the lock table has had entries for since the last time.
    fn count_entered(&mut self) {
        let entered = self.locks.take_entered();
        if entered > 0 {
            Counters::add(&self.slot_guard.worker_context().counters.locks_local, entered);
        }
    }

    /// Releases the locks of owners that have ended, and performs what was waiting for them.
    fn release_ended(&mut self) {
        while let Some(owner) = self.ended.pop() {
            self.pins.release(owner);
            let release = at(Activity::LockRelease);
            let released = self.locks.release(owner);
            drop(release);
            self.perform_released(released, false);
        }
    }

    /// Performs what a release or a cancellation has granted.
    fn perform_released(&mut self, released: Released<Work>, after_victim: bool) {
        for waiting in released.waiting {
            self.mark_for_abort(self.executors.waits.change(self.number, waiting, after_victim));
        }
        for (owner, work) in released.granted {
            match &work {
                Work::Whole(_) | Work::Batch(_) => self.executors.waits.end(owner),
                Work::Phase(_) | Work::External(_) | Work::Repartitioning(_) => {
                    self.executors.waits.unpark(owner, self.number)
                }
            }
            self.perform(work);
        }
    }

    /// Performs work whose locks are granted.
    fn perform(&mut self, work: Work) {
        // Before the result is delivered: a caller that has it finds its locks in the statistics.
        self.count_entered();
        match work {
            Work::Whole(incoming) => return self.add_granted(incoming),
            // Transactions that are granted end before others learn of this one.
            Work::Batch(_) | Work::Phase(_) | Work::External(_) | Work::Repartitioning(_) => {
                self.run_granted()
            }
        }
        match work {
            Work::Batch(batch) => self.take_in_batch(batch),
            Work::Phase(phase) => self.run_phase(phase),
            Work::External(request) => request.grant(),
            Work::Repartitioning(change) => self.report_drained(&change),
            Work::Whole(_) => {}
        }
    }

    /// Reports that this executor has drained for a repartitioning.
    fn report_drained(&mut self, change: &Repartitioning) {
        self.owned = change.range_of(self.number);
        if change.countdown.report() {
            self.announce_end(change.owner, &change.route, change.countdown.was_parked());
            change.end();
            self.left += 1;
        }
    }

    fn add_granted(&mut self, incoming: Box<Incoming>) {
        self.granted.push(incoming);
        if self.granted.len() == GROUP_CALLS {
            self.run_granted();
        }
    }

    /// Runs the granted transactions of this executor alone, in order.
    fn run_granted(&mut self) {
        if self.granted.is_empty() {
            return;
        }
        self.send_notices();
        let mut granted = take(&mut self.granted);
        granted.iter().for_each(|incoming| self.assert_owns_all(&incoming.footprint));
        let misrouted = self.execute(&granted);
        // From the last one on, so that those before it keep their numbers.
        for number in misrouted.into_iter().rev() {
            self.route_again(granted.remove(number));
        }
        self.left += granted.len();
        self.dropped_last.extend(granted.drain(..).map(|incoming| Ended::Whole { _incoming: incoming }));
        self.granted = granted;
    }

    /// Runs transactions one after another, and reports their outcomes. Returns those that were misrouted and have not run.
    fn execute<P: Pending + Borrow<Incoming>>(&mut self, transactions: &[P]) -> Misrouted {
        let Executor { engine, slot_guard, held, scratch, finished, wrote, .. } = self;
        let counters = &slot_guard.worker_context().counters;
        let mut misrouted = Misrouted::new();
        execute_group(engine, slot_guard, held, scratch, transactions.iter(), |number, outcome, output| {
            if outcome.stashed {
                return misrouted.push(number);
            }
            *wrote |= outcome.wrote;
            report(engine, counters, finished, transactions[number].borrow(), outcome, output);
        });
        misrouted
    }

    /// Runs the transactions of a batch, in order, and returns it to its group.
    fn run_batch(&mut self, mut batch: Box<Batch>) {
        self.send_notices();
        batch.transactions.iter().for_each(|incoming| self.assert_owns_all(&incoming.footprint));
        let Executor { engine, slot_guard, held, scratch, wrote, .. } = self;
        let counters = &slot_guard.worker_context().counters;
        let mut misrouted = Misrouted::new();
        let Batch { transactions, positions, outcomes, .. } = &mut *batch;
        execute_group(engine, slot_guard, held, scratch, transactions.iter(), |number, outcome, output| {
            if outcome.stashed {
                return misrouted.push(number);
            }
            *wrote |= outcome.wrote;
            count_waiting_reader(engine, counters, &outcome);
            outcomes.push((positions[number], outcome, output));
        });
        for number in misrouted.into_iter().rev() {
            let incoming = batch.remove(number);
            self.route_again(incoming);
        }
        self.left += batch.transactions.len();
        if let Some(group) = batch.group.take() {
            group.return_batch(batch);
        }
    }

    /// Routes a transaction again whose values led to another key than key resolution found, or that was a deadlock's
    /// victim.
    fn route_again(&mut self, incoming: Box<Incoming>) {
        self.count_aborted(false);
        if let Err((incoming, error)) = self.executors.route_again(incoming) {
            self.report_outcome(&incoming, Outcome::refused(1, error), Output::default());
            self.left += 1;
            self.dropped_last.push(Ended::Whole { _incoming: incoming });
        }
    }

    /// Tells all executors of a route that an attempt has ended; this one releases its locks next.
    pub(super) fn announce_end(&mut self, owner: OwnerId, route: &Route, was_parked: bool) {
        let number = self.number;
        for &executor in route.iter().filter(|executor| **executor != number) {
            self.notify(executor, Notice::Ended(owner));
        }
        self.ended.push(owner);
        if was_parked {
            self.executors.waits.end(owner);
        }
    }

    /// A transaction over several executors has ended.
    pub(super) fn end_flow(&mut self, flow: Arc<Flow>) {
        self.left += 1;
        self.dropped_last.push(Ended::Flow { _flow: flow });
    }

    /// Reports the outcome of a transaction.
    pub(super) fn report_outcome(&mut self, incoming: &Incoming, outcome: Outcome, output: Output) {
        let counters = &self.slot_guard.worker_context().counters;
        self.wrote |= outcome.wrote;
        report(self.engine, counters, &mut self.finished, incoming, outcome, output);
    }

    /// Asserts, in debug builds, that this executor owns what these actions of a phase declare. Actions on rows of several
    /// executors run on any of them, and an attempt that runs alone holds the locks of all.
    pub(super) fn assert_owner(&self, phase: &Phase, actions: &[usize]) {
        let references = || actions.iter().map(|action| &phase.footprint.references[*action]);
        debug_assert!(
            phase.runs_alone || references().all(|reference| self.owns(reference)),
            "executor {} runs actions of another partition",
            self.number
        );
    }

    /// Asserts, in debug builds, that this executor owns everything that a transaction locks.
    fn assert_owns_all(&self, footprint: &Footprint) {
        debug_assert!(
            footprint.references.iter().filter(|one| is_locked(one)).all(|reference| self.owns(reference)),
            "executor {} runs a transaction of another partition",
            self.number
        );
    }

    fn owns(&self, reference: &Reference) -> bool {
        partition_hash_of(reference).is_none_or(|hash| self.owned.contains(&hash))
    }
}

/// The partition hash of a transaction of one executor.
fn hash_of_whole(incoming: &Incoming) -> Option<u64> {
    incoming.footprint.references.iter().filter(|reference| is_locked(reference)).find_map(partition_hash_of)
}

fn report(
    engine: &Engine,
    counters: &Counters,
    finished: &mut Vec<Finished>,
    incoming: &Incoming,
    outcome: Outcome,
    output: Output,
) {
    count_waiting_reader(engine, counters, &outcome);
    match &incoming.sink {
        Sink::Batch => {}
        Sink::Group(group, position) => group.report(*position, outcome, output),
        Sink::Answer(answer) => {
            let (epoch, answer) = (outcome.epoch, answer.clone());
            answer.count_aborted(outcome.attempts.saturating_sub(1));
            let result = outcome.failure.map_or(Ok(output), |error| Err(*error));
            finished.push(Finished { answer, epoch, result });
        }
    }
}

fn count_waiting_reader(engine: &Engine, counters: &Counters, outcome: &Outcome) {
    if !outcome.wrote && !engine.progress().is_released(outcome.epoch) {
        Counters::count(&counters.readers_waited);
    }
}
