//! A feed is complete and in order, checked against the history that its writers keep.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use heddledb::{
    Change, ColumnChange, DataType, Database, ForeignKey, Options, ProtocolKind, ReferentialAction, Table,
    TableDefinition, Value, key, row,
};

use super::copy::{Copy, int, now};
use crate::support::concurrent::{on_disk, open, small, watched};

fn events() -> TableDefinition {
    TableDefinition::new("event")
        .column("id", DataType::Int64)
        .column("thread", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["id"])
}

fn counters() -> TableDefinition {
    TableDefinition::new("counter")
        .column("thread", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["thread"])
}

/// Each thread writes its events, one transaction each, and reads the shared counter before some: who reads what another one
/// has written comes behind it. Gives back, for each event, the highest shared count that its transaction has read.
fn write(db: &Database, tables: (&Table, &Table), threads: i64, count: i64) -> BTreeMap<i64, i64> {
    let (events, counters) = tables;
    let reads = Mutex::new(BTreeMap::new());
    db.run(|tx| (-1..threads).try_for_each(|thread| tx.insert(counters, row![thread, 0]))).expect("counters");
    thread::scope(|scope| {
        for thread in 0..threads {
            let reads = &reads;
            scope.spawn(move || {
                for n in 1..=count {
                    let id = thread * count + n;
                    let shared = db.run(|tx| {
                        tx.update(counters, key![thread], &[("n", n.into())])?;
                        tx.insert(events, row![id, thread, n])?;
                        if n % 4 != 0 {
                            return Ok(None);
                        }
                        let shared = tx.get(counters, key![-1])?.map_or(Ok(0), |row| row.int("n"))? + 1;
                        tx.update(counters, key![-1], &[("n", shared.into())])?;
                        Ok(Some(shared))
                    });
                    if let Some(shared) = shared.expect("a transaction") {
                        reads.lock().expect("no panic").insert(id, shared);
                    }
                }
            });
        }
    });
    reads.into_inner().expect("no panic")
}

/// All events of a feed, with their epochs.
fn ids(db: &Database, table: &Table, after: u64) -> Vec<(u64, i64)> {
    let (mut feed, end) = (db.watch(table, after).expect("a feed"), now(db));
    let mut ids = Vec::new();
    while !feed.has_given(end) {
        let Some(batch) = feed.try_next().expect("readable") else { continue };
        assert!(ids.last().is_none_or(|(epoch, _)| *epoch < batch.epoch()), "epochs rise");
        for change in &batch {
            let Change::Insert { row, .. } = change else { panic!("{change:?}") };
            ids.push((batch.epoch(), row.int("id").expect("an id")));
        }
    }
    ids
}

fn is_complete_and_in_order(protocol: ProtocolKind, threads: i64, count: i64) {
    // No checkpoint: the log has everything.
    let options = || small().protocol(protocol).checkpoints(|c| c.log_bytes(0).seconds(0.0));
    let (db, disk) = on_disk(options());
    let (table, counters) =
        (db.create_table(events()).expect("a table"), db.create_table(counters()).expect("a table"));
    let reads = write(&db, (&table, &counters), threads, count);
    let seen = ids(&db, &table, 0);
    let mut sorted: Vec<i64> = seen.iter().map(|(_, id)| *id).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=threads * count).collect::<Vec<_>>(), "each event once");
    for thread in 0..threads {
        let own = seen.iter().map(|(_, id)| *id).filter(|id| (id - 1) / count == thread);
        assert!(own.is_sorted(), "thread {thread}'s transactions come as they were committed");
    }
    let shared: Vec<i64> = seen.iter().filter_map(|(_, id)| reads.get(id).copied()).collect();
    assert_eq!(
        shared,
        (1..=threads * (count / 4)).collect::<Vec<_>>(),
        "a transaction stands behind what it read"
    );
    let mut values = BTreeMap::<i64, i64>::new();
    let mut feed = db.watch(&counters, 0).expect("a feed");
    while let Some(batch) = feed.try_next().expect("readable") {
        for change in &batch {
            let (key, n) = match change {
                Change::Insert { key, row } => (int(&key[0]), row.int("n").expect("a count")),
                Change::Update { key, columns } => match columns.get("n") {
                    Some(ColumnChange::Set(Value::Int(n))) => (int(&key[0]), *n),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            let before = values.insert(key, n);
            assert_eq!(before.map_or(0, |before| before + 1), n, "every value of row {key} in its order");
        }
    }
    // The same from old epochs, and after a restart.
    let middle = seen[seen.len() / 2].0;
    let behind: Vec<_> = seen.iter().copied().filter(|(epoch, _)| *epoch > middle).collect();
    assert_eq!(ids(&db, &table, middle), behind);
    drop((feed, table, counters));
    db.close().expect("closed");
    let db = open(&disk, options());
    let table = db.table("event").expect("the table");
    assert_eq!(ids(&db, &table, 0), seen);
    assert_eq!(ids(&db, &table, middle), behind);
}

#[test]
fn every_change_comes_once_and_in_order() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        watched(move || is_complete_and_in_order(protocol, 1, 400));
        watched(move || is_complete_and_in_order(protocol, 4, 400));
    }
}

