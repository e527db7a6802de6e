//! Merged operations are read as they were written, byte by byte as the formats say.

use proptest::prelude::*;

use super::*;
use crate::storage::definition::TableDefinition;
use crate::storage::redo::{begin, finish, set_stamp, split_transactions};
use crate::storage::rig::{Rig, TABLE};
use crate::storage::word::Stamp;
use crate::types::strategies::{data_type, int, ordered_tuple, value};
use crate::types::{DataType, Value};

fn rig(types: &[DataType]) -> Rig {
    let table = TableDefinition::new("t").column("id", DataType::Int64);
    let columns = types.iter().enumerate();
    let table = columns.fold(table, |table, (at, of)| table.column(format!("c{at}"), of.clone()));
    Rig::new(table.primary_key(["id"]))
}

fn big(unscaled: i128) -> ValueRef<'static> {
    ValueRef::Decimal(Decimal::new(unscaled, 0).unwrap())
}

#[test]
fn a_merged_change_has_these_bytes() {
    let mut out = Vec::new();
    let start = begin(&mut out);
    append_merged(
        &mut out,
        (TABLE, 1),
        b"key",
        300,
        &[
            (1, Operation::Add, ValueRef::Int(-2)),
            (2, Operation::Add, big(1 << 64)),
            (200, Operation::TopKInsert, ValueRef::Tuple(b"ab")),
            (4, Operation::Max, ValueRef::Float(1.0)),
        ],
    );
    finish(&mut out, start);
    set_stamp(&mut out, start, Stamp::new(1, 2));
    let changes: &[&[u8]] = &[
        &[4, 16, 1, 3, b'k', b'e', b'y', 0xAC, 0x02, 4],
        &[1, 1, 1, 3],
        &[2, 1, 3, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x04],
        &[0xC8, 0x01, 5, 6, 2, b'a', b'b'],
        &[4, 2, 2, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F],
    ];
    let changes = changes.concat();
    let mut expected = vec![2, 0, 0x10, 0, 0, 0, 0, 0, changes.len() as u8, 0, 0, 0];
    expected.extend(&changes);
    assert_eq!(out, expected);
    let transactions = split_transactions(&out).unwrap();
    assert!(transactions.len() == 1 && transactions[0].is_merged());
    assert_eq!(transactions[0].stamp, Stamp::new(1, 2));
}

fn operand(operation: Operation, data_type: &DataType) -> BoxedStrategy<Value> {
    match (operation, data_type) {
        (Operation::Add, DataType::Int32 | DataType::Int64) => prop_oneof![
            int(i64::MIN, i64::MAX).prop_map(Value::from),
            (-(1_i128 << 90)..1 << 90).prop_map(|sum| big(sum).to_value()),
        ]
        .boxed(),
        (Operation::TopKInsert, DataType::TopK { of, .. }) => {
            prop_oneof![ordered_tuple(of.clone()).prop_map(Value::from), value(data_type)].boxed()
        }
        _ => value(data_type),
    }
}

type Column = (Operation, DataType, Value);

fn column() -> impl Strategy<Value = Column> {
    (prop::sample::select(Operation::ALL), data_type())
        .prop_filter("it can be split", |(operation, of)| operation.splittable(of))
        .prop_flat_map(|(operation, of)| (Just(operation), Just(of.clone()), operand(operation, &of)))
}

