//! Checks a whole database: constraints, and indexes against tables. (Checksums are checked whenever the log is read.)
//!
//! It reads a snapshot, page by page, so it runs beside all transactions.

use std::cell::Cell;
use std::ops::Bound;

use crossbeam_epoch::{Guard, pin};

use crate::error::{Error, Result};
use crate::pipeline::snapshots::Registered;
use crate::protocol::attempt::show_key;
use crate::storage::foreign_keys::{Link, SchemaLinks, TableView, index_table};
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::table::{RangeScan, TableCore};
use crate::storage::versions::Found;
use crate::types::{ValueRef, assignment};

/// Counts of the items that a check has examined.
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

/// Checks every table as of a snapshot.
///
/// # Errors
/// [`Error::Inconsistent`]: the first thing that is wrong; [`Error::SnapshotTooOld`]; the log has failed before what
/// was read became durable.
pub(crate) fn check_snapshot(
    snapshot: &Registered,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let mut steps = Steps { done: 0, total: 0, progress };
    let tables = snapshot.engine().store().all_tables();
    let view = View { snapshot, met: Cell::new(0) };
    for table in &tables {
        steps.total += steps_of(table)?;
    }
    let links = SchemaLinks::of(&TableView::all(snapshot.engine().store().user_tables()))?;
    for table in tables {
        report.tables += 1;
        report.rows += view.check_rows(&table, &mut steps)?;
        for link in links.table(table.id()).iter().flat_map(|links| &links.outgoing) {
            view.check_foreign_key(link, &mut steps)?;
        }
        for (position, secondary) in table.secondary().iter().enumerate() {
            report.index_entries += view.check_index(&table, position, &secondary.table, &mut steps)?;
        }
    }
    snapshot.engine().progress().wait(view.met.get())?;
    Ok(report)
}

/// Number of steps between two progress reports.
const TOLD: u64 = 1 << 12;

/// Progress of a check, and its callback.
struct Steps<'p> {
    done: u64,
    total: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Steps<'_> {
    fn advance(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(TOLD) {
            // Absent records were counted and are not examined, or the other way round: never beyond the end.
            (self.progress)(self.done.min(self.total), self.total);
        }
    }
}

/// About how many records the check of a table looks at: each row once for itself and
/// once for each index and foreign key, and each entry.
fn steps_of(table: &TableCore) -> Result<u64> {
    let mut records = 0;
    each_page(table, |page, _| {
        records += page.len() as u64;
        Ok(())
    })?;
    let looks = 1 + 2 * table.secondary().len() + table.definition().foreign_keys().len();
    Ok(records * looks as u64)
}

