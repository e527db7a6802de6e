//! Rows that are installed at once into a table which no other thread has access to: one that a session's transaction
//! has made.
//!
//! Invariants: a row is whole, with its records in all indexes, or nothing of it is there. Its stamp is [`LOADED`] until the
//! commit that publishes the table gives it its own (`storage::commit::loaded`).

use bumpalo::Bump;
use crossbeam_epoch::Guard;

use super::{FreshRecords, FreshRow, TableCore};
use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::storage::index::Lookup;
use crate::storage::restore::derive_index_records;
use crate::storage::slab::Cutter;
use crate::storage::word::{ABSENT, Stamp};
use crate::types::ValueRef;
use crate::types::memory::Refused;

/// The stamp of loaded rows before they are committed: older than all that a running database commits.
const LOADED: u64 = 1;

/// The memory that loading keeps from row to row, so that it does not allocate for each.
#[derive(Default)]
pub(crate) struct LoadScratch {
    words: Vec<u64>,
    arena: Bump,
}

/// The outcome of loading a row.
pub(crate) enum Loaded {
    Row,
    /// The key has a row.
    Duplicate,
    /// The unique index at this position has its values, under this key.
    NotUnique(usize, Box<[u8]>),
    /// The key has a record without a row, which only a commit may fill.
    Occupied,
}

impl TableCore {
    /// Puts a row into this table. `values`: checked, one for each column.
    ///
    /// # Errors
    /// The system refuses memory for a long value.
    pub(crate) fn load(
        &self,
        (hash, key): (u64, &[u8]),
        values: &[ValueRef<'_>],
        scratch: &mut LoadScratch,
        cutter: &mut Cutter,
        guard: &Guard,
    ) -> Result<Loaded> {
        if let Lookup::Found(record) = self.find(hash, key, guard) {
            return Ok(if is_present(record) { Loaded::Duplicate } else { Loaded::Occupied });
        }
        // The keys of other indexes end with the primary key, so they are free.
        for (position, secondary) in
            self.secondary.iter().enumerate().filter(|(_, one)| one.definition.unique)
        {
            let index_key = self.index_key(position, key, |column| Ok(values[column]))?;
            let index = &secondary.table;
            if let Lookup::Found(record) = index.find(index.hash(&index_key), &index_key, guard)
                && is_present(record)
            {
                return Ok(Loaded::NotUnique(position, index_key[..].into()));
            }
        }
        let LoadScratch { words, arena } = scratch;
        arena.reset();
        let mut row = FreshRow::new(self, words);
        for (position, &value) in values.iter().enumerate() {
            self.layout.put_in_heap(row.words(), position, value).map_err(Refused::error)?;
        }
        let stamp = Stamp::new(LOADED, 0);
        let mut fresh = FreshRecords::new(self);
        let record = fresh.make(cutter, key, stamp.present(), row.into_words(), guard);
        let is_new = fresh.put_in(guard);
        debug_assert!(is_new, "no other thread puts records into this table");
        if !self.secondary.is_empty() {
            // SAFETY: it is in the table's indexes, from which no other thread takes it, and this one does not before it ends.
            let record = unsafe { record.as_record() };
            let mut words: smallvec::SmallVec<[u64; 32]> = smallvec::smallvec![0; self.layout.words()];
            record.read(&self.layout, &mut words);
            derive_index_records(self, (record, stamp, &words), arena, cutter, guard)?;
        }
        self.note_loaded();
        Ok(Loaded::Row)
    }
}

fn is_present(record: crate::storage::record::Record<'_>) -> bool {
    // Relaxed: this thread alone writes the table.
    record.word().load(Ordering::Relaxed) & ABSENT == 0
}
