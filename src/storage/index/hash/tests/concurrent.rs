//! Several threads on one index, with splits all the while.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst, fence};
use std::thread;

use crossbeam_epoch as epoch;

use super::*;

const THREADS: u64 = 4;

#[test]
fn disjoint_keys_of_four_threads_do_not_disturb_each_other() {
    let owner = Owner::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let owner = &owner;
            scope.spawn(move || {
                for at in 0..4_000 {
                    let key = key(at * THREADS + thread);
                    let guard = epoch::pin();
                    assert!(matches!(owner.insert(&key, &guard), Insertion::Inserted { .. }));
                    assert!(owner.find(&key, &guard).is_some());
                    if at % 3 == 0 {
                        assert!(owner.remove(&key, &guard));
                        assert!(owner.find(&key, &guard).is_none());
                    }
                }
            });
        }
    });
    let guard = epoch::pin();
    for at in 0..4_000 * THREADS {
        assert_eq!(owner.find(&key(at), &guard).is_some(), !(at / THREADS).is_multiple_of(3));
    }
}

#[test]
fn of_many_inserters_of_a_key_exactly_one_inserts() {
    let (owner, barrier) = (Owner::new(), Barrier::new(THREADS as usize));
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for at in 0..4_000 {
                    let guard = epoch::pin();
                    let record = match owner.insert(&key(at), &guard) {
                        Insertion::Found(record) => record,
                        Insertion::Inserted { record, .. } => {
                            inserted.fetch_add(1, SeqCst);
                            record
                        }
                    };
                    assert_eq!(owner.find(&key(at), &guard), Some(record));
                }
            });
        }
    });
    assert_eq!(inserted.load(SeqCst), 4_000);
}

#[test]
fn inserts_and_removals_of_shared_keys_balance() {
    const KEYS: u64 = 64;
    let owner = Owner::new();
    let inserted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let removed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (owner, inserted, removed) = (&owner, &inserted, &removed);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for round in 0..20_000 {
                    let guard = epoch::pin();
                    let at = random.u64(0..KEYS);
                    if random.bool() {
                        if let Insertion::Inserted { .. } = owner.insert(&key(at), &guard) {
                            inserted[at as usize].fetch_add(1, SeqCst);
                        }
                    } else if owner.remove(&key(at), &guard) {
                        removed[at as usize].fetch_add(1, SeqCst);
                    }
                    if let Some(record) = owner.find(&key(at), &guard) {
                        assert_eq!(number(record), at);
                    }
                    // Now and then new keys, so that segments split under the others.
                    if round % 16 == 0 {
                        owner.insert(&key(KEYS + round * THREADS + thread), &guard);
                    }
                }
            });
        }
    });
    let guard = epoch::pin();
    for at in 0..KEYS {
        let balance = inserted[at as usize].load(SeqCst) - removed[at as usize].load(SeqCst);
        assert_eq!(balance, u64::from(owner.find(&key(at), &guard).is_some()), "key {at}");
    }
}

#[test]
fn keys_that_stay_are_found_at_all_times() {
    const STAYING: u64 = 500;
    let (owner, done) = (Owner::new(), AtomicBool::new(false));
    for at in 0..STAYING {
        owner.insert(&key(at), &epoch::pin());
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let guard = epoch::pin();
                    for at in 0..STAYING {
                        assert_eq!(owner.find(&key(at), &guard).map(number), Some(at));
                    }
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let owner = &owner;
                scope.spawn(move || insert_and_remove_some(owner, STAYING + writer * 100_000))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer failed"));
        done.store(true, SeqCst);
    });
}

fn insert_and_remove_some(owner: &Owner, first: u64) {
    for at in first..first + 8_000 {
        let guard = epoch::pin();
        owner.insert(&key(at), &guard);
        if at % 4 == 0 {
            owner.remove(&key(at), &guard);
        }
    }
}

#[test]
fn a_scan_sees_what_stays_once_while_segments_split() {
    const STAYING: u64 = 500;
    let owner = Owner::new();
    for at in 0..STAYING {
        owner.insert(&key(at), &epoch::pin());
    }
    thread::scope(|scope| {
        let writer = scope.spawn(|| insert_and_remove_some(&owner, STAYING));
        while !writer.is_finished() {
            let guard = epoch::pin();
            let (records, _) = owner.scan(&guard);
            let numbers: HashSet<u64> = records.iter().map(|&record| number(record)).collect();
            assert_eq!(numbers.len(), records.len(), "a key was seen twice");
            assert!((0..STAYING).all(|at| numbers.contains(&at)), "a key was not seen");
        }
    });
}

/// Two inserters, each of which misses the other's key: with a fence between, not both misses may hold.
#[test]
fn of_two_inserts_that_each_depend_on_the_others_miss_at_most_one_is_valid() {
    let (owner, barrier) = (Owner::new(), Barrier::new(2));
    let rounds = 3_000;
    let valid: Vec<AtomicUsize> = (0..rounds).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for side in 0..2 {
            let (owner, barrier, valid) = (&owner, &barrier, &valid);
            scope.spawn(move || {
                for round in 0..rounds as u64 {
                    barrier.wait();
                    let guard = epoch::pin();
                    let Lookup::Missing(miss) = owner.get(&key(round * 2 + 1 - side), &guard) else {
                        continue;
                    };
                    owner.insert(&key(round * 2 + side), &guard);
                    fence(SeqCst);
                    if miss.is_current() {
                        valid[round as usize].fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    assert!(valid.iter().all(|count| count.load(SeqCst) < 2));
}

/// A record that is found is never freed memory: readers look at records that writers keep removing and retiring.
#[test]
fn records_found_are_alive_while_others_retire_them() {
    let (owner, done) = (Owner::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..30_000_u64 {
                let guard = epoch::pin();
                owner.insert(&key(round % 50), &guard);
                owner.remove(&key((round + 25) % 50), &guard);
                if round % 8 == 0 {
                    owner.insert(&key(1_000 + round), &guard);
                }
            }
            done.store(true, SeqCst);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    for at in 0..50 {
                        let guard = epoch::pin();
                        if let Some(record) = owner.find(&key(at), &guard) {
                            assert_eq!((number(record), record.row().len()), (at, 1));
                        }
                    }
                }
            });
        }
    });
}

/// No miss that was noted before an insert is valid after it, wherever splits have put the key's bucket meanwhile.
#[test]
fn no_miss_survives_an_insert_that_races_with_splits() {
    const KEYS: u64 = 6_000;
    const AHEAD: u64 = 6;
    let (owner, inserted) = (Owner::new(), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..KEYS {
                owner.insert(&key(at), &epoch::pin());
                inserted.store(at + 1, SeqCst);
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                while inserted.load(SeqCst) < KEYS {
                    let guard = epoch::pin();
                    let next = inserted.load(SeqCst);
                    let misses: Vec<_> = (next..next + AHEAD)
                        .filter_map(|at| match owner.get(&key(at), &guard) {
                            Lookup::Missing(miss) => Some((at, miss)),
                            Lookup::Found(_) => None,
                        })
                        .collect();
                    thread::yield_now();
                    let next = inserted.load(SeqCst);
                    assert!(misses.iter().all(|(at, miss)| *at >= next || !miss.is_current()));
                }
            });
        }
    });
}
