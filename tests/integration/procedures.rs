//! Procedures: phases, values, rows, their own errors, and the footprint that they may not leave.

mod outside_footprint;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, ActionContext, DataType, Database, Decimal, Error, Output, PrimaryIndex, ProcedureDefinition,
    Range, Result, Table, TableDefinition, TupleType, Value, args, fail, key, row,
};
use tables::{account_definition, counter_definition, dump, in_memory, order_definition, refused, rows_of};

use crate::assert_kind;
use crate::support::tables;

fn counters() -> (Database, Table) {
    let db = in_memory();
    let table = db.create_table(counter_definition()).unwrap();
    db.run(|tx| (1..=9).try_for_each(|id| tx.insert(&table, row![id, id * 10]))).unwrap();
    (db, table)
}

fn orders() -> (Database, Table) {
    let db = in_memory();
    let table = db.create_table(order_definition()).unwrap();
    db.run(|tx| {
        (1..=4).try_for_each(|customer| {
            (1..=4).try_for_each(|number| tx.insert(&table, row![customer, number, customer * 100 + number]))
        })
    })
    .unwrap();
    (db, table)
}

fn n(db: &Database, table: &Table, id: i64) -> i64 {
    db.run(|tx| tx.get(table, key![id])?.unwrap().int("n")).unwrap()
}

#[test]
fn a_call_changes_what_its_arguments_name_and_returns_rows() {
    let (db, table) = counters();
    let double =
        ProcedureDefinition::new("double").parameter("id", DataType::Int64).phase([Action::write(&table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| {
                let n = action.get()?.ok_or_else(|| fail("no such counter"))?.int("n")?;
                action.update(&[("n", (n * 2).into())])?;
                // The row is a copy: it does not change with what is written; a second look sees the change.
                action.return_row(vec![Value::from(n), Value::from(action.get()?.unwrap().int("n")?)]);
                action.return_row(vec![]);
                Ok(())
            })]);
    let double = db.register(double).unwrap();
    assert_eq!(double.name(), "double");
    assert!(!double.is_read_only());
    let output = db.call(&double, args![3]).unwrap();
    assert_eq!(output.rows, [vec![Value::from(30), Value::from(60)], vec![]]);
    assert_eq!(n(&db, &table, 3), 60);
    // The same by every way to call.
    assert_eq!(db.submit(&double, args![3]).unwrap().wait().unwrap().rows[0][1], Value::from(120));
    assert_eq!(db.try_submit(&double, args![3]).unwrap().wait().unwrap().rows[0][1], Value::from(240));
    let mut worker = db.worker().unwrap();
    let executed = worker.execute(&double, args![3]);
    assert_eq!((executed.failed(), executed.attempts(), executed.is_released()), (false, 1, true));
    assert_eq!(executed.wait().unwrap().rows[0][1], Value::from(480));
}

#[test]
fn a_phase_sees_the_values_of_earlier_phases_only() {
    let (db, table) = counters();
    let chain = ProcedureDefinition::new("chain")
        .parameter("id", DataType::Int64)
        .phase([
            Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(|action| {
                action.set_value(0, action.get()?.unwrap().int("n")?);
                action.set_value(7, "seven");
                // Not to be seen in the phase that sets it.
                let error = refused(action.values().int(0), &["value 0", "no earlier phase"]);
                assert_kind!(error, Error::ValueNotSet { number: 0 });
                Ok(())
            }),
            Action::read(&table).key(|_, key| key.push(1)).body(|action| {
                refused(action.values().get(0), &["value 0"]);
                Ok(())
            }),
        ])
        .phase([Action::read(&table).key(|_, key| key.push(2)).body(|action| {
            assert_eq!(action.values().get(7)?, &Value::from("seven"));
            refused(action.values().int(7), &["value 7", "an integer"]);
            action.set_value(0, action.values().int(0)? + action.get()?.unwrap().int("n")?);
            assert_eq!(action.values().int(0)?, 30);
            Ok(())
        })])
        .phase([Action::write(&table)
            .key_from(|args, values, key| {
                assert_eq!(args.int(0)?, 3);
                key.push(values.int(0)? / 10)
            })
            .body(|action| {
                // 30 + 20: the row of counter 5, which only the values tell.
                action.return_row(vec![action.get()?.unwrap().int("id")?.into()]);
                action.add("n", action.values().int(0)?)
            })]);
    let chain = db.register(chain).unwrap();
    assert_eq!(db.call(&chain, args![3]).unwrap().rows, [[Value::from(5)]]);
    assert_eq!(n(&db, &table, 5), 100);
}

