//! Secondary indexes: what they hold, in which order, and that they follow every change of their rows.

use crate::support::tables::{account_definition, dump, first_column, in_memory, open, refused, rows_of};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, PrimaryIndex, Range, Result, Table, TableDefinition, Tx, Value, ValueRef, key, row,
};

fn accounts() -> (Database, Table) {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    (db, table)
}

fn by_branch(tx: &Tx<'_, '_>, table: &Table, range: Range) -> Result<Vec<i64>> {
    first_column(tx.scan_index(table, "account_by_branch", range))
}

fn by_name(tx: &Tx<'_, '_>, table: &Table, name: &str) -> Result<Vec<i64>> {
    first_column(tx.scan_index(table, "account_by_name", Range::prefix(key![name])))
}

#[test]
fn rows_are_read_in_the_order_of_the_indexed_values() {
    let (db, table) = accounts();
    db.run(|tx| {
        for id in 0..200_i64 {
            let branch = if id % 10 == 0 { ValueRef::Null } else { ValueRef::from(id * 7 % 13 - 6) };
            tx.insert(&table, row![id, &*format!("{:03}", 999 - id), branch, id, 0])?;
        }
        Ok(())
    })
    .unwrap();
    let branch_of = |id: i64| if id % 10 == 0 { None } else { Some(id * 7 % 13 - 6) };
    let mut expected: Vec<(Option<i64>, i64)> = (0..200).map(|id| (branch_of(id), id)).collect();
    expected.sort_unstable(); // NULLs first, as None is.
    let ids = |keep: &dyn Fn(Option<i64>) -> bool| -> Vec<i64> {
        expected.iter().filter(|(branch, _)| keep(*branch)).map(|(_, id)| *id).collect()
    };
    let scan = |range: Range| db.run(|tx| by_branch(tx, &table, range.clone())).unwrap();
    assert_eq!(scan(Range::all()), ids(&|_| true));
    let backward: Vec<i64> = ids(&|_| true).into_iter().rev().collect();
    assert_eq!(scan(Range::all().reverse()), backward);
    assert_eq!(scan(Range::all().reverse().limit(5)), backward[..5]);
    assert_eq!(scan(Range::prefix(key![3])), ids(&|branch| branch == Some(3)));
    assert_eq!(scan(Range::prefix(key![None::<i64>])), ids(&|branch| branch.is_none()));
    assert_eq!(
        scan(Range::from(key![-2]).to(key![4])),
        ids(&|branch| branch.is_some_and(|b| (-2..4).contains(&b)))
    );
    let inclusive = ids(&|branch| branch.is_some_and(|b| (-2..=4).contains(&b)));
    assert_eq!(scan(Range::from(key![-2]).to_inclusive(key![4])), inclusive);
    assert_eq!(scan(Range::from(key![100])), [0; 0]);
    assert_eq!(scan(Range::prefix(key![3]).to(key![9])), ids(&|branch| branch == Some(3)));
    let names = db.run(|tx| first_column(tx.scan_index(&table, "account_by_name", Range::all()))).unwrap();
    assert_eq!(names, (0..200).rev().collect::<Vec<_>>());
    let texts = db.run(|tx| {
        let range = Range::from(key!["850"]).to(key!["853"]);
        first_column(tx.scan_index(&table, "account_by_name", range))
    });
    assert_eq!(texts.unwrap(), [149, 148, 147]);
    db.check().unwrap();
}

