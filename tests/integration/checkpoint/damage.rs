//! Damage: every byte of a small checkpoint flipped, every truncation of it, every file of it gone. What is opened is
//! exact, or nothing is opened, and the error names the file.

use std::path::PathBuf;

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{DataType, Database, Error, Options, ProtocolKind, Range, TableDefinition, Value, key, row};

use crate::checkpoint::journal::{DIRECTORY, file, names, options};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default()).read_only(true)
}

/// A database with a few rows in a checkpoint, and one behind it. The log has been cut, or is all in its first segment.
fn small(is_cut: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let db = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).expect("a new database");
    let table = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"]);
    let table = db.create_table(table).expect("a table");
    db.run(|tx| (0..4).try_for_each(|id| tx.insert(&table, row![id, "a text that is longer"])))
        .expect("rows");
    if is_cut {
        (0..16).for_each(|_| {
            db.run(|tx| {
                tx.delete(&table, key![3])?;
                tx.insert(&table, row![3, "again"])
            })
            .expect("a row")
        });
    }
    let report = db.checkpoint().expect("whole");
    assert_eq!(report.log_segments_removed > 0, is_cut);
    db.run(|tx| tx.insert(&table, row![4, "behind"])).expect("a row");
    db.close().expect("durable");
    disk
}

fn files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    names(disk, "checkpoint").iter().map(|name| file("checkpoint", name)).collect()
}

