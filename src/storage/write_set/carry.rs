//! Writes that leave a transaction's write set and enter another one: those of a session, between its accesses.
//!
//! Invariants: what enters says about a record exactly what it said when it left. Values own their bytes, so that nothing
//! depends on the pin, the arena or the records of the attempt that made them.

use bumpalo::Bump;

use super::{Kind, WriteSet};
use crate::operation::Operation;
use crate::storage::record::RecordPointer;
use crate::storage::row::byte_length;
use crate::storage::table::TableCore;
use crate::types::{Value, ValueRef};

/// One buffered write that owns its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CarriedWrite {
    /// A whole row: one value for each column.
    Insert(Box<[Value]>),
    /// The record is deleted.
    Delete,
    /// A column is set.
    Set { column: u16, value: Value },
    /// A column is changed by an operation.
    Operate { column: u16, operation: Operation, operand: Value },
}

impl CarriedWrite {
    /// How many bytes its values have.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            CarriedWrite::Insert(values) => values.iter().map(|value| byte_length(value.into())).sum(),
            CarriedWrite::Set { value, .. } | CarriedWrite::Operate { operand: value, .. } => {
                byte_length(value.into())
            }
            CarriedWrite::Delete => 0,
        }
    }
}

impl WriteSet {
    /// The writes to the record at `position`, without the first `skip` ones.
    pub(crate) fn carry_out(&self, position: usize, skip: usize) -> Vec<CarriedWrite> {
        let layout = self.touched[position].table().layout();
        let arena = Bump::new();
        let carry = |kind: &Kind| match *kind {
            Kind::Insert { words } => {
                let start = words as usize;
                let row = arena.alloc_slice_copy(&self.words[start..start + layout.words()]);
                layout.settle_in_arena(row, &self.bytes, &arena).unwrap_or_else(|refused| refused.abort());
                // SAFETY: the row's blocks are in the arena, which outlives the copies of its values.
                CarriedWrite::Insert(unsafe { layout.values(row) }.into_boxed_slice())
            }
            Kind::Delete => CarriedWrite::Delete,
            Kind::Set { column, value } => CarriedWrite::Set { column, value: self.value(value).to_value() },
            Kind::Operate { column, operation, operand } => {
                CarriedWrite::Operate { column, operation, operand: self.value(operand).to_value() }
            }
        };
        self.chain(position).skip(skip).map(carry).collect()
    }

    /// Buffers writes to a record that were carried out of another set.
    pub(crate) fn carry_in(&mut self, table: &TableCore, record: RecordPointer, writes: &[CarriedWrite]) {
        for write in writes {
            match write {
                CarriedWrite::Insert(values) => {
                    self.insert(table, record, values.iter().map(ValueRef::from));
                }
                CarriedWrite::Delete => self.delete(table, record),
                CarriedWrite::Set { column, value } => {
                    self.set(table, record, usize::from(*column), value.into());
                }
                CarriedWrite::Operate { column, operation, operand } => {
                    self.operate(table, record, usize::from(*column), *operation, operand.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        let carried = [first.carry_out(0, 0), first.carry_out(1, 0)];
        let mut second = WriteSet::default();
        // In another order, and behind writes of its own.
        second.carry_in(table, records[1], &carried[1]);
        second.carry_in(table, records[0], &carried[0]);
        assert_eq!(row(&second, 1, false), row(&first, 0, false));
        assert_eq!(row(&second, 0, true), row(&first, 1, true));
        assert_eq!(second.carry_out(0, 0), carried[1]);
        assert_eq!(second.carry_out(1, 1), carried[0][1..]);
        let whole = [Value::Int(1), Value::Int(42), Value::Text(long.to_string())];
        assert_eq!(row(&second, 1, false), (Effect::Row, whole.to_vec()));
        // SAFETY: made above, and not used any more.
        records.into_iter().for_each(|record| unsafe { record.free() });
    }
}
