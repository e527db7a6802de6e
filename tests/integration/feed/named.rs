//! Named feeds: what they remember, and what they hold back.

use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{DataType, Database, Durability, Error, Feed, Options, Table, TableDefinition, key, row};

use super::copy::{Copy, int, now};
use crate::support::concurrent::watched;

const SEGMENT: u64 = 64 << 10;

fn options(disk: &SimulatedDisk) -> Options {
    Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(SEGMENT).buffer_bytes(4 << 10))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0))
}

fn open(disk: &SimulatedDisk) -> Database {
    Database::open("shop", options(disk)).expect("a database")
}

fn table(db: &Database, name: &str) -> Table {
    let definition = TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    db.open_table(definition).expect("a table")
}

/// Inserts rows until the log has this many more segments, about.
fn fill(db: &Database, table: &Table, segments: i64) {
    let first = db.run(|tx| Ok(tx.scan(table, heddledb::Range::all())?.count() as i64)).expect("a count");
    for id in first..first + 8 * segments {
        db.run(|tx| tx.insert(table, row![id, "x".repeat(8_000)])).expect("a row");
    }
}

fn ids(feed: &mut Feed, end: u64) -> Vec<i64> {
    let mut ids = Vec::new();
    while !feed.has_given(end) {
        for change in feed.try_next().expect("readable").iter().flatten() {
            ids.push(int(&change.key().expect("a row")[0]));
        }
    }
    ids
}

#[test]
fn a_named_feed_goes_on_behind_what_was_acknowledged() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let items = table(&db, "item");
        db.run(|tx| tx.insert(&items, row![-1, "before"])).expect("a row");
        let mut feed = db.create_feed("search", &items, 1 << 30).expect("a feed");
        for id in 0..10 {
            db.run(|tx| tx.insert(&items, row![id, "x"])).expect("a row");
        }
        let mut epochs = Vec::new();
        for id in 0..10 {
            let batch = feed.next().expect("a batch");
            assert_eq!(int(&batch.changes()[0].key().expect("a row")[0]), id);
            epochs.push(batch.epoch());
        }
        feed.acknowledge(epochs[3]).expect("durable");
        feed.acknowledge(epochs[1]).expect("nothing happens");
        let behind = |db: &Database| {
            let mut feed = db.feed("search").expect("the feed");
            assert_eq!(feed.epoch(), epochs[3]);
            ids(&mut feed, now(db))
        };
        assert_eq!(behind(&db), [4, 5, 6, 7, 8, 9]);
        drop((feed, items));
        db.close().expect("closed");
        let db = open(&disk);
        assert_eq!(behind(&db), [4, 5, 6, 7, 8, 9]);
        let status = db.feeds().expect("feeds").remove(0);
        assert_eq!(
            (status.name.as_str(), status.table.as_str(), status.epoch),
            ("search", "item", epochs[3])
        );
        assert!(!status.has_failed && status.lag > 0 && status.log_bytes == 1 << 30, "{status:?}");
    });
}

#[test]
fn the_log_is_kept_for_a_named_feed_across_checkpoints_and_restarts() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let items = table(&db, "item");
        let (mut copy, epoch) = Copy::of(&db, &items);
        let mut feed = db.create_feed("search", &items, 1 << 30).expect("a feed");
        feed.acknowledge(epoch).expect("durable");
        fill(&db, &items, 4);
        assert_eq!(db.checkpoint().expect("a checkpoint").log_segments_removed, 0);
        drop(feed);
        // Twice: what is held is found again when the log begins behind it.
        let (mut db, mut items) = (db, items);
        for _ in 0..2 {
            drop(items);
            db.close().expect("closed");
            db = open(&disk);
            items = table(&db, "item");
            fill(&db, &items, 2);
            assert_eq!(db.checkpoint().expect("a checkpoint").log_segments_removed, 0);
        }
        assert!(db.feeds().expect("feeds")[0].lag_bytes >= 7 * SEGMENT);
        let mut feed = db.feed("search").expect("the feed");
        copy.follow(&mut feed, now(&db));
        assert_eq!(copy, Copy::of(&db, &items).0);
        // An unnamed feed profits from it.
        assert_eq!(ids(&mut db.watch(&items, epoch).expect("a feed"), now(&db)).len(), copy.rows.len());
        feed.acknowledge(feed.epoch()).expect("durable");
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed >= 7);
        let gone = db.watch(&items, epoch).map(drop);
        let Err(Error::FeedTooOld { epoch: asked, lag, oldest, .. }) = gone else { panic!("{gone:?}") };
        assert!(asked == epoch && lag > 0 && oldest > epoch, "{gone:?}");
    });
}

