//! A checkpoint that was asked for: what it holds, what it replaces, what is reported of it, and when it is refused.

use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Decimal, Durability, Error, Options, PrimaryIndex, ProtocolKind, Range, Result,
    TableDefinition, Timestamp, Uuid, Value, key,
};

use crate::checkpoint::journal::*;

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

fn segments(disk: &SimulatedDisk) -> Vec<String> {
    names(disk, "log").into_iter().filter(|name| name.ends_with(".log")).collect()
}

#[test]
fn recovery_loads_the_checkpoint_and_replays_what_came_after_it() {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk));
    (0..40).for_each(|number| journal.call(0, number).expect("committed"));
    journal.make_table(0).expect("made");
    let report = journal.db.checkpoint().expect("whole");
    assert_eq!((report.number, report.leftover.clone()), (1, None));
    assert!(report.records > 60 && report.bytes > 1_000 && report.log_segments_removed > 0, "{report:?}");
    assert_eq!(journal.db.checkpoints().last, Some(report.clone()));
    (40..45).for_each(|number| journal.call(0, number).expect("committed"));
    journal.make_table(1).expect("made");
    let before = journal.db.durable_epoch();
    journal.db.close().expect("durable");
    for _ in 0..2 {
        let journal = Journal::open(plain(&disk)).expect("a database");
        let recovery = journal.db.recovery();
        assert_eq!((recovery.checkpoint, recovery.checkpoint_records), (1, report.records));
        assert_eq!((recovery.checkpoint_bytes, recovery.passed_over.clone()), (report.bytes, None));
        assert!((5..12).contains(&recovery.groups), "{recovery:?}");
        assert!(journal.db.durable_epoch() >= before && recovery.time >= recovery.load_time);
        journal.check(&Made { calls: vec![45], tables: 2 }, "recovered");
        journal.check_tables(2, "recovered");
    }
}

#[test]
fn a_new_checkpoint_replaces_the_one_before_and_the_log_that_it_had_needed() {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk));
    for round in 0..4 {
        (round * 30..round * 30 + 30).for_each(|number| journal.call(0, number).expect("committed"));
        let report = journal.db.checkpoint().expect("whole");
        let number = round as u32 + 1;
        assert_eq!(report.number, number);
        let files = names(&disk, "checkpoint");
        assert!(files.iter().all(|name| name.starts_with(&format!("{number:08}"))), "{files:?}");
        assert!(files.contains(&format!("{number:08}.manifest")), "{files:?}");
        assert!(segments(&disk).len() <= 4, "{:?}", segments(&disk));
    }
    assert!(!segments(&disk).contains(&"00000001.log".to_string()));
    journal.db.close().expect("durable");
    let journal = Journal::open(plain(&disk)).expect("a database");
    journal.check(&Made { calls: vec![120], tables: 0 }, "recovered");
    // Numbers go on.
    assert_eq!(journal.db.checkpoint().expect("whole").number, 5);
}

#[test]
fn every_type_and_every_index_comes_back() {
    let disk = SimulatedDisk::new();
    let db = Database::open(DIRECTORY, plain(&disk)).expect("a new database");
    let long = "long ".repeat(100_000);
    let values: Vec<Value> = vec![
        7.into(),
        true.into(),
        Value::Int(-3),
        1.5.into(),
        Value::Decimal(Decimal::new(-12_345, 2).expect("a decimal")),
        Value::Decimal(Decimal::new(i128::from(i64::MAX) * 1_000, 3).expect("a decimal")),
        Value::Timestamp(Timestamp::from_microseconds(12_345_678).expect("a moment")),
        Value::Uuid(Uuid::from_bytes(*b"0123456789abcdef")),
        long.as_str().into(),
        Value::Bytes(vec![0, 255, 7]),
        Value::Null,
    ];
    for (number, index) in
        [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both].into_iter().enumerate()
    {
        let table = TableDefinition::new(format!("t{number}"))
            .column("id", DataType::Int64)
            .column("truth", DataType::Bool)
            .column("small", DataType::Int32)
            .column("float", DataType::Float64)
            .column("price", DataType::Decimal { precision: 8, scale: 2 })
            .column("wide", DataType::Decimal { precision: 30, scale: 3 })
            .column("moment", DataType::Timestamp)
            .column("uuid", DataType::Uuid)
            .column("text", DataType::Text)
            .column("bytes", DataType::Bytes)
            .column("nothing", DataType::Text)
            .primary_key(["id"])
            .primary_index(index)
            .index(format!("t{number}_by_small"), ["small"])
            .unique_index(format!("t{number}_by_uuid"), ["uuid"]);
        let table = db.create_table(table).expect("a table");
        db.run(|tx| tx.insert(&table, values.iter().map(Into::into).collect::<Vec<_>>().as_slice()))
            .expect("a row");
    }
    db.checkpoint().expect("whole");
    db.close().expect("durable");
    let db = Database::open(DIRECTORY, plain(&disk)).expect("a database");
    assert_eq!(db.recovery().transactions, 0);
    db.check().expect("consistent");
    for number in 0..3 {
        let table = db.table(&format!("t{number}")).expect("a table");
        let row = db.run(|tx| Ok(tx.get(&table, key![7])?.expect("a row").to_values()));
        assert_eq!(row.as_ref(), Ok(&values));
        let index = format!("t{number}_by_small");
        let found = db.run(|tx| Ok(tx.scan_index(&table, &index, Range::prefix(key![-3]))?.count()));
        assert_eq!(found, Ok(1));
    }
}

