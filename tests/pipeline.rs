//! The pipeline: every way to run a call, their bounds, and how a database goes down while they are under way.

#[path = "pipeline/caller_run.rs"]
mod caller_run;
#[path = "pipeline/nested_calls.rs"]
mod nested_calls;
#[path = "support/concurrent.rs"]
mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition, Result,
    SerialOptions, Stages, Table, TableDefinition, Tx, Value, args, fail, key, row,
};
use support::{Gate, accounts, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched};

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

/// Wakes a thread, and counts.
struct Alarm {
    thread: thread::Thread,
    rung: AtomicUsize,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn alarm() -> Arc<Alarm> {
    Arc::new(Alarm { thread: thread::current(), rung: AtomicUsize::new(0) })
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(alarm());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_submitted_call_is_a_future() {
    watched(|| {
        let db = in_memory(Options::default());
        let table = accounts(&db, 2);
        let (gate, echo) = (Arc::new(Gate::default()), echo(&db, &table));
        let gated = gated(&db, &table, &gate);
        let mut waiting = pin!(db.submit(&gated, args![1]).expect("room"));
        let (forgotten, kept) = (alarm(), alarm());
        for alarm in [&forgotten, &kept] {
            let waker = Waker::from(alarm.clone());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        gate.open();
        block_on(waiting).expect("a result");
        assert_eq!(forgotten.rung.load(Ordering::SeqCst), 0, "only the last waker is woken");
        let sum = async {
            let mut sum = 0;
            for n in 0..20_i64 {
                let output = db.submit(&echo, args![n])?.await?;
                sum += i64::from(output.rows == [[Value::Int(n)]]);
            }
            Ok::<_, Error>(sum)
        };
        assert_eq!(block_on(sum), Ok(20));
        assert_eq!(balance(&db, &table, 1), Some(101));
    });
}

#[test]
fn dropping_a_handle_does_not_cancel_the_call() {
    watched(|| {
        let db = in_memory(Options::default().queues(|queues| queues.max_in_flight(4)));
        let table = accounts(&db, 1);
        let deposit = deposit(&db, &table);
        for _ in 0..100 {
            drop(db.submit(&deposit, args![0, 1]).expect("room"));
        }
        db.clone().close().expect("closed");
        let after = db.statistics();
        assert!(after.committed >= 100, "{} calls committed", after.committed);
    });
}

/// Whether an error is a panic's, with its message.
fn assert_panicked<T>(result: Result<T>) {
    match result {
        Err(Error::Panicked { message }) => assert_eq!(message, "on purpose"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the call succeeded"),
    }
}

/// Panics without a trace in the test's output.
fn boom() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

#[test]
fn a_panic_in_a_closure_leaves_no_trace() {
    watched(|| {
        for partitions in [1, 4] {
            let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(partitions)));
            let table = accounts(&db, 3);
            let attempts = AtomicUsize::new(0);
            assert_panicked(db.run(|tx| -> Result<()> {
                tx.add(&table, key![0], "balance", 7)?;
                tx.insert(&table, row![77, 7])?;
                tx.delete(&table, key![1])?;
                attempts.fetch_add(1, Ordering::SeqCst);
                boom()
            }));
            assert_panicked(db.run(|tx| -> Result<()> {
                let mut scan = tx.scan(&table, heddledb::Range::all())?;
                scan.next().transpose()?;
                boom()
            }));
            assert_eq!(attempts.load(Ordering::SeqCst), 1);
            assert_eq!(total(&db, &table), 300);
            assert_eq!(balance(&db, &table, 77), None);
            // The partition is free for others, alone and shared.
            thread::scope(|scope| {
                scope.spawn(|| db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a free site"));
            });
            db.check().expect("consistent");
        }
    });
}

/// The second attempt of a closure has its partitions exclusively: a panic there must release them, too.
#[test]
fn a_panic_while_the_partition_is_held_alone_leaves_it_free() {
    watched(|| {
        let db = in_memory(Options::default());
        let table = accounts(&db, 2);
        let attempts = AtomicUsize::new(0);
        let rival = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                rival.wait();
                // It waits for the partition until the first attempt has ended, or comes before its commit.
                db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a commit");
                rival.wait();
            });
            assert_panicked(db.run(|tx| {
                let before = tx.get(&table, key![0])?.ok_or_else(|| fail("no row"))?.int("balance")?;
                if attempts.fetch_add(1, Ordering::SeqCst) > 0 {
                    boom();
                }
                tx.update(&table, key![0], &[("balance", before.into())])?;
                Err::<(), _>(Error::Conflict)
            }));
            rival.wait();
            rival.wait();
        });
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
        assert_eq!(balance(&db, &table, 0), Some(101));
    });
}

/// `shaky(mode)`: panics in its key, in its body, in a later phase's key, or not at all.
fn shaky(db: &Database, table: &Table) -> Procedure {
    let definition = ProcedureDefinition::new("shaky")
        .parameter("mode", DataType::Int64)
        .phase([Action::write(table)
            .key(|args, key| if args.int(0)? == 1 { boom() } else { key.push(0) })
            .body(|action| {
                action.add("balance", 1)?;
                if action.args().int(0)? == 2 { boom() } else { Ok(()) }
            })])
        .phase([Action::write(table)
            .key_from(|args, _, key| if args.int(0)? == 3 { boom() } else { key.push(1) })
            .body(|action| action.add("balance", 1))]);
    db.register(definition).expect("a procedure")
}

#[test]
fn panics_in_a_procedures_key_or_body_leave_no_trace_and_their_neighbours_unharmed() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            for partitions in [1, 2] {
                let db = in_memory(
                    Options::default()
                        .threads(|threads| threads.stages(stages))
                        .protocol(SerialOptions::default().partitions(partitions))
                        .queues(|queues| queues.max_in_flight(4)),
                );
                let table = accounts(&db, 2);
                let shaky = shaky(&db, &table);
                for mode in [1, 2, 3, 1, 2, 3, 1, 2, 3] {
                    assert_panicked(db.call(&shaky, args![mode]));
                    db.call(&shaky, args![0]).expect("a call without a panic");
                }
                let mut worker = db.worker().expect("a free context");
                let calls: Vec<_> = (0..20).map(|n| (0, args![n % 4])).collect();
                let mut done = Vec::new();
                worker.execute_group(std::slice::from_ref(&shaky), &calls, &mut done);
                assert_eq!(done.len(), 20);
                for (n, executed) in done.into_iter().enumerate() {
                    match n % 4 {
                        0 => drop(executed.wait().expect("a call without a panic")),
                        _ => assert_panicked(executed.wait()),
                    }
                }
                drop(worker);
                assert_eq!(total(&db, &table), 200 + 2 * 9 + 2 * 5);
                db.close().expect("every thread is well");
            }
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

/// What threads do while the database is closed.
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
