//! Deadlocks: each is found, and its youngest gives way.

use std::collections::BTreeSet;
use std::sync::Barrier;

use super::*;

/// Sessions are born in the order of their numbers: each holds its own record, and they close the circle in this
/// order.
fn circle(order: &[usize]) {
    let (manager, sessions) = setup(order.len());
    let count = order.len() as u64;
    for (number, session) in sessions.iter().enumerate() {
        session.lock(record(number as u64), Mode::Exclusive);
    }
    let next = |number: usize| record((number as u64 + 1) % count);
    let (last, first) = order.split_last().expect("there are some");
    let mut waiting: Vec<_> =
        first.iter().map(|&number| (number, sessions[number].wait(next(number), Mode::Shared))).collect();
    let name = next(*last);
    let closing = sessions[*last]
        .start(move |manager, locks| manager.acquire(locks, name, Mode::Shared, OnConflict::Wait));
    waiting.push((*last, closing));
    waiting.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    // From the youngest: it is denied, and once it has released what it holds, the one before it proceeds, and so on.
    for (number, pending) in waiting {
        let expected = if number + 1 == order.len() { Err(Denied::Deadlock) } else { Ok(()) };
        assert_eq!(pending.result(), expected, "{number} of {order:?}");
        sessions[number].release();
    }
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn of_two_the_younger_gives_way_whoever_finds_it() {
    circle(&[0, 1]);
    circle(&[1, 0]);
}

#[test]
fn of_three_the_youngest_gives_way_whoever_finds_it() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        circle(&order);
    }
}

#[test]
fn of_twelve_the_youngest_gives_way() {
    circle(&(0..12).collect::<Vec<_>>());
    circle(&(0..12).rev().collect::<Vec<_>>());
}

