//! Repartitioning while transactions run: nothing is lost or done twice, no transaction runs at an executor that does not own
//! its rows, and the resource manager balances the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::conformance::suite::mover::Mover;
use crate::support::concurrent::watched;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, PartitionedOptions, Procedure,
    ProcedureDefinition, ProtocolKind, Range, Result, Table, TableDefinition, Value, args, key, row,
};

const ROWS: i64 = 64;
const EXECUTORS: usize = 4;

fn database(protocol: PartitionedOptions) -> Database {
    let options = Options::default().protocol(protocol.executors(EXECUTORS));
    Database::in_memory_with(options.durability(Durability::None)).unwrap()
}

/// Rows 0 to 63 with a count of 0. Reads are locked and not validated: two transactions that ran at the same time would lose
/// a count.
fn accounts(db: &Database) -> Table {
    let definition =
        TableDefinition::new("account").column("id", DataType::Int64).column("n", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 0]))).unwrap();
    table
}

fn count_up(table: &Table, which: usize) -> Action {
    Action::write(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
        let n = action.get()?.unwrap().int("n")?;
        // Another transaction that counted the row now, against the rules, would run here.
        thread::yield_now();
        action.update(&[("n", (n + 1).into())])
    })
}

fn definition(parameters: &[&str]) -> ProcedureDefinition {
    let definition = ProcedureDefinition::new(parameters.concat());
    parameters.iter().fold(definition, |all, one| all.parameter(*one, DataType::Int64))
}

/// Counts one row; two in one phase; two in two phases.
fn counting(db: &Database, table: &Table) -> Vec<Procedure> {
    let one = |which| count_up(table, which);
    let all = [
        definition(&["a"]).phase([one(0)]),
        definition(&["a", "b"]).phase([one(0), one(1)]),
        definition(&["a", "c"]).phase([one(0)]).phase([one(1)]),
    ];
    all.map(|definition| db.register(definition).unwrap()).into()
}

fn int(value: Value) -> i64 {
    match value {
        Value::Int(n) => n,
        other => panic!("{other:?} is no integer"),
    }
}

fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| tx.scan(table, Range::all())?.map(|row| row?.int("n")).sum::<Result<i64>>()).unwrap()
}

#[test]
fn repartitioning_under_load_loses_and_doubles_nothing() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let table = accounts(&db);
        let procedures = Arc::new(counting(&db, &table));
        let counted = Arc::new(AtomicI64::new(0));
        let mover = Mover::of(&db);
        let callers: Vec<_> = (0..4_u64)
            .map(|number| {
                let (db, table, procedures, counted) =
                    (db.clone(), table.clone(), procedures.clone(), counted.clone());
                thread::spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number);
                    for round in 0..400 {
                        let (a, b) = (random.i64(0..ROWS / 2), random.i64(ROWS / 2..ROWS));
                        let (a, b) = if random.bool() { (a, b) } else { (b, a) };
                        let rows = match (number + round) % 4 {
                            0 => db.call(&procedures[0], args![a]).map(|_| 1),
                            1 => db.call(&procedures[1], args![a, b]).map(|_| 2),
                            2 => db.call(&procedures[2], args![a, b]).map(|_| 2),
                            _ => db.run(|tx| {
                                [a, b].into_iter().try_for_each(|id| {
                                    let n = tx.get(&table, key![id])?.unwrap().int("n")?;
                                    tx.update(&table, key![id], &[("n", (n + 1).into())])
                                })?;
                                Ok(2)
                            }),
                        };
                        counted.fetch_add(rows.expect("it is counted"), Ordering::SeqCst);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().expect("it ends"));
        drop(mover);
        assert_eq!(total(&db, &table), counted.load(Ordering::SeqCst));
        assert!(db.partitions().iter().map(|one| one.moves).sum::<u64>() > 20, "{:?}", db.partitions());
    });
}

