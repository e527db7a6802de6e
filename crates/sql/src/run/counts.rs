//! The work of each node of a plan, for EXPLAIN ANALYZE.

use std::time::Duration;

/// The work that a node has done. Its time includes that of the nodes beneath it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeCounts {
    /// The number of rows that it has returned.
    pub(crate) rows: u64,
    /// The number of its executions.
    pub(crate) loops: u64,
    /// The time until its first rows, of all executions.
    startup: Duration,
    total: Duration,
}

impl NodeCounts {
    /// Counts rows that were given after this time, the first ones of an execution or later ones.
    pub(super) fn add(&mut self, rows: usize, time: Duration, is_first: bool) {
        self.rows += rows as u64;
        self.total += time;
        if is_first {
            self.loops += 1;
            self.startup += time;
        }
    }

    /// The average time until the first rows, and until the last, in milliseconds.
    pub(crate) fn milliseconds(&self) -> (f64, f64) {
        let average = |time: Duration| time.as_secs_f64() * 1_000.0 / self.loops.max(1) as f64;
        (average(self.startup), average(self.total))
    }

    /// The average number of rows.
    pub(crate) fn rows_each(&self) -> f64 {
        self.rows as f64 / self.loops.max(1) as f64
    }
}
