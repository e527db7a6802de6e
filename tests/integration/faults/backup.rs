//! Backups under load: whatever is written meanwhile, and whatever checkpoints remove, a backup holds everything that was
//! acknowledged before it began, nothing by half, and opens like any database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::testing::{Disk, Fault, Operation, SimulatedDisk};
use heddledb::{Database, Durability, Error, Options, ProtocolKind};

use crate::checkpoint::journal::{DIRECTORY, Journal, Made, file, options};
use crate::support::split::in_time;

const THREADS: usize = 3;

fn quiet() -> impl FnMut(u64, u64) {
    |_, _| ()
}

/// Moves a backup to where tests open databases, on a disk of its own.
fn as_database(disk: &SimulatedDisk, backup: &str) -> SimulatedDisk {
    let other = SimulatedDisk::new();
    for folder in ["", "log", "checkpoint"] {
        let (from, to) = (Path::new(backup).join(folder), Path::new(DIRECTORY).join(folder));
        let Ok(names) = disk.list(&from) else { continue };
        other.create_dir_all(&to).expect("a directory");
        for name in names {
            if let Ok(bytes) = disk.bytes(&from.join(&name)) {
                other.put_bytes(&to.join(&name), bytes).expect("there");
            }
        }
    }
    other
}

fn under_load(protocol: ProtocolKind, from_outside: bool) {
    let disk = SimulatedDisk::new();
    Journal::create(options(&disk, protocol)).db.close().expect("durable");
    let journal = Journal::open(options(&disk, protocol)).expect("opens");
    let counts: Vec<AtomicI64> = (0..THREADS).map(|_| AtomicI64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let read =
        || Made { calls: counts.iter().map(|count| count.load(Ordering::SeqCst)).collect(), tables: 0 };
    thread::scope(|scope| {
        for (thread, count) in (0..).zip(&counts) {
            let (journal, stop) = (&journal, &stop);
            scope.spawn(move || {
                for number in (0..).take_while(|_| !stop.load(Ordering::SeqCst)) {
                    journal.call(thread, number).expect("committed");
                    count.store(number + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(500));
                }
            });
        }
        scope.spawn(|| {
            // Every other backup meets checkpoints, which remove what it is about to read.
            for round in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                if round % 40 < 20 {
                    journal.db.checkpoint().expect("whole");
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        for number in 0..12 {
            thread::sleep(Duration::from_millis(3));
            let to = format!("backup-{number}");
            let before = read();
            let report = if from_outside {
                Database::backup_directory(DIRECTORY, &to, &options(&disk, protocol), &mut quiet())
            } else {
                journal.db.backup(&to)
            };
            let report = report.unwrap_or_else(|error| panic!("{protocol}, backup {number}: {error}"));
            let after = read();
            // Nothing that is not durable: the power may go as soon as it is made.
            let copy = as_database(&disk.crash_image(0), &to);
            let restored = Journal::open(options(&copy, protocol)).expect("a database");
            assert_eq!(restored.db.recovery().cut, None, "only whole groups are copied");
            assert!(restored.db.recovery().durable_epoch <= report.epoch, "{report:?}");
            let made = restored.made(THREADS);
            for ((&least, &most), &made) in before.calls.iter().zip(&after.calls).zip(&made.calls) {
                assert!(
                    (least..=most + 1).contains(&made),
                    "{protocol}, backup {number}: {least} to {most}, {made} found"
                );
            }
            restored.check(&made, &format!("{protocol}, backup {number}"));
            restored.call(0, made.calls[0]).expect("it works on");
        }
        stop.store(true, Ordering::SeqCst);
    });
    journal.db.close().expect("durable");
}

#[test]
fn a_backup_from_outside_holds_what_was_acknowledged_before_it_began() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || under_load(protocol, true));
    }
}

#[test]
fn a_backup_from_inside_holds_what_was_acknowledged_before_it_began() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || under_load(protocol, false));
    }
}

/// A database of 20 calls, with a checkpoint in the middle.
fn twenty_calls() -> (SimulatedDisk, Made) {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(options(&disk, ProtocolKind::default()));
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    (10..20).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.close().expect("durable");
    (disk, Made { calls: vec![20], tables: 0 })
}

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

