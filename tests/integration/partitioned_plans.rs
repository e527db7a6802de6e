//! The plans of transactions over several executors: parallel, or serial where they fail often, with the same result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::concurrent::watched;
use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Plan, Procedure,
    ProcedureDefinition, Range, Result, Statistics, Table, TableDefinition, args, fail, key, row,
};

const ROWS: i64 = 64;
const EXECUTORS: usize = 4;

fn database(plan: Plan) -> Database {
    let protocol = PartitionedOptions::default().executors(EXECUTORS).plan(plan).repartitioning(false);
    Database::in_memory_with(Options::default().protocol(protocol).durability(Durability::None)).unwrap()
}

fn accounts(db: &Database) -> Table {
    let definition =
        TableDefinition::new("account").column("id", DataType::Int64).column("n", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 0]))).unwrap();
    table
}

/// Adds to a row; fails if the third argument is this action's number, counted from 1.
fn add(table: &Table, which: usize) -> Action {
    Action::write(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
        if action.args().int(2)? == which as i64 + 1 {
            return Err(fail(["the first fails", "the second fails"][which]));
        }
        let n = action.get()?.unwrap().int("n")?;
        action.update(&[("n", (n + 1).into())])
    })
}

fn add_to_both(db: &Database, table: &Table, name: &str) -> Procedure {
    let parameters = ["a", "b", "fails"];
    let definition = ProcedureDefinition::new(name);
    let definition = parameters.iter().fold(definition, |all, one| all.parameter(*one, DataType::Int64));
    db.register(definition.phase([add(table, 0), add(table, 1)])).unwrap()
}

/// Two rows of different executors.
fn two_rows(db: &Database, table: &Table) -> (i64, i64) {
    let owner = |id: i64| db.executor_of(table, key![id]).unwrap();
    (0, (1..ROWS).find(|id| owner(*id) != owner(0)).expect("there are several executors"))
}

fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| tx.scan(table, Range::all())?.map(|row| row?.int("n")).sum::<Result<i64>>()).unwrap()
}

/// Makes these calls, some of which fail, and returns what they cost.
fn calls(db: &Database, procedure: &Procedure, (a, b): (i64, i64), failing: &[i64]) -> Statistics {
    let before = db.statistics();
    for fails in failing {
        match db.call(procedure, args![a, b, *fails]) {
            Ok(_) => assert_eq!(*fails, 0),
            Err(Error::Failed { .. }) => assert_ne!(*fails, 0),
            Err(other) => panic!("{other}"),
        }
    }
    db.statistics() - before
}

#[test]
fn both_plans_have_the_same_result_and_report_the_first_error() {
    for plan in [Plan::Parallel, Plan::Serial] {
        let db = database(plan);
        let table = accounts(&db);
        let (procedure, rows) = (add_to_both(&db, &table, "add"), two_rows(&db, &table));
        let taken = calls(&db, &procedure, rows, &[0, 1, 2, 0, 1, 0]);
        let expected = if plan == Plan::Parallel { (6, 0) } else { (0, 6) };
        assert_eq!((taken.went_parallel, taken.went_serial), expected, "{plan}");
        assert_eq!((taken.committed, taken.failed), (3, 3));
        assert_eq!(total(&db, &table), 6);
    }
}

#[test]
fn a_procedure_that_fails_often_runs_serially_until_it_fails_no_more() {
    let db = database(Plan::Auto);
    let table = accounts(&db);
    let (procedure, rows) = (add_to_both(&db, &table, "add"), two_rows(&db, &table));
    let other = add_to_both(&db, &table, "add, too");
    let taken = calls(&db, &procedure, rows, &[0; 100]);
    assert_eq!((taken.went_parallel, taken.went_serial), (100, 0), "nothing fails");
    // 37.5 % fail, as updates of TATP's subscriber data do.
    let failing = [0, 2, 0, 0, 2, 0, 0, 2].repeat(50);
    calls(&db, &procedure, rows, &failing);
    let taken = calls(&db, &procedure, rows, &failing);
    assert_eq!((taken.went_parallel, taken.went_serial), (0, 400), "many fail");
    let taken = calls(&db, &other, rows, &[0; 20]);
    assert_eq!((taken.went_parallel, taken.went_serial), (20, 0), "another procedure");
    calls(&db, &procedure, rows, &[0; 1_000]);
    let taken = calls(&db, &procedure, rows, &[0; 100]);
    assert_eq!((taken.went_parallel, taken.went_serial), (100, 0), "none fails any more");
}