#[test]
fn groups_take_effect_in_order_under_repartitioning() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let table = accounts(&db);
        // Writes its argument and returns the former number.
        let set = |which: usize, value: usize| {
            Action::write(&table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
                let n = action.get()?.unwrap().int("n")?;
                action.return_row(vec![n.into()]);
                action.update(&[("n", action.args().int(value)?.into())])
            })
        };
        let one = definition(&["a", "n"]).phase([set(0, 1)]);
        let two = definition(&["a", "b", "n"]).phase([set(0, 2), set(1, 2)]);
        let procedures = [one, two].map(|definition| db.register(definition).unwrap());
        let mover = Mover::of(&db);
        let (mut worker, mut random) = (db.worker().unwrap(), fastrand::Rng::with_seed(3));
        let mut model = vec![0; ROWS as usize];
        let (mut done, mut next) = (Vec::new(), 0);
        for _ in 0..150 {
            let mut expected: Vec<Vec<i64>> = Vec::new();
            let calls: Vec<_> = (0..24)
                .map(|_| {
                    next += 1;
                    let rows = [random.usize(0..8), random.usize(8..16)];
                    let used = if random.u8(0..4) == 0 { &rows[..] } else { &rows[..1] };
                    let were = used.iter().map(|&row| std::mem::replace(&mut model[row], next));
                    expected.push(were.collect());
                    match *used {
                        [a, b] => (1, args![a as i64, b as i64, next]),
                        _ => (0, args![rows[0] as i64, next]),
                    }
                })
                .collect();
            worker.execute_group(&procedures, &calls, &mut done);
            for (executed, expected) in done.drain(..).zip(expected) {
                let rows = executed.wait().expect("it is done").rows;
                let seen: Vec<i64> = rows.into_iter().map(|mut row| int(row.swap_remove(0))).collect();
                assert_eq!(seen, expected);
            }
        }
        drop(mover);
        assert!(db.partitions().iter().map(|one| one.moves).sum::<u64>() > 20, "{:?}", db.partitions());
    });
}

/// A transaction with resolved keys goes to one executor; if the ranges or the index have changed meanwhile, another one runs it,
/// or several: each is done once and reported once.
#[test]
fn transactions_with_resolved_keys_are_done_once_while_ranges_and_the_index_change() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let definition = TableDefinition::new("line")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .column("n", DataType::Int64);
        let table = db.create_table(definition.primary_key(["id"]).index("by number", ["number"])).unwrap();
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, id, 0]))).unwrap();
        let all = table.clone();
        let find = Action::read(&table).body(move |action| {
            for which in 0..2 {
                let number = Range::prefix(key![action.args().int(which)?]);
                let found = action.tx().scan_index(&all, "by number", number)?.next().unwrap()?.int("id")?;
                action.set_value(which, found);
            }
            Ok(())
        });
        let add = |which: usize| {
            Action::write(&table).key_from(move |_, values, key| key.push(values.int(which)?)).body(
                |action| {
                    let n = action.get()?.unwrap().int("n")?;
                    action.update(&[("n", (n + 1).into())])
                },
            )
        };
        let procedure = ProcedureDefinition::new("add by number")
            .parameter("a", DataType::Int64)
            .parameter("b", DataType::Int64);
        let procedures = [db.register(procedure.phase([find]).phase([add(0), add(1)])).unwrap()];
        let mover = Mover::of(&db);
        let stopped = Arc::new(AtomicBool::new(false));
        let exchanger = {
            let (db, table, stopped) = (db.clone(), table.clone(), stopped.clone());
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(9);
                while !stopped.load(Ordering::SeqCst) {
                    let (a, b) = (random.i64(0..ROWS / 2), random.i64(ROWS / 2..ROWS));
                    let exchanged = db.run(|tx| {
                        let number = |id: i64| tx.get(&table, key![id])?.unwrap().int("number");
                        let (of_a, of_b) = (number(a)?, number(b)?);
                        tx.update(&table, key![a], &[("number", of_b.into())])?;
                        tx.update(&table, key![b], &[("number", of_a.into())])
                    });
                    exchanged.expect("they are exchanged");
                    thread::sleep(Duration::from_micros(300));
                }
            })
        };
        let (mut worker, mut random) = (db.worker().unwrap(), fastrand::Rng::with_seed(4));
        let mut done = Vec::new();
        const GROUPS: usize = 100;
        for _ in 0..GROUPS {
            let calls: Vec<_> =
                (0..16).map(|_| (0, args![random.i64(0..ROWS), random.i64(0..ROWS)])).collect();
            worker.execute_group(&procedures, &calls, &mut done);
            done.drain(..).for_each(|executed| _ = executed.wait().expect("it is done"));
        }
        stopped.store(true, Ordering::SeqCst);
        exchanger.join().expect("it ends");
        drop(mover);
        assert_eq!(total(&db, &table), (GROUPS * 16 * 2) as i64);
    });
}

