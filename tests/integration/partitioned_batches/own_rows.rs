//! Every action runs on the executor that owns its row.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use heddledb::{
    Action, Args, DataType, Database, Durability, Options, PartitionedOptions, Plan, Procedure,
    ProcedureDefinition, Range, Table, TableDefinition, args, key, row,
};

use super::{ROWS, concurrent};

/// The executor whose thread this is.
fn own_executor() -> Option<usize> {
    let thread = thread::current();
    thread.name()?.strip_prefix("heddle-execute-")?.parse().ok()
}

/// Rows 0 to 31 with the numbers 100 to 131, at four executors that keep their ranges.
pub(super) fn numbered(plan: Plan) -> (Database, Table) {
    let protocol = PartitionedOptions::default().executors(4).plan(plan).repartitioning(false);
    let options = Options::default().protocol(protocol).durability(Durability::None);
    let db = Database::in_memory_with(options).unwrap();
    let definition = TableDefinition::new("line")
        .column("id", DataType::Int64)
        .column("number", DataType::Int64)
        .column("n", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"]).index("by number", ["number"])).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100 + id, 0]))).unwrap();
    (db, table)
}

/// Counts a row up, and the runs on other threads than that of the row's executor.
fn count_up(db: &Database, table: &Table, strays: &Arc<AtomicUsize>) -> impl Fn(Action) -> Action {
    let owners: Vec<Option<usize>> = (0..ROWS).map(|id| db.executor_of(table, key![id]).unwrap()).collect();
    assert!(owners.iter().all(Option::is_some));
    let strays = strays.clone();
    move |action| {
        let (owners, strays) = (owners.clone(), strays.clone());
        action.body(move |action| {
            let row = action.get()?.unwrap();
            if own_executor() != owners[row.int("id")? as usize] {
                strays.fetch_add(1, Ordering::Relaxed);
            }
            action.update(&[("n", (row.int("n")? + 1).into())])
        })
    }
}

/// Counts one row; two in one phase; two in two phases; one that an index finds; the one behind that one.
pub(super) fn counting(db: &Database, table: &Table, strays: &Arc<AtomicUsize>) -> Vec<Procedure> {
    let count_up = count_up(db, table, strays);
    let own = |which: usize| count_up(Action::write(table).key(move |args, key| key.push(args.int(which)?)));
    let find = || {
        let all = table.clone();
        Action::read(table).body(move |action| {
            let number = 100 + action.args().int(0)?;
            let row = action.tx().scan_index(&all, "by number", Range::prefix(key![number]))?.next();
            action.set_value(0, row.unwrap()?.int("id")?);
            Ok(())
        })
    };
    let found = |distance: i64| {
        let key = move |values: &heddledb::Values| Ok((values.int(0)? + distance) % ROWS);
        count_up(Action::write(table).key_from(move |_, values, into| into.push(key(values)?)))
    };
    let definition = |name: &str| {
        let definition = ProcedureDefinition::new(name).parameter("a", DataType::Int64);
        definition.parameter("b", DataType::Int64)
    };
    let all = [
        definition("one").phase([own(0)]),
        definition("two").phase([own(0), own(1)]),
        definition("in phases").phase([own(0)]).phase([own(1)]),
        definition("found").phase([find()]).phase([found(0)]),
        definition("found two").phase([find()]).phase([found(0), found(1)]),
    ];
    all.map(|definition| db.register(definition).unwrap()).into()
}

/// The purpose of thread-to-data execution, whichever way transactions come: in groups, alone, submitted.
#[test]
fn only_its_executor_runs_actions_on_a_row() {
    concurrent::watched(|| {
        for plan in [Plan::Auto, Plan::Parallel, Plan::Serial] {
            let (db, table) = numbered(plan);
            let strays = Arc::new(AtomicUsize::new(0));
            let procedures = counting(&db, &table, &strays);
            let rows_of = |which: usize| if matches!(which, 0 | 3) { 1 } else { 2 };
            let counted = AtomicI64::new(0);
            thread::scope(|scope| {
                for seed in 0..4_u64 {
                    let (db, procedures, counted) = (&db, &procedures, &counted);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed);
                        let mut worker = db.worker().unwrap();
                        for round in 0..30 {
                            let mut calls = || {
                                let (which, a) = (random.usize(0..procedures.len()), random.i64(0..ROWS));
                                (which, args![a, (a + random.i64(1..ROWS)) % ROWS])
                            };
                            let calls: Vec<(usize, Args)> = (0..20).map(|_| calls()).collect();
                            let rows: i64 = calls.iter().map(|(which, _)| rows_of(*which)).sum();
                            if round % 3 == 0 {
                                let submitted: Vec<_> = calls
                                    .into_iter()
                                    .map(|(which, args)| db.submit(&procedures[which], args).unwrap())
                                    .collect();
                                submitted.into_iter().for_each(|one| _ = one.wait().unwrap());
                            } else if round % 3 == 1 {
                                calls.into_iter().for_each(|(which, args)| {
                                    worker.execute(&procedures[which], args).wait().unwrap();
                                });
                            } else {
                                let mut done = Vec::new();
                                worker.execute_group(procedures, &calls, &mut done);
                                done.into_iter().for_each(|one| _ = one.wait().unwrap());
                            }
                            counted.fetch_add(rows, Ordering::Relaxed);
                        }
                    });
                }
            });
            let sum: i64 =
                db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).sum()).unwrap();
            assert_eq!(sum, counted.load(Ordering::Relaxed), "{plan}");
            assert_eq!(strays.load(Ordering::Relaxed), 0, "{plan}: actions ran on other threads");
        }
    });
}
