//! Power loss at the boundaries of the disk's operations, with a named feed: nothing that was not acknowledged is lost to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Change, DataType, Database, Error, Feed, Options, ProtocolKind, Range, Result, TableDefinition, key, row,
};

use super::copy::{int, now};
use crate::support::concurrent::watched;

const SEGMENT: u64 = 64 << 10;

fn options(disk: &SimulatedDisk, protocol: ProtocolKind) -> Options {
    Options::default()
        .protocol(protocol)
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(SEGMENT).buffer_bytes(4 << 10))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0))
        .workers(1)
}

fn open(disk: &SimulatedDisk, protocol: ProtocolKind) -> Result<Database> {
    Database::open("shop", options(disk, protocol))
}

/// A database with a table, some of whose rows a feed has given out already, and which has filled several segments.
fn prepared(protocol: ProtocolKind) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let db = open(&disk, protocol).expect("a database");
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"]);
    let items = db.create_table(definition).expect("a table");
    drop(db.create_feed("search", &items, u64::MAX).expect("a feed"));
    db.close().expect("closed");
    disk
}

/// The known facts of a run that was interrupted.
#[derive(Default)]
struct Known {
    /// Number of rows whose insertion was acknowledged; one more may have been inserted.
    inserted: i64,
    /// The epochs of rows that the feed has given.
    given: BTreeMap<u64, i64>,
    /// The epoch that the feed's reader has acknowledged, and the one that it has tried to.
    acknowledged: u64,
    tried: u64,
}

fn read(feed: &mut Feed, known: &mut Known) -> Result<()> {
    while let Some(batch) = feed.try_next()? {
        for change in &batch {
            known.given.insert(batch.epoch(), int(&change.key().expect("a row")[0]));
        }
    }
    Ok(())
}

fn work(db: &Database, known: &mut Known) -> Result<()> {
    let items = db.table("item")?;
    let mut feed = db.feed("search")?;
    for id in 0..24 {
        db.run(|tx| tx.insert(&items, row![id, "x".repeat(8_000)]))?;
        known.inserted = id + 1;
        read(&mut feed, known)?;
        if id % 5 == 4
            && let Some((&epoch, _)) = known.given.iter().rev().nth(2)
        {
            known.tried = epoch;
            feed.acknowledge(epoch)?;
            known.acknowledged = epoch;
        }
        if id % 8 == 7 {
            db.checkpoint()?;
        }
    }
    Ok(())
}

fn is_power_loss(error: &Error) -> bool {
    use Error::{Closed, Io, LogFailed, LogNotExtended, NoLogSpace};
    matches!(error, LogFailed { .. } | NoLogSpace { .. } | LogNotExtended { .. } | Closed | Io { .. })
}

/// The feed goes on behind what was acknowledged, and gives everything behind it.
fn survives(disk: &SimulatedDisk, protocol: ProtocolKind, known: &Known, what: &str) {
    let db = open(disk, protocol).unwrap_or_else(|error| panic!("{what}: {error}"));
    let items = db.table("item").expect("the table");
    let snapshot = db.snapshot().expect("a snapshot");
    let rows = snapshot.scan(&items, Range::all()).expect("a scan").count() as i64;
    assert!(
        rows == known.inserted || rows == known.inserted + 1,
        "{what}: {rows} rows of {}",
        known.inserted
    );
    let mut feed = db.feed("search").unwrap_or_else(|error| panic!("{what}: {error}"));
    let position = feed.epoch();
    let is_known = position == known.acknowledged || position == known.tried || known.acknowledged == 0;
    assert!(is_known, "{what}: at {position}, acknowledged {}, tried {}", known.acknowledged, known.tried);
    let mut expected = known.given.range(..=position).map(|(_, id)| id + 1).max().unwrap_or(0);
    let end = now(&db);
    while !feed.has_given(end) {
        let batch = feed.try_next().unwrap_or_else(|error| panic!("{what}: {error}"));
        for change in batch.iter().flatten() {
            let Change::Insert { row, .. } = change else { panic!("{what}: {change:?}") };
            assert_eq!(row.int("id"), Ok(expected), "{what}");
            expected += 1;
        }
    }
    assert_eq!(expected, rows, "{what}");
    // It works on.
    db.run(|tx| tx.insert(&items, row![rows, "last"])).unwrap_or_else(|error| panic!("{what}: {error}"));
    let batch = feed.next().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(batch.changes().len(), 1, "{what}");
    feed.acknowledge(batch.epoch()).unwrap_or_else(|error| panic!("{what}: {error}"));
    db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(db.run(|tx| tx.exists(&items, key![rows])).expect("read"), "{what}");
}

/// One boundary in this many is tried; the others another time, by chance.
const STRIDE: u64 = 6;

fn at_the_boundaries(protocol: ProtocolKind) {
    let prepared = prepared(protocol);
    let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64 / 1_000 % STRIDE);
    let mut with_removals = 0;
    for boundary in (first..).step_by(STRIDE as usize) {
        let disk = prepared.crash_image(1);
        disk.crash_after(boundary);
        let mut known = Known::default();
        let worked = open(&disk, protocol).and_then(|db| {
            let worked = work(&db, &mut known);
            let _ = db.close();
            worked
        });
        if let Err(error) = &worked {
            assert!(is_power_loss(error), "{protocol}, boundary {boundary}: {error}");
        }
        let whole = disk.operations() <= boundary;
        for seed in [0, boundary + 2] {
            survives(
                &disk.crash_image(seed),
                protocol,
                &known,
                &format!("{protocol}, boundary {boundary}, seed {seed}"),
            );
        }
        with_removals += u64::from(known.acknowledged > 0);
        if whole {
            assert!(boundary > 60 && with_removals > 5, "only {boundary} operations: is anything synced?");
            break;
        }
    }
}

#[test]
fn a_power_loss_at_any_operation_loses_nothing_that_was_not_acknowledged() {
    watched(|| at_the_boundaries(ProtocolKind::Optimistic));
}

#[test]
fn under_every_protocol_a_killed_process_loses_nothing_either() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let disk = prepared(protocol);
            let db = open(&disk, protocol).expect("a database");
            let mut known = Known::default();
            work(&db, &mut known).expect("it works");
            // What is in the system's cache stays; nothing is closed.
            let image = disk.crash_image(0);
            survives(&image, protocol, &known, &protocol.to_string());
            db.close().expect("closed");
        });
    }
}
