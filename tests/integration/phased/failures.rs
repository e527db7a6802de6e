//! A disk that fails, is full or is slow while columns are split: reads of split records end, with a value or with the
//! log's error, and nothing that was acknowledged is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Database, Error, Options, PhasedOptions, Result, SplitOperation, Table, key};

use crate::support::split::*;

const SEGMENT: u64 = 64 << 10;
const ADDERS: i64 = 3;
/// A read that takes longer than this hangs, whatever the machine is doing.
const BOUND: Duration = Duration::from_secs(60);

fn options(disk: &SimulatedDisk, phase_milliseconds: f64) -> Options {
    Options::default()
        .protocol(PhasedOptions::default().phase_milliseconds(phase_milliseconds))
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(SEGMENT).buffer_bytes(4 << 10))
        .workers(1)
}

/// Row 1's counter is labelled, and split now.
fn split_counter(disk: &SimulatedDisk, phase_milliseconds: f64) -> (Database, Table) {
    let db = Database::open("counters", options(disk, phase_milliseconds)).expect("a new database");
    let table = board(&db);
    db.split(&table, key![1], "n", SplitOperation::ADD).expect("a label");
    wait_for_split(&db, &table);
    (db, table)
}

/// The counter, after a crash.
fn recovered(disk: &SimulatedDisk, seed: u64) -> i64 {
    let db = Database::open("counters", options(&disk.crash_image(seed), 20.0)).expect("opens");
    let table = db.table("board").expect("it was made");
    db.check().expect("consistent");
    int(&db, &table, 1, "n").expect("readable")
}

/// Reads the split column, in bounded time.
fn read(db: &Database, table: &Table) -> Result<i64> {
    let begun = Instant::now();
    let n = int(db, table, 1, "n");
    assert!(begun.elapsed() < BOUND, "a read of a split column took {:?}", begun.elapsed());
    n
}

/// Threads add 1 until the log has failed, which it does after some additions; gives back how many were acknowledged, and
/// how many ended unknown.
fn add_until_the_log_fails(
    disk: &SimulatedDisk,
    operation: Operation,
    db: &Database,
    table: &Table,
) -> (i64, i64) {
    let (acknowledged, unknown) = (AtomicI64::new(0), AtomicI64::new(0));
    thread::scope(|scope| {
        for _ in 0..ADDERS {
            scope.spawn(|| {
                loop {
                    match db.run(|tx| tx.add(table, key![1], "n", 1)) {
                        Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                        // No segment could be made: it was refused before it ran, and nothing is unknown about it.
                        Err(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => continue,
                        Err(Error::LogFailed { .. }) => {
                            unknown.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
        wait_until("some additions", || acknowledged.load(Ordering::SeqCst) >= 20);
        disk.fail_from_now(operation, Fault::InputOutput);
        wait_until("the log has failed", || unknown.load(Ordering::SeqCst) == ADDERS);
    });
    (acknowledged.into_inner(), unknown.into_inner())
}

fn the_log_fails(operation: Operation, phase_milliseconds: f64) {
    in_time(move || {
        let disk = SimulatedDisk::new();
        let (db, table) = split_counter(&disk, phase_milliseconds);
        let (acknowledged, unknown) = add_until_the_log_fails(&disk, operation, &db, &table);
        for _ in 0..5 {
            match read(&db, &table) {
                // All of it is durable.
                Ok(n) => assert_eq!(n, acknowledged),
                Err(error) => assert!(matches!(error, Error::LogFailed { .. }), "{error}"),
            }
            // What has not changed is readable, split or not.
            assert_eq!(int(&db, &table, 2, "n"), Ok(0));
            // Whether the row is there is known with its last stamp, which may never be durable.
            let exists = db.run(|tx| tx.exists(&table, key![1]));
            assert!(matches!(exists, Ok(true) | Err(Error::LogFailed { .. })), "{exists:?}");
        }
        disk.heal();
        assert!(matches!(db.run(|tx| tx.add(&table, key![1], "n", 1)), Err(Error::LogFailed { .. })));
        let closed = db.close();
        assert!(matches!(closed, Err(Error::LogFailed { .. })), "{closed:?}");
        for seed in 0..4 {
            let n = recovered(&disk, seed);
            assert!((acknowledged..=acknowledged + unknown).contains(&n), "{acknowledged}, {unknown}, {n}");
        }
    });
}

#[test]
fn reads_of_split_columns_end_when_a_sync_has_failed() {
    for phase_milliseconds in [1.0, 50.0] {
        the_log_fails(Operation::Sync, phase_milliseconds);
    }
}

#[test]
fn reads_of_split_columns_end_when_a_write_has_failed() {
    for phase_milliseconds in [1.0, 50.0] {
        the_log_fails(Operation::Write, phase_milliseconds);
    }
}

/// A call that was stashed before the log failed gets an answer, too.
#[test]
fn readers_who_wait_in_a_split_phase_are_answered_when_the_log_fails() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = split_counter(&disk, 30.0);
        wait_until("everything is durable", || read(&db, &table) == Ok(0));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut reported = 0;
                        while !stop.load(Ordering::SeqCst) {
                            reported += u32::from(read(&db, &table).is_ok());
                        }
                        reported
                    })
                })
                .collect();
            wait_for_split(&db, &table);
            disk.fail_from_now(Operation::Sync, Fault::InputOutput);
            wait_until("the log has failed", || {
                matches!(db.run(|tx| tx.add(&table, key![2], "n", 1)), Err(Error::LogFailed { .. }))
            });
            thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::SeqCst);
            readers.into_iter().for_each(|reader| {
                reader.join().expect("no panic");
            });
        });
        // Its own last value was durable before: it has not changed since.
        assert_eq!(read(&db, &table), Ok(0));
    });
}