#[test]
fn an_empty_database_can_have_a_checkpoint_too() {
    let disk = SimulatedDisk::new();
    let db = Database::open(DIRECTORY, plain(&disk)).expect("a new database");
    let report = db.checkpoint().expect("whole");
    assert_eq!((report.records, report.log_segments_removed), (0, 0));
    assert_eq!(db.checkpoint().expect("whole").number, 2);
    db.close().expect("durable");
    let db = Database::open(DIRECTORY, plain(&disk)).expect("a database");
    assert_eq!((db.recovery().checkpoint, db.tables().len()), (2, 0));
}

#[test]
fn with_async_durability_a_checkpoint_makes_durable_what_it_holds() {
    let disk = SimulatedDisk::new();
    let journal =
        Journal::create(plain(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(50.0)));
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    let image = disk.crash_image(0);
    Journal::survives(plain(&image), &Made { calls: vec![10], tables: 0 }, "the power went");
}

/// However many threads copy: with one, too, both directories have about the half of all.
#[test]
fn parts_are_striped_over_directories_and_found_again_without_options() {
    for threads in [1, 2] {
        let disk = SimulatedDisk::new();
        let striped = || {
            plain(&disk).checkpoints(|checkpoints| {
                checkpoints.directory("one/parts").directory("two").threads(threads)
            })
        };
        let journal = Journal::create(striped());
        (0..10).for_each(|number| journal.call(0, number).expect("committed"));
        fill_blocks(&journal.db);
        let list = |path: &str| heddledb::testing::Disk::list(&disk, path.as_ref()).expect("a directory");
        for _ in 0..2 {
            // The older one's parts go with it.
            let report = journal.db.checkpoint().expect("whole");
            let bytes = ["one/parts", "two"].map(|path| bytes_of_parts(&disk, path));
            let all: usize = bytes.iter().sum();
            assert!(report.leftover.is_none() && all as u64 <= report.bytes && all > 2_000_000, "{report:?}");
            assert!(bytes.iter().all(|bytes| *bytes > all / 4), "{threads}: {bytes:?}");
            assert!(names(&disk, "checkpoint").len() == 1, "the manifest alone");
        }
        journal.db.close().expect("durable");
        let journal = Journal::open(plain(&disk)).expect("the manifest says where");
        journal.check(&Made { calls: vec![10], tables: 0 }, "recovered");
        journal.db.checkpoint().expect("whole");
        assert_eq!((list("one/parts").len(), list("two").len()), (0, 0));
    }
}

fn is_nested<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Nested { .. }))
}

#[test]
fn it_is_refused_inside_a_transaction_and_where_nothing_is_logged() {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk));
    let inside = journal.db.run(|_| Ok(journal.db.checkpoint()));
    assert!(is_nested(inside.expect("no harm done")));
    journal.db.clone().close().expect("durable");
    assert_eq!(journal.db.checkpoint(), Err(Error::Closed));

    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("options");
    assert!(matches!(db.checkpoint(), Err(Error::InvalidOption { option: "durability", .. })));
    assert_eq!(db.checkpoints(), Default::default());
    let db = Database::open(DIRECTORY, plain(&disk).durability(Durability::None)).expect("a database");
    assert!(matches!(db.checkpoint(), Err(Error::InvalidOption { .. })));
    drop(db);
    let db = Database::open(DIRECTORY, plain(&disk).read_only(true)).expect("a database");
    assert_eq!(db.checkpoint(), Err(Error::ReadOnly));
}

#[test]
fn reading_only_and_without_a_log_a_checkpoint_is_loaded_and_nothing_is_changed() {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk));
    (0..20).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    journal.db.close().expect("durable");
    let leftover = file("checkpoint", "00000007-0001.part");
    disk.put_bytes(&leftover, vec![1, 2, 3]).expect("there");
    let made = Made { calls: vec![20], tables: 0 };
    Journal::survives(plain(&disk).read_only(true), &made, "read-only");
    Journal::survives(plain(&disk).durability(Durability::None), &made, "without a log");
    assert!(disk.bytes(&leftover).is_ok(), "only a writer may remove it");
    Journal::survives(plain(&disk), &made, "for writing");
    assert!(disk.bytes(&leftover).is_err());
}

#[test]
fn callers_that_ask_at_the_same_time_all_get_a_checkpoint() {
    let disk = SimulatedDisk::new();
    let journal = Arc::new(Journal::create(plain(&disk)));
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(|| journal.db.checkpoint())).collect();
        for asked in asking {
            assert!(asked.join().expect("no panic").expect("whole").records > 10);
        }
    });
    assert!((1..=4).contains(&journal.db.checkpoints().made));
    journal
        .db
        .run(|tx| {
            tx.scan(&journal.db.table("event")?, Range::all())?.next().map_or(Ok(()), |row| row.map(drop))
        })
        .expect("readable");
}
