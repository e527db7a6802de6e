//! Groups of transactions under `partitioned`: they reach the executors in batches, take effect in order where that is
//! promised, and no other thread runs their actions.

mod own_rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Plan, Procedure,
    ProcedureDefinition, Range, Table, TableDefinition, Value, args, key, row,
};

use own_rows::{counting, numbered};

use crate::support::concurrent;

const EXECUTORS: usize = 2;
const ROWS: i64 = 32;

fn options() -> Options {
    Options::default().protocol(PartitionedOptions::default().executors(EXECUTORS))
}

/// Rows 0 to 31, each with 100.
fn accounts() -> (Database, Table) {
    accounts_of(options())
}

fn accounts_of(options: Options) -> (Database, Table) {
    let db = Database::in_memory_with(options.durability(Durability::None)).unwrap();
    let table = account_table(&db);
    (db, table)
}

fn account_table(db: &Database) -> Table {
    let definition =
        TableDefinition::new("account").column("id", DataType::Int64).column("n", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100]))).unwrap();
    table
}

fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| (0..ROWS).map(|id| tx.get(table, key![id])?.unwrap().int("n")).sum()).unwrap()
}

#[test]
fn there_are_at_most_as_many_executors_as_processors_unless_set() {
    let executors = |options: Options| {
        Database::in_memory_with(options.durability(Durability::None)).map(|db| db.partitions().len())
    };
    let of = |protocol: PartitionedOptions| Options::default().protocol(protocol);
    let processors = thread::available_parallelism().unwrap().get();
    assert_eq!(executors(of(PartitionedOptions::default()).workers(64)).unwrap(), processors.min(64));
    assert_eq!(executors(of(PartitionedOptions::default()).workers(1)).unwrap(), 1);
    assert_eq!(executors(of(PartitionedOptions::default().executors(5)).workers(2)).unwrap(), 5);
    for wrong in [
        of(PartitionedOptions::default().executors(0)),
        of(PartitionedOptions::default().executors(8)).threads(|threads| threads.max_worker_contexts(8)),
    ] {
        assert!(matches!(executors(wrong), Err(Error::InvalidOption { .. })));
    }
}

/// A group of transactions of one executor is taken from its queue as one batch.
#[test]
fn a_group_reaches_each_executor_as_one_batch() {
    let (db, table) = numbered(Plan::Auto);
    let procedures = counting(&db, &table, &Arc::default());
    let calls: Vec<(usize, Args)> =
        (0..ROWS).map(|id| (if id % 2 == 0 { 0 } else { 3 }, args![id, 0])).collect();
    let mut worker = db.worker().unwrap();
    for _ in 0..20 {
        let (mut done, before) = (Vec::new(), db.statistics());
        worker.execute_group(&procedures, &calls, &mut done);
        done.into_iter().for_each(|one| _ = one.wait().unwrap());
        let (batches, transactions) = (db.statistics() - before).execute_batches;
        assert_eq!((batches, transactions), (4, ROWS as u64));
    }
}

/// Transactions over several executors are sent with the rest of their group, and not one after another.
#[test]
fn transactions_over_several_executors_reach_each_executor_together() {
    // Ranges that change would send groups again.
    let fixed = PartitionedOptions::default().executors(EXECUTORS).repartitioning(false);
    let (db, table) = accounts_of(Options::default().protocol(fixed));
    let procedures = [transfer(&db, &table, false)];
    let owner = |id: i64| db.executor_of(&table, key![id]).unwrap();
    let other = (1..ROWS).find(|id| owner(*id) != owner(0)).expect("both executors have rows");
    let calls: Vec<(usize, Args)> = (0..40).map(|_| (0, args![0, other])).collect();
    let mut worker = db.worker().unwrap();
    for _ in 0..20 {
        let (mut done, before) = (Vec::new(), db.statistics());
        worker.execute_group(&procedures, &calls, &mut done);
        done.into_iter().for_each(|one| _ = one.wait().unwrap());
        assert_eq!((db.statistics() - before).execute_batches, (EXECUTORS as u64, 40 * EXECUTORS as u64));
    }
    assert_eq!(total(&db, &table), ROWS * 100);
}

