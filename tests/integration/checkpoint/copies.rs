//! Copies of a database's files whose checkpoints lie elsewhere: they name the same parts, and must not remove the
//! original's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heddledb::testing::{Disk, Fault, Operation, SimulatedDisk};
use heddledb::{Database, Error, Options, ProtocolKind, Range, Result};

use crate::checkpoint::journal::*;

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

fn elsewhere(disk: &SimulatedDisk) -> Options {
    plain(disk).checkpoints(|checkpoints| checkpoints.directory("elsewhere"))
}

fn list(disk: &SimulatedDisk, directory: &str) -> Vec<String> {
    let names = disk.list(Path::new(directory)).unwrap_or_default();
    names.into_iter().map(|name| name.into_string().expect("a plain name")).collect()
}

/// Copies a closed database, file by file: what `cp -r` does.
fn copy(disk: &SimulatedDisk, from: &str, to: &str) {
    for folder in ["", "log", "checkpoint"] {
        let (from, to) = (Path::new(from).join(folder), Path::new(to).join(folder));
        disk.create_dir_all(&to).expect("a directory");
        for name in list(disk, from.to_str().expect("a plain name")) {
            if let Ok(bytes) = disk.bytes(&from.join(&name)) {
                disk.put_bytes(&to.join(&name), bytes).expect("there");
            }
        }
    }
}

fn remove_all(disk: &SimulatedDisk, path: &str) {
    for folder in ["log", "checkpoint", ""] {
        let folder = Path::new(path).join(folder);
        for name in list(disk, folder.to_str().expect("a plain name")) {
            // Directories stay.
            _ = disk.remove(&folder.join(name));
        }
    }
}

/// A closed database of ten calls, whose checkpoint lies elsewhere.
fn striped(disk: &SimulatedDisk) -> Made {
    let journal = Journal::create(elsewhere(disk));
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    journal.db.close().expect("durable");
    Made { calls: vec![10], tables: 0 }
}

/// Removes the marks, as in databases of earlier versions.
fn remove_marks(disk: &SimulatedDisk) {
    let directory = Path::new("elsewhere");
    for name in list(disk, "elsewhere").iter().filter(|name| !name.ends_with(".part")) {
        disk.remove(&directory.join(name)).expect("it was there");
    }
    disk.sync_dir(directory).expect("healthy");
}

fn is_marked(disk: &SimulatedDisk, directory: &str) -> bool {
    list(disk, directory).iter().any(|name| name.ends_with("-DATABASE"))
}

fn events(db: &Database) -> Result<usize> {
    let events = db.table("event")?;
    db.run(|tx| Ok(tx.scan(&events, Range::all())?.count()))
}

#[test]
fn a_copy_is_refused_before_it_removes_the_originals_parts() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    copy(&disk, DIRECTORY, "copy");
    let before = (list(&disk, "elsewhere"), disk.operations());
    // By the manifest, whether the directory is given or not; and another one is no help.
    for options in [
        plain(&disk),
        elsewhere(&disk),
        plain(&disk).checkpoints(|checkpoints| checkpoints.directory("another")),
    ] {
        let refused = Database::open("copy", options).expect_err("it is a copy");
        let expected =
            Error::ForeignCheckpoints { path: "elsewhere".to_string(), owner: DIRECTORY.to_string() };
        assert_eq!(refused, expected);
        assert!(refused.to_string().contains("heddle backup"), "{refused}");
    }
    assert_eq!(list(&disk, "elsewhere"), before.0);
    let to_read = Database::open("copy", plain(&disk).read_only(true)).expect("readable");
    assert!(events(&to_read).expect("readable") > 0);
    drop(to_read);
    let journal = Journal::survives(elsewhere(&disk), &made, "the original");
    journal.db.checkpoint().expect("whole");
    journal.db.close().expect("durable");
    drop(Journal::survives(elsewhere(&disk), &made, "once more"));
}

/// A copy that has no part elsewhere, and is directed to put its parts where the original's are.
#[test]
fn a_copy_is_refused_whose_first_part_would_lie_beside_the_originals() {
    let disk = SimulatedDisk::new();
    drop(Journal::create(plain(&disk)));
    copy(&disk, DIRECTORY, "copy");
    let original = Journal::open(elsewhere(&disk)).expect("opens");
    let other = Database::open("copy", elsewhere(&disk)).expect("nothing is there yet");
    original.db.checkpoint().expect("whole");
    let refused = other.checkpoint().expect_err("it is the original's now");
    assert!(refused.to_string().contains(DIRECTORY), "{refused}");
    drop(other);
    assert!(matches!(Database::open("copy", elsewhere(&disk)), Err(Error::ForeignCheckpoints { .. })));
    assert!(Database::open("copy", plain(&disk)).is_ok(), "it has nothing there");
    original.db.checkpoint().expect("whole");
}

