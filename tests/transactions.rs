//! Transactions by closures: reading one's own writes, savepoints, ranges, operations, large transactions.

#[path = "support/tables.rs"]
mod tables;

use std::sync::Barrier;
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Date, Decimal, Durability, Error, Options, PrimaryIndex, ProcedureDefinition,
    Range, SerialOptions, Table, TableDefinition, Timestamp, TupleType, Value, ValueRef, args, fail, key,
    row,
};
use tables::{
    account_definition, counter_definition, dump, first_column, in_memory, on_disk, open, order_definition,
    refused, rows_of,
};

fn each_kind() -> impl Iterator<Item = (Database, Table)> {
    [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both].into_iter().map(|kind| {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        (db, table)
    })
}

#[test]
fn a_transaction_reads_its_own_writes() {
    for (db, table) in each_kind() {
        db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
        db.run(|tx| {
            let n = |id: i64| tx.get(&table, key![id])?.map(|row| row.int("n")).transpose();
            tx.insert(&table, row![2, 20])?;
            assert!(tx.exists(&table, key![2])?);
            assert_eq!(n(2)?, Some(20));
            let before = tx.get(&table, key![1])?.unwrap();
            tx.update(&table, key![1], &[("n", 11.into())])?;
            tx.add(&table, key![1], "n", 5)?;
            tx.add(&table, key![2], "n", 5)?;
            assert_eq!((n(1)?, n(2)?), (Some(16), Some(25)));
            assert_eq!(before.int("n")?, 10, "a row stays as it was read");
            let mut all = first_column(tx.scan(&table, Range::all()))?;
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
            assert!(tx.delete(&table, key![1])?);
            assert!(!tx.exists(&table, key![1])? && n(1)?.is_none());
            assert_eq!(first_column(tx.scan(&table, Range::all()))?, [2]);
            Ok(())
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![2, 25].map(Value::from)]);
        db.check().unwrap();
    }
}

#[test]
fn a_row_may_go_and_come_again_in_one_transaction() {
    for (db, table) in each_kind() {
        db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
        db.run(|tx| {
            for round in 0..5 {
                assert!(tx.delete(&table, key![1])?);
                refused(tx.add(&table, key![1], "n", 1), &["(1)"]);
                tx.insert(&table, row![1, round])?;
                refused(tx.insert(&table, row![1, 0]), &["(1)"]);
                tx.add(&table, key![1], "n", 100)?;
                assert_eq!(tx.get(&table, key![1])?.unwrap().int("n")?, round + 100);
            }
            tx.insert(&table, row![2, None::<i64>])?;
            tx.delete(&table, key![2]).map(drop)
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![1, 104].map(Value::from)]);
        // A NULL, and a text that needs room of its own, do not come back with the row.
        db.run(|tx| {
            tx.update(&table, key![1], &[("n", ValueRef::Null)])?;
            tx.delete(&table, key![1])?;
            tx.insert(&table, row![1, 7])
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![1, 7].map(Value::from)]);
        db.run(|tx| tx.delete(&table, key![1]).map(drop)).unwrap();
        assert!(dump(&db, &table).is_empty());
        db.run(|tx| tx.insert(&table, row![1, 8])).unwrap();
        assert_eq!(dump(&db, &table), [row![1, 8].map(Value::from)]);
        db.check().unwrap();
    }
}