#[test]
fn a_backup_is_restored_and_is_small_and_says_how_far_it_is() {
    let (disk, made) = twenty_calls();
    let mut steps = Vec::new();
    let report = Database::backup_directory(DIRECTORY, "copy", &plain(&disk), &mut |done, total| {
        steps.push((done, total));
    })
    .expect("copied");
    assert!(report.checkpoint == 1 && report.files >= 4 && report.epoch > 20, "{report:?}");
    assert!(steps.is_sorted() && steps.iter().all(|(done, total)| done <= total), "{steps:?}");
    assert_eq!(steps.last().map(|step| step.0), Some(report.bytes));
    let (checked, restored) =
        Database::restore("copy", "other", plain(&disk), &mut quiet()).expect("restored");
    assert!(checked.rows > 20, "{checked:?}");
    assert_eq!((restored.epoch, restored.checkpoint), (report.epoch, 1));
    let journal = Journal::open(plain(&as_database(&disk, "other"))).expect("a database");
    journal.check(&made, "restored");
}

#[test]
fn parts_in_other_directories_come_home() {
    let disk = SimulatedDisk::new();
    let striped = |disk| plain(disk).checkpoints(|checkpoints| checkpoints.directory("one").directory("two"));
    let journal = Journal::create(striped(&disk));
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    journal.db.backup("copy").expect("copied");
    let copy = as_database(&disk, "copy");
    let journal = Journal::open(plain(&copy)).expect("a database");
    assert_eq!(journal.db.recovery().checkpoint, 1);
    journal.check(&Made { calls: vec![10], tables: 0 }, "from one directory");
}

#[test]
fn what_is_not_empty_is_refused_and_nothing_in_it_is_touched() {
    let (disk, _) = twenty_calls();
    for (directory, name) in [("full", "notes"), ("half", "log/00000001.log"), ("other", "checkpoint/x")] {
        let path = Path::new(directory).join(name);
        disk.create_dir_all(path.parent().expect("a parent")).expect("a directory");
        disk.put_bytes(&path, b"mine".to_vec()).expect("there");
        for refused in [
            Database::backup_directory(DIRECTORY, directory, &plain(&disk), &mut quiet()).map(drop),
            Database::restore(DIRECTORY, directory, plain(&disk), &mut quiet()).map(drop),
        ] {
            assert!(
                matches!(&refused, Err(Error::NotEmpty { path, .. }) if path == directory),
                "{refused:?}"
            );
        }
        assert_eq!(disk.bytes(&path).expect("still there"), b"mine");
        assert_eq!(disk.list(Path::new(directory)).expect("a directory").len(), 1);
    }
    let onto_itself = Database::backup_directory(DIRECTORY, DIRECTORY, &plain(&disk), &mut quiet());
    assert!(matches!(onto_itself, Err(Error::NotEmpty { .. })), "{onto_itself:?}");
    disk.put_bytes(Path::new("file"), Vec::new()).expect("there");
    let onto_a_file = Database::backup_directory(DIRECTORY, "file", &plain(&disk), &mut quiet());
    assert!(matches!(onto_a_file, Err(Error::NotADatabase { .. })), "{onto_a_file:?}");
}

#[test]
fn where_there_is_no_database_nothing_is_made() {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("empty")).expect("a directory");
    for from in ["nowhere", "empty"] {
        let refused = Database::backup_directory(from, "copy", &plain(&disk), &mut quiet());
        assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    }
    assert!(!disk.exists(Path::new("copy")).expect("asked"));
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("in memory");
    assert!(matches!(db.backup("copy"), Err(Error::InvalidOption { .. })));
    assert!(matches!(db.check_files(&mut quiet()), Err(Error::InvalidOption { .. })));
}

