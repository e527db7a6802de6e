//! Checkpoints that cannot be written, or not in time: the database goes on with the one that it has.

use std::time::{Duration, Instant};

use heddledb::testing::{Disk, Fault, Operation, SimulatedDisk};
use heddledb::{Error, Options, ProtocolKind};

use crate::checkpoint::journal::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// A journal with a checkpoint, and calls behind it.
fn with_checkpoint(disk: &SimulatedDisk, options: Options) -> Journal {
    let journal = Journal::create(options);
    (0..10).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    (10..20).for_each(|number| journal.call(0, number).expect("committed"));
    wait_for_room(disk);
    journal
}

#[test]
fn a_checkpoint_that_fails_leaves_the_older_one_and_is_reported_and_the_next_one_succeeds() {
    for (operation, fault) in [
        (Operation::Create, Fault::InputOutput),
        (Operation::Create, Fault::StorageFull),
        (Operation::Rename, Fault::InputOutput),
        (Operation::SyncDirectory, Fault::InputOutput),
        (Operation::SyncDirectory, Fault::StorageFull),
    ] {
        let what = format!("{operation:?}, {fault:?}");
        let disk = SimulatedDisk::new();
        let journal = with_checkpoint(&disk, plain(&disk));
        disk.fail_from_now(operation, fault);
        let error = journal.db.checkpoint().expect_err("the disk fails");
        assert!(matches!(error, Error::Io { .. } | Error::StorageFull { .. }), "{what}: {error}");
        let status = journal.db.checkpoints();
        assert_eq!((status.made, status.failed, status.failure), (1, 1, Some(error)), "{what}");
        // What was there before is what a power loss leaves, or the new one, which was whole but for its name.
        let made = Made { calls: vec![20], tables: 0 };
        for seed in 0..4 {
            let image = disk.crash_image(seed);
            let crashed = Journal::survives(plain(&image), &made, &what);
            assert!((1..=2).contains(&crashed.db.recovery().checkpoint), "{what}");
        }
        journal.call(0, 20).unwrap_or_else(|error| panic!("{what}: commits go on: {error}"));
        disk.heal();
        let report = journal.db.checkpoint().expect("the disk is well again");
        let (files, own) = (names(&disk, "checkpoint"), format!("{:08}", report.number));
        assert!(files.iter().all(|name| name.starts_with(&own)), "{what}: {files:?}");
        assert_eq!(journal.db.checkpoints().failure, None, "{what}");
        Journal::survives(plain(&disk.crash_image(0)), &Made { calls: vec![21], tables: 0 }, &what);
    }
}

/// One operation fails, whichever it is; here the log may be hit, too.
#[test]
fn whatever_fails_once_nothing_acknowledged_is_lost() {
    for operation in [Operation::Write, Operation::Sync, Operation::Remove, Operation::List, Operation::Open]
    {
        for fault in [Fault::InputOutput, Fault::StorageFull] {
            let what = format!("{operation:?}, {fault:?}");
            let disk = SimulatedDisk::new();
            let journal = with_checkpoint(&disk, plain(&disk));
            disk.fail_next(operation, fault);
            let first = journal.db.checkpoint();
            let second = journal.db.checkpoint();
            assert!(first.is_ok() || second.is_ok(), "{what}: {first:?}, {second:?}");
            Journal::survives(plain(&disk.crash_image(0)), &Made { calls: vec![20], tables: 0 }, &what);
        }
    }
}

#[test]
fn what_cannot_be_removed_is_reported_and_removed_the_next_time() {
    let disk = SimulatedDisk::new();
    let journal = with_checkpoint(&disk, plain(&disk));
    disk.fail_from_now(Operation::Remove, Fault::InputOutput);
    let report = journal.db.checkpoint().expect("it is whole all the same");
    assert!(matches!(report.leftover, Some(Error::Io { .. })), "{report:?}");
    assert_eq!(journal.db.checkpoints().failure, report.leftover);
    let made = Made { calls: vec![20], tables: 0 };
    for seed in 0..4 {
        let image = disk.crash_image(seed);
        let crashed = Journal::survives(plain(&image), &made, "with both");
        assert_eq!(crashed.db.recovery().checkpoint, 2);
        assert!(
            names(&image, "checkpoint").iter().all(|name| name.starts_with("00000002")),
            "cleaned at opening"
        );
    }
    disk.heal();
    assert_eq!(journal.db.checkpoint().expect("whole").leftover, None);
    assert!(names(&disk, "checkpoint").iter().all(|name| name.starts_with("00000003")));
}

