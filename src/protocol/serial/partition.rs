//! A serial partition: one shared/exclusive lock, under which calls run one after another.
//!
//! The lock is task-fair: once an updater waits, new readers queue behind it, and it lets the waiting readers run when
//! it leaves; so neither side starves. A thread that holds a partition never waits for disk or for a waiter slot, so a
//! partition is held only as long as bodies run.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::RawRwLock;
use parking_lot::lock_api::{RawRwLock as _, RawRwLockTimed as _};

use crate::base::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::diagnostics::activity::{Activity, at};
use crate::diagnostics::work_time::waiting;
use crate::protocol::Held;

/// The number of looks at a partition that is held before the thread parks: longer than a small group of calls takes.
const SPINS: u32 = 4_000;
/// A thread that sleeps for the partition looks this often whether its attempt is over: the holder may be a body that waits,
/// outside of the engine, for what this thread does next, and another protocol was put in force because of that.
const LOOK: Duration = Duration::from_millis(50);

/// One partition.
pub(super) struct Partition {
    lock: CachePadded<RawRwLock>,
    /// The number of threads that spin for the partition.
    spinning: CachePadded<AtomicU32>,
    /// The epoch of the last commit of the partition.
    last_epoch: AtomicU64,
}

impl Partition {
    pub(super) fn new() -> Partition {
        Partition {
            lock: CachePadded::new(RawRwLock::INIT),
            spinning: CachePadded::new(AtomicU32::new(0)),
            last_epoch: AtomicU64::new(0),
        }
    }

    /// The epoch of the last commit; read and written under the lock, so relaxed is enough.
    pub(super) fn last_epoch(&self) -> u64 {
        self.last_epoch.load(Ordering::Relaxed)
    }

    pub(super) fn set_last_epoch(&self, epoch: u64) {
        self.last_epoch.store(epoch, Ordering::Relaxed);
    }

    fn try_lock(&self, alone: bool) -> bool {
        if alone { self.lock.try_lock_exclusive() } else { self.lock.try_lock_shared() }
    }

    /// Takes the partition. Sleeping and being woken costs more than a group of calls takes, so one thread for each
    /// processor that the holder leaves free looks again for a while; it is bounded, and then it queues like all.
    /// Returns false if the attempt that waits is over: its protocol was replaced.
    fn lock(&self, alone: bool, max_spinners: u32, is_over: &dyn Fn() -> bool) -> bool {
        if self.try_lock(alone) {
            return true;
        }
        let _wait = waiting(Activity::LockAcquireWait);
        // Relaxed: it bounds how many look, and orders nothing.
        if self.spinning.fetch_add(1, Ordering::Relaxed) < max_spinners {
            for _ in 0..SPINS {
                std::hint::spin_loop();
                if self.try_lock(alone) {
                    self.spinning.fetch_sub(1, Ordering::Relaxed);
                    return true;
                }
            }
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        loop {
            let locked = match alone {
                true => self.lock.try_lock_exclusive_for(LOOK),
                false => self.lock.try_lock_shared_for(LOOK),
            };
            if locked {
                return true;
            }
            if is_over() {
                return false;
            }
        }
    }
}

/// Takes these partitions, in ascending order, so that two calls never wait for each other; nothing may be held. Returns
/// false, and holds nothing, if the attempt is over that wants them.
pub(super) fn acquire(
    partitions: &[Partition],
    held: &mut Held,
    wanted: impl Iterator<Item = (usize, bool)>,
    max_spinners: u32,
    is_over: &dyn Fn() -> bool,
) -> bool {
    let _acquire = at(Activity::LockAcquire);
    debug_assert!(held.partitions.is_empty());
    for (number, alone) in wanted {
        debug_assert!(held.partitions.last().is_none_or(|&(last, _)| last < number));
        if !partitions[number].lock(alone, max_spinners, is_over) {
            release(partitions, held);
            return false;
        }
        held.partitions.push((number, alone));
    }
    true
}

/// Releases everything that is held.
pub(super) fn release(partitions: &[Partition], held: &mut Held) {
    if held.partitions.is_empty() {
        return;
    }
    let _release = at(Activity::LockRelease);
    for &(number, alone) in held.partitions.iter().rev() {
        let lock = &partitions[number].lock;
        // SAFETY: `acquire` took exactly these, in these modes, on this thread.
        unsafe { if alone { lock.unlock_exclusive() } else { lock.unlock_shared() } }
    }
    held.partitions.clear();
}

/// Returns true if the partitions held include those that are wanted.
pub(super) fn covers(held: &Held, wanted: &[(usize, bool)]) -> bool {
    wanted.iter().all(|&(number, alone)| {
        held.partitions.iter().any(|&(other, has_alone)| other == number && (has_alone || !alone))
    })
}
