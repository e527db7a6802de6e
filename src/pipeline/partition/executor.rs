//! The life of an executor: it takes what has come in, locks, runs, parks, and releases what has ended.
//!
//! What it keeps true: it waits for nothing but its queue (and, as every worker does, for room in the log). What needs a
//! lock that a rival has is parked in its lock table, and done when the rival has ended.

use std::borrow::Borrow;
use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::entrant::{Entrant, Sink};
use super::latch::Latch;
use super::queue::Found;
use super::Executors;
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::pipeline::call::{self, Output};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Ending;
use crate::pipeline::output::Finished;
use crate::pipeline::statistics::Stage;
use crate::pipeline::worker::{GROUP_CALLS, Pending, execute_group};
use crate::protocol::Held;
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::Want;
use crate::protocol::local::locks::{Answer, LocalLocks, Request};
use crate::storage::participant::{Counters, Seat};

/// What an executor is given to do.
pub(super) enum Task {
    /// A call whose data all belong to it: it runs it to its end.
    Whole(Box<Entrant>),
    /// A call over several executors: who grants it last, runs it.
    Shared(Arc<Shared>),
    /// Who is no executor has to be told when this is granted.
    Latch(Arc<Latch>),
}

/// What happens elsewhere, and concerns an executor.
pub(super) enum Notice {
    /// The owner has ended: what it holds is free.
    Ended(OwnerId),
    /// The owner is a deadlock's victim: what it has parked here is taken out.
    Doomed(OwnerId),
}

/// A call over several executors.
pub(super) struct Shared {
    pub(super) owner: OwnerId,
    pub(super) birth: u64,
    pub(super) executors: SmallVec<[usize; 4]>,
    pub(super) entrant: Entrant,
    /// So many have not granted yet.
    left: AtomicUsize,
    parked: AtomicBool,
}

impl Shared {
    pub(super) fn new(owner: OwnerId, birth: u64, executors: SmallVec<[usize; 4]>, entrant: Entrant) -> Shared {
        let left = AtomicUsize::new(executors.len());
        Shared { owner, birth, executors, entrant, left, parked: AtomicBool::new(false) }
    }
}

/// An executor at work: its seat, its lock table, and what it is about to do.
struct Bench<'e> {
    engine: &'e Engine,
    executors: &'e Executors,
    number: usize,
    seat: Seat<'e>,
    held: Held,
    found: Vec<call::Found>,
    locks: LocalLocks<Task>,
    /// Granted calls that will run together.
    batch: Vec<Box<Entrant>>,
    /// Whose locks are to be given up here.
    ended: Vec<OwnerId>,
    finished: Vec<Finished>,
    wrote: bool,
    /// What has ended goes last: with a call its procedure may go, and with that the last handle of the database.
    done: Vec<Box<Entrant>>,
    done_shared: Vec<Arc<Shared>>,
}

/// The life of an executor.
pub(crate) fn run(engine: &Arc<Engine>, executors: &Arc<Executors>, number: usize) {
    let mut bench = Bench {
        engine,
        executors,
        number,
        seat: engine.store().participants().take(),
        held: Held::default(),
        found: Vec::new(),
        locks: LocalLocks::default(),
        batch: Vec::new(),
        ended: Vec::new(),
        finished: Vec::new(),
        wrote: false,
        done: Vec::new(),
        done_shared: Vec::new(),
    };
    let mut found = Found::default();
    while executors.queues.take(number, &mut found) {
        let start = Instant::now();
        bench.work(&mut found);
        engine.clocks().add(Stage::Execute, start);
        bench.hand_over();
    }
}

