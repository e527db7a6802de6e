//! Checkpoints of several parts, as the engine's threads write them and as several threads load them. In tests blocks and
//! parts are small.

use std::path::Path;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::*;
use crate::base::disk::Disk;
use crate::database::Database;
use crate::durability::watch::Watch;
use crate::durability::{GroupStart, Uuid};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::definition::TableDefinition;
use crate::storage::epoch::FIRST;
use crate::storage::fuzzy_scan::LiveScan;
use crate::storage::store::Store;
use crate::testing::SimulatedDisk;
use crate::types::{DataType, Value};

const UUID: Uuid = Uuid([7; 16]);

fn checkpoints(disk: &SimulatedDisk) -> Checkpoints {
    Checkpoints::new(Arc::new(disk.clone()), "bank/checkpoint".into(), UUID)
}

/// Three threads at once.
fn crew(job: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(job))));
}

/// A store whose catalog and rows are those of a real database: tables `a` and `b` of this many rows.
fn database(disk: &SimulatedDisk, rows: i64) -> Database {
    let options = Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(1 << 20))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0));
    let db = Database::open("bank", options.checkpoints(|checkpoints| checkpoints.threads(3)))
        .expect("a new database");
    for name in ["a", "b"] {
        let table = TableDefinition::new(name).column("id", DataType::Int64).column("text", DataType::Text);
        let table = db.create_table(table.primary_key(["id"]).index(format!("{name}_by_text"), ["text"]));
        let table = table.expect("a table");
        let row = |id: i64| [Value::Int(id), Value::Text(format!("row {id} of table {name}"))];
        db.run(|tx| (0..rows).try_for_each(|id| tx.insert(&table, row(id).each_ref().map(Into::into))))
            .expect("rows");
    }
    db
}

/// All rows of a store, as text.
fn rows(store: &Store) -> Vec<String> {
    let guard = pin();
    let mut rows = Vec::new();
    for table in store.all_tables() {
        let mut words = vec![0; table.layout().words()];
        table.for_each_record(&guard, |record| {
            let word = record.read(table.layout(), &mut words);
            // SAFETY: the row was just read, and the thread is pinned.
            let values = unsafe { table.layout().values(&words) };
            rows.push(format!("{} {word:x} {values:?}", table.id()));
        });
    }
    rows.sort();
    rows
}

/// Writes a store's records, in blocks of this many bytes, of which each part gets one; the catalog is in the first.
fn write(new: &NewCheckpoint, store: &Store, block_bytes: usize) -> Content {
    let (catalog, others) = store.all_tables().into_iter().partition(|table| table.id() < 16);
    let (mut all, mut block) = (crate::storage::fuzzy_scan::Copied::default(), Vec::new());
    for (tables, bytes_max) in [(catalog, usize::MAX), (others, block_bytes)] {
        let scan = LiveScan::new(tables);
        let (mut copier, mut written, mut more) = (scan.copier(), 0, true);
        while more {
            more = copier.copy_some(store, &mut block, bytes_max).expect("memory");
            if block.len() >= bytes_max || !more {
                let mut part = new.begin_part(new.parts_begun() % new.stripes()).expect("a part");
                let records = copier.copied().records();
                part.append((records - written) as u32, &block).expect("a block");
                new.finish_part(part).expect("durable");
                (written, block) = (records, Vec::new());
            }
        }
        all.add(copier.copied());
    }
    let (log_start, epoch) = (GroupStart::FIRST, store.epochs().current());
    Content { first_epoch: epoch, last_epoch: epoch, log_epoch: 0, log_start, tables: all.tables }
}

fn load_all(checkpoints: &Checkpoints, number: u32) -> Result<Store> {
    let store = Store::new(FIRST, 2, false);
    load(checkpoints, &checkpoints.manifest(number)?, &store, (&crew, &Watch::default()))?;
    Ok(store)
}

