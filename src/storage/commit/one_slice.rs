//! The usual commit of a split phase, in a straight line: one operation on one integer column that is split for it.
//!
//! It does what [`commit_any`](super::commit_any) would do, in the same order. Wherever anything is
//! unusual (the operation does not fit into the slice, another one is wanted, what was read has changed, there is no room
//! in the log) it leaves with nothing done, and the general way finds out what is to be said or waited for.
//!
//! Gain, in instructions of one transaction by `cargo bench --bench hot_path`, in memory, without it and with it: add to a
//! split column 2,161 and 1,561.

use super::{Committing, LockedWrites};
use crate::base::atomics::Ordering;
use crate::storage::record::Record;
use crate::storage::word::{ABSENT, DEAD, SPLIT, Stamp};
use crate::storage::write_set::IntChange;
use crate::types::ValueRef;

/// Commits, if it is the usual commit of a split phase and nothing is in its way.
#[inline(always)]
pub(super) fn commit_one_slice(
    call: &mut Committing<'_>,
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<Stamp> {
    let [touched] = call.workspace.writes.touched() else { return None };
    // SAFETY: the call is pinned, so the record that it touched is alive.
    let record = unsafe { touched.record.as_record() };
    // Relaxed: it is looked at again in the commit section.
    if call.alone || record.word().load(Ordering::Relaxed) & SPLIT == 0 {
        return None;
    }
    let published = call.worker_context.published();
    call.store.epochs().enter(published);
    let committed = change_slice(call, record, validate);
    published.leave();
    committed
}

#[inline(always)]
fn change_slice(
    call: &mut Committing<'_>,
    record: Record<'_>,
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<Stamp> {
    // Acquire, as in `lock_writes::stage`. Whether the record is split stands still in the commit section.
    let word = record.word().load(Ordering::Acquire);
    if word & (SPLIT | ABSENT) != SPLIT || word == DEAD {
        return None;
    }
    let (column, IntChange::Operate(operation, operand)) = call.workspace.writes.only_int_change(0)? else {
        return None;
    };
    let set = call.store.splits().current(call.guard)?;
    let (first, columns) = set.of_record(record.pointer());
    let at = columns.iter().position(|split| split.column == column && split.operation == operation)?;
    let number = first + at;
    let slices = call.worker_context.slices();
    // SAFETY: the worker context is in its commit section, and this is the only reference.
    let totals = unsafe { slices.enter(set) };
    let before = totals.take_int(set, number, operand)?;
    let stamp = stamp(call, number, operand, word, validate);
    match stamp {
        None => totals.put_back_int(number, before),
        Some((stamp, charged)) => {
            totals.keep(stamp);
            slices.count_write(number);
            if let Some(charged) = charged {
                call.workspace.log_credit -= charged;
                // SAFETY: the worker context is in its commit section, and has stamped with this stamp.
                unsafe {
                    slices.log(set, number, ValueRef::Int(operand), stamp);
                    slices.count(charged, stamp);
                }
            }
            call.workspace.last_stamp = stamp;
        }
    }
    stamp.map(|(stamp, _)| stamp)
}

/// The stamp, and the room in the log that is charged, if anything is logged.
#[inline(always)]
fn stamp(
    call: &Committing<'_>,
    number: usize,
    operand: i64,
    word: u64,
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<(Stamp, Option<usize>)> {
    let epochs = call.store.epochs();
    let epoch = epochs.current();
    let is_current = epochs.generation() == call.workspace.generation;
    if !validate(&LockedWrites::Nothing) || !is_current || !epochs.takes_commits_of(epoch) {
        return None;
    }
    let mut charged = None;
    if call.store.is_logged() {
        let set = call.store.splits().current(call.guard)?;
        // SAFETY: the worker context is in its commit section, and stamps with this epoch.
        let bytes =
            unsafe { call.worker_context.slices().charge(set, number, ValueRef::Int(operand), epoch) };
        if bytes > call.workspace.log_credit {
            return None;
        }
        charged = Some(bytes);
    }
    let floor = call.seen.get().max(Stamp::of(word)).max(call.workspace.last_stamp);
    let stamp = Stamp::next(floor, epoch)?;
    epochs.count_in(epoch).then_some((stamp, charged))
}