/// Damage in the source is reported by a backup and by a check of files, and the unfinished copy goes.
#[test]
fn a_damaged_source_is_not_copied() {
    let (disk, _) = twenty_calls();
    let last = |folder: &str| {
        let names = disk.list(&Path::new(DIRECTORY).join(folder)).expect("a directory");
        file(folder, names.last().expect("a file").to_str().expect("a name"))
    };
    let first_of_log = file("log", "00000001.log");
    for (path, at) in [(last("checkpoint"), 100), (first_of_log, 2 * 4096 + 60)] {
        let damaged = disk.crash_image(1);
        let mut bytes = damaged.bytes(&path).expect("a file");
        bytes[at] ^= 1;
        damaged.put_bytes(&path, bytes).expect("there");
        let db = Database::open(DIRECTORY, plain(&disk.crash_image(1)).read_only(true)).expect("whole");
        assert!(db.check_files(&mut quiet()).is_ok());
        let refused = Database::backup_directory(DIRECTORY, "copy", &plain(&damaged), &mut quiet());
        match refused {
            // A torn tail of the log, behind the checkpoint's start: found when the log is read.
            Err(Error::Damaged { path: named, .. }) => assert_eq!(Path::new(&named), path),
            other => panic!("{other:?}"),
        }
        assert!(!damaged.exists(&Path::new("copy").join("MANIFEST")).expect("asked"));
        let again = Database::backup_directory(DIRECTORY, "copy", &plain(&damaged), &mut quiet());
        assert!(matches!(again, Err(Error::Damaged { .. })), "what is left of it does no harm: {again:?}");
    }
}

/// The power goes at every operation of a backup: the copy is whole, or no database; the source is as it was.
#[test]
fn an_interrupted_backup_is_no_database() {
    in_time(|| {
        let (disk, made) = twenty_calls();
        let (mut whole, mut none) = (0, 0);
        for boundary in 0.. {
            let image = disk.crash_image(1);
            image.crash_after(boundary);
            let result = Database::backup_directory(DIRECTORY, "copy", &plain(&image), &mut quiet());
            for seed in [0, 1, boundary + 2] {
                let found = image.crash_image(seed);
                let copy = as_database(&found, "copy");
                let is_there = found.bytes(Path::new("copy/MANIFEST")).is_ok();
                assert!(is_there || result.is_err(), "boundary {boundary}: acknowledged, and not there");
                if is_there {
                    let journal = Journal::open(plain(&copy)).expect("a whole copy");
                    journal.check(&made, &format!("boundary {boundary}, seed {seed}"));
                    whole += 1;
                } else {
                    let opened = Database::open(DIRECTORY, plain(&copy).read_only(true));
                    assert!(matches!(opened, Err(Error::NotADatabase { .. })), "{:?}", opened.err());
                    none += 1;
                }
            }
            if result.is_ok() {
                break;
            }
        }
        assert!(whole >= 3 && none > 30, "{whole} whole, {none} not there");
    });
}

#[test]
fn errors_of_the_disk_are_reported_and_what_was_made_is_removed() {
    let (disk, _) = twenty_calls();
    for (operation, fault) in [
        (Operation::Write, Fault::StorageFull),
        (Operation::Sync, Fault::InputOutput),
        (Operation::Create, Fault::TooManyFiles),
        (Operation::Read, Fault::InputOutput),
        (Operation::Rename, Fault::ReadOnly),
    ] {
        let image = disk.crash_image(1);
        image.fail_next(operation, fault);
        let failed = Database::backup_directory(DIRECTORY, "copy", &plain(&image), &mut quiet());
        let error = failed.expect_err("a fault was injected");
        assert!(
            matches!(
                error,
                Error::StorageFull { .. }
                    | Error::Io { .. }
                    | Error::NotWritable { .. }
                    | Error::NotReadable { .. }
                    | Error::TooManyFiles { .. }
            ),
            "{error}"
        );
        for left in ["copy/LOCK", "copy/MANIFEST", "copy/MANIFEST.tmp", "copy/log/00000001.log"] {
            assert!(image.bytes(Path::new(left)).is_err(), "{left} is left after {operation:?}");
        }
        Database::backup_directory(DIRECTORY, "copy", &plain(&image), &mut quiet())
            .unwrap_or_else(|error| panic!("after {operation:?}: {error}"));
    }
}

#[test]
fn files_are_checked_while_the_database_runs() {
    let disk = SimulatedDisk::new();
    let journal = Arc::new(Journal::create(plain(&disk)));
    thread::scope(|scope| {
        let calls = journal.clone();
        let calls = scope.spawn(move || (0..60).for_each(|number| calls.call(0, number).expect("committed")));
        let mut looks = 0;
        while !calls.is_finished() || looks < 5 {
            let report = journal.db.check_files(&mut quiet()).expect("sound");
            assert!(report.files >= 2, "{report:?}");
            looks += 1;
        }
    });
}
