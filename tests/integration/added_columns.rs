//! Columns that are added to tables with rows, which stay as they are: what the rows have there before and after they are
//! written, under every protocol, in snapshots, sessions and indexes, beside writers and checkpoints, and after recovery.

mod random_changes;
mod sessions;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::tables::{DATABASE, everywhere, in_memory, on_disk};
use fastrand::Rng;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, ForeignKey, ProtocolKind, Range, Result, Table, TableChange, TableDefinition,
    Value, key, row, set,
};

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