#[test]
fn a_waiting_reader_gets_what_is_committed() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let (db, _disk) = on_disk(small().protocol(protocol));
            let table = db.create_table(events()).expect("a table");
            let mut feed = db.watch(&table, now(&db)).expect("a feed");
            assert!(feed.try_next().expect("nothing").is_none());
            let reader = thread::spawn(move || {
                let mut ids = Vec::new();
                while ids.len() < 50 {
                    for change in feed.next().expect("a batch") {
                        let Change::Insert { row, .. } = change else { panic!("{change:?}") };
                        ids.push(row.int("id").expect("an id"));
                    }
                }
                ids
            });
            for id in 0..50 {
                db.run(|tx| tx.insert(&table, row![id, 0, id])).expect("a row");
            }
            assert_eq!(reader.join().expect("no panic"), (0..50).collect::<Vec<_>>());
        });
    }
}

#[test]
fn a_task_can_wait_for_changes() {
    watched(|| {
        let (db, _disk) = on_disk(small());
        let table = db.create_table(events()).expect("a table");
        let mut feed = db.watch(&table, now(&db)).expect("a feed");
        thread::scope(|scope| {
            scope.spawn(|| db.run(|tx| tx.insert(&table, row![1, 2, 3])).expect("a row"));
            let mut future = std::pin::pin!(feed.next_async());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let batch = loop {
                match future.as_mut().poll(&mut context) {
                    std::task::Poll::Ready(batch) => break batch.expect("a batch"),
                    std::task::Poll::Pending => thread::yield_now(),
                }
            };
            assert_eq!(batch.changes()[0].key().map(|key| int(&key[0])), Some(1));
        });
    });
}

#[test]
fn cascades_of_foreign_keys_are_changes_like_others() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let (db, _disk) = on_disk(Options::protocol(small(), protocol));
            let parents = db.create_table(
                TableDefinition::new("parent").column("id", DataType::Int64).primary_key(["id"]),
            );
            let parents = parents.expect("a table");
            let children = TableDefinition::new("child")
                .column("id", DataType::Int64)
                .column("parent", DataType::Int64)
                .primary_key(["id"])
                .index("child_by_parent", ["parent"])
                .foreign_key(
                    ForeignKey::new("of", ["parent"], "parent").on_delete(ReferentialAction::Cascade),
                );
            let children = db.create_table(children).expect("a table");
            db.run(|tx| {
                (1..=3).try_for_each(|id| tx.insert(&parents, row![id]))?;
                (1..=9).try_for_each(|id| tx.insert(&children, row![id, (id - 1) / 3 + 1]))
            })
            .expect("rows");
            let (mut copy, epoch) = Copy::of(&db, &children);
            let mut feed = db.watch(&children, epoch).expect("a feed");
            db.run(|tx| tx.delete(&parents, key![2])).expect("a delete");
            let batch = feed.next().expect("a batch");
            assert!(
                batch.changes().iter().all(|change| matches!(change, Change::Delete { .. })),
                "{batch:?}"
            );
            copy.take(&batch);
            assert_eq!(copy, Copy::of(&db, &children).0);
            assert_eq!(copy.rows.len(), 6);
        });
    }
}

#[test]
fn epochs_in_which_nothing_was_written_are_no_position_after_a_restart() {
    watched(|| {
        let (db, disk) = on_disk(small());
        let table = db.create_table(events()).expect("a table");
        db.run(|tx| tx.insert(&table, row![1, 0, 0])).expect("a row");
        let last = now(&db);
        // Each snapshot ends an epoch.
        while now(&db) < last + 50 {}
        let mut feed = db.watch(&table, now(&db)).expect("a feed");
        let positions = [feed.epoch(), {
            assert!(feed.try_next().expect("nothing").is_none());
            feed.epoch()
        }];
        let mut from_start = db.watch(&table, 0).expect("a feed");
        assert_eq!(from_start.next().expect("a batch").changes().len(), 1);
        assert!(from_start.try_next().expect("nothing").is_none());
        let named = db.create_feed("search", &table, 0).expect("a feed").epoch();
        assert!(named <= now(&db));
        let images = [disk.crash_image(0), disk.crash_image(1)];
        let third = from_start.epoch();
        drop((feed, from_start, table));
        db.close().expect("closed");
        for disk in images.iter().chain([&disk]) {
            let db = open(disk, small());
            let table = db.table("event").expect("the table");
            db.run(|tx| tx.insert(&table, row![2, 0, 0])).expect("a row");
            for position in positions.into_iter().chain([third]) {
                assert_eq!(ids(&db, &table, position).iter().map(|(_, id)| *id).collect::<Vec<_>>(), [2]);
            }
            let mut named = db.feed("search").expect("the feed");
            assert_eq!(named.next().expect("a batch").changes().len(), 1);
        }
    });
}
