//! Beginning and ending a split phase, in storage: which records are marked as split, and how slices are merged into them
//! (Doppel, OSDI 2014, section 5.3).
//!
//! The caller has closed the gate of the commit sections and waited for all: so it alone writes records, and the slices
//! of all worker contexts do not change. Invariants: all slices of a record are merged in one install, with a stamp
//! above that of every call that changed one of them and of an epoch that is not later than the one that the phase ends
//! with: so the record is durable with what is in it.

use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;

use crate::base::atomics::{Ordering, fence};
use crate::error::Result;
use crate::operation::Operation;
use crate::storage::commit::install_row;
use crate::storage::definition::ColumnLimit;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::slice::Slice;
use crate::storage::split_columns::{Quota, SPLIT_MAX, SplitColumn, SplitSet, gather, highest_stamp};
use crate::storage::split_policy::SplitPolicy;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, BUSY, SPLIT, Stamp};
use crate::storage::worker_context::WorkerContext;
use crate::types::Value;
use crate::types::key::EncodedKey;

/// Number of worker contexts that can join during a phase and still get an escrow quota.
const NEWCOMERS: usize = 8;

/// A column of a record and an operation for which it can be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) table: u32,
    pub(crate) key: EncodedKey,
    pub(crate) column: usize,
    pub(crate) operation: Operation,
}

impl Wanted {
    /// Returns true if both are about one column of one record.
    pub(crate) fn is_of_same_column(&self, other: &Wanted) -> bool {
        (self.table, &self.key, self.column) == (other.table, &other.key, other.column)
    }
}

impl From<&SplitColumn> for Wanted {
    fn from(column: &SplitColumn) -> Wanted {
        let (table, key) = (column.table.id(), column.key.clone());
        Wanted { table, key, column: column.column, operation: column.operation }
    }
}

/// Returns true if a column of this table can be split for this operation, and may be.
pub(crate) fn is_splittable(table: &TableCore, column: usize, operation: Operation) -> bool {
    let layout = table.layout().column(column);
    let keeps_limit = match layout.limit {
        ColumnLimit::Free => true,
        ColumnLimit::Between(..) => matches!(operation, Operation::Add | Operation::Max | Operation::Min),
        ColumnLimit::Checked => false,
    };
    keeps_limit
        && table.is_plain(column)
        && operation.splittable(&layout.data_type)
        && table.split_policies().of(column) != SplitPolicy::Never
}

/// Marks these columns' records as split from this epoch on; what is not there, or cannot be split, is left out. Gives
/// back what is split now. `guard_of`: the bounds that operations on a column ask for.
pub(crate) fn begin_split(
    store: &Store,
    (phase, since): (u64, u64),
    wanted: &[Wanted],
    guard_of: impl Fn(&Wanted) -> Option<Quota>,
    guard: &Guard,
) -> Option<Arc<SplitSet>> {
    let columns = wanted.iter().take(SPLIT_MAX);
    let columns: Vec<SplitColumn> =
        columns.filter_map(|wanted| split_column(store, wanted, guard_of(wanted), guard)).collect();
    if columns.is_empty() {
        return None;
    }
    for column in &columns {
        // SAFETY: the thread is pinned since before it found the record.
        let record = unsafe { column.record.as_record() };
        // Relaxed would do for a thread that enters a commit section: the gate's opening releases it. Release, for the
        // checkpoint threads that copy live records outside of them (`copy`): a thread that sees the mark no longer
        // sees the set of an earlier phase.
        record.word().fetch_or(SPLIT, Ordering::Release);
    }
    let parties = store.worker_contexts().all().count() + NEWCOMERS;
    let set = Arc::new(SplitSet::new(phase, since, parties, columns));
    store.splits().replace(Some(set.clone()), guard);
    Some(set)
}

