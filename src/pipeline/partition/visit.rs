//! Visits: a worker of the caller's stands in for executors that sleep (docs/decisions, visits).
//!
//! To hand calls over costs two changes of threads, and the calls have to be made such that they can go. So a worker visits
//! the executor that its calls belong to, if that one is free: asleep, with nothing locked and nothing to do. It runs them on
//! its own thread as the executor would, and leaves; nobody else touches what the executor owns meanwhile. A call over several
//! executors runs while all of them are visited. Only who finds an executor not free for a while hands his calls over.
//!
//! A visit is short: one call, in the room of its data ([`queue`](super::queue)). Whose a call is, and the look-up of its keys
//! come before, for all calls of a group. Where one room is not free, the worker goes on with calls that belong into others.
//!
//! What it keeps true:
//!
//! - **Nothing is held beyond a visit.** A call that runs whole ends within it, and nobody has local locks there when it
//!   begins: so the executor's lock table stays as it is, and the calls' locks are counted and not taken.
//! - **A visitor waits for nobody**, but, as executors do, for room in the log; and, on its way to several executors, for
//!   other visitors ([`queue`](super::queue)). So visitors never wait for each other in a circle.
//! - **Order.** What has come into a queue is never overtaken: who finds something there does not visit. The calls of
//!   a group take effect in its order wherever it counts ([`pending`](super::pending)). Where boundaries have moved, all that has not
//!   run is routed anew.
//! - **Keys that were looked up are a guess.** What was found stays in memory while the worker is pinned, and each access sees
//!   whether its record is still the one. While the worker sleeps it is not pinned, and has found nothing.

mod hand_over;
mod patience;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_epoch::{Guard, pin};
use smallvec::smallvec;

use self::patience::Patience;
use super::entrant::{Group, GroupMemory, Offered, Visited};
use super::executor::count_waiting_reader;
use super::pending::{Pending, Signs};
use super::queue::{Route, Unfree, executor_of, executors_of};
use super::scout::{Scout, forget};
use super::{Executors, is_locked};
use crate::base::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Gathered, Output, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Outcome;
use crate::pipeline::worker::{execute_found, look_ahead};
use crate::protocol::Held;
use crate::protocol::local::claim::place_of_reference;
use crate::storage::worker_context::{Counters, SlotGuard};

/// A thread that has a slot, and what it runs calls with.
pub(crate) struct Visitor<'s, 'p> {
    pub(crate) engine: &'s Engine,
    pub(crate) slot_guard: &'s mut SlotGuard<'p>,
    pub(crate) held: &'s mut Held,
    pub(crate) found: &'s mut Vec<Found>,
}

/// A group of calls on its way through the executors.
struct Round<'r, 's, 'p, P> {
    executors: &'r Executors,
    visitor: Visitor<'s, 'p>,
    memory: &'r mut GroupMemory,
    calls: &'r mut [P],
    gathered: RefCell<Gathered>,
    /// Behind which the keys were looked up.
    guard: Guard,
    patience: Patience,
    /// Who waits for what was handed over, if something was.
    group: Option<Arc<Group>>,
}

/// What came of looking for something to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Something has run.
    Ran,
    /// What might run is where nobody is free.
    InVain,
    /// The boundaries have moved.
    Moved,
}

impl Executors {
    /// Runs calls in order, and waits until all have ended: `memory` says how. If it changes where a call belongs to between a
    /// look ahead and its turn, it takes effect later than others of the group may.
    pub(crate) fn execute_group<P: Offered>(
        &self,
        visitor: Visitor<'_, '_>,
        memory: &mut GroupMemory,
        calls: &mut [P],
    ) {
        memory.ended.clear();
        memory.ended.resize_with(calls.len(), || None);
        memory.visited.clear();
        memory.visited.resize(self.len(), Visited::default());
        memory.timer.begin();
        memory.coming.extend(0..calls.len());
        let (gathered, guard, patience) = (RefCell::default(), pin(), Patience::default());
        let mut round =
            Round { executors: self, visitor, memory, calls, gathered, guard, patience, group: None };
        while !round.memory.coming.is_empty() {
            round.take_up();
            round.run_all();
        }
        round.wait();
        round.leave();
    }
}

