//! What is restored equals the history.

use std::sync::Arc;
use std::time::Duration;

use heddledb_archive::{Credentials, RestorePoint, list, open, restore, verify};

use crate::shelf::Shelf;
use crate::support::{
    Bank, archived, options, random, restore_all, restore_to, setting, settings, transactions_in,
};

#[test]
fn random_positions_of_an_archive_in_a_directory_equal_the_history() {
    let mut random = random();
    let home = tempfile::tempdir().expect("a directory");
    let address = format!("file://{}", home.path().join("archive").display());
    let objects = open(&address, &Credentials::default(), true).expect("opened");
    let mut bank = Bank::new(objects.clone(), settings());
    for part in 0..6 {
        bank.work(50);
        if part % 2 == 1 {
            bank.checkpoint();
        }
        bank.archive();
    }
    let (first, last) = (bank.history[0], *bank.history.last().expect("worked"));
    for round in 0..setting("HEDDLE_RESTORES", 8) {
        let epoch = random.u64(first..=last);
        let to = bank.fresh(&format!("restored-{round}"));
        let report = restore_to(&*objects, epoch, &to).expect("restored");
        assert!(report.position.1 <= epoch, "{report:?}");
        assert_eq!(
            transactions_in(&to),
            bank.transactions_at(epoch),
            "at epoch {epoch} of {:?}",
            report.timeline
        );
    }
    let to = bank.fresh("end");
    assert_eq!(restore_all(&*objects, &to).expect("restored").position.1, last);
    assert_eq!(transactions_in(&to), bank.history.len());
    let verified = verify(&*objects, None).expect("read");
    assert_eq!((verified.problems.len(), verified.unneeded.len()), (0, 0), "{verified:?}");
    let listed = list(&*objects).expect("listed");
    let catalog = listed[0].catalog.as_ref().expect("archived");
    assert_eq!((listed.len(), catalog.checkpoints().len()), (1, 3));
    assert!(catalog.log_objects() > 6);
}

#[test]
fn a_time_between_two_commits_gives_what_was_committed_by_then() {
    let mut random = random();
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    let before = now();
    let mut moments = Vec::new();
    for transaction in 0..60 {
        std::thread::sleep(Duration::from_millis(2));
        bank.work(1);
        moments.push(now());
        if transaction == 30 {
            bank.archive();
            bank.checkpoint();
        }
        if transaction == 45 {
            bank.archive();
            bank.reopen(shelf.clone(), settings());
        }
    }
    bank.archive();
    for round in 0..setting("HEDDLE_RESTORES", 8) {
        let at = random.usize(..moments.len());
        let to = bank.fresh(&format!("restored-{round}"));
        let point = RestorePoint::Time(moments[at]);
        let report = restore(&*shelf, None, None, point, &to, &options()).expect("restored");
        assert!(report.time > 0 && report.time <= moments[at]);
        assert_eq!(report.position.1, bank.history[at]);
        assert_eq!(transactions_in(&to), at + 1);
    }
    let early = restore(
        &*shelf,
        None,
        None,
        RestorePoint::Time(before - 3_600_000_000),
        &bank.fresh("x"),
        &options(),
    );
    assert!(early.expect_err("refused").to_string().contains("nothing was written before that moment"));
}

/// Microseconds since 1970.
fn now() -> u64 {
    heddledb::Timestamp::now().microseconds() as u64
}

#[test]
fn without_a_checkpoint_the_log_alone_is_restored() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    bank.work(7);
    bank.archive();
    let to = bank.fresh("restored");
    restore_to(&*shelf, bank.history[4], &to).expect("restored");
    assert_eq!(transactions_in(&to), 5);
}

#[test]
fn moments_that_the_archive_does_not_have_are_refused_and_leave_no_database() {
    let shelf = Arc::new(Shelf::default());
    let empty = tempfile::tempdir().expect("a directory");
    let refused = restore_all(&*shelf, &empty.path().join("x")).expect_err("nothing is there");
    assert!(refused.to_string().contains("no database is archived there"), "{refused}");
    let bank = archived(&shelf, 40);
    let last = *bank.history.last().expect("worked");
    for (point, expected) in [
        (RestorePoint::Position { term: 0, epoch: last + 1 }, "the archive ends with the position"),
        (RestorePoint::Position { term: 99, epoch: last }, "is not in the timeline"),
        (RestorePoint::Position { term: 0, epoch: 0 }, "nothing was written before that moment"),
    ] {
        let to = bank.fresh("refused");
        let refused = restore(&*shelf, None, None, point, &to, &options()).expect_err("refused").to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(!to.join("MANIFEST").exists());
    }
    let refused = restore(&*shelf, None, Some(7), RestorePoint::End, &bank.fresh("x"), &options());
    assert!(refused.expect_err("refused").to_string().contains("there is no timeline 7"));
    std::fs::create_dir(bank.fresh("full")).expect("made");
    std::fs::write(bank.fresh("full").join("file"), "x").expect("written");
    let refused = restore_all(&*shelf, &bank.fresh("full")).expect_err("not empty").to_string();
    assert!(refused.contains("full"), "{refused}");
    assert_eq!(std::fs::read(bank.fresh("full").join("file")).expect("left alone"), b"x");
}
