//! A commit in a split phase: operations on split columns go into the worker context's slices (Doppel, OSDI 2014,
//! figure 3).
//!
//! Invariants: the slices' totals add the operations before the stamp, and undo them if the commit
//! fails; so whether they fit is known before anything is installed, and nothing can fail afterwards.

use std::sync::Arc;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use crossbeam_epoch::Guard;
use smallvec::SmallVec;

use super::lock_writes::WriteLocking;
use crate::storage::record::RecordPointer;
use crate::storage::slice::Slice;
use crate::storage::split_columns::{SplitColumn, SplitSet};
use crate::storage::store::Store;
use crate::storage::word::Stamp;
use crate::storage::worker_context::WorkerContext;
use crate::storage::write_set::{WriteSet, WriteView};

/// The operations of a commit that have gone into slices.
pub(super) struct Staged<'a> {
    /// The set of the phase, once anything of it was met.
    set: Option<&'a Arc<SplitSet>>,
    /// The slices that were changed, and what they were before.
    before: ArenaVec<'a, (u32, Slice)>,
    /// The records whose operations went into slices: their places in the write set.
    positions: ArenaVec<'a, u32>,
}

/// The treatment of the writes to a split record.
pub(super) enum Plan<'a> {
    /// All of them went into slices.
    Sliced,
    /// Those to these columns went into slices; the others are for the record, whose row must leave this many bytes to
    /// slices, if any.
    Mixed(&'a [u16], Option<usize>),
    /// They cannot be done in this phase.
    Stash,
}

impl<'a> Staged<'a> {
    /// The state before any operation: takes no memory.
    #[inline]
    pub(super) fn new(arena: &'a Bump) -> Staged<'a> {
        Staged { set: None, before: ArenaVec::new_in(arena), positions: ArenaVec::new_in(arena) }
    }

    /// Puts the operations on the split columns of the record at this position into the worker context's slices.
    #[inline]
    pub(super) fn stage<T: WriteLocking>(
        &mut self,
        locking: &T,
        (store, worker_context, guard, arena): (&'a Store, &'a WorkerContext, &'a Guard, &'a Bump),
        writes: &WriteSet,
        position: usize,
    ) -> Plan<'a> {
        let set = match self.set {
            Some(set) => set,
            None => match store.splits().current(guard) {
                Some(set) => *self.set.insert(set),
                None => unreachable!("a record's word says that it is split, and nothing is"),
            },
        };
        // SAFETY: the worker context is in its commit section, and this is the only reference.
        let totals = unsafe { worker_context.slices().enter(set) };
        let (first, columns) = set.of_record(writes.touched()[position].record);
        let number_of = |column: usize| columns.iter().position(|split| split.column == column);
        let mut sliced = SmallVec::<[u16; 4]>::new();
        let mut others = false;
        let all_fit = writes.visit(position, |write| match write {
            WriteView::Operate { column, operation, operand } => match number_of(column) {
                Some(at) if columns[at].operation == operation => {
                    let Some(before) = totals.take(set, first + at, operand, worker_context.number()) else {
                        return false;
                    };
                    self.before.push(((first + at) as u32, before));
                    sliced.push(column as u16);
                    true
                }
                split => {
                    others |= split.is_none();
                    split.is_none()
                }
            },
            WriteView::Set { column } => {
                others = true;
                number_of(column).is_none()
            }
            WriteView::Bound { column, bounds } => match number_of(column) {
                Some(at) => columns[at].guarantees(bounds),
                None => {
                    others = true;
                    true
                }
            },
            WriteView::Insert | WriteView::Delete => false,
        });
        if !all_fit {
            locking.on_split_column(writes, position, columns);
            return Plan::Stash;
        }
        if !sliced.is_empty() {
            self.positions.push(position as u32);
        }
        if others {
            Plan::Mixed(arena.alloc_slice_copy(&sliced), SplitSet::room(columns))
        } else {
            Plan::Sliced
        }
    }

    /// Takes everything out of the slices again.
    pub(super) fn put_back(&mut self, worker_context: &WorkerContext) {
        if self.before.is_empty() {
            return;
        }
        // SAFETY: the worker context is in its commit section, and this is the only reference.
        let totals = unsafe { worker_context.slices().totals() };
        for (number, before) in self.before.drain(..).rev() {
            totals.put_back(number as usize, before);
        }
    }

    /// The room in the log that the operations need.
    pub(super) fn charge(&self, worker_context: &WorkerContext, writes: &WriteSet, epoch: u64) -> usize {
        let mut bytes = 0;
        self.for_each(writes, |set, number, operand| {
            // SAFETY: the worker context is in its commit section, and stamps with this epoch.
            bytes += unsafe { worker_context.slices().charge(set, number, operand, epoch) };
        });
        bytes
    }

    /// Keeps the operations: the commit is sure. `charged`: the room in the log that was charged; `None` if nothing is
    /// logged.
    #[inline]
    pub(super) fn keep(
        &self,
        worker_context: &WorkerContext,
        writes: &WriteSet,
        stamp: Stamp,
        charged: Option<usize>,
    ) {
        if self.before.is_empty() {
            return;
        }
        // SAFETY: the worker context is in its commit section, and this is the only reference.
        unsafe { worker_context.slices().totals() }.keep(stamp);
        self.before.iter().for_each(|(number, _)| worker_context.slices().count_write(*number as usize));
        let Some(charged) = charged else { return };
        // SAFETY: the worker context is in its commit section, and has stamped with this stamp.
        self.for_each(writes, |set, number, operand| unsafe {
            worker_context.slices().log(set, number, operand, stamp);
        });
        // SAFETY: as above.
        unsafe { worker_context.slices().count(charged, stamp) };
    }

    /// Calls `visit` with every operation that went into a slice.
    fn for_each(
        &self,
        writes: &WriteSet,
        mut visit: impl FnMut(&Arc<SplitSet>, usize, crate::types::ValueRef<'_>),
    ) {
        let Some(set) = self.set else { return };
        for &position in &self.positions {
            let record: RecordPointer = writes.touched()[position as usize].record;
            let (first, columns) = set.of_record(record);
            writes.visit(position as usize, |write| {
                if let WriteView::Operate { column, operand, .. } = write
                    && let Some(at) = columns.iter().position(|split: &SplitColumn| split.column == column)
                {
                    visit(set, first + at, operand);
                }
                true
            });
        }
    }
}
