//! The usual writes of a commit, computed without the general way's copies of rows: numbers that change, and times that are
//! set, in a row that is there; and an insert of a row where there is none.
//!
//! Invariants: the values computed here are those that [`WriteSet::apply`] would compute; whatever cannot be applied,
//! or is anything else, is left to the general way, which finds out what is to be said.
//!
//! Gain, when it was introduced: about a tenth of the instructions of a transaction that changes numbers (debit-credit, ycsb) or inserts one
//! row. `cargo bench --bench hot_path` counts what they take now.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::{Change, Pending, WriteLocking};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::operation::Operation;
use crate::storage::record::Record;
use crate::storage::row::Number;
use crate::storage::table::TableCore;
use crate::storage::write_set::{IntChange, NumberChange, WordChange, WriteSet};
use crate::types::memory::Refused;

/// Most updates change no more columns than this.
const USUAL_COLUMNS: usize = 4;

/// One word of a row that changes: its column, its position, and its new value. The column is not NULL afterwards.
#[derive(Clone, Copy)]
pub(super) struct ChangedWord {
    column: u32,
    at: u32,
    pub(super) new: u64,
}

impl ChangedWord {
    #[inline]
    fn new(column: usize, at: usize, new: i64) -> ChangedWord {
        ChangedWord { column: column as u32, at: at as u32, new: new as u64 }
    }

    /// The position of the column.
    #[inline]
    pub(super) fn column(&self) -> usize {
        self.column as usize
    }

    /// The position of the word.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at as usize
    }

    /// Changes a copy of the row.
    pub(super) fn put_into(&self, row: &mut [u64]) {
        row[self.at()] = self.new;
        row[self.column() / 64] &= !(1 << (self.column() % 64));
    }
}

/// The result of a value or an operation for one integer column of a record that is present and locked. `None` if it
/// cannot be applied, or not in this way.
#[inline(always)]
pub(super) fn changed_word(
    table: &TableCore,
    (column, change): (usize, IntChange),
    record: Record<'_>,
) -> Option<ChangedWord> {
    let number = table.layout().unchecked_number(column)?;
    if number.scale.is_some() {
        return None;
    }
    let new = match change {
        // Of a column that just gets a number it is not looked at.
        IntChange::Set(value) => value,
        IntChange::Operate(operation, operand) => {
            let row = record.row();
            if is_null(row, column) {
                return None;
            }
            operation.try_int(word_at(row, number.at), operand)?
        }
    };
    number.takes(new).then_some(ChangedWord::new(column, number.at, new))
}

/// The change of a record that is present and locked, if only numbers and times in it change.
#[inline(always)]
pub(super) fn changed_words<'a, T: WriteLocking>(
    writes: &WriteSet,
    position: usize,
    entry: &Pending<'a>,
    arena: &'a Bump,
) -> Option<Change<'a>> {
    if T::SPLITS && (!entry.sliced.is_empty() || entry.room_of_slices.is_some()) {
        return None;
    }
    // The usual case, without a call.
    let only = writes
        .only_int_change(position)
        .and_then(|change| changed_word(writes.touched()[position].table(), change, entry.record));
    match only {
        Some(only) => Some(Change::Word(only)),
        None if writes.is_only_delete(position) => None,
        None => several_changed_words(writes, position, entry.record, arena).map(Change::Words),
    }
}

/// Same as `changed_words`, by a walk over the record's writes.
#[inline(never)]
fn several_changed_words<'a>(
    writes: &WriteSet,
    position: usize,
    record: Record<'_>,
    arena: &'a Bump,
) -> Option<&'a [ChangedWord]> {
    let (layout, row) = (writes.touched()[position].table().layout(), record.row());
    let mut changed = ArenaVec::<ChangedWord>::with_capacity_in(USUAL_COLUMNS, arena);
    writes.word_changes(position, |column, change| {
        let known = changed.iter_mut().find(|other| other.column() == column);
        let (at, new) = match change {
            WordChange::Time(time) => (layout.unchecked_time(column)?, time),
            WordChange::Number(change) => {
                let number = layout.unchecked_number(column)?;
                let current = match &known {
                    Some(other) => other.new as i64,
                    // Of a column that just gets a number it is not looked at.
                    None if change.operation.is_none() => 0,
                    None if is_null(row, column) => return None,
                    None => word_at(row, number.at),
                };
                (number.at, result(number, current, change)?)
            }
        };
        match known {
            Some(other) => other.new = new as u64,
            None => changed.push(ChangedWord::new(column, at, new)),
        }
        Some(())
    })?;
    Some(changed.into_bump_slice())
}

/// The new value of a number in a column.
#[inline]
fn result(column: Number, current: i64, change: NumberChange) -> Option<i64> {
    if change.scale != column.scale {
        return None;
    }
    let new = match change.operation {
        None => change.number,
        // The product of two decimals has more digits behind the point.
        Some(Operation::Multiply) if column.scale.is_some() => return None,
        Some(operation) => operation.try_int(current, change.number)?,
    };
    column.takes(new).then_some(new)
}

/// Relaxed, here and below: the record is held, and its row was acquired with the word.
#[inline]
fn word_at(row: &[AtomicU64], at: usize) -> i64 {
    row[at].load(Ordering::Relaxed) as i64
}

#[inline]
pub(super) fn is_null(row: &[AtomicU64], column: usize) -> bool {
    row[column / 64].load(Ordering::Relaxed) >> (column % 64) & 1 == 1
}

/// The image of a row that is inserted where there is none, if that is all that is written. Its blocks are on the heap,
/// and noted in `made`.
pub(super) fn row_that_comes_in<'a>(
    writes: &WriteSet,
    position: usize,
    made: &mut ArenaVec<'a, u64>,
    arena: &'a Bump,
) -> Result<Option<&'a mut [u64]>, Refused> {
    let Some((words, aside)) = writes.only_insert(position) else { return Ok(None) };
    let image = arena.alloc_slice_copy(words);
    writes.touched()[position].table().layout().settle_in_heap(image, aside, made)?;
    Ok(Some(image))
}