#[test]
fn savepoints_take_back_writes_of_every_kind() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    let long = |letter: &str| letter.repeat(40);
    db.run(|tx| {
        tx.insert(&table, row![1, &long("a"), 7, 100, 1])?;
        tx.insert(&table, row![2, &long("b"), 7, 200, 2])
    })
    .unwrap();
    let before = dump(&db, &table);
    db.run(|tx| {
        let start = tx.savepoint();
        tx.insert(&table, row![3, &long("c"), 7, 300, 3])?;
        let inserted = tx.savepoint();
        tx.update(&table, key![1], &[("name", (&*long("x")).into()), ("branch", 8.into())])?;
        tx.add(&table, key![2], "balance", 1)?;
        tx.delete(&table, key![3])?;
        tx.insert(&table, row![4, &long("a"), 7, 400, 4])?;
        tx.add(&table, key![4], "branch", 5)?;
        let seven = |tx: &heddledb::Tx<'_, '_>| {
            first_column(tx.scan_index(&table, "account_by_branch", Range::prefix(key![7])))
        };
        assert_eq!(seven(tx)?, [2]);
        tx.rollback_to(&inserted);
        assert_eq!(seven(tx)?, [1, 2, 3]);
        assert!(tx.exists(&table, key![3])? && !tx.exists(&table, key![4])?);
        assert_eq!(tx.get(&table, key![1])?.unwrap().text("name")?, long("a"));
        assert_eq!(tx.get(&table, key![2])?.unwrap().int("balance")?, 200);
        refused(tx.insert(&table, row![4, &long("a"), 7, 400, 4]), &["account_by_name"]);
        // The same savepoint again, and then the one before it.
        tx.delete(&table, key![1])?;
        tx.rollback_to(&inserted);
        assert_eq!(seven(tx)?, [1, 2, 3]);
        tx.rollback_to(&start);
        assert_eq!(rows_of(tx.scan(&table, Range::all()))?, before);
        assert_eq!(seven(tx)?, [1, 2]);
        tx.add(&table, key![1], "balance", 11)
    })
    .unwrap();
    let after = dump(&db, &table);
    assert_eq!((after.len(), &after[0][3]), (2, &Value::from(111)));
    db.check().unwrap();
}

#[test]
fn a_savepoint_that_became_void_does_no_harm() {
    let db = in_memory();
    let table = db.create_table(order_definition().column("note", DataType::Text)).unwrap();
    let null = None::<i64>;
    let result = db.run(|tx| {
        let start = tx.savepoint();
        tx.insert(&table, row![1, 1, null, &*"short".repeat(2)])?;
        let void = tx.savepoint();
        tx.rollback_to(&start);
        tx.insert(&table, row![2, 2, 2, &*"much longer than what was there before".repeat(9)])?;
        tx.insert(&table, row![3, 3, 3, &*"more".repeat(9)])?;
        tx.rollback_to(&void);
        tx.insert(&table, row![4, 4, 4, "the last"])
    });
    // What "back to there" would mean no thread can tell any more: the transaction fails, and leaves no trace.
    assert!(matches!(result, Err(Error::UnknownSavepoint)), "{result:?}");
    assert!(dump(&db, &table).is_empty());
    db.check().unwrap();
}

#[test]
fn what_was_taken_back_takes_no_room() {
    let db = in_memory();
    let table = db.create_table(counter_definition().column("text", DataType::Text)).unwrap();
    let text = "t".repeat(8 << 20);
    db.run(|tx| {
        // Together beyond what one transaction may write.
        for round in 0..150 {
            let savepoint = tx.savepoint();
            tx.insert(&table, row![round, round, &*text])?;
            tx.rollback_to(&savepoint);
        }
        tx.insert(&table, row![1, 1, "kept"])
    })
    .unwrap();
    assert_eq!(dump(&db, &table), [row![1, 1, "kept"].map(Value::from)]);
}

#[test]
fn ranges_are_read_in_both_directions_with_bounds_and_limits() {
    for kind in [PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        // Even numbers from -1000, inserted out of order, so that there are many nodes.
        let ids: Vec<i64> = (-500..500).map(|number| number * 2).collect();
        db.run(|tx| {
            (0..1_000).try_for_each(|at| {
                let id = ids[at * 337 % 1_000];
                tx.insert(&table, row![id, id * 10])
            })
        })
        .unwrap();
        let scan = |range: Range| db.run(|tx| first_column(tx.scan(&table, range.clone()))).unwrap();
        let within = |from: i64, to: i64| ids.iter().copied().filter(move |id| (from..to).contains(id));
        let reversed = |ids: Vec<i64>| ids.into_iter().rev().collect::<Vec<_>>();
        assert_eq!(scan(Range::all()), ids);
        assert_eq!(scan(Range::all().reverse()), reversed(ids.clone()));
        for (from, to) in
            [(-1_000, 1_000), (-7, 8), (0, 0), (4, 2), (10, 300), (-3_000, -999), (998, 5_000), (1, 2)]
        {
            let expected: Vec<i64> = within(from, to).collect();
            let inclusive: Vec<i64> = within(from, to + 1).collect();
            assert_eq!(scan(Range::from(key![from]).to(key![to])), expected, "{from}..{to}");
            assert_eq!(scan(Range::from(key![from]).to(key![to]).reverse()), reversed(expected.clone()));
            assert_eq!(scan(Range::from(key![from]).to_inclusive(key![to])), inclusive, "{from}..={to}");
            assert_eq!(scan(Range::from(key![from]).to_inclusive(key![to]).reverse()), reversed(inclusive));
            assert_eq!(scan(Range::from(key![from])), within(from, i64::MAX).collect::<Vec<_>>());
            assert_eq!(scan(Range::all().to(key![to])), within(i64::MIN, to).collect::<Vec<_>>());
            for limit in [0, 1, 3, 5_000] {
                let some: Vec<i64> = expected.iter().copied().take(limit).collect();
                assert_eq!(scan(Range::from(key![from]).to(key![to]).limit(limit)), some);
                let last: Vec<i64> = expected.iter().rev().copied().take(limit).collect();
                assert_eq!(scan(Range::from(key![from]).to(key![to]).reverse().limit(limit)), last);
            }
        }
        assert_eq!(scan(Range::prefix(key![8])), [8]);
        assert_eq!(scan(Range::prefix(key![9])), [0; 0]);
        assert_eq!(scan(Range::from(key![i64::MAX])), [0; 0]);
        assert_eq!(scan(Range::from(key![i64::MIN]).to_inclusive(key![i64::MAX])), ids);
    }
}