#[test]
fn value_numbers_may_be_large() {
    let (db, table) = counters();
    let sparse = ProcedureDefinition::new("sparse")
        .phase([Action::read(&table).body(|action| {
            action.set_value(usize::MAX, 1);
            action.set_value(1 << 40, 2);
            action.set_value(usize::MAX, 3);
            Ok(())
        })])
        .phase([Action::read(&table).body(|action| {
            assert_eq!((action.values().int(usize::MAX)?, action.values().int(1 << 40)?), (3, 2));
            refused(action.values().get(5), &["value 5"]);
            Ok(())
        })]);
    let sparse = db.register(sparse).unwrap();
    db.call(&sparse, args![]).unwrap();
}

#[test]
fn an_error_of_its_own_leaves_no_trace() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, "ada", 7, 100, 0])).unwrap();
    let before = dump(&db, &table);
    let withdraw = ProcedureDefinition::new("withdraw")
        .parameter("amount", DataType::Int64)
        .phase([
            Action::write(&table).key(|_, key| key.push(2)).body(|action| {
                action.return_row(vec![Value::from(2)]);
                action.insert(row![2, "bea", 7, 0, 0])
            }),
            Action::write(&table).key(|_, key| key.push(1)).body(|action| {
                action.update(&[("name", "eve".into()), ("branch", 8.into())])?;
                action.add("visits", 1)
            }),
        ])
        .phase([Action::write(&table).key(|_, key| key.push(1)).body(|action| {
            let amount = action.args().int(0)?;
            if action.get()?.unwrap().int("balance")? < amount {
                return Err(fail("insufficient funds"));
            }
            action.add("balance", -amount)
        })]);
    let withdraw = db.register(withdraw).unwrap();
    for _ in 0..3 {
        let error = refused(db.call(&withdraw, args![101]), &["insufficient funds"]);
        assert_eq!(error, Error::Failed { message: "insufficient funds".to_string() });
        assert_eq!(dump(&db, &table), before);
        db.check().unwrap();
    }
    // Nor does an error of the engine's that the body passes on, or a panic.
    db.run(|tx| tx.insert(&table, row![2, "bea", 7, 0, 0])).unwrap();
    let before = dump(&db, &table);
    assert_kind!(refused(db.call(&withdraw, args![1]), &["(2)"]), Error::DuplicateKey { .. });
    assert_eq!(dump(&db, &table), before);
    db.run(|tx| tx.delete(&table, key![2])).unwrap();
    assert_eq!(db.call(&withdraw, args![100]).unwrap().rows.len(), 1);
    assert_eq!(dump(&db, &table)[0][1], Value::from("eve"));
    assert_eq!(db.statistics().failed, 4);
    db.check().unwrap();
}

#[test]
fn a_failed_call_in_a_group_leaves_its_neighbours_alone() {
    let (db, table) = counters();
    let add = ProcedureDefinition::new("add").parameter("n", DataType::Int64).phase([Action::write(&table)
        .key(|_, key| key.push(1))
        .body(|action| {
            let n = action.args().int(0)?;
            action.add("n", n)?;
            if n < 0 { Err(fail("negative")) } else { Ok(()) }
        })]);
    let add = db.register(add).unwrap();
    let mut worker = db.worker().unwrap();
    let mut calls: Vec<_> = [1, -5, 2, -7, 4].map(|n| (0, args![n])).into();
    calls.push((0, args!["wrong"]));
    calls.push((0, args![8]));
    let mut done = Vec::new();
    worker.execute_group(&[add], &calls, &mut done);
    let failed: Vec<bool> = done.iter().map(heddledb::Executed::failed).collect();
    assert_eq!(failed, [false, true, false, true, false, true, false]);
    assert_eq!(n(&db, &table, 1), 10 + 1 + 2 + 4 + 8);
}

