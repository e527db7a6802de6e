//! The one deadlock detector.
//!
//! It knows owners that wait, and the queues in which they wait ([`WaitPlace`]: the lock table, the key ranges, any other
//! queue in which owners of locks may wait). The waits-for graph is not copied: a search asks the queues for its edges.
//!
//! **Every deadlock is found.** An owner is queued in its place first, registers here, and then searches for a
//! cycle through itself; registering and searching happen under one mutex. A new edge always leads to an owner that
//! runs (it acquires or strengthens a lock) or that has just been queued. So when the last member of a cycle registers,
//! all its edges are in the queues, they stay there (a waiter releases nothing), and its search meets every one: for
//! that, a queue names all blockers of a waiter, and no member has to be reached through owners outside the cycle.
//! That bounds the time: a deadlock lasts at worst for the looks that a waiter takes before it registers (a few
//! microseconds), and the search, which is linear in the edges that it can reach. Two owners that begin to wait at the
//! same moment register one after the other, and the second one finds it.
//!
//! **Nothing else is found.** An owner that the search reports as waiting is registered and, when its place was asked,
//! still queued: so it has been in this wait since before the search began (to leave it, it would have to sign off
//! here), and has held all that it holds. Therefore all edges of a cycle that the search found were there at its
//! beginning.
//!
//! **No starvation.** The victim is the youngest of a cycle, and start timestamps are kept over retries: the oldest of all
//! owners is never a victim, and every transaction becomes the oldest eventually.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::name::{LockName, OwnerId};

/// A place with queues in which owners wait.
pub(crate) trait WaitPlace: Send + Sync {
    /// Reports the waits-for edges in the queue of this name, as pairs of waiter and blocker. Of this waiter every
    /// blocker, also where another one in between leads there as well: that one may not be registered yet, and may
    /// leave. Then the place may spare the search questions by reporting others that this waiter waits for: all
    /// their blockers that this waiter does not have itself. Nothing at all, if it does not wait any more.
    fn edges(&self, waiter: OwnerId, name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId));

    /// Takes the waiter out of the queue, if it is there, and lets it know that it is the victim.
    fn mark_for_abort(&self, waiter: OwnerId, name: LockName);
}

/// A wait that has begun.
pub(crate) struct Wait {
    /// The waiter.
    pub(crate) owner: OwnerId,
    /// Time of the first attempt of its call: the greatest of a cycle is the victim.
    pub(crate) start_timestamp: u64,
    /// The lock that is waited for.
    pub(crate) name: LockName,
    /// The place in which it waits.
    pub(crate) place: Arc<dyn WaitPlace>,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Detector {
    graph: Mutex<Graph>,
}

#[derive(Default)]
struct Graph {
    waits: HashMap<OwnerId, Wait, FixedState>,
    search: Search,
}

/// Scratch memory of a search; kept for the next one.
#[derive(Default)]
struct Search {
    /// Owners that the search has reached: from which one, and whether its edges have been reported.
    reached: HashMap<OwnerId, Reached, FixedState>,
    pending: Vec<OwnerId>,
    edges: Vec<(OwnerId, OwnerId)>,
}

#[derive(Clone, Copy)]
struct Reached {
    from: Option<OwnerId>,
    expanded: bool,
}

impl Detector {
    /// Registers a wait whose request is in its queue, and breaks every deadlock that it completes. The queue notifies
    /// the victim, which may be this waiter.
    pub(crate) fn begin(&self, wait: Wait) {
        let owner = wait.owner;
        let mut graph = self.graph.lock();
        let Graph { waits, search } = &mut *graph;
        waits.insert(owner, wait);
        while let Some(victim) = search.victim(waits, owner) {
            if let Some(wait) = waits.get(&victim) {
                wait.place.mark_for_abort(victim, wait.name);
            }
            if victim == owner {
                return;
            }
        }
    }

    /// Registers a wait without a search: for a caller that knows that it completes no deadlock, or that searches later.
    pub(crate) fn register(&self, wait: Wait) {
        self.graph.lock().waits.insert(wait.owner, wait);
    }