#[test]
fn a_range_shows_the_transactions_own_writes() {
    for kind in [PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        db.run(|tx| (0..300).try_for_each(|id| tx.insert(&table, row![id * 3, 0]))).unwrap();
        db.run(|tx| {
            (0..300).try_for_each(|id| tx.insert(&table, row![id * 3 + 1, 1]))?;
            for id in 0..100 {
                assert!(tx.delete(&table, key![id * 9])?);
            }
            let expected: Vec<i64> =
                (0..900).filter(|id| id % 3 == 1 || id % 3 == 0 && id % 9 != 0).collect();
            assert_eq!(first_column(tx.scan(&table, Range::all()))?, expected);
            let backward: Vec<i64> = expected.iter().rev().copied().collect();
            assert_eq!(first_column(tx.scan(&table, Range::all().reverse()))?, backward);
            tx.update(&table, key![3], &[("n", 77.into())])?;
            let rows = rows_of(tx.scan(&table, Range::from(key![2]).limit(1)))?;
            assert_eq!(rows, [row![3, 77].map(Value::from)]);
            Ok(())
        })
        .unwrap();
        assert_eq!(dump(&db, &table).len(), 500);
        db.check().unwrap();
    }
}

#[test]
fn a_range_does_not_run_after_what_its_reader_inserts() {
    // Each insert goes before what is still to be read: a range that showed it would never end.
    for (kind, backward) in [
        (PrimaryIndex::Ordered, false),
        (PrimaryIndex::Both, true),
        (PrimaryIndex::Both, false),
        (PrimaryIndex::Hash, false),
    ] {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        db.run(|tx| (0..100).try_for_each(|id| tx.insert(&table, row![id, 0]))).unwrap();
        let step = if backward { -100 } else { 100 };
        let mut seen = 0;
        db.run(|tx| {
            seen = 0;
            tx.insert(&table, row![1_000_000, 0])?;
            let range = if backward { Range::all().reverse() } else { Range::all() };
            for row in tx.scan(&table, range)? {
                seen += 1;
                assert!(seen <= 101, "the range runs after its own inserts");
                let id = row?.int("id")?;
                tx.insert(&table, row![id + step, 1])?;
            }
            assert_eq!(first_column(tx.scan(&table, Range::all()))?.len(), 202, "a later range shows them");
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, 101);
        assert_eq!(dump(&db, &table).len(), 202);
    }
}

#[test]
fn a_range_of_an_index_shows_each_row_once_while_its_reader_moves_them() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| {
        (0..200).try_for_each(|id: i64| tx.insert(&table, row![id, &*format!("n{id}"), id % 10, 0, 0]))
    })
    .unwrap();
    db.run(|tx| {
        let mut seen = Vec::new();
        for row in tx.scan_index(&table, "account_by_branch", Range::all())? {
            let id = row?.int("id")?;
            seen.push(id);
            assert!(seen.len() <= 200, "a row is shown again where it was moved to");
            tx.add(&table, key![id], "branch", 1)?;
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
        Ok(())
    })
    .unwrap();
    let sum = dump(&db, &table).iter().map(|row| row[2].to_string().parse::<i64>().unwrap()).sum::<i64>();
    assert_eq!(sum, 200 * 45 / 10 + 200);
    db.check().unwrap();
}

