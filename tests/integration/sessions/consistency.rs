//! Tests that a session's reads are of one state; a row that another transaction has changed is a conflict at
//! the first access that can notice it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, SessionState, TableChange,
    TableDefinition, key, row,
};

use crate::sessions::rig::{Rig, under_every_protocol, value};

#[test]
fn what_was_changed_since_it_was_read_fails_the_next_read_of_it_and_everything_after() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)));
        let savepoint = session.savepoint().expect("a savepoint");
        rig.write(&mut session, 2, 21).expect("an update");
        rig.set(1, 11);
        assert_eq!(rig.read(&mut session, 1), Err(Error::Conflict));
        assert_eq!(session.state(), SessionState::Aborted);
        assert_eq!(session.rollback_to(&savepoint), Err(Error::Conflict), "no savepoint revives it");
        assert_eq!(rig.read(&mut session, 3), Err(Error::Conflict));
        assert_eq!(session.commit(), Err(Error::Conflict));
        assert_eq!(rig.value(2), Some(20), "{}", rig.protocol);
        session.begin().expect("a transaction");
        assert_eq!(rig.read(&mut session, 1), Ok(Some(11)));
    });
}

#[test]
fn a_change_to_what_was_read_fails_the_commit_of_a_writer() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)));
        rig.write(&mut session, 2, 21).expect("an update");
        rig.set(1, 11);
        let conflict = session.commit();
        assert!(conflict.as_ref().is_err_and(Error::is_retryable), "{conflict:?}");
        assert_eq!(rig.value(2), Some(20), "{}", rig.protocol);
    });
}

#[test]
fn a_session_that_only_reads_commits_whatever_was_changed_since() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)));
        rig.set(1, 11);
        session.commit().expect("it read one state");
    });
}

#[test]
fn a_session_that_only_reads_sees_one_state_whatever_happens() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)));
        rig.set(1, 11);
        rig.db.run(|tx| tx.delete(&rig.items, key![2])).expect("a delete");
        rig.db.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9])).expect("an insert");
        rig.db.run(|tx| tx.update(&rig.items, key![4], &[("tag", 1.into())])).expect("an update");
        let all = vec![(1, 10), (2, 20), (3, 30), (4, 40)];
        assert_eq!(rig.scan(&mut session, Range::all()), Ok(all.clone()), "{}", rig.protocol);
        assert_eq!(rig.scan(&mut session, Range::all().reverse().limit(1)), Ok(vec![(4, 40)]));
        assert_eq!(rig.scan_tags(&mut session, Range::prefix(key![1])), Ok(vec![(1, 10), (3, 30)]));
        assert_eq!(session.run(|tx| tx.exists(&rig.items, key![9])), Ok(false));
        assert_eq!(rig.read(&mut session, 2), Ok(Some(20)));
        session.commit().expect("it only read");
        session.begin().expect("a transaction");
        let now = vec![(1, 11), (3, 30), (4, 40), (9, 90)];
        assert_eq!(rig.scan(&mut session, Range::all()), Ok(now), "{}: a later one sees it", rig.protocol);
    });
}

#[test]
fn the_first_write_compares_what_was_read_with_what_is_there_now() {
    type Change = fn(&Rig);
    let changes: [(Change, bool); 6] = [
        (|rig| rig.set(1, 11), true),
        (|rig| drop(rig.db.run(|tx| tx.delete(&rig.items, key![3]))), true),
        (|rig| rig.db.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("a row"), true),
        (|rig| rig.db.run(|tx| tx.update(&rig.items, key![2], &[("tag", 1.into())])).expect("a row"), true),
        (|rig| rig.db.run(|tx| tx.insert(&rig.items, row![100, 50, 7, 5])).expect("a row"), false),
        (|_| {}, false),
    ];
    under_every_protocol(|rig| {
        for (number, (change, is_conflict)) in changes.iter().enumerate() {
            let rig = Rig::again(rig.protocol);
            let mut session = rig.begin();
            assert_eq!(rig.scan(&mut session, Range::all().to(key![50])).expect("a scan").len(), 4);
            assert_eq!(rig.scan_tags(&mut session, Range::prefix(key![1])).expect("a scan").len(), 2);
            change(&rig);
            let written = rig.write(&mut session, 4, 41);
            assert_eq!(written.is_err(), *is_conflict, "{}, change {number}: {written:?}", rig.protocol);
            let committed = session.commit();
            assert_eq!(committed.is_err(), *is_conflict, "{}, change {number}", rig.protocol);
            assert_eq!(rig.value(4), Some(if *is_conflict { 40 } else { 41 }));
        }
    });
}

