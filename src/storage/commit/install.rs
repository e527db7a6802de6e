//! Installing: the row, and then the word with its commit's stamp.
//!
//! Readers take no lock, so an install must never show half of a row. It marks the word as busy before the first word
//! of the row changes, and stores the stamp, which clears the mark, after the last one. A reader copies the row between
//! two reads of the word, and believes the copy only if both show one stamp and no install.
//!
//! Invariants: the record is locked, or all other writers are excluded; nothing here can fail, because the memory for
//! rows was reserved with the after-images.

use crossbeam_epoch::Guard;

use super::simple_writes::ChangedWord;
use super::{Change, Pending, WriteLocking};
use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::storage::reclaim::retire_block;
use crate::storage::record::Record;
use crate::storage::row::block_bytes;
use crate::storage::table::TableCore;
use crate::storage::versions::Versions;
use crate::storage::word::{BUSY, PLACEHOLDER, SPLIT, Stamp};
use crate::storage::workspace::Deleted;

/// Installs what was computed for one record. Nothing here can fail.
#[inline]
pub(super) fn install<T: WriteLocking>(
    table: &TableCore,
    entry: &Pending<'_>,
    stamp: Stamp,
    deleted: &mut Vec<Deleted>,
    guard: &Guard,
) {
    let word = entry.record.word();
    // A record whose other columns change stays split.
    let present = if T::SPLITS { stamp.present() | entry.word & SPLIT } else { stamp.present() };
    match &entry.change {
        Change::Nothing => {
            if entry.locked {
                // Release: pairs with the thread that reads or locks the word next; nothing was written in between.
                word.store(entry.word, Ordering::Release);
            }
        }
        Change::Gone => {
            // Release: a thread that sees the row gone sees what led to it.
            word.store(stamp.absent(), Ordering::Release);
            let key = entry.record.key().into();
            deleted.push(Deleted { table: std::ptr::from_ref(table), key, word: stamp.absent() });
        }
        Change::Word(changed) => install_words(entry, std::slice::from_ref(changed), present),
        Change::Words(changed) => install_words(entry, changed, present),
        Change::Image { image, .. } => {
            make_busy(entry);
            if entry.word == PLACEHOLDER {
                install_first_row(table, entry.record, image, guard);
            } else {
                install_row(table, entry.record, image, guard);
            }
            // Release: as in `install_words`.
            word.store(present, Ordering::Release);
        }
    }
}

/// Writes the words of a row that change, and then the record's own.
#[inline(always)]
fn install_words(entry: &Pending<'_>, changed: &[ChangedWord], present: u64) {
    make_busy(entry);
    let row = entry.record.row();
    for change in changed {
        row[change.at()].store(change.new, Ordering::Relaxed);
        set_not_null(row, change.column());
    }
    // Release pairs with the acquire of every reader of the word: a thread that sees the stamp sees the row.
    entry.record.word().store(present, Ordering::Release);
}

/// Keeps the row that the install will change, if an open snapshot may need it, and notes the change, if the table is watched: before
/// the row changes, and before its word does where the row is deleted (see `Versions::read`). Returns true if it was noted.
#[cold]
#[inline(never)]
pub(super) fn preserve(
    (versions, writer): (&Versions, usize),
    table: &TableCore,
    entry: &Pending<'_>,
    stamp: Stamp,
    guard: &Guard,
) -> bool {
    if matches!(entry.change, Change::Nothing) {
        return false;
    }
    let touches = |column| match &entry.change {
        Change::Word(_) | Change::Words(_) => {
            entry.change.words().iter().any(|change| change.column() == column)
        }
        _ => true,
    };
    let noted = versions.note_change(Some(writer), (table, entry.record, entry.word), &touches);
    versions.preserve(table, entry.record, entry.word, stamp, guard);
    noted
}

/// Takes a column's NULL bit away, if it is set. The record is held, and busy.
#[inline]
fn set_not_null(row: &[AtomicU64], column: usize) {
    let (nulls, bit) = (&row[column / 64], 1 << (column % 64));
    // Relaxed, twice: as of the other words of a held row.
    let before = nulls.load(Ordering::Relaxed);
    if before & bit != 0 {
        nulls.store(before & !bit, Ordering::Relaxed);
    }
}

/// Says that the row must not be believed, where locking the record has not said so already.
fn make_busy(entry: &Pending<'_>) {
    if !entry.locked {
        entry.record.word().store(entry.word | BUSY, Ordering::Relaxed);
    }
    // Release fence: a thread that reads a word of the new row (relaxed) and then fences (acquire, in `Record::read`) sees
    // the busy word, and does not believe the row.
    fence(Ordering::Release);
}

/// Writes the words of a record's first row: it is held, marked as busy, and its words are still zero, but for its key's, which are
/// there.
fn install_first_row(table: &TableCore, record: Record<'_>, image: &[u64], guard: &Guard) {
    let row = record.row();
    if row.len() != image.len() {
        return install_short(table, record, image, guard);
    }
    for (new, row) in image.iter().zip(row) {
        // Relaxed, twice: the record is held. A key is read without atomics, so that it is not stored again.
        if row.load(Ordering::Relaxed) != *new {
            row.store(*new, Ordering::Relaxed);
        }
    }
    let (layout, budget) = (table.layout(), table.slabs().budget());
    if layout.has_blocks() && budget.counts_blocks() {
        // SAFETY: the blocks are the row's own.
        let bytes = layout.blocks(image).map(|block| unsafe { block_bytes(block) as i64 }).sum();
        budget.note_blocks(bytes, record.pointer().to_bits() as usize);
    }
}

/// Writes the words of a row that is held, and marked as busy; blocks that it had and has no more are retired.
pub(in super::super) fn install_row(table: &TableCore, record: Record<'_>, image: &[u64], guard: &Guard) {
    let row = record.row();
    if row.len() != image.len() {
        return install_short(table, record, image, guard);
    }
    let (layout, budget) = (table.layout(), table.slabs().budget());
    let is_counted = layout.has_blocks() && budget.counts_blocks();
    let mut change = 0;
    for (at, (new, row)) in image.iter().zip(row).enumerate() {
        // Relaxed: the record is held.
        let old = row.load(Ordering::Relaxed);
        if old != *new {
            row.store(*new, Ordering::Relaxed);
            if is_counted {
                // SAFETY: the new row's blocks are its own, the old one's are retired below.
                change += unsafe { layout.change_of_blocks(at, old, *new) };
            }
            if layout.has_blocks() && layout.is_block_at(at, old) {
                retire_block(old, guard);
            }
        }
    }
    budget.note_blocks(change, record.pointer().to_bits() as usize);
}

/// Same as `install_row`, for a record that is older than columns of the table: the commit has made room for what it
/// lacks.
#[cold]
#[inline(never)]
fn install_short(table: &TableCore, record: Record<'_>, image: &[u64], guard: &Guard) {
    let (layout, budget) = (table.layout(), table.slabs().budget());
    let mut change = 0;
    for (at, new) in image.iter().enumerate() {
        let Some(word) = layout.word_of_short(record, at) else { break };
        // Relaxed: the record is held.
        let old = word.load(Ordering::Relaxed);
        if old != *new {
            word.store(*new, Ordering::Relaxed);
            // SAFETY: the new row's blocks are its own, the old one's are retired below.
            change += unsafe { layout.change_of_blocks(at, old, *new) };
            if layout.is_block_at(at, old) {
                retire_block(old, guard);
            }
        }
    }
    layout.store_bits_of_short(record, image);
    budget.note_blocks(change, record.pointer().to_bits() as usize);
}