#[test]
fn several_threads_load_what_was_written_in_many_parts() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 300);
    let checkpoints = checkpoints(&disk);
    for (number, directories) in [(1, vec![]), (2, vec!["one".into(), "two/three".into()])] {
        let new = NewCheckpoint::begin(&checkpoints, &directories, 0).expect("begun");
        let content = write(&new, db.engine().store(), 700);
        let manifest = new.finish(content).expect("whole");
        assert!(manifest.number == number && manifest.parts.len() > 20, "{manifest:?}");
        let expected = rows(db.engine().store());
        assert_eq!(rows(&load_all(&checkpoints, number).expect("whole")), expected);
        // Nothing of it depends on the system's mercy.
        let image = disk.crash_image(0);
        let after_crash = self::checkpoints(&image);
        assert_eq!(after_crash.newest_first(), Ok((1..=number).rev().collect()));
        assert_eq!(rows(&load_all(&after_crash, number).expect("durable")), expected);
    }
    checkpoints.remove_all_but(Some(1), &[]).expect("removed");
    assert_eq!(disk.list(Path::new("one")).expect("there").len(), 0, "the manifest says where");
    assert!(load_all(&checkpoints, 1).is_ok());
    checkpoints.remove_all_but(None, &[]).expect("removed");
    assert_eq!(disk.list(Path::new("bank/checkpoint")).expect("there").len(), 0);
}

#[test]
fn whichever_part_is_damaged_or_gone_it_is_named_whoever_loads_it() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 60);
    let checkpoints = checkpoints(&disk);
    let new = NewCheckpoint::begin(&checkpoints, &[], 0).expect("begun");
    let content = write(&new, db.engine().store(), 700);
    let parts = new.finish(content).expect("whole").parts.len();
    for number in 1..=parts {
        let path = Path::new("bank/checkpoint").join(format!("00000001-{number:04}.part"));
        let good = disk.bytes(&path).expect("a part");
        let mut bad = good.clone();
        let at = good.len() * number / (parts + 1);
        bad[at] ^= 0x40;
        disk.put_bytes(&path, bad).expect("there");
        let error = load_all(&checkpoints, 1).err().expect("damaged");
        let named = |path: &str| path.ends_with(&format!("-{number:04}.part"));
        assert!(matches!(&error, Error::Damaged { path, .. } if named(path)), "{error}");
        disk.remove(&path).expect("removed");
        let error = load_all(&checkpoints, 1).err().expect("gone");
        assert!(matches!(&error, Error::MissingFile { path, .. } if named(path)), "{error}");
        disk.put_bytes(&path, good).expect("there");
    }
    assert!(load_all(&checkpoints, 1).is_ok());
}

/// Each checksum fits, and yet the whole does not.
#[test]
fn a_manifest_that_says_something_else_than_its_parts_is_damaged() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 10);
    let checkpoints = checkpoints(&disk);
    let new = NewCheckpoint::begin(&checkpoints, &[], 0).expect("begun");
    let content = write(&new, db.engine().store(), 1 << 20);
    let manifest = new.finish(content).expect("whole");
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut bad = manifest.clone();
        change(&mut bad);
        let bytes = bad.encode(UUID);
        disk.put_bytes(&checkpoints.manifest_path(1), bytes).expect("there");
        let error = load_all(&checkpoints, 1).err().expect("another checkpoint's manifest");
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    };
    // Records of one table are said to be another's.
    refused(&|manifest| {
        let records = manifest.tables.remove(&16).expect("the first table");
        manifest.tables.insert(99, records);
    });
    refused(&|manifest| {
        *manifest.tables.get_mut(&16).expect("the first table") += 1;
        *manifest.tables.get_mut(&17).expect("the second table") -= 1;
    });
    refused(&|manifest| {
        manifest.parts[1].records -= 1;
        *manifest.tables.get_mut(&17).expect("the second table") -= 1;
    });
    refused(&|manifest| manifest.parts[1].blocks += 1);
    refused(&|manifest| manifest.parts[1].bytes += 1);
    refused(&|manifest| (manifest.first_epoch, manifest.last_epoch) = (1, 1));
    disk.put_bytes(&checkpoints.manifest_path(1), manifest.encode(UUID)).expect("there");
    assert!(load_all(&checkpoints, 1).is_ok());
}

#[test]
fn what_is_abandoned_leaves_nothing_and_its_number_is_free_again() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 30);
    let checkpoints = checkpoints(&disk);
    for _ in 0..2 {
        let new = NewCheckpoint::begin(&checkpoints, &["one".into()], 0).expect("begun");
        drop(write(&new, db.engine().store(), 700));
        assert!(!names_in(&disk, "one").is_empty());
        new.abandon();
        assert_eq!(names_in(&disk, "one").len(), 0);
    }
    assert_eq!(checkpoints.newest_first(), Ok(vec![]));
    let new = NewCheckpoint::begin(&checkpoints, &[], 0).expect("begun");
    let content = write(&new, db.engine().store(), 700);
    assert_eq!(new.finish(content).expect("whole").number, 1);
    new.abandon();
    assert!(load_all(&checkpoints, 1).is_ok(), "what is whole is not abandoned any more");
}

