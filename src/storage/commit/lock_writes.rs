//! Locks the records of a commit's write set: from here until the install no other thread writes them.
//!
//! Invariants: every commit locks its records in the order of their addresses, so commits cannot deadlock; a commit that
//! fails here holds no lock.

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use crossbeam_utils::Backoff;

use super::slice_operations::{Plan, Staged};
use super::{CommitFailure, Pending};
use crate::base::atomics::Ordering;
use crate::storage::record::RecordPointer;
use crate::storage::split_columns::SplitColumn;
use crate::storage::store::Store;
use crate::storage::table::wait_a_little;
use crate::storage::word::{ABSENT, BUSY, DEAD, SPLIT, Stamp};
use crate::storage::worker_context::WorkerContext;
use crate::storage::write_set::WriteSet;
use crate::types::memory::Refused;

/// A protocol's way of locking present records.
pub(crate) trait WriteLocking {
    /// True if the protocol has already excluded all other writers of the write set, so that no record has to be
    /// locked.
    const EXCLUDED: bool;

    /// True if records can be split, in which case operations on split columns go into slices.
    const SPLITS: bool = false;

    /// Notes that another transaction has locked the record at this position of the write set.
    fn on_conflict_with_rival(&self, _writes: &WriteSet, _position: usize) {}

    /// The writes to the record at this position, some of whose columns are split, must wait for a joined phase.
    fn on_split_column(&self, _writes: &WriteSet, _position: usize, _columns: &[SplitColumn]) {}
}

/// The locking of protocols that exclude all other writers before the commit.
pub(crate) struct Excluded;

impl WriteLocking for Excluded {
    const EXCLUDED: bool = true;
}

/// The locking of protocols whose commits lock their write sets.
pub(crate) struct InOrder;

impl WriteLocking for InOrder {
    const EXCLUDED: bool = false;
}

/// The records of a write set in the order in which they are locked, each with its position in the write set. The addresses are
/// stored in the sorted array itself, so that a comparison does not touch the write set. Empty: the order of the write set.
pub(super) type LockOrder = [(RecordPointer, u32)];

/// The order in which a commit locks its records: that of their addresses, unless the protocol excludes rivals.
///
/// # Errors
/// The system refuses the memory.
#[inline]
pub(super) fn lock_order<'a, T: WriteLocking>(
    writes: &WriteSet,
    arena: &'a Bump,
) -> Result<&'a LockOrder, Refused> {
    if T::EXCLUDED || writes.touched().len() == 1 {
        return Ok(&[]);
    }
    let touched = writes.touched();
    let records = touched.iter().enumerate().map(|(position, touched)| (touched.record, position as u32));
    let order = arena.try_alloc_slice_fill_iter(records);
    let order = order.map_err(|_| Refused::of(size_of_val(touched)))?;
    order.sort_unstable_by_key(|&(record, _)| record);
    Ok(order)
}

/// Locks every record of the write set, of each of which `pending` has an entry, in the order of the write set.
/// Operations on slices are staged instead. Returns the highest stamp that will be overwritten.
///
/// # Errors
/// A record was removed from its table, or a write to a split record must wait for a joined phase. Then no record is
/// locked.
// Always: it has one caller for each way of locking.
#[inline(always)]
pub(super) fn lock_writes<'a, T: WriteLocking>(
    locking: &T,
    context: (&'a Store, &'a WorkerContext, &'a Guard, &'a Bump),
    (writes, order): (&WriteSet, &LockOrder),
    pending: &mut [Pending<'a>],
    staged: &mut Staged<'a>,
) -> Result<Stamp, CommitFailure> {
    let mut highest = Stamp::ZERO;
    let mut lock_one = |position: usize| {
        let entry = &mut pending[position];
        if T::EXCLUDED {
            lock_excluded(entry)?;
        } else if !T::SPLITS || !stage(locking, context, writes, position, entry, staged)? {
            lock_contended(locking, writes, position, entry)?;
        }
        highest = highest.max(Stamp::of(entry.word));
        Ok(())
    };
    let all_locked = if T::EXCLUDED || order.is_empty() {
        (0..writes.touched().len()).try_for_each(&mut lock_one)
    } else {
        // All commits lock in one order, so there is no deadlock: a thread that waits for a record holds only earlier
        // ones.
        order.iter().try_for_each(|&(_, position)| lock_one(position as usize))
    };
    match all_locked {
        Ok(()) => Ok(highest),
        Err(failure) => {
            unlock(pending);
            Err(failure)
        }
    }
}

