//! The serial protocol: closures that meet, readers beside writers, the three variants, waiter slots, partitions.
//!
//! Where two closures must meet, a barrier inside their first attempts makes sure that both have begun, and so hold
//! their partitions shared, before either goes on; second attempts hold them alone and do not stop there.

#[path = "support/concurrent.rs"]
mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Error, Options, ProcedureDefinition, Range, Result, SerialOptions,
    SerialVariant, Table, TableDefinition, Tx, Value, args, fail, key, row,
};
use support::{accounts, audit, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched};

/// What became of two closures that met.
struct Met<A, B> {
    results: (Result<A>, Result<B>),
    attempts: usize,
    aborted: u64,
}

/// Runs two closures that meet in their first attempts: `read` comes before the meeting, `write` after it.
fn meet<R, A, B>(
    db: &Database,
    read: impl Fn(&Tx<'_, '_>, usize) -> Result<R> + Sync,
    first: impl Fn(&Tx<'_, '_>, R) -> Result<A> + Sync,
    second: impl Fn(&Tx<'_, '_>, R) -> Result<B> + Sync,
) -> Met<A, B>
where
    A: Send,
    B: Send,
{
    let (barrier, attempts) = (Barrier::new(2), AtomicUsize::new(0));
    let before = db.statistics();
    let one = |number: usize, tx: &Tx<'_, '_>, again: &mut bool| {
        attempts.fetch_add(1, Ordering::SeqCst);
        let seen = read(tx, number);
        if !std::mem::replace(again, true) {
            barrier.wait();
        }
        seen
    };
    let results = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut again = false;
            db.run(|tx| second(tx, one(1, tx, &mut again)?))
        });
        let mut again = false;
        let first = db.run(|tx| first(tx, one(0, tx, &mut again)?));
        (first, other.join().expect("no panic"))
    });
    let aborted = (db.statistics() - before).aborted;
    Met { results, attempts: attempts.into_inner(), aborted }
}

impl<A, B> Met<A, B> {
    /// One of them lost, and was retried once; or both were, where each has put a placeholder into what the other had
    /// looked through. No more: the second time they run alone.
    fn one_or_both_ran_again(&self) {
        assert!(
            matches!((self.attempts, self.aborted), (3, 1) | (4, 2)),
            "{} {}",
            self.attempts,
            self.aborted
        );
    }

    /// One of them lost, and was retried once.
    fn one_ran_again(&self) {
        assert_eq!((self.attempts, self.aborted), (3, 1));
    }
}

fn read(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<i64> {
    tx.get(table, key![id])?.ok_or_else(|| fail("no such row"))?.int("balance")
}

fn for_each_number_of_partitions(test: impl Fn(Database) + Send + 'static) {
    watched(move || {
        for partitions in [1, 2, 8] {
            for variant in [SerialVariant::Sp, SerialVariant::Precommit] {
                test(in_memory(
                    Options::default()
                        .protocol(SerialOptions::default().partitions(partitions))
                        .protocol(SerialOptions::default().variant(variant)),
                ));
            }
        }
    });
}

#[test]
fn two_readers_that_write_both_commit_and_no_update_is_lost() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        let raise =
            |tx: &Tx<'_, '_>, seen: i64| tx.update(&table, key![0], &[("balance", (seen + 1).into())]);
        let met = meet(&db, |tx, _| read(tx, &table, 0), raise, raise);
        met.one_ran_again();
        assert_eq!(met.results, (Ok(()), Ok(())));
        assert_eq!(balance(&db, &table, 0), Some(102));
    });
}

#[test]
fn two_closures_that_write_different_rows_they_have_read_both_commit_at_once() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        let met = meet(
            &db,
            |tx, number| read(tx, &table, number as i64),
            |tx, seen| tx.update(&table, key![0], &[("balance", (seen + 1).into())]),
            |tx, seen| tx.update(&table, key![1], &[("balance", (seen + 1).into())]),
        );
        assert_eq!((met.attempts, met.aborted), (2, 0), "they did not touch the same");
        assert_eq!(total(&db, &table), 202);
    });
}

#[test]
fn operations_that_return_nothing_do_not_conflict() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 1);
        let add = |tx: &Tx<'_, '_>, ()| tx.add(&table, key![0], "balance", 1);
        let met = meet(&db, |_, _| Ok(()), add, add);
        assert_eq!((met.attempts, met.aborted), (2, 0));
        assert_eq!(balance(&db, &table, 0), Some(102));
    });
}

