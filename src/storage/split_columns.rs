//! Split columns: which columns of which records are split in the present split phase, and every worker context's slices of
//! them (Doppel, OSDI 2014, sections 4 and 5.2).
//!
//! In a split phase a commit that changes a split column by the column's one selected operation changes its own
//! worker context's slice, and no record. When the phase ends, one thread merges all slices of a record into it.
//!
//! Invariants:
//! - The set of split columns changes only while the gate of the commit sections is closed, and so does the bit
//!   [`SPLIT`](crate::storage::word::SPLIT) in their records' words: inside a commit section both stand still.
//! - A worker context's totals are touched by its own thread inside a commit section, or by a thread that has closed
//!   the gate and waited for all. Its part of an epoch is touched by its own thread inside a commit section that
//!   stamps with that epoch, or, once the epoch is sealed, by the log stage, which empties it before the next epoch
//!   but one begins.
//! - A slice never takes an operand with which all worker contexts together could leave the column's bounds (of its type and
//!   of its checks: see [`escrow`]), or make the row longer than a row may be: then the call is stashed, and succeeds or fails
//!   on the whole record. Of the bytes
//!   that a row may grow by, half is for its slices, and half for commits to its other columns.

mod escrow;

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;

use crossbeam_epoch::Guard;

use self::escrow::{Escrow, Quota};
use crate::base::atomics::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::error::Result;
use crate::operation::Operation;
use crate::storage::record::RecordPointer;
use crate::storage::redo;
use crate::storage::row::{MAXIMAL_ROW_BYTES, byte_length};
use crate::storage::slice::Slice;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::types::key::EncodedKey;
use crate::types::{DataType, Value, ValueRef};

/// A column of a record that is split, for one operation.
pub(crate) struct SplitColumn {
    pub(crate) table: Arc<TableCore>,
    pub(crate) key: EncodedKey,
    pub(crate) record: RecordPointer,
    pub(crate) column: usize,
    pub(crate) operation: Operation,
    /// The column's value when it was split.
    base: Value,
    /// How many bytes of their own the record's values had when it was split.
    row_bytes: usize,
    allowance: Allowance,
    /// How many bytes all slices together may add to the row; none: values of this column have no bytes of their own.
    room: Option<usize>,
}

/// Which totals of a worker context a split column allows.
enum Allowance {
    /// Those that the operation finds out by a close look.
    Judged,
    /// Numbers in this range: those of operations that keep one of the values that there are.
    Within(Quota),
    /// Sums within a quota of the distances to the bounds.
    Escrow(Escrow),
}

impl Allowance {
    /// The quota that a worker context begins with.
    fn first_quota(&self) -> Quota {
        match self {
            // No total is within it.
            Allowance::Judged => (1, 0),
            Allowance::Within(range) => *range,
            Allowance::Escrow(_) => (0, 0),
        }
    }

    /// Whether this total is within the quota, which is renewed if it can be.
    #[inline]
    fn admits(&self, quota: &mut Quota, total: i64) -> bool {
        quota.0 <= total && total <= quota.1
            || matches!(self, Allowance::Escrow(escrow) if escrow.renew(quota, total))
    }
}

/// What is split in one split phase.
pub(crate) struct SplitSet {
    /// The number of the phase: it only rises.
    phase: u64,
    /// The first epoch of the phase.
    since: u64,
    /// How many worker contexts share the room that columns have.
    parties: usize,
    /// Columns of one record stand next to each other.
    columns: Vec<SplitColumn>,
    /// For each record, the first of its columns and how many there are.
    by_record: Places,
}

/// From a record to its split columns: few records, looked up at every access to one of them.
struct Places {
    slots: Box<[(u64, u32, u32)]>,
}

impl Places {
    fn new(columns: &[SplitColumn]) -> Places {
        let mut runs: Vec<(u64, u32, u32)> = Vec::new();
        for (number, column) in columns.iter().enumerate() {
            let bits = column.record.to_bits();
            match runs.last_mut() {
                Some((record, _, length)) if *record == bits => *length += 1,
                _ => runs.push((bits, number as u32, 1)),
            }
        }
        let mut places = Places { slots: vec![(0, 0, 0); (4 * runs.len()).next_power_of_two()].into() };
        for run in runs {
            let mut at = places.start(run.0);
            while places.slots[at].0 != 0 {
                at = (at + 1) % places.slots.len();
            }
            places.slots[at] = run;
        }
        places
    }

