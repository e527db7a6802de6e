//! Rival threads: nothing is lost, seen twice or out of order, and versions hold while others write.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::*;

const WRITERS: u64 = 3;
const ROUNDS: u64 = if cfg!(debug_assertions) { 40 } else { 400 };

/// Eight bytes behind a prefix that most nodes have in common.
fn key_of(number: u64) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// A record for the index alone: `take_out` frees it.
fn put_in<const F: usize>(index: &OrderedIndex<F>, number: u64, guard: &Guard) -> bool {
    let pointer = RecordPointer::allocate(0, &key_of(number), 0);
    // SAFETY: freed only when it is not in the index, or by `take_out` behind this guard.
    let record = unsafe { pointer.as_record() };
    let inserted = was_inserted(&index.insert(record, |_| {}, guard));
    if !inserted {
        // SAFETY: the index has not taken it, and it is not shared.
        unsafe { pointer.free() };
    }
    inserted
}

fn take_out<const F: usize>(index: &OrderedIndex<F>, number: u64, guard: &Guard) -> bool {
    let Lookup::Found(record) = index.get(&key_of(number), guard) else { return false };
    let pointer = record.pointer();
    let removed = index.remove(record, guard);
    if removed {
        // SAFETY: it has left the index, and only the thread that removed it frees it.
        unsafe { guard.defer_unchecked(move || pointer.free()) };
    }
    removed
}

/// Tells the watchers that the writers are done, even when a writer has failed: then the test fails instead of
/// hanging.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes all records out and frees them.
fn clear<const F: usize>(index: &OrderedIndex<F>) {
    let guard = crossbeam_epoch::pin();
    for record in scan_forward(index, Bound::Unbounded, &guard).0 {
        let pointer = record.pointer();
        assert!(index.remove(record, &guard));
        // SAFETY: as in `take_out`.
        unsafe { guard.defer_unchecked(move || pointer.free()) };
    }
    assert_eq!(shape_of(index, &guard), Shape { levels: 1, leaves: 1, entries: 0 });
}

fn numbers(records: &[Record<'_>]) -> Vec<u64> {
    records
        .iter()
        .map(|record| u64::from_be_bytes(*record.key().last_chunk().expect("keys end in a number")))
        .collect()
}

/// Scans both ways and looks keys up until `done`: every tenth number is always there.
fn watch<const F: usize>(index: &OrderedIndex<F>, limit: u64, done: &AtomicBool) -> u64 {
    let mut scans = 0;
    while !done.load(Ordering::Relaxed) {
        let guard = crossbeam_epoch::pin();
        let forward = numbers(&scan_forward(index, Bound::Unbounded, &guard).0);
        let mut backward = numbers(&scan_backward(index, Bound::Unbounded, &guard).0);
        backward.reverse();
        for seen in [forward, backward] {
            assert!(seen.is_sorted_by(|left, right| left < right), "in order, each once");
            let stays = seen.into_iter().filter(|number| number.is_multiple_of(10));
            assert!(stays.eq((0..limit).step_by(10)), "all that stays is seen");
        }
        for _ in 0..10 {
            for number in (0..limit).step_by(10) {
                assert!(is_found(&index.get(&key_of(number), &guard)), "{number}");
            }
        }
        scans += 1;
    }
    scans
}

/// Each writer puts in and takes out its own numbers; everything it does must succeed.
fn disjoint<const F: usize>(limit: u64) {
    let (index, done) = (OrderedIndex::<F>::with_fan_out(), AtomicBool::new(false));
    for number in (0..limit).step_by(10) {
        put_in(&index, number, &crossbeam_epoch::pin());
    }
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&index, limit, &done));
        let writers = (0..WRITERS).map(|writer| {
            let index = &index;
            scope.spawn(move || {
                let own = |number: &u64| !number.is_multiple_of(10) && number % WRITERS == writer;
                for round in 0..ROUNDS {
                    let span = if round.is_multiple_of(2) { 0..limit } else { 0..limit / 4 };
                    for number in span.clone().filter(own) {
                        assert!(put_in(index, number, &crossbeam_epoch::pin()));
                    }
                    for number in span.rev().filter(own) {
                        assert!(take_out(index, number, &crossbeam_epoch::pin()));
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let announce = Done(&done);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(announce);
        assert!(watcher.join().unwrap() > 0);
    });
    assert_eq!(shape_of(&index, &crossbeam_epoch::pin()).entries as u64, limit.div_ceil(10));
    clear(&index);
}

#[test]
fn scans_see_all_that_stays_while_others_write_small_nodes() {
    disjoint::<4>(400);
}

#[test]
fn scans_see_all_that_stays_while_others_write_full_sized_nodes() {
    disjoint::<64>(2000);
}

/// All writers at the same few keys: per key, inserts and removals that succeed take turns.
fn overlapping<const F: usize>(limit: u64) {
    let index = OrderedIndex::<F>::with_fan_out();
    let balance: Vec<AtomicI64> = (0..limit).map(|_| AtomicI64::new(0)).collect();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS + 1 {
            let (index, balance) = (&index, &balance);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer);
                for step in 0..ROUNDS * 500 {
                    let number = random.u64(0..limit);
                    let guard = crossbeam_epoch::pin();
                    // Phases in which most steps insert, and phases in which most remove.
                    if random.u64(0..4) < if (step / 500).is_multiple_of(2) { 3 } else { 1 } {
                        let inserted = put_in(index, number, &guard);
                        balance[number as usize].fetch_add(i64::from(inserted), Ordering::Relaxed);
                    } else {
                        let removed = take_out(index, number, &guard);
                        balance[number as usize].fetch_sub(i64::from(removed), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let guard = crossbeam_epoch::pin();
    for number in 0..limit {
        let there = i64::from(is_found(&index.get(&key_of(number), &guard)));
        assert_eq!(balance[number as usize].load(Ordering::Relaxed), there, "{number}");
    }
    let total: i64 = balance.iter().map(|balance| balance.load(Ordering::Relaxed)).sum();
    assert_eq!(shape_of(&index, &guard).entries as i64, total);
    drop(guard);
    clear(&index);
}

#[test]
fn rivals_at_the_same_keys_agree_on_who_did_what_in_small_nodes() {
    overlapping::<4>(60);
}

#[test]
fn rivals_at_the_same_keys_agree_on_who_did_what_in_full_sized_nodes() {
    overlapping::<64>(500);
}

/// If all versions of a scan are still current after a second scan, both saw the same.
#[test]
fn current_versions_mean_that_there_was_no_phantom() {
    let (index, done) = (OrderedIndex::<4>::with_fan_out(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let _announce = Done(&done);
            let mut random = fastrand::Rng::with_seed(3);
            for _ in 0..ROUNDS * 200 {
                let number = random.u64(0..40);
                let guard = crossbeam_epoch::pin();
                if !put_in(&index, number, &guard) {
                    take_out(&index, number, &guard);
                }
                // Gives scans a chance to pass undisturbed.
                for _ in 0..random.u32(0..2000) {
                    std::hint::spin_loop();
                }
            }
        });
        let mut held = 0_u32;
        while !done.load(Ordering::Relaxed) {
            let guard = crossbeam_epoch::pin();
            let (first, versions) = scan_forward(&index, Bound::Unbounded, &guard);
            let (mut second, _) = scan_backward(&index, Bound::Unbounded, &guard);
            second.reverse();
            if versions.iter().all(NodeVersion::is_current) {
                held += 1;
                assert_eq!(first, second);
            }
        }
        writer.join().unwrap();
        assert!(held > 0);
    });
    clear(&index);
}