#[test]
fn no_write_skew() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        // Both may take 150 of what two accounts have together, but not both of them.
        let both = |tx: &Tx<'_, '_>, _| Ok(read(tx, &table, 0)? + read(tx, &table, 1)?);
        let take = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, sum: i64| {
                if sum < 150 {
                    return Err(fail("not enough"));
                }
                tx.add(table, key![id], "balance", -150)
            }
        };
        let met = meet(&db, both, take(0), take(1));
        met.one_ran_again();
        let failed = fail("not enough");
        assert!(
            met.results == (Ok(()), Err(failed.clone())) || met.results == (Err(failed), Ok(())),
            "{:?}",
            met.results
        );
        assert_eq!(total(&db, &table), 50);
    });
}

#[test]
fn no_read_skew() {
    watched(|| {
        for partitions in [1, 4] {
            let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(partitions)));
            let table = accounts(&db, 2);
            let (transfer, done) = (transfer(&db, &table), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    for round in 0..400 {
                        let amount = if round % 2 == 0 { 30 } else { -30 };
                        match round % 3 {
                            0 => drop(db.call(&transfer, args![0, 1, amount])),
                            _ => db
                                .run(|tx| {
                                    tx.add(&table, key![0], "balance", -amount)?;
                                    tx.add(&table, key![1], "balance", amount)
                                })
                                .expect("a transfer"),
                        }
                    }
                    done.store(true, Ordering::SeqCst);
                });
                while !done.load(Ordering::SeqCst) {
                    let sum = db.run(|tx| {
                        let first = read(tx, &table, 0)?;
                        thread::yield_now();
                        Ok(first + read(tx, &table, 1)?)
                    });
                    assert_eq!(sum, Ok(200));
                }
            });
        }
    });
}

#[test]
fn no_phantom() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 10);
        // Each inserts a row only if its range has an even number of rows.
        let count = |tx: &Tx<'_, '_>, _| Ok(tx.scan(&table, Range::from(key![0]).to(key![1_000]))?.count());
        let put = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, rows: usize| {
                if rows.is_multiple_of(2) { tx.insert(table, row![id, 0]).map(|()| true) } else { Ok(false) }
            }
        };
        let met = meet(&db, count, put(500), put(900));
        met.one_or_both_ran_again();
        let (first, second) = met.results;
        assert!(first.expect("no error") != second.expect("no error"), "exactly one found an even number");
        assert_eq!(db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())), Ok(11));
    });
}

#[test]
fn no_phantom_among_missing_keys_nor_in_whole_tables_nor_in_secondary_indexes() {
    // A database for each way: a repeated writer is granted the partitions exclusively, and bodies cannot meet.
    (0..4).for_each(|number| {
        for_each_number_of_partitions(move |db| one_way_to_look_for_phantoms(&db, number))
    });
}

fn one_way_to_look_for_phantoms(db: &Database, number: usize) {
    let table = db
        .create_table(
            TableDefinition::new("visit")
                .column("id", DataType::Int64)
                .column("room", DataType::Int64)
                .primary_key(["id"])
                .index("by_room", ["room"]),
        )
        .expect("a table");
    type Look<'t> = Box<dyn Fn(&Tx<'_, '_>, i64) -> Result<usize> + Sync + 't>;
    let ways: Vec<Look<'_>> = vec![
        Box::new(|tx, base| {
            Ok(usize::from(tx.exists(&table, key![base])?)
                + usize::from(tx.get(&table, key![base + 1])?.is_some()))
        }),
        Box::new(|tx, base| {
            let mut rows = 0;
            for row in tx.scan(&table, Range::all())? {
                rows += usize::from(row?.int("id")? / 10 == base / 10);
            }
            Ok(rows)
        }),
        Box::new(|tx, base| Ok(tx.scan_index(&table, "by_room", Range::prefix(key![base]))?.count())),
        Box::new(|tx, base| {
            Ok(tx.scan(&table, Range::from(key![base]).to(key![base + 2]).reverse().limit(1))?.count())
        }),
    ];
    let look = &ways[number];
    let base = number as i64 * 10;
    let put = |id: i64| {
        let table = &table;
        move |tx: &Tx<'_, '_>, rows: usize| {
            if rows == 0 { tx.insert(table, row![id, base]).map(|()| 1) } else { Ok(0) }
        }
    };
    let met = meet(db, |tx, _| look(tx, base), put(base), put(base + 1));
    met.one_or_both_ran_again();
    let (first, second) = met.results;
    assert_eq!(first.expect("no error") + second.expect("no error"), 1, "way {number}");
    db.check().expect("consistent");
}

#[test]
fn one_of_two_inserts_of_a_key_wins_and_the_other_is_a_duplicate() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 0);
        let put = |balance: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, ()| tx.insert(table, row![7, balance])
        };
        let met = meet(&db, |_, _| Ok(()), put(1), put(2));
        met.one_ran_again();
        let (first, second) = met.results;
        let winner = match (&first, &second) {
            (Ok(()), Err(Error::DuplicateKey { .. })) => 1,
            (Err(Error::DuplicateKey { .. }), Ok(())) => 2,
            other => panic!("{other:?}"),
        };
        assert_eq!(balance(&db, &table, 7), Some(winner));
    });
}

