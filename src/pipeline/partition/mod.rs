//! Execution by executors that own the data (DORA, VLDB 2010): under protocols that ask for it.
//!
//! ```text
//! submit ─► route ─┬─ one executor's data ───► its queue ─► its local locks ─► the call runs there, whole
//!                  └─ several executors' ────► all their queues at once; each runs its actions of the phase, or
//!                                              grants; who reports last enters the next phase, or commits
//! closure's commit ─► the desk ──────────────► as above; the caller's thread goes on when all have granted
//! ```
//!
//! Each executor is a thread with a queue ([`queue`]) and a lock table of its own (`protocol/local`). It never waits for
//! a lock: what cannot be granted is parked, and granted later by who gives up. While it sleeps, a worker of the
//! caller's may stand in for it, and run calls without handing them over ([`visit`]). [`executor`] is its thread's life,
//! [`entrant`] what comes in, [`scout`] how a call's executor is found where values lead to it, [`flow`] a call over several
//! executors, and [`rendezvous`] how its parts run and meet.

mod boundaries;
mod desk;
pub(crate) mod entrant;
pub(crate) mod executor;
mod flow;
mod latch;
mod manager;
mod part;
mod pending;
mod pins;
pub(crate) mod plan;
pub(crate) mod queue;
mod rendezvous;
pub(crate) mod scout;
mod survey;
pub(crate) mod visit;

use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::smallvec;

use self::boundaries::{Moves, Upkeep};
use self::entrant::Entrant;
use self::executor::{Notice, Task};
use self::flow::{Flow, Meeting, Phase, Serial};
use self::manager::Load;
use self::plan::Plan;
use self::queue::{Queues, Refused, Route as Rooms, room_of, rooms_of};
use self::scout::Scout;
use crate::base::activity::Activity;
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::error::Error;
use crate::pipeline::call::Routine;
use crate::pipeline::engine::Engine;
use crate::protocol::ATTEMPTS_IN_COMPANY;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::claim::{is_floating, place_of_reference};
use crate::protocol::local::routing::{Route, Routing};
use crate::protocol::local::waits::Waits;
use crate::storage::worker_context::WorkerContext;
use crate::types::Args;

/// What all executors share.
pub(crate) struct Executors {
    engine: Weak<Engine>,
    queues: Queues<Task, Notice>,
    routing: Routing,
    waits: Waits,
    start_timestamps: AtomicU64,
    moves: Moves,
    /// What each executor was asked for.
    loads: Box<[CachePadded<Load>]>,
    upkeep: Mutex<Upkeep>,
    /// Whether boundaries follow the load.
    is_balanced: bool,
    /// The slot of each executor's own thread, and one more; 0: it has none yet.
    slots: Box<[AtomicUsize]>,
    plan: Plan,
}

