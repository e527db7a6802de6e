//! Thread-to-data execution: transactions over several executors, their phases and deadlocks, their locks, and closures that run
//! at the same time.

mod across_executors;
mod routing;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Procedure,
    ProcedureDefinition, Result, Submitted, Table, TableDefinition, Value, args, key, row,
};

use crate::support::concurrent;

const EXECUTORS: usize = 4;
const ROWS: i64 = 64;

/// Four executors whose ranges stay as they are: a move takes local locks, too.
fn options() -> Options {
    Options::default()
        .protocol(PartitionedOptions::default().executors(EXECUTORS).repartitioning(false))
        .durability(Durability::None)
}

/// Rows 0 to 63, each with 100, on four executors.
fn accounts() -> (Database, Table) {
    let db = Database::in_memory_with(options()).unwrap();
    let table = account_table(&db);
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100]))).unwrap();
    (db, table)
}

fn account_table(db: &Database) -> Table {
    let definition =
        TableDefinition::new("account").column("id", DataType::Int64).column("n", DataType::Int64);
    db.create_table(definition.primary_key(["id"])).unwrap()
}

fn n(db: &Database, table: &Table, id: i64) -> i64 {
    db.run(|tx| tx.get(table, key![id])?.unwrap().int("n")).unwrap()
}

fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| (0..ROWS).map(|id| tx.get(table, key![id])?.unwrap().int("n")).sum()).unwrap()
}

fn add_by(table: &Table, which: usize, amount: i64) -> Action {
    Action::write(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
        let n = action.get()?.unwrap().int("n")?;
        action.update(&[("n", (n + amount).into())])
    })
}

/// A transfer between two accounts, in one phase or in two.
fn transfer(db: &Database, table: &Table, in_phases: bool) -> Procedure {
    let name = if in_phases { "transfer in phases" } else { "transfer" };
    let definition =
        ProcedureDefinition::new(name).parameter("from", DataType::Int64).parameter("to", DataType::Int64);
    let (take, give) = (add_by(table, 0, -1), add_by(table, 1, 1));
    let definition =
        if in_phases { definition.phase([take]).phase([give]) } else { definition.phase([take, give]) };
    db.register(definition).unwrap()
}

fn all_done(submitted: Vec<Submitted>) {
    submitted.into_iter().for_each(|one| _ = one.wait().unwrap());
}

#[test]
fn transfers_in_one_phase_lose_and_invent_nothing_and_never_abort() {
    let (db, table) = accounts();
    let transfer = transfer(&db, &table, false);
    let before = db.statistics();
    let mut random = fastrand::Rng::with_seed(1);
    let mut pair = || args![random.i64(0..8), random.i64(8..16)];
    all_done((0..2_000).map(|_| db.submit(&transfer, pair()).unwrap()).collect());
    assert_eq!(total(&db, &table), ROWS * 100);
    assert_eq!((db.statistics() - before).aborted, 0, "what enters all queues at once never deadlocks");
}

#[test]
fn two_transfers_in_two_phases_against_each_other_both_commit() {
    let (db, table) = accounts();
    let transfer = transfer(&db, &table, true);
    for round in 0..200 {
        let (one, other) = (round % 7, 7 + round % 5);
        all_done(vec![
            db.submit(&transfer, args![one, other]).unwrap(),
            db.submit(&transfer, args![other, one]).unwrap(),
        ]);
    }
    let mut random = fastrand::Rng::with_seed(2);
    let mut pair = || args![random.i64(0..6), random.i64(6..12)];
    let mut pairs: Vec<Args> = (0..200).map(|_| pair()).collect();
    pairs.extend((0..200).map(|_| {
        let there = pair();
        args![there.int(1).unwrap(), there.int(0).unwrap()]
    }));
    random.shuffle(&mut pairs);
    all_done(pairs.into_iter().map(|pair| db.submit(&transfer, pair).unwrap()).collect());
    assert_eq!(total(&db, &table), ROWS * 100);
}

