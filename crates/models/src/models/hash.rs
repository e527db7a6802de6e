//! The hash index: inserts, removals, look-ups and splits side by side.

use std::sync::Arc;
use std::thread;

use crossbeam_epoch::{Guard, pin};
use heddle_model_doors::execution::prepare;

use super::{MIDDLE, Model};
use crate::storage::index::hash::{HashIndex, hash_key};
use crate::storage::index::{Insertion, Lookup};
use crate::storage::record::{Record, RecordPointer};
use crate::storage::row::RowLayout;
use crate::storage::word::ABSENT;

pub(super) const MODELS: &[Model] = &[
    Model::new("hash::one_record_for_each_key", MIDDLE, one_record_for_each_key),
    Model::new("hash::what_stays_is_found_while_others_come_and_go", MIDDLE, what_stays_is_found),
    Model::new("hash::a_validated_miss_was_a_miss", MIDDLE, a_validated_miss_was_a_miss),
    Model::new("hash::a_removed_record_is_not_freed_under_a_reader", MIDDLE, a_removed_record_is_not_freed),
];

/// Enough keys for splits, where a segment has few buckets.
const MANY: u64 = 28;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn insert<'g>(index: &'g HashIndex, number: u64, guard: &'g Guard) -> Insertion<'g> {
    let key = key(number);
    let make = || RecordPointer::allocate(ABSENT, &key, 1);
    // SAFETY: the index did not take it.
    let discard = |made: RecordPointer| unsafe { made.free() };
    index.get_or_insert(hash_key(&key), &key, make, discard, guard)
}

fn find<'g>(index: &'g HashIndex, number: u64, guard: &'g Guard) -> Lookup<'g> {
    index.get(hash_key(&key(number)), &key(number), guard)
}

/// Takes the key out and frees its record, as the collector does.
fn remove(index: &HashIndex, number: u64, guard: &Guard) {
    if let Lookup::Found(record) = find(index, number, guard)
        && index.remove(hash_key(record.key()), record, guard)
    {
        let pointer = record.pointer();
        // SAFETY: it has left the index, and only the thread that removed it executes this.
        unsafe { guard.defer_unchecked(move || pointer.free()) };
    }
}

/// Checks that a record is alive and has this key: a freed one's memory is marked.
fn check(record: Record<'_>, number: u64) {
    assert_eq!(record.key(), key(number), "a record of another key, or a freed one");
}

fn with_keys(numbers: impl Iterator<Item = u64>) -> Arc<HashIndex> {
    prepare(|| {
        let index = Arc::new(HashIndex::new());
        for number in numbers {
            assert!(matches!(insert(&index, number, &pin()), Insertion::Inserted { .. }));
        }
        index
    })
}

/// Two threads insert the same keys; each key has one record, and both threads have it.
fn one_record_for_each_key() {
    let index = with_keys(0..MANY - 4);
    let run = |index: &HashIndex| -> Vec<usize> {
        let inserted = (MANY - 4..MANY).map(|number| {
            let guard = pin();
            let (Insertion::Found(record) | Insertion::Inserted { record, .. }) =
                insert(index, number, &guard);
            check(record, number);
            record.pointer().memory().as_ptr().addr()
        });
        inserted.collect()
    };
    let other = {
        let index = index.clone();
        thread::spawn(move || run(&index))
    };
    assert_eq!(run(&index), other.join().expect("it ends"));
}

/// While one inserts (and splits) and one removes, a third finds what was there throughout.
fn what_stays_is_found() {
    let index = with_keys(0..MANY - 8);
    let inserter = {
        let index = index.clone();
        thread::spawn(move || {
            for number in MANY..MANY + 10 {
                insert(&index, number, &pin());
            }
        })
    };
    let remover = {
        let index = index.clone();
        thread::spawn(move || (0..4).for_each(|number| remove(&index, number, &pin())))
    };
    for number in 4..MANY - 8 {
        let guard = pin();
        let Lookup::Found(record) = find(&index, number, &guard) else { panic!("{number} is lost") };
        check(record, number);
    }
    inserter.join().expect("it ends");
    remover.join().expect("it ends");
    let guard = pin();
    assert!((0..4).all(|number| matches!(find(&index, number, &guard), Lookup::Missing(_))));
    assert!((MANY..MANY + 10).all(|number| matches!(find(&index, number, &guard), Lookup::Found(_))));
}

/// A miss whose version is still current after the insert has ended: impossible.
fn a_validated_miss_was_a_miss() {
    let index = with_keys(0..MANY - 8);
    let inserter = {
        let index = index.clone();
        thread::spawn(move || {
            // The split that these cause sometimes happens between the miss and the insert.
            for number in (MANY..MANY + 12).chain([99]) {
                insert(&index, number, &pin());
            }
        })
    };
    let guard = pin();
    let missed = find(&index, 99, &guard);
    inserter.join().expect("it ends");
    if let Lookup::Missing(version) = missed {
        assert!(!version.is_current(), "the key came in, and its miss is still believed");
    }
}

/// Readers find the record or miss it, and use it while it is removed and freed, and its key is inserted
/// again.
fn a_removed_record_is_not_freed() {
    let index = with_keys(0..2);
    let remover = {
        let index = index.clone();
        thread::spawn(move || {
            remove(&index, 1, &pin());
            insert(&index, 1, &pin());
        })
    };
    for _ in 0..3 {
        let guard = pin();
        if let Lookup::Found(record) = find(&index, 1, &guard) {
            heddle_model_doors::thread::yield_now();
            assert_eq!(record.read(RowLayout::empty(), &mut [0]), ABSENT);
            check(record, 1);
        }
    }
    remover.join().expect("it ends");
    let (guard, mut records, mut cursor) = (pin(), Vec::new(), None);
    loop {
        cursor = index.page(cursor, &mut records, &mut Vec::new(), &guard);
        if cursor.is_none() {
            break;
        }
    }
    assert!(records.iter().all(|record| record.read(RowLayout::empty(), &mut [0]) == ABSENT));
    assert_eq!(records.len(), 2, "an entry too many or too few");
}
