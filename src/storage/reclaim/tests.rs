//! Absent records are removed when they may be, and not before; one that is inserted again in the meantime stays.

use super::*;
use crate::storage::definition::{PrimaryIndex, TableDefinition};
use crate::storage::rig::Rig;
use crate::types::{DataType, Value};

const MANY_ROWS: i64 = 3 * MANY as i64;

fn rig(index: PrimaryIndex) -> Rig {
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
        .primary_index(index);
    Rig::new(definition)
}

fn insert(rig: &Rig, key: i64) {
    let text = Value::Text(format!("a text that needs a block, {key}"));
    rig.commit(|writer| writer.insert(&[Value::Int(key), text])).expect("committed");
}

fn delete(rig: &Rig, key: i64) {
    rig.commit(|writer| writer.delete(key)).expect("committed");
}

/// Collects as `execute` does at the end of each call.
fn collect(rig: &Rig, durable: u64) {
    let mut slot_guard = rig.store.worker_contexts().take();
    let guard = crossbeam_epoch::pin();
    collect_deleted(&mut slot_guard.parts().1.workspace, rig.store.versions(), || durable, &guard);
}

#[test]
fn a_deleted_record_stays_until_its_delete_is_durable() {
    for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let rig = rig(index);
        (0..MANY_ROWS).for_each(|key| insert(&rig, key));
        rig.seal();
        (0..MANY_ROWS).for_each(|key| delete(&rig, key));
        let epoch = rig.store.epochs().current();
        collect(&rig, epoch - 1);
        assert_eq!(rig.records() as i64, MANY_ROWS, "whoever misses a row must meet its end");
        assert!((0..MANY_ROWS).all(|key| rig.word(key).is_some_and(|word| Stamp::of(word).epoch() == epoch)));
        collect(&rig, epoch);
        assert_eq!(rig.records(), 0);
        insert(&rig, 1);
        assert!(rig.row(1).is_some(), "the key can come back");
    }
}

#[test]
fn a_row_that_came_back_in_the_meantime_stays() {
    let rig = rig(PrimaryIndex::Both);
    (0..MANY_ROWS).for_each(|key| insert(&rig, key));
    (0..MANY_ROWS).for_each(|key| delete(&rig, key));
    (0..MANY_ROWS).step_by(2).for_each(|key| insert(&rig, key));
    let epoch = rig.store.epochs().current();
    collect(&rig, epoch);
    assert_eq!(rig.records() as i64, (MANY_ROWS + 1) / 2);
    assert!((0..MANY_ROWS).all(|key| rig.row(key).is_some() == (key % 2 == 0)));
}

/// Deleted, inserted and deleted again: the first delete's note must not take out what the second one left.
#[test]
fn a_note_of_an_earlier_delete_does_not_take_out_a_later_one() {
    let rig = rig(PrimaryIndex::Both);
    (0..MANY_ROWS).for_each(|key| insert(&rig, key));
    (0..MANY_ROWS).for_each(|key| delete(&rig, key));
    let first = rig.store.epochs().current();
    rig.seal();
    (0..MANY_ROWS).for_each(|key| insert(&rig, key));
    (0..MANY_ROWS).for_each(|key| delete(&rig, key));
    collect(&rig, first);
    assert_eq!(rig.records() as i64, MANY_ROWS, "the second delete is not durable");
    collect(&rig, first + 1);
    assert_eq!(rig.records(), 0);
}

#[test]
fn a_placeholder_that_was_filled_stays_and_one_that_was_not_goes() {
    let rig = rig(PrimaryIndex::Both);
    rig.commit(|writer| {
        writer.place(1);
        writer.insert(&[Value::Int(2), Value::Null]);
    })
    .expect("committed");
    assert_eq!((rig.word(1), rig.records()), (None, 1));
    assert!(rig.row(2).is_some());
}

#[test]
fn recovery_takes_every_absent_record_out() {
    let rig = rig(PrimaryIndex::Both);
    (0..10).for_each(|key| insert(&rig, key));
    (0..10).step_by(3).for_each(|key| delete(&rig, key));
    collect_all(&rig.table, &crossbeam_epoch::pin());
    assert_eq!(rig.records(), 6);
    assert!((0..10).all(|key| rig.row(key).is_some() == (key % 3 != 0)));
}

/// Inserts, deletes and readers at once: every look-up finds the row or nothing, and in the end nothing is left.
#[test]
fn readers_beside_the_collector_find_rows_or_nothing() {
    let rig = rig(PrimaryIndex::Both);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..8 {
                        if let Some(row) = rig.row(key) {
                            assert_eq!(row[1], Value::Text(format!("a text that needs a block, {key}")));
                        }
                    }
                }
            });
        }
        for round in 0..600 {
            insert(&rig, round % 8);
            delete(&rig, round % 8);
            if round % 70 == 0 {
                rig.seal();
                collect(&rig, rig.store.epochs().current() - 1);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    while rig.records() > 0 {
        // Fewer than `MANY` are left to themselves: more come, until all can go.
        (100..100 + MANY as i64).for_each(|key| {
            insert(&rig, key);
            delete(&rig, key);
        });
        rig.seal();
        collect(&rig, rig.store.epochs().current() - 1);
    }
}