#[test]
fn a_full_disk_stops_checkpoints_and_not_the_database() {
    let disk = SimulatedDisk::new();
    let journal = with_checkpoint(&disk, plain(&disk));
    disk.set_capacity(0);
    let error = journal.db.checkpoint().expect_err("no space");
    assert!(matches!(error, Error::StorageFull { .. }), "{error}");
    journal.call(0, 20).expect("the log has room that was made ahead");
    let files = names(&disk, "checkpoint");
    assert!(files.iter().all(|name| name.starts_with("00000001")), "nothing is left of it: {files:?}");
    disk.heal();
    journal.db.checkpoint().expect("there is space again");
    Journal::survives(plain(&disk.crash_image(0)), &Made { calls: vec![21], tables: 0 }, "full");
}

#[test]
fn after_the_log_has_failed_no_checkpoint_becomes_whole() {
    let disk = SimulatedDisk::new();
    let journal = with_checkpoint(&disk, plain(&disk));
    disk.fail_next(Operation::Sync, Fault::InputOutput);
    assert!(matches!(journal.call(0, 20), Err(Error::LogFailed { .. })));
    let before = disk.operations();
    let error = journal.db.checkpoint().expect_err("what it would copy is not durable");
    assert!(matches!(error, Error::LogFailed { .. }), "{error}");
    assert_eq!(disk.operations(), before, "nothing is written unnecessarily");
    assert!(names(&disk, "checkpoint").iter().all(|name| name.starts_with("00000001")));
}

#[test]
fn closing_ends_a_checkpoint_that_would_take_long() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        // At this rate it would take most of an hour.
        let journal =
            Journal::create(plain(&disk).checkpoints(|checkpoints| checkpoints.bytes_per_second(2)));
        (0..10).for_each(|number| journal.call(0, number).expect("committed"));
        let asking = {
            let db = journal.db.clone();
            std::thread::spawn(move || db.checkpoint())
        };
        wait_until("a checkpoint", || journal.db.checkpoints().running);
        wait_until("a part", || !names(&disk, "checkpoint").is_empty());
        let begun = Instant::now();
        journal.db.close().expect("durable");
        assert_eq!(asking.join().expect("no panic"), Err(Error::Closed));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert_eq!(names(&disk, "checkpoint"), Vec::<String>::new(), "nothing is left of it");
        Journal::survives(plain(&disk), &Made { calls: vec![10], tables: 0 }, "closed");
    });
}