#[test]
fn an_update_moves_the_entry() {
    let (db, table) = accounts();
    db.run(|tx| {
        tx.insert(&table, row![1, "ada", 7, 0, 0])?;
        tx.insert(&table, row![2, "bea", 7, 0, 0])
    })
    .unwrap();
    db.run(|tx| tx.update(&table, key![1], &[("branch", 8.into()), ("name", "eve".into())])).unwrap();
    db.run(|tx| {
        assert_eq!(by_branch(tx, &table, Range::prefix(key![7]))?, [2]);
        assert_eq!(by_branch(tx, &table, Range::prefix(key![8]))?, [1]);
        assert_eq!((by_name(tx, &table, "ada")?, by_name(tx, &table, "eve")?), (vec![], vec![1]));
        Ok(())
    })
    .unwrap();
    // To and from NULL, to what it is, several times in one transaction, and seen by the transaction itself.
    db.run(|tx| {
        tx.update(&table, key![1], &[("branch", ValueRef::Null)])?;
        assert_eq!(by_branch(tx, &table, Range::all())?, [1, 2]);
        tx.update(&table, key![1], &[("branch", 7.into())])?;
        tx.update(&table, key![1], &[("branch", 7.into())])?;
        tx.update(&table, key![1], &[("branch", 5.into()), ("branch", 9.into())])?;
        assert_eq!(by_branch(tx, &table, Range::all())?, [2, 1]);
        tx.update(&table, key![2], &[("balance", 5.into())])
    })
    .unwrap();
    assert_eq!(dump(&db, &table)[0][2], Value::from(9));
    db.check().unwrap();
    // A freed name is free for others; and the old entry, gone and collected, comes again.
    db.run(|tx| tx.insert(&table, row![3, "ada", 7, 0, 0])).unwrap();
    db.run(|tx| tx.update(&table, key![3], &[("name", "ida".into())])).unwrap();
    db.run(|tx| tx.update(&table, key![1], &[("name", "ada".into())])).unwrap();
    assert_eq!(db.run(|tx| by_name(tx, &table, "ada")).unwrap(), [1]);
    db.check().unwrap();
}

#[test]
fn rows_may_exchange_their_unique_values() {
    let (db, table) = accounts();
    db.run(|tx| {
        tx.insert(&table, row![1, "ada", 7, 0, 0])?;
        tx.insert(&table, row![2, "bea", 7, 0, 0])
    })
    .unwrap();
    db.run(|tx| {
        refused(tx.update(&table, key![1], &[("name", "bea".into())]), &["account_by_name", "(bea)"]);
        tx.update(&table, key![1], &[("name", "between".into())])?;
        tx.update(&table, key![2], &[("name", "ada".into())])?;
        tx.update(&table, key![1], &[("name", "bea".into())])
    })
    .unwrap();
    db.run(|tx| {
        assert_eq!((by_name(tx, &table, "ada")?, by_name(tx, &table, "bea")?), (vec![2], vec![1]));
        Ok(())
    })
    .unwrap();
    db.run(|tx| {
        tx.delete(&table, key![1])?;
        tx.insert(&table, row![3, "bea", 7, 0, 0])?;
        tx.delete(&table, key![2])?;
        tx.insert(&table, row![1, "ada", 7, 0, 0])
    })
    .unwrap();
    let ids = db.run(|tx| Ok((by_name(tx, &table, "ada")?, by_name(tx, &table, "bea")?))).unwrap();
    assert_eq!(ids, (vec![1], vec![3]));
    db.check().unwrap();
}

#[test]
fn nulls_are_distinct_in_a_unique_index() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let definition = TableDefinition::new("seat")
        .column("id", DataType::Int64)
        .column("row", DataType::Int32)
        .column("letter", DataType::Text)
        .primary_key(["id"])
        .unique_index("place", ["row", "letter"]);
    let table = db.create_table(definition).unwrap();
    let null = None::<i64>;
    db.run(|tx| {
        tx.insert(&table, row![1, null, null])?;
        tx.insert(&table, row![2, null, null])?;
        tx.insert(&table, row![3, 1, null])?;
        tx.insert(&table, row![4, 1, null])?;
        tx.insert(&table, row![5, null, "a"])?;
        tx.insert(&table, row![6, null, "a"])?;
        tx.insert(&table, row![7, 1, "a"])
    })
    .unwrap();
    refused(db.run(|tx| tx.insert(&table, row![8, 1, "a"])), &["seat (index place)", "(1, a)"]);
    refused(db.run(|tx| tx.update(&table, key![5], &[("row", 1.into())])), &["(1, a)"]);
    let place =
        |range: Range| db.run(|tx| first_column(tx.scan_index(&table, "place", range.clone()))).unwrap();
    assert_eq!(place(Range::all()), [1, 2, 5, 6, 3, 4, 7]);
    assert_eq!(place(Range::prefix(key![1])), [3, 4, 7]);
    assert_eq!(place(Range::prefix(key![1, null])), [3, 4]);
    assert_eq!(place(Range::prefix(key![null, "a"])), [5, 6]);
    db.run(|tx| {
        tx.update(&table, key![7], &[("letter", ValueRef::Null)])?;
        tx.update(&table, key![5], &[("row", 1.into())])
    })
    .unwrap();
    assert_eq!(place(Range::prefix(key![1])), [3, 4, 7, 5]);
    db.check().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    db.check().unwrap();
    let table = db.table("seat").unwrap();
    refused(db.run(|tx| tx.insert(&table, row![8, 1, "a"])), &["(1, a)"]);
    db.run(|tx| tx.insert(&table, row![8, 1, null])).unwrap();
}

