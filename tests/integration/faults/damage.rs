//! Damage: every byte of every file of a small database flipped, one at a time, and every file cut at every length. What
//! opens holds exactly a beginning of the acknowledged history, and says what it cut off at the end; or nothing opens,
//! and the error names the file and the place.
//!
//! Zeros that stand between zeros, in pages that were never written and behind what is in a page, are many and alike: of
//! these a sample is taken, or all of them if `HEDDLE_EVERY_BYTE` is set.

use std::path::{Path, PathBuf};

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, Range, Result, TableDefinition, Value, key, row,
};

use crate::checkpoint::journal::{DIRECTORY, file, names, options};

/// A log is written in pages of this many bytes.
const PAGE: usize = 4096;
/// Among this many zeros, a zero is one of many.
const ALIKE: usize = 32;
/// Calls that each database has acknowledged, one after the other.
const CALLS: i64 = 6;
/// With a checkpoint, this many of them are behind it.
const BEHIND: i64 = 3;

/// The content after each acknowledged call, from none on.
type History = Vec<Vec<Vec<Value>>>;

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default()).read_only(true)
}

/// Inserts, changes and deletes, so that each call leaves another state.
fn call(db: &Database, number: i64) -> Result<()> {
    let table = db.table("t")?;
    db.run(|tx| {
        tx.insert(&table, row![number, "a text of more than one word"])?;
        if number >= 1 {
            tx.update(&table, key![number - 1], &[("text", format!("changed by {number}").as_str().into())])?;
        }
        if number >= 2 {
            tx.delete(&table, key![number - 2])?;
        }
        Ok(())
    })
}

fn rows(db: &Database) -> Vec<Vec<Value>> {
    let Ok(table) = db.table("t") else { return Vec::new() };
    db.run(|tx| tx.scan(&table, Range::all())?.map(|row| Ok(row?.to_values())).collect()).expect("readable")
}

/// A database that has acknowledged `CALLS` calls, and its history. With a checkpoint, the log before it has gone.
fn small(with_checkpoint: bool) -> (SimulatedDisk, History) {
    let disk = SimulatedDisk::new();
    let db = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).expect("a new database");
    let table = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
        .index("t_by_text", ["text"]);
    let table = db.create_table(table).expect("a table");
    let mut history = vec![rows(&db)];
    for number in 0..CALLS {
        if with_checkpoint && number == CALLS - BEHIND {
            // Until the first segment is full, so that the checkpoint makes it useless.
            for _ in 0..16 {
                db.run(|tx| tx.update(&table, key![number - 1], &[("text", "filler".into())]))
                    .expect("a row");
            }
            *history.last_mut().expect("a state") = rows(&db);
            assert!(db.checkpoint().expect("whole").log_segments_removed > 0);
        }
        call(&db, number).expect("acknowledged");
        history.push(rows(&db));
    }
    db.close().expect("durable");
    (disk, history)
}

/// Every file but the lock's, which has no bytes.
fn files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let below = |folder: &str| names(disk, folder).into_iter().map(|name| file(folder, &name)).collect();
    let mut all: Vec<PathBuf> = vec![Path::new(DIRECTORY).join("MANIFEST")];
    all.extend::<Vec<PathBuf>>(below("log"));
    all.extend::<Vec<PathBuf>>(below("checkpoint"));
    all
}

/// The number of times that each outcome occurred.
#[derive(Debug, Default, PartialEq)]
struct Outcomes {
    whole: u64,
    cut: u64,
    refused: u64,
}

