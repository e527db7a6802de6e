//! The countdown of a phase: how many executors have not reported, and whether its attempt is to abort or was parked.

use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::protocol::local::partition_map::Route;
use crate::protocol::local::wait_edges::Entry;

/// Counts down the executors that have not reported.
pub(in super::super) struct Countdown {
    left: AtomicUsize,
    /// True if the attempt was the victim of a deadlock.
    marked_for_abort: AtomicBool,
    parked: AtomicBool,
}

impl Countdown {
    pub(in super::super) fn new(executors: usize) -> Countdown {
        Countdown {
            left: AtomicUsize::new(executors),
            marked_for_abort: AtomicBool::new(false),
            parked: AtomicBool::new(false),
        }
    }

    /// Reports that an executor has done its part; returns true if it was the last.
    pub(in super::super) fn report(&self) -> bool {
        // AcqRel: what the other executors have done is before what the last one does next.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Marks the attempt as the victim of a deadlock. Relaxed, as in all these: `report` orders it.
    pub(in super::super) fn mark_for_abort(&self) {
        self.marked_for_abort.store(true, Ordering::Relaxed);
    }

    pub(in super::super) fn is_marked_for_abort(&self) -> bool {
        self.marked_for_abort.load(Ordering::Relaxed)
    }

    /// Notes that it is parked at one of these executors, which it has entered for the first time.
    pub(in super::super) fn note_parked(&self, route: &Route) -> Entry {
        self.parked.store(true, Ordering::Relaxed);
        if route.len() == 1 { Entry::Alone } else { Entry::First }
    }

    pub(in super::super) fn was_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }
}