/// Each thread raises its own row only if it has seen all rows at zero, and lowers it again: two that are raised are a
/// write skew between ranges that were read from snapshots.
#[test]
fn two_sessions_do_not_both_write_what_each_excludes_by_the_range_it_has_read() {
    const THREADS: i64 = 4;
    under_every_protocol(|rig| {
        rig.db.run(|tx| (5..200).try_for_each(|id| tx.insert(&rig.items, row![id, 0, 0, id]))).expect("rows");
        (1..=THREADS).for_each(|id| rig.set(id, 0));
        thread::scope(|scope| {
            for own in 1..=THREADS {
                scope.spawn(move || {
                    for _ in 0..150 {
                        let mut session = rig.begin();
                        let seen = rig.scan(&mut session, Range::all()).expect("a reader never fails");
                        let raised: Vec<_> = seen.iter().filter(|row| row.1 > 0).map(|row| row.0).collect();
                        assert!(raised.len() <= 1, "{}: {raised:?} are raised together", rig.protocol);
                        let changed = match raised.first() {
                            None => rig.write(&mut session, own, 1),
                            Some(&raised) if raised == own => rig.write(&mut session, own, 0),
                            Some(_) => Ok(()),
                        };
                        let ended = changed.and_then(|()| session.commit());
                        assert!(ended.is_ok() || ended.is_err_and(|why| why.is_retryable()));
                    }
                });
            }
        });
    });
}

#[test]
fn an_access_that_reads_nothing_opens_no_snapshot() {
    under_every_protocol(|rig| {
        let opened = || rig.db.statistics().snapshots_opened;
        let before = opened();
        let mut session = rig.begin();
        assert_eq!(session.run(|_| Ok(7)), Ok(7), "{}", rig.protocol);
        assert_eq!(opened(), before, "{}", rig.protocol);
        rig.set(1, 11);
        // The first read opens it, after that write.
        assert_eq!(rig.read(&mut session, 1), Ok(Some(11)), "{}", rig.protocol);
        rig.set(1, 12);
        assert_eq!(session.run(|_| Ok(7)), Ok(7), "{}", rig.protocol);
        assert_eq!(rig.read(&mut session, 1), Ok(Some(11)), "{}", rig.protocol);
        assert_eq!(session.commit(), Ok(()), "{}", rig.protocol);
    });
}

#[test]
fn a_session_goes_on_with_what_is_there_now_when_its_snapshot_was_given_up() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        let options = options.memory(|memory| memory.snapshot_limit(4_096));
        let rig = Rig::of(Database::in_memory_with(options).expect("options"), protocol);
        let [mut unchanged, mut changed] = [rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut unchanged, 1), Ok(Some(10)));
        assert_eq!(rig.read(&mut changed, 2), Ok(Some(20)));
        rig.set(2, 21);
        // Each snapshot is of a state of its own, and needs a version of each row: too many.
        let mut others = Vec::new();
        while rig.db.statistics().snapshots_failed < 1 + others.len() as u64 / 2 {
            let mut other = rig.begin();
            assert!(rig.read(&mut other, 3).is_ok());
            rig.set(3, others.len() as i64);
            rig.set(4, others.len() as i64);
            others.push(other);
            assert!(others.len() < 10_000, "{protocol}: no entry is freed");
        }
        assert_eq!(rig.read(&mut unchanged, 1), Ok(Some(10)), "{protocol}");
        assert_eq!(
            rig.read(&mut changed, 1),
            Err(Error::Conflict),
            "{protocol}: what it has read has changed"
        );
    }
}

#[test]
fn two_rows_that_are_always_changed_together_are_never_seen_apart() {
    under_every_protocol(|rig| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    rig.db
                        .run(|tx| {
                            tx.update(&rig.items, key![1], &[("value", number.into())])?;
                            tx.update(&rig.items, key![2], &[("value", (-number).into())])
                        })
                        .expect("an update");
                }
            });
            let mut session = rig.db.session().expect("a session");
            let (mut whole, mut conflicts) = (0, 0);
            while whole < 20 && conflicts < 20_000 {
                session.begin().expect("a transaction");
                rig.write(&mut session, 3, 1).expect("an update");
                let sum = rig.read(&mut session, 1).and_then(|one| Ok((one, rig.read(&mut session, 2)?)));
                match sum {
                    Ok((Some(one), Some(other))) if one + other == 0 => whole += 1,
                    Ok((Some(10), Some(20))) => {}
                    Ok(seen) => panic!("{}: {seen:?} are of two states", rig.protocol),
                    Err(Error::Conflict) => conflicts += 1,
                    Err(error) => panic!("{error}"),
                }
                session.rollback().expect("a rollback");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn write_skew_between_two_sessions_fails_one_of_them() {
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        for session in [&mut first, &mut second] {
            let sum = session.run(|tx| Ok([value(tx, &rig.items, 1)?, value(tx, &rig.items, 2)?]));
            assert_eq!(sum, Ok([Some(10), Some(20)]));
        }
        rig.write(&mut first, 1, -5).expect("an update");
        rig.write(&mut second, 2, -5).expect("an update");
        let committed = [first.commit(), second.commit()];
        assert_eq!(committed.iter().filter(|one| one.is_ok()).count(), 1, "{}: {committed:?}", rig.protocol);
    });
}

