//! Automatic checkpoints: by the log's size, by time; and what that keeps bounded.

use std::time::{Duration, Instant};

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Error, Options, ProtocolKind};

use crate::checkpoint::journal::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// The log of a long run would be many times what is on the disk at any moment.
#[test]
fn a_long_run_stays_on_a_disk_of_bounded_size() {
    in_time(|| {
        const LIMIT: u64 = 256 << 10;
        let disk = SimulatedDisk::new();
        let journal = Journal::create(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(LIMIT)));
        let (mut most, mut number) = (0, 0);
        let (mut made, mut flushes_then) = (0, 0);
        while journal.db.statistics().log_flushes < 4_000 {
            journal.call(0, number).expect("committed");
            number += 1;
            most = most.max(bytes_on_disk(&disk));
            let flushes = journal.db.statistics().log_flushes;
            if (flushes - flushes_then) * 4096 > 4 * LIMIT {
                // On a busy machine the threads that make checkpoints would hardly be let run beside this one.
                wait_until("a checkpoint", || journal.db.checkpoints().made > made);
            }
            if journal.db.checkpoints().made > made {
                (made, flushes_then) = (journal.db.checkpoints().made, flushes);
            }
        }
        let written = journal.db.statistics().log_flushes * 4096;
        // Two checkpoints, the log that calls for one, and what is written while it is made, which is spread over most of
        // the way to the next, or prepared ahead.
        let one = journal.db.checkpoints().last.expect("several").bytes;
        let bound = 2 * one + 16 * LIMIT;
        assert!(
            written > 2 * bound && most < bound,
            "{written} bytes written, at most {most} on disk, {bound} allowed"
        );
        assert!(journal.db.checkpoints().made >= 3, "{:?}", journal.db.checkpoints());
        journal.db.close().expect("durable");
        let made = Made { calls: vec![number], tables: 0 };
        let journal = Journal::survives(plain(&disk), &made, "a long run");
        assert!(journal.db.recovery().groups < 1_000, "{:?}", journal.db.recovery());
    });
}

#[test]
fn time_makes_checkpoints_if_there_is_anything_new() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let journal = Journal::create(plain(&disk).checkpoints(|checkpoints| checkpoints.seconds(0.05)));
        for number in 0..2 {
            journal.call(0, number).expect("committed");
            wait_until("a checkpoint", || journal.db.checkpoints().made > number as u64);
        }
        // One may have begun before the last call, and take long on a busy machine.
        let none_is_made = |_| {
            let made = journal.db.checkpoints().made;
            std::thread::sleep(Duration::from_millis(400));
            journal.db.checkpoints().made == made
        };
        assert!((0..20).any(none_is_made), "nothing is new");
    });
}

#[test]
fn a_log_that_took_long_to_replay_calls_for_a_checkpoint_at_once() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let journal = Journal::create(plain(&disk));
        (0..40).for_each(|number| journal.call(0, number).expect("committed"));
        journal.db.close().expect("durable");
        let journal = Journal::open(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(64 << 10)))
            .expect("a database");
        wait_until("a checkpoint", || journal.db.checkpoints().made == 1);
        journal.db.close().expect("durable");
        let journal = Journal::open(plain(&disk)).expect("a database");
        assert_eq!(journal.db.recovery().checkpoint, 1);
        journal.check(&Made { calls: vec![40], tables: 0 }, "recovered");
    });
}

#[test]
fn what_failed_is_tried_again_after_a_while() {
    in_time(|| {
        let disk = SimulatedDisk::new();
        let journal = Journal::create(
            plain(&disk)
                .log(|log| log.segment_bytes(2 << 20))
                .checkpoints(|checkpoints| checkpoints.log_bytes(32 << 10)),
        );
        (0..10).for_each(|number| journal.call(0, number).expect("committed"));
        wait_until("a checkpoint", || journal.db.checkpoints().made > 0);
        disk.fail_from_now(Operation::Create, Fault::InputOutput);
        let mut number = 10;
        let begun = Instant::now();
        wait_until("a failure", || {
            match journal.call(0, number) {
                Ok(()) => number += 1,
                // The log has room for some hundred calls that was made ahead.
                Err(error) => assert!(is_refused(&error), "{error}"),
            }
            journal.db.checkpoints().failed > 0
        });
        let failed = journal.db.checkpoints().failed;
        assert!(failed <= 1 + begun.elapsed().as_secs(), "{failed} failures in {:?}", begun.elapsed());
        let made = journal.db.checkpoints().made;
        disk.heal();
        wait_until("another attempt", || journal.db.checkpoints().made > made);
        assert_eq!(journal.db.checkpoints().failure, None);
        Journal::survives(
            plain(&disk.crash_image(0)),
            &Made { calls: vec![number], tables: 0 },
            "tried again",
        );
    });
}

#[test]
fn options_out_of_range_are_refused() {
    let disk = SimulatedDisk::new();
    for (options, named) in [
        (plain(&disk).checkpoints(|checkpoints| checkpoints.seconds(-1.0)), "checkpoints.seconds"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.seconds(f64::NAN)), "checkpoints.seconds"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.spread(-0.1)), "checkpoints.spread"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.spread(1.5)), "checkpoints.spread"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.spread(f64::NAN)), "checkpoints.spread"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.threads(0)), "checkpoints.threads"),
        (plain(&disk).checkpoints(|checkpoints| checkpoints.threads(65)), "checkpoints.threads"),
    ] {
        let error = heddledb::Database::open(DIRECTORY, options).expect_err("out of range");
        assert!(matches!(error, Error::InvalidOption { option, .. } if option == named), "{error}");
    }
}
