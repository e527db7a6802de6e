//! The edges of the waits-for graph that local locks cause, for the one deadlock detector.
//!
//! A transaction can be parked at several executors at once. Each of them records the blockers here when it parks the
//! transaction, and again when they change ([`lock_table`](super::lock_table)). An owner is one attempt of a transaction, so
//! an owner that has ended never reappears.
//!
//! # Invariants
//! - **A cycle contains an owner that holds locks of an earlier entry.** Requests that enter all their queues atomically are
//!   in one order in all of them and wait for earlier ones only. A cycle therefore needs a member that waits while it
//!   *holds* what an earlier entry (an earlier phase) acquired. As long as there is none, no search is necessary.
//! - **The victim is the youngest owner that holds**, because releasing its locks breaks the cycle; an owner that holds
//!   nothing but a position in a queue would leave the cycle closed behind it. An old transaction can be the victim, but not
//!   forever: after some attempts a transaction locks everything in one entry.
//! - A victim is marked for abort and named to the thread that searched; from then on it waits for nothing.
//!
//! # Concurrency
//! An owner is registered with the detector first. Then, under the mutex, it records its blockers and looks whether any
//! owner holds and waits. Of the members of a cycle, the last to do so finds the cycle, or the last one that holds does.
//!
//! # Source
//! DORA (VLDB 2010), section 4.2.3.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use super::lock_table::Waiting;
use crate::lock::{Detector, LockName, OwnerId, Wait, WaitPlace};

/// The edges and the detector; see the module's description.
#[derive(Default)]
pub(crate) struct LocalWaits {
    detector: Detector,
    shared: Arc<Shared>,
}

/// The entry by which a request reached the queue of the executor that parks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is the owner's only entry, to this executor alone: no transaction waits for the owner yet.
    Alone,
    /// It is the owner's only entry, to several executors.
    First,
    /// It is a later entry: the owner holds locks of earlier ones.
    Later,
}

/// An owner that is marked for abort, and the executors where it is parked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) owner: OwnerId,
    pub(crate) executors: Vec<usize>,
}

/// Set in the start timestamp of owners that hold locks of an earlier entry, so that they count as younger than all others.
const LATER: u64 = 1 << 63;

/// The blockers of an owner at each executor where it is parked.
type Blockers = Vec<(usize, Vec<OwnerId>)>;

#[derive(Default)]
struct Shared {
    edges: Mutex<Edges>,
    victims: Mutex<Vec<Victim>>,
}

/// The edges.
#[derive(Default)]
struct Edges {
    of: HashMap<OwnerId, Blockers, FixedState>,
    /// Owners that wait and hold locks of an earlier entry.
    holding: HashSet<OwnerId, FixedState>,
}

impl LocalWaits {
    /// Records that an owner is parked at an executor. Returns the victims of deadlocks that this closes.
    pub(crate) fn park(&self, executor: usize, waiting: Waiting, entry: Entry) -> Vec<Victim> {
        let mut waiting = waiting;
        if entry == Entry::Later {
            waiting.start_timestamp |= LATER;
        }
        self.detector.register(self.wait(&waiting));
        let mut edges = self.shared.edges.lock();
        edges.of.entry(waiting.owner).or_default().push((executor, waiting.blockers.clone()));
        if entry == Entry::Later {
            edges.holding.insert(waiting.owner);
        }
        let searches = entry != Entry::Alone && !edges.holding.is_empty();
        drop(edges);
        if searches { self.search(&waiting) } else { Vec::new() }
    }

    /// Records new blockers of a parked owner. They were ahead of it before, so no search is necessary, unless its former
    /// blocker was the victim of a deadlock: then there was no path to the others for a while.
    pub(crate) fn change(&self, executor: usize, waiting: Waiting, after_victim: bool) -> Vec<Victim> {
        let mut edges = self.shared.edges.lock();
        let Some(all) = edges.of.get_mut(&waiting.owner) else { return Vec::new() };
        let Some((_, before)) = all.iter_mut().find(|(other, _)| *other == executor) else {
            return Vec::new();
        };
        *before = waiting.blockers.clone();
        let searches = after_victim && !edges.holding.is_empty();
        let mut waiting = waiting;
        if edges.holding.contains(&waiting.owner) {
            waiting.start_timestamp |= LATER;
        }
        drop(edges);
        if searches { self.search(&waiting) } else { Vec::new() }
    }

    fn search(&self, waiting: &Waiting) -> Vec<Victim> {
        self.detector.begin(self.wait(waiting));
        std::mem::take(&mut *self.shared.victims.lock())
    }

    fn wait(&self, waiting: &Waiting) -> Wait {
        let place = Arc::clone(&self.shared) as Arc<dyn WaitPlace>;
        Wait {
            owner: waiting.owner,
            start_timestamp: waiting.start_timestamp,
            name: LockName::Database,
            place,
        }
    }

    /// Records that an owner is granted or canceled at an executor.
    pub(crate) fn unpark(&self, owner: OwnerId, executor: usize) {
        let mut edges = self.shared.edges.lock();
        if let Some(blockers) = edges.of.get_mut(&owner) {
            blockers.retain(|(other, _)| *other != executor);
            if blockers.is_empty() {
                edges.holding.remove(&owner);
            }
        }
    }

