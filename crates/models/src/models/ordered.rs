//! The ordered index: nodes are replaced (split, merged, a new root) while others read, scan and write.

use std::ops::Bound;
use std::sync::Arc;
use std::thread;

use crossbeam_epoch::{Guard, pin};
use heddle_model_doors::execution::prepare;

use super::{MIDDLE, Model};
use crate::storage::index::ordered::OrderedIndex;
use crate::storage::index::{Insertion, Lookup};
use crate::storage::record::RecordPointer;
use crate::storage::word::ABSENT;

pub(super) const MODELS: &[Model] = &[
    Model::new("ordered::two_insert_side_by_side", MIDDLE, two_insert_side_by_side),
    Model::new("ordered::what_stays_is_found_while_nodes_are_replaced", MIDDLE, what_stays_is_found),
    Model::new("ordered::a_scan_meets_what_stays_once_and_in_order", MIDDLE, a_scan_meets_what_stays),
    Model::new("ordered::a_validated_miss_was_a_miss", MIDDLE, a_validated_miss_was_a_miss),
];

/// Keys of one byte: more than a small node holds.
fn with_keys(numbers: impl Iterator<Item = u8>) -> Arc<OrderedIndex> {
    prepare(|| {
        let index = Arc::new(OrderedIndex::new());
        numbers.for_each(|number| insert(&index, number, &pin()));
        index
    })
}

fn insert(index: &OrderedIndex, number: u8, guard: &Guard) {
    let pointer = RecordPointer::allocate(ABSENT, &[number], 0);
    // SAFETY: it was just made, and leaves the index before it is freed.
    let inserted = index.insert(unsafe { pointer.as_record() }, |_| {}, guard);
    assert!(matches!(inserted, Insertion::Inserted { .. }), "no other thread inserts {number}");
}

fn remove(index: &OrderedIndex, number: u8, guard: &Guard) {
    let Lookup::Found(record) = index.get(&[number], guard) else { panic!("{number} is lost") };
    assert!(index.remove(record, guard));
    let pointer = record.pointer();
    // SAFETY: it has left the index, and no other thread takes it out.
    unsafe { guard.defer_unchecked(move || pointer.free()) };
}

fn numbers(index: &OrderedIndex) -> Vec<u8> {
    let (mut found, mut from) = (Vec::new(), vec![]);
    loop {
        let guard = pin();
        let mut records = Vec::new();
        let page = index.page_forward(Bound::Included(&from), &mut records, &guard);
        found.extend(records.iter().map(|record| record.key()[0]));
        match page.next {
            Some(next) => from = next.to_vec(),
            None => return found,
        }
    }
}

/// The others' root and inner nodes split under each inserter.
fn two_insert_side_by_side() {
    let index = with_keys((0..40).step_by(10));
    let other = {
        let index = index.clone();
        thread::spawn(move || [5, 15, 25, 35, 36].iter().for_each(|&number| insert(&index, number, &pin())))
    };
    [1, 11, 21, 31, 32].iter().for_each(|&number| insert(&index, number, &pin()));
    other.join().expect("it ends");
    assert_eq!(numbers(&index), [0, 1, 5, 10, 11, 15, 20, 21, 25, 30, 31, 32, 35, 36]);
}

fn what_stays_is_found() {
    let index = with_keys(0..16);
    let remover = {
        let index = index.clone();
        // Whole leaves become empty: they are merged, and the tree loses a level.
        thread::spawn(move || (4..14).for_each(|number| remove(&index, number, &pin())))
    };
    let inserter = {
        let index = index.clone();
        thread::spawn(move || (20..24).for_each(|number| insert(&index, number, &pin())))
    };
    for number in [0, 3, 14, 15] {
        let guard = pin();
        let Lookup::Found(record) = index.get(&[number], &guard) else { panic!("{number} is lost") };
        assert_eq!(record.key(), [number]);
    }
    remover.join().expect("it ends");
    inserter.join().expect("it ends");
    assert_eq!(numbers(&index), [0, 1, 2, 3, 14, 15, 20, 21, 22, 23]);
}

fn a_scan_meets_what_stays() {
    let index = with_keys((0..20).step_by(2));
    let changer = {
        let index = index.clone();
        thread::spawn(move || {
            [1, 3, 5, 7].iter().for_each(|&number| insert(&index, number, &pin()));
            [10, 12, 14].iter().for_each(|&number| remove(&index, number, &pin()));
        })
    };
    let seen = numbers(&index);
    assert!(seen.is_sorted_by(|left, right| left < right), "not in order: {seen:?}");
    assert!(
        [0, 2, 4, 6, 8, 16, 18].iter().all(|number| seen.contains(number)),
        "something is lost: {seen:?}"
    );
    changer.join().expect("it ends");
}

fn a_validated_miss_was_a_miss() {
    let index = with_keys([0, 10, 20, 30].into_iter());
    let inserter = {
        let index = index.clone();
        thread::spawn(move || [11, 12, 15].iter().for_each(|&number| insert(&index, number, &pin())))
    };
    let guard = pin();
    let missed = index.get(&[15], &guard);
    let mut records = Vec::new();
    let page = index.page_forward(Bound::Included(&[10]), &mut records, &guard);
    let (scanned, next) = (records.iter().any(|record| record.key() == [15]), page.next.map(|next| next[0]));
    inserter.join().expect("it ends");
    if let Lookup::Missing(version) = missed {
        assert!(!version.is_current(), "the key came in, and its miss is still believed");
    }
    let covered = next.is_none_or(|next| next > 15);
    assert!(!covered || scanned || !page.version.is_current(), "a phantom");
}
