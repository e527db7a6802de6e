//! Epoch pins that last as long as a transaction's local locks.
//!
//! A transaction over several executors is suspended between its phases: the records that it has met must stay in memory
//! until it ends, while its executors run other transactions. Every executor therefore keeps a pin for each transaction that
//! holds locks in its table, from before the transaction's first lookup until its end. Another executor may use what was
//! found at the commit: the pin is released only when the commit is over.

use crossbeam_epoch::{Guard, LocalHandle, default_collector};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::protocol::local::OwnerId;

/// The pins of one executor.
#[derive(Default)]
pub(super) struct Pins {
    /// The guard is dropped before the handle that has pinned it.
    held: HashMap<OwnerId, (Guard, LocalHandle), FixedState>,
    free: Vec<LocalHandle>,
}

impl Pins {
    /// Pins for a transaction, unless that is done already.
    pub(super) fn hold(&mut self, owner: OwnerId) {
        let free = &mut self.free;
        self.held.entry(owner).or_insert_with(|| {
            let handle = free.pop().unwrap_or_else(|| default_collector().register());
            (handle.pin(), handle)
        });
    }

    /// The transaction has ended.
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
    fn retired_memory_waits_for_the_transaction_only() {
        let (mut pins, one, other) = (Pins::default(), OwnerId::new(), OwnerId::new());
        pins.hold(one);
        pins.hold(one);
        let freed = Arc::new(AtomicBool::new(false));
        let reported = freed.clone();
        crossbeam_epoch::pin().defer(move || reported.store(true, Ordering::SeqCst));
        let turn = || (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
        turn();
        assert!(!freed.load(Ordering::SeqCst));
        pins.hold(other);
        pins.release(one);
        assert_eq!((pins.held.len(), pins.free.len()), (1, 1));
        pins.release(one);
        pins.release(other);
        // Threads of other tests may be pinned for a moment.
        let start = std::time::Instant::now();
        while !freed.load(Ordering::SeqCst) && start.elapsed().as_secs() < 60 {
            turn();
        }
        assert!(freed.load(Ordering::SeqCst));
    }
}