#[test]
fn a_database_that_was_moved_takes_its_parts_along() {
    let disk = SimulatedDisk::new();
    striped(&disk);
    copy(&disk, DIRECTORY, "moved");
    remove_all(&disk, DIRECTORY);
    let moved = Database::open("moved", elsewhere(&disk)).expect("there is no other");
    assert!(events(&moved).expect("readable") > 0);
    moved.checkpoint().expect("whole");
    moved.close().expect("durable");
    copy(&disk, "moved", DIRECTORY);
    let refused = Database::open(DIRECTORY, elsewhere(&disk)).expect_err("it is a copy now");
    assert!(matches!(refused, Error::ForeignCheckpoints { owner, .. } if owner == "moved"));
}

/// Parts of earlier versions have no mark: a thread that opens them first claims them, at whatever moment the power goes.
#[test]
fn parts_without_a_mark_are_claimed_when_their_database_is_opened() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    remove_marks(&disk);
    copy(&disk, DIRECTORY, "copy");
    for boundary in 0.. {
        let image = disk.crash_image(1);
        image.crash_after(boundary);
        let opened = Journal::open(elsewhere(&image)).is_ok();
        let whole = image.operations() <= boundary;
        for seed in [0, boundary + 1] {
            let after = image.crash_image(seed);
            drop(Journal::survives(elsewhere(&after), &made, &format!("boundary {boundary}, seed {seed}")));
            assert!(is_marked(&after, "elsewhere"), "{:?}", list(&after, "elsewhere"));
        }
        // The process was killed, and the power goes only when the next one has opened it.
        image.heal();
        drop(Journal::survives(elsewhere(&image), &made, &format!("killed after {boundary}")));
        let after = image.crash_image(0);
        assert!(is_marked(&after, "elsewhere"), "{boundary}: {:?}", list(&after, "elsewhere"));
        if whole {
            assert!(opened && boundary > 3, "only {boundary} operations");
            break;
        }
    }
}

#[test]
fn a_directory_that_is_used_no_more_is_given_up() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    assert!(list(&disk, "elsewhere").len() > 2);
    let journal = Journal::survives(plain(&disk), &made, "the manifest says where");
    journal.db.checkpoint().expect("whole");
    assert_eq!(list(&disk, "elsewhere"), Vec::<String>::new());
    journal.db.close().expect("durable");
    copy(&disk, DIRECTORY, "copy");
    assert!(Database::open("copy", elsewhere(&disk)).is_ok(), "it is free");
}

#[test]
fn a_damaged_mark_is_refused_by_its_name() {
    let disk = SimulatedDisk::new();
    striped(&disk);
    let mark = list(&disk, "elsewhere").into_iter().find(|name| name.ends_with("DATABASE")).expect("a mark");
    let path = Path::new("elsewhere").join(&mark);
    let whole = disk.bytes(&path).expect("there");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        disk.put_bytes(&path, bytes).expect("there");
        let refused = Database::open(DIRECTORY, elsewhere(&disk)).expect_err("it is damaged");
        assert!(refused.to_string().contains(&mark), "{at}: {refused}");
    }
}

/// The checkpoint that is kept may call a directory by another path than the one before.
#[test]
fn a_directory_that_gets_another_path_is_not_given_up() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    let options = || plain(&disk).checkpoints(|checkpoints| checkpoints.directory("/elsewhere"));
    let journal = Journal::survives(options(), &made, "by another path");
    for _ in 0..2 {
        journal.db.checkpoint().expect("whole");
        assert!(is_marked(&disk, "elsewhere"), "{:?}", list(&disk, "elsewhere"));
    }
    copy(&disk, DIRECTORY, "copy");
    assert!(matches!(Database::open("copy", plain(&disk)), Err(Error::ForeignCheckpoints { .. })));
    journal.db.close().expect("durable");
    drop(Journal::survives(plain(&disk), &made, "the parts are there"));
}

