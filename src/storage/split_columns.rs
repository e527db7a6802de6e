//! Split columns: the columns of records that are split in the present split phase, and every worker context's slices of
//! them (Doppel, OSDI 2014, sections 4 and 5.2).
//!
//! In a split phase a commit that changes a split column by the column's one selected operation changes its own
//! worker context's slice, and no record. When the phase ends, one thread merges all slices of a record into it.
//!
//! Invariants:
//! - The set of split columns changes only while the gate of the commit sections is closed, and so does the bit
//!   [`SPLIT`](crate::storage::word::SPLIT) in their records' words: inside a commit section neither changes.
//! - A worker context's totals are touched by its own thread inside a commit section, or by a thread that has closed
//!   the gate and waited for all. Its part of an epoch is touched by its own thread inside a commit section that
//!   stamps with that epoch, or, once the epoch is sealed, by the log stage, which empties it before the next epoch
//!   but one begins.
//! - A slice never takes an operand with which all worker contexts together could leave the column's bounds (of its type and
//!   of its checks: see [`escrow`]), or make the row longer than a row may be: then the call is stashed, and succeeds or fails
//!   on the whole record. Of the bytes
//!   that a row may grow by, half is for its slices, and half for commits to its other columns.

mod current;
mod escrow;
mod split_set;

use std::cell::UnsafeCell;
use std::sync::Arc;

pub(crate) use self::escrow::Quota;
use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::error::Result;
use crate::storage::redo;
use crate::storage::row::byte_length;
use crate::storage::slice::Slice;
use crate::storage::word::Stamp;
use crate::types::ValueRef;

pub(crate) use current::Splits;
pub(crate) use split_set::{SplitColumn, SplitSet};

/// One worker context's slices of all split columns.
pub(crate) struct Slices {
    totals: UnsafeCell<Totals>,
    /// The operations on the slices in even epochs and in odd ones, for the log.
    parts: [UnsafeCell<Part>; 2],
    /// True if there is anything in the parts: for the log stage's look without a seal.
    filled: [AtomicBool; 2],
    /// The phase that `writes` is about.
    phase: AtomicU64,
    /// The number of operations that each slice has taken: for the coordinator's look at any time.
    writes: [AtomicU64; SPLIT_MAX],
}

/// The most columns that are split at once.
pub(crate) const SPLIT_MAX: usize = 64;

// SAFETY: the cells are touched by one thread at a time, in turns that the commit sections and the gate order: see the
// module's description.
unsafe impl Sync for Slices {}

/// The merged operations of a worker context's slices since the phase began.
#[derive(Default)]
pub(crate) struct Totals {
    phase: u64,
    slices: Vec<Slice>,
    /// The quota of each slice.
    quotas: Vec<Quota>,
    /// The stamp of the last call that changed a slice.
    highest: Stamp,
    /// Memory for merging.
    buffer: Vec<u8>,
}

/// The merged operations of a worker context's slices in one epoch.
#[derive(Default)]
struct Part {
    /// The split columns that its slices are of; `None` if it is empty.
    set: Option<Arc<SplitSet>>,
    slices: Vec<Slice>,
    highest: Stamp,
    transactions: u64,
    /// The room in the log that was charged for it.
    charged: usize,
    buffer: Vec<u8>,
}

impl Totals {
    #[cold]
    fn begin(&mut self, set: &SplitSet) {
        self.phase = set.phase;
        self.slices.clear();
        self.slices.resize_with(set.columns.len(), Slice::default);
        self.quotas.clear();
        self.quotas.extend(set.columns.iter().map(|column| column.allowance.first_quota()));
        self.highest = Stamp::ZERO;
    }

    /// Puts an operand into a slice, if it fits; returns the former slice.
    #[inline]
    pub(crate) fn take(
        &mut self,
        set: &SplitSet,
        number: usize,
        operand: ValueRef<'_>,
        worker_context: usize,
    ) -> Option<Slice> {
        let column = &set.columns[number];
        let before = self.slices[number].clone();
        let merged =
            self.slices[number].merge(column.operation, operand, column.data_type(), &mut self.buffer);
        let quota = &mut self.quotas[number];
        if merged.is_err() || !set.fits(number, &self.slices[number], worker_context, quota) {
            self.slices[number] = before;
            return None;
        }
        Some(before)
    }

