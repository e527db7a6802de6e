//! Predicted reservations: rows about which sessions have failed make those that read them queue, and cause no error.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use heddledb::{Error, Session, key};

use crate::sessions::rig::{Rig, under_every_protocol, value};

/// Reads an item by key, as a future.
fn reading<'s>(
    rig: &'s Rig,
    session: &'s mut Session,
    id: i64,
) -> impl Future<Output = heddledb::Result<Option<i64>>> + 's {
    session.run_async(move |tx| value(tx, &rig.items, id))
}

/// Adds to an item that it reads, as a future.
fn increasing<'s>(
    rig: &'s Rig,
    session: &'s mut Session,
    id: i64,
) -> impl Future<Output = heddledb::Result<()>> + 's {
    session.run_async(move |tx| {
        let before = value(tx, &rig.items, id)?.unwrap_or(0);
        tx.update(&rig.items, key![id], &[("value", (before + 1).into())])
    })
}

/// Reserves an item for an update, as a future.
fn locking<'s>(
    rig: &'s Rig,
    session: &'s mut Session,
    id: i64,
) -> impl Future<Output = heddledb::Result<()>> + 's {
    session.run_async(move |tx| tx.get_for_update(&rig.items, key![id]).map(drop))
}

/// Polls a future until it is ready, or until its session waits for a row.
fn polled<F: Future>(rig: &Rig, mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        if rig.db.hot_records().iter().any(|row| row.waiting_sessions > 0) {
            return None;
        }
        // It waits for its snapshot.
        thread::yield_now();
    }
}

/// Has a session read an item and save it.
fn save_after_reading(rig: &Rig, session: &mut Session, id: i64) -> heddledb::Result<()> {
    let before = rig.read(session, id)?.unwrap_or(0);
    rig.write(session, id, before + 1)?;
    session.commit()
}

/// Two sessions read an item, and both write it: the second one fails.
fn conflict(rig: &Rig, id: i64) {
    let [mut first, mut second] = [rig.begin(), rig.begin()];
    let before = rig.read(&mut second, id).expect("a read").unwrap_or(0);
    save_after_reading(rig, &mut first, id).expect("it is the first");
    let saved = rig.write(&mut second, id, before + 1).and_then(|()| second.commit());
    assert_eq!(saved, Err(Error::Conflict), "{}", rig.protocol);
}

fn is_predicted(rig: &Rig) -> bool {
    rig.db.hot_records().iter().any(|row| row.is_predicted)
}

#[test]
fn a_session_that_reads_a_row_of_a_conflict_waits_for_the_one_that_has_read_it() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let hot = &rig.db.hot_records()[0];
        assert_eq!((hot.write_conflicts, hot.is_predicted, hot.waiting_sessions), (1, true, 0));
        let [mut first, mut second, mut other] = [rig.begin(), rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut first, 1), Ok(Some(11)));
        assert_eq!(rig.read(&mut other, 2), Ok(Some(20)), "no prediction is about this one");
        {
            let mut waiting = pin!(reading(rig, &mut second, 1));
            assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
            assert_eq!(rig.db.hot_records()[0].waiting_sessions, 1);
            rig.write(&mut first, 1, 12).expect("it has reserved it");
            first.commit().expect("nothing has changed");
            assert_eq!(polled(rig, waiting), Some(Ok(Some(12))), "{}", rig.protocol);
        }
        rig.write(&mut second, 1, 13).expect("it has reserved it");
        second.commit().expect("nothing has changed");
        assert_eq!(rig.value(1), Some(13), "{}", rig.protocol);
    });
}

#[test]
fn sessions_that_read_a_row_and_then_write_it_succeed_each_at_the_first_attempt() {
    const SESSIONS: i64 = 8;
    const EACH: i64 = 25;
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let barrier = std::sync::Barrier::new(SESSIONS as usize);
        let failed: usize = thread::scope(|scope| {
            let work = || {
                let mut session = rig.db.session().expect("a session");
                barrier.wait();
                let mut failed = 0;
                for _ in 0..EACH {
                    session.begin().expect("a transaction");
                    while let Err(error) = save_after_reading(rig, &mut session, 1) {
                        assert_eq!(error, Error::Conflict);
                        failed += 1;
                        let _ = session.rollback();
                        session.begin().expect("a transaction");
                    }
                }
                failed
            };
            let threads: Vec<_> = (0..SESSIONS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(rig.value(1), Some(11 + SESSIONS * EACH), "{}", rig.protocol);
        // Those that have waited for a second go on and may fail.
        assert!(failed < (SESSIONS * EACH / 2) as usize, "{}: {failed}", rig.protocol);
    });
}

#[test]
fn a_shared_snapshot_stays_the_same_whatever_is_predicted() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let mut first = rig.begin();
        let exported = first.export_snapshot().expect("an open transaction").expect("it has not written");
        rig.set(1, 12);
        let mut second = rig.begin();
        assert_eq!(second.import_snapshot(&exported), Ok(true));
        assert!(is_predicted(rig));
        for session in [&mut first, &mut second] {
            assert_eq!(rig.read(session, 1), Ok(Some(11)), "{}", rig.protocol);
            session.commit().expect("it has only read");
        }
        assert_eq!(rig.read(&mut rig.begin(), 1), Ok(Some(12)));
    });
}

