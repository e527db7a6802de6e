//! Ranges and points: phantoms are kept away, and nothing else is.

use super::*;

#[test]
fn an_insert_into_a_range_waits_and_one_beside_it_does_not() {
    let (manager, sessions) = setup(3);
    sessions[0].range(10, 20);
    sessions[1].point(9);
    sessions[1].point(21);
    let inside = sessions[2].waits(point(20));
    sessions[1].release();
    assert_eq!(inside.is_done(), None);
    sessions[0].release();
    assert_eq!(inside.result(), Ok(()));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_range_waits_for_an_insert_into_it() {
    let (manager, sessions) = setup(3);
    sessions[0].point(15);
    sessions[1].range(16, 30);
    let around = sessions[2].waits(range(10, 20));
    sessions[1].release();
    assert_eq!(around.is_done(), None);
    sessions[0].release();
    assert_eq!(around.result(), Ok(()));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn readers_of_overlapping_ranges_run_side_by_side() {
    let (_manager, sessions) = setup(3);
    sessions[0].range(1, 20);
    sessions[1].range(10, 30);
    sessions[2].range(1, 20);
    sessions[2].lock(record(15), Mode::Exclusive);
}

#[test]
fn one_s_own_range_does_not_keep_one_from_inserting() {
    let (manager, sessions) = setup(2);
    sessions[0].range(1, 9);
    sessions[0].point(5);
    sessions[0].range(1, 20);
    let other = sessions[1].waits(point(6));
    sessions[0].point(7);
    sessions[0].range(0, 30);
    sessions[0].release();
    assert_eq!(other.result(), Ok(()));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_no_wait_request_that_is_refused_leaves_no_trace() {
    let (manager, sessions) = setup(2);
    sessions[0].range(1, 9);
    let refused = sessions[1].run(|manager, locks| {
        let refused = manager.acquire_point(locks, TABLE, &[5], OnConflict::Abort);
        (refused, locks.taken())
    });
    assert_eq!(refused, (Err(Denied::Conflict), Taken { rows: 0, gap_locks: 0, higher: 2 }));
    sessions[1].point(10);
    let refused = sessions[0].run(|manager, locks| {
        let bounds = (Bound::Excluded(&[9][..]), Bound::Unbounded);
        manager.acquire_range(locks, TABLE, bounds, OnConflict::Abort)
    });
    assert_eq!(refused, Err(Denied::Conflict));
    drop(sessions);
    assert_empty(&manager);
}

#[test]
fn a_range_is_counted_once_however_often_it_is_read() {
    let (manager, mut locks) = (LockManager::new(), Locks::default());
    locks.begin(manager.start_timestamp());
    let mut read = |low: u8, high: u8| {
        let bounds = (Bound::Included(&[low][..]), Bound::Excluded(&[high][..]));
        assert_eq!(manager.acquire_range(&mut locks, TABLE, bounds, OnConflict::Abort), Ok(()));
        locks.taken()
    };
    let taken = Taken { rows: 0, gap_locks: 1, higher: 2 };
    assert_eq!([read(1, 9), read(1, 9), read(3, 8), read(5, 5), read(7, 2)], [taken; 5]);
    assert_eq!(read(1, 10), Taken { gap_locks: 2, ..taken });
    manager.release(&mut locks);
    assert_empty(&manager);
}

#[test]
fn an_empty_range_locks_nothing() {
    let (manager, mut locks) = (LockManager::new(), Locks::default());
    let nothing = (Bound::Excluded(&[3][..]), Bound::Included(&[3][..]));
    assert_eq!(manager.acquire_range(&mut locks, TABLE, nothing, OnConflict::Wait), Ok(()));
    assert!(locks.is_empty());
    assert_empty(&manager);
}

#[test]
fn long_keys_are_compared_to_their_ends() {
    let (manager, mut reader, mut writer) = (LockManager::new(), Locks::default(), Locks::default());
    let (low, high, beside) =
        (vec![1; 200], [vec![1; 200], vec![0]].concat(), [vec![1; 200], vec![1]].concat());
    let bounds = (Bound::Included(&low[..]), Bound::Included(&high[..]));
    assert_eq!(manager.acquire_range(&mut reader, TABLE, bounds, OnConflict::Abort), Ok(()));
    let mut insert = |key: &[u8]| manager.acquire_point(&mut writer, TABLE, key, OnConflict::Abort);
    assert_eq!(insert(&beside), Ok(()));
    assert_eq!(insert(&low[..199]), Ok(()));
    assert_eq!(insert(&low), Err(Denied::Conflict));
    assert_eq!(insert(&high), Err(Denied::Conflict));
    manager.release(&mut writer);
    manager.release(&mut reader);
    assert_empty(&manager);
}