    /// Same as [`take`](Self::take), for an integer that an integer column's slice can take directly, within its quota;
    /// returns the former slice.
    #[inline]
    pub(crate) fn take_int(&mut self, set: &SplitSet, number: usize, operand: i64) -> Option<Option<i64>> {
        let column = &set.columns[number];
        let slice = &mut self.slices[number];
        let before = match slice.int() {
            None if !slice.is_untouched() => return None,
            before => before,
        };
        let merged = before.map_or(Some(operand), |before| column.operation.merge_int(before, operand))?;
        if !column.allowance.admits(&mut self.quotas[number], merged) {
            return None;
        }
        slice.set_int(Some(merged));
        Some(before)
    }

    /// Takes an integer out again: the slice is as it was before.
    #[inline]
    pub(crate) fn put_back_int(&mut self, number: usize, before: Option<i64>) {
        self.slices[number].set_int(before);
    }

    /// Takes an operand out again: the slice is as it was before.
    pub(crate) fn put_back(&mut self, number: usize, before: Slice) {
        self.slices[number] = before;
    }

    /// The operations of a call with this stamp stay.
    #[inline]
    pub(crate) fn keep(&mut self, stamp: Stamp) {
        self.highest = stamp;
    }
}

/// The most bytes that an operand takes in the log, beside its own bytes and its record's key.
const ENTRY_BYTES: usize = 96;

impl Default for Slices {
    fn default() -> Slices {
        Slices {
            totals: UnsafeCell::default(),
            parts: Default::default(),
            filled: Default::default(),
            phase: AtomicU64::new(0),
            writes: [const { AtomicU64::new(0) }; SPLIT_MAX],
        }
    }
}

impl Slices {
    /// Makes the totals ready for this phase, if they are of another one.
    ///
    /// # Safety
    /// Same duties as for [`totals`](Self::totals).
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn enter(&self, set: &SplitSet) -> &mut Totals {
        // SAFETY: the caller's promise.
        let totals = unsafe { self.totals() };
        if totals.phase != set.phase {
            totals.begin(set);
            // Relaxed throughout: a count that is a little old, or of the last phase, is as good.
            self.writes.iter().for_each(|writes| writes.store(0, Ordering::Relaxed));
            self.phase.store(set.phase, Ordering::Relaxed);
        }
        totals
    }

