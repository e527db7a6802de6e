//! Rows as of a snapshot's epoch, copied with their long values: they outlive the pin under which they were read.
//!
//! Scans of snapshots take their time, and a pinned thread would hold back the reclamation of memory all that while. So
//! a page of records is read under one pin, and the copies are used without any.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use super::{Found, Versions};
use crate::error::Result;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::types::ValueRef;
use crate::types::memory::Refused;

/// The number of records ahead of the reader that are fetched.
const AHEAD: usize = 8;

/// Rows of one table.
pub(crate) struct Rows {
    table: Arc<TableCore>,
    words: Vec<u64>,
    /// The memory that the rows' words point to, unless they hold their values.
    blocks: Vec<u64>,
    len: usize,
    /// The variable columns that are left out: they are NULL in these rows.
    left_out: Box<[(u32, u32)]>,
}

/// The highest epoch and the faults that were met while rows were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The highest epoch of what was met, absence included: of data that may not be durable yet.
    pub(crate) epoch: u64,
    /// True if an index entry led to no row: either the snapshot has failed, or the index is damaged.
    pub(crate) is_missing: bool,
}

impl Rows {
    /// No rows.
    pub(crate) fn new(table: Arc<TableCore>) -> Rows {
        Rows { table, words: Vec::new(), blocks: Vec::new(), len: 0, left_out: Box::default() }
    }

    /// No rows, of which only the columns at these positions are to be read: long values of others are not copied.
    pub(crate) fn of_columns(table: Arc<TableCore>, positions: &[usize]) -> Rows {
        let left_out = table.layout().variable_columns_except(positions);
        Rows { left_out, ..Rows::new(table) }
    }

    /// No rows, with the same columns as these.
    pub(crate) fn emptied(&self) -> Rows {
        Rows { left_out: self.left_out.clone(), ..Rows::new(self.table.clone()) }
    }

    /// Makes rows from the words of all of them, one after the other, and their number. Their long values are copied.
    ///
    /// # Errors
    /// The system refuses the memory for that.
    ///
    /// # Safety
    /// The words are whole rows of the table with live blocks.
    pub(super) unsafe fn of_words(table: Arc<TableCore>, mut words: Vec<u64>, len: usize) -> Result<Rows> {
        // SAFETY: the caller's promise.
        let moved = unsafe { table.layout().move_blocks_to_buffer(&mut words) };
        let blocks = moved.map_err(Refused::error)?;
        Ok(Rows { table, words, blocks, len, left_out: Box::default() })
    }

    /// The table of the rows.
    #[inline]
    pub(crate) fn table(&self) -> &TableCore {
        &self.table
    }

    /// The number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The words of the row at this position.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> &[u64] {
        let words = self.table.layout().words();
        &self.words[at * words..][..words]
    }

    /// Puts the rows in place of what was there that these records had at the end of `epoch`; where they are entries of a
    /// secondary index, the rows that they lead to.
    ///
    /// # Errors
    /// The system refuses the memory for long values: there are no rows then.
    pub(crate) fn fill<'g>(
        &mut self,
        versions: &Versions,
        (records, entries_of): (&[Record<'g>], Option<&TableCore>),
        epoch: u64,
        guard: &'g Guard,
    ) -> Result<Met> {
        self.words.resize(records.len() * self.table.layout().words(), 0);
        self.len = 0;
        let mut met = Met::default();
        let table = self.table.clone();
        let of = entries_of.unwrap_or(&table);
        records.iter().take(AHEAD).for_each(|&record| of.prefetch_record(record));
        let mut entry = vec![0; entries_of.map_or(0, |index| index.layout().words())];
        for (at, &record) in records.iter().enumerate() {
            records.get(at + AHEAD).into_iter().for_each(|&record| of.prefetch_record(record));
            let record = match entries_of {
                None => Some(record),
                Some(index) => match versions.read(index.layout(), record, epoch, &mut entry) {
                    Found::Nothing(since) => {
                        met.epoch = met.epoch.max(since);
                        continue;
                    }
                    Found::Row(_) => row_of_entry(&table, index, &entry, guard),
                },
            };
            let found = record.is_some_and(|record| self.push(versions, record, epoch, &mut met));
            met.is_missing |= entries_of.is_some() && !found;
        }
        self.words.truncate(self.len * table.layout().words());
        table.layout().forget(&mut self.words, &self.left_out);
        // SAFETY: the rows were just read, and the thread is pinned: their blocks are alive.
        let moved = unsafe { table.layout().move_blocks_to_buffer(&mut self.words) };
        self.blocks = moved
            .inspect_err(|_| {
                self.words.clear();
                self.len = 0;
            })
            .map_err(Refused::error)?;
        Ok(met)
    }

    /// Puts the row that a record had behind those that are there, where there is room for it. Returns true if it had
    /// one.
    fn push(&mut self, versions: &Versions, record: Record<'_>, epoch: u64, met: &mut Met) -> bool {
        let words = self.table.layout().words();
        let place = &mut self.words[self.len * words..][..words];
        let (is_row, since) = match versions.read(self.table.layout(), record, epoch, place) {
            Found::Row(since) => (true, since),
            Found::Nothing(since) => (false, since),
        };
        met.epoch = met.epoch.max(since);
        self.len += usize::from(is_row);
        is_row
    }
}

/// The record that an entry of a secondary index leads to.
fn row_of_entry<'g>(
    table: &TableCore,
    index: &TableCore,
    entry: &[u64],
    guard: &'g Guard,
) -> Option<Record<'g>> {
    // SAFETY: the entry was just read, and the thread is pinned.
    let ValueRef::Bytes(key) = (unsafe { index.layout().value(entry, 0) }) else { return None };
    match table.find(table.hash(key), key, guard) {
        // SAFETY: the thread is pinned for as long as the guard lives, and so the record is alive.
        Lookup::Found(record) => Some(unsafe { record.pointer().as_record() }),
        Lookup::Missing(_) => None,
    }
}
