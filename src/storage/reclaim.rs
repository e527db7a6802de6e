//! Takes absent records out of the indexes and gives their memory back.
//!
//! A deleted record stays in its indexes until its delete is durable, so that a thread that misses the row meets the
//! record and waits for that epoch, and until no open snapshot needs a version of it; a placeholder that its call did
//! not fill goes at once. Taking out is: kill the
//! record (its word from exactly the absent word noted to [`DEAD`], by compare-and-swap), unlink it, and free it
//! when all threads pinned at that time have unpinned. A record that was filled again in the meantime has another word,
//! so the swap fails and it stays. A commit that fills an absent record takes it by compare-and-swap too: one of the
//! two wins. Records of a dropped table stay: they are freed with the table ([`crate::storage::retired_tables`]).

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_epoch::Guard;

use crate::base::atomics::Ordering;
use crate::storage::garbage;
use crate::storage::index::Lookup;
use crate::storage::record::{Record, RecordPointer};
use crate::storage::row::{RowLayout, free_block};
use crate::storage::slab::Slabs;
use crate::storage::table::{TableCore, free_record};
use crate::storage::versions::Versions;
use crate::storage::word::{ABSENT, DEAD, PLACEHOLDER, Stamp};
use crate::storage::worker_context::WorkerContext;
use crate::storage::workspace::{Deleted, Workspace};

/// The number of deleted records that are kept before they are collected: the work is shared.
const MANY: usize = 64;
/// Room for more than this many is freed once most of them are taken out.
const UNUSUAL: usize = 16 * 1024;

/// Takes out the placeholders of the call that has just ended, where it did not fill them.
pub(crate) fn collect_placeholders(workspace: &mut Workspace, guard: &Guard) {
    for placeholder in workspace.placeholders.drain(..) {
        // SAFETY: the call that made it is still pinned, so the record is alive, whatever became of it; the table is
        // as long as the store is.
        let (record, table) = unsafe { (placeholder.record.as_record(), &*placeholder.table) };
        take_out(table, record, PLACEHOLDER, guard);
    }
}

/// Takes out deleted records whose deletes are durable, once there are enough of them. Those of which snapshots need
/// versions stay for now: they are the side table's.
#[inline]
pub(crate) fn collect_deleted(
    workspace: &mut Workspace,
    versions: &Versions,
    durable: impl Fn() -> u64,
    guard: &Guard,
) {
    if workspace.deleted.len() >= MANY {
        collect_many_deleted(workspace, versions, durable(), guard);
    }
}

#[cold]
fn collect_many_deleted(workspace: &mut Workspace, versions: &Versions, durable: u64, guard: &Guard) {
    // A worker context's stamps rise, so those that are durable come first: looking at the others at the end of each call
    // would take the square of their number while the log is slow.
    let ready =
        workspace.deleted.iter().take_while(|deleted| Stamp::of(deleted.word).epoch() <= durable).count();
    workspace.deleted.drain(..ready).for_each(|deleted| collect_one(deleted, versions, guard));
    let (left, room) = (workspace.deleted.len(), workspace.deleted.capacity());
    if room > UNUSUAL && left < room / 4 {
        workspace.deleted.shrink_to(left * 2);
    }
}

/// Takes out a deleted record whose delete is durable, unless snapshots need it.
fn collect_one(deleted: Deleted, versions: &Versions, guard: &Guard) {
    // SAFETY: the table is alive as long as the store is, and so the worker contexts.
    let table = unsafe { &*deleted.table };
    // The records of a table that is gone are freed with it, and by no other thread.
    if !table.is_retired()
        && let Lookup::Found(record) = table.find(table.hash(&deleted.key), &deleted.key, guard)
        && let Some(deleted) = versions.keep_deleted(record, deleted)
    {
        take_out(table, record, deleted.word, guard);
    }
}

/// Takes out a deleted record that snapshots needed, and need no more.
pub(super) fn collect_deleted_record(deleted: &Deleted, guard: &Guard) {
    // SAFETY: the table is alive as long as the store is, and so are its versions.
    let table = unsafe { &*deleted.table };
    if !table.is_retired()
        && let Lookup::Found(record) = table.find(table.hash(&deleted.key), &deleted.key, guard)
    {
        take_out(table, record, deleted.word, guard);
    }
}

/// Takes out the first of one worker context's deletes that are durable, at most this many; whether any such is left.
pub(crate) fn collect_durable(
    deleted: &mut VecDeque<Deleted>,
    versions: &Versions,
    at_most: usize,
    durable: u64,
    guard: &Guard,
) -> bool {
    let is_durable = |deleted: &Deleted| Stamp::of(deleted.word).epoch() <= durable;
    for _ in 0..at_most {
        let Some(next) = deleted.pop_front_if(|next| is_durable(next)) else { return false };
        collect_one(next, versions, guard);
    }
    true
}

/// Called at the end of an attempt, where memory is limited: passes its deletes to the thread that reclaims memory, and
/// the objects that the attempt retired to the collector, so that neither depends on this thread's next transactions.
#[cold]
pub(crate) fn hand_over_garbage(context: &WorkerContext, workspace: &mut Workspace, guard: &Guard) {
    context.hand_over_deleted(&mut workspace.deleted);
    guard.flush();
}

/// Takes an absent record out, or one that only the caller can find, unless its word is another than this.
pub(super) fn take_out(table: &TableCore, record: Record<'_>, absent_word: u64, guard: &Guard) {
    // AcqRel: what the record's last writer did happens before its end; Acquire on failure is not needed, nothing
    // is read then.
    if record.word().compare_exchange(absent_word, DEAD, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    table.unlink(record, guard);
    let (layout, slabs) = (table.shared_layout(), table.slabs().clone());
    let retired = Retired { layout, slabs, pointer: record.pointer() };
    // SAFETY: the record is in no index any more, so only those that are pinned now can have it, and only the thread
    // that won the swap above reaches this line.
    unsafe { garbage::retire(guard, move || retired.free()) };
}

/// Takes every absent record of a table out at once: recovery does so, when no other thread uses the table.
pub(crate) fn collect_all(table: &TableCore, guard: &Guard) {
    let mut absent = Vec::new();
    table.for_each_record(guard, |record| {
        // Relaxed: no other thread uses the table.
        let word = record.word().load(Ordering::Relaxed);
        if word & ABSENT != 0 {
            absent.push((record.pointer(), word));
        }
    });
    for (pointer, word) in absent {
        // SAFETY: the thread is pinned, and no other thread takes records out.
        take_out(table, unsafe { pointer.as_record() }, word, guard);
    }
}

/// A record on its way out.
struct Retired {
    layout: Arc<RowLayout>,
    slabs: Arc<Slabs>,
    pointer: RecordPointer,
}

impl Retired {
    /// # Safety
    /// No thread uses the record any more.
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        unsafe { free_record(&self.layout, &self.slabs, self.pointer) }
    }
}

/// Frees a row's old block when every thread that could be reading it has unpinned.
pub(crate) fn retire_block(word: u64, guard: &Guard) {
    // SAFETY: the caller has just replaced the block in the only row that had it, so that only those that are pinned
    // now can still read it.
    unsafe { garbage::retire(guard, move || free_block(word)) };
}

#[cfg(test)]
mod tests;