/// Transactions over several executors take effect in the order of their group with either plan.
#[test]
fn transactions_of_a_group_keep_their_order_with_either_plan() {
    for (plan, expected) in [(Plan::Auto, (40, 0)), (Plan::Serial, (0, 40)), (Plan::Parallel, (40, 0))] {
        let db = database(plan);
        let table = accounts(&db);
        let (a, b) = two_rows(&db, &table);
        let set = |which: usize| {
            Action::write(&table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
                let n = action.get()?.unwrap().int("n")?;
                assert_eq!(n + 1, action.args().int(2)?, "in the order of the group");
                action.update(&[("n", (n + 1).into())])
            })
        };
        let definition = ["a", "b", "n"]
            .iter()
            .fold(ProcedureDefinition::new("set"), |all, one| all.parameter(*one, DataType::Int64));
        let procedures = [db.register(definition.phase([set(0), set(1)])).unwrap()];
        let group: Vec<(usize, Args)> = (1..=40_i64).map(|n| (0, args![a, b, n])).collect();
        let (mut worker, mut done) = (db.worker().unwrap(), Vec::new());
        let before = db.statistics();
        worker.execute_group(&procedures, &group, &mut done);
        done.into_iter().for_each(|executed| _ = executed.wait().expect("it is done"));
        let taken = db.statistics() - before;
        assert_eq!((taken.went_parallel, taken.went_serial), expected, "{plan}");
        assert_eq!(total(&db, &table), 80);
    }
}

/// Before each action its executor checks whether the transaction has aborted.
#[test]
fn no_action_starts_behind_one_that_has_failed() {
    watched(|| {
        for plan in [Plan::Parallel, Plan::Serial] {
            let db = database(plan);
            let table = accounts(&db);
            let (a, b) = two_rows(&db, &table);
            let begun = Arc::new(AtomicUsize::new(0));
            let first = Action::write(&table)
                .key(|args, key| key.push(args.int(0)?))
                .body(|_| Err(fail("it fails at once")));
            let reported = begun.clone();
            let second = Action::write(&table).key(|args, key| key.push(args.int(1)?)).body(move |action| {
                reported.fetch_add(1, Ordering::SeqCst);
                action.update(&[("n", 1.into())])
            });
            let definition = ProcedureDefinition::new("fails")
                .parameter("a", DataType::Int64)
                .parameter("b", DataType::Int64);
            let failing = db.register(definition.phase([first, second])).unwrap();
            // The second action's executor is busy until the first action has failed.
            let sleeps = Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(|_| {
                thread::sleep(Duration::from_millis(200));
                Ok(())
            });
            let definition = ProcedureDefinition::new("sleeps").parameter("b", DataType::Int64);
            let sleeping = db.register(definition.phase([sleeps])).unwrap();
            let slept = db.submit(&sleeping, args![b]).unwrap();
            let failed = db.call(&failing, args![a, b]);
            assert!(matches!(failed, Err(Error::Failed { .. })), "{plan}");
            slept.wait().unwrap();
            assert_eq!(begun.load(Ordering::SeqCst), 0, "{plan}");
        }
    });
}

/// A table with a secondary index can be written in parallel if no other action of the transaction accesses it.
#[test]
fn indexed_tables_are_written_in_parallel_with_others() {
    watched(|| {
        let db = database(Plan::Parallel);
        let plain = accounts(&db);
        let definition = TableDefinition::new("line")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .primary_key(["id"])
            .index("by number", ["number"]);
        let lines = db.create_table(definition).unwrap();
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&lines, row![id, 0]))).unwrap();
        let number = Action::write(&lines).key(|args, key| key.push(args.int(0)?)).body(|action| {
            let number = action.get()?.unwrap().int("number")?;
            action.update(&[("number", (number + 1).into())])
        });
        let count = Action::write(&plain).key(|args, key| key.push(args.int(1)?)).body(|action| {
            let n = action.get()?.unwrap().int("n")?;
            action.update(&[("n", (n + 1).into())])
        });
        let definition =
            ProcedureDefinition::new("both").parameter("a", DataType::Int64).parameter("b", DataType::Int64);
        let both = Arc::new(db.register(definition.phase([number, count])).unwrap());
        let callers: Vec<_> = (0..4)
            .map(|seed| {
                let (db, both) = (db.clone(), both.clone());
                thread::spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..300 {
                        db.call(&both, args![random.i64(0..8), random.i64(0..8)]).expect("it is counted");
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().expect("it ends"));
        assert_eq!(total(&db, &plain), 1_200);
        let by_index = db.run(|tx| {
            let rows = tx.scan_index(&lines, "by number", Range::all())?;
            rows.map(|row| row?.int("number")).sum::<Result<i64>>()
        });
        assert_eq!(by_index.unwrap(), 1_200);
        db.check().unwrap();
    });
}
