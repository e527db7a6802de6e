//! Tests of the limit on one transaction's writes, and of what happens beyond it.

use crate::{
    DataType, Database, Durability, Error, Options, Range, Result, Session, Table, TableDefinition, Value,
    key, row, set,
};

/// How many of the texts are too much for one transaction: the limit is 16 MiB in the engine's own tests.
const TOO_MANY: i64 = 600;

/// A database with a table of texts, and a text.
fn texts() -> (Database, Table, String) {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .not_null()
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    (db, table, "t".repeat(30_000))
}

#[track_caller]
fn assert_too_large<T>(outcome: Result<T>) {
    let Err(error) = outcome else { panic!("the transaction is larger than it may be") };
    assert!(matches!(error, Error::TransactionTooLarge { what: "write set", .. }), "{error}");
    assert_eq!(error.sqlstate(), "53200");
    assert!(error.to_string().contains("write less in each transaction") && !error.is_retryable());
}

#[test]
fn a_transaction_that_writes_too_much_ends_in_53200_and_leaves_nothing() {
    let (db, table, text) = texts();
    assert_too_large(db.run(|tx| (0..TOO_MANY).try_for_each(|id| tx.insert(&table, row![id, &*text]))));
    let count = || db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())).expect("a count");
    assert_eq!(count(), 0);
    db.run(|tx| (0..TOO_MANY / 2).try_for_each(|id| tx.insert(&table, row![id, &*text])))
        .expect("it is within the limit");
    assert_eq!(count(), TOO_MANY as usize / 2);
}

/// A body that goes on after a refusal commits what it has written before, and nothing of the refused write.
#[test]
fn a_change_that_is_refused_as_too_much_leaves_nothing() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    let definition = TableDefinition::new("counter").column("id", DataType::Int64);
    let definition = definition.column("n", DataType::Int64).column("m", DataType::Int64);
    let counter = db.create_table(definition.primary_key(["id"])).expect("a table");
    db.run(|tx| tx.insert(&counter, row![1, 0, 0])).expect("inserted");
    let counted = db.run(|tx| {
        let mut added = 0;
        let refused = loop {
            match tx.add(&counter, key![1], "n", 1) {
                Ok(()) => added += 1,
                refused => break refused,
            }
        };
        assert_too_large(refused);
        assert_too_large(tx.update(&counter, key![1], set! { m: 1, n: 0 }));
        assert_too_large(tx.add(&counter, key![1], "n", 1));
        assert_too_large(tx.insert(&counter, row![2, 0, 0]));
        Ok(added)
    });
    let row = db.run(|tx| Ok(tx.get(&counter, key![1])?.map(|row| row.to_values()[1..].to_vec())));
    let counted = counted.expect("the rest is committed");
    assert!(counted > 100_000);
    assert_eq!(row, Ok(Some(vec![Value::Int(counted), Value::Int(0)])));
    assert_eq!(db.run(|tx| tx.exists(&counter, key![2])), Ok(false));
}

#[test]
fn a_session_is_refused_the_write_that_is_too_much_and_goes_on() {
    let (db, table, text) = texts();
    let mut session: Session = db.session().expect("a session");
    for _ in 0..2 {
        session.begin().expect("begun");
        let mut insert = |id: i64| session.run(|tx| tx.insert(&table, row![id, &*text]));
        let first_refused = (0..TOO_MANY).find(|&id| insert(id).is_err()).expect("the limit is reached");
        assert_too_large(insert(first_refused));
        // What is undone counts no more.
        session.rollback().expect("rolled back");
    }
    session.begin().expect("begun");
    let start = session.savepoint().expect("a savepoint");
    for _ in 0..3 {
        (0..TOO_MANY / 2)
            .try_for_each(|id| session.run(|tx| tx.insert(&table, row![id, &*text])))
            .expect("within the limit");
        session.rollback_to(&start).expect("undone");
    }
    session.run(|tx| tx.insert(&table, row![1, &*text])).expect("within the limit");
    session.commit().expect("committed");
    assert_eq!(db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())).expect("a count"), 1);
}
