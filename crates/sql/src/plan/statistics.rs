//! What is known of tables' rows: how many there are, and how many different values a column has.
//!
//! # Invariants
//! - Estimates decide about speed only, never about results; they may be old.
//! - A sample is only evaluated for a table with the columns that it had when the sample was read: functions are bound to the
//!   types of these.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use heddledb::{Database, Range};
use parking_lot::Mutex;

use crate::access::{RowScan, Rows};
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::decoder::Decoder;
use crate::plan::sample::{Sample, duj1};
use crate::plan::statement::differ;
use crate::run::memory::row_bytes;
use crate::types::{Type, Value};

/// What is known of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableStatistics {
    pub(crate) rows: f64,
    /// For each column, what is known of it.
    pub(crate) columns: Vec<ColumnStatistics>,
    pub(crate) sample: Sample,
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
        TableStatistics { rows: ROWS_DEFAULT, columns: vec![column; columns], sample: Sample::default() }
    }

    /// Estimates the whole from a sample: `rows` is how many there are, `sampled` how many were looked at, and each
    /// column comes with how many different values, how many of them met once, and how many NULLs the sample had.
    pub(crate) fn estimate(rows: f64, sampled: f64, columns: &[(usize, usize, usize)]) -> TableStatistics {
        let estimate = |&(distinct, once, nulls): &(usize, usize, usize)| {
            let (distinct, once, nulls) = (distinct as f64, once as f64, nulls as f64);
            let values = (sampled - nulls).max(1.0);
            let scale = (rows / sampled.max(1.0)).max(1.0);
            ColumnStatistics {
                distinct: duj1(distinct, once, values, values * scale),
                nulls: nulls / sampled.max(1.0),
            }
        };
        let columns = columns.iter().map(estimate).collect();
        TableStatistics { rows, columns, sample: Sample::default() }
    }
}

/// How many rows are looked at to learn of a table.
const SAMPLE_ROWS: usize = 3_000;
/// How much memory they may take before no more are looked at: wide rows, a part of the table then.
const SAMPLE_BYTES: usize = 8 << 20;
/// A prime: steps of it visit all parts of a table, neighbors far apart.
const STRIDE: usize = 2_654_435_761;

/// Looks at a sample of a table's rows, on a snapshot: rows all over a large table, or all of a small one.
///
/// # Errors
/// The engine's.
pub(crate) fn count(database: &Database, table: &Table) -> Result<TableStatistics> {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let decoder = Decoder::new(table, &columns)?;
    let (sampled, is_whole) = crate::access::read(database, |access| sample(access.rows(), table, &decoder))?;
    let count = sampled.len();
    let rows = match table.engine.estimated_rows() {
        Some(rows) if !is_whole => rows.max(count as u64) as f64,
        _ => count as f64,
    };
    let columns: Vec<(usize, usize, usize)> =
        columns.iter().map(|&column| values_of(&sampled, column)).collect();
    let statistics = TableStatistics::estimate(rows, count as f64, &columns);
    Ok(TableStatistics { sample: Sample::of(sampled, is_whole), ..statistics })
}

/// Rows of a table, and whether these are all of them.
fn sample(rows: &dyn Rows, table: &Table, decoder: &Decoder) -> Result<(Vec<Vec<Value>>, bool)> {
    let is_small = table.engine.estimated_rows().is_some_and(|rows| rows <= SAMPLE_ROWS as u64 / 2);
    let mut scans: Vec<Box<dyn RowScan + '_>> = match rows.shared() {
        // One row of each part: neighbors have much in common.
        Some(shared) if !is_small => {
            let parts = shared.parts(&table.engine, None, Range::all(), None, SAMPLE_ROWS)?;
            parts.into_iter().map(|part| part as Box<dyn RowScan>).collect()
        }
        _ => vec![rows.scan(&table.engine, None, Range::all(), None)?],
    };
    let most = SAMPLE_ROWS.div_ceil(scans.len().max(1));
    let (mut sampled, mut is_whole, mut bytes) = (Vec::new(), true, 0);
    let parts = scans.len();
    for part in (0..parts).map(|number| number.wrapping_mul(STRIDE) % parts) {
        if bytes >= SAMPLE_BYTES {
            is_whole = false;
            break;
        }
        let end = sampled.len() + most;
        is_whole &= !scans[part].read(&mut |found| {
            let mut row = vec![Value::Null; decoder.len()];
            decoder.decode(found, &mut row)?;
            bytes += row_bytes(&row);
            sampled.push((part, row));
            Ok(sampled.len() < end && bytes < SAMPLE_BYTES)
        })?;
    }
    // In the order of the table.
    sampled.sort_by_key(|(part, _)| *part);
    Ok((sampled.into_iter().map(|(_, row)| row).collect(), is_whole))
}

/// How many different values a column has in these rows, how many of them in one row only, and in how many rows it is NULL.
fn values_of(rows: &[Vec<Value>], column: usize) -> (usize, usize, usize) {
    let mut values: HashMap<&Value, usize> = HashMap::new();
    for row in rows.iter().filter(|row| !row[column].is_null()) {
        *values.entry(&row[column]).or_default() += 1;
    }
    let nulls = rows.iter().filter(|row| row[column].is_null()).count();
    (values.len(), values.values().filter(|count| **count == 1).count(), nulls)
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
    /// The columns that the table had then.
    columns: Vec<(String, Type)>,
    uses: AtomicU32,
}

/// The names and types of a table's columns.
fn columns_of(table: &Table) -> Vec<(String, Type)> {
    table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect()
}

impl StatisticsCache {
    /// What is known of a table; it is looked at if it never was, or has grown or shrunk much.
    pub(crate) fn get(&self, database: &Database, table: &Table) -> Arc<TableStatistics> {
        let estimated = table.engine.estimated_rows().unwrap_or_default();
        if let Some(counted) = self.tables.lock().get(&table.oid)
            && counted.is_of(table)
            && (counted.estimated / 2..=counted.estimated * 2).contains(&estimated)
            && (counted.statistics.rows > 500.0 || counted.uses_left())
        {
            return counted.statistics.clone();
        }
        let counted =
            count(database, table).unwrap_or_else(|_| TableStatistics::unknown(table.columns.len()));
        let statistics = Arc::new(counted);
        let uses = AtomicU32::new(USES_OF_SMALL);
        let columns = columns_of(table);
        let counted = Counted { statistics: statistics.clone(), estimated, columns, uses };
        self.tables.lock().insert(table.oid, counted);
        statistics
    }

    /// What is known of a table without a look at it.
    pub(crate) fn known(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let tables = self.tables.lock();
        let counted = tables.get(&table.oid).filter(|counted| counted.is_of(table))?;
        Some(counted.statistics.clone())
    }

    /// Whether a table has grown or shrunk much since it was looked at.
    pub(crate) fn are_outdated(&self, table: &Table) -> bool {
        let estimated = table.engine.estimated_rows().unwrap_or_default();
        self.tables.lock().get(&table.oid).is_some_and(|counted| differ(counted.estimated, estimated))
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
    /// Whether the table still has the columns that it had: an open transaction may see others than everybody else.
    fn is_of(&self, table: &Table) -> bool {
        let same = |(column, (name, ty)): (&crate::catalog::Column, &(String, Type))| {
            column.ty == *ty && column.name == *name
        };
        self.columns.len() == table.columns.len() && table.columns.iter().zip(&self.columns).all(same)
    }

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