#[test]
fn a_holder_that_does_not_end_delays_few_others() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let mut holder = rig.begin();
        assert_eq!(rig.read(&mut holder, 1), Ok(Some(11)));
        let mut waiting = rig.begin();
        waiting.set_wait_timeout(Some(Duration::from_millis(2))).expect("an open session");
        assert_eq!(rig.read(&mut waiting, 1), Ok(Some(11)), "its wait has timed out");
        let mut next = rig.begin();
        let mut reading = pin!(reading(rig, &mut next, 1));
        assert_eq!(
            polled(rig, reading.as_mut()),
            Some(Ok(Some(11))),
            "{}: nobody waits any more",
            rig.protocol
        );
    });
}

#[test]
fn what_only_reads_does_not_wait_if_it_says_so_and_else_the_row_is_forgotten() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let mut holder = rig.begin();
        assert_eq!(rig.read(&mut holder, 1), Ok(Some(11)));
        let mut alone = rig.db.session().expect("a session");
        assert_eq!(rig.read(&mut alone, 1), Ok(Some(11)), "an autocommit access");
        let mut reader = rig.begin();
        reader.set_read_only(true);
        assert_eq!(rig.read(&mut reader, 1), Ok(Some(11)), "{}", rig.protocol);
        assert_eq!(rig.scan(&mut rig.begin(), heddledb::Range::all()).map(|rows| rows.len()), Ok(4));
        assert_eq!(rig.value(1), Some(11), "a closure");
        holder.commit().expect("it has only read");
        for _ in 0..8 {
            let mut reader = rig.begin();
            assert_eq!(rig.read(&mut reader, 1), Ok(Some(11)));
            reader.commit().expect("it has only read");
        }
        assert!(!is_predicted(rig), "{}", rig.protocol);
    });
}

#[test]
fn a_statement_that_writes_or_reserves_ignores_predicted_reservations() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let mut holder = rig.begin();
        assert_eq!(rig.read(&mut holder, 1), Ok(Some(11)));
        let mut asks = rig.begin();
        asks.set_wait_timeout(Some(Duration::from_millis(1))).expect("a timer");
        assert_eq!(asks.run(|tx| tx.try_reserve(&rig.items, key![1])), Ok(true), "{}", rig.protocol);
        asks.commit().expect("it has written nothing");
        asks.begin().expect("a transaction");
        asks.run(|tx| tx.get_for_update(&rig.items, key![1]).map(drop)).expect("it does not wait");
        rig.write(&mut asks, 1, 50).expect("it has reserved it");
        asks.commit().expect("nothing has changed");
        rig.set(1, 60);
        assert_eq!(rig.write(&mut holder, 1, 12).and_then(|()| holder.commit()), Err(Error::Conflict));
        assert_eq!(rig.value(1), Some(60), "{}", rig.protocol);
    });
}

#[test]
fn a_wait_that_would_close_a_cycle_goes_on_and_its_rows_are_reserved_together_from_then_on() {
    under_every_protocol(|rig| {
        [1, 2].into_iter().for_each(|id| conflict(rig, id));
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut first, 1), Ok(Some(11)));
        assert_eq!(rig.read(&mut second, 2), Ok(Some(21)));
        {
            let mut waiting = pin!(reading(rig, &mut second, 1));
            assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
            assert_eq!(rig.read(&mut first, 2), Ok(Some(21)), "it does not wait: {}", rig.protocol);
            rig.write(&mut first, 1, 12).expect("it has reserved it");
            first.commit().expect("nothing has changed");
            assert_eq!(polled(rig, waiting), Some(Ok(Some(12))), "{}", rig.protocol);
        }
        rig.write(&mut second, 1, 13).and_then(|()| rig.write(&mut second, 2, 22)).expect("both are its own");
        second.commit().expect("nothing has changed");
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut first, 1), Ok(Some(13)));
        {
            let mut waiting = pin!(reading(rig, &mut second, 2));
            assert_eq!(polled(rig, waiting.as_mut()), None, "they have one queue: {}", rig.protocol);
            assert_eq!(rig.read(&mut first, 2), Ok(Some(22)), "it has both: {}", rig.protocol);
            first.commit().expect("it has only read");
            assert_eq!(polled(rig, waiting), Some(Ok(Some(22))), "{}", rig.protocol);
        }
        second.commit().expect("it has only read");
    });
}