#[test]
fn savepoints_work_inside_an_action() {
    let (db, table) = orders();
    let t = table.clone();
    let partly = ProcedureDefinition::new("partly").phase([Action::write(&table)
        .key(|_, key| key.push(2))
        .body(move |action| {
            let tx = action.tx();
            tx.add(&t, key![2, 1], "total", 1)?;
            let savepoint = tx.savepoint();
            tx.delete(&t, key![2, 2])?;
            tx.insert(&t, row![2, 9, 9])?;
            assert_eq!(rows_of(tx.scan(&t, Range::prefix(key![2])))?.len(), 4);
            tx.rollback_to(&savepoint);
            assert!(tx.exists(&t, key![2, 2])? && !tx.exists(&t, key![2, 9])?);
            tx.add(&t, key![2, 3], "total", 1)
        })]);
    db.call(&db.register(partly).unwrap(), args![]).unwrap();
    let totals: Vec<Value> = dump(&db, &table)[4..8].iter().map(|row| row[2].clone()).collect();
    assert_eq!(totals, [202, 202, 204, 204].map(Value::from));
}

#[test]
fn a_body_that_runs_again_sees_a_clean_state() {
    let (db, table) = counters();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let again = ProcedureDefinition::new("again")
        .phase([Action::write(&table).key(|_, key| key.push(1)).body(move |action| {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            assert_eq!(action.get()?.unwrap().int("n")?, 10, "run {run}");
            refused(action.values().get(0), &["value 0"]);
            action.set_value(0, i64::from(run));
            action.return_row(vec![Value::from(i64::from(run))]);
            action.add("n", 1)?;
            // A conflict that the body reports explicitly is retried like any other.
            if run < 3 { Err(Error::Conflict) } else { Ok(()) }
        })])
        .phase([Action::read(&table).key(|_, key| key.push(2)).body(|action| {
            assert_eq!(action.values().int(0)?, 3);
            Ok(())
        })]);
    let again = db.register(again).unwrap();
    let mut worker = db.worker().unwrap();
    let executed = worker.execute(&again, args![]);
    assert_eq!(executed.attempts(), 4);
    assert_eq!(executed.wait().unwrap().rows, [[Value::from(3)]]);
    assert_eq!(n(&db, &table, 1), 11);
    assert_eq!(db.statistics().aborted, 3);
}

#[test]
fn a_body_without_rivals_runs_once_on_every_thread() {
    let disk = SimulatedDisk::new();
    for db in [in_memory(), tables::open(&disk)] {
        let table = db.create_table(counter_definition()).unwrap();
        let insert =
            ProcedureDefinition::new("insert").parameter("id", DataType::Int64).phase([Action::write(
                &table,
            )
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.insert(row![action.args().int(0)?, 0]))]);
        let insert = db.register(insert).unwrap();
        // All at once, so that each has a place of its own in the engine.
        let mut workers: Vec<_> = (0..4).map(|_| db.worker().unwrap()).collect();
        for (id, worker) in workers.iter_mut().enumerate() {
            let executed = worker.execute(&insert, args![id as i64]);
            assert_eq!(executed.attempts(), 1, "worker {id}");
            executed.wait().unwrap();
        }
        let mut runs = 0;
        db.run(|tx| {
            runs += 1;
            tx.insert(&table, row![100, 0])
        })
        .unwrap();
        assert_eq!((runs, db.statistics().aborted), (1, 0));
    }
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let (db, table) = counters();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let typed = ProcedureDefinition::new("typed")
        .parameter("id", DataType::Int64)
        .parameter("small", DataType::Int32)
        .parameter("price", DataType::Decimal { precision: 5, scale: 2 })
        .parameter("rate", DataType::Float64)
        .parameter("name", DataType::Text)
        .phase([Action::read(&table).body(move |action| {
            counted.fetch_add(1, Ordering::Relaxed);
            let args = action.args();
            let price = if args.is_null(2)? { Value::Null } else { args.decimal(2)?.into() };
            let rate = if args.is_null(3)? { Value::Null } else { args.float(3)?.into() };
            action.return_row(vec![price, rate]);
            refused(args.int(4), &["argument 4", "an integer"]);
            refused(args.int(9), &["argument 9", "5 arguments"]);
            Ok(())
        })]);
    let typed = db.register(typed).unwrap();
    let refuse = |args: heddledb::Args, words: &[&str]| {
        let mut worker = db.worker().unwrap();
        let executed = worker.execute(&typed, args.clone());
        assert!(executed.failed());
        refused(executed.wait(), words);
        drop(worker);
        refused(db.call(&typed, args), words)
    };
    let words = ["\"typed\"", "5 arguments", "0 were given", "give one for each parameter"];
    assert_kind!(refuse(args![], &words), Error::WrongArguments { .. });
    refuse(args![1, 2, 3, 4, "x", 6], &["6 were given"]);
    assert_kind!(refuse(args!["1", 2, 3, 4.0, "x"], &["id", "int64", "a text"]), Error::WrongType { .. });
    assert_kind!(
        refuse(args![1, 1_i64 << 40, 3, 4.0, "x"], &["small", "out of range"]),
        Error::Overflow { .. }
    );
    let fine: Decimal = "1.234".parse().unwrap();
    assert_kind!(refuse(args![1, 2, fine, 4.0, "x"], &["price", "lose digits"]), Error::Inexact { .. });
    refuse(args![1, 2, 3, 4.0, "a\0b"], &["name", "character zero"]);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    // What fits comes as its parameter's type has it: also an integer for a decimal and a float.
    let output = db.call(&typed, args![1, 2, 3, 4, "x"]).unwrap();
    assert_eq!(output.rows, [[Value::from("3.00".parse::<Decimal>().unwrap()), Value::from(4.0)]]);
    let null = None::<i64>;
    let output = db.call(&typed, args![null, null, null, null, "x"]).unwrap();
    assert_eq!(output.rows, [[Value::Null, Value::Null]]);
}

