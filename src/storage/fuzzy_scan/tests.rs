//! A scan copies every record once, as some commit left it, whatever happens meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::operation::Operation;
use crate::storage::definition::{PrimaryIndex, TableDefinition};
use crate::storage::reconcile::{Wanted, begin_split, end_split};
use crate::storage::redo::Reader;
use crate::storage::restore::Loader;
use crate::storage::rig::Rig;
use crate::types::{DataType, Value};

fn definition(index: PrimaryIndex) -> TableDefinition {
    let table =
        TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64).not_null();
    table.column("note", DataType::Text).primary_key(["id"]).primary_index(index)
}

fn row(key: i64, n: i64) -> [Value; 3] {
    // Some notes lie in blocks of their own, some in their words, some are NULL.
    let note = match key % 3 {
        0 => Value::Null,
        1 => Value::Text(format!("n{n}")),
        _ => Value::Text(format!("{n} is what row {key} holds")),
    };
    [Value::Int(key), Value::Int(n), note]
}

const KINDS: [PrimaryIndex; 3] = [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both];

/// A rig that holds what these blocks of copies hold.
fn loaded(index: PrimaryIndex, last_epoch: u64, blocks: &[Vec<u8>]) -> Rig {
    let rig = Rig::new(definition(index));
    let mut loader = Loader::new(&rig.store, (1, last_epoch));
    blocks.iter().for_each(|block| assert!(loader.load(block).expect("copies") > 0));
    rig
}

