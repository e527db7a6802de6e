//! Who waits for local locks, for the one deadlock detector.
//!
//! A call may be parked at several executors at once. Each tells here whom the call waits for when it parks it, and again
//! when that has changed ([`locks`](super::locks)). An owner is one attempt of one call, so that whoever has ended is
//! never met again, and need not be taken back.
//!
//! **Who searches.** What enters all its queues at once stands in one order with all others that do so, and waits for
//! earlier ones only. So a circle has a member that waits with what it got by an *earlier* entry (an earlier phase): it
//! *holds*. While there is none that does so, nobody need search, and most kinds of calls never do. What it keeps true:
//! an owner is registered with the detector first; then, under the mutex here, it tells whom it waits for, and looks
//! whether anybody holds and waits. So of the members of a circle the last to tell is met by its own search, or by that of
//! a member who holds: of the two, the later one sees the other.
//!
//! **Who gives way.** The youngest of those who hold what an earlier entry has got, of whom every circle has one: what
//! they give up was in somebody's way. Who has nothing yet but a place in a queue would leave the circle closed behind it.
//! The oldest of all may have to give way like this, but not for ever: after some attempts a call enters once only.
//!
//! Who is marked for abort is named to whoever has searched, and waits for nobody any more.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use super::locks::Waiting;
use crate::lock::{Detector, LockName, OwnerId, Wait, WaitPlace};

/// See the module's description.
#[derive(Default)]
pub(crate) struct Waits {
    detector: Detector,
    place: Arc<Place>,
}

/// How a request came to the executor that has parked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// By its owner's only one so far, to this executor alone: nobody waits for the owner yet.
    Alone,
    /// By its owner's only one so far, which has gone to others too.
    First,
    /// By a later one: the owner holds what it got by earlier ones.
    Later,
}

/// A call that has to give up, and the executors where it is parked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) owner: OwnerId,
    pub(crate) executors: Vec<usize>,
}

/// Set in the birth of who holds what an earlier entry has got, so that it counts as younger than all who do not.
const LATER: u64 = 1 << 63;

/// At each executor where an owner is parked, whom it waits for.
type Blockers = Vec<(usize, Vec<OwnerId>)>;

#[derive(Default)]
struct Place {
    waiting: Mutex<Told>,
    victims: Mutex<Vec<Victim>>,
}

/// Who waits for whom.
#[derive(Default)]
struct Told {
    of: HashMap<OwnerId, Blockers, FixedState>,
    /// Who waits with what it got by an earlier entry.
    holding: HashSet<OwnerId, FixedState>,
}

impl Waits {
    /// An owner is parked at an executor. Who has to give up because of that.
    pub(crate) fn park(&self, executor: usize, waiting: Waiting, entry: Entry) -> Vec<Victim> {
        let mut waiting = waiting;
        if entry == Entry::Later {
            waiting.start_timestamp |= LATER;
        }
        self.detector.register(self.wait(&waiting));
        let mut told = self.place.waiting.lock();
        told.of.entry(waiting.owner).or_default().push((executor, waiting.blockers.clone()));
        if entry == Entry::Later {
            told.holding.insert(waiting.owner);
        }
        let searches = entry != Entry::Alone && !told.holding.is_empty();
        drop(told);
        if searches { self.search(&waiting) } else { Vec::new() }
    }

    /// It waits for others there than before. Those were before it all along, so that it need not search; unless the one
    /// that it was told to wait for has given way: then there was nothing that led to the others for a while.
    pub(crate) fn move_on(&self, executor: usize, waiting: Waiting, has_given_way: bool) -> Vec<Victim> {
        let mut told = self.place.waiting.lock();
        let Some(all) = told.of.get_mut(&waiting.owner) else { return Vec::new() };
        let Some((_, before)) = all.iter_mut().find(|(other, _)| *other == executor) else {
            return Vec::new();
        };
        *before = waiting.blockers.clone();
        let searches = has_given_way && !told.holding.is_empty();
        let mut waiting = waiting;
        if told.holding.contains(&waiting.owner) {
            waiting.start_timestamp |= LATER;
        }
        drop(told);
        if searches { self.search(&waiting) } else { Vec::new() }
    }

    fn search(&self, waiting: &Waiting) -> Vec<Victim> {
        self.detector.begin(self.wait(waiting));
        std::mem::take(&mut *self.place.victims.lock())
    }

    fn wait(&self, waiting: &Waiting) -> Wait {
        let place = Arc::clone(&self.place) as Arc<dyn WaitPlace>;
        Wait {
            owner: waiting.owner,
            start_timestamp: waiting.start_timestamp,
            name: LockName::Database,
            place,
        }
    }

