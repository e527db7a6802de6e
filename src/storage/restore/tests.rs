//! Commits log what they install: every log, replayed, makes the same rows with the same words.

use proptest::prelude::*;

use super::*;
use crate::operation::Operation;
use crate::storage::definition::TableDefinition;
use crate::storage::redo::split_transactions;
use crate::storage::rig::{Rig, Writer};
use crate::types::strategies::{data_type, nullable_value, ordered_tuple};
use crate::types::{DataType, TupleType, Value};

const KEYS: i64 = 4;

/// Rows as [`Rig::rows`] gives them.
type Rows = Vec<(Vec<u8>, u64, String)>;

fn definition(types: &[DataType]) -> TableDefinition {
    let table = TableDefinition::new("t").column("id", DataType::Int64);
    let columns = types.iter().enumerate();
    columns.fold(table, |table, (at, of)| table.column(format!("c{at}"), of.clone())).primary_key(["id"])
}

/// A change of a call to one row, if it is possible.
#[derive(Clone, Debug)]
enum Change {
    Insert(i64, Vec<Value>),
    Set(i64, usize, Value),
    Operate(i64, usize, Operation, Value),
    Delete(i64),
    /// The epoch is sealed: a new group begins.
    Seal,
}

fn change(types: Vec<DataType>) -> impl Strategy<Value = Change> {
    let row = crate::types::strategies::row_of(types.clone());
    let one = (0..types.len()).prop_flat_map(move |at| {
        let of = types[at].clone();
        let operand = match &of {
            DataType::TopK { of, .. } => ordered_tuple(of.clone()).prop_map(Value::from).boxed(),
            other => nullable_value(other),
        };
        let operation = prop::sample::select(Operation::ALL.to_vec());
        (Just(at + 1), nullable_value(&of), operation, operand)
    });
    prop_oneof![
        3 => (0..KEYS, row).prop_map(|(key, row)| Change::Insert(key, row)),
        3 => (0..KEYS, one.clone()).prop_map(|(key, (at, value, _, _))| Change::Set(key, at, value)),
        5 => (0..KEYS, one).prop_map(|(key, (at, _, operation, operand))| Change::Operate(key, at, operation, operand)),
        1 => (0..KEYS).prop_map(Change::Delete),
        1 => Just(Change::Seal),
    ]
}

/// A table's types, and calls of one or several changes each.
fn history() -> impl Strategy<Value = (Vec<DataType>, Vec<Vec<Change>>)> {
    prop::collection::vec(data_type(), 1..5).prop_flat_map(|types| {
        let call = prop::collection::vec(change(types.clone()), 1..5);
        (Just(types), prop::collection::vec(call, 1..12))
    })
}

/// Buffers the changes that make sense, given which rows there are.
fn write(writer: &mut Writer<'_>, rig: &Rig, calls: &[Change]) {
    let mut present: Vec<bool> = (0..KEYS).map(|key| rig.row(key).is_some()).collect();
    let layout = rig.table.layout();
    for change in calls {
        match change {
            Change::Insert(key, row) if !present[*key as usize] => {
                let mut values = vec![Value::Int(*key)];
                values.extend(row.iter().cloned());
                writer.insert(&values);
                present[*key as usize] = true;
            }
            Change::Set(key, column, value) if present[*key as usize] => writer.set(*key, *column, value),
            Change::Operate(key, column, operation, operand) if present[*key as usize] => {
                let of = &layout.column(*column).data_type;
                if let Ok(operand) = operation.check_operand(operand.into(), of) {
                    writer.operate(*key, *column, *operation, &operand.to_value());
                }
            }
            Change::Delete(key) if present[*key as usize] => {
                writer.delete(*key);
                present[*key as usize] = false;
            }
            _ => {}
        }
    }
}

