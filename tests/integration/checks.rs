//! Checks hold whatever changes a row: closures, procedures, sessions, operations; under every protocol, and after recovery.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use crate::support::tables::{on_disk, refused};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition, ProtocolKind,
    Range, Result, Table, TableChange, TableDefinition, Value, ValueRef, args, key, row,
};

fn definition() -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("stock", DataType::Int64)
        .not_null()
        .column("price", DataType::Decimal { precision: 8, scale: 2 })
        .column("low", DataType::Int64)
        .column("high", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"])
        .check("in_stock", "stock >= 0")
        .check("price_range", "price > 0 AND price <= 1000")
        .check("ordered", "low <= high")
        .check("named", "length(name) BETWEEN 1 AND 10 AND name NOT LIKE '%!'")
}

fn filled(db: &Database) -> Table {
    let table = db.create_table(definition()).expect("created");
    let price = "1.50".parse::<heddledb::Decimal>().expect("a decimal");
    db.run(|tx| (0..10).try_for_each(|id| tx.insert(&table, row![id, 10, price, 1, 5, "a name"])))
        .expect("filled");
    table
}

fn everywhere(test: impl Fn(&Database, &Table)) {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let table = filled(&db);
        test(&db, &table);
        check_all(&db, &table);
    }
}

/// That a full scan finds no row that violates a check.
fn check_all(db: &Database, table: &Table) {
    db.run(|tx| {
        for row in tx.scan(table, Range::all())? {
            let row = row?;
            let (low, high) = (row.get("low")?, row.get("high")?);
            assert!(row.int("stock")? >= 0);
            assert!(
                low.is_null() || high.is_null() || row.int("low")? <= row.int("high")?,
                "{low:?} {high:?}"
            );
        }
        Ok(())
    })
    .expect("read");
}

#[track_caller]
fn violates<T: std::fmt::Debug>(result: Result<T>, name: &str) {
    match result {
        Err(error @ Error::CheckViolation { .. }) => {
            assert_eq!(error.sqlstate(), "23514");
            assert!(error.to_string().contains(name), "{error}");
        }
        other => panic!("it should violate {name}: {other:?}"),
    }
}

#[test]
fn rows_that_come_in_are_checked_at_the_insert() {
    everywhere(|db, table| {
        let insert = |id: i64, stock: i64, low: Option<i64>, high: Option<i64>, name: &str| {
            db.run(|tx| {
                let inserted = tx.insert(table, row![id, stock, Option::<i64>::None, low, high, name]);
                // The error comes at the statement, and leaves nothing of it.
                if inserted.is_err() {
                    assert!(!tx.exists(table, key![id])?);
                }
                inserted
            })
        };
        violates(insert(100, -1, None, None, "x"), "in_stock");
        violates(insert(100, 0, Some(2), Some(1), "x"), "ordered");
        violates(insert(100, 0, None, None, ""), "named");
        violates(insert(100, 0, None, None, "longer than ten"), "named");
        violates(insert(100, 0, None, None, "what!"), "named");
        insert(100, 0, Some(2), None, "x").expect("NULL passes");
        let error = insert(101, -7, None, None, "y").expect_err("refused");
        refused::<()>(Err(error), &["101, -7, NULL, NULL, NULL, y", "\"item\"", "in_stock"]);
    });
}

