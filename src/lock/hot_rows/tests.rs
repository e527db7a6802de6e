//! Predictions, queues, cycles and joined rows, without a database; attempts on many threads.

use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::thread;

use super::*;
use crate::base::atomics::AtomicBool;

/// A session, as far as hot rows know it.
#[derive(Default)]
struct Client {
    is_through: AtomicBool,
}

impl Proceed for Client {
    fn proceed(&self) -> Option<std::task::Waker> {
        self.is_through.store(true, Ordering::Release);
        None
    }
}

/// Sessions, by number.
struct Sessions(Vec<(Arc<Client>, Arc<Owner>)>);

impl Sessions {
    fn new(number: usize) -> Sessions {
        let made = (0..number).map(|_| {
            let client = Arc::new(Client::default());
            let session: std::sync::Weak<dyn Proceed> = Arc::downgrade(&client) as _;
            (client, Owner::of_session(session))
        });
        Sessions(made.collect())
    }

    fn owner(&self, number: usize) -> &Arc<Owner> {
        &self.0[number].1
    }

    /// The numbers of those that go on.
    fn through(&self, released: ToProceed) -> Vec<usize> {
        released.wake();
        let through = self.0.iter().map(|(client, _)| client.is_through.swap(false, Ordering::Acquire));
        through.enumerate().filter(|(_, is_through)| *is_through).map(|(number, _)| number).collect()
    }

    /// The transaction of a session ends. The numbers of those that go on.
    fn end(&self, rows: &HotRows, number: usize) -> Vec<usize> {
        self.through(rows.end(self.owner(number)).0)
    }
}

fn row(name: &str) -> Tag {
    Tag::of(1, name.as_bytes())
}

/// Rows about which sessions have failed.
fn about(names: &[&str]) -> HotRows {
    let rows = HotRows::default();
    names.iter().for_each(|name| rows.note_conflict(Kind::Session, 1, name.as_bytes()));
    rows
}

#[test]
fn only_rows_of_conflicts_are_reserved_and_granted_in_fifo_order() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(10));
    let owner = |number| sessions.owner(number);
    assert_eq!(rows.hot(1, b"a"), Some(row("a")));
    assert_eq!((rows.hot(1, b"b"), rows.hot(2, b"a")), (None, None));
    assert_eq!(rows.try_reserve(owner(1), row("b")), Prediction::None);
    assert_eq!(rows.try_reserve(owner(5), row("a")), Prediction::Reserved);
    assert_eq!(rows.try_reserve(owner(5), row("a")), Prediction::None, "its own");
    for waiter in [9, 2, 7] {
        assert_eq!(rows.try_reserve(owner(waiter), row("a")), Prediction::Wait);
        assert!(rows.wait(owner(waiter), row("a")));
    }
    rows.note_write(owner(5), row("a"));
    assert_eq!(sessions.end(&rows, 5), [9]);
    assert_eq!(sessions.end(&rows, 2), [0; 0], "it waits no more");
    assert_eq!(rows.try_reserve(owner(9), row("a")), Prediction::None, "it was granted");
    rows.note_write(owner(9), row("a"));
    assert_eq!(sessions.end(&rows, 9), [7]);
    assert_eq!(sessions.end(&rows, 7), [0; 0]);
    let report = rows.all().pop().expect("a row");
    assert_eq!((report.reserved, report.waits, report.waiting_sessions), (3, 3, 0));
    assert_eq!((report.failed_sessions, &*report.row.1), (1, b"a".as_slice()));
}

#[test]
fn a_wait_that_would_close_a_cycle_is_denied_and_joins_the_rows() {
    let (rows, sessions) = (about(&["a", "b", "c"]), Sessions::new(4));
    let owner = |number| sessions.owner(number);
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(rows.try_reserve(owner(number), row(name)), Prediction::Reserved);
    }
    assert!(rows.wait(owner(0), row("b")) && rows.wait(owner(1), row("c")));
    assert!(!rows.wait(owner(2), row("a")), "it would be a deadlock");
    assert_eq!(rows.try_reserve(owner(2), row("b")), Prediction::None, "it waits no more");
    (0..3).for_each(|number| rows.note_write(owner(number), row(["a", "b", "c"][number])));
    assert_eq!(sessions.end(&rows, 2), [1]);
    rows.note_write(owner(1), row("c"));
    assert_eq!(sessions.end(&rows, 1), [0]);
    rows.note_write(owner(0), row("b"));
    assert_eq!(sessions.end(&rows, 0), [0; 0]);
    // They have one queue: whichever is read first excludes rivals from all.
    assert!(["a", "b", "c"].iter().all(|name| rows.is_joined(row(name))));
    assert_eq!(rows.try_reserve(owner(0), row("c")), Prediction::Reserved);
    assert_eq!(rows.try_reserve(owner(0), row("a")), Prediction::None, "it has it with the other");
    assert_eq!(rows.try_reserve(owner(1), row("b")), Prediction::Wait);
    assert!(rows.wait(owner(1), row("b")));
    rows.note_write(owner(0), row("a"));
    assert_eq!(sessions.end(&rows, 0), [1]);
}

