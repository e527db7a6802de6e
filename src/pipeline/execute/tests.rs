//! Tests of the state that calls leave in the tables, and of what they hold while they wait: seen from
//! inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crossbeam_epoch::pin;

use crate::storage::word::{SEQUENCE_BITS, Stamp};
use crate::testing::SimulatedDisk;
use crate::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, Result, Table,
    TableDefinition, Tx, args, fail, key, row,
};

fn in_memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).expect("options")
}

fn on_disk(disk: &SimulatedDisk) -> Database {
    let options = Options::default().log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20));
    Database::open("/db", options.disk(Arc::new(disk.clone()))).expect("a database")
}

/// Users 0 to 9, each with a name of its own.
fn users(db: &Database) -> Table {
    let definition = TableDefinition::new("user")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("age", DataType::Int64)
        .primary_key(["id"])
        .unique_index("by_name", ["name"])
        .index("by_age", ["age"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| {
        (0..10).try_for_each(|id| tx.insert(&table, row![id, format!("user {id}").as_str(), id % 3]))
    })
    .expect("rows");
    table
}

/// The records of a table and of its secondary indexes, present or not.
fn records(table: &Table) -> Vec<usize> {
    let guard = pin();
    let indexes = table.core().secondary().iter().map(|secondary| &*secondary.table);
    [table.core()]
        .into_iter()
        .chain(indexes)
        .map(|core| {
            let mut records = 0;
            core.for_each_record(&guard, |_| records += 1);
            records
        })
        .collect()
}

#[test]
fn failed_inserts_leave_no_placeholder() {
    let db = in_memory();
    let table = users(&db);
    let put = |tx: &Tx<'_, '_>, id: i64, name: &str| tx.insert(&table, row![id, name, 50]);
    type Way<'t> = Box<dyn Fn(&Tx<'_, '_>) -> Result<()> + 't>;
    let ways: Vec<Way<'_>> = vec![
        Box::new(|tx| put(tx, 20, "new").and_then(|()| Err(fail("its own")))),
        // The second name is taken: its index says so after the row's placeholder was put in.
        Box::new(|tx| put(tx, 20, "new").and_then(|()| put(tx, 21, "user 3"))),
        Box::new(|tx| {
            put(tx, 20, "new")?;
            std::panic::resume_unwind(Box::new("on purpose"))
        }),
        // These commit, without the row.
        Box::new(|tx| {
            let savepoint = tx.savepoint();
            put(tx, 20, "new")?;
            tx.rollback_to(&savepoint);
            Ok(())
        }),
        Box::new(|tx| put(tx, 20, "new").and_then(|()| tx.delete(&table, key![20]).map(drop))),
        Box::new(|tx| match put(tx, 21, "user 3") {
            Err(Error::DuplicateKey { .. }) => tx.add(&table, key![1], "age", 0),
            other => other,
        }),
    ];
    assert_eq!(records(&table), [10, 10, 10]);
    for (number, way) in ways.iter().enumerate() {
        let _ = db.run(|tx| way(tx));
        assert_eq!(records(&table), [10, 10, 10], "way {number}");
        db.check().expect("consistent");
    }
}

#[test]
fn deleted_rows_are_collected_when_their_epoch_is_durable_and_not_before() {
    let disk = SimulatedDisk::new();
    let db = on_disk(&disk);
    let table = users(&db);
    db.run(|tx| (100..300).try_for_each(|id| tx.insert(&table, row![id, format!("user {id}").as_str(), 77])))
        .expect("rows");
    assert_eq!(records(&table), [210, 210, 210]);
    disk.hold_syncs();
    thread::scope(|scope| {
        scope.spawn(|| {
            db.run(|tx| (100..300).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).expect("deleted")
        });
        disk.wait_for_held_syncs(1);
        // Calls end beside it; each would collect, if it could.
        (0..5).for_each(|id| assert_eq!(db.run(|tx| tx.exists(&table, key![id])), Ok(true)));
        assert_eq!(records(&table), [210, 210, 210], "nothing may go before the delete is durable");
        disk.release_syncs();
    });
    // The worker context that deleted collects at the end of its next call: it is the one that was freed last.
    for _ in 0..3 {
        assert_eq!(db.run(|tx| tx.exists(&table, key![100])), Ok(false));
    }
    assert_eq!(records(&table), [10, 10, 10]);
    db.run(|tx| tx.insert(&table, row![100, "user 100", 1])).expect("its key is free");
    db.check().expect("consistent");
}

