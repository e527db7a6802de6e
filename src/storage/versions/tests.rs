//! The side table alone: the versions that it keeps, the reads that find them, and their release.

use std::sync::Arc;

use crossbeam_epoch::pin;

use super::*;
use crate::operation::Operation;
use crate::storage::commit::{CommitFailure, Excluded, InOrder, WriteLocking};
use crate::storage::definition::{PrimaryIndex, TableDefinition};
use crate::storage::reclaim::collect_deleted;
use crate::storage::rig::{Rig, Splitting, Way, Writer};
use crate::storage::word::BUSY;
use crate::types::{DataType, Value};

const NUMBER: usize = 1;
const TEXT: usize = 2;

fn rig_with(index: PrimaryIndex) -> Rig {
    let rig = Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .not_null()
            .column("text", DataType::Text)
            .primary_key(["id"])
            .primary_index(index),
    );
    (0..3).for_each(|key| insert(&rig, key, 10));
    rig.seal();
    rig
}

fn rig() -> Rig {
    rig_with(PrimaryIndex::Hash)
}

fn values(key: i64, number: i64) -> [Value; 3] {
    [Value::Int(key), Value::Int(number), Value::Text(format!("a text that needs a block: {number}"))]
}

fn insert(rig: &Rig, key: i64, number: i64) {
    rig.commit(|writer| writer.insert(&values(key, number))).expect("committed");
}

fn delete(rig: &Rig, key: i64) {
    rig.commit(|writer| writer.delete(key)).expect("committed");
}

fn set(rig: &Rig, key: i64, number: i64) {
    rig.commit(|writer| writer.set(key, NUMBER, &Value::Int(number))).expect("committed");
}

/// Opens a snapshot as the log stage does: registered, then the epoch ends.
fn open(rig: &Rig) -> Arc<OpenSnapshot> {
    let snapshot = rig.store.versions().open(rig.store.epochs().current());
    rig.seal();
    snapshot
}

fn close(rig: &Rig, snapshot: &OpenSnapshot) {
    rig.store.versions().close(snapshot);
}

/// The row of a key in a snapshot.
fn row(rig: &Rig, snapshot: &OpenSnapshot, key: i64) -> Option<Vec<Value>> {
    let guard = pin();
    let mut words = vec![0; rig.table.layout().words()];
    let found =
        rig.store.versions().read(rig.table.layout(), rig.record(key, &guard)?, snapshot.epoch(), &mut words);
    // SAFETY: the row was just read, and the thread is pinned.
    matches!(found, Found::Row(_)).then(|| unsafe { rig.table.layout().values(&words) })
}

fn number(rig: &Rig, snapshot: &OpenSnapshot, key: i64) -> Option<i64> {
    let row = row(rig, snapshot, key)?;
    if let Value::Int(number) = row[NUMBER] { Some(number) } else { None }
}

fn kept(rig: &Rig) -> u64 {
    rig.store.versions().counts().versions
}

fn is_empty(rig: &Rig) -> bool {
    let counts = rig.store.versions().counts();
    (counts.snapshots, counts.versions, counts.bytes) == (0, 0, 0) && rig.store.versions().bound() == 0
}

