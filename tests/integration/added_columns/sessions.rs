//! Added columns in snapshots and sessions, which have them before others do, or no more.

use std::thread;

use heddledb::{DataType, Database, Error, Options, ProtocolKind, Range, TableChange, Value, key, row, set};

use super::{LONG, change, items, text, values};
use crate::support::tables::everywhere;

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