    /// Counts an operation on the column of this number; only the worker context itself does.
    #[inline]
    pub(crate) fn count_write(&self, number: usize) {
        let writes = &self.writes[number];
        writes.store(writes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The number of operations that the column of this number has taken in this phase.
    pub(crate) fn writes(&self, phase: u64, number: usize) -> u64 {
        if self.phase.load(Ordering::Relaxed) == phase {
            self.writes[number].load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// The totals.
    ///
    /// # Safety
    /// The caller is the worker context inside its commit section, or has closed the gate and waited for all; and has no
    /// other reference to them.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn totals(&self) -> &mut Totals {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.totals.get() }
    }

    /// The room in the log that an operand needs, in this epoch.
    ///
    /// # Safety
    /// The caller is the worker context, inside its commit section, and will stamp with this epoch.
    pub(crate) unsafe fn charge(
        &self,
        set: &SplitSet,
        number: usize,
        operand: ValueRef<'_>,
        epoch: u64,
    ) -> usize {
        // SAFETY: the caller's promise.
        let part = unsafe { &*self.parts[(epoch & 1) as usize].get() };
        let bytes = byte_length(operand);
        match part.slices.get(number) {
            Some(slice) if part.set.is_some() && !slice.is_untouched() => bytes,
            _ => ENTRY_BYTES + set.columns[number].key.len() + bytes,
        }
    }

    /// Puts an operand that stays into the part of the stamp's epoch.
    ///
    /// # Safety
    /// The caller is the worker context, inside its commit section, and has stamped with this stamp.
    pub(crate) unsafe fn log(&self, set: &Arc<SplitSet>, number: usize, operand: ValueRef<'_>, stamp: Stamp) {
        let parity = (stamp.epoch() & 1) as usize;
        // SAFETY: the caller's promise.
        let part = unsafe { &mut *self.parts[parity].get() };
        if part.set.is_none() {
            part.begin(set);
            // Relaxed: a hint for the log stage; it reads the part after the seal.
            self.filled[parity].store(true, Ordering::Relaxed);
        }
        part.highest = stamp;
        let column = &set.columns[number];
        let merged =
            part.slices[number].merge(column.operation, operand, column.data_type(), &mut part.buffer);
        debug_assert!(merged.is_ok(), "the totals took it");
    }

    /// Notes that a call's room is used by the part of the stamp's epoch.
    ///
    /// # Safety
    /// Same duties as for [`log`](Self::log).
    pub(crate) unsafe fn count(&self, charged: usize, stamp: Stamp) {
        // SAFETY: the caller's promise.
        let part = unsafe { &mut *self.parts[(stamp.epoch() & 1) as usize].get() };
        part.transactions += 1;
        part.charged += charged;
    }

    /// Returns true if anything went into the slices in this epoch, or in the one before the last.
    pub(crate) fn is_filled(&self, epoch: u64) -> bool {
        self.filled[(epoch & 1) as usize].load(Ordering::Relaxed)
    }

    /// Appends the redo of a sealed epoch, one merged operation for each column, and empties the part. Gives back how many
    /// transactions it is of, and how much room was charged for it.
    ///
    /// # Safety
    /// The caller is the log stage, and the epoch is sealed.
    pub(crate) unsafe fn drain(&self, epoch: u64, out: &mut Vec<u8>) -> (u64, usize) {
        let parity = (epoch & 1) as usize;
        // SAFETY: the caller's promise.
        let part = unsafe { &mut *self.parts[parity].get() };
        let Some(set) = part.set.take() else { return (0, 0) };
        self.filled[parity].store(false, Ordering::Relaxed);
        let start = redo::begin(out);
        let mut number = 0;
        while number < set.columns.len() {
            let (_, columns) = set.of_record(set.columns[number].record);
            let touched: smallvec::SmallVec<[_; 4]> = columns
                .iter()
                .zip(&part.slices[number..])
                .filter_map(|(column, slice)| Some((column.column, column.operation, slice.value()?)))
                .collect();
            if let (Some(first), false) = (columns.first(), touched.is_empty()) {
                redo::append_merged(
                    out,
                    (first.table.id(), first.table.row_version()),
                    &first.key,
                    set.since,
                    &touched,
                );
            }
            number += columns.len().max(1);
        }
        redo::finish(&mut out[start..], 0);
        redo::set_stamp(out, start, part.highest);
        (std::mem::take(&mut part.transactions), std::mem::take(&mut part.charged))
    }
}

impl Part {
    #[cold]
    fn begin(&mut self, set: &Arc<SplitSet>) {
        self.set = Some(set.clone());
        self.slices.clear();
        self.slices.resize_with(set.columns.len(), Slice::default);
    }
}

/// The highest stamp of any call that changed a slice in the set's phase.
///
/// # Safety
/// The caller has closed the gate and waited for all.
pub(crate) unsafe fn highest_stamp<'s>(set: &SplitSet, all: impl Iterator<Item = &'s Slices>) -> Stamp {
    // SAFETY: the caller's promise.
    let totals = all.map(|slices| unsafe { slices.totals() }).filter(|totals| totals.phase == set.phase);
    totals.map(|totals| totals.highest).max().unwrap_or_default()
}

/// Merges all worker contexts' slices of the set's phase, which are empty afterwards.
///
/// # Errors
/// Slices that cannot be merged: never, as they were let in only where all together fit.
///
/// # Safety
/// The caller has closed the gate and waited for all.
pub(crate) unsafe fn gather<'s>(set: &SplitSet, all: impl Iterator<Item = &'s Slices>) -> Result<Vec<Slice>> {
    let mut gathered: Vec<Slice> = set.columns.iter().map(|_| Slice::default()).collect();
    let mut buffer = Vec::new();
    for slices in all {
        // SAFETY: the caller's promise.
        let totals = unsafe { slices.totals() };
        if totals.phase != set.phase {
            continue;
        }
        for (number, column) in set.columns.iter().enumerate() {
            if let Some(value) = totals.slices[number].value() {
                gathered[number].merge(column.operation, value, column.data_type(), &mut buffer)?;
            }
        }
        // So that nothing is merged twice, and the next phase starts over.
        totals.phase = 0;
    }
    Ok(gathered)
}
