//! Tests of a session's writes: it sees them itself, and no other session does before the commit.

use heddledb::{Error, Range, SessionState, fail, key, row};

use crate::sessions::rig::{under_every_protocol, value};

#[test]
fn own_writes_are_seen_by_gets_and_by_nobody_else() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        session.run(|tx| tx.delete(&rig.items, key![2])).expect("a delete");
        let seen = [1, 2, 5].map(|id| rig.read(&mut session, id).expect("a read"));
        assert_eq!(seen, [Some(11), None, Some(50)], "{}", rig.protocol);
        assert_eq!([1, 2, 5].map(|id| rig.value(id)), [Some(10), Some(20), None]);
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 11), (3, 30), (4, 40), (5, 50)]);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn own_writes_are_seen_by_scans_in_both_directions_and_by_indexes() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.insert(&rig.items, row![6, 60, 1, 6])).expect("an insert");
        session.run(|tx| tx.update(&rig.items, key![4], &[("tag", 1.into())])).expect("an update");
        session.run(|tx| tx.delete(&rig.items, key![3])).expect("a delete");
        rig.write(&mut session, 2, 22).expect("an update");
        let all = [(1, 10), (2, 22), (4, 40), (6, 60)];
        assert_eq!(rig.scan(&mut session, Range::all()).expect("a scan"), all);
        let backward = rig.scan(&mut session, Range::from(key![2]).reverse().limit(2)).expect("a scan");
        assert_eq!(backward, [(6, 60), (4, 40)]);
        let ones = rig.scan_tags(&mut session, Range::prefix(key![1])).expect("a scan");
        assert_eq!(ones, [(1, 10), (4, 40), (6, 60)], "{}", rig.protocol);
        assert_eq!(rig.scan_tags(&mut session, Range::prefix(key![0])).expect("a scan"), [(2, 22)]);
        session.rollback().expect("a rollback");
        assert_eq!(rig.all(), [(1, 10), (2, 20), (3, 30), (4, 40)]);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn a_row_may_come_go_and_come_again_in_one_session() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        for round in 0..3 {
            session.run(|tx| tx.insert(&rig.items, row![7, round, 1, 7])).expect("an insert");
            assert_eq!(rig.read(&mut session, 7), Ok(Some(round)));
            assert_eq!(session.run(|tx| tx.delete(&rig.items, key![7])), Ok(true));
            assert_eq!(session.run(|tx| tx.delete(&rig.items, key![1])), Ok(round == 0));
            assert_eq!(rig.read(&mut session, 7), Ok(None));
        }
        session.run(|tx| tx.insert(&rig.items, row![1, 100, 1, 1])).expect("an insert");
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 100), (2, 20), (3, 30), (4, 40)], "{}", rig.protocol);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn a_key_that_is_taken_is_refused_at_the_insert_whoever_has_it() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        for values in [row![1, 0, 0, 90], row![5, 0, 0, 90], row![9, 0, 0, 1], row![9, 0, 0, 5]] {
            let refused = session.run(|tx| tx.insert(&rig.items, values));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
            assert_eq!(session.state(), SessionState::Open);
        }
        session.run(|tx| tx.delete(&rig.items, key![1])).expect("a delete");
        session.run(|tx| tx.insert(&rig.items, row![9, 90, 0, 1])).expect("the code is free now");
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(2, 20), (3, 30), (4, 40), (5, 50), (9, 90)], "{}", rig.protocol);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn an_access_that_fails_leaves_no_trace_and_the_transaction_goes_on() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        let failed: heddledb::Result<()> = session.run(|tx| {
            tx.update(&rig.items, key![1], &[("value", 99.into())])?;
            tx.insert(&rig.items, row![8, 80, 0, 8])?;
            assert_eq!(value(tx, &rig.items, 1)?, Some(99));
            Err(fail("its own"))
        });
        assert_eq!(failed, Err(fail("its own")));
        let panicked: heddledb::Result<()> = session.run(|tx| {
            tx.delete(&rig.items, key![1])?;
            std::panic::resume_unwind(Box::new("its own"))
        });
        assert!(matches!(panicked, Err(Error::Panicked { .. })), "{panicked:?}");
        assert_eq!(rig.read(&mut session, 1), Ok(Some(11)));
        assert_eq!(rig.read(&mut session, 8), Ok(None));
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 11), (2, 20), (3, 30), (4, 40)], "{}", rig.protocol);
    });
}

#[test]
fn savepoints_inside_an_access_do_not_touch_what_the_session_had_written_before() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        let seen = session.run(|tx| {
            let before = tx.savepoint();
            assert_eq!(value(tx, &rig.items, 5)?, Some(50));
            tx.update(&rig.items, key![5], &[("value", 55.into())])?;
            tx.update(&rig.items, key![1], &[("value", 12.into())])?;
            tx.rollback_to(&before);
            let mut seen = vec![];
            for row in tx.scan(&rig.items, Range::all())? {
                seen.push(row?.int("value")?);
                // What the scan has brought in is taken back, and brought in again.
                tx.rollback_to(&before);
            }
            tx.add(&rig.items, key![5], "value", 1)?;
            Ok(seen)
        });
        assert_eq!(seen, Ok(vec![11, 20, 30, 40, 50]), "{}", rig.protocol);
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 11), (2, 20), (3, 30), (4, 40), (5, 51)], "{}", rig.protocol);
    });
}

#[test]
fn a_session_goes_back_to_its_savepoints_and_not_to_those_that_are_gone() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        let start = session.savepoint().expect("a savepoint");
        rig.write(&mut session, 1, 11).expect("an update");
        let middle = session.savepoint().expect("a savepoint");
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        let last = session.savepoint().expect("a savepoint");
        rig.write(&mut session, 1, 12).expect("an update");
        session.rollback_to(&middle).expect("it is there");
        assert_eq!((rig.read(&mut session, 1), rig.read(&mut session, 5)), (Ok(Some(11)), Ok(None)));
        assert_eq!(session.rollback_to(&last), Err(Error::UnknownSavepoint));
        session.run(|tx| tx.insert(&rig.items, row![5, 51, 1, 5])).expect("the key is free again");
        session.rollback_to(&middle).expect("it is still there");
        session.release(&middle).expect("it is there");
        assert_eq!(session.rollback_to(&middle), Err(Error::UnknownSavepoint));
        session.rollback_to(&start).expect("it is there");
        assert_eq!(rig.scan(&mut session, Range::all()).expect("a scan").len(), 4);
        rig.increase(&mut session, 4).expect("an update");
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 10), (2, 20), (3, 30), (4, 41)], "{}", rig.protocol);
        assert_eq!(session.rollback_to(&start), Err(Error::NoTransaction));
    });
}

#[test]
fn many_rows_in_one_session_are_one_transaction() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        for id in 100..1_100 {
            session.run(|tx| tx.insert(&rig.items, row![id, id, id % 7, id])).expect("an insert");
        }
        assert_eq!(rig.all().len(), 4);
        assert_eq!(rig.scan(&mut session, Range::from(key![100])).expect("a scan").len(), 1_000);
        session.commit().expect("a commit");
        assert_eq!(rig.all().len(), 1_004);
        rig.db.check().expect("consistent");
    });
}
