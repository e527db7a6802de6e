//! Mishaps in split phases outside of the engine: bodies that panic or sleep, threads that die, handles that
//! are dropped, a database that is closed. Every call is answered, and the phases continue.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, DataType, Database, Error, Procedure, ProcedureDefinition, SplitOperation, Table, Value, args,
    key,
};

use crate::support::split::*;

/// Row 1's counter is labelled.
fn labelled(phase_milliseconds: f64) -> (Database, Table) {
    let (db, table) = in_memory(phase_milliseconds);
    db.split(&table, key![1], "n", SplitOperation::ADD).expect("a label");
    (db, table)
}

struct Procedures {
    add: Procedure,
    /// Returns the counter.
    read: Procedure,
    /// Adds to the counter what is not what it is split for: it reads it first.
    read_and_add: Procedure,
}

/// Procedures of a row's number.
fn procedures(db: &Database, table: &Table) -> Procedures {
    let register = |name: &str, action: Action| {
        let action = action.key(|args, key| key.push(args.int(0)?));
        let definition = ProcedureDefinition::new(name).parameter("id", DataType::Int64).phase([action]);
        db.register(definition).expect("a procedure")
    };
    Procedures {
        add: register("add", Action::commute(table).body(|action| action.add("n", 1))),
        read: register(
            "read",
            Action::read(table).body(|action| {
                // It knows that the column is NOT NULL.
                let n = action.get()?.expect("there").int("n").expect("a counter has a value");
                action.return_row(vec![Value::Int(n)]);
                Ok(())
            }),
        ),
        read_and_add: register(
            "read and add",
            Action::write(table).body(|action| {
                let n = action.get()?.ok_or(Error::Closed)?.int("n")?;
                action.update(&[("n", (n + 1).into())])
            }),
        ),
    }
}

/// Waits until some further split phases have begun, while a thread uses the label.
fn phases_go_on(db: &Database, table: &Table) {
    let first = report(db).split;
    wait_until("further split phases", || {
        db.run(|tx| tx.add(table, key![1], "n", 0)).expect("an addition");
        report(db).split >= first + 5
    });
}

#[test]
fn a_panic_in_a_split_phase_ends_the_call_and_nothing_else() {
    in_time(|| {
        let (db, table) = labelled(20.0);
        let panicked = in_one_split_phase(&db, &table, || {
            db.run(|tx| -> Result<(), Error> {
                tx.add(&table, key![1], "n", 1_000)?;
                tx.add(&table, key![2], "n", 1_000)?;
                panic!("in the middle")
            })
        });
        assert!(matches!(&panicked, Err(Error::Panicked { message }) if message.contains("middle")));
        db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("an addition");
        assert_eq!((int(&db, &table, 1, "n"), int(&db, &table, 2, "n")), (Ok(1), Ok(0)));
        phases_go_on(&db, &table);
    });
}

/// The procedure panics on what no row can hold. That attempt leaves no trace: it is retried.
#[test]
fn a_panic_about_a_hidden_value_is_never_reported() {
    in_time(|| {
        let (db, table) = labelled(4.0);
        let procedures = procedures(&db, &table);
        let before = report(&db).stashed;
        let mut round = 0;
        wait_until("several calls were stashed", || {
            wait_for_split(&db, &table);
            db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("an addition");
            let output = db.call(&procedures.read, args![1]).expect("no panic");
            round += 1;
            assert_eq!(output.rows, [[Value::Int(round)]]);
            report(&db).stashed > before + 5
        });
    });
}

#[test]
fn a_closure_that_sleeps_holds_nobody_up_and_commits_what_is_right() {
    in_time(|| {
        let (db, table) = labelled(2.0);
        wait_for_split(&db, &table);
        let (stop, added, runs) = (AtomicBool::new(false), AtomicI64::new(0), AtomicI64::new(0));
        thread::scope(|scope| {
            let others: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("an addition");
                            added.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let (phases, before) = (report(&db).split, added.load(Ordering::Relaxed));
            let sleeper = db.run(|tx| {
                tx.add(&table, key![1], "n", 1_000_000)?;
                let plain = tx.get(&table, key![2])?.ok_or(Error::Closed)?.int("plain")?;
                if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(300));
                }
                tx.update(&table, key![2], &[("plain", (plain + 1).into())])
            });
            sleeper.expect("committed");
            assert!(report(&db).split >= phases + 5, "phases stood still");
            assert!(added.load(Ordering::Relaxed) > before, "the others stood still");
            stop.store(true, Ordering::Relaxed);
            others.into_iter().for_each(|other| other.join().expect("no panic"));
        });
        let expected = added.into_inner() + 1_000_000;
        assert_eq!((int(&db, &table, 1, "n"), int(&db, &table, 2, "plain")), (Ok(expected), Ok(1)));
    });
}

#[test]
fn a_thread_that_dies_with_its_worker_leaves_what_it_has_committed() {
    in_time(|| {
        let (db, table) = labelled(2.0);
        let procedures = procedures(&db, &table);
        wait_for_split(&db, &table);
        for forgotten in [false, true] {
            let (db, add) = (db.clone(), procedures.add.clone());
            let died = thread::spawn(move || {
                let mut worker = db.worker().expect("open");
                for _ in 0..50 {
                    worker.execute(&add, args![1]).wait().expect("committed");
                }
                if forgotten {
                    // Its slot is never given back, as by a thread that was stopped forever.
                    std::mem::forget(worker);
                    return;
                }
                panic!("outside of the engine");
            })
            .join();
            assert_eq!(died.is_err(), !forgotten);
        }
        phases_go_on(&db, &table);
        assert_eq!(int(&db, &table, 1, "n"), Ok(100));
    });
}

