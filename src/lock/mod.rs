//! Locks: one central, hierarchical lock manager, and the one deadlock detector.
//!
//! ```text
//! LockManager ── acquire, acquire_range, acquire_point, release
//!   ├─ Locks     what one transaction holds (its thread's own: no mutex)
//!   ├─ LockTable database, tables, records: IS, IX, S, SIX, X      (one Queue for each lock, in shards)
//!   ├─ RangeLockTable  key ranges read, insert intentions  (one RangeLocks for each table, in shards)
//!   └─ Detector  the waits-for graph, over both and every other WaitPlace
//! HotRows        apart: queues of transactions that are predicted to write a row, on which no correctness depends
//! ```
//!
//! The manager is the one that the DORA paper (VLDB 2010, section 3) describes as its baseline: a lock is a queue of
//! requests in a hash table; a transaction that requests a record acquires the intention locks above it first, and needs no
//! lock where a lock above is strong enough; it remembers its locks in the order of acquisition, and releases them from the
//! youngest. Locks are held until the transaction's end (strict two-phase locking): a single lock cannot be released.
//!
//! **Phantoms** are prevented by key ranges, not by locks on whole tables: a reader of a range locks it, a transaction
//! that inserts or deletes a key claims that point; a point in another one's range conflicts, nothing else does.
//!
//! **Waiting.** A queue is first come, first served. A waiter spins a few times (if there is a second processor
//! on which the holder may just be finishing), registers with the detector, and sleeps. The releasing thread grants
//! locks, so no later request overtakes an earlier one. See [`detector`] for how soon a deadlock is found (after that
//! spin and one search), and why the oldest is never its victim.
//!
//! Mutexes are taken in this order: the detector's, then one shard's. A shard's is never held while another is taken.

mod detector;
pub(crate) mod hot_rows;
mod key_range;
mod lock_queue;
mod lock_shards;
mod locks;
mod mode;
mod name;
mod range_lock_table;
mod range_locks;
mod signal;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;

pub(crate) use self::detector::{Detector, Wait, WaitPlace};
pub(crate) use self::locks::{Locks, Taken};
pub(crate) use self::mode::Mode;
pub(crate) use self::name::{LockName, OwnerId};

use self::key_range::{Claim, Key, KeyRange};
use self::lock_queue::Answer;
use self::lock_shards::LockTable;
use self::range_lock_table::RangeLockTable;
use self::signal::Outcome;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::diagnostics::activity::Activity;
use crate::diagnostics::work_time::waiting;

/// Number of spins of a waiter before it sleeps: a few microseconds, less than sleeping and waking costs.
const SPINS: u32 = 500;

/// The reaction to a lock that is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// Wait for it.
    #[default]
    Wait,
    /// Fail at once.
    Abort,
}

/// The reason why a lock was not granted. Locks held before are still held; the transaction should release them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The wait was part of a deadlock, and this transaction was its youngest.
    Deadlock,
    /// The lock was not free, and the caller does not wait.
    Conflict,
}

/// See the module's description.
pub(crate) struct LockManager {
    table: Arc<LockTable>,
    range_locks: Arc<RangeLockTable>,
    detector: Detector,
    start_timestamps: AtomicU64,
    looks: u32,
}

impl LockManager {
    /// Without any locks.
    pub(crate) fn new() -> LockManager {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        LockManager {
            table: Arc::new(LockTable::new()),
            range_locks: Arc::new(RangeLockTable::new()),
            detector: Detector::default(),
            start_timestamps: AtomicU64::new(0),
            looks: if processors > 1 { SPINS } else { 0 },
        }
    }

