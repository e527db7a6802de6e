//! The fast path for the usual commit of a split phase: one operation on one integer column that is split for it.
//!
//! It performs the steps of [`commit_any`](super::commit_any), in the same order. In any other case (the operation does
//! not fit into the slice, the column is split for another operation, validation fails, the log has no space) it returns
//! without effect, and the general path reports the error or waits.
//!
//! Gain, when it was introduced: more than a quarter of the instructions of such a transaction. `cargo bench --bench hot_path` counts
//! what one takes now (add to a split column, phased).

use super::{Committing, LockedWrites};
use crate::base::atomics::Ordering;
use crate::storage::record::Record;
use crate::storage::word::{ABSENT, DEAD, SPLIT, Stamp};
use crate::storage::write_set::IntChange;
use crate::types::ValueRef;

/// Commits if the fast path applies; otherwise returns `None` without effect.
#[inline(always)]
pub(super) fn commit_one_slice(
    call: &mut Committing<'_>,
    validate: &impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Option<Stamp> {
    let [touched] = call.workspace.writes.touched() else { return None };
    // SAFETY: the call is pinned, so the record that it touched is alive.
    let record = unsafe { touched.record.as_record() };
    // Relaxed: the word is loaded again in the commit section.
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
    // Acquire, as in `lock_writes::stage`. The SPLIT bit cannot change during the commit section.
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

/// The stamp, and the log space to charge if the store is logged. `None` if the fast path does not apply.
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
    let is_current = epochs.generation() == call.generation;
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