#[test]
fn ranges_are_what_a_caller_has_set() {
    let db = database(PartitionedOptions::default().repartitioning(false));
    let table = accounts(&db);
    let ranges = |db: &Database| -> Vec<_> {
        db.partitions().iter().map(|one| (one.from, one.to, one.moves)).collect()
    };
    let equal = [(0.0, 0.25, 0), (0.25, 0.5, 0), (0.5, 0.75, 0), (0.75, 1.0, 0)];
    assert_eq!(ranges(&db), equal);
    db.repartition(&[0.25, 0.5, 0.75]).unwrap();
    assert_eq!(ranges(&db), equal, "nothing has changed");
    db.repartition(&[0.25, 1.0, 1.0]).unwrap();
    assert_eq!(ranges(&db), [(0.0, 0.25, 0), (0.25, 1.0, 1), (1.0, 1.0, 1), (1.0, 1.0, 1)]);
    for id in 0..ROWS {
        let owner = db.executor_of(&table, key![id]).unwrap().unwrap();
        assert!(owner < 2);
        db.run(|tx| tx.update(&table, key![id], &[("n", 1.into())])).unwrap();
    }
    assert_eq!(total(&db, &table), ROWS);
    assert_eq!(db.executor_of(&table, key![]).unwrap(), None, "the whole table belongs to all");
    for wrong in [&[0.5][..], &[0.5, 0.4, 0.6], &[0.1, 0.2, 1.1]] {
        assert!(matches!(db.repartition(wrong), Err(Error::InvalidOption { .. })));
    }
    let nested = db.run(|_| db.repartition(&[0.1, 0.2, 0.3]));
    assert!(matches!(nested, Err(Error::Nested { .. })));
    db.clone().close().unwrap();
    assert!(matches!(db.repartition(&[0.1, 0.2, 0.3]), Err(Error::Closed)));
}

#[test]
fn protocols_without_executors_have_no_partitions() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let table = accounts(&db);
    assert!(db.partitions().is_empty() && db.repartition(&[]).is_ok());
    assert!(matches!(db.repartition(&[0.5]), Err(Error::InvalidOption { .. })));
    assert_eq!(db.executor_of(&table, key![1]).unwrap(), None);
}