#[test]
fn operations_on_indexed_columns_move_entries() {
    let (db, table) = accounts();
    let unique = TableDefinition::new("rank")
        .column("id", DataType::Int64)
        .column("place", DataType::Int64)
        .primary_key(["id"])
        .unique_index("rank_by_place", ["place"]);
    let ranks = db.create_table(unique).unwrap();
    let null = None::<i64>;
    db.run(|tx| {
        tx.insert(&table, row![1, "ada", 7, 0, 0])?;
        tx.insert(&table, row![2, "bea", null, 0, 0])?;
        tx.insert(&ranks, row![1, 1])?;
        tx.insert(&ranks, row![2, 2])
    })
    .unwrap();
    db.run(|tx| {
        tx.add(&table, key![1], "branch", 3)?;
        tx.add(&table, key![1], "branch", -1)?;
        assert_eq!(by_branch(tx, &table, Range::prefix(key![9]))?, [1]);
        tx.add(&table, key![2], "branch", 3)?;
        assert_eq!(by_branch(tx, &table, Range::prefix(key![null]))?, [2]);
        tx.max(&table, key![2], "branch", 20)?;
        tx.max(&table, key![1], "branch", 5)?;
        tx.min(&table, key![1], "branch", 4)?;
        assert_eq!(by_branch(tx, &table, Range::all())?, [1, 2]);
        refused(tx.add(&ranks, key![1], "place", 1), &["rank_by_place", "(2)"]);
        refused(tx.add(&ranks, key![1], "place", i64::MAX), &["rank.place", "out of range"]);
        tx.add(&ranks, key![2], "place", 1)?;
        tx.add(&ranks, key![1], "place", 1)
    })
    .unwrap();
    let branches: Vec<Value> = dump(&db, &table).iter().map(|row| row[2].clone()).collect();
    assert_eq!(branches, [4, 20].map(Value::from));
    assert_eq!(dump(&db, &ranks), [row![1, 2].map(Value::from), row![2, 3].map(Value::from)]);
    db.check().unwrap();
}

#[test]
fn a_delete_takes_its_entries_along_and_a_failure_leaves_them() {
    let (db, table) = accounts();
    db.run(|tx| {
        (0..50).try_for_each(|id: i64| tx.insert(&table, row![id, &*format!("n{id}"), id % 5, 0, 0]))
    })
    .unwrap();
    db.run(|tx| (0..50).step_by(2).try_for_each(|id: i64| tx.delete(&table, key![id]).map(drop))).unwrap();
    assert_eq!(db.run(|tx| by_branch(tx, &table, Range::prefix(key![3]))).unwrap(), [3, 13, 23, 33, 43]);
    db.check().unwrap();
    let failed = db.run(|tx| {
        tx.delete(&table, key![3])?;
        tx.update(&table, key![13], &[("branch", 4.into())])?;
        tx.insert(&table, row![100, "n3", 3, 0, 0])?;
        assert_eq!(by_branch(tx, &table, Range::prefix(key![3]))?, [23, 33, 43, 100]);
        tx.insert(&table, row![101, "n5", 3, 0, 0])
    });
    refused(failed, &["account_by_name", "(n5)"]);
    assert_eq!(db.run(|tx| by_branch(tx, &table, Range::prefix(key![3]))).unwrap(), [3, 13, 23, 33, 43]);
    let report = db.check().unwrap();
    assert_eq!(report.index_entries, 50);
    db.run(|tx| (0..50).try_for_each(|id: i64| tx.delete(&table, key![id]).map(drop))).unwrap();
    assert_eq!(db.check().unwrap().index_entries, 0);
    db.run(|tx| tx.insert(&table, row![1, "n3", 3, 0, 0])).unwrap();
    assert_eq!(db.run(|tx| by_branch(tx, &table, Range::all())).unwrap(), [1]);
}

