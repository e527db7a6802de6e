//! What is known of tables' rows: how many there are, and how many different values a column has.
//!
//! # Invariants
//! - Estimates decide about speed only, never about results; they may be old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use heddledb::{Database, Range};
use parking_lot::Mutex;

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::decoder::Decoder;
use crate::types::Value;

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

    /// Estimates the whole from a sample: `rows` is how many there are, `sampled` how many were looked at, and each
    /// column comes with how many different values, how many of them met once, and how many NULLs the sample had.
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

/// How many rows are looked at to learn of a table.
const SAMPLE_ROWS: usize = 3_000;

/// Looks at a sample of a table's rows, on a snapshot: its first rows in the order of the key, or all of a small table.
///
/// # Errors
/// The engine's.
pub(crate) fn count(database: &Database, table: &Table) -> Result<TableStatistics> {
    let mut sampled = 0;
    let mut values: Vec<HashMap<Value, usize>> = vec![HashMap::new(); table.columns.len()];
    let mut nulls = vec![0; table.columns.len()];
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let decoder = Decoder::new(table, &columns)?;
    let mut row = vec![Value::Null; columns.len()];
    crate::access::read(database, |access| {
        let mut scan = access.rows().scan(&table.engine, None, Range::all().limit(SAMPLE_ROWS), None)?;
        scan.read(&mut |found| {
            decoder.decode(found, &mut row)?;
            sampled += 1;
            for (column, value) in row.iter().enumerate() {
                match value.is_null() {
                    true => nulls[column] += 1,
                    false => *values[column].entry(value.clone()).or_default() += 1,
                }
            }
            Ok(true)
        })
        .map(|_| ())
    })?;
    let rows = match table.engine.estimated_rows() {
        Some(rows) if sampled == SAMPLE_ROWS => rows.max(SAMPLE_ROWS as u64) as f64,
        _ => sampled as f64,
    };
    let columns: Vec<(usize, usize, usize)> = values
        .iter()
        .zip(&nulls)
        .map(|(values, nulls)| (values.len(), values.values().filter(|count| **count == 1).count(), *nulls))
        .collect();
    Ok(TableStatistics::estimate(rows, sampled as f64, &columns))
}

/// Statistics of tables by their oids, as they were last counted.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache {
    tables: Mutex<HashMap<u32, Counted>>,
}

/// When and how a table was counted.
#[derive(Debug)]
struct Counted {
    statistics: Arc<TableStatistics>,
    /// How many rows the engine estimated then: if it is twice as many or half as many now, they are counted again.
    estimated: u64,
    uses: AtomicU32,
}

impl StatisticsCache {
    /// What is known of a table; it is looked at if it never was, or has grown or shrunk much.
    pub(crate) fn get(&self, database: &Database, table: &Table) -> Arc<TableStatistics> {
        let estimated = table.engine.estimated_rows().unwrap_or_default();
        if let Some(counted) = self.tables.lock().get(&table.oid)
            && (counted.estimated / 2..=counted.estimated * 2).contains(&estimated)
            && (counted.statistics.rows > 500.0 || counted.uses_left())
        {
            return counted.statistics.clone();
        }
        let counted =
            count(database, table).unwrap_or_else(|_| TableStatistics::unknown(table.columns.len()));
        let statistics = Arc::new(counted);
        let uses = AtomicU32::new(USES_OF_SMALL);
        let counted = Counted { statistics: statistics.clone(), estimated, uses };
        self.tables.lock().insert(table.oid, counted);
        statistics
    }

    /// What is known of a table without a look at it.
    pub(crate) fn known(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        self.tables.lock().get(&table.oid).map(|counted| counted.statistics.clone())
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

/// How often what was counted of a small table is used before it is counted again: it can change without the
/// engine's estimate showing it.
const USES_OF_SMALL: u32 = 20;

impl Counted {
    fn uses_left(&self) -> bool {
        // Relaxed: a use more or less does not matter.
        self.uses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |uses| uses.checked_sub(1)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_everything_is_exact() {
        let statistics = TableStatistics::estimate(100.0, 100.0, &[(10, 0, 0), (100, 100, 0), (0, 0, 100)]);
        assert_eq!(statistics.columns[0].distinct, 10.0);
        assert_eq!(statistics.columns[1].distinct, 100.0);
        assert_eq!(statistics.columns[2].nulls, 1.0);
    }

    #[test]
    fn values_that_never_repeat_in_a_sample_are_taken_for_unique() {
        let statistics = TableStatistics::estimate(1e6, 3_000.0, &[(3_000, 3_000, 0), (7, 0, 0)]);
        assert!(statistics.columns[0].distinct > 9e5);
        assert_eq!(statistics.columns[1].distinct, 7.0);
    }

    #[test]
    fn nothing_sampled_is_no_reason_to_divide_by_zero() {
        let statistics = TableStatistics::estimate(0.0, 0.0, &[(0, 0, 0)]);
        assert!(statistics.columns[0].distinct.is_finite() && statistics.columns[0].nulls.is_finite());
    }
}