#[test]
fn insert_if_absent_happens_once() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 0);
        let put = |tx: &Tx<'_, '_>, there: bool| {
            if there { tx.add(&table, key![7], "balance", 1) } else { tx.insert(&table, row![7, 1]) }
        };
        let met = meet(&db, |tx, _| tx.exists(&table, key![7]), put, put);
        met.one_or_both_ran_again();
        assert_eq!(met.results, (Ok(()), Ok(())));
        assert_eq!(balance(&db, &table, 7), Some(2));
    });
}

#[test]
fn a_unique_index_takes_a_value_once() {
    for_each_number_of_partitions(|db| {
        let table = db
            .create_table(
                TableDefinition::new("user")
                    .column("id", DataType::Int64)
                    .column("name", DataType::Text)
                    .primary_key(["id"])
                    .unique_index("by_name", ["name"]),
            )
            .expect("a table");
        let put = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, ()| tx.insert(table, row![id, "ada"])
        };
        let met = meet(&db, |_, _| Ok(()), put(1), put(2));
        met.one_ran_again();
        let (first, second) = met.results;
        assert!(
            matches!(
                (&first, &second),
                (Ok(()), Err(Error::DuplicateKey { .. })) | (Err(Error::DuplicateKey { .. }), Ok(()))
            ),
            "{first:?} {second:?}"
        );
        // And once it has been released, the other can have it: by a delete and by a change of name.
        let rename = |tx: &Tx<'_, '_>, ()| {
            let id = if tx.exists(&table, key![1])? { 1 } else { 2 };
            tx.update(&table, key![id], &[("name", "eve".into())])
        };
        let take = |tx: &Tx<'_, '_>, ()| match tx.insert(&table, row![3, "ada"]) {
            Err(Error::DuplicateKey { .. }) => Ok(false),
            other => other.map(|()| true),
        };
        let met = meet(&db, |_, _| Ok(()), rename, take);
        let took = met.results.1.expect("no error");
        met.results.0.expect("renamed");
        let rows = db.run(|tx| Ok(tx.scan_index(&table, "by_name", Range::prefix(key!["ada"]))?.count()));
        assert_eq!(rows, Ok(usize::from(took)));
        db.check().expect("consistent");
    });
}

#[test]
fn deletes_and_inserts_that_meet_are_serializable() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        // One moves all money from 0 to 1 and closes 0; the other pays 10 into 0, or into 1 if 0 is closed.
        let close = |tx: &Tx<'_, '_>, _: i64| {
            let left = read(tx, &table, 0)?;
            tx.delete(&table, key![0])?;
            tx.add(&table, key![1], "balance", left)
        };
        let pay = |tx: &Tx<'_, '_>, _: i64| {
            let into = if tx.exists(&table, key![0])? { 0 } else { 1 };
            tx.add(&table, key![into], "balance", 10)
        };
        let met = meet(&db, |_, number| Ok(number as i64), close, pay);
        assert_eq!(met.results, (Ok(()), Ok(())));
        assert_eq!((balance(&db, &table, 0), balance(&db, &table, 1)), (None, Some(210)));
        // One opens it again; the other deletes it if it is there.
        let open = |tx: &Tx<'_, '_>, _: bool| tx.insert(&table, row![0, 5]);
        let remove = |tx: &Tx<'_, '_>, there: bool| {
            let deleted = tx.delete(&table, key![0])?;
            assert!(deleted == there, "what it sees changes within one attempt");
            Ok(deleted)
        };
        let met = meet(
            &db,
            |tx, number| if number == 1 { tx.exists(&table, key![0]) } else { Ok(false) },
            open,
            remove,
        );
        met.results.0.expect("opened");
        let removed = met.results.1.expect("no error");
        assert_eq!(balance(&db, &table, 0).is_none(), removed);
    });
}

#[test]
fn an_error_that_came_of_a_state_that_is_gone_by_now_is_still_a_possible_one() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        let complain = |_: &Tx<'_, '_>, sum: i64| -> Result<()> { Err(fail(format!("sum {sum}"))) };
        let change = |tx: &Tx<'_, '_>, _| tx.add(&table, key![0], "balance", 1);
        let both = |tx: &Tx<'_, '_>, _| Ok(read(tx, &table, 0)? + read(tx, &table, 1)?);
        let met = meet(&db, both, complain, change);
        met.results.1.expect("changed");
        let reported = met.results.0.expect_err("its own error");
        assert!(reported == fail("sum 200") || reported == fail("sum 201"), "{reported}");
    });
}

