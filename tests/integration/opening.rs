//! Bad directories: what is no database, of a newer version, read-only or in use is refused with an error that names
//! it and says what to do, and is not changed.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use heddledb::testing::{Disk, Fault, File, LockGuard, Operation, SimulatedDisk};
use heddledb::{Database, Error, Options, Range, RecoveryStep, key, row};
use tables::{DATABASE, counter_definition, file, on_disk, open, refused, rows_of};

use crate::assert_kind;
use crate::support::tables;

/// A closed database with one row.
fn a_database() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(counter_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
    db.close().unwrap();
    disk
}

fn rows(db: &Database) -> usize {
    let table = db.table("counter").unwrap();
    db.run(|tx| rows_of(tx.scan(&table, Range::all()))).unwrap().len()
}

#[test]
fn a_directory_with_other_files_is_not_a_database_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("holiday.jpg"), "a picture").unwrap();
    let words = ["is not a database", "holiday.jpg", "or of an empty or new directory"];
    for options in [Options::default(), Options::default().read_only(true)] {
        let error = refused(Database::open(directory.path(), options), &words);
        assert_kind!(error, Error::NotADatabase { .. });
    }
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["holiday.jpg"]);
    // Nor is a file one.
    let path = directory.path().join("holiday.jpg");
    let error = refused(
        Database::open(&path, Options::default()),
        &["holiday.jpg", "is not a database", "it is a file"],
    );
    assert_kind!(error, Error::NotADatabase { .. });
    assert_eq!(std::fs::read(&path).unwrap(), b"a picture");
}

#[test]
fn a_directory_that_is_not_there_cannot_be_opened_for_reading() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("bank");
    let opened = Database::open(&missing, Options::default().read_only(true));
    assert_kind!(
        refused(opened, &["bank", "is not a database", "there is nothing there"]),
        Error::NotADatabase { .. }
    );
    assert!(!missing.exists());
    std::fs::create_dir(&missing).unwrap();
    let opened = Database::open(&missing, Options::default().read_only(true));
    assert_kind!(refused(opened, &["bank", "there is no database in it"]), Error::NotADatabase { .. });
    assert_eq!(std::fs::read_dir(&missing).unwrap().count(), 0);
}

#[test]
fn a_newer_version_is_named_and_left_alone() {
    let disk = a_database();
    let mut manifest = disk.bytes(&file("MANIFEST")).unwrap();
    let version = u32::from_le_bytes(manifest[8..12].try_into().unwrap());
    manifest[8..12].copy_from_slice(&(version + 41).to_le_bytes());
    let content = manifest.len() - 4;
    let checksum = crc32c::crc32c(&manifest[..content]);
    manifest[content..].copy_from_slice(&checksum.to_le_bytes());
    disk.put_bytes(&file("MANIFEST"), manifest.clone()).unwrap();
    let log = disk.bytes(&file("log/00000001.log")).unwrap();
    let newer = (version + 41).to_string();
    let words = ["MANIFEST", &newer, "up to 5", "nothing was changed", "use a newer program"];
    for read_only in [false, true] {
        let error = refused(Database::open(DATABASE, on_disk(&disk).read_only(read_only)), &words);
        assert_kind!(error, Error::NewerFormat { .. });
    }
    assert_eq!(disk.bytes(&file("MANIFEST")).unwrap(), manifest);
    assert_eq!(disk.bytes(&file("log/00000001.log")).unwrap(), log);
}

