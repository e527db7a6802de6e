//! Which timeline a database continues, and when it begins one.

use std::path::Path;
use std::sync::Arc;

use heddledb::Database;
use heddledb_archive::{RestorePoint, list, restore, verify};

use crate::shelf::Shelf;
use crate::support::{
    Bank, archive, archived, open, options, restore_all, restore_to, settings, transactions_in,
};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed") {
        let entry = entry.expect("listed");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), to).expect("copied"),
        }
    }
}

/// Restores the end of a timeline, and says how many transactions are in it.
fn end_of(shelf: &Shelf, number: u32, to: &Path) -> usize {
    restore(shelf, None, Some(number), RestorePoint::End, to, &options()).expect("restored");
    transactions_in(to)
}

#[test]
fn a_database_that_is_opened_again_continues_its_timeline() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    for round in 0..5 {
        bank.work(15);
        if round % 2 == 0 {
            bank.archive();
        }
        if round == 3 {
            bank.checkpoint();
        }
        bank.reopen(shelf.clone(), settings());
    }
    bank.archive();
    assert_eq!(list(&*shelf).expect("listed").len(), 1);
    assert_eq!(end_of(&shelf, 1, &bank.fresh("restored")), 75);
}

#[test]
fn a_restored_database_begins_a_timeline_and_the_first_one_stays_as_it_is() {
    let shelf = Arc::new(Shelf::default());
    let bank = archived(&shelf, 40);
    let restored = bank.fresh("restored");
    restore_to(&*shelf, bank.history[24], &restored).expect("restored");
    let (db, mut archiver) = open(&restored, shelf.clone(), settings());
    archive(&mut archiver).expect("archived");
    db.run(|tx| tx.add(&db.table("ledger")?, heddledb::key![0], "amount", 0)).expect("committed");
    archive(&mut archiver).expect("archived");
    let listed = list(&*shelf).expect("listed");
    let parents: Vec<_> =
        listed.iter().map(|line| line.parent.map(|(number, _, epoch)| (number, epoch))).collect();
    assert_eq!(parents, [None, Some((1, bank.history[24]))]);
    assert_eq!(end_of(&shelf, 1, &bank.fresh("one")), bank.history.len());
    assert_eq!(end_of(&shelf, 2, &bank.fresh("two")), 25);
    // The last one is the default.
    restore_all(&*shelf, &bank.fresh("default")).expect("restored");
    assert_eq!(transactions_in(&bank.fresh("default")), 25);
    assert_eq!(verify(&*shelf, None).expect("read").problems, []);
}

#[test]
fn of_two_copies_that_write_to_one_timeline_the_second_one_begins_another() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    bank.work(20);
    bank.archive();
    let twin = bank.fresh("twin");
    bank.reopen(shelf.clone(), settings());
    bank.db.clone().close().expect("closed");
    copy(&bank.directory, &twin);
    bank.reopen(shelf.clone(), settings());
    let (twin_db, mut twin_archiver) = open(&twin, shelf.clone(), settings());
    // Both find that they continue the timeline.
    archive(&mut twin_archiver).expect("nothing to do");
    bank.archive();
    assert_eq!((bank.archiver.status().timeline, twin_archiver.status().timeline), (1, 1));
    bank.work(10);
    bank.archive();
    let table = twin_db.table("ledger").expect("opened");
    twin_db.run(|tx| tx.delete(&table, heddledb::key![20])).expect("committed");
    twin_db.run(|tx| tx.add(&table, heddledb::key![0], "amount", -1)).expect("committed");
    archive(&mut twin_archiver).expect_err("the other one was first");
    archive(&mut twin_archiver).expect("archived");
    assert_eq!((bank.archiver.status().timeline, twin_archiver.status().timeline), (1, 2));
    bank.work(5);
    bank.archive();
    assert_eq!(end_of(&shelf, 1, &bank.fresh("one")), 35);
    assert_eq!(end_of(&shelf, 2, &bank.fresh("two")), 19);
    assert_eq!(verify(&*shelf, None).expect("read").problems, []);
}

#[test]
fn a_backup_and_an_older_copy_do_not_continue_the_timeline() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = Bank::new(shelf.clone(), settings());
    bank.work(10);
    bank.archive();
    let (backup, older) = (bank.fresh("backup"), bank.fresh("older"));
    bank.db.backup(&backup).expect("copied");
    bank.reopen(shelf.clone(), settings());
    bank.db.clone().close().expect("closed");
    copy(&bank.directory, &older);
    bank.reopen(shelf.clone(), settings());
    bank.work(10);
    bank.archive();
    for (directory, number) in [(&backup, 2), (&older, 3)] {
        let (db, mut archiver) = open(directory, shelf.clone(), settings());
        archive(&mut archiver).expect("archived");
        assert_eq!(archiver.status().timeline, number);
        drop((db, archiver));
        assert_eq!(end_of(&shelf, number, &bank.fresh(&format!("restored-{number}"))), 10);
    }
    assert_eq!(end_of(&shelf, 1, &bank.fresh("restored-1")), 20);
}

#[test]
fn several_databases_share_an_archive_and_one_must_be_named() {
    let shelf = Arc::new(Shelf::default());
    let mut banks = [3, 5].map(|transactions| {
        let mut bank = Bank::new(shelf.clone(), settings());
        bank.work(transactions);
        bank.archive();
        bank
    });
    let refused = restore_all(&*shelf, &banks[0].fresh("x")).expect_err("two").to_string();
    assert!(refused.contains("--database"), "{refused}");
    for bank in &mut banks {
        let (to, identity) = (bank.fresh("restored"), bank.db.archive_source().expect("logged").identity());
        restore(&*shelf, Some(identity), None, RestorePoint::End, &to, &options()).expect("restored");
        assert_eq!(transactions_in(&to), bank.history.len());
    }
    assert_eq!(list(&*shelf).expect("listed").len(), 2);
}

#[test]
fn a_database_without_a_log_has_nothing_to_archive() {
    let refused = Database::in_memory().expect("opened").archive_source().expect_err("refused");
    assert!(refused.to_string().contains("archive"), "{refused}");
}
