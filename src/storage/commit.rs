//! The commit section: where a call's effects happen, the same for every protocol.
//!
//! In order: work out every row that will be installed and encode the redo; enter (publish the epoch); take what
//! will be written; stamp, with the global epoch read while all of it is held; validate what was read; append the
//! redo to log space that was reserved before; install each row and its new word; leave.
//!
//! What it keeps true: no user code and no wait for disk runs between entering and leaving; nothing that can fail
//! runs after the stamp; and a record's word is busy while its row is not whole. So no reader of any kind sees
//! uncommitted data, and what a commit logs is what it installs.
//!
//! Present records are taken by a plain store here, because the protocol excludes rival writers already (see
//! `docs/decisions` for how protocols that do not will take them: by compare-and-swap, in one global order). Absent
//! ones are taken by compare-and-swap under every protocol, because the collector of absent records
//! ([`crate::storage::reclaim`]) is excluded by none.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use crossbeam_epoch::Guard;

use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::error::Error;
use crate::storage::participant::Participant;
use crate::storage::reclaim::retire_block;
use crate::storage::record::Record;
use crate::storage::redo;
use crate::storage::row::free_block;
use crate::storage::store::Store;
use crate::storage::word::{ABSENT, BUSY, DEAD, Stamp};
use crate::storage::workspace::{Deleted, Workspace};
use crate::storage::write_set::{Effect, WriteSet};

/// The most bytes that one transaction's redo may take: its length has 32 bits in the log.
const MAXIMAL_REDO_BYTES: usize = 2 << 30;

/// Why nothing was committed. Nothing was changed either.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// Something that was read, or is to be written, is not what it was: run again.
    Conflict,
    /// The epoch takes no more commits (it has no sequence numbers left, or as many transactions as it may): run again
    /// in the next one.
    EpochFull,
    /// The redo needs so many bytes of log space, more than are reserved: reserve them and run again.
    NeedsLogSpace(usize),
    /// The writes cannot be applied; the call fails with this.
    Refused(Error),
}

/// One record on its way to its new row.
struct Pending<'a> {
    record: Record<'a>,
    position: usize,
    effect: Effect,
    /// The word that the record had before.
    word: u64,
    /// Whether a value of the image may lie in a block of the arena.
    has_blocks: bool,
    /// The whole new row; empty where only one word changes.
    image: &'a mut [u64],
    /// The one word that changes, if it is only one.
    one_word: Option<WordChange>,
}

/// Commits the buffered writes. The caller holds what excludes rival writers of everything that is written.
///
/// `seen` is the highest stamp that the call has met; `validate` says whether what it has read still holds.
///
/// # Errors
/// See [`CommitFailure`].
pub(crate) fn commit(
    store: &Store,
    participant: &Participant,
    workspace: &mut Workspace,
    arena: &Bump,
    seen: Stamp,
    guard: &Guard,
    validate: impl FnOnce() -> bool,
) -> Result<Stamp, CommitFailure> {
    let Workspace { writes, redo, last_stamp, log_credit, deleted, .. } = workspace;
    redo.clear();
    let mut made = ArenaVec::new_in(arena);
    let mut pending = ArenaVec::with_capacity_in(writes.touched().len(), arena);
    let committed = prepare(writes, arena, redo, store.is_logged(), &mut pending).and_then(|highest| {
        if store.is_logged() && redo.len() > *log_credit {
            return Err(CommitFailure::NeedsLogSpace(redo.len()));
        }
        for entry in pending.iter_mut().filter(|entry| entry.has_blocks) {
            move_blocks(writes, entry, &mut made);
        }
        store.epochs().enter(participant.published());
        let floor = seen.max(highest).max(*last_stamp);
        let stamp = if store.epochs().is_closed() {
            Err(CommitFailure::Refused(Error::Closed))
        } else {
            take_and_stamp(store, &mut pending, floor, validate)
        };
        if let Ok(stamp) = stamp {
            if store.is_logged() {
                append(participant, redo, stamp);
                *log_credit -= redo.len();
            }
            *last_stamp = stamp;
            for entry in &pending {
                install(writes, entry, stamp, deleted, guard);
            }
        }
        participant.published().leave();
        stamp
    });
    if committed.is_err() {
        for block in made {
            // SAFETY: made for this commit, which did not happen.
            unsafe { free_block(block) };
        }
    }
    committed
}