fn add_by(table: &Table, which: usize, amount: i64) -> Action {
    Action::write(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
        let n = action.get()?.unwrap().int("n")?;
        action.update(&[("n", (n + amount).into())])
    })
}

fn transfer(db: &Database, table: &Table, in_phases: bool) -> Procedure {
    let name = if in_phases { "transfer in phases" } else { "transfer" };
    let definition =
        ProcedureDefinition::new(name).parameter("from", DataType::Int64).parameter("to", DataType::Int64);
    let (take, give) = (add_by(table, 0, -1), add_by(table, 1, 1));
    let definition =
        if in_phases { definition.phase([take]).phase([give]) } else { definition.phase([take, give]) };
    db.register(definition).unwrap()
}

fn get(db: &Database, table: &Table) -> Procedure {
    let get = Action::read(table).key(|args, key| key.push(args.int(0)?)).body(|action| {
        action.return_row(vec![action.get()?.unwrap().int("n")?.into()]);
        Ok(())
    });
    db.register(ProcedureDefinition::new("get").parameter("id", DataType::Int64).phase([get])).unwrap()
}

#[test]
fn groups_single_transactions_and_closures_lose_and_invent_nothing() {
    concurrent::watched(|| {
        let (db, table) = accounts();
        let transfers = [transfer(&db, &table, false), transfer(&db, &table, true)];
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..5_u64)
                .map(|number| {
                    let (db, transfers) = (&db, &transfers);
                    scope.spawn(move || {
                        let mut worker = db.worker().unwrap();
                        let mut random = fastrand::Rng::with_seed(number);
                        for _ in 0..80 {
                            let mut pair = || args![random.i64(0..16), random.i64(16..ROWS)];
                            let calls: Vec<(usize, Args)> = (0..24).map(|call| (call % 2, pair())).collect();
                            let mut done = Vec::new();
                            worker.execute_group(transfers, &calls, &mut done);
                            done.into_iter().for_each(|one| _ = one.wait().unwrap());
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut random = fastrand::Rng::with_seed(77);
                while !stop.load(Ordering::Relaxed) {
                    let mut pair = || args![random.i64(0..16), random.i64(16..ROWS)];
                    let submitted: Vec<_> =
                        (0..8).map(|call| db.submit(&transfers[call % 2], pair()).unwrap()).collect();
                    submitted.into_iter().for_each(|one| _ = one.wait().unwrap());
                }
            });
            scope.spawn(|| {
                let mut random = fastrand::Rng::with_seed(78);
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(total(&db, &table), ROWS * 100, "a reader sees all of a transfer, or nothing");
                    let (from, to) = (random.i64(0..ROWS), random.i64(0..ROWS));
                    let moved = db.run(|tx| {
                        tx.add(&table, key![from], "n", -1)?;
                        tx.add(&table, key![to], "n", 1)
                    });
                    moved.unwrap();
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}

/// Sums by a secondary index and writes the sum: the rows that are summed belong to any executor and are read without locks.
fn sum_by_group(db: &Database, lines: &Table, sums: &Table) -> Procedure {
    let all = lines.clone();
    let sum = Action::read(lines).body(move |action| {
        let group = action.args().int(0)?;
        let mut sum = 0;
        for row in action.tx().scan_index(&all, "by group", Range::prefix(key![group]))? {
            sum += row?.int("n")?;
        }
        action.set_value(0, sum);
        Ok(())
    });
    let keep = Action::write(sums).key(|args, key| key.push(args.int(1)?)).body(|action| {
        let sum = action.values().int(0)?;
        action.return_row(vec![sum.into()]);
        action.update(&[("n", sum.into())])
    });
    let definition = ProcedureDefinition::new("sum").parameter("group", DataType::Int64);
    db.register(definition.parameter("to", DataType::Int64).phase([sum]).phase([keep])).unwrap()
}

#[test]
fn a_group_keeps_its_order_where_one_transaction_reads_unlocked_what_another_writes() {
    let db = Database::in_memory_with(options().durability(Durability::None)).unwrap();
    let definition = TableDefinition::new("line")
        .column("id", DataType::Int64)
        .column("group", DataType::Int64)
        .column("n", DataType::Int64);
    let lines = db.create_table(definition.primary_key(["id"]).index("by group", ["group"])).unwrap();
    let sums = account_table(&db);
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&lines, row![id, id % 4, 0]))).unwrap();
    let add = ProcedureDefinition::new("add").parameter("id", DataType::Int64);
    let procedures = [
        db.register(add.phase([add_by(&lines, 0, 1)])).unwrap(),
        sum_by_group(&db, &lines, &sums),
        get(&db, &sums),
    ];
    let mut worker = db.worker().unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let (mut groups, mut kept) = ([0_i64; 4], vec![100_i64; ROWS as usize]);
    for _ in 0..150 {
        let (mut calls, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(1..64) {
            let (id, to) = (random.i64(0..ROWS), random.usize(0..ROWS as usize));
            let (which, args, row) = match random.u8(0..4) {
                0 | 1 => {
                    groups[(id % 4) as usize] += 1;
                    (0, args![id], None)
                }
                2 => {
                    kept[to] = groups[(id % 4) as usize];
                    (1, args![id % 4, to as i64], Some(kept[to]))
                }
                _ => (2, args![to as i64], Some(kept[to])),
            };
            calls.push((which, args));
            expected.push(row);
        }
        let mut done = Vec::new();
        worker.execute_group(&procedures, &calls, &mut done);
        for (place, (executed, expected)) in done.into_iter().zip(expected).enumerate() {
            let rows = executed.wait().unwrap().rows;
            let reported = rows.first().map(|row| row[0].clone());
            assert_eq!(reported, expected.map(Value::from), "call {place} of {:?}", calls[place]);
        }
    }
}

#[test]
fn a_panic_in_a_batch_ends_its_transaction_only() {
    concurrent::watched(|| {
        let (db, table) = accounts();
        let boom = Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(|action| {
            let n = action.get()?.unwrap().int("n")?;
            action.update(&[("n", (n + 1).into())])?;
            if action.args().int(1)? == 1 { panic!("on purpose") } else { Ok(()) }
        });
        let definition = ProcedureDefinition::new("boom").parameter("id", DataType::Int64);
        let boom = db.register(definition.parameter("panics", DataType::Int64).phase([boom])).unwrap();
        let procedures = [boom, get(&db, &table)];
        let mut worker = db.worker().unwrap();
        for _ in 0..20 {
            let calls: Vec<(usize, Args)> = (0..48).map(|call| (0, args![call % 8, call % 3 / 2])).collect();
            let mut done = Vec::new();
            worker.execute_group(&procedures, &calls, &mut done);
            for (call, executed) in done.into_iter().enumerate() {
                let reported = executed.wait();
                let panicked =
                    matches!(&reported, Err(Error::Panicked { message }) if message == "on purpose");
                assert_eq!(panicked, call % 3 == 2, "{reported:?}");
            }
            // The executors go on with other transactions.
            db.call(&procedures[1], args![3]).unwrap();
            db.call(&procedures[1], args![4]).unwrap();
        }
        assert_eq!(total(&db, &table), ROWS * 100 + 20 * 32);
    });
}

/// Executors wait for log space; so do closures, and transactions over several executors.
#[test]
fn batches_wait_for_log_space() {
    concurrent::watched(|| {
        let (db, _disk) = concurrent::on_disk(options().log(|log| log.buffer_bytes(4 << 10)));
        let table = account_table(&db);
        let transfers = [transfer(&db, &table, false), transfer(&db, &table, true)];
        thread::scope(|scope| {
            for number in 0..3_u64 {
                let (db, transfers) = (&db, &transfers);
                scope.spawn(move || {
                    let mut worker = db.worker().unwrap();
                    let mut random = fastrand::Rng::with_seed(number);
                    for _ in 0..12 {
                        let mut pair = || args![random.i64(0..16), random.i64(16..ROWS)];
                        let calls: Vec<(usize, Args)> = (0..32).map(|call| (call % 2, pair())).collect();
                        let mut done = Vec::new();
                        worker.execute_group(transfers, &calls, &mut done);
                        done.into_iter().for_each(|one| _ = one.wait().unwrap());
                    }
                });
            }
            for _ in 0..100 {
                db.run(|tx| (0..ROWS).try_for_each(|id| tx.add(&table, key![id], "n", 0))).unwrap();
                db.call(&transfers[1], args![1, 17]).unwrap();
            }
        });
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}

#[test]
fn closing_waits_for_groups_and_acknowledged_results_are_durable() {
    concurrent::watched(|| {
        for round in 0..12_u64 {
            let (db, disk) = concurrent::on_disk(options());
            let table = account_table(&db);
            let add = |name: &str| {
                let definition = ProcedureDefinition::new(name).parameter("id", DataType::Int64);
                definition.parameter("other", DataType::Int64)
            };
            let (one, other) = (|| add_by(&table, 0, 1), || add_by(&table, 1, 1));
            let add = [
                db.register(add("one").phase([one()])).unwrap(),
                db.register(add("two").phase([one(), other()])).unwrap(),
                db.register(add("two phases").phase([one()]).phase([other()])).unwrap(),
            ];
            let reported = AtomicI64::new(0);
            thread::scope(|scope| {
                for number in 0..3_u64 {
                    let (db, add, reported) = (&db, &add, &reported);
                    scope.spawn(move || {
                        let mut worker = match db.worker() {
                            Ok(worker) => worker,
                            Err(error) => return assert!(matches!(error, Error::Closed)),
                        };
                        let mut random = fastrand::Rng::with_seed(number);
                        let mut is_open = true;
                        while is_open {
                            let mut pair = || args![random.i64(0..16), random.i64(16..ROWS)];
                            let calls: Vec<(usize, Args)> = (0..20).map(|call| (call % 3, pair())).collect();
                            let mut done = Vec::new();
                            worker.execute_group(add, &calls, &mut done);
                            for (one, (which, _)) in done.into_iter().zip(&calls) {
                                let rows = if *which == 0 { 1 } else { 2 };
                                match one.wait() {
                                    Ok(_) => _ = reported.fetch_add(rows, Ordering::Relaxed),
                                    Err(error) => {
                                        assert!(matches!(error, Error::Closed), "{error}");
                                        is_open = false;
                                    }
                                }
                            }
                        }
                    });
                }
                thread::sleep(Duration::from_millis(round));
                db.clone().close().unwrap();
            });
            drop((db, table, add));
            let db = concurrent::open(&disk, options());
            let table = db.table("account").unwrap();
            let kept = total(&db, &table) - ROWS * 100;
            assert_eq!(kept, reported.load(Ordering::Relaxed), "round {round}");
        }
    });
}

/// Each worker finds what its own transactions have done, in order, beside others at the same executors.
#[test]
fn groups_of_several_workers_take_effect_in_order() {
    const WORKERS: i64 = 4;
    const OWN: i64 = ROWS / WORKERS;
    concurrent::watched(|| {
        let (db, table) = accounts();
        let procedures = [transfer(&db, &table, false), transfer(&db, &table, true), get(&db, &table)];
        thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (db, procedures) = (&db, &procedures);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(worker as u64);
                    let mut rows = [100_i64; OWN as usize];
                    let mut worker_of_db = db.worker().unwrap();
                    for _ in 0..150 {
                        let (mut calls, mut expected) = (Vec::new(), Vec::new());
                        for _ in 0..random.usize(1..64) {
                            let (from, to) = (random.usize(0..rows.len()), random.usize(0..rows.len()));
                            let id = |row: usize| worker * OWN + row as i64;
                            if random.bool() || from == to {
                                calls.push((2, args![id(from)]));
                                expected.push(Some(rows[from]));
                                continue;
                            }
                            rows[from] -= 1;
                            rows[to] += 1;
                            calls.push((random.usize(0..2), args![id(from), id(to)]));
                            expected.push(None);
                        }
                        let mut done = Vec::new();
                        worker_of_db.execute_group(procedures, &calls, &mut done);
                        for (place, (executed, expected)) in done.into_iter().zip(expected).enumerate() {
                            let reported = executed.wait().unwrap().rows.first().map(|row| row[0].clone());
                            assert_eq!(reported, expected.map(Value::from), "call {place} of {calls:?}");
                        }
                    }
                });
            }
        });
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}
