//! Calls that the caller's thread runs itself, in the place of an idle worker.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use heddledb::{
    Action, DataType, Database, Error, Options, Procedure, ProcedureDefinition, ProtocolKind, Stages, Table,
    args, fail,
};

use super::support::{accounts, balance, in_memory, on_disk, small, watched};

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
