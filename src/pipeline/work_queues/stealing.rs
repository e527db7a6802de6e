//! The calls that a worker dequeues: a group from its own queue, or one stolen from another's.
//!
//! Invariants: a worker publishes the conflict class of what it dequeues while it holds that queue's lock.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{Ordering, Queue, State, Work, WorkQueues};

/// Number of calls at the head of a queue that a worker examines.
const LOOKED_AT: usize = 32;
/// The maximum group of calls that have a conflict class, or of any calls while a worker is idle: calls that are
/// already dequeued cannot be stolen.
const FEW: usize = 8;

/// The positions in a queue of calls that are dequeued together.
pub(super) type Group = SmallVec<[usize; 64]>;

/// The conflict classes that workers are running.
type Running = SmallVec<[u64; 32]>;

/// The call that an idle worker steals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The first call whose conflict class no worker is running.
    NoConflict,
    /// The first call of a crowded queue that may overlap with its class: that queue's worker cannot keep up.
    Crowded,
}

impl<T: Work> WorkQueues<T> {
    /// Publishes that a worker now runs calls of this conflict class; 0: of none. Returns whether calls of the class that
    /// it ran before can run elsewhere now.
    pub(super) fn runs(&self, worker: usize, conflict_class: u64) -> bool {
        let running = &self.queues[worker].running;
        // Relaxed: only the worker itself writes it.
        let before = running.load(Ordering::Relaxed);
        if before != conflict_class {
            // SeqCst: a worker publishes that it has finished before it looks for idle workers (see the parent's docs).
            running.store(conflict_class, Ordering::SeqCst);
        }
        before != conflict_class && before != 0
    }

    /// After a conflict class was freed: wakes an idle worker if any calls wait, and all sleeping workers whose own calls
    /// may have waited for that class.
    pub(super) fn wake_for(&self, freed: bool, worker: usize) {
        let waits = |queue: &Queue<T>| queue.waiting.load(Ordering::SeqCst) > 0;
        if !freed || self.idle.load(Ordering::SeqCst) == 0 || !self.queues.iter().any(waits) {
            return;
        }
        self.nudge_another(worker);
        for queue in self.queues.iter().filter(|queue| waits(queue) && queue.asleep.load(Ordering::SeqCst)) {
            queue.state.lock().nudged = true;
            queue.filled.notify_one();
        }
    }

    /// The conflict classes that workers other than this one are running.
    fn running_beside(&self, worker: Option<usize>) -> Running {
        let others = self.queues.iter().enumerate().filter(|(number, _)| Some(*number) != worker);
        // SeqCst: a worker loads this last before it sleeps (see the parent's docs).
        others
            .map(|(_, queue)| queue.running.load(Ordering::SeqCst))
            .filter(|conflict_class| *conflict_class != 0)
            .collect()
    }

    /// A few calls of one conflict class in a worker's own queue: the first class that no other worker is running, or else
    /// that of the first call that may overlap with its class.
    pub(super) fn group(&self, state: &State<T>, worker: usize, at_most: usize) -> Option<Group> {
        let items = &state.items;
        let half = items.len().div_ceil(2).min(at_most).max(1);
        let seen = || items.iter().take(LOOKED_AT).enumerate();
        let first = match items.front()?.conflict_class() {
            // A call without a conflict class conflicts with no running call.
            0 => 0,
            _ => {
                let running = self.running_beside(Some(worker));
                let free = seen().find(|(_, item)| !running.contains(&item.conflict_class()));
                // Once the queue is closed, no call waits for its class.
                let other = || seen().find(|(_, item)| state.closed || !item.waits_for_rivals());
                free.or_else(other)?.0
            }
        };
        let conflict_class = items[first].conflict_class();
        // Relaxed: if a worker becomes idle just now, half of the queue is still left to steal.
        let most =
            if conflict_class == 0 && self.idle.load(Ordering::Relaxed) == 0 { half } else { half.min(FEW) };
        let alike = items.iter().enumerate().skip(first).take(LOOKED_AT.max(most));
        let alike = alike.filter(|(_, item)| item.conflict_class() == conflict_class);
        Some(alike.map(|(place, _)| place).take(most).collect())
    }

    /// Returns true if an idle worker would steal a call of this queue.
    pub(super) fn has_stealable(&self, state: &State<T>) -> bool {
        let victim = |victim| self.victim(&state.items, victim).is_some();
        victim(Victim::NoConflict) || victim(Victim::Crowded)
    }

    /// The position of the call that an idle worker steals.
    fn victim(&self, items: &VecDeque<T>, victim: Victim) -> Option<usize> {
        match victim {
            Victim::NoConflict => {
                let running = self.running_beside(None);
                items.iter().take(LOOKED_AT).position(|item| !running.contains(&item.conflict_class()))
            }
            Victim::Crowded => {
                let crowded = self.sharing().is_some_and(|sharing| items.len() > sharing.bound / 2);
                items.iter().take(LOOKED_AT).position(|item| crowded && !item.waits_for_rivals())
            }
        }
    }

    /// Steals one call from another worker's queue, if it can: from the longest queue with a call whose conflict class no
    /// worker is running, or else from the longest crowded queue.
    pub(super) fn steal(&self, worker: usize, into: &mut Vec<T>) -> bool {
        if !self.are_shared() {
            return false;
        }
        // SeqCst: a worker loads this last before it sleeps (see the parent's docs).
        let waiting = |queue: &Queue<T>| queue.waiting.load(Ordering::SeqCst);
        let others = self.queues.iter().enumerate().filter(|(number, _)| *number != worker);
        let mut others: SmallVec<[(usize, usize); 32]> = others
            .map(|(number, queue)| (waiting(queue), number))
            .filter(|(waiting, _)| *waiting > 0)
            .collect();
        others.sort_unstable_by_key(|(waiting, _)| std::cmp::Reverse(*waiting));
        let mut any = |victim| others.iter().any(|(_, other)| self.steal_from(*other, victim, worker, into));
        any(Victim::NoConflict) || any(Victim::Crowded)
    }

    fn steal_from(&self, queue: usize, victim: Victim, worker: usize, into: &mut Vec<T>) -> bool {
        let state = self.queues[queue].state.lock();
        let Some(place) = self.victim(&state.items, victim) else { return false };
        self.runs(worker, state.items[place].conflict_class());
        self.take_from(queue, state, |items| into.extend(items.remove(place)));
        // Relaxed: statistics.
        self.stolen.fetch_add(1, Ordering::Relaxed);
        true
    }
}
