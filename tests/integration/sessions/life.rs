//! A session's transactions: their beginning, their end, and what may be done when.

use std::future::Future;
use std::sync::mpsc::channel;
use std::thread;

use heddledb::{Canceler, Database, Error, Options, ProtocolKind, Session, SessionState, key, row};

use crate::sessions::rig::{Rig, under_every_protocol, value};

#[test]
fn a_transaction_is_begun_once_and_ended_once() {
    under_every_protocol(|rig| {
        let mut session = rig.db.session().expect("a session");
        assert_eq!(session.state(), SessionState::Idle);
        assert_eq!(session.commit(), Err(Error::NoTransaction));
        assert_eq!(session.rollback(), Err(Error::NoTransaction));
        assert_eq!(session.savepoint(), Err(Error::NoTransaction));
        for _ in 0..2 {
            session.begin().expect("a transaction");
            assert_eq!(session.begin(), Err(Error::TransactionOpen));
            assert_eq!(session.state(), SessionState::Open);
            session.commit().expect("there is nothing to commit");
            assert_eq!(session.state(), SessionState::Idle);
        }
    });
}

#[test]
fn an_access_without_a_transaction_is_one_by_itself() {
    under_every_protocol(|rig| {
        let mut session = rig.db.session().expect("a session");
        rig.write(&mut session, 1, 11).expect("an update");
        rig.increase(&mut session, 1).expect("an update");
        assert_eq!((rig.value(1), session.state()), (Some(12), SessionState::Idle));
        let failed = session.run(|tx| {
            tx.add(&rig.items, key![1], "value", 5)?;
            tx.insert(&rig.items, row![1, 0, 0, 0])
        });
        assert!(matches!(failed, Err(Error::DuplicateKey { .. })));
        assert_eq!(rig.value(1), Some(12), "{}", rig.protocol);
    });
}

#[test]
fn what_is_not_committed_is_gone_with_the_session() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        drop(session);
        let mut other = rig.begin();
        other.run(|tx| tx.insert(&rig.items, row![5, 51, 1, 5])).expect("its reservation has gone, too");
        other.commit().expect("a commit");
        assert_eq!(rig.value(5), Some(51));
    });
}

#[test]
fn a_session_goes_from_thread_to_thread() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        for id in 1..=4 {
            session = thread::scope(|scope| {
                let step = scope.spawn(move || {
                    rig.increase(&mut session, id).expect("an update");
                    session
                });
                step.join().expect("no panic")
            });
        }
        session.commit().expect("a commit");
        assert_eq!(rig.all(), [(1, 11), (2, 21), (3, 31), (4, 41)], "{}", rig.protocol);
    });
}

#[test]
fn inside_a_transaction_a_session_does_nothing() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        let nested = rig.db.run(|_| Ok((session.run(|_| Ok(())), rig.db.session().map(drop))));
        let Ok((access, opening)) = nested else { panic!("{nested:?}") };
        assert!(matches!(access, Err(Error::Nested { .. })) && matches!(opening, Err(Error::Nested { .. })));
        let nested = session.run(|_| Ok(rig.db.run(|_| Ok(()))));
        assert!(matches!(nested, Ok(Err(Error::Nested { .. }))), "{nested:?}");
        assert_eq!(session.state(), SessionState::Open);
    });
}

#[test]
fn a_session_of_a_closed_database_says_so() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        rig.db.clone().close().expect("closed");
        assert_eq!(rig.read(&mut session, 1), Err(Error::Closed));
        assert_eq!(session.commit(), Err(Error::Closed));
        assert!(rig.db.session().is_err());
    });
}

#[test]
fn a_canceled_transaction_can_only_be_rolled_back() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        let canceler = session.canceler();
        rig.write(&mut session, 1, 11).expect("an update");
        let savepoint = session.savepoint().expect("a savepoint");
        canceler.cancel();
        assert_eq!(session.state(), SessionState::Aborted);
        assert_eq!(rig.read(&mut session, 2), Err(Error::Canceled));
        assert_eq!(session.rollback_to(&savepoint), Err(Error::Canceled));
        assert_eq!(session.commit(), Err(Error::Canceled));
        assert_eq!((session.state(), rig.value(1)), (SessionState::Idle, Some(10)));
        canceler.cancel();
        session.begin().expect("a transaction");
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)), "what was canceled is over");
    });
}

#[test]
fn a_long_access_ends_when_it_is_canceled() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        let canceler = session.canceler();
        let (begun, has_begun) = channel();
        let ended = thread::scope(|scope| {
            scope.spawn(move || {
                has_begun.recv().expect("it begins");
                canceler.cancel();
            });
            session.run(|tx| {
                loop {
                    value(tx, &rig.items, 1)?;
                    let _ = begun.send(());
                }
                #[allow(unreachable_code)]
                Ok(())
            })
        });
        assert_eq!(ended, Err(Error::Canceled), "{}", rig.protocol);
    });
}

/// By its types: a server keeps sessions and their futures on any of its threads.
#[test]
fn sessions_and_their_futures_are_sent_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    under_every_protocol(|rig| {
        let mut session: Session = rig.begin();
        let canceler: Canceler = session.canceler();
        is_send(&session);
        is_shared(&canceler);
        let access = session.run_async(|tx| value(tx, &rig.items, 1));
        is_send(&access);
        drop(access);
        let commit = session.commit_async();
        is_send(&commit);
        fn ends<F: Future<Output = heddledb::Result<()>>>(_: &F) {}
        ends(&commit);
        drop(commit);
        fn goes_on_without_its_session(_: impl Send + 'static) {}
        goes_on_without_its_session(session.commit_early());
    });
}

#[test]
fn an_early_commit_is_seen_at_once_and_completes_with_its_group() {
    for &protocol in ProtocolKind::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options::default().protocol(protocol).workers(2);
        let db = Database::open(directory.path().join("db"), options).expect("opened");
        let rig = &Rig::of(db, protocol);
        let mut session = rig.begin();
        session.run(|tx| tx.add(&rig.items, key![1], "value", 5)).expect("added");
        let pending = session.commit_early().expect("committed");
        assert_eq!(session.state(), SessionState::Idle);
        assert!(pending.epoch() > 0, "{}", rig.protocol);
        assert_eq!(rig.value(1), Some(15), "{}", rig.protocol);
        session.begin().expect("the session goes on");
        let epoch = pending.epoch();
        pending.wait().expect("durable");
        assert!(rig.db.durable_epoch() >= epoch, "{}", rig.protocol);
        // A reader has nothing to wait for.
        session.run(|tx| value(tx, &rig.items, 1)).expect("read");
        assert_eq!(session.commit_early().expect("committed").epoch(), 0);
        assert_eq!(session.commit_early().map(|_| ()), Err(Error::NoTransaction));
    }
}

#[test]
fn an_early_commit_that_conflicts_fails_at_once() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(rig.read(&mut session, 1), Ok(Some(10)));
        rig.set(1, 11);
        let ended = rig.write(&mut session, 2, 30).and_then(|()| session.commit_early().map(|_| ()));
        assert_eq!(ended, Err(Error::Conflict), "{}", rig.protocol);
    });
}