fn rows(db: &Database) -> Vec<Vec<Value>> {
    let table = db.table("t").expect("a table");
    let rows = db.run(|tx| tx.scan(&table, Range::all())?.map(|row| Ok(row?.to_values())).collect());
    let mut rows: Vec<Vec<Value>> = rows.expect("readable");
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

/// A damaged checkpoint is refused by file and offset; or passed over, and said so, if all of the log is there.
fn is_noticed(disk: &SimulatedDisk, expected: &[Vec<Value>], path: &PathBuf, what: &str) {
    match Database::open(DIRECTORY, plain(disk)) {
        Ok(db) => {
            assert!(disk.bytes(&file("log", "00000001.log")).is_ok(), "{what} went unnoticed");
            let why = db.recovery().passed_over.as_ref();
            assert!(why.is_some_and(|why| why.contains(&path.display().to_string())), "{what}: {why:?}");
            assert_eq!(rows(&db), expected, "{what}");
        }
        Err(Error::Damaged { path: named, .. }) => {
            assert!(disk.bytes(&file("log", "00000001.log")).is_err(), "{what}: the log has it all");
            assert_eq!(PathBuf::from(named), *path, "{what}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

fn flip(is_cut: bool, step: usize) {
    let disk = small(is_cut);
    let expected = rows(&Database::open(DIRECTORY, plain(&disk)).expect("whole"));
    assert_eq!(expected.len(), 5);
    for path in files(&disk) {
        let good = disk.bytes(&path).expect("a file");
        for at in (0..good.len()).step_by(step) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            disk.put_bytes(&path, bad).expect("there");
            is_noticed(&disk, &expected, &path, &format!("byte {at} of {}", path.display()));
        }
        disk.put_bytes(&path, good).expect("there");
    }
    assert_eq!(rows(&Database::open(DIRECTORY, plain(&disk)).expect("whole again")), expected);
}

#[test]
fn every_flipped_byte_of_a_checkpoint_is_noticed() {
    flip(true, 1);
}

#[test]
fn a_flipped_byte_of_a_checkpoint_does_no_harm_while_all_of_the_log_is_there() {
    flip(false, 13);
}

#[test]
fn every_truncation_and_every_added_byte_is_noticed() {
    let disk = small(true);
    let expected = rows(&Database::open(DIRECTORY, plain(&disk)).expect("whole"));
    for path in files(&disk) {
        let good = disk.bytes(&path).expect("a file");
        for length in 0..good.len() {
            disk.put_bytes(&path, good[..length].to_vec()).expect("there");
            is_noticed(&disk, &expected, &path, &format!("{length} bytes of {}", path.display()));
        }
        disk.put_bytes(&path, [&good[..], &[0]].concat()).expect("there");
        is_noticed(&disk, &expected, &path, "one more byte");
        disk.put_bytes(&path, good).expect("there");
    }
}

#[test]
fn a_part_that_is_gone_and_a_manifest_that_is_gone_are_named() {
    let disk = small(true);
    for name in names(&disk, "checkpoint") {
        let image = disk.crash_image(1);
        image.remove(&file("checkpoint", &name)).expect("there");
        let opened = Database::open(DIRECTORY, plain(&image)).err();
        match opened {
            Some(Error::MissingFile { path, .. }) => {
                assert_eq!(PathBuf::from(path), file("checkpoint", &name));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Two parts change places: each has its own name in it.
#[test]
fn parts_that_were_exchanged_are_noticed() {
    let disk = small(true);
    let expected = rows(&Database::open(DIRECTORY, plain(&disk)).expect("whole"));
    let parts: Vec<PathBuf> =
        files(&disk).into_iter().filter(|path| path.extension() == Some("part".as_ref())).collect();
    let bytes: Vec<Vec<u8>> = parts.iter().map(|path| disk.bytes(path).expect("a file")).collect();
    disk.put_bytes(&parts[0], bytes[1].clone()).expect("there");
    is_noticed(&disk, &expected, &parts[0], "exchanged");
}

/// The newest checkpoint is damaged, and what it was to replace is still there: nothing is lost, and it is said.
#[test]
fn a_damaged_checkpoint_is_passed_over_while_what_it_replaces_is_there() {
    let disk = small(false);
    let expected = rows(&Database::open(DIRECTORY, plain(&disk)).expect("whole"));
    let older: Vec<_> =
        files(&disk).into_iter().map(|path| (disk.bytes(&path).expect("a file"), path)).collect();
    let db = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).expect("whole");
    assert_eq!(db.checkpoint().expect("whole").log_segments_removed, 0, "all of it in one segment");
    db.close().expect("durable");
    older.iter().for_each(|(bytes, path)| disk.put_bytes(path, bytes.clone()).expect("there"));
    let newest = file("checkpoint", "00000002-0002.part");
    let mut bytes = disk.bytes(&newest).expect("a file");
    bytes[100] ^= 1;
    disk.put_bytes(&newest, bytes).expect("there");
    let db = Database::open(DIRECTORY, plain(&disk)).expect("the older one");
    assert_eq!((db.recovery().checkpoint, rows(&db)), (1, expected.clone()));
    assert!(db.recovery().passed_over.as_ref().is_some_and(|why| why.contains("00000002-0002.part")));
    drop(db);
    // If that one is damaged, too, all of the log is still there.
    disk.put_bytes(&file("checkpoint", "00000001.manifest"), vec![0; 20]).expect("there");
    let db = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).expect("the log");
    assert_eq!((db.recovery().checkpoint, rows(&db)), (0, expected));
    assert!(db.recovery().passed_over.is_some());
    assert_eq!(names(&disk, "checkpoint"), Vec::<String>::new(), "damaged ones go");
}

/// The log ends before what was durable when the checkpoint was made: that is no torn tail.
#[test]
fn a_log_that_is_shorter_than_the_checkpoint_knows_is_damaged() {
    let disk = SimulatedDisk::new();
    let db = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).expect("a new database");
    let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
    let table = db.create_table(table).expect("a table");
    (0..3).for_each(|id| db.run(|tx| tx.insert(&table, row![id])).expect("a row"));
    db.checkpoint().expect("whole");
    db.close().expect("durable");
    let path = file("log", "00000001.log");
    let mut log = disk.bytes(&path).expect("the log");
    let last = log.chunks(4096).rposition(|page| page.iter().any(|byte| *byte != 0)).expect("a page");
    log[last * 4096..(last + 1) * 4096].fill(0);
    disk.put_bytes(&path, log).expect("there");
    let error = Database::open(DIRECTORY, plain(&disk)).expect_err("a group is missing");
    assert!(matches!(&error, Error::Damaged { path, .. } if path.ends_with("00000001.log")), "{error}");
}
