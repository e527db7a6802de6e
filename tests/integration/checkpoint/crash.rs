//! Power loss while checkpoints are made, at every operation of the disk: what was acknowledged is there, whole.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{Error, ProtocolKind, Result};

use crate::checkpoint::journal::*;
use crate::support::split::in_time;

/// The calls that each thread of a short life makes.
const CALLS: i64 = 12;
const THREADS: usize = 2;

/// A disk with a new database, durable.
fn prepared(protocol: ProtocolKind) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    Journal::create(options(&disk, protocol)).db.close().expect("durable");
    disk
}

/// Returns true if this is an error that callers see when the power has failed.
fn is_power_loss(error: &Error) -> bool {
    use Error::{Closed, Io, LogFailed, LogNotExtended, NoLogSpace};
    matches!(error, LogFailed { .. } | NoLogSpace { .. } | LogNotExtended { .. } | Closed | Io { .. })
}

/// Does one thing after the other until it is refused or there was enough of it; how many were done.
fn in_turn(enough: i64, mut act: impl FnMut(i64) -> Result<()>) -> i64 {
    for number in 0..enough {
        if let Err(error) = act(number) {
            assert!(is_power_loss(&error), "{error}");
            return number;
        }
    }
    enough
}

/// Calls, tables and checkpoints, all at the same time; what was acknowledged.
fn work(journal: &Journal) -> Made {
    let made = thread::scope(|scope| {
        let calls: Vec<_> = (0..THREADS as i64)
            .map(|thread| scope.spawn(move || in_turn(CALLS, |number| journal.call(thread, number))))
            .collect();
        let tables = scope.spawn(|| in_turn(2, |number| journal.make_table(number)));
        scope.spawn(|| in_turn(2, |_| journal.db.checkpoint().map(drop)));
        while !calls.iter().all(|thread| thread.is_finished()) {
            if journal.db.checkpoints().failure.is_some() {
                // A log that can make no segment for what was committed already would wait for one forever.
                thread::sleep(Duration::from_millis(20));
                let _ = journal.db.clone().close();
            }
            thread::sleep(Duration::from_micros(500));
        }
        let calls = calls.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        Made { calls, tables: tables.join().expect("no panic") }
    });
    let _ = journal.db.clone().close();
    made
}

/// One boundary in this many is tried where a test of all would take too long; the others another time, by chance.
fn stride() -> (u64, u64) {
    let stride = if cfg!(debug_assertions) { 2 } else { 1 };
    let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64 / 1_000 % stride);
    (first, stride)
}

fn at_every_operation(protocol: ProtocolKind) {
    let prepared = prepared(protocol);
    let (first, stride) = stride();
    for boundary in (first..).step_by(stride as usize) {
        let disk = prepared.crash_image(1);
        disk.crash_after(boundary);
        let nothing = Made { calls: vec![0; THREADS], tables: 0 };
        let made = Journal::open(options(&disk, protocol)).map_or(nothing, |journal| work(&journal));
        let whole = disk.operations() <= boundary;
        for seed in [0, 1, boundary + 2] {
            let what = format!("{protocol}, boundary {boundary}, seed {seed}");
            let image = disk.crash_image(seed);
            let journal = Journal::survives(options(&image, protocol), &made, &what);
            // It works on: and the next checkpoint makes the same of it.
            let again = journal.made(THREADS);
            journal.call(0, again.calls[0]).unwrap_or_else(|error| panic!("{what}: {error}"));
            journal.db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
            journal.db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut calls = again.calls.clone();
            calls[0] += 1;
            let expected = Made { calls, ..again };
            let journal = Journal::open(options(&image, protocol)).expect("a checkpoint");
            // But for the epochs of a split phase that the checkpoint has met, it has everything.
            let is_phased = journal.db.phases().is_some();
            assert!(is_phased || journal.db.recovery().groups == 0, "{what}: {:?}", journal.db.recovery());
            assert_eq!(journal.made(THREADS), expected, "{what}");
            journal.check(&expected, &what);
        }
        if whole {
            assert!(boundary > 60, "only {boundary} operations: is anything synced?");
            break;
        }
    }
}

#[test]
fn a_crash_at_every_operation_while_split_phases_come_and_go() {
    in_time(|| at_every_operation(ProtocolKind::Phased));
}

#[test]
fn a_crash_at_every_operation_while_records_change_one_by_one() {
    in_time(|| at_every_operation(ProtocolKind::Optimistic));
}

/// Checkpoint after checkpoint under load; images are taken at any moment, under every protocol.
#[test]
fn an_image_of_any_moment_holds_what_was_acknowledged_before() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || images(protocol));
    }
}

