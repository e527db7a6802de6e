//! Indexes are built while transactions write their table: they contain what the table contains, and no writer fails for it,
//! under every protocol.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::concurrent::{in_memory, watched};
use crate::support::split;
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, Range, Result, Table, TableChange, TableDefinition,
    key, row, set,
};

/// Rows of each writer.
const ROWS: i64 = 40;
const WRITERS: i64 = 3;

/// Rows of numbers: `code` is unique, `part` is not.
fn numbers(db: &Database) -> Table {
    let definition = TableDefinition::new("number")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .column("part", DataType::Int64)
        .not_null()
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (0..ROWS * WRITERS).try_for_each(|id| tx.insert(&table, row![id, id, 0]))).expect("rows");
    table
}

/// One transaction of a writer: its rows are its own, and so are its codes, which it moves about.
fn write(db: &Database, table: &Table, writer: i64, turn: i64) -> Result<()> {
    let (one, other) = (writer * ROWS + turn % ROWS, writer * ROWS + (turn * 7 + 1) % ROWS);
    db.run(|tx| match turn % 5 {
        0 => tx.add(table, key![one], "part", 1),
        1 if one != other => {
            let code = |id: i64| tx.get(table, key![id])?.map(|row| row.int("code")).transpose();
            let (Some(first), Some(second)) = (code(one)?, code(other)?) else { return Ok(()) };
            // By way of a third value, as an index that there is already demands.
            tx.update(table, key![one], set! { code: -1 - writer })?;
            tx.update(table, key![other], set! { code: first })?;
            tx.update(table, key![one], set! { code: second })
        }
        2 => tx.update(table, key![one], set! { part: turn }),
        3 => {
            let Some(row) = tx.get(table, key![one])? else { return Ok(()) };
            let (code, part) = (row.int("code")?, row.int("part")?);
            tx.delete(table, key![one])?;
            tx.insert(table, row![one, code, part])
        }
        _ => tx.update(table, key![one], set! { part: -turn }),
    })
}

#[test]
fn indexes_that_are_built_beside_writers_contain_what_the_table_contains() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let db = in_memory(Options::default().protocol(protocol));
            let table = numbers(&db);
            let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
            thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let (db, table, done, written) = (&db, &table, &done, &written);
                    scope.spawn(move || {
                        let mut turn = 0;
                        while !done.load(Ordering::Relaxed) {
                            write(db, table, writer, turn).expect("no writer fails");
                            written.fetch_add(1, Ordering::Relaxed);
                            turn += 1;
                        }
                    });
                }
                for round in 0..2 {
                    let before = written.load(Ordering::Relaxed);
                    let add = TableChange::new()
                        .add_unique_index("by_code", ["code"])
                        .add_index("by_part", ["part", "code"]);
                    change(&db, round, add);
                    db.check().expect("indexes like rows");
                    while written.load(Ordering::Relaxed) < before + 10 {
                        thread::yield_now();
                    }
                    db.check().expect("writers maintain them");
                    change(&db, round, TableChange::new().drop_index("by_code").drop_index("by_part"));
                }
                done.store(true, Ordering::Relaxed);
            });
            let codes = db.run(|tx| {
                tx.scan(&table, Range::all())?.map(|row| row?.int("code")).collect::<Result<Vec<_>>>()
            });
            let mut codes = codes.expect("read");
            codes.sort_unstable();
            assert_eq!(codes, (0..ROWS * WRITERS).collect::<Vec<_>>(), "{protocol}");
        });
    }
}

/// By a call, or in a session.
fn change(db: &Database, round: i64, change: TableChange) {
    if round % 2 == 0 {
        drop(db.change_table("number", change).expect("changed"));
        return;
    }
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    session.change_table("number", change).expect("changed");
    session.commit().expect("committed: an index conflicts with no writer");
}

#[test]
fn a_violation_fails_the_index_and_no_writer() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let db = in_memory(Options::default().protocol(protocol));
            let table = numbers(&db);
            let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|scope| {
                let (db, table, begun, done) = (&db, &table, &begun, &done);
                scope.spawn(move || {
                    let mut id = 10_000;
                    while !done.load(Ordering::Relaxed) {
                        // At every moment two rows have the code 7, and which ones changes.
                        db.run(|tx| {
                            tx.insert(table, row![id, 7, 0])?;
                            tx.insert(table, row![id + 1, 7, 0])?;
                            if id > 10_000 {
                                tx.delete(table, key![id - 1])?;
                                tx.delete(table, key![id - 2])?;
                            }
                            Ok(())
                        })
                        .expect("no writer fails");
                        begun.store(true, Ordering::Relaxed);
                        id += 2;
                    }
                });
                while !begun.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                for _ in 0..5 {
                    let refused =
                        db.change_table("number", TableChange::new().add_unique_index("by_code", ["code"]));
                    assert!(matches!(refused, Err(Error::NotUnique { .. })), "{protocol}: {refused:?}");
                }
                done.store(true, Ordering::Relaxed);
            });
            assert!(table.definition().indexes().is_empty());
            db.check().expect("the table as it was");
        });
    }
}

#[test]
fn an_index_of_a_column_that_is_split_waits_for_the_end_of_the_phase() {
    watched(|| {
        let (db, table) = split::in_memory(2.0);
        split::label_row(&db, &table, 1);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let adders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut added = 0;
                        while !done.load(Ordering::Relaxed) {
                            db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("added");
                            added += 1;
                        }
                        added
                    })
                })
                .collect();
            for _ in 0..5 {
                split::wait_for_split(&db, &table);
                db.change_table("board", TableChange::new().add_index("by_n", ["n"])).expect("an index");
                db.check().expect("the index like the rows");
                db.change_table("board", TableChange::new().drop_index("by_n")).expect("dropped");
            }
            done.store(true, Ordering::Relaxed);
            let added: i64 = adders.into_iter().map(|adder| adder.join().expect("no panic")).sum();
            assert_eq!(split::int(&db, &table, 1, "n").expect("read"), added);
        });
    });
}
