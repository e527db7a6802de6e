//! Reservations: sessions that want the same rows queue instead of failing, and deadlocks are resolved.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use heddledb::{Error, Session, key, row};

use crate::sessions::rig::{Rig, under_every_protocol};

fn reserve(rig: &Rig, session: &mut Session, id: i64) -> heddledb::Result<Option<i64>> {
    session.run(|tx| tx.get_for_update(&rig.items, key![id])?.map(|row| row.int("value")).transpose())
}

fn store(rig: &Rig, session: &mut Session, id: i64, value: i64) -> heddledb::Result<()> {
    session.run(|tx| tx.update(&rig.items, key![id], &[("value", value.into())]))
}

#[test]
fn sessions_that_read_one_row_for_update_succeed_each_at_the_first_attempt() {
    const SESSIONS: i64 = 64;
    under_every_protocol(|rig| {
        thread::scope(|scope| {
            for _ in 0..SESSIONS {
                scope.spawn(|| {
                    let mut session = rig.begin();
                    let value = reserve(rig, &mut session, 1).expect("a read").expect("a row");
                    thread::yield_now();
                    store(rig, &mut session, 1, value + 1).expect("an update");
                    session.commit().expect("its first attempt");
                });
            }
        });
        assert_eq!(rig.value(1), Some(10 + SESSIONS), "{}", rig.protocol);
    });
}

/// Tests pgbench's transactions: an addition, then a read of its result.
#[test]
fn sessions_that_read_a_row_to_which_they_have_added_queue_for_it() {
    const EACH: i64 = 10;
    under_every_protocol(|rig| {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let mut session = rig.begin();
                        session.run(|tx| tx.add(&rig.items, key![1], "value", 1)).expect("an addition");
                        thread::yield_now();
                        rig.read(&mut session, 1).expect("it waits, and reads what is there then");
                        session.run(|tx| tx.add(&rig.items, key![2], "value", 1)).expect("an addition");
                        session.commit().expect("its first attempt");
                    }
                });
            }
        });
        assert_eq!(rig.value(1), Some(10 + 8 * EACH), "{}", rig.protocol);
        assert_eq!(rig.value(2), Some(20 + 8 * EACH), "{}", rig.protocol);
    });
}

#[test]
fn an_update_after_a_read_in_one_access_queues_too_in_transactions_and_alone() {
    const EACH: i64 = 8;
    under_every_protocol(|rig| {
        thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    let mut session = rig.db.session().expect("a session");
                    for _ in 0..EACH {
                        if number % 2 == 0 {
                            session.begin().expect("a transaction");
                        }
                        rig.increase(&mut session, 1).expect("it waits, and reads what is there then");
                        if number % 2 == 0 {
                            session.commit().expect("its first attempt");
                        }
                    }
                });
            }
        });
        assert_eq!(rig.value(1), Some(10 + 8 * EACH), "{}", rig.protocol);
    });
}

/// Runs `second` on another thread while `first` has what it wants, and `then` once it waits.
fn while_it_waits<T: Send>(
    first: &mut Session,
    second: impl FnOnce() -> T + Send,
    then: impl FnOnce(&mut Session),
) -> T {
    thread::scope(|scope| {
        let (ended, has_ended) = channel();
        let waiting = scope.spawn(move || {
            let value = second();
            let _ = ended.send(());
            value
        });
        // However long it takes to begin waiting: it cannot end.
        assert!(has_ended.recv_timeout(Duration::from_millis(30)).is_err(), "it did not wait");
        then(first);
        waiting.join().expect("no panic")
    })
}

#[test]
fn a_rival_for_an_inserted_key_waits_for_the_inserting_session() {
    under_every_protocol(|rig| {
        for commits in [true, false] {
            let id = 10 + i64::from(commits);
            for values in [row![id, 0, 0, 500], row![id + 10, 0, 0, id]] {
                let [mut first, mut second] = [rig.begin(), rig.begin()];
                first.run(|tx| tx.insert(&rig.items, row![id, 1, 1, id])).expect("an insert");
                let inserted = while_it_waits(
                    &mut first,
                    || second.run(|tx| tx.insert(&rig.items, values)),
                    |first| if commits { first.commit() } else { first.rollback() }.expect("an end"),
                );
                match inserted {
                    Ok(()) => assert!(!commits, "{}", rig.protocol),
                    Err(Error::DuplicateKey { .. }) => assert!(commits, "{}", rig.protocol),
                    Err(error) => panic!("{}: {error}", rig.protocol),
                }
                second.rollback().expect("a rollback");
                rig.db.run(|tx| tx.delete(&rig.items, key![id])).expect("a delete");
            }
        }
    });
}