#[test]
fn a_feed_beyond_its_limit_names_the_oldest_epoch_and_begins_again() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let items = table(&db, "item");
        let mut slow = db.create_feed("slow", &items, 3 * SEGMENT).expect("a feed");
        let mut other = db.create_feed("other", &items, 1 << 30).expect("a feed");
        fill(&db, &items, 2);
        assert_eq!(db.checkpoint().expect("a checkpoint").log_segments_removed, 0, "within the limit");
        other.acknowledge(now(&db)).expect("durable");
        fill(&db, &items, 5);
        let before = slow.epoch();
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed > 0);
        let failed = db.feeds().expect("feeds").into_iter().find(|feed| feed.has_failed).expect("one");
        assert_eq!(failed.name, "slow");
        let Err(Error::FeedTooOld { epoch, lag, oldest, table }) = slow.next() else {
            panic!("it should fail")
        };
        assert_eq!((epoch, table.as_str()), (before, "item"));
        assert!(lag > 0 && oldest > epoch);
        assert!(matches!(slow.next(), Err(Error::FeedTooOld { .. })), "and again");
        // The oldest epoch is one from which everything is there.
        let rest = ids(&mut db.watch(&items, oldest).expect("a feed"), now(&db));
        assert!(rest.is_sorted() && rest.last() == Some(&55) && rest.len() > 8, "{rest:?}");
        // Begun again with a snapshot, it holds the log again.
        let (mut copy, epoch) = Copy::of(&db, &items);
        slow.acknowledge(epoch).expect("durable");
        fill(&db, &items, 2);
        other.acknowledge(now(&db)).expect("durable");
        db.checkpoint().expect("a checkpoint");
        copy.follow(&mut slow, now(&db));
        assert_eq!(copy, Copy::of(&db, &items).0);
        assert!(db.feeds().expect("feeds").iter().all(|feed| !feed.has_failed));
    });
}

#[test]
fn a_feed_that_fails_while_the_database_is_closed_says_so() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let items = table(&db, "item");
        drop(db.create_feed("slow", &items, 0).expect("a feed"));
        fill(&db, &items, 4);
        db.checkpoint().expect("a checkpoint");
        drop(items);
        db.close().expect("closed");
        let db = open(&disk);
        let mut feed = db.feed("slow").expect("the feed");
        assert!(matches!(feed.try_next(), Err(Error::FeedTooOld { .. })));
        db.drop_feed("slow").expect("dropped");
        assert!(matches!(db.feed("slow"), Err(Error::UnknownFeed { .. })));
        assert!(matches!(feed.acknowledge(now(&db)), Err(Error::UnknownFeed { .. })));
    });
}

#[test]
fn a_feed_of_a_table_that_does_not_change_holds_nothing_for_long() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let (items, quiet) = (table(&db, "item"), table(&db, "quiet"));
        let mut feed = db.create_feed("quiet", &quiet, u64::MAX).expect("a feed");
        fill(&db, &items, 4);
        let end = now(&db);
        while !feed.has_given(end) {
            assert!(feed.try_next().expect("readable").is_none());
        }
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed >= 3);
        // But what was given out and not acknowledged stays.
        db.run(|tx| tx.insert(&quiet, row![1, "x"])).expect("a row");
        let batch = feed.next().expect("a batch");
        fill(&db, &items, 4);
        let end = now(&db);
        while !feed.has_given(end) {
            assert!(feed.try_next().expect("readable").is_none());
        }
        db.checkpoint().expect("a checkpoint");
        assert_eq!(ids(&mut db.feed("quiet").expect("the feed"), now(&db)), [1]);
        feed.acknowledge(batch.epoch()).expect("durable");
        assert!(feed.try_next().expect("readable").is_none());
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed >= 3);
    });
}

#[test]
fn names_are_there_once_and_dropped_feeds_hold_nothing() {
    watched(|| {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let items = table(&db, "item");
        let feed = db.create_feed("search", &items, u64::MAX).expect("a feed");
        assert_eq!(
            db.create_feed("search", &items, 0).map(drop),
            Err(Error::FeedExists { feed: "search".into() })
        );
        assert_eq!(db.feed("other").map(drop), Err(Error::UnknownFeed { feed: "other".into() }));
        assert_eq!(db.drop_feed("other"), Err(Error::UnknownFeed { feed: "other".into() }));
        fill(&db, &items, 3);
        assert_eq!(db.checkpoint().expect("a checkpoint").log_segments_removed, 0);
        db.drop_feed("search").expect("dropped");
        assert_eq!(db.feeds(), Ok(Vec::new()));
        assert!(db.checkpoint().expect("a checkpoint").log_segments_removed >= 2);
        drop(feed);
        db.create_feed("search", &items, u64::MAX).expect("a feed of this name again");
    });
}

#[test]
fn where_the_log_and_the_checkpoints_are_does_not_matter() {
    for durability in [Durability::Group, Durability::Async] {
        watched(move || {
            let disk = SimulatedDisk::new();
            let options = || {
                options(&disk)
                    .durability(durability)
                    .log(|log| log.directory("log-disk"))
                    .checkpoints(|checkpoints| checkpoints.directory("one").directory("two"))
            };
            let db = Database::open("shop", options()).expect("a database");
            let items = table(&db, "item");
            let (mut copy, epoch) = Copy::of(&db, &items);
            let mut feed = db.create_feed("search", &items, u64::MAX).expect("a feed");
            feed.acknowledge(epoch).expect("durable");
            fill(&db, &items, 3);
            db.checkpoint().expect("a checkpoint");
            drop((feed, items));
            db.close().expect("closed");
            let db = Database::open("shop", options()).expect("a database");
            let items = table(&db, "item");
            db.run(|tx| tx.delete(&items, key![3]).map(drop)).expect("a delete");
            let mut feed = db.feed("search").expect("the feed");
            copy.follow(&mut feed, now(&db));
            assert_eq!(copy, Copy::of(&db, &items).0);
            let mut again = Copy::default();
            again.follow(&mut db.watch(&items, epoch).expect("an old epoch"), now(&db));
            assert_eq!(again, copy);
        });
    }
}
