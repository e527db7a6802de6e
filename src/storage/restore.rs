//! Puts logged changes back into tables, and derives secondary indexes: for recovery, which is alone.
//!
//! Invariants: a change is applied only if its stamp is above its record's word, so that replaying twice does
//! nothing more than replaying once. What split columns add to this, `group_replay` says; what a checkpoint does that was
//! made beside the commits which are replayed on it, `overlap` says.

use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use smallvec::SmallVec;

use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::storage::record::Record;
use crate::storage::redo::{ChangeHead, LoggedChange, Reader};
use crate::storage::row::free_block;
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};
use crate::storage::word::{ABSENT, Stamp};
use crate::types::ValueRef;
use crate::types::memory::Refused;

mod group_replay;
pub(crate) use group_replay::{apply_share, operate};
mod bulk_load;
pub(crate) use bulk_load::{Loaded, Loader};
mod overlap;
pub(crate) use overlap::Overlap;
mod scatter;
use scatter::Step;
pub(crate) use scatter::{Scattered, scatter};

/// Prefetch distances: how many steps ahead the index line is fetched, and how many the record.
const FAR: usize = 8;
const NEAR: usize = 4;

/// The state of a replay.
pub(crate) struct Tools {
    /// Memory for one change at a time.
    pub(crate) arena: Bump,
    /// The source of memory for records.
    pub(crate) cutter: Cutter,
    /// The facts about the checkpoint that the log is applied to.
    pub(crate) overlap: Overlap,
    /// Tables met: to ask the store for one means to meet all others that ask.
    tables: Vec<Arc<TableCore>>,
}

impl Tools {
    /// Tools for the log behind a checkpoint; by default there is none.
    pub(crate) fn new(overlap: Overlap) -> Tools {
        Tools { arena: Bump::new(), cutter: Cutter::default(), overlap, tables: Vec::new() }
    }

    /// See [`Overlap::begin_epoch`].
    ///
    /// # Errors
    /// Same errors as [`Overlap::begin_epoch`].
    pub(crate) fn begin_epoch(&mut self, epoch: Option<u64>) -> Result<()> {
        let Tools { overlap, tables, .. } = self;
        overlap.begin_epoch(epoch, |id| tables.iter().any(|table| table.id() == id && table.is_gone()))
    }

    /// Has fetched what later steps will need: the line of the index in which the record of one far ahead will be
    /// looked for, and the record of one nearer.
    fn look_ahead(&self, steps: &[Step], payload: &[u8], guard: &Guard) {
        let table_of = |step: &Step| self.tables.iter().find(|table| table.id() == step.table);
        if let Some(step) = steps.get(FAR)
            && let Some(table) = table_of(step)
        {
            table.prefetch(step.hash, guard);
        }
        if let Some(step) = steps.get(NEAR)
            && let Some(table) = table_of(step)
            && let Some(record) = table.find_ahead(step.hash, &payload[step.key.clone()], guard)
        {
            table.prefetch_record(record);
        }
    }

    /// Works on a table, whose definition is of this version of its rows or a later one.
    fn on_table<T>(
        &mut self,
        store: &Store,
        (id, version): (TableId, u64),
        work: impl FnOnce(&mut Tools, &TableCore) -> Result<T>,
    ) -> Result<T> {
        let known = self.tables.iter().position(|table| table.id() == id);
        let table = match known.map(|position| self.tables.swap_remove(position)) {
            Some(table) if table.row_version() >= version => table,
            _ => table_of(store, (id, version))?,
        };
        let result = work(self, &table);
        self.tables.push(table);
        result
    }
}

/// A table of which the log has a change. One that was dropped while a checkpoint was made may be missing: the checkpoint has
/// none of its records, and its row in the catalog, which the drop has changed, looks like one that the log will bring. But
/// the transaction that made the table would have been replayed before; so it is older, and the catalog has all rows.
///
/// A change of a later version than the table's comes behind the one which has added columns, and whose rows in the catalog
/// were replayed before, because changes of the catalog are replayed before any that follow them are passed on.
fn table_of(store: &Store, (id, version): (u32, u64)) -> Result<Arc<TableCore>> {
    if let Some(table) = store.table(id) {
        return match table.row_version() >= version {
            true => Ok(table),
            false => store.extend_table_of_catalog(&table, version, &crossbeam_epoch::pin()),
        };
    }
    let unnamed = || malformed(format!("a change of table {id}, which no catalog row names"));
    store.add_table_of_catalog(id, &crossbeam_epoch::pin()).map_err(|_| unnamed())?;
    store.table(id).ok_or_else(unnamed)
}

fn malformed(detail: String) -> Error {
    Error::Malformed { what: "redo of this database", detail }
}

#[cold]
fn other_key(table: &TableCore) -> Error {
    malformed(format!("a row of {:?} under another row's key", table.definition().name()))
}

fn apply_change(
    table: &TableCore,
    (stamp, hash): (Stamp, u64),
    head: &ChangeHead<'_>,
    reader: &mut Reader<'_>,
    tools: &mut Tools,
    guard: &Guard,
) -> Result<()> {
    let Tools { arena, cutter, overlap, .. } = tools;
    let record = table.find_or_place(hash, head.key, cutter, guard).record;
    let image = arena.alloc_slice_fill_copy(table.layout().words(), 0);
    let word = record.read(table.layout(), image);
    if Stamp::of(word) >= stamp {
        // What was logged as an operation makes no sense on a later row, or on none.
        return reader.skip(head.change, table);
    }
    if head.change == LoggedChange::Columns && word & ABSENT != 0 {
        // Some columns of a row that is not there make no row.
        overlap.note_missing(table, head.key, stamp.epoch())?;
        return reader.skip(head.change, table);
    }
    overlap.note_settled(table, head.key);
    reader.apply(head.change, table, image, arena)?;
    if head.change == LoggedChange::Gone {
        // Relaxed throughout: recovery is alone.
        record.word().store(stamp.absent(), Ordering::Relaxed);
    } else {
        install(table, record, stamp, image)?;
    }
    Ok(())
}

