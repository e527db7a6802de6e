//! A log in a directory of its own: it is found again, belongs to one database, and survives what other logs survive.

use super::*;
use crate::durability::backup::{back_up, verify};
use crate::testing::{Disk, Fault, Operation};

const LOG: &str = "fast/bank-log";

fn options() -> SegmentSizes {
    pages(4, 2)
}

fn groups() -> Vec<Group> {
    [10, 5000, 20_000, 300, 8057].into_iter().zip(1..).map(|(bytes, epoch)| group(epoch, bytes)).collect()
}

fn open_here(disk: &SimulatedDisk, log: Option<&str>) -> Result<Opened> {
    open_with_log(disk, &options(), log)
}

/// What opening is refused with.
fn refusal(disk: &SimulatedDisk, path: &str, log: Option<&str>) -> Error {
    let (path, log) = (Path::new(path), log.map(Path::new));
    let to_read = DatabaseDirectory::open_existing(shared(disk), path, log).err();
    let to_write = DatabaseDirectory::open(shared(disk), path, &options(), log).err().expect("refused");
    if let Some(error) = to_read.filter(|error| !matches!(error, Error::NotADatabase { .. })) {
        assert_eq!(error, to_write);
    }
    to_write
}

/// A database with all groups, its log elsewhere.
fn database() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut opened = open_here(&disk, Some(LOG)).expect("a new database");
    groups().iter().for_each(|group| opened.append(group).expect("the disk is healthy"));
    disk
}