#[test]
fn rows_that_come_and_go_leave_a_bounded_number_of_records() {
    let db = in_memory();
    let table = users(&db);
    for round in 0..2_000_i64 {
        let id = 1_000 + round;
        db.run(|tx| tx.insert(&table, row![id, format!("{id}").as_str(), id])).expect("inserted");
        db.run(|tx| tx.delete(&table, key![id])).expect("deleted");
        if round % 500 == 499 {
            // A delete's epoch ends some time: without a log, by a tick.
            let durable = db.durable_epoch();
            while db.durable_epoch() < durable + 2 {
                thread::yield_now();
            }
            db.run(|tx| tx.exists(&table, key![id])).expect("read");
            // Of each worker context that was used, less than 64 wait for company.
            assert!(
                records(&table).into_iter().all(|records| records < 10 + 2 * 64),
                "{:?}",
                records(&table)
            );
        }
    }
}

/// A call that needs the next epoch, because the present one has no sequence numbers left, holds nothing meanwhile:
/// others may be what the next epoch waits for.
#[test]
fn a_call_that_waits_for_the_next_epoch_holds_no_partition() {
    let disk = SimulatedDisk::new();
    let db = Arc::new(on_disk(&disk));
    let table = users(&db);
    let bodies = Arc::new(AtomicUsize::new(0));
    let count = bodies.clone();
    let touch = ProcedureDefinition::new("touch").phase([Action::write(&table)
        .key(|_, key| key.push(0))
        .body(move |action| {
            count.fetch_add(1, Ordering::SeqCst);
            action.add("age", 1)
        })]);
    let touch = db.register(touch).expect("a procedure");
    disk.hold_syncs();
    thread::scope(|scope| {
        // The log writes this one's epoch, and stands still there: no later epoch begins.
        let before = db.statistics().committed;
        scope.spawn(|| db.run(|tx| tx.add(&table, key![1], "age", 1)).expect("durable some day"));
        // A sync that is held may be another one than this one's.
        while db.statistics().committed == before {
            thread::yield_now();
        }
        disk.wait_for_held_syncs(1);
        let epochs = db.engine().store().epochs();
        let mut slot_guard = db.engine().store().worker_contexts().take();
        slot_guard.parts().1.workspace.last_stamp = Stamp::new(epochs.current(), (1 << SEQUENCE_BITS) - 1);
        drop(slot_guard);
        scope.spawn(|| {
            let mut worker = db.worker().expect("the slot that was free last");
            let mut done = Vec::new();
            worker.execute_group(&[touch], &[(0, args![]), (0, args![])], &mut done);
            done.into_iter().for_each(|executed| drop(executed.wait().expect("durable some day")));
        });
        while bodies.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let (reported, answer) = mpsc::channel();
        let (reader, users) = (db.clone(), table.clone());
        scope.spawn(move || reported.send(reader.run(|tx| tx.exists(&users, key![5]))));
        let answer = answer.recv_timeout(Duration::from_secs(20));
        disk.release_syncs();
        assert_eq!(answer, Ok(Ok(true)), "a reader waits for a partition whose holder waits for the log");
    });
    let age = db.run(|tx| tx.get(&table, key![0])?.ok_or_else(|| fail("no row"))?.int("age"));
    assert_eq!(age, Ok(2));
}
