//! Names of tables, columns and indexes that there are not, or that are of another database.

use heddledb::{DataType, Error, Range, TableDefinition, key};

use super::{accounts, refused_without_a_trace};
use crate::assert_kind;
use crate::support::tables::{
    account_definition, counter_definition, in_memory, order_definition, refused, rows_of,
};

#[test]
fn an_unknown_table_is_reported_with_the_tables_there_are() {
    let db = in_memory();
    assert_kind!(refused(db.table("acount"), &["acount", "none yet"]), Error::UnknownTable { .. });
    db.create_table(account_definition()).unwrap();
    db.create_table(order_definition()).unwrap();
    refused(db.table("acount"), &["\"acount\"", "account, orders"]);
}

#[test]
fn an_unknown_column_is_reported_with_the_columns_there_are() {
    let (db, table) = accounts();
    let known = ["account", "balanse", "id, name, branch, balance, visits"];
    let error = refused_without_a_trace(&db, &table, &known, |tx| {
        tx.update(&table, key![1], &[("balanse", 1.into())])
    });
    assert_kind!(error, Error::UnknownColumn { .. });
    refused_without_a_trace(&db, &table, &known, |tx| tx.add(&table, key![1], "balanse", 1));
    refused_without_a_trace(&db, &table, &known, |tx| tx.max(&table, key![1], "balanse", 1));
    refused_without_a_trace(&db, &table, &known, |tx| tx.ordered_put(&table, key![1], "balanse", &[], &[]));
    refused_without_a_trace(&db, &table, &known, |tx| tx.top_k_insert(&table, key![1], "balanse", &[], &[]));
    refused_without_a_trace(&db, &table, &known, |tx| {
        tx.insert_columns(&table, &[("id", 5.into()), ("balanse", 1.into())])
    });
    refused_without_a_trace(&db, &table, &known, |tx| {
        tx.get(&table, key![1])?.unwrap().int("balanse").map(drop)
    });
    refused(table.column("balanse"), &known);
}

#[test]
fn a_column_of_another_table_or_database_is_unknown() {
    let (db, table) = accounts();
    let counters = db.create_table(counter_definition()).unwrap();
    let n = counters.column("n").unwrap();
    let words = ["account", "another table", "id, name"];
    let error = refused_without_a_trace(&db, &table, &words, |tx| tx.add(&table, key![1], n, 1));
    assert_kind!(error, Error::UnknownColumn { .. });
    // Of the table of the same number in another database, which has more columns than that.
    let other = in_memory();
    let wide = (0..20).fold(TableDefinition::new("wide"), |wide, number| {
        wide.column(format!("c{number}"), DataType::Int64)
    });
    let wide = other.create_table(wide.primary_key(["c0"])).unwrap();
    for name in ["c1", "c19"] {
        let column = wide.column(name).unwrap();
        refused_without_a_trace(&db, &table, &words, |tx| tx.add(&table, key![1], column, 1));
        refused_without_a_trace(&db, &table, &words, |tx| {
            tx.get(&table, key![1])?.unwrap().get(column).map(drop)
        });
    }
}

#[test]
fn an_unknown_index_is_reported_with_the_indexes_there_are() {
    let (db, table) = accounts();
    let words = ["by_nmae", "account_by_name, account_by_branch"];
    let error = refused(db.run(|tx| rows_of(tx.scan_index(&table, "by_nmae", Range::all()))), &words);
    assert_kind!(error, Error::UnknownIndex { .. });
}
