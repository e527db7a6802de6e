//! Schema changes in the stream.

use std::sync::atomic::{AtomicBool, Ordering};

use heddledb::{
    Change, ColumnChange, DataType, Database, Error, Table, TableChange, TableDefinition, key, row,
};

use super::copy::{Copy, int, now};
use crate::support::concurrent::{on_disk, open, small, watched};

fn opened() -> (Database, heddledb::testing::SimulatedDisk, Table) {
    let (db, disk) = on_disk(small().checkpoints(|c| c.log_bytes(0).seconds(0.0)));
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (1..=3).try_for_each(|id| tx.insert(&table, row![id, "first"]))).expect("rows");
    (db, disk, table)
}

/// The output of a feed, a word for each change.
fn words(db: &Database, table: &Table, after: u64) -> Vec<String> {
    let (mut feed, mut words, end) = (db.watch(table, after).expect("a feed"), Vec::new(), now(db));
    while !feed.has_given(end) && words.last().is_none_or(|last| last != "Drop") {
        for change in feed.try_next().expect("readable").iter().flatten() {
            words.push(match change {
                Change::Insert { row, .. } => format!("insert {row:?}"),
                Change::Update { columns, .. } => format!("update {columns:?}"),
                Change::Delete { key } => format!("delete {}", int(&key[0])),
                Change::AddColumn { name, value } => format!("add {name}: {value:?}"),
                Change::Rewrite { definition } => {
                    format!("rewrite of {} columns", definition.columns().len())
                }
                other => format!("{other:?}"),
            });
        }
    }
    words
}

#[test]
fn a_rewritten_table_comes_again_and_an_emptied_one_is_empty() {
    watched(|| {
        let (db, disk, table) = opened();
        let (mut copy, epoch) = Copy::of(&db, &table);
        db.run(|tx| tx.update(&table, key![1], &[("name", "old".into())])).expect("an update");
        let copying = TableChange::new().convert("name", DataType::Text, Ok);
        db.change_table("item", copying.add_column("price", DataType::Int64, 7)).expect("a column");
        db.run(|tx| tx.update(&table, key![2], &[("price", 8.into())])).expect("an update");
        db.change_table("item", TableChange::new().add_column("count", DataType::Int64, 1))
            .expect("a column");
        db.truncate(&["item"]).expect("emptied");
        db.run(|tx| tx.insert(&table, row![9, "last", 9, 1])).expect("a row");
        let expected = words(&db, &table, epoch);
        assert_eq!(expected.len(), 9, "{expected:#?}");
        assert_eq!(expected[1], "rewrite of 3 columns");
        assert!(expected[2..5].iter().all(|word| word.starts_with("insert")), "{expected:#?}");
        assert_eq!(expected[6], "add count: Int(1)");
        assert_eq!(expected[7], "rewrite of 4 columns");
        copy.follow(&mut db.watch(&table, epoch).expect("a feed"), now(&db));
        assert_eq!(copy, Copy::of(&db, &table).0);
        drop(table);
        db.close().expect("closed");
        let db = open(&disk, small());
        let table = db.table("item").expect("the table");
        assert_eq!(words(&db, &table, epoch), expected, "after a restart, too");
        assert_eq!(words(&db, &table, 0).len(), 3 + 9);
    });
}

