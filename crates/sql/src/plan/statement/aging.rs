//! The age of plans: a plan is made for tables as they are, and is made again once they are much larger or smaller, once as many of
//! their rows have changed as they have, or where an execution has met many more rows than the plan expects and statistics can be
//! had that are newer.
//!
//! # Invariants
//! - A plan that finds its rows by whole keys never ages: no other plan would be better.
//! - Asking costs nothing that is shared between processors as long as the answer is no, and neither does counting rows: a plan
//!   counts those of one execution in [`INTERVAL_MICROS`].

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use heddledb::{Database, Table};

use crate::plan::statistics::{Age, StatisticsCache};
use crate::run::NodeCounts;

/// Factor by which a table must grow or shrink for its plans to be made again: the engine's estimates of one size
/// differ by two.
const FACTOR: u64 = 4;
/// Tables below this many rows are read in no time, by whatever plan.
const ROWS_MIN: u64 = 250;
/// Interval between a plan's checks of its age, in microseconds.
const INTERVAL_MICROS: i64 = 50_000;
/// Factor by which a node of a plan must give more rows than expected for the plan to count as far off.
const MISSED_FACTOR: f64 = 10.0;
/// Minimum number of rows that can be far from the expected number.
const MISSED_ROWS_MIN: f64 = 1_000.0;

/// The basis of a plan: the sizes of its tables, and the number of rows its nodes give.
#[derive(Debug, Default)]
pub(crate) struct PlanAge {
    tables: Vec<(u32, Table, Age)>,
    /// The expected number of rows of each node.
    estimates: Vec<f64>,
    /// Time of the last comparison of sizes, in microseconds.
    compared_at: AtomicI64,
    /// True if the next execution counts rows.
    counts_next: AtomicBool,
    /// True if an execution has given many more rows than expected.
    has_missed: AtomicBool,
}

impl PlanAge {
    /// The age of a plan for these tables as they are now.
    pub(super) fn of(tables: Vec<(u32, Table, Age)>, estimates: Vec<f64>) -> PlanAge {
        PlanAge { tables, estimates, ..PlanAge::default() }
    }

    /// Returns the number of tables.
    pub(crate) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Returns true if tables have changed so much that another plan may be better. `now`: in microseconds.
    pub(crate) fn is_over(&self, now: i64, database: &Database, statistics: &StatisticsCache) -> bool {
        // Relaxed, here and below: one comparison more or less, or one execution that is counted, does not matter.
        let since = now - self.compared_at.load(Ordering::Relaxed);
        if self.tables.is_empty() || (0..INTERVAL_MICROS).contains(&since) {
            return false;
        }
        let has_changed = |(_, table, before): &(u32, Table, Age)| {
            let now = Age::now(database, table);
            differ(before.estimated, now.estimated)
                || (before.changes_until(now) > before.estimated && before.estimated > ROWS_MIN * FACTOR)
        };
        if self.tables.iter().any(has_changed) {
            return true;
        }
        let is_stale = |(oid, table, _): &(u32, Table, Age)| statistics.are_stale(database, *oid, table);
        if self.has_missed.swap(false, Ordering::Relaxed) && self.tables.iter().any(is_stale) {
            return true;
        }
        self.compared_at.store(now, Ordering::Relaxed);
        self.counts_next.store(true, Ordering::Relaxed);
        false
    }

    /// Returns true if this execution counts the rows of each node.
    pub(crate) fn counts_now(&self) -> bool {
        // The flag is read first, so that processors share it as long as it is not set.
        !self.tables.is_empty()
            && self.counts_next.load(Ordering::Relaxed)
            && self.counts_next.swap(false, Ordering::Relaxed)
    }

    /// Compares the rows that the nodes have given in an execution with the expected ones.
    pub(crate) fn note(&self, counts: &[NodeCounts]) {
        let is_missed = |(count, expected): (&NodeCounts, &f64)| {
            count.rows_each() > (expected * MISSED_FACTOR).max(MISSED_ROWS_MIN)
        };
        if counts.iter().zip(&self.estimates).any(is_missed) {
            self.has_missed.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns true if two sizes of a table differ so much that its plans do.
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
