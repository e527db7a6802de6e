//! Worker contexts: which threads keep one, which wait for one, and which learn that none will be free.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::concurrent::{Gate, accounts, balance, deposit, in_memory, watched};
use heddledb::{
    Database, Error, Options, PartitionedOptions, ProtocolKind, ProtocolOptions, Table, args, key, row,
};

/// Options of one worker, and this many worker contexts.
fn options(protocol: ProtocolKind, worker_contexts: usize) -> Options {
    // The engine's own worker is an executor under the protocol that has them.
    let protocol = ProtocolOptions::from(protocol).partitioned(PartitionedOptions::default().executors(1));
    Options::default()
        .protocol(protocol)
        .workers(1)
        .threads(|threads| threads.max_worker_contexts(worker_contexts))
}

fn add(db: &Database, table: &Table) -> Result<(), Error> {
    db.run(|tx| tx.add(table, key![0], "balance", 1))
}

fn each_protocol(test: impl Fn(ProtocolKind) + Send + 'static) {
    watched(move || ProtocolKind::ALL.iter().for_each(|&protocol| test(protocol)));
}

#[test]
fn a_closure_beside_a_worker_that_keeps_the_last_context_fails_and_says_what_to_do() {
    each_protocol(|protocol| {
        let db = in_memory(options(protocol, 2));
        let table = accounts(&db, 10);
        let deposit = deposit(&db, &table);
        let mut worker = db.worker().expect("a context");
        let error = add(&db, &table).expect_err("the worker keeps the context");
        assert_eq!(error, Error::NoFreeSlot { slots: 2 });
        let message = error.to_string();
        assert!(message.contains("drop a Worker, or raise ThreadOptions::max_worker_contexts"), "{message}");
        assert_eq!(error.sqlstate(), "53300");
        assert!(matches!(db.worker().map(drop), Err(Error::NoFreeSlot { .. })), "a second worker");
        // What needs no context of the caller's goes on.
        worker.execute(&deposit, args![0, 5]).wait().expect("the worker runs calls");
        db.call(&deposit, args![0, 7]).expect("the database's own worker runs calls");
        drop(worker);
        add(&db, &table).expect("the context is free");
        assert_eq!(balance(&db, &table, 0), Some(100 + 5 + 7 + 1), "{protocol}");
    });
}

#[test]
fn closures_beside_many_workers_share_the_context_that_is_left() {
    const THREADS: usize = 8;
    each_protocol(|protocol| {
        // One for each thread's worker, one for the database's, and perhaps one more.
        for left in [0, 1] {
            let db = in_memory(options(protocol, THREADS + 1 + left));
            let table = accounts(&db, 10);
            let kept = Barrier::new(THREADS);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let worker = db.worker().expect("a context");
                        kept.wait();
                        let added = add(&db, &table);
                        assert_eq!(added.is_ok(), left == 1, "{added:?}");
                        kept.wait();
                        drop(worker);
                    });
                }
            });
            assert_eq!(balance(&db, &table, 0), Some(100 + (left * THREADS) as i64));
        }
    });
}

#[test]
fn a_closure_that_waits_for_a_context_is_reported_when_a_worker_keeps_the_last_one() {
    each_protocol(|protocol| {
        let db = in_memory(options(protocol, 2));
        let table = accounts(&db, 10);
        let gate = Arc::new(Gate::default());
        let has_ended = Barrier::new(2);
        thread::scope(|scope| {
            let inside = gate.clone();
            scope.spawn(|| {
                let gate = inside;
                db.run(|tx| {
                    gate.pass();
                    tx.exists(&table, key![0]).map(drop)
                })
            });
            gate.wait_for_arrivals(1);
            // Either of the two gets the context first. The worker keeps it until the closure has ended.
            scope.spawn(|| {
                let worker = db.worker().expect("a context");
                has_ended.wait();
                drop(worker);
            });
            scope.spawn(|| {
                let read = db.run(|tx| tx.exists(&table, key![1]));
                assert!(matches!(read, Ok(true) | Err(Error::NoFreeSlot { .. })), "{read:?}");
                has_ended.wait();
            });
            gate.open();
        });
        add(&db, &table).expect("all contexts are free");
    });
}

#[test]
fn the_databases_own_workers_always_have_theirs() {
    each_protocol(|protocol| {
        for _ in 0..20 {
            let db = in_memory(options(protocol, 2));
            // Before the database's own thread has begun, perhaps.
            let worker = db.worker().expect("a context");
            assert!(db.worker().is_err());
            drop(worker);
            let table = accounts(&db, 10);
            let worker = db.worker().expect("a context");
            db.call(&deposit(&db, &table), args![0, 1]).expect("a worker runs it");
            drop(worker);
        }
    });
}

#[test]
fn options_that_leave_callers_no_context_are_refused() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let error = Database::in_memory_with(options(protocol, 1).durability(heddledb::Durability::None))
            .map(drop)
            .expect_err("the worker takes the only one");
        assert!(
            matches!(error, Error::InvalidOption { option: "threads.max_worker_contexts", .. }),
            "{error}"
        );
    }
}

#[test]
fn rows_that_a_dropped_worker_has_written_stay() {
    each_protocol(|protocol| {
        let db = in_memory(options(protocol, 2));
        let table = accounts(&db, 10);
        let deposit = deposit(&db, &table);
        for _ in 0..50 {
            let mut worker = db.worker().expect("the last one's context is free again");
            worker.execute(&deposit, args![1, 1]).wait().expect("a deposit");
            drop(worker);
            db.run(|tx| tx.insert(&table, row![-1, 0]).and(tx.delete(&table, key![-1]).map(drop)))
                .expect("a closure");
        }
        assert_eq!(balance(&db, &table, 1), Some(150));
    });
}

/// Threads without a context of their own are far more than contexts, and some keep one for a while: each transaction gets
/// its turn, or is refused because workers keep all contexts.
#[test]
fn closures_sessions_calls_and_workers_take_turns_with_few_contexts() {
    const THREADS: i64 = 16;
    const ROUNDS: i64 = 60;
    each_protocol(|protocol| {
        for left in 1..=3 {
            let db = in_memory(options(protocol, 1 + left));
            let table = accounts(&db, 1);
            let deposit = deposit(&db, &table);
            let done = AtomicI64::new(0);
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (db, table, deposit, done) = (&db, &table, &deposit, &done);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let result = match (thread + round) % 8 {
                                0 => db.worker().and_then(|mut worker| {
                                    worker.execute(deposit, args![0, 1]).wait().map(drop)
                                }),
                                1 => db.call(deposit, args![0, 1]).map(drop),
                                2 => add_by_session(db, table),
                                _ => add(db, table),
                            };
                            match result {
                                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                                Err(Error::NoFreeSlot { .. }) => 0,
                                Err(error) => panic!("{error:?}"),
                            };
                        }
                    });
                }
            });
            assert_eq!(balance(&db, &table, 0), Some(100 + done.into_inner()), "{protocol}, {left} left");
            // No context has been lost, and none is counted as kept.
            let kept: Vec<_> = (0..left).map(|_| db.worker().expect("all are free")).collect();
            drop(kept);
            add(&db, &table).expect("all are free");
        }
    });
}

fn add_by_session(db: &Database, table: &Table) -> Result<(), Error> {
    let mut session = db.session()?;
    session.run(|tx| tx.add(table, key![0], "balance", 1))
}
