//! Changes computed without a copy of the row are those of the general way: the same row, the same redo; and they are
//! computed for the usual writes.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use proptest::prelude::*;

use super::*;
use crate::storage::commit::Pending;
use crate::storage::commit::simple_writes::{changed_words, row_that_comes_in};
use crate::storage::record::RecordPointer;
use crate::storage::redo;
use crate::storage::row::free_block;
use crate::storage::table::TableCore;
use crate::storage::write_set::{Effect, WriteSet};
use crate::types::strategies::int;
use crate::types::{Decimal, Timestamp, ValueRef};

/// Numbers of all kinds; one that may be NULL, and is; a text; and a time that is NULL.
const COLUMNS: usize = 8;
const NULL: usize = 5;

fn table() -> TableCore {
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("wide", DataType::Int64)
        .not_null()
        .column("narrow", DataType::Int32)
        .not_null()
        .column("money", decimal(12, 2))
        .column("long", decimal(30, 2))
        .column("null", DataType::Int64)
        .column("text", DataType::Text)
        .column("time", DataType::Timestamp)
        .primary_key(["id"]);
    TableCore::new(1, &std::sync::Arc::default(), 16, definition)
}

const WIDE: usize = 1;
const NARROW: usize = 2;
const MONEY: usize = 3;
const TEXT: usize = 6;
const TIME: usize = 7;

/// A write to the one record.
#[derive(Clone, Debug)]
enum Write {
    Set(usize, Value),
    Operate(usize, Operation, Value),
}

fn number() -> impl Strategy<Value = Value> {
    let decimal = |(unscaled, scale): (i64, u8)| Value::Decimal(Decimal::from_stored(unscaled.into(), scale));
    prop_oneof![
        6 => (-30..30_i64).prop_map(Value::Int),
        4 => (-300..300_i64, 0..4_u8).prop_map(decimal),
        1 => int(i64::MIN, i64::MAX).prop_map(Value::Int),
        1 => (int(i64::MIN, i64::MAX), 2..4_u8).prop_map(decimal),
        1 => Just(Value::Null),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => (1..COLUMNS, number()).prop_map(|(column, value)| Write::Set(column, value)),
        6 => (1..COLUMNS, prop::sample::select(Operation::ALL), number())
            .prop_map(|(column, operation, operand)| Write::Operate(column, operation, operand)),
        2 => (-9..9_i64).prop_map(|time| Write::Set(TIME, at(time))),
        1 => (0..20_usize).prop_map(|length| Write::Set(TEXT, Value::Text("x".repeat(length)))),
    ]
}

impl Write {
    /// Buffers it as a body would: what a column does not take is refused, and leaves nothing.
    fn buffer(&self, table: &TableCore, record: RecordPointer, writes: &mut WriteSet) {
        let layout = table.layout();
        match self {
            Write::Set(column, value) => {
                if let Ok(value) = layout.checked(*column, ValueRef::from(value)) {
                    writes.set(table, record, *column, value);
                }
            }
            Write::Operate(column, operation, operand) => {
                let data_type = &layout.column(*column).data_type;
                if let Ok(operand) = operation.check_operand(ValueRef::from(operand), data_type) {
                    writes.operate(table, record, *column, *operation, operand);
                }
            }
        }
    }
}

/// A record that is there, without long values.
fn record(table: &TableCore, arena: &Bump) -> RecordPointer {
    let layout = table.layout();
    let decimal = |unscaled| ValueRef::Decimal(Decimal::from_stored(unscaled, 2));
    let row = [
        ValueRef::Int(1),
        ValueRef::Int(20),
        ValueRef::Int(-20),
        decimal(1_050),
        decimal(1 << 70),
        ValueRef::Null,
        ValueRef::Text("short"),
        ValueRef::Null,
    ];
    let mut words = vec![0; layout.words()];
    for (column, value) in row.into_iter().enumerate() {
        layout.put(&mut words, column, value, arena).expect("memory");
    }
    let record = RecordPointer::allocate(Stamp::new(3, 7).present(), b"key", layout.words());
    // SAFETY: it was just made, and is freed at the end of the test.
    for (word, value) in unsafe { record.as_record() }.row().iter().zip(&words) {
        word.store(*value, Ordering::Relaxed);
    }
    record
}

fn pending<'a>(record: Record<'a>) -> Pending<'a> {
    let word = record.word().load(Ordering::Relaxed);
    let (locked, has_blocks, room_of_slices) = (true, false, None);
    Pending { record, word, locked, has_blocks, sliced: &[], room_of_slices, change: Change::Nothing }
}

