//! A standby that takes the place of the database that it replays, with all that is open on it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Database, Durability, Error, Options, ProtocolKind, Range, Result, SequenceDefinition, Snapshot,
    StandbyError, Table, key, row, set,
};

use crate::standby::{assert_same, follow, standby};
use crate::support::tables::{DATABASE, account_definition, counter_definition, on_disk, open};

/// Longer than anything takes here, so that a test which waits for it has failed.
const LONG: Duration = Duration::from_secs(60);

fn promote(standby: &Database) -> Result<()> {
    standby.promote(standby.fence()?)
}

fn rows(snapshot: &Snapshot, table: &Table) -> Result<Vec<(i64, i64)>> {
    let rows = snapshot
        .scan(table, Range::all())?
        .map(|row| row.and_then(|row| Ok((row.int("id")?, row.int("n")?))));
    let mut rows = rows.collect::<Result<Vec<_>>>()?;
    rows.sort_unstable();
    Ok(rows)
}

fn counters(db: &Database) -> Vec<(i64, i64)> {
    let table = db.table("counter").expect("there");
    db.read(|snapshot| rows(snapshot, &table)).expect("read")
}

/// A database with a row of each number, its standby, which has them all, and which is left when the database has ended.
fn left_standby(disk: &SimulatedDisk, numbers: std::ops::Range<i64>) -> Database {
    let db = open(disk);
    let table = db.create_table(counter_definition()).expect("created");
    let standby = standby(disk);
    for number in numbers {
        db.run(|tx| tx.insert(&table, row![number, number])).expect("committed");
    }
    follow(&db, &standby);
    drop(db);
    standby
}

#[test]
fn what_is_open_goes_on() {
    let disk = SimulatedDisk::new();
    let db = left_standby(&disk, 0..3);
    let table = db.table("counter").expect("there");
    let snapshot = db.snapshot().expect("open");
    let mut session = db.session().expect("open");
    session.begin().expect("begun");
    assert_eq!(session.run(|tx| tx.get(&table, key![1])?.map(|row| row.int("n")).transpose()), Ok(Some(1)));
    promote(&db).expect("promoted");
    assert!(!db.is_standby() && db.standby_status().is_none() && db.updates_refused().is_none());
    db.run(|tx| tx.insert(&table, row![3, 3])).expect("it is written to");
    db.run(|tx| tx.update(&table, key![0], set! { n: 10 })).expect("it is written to");
    assert_eq!(rows(&snapshot, &table), Ok(vec![(0, 0), (1, 1), (2, 2)]), "one moment");
    session.run(|tx| tx.insert(&table, row![4, 4])).expect("its transaction may write");
    session.commit().expect("committed");
    drop(session);
    let all = [(0, 10), (1, 1), (2, 2), (3, 3), (4, 4)];
    assert_eq!(counters(&db), all);
    db.check().expect("sound");
    let second = standby(&disk);
    assert_same(&db, &second, "a standby of the promoted one");
    db.close().expect("durable");
    assert_eq!(counters(&open(&disk)), all, "recovered");
}

#[test]
fn only_a_standby_whose_log_has_no_writer_is_promoted() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(counter_definition()).expect("created");
    let standby = standby(&disk);
    assert!(matches!(standby.fence(), Err(Error::InUse { .. })), "it lives");
    assert!(matches!(db.fence(), Err(Error::Standby(StandbyError::NoStandby))));
    db.run(|tx| tx.insert(&table, row![1, 1])).expect("committed");
    follow(&db, &standby);
    let before = db.position().expect("a position");
    drop(db);
    let fenced = standby.fence().expect("it is gone");
    assert!(
        matches!(Database::open(DATABASE, on_disk(&disk)), Err(Error::InUse { .. })),
        "it cannot come back"
    );
    assert!(standby.read(|_| Ok(())).is_ok(), "readers go on");
    drop(fenced);
    let db = open(&disk);
    db.run(|tx| tx.insert(&table_of(&db), row![2, 2])).expect("it is back");
    follow(&db, &standby);
    assert_eq!(counters(&standby), [(1, 1), (2, 2)], "it follows again");
    drop(db);
    promote(&standby).expect("promoted");
    assert!(matches!(standby.fence(), Err(Error::Standby(StandbyError::NoStandby))), "once");
    standby.run(|tx| tx.insert(&table_of(&standby), row![3, 3])).expect("it is written to");
    let after = standby.position().expect("a position");
    assert!(after.term() > before.term() + 1 && after > before, "{before} {after}");
}

