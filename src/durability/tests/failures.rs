//! A disk that is full, broken or read-only: what fails, what goes on, and what is there afterwards.

use super::*;
use crate::testing::{Disk, Fault, Operation};

#[test]
fn a_full_disk_stops_preparing_and_nothing_else() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(4, 1)).expect("a database");
    for _ in 0..3 {
        disk.set_capacity(5 * PAGE_BYTES);
        let error = opened.segments.prepare_next().expect_err("there is no space");
        assert!(matches!(error, Error::StorageFull { .. }), "{error}");
        assert_eq!(disk.list(Path::new("bank/log")).expect("a list"), ["00000001.log"], "no debris");
    }
    opened.writer.append_group(1, &[&[1; 8000]]).expect("the prepared room is there");
    assert!(matches!(opened.writer.append_group(2, &[&[2]]), Err(Error::LogFull { .. })));
    disk.heal();
    opened.segments.prepare_next().expect("space is free again");
    opened.writer.append_group(2, &[&[2; 100]]).expect("the log goes on");
    drop(opened);
    assert_eq!(open(&disk, &pages(4, 1)).expect("a good log").groups.len(), 2);
}

#[test]
fn preparing_may_fail_at_any_step_and_succeed_later() {
    let steps = [
        (Operation::Create, Fault::TooManyFiles),
        (Operation::Write, Fault::StorageFull),
        (Operation::Write, Fault::InputOutput),
        (Operation::Sync, Fault::InputOutput),
        (Operation::Rename, Fault::InputOutput),
        (Operation::SyncDirectory, Fault::InputOutput),
        (Operation::List, Fault::PermissionDenied),
    ];
    for (operation, fault) in steps {
        for removing_fails in [false, true] {
            let disk = SimulatedDisk::new();
            let mut opened = open(&disk, &pages(2, 1)).expect("a database");
            disk.fail_from_now(operation, fault);
            if removing_fails {
                disk.fail_from_now(Operation::Remove, fault);
            }
            for _ in 0..3 {
                opened.segments.prepare_next().expect_err("it is planned to fail");
            }
            assert_eq!((opened.segments.prepared(), opened.segments.remaining_bytes()), (0, 0));
            disk.heal();
            for epoch in 1..5 {
                opened.append(&group(epoch, 50)).expect("the disk is healthy again");
            }
            let image = disk.crash_image(0);
            assert_eq!(open(&image, &pages(2, 1)).expect("a good log").groups.len(), 4, "{operation:?}");
        }
    }
}

#[test]
fn a_failed_write_or_sync_closes_the_writer_with_the_first_reason() {
    for (operation, fault) in [
        (Operation::Write, Fault::InputOutput),
        (Operation::Write, Fault::StorageFull),
        (Operation::Sync, Fault::InputOutput),
        (Operation::Sync, Fault::ReadOnly),
    ] {
        let disk = SimulatedDisk::new();
        let mut opened = open(&disk, &pages(20, 1)).expect("a database");
        opened.append(&group(1, 100)).expect("the disk is healthy");
        disk.fail_next(operation, fault);
        let first = opened.append(&group(2, 9000)).expect_err("it is planned to fail");
        assert!(matches!(first, Error::LogFailed { .. }), "{first}");
        let operations = disk.operations();
        for epoch in 2..6 {
            // The disk is healthy again: nothing is tried all the same.
            assert_eq!(opened.append(&group(epoch, 10)), Err(first.clone()));
        }
        assert_eq!(opened.writer.failure(), Some(first));
        assert_eq!(disk.operations(), operations, "nothing is written any more");
        drop(opened);
        let found = open(&disk, &pages(20, 1)).expect("a restart recovers").groups;
        assert!(found == [group(1, 100)] || found == [group(1, 100), group(2, 9000)]);
    }
}

#[test]
fn what_a_restart_read_is_durable_even_if_its_sync_had_failed() {
    for attempt in 0..20 {
        let disk = SimulatedDisk::new();
        let mut opened = open(&disk, &pages(3, 1)).expect("a database");
        opened.append(&group(1, 100)).expect("the disk is healthy");
        while opened.segments.remaining_bytes() < 20_000 {
            opened.segments.prepare_next().expect("the disk is healthy");
        }
        // The group has blocks in several segments; the first sync fails, the others are not tried.
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        opened.writer.append_group(2, &[&group(2, 15_000).payload]).expect_err("it is planned to fail");
        drop(opened);
        // The process starts again; the system's cache still has the whole group.
        let opened = open(&disk, &pages(3, 1)).expect("a restart recovers");
        assert_eq!(opened.groups.len(), 2);
        // Readers saw it. Now the power goes.
        let image = disk.crash_image(attempt);
        assert_eq!(open(&image, &pages(3, 1)).expect("a good log").groups, opened.groups);
    }
}

#[test]
fn what_a_restart_read_is_durable_even_if_it_was_killed_before_the_sync() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(9, 2)).expect("a database");
    opened.append(&group(1, 100)).expect("the disk is healthy");
    disk.crash_after(1);
    opened.append(&group(2, 5000)).expect_err("killed between write and sync");
    disk.heal();
    drop(opened);
    assert_eq!(disk.crash_image(0).bytes(&segment_path(1)).expect("a file")[8192..12_288], [0; 4096]);
    assert_eq!(open(&disk, &pages(9, 2)).expect("a restart recovers").groups.len(), 2);
    assert_eq!(open(&disk.crash_image(0), &pages(9, 2)).expect("a good log").groups.len(), 2);
}

#[test]
fn a_group_is_not_acknowledged_before_its_sync() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(9, 2)).expect("a database");
    disk.hold_syncs();
    let appending = std::thread::spawn(move || opened.writer.append_group(1, &[b"money"]));
    disk.wait_for_held_syncs(1);
    assert!(!appending.is_finished());
    assert!(open(&disk.crash_image(0), &pages(9, 2)).expect("a good log").groups.is_empty());
    disk.release_syncs();
    assert_eq!(appending.join().expect("the thread ends well"), Ok(1));
    assert_eq!(open(&disk.crash_image(0), &pages(9, 2)).expect("a good log").groups.len(), 1);
}

#[test]
fn a_failing_disk_fails_the_opening_and_harms_nothing() {
    let groups = [group(1, 100), group(2, 9000)];
    for operation in [Operation::Read, Operation::Open, Operation::List, Operation::Write, Operation::Sync] {
        for fault in [Fault::InputOutput, Fault::PermissionDenied, Fault::TooManyFiles, Fault::ReadOnly] {
            let disk = database_with(&groups, &pages(4, 1));
            disk.fail_from_now(operation, fault);
            let error = open(&disk, &pages(4, 1)).err().expect("it is planned to fail");
            assert!(
                match fault {
                    Fault::InputOutput => matches!(error, Error::Io { .. }),
                    Fault::TooManyFiles => matches!(error, Error::TooManyFiles { .. }),
                    Fault::PermissionDenied => {
                        matches!(error, Error::NotReadable { .. } | Error::NotWritable { .. })
                    }
                    _ => matches!(error, Error::Io { .. } | Error::NotWritable { .. }),
                },
                "{operation:?} {fault:?}: {error}"
            );
            disk.heal();
            assert_eq!(open(&disk, &pages(4, 1)).expect("a good log").groups, groups);
        }
    }
}