/// Runs the writes both ways; whether they were computed without a copy.
fn both_ways(steps: &[Write]) -> std::result::Result<bool, TestCaseError> {
    let (table, arena, mut writes) = (table(), Bump::new(), WriteSet::default());
    let pointer = record(&table, &arena);
    steps.iter().for_each(|step| step.buffer(&table, pointer, &mut writes));
    if writes.is_empty() {
        // SAFETY: made above and not shared.
        unsafe { pointer.free() };
        return Ok(false);
    }
    // SAFETY: made above, and freed below.
    let record = unsafe { pointer.as_record() };
    let before: Vec<u64> = record.row().iter().map(|word| word.load(Ordering::Relaxed)).collect();
    let mut general = before.clone();
    let applied = writes.apply(0, table.layout(), &mut general, true, &arena);
    let changed = changed_words::<InOrder>(&writes, 0, &pending(record), &arena);
    if let Some(changed) = &changed {
        let mut row = before;
        for change in changed.words() {
            row[change.at()] = change.new;
            row[change.column() / 64] &= !(1 << (change.column() % 64));
        }
        prop_assert_eq!(applied.expect("what is computed can be applied"), Effect::Changed);
        prop_assert_eq!(row, general.clone());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let numbers = changed.words().iter().map(|change| (change.column(), change.new as i64));
        redo::append_numbers(&mut one, &table, record.key(), numbers);
        // SAFETY: the row's blocks are in the arena.
        unsafe { redo::append_change(&mut other, &writes, (0, &[]), Effect::Changed, &general) };
        prop_assert_eq!(one, other, "the redo");
    }
    let is_computed = changed.is_some();
    // SAFETY: made above and not shared.
    unsafe { pointer.free() };
    Ok(is_computed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_worked_out_is_what_the_general_way_comes_to(steps in prop::collection::vec(write(), 1..5)) {
        both_ways(&steps)?;
    }

    #[test]
    fn a_row_that_comes_in_is_the_row_that_was_inserted(
        text in ".{0,20}",
        number in number(),
        twice in prop::bool::ANY,
    ) {
        let (table, arena, mut writes) = (table(), Bump::new(), WriteSet::default());
        let layout = table.layout();
        let pointer = RecordPointer::allocate(0, b"key", layout.words());
        let text = text.replace('\0', "0");
        let money = layout.checked(MONEY, ValueRef::from(&number)).unwrap_or(ValueRef::Null);
        let (int, null) = (ValueRef::Int(5), ValueRef::Null);
        let row = [int, int, int, money, null, null, ValueRef::Text(&text), null];
        for _ in 0..=usize::from(twice) {
            writes.insert(&table, pointer, row.into_iter());
        }
        let mut general = vec![0; layout.words()];
        prop_assert_eq!(writes.apply(0, layout, &mut general, false, &arena).expect("a row"), Effect::Row);
        let mut made = ArenaVec::new_in(&arena);
        let image = row_that_comes_in(&writes, 0, &mut made, &arena).expect("memory");
        prop_assert_eq!(image.is_none(), twice, "all that is written");
        if let Some(image) = image {
            for column in 0..layout.len() {
                // SAFETY: the blocks are in the arena, and those of the image freed below.
                let (one, other) = unsafe { (layout.value(image, column), layout.value(&general, column)) };
                prop_assert_eq!(one, other);
            }
            prop_assert_eq!(layout.blocks(image).collect::<Vec<_>>(), made.iter().copied().collect::<Vec<_>>());
        }
        for block in made {
            // SAFETY: made above, used no more.
            unsafe { free_block(block) };
        }
        // SAFETY: made above and not shared.
        unsafe { pointer.free() };
    }
}

fn at(microseconds: i64) -> Value {
    Value::Timestamp(Timestamp::from_stored(microseconds))
}

fn add(column: usize, operand: Value) -> Write {
    Write::Operate(column, Operation::Add, operand)
}

fn decimal(unscaled: i128) -> Value {
    Value::Decimal(Decimal::from_stored(unscaled, 2))
}

/// The comparison is worth nothing where nothing is computed.
#[test]
fn the_usual_writes_are_worked_out_and_no_others() {
    let usual = [
        vec![Write::Set(WIDE, Value::Int(7)), add(NARROW, Value::Int(1))],
        vec![add(MONEY, decimal(-150)), add(MONEY, decimal(150)), Write::Set(MONEY, decimal(1))],
        vec![
            Write::Operate(NARROW, Operation::Multiply, Value::Int(3)),
            add(WIDE, Value::Int(i64::MAX - 20)),
        ],
        vec![Write::Set(NULL, Value::Int(3)), add(NULL, Value::Int(4))],
        vec![Write::Set(TIME, at(5)), add(WIDE, Value::Int(1)), Write::Set(TIME, at(-6))],
    ];
    for steps in usual {
        assert!(both_ways(&steps).expect("the same"), "{steps:?}");
    }
    let others = [
        vec![add(WIDE, Value::Int(i64::MAX))],
        vec![add(NARROW, Value::Int(i64::from(i32::MAX) + 30))],
        vec![add(MONEY, decimal(10_i128.pow(12)))],
        vec![add(WIDE, Value::Int(1)), Write::Set(MONEY, Value::Null)],
        vec![add(NULL, Value::Int(3))],
        vec![Write::Set(NULL, Value::Null)],
        vec![add(NULL, Value::Int(3)), Write::Set(NULL, Value::Int(3))],
        vec![Write::Set(TIME, at(5)), Write::Set(TIME, Value::Null)],
        vec![Write::Set(TEXT, Value::Text("text".into()))],
    ];
    for steps in others {
        assert!(!both_ways(&steps).expect("the same"), "{steps:?}");
    }
}
