//! Changes that copy a table run beside threads that write it all the time, under every protocol: they end, no write is lost, and
//! writers go on afterwards.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::support::concurrent::{in_memory, watched};
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, Range, Result, Table, TableChange, TableDefinition,
    Value, key, row,
};

const ROWS: i64 = 400;
const WRITERS: usize = 2;

fn numbers(db: &Database) -> Table {
    let definition = TableDefinition::new("number").column("id", DataType::Int64);
    let definition = definition.column("n", DataType::Int64).not_null().primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 0]))).expect("rows");
    table
}

/// Adds to one row after the other until it is over.
fn add_until(db: &Database, table: &Table, added: &AtomicI64, over: &AtomicBool) {
    let mut id = 0;
    while !over.load(Ordering::Relaxed) {
        db.run(|tx| tx.add(table, key![id % ROWS], "n", 1)).expect("no writer fails");
        added.fetch_add(1, Ordering::Relaxed);
        id += 7;
    }
}

/// Waits until each writer has added once more.
fn wait_for_additions(added: &[AtomicI64; WRITERS]) {
    for one in added {
        let before = one.load(Ordering::Relaxed);
        while one.load(Ordering::Relaxed) <= before {
            thread::yield_now();
        }
    }
}

/// Does `change` while writers add, lets them add afterwards, and compares what was added with what is there.
fn beside_writers(db: &Database, change: impl Fn(&Database)) {
    let table = numbers(db);
    let (over, added) = (AtomicBool::new(false), [const { AtomicI64::new(0) }; WRITERS]);
    thread::scope(|scope| {
        for added in &added {
            let (table, over) = (&table, &over);
            scope.spawn(move || add_until(db, table, added, over));
        }
        wait_for_additions(&added);
        change(db);
        wait_for_additions(&added);
        over.store(true, Ordering::Relaxed);
    });
    let numbers =
        db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).collect::<Result<Vec<_>>>());
    let numbers = numbers.expect("read");
    let expected: i64 = added.iter().map(|added| added.load(Ordering::Relaxed)).sum();
    assert_eq!((numbers.len() as i64, numbers.iter().sum()), (ROWS, expected));
    db.check().expect("consistent");
}

fn under_every_protocol(change: impl Fn(&Database) + Copy + Send + 'static) {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        watched(move || beside_writers(&in_memory(Options::default().protocol(protocol).workers(2)), change));
    }
}

#[test]
fn columns_come_and_go() {
    under_every_protocol(|db| {
        for round in 0..3 {
            let change = TableChange::new().add_column("more", DataType::Int64, round);
            let table = db.change_table("number", change).expect("added");
            let more = db.run(|tx| tx.get(&table, key![round])?.map(|row| row.int("more")).transpose());
            assert_eq!(more, Ok(Some(round)));
            db.change_table("number", TableChange::new().drop_column("more")).expect("dropped");
        }
    });
}

#[test]
fn a_copy_that_is_refused_lets_writers_go_on() {
    under_every_protocol(|db| {
        let fails = |value: Value| match value {
            Value::Int(_) => Err(heddledb::fail("not convertible")),
            other => Ok(other),
        };
        let refused = db.change_table("number", TableChange::new().convert("n", DataType::Text, fails));
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        let table = db.table("number").expect("it is there");
        assert_eq!(table.definition().columns().len(), 2);
    });
}
