//! Bulk inserts, made by recovery's threads from a checkpoint, or by a session into a private table: no transaction has
//! access to the table yet, and each key is inserted once.
//!
//! Invariants: a record is whole, its row and its word, before any index has it; it is in every primary index of its
//! table or in none. Room that was made ahead changes only how often an index grows.

use crossbeam_epoch::Guard;

use super::{TableCore, free_record};
use crate::base::atomics::Ordering;
use crate::storage::index::Insertion;
use crate::storage::index::ordered::Near;
use crate::storage::record::{RecordPointer, RowSize};
use crate::storage::row::{block_bytes, free_block};
use crate::storage::slab::Cutter;

/// Records of one table that are in no index yet. Those that are left when it is dropped are freed.
pub(crate) struct FreshRecords<'t> {
    table: &'t TableCore,
    /// Each with its key's hash.
    records: Vec<(u64, RecordPointer)>,
}

impl TableCore {
    /// Makes room in the indexes for this many records, if there are none yet.
    pub(crate) fn reserve(&self, records: u64, guard: &Guard) {
        if let Some(index) = &self.hash {
            index.reserve(records, guard);
        }
    }
}

impl<'t> FreshRecords<'t> {
    /// No records yet, of this table.
    pub(crate) fn new(table: &'t TableCore) -> FreshRecords<'t> {
        FreshRecords { table, records: Vec::new() }
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Makes a record with this key, word and row, whose blocks are the record's from here on; the line of the index
    /// in which it will be looked for is fetched meanwhile.
    pub(crate) fn make(
        &mut self,
        cutter: &mut Cutter,
        key: &[u8],
        word: u64,
        row: &[u64],
        guard: &Guard,
    ) -> RecordPointer {
        let (table, hash) = (self.table, self.table.hash(key));
        table.prefetch(hash, guard);
        let size = RowSize { words: row.len(), ..table.layout.size() };
        let pointer = table.slabs.make(cutter, word, key, size);
        // SAFETY: it was just made, and no other thread has access to it.
        let record = unsafe { pointer.as_record() };
        for (place, &word) in record.row().iter().zip(row) {
            // Relaxed: an index's release publishes it.
            place.store(word, Ordering::Relaxed);
        }
        let budget = table.slabs.budget();
        if budget.counts_blocks() {
            // SAFETY: the row's blocks are alive.
            let bytes: usize = table.layout.blocks(row).map(|block| unsafe { block_bytes(block) }).sum();
            budget.note_blocks(bytes as i64, pointer.to_bits() as usize);
        }
        self.records.push((hash, pointer));
        pointer
    }

    /// Puts all of them into every primary index, up to the first whose key is there already. Returns true if there was
    /// none.
    pub(crate) fn put_in(&mut self, guard: &Guard) -> bool {
        let mut near = Near::nowhere();
        let fresh = self
            .records
            .iter()
            .position(|&(hash, pointer)| !self.put_in_one(hash, pointer, &mut near, guard));
        self.records.drain(..fresh.unwrap_or(self.records.len()));
        fresh.is_none()
    }

    fn put_in_one<'g>(&self, hash: u64, fresh: RecordPointer, near: &mut Near<'g>, guard: &'g Guard) -> bool
    where
        't: 'g,
    {
        let table = self.table;
        // SAFETY: it is freed only with the table, or by us if no index has it.
        let record = unsafe { fresh.as_record() };
        if let Some(index) = &table.hash
            && let Insertion::Found(_) = index.get_or_insert(hash, record.key(), || fresh, |_| (), guard)
        {
            return false;
        }
        let Some(index) = &table.ordered else { return true };
        let is_new = matches!(index.insert_near(record, near, |_| (), guard), Insertion::Inserted { .. });
        // The first record of a key in one index is the first in the other, too.
        debug_assert!(is_new || table.hash.is_none());
        is_new || table.hash.is_some()
    }
}

impl Drop for FreshRecords<'_> {
    fn drop(&mut self) {
        for (_, pointer) in self.records.drain(..) {
            // SAFETY: no index has it, and it is ours.
            unsafe { free_record(&self.table.layout, &self.table.slabs, pointer) };
        }
    }
}

/// A row on its way into a record: its long values have separate blocks, which are freed with it unless it was used.
pub(crate) struct FreshRow<'t> {
    table: &'t TableCore,
    words: &'t mut [u64],
}

impl<'t> FreshRow<'t> {
    /// A row of this table without values, in these words.
    pub(crate) fn new(table: &'t TableCore, words: &'t mut Vec<u64>) -> FreshRow<'t> {
        words.clear();
        words.resize(table.layout.words(), 0);
        FreshRow { table, words }
    }

    /// Its words, to be filled with blocks of the heap only.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        self.words
    }

    /// Its words, whose blocks belong to the caller from here on.
    pub(crate) fn into_words(mut self) -> &'t [u64] {
        // What is left to be dropped has no blocks.
        let words: &'t mut [u64] = std::mem::take(&mut self.words);
        &*words
    }
}

impl Drop for FreshRow<'_> {
    fn drop(&mut self) {
        if self.words.is_empty() {
            return;
        }
        for block in self.table.layout.blocks(self.words) {
            // SAFETY: only the row owns the block, and the row was never shared.
            unsafe { free_block(block) };
        }
    }
}