fn table_of(db: &Database) -> Table {
    db.table("counter").expect("there")
}

#[test]
fn options_of_a_database_that_is_not_written_to_are_refused() {
    let disk = SimulatedDisk::new();
    drop(left_standby(&disk, 0..1));
    let options: [fn(Options) -> Options; 3] = [
        |options| options.durability(Durability::None),
        |options| options.read_only(true),
        |options| options.protocol(ProtocolKind::Partitioned),
    ];
    for of in options {
        let standby = Database::standby(DATABASE, of(on_disk(&disk))).expect("a standby");
        let refused = standby.fence();
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
        drop(open(&disk));
    }
}

#[test]
fn each_protocol_and_durability_is_in_force_afterwards() {
    for protocol in ProtocolKind::ALL.iter().filter(|protocol| **protocol != ProtocolKind::Partitioned) {
        for durability in [Durability::Group, Durability::Async] {
            let disk = SimulatedDisk::new();
            drop(left_standby(&disk, 0..5));
            let options =
                on_disk(&disk).protocol(*protocol).durability(durability).log(|log| log.group_size(4));
            let db = Database::standby(DATABASE, options).expect("a standby");
            promote(&db).expect("promoted");
            assert_eq!((db.protocol(), db.opened_protocol()), (*protocol, *protocol));
            let table = table_of(&db);
            thread::scope(|scope| {
                for thread in 0..2 {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || {
                        for number in 0..50 {
                            let id = 5 + 2 * number + thread;
                            let insert = |tx: &heddledb::Tx<'_, '_>| {
                                tx.add(table, key![0], "n", 1)?;
                                tx.insert(table, row![id, id])
                            };
                            db.run(insert).expect("committed");
                        }
                    });
                }
            });
            db.close().expect("durable");
            let expected: Vec<_> = [(0, 100)].into_iter().chain((1..105).map(|id| (id, id))).collect();
            assert_eq!(counters(&open(&disk)), expected, "{protocol} {durability}");
        }
    }
}

/// Epochs of a standby run by the clock while nothing is written: they may be far behind those of the log, or far before them.
#[test]
fn checkpoints_after_a_promotion_fit_the_log() {
    for (groups, pause) in [(300, 0), (2, 700)] {
        let disk = SimulatedDisk::new();
        let standby = left_standby(&disk, 0..groups);
        let epochs = standby.durable_epoch();
        while standby.durable_epoch() < epochs + pause {
            let _ = standby.snapshot().expect("open");
        }
        promote(&standby).expect("promoted");
        let table = table_of(&standby);
        standby.run(|tx| tx.update(&table, key![0], set! { n: 7 })).expect("committed");
        let report = standby.checkpoint().expect("whole");
        assert!(report.records >= groups as u64);
        standby.run(|tx| tx.update(&table, key![1], set! { n: 8 })).expect("committed");
        standby.run(|tx| tx.delete(&table, key![0]).map(drop)).expect("committed");
        standby.close().expect("durable");
        let db = open(&disk);
        assert!(db.recovery().checkpoint > 0);
        let expected: Vec<_> = [(1, 8)].into_iter().chain((2..groups).map(|id| (id, id))).collect();
        assert_eq!(counters(&db), expected);
        db.check().expect("sound");
    }
}

#[test]
fn a_standby_of_a_log_that_was_shortened_continues_it() {
    let disk = SimulatedDisk::new();
    let options = || on_disk(&disk).log(|log| log.segment_bytes(64 << 10).buffer_bytes(8 << 10));
    let db = Database::open(DATABASE, options()).expect("opened");
    let table = db.create_table(counter_definition()).expect("created");
    let standby = Database::standby(DATABASE, options()).expect("a standby");
    for round in 0..4 {
        for id in round * 100..(round + 1) * 100 {
            db.run(|tx| tx.insert(&table, row![id, id])).expect("committed");
        }
        follow(&db, &standby);
        if round < 3 {
            db.checkpoint().expect("whole");
        }
    }
    drop(db);
    promote(&standby).expect("promoted");
    let table = table_of(&standby);
    for id in 400..600 {
        standby.run(|tx| tx.insert(&table, row![id, id])).expect("committed");
    }
    let second = Database::standby(DATABASE, options()).expect("a standby");
    assert_same(&standby, &second, "before the next checkpoint");
    standby.checkpoint().expect("whole");
    drop(standby);
    let db = Database::open(DATABASE, options()).expect("opened");
    assert_eq!(counters(&db), (0..600).map(|id| (id, id)).collect::<Vec<_>>());
}

