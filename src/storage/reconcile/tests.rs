//! Ends of split phases: in an epoch that has no stamps left, and beside commits to what is not split.

use super::*;
use crate::storage::commit::CommitFailure;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, Splitting};
use crate::storage::word::SEQUENCE_BITS;
use crate::types::{DataType, Value};

/// A record that will be split in its first number, and one that will not.
fn rig() -> Rig {
    let rig = Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .not_null()
            .column("other", DataType::Int64)
            .primary_key(["id"]),
    );
    for key in 1..3 {
        rig.commit(|writer| writer.insert(&[Value::Int(key), Value::Int(100), Value::Int(0)]))
            .expect("committed");
    }
    rig.seal();
    rig
}

fn add(rig: &Rig, column: usize, highest: Option<Stamp>) -> Result<Stamp, CommitFailure> {
    rig.commit_as(
        &Splitting,
        |_| true,
        |writer| {
            if let Some(highest) = highest {
                writer.set_last_stamp(highest);
            }
            writer.operate(1, column, Operation::Add, &Value::Int(1));
        },
    )
}

/// A stamp of this epoch after which it has so many left for commits.
fn leaves(epoch: u64, left: u64) -> Stamp {
    Stamp::new(epoch, (1 << SEQUENCE_BITS) - 2 - left)
}

#[test]
fn a_phase_ends_in_an_epoch_whose_stamps_are_used_up() {
    let rig = rig();
    let (epoch, before) = (rig.store.epochs().current(), rig.word(1).expect("there"));
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    add(&rig, 1, Some(leaves(epoch, 3))).expect("three are left");
    add(&rig, 1, None).expect("two are left");
    let last = add(&rig, 1, None).expect("one is left");
    assert!(matches!(add(&rig, 1, None), Err(CommitFailure::EpochFull)));
    assert_eq!(rig.word(1), Some(before | SPLIT), "nothing of it is in the record");
    rig.end_split(&set);
    assert_eq!(rig.row(1).expect("there")[1], Value::Int(103));
    let merged = rig.word(1).expect("there");
    assert_eq!((Stamp::of(merged).epoch(), merged & SPLIT), (epoch, 0));
    assert!(Stamp::of(merged) > last, "above all that went into it");
    assert!(matches!(add(&rig, 1, None), Err(CommitFailure::EpochFull)), "the epoch is still used up");
    rig.seal();
    assert_eq!(add(&rig, 1, None).expect("a new epoch").epoch(), epoch + 1);
    assert_eq!(rig.row(1).expect("there")[1], Value::Int(104));
}

/// The record's other columns have the last stamp that a commit can have: the merge is still above it.
#[test]
fn the_word_rises_with_the_merge_where_the_record_itself_has_the_last_stamp() {
    let rig = rig();
    let epoch = rig.store.epochs().current();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    add(&rig, 1, Some(leaves(epoch, 2))).expect("two are left");
    let last = add(&rig, 2, None).expect("one is left");
    assert_eq!(rig.word(1), Some(last.present() | SPLIT));
    rig.end_split(&set);
    assert!(Stamp::of(rig.word(1).expect("there")) > last);
    assert_eq!(rig.row(1).expect("there")[1..], [Value::Int(101), Value::Int(1)]);
}

/// What was merged with an epoch's very last stamp is replayed from the log as it was.
#[test]
fn a_used_up_epoch_is_replayed_as_it_was() {
    let rig = rig();
    let restored = Rig::new(rig.table.definition().clone());
    restored
        .commit(|writer| writer.insert(&[Value::Int(1), Value::Int(100), Value::Int(0)]))
        .expect("committed");
    restored.seal();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    // Its epoch is above that of everything in the second database.
    rig.seal();
    let epoch = rig.store.epochs().current();
    add(&rig, 1, Some(leaves(epoch, 2))).expect("two are left");
    add(&rig, 2, None).expect("one is left");
    rig.end_split(&set);
    let group = rig.seal();
    restored.replay(&group).expect("sound");
    assert_eq!(restored.row(1), rig.row(1));
    restored.replay(&group).expect("sound");
    assert_eq!(restored.row(1), rig.row(1), "once more changes nothing");
}

#[test]
fn what_nobody_has_changed_loses_its_mark_and_nothing_else() {
    let rig = rig();
    let before = (rig.word(1), rig.word(2), rig.row(1));
    let set = rig.begin_split(1, &[(1, 1, Operation::Add), (2, 1, Operation::Max)]);
    assert_eq!(rig.word(2).map(|word| word & SPLIT), Some(SPLIT));
    rig.end_split(&set);
    assert_eq!((rig.word(1), rig.word(2), rig.row(1)), before);
    assert!(rig.store.splits().current(&crossbeam_epoch::pin()).is_none());
}

#[test]
fn one_merge_has_one_stamp_for_all_its_records() {
    let rig = rig();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add), (2, 1, Operation::Max)]);
    add(&rig, 1, None).expect("committed");
    let last = rig
        .commit_as(&Splitting, |_| true, |writer| writer.operate(2, 1, Operation::Max, &Value::Int(500)))
        .expect("committed");
    rig.end_split(&set);
    let words = [1, 2].map(|key| rig.word(key).expect("there"));
    assert_eq!(words[0], words[1]);
    assert!(Stamp::of(words[0]) > last);
    assert_eq!([1, 2].map(|key| rig.row(key).expect("there")[1].clone()), [Value::Int(101), Value::Int(500)]);
}