/// The same by the engine's own threads, parts of which are small in tests.
#[test]
fn the_engines_own_threads_write_several_parts_and_recovery_loads_them() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 2_000);
    let report = db.checkpoint().expect("whole");
    let expected = rows(db.engine().store());
    let parts = disk.list(Path::new("bank/checkpoint")).expect("there").len() - 1;
    assert!(parts >= 5 && report.records > 4_000, "{parts} parts, {report:?}");
    db.close().expect("durable");
    let options = Options::default().disk(Arc::new(disk.clone())).read_only(true);
    let db = Database::open("bank", options).expect("a database");
    assert_eq!(db.recovery().checkpoint_records, report.records);
    assert_eq!(rows(db.engine().store()), expected);
    db.check().expect("consistent");
}

/// One process writes the parts, another one names them.
#[test]
fn what_somebody_else_has_written_is_adopted_only_whole() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 60);
    let checkpoints = checkpoints(&disk);
    let directories = ["one".into()];
    let ours = NewCheckpoint::begin(&checkpoints, &directories, 6).expect("begun");
    assert_eq!(ours.number(), 7, "above all that were used");
    let theirs = NewCheckpoint::of_number(&checkpoints, 7, &directories);
    let content = write(&theirs, db.engine().store(), 700);
    let written = theirs.hand_batch(content.tables.clone()).expect("durable");
    let path = Path::new("one").join(names_in(&disk, "one").pop().expect("parts"));
    let good = disk.bytes(&path).expect("a part");
    for at in (0..good.len()).step_by(37) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        disk.put_bytes(&path, bad).expect("there");
        assert!(ours.adopt(written.clone(), &|| true).is_err(), "byte {at}");
    }
    disk.put_bytes(&path, [&good[..], &[0]].concat()).expect("there");
    assert!(ours.adopt(written.clone(), &|| true).is_err(), "it is too long");
    disk.put_bytes(&path, good).expect("there");
    assert_eq!(ours.adopt(written.clone(), &|| false), Err(Error::Closed));
    let tables = ours.adopt(written, &|| true).expect("whole");
    let manifest = ours.finish(Content { tables, ..content }).expect("named");
    assert_eq!(manifest.number, 7);
    assert_eq!(rows(&load_all(&checkpoints, 7).expect("whole")), rows(db.engine().store()));
    let after_crash = self::checkpoints(&disk.crash_image(0));
    assert!(load_all(&after_crash, 7).is_ok(), "what was written without a sync was made durable");
}

#[test]
fn what_the_manifest_would_say_wrongly_is_not_named() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 10);
    let checkpoints = checkpoints(&disk);
    let new = NewCheckpoint::begin(&checkpoints, &[], 0).expect("begun");
    let mut content = write(&new, db.engine().store(), 700);
    *content.tables.values_mut().next().expect("tables") += 1;
    assert!(matches!(new.finish(content), Err(Error::Inconsistent { .. })));
    assert_eq!(checkpoints.newest_first(), Ok(vec![]));
}

#[test]
fn leftovers_of_a_number_go_unless_it_has_a_name() {
    let disk = SimulatedDisk::new();
    let db = database(&disk, 10);
    let checkpoints = checkpoints(&disk);
    let directories = ["one".into()];
    for number in 1..=2 {
        let new = NewCheckpoint::begin(&checkpoints, &directories, 0).expect("begun");
        let content = write(&new, db.engine().store(), 700);
        if number == 1 {
            new.finish(content).expect("named");
        }
    }
    let count = |number: &str| {
        let all = [names_in(&disk, "one"), names_in(&disk, "bank/checkpoint")].concat();
        all.iter().filter(|name| name.contains(number)).count()
    };
    let before = count("00000001");
    assert!(before > 1 && count("00000002") > 0);
    (1..=3).for_each(|number| checkpoints.remove_unnamed(number, &directories).expect("removed"));
    assert_eq!((count("00000001"), count("00000002")), (before, 0));
    assert!(load_all(&checkpoints, 1).is_ok());
}

/// But for the mark that says whose they are.
fn names_in(disk: &SimulatedDisk, directory: &str) -> Vec<String> {
    let names = disk.list(Path::new(directory)).unwrap_or_default();
    let names = names.into_iter().map(|name| name.into_string().expect("our names are text"));
    names.filter(|name| !["-DATABASE", "-LOCK"].iter().any(|mark| name.ends_with(mark))).collect()
}
