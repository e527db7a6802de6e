//! Many threads on few locks: exclusion holds, no waiter is forgotten, and nothing is left.

use super::*;

/// The holders of one lock, as the holders themselves report: a count for each mode.
#[derive(Default)]
struct Holders([AtomicU64; 5]);

impl Holders {
    /// Enters, and looks who else is there.
    fn enter(&self, mode: Mode) {
        self.0[mode as usize].fetch_add(1, Ordering::SeqCst);
        for other in Mode::ALL {
            let there = self.0[other as usize].load(Ordering::SeqCst) - u64::from(other == mode);
            assert!(there == 0 || mode.is_compatible(other), "{mode:?} beside {there} {other:?}");
        }
    }

    fn leave(&self, mode: Mode) {
        self.0[mode as usize].fetch_sub(1, Ordering::SeqCst);
    }
}

/// One transaction of the stress: takes some locks, strengthens some, and says of each what it holds.
fn transaction(
    manager: &LockManager,
    locks: &mut Locks,
    holders: &[Holders],
    random: &mut fastrand::Rng,
) -> Result<(), Denied> {
    let mut entered: Vec<Option<Mode>> = vec![None; holders.len()];
    let on_conflict = if random.u32(0..8) == 0 { OnConflict::Abort } else { OnConflict::Wait };
    let result = (0..random.usize(1..5)).try_for_each(|_| {
        let at = random.usize(0..holders.len());
        manager.acquire(locks, record(at as u64), Mode::ALL[random.usize(0..5)], on_conflict)?;
        let mode = locks.mode(record(at as u64)).expect("it is held");
        if let Some(before) = entered[at].replace(mode) {
            holders[at].leave(before);
        }
        holders[at].enter(mode);
        if random.bool() {
            std::thread::yield_now();
        }
        Ok(())
    });
    for (at, mode) in entered.into_iter().enumerate() {
        mode.into_iter().for_each(|mode| holders[at].leave(mode));
    }
    result
}

fn stress(threads: u64, names: usize, rounds: u32) {
    let manager = Arc::new(LockManager::new());
    let holders: Arc<Vec<Holders>> = Arc::new((0..names).map(|_| Holders::default()).collect());
    let work = (0..threads).map(|seed| {
        let (manager, holders) = (Arc::clone(&manager), Arc::clone(&holders));
        let work = move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut locks = Locks::default();
            for _ in 0..rounds {
                let start_timestamp = manager.start_timestamp();
                loop {
                    locks.begin(start_timestamp);
                    let result = transaction(&manager, &mut locks, &holders, &mut random);
                    manager.release(&mut locks);
                    if result.is_ok() {
                        break;
                    }
                }
            }
        };
        Box::new(work) as Box<dyn FnOnce() + Send>
    });
    all_within_time(work.collect());
    assert_empty(&manager);
}

#[test]
fn eight_threads_on_one_lock() {
    stress(8, 1, 600);
}

#[test]
fn eight_threads_on_three_locks() {
    stress(8, 3, 600);
}

#[test]
fn two_threads_on_many_locks() {
    stress(2, 40, 3_000);
}

/// A word that only one may change at a time, without a lock of its own: an increment that is lost shows.
#[test]
fn what_a_holder_did_is_seen_by_the_next_one() {
    let manager = Arc::new(LockManager::new());
    let value = Arc::new(AtomicU64::new(0));
    const ROUNDS: u64 = 3_000;
    let work = (0..4).map(|_| {
        let (manager, value) = (Arc::clone(&manager), Arc::clone(&value));
        let work = move || {
            let mut locks = Locks::default();
            for _ in 0..ROUNDS {
                locks.begin(manager.start_timestamp());
                assert_eq!(manager.acquire(&mut locks, record(1), Mode::Exclusive, OnConflict::Wait), Ok(()));
                // Relaxed: only the lock orders them.
                value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                manager.release(&mut locks);
            }
        };
        Box::new(work) as Box<dyn FnOnce() + Send>
    });
    all_within_time(work.collect());
    assert_eq!(value.load(Ordering::Relaxed), 4 * ROUNDS);
    assert_empty(&manager);
}

/// Inserters count keys up in a small space, readers count twice what is there: the two counts are the same.
#[test]
fn a_range_that_is_held_has_no_phantoms() {
    let manager = Arc::new(LockManager::new());
    let keys: Arc<Vec<AtomicU64>> = Arc::new((0..16).map(|_| AtomicU64::new(0)).collect());
    let work = (0..8).map(|seed| {
        let (manager, keys) = (Arc::clone(&manager), Arc::clone(&keys));
        let work = move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut locks = Locks::default();
            for _ in 0..400 {
                let (start_timestamp, low) = (manager.start_timestamp(), random.u8(0..14));
                let high = random.u8(low..16);
                loop {
                    locks.begin(start_timestamp);
                    let done = if seed % 2 == 0 {
                        read_twice(&manager, &mut locks, &keys, low, high)
                    } else {
                        insert_both(&manager, &mut locks, &keys, low, high)
                    };
                    manager.release(&mut locks);
                    if done.is_ok() {
                        break;
                    }
                }
            }
        };
        Box::new(work) as Box<dyn FnOnce() + Send>
    });
    all_within_time(work.collect());
    assert_empty(&manager);
}

fn read_twice(
    manager: &LockManager,
    locks: &mut Locks,
    keys: &[AtomicU64],
    low: u8,
    high: u8,
) -> Result<(), Denied> {
    range(low, high)(manager, locks)?;
    let count = || -> u64 {
        keys[usize::from(low)..=usize::from(high)].iter().map(|key| key.load(Ordering::Relaxed)).sum()
    };
    let before = count();
    std::thread::yield_now();
    assert_eq!(count(), before, "a phantom between {low} and {high}");
    Ok(())
}

fn insert_both(
    manager: &LockManager,
    locks: &mut Locks,
    keys: &[AtomicU64],
    one: u8,
    other: u8,
) -> Result<(), Denied> {
    point(one)(manager, locks)?;
    point(other)(manager, locks)?;
    for key in [one, other] {
        keys[usize::from(key)].fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
