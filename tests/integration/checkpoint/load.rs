//! Checkpoints of more than a handful of rows, while several threads change them, under every protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, PhasedOptions, PrimaryIndex, ProtocolKind, Range, Table, TableDefinition, Value, key,
    row,
};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::support::split::{board, in_time, int, is_split, label_row, report, wait_for_split};

/// This many rows there are from the beginning, in each table.
const ROWS: i64 = 2_000;
const KINDS: [PrimaryIndex; 2] = [PrimaryIndex::Hash, PrimaryIndex::Ordered];

fn definition(number: usize, index: PrimaryIndex) -> TableDefinition {
    TableDefinition::new(format!("t{number}"))
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("note", DataType::Text)
        .not_null()
        .primary_key(["id"])
        .primary_index(index)
        .index(format!("t{number}_by_n"), ["n"])
}

fn content(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    let rows = db.run(|tx| tx.scan(table, Range::all())?.map(|row| Ok(row?.to_values())).collect());
    let mut rows: Vec<Vec<Value>> = rows.expect("readable");
    rows.sort_by_key(|row| if let Value::Int(id) = row[0] { id } else { 0 });
    rows
}

/// Inserts, changes and deletes, so that indexes grow and shrink while they are scanned.
fn change(db: &Database, tables: &[Table], random: &mut fastrand::Rng) {
    let table = &tables[random.usize(..tables.len())];
    let (id, note) = (random.i64(..2 * ROWS), format!("note {}", random.u32(..)));
    let kind = random.u8(..6);
    db.run(|tx| {
        let is_there = tx.get(table, key![id])?.is_some();
        match (kind, is_there) {
            (0, true) => tx.delete(table, key![id]).map(drop),
            (0..=2, false) => tx.insert(table, row![id, 0, note.as_str()]),
            (1 | 2, true) => tx.update(table, key![id], &[("note", note.as_str().into())]).map(drop),
            (3, true) => tx.update(table, key![id], &[("n", id.into())]).map(drop),
            (_, true) => tx.add(table, key![id], "n", 1),
            _ => Ok(()),
        }
    })
    .expect("committed");
}

fn checkpoints_under_load(protocol: ProtocolKind) {
    let disk = SimulatedDisk::new();
    let options = || options(&disk, protocol).log(|log| log.segment_bytes(1 << 20));
    let db = Database::open(DIRECTORY, options()).expect("a new database");
    let tables: Vec<Table> = KINDS
        .iter()
        .enumerate()
        .map(|(at, kind)| db.create_table(definition(at, *kind)).expect("a table"))
        .collect();
    for table in &tables {
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(table, row![id, 0, "first"]))).expect("rows");
    }
    for round in 0..3 {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..3 {
                let (db, tables, stop) = (&db, &tables, &stop);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(round * 10 + number);
                    while !stop.load(Ordering::Relaxed) {
                        change(db, tables, &mut random);
                    }
                });
            }
            let report = db.checkpoint().expect("whole");
            assert!(report.records > 1_000, "{report:?}");
            thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
        });
        let expected: Vec<_> = tables.iter().map(|table| content(&db, table)).collect();
        let image = disk.crash_image(0);
        let restored = options().disk(std::sync::Arc::new(image));
        let restored = Database::open(DIRECTORY, restored).expect("a database");
        assert_eq!(restored.recovery().checkpoint, round as u32 + 1);
        restored.check().unwrap_or_else(|error| panic!("{protocol}: {error}"));
        for (at, expected) in expected.iter().enumerate() {
            let found = content(&restored, &restored.table(&format!("t{at}")).expect("a table"));
            assert!(found == *expected, "{protocol}, round {round}: table {at} has not come back as it was");
        }
    }
}

#[test]
fn what_recovery_makes_of_a_checkpoint_under_load_is_what_there_was() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || checkpoints_under_load(protocol));
    }
}

/// A checkpoint that begins in a long split phase needs the log from the phase's beginning: its own copies are of later
/// moments, and of tables that were made since.
#[test]
fn a_checkpoint_inside_of_one_split_phase_holds_what_was_made_in_it() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let options = || {
            options(&disk, ProtocolKind::Phased)
                .protocol(PhasedOptions::default().phase_milliseconds(4_000.0))
        };
        let db = Database::open(DIRECTORY, options()).expect("a new database");
        let board = board(&db);
        label_row(&db, &board, 1);
        wait_for_split(&db, &board);
        let phase = report(&db).split;
        db.run(|tx| tx.add(&board, key![1], "n", 5)).expect("into a slice");
        db.run(|tx| tx.update(&board, key![1], &[("plain", 7.into())]).map(drop)).expect("beside it");
        let made = db.create_table(definition(1, PrimaryIndex::Hash)).expect("a table");
        db.run(|tx| (0..10).try_for_each(|id| tx.insert(&made, row![id, id, "new"]))).expect("rows");
        let first = db.checkpoint().expect("whole");
        db.run(|tx| tx.add(&board, key![1], "n", 6)).expect("into a slice");
        let second = db.checkpoint().expect("whole");
        assert!(is_split(&db) && report(&db).split == phase, "all of it in one phase");
        assert_eq!(first.epoch, second.epoch, "the phase's first");
        let image = disk.crash_image(0);
        let restored = options().disk(std::sync::Arc::new(image));
        let restored = Database::open(DIRECTORY, restored).expect("a database");
        let board = restored.table("board").expect("it was there");
        assert_eq!(int(&restored, &board, 1, "n"), Ok(11));
        assert_eq!(int(&restored, &board, 1, "plain"), Ok(7));
        assert_eq!(content(&restored, &restored.table("t1").expect("it was made")).len(), 10);
        restored.check().expect("consistent");
        assert!(restored.recovery().groups >= 4, "{:?}", restored.recovery());
    });
}
