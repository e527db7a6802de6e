//! Room for the log: a full buffer, transactions larger than it, a full disk, the limits of a group.

mod full_disk;
mod group_limits;

use std::thread;
use std::time::{Duration, Instant};

use crate::support::logged::*;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, ProcedureDefinition, Result, Table, TableDefinition, args, fail, key, row,
};

/// A table of texts, in which transactions can be as large as one likes.
fn texts(db: &Database) -> Table {
    let definition = TableDefinition::new("texts")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"]);
    db.create_table(definition).expect("a new table")
}

/// Waits until something has come true.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not after two minutes");
        thread::sleep(Duration::from_millis(2));
    }
}

fn text_of(db: &Database, table: &Table, id: i64) -> Result<Option<String>> {
    db.run(|tx| tx.get(table, key![id])?.map(|row| row.text("text").map(str::to_string)).transpose())
}

#[test]
fn a_transaction_larger_than_the_buffer_and_than_segments_is_committed_and_recovered() {
    let disk = SimulatedDisk::new();
    let sizes = [3_000, 5_000, 70_000, 300_000, 17];
    let options = small_options(&disk);
    in_time("large transactions", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        for (id, size) in sizes.into_iter().enumerate() {
            let text = "x".repeat(size);
            db.run(|tx| tx.insert(&table, row![id as i64, text.as_str()])).expect("committed");
        }
        drop(db);
    });
    let db = open(&disk.crash_image(0)).expect("recovered");
    let table = db.table("texts").expect("there");
    for (id, size) in sizes.into_iter().enumerate() {
        assert_eq!(text_of(&db, &table, id as i64), Ok(Some("x".repeat(size))));
    }
    db.check().expect("consistent");
}

/// More threads than the buffer has portions, each with transactions of every size: what one thread keeps in
/// reserve must never be what all the others wait for.
#[test]
fn threads_with_a_tiny_buffer_all_finish() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    let shared = disk.clone();
    in_time("twelve threads", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        let threads: Vec<_> = (0..12_i64)
            .map(|thread| {
                let (db, table) = (db.clone(), table.clone());
                thread::spawn(move || {
                    for round in 0..12 {
                        let size = [10, 600, 1_500, 2_500, 9_000][(thread + round) as usize % 5];
                        let text = "y".repeat(size);
                        db.run(|tx| tx.insert(&table, row![thread * 100 + round, text.as_str()]))
                            .expect("ok");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let db = open(&shared.crash_image(0)).expect("recovered");
    assert_eq!(db.run(|tx| Ok(tx.scan(&db.table("texts")?, heddledb::Range::all())?.count())), Ok(144));
}

/// Workers keep what they have reserved between calls. Idle ones must not starve one that has much to write.
#[test]
fn idle_workers_do_not_keep_all_room_for_themselves() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("a writer beside idle workers", move || {
        let bank = bank_with(options);
        let mut workers: Vec<_> = (0..8).map(|_| bank.db.worker().expect("open")).collect();
        for round in 0..3 {
            for worker in &mut workers {
                worker.execute(&bank.set, args![1, round]).wait().expect("committed");
            }
            let table = if round == 0 { texts(&bank.db) } else { bank.db.table("texts").expect("there") };
            for size in [100, 1_000, 2_000, 4_000, 50_000] {
                let text = "z".repeat(size);
                let id = round * 1_000_000 + size as i64;
                bank.db.run(|tx| tx.insert(&table, row![id, text.as_str()])).expect("committed");
            }
        }
    });
}

/// Room that a failed call had reserved is there for others.
#[test]
fn a_large_call_that_fails_in_its_second_attempt_gives_its_room_back() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("calls after a failed one", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        let text = "w".repeat(100_000);
        let mut runs = 0;
        let result = db.run(|tx| {
            runs += 1;
            tx.insert(&table, row![1, text.as_str()])?;
            if runs > 1 { Err(fail("not this time")) } else { Ok(()) }
        });
        assert_eq!((result, runs), (Err(fail("not this time")), 2));
        let threads: Vec<_> = (2..6)
            .map(|id| {
                let (db, table) = (db.clone(), table.clone());
                thread::spawn(move || db.run(|tx| tx.insert(&table, row![id, "v".repeat(1_500).as_str()])))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic").expect("committed");
        }
    });
}

/// A wait for room in the log is no attempt that a rival has ended.
#[test]
fn a_call_that_waits_for_room_has_made_one_attempt() {
    let disk = SimulatedDisk::new();
    in_time("a large call", move || {
        let db = Database::open(DIRECTORY, small_options(&disk)).expect("new");
        let table = texts(&db);
        let definition = ProcedureDefinition::new("write")
            .parameter("id", DataType::Int64)
            .parameter("text", DataType::Text)
            .phase([Action::write(&table)
                .key(|args, key| key.push(args.int(0)?))
                .body(|action| action.insert(row![action.args().int(0)?, action.args().text(1)?]))]);
        let write = db.register(definition).expect("a procedure");
        let mut worker = db.worker().expect("open");
        for (id, size) in [10, 300_000, 20, 500_000].into_iter().enumerate() {
            let executed = worker.execute(&write, args![id as i64, "x".repeat(size)]);
            assert_eq!(executed.attempts(), 1, "{size} bytes");
            executed.wait().expect("durable");
        }
    });
}
