//! Tests of the wait of stashed calls: they end in the next joined phase.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Error, PhaseReport, Procedure, ProcedureDefinition, SplitOperation, Table,
    args, key,
};

use crate::support::split::*;

const READERS: usize = 2;
/// This many calls must have been stashed at least.
const STASHED: u64 = 30;

/// A procedure that reads the split column.
fn reading(db: &Database, table: &Table) -> Procedure {
    let definition =
        ProcedureDefinition::new("read").parameter("id", DataType::Int64).phase([Action::read(table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.get()?.ok_or(Error::Closed)?.int("n").map(drop))]);
    db.register(definition).expect("a procedure")
}

/// Has readers make their calls until enough of them have been stashed, while others add to the column that they read:
/// then none of them has missed two joined phases.
fn none_misses_two_joined_phases(read: impl Fn(&Database, &Table, &Procedure) + Send + Sync + 'static) {
    in_time(move || {
        // A joined phase waits for four times as long: so that a thread which gets no processor does not miss it.
        let (db, table) = in_memory(200.0);
        db.split(&table, key![1], "n", SplitOperation::ADD).expect("a label");
        let procedure = reading(&db, &table);
        wait_for_split(&db, &table);
        let stop = AtomicBool::new(false);
        let until_stop = |work: &dyn Fn()| {
            while !stop.load(Ordering::Relaxed) {
                work();
            }
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                let add = || db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("an addition");
                scope.spawn(move || until_stop(&add));
            }
            for _ in 0..READERS {
                let read = || read(&db, &table, &procedure);
                scope.spawn(move || until_stop(&read));
            }
            // A call that is stashed just as a phase changes may be so several times: so phases count, too.
            let enough = |report: PhaseReport| {
                report.stashed >= STASHED && report.joined > STASHED / 2 / READERS as u64
            };
            wait_until("enough calls are stashed", || enough(report(&db)));
            stop.store(true, Ordering::Relaxed);
        });
        let report = report(&db);
        assert!(report.missed < 2, "{report:?}");
    });
}

#[test]
fn no_stashed_closure_misses_two_joined_phases() {
    none_misses_two_joined_phases(|db, table, _| {
        db.run(|tx| tx.get(table, key![1])?.ok_or(Error::Closed)?.int("n")).expect("a read");
    });
}

#[test]
fn no_stashed_call_misses_two_joined_phases() {
    none_misses_two_joined_phases(|db, _, read| {
        db.call(read, args![1]).expect("a read");
    });
}

#[test]
fn no_stashed_call_of_an_own_worker_misses_two_joined_phases() {
    none_misses_two_joined_phases(|db, _, read| {
        let mut worker = db.worker().expect("open");
        worker.execute(read, args![1]).wait().expect("a read");
    });
}
