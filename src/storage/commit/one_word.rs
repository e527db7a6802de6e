//! The usual commit, in a straight line: one integer column of one record that is there.
//!
//! It does what [`commit_any`](super::commit_any) would do, in the same order, with the same stamps and the same redo.
//! Wherever anything is unusual (a rival has the record, it is absent or split, the operation cannot
//! be applied, what was read has changed, there is no room in the log) it leaves with nothing done, and the general way
//! finds out what is to be said or waited for.
//!
//! Gain, when it was introduced: more than a fifth of the instructions of such a transaction. `cargo bench --bench hot_path` counts what
//! one takes now (add, optimistic).

use super::simple_writes::{ChangedWord, changed_word, is_null};
use super::{Committing, LockedWrites, WriteLocking, append};
use crate::base::atomics::{Ordering, fence};
use crate::storage::record::Record;
use crate::storage::redo;
use crate::storage::word::{ABSENT, BUSY, PROTOCOL, Stamp};
use crate::storage::write_set::IntChange;

/// Commits, if it is the usual commit and nothing is in its way.
#[inline(always)]
pub(super) fn commit_one_word<T: WriteLocking>(
    locking: &T,
    call: &mut Committing<'_>,
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<Stamp> {
    let [touched] = call.workspace.writes.touched() else { return None };
    let change = call.workspace.writes.only_int_change(0)?;
    if call.alone {
        return None;
    }
    // SAFETY: the call is pinned, so the record that it touched is alive.
    let record = unsafe { touched.record.as_record() };
    let published = call.worker_context.published();
    call.store.epochs().enter(published);
    let mut is_noted = false;
    // Before the record is locked, as in `commit_any`.
    let is_current = call.store.epochs().generation() == call.generation;
    let locked = if is_current { lock_record::<T>(record) } else { None };
    if locked.is_none() && is_current {
        note_rival(locking, call, record);
    }
    let committed = locked.and_then(|word| {
        let committed = change_and_stamp(call, (record, word), change, validate);
        match committed {
            Some((change, stamp)) => is_noted = install(call, record, word, change, stamp),
            // Release: pairs with the thread that reads or locks the word next; nothing was written in between.
            None if !T::EXCLUDED => record.word().store(word, Ordering::Release),
            None => {}
        }
        committed.map(|(_, stamp)| stamp)
    });
    published.leave();
    if is_noted {
        call.store.versions().work_off_own(call.worker_context.number(), call.guard);
    }
    committed
}

/// Locks a record that is present, unlocked and in the quiescent state. Returns its word.
#[inline(always)]
fn lock_record<T: WriteLocking>(record: Record<'_>) -> Option<u64> {
    // Acquire pairs with the release of the last install, whose row is looked at next.
    let word = record.word().load(Ordering::Acquire);
    if word & (BUSY | ABSENT | PROTOCOL) != 0 {
        return None;
    }
    // The orderings: as in `lock_writes::try_to_lock`.
    let locked = T::EXCLUDED
        || record.word().compare_exchange(word, word | BUSY, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    locked.then_some(word)
}

/// Reports a rival that had the record and has left it. One that still has it is met, and reported, by the general way.
#[cold]
fn note_rival<T: WriteLocking>(locking: &T, call: &Committing<'_>, record: Record<'_>) {
    // Relaxed: a count that is off by one is as good.
    let word = record.word().load(Ordering::Relaxed);
    if !T::EXCLUDED && word & (BUSY | ABSENT | PROTOCOL) == 0 {
        locking.on_conflict_with_rival(&call.workspace.writes, 0);
    }
}

/// Computes the record's new word and the stamp, while the record is locked.
#[inline(always)]
fn change_and_stamp(
    call: &mut Committing<'_>,
    (record, word): (Record<'_>, u64),
    change: (usize, IntChange),
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<(ChangedWord, Stamp)> {
    let epochs = call.store.epochs();
    let table = call.workspace.writes.touched()[0].table();
    let (column, _) = change;
    let is_set = matches!(change, (_, IntChange::Set(_)));
    let change = changed_word(table, change, record)?;
    // What is installed here leaves NULL bits alone. An operation finds no NULL.
    if is_set && is_null(record.row(), column) {
        return None;
    }
    if call.store.is_logged() && !encode_redo(call, record, change) {
        return None;
    }
    let epoch = epochs.current();
    if !validate(&LockedWrites::One(record)) || !epochs.takes_commits_of(epoch) {
        return None;
    }
    if call.store.is_logged() && !has_room_for_redo(call, epoch) {
        return None;
    }
    let floor = call.seen.get().max(Stamp::of(word)).max(call.workspace.last_stamp);
    let stamp = Stamp::next(floor, epoch)?;
    epochs.count_in(epoch).then_some((change, stamp))
}

/// Returns true if the epoch's buffer takes the redo without more memory, which the system could refuse.
fn has_room_for_redo(call: &Committing<'_>, epoch: u64) -> bool {
    let buffer = &call.worker_context.redo(epoch).bytes;
    buffer.capacity() - buffer.len() >= call.workspace.redo.len()
}

/// Encodes the redo. Returns true if there is room for it.
fn encode_redo(call: &mut Committing<'_>, record: Record<'_>, change: ChangedWord) -> bool {
    let workspace = &mut *call.workspace;
    workspace.redo.clear();
    let start = redo::begin(&mut workspace.redo);
    let touched = &workspace.writes.touched()[0];
    if !touched.table().is_internal() {
        let number = [(change.column(), change.new as i64)];
        redo::append_numbers(&mut workspace.redo, touched.table(), record.key(), number.into_iter());
    }
    redo::finish(&mut workspace.redo, start);
    workspace.redo.len() <= workspace.log_credit
}

/// Appends the redo and installs. Nothing here can fail. Returns true if an index that is being built must catch up
/// with it.
#[inline(always)]
fn install(
    call: &mut Committing<'_>,
    record: Record<'_>,
    word: u64,
    change: ChangedWord,
    stamp: Stamp,
) -> bool {
    if call.store.is_logged() {
        append(call.worker_context, call.workspace, stamp);
    }
    call.workspace.last_stamp = stamp;
    call.worker_context.row_changes.count(call.workspace.writes.touched()[0].table().id());
    let versions = call.store.versions();
    let mut is_noted = false;
    if word < versions.bound() {
        // Before the row changes: as in `install::install`.
        let table = call.workspace.writes.touched()[0].table();
        let writer = Some(call.worker_context.number());
        is_noted = versions.note_change(writer, (table, record, word), &|column| column == change.column());
        versions.preserve(table, record, word, stamp, call.guard);
    }
    // Where rivals are excluded it is not busy yet. Relaxed, and the fence: as in `install::make_busy`.
    record.word().store(word | BUSY, Ordering::Relaxed);
    fence(Ordering::Release);
    record.row()[change.at()].store(change.new, Ordering::Relaxed);
    // Release pairs with the acquire of every reader of the word: a thread that sees the stamp sees the row.
    record.word().store(stamp.present(), Ordering::Release);
    is_noted
}
