//! The memory budget of a store: the memory that its rows take, and its limit.
//!
//! Counted are the chunks that records lie in, records that have memory of their own, and the blocks of long values; not
//! what is free for the next record, nor indexes, buffers and threads. Blocks are counted only where there is a limit or the
//! count is asked for, since a commit that makes one would pay for it.
//!
//! Invariants: the limit is checked whenever a count has changed by some kilobytes, so it is
//! known to within [`SLACK`] for each stripe; the look itself is one relaxed load.

use crossbeam_utils::CachePadded;

use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::error::{Error, Result};

/// Number of counter stripes, so that threads that allocate blocks rarely share one.
const STRIPES: usize = 16;
/// The distance that a counter may move before all of them are added up.
const SLACK: i64 = if cfg!(any(test, heddle_model)) { 1 << 10 } else { 64 << 10 };
const NO_LIMIT: u64 = u64::MAX;

/// The count, and the limit. Counters are signed, in two's complement: one stripe may have noted what another's blocks
/// gave back. Relaxed throughout: numbers that hang on nothing else.
pub(crate) struct Budget {
    limit: AtomicU64,
    full: AtomicBool,
    /// True if blocks count even without a limit.
    counts_blocks: AtomicBool,
    records: AtomicU64,
    blocks: [CachePadded<AtomicU64>; STRIPES],
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            limit: AtomicU64::new(NO_LIMIT),
            full: AtomicBool::new(false),
            counts_blocks: AtomicBool::new(false),
            records: AtomicU64::new(0),
            blocks: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
        }
    }
}

impl Budget {
    /// Sets how many bytes rows may take. Before any row is there: blocks made earlier are not counted.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.look();
    }

    /// Has blocks counted without a limit, too: before any row is there.
    pub(crate) fn count_blocks_always(&self) {
        self.counts_blocks.store(true, Ordering::Relaxed);
    }

    /// Returns true if blocks count.
    #[inline]
    pub(crate) fn counts_blocks(&self) -> bool {
        self.is_limited() || self.counts_blocks.load(Ordering::Relaxed)
    }

    /// Returns true if there is a limit.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != NO_LIMIT
    }

    /// The number of bytes that rows take.
    pub(crate) fn used(&self) -> u64 {
        let blocks: i64 = self.blocks.iter().map(|stripe| stripe.load(Ordering::Relaxed) as i64).sum();
        u64::try_from(self.records.load(Ordering::Relaxed) as i64 + blocks).unwrap_or(0)
    }

    /// Says that records take this many bytes more, or less.
    pub(super) fn note_records(&self, bytes: i64) {
        self.records.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.is_limited() {
            self.look();
        }
    }

    /// Says that blocks take this many bytes more, or less. `place`: an address of the caller.
    #[inline]
    pub(crate) fn note_blocks(&self, bytes: i64, place: usize) {
        if bytes != 0 && self.counts_blocks() {
            self.count_blocks(bytes, place);
        }
    }

    fn count_blocks(&self, bytes: i64, place: usize) {
        let before = self.blocks[(place >> 6) % STRIPES].fetch_add(bytes as u64, Ordering::Relaxed) as i64;
        if before.div_euclid(SLACK) != (before + bytes).div_euclid(SLACK) {
            self.look();
        }
    }

    fn look(&self) {
        let full = self.used() >= self.limit.load(Ordering::Relaxed);
        if self.full.load(Ordering::Relaxed) != full {
            self.full.store(full, Ordering::Relaxed);
        }
    }

    /// Refuses what needs more memory, if the limit is reached.
    ///
    /// # Errors
    /// [`Error::MemoryFull`].
    #[inline]
    pub(crate) fn admit(&self) -> Result<()> {
        if self.full.load(Ordering::Relaxed) { self.refuse() } else { Ok(()) }
    }

    /// The bytes that are left up to the limit; `None` if there is no limit.
    pub(crate) fn left(&self) -> Option<u64> {
        // Relaxed: the limit is set before the database is used.
        self.is_limited().then(|| self.limit.load(Ordering::Relaxed).saturating_sub(self.used()))
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        // What was freed since may not have been looked at.
        self.look();
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::MemoryFull { used: self.used(), limit: self.limit.load(Ordering::Relaxed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_everything_is_admitted() {
        let budget = Budget::default();
        budget.note_records(1 << 40);
        budget.note_blocks(1 << 40, 0);
        assert!(budget.admit().is_ok());
        assert_eq!(budget.used(), 1 << 40, "blocks count only where there is a limit");
    }

    #[test]
    fn at_the_limit_more_is_refused_until_less_is_used() {
        let budget = Budget::default();
        budget.set_limit(100 << 10);
        budget.note_records(60 << 10);
        assert!(budget.admit().is_ok());
        for number in 0..41 {
            budget.note_blocks(1 << 10, number << 6);
        }
        let refused = budget.admit().unwrap_err();
        assert_eq!(refused, Error::MemoryFull { used: 101 << 10, limit: 100 << 10 });
        assert!(refused.to_string().contains("MemoryOptions::limit"), "{refused}");
        budget.note_blocks(-(20 << 10), 0);
        assert!(budget.admit().is_ok());
        budget.note_records(20 << 10);
        assert!(budget.admit().is_err());
        budget.note_records(-(60 << 10));
        assert!(budget.admit().is_ok());
    }

    #[test]
    fn small_changes_are_seen_within_the_slack() {
        let budget = Budget::default();
        budget.set_limit(10 << 10);
        let mut used = 0;
        while budget.admit().is_ok() {
            budget.note_blocks(24, 0);
            used += 24;
        }
        assert!((10 << 10..(10 << 10) + SLACK).contains(&used), "{used}");
    }
}
