//! What a thread waits at that is no executor, until all executors have granted what it asked for.

use std::sync::Arc;
use std::thread::{self, Thread};

use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::Want;
use crate::protocol::local::routing::{Owners, Route};

/// See the module's description.
pub(super) struct Latch {
    pub(super) owner: OwnerId,
    pub(super) start_timestamp: u64,
    wants: Arc<[Want]>,
    /// Whose each of them is.
    owners: Owners,
    /// So many executors have not granted yet.
    left: AtomicUsize,
    marked_for_abort: AtomicBool,
    parked: AtomicBool,
    waiter: Thread,
}

impl Latch {
    /// Of this thread, which waits for the owners of all this.
    pub(super) fn new(owner: OwnerId, start_timestamp: u64, wants: Arc<[Want]>, owners: Owners) -> Latch {
        Latch {
            owner,
            start_timestamp,
            wants,
            left: AtomicUsize::new(owners.route.len()),
            owners,
            marked_for_abort: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            waiter: thread::current(),
        }
    }

    /// What it locks at an executor.
    pub(super) fn wants(&self, executor: usize) -> Vec<Want> {
        self.owners.at(executor).map(|number| self.wants[number].clone()).collect()
    }

    /// Whose all of it is.
    pub(super) fn route(&self) -> &Route {
        &self.owners.route
    }

    /// An executor has granted it.
    pub(super) fn grant(&self) {
        // AcqRel: what the last holders did, on all executors, is before what the waiter does.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// It is the victim of a deadlock, and not granted at this executor.
    pub(super) fn mark_for_abort(&self) {
        self.marked_for_abort.store(true, Ordering::Release);
        self.grant();
    }

    /// It was parked at an executor.
    pub(super) fn note_parked(&self) {
        // Relaxed: it is read when all executors have granted, which orders it.
        self.parked.store(true, Ordering::Relaxed);
    }

    /// Whether it was ever parked.
    pub(super) fn was_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Waits for all executors. Whether all have granted it.
    pub(super) fn wait(&self) -> bool {
        let _wait = at(Activity::LockAcquireWait);
        // Acquire: see `grant`.
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        !self.marked_for_abort.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::local::routing::Routing;

    fn latch(wants: Vec<Want>) -> Latch {
        let owners = Routing::new(3).owners(wants.iter().map(|want| want.place));
        Latch::new(OwnerId::new(), 1, wants.into(), owners)
    }

    fn opened(marked_for_abort: bool) -> bool {
        let latch = Arc::new(latch(vec![Want::of_everything()]));
        for executor in 0..3 {
            let latch = latch.clone();
            thread::spawn(move || {
                if marked_for_abort && executor == 1 { latch.mark_for_abort() } else { latch.grant() }
            });
        }
        latch.wait()
    }

    #[test]
    fn it_opens_when_all_have_answered_and_says_whether_all_have_granted() {
        for _ in 0..50 {
            assert!(opened(false));
            assert!(!opened(true));
        }
        assert!(latch(Vec::new()).wait() && !latch(Vec::new()).was_parked());
    }

    #[test]
    fn each_executor_locks_what_is_its_own_and_what_is_everybodys() {
        let at = |place| Want { place: Some(place), ..Want::of_everything() };
        let latch = latch(vec![at(0), Want::of_everything(), at(u64::MAX)]);
        assert_eq!(latch.route().as_slice(), [0, 1, 2]);
        assert_eq!(latch.wants(0), [at(0), Want::of_everything()]);
        assert_eq!(latch.wants(1), [Want::of_everything()]);
    }
}