#[test]
fn a_damaged_manifest_is_reported_with_its_place() {
    let disk = a_database();
    let mut manifest = disk.bytes(&file("MANIFEST")).unwrap();
    manifest[15] ^= 1;
    disk.put_bytes(&file("MANIFEST"), manifest).unwrap();
    let error = refused(Database::open(DATABASE, on_disk(&disk)), &["MANIFEST", "damaged", "restore"]);
    assert_kind!(error, Error::Damaged { .. });
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_and_can_be_read() {
    for fault in [Fault::ReadOnly, Fault::PermissionDenied] {
        let disk = a_database();
        for operation in
            [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename, Operation::Remove]
        {
            disk.fail_from_now(operation, fault);
        }
        let error = refused(
            Database::open(DATABASE, on_disk(&disk)),
            &["cannot write", DATABASE, "writable file system"],
        );
        assert_kind!(error, Error::NotWritable { .. });
        let operations = disk.operations();
        let db = Database::open(DATABASE, on_disk(&disk).read_only(true)).unwrap();
        assert_eq!(rows(&db), 1);
        db.close().unwrap();
        assert!(disk.operations() <= operations + 1, "at most the lock was tried");
        // Nothing was broken by trying.
        disk.heal();
        assert_eq!(rows(&open(&disk)), 1);
    }
}

#[test]
fn a_new_database_cannot_be_made_where_nothing_can_be_written() {
    for fault in [Fault::ReadOnly, Fault::PermissionDenied] {
        let disk = SimulatedDisk::new();
        disk.fail_from_now(Operation::Create, fault);
        let error = refused(Database::open(DATABASE, on_disk(&disk)), &["cannot write", "permissions"]);
        assert_kind!(error, Error::NotWritable { .. });
        disk.heal();
        open(&disk).close().unwrap();
    }
}

#[test]
fn a_database_opened_read_only_takes_no_update_of_any_kind() {
    let disk = a_database();
    let db = Database::open(DATABASE, on_disk(&disk).read_only(true)).unwrap();
    let table = db.table("counter").unwrap();
    let words = ["read-only", "Options::read_only"];
    type Update<'u> = &'u dyn Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>;
    let updates: [Update<'_>; 5] = [
        &|tx| tx.insert(&table, row![2, 2]),
        &|tx| tx.update(&table, key![1], &[("n", 2.into())]),
        &|tx| tx.delete(&table, key![1]).map(drop),
        &|tx| tx.add(&table, key![1], "n", 1),
        &|tx| tx.max(&table, key![1], "n", 100),
    ];
    for update in updates {
        assert_kind!(refused(db.run(update), &words), Error::ReadOnly);
    }
    refused(db.create_table(tables::order_definition()), &words);
    let increment =
        heddledb::ProcedureDefinition::new("increment").phase([heddledb::Action::commute(&table)
            .key(|_, key| key.push(1))
            .body(|action| action.add("n", 1))]);
    let increment = db.register(increment).unwrap();
    refused(db.call(&increment, heddledb::args![]), &words);
    let read = heddledb::ProcedureDefinition::new("read").phase([heddledb::Action::read(&table)
        .key(|_, key| key.push(1))
        .body(|action| {
            action.return_row(action.get()?.unwrap().to_values());
            Ok(())
        })]);
    let read = db.register(read).unwrap();
    assert_eq!(
        db.call(&read, heddledb::args![]).unwrap().rows,
        [heddledb::row![1, 10].map(heddledb::Value::from)]
    );
    assert_eq!(rows(&db), 1);
    db.check().unwrap();
    db.close().unwrap();
    assert_eq!(rows(&open(&disk)), 1);
}

#[test]
fn a_database_that_is_open_here_is_in_use() {
    let disk = a_database();
    let db = open(&disk);
    let words = [DATABASE, "in use", "close it there first"];
    for read_only in [false, true] {
        let error = refused(Database::open(DATABASE, on_disk(&disk).read_only(read_only)), &words);
        assert_kind!(error, Error::InUse { .. });
    }
    // The handle that is closed lets it go, also where clones of it are left.
    let clone = db.clone();
    db.close().unwrap();
    assert_eq!(rows(&open(&disk)), 1);
    assert_kind!(refused(clone.run(|_| Ok(())), &["closed", "open it again"]), Error::Closed);
}

/// A read-only mount of a disk: files can be read and locked for reading, and nothing can be changed.
struct ReadOnlyMount(SimulatedDisk);

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyMount {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(directory)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.0.open_read(path)
    }
    fn open_write(&self, _: &Path) -> io::Result<Box<dyn File>> {
        read_only()
    }
    fn create_new(&self, _: &Path) -> io::Result<Box<dyn File>> {
        read_only()
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn try_lock(&self, _: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        read_only()
    }
    fn try_lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.0.try_lock_shared(path)
    }
}

#[test]
fn a_live_database_cannot_be_read_through_a_read_only_mount() {
    let disk = a_database();
    let through_mount = || {
        let options = Options::default().disk(Arc::new(ReadOnlyMount(disk.clone()))).read_only(true);
        Database::open(DATABASE, options)
    };
    let live = open(&disk);
    assert_kind!(refused(through_mount(), &[DATABASE, "in use"]), Error::InUse { .. });
    live.close().unwrap();
    let readers = [through_mount().unwrap(), through_mount().unwrap()];
    assert_eq!(readers.each_ref().map(rows), [1, 1]);
    assert_kind!(refused(Database::open(DATABASE, on_disk(&disk)), &["in use"]), Error::InUse { .. });
    for reader in readers {
        reader.close().unwrap();
    }
    // Without a lock file there is no telling whether the database is at rest.
    disk.remove(&file("LOCK")).unwrap();
    assert_kind!(refused(through_mount(), &["LOCK", "writable"]), Error::NotWritable { .. });
    assert_eq!(rows(&open(&disk)), 1);
}

const SECOND_PROCESS: &str = "HEDDLE_TEST_SECOND_PROCESS";

#[test]
fn a_database_that_is_open_in_another_process_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options::default().log(|log| log.segment_bytes(64 << 10));
    let db = Database::open(directory.path(), options()).unwrap();
    let second = |path: &Path| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "opening::the_second_process", "--nocapture"])
            .env(SECOND_PROCESS, path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = second(directory.path());
    assert!(said.contains("in use; close it there first"), "{said}");
    db.close().unwrap();
    let said = second(directory.path());
    assert!(said.contains("opened by the second"), "{said}");
}

/// Not a test of its own: the other process of the test above.
#[test]
fn the_second_process() {
    let Some(path) = std::env::var_os(SECOND_PROCESS) else { return };
    match Database::open(Path::new(&path), Options::default().log(|log| log.segment_bytes(64 << 10))) {
        Ok(_) => println!("opened by the second"),
        Err(error) => println!("{error}"),
    }
}

/// Tests that the progress of recovery is reported in the order of its steps, and never beyond the end.
#[test]
fn opening_a_database_reports_the_progress_of_recovery() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(counter_definition()).unwrap();
    for id in 0..40 {
        db.run(|tx| tx.insert(&table, row![id, 10])).unwrap();
        if id == 20 {
            db.checkpoint().unwrap();
        }
    }
    db.close().unwrap();
    let reported = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let teller = reported.clone();
    let options = on_disk(&disk).recovery_progress(move |progress| teller.lock().unwrap().push(progress));
    let db = Database::open(DATABASE, options).unwrap();
    let reported = reported.lock().unwrap();
    let mut steps: Vec<RecoveryStep> = reported.iter().map(|progress| progress.step).collect();
    steps.dedup();
    assert_eq!(steps, [RecoveryStep::Checkpoint, RecoveryStep::Log, RecoveryStep::Indexes]);
    assert!(
        reported.iter().all(|progress| 0 < progress.done && progress.done <= progress.total),
        "{reported:?}"
    );
    let line = db.recovery().to_string();
    for part in ["recovered in ", "checkpoint 1 of ", " transactions of ", "indexes in "] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(rows(&db), 40);
}