/// The row that was read last is written without another look into the index: it must be that very row.
#[test]
fn rows_that_were_just_read_are_written_and_no_others() {
    for (db, table) in each_kind() {
        for key in 1..=6_i64 {
            db.run(|tx| tx.insert(&table, row![key, 10])).unwrap();
        }
        let read = db.run(|tx| {
            // Under the row that was read last, another one is written; then itself, gone, come again, and gone.
            tx.get(&table, key![1])?;
            tx.update(&table, key![2], &[("n", 20.into())])?;
            tx.get(&table, key![3])?;
            tx.add(&table, key![3], "n", 5)?;
            tx.get(&table, key![4])?;
            assert!(tx.delete(&table, key![4])?);
            assert!(!tx.delete(&table, key![4])?, "it is gone");
            tx.insert(&table, row![4, 40])?;
            tx.add(&table, key![4], "n", 1)?;
            tx.get(&table, key![5])?;
            tx.delete(&table, key![5])?;
            tx.get(&table, key![5]).map(|row| row.is_none())
        });
        assert!(read.unwrap());
        let rows = db.run(|tx| {
            let numbers =
                (1..=6_i64).map(|key| tx.get(&table, key![key])?.map(|row| row.int("n")).transpose());
            numbers.collect::<heddledb::Result<Vec<_>>>()
        });
        assert_eq!(rows.unwrap(), [Some(10), Some(20), Some(15), Some(41), None, Some(10)]);
    }
}

#[test]
fn a_table_with_only_a_hash_index_is_read_as_a_whole() {
    let db = in_memory();
    let table = db.create_table(counter_definition().primary_index(PrimaryIndex::Hash)).unwrap();
    db.run(|tx| (0..5_000).try_for_each(|id| tx.insert(&table, row![id, -id]))).unwrap();
    db.run(|tx| (0..5_000).step_by(2).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).unwrap();
    db.run(|tx| {
        tx.insert(&table, row![9_999, 0])?;
        let mut ids = first_column(tx.scan(&table, Range::all()))?;
        ids.sort_unstable();
        let expected: Vec<i64> = (1..5_000).step_by(2).chain([9_999]).collect();
        assert_eq!(ids, expected);
        assert_eq!(first_column(tx.scan(&table, Range::all().limit(7)))?.len(), 7);
        Ok(())
    })
    .unwrap();
    for id in [1, 4_999, 9_999] {
        assert!(db.run(|tx| tx.exists(&table, key![id])).unwrap());
    }
    db.check().unwrap();
}

#[test]
fn composite_keys_are_found_and_read_by_their_beginnings() {
    let db = in_memory();
    let definition = TableDefinition::new("visit")
        .column("note", DataType::Text)
        .column("day", DataType::Date)
        .column("city", DataType::Text)
        .column("number", DataType::Int32)
        .primary_key(["city", "day", "number"]);
    let table = db.create_table(definition).unwrap();
    let day = |days: i32| Date::from_days(days).unwrap();
    let cities = ["", "a", "ab", "b", "ba", "ä"];
    db.run(|tx| {
        for city in cities {
            for (days, number) in [(-1, 5), (0, -1), (0, 1), (7, 0)] {
                tx.insert(&table, row!["note", day(days), city, number])?;
            }
        }
        Ok(())
    })
    .unwrap();
    let scan = |range: Range| db.run(|tx| rows_of(tx.scan(&table, range.clone()))).unwrap();
    let all = scan(Range::all());
    let found: Vec<&str> =
        all.iter().map(|row| if let Value::Text(city) = &row[2] { city } else { "?" }).collect();
    let expected: Vec<&str> = cities.iter().flat_map(|city| [*city; 4]).collect();
    assert_eq!(found, expected);
    assert_eq!(scan(Range::prefix(key!["a"])), all[4..8]);
    assert_eq!(scan(Range::prefix(key![""])), all[..4]);
    assert_eq!(scan(Range::prefix(key!["ba", day(0)])), all[17..19]);
    assert_eq!(scan(Range::prefix(key!["ba", day(0), 1])), all[18..19]);
    assert_eq!(scan(Range::prefix(key!["ba"]).reverse().limit(2)), [all[19].clone(), all[18].clone()]);
    // A part of a key stands for the first (or last) key that begins with it.
    assert_eq!(scan(Range::from(key!["ab"]).to(key!["b"])), all[8..12]);
    assert_eq!(scan(Range::from(key!["ab"]).to_inclusive(key!["b"])), all[8..16]);
    assert_eq!(scan(Range::from(key!["ab", day(0)]).to_inclusive(key!["b", day(0)])), all[9..15]);
    assert_eq!(scan(Range::prefix(key!["a"]).to(key!["a", day(7)])), all[4..7]);
    assert_eq!(scan(Range::prefix(key!["a"]).to(key!["b"])), all[4..8], "the prefix bounds the end, too");
    db.run(|tx| {
        assert!(tx.get(&table, key!["ab", day(0), -1])?.is_some());
        assert!(tx.get(&table, key!["ab", day(0), 0])?.is_none());
        tx.delete(&table, key!["ab", day(0), -1]).map(drop)
    })
    .unwrap();
    assert_eq!(scan(Range::prefix(key!["ab"])).len(), 3);
    db.check().unwrap();
}