#[test]
fn an_insert_that_fails_on_its_second_index_takes_back_its_first_entry() {
    let db = in_memory();
    let definition = TableDefinition::new("user")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("mail", DataType::Text)
        .primary_key(["id"])
        .unique_index("by_name", ["name"])
        .unique_index("by_mail", ["mail"]);
    let table = db.create_table(definition).unwrap();
    db.run(|tx| {
        tx.insert(&table, row![1, "ada", "ada@a"])?;
        refused(tx.insert(&table, row![2, "bea", "ada@a"]), &["user (index by_mail)"]);
        refused(
            tx.update(&table, key![1], &[("name", "eve".into()), ("mail", ValueRef::Int(1))]),
            &["user.mail"],
        );
        tx.insert(&table, row![3, "bea", "bea@a"])?;
        let both = [("name", ValueRef::from("new")), ("mail", "ada@a".into())];
        refused(tx.update(&table, key![3], &both), &["by_mail"]);
        assert_eq!(first_column(tx.scan_index(&table, "by_name", Range::prefix(key!["bea"])))?, [3]);
        assert_eq!(first_column(tx.scan_index(&table, "by_name", Range::prefix(key!["new"])))?, [0; 0]);
        Ok(())
    })
    .unwrap();
    db.check().unwrap();
    assert_eq!(dump(&db, &table).len(), 2);
}

#[test]
fn an_index_may_hold_key_columns_and_any_scalar_type() {
    for kind in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let definition = TableDefinition::new("line")
            .column("order", DataType::Int64)
            .column("line", DataType::Int64)
            .column("item", DataType::Text)
            .column("weight", DataType::Float64)
            .column("hash", DataType::Bytes)
            .primary_key(["order", "line"])
            .primary_index(kind)
            .index("by_line", ["line", "order"])
            .index("by_item", ["item", "weight"])
            .unique_index("by_hash", ["hash"]);
        let table = db.create_table(definition).unwrap();
        db.run(|tx| {
            for (order, line, item, weight, hash) in [
                (1, 1, "nut", 0.5, &b"\0"[..]),
                (1, 2, "bolt", -0.0, b"\0\0"),
                (2, 1, "nut", f64::NAN, b""),
                (2, 2, "nut", f64::NEG_INFINITY, b"\xff"),
                (3, 1, "", 1.0, b"\0\xff"),
            ] {
                tx.insert(&table, row![order, line, item, weight, hash])?;
            }
            Ok(())
        })
        .unwrap();
        let look = |db: &Database| {
            let table = db.table("line").unwrap();
            db.run(|tx| {
                let keys = |index: &str, range: Range| -> Result<Vec<(Value, Value)>> {
                    let rows = rows_of(tx.scan_index(&table, index, range))?;
                    Ok(rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect())
                };
                let of = |pairs: &[(i64, i64)]| -> Vec<(Value, Value)> {
                    pairs.iter().map(|&(order, line)| (order.into(), line.into())).collect()
                };
                assert_eq!(keys("by_line", Range::all())?, of(&[(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)]));
                assert_eq!(keys("by_line", Range::prefix(key![2, 2]))?, of(&[(2, 2)]));
                assert_eq!(keys("by_item", Range::prefix(key!["nut"]))?, of(&[(2, 2), (1, 1), (2, 1)]));
                assert_eq!(keys("by_item", Range::prefix(key!["bolt", 0.0]))?, of(&[(1, 2)]));
                assert_eq!(keys("by_hash", Range::all())?, of(&[(2, 1), (1, 1), (1, 2), (3, 1), (2, 2)]));
                Ok(())
            })
            .unwrap();
            db.check().unwrap();
        };
        look(&db);
        db.close().unwrap();
        look(&open(&disk));
    }
}