    /// It is granted there, or taken out.
    pub(crate) fn unpark(&self, owner: OwnerId, executor: usize) {
        let mut told = self.place.waiting.lock();
        if let Some(blockers) = told.of.get_mut(&owner) {
            blockers.retain(|(other, _)| *other != executor);
            if blockers.is_empty() {
                told.holding.remove(&owner);
            }
        }
    }

    /// An owner that was parked has ended.
    pub(crate) fn end(&self, owner: OwnerId) {
        self.detector.end(owner);
        let mut told = self.place.waiting.lock();
        told.of.remove(&owner);
        told.holding.remove(&owner);
    }
}

impl WaitPlace for Place {
    fn edges(&self, waiter: OwnerId, _name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        if let Some(blockers) = self.waiting.lock().of.get(&waiter) {
            blockers.iter().flat_map(|(_, blockers)| blockers).for_each(|&blocker| report(waiter, blocker));
        }
    }

    fn mark_for_abort(&self, waiter: OwnerId, _name: LockName) {
        let mut told = self.waiting.lock();
        told.holding.remove(&waiter);
        let Some(blockers) = told.of.remove(&waiter) else { return };
        drop(told);
        let executors = blockers.into_iter().map(|(executor, _)| executor).collect();
        self.victims.lock().push(Victim { owner: waiter, executors });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner that is as old as its number says.
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

    fn park(waits: &Waits, call: Call, executor: usize, blockers: &[Call], holds: bool) -> Vec<Victim> {
        let entry = if holds { Entry::Later } else { Entry::First };
        waits.park(executor, waiting(call, blockers), entry)
    }

    #[test]
    fn a_circle_over_two_executors_costs_its_youngest() {
        for _ in 0..2 {
            let (waits, [old, young]) = (Waits::default(), calls());
            assert!(park(&waits, old, 0, &[young], true).is_empty());
            let victims = park(&waits, young, 1, &[old], true);
            assert_eq!(victims, [Victim { owner: young.0, executors: vec![1] }]);
            waits.end(young.0);
            waits.end(old.0);
            assert!(
                waits.place.waiting.lock().of.is_empty() && waits.place.waiting.lock().holding.is_empty()
            );
        }
    }

    #[test]
    fn who_is_parked_twice_waits_for_all() {
        let (waits, [one, two, twice, other]) = (Waits::default(), calls());
        assert!(park(&waits, twice, 0, &[other], true).is_empty());
        assert!(park(&waits, twice, 1, &[one], true).is_empty());
        assert!(park(&waits, one, 2, &[two], true).is_empty());
        let victims = park(&waits, two, 0, &[twice], true);
        assert_eq!(victims, [Victim { owner: twice.0, executors: vec![0, 1] }]);
    }

    #[test]
    fn who_holds_gives_way_before_who_only_queues() {
        let (waits, [holds, queues]) = (Waits::default(), calls());
        assert!(park(&waits, holds, 0, &[queues], true).is_empty());
        assert_eq!(park(&waits, queues, 1, &[holds], false)[0].owner, holds.0);
    }

    #[test]
    fn what_is_granted_or_has_changed_leads_nowhere_any_more() {
        let (waits, [one, two, three]) = (Waits::default(), calls());
        assert!(park(&waits, one, 1, &[two], true).is_empty());
        waits.unpark(one.0, 1);
        assert!(park(&waits, two, 1, &[one], true).is_empty());
        assert!(waits.move_on(1, waiting(two, &[three]), true).is_empty());
        assert!(waits.move_on(0, waiting(two, &[one]), true).is_empty(), "it does not wait there");
        assert!(park(&waits, one, 0, &[two], true).is_empty());
        assert_eq!(park(&waits, three, 0, &[one], true).len(), 1);
    }

    #[test]
    fn who_waits_behind_one_that_gives_way_searches_once_more() {
        for gives_way in [false, true] {
            let (waits, [one, between, other]) = (Waits::default(), calls());
            assert!(park(&waits, one, 0, &[between], true).is_empty());
            assert!(park(&waits, other, 1, &[one], true).is_empty());
            assert_eq!(waits.move_on(0, waiting(one, &[other]), gives_way).len(), usize::from(gives_way));
            waits.end(between.0);
        }
    }

    #[test]
    fn nobody_searches_while_nobody_holds_and_waits() {
        let (waits, [one, two]) = (Waits::default(), calls());
        assert!(park(&waits, one, 0, &[two], false).is_empty());
        // Entries stand in one order, so this cannot be; it shows that nobody has looked.
        assert!(park(&waits, two, 0, &[one], false).is_empty());
        assert_eq!(park(&waits, two, 1, &[], true).len(), 1);
        let [three] = calls();
        assert!(waits.park(0, waiting(three, &[two]), Entry::Alone).is_empty());
    }
}