fn install(table: &TableCore, record: Record<'_>, stamp: Stamp, image: &mut [u64]) -> Result<()> {
    install_row(table, record, image)?;
    record.word().store(stamp.present(), Ordering::Relaxed);
    Ok(())
}

/// Installs a row under the word that the record has.
///
/// # Errors
/// It is a row of another key.
fn install_row(table: &TableCore, record: Record<'_>, image: &mut [u64]) -> Result<()> {
    let layout = table.layout();
    if !layout.fits_key(image, record.key()) {
        return Err(other_key(table));
    }
    if layout.is_short(record) {
        let room = layout.make_room(record, image, table.slabs().budget(), &crossbeam_epoch::pin());
        // As below.
        room.unwrap_or_else(|refused| refused.abort());
    } else if !layout.has_blocks() {
        for (new, row) in image.iter().zip(record.row()) {
            // A key is read without atomics, so that it is not stored again.
            if row.load(Ordering::Relaxed) != *new {
                row.store(*new, Ordering::Relaxed);
            }
        }
        return Ok(());
    }
    let installed = layout.held_row(record);
    let mut made: SmallVec<[u64; 4]> = SmallVec::new();
    // SAFETY: the image's blocks are in the arena or belong to the installed row, which no thread frees meanwhile.
    let moved = unsafe { layout.move_blocks_to_heap(image, &installed, &mut made) };
    // Recovery without the memory for its rows cannot go on, and nothing depends on how it ends.
    moved.unwrap_or_else(|refused| refused.abort());
    let mut change = 0;
    for (at, new) in image.iter().enumerate() {
        let Some(row) = layout.word_of_short(record, at) else { break };
        if installed[at] != *new {
            row.store(*new, Ordering::Relaxed);
            // SAFETY: the new row's blocks are its own, the old one's are freed below.
            change += unsafe { layout.change_of_blocks(at, installed[at], *new) };
            if layout.is_block_at(at, installed[at]) {
                // SAFETY: it was this row's alone, and recovery is alone.
                unsafe { free_block(installed[at]) };
            }
        }
    }
    if layout.is_short(record) {
        layout.store_bits_of_short(record, image);
    }
    table.slabs().budget().note_blocks(change, record.pointer().to_bits() as usize);
    Ok(())
}

/// Fills a table's secondary indexes from its rows.
///
/// # Errors
/// Two rows share the values of a unique index.
pub(crate) fn derive_indexes(table: &TableCore, cutter: &mut Cutter, guard: &Guard) -> Result<()> {
    if table.secondary().is_empty() {
        return Ok(());
    }
    let mut result = Ok(());
    let mut arena = Bump::new();
    let mut words = vec![0; table.layout().words()];
    table.for_each_record(guard, |record| {
        if result.is_err() {
            return;
        }
        arena.reset();
        let word = record.read(table.layout(), &mut words);
        if word & ABSENT == 0 {
            result = derive_index_records(table, (record, Stamp::of(word), &words), &arena, cutter, guard);
        }
    });
    result
}

/// Puts a row's records into the indexes at these positions.
///
/// # Errors
/// Two rows share the values of a unique index.
pub(crate) fn derive_index_records(
    table: &TableCore,
    (record, stamp, words): (Record<'_>, Stamp, &[u64]),
    arena: &Bump,
    cutter: &mut Cutter,
    guard: &Guard,
) -> Result<()> {
    for (position, secondary) in table.secondary().iter().enumerate() {
        // SAFETY: the row was just read, and the thread is pinned.
        let value_of = |column: usize| Ok(unsafe { table.layout().value(words, column) });
        let key = table.index_key(position, record.key(), value_of)?;
        if !put_index_record(&secondary.table, &key, (record.key(), stamp), arena, cutter, guard)? {
            let detail =
                format!("two rows share a value of the unique index {:?}", secondary.definition.name);
            return Err(Error::Inconsistent { detail });
        }
    }
    Ok(())
}

/// Puts a row's record into an index that no other thread uses: the row's primary key, and its stamp. Returns true if the place
/// was free, or the row's own.
///
/// # Errors
/// No memory.
pub(crate) fn put_index_record(
    index: &TableCore,
    index_key: &[u8],
    (key, stamp): (&[u8], Stamp),
    arena: &Bump,
    cutter: &mut Cutter,
    guard: &Guard,
) -> Result<bool> {
    let entry = index.find_or_place(index.hash(index_key), index_key, cutter, guard).record;
    let mut before: SmallVec<[u64; 8]> = SmallVec::from_elem(0, index.layout().words());
    if entry.read(index.layout(), &mut before) & ABSENT == 0 {
        // SAFETY: the row was just read, and the thread is pinned.
        let owner = unsafe { index.layout().value(&before, 0) };
        return Ok(matches!(owner, ValueRef::Bytes(owner) if owner == key));
    }
    let image = arena.alloc_slice_fill_copy(index.layout().words(), 0);
    index.layout().put(image, 0, ValueRef::Bytes(key), arena).map_err(Refused::error)?;
    install(index, entry, stamp, image)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