/// Transactions on rows that one executor owns at first, until `until` holds. `choose`: the next of this many rows.
fn load_one_range(
    db: &Database,
    table: &Table,
    mut choose: impl FnMut(usize) -> usize,
    until: impl Fn(&Database) -> bool,
) -> bool {
    let procedures = counting(db, table);
    let of_one: Vec<i64> =
        (0..ROWS).filter(|id| db.executor_of(table, key![*id]).unwrap() == Some(1)).collect();
    let (mut worker, mut done) = (db.worker().unwrap(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        let calls: Vec<_> = (0..32).map(|_| (0, args![of_one[choose(of_one.len())]])).collect();
        worker.execute_group(&procedures, &calls, &mut done);
        done.drain(..).for_each(|executed| _ = executed.wait().expect("it is done"));
        if until(db) {
            return true;
        }
    }
    false
}

/// A random one.
fn at_random() -> impl FnMut(usize) -> usize {
    let mut random = fastrand::Rng::with_seed(6);
    move |rows| random.usize(0..rows)
}

/// Returns true if ranges have changed, and no executor has half of all requests.
fn is_even(db: &Database) -> bool {
    let all = db.partitions();
    all.iter().all(|one| one.share < 0.5) && all.iter().any(|one| one.moves > 0)
}

#[test]
fn load_on_one_executor_is_balanced() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let table = accounts(&db);
        // Shares are of the last moments: none is left soon after the load has ended.
        let most_share_it =
            |db: &Database| is_even(db) && db.partitions().iter().filter(|one| one.share > 0.05).count() > 2;
        assert!(load_one_range(&db, &table, at_random(), most_share_it), "{:?}", db.partitions());
    });
}

/// Eight rows are requested in turn: sampling must not always count the same one.
#[test]
fn load_on_rows_in_turn_is_balanced() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let table = accounts(&db);
        let mut round = 0;
        let in_turns = |rows| {
            assert!(rows >= 8);
            round += 1;
            round % 8
        };
        assert!(load_one_range(&db, &table, in_turns, is_even), "{:?}", db.partitions());
    });
}

/// Waits until this holds.
fn becomes(db: &Database, is_so: impl Fn(&Database) -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        if is_so(db) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The number of executors that have a range.
fn in_use(db: &Database) -> usize {
    db.partitions().iter().filter(|one| one.from < one.to).count()
}

/// Rows of one executor, without requests.
#[test]
fn rows_without_requests_are_balanced() {
    let db = database(PartitionedOptions::default());
    let accounts = accounts(&db);
    let of_one = |id: &i64| db.executor_of(&accounts, key![*id]).unwrap() == Some(1);
    let owners: Vec<i64> = (0..ROWS).filter(of_one).collect();
    let line = TableDefinition::new("line").column("account", DataType::Int64).column("n", DataType::Int64);
    let lines = db.create_table(line.primary_key(["account", "n"])).unwrap();
    let insert = |&owner: &i64| db.run(|tx| (0..500).try_for_each(|n| tx.insert(&lines, row![owner, n])));
    owners.iter().try_for_each(insert).unwrap();
    let is_divided = |db: &Database| {
        let owner = |id: &i64| db.executor_of(&lines, key![*id]).unwrap();
        let counts = (0..EXECUTORS).map(|one| owners.iter().filter(|id| owner(id) == Some(one)).count());
        counts.max() < Some(owners.len() / 2)
    };
    assert!(!is_divided(&db) || db.partitions()[0].moves > 0);
    assert!(becomes(&db, is_divided), "{:?}", db.partitions());
}

/// The number of executors that own these rows.
fn owners(db: &Database, table: &Table, ids: &[i64]) -> usize {
    let owners = ids.iter().map(|id| db.executor_of(table, key![*id]).unwrap());
    owners.collect::<std::collections::BTreeSet<_>>().len()
}

/// Two tables with rows at two executors each; one of them is idle for a while.
#[test]
fn an_idle_table_gives_its_executors_up_and_gets_them_back() {
    watched(|| {
        let db = database(PartitionedOptions::default());
        let north = accounts(&db);
        let definition =
            TableDefinition::new("south").column("id", DataType::Int64).column("n", DataType::Int64);
        let south = db.create_table(definition.primary_key(["id"])).unwrap();
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&south, row![id, 0]))).unwrap();
        let is_north = |id: &i64| db.executor_of(&north, key![*id]).unwrap() < Some(2);
        let (of_north, of_south): (Vec<i64>, Vec<i64>) = (0..ROWS).partition(is_north);
        let count = |name: &str, table: &Table| {
            let definition = ProcedureDefinition::new(name).parameter("id", DataType::Int64);
            db.register(definition.phase([count_up(table, 0)])).unwrap()
        };
        let procedures = [count("north", &north), count("south", &south)];
        let (mut worker, mut done, mut random) =
            (db.worker().unwrap(), Vec::new(), fastrand::Rng::with_seed(8));
        // Transactions on the first table, or on both, until the numbers of their executors are as expected.
        let mut load = |tables: usize, are_there: &dyn Fn(usize, usize) -> bool| {
            let start = Instant::now();
            while !are_there(owners(&db, &north, &of_north), owners(&db, &south, &of_south)) {
                assert!(start.elapsed() < Duration::from_secs(120), "{:?}", db.partitions());
                let mut call = || {
                    let which = random.usize(0..tables);
                    let ids = [&of_north, &of_south][which];
                    (which, args![ids[random.usize(0..ids.len())]])
                };
                let calls: Vec<_> = (0..32).map(|_| call()).collect();
                worker.execute_group(&procedures, &calls, &mut done);
                done.drain(..).for_each(|executed| _ = executed.wait().expect("it is done"));
            }
        };
        load(2, &|north, south| (north, south) == (2, 2));
        load(1, &|north, south| (north, south) == (4, 1));
        load(2, &|north, south| north < 4 && south > 1);
    });
}

