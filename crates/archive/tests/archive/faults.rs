//! Storage that fails, and comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddledb_archive::{Uploader, list, verify};

use crate::shelf::{Faults, Shelf};
use crate::support::{Bank, archive, random, restore_all, setting, settings, transactions_in};

#[test]
fn random_failures_and_unknown_outcomes_lose_nothing_and_leave_no_hole() {
    let mut random = random();
    for round in 0..setting("HEDDLE_ROUNDS", 5) {
        let shelf = Arc::new(Shelf::default());
        let mut bank = Bank::new(shelf.clone(), settings());
        shelf.set_faults(Faults::Random(random.fork(), 5));
        for _ in 0..20 {
            bank.work(random.usize(1..10));
            if random.u32(..5) == 0 {
                bank.checkpoint();
            }
            let _ = archive(&mut bank.archiver);
            if random.u32(..6) == 0 {
                bank.reopen(shelf.clone(), settings());
            }
        }
        assert!(shelf.refused() > 0);
        shelf.set_faults(Faults::None);
        bank.archive();
        let verified = verify(&*shelf, None).expect("read");
        assert_eq!(verified.problems, [], "round {round}");
        let to = bank.fresh("restored");
        restore_all(&*shelf, &to).expect("restored");
        assert_eq!(transactions_in(&to), bank.history.len(), "round {round}");
    }
}

#[test]
fn a_database_shows_its_archive_before_it_is_reached() {
    let shelf = Arc::new(Shelf::default());
    shelf.set_faults(Faults::Unreachable);
    let mut bank = Bank::new(shelf, settings());
    let status = bank.db.archive_status().expect("shown from the start");
    assert_eq!((status.timeline, status.failure, status.alarm), (0, None, false));
    archive(&mut bank.archiver).expect_err("it cannot be reached");
    assert!(bank.db.archive_status().expect("shown").failure.is_some());
}

#[test]
fn an_archive_that_is_unreachable_for_a_while_is_caught_up_with() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    bank.work(20);
    bank.archive();
    shelf.set_faults(Faults::Unreachable);
    for _ in 0..4 {
        bank.work(40);
        bank.checkpoint();
        archive(&mut bank.archiver).expect_err("it cannot be reached");
    }
    let status = bank.db.archive_status().expect("archived");
    assert!(status.failure.is_some_and(|failure| failure.contains("a fault")));
    assert!(!status.alarm && status.bytes_behind > 0 && status.failures == 4);
    shelf.set_faults(Faults::None);
    bank.archive();
    let status = bank.db.archive_status().expect("archived");
    assert_eq!((status.failure, status.alarm, status.timeline), (None, false, 1));
    assert_eq!(Some(&status.archived_epoch), bank.history.last());
    let to = bank.fresh("restored");
    restore_all(&*shelf, &to).expect("restored");
    assert_eq!(transactions_in(&to), bank.history.len());
}

#[test]
fn beyond_the_limit_there_is_an_alarm_and_commits_go_on_and_a_timeline_begins() {
    let shelf = Arc::new(Shelf::default());
    let mut small = settings();
    small.hold_bytes = 100 << 10;
    let mut bank = Bank::new(shelf.clone(), small);
    bank.work(20);
    bank.archive();
    shelf.set_faults(Faults::Unreachable);
    for _ in 0..4 {
        bank.work(60);
        bank.checkpoint();
        archive(&mut bank.archiver).expect_err("it cannot be reached");
    }
    assert!(bank.db.archive_status().expect("archived").alarm);
    bank.work(5);
    shelf.set_faults(Faults::None);
    // The first step finds that the log no longer reaches back.
    let _ = archive(&mut bank.archiver);
    bank.archive();
    let status = bank.db.archive_status().expect("archived");
    assert_eq!((status.timeline, status.alarm), (2, false));
    assert_eq!(verify(&*shelf, None).expect("read").problems, []);
    let listed = list(&*shelf).expect("listed");
    assert_eq!(listed[1].parent.map(|parent| parent.0), Some(1));
    let to = bank.fresh("restored");
    restore_all(&*shelf, &to).expect("restored");
    assert_eq!(transactions_in(&to), bank.history.len());
}

#[test]
fn the_thread_archives_a_quiet_database_and_what_is_left_when_it_is_stopped() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    let source = bank.db.archive_source().expect("logged");
    let mut slow = settings();
    slow.interval = Duration::from_millis(300);
    let archiver = heddledb_archive::Archiver::new(shelf.clone(), source, &bank.directory, slow);
    let uploader = Uploader::start(archiver).expect("started");
    bank.work(3);
    let deadline = Instant::now() + Duration::from_secs(60);
    while bank.db.archive_status().is_none_or(|status| Some(&status.archived_epoch) != bank.history.last()) {
        assert!(Instant::now() < deadline, "{:?}", bank.db.archive_status());
        std::thread::sleep(Duration::from_millis(10));
    }
    bank.work(4);
    uploader.stop();
    let to = bank.fresh("restored");
    restore_all(&*shelf, &to).expect("restored");
    assert_eq!(transactions_in(&to), 7);
}