#[test]
fn rows_of_a_deadlock_are_remembered_together_until_they_are_forgotten() {
    let (rows, sessions) = (about(&[]), Sessions::new(2));
    let key = |name: &str| (1, Arc::<[u8]>::from(name.as_bytes()));
    rows.join_keys(&[key("a"), key("b")]);
    rows.join_keys(&[key("b"), key("c")]);
    assert_eq!(rows.try_reserve(sessions.owner(0), row("c")), Prediction::Reserved);
    assert_eq!(rows.try_reserve(sessions.owner(1), row("a")), Prediction::Wait);
    sessions.end(&rows, 0);
    assert!(rows.all().iter().all(|row| row.failed_sessions == 0));
    for _ in 0..20 {
        rows.age();
    }
    assert!(rows.hot(1, b"a").is_none() && rows.is_empty(Kind::Session));
    rows.note_conflict(Kind::Session, 1, b"c");
    rows.note_conflict(Kind::Session, 1, b"a");
    assert_eq!(rows.try_reserve(sessions.owner(0), row("c")), Prediction::Reserved);
    assert_eq!(rows.try_reserve(sessions.owner(1), row("a")), Prediction::Reserved);
}

#[test]
fn a_holder_that_does_not_end_is_waited_for_a_bounded_number_of_times() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(100));
    (0..10).for_each(|_| rows.note_conflict(Kind::Session, 1, b"a"));
    assert_eq!(rows.try_reserve(sessions.owner(1), row("a")), Prediction::Reserved);
    let mut timed_out = 0;
    for waiter in 2..50 {
        if rows.try_reserve(sessions.owner(waiter), row("a")) == Prediction::Wait {
            assert!(rows.wait(sessions.owner(waiter), row("a")));
            assert!(rows.wait(sessions.owner(waiter + 50), row("a")));
            timed_out += 1;
            let released = sessions.through(rows.time_out(sessions.owner(waiter)));
            assert_eq!(released[0], waiter);
            assert_eq!(released.len() > 1, timed_out == 4, "the last one releases all that wait");
        }
    }
    assert_eq!(timed_out, row::CONFIDENCE_MAX / row::LOST_TIMED_OUT);
    assert_eq!(sessions.end(&rows, 1), [0; 0]);
    assert_eq!(rows.hot(1, b"a"), None, "it is forgotten");
}

#[test]
fn a_transaction_whose_wait_has_timed_out_waits_no_more() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(3));
    assert_eq!(rows.try_reserve(sessions.owner(1), row("a")), Prediction::Reserved);
    assert!(!rows.wait(sessions.owner(1), row("a")), "it has it");
    assert!(rows.wait(sessions.owner(2), row("a")));
    assert_eq!(sessions.through(rows.time_out(sessions.owner(2))), [2]);
    assert_eq!(rows.time_out(sessions.owner(2)).len(), 0);
    assert_eq!(rows.try_reserve(sessions.owner(2), row("a")), Prediction::None);
    assert_eq!(sessions.end(&rows, 1), [0; 0]);
    assert_eq!(sessions.end(&rows, 2), [0; 0]);
}

#[test]
fn a_row_that_is_only_read_is_forgotten_and_its_waiters_go_on() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(6));
    let owner = |number| sessions.owner(number);
    assert_eq!(rows.try_reserve(owner(1), row("a")), Prediction::Reserved);
    assert!(rows.wait(owner(2), row("a")), "it is the first");
    assert_eq!(sessions.end(&rows, 1), [2], "it was not written once");
    assert_eq!(rows.try_reserve(owner(3), row("a")), Prediction::None, "there is no confidence any more");
    assert!(rows.wait(owner(3), row("a")) && rows.wait(owner(4), row("a")));
    assert_eq!(sessions.end(&rows, 2), [3, 4]);
    assert_eq!((rows.hot(1, b"a"), rows.is_empty(Kind::Session)), (None, true));
    assert!(!rows.wait(owner(5), row("a")), "no transaction has it");
}