impl Executors {
    /// So many, of this engine, or fewer if `chooses_number`. `is_balanced`: boundaries between them follow the load.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        executors: usize,
        (is_balanced, chooses_number): (bool, bool),
        plan: Plan,
    ) -> Executors {
        Executors {
            engine: Arc::downgrade(engine),
            queues: Queues::new(executors),
            routing: Routing::new(executors),
            waits: Waits::default(),
            start_timestamps: AtomicU64::new(0),
            moves: Moves::new(executors),
            loads: (0..executors).map(|_| CachePadded::default()).collect(),
            upkeep: Mutex::new(Upkeep::new(executors, chooses_number)),
            is_balanced,
            slots: (0..executors).map(|_| AtomicUsize::new(0)).collect(),
            plan,
        }
    }

    /// An executor's own thread has this slot.
    fn slot_guard(&self, executor: usize, worker_context: &WorkerContext) {
        worker_context.be_executor(executor);
        // Relaxed, here and below: who misses it shows one sample too many as idle.
        self.slots[executor].store(worker_context.number() + 1, Ordering::Relaxed);
    }

    /// Somebody stands in for a sleeping executor, and shows what becomes of its calls: it is not idle, where time is sampled.
    fn show_visited(&self, engine: &Engine, executor: usize) {
        if engine.sampler().is_some()
            && let Some(slot) = self.slots[executor].load(Ordering::Relaxed).checked_sub(1)
        {
            engine.store().worker_contexts().at(slot).shown().set(Activity::Elsewhere);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Who owns what lies at this place.
    pub(crate) fn owner_of(&self, place: u64) -> usize {
        self.routing.owner(place)
    }

    /// The room of all that a call touches, if it says that all of it lies at one place: as nearly every call does.
    #[inline]
    fn room_at_once(&self, footprint: &mut Footprint) -> Option<usize> {
        let mut references = footprint.references.iter_mut();
        let first = references.next()?;
        first.elsewhere = false;
        let place = place_of_reference(first)?;
        for one in references {
            one.elsewhere = false;
            if place_of_reference(one)? != place {
                return None;
            }
        }
        Some(room_of(self.routing.owner(place), place))
    }

    /// The rooms of all that a call locks. `home`: who owns it, if one executor does.
    fn rooms(&self, footprint: &Footprint, home: Option<usize>) -> Rooms {
        let mut rooms = Rooms::new();
        for reference in footprint.references.iter().filter(|reference| is_locked(reference)) {
            match place_of_reference(reference) {
                Some(place) => rooms.push(room_of(self.routing.owner(place), place)),
                None => rooms.extend((0..self.len()).flat_map(rooms_of)),
            }
        }
        if rooms.is_empty() {
            rooms.push(rooms_of(home.unwrap_or(0)).start);
        }
        rooms.sort_unstable();
        rooms.dedup();
        rooms
    }

    /// Whose data a call touches.
    pub(crate) fn route(&self, footprint: &Footprint) -> Route {
        let route = self.routing.route(footprint.references.iter().map(place_of_reference));
        if route.is_empty() { smallvec![0] } else { route }
    }

    /// Whom a call is given to, whole: who owns all that it touches, apart from what it reads by secondary indexes. If it
    /// writes, and one executor owns all of that, then that one; what it reads of others' rows, of which it has the whole
    /// keys, is marked to be validated instead of locked: so that nobody has to be waited for.
    fn owner_of_whole(&self, footprint: &mut Footprint, route: &Route) -> Option<usize> {
        if let [executor] = route[..] {
            footprint.references.iter_mut().for_each(|one| one.elsewhere = false);
            return Some(executor);
        }
        let owner = |one: &Reference| place_of_reference(one).map(|place| self.routing.owner(place));
        let references = &mut footprint.references;
        references.iter_mut().for_each(|one| one.elsewhere = false);
        let written = references.iter().find(|one| one.mode != Mode::Read);
        let writes = written.is_some();
        let home = match written.or_else(|| references.iter().find(|one| !is_floating(one))) {
            Some(first) => owner(first)?,
            None => self.routing.turn(self.start_timestamp_of_call()),
        };
        let is_elsewhere = |one: &Reference| owner(one) != Some(home) && !is_floating(one);
        let may_be = |one: &Reference| writes && one.mode == Mode::Read && one.whole;
        if references.iter().any(|one| is_elsewhere(one) && !may_be(one)) {
            return None;
        }
        references.iter_mut().filter(|one| is_elsewhere(one)).for_each(|one| one.elsewhere = true);
        Some(home)
    }

    /// Lets a call in. False: the database is being closed.
    pub(crate) fn submit(&self, entrant: Entrant) -> bool {
        let mut entrant = Box::new(entrant);
        loop {
            let version = self.routing.version();
            let route = self.route(&entrant.footprint);
            let Some(executor) = self.owner_of_whole(&mut entrant.footprint, &route) else {
                return self.submit_to_several(*entrant);
            };
            match self.queues.let_many_in(1, executor, version, entrant, Task::Whole) {
                Ok(()) => return true,
                Err(Refused::Closed(_)) => return false,
                Err(Refused::Moved(back)) => entrant = back,
            }
        }
    }

    /// Lets a call over several executors in. False: the database is being closed.
    fn submit_to_several(&self, entrant: Entrant) -> bool {
        let is_open = self.queues.let_one_in();
        if is_open {
            self.enter(Arc::new(Flow { entrant, start_timestamp: self.start_timestamp_of_call() }), 1);
        }
        is_open
    }

    /// Enters an attempt of a call that is under way, with everything that it declares at these executors. Where the
    /// boundaries have moved since it was routed, it is routed anew: each time they have been moved by somebody.
    fn enter(&self, flow: Arc<Flow>, attempt: u32) {
        let is_parallel = attempt <= ATTEMPTS_IN_COMPANY
            && self.plan.is_parallel(flow.entrant.routine.failures(), || flow.has_places())
            && flow.is_parallel();
        loop {
            let version = self.routing.version();
            let entered = if is_parallel
                && let Meeting::Next(phase) = Phase::first(flow.clone(), attempt, version, &self.routing)
            {
                self.enter_phase(phase)
            } else {
                let serial = Serial::new(flow.clone(), &self.routing);
                self.queues.enter(version, Serial::entries(serial))
            };
            if entered {
                return;
            }
        }
    }

    /// False: boundaries that concern it have moved since the attempt began.
    fn enter_phase(&self, phase: Arc<Phase>) -> bool {
        self.queues.enter(phase.version, phase.entries())
    }

    /// The one executor to which the values of a first phase lead, if they lead to one; the footprint says so then.
    fn owner_looked_up(
        &self,
        scout: &mut Scout<'_, '_>,
        (routine, args): (&dyn Routine, &Args),
        footprint: &mut Footprint,
    ) -> Option<usize> {
        if !scout.look_ahead(routine, args, footprint) {
            return None;
        }
        let led = self.route(footprint);
        let owner = self.owner_of_whole(footprint, &led);
        if owner.is_none() {
            // It worked its keys out before, from the same arguments.
            _ = scout::forget(routine, args, footprint);
        }
        owner
    }

    /// Lets a call go the long way that was misled by what was looked up ahead, or whose turn here is over.
    fn reenter(&self, mut entrant: Box<Entrant>) -> Result<(), (Box<Entrant>, Error)> {
        let Entrant { routine, args, footprint, .. } = &mut *entrant;
        if let Err(error) = scout::forget(&**routine, args, footprint) {
            return Err((entrant, error));
        }
        self.enter(Arc::new(Flow { entrant: *entrant, start_timestamp: self.start_timestamp_of_call() }), 1);
        Ok(())
    }

    /// No more calls come in; executors go when those that are under way have ended.
    pub(crate) fn close(&self) {
        self.queues.close();
    }

    /// Hand-overs to the executors, and what was handed over.
    pub(crate) fn batches(&self) -> (u64, u64) {
        self.queues.batches()
    }

    fn start_timestamp_of_call(&self) -> u64 {
        // Relaxed: only that no two are equal counts.
        self.start_timestamps.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Whether an executor that runs the whole call locks this. It does not ask whose it is *now*: the boundaries may have moved
/// since the call came in.
fn is_locked(reference: &Reference) -> bool {
    !reference.elsewhere && !is_floating(reference)
}
