//! Tests of closing a database while calls are in progress, and of the errors afterwards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Procedure, ProcedureDefinition, Stages, Table,
    TableDefinition, Tx, args, key,
};

use crate::support::concurrent::{Gate, accounts, deposit, on_disk, open, small, total, watched};

/// The work of threads while the database is closed.
fn keep_going(db: &Database, table: &Table, deposit: &Procedure, number: i64, reported: &AtomicU64) -> Error {
    let mut worker = match db.worker() {
        Ok(worker) if number % 4 == 3 => Some(worker),
        _ => None,
    };
    loop {
        let result = match number % 4 {
            0 => db.run(|tx: &Tx<'_, '_>| tx.add(table, key![number], "balance", 1)),
            1 => db.call(deposit, args![number, 1]).map(drop),
            2 => {
                let many: Vec<_> = (0..10).map(|_| db.submit(deposit, args![number, 1])).collect();
                let mut all = Ok(());
                for sent in many {
                    let result = sent.and_then(|sent| sent.wait());
                    reported.fetch_add(u64::from(result.is_ok()), Ordering::SeqCst);
                    all = all.and(result.map(drop));
                }
                all
            }
            _ => match &mut worker {
                Some(worker) => worker.execute(deposit, args![number, 1]).wait().map(drop),
                None => return Error::Closed,
            },
        };
        match result {
            Ok(()) if number % 4 == 2 => {}
            Ok(()) => drop(reported.fetch_add(1, Ordering::SeqCst)),
            Err(error) => return error,
        }
    }
}

#[test]
fn closing_while_calls_are_under_way_loses_nothing_that_was_reported() {
    watched(|| {
        for (round, durability) in
            [Durability::Group, Durability::Async].into_iter().cycle().take(16).enumerate()
        {
            let stages = [Stages::Folded, Stages::Staged][round / 2 % 2];
            let options = small().durability(durability).threads(|threads| threads.stages(stages)).workers(2);
            let (db, disk) = on_disk(options.clone());
            let table = accounts(&db, 8);
            let deposit = deposit(&db, &table);
            let reported = AtomicU64::new(0);
            thread::scope(|scope| {
                for number in 0..8_i64 {
                    let (db, table, deposit, reported) = (&db, &table, &deposit, &reported);
                    scope.spawn(move || {
                        let error = keep_going(db, table, deposit, number, reported);
                        assert_eq!(error, Error::Closed);
                    });
                }
                while reported.load(Ordering::SeqCst) < 200 {
                    thread::yield_now();
                }
                db.clone().close().expect("closed");
            });
            let reported = reported.load(Ordering::SeqCst) as i64;
            let db = open(&disk.crash_image(round as u64), options);
            let table = db.table("account").expect("a table");
            let there = total(&db, &table) - 800;
            assert!(
                there >= reported,
                "round {round}, {durability}: {reported} were acknowledged and {there} are there"
            );
        }
    });
}

/// A body that has begun before the end and comes back after it: what it wrote can't be made durable any more.
#[test]
fn a_body_that_comes_back_after_the_end_does_not_learn_that_it_committed() {
    watched(|| {
        for durability in [Durability::Group, Durability::Async] {
            let (db, _disk) = on_disk(small().durability(durability));
            let table = accounts(&db, 1);
            let gate = Gate::default();
            thread::scope(|scope| {
                let late = scope.spawn(|| {
                    db.run(|tx| {
                        gate.pass();
                        tx.add(&table, key![0], "balance", 1)
                    })
                });
                gate.wait_for_arrivals(1);
                db.clone().close().expect("closed");
                gate.open();
                assert_eq!(late.join().expect("no panic"), Err(Error::Closed), "{durability}");
            });
        }
    });
}

