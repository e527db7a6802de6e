//! Database, table, record: intentions, what covers what, and what is counted.

use super::*;

fn take(manager: &LockManager, locks: &mut Locks, name: LockName, mode: Mode) {
    assert_eq!(manager.acquire(locks, name, mode, OnConflict::Abort), Ok(()));
}

fn setup_one() -> (LockManager, Locks) {
    let (manager, mut locks) = (LockManager::new(), Locks::default());
    locks.begin(manager.start_timestamp());
    (manager, locks)
}

#[test]
fn a_record_s_lock_brings_intentions_above_it_once() {
    let (manager, mut locks) = setup_one();
    take(&manager, &mut locks, record(1), Mode::Shared);
    let held: Vec<_> = locks.held.iter().map(|held| (held.name, held.mode)).collect();
    let expected = [
        (LockName::Database, Mode::IntentionShared),
        (LockName::Table(TABLE), Mode::IntentionShared),
        (record(1), Mode::Shared),
    ];
    assert_eq!(held, expected);
    take(&manager, &mut locks, record(2), Mode::Shared);
    assert_eq!(locks.taken(), Taken { rows: 2, gap_locks: 0, higher: 2 });
    take(&manager, &mut locks, record(2), Mode::Exclusive);
    assert_eq!(locks.mode(LockName::Table(TABLE)), Some(Mode::IntentionExclusive));
    assert_eq!(locks.mode(LockName::Database), Some(Mode::IntentionExclusive));
    assert_eq!(locks.taken(), Taken { rows: 3, gap_locks: 0, higher: 4 });
    manager.release(&mut locks);
    assert_empty(&manager);
}

#[test]
fn what_is_held_is_not_taken_again() {
    let (manager, mut locks) = setup_one();
    take(&manager, &mut locks, record(1), Mode::Exclusive);
    let taken = locks.taken();
    for mode in Mode::ALL {
        take(&manager, &mut locks, record(1), mode);
    }
    for mode in [Mode::IntentionShared, Mode::IntentionExclusive] {
        take(&manager, &mut locks, LockName::Table(TABLE), mode);
    }
    assert_eq!(locks.taken(), taken);
    manager.release(&mut locks);
}

#[test]
fn a_lock_on_the_whole_table_makes_those_below_needless() {
    let (manager, mut locks) = setup_one();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    take(&manager, &mut locks, LockName::Table(TABLE), Mode::Shared);
    take(&manager, &mut locks, record(1), Mode::Shared);
    assert_eq!(manager.acquire_range(&mut locks, TABLE, everything, OnConflict::Abort), Ok(()));
    assert_eq!(locks.taken(), Taken { rows: 0, gap_locks: 0, higher: 2 });
    take(&manager, &mut locks, record(1), Mode::Exclusive);
    assert_eq!(locks.mode(LockName::Table(TABLE)), Some(Mode::SharedIntentionExclusive));
    assert_eq!(locks.taken(), Taken { rows: 1, gap_locks: 0, higher: 4 });
    take(&manager, &mut locks, LockName::Table(TABLE), Mode::Exclusive);
    take(&manager, &mut locks, record(2), Mode::Exclusive);
    assert_eq!(manager.acquire_point(&mut locks, TABLE, b"a", OnConflict::Abort), Ok(()));
    assert_eq!(locks.taken(), Taken { rows: 1, gap_locks: 0, higher: 5 });
    manager.release(&mut locks);
    assert_empty(&manager);
}

#[test]
fn a_lock_on_the_database_makes_all_others_needless() {
    let (manager, mut locks) = setup_one();
    take(&manager, &mut locks, LockName::Database, Mode::Exclusive);
    take(&manager, &mut locks, record(1), Mode::Exclusive);
    take(&manager, &mut locks, LockName::Table(9), Mode::Shared);
    assert_eq!(manager.acquire_point(&mut locks, TABLE, b"a", OnConflict::Abort), Ok(()));
    assert_eq!(locks.taken(), Taken { rows: 0, gap_locks: 0, higher: 1 });
    let mut other = Locks::default();
    let refused = manager.acquire(&mut other, record(9), Mode::Shared, OnConflict::Abort);
    assert_eq!(refused, Err(Denied::Conflict));
    manager.release(&mut other);
    manager.release(&mut locks);
    assert_empty(&manager);
}

#[test]
fn a_lock_on_a_table_keeps_those_below_away_and_others_not() {
    let (manager, mut locks) = setup_one();
    let mut other = Locks::default();
    take(&manager, &mut locks, LockName::Table(TABLE), Mode::Shared);
    take(&manager, &mut other, record(1), Mode::Shared);
    take(&manager, &mut other, LockName::Record { table: 8, key: 1 }, Mode::Exclusive);
    let refused = manager.acquire(&mut other, record(1), Mode::Exclusive, OnConflict::Abort);
    assert_eq!(refused, Err(Denied::Conflict));
    let refused = manager.acquire_point(&mut other, TABLE, b"a", OnConflict::Abort);
    assert_eq!(refused, Err(Denied::Conflict));
    manager.release(&mut other);
    manager.release(&mut locks);
    assert_empty(&manager);
}

#[test]
fn a_no_wait_request_is_refused_at_once_and_keeps_its_locks() {
    let (manager, mut locks) = setup_one();
    let mut other = Locks::default();
    other.begin(manager.start_timestamp());
    take(&manager, &mut locks, record(1), Mode::Exclusive);
    take(&manager, &mut other, record(2), Mode::Exclusive);
    let before = other.taken();
    for mode in [Mode::Shared, Mode::Exclusive] {
        let refused = manager.acquire(&mut other, record(1), mode, OnConflict::Abort);
        assert_eq!(refused, Err(Denied::Conflict));
    }
    assert_eq!((other.taken(), other.mode(record(2))), (before, Some(Mode::Exclusive)));
    manager.release(&mut locks);
    take(&manager, &mut other, record(1), Mode::Exclusive);
    manager.release(&mut other);
    assert_empty(&manager);
}

#[test]
fn very_many_locks_come_and_go() {
    let (manager, mut locks) = setup_one();
    const MANY: u32 = 20_000;
    for key in 0..MANY {
        take(&manager, &mut locks, record(key.into()), Mode::Exclusive);
        let point = manager.acquire_point(&mut locks, TABLE, &key.to_be_bytes(), OnConflict::Abort);
        assert_eq!(point, Ok(()));
    }
    let taken = Taken { rows: MANY.into(), gap_locks: MANY.into(), higher: 2 };
    assert_eq!(locks.taken(), taken);
    assert_eq!(manager.table.len(), MANY as usize + 2);
    for key in 0..MANY {
        take(&manager, &mut locks, record(key.into()), Mode::Shared);
    }
    assert_eq!(locks.taken(), taken);
    manager.release(&mut locks);
    assert_empty(&manager);
    manager.release(&mut locks);
}

#[test]
fn start_timestamps_rise() {
    let manager = LockManager::new();
    let start_timestamps: Vec<u64> = (0..10).map(|_| manager.start_timestamp()).collect();
    assert!(start_timestamps.is_sorted_by(|one, next| one < next));
}