#[test]
fn a_row_is_reserved_from_the_update_on_and_released_with_the_savepoint() {
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        let savepoint = first.savepoint().expect("a savepoint");
        rig.increase(&mut first, 1).expect("an update");
        let seen = while_it_waits(
            &mut first,
            || reserve(rig, &mut second, 1),
            |first| first.rollback_to(&savepoint).expect("it is there"),
        );
        assert_eq!(seen, Ok(Some(10)), "{}", rig.protocol);
    });
}

#[test]
fn what_a_failed_access_has_reserved_is_released() {
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        let failed = first.run(|tx| {
            tx.get_for_update(&rig.items, key![1])?;
            tx.insert(&rig.items, row![2, 0, 0, 0])
        });
        assert!(matches!(failed, Err(Error::DuplicateKey { .. })));
        assert_eq!(reserve(rig, &mut second, 1), Ok(Some(10)), "{}", rig.protocol);
    });
}

#[test]
fn closures_ignore_reservations() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        assert_eq!(reserve(rig, &mut session, 1), Ok(Some(10)));
        let seen =
            rig.db.run(|tx| tx.get_for_update(&rig.items, key![1])?.map(|row| row.int("value")).transpose());
        assert_eq!(seen, Ok(Some(10)));
        rig.set(1, 11);
        assert_eq!(store(rig, &mut session, 1, 12).and_then(|()| session.commit()), Err(Error::Conflict));
        assert_eq!(rig.value(1), Some(11), "{}", rig.protocol);
    });
}

#[test]
fn a_deadlock_aborts_the_youngest_and_the_others_go_on() {
    under_every_protocol(|rig| {
        let mut sessions = [rig.begin(), rig.begin(), rig.begin()];
        for (session, id) in sessions.iter_mut().zip(1..) {
            reserve(rig, session, id).expect("it is free");
        }
        let [mut first, mut second, mut third] = sessions;
        let ended: Vec<_> = thread::scope(|scope| {
            let threads = [(&mut first, 1), (&mut second, 2), (&mut third, 3)].map(|(session, id)| {
                scope.spawn(move || {
                    let seen = reserve(rig, session, id % 3 + 1);
                    if seen.is_ok() { session.commit() } else { seen.map(drop) }
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(ended, [Ok(()), Ok(()), Err(Error::Deadlock)], "{}", rig.protocol);
        assert_eq!(third.rollback(), Ok(()));
        third.begin().expect("a transaction");
        assert_eq!(reserve(rig, &mut third, 1), Ok(Some(10)), "everything is free again");
    });
}

#[test]
fn a_wait_that_is_canceled_ends_and_leaves_the_queue() {
    under_every_protocol(|rig| {
        let [mut first, mut second, mut third] = [rig.begin(), rig.begin(), rig.begin()];
        reserve(rig, &mut first, 1).expect("it is free");
        let canceler = second.canceler();
        let canceled = while_it_waits(&mut first, || reserve(rig, &mut second, 1), |_| canceler.cancel());
        assert_eq!(canceled, Err(Error::Canceled), "{}", rig.protocol);
        let seen = while_it_waits(
            &mut first,
            || reserve(rig, &mut third, 1),
            |first| first.commit().expect("nothing to commit"),
        );
        assert_eq!(seen, Ok(Some(10)), "{}", rig.protocol);
    });
}

#[test]
fn a_wait_as_a_future_blocks_no_thread_and_a_dropped_one_leaves_the_queue() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    under_every_protocol(|rig| {
        let [mut first, mut second, mut third] = [rig.begin(), rig.begin(), rig.begin()];
        reserve(rig, &mut first, 1).expect("it is free");
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut dropped = pin!(second.run_async(|tx| tx.get_for_update(&rig.items, key![1]).map(drop)));
            assert!(dropped.as_mut().poll(&mut context).is_pending());
        }
        let mut waiting =
            pin!(third.run_async(|tx| tx.get_for_update(&rig.items, key![1]).map(|row| row.is_some())));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        first.commit().expect("nothing to commit");
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(true)), "{}", rig.protocol);
        assert_eq!(second.commit(), Err(Error::Canceled), "it was abandoned midway");
    });
}

#[test]
fn an_access_by_itself_that_deadlocks_is_run_again_until_it_succeeds() {
    const EACH: i64 = 30;
    under_every_protocol(|rig| {
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let mut session = rig.db.session().expect("a session");
                    for _ in 0..EACH {
                        let pair = if number % 2 == 0 { [1, 2] } else { [2, 1] };
                        let both = session.run(|tx| {
                            for id in pair {
                                let row = tx.get_for_update(&rig.items, key![id])?;
                                let value = row.map(|row| row.int("value")).transpose()?.unwrap_or(0);
                                tx.update(&rig.items, key![id], &[("value", (value + 1).into())])?;
                            }
                            Ok(())
                        });
                        both.expect("no deadlock is reported");
                    }
                });
            }
        });
        assert_eq!(
            (rig.value(1), rig.value(2)),
            (Some(10 + 4 * EACH), Some(20 + 4 * EACH)),
            "{}",
            rig.protocol
        );
    });
}

