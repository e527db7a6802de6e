//! The serial protocol: closures that meet, readers beside writers, the three variants, waiter slots, partitions.
//!
//! If two closures must meet, a barrier inside their first attempts makes sure that both have begun, and so
//! hold their partitions shared, before either continues; second attempts hold them exclusively and do not
//! stop there.

mod anomalies;
mod variants;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::concurrent::{
    accounts, audit, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched,
};
use heddledb::{
    Action, DataType, Database, Options, ProcedureDefinition, Range, Result, SerialOptions, SerialVariant,
    Table, Tx, args, fail, key, row,
};

/// The outcome of two closures that met.
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