    /// The start timestamp of a transaction: later than all so far. It gets one at its first attempt, and keeps it over all others,
    /// so that in the end it is the oldest, which is never a victim.
    pub(crate) fn start_timestamp(&self) -> u64 {
        // Relaxed: only that no two are equal counts.
        self.start_timestamps.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes sure that the lock is held in this mode or a stronger one, and intention locks above it.
    ///
    /// # Errors
    /// See [`Denied`].
    pub(crate) fn acquire(
        &self,
        locks: &mut Locks,
        name: LockName,
        mode: Mode,
        on_conflict: OnConflict,
    ) -> Result<(), Denied> {
        debug_assert!(!matches!(name, LockName::GapLocks(_)), "gaps are locked by range or point");
        if locks.mode(name).is_some_and(|held| held.covers(mode))
            || self.above(locks, name, mode, on_conflict)?
        {
            return Ok(());
        }
        let (owner, signal) = locks.owner();
        let may_wait = arm(signal, on_conflict);
        let answer = self.table.request(name, owner, mode, may_wait);
        self.await_grant(locks, answer, name, &self.table)?;
        locks.note(name, mode);
        Ok(())
    }

    /// Makes sure that no key is inserted into this range of the table or deleted from it, except by the transaction
    /// itself; and acquires an intention lock on the table. The keys in the range are not locked.
    ///
    /// # Errors
    /// See [`Denied`].
    pub(crate) fn acquire_range(
        &self,
        locks: &mut Locks,
        table: u64,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        on_conflict: OnConflict,
    ) -> Result<(), Denied> {
        let Some(key_range) = KeyRange::new(low, high) else { return Ok(()) };
        let name = LockName::GapLocks(table);
        if locks.covers_range(table, &key_range) || self.above(locks, name, Mode::Shared, on_conflict)? {
            return Ok(());
        }
        self.claim(locks, table, Claim::Range(key_range.clone()), on_conflict)?;
        locks.note_range(table, key_range);
        Ok(())
    }

    /// Claims the right to put this key into the table or take it out: waits for other transactions' ranges around it.
    /// And an intention lock on the table. The key itself is not locked.
    ///
    /// # Errors
    /// See [`Denied`].
    pub(crate) fn acquire_point(
        &self,
        locks: &mut Locks,
        table: u64,
        key: &[u8],
        on_conflict: OnConflict,
    ) -> Result<(), Denied> {
        if self.above(locks, LockName::GapLocks(table), Mode::Exclusive, on_conflict)? {
            return Ok(());
        }
        let key = Key::from_slice(key);
        self.claim(locks, table, Claim::InsertIntention(key.clone()), on_conflict)?;
        locks.note_point(table, key);
        Ok(())
    }

    /// Releases everything, from the youngest lock to the oldest.
    pub(crate) fn release(&self, locks: &mut Locks) {
        if locks.is_empty() {
            return;
        }
        let owner = locks.owner().0;
        self.range_locks.release_points(owner, &mut locks.points);
        for held in locks.held.iter().rev() {
            match held.name {
                LockName::GapLocks(table) => self.range_locks.release_ranges(owner, table),
                name => self.table.release(name, owner),
            }
        }
        locks.clear();
    }

    /// Number of locks that are held or waited for, of tables with gap locks that are, and of owners that wait.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> (usize, usize, usize) {
        (self.table.len(), self.range_locks.len(), self.detector.waiting())
    }

    /// Gets the intention locks above; true if what is held there makes a lock below needless.
    fn above(
        &self,
        locks: &mut Locks,
        name: LockName,
        mode: Mode,
        on_conflict: OnConflict,
    ) -> Result<bool, Denied> {
        let Some(parent) = name.parent() else { return Ok(false) };
        // The holder of the parent got everything above it first, but stronger modes may have been acquired there
        // since: that is seen where the parent itself is not held yet, and otherwise only costs a lock too many.
        if let Some(held) = locks.mode(parent).filter(|held| held.covers(mode.intention())) {
            return Ok(held.covers_below(mode));
        }
        self.acquire(locks, parent, mode.intention(), on_conflict)?;
        Ok(is_covered_above(locks, name, mode))
    }

    fn claim(
        &self,
        locks: &mut Locks,
        table: u64,
        claim: Claim,
        on_conflict: OnConflict,
    ) -> Result<(), Denied> {
        let (owner, signal) = locks.owner();
        let may_wait = arm(signal, on_conflict);
        let answer = self.range_locks.request(table, owner, claim, may_wait);
        self.await_grant(locks, answer, LockName::GapLocks(table), &self.range_locks)
    }

    /// Waits, if the request was left in its place's queue.
    fn await_grant<P: WaitPlace + 'static>(
        &self,
        locks: &mut Locks,
        answer: Answer,
        name: LockName,
        place: &Arc<P>,
    ) -> Result<(), Denied> {
        match answer {
            Answer::Granted => return Ok(()),
            Answer::Refused => return Err(Denied::Conflict),
            Answer::Queued => {}
        }
        let _wait = waiting(Activity::LockAcquireWait);
        let start_timestamp = locks.start_timestamp();
        let (owner, signal) = locks.owner();
        let outcome = signal.spin(self.looks).unwrap_or_else(|| {
            let place = Arc::clone(place) as Arc<dyn WaitPlace>;
            self.detector.begin(Wait { owner, start_timestamp, name, place });
            let outcome = signal.sleep();
            self.detector.end(owner);
            outcome
        });
        match outcome {
            Outcome::Granted => Ok(()),
            Outcome::MarkedForAbort => Err(Denied::Deadlock),
        }
    }
}

/// The signal, ready for a wait, if the caller may wait.
fn arm(signal: &Arc<signal::Signal>, on_conflict: OnConflict) -> Option<&Arc<signal::Signal>> {
    (on_conflict == OnConflict::Wait).then(|| {
        signal.arm();
        signal
    })
}

/// Returns true if a lock held on any level above makes this one unnecessary.
fn is_covered_above(locks: &Locks, name: LockName, mode: Mode) -> bool {
    let above = std::iter::successors(name.parent(), |parent| parent.parent());
    above.into_iter().any(|parent| locks.mode(parent).is_some_and(|held| held.covers_below(mode)))
}