    fn start(&self, record: u64) -> usize {
        // Records are eight-aligned and at least 24 bytes apart; the multiplication spreads what differs.
        ((record >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn get(&self, record: u64) -> (u32, u32) {
        let mut at = self.start(record);
        loop {
            let (other, first, length) = self.slots[at];
            if other == record {
                return (first, length);
            }
            if other == 0 {
                return (0, 0);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

impl SplitColumn {
    /// A column of a present record, with the value that it has now; all values of the row have this many bytes of
    /// their own.
    pub(crate) fn new(
        (table, record): (Arc<TableCore>, RecordPointer),
        key: EncodedKey,
        (column, operation): (usize, Operation),
        (base, row_bytes): (Value, usize),
    ) -> SplitColumn {
        let allowance = Allowance::Judged;
        SplitColumn { table, key, record, column, operation, base, row_bytes, allowance, room: None }
    }

    fn data_type(&self) -> &DataType {
        &self.table.layout().column(self.column).data_type
    }
}

impl SplitSet {
    /// A set for the phase of this number, which begins with this epoch; `parties` worker contexts share the room.
    pub(crate) fn new(phase: u64, since: u64, parties: usize, mut columns: Vec<SplitColumn>) -> SplitSet {
        debug_assert!(columns.len() <= SPLIT_MAX);
        columns.sort_by_key(|column| (column.record, column.column));
        let parties = parties.max(1);
        for column in &mut columns {
            column.allowance = allowance(column, parties);
        }
        columns.chunk_by_mut(|one, next| one.record == next.record).for_each(share_room);
        SplitSet { phase, since, parties, by_record: Places::new(&columns), columns }
    }

    /// The number of its phase.
    pub(crate) fn phase(&self) -> u64 {
        self.phase
    }

    /// The first epoch of its phase.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// All columns that are split; a column's place among them is its number.
    pub(crate) fn columns(&self) -> &[SplitColumn] {
        &self.columns
    }

    /// The split columns of a record, and the number of the first.
    #[inline]
    pub(crate) fn of_record(&self, record: RecordPointer) -> (usize, &[SplitColumn]) {
        let (first, length) = self.by_record.get(record.to_bits());
        (first as usize, &self.columns[first as usize..(first + length) as usize])
    }

    /// How many bytes these columns' slices may add to their record's row; none: no bytes at all.
    pub(crate) fn room(columns: &[SplitColumn]) -> Option<usize> {
        columns.iter().filter_map(|column| column.room).reduce(usize::saturating_add)
    }

    /// Whether the worker context of this number may have such a total of a column, whatever the others have.
    #[inline]
    fn fits(&self, number: usize, total: &Slice, worker_context: usize, quota: &mut Quota) -> bool {
        let column = &self.columns[number];
        match (&column.allowance, total.value()) {
            (Allowance::Judged, _) | (_, None) => self.fits_closely(column, total, worker_context),
            (allowance, Some(total)) => {
                number_of(total, column.data_type()).is_some_and(|total| allowance.admits(quota, total))
            }
        }
    }

    fn fits_closely(&self, column: &SplitColumn, total: &Slice, worker_context: usize) -> bool {
        let Some(total) = total.value() else { return true };
        // A worker context that joined after the phase began has no escrow quota; operations that have no bounds need none.
        let parties = if worker_context < self.parties { self.parties } else { usize::MAX };
        if column.room.is_some_and(|room| column.operation.merged_bytes(byte_length(total), parties) > room) {
            return false;
        }
        let parties = u32::try_from(parties).unwrap_or(u32::MAX);
        column.operation.fits((&column.base).into(), total, column.data_type(), parties)
    }
}

/// Divides the half of what a record's row may grow by among those of its split columns whose values have bytes.
fn share_room(columns: &mut [SplitColumn]) {
    let has_bytes = |column: &SplitColumn| column.table.layout().is_variable(column.column);
    let number = columns.iter().filter(|column| has_bytes(column)).count();
    for column in columns.iter_mut().filter(|column| has_bytes(column)) {
        column.room = Some(MAXIMAL_ROW_BYTES.saturating_sub(column.row_bytes) / 2 / number);
    }
}

/// What the totals of a column that holds a number in one word may be.
fn allowance(column: &SplitColumn, parties: usize) -> Allowance {
    let layout = column.table.layout();
    if layout.number(column.column).is_none() {
        return Allowance::Judged;
    }
    let bounds = layout.column(column.column).bounds();
    let Some(base) = number_of((&column.base).into(), column.data_type()) else {
        // NULL: it takes the first operand that comes.
        return Allowance::Within(bounds);
    };
    match column.operation {
        Operation::Add => Allowance::Escrow(Escrow::new(base, bounds, parties)),
        // The value stays where an operand lies on its other side.
        Operation::Max => Allowance::Within((i64::MIN, bounds.1)),
        Operation::Min => Allowance::Within((bounds.0, i64::MAX)),
        Operation::Multiply | Operation::OrderedPut | Operation::TopKInsert => Allowance::Judged,
    }
}

/// The number as a column of this type holds it in one word; none: it does not.
#[inline]
fn number_of(value: ValueRef<'_>, data_type: &DataType) -> Option<i64> {
    match (value, data_type) {
        (ValueRef::Int(int), DataType::Int32 | DataType::Int64) => Some(int),
        (ValueRef::Decimal(decimal), DataType::Decimal { precision, scale }) if *precision <= 18 => {
            i64::try_from(decimal.rescale(*scale).ok()?.unscaled()).ok()
        }
        _ => None,
    }
}

/// The present set of split columns of a store; none in joined phases.
pub(crate) struct Splits {
    /// A box of the set; null: none.
    current: AtomicPtr<Arc<SplitSet>>,
}

impl Default for Splits {
    fn default() -> Splits {
        Splits { current: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl Splits {
    /// The present set.
    #[inline]
    pub(crate) fn current<'g>(&self, _guard: &'g Guard) -> Option<&'g Arc<SplitSet>> {
        // Acquire pairs with the release in `replace`.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: it is null or came from a box; one that is replaced is dropped only when every thread that was
        // pinned then has unpinned.
        unsafe { current.as_ref() }
    }

    /// Puts another set in its place. The caller has closed the gate and waited for all.
    pub(crate) fn replace(&self, set: Option<Arc<SplitSet>>, guard: &Guard) {
        let new = set.map_or(ptr::null_mut(), |set| Box::into_raw(Box::new(set)));
        let old = self.current.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            let old = Retired(old);
            // SAFETY: it came from a box, it has just been taken out by the only thread that may, and only threads
            // that are pinned now can still use it.
            unsafe { guard.defer_unchecked(move || old.free()) };
        }
    }
}

/// A set on its way out.
struct Retired(*mut Arc<SplitSet>);

// SAFETY: a set may be dropped by any thread: it is made of what may be sent.
unsafe impl Send for Retired {}

impl Retired {
    /// # Safety
    /// It came from a box, and no thread uses it any more.
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Drop for Splits {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        if !current.is_null() {
            // SAFETY: it came from a box, and the store is not shared any more.
            unsafe { Retired(current).free() };
        }
    }
}

/// One worker context's slices of all split columns.
pub(crate) struct Slices {
    totals: UnsafeCell<Totals>,
    /// What went into the slices in even epochs and in odd ones, for the log.
    parts: [UnsafeCell<Part>; 2],
    /// Whether there is anything in the parts: for the log stage's look without a seal.
    filled: [AtomicBool; 2],
    /// The phase that `writes` is about.
    phase: AtomicU64,
    /// How many operations each slice has taken: for the coordinator's look at any time.
    writes: [AtomicU64; SPLIT_MAX],
}

/// The most columns that are split at once.
pub(crate) const SPLIT_MAX: usize = 64;

// SAFETY: the cells are touched by one thread at a time, in turns that the commit sections and the gate order: see the
// module's description.
unsafe impl Sync for Slices {}

/// What a worker context's slices have come to since the phase began.
#[derive(Default)]
pub(crate) struct Totals {
    phase: u64,
    slices: Vec<Slice>,
    /// For each of them, its quota.
    quotas: Vec<Quota>,
    /// The stamp of the last call that changed a slice.
    highest: Stamp,
    /// Memory for merging.
    buffer: Vec<u8>,
}

/// What a worker context's slices have taken in one epoch.
#[derive(Default)]
struct Part {
    /// What its slices are of; none: it is empty.
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

    /// Puts an operand into a slice, if it fits; gives back what the slice was before.
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

    /// As [`take`](Self::take), of an integer that an integer column's slice can take directly, within its quota; gives
    /// back what the slice was before.
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

/// What an operand takes in the log at most, beside its own bytes and its record's key.
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
    /// As for [`totals`](Self::totals).
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

    /// How many operations the column of this number has taken in this phase.
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
    /// As for [`log`](Self::log).
    pub(crate) unsafe fn count(&self, charged: usize, stamp: Stamp) {
        // SAFETY: the caller's promise.
        let part = unsafe { &mut *self.parts[(stamp.epoch() & 1) as usize].get() };
        part.transactions += 1;
        part.charged += charged;
    }

    /// Whether anything went into the slices in this epoch, or in the one before the last.
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