#[test]
fn a_reserved_key_is_refused_to_a_request_that_does_not_wait() {
    under_every_protocol(|rig| {
        let ask = |session: &mut Session| session.run(|tx| tx.try_reserve(&rig.items, key![1]));
        let (mut first, mut second) = (rig.begin(), rig.begin());
        assert!(!rig.db.has_reservations());
        assert_eq!(ask(&mut first), Ok(true), "{}", rig.protocol);
        assert_eq!((ask(&mut first), ask(&mut second)), (Ok(true), Ok(false)), "{}", rig.protocol);
        let mut alone = rig.db.session().expect("a session");
        assert_eq!(ask(&mut alone), Ok(false), "{}", rig.protocol);
        assert_eq!(
            rig.db.run(|tx| tx.try_reserve(&rig.items, key![1])),
            Ok(true),
            "nothing is reserved there"
        );
        assert!(rig.db.has_reservations());
        first.rollback().expect("it is open");
        assert_eq!(ask(&mut alone), Ok(true), "{}", rig.protocol);
        assert!(!rig.db.has_reservations(), "what is reserved alone is released at once");
        assert_eq!(ask(&mut second), Ok(true), "{}", rig.protocol);
        second.commit().expect("nothing was read");
    });
}

#[test]
fn what_a_search_passes_by_may_change_and_what_it_finds_may_not() {
    under_every_protocol(|rig| {
        let search = |session: &mut Session| {
            session.run(|tx| {
                let ids = tx.search(|| -> heddledb::Result<Vec<i64>> {
                    tx.scan(&rig.items, heddledb::Range::all())?.map(|row| row?.int("id")).collect()
                })?;
                let mut found = None;
                for id in ids {
                    if tx.try_reserve(&rig.items, key![id])? {
                        found = tx.get(&rig.items, key![id])?.map(|row| row.int("id")).transpose()?;
                        break;
                    }
                }
                Ok(found)
            })
        };
        let (mut first, mut second) = (rig.begin(), rig.begin());
        let one = search(&mut first).expect("a search").expect("a free row");
        let other = search(&mut second).expect("a search").expect("another free row");
        assert_ne!(one, other, "{}", rig.protocol);
        // The second has passed by what the first changes, and a row comes in where both have looked.
        store(rig, &mut first, one, 77).expect("an update");
        first.commit().expect("no other has it");
        rig.db.run(|tx| tx.insert(&rig.items, row![-5, 0, 0, -5])).expect("an insert");
        store(rig, &mut second, other, 78).expect("an update");
        second.commit().expect("what it has passed by is no part of it");
        assert_eq!((rig.value(one), rig.value(other)), (Some(77), Some(78)), "{}", rig.protocol);
        // What was found is a read: a change of it from outside of sessions is a conflict.
        let mut third = rig.begin();
        let found = search(&mut third).expect("a search").expect("a free row");
        rig.db.run(|tx| tx.update(&rig.items, key![found], &[("value", 1.into())])).expect("an update");
        let committed = store(rig, &mut third, found, 2).and_then(|()| third.commit());
        assert_eq!(committed, Err(Error::Conflict), "{}", rig.protocol);
    });
}