    /// Removes a wait, however it ended, before its owner continues.
    pub(crate) fn end(&self, owner: OwnerId) {
        self.graph.lock().waits.remove(&owner);
    }

    /// Number of waits.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.graph.lock().waits.len()
    }
}

impl Search {
    /// The youngest of a cycle through `start`, if there is one.
    fn victim(&mut self, waits: &HashMap<OwnerId, Wait, FixedState>, start: OwnerId) -> Option<OwnerId> {
        if waits.len() < 2 {
            return None;
        }
        self.reached.clear();
        self.pending.clear();
        self.reach(start, None);
        while let Some(owner) = self.pending.pop() {
            let known = self.reached.get(&owner).is_some_and(|reached| reached.expanded);
            let Some(wait) = waits.get(&owner).filter(|_| !known) else { continue };
            self.edges.clear();
            let edges = &mut self.edges;
            wait.place.edges(owner, wait.name, &mut |blocked, blocker| edges.push((blocked, blocker)));
            for at in 0..self.edges.len() {
                let (blocked, blocker) = self.edges[at];
                // An owner that is queued and not registered will search itself: its wait may be newer than this one.
                let Some(reached) = self.reached.get_mut(&blocked).filter(|_| waits.contains_key(&blocked))
                else {
                    continue;
                };
                reached.expanded = true;
                if blocker == start {
                    return self.youngest(waits, blocked);
                }
                self.reach(blocker, Some(blocked));
            }
        }
        None
    }

    fn reach(&mut self, owner: OwnerId, from: Option<OwnerId>) {
        self.reached.entry(owner).or_insert_with(|| {
            self.pending.push(owner);
            Reached { from, expanded: false }
        });
    }