#[test]
fn updates_are_checked_with_the_rest_of_the_row() {
    everywhere(|db, table| {
        let update = |changes: &[(&str, ValueRef<'_>)]| db.run(|tx| tx.update(table, key![3], changes));
        violates(update(&[("stock", (-1).into())]), "in_stock");
        violates(
            update(&[("price", "1000.01".parse::<heddledb::Decimal>().expect("a decimal").into())]),
            "price_range",
        );
        violates(update(&[("price", 0.into())]), "price_range");
        violates(update(&[("low", 6.into())]), "ordered");
        violates(update(&[("high", 0.into())]), "ordered");
        update(&[("low", 6.into()), ("high", 7.into())]).expect("both together");
        update(&[("low", ValueRef::Null), ("stock", 0.into())]).expect("NULL passes");
        update(&[("high", (-5).into())]).expect("unknown passes");
        violates(update(&[("low", (-4).into())]), "ordered");
        // A transaction that goes on after the error commits the rest.
        db.run(|tx| {
            violates(tx.update(table, key![4], &[("name", "".into())]), "named");
            tx.update(table, key![4], &[("stock", 9.into())])
        })
        .expect("the rest");
        let name = db
            .run(|tx| Ok(tx.get(table, key![4])?.map(|row| row.to_values())))
            .expect("read")
            .expect("a row");
        assert_eq!((name[1].clone(), name[5].clone()), (Value::Int(9), Value::Text("a name".into())));
    });
}

#[test]
fn operations_are_checked_on_the_row_that_would_be_installed() {
    everywhere(|db, table| {
        let add = |column: &'static str, amount: i64| db.run(|tx| tx.add(table, key![2], column, amount));
        violates(add("stock", -11), "in_stock");
        add("stock", -10).expect("to the last one");
        violates(add("stock", -1), "in_stock");
        violates(add("low", 5), "ordered");
        violates(db.run(|tx| tx.min(table, key![2], "high", 0)), "ordered");
        violates(db.run(|tx| tx.multiply(table, key![2], "low", 6)), "ordered");
        db.run(|tx| {
            tx.add(table, key![2], "low", 5)?;
            tx.add(table, key![2], "high", 5)
        })
        .expect("what counts is what they come to together");
        // Inserted and taken from in one transaction.
        violates(
            db.run(|tx| {
                tx.insert(table, row![50, 1, Option::<i64>::None, 0, 0, "x"])?;
                tx.add(table, key![50], "stock", -2)
            }),
            "in_stock",
        );
        assert!(!db.run(|tx| tx.exists(table, key![50])).expect("read"));
    });
}

fn procedures(db: &Database, table: &Table) -> (Procedure, Procedure) {
    let take = ProcedureDefinition::new("take")
        .parameter("id", DataType::Int64)
        .parameter("n", DataType::Int64)
        .phase([Action::commute(table).key(|args, key| key.push(args.int(0)?)).body(|action| {
            let amount = -action.args().int(1)?;
            action.add("stock", amount)
        })]);
    let set = ProcedureDefinition::new("set")
        .parameter("id", DataType::Int64)
        .parameter("n", DataType::Int64)
        .phase([Action::write(table).key(|args, key| key.push(args.int(0)?)).body(|action| {
            let value = action.args().int(1)?;
            action.update(&[("stock", value.into())])?;
            action.update(&[("low", value.into())])
        })]);
    (db.register(take).expect("registered"), db.register(set).expect("registered"))
}

#[test]
fn procedures_are_checked_in_their_straight_lines_too() {
    everywhere(|db, table| {
        let (take, set) = procedures(db, table);
        db.call(&take, args![5, 10]).expect("to the last one");
        violates(db.call(&take, args![5, 1]), "in_stock");
        violates(db.call(&set, args![5, -1]), "in_stock");
        violates(db.call(&set, args![5, 6]), "ordered");
        db.call(&set, args![5, 5]).expect("both hold");
        let mut worker = db.worker().expect("a worker");
        violates(worker.execute(&take, args![5, 6]).wait(), "in_stock");
        worker.execute(&take, args![5, 5]).wait().expect("to the last one");
    });
}

#[test]
fn sessions_meet_violations_at_the_access() {
    everywhere(|db, table| {
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        violates(session.run(|tx| tx.add(table, key![1], "stock", -11)), "in_stock");
        session.run(|tx| tx.add(table, key![1], "stock", -6)).expect("it is there");
        violates(session.run(|tx| tx.add(table, key![1], "stock", -6)), "in_stock");
        violates(session.run(|tx| tx.update(table, key![1], &[("low", 6.into())])), "ordered");
        violates(session.run(|tx| tx.add(table, key![1], "low", 6)), "ordered");
        session.run(|tx| tx.add(table, key![1], "stock", -4)).expect("the last ones");
        session.commit().expect("what was refused has left no trace");
        // A rival takes what the session counted on: a conflict, and the retry meets the error at the access.
        session.begin().expect("begun");
        session.run(|tx| tx.add(table, key![7], "stock", -8)).expect("it is there");
        db.run(|tx| tx.add(table, key![7], "stock", -8)).expect("a rival");
        let committed = session.commit();
        assert!(matches!(committed, Err(Error::Conflict)), "{committed:?}");
        session.begin().expect("begun");
        violates(session.run(|tx| tx.add(table, key![7], "stock", -8)), "in_stock");
        session.rollback().expect("rolled back");
    });
}

#[test]
fn eight_threads_never_violate_a_check_between_columns() {
    everywhere(|db, table| {
        let refusals = AtomicI64::new(0);
        thread::scope(|scope| {
            for thread in 0..8_i64 {
                let refusals = &refusals;
                scope.spawn(move || {
                    for round in 0..150_i64 {
                        let (id, amount) = (round % 3, (thread + round) % 5 - 2);
                        let column = if round % 2 == 0 { "low" } else { "high" };
                        let result = match round % 4 {
                            0 | 1 => db.run(|tx| tx.add(table, key![id], column, amount)),
                            2 => db.run(|tx| {
                                let value = tx.get(table, key![id])?.ok_or(Error::Closed)?.int(column)?;
                                tx.update(table, key![id], &[(column, (value + amount).into())])
                            }),
                            _ => db.run(|tx| tx.add(table, key![id], "stock", amount)),
                        };
                        match result {
                            Ok(()) => {}
                            Err(Error::CheckViolation { .. }) => {
                                refusals.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert!(refusals.into_inner() > 0, "some would have violated a check");
    });
}

#[test]
fn definitions_come_back_from_the_catalog_and_go_on_to_hold() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("opened");
        filled(&db);
        db.close().expect("closed");
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("recovered");
        let table = db.open_table(definition()).expect("the same definition");
        violates(db.run(|tx| tx.add(&table, key![1], "stock", -11)), "in_stock");
        db.checkpoint().expect("a checkpoint");
        db.close().expect("closed");
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("recovered");
        let table = db.table("item").expect("it is there");
        assert_eq!(table.definition().checks().len(), 4);
        assert_eq!(table.definition().checks()[0].condition(), "stock >= 0");
        violates(db.run(|tx| tx.update(&table, key![1], &[("low", 6.into())])), "ordered");
        let other = db.open_table(definition().check("more", "id > 0"));
        assert!(
            matches!(&other, Err(Error::TableDiffers { difference, .. }) if difference.contains("check 5")),
            "{other:?}"
        );
    }
}

#[test]
fn checks_are_added_dropped_and_renamed_with_their_columns() {
    everywhere(|db, table| {
        let change = |change: TableChange| db.change_table("item", change);
        violates(change(TableChange::new().add_check("few", "stock < 10")), "few");
        db.run(|tx| tx.update(table, key![0], &[("stock", 11.into())])).expect("it was not added");
        change(TableChange::new().add_check("few", "stock < 12")).expect("all rows pass");
        violates(db.run(|tx| tx.add(table, key![0], "stock", 1)), "few");
        change(TableChange::new().rename_column("stock", "left over")).expect("renamed");
        violates(db.run(|tx| tx.add(table, key![0], "left over", 1)), "few");
        change(TableChange::new().rename_constraint("few", "many")).expect("renamed");
        violates(db.run(|tx| tx.add(table, key![0], "left over", 1)), "many");
        change(TableChange::new().drop_constraint("many")).expect("dropped");
        db.run(|tx| tx.add(table, key![0], "left over", 1)).expect("nothing is against it");
        let unknown = change(TableChange::new().drop_constraint("many")).expect_err("it is gone");
        assert!(matches!(unknown, Error::UnknownConstraint { .. }) && unknown.sqlstate() == "42704");
        change(TableChange::new().rename_column("left over", "stock")).expect("renamed");
        // A column that goes takes its checks along; rebuilt rows are checked.
        change(TableChange::new().drop_column("high")).expect("dropped");
        let table = db.table("item").expect("it is there");
        assert!(table.definition().checks().iter().all(|check| check.name() != "ordered"));
        violates(db.run(|tx| tx.update(&table, key![0], &[("stock", (-1).into())])), "in_stock");
        change(TableChange::new().add_column("high", DataType::Int64, 9)).expect("added");
    });
}

#[test]
fn a_check_that_a_session_adds_is_tested_at_its_commit() {
    everywhere(|db, table| {
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.change_table("item", TableChange::new().add_check("few", "stock < 10")).expect("private");
        violates(session.commit(), "few");
        db.run(|tx| tx.update(table, key![0], &[("stock", 11.into())])).expect("it was not added");
        session.begin().expect("begun");
        session.change_table("item", TableChange::new().add_check("few", "stock < 12")).expect("private");
        let item = session.table("item").expect("its own");
        violates(session.run(|tx| tx.update(&item, key![1], &[("stock", 12.into())])), "few");
        session.commit().expect("all rows pass");
        violates(db.run(|tx| tx.add(table, key![0], "stock", 1)), "few");
        db.check().expect("every row passes its checks");
    });
}

#[test]
fn a_check_is_added_while_rows_change_and_holds_from_then_on() {
    everywhere(|db, table| {
        thread::scope(|scope| {
            for thread in 0..3_i64 {
                scope.spawn(move || {
                    for round in 0..2_000_i64 {
                        let value = (round + thread) % 4 + 1;
                        match db.run(|tx| tx.update(table, key![thread], &[("low", value.into())])) {
                            Ok(()) | Err(Error::CheckViolation { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            // It is refused as long as a row has a four; whenever it was added, no row has one afterwards.
            for _ in 0..20 {
                match db.change_table("item", TableChange::new().add_check("few", "low < 4")) {
                    Ok(_) => {
                        let low = db.run(|tx| {
                            let rows = tx.scan(table, Range::all())?;
                            rows.map(|row| row?.int("low")).collect::<Result<Vec<_>>>()
                        });
                        assert!(low.expect("read").iter().all(|low| *low < 4));
                        db.change_table("item", TableChange::new().drop_constraint("few")).expect("dropped");
                    }
                    Err(Error::CheckViolation { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
}

#[test]
fn definitions_that_make_no_sense_say_what_to_do() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("options");
    for (name, condition, words) in [
        ("", "stock >= 0", "no name"),
        ("in_stock", "stock >= 0", "two checks"),
        ("x", "stock >=", "it ends where"),
        ("x", "missing = 1", "no column \"missing\""),
        ("x", "stock", "must be a condition"),
        ("x", "stock = 'one'", "do not compare"),
    ] {
        let error = refused(db.create_table(definition().check(name, condition)), &[words]);
        assert!(matches!(error, Error::InvalidDefinition { .. }) && error.sqlstate() != "XX000", "{error}");
    }
}

#[test]
fn indexed_columns_are_checked_too() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let definition = TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("n", DataType::Int64)
            .primary_key(["id"])
            .unique_index("by_n", ["n"])
            .check("positive", "n > 0")
            .check("known", "id BETWEEN 1 AND 9");
        let table = db.create_table(definition).expect("created");
        db.run(|tx| tx.insert(&table, row![1, 1])).expect("inserted");
        violates(db.run(|tx| tx.insert(&table, row![10, 2])), "known");
        violates(db.run(|tx| tx.add(&table, key![1], "n", -1)), "positive");
        violates(db.run(|tx| tx.update(&table, key![1], &[("n", 0.into())])), "positive");
        db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("it holds");
        db.check().expect("rows and indexes agree");
    }
}