fn every_write_preserves<T: WriteLocking>(taking: &T, way: Way) {
    let writes: [&dyn Fn(&mut Writer<'_>); 6] = [
        &|writer| writer.set(1, NUMBER, &Value::Int(-1)),
        &|writer| writer.operate(1, NUMBER, Operation::Add, &Value::Int(5)),
        &|writer| writer.set(1, TEXT, &Value::Text("another text that needs a block".into())),
        &|writer| {
            writer.set(1, NUMBER, &Value::Int(7));
            writer.operate(2, NUMBER, Operation::Max, &Value::Int(70));
        },
        &|writer| writer.delete(1),
        &|writer| {
            writer.delete(1);
            writer.insert(&values(1, 99));
        },
    ];
    for (number, write) in writes.iter().enumerate() {
        let rig = rig();
        let snapshot = open(&rig);
        for round in 0..2 {
            let (committed, _) = rig.commit_in(way, taking, |_| true, |writer| write(writer));
            committed.expect("committed");
            rig.seal();
            for key in 0..3 {
                assert_eq!(
                    row(&rig, &snapshot, key),
                    Some(values(key, 10).to_vec()),
                    "{number} {way:?} {round}"
                );
            }
            if number == 4 {
                break;
            }
        }
        assert_eq!(kept(&rig), if number == 3 { 2 } else { 1 }, "each row once: {number} {way:?}");
        close(&rig, &snapshot);
        assert!(is_empty(&rig));
    }
}

#[test]
fn every_way_to_write_preserves_what_a_snapshot_contains() {
    for way in [Way::Usual, Way::General] {
        every_write_preserves(&Excluded, way);
        every_write_preserves(&InOrder, way);
        every_write_preserves(&Splitting, way);
    }
}

#[test]
fn without_a_snapshot_and_of_later_rows_nothing_is_kept() {
    let rig = rig();
    set(&rig, 1, 11);
    assert!(is_empty(&rig));
    let snapshot = open(&rig);
    insert(&rig, 7, 70);
    set(&rig, 7, 71);
    rig.seal();
    set(&rig, 7, 72);
    delete(&rig, 7);
    assert_eq!(kept(&rig), 0, "a row that is not in the snapshot");
    assert_eq!(row(&rig, &snapshot, 7), None);
    set(&rig, 1, 12);
    rig.seal();
    set(&rig, 1, 13);
    assert_eq!((kept(&rig), number(&rig, &snapshot, 1)), (1, Some(11)));
    close(&rig, &snapshot);
    set(&rig, 2, 12);
    assert!(is_empty(&rig));
}

/// Commits after the registration and in the snapshot's own epoch are in it.
#[test]
fn the_epoch_in_which_a_snapshot_was_registered_belongs_to_it() {
    let rig = rig();
    let snapshot = rig.store.versions().open(rig.store.epochs().current());
    set(&rig, 1, 11);
    insert(&rig, 8, 80);
    delete(&rig, 2);
    assert_eq!(kept(&rig), 0);
    rig.seal();
    set(&rig, 1, 12);
    delete(&rig, 8);
    insert(&rig, 2, 20);
    let numbers = [0, 1, 2, 8].map(|key| number(&rig, &snapshot, key));
    assert_eq!(numbers, [Some(10), Some(11), None, Some(80)]);
    close(&rig, &snapshot);
    assert!(is_empty(&rig));
}

/// A log that cannot be written ends no epoch: a snapshot ends the commits of the present one.
#[test]
fn an_epoch_whose_commits_have_ended_takes_no_more_and_the_next_one_does() {
    for way in [Way::Usual, Way::General] {
        let rig = rig();
        let epoch = rig.store.epochs().current();
        set(&rig, 1, 11);
        rig.store.epochs().end_commits_of(epoch);
        let snapshot = rig.store.versions().open(epoch);
        for key in [1, 2] {
            let write = |writer: &mut Writer<'_>| {
                writer.set(1, NUMBER, &Value::Int(5));
                writer.set(key, NUMBER, &Value::Int(6));
            };
            let (refused, _) = rig.commit_in(way, &InOrder, |_| true, write);
            assert!(matches!(refused, Err(CommitFailure::EpochFull)), "{refused:?}");
        }
        assert_eq!((number(&rig, &snapshot, 1), kept(&rig)), (Some(11), 0));
        let again = rig.store.versions().open(epoch);
        assert!(Arc::ptr_eq(&snapshot, &again), "the same moment");
        rig.seal();
        set(&rig, 1, 12);
        assert_eq!((number(&rig, &snapshot, 1), kept(&rig)), (Some(11), 1));
        close(&rig, &snapshot);
        close(&rig, &again);
        assert!(is_empty(&rig));
    }
}

