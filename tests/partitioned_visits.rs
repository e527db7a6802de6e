//! Thread-to-data execution by visits: a worker of the caller's stands in for executors that sleep. Whoever else
//! wants something there is served, nothing is overtaken, and what goes wrong in a visit leaves no trace.

#[path = "support/concurrent.rs"]
mod concurrent;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition,
    ProtocolKind, Range, Table, TableDefinition, Value, args, key, row,
};

const EXECUTORS: usize = 2;
const ROWS: i64 = 32;

fn options() -> Options {
    Options::default().protocol(ProtocolKind::Partitioned).executors(EXECUTORS)
}

/// Rows 0 to 31, each with 100.
fn accounts() -> (Database, Table) {
    let db = Database::in_memory(options().durability(Durability::None)).unwrap();
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
fn there_are_no_more_executors_than_processors_unless_somebody_says_so() {
    let executors = |options: Options| {
        let options = options.protocol(ProtocolKind::Partitioned).durability(Durability::None);
        Database::in_memory(options).map(|db| db.partitions().len())
    };
    let processors = thread::available_parallelism().unwrap().get();
    assert_eq!(executors(Options::default().workers(64)).unwrap(), processors.min(64));
    assert_eq!(executors(Options::default().workers(1)).unwrap(), 1);
    assert_eq!(executors(Options::default().workers(2).executors(5)).unwrap(), 5);
    for wrong in [Options::default().executors(0), Options::default().executors(8).max_worker_contexts(8)] {
        assert!(matches!(executors(wrong), Err(Error::InvalidOption { .. })));
    }
}

/// Where a body has run: on a thread of the database's, or on a caller's.
#[derive(Default)]
struct Seen {
    here: AtomicUsize,
    there: AtomicUsize,
}

impl Seen {
    fn note(&self) {
        let is_there = thread::current().name().is_some_and(|name| name.starts_with("heddle-execute"));
        let counter = if is_there { &self.there } else { &self.here };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> (usize, usize) {
        (self.here.load(Ordering::Relaxed), self.there.load(Ordering::Relaxed))
    }
}

fn add_by(table: &Table, which: usize, amount: i64, seen: &Arc<Seen>) -> Action {
    let seen = seen.clone();
    Action::write(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
        seen.note();
        let n = action.get()?.unwrap().int("n")?;
        action.update(&[("n", (n + amount).into())])
    })
}

fn transfer(db: &Database, table: &Table, in_phases: bool, seen: &Arc<Seen>) -> Procedure {
    let definition = ProcedureDefinition::new("transfer")
        .parameter("from", DataType::Int64)
        .parameter("to", DataType::Int64);
    let (take, give) = (add_by(table, 0, -1, seen), add_by(table, 1, 1, seen));
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
fn while_nobody_else_calls_a_workers_calls_run_on_its_own_thread() {
    concurrent::watched(|| {
        let (db, table) = accounts();
        let seen = Arc::new(Seen::default());
        let transfers = [transfer(&db, &table, false, &seen), transfer(&db, &table, true, &seen)];
        let mut worker = db.worker().unwrap();
        let start = Instant::now();
        let mut random = fastrand::Rng::with_seed(1);
        // Executors may still be about to fall asleep after what has been loaded.
        loop {
            let before = seen.counts();
            let calls: Vec<(usize, Args)> = (0..60)
                .map(|call| (call % 2, args![random.i64(0..ROWS / 2), random.i64(ROWS / 2..ROWS)]))
                .collect();
            let mut done = Vec::new();
            worker.execute_group(&transfers, &calls, &mut done);
            done.into_iter().for_each(|one| _ = one.wait().unwrap());
            let after = seen.counts();
            assert_eq!(after.0 + after.1 - before.0 - before.1, 120, "every call has run once");
            if after.0 - before.0 == 120 {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{:?} of bodies ran here, there", after);
        }
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}

#[test]
fn visitors_executors_and_closures_lose_and_invent_nothing() {
    concurrent::watched(|| {
        let (db, table) = accounts();
        let seen = Arc::new(Seen::default());
        let transfers = [transfer(&db, &table, false, &seen), transfer(&db, &table, true, &seen)];
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
        let (here, there) = seen.counts();
        assert!(here > 0 && there > 0, "{here} bodies ran on workers' threads, {there} on executors'");
    });
}

/// What comes into an executor's queue while it is visited wakes it when the visitor leaves.
#[test]
fn who_calls_during_a_visit_is_served_after_it() {
    concurrent::watched(|| {
        let (db, table) = accounts();
        let (inside, called) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let slow = {
            let (inside, called) = (inside.clone(), called.clone());
            Action::write(&table).key(|_, key| key.push(3)).body(move |action| {
                inside.wait();
                called.wait();
                let n = action.get()?.unwrap().int("n")?;
                action.update(&[("n", (n + 1).into())])
            })
        };
        let slow = [db.register(ProcedureDefinition::new("slow").phase([slow])).unwrap()];
        let look = get(&db, &table);
        for round in 1..=40_i64 {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut worker = db.worker().unwrap();
                    worker.execute(&slow[0], args![]).wait().unwrap();
                });
                inside.wait();
                // Somebody is in the middle of a call on row 3; these want the same executor.
                let submitted: Vec<_> = (0..3).map(|_| db.submit(&look, args![3]).unwrap()).collect();
                assert!(!submitted[0].is_done());
                called.wait();
                for one in submitted {
                    assert_eq!(one.wait().unwrap().rows, [[Value::from(100 + round)]]);
                }
            });
        }
    });
}

/// Sums by a secondary index and writes the sum elsewhere: what is summed lies at any executor, and is read without a lock.
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
fn calls_of_a_group_meet_in_order_where_one_reads_unlocked_what_another_writes() {
    let db = Database::in_memory(options().durability(Durability::None)).unwrap();
    let definition = TableDefinition::new("line")
        .column("id", DataType::Int64)
        .column("group", DataType::Int64)
        .column("n", DataType::Int64);
    let lines = db.create_table(definition.primary_key(["id"]).index("by group", ["group"])).unwrap();
    let sums = account_table(&db);
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&lines, row![id, id % 4, 0]))).unwrap();
    let nobody = Arc::new(Seen::default());
    let add = ProcedureDefinition::new("add").parameter("id", DataType::Int64);
    let procedures = [
        db.register(add.phase([add_by(&lines, 0, 1, &nobody)])).unwrap(),
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
            let told = rows.first().map(|row| row[0].clone());
            assert_eq!(told, expected.map(Value::from), "call {place} of {:?}", calls[place]);
        }
    }
}

