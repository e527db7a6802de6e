//! Calls that the caller's thread runs itself, in the place of an idle worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use heddledb::{
    Action, DataType, Database, Error, Options, Procedure, ProcedureDefinition, ProtocolKind, Stages, Table,
    args, fail, set,
};

use crate::support::concurrent::{accounts, balance, in_memory, on_disk, open, small, watched};

/// `noting(id)`: adds 1, and notes which thread runs it. It fails for a negative number, and panics for one above 1,000.
fn noting(db: &Database, table: &Table) -> (Procedure, Arc<Mutex<Vec<ThreadId>>>) {
    let ran_on = Arc::new(Mutex::new(Vec::new()));
    let notes = ran_on.clone();
    let definition =
        ProcedureDefinition::new("noting").parameter("id", DataType::Int64).phase([Action::commute(table)
            .key(|args, key| key.push(args.int(0)?.clamp(0, 3)))
            .body(move |action| {
                notes.lock().expect("a mutex").push(thread::current().id());
                match action.args().int(0)? {
                    ..0 => Err(fail("negative")),
                    1_000.. => panic!("above a thousand"),
                    _ => action.add("balance", 1),
                }
            })]);
    (db.register(definition).expect("a procedure"), ran_on)
}

/// The layouts of stages in which callers run calls.
const LAYOUTS: [Stages; 2] = [Stages::Folded, Stages::Staged];

fn with(stages: Stages) -> Options {
    small().threads(|threads| threads.stages(stages)).workers(2)
}

/// The balances of some accounts together.
fn sum(db: &Database, table: &Table, ids: impl IntoIterator<Item = i64>) -> i64 {
    ids.into_iter().filter_map(|id| balance(db, table, id)).sum()
}

/// Calls until one has run on this thread; workers go to sleep at some time.
fn call_until_run_here(db: &Database, procedure: &Procedure, ran_on: &Mutex<Vec<ThreadId>>) -> i64 {
    let mut calls = 0;
    loop {
        calls += 1;
        db.call(procedure, args![1]).expect("committed");
        if ran_on.lock().expect("a mutex").last() == Some(&thread::current().id()) {
            return calls;
        }
        thread::yield_now();
    }
}

#[test]
fn a_caller_runs_its_call_itself_while_a_worker_is_idle() {
    watched(|| {
        let protocols =
            || ProtocolKind::ALL.iter().copied().filter(|&kind| kind != ProtocolKind::Partitioned);
        for (stages, protocol) in
            LAYOUTS.into_iter().flat_map(|stages| protocols().map(move |kind| (stages, kind)))
        {
            let db = in_memory(with(stages).protocol(protocol));
            let table = accounts(&db, 4);
            let (procedure, ran_on) = noting(&db, &table);
            let before = sum(&db, &table, [1]);
            let batches = db.statistics().execute_batches;
            let calls = call_until_run_here(&db, &procedure, &ran_on);
            assert_eq!(sum(&db, &table, [1]), before + calls);
            let counted = db.statistics().execute_batches;
            assert_eq!(counted.1 - batches.1, calls as u64, "each call counts once, whoever ran it");
        }
    });
}

#[test]
fn errors_and_panics_of_a_call_that_its_caller_runs_leave_no_trace() {
    watched(|| {
        for stages in LAYOUTS {
            let db = in_memory(with(stages));
            let table = accounts(&db, 4);
            let (procedure, ran_on) = noting(&db, &table);
            let before = sum(&db, &table, [0, 3]);
            for _ in 0..20 {
                call_until_run_here(&db, &procedure, &ran_on);
                let (failed, aborted) = db.call_counting(&procedure, args![-1]);
                assert_eq!((failed.unwrap_err().to_string().contains("negative"), aborted), (true, 0));
                let panicked = db.call(&procedure, args![1_000]).unwrap_err();
                assert!(matches!(panicked, Error::Panicked { .. }), "{panicked}");
                assert!(db.call(&procedure, args![]).is_err(), "an argument is missing");
            }
            assert_eq!(sum(&db, &table, [0, 3]), before);
            // None of them has kept its place.
            db.submit(&procedure, args![1]).expect("submitted").wait().expect("committed");
            db.clone().close().expect("closed");
            assert_eq!(db.call(&procedure, args![1]), Err(Error::Closed));
        }
    });
}

#[test]
fn a_worker_that_logs_itself_runs_every_call() {
    watched(|| {
        let options = small().threads(|threads| threads.stages(Stages::Single)).workers(1);
        let db = in_memory(options);
        let table = accounts(&db, 4);
        let (procedure, ran_on) = noting(&db, &table);
        for _ in 0..100 {
            db.call(&procedure, args![1]).expect("committed");
        }
        assert!(!ran_on.lock().expect("a mutex").contains(&thread::current().id()));
    });
}

