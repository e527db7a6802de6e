//! The life of an executor: it takes what has come in, locks, runs, parks, and releases what has ended.
//!
//! What it keeps true: it waits for nothing but its queue (and, as every worker does, for room in the log). What needs a
//! lock that a rival has is parked in its lock table, and done when the rival has ended.

use std::borrow::Borrow;
use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::boundaries::Move;
use super::entrant::{Batch, Entrant, Sink};
use super::flow::{Flow, Phase, Serial};
use super::latch::Latch;
use super::manager::Sampler;
use super::pins::Pins;
use super::queue::Found;
use super::{Executors, is_locked};
use crate::base::activity::{Activity, at};
use crate::base::atomics::Ordering;
use crate::pipeline::call::{self, Output};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Outcome;
use crate::pipeline::output::Finished;
use crate::pipeline::statistics::Stage;
use crate::pipeline::worker::{GROUP_CALLS, Pending, execute_group};
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::{Want, place_of_reference};
use crate::protocol::local::locks::{Answer, Freed, LocalLocks, Request, Waiting};
use crate::protocol::local::routing::Route;
use crate::protocol::local::waits::{Entry, Victim};
use crate::protocol::{ATTEMPTS_IN_COMPANY, Held};
use crate::storage::worker_context::{Counters, SlotGuard};

/// What an executor is given to do.
pub(super) enum Task {
    /// A call whose data all belong to it: it runs it to its end.
    Whole(Box<Entrant>),
    /// Calls of a group, whose data all belong to it.
    Batch(Box<Batch>),
    /// A call over several executors, one action after the other: who grants it last, runs it.
    Serial(Arc<Serial>),
    /// A call over several executors, actions beside each other: it runs its own of one phase.
    Phase(Arc<Phase>),
    /// Who is no executor has to be told when this is granted.
    Latch(Arc<Latch>),
    /// Boundaries have moved: what comes in from here on is routed by the new ones, and waits until all concerned have drained.
    Move(Arc<Move>),
}

/// What happens elsewhere, and concerns an executor.
pub(super) enum Notice {
    /// The owner has ended: what it holds is free.
    Ended(OwnerId),
    /// The owner is a deadlock's victim: what it has parked here is taken out.
    MarkedForAbort(OwnerId),
}

/// An executor at work: its slot, its lock table, and what it is about to do.
pub(super) struct Bench<'e> {
    pub(super) engine: &'e Engine,
    pub(super) executors: &'e Executors,
    pub(super) number: usize,
    pub(super) slot_guard: SlotGuard<'e>,
    pub(super) held: Held,
    found: Vec<call::Found>,
    locks: LocalLocks<Task>,
    pub(super) pins: Pins,
    /// Granted calls that will run together.
    #[expect(clippy::vec_box, reason = "they come in boxes, and are large")]
    batch: Vec<Box<Entrant>>,
    /// Whose locks are to be given up here.
    pub(super) ended: Vec<OwnerId>,
    finished: Vec<Finished>,
    wrote: bool,
    /// Which requests are counted, for who moves boundaries.
    sampler: Sampler,
    /// What has ended goes last: with a call its procedure may go, and with that the last handle of the database.
    done: Vec<Done>,
}

/// The places of calls in their group.
type Misled = SmallVec<[usize; 4]>;

/// A call that has ended, and was let go by nobody else yet.
enum Done {
    Whole { _entrant: Box<Entrant> },
    Flow { _flow: Arc<Flow> },
}

/// The life of an executor.
pub(crate) fn run(engine: &Arc<Engine>, executors: &Arc<Executors>, number: usize) {
    let mut bench = Bench {
        engine,
        executors,
        number,
        slot_guard: engine.store().worker_contexts().take(),
        held: Held::default(),
        found: Vec::new(),
        locks: LocalLocks::default(),
        pins: Pins::default(),
        batch: Vec::new(),
        ended: Vec::new(),
        finished: Vec::new(),
        wrote: false,
        sampler: Sampler::default(),
        done: Vec::new(),
    };
    let mut found = Found::default();
    let worker_context = bench.slot_guard.worker_context();
    executors.slot_guard(number, worker_context);
    engine.show(worker_context, Activity::Handover, || {
        while executors.queues.take(number, bench.locks.is_idle(), &mut found) {
            let start = Instant::now();
            bench.work(&mut found);
            engine.clocks().add(Stage::Execute, start);
            bench.hand_batch();
        }
    });
}