/// Rows that are inserted and deleted, with a snapshot after each change: each shows its own moment, whichever others
/// are closed.
#[test]
fn snapshots_are_closed_in_any_order() {
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let rig = rig();
        let mut open_ones: Vec<_> = (0..5).map(|_| None).collect();
        let changes: [&dyn Fn(); 5] =
            [&|| {}, &|| set(&rig, 1, 20), &|| delete(&rig, 1), &|| insert(&rig, 1, 30), &|| {
                set(&rig, 1, 40)
            }];
        for (at, change) in changes.iter().enumerate() {
            change();
            open_ones[at] = Some(open(&rig));
        }
        delete(&rig, 1);
        rig.seal();
        let expected = [Some(10), Some(20), None, Some(30), Some(40)];
        for &closed in &order {
            for (snapshot, expected) in open_ones.iter().zip(expected) {
                let Some(snapshot) = snapshot else { continue };
                assert_eq!(number(&rig, snapshot, 1), expected, "{order:?} {closed}");
            }
            close(&rig, &open_ones[closed].take().expect("open"));
        }
        assert!(is_empty(&rig), "{order:?}");
    }
}

#[test]
fn two_handles_of_one_epoch_are_one_snapshot_until_the_last_is_closed() {
    let rig = rig();
    let epoch = rig.store.epochs().current();
    let (first, second) = (rig.store.versions().open(epoch), rig.store.versions().open(epoch));
    assert!(Arc::ptr_eq(&first, &second));
    rig.seal();
    set(&rig, 1, 11);
    close(&rig, &first);
    assert_eq!(number(&rig, &second, 1), Some(10));
    close(&rig, &second);
    assert!(is_empty(&rig));
}

#[test]
fn a_merge_of_slices_preserves_what_older_snapshots_contain() {
    let rig = rig();
    let older = open(&rig);
    let set = rig.begin_split(1, &[(1, NUMBER, Operation::Add)]);
    let add = |writer: &mut Writer<'_>| writer.operate(1, NUMBER, Operation::Add, &Value::Int(5));
    rig.commit_as(&Splitting, |_| true, add).expect("committed");
    assert_eq!(number(&rig, &older, 1), Some(10), "what is in slices is in no row");
    // The end of the phase is the end of an epoch.
    let newer = rig.store.versions().open(rig.store.epochs().current());
    rig.end_split(&set);
    rig.seal();
    assert_eq!((number(&rig, &older, 1), number(&rig, &newer, 1)), (Some(10), Some(15)));
    let set = rig.begin_split(2, &[(1, NUMBER, Operation::Add)]);
    assert_eq!(number(&rig, &newer, 1), Some(15), "a mark is no change");
    rig.commit_as(&Splitting, |_| true, add).expect("committed");
    rig.end_split(&set);
    assert_eq!((number(&rig, &older, 1), number(&rig, &newer, 1)), (Some(10), Some(15)));
    close(&rig, &newer);
    assert_eq!(number(&rig, &older, 1), Some(10));
    close(&rig, &older);
    assert!(is_empty(&rig));
}

/// Wherever an install is, a reader comes back with the row of its epoch, and with no wait.
#[test]
fn a_reader_waits_for_no_install() {
    let rig = rig();
    let snapshot = open(&rig);
    let guard = pin();
    let record = rig.record(1, &guard).expect("there");
    let before = rig.word(1).expect("there");
    let expected = Some(values(1, 10).to_vec());
    record.word().store(before | BUSY, Ordering::SeqCst);
    assert_eq!(row(&rig, &snapshot, 1), expected, "held, and not changed");
    let stamp = Stamp::new(rig.store.epochs().current(), 5);
    rig.store.versions().preserve(&rig.table, record, before, stamp, &guard);
    assert_eq!(row(&rig, &snapshot, 1), expected, "preserved, and not changed");
    record.row()[rig.table.layout().words_of(NUMBER).0.start].store(77, Ordering::SeqCst);
    assert_eq!(row(&rig, &snapshot, 1), expected, "half changed");
    record.word().store(stamp.present(), Ordering::SeqCst);
    assert_eq!(row(&rig, &snapshot, 1), expected, "changed");
    close(&rig, &snapshot);
    record.word().store(stamp.present() | BUSY, Ordering::SeqCst);
    assert_eq!(row(&rig, &snapshot, 1), None, "it has nothing that it needs any more");
    record.word().store(stamp.present(), Ordering::SeqCst);
    assert!(is_empty(&rig));
}