#[test]
fn rows_of_a_deadlock_are_reserved_together_from_then_on() {
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        rig.increase(&mut first, 1).expect("it is free");
        rig.increase(&mut second, 2).expect("it is free");
        {
            let mut waiting = pin!(increasing(rig, &mut first, 2));
            assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
            assert_eq!(rig.increase(&mut second, 1), Err(Error::Deadlock), "{}", rig.protocol);
            assert_eq!(polled(rig, waiting), Some(Ok(())), "{}", rig.protocol);
        }
        first.commit().expect("nothing has changed");
        second.rollback().expect("it is open");
        for (early, late) in [(1, 2), (2, 1)] {
            let [mut first, mut second] = [rig.begin(), rig.begin()];
            rig.increase(&mut first, early).expect("it is free");
            {
                let mut waiting = pin!(increasing(rig, &mut second, late));
                assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
                rig.increase(&mut first, late).expect("it has both");
                first.commit().expect("nothing has changed");
                assert_eq!(polled(rig, waiting), Some(Ok(())), "{}", rig.protocol);
            }
            rig.increase(&mut second, early).expect("it has both");
            second.commit().expect("nothing has changed");
            // Rows that are reserved without being read take part, too.
            let [mut first, mut second] = [rig.begin(), rig.begin()];
            rig.increase(&mut first, early).expect("it is free");
            {
                let mut waiting = pin!(locking(rig, &mut second, late));
                assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
                first.rollback().expect("it is open");
                assert_eq!(polled(rig, waiting), Some(Ok(())), "{}", rig.protocol);
            }
        }
        assert_eq!((rig.value(1), rig.value(2)), (Some(15), Some(25)), "{}", rig.protocol);
    });
}

#[test]
fn a_session_that_has_read_another_row_before_reads_both_from_a_later_snapshot() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        for is_changed in [false, true] {
            let [mut first, mut second] = [rig.begin(), rig.begin()];
            let before = rig.value(1).expect("a row");
            let other = rig.read(&mut second, 3).expect("a read");
            assert_eq!(rig.read(&mut first, 1), Ok(Some(before)));
            {
                let mut waiting = pin!(reading(rig, &mut second, 1));
                assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
                rig.write(&mut first, 1, before + 1).expect("it has reserved it");
                if is_changed {
                    rig.write(&mut first, 3, 33).expect("it is free");
                }
                first.commit().expect("nothing has changed");
                // Where the other row has changed, both are of the first snapshot.
                let seen = if is_changed { before } else { before + 1 };
                assert_eq!(polled(rig, waiting), Some(Ok(Some(seen))), "{}", rig.protocol);
            }
            assert_eq!(rig.read(&mut second, 3), Ok(other), "one state: {}", rig.protocol);
            let saved = rig.write(&mut second, 1, before + 2).and_then(|()| second.commit());
            assert_eq!(saved, if is_changed { Err(Error::Conflict) } else { Ok(()) }, "{}", rig.protocol);
        }
    });
}

#[test]
fn a_wait_for_a_predicted_reservation_times_out_without_an_error() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let [mut holder, mut impatient] = [rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut holder, 1), Ok(Some(11)));
        impatient.set_wait_timeout(Some(Duration::from_millis(20))).expect("a timer");
        assert_eq!(rig.read(&mut impatient, 1), Ok(Some(11)), "{}", rig.protocol);
        rig.write(&mut impatient, 1, 12).expect("nothing has changed");
        impatient.commit().expect("nothing has changed");
        assert_eq!(rig.write(&mut holder, 1, 12).and_then(|()| holder.commit()), Err(Error::Conflict));
    });
}

#[test]
fn a_wait_for_a_predicted_reservation_can_be_canceled_and_dropped() {
    under_every_protocol(|rig| {
        conflict(rig, 1);
        let [mut holder, mut dropped, mut canceled] = [rig.begin(), rig.begin(), rig.begin()];
        assert_eq!(rig.read(&mut holder, 1), Ok(Some(11)));
        assert_eq!(polled(rig, pin!(reading(rig, &mut dropped, 1))), None, "{}", rig.protocol);
        assert_eq!(dropped.commit(), Err(Error::Canceled), "it was abandoned midway");
        let canceler = canceled.canceler();
        {
            let mut waiting = pin!(reading(rig, &mut canceled, 1));
            assert_eq!(polled(rig, waiting.as_mut()), None, "{}", rig.protocol);
            canceler.cancel();
            assert_eq!(polled(rig, waiting), Some(Err(Error::Canceled)));
        }
        holder.rollback().expect("it is open");
        assert_eq!(rig.db.hot_records()[0].waiting_sessions, 0);
        let mut last = rig.begin();
        assert_eq!(rig.read(&mut last, 1), Ok(Some(11)), "it is free");
    });
}