/// Stages the operations that go into slices. Returns whether that covers all writes to the record.
#[inline]
fn stage<'a, T: WriteLocking>(
    locking: &T,
    context: (&'a Store, &'a WorkerContext, &'a Guard, &'a Bump),
    writes: &WriteSet,
    position: usize,
    entry: &mut Pending<'a>,
    staged: &mut Staged<'a>,
) -> Result<bool, CommitFailure> {
    // Acquire: pairs with the release of the split, or of the last install into the other columns, whose stamp this is.
    // The SPLIT bit cannot change while this thread is in its commit section.
    let word = entry.record.word().load(Ordering::Acquire);
    if word & SPLIT == 0 || word == DEAD {
        return Ok(false);
    }
    match staged.stage(locking, context, writes, position) {
        Plan::Stash => Err(CommitFailure::Stash),
        Plan::Mixed(sliced, room) => {
            (entry.sliced, entry.room_of_slices) = (sliced, room);
            Ok(false)
        }
        Plan::Sliced => {
            entry.word = word;
            Ok(true)
        }
    }
}

/// Locks a record for a protocol that excludes other writers: only the reclaimer of absent records competes for it.
fn lock_excluded(entry: &mut Pending<'_>) -> Result<(), CommitFailure> {
    // Acquire pairs with the release of the last install, whose row is copied next.
    entry.word = entry.record.word().load(Ordering::Acquire);
    if entry.word & ABSENT == 0 {
        return Ok(());
    }
    // Acquire: accesses to the row come after. The competitor is `reclaim::take_out`; a dead word, which is busy, is never locked. Any
    // other busy one is another writer's: only the canary that excludes none meets it, and would leave it busy for ever.
    entry.locked = entry.word & BUSY == 0
        && entry
            .record
            .word()
            .compare_exchange(entry.word, entry.word | BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    if entry.locked { Ok(()) } else { Err(CommitFailure::Conflict) }
}

#[inline]
fn lock_contended<T: WriteLocking>(
    locking: &T,
    writes: &WriteSet,
    position: usize,
    entry: &mut Pending<'_>,
) -> Result<(), CommitFailure> {
    if try_to_lock(entry) { Ok(()) } else { wait_for_rival(locking, writes, position, entry) }
}

/// Locks a record, unless another thread has locked it or it is dead: a dead word is busy, too. Returns true if it is
/// locked now.
#[inline(always)]
fn try_to_lock(entry: &mut Pending<'_>) -> bool {
    let word = entry.record.word();
    // Relaxed: the exchange acquires.
    let seen = word.load(Ordering::Relaxed);
    // SeqCst, like the loads of the validation: if each of two commits has read what the other writes, at least one of
    // them sees the other's lock bit. It also acquires the last install, whose row is copied next.
    if seen & BUSY == 0
        && word.compare_exchange(seen, seen | BUSY, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    {
        entry.word = seen;
        entry.locked = true;
        return true;
    }
    false
}

/// Locks a record that another thread has, or had at the last look, once it is unlocked.
#[cold]
#[inline(never)]
fn wait_for_rival<T: WriteLocking>(
    locking: &T,
    writes: &WriteSet,
    position: usize,
    entry: &mut Pending<'_>,
) -> Result<(), CommitFailure> {
    let mut has_met_rival = false;
    let backoff = Backoff::new();
    loop {
        // Relaxed: the exchange acquires.
        let seen = entry.record.word().load(Ordering::Relaxed);
        if seen == DEAD {
            return Err(CommitFailure::Conflict);
        }
        if !has_met_rival {
            has_met_rival = true;
            locking.on_conflict_with_rival(writes, position);
        }
        if seen & BUSY != 0 {
            wait_a_little(&backoff);
        } else if try_to_lock(entry) {
            return Ok(());
        }
    }
}

/// Unlocks every record that was locked.
pub(super) fn unlock(pending: &[Pending<'_>]) {
    for entry in pending.iter().filter(|entry| entry.locked) {
        // Release: pairs with the thread that reads or locks the word next; nothing was written in between.
        entry.record.word().store(entry.word, Ordering::Release);
    }
}
