//! The life of a follower: it connects, works, exits, and connects again.

use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Database, Error, Options, ProtocolKind};

use crate::checkpoint::journal::*;
use crate::follower::companion::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// Calls of two threads, tables, and checkpoints at the same time; then one more checkpoint, when there are no calls.
fn busy_life(protocol: ProtocolKind, with: impl Fn(Options) -> Options) {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    let plain = || with(options(&disk, protocol));
    Journal::create(plain()).db.close().expect("durable");
    let journal = Journal::open(place.with(plain())).expect("opens");
    let companion = place.follow(disk.clone());
    wait_for_follower(&journal.db);
    let made = Made { calls: vec![60, 60], tables: 2 };
    thread::scope(|scope| {
        for thread in 0..2 {
            let journal = &journal;
            scope.spawn(move || (0..60).for_each(|number| journal.call(thread, number).expect("committed")));
        }
        scope.spawn(|| (0..2).for_each(|number| journal.make_table(number).expect("made")));
        scope.spawn(|| {
            for _ in 0..4 {
                let report = journal.db.checkpoint().expect("whole");
                assert!(report.by_follower, "{:?}", journal.db.checkpoints());
            }
        });
    });
    // Where columns are split, the follower has what slices had, too: its copy is of the end of an epoch.
    let last = journal.db.checkpoint().expect("whole");
    assert!(last.by_follower && last.leftover.is_none(), "{last:?}");
    assert_eq!((journal.db.checkpoints().made, journal.db.checkpoints().by_follower), (5, 5));
    assert!(journal.db.statistics().follower_busy > Duration::ZERO);
    journal.db.close().expect("durable");
    assert_eq!(companion.errors(), []);
    let reports = companion.end();
    assert_eq!(reports.iter().map(|report| report.checkpoints).sum::<u64>(), 5, "{reports:?}");
    for image in [disk.crash_image(0), disk.clone()] {
        let journal = Journal::survives(with(options(&image, protocol)), &made, protocol.name());
        let recovery = journal.db.recovery().clone();
        assert_eq!(
            (recovery.checkpoint, recovery.groups),
            (last.number, 0),
            "nothing is behind an exact one"
        );
        journal.call(0, 60).expect("committed");
        journal.db.checkpoint().expect("whole");
        journal.db.close().expect("durable");
    }
}

#[test]
fn a_follower_writes_every_checkpoint_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || busy_life(protocol, |options| options));
    }
}

#[test]
fn a_follower_writes_to_other_directories_too() {
    let striped = |options: Options| {
        options.checkpoints(|checkpoints| checkpoints.directory("elsewhere").directory("beyond"))
    };
    in_time(move || busy_life(ProtocolKind::Phased, striped));
}

#[test]
fn what_a_follower_writes_is_striped_over_all_directories() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let directories = |options: Options| {
            options.checkpoints(|checkpoints| checkpoints.directory("elsewhere").directory("beyond"))
        };
        let journal = Journal::create(directories(place.with(plain(&disk))));
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        fill_blocks(&journal.db);
        let report = journal.db.checkpoint().expect("whole");
        let bytes = ["elsewhere", "beyond"].map(|path| bytes_of_parts(&disk, path));
        let all: usize = bytes.iter().sum();
        assert!(report.by_follower && all > 2_000_000, "{report:?}");
        assert!(bytes.iter().all(|bytes| *bytes > all / 4), "{bytes:?}");
        journal.db.close().expect("durable");
        companion.end();
        let again = Database::open(DIRECTORY, directories(plain(&disk))).expect("the parts are found");
        assert_eq!(again.recovery().checkpoint, report.number);
    });
}

