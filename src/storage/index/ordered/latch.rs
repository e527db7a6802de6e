//! A node's version word: the latch that writers take, and what readers and transactions watch.
//!
//! ```text
//! ┌─ 62 bits ────────┬─ 1 ──────┬─ 1 ────┐
//! │ count of changes │ obsolete │ locked │
//! └──────────────────┴──────────┴────────┘
//! ```
//!
//! Invariants:
//! - only the one holder of the lock bit writes what the latch guards;
//! - a reader whose `read` and later `validate` agree saw the guarded fields as they were at that version, and
//!   nothing of a later one;
//! - the word never returns to an earlier value once the guarded fields changed (a lock that changed nothing gives
//!   the old value back);
//! - an obsolete node stays obsolete, and is never locked again.
//!
//! The guarded fields are atomics. The orderings are those of a sequence lock:
//!
//! - `lock` ends with a release fence. It pairs with the acquire fence in `validate` (and at the head of `lock`):
//!   a reader that saw any store made under the lock sees, behind its fence, at least the lock bit, and fails.
//! - `Exclusive::drop` stores the new word with release. It pairs with the acquire load in `read` and the acquire
//!   exchange in `lock`: a thread that sees the new version sees all that was stored under it.

use crossbeam_utils::Backoff;

use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::diagnostics::activity::snooze;

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const ONE_CHANGE: u64 = 4;
/// The word of a node that has not been changed yet.
pub(super) const NEW: u64 = 0;

/// An inconsistent read: begin again from the root.
#[derive(Debug)]
pub(super) struct Restart;

/// The version word of a node.
pub(super) struct Latch {
    word: AtomicU64,
}

impl Latch {
    /// The latch of a new node: neither locked nor obsolete.
    pub(super) fn new() -> Latch {
        Latch { word: AtomicU64::new(NEW) }
    }

    /// The word, for a transaction to watch.
    pub(super) fn word(&self) -> &AtomicU64 {
        &self.word
    }

    /// The version that optimistic reads begin with: waits while a writer is inside, fails when the node is
    /// obsolete.
    pub(super) fn read(&self) -> Result<u64, Restart> {
        let mut word = self.word.load(Ordering::Acquire);
        if word & LOCKED != 0 {
            word = self.wait();
        }
        if word & OBSOLETE != 0 { Err(Restart) } else { Ok(word) }
    }

    /// Spins a little, then yields, until no thread holds the lock. Acquire as in `read`.
    #[cold]
    fn wait(&self) -> u64 {
        let backoff = Backoff::new();
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return word;
            }
            snooze(&backoff);
        }
    }

    /// Returns `Ok` if everything read since `read` gave `version` was of that version.
    pub(super) fn validate(&self, version: u64) -> Result<(), Restart> {
        // Keeps the caller's relaxed loads before the look at the word; its partner is the release fence in
        // `lock`. With the fence between them, the load itself may be relaxed.
        fence(Ordering::Acquire);
        if self.word.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Restart) }
    }

    /// Takes the lock if the node is still at `version`; does not wait, so that no order of locks can deadlock.
    pub(super) fn lock(&self, version: u64) -> Result<Exclusive<'_>, Restart> {
        // As in `validate`: what the caller read before is of `version` if the exchange finds it.
        fence(Ordering::Acquire);
        // Acquire: pairs with the release in `Exclusive::drop` of the lock's last holder. A failure restarts and
        // uses nothing, so relaxed.
        self.word
            .compare_exchange(version, version | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Restart)?;
        // Keeps the stores under the lock behind the lock bit; its partner is the acquire fence in `validate`.
        fence(Ordering::Release);
        Ok(Exclusive { latch: self, before: version, after: version })
    }
}

/// The lock, held. Dropping it unlocks, with the old version if nothing was changed.
pub(super) struct Exclusive<'g> {
    latch: &'g Latch,
    before: u64,
    after: u64,
}

impl Exclusive<'_> {
    /// The version that was locked.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// Announces a change of the guarded fields; returns the version that unlocking will publish.
    pub(super) fn change(&mut self) -> u64 {
        self.after = self.before.wrapping_add(ONE_CHANGE);
        self.after
    }

    /// Announces that the node has been replaced, and is out of the tree.
    pub(super) fn make_obsolete(&mut self) {
        self.change();
        self.after |= OBSOLETE;
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // Release: all stores under the lock come before; the partner is the acquire load in `read`.
        self.latch.word.store(self.after, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_changes_nothing_gives_the_version_back() {
        let latch = Latch::new();
        let version = latch.read().unwrap();
        drop(latch.lock(version).unwrap());
        assert!(latch.validate(version).is_ok());
    }

    #[test]
    fn a_change_fails_readers_from_the_lock_on() {
        let latch = Latch::new();
        let version = latch.read().unwrap();
        let mut exclusive = latch.lock(version).unwrap();
        assert!(latch.validate(version).is_err(), "locked");
        assert!(latch.lock(version).is_err(), "one holder");
        let after = exclusive.change();
        assert_eq!(exclusive.before(), version);
        drop(exclusive);
        assert!(latch.validate(version).is_err(), "changed");
        assert_eq!(latch.read().unwrap(), after);
    }

    #[test]
    fn obsolete_is_for_ever() {
        let latch = Latch::new();
        let version = latch.read().unwrap();
        latch.lock(version).unwrap().make_obsolete();
        assert!(latch.read().is_err());
        assert!(latch.validate(version).is_err());
        assert!(latch.lock(version).is_err());
    }

    #[test]
    fn a_reader_waits_for_the_holder() {
        let latch = Latch::new();
        let mut exclusive = latch.lock(0).unwrap();
        let after = exclusive.change();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| latch.read().unwrap());
            std::thread::yield_now();
            drop(exclusive);
            assert_eq!(reader.join().unwrap(), after);
        });
    }
}