/// The deadlock is certain: both first phases are done before either second one locks its key, which depends on values.
#[test]
fn a_deadlock_across_phases_is_found_and_costs_one_of_them_an_attempt() {
    let (db, table) = accounts();
    let (one, other) = (1, 2);
    let meet = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
    let first = {
        let meet = meet.clone();
        Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
            let n = action.get()?.unwrap().int("n")?;
            if meet.1.fetch_add(1, Ordering::SeqCst) < 2 {
                meet.0.wait();
            }
            action.update(&[("n", (n - 1).into())])
        })
    };
    let definition = ProcedureDefinition::new("transfer")
        .parameter("from", DataType::Int64)
        .parameter("to", DataType::Int64);
    let second = Action::write(&table).key_from(|args, _, key| key.push(args.int(1)?)).body(|action| {
        let n = action.get()?.unwrap().int("n")?;
        action.update(&[("n", (n + 1).into())])
    });
    let transfer = db.register(definition.phase([first]).phase([second])).unwrap();
    let before = db.statistics();
    all_done(vec![
        db.submit(&transfer, args![one, other]).unwrap(),
        db.submit(&transfer, args![other, one]).unwrap(),
    ]);
    assert_eq!((db.statistics() - before).aborted, 1);
    assert_eq!((n(&db, &table, one), n(&db, &table, other)), (100, 100));
}

/// Keys that are known at the entry are locked at once, whatever phase they belong to: there is no deadlock to find.
#[test]
fn transactions_with_known_keys_never_deadlock_across_phases() {
    let (db, table) = accounts();
    let transfer = transfer(&db, &table, true);
    let before = db.statistics();
    let mut random = fastrand::Rng::with_seed(3);
    let mut pair = || {
        let from = random.i64(0..8);
        args![from, (from + random.i64(1..8)) % 8]
    };
    all_done((0..1_000).map(|_| db.submit(&transfer, pair()).unwrap()).collect());
    assert_eq!(total(&db, &table), ROWS * 100);
    assert_eq!((db.statistics() - before).aborted, 0);
}

#[test]
fn actions_of_one_phase_run_at_the_same_time() {
    let (db, table) = accounts();
    let meet = Arc::new(Barrier::new(2));
    let look = |which: usize| {
        let meet = meet.clone();
        Action::read(&table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
            action.get()?;
            meet.wait();
            Ok(())
        })
    };
    let definition =
        ProcedureDefinition::new("look").parameter("a", DataType::Int64).parameter("b", DataType::Int64);
    let look = db.register(definition.phase([look(0), look(1)])).unwrap();
    // Neighbors belong to different executors; each waits in its body for the other.
    db.call(&look, args![1, 2]).unwrap();
}

#[test]
fn rows_values_and_errors_come_in_the_order_of_the_actions() {
    let (db, table) = accounts();
    let place = |place: i64, fails: bool| {
        Action::read(&table).key(move |args, key| key.push(args.int(0)? + place)).body(move |action| {
            if place % 2 == 0 {
                thread::sleep(Duration::from_millis(3));
            }
            let n = action.get()?.unwrap().int("n")?;
            action.return_row(vec![place.into(), n.into()]);
            action.set_value(0, place);
            action.set_value(1 + place as usize, place * 10);
            if fails {
                return Err(Error::InvalidValue { what: place.to_string(), detail: "it fails".to_string() });
            }
            Ok(())
        })
    };
    let last = Action::read(&table).key_from(|args, values, key| key.push(args.int(0)? + values.int(0)?));
    let last = last.body(|action| {
        let values: Result<Vec<Value>> =
            (0..9).map(|number| Ok(action.values().get(number)?.clone())).collect();
        action.return_row(values?);
        Ok(())
    });
    let definition = |name| ProcedureDefinition::new(name).parameter("first", DataType::Int64);
    let sound = definition("sound").phase((0..8).map(|number| place(number, false))).phase([last]);
    let sound = db.register(sound).unwrap();
    let failing = definition("failing")
        .phase((0..8).map(|number| place(number, number == 3 || number == 5 || number == 6)));
    let failing = db.register(failing).unwrap();
    for first in 0..20_i64 {
        let rows = db.call(&sound, args![first]).unwrap().rows;
        let expected = (0..8).map(|place| vec![Value::from(place), Value::from(100)]);
        let values = std::iter::once(7).chain((0..8).map(|place| place * 10)).map(Value::from).collect();
        assert_eq!(rows, expected.chain([values]).collect::<Vec<Vec<Value>>>());
        let error = db.call(&failing, args![first]).unwrap_err();
        assert!(matches!(&error, Error::InvalidValue { what, .. } if what == "3"), "{error}");
    }
}

