//! Ranges of tables and indexes: bounds, directions, limits, and what their own transaction writes meanwhile.

use heddledb::{DataType, Date, PrimaryIndex, Range, TableDefinition, Value, key, row};

use super::each_kind;
use crate::support::tables::{
    account_definition, counter_definition, dump, first_column, in_memory, rows_of,
};

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
            let behind: Vec<i64> = within(from + 1, to).collect();
            assert_eq!(scan(Range::all().starting_after(key![from]).to(key![to])), behind, "{from} to {to}");
            assert_eq!(scan(Range::all().to(key![to])), within(i64::MIN, to).collect::<Vec<_>>());
            for limit in [0, 1, 3, 5_000] {
                let some: Vec<i64> = expected.iter().copied().take(limit).collect();
                assert_eq!(scan(Range::from(key![from]).to(key![to]).limit(limit)), some);
                let last: Vec<i64> = expected.iter().rev().copied().take(limit).collect();
                assert_eq!(scan(Range::from(key![from]).to(key![to]).reverse().limit(limit)), last);
            }
        }
        assert_eq!(scan(Range::prefix(key![8])), [8]);
        assert_eq!(scan(Range::all().starting_after(key![i64::MAX])), []);
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
    assert_eq!(scan(Range::all().starting_after(key!["ab"]).to_inclusive(key!["b"])), all[12..16]);
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
