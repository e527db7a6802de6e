//! Who waits for local locks, for the one deadlock detector.
//!
//! A call may be parked at several executors at once. Each tells here whom the call waits for when it parks it; that does
//! not change while it is parked ([`locks`](super::locks)), and an owner is one attempt of one call, so that whoever has
//! ended is never met again. So nothing has to be taken back but what is granted.
//!
//! What it keeps true: every wait is told before it is registered, and is registered under the detector's one mutex,
//! by which the last of a circle finds it. Who is doomed is named to whoever has registered the wait that completed
//! the circle, and waits for nobody any more.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::lock::{Detector, LockName, OwnerId, Wait, WaitPlace};

/// See the module's description.
#[derive(Default)]
pub(crate) struct Waits {
    detector: Detector,
    place: Arc<Place>,
}

/// A call that has to give up, and the executors where it is parked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) owner: OwnerId,
    pub(crate) executors: Vec<usize>,
}

/// At each executor where an owner is parked, whom it waits for.
type Blockers = Vec<(usize, Vec<OwnerId>)>;

#[derive(Default)]
struct Place {
    waiting: Mutex<HashMap<OwnerId, Blockers, FixedState>>,
    victims: Mutex<Vec<Victim>>,
}

impl Waits {
    /// An owner is parked at an executor. Who has to give up because of that.
    pub(crate) fn park(
        &self,
        owner: OwnerId,
        birth: u64,
        executor: usize,
        blockers: Vec<OwnerId>,
    ) -> Vec<Victim> {
        self.place.waiting.lock().entry(owner).or_default().push((executor, blockers));
        let place = Arc::clone(&self.place) as Arc<dyn WaitPlace>;
        self.detector.begin(Wait { owner, birth, name: LockName::Database, place });
        std::mem::take(&mut *self.place.victims.lock())
    }

    /// It is granted there, or taken out.
    pub(crate) fn unpark(&self, owner: OwnerId, executor: usize) {
        let mut waiting = self.place.waiting.lock();
        if let Some(blockers) = waiting.get_mut(&owner) {
            blockers.retain(|(other, _)| *other != executor);
        }
    }

    /// An owner that was parked has ended.
    pub(crate) fn end(&self, owner: OwnerId) {
        self.detector.end(owner);
        self.place.waiting.lock().remove(&owner);
    }
}

impl WaitPlace for Place {
    fn edges(&self, waiter: OwnerId, _name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        if let Some(blockers) = self.waiting.lock().get(&waiter) {
            blockers.iter().flat_map(|(_, blockers)| blockers).for_each(|&blocker| report(waiter, blocker));
        }
    }

    fn doom(&self, waiter: OwnerId, _name: LockName) {
        let Some(blockers) = self.waiting.lock().remove(&waiter) else { return };
        let executors = blockers.into_iter().map(|(executor, _)| executor).collect();
        self.victims.lock().push(Victim { owner: waiter, executors });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_over_two_executors_costs_its_youngest() {
        let (waits, old, young) = (Waits::default(), OwnerId::new(), OwnerId::new());
        assert!(waits.park(old, 1, 0, vec![young]).is_empty());
        let victims = waits.park(young, 2, 1, vec![old]);
        assert_eq!(victims, [Victim { owner: young, executors: vec![1] }]);
        waits.end(young);
        waits.end(old);
    }

    #[test]
    fn who_is_parked_twice_waits_for_all() {
        let waits = Waits::default();
        let owners: Vec<OwnerId> = (0..4).map(|_| OwnerId::new()).collect();
        assert!(waits.park(owners[0], 9, 0, vec![owners[3]]).is_empty());
        assert!(waits.park(owners[0], 9, 1, vec![owners[1]]).is_empty());
        assert!(waits.park(owners[1], 1, 2, vec![owners[2]]).is_empty());
        let victims = waits.park(owners[2], 2, 0, vec![owners[0]]);
        assert_eq!(victims, [Victim { owner: owners[0], executors: vec![0, 1] }]);
    }

    #[test]
    fn what_is_granted_leads_nowhere_any_more() {
        let (waits, one, other) = (Waits::default(), OwnerId::new(), OwnerId::new());
        assert!(waits.park(one, 1, 0, vec![other]).is_empty());
        waits.unpark(one, 0);
        assert!(waits.park(other, 2, 1, vec![one]).is_empty());
        waits.end(other);
        assert!(waits.park(one, 1, 1, vec![other]).is_empty());
    }
}