/// Fills the disk while threads add; gives back how many additions were acknowledged. None: the disk was full before the
/// additions were refused, so that those which had been let in wait for space; there is some again now.
fn add_until_the_disk_is_full(disk: &SimulatedDisk, db: &Database, table: &Table) -> Option<i64> {
    let (acknowledged, refused) = (AtomicI64::new(0), AtomicI64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..ADDERS {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    match db.run(|tx| tx.add(table, key![1], "n", 1)) {
                        Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                        Err(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => {
                            refused.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    };
                    // The thread that looks for space needs a processor, too.
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        disk.set_capacity(0);
        let begun = Instant::now();
        while refused.load(Ordering::SeqCst) < ADDERS {
            if begun.elapsed() > Duration::from_secs(2) {
                stop.store(true, Ordering::SeqCst);
                disk.heal();
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(acknowledged.load(Ordering::SeqCst))
    })
}

#[test]
fn reads_of_split_columns_go_on_while_the_disk_is_full_and_updates_resume() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = split_counter(&disk, 2.0);
        let Some(mut expected) = add_until_the_disk_is_full(&disk, &db, &table) else { return };
        for _ in 0..5 {
            assert_eq!(read(&db, &table), Ok(expected));
        }
        assert_eq!(recovered(&disk, 0), expected);
        disk.heal();
        // It may be of the very epoch in which the slices were merged: the log has both.
        wait_until("updates resume", || {
            let doubled = db.run(|tx| {
                let n = tx.get(&table, key![1])?.ok_or(Error::Closed)?.int("n")?;
                tx.update(&table, key![1], &[("n", (n * 2).into())])
            });
            doubled.is_ok()
        });
        expected *= 2;
        let phases = report(&db).split;
        wait_until("split phases go on", || {
            expected += i64::from(db.run(|tx| tx.add(&table, key![1], "n", 1)).is_ok());
            report(&db).split > phases + 3
        });
        assert_eq!(read(&db, &table), Ok(expected));
        db.close().expect("durable");
        assert_eq!(recovered(&disk, 0), expected);
    });
}

/// A sync that takes long holds the change of phases up, and with it a thread that waits for that: no longer than it takes.
#[test]
fn a_slow_sync_holds_phase_changes_up_and_nothing_is_reported_too_early() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = split_counter(&disk, 2.0);
        disk.hold_syncs();
        let reported = AtomicBool::new(false);
        thread::scope(|scope| {
            let adder = scope.spawn(|| {
                db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("committed");
                reported.store(true, Ordering::SeqCst);
            });
            disk.wait_for_held_syncs(1);
            let reader = scope.spawn(|| int(&db, &table, 1, "n"));
            thread::sleep(Duration::from_millis(30));
            assert!(!reported.load(Ordering::SeqCst), "it is not durable");
            for seed in 0..3 {
                assert!((0..=1).contains(&recovered(&disk, seed)));
            }
            disk.release_syncs();
            adder.join().expect("no panic");
            assert!(reader.join().expect("no panic").is_ok_and(|n| n == 0 || n == 1));
        });
        assert_eq!(read(&db, &table), Ok(1));
        assert_eq!(recovered(&disk, 0), 1);
    });
}