    /// The youngest on the way back from the last of a cycle to its start.
    fn youngest(&self, waits: &HashMap<OwnerId, Wait, FixedState>, last: OwnerId) -> Option<OwnerId> {
        let from = |owner: &OwnerId| self.reached.get(owner).and_then(|reached| reached.from);
        let cycle = std::iter::successors(Some(last), from);
        let start_timestamps =
            cycle.filter_map(|owner| waits.get(&owner).map(|wait| (wait.start_timestamp, owner)));
        start_timestamps.max().map(|(_, owner)| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A place whose edges a test sets by hand.
    #[derive(Default)]
    struct ByHand {
        edges: Mutex<Vec<(OwnerId, OwnerId)>>,
        marked_for_abort: Mutex<Vec<OwnerId>>,
        asked: Mutex<usize>,
    }

    impl WaitPlace for ByHand {
        fn edges(&self, waiter: OwnerId, _name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
            *self.asked.lock() += 1;
            let edges = self.edges.lock();
            edges.iter().filter(|(from, _)| *from == waiter).for_each(|&(from, to)| report(from, to));
        }

        fn mark_for_abort(&self, waiter: OwnerId, _name: LockName) {
            self.marked_for_abort.lock().push(waiter);
            self.edges.lock().retain(|(from, _)| *from != waiter);
        }
    }

    struct Rig {
        detector: Detector,
        place: Arc<ByHand>,
        owners: Vec<OwnerId>,
    }

    impl Rig {
        fn new(owners: usize) -> Rig {
            Rig {
                detector: Detector::default(),
                place: Arc::default(),
                owners: (0..owners).map(|_| OwnerId::new()).collect(),
            }
        }

        /// Owner number `from` begins to wait for all of `to`; its start timestamp is its number. Returns the owners
        /// that were marked for abort.
        fn wait(&self, from: usize, to: &[usize]) -> Vec<usize> {
            let owner = self.owners[from];
            self.place.edges.lock().extend(to.iter().map(|&to| (owner, self.owners[to])));
            let place = Arc::clone(&self.place) as Arc<dyn WaitPlace>;
            self.detector.begin(Wait {
                owner,
                start_timestamp: from as u64,
                name: LockName::Database,
                place,
            });
            let marked_for_abort: Vec<_> = self.place.marked_for_abort.lock().drain(..).collect();
            marked_for_abort
                .iter()
                .map(|one| self.owners.iter().position(|owner| owner == one).unwrap_or(99))
                .collect()
        }
    }

    #[test]
    fn one_who_waits_alone_costs_no_search() {
        let rig = Rig::new(2);
        assert!(rig.wait(0, &[1]).is_empty());
        assert_eq!(*rig.place.asked.lock(), 0);
        rig.detector.end(rig.owners[0]);
        assert_eq!(rig.detector.waiting(), 0);
    }

    #[test]
    fn chains_and_diamonds_are_no_deadlocks() {
        let rig = Rig::new(6);
        assert!(rig.wait(4, &[5]).is_empty());
        assert!(rig.wait(2, &[4]).is_empty());
        assert!(rig.wait(3, &[4, 5]).is_empty());
        assert!(rig.wait(1, &[2, 3]).is_empty());
        assert!(rig.wait(0, &[1, 2, 3, 4, 5]).is_empty());
    }

    #[test]
    fn the_youngest_of_the_cycle_is_the_victim_whoever_finds_it() {
        for last in 0..4 {
            let rig = Rig::new(6);
            // 5 is younger than all and waits for the cycle, but is no part of it.
            rig.wait(5, &[0]);
            for one in (0..4).filter(|one| *one != last) {
                assert!(rig.wait(one, &[(one + 1) % 4]).is_empty());
            }
            assert_eq!(rig.wait(last, &[(last + 1) % 4]), [3]);
        }
    }

    #[test]
    fn every_cycle_that_a_wait_completes_is_broken() {
        let rig = Rig::new(5);
        assert!(rig.wait(1, &[0]).is_empty());
        assert!(rig.wait(3, &[0]).is_empty());
        assert!(rig.wait(2, &[4]).is_empty());
        let mut marked_for_abort = rig.wait(0, &[1, 2, 3]);
        marked_for_abort.sort_unstable();
        assert_eq!(marked_for_abort, [1, 3]);
    }

    #[test]
    fn the_youngest_that_finds_a_cycle_aborts_once() {
        let rig = Rig::new(3);
        rig.wait(0, &[2]);
        rig.wait(1, &[2]);
        assert_eq!(rig.wait(2, &[0, 1]), [2]);
    }

    #[test]
    fn a_transaction_that_has_ended_is_no_part_of_a_cycle() {
        let rig = Rig::new(2);
        rig.wait(0, &[1]);
        rig.detector.end(rig.owners[0]);
        assert!(rig.wait(1, &[0]).is_empty());
    }

    /// Against the definition: after every wait the graph of those left has no cycle, and only members were marked for
    /// abort.
    #[test]
    fn random_graphs_are_left_without_cycles() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let rig = Rig::new(12);
            let mut order: Vec<usize> = (0..12).collect();
            random.shuffle(&mut order);
            for owner in order {
                let blockers: HashSet<usize> = (0..random.usize(1..4))
                    .map(|_| random.usize(0..12))
                    .filter(|one| *one != owner)
                    .collect();
                let marked_for_abort = rig.wait(owner, &blockers.into_iter().collect::<Vec<_>>());
                assert!(!marked_for_abort.contains(&0), "seed {seed}: the oldest is a victim");
                assert!(!has_cycle(&rig.place.edges.lock()), "seed {seed}");
                marked_for_abort.iter().for_each(|one| rig.detector.end(rig.owners[*one]));
            }
        }
    }

    /// Removes owners that wait for no waiting owner, until nothing changes: what is left is in a cycle or leads to one.
    fn has_cycle(edges: &[(OwnerId, OwnerId)]) -> bool {
        let mut left = edges.to_vec();
        loop {
            let waiters: HashSet<_> = left.iter().map(|(from, _)| *from).collect();
            let before = left.len();
            left.retain(|(_, to)| waiters.contains(to));
            if left.len() == before {
                return !left.is_empty();
            }
        }
    }
}
