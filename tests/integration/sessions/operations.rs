//! Operations that nothing reads: they cause no conflicts, and fail where they are made if they would fail now.

use std::thread;

use heddledb::{Error, SplitOperation, key, row};

use crate::sessions::rig::under_every_protocol;

#[test]
fn sessions_that_add_to_one_counter_never_conflict() {
    const SESSIONS: i64 = 64;
    under_every_protocol(|rig| {
        let mut sessions: Vec<_> = (0..SESSIONS).map(|_| rig.begin()).collect();
        for session in &mut sessions {
            session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("an addition");
        }
        thread::scope(|scope| {
            for part in sessions.chunks_mut(16) {
                scope.spawn(move || {
                    part.iter_mut().for_each(|session| session.commit().expect("no conflict"))
                });
            }
        });
        assert_eq!(rig.value(1), Some(10 + SESSIONS), "{}", rig.protocol);
    });
}

#[test]
fn an_operation_that_was_read_conflicts_like_any_read() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("an addition");
        rig.set(1, 100);
        assert_eq!(
            rig.read(&mut session, 1),
            Ok(Some(101)),
            "{}: it is added to what is there",
            rig.protocol
        );
        rig.set(1, 200);
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        assert_eq!(rig.value(1), Some(200));
    });
}

#[test]
fn what_an_operation_refuses_now_is_reported_now() {
    under_every_protocol(|rig| {
        rig.set(1, i64::MAX - 1);
        let mut session = rig.begin();
        session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("it fits");
        let second = session.run(|tx| tx.add(&rig.items, key![1], "value", 1));
        assert!(matches!(second, Err(Error::Overflow { .. })), "{}: {second:?}", rig.protocol);
        let missing = session.run(|tx| tx.add(&rig.items, key![99], "value", 1));
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        session.commit().expect("the first one fits");
        assert_eq!(rig.value(1), Some(i64::MAX));
    });
}

#[test]
fn the_access_that_met_an_overflow_has_read_the_row() {
    under_every_protocol(|rig| {
        rig.set(1, i64::MAX);
        let mut session = rig.begin();
        let refused = session.run(|tx| tx.add(&rig.items, key![1], "value", 1));
        assert!(matches!(refused, Err(Error::Overflow { .. })), "{refused:?}");
        rig.write(&mut session, 2, 21).expect("an update");
        rig.set(1, 0);
        assert_eq!(session.commit(), Err(Error::Conflict), "{}: it would succeed by now", rig.protocol);
    });
}

#[test]
fn what_an_operation_refuses_only_at_the_commit_is_a_conflict_and_the_retry_is_reported() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("it fits");
        rig.set(1, i64::MAX);
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        session.begin().expect("a transaction");
        let again = session.run(|tx| tx.add(&rig.items, key![1], "value", 1));
        assert!(matches!(again, Err(Error::Overflow { .. })), "{again:?}");
    });
}

#[test]
fn a_write_that_reads_nothing_overwrites_what_others_have_written() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        rig.set(1, 12);
        session.commit().expect("it read only that there is a row");
        assert_eq!(rig.value(1), Some(11), "{}", rig.protocol);
        rig.write(&mut session, 1, 13).expect("an update");
        session.begin().expect("a transaction");
        rig.write(&mut session, 2, 21).expect("an update");
        rig.db.run(|tx| tx.delete(&rig.items, key![2])).expect("a delete");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}: the row is gone", rig.protocol);
    });
}

#[test]
fn operations_on_split_columns_stay_operations() {
    under_every_protocol(|rig| {
        rig.db.split(&rig.items, key![1], "value", SplitOperation::ADD).expect("a label");
        let mut added = 0;
        for round in 0..50 {
            let mut session = rig.begin();
            session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("an addition");
            rig.db.run(|tx| tx.add(&rig.items, key![1], "value", 100)).expect("an addition");
            if round % 10 == 9 {
                let seen = rig.read(&mut session, 1).expect("a read").expect("a row");
                assert_eq!(seen, 10 + added + 101, "{}", rig.protocol);
            }
            session.commit().expect("no conflict");
            added += 101;
        }
        assert_eq!(rig.value(1), Some(10 + added), "{}", rig.protocol);
    });
}

#[test]
fn a_row_read_before_a_split_phase_is_compared_after_it() {
    under_every_protocol(|rig| {
        rig.db.split(&rig.items, key![1], "value", SplitOperation::ADD).expect("a label");
        let (mut conflicts, mut commits) = (0, 0);
        for _ in 0..200 {
            let mut session = rig.begin();
            let before = rig.read(&mut session, 1).expect("a read").expect("a row");
            let is_changed = commits % 2 == 0;
            if is_changed {
                rig.db.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("an addition");
            }
            rig.db
                .run(|tx| tx.insert(&rig.items, row![1_000 + commits + conflicts, before, 0, None::<i64>]))
                .expect("a row");
            let written = rig.write(&mut session, 2, before).and_then(|()| session.commit());
            assert_eq!(written.is_err(), is_changed, "{}: {written:?}", rig.protocol);
            conflicts += i64::from(written.is_err());
            commits += i64::from(written.is_ok()) + i64::from(is_changed);
        }
    });
}
