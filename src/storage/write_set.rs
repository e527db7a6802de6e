//! The writes that a call has buffered: nothing of them is in any record yet.
//!
//! Writes are kept in the order in which they were made, each linked to the next one on the same record, so that a
//! savepoint is one length and rolling back is a few truncations. Values are kept in the set's own byte buffer:
//! a set is used again by the next call without allocating.

mod append;
mod bound;
mod carry;
mod places;
#[cfg(test)]
mod tests;
mod until;

use bumpalo::Bump;

use self::bound::check_bound;
use self::places::Places;
use crate::error::{Error, Result};
use crate::operation::{Applied, Operation};
use crate::storage::record::RecordPointer;
use crate::storage::row::{ColumnLayout, RowLayout, byte_length};
use crate::storage::table::TableCore;
use crate::types::memory::{Refused, reserve};
use crate::types::{Date, Decimal, Timestamp, Uuid, ValueRef};

mod word_updates;
pub(crate) use carry::CarriedWrite;
pub(crate) use until::Until;
pub(crate) use word_updates::{NumberChange, WordChange};

const NONE: u32 = u32::MAX;
/// The most bytes that one call's writes may take.
const MAXIMAL_BYTES: usize = if cfg!(test) { 16 << 20 } else { 1 << 30 };
/// The most bytes of an operation's result beside those of value and operand.
const OPERATION_BYTES: usize = 64;
/// The number of records up to which a linear search is as fast as a table.
const FEW: usize = 8;
/// Spreads addresses of records over the bits of the filter.
const FILTER_MULTIPLIER: u64 = 0x61C8_8647;

/// All buffered writes of one call.
#[derive(Default)]
pub(crate) struct WriteSet {
    touched: Vec<Touched>,
    writes: Vec<Write>,
    /// The words of inserted rows; long values lie in `bytes` (see `row::aside`).
    words: Vec<u64>,
    bytes: Vec<u8>,
    /// The positions of records among those touched, if these are more than a few.
    places: Places,
    /// The bits of the records touched (see [`filter_bit`]), and perhaps of some that were: a record whose bit is not set is
    /// not among them. Most records that a call looks at it has not written.
    filter: u64,
    /// The number of writes that were ever made in this set: distinguishes marks of writes that are gone from those
    /// that hold.
    made: u64,
}

/// A record that the call writes.
#[derive(Clone, Copy)]
pub(crate) struct Touched {
    pub(crate) record: RecordPointer,
    table: *const TableCore,
    first: u32,
    last: u32,
}

// SAFETY: the table pointers are only used under `Touched::table`'s condition; the rest is plain data.
unsafe impl Send for WriteSet {}

#[derive(Clone, Copy)]
struct Write {
    touched: u32,
    previous: u32,
    next: u32,
    kind: Kind,
    /// The existence of the row by the record's writes up to this one; `None` if they leave it as it was.
    presence: Option<bool>,
    /// The ends of the words and the bytes of the writes up to this one.
    words_end: u32,
    bytes_end: u32,
    /// Its number among all writes ever made in this set.
    number: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A whole row, whose words begin here.
    Insert { words: u32 },
    /// The record is deleted.
    Delete,
    /// A column gets a value.
    Set { column: u16, value: Stored },
    /// A column is changed by an operation.
    Operate { column: u16, operation: Operation, operand: Stored },
    /// A column holds a number within these bounds, in its own unit, after the writes so far. It changes nothing.
    Bound { column: u16, low: i64, high: i64 },
}

/// A transaction has one for each write.
const _: () = assert!(size_of::<Write>() <= 64);

/// The number that a [`Stored::Decimal`] is.
fn decimal([upper, lower]: [u64; 2], scale: u8) -> Decimal {
    Decimal::from_stored((u128::from(upper) << 64 | u128::from(lower)) as i128, scale)
}

