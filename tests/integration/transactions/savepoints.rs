//! Savepoints: what was written since one is taken back, and takes no room.

use heddledb::{DataType, Error, Range, Value, key, row};

use crate::support::tables::{
    account_definition, counter_definition, dump, first_column, in_memory, order_definition, refused, rows_of,
};

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
