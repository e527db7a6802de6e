//! Closures that meet: no skew, no phantom, no lost update, and each key once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::{
    DataType, Database, Error, Options, Range, Result, SerialOptions, TableDefinition, Tx, args, fail, key,
    row,
};

use super::{for_each_number_of_partitions, meet, read};
use crate::support::concurrent::{accounts, balance, in_memory, total, transfer, watched};

#[test]
fn no_write_skew() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        // Both may take 150 of what two accounts have together, but not both of them.
        let both = |tx: &Tx<'_, '_>, _| Ok(read(tx, &table, 0)? + read(tx, &table, 1)?);
        let take = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, sum: i64| {
                if sum < 150 {
                    return Err(fail("not enough"));
                }
                tx.add(table, key![id], "balance", -150)
            }
        };
        let met = meet(&db, both, take(0), take(1));
        met.one_ran_again();
        let failed = fail("not enough");
        assert!(
            met.results == (Ok(()), Err(failed.clone())) || met.results == (Err(failed), Ok(())),
            "{:?}",
            met.results
        );
        assert_eq!(total(&db, &table), 50);
    });
}

#[test]
fn no_read_skew() {
    watched(|| {
        for partitions in [1, 4] {
            let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(partitions)));
            let table = accounts(&db, 2);
            let (transfer, done) = (transfer(&db, &table), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    for round in 0..400 {
                        let amount = if round % 2 == 0 { 30 } else { -30 };
                        match round % 3 {
                            0 => drop(db.call(&transfer, args![0, 1, amount])),
                            _ => db
                                .run(|tx| {
                                    tx.add(&table, key![0], "balance", -amount)?;
                                    tx.add(&table, key![1], "balance", amount)
                                })
                                .expect("a transfer"),
                        }
                    }
                    done.store(true, Ordering::SeqCst);
                });
                while !done.load(Ordering::SeqCst) {
                    let sum = db.run(|tx| {
                        let first = read(tx, &table, 0)?;
                        thread::yield_now();
                        Ok(first + read(tx, &table, 1)?)
                    });
                    assert_eq!(sum, Ok(200));
                }
            });
        }
    });
}

#[test]
fn no_phantom() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 10);
        // Each inserts a row only if its range has an even number of rows.
        let count = |tx: &Tx<'_, '_>, _| Ok(tx.scan(&table, Range::from(key![0]).to(key![1_000]))?.count());
        let put = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, rows: usize| {
                if rows.is_multiple_of(2) { tx.insert(table, row![id, 0]).map(|()| true) } else { Ok(false) }
            }
        };
        let met = meet(&db, count, put(500), put(900));
        met.one_or_both_ran_again();
        let (first, second) = met.results;
        assert!(first.expect("no error") != second.expect("no error"), "exactly one found an even number");
        assert_eq!(db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())), Ok(11));
    });
}

#[test]
fn no_phantom_among_missing_keys_nor_in_whole_tables_nor_in_secondary_indexes() {
    // A database for each way: a repeated writer is granted the partitions exclusively, and bodies cannot meet.
    (0..4).for_each(|number| {
        for_each_number_of_partitions(move |db| one_way_to_look_for_phantoms(&db, number))
    });
}

fn one_way_to_look_for_phantoms(db: &Database, number: usize) {
    let table = db
        .create_table(
            TableDefinition::new("visit")
                .column("id", DataType::Int64)
                .column("room", DataType::Int64)
                .primary_key(["id"])
                .index("by_room", ["room"]),
        )
        .expect("a table");
    type Look<'t> = Box<dyn Fn(&Tx<'_, '_>, i64) -> Result<usize> + Sync + 't>;
    let ways: Vec<Look<'_>> = vec![
        Box::new(|tx, base| {
            Ok(usize::from(tx.exists(&table, key![base])?)
                + usize::from(tx.get(&table, key![base + 1])?.is_some()))
        }),
        Box::new(|tx, base| {
            let mut rows = 0;
            for row in tx.scan(&table, Range::all())? {
                rows += usize::from(row?.int("id")? / 10 == base / 10);
            }
            Ok(rows)
        }),
        Box::new(|tx, base| Ok(tx.scan_index(&table, "by_room", Range::prefix(key![base]))?.count())),
        Box::new(|tx, base| {
            Ok(tx.scan(&table, Range::from(key![base]).to(key![base + 2]).reverse().limit(1))?.count())
        }),
    ];
    let look = &ways[number];
    let base = number as i64 * 10;
    let put = |id: i64| {
        let table = &table;
        move |tx: &Tx<'_, '_>, rows: usize| {
            if rows == 0 { tx.insert(table, row![id, base]).map(|()| 1) } else { Ok(0) }
        }
    };
    let met = meet(db, |tx, _| look(tx, base), put(base), put(base + 1));
    met.one_or_both_ran_again();
    let (first, second) = met.results;
    assert_eq!(first.expect("no error") + second.expect("no error"), 1, "way {number}");
    db.check().expect("consistent");
}