#[test]
fn a_phantom_fails_who_has_read_the_range_and_not_who_has_read_another() {
    under_every_protocol(|rig| {
        let [mut inside, mut outside] = [rig.begin(), rig.begin()];
        assert_eq!(rig.scan(&mut inside, Range::from(key![3])).expect("a scan").len(), 2);
        assert_eq!(rig.scan(&mut outside, Range::all().to(key![3])).expect("a scan").len(), 2);
        rig.db.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9])).expect("an insert");
        rig.write(&mut inside, 1, 11).expect_err("it may see something newer");
        rig.write(&mut outside, 2, 21).expect("an update");
        assert_eq!(inside.commit(), Err(Error::Conflict), "{}", rig.protocol);
        assert_eq!(outside.commit(), Ok(()), "{}", rig.protocol);
    });
}

#[test]
fn a_limited_scan_is_a_read_of_what_it_came_to() {
    under_every_protocol(|rig| {
        let [mut first, mut last] = [rig.begin(), rig.begin()];
        let two = rig.scan(&mut first, Range::all().limit(2)).expect("a scan");
        assert_eq!(two, [(1, 10), (2, 20)]);
        let two = rig.scan(&mut last, Range::all().reverse().limit(2)).expect("a scan");
        assert_eq!(two, [(4, 40), (3, 30)]);
        rig.db.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9])).expect("an insert");
        rig.write(&mut first, 1, 11).expect("an update");
        assert_eq!(first.commit(), Ok(()), "{}: it never came there", rig.protocol);
        assert!(rig.write(&mut last, 4, 41).and_then(|()| last.commit()).is_err(), "{}", rig.protocol);
    });
}

#[test]
fn a_phantom_in_an_index_is_noticed() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.scan_tags(&mut session, Range::prefix(key![1])).expect("a scan").len(), 2);
        rig.db.run(|tx| tx.update(&rig.items, key![2], &[("tag", 1.into())])).expect("an update");
        rig.write(&mut session, 4, 41).and_then(|()| session.commit()).expect_err("a phantom");
        assert_eq!(rig.value(4), Some(40), "{}", rig.protocol);
    });
}

#[test]
fn absence_is_a_read_and_so_is_existence() {
    under_every_protocol(|rig| {
        let [mut absent, mut present] = [rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut absent, 9), Ok(None));
        assert_eq!(present.run(|tx| tx.exists(&rig.items, key![3])), Ok(true));
        rig.db.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9])).expect("an insert");
        rig.set(3, 31);
        assert!(rig.write(&mut absent, 1, 11).and_then(|()| absent.commit()).is_err(), "{}", rig.protocol);
        rig.write(&mut present, 2, 21).expect("an update");
        assert_eq!(present.commit(), Ok(()), "{}: it is still there", rig.protocol);
        let mut session = rig.begin();
        assert_eq!(session.run(|tx| tx.exists(&rig.items, key![3])), Ok(true));
        rig.db.run(|tx| tx.delete(&rig.items, key![3])).expect("a delete");
        assert!(rig.write(&mut session, 1, 12).and_then(|()| session.commit()).is_err(), "{}", rig.protocol);
    });
}

#[test]
fn the_reader_of_a_later_state_does_not_see_an_earlier_one() {
    // The read-only anomaly: a batch is closed, a late receipt is entered into it, and a report in between sees it
    // closed without the receipt. One of the three must fail.
    under_every_protocol(|rig| {
        let mut receipt = rig.begin();
        assert_eq!(rig.read(&mut receipt, 1), Ok(Some(10)), "the open batch");
        rig.set(1, 11);
        let mut report = rig.begin();
        assert_eq!(rig.read(&mut report, 1), Ok(Some(11)));
        assert_eq!(rig.scan(&mut report, Range::from(key![100])), Ok(vec![]), "no receipt of batch 10");
        report.commit().expect("a report");
        let entered =
            receipt.run(|tx| tx.insert(&rig.items, row![110, 10, 0, 110])).and_then(|()| receipt.commit());
        assert_eq!(entered, Err(Error::Conflict), "{}", rig.protocol);
    });
}

#[test]
fn a_row_that_somebody_else_has_put_in_meanwhile_fails_the_insert() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9])).expect("an insert");
        rig.db.run(|tx| tx.insert(&rig.items, row![9, 99, 1, 9])).expect("closures ignore reservations");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        session.begin().expect("a transaction");
        let again = session.run(|tx| tx.insert(&rig.items, row![9, 90, 1, 9]));
        assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
        rig.db.check().expect("consistent");
    });
}

