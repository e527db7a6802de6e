//! Tests of the errors of a feed, and of its end.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{DataType, Database, Durability, Error, Feed, Options, Table, TableDefinition, row};

use super::copy::{int, now};
use crate::support::concurrent::{on_disk, open, small, watched};

fn table(db: &Database) -> Table {
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    db.open_table(definition).expect("a table")
}

fn is_refused(result: heddledb::Result<Feed>, words: &str) {
    let error = result.expect_err("a refusal");
    assert!(matches!(error, Error::InvalidOption { option: "durability", .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn without_a_log_there_is_no_feed() {
    watched(|| {
        let db = Database::in_memory().expect("options");
        let items = table(&db);
        is_refused(db.watch(&items, 0), "nothing is logged");
        is_refused(db.create_feed("search", &items, 0), "nothing is logged");
        is_refused(db.feed("search"), "nothing is logged");
        assert!(db.feeds().is_err() && db.drop_feed("search").is_err());
        let (db, disk) = on_disk(small());
        table(&db);
        db.close().expect("closed");
        for options in [small().durability(Durability::None), small().read_only(true)] {
            let db = open(&disk, options);
            is_refused(db.watch(&db.table("item").expect("it"), 0), "nothing is logged");
        }
    });
}

#[test]
fn epochs_that_have_not_come_and_tables_of_others_are_refused() {
    watched(|| {
        let ((db, _disk), (other, _other_disk)) = (on_disk(small()), on_disk(small()));
        let (items, foreign) = (table(&db), table(&other));
        let late = now(&db) + 1_000_000;
        assert!(matches!(db.watch(&items, late), Err(Error::FeedNotReached { epoch, .. }) if epoch == late));
        assert!(matches!(db.watch(&items, u64::MAX), Err(Error::FeedNotReached { .. })));
        assert!(matches!(db.watch(&foreign, 0), Err(Error::ForeignTable { .. })));
        let mut feed = db.create_feed("search", &items, 0).expect("a feed");
        assert!(matches!(feed.acknowledge(u64::MAX), Err(Error::FeedNotReached { .. })));
        let nested = db.run(|_| db.watch(&items, 0).map(drop));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        let nested = db.run(|_| feed.try_next().map(drop));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        let nested = db.run(|_| feed.next_timeout(Duration::ZERO).map(drop));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        let nested = db.run(|_| feed.acknowledge(1));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        let nested = db.run(|_| db.feeds().map(drop));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        assert!(feed.next_timeout(Duration::ZERO).expect("nothing").is_none());
    });
}

#[test]
fn a_slow_reader_gets_an_error_that_says_how_far_it_lags() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let options = Options::default()
            .disk(Arc::new(disk.clone()))
            .log(|log| log.segment_bytes(64 << 10).buffer_bytes(4 << 10))
            .checkpoints(|checkpoints| checkpoints.log_bytes(0));
        let db = Database::open("shop", options).expect("a database");
        let items = table(&db);
        let mut feed = db.watch(&items, now(&db)).expect("a feed");
        db.run(|tx| tx.insert(&items, row![0, "x"])).expect("a row");
        assert_eq!(feed.next().expect("a batch").changes().len(), 1);
        let at = feed.epoch();
        for id in 1..60 {
            db.run(|tx| tx.insert(&items, row![id, "x".repeat(8_000)])).expect("a row");
        }
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed > 3);
        // What its open file still has may come; nothing is left out before the error.
        let mut next = 1;
        let error = loop {
            match feed.try_next() {
                Ok(Some(batch)) => {
                    for change in &batch {
                        assert_eq!(int(&change.key().expect("a row")[0]), next);
                        next += 1;
                    }
                }
                Ok(None) => panic!("it ended at {next}"),
                Err(error) => break error,
            }
        };
        let Error::FeedTooOld { epoch, lag, oldest, .. } = error else { panic!("{error}") };
        assert!(epoch >= at && lag >= 40 && oldest > epoch, "epoch {epoch}, lag {lag}, oldest {oldest}");
        assert!(error.to_string().contains(&format!("{lag} epochs behind")), "{error}");
        assert_eq!(error.sqlstate(), "72000");
    });
}

#[test]
fn closing_the_database_ends_a_wait() {
    watched(|| {
        let (db, _disk) = on_disk(small());
        let items = table(&db);
        let mut feed = db.watch(&items, now(&db)).expect("a feed");
        let reader = thread::spawn(move || feed.next().map(drop));
        db.close().expect("closed");
        assert_eq!(reader.join().expect("no panic"), Err(Error::Closed));
    });
}

#[test]
fn a_feed_keeps_its_database_open_and_can_move_between_threads() {
    watched(|| {
        let (db, _disk) = on_disk(small());
        let items = table(&db);
        let mut feed = db.watch(&items, 0).expect("a feed");
        db.run(|tx| tx.insert(&items, row![1, "x"])).expect("a row");
        drop((db, items));
        let reader = thread::spawn(move || feed.next().map(|batch| batch.changes().len()));
        assert_eq!(reader.join().expect("no panic"), Ok(1));
    });
}

#[test]
fn when_the_log_has_failed_the_durable_changes_come_first() {
    watched(|| {
        let (db, disk) = on_disk(small());
        let items = table(&db);
        let mut feed = db.watch(&items, now(&db)).expect("a feed");
        db.run(|tx| tx.insert(&items, row![1, "x"])).expect("a row");
        disk.fail_from_now(Operation::Sync, Fault::InputOutput);
        db.run(|tx| tx.insert(&items, row![2, "x"])).expect_err("the disk is broken");
        let batch = feed.next().expect("a batch");
        assert_eq!((batch.changes().len(), int(&batch.changes()[0].key().expect("a row")[0])), (1, 1));
        let failed = feed.next();
        assert!(matches!(failed, Err(Error::LogFailed { .. })), "{failed:?}");
    });
}
