//! The conditions that a retired table's memory waits for, one at a time.
//!
//! Threads of other tests may be pinned for a moment, so what is to happen is waited for; what must not happen is tried many times.

use super::*;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::Rig;
use crate::storage::schema::SchemaChange;
use crate::storage::word::Stamp;
use crate::types::{DataType, Value};

const ROWS: i64 = 200;

/// A store with a table that has rows, one of them deleted and one changed.
fn filled() -> Rig {
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    let rig = Rig::new(definition);
    let name = |id: i64| Value::Text(format!("a name of more than seven bytes: {id}"));
    for id in 0..ROWS {
        rig.commit(|writer| writer.insert(&[Value::Int(id), name(id)])).expect("no rival");
    }
    rig.commit(|writer| writer.delete(7)).expect("no rival");
    rig.commit(|writer| writer.set(8, 1, &name(1000))).expect("no rival");
    rig
}

fn drop_table(rig: &Rig) {
    let epoch = rig.store.epochs().current();
    let change = SchemaChange::Drop(rig.table.clone());
    rig.store.change_schema(std::iter::once(change), Stamp::new(epoch, 1), &pin());
}

fn is_freed(rig: &Rig) -> bool {
    rig.store.retired_tables().free_some(&rig.store);
    !rig.store.retired_tables().is_pending()
}

fn wait_until_freed(rig: &Rig, used_before: u64) {
    while !is_freed(rig) {
        std::thread::yield_now();
    }
    assert_eq!(rig.records(), 0);
    assert_eq!(rig.row(3), None);
    let used = rig.store.slabs().budget().used();
    assert!(used < used_before / 2, "{used} of {used_before} bytes are left");
    assert!(rig.store.index_bytes() == 0 && rig.table.memory().rows == 0);
    assert_eq!(rig.store.table_ever(rig.table.id()).map(|table| table.is_gone()), Some(true));
}

fn must_not_be_freed(rig: &Rig) {
    assert!((0..100).all(|_| !is_freed(rig)));
    assert_eq!(rig.rows().len() as i64, ROWS - 1);
}

fn used(rig: &Rig) -> u64 {
    rig.store.slabs().budget().used()
}

#[test]
fn a_dropped_tables_memory_is_freed() {
    let rig = filled();
    let before = used(&rig);
    drop_table(&rig);
    assert!(rig.store.index_bytes() > 0, "it has not been freed yet");
    wait_until_freed(&rig, before);
}

#[test]
fn a_pinned_thread_keeps_it() {
    let rig = filled();
    let before = used(&rig);
    let guard = pin();
    let record = rig.record(3, &guard).expect("a row");
    drop_table(&rig);
    std::thread::scope(|scope| scope.spawn(|| must_not_be_freed(&rig)).join().expect("no panic"));
    assert_eq!(record.key().len(), 8);
    drop(guard);
    wait_until_freed(&rig, before);
}

#[test]
fn a_snapshot_of_before_keeps_it_and_a_later_one_does_not() {
    let rig = filled();
    let before = used(&rig);
    let earlier = rig.store.versions().open(rig.store.epochs().current());
    rig.seal();
    drop_table(&rig);
    let later = rig.store.versions().open(rig.store.epochs().current());
    must_not_be_freed(&rig);
    rig.store.versions().close(&earlier);
    wait_until_freed(&rig, before);
    rig.store.versions().close(&later);
}

#[test]
fn versions_of_its_records_keep_it() {
    let rig = filled();
    let before = used(&rig);
    let snapshot = rig.store.versions().open(rig.store.epochs().current());
    rig.seal();
    rig.commit(|writer| writer.delete(9)).expect("no rival");
    rig.commit(|writer| writer.insert(&[Value::Int(9), Value::Null])).expect("no rival");
    assert_eq!(rig.store.versions().counts().versions, 1);
    rig.seal();
    drop_table(&rig);
    must_not_be_freed(&rig);
    rig.store.versions().close(&snapshot);
    wait_until_freed(&rig, before);
}

#[test]
fn a_walk_that_began_before_keeps_it_and_all_that_follow() {
    let rig = filled();
    let before = used(&rig);
    let walk = rig.store.retired_tables().begin_walk();
    drop_table(&rig);
    let other = rig.store.add_table(99, rig.table.definition().clone());
    let later = rig.store.retired_tables().begin_walk();
    rig.store.change_schema(std::iter::once(SchemaChange::Drop(other)), Stamp::new(9, 1), &pin());
    must_not_be_freed(&rig);
    drop(later);
    must_not_be_freed(&rig);
    drop(walk);
    wait_until_freed(&rig, before);
}

#[test]
fn of_a_table_that_keeps_its_records_only_the_dropped_index_is_freed() {
    let rig = filled();
    let indexed = rig.table.definition().clone().index("by_name", ["name"]);
    let (with, _) = rig.table.redefined(indexed);
    let with = Arc::new(with);
    let build = crate::storage::index_build::IndexBuild::begin(&rig.store, with.clone(), vec![0], 0);
    build.fill(&rig.store).expect("filled");
    let replace = |old: &Arc<TableCore>, new: &Arc<TableCore>, stamp| {
        let change = SchemaChange::Replace { old: old.clone(), new: new.clone(), build: None };
        rig.store.change_schema(std::iter::once(change), stamp, &pin());
    };
    replace(&rig.table, &with, Stamp::new(rig.store.epochs().current(), 1));
    assert!(!rig.store.retired_tables().is_pending(), "nothing is gone");
    let (without, _) = with.redefined(rig.table.definition().clone());
    let without = Arc::new(without);
    let nodes = rig.store.index_bytes();
    replace(&with, &without, Stamp::new(rig.store.epochs().current(), 2));
    while !is_freed(&rig) {
        std::thread::yield_now();
    }
    assert!(rig.store.index_bytes() < nodes && rig.store.index_bytes() > 0);
    assert_eq!(rig.rows().len() as i64, ROWS - 1, "the rows stay");
    assert_eq!(with.index_memory("by_name"), Some(0));
    drop(build);
}

#[test]
fn the_thread_that_waits_learns_of_the_table_and_of_the_end() {
    let rig = filled();
    let tables = rig.store.retired_tables();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| tables.wait(None));
        drop_table(&rig);
        assert!(!waiting.join().expect("no panic"));
        while !is_freed(&rig) {
            std::thread::yield_now();
        }
        let waiting = scope.spawn(|| tables.wait(None));
        tables.stop();
        assert!(waiting.join().expect("no panic"));
    });
}