/// Opens what was damaged in one file, and looks that nothing but the two legal outcomes came of it.
fn look(disk: &SimulatedDisk, history: &History, damaged: &Path, outcomes: &mut Outcomes, what: &str) {
    let length = disk.bytes(damaged).map_or(0, |bytes| bytes.len() as u64);
    match Database::open(DIRECTORY, plain(disk)) {
        Ok(db) => {
            let found = rows(&db);
            db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            let cut = db.recovery().cut.as_ref();
            if Some(&found) == history.last() {
                outcomes.whole += 1;
            } else {
                // The last group may look like one that was never acknowledged; no thread can tell. No other may.
                assert_eq!(found, history[history.len() - 2], "{what}: not a beginning of the history");
                let cut = cut.unwrap_or_else(|| panic!("{what}: cut, and not said"));
                assert!(cut.contains(&damaged.display().to_string()), "{what}: {cut}");
                outcomes.cut += 1;
            }
        }
        Err(Error::Damaged { path, offset, detail }) => {
            assert_eq!(Path::new(&path), damaged, "{what}: {detail}");
            assert!(offset <= length.max(disk_page(damaged)), "{what}: {offset} of {length}");
            outcomes.refused += 1;
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// An error about a file that is too short may name the end of what should be there.
fn disk_page(path: &Path) -> u64 {
    if path.extension().is_some_and(|extension| extension == "log") { PAGE as u64 } else { 0 }
}

/// The places of a file that are tried.
fn places(path: &Path, content: &[u8]) -> impl Iterator<Item = usize> {
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    let is_all = !is_log || std::env::var_os("HEDDLE_EVERY_BYTE").is_some();
    let is_zero = |at: usize| {
        let start = at / ALIKE * ALIKE;
        content[start..(start + ALIKE).min(content.len())].iter().all(|byte| *byte == 0)
    };
    (0..content.len()).filter(move |&at| is_all || at % 61 == 0 || !is_zero(at))
}

fn flip_everywhere(with_checkpoint: bool) -> Outcomes {
    let (disk, history) = small(with_checkpoint);
    let mut outcomes = Outcomes::default();
    for path in files(&disk) {
        let good = disk.bytes(&path).expect("a file");
        for at in places(&path, &good) {
            let mut bad = good.clone();
            // Another bit from byte to byte.
            bad[at] ^= 1 << ((at + at / 8) % 8);
            disk.put_bytes(&path, bad).expect("there");
            look(&disk, &history, &path, &mut outcomes, &format!("byte {at} of {}", path.display()));
        }
        disk.put_bytes(&path, good).expect("there");
    }
    let db = Database::open(DIRECTORY, plain(&disk)).expect("whole again");
    assert_eq!(Some(&rows(&db)), history.last());
    println!("flipped, checkpoint {with_checkpoint}: {outcomes:?}");
    outcomes
}

#[test]
fn every_flipped_byte_of_a_log_is_noticed_or_harmless() {
    let outcomes = flip_everywhere(false);
    assert!(outcomes.refused > 1_000 && outcomes.cut > 100 && outcomes.whole > 500, "{outcomes:?}");
}

#[test]
fn every_flipped_byte_of_a_database_with_a_checkpoint_is_noticed_or_harmless() {
    let outcomes = flip_everywhere(true);
    assert!(outcomes.refused > 1_000 && outcomes.cut > 100 && outcomes.whole > 500, "{outcomes:?}");
}

/// No file of a database may be shorter than it was written, so every truncation is refused.
#[test]
fn every_truncation_of_every_file_is_refused() {
    for with_checkpoint in [false, true] {
        let (disk, history) = small(with_checkpoint);
        let mut outcomes = Outcomes::default();
        let mut cuts = 0;
        for path in files(&disk) {
            let good = disk.bytes(&path).expect("a file");
            for length in places(&path, &good) {
                disk.put_bytes(&path, good[..length].to_vec()).expect("there");
                let what = format!("{length} bytes of {}", path.display());
                look(&disk, &history, &path, &mut outcomes, &what);
                cuts += 1;
            }
            disk.put_bytes(&path, good).expect("there");
        }
        println!("cut, checkpoint {with_checkpoint}: {outcomes:?}");
        assert_eq!(outcomes, Outcomes { refused: cuts, ..Outcomes::default() });
    }
}

/// A file of each kind goes altogether: it is missed by name, or what it held is somewhere else, too.
#[test]
fn every_missing_file_is_missed_or_was_not_needed() {
    for with_checkpoint in [false, true] {
        let (disk, history) = small(with_checkpoint);
        for path in files(&disk) {
            let image = disk.crash_image(1);
            image.remove(&path).expect("there");
            match Database::open(DIRECTORY, plain(&image)) {
                // A segment that was prepared and not yet used.
                Ok(db) => assert_eq!(Some(&rows(&db)), history.last(), "without {}", path.display()),
                Err(Error::MissingFile { .. } | Error::NotADatabase { .. }) => {}
                Err(error) => panic!("without {}: {error}", path.display()),
            }
        }
    }
}