#[test]
fn two_upgrades_of_one_lock_are_a_deadlock() {
    let (manager, sessions) = setup(2);
    sessions.iter().for_each(|session| session.lock(record(1), Mode::Shared));
    let younger = sessions[1].wait(record(1), Mode::Exclusive);
    let older = sessions[0]
        .start(|manager, locks| manager.acquire(locks, record(1), Mode::Exclusive, OnConflict::Wait));
    assert_eq!(younger.result(), Err(Denied::Deadlock));
    assert_eq!(older.is_done(), None, "the victim holds its old mode still");
    sessions[1].release();
    assert_eq!(older.result(), Ok(()));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_wait_for_a_turn_can_close_a_cycle() {
    let (_manager, sessions) = setup(3);
    // 2 goes with the holder 0, but stands behind 1, which waits for 0; and 0 waits for 2's record.
    sessions[0].lock(record(1), Mode::Shared);
    sessions[2].lock(record(2), Mode::Exclusive);
    let writer = sessions[1].wait(record(1), Mode::Exclusive);
    let reader = sessions[2].wait(record(1), Mode::Shared);
    let holder =
        sessions[0].start(|manager, locks| manager.acquire(locks, record(2), Mode::Shared, OnConflict::Wait));
    assert_eq!(reader.result(), Err(Denied::Deadlock));
    sessions[2].release();
    assert_eq!(holder.result(), Ok(()));
    sessions[0].release();
    assert_eq!(writer.result(), Ok(()));
}

#[test]
fn a_circle_through_levels_and_gaps_is_found() {
    let (manager, sessions) = setup(3);
    sessions[0].lock(LockName::Table(9), Mode::Shared);
    sessions[1].lock(record(1), Mode::Exclusive);
    sessions[2].range(10, 20);
    let for_gap = sessions[0].waits(point(15));
    let for_table = sessions[1].wait(LockName::Record { table: 9, key: 1 }, Mode::Exclusive);
    let for_record =
        sessions[2].start(|manager, locks| manager.acquire(locks, record(1), Mode::Shared, OnConflict::Wait));
    assert_eq!(for_record.result(), Err(Denied::Deadlock));
    sessions[2].release();
    assert_eq!(for_gap.result(), Ok(()));
    sessions[0].release();
    assert_eq!(for_table.result(), Ok(()));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn two_readers_who_insert_into_each_other_s_range_are_a_deadlock() {
    let (_manager, sessions) = setup(2);
    sessions.iter().for_each(|session| session.range(1, 9));
    let older = sessions[0].waits(point(3));
    assert_eq!(sessions[1].run(point(4)), Err(Denied::Deadlock));
    sessions[1].release();
    assert_eq!(older.result(), Ok(()));
}

#[test]
fn a_victim_can_begin_again() {
    let (manager, sessions) = setup(2);
    sessions[0].lock(record(1), Mode::Exclusive);
    sessions[1].lock(record(2), Mode::Exclusive);
    let older = sessions[0].wait(record(2), Mode::Exclusive);
    let denied = sessions[1]
        .run(|manager, locks| manager.acquire(locks, record(1), Mode::Exclusive, OnConflict::Wait));
    assert_eq!(denied, Err(Denied::Deadlock));
    sessions[1].release();
    assert_eq!(older.result(), Ok(()));
    let again = sessions[1].wait(record(1), Mode::Exclusive);
    sessions[0].release();
    assert_eq!(again.result(), Ok(()));
    sessions[1].lock(record(2), Mode::Exclusive);
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_waiter_outside_the_cycle_is_spared() {
    let (_manager, sessions) = setup(3);
    sessions[0].lock(record(1), Mode::Exclusive);
    sessions[1].lock(record(2), Mode::Exclusive);
    let outsider = sessions[2].wait(record(1), Mode::Shared);
    let older = sessions[0].wait(record(2), Mode::Shared);
    let younger =
        sessions[1].run(|manager, locks| manager.acquire(locks, record(1), Mode::Shared, OnConflict::Wait));
    assert_eq!(younger, Err(Denied::Deadlock));
    sessions[1].release();
    assert_eq!(older.result(), Ok(()));
    assert_eq!(outsider.is_done(), None);
    sessions[0].release();
    assert_eq!(outsider.result(), Ok(()));
}

#[test]
fn two_waits_that_begin_at_the_same_moment_are_found() {
    let manager = Arc::new(LockManager::new());
    let barrier = Arc::new(Barrier::new(2));
    let denied = Arc::new(AtomicU64::new(0));
    const ROUNDS: u64 = 500;
    let work = (0..2_u64).map(|own| {
        let (manager, barrier, denied) = (Arc::clone(&manager), Arc::clone(&barrier), Arc::clone(&denied));
        let work = move || {
            let mut locks = Locks::default();
            for _ in 0..ROUNDS {
                locks.begin(own);
                let mut lock =
                    |key| manager.acquire(&mut locks, record(key), Mode::Exclusive, OnConflict::Wait);
                assert_eq!(lock(own), Ok(()));
                barrier.wait();
                let result = lock(1 - own);
                assert_eq!(result, if own == 0 { Ok(()) } else { Err(Denied::Deadlock) });
                denied.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
                manager.release(&mut locks);
                barrier.wait();
            }
        };
        Box::new(work) as Box<dyn FnOnce() + Send>
    });
    all_within_time(work.collect());
    assert_eq!(denied.load(Ordering::Relaxed), ROUNDS);
    assert_empty(&manager);
}

#[test]
fn the_oldest_is_never_a_victim_and_all_get_through() {
    let manager = Arc::new(LockManager::new());
    // Births of transactions that have not got through yet.
    let trying = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
    let denied = Arc::new(AtomicU64::new(0));
    let work = (0..6).map(|seed| {
        let (manager, trying, denied) = (Arc::clone(&manager), Arc::clone(&trying), Arc::clone(&denied));
        let work = move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut locks = Locks::default();
            for _ in 0..150 {
                let start_timestamp = {
                    let mut trying = trying.lock();
                    let start_timestamp = manager.start_timestamp();
                    trying.insert(start_timestamp);
                    start_timestamp
                };
                let wanted: Vec<_> = (0..4).map(|_| (record(random.u64(0..5)), random.bool())).collect();
                loop {
                    // The oldest now stays the oldest. (At the end of the attempt is too late to look: once a victim has
                    // left its queue, an older one may have got through.)
                    let oldest = trying.lock().first() == Some(&start_timestamp);
                    locks.begin(start_timestamp);
                    let result = wanted.iter().try_for_each(|&(name, alone)| {
                        let mode = if alone { Mode::Exclusive } else { Mode::Shared };
                        let result = manager.acquire(&mut locks, name, mode, OnConflict::Wait);
                        std::thread::yield_now();
                        result
                    });
                    denied.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
                    manager.release(&mut locks);
                    if result.is_ok() {
                        break;
                    }
                    assert!(!oldest, "seed {seed}: the oldest is a victim");
                }
                trying.lock().remove(&start_timestamp);
            }
        };
        Box::new(work) as Box<dyn FnOnce() + Send>
    });
    all_within_time(work.collect());
    assert!(denied.load(Ordering::Relaxed) > 0, "there were deadlocks");
    assert_empty(&manager);
}