#[test]
fn a_row_that_is_written_two_times_of_three_is_kept() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(1));
    (0..3).for_each(|_| rows.note_conflict(Kind::Session, 1, b"a"));
    for transaction in 1..100 {
        assert_eq!(rows.try_reserve(sessions.owner(0), row("a")), Prediction::Reserved);
        if transaction % 3 > 0 {
            rows.note_write(sessions.owner(0), row("a"));
        }
        sessions.end(&rows, 0);
    }
    assert!(!rows.is_empty(Kind::Session));
}

#[test]
fn a_hot_row_stays_among_many_with_one_conflict_each() {
    let rows = about(&[]);
    for number in 0..100_000_u32 {
        rows.note_conflict(Kind::Attempt, 1, &number.to_be_bytes());
        if number % 64 == 0 {
            rows.note_conflict(Kind::Attempt, 1, b"hot");
        }
    }
    assert!(rows.hot(1, b"hot").is_some());
    (0..16).for_each(|_| rows.age());
    assert!(
        rows.hot(1, b"hot").is_none() && rows.is_empty(Kind::Attempt),
        "and all are forgotten without conflicts"
    );
}

#[test]
fn conflicts_of_attempts_concern_no_session_and_one_alone_says_nothing() {
    let (rows, sessions) = (about(&[]), Sessions::new(1));
    let attempts = Owner::of_attempts();
    rows.note_conflict(Kind::Attempt, 1, b"a");
    assert!(rows.is_empty(Kind::Attempt));
    assert_eq!(rows.try_reserve(&attempts, row("a")), Prediction::None);
    rows.note_conflict(Kind::Attempt, 1, b"a");
    assert_eq!((rows.is_empty(Kind::Attempt), rows.is_empty(Kind::Session)), (false, true));
    assert_eq!(rows.try_reserve(sessions.owner(0), row("a")), Prediction::None);
    assert_eq!(rows.try_reserve(&attempts, row("a")), Prediction::Reserved);
}

/// Threads whose attempts reserve two rows in either order: none waits for ever, and no two have a row at once.
#[test]
fn attempts_on_many_threads_have_a_row_one_at_a_time() {
    const THREADS: usize = 8;
    const EACH: usize = 2_000;
    let rows = about(&[]);
    (0..6).for_each(|_| {
        ["a", "b"].iter().for_each(|name| rows.note_conflict(Kind::Attempt, 1, name.as_bytes()))
    });
    let holders = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let work = |number: usize| {
        let owner = Owner::of_attempts();
        let mut granted = 0;
        for round in 0..EACH {
            for place in if (number + round).is_multiple_of(2) { [0, 1] } else { [1, 0] } {
                let name = row(["a", "b"][place]);
                rows.reserve_here(&owner, name, Duration::from_secs(60));
                if owner.held_places().iter().any(|&held| rows.find(name) == Some(held)) {
                    assert_eq!(
                        holders[place].fetch_add(1, StdOrdering::SeqCst),
                        0,
                        "it has a row that another one has"
                    );
                    rows.note_write(&owner, name);
                    thread::yield_now();
                    holders[place].fetch_sub(1, StdOrdering::SeqCst);
                    granted += 1;
                }
            }
            rows.end(&owner).0.wake();
        }
        granted
    };
    let granted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(granted >= THREADS * EACH, "the first row of a round is always granted: {granted}");
    assert!(rows.all().iter().all(|row| row.waiting_sessions == 0));
}

#[test]
fn an_attempt_goes_on_when_its_time_is_over_or_the_row_is_forgotten() {
    let (rows, sessions) = (about(&["a"]), Sessions::new(1));
    (0..4).for_each(|_| rows.note_conflict(Kind::Attempt, 1, b"a"));
    assert_eq!(rows.try_reserve(sessions.owner(0), row("a")), Prediction::Reserved);
    let owner = Owner::of_attempts();
    rows.reserve_here(&owner, row("a"), Duration::from_millis(1));
    assert!(!owner.holds_any() && owner.waits_no_more());
    rows.end(&owner).0.wake();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            rows.reserve_here(&owner, row("a"), Duration::from_secs(600));
            owner.holds_any()
        });
        while owner.waits_for().is_none() && !waiter.is_finished() {
            thread::yield_now();
        }
        sessions.end(&rows, 0);
        assert!(waiter.join().expect("no panic"), "the row is free");
    });
}