    /// Forgets an owner that was parked and has ended.
    pub(crate) fn end(&self, owner: OwnerId) {
        self.detector.end(owner);
        let mut edges = self.shared.edges.lock();
        edges.of.remove(&owner);
        edges.holding.remove(&owner);
    }
}

impl WaitPlace for Shared {
    fn edges(&self, waiter: OwnerId, _name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        if let Some(blockers) = self.edges.lock().of.get(&waiter) {
            blockers.iter().flat_map(|(_, blockers)| blockers).for_each(|&blocker| report(waiter, blocker));
        }
    }

    fn mark_for_abort(&self, waiter: OwnerId, _name: LockName) {
        let mut edges = self.edges.lock();
        edges.holding.remove(&waiter);
        let Some(blockers) = edges.of.remove(&waiter) else { return };
        drop(edges);
        let executors = blockers.into_iter().map(|(executor, _)| executor).collect();
        self.victims.lock().push(Victim { owner: waiter, executors });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner with its start timestamp.
    #[derive(Clone, Copy)]
    struct Call(OwnerId, u64);

    fn calls<const N: usize>() -> [Call; N] {
        std::array::from_fn(|start_timestamp| Call(OwnerId::new(), start_timestamp as u64))
    }

    fn waiting(call: Call, blockers: &[Call]) -> Waiting {
        Waiting {
            owner: call.0,
            start_timestamp: call.1,
            blockers: blockers.iter().map(|call| call.0).collect(),
        }
    }

    fn park(waits: &LocalWaits, call: Call, executor: usize, blockers: &[Call], holds: bool) -> Vec<Victim> {
        let entry = if holds { Entry::Later } else { Entry::First };
        waits.park(executor, waiting(call, blockers), entry)
    }

    #[test]
    fn a_cycle_over_two_executors_aborts_its_youngest() {
        for _ in 0..2 {
            let (waits, [old, young]) = (LocalWaits::default(), calls());
            assert!(park(&waits, old, 0, &[young], true).is_empty());
            let victims = park(&waits, young, 1, &[old], true);
            assert_eq!(victims, [Victim { owner: young.0, executors: vec![1] }]);
            waits.end(young.0);
            waits.end(old.0);
            assert!(waits.shared.edges.lock().of.is_empty() && waits.shared.edges.lock().holding.is_empty());
        }
    }

    #[test]
    fn an_owner_that_is_parked_twice_waits_for_all_blockers() {
        let (waits, [one, two, twice, other]) = (LocalWaits::default(), calls());
        assert!(park(&waits, twice, 0, &[other], true).is_empty());
        assert!(park(&waits, twice, 1, &[one], true).is_empty());
        assert!(park(&waits, one, 2, &[two], true).is_empty());
        let victims = park(&waits, two, 0, &[twice], true);
        assert_eq!(victims, [Victim { owner: twice.0, executors: vec![0, 1] }]);
    }

    #[test]
    fn an_owner_that_holds_is_the_victim_before_one_that_only_queues() {
        let (waits, [holds, queues]) = (LocalWaits::default(), calls());
        assert!(park(&waits, holds, 0, &[queues], true).is_empty());
        assert_eq!(park(&waits, queues, 1, &[holds], false)[0].owner, holds.0);
    }

    #[test]
    fn granted_and_changed_requests_leave_no_edges() {
        let (waits, [one, two, three]) = (LocalWaits::default(), calls());
        assert!(park(&waits, one, 1, &[two], true).is_empty());
        waits.unpark(one.0, 1);
        assert!(park(&waits, two, 1, &[one], true).is_empty());
        assert!(waits.change(1, waiting(two, &[three]), true).is_empty());
        assert!(waits.change(0, waiting(two, &[one]), true).is_empty(), "it does not wait there");
        assert!(park(&waits, one, 0, &[two], true).is_empty());
        assert_eq!(park(&waits, three, 0, &[one], true).len(), 1);
    }

    #[test]
    fn a_request_behind_a_victim_searches_again() {
        for is_victim in [false, true] {
            let (waits, [one, between, other]) = (LocalWaits::default(), calls());
            assert!(park(&waits, one, 0, &[between], true).is_empty());
            assert!(park(&waits, other, 1, &[one], true).is_empty());
            assert_eq!(waits.change(0, waiting(one, &[other]), is_victim).len(), usize::from(is_victim));
            waits.end(between.0);
        }
    }

    #[test]
    fn there_is_no_search_while_no_owner_holds_and_waits() {
        let (waits, [one, two]) = (LocalWaits::default(), calls());
        assert!(park(&waits, one, 0, &[two], false).is_empty());
        // Atomic entries cannot be in this order; the pair shows that there was no search.
        assert!(park(&waits, two, 0, &[one], false).is_empty());
        assert_eq!(park(&waits, two, 1, &[], true).len(), 1);
        let [three] = calls();
        assert!(waits.park(0, waiting(three, &[two]), Entry::Alone).is_empty());
    }
}
