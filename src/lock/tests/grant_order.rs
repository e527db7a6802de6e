//! Waiting: which request is granted, in what order, and in what order locks are released.

use super::*;
use crate::base::atomics::AtomicBool;

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let (manager, sessions) = setup(2);
    sessions[0].lock(record(1), Mode::Exclusive);
    let waiting = sessions[1].wait(record(1), Mode::Shared);
    assert_eq!(waiting.is_done(), None);
    sessions[0].release();
    assert_eq!(waiting.result(), Ok(()));
    assert_eq!(manager.detector.waiting(), 0);
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn first_come_first_served() {
    let (manager, sessions) = setup(6);
    sessions[0].lock(record(1), Mode::Exclusive);
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let waiting: Vec<_> = (1..6)
        .map(|number| {
            let order = Arc::clone(&order);
            sessions[number].waits(move |manager, locks| {
                let result = manager.acquire(locks, record(1), Mode::Exclusive, OnConflict::Wait);
                order.lock().push(number);
                manager.release(locks);
                result
            })
        })
        .collect();
    sessions[0].release();
    waiting.into_iter().for_each(|one| assert_eq!(one.result(), Ok(())));
    assert_eq!(*order.lock(), [1, 2, 3, 4, 5]);
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_reader_does_not_pass_by_a_writer_that_waits() {
    let (_manager, sessions) = setup(3);
    sessions[0].lock(record(1), Mode::Shared);
    let writer = sessions[1].wait(record(1), Mode::Exclusive);
    let reader = sessions[2].wait(record(1), Mode::Shared);
    sessions[0].release();
    assert_eq!(writer.result(), Ok(()));
    assert_eq!(reader.is_done(), None);
    sessions[1].release();
    assert_eq!(reader.result(), Ok(()));
}

#[test]
fn an_upgrade_passes_by_newcomers() {
    let (_manager, sessions) = setup(3);
    sessions[0].lock(record(1), Mode::Shared);
    sessions[1].lock(record(1), Mode::Shared);
    let newcomer = sessions[2].wait(record(1), Mode::Exclusive);
    let upgrade = sessions[0].wait(record(1), Mode::Exclusive);
    sessions[1].release();
    assert_eq!(upgrade.result(), Ok(()));
    assert_eq!(newcomer.is_done(), None);
    sessions[0].release();
    assert_eq!(newcomer.result(), Ok(()));
}

#[test]
fn waiting_is_refused_where_others_wait_already() {
    let (_manager, sessions) = setup(3);
    sessions[0].lock(record(1), Mode::Shared);
    let writer = sessions[1].wait(record(1), Mode::Exclusive);
    let refused =
        sessions[2].run(|manager, locks| manager.acquire(locks, record(1), Mode::Shared, OnConflict::Abort));
    assert_eq!(refused, Err(Denied::Conflict));
    sessions[0].release();
    assert_eq!(writer.result(), Ok(()));
}

#[test]
fn locks_are_given_up_from_the_youngest() {
    const LOCKS: u64 = 2000;
    let manager = LockManager::new();
    for _ in 0..20 {
        let mut locks = Locks::default();
        let signals = [0, LOCKS / 2, LOCKS - 1].map(|key| (key, name::OwnerId::new(), Arc::default()));
        for key in 0..LOCKS {
            assert_eq!(manager.acquire(&mut locks, record(key), Mode::Exclusive, OnConflict::Abort), Ok(()));
        }
        for (key, owner, signal) in &signals {
            let signal: &Arc<signal::Signal> = signal;
            signal.arm();
            assert_eq!(
                manager.table.request(record(*key), *owner, Mode::Shared, Some(signal)),
                Answer::Queued
            );
        }
        let ready = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ready.store(true, Ordering::SeqCst);
                let is_granted = |at: usize| signals[at].2.spin(1).is_some();
                // Where an older lock has been released, the younger one was before.
                while !is_granted(0) {
                    assert!(!is_granted(1) || is_granted(2), "the middle before the youngest");
                }
                assert!(is_granted(1) && is_granted(2), "the oldest before the others");
            });
            until(|| ready.load(Ordering::SeqCst));
            manager.release(&mut locks);
        });
        signals.iter().for_each(|(key, owner, _)| manager.table.release(record(*key), *owner));
    }
    assert_empty(&manager);
}
