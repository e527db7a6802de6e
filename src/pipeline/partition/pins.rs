//! Pins that last as long as a call's locks, not as long as a thread's work.
//!
//! A call over several executors is suspended between its phases: what it has met in memory must stay there until it ends,
//! and an executor does other things meanwhile. So every executor keeps a pin of its own for each call that holds locks
//! in its table, from before the call's first look until it has ended. What one executor has found for a call, another one
//! may use at the commit: the finder's pin is given up only when the commit is over.

use crossbeam_epoch::{Guard, LocalHandle, default_collector};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::protocol::local::OwnerId;

/// The pins of one executor.
#[derive(Default)]
pub(super) struct Pins {
    /// The guard is given up before the handle that it came from.
    held: HashMap<OwnerId, (Guard, LocalHandle), FixedState>,
    free: Vec<LocalHandle>,
}

impl Pins {
    /// Pins for a call, if that is not done yet.
    pub(super) fn hold(&mut self, owner: OwnerId) {
        let free = &mut self.free;
        self.held.entry(owner).or_insert_with(|| {
            let handle = free.pop().unwrap_or_else(|| default_collector().register());
            (handle.pin(), handle)
        });
    }

    /// The call has ended.
    pub(super) fn release(&mut self, owner: OwnerId) {
        if let Some((guard, handle)) = self.held.remove(&owner) {
            drop(guard);
            self.free.push(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_retired_waits_for_the_call_and_for_nobody_else() {
        let (mut pins, one, other) = (Pins::default(), OwnerId::new(), OwnerId::new());
        pins.hold(one);
        pins.hold(one);
        let freed = Arc::new(AtomicBool::new(false));
        let told = freed.clone();
        crossbeam_epoch::pin().defer(move || told.store(true, Ordering::SeqCst));
        let turn = || (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
        turn();
        assert!(!freed.load(Ordering::SeqCst));
        pins.hold(other);
        pins.release(one);
        assert_eq!((pins.held.len(), pins.free.len()), (1, 1));
        pins.release(one);
        pins.release(other);
        // Other tests' threads may be pinned for a moment.
        let patience = std::time::Instant::now();
        while !freed.load(Ordering::SeqCst) && patience.elapsed().as_secs() < 60 {
            turn();
        }
        assert!(freed.load(Ordering::SeqCst));
    }
}