fn names(disk: &SimulatedDisk, path: &str) -> Vec<String> {
    let names = disk.list(Path::new(path)).expect("the directory is there");
    names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Copies the files of one directory to another, as `cp` does.
fn copy(disk: &SimulatedDisk, from: &str, to: &str) {
    disk.create_dir_all(Path::new(to)).expect("a directory");
    for name in names(disk, from) {
        let bytes = disk.bytes(&Path::new(from).join(&name)).expect("a file");
        disk.put_bytes(&Path::new(to).join(&name), bytes).expect("the directory is there");
    }
}

fn remove_all(disk: &SimulatedDisk, path: &str) {
    for name in names(disk, path) {
        disk.remove(&Path::new(path).join(name)).expect("it is there");
    }
}

#[test]
fn the_log_is_there_and_found_again_with_and_without_the_option() {
    let disk = database();
    assert_eq!(names(&disk, DATABASE), ["LOCK", "MANIFEST"]);
    assert_eq!(names(&disk, LOG)[..3], ["00000001.log", "00000002.log", "00000003.log"]);
    assert!(names(&disk, LOG).ends_with(&["DATABASE".to_string(), "LOCK".to_string()]));
    for log in [None, Some(LOG)] {
        let opened = open_here(&disk, log).expect("the same database");
        assert_eq!(opened.groups, groups());
        assert_eq!(opened.directory.log_path(), Path::new(LOG));
        let second = open_here(&disk, log).err().expect("one process at a time");
        assert_eq!(second, Error::InUse { path: DATABASE.to_string() });
    }
    let to_read = DatabaseDirectory::open_existing(shared(&disk), Path::new(DATABASE), None).expect("read");
    assert_eq!(read_log(&to_read).expect("readable").0, groups());
}

#[test]
fn a_log_does_not_move_by_an_option() {
    let disk = database();
    let error = refusal(&disk, DATABASE, Some("elsewhere"));
    assert!(matches!(error, Error::InvalidOption { option: "log.directory", .. }), "{error}");
    assert!(error.to_string().contains(LOG), "{error}");
    assert!(!disk.exists(Path::new("elsewhere")).expect("healthy"));
    let plain = database_with(&groups(), &options());
    assert!(matches!(refusal(&plain, DATABASE, Some(LOG)), Error::InvalidOption { .. }));
    let own = Path::new("bank/log");
    DatabaseDirectory::open(shared(&plain), Path::new(DATABASE), &options(), Some(own)).expect("as it is");
}

#[test]
fn what_is_not_free_is_refused_and_left_alone() {
    let disk = database();
    disk.create_dir_all(Path::new("home")).expect("a directory");
    disk.put_bytes(Path::new("home/letter"), b"mine".to_vec()).expect("a file");
    let before = disk.crash_image(1);
    for (log, is_right) in [
        (
            LOG,
            (|error| matches!(error, Error::ForeignLog { owner, .. } if owner == DATABASE))
                as fn(&Error) -> bool,
        ),
        ("home", |error| matches!(error, Error::NotEmpty { found, .. } if found == "letter")),
        ("home/letter", |error| matches!(error, Error::InvalidOption { .. })),
        ("other", |error| matches!(error, Error::InvalidOption { .. })),
        ("other/log", |error| matches!(error, Error::InvalidOption { .. })),
    ] {
        let error = refusal(&disk, "other", Some(log));
        assert!(is_right(&error), "{log}: {error}");
    }
    for path in [LOG, "home"] {
        assert_eq!(names(&disk, path), names(&before, path));
    }
    assert_eq!(open_here(&disk, None).expect("unharmed").groups, groups());
}

#[test]
fn a_missing_log_is_reported_with_its_path_and_nothing_is_made() {
    let disk = database();
    let there = disk.crash_image(1);
    remove_all(&disk, LOG);
    let error = refusal(&disk, DATABASE, None);
    assert!(matches!(&error, Error::MissingFile { path, .. } if path.starts_with(LOG)), "{error}");
    assert_eq!(names(&disk, LOG), Vec::<String>::new());
    let elsewhere = SimulatedDisk::new();
    elsewhere.create_dir_all(Path::new(DATABASE)).expect("a directory");
    let manifest = there.bytes(Path::new("bank/MANIFEST")).expect("it is there");
    elsewhere.put_bytes(Path::new("bank/MANIFEST"), manifest).expect("a file");
    let error = refusal(&elsewhere, DATABASE, None);
    assert!(matches!(&error, Error::MissingFile { path, .. } if path == LOG), "{error}");
    assert!(!elsewhere.exists(Path::new(LOG)).expect("healthy"));
}

#[test]
fn another_databases_log_in_its_place_is_foreign() {
    let (disk, other) = (database(), database());
    remove_all(&disk, LOG);
    for name in names(&other, LOG) {
        let bytes = other.bytes(&Path::new(LOG).join(&name)).expect("a file");
        disk.put_bytes(&Path::new(LOG).join(name), bytes).expect("the directory is there");
    }
    let error = refusal(&disk, DATABASE, None);
    assert!(matches!(&error, Error::ForeignLog { path, .. } if path == LOG), "{error}");
    // Whose log it is says `DATABASE`; that its segments are so is looked at all the same.
    let own = database();
    let mark = own.bytes(&Path::new(LOG).join("DATABASE")).expect("it is there");
    own.put_bytes(&Path::new(LOG).join("00000001.log"), segment_elsewhere(&other)).expect("a file");
    own.put_bytes(&Path::new(LOG).join("DATABASE"), mark).expect("a file");
    assert!(matches!(open_here(&own, None), Err(Error::ForeignFile { .. })));
}

fn segment_elsewhere(disk: &SimulatedDisk) -> Vec<u8> {
    disk.bytes(&Path::new(LOG).join("00000001.log")).expect("it is there")
}

#[test]
fn a_copy_of_the_directory_does_not_get_the_originals_log() {
    let disk = database();
    copy(&disk, DATABASE, "copy");
    let error = refusal(&disk, "copy", None);
    assert_eq!(error, Error::ForeignLog { path: LOG.to_string(), owner: DATABASE.to_string() });
    let refused = back_up(&shared(&disk), Path::new("copy"), Path::new("backup"), &mut |_, _| ());
    assert!(matches!(refused, Err(Error::ForeignLog { .. })), "{refused:?}");
    assert_eq!(open_here(&disk, None).expect("unharmed").groups, groups());
}

#[test]
fn a_database_that_was_moved_takes_its_log_along() {
    let disk = database();
    copy(&disk, DATABASE, "moved");
    remove_all(&disk, DATABASE);
    let moved = Path::new("moved");
    let mark = |disk: &SimulatedDisk| disk.bytes(&Path::new(LOG).join("DATABASE")).expect("it is there");
    let before = mark(&disk);
    let to_read = DatabaseDirectory::open_existing(shared(&disk), moved, None).expect("readable");
    assert_eq!(read_log(&to_read).expect("readable").0, groups());
    assert_eq!(mark(&disk), before, "who only reads changes nothing");
    drop(to_read);
    let directory = DatabaseDirectory::open(shared(&disk), moved, &options(), None).expect("the same");
    assert_eq!(read_log(&directory).expect("readable").0, groups());
    drop(directory);
    assert_ne!(mark(&disk), before);
    // From here on the log is the moved one's, and the old place cannot have it back beside that.
    copy(&disk, "moved", DATABASE);
    assert_eq!(
        refusal(&disk, DATABASE, None),
        Error::ForeignLog { path: LOG.to_string(), owner: "moved".to_string() }
    );
}

#[test]
fn two_processes_do_not_share_a_log_even_if_they_are_moved_copies() {
    let disk = database();
    copy(&disk, DATABASE, "moved");
    remove_all(&disk, DATABASE);
    let _lock = disk.try_lock(&Path::new(LOG).join("LOCK")).expect("healthy").expect("free");
    assert_eq!(refusal(&disk, "moved", None), Error::InUse { path: LOG.to_string() });
}

#[test]
fn a_damaged_mark_is_reported_with_its_path() {
    let disk = database();
    let path = Path::new(LOG).join("DATABASE");
    let good = disk.bytes(&path).expect("it is there");
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        disk.put_bytes(&path, bytes).expect("a file");
        let error = open_here(&disk, None).err().expect("damaged");
        assert!(matches!(&error, Error::Damaged { path, .. } if path.ends_with("DATABASE")), "{at}: {error}");
    }
    disk.remove(&path).expect("it is there");
    let error = open_here(&disk, None).err().expect("missing");
    assert!(matches!(&error, Error::MissingFile { path, .. } if path.ends_with("DATABASE")), "{error}");
}

