//! The record word against the collector, and the nodes that misses are validated by.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use crossbeam_epoch::pin;
use heddle_model_doors::execution::prepare;

use super::{Model, SMALL};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::storage::index::hash::HashIndex;
use crate::storage::index::{Insertion, Lookup};
use crate::storage::read_set::ReadSet;
use crate::storage::record::RecordPointer;
use crate::storage::row::RowLayout;
use crate::storage::word::{ABSENT, BUSY, DEAD, PLACEHOLDER, Stamp};

pub(super) const MODELS: &[Model] = &[
    Model::new("record::a_placeholder_is_filled_or_collected", SMALL, a_placeholder_is_filled_or_collected),
    Model::new("record::no_two_insert_what_the_other_missed", SMALL, no_two_insert_what_the_other_missed),
];

/// A record with its words touched; it is freed with the model's memory.
fn record(word: u64, key: &'static [u8], words: usize) -> RecordPointer {
    let pointer = RecordPointer::allocate(word, key, words);
    // SAFETY: it was just made, and is not freed while the model runs.
    let record = unsafe { pointer.as_record() };
    assert_eq!(record.word().load(Ordering::Relaxed), word);
    record.row().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    pointer
}

/// A commit fills a placeholder (as `storage/commit/lock_writes.rs`, `take_from_rivals`, and `install.rs` do), the
/// collector takes it out (as `storage/reclaim.rs`, `take_out`), a reader reads: exactly one of the two has it, and
/// the reader sees nothing, a whole row, or that it is dead.
fn a_placeholder_is_filled_or_collected() {
    let pointer = record(PLACEHOLDER, b"key", 2);
    // SAFETY: it is not freed while the model runs.
    let record = unsafe { pointer.as_record() };
    let committer = thread::spawn(move || {
        let word = record.word();
        if word
            .compare_exchange(PLACEHOLDER, PLACEHOLDER | BUSY, Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        crate::base::atomics::fence(Ordering::Release);
        record.row().iter().for_each(|word| word.store(9, Ordering::Relaxed));
        word.store(Stamp::new(1, 1).present(), Ordering::Release);
        true
    });
    let collector = thread::spawn(move || {
        record.word().compare_exchange(PLACEHOLDER, DEAD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let mut copy = [0; 2];
    let word = record.read(RowLayout::empty(), &mut copy);
    assert!(word & ABSENT != 0 || copy == [9, 9], "{word:x} with {copy:?}");
    let (filled, collected) = (committer.join().expect("it ends"), collector.join().expect("it ends"));
    assert!(filled != collected, "filled {filled}, collected {collected}");
    let end = record.read(RowLayout::empty(), &mut copy);
    assert!(if filled { end & ABSENT == 0 && copy == [9, 9] } else { end == DEAD });
}

/// Two transactions each miss the key that the other inserts; each inserts, takes its record as the commit section
/// does, and validates its miss: not both may find it still missing.
fn no_two_insert_what_the_other_missed() {
    let index = prepare(|| {
        let index = Arc::new(HashIndex::new());
        // Every word of both buckets is touched.
        for hash in [0, 1] {
            let guard = pin();
            let Insertion::Inserted { record: made, .. } =
                index.get_or_insert(hash, b"old", || record(ABSENT, b"old", 0), |_| {}, &guard)
            else {
                panic!("the index is empty")
            };
            assert!(index.remove(hash, made, &guard));
            assert!(matches!(index.get(hash, b"new", &guard), Lookup::Missing(_)));
        }
        index
    });
    let insert = |index: &HashIndex, own: u64, other: u64| {
        let guard = pin();
        let Lookup::Missing(missed) = index.get(other, b"new", &guard) else { return false };
        let made = record(PLACEHOLDER, b"new", 0);
        let Insertion::Inserted { record, .. } = index.get_or_insert(own, b"new", || made, |_| {}, &guard)
        else {
            panic!("no other thread inserts this key")
        };
        let word: &AtomicU64 = record.word();
        let mut reads = ReadSet::default();
        reads.note_node(missed);
        word.compare_exchange(PLACEHOLDER, PLACEHOLDER | BUSY, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            && reads.still_holds(|_| false, &Cell::default())
    };
    let other = {
        let index = index.clone();
        thread::spawn(move || insert(&index, 1, 0))
    };
    let own = insert(&index, 0, 1);
    assert!(!(own & other.join().expect("it ends")), "each has inserted what the other has missed");
}