#[test]
fn a_change_that_keeps_the_rows_changes_names_only() {
    watched(|| {
        let (db, _disk, table) = opened();
        let epoch = now(&db);
        let mut feed = db.watch(&table, epoch).expect("a feed");
        db.run(|tx| tx.update(&table, key![1], &[("name", "a".into())])).expect("an update");
        let name_of = |feed: &mut heddledb::Feed| {
            let batch = feed.next().expect("a batch");
            let [Change::Update { columns, .. }] = batch.changes() else { panic!("{batch:?}") };
            columns.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(name_of(&mut feed), ["name"]);
        let change = TableChange::new()
            .rename_column("name", "title")
            .rename("thing")
            .add_index("by_title", ["title"]);
        db.change_table("item", change).expect("renamed");
        db.run(|tx| tx.update(&table, key![1], &[("title", "b".into())])).expect("an update");
        assert_eq!(name_of(&mut feed), ["title"], "and nothing about the schema change");
    });
}

#[test]
fn a_copy_follows_columns_that_are_added_and_rows_written_before_and_after() {
    watched(|| {
        let (db, disk, table) = opened();
        let (copy, epoch) = Copy::of(&db, &table);
        let add = |name: &str, value: i64| {
            db.change_table("item", TableChange::new().add_column(name, DataType::Int64, value))
                .expect("added");
        };
        db.run(|tx| tx.update(&table, key![1], &[("name", "a".into())])).expect("an update");
        db.run(|tx| tx.insert(&table, row![4, "before"])).expect("a row");
        add("n", 7);
        db.run(|tx| tx.update(&table, key![1], &[("n", 8.into())])).expect("an update");
        db.run(|tx| tx.update(&table, key![2], &[("name", "b".into())])).expect("an update");
        db.run(|tx| tx.insert(&table, row![5, "between", 9])).expect("a row");
        add("m", 1);
        db.run(|tx| tx.add(&table, key![4], "m", 1)).expect("an update");
        let follows = |db: &Database, table: &Table, what: &str| {
            let mut copy = copy.clone();
            copy.follow(&mut db.watch(table, epoch).expect("a feed"), now(db));
            assert_eq!(copy, Copy::of(db, table).0, "{what}");
        };
        follows(&db, &table, "at once");
        drop(table);
        db.close().expect("closed");
        let db = open(&disk, small());
        follows(&db, &db.table("item").expect("the table"), "after a restart");
    });
}

#[test]
fn rows_written_before_a_rewrite_in_the_same_transaction_come_once() {
    watched(|| {
        let (db, disk, table) = opened();
        let (mut copy, epoch) = Copy::of(&db, &table);
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.insert(&table, row![4, "new"])).expect("a row");
        session.truncate(&["item"]).expect("emptied");
        let own = session.table("item").expect("the table");
        session.run(|tx| tx.insert(&own, row![5, "newer"])).expect("a row");
        let change = TableChange::new().add_column("n", DataType::Int64, 0).rename("thing");
        let own = session.change_table("item", change).expect("changed");
        session.run(|tx| tx.insert(&own, row![6, "newest", 1])).expect("a row");
        let other = TableDefinition::new("item").column("id", DataType::Int64).primary_key(["id"]);
        let other = session.create_table(other).expect("another table of the old name");
        session.run(|tx| tx.insert(&other, row![77])).expect("a row");
        session.commit().expect("committed");
        let mut feed = db.watch(&table, epoch).expect("a feed");
        let batch = feed.next().expect("a batch");
        assert!(matches!(batch.changes()[0], Change::Rewrite { .. }), "{batch:?}");
        copy.take(&batch);
        assert_eq!(copy.rows.keys().copied().collect::<Vec<_>>(), [5, 6]);
        assert_eq!(copy, Copy::of(&db, &table).0);
        drop((session, feed, table, other));
        db.close().expect("closed");
        let db = open(&disk, small());
        let (thing, item) = (db.table("thing").expect("it"), db.table("item").expect("the other"));
        let again = db.watch(&thing, epoch).expect("a feed").next().expect("a batch");
        assert_eq!(again.changes().len(), batch.changes().len());
        let mut of_other = Copy::default();
        of_other.follow(&mut db.watch(&item, 0).expect("a feed"), now(&db));
        assert_eq!(of_other.rows.keys().copied().collect::<Vec<_>>(), [77]);
    });
}

#[test]
fn a_dropped_table_is_the_end() {
    watched(|| {
        let (db, disk, table) = opened();
        let epoch = now(&db);
        let mut feed = db.watch(&table, epoch).expect("a feed");
        let mut named = db.create_feed("search", &table, u64::MAX).expect("a feed");
        db.run(|tx| tx.delete(&table, key![1])).expect("a delete");
        db.drop_table("item").expect("dropped");
        // A table of the same name is another one.
        let definition = TableDefinition::new("item").column("id", DataType::Int64).primary_key(["id"]);
        let other = db.create_table(definition).expect("a table");
        db.run(|tx| tx.insert(&other, row![1])).expect("a row");
        for feed in [&mut feed, &mut named] {
            let batch = feed.next().expect("a batch");
            assert!(matches!(batch.changes(), [Change::Delete { .. }]), "{batch:?}");
            let batch = feed.next().expect("a batch");
            assert!(matches!(batch.changes(), [Change::Drop]), "{batch:?}");
            assert!(matches!(feed.next(), Err(Error::TableDropped { .. })));
            assert!(matches!(feed.try_next(), Err(Error::TableDropped { .. })));
        }
        assert!(matches!(db.watch(&table, now(&db)), Err(Error::TableDropped { .. })));
        assert_eq!(
            words(&db, &table, epoch).last().map(String::as_str),
            Some("Drop"),
            "from an old epoch on"
        );
        drop((feed, named, table, other));
        db.close().expect("closed");
        let db = open(&disk, small());
        let mut named = db.feed("search").expect("the feed");
        assert_eq!(named.next().expect("a batch").changes().len(), 1);
        assert!(matches!(named.next().expect("a batch").changes(), [Change::Drop]));
        assert!(named.next().is_err());
        db.drop_feed("search").expect("dropped");
    });
}