#[test]
fn a_creation_that_was_interrupted_is_started_over() {
    let healthy = SimulatedDisk::new();
    drop(open_here(&healthy, Some(LOG)).expect("a new database"));
    assert!(healthy.operations() > 20);
    for limit in 0..=healthy.operations() {
        for seed in 0..30 {
            let disk = SimulatedDisk::new();
            disk.crash_after(limit);
            let done = open_here(&disk, Some(LOG)).is_ok();
            let image = disk.crash_image(seed);
            let manifest = image.exists(Path::new("bank/MANIFEST")).expect("the image is healthy");
            assert!(manifest || !done);
            let mut opened = open_here(&image, Some(LOG))
                .unwrap_or_else(|error| panic!("limit {limit}, seed {seed}: {error}"));
            opened.append(&group(1, 100)).expect("the disk is healthy");
            drop(opened);
            assert_eq!(open_here(&image, None).expect("whole").groups, [group(1, 100)]);
            assert!(!image.exists(Path::new("bank/log")).expect("healthy"));
        }
    }
}

#[test]
fn a_creation_may_be_started_over_with_the_log_at_home() {
    let healthy = SimulatedDisk::new();
    drop(open_here(&healthy, Some(LOG)).expect("a new database"));
    for limit in 0..=healthy.operations() {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        let _ = open_here(&disk, Some(LOG));
        for seed in [0, 1, limit + 2] {
            let image = disk.crash_image(seed);
            open_here(&image, None).unwrap_or_else(|error| panic!("limit {limit}, seed {seed}: {error}"));
        }
    }
}

#[test]
fn at_every_boundary_what_was_acknowledged_survives() {
    let groups = groups();
    let run = |disk: &SimulatedDisk| {
        let Ok(mut opened) = open_here(disk, Some(LOG)) else { return 0 };
        groups.iter().take_while(|group| opened.append(group).is_ok()).count()
    };
    let healthy = SimulatedDisk::new();
    assert_eq!(run(&healthy), groups.len());
    for limit in 0..=healthy.operations() {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        let acknowledged = run(&disk);
        for seed in 0..6 {
            let image = disk.crash_image(seed);
            let found = open_here(&image, Some(LOG)).map(|opened| opened.groups);
            let found = found.unwrap_or_else(|error| panic!("limit {limit}, seed {seed}: {error}"));
            assert!((acknowledged..=acknowledged + 1).contains(&found.len()), "limit {limit}, seed {seed}");
            assert_eq!(found[..], groups[..found.len()]);
        }
    }
}

#[test]
fn a_move_that_was_interrupted_leaves_a_log_that_opens() {
    let moved = database();
    copy(&moved, DATABASE, "moved");
    remove_all(&moved, DATABASE);
    for limit in 0.. {
        let disk = moved.crash_image(1);
        disk.crash_after(limit);
        let opened = DatabaseDirectory::open(shared(&disk), Path::new("moved"), &options(), None).is_ok();
        for seed in 0..8 {
            let image = disk.crash_image(seed);
            let again = DatabaseDirectory::open(shared(&image), Path::new("moved"), &options(), None);
            let again = again.unwrap_or_else(|error| panic!("limit {limit}, seed {seed}: {error}"));
            assert_eq!(read_log(&again).expect("whole").0, groups());
        }
        if opened && disk.operations() <= limit {
            break;
        }
    }
}

#[test]
fn a_log_on_a_disk_that_cannot_be_written_can_be_read() {
    let disk = database();
    disk.fail_from_now(Operation::Create, Fault::ReadOnly);
    let directory = DatabaseDirectory::open_existing(shared(&disk), Path::new(DATABASE), None).expect("read");
    assert_eq!(read_log(&directory).expect("readable").0, groups());
    drop(directory);
    disk.heal();
    let disk = SimulatedDisk::new();
    disk.fail_from_now(Operation::Create, Fault::PermissionDenied);
    assert!(matches!(open_here(&disk, Some(LOG)), Err(Error::NotWritable { .. })));
}

#[test]
fn a_backup_has_the_log_in_its_own_directory() {
    let disk = database();
    let shared_disk = shared(&disk);
    let report = verify(&shared_disk, Path::new(DATABASE), &mut |_, _| ()).expect("sound");
    assert_eq!(report.epoch, 5);
    let copied = back_up(&shared_disk, Path::new(DATABASE), Path::new("backup"), &mut |_, _| ());
    assert_eq!(copied.expect("copied").epoch, 5);
    remove_all(&disk, DATABASE);
    remove_all(&disk, LOG);
    let directory = DatabaseDirectory::open(shared_disk, Path::new("backup"), &options(), None).expect("one");
    assert_eq!(directory.log_path(), Path::new("backup/log"));
    assert_eq!(read_log(&directory).expect("whole").0, groups());
}