#[test]
fn one_of_two_inserts_of_a_key_wins_and_the_other_is_a_duplicate() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 0);
        let put = |balance: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, ()| tx.insert(table, row![7, balance])
        };
        let met = meet(&db, |_, _| Ok(()), put(1), put(2));
        met.one_ran_again();
        let (first, second) = met.results;
        let winner = match (&first, &second) {
            (Ok(()), Err(Error::DuplicateKey { .. })) => 1,
            (Err(Error::DuplicateKey { .. }), Ok(())) => 2,
            other => panic!("{other:?}"),
        };
        assert_eq!(balance(&db, &table, 7), Some(winner));
    });
}

#[test]
fn insert_if_absent_happens_once() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 0);
        let put = |tx: &Tx<'_, '_>, there: bool| {
            if there { tx.add(&table, key![7], "balance", 1) } else { tx.insert(&table, row![7, 1]) }
        };
        let met = meet(&db, |tx, _| tx.exists(&table, key![7]), put, put);
        met.one_or_both_ran_again();
        assert_eq!(met.results, (Ok(()), Ok(())));
        assert_eq!(balance(&db, &table, 7), Some(2));
    });
}

#[test]
fn a_unique_index_takes_a_value_once() {
    for_each_number_of_partitions(|db| {
        let table = db
            .create_table(
                TableDefinition::new("user")
                    .column("id", DataType::Int64)
                    .column("name", DataType::Text)
                    .primary_key(["id"])
                    .unique_index("by_name", ["name"]),
            )
            .expect("a table");
        let put = |id: i64| {
            let table = &table;
            move |tx: &Tx<'_, '_>, ()| tx.insert(table, row![id, "ada"])
        };
        let met = meet(&db, |_, _| Ok(()), put(1), put(2));
        met.one_ran_again();
        let (first, second) = met.results;
        assert!(
            matches!(
                (&first, &second),
                (Ok(()), Err(Error::DuplicateKey { .. })) | (Err(Error::DuplicateKey { .. }), Ok(()))
            ),
            "{first:?} {second:?}"
        );
        // And once it has been released, the other can have it: by a delete and by a change of name.
        let rename = |tx: &Tx<'_, '_>, ()| {
            let id = if tx.exists(&table, key![1])? { 1 } else { 2 };
            tx.update(&table, key![id], &[("name", "eve".into())])
        };
        let take = |tx: &Tx<'_, '_>, ()| match tx.insert(&table, row![3, "ada"]) {
            Err(Error::DuplicateKey { .. }) => Ok(false),
            other => other.map(|()| true),
        };
        let met = meet(&db, |_, _| Ok(()), rename, take);
        let took = met.results.1.expect("no error");
        met.results.0.expect("renamed");
        let rows = db.run(|tx| Ok(tx.scan_index(&table, "by_name", Range::prefix(key!["ada"]))?.count()));
        assert_eq!(rows, Ok(usize::from(took)));
        db.check().expect("consistent");
    });
}

#[test]
fn deletes_and_inserts_that_meet_are_serializable() {
    for_each_number_of_partitions(|db| {
        let table = accounts(&db, 2);
        // One moves all money from 0 to 1 and closes 0; the other pays 10 into 0, or into 1 if 0 is closed.
        let close = |tx: &Tx<'_, '_>, _: i64| {
            let left = read(tx, &table, 0)?;
            tx.delete(&table, key![0])?;
            tx.add(&table, key![1], "balance", left)
        };
        let pay = |tx: &Tx<'_, '_>, _: i64| {
            let into = if tx.exists(&table, key![0])? { 0 } else { 1 };
            tx.add(&table, key![into], "balance", 10)
        };
        let met = meet(&db, |_, number| Ok(number as i64), close, pay);
        assert_eq!(met.results, (Ok(()), Ok(())));
        assert_eq!((balance(&db, &table, 0), balance(&db, &table, 1)), (None, Some(210)));
        // One opens it again; the other deletes it if it is there.
        let open = |tx: &Tx<'_, '_>, _: bool| tx.insert(&table, row![0, 5]);
        let remove = |tx: &Tx<'_, '_>, there: bool| {
            let deleted = tx.delete(&table, key![0])?;
            assert!(deleted == there, "what it sees changes within one attempt");
            Ok(deleted)
        };
        let met = meet(
            &db,
            |tx, number| if number == 1 { tx.exists(&table, key![0]) } else { Ok(false) },
            open,
            remove,
        );
        met.results.0.expect("opened");
        let removed = met.results.1.expect("no error");
        assert_eq!(balance(&db, &table, 0).is_none(), removed);
    });
}
