//! The age of plans: a plan is made for tables of some size, and is made again once they are much larger or smaller.
//!
//! # Invariants
//! - A plan that finds its rows by whole keys never ages: no other plan would be better.
//! - Asking costs nothing that is shared between processors as long as the answer is no.

use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::Table;

/// By which factor a table grows or shrinks until plans for it are made again: the engine's estimates of one size differ by two.
const FACTOR: u64 = 4;
/// Tables below this many rows are read in no time, by whatever plan.
const ROWS_MIN: u64 = 250;
/// How often a plan asks, in microseconds.
const INTERVAL_MICROS: i64 = 50_000;

/// The sizes of a plan's tables when it was made.
#[derive(Debug, Default)]
pub(crate) struct TableSizes {
    tables: Vec<(Table, u64)>,
    /// When the sizes were compared last, in microseconds.
    compared_at: AtomicI64,
}

impl TableSizes {
    /// The sizes that these tables have now.
    pub(super) fn of(tables: impl Iterator<Item = Table>) -> TableSizes {
        let sized = tables.filter_map(|table| table.estimated_rows().map(|rows| (table, rows)));
        TableSizes { tables: sized.collect(), compared_at: AtomicI64::new(0) }
    }

    /// Whether a table has grown or shrunk so much that another plan may be better. `now`: in microseconds.
    pub(crate) fn are_outgrown(&self, now: i64) -> bool {
        // Relaxed: one comparison more or less does not matter.
        let since = now - self.compared_at.load(Ordering::Relaxed);
        if self.tables.is_empty() || (0..INTERVAL_MICROS).contains(&since) {
            return false;
        }
        let is_outgrown =
            |(table, rows): &(Table, u64)| table.estimated_rows().is_some_and(|now| differ(*rows, now));
        if self.tables.iter().any(is_outgrown) {
            return true;
        }
        self.compared_at.store(now, Ordering::Relaxed);
        false
    }
}

/// Whether two sizes of a table differ so much that its plans do.
pub(crate) fn differ(one: u64, other: u64) -> bool {
    let (small, large) = (one.min(other).max(ROWS_MIN), one.max(other));
    large > small * FACTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_differ_by_a_factor_beyond_small_tables() {
        for (one, other, expected) in [
            (0, 999, false),
            (0, 1_001, true),
            (1_001, 0, true),
            (5_000, 19_000, false),
            (5_000, 21_000, true),
        ] {
            assert_eq!(differ(one, other), expected, "{one} {other}");
        }
    }
}
