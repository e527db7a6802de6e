//! Tests of the directories that may be opened, and of those that are refused and left unchanged.

use super::*;
use crate::testing::{Disk, Fault, File, Operation};

fn open_directory(disk: &SimulatedDisk, path: &str) -> Result<DatabaseDirectory> {
    DatabaseDirectory::open(shared(disk), Path::new(path), &pages(3, 1), None)
}

fn names(disk: &SimulatedDisk, path: &str) -> Vec<std::ffi::OsString> {
    disk.list(Path::new(path)).expect("the directory is there")
}

#[test]
fn a_database_is_made_once_and_keeps_its_identity() {
    let disk = SimulatedDisk::new();
    let first = open_directory(&disk, "data/new/bank").expect("a new database");
    assert_eq!(first.path(), Path::new("data/new/bank"));
    let uuid = first.uuid();
    drop(first);
    assert_eq!(names(&disk, "data/new/bank"), ["LOCK", "MANIFEST", "log"]);
    assert_eq!(open_directory(&disk, "data/new/bank").expect("the same").uuid(), uuid);
    let image = disk.crash_image(0);
    assert_eq!(open_directory(&image, "data/new/bank").expect("the same").uuid(), uuid);
    assert_ne!(open_directory(&disk, "other").expect("another").uuid(), uuid);
}

#[test]
fn an_empty_directory_becomes_a_database() {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("bank")).expect("a directory");
    open_directory(&disk, "bank").expect("a new database");
    assert_eq!(names(&disk, "bank"), ["LOCK", "MANIFEST", "log"]);
}

#[test]
fn only_one_may_have_it_open() {
    let disk = SimulatedDisk::new();
    let first = open_directory(&disk, "bank").expect("a new database");
    let error = open_directory(&disk, "bank").err().expect("it is in use");
    assert_eq!(error, Error::InUse { path: "bank".to_string() });
    drop(first);
    open_directory(&disk, "bank").expect("it is free again");
}

#[test]
fn what_is_no_database_is_left_alone() {
    let disk = SimulatedDisk::new();
    for (path, name) in [("home", "letter.txt"), ("git", "log.txt")] {
        disk.create_dir_all(Path::new(path)).expect("a directory");
        disk.put_bytes(&Path::new(path).join(name), b"mine".to_vec()).expect("a file");
        let error = open_directory(&disk, path).err().expect("no database");
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains(name));
        assert_eq!(names(&disk, path), [name]);
    }
    let error = open_directory(&disk, "home/letter.txt").err().expect("a file");
    assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
    // Other engines have a file of this name, too.
    disk.put_bytes(Path::new("home/LOCK"), b"theirs".to_vec()).expect("a file");
    assert!(matches!(open_directory(&disk, "home"), Err(Error::NotADatabase { .. })));
    assert_eq!(disk.bytes(Path::new("home/LOCK")).expect("it is there"), b"theirs");
    disk.create_dir_all(Path::new("other/log")).expect("a directory");
    disk.put_bytes(Path::new("other/log/syslog"), b"mine".to_vec()).expect("a file");
    assert!(matches!(open_directory(&disk, "other"), Err(Error::NotADatabase { .. })));
    assert_eq!(names(&disk, "other"), ["log"]);
}

#[test]
fn a_log_with_data_is_not_overwritten_when_the_manifest_is_missing() {
    let disk = database_with(&[group(1, 10)], &pages(3, 1));
    let before = segment_bytes(&disk);
    disk.remove(Path::new("bank/MANIFEST")).expect("it is there");
    let error = open_directory(&disk, "bank").err().expect("no manifest");
    assert!(error.to_string().contains("MANIFEST is missing"), "{error}");
    assert_eq!(segment_bytes(&disk), before);
}