#[test]
fn a_follower_that_comes_late_loads_a_checkpoint_and_the_log_behind_it() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        (0..30).for_each(|number| journal.call(0, number).expect("committed"));
        assert!(!journal.db.checkpoint().expect("whole").by_follower);
        (30..60).for_each(|number| journal.call(0, number).expect("committed"));
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        assert!(journal.db.checkpoint().expect("whole").by_follower);
        // The same follower again: it has kept up.
        (60..70).for_each(|number| journal.call(0, number).expect("committed"));
        assert!(journal.db.checkpoint().expect("whole").by_follower);
        journal.db.close().expect("durable");
        companion.end();
        let made = Made { calls: vec![70], tables: 0 };
        drop(Journal::survives(plain(&disk), &made, "followed"));
    });
}

#[test]
fn without_its_follower_the_database_goes_on_and_takes_it_back() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        let mut number = 0;
        for round in 0..4 {
            let companion = place.follow(disk.clone());
            wait_for_follower(&journal.db);
            (number..number + 20).for_each(|number| journal.call(0, number).expect("committed"));
            number += 20;
            assert!(journal.db.checkpoint().expect("whole").by_follower, "round {round}");
            companion.end();
            wait_for_its_end(&journal.db);
            journal.call(0, number).expect("committed");
            number += 1;
            assert!(!journal.db.checkpoint().expect("whole").by_follower, "round {round}");
        }
        let follower = journal.db.checkpoints().follower.expect("one is waited for");
        assert_eq!(follower.came, 4);
        assert!(matches!(follower.failure, Some(Error::FollowerFailed { .. })), "{follower:?}");
        journal.db.close().expect("durable");
        drop(Journal::survives(plain(&disk), &Made { calls: vec![number], tables: 0 }, "alone"));
    });
}

#[test]
fn closing_waits_for_no_follower_and_leaves_no_socket() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        journal.call(0, 0).expect("committed");
        assert!(place.socket().exists());
        let start = Instant::now();
        journal.db.close().expect("durable");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        assert!(!place.socket().exists());
        wait_until("the close of the database was announced", || companion.lives().len() == 1);
        companion.end();
        // Nor does one that was never connected to, or one that is released without being closed.
        drop(Journal::open(place.with(plain(&disk))).expect("opens"));
        assert!(!place.socket().exists());
    });
}

#[test]
fn a_database_that_comes_again_is_followed_again() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        Journal::create(plain(&disk)).db.close().expect("durable");
        let companion = place.follow(disk.clone());
        for round in 0..3 {
            let journal = Journal::open(place.with(plain(&disk))).expect("opens");
            wait_for_follower(&journal.db);
            journal.call(0, round).expect("committed");
            assert!(journal.db.checkpoint().expect("whole").by_follower);
            journal.db.close().expect("durable");
        }
        assert_eq!(companion.errors(), []);
        companion.end();
        let names = disk.list(&std::path::Path::new(DIRECTORY).join("checkpoint")).expect("checkpoints");
        assert_eq!(names.len(), 3, "one checkpoint, of two parts: {names:?}");
    });
}

#[test]
fn a_socket_that_is_in_use_or_makes_no_sense_is_refused() {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    let journal = Journal::create(place.with(plain(&disk)));
    let refused = |options: Options| {
        let error = Database::open("another", options).expect_err("refused");
        assert!(
            matches!(error, Error::InvalidOption { option: "checkpoints.follower_socket", .. }),
            "{error}"
        );
    };
    refused(place.with(plain(&disk)));
    refused(plain(&disk).checkpoints(|checkpoints| checkpoints.follower_socket("x".repeat(300))));
    refused(plain(&disk).checkpoints(|checkpoints| checkpoints.follower_socket("no such directory/socket")));
    let nobody = Database::follow(DIRECTORY, &plain(&disk), &mut |_| true);
    assert!(matches!(nobody, Err(Error::InvalidOption { option: "checkpoints.follower_socket", .. })));
    journal.db.close().expect("durable");
    let nobody = Database::follow(DIRECTORY, &place.with(plain(&disk)), &mut |_| true);
    assert!(matches!(nobody, Err(Error::DatabaseLost { .. })), "{nobody:?}");
}