/// The log has filled the disk, so that updates are refused; there is room for a checkpoint. That ends it.
#[test]
fn a_checkpoint_makes_room_for_a_log_that_has_filled_the_disk() {
    for protocol in [ProtocolKind::Phased, ProtocolKind::Optimistic] {
        in_time(move || {
            let disk = SimulatedDisk::new();
            let journal = Journal::create(options(&disk, protocol));
            disk.set_capacity(400 << 10);
            let refused: Vec<i64> = std::thread::scope(|scope| {
                let journal = &journal;
                let fill = |thread| {
                    move || {
                        // As long as a sync takes at least: else the room that is kept is used up before the thread that
                        // makes segments has its turn on a busy machine.
                        let next = |_: &i64| std::thread::sleep(Duration::from_millis(1));
                        let mut numbers = (0..10_000).inspect(next);
                        let is_refused = |number: &i64| match journal.call(thread, *number) {
                            Ok(_) => false,
                            Err(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => true,
                            Err(error) => panic!("{protocol}: {error}"),
                        };
                        numbers.find(is_refused).expect("full")
                    }
                };
                let threads: Vec<_> = (0..3).map(|thread| scope.spawn(fill(thread))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            let made = Made { calls: refused, tables: 0 };
            // Less than a segment takes. The full disk may have requested a checkpoint that has fitted already.
            disk.set_capacity((6 * 64 + 60) << 10);
            // A thread that tries to make a segment takes the room from time to time, and gives it back.
            let mut report = journal.db.checkpoint();
            wait_until("a checkpoint", || {
                report.is_ok() || {
                    report = journal.db.checkpoint();
                    report.is_ok()
                }
            });
            report.expect("there is room for it");
            // This one, or one that the full disk has requested.
            wait_until("updates again", || journal.call(0, made.calls[0]).is_ok());
            assert!(
                names(&disk, "log").iter().all(|name| name != "00000001.log"),
                "the first segment is free"
            );
            let made = Made { calls: vec![made.calls[0] + 1, made.calls[1], made.calls[2]], tables: 0 };
            for seed in 0..4 {
                let image = disk.crash_image(seed);
                drop(Journal::survives(
                    options(&image, protocol),
                    &made,
                    &format!("{protocol}, seed {seed}"),
                ));
            }
        });
    }
}

/// A fault of the engine's own in one of the threads that copy: the requester of the checkpoint gets the error, and no
/// thread hangs.
#[test]
fn a_thread_that_panics_costs_its_checkpoint_and_nothing_else() {
    for thread in ["heddle-checkpoint-0", "heddle-checkpoint-1"] {
        in_time(move || {
            let disk = SimulatedDisk::new();
            let journal = with_checkpoint(&disk, plain(&disk));
            let made = journal.db.checkpoints().made;
            disk.watch(move |_| {
                assert_ne!(std::thread::current().name(), Some(thread), "a fault of the engine's");
            });
            // The second thread finds something to do only if it comes in time.
            let deadline = Instant::now() + Duration::from_secs(120);
            let error = loop {
                match journal.db.checkpoint() {
                    Err(error) => break error,
                    Ok(_) => assert!(Instant::now() < deadline, "{thread} never writes anything"),
                }
            };
            assert!(
                matches!(&error, Error::Broken { message, .. } if message.contains("a fault")),
                "{error}"
            );
            assert_eq!(journal.db.checkpoints().failure, Some(error));
            (20..25).for_each(|number| journal.call(0, number).expect("committed"));
            assert!(journal.db.checkpoint().expect("whole").number > made as u32);
            journal.db.close().expect("durable");
            let acknowledged = Made { calls: vec![25], tables: 0 };
            Journal::survives(plain(&disk.crash_image(0)), &acknowledged, thread);
        });
    }
}

/// A file that an interrupted checkpoint has left and that cannot be removed is no reason to refuse the database.
#[test]
fn a_leftover_that_cannot_be_removed_is_reported_when_the_database_is_opened() {
    let disk = SimulatedDisk::new();
    with_checkpoint(&disk, plain(&disk)).db.close().expect("durable");
    let leftover = file("checkpoint", "00000009-0001.part");
    disk.put_bytes(&leftover, b"what an interruption has left".to_vec()).expect("there");
    disk.fail_next(Operation::Remove, Fault::PermissionDenied);
    let journal = Journal::open(plain(&disk)).expect("it does no harm");
    let failure = journal.db.checkpoints().failure;
    assert!(
        matches!(&failure, Some(Error::NotWritable { path, .. }) if path.ends_with(".part")),
        "{failure:?}"
    );
    assert!(disk.bytes(&leftover).is_ok());
    journal.db.checkpoint().expect("whole");
    assert_eq!(journal.db.checkpoints().failure, None);
    assert!(disk.bytes(&leftover).is_err(), "the next checkpoint tries again");
}

/// The log behind a checkpoint begins with a later segment: what is missing is the checkpoint, not the log.
#[test]
fn a_manifest_that_is_missing_is_named_and_no_segment_of_the_log() {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk).log(|log| log.segment_bytes(64 << 10)));
    // So much that the checkpoint makes segments useless.
    (0..2_000).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.checkpoint().expect("whole");
    journal.db.close().expect("durable");
    assert!(!names(&disk, "log").contains(&"00000001.log".to_string()), "{:?}", names(&disk, "log"));
    let open = || Journal::open(plain(&disk)).err().expect("it is refused");
    disk.remove(&file("checkpoint", "00000001.manifest")).expect("it is there");
    let error = open();
    assert!(
        matches!(&error, Error::MissingFile { path, .. } if path.ends_with("00000001.manifest")),
        "{error}"
    );
    assert!(error.to_string().contains("checkpoint of which only parts are left"), "{error}");
    for name in names(&disk, "checkpoint") {
        disk.remove(&file("checkpoint", &name)).expect("it is there");
    }
    let error = open().to_string();
    assert!(
        error.contains("00000001.log is missing") && error.contains("replaced by a checkpoint"),
        "{error}"
    );
}