#[test]
fn a_later_phase_sees_what_earlier_ones_have_written_and_a_failure_leaves_no_trace() {
    let (db, table) = accounts();
    let definition = ProcedureDefinition::new("twice")
        .parameter("a", DataType::Int64)
        .parameter("b", DataType::Int64)
        .parameter("fails", DataType::Bool);
    let insert = Action::write(&table)
        .key(|args, key| key.push(args.int(0)? + 1_000))
        .body(|action| action.insert(row![action.args().int(0)? + 1_000, 5]));
    let read = Action::read(&table).key(|args, key| key.push(args.int(0)? + 1_000)).body(|action| {
        let n = action.get()?.unwrap().int("n")?;
        action.set_value(0, n);
        Ok(())
    });
    let fail = Action::write(&table).key(|args, key| key.push(args.int(1)?)).body(|action| {
        let n = action.get()?.unwrap().int("n")?;
        action.return_row(vec![n.into(), action.values().int(0)?.into()]);
        match action.args()[2] {
            Value::Bool(true) => panic!("on purpose"),
            _ => Ok(()),
        }
    });
    let twice = definition
        .phase([add_by(&table, 0, 1), add_by(&table, 1, 2), insert])
        .phase([add_by(&table, 1, 2), add_by(&table, 0, 1), read])
        .phase([fail]);
    let twice = db.register(twice).unwrap();
    for (a, b) in [(1, 2), (3, 6), (4, 4), (9, 10)] {
        let before = (n(&db, &table, a), n(&db, &table, b));
        let error = db.call(&twice, args![a, b, true]).unwrap_err();
        assert!(matches!(&error, Error::Panicked { message } if message == "on purpose"), "{error}");
        assert_eq!((n(&db, &table, a), n(&db, &table, b)), before);
        let rows = db.call(&twice, args![a, b, false]).unwrap().rows;
        let expected = if a == b { 106 } else { 104 };
        assert_eq!(rows, [[Value::from(expected), Value::from(5)]]);
        assert_eq!((n(&db, &table, b), n(&db, &table, a + 1_000)), (expected, 5));
        let error = db.call(&twice, args![a, b, false]).unwrap_err();
        assert!(matches!(error, Error::DuplicateKey { .. }), "{error}");
        assert_eq!(n(&db, &table, b), expected);
    }
}

/// Payment as TPC-C has it: three updates and the insert of a history row. Locks are local, and taken where there is a rival or
/// another executor; the lock manager sees none of them, inserts and deletes neither.
#[test]
fn a_payment_takes_no_central_lock_and_requests_a_local_one_for_each_row() {
    let (db, accounts) = accounts();
    let definition =
        TableDefinition::new("history").column("id", DataType::Int64).column("amount", DataType::Int64);
    let history = db.create_table(definition.primary_key(["id"])).unwrap();
    let insert = Action::write(&history)
        .key(|args, key| key.push(args.int(3)?))
        .body(|action| action.insert(row![action.args().int(3)?, 10]));
    let names = ["warehouse", "district", "customer", "history"];
    let definition = names.into_iter().fold(ProcedureDefinition::new("payment"), |definition, name| {
        definition.parameter(name, DataType::Int64)
    });
    let updates = (0..3).map(|which| add_by(&accounts, which, 1));
    let payment = db.register(definition.phase(updates.chain([insert]))).unwrap();
    let look = ProcedureDefinition::new("look").parameter("id", DataType::Int64);
    let look = look.phase([Action::read(&accounts)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.get().map(drop))]);
    let look = db.register(look).unwrap();
    let before = db.statistics();
    for number in 0..100 {
        db.call(&payment, args![number % 4, 4 + number % 5, 9 + number % 20, number]).unwrap();
    }
    let taken = db.statistics() - before;
    assert_eq!((taken.committed, taken.locks_row, taken.locks_higher), (100, 0, 0));
    assert_eq!(taken.lock_requests_local, 400);
    // Those at several executors are held until all have ended; a payment at one takes none.
    assert!((100..=400).contains(&taken.locks_local), "{taken:?}");
    let before = db.statistics();
    (0..100).for_each(|id| _ = db.call(&look, args![id % ROWS]).unwrap());
    let taken = db.statistics() - before;
    assert_eq!((taken.locks_row, taken.locks_higher, taken.locks_local), (0, 0, 0));
    assert_eq!(taken.lock_requests_local, 100);
    let before = db.statistics();
    db.run(|tx| tx.delete(&history, key![5])).unwrap();
    let taken = db.statistics() - before;
    assert_eq!((taken.locks_row, taken.locks_local), (0, 1), "a closure locks what it has written");
}

