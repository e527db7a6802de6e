//! Deadlocks: which transaction aborts, and that nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{Database, Error, LockConflict, LockingOptions, Table, Tx, args, key, row};

use super::{add, database, options, raise, read};
use crate::support::concurrent::{accounts, balance, in_memory, total, transfer, watched};

#[test]
fn a_deadlock_of_two_transfers_ends_with_both_committed_and_the_older_one_undisturbed() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 2);
        let attempts = [AtomicU32::new(0), AtomicU32::new(0)];
        thread::scope(|scope| {
            let (first_has, second_may) = channel();
            let (second_has, first_may) = channel();
            let (db, table, attempts) = (&db, &table, &attempts);
            let run = |own: usize, has: Sender<()>, may: Receiver<()>, is_older: bool| {
                move || {
                    db.run(|tx| {
                        let first = attempts[own].fetch_add(1, Ordering::SeqCst) == 0;
                        if first && !is_older {
                            may.recv().expect("the older one has begun");
                        }
                        add(tx, table, own as i64, -10)?;
                        if first {
                            let _ = has.send(());
                        }
                        if first && is_older {
                            may.recv().expect("the younger one has its first lock");
                        }
                        add(tx, table, 1 - own as i64, 10)
                    })
                    .expect("a transfer");
                }
            };
            // The older one is born first: it has its lock before the younger one's first attempt goes on.
            scope.spawn(run(0, first_has, first_may, true));
            let wait = Instant::now();
            while attempts[0].load(Ordering::SeqCst) == 0 && wait.elapsed() < Duration::from_secs(10) {
                thread::yield_now();
            }
            scope.spawn(run(1, second_has, second_may, false));
        });
        assert_eq!((balance(&db, &table, 0), balance(&db, &table, 1)), (Some(100), Some(100)));
        assert_eq!(attempts[0].load(Ordering::SeqCst), 1, "the oldest is never a victim");
        assert_eq!(attempts[1].load(Ordering::SeqCst), 2);
        assert_eq!(db.statistics().aborted, 1);
    });
}

#[test]
fn declared_writes_of_rows_that_are_read_first_meet_no_deadlock() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 1);
        let raise = raise(&db, &table);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut worker = db.worker().expect("a free context");
                    for _ in 0..10 {
                        let calls: Vec<_> = (0..10).map(|_| (0, args![0])).collect();
                        let mut done = Vec::new();
                        worker.execute_group(std::slice::from_ref(&raise), &calls, &mut done);
                        assert!(done.iter().all(|one| one.attempts() == 1));
                        done.into_iter().for_each(|one| drop(one.wait().expect("it commits")));
                    }
                });
            }
        });
        assert_eq!((balance(&db, &table, 0), db.statistics().aborted), (Some(500), 0));
    });
}

/// Transfers in every direction, read-then-write closures, inserts and deletes, and scans of everything: deadlocks of
/// every kind, nothing lost, no thread hangs.
#[test]
fn deadlocks_of_every_kind_are_broken_and_nothing_is_lost() {
    watched(|| {
        for conflict in [LockConflict::Wait, LockConflict::NoWait] {
            let db = in_memory(options().protocol(LockingOptions::default().conflict(conflict)));
            let table = accounts(&db, 6);
            let transfer = transfer(&db, &table);
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let workers: Vec<_> = (0..6_u64)
                    .map(|thread| {
                        let (db, table, transfer) = (&db, &table, &transfer);
                        scope.spawn(move || work(db, table, transfer, thread))
                    })
                    .collect();
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        assert_eq!(total(&db, &table), 600);
                        thread::sleep(Duration::from_millis(1));
                    }
                });
                workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
                stop.store(true, Ordering::SeqCst);
            });
            assert_eq!(total(&db, &table), 600);
            db.check().expect("consistent");
        }
    });
}

pub(super) fn work(db: &Database, table: &Table, transfer: &heddledb::Procedure, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let (from, to) = (random.i64(0..6), random.i64(0..6));
        match random.u32(0..3) {
            0 => match db.call(transfer, args![from, to, 3]) {
                Err(Error::Failed { .. }) | Ok(_) => {}
                Err(error) => panic!("{error}"),
            },
            1 => db
                .run(|tx| {
                    let moved = read(tx, table, from)?.unwrap_or(0).min(2);
                    let there = read(tx, table, to)?;
                    if from == to || there.is_none() {
                        return Ok(());
                    }
                    add(tx, table, to, moved)?;
                    add(tx, table, from, -moved)
                })
                .expect("a transfer"),
            // All of it moves to a row that comes in beside the others, and back.
            _ => {
                let own = 100 + seed as i64;
                let all = |tx: &Tx<'_, '_>| Ok(read(tx, table, from)?.unwrap_or(0));
                db.run(|tx| {
                    let all = all(tx)?;
                    tx.insert(table, row![own, all])?;
                    add(tx, table, from, -all)
                })
                .expect("it comes in");
                db.run(|tx| {
                    let back = read(tx, table, own)?.unwrap_or(0);
                    assert!(tx.delete(table, key![own])?);
                    add(tx, table, from, back)
                })
                .expect("it goes");
            }
        }
    }
}
