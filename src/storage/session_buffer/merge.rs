//! Merging of a write into an earlier one of the same column.
//!
//! Invariants: a merged write does to every row what the two writes would do one after the other, and fails for exactly those rows
//! for which one of them would. Between the two are only writes to other columns, which neither sees nor changes what they do. (If
//! operations on two columns of a row fail, the error may name the other one.)

use super::{NONE, SessionBuffer};
use crate::operation::{Applied, Operation, merge_summands};
use crate::storage::write_set::CarriedWrite;
use crate::types::{DataType, Value};

impl SessionBuffer {
    /// Merges a write to a key into some that were made since the savepoint; `last`: the last one to that key. Returns true
    /// if it was merged.
    pub(super) fn merge(
        &mut self,
        (table, last): (u32, u32),
        write: &CarriedWrite,
        savepoint: usize,
    ) -> bool {
        let Some(column) = column_of(write) else { return false };
        let mut earlier = self.earlier((last, column), savepoint);
        let Some(third) = earlier.next() else { return false };
        let core = self.tables[table as usize].core.clone();
        let data_type = &core.layout().column(usize::from(column)).data_type;
        if let Some(merged) = merged(&self.log[third].write, write, data_type) {
            drop(earlier);
            self.replace(third, merged);
            return true;
        }
        let (Some(second), Some(first)) = (earlier.next(), earlier.next()) else { return false };
        drop(earlier);
        let places = [first, second, third];
        let Some(adds) = merged_adds(places.map(|at| &self.log[at].write), write, data_type) else {
            return false;
        };
        places.into_iter().zip(adds).for_each(|(at, add)| self.replace(at, add));
        true
    }

    /// The places of a key's writes to a column, the last one first, as far as nothing but writes to other columns is between
    /// them, and no savepoint.
    fn earlier(&self, (last, column): (u32, u16), savepoint: usize) -> impl Iterator<Item = usize> {
        let mut next = last;
        let since = std::iter::from_fn(move || {
            let at = usize::try_from(next).ok().filter(|&at| next != NONE && at >= savepoint)?;
            next = self.log[at].previous;
            column_of(&self.log[at].write).map(|column| (at, column))
        });
        since.fuse().filter(move |(_, other)| *other == column).map(|(at, _)| at)
    }

    fn replace(&mut self, at: usize, write: CarriedWrite) {
        let logged = &mut self.log[at].write;
        self.value_bytes = self.value_bytes + write.bytes() - logged.bytes();
        *logged = write;
    }
}

/// The one column that a write changes.
fn column_of(write: &CarriedWrite) -> Option<u16> {
    match write {
        CarriedWrite::Set { column, .. } | CarriedWrite::Operate { column, .. } => Some(*column),
        // Nothing is merged over what has to hold between two writes.
        CarriedWrite::Insert(_) | CarriedWrite::Delete | CarriedWrite::Bound { .. } => None,
    }
}

/// The write that does the same as two writes to a column of this type, if there is one.
fn merged(first: &CarriedWrite, second: &CarriedWrite, data_type: &DataType) -> Option<CarriedWrite> {
    match (first, second) {
        (CarriedWrite::Set { .. }, CarriedWrite::Set { .. }) => Some(second.clone()),
        // These two fail for no value of the column.
        (
            CarriedWrite::Operate { operation: Operation::Max | Operation::Min, .. },
            CarriedWrite::Set { .. },
        ) => Some(second.clone()),
        (CarriedWrite::Set { column, value }, CarriedWrite::Operate { operation, operand, .. }) => {
            let value = applied(*operation, value, operand, data_type)?;
            Some(CarriedWrite::Set { column: *column, value: Box::new(value) })
        }
        (
            CarriedWrite::Operate { column, operation, operand },
            CarriedWrite::Operate { operation: other, operand: behind, .. },
        ) if operation == other => {
            let operand = operation.compose((&**operand).into(), (&**behind).into(), data_type)?;
            Some(CarriedWrite::Operate { column: *column, operation: *operation, operand: Box::new(operand) })
        }
        _ => None,
    }
}

/// The three adds that do the same as three adds and one more: of sums as great, as small, and at last the same.
fn merged_adds(
    adds: [&CarriedWrite; 3],
    last: &CarriedWrite,
    data_type: &DataType,
) -> Option<[CarriedWrite; 3]> {
    let summand = |write: &CarriedWrite| match write {
        CarriedWrite::Operate { column, operation: Operation::Add, operand } => {
            Some((*column, (**operand).clone()))
        }
        _ => None,
    };
    let [first, second, third] = adds.map(summand);
    let (column, last) = summand(last)?;
    let summands = [first?.1, second?.1, third?.1, last];
    let merged = merge_summands(summands.each_ref().map(Into::into), data_type)?;
    Some(merged.map(|summand| CarriedWrite::Operate {
        column,
        operation: Operation::Add,
        operand: Box::new(summand),
    }))
}

