//! Puts a checkpoint's copies of records into tables; several threads do so side by side.
//!
//! Invariants: a record is in a checkpoint once at most, so no two threads ever install the same one; its word
//! becomes the stamp that it was copied with, and its epoch lies within the copying.

use std::collections::BTreeMap;

use crossbeam_epoch::pin;

use super::overlap::RecordName;
use super::{malformed, other_key, table_of};
use crate::error::Result;
use crate::storage::redo::{CopiedHead, Reader};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::{FreshRecords, FreshRow, TableCore, TableId};

/// The number of records that are made before the first of them is looked for in its index, whose lines are fetched
/// meanwhile.
const BATCH_RECORDS: usize = if cfg!(test) { 3 } else { 32 };

/// The state of one loading thread.
pub(crate) struct Loader<'s> {
    store: &'s Store,
    /// The first epoch that the log is needed from, and the last one that copies may be of.
    epochs: (u64, u64),
    cutter: Cutter,
    row: Vec<u64>,
    loaded: Loaded,
}

/// The counts of loaded records.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The number of records of each table.
    pub(crate) tables: BTreeMap<TableId, u64>,
    /// Records that were split when they were copied: since which epoch.
    pub(crate) split: Vec<(RecordName, u64)>,
}

impl Loaded {
    /// Adds what another thread has loaded.
    pub(crate) fn add(&mut self, other: Loaded) {
        for (table, records) in other.tables {
            *self.tables.entry(table).or_default() += records;
        }
        self.split.extend(other.split);
    }
}

impl<'s> Loader<'s> {
    /// Loads copies that were made in these epochs.
    pub(crate) fn new(store: &'s Store, epochs: (u64, u64)) -> Loader<'s> {
        Loader { store, epochs, cutter: Cutter::default(), row: Vec::new(), loaded: Loaded::default() }
    }

    /// Loads a block of copies. How many records it had.
    ///
    /// # Errors
    /// The bytes are no copies of this database's records.
    pub(crate) fn load(&mut self, block: &[u8]) -> Result<u64> {
        let mut reader = Reader::new(block);
        let (mut records, mut next) = (0, reader.next_copied()?);
        while let Some(head) = next {
            let table = table_of(self.store, (head.table, reader.version()))?;
            let of_table;
            (of_table, next) = self.load_table(&table, head, &mut reader)?;
            *self.loaded.tables.entry(table.id()).or_default() += of_table;
            records += of_table;
        }
        Ok(records)
    }

    /// Loads copies of one table's records, of which this is the first. How many there were, and the copy behind them.
    fn load_table<'b>(
        &mut self,
        table: &TableCore,
        first: CopiedHead<'b>,
        reader: &mut Reader<'b>,
    ) -> Result<(u64, Option<CopiedHead<'b>>)> {
        let (mut fresh, mut guard) = (FreshRecords::new(table), pin());
        let (mut records, mut next) = (0, Some(first));
        while let Some(head) = next.take_if(|head| head.table == table.id()) {
            self.check_epochs(&head)?;
            let mut row = FreshRow::new(table, &mut self.row);
            reader.row_in_heap(table, row.words())?;
            if !table.layout().fits_key(row.words(), head.key) {
                return Err(other_key(table));
            }
            fresh.make(&mut self.cutter, head.key, head.stamp.present(), row.into_words(), &guard);
            if head.since > 0 {
                self.loaded.split.push(((head.table, head.key.into()), head.since));
            }
            records += 1;
            next = reader.next_copied()?;
            let is_last = next.as_ref().is_none_or(|next| next.table != table.id());
            if fresh.len() == BATCH_RECORDS || is_last {
                if !fresh.put_in(&guard) {
                    return Err(malformed(format!("a row of {:?} twice", table.definition().name())));
                }
                guard.repin();
            }
        }
        Ok((records, next))
    }

    fn check_epochs(&self, head: &CopiedHead<'_>) -> Result<()> {
        let ((first, last), epoch, since) = (self.epochs, head.stamp.epoch(), head.since);
        if epoch > last || since > last || (1..first).contains(&since) {
            return Err(malformed(format!(
                "a copy of epoch {epoch}, split since epoch {since}, in a checkpoint of the epochs {first} to {last}"
            )));
        }
        Ok(())
    }

    /// The counts of its loaded records.
    pub(crate) fn finish(self) -> Loaded {
        self.loaded
    }
}