fn collect(rig: &Rig) {
    let mut slot_guard = rig.store.worker_contexts().take();
    let durable = || rig.store.epochs().current() - 1;
    collect_deleted(&mut slot_guard.parts().1.workspace, rig.store.versions(), durable, &pin());
}

#[test]
fn a_deleted_record_stays_while_a_snapshot_needs_it_and_no_longer() {
    const MANY: i64 = 100;
    for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let rig = rig_with(index);
        (10..10 + MANY).for_each(|key| insert(&rig, key, key));
        let snapshot = open(&rig);
        let used = rig.store.slabs().budget().used();
        // These were never in the snapshot.
        (1_000..1_000 + MANY).for_each(|key| insert(&rig, key, key));
        (10..10 + MANY).chain(1_000..1_000 + MANY).for_each(|key| delete(&rig, key));
        rig.seal();
        collect(&rig);
        assert_eq!(rig.records() as i64, 3 + MANY, "{index:?}");
        assert!((10..10 + MANY).all(|key| number(&rig, &snapshot, key) == Some(key)));
        assert!(rig.store.slabs().budget().used() < used, "kept records are no rows");
        // One of them is inserted again, and one is inserted and deleted again.
        insert(&rig, 20, -1);
        insert(&rig, 21, -1);
        delete(&rig, 21);
        assert_eq!((number(&rig, &snapshot, 20), number(&rig, &snapshot, 21)), (Some(20), Some(21)));
        close(&rig, &snapshot);
        assert!(is_empty(&rig));
        assert_eq!(rig.records(), 3 + 2, "the one that is back, and one whose delete is not looked at yet");
        assert_eq!(rig.row(20), Some(values(20, -1).to_vec()));
    }
}

#[test]
fn beyond_the_limit_the_oldest_snapshot_fails_and_its_memory_shrinks() {
    const ROWS: i64 = 400;
    let rig = rig();
    (10..10 + ROWS).for_each(|key| insert(&rig, key, key));
    let oldest = open(&rig);
    (10..10 + ROWS).for_each(|key| set(&rig, key, 0));
    let bytes = rig.store.versions().counts().bytes;
    rig.store.versions().set_limit(bytes + bytes / 4);
    let newer = open(&rig);
    let mut most = 0;
    for key in 10..10 + ROWS {
        set(&rig, key, 1);
        most = most.max(rig.store.versions().counts().bytes);
    }
    assert!(oldest.has_failed() && !newer.has_failed());
    assert!(most <= bytes + bytes / 4 + 1_000, "{most} of {bytes}");
    assert!((10..10 + ROWS).all(|key| number(&rig, &newer, key) == Some(0)));
    let counts = rig.store.versions().counts();
    assert_eq!((counts.snapshots, counts.failures), (1, 1));
    close(&rig, &oldest);
    assert_eq!(kept(&rig) as i64, ROWS);
    close(&rig, &newer);
    assert!(is_empty(&rig));
}

#[test]
fn a_limit_of_nothing_fails_every_snapshot_and_no_writer() {
    let rig = rig();
    rig.store.versions().set_limit(0);
    let snapshots = [open(&rig), open(&rig)];
    assert!(snapshots.iter().all(|snapshot| !snapshot.has_failed()), "nothing has changed");
    set(&rig, 1, 11);
    assert!(snapshots.iter().all(|snapshot| snapshot.has_failed()));
    snapshots.iter().for_each(|snapshot| close(&rig, snapshot));
    assert!(is_empty(&rig));
    assert_eq!(rig.row(1).expect("there")[NUMBER], Value::Int(11));
}