/// The value that an operation makes of this one; `None` if it fails, or the value is a long one.
fn applied(operation: Operation, value: &Value, operand: &Value, data_type: &DataType) -> Option<Value> {
    match operation.apply(value.into(), operand.into(), data_type, &mut Vec::new()).ok()? {
        Applied::Unchanged => Some(value.clone()),
        Applied::Scalar(scalar) => Some(scalar.to_value()),
        Applied::Tuple | Applied::TopK => None,
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::error::Result;
    use crate::storage::definition::TableDefinition;
    use crate::storage::record::RecordPointer;
    use crate::storage::rig::Rig;
    use crate::storage::session_buffer::AccessWrites;
    use crate::storage::word::PLACEHOLDER;
    use crate::storage::write_set::WriteSet;
    use crate::types::Decimal;

    const KEY: &[u8] = b"a";
    const INT: u16 = 1;
    const SMALL: u16 = 2;
    const FLOAT: u16 = 3;
    const DECIMAL: u16 = 4;

    fn rig() -> Rig {
        let definition = TableDefinition::new("t").column("id", DataType::Int64);
        let definition = definition.column("int", DataType::Int64).column("small", DataType::Int32);
        let decimal = DataType::Decimal { precision: 4, scale: 1 };
        let definition = definition.column("float", DataType::Float64).column("decimal", decimal);
        Rig::new(definition.primary_key(["id"]))
    }

    fn set(column: u16, value: impl Into<Value>) -> CarriedWrite {
        CarriedWrite::Set { column, value: Box::new(value.into()) }
    }

    fn operate(column: u16, operation: Operation, operand: impl Into<Value>) -> CarriedWrite {
        CarriedWrite::Operate { column, operation, operand: Box::new(operand.into()) }
    }

    fn add(column: u16, operand: impl Into<Value>) -> CarriedWrite {
        operate(column, Operation::Add, operand)
    }

    fn decimal(unscaled: i128) -> Value {
        Value::Decimal(Decimal::from_stored(unscaled, 1))
    }

    fn buffer(rig: &Rig) -> SessionBuffer {
        let mut buffer = SessionBuffer::default();
        buffer.add_table(rig.table.clone(), true);
        buffer
    }

    fn append(buffer: &mut SessionBuffer, write: CarriedWrite, savepoint: usize) {
        let mut writes = AccessWrites::default();
        writes.push(0, KEY, [write].into_iter());
        buffer.append(writes, savepoint);
    }

    /// The writes that a session keeps of these, one for each access.
    fn kept(rig: &Rig, writes: &[CarriedWrite]) -> Vec<CarriedWrite> {
        let mut buffer = buffer(rig);
        writes.iter().for_each(|write| append(&mut buffer, write.clone(), 0));
        let kept: Vec<_> = buffer.writes_to(0, KEY).into_iter().flatten().cloned().collect();
        assert_eq!(buffer.value_bytes, kept.iter().map(CarriedWrite::bytes).sum::<usize>());
        kept
    }

    /// The row after these writes.
    fn outcome(rig: &Rig, writes: &[CarriedWrite], row: &[Value]) -> Result<Vec<Value>> {
        let (layout, arena) = (rig.table.layout(), Bump::new());
        let mut words = vec![0; layout.words()];
        for (at, value) in row.iter().enumerate() {
            layout.put(&mut words, at, value.into(), &arena).expect("memory");
        }
        let record = RecordPointer::allocate(PLACEHOLDER, KEY, layout.words());
        let mut set = WriteSet::default();
        set.carry_in(&rig.table, record, writes.iter());
        let applied = set.apply(0, layout, &mut words, true, &arena);
        // SAFETY: made above, and not used any more.
        unsafe { record.free() };
        // SAFETY: the row's blocks are in the arena.
        applied.map(|_| unsafe { layout.values(&words) })
    }

    #[test]
    fn a_row_that_is_written_sixteen_thousand_times_keeps_one_write_for_each_column() {
        let rig = rig();
        let writes: Vec<_> =
            (0..16_000).flat_map(|at| [add(INT, 1), set(SMALL, at), add(DECIMAL, decimal(0))]).collect();
        let kept = kept(&rig, &writes);
        assert_eq!(kept, [add(INT, 16_000), set(SMALL, 15_999), add(DECIMAL, decimal(0))]);
        let mut random = fastrand::Rng::with_seed(1);
        let posted: Vec<_> = (0..16_000)
            .flat_map(|_| [add(INT, random.i64(-9..=9)), add(DECIMAL, decimal(random.i128(-9..=9)))])
            .collect();
        assert_eq!(super::tests::kept(&rig, &posted).len(), 6);
        let inserted: Vec<_> = std::iter::once(CarriedWrite::Insert(Box::default()))
            .chain((0..100).map(|_| operate(INT, Operation::Max, 3)))
            .collect();
        assert_eq!(super::tests::kept(&rig, &inserted).len(), 2);
    }

    #[test]
    fn only_writes_of_one_meaning_are_merged() {
        let rig = rig();
        let kept = |writes: &[CarriedWrite]| super::tests::kept(&rig, writes);
        let unmerged = [
            vec![add(INT, 5), add(INT, -6), add(INT, 7)],
            vec![add(INT, i64::MAX), add(INT, 1)],
            vec![add(INT, 1), set(INT, 1)],
            vec![set(SMALL, 1), add(SMALL, i64::from(i32::MAX))],
            vec![add(FLOAT, 0.1), add(FLOAT, 0.2)],
            vec![operate(INT, Operation::Max, 1), operate(INT, Operation::Min, 1)],
            vec![operate(INT, Operation::Multiply, 2), operate(INT, Operation::Multiply, 0)],
            vec![set(INT, 1), CarriedWrite::Delete],
            vec![set(INT, 1), CarriedWrite::Delete, CarriedWrite::Insert(Box::default()), set(INT, 2)],
        ];
        for writes in unmerged {
            assert_eq!(kept(&writes), writes);
        }
        assert_eq!(
            kept(&[set(INT, 1), set(SMALL, 2), set(INT, Value::Null)]),
            [set(INT, Value::Null), set(SMALL, 2)]
        );
        assert_eq!(kept(&[set(INT, Value::Null), add(INT, 1)]), [set(INT, Value::Null)]);
        assert_eq!(kept(&[add(INT, 1), set(INT, 1), add(INT, -3)]), [add(INT, 1), set(INT, -2)]);
        assert_eq!(
            kept(&[add(INT, 5), add(INT, -6), add(INT, 4), add(INT, -1)]),
            [add(INT, 5), add(INT, -6), add(INT, 3)]
        );
        assert_eq!(kept(&[operate(INT, Operation::Min, 1), set(INT, 9)]), [set(INT, 9)]);
        assert_eq!(
            kept(&[operate(FLOAT, Operation::Max, -0.0), operate(FLOAT, Operation::Max, 0.0)]).len(),
            1
        );
    }

    #[test]
    fn nothing_is_merged_across_a_savepoint() {
        let rig = rig();
        let mut buffer = buffer(&rig);
        append(&mut buffer, add(INT, 1), 0);
        append(&mut buffer, set(SMALL, 1), 0);
        let savepoint = buffer.mark();
        for _ in 0..2 {
            append(&mut buffer, add(INT, 2), savepoint);
            append(&mut buffer, add(INT, 3), savepoint);
            append(&mut buffer, set(SMALL, 2), savepoint);
            let all = [add(INT, 1), set(SMALL, 1), add(INT, 5), set(SMALL, 2)];
            assert_eq!(
                buffer.writes_to(0, KEY).expect("written").into_iter().cloned().collect::<Vec<_>>(),
                all
            );
            buffer.truncate(savepoint);
            assert_eq!(
                buffer.writes_to(0, KEY).expect("written").into_iter().cloned().collect::<Vec<_>>(),
                all[..2]
            );
        }
        // The savepoint is released.
        append(&mut buffer, add(INT, 2), 0);
        assert_eq!(buffer.writes_to(0, KEY).expect("written")[0], &add(INT, 3));
    }

    /// Random writes, in columns whose bounds are near, make the same of every row as what is kept of them; or both fail.
    #[test]
    fn what_is_kept_does_what_was_written_to_every_row() {
        let (rig, mut random) = (rig(), fastrand::Rng::with_seed(7));
        let (mut failures, mut merged) = (0, 0);
        for round in 0..4_000 {
            let small = |random: &mut fastrand::Rng| random.i64(-3..=3) * i64::from(i32::MAX) / 4;
            let write = |random: &mut fastrand::Rng| match random.u8(0..9) {
                0..3 => add(SMALL, small(random)),
                3 => set(SMALL, small(random) / 3),
                4 => operate(SMALL, Operation::Multiply, random.i64(-2..=2)),
                5 => operate(SMALL, [Operation::Max, Operation::Min][random.usize(0..2)], random.i64(-9..9)),
                6 => set(
                    DECIMAL,
                    if random.bool() { Value::Null } else { decimal(random.i128(-9_999..=9_999)) },
                ),
                _ => add(DECIMAL, decimal(random.i128(-4_000..=4_000))),
            };
            let writes: Vec<_> = (0..random.usize(1..8)).map(|_| write(&mut random)).collect();
            let kept = kept(&rig, &writes);
            merged += writes.len() - kept.len();
            let start =
                [Value::Null, Value::Int(random.i32(..).into())][usize::from(random.u8(0..5) > 0)].clone();
            let row = [1.into(), 0.into(), start, Value::Null, decimal(random.i128(-9_999..=9_999))];
            match (outcome(&rig, &writes, &row), outcome(&rig, &kept, &row)) {
                (Ok(one), Ok(other)) => assert_eq!(one, other, "{round}: {writes:?}, {kept:?}"),
                (Err(_), Err(_)) => failures += 1,
                (one, other) => panic!("{round}: {writes:?} {one:?}, {kept:?} {other:?}"),
            }
        }
        assert!(failures > 400 && merged > 4_000, "{failures} {merged}");
    }
}