#[test]
fn a_table_that_was_changed_fails_who_has_used_it_and_nobody_else() {
    under_every_protocol(|rig| {
        let definition = TableDefinition::new("other").column("id", DataType::Int64).primary_key(["id"]);
        let other = rig.db.create_table(definition).expect("a table");
        let [mut reader, mut writer, mut elsewhere] = [rig.begin(), rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut reader, 1), Ok(Some(10)));
        rig.write(&mut writer, 1, 11).expect("an update");
        assert_eq!(elsewhere.run(|tx| tx.exists(&other, key![1])), Ok(false));
        rig.db
            .change_table("item", TableChange::new().add_column("more", DataType::Int64, 7))
            .expect("a change");
        assert_eq!(rig.write(&mut reader, 2, 21), Err(Error::Conflict), "{}", rig.protocol);
        assert_eq!(writer.commit(), Err(Error::Conflict), "{}", rig.protocol);
        let more = elsewhere.run(|tx| tx.get(&rig.items, key![1])?.map(|row| row.int("more")).transpose());
        assert_eq!(more, Ok(Some(7)), "{}: newer than its snapshot", rig.protocol);
        rig.write(&mut elsewhere, 1, 12).expect("an update");
        elsewhere.commit().expect("a commit");
        assert_eq!(rig.value(1), Some(12));
        let mut session = rig.begin();
        session.run(|tx| tx.insert(&other, row![1])).expect("an insert");
        rig.db.drop_table("other").expect("a change");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        session.begin().expect("a transaction");
        let gone = session.run(|tx| tx.insert(&other, row![1]));
        assert!(matches!(gone, Err(Error::TableDropped { .. })), "{gone:?}");
    });
}

#[test]
fn sessions_share_a_snapshot_as_long_as_one_of_them_reads_from_it() {
    under_every_protocol(|rig| {
        let mut first = rig.begin();
        let exported = first.export_snapshot().expect("an open transaction").expect("it has not written");
        rig.set(1, 11);
        let mut second = rig.begin();
        assert_eq!(second.import_snapshot(&exported), Ok(true));
        first.commit().expect("it has read nothing");
        drop(exported);
        rig.set(2, 21);
        assert_eq!(rig.read(&mut second, 1), Ok(Some(10)), "{}", rig.protocol);
        assert_eq!(rig.read(&mut second, 2), Ok(Some(20)));
        second.commit().expect("it has only read");
        assert_eq!(second.export_snapshot().expect_err("no transaction"), Error::NoTransaction);
    });
}

#[test]
fn a_snapshot_comes_before_the_first_access_and_its_reads_are_validated() {
    under_every_protocol(|rig| {
        let mut first = rig.begin();
        let exported = first.export_snapshot().expect("an open transaction").expect("it has not written");
        let mut second = rig.begin();
        assert_eq!(rig.read(&mut second, 1), Ok(Some(10)));
        assert_eq!(second.import_snapshot(&exported), Ok(false), "it has read");
        let mut third = rig.begin();
        rig.write(&mut third, 3, 31).expect("an update");
        assert_eq!(third.import_snapshot(&exported), Ok(false), "it has written");
        assert!(third.export_snapshot().expect("open").is_none(), "it has written");
        third.rollback().expect("rolled back");
        let mut fourth = rig.begin();
        assert_eq!(fourth.import_snapshot(&exported), Ok(true));
        assert_eq!(rig.read(&mut fourth, 1), Ok(Some(10)));
        rig.set(1, 11);
        rig.write(&mut fourth, 2, 21)
            .and_then(|_| fourth.commit())
            .expect_err("what it has read was changed");
        let other = Database::in_memory().expect("another database");
        let mut foreign = other.session().expect("a session");
        foreign.begin().expect("begun");
        assert_eq!(foreign.import_snapshot(&exported), Ok(false));
    });
}

#[test]
fn a_shared_snapshot_is_never_left_silently() {
    under_every_protocol(|rig| {
        let mut first = rig.begin();
        let exported = first.export_snapshot().expect("an open transaction").expect("it has not written");
        let mut second = rig.begin();
        assert_eq!(second.import_snapshot(&exported), Ok(true));
        let change = TableChange::new().add_column("more", DataType::Int64, 7);
        rig.db.change_table("item", change).expect("a change");
        for session in [&mut first, &mut second] {
            assert_eq!(rig.read(session, 1), Err(Error::Conflict), "{}", rig.protocol);
            session.rollback().expect("rolled back");
        }
        let mut writer = rig.begin();
        assert!(writer.export_snapshot().expect("an open transaction").is_some());
        rig.write(&mut writer, 1, 12).expect("what writes leaves it");
        writer.commit().expect("nothing has changed");
    });
}