/// One column of each type that operations apply to.
fn operated() -> TableDefinition {
    let entry = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    TableDefinition::new("operated")
        .column("id", DataType::Int64)
        .column("small", DataType::Int32)
        .column("large", DataType::Int64)
        .column("float", DataType::Float64)
        .column("exact", DataType::Decimal { precision: 10, scale: 2 })
        .column("wide", DataType::Decimal { precision: 30, scale: 2 })
        .column("day", DataType::Date)
        .column("time", DataType::Timestamp)
        .column("last", DataType::OrderedTuple(entry.clone()))
        .column("top", DataType::TopK { limit: 3, of: entry })
        .primary_key(["id"])
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

#[test]
fn operations_apply_to_every_type_that_takes_them_and_to_null() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let (day, next_day) = (Date::from_days(3).unwrap(), Date::from_days(4).unwrap());
    let time = |microseconds| Timestamp::from_microseconds(microseconds).unwrap();
    let nulls = [ValueRef::Null; 9];
    db.run(|tx| {
        tx.insert(
            &table,
            row![1, 5, 5, 5.0, decimal("5"), decimal("5"), day, time(5), None::<i64>, None::<i64>],
        )?;
        let mut row = vec![ValueRef::Int(2)];
        row.extend(nulls);
        tx.insert(&table, row)
    })
    .unwrap();
    let columns = ["small", "large", "float", "exact", "wide", "day", "time"];
    let value = |id: i64, column: &str| {
        db.run(|tx| Ok(tx.get(&table, key![id])?.unwrap().get(column)?.to_value())).unwrap()
    };
    let operand = |column: &str, number: i64| match column {
        "float" => Value::from(number as f64),
        "exact" | "wide" => Value::from(decimal(&format!("{number}.00"))),
        "day" => Value::from(Date::from_days(number as i32).unwrap()),
        "time" => Value::from(time(number)),
        _ => Value::from(number),
    };
    for column in &columns[..5] {
        db.run(|tx| {
            tx.add(&table, key![1], *column, 2)?;
            tx.add(&table, key![1], *column, -3)?;
            tx.add(&table, key![2], *column, 2)
        })
        .unwrap();
        assert_eq!(value(1, column), operand(column, 4), "{column}");
        assert_eq!(value(2, column), Value::Null, "NULL + 2 is NULL: {column}");
    }
    db.run(|tx| tx.add(&table, key![1], "exact", decimal("0.05"))).unwrap();
    assert_eq!(value(1, "exact"), Value::from(decimal("4.05")));
    for column in columns {
        for (id, number) in [(1, 9), (1, 8), (2, 9), (2, 8)] {
            db.run(|tx| tx.max(&table, key![id], column, &operand(column, number))).unwrap();
            assert_eq!(value(id, column), operand(column, 9), "max of {column}");
        }
        for (number, expected) in [(2, 2), (3, 2), (1, 1)] {
            db.run(|tx| tx.min(&table, key![1], column, &operand(column, number))).unwrap();
            assert_eq!(value(1, column), operand(column, expected), "min of {column}");
        }
        db.run(|tx| {
            tx.max(&table, key![1], column, ValueRef::Null)?;
            tx.min(&table, key![1], column, ValueRef::Null)
        })
        .unwrap();
        assert_eq!(value(1, column), operand(column, 1), "NULL changes nothing: {column}");
        db.run(|tx| {
            tx.update(&table, key![2], &[(column, ValueRef::Null)])?;
            tx.min(&table, key![2], column, &operand(column, 7))
        })
        .unwrap();
        assert_eq!(value(2, column), operand(column, 7), "min of NULL: {column}");
    }
    for type_without_sum in ["day", "time", "last", "top"] {
        let error = refused(db.run(|tx| tx.add(&table, key![1], type_without_sum, 1)), &["add", "it takes"]);
        assert!(matches!(error, Error::WrongOperation { .. }), "{error:?}");
    }
    assert!(value(1, "day") != Value::from(next_day));
    let before = dump(&db, &table);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("operated").unwrap()), before);
}

