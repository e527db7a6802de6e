//! Several columns of one row, each split for another operation, changed by one call.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::{
    Action, DataType, Database, Error, Procedure, ProcedureDefinition, Result, SplitOperation, Table, args,
    key, row,
};

use crate::support::split::*;

const THREADS: i64 = 3;
/// Number of split phases over which the calls run.
const PHASES: u64 = 20;

fn labelled(phase_milliseconds: f64) -> (Database, Table) {
    let (db, table) = in_memory(phase_milliseconds);
    let labels =
        [("n", SplitOperation::ADD), ("high", SplitOperation::MAX), ("best", SplitOperation::ORDERED_PUT)];
    for (column, operation) in labels {
        db.split(&table, key![1], column, operation).expect("a label");
    }
    (db, table)
}

/// Adds 1, and puts a number as the highest and the best.
fn by_closure(db: &Database, table: &Table, number: i64, thread: i64) -> Result<()> {
    db.run(|tx| {
        tx.add(table, key![1], "n", 1)?;
        tx.max(table, key![1], "high", number)?;
        tx.ordered_put(table, key![1], "best", &row![number], &row![thread])
    })
}

/// A procedure of `number` and `thread` that does the same.
fn procedure(db: &Database, table: &Table) -> Procedure {
    let action = Action::commute(table).key(|_, key| key.push(1)).body(|action| {
        let (number, thread) = (action.args().int(0)?, action.args().int(1)?);
        action.add("n", 1)?;
        action.max("high", number)?;
        action.ordered_put("best", &row![number], &row![thread])
    });
    let definition = ProcedureDefinition::new("three columns")
        .parameter("number", DataType::Int64)
        .parameter("thread", DataType::Int64)
        .phase([action]);
    db.register(definition).expect("a procedure")
}

/// The values that a reader sees: additions, the highest, the best.
fn seen(db: &Database, table: &Table) -> (i64, i64, (i64, i64)) {
    db.run(|tx| {
        let row = tx.get(table, key![1])?.expect("it is there");
        Ok((row.int("n")?, row.int("high")?, entries(&row.get("best")?.to_value())[0]))
    })
    .expect("readable")
}

/// Runs `call(number, thread)` on all threads over many split phases; gives back how often each did.
fn over_many_phases(db: &Database, call: impl Fn(i64, i64) + Sync) -> Vec<i64> {
    let (stop, call) = (AtomicBool::new(false), &call);
    let made: Vec<AtomicI64> = (0..THREADS).map(|_| AtomicI64::new(0)).collect();
    let first = report(db).split;
    thread::scope(|scope| {
        for (thread, made) in (0..).zip(&made) {
            let stop = &stop;
            scope.spawn(move || {
                for number in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    call(number, thread);
                    made.store(number, Ordering::Relaxed);
                }
            });
        }
        wait_until("many split phases", || report(db).split >= first + PHASES);
        stop.store(true, Ordering::Relaxed);
    });
    made.into_iter().map(AtomicI64::into_inner).collect()
}

fn check(db: &Database, table: &Table, made: &[i64], before: i64) {
    let highest = made.iter().copied().max().expect("threads");
    let best = (0..THREADS).rev().find(|&thread| made[thread as usize] == highest).expect("one of them");
    assert_eq!(seen(db, table), (before + made.iter().sum::<i64>(), highest, (highest, best)));
}

#[test]
fn closures_that_change_three_split_columns_are_never_stashed() {
    in_time(|| {
        let (db, table) = labelled(2.0);
        let made = over_many_phases(&db, |number, thread| {
            by_closure(&db, &table, number, thread).expect("committed");
        });
        assert_eq!(report(&db).stashed, 0);
        check(&db, &table, &made, 0);
    });
}

#[test]
fn procedures_that_change_three_split_columns_are_never_stashed() {
    in_time(|| {
        let (db, table) = labelled(2.0);
        let change = procedure(&db, &table);
        let made = over_many_phases(&db, |number, thread| {
            if thread == 0 {
                db.call(&change, args![number, thread]).expect("committed");
                return;
            }
            let mut worker = db.worker().expect("open");
            worker.execute(&change, args![number, thread]).wait().expect("committed");
        });
        assert_eq!(report(&db).stashed, 0);
        check(&db, &table, &made, 0);
    });
}

/// All three columns change together; so a reader never sees one without the others. With one thread whose numbers rise
/// that is exact.
#[test]
fn a_concurrent_reader_sees_all_columns_of_the_same_calls() {
    in_time(|| {
        let (db, table) = labelled(1.0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    by_closure(&db, &table, number, 5).expect("committed");
                }
            });
            let mut last = 0;
            while report(&db).split < 30 {
                let (n, high, best) = seen(&db, &table);
                assert_eq!(high, n);
                assert!(n >= last && (n == 0 || best == (n, 5)), "{n} after {last}, best {best:?}");
                last = n;
                thread::sleep(Duration::from_millis(3));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let report = report(&db);
        assert_eq!(report.columns.len(), 3, "{report:?}");
    });
}

/// Additions to a split column go to slices while additions to another column of the same row lock the record.
#[test]
fn operations_on_split_and_unsplit_columns_of_one_row_abort_no_attempt() {
    const ROUNDS: i64 = 3_000;
    let db = Database::in_memory_with(crate::phased::options_with(1.0)).expect("options");
    let table = crate::phased::counters(&db);
    db.split(&table, key![0], "n", SplitOperation::ADD).expect("a label");
    crate::phased::wait_for_split(&db, &table);
    let aborted = db.statistics().aborted;
    let high = db.run(|tx| tx.get(&table, key![0])?.ok_or(Error::Closed)?.int("high")).expect("a counter");
    thread::scope(|scope| {
        for thread in 0..4 {
            let (db, table) = (&db, &table);
            let column = if thread % 2 == 0 { "n" } else { "high" };
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    db.run(|tx| tx.add(table, key![0], column, 1)).expect("operations never fail");
                }
            });
        }
    });
    assert_eq!(db.statistics().aborted, aborted);
    let sums = db.run(|tx| {
        let row = tx.get(&table, key![0])?.ok_or(Error::Closed)?;
        Ok((row.int("n")?, row.int("high")?))
    });
    assert_eq!(sums, Ok((2 * ROUNDS, high + 2 * ROUNDS)));
}