/// Rows with codes that are unique, wherever the rows lie; the calls give a row a code, and take it out with its code.
fn coded(db: &Database) -> [Procedure; 2] {
    let definition =
        TableDefinition::new("coded").column("id", DataType::Int64).column("code", DataType::Int64);
    let coded = db.create_table(definition.primary_key(["id"]).unique_index("by code", ["code"])).unwrap();
    let put = Action::write(&coded).key(|args, key| key.push(args.int(0)?)).body(|action| {
        let args = action.args();
        action.insert(row![args.int(0)?, args.int(1)?])
    });
    let put = ProcedureDefinition::new("put").parameter("id", DataType::Int64).phase([put]);
    let take = Action::write(&coded)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.delete().map(|_| ()));
    let take = ProcedureDefinition::new("take").parameter("id", DataType::Int64).phase([take]);
    [db.register(put.parameter("code", DataType::Int64)).unwrap(), db.register(take).unwrap()]
}

/// A code that a row gives up is free for the calls behind it and for none before it, whoever owns their rows.
#[test]
fn calls_of_a_group_take_and_give_up_what_is_unique_in_order() {
    let db = Database::in_memory(options().durability(Durability::None)).unwrap();
    let procedures = coded(&db);
    let mut worker = db.worker().unwrap();
    let mut random = fastrand::Rng::with_seed(9);
    let mut codes = [None::<i64>; 8];
    for _ in 0..150 {
        let (mut calls, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(1..64) {
            let (id, code) = (random.usize(0..codes.len()), random.i64(0..3));
            if codes[id].take().is_some() {
                calls.push((1, args![id as i64]));
                expected.push(true);
                continue;
            }
            let is_free = !codes.contains(&Some(code));
            codes[id] = is_free.then_some(code);
            calls.push((0, args![id as i64, code]));
            expected.push(is_free);
        }
        let mut done = Vec::new();
        worker.execute_group(&procedures, &calls, &mut done);
        for (place, (executed, is_free)) in done.into_iter().zip(expected).enumerate() {
            match executed.wait() {
                Ok(_) => assert!(is_free, "call {place} of {calls:?}"),
                Err(error) => {
                    assert!(!is_free && matches!(error, Error::DuplicateKey { .. }), "call {place}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_panic_in_a_visit_ends_its_call_only() {
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
                let told = executed.wait();
                let panicked = matches!(&told, Err(Error::Panicked { message }) if message == "on purpose");
                assert_eq!(panicked, call % 3 == 2, "{told:?}");
            }
            // The executors are free again: for themselves, and for others.
            db.call(&procedures[1], args![3]).unwrap();
            db.call(&procedures[1], args![4]).unwrap();
        }
        assert_eq!(total(&db, &table), ROWS * 100 + 20 * 32);
    });
}

/// Visitors wait for room in the log where they are, as executors do; so do closures, and calls over several.
#[test]
fn a_small_log_buffer_stops_no_visitor() {
    concurrent::watched(|| {
        let (db, _disk) = concurrent::on_disk(options().log_buffer_bytes(4 << 10));
        let table = account_table(&db);
        let seen = Arc::new(Seen::default());
        let transfers = [transfer(&db, &table, false, &seen), transfer(&db, &table, true, &seen)];
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
fn who_closes_the_database_waits_for_visitors_and_what_was_told_is_kept() {
    concurrent::watched(|| {
        for round in 0..12_u64 {
            let (db, disk) = concurrent::on_disk(options());
            let table = account_table(&db);
            let seen = Arc::new(Seen::default());
            let add = ProcedureDefinition::new("add").parameter("id", DataType::Int64);
            let add = [db.register(add.phase([add_by(&table, 0, 1, &seen)])).unwrap()];
            let told = AtomicI64::new(0);
            thread::scope(|scope| {
                for number in 0..3_u64 {
                    let (db, add, told) = (&db, &add, &told);
                    scope.spawn(move || {
                        let mut worker = match db.worker() {
                            Ok(worker) => worker,
                            Err(error) => return assert!(matches!(error, Error::Closed)),
                        };
                        let mut random = fastrand::Rng::with_seed(number);
                        let mut is_open = true;
                        while is_open {
                            let calls: Vec<(usize, Args)> =
                                (0..20).map(|_| (0, args![random.i64(0..ROWS)])).collect();
                            let mut done = Vec::new();
                            worker.execute_group(add, &calls, &mut done);
                            for one in done {
                                match one.wait() {
                                    Ok(_) => _ = told.fetch_add(1, Ordering::Relaxed),
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
            assert_eq!(kept, told.load(Ordering::Relaxed), "round {round}");
        }
    });
}

/// Rows at different values of the routing columns are in different rooms: who is at one keeps nobody from the other.
#[test]
fn two_workers_are_at_one_executor_at_the_same_time() {
    concurrent::watched(|| {
        let db = Database::in_memory(options().executors(1).durability(Durability::None)).unwrap();
        let table = account_table(&db);
        let both = Arc::new(Barrier::new(2));
        let meet = {
            let both = both.clone();
            Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
                both.wait();
                let n = action.get()?.unwrap().int("n")?;
                action.update(&[("n", (n + 1).into())])
            })
        };
        let definition = ProcedureDefinition::new("meet").parameter("id", DataType::Int64);
        let meet = db.register(definition.phase([meet])).unwrap();
        thread::scope(|scope| {
            for id in [1, 2] {
                let (db, meet) = (&db, &meet);
                scope.spawn(move || {
                    let mut worker = db.worker().unwrap();
                    (0..200).for_each(|_| _ = worker.execute(meet, args![id]).wait().unwrap());
                });
            }
        });
        assert_eq!(total(&db, &table), ROWS * 100 + 400);
    });
}

/// Workers that are in each other's way pass calls, and hand some over: each finds what its own calls have done, in order.
#[test]
fn a_workers_calls_take_effect_in_order_where_others_are_in_the_way() {
    const WORKERS: i64 = 4;
    const OWN: i64 = ROWS / WORKERS;
    concurrent::watched(|| {
        let (db, table) = accounts();
        let seen = Arc::new(Seen::default());
        let procedures =
            [transfer(&db, &table, false, &seen), transfer(&db, &table, true, &seen), get(&db, &table)];
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
                            let told = executed.wait().unwrap().rows.first().map(|row| row[0].clone());
                            assert_eq!(told, expected.map(Value::from), "call {place} of {calls:?}");
                        }
                    }
                });
            }
        });
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}
