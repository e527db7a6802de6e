//! Statistics of tables' rows: the number of rows, and the distribution of each column.
//!
//! A planner that finds a table changed by a tenth reads a sample of it, on a snapshot, before its statement begins. Changes are
//! counted by the engine's worker contexts, each on its own ([`Database::row_changes`]): a writer waits for no sample, and shares no
//! counter with another one.
//!
//! # Invariants
//! - Estimates decide about speed only, never about results; they may be old.
//! - A sample is only evaluated for a table with the columns that it had when the sample was read: functions are bound to the
//!   types of these.

use std::sync::Arc;

use hashbrown::HashMap;
use heddledb::{Database, Range};
use parking_lot::Mutex;

use crate::access::{RowScan, Rows};
use crate::catalog::{Column, Table};
use crate::error::Result;
use crate::plan::column_statistics::{ColumnStatistics, Sampled};
use crate::plan::decoder::Decoder;
use crate::plan::sample::{Sample, scattered};
use crate::run::memory::row_bytes;
use crate::types::{Type, Value};

/// Statistics of one table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableStatistics {
    pub(crate) rows: f64,
    /// Number of rows that were examined.
    pub(crate) sampled: usize,
    /// The statistics of each column.
    pub(crate) columns: Vec<ColumnStatistics>,
    pub(crate) sample: Sample,
}

/// Number of rows assumed of a table that was never sampled.
pub(crate) const ROWS_DEFAULT: f64 = 1_000.0;

impl TableStatistics {
    /// The statistics assumed of a table that was never sampled.
    pub(crate) fn unknown(columns: usize) -> TableStatistics {
        TableStatistics {
            rows: ROWS_DEFAULT,
            sampled: 0,
            columns: vec![ColumnStatistics::unknown(); columns],
            sample: Sample::default(),
        }
    }
}

/// Limits of one sampling: how much of a table is read, and how much is kept of each column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Maximum number of rows that are examined.
    rows: usize,
    /// Maximum memory of the examined rows: of a table with wide rows, a part is examined.
    bytes: usize,
    /// Number of common values and buckets kept of a column without a setting of its own.
    target: usize,
    /// Maximum estimate at which the rows of the table are counted.
    counted_max: u64,
}

impl Effort {
    /// The effort of a planner that waits for the sample.
    pub(crate) const PLANNING: Effort = Effort { rows: 3_000, bytes: 8 << 20, target: 100, counted_max: 0 };

    /// The effort of ANALYZE: 300 rows for each bucket, as in PostgreSQL.
    ///
    /// # Source
    /// Chaudhuri, Motwani and Narasayya, "Random sampling for histogram construction: how much is enough?", 1998.
    pub(crate) fn of_analyze(table: &Table, target: usize) -> Effort {
        let of_column = |column: &Column| column.settings.statistics.map_or(target, |it| it.max(0) as usize);
        let most = table.columns.iter().map(of_column).max().unwrap_or(target);
        let rows = (300 * most).max(Effort::PLANNING.rows);
        Effort { rows, bytes: 64 << 20, target, counted_max: 2_000_000 }
    }
}

/// Maximum number of rows of a part that are skipped before its first examined one: parts begin where an index's nodes
/// do, so at even distances, by which columns that repeat would have few of their values.
const SKIPPED_ROWS_MAX: usize = 16;
/// A prime: steps of it visit all parts of a table, neighbors far apart.
const STRIDE: usize = 2_654_435_761;

/// Reads a sample of a table's rows, on a snapshot: rows all over a large table, or all of a small one.
///
/// # Errors
/// The engine's.
fn count(database: &Database, table: &Table, effort: Effort) -> Result<TableStatistics> {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let decoder = Decoder::new(table, &columns)?;
    let (sampled, is_whole) =
        crate::access::read(database, |access| sample(access.rows(), table, &decoder, effort))?;
    let count = sampled.len();
    let rows = match table.engine.estimated_rows() {
        Some(rows) if !is_whole && rows <= effort.counted_max => table.engine.memory().rows as f64,
        Some(rows) if !is_whole => rows.max(count as u64) as f64,
        _ => count as f64,
    };
    let of_column = |&column: &usize| {
        let values: Vec<&Value> = sampled.iter().map(|row| &row[column]).collect();
        ColumnStatistics::of(&values, Sampled::new(&table.columns[column], rows, is_whole, effort.target))
    };
    let columns = columns.iter().map(of_column).collect();
    Ok(TableStatistics { rows, sampled: count, columns, sample: Sample::of(sampled, is_whole) })
}