#[test]
fn a_type_change_gives_the_new_type() {
    watched(|| {
        let (db, _disk, table) = opened();
        let epoch = now(&db);
        let change = TableChange::new().add_column("n", DataType::Int32, 0).drop_column("name");
        db.change_table("item", change).expect("changed");
        db.run(|tx| tx.add(&table, key![3], "n", 5)).expect("an operation");
        let mut feed = db.watch(&table, epoch).expect("a feed");
        assert_eq!(feed.next().expect("a batch").changes().len(), 4);
        let batch = feed.next().expect("a batch");
        let [Change::Update { columns, .. }] = batch.changes() else { panic!("{batch:?}") };
        assert_eq!(
            columns.get("n"),
            Some(&ColumnChange::Set(5.into())),
            "operations that are not split come as values"
        );
        assert_eq!(columns.get("name"), None);
    });
}

#[test]
fn a_named_feed_follows_a_rewritten_table_across_checkpoints_and_restarts() {
    watched(|| {
        let (db, disk, table) = opened();
        let (mut copy, epoch) = Copy::of(&db, &table);
        let mut feed = db.create_feed("search", &table, u64::MAX).expect("a feed");
        feed.acknowledge(epoch).expect("durable");
        db.run(|tx| tx.insert(&table, row![4, "before"])).expect("a row");
        db.truncate(&["item"]).expect("emptied");
        db.run(|tx| tx.insert(&table, row![5, "between"])).expect("a row");
        db.change_table("item", TableChange::new().add_column("n", DataType::Int64, 1)).expect("a column");
        db.checkpoint().expect("a checkpoint");
        db.run(|tx| tx.insert(&table, row![6, "after", 2])).expect("a row");
        drop((feed, table));
        db.close().expect("closed");
        let db = open(&disk, small());
        let table = db.table("item").expect("the table");
        let mut feed = db.feed("search").expect("the feed");
        assert_eq!(feed.epoch(), epoch);
        let first = feed.next().expect("a batch");
        assert!(
            matches!(first.changes(), [Change::Insert { .. }]),
            "before the table was emptied: {first:?}"
        );
        copy.take(&first);
        copy.follow(&mut feed, now(&db));
        assert_eq!(copy, Copy::of(&db, &table).0);
        let mut again = Copy::default();
        again.follow(&mut db.watch(&table, 0).expect("a feed"), now(&db));
        assert_eq!(again, copy);
    });
}

/// Writes rows of a table whose columns become more meanwhile: updates of all columns that there are, inserts and deletes.
fn write_all_the_time(db: &Database, table: &Table, (writer, is_over): (i64, &AtomicBool)) {
    let mut next = 1_000 * writer;
    while !is_over.load(Ordering::Relaxed) {
        next += 1;
        let written = db.run(|tx| {
            let columns = table.definition().columns().len();
            let mut new = vec![next.into(), "new".into()];
            new.extend((2..columns).map(|column| heddledb::ValueRef::Int(column as i64)));
            tx.insert(table, &new[..])?;
            let last = table.definition().columns()[columns - 1].name.clone();
            if columns > 2 {
                tx.update(table, key![1 + next % 3], &[(&*last, next.into())])?;
            }
            tx.update(table, key![1 + next % 3], &[("name", "again".into())])?;
            tx.delete(table, key![next - 5]).map(|_| ())
        });
        match written {
            // The table was changed between the look at its columns and the transaction.
            Ok(()) | Err(Error::WrongRow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        // The smallest transactions, which commit in a straight line.
        let columns = table.definition().columns().len();
        if columns > 2 {
            let last = table.definition().columns()[columns - 1].name.clone();
            db.run(|tx| tx.update(table, key![2], &[(&*last, next.into())])).expect("an update");
        }
    }
}

#[test]
fn a_copy_follows_columns_that_are_added_beside_writers() {
    for &protocol in heddledb::ProtocolKind::ALL {
        watched(move || {
            let (db, _disk) =
                on_disk(small().protocol(protocol).workers(2).checkpoints(|c| c.log_bytes(0).seconds(0.0)));
            let definition = TableDefinition::new("item")
                .column("id", DataType::Int64)
                .column("name", DataType::Text)
                .primary_key(["id"]);
            let table = db.create_table(definition).expect("a table");
            db.run(|tx| (1..=3).try_for_each(|id| tx.insert(&table, row![id, "first"]))).expect("rows");
            let (mut copy, epoch) = Copy::of(&db, &table);
            let mut feed = db.watch(&table, epoch).expect("a feed");
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for writer in 1..=3 {
                    let (db, table, is_over) = (&db, &table, &is_over);
                    scope.spawn(move || write_all_the_time(db, table, (writer, is_over)));
                }
                for column in 0..12 {
                    let change = TableChange::new().add_column(format!("c{column}"), DataType::Int64, column);
                    db.change_table("item", change).expect("added");
                    std::thread::sleep(std::time::Duration::from_millis(3));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            copy.follow(&mut feed, now(&db));
            assert_eq!(copy, Copy::of(&db, &table).0, "{protocol}");
        });
    }
}
