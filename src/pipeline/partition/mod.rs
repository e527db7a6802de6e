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
//! a lock: what cannot be granted is parked, and granted later by who gives up. [`executor`] is that thread's life,
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
mod pins;
mod queue;
mod rendezvous;
pub(crate) mod scout;

use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};

use self::boundaries::Moves;
use self::entrant::{Batch, Entrant, Group, GroupMemory, Sink, Waiting};
use self::executor::{Notice, Task};
use self::flow::{Flow, Meeting, Phase, Serial};
use self::manager::{Load, Manager};
use self::queue::{Queues, Refused};
use self::scout::Scout;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::Error;
use crate::pipeline::call::{Output, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Ending;
use crate::protocol::ATTEMPTS_IN_COMPANY;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::claim::{is_floating, place_of_reference};
use crate::protocol::local::routing::{Route, Routing};
use crate::protocol::local::waits::Waits;
use crate::types::Args;

/// Calls of a group that go together, for each executor.
type Batches = SmallVec<[Option<Box<Batch>>; 8]>;

/// What all executors share.
pub(crate) struct Executors {
    engine: Weak<Engine>,
    queues: Queues<Task, Notice>,
    routing: Routing,
    waits: Waits,
    births: AtomicU64,
    moves: Moves,
    /// What each executor was asked for.
    loads: Box<[CachePadded<Load>]>,
    manager: Mutex<Manager>,
    /// Whether boundaries follow the load.
    is_balanced: bool,
}

impl Executors {
    /// So many, of this engine. `is_balanced`: boundaries between them follow the load.
    pub(crate) fn new(engine: &Arc<Engine>, executors: usize, is_balanced: bool) -> Executors {
        Executors {
            engine: Arc::downgrade(engine),
            queues: Queues::new(executors),
            routing: Routing::new(executors),
            waits: Waits::default(),
            births: AtomicU64::new(0),
            moves: Moves::new(executors),
            loads: (0..executors).map(|_| CachePadded::default()).collect(),
            manager: Mutex::default(),
            is_balanced,
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
            None => self.routing.turn(self.birth_of_call()),
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
            self.enter(Arc::new(Flow { entrant, birth: self.birth_of_call() }), 1);
        }
        is_open
    }

    /// Enters an attempt of a call that is under way, with everything that it declares at these executors. Where the
    /// boundaries have moved since it was routed, it is routed anew: each time they have been moved by somebody.
    fn enter(&self, flow: Arc<Flow>, attempt: u32) {
        let is_parallel = attempt <= ATTEMPTS_IN_COMPANY && flow.is_parallel();
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
        let task = |&executor| (executor, Task::Phase(phase.clone()));
        self.queues.enter(phase.version, phase.route.iter().map(task).collect())
    }

    /// Runs calls in order, and waits until all have ended. They are under way beside each other: what enters the queues
    /// in order, and locks all that it touches there at once, meets what comes after it in order too. A call of which
    /// only values tell where it goes is run by itself, unless a look ahead finds its one executor. If that has changed
    /// until it runs, it takes effect later than others of the group may.
    pub(crate) fn execute_group<'c>(
        &self,
        mut scout: Scout<'_, '_>,
        memory: &mut GroupMemory,
        calls: impl Iterator<Item = (Arc<dyn Routine>, &'c Args, Footprint)>,
    ) {
        for (routine, args, footprint) in calls {
            if memory.waiting.is_empty() {
                // What goes together is routed by the same boundaries: see `run_together`.
                memory.version = self.routing.version();
            }
            let mut entrant = Entrant { routine, args: args.clone(), footprint, sink: Sink::Nobody };
            let mut route = self.route(&entrant.footprint);
            let mut owner = self.owner_of_whole(&mut entrant.footprint, &route);
            if owner.is_none() {
                owner = self.owner_looked_up(&mut scout, &mut entrant, &mut route);
            }
            let references = &entrant.footprint.references;
            let is_known = owner.is_some() || references.iter().all(|one| place_of_reference(one).is_some());
            if !is_known {
                self.run_together(memory);
            }
            let (place, route) = (memory.waiting.len(), owner.map_or(route, |owner| smallvec![owner]));
            memory.waiting.push(Waiting { place, route, entrant });
            if !is_known {
                self.run_together(memory);
            }
        }
        self.run_together(memory);
    }

    /// The one executor to which the values of a first phase lead, if they lead to one; the footprint says so then.
    fn owner_looked_up(
        &self,
        scout: &mut Scout<'_, '_>,
        entrant: &mut Entrant,
        route: &mut Route,
    ) -> Option<usize> {
        let Entrant { routine, args, footprint, .. } = entrant;
        if !scout.look_ahead(&**routine, args, footprint) {
            return None;
        }
        let led = self.route(footprint);
        let owner = self.owner_of_whole(footprint, &led);
        match owner {
            Some(_) => *route = led,
            // It worked its keys out before, from the same arguments.
            None => _ = scout::forget(&**routine, args, footprint),
        }
        owner
    }

    /// Lets a call go the long way that was misled by what was looked up ahead, or whose turn here is over.
    fn enter_anew(&self, mut entrant: Box<Entrant>) -> Result<(), (Box<Entrant>, Error)> {
        let Entrant { routine, args, footprint, .. } = &mut *entrant;
        if let Err(error) = scout::forget(&**routine, args, footprint) {
            return Err((entrant, error));
        }
        self.enter(Arc::new(Flow { entrant: *entrant, birth: self.birth_of_call() }), 1);
        Ok(())
    }

    /// Runs calls beside each other, which enter the queues in order: those of one executor together, up to one that goes
    /// to several. All were routed by the same boundaries. If these move, what has not entered yet is routed anew, all of
    /// it: routed differently, a later call could enter before an earlier one with the same rows.
    fn run_together(&self, memory: &mut GroupMemory) {
        let mut waiting = std::mem::take(&mut memory.waiting);
        let group = Group::new(waiting.len());
        if waiting.len() == 1 && waiting[0].route.len() > 1 {
            waiting.drain(..).for_each(|alone| self.submit_alone(&group, alone));
        }
        while !waiting.is_empty() {
            self.enter_together(&group, &mut waiting, memory);
            if !waiting.is_empty() {
                self.route_anew(&group, &mut waiting, memory);
            }
        }
        memory.waiting = waiting;
        memory.take_in(&group);
    }

    /// A call over several executors that need not take effect before others.
    fn submit_alone(&self, group: &Arc<Group>, Waiting { place, mut entrant, .. }: Waiting) {
        entrant.sink = Sink::Group(group.clone(), place);
        if !self.submit_to_several(entrant) {
            group.refuse(1);
        }
    }

    /// Lets all of them in that enter where they were routed to; leaves the others, in order.
    fn enter_together(&self, group: &Arc<Group>, waiting: &mut Vec<Waiting>, memory: &mut GroupMemory) {
        let mut whole: Batches = (0..self.len()).map(|_| None).collect();
        let mut left = SmallVec::<[Waiting; 4]>::new();
        let mut calls = waiting.drain(..);
        for Waiting { place, route, mut entrant } in calls.by_ref() {
            if let [executor] = route[..] {
                whole[executor].get_or_insert_with(|| memory.batch()).push(place, entrant);
                continue;
            }
            let mut are_in = route.iter();
            if are_in.all(|&executor| self.let_batch_in(&mut whole[executor], executor, group, memory)) {
                entrant.sink = Sink::Group(group.clone(), place);
                match self.submit_in_order(entrant, memory.version) {
                    Ok(()) => continue,
                    Err(None) => {
                        group.refuse(1);
                        continue;
                    }
                    Err(Some(back)) => entrant = *back,
                }
            }
            left.push(Waiting { place, route, entrant });
            break;
        }
        left.extend(calls);
        for (executor, batch) in whole.iter_mut().enumerate() {
            if !self.let_batch_in(batch, executor, group, memory)
                && let Some(mut refused) = batch.take()
            {
                left.extend(refused.take_back());
                memory.keep(refused);
            }
        }
        left.sort_by_key(|waiting| waiting.place);
        waiting.extend(left);
    }

    /// Lets calls of a group in that are this executor's. False: the boundaries have moved, and they are still here.
    fn let_batch_in(
        &self,
        of_executor: &mut Option<Box<Batch>>,
        executor: usize,
        group: &Arc<Group>,
        memory: &mut GroupMemory,
    ) -> bool {
        let Some(mut batch) = of_executor.take() else { return true };
        batch.group = Some(group.clone());
        let calls = batch.calls.len();
        match self.queues.let_many_in(calls, executor, memory.version, batch, Task::Batch) {
            Ok(()) => {}
            Err(Refused::Closed(batch)) => {
                memory.keep(batch);
                group.refuse(calls);
            }
            Err(Refused::Moved(batch)) => *of_executor = Some(batch),
        }
        of_executor.is_none()
    }

    /// Lets a call over several executors in, which takes effect before what comes in later.
    ///
    /// # Errors
    /// The boundaries have moved since that version: it is given back. None: the database is being closed.
    fn submit_in_order(&self, entrant: Entrant, version: u64) -> Result<(), Option<Box<Entrant>>> {
        let flow = Arc::new(Flow { entrant, birth: self.birth_of_call() });
        match self.queues.let_in(1, version, Serial::new(flow.clone(), &self.routing).entries()) {
            Ok(()) => Ok(()),
            Err(Refused::Closed(_)) => Err(None),
            Err(Refused::Moved(entries)) => {
                drop(entries);
                // What has entered nowhere is nobody else's.
                Err(Arc::into_inner(flow).map(|flow| Box::new(flow.entrant)))
            }
        }
    }

    /// Routes calls of a group by the boundaries as they are now.
    fn route_anew(&self, group: &Arc<Group>, waiting: &mut Vec<Waiting>, memory: &mut GroupMemory) {
        memory.version = self.routing.version();
        waiting.retain_mut(|Waiting { place, route, entrant }| {
            let Entrant { routine, args, footprint, .. } = entrant;
            *route = self.route(footprint);
            if let Some(owner) = self.owner_of_whole(footprint, route) {
                *route = smallvec![owner];
                return true;
            }
            // Only who runs a call whole follows what was looked up ahead, and finds out if it has misled.
            if footprint.references.iter().any(|one| one.guessed) {
                if let Err(error) = scout::forget(&**routine, args, footprint) {
                    group.end(*place, Ending::refused(1, error), Output::default());
                    return false;
                }
                *route = self.route(footprint);
            }
            true
        });
    }

    /// No more calls come in; executors go when those that are under way have ended.
    pub(crate) fn close(&self) {
        self.queues.close();
    }

    /// Hand-overs to the executors, and what was handed over.
    pub(crate) fn handovers(&self) -> (u64, u64) {
        self.queues.handovers()
    }

    fn birth_of_call(&self) -> u64 {
        // Relaxed: only that no two are equal counts.
        self.births.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Whether an executor that runs the whole call locks this. It does not ask whose it is *now*: the boundaries may have moved
/// since the call came in.
fn is_locked(reference: &Reference) -> bool {
    !reference.elsewhere && !is_floating(reference)
}
