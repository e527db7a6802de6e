//! Puts a checkpoint's copies of records into tables; several threads do so side by side.
//!
//! What it keeps true: a record is in a checkpoint once at most, so no two threads ever install the same one; its word
//! becomes the stamp that it was copied with, and its epoch lies within the copying.

use std::collections::BTreeMap;
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::pin;

use super::overlap::RecordName;
use super::{install, malformed, table_of};
use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::storage::redo::{CopiedHead, LoggedChange, Reader};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};
use crate::storage::word::PLACEHOLDER;

/// What one thread loads with.
pub(crate) struct Loader<'s> {
    store: &'s Store,
    /// From the first epoch that the log is needed from, to the last one that copies may be of.
    epochs: (u64, u64),
    arena: Bump,
    cutter: Cutter,
    /// The table of the last record: the next one is mostly of the same.
    table: Option<Arc<TableCore>>,
    loaded: Loaded,
}

/// What was loaded.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// How many records of each table.
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
        Loader {
            store,
            epochs,
            arena: Bump::new(),
            cutter: Cutter::default(),
            table: None,
            loaded: Loaded::default(),
        }
    }

    /// Loads a block of copies. How many records it had.
    ///
    /// # Errors
    /// The bytes are no copies of this database's records.
    pub(crate) fn load(&mut self, block: &[u8]) -> Result<u64> {
        let mut reader = Reader::new(block);
        let mut records = 0;
        while let Some(head) = reader.next_copied()? {
            let table = match self.table.take() {
                Some(table) if table.id() == head.table => table,
                _ => table_of(self.store, head.table)?,
            };
            self.load_record(&table, &head, &mut reader)?;
            self.table = Some(table);
            records += 1;
        }
        Ok(records)
    }

    fn load_record(
        &mut self,
        table: &TableCore,
        head: &CopiedHead<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let (first, last) = self.epochs;
        if head.stamp.epoch() > last || head.since > last || (1..first).contains(&head.since) {
            let (epoch, since) = (head.stamp.epoch(), head.since);
            return Err(malformed(format!(
                "a copy of epoch {epoch}, split since epoch {since}, in a checkpoint of the epochs {first} to {last}"
            )));
        }
        self.arena.reset();
        let guard = pin();
        let placed = table.find_or_place(table.hash(head.key), head.key, &mut self.cutter, &guard);
        // Relaxed: nobody else has the record.
        if placed.record.word().load(Ordering::Relaxed) != PLACEHOLDER {
            return Err(malformed(format!("a row of {:?} twice", table.definition().name())));
        }
        let image = self.arena.alloc_slice_fill_copy(table.layout().words(), 0);
        reader.apply(LoggedChange::Row, table, image, &self.arena)?;
        install(table, placed.record, head.stamp, image);
        *self.loaded.tables.entry(head.table).or_default() += 1;
        if head.since > 0 {
            self.loaded.split.push(((head.table, head.key.into()), head.since));
        }
        Ok(())
    }

    /// What it has loaded.
    pub(crate) fn finish(self) -> Loaded {
        self.loaded
    }
}