#[test]
fn a_few_rows_have_one_executor_until_it_is_busy() {
    watched(|| {
        let options = Options::default().protocol(ProtocolKind::Partitioned).durability(Durability::None);
        let db = Database::in_memory_with(options.workers(2)).unwrap();
        let table = accounts(&db);
        let most = db.partitions().len();
        assert!(becomes(&db, |db| in_use(db) == 1), "{:?}", db.partitions());
        let (procedures, mut random) = (counting(&db, &table), fastrand::Rng::with_seed(2));
        let (mut worker, mut done, start) = (db.worker().unwrap(), Vec::new(), Instant::now());
        while in_use(&db) < most && start.elapsed() < Duration::from_secs(120) {
            let calls: Vec<_> = (0..32).map(|_| (0, args![random.i64(0..ROWS)])).collect();
            worker.execute_group(&procedures, &calls, &mut done);
            done.drain(..).for_each(|executed| _ = executed.wait().expect("it is done"));
        }
        assert_eq!(in_use(&db), most, "{:?}", db.partitions());
        // With enough rows all executors are used, even without requests.
        db.run(|tx| (ROWS..8_192).try_for_each(|id| tx.insert(&table, row![id, 0]))).unwrap();
        assert!(becomes(&db, |db| in_use(db) == most));
    });
}

#[test]
fn ranges_stay_if_repartitioning_is_off() {
    let db = database(PartitionedOptions::default().repartitioning(false));
    let table = accounts(&db);
    let start = Instant::now();
    let has_all = |db: &Database| start.elapsed() > Duration::from_secs(1) && db.partitions()[1].share > 0.9;
    assert!(load_one_range(&db, &table, at_random(), has_all), "{:?}", db.partitions());
    assert!(db.partitions().iter().all(|one| one.moves == 0));
}

/// Closing and repartitioning do not wait for each other.
#[test]
fn a_database_is_closed_under_repartitioning() {
    watched(|| {
        for round in 0..20 {
            let db = database(PartitionedOptions::default());
            let table = accounts(&db);
            let procedures = counting(&db, &table);
            let mover = {
                let db = db.clone();
                thread::spawn(move || {
                    let starts = [[0.1, 0.2, 0.3], [0.5, 0.9, 1.0]];
                    starts.iter().cycle().map(|starts| db.repartition(starts)).find(Result::is_err)
                })
            };
            let submitted: Vec<_> = (0..round * 5)
                .map(|id| db.submit(&procedures[2], args![id % ROWS, (id * 7 + 1) % ROWS]).unwrap())
                .collect();
            db.close().unwrap();
            assert!(matches!(mover.join().expect("it ends"), Some(Err(Error::Closed))));
            submitted.into_iter().for_each(|one| _ = one.wait().expect("it was let in"));
        }
    });
}
