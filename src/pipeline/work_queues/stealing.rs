//! What a worker chooses: a group of its own queue, or one call of another's.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{Ordering, Queue, State, Work, WorkQueues};

/// So far a worker looks into a queue for a call that suits it.
const LOOKED_AT: usize = 32;
/// The most calls that a worker takes at once that have conflicts, or while a worker is idle: what it has taken no
/// thread can steal.
const FEW: usize = 8;

/// The places of calls that are taken together, in a queue.
pub(super) type Group = SmallVec<[usize; 64]>;

/// The conflict classes that workers run.
type Running = SmallVec<[u64; 32]>;

/// What an idle worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A call whose conflict class no worker runs: the first that there is in a queue.
    NoConflict,
    /// The first of a crowded queue that need not wait for its rivals: that queue gets more than its own worker can do.
    Crowded,
}

impl<T: Work> WorkQueues<T> {
    /// A worker runs calls of this conflict class from now on; 0: of none. Whether the rivals of what it ran before can run
    /// elsewhere now.
    pub(super) fn runs(&self, worker: usize, conflict_class: u64) -> bool {
        let running = &self.queues[worker].running;
        // Relaxed: only the worker itself writes it.
        let before = running.load(Ordering::Relaxed);
        if before != conflict_class {
            // SeqCst: a thread that no longer runs something makes that visible before it looks for idle workers (the
            // parent's argument).
            running.store(conflict_class, Ordering::SeqCst);
        }
        before != conflict_class && before != 0
    }

    /// Wakes an idle worker, if rivals of what this one ran have become free, and calls wait; and all whose own calls may
    /// have waited for that.
    pub(super) fn tell_of(&self, freed: bool, worker: usize) {
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

    /// What the others run.
    fn running_beside(&self, worker: Option<usize>) -> Running {
        let others = self.queues.iter().enumerate().filter(|(number, _)| Some(*number) != worker);
        // SeqCst: a thread that goes to sleep looks at this last (the parent's argument).
        others
            .map(|(_, queue)| queue.running.load(Ordering::SeqCst))
            .filter(|conflict_class| *conflict_class != 0)
            .collect()
    }

    /// The places of a few calls of one conflict class in a worker's own queue: of the first whose conflict class no
    /// other worker runs, or else of the first that need not wait for them.
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
                // What waits for its rivals waits no longer when nothing comes any more.
                let other = || seen().find(|(_, item)| state.closed || !item.waits_for_rivals());
                free.or_else(other)?.0
            }
        };
        let conflict_class = items[first].conflict_class();
        // Relaxed: should a worker become idle just now, less is left to be stolen, and half still is.
        let most =
            if conflict_class == 0 && self.idle.load(Ordering::Relaxed) == 0 { half } else { half.min(FEW) };
        let alike = items.iter().enumerate().skip(first).take(LOOKED_AT.max(most));
        let alike = alike.filter(|(_, item)| item.conflict_class() == conflict_class);
        Some(alike.map(|(place, _)| place).take(most).collect())
    }

    /// Whether an idle worker would take something out of this queue.
    pub(super) fn has_stealable(&self, state: &State<T>) -> bool {
        let victim = |victim| self.victim(&state.items, victim).is_some();
        victim(Victim::NoConflict) || victim(Victim::Crowded)
    }

    /// The place of the call that an idle worker takes.
    fn victim(&self, items: &VecDeque<T>, victim: Victim) -> Option<usize> {
        match victim {
            Victim::NoConflict => {
                let running = self.running_beside(None);
                items.iter().take(LOOKED_AT).position(|item| !running.contains(&item.conflict_class()))
            }
            Victim::Crowded => {
                let crowded = self.sharing.is_some_and(|sharing| items.len() > sharing.bound / 2);
                items.iter().take(LOOKED_AT).position(|item| crowded && !item.waits_for_rivals())
            }
        }
    }

    /// Takes one call from another's queue, if there is one to take: of the longest queue that has one whose conflict
    /// class no worker runs, or else of the longest crowded one.
    pub(super) fn steal(&self, worker: usize, into: &mut Vec<T>) -> bool {
        if self.sharing.is_none() {
            return false;
        }
        // SeqCst: a thread that goes to sleep looks at this last (the parent's argument).
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