#[test]
fn sequences_and_identities_go_on_behind_what_was_reserved() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let numbers = db.create_sequence(SequenceDefinition::new("number")).expect("created");
    assert_eq!(numbers.next(), Ok(1));
    let standby = standby(&disk);
    follow(&db, &standby);
    let copy = standby.sequence("number").expect("there");
    assert_eq!(copy.next(), Err(Error::Standby(StandbyError::OnlyRead)));
    let given: Vec<i64> = (0..500).map(|_| numbers.next().expect("a value")).collect();
    drop(db);
    promote(&standby).expect("promoted");
    let next = standby.sequence("number").expect("there").next().expect("a value");
    assert!(given.iter().all(|value| *value < next), "{next} was given before");
}

#[test]
fn positions_are_those_of_one_log() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(counter_definition()).expect("created");
    let standby = standby(&disk);
    db.run(|tx| tx.insert(&table, row![1, 1])).expect("committed");
    let old = db.position().expect("a position");
    let lost = heddledb::LogPosition::new(old.term(), old.epoch() + 1_000_000);
    follow(&db, &standby);
    drop(db);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| standby.wait_for_position(lost, LONG));
        promote(&standby).expect("promoted");
        let waited = waiting.join().expect("no panic");
        assert!(matches!(waited, Err(Error::Standby(StandbyError::PositionLost { .. }))), "{waited:?}");
    });
    assert_eq!(standby.position(), Ok(old));
    standby.wait_for_position(old, Duration::ZERO).expect("it has it");
    standby.run(|tx| tx.insert(&table_of(&standby), row![2, 2])).expect("committed");
    let new = standby.position().expect("a position");
    assert!(new.term() > old.term() && new.epoch() > old.epoch());
    standby.wait_for_position(new, Duration::ZERO).expect("it has it");
}

/// Power is lost while the database writes, and again while its standby is promoted and writes.
#[test]
fn losses_of_power_lose_nothing_that_was_acknowledged() {
    for seed in 0..setting("HEDDLE_PROMOTION_ROUNDS", 40) {
        let disk = SimulatedDisk::new();
        let db = Database::open(DATABASE, on_disk(&disk).protocol(ProtocolKind::Locking)).expect("opened");
        db.create_table(counter_definition()).expect("created");
        disk.crash_after(40 + seed);
        let first = insert_until_it_fails(&db, 0);
        let image = disk.crash_image(seed);
        drop(db);
        let db = standby(&image);
        let found = counters(&db).len() as i64;
        assert!((first..=first + 1).contains(&found), "seed {seed}: {first} acknowledged, {found} there");
        image.crash_after(seed % 25);
        let last = match promote(&db) {
            Ok(()) => insert_until_it_fails(&db, found),
            Err(_) => {
                assert_eq!(counters(&db).len() as i64, found, "seed {seed}: it is read as before");
                found
            }
        };
        let image = image.crash_image(seed);
        drop(db);
        let db = open(&image);
        let there = counters(&db);
        assert_eq!(there, (0..there.len() as i64).map(|id| (id, id)).collect::<Vec<_>>(), "seed {seed}");
        let there = there.len() as i64;
        assert!((last..=last + 1).contains(&there), "seed {seed}: {last} acknowledged, {there} there");
        db.check().expect("sound");
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Inserts rows of this number and higher ones, each in a transaction, at most a few hundred; the first number that was not acknowledged.
fn insert_until_it_fails(db: &Database, first: i64) -> i64 {
    let (table, next) = (table_of(db), AtomicI64::new(first));
    for id in first..first + 200 {
        if db.run(|tx| tx.insert(&table, row![id, id])).is_err() {
            break;
        }
        next.store(id + 1, Ordering::SeqCst);
    }
    next.into_inner()
}

#[test]
fn a_standby_that_has_stopped_is_not_promoted_and_lets_the_database_be_opened() {
    let disk = SimulatedDisk::new();
    let standby = left_standby(&disk, 0..3);
    disk.crash_after(0);
    assert!(promote(&standby).is_err());
    drop(standby);
    let accounts = Database::open(DATABASE, on_disk(&disk.crash_image(1))).expect("nobody has it");
    assert!(accounts.create_table(account_definition()).is_ok());
}
