//! Columns that are added to tables with rows, which stay as they are: what the rows have there before and after they are
//! written, under every protocol, in snapshots, sessions and indexes, beside writers and checkpoints, and after recovery.

#[path = "support/tables.rs"]
mod tables;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, ForeignKey, Options, ProtocolKind, Range, Result, Snapshot, Table,
    TableChange, TableDefinition, Value, key, row, set,
};
use tables::{DATABASE, everywhere, in_memory, on_disk};

const LONG: &str = "a default that is too long for a word";

fn items(db: &Database, rows: i64) -> Table {
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    let items = db.create_table(definition).expect("created");
    db.run(|tx| {
        (0..rows).try_for_each(|id| tx.insert(&items, row![id, &format!("a name that is long: {id}")]))
    })
    .expect("filled");
    items
}

fn change(db: &Database, change: TableChange) -> Result<()> {
    db.change_table("item", change).map(drop)
}

fn values(db: &Database, id: i64) -> Option<Vec<Value>> {
    let items = db.table("item").expect("the table");
    db.run(|tx| Ok(tx.get(&items, key![id])?.map(|row| row.to_values()))).expect("read")
}

fn all(db: &Database) -> Vec<Vec<Value>> {
    let items = db.table("item").expect("the table");
    db.run(|tx| tx.scan(&items, Range::all())?.map(|row| Ok(row?.to_values())).collect()).expect("read")
}

fn text(value: &str) -> Value {
    Value::Text(value.to_string())
}

