//! Checks a whole database: constraints, and indexes against tables. (Checksums are checked whenever the log is read.)

use crossbeam_epoch::{Guard, pin};

use crate::error::{Error, Result};
use crate::protocol::attempt::show_key;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::ABSENT;
use crate::types::{ValueRef, check};

/// What a check has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables, the catalog's own included.
    pub tables: u64,
    /// Rows.
    pub rows: u64,
    /// Secondary index entries.
    pub index_entries: u64,
}

/// Checks every table.
///
/// # Errors
/// [`Error::Inconsistent`]: the first thing that is wrong.
pub(crate) fn check_store(store: &Store, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let mut steps = Steps { done: 0, total: 0, progress };
    let tables = store.all_tables();
    steps.total = tables.iter().map(|table| steps_of(table)).sum();
    for table in tables {
        let guard = pin();
        report.tables += 1;
        report.rows += check_rows(&table, &guard, &mut steps)?;
        for (position, secondary) in table.secondary().iter().enumerate() {
            report.index_entries += check_index(&table, position, &secondary.table, &guard, &mut steps)?;
        }
    }
    Ok(report)
}

/// So many steps lie between two that are told.
const TOLD: u64 = 1 << 12;

/// How far a check is, and who is told.
struct Steps<'p> {
    done: u64,
    total: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Steps<'_> {
    fn advance(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(TOLD) {
            // Absent records were counted and are not looked at, or the other way round: never beyond the end.
            (self.progress)(self.done.min(self.total), self.total);
        }
    }
}

/// About how many records the check of a table looks at: each row once for itself and once for each index, and each entry.
fn steps_of(table: &TableCore) -> u64 {
    let mut rows = 0;
    table.for_each_record(&pin(), |_| rows += 1);
    rows * (1 + 2 * table.secondary().len() as u64)
}

/// Runs `check` on every present record, with its row.
fn each_row(
    table: &TableCore,
    guard: &Guard,
    steps: &mut Steps<'_>,
    mut check: impl FnMut(Record<'_>, &[u64]) -> Result<()>,
) -> Result<u64> {
    let mut rows = 0;
    let mut result = Ok(());
    let mut words = vec![0; table.layout().words()];
    table.for_each_record(guard, |record| {
        if result.is_ok() && record.read(&mut words) & ABSENT == 0 {
            rows += 1;
            steps.advance();
            result = check(record, &words);
        }
    });
    result.map(|()| rows)
}

fn wrong<T>(table: &TableCore, key: &[u8], what: &str) -> Result<T> {
    let detail = format!("{} ({}): {what}", table.definition().name(), show_key(table, key));
    Err(Error::Inconsistent { detail })
}

fn check_rows(table: &TableCore, guard: &Guard, steps: &mut Steps<'_>) -> Result<u64> {
    let layout = table.layout();
    let in_scans = each_row(table, guard, steps, |record, words| {
        // SAFETY: the row was just read, and the thread is pinned.
        let value = |column: usize| unsafe { layout.value(words, column) };
        for column in 0..layout.len() {
            let definition = layout.column(column);
            if let Err(error) =
                check::check(value(column), &definition.data_type, definition.not_null, &definition.name)
            {
                return wrong(table, record.key(), &error.to_string());
            }
        }
        let key: Vec<ValueRef<'_>> = table.definition().key().iter().map(|&column| value(column)).collect();
        let place = match table.encode_key(&key, true) {
            Ok(place) => place,
            Err(error) => return wrong(table, record.key(), &error.to_string()),
        };
        if place.as_slice() != record.key() {
            return wrong(table, record.key(), "its key columns are not those of its place");
        }
        match table.find(table.hash(record.key()), record.key(), guard) {
            Lookup::Found(found) if found == record => Ok(()),
            _ => wrong(table, record.key(), "a scan finds it, a look-up by its key does not"),
        }
    })?;
    Ok(in_scans)
}

fn check_index(
    table: &TableCore,
    position: usize,
    index: &TableCore,
    guard: &Guard,
    steps: &mut Steps<'_>,
) -> Result<u64> {
    let name = &table.secondary()[position].definition.name;
    let entry_of = |record: Record<'_>, words: &[u64]| {
        // SAFETY: the row was just read, and the thread is pinned.
        table.index_key(position, record.key(), |column| Ok(unsafe { table.layout().value(words, column) }))
    };
    let rows = each_row(table, guard, steps, |record, words| {
        let key = match entry_of(record, words) {
            Ok(key) => key,
            Err(error) => return wrong(table, record.key(), &error.to_string()),
        };
        let entry = match index.find(index.hash(&key), &key, guard) {
            Lookup::Found(entry) => entry,
            Lookup::Missing(_) => return wrong(table, record.key(), &format!("index {name:?} lacks it")),
        };
        let mut row = vec![0; index.layout().words()];
        let present = entry.read(&mut row) & ABSENT == 0;
        // SAFETY: as above.
        if present && unsafe { index.layout().value(&row, 0) } == ValueRef::Bytes(record.key()) {
            return Ok(());
        }
        wrong(table, record.key(), &format!("index {name:?} leads to another row"))
    })?;
    // Each row has its own entry; if there are as many entries, none leads nowhere.
    let entries = each_row(index, guard, steps, |_, _| Ok(()))?;
    if entries != rows {
        let detail = format!("index {name:?} has {entries} entries for {rows} rows");
        return Err(Error::Inconsistent { detail });
    }
    Ok(entries)
}
