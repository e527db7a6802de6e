//! Writes that leave a transaction's write set and enter another one: those of a session, between its accesses.
//!
//! Invariants: what enters says about a record exactly what it said when it left. Values own their bytes, so that nothing
//! depends on the pin, the arena or the records of the attempt that made them.

use super::{Kind, WriteSet};
use crate::operation::Operation;
use crate::storage::record::RecordPointer;
use crate::storage::row::{RowLayout, byte_length};
use crate::storage::table::TableCore;
use crate::types::{Value, ValueRef};

/// One buffered write that owns its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CarriedWrite {
    /// A whole row: its words, and behind them the bytes of long values (see `row::aside`).
    Insert(Box<[u8]>),
    /// The record is deleted.
    Delete,
    /// A column is set.
    Set { column: u16, value: Box<Value> },
    /// A column is changed by an operation.
    Operate { column: u16, operation: Operation, operand: Box<Value> },
    /// A column holds a number within these bounds.
    Bound { column: u16, bounds: Box<(i64, i64)> },
}

/// A session keeps one for each write.
const _: () = assert!(size_of::<CarriedWrite>() <= 24);

impl CarriedWrite {
    /// The most bytes that its values have.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            CarriedWrite::Insert(row) => row.len(),
            CarriedWrite::Set { value, .. } | CarriedWrite::Operate { operand: value, .. } => {
                byte_length((&**value).into())
            }
            CarriedWrite::Delete | CarriedWrite::Bound { .. } => 0,
        }
    }

    /// The one column that it writes; `None`: the whole row.
    pub(crate) fn column(&self) -> Option<u16> {
        match self {
            CarriedWrite::Insert(_) | CarriedWrite::Delete => None,
            CarriedWrite::Set { column, .. }
            | CarriedWrite::Operate { column, .. }
            | CarriedWrite::Bound { column, .. } => Some(*column),
        }
    }

    /// Gives a row of a table the added columns of a later definition, or takes those away that an earlier one lacks.
    pub(crate) fn redefine(&mut self, from: &RowLayout, to: &RowLayout) {
        let CarriedWrite::Insert(row) = self else { return };
        let (words, aside) = row.split_at(size_of::<u64>() * from.words());
        let mut words: Vec<u64> = words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let mut aside = aside.to_vec();
        words.resize(to.words(), 0);
        to.complete_aside(&mut words, from.len(), &mut aside);
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        *row = words.chain(aside.iter().copied()).collect();
    }
}

impl WriteSet {
    /// The writes to the record at `position`, without the first `skip` ones.
    pub(crate) fn carry_out(&self, position: usize, skip: usize) -> impl Iterator<Item = CarriedWrite> {
        let layout = self.touched[position].table().layout();
        self.chain(position).skip(skip).map(|kind| match *kind {
            Kind::Insert { words } => CarriedWrite::Insert(self.carry_row_out(layout, words as usize)),
            Kind::Delete => CarriedWrite::Delete,
            Kind::Set { column, value } => {
                CarriedWrite::Set { column, value: Box::new(self.value(value).to_value()) }
            }
            Kind::Operate { column, operation, operand } => {
                CarriedWrite::Operate { column, operation, operand: Box::new(self.value(operand).to_value()) }
            }
            Kind::Bound { column, low, high } => {
                CarriedWrite::Bound { column, bounds: Box::new((low, high)) }
            }
        })
    }

    /// For each write to the record at `position`, without the first `skip` ones: true if a whole row is inserted, and the one
    /// column that it writes, if it is one.
    pub(crate) fn seen_writes(
        &self,
        position: usize,
        skip: usize,
    ) -> impl Iterator<Item = (bool, Option<u16>)> {
        self.chain(position).skip(skip).map(|kind| match *kind {
            Kind::Insert { .. } => (true, None),
            Kind::Delete => (false, None),
            Kind::Set { column, .. } | Kind::Operate { column, .. } | Kind::Bound { column, .. } => {
                (false, Some(column))
            }
        })
    }

