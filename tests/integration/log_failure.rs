//! A log that cannot be written: no more updates, the reason is reported, what waits is unknown, reads of durable data go
//! on, and nothing was acknowledged that is not on disk.

use std::sync::mpsc::channel;
use std::thread;

use crate::support::logged::*;
use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{DataType, Error, Stages, TableDefinition, Value, args, key, row};

/// Everything that must hold once the log has failed.
fn updates_are_refused_and_reads_go_on(bank: &Bank, reason: &str) {
    let refused = |result: Result<(), Error>, what: &str| {
        let error = result.expect_err(what);
        assert!(matches!(error, Error::LogFailed { .. }), "{what}: {error}");
        assert!(error.to_string().contains(reason), "{what} does not say why: {error}");
    };
    refused(bank.db.run(|tx| tx.add(&bank.items, key![5], "value", 1)), "a closure");
    refused(bank.db.call(&bank.set, args![5, 1]).map(drop), "a call");
    refused(bank.db.worker().expect("open").execute(&bank.set, args![5, 1]).wait().map(drop), "a worker");
    let table = TableDefinition::new("t").column("a", DataType::Int64).primary_key(["a"]);
    refused(bank.db.create_table(table).map(drop), "a new table");
    for _ in 0..3 {
        assert_eq!(bank.value(9), Ok(Some(0)), "a closure that reads durable data");
        assert_eq!(bank.db.call(&bank.get, args![9, 0]).expect("readable").rows, [[Value::Int(0)]]);
    }
}