impl<P: Offered> Round<'_, '_, '_, P> {
    /// Finds out where the calls that come will run, and looks their keys up.
    fn take_up(&mut self) {
        self.memory.version = self.executors.routing.version();
        let mut coming = std::mem::take(&mut self.memory.coming);
        let mut pending = std::mem::take(&mut self.memory.pending);
        let mut found_at = 0;
        for place in coming.drain(..) {
            match self.rooms(place) {
                Ok(rooms) => {
                    let (_, _, footprint) = self.calls[place].parts();
                    pending.push(Pending::new(place, rooms, footprint, found_at));
                    found_at += footprint.references.len();
                }
                Err(error) => self.refuse(place, error),
            }
        }
        (self.memory.coming, self.memory.pending) = (coming, pending);
        self.look_up();
    }

    /// Looks the keys of all calls up, so that their cache misses overlap, and no visit is longer for them.
    fn look_up(&mut self) {
        let _work = at(Activity::Work);
        let Visitor { engine, slot_guard, found, .. } = &mut self.visitor;
        found.clear();
        let calls = self.memory.pending.iter().map(|pending| &self.calls[pending.place]);
        look_ahead(engine, slot_guard, found, calls, &self.guard);
    }

    /// What a call needs to itself.
    ///
    /// # Errors
    /// The procedure's own: it works its keys out anew.
    #[inline]
    fn rooms(&mut self, place: usize) -> Result<Route> {
        let executors = self.executors;
        let (_, _, footprint) = self.calls[place].parts_mut();
        if let Some(room) = executors.room_at_once(footprint) {
            return Ok(smallvec![room]);
        }
        let home = self.find_home(place)?;
        Ok(executors.rooms(self.calls[place].parts().2, home))
    }

    fn refuse(&mut self, place: usize, error: Error) {
        self.memory.ended[place] = Some((Outcome::refused(1, error), Output::default()));
    }

    /// Who owns a call that does not say so at once, if one executor does: by the long way, or by a look ahead.
    ///
    /// # Errors
    /// The procedure's own: it works its keys out anew.
    #[inline(never)]
    fn find_home(&mut self, place: usize) -> Result<Option<usize>> {
        let executors = self.executors;
        let (routine, args, footprint) = self.calls[place].parts_mut();
        let route = executors.route(footprint);
        let home = executors.owner_of_whole(footprint, &route);
        if home.is_some() {
            return Ok(home);
        }
        if footprint.references.iter().any(|one| one.guessed) {
            // The boundaries have moved since the look ahead.
            forget(routine, args, footprint)?;
        }
        let Visitor { engine, slot_guard, held, .. } = &mut self.visitor;
        Ok(executors.owner_looked_up(&mut Scout { engine, slot_guard, held }, (routine, args), footprint))
    }

    fn count_locks(&self, place: usize, executors: usize) {
        let (_, _, footprint) = self.calls[place].parts();
        let locked = footprint.references.iter().filter(|reference| is_locked(reference));
        let locks: usize =
            locked.map(|one| if place_of_reference(one).is_some() { 1 } else { executors }).sum();
        Counters::add(&self.visitor.slot_guard.worker_context().counters.locks_local, locks as u64);
    }

    /// Runs all calls: first where nobody is. If the boundaries move, what has not run comes again. Routed differently,
    /// a later call could run before an earlier one with the same rows: so it is all that has not run.
    fn run_all(&mut self) {
        while !self.memory.pending.is_empty() {
            match self.look() {
                Looked::Ran => self.patience = Patience::default(),
                Looked::InVain if self.patience.is_left() => {}
                Looked::InVain if self.hand_batch() => self.patience = Patience::default(),
                Looked::InVain | Looked::Moved => {
                    let GroupMemory { pending, coming, .. } = &mut *self.memory;
                    coming.extend(pending.drain(..).map(|pending| pending.place));
                    return coming.sort_unstable();
                }
            }
        }
    }

    /// Runs in order what may run where nobody is. Where a call had to be passed, it comes first again after one more has run.
    fn look(&mut self) -> Looked {
        let mut pending = std::mem::take(&mut self.memory.pending);
        let (mut passed, mut has_passed, mut looked) = (Signs::default(), false, Looked::InVain);
        let mut kept = 0;
        for at in 0..pending.len() {
            let call = &pending[at];
            let is_over = looked == Looked::Moved || has_passed && looked == Looked::Ran;
            if !is_over && !call.signs.hold_back(passed) {
                self.fetch_long_values(pending.get(at + 1));
                match self.try_to_run(call) {
                    Ok(()) => {
                        looked = Looked::Ran;
                        continue;
                    }
                    Err(Unfree::Moved) => looked = Looked::Moved,
                    Err(Unfree::Visited | Unfree::Busy) => {}
                }
            }
            passed.add(call.signs);
            has_passed = true;
            pending.swap(kept, at);
            kept += 1;
        }
        pending.truncate(kept);
        if looked == Looked::InVain
            && let Some(first) = pending.first()
            && first.rooms.len() > 1
        {
            looked = self.run_over(first);
            if looked == Looked::Ran {
                pending.remove(0);
            }
        }
        self.memory.pending = pending;
        looked
    }

    /// Has what the next call will read fetched while another one runs, as far as it is known.
    #[inline]
    fn fetch_long_values(&self, next: Option<&Pending>) {
        if let Some(next) = next {
            let (routine, args, footprint) = self.calls[next.place].parts();
            let found = &self.visitor.found[next.found_at..next.found_at + footprint.references.len()];
            routine.fetch_long_values(args, footprint, found);
        }
    }

    /// Runs a call on a visit, if nobody is in its rooms.
    #[inline]
    fn try_to_run(&mut self, call: &Pending) -> std::result::Result<(), Unfree> {
        if self.is_better_apart(call) {
            return Err(Unfree::Busy);
        }
        let visit = self.executors.queues.visit(&call.rooms, self.memory.version)?;
        self.run(call);
        drop(visit);
        Ok(())
    }

    /// Whether a call touches several executors' data.
    fn goes_over(&self, call: &Pending) -> bool {
        let ends = (call.rooms.first(), call.rooms.last());
        matches!(ends, (Some(first), Some(last)) if executor_of(*first) != executor_of(*last))
    }

    /// Whether a call goes to the executors' own threads: one that comes alone may do better with its actions beside each other.
    fn is_better_apart(&self, call: &Pending) -> bool {
        self.goes_over(call) && !self.executors.plan.is_serial_in_group(self.calls.len())
    }

    /// Runs a call that needs several rooms, and before which all have run: waits for other visitors there, but not for ever.
    fn run_over(&mut self, call: &Pending) -> Looked {
        if self.is_better_apart(call) {
            self.submit(call.place);
            self.wait();
            return Looked::Ran;
        }
        let executors = self.executors;
        let mut visit = executors.queues.no_visit();
        loop {
            match executors.queues.visit_more(&mut visit, &call.rooms, self.memory.version) {
                Ok(()) => break,
                Err(Unfree::Moved) => return Looked::Moved,
                Err(Unfree::Visited) if self.patience.is_left() => {}
                Err(Unfree::Visited | Unfree::Busy) => return Looked::InVain,
            }
        }
        self.run(call);
        drop(visit);
        Looked::Ran
    }

    /// Runs a call where this thread is, in place of the executors of its rooms.
    fn run(&mut self, call: &Pending) {
        let place = call.place;
        let several = self.goes_over(call);
        executors_of(&call.rooms).for_each(|executor| self.stand_in(executor, place));
        // What it touches is shown as the first one's.
        let worker_context = self.visitor.slot_guard.worker_context();
        call.rooms.first().into_iter().for_each(|room| worker_context.be_executor(executor_of(*room)));
        self.count_locks(place, if several { self.executors.len() } else { 1 });
        let _work = at(Activity::Work);
        let Visitor { engine, slot_guard, held, found } = &mut self.visitor;
        let offered = &self.calls[place];
        let found = &found[call.found_at..call.found_at + offered.parts().2.references.len()];
        let start = self.memory.timer.weight.map(|_| Instant::now());
        let (outcome, output) =
            execute_found(engine, slot_guard, held, offered, found, &self.gathered, &self.guard);
        if let Some(start) = start {
            self.memory.note_time(call, start.elapsed());
        }
        if outcome.stashed {
            return self.hand_batch_again(place);
        }
        let counters = &slot_guard.worker_context().counters;
        if several {
            Counters::count(&counters.went_serial);
            offered.parts().0.failures().note(outcome.failure.is_some());
        }
        count_waiting_reader(engine, counters, &outcome);
        self.memory.ended[place] = Some((outcome, output));
    }

    /// Counts what is run in place of an executor, and shows that it is.
    fn stand_in(&mut self, executor: usize, place: usize) {
        let visited = &mut self.memory.visited[executor];
        visited.calls += 1;
        if visited.calls == 1 {
            self.executors.show_visited(self.visitor.engine, executor);
        }
        self.count_request(executor, place);
    }

    /// Counts some of the requests that are made of an executor, for who moves boundaries.
    fn count_request(&mut self, executor: usize, place: usize) {
        let executors = self.executors;
        if self.memory.sampler.takes_next(&executors.loads[executor]) {
            let (_, _, footprint) = self.calls[place].parts();
            let locked = footprint.references.iter().filter(|reference| is_locked(reference));
            let mut own = locked
                .filter_map(place_of_reference)
                .filter(|place| executors.routing.owner(*place) == executor);
            if let Some(place) = own.next() {
                executors.loads[executor].note(place);
            }
        }
    }

    /// The group has ended: what ran in place of executors is told, and this thread stands in for none.
    fn leave(&mut self) {
        self.visitor.slot_guard.worker_context().be_no_executor();
        self.memory.timer.end();
        let visited = self.memory.visited.iter().enumerate();
        for (executor, Visited { calls, busy }) in visited.filter(|(_, visited)| visited.calls > 0) {
            self.executors.queues.note_visits(executor, 1, *calls, *busy);
        }
    }
}
