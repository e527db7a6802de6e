//! The pipeline: every way to run a call, their bounds, and how a database goes down while they are under way.

mod caller_run;
mod closing;
mod futures;
mod nested_calls;
mod panics;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::concurrent::{
    Gate, accounts, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched,
};
use heddledb::{
    Action, DataType, Database, Error, Options, Procedure, ProcedureDefinition, Result, SerialOptions,
    Stages, Table, TableDefinition, Value, args, key, row,
};

/// `gated(id)`: waits at the gate, then adds 1.
fn gated(db: &Database, table: &Table, gate: &Arc<Gate>) -> Procedure {
    let gate = gate.clone();
    let definition =
        ProcedureDefinition::new("gated").parameter("id", DataType::Int64).phase([Action::commute(table)
            .key(|args, key| key.push(args.int(0)?))
            .body(move |action| {
                gate.pass();
                action.add("balance", 1)
            })]);
    db.register(definition).expect("a procedure")
}

/// `echo(n)`: adds 1 to account 0 and returns its argument.
fn echo(db: &Database, table: &Table) -> Procedure {
    let definition =
        ProcedureDefinition::new("echo").parameter("n", DataType::Int64).phase([Action::commute(table)
            .key(|_, key| key.push(0))
            .body(|action| {
                action.return_row(vec![Value::Int(action.args().int(0)?)]);
                action.add("balance", 1)
            })]);
    db.register(definition).expect("a procedure")
}

#[test]
fn every_call_gets_its_own_result_in_every_layout_of_stages() {
    watched(|| {
        for (stages, inputs, outputs) in [
            (Stages::Folded, 1, 1),
            (Stages::Staged, 1, 1),
            (Stages::Staged, 2, 3),
            (Stages::Staged, 3, 2),
            (Stages::Staged, 3, 3),
        ] {
            for workers in [1, 3] {
                let options = small()
                    .threads(|threads| threads.stages(stages).input(inputs).output(outputs))
                    .workers(workers);
                let (db, _disk) = on_disk(options);
                let table = accounts(&db, 2);
                let echo = echo(&db, &table);
                thread::scope(|scope| {
                    for thread in 0..3_i64 {
                        let (db, echo) = (&db, &echo);
                        scope.spawn(move || {
                            let calls: Vec<_> = (0..40)
                                .map(|n| (thread * 1_000 + n, db.submit(echo, args![thread * 1_000 + n])))
                                .collect();
                            for (n, call) in calls {
                                let output = call.expect("submitted").wait().expect("a result");
                                assert_eq!(output.rows, [[Value::Int(n)]]);
                            }
                        });
                    }
                });
                assert_eq!(balance(&db, &table, 0), Some(220), "{stages} {inputs} {outputs} {workers}");
            }
        }
    });
}

#[test]
fn wrong_arguments_are_reported_in_every_layout_and_take_no_place_in_flight() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let db = in_memory(
                Options::default()
                    .threads(|threads| threads.stages(stages))
                    .queues(|queues| queues.max_in_flight(2)),
            );
            let table = accounts(&db, 1);
            let deposit = deposit(&db, &table);
            for _ in 0..10 {
                let error = db.call(&deposit, args![0]).expect_err("one argument is missing");
                assert!(matches!(error, Error::WrongArguments { .. }), "{error}");
                let error = db.call(&deposit, args!["x", 1]).expect_err("a text is no id");
                assert!(matches!(error, Error::WrongType { .. }), "{error}");
            }
            db.call(&deposit, args![0, 5]).expect("there is room");
            assert_eq!(balance(&db, &table, 0), Some(105));
        }
    });
}

