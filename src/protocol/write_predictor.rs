//! A predictor of writes: code that wrote in its last executions is expected to write again.
//!
//! A closure declares nothing. Under `serial`, one that starts shared and then writes takes its partitions twice, and where many wait for a
//! partition each time is a sleep; one that starts alone and only reads keeps readers out for nothing. Under the optimistic protocols, one
//! that only reads a hot row should not reserve it. The same code mostly does the same, so the predictor is keyed by the address of the
//! code.
//!
//! Invariants: a wrong guess costs time, and nothing else.

use crate::base::atomics::{AtomicU32, Ordering};

/// The number of entries; code addresses with the same hash share one.
const KEPT: usize = 256;
/// The count from which on a closure is expected to write; one run to the contrary does not change a settled habit.
const EXPECTED: u32 = 2;
const SETTLED: u32 = 3;

/// The habits of closures, by code address.
pub(crate) struct WritePredictor([AtomicU32; KEPT]);

impl WritePredictor {
    pub(crate) fn new() -> WritePredictor {
        WritePredictor([const { AtomicU32::new(0) }; KEPT])
    }

    fn of(&self, code: usize) -> &AtomicU32 {
        // Multiplying spreads addresses, which are multiples of 16 and near each other.
        &self.0[(code.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - KEPT.ilog2())) % KEPT]
    }

    /// Returns true if this code is expected to write.
    pub(crate) fn writes(&self, code: usize) -> bool {
        // Relaxed here and below: a guess, which orders nothing; and a count that is lost is no loss.
        self.of(code).load(Ordering::Relaxed) >= EXPECTED
    }

    /// Notes that an execution of this code has ended. Changes shared memory only where the habit is not settled.
    pub(crate) fn note(&self, code: usize, wrote: bool) {
        let predictor_entry = self.of(code);
        let before = predictor_entry.load(Ordering::Relaxed);
        let after = if wrote { (before + 1).min(SETTLED) } else { before.saturating_sub(1) };
        if after != before {
            predictor_entry.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_is_expected_to_do_what_it_did_and_one_exception_changes_nothing() {
        let write_predictor = WritePredictor::new();
        assert!(!write_predictor.writes(64), "nothing is known: it may read");
        (0..2).for_each(|_| write_predictor.note(64, true));
        assert!(write_predictor.writes(64));
        write_predictor.note(64, true);
        write_predictor.note(64, false);
        assert!(write_predictor.writes(64), "an exception");
        write_predictor.note(64, false);
        assert!(!write_predictor.writes(64));
        (0..10).for_each(|_| write_predictor.note(64, false));
        (0..2).for_each(|_| write_predictor.note(64, true));
        assert!(write_predictor.writes(64), "it is learned again as fast");
    }

    #[test]
    fn neighbours_are_kept_apart() {
        let write_predictor = WritePredictor::new();
        (0..3).for_each(|_| write_predictor.note(0x55_5555_0010, true));
        let others = (2..30).filter(|number| write_predictor.writes(0x55_5555_0000 + 16 * number));
        assert!(others.count() <= 2);
    }
}