impl Bench<'_> {
    fn work(&mut self, found: &mut Found<Task, Notice>) {
        for notice in found.notices.drain(..) {
            match notice {
                Notice::Ended(owner) => self.ended.push(owner),
                Notice::MarkedForAbort(owner) => self.give_way(owner),
            }
            self.release_ended();
        }
        for task in found.incoming.drain(..) {
            self.take_in(task);
            self.release_ended();
        }
        self.run_batch();
    }

    /// Hands results on, and lets go what has ended.
    fn hand_batch(&mut self) {
        self.engine.output().put(self.engine, &mut self.finished);
        if take(&mut self.wrote) {
            self.engine.ring_log();
        }
        self.done.clear();
    }

    fn take_in(&mut self, task: Task) {
        match task {
            Task::Whole(entrant) => self.take_in_whole(entrant),
            Task::Batch(batch) => self.take_in_batch(batch),
            Task::Serial(serial) => {
                let (owner, start_timestamp, wants) =
                    (serial.owner, serial.flow.start_timestamp, serial.wants(self.number));
                self.ask(Request { owner, start_timestamp, wants, brief: false, task: Task::Serial(serial) });
            }
            Task::Phase(phase) if phase.is_in_vain(self.number) => self.report(phase),
            Task::Phase(phase) => {
                let (owner, start_timestamp, wants) =
                    (phase.owner, phase.flow.start_timestamp, phase.wants(self.number));
                self.ask(Request { owner, start_timestamp, wants, brief: false, task: Task::Phase(phase) });
            }
            Task::Latch(latch) => {
                let (owner, start_timestamp, wants) =
                    (latch.owner, latch.start_timestamp, latch.wants(self.number));
                self.ask(Request { owner, start_timestamp, wants, brief: false, task: Task::Latch(latch) });
            }
            Task::Move(movement) => {
                // What was granted before has been done when others are told of this one.
                self.run_batch();
                self.ask_for(movement.request());
            }
        }
    }

    fn take_in_batch(&mut self, mut batch: Box<Batch>) {
        self.run_batch();
        if self.locks.is_idle() {
            let references = batch.calls.iter().flat_map(|call| &call.footprint.references);
            self.count_locks(references.filter(|reference| is_locked(reference)).count());
            batch.calls.iter().for_each(|call| self.count_request(|| place_of_whole(call)));
            return self.run_together(batch);
        }
        // Somebody holds something here: each call goes its own way.
        for entrant in batch.take_apart() {
            self.take_in_whole(entrant);
        }
    }

    fn take_in_whole(&mut self, entrant: Box<Entrant>) {
        self.count_request(|| place_of_whole(&entrant));
        let locked = entrant.footprint.references.iter().filter(|reference| is_locked(reference));
        if self.locks.is_idle() {
            self.count_locks(locked.count());
            return self.add_to_batch(entrant);
        }
        let wants: Vec<Want> = locked.map(Want::of_reference).collect();
        self.count_locks(wants.len());
        let (owner, start_timestamp) = (OwnerId::new(), self.executors.start_timestamp_of_call());
        self.ask_for(Request { owner, start_timestamp, wants, brief: true, task: Task::Whole(entrant) });
    }

    fn ask(&mut self, request: Request<Task>) {
        // What was granted before has been done when others are told of this one.
        self.run_batch();
        self.count_locks(request.wants.len());
        self.count_request(|| request.wants.iter().find_map(|want| want.place));
        self.ask_for(request);
    }

    fn ask_for(&mut self, request: Request<Task>) {
        let acquire = at(Activity::LockAcquire);
        match self.locks.ask(request) {
            Answer::Granted(task) => {
                drop(acquire);
                self.perform(task);
            }
            Answer::Parked(waiting) => self.tell_waiting(waiting),
        }
    }

    /// Tells the detector who waits for whom here.
    fn tell_waiting(&self, waiting: Waiting) {
        let entry = match self.locks.parked_task(waiting.owner) {
            Some(Task::Serial(serial)) => serial.turn.note_parked(serial.route()),
            Some(Task::Move(movement)) => movement.turn.note_parked(&movement.route),
            Some(Task::Phase(phase)) if phase.is_later() => {
                phase.turn.note_parked(&phase.route);
                Entry::Later
            }
            Some(Task::Phase(phase)) => phase.turn.note_parked(&phase.route),
            Some(Task::Latch(latch)) => {
                latch.note_parked();
                Entry::First
            }
            Some(Task::Whole(_) | Task::Batch(_)) | None => Entry::Alone,
        };
        self.mark_for_abort(self.executors.waits.park(self.number, waiting, entry));
    }

    /// Tells the executors where they are parked that these have to give way.
    fn mark_for_abort(&self, victims: Vec<Victim>) {
        for victim in victims {
            for executor in victim.executors {
                self.executors.queues.notify(executor, Notice::MarkedForAbort(victim.owner));
            }
        }
    }

    /// A deadlock's victim, parked here, lets others go first.
    fn give_way(&mut self, owner: OwnerId) {
        if let (Some(Task::Move(_)), Some(waiting)) =
            (self.locks.parked_task(owner), self.locks.waiting(owner))
        {
            // It must not: what is behind it here was routed by what it makes true. It is the oldest of all, and holds
            // nothing that an earlier entry has got, so that nobody should have asked.
            return self.tell_waiting(waiting);
        }
        let (task, freed) = self.locks.cancel(owner);
        if let Some(task) = task {
            self.executors.waits.unpark(owner, self.number);
            match task {
                Task::Whole(entrant) => {
                    self.executors.waits.end(owner);
                    // From the entrance on: behind what waits here now its rows may be somebody else's.
                    self.reenter(entrant);
                }
                // They are not parked, or do not give way.
                task @ (Task::Batch(_) | Task::Move(_)) => self.perform(task),
                Task::Serial(serial) => {
                    serial.turn.mark_for_abort();
                    self.report_serial(serial);
                }
                Task::Phase(phase) => {
                    phase.turn.mark_for_abort();
                    self.report(phase);
                }
                Task::Latch(latch) => latch.mark_for_abort(),
            }
        }
        self.go_on(freed, true);
    }

    /// Counts one request of some, for who moves boundaries.
    #[inline]
    fn count_request(&mut self, place: impl FnOnce() -> Option<u64>) {
        let load = &self.executors.loads[self.number];
        if self.sampler.takes_next(load)
            && let Some(place) = place()
        {
            load.note(place);
        }
    }

    fn count_locks(&self, locks: usize) {
        Counters::add(&self.slot_guard.worker_context().counters.locks_local, locks as u64);
    }

    /// Gives up the locks of whoever has ended, and does what was waiting for them.
    fn release_ended(&mut self) {
        while let Some(owner) = self.ended.pop() {
            self.pins.release(owner);
            let release = at(Activity::LockRelease);
            let freed = self.locks.release(owner);
            drop(release);
            self.go_on(freed, false);
        }
    }

    /// Does what is granted now that somebody has ended.
    fn go_on(&mut self, freed: Freed<Task>, has_given_way: bool) {
        for waiting in freed.waiting {
            self.mark_for_abort(self.executors.waits.move_on(self.number, waiting, has_given_way));
        }
        for (owner, task) in freed.granted {
            match &task {
                Task::Whole(_) | Task::Batch(_) => self.executors.waits.end(owner),
                Task::Serial(_) | Task::Phase(_) | Task::Latch(_) | Task::Move(_) => {
                    self.executors.waits.unpark(owner, self.number)
                }
            }
            self.perform(task);
        }
    }

    /// Does what has been granted.
    fn perform(&mut self, task: Task) {
        match task {
            Task::Whole(entrant) => self.add_to_batch(entrant),
            Task::Batch(batch) => self.take_in_batch(batch),
            Task::Serial(serial) => {
                self.run_batch();
                self.report_serial(serial);
            }
            Task::Phase(phase) => {
                self.run_batch();
                self.run_phase(phase);
            }
            Task::Latch(latch) => {
                self.run_batch();
                latch.grant();
            }
            Task::Move(movement) => {
                self.run_batch();
                self.report_move(&movement);
            }
        }
    }

    /// This executor has drained for a move.
    fn report_move(&mut self, movement: &Move) {
        if movement.turn.report() {
            self.tell_ended(movement.owner, &movement.route, movement.turn.was_parked());
            movement.end();
            self.executors.queues.leave(1);
        }
    }

    fn add_to_batch(&mut self, entrant: Box<Entrant>) {
        self.batch.push(entrant);
        if self.batch.len() == GROUP_CALLS {
            self.run_batch();
        }
    }

    /// Runs the granted calls that are its own alone, in order.
    fn run_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = take(&mut self.batch);
        let misled = self.execute(&batch);
        // From the last one on, so that those before it keep their places.
        for number in misled.into_iter().rev() {
            self.reenter(batch.remove(number));
        }
        self.executors.queues.leave(batch.len());
        self.done.extend(batch.drain(..).map(|entrant| Done::Whole { _entrant: entrant }));
        self.batch = batch;
    }

    /// Runs the calls of a batch, in order.
    fn run_together(&mut self, mut batch: Box<Batch>) {
        let Bench { engine, slot_guard, held, found, wrote, .. } = self;
        let counters = &slot_guard.worker_context().counters;
        let mut misled = Misled::new();
        let Batch { calls, places, ended, .. } = &mut *batch;
        execute_group(engine, slot_guard, held, found, calls, |number, outcome, output| {
            if outcome.stashed {
                return misled.push(number);
            }
            *wrote |= outcome.wrote;
            count_waiting_reader(engine, counters, &outcome);
            ended.push((places[number], outcome, output));
        });
        for number in misled.into_iter().rev() {
            self.reenter(batch.take_out(number));
        }
        self.executors.queues.leave(batch.calls.len());
        if let Some(group) = batch.group.take() {
            group.end_batch(batch);
        }
    }

    /// A call's values led elsewhere than was looked up ahead.
    fn reenter(&mut self, entrant: Box<Entrant>) {
        self.count_aborted(false);
        if let Err((entrant, error)) = self.executors.reenter(entrant) {
            self.tell(&entrant, Outcome::refused(1, error), Output::default());
            self.executors.queues.leave(1);
            self.done.push(Done::Whole { _entrant: entrant });
        }
    }

    /// This executor has granted a call whose actions run one after the other, or it has given way here.
    fn report_serial(&mut self, serial: Arc<Serial>) {
        if !serial.turn.report() {
            return;
        }
        let again = serial.turn.is_marked_for_abort();
        if !again {
            self.run_serial(&serial.flow.entrant);
        }
        self.tell_ended(serial.owner, serial.route(), serial.turn.was_parked());
        if again {
            self.count_aborted(false);
            self.executors.enter(serial.flow.clone(), ATTEMPTS_IN_COMPANY + 1);
        } else {
            self.let_go(serial.flow.clone());
        }
    }

    fn run_serial(&mut self, entrant: &Entrant) {
        let counters = &self.slot_guard.worker_context().counters;
        Counters::count(&counters.went_serial);
        // Relaxed: this thread's own counter.
        let before = counters.failed.load(Ordering::Relaxed);
        // What goes to several executors is not looked up ahead, so that nothing misleads it.
        let misled = self.execute(&[entrant]);
        debug_assert!(misled.is_empty());
        let counters = &self.slot_guard.worker_context().counters;
        // Relaxed: as above.
        entrant.routine.failures().note(counters.failed.load(Ordering::Relaxed) > before);
    }

    /// Tells all executors concerned that an attempt has ended; here the locks are given up as soon as it is this one's
    /// turn.
    pub(super) fn tell_ended(&mut self, owner: OwnerId, route: &Route, was_parked: bool) {
        for &executor in route.iter().filter(|executor| **executor != self.number) {
            self.executors.queues.notify(executor, Notice::Ended(owner));
        }
        self.ended.push(owner);
        if was_parked {
            self.executors.waits.end(owner);
        }
    }

    /// A call over several executors has ended.
    pub(super) fn let_go(&mut self, flow: Arc<Flow>) {
        self.executors.queues.leave(1);
        self.done.push(Done::Flow { _flow: flow });
    }

    /// Tells how a call has ended.
    pub(super) fn tell(&mut self, entrant: &Entrant, outcome: Outcome, output: Output) {
        let counters = &self.slot_guard.worker_context().counters;
        self.wrote |= outcome.wrote;
        tell(self.engine, counters, &mut self.finished, entrant, outcome, output);
    }
}

