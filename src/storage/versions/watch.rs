//! Watches: while an index is built beside the transactions that write its table, their commits note what they change.
//!
//! # Invariants
//! A commit notes a row before it installs another one, inside its commit section. So when a thread has taken notes, and then
//! waited until no commit section was open, the rows that they are about have changed; so have those of a worker context's own notes
//! once it has left its section. Commits that enter their section once the watch has begun, and all sections of before were left, note
//! everything.
//!
//! # Concurrency
//! Commits look at [`Versions::bound`], which is above every word while there is a watch: without one they pay nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Versions;
use crate::storage::index_build::IndexBuild;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::word::ABSENT;

/// The key of a row's record in an index; `None` if it has none there.
pub(crate) type IndexKey = Option<Box<[u8]>>;

/// A row that a commit changes.
pub(crate) struct Note {
    /// Its primary key.
    pub(crate) key: Box<[u8]>,
    /// The keys of its records in the indexes that are built, before the change.
    pub(crate) before: SmallVec<[IndexKey; 1]>,
}

/// The number of the worker context whose commit makes a note; `None` for the end of a split phase.
pub(crate) type Writer = Option<usize>;

/// The notes that have not been taken.
#[derive(Default)]
struct Notes {
    of_writers: HashMap<Writer, Vec<Note>>,
    count: usize,
}

/// The notes about the commits that write a table.
pub(crate) struct Watch {
    /// The table under the definition that has the indexes.
    table: Arc<TableCore>,
    /// The positions of its indexes that are built.
    positions: Box<[usize]>,
    /// The columns of these indexes.
    columns: Box<[usize]>,
    notes: Mutex<Notes>,
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

    /// The positions of its indexes that are built.
    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// The number of notes that have not been taken.
    pub(crate) fn len(&self) -> usize {
        self.notes.lock().count
    }

    /// Takes all notes. They can be processed in any order.
    pub(crate) fn take_all(&self) -> Vec<Note> {
        let mut notes = self.notes.lock();
        notes.count = 0;
        notes.of_writers.values_mut().flat_map(std::mem::take).collect()
    }

    /// Takes a writer's newest notes, at most this many.
    pub(crate) fn take_of(&self, writer: Writer, at_most: usize) -> Vec<Note> {
        let mut notes = self.notes.lock();
        let Some(of_writer) = notes.of_writers.get_mut(&writer) else { return Vec::new() };
        let taken = of_writer.split_off(of_writer.len().saturating_sub(at_most));
        notes.count -= taken.len();
        taken
    }

    /// Adds notes of a writer.
    pub(crate) fn push(&self, writer: Writer, added: impl IntoIterator<Item = Note>) {
        let mut notes = self.notes.lock();
        let of_writer = notes.of_writers.entry(writer).or_default();
        let before = of_writer.len();
        of_writer.extend(added);
        let added = of_writer.len() - before;
        notes.count += added;
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

    /// Notes a change, if it is one of the table's that concerns the indexes. Returns true if it is.
    fn note(
        &self,
        writer: Writer,
        (table, record, word): (&TableCore, Record<'_>, u64),
        touches: &dyn Fn(usize) -> bool,
    ) -> bool {
        if table.records_identity() != self.table.records_identity()
            || !self.columns.iter().any(|&column| touches(column))
        {
            return false;
        }
        let mut before = SmallVec::new();
        if word & ABSENT == 0 {
            let words = self.table.layout().held_row(record);
            // SAFETY: it is the row of a held record, which no thread changes, and the thread is pinned.
            before = unsafe { self.index_keys(record.key(), &words) };
        }
        self.push(writer, [Note { key: record.key().into(), before }]);
        true
    }
}

impl Versions {
    /// Begins a watch: from here on every commit that enters its section notes what it changes.
    pub(crate) fn watch(&self, build: &Arc<IndexBuild>) {
        self.builds.write().push(build.clone());
        self.renew_bound(&self.open.write());
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, build: &Arc<IndexBuild>) {
        self.builds.write().retain(|other| !Arc::ptr_eq(other, build));
        self.renew_bound(&self.open.write());
    }

    /// Notes that a commit changes a record, if there is a watch of its table. The record is held, its word was `word`, and
    /// its row has not been changed yet. `touches`: whether the commit may change this column. Returns true if it was
    /// noted: then [`work_off_own`](Self::work_off_own) is due once the section is left.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_change(
        &self,
        writer: Writer,
        (table, record, word): (&TableCore, Record<'_>, u64),
        touches: &dyn Fn(usize) -> bool,
    ) -> bool {
        let note = |noted, build: &Arc<IndexBuild>| {
            noted | build.watch().note(writer, (table, record, word), touches)
        };
        self.builds.read().iter().fold(false, note)
    }

    /// Has the indexes that are being built catch up with what a worker context has noted, if too much is left to their builders. It
    /// has left its commit section.
    #[cold]
    #[inline(never)]
    pub(crate) fn work_off_own(&self, writer: usize, guard: &Guard) {
        // A builder that ends is not kept waiting.
        let builds = self.builds.read().clone();
        builds.iter().for_each(|build| build.work_off_own(writer, guard));
    }
}
