//! A split phase ends early once every active caller waits for a stashed transaction: the rest of it would pass idle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Durability, Error, Procedure, ProcedureDefinition, SplitOperation, Table,
    args, key,
};

use crate::support::split::*;

/// Two split phases that last their full length exceed the limit of `in_time`.
const PHASE_MILLISECONDS: f64 = 20_000.0;
const CALLERS: usize = 4;

fn procedures(db: &Database, table: &Table) -> [Procedure; 2] {
    let read = ProcedureDefinition::new("read").parameter("id", DataType::Int64).phase([Action::read(table)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.get()?.ok_or(Error::Closed)?.int("n").map(drop))]);
    let add =
        ProcedureDefinition::new("add").parameter("id", DataType::Int64).phase([Action::commute(table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.add("n", 1))]);
    [read, add].map(|definition| db.register(definition).expect("a procedure"))
}

/// Has callers add to a split column and read it in turn, until two split phases in which something was stashed have ended.
fn two_split_phases_end_early(
    db: &Database,
    turn: impl Fn(&Database, &Table, &[Procedure; 2]) + Send + Sync,
) {
    let table = board(db);
    db.split(&table, key![1], "n", SplitOperation::ADD).expect("a label");
    let procedures = procedures(db, &table);
    let turns = AtomicU64::new(0);
    wait_for_split(db, &table);
    let before = report(db).split;
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while report(db).split < before + 2 {
                    turn(db, &table, &procedures);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(report(db).stashed > 0, "the reads were stashed");
    let added = i64::try_from(turns.into_inner()).expect("few");
    assert_eq!(int(db, &table, 1, "n").expect("the row"), added, "an addition for each turn");
}

fn in_memory_callers(turn: impl Fn(&Database, &Table, &[Procedure; 2]) + Send + Sync + 'static) {
    in_time(move || {
        let db = Database::in_memory_with(options(PHASE_MILLISECONDS)).expect("options");
        two_split_phases_end_early(&db, turn);
    });
}

fn closures(db: &Database, table: &Table, _: &[Procedure; 2]) {
    db.run(|tx| tx.add(table, key![1], "n", 1)).expect("an addition");
    int(db, table, 1, "n").expect("a read");
}

#[test]
fn closures_that_are_all_stashed_end_the_split_phase() {
    in_memory_callers(closures);
}

#[test]
fn calls_that_are_all_stashed_end_the_split_phase() {
    in_memory_callers(|db, _, [read, add]| {
        db.call(add, args![1]).expect("an addition");
        db.call(read, args![1]).expect("a read");
    });
}

#[test]
fn own_workers_whose_calls_are_all_stashed_end_the_split_phase() {
    in_memory_callers(|db, _, [read, add]| {
        let mut worker = db.worker().expect("open");
        let added = worker.execute(add, args![1]);
        worker.execute(read, args![1]).wait().expect("a read");
        added.wait().expect("an addition");
    });
}

#[test]
fn callers_that_wait_for_durable_answers_and_are_all_stashed_end_the_split_phase() {
    in_time(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let options = options(PHASE_MILLISECONDS).durability(Durability::Group);
        let db = Database::open(directory.path(), options).expect("a new database");
        two_split_phases_end_early(&db, closures);
    });
}
