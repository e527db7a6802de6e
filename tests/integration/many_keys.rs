//! The rows of many keys at once: returned in the keys' order, and as if each had been read alone.

use crate::support::tables::{counter_definition, in_memory};
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, PrimaryIndex, ProcedureDefinition, ProtocolKind,
    Table, TableDefinition, Value, ValueRef, args, fail, key, row,
};

/// Even numbers below 400, which hold ten times their number; under every protocol, found by hash and in order.
fn with_each(test: impl Fn(&Database, &Table)) {
    for &protocol in ProtocolKind::ALL {
        for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered] {
            let options = Options::default().durability(Durability::None).protocol(protocol);
            let db = Database::in_memory_with(options).unwrap();
            let table = db.create_table(counter_definition().primary_index(index)).unwrap();
            let fill = |tx: &heddledb::Tx<'_, '_>| {
                (0..400).step_by(2).try_for_each(|id| tx.insert(&table, row![id, id * 10]))
            };
            db.run(fill).unwrap();
            test(&db, &table);
        }
    }
}

/// The values that a transaction reads for these keys.
fn got(db: &Database, table: &Table, keys: &[i64]) -> Vec<Option<i64>> {
    db.run(|tx| {
        let mut rows = Vec::new();
        tx.get_each(table, keys.iter().map(|&id| key![id]), |row| {
            rows.push(row.map(|row| row.int("n")).transpose()?);
            Ok(())
        })?;
        Ok(rows)
    })
    .unwrap()
}

#[test]
fn rows_come_in_the_order_of_the_keys_however_many_there_are() {
    with_each(|db, table| {
        for count in [0, 1, 15, 16, 17, 32, 100, 401] {
            // Backward, every third twice, and half of them of no row.
            let keys: Vec<i64> =
                (0..count).rev().flat_map(|id| [id].repeat(1 + usize::from(id % 3 == 0))).collect();
            let expected: Vec<_> =
                keys.iter().map(|&id| (id % 2 == 0 && id < 400).then_some(id * 10)).collect();
            assert_eq!(got(db, table, &keys), expected, "{count} keys");
        }
    });
}

#[test]
fn the_transactions_own_writes_are_seen_those_between_two_rows_too() {
    with_each(|db, table| {
        let seen = db.run(|tx| {
            tx.insert(table, row![1, 11])?;
            tx.delete(table, key![2])?;
            tx.add(table, key![4], "n", 1)?;
            let mut seen = Vec::new();
            tx.get_each(table, [1, 2, 4, 6, 7].map(|id| key![id]), |row| {
                if seen.is_empty() {
                    // Its rows have been looked up by now.
                    tx.add(table, key![6], "n", 5)?;
                    tx.insert(table, row![7, 70])?;
                }
                seen.push(row.map(|row| row.int("n")).transpose()?);
                Ok(())
            })?;
            Ok(seen)
        });
        assert_eq!(seen.unwrap(), [Some(11), None, Some(41), Some(65), Some(70)]);
    });
}

#[test]
fn the_first_error_ends_it_and_is_the_transactions() {
    with_each(|db, table| {
        let mut calls = 0;
        let failed = db.run(|tx| {
            calls = 0;
            tx.add(table, key![0], "n", 1)?;
            tx.get_each(table, (0..50).map(|id| key![id]), |_| {
                calls += 1;
                if calls == 20 { Err(fail("enough")) } else { Ok(()) }
            })
        });
        assert!(matches!(failed, Err(Error::Failed { message }) if message == "enough"));
        assert_eq!((calls, got(db, table, &[0])), (20, vec![Some(0)]));
        let wrong = db.run(|tx| tx.get_each(table, [[ValueRef::Text("no number")]], |_| Ok(())));
        assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
    });
}

#[test]
fn a_table_of_another_database_is_refused() {
    let (one, other) = (in_memory(), in_memory());
    let table = one.create_table(counter_definition()).unwrap();
    let foreign = other.run(|tx| tx.get_each(&table, [key![1]], |_| Ok(())));
    assert!(matches!(foreign, Err(Error::ForeignTable { .. })));
}

#[test]
fn an_action_reaches_only_what_it_declares() {
    let db = in_memory();
    let definition = TableDefinition::new("line").column("order", DataType::Int64);
    let table = db
        .create_table(definition.column("number", DataType::Int64).primary_key(["order", "number"]))
        .unwrap();
    db.run(|tx| (0..9).try_for_each(|number| tx.insert(&table, row![number % 3, number]))).unwrap();
    let lines = table.clone();
    let look = Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
        let (order, mut there) = (action.args().int(1)?, 0);
        action.tx().get_each(&lines, (0..9).map(|number| key![order, number]), |row| {
            there += i64::from(row.is_some());
            Ok(())
        })?;
        action.return_row(vec![there.into()]);
        Ok(())
    });
    let definition = ProcedureDefinition::new("look").parameter("declared", DataType::Int64);
    let look = db.register(definition.parameter("asked", DataType::Int64).phase([look])).unwrap();
    assert_eq!(db.call(&look, args![1, 1]).unwrap().rows, [[Value::Int(3)]]);
    assert!(matches!(db.call(&look, args![1, 2]), Err(Error::OutsideFootprint { .. })));
}

/// Two transactions of which each looks for what the other one puts in: one of them sees the other's.
#[test]
fn a_row_that_comes_in_where_it_was_missing_is_a_conflict() {
    with_each(|db, table| {
        std::thread::scope(|scope| {
            for mine in [1001, 1003] {
                scope.spawn(move || {
                    for round in 0..50 {
                        let keys = (0..20).map(|at| key![1001 + at % 4 + round * 10]);
                        db.run(|tx| {
                            let mut there = 0;
                            tx.get_each(table, keys.clone(), |row| {
                                there += i64::from(row.is_some());
                                Ok(())
                            })?;
                            tx.insert(table, row![mine + round * 10, there])
                        })
                        .unwrap();
                    }
                });
            }
        });
        for round in 0..50 {
            let mut seen = got(db, table, &[1001 + round * 10, 1003 + round * 10]);
            seen.sort_unstable();
            // Each row is asked for five times among twenty keys.
            assert_eq!(seen, [Some(0), Some(5)], "round {round}");
        }
    });
}