#[test]
fn ordered_puts_and_top_k_inserts_keep_the_greatest() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let mut row = vec![ValueRef::Int(1)];
    row.extend([ValueRef::Null; 9]);
    db.run(|tx| tx.insert(&table, &row)).unwrap();
    let put = |tx: &heddledb::Tx<'_, '_>, order: i64, payload: &str| {
        tx.ordered_put(&table, key![1], "last", &row![order], &row![payload])?;
        tx.top_k_insert(&table, key![1], "top", &row![order], &row![payload])
    };
    let look = |tx: &heddledb::Tx<'_, '_>| {
        let row = tx.get(&table, key![1])?.unwrap().to_values();
        let (Value::Tuple(last), Value::TopK(top)) = (&row[8], &row[9]) else { panic!("{row:?}") };
        Ok((last.row(&of)?, top.rows(&of)?))
    };
    let entry = |order: i64, payload: &str| vec![Value::from(order), Value::from(payload)];
    db.run(|tx| {
        put(tx, 5, "five")?;
        put(tx, 3, "three")?;
        assert_eq!(look(tx)?, (entry(5, "five"), vec![entry(5, "five"), entry(3, "three")]));
        let savepoint = tx.savepoint();
        put(tx, 8, "eight")?;
        tx.rollback_to(&savepoint);
        put(tx, 5, "fives")
    })
    .unwrap();
    for (order, payload) in [(1, "one"), (4, "four"), (5, "five"), (-2, "minus two")] {
        db.run(|tx| put(tx, order, payload)).unwrap();
    }
    let expected = (entry(5, "fives"), vec![entry(5, "fives"), entry(4, "four"), entry(3, "three")]);
    assert_eq!(db.run(look).unwrap(), expected);
    refused(db.run(|tx| put(tx, 9, "nine").and(Err::<(), _>(fail("no")))), &["no"]);
    assert_eq!(db.run(look).unwrap(), expected);
    // Set to another set's value, and inserted into in the same transaction.
    db.run(|tx| {
        let top = tx.get(&table, key![1])?.unwrap().get("top")?;
        let mut row = row.clone();
        row[0] = ValueRef::Int(2);
        row[9] = top;
        tx.insert(&table, &row)?;
        tx.top_k_insert(&table, key![2], "top", &row![7], &row!["seven"])
    })
    .unwrap();
    db.run(|tx| {
        let top = tx.get(&table, key![2])?.unwrap().get("top")?;
        tx.update(&table, key![1], &[("top", top)])?;
        tx.top_k_insert(&table, key![1], "top", &row![6], &row!["six"])
    })
    .unwrap();
    let top = vec![entry(7, "seven"), entry(6, "six"), entry(5, "fives")];
    assert_eq!(db.run(look).unwrap().1, top);
    let before = dump(&db, &table);
    db.close().unwrap();
    let db = open(&disk);
    let table = db.table("operated").unwrap();
    assert_eq!(dump(&db, &table), before);
    db.run(|tx| tx.top_k_insert(&table, key![1], "top", &row![10], &row!["ten"])).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let Value::TopK(top) = &dump(&db, &db.table("operated").unwrap())[0][9] else { panic!("no set") };
    assert_eq!(top.rows(&of).unwrap()[0], entry(10, "ten"));
}