#[test]
fn a_closed_database_refuses_everything() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let (db, _disk) = on_disk(small().threads(|threads| threads.stages(stages)));
            let table = accounts(&db, 1);
            let deposit = deposit(&db, &table);
            let mut worker = db.worker().expect("a free context");
            let early = worker.execute(&deposit, args![0, 1]);
            let submitted = db.submit(&deposit, args![0, 1]).expect("room");
            db.clone().close().expect("closed");
            early.wait().expect("it was durable before the end");
            submitted.wait().expect("it was durable before the end");
            assert_eq!(db.run(|tx| tx.exists(&table, key![0])), Err(Error::Closed));
            assert_eq!(db.call(&deposit, args![0, 1]), Err(Error::Closed));
            assert!(matches!(db.submit(&deposit, args![0, 1]), Err(Error::Closed)));
            assert!(matches!(db.try_submit(&deposit, args![0, 1]), Err(Error::Closed)));
            assert!(matches!(db.worker(), Err(Error::Closed)));
            assert_eq!(worker.execute(&deposit, args![0, 1]).wait(), Err(Error::Closed));
            let late = TableDefinition::new("late").column("id", DataType::Int64).primary_key(["id"]);
            assert!(matches!(db.create_table(late), Err(Error::Closed)));
            drop(worker);
            db.clone().close().expect("closing twice is no error");
        }
    });
}

#[test]
fn dropping_the_last_handle_waits_for_durability() {
    watched(|| {
        // A group's time that never ends on its own.
        let options = small().durability(Durability::Async).log(|log| log.group_milliseconds(60_000.0));
        let (db, disk) = on_disk(options.clone());
        let table = accounts(&db, 3);
        let deposit = deposit(&db, &table);
        drop(db.submit(&deposit, args![1, 1]).expect("room"));
        drop(db.worker().expect("a free context").execute(&deposit, args![2, 1]));
        let other = db.clone();
        drop(db);
        other.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("still open");
        drop(other);
        let db = open(&disk.crash_image(3), options);
        assert_eq!(total(&db, &db.table("account").expect("a table")), 303);
    });
}

#[test]
fn everybody_who_closes_waits_for_durability() {
    watched(|| {
        let (db, disk) = on_disk(small().durability(Durability::Async));
        let table = accounts(&db, 1);
        disk.hold_syncs();
        db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("reported at once");
        let closed = AtomicUsize::new(0);
        let db = Mutex::new(db);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (db, closed) = (db.lock().expect("lock").clone(), &closed);
                scope.spawn(move || {
                    db.close().expect("closed");
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
            disk.wait_for_held_syncs(1);
            thread::sleep(Duration::from_millis(30));
            assert_eq!(closed.load(Ordering::SeqCst), 0, "closed before everything was durable");
            disk.release_syncs();
        });
        assert_eq!(closed.load(Ordering::SeqCst), 2);
    });
}

/// The thread that drops the last handle may be one of the database's own threads: by a procedure that holds a handle.
#[test]
fn a_procedure_may_hold_the_last_handle() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let disk = SimulatedDisk::new();
            let db = open(&disk, small().threads(|threads| threads.stages(stages)));
            let table = accounts(&db, 1);
            let gate = Arc::new(Gate::default());
            let (handle, at) = (db.clone(), gate.clone());
            let definition = ProcedureDefinition::new("holder").phase([Action::commute(&table)
                .key(|_, key| key.push(0))
                .body(move |action| {
                    at.pass();
                    assert!(handle.table("account").is_ok());
                    action.add("balance", 1)
                })]);
            let holder = db.register(definition).expect("a procedure");
            let submitted = db.submit(&holder, args![]).expect("room");
            gate.wait_for_arrivals(1);
            drop((holder, db, table));
            gate.open();
            submitted.wait().expect("the call was under way");
            // The directory is free some time after.
            let db = loop {
                let options = small().log(|log| log.segment_bytes(1 << 20)).disk(Arc::new(disk.clone()));
                match Database::open("/db", options) {
                    Ok(db) => break db,
                    Err(Error::InUse { .. }) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(total(&db, &db.table("account").expect("a table")), 101);
        }
    });
}