/// Runs a history; returns the rig, its groups, and the state after each group.
fn run(types: &[DataType], calls: &[Vec<Change>]) -> (Rig, Vec<Vec<u8>>, Vec<Rows>) {
    let rig = Rig::new(definition(types));
    let (mut groups, mut states) = (Vec::new(), Vec::new());
    for call in calls {
        let before = rig.rows();
        if rig.commit(|writer| write(writer, &rig, call)).is_err() {
            assert_eq!(rig.rows(), before, "a refused call has left a trace");
        }
        if call.iter().any(|change| matches!(change, Change::Seal)) {
            groups.push(rig.seal());
            states.push(rig.rows());
        }
    }
    groups.push(rig.seal());
    states.push(rig.rows());
    (rig, groups, states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 2_000 }))]

    #[test]
    fn a_log_makes_the_rows_that_were_committed_group_by_group_and_replaying_twice_changes_nothing(
        (types, calls) in history()
    ) {
        let (_rig, groups, states) = run(&types, &calls);
        let restored = Rig::new(definition(&types));
        for (group, state) in groups.iter().zip(&states) {
            restored.replay(group).expect("what a commit has logged");
            prop_assert_eq!(&restored.rows(), state);
            restored.replay(group).expect("again");
            prop_assert_eq!(&restored.rows(), state, "replayed twice");
        }
        for group in &groups {
            restored.replay(group).expect("old groups after new ones");
        }
        prop_assert_eq!(restored.rows(), states.last().expect("one at least").clone());
    }

    #[test]
    fn damaged_redo_is_an_error_or_another_value_and_never_a_panic(
        (types, calls) in history(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let (_rig, groups, _) = run(&types, &calls);
        let mut group = groups.concat();
        prop_assume!(!group.is_empty());
        let at = at.index(group.len());
        if cut { group.truncate(at) } else { group[at] = byte }
        // A checksum protects it; and yet nothing may break. What is no text is refused: rows trust it.
        let Ok(transactions) = split_transactions(&group) else { return Ok(()) };
        for transaction in transactions {
            let mut reader = Reader::new(transaction.changes);
            let arena = Bump::new();
            let table = Rig::new(definition(&types)).table;
            let mut row = vec![0; table.layout().words()];
            while let Ok(Some(head)) = reader.next_head() {
                if reader.apply(head.change, &table, &mut row, &arena).is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn an_unknown_table_is_named() {
    let rig = Rig::new(definition(&[DataType::Int64]));
    rig.commit(|writer| writer.insert(&[Value::Int(1), Value::Int(2)])).expect("committed");
    let group = rig.seal();
    let empty = Store::new(1, 1, true);
    let mut tools = Tools::new(Overlap::default());
    let scattered = scatter(&empty, (1, group), 2, &mut tools, &crossbeam_epoch::pin());
    assert!(scattered.err().expect("no such table").to_string().contains("table 16"));
}

/// Worker contexts' parts of one group are in no order: the stamps are.
#[test]
fn transactions_of_a_group_are_replayed_in_the_order_of_their_stamps() {
    let rig = Rig::new(definition(&[DataType::Int64]));
    rig.commit(|writer| writer.insert(&[Value::Int(1), Value::Int(0)])).expect("committed");
    let mut parts = Vec::new();
    for value in 1..4 {
        rig.commit(|writer| writer.set(1, 1, &Value::Int(value))).expect("committed");
    }
    let group = rig.seal();
    for transaction in split_transactions(&group).expect("redo") {
        let mut part = transaction.stamp.to_bits().to_le_bytes().to_vec();
        part.extend((transaction.changes.len() as u32).to_le_bytes());
        part.extend(transaction.changes);
        parts.push(part);
    }
    parts.reverse();
    let restored = Rig::new(definition(&[DataType::Int64]));
    restored.replay(&parts.concat()).expect("redo");
    assert_eq!(restored.rows(), rig.rows());
    assert_eq!(restored.row(1), Some(vec![Value::Int(1), Value::Int(3)]));
}

/// A top-K insert logs the entry, not the set.
#[test]
fn a_top_k_insert_logs_its_entry_and_makes_the_same_set() {
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).expect("scalars");
    let types = [DataType::TopK { limit: 50, of: of.clone() }];
    let rig = Rig::new(definition(&types));
    rig.commit(|writer| writer.insert(&[Value::Int(1), Value::Null])).expect("committed");
    let mut groups = vec![rig.seal()];
    for number in 0..60 {
        let entry =
            crate::types::OrderedTuple::new(&of, &[number.into()], &["a payload of some bytes".into()]);
        let entry = Value::from(entry.expect("its type"));
        rig.commit(|writer| writer.operate(1, 1, Operation::TopKInsert, &entry)).expect("committed");
        groups.push(rig.seal());
        assert!(groups.last().expect("just made").len() < 100, "the whole set is logged");
    }
    let restored = Rig::new(definition(&types));
    groups.iter().for_each(|group| restored.replay(group).expect("redo"));
    assert_eq!(restored.rows(), rig.rows());
}

#[test]
fn indexes_are_derived_from_rows_and_two_rows_with_one_unique_value_are_an_inconsistency() {
    let definition =
        definition(&[DataType::Int64, DataType::Text]).unique_index("u", ["c0"]).index("n", ["c1"]);
    let row = |key: i64, unique: Value| [Value::Int(key), unique, Value::Text("the same".into())];
    let rig = Rig::new(definition.clone());
    rig.commit(|writer| {
        writer.insert(&row(1, Value::Int(10)));
        writer.insert(&row(2, Value::Null));
        writer.insert(&row(3, Value::Null));
    })
    .expect("committed");
    let guard = crossbeam_epoch::pin();
    derive_indexes(&rig.table, &mut crate::storage::slab::Cutter::default(), &guard).expect("distinct");
    for secondary in rig.table.secondary() {
        let mut entries = 0;
        secondary.table.for_each_record(&guard, |entry| {
            assert_eq!(entry.word().load(Ordering::Relaxed), rig.word(1).expect("there"), "the row's stamp");
            entries += 1;
        });
        assert_eq!(entries, 3);
    }
    let twice = Rig::new(definition);
    twice
        .commit(|writer| {
            writer.insert(&row(1, Value::Int(10)));
            writer.insert(&row(2, Value::Int(10)));
        })
        .expect("this layer does not look");
    let error = derive_indexes(&twice.table, &mut crate::storage::slab::Cutter::default(), &guard);
    assert!(error.expect_err("two rows").to_string().contains("\"u\""));
}

/// An entry that is replayed on a row that has gone since is read past, not applied.
#[test]
fn a_top_k_insert_is_not_replayed_on_a_row_that_has_gone() {
    let of = TupleType::new(vec![DataType::Int64], vec![]).expect("scalars");
    let types = [DataType::TopK { limit: 3, of: of.clone() }];
    let entry = Value::from(crate::types::OrderedTuple::new(&of, &[1.into()], &[]).expect("its type"));
    let rig = Rig::new(definition(&types));
    rig.commit(|writer| writer.insert(&[Value::Int(1), Value::Null])).expect("committed");
    rig.commit(|writer| writer.operate(1, 1, Operation::TopKInsert, &entry)).expect("committed");
    rig.commit(|writer| writer.delete(1)).expect("committed");
    let group = rig.seal();
    for _ in 0..2 {
        rig.replay(&group).expect("it was replayed before");
        assert_eq!(rig.row(1), None);
    }
}
