//! What is known of tables' rows: how many there are, and how many different values a column has.
//!
//! # Invariants
//! - Estimates decide about speed only, never about results; they may be old.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What is known of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableStatistics {
    pub(crate) rows: f64,
    /// For each column, what is known of it.
    pub(crate) columns: Vec<ColumnStatistics>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ColumnStatistics {
    /// How many different values there are.
    pub(crate) distinct: f64,
    /// The share of rows whose value is NULL.
    pub(crate) nulls: f64,
}

/// What is assumed of a table that was never looked at.
pub(crate) const ROWS_DEFAULT: f64 = 1_000.0;

impl TableStatistics {
    /// What is assumed of a table that was never looked at.
    pub(crate) fn unknown(columns: usize) -> TableStatistics {
        let column = ColumnStatistics { distinct: 200.0, nulls: 0.01 };
        TableStatistics { rows: ROWS_DEFAULT, columns: vec![column; columns] }
    }

    /// Estimates the whole from a sample: `rows` is how many there are, `sampled` how many were looked at, and each column comes with
    /// how many different values, how many of them met once, and how many NULLs the sample had.
    pub(crate) fn estimate(rows: f64, sampled: f64, columns: &[(usize, usize, usize)]) -> TableStatistics {
        let estimate = |&(distinct, once, nulls): &(usize, usize, usize)| {
            let (distinct, once, nulls) = (distinct as f64, once as f64, nulls as f64);
            let values = (sampled - nulls).max(1.0);
            // Haas and Stokes, "Estimating the number of classes in a finite population", 1998: the estimator Duj1,
            // as ANALYZE of PostgreSQL uses it.
            let scale = (rows / sampled.max(1.0)).max(1.0);
            let total = values * scale;
            let duj1 = values * distinct / (values - once + once * values / total).max(1.0);
            ColumnStatistics {
                distinct: duj1.clamp(distinct.max(1.0), total.max(1.0)),
                nulls: nulls / sampled.max(1.0),
            }
        };
        TableStatistics { rows, columns: columns.iter().map(estimate).collect() }
    }
}

/// Statistics of tables by their oids, as they were last counted.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache {
    tables: Mutex<HashMap<u32, Arc<TableStatistics>>>,
}

impl StatisticsCache {
    pub(crate) fn get(&self, oid: u32) -> Option<Arc<TableStatistics>> {
        self.tables.lock().get(&oid).cloned()
    }

    pub(crate) fn put(&self, oid: u32, statistics: TableStatistics) -> Arc<TableStatistics> {
        let statistics = Arc::new(statistics);
        self.tables.lock().insert(oid, statistics.clone());
        statistics
    }

    /// Forgets a table whose rows have changed much, or all of them.
    pub(crate) fn forget(&self, oid: Option<u32>) {
        let mut tables = self.tables.lock();
        match oid {
            Some(oid) => drop(tables.remove(&oid)),
            None => tables.clear(),
        }
    }
}
