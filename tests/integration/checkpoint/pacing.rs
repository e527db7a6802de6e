//! Checkpoints are spread over the way to the next one, and hurry where a thread waits or nothing commits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::SimulatedDisk;
use heddledb::{DataType, Database, Options, PrimaryIndex, ProtocolKind, Table, TableDefinition, row};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::support::split::{in_time, wait_until};

/// Far more than are copied in one go.
const ROWS: i64 = 6_000;
/// A checkpoint is due when the log has grown by this many calls, each in a group and a page of its own.
const LIMIT: u64 = 400 * 4_096;

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default()).log(|log| log.segment_bytes(4 << 20))
}

/// A database with rows enough, none of them in any checkpoint.
fn filled(options: Options) -> (Database, Table) {
    let db = Database::open(DIRECTORY, options).expect("a new database");
    let definition = TableDefinition::new("row")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash);
    let table = db.create_table(definition).expect("a table");
    let text = "long enough for a block of its own";
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, text]))).expect("inserted");
    (db, table)
}

/// Inserts one row after the other, while something else is done.
fn beside_inserts<T>(db: &Database, table: &Table, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in ROWS.. {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                db.run(|tx| tx.insert(table, row![id, "new"])).expect("committed");
            }
        });
        let done = work();
        ended.store(true, Ordering::SeqCst);
        done
    })
}

/// By how many pages the log grows while the second of two checkpoints is made by the log's size.
fn pages_beside_a_checkpoint(spread: f64) -> u64 {
    let disk = SimulatedDisk::new();
    let (db, table) =
        filled(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(LIMIT).spread(spread)));
    let flushes = || db.statistics().log_flushes;
    beside_inserts(&db, &table, || {
        wait_until("the first checkpoint", || db.checkpoints().made == 1);
        wait_until("the second one's beginning", || db.checkpoints().running);
        let begun = flushes();
        wait_until("its end", || db.checkpoints().made == 2);
        flushes() - begun
    })
}

#[test]
fn one_that_the_log_calls_for_is_spread_over_most_of_the_way_to_the_next() {
    in_time(|| {
        // A thread that is not scheduled for a while does not commit, and so is no reason to wait, or does not copy, while others
        // commit: not every attempt tells.
        let mut pages = Vec::new();
        while !pages.iter().any(|pages| (200..700).contains(pages)) {
            assert!(pages.len() < 20, "pages of log beside each: {pages:?}");
            pages.push(pages_beside_a_checkpoint(0.8));
        }
    });
}

#[test]
fn without_a_spread_it_is_made_at_once() {
    in_time(|| {
        let least = (0..20).map(|_| pages_beside_a_checkpoint(0.0)).find(|&pages| pages < 100);
        assert!(
            least.is_some(),
            "a checkpoint of some hundred kilobytes always took longer than a hundred pages"
        );
    });
}

/// The plan would take most of an hour.
fn patient(disk: &SimulatedDisk) -> Options {
    plain(disk).checkpoints(|checkpoints| checkpoints.seconds(3_600.0))
}

#[test]
fn a_checkpoint_by_hand_does_not_wait_for_its_pace() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = filled(patient(&disk));
        beside_inserts(&db, &table, || {
            let report = db.checkpoint().expect("the disk is healthy");
            assert!(report.records >= ROWS as u64, "{report:?}");
            assert!(db.checkpoints().time >= report.time && report.time > Duration::ZERO);
        });
    });
}

#[test]
fn one_that_is_under_way_hurries_when_somebody_asks_for_another() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = filled(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(LIMIT)));
        beside_inserts(&db, &table, || wait_until("a checkpoint", || db.checkpoints().running));
        // At this pace the log takes half a minute to call for the next one, and is not idle.
        let pause = || thread::sleep(Duration::from_millis(80));
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for id in (1_i64 << 40..).take_while(|_| !ended.load(Ordering::SeqCst)) {
                    db.run(|tx| tx.insert(&table, row![id, "new"])).expect("committed");
                    pause();
                }
            });
            let begun = Instant::now();
            db.checkpoint().expect("the disk is healthy");
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            ended.store(true, Ordering::SeqCst);
        });
        assert!(db.checkpoints().made >= 2);
    });
}

#[test]
fn closing_waits_for_no_plan() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let (db, table) = filled(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(LIMIT)));
        beside_inserts(&db, &table, || wait_until("a checkpoint", || db.checkpoints().running));
        let begun = Instant::now();
        db.close().expect("durable");
        assert!(begun.elapsed() < Duration::from_secs(60));
    });
}
