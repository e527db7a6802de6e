//! Tables that are dropped while a follower follows: their memory goes back, and what is left is right.

use heddledb::testing::SimulatedDisk;
use heddledb::{DataType, Database, ProtocolKind, Range, Result, Table, TableDefinition, key, row, set};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::follower::companion::*;
use crate::support::split::in_time;

/// Keys have two thousand bytes, so that few rows take much memory: those of all rounds, 6 MB.
const KEY_BYTES: usize = 2_000;
const ROWS: i64 = 100;
const ROUNDS: i64 = 30;
/// The most memory of the rows that stay, and of the catalog's about dropped tables.
const SLACK: u64 = 2 << 20;

fn create(db: &Database, name: &str) -> Table {
    let definition = TableDefinition::new(name).column("id", DataType::Text).column("n", DataType::Int64);
    db.create_table(definition.primary_key(["id"])).expect("created")
}

fn id(number: i64) -> String {
    format!("{number:<width$}", width = KEY_BYTES)
}

fn fill(db: &Database, table: &Table, n: i64) {
    db.run(|tx| (0..ROWS).try_for_each(|at| tx.insert(table, row![id(at), n]))).expect("filled");
}

fn sum(db: &Database, name: &str) -> Result<i64> {
    let table = db.table(name)?;
    db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).sum())
}

fn follow_drops(protocol: ProtocolKind) {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    let db = Database::open(DIRECTORY, place.with(options(&disk, protocol))).expect("opens");
    let kept = create(&db, "kept");
    fill(&db, &kept, 1);
    let companion = place.follow(disk.clone());
    wait_for_follower(&db);
    let emptied = create(&db, "emptied");
    for round in 1..=ROUNDS {
        let draft = create(&db, "draft");
        fill(&db, &draft, round);
        fill(&db, &emptied, round);
        db.run(|tx| tx.update(&kept, key![id(round)], set! { n: round })).expect("updated");
        match round % 3 {
            // Dropped after a checkpoint that has its rows.
            0 => assert!(db.checkpoint().expect("whole").by_follower, "{protocol}"),
            1 => drop(db.run(|tx| tx.delete(&draft, key![id(round)])).expect("deleted")),
            _ => {}
        }
        db.drop_table("draft").expect("dropped");
        db.truncate(&["emptied"]).expect("empty");
    }
    fill(&db, &emptied, 5);
    let report = db.checkpoint().expect("whole");
    assert!(report.by_follower, "{protocol}");
    let expected = (ROWS - ROUNDS + (1..=ROUNDS).sum::<i64>(), 5 * ROWS);
    let copy = Database::open(DIRECTORY, options(&disk.crash_image(report.number.into()), protocol));
    let copy = copy.expect("opens");
    assert!(copy.recovery().checkpoint > 0 && copy.table("draft").is_err(), "{protocol}");
    assert_eq!((sum(&copy, "kept"), sum(&copy, "emptied")), (Ok(expected.0), Ok(expected.1)), "{protocol}");
    copy.check().expect("consistent");
    db.close().expect("durable");
    assert_eq!(companion.errors(), []);
    let lives = companion.end();
    let used = lives.iter().map(|life| life.memory_bytes).max();
    assert!(used.is_some_and(|used| used > 0 && used < SLACK), "{protocol}: {used:?} bytes are left");
}

#[test]
fn a_follower_frees_tables_that_were_dropped() {
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased] {
        in_time(move || follow_drops(protocol));
    }
}
