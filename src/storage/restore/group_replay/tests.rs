//! The purpose of each step of a group's replay.

use super::*;
use crate::storage::definition::TableDefinition;
use crate::storage::redo::{append_merged, begin, finish, set_stamp};
use crate::storage::rig::{Rig, TABLE};
use crate::types::{DataType, Value};

mod history;

/// A worker context's merged operations of an epoch.
pub(super) struct Part {
    bytes: Vec<u8>,
}

impl Part {
    pub(super) fn new() -> Part {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        Part { bytes }
    }

    pub(super) fn record(
        mut self,
        rig: &Rig,
        key: i64,
        since: u64,
        columns: &[(usize, Operation, ValueRef<'_>)],
    ) -> Part {
        let key = rig.table.encode_key(&[key.into()], true).expect("an integer key");
        append_merged(&mut self.bytes, (TABLE, 1), &key, since, columns);
        self
    }

    pub(super) fn finish(mut self, stamp: Stamp) -> Vec<u8> {
        finish(&mut self.bytes, 0);
        set_stamp(&mut self.bytes, 0, stamp);
        self.bytes
    }
}

fn rig() -> Rig {
    let table = TableDefinition::new("t").column("id", DataType::Int64);
    Rig::new(table.column("n", DataType::Int64).column("other", DataType::Int64).primary_key(["id"]))
}

/// A rig whose row 1 has these values, what it has logged, and the next epoch.
fn with_row(n: i64, other: i64) -> (Rig, Vec<u8>, u64) {
    let rig = rig();
    rig.commit(|writer| writer.insert(&[Value::Int(1), Value::Int(n), Value::Int(other)])).unwrap();
    let group = rig.seal();
    let epoch = rig.store.epochs().current();
    (rig, group, epoch)
}

fn add(rig: &Rig, since: u64, stamp: Stamp, amount: i64) -> Vec<u8> {
    Part::new().record(rig, 1, since, &[(1, Operation::Add, ValueRef::Int(amount))]).finish(stamp)
}

fn values(rig: &Rig) -> Option<(i64, i64)> {
    match rig.row(1)?[..] {
        [_, Value::Int(n), Value::Int(other)] => Some((n, other)),
        _ => None,
    }
}

/// Replays the groups into an empty store, each of them twice, and then all of them again.
fn restored(groups: &[&[u8]]) -> Rig {
    let restored = rig();
    for group in groups {
        restored.replay(group).unwrap();
        let rows = restored.rows();
        restored.replay(group).unwrap();
        assert_eq!(restored.rows(), rows, "replayed twice");
    }
    let rows = restored.rows();
    for group in groups {
        restored.replay(group).unwrap();
    }
    assert_eq!(restored.rows(), rows, "all of it replayed twice");
    restored
}

#[test]
fn all_worker_contexts_operations_of_an_epoch_are_applied_and_the_word_rises_to_the_highest_stamp() {
    let (rig, first, epoch) = with_row(100, 0);
    let parts = [(9, 1), (3, 10), (7, 100)];
    let group =
        parts.map(|(sequence, amount)| add(&rig, epoch, Stamp::new(epoch, sequence), amount)).concat();
    let restored = restored(&[&first, &group]);
    assert_eq!(values(&restored), Some((211, 0)));
    assert_eq!(restored.word(1), Some(Stamp::new(epoch, 9).present()));
}

/// Commits on other columns raise the word; so do merged operations, and neither shuts out the other.
#[test]
fn commits_on_other_columns_and_merged_operations_of_the_same_and_of_later_epochs_are_all_applied() {
    let (rig, first, since) = with_row(0, 0);
    let mut groups = vec![first];
    for round in 0..3 {
        let epoch = rig.store.epochs().current();
        rig.commit(|writer| writer.set(1, 2, &Value::Int(round))).unwrap();
        let below = add(&rig, since, Stamp::new(epoch, 1), 1);
        let above = add(&rig, since, Stamp::new(epoch, 50), 10);
        groups.push([above, rig.seal(), below].concat());
    }
    let groups: Vec<&[u8]> = groups.iter().map(Vec::as_slice).collect();
    assert_eq!(values(&restored(&groups)), Some((33, 2)));
    assert_eq!(values(&restored(&groups[..3])), Some((22, 1)), "the log may end at any group");
}

/// The phase ends inside the epoch: what commits do afterwards to the column that was split is not lost, nor undone.
#[test]
fn commits_after_the_end_of_the_phase_have_the_last_word() {
    let (rig, first, epoch) = with_row(5, 5);
    rig.commit(|writer| writer.set(1, 1, &Value::Int(70))).unwrap();
    // The merged operations' stamp is above the commit's: another record may have raised it.
    let merged = add(&rig, epoch, Stamp::new(epoch, 1000), 1);
    let commits = rig.seal();
    for group in [[&merged[..], &commits].concat(), [&commits[..], &merged].concat()] {
        let restored = restored(&[&first, &group]);
        assert_eq!(values(&restored), Some((70, 5)));
        assert_eq!(restored.word(1), Some(Stamp::new(epoch, 1000).present()));
    }
}

#[test]
fn a_row_deleted_after_the_end_of_the_phase_stays_deleted() {
    let (rig, first, epoch) = with_row(5, 5);
    let merged = add(&rig, epoch, Stamp::new(epoch, 30), 1);
    rig.commit(|writer| writer.delete(1)).unwrap();
    let group = [rig.seal(), merged].concat();
    let restored = restored(&[&first, &group]);
    assert_eq!(restored.row(1), None);
    assert_eq!(restored.word(1), Some(Stamp::new(epoch, 30).absent()));
}

#[test]
fn sums_beyond_64_bits_are_replayed_exactly() {
    let (rig, first, epoch) = with_row(i64::MIN, 0);
    let room = crate::types::Decimal::new(i128::from(u64::MAX), 0).unwrap();
    let part = Part::new().record(&rig, 1, epoch, &[(1, Operation::Add, ValueRef::Decimal(room))]);
    let group = part.finish(Stamp::new(epoch, 1));
    assert_eq!(values(&restored(&[&first, &group])), Some((i64::MAX, 0)));
}

#[test]
fn several_columns_of_one_row_may_be_split() {
    let (rig, first, epoch) = with_row(6, 6);
    let columns = [(1, Operation::Multiply, ValueRef::Int(7)), (2, Operation::Max, ValueRef::Int(50))];
    let group = Part::new().record(&rig, 1, epoch, &columns).finish(Stamp::new(epoch, 1));
    assert_eq!(values(&restored(&[&first, &group])), Some((42, 50)));
}

#[test]
fn merged_operations_that_cannot_have_happened_are_malformed() {
    let (rig, first, epoch) = with_row(i64::MAX, 0);
    let stamp = Stamp::new(epoch, 1);
    let malformed = |group: &[u8], named: &str| {
        let restored = self::rig();
        restored.replay(&first).unwrap();
        let before = restored.rows();
        let error = restored.replay(group).unwrap_err();
        assert!(matches!(error, crate::Error::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(restored.rows(), before);
    };
    malformed(&add(&rig, epoch, stamp, 1), "add");
    malformed(&add(&rig, epoch + 1, stamp, -1), "since epoch");
    let missing = Part::new().record(&rig, 2, epoch, &[]).finish(stamp);
    malformed(&missing, "not there");
    let mut unknown = add(&rig, epoch, stamp, -1);
    unknown[13] = 99;
    malformed(&unknown, "table 99");
    rig.commit(|writer| writer.delete(1)).unwrap();
    let restored = self::rig();
    restored.replay(&first).unwrap();
    restored.replay(&rig.seal()).unwrap();
    let late = add(&rig, epoch + 1, Stamp::new(epoch + 1, 1), -1);
    assert!(restored.replay(&late).unwrap_err().to_string().contains("not there"));
}