#[test]
fn products_are_exact_and_survive_a_restart() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let mut row = vec![ValueRef::Int(1), ValueRef::Int(6), ValueRef::Int(1 << 40)];
    row.extend([ValueRef::Null; 7]);
    db.run(|tx| tx.insert(&table, &row)).unwrap();
    db.run(|tx| {
        tx.multiply(&table, key![1], "small", -7)?;
        tx.multiply(&table, key![1], "large", 1 << 10)?;
        tx.multiply(&table, key![1], "large", -3)
    })
    .unwrap();
    for column in ["small", "large"] {
        let error = refused(db.run(|tx| tx.multiply(&table, key![1], column, 1_i64 << 31)), &[column]);
        assert!(matches!(error, Error::Overflow { .. }), "{error:?}");
    }
    refused(db.run(|tx| tx.multiply(&table, key![1], "exact", 2)), &["multiply", "int32 and int64"]);
    let negate = Action::write(&table).key(|_, key| key.push(1)).body(|action| action.multiply("small", -1));
    let negate = db.register(ProcedureDefinition::new("negate").phase([negate])).unwrap();
    db.call(&negate, args![]).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let row = &dump(&db, &db.table("operated").unwrap())[0];
    assert_eq!(row[1..3], [Value::from(42), Value::from(-3_i64 << 50)]);
}

#[test]
fn what_was_null_gets_numbers_and_times_and_survives_a_restart() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let definition = TableDefinition::new("order").column("id", DataType::Int64);
    let definition = definition.column("carrier", DataType::Int32).column("day", DataType::Date);
    let definition = definition.column("time", DataType::Timestamp).column("left", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    let null = ValueRef::Null;
    db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&table, row![id, null, null, null, null]))).unwrap();
    let (day, time) = ("2026-11-22".parse::<Date>().unwrap(), Timestamp::from_microseconds(-5).unwrap());
    db.run(|tx| {
        tx.update(&table, key![1], &[("carrier", 7.into()), ("day", day.into()), ("time", time.into())])?;
        tx.add(&table, key![1], "carrier", 1)
    })
    .unwrap();
    db.run(|tx| tx.update(&table, key![2], &[("time", time.into()), ("carrier", 9.into())])).unwrap();
    db.run(|tx| tx.update(&table, key![2], &[("time", null)])).unwrap();
    let expected =
        [row![1, 8, day, time, null].map(Value::from), row![2, 9, null, null, null].map(Value::from)];
    assert_eq!(dump(&db, &table), expected);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("order").unwrap()), expected);
}

#[test]
fn an_error_or_a_panic_leaves_no_trace() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, "ada", 7, 100, 1])).unwrap();
    let before = dump(&db, &table);
    let change = |tx: &heddledb::Tx<'_, '_>| {
        tx.insert(&table, row![2, "bea", 7, 200, 2])?;
        tx.update(&table, key![1], &[("name", "eve".into()), ("branch", 9.into())])?;
        tx.add(&table, key![1], "balance", 5)
    };
    let failed = db.run(|tx| change(tx).and(Err::<(), _>(fail("changed my mind"))));
    assert_eq!(failed, Err(Error::Failed { message: "changed my mind".to_string() }));
    assert_eq!(dump(&db, &table), before);
    let panicked = db.run(|tx| -> heddledb::Result<()> {
        change(tx)?;
        std::panic::resume_unwind(Box::new("out of luck"))
    });
    let error = refused(panicked, &["out of luck", "no trace", "the database goes on"]);
    assert!(matches!(error, Error::Panicked { .. }));
    assert_eq!(dump(&db, &table), before);
    db.check().unwrap();
    db.run(change).unwrap();
    assert_eq!(dump(&db, &table).len(), 2);
    db.check().unwrap();
}

#[test]
fn a_value_comes_back_from_a_closure() {
    let (db, table) = each_kind().next().unwrap();
    assert_eq!(db.run(|_| Ok("a value")).unwrap(), "a value");
    let mut runs = 0;
    db.run(|tx| {
        runs += 1;
        if runs < 3 { Err(Error::Conflict) } else { tx.insert(&table, row![1, runs]) }
    })
    .unwrap();
    assert_eq!(dump(&db, &table), [row![1, 3].map(Value::from)]);
}