fn a_failure_of(operation: Operation, fault: Fault, reason: &'static str, stages: Stages) {
    in_time("a failed log", move || {
        let disk = SimulatedDisk::new();
        let bank = bank_with(options(&disk).threads(|threads| threads.stages(stages)));
        bank.wait_for_segments(&disk);
        bank.db.call(&bank.set, args![1, 1]).expect("durable");
        disk.fail_next(operation, fault);
        let unknown = bank.db.call(&bank.set, args![1, 2]);
        assert!(is_unknown(&unknown), "{unknown:?}");
        assert!(unknown.is_err_and(|error| error.to_string().contains(reason)));
        updates_are_refused_and_reads_go_on(&bank, reason);
        // What read the unknown value is unknown, too.
        assert!(is_unknown(&bank.value(1)));
        assert!(is_unknown(&bank.db.call(&bank.get, args![1, 0])));
        let closed = bank.db.clone().close();
        assert!(matches!(closed, Err(Error::LogFailed { .. })), "{closed:?}");
        assert_eq!(bank.db.close(), closed, "every handle hears the same");
        for seed in 0..8 {
            let crashed = reopened(&disk.crash_image(seed));
            let value = crashed.value(1).expect("readable");
            assert!(matches!(value, Some(1 | 2)), "acknowledged 1, unknown 2, found {value:?}");
            crashed.db.check().expect("consistent");
            crashed.db.call(&crashed.set, args![1, 3]).expect("a new start");
        }
    });
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    for stages in Stages::ALL {
        a_failure_of(Operation::Sync, Fault::InputOutput, "00000001.log", *stages);
    }
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_any_more() {
    a_failure_of(Operation::Write, Fault::InputOutput, "00000001.log", Stages::Folded);
}

/// A segment that exists may still find no room: file systems that copy what they overwrite need some for it.
#[test]
fn a_write_that_finds_no_room_in_its_segment_waits_and_commits_go_on() {
    for stages in Stages::ALL {
        for fault in [Fault::StorageFull, Fault::ReadOnly] {
            in_time("a log without room", move || waits_for_the_disk(*stages, fault));
        }
    }
}

fn waits_for_the_disk(stages: Stages, fault: Fault) {
    let disk = SimulatedDisk::new();
    let bank = bank_with(options(&disk).threads(|threads| threads.stages(stages)));
    bank.wait_for_segments(&disk);
    bank.db.call(&bank.set, args![1, 1]).expect("durable");
    disk.fail_from_now(Operation::Write, fault);
    let before = disk.operations();
    let waiting = {
        let (db, items) = (bank.db.clone(), bank.items.clone());
        thread::spawn(move || db.run(|tx| tx.add(&items, key![2], "value", 1)))
    };
    // An update that was admitted before the log has met the failure would wait with the first one: it has met it when it
    // tries again.
    while disk.operations() < before + 8 {
        thread::yield_now();
    }
    let refused = bank.db.run(|tx| tx.add(&bank.items, key![3], "value", 1)).expect_err("the disk is full");
    assert!(matches!(refused, Error::NoLogSpace { .. } | Error::LogNotExtended { .. }), "{refused}");
    assert_eq!(bank.value(9), Ok(Some(0)), "reads of durable data go on");
    assert!(!waiting.is_finished(), "its group waits for room");
    disk.heal();
    waiting.join().expect("no panic").expect("committed once there is room");
    while bank.db.run(|tx| tx.add(&bank.items, key![3], "value", 1)).is_err() {
        thread::yield_now();
    }
    for seed in 0..4 {
        let crashed = reopened(&disk.crash_image(seed));
        assert_eq!((crashed.value(1), crashed.value(2)), (Ok(Some(1)), Ok(Some(1))));
        crashed.db.check().expect("consistent");
    }
    bank.db.close().expect("the log has not failed");
}

/// Every thread that waits when the sync fails hears that it is unknown: closures, calls, workers, readers.
#[test]
fn all_who_wait_hear_that_it_is_unknown() {
    in_time("waiters of a failed log", || {
        let disk = SimulatedDisk::new();
        let bank = bank(&disk);
        bank.wait_for_segments(&disk);
        let held = HeldSyncs::of(&disk);
        let mut worker = bank.db.worker().expect("open");
        let written = worker.execute(&bank.set, args![1, 7]);
        disk.wait_for_held_syncs(1);
        let read = worker.execute(&bank.get, args![1, 0]);
        // These are in the groups behind it.
        let next = worker.execute(&bank.set, args![2, 7]);
        let submitted = bank.db.submit(&bank.set, args![3, 7]).expect("taken");
        let failed = bank.db.submit(&bank.read_and_fail, args![1, 7]).expect("taken");
        let (reported, hears) = channel();
        for id in 1..4 {
            let (db, items, reported) = (bank.db.clone(), bank.items.clone(), reported.clone());
            thread::spawn(move || reported.send(db.run(|tx| tx.add(&items, key![id], "value", 1))));
        }
        grace();
        // Every sync: two groups may be in flight, and either may meet the failure first.
        disk.fail_from_now(Operation::Sync, Fault::InputOutput);
        held.release();
        assert!(is_unknown(&written.wait()) && is_unknown(&read.wait()) && is_unknown(&next.wait()));
        assert!(is_unknown(&submitted.wait()) && is_unknown(&failed.wait()));
        for _ in 1..4 {
            assert!(is_unknown(&hears.recv().expect("reported")));
        }
        updates_are_refused_and_reads_go_on(&bank, "00000001.log");
        for seed in 0..4 {
            let crashed = reopened(&disk.crash_image(seed));
            let (first, second) = (crashed.value(1), crashed.value(2));
            assert!(
                second == Ok(Some(0)) || first == Ok(Some(7)),
                "{second:?} without what came before it: {first:?}"
            );
            crashed.db.check().expect("consistent");
        }
    });
}

/// The disk is well again after the failed sync: nothing may be tried again, because the system has thrown away what
/// it could not write.
#[test]
fn a_disk_that_heals_does_not_bring_the_log_back() {
    in_time("a healed disk", || {
        let disk = SimulatedDisk::new();
        let bank = bank(&disk);
        bank.wait_for_segments(&disk);
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        assert!(is_unknown(&bank.db.run(|tx| tx.insert(&bank.items, row![50, 1, 5_000]))));
        disk.heal();
        let syncs = disk.operations();
        updates_are_refused_and_reads_go_on(&bank, "00000001.log");
        assert_eq!(disk.operations(), syncs, "nothing is written after a failed sync");
        drop(bank);
        let recovered = reopened(&disk);
        assert!(matches!(recovered.value(50), Ok(None | Some(1))));
        recovered.db.check().expect("consistent");
    });
}

/// Counters under many threads: after the failure each counter on disk is at least what was acknowledged, and at most
/// one more, which is unknown.
#[test]
fn acknowledged_counts_survive_a_failure_under_load() {
    for (operation, after) in [(Operation::Sync, 7), (Operation::Write, 23), (Operation::Sync, 60)] {
        in_time("a failure under load", move || {
            let disk = SimulatedDisk::new();
            let bank = bank(&disk);
            bank.wait_for_segments(&disk);
            let threads: Vec<_> = (1..5_i64)
                .map(|id| {
                    let (db, items, disk) = (bank.db.clone(), bank.items.clone(), disk.clone());
                    thread::spawn(move || {
                        for count in 0_i64.. {
                            if id == 1 && count == after {
                                disk.fail_from_now(operation, Fault::InputOutput);
                            }
                            if let Err(error) = db.run(|tx| tx.add(&items, key![id], "value", 1)) {
                                assert!(matches!(error, Error::LogFailed { .. }), "{error}");
                                return count;
                            }
                        }
                        unreachable!("the log fails")
                    })
                })
                .collect();
            let counts: Vec<i64> = threads.into_iter().map(|one| one.join().expect("no panic")).collect();
            assert!(bank.db.close().is_err());
            disk.heal();
            for seed in 0..6 {
                let crashed = reopened(&disk.crash_image(seed));
                for (id, &count) in (1..).zip(&counts) {
                    let found = crashed.value(id).expect("readable").expect("there");
                    assert!(found == count || found == count + 1, "{count} acknowledged, {found} found");
                }
            }
        });
    }
}

/// Dropping handles of a failed database neither hangs nor panics.
#[test]
fn a_failed_database_can_be_dropped_and_opened_again() {
    in_time("dropping", || {
        let disk = SimulatedDisk::new();
        let bank = bank(&disk);
        disk.fail_from_now(Operation::Sync, Fault::InputOutput);
        assert!(bank.db.run(|tx| tx.add(&bank.items, key![1], "value", 1)).is_err());
        drop(bank);
        disk.heal();
        assert!(reopened(&disk).value(1).is_ok());
    });
}

/// With `Async` no thread waits for the log; and yet a transaction that was let in before the log failed, and commits
/// afterwards, must not be reported as a success.
#[test]
fn with_async_a_commit_after_the_failure_is_not_acknowledged() {
    in_time("a commit after the failure", || {
        let disk = SimulatedDisk::new();
        bank(&disk).db.close().expect("durable");
        let options =
            options(&disk).durability(heddledb::Durability::Async).log(|log| log.group_milliseconds(1.0));
        let bank = reopened_with(options);
        let held = HeldSyncs::of(&disk);
        bank.db.call(&bank.set, args![2, 1]).expect("reported at once");
        disk.wait_for_held_syncs(1);
        let (enter, entered) = channel();
        let (go_on, wait) = channel();
        let late = {
            let (db, items) = (bank.db.clone(), bank.items.clone());
            let mut first = true;
            thread::spawn(move || {
                db.run(|tx| {
                    if std::mem::take(&mut first) {
                        enter.send(()).expect("the receiver is open");
                        wait.recv().expect("a signal to go on");
                    }
                    tx.add(&items, key![1], "value", 1)
                })
            })
        };
        entered.recv().expect("in its body");
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        // The log's time is counted when a group has ended, well or not.
        let before = bank.db.statistics().log_busy;
        held.release();
        while bank.db.statistics().log_busy == before {
            thread::yield_now();
        }
        go_on.send(()).expect("it waits");
        let late = late.join().expect("no panic");
        assert!(is_unknown(&late), "{late:?}");
    });
}

/// With `Async`: what is released after the log has failed rests on durable data; all else is unknown, as it is with
/// `Group`.
#[test]
fn with_async_only_results_of_durable_data_are_reported_after_the_failure() {
    for stages in Stages::ALL {
        in_time("results after the failure", || {
            let disk = SimulatedDisk::new();
            bank(&disk).db.close().expect("durable");
            let options = options(&disk)
                .threads(|threads| threads.stages(*stages))
                .durability(heddledb::Durability::Async);
            let bank = reopened_with(options.log(|log| log.group_milliseconds(1.0)));
            bank.wait_for_segments(&disk);
            let held = HeldSyncs::of(&disk);
            let mut worker = bank.db.worker().expect("open");
            let written = worker.execute(&bank.set, args![1, 7]);
            disk.wait_for_held_syncs(1);
            let next = worker.execute(&bank.set, args![2, 7]);
            assert!(written.is_released() && next.is_released());
            worker.execute(&bank.set, args![3, 7]).wait().expect("reported before the failure");
            disk.fail_next(Operation::Sync, Fault::InputOutput);
            held.release();
            while bank.db.run(|tx| tx.add(&bank.items, key![4], "value", 1)).is_ok() {
                thread::yield_now();
            }
            assert!(is_unknown(&written.wait()) && is_unknown(&next.wait()), "reported after the failure");
            drop(worker);
            for id in 1..4 {
                assert!(is_unknown(&bank.value(id)), "{id}: it never becomes durable");
                assert!(is_unknown(&bank.db.call(&bank.get, args![id, 0])));
                assert!(is_unknown(&bank.db.call(&bank.read_and_fail, args![id, 0]).map(drop)));
            }
            updates_are_refused_and_reads_go_on(&bank, "00000001.log");
            assert!(is_unknown(&bank.db.close()));
        });
    }
}

/// The number of values that are 7 in an image of the disk, of those that were set one after the other.
fn set_in_order(image: &SimulatedDisk, ids: std::ops::Range<i64>) -> usize {
    let crashed = reopened(image);
    let values: Vec<_> = ids.map(|id| crashed.value(id).expect("readable")).collect();
    let count = values.iter().take_while(|value| **value == Some(7)).count();
    assert!(values[count..].iter().all(|value| *value == Some(0)), "not in order: {values:?}");
    crashed.db.check().expect("consistent");
    count
}

#[test]
fn the_next_group_is_written_while_one_is_synced_and_no_power_loss_is_called_damage() {
    for stages in [Stages::Folded, Stages::Staged] {
        in_time("two groups in flight", move || {
            let disk = SimulatedDisk::new();
            let bank = bank_with(options(&disk).threads(|threads| threads.stages(stages)));
            bank.wait_for_segments(&disk);
            let held = HeldSyncs::of(&disk);
            let mut worker = bank.db.worker().expect("open");
            let first = worker.execute(&bank.set, args![1, 7]);
            disk.wait_for_held_syncs(1);
            let second = worker.execute(&bank.set, args![2, 7]);
            disk.wait_for_held_syncs(2);
            // In the epoch behind both; its group is not written.
            let third = worker.execute(&bank.set, args![3, 7]);
            assert!((0..40).all(|seed| set_in_order(&disk.crash_image(seed), 1..4) <= 2));
            assert_eq!(disk.held_syncs(), 2, "at most two groups are in flight");
            held.release();
            [first, second, third].into_iter().for_each(|one| drop(one.wait().expect("durable")));
            assert_eq!(set_in_order(&disk.crash_image(0), 1..4), 3);
        });
    }
}

#[test]
fn a_failed_sync_of_one_of_two_groups_leaves_both_unknown_or_the_first_durable() {
    for seed in 0..8 {
        in_time("a failed sync beside another", move || {
            let disk = SimulatedDisk::new();
            let bank = bank(&disk);
            bank.wait_for_segments(&disk);
            let held = HeldSyncs::of(&disk);
            let mut worker = bank.db.worker().expect("open");
            let first = worker.execute(&bank.set, args![1, 7]);
            disk.wait_for_held_syncs(1);
            let second = worker.execute(&bank.set, args![2, 7]);
            disk.wait_for_held_syncs(2);
            // Whichever sync meets it.
            disk.fail_next(Operation::Sync, Fault::InputOutput);
            held.release();
            let (first, second) = (first.wait(), second.wait());
            assert!(is_unknown(&second), "{second:?}");
            assert!(is_unknown(&first) || first.is_ok(), "{first:?}");
            let acknowledged = usize::from(first.is_ok());
            assert!(set_in_order(&disk.crash_image(seed), 1..3) >= acknowledged);
            drop(worker);
            assert!(matches!(bank.db.close(), Err(Error::LogFailed { .. })));
        });
    }
}
