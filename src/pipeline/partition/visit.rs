//! Visits: a worker of the caller's stands in for executors that sleep (docs/decisions, visits).
//!
//! To hand calls over costs two changes of threads, and the calls have to be made such that they can go. So a worker visits
//! the executor that its calls belong to, if that one is free: asleep, with nothing locked and nothing to do. It runs them on
//! its own thread as the executor would, and leaves; nobody else touches what the executor owns meanwhile. A call over several
//! executors runs while all of them are visited. Only who finds an executor not free for a while hands his calls over.
//!
//! What it keeps true:
//!
//! - **Nothing is held beyond a visit.** A call that runs whole ends within it, and nobody has local locks there when it
//!   begins: so the executor's lock table stays as it is, and the calls' locks are counted and not taken.
//! - **A visitor waits for nobody**, but, as executors do, for room in the log; and it visits several executors at once or none.
//!   So visitors never wait for each other in a circle.
//! - **Order.** What has come into a queue is never overtaken: who finds something there does not visit. The calls of
//!   a group take effect in its order: those of one executor run in it; before a call over several runs, all
//!   before it have; and so they have, at other executors, where one of two calls writes a table of which the other reads
//!   what its executor does not own, or both write one whose unique indexes know no owners ([`Round::keep_order`]). Where boundaries have moved, all that has not run is routed anew.

use std::sync::Arc;

use crossbeam_utils::Backoff;
use smallvec::{SmallVec, smallvec};

use super::entrant::{Group, GroupMemory, List, Offered, Sink};
use super::executor::{Task, count_waiting_reader};
use super::queue::{Refused, Unfree};
use super::scout::{Scout, forget};
use super::{Executors, is_locked};
use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Output, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::Ending;
use crate::pipeline::worker::{GROUP_CALLS, execute_group};
use crate::protocol::Held;
use crate::protocol::footprint::Mode;
use crate::protocol::local::claim::place_of_reference;
use crate::storage::participant::{Counters, Seat};

/// So often a worker looks whether an executor has become free, before it hands its calls over. The first looks are made within
/// a few microseconds; between the others it lets other threads run, one of which may be the one that is there. All of them
/// together take about a millisecond, as another's visit with a group of long calls may: who gave up sooner would wake the executor,
/// whose thread then keeps visitors away and wants a processor of its own.
const LOOKS: u32 = if cfg!(heddle_model) { 2 } else { 2_000 };

/// A thread that has a seat, and what it runs calls with.
pub(crate) struct Visitor<'s, 'p> {
    pub(crate) engine: &'s Engine,
    pub(crate) seat: &'s mut Seat<'p>,
    pub(crate) held: &'s mut Held,
    pub(crate) found: &'s mut Vec<Found>,
}

/// A group of calls on its way through the executors.
struct Round<'r, 's, 'p, P> {
    executors: &'r Executors,
    visitor: Visitor<'s, 'p>,
    memory: &'r mut GroupMemory,
    calls: &'r mut [P],
    /// Who waits for what was handed over, if something was.
    group: Option<Arc<Group>>,
}

/// Looks again and again whether it is done, but not for ever. Whether it is.
fn look_often(mut is_done: impl FnMut() -> bool) -> bool {
    let backoff = Backoff::new();
    (0..LOOKS).any(|look| {
        if look > 0 {
            backoff.snooze();
        }
        is_done()
    })
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
        memory.lists.resize_with(self.len(), List::default);
        memory.coming.extend(0..calls.len());
        memory.version = self.routing.version();
        let mut round = Round { executors: self, visitor, memory, calls, group: None };
        loop {
            while let Some(place) = round.memory.coming.pop_front() {
                round.take_up(place);
            }
            if round.run_lists(None) {
                return;
            }
        }
    }
}