/// A value whose bytes, if it has any, lie in the set's buffer.
#[derive(Clone, Copy)]
enum Stored {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Its unscaled digits, upper and lower half, and its scale: as an `i128` it would make each write twice as long.
    Decimal([u64; 2], u8),
    Date(Date),
    Timestamp(Timestamp),
    Uuid(Uuid),
    Text(u32, u32),
    Bytes(u32, u32),
    Tuple(u32, u32),
    TopK(u32, u32),
}

/// A row that was composed before it is known whether it will be inserted: the beginnings of its words and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Composed {
    words: u32,
    bytes: u32,
}

/// A point in a call's writes to which it can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    writes: usize,
    /// The number of the last write before it.
    last: u64,
}

/// One write, as it is looked at.
pub(crate) enum WriteView<'w> {
    /// A whole row is inserted.
    Insert,
    /// The record is deleted.
    Delete,
    /// A column gets a value.
    Set { column: usize },
    /// A column is changed by an operation.
    Operate { column: usize, operation: Operation, operand: ValueRef<'w> },
    /// A column holds a number within these bounds.
    Bound { column: usize, bounds: (i64, i64) },
}

/// A write to an integer column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntChange {
    /// The column gets this value, which has been checked.
    Set(i64),
    /// The column is changed by an operation with this operand.
    Operate(Operation, i64),
}

impl IntChange {
    #[inline]
    fn of_column(self, column: usize) -> Kind {
        let column = column as u16;
        match self {
            IntChange::Set(value) => Kind::Set { column, value: Stored::Int(value) },
            IntChange::Operate(operation, operand) => {
                Kind::Operate { column, operation, operand: Stored::Int(operand) }
            }
        }
    }
}

/// The effect of the writes to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// There is a row, and this is the whole of it.
    Row,
    /// There was a row, and some of its columns have changed.
    Changed,
    /// There is no row.
    Gone,
}

impl WriteSet {
    /// Returns true if nothing is written.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The records written, in the order in which they were first touched.
    #[inline]
    pub(crate) fn touched(&self) -> &[Touched] {
        &self.touched
    }

