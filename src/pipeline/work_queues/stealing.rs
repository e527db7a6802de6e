//! What a worker chooses: a group of its own queue, or one call of another's.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{Ordering, Queue, State, Work, WorkQueues};

/// So far a worker looks into a queue for a call that suits it.
const LOOKED_AT: usize = 32;

/// The rivalries that workers run.
type Running = SmallVec<[u64; 32]>;

impl<T: Work> WorkQueues<T> {
    /// A worker runs calls of this rivalry from now on; 0: of none. Whether the rivals of what it ran before can run
    /// elsewhere now.
    pub(super) fn runs(&self, worker: usize, rivalry: u64) -> bool {
        let running = &self.queues[worker].running;
        // Relaxed: only the worker itself writes it.
        let before = running.load(Ordering::Relaxed);
        if before != rivalry {
            // SeqCst: who no longer runs something makes that visible before it looks who sleeps (the parent's argument).
            running.store(rivalry, Ordering::SeqCst);
        }
        before != rivalry && before != 0
    }

    /// Wakes an idle worker, if rivals of what this one ran have become free, and calls wait.
    pub(super) fn tell_of(&self, freed: bool, worker: usize) {
        let waits = |queue: &Queue<T>| queue.waiting.load(Ordering::SeqCst) > 0;
        if freed && self.idle.load(Ordering::SeqCst) > 0 && self.queues.iter().any(waits) {
            self.nudge_another(worker);
        }
    }

    /// What the others run.
    fn running_beside(&self, worker: Option<usize>) -> Running {
        let others = self.queues.iter().enumerate().filter(|(number, _)| Some(*number) != worker);
        // SeqCst: who goes to sleep looks at this last (the parent's argument).
        others
            .map(|(_, queue)| queue.running.load(Ordering::SeqCst))
            .filter(|rivalry| *rivalry != 0)
            .collect()
    }

    /// The places of a few calls of one rivalry in a worker's own queue: of the first whose rivals nobody else runs, or
    /// else of the first.
    pub(super) fn group(&self, items: &VecDeque<T>, worker: usize, at_most: usize) -> SmallVec<[usize; 8]> {
        let running = self.running_beside(Some(worker));
        let seen = || items.iter().take(LOOKED_AT).enumerate();
        let first = seen().find(|(_, item)| !running.contains(&item.rivalry())).map_or(0, |(place, _)| place);
        let rivalry = items[first].rivalry();
        let alike = seen().skip(first).filter(|(_, item)| item.rivalry() == rivalry);
        alike.map(|(place, _)| place).take(at_most.max(1)).collect()
    }

    /// Whether an idle worker would take something out of this queue.
    pub(super) fn has_prey(&self, state: &State<T>) -> bool {
        self.prey(&state.items).is_some()
    }

    /// The place of the call that an idle worker takes: the first whose rivals nobody is running. Of a crowded queue the
    /// first in any case: it gets more than its own worker can do.
    fn prey(&self, items: &VecDeque<T>) -> Option<usize> {
        let running = self.running_beside(None);
        let suits = |item: &T| !running.contains(&item.rivalry());
        let crowded = self.sharing.is_some_and(|sharing| items.len() > sharing.bound / 2);
        items.iter().take(LOOKED_AT).position(suits).or_else(|| crowded.then_some(0))
    }

    /// Takes one call from another's queue, if there is one to take. The longest queue that has one gives it.
    pub(super) fn steal(&self, worker: usize, into: &mut Vec<T>) -> bool {
        if self.sharing.is_none() {
            return false;
        }
        // SeqCst: who goes to sleep looks at this last (the parent's argument).
        let waiting = |queue: &Queue<T>| queue.waiting.load(Ordering::SeqCst);
        let others = self.queues.iter().enumerate().filter(|(number, _)| *number != worker);
        let mut others: SmallVec<[(usize, usize); 32]> = others
            .map(|(number, queue)| (waiting(queue), number))
            .filter(|(waiting, _)| *waiting > 0)
            .collect();
        others.sort_unstable_by_key(|(waiting, _)| std::cmp::Reverse(*waiting));
        others.iter().any(|(_, other)| self.steal_from(*other, worker, into))
    }

    fn steal_from(&self, queue: usize, worker: usize, into: &mut Vec<T>) -> bool {
        let state = self.queues[queue].state.lock();
        let Some(place) = self.prey(&state.items) else { return false };
        self.runs(worker, state.items[place].rivalry());
        self.take_from(queue, state, |items| into.extend(items.remove(place)));
        // Relaxed: statistics.
        self.stolen.fetch_add(1, Ordering::Relaxed);
        true
    }
}