#[test]
fn calls_in_flight_are_bounded() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let db = in_memory(
                Options::default()
                    .threads(|threads| threads.stages(stages))
                    .queues(|queues| queues.max_in_flight(2))
                    .workers(1),
            );
            let table = accounts(&db, 1);
            let gate = Arc::new(Gate::default());
            let gated = gated(&db, &table, &gate);
            let first = db.submit(&gated, args![0]).expect("room");
            let second = db.try_submit(&gated, args![0]).expect("room");
            gate.wait_for_arrivals(1);
            let Err(busy) = db.try_submit(&gated, args![0]) else { panic!("there are two under way") };
            assert!(matches!(busy, Error::Busy { .. }) && busy.is_retryable(), "{busy}");
            let entered = AtomicBool::new(false);
            thread::scope(|scope| {
                let third = scope.spawn(|| {
                    let third = db.submit(&gated, args![0]).expect("room some day");
                    entered.store(true, Ordering::SeqCst);
                    third.wait()
                });
                thread::sleep(Duration::from_millis(30));
                assert!(!entered.load(Ordering::SeqCst), "a third call came in beside two");
                assert!(!first.is_done());
                gate.open();
                third.join().expect("no panic").expect("a result");
            });
            first.wait().expect("a result");
            second.wait().expect("a result");
            assert_eq!(balance(&db, &table, 0), Some(103));
            db.try_submit(&gated, args![0]).expect("room again").wait().expect("a result");
        }
    });
}

#[test]
fn closures_calls_and_workers_mix_with_few_worker_contexts() {
    watched(|| {
        let db = in_memory(
            Options::default()
                .threads(|threads| threads.max_worker_contexts(8))
                .workers(2)
                .protocol(SerialOptions::default().partitions(2)),
        );
        let table = accounts(&db, 8);
        let (deposit, transfer) = (deposit(&db, &table), transfer(&db, &table));
        thread::scope(|scope| {
            for number in 0..64_i64 {
                let (db, table, deposit, transfer) = (&db, &table, &deposit, &transfer);
                scope.spawn(move || {
                    for round in 0..10 {
                        db.run(|tx| tx.add(table, key![number % 8], "balance", 1)).expect("a closure");
                        db.call(deposit, args![round % 8, 1]).expect("a call");
                        db.call(transfer, args![number % 8, round % 8, 1]).expect("a call");
                        if number % 16 == 0 {
                            let mut worker = db.worker().expect("a free context");
                            worker.execute(deposit, args![round % 8, 1]).wait().expect("its own call");
                        }
                    }
                });
            }
        });
        assert_eq!(total(&db, &table), 800 + 64 * 20 + 4 * 10);
    });
}

#[test]
fn a_workers_results_come_in_the_order_of_its_calls() {
    watched(|| {
        let (db, _disk) = on_disk(small());
        let table = accounts(&db, 2);
        let echo = echo(&db, &table);
        let other = in_memory(Options::default());
        let foreign = {
            let table = accounts(&other, 1);
            self::echo(&other, &table)
        };
        let mut worker = db.worker().expect("a free context");
        let calls: Vec<_> = (0..300_i64)
            .map(|n| match n % 50 {
                7 => (1, args![n]),
                8 => (2, args![n]),
                9 => (0, args!["no number"]),
                _ => (0, args![n]),
            })
            .collect();
        let mut done = Vec::new();
        worker.execute_group(&[echo, foreign], &calls, &mut done);
        assert_eq!(done.len(), 300);
        for (n, executed) in (0..).zip(done) {
            match (n % 50, executed.wait()) {
                (7 | 8, Err(Error::InvalidProcedure { .. })) | (9, Err(Error::WrongType { .. })) => {}
                (_, Ok(output)) => assert_eq!(output.rows, [[Value::Int(n)]]),
                (_, Err(error)) => panic!("call {n}: {error}"),
            }
        }
        assert_eq!(balance(&db, &table, 0), Some(100 + 300 - 18));
    });
}