    /// The number of records that it has memory for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.touched.capacity()
    }

    /// Forgets everything, and frees its memory. Marks of earlier writes stay void.
    pub(crate) fn free(&mut self) {
        *self = WriteSet { made: self.made, ..WriteSet::default() };
    }

    /// Refuses to grow beyond what one transaction may hold.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`].
    #[inline]
    pub(crate) fn check_size(&self) -> Result<()> {
        let bytes =
            self.bytes.len() + self.words.len() * size_of::<u64>() + self.writes.len() * size_of::<Write>();
        check_bytes(bytes)
    }

    /// Makes room for a statement that writes to one record, which brings words and bytes of this number.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[inline]
    pub(crate) fn reserve(&mut self, words: usize, bytes: usize) -> Result<()> {
        let reserved = reserve(&mut self.touched, 1)
            .and_then(|()| reserve(&mut self.writes, 1))
            .and_then(|()| reserve(&mut self.words, words))
            .and_then(|()| reserve(&mut self.bytes, bytes));
        reserved.map_err(Refused::error)
    }

    /// The number of bytes of the written values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.bytes.clear();
        self.clear_writes();
    }

    /// Forgets what was written, but not a row that was put together and is not written yet: for the thread that
    /// installs writes in the middle of a statement, as a canary does.
    #[inline]
    pub(crate) fn clear_writes(&mut self) {
        self.touched.clear();
        self.writes.clear();
        self.places.clear();
        self.filter = 0;
    }

    /// The point before all writes.
    pub(crate) fn beginning() -> Mark {
        Mark { writes: 0, last: 0 }
    }

    /// The point reached.
    pub(crate) fn mark(&self) -> Mark {
        Mark { writes: self.writes.len(), last: self.writes.last().map_or(0, |write| write.number) }
    }

    /// Takes back every write made since the mark. Returns true if the mark still holds: where writes before it have
    /// been taken back, nothing is done, since it may lie in the middle of another statement's writes by now.
    pub(crate) fn truncate(&mut self, mark: Mark) -> bool {
        let before = mark.writes.checked_sub(1).map(|last| self.writes.get(last));
        if before.is_some_and(|write| write.is_none_or(|write| write.number != mark.last)) {
            return false;
        }
        while self.writes.len() > mark.writes {
            let Some(write) = self.writes.pop() else { break };
            if write.previous == NONE {
                // It was the record's first write, so the record was touched last of those that remain.
                self.places.forget_last(&self.touched);
                self.touched.pop();
            } else {
                self.writes[write.previous as usize].next = NONE;
                self.touched[write.touched as usize].last = write.previous;
            }
        }
        let ends = self.writes.last().map_or((0, 0), |write| (write.words_end, write.bytes_end));
        self.words.truncate(ends.0 as usize);
        self.bytes.truncate(ends.1 as usize);
        true
    }

    /// Takes the last write back.
    #[cold]
    pub(crate) fn take_back_last(&mut self) {
        let writes = self.writes.len().saturating_sub(1);
        let last = writes.checked_sub(1).map_or(0, |at| self.writes[at].number);
        self.truncate(Mark { writes, last });
    }

    /// The position of the record among those touched.
    #[inline(always)]
    pub(crate) fn position(&self, record: RecordPointer) -> Option<usize> {
        // A transaction that wrote a record often writes it again; and most transactions write none.
        let last = self.touched.last()?;
        if last.record == record {
            return Some(self.touched.len() - 1);
        }
        if self.filter & filter_bit(record) == 0 {
            return None;
        }
        self.position_of_several(record)
    }

    #[inline(never)]
    fn position_of_several(&self, record: RecordPointer) -> Option<usize> {
        if self.touched.len() <= FEW {
            return self.touched.iter().position(|touched| touched.record == record);
        }
        self.position_of_many(record)
    }

    #[inline(never)]
    fn position_of_many(&self, record: RecordPointer) -> Option<usize> {
        self.places.find(record, &self.touched)
    }

    /// Returns true if the record at this position was inserted only after the mark, where there was no row.
    pub(crate) fn came_since(&self, position: usize, mark: Mark) -> bool {
        let first = self.touched[position].first as usize;
        first >= mark.writes && matches!(self.writes[first].kind, Kind::Insert { .. })
    }

    /// The records whose first write is an insert that was made since the mark.
    pub(crate) fn inserted_since(&self, mark: Mark) -> impl Iterator<Item = &Touched> {
        let touched =
            self.touched.iter().rev().take_while(move |touched| touched.first as usize >= mark.writes);
        touched.filter(|touched| matches!(self.writes[touched.first as usize].kind, Kind::Insert { .. }))
    }

    /// Buffers the insert of this row.
    pub(crate) fn insert<'v>(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) {
        let (start, layout) = (self.words.len(), table.layout());
        self.words.resize(start + layout.words(), 0);
        for (column, value) in values.enumerate() {
            layout.put_aside(&mut self.words[start..], column, value, &mut self.bytes);
        }
        self.push(table, record, Kind::Insert { words: start as u32 });
    }

    /// Composes a row that may be inserted, ahead of its record; `None` if it is not a usual one, or not one for this
    /// table. Either [`insert_composed`](Self::insert_composed) or [`discard`](Self::discard) follows, or the writes are
    /// taken back; until then the set is not cleared.
    pub(crate) fn compose(&mut self, layout: &RowLayout, values: &[ValueRef<'_>]) -> Option<Composed> {
        let composed = Composed { words: self.words.len() as u32, bytes: self.bytes.len() as u32 };
        let start = self.words.len();
        self.words.resize(start + layout.words(), 0);
        if layout.put_usual_row(&mut self.words[start..], values, &mut self.bytes) {
            return Some(composed);
        }
        self.discard(composed);
        None
    }

    /// Forgets a row that was put together last. Where writes were buffered since, as a session's are at its first
    /// look at a key, its memory stays until they are taken back.
    pub(crate) fn discard(&mut self, composed: Composed) {
        let ends = self.writes.last().map_or((0, 0), |write| (write.words_end, write.bytes_end));
        if ends.0 <= composed.words && ends.1 <= composed.bytes {
            self.words.truncate(composed.words as usize);
            self.bytes.truncate(composed.bytes as usize);
        }
    }

    /// Buffers the insert of the composed row. `is_new`: its record is one that the call has just made.
    pub(crate) fn insert_composed(
        &mut self,
        table: &TableCore,
        (record, is_new): (RecordPointer, bool),
        composed: Composed,
    ) {
        let kind = Kind::Insert { words: composed.words };
        if is_new { self.push_first(table, record, kind) } else { self.push(table, record, kind) }
    }

    /// Buffers a delete of the record.
    pub(crate) fn delete(&mut self, table: &TableCore, record: RecordPointer) {
        self.push(table, record, Kind::Delete);
    }

    /// Buffers a new value of a column, which has been checked.
    #[inline]
    pub(crate) fn set(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        column: usize,
        value: ValueRef<'_>,
    ) {
        let value = self.store(value);
        self.push(table, record, Kind::Set { column: column as u16, value });
    }

    /// Buffers an operation on a column, whose operand has been checked.
    #[inline]
    pub(crate) fn operate(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        column: usize,
        operation: Operation,
        operand: ValueRef<'_>,
    ) {
        let operand = self.store(operand);
        self.push(table, record, Kind::Operate { column: column as u16, operation, operand });
    }

    /// Buffers a change of an integer column of a record that has not been written yet.
    #[inline(always)]
    pub(crate) fn change_int_first(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        column: usize,
        change: IntChange,
    ) {
        self.push_first(table, record, change.of_column(column));
    }

    /// Buffers a change of an integer column of the record at this position.
    #[inline]
    pub(crate) fn change_int(&mut self, position: usize, column: usize, change: IntChange) {
        self.push_behind(position, change.of_column(column));
    }

    #[inline]
    fn push(&mut self, table: &TableCore, record: RecordPointer, kind: Kind) {
        match self.position(record) {
            Some(position) => self.push_behind(position, kind),
            None => self.push_first(table, record, kind),
        }
    }

    /// Buffers the first write to a record.
    // Always: it is the usual write, and a separate call was a tenth of its cost.
    #[inline(always)]
    fn push_first(&mut self, table: &TableCore, record: RecordPointer, kind: Kind) {
        debug_assert!(self.position(record).is_none());
        let touched = self.touch(table, record, self.writes.len() as u32);
        self.push_linked((touched, NONE), kind, None);
    }

    /// Buffers one more write to the record at this position.
    #[inline]
    fn push_behind(&mut self, position: usize, kind: Kind) {
        let touched = &mut self.touched[position];
        let previous = std::mem::replace(&mut touched.last, self.writes.len() as u32);
        let before = &mut self.writes[previous as usize];
        before.next = touched.last;
        let presence = before.presence;
        self.push_linked((position as u32, previous), kind, presence);
    }

    #[inline(always)]
    fn push_linked(&mut self, (touched, previous): (u32, u32), kind: Kind, before: Option<bool>) {
        let presence = match kind {
            Kind::Insert { .. } => Some(true),
            Kind::Delete => Some(false),
            Kind::Set { .. } | Kind::Operate { .. } | Kind::Bound { .. } => before,
        };
        self.made += 1;
        self.writes.push(Write {
            touched,
            previous,
            next: NONE,
            kind,
            presence,
            words_end: self.words.len() as u32,
            bytes_end: self.bytes.len() as u32,
            number: self.made,
        });
    }

    #[inline(always)]
    fn touch(&mut self, table: &TableCore, record: RecordPointer, write: u32) -> u32 {
        let position = self.touched.len() as u32;
        self.touched.push(Touched { record, table, first: write, last: write });
        self.note_place(record);
        position
    }

    /// Notes the position of the record that was touched last.
    #[inline(always)]
    fn note_place(&mut self, record: RecordPointer) {
        self.filter |= filter_bit(record);
        if self.touched.len() > FEW {
            self.places.note(&self.touched);
        }
    }

    #[inline]
    fn store(&mut self, value: ValueRef<'_>) -> Stored {
        match value {
            ValueRef::Int(value) => Stored::Int(value),
            other => self.store_any(other),
        }
    }

    fn store_any(&mut self, value: ValueRef<'_>) -> Stored {
        match value {
            ValueRef::Null => Stored::Null,
            ValueRef::Bool(value) => Stored::Bool(value),
            ValueRef::Int(value) => Stored::Int(value),
            ValueRef::Float(value) => Stored::Float(value),
            ValueRef::Decimal(value) => {
                let unscaled = value.unscaled() as u128;
                Stored::Decimal([(unscaled >> 64) as u64, unscaled as u64], value.scale())
            }
            ValueRef::Date(value) => Stored::Date(value),
            ValueRef::Timestamp(value) => Stored::Timestamp(value),
            ValueRef::Uuid(value) => Stored::Uuid(value),
            ValueRef::Text(text) => self.store_bytes(text.as_bytes(), Stored::Text),
            ValueRef::Bytes(bytes) => self.store_bytes(bytes, Stored::Bytes),
            ValueRef::Tuple(bytes) => self.store_bytes(bytes, Stored::Tuple),
            ValueRef::TopK(bytes) => self.store_bytes(bytes, Stored::TopK),
        }
    }

    fn store_bytes(&mut self, bytes: &[u8], make: impl Fn(u32, u32) -> Stored) -> Stored {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        make(start as u32, self.bytes.len() as u32)
    }

    fn value(&self, stored: Stored) -> ValueRef<'_> {
        let slice = |start: u32, end: u32| &self.bytes[start as usize..end as usize];
        match stored {
            Stored::Null => ValueRef::Null,
            Stored::Bool(value) => ValueRef::Bool(value),
            Stored::Int(value) => ValueRef::Int(value),
            Stored::Float(value) => ValueRef::Float(value),
            Stored::Decimal(halves, scale) => ValueRef::Decimal(decimal(halves, scale)),
            Stored::Date(value) => ValueRef::Date(value),
            Stored::Timestamp(value) => ValueRef::Timestamp(value),
            Stored::Uuid(value) => ValueRef::Uuid(value),
            // It was a str when it was stored; the check is cheap beside what is done with a text.
            Stored::Text(start, end) => {
                ValueRef::Text(std::str::from_utf8(slice(start, end)).unwrap_or_default())
            }
            Stored::Bytes(start, end) => ValueRef::Bytes(slice(start, end)),
            Stored::Tuple(start, end) => ValueRef::Tuple(slice(start, end)),
            Stored::TopK(start, end) => ValueRef::TopK(slice(start, end)),
        }
    }

    /// The writes to the record at `position`, in order.
    fn chain(&self, position: usize) -> impl Iterator<Item = &Kind> {
        let mut next = self.touched[position].first;
        std::iter::from_fn(move || {
            let write = self.writes.get(next as usize)?;
            next = write.next;
            Some(&write.kind)
        })
    }

    /// Applies the writes to the record at `position` to `row`, the row that is there (`present`) or all zero.
    ///
    /// # Errors
    /// What an operation refuses (an overflow), as of this row.
    pub(crate) fn apply(
        &self,
        position: usize,
        layout: &RowLayout,
        row: &mut [u64],
        present: bool,
        arena: &Bump,
    ) -> Result<Effect> {
        self.apply_kinds(self.chain(position), layout, row, present, arena)
    }

    #[inline]
    fn apply_kinds<'w>(
        &self,
        kinds: impl Iterator<Item = &'w Kind>,
        layout: &RowLayout,
        row: &mut [u64],
        present: bool,
        arena: &Bump,
    ) -> Result<Effect> {
        let mut effect = if present { Effect::Changed } else { Effect::Gone };
        for kind in kinds {
            match *kind {
                Kind::Insert { words } => {
                    let words = words as usize;
                    row.copy_from_slice(&self.words[words..words + row.len()]);
                    layout.settle_in_arena(row, &self.bytes, arena).map_err(Refused::error)?;
                    effect = Effect::Row;
                }
                Kind::Delete => effect = Effect::Gone,
                Kind::Set { column, value } => {
                    layout.put(row, usize::from(column), self.value(value), arena).map_err(Refused::error)?;
                }
                Kind::Operate { column, operation, operand } => {
                    operate(layout, row, usize::from(column), operation, self.value(operand), arena)?;
                }
                Kind::Bound { column, low, high } => {
                    check_bound(layout, row, usize::from(column), (low, high))?
                }
            }
        }
        Ok(effect)
    }

    /// Looks at the writes to the record at `position`, in order, for as long as `visit` says so. Returns true if it
    /// did to the end.
    #[inline]
    pub(crate) fn visit<'w>(&'w self, position: usize, mut visit: impl FnMut(WriteView<'w>) -> bool) -> bool {
        self.chain(position).all(|kind| {
            visit(match *kind {
                Kind::Insert { .. } => WriteView::Insert,
                Kind::Delete => WriteView::Delete,
                Kind::Set { column, .. } => WriteView::Set { column: usize::from(column) },
                Kind::Operate { column, operation, operand } => {
                    let operand = self.value(operand);
                    WriteView::Operate { column: usize::from(column), operation, operand }
                }
                Kind::Bound { column, low, high } => {
                    WriteView::Bound { column: usize::from(column), bounds: (low, high) }
                }
            })
        })
    }

    /// Same as [`apply`](Self::apply) to a row that exists, but without the writes to these columns, which are all
    /// operations.
    ///
    /// # Errors
    /// Same errors as [`apply`](Self::apply).
    pub(crate) fn apply_but(
        &self,
        but: &[u16],
        position: usize,
        layout: &RowLayout,
        row: &mut [u64],
        arena: &Bump,
    ) -> Result<Effect> {
        for kind in self.chain(position) {
            match *kind {
                Kind::Set { column, .. } | Kind::Operate { column, .. } | Kind::Bound { column, .. }
                    if but.contains(&column) => {}
                Kind::Set { column, value } => {
                    layout.put(row, usize::from(column), self.value(value), arena).map_err(Refused::error)?;
                }
                Kind::Operate { column, operation, operand } => {
                    operate(layout, row, usize::from(column), operation, self.value(operand), arena)?;
                }
                Kind::Bound { column, low, high } => {
                    check_bound(layout, row, usize::from(column), (low, high))?
                }
                Kind::Insert { .. } | Kind::Delete => {
                    unreachable!("what brings in or deletes a split record is stashed")
                }
            }
        }
        Ok(Effect::Changed)
    }

    /// Returns true if the writes to the record at `position` leave a row, given whether there is one.
    pub(crate) fn presence(&self, position: usize, present: bool) -> bool {
        self.writes[self.touched[position].last as usize].presence.unwrap_or(present)
    }

    /// Calls `visit` with every column that the writes to the record at `position` change, once each, but for these.
    pub(crate) fn changed_columns(&self, (position, but): (usize, &[u16]), mut visit: impl FnMut(usize)) {
        let mut seen = smallvec::SmallVec::<[u16; 16]>::from_slice(but);
        for kind in self.chain(position) {
            let (Kind::Set { column, .. } | Kind::Operate { column, .. }) = *kind else { continue };
            if !seen.contains(&column) {
                seen.push(column);
                visit(usize::from(column));
            }
        }
    }

    /// Returns true if a write to the record at `position` changes a column whose values can be long.
    pub(crate) fn changes_variable_column(&self, position: usize) -> bool {
        let layout = self.touched[position].table().layout();
        self.chain(position).any(|kind| match *kind {
            Kind::Set { column, .. } | Kind::Operate { column, .. } => {
                layout.is_variable(usize::from(column))
            }
            Kind::Bound { .. } => false,
            Kind::Insert { .. } | Kind::Delete => true,
        })
    }

    /// Returns true if the column is changed by operations of this kind only; calls `visit` with their operands if so.
    pub(crate) fn operands(
        &self,
        position: usize,
        column: usize,
        operation: Operation,
        mut visit: impl FnMut(ValueRef<'_>),
    ) -> bool {
        let of_column = |kind: &Kind| match *kind {
            Kind::Set { column: other, .. } | Kind::Operate { column: other, .. } => {
                usize::from(other) == column
            }
            Kind::Bound { .. } => false,
            Kind::Insert { .. } | Kind::Delete => true,
        };
        let alike =
            |kind: &Kind| matches!(*kind, Kind::Operate { operation: other, .. } if other == operation);
        if !self.chain(position).filter(|kind| of_column(kind)).all(alike) {
            return false;
        }
        for kind in self.chain(position).filter(|kind| of_column(kind)) {
            if let Kind::Operate { operand, .. } = *kind {
                visit(self.value(operand));
            }
        }
        true
    }
}

