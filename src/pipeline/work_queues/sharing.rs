//! The rules by which workers share their queues, which change with the schedule.
//!
//! Invariants: no call waits in a queue while a worker that should run it by the rules in force sleeps.
//!
//! Concurrency: the rules are one number, which every thread reads while it holds a queue's lock, or looks at again before it sleeps. A
//! thread that changes them locks all queues once, so that calls which were enqueued by the old rules, for which no thief was woken, are
//! visible, and then wakes all workers and all threads that wait for room.

use super::{Ordering, State, Work, WorkQueues};

/// The rules by which workers share their queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The maximum number of calls in a queue.
    pub(crate) bound: usize,
}

impl<T: Work> WorkQueues<T> {
    /// Returns true if workers steal.
    #[inline]
    pub(crate) fn are_shared(&self) -> bool {
        self.sharing().is_some()
    }

    #[inline]
    pub(super) fn sharing(&self) -> Option<Sharing> {
        // Relaxed: the queues' locks order it, as the module docs say.
        let bound = self.bound.load(Ordering::Relaxed);
        (bound > 0).then_some(Sharing { bound })
    }

    /// The most calls in a queue.
    pub(super) fn most_calls(&self) -> usize {
        self.sharing().map_or(usize::MAX, |sharing| sharing.bound)
    }

    /// Returns true if a worker can run a call of its own queue.
    pub(super) fn has_runnable(&self, state: &State<T>, worker: usize) -> bool {
        if self.are_shared() { self.group(state, worker, 1).is_some() } else { !state.items.is_empty() }
    }

    /// Shares the queues by these rules from now on, or no longer.
    pub(crate) fn share(&self, sharing: Option<Sharing>) {
        // Relaxed: a thread that locks a queue after this one has locked it sees the new rules.
        self.bound.store(sharing.map_or(0, |sharing| sharing.bound), Ordering::Relaxed);
        self.queues.iter().for_each(|queue| drop(queue.state.lock()));
        for queue in &self.queues {
            queue.state.lock().nudged = true;
            queue.filled.notify_one();
            queue.drained.notify_all();
        }
    }
}
