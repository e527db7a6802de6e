//! A serial site: one shared/exclusive lock, under which calls run one after another.
//!
//! The lock is task-fair: once an updater waits, new readers queue behind it, and it lets the readers that wait go
//! when it leaves; so neither side starves. Who holds a site never waits for disk or for a waiting place, so a site
//! is held only as long as bodies run.

use crossbeam_utils::CachePadded;
use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;

use crate::base::atomics::{AtomicU64, Ordering};
use crate::protocol::Held;

/// One site.
pub(super) struct Site {
    lock: CachePadded<RawRwLock>,
    /// The epoch of the last commit of the site.
    last_epoch: AtomicU64,
}

impl Site {
    pub(super) fn new() -> Site {
        Site { lock: CachePadded::new(RawRwLock::INIT), last_epoch: AtomicU64::new(0) }
    }

    /// The epoch of the last commit; read and written under the lock, so relaxed is enough.
    pub(super) fn last_epoch(&self) -> u64 {
        self.last_epoch.load(Ordering::Relaxed)
    }

    pub(super) fn set_last_epoch(&self, epoch: u64) {
        self.last_epoch.store(epoch, Ordering::Relaxed);
    }
}

/// Takes these sites, in ascending order, so that two calls never wait for each other; nothing may be held.
pub(super) fn acquire(sites: &[Site], held: &mut Held, wanted: &[(usize, bool)]) {
    debug_assert!(held.sites.is_empty());
    debug_assert!(wanted.is_sorted());
    for &(number, alone) in wanted {
        let lock = &sites[number].lock;
        if alone {
            lock.lock_exclusive()
        } else {
            lock.lock_shared()
        }
        held.sites.push((number, alone));
    }
}

/// Gives up everything that is held.
pub(super) fn release(sites: &[Site], held: &mut Held) {
    for (number, alone) in held.sites.drain(..).rev() {
        let lock = &sites[number].lock;
        // SAFETY: `acquire` took exactly these, in these modes, on this thread.
        unsafe { if alone { lock.unlock_exclusive() } else { lock.unlock_shared() } }
    }
}

/// Whether what is held is enough for what is wanted.
pub(super) fn covers(held: &Held, wanted: &[(usize, bool)]) -> bool {
    wanted.iter().all(|&(number, alone)| {
        held.sites.iter().any(|&(other, has_alone)| other == number && (has_alone || !alone))
    })
}