    /// The row whose words begin at `start`.
    fn carry_row_out(&self, layout: &RowLayout, start: usize) -> Box<[u8]> {
        let mut words: smallvec::SmallVec<[u64; 32]> = self.words[start..start + layout.words()].into();
        let mut aside = Vec::new();
        layout.move_aside(&mut words, &self.bytes, &mut aside);
        let mut row = Vec::with_capacity(size_of_val(&words[..]) + aside.len());
        words.iter().for_each(|word| row.extend_from_slice(&word.to_ne_bytes()));
        row.extend_from_slice(&aside);
        row.into_boxed_slice()
    }

    /// Buffers a row that was carried out of another set.
    fn carry_row_in(&mut self, table: &TableCore, record: RecordPointer, is_new: bool, row: &[u8]) {
        let (start, layout) = (self.words.len(), table.layout());
        let (words, aside) = row.split_at(size_of::<u64>() * layout.words());
        self.words.extend(words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
        layout.shift_aside(&mut self.words[start..], self.bytes.len());
        self.bytes.extend_from_slice(aside);
        let kind = Kind::Insert { words: start as u32 };
        if is_new { self.push_first(table, record, kind) } else { self.push(table, record, kind) }
    }

    /// Buffers writes to a record that were carried out of another set, and that are the first ones to it here.
    pub(crate) fn carry_in<'w>(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        writes: impl Iterator<Item = &'w CarriedWrite>,
    ) {
        for (at, write) in writes.enumerate() {
            match write {
                CarriedWrite::Insert(row) => self.carry_row_in(table, record, at == 0, row),
                CarriedWrite::Delete => self.delete(table, record),
                CarriedWrite::Set { column, value } => {
                    self.set(table, record, usize::from(*column), ValueRef::from(&**value));
                }
                CarriedWrite::Operate { column, operation, operand } => {
                    self.operate(table, record, usize::from(*column), *operation, ValueRef::from(&**operand));
                }
                CarriedWrite::Bound { column, bounds } => {
                    self.bound(table, record, usize::from(*column), **bounds);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::storage::rig::Rig;
    use crate::storage::word::PLACEHOLDER;
    use crate::storage::write_set::Effect;
    use crate::types::DataType;

    fn row(set: &WriteSet, position: usize, present: bool) -> (Effect, Vec<Value>) {
        let layout = set.touched()[position].table().layout();
        let (arena, mut row) = (Bump::new(), vec![0; layout.words()]);
        let effect = set.apply(position, layout, &mut row, present, &arena).expect("it fits");
        // SAFETY: the row's blocks are in the arena.
        (effect, unsafe { layout.values(&row) })
    }

    #[test]
    fn writes_mean_the_same_in_the_set_that_they_enter() {
        let definition = TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64);
        let rig = Rig::new(definition.column("name", DataType::Text).primary_key(["id"]));
        let table = &*rig.table;
        let records: Vec<_> = (0..2).map(|at| RecordPointer::allocate(PLACEHOLDER, &[at as u8], 3)).collect();
        let mut first = WriteSet::default();
        let long = "a name that lies in a block of its own";
        first.insert(
            table,
            records[0],
            [ValueRef::Int(1), ValueRef::Int(2), ValueRef::Text(long)].into_iter(),
        );
        first.operate(table, records[0], 1, Operation::Add, ValueRef::Int(40));
        first.set(table, records[1], 1, ValueRef::Int(9));
        first.delete(table, records[1]);
        first.insert(
            table,
            records[1],
            [ValueRef::Int(2), ValueRef::Null, ValueRef::Text("short")].into_iter(),
        );
        let carry = |set: &WriteSet, at, skip| set.carry_out(at, skip).collect::<Vec<_>>();
        let carried = [carry(&first, 0, 0), carry(&first, 1, 0)];
        let mut second = WriteSet::default();
        // In another order, and behind the set's own writes.
        second.carry_in(table, records[1], carried[1].iter());
        second.carry_in(table, records[0], carried[0].iter());
        assert_eq!(row(&second, 1, false), row(&first, 0, false));
        assert_eq!(row(&second, 0, true), row(&first, 1, true));
        assert_eq!(carry(&second, 0, 0), carried[1]);
        assert_eq!(carry(&second, 1, 1), carried[0][1..]);
        let whole = [Value::Int(1), Value::Int(42), Value::Text(long.to_string())];
        assert_eq!(row(&second, 1, false), (Effect::Row, whole.to_vec()));
        // SAFETY: made above, and not used any more.
        records.into_iter().for_each(|record| unsafe { record.free() });
    }
}