/// Runs `visit` on every page of a table; nothing is pinned in between.
fn each_page(table: &TableCore, mut visit: impl FnMut(&[Record<'_>], &Guard) -> Result<()>) -> Result<()> {
    let mut scan = RangeScan::new(table, Bound::Unbounded, Bound::Unbounded, false)?;
    let mut has_more = true;
    while has_more {
        let (guard, mut page) = (pin(), Vec::new());
        has_more = scan.page(table, &mut page, &guard);
        visit(&page, &guard)?;
    }
    Ok(())
}

/// The snapshot that is checked.
struct View<'s> {
    snapshot: &'s Registered,
    /// The highest epoch of what was read.
    met: Cell<u64>,
}

impl View<'_> {
    /// Copies a record's row; returns false if it has none.
    fn read(&self, layout: &RowLayout, record: Record<'_>, words: &mut [u64]) -> Result<bool> {
        let versions = self.snapshot.engine().store().versions();
        let found = versions.read(layout, record, self.snapshot.epoch(), words);
        self.snapshot.check()?;
        let (is_row, epoch) = match found {
            Found::Row(epoch) => (true, epoch),
            Found::Nothing(epoch) => (false, epoch),
        };
        self.met.set(self.met.get().max(epoch));
        Ok(is_row)
    }

    /// Runs `check` on every row of a table.
    fn each_row(
        &self,
        table: &TableCore,
        steps: &mut Steps<'_>,
        mut check: impl FnMut(Record<'_>, &[u64], &Guard) -> Result<()>,
    ) -> Result<u64> {
        let mut rows = 0;
        let mut words = vec![0; table.layout().words()];
        each_page(table, |page, guard| {
            for &record in page {
                if self.read(table.layout(), record, &mut words)? {
                    rows += 1;
                    steps.advance();
                    check(record, &words, guard)?;
                }
            }
            Ok(())
        })?;
        Ok(rows)
    }

    fn wrong<T>(&self, table: &TableCore, key: &[u8], what: &str) -> Result<T> {
        // What a snapshot that is too old lacks is not wrong.
        self.snapshot.check()?;
        let detail = format!("{} ({}): {what}", table.definition().name(), show_key(table, key));
        Err(Error::Inconsistent { detail })
    }

    fn check_rows(&self, table: &TableCore, steps: &mut Steps<'_>) -> Result<u64> {
        let layout = table.layout();
        self.each_row(table, steps, |record, words, guard| {
            // SAFETY: the row was just read, and the thread is pinned.
            let value = |column: usize| unsafe { layout.value(words, column) };
            for column in 0..layout.len() {
                let definition = layout.column(column);
                if let Err(error) = assignment::check(
                    value(column),
                    &definition.data_type,
                    definition.not_null,
                    &definition.name,
                ) {
                    return self.wrong(table, record.key(), &error.to_string());
                }
            }
            if let Some(checks) = table.checks()
                && let Err(error) = checks.check_row(&value)
            {
                return self.wrong(table, record.key(), &error.to_string());
            }
            let key: Vec<ValueRef<'_>> =
                table.definition().key().iter().map(|&column| value(column)).collect();
            let place = match table.encode_key(&key, true) {
                Ok(place) => place,
                Err(error) => return self.wrong(table, record.key(), &error.to_string()),
            };
            if place.as_slice() != record.key() {
                return self.wrong(table, record.key(), "its key columns are not those of its place");
            }
            match table.find(table.hash(record.key()), record.key(), guard) {
                Lookup::Found(found) if found == record => Ok(()),
                _ => self.wrong(table, record.key(), "a scan finds it, a look-up by its key does not"),
            }
        })
    }

    fn check_foreign_key(&self, link: &Link, steps: &mut Steps<'_>) -> Result<()> {
        let child = &*link.child;
        self.each_row(child, steps, |record, words, guard| {
            // SAFETY: the row was just read, and the thread is pinned.
            let value = |&column: &usize| unsafe { child.layout().value(words, column) };
            let values: Vec<ValueRef<'_>> = link.columns.iter().map(value).collect();
            if values.iter().any(|value| value.is_null()) {
                return Ok(());
            }
            // A schema in force has all its indexes.
            let Some((index, key)) = link.parent_key(&values)? else { return Ok(()) };
            let referenced = index_table(&link.parent, index);
            let is_there = match referenced.find(referenced.hash(&key), &key, guard) {
                Lookup::Found(found) => {
                    self.read(referenced.layout(), found, &mut vec![0; referenced.layout().words()])?
                }
                Lookup::Missing(_) => false,
            };
            match is_there {
                true => Ok(()),
                false => self.wrong(
                    child,
                    record.key(),
                    &format!("foreign key {:?} leads nowhere", link.key.name()),
                ),
            }
        })?;
        Ok(())
    }

    fn check_index(
        &self,
        table: &TableCore,
        position: usize,
        index: &TableCore,
        steps: &mut Steps<'_>,
    ) -> Result<u64> {
        let name = &table.secondary()[position].definition.name;
        let rows = self.each_row(table, steps, |record, words, guard| {
            // SAFETY: the row was just read, and the thread is pinned.
            let value_of = |column| Ok(unsafe { table.layout().value(words, column) });
            let key = match table.index_key(position, record.key(), value_of) {
                Ok(key) => key,
                Err(error) => return self.wrong(table, record.key(), &error.to_string()),
            };
            let entry = match index.find(index.hash(&key), &key, guard) {
                Lookup::Found(entry) => entry,
                Lookup::Missing(_) => {
                    return self.wrong(table, record.key(), &format!("index {name:?} lacks it"));
                }
            };
            let mut row = vec![0; index.layout().words()];
            let is_there = self.read(index.layout(), entry, &mut row)?;
            // SAFETY: as above.
            if is_there && unsafe { index.layout().value(&row, 0) } == ValueRef::Bytes(record.key()) {
                return Ok(());
            }
            self.wrong(table, record.key(), &format!("index {name:?} leads to another row"))
        })?;
        // Each row has its own entry; if there are as many entries, none leads nowhere.
        let entries = self.each_row(index, steps, |_, _, _| Ok(()))?;
        if entries != rows {
            self.snapshot.check()?;
            let detail = format!("index {name:?} has {entries} entries for {rows} rows");
            return Err(Error::Inconsistent { detail });
        }
        Ok(entries)
    }
}