/// Copies everything, into blocks of about this many bytes.
fn copies(rig: &Rig, bytes_max: usize) -> (Vec<Vec<u8>>, Copied) {
    let scan = LiveScan::new(vec![rig.table.clone()]);
    let mut copier = scan.copier();
    let (mut blocks, mut block) = (Vec::new(), Vec::new());
    while copier.copy_some(&rig.store, &mut block, bytes_max).expect("memory") {
        if block.len() >= bytes_max {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks.extend((!block.is_empty()).then_some(block));
    (blocks, copier.copied().clone())
}

#[test]
fn copies_are_the_rows_with_their_stamps_whatever_the_index_and_the_size_of_blocks() {
    for kind in KINDS {
        let rig = Rig::new(definition(kind));
        for key in 0..100 {
            rig.commit(|writer| writer.insert(&row(key, key))).expect("committed");
            if key % 10 == 0 {
                rig.seal();
            }
        }
        rig.commit(|writer| (10..20).for_each(|key| writer.delete(key))).expect("committed");
        rig.commit(|writer| writer.set(50, 1, &Value::Int(-1))).expect("committed");
        let epoch = rig.store.epochs().current();
        for bytes_max in [1, 100, 1 << 20] {
            let (blocks, copied) = copies(&rig, bytes_max);
            assert_eq!((copied.records(), copied.highest_epoch), (90, epoch), "{kind:?}");
            assert_eq!(blocks.len() == 90, bytes_max == 1);
            assert_eq!(loaded(kind, epoch, &blocks).rows(), rig.rows(), "{kind:?}, {bytes_max}");
        }
    }
}

#[test]
fn nothing_is_copied_of_an_empty_table_and_a_row_is_loaded_once_only() {
    let rig = Rig::new(definition(PrimaryIndex::Hash));
    assert_eq!(copies(&rig, 1), (Vec::new(), Copied::default()));
    rig.commit(|writer| writer.insert(&row(1, 1))).expect("committed");
    let (blocks, _) = copies(&rig, 1 << 20);
    let twice = Rig::new(definition(PrimaryIndex::Hash));
    let mut loader = Loader::new(&twice.store, (1, 9));
    assert_eq!(loader.load(&blocks[0]), Ok(1));
    assert!(loader.load(&blocks[0]).expect_err("twice").to_string().contains("twice"));
    let mut loader = Loader::new(&twice.store, (1, 0));
    assert!(loader.load(&blocks[0]).expect_err("too new").to_string().contains("epoch"));
}

/// Wherever the second of two copies of a row is, in the same batch or behind it, in the same block or a later one.
#[test]
fn a_row_that_is_there_twice_is_refused_whatever_the_index_and_leaves_nothing_that_breaks() {
    for kind in KINDS {
        let rig = Rig::new(definition(kind));
        rig.commit(|writer| (0..10).for_each(|key| writer.insert(&row(key, key)))).expect("committed");
        let (ones, _) = copies(&rig, 1);
        for (first, second) in [(0, 1), (0, 9), (4, 5), (8, 9)] {
            let mut block = ones.concat();
            let again = ones[first].clone();
            let at: usize = ones[..=second].iter().map(Vec::len).sum();
            block.splice(at..at, again);
            let twice = Rig::new(definition(kind));
            let mut loader = Loader::new(&twice.store, (1, 9));
            let refused = loader.load(&block).expect_err("twice").to_string();
            assert!(refused.contains("twice"), "{kind:?}, {first} after {second}: {refused}");
            // What came before may be there, once, and can be used.
            assert!(twice.rows().iter().all(|row| rig.rows().contains(row)));
        }
    }
}

#[test]
fn a_kind_of_value_that_no_copy_has_is_refused() {
    let rig = Rig::new(definition(PrimaryIndex::Hash));
    rig.commit(|writer| writer.insert(&row(5, 1))).expect("committed");
    let (blocks, _) = copies(&rig, 1 << 20);
    // The row's long text is read before the last byte, the kind of a value that is added, is met.
    let mut longer = blocks[0].clone();
    let text = longer.iter().rposition(|&byte| byte == b'5').expect("its text");
    longer.truncate(text);
    let loaded = Rig::new(definition(PrimaryIndex::Hash));
    assert!(Loader::new(&loaded.store, (1, 9)).load(&longer).is_err());
    let mut other = blocks[0].clone();
    let kind = other.iter().rposition(|&byte| byte == 1).expect("the kind of a value");
    other[kind] = 2;
    let refused = Loader::new(&loaded.store, (1, 9)).load(&other).expect_err("kind 2").to_string();
    assert!(refused.contains("kind 2"), "{refused}");
    assert_eq!(loaded.rows(), []);
}

/// Records that are there throughout are copied once, by one of several threads, while others are inserted and deleted
/// around them.
fn beside_changes(kind: PrimaryIndex) {
    const KEPT: i64 = 300;
    let rig = Rig::new(definition(kind));
    // Every third key stays; its neighbors are inserted and deleted.
    rig.commit(|writer| (0..KEPT).for_each(|key| writer.insert(&row(key * 3, 0)))).expect("committed");
    let stop = AtomicBool::new(false);
    let scan = LiveScan::new(vec![rig.table.clone()]);
    let copy = || {
        let (mut copier, mut block) = (scan.copier(), Vec::new());
        while copier.copy_some(&rig.store, &mut block, usize::MAX).expect("memory") {
            std::thread::yield_now();
        }
        block
    };
    let copied = std::thread::scope(|scope| {
        let churn = |from: i64| {
            let (rig, stop) = (&rig, &stop);
            move || {
                for round in 0.. {
                    for key in (0..3 * KEPT).filter(|key| key % 3 == from) {
                        rig.commit(|writer| writer.insert(&row(key, round))).expect("it is not there");
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                    for key in (0..3 * KEPT).filter(|key| key % 3 == from) {
                        rig.commit(|writer| writer.delete(key)).expect("it is there");
                    }
                }
            }
        };
        scope.spawn(churn(1));
        let others: Vec<_> = (0..2).map(|_| scope.spawn(copy)).collect();
        let mut blocks = vec![copy()];
        blocks.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        stop.store(true, Ordering::Relaxed);
        blocks
    });
    let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let arena = bumpalo::Bump::new();
    for block in &copied {
        let mut reader = Reader::new(block);
        while let Some(head) = reader.next_copied().expect("copies") {
            *counts.entry(head.key.to_vec()).or_default() += 1;
            let mut row = vec![0; rig.table.layout().words()];
            let change = crate::storage::redo::LoggedChange::Row;
            reader.apply(change, &rig.table, &mut row, &arena).expect("a whole row");
            // SAFETY: the row's blocks are in the arena.
            let values = unsafe { rig.table.layout().values(&row) };
            let (Value::Int(key), Value::Int(n)) = (&values[0], &values[1]) else { panic!("{values:?}") };
            assert_eq!(values, self::row(*key, *n), "a row that was never written");
        }
    }
    assert!(counts.values().all(|count| *count == 1), "a record twice");
    for key in (0..KEPT).map(|key| key * 3) {
        let name = rig.table.encode_key(&[key.into()], true).expect("a key").to_vec();
        assert!(counts.contains_key(&name), "{kind:?}: row {key} was missed");
    }
}

#[test]
fn concurrent_changes_hide_no_record_that_stays_in_a_hash_index() {
    beside_changes(PrimaryIndex::Hash);
}

#[test]
fn concurrent_changes_hide_no_record_that_stays_in_an_ordered_index() {
    beside_changes(PrimaryIndex::Ordered);
}

#[test]
fn a_split_record_is_copied_with_the_epoch_since_which_it_is_split() {
    let rig = Rig::new(definition(PrimaryIndex::Hash));
    rig.commit(|writer| (1..=2).for_each(|key| writer.insert(&row(key, 5)))).expect("committed");
    rig.seal();
    let key = rig.table.encode_key(&[1.into()], true).expect("a key");
    let wanted = Wanted { table: rig.table.id(), key, column: 1, operation: Operation::Add };
    let sinces = || {
        let (blocks, _) = copies(&rig, 1 << 20);
        let mut reader = Reader::new(&blocks[0]);
        let mut sinces = Vec::new();
        while let Some(head) = reader.next_copied().expect("copies") {
            let mut row = vec![0; rig.table.layout().words()];
            let change = crate::storage::redo::LoggedChange::Row;
            reader.apply(change, &rig.table, &mut row, &bumpalo::Bump::new()).expect("a row");
            sinces.push((head.key.to_vec(), head.since));
        }
        sinces.sort();
        sinces.into_iter().map(|(_, since)| since).collect::<Vec<_>>()
    };
    assert_eq!(sinces(), [0, 0]);
    let guard = pin();
    let epoch = rig.store.epochs().current();
    assert_eq!(first_epoch_needed(&rig.store, epoch + 10), epoch + 11);
    let set = begin_split(&rig.store, (1, epoch), &[wanted], |_| None, &guard).expect("it can be split");
    rig.seal();
    rig.seal();
    assert_eq!(sinces(), [epoch, 0]);
    assert_eq!(first_epoch_needed(&rig.store, epoch + 1), epoch, "the phase began before");
    assert_eq!(first_epoch_needed(&rig.store, epoch - 2), epoch - 1, "the log is not durable so far");
    assert_eq!(end_split(&rig.store, &set, rig.store.epochs().current(), &guard), Ok(()));
    assert_eq!(sinces(), [0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn damaged_copies_are_an_error_or_other_values_and_never_a_panic(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let rig = Rig::new(definition(PrimaryIndex::Both));
        rig.commit(|writer| (0..9).for_each(|key| writer.insert(&row(key, key)))).expect("committed");
        let (mut blocks, _) = copies(&rig, 1 << 20);
        let block = &mut blocks[0];
        let at = at.index(block.len());
        if cut { block.truncate(at) } else { block[at] = byte }
        let damaged = Rig::new(definition(PrimaryIndex::Both));
        // A checksum protects it; and yet nothing may break.
        let _ = Loader::new(&damaged.store, (1, 9)).load(block);
    }
}