#[test]
fn a_writer_makes_progress_under_constant_readers_and_readers_under_constant_writers() {
    watched(|| {
        const ENOUGH: usize = 200;
        for variant in SerialVariant::ALL {
            for partitions in [1, 4] {
                let db = in_memory(
                    Options::default()
                        .protocol(SerialOptions::default().variant(*variant).partitions(partitions)),
                );
                let table = accounts(&db, 4);
                let (deposit, audit) = (deposit(&db, &table), audit(&db, &table));
                // Everybody goes on until all have had enough; so each has to get its share among the others.
                let had_enough = AtomicUsize::new(0);
                let everybody = |number: usize, work: &dyn Fn(usize)| {
                    let mut rounds = 0;
                    while had_enough.load(Ordering::SeqCst) < number {
                        work(rounds);
                        rounds += 1;
                        if rounds == ENOUGH {
                            had_enough.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                };
                thread::scope(|scope| {
                    scope.spawn(|| {
                        everybody(5, &|_| {
                            db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a write")
                        })
                    });
                    scope.spawn(|| {
                        everybody(5, &|round| {
                            drop(db.call(&deposit, args![round as i64 % 4, 1]).expect("a write"))
                        })
                    });
                    scope.spawn(|| everybody(5, &|_| assert!(total(&db, &table) >= 400)));
                    scope.spawn(|| everybody(5, &|_| drop(db.call(&audit, args![]).expect("a read"))));
                    scope.spawn(|| everybody(5, &|_| assert!(balance(&db, &table, 3).is_some())));
                });
            }
        }
    });
}

#[test]
fn a_ring_of_two_waiting_places_serves_many_epochs_and_waiters() {
    watched(|| {
        let (db, disk) = on_disk(small().log(|log| log.waiter_slots(2)).workers(2));
        let table = accounts(&db, 8);
        let transfer = transfer(&db, &table);
        thread::scope(|scope| {
            for number in 0..8_i64 {
                let (db, table, transfer) = (&db, &table, &transfer);
                scope.spawn(move || {
                    for round in 0..40 {
                        match round % 4 {
                            0 => db.run(|tx| tx.add(table, key![number], "balance", 1)).expect("a write"),
                            1 => drop(db.call(transfer, args![number, (number + 1) % 8, 1])),
                            2 => drop(
                                db.call(transfer, args![number, (number + 1) % 8, 1_000_000])
                                    .expect_err("too much"),
                            ),
                            _ => assert!(balance(db, table, (number + round) % 8).is_some()),
                        }
                    }
                });
            }
        });
        assert_eq!(total(&db, &table), 800 + 80);
        assert!(db.durable_epoch() > 4, "the ring came around");
        // Everything that was acknowledged is on the disk as it is.
        let after = open(&disk.crash_image(5), small());
        assert_eq!(total(&after, &after.table("account").expect("a table")), 880);
    });
}

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

/// Rows that belong to different partitions lie beside each other in the ordered index, and go in and out there at once.
#[test]
fn neighbours_of_different_partitions_come_and_go_beside_each_other() {
    watched(|| {
        let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(4)).workers(4));
        let table = accounts(&db, 0);
        let whole = table.clone();
        let flip =
            ProcedureDefinition::new("flip").parameter("id", DataType::Int64).phase([Action::write(&table)
                .key(|args, key| key.push(args.int(0)?))
                .body(move |action| {
                    let id = action.args().int(0)?;
                    let found = action.tx().scan(&whole, Range::prefix(key![id]))?.count();
                    assert_eq!(found == 1, action.exists()?, "a scan and a look-up of one key differ");
                    if found == 1 { action.delete().map(drop) } else { action.insert(row![id, 1]) }
                })]);
        let flip = db.register(flip).expect("a procedure");
        thread::scope(|scope| {
            for number in 0..4_i64 {
                let (db, flip) = (&db, &flip);
                scope.spawn(move || {
                    let mut worker = db.worker().expect("a free context");
                    for round in 0..40 {
                        // Each thread's own keys, an odd number of flips for each.
                        let calls: Vec<_> = (0..30).map(|at| (0, args![at * 4 + number])).collect();
                        let mut done = Vec::new();
                        worker.execute_group(std::slice::from_ref(flip), &calls, &mut done);
                        done.into_iter().for_each(|one| drop(one.wait().expect("a flip")));
                        if round == 20 {
                            db.call(flip, args![number]).expect("a flip");
                            db.call(flip, args![number]).expect("a flip");
                        }
                    }
                    (0..30).for_each(|at| drop(db.call(flip, args![at * 4 + number]).expect("a flip")));
                });
            }
        });
        assert_eq!(total(&db, &table), 120);
        db.check().expect("consistent");
    });
}
