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

pub(crate) mod entrant;
pub(crate) mod executor;
mod flow;
mod latch;
mod part;
mod pins;
mod queue;
mod rendezvous;
pub(crate) mod scout;

use std::sync::{Arc, Weak};

use smallvec::{SmallVec, smallvec};

use self::entrant::{Batch, Entrant, Group, GroupMemory, Sink};
use self::executor::{Notice, Task};
use self::flow::{Flow, Meeting, Phase, Serial};
use self::latch::Latch;
use self::queue::{Entries, Queues};
use self::scout::Scout;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::Error;
use crate::pipeline::call::Routine;
use crate::pipeline::engine::Engine;
use crate::protocol::ATTEMPTS_IN_COMPANY;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::claim::{Want, is_floating, place_of_reference};
use crate::protocol::local::routing::{Route, Routing};
use crate::protocol::local::waits::Waits;
use crate::protocol::local::{Denied, Desk, Grant, OwnerId};
use crate::types::Args;

/// What all executors share.
pub(crate) struct Executors {
    engine: Weak<Engine>,
    queues: Queues<Task, Notice>,
    routing: Routing,
    waits: Waits,
    births: AtomicU64,
}

impl Executors {
    /// So many, of this engine.
    pub(crate) fn new(engine: &Arc<Engine>, executors: usize) -> Executors {
        Executors {
            engine: Arc::downgrade(engine),
            queues: Queues::new(executors),
            routing: Routing::new(executors),
            waits: Waits::default(),
            births: AtomicU64::new(0),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
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
            return Some(executor);
        }
        let owner = |one: &Reference| place_of_reference(one).map(|place| self.routing.owner(place));
        let references = &mut footprint.references;
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
        references.iter_mut().filter(|one| is_elsewhere(one)).for_each(|one| one.unrouted = true);
        Some(home)
    }

    /// Lets a call in. False: the database is being closed.
    pub(crate) fn submit(&self, mut entrant: Entrant) -> bool {
        let route = self.route(&entrant.footprint);
        if let Some(executor) = self.owner_of_whole(&mut entrant.footprint, &route) {
            return self.queues.let_in(1, smallvec![(executor, Task::Whole(Box::new(entrant)))]);
        }
        self.submit_to_several(entrant, route, false)
    }

    /// Lets a call over several executors in; it takes effect before what comes in later, or is free to.
    fn submit_to_several(&self, entrant: Entrant, route: Route, in_order: bool) -> bool {
        let flow = Arc::new(Flow { entrant, birth: self.birth_of_call() });
        if !self.queues.let_one_in() {
            return false;
        }
        if in_order {
            self.enter_serial(flow, route);
        } else {
            self.enter(flow, 1, route);
        }
        true
    }

    /// Enters an attempt of a call that is under way, with everything that it declares at these executors.
    fn enter(&self, flow: Arc<Flow>, attempt: u32, route: Route) {
        if attempt <= ATTEMPTS_IN_COMPANY
            && flow.is_parallel()
            && let Meeting::Next(phase) = Phase::first(flow.clone(), attempt, &self.routing)
        {
            return self.enter_phase(phase);
        }
        self.enter_serial(flow, route);
    }

    fn enter_phase(&self, phase: Arc<Phase>) {
        self.queues
            .enter(phase.route.iter().map(|&executor| (executor, Task::Phase(phase.clone()))).collect());
    }

