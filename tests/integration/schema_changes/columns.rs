//! Columns that are added, dropped, renamed, converted and numbered, with the rules that rows must keep.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::{
    DataType, Database, Error, ForeignKey, TableChange, TableDefinition, Value, ValueRef, key, row,
};

use super::{by_index, filled, rows};
use crate::support::tables::everywhere;

#[test]
fn columns_come_change_and_go() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let change = TableChange::new()
                .add_column("note", DataType::Text, "none")
                .drop_column("name")
                .rename_column("n", "amount")
                .set_default("amount", Value::Null)
                .convert("amount", DataType::Text, |value| Ok(Value::Text(format!("{value} euros"))))
                .rename("b");
            db.change_table("a", change).expect("changed");
            assert_eq!(table.name(), "b", "handles follow");
            db.run(|tx| tx.insert_columns(&table, &[("id", ValueRef::Int(50))]))
                .expect_err("amount has no default of its type");
        },
        |db| {
            assert!(matches!(db.table("a"), Err(Error::UnknownTable { .. })));
            let table = db.table("b").expect("renamed");
            let first = [Value::Int(0), Value::Text("0 euros".into()), Value::Text("none".into())];
            assert_eq!(rows(db, &table)[0], first);
            assert!(table.definition().indexes().is_empty(), "the index went with its column");
        },
    );
}

#[test]
fn a_column_takes_the_place_of_another_with_its_index_and_not_null() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let change = || TableChange::new().replace_column("name", "other");
            let added = TableChange::new().add_column("other", DataType::Int64, 7).not_null("name");
            db.change_table("a", added).expect("added");
            db.run(|tx| tx.update(&table, key![4], &[("other", ValueRef::Null)])).expect("nullable");
            let refused = db.change_table("a", change());
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            db.run(|tx| tx.update(&table, key![4], &[("other", ValueRef::Int(4))])).expect("a number");
            db.change_table("a", change()).expect("replaced");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            let position = table.definition().columns().iter().position(|column| column.name == "name");
            let values: Vec<Value> =
                rows(db, &table).iter().map(|row| row[position.expect("a column")].clone()).collect();
            assert_eq!((&values[0], &values[4]), (&Value::Int(7), &Value::Int(4)));
            assert!(table.definition().columns().iter().all(|column| column.name != "other"));
            assert_eq!(table.definition().indexes().len(), 1, "the column keeps its index");
        },
    );
}

#[test]
fn foreign_keys_are_checked_where_a_column_takes_the_place_of_theirs() {
    let db = Database::in_memory().expect("a database");
    let [parents, children] = ["parent", "child"].map(|name| {
        let columns =
            TableDefinition::new(name).column("id", DataType::Int64).column("other", DataType::Int64);
        let columns = match name {
            "child" => {
                columns.column("up", DataType::Int64).foreign_key(ForeignKey::new("up_key", ["up"], "parent"))
            }
            _ => columns,
        };
        db.create_table(columns.primary_key(["id"])).expect("a table")
    });
    db.run(|tx| tx.insert(&parents, row![1, 2]).and_then(|()| tx.insert(&children, row![1, 3, 1])))
        .expect("rows");
    let refused = db.change_table("parent", TableChange::new().replace_column("id", "other"));
    assert!(
        matches!(refused, Err(Error::NoReferencedRow { .. } | Error::StillReferenced { .. })),
        "{refused:?}"
    );
    let refused = db.change_table("child", TableChange::new().replace_column("up", "other"));
    assert!(
        matches!(refused, Err(Error::NoReferencedRow { .. } | Error::StillReferenced { .. })),
        "{refused:?}"
    );
    let refused = db.change_table("child", TableChange::new().replace_column("up", "up"));
    assert!(matches!(refused, Err(Error::InvalidDefinition { .. })), "{refused:?}");
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    let changed = session.change_table("parent", TableChange::new().replace_column("id", "other"));
    let refused = changed.and_then(|_| session.commit());
    assert!(
        matches!(refused, Err(Error::NoReferencedRow { .. } | Error::StillReferenced { .. })),
        "{refused:?}"
    );
}

#[test]
fn not_null_and_keys_are_checked_against_the_rows_that_there_are() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            db.run(|tx| tx.update(&table, key![4], &[("name", ValueRef::Null)])).expect("nullable");
            let refused = db.change_table("a", TableChange::new().not_null("name"));
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            let refused = db.change_table("a", TableChange::new().primary_key(["name"]));
            assert!(
                matches!(refused, Err(Error::NullValue { .. } | Error::DuplicateKey { .. })),
                "{refused:?}"
            );
            db.run(|tx| tx.update(&table, key![4], &[("name", ValueRef::Text("name 2"))]))
                .expect("no NULL is left");
            db.change_table("a", TableChange::new().not_null("name").set_default("name", "nameless"))
                .expect("changed");
            db.change_table("a", TableChange::new().primary_key(["n", "id"])).expect("unique");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            assert_eq!(table.definition().key(), [2, 0]);
            let refused = db.run(|tx| tx.insert(&table, row![200, ValueRef::Null, 1]));
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            assert_eq!(by_index(db, &table, "by_name", "name 2"), Ok(vec![4, 5]));
            let found = db.run(|tx| tx.get(&table, key![30, 3])?.map(|row| row.int("id")).transpose());
            assert_eq!(found, Ok(Some(3)));
        },
    );
}

/// A procedure that adds one to a row.
#[test]
fn rows_get_numbers_for_a_key() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let next = AtomicI64::new(100);
            let number = move || next.fetch_add(1, Ordering::Relaxed);
            let change =
                TableChange::new().numbered_key("number", number).add_column("x", DataType::Int64, 7);
            db.change_table("a", change).expect("changed");
            db.run(|tx| tx.insert(&table, row![1, 5, "name 2", 50, 8])).expect("5 is there twice");
            let refused = db.run(|tx| tx.insert(&table, row![1, 6, "name 3", 60, 8]));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            assert_eq!(table.definition().key(), [0]);
            assert_eq!(by_index(db, &table, "by_name", "name 2"), Ok(vec![5, 4, 5]));
            let rows = rows(db, &table);
            let numbers: BTreeSet<i64> = rows.iter().filter_map(|row| i64::try_from(&row[0]).ok()).collect();
            assert_eq!(
                numbers.into_iter().collect::<Vec<_>>(),
                [&[1][..], &(100..110).collect::<Vec<_>>()].concat()
            );
            assert_eq!(
                rows[0][1..],
                [Value::Int(5), Value::Text("name 2".into()), Value::Int(50), Value::Int(8)]
            );
            assert_eq!(rows[1][4], Value::Int(7));
        },
    );
}
