//! Values that do not fit: overflow, sizes, and numbers of values.

use heddledb::{
    DataType, Database, Decimal, Error, Range, Table, TableDefinition, TupleType, ValueRef, key, row,
};

use super::{LIMIT, accounts};
use crate::assert_kind;
use crate::support::tables::{dump, in_memory, order_definition, refused, rows_of};

fn numbers() -> (Database, Table) {
    let db = in_memory();
    let table = db
        .create_table(
            TableDefinition::new("number")
                .column("id", DataType::Int64)
                .column("small", DataType::Int32)
                .column("large", DataType::Int64)
                .column("exact", DataType::Decimal { precision: 5, scale: 2 })
                .column("widest", DataType::Decimal { precision: 38, scale: 0 })
                .column("float", DataType::Float64)
                .column("indexed", DataType::Int64)
                .primary_key(["id"])
                .index("number_by_indexed", ["indexed"]),
        )
        .unwrap();
    let widest: Decimal = "99999999999999999999999999999999999999".parse().unwrap();
    let exact: Decimal = "999.99".parse().unwrap();
    for (id, sign) in [(1, 1), (-1, -1)] {
        let flip = |decimal: Decimal| Decimal::new(decimal.unscaled() * sign, decimal.scale()).unwrap();
        let (small, large) = if id == 1 { (i32::MAX, i64::MAX) } else { (i32::MIN, i64::MIN) };
        let row = row![id, small, large, flip(exact), flip(widest), f64::MAX * sign as f64, large];
        db.run(|tx| tx.insert(&table, row)).unwrap();
    }
    (db, table)
}

#[test]
fn overflow_is_an_error_at_the_statement_or_at_commit_and_never_a_wrap() {
    let (db, table) = numbers();
    let before = dump(&db, &table);
    for column in ["small", "large", "exact", "widest", "float", "indexed"] {
        for id in [1, -1] {
            let name = format!("number.{column}");
            let operand = match column {
                "float" => ValueRef::Float(f64::MAX * f64::from(id)),
                "exact" => ValueRef::Decimal(Decimal::new(i128::from(id), 2).unwrap()),
                _ => ValueRef::Int(i64::from(id)),
            };
            // Told at the statement, at a later read, or at commit.
            let error = refused(
                db.run(|tx| {
                    tx.insert(&table, row![50 + id, 1, 1, 1, 1, 1, 1])?;
                    tx.add(&table, key![id], column, operand)
                }),
                &[&name, "out of range", "use a wider type or a smaller value"],
            );
            assert_kind!(error, Error::Overflow { .. });
            assert_eq!(dump(&db, &table), before, "{column}");
            let read = db.run(|tx| {
                tx.add(&table, key![id], column, operand)?;
                tx.get(&table, key![id]).map(drop)
            });
            assert_kind!(refused(read, &[&name]), Error::Overflow { .. });
            // An error that the body ignores is an error at commit.
            let swallowed = db.run(|tx| {
                let _ = tx.add(&table, key![id], column, operand);
                let _ = tx.get(&table, key![id]);
                tx.insert(&table, row![60 + id, 1, 1, 1, 1, 1, 1])
            });
            match column {
                // Told at the statement: the body has chosen to go on without it.
                "indexed" => {
                    swallowed.unwrap();
                    db.run(|tx| tx.delete(&table, key![60 + id])).unwrap();
                }
                _ => assert_kind!(refused(swallowed, &[&name]), Error::Overflow { .. }),
            }
            assert_eq!(dump(&db, &table), before, "{column}");
        }
    }
    db.check().unwrap();
}

#[test]
fn a_sum_that_comes_back_into_its_bounds_is_still_an_overflow() {
    let (db, table) = numbers();
    let error = refused(
        db.run(|tx| {
            tx.add(&table, key![1], "large", 1)?;
            tx.add(&table, key![1], "large", -1)
        }),
        &["number.large"],
    );
    assert_kind!(error, Error::Overflow { .. });
    // A summand beyond the column's type may lead to a sum within it.
    db.run(|tx| tx.add(&table, key![1], "small", i64::from(i32::MIN) * 2 + 1)).unwrap();
}

#[test]
fn values_beyond_their_columns_are_refused_at_the_statement() {
    let (db, table) = numbers();
    let wide = 1_i64 << 31;
    for (column, value) in [
        ("small", ValueRef::Int(wide)),
        ("small", ValueRef::Int(-wide - 1)),
        ("exact", ValueRef::Int(1_000)),
        ("exact", ValueRef::Decimal("1000.00".parse().unwrap())),
    ] {
        let name = format!("number.{column}");
        let error = refused(
            db.run(|tx| {
                refused(tx.update(&table, key![1], &[(column, value)]), &[&name, "out of range"]);
                tx.max(&table, key![1], column, value)
            }),
            &[&name, "out of range"],
        );
        assert_kind!(error, Error::Overflow { .. });
    }
    let fine: Decimal = "1.005".parse().unwrap();
    let error = refused(
        db.run(|tx| tx.update(&table, key![1], &[("exact", fine.into())])),
        &["number.exact", "lose digits", "round it first"],
    );
    assert_kind!(error, Error::Inexact { .. });
    let error = refused(
        db.run(|tx| tx.update(&table, key![1], &[("float", (i64::MAX - 1).into())])),
        &["number.float", "lose digits"],
    );
    assert_kind!(error, Error::Inexact { .. });
}

