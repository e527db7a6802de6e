//! Watches: while an index is built beside the transactions that write its table, their commits note what they change.
//!
//! # Invariants
//! A commit notes a row before it installs another one, inside its commit section. So when a thread has taken notes, and then
//! waited until no commit section was open, the rows that they are about have changed. Commits that enter their section once
//! the watch has begun, and all sections of before were left, note everything.
//!
//! # Concurrency
//! Commits look at [`Versions::bound`], which is above every word while there is a watch: without one they pay nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Versions;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::word::ABSENT;

/// The key of a row's record in an index; none: it has none there.
pub(crate) type IndexKey = Option<Box<[u8]>>;

/// A row that a commit changes.
pub(crate) struct Note {
    /// Its primary key.
    pub(crate) key: Box<[u8]>,
    /// The keys of its records in the indexes that are built, before the change.
    pub(crate) before: SmallVec<[IndexKey; 1]>,
}

/// What is noted of the commits that write a table.
pub(crate) struct Watch {
    /// The table under the definition that has the indexes.
    table: Arc<TableCore>,
    /// Which of its indexes are built.
    positions: Box<[usize]>,
    /// The columns of these indexes.
    columns: Box<[usize]>,
    notes: Mutex<Vec<Note>>,
}

impl Watch {
    pub(crate) fn new(table: Arc<TableCore>, positions: Vec<usize>) -> Watch {
        let columns = positions.iter().flat_map(|&at| &table.definition().indexes[at].columns);
        let columns = columns.copied().collect();
        Watch { positions: positions.into(), columns, notes: Mutex::default(), table }
    }

    /// The table under the definition that has the indexes.
    pub(crate) fn table(&self) -> &TableCore {
        &self.table
    }

    /// Which of its indexes are built.
    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// How many notes have not been taken.
    pub(crate) fn len(&self) -> usize {
        self.notes.lock().len()
    }

    /// Takes the newest notes, at most this many. In which order they are dealt with does not matter.
    pub(crate) fn take(&self, at_most: usize) -> Vec<Note> {
        let mut notes = self.notes.lock();
        let from = notes.len().saturating_sub(at_most);
        notes.split_off(from)
    }

    /// Adds a note.
    pub(crate) fn push(&self, note: Note) {
        self.notes.lock().push(note);
    }

    /// The keys of a row's records in the indexes that are built. A value that fits no key has none.
    ///
    /// # Safety
    /// The row is one of the table's, and its blocks are alive.
    pub(crate) unsafe fn index_keys(&self, key: &[u8], words: &[u64]) -> SmallVec<[IndexKey; 1]> {
        // SAFETY: the caller's promise.
        let value_of = |column: usize| Ok(unsafe { self.table.layout().value(words, column) });
        let keys = self.positions.iter().map(|&at| self.table.index_key(at, key, value_of));
        keys.map(|key| key.ok().map(|key| key[..].into())).collect()
    }

    fn note(&self, table: &TableCore, record: Record<'_>, word: u64, touches: &dyn Fn(usize) -> bool) {
        if table.records_identity() != self.table.records_identity()
            || !self.columns.iter().any(|&column| touches(column))
        {
            return;
        }
        let mut before = SmallVec::new();
        if word & ABSENT == 0 {
            let words = self.table.layout().held_row(record);
            // SAFETY: it is the row of a held record, which no thread changes, and the thread is pinned.
            before = unsafe { self.index_keys(record.key(), &words) };
        }
        self.push(Note { key: record.key().into(), before });
    }
}

impl Versions {
    /// Begins a watch: from here on every commit that enters its section notes what it changes.
    pub(crate) fn watch(&self, watch: &Arc<Watch>) {
        self.watches.write().push(watch.clone());
        self.renew_bound(&self.open.write());
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, watch: &Arc<Watch>) {
        self.watches.write().retain(|other| !Arc::ptr_eq(other, watch));
        self.renew_bound(&self.open.write());
    }

    /// Notes that a commit changes a record, if there is a watch of its table. The record is held, its word was `word`, and
    /// its row has not been changed yet. `touches`: whether the commit may change this column.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_change(
        &self,
        table: &TableCore,
        record: Record<'_>,
        word: u64,
        touches: &dyn Fn(usize) -> bool,
    ) {
        for watch in &*self.watches.read() {
            watch.note(table, record, word, touches);
        }
    }
}