impl Touched {
    /// The table that the record is in.
    #[inline]
    pub(crate) fn table(&self) -> &TableCore {
        // SAFETY: a call keeps every table that it writes alive until its write set is cleared: bodies reach tables
        // through handles that outlive the call, and an index's table is owned by its base table.
        unsafe { &*self.table }
    }
}

/// The bit of a record in the filter of a write set.
#[inline(always)]
fn filter_bit(record: RecordPointer) -> u64 {
    1 << (record.to_bits().wrapping_mul(FILTER_MULTIPLIER) >> 32 & 63)
}

/// Refuses writes that take more bytes than those of one transaction may.
///
/// # Errors
/// [`Error::TransactionTooLarge`].
#[inline]
pub(crate) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > MAXIMAL_BYTES { too_large(bytes) } else { Ok(()) }
}

#[cold]
fn too_large(bytes: usize) -> Result<()> {
    Err(Error::TransactionTooLarge { what: "write set", bytes, maximum: MAXIMAL_BYTES })
}

fn operate(
    layout: &RowLayout,
    row: &mut [u64],
    column: usize,
    operation: Operation,
    operand: ValueRef<'_>,
    arena: &Bump,
) -> Result<()> {
    let ColumnLayout { data_type, name, .. } = layout.column(column);
    let at_fault = |error: Error| error.in_column(name);
    if let (true, false, ValueRef::Int(operand)) =
        (layout.column(column).is_int(), layout.is_null(row, column), operand)
    {
        let word = layout.words_of(column).0.start;
        row[word] = operation.apply_int(row[word] as i64, operand, data_type).map_err(at_fault)? as u64;
        return Ok(());
    }
    // The copy keeps short values, which lie in their words, in place while the row changes.
    let words = arena.alloc_slice_copy(row);
    // SAFETY: the row is the call's own image: its blocks are in the call's arena, or belong to the installed row,
    // which the call is pinned for.
    let current = unsafe { layout.value(words, column) };
    let mut buffer = Vec::new();
    // No result is longer than both together, and what a set of one entry adds.
    reserve(&mut buffer, byte_length(current) + byte_length(operand) + OPERATION_BYTES)
        .map_err(Refused::error)?;
    match operation.apply(current, operand, data_type, &mut buffer).map_err(at_fault)? {
        Applied::Unchanged => {}
        changed => layout.put(row, column, changed.value(current, &buffer), arena).map_err(Refused::error)?,
    }
    Ok(())
}
