//! The three variants: what readers and writers wait for, with a log and with any number of partitions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::{Database, Error, Options, Range, SerialOptions, SerialVariant, Table, Tx, Value, args, key};

use super::read;
use crate::support::concurrent::{
    accounts, audit, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched,
};

#[test]
fn under_sp_a_reader_of_durable_data_waits_for_nothing_and_under_precommit_for_the_log_so_far() {
    watched(|| {
        for variant in [SerialVariant::Sp, SerialVariant::Precommit] {
            let (db, disk) = on_disk(small().protocol(SerialOptions::default().variant(variant)));
            let table = accounts(&db, 2);
            let (deposit, gone) = (deposit(&db, &table), AtomicBool::new(false));
            disk.hold_syncs();
            let mut worker = db.worker().expect("a free context");
            let written = worker.execute(&deposit, args![0, 1]);
            assert!(!written.is_released());
            thread::scope(|scope| {
                if variant == SerialVariant::Sp {
                    assert_eq!(balance(&db, &table, 1), Some(100), "reported while the disk stands still");
                } else {
                    scope.spawn(|| {
                        assert_eq!(balance(&db, &table, 1), Some(100));
                        gone.store(true, Ordering::SeqCst);
                    });
                    disk.wait_for_held_syncs(1);
                    thread::sleep(std::time::Duration::from_millis(20));
                    assert!(!gone.load(Ordering::SeqCst), "reported before the log so far was durable");
                }
                assert!(!written.is_released());
                disk.release_syncs();
            });
            written.wait().expect("durable");
        }
    });
}

#[test]
fn under_naive_nothing_runs_until_the_writer_is_durable() {
    watched(|| {
        let (db, disk) = on_disk(small().protocol(SerialOptions::default().variant(SerialVariant::Naive)));
        let table = accounts(&db, 2);
        let (wrote, ran) = (AtomicBool::new(false), AtomicBool::new(false));
        disk.hold_syncs();
        thread::scope(|scope| {
            scope.spawn(|| {
                let add = |tx: &Tx<'_, '_>| {
                    wrote.store(true, Ordering::SeqCst);
                    tx.add(&table, key![0], "balance", 1)
                };
                db.run(add).expect("durable some day");
            });
            // A sync that is held may be another one than the writer's.
            while !wrote.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            scope.spawn(|| {
                db.run(|tx| {
                    ran.store(true, Ordering::SeqCst);
                    tx.exists(&table, key![1])
                })
            });
            thread::sleep(std::time::Duration::from_millis(20));
            assert!(!ran.load(Ordering::SeqCst), "a reader ran beside a writer that is not durable");
            disk.release_syncs();
        });
        assert!(ran.load(Ordering::SeqCst));
    });
}

#[test]
fn every_variant_is_correct_with_a_log() {
    watched(|| {
        for variant in SerialVariant::ALL {
            for partitions in [1, 3] {
                let (db, disk) = on_disk(
                    small()
                        .protocol(SerialOptions::default().variant(*variant).partitions(partitions))
                        .workers(2),
                );
                let table = accounts(&db, 6);
                mixed_work(&db, &table, 4, 12);
                db.close().expect("closed");
                let db = open(&disk.crash_image(9), small());
                assert_eq!(total(&db, &db.table("account").expect("a table")), 600, "{variant} {partitions}");
            }
        }
    });
}

/// Transfers by procedures, closures and workers, with audits beside: all keep the sum.
fn mixed_work(db: &Database, table: &Table, threads: i64, rounds: i64) {
    let (transfer, audit) = (transfer(db, table), audit(db, table));
    let start = total(db, table);
    let rows = db.run(|tx| Ok(tx.scan(table, Range::all())?.count())).expect("a count") as i64;
    thread::scope(|scope| {
        for number in 0..threads {
            let (transfer, audit) = (&transfer, &audit);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let mut worker = (number % 2 == 0).then(|| db.worker().expect("a free context"));
                for _ in 0..rounds {
                    let (from, to) = (random.i64(0..rows), random.i64(0..rows));
                    let amount = random.i64(0..150);
                    match db.call(transfer, args![from, to, amount]) {
                        Ok(_) | Err(Error::Failed { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    db.run(|tx| {
                        let before = read(tx, table, from)?;
                        tx.add(table, key![to], "balance", before / 2)?;
                        tx.add(table, key![from], "balance", -(before / 2))
                    })
                    .expect("a transfer");
                    if let Some(worker) = &mut worker {
                        let calls: Vec<_> = (0..random.i64(1..12))
                            .map(|_| (0, args![random.i64(0..rows), random.i64(0..rows), 1]))
                            .chain([(1, args![])])
                            .collect();
                        let mut done = Vec::new();
                        worker.execute_group(&[transfer.clone(), audit.clone()], &calls, &mut done);
                        let last = done.pop().expect("an audit").wait().expect("an audit");
                        assert_eq!(last.rows, [[Value::Int(start)]]);
                    }
                    assert_eq!(total(db, table), start);
                }
            });
        }
    });
}

#[test]
fn partitions_neither_deadlock_nor_lose_anything() {
    watched(|| {
        for partitions in [1, 2, 4, 8] {
            let db = in_memory(
                Options::default().protocol(SerialOptions::default().partitions(partitions)).workers(3),
            );
            let table = accounts(&db, 16);
            mixed_work(&db, &table, 6, 25);
            db.check().expect("consistent");
        }
    });
}