impl<P: Offered> Round<'_, '_, '_, P> {
    /// It is this call's turn: notes where it will run, or runs it.
    fn take_up(&mut self, place: usize) {
        let executors = self.executors;
        let (_, _, footprint) = self.calls[place].parts_mut();
        let home = executors.home(footprint).map_or_else(|| self.find_home(place), |home| Ok(Some(home)));
        match home {
            Ok(Some(home)) if self.keep_order(place, home) => self.memory.lists[home].places.push(place),
            // It comes again.
            Ok(Some(_)) => {}
            Ok(None) => self.run_over(place),
            Err(error) => self.refuse(place, error),
        }
    }

    fn refuse(&mut self, place: usize, error: Error) {
        self.memory.ended[place] = Some((Ending::refused(1, error), Output::default()));
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
        let Visitor { engine, seat, held, .. } = &mut self.visitor;
        Ok(executors.owner_looked_up(&mut Scout { engine, seat, held }, (routine, args), footprint))
    }

    fn count_locks(&self, locks: usize) {
        Counters::add(&self.visitor.seat.participant().counters.locks_local, locks as u64);
    }

    /// Runs what has to have happened at other executors before this call: there, too, somebody may read what it writes, or
    /// write what it reads, although only one of them declares it as its executor's; and what one gives up in a unique index
    /// another may want. False: see `route_anew`.
    fn keep_order(&mut self, place: usize, home: usize) -> bool {
        let (_, _, footprint) = self.calls[place].parts();
        let (mut written, mut read_apart) = (0_u64, 0_u64);
        for reference in &footprint.references {
            let table = 1 << (reference.table % u64::BITS);
            let writes = reference.mode != Mode::Read;
            // Who writes what is unique looks for it in an index, where he may find anybody's row.
            let reads_apart = if writes { reference.unique_beyond } else { !is_locked(reference) };
            written |= if writes { table } else { 0 };
            read_apart |= if reads_apart { table } else { 0 };
        }
        for other in (0..self.executors.len()).filter(|other| *other != home) {
            let list = &self.memory.lists[other];
            if list.written & read_apart | list.read_apart & written != 0 && !self.run_lists(Some(other)) {
                self.come_again(place);
                return false;
            }
        }
        let list = &mut self.memory.lists[home];
        list.written |= written;
        list.read_apart |= read_apart;
        true
    }

    /// This call is taken up anew, after what comes before it.
    fn come_again(&mut self, place: usize) {
        let at = self.memory.coming.partition_point(|other| *other < place);
        self.memory.coming.insert(at, place);
    }

    /// The boundaries have moved: all that is in the lists is taken up anew. Routed differently, a later call could run
    /// before an earlier one with the same rows.
    fn route_anew(&mut self) {
        for executor in 0..self.executors.len() {
            let mut list = std::mem::take(&mut self.memory.lists[executor]);
            list.places.drain(..).for_each(|place| self.come_again(place));
            self.memory.lists[executor].places = list.places;
        }
        self.memory.version = self.executors.routing.version();
    }

    /// Runs one executor's calls that wait, or everybody's: first where nobody is. False: the boundaries have moved, and what
    /// has not run is taken up anew.
    fn run_lists(&mut self, only: Option<usize>) -> bool {
        let count = self.executors.len();
        // Workers begin at different executors.
        let first = self.visitor.seat.participant().number();
        let mut to_run: SmallVec<[usize; 8]> = match only {
            Some(executor) => smallvec![executor],
            None => (0..count).map(|step| (first + step) % count).collect(),
        };
        to_run.retain(|executor| !self.memory.lists[*executor].places.is_empty());
        let mut has_moved = false;
        look_often(|| {
            to_run.retain(|executor| match self.run_list(*executor) {
                Ok(()) => false,
                Err(Unfree::Busy) => true,
                Err(Unfree::Moved) => {
                    has_moved = true;
                    true
                }
            });
            to_run.is_empty() || has_moved
        });
        has_moved |= !has_moved && !to_run.iter().all(|executor| self.hand_list_over(*executor));
        self.wait();
        if has_moved {
            self.route_anew();
        }
        !has_moved
    }

    /// Runs an executor's calls on a visit.
    fn run_list(&mut self, executor: usize) -> std::result::Result<(), Unfree> {
        let list = &mut self.memory.lists[executor];
        let visit = self.executors.queues.visit(&[executor], self.memory.version, list.places.len())?;
        let mut list = std::mem::take(list);
        let mut locks = 0;
        for &place in &list.places {
            let (_, _, footprint) = self.calls[place].parts();
            locks += footprint.references.iter().filter(|reference| is_locked(reference)).count();
        }
        self.count_locks(locks);
        self.count_requests(executor, &list.places);
        self.run_as(&[executor], &list.places);
        drop(visit);
        list.places.clear();
        // Its memory is kept.
        self.memory.lists[executor].places = list.places;
        Ok(())
    }

    /// Counts some of the requests that are made of an executor, for who moves boundaries.
    fn count_requests(&mut self, executor: usize, places: &[usize]) {
        let executors = self.executors;
        for &place in places {
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
    }

    /// Runs calls in place of executors: what they touch is shown as the first one's.
    fn run_as(&mut self, executors: &[usize], places: &[usize]) {
        let participant = self.visitor.seat.participant();
        executors.iter().for_each(|executor| self.executors.show_visited(self.visitor.engine, *executor));
        if let Some(first) = executors.first() {
            participant.be_executor(*first);
        }
        self.run_here(places);
        participant.be_no_executor();
    }

    /// Runs calls where this thread is.
    fn run_here(&mut self, places: &[usize]) {
        let Visitor { engine, seat, held, found } = &mut self.visitor;
        let counters = &seat.participant().counters;
        let mut misled: SmallVec<[usize; 4]> = SmallVec::new();
        let chosen: SmallVec<[&P; GROUP_CALLS]> = places.iter().map(|place| &self.calls[*place]).collect();
        let ended = &mut self.memory.ended;
        execute_group(engine, seat, held, found, &chosen, |number, ending, output| {
            if ending.stashed {
                return misled.push(places[number]);
            }
            count_waiting_reader(engine, counters, &ending);
            ended[places[number]] = Some((ending, output));
        });
        drop(chosen);
        for place in misled {
            self.hand_over_anew(place);
        }
    }

    /// Runs a call over several executors, after all that waits: whole, on a visit to all of them, if these are free.
    fn run_over(&mut self, place: usize) {
        if !self.run_lists(None) {
            return self.come_again(place);
        }
        // One that comes alone may do better: its actions beside each other.
        if self.executors.plan.is_serial_in_group(self.calls.len()) {
            let mut visited = Err(Unfree::Busy);
            look_often(|| {
                visited = self.run_on_visit(place);
                visited != Err(Unfree::Busy)
            });
            match visited {
                Ok(()) => return self.wait(),
                Err(Unfree::Moved) => {
                    self.route_anew();
                    return self.come_again(place);
                }
                Err(Unfree::Busy) => {}
            }
        }
        self.submit(place);
        self.wait();
    }

    /// Runs a call on a visit to several executors.
    fn run_on_visit(&mut self, place: usize) -> std::result::Result<(), Unfree> {
        let (_, _, footprint) = self.calls[place].parts();
        let route = self.executors.route(footprint);
        let visit = self.executors.queues.visit(&route, self.memory.version, 1)?;
        let locked = footprint.references.iter().filter(|reference| is_locked(reference));
        let many = |one| if place_of_reference(one).is_some() { 1 } else { route.len() };
        self.count_locks(locked.map(many).sum());
        route.iter().for_each(|executor| self.count_requests(*executor, &[place]));
        self.run_as(&route, &[place]);
        drop(visit);
        if let Some((ending, _)) = &self.memory.ended[place] {
            Counters::count(&self.visitor.seat.participant().counters.went_serial);
            self.calls[place].parts().0.failures().note(ending.failure.is_some());
        }
        Ok(())
    }

    /// Who waits for calls that are handed over: so many more.
    fn more_to_await(&mut self, calls: usize) -> Arc<Group> {
        let group = self.group.get_or_insert_with(Group::new);
        group.await_more(calls);
        group.clone()
    }

    /// Waits for what was handed over.
    fn wait(&mut self) {
        if let Some(group) = &self.group {
            self.memory.take_in(group);
        }
    }

    /// Gives an executor's calls to its own thread. False: the boundaries have moved, and they are still here.
    fn hand_list_over(&mut self, executor: usize) -> bool {
        let mut batch = self.memory.batch();
        for &place in &self.memory.lists[executor].places {
            batch.push(place, self.calls[place].hand_over());
        }
        let calls = batch.calls.len();
        let group = self.more_to_await(calls);
        batch.group = Some(group.clone());
        let version = self.memory.version;
        match self.executors.queues.let_many_in(calls, executor, version, batch, Task::Batch) {
            Ok(()) => {}
            Err(Refused::Closed(batch)) => {
                self.memory.keep(batch);
                group.refuse(calls);
            }
            Err(Refused::Moved(mut batch)) => {
                group.refuse(calls);
                for (place, entrant) in batch.places.drain(..).zip(batch.calls.drain(..)) {
                    self.calls[place].take_back(entrant);
                }
                self.memory.keep(batch);
                return false;
            }
        }
        let list = &mut self.memory.lists[executor];
        list.places.clear();
        (list.written, list.read_apart) = (0, 0);
        true
    }

    /// Lets a call in that goes its own way from here on.
    fn submit(&mut self, place: usize) {
        let mut entrant = self.calls[place].hand_over();
        let group = self.more_to_await(1);
        entrant.sink = Sink::Group(group.clone(), place);
        if !self.executors.submit_to_several(entrant) {
            group.refuse(1);
        }
    }

    /// Lets a call go the long way that was misled by what was looked up ahead. It has not run, and is let in like any other.
    fn hand_over_anew(&mut self, place: usize) {
        Counters::count(&self.visitor.seat.participant().counters.aborted_read);
        let (routine, args, footprint) = self.calls[place].parts_mut();
        match forget(routine, args, footprint) {
            Ok(()) => self.submit(place),
            Err(error) => self.refuse(place, error),
        }
    }
}