fn documents() -> (Database, Table) {
    let db = in_memory();
    let words = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let definition = TableDefinition::new("document")
        .column("id", DataType::Text)
        .column("title", DataType::Text)
        .column("body", DataType::Bytes)
        .column("words", DataType::TopK { limit: 1_000, of: words })
        .primary_key(["id"])
        .index("document_by_title", ["title"]);
    let table = db.create_table(definition).unwrap();
    (db, table)
}

#[test]
fn a_row_over_the_size_limit_is_refused() {
    let (db, table) = documents();
    let too_large = |words: &[&str], result: heddledb::Result<()>| {
        let error = refused(result, words);
        assert_kind!(error, Error::RowTooLarge { .. });
    };
    let (half, whole, over) = (vec![1; LIMIT / 2], vec![1; LIMIT], vec![1; LIMIT + 1]);
    let null = None::<i64>;
    let words = ["document", "limit of 16777216", "split it"];
    too_large(&words, db.run(|tx| tx.insert(&table, row!["a", null, &over[..], null])));
    too_large(&words, db.run(|tx| tx.insert(&table, row!["a", null, &whole[..], null])));
    db.run(|tx| tx.insert(&table, row!["a", null, &half[..], null])).unwrap();
    too_large(&words, db.run(|tx| tx.update(&table, key!["a"], &[("body", (&over[..]).into())])));
    // Grown a column at a time: in one transaction, or over several.
    let entry = |tx: &heddledb::Tx<'_, '_>, order: i64, bytes: usize| {
        tx.top_k_insert(&table, key!["a"], "words", &row![order], &row![&*"w".repeat(bytes)])
    };
    too_large(&words, db.run(|tx| (0..9).try_for_each(|order| entry(tx, order, 1 << 20))));
    too_large(
        &words,
        db.run(|tx| {
            entry(tx, 1, LIMIT / 2 - 1_000)?;
            tx.update(&table, key!["a"], &[("title", (&*"t".repeat(2_000)).into())])
        }),
    );
    db.run(|tx| (0..7).try_for_each(|order| entry(tx, order, 1 << 20))).unwrap();
    too_large(&words, db.run(|tx| (7..9).try_for_each(|order| entry(tx, order, 1 << 20))));
    let length = db.run(|tx| Ok(tx.get(&table, key!["a"])?.unwrap().bytes("body")?.len())).unwrap();
    assert_eq!(length, half.len());
    db.check().unwrap();
}

#[test]
fn a_key_over_the_size_limit_is_refused() {
    let (db, table) = documents();
    let long = "k".repeat(5_000);
    let null = None::<i64>;
    let words = ["a key of document", "limit of 4096"];
    let error = refused(db.run(|tx| tx.insert(&table, row![&long, null, null, null])), &words);
    assert_kind!(error, Error::RowTooLarge { .. });
    refused(db.run(|tx| tx.get(&table, key![&long]).map(drop)), &words);
    refused(db.run(|tx| tx.insert(&table, row!["b", &long, null, null])), &["document_by_title", "4096"]);
    assert!(dump(&db, &table).is_empty());
    let text = db.run(|tx| tx.insert(&table, row!["a\0b", null, null, null]));
    assert_kind!(
        refused(text, &["document.id", "character zero", "store it as bytes"]),
        Error::InvalidValue { .. }
    );
}

#[test]
fn the_wrong_number_of_values_is_refused() {
    let (db, table) = accounts();
    let orders = db.create_table(order_definition()).unwrap();
    let words = ["orders", "(customer, number)", "1 values were given", "give one for each"];
    assert_kind!(refused(db.run(|tx| tx.get(&orders, key![1]).map(drop)), &words), Error::WrongKey { .. });
    refused(db.run(|tx| tx.get(&orders, key![1, 2, 3]).map(drop)), &["3 values"]);
    refused(db.run(|tx| tx.delete(&orders, key![]).map(drop)), &["0 values"]);
    refused(db.run(|tx| rows_of(tx.scan(&orders, Range::prefix(key![1, 2, 3])))), &["3 values"]);
    let scan = db.run(|tx| rows_of(tx.scan_index(&table, "account_by_branch", Range::prefix(key![1, 2]))));
    assert_kind!(refused(scan, &["index account_by_branch", "2 values"]), Error::WrongKey { .. });
    for row in [&row![2, "bea"][..], &row![2, "bea", 7, 1, 0, 5][..], &[]] {
        let words = ["account", "5 columns", &format!("{} values", row.len()), "give one for each"];
        let error = refused(db.run(|tx| tx.insert(&table, row)), &words);
        assert_kind!(error, Error::WrongRow { .. });
    }
    let tuple = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let tops = TableDefinition::new("tops")
        .column("id", DataType::Int64)
        .column("top", DataType::TopK { limit: 3, of: tuple });
    let tops = db.create_table(tops.primary_key(["id"])).unwrap();
    db.run(|tx| tx.insert(&tops, row![1, None::<i64>])).unwrap();
    let put = |order: &[ValueRef<'_>], payload: &[ValueRef<'_>]| {
        db.run(|tx| tx.top_k_insert(&tops, key![1], "top", order, payload))
    };
    assert_kind!(refused(put(&[], &row!["a"]), &["order", "1 columns"]), Error::WrongType { .. });
    refused(put(&row![1], &[]), &["payload", "1 columns"]);
    refused(put(&row!["x"], &row!["a"]), &["int64", "a text"]);
    put(&row![1], &row!["a"]).unwrap();
}