/// A record that was looked up for a call of the group and has left its table meanwhile is looked up again: its key
/// has another record by then.
#[test]
fn a_call_follows_its_key_when_the_record_found_for_it_is_taken_out() {
    watched(|| {
        for workers_own in [true, false] {
            let db =
                in_memory(Options::default().threads(|threads| threads.max_worker_contexts(2)).workers(1));
            let table = accounts(&db, 200);
            let remove =
                ProcedureDefinition::new("remove").parameter("id", DataType::Int64).phase([Action::write(
                    &table,
                )
                .key(|args, key| key.push(args.int(0)?))
                .body(|action| action.delete().map(drop))]);
            let put =
                ProcedureDefinition::new("put").parameter("id", DataType::Int64).phase([Action::write(
                    &table,
                )
                .key(|args, key| key.push(args.int(0)?))
                .body(|action| action.insert(row![action.args().int(0)?, 1]))]);
            const REMOVE: usize = 0;
            const PUT: usize = 1;
            const DEPOSIT: usize = 2;
            let remove = db.register(remove).expect("a procedure");
            let put = db.register(put).expect("a procedure");
            let procedures = [remove, put, deposit(&db, &table)];
            let run = |calls: Vec<(usize, heddledb::Args)>| {
                if workers_own {
                    let mut done = Vec::new();
                    db.worker().expect("a free context").execute_group(&procedures, &calls, &mut done);
                    done.into_iter().for_each(|executed| drop(executed.wait().expect("a result")));
                } else {
                    let calls = calls.into_iter();
                    let sent: Vec<_> =
                        calls.map(|(place, args)| db.submit(&procedures[place], args)).collect();
                    sent.into_iter().for_each(|call| drop(call.expect("room").wait().expect("a result")));
                }
            };
            run((0..100).map(|id| (REMOVE, args![id])).collect());
            let deleted_in = db.durable_epoch() + 2;
            while db.durable_epoch() < deleted_in {
                thread::yield_now();
            }
            // The first call's end takes the deleted records out; by then the others' have been looked up.
            run(vec![
                (DEPOSIT, args![150, 1]),
                (PUT, args![5]),
                (DEPOSIT, args![5, 10]),
                (REMOVE, args![5]),
                (PUT, args![5]),
                (DEPOSIT, args![5, 20]),
            ]);
            assert_eq!(balance(&db, &table, 5), Some(21));
        }
    });
}

/// Room in the log that worker contexts have reserved and do not use must not keep others from committing.
#[test]
fn idle_worker_contexts_do_not_keep_the_log_buffer_from_others() {
    watched(|| {
        let (db, _disk) = on_disk(
            Options::default()
                .log(|log| log.buffer_bytes(4 << 10))
                .threads(|threads| threads.max_worker_contexts(32)),
        );
        let table = accounts(&db, 4);
        let deposit = deposit(&db, &table);
        let mut workers: Vec<_> = (0..16).map(|_| db.worker().expect("a free context")).collect();
        for worker in &mut workers {
            worker.execute(&deposit, args![0, 1]).wait().expect("room in the log");
        }
        // None of them runs on; all of them still have their slots.
        db.run(|tx| (10..40).try_for_each(|id| tx.insert(&table, row![id, 0]))).expect("room in the log");
        for worker in workers.iter_mut().rev() {
            worker.execute(&deposit, args![0, 1]).wait().expect("room in the log");
        }
        drop(workers);
        assert_eq!(total(&db, &table), 400 + 32);
    });
}

#[test]
fn a_full_log_buffer_delays_calls_and_loses_none() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let (db, disk) = on_disk(
                Options::default()
                    .log(|log| log.buffer_bytes(4 << 10))
                    .threads(|threads| threads.stages(stages))
                    .workers(2),
            );
            let table = accounts(&db, 4);
            let deposit = deposit(&db, &table);
            thread::scope(|scope| {
                for number in 0..4_i64 {
                    let (db, table, deposit) = (&db, &table, &deposit);
                    scope.spawn(move || {
                        let mut worker = (number == 0).then(|| db.worker().expect("a free context"));
                        for round in 0..50 {
                            // Each larger than what one worker context reserves ahead.
                            db.run(|tx| {
                                (0..40).try_for_each(|at| {
                                    tx.insert(table, row![1_000 * (number + 1) + round * 50_000 + at, 0])
                                })
                            })
                            .expect("a commit");
                            db.call(deposit, args![number, 1]).expect("a call");
                            if let Some(worker) = &mut worker {
                                worker.execute(deposit, args![number, 1]).wait().expect("its own call");
                            }
                        }
                    });
                }
            });
            assert_eq!(total(&db, &table), 400 + 4 * 50 + 50);
            db.close().expect("closed");
            let db = open(&disk.crash_image(1), Options::default());
            let table = db.table("account").expect("a table");
            assert_eq!(total(&db, &table), 400 + 4 * 50 + 50);
        }
    });
}