    fn enter_serial(&self, flow: Arc<Flow>, route: Route) {
        let serial = Arc::new(Serial::new(flow, route.clone()));
        self.queues.enter(route.iter().map(|&executor| (executor, Task::Serial(serial.clone()))).collect());
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
            memory.waiting.push((owner.map_or(route, |owner| smallvec![owner]), entrant));
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

    /// Lets a call go the long way that was misled by what was looked up ahead.
    fn enter_anew(&self, mut entrant: Box<Entrant>) -> Result<(), (Box<Entrant>, Error)> {
        let Entrant { routine, args, footprint, .. } = &mut *entrant;
        if let Err(error) = scout::forget(&**routine, args, footprint) {
            return Err((entrant, error));
        }
        let route = self.route(&entrant.footprint);
        self.enter(Arc::new(Flow { entrant: *entrant, birth: self.birth_of_call() }), 1, route);
        Ok(())
    }

    /// Runs calls beside each other, which enter the queues in order: those of one executor together, up to one that goes
    /// to several.
    fn run_together(&self, memory: &mut GroupMemory) {
        let mut waiting = std::mem::take(&mut memory.waiting);
        let group = Group::new(waiting.len());
        let is_alone = waiting.len() == 1;
        let mut whole: SmallVec<[Option<Box<Batch>>; 8]> = (0..self.len()).map(|_| None).collect();
        for (place, (route, mut entrant)) in waiting.drain(..).enumerate() {
            if let [executor] = route[..] {
                whole[executor].get_or_insert_with(|| memory.batch()).push(place, entrant);
                continue;
            }
            for &executor in &route {
                self.let_batch_in(&mut whole[executor], executor, &group, memory);
            }
            entrant.sink = Sink::Group(group.clone(), place);
            if !self.submit_to_several(entrant, route, !is_alone) {
                group.refuse(1);
            }
        }
        for (executor, batch) in whole.iter_mut().enumerate() {
            self.let_batch_in(batch, executor, &group, memory);
        }
        memory.waiting = waiting;
        memory.take_in(&group);
    }

    /// Lets calls of a group in that are this executor's.
    fn let_batch_in(
        &self,
        batch: &mut Option<Box<Batch>>,
        executor: usize,
        group: &Arc<Group>,
        memory: &mut GroupMemory,
    ) {
        let Some(mut batch) = batch.take() else { return };
        batch.group = Some(group.clone());
        let calls = batch.calls.len();
        if let Err(batch) = self.queues.let_many_in(calls, executor, batch, Task::Batch) {
            memory.keep(batch);
            group.refuse(calls);
        }
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

    /// Whether an executor that runs the whole call locks this.
    fn is_locked_by(&self, reference: &Reference, executor: usize) -> bool {
        match place_of_reference(reference) {
            Some(place) => self.routing.owner(place) == executor,
            None => !is_floating(reference),
        }
    }

    /// What of this is to be locked at an executor.
    fn wants_at(&self, wants: &[Want], executor: usize) -> Vec<Want> {
        let is_here = |want: &&Want| want.place.is_none_or(|place| self.routing.owner(place) == executor);
        wants.iter().filter(is_here).cloned().collect()
    }
}

impl Desk for Executors {
    fn birth(&self) -> u64 {
        self.birth_of_call()
    }

    fn lock(&self, wants: Vec<Want>, birth: u64, room: &mut usize) -> Result<Grant, Denied> {
        let Some(engine) = self.engine.upgrade() else { return Err(Denied::Refused(Error::Closed)) };
        let owner = OwnerId::new();
        let executors = self.routing.route(wants.iter().map(|want| want.place));
        let latch = Arc::new(Latch::new(owner, birth, wants, executors.len()));
        let entries: Entries<Task> =
            executors.iter().map(|&executor| (executor, Task::Latch(latch.clone()))).collect();
        if !self.queues.let_in(1, entries) {
            return Err(Denied::Refused(Error::Closed));
        }
        let needed = std::mem::take(room);
        if needed > 0 {
            engine.space().give_back(needed);
        }
        let granted = latch.wait();
        if latch.was_parked() {
            self.waits.end(owner);
        }
        let mut grant = Grant { owner, executors, took_room: false };
        let denied = if !granted {
            Denied::Deadlock
        } else if needed == 0 {
            return Ok(grant);
        } else {
            match engine.reserve(needed) {
                Ok(()) => {
                    *room = needed;
                    grant.took_room = true;
                    return Ok(grant);
                }
                Err(error) => Denied::Refused(error),
            }
        };
        self.release(grant, room);
        Err(denied)
    }

    fn release(&self, grant: Grant, room: &mut usize) {
        if grant.took_room
            && let Some(engine) = self.engine.upgrade()
        {
            engine.space().give_back(std::mem::take(room));
        }
        for &executor in &grant.executors {
            self.queues.notify(executor, Notice::Ended(grant.owner));
        }
        self.queues.leave(1);
    }
}