#[test]
fn transactions_of_a_group_take_effect_in_order() {
    let (db, table) = accounts();
    let get = Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(|action| {
        action.return_row(vec![action.get()?.unwrap().int("n")?.into()]);
        Ok(())
    });
    let get = ProcedureDefinition::new("get").parameter("id", DataType::Int64).phase([get]);
    let add = ProcedureDefinition::new("add").parameter("id", DataType::Int64).phase([add_by(&table, 0, 1)]);
    let procedures = [
        db.register(get).unwrap(),
        db.register(add).unwrap(),
        transfer(&db, &table, true),
        transfer(&db, &table, false),
    ];
    let mut worker = db.worker().unwrap();
    let mut model = [100_i64; 8];
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..60 {
        let (mut calls, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(..100) {
            let (one, other) = (random.usize(..4), random.usize(4..8));
            let which = [0, 0, 0, 1, 1, 1, 2, 3][random.usize(..8)];
            expected.push((which == 0).then_some(model[one]));
            match which {
                0 => {}
                1 => model[one] += 1,
                _ => (model[one], model[other]) = (model[one] - 1, model[other] + 1),
            }
            let args = if which < 2 { args![one as i64] } else { args![one as i64, other as i64] };
            calls.push((which, args));
        }
        let mut done = Vec::new();
        worker.execute_group(&procedures, &calls, &mut done);
        assert_eq!(done.len(), calls.len());
        for (executed, expected) in done.into_iter().zip(expected) {
            assert!(executed.attempts() >= 1 && !executed.is_stashed());
            let rows = executed.wait().unwrap().rows;
            assert_eq!(rows.first().map(|row| row[0].clone()), expected.map(Value::from));
        }
    }
}

#[test]
fn closing_waits_for_active_transactions() {
    for round in 0..20 {
        let (db, table) = accounts();
        let transfers = [transfer(&db, &table, true), transfer(&db, &table, false)];
        let submitted: Vec<_> = (0..200_i64)
            .map(|call| db.submit(&transfers[call as usize % 2], args![call % 5, 5 + call % 6]).unwrap())
            .collect();
        if round % 2 == 0 {
            db.close().unwrap();
        } else {
            drop(db);
        }
        all_done(submitted);
    }
}

/// Executors and closures wait for log space while they hold local locks; a closure that waits for locks has returned its log
/// space, and an idle thread keeps at most a portion.
#[test]
fn a_small_log_buffer_causes_no_deadlock() {
    concurrent::watched(|| {
        let options = Options::default()
            .protocol(PartitionedOptions::default().executors(3))
            .log(|log| log.buffer_bytes(4 << 10));
        let (db, _disk) = concurrent::on_disk(options);
        let table = account_table(&db);
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100]))).unwrap();
        let transfers = [transfer(&db, &table, true), transfer(&db, &table, false)];
        thread::scope(|scope| {
            for number in 0..8_usize {
                let (db, table, transfers) = (&db, &table, &transfers);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number as u64);
                    for _ in 0..150 {
                        let (from, to) = (random.i64(0..8), random.i64(8..16));
                        if number < 2 {
                            db.call(&transfers[number], args![from, to]).unwrap();
                        } else {
                            // From one row to forty: more than a portion.
                            let many = if random.u8(0..10) == 0 { 20 } else { random.i64(1..4) };
                            db.run(|tx| {
                                (0..many).try_for_each(|at| tx.add(table, key![at], "n", -1))?;
                                (0..many).try_for_each(|at| tx.add(table, key![ROWS - 1 - at], "n", 1))
                            })
                            .unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(total(&db, &table), ROWS * 100);
    });
}

/// A procedure's body may own the last handle: then an executor closes the database at the end of a transaction.
#[test]
fn an_executor_may_close_the_database() {
    for _ in 0..10 {
        let (db, table) = accounts();
        let owner = db.clone();
        let look = |which: usize| Action::read(&table).key(move |args, key| key.push(args.int(which)?));
        let first = look(0).body(move |action| {
            let _ = &owner;
            action.get().map(drop)
        });
        let second = look(1).body(|action| action.get().map(drop));
        let definition =
            ProcedureDefinition::new("look").parameter("a", DataType::Int64).parameter("b", DataType::Int64);
        let procedure = db.register(definition.phase([first, second])).unwrap();
        let submitted: Vec<_> =
            (0..50_i64).map(|call| db.submit(&procedure, args![call % 5, 5 + call % 3]).unwrap()).collect();
        drop((procedure, table, db));
        for one in submitted {
            let reported = one.wait();
            assert!(matches!(reported, Ok(_) | Err(Error::Closed)), "{reported:?}");
        }
    }
}