/// Works out what each touched record becomes, and encodes the redo. Gives back the highest stamp overwritten.
fn prepare<'a>(
    writes: &WriteSet,
    arena: &'a Bump,
    redo: &mut Vec<u8>,
    logged: bool,
    pending: &mut ArenaVec<'a, Pending<'a>>,
) -> Result<Stamp, CommitFailure> {
    let mut highest = Stamp::ZERO;
    let start = redo::begin(redo);
    for (position, touched) in writes.touched().iter().enumerate() {
        // SAFETY: the call is pinned, so every record that it touched is alive.
        let record: Record<'a> = unsafe { touched.record.as_record() };
        // Acquire pairs with the release of the last install, whose row is copied next.
        let word = record.word().load(Ordering::Acquire);
        if word == DEAD {
            return Err(CommitFailure::Conflict);
        }
        let redo = (logged && !touched.table().is_internal()).then_some(&mut *redo);
        let entry = match prepare_word(writes, position, record, word) {
            Some(entry) => Some(entry),
            None => prepare_row(writes, position, record, word, arena),
        };
        let Some(entry) = entry.transpose().map_err(CommitFailure::Refused)? else { continue };
        highest = highest.max(Stamp::of(word));
        if let Some(redo) = redo {
            append_redo(writes, &entry, redo);
        }
        pending.push(entry);
    }
    if redo.len() > MAXIMAL_REDO_BYTES {
        // Values that an operation leaves as they are may be far longer than its operand.
        let what = "one transaction's redo".to_string();
        let too_large = Error::RowTooLarge { what, bytes: redo.len(), maximum: MAXIMAL_REDO_BYTES };
        return Err(CommitFailure::Refused(too_large));
    }
    redo::finish(redo, start);
    Ok(highest)
}

/// Works out a record's whole new row; none: there is nothing to install.
fn prepare_row<'a>(
    writes: &WriteSet,
    position: usize,
    record: Record<'a>,
    word: u64,
    arena: &'a Bump,
) -> Option<crate::Result<Pending<'a>>> {
    let layout = writes.touched()[position].table().layout();
    let present = word & ABSENT == 0;
    let image = arena.alloc_slice_fill_copy(layout.words(), 0);
    if present {
        copy_row(record, image);
    }
    let effect = match writes.apply(position, layout, image, present, arena) {
        Ok(Effect::Gone) if !present => return None,
        Ok(effect) => effect,
        Err(error) => return Some(Err(error)),
    };
    let has_blocks = match effect {
        Effect::Row => layout.has_blocks(),
        Effect::Changed => layout.has_blocks() && writes.changes_variable_column(position),
        Effect::Gone => false,
    };
    if has_blocks {
        // SAFETY: the image's blocks are in the arena or belong to the installed row.
        if let Err(error) = unsafe { layout.check_image(image) } {
            return Some(Err(error));
        }
    }
    Some(Ok(Pending { record, position, effect, word, has_blocks, image, one_word: None }))
}

fn append_redo(writes: &WriteSet, entry: &Pending<'_>, redo: &mut Vec<u8>) {
    match &entry.one_word {
        Some(change) => {
            let touched = &writes.touched()[entry.position];
            redo::append_int_change(redo, touched, entry.record.key(), change.column, change.new as i64);
        }
        // SAFETY: the image's blocks are in the arena or belong to the installed row.
        None => unsafe { redo::append_change(redo, writes, entry.position, entry.effect, entry.image) },
    }
}

/// A change of one integer column: the column, its word in the row, and what the word becomes.
struct WordChange {
    column: usize,
    at: usize,
    new: u64,
}

/// The usual write, an operation on an integer, without a copy of the row; none: it is another kind of write.
#[inline]
fn prepare_word<'a>(
    writes: &WriteSet,
    position: usize,
    record: Record<'a>,
    word: u64,
) -> Option<crate::Result<Pending<'a>>> {
    let layout = writes.touched()[position].table().layout();
    let (column, operation, operand) = writes.only_int_operation(position)?;
    let definition = layout.column(column);
    let (words, null_word) = layout.words_of(column);
    // Relaxed: as in `copy_row`.
    let row = |at: usize| record.row()[at].load(Ordering::Relaxed);
    if word & ABSENT != 0 || !definition.is_int() || row(null_word) >> (column % 64) & 1 == 1 {
        return None;
    }
    let (at, effect) = (words.start, Effect::Changed);
    Some(match operation.apply_int(row(at) as i64, operand, &definition.data_type) {
        Ok(new) => {
            let one_word = Some(WordChange { column, at, new: new as u64 });
            Ok(Pending { record, position, effect, word, has_blocks: false, image: &mut [], one_word })
        }
        Err(error) => Err(error.in_column(&definition.name)),
    })
}

