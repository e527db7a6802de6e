//! What a worker does not run itself: calls that it hands over to executors, and waits for.
//!
//! What it keeps true: of the calls that are handed over none passes another that has to come before it; and while the worker
//! waits it has nothing, no room and no pin.

use std::sync::Arc;

use super::Round;
use crate::pipeline::partition::entrant::{Batch, Group, Offered, Sink};
use crate::pipeline::partition::executor::Task;
use crate::pipeline::partition::pending::Signs;
use crate::pipeline::partition::queue::{Refused, executor_of};
use crate::pipeline::partition::scout::forget;
use crate::storage::worker_context::Counters;

impl<P: Offered> Round<'_, '_, '_, P> {
    /// Gives what comes first, and all that may run with it at the same executor, to the executor's own thread, and waits for it.
    /// False: the boundaries have moved, and it is still here.
    pub(super) fn hand_batch(&mut self) -> bool {
        let mut pending = std::mem::take(&mut self.memory.pending);
        let Some(first) = pending.first() else { return true };
        if self.goes_over(first) {
            self.submit(pending.remove(0).place);
            self.memory.pending = pending;
            self.wait();
            return true;
        }
        let executor = first.rooms.first().map_or(0, |room| executor_of(*room));
        let (mut batch, mut passed) = (self.memory.batch(), Signs::default());
        pending.retain(|call| {
            let is_its = call.rooms.iter().all(|room| executor_of(*room) == executor);
            if is_its && !call.signs.hold_back(passed) {
                batch.push(call.place, self.calls[call.place].hand_batch());
                return false;
            }
            passed.add(call.signs);
            true
        });
        self.memory.pending = pending;
        let is_in = self.hand_batch_over(executor, batch);
        self.wait();
        is_in
    }

    /// Who waits for calls that are handed over: so many more.
    fn more_to_await(&mut self, calls: usize) -> Arc<Group> {
        let group = self.group.get_or_insert_with(Group::new);
        group.await_more(calls);
        group.clone()
    }

    /// Waits for what was handed over.
    pub(super) fn wait(&mut self) {
        if let Some(group) = &self.group {
            // What was found is not kept in memory for as long as that may take.
            self.visitor.found.fill(None);
            let (memory, group) = (&mut *self.memory, &**group);
            self.guard.repin_after(|| memory.take_in(group));
        }
    }

    /// Gives calls to an executor's own thread. False: the boundaries have moved, and they come again.
    fn hand_batch_over(&mut self, executor: usize, mut batch: Box<Batch>) -> bool {
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
                    self.memory.coming.push(place);
                }
                self.memory.keep(batch);
                return false;
            }
        }
        true
    }

    /// Lets a call in that goes its own way from here on.
    pub(super) fn submit(&mut self, place: usize) {
        let mut entrant = self.calls[place].hand_batch();
        let group = self.more_to_await(1);
        entrant.sink = Sink::Group(group.clone(), place);
        if !self.executors.submit_to_several(entrant) {
            group.refuse(1);
        }
    }

    /// Lets a call go the long way that was misled by what was looked up ahead. It has not run, and is let in like any other.
    pub(super) fn hand_batch_again(&mut self, place: usize) {
        Counters::count(&self.visitor.slot_guard.worker_context().counters.aborted_read);
        let (routine, args, footprint) = self.calls[place].parts_mut();
        match forget(routine, args, footprint) {
            Ok(()) => self.submit(place),
            Err(error) => self.refuse(place, error),
        }
    }
}