#[test]
fn an_overflow_at_commit_is_reported_only_of_a_state_that_there_was() {
    // In every state a + b is within the bounds: only a thread that sees a of one state and b of another can overflow.
    let db = in_memory();
    let table = db.create_table(counter_definition()).unwrap();
    db.run(|tx| {
        tx.insert(&table, row![1, 10])?;
        tx.insert(&table, row![2, 0])
    })
    .unwrap();
    for round in 0..40 {
        db.run(|tx| {
            tx.update(&table, key![1], &[("n", 10.into())])?;
            tx.update(&table, key![2], &[("n", 0.into())])
        })
        .unwrap();
        let both_have_read = Barrier::new(2);
        let first_time = |runs: &mut u32| {
            *runs += 1;
            if *runs == 1 {
                both_have_read.wait();
            }
        };
        thread::scope(|scope| {
            let mover = scope.spawn(|| {
                let mut runs = 0;
                db.run(|tx| {
                    tx.update(&table, key![1], &[("n", 0.into())])?;
                    tx.update(&table, key![2], &[("n", i64::MAX.into())])?;
                    first_time(&mut runs);
                    Ok(())
                })
            });
            let mut runs = 0;
            let added = db.run(|tx| {
                let a = tx.get(&table, key![1])?.unwrap().int("n")?;
                tx.add(&table, key![2], "n", a)?;
                first_time(&mut runs);
                Ok(())
            });
            assert_eq!(added, Ok(()), "round {round}");
            mover.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_transaction_of_ten_thousand_rows_is_whole() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(account_definition()).unwrap();
    let insert_all = |tx: &heddledb::Tx<'_, '_>| {
        for id in 0..10_000_i64 {
            tx.insert(&table, row![id, &*format!("account number {id}"), id % 100, id, 0])?;
        }
        Ok(())
    };
    refused(db.run(|tx| insert_all(tx).and(Err::<(), _>(fail("not yet")))), &["not yet"]);
    assert!(dump(&db, &table).is_empty());
    db.run(insert_all).unwrap();
    db.run(|tx| {
        for id in 0..10_000_i64 {
            match id % 3 {
                0 => drop(tx.delete(&table, key![id])?),
                1 => tx.add(&table, key![id], "balance", 1)?,
                _ => tx.update(&table, key![id], &[("branch", (id % 7).into())])?,
            }
        }
        let savepoint = tx.savepoint();
        (1..10_000).step_by(3).try_for_each(|id: i64| tx.delete(&table, key![id]).map(drop))?;
        tx.rollback_to(&savepoint);
        Ok(())
    })
    .unwrap();
    let before = dump(&db, &table);
    assert_eq!(before.len(), 6_666);
    db.check().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("account").unwrap()), before);
    db.check().unwrap();
}

#[test]
fn a_very_large_transaction_is_committed_whole_and_recovered() {
    // Many segments and log buffers in one transaction.
    let rows = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let disk = SimulatedDisk::new();
    let options = || {
        on_disk(&disk)
            .log(|log| log.segment_bytes(256 << 10).buffer_bytes(64 << 10))
            .durability(Durability::Group)
    };
    let db = Database::open(tables::DATABASE, options()).unwrap();
    let table = db.create_table(counter_definition().primary_index(PrimaryIndex::Hash)).unwrap();
    db.run(|tx| (0..rows).try_for_each(|id| tx.insert(&table, row![id, id * 2]))).unwrap();
    let sum = |db: &Database| {
        let table = db.table("counter").unwrap();
        db.run(|tx| {
            tx.scan(&table, Range::all())?
                .try_fold((0_i64, 0_i64), |(count, sum), row| Ok((count + 1, sum + row?.int("n")?)))
        })
        .unwrap()
    };
    let expected = (rows, rows * (rows - 1));
    assert_eq!(sum(&db), expected);
    db.close().unwrap();
    let db = Database::open(tables::DATABASE, options()).unwrap();
    assert_eq!(sum(&db), expected);
    assert!(db.recovery().transactions >= 2);
}

#[test]
fn options_of_every_kind_run_the_same_transaction() {
    for partitions in [1, 3] {
        for variant in heddledb::SerialVariant::ALL {
            for durability in Durability::ALL {
                let disk = SimulatedDisk::new();
                let options = || -> Options {
                    on_disk(&disk)
                        .protocol(SerialOptions::default().partitions(partitions).variant(*variant))
                        .durability(*durability)
                };
                let db = Database::open(tables::DATABASE, options()).unwrap();
                let table = db.create_table(account_definition()).unwrap();
                for id in 0..10_i64 {
                    db.run(|tx| tx.insert(&table, row![id, &*format!("n{id}"), id, id, id])).unwrap();
                }
                db.run(|tx| tx.add(&table, key![3], "branch", 4)).unwrap();
                assert_eq!(dump(&db, &table)[3][2], Value::from(7));
                db.check().unwrap();
                db.close().unwrap();
                let db = Database::open(tables::DATABASE, options()).unwrap();
                assert_eq!(db.tables().len(), usize::from(*durability != Durability::None));
                db.check().unwrap();
            }
        }
    }
}
