//! A full disk: what is refused, what goes on, and how updates resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Action, DataType, Database, Error, Procedure, ProcedureDefinition, Table, args, key, row};

use super::{text_of, texts, wait_until};
use crate::support::logged::*;

/// A procedure that counts how often its body runs.
fn counting(bank: &Bank) -> (Procedure, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let definition =
        ProcedureDefinition::new("count").parameter("id", DataType::Int64).phase([Action::commute(
            &bank.items,
        )
        .key(|args, key| key.push(args.int(0)?))
        .body({
            let runs = runs.clone();
            move |a| {
                runs.fetch_add(1, Ordering::SeqCst);
                a.add("value", 1)
            }
        })]);
    (bank.db.register(definition).expect("sound"), runs)
}

#[test]
fn without_space_updates_are_refused_before_they_run_reads_go_on_and_updates_resume() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("a full disk", move || {
        let bank = bank_with(options);
        let (count, runs) = counting(&bank);
        // No further segment fits from here on.
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let mut acknowledged = 0_u64;
        let refused = loop {
            assert!(acknowledged < 10_000, "the disk never gets full");
            match bank.db.call(&count, args![1]) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoLogSpace { .. }) && refused.is_retryable(), "{refused}");
        assert!(acknowledged > 0 && runs.load(Ordering::SeqCst) == acknowledged, "a refused body ran");
        for _ in 0..20 {
            let refused = bank.db.call(&count, args![1]);
            assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
            let closure = bank.db.run(|tx| tx.add(&bank.items, key![1], "value", 1));
            assert!(matches!(closure, Err(Error::NoLogSpace { .. })), "{closure:?}");
            assert_eq!(bank.value(1), Ok(Some(acknowledged as i64)), "reads go on");
        }
        assert_eq!(runs.load(Ordering::SeqCst), acknowledged);
        assert_eq!(reopened(&disk.crash_image(0)).value(1), Ok(Some(acknowledged as i64)));

        disk.heal();
        wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        for _ in 0..50 {
            bank.db.call(&count, args![1]).expect("there is space");
        }
        bank.db.close().expect("durable");
        assert_eq!(reopened(&disk).value(1), Ok(Some(acknowledged as i64 + 51)), "nothing is lost");
    });
}

/// Repeats an update as often as it is refused for want of space.
fn until_done(bank: &Bank, id: i64, value: i64) {
    wait_until("a checkpoint frees the log", || match bank.db.call(&bank.set, args![id, value]) {
        Ok(_) => true,
        Err(Error::NoLogSpace { .. }) => false,
        Err(error) => panic!("{error}"),
    });
}

/// A disk on which the data has room several times, and the log of all updates has not.
#[test]
fn a_full_disk_requests_a_checkpoint_which_frees_the_log() {
    const CAPACITY: u64 = 12 * SMALL_SEGMENT;
    for automatic_bytes in [0, 1 << 30] {
        let disk = SimulatedDisk::new();
        let options =
            small_options(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(automatic_bytes).threads(2));
        in_time("updates on a small disk", move || {
            let bank = bank_with(options);
            disk.set_capacity(CAPACITY);
            let mut rounds = 0;
            while bank.db.checkpoints().made < 3 {
                rounds += 1;
                until_done(&bank, 1 + rounds % 9, rounds);
            }
            let status = bank.db.checkpoints();
            assert!(status.last.expect("one was made").log_segments_removed > 0);
            assert_eq!(bank.value(1 + rounds % 9), Ok(Some(rounds)));
            assert_eq!(reopened(&disk.crash_image(0)).value(1 + rounds % 9), Ok(Some(rounds)));
            bank.db.close().expect("durable");
        });
    }
}

/// No checkpoint fits: it fails, is tried again, and everything goes on once there is space.
#[test]
fn a_checkpoint_that_does_not_fit_either_is_tried_again() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(0));
    in_time("a disk that is full for a time", move || {
        let bank = bank_with(options);
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let mut value = 0;
        while bank.db.call(&bank.set, args![1, value + 1]).is_ok() {
            value += 1;
        }
        wait_until("a checkpoint has failed", || bank.db.checkpoints().failed > 0);
        assert_eq!(bank.value(1), Ok(Some(value)));
        disk.heal();
        until_done(&bank, 1, -1);
        bank.db.close().expect("durable");
        assert_eq!(reopened(&disk).value(1), Ok(Some(-1)));
    });
}