#[test]
fn procedures_that_make_no_sense_are_refused() {
    let (db, table) = counters();
    let (_other, foreign) = counters();
    let named = |words: &[&str], definition: ProcedureDefinition| {
        let error = refused(db.register(definition), words);
        assert_kind!(error, Error::InvalidProcedure { .. });
    };
    let done = |action: Action| action.body(|_| Ok(()));
    let new = ProcedureDefinition::new;
    named(&["\"empty\"", "no action", "add .phase"], new("empty"));
    named(&["no action"], new("empty").phase([]));
    named(&["\"bodiless\"", "\"counter\"", "phase 2", "no body"], {
        new("bodiless").phase([done(Action::read(&table))]).phase([Action::read(&table)])
    });
    named(&["key_from", "first phase"], {
        new("early").phase([done(Action::read(&table).key_from(|_, _, key| key.push(1)))])
    });
    named(&["parameter \"p\"", "decimal(0,0)"], {
        let nothing = DataType::Decimal { precision: 0, scale: 0 };
        new("typed").parameter("p", nothing).phase([done(Action::read(&table))])
    });
    let error = refused(
        db.register(new("foreign").phase([done(Action::read(&foreign))])),
        &["counter", "another database", "Database::table"],
    );
    assert_kind!(error, Error::ForeignTable { .. });
}

#[test]
fn a_procedure_of_another_database_is_refused() {
    let (db, _) = counters();
    let (other, foreign) = counters();
    let read = ProcedureDefinition::new("read").phase([Action::read(&foreign).body(|_| Ok(()))]);
    let read = other.register(read).unwrap();
    let words = ["\"read\"", "another database", "register it with this one"];
    assert_kind!(refused(db.call(&read, args![]), &words), Error::InvalidProcedure { .. });
    refused(db.submit(&read, args![]).map(drop), &words);
    refused(db.try_submit(&read, args![]).map(drop), &words);
    refused(db.worker().unwrap().execute(&read, args![]).wait(), &words);
    other.call(&read, args![]).unwrap();
}