fn split_column(store: &Store, wanted: &Wanted, bounds: Option<Quota>, guard: &Guard) -> Option<SplitColumn> {
    let table = store.table(wanted.table)?;
    if !is_splittable(&table, wanted.column, wanted.operation) {
        return None;
    }
    let Lookup::Found(record) = table.find(table.hash(&wanted.key), &wanted.key, guard) else { return None };
    let mut row = vec![0; table.layout().words()];
    if record.read(table.layout(), &mut row) & ABSENT != 0 {
        return None;
    }
    // SAFETY: the row was just read, and the thread is pinned.
    let (base, bytes) =
        unsafe { (table.layout().value(&row, wanted.column).to_value(), table.layout().image_bytes(&row)) };
    if base == Value::Null && !wanted.operation.ranks_null() {
        // It stays NULL whatever is added: no slice has an escrow quota of that.
        return None;
    }
    let place = (table.clone(), record.pointer());
    let what = (wanted.column, wanted.operation);
    let column = SplitColumn::new(place, wanted.key.clone(), what, (base, bytes), bounds);
    // Sold out: every guarded operation would be stashed.
    (!column.is_at_guard(bounds)).then_some(column)
}

/// Merges all slices of the present split phase into their records, whose marks go.
///
/// # Errors
/// Slices that do not fit together: never, as each has kept to its share.
pub(crate) fn end_split(store: &Store, set: &SplitSet, epoch: u64, guard: &Guard) -> Result<()> {
    let records = || {
        set.columns().chunk_by(|one, next| one.record == next.record).map(|columns| {
            // SAFETY: a split record is not deleted before its phase has ended.
            (unsafe { columns[0].record.as_record() }, columns)
        })
    };
    // Acquire: as after every install.
    let words = records().map(|(record, _)| Stamp::of(record.word().load(Ordering::Acquire)));
    let all = || store.worker_contexts().all().map(WorkerContext::slices);
    // SAFETY: the caller has closed the gate and waited for all.
    let floor = words.max().max(Some(unsafe { highest_stamp(set, all()) })).unwrap_or_default();
    let stamp = Stamp::of_merge(floor, epoch);
    // SAFETY: as above.
    let gathered = unsafe { gather(set, all()) }?;
    let mut arena = Bump::new();
    let mut first = 0;
    for (record, columns) in records() {
        arena.reset();
        let slices = &gathered[first..first + columns.len()];
        first += columns.len();
        merge(store, record, columns, slices, stamp, (&arena, guard))?;
    }
    store.splits().replace(None, guard);
    Ok(())
}

/// Merges the slices of one record's columns into it.
fn merge(
    store: &Store,
    record: Record<'_>,
    columns: &[SplitColumn],
    slices: &[Slice],
    stamp: Stamp,
    (arena, guard): (&Bump, &Guard),
) -> Result<()> {
    let word = record.word().load(Ordering::Acquire);
    if slices.iter().all(Slice::is_untouched) {
        // Release: as an install; nothing but the mark has changed.
        record.word().store(word & !SPLIT, Ordering::Release);
        return Ok(());
    }
    // Columns may have been added within the phase: the version that a snapshot needs has them, too.
    let table = columns[0].table.newest_of_records();
    let layout = table.layout();
    let installed = layout.held_row(record);
    let image = arena.alloc_slice_copy(&installed);
    let mut buffer = Vec::new();
    for (column, slice) in columns.iter().zip(slices) {
        let Some(operand) = slice.value() else { continue };
        let before = arena.alloc_slice_copy(image);
        // SAFETY: the blocks are the installed row's, which no other thread changes, or in the arena.
        let current = unsafe { layout.value(before, column.column) };
        let applied =
            column.operation.apply(current, operand, &layout.column(column.column).data_type, &mut buffer)?;
        // Nothing that could fail is waiting for it: every call has its answer, or will get it.
        layout
            .put(image, column.column, applied.value(current, &buffer), arena)
            .unwrap_or_else(|refused| refused.abort());
    }
    let mut made: Vec<u64> = Vec::new();
    // SAFETY: as above.
    unsafe { layout.move_blocks_to_heap(image, &installed, &mut made) }
        .unwrap_or_else(|refused| refused.abort());
    if word < store.versions().bound() {
        // As every install does, before the row changes.
        let touches = |column| columns.iter().any(|split| split.column == column);
        store.versions().note_change(None, (table, record, word), &touches);
        store.versions().preserve(table, record, word, stamp, guard);
    }
    record.word().store(word | BUSY, Ordering::Relaxed);
    // Release fence: as in `commit::install`; the gate keeps writers out, and not readers.
    fence(Ordering::Release);
    install_row(table, record, image, guard);
    // Release pairs with the acquire of every reader of the word: a thread that sees the stamp sees the row.
    record.word().store(stamp.present(), Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests;