#[test]
fn a_newer_or_damaged_manifest_is_named_and_nothing_is_changed() {
    let disk = database_with(&[group(1, 10)], &pages(3, 1));
    let manifest = Path::new("bank/MANIFEST");
    let good = disk.bytes(manifest).expect("it is there");
    let mut newer = good.clone();
    newer[8] = 9;
    let checksum = crc32c::crc32c(&newer[..28]);
    newer[28..].copy_from_slice(&checksum.to_le_bytes());
    let mut damaged = good.clone();
    damaged[20] ^= 4;
    for (bytes, is_newer) in
        [(newer, true), (damaged, false), (good[..20].to_vec(), false), (vec![0; 100_000], false)]
    {
        disk.put_bytes(manifest, bytes.clone()).expect("a file");
        let operations = disk.operations();
        let error = open_directory(&disk, "bank").err().expect("it is refused");
        assert_eq!(matches!(error, Error::NewerFormat { found: 9, .. }), is_newer, "{error}");
        assert_eq!(matches!(error, Error::Damaged { .. }), !is_newer, "{error}");
        assert_eq!(disk.bytes(manifest).expect("it is there"), bytes);
        // The directory's parent is synced: no name and no byte is changed.
        assert!(disk.operations() <= operations + 1);
    }
    disk.put_bytes(manifest, good).expect("a file");
    assert_eq!(read(&disk).expect("a good log").0.len(), 1);
}

#[test]
fn a_manifest_without_a_log_is_missing_files() {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("bank")).expect("a directory");
    let good = database_with(&[], &pages(3, 1)).bytes(Path::new("bank/MANIFEST")).expect("it is there");
    disk.put_bytes(Path::new("bank/MANIFEST"), good).expect("a file");
    assert!(matches!(open(&disk, &pages(3, 1)), Err(Error::MissingFile { .. })));
    disk.create_dir_all(Path::new("bank/log")).expect("a directory");
    let error = open(&disk, &pages(3, 1)).err().expect("no segment");
    assert!(matches!(&error, Error::MissingFile { path, .. } if path.ends_with("00000001.log")));
}

#[test]
fn a_place_that_cannot_be_written_is_said_to_be_so() {
    for fault in [Fault::ReadOnly, Fault::PermissionDenied] {
        let disk = SimulatedDisk::new();
        disk.fail_from_now(Operation::Create, fault);
        let error = open_directory(&disk, "bank").err().expect("it cannot be made");
        assert!(matches!(error, Error::NotWritable { .. }), "{error}");
        assert!(names(&disk, "").is_empty());
        disk.heal();
        disk.create_dir_all(Path::new("bank")).expect("a directory");
        disk.fail_from_now(Operation::Create, fault);
        let error = open_directory(&disk, "bank").err().expect("it cannot be locked");
        assert!(matches!(error, Error::NotWritable { .. }), "{error}");
    }
}

#[test]
fn creation_that_runs_out_of_space_is_taken_up_again() {
    for capacity in (0..4 * PAGE_BYTES).step_by(1000) {
        let disk = SimulatedDisk::new();
        disk.set_capacity(capacity);
        match open_directory(&disk, "bank") {
            Ok(_) => assert!(capacity > 3 * PAGE_BYTES),
            Err(error) => assert!(matches!(error, Error::StorageFull { .. }), "{error}"),
        }
        disk.heal();
        open_directory(&disk, "bank").expect("space is free again");
    }
}

#[test]
fn other_names_in_the_log_directory_are_ignored() {
    let disk = database_with(&[group(1, 10)], &pages(3, 1));
    for name in ["notes", "1.log", "00000009.log.bak", "00000007.log.tmp", "99999999999999.log"] {
        disk.put_bytes(&Path::new("bank/log").join(name), b"?".to_vec()).expect("a file");
    }
    assert_eq!(open(&disk, &pages(3, 1)).expect("a good log").groups.len(), 1);
    assert!(disk.open_read(Path::new("bank/log/00000007.log.tmp")).is_err(), "our own debris is removed");
    let notes: Box<dyn File> = disk.open_read(Path::new("bank/log/notes")).expect("it is not ours");
    assert_eq!(notes.len().expect("a length"), 1);
}