/// Rows of a table, and whether these are all of them.
fn sample(
    rows: &dyn Rows,
    table: &Table,
    decoder: &Decoder,
    effort: Effort,
) -> Result<(Vec<Vec<Value>>, bool)> {
    let is_small = table.engine.estimated_rows().is_some_and(|rows| rows <= effort.rows as u64 / 2);
    let mut scans: Vec<Box<dyn RowScan + '_>> = match rows.shared() {
        // One row of each part: neighbors have much in common.
        Some(shared) if !is_small => {
            let parts = shared.parts(&table.engine, None, Range::all(), None, effort.rows)?;
            parts.into_iter().map(|part| part as Box<dyn RowScan>).collect()
        }
        _ => vec![rows.scan(&table.engine, None, Range::all(), None)?],
    };
    let most = effort.rows.div_ceil(scans.len().max(1));
    let parts = scans.len();
    let skips = parts > 1 && table.engine.estimated_rows().is_some_and(|rows| rows > effort.rows as u64);
    let (mut sampled, mut is_whole, mut bytes) = (Vec::new(), !skips, 0);
    for part in (0..parts).map(|number| number.wrapping_mul(STRIDE) % parts) {
        if bytes >= effort.bytes {
            is_whole = false;
            break;
        }
        let end = sampled.len() + most;
        let mut skipped = if skips { scattered(part) % SKIPPED_ROWS_MAX } else { 0 };
        is_whole &= !scans[part].read(&mut |found| {
            if skipped > 0 {
                skipped -= 1;
                return Ok(true);
            }
            let mut row = vec![Value::Null; decoder.len()];
            decoder.decode(found, &mut row)?;
            bytes += row_bytes(&row);
            sampled.push((part, row));
            Ok(sampled.len() < end && bytes < effort.bytes)
        })?;
    }
    // The parts in the order of the table.
    sampled.sort_by_key(|(part, _)| *part);
    Ok((sampled.into_iter().map(|(_, row)| row).collect(), is_whole))
}

/// Statistics of tables by their oids, as they were last counted.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache {
    tables: Mutex<HashMap<u32, Counted>>,
}

/// The statistics of a table, with its sizes and columns when it was sampled.
#[derive(Debug)]
struct Counted {
    statistics: Arc<TableStatistics>,
    /// The sizes of the table then.
    age: Age,
    /// The columns that the table had then.
    columns: Vec<(String, Type)>,
    /// True while a session is sampling the table again: others use the old statistics meanwhile.
    is_renewed: bool,
}

/// A measure of how much a table has changed since some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// The engine's estimate of the number of rows.
    pub(crate) estimated: u64,
    /// The engine's count of changes of the table's rows.
    pub(crate) changes: u64,
}

/// Number of changes that leave the statistics of a table of any size as they are.
const CHANGES_MIN: u64 = 20;
/// Share of a table's rows that has to change until it is sampled again: that of PostgreSQL's autovacuum.
const CHANGED_SHARE: f64 = 0.1;

impl Age {
    pub(crate) fn now(database: &Database, table: &heddledb::Table) -> Age {
        Age { estimated: table.estimated_rows().unwrap_or_default(), changes: database.row_changes(table) }
    }

    /// Number of row changes since then.
    pub(crate) fn changes_until(self, now: Age) -> u64 {
        // A table that was made again counts elsewhere.
        self.changes.abs_diff(now.changes)
    }
}

/// The names and types of a table's columns.
fn columns_of(table: &Table) -> Vec<(String, Type)> {
    table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect()
}

impl StatisticsCache {
    /// Returns the statistics of a table, and samples it first if it never was, or has changed much.
    pub(crate) fn get(&self, database: &Database, table: &Table) -> Arc<TableStatistics> {
        let age = Age::now(database, &table.engine);
        if let Some(counted) = self.tables.lock().get_mut(&table.oid)
            && counted.is_of(table)
        {
            if counted.is_renewed || !counted.is_stale(age) {
                return counted.statistics.clone();
            }
            counted.is_renewed = true;
        }
        match count(database, table, Effort::PLANNING) {
            Ok(counted) => self.keep(table, age, counted),
            // A table that an open transaction has made is not there on a snapshot.
            Err(_) => {
                self.forget(Some(table.oid));
                Arc::new(TableStatistics::unknown(table.columns.len()))
            }
        }
    }

    /// Looks at a table, as ANALYZE does; `target`: how much is kept of each column.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn analyze(
        &self,
        database: &Database,
        table: &Table,
        target: usize,
    ) -> Result<Arc<TableStatistics>> {
        let age = Age::now(database, &table.engine);
        Ok(self.keep(table, age, count(database, table, Effort::of_analyze(table, target))?))
    }

    fn keep(&self, table: &Table, age: Age, statistics: TableStatistics) -> Arc<TableStatistics> {
        let statistics = Arc::new(statistics);
        let columns = columns_of(table);
        let counted = Counted { statistics: statistics.clone(), age, columns, is_renewed: false };
        self.tables.lock().insert(table.oid, counted);
        statistics
    }

    /// Returns the statistics of a table without sampling it.
    pub(crate) fn known(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let tables = self.tables.lock();
        let counted = tables.get(&table.oid).filter(|counted| counted.is_of(table))?;
        Some(counted.statistics.clone())
    }

    /// Returns true if a table has changed much since it was sampled.
    pub(crate) fn are_stale(&self, database: &Database, oid: u32, table: &heddledb::Table) -> bool {
        let now = Age::now(database, table);
        self.tables.lock().get(&oid).is_none_or(|counted| counted.is_stale(now))
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

impl Counted {
    /// Returns true if the table still has the columns that it had: an open transaction may see other columns than the
    /// rest.
    fn is_of(&self, table: &Table) -> bool {
        let same =
            |(column, (name, ty)): (&Column, &(String, Type))| column.ty == *ty && column.name == *name;
        self.columns.len() == table.columns.len() && table.columns.iter().zip(&self.columns).all(same)
    }

    /// Returns true if the table has changed much since.
    fn is_stale(&self, now: Age) -> bool {
        let (before, rows) = (self.age.estimated, self.statistics.rows);
        !(before / 2..=before * 2).contains(&now.estimated)
            || self.age.changes_until(now) > CHANGES_MIN + (rows * CHANGED_SHARE) as u64
    }
}