#[test]
fn every_operation_works_in_a_commute_action() {
    let db = in_memory();
    let entry = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let definition = TableDefinition::new("flight")
        .column("id", DataType::Int64)
        .column("count", DataType::Int64)
        .column("low", DataType::Float64)
        .column("last", DataType::OrderedTuple(entry.clone()))
        .column("worst", DataType::TopK { limit: 2, of: entry.clone() })
        .primary_key(["id"]);
    let table = db.create_table(definition).unwrap();
    let null = None::<i64>;
    db.run(|tx| tx.insert(&table, row![1, 0, null, null, null])).unwrap();
    let columns = ["count", "low", "last", "worst"].map(|name| table.column(name).unwrap());
    let land = ProcedureDefinition::new("land")
        .parameter("delay", DataType::Int64)
        .parameter("name", DataType::Text)
        .phase([Action::commute(&table).key(|_, key| key.push(1)).body(move |action| {
            let [count, low, last, worst] = columns;
            let (delay, name) = (action.args().int(0)?, action.args().text(1)?);
            action.add(count, 1)?;
            action.min(low, delay as f64)?;
            action.ordered_put(last, &row![delay], &row![name])?;
            action.top_k_insert(worst, &row![delay], &row![name])
        })]);
    let land = db.register(land).unwrap();
    for (delay, name) in [(5, "e"), (9, "i"), (7, "g"), (9, "h"), (1, "a")] {
        db.call(&land, args![delay, name]).unwrap();
    }
    let row = dump(&db, &table).remove(0);
    assert_eq!((&row[1], &row[2]), (&Value::from(5), &Value::from(1.0)));
    let Value::Tuple(last) = &row[3] else { panic!("{row:?}") };
    assert_eq!(last.row(&entry).unwrap(), [Value::from(9), Value::from("i")]);
    let Value::TopK(worst) = &row[4] else { panic!("{row:?}") };
    let expected = [[Value::from(9), Value::from("i")], [Value::from(7), Value::from("g")]];
    assert_eq!(worst.rows(&entry).unwrap(), expected);
}

#[test]
fn an_output_without_rows_is_empty() {
    let (db, table) = counters();
    let silent = ProcedureDefinition::new("silent").phase([Action::read(&table).body(|_| Ok(()))]);
    let silent = db.register(silent).unwrap();
    assert!(silent.is_read_only());
    assert_eq!(db.call(&silent, args![]).unwrap(), Output::default());
}

#[test]
fn calls_of_a_group_see_each_other_although_their_keys_are_looked_up_ahead() {
    for kind in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let disk = SimulatedDisk::new();
        let db = tables::open(&disk);
        let definition = counter_definition().column("text", DataType::Text).primary_index(kind);
        let table = db.create_table(definition.index("by_n", ["n"])).unwrap();
        let procedure = |name: &str, action: fn(&ActionContext<'_, '_>) -> Result<()>| {
            let by_id = Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(action);
            db.register(ProcedureDefinition::new(name).parameter("id", DataType::Int64).phase([by_id]))
                .unwrap()
        };
        let insert = procedure("insert", |action| {
            action.insert(row![action.args().int(0)?, 1, "long enough for a block"])
        });
        let delete =
            procedure("delete", |action| if action.delete()? { Ok(()) } else { Err(fail("not there")) });
        let add = procedure("add", |action| action.add("n", 1));
        let read = procedure("read", |action| {
            action.return_row(action.get()?.map_or(vec![], |row| row.to_values()));
            Ok(())
        });
        const INSERT: usize = 0;
        const DELETE: usize = 1;
        const ADD: usize = 2;
        const READ: usize = 3;
        let procedures = [insert, delete, add, read];
        let mut worker = db.worker().unwrap();
        for round in 0..30 {
            let steps = [READ, INSERT, READ, ADD, INSERT, ADD, READ, DELETE, READ, ADD, DELETE];
            let calls: Vec<_> = steps.iter().flat_map(|&step| [(step, args![1]), (step, args![2])]).collect();
            let mut done = Vec::new();
            worker.execute_group(&procedures, &calls, &mut done);
            let results: Vec<_> = done.into_iter().map(heddledb::Executed::wait).collect();
            for of_one in [0, 1].map(|start| results.iter().skip(start).step_by(2).collect::<Vec<_>>()) {
                let rows = |at: usize| of_one[at].as_ref().unwrap().rows[0].clone();
                assert!(rows(0).is_empty() && rows(8).is_empty(), "round {round}");
                assert_eq!((&rows(2)[1], &rows(6)[1]), (&Value::from(1), &Value::from(3)), "round {round}");
                assert!(matches!(of_one[4], Err(Error::DuplicateKey { .. })), "{:?}", of_one[4]);
                assert!(matches!(of_one[9], Err(Error::MissingKey { .. })), "{:?}", of_one[9]);
                assert_eq!(of_one[10], &Err(fail("not there")));
            }
        }
        drop(worker);
        assert!(dump(&db, &table).is_empty());
        db.check().unwrap();
        db.close().unwrap();
        let db = tables::open(&disk);
        assert!(dump(&db, &db.table("counter").unwrap()).is_empty());
    }
}