#[test]
fn callers_in_large_numbers_lose_nothing() {
    watched(|| {
        for stages in LAYOUTS {
            let (db, _disk) = on_disk(with(stages));
            let table = accounts(&db, 4);
            let (procedure, ran_on) = noting(&db, &table);
            let before = sum(&db, &table, 0..4);
            thread::scope(|scope| {
                for caller in 0..8 {
                    let (db, procedure) = (&db, &procedure);
                    scope.spawn(move || {
                        (0..100).for_each(|_| {
                            db.call(procedure, args![caller % 4]).expect("committed");
                        });
                    });
                }
            });
            assert_eq!(sum(&db, &table, 0..4), before + 800);
            assert!(ran_on.lock().expect("a mutex").len() >= 800);
        }
    });
}

/// `move(from, to)`: takes 1 from an account, sets both columns of the other one, and counts itself in account 0, which all calls
/// write. It panics between the writes where `to` is 3.
fn moving(db: &Database, table: &Table) -> Procedure {
    let account = |at: usize| Action::write(table).key(move |args, key| key.push(args.int(at)?));
    let take = account(0).body(|action| action.add("balance", -1));
    let put = account(1).body(|action| {
        if action.args().int(1)? == 3 {
            panic!("between the writes");
        }
        let Some(row) = action.get()? else { return Err(fail("no such account")) };
        action.update(set! { balance: row.int("balance")? + 1 })
    });
    let count = Action::write(table).key(|_, key| key.push(0)).body(|action| action.add("balance", 1));
    let definition = ProcedureDefinition::new("move").parameter("from", DataType::Int64);
    let definition = definition.parameter("to", DataType::Int64).phase([take]).phase([put, count]);
    db.register(definition).expect("a procedure")
}

/// The calls of a thread: those that were acknowledged, and those whose outcome it does not know.
fn call_until_closed(db: &Database, procedure: &Procedure, thread: i64, all: &AtomicU64) -> (i64, i64) {
    let (mut acknowledged, mut random) = (0, fastrand::Rng::with_seed(thread as u64));
    loop {
        match db.call(procedure, args![random.i64(1..=2), random.i64(1..=3)]) {
            Ok(_) => {
                acknowledged += 1;
                all.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Panicked { .. }) => {}
            Err(Error::Closed) => return (acknowledged, 1),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whatever the protocol and the layout: calls that were acknowledged before the database was closed in the middle of them are
/// there, panics leave nothing, and checkpoints meanwhile change neither.
#[test]
fn calls_that_a_shutdown_meets_are_there_or_not() {
    watched(|| {
        for (stages, threads) in LAYOUTS.into_iter().flat_map(|stages| [(stages, 1), (stages, 16)]) {
            for &protocol in ProtocolKind::ALL {
                let options = || with(stages).protocol(protocol);
                let (db, disk) = on_disk(options());
                let table = accounts(&db, 4);
                let before: Vec<_> = (0..4).map(|id| balance(&db, &table, id).expect("there")).collect();
                let procedure = moving(&db, &table);
                let acknowledged = AtomicU64::new(0);
                let outcomes = thread::scope(|scope| {
                    let callers: Vec<_> = (0..threads)
                        .map(|thread| {
                            let (db, procedure, all) = (&db, &procedure, &acknowledged);
                            scope.spawn(move || call_until_closed(db, procedure, thread, all))
                        })
                        .collect();
                    for number in 1..=3 {
                        while acknowledged.load(Ordering::Relaxed) < 10 * number {
                            thread::sleep(std::time::Duration::from_millis(1));
                        }
                        db.checkpoint().expect("a checkpoint");
                    }
                    db.clone().close().expect("closed");
                    let each = callers.into_iter().map(|caller| caller.join().expect("no panic"));
                    each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
                });
                drop((db, table, procedure));
                let db = open(&disk, options());
                let table = db.table("account").expect("the table");
                let after: Vec<_> = (0..4).map(|id| balance(&db, &table, id).expect("there")).collect();
                let counted = after[0] - before[0];
                let context = format!("{stages:?}, {threads} threads, {protocol:?}: {outcomes:?} {after:?}");
                assert!(outcomes.0 <= counted && counted <= outcomes.0 + outcomes.1, "{context}");
                assert_eq!(after[1] + after[2], before[1] + before[2], "{context}");
                assert_eq!(after[3], before[3], "{context}");
                db.check().expect("consistent");
            }
        }
    });
}