/// The row as it stands. Relaxed: rival writers are excluded, and their rows were acquired with the word.
fn copy_row(record: Record<'_>, image: &mut [u64]) {
    for (copy, word) in image.iter_mut().zip(record.row()) {
        *copy = word.load(Ordering::Relaxed);
    }
}

fn move_blocks(writes: &WriteSet, entry: &mut Pending<'_>, made: &mut ArenaVec<'_, u64>) {
    let layout = writes.touched()[entry.position].table().layout();
    let mut installed = smallvec::SmallVec::<[u64; 32]>::from_elem(0, layout.words());
    copy_row(entry.record, &mut installed);
    // SAFETY: the image's blocks are in the call's arena; the installed row's are its own.
    unsafe { layout.move_blocks_to_heap(entry.image, &installed, made) };
}

fn take_and_stamp(
    store: &Store,
    pending: &mut [Pending<'_>],
    floor: Stamp,
    validate: impl FnOnce() -> bool,
) -> Result<Stamp, CommitFailure> {
    for taken in 0..pending.len() {
        let entry = &pending[taken];
        if entry.word & ABSENT != 0 && !take_absent(entry.record.word(), entry.word) {
            give_back(&pending[..taken]);
            return Err(CommitFailure::Conflict);
        }
    }
    let epoch = store.epochs().current();
    let stamp = match Stamp::next(floor, epoch) {
        None => Err(CommitFailure::EpochFull),
        Some(_) if !validate() => Err(CommitFailure::Conflict),
        Some(_) if !store.epochs().count_in(epoch) => Err(CommitFailure::EpochFull),
        Some(stamp) => Ok(stamp),
    };
    if stamp.is_err() {
        give_back(pending);
    }
    stamp
}

fn take_absent(word: &AtomicU64, observed: u64) -> bool {
    // Acquire: what is done with the row comes after. The rival is `reclaim::take_out`.
    word.compare_exchange(observed, observed | BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

fn give_back(taken: &[Pending<'_>]) {
    for entry in taken.iter().filter(|entry| entry.word & ABSENT != 0) {
        // Release: pairs with who reads or takes the word next; nothing was written in between.
        entry.record.word().store(entry.word, Ordering::Release);
    }
}

fn append(participant: &Participant, redo: &mut [u8], stamp: Stamp) {
    redo::set_stamp(redo, 0, stamp);
    let mut buffer = participant.redo(stamp.epoch());
    buffer.bytes.extend_from_slice(redo);
    buffer.transactions += 1;
}

fn install(writes: &WriteSet, entry: &Pending<'_>, stamp: Stamp, deleted: &mut Vec<Deleted>, guard: &Guard) {
    let word = entry.record.word();
    let table = writes.touched()[entry.position].table();
    if entry.effect == Effect::Gone {
        // Release: who sees the row gone sees what led to it.
        word.store(stamp.absent(), Ordering::Release);
        let key = entry.record.key().into();
        deleted.push(Deleted { table: std::ptr::from_ref(table), key, word: stamp.absent() });
        return;
    }
    word.store(entry.word | BUSY, Ordering::Relaxed);
    // Release fence: whoever reads a word of the new row (relaxed) and then fences (acquire, in `Record::read`) sees
    // the busy word, and does not believe the row.
    fence(Ordering::Release);
    if let Some(change) = &entry.one_word {
        entry.record.row()[change.at].store(change.new, Ordering::Relaxed);
    }
    let layout = table.layout();
    for (at, (new, row)) in entry.image.iter().zip(entry.record.row()).enumerate() {
        let old = row.load(Ordering::Relaxed);
        if old != *new {
            row.store(*new, Ordering::Relaxed);
            if layout.has_blocks() && layout.is_block_at(at, old) {
                retire_block(old, guard);
            }
        }
    }
    // Release pairs with the acquire of every reader of the word: who sees the stamp sees the row.
    word.store(stamp.present(), Ordering::Release);
}

#[cfg(test)]
mod tests;
