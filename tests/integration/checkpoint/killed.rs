//! The process is killed, and the power goes later: what the next opening reads may be in the system's cache only, so it
//! must not remove anything on the strength of it.

use std::path::Path;

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Options, ProtocolKind, Result};

use crate::checkpoint::journal::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// With parts in other directories.
fn striped(disk: &SimulatedDisk) -> Options {
    plain(disk).checkpoints(|checkpoints| checkpoints.directory("elsewhere").directory("beyond"))
}

/// Calls that fill a few segments.
const CALLS: i64 = 60;

/// A closed journal of some calls, and how many checkpoints were made.
fn filled(checkpoints: i64) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let journal = Journal::create(plain(&disk));
    for round in 0..=checkpoints {
        if round > 0 {
            journal.db.checkpoint().expect("whole");
        }
        let first = round * CALLS;
        (first..first + CALLS).for_each(|number| journal.call(0, number).expect("committed"));
    }
    journal.db.close().expect("durable");
    disk.crash_image(0)
}

/// The process is killed at every operation of a checkpoint, is started again, works on, and then the power goes.
fn killed_then_crashed(checkpoints: i64) {
    let filled = filled(checkpoints);
    let made = Made { calls: vec![(checkpoints + 1) * CALLS], tables: 0 };
    let mut unsure = 0;
    for boundary in 0.. {
        let (disk, outcome) = killed(&filled, boundary);
        let what = format!("{checkpoints} checkpoints before, killed at {boundary}");
        let newest = file("checkpoint", &format!("{:08}.manifest", checkpoints + 1));
        if outcome.is_err() && disk.bytes(&newest).is_ok() {
            unsure += 1;
            crashed_while_opened(&filled, boundary, &made, &what);
        }
        let journal = Journal::open(plain(&disk)).unwrap_or_else(|error| panic!("{what}: {error}"));
        for seed in [0, 1, boundary + 2] {
            let what = format!("{what}, seed {seed}");
            drop(Journal::survives(plain(&disk.crash_image(seed)), &made, &what));
        }
        drop(journal);
        if outcome.is_ok() {
            break;
        }
    }
    assert!(unsure > 0, "no checkpoint was ever in the cache only");
}

/// A disk as a process has left it that was killed at this operation of a checkpoint: what it wrote is in the cache, and
/// nothing more of it becomes durable on its own.
fn killed(filled: &SimulatedDisk, boundary: u64) -> (SimulatedDisk, Result<()>) {
    let disk = filled.crash_image(0);
    let journal = Journal::open(plain(&disk)).expect("opens");
    disk.crash_after(boundary);
    let outcome = journal.db.checkpoint().map(drop);
    // What the log says to its end is of no interest: everything was durable before.
    let _ = journal.db.close();
    disk.heal();
    (disk, outcome)
}

/// The power goes at every operation of the opening that follows.
fn crashed_while_opened(filled: &SimulatedDisk, boundary: u64, made: &Made, what: &str) {
    for second in 0.. {
        let (disk, _) = killed(filled, boundary);
        disk.crash_after(second);
        let is_whole = Journal::open(plain(&disk)).is_ok_and(|journal| journal.db.close().is_ok());
        for seed in [0, 1, second + 2] {
            let what = format!("{what}, the power gone at {second}, seed {seed}");
            drop(Journal::survives(plain(&disk.crash_image(seed)), made, &what));
        }
        if is_whole {
            break;
        }
    }
}

#[test]
fn a_first_checkpoint_that_is_in_the_cache_only_replaces_no_log() {
    in_time(|| killed_then_crashed(0));
}

#[test]
fn a_later_checkpoint_that_is_in_the_cache_only_replaces_no_older_one() {
    in_time(|| killed_then_crashed(1));
}

/// The disk fails at every operation of a checkpoint, and from there on, and is well again while the database goes on:
/// the next checkpoint succeeds, whatever the first one has left, and a power loss at either moment costs nothing.
fn outages(options: fn(&SimulatedDisk) -> Options) {
    let filled = filled(1);
    for boundary in 0.. {
        let disk = filled.crash_image(0);
        let journal = Journal::open(options(&disk)).expect("opens");
        disk.crash_after(boundary);
        let first = journal.db.checkpoint();
        disk.heal();
        let what = format!("an outage at {boundary}, {:?}", first.as_ref().map(|report| &report.leftover));
        let mut made = Made { calls: vec![2 * CALLS], tables: 0 };
        survive_power_loss(&disk, options, boundary, &made, &what);
        wait_until("updates again", || match journal.call(0, 2 * CALLS) {
            Ok(()) => true,
            Err(error) if is_refused(&error) => false,
            Err(error) => panic!("{what}: {error}"),
        });
        made.calls[0] += 1;
        let second = journal.db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(second.leftover, None, "{what}");
        survive_power_loss(&disk, options, boundary, &made, &what);
        let own = format!("{:08}", second.number);
        for folder in ["bank/checkpoint", "elsewhere", "beyond"] {
            let files = files_in(&disk, folder);
            assert!(files.iter().all(|name| name.contains(&own)), "{what}: {folder} has {files:?}");
        }
        journal.db.close().expect("durable");
        drop(Journal::survives(options(&disk), &made, &what));
        if first.is_ok_and(|report| report.leftover.is_none()) {
            break;
        }
    }
}

/// But for the mark that says whose they are.
fn files_in(disk: &SimulatedDisk, folder: &str) -> Vec<String> {
    let names = disk.list(Path::new(folder)).unwrap_or_default();
    let names = names.into_iter().map(|name| name.into_string().expect("our names are text"));
    names.filter(|name| !["-DATABASE", "-LOCK"].iter().any(|mark| name.ends_with(mark))).collect()
}

fn survive_power_loss(
    disk: &SimulatedDisk,
    options: fn(&SimulatedDisk) -> Options,
    chance: u64,
    made: &Made,
    what: &str,
) {
    for seed in [0, 1, chance + 2] {
        drop(Journal::survives(options(&disk.crash_image(seed)), made, &format!("{what}, seed {seed}")));
    }
}

#[test]
fn after_an_outage_at_any_operation_the_next_checkpoint_succeeds() {
    in_time(|| outages(plain));
}

#[test]
fn after_an_outage_the_next_checkpoint_succeeds_in_other_directories_too() {
    in_time(|| outages(striped));
}