#[test]
fn stashed_calls_of_a_worker_are_run_whoever_drops_them() {
    in_time(|| {
        let (db, table) = labelled(20.0);
        let procedures = procedures(&db, &table);
        let mut expected = 0;
        wait_until("a call was stashed and dropped", || {
            wait_for_split(&db, &table);
            let mut worker = db.worker().expect("open");
            let stashed = (0..3)
                .map(|_| worker.execute(&procedures.read_and_add, args![1]).is_stashed())
                .filter(|stashed| *stashed)
                .count();
            drop(worker);
            expected += 3;
            stashed == 3
        });
        wait_until("they have run", || int(&db, &table, 1, "n") == Ok(expected));
        phases_go_on(&db, &table);
        assert_eq!(int(&db, &table, 1, "n"), Ok(expected));
    });
}

#[test]
fn a_waiter_for_a_stashed_call_gets_its_result() {
    in_time(|| {
        let (db, table) = labelled(4.0);
        let procedures = procedures(&db, &table);
        let mut expected = 0;
        while expected < 6 || report(&db).stashed < 4 {
            wait_for_split(&db, &table);
            let mut worker = db.worker().expect("open");
            let executed = worker.execute(&procedures.read_and_add, args![1]);
            assert!(!executed.is_stashed() || executed.epoch() == 0 && !executed.failed());
            executed.wait().expect("committed");
            let executed = worker.execute(&procedures.read, args![1]);
            wait_until("it is released without a wait", || executed.is_released());
            expected += 1;
            assert_eq!(executed.wait().expect("readable").rows, [[Value::Int(expected)]]);
            wait_for_split(&db, &table);
            db.call(&procedures.read_and_add, args![1]).expect("committed");
            let submitted = db.submit(&procedures.read, args![1]).expect("taken");
            expected += 1;
            assert_eq!(submitted.wait().expect("readable").rows, [[Value::Int(expected)]]);
            // A call that fails on its own is stashed, too: its error is of the joined phase.
            let missing = worker.execute(&procedures.read_and_add, args![77]).wait();
            assert_eq!(missing, Err(Error::Closed), "the body's own error");
        }
        assert_eq!(int(&db, &table, 1, "n"), Ok(expected));
    });
}

/// Calls of every kind wait in a split phase that would last for long, when the database is closed.
#[test]
fn closing_answers_every_stashed_call() {
    for _ in 0..3 {
        in_time(|| {
            let (db, table) = labelled(1_000.0);
            let procedures = procedures(&db, &table);
            wait_for_split(&db, &table);
            let (reported, hears) = mpsc::channel();
            let submitted: Vec<_> =
                (0..5).map(|_| db.submit(&procedures.read_and_add, args![1]).expect("taken")).collect();
            let threads: Vec<_> = (0..6)
                .map(|number| {
                    let (db, table, reported) = (db.clone(), table.clone(), reported.clone());
                    let read = procedures.read.clone();
                    thread::spawn(move || {
                        let result = match number % 3 {
                            0 => int(&db, &table, 1, "n"),
                            1 => db.call(&read, args![1]).map(|_| 0),
                            _ => db
                                .worker()
                                .and_then(|mut worker| worker.execute(&read, args![1]).wait())
                                .map(|_| 0),
                        };
                        let _ = reported.send(result);
                    })
                })
                .collect();
            let deadline = Instant::now() + Duration::from_secs(2);
            while report(&db).stashed < 5 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            db.clone().close().expect("closed");
            let mut committed = 0;
            for submitted in submitted {
                match submitted.wait() {
                    Ok(_) => committed += 1,
                    Err(error) => assert_eq!(error, Error::Closed),
                }
            }
            assert_eq!(committed, 5, "they had been taken in before");
            for _ in 0..6 {
                let result = hears.recv_timeout(Duration::from_secs(60)).expect("an answer");
                assert!(matches!(result, Ok(_) | Err(Error::Closed)), "{result:?}");
            }
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
    }
}

/// A caller's own worker finds out in the middle of the closing that its call must wait.
#[test]
fn a_worker_whose_calls_are_stashed_while_the_database_closes_gets_answers() {
    in_time(|| {
        for _ in 0..40 {
            let (db, table) = labelled(1.0);
            let call = procedures(&db, &table).read_and_add;
            wait_for_split(&db, &table);
            let others = db.clone();
            let worker = thread::spawn(move || {
                // It may be too late for it.
                let Ok(mut worker) = others.worker() else { return };
                let mut executed = Vec::new();
                for _ in 0..2_000 {
                    executed.push(worker.execute(&call, args![1]));
                    if executed.last().is_some_and(heddledb::Executed::failed) {
                        break;
                    }
                }
                for executed in executed {
                    let result = executed.wait();
                    assert!(matches!(result, Ok(_) | Err(Error::Closed)), "{result:?}");
                }
            });
            thread::sleep(Duration::from_micros(500));
            db.close().expect("closed");
            worker.join().expect("no panic");
        }
    });
}