impl Bench<'_> {
    fn work(&mut self, found: &mut Found<Task, Notice>) {
        for notice in found.notices.drain(..) {
            match notice {
                Notice::Ended(owner) => self.ended.push(owner),
                Notice::Doomed(owner) => self.give_way(owner),
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
    fn hand_over(&mut self) {
        self.engine.output().put(self.engine, &mut self.finished);
        if take(&mut self.wrote) {
            self.engine.ring_log();
        }
        self.done.clear();
        self.done_shared.clear();
    }

    fn take_in(&mut self, task: Task) {
        match task {
            Task::Whole(entrant) => self.take_in_whole(entrant),
            Task::Shared(shared) => {
                let wants = self.own_wants(&shared.entrant);
                let (owner, birth) = (shared.owner, shared.birth);
                self.ask(Request { owner, wants, brief: false, task: Task::Shared(shared) }, birth);
            }
            Task::Latch(latch) => {
                let wants = self.executors.wants_at(&latch.wants, self.number);
                let (owner, birth) = (latch.owner, latch.birth);
                self.ask(Request { owner, wants, brief: false, task: Task::Latch(latch) }, birth);
            }
        }
    }

    fn take_in_whole(&mut self, entrant: Box<Entrant>) {
        self.count_locks(entrant.footprint.references.len());
        if self.locks.is_idle() {
            return self.add_to_batch(entrant);
        }
        let wants = entrant.footprint.references.iter().map(Want::of_reference).collect();
        let (owner, birth) = (OwnerId::new(), self.executors.birth_of_call());
        let request = Request { owner, wants, brief: true, task: Task::Whole(entrant) };
        self.ask_for(request, birth);
    }

    /// What of a call's footprint is this executor's.
    fn own_wants(&self, entrant: &Entrant) -> Vec<Want> {
        let wants: Vec<Want> = entrant.footprint.references.iter().map(Want::of_reference).collect();
        self.executors.wants_at(&wants, self.number)
    }

    fn ask(&mut self, request: Request<Task>, birth: u64) {
        // What was granted before has been done when others are told of this one.
        self.run_batch();
        self.count_locks(request.wants.len());
        self.ask_for(request, birth);
    }

    fn ask_for(&mut self, request: Request<Task>, birth: u64) {
        let owner = request.owner;
        match self.locks.ask(request) {
            Answer::Granted(task) => self.perform(task),
            Answer::Parked(blockers) => {
                match self.locks.parked_task(owner) {
                    // Relaxed: it is read when all executors have granted, this one last, which orders it.
                    Some(Task::Shared(shared)) => shared.parked.store(true, Ordering::Relaxed),
                    Some(Task::Latch(latch)) => latch.note_parked(),
                    Some(Task::Whole(_)) | None => {}
                }
                for victim in self.executors.waits.park(owner, birth, self.number, blockers) {
                    for executor in victim.executors {
                        self.executors.queues.notify(executor, Notice::Doomed(victim.owner));
                    }
                }
            }
        }
    }

    /// A deadlock's victim, parked here, lets others go first.
    fn give_way(&mut self, owner: OwnerId) {
        let (task, granted) = self.locks.cancel(owner);
        if let Some(task) = task {
            self.executors.waits.unpark(owner, self.number);
            match task {
                Task::Whole(entrant) => {
                    self.executors.waits.end(owner);
                    self.take_in_whole(entrant);
                }
                Task::Shared(shared) => self.take_in(Task::Shared(shared)),
                Task::Latch(latch) => latch.doom(),
            }
        }
        self.perform_parked(granted);
    }

    fn count_locks(&self, locks: usize) {
        Counters::add(&self.seat.participant().counters.locks_local, locks as u64);
    }

    /// Gives up the locks of whoever has ended, and does what was waiting for them.
    fn release_ended(&mut self) {
        while let Some(owner) = self.ended.pop() {
            let granted = self.locks.release(owner);
            self.perform_parked(granted);
        }
    }

    fn perform_parked(&mut self, granted: Vec<(OwnerId, Task)>) {
        for (owner, task) in granted {
            match &task {
                Task::Whole(_) => self.executors.waits.end(owner),
                Task::Shared(_) | Task::Latch(_) => self.executors.waits.unpark(owner, self.number),
            }
            self.perform(task);
        }
    }

    /// Does what has been granted.
    fn perform(&mut self, task: Task) {
        match task {
            Task::Whole(entrant) => self.add_to_batch(entrant),
            Task::Shared(shared) => {
                self.run_batch();
                // AcqRel: what was done before on all executors is seen by who runs it.
                if shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.run_shared(shared);
                }
            }
            Task::Latch(latch) => {
                self.run_batch();
                latch.grant();
            }
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
        self.execute(&batch);
        self.executors.queues.leave(batch.len());
        self.done.append(&mut batch);
        self.batch = batch;
    }

    fn run_shared(&mut self, shared: Arc<Shared>) {
        self.execute(&[&shared.entrant]);
        for &executor in shared.executors.iter().filter(|executor| **executor != self.number) {
            self.executors.queues.notify(executor, Notice::Ended(shared.owner));
        }
        self.ended.push(shared.owner);
        if shared.parked.load(Ordering::Relaxed) {
            self.executors.waits.end(shared.owner);
        }
        self.executors.queues.leave(1);
        self.done_shared.push(shared);
    }
}

impl Bench<'_> {
    /// Runs calls one after the other, and tells how each ended.
    fn execute<P: Pending + Borrow<Entrant>>(&mut self, calls: &[P]) {
        let Bench { engine, seat, held, found, finished, wrote, .. } = self;
        let counters = &seat.participant().counters;
        execute_group(engine, seat, held, found, calls, |number, ending, output| {
            *wrote |= ending.wrote;
            if !ending.wrote && !engine.progress().is_released(ending.epoch) {
                Counters::count(&counters.readers_waited);
            }
            match &calls[number].borrow().sink {
                Sink::Nobody => {}
                Sink::Group(group, place) => group.end(*place, ending, output),
                Sink::Answer(answer) => {
                    let (epoch, answer) = (ending.epoch, answer.clone());
                    finished.push(Finished { answer, epoch, result: result(ending, output) });
                }
            }
        });
    }
}

fn result(ending: Ending, output: Output) -> crate::error::Result<Output> {
    ending.failure.map_or(Ok(output), |error| Err(*error))
}