impl Bench<'_> {
    /// Runs calls one after the other, and tells how each ended. Gives those that were misled, in order: they have not.
    fn execute<P: Pending + Borrow<Entrant>>(&mut self, calls: &[P]) -> Misled {
        let Bench { engine, slot_guard, held, found, finished, wrote, .. } = self;
        let counters = &slot_guard.worker_context().counters;
        let mut misled = Misled::new();
        execute_group(engine, slot_guard, held, found, calls, |number, outcome, output| {
            if outcome.stashed {
                return misled.push(number);
            }
            *wrote |= outcome.wrote;
            tell(engine, counters, finished, calls[number].borrow(), outcome, output);
        });
        misled
    }
}

/// Where a call lies that is one executor's.
fn place_of_whole(entrant: &Entrant) -> Option<u64> {
    entrant.footprint.references.iter().filter(|reference| is_locked(reference)).find_map(place_of_reference)
}

fn tell(
    engine: &Engine,
    counters: &Counters,
    finished: &mut Vec<Finished>,
    entrant: &Entrant,
    outcome: Outcome,
    output: Output,
) {
    count_waiting_reader(engine, counters, &outcome);
    match &entrant.sink {
        Sink::Nobody => {}
        Sink::Group(group, place) => group.end(*place, outcome, output),
        Sink::Answer(answer) => {
            let (epoch, answer) = (outcome.epoch, answer.clone());
            let result = outcome.failure.map_or(Ok(output), |error| Err(*error));
            finished.push(Finished { answer, epoch, result });
        }
    }
}

pub(super) fn count_waiting_reader(engine: &Engine, counters: &Counters, outcome: &Outcome) {
    if !outcome.wrote && !engine.progress().is_released(outcome.epoch) {
        Counters::count(&counters.readers_waited);
    }
}