/// Tests that nothing is removed if it could not be claimed when the database was opened, and is another
/// one's by then.
#[test]
fn nothing_is_removed_where_another_copy_has_put_its_mark_since() {
    for fault in [Fault::ReadOnly, Fault::PermissionDenied, Fault::StorageFull, Fault::InputOutput] {
        let disk = SimulatedDisk::new();
        let made = striped(&disk);
        remove_marks(&disk);
        copy(&disk, DIRECTORY, "copy");
        disk.fail_next(Operation::Rename, fault);
        let journal =
            Journal::survives(plain(&disk), &made, &format!("{fault:?}, which is no reason to refuse it"));
        assert!(!is_marked(&disk, "elsewhere"), "the mark is what failed");
        let other = Database::open("copy", plain(&disk)).expect("it is not open");
        let before = list(&disk, "elsewhere");
        for leftover in [true, false] {
            let report = journal.db.checkpoint().expect("whole, beside its manifest");
            let is_reported =
                matches!(report.leftover, Some(Error::ForeignCheckpoints { owner, .. }) if owner == "copy");
            assert_eq!(is_reported, leftover);
            assert_eq!(list(&disk, "elsewhere"), before, "{fault:?}");
        }
        other.close().expect("durable");
        let other = Database::open("copy", plain(&disk)).expect("all its parts are there");
        assert!(events(&other).expect("readable") > 0);
    }
}

#[test]
fn what_could_not_be_claimed_is_claimed_before_something_is_removed() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    remove_marks(&disk);
    disk.fail_next(Operation::Rename, Fault::StorageFull);
    let journal = Journal::survives(elsewhere(&disk), &made, "it is opened all the same");
    assert!(!is_marked(&disk, "elsewhere"));
    let report = journal.db.checkpoint().expect("there is room again");
    assert!(report.leftover.is_none() && is_marked(&disk, "elsewhere"), "{report:?}");
    assert!(
        list(&disk, "elsewhere").iter().all(|name| !name.contains("-00000001-")),
        "the older one is gone"
    );
}

#[test]
fn a_copy_that_is_refused_claims_nothing() {
    let disk = SimulatedDisk::new();
    let made = striped(&disk);
    copy(&disk, DIRECTORY, "copy");
    disk.create_dir_all(Path::new("another")).expect("a directory");
    // It comes before the one that is the original's.
    let both =
        || plain(&disk).checkpoints(|checkpoints| checkpoints.directory("another").directory("elsewhere"));
    assert!(matches!(Database::open("copy", both()), Err(Error::ForeignCheckpoints { .. })));
    assert_eq!(list(&disk, "another"), Vec::<String>::new());
    let journal = Journal::survives(both(), &made, "the original has both");
    journal.db.checkpoint().expect("whole");
}

/// A mark is text: two paths that are none could look alike there, and neither would be found again.
#[test]
fn a_database_whose_path_is_no_text_claims_nothing() {
    let disk = SimulatedDisk::new();
    striped(&disk);
    let [one, other] = [b"bank\xfe", b"bank\xff"].map(|name| Path::new(OsStr::from_bytes(name)));
    for (path, folder) in
        [one, other].into_iter().flat_map(|path| ["", "log", "checkpoint"].map(|folder| (path, folder)))
    {
        disk.create_dir_all(&path.join(folder)).expect("a directory");
        for name in names(&disk, folder) {
            if let Ok(bytes) = disk.bytes(&file(folder, &name)) {
                disk.put_bytes(&path.join(folder).join(name), bytes).expect("there");
            }
        }
    }
    remove_all(&disk, DIRECTORY);
    let before = list(&disk, "elsewhere");
    for path in [one, other] {
        let refused =
            Database::open(path, elsewhere(&disk)).expect_err("it could not be distinguished from others");
        assert!(refused.to_string().contains("not valid UTF-8"), "{refused}");
        assert!(events(&Database::open(path, plain(&disk).read_only(true)).expect("readable")).is_ok());
    }
    assert_eq!(list(&disk, "elsewhere"), before);
}

/// Tests that a database counts as moved even if there is a file now in the place of its owner, or below it.
#[test]
fn a_database_was_moved_if_its_path_leads_nowhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let [old, new, parts] = ["old", "new", "parts"].map(|name| directory.path().join(name));
    let options = || Options::default().checkpoints(|checkpoints| checkpoints.directory(&parts));
    let db = Database::open(old.join("bank"), options()).expect("a new database");
    db.checkpoint().expect("whole");
    db.close().expect("durable");
    std::fs::rename(&old, &new).expect("moved");
    std::fs::write(&old, "a file").expect("written");
    let db = Database::open(new.join("bank"), options()).expect("there is no other");
    assert!(db.checkpoint().expect("whole").leftover.is_none());
}