/// A caller with reserved room is refused, too: small groups take far more of the disk than of the buffer.
#[test]
fn every_worker_is_refused_once_there_is_no_space_and_no_commit_hangs() {
    let disk = SimulatedDisk::new();
    let options = options(&disk).log(|log| log.segment_bytes(SMALL_SEGMENT).buffer_bytes(64 << 10));
    in_time("workers on a full disk", move || {
        let bank = bank_with(options);
        wait_for_segment(&disk, 4);
        disk.set_capacity(0);
        let threads: Vec<_> = (1..7_i64)
            .map(|id| {
                let (db, set) = (bank.db.clone(), bank.set.clone());
                thread::spawn(move || {
                    let mut worker = db.worker().expect("open");
                    for value in 1..5_000 {
                        match worker.execute(&set, args![id, value]).wait() {
                            Ok(_) => {}
                            Err(Error::NoLogSpace { .. }) => return value - 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    panic!("the disk never gets full");
                })
            })
            .collect();
        let acknowledged: Vec<i64> = threads.into_iter().map(|one| one.join().expect("no panic")).collect();
        let crashed = reopened(&disk.crash_image(0));
        for (id, value) in (1..7).zip(acknowledged) {
            assert_eq!(crashed.value(id), Ok(Some(value)));
        }
    });
}

#[test]
fn a_transaction_for_which_there_is_no_space_is_refused_and_small_ones_go_on() {
    let disk = SimulatedDisk::new();
    let options = options(&disk);
    in_time("a transaction larger than the disk", move || {
        let bank = bank_with(options);
        let table = texts(&bank.db);
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let text = "x".repeat(2 << 20);
        let refused = bank.db.run(|tx| tx.insert(&table, row![1, text.as_str()]));
        assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
        assert_eq!(text_of(&bank.db, &table, 1), Ok(None));
        disk.heal();
        wait_until("it fits", || bank.db.run(|tx| tx.insert(&table, row![1, text.as_str()])).is_ok());
        let crashed = open(&disk.crash_image(0)).expect("recovered");
        assert_eq!(text_of(&crashed, &table_of(&crashed), 1), Ok(Some(text)));
    });
}

fn table_of(db: &Database) -> Table {
    db.table("texts").expect("there")
}

#[test]
fn a_database_without_room_for_a_segment_opens_for_reading_and_resumes() {
    let disk = SimulatedDisk::new();
    let shared = disk.clone();
    in_time("opening on a full disk", move || {
        let bank = bank_with(small_options(&disk));
        // Until the last segment is nearly full; no checkpoint fits either.
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let (count, _) = counting(&bank);
        let mut acknowledged = 0;
        while bank.db.call(&count, args![1]).is_ok() {
            acknowledged += 1;
        }
        bank.db.close().expect("durable");
        let bank = reopened_with(small_options(&disk));
        let (count, runs) = counting(&bank);
        assert_eq!(bank.value(1), Ok(Some(acknowledged)));
        let refused = bank.db.call(&count, args![1]);
        assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        disk.heal();
        wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        assert_eq!(bank.value(1), Ok(Some(acknowledged + 1)));
    });
    reopened(&shared).db.check().expect("consistent");
}

/// A failure to make a segment is no failure of the log.
#[test]
fn a_segment_that_cannot_be_made_once_is_made_the_next_time() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("segments that fail", move || {
        let bank = bank_with(options);
        let (count, _) = counting(&bank);
        for (round, operation) in
            [Operation::Create, Operation::Rename, Operation::SyncDirectory].into_iter().enumerate()
        {
            disk.fail_next(operation, Fault::InputOutput);
            let before = (1..).find(|&number| disk.bytes(&segment(number)).is_err()).expect("finite");
            wait_until("a new segment", || {
                let _ = bank.db.call(&count, args![1 + round as i64]);
                disk.bytes(&segment(before + 1)).is_ok()
            });
        }
        bank.db.close().expect("durable");
        reopened(&disk.crash_image(0)).db.check().expect("consistent");
    });
}

/// A segment that cannot be made for another reason than a full disk: the refusal says what is so, and contradicts neither
/// itself nor the disk.
#[test]
fn a_log_that_cannot_be_extended_says_why_and_updates_resume() {
    for (fault, words) in [
        (Fault::InputOutput, "Input/output error"),
        (Fault::TooManyFiles, "Too many open files"),
        (Fault::PermissionDenied, "Permission denied"),
    ] {
        let disk = SimulatedDisk::new();
        let options = small_options(&disk);
        in_time("a log that cannot be extended", move || {
            let bank = bank_with(options);
            let (count, _) = counting(&bank);
            bank.wait_for_segments(&disk);
            disk.fail_from_now(Operation::Create, fault);
            let refused = loop {
                if let Err(error) = bank.db.call(&count, args![1]) {
                    break error;
                }
            };
            assert!(matches!(refused, Error::LogNotExtended { .. }) && refused.is_retryable(), "{refused}");
            let text = refused.to_string();
            assert!(text.contains(words) && text.contains("cannot be extended"), "{text}");
            assert!(!["no space", "check the disk", "see to"].iter().any(|no| text.contains(no)), "{text}");
            assert_eq!(refused.sqlstate(), "58030");
            disk.heal();
            wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        });
    }
}

/// The failure that ends the log has one way out: its own.
#[test]
fn a_log_that_failed_for_want_of_space_names_one_way_out() {
    let disk = SimulatedDisk::new();
    in_time("a failed log", move || {
        let bank = bank_with(small_options(&disk));
        bank.wait_for_segments(&disk);
        disk.fail_next(Operation::Sync, Fault::StorageFull);
        let unknown = bank.db.call(&bank.set, args![1, 2]).expect_err("it is not durable").to_string();
        assert!(unknown.contains("No space left on device") && unknown.contains("00000001.log"), "{unknown}");
        assert!(unknown.ends_with("open the database again") && !unknown.contains("try again"), "{unknown}");
    });
}