fn write(columns: &[Column], since: u64) -> (Rig, Vec<u8>) {
    let types: Vec<DataType> = columns.iter().map(|(_, of, _)| of.clone()).collect();
    let numbered = columns.iter().enumerate();
    let operands: Vec<_> =
        numbered.map(|(at, (operation, _, operand))| (at + 1, *operation, operand.as_value_ref())).collect();
    let mut out = Vec::new();
    append_merged(&mut out, (TABLE, 1), b"first", since, &operands);
    append_merged(&mut out, (TABLE, 1), b"", 0, &operands);
    (rig(&types), out)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_is_written_is_read(columns in prop::collection::vec(column(), 0..5), since in any::<u64>()) {
        let (rig, out) = write(&columns, since);
        let mut reader = Reader::new(&out);
        for (key, since) in [(&b"first"[..], since), (b"", 0)] {
            let head = reader.next_merged().unwrap().unwrap();
            prop_assert_eq!((head.table, head.key, head.since), (TABLE, key, since));
            prop_assert_eq!(head.columns as usize, columns.len());
            for (at, (operation, _, operand)) in columns.iter().enumerate() {
                let (column, read_operation, read) = reader.merged_column(&rig.table).unwrap();
                prop_assert_eq!((column, read_operation), (at + 1, *operation));
                // As text: so that -0 differs from 0.
                prop_assert_eq!(format!("{:?}", read.to_value()), format!("{operand:?}"));
            }
        }
        prop_assert!(reader.next_merged().unwrap().is_none());
    }

    #[test]
    fn damaged_bytes_are_an_error_or_other_operands_and_never_a_panic(
        columns in prop::collection::vec(column(), 1..4),
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let (rig, mut out) = write(&columns, 9);
        let at = at.index(out.len());
        if cut { out.truncate(at) } else { out[at] = byte }
        let mut reader = Reader::new(&out);
        while let Ok(Some(head)) = reader.next_merged() {
            if (0..head.columns).try_for_each(|_| reader.merged_column(&rig.table).map(drop)).is_err() {
                break;
            }
        }
    }
}

/// Reads one column of a table with a column of this type.
fn read(of: &str, column: usize, code: u8, operand: &[u8]) -> String {
    let rig = rig(&[of.parse().unwrap()]);
    let mut bytes = vec![MERGED, TABLE as u8, 1, 0, 0, 1, column as u8, code];
    bytes.extend(operand);
    let mut reader = Reader::new(&bytes);
    reader.next_merged().unwrap().unwrap();
    match reader.merged_column(&rig.table) {
        Ok((_, operation, operand)) => format!("{operation:?} {operand:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_the_column_has_no_use_for_is_refused() {
    assert_eq!(read("int64", 1, 1, &[INT, 4]), "Add Int(2)");
    for (of, column, code, operand, named) in [
        ("int64", 2, 1, &[INT, 4][..], "column 2"),
        ("int64", 1, 99, &[INT, 4], "code 99"),
        ("int64", 1, 5, &[INT, 4], "top-K insert of t.c0"),
        ("float64", 1, 1, &[FLOAT, 0, 0, 0, 0, 0, 0, 0, 0], "add of t.c0"),
        ("int64", 1, 1, &[0], "kind 0"),
        ("int64", 1, 1, &[8], "kind 8"),
        ("int64", 1, 1, &[DECIMAL, 1, 4], "operand"),
        ("int64", 1, 2, &[DECIMAL, 0, 4], "operand"),
        ("int32", 1, 2, &[INT, 0x80, 0x80, 0x80, 0x80, 0x80, 1], "operand"),
        ("decimal(5,2)", 1, 1, &[DECIMAL, 39, 2], "operand"),
        ("date", 1, 2, &[DATE, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F], "operand"),
        ("ordered_tuple(int64)", 1, 4, &[TUPLE, 1, 77], "operand"),
        ("top_k(2; int64)", 1, 5, &[TOP_K, 1, 77], "operand"),
    ] {
        let error = read(of, column, code, operand);
        assert!(error.contains(named), "{of} {code} {operand:?}: {error}");
    }
}

#[test]
fn merged_operations_and_changes_of_commits_do_not_mix() {
    let mut out = Vec::new();
    append_merged(&mut out, (TABLE, 1), b"k", 1, &[]);
    let error = Reader::new(&out).next_head().unwrap_err();
    assert!(error.to_string().contains("kind 4"), "{error}");
    out[0] = 3;
    let error = Reader::new(&out).next_merged().unwrap_err();
    assert!(error.to_string().contains("kind 3"), "{error}");
}