fn images(protocol: ProtocolKind) {
    let disk = prepared(protocol);
    let journal = Journal::open(options(&disk, protocol)).expect("opens");
    let counts: Vec<AtomicI64> = (0..3).map(|_| AtomicI64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let stopped = || stop.load(Ordering::SeqCst);
    let read =
        || Made { calls: counts.iter().map(|count| count.load(Ordering::SeqCst)).collect(), tables: 0 };
    thread::scope(|scope| {
        for (thread, count) in (0..).zip(&counts) {
            let (journal, stopped) = (&journal, &stopped);
            scope.spawn(move || {
                for number in (0..).take_while(|_| !stopped()) {
                    journal.call(thread, number).expect("committed");
                    count.store(number + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        scope.spawn(|| {
            while !stopped() {
                let report = journal.db.checkpoint().expect("the disk is healthy");
                assert!(report.records > 20 && report.leftover.is_none(), "{report:?}");
            }
        });
        for seed in 0..16 {
            thread::sleep(Duration::from_millis(5));
            let before = read();
            let image = disk.crash_image(seed);
            let after = read();
            let crashed = Journal::open(options(&image, protocol)).expect("opens");
            let made = crashed.made(3);
            for ((&least, &most), &made) in before.calls.iter().zip(&after.calls).zip(&made.calls) {
                assert!(
                    (least..=most + 1).contains(&made),
                    "{protocol}, seed {seed}: {least} to {most}, {made} found"
                );
            }
            crashed.check(&made, &format!("{protocol}, seed {seed}"));
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(journal.db.checkpoints().made > 3, "{:?}", journal.db.checkpoints());
    journal.db.close().expect("durable");
    Journal::survives(options(&disk.crash_image(0), protocol), &read(), "at the end");
}

/// The power goes again while the database recovers, at every operation of that; leftovers of an interrupted
/// checkpoint are there, and segments that it had made useless.
#[test]
fn a_crash_at_every_operation_of_recovery() {
    in_time(|| {
        let protocol = ProtocolKind::Phased;
        let disk = prepared(protocol);
        let journal = Journal::open(options(&disk, protocol)).expect("opens");
        (0..20).for_each(|number| journal.call(0, number).expect("committed"));
        journal.db.checkpoint().expect("whole");
        (20..30).for_each(|number| journal.call(0, number).expect("committed"));
        journal.db.close().expect("durable");
        let acknowledged = Made { calls: vec![30], tables: 0 };
        for name in ["00000001.manifest", "00000009.manifest.tmp", "00000001-0001.part", "00000009-0004.part"]
        {
            let path = file("checkpoint", name);
            if disk.bytes(&path).is_err() {
                disk.put_bytes(&path, b"what an interruption has left".to_vec()).expect("there");
            }
        }
        for boundary in 0.. {
            let again = disk.crash_image(1);
            again.crash_after(boundary);
            let opened = Journal::open(options(&again, protocol)).map(|journal| drop(journal.db.close()));
            let whole = again.operations() <= boundary;
            for seed in [0, 1, boundary + 2] {
                let what = format!("boundary {boundary}, seed {seed}");
                let image = again.crash_image(seed);
                drop(Journal::survives(options(&image, protocol), &acknowledged, &what));
                let left = names(&image, "checkpoint");
                assert!(left.iter().all(|name| !name.starts_with("00000009")), "{what}: {left:?}");
            }
            if whole {
                opened.expect("no crash");
                break;
            }
        }
    });
}

/// Nothing else goes on: so every operation is the checkpoint's own, and each has several outcomes.
#[test]
fn a_crash_at_every_operation_of_a_checkpoint_leaves_the_older_one_or_the_new_one() {
    in_time(|| {
        let protocol = ProtocolKind::Optimistic;
        let disk = prepared(protocol);
        let journal = Journal::open(options(&disk, protocol)).expect("opens");
        (0..20).for_each(|number| journal.call(0, number).expect("committed"));
        journal.db.checkpoint().expect("whole");
        (20..40).for_each(|number| journal.call(0, number).expect("committed"));
        journal.db.close().expect("durable");
        let acknowledged = Made { calls: vec![40], tables: 0 };
        for boundary in 0.. {
            let again = disk.crash_image(1);
            let journal = Journal::open(options(&again, protocol)).expect("opens");
            again.crash_after(boundary);
            let made = journal.db.checkpoint();
            for seed in 0..10 {
                let image = again.crash_image(seed);
                let what = format!("boundary {boundary}, seed {seed}");
                let crashed = Journal::survives(options(&image, protocol), &acknowledged, &what);
                let found = crashed.db.recovery().checkpoint;
                assert!(found == 2 || found == 1 && made.is_err(), "{what}: {made:?}");
            }
            if made.is_ok_and(|report| report.leftover.is_none()) {
                assert!(boundary > 8, "only {boundary} operations: is anything synced?");
                break;
            }
        }
    });
}
