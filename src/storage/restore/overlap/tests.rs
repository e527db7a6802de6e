//! Changes of rows that are not there: allowed while copying may have missed them, refused otherwise.

use super::*;
use crate::error::Error;
use crate::operation::Operation;
use crate::storage::definition::TableDefinition;
use crate::storage::redo::{append_merged, begin, finish, set_stamp};
use crate::storage::restore::Tools;
use crate::storage::rig::{Rig, TABLE};
use crate::storage::word::Stamp;
use crate::types::{DataType, Value, ValueRef};

fn rig() -> Rig {
    let table = TableDefinition::new("t").column("id", DataType::Int64);
    let table = table.column("n", DataType::Int64).not_null().column("note", DataType::Text).not_null();
    Rig::new(table.primary_key(["id"]))
}

fn row(key: i64) -> [Value; 3] {
    [Value::Int(key), Value::Int(7), Value::Text("a note that is longer than a word".into())]
}

/// Epochs of changes to row 1, which had been inserted before: an update, an update and a delete, an insert.
fn history() -> (Rig, u64, [Vec<u8>; 3]) {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1))).unwrap();
    rig.seal();
    let first = rig.store.epochs().current();
    rig.commit(|writer| writer.set(1, 1, &Value::Int(8))).unwrap();
    let update = rig.seal();
    rig.commit(|writer| writer.set(1, 1, &Value::Int(9))).unwrap();
    rig.commit(|writer| writer.delete(1)).unwrap();
    let delete = rig.seal();
    rig.commit(|writer| writer.insert(&row(1))).unwrap();
    rig.commit(|writer| writer.set(1, 1, &Value::Int(10))).unwrap();
    let insert = rig.seal();
    (rig, first, [update, delete, insert])
}

fn is_malformed(result: Result<()>) -> bool {
    matches!(result, Err(Error::Malformed { .. }))
}

#[test]
fn changes_of_a_row_that_was_deleted_before_it_was_copied_are_skipped_until_it_has_gone() {
    let (rig, first, groups) = history();
    let restored = self::rig();
    let mut tools = Tools::new(Overlap::new(first + 1, []));
    for (epoch, group) in (first..).zip(&groups) {
        tools.begin_epoch(Some(epoch)).unwrap();
        restored.replay_with(&mut tools, group).unwrap();
        let expected = if epoch == first + 2 { rig.row(1) } else { None };
        assert_eq!(restored.row(1), expected, "epoch {epoch}: never a row with holes");
    }
    tools.begin_epoch(None).unwrap();
    assert_eq!(restored.rows(), rig.rows());
}

#[test]
fn without_a_checkpoint_a_change_of_a_row_that_is_not_there_is_refused() {
    let (_, _, [update, ..]) = history();
    assert!(is_malformed(rig().replay(&update)));
}

#[test]
fn behind_the_last_epoch_of_the_copying_it_is_refused_too() {
    let (_, first, [update, ..]) = history();
    let mut tools = Tools::new(Overlap::new(first - 1, []));
    assert!(is_malformed(rig().replay_with(&mut tools, &update)));
}

#[test]
fn a_row_that_was_missed_and_has_not_gone_by_the_last_epoch_is_refused() {
    let (_, first, [update, delete, _]) = history();
    let restored = rig();
    let mut tools = Tools::new(Overlap::new(first, []));
    restored.replay_with(&mut tools, &update).unwrap();
    assert!(tools.begin_epoch(Some(first)).is_ok());
    assert!(is_malformed(tools.begin_epoch(Some(first + 1))));
    assert!(is_malformed(tools.begin_epoch(None)));
    // Had the copying gone on, the delete would have settled it.
    let mut tools = Tools::new(Overlap::new(first + 1, []));
    let restored = rig();
    restored.replay_with(&mut tools, &update).unwrap();
    restored.replay_with(&mut tools, &delete).unwrap();
    assert!(tools.begin_epoch(None).is_ok());
}

#[test]
fn merged_operations_on_a_row_that_was_missed_are_skipped_until_it_has_gone() {
    let (rig, first, [_, delete, _]) = history();
    let key = rig.table.encode_key(&[1.into()], true).unwrap();
    let mut merged = Vec::new();
    begin(&mut merged);
    append_merged(&mut merged, (TABLE, 1), &key, first, &[(1, Operation::Add, ValueRef::Int(1))]);
    finish(&mut merged, 0);
    set_stamp(&mut merged, 0, Stamp::new(first, 3));
    let mut tools = Tools::new(Overlap::new(first + 1, []));
    let restored = self::rig();
    restored.replay_with(&mut tools, &merged).unwrap();
    assert_eq!((restored.row(1), restored.records()), (None, 0));
    assert!(is_malformed(tools.begin_epoch(None)));
    restored.replay_with(&mut tools, &delete).unwrap();
    tools.begin_epoch(None).unwrap();
    assert!(is_malformed(self::rig().replay(&merged)), "without a checkpoint");
}