#[test]
fn rows_have_the_default_of_the_past_until_they_are_written() {
    let made = |db: &Database| {
        let items = items(db, 8);
        let add = TableChange::new();
        change(db, add.add_column("n", DataType::Int64, 7).not_null("n")).expect("added");
        db.run(|tx| tx.update(&items, key![1], set! { n: 5 })).expect("written");
        db.run(|tx| tx.add(&items, key![2], "n", 5)).expect("written");
        db.run(|tx| tx.update(&items, key![3], set! { name: "short" })).expect("written");
        let more = TableChange::new().set_default("n", 100).add_column("text", DataType::Text, LONG);
        change(db, more.add_column("wide", DataType::Uuid, Value::Null)).expect("added");
        db.run(|tx| tx.update(&items, key![2], set! { wide: heddledb::Uuid::from_bytes([9; 16]) }))
            .expect("written");
        db.run(|tx| tx.update(&items, key![4], set! { text: None::<&str> })).expect("written");
        db.run(|tx| tx.delete(&items, key![5])).expect("deleted");
        db.run(|tx| {
            tx.delete(&items, key![6])?;
            tx.insert(&items, row![6, "again", 1, "x", None::<heddledb::Uuid>])
        })
        .expect("replaced");
        db.run(|tx| tx.insert(&items, row![9, "new", 2, LONG, None::<heddledb::Uuid>])).expect("inserted");
    };
    let check = |db: &Database| {
        let row = |id: i64| values(db, id).map(|row| row[2..].to_vec());
        let long = text(LONG);
        assert_eq!(row(0), Some(vec![Value::Int(7), long.clone(), Value::Null]));
        assert_eq!(row(1), Some(vec![Value::Int(5), long.clone(), Value::Null]));
        let uuid = Value::Uuid(heddledb::Uuid::from_bytes([9; 16]));
        assert_eq!(row(2), Some(vec![Value::Int(12), long.clone(), uuid]));
        assert_eq!(row(3), Some(vec![Value::Int(7), long.clone(), Value::Null]));
        assert_eq!(row(4), Some(vec![Value::Int(7), Value::Null, Value::Null]));
        assert_eq!(row(5), None);
        assert_eq!(row(6), Some(vec![Value::Int(1), text("x"), Value::Null]));
        assert_eq!(row(9), Some(vec![Value::Int(2), long, Value::Null]));
        assert_eq!(all(db).len(), 8);
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

#[test]
fn no_row_is_rewritten() {
    let db = in_memory();
    let items = items(&db, 500);
    let before = items.memory();
    change(&db, TableChange::new().add_column("n", DataType::Int64, 7).not_null("n")).expect("added");
    let after = items.memory();
    assert_eq!(before.row_bytes, after.row_bytes, "the records are the same");
    assert_eq!(before.long_value_bytes, after.long_value_bytes);
    assert_eq!(values(&db, 499).map(|row| row[2].clone()), Some(Value::Int(7)));
    db.run(|tx| (0..500).try_for_each(|id| tx.update(&items, key![id], set! { n: 8 }))).expect("written");
    assert_eq!(items.memory().row_bytes, before.row_bytes + 500 * 24, "a head of two words, and the value");
}

#[test]
fn an_index_on_an_added_column_finds_old_rows_by_their_past_values() {
    let made = |db: &Database| {
        let items = items(db, 6);
        let add = TableChange::new().add_column("kind", DataType::Int64, 3);
        change(db, add.add_index("by_kind", ["kind"])).expect("added");
        db.run(|tx| tx.update(&items, key![1], set! { kind: 4 })).expect("written");
        db.run(|tx| tx.add(&items, key![2], "kind", 1)).expect("written");
        change(db, TableChange::new().add_column("sort", DataType::Text, LONG)).expect("added");
        change(db, TableChange::new().add_index("by_sort", ["sort", "id"])).expect("added");
        db.run(|tx| tx.update(&items, key![3], set! { sort: "a" })).expect("written");
    };
    let check = |db: &Database| {
        let items = db.table("item").expect("the table");
        let found = |index: &str, prefix: Value| {
            let prefix = [heddledb::ValueRef::from(&prefix)];
            db.run(|tx| {
                let rows = tx.scan_index(&items, index, Range::prefix(prefix))?;
                rows.map(|row| row?.int("id")).collect::<Result<Vec<_>>>()
            })
            .expect("read")
        };
        assert_eq!(found("by_kind", Value::Int(3)), [0, 3, 4, 5]);
        assert_eq!(found("by_kind", Value::Int(4)), [1, 2]);
        assert_eq!(found("by_sort", text(LONG)), [0, 1, 2, 4, 5]);
        assert_eq!(found("by_sort", text("a")), [3]);
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

#[test]
fn a_unique_index_on_one_past_value_is_refused() {
    let db = in_memory();
    let _items = items(&db, 2);
    let add = TableChange::new().add_column("code", DataType::Int64, 3).add_unique_index("by_code", ["code"]);
    assert!(matches!(change(&db, add), Err(Error::NotUnique { .. })));
    assert_eq!(values(&db, 0).map(|row| row.len()), Some(2));
    let add = TableChange::new().add_column("code", DataType::Int64, Value::Null);
    change(&db, add.add_unique_index("by_code", ["code"])).expect("NULL differs from NULL");
    db.check().expect("consistent");
}

#[test]
fn rules_of_an_added_column_are_those_of_any_column() {
    let db = in_memory();
    let items = items(&db, 0);
    let not_null =
        |name: &str| TableChange::new().add_column(name, DataType::Int64, Value::Null).not_null(name);
    change(&db, not_null("a")).expect("there are no rows");
    db.run(|tx| tx.insert(&items, row![1, "one", 1])).expect("inserted");
    assert!(matches!(change(&db, not_null("b")), Err(Error::NullValue { .. })));
    let checked = |default: i64| {
        TableChange::new().add_column("c", DataType::Int64, default).add_check("positive", "c >= 0")
    };
    assert!(matches!(change(&db, checked(-1)), Err(Error::CheckViolation { .. })));
    change(&db, checked(5)).expect("it passes");
    let taken = |n: i64| db.run(|tx| tx.add(&items, key![1], "c", n));
    assert!(matches!(taken(-6), Err(Error::CheckViolation { .. })));
    taken(-5).expect("not below zero");
    assert!(matches!(
        db.run(|tx| tx.update(&items, key![1], set! { c: -1 })),
        Err(Error::CheckViolation { .. })
    ));
    assert_eq!(values(&db, 1).map(|row| row[3].clone()), Some(Value::Int(0)));
    let wrong = TableChange::new().add_column("d", DataType::Int64, "text");
    assert!(change(&db, wrong).is_err(), "the default is of another type");
}

#[test]
fn foreign_keys_on_added_columns_hold() {
    let db = in_memory();
    let items = items(&db, 3);
    let kinds = TableDefinition::new("kind").column("id", DataType::Int64).primary_key(["id"]);
    let kinds = db.create_table(kinds).expect("created");
    db.run(|tx| tx.insert(&kinds, row![1])).expect("inserted");
    let refer = |name: &str, default: Value| {
        let key = ForeignKey::new(format!("{name}_key"), [name], "kind");
        TableChange::new().add_column(name, DataType::Int64, default).add_foreign_key(key)
    };
    assert!(matches!(change(&db, refer("a", Value::Int(2))), Err(Error::NoReferencedRow { .. })));
    change(&db, refer("a", Value::Int(1))).expect("there is such a row");
    change(&db, refer("b", Value::Null)).expect("NULL refers to nothing");
    let set = |b: i64| db.run(|tx| tx.update(&items, key![0], set! { b: b }));
    assert!(matches!(set(2), Err(Error::NoReferencedRow { .. })));
    set(1).expect("there is such a row");
    assert!(db.run(|tx| tx.delete(&kinds, key![1])).is_err(), "rows refer to it");
    db.check().expect("consistent");
}

#[test]
fn a_column_that_is_dropped_and_added_again_is_another_one() {
    let made = |db: &Database| {
        let items = items(db, 4);
        change(db, TableChange::new().add_column("n", DataType::Int64, 1)).expect("added");
        db.run(|tx| tx.update(&items, key![1], set! { n: 50 })).expect("written");
        change(db, TableChange::new().drop_column("n")).expect("dropped");
        change(db, TableChange::new().add_column("n", DataType::Text, "again")).expect("added");
    };
    let check = |db: &Database| {
        assert_eq!(values(db, 1).map(|row| row[2].clone()), Some(text("again")));
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

#[test]
fn a_table_that_is_emptied_is_whole_again() {
    let made = |db: &Database| {
        let items = items(db, 3);
        let add = |name: &str| change(db, TableChange::new().add_column(name, DataType::Int64, 7));
        add("n").expect("added");
        db.truncate(&["item"]).expect("emptied");
        add("m").expect("added");
        db.run(|tx| tx.insert(&items, row![1, "one", 1, 1])).expect("inserted");
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.truncate(&["item"]).expect("emptied");
        let own = session.table("item").expect("its own");
        session.run(|tx| tx.insert(&own, row![2, "two", 2, 2])).expect("inserted");
        session.commit().expect("committed");
        add("o").expect("added");
        db.run(|tx| tx.update(&items, key![2], set! { n: 3 })).expect("written");
    };
    let check = |db: &Database| {
        let row = [Value::Int(2), text("two"), Value::Int(3), Value::Int(2), Value::Int(7)];
        assert_eq!(all(db), [row]);
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

#[test]
fn more_columns_than_a_word_has_bits_for_are_added() {
    let made = |db: &Database| {
        let items = items(db, 3);
        for at in 0..70 {
            change(db, TableChange::new().add_column(format!("c{at}"), DataType::Int64, at)).expect("added");
            if at % 10 == 0 {
                let name = format!("c{at}");
                db.run(|tx| tx.add(&items, key![1], name.as_str(), 1000)).expect("written");
            }
        }
    };
    let check = |db: &Database| {
        let expected =
            |id: i64| (0..70).map(move |at| Value::Int(at + if id == 1 && at % 10 == 0 { 1000 } else { 0 }));
        for id in 0..3 {
            assert_eq!(values(db, id).map(|row| row[2..].to_vec()), Some(expected(id).collect()));
        }
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

#[test]
fn snapshots_have_the_columns_of_their_time() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(heddledb::Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options");
        let items = items(&db, 3);
        let before = db.snapshot().expect("a snapshot");
        change(&db, TableChange::new().add_column("n", DataType::Int64, 7)).expect("added");
        let between = db.snapshot().expect("a snapshot");
        change(&db, TableChange::new().add_column("t", DataType::Text, LONG)).expect("added");
        db.run(|tx| tx.update(&items, key![1], set! { n: 8, t: "a value that is longer than a word" }))
            .expect("written");
        let after = db.snapshot().expect("a snapshot");
        db.run(|tx| tx.update(&items, key![1], set! { n: 9, t: "another value longer than a word" }))
            .expect("written");
        db.run(|tx| tx.delete(&items, key![2])).expect("deleted");
        let row = |snapshot: &heddledb::Snapshot, id: i64| {
            let row = snapshot.get(&items, key![id]).expect("read").expect("a row");
            row.row().to_values()[2..].to_vec()
        };
        assert_eq!((row(&before, 1), row(&before, 2)), (vec![], vec![]), "{protocol}");
        assert_eq!((row(&between, 1), row(&between, 2)), (vec![Value::Int(7)], vec![Value::Int(7)]));
        let changed = vec![Value::Int(8), text("a value that is longer than a word")];
        assert_eq!(
            (row(&after, 1), row(&after, 2)),
            (changed, vec![Value::Int(7), text(LONG)]),
            "{protocol}"
        );
        drop((before, between, after));
        assert_eq!(values(&db, 1).map(|row| row[2].clone()), Some(Value::Int(9)));
        assert_eq!(values(&db, 2), None);
    }
}

#[test]
fn a_session_has_its_column_at_once_and_a_rollback_takes_it_back() {
    let made = |db: &Database| {
        let old = items(db, 4);
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session
            .run(|tx| tx.insert(&old, row![10, "inserted before the column, and long"]))
            .expect("inserted");
        let add = TableChange::new().add_column("n", DataType::Int64, 7).not_null("n");
        let new = session.change_table("item", add).expect("added");
        session.run(|tx| tx.update(&new, key![1], set! { n: 8 })).expect("written");
        let savepoint = session.savepoint().expect("a savepoint");
        let wider = session.change_table("item", TableChange::new().add_column("t", DataType::Text, LONG));
        let wider = wider.expect("added");
        session.run(|tx| tx.update(&wider, key![2], set! { t: "x" })).expect("written");
        let read = |tx: &heddledb::Tx<'_, '_>, id: i64| {
            Ok(tx.get(&wider, key![id])?.map(|row| row.to_values()[2..].to_vec()))
        };
        let found = session.run(|tx| Ok([read(tx, 1)?, read(tx, 2)?, read(tx, 10)?])).expect("read");
        let row = |n: i64, t: &str| Some(vec![Value::Int(n), text(t)]);
        assert_eq!(found, [row(8, LONG), row(7, "x"), row(7, LONG)]);
        session.rollback_to(&savepoint).expect("rolled back");
        session.rollback().expect("rolled back");
        assert_eq!(values(db, 1).map(|row| row.len()), Some(2));
        assert_eq!(values(db, 10), None);

        session.begin().expect("begun");
        session
            .run(|tx| tx.insert(&old, row![11, "inserted before the column, and long"]))
            .expect("inserted");
        let add = TableChange::new().add_column("n", DataType::Int64, 7).not_null("n");
        let new = session.change_table("item", add).expect("added");
        session.run(|tx| tx.update(&new, key![1], set! { n: 8 })).expect("written");
        let savepoint = session.savepoint().expect("a savepoint");
        let add = TableChange::new().add_column("t", DataType::Text, LONG);
        session.change_table("item", add).expect("added");
        session.rollback_to(&savepoint).expect("rolled back");
        let add = TableChange::new().add_column("u", DataType::Text, LONG).add_index("by_u", ["u"]);
        let last = session.change_table("item", add).expect("added");
        session.run(|tx| tx.update(&last, key![2], set! { u: "two", n: 9 })).expect("written");
        db.run(|tx| tx.update(&old, key![3], set! { name: "written by another transaction" }))
            .expect("written");
        session.commit().expect("committed");
    };
    let check = |db: &Database| {
        let row = |id: i64| values(db, id).map(|row| row[2..].to_vec());
        assert_eq!(row(0), Some(vec![Value::Int(7), text(LONG)]));
        assert_eq!(row(1), Some(vec![Value::Int(8), text(LONG)]));
        assert_eq!(row(2), Some(vec![Value::Int(9), text("two")]));
        assert_eq!(row(11), Some(vec![Value::Int(7), text(LONG)]));
        assert_eq!(values(db, 3).map(|row| row[1].clone()), Some(text("written by another transaction")));
        let items = db.table("item").expect("the table");
        let found = db.run(|tx| Ok(tx.scan_index(&items, "by_u", Range::prefix(key!["two"]))?.count()));
        assert_eq!(found, Ok(1));
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

/// A record that another transaction takes over from a session which has added a column privately has no room for that column:
/// it is as if the session had never been there.
#[test]
fn a_record_that_a_session_with_a_private_column_has_made_is_one_of_the_table_in_force() {
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased] {
        let options = Options::default().durability(heddledb::Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let old = items(&db, 1);
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        let add =
            || TableChange::new().add_column("n", DataType::Int64, 7).add_column("t", DataType::Text, LONG);
        session.change_table("item", add()).expect("added");
        let add_wide = TableChange::new().add_column("u", DataType::Text, LONG);
        let new = session.change_table("item", add_wide).expect("added");
        let insert = session.run(|tx| {
            tx.insert(&new, row![5, "the session's, and long", 1, "one", "two"])?;
            thread::scope(|scope| {
                let rival = scope.spawn(|| db.run(|tx| tx.insert(&old, row![5, "the other's, and long"])));
                rival.join().expect("no panic")
            })
        });
        assert!(matches!(insert, Err(Error::DuplicateKey { .. })), "{protocol:?}: {insert:?}");
        session.rollback().expect("rolled back");
        assert_eq!(values(&db, 5).map(|row| row.len()), Some(2));
        change(&db, add()).expect("added");
        assert_eq!(values(&db, 5).map(|row| row[2..].to_vec()), Some(vec![Value::Int(7), text(LONG)]));
        db.check().expect("consistent");
    }
}

/// Rows that come in together with the column, at the session's accesses and at its commit.
#[test]
fn rows_that_a_session_inserts_after_it_has_added_columns_have_them() {
    let made = |db: &Database| {
        items(db, 1);
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        let add =
            TableChange::new().add_column("n", DataType::Int64, 7).add_column("t", DataType::Text, LONG);
        let new = session.change_table("item", add.add_index("by_n", ["n"])).expect("added");
        let rows: [(i64, Option<i64>, Option<&str>); 5] = [
            (1, Some(7), Some(LONG)),
            (2, Some(8), None),
            (3, None, Some("x")),
            (4, Some(9), Some(LONG)),
            (5, Some(5), None),
        ];
        session
            .run(|tx| rows.iter().try_for_each(|row| tx.insert(&new, row![row.0, "a name", row.1, row.2])))
            .expect("inserted");
        session
            .run(|tx| tx.update(&new, key![4], set! { n: 10, t: "another text that is long" }))
            .expect("written");
        session.run(|tx| tx.delete(&new, key![5])).expect("deleted");
        session.commit().expect("committed");
        let table = db.table("item").expect("the table");
        db.run(|tx| tx.update(&table, key![1], set! { n: 1, t: None::<&str> })).expect("written");
        db.run(|tx| tx.add(&table, key![2], "n", 1)).expect("written");
        change(db, TableChange::new().add_column("last", DataType::Int64, 3)).expect("added");
    };
    let check = |db: &Database| {
        let row = |id: i64| values(db, id).map(|row| row[2..].to_vec());
        let expected = |n: Value, t: Value| Some(vec![n, t, Value::Int(3)]);
        assert_eq!(row(0), expected(Value::Int(7), text(LONG)));
        assert_eq!(row(1), expected(Value::Int(1), Value::Null));
        assert_eq!(row(2), expected(Value::Int(9), Value::Null));
        assert_eq!(row(3), expected(Value::Null, text("x")));
        assert_eq!(row(4), expected(Value::Int(10), text("another text that is long")));
        assert_eq!(row(5), None);
        db.check().expect("consistent");
    };
    everywhere(made, check);
}

/// Threads move units between rows in the column added first, others write all columns; columns are added meanwhile, and
/// checkpoints are made. Each thread goes on until it has committed under each definition.
#[test]
fn columns_are_added_beside_writers_and_checkpoints() {
    const ROWS: i64 = 16;
    const COLUMNS: usize = 6;
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        let items = items(&db, ROWS);
        change(&db, TableChange::new().add_column("n", DataType::Int64, 100)).expect("added");
        let committed: [AtomicU64; 3] = Default::default();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (number, committed) in committed.iter().enumerate() {
                let (db, items, is_over) = (&db, &items, &is_over);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(number as u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let (from, to) = (random.i64(0..ROWS), random.i64(0..ROWS));
                        db.run(|tx| {
                            if number == 2 {
                                return tx.update(
                                    items,
                                    key![from],
                                    set! { name: &format!("a name for {to}, long") },
                                );
                            }
                            tx.add(items, key![from], "n", -1)?;
                            tx.add(items, key![to], "n", 1)
                        })
                        .expect("committed");
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for at in 0..COLUMNS {
                let before = committed.each_ref().map(|committed| committed.load(Ordering::Relaxed));
                while committed.iter().zip(before).any(|(now, before)| now.load(Ordering::Relaxed) == before)
                {
                    thread::yield_now();
                }
                let add = TableChange::new().add_column(format!("c{at}"), DataType::Text, LONG);
                if at % 2 == 0 {
                    scope.spawn(|| db.checkpoint().expect("a checkpoint"));
                }
                change(&db, add).expect("added");
                let name = format!("c{at}");
                let write = |tx: &heddledb::Tx<'_, '_>| {
                    tx.update(
                        &items,
                        key![at as i64],
                        &[(name.as_str(), "written, and longer than a word".into())],
                    )
                };
                db.run(write).expect("written");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let check = |db: &Database, what: &str| {
            let rows = all(db);
            let total: i64 = rows.iter().map(|row| if let Value::Int(n) = row[2] { n } else { 0 }).sum();
            assert_eq!(total, 100 * ROWS, "{protocol}, {what}");
            for (id, row) in rows.iter().enumerate() {
                for at in 0..COLUMNS {
                    let expected = if at == id { "written, and longer than a word" } else { LONG };
                    assert_eq!(row[3 + at], text(expected), "{protocol}, {what}: column {at} of {id}");
                }
            }
            db.check().expect("consistent");
        };
        check(&db, "before");
        db.close().expect("closed");
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        check(&db, "recovered");
        db.checkpoint().expect("a checkpoint");
        db.close().expect("closed");
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        check(&db, "from a checkpoint");
    }
}

/// What the rows are to be, by key: the values of all columns but the key.
type Model = std::collections::BTreeMap<i64, Vec<Value>>;

fn random_value(random: &mut Rng, is_text: bool) -> Value {
    match random.u8(0..4) {
        0 => Value::Null,
        _ if !is_text => Value::Int(random.i64(0..100)),
        1 => text("short"),
        _ => text(&format!("a text that is longer than a word: {}", random.u8(0..100))),
    }
}

/// One random step, done to the database and to the model.
fn step(db: &Database, model: &mut Model, types: &mut Vec<bool>, random: &mut Rng) {
    let items = db.table("item").expect("the table");
    let id = random.i64(0..12);
    let name = |column: usize| format!("c{column}");
    match random.u8(0..10) {
        0 if types.len() < 40 => {
            let is_text = random.bool();
            let (data_type, value) =
                (if is_text { DataType::Text } else { DataType::Int64 }, random_value(random, is_text));
            change(db, TableChange::new().add_column(name(types.len()), data_type, value.clone()))
                .expect("added");
            model.values_mut().for_each(|row| row.push(value.clone()));
            types.push(is_text);
        }
        1 => {
            db.run(|tx| tx.delete(&items, key![id])).expect("deleted");
            model.remove(&id);
        }
        2 | 3 => {
            let row: Vec<Value> = types.iter().map(|&is_text| random_value(random, is_text)).collect();
            let values = [Value::Int(id)].into_iter().chain(row.clone()).collect::<Vec<_>>();
            db.run(|tx| {
                tx.delete(&items, key![id])?;
                tx.insert(&items, values.iter().map(heddledb::ValueRef::from).collect::<Vec<_>>())
            })
            .expect("inserted");
            model.insert(id, row);
        }
        _ => {
            let Some(row) = model.get_mut(&id) else { return };
            let column = random.usize(0..types.len());
            let value = random_value(random, types[column]);
            let changes = [(name(column), value.clone())];
            let changes: Vec<_> = changes
                .iter()
                .map(|(name, value)| (name.as_str(), heddledb::ValueRef::from(value)))
                .collect();
            db.run(|tx| tx.update(&items, key![id], &changes)).expect("updated");
            row[column] = value;
        }
    }
}

/// A database that comes back from whatever happens to it, where it is, and its snapshots with what they are to show.
struct Life {
    protocol: ProtocolKind,
    disk: SimulatedDisk,
    place: String,
    db: Option<Database>,
    snapshots: Vec<(Snapshot, Table, Vec<Vec<Value>>)>,
}

impl Life {
    fn begin(protocol: ProtocolKind) -> Life {
        let (disk, place) = (SimulatedDisk::new(), DATABASE.to_string());
        let mut life = Life { protocol, disk, place, db: None, snapshots: Vec::new() };
        life.open();
        life
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("it is open")
    }

    fn options(&self) -> Options {
        on_disk(&self.disk).protocol(self.protocol)
    }

    fn open(&mut self) {
        self.db = Some(Database::open(&self.place, self.options()).expect("opened"));
    }

    fn close(&mut self) {
        self.snapshots.clear();
        self.db.take().expect("it is open").close().expect("closed");
    }

    fn lose_power(&mut self, seed: u64) {
        self.snapshots.clear();
        let image = self.disk.crash_image(seed);
        self.db = None;
        self.disk = image;
        self.open();
    }

    /// From here on it is what a backup has kept.
    fn restore(&mut self, number: usize) {
        let backup = format!("backup {number}");
        self.db().backup(&backup).expect("backed up");
        self.close();
        self.place = format!("restored {number}");
        Database::restore(&backup, &self.place, self.options(), &mut |_, _| ()).expect("restored");
        self.open();
    }

    fn keep_snapshot(&mut self, rows: Vec<Vec<Value>>) {
        let items = self.db().table("item").expect("the table");
        let snapshot = self.db().snapshot().expect("a snapshot");
        self.snapshots.truncate(3);
        self.snapshots.insert(0, (snapshot, items, rows));
    }

    fn check(&self, expected: &[Vec<Value>], context: &str) {
        assert_eq!(all(self.db()), expected, "{context}");
        for (snapshot, items, expected) in &self.snapshots {
            let rows = snapshot.scan(items, Range::all()).expect("a scan");
            let rows: Vec<_> = rows.map(|row| row.expect("a row").to_values()).collect();
            assert_eq!(rows, *expected, "{context}, in a snapshot");
        }
        self.db().check().expect("consistent");
    }
}

#[test]
fn random_changes_leave_what_a_model_has_whatever_happens_to_the_database() {
    for seed in 0..10 {
        let mut random = Rng::with_seed(seed);
        let mut life = Life::begin(ProtocolKind::ALL[seed as usize % ProtocolKind::ALL.len()]);
        let definition =
            TableDefinition::new("item").column("id", DataType::Int64).column("c0", DataType::Int64);
        life.db().create_table(definition.primary_key(["id"])).expect("created");
        let (mut model, mut types) = (Model::new(), vec![false]);
        for at in 0..200 {
            step(life.db(), &mut model, &mut types, &mut random);
            let rows = || -> Vec<Vec<Value>> {
                let row = |(&id, row): (&i64, &Vec<Value>)| {
                    [Value::Int(id)].into_iter().chain(row.iter().cloned()).collect()
                };
                model.iter().map(row).collect()
            };
            match random.u8(0..120) {
                0 => drop(life.db().checkpoint().expect("a checkpoint")),
                1 => {
                    life.close();
                    life.open();
                }
                2 => life.lose_power(random.u64(..)),
                3 => life.restore(at),
                4..16 => life.keep_snapshot(rows()),
                _ => {}
            }
            if at % 10 == 0 {
                life.check(&rows(), &format!("seed {seed}, step {at}"));
            }
        }
    }
}
