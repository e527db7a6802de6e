//! The columns that are split in one phase, and the limits of each worker context's slices of them.
//!
//! A slice is changed without a look at the record or at other slices, so an operation must be known to fit whatever
//! the others do: each worker context has a share of the room in the row and of the distance to the column's bounds.
//! Within its share it needs no coordination; what exceeds it waits for the joined phase.
//!
//! Invariants: the columns of a set never change, from the marking of its records to their merge; the shares of all
//! worker contexts together exceed no limit.

use std::sync::Arc;

use super::SPLIT_MAX;
use super::escrow::{Escrow, Quota};
use crate::operation::Operation;
use crate::storage::record::RecordPointer;
use crate::storage::row::{MAXIMAL_ROW_BYTES, byte_length};
use crate::storage::slice::Slice;
use crate::storage::table::TableCore;
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
    /// The number of bytes outside of words that the record's values had when it was split.
    row_bytes: usize,
    pub(super) allowance: Allowance,
    /// The numbers between which additions keep the value while it is split.
    bounds: Quota,
    /// The number of bytes that all slices together may add to the row; `None` if values of this column have no bytes
    /// outside of words.
    room: Option<usize>,
}

/// The totals of a worker context that a split column allows.
pub(super) enum Allowance {
    /// Those that the operation finds out by a close look.
    Judged,
    /// Numbers in this range: those of operations that keep one of the values that there are.
    Within(Quota),
    /// Sums within a quota of the distances to the bounds.
    Escrow(Escrow),
}

impl Allowance {
    /// The quota that a worker context begins with.
    pub(super) fn first_quota(&self) -> Quota {
        match self {
            // No total is within it.
            Allowance::Judged => (1, 0),
            Allowance::Within(range) => *range,
            Allowance::Escrow(_) => (0, 0),
        }
    }

    /// Returns true if this total is within the quota, which is renewed if it can be.
    #[inline]
    pub(super) fn admits(&self, quota: &mut Quota, total: i64) -> bool {
        quota.0 <= total && total <= quota.1
            || matches!(self, Allowance::Escrow(escrow) if escrow.renew(quota, total))
    }
}

/// The columns that are split in one split phase.
pub(crate) struct SplitSet {
    /// The number of the phase: it only rises.
    pub(super) phase: u64,
    /// The first epoch of the phase.
    pub(super) since: u64,
    /// The number of worker contexts that share the room of columns.
    parties: usize,
    /// Columns of one record are next to each other.
    pub(super) columns: Vec<SplitColumn>,
    /// The first of each record's columns, and their number.
    by_record: Places,
}

/// A map from a record to its split columns: few records, looked up at every access to one of them.
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
        guard: Option<Quota>,
    ) -> SplitColumn {
        let own = table.layout().column(column).bounds();
        let number = number_of((&base).into(), &table.layout().column(column).data_type);
        // A guard that the value itself does not meet guards nothing until it does.
        let guard =
            guard.filter(|(low, high)| number.is_some_and(|number| *low <= number && number <= *high));
        let bounds = guard.map_or(own, |(low, high)| (low.max(own.0), high.min(own.1)));
        let allowance = Allowance::Judged;
        SplitColumn { table, key, record, column, operation, base, row_bytes, allowance, bounds, room: None }
    }

    /// Returns true if nothing is left of the distance between the value and the bounds that operations ask for.
    pub(crate) fn is_at_guard(&self, guard: Option<Quota>) -> bool {
        let base = number_of((&self.base).into(), self.data_type());
        guard.zip(base).is_some_and(|((low, high), base)| base <= low || high <= base)
    }

    /// Returns true if the value is within these bounds as long as the column is split.
    pub(crate) fn guarantees(&self, (low, high): Quota) -> bool {
        matches!(self.allowance, Allowance::Escrow(_)) && low <= self.bounds.0 && self.bounds.1 <= high
    }

    pub(super) fn data_type(&self) -> &DataType {
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

    /// The number of bytes that these columns' slices may add to their record's row; `None` if they can add none.
    pub(crate) fn room(columns: &[SplitColumn]) -> Option<usize> {
        columns.iter().filter_map(|column| column.room).reduce(usize::saturating_add)
    }

    /// Returns true if the worker context of this number may have this total of a column, whatever the others have.
    #[inline]
    pub(super) fn fits(
        &self,
        number: usize,
        total: &Slice,
        worker_context: usize,
        quota: &mut Quota,
    ) -> bool {
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

/// The totals that a column which holds a number in one word may have.
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
        Operation::Add => Allowance::Escrow(Escrow::new(base, column.bounds, parties)),
        // The value stays where an operand lies on its other side.
        Operation::Max => Allowance::Within((i64::MIN, bounds.1)),
        Operation::Min => Allowance::Within((bounds.0, i64::MAX)),
        Operation::Multiply | Operation::OrderedPut | Operation::TopKInsert => Allowance::Judged,
    }
}

/// The number as a column of this type holds it in one word; `None` if it does not.
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
