//! Tests of the hash index by one thread; `tests/concurrent.rs` has those by several.
//!
//! Segments have four buckets here, so that every test of a few hundred keys splits often.

mod concurrent;
mod reserve;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crossbeam_epoch::{self as epoch, Guard};
use proptest::prelude::*;

use super::*;
use crate::base::atomics::AtomicU64;
use crate::storage::index::NodeVersion;

/// An index that owns its records: it frees them at the end.
struct Owner {
    index: HashIndex,
}

impl Owner {
    fn new() -> Self {
        Owner { index: HashIndex::new() }
    }

    fn insert<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Insertion<'g> {
        // SAFETY: the unused record was never shared.
        let discard = |made: RecordPointer| unsafe { made.free() };
        self.index.get_or_insert(hash_key(key), key, || RecordPointer::allocate(0, key, 1), discard, guard)
    }

    fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        self.index.get(hash_key(key), key, guard)
    }

    fn find<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        match self.get(key, guard) {
            Lookup::Found(record) => Some(record),
            Lookup::Missing(_) => None,
        }
    }

    fn miss<'g>(&'g self, key: &[u8], guard: &'g Guard) -> NodeVersion<'g> {
        match self.get(key, guard) {
            Lookup::Found(_) => panic!("the key is there"),
            Lookup::Missing(version) => version,
        }
    }

    /// Removes the key's record and retires it; says whether this call took it out.
    fn remove(&self, key: &[u8], guard: &Guard) -> bool {
        let Some(record) = self.find(key, guard) else { return false };
        let removed = self.index.remove(hash_key(key), record, guard);
        if removed {
            let pointer = record.pointer();
            // SAFETY: this call took it out of the only index, so no other thread frees it; a thread that still reads
            // it is pinned.
            unsafe { guard.defer_unchecked(move || pointer.free()) };
        }
        removed
    }

    fn scan<'g>(&'g self, guard: &'g Guard) -> (Vec<Record<'g>>, Vec<NodeVersion<'g>>) {
        let (mut records, mut versions) = (Vec::new(), Vec::new());
        let mut cursor = self.index.page(None, &mut records, &mut versions, guard);
        while cursor.is_some() {
            cursor = self.index.page(cursor, &mut records, &mut versions, guard);
        }
        (records, versions)
    }

    fn depth_of(&self, key: &[u8], guard: &Guard) -> u32 {
        self.index.locate(hash_key(key), guard).depth
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let guard = epoch::pin();
        for record in self.scan(&guard).0 {
            // SAFETY: the index and its records are ours alone.
            unsafe { record.pointer().free() };
        }
    }
}

type SplitObserver = Box<dyn FnMut(&HashIndex, &Guard)>;

thread_local! {
    static SPLIT_OBSERVER: RefCell<Option<SplitObserver>> = const { RefCell::new(None) };
}

/// The hook between the steps of splits under test.
pub(super) fn between_split_steps(index: &HashIndex, guard: &Guard) {
    if fastrand::u8(0..4) == 0 {
        std::thread::yield_now();
    }
    SPLIT_OBSERVER.with_borrow_mut(|observer| {
        if let Some(observe) = observer {
            observe(index, guard);
        }
    });
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn number(record: Record<'_>) -> u64 {
    u64::from_be_bytes(record.key().try_into().expect("eight bytes"))
}

/// Keys whose hashes end and begin alike: one bucket, and one segment until its depth exceeds `prefix_bits`.
fn colliding_keys(prefix_bits: u32) -> impl Iterator<Item = [u8; 8]> {
    let place =
        move |key: &[u8]| (hash_segment::bucket_number(hash_key(key)), hash_key(key) >> (64 - prefix_bits));
    let wanted = place(&key(0));
    (0..).map(key).filter(move |key| place(key) == wanted)
}

#[test]
fn a_key_is_found_after_its_insert_and_missing_after_its_removal() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    assert!(owner.find(b"a", &guard).is_none());
    let Insertion::Inserted { record, .. } = owner.insert(b"a", &guard) else { panic!("not inserted") };
    assert_eq!(owner.find(b"a", &guard), Some(record));
    assert_eq!(record.key(), b"a");
    assert!(matches!(owner.insert(b"a", &guard), Insertion::Found(found) if found == record));
    assert!(owner.remove(b"a", &guard));
    assert!(owner.find(b"a", &guard).is_none());
    assert!(!owner.remove(b"a", &guard));
}

#[test]
fn make_is_not_called_for_a_key_that_is_there() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    owner.insert(b"a", &guard);
    let in_vain = || panic!("called unnecessarily");
    let insertion = owner.index.get_or_insert(hash_key(b"a"), b"a", in_vain, |_| {}, &guard);
    assert!(matches!(insertion, Insertion::Found(_)));
}

#[test]
fn keys_of_all_lengths_are_kept_apart() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for length in 0..100 {
        assert!(matches!(owner.insert(&vec![0; length], &guard), Insertion::Inserted { .. }));
    }
    for length in 0..100 {
        assert_eq!(owner.find(&vec![0; length], &guard).map(|record| record.key().len()), Some(length));
    }
}

#[test]
fn removal_is_by_identity() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    owner.insert(b"a", &guard);
    let stranger = RecordPointer::allocate(0, b"a", 1);
    // SAFETY: it is freed below, and never shared.
    let removed = owner.index.remove(hash_key(b"a"), unsafe { stranger.as_record() }, &guard);
    assert!(!removed);
    assert!(owner.find(b"a", &guard).is_some());
    // SAFETY: as above.
    unsafe { stranger.free() };
}

#[test]
fn many_keys_split_segments_and_stay() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for at in 0..20_000 {
        assert!(matches!(owner.insert(&key(at), &guard), Insertion::Inserted { .. }));
    }
    // Four buckets with at most a few entries each: the depth passes eight, where tags are made again.
    assert!(owner.depth_of(&key(0), &guard) > 8);
    for at in 0..20_000 {
        assert_eq!(owner.find(&key(at), &guard).map(number), Some(at));
    }
    for at in 20_000..21_000 {
        assert!(owner.find(&key(at), &guard).is_none());
    }
    for at in (0..20_000).step_by(2) {
        assert!(owner.remove(&key(at), &guard));
    }
    for at in 0..20_000 {
        assert_eq!(owner.find(&key(at), &guard).is_some(), at % 2 == 1);
    }
}

#[test]
fn colliding_keys_make_chains_and_not_a_huge_directory() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let keys: Vec<_> = colliding_keys(12).take(60).collect();
    for key in &keys {
        owner.insert(key, &guard);
    }
    assert!(owner.depth_of(&keys[0], &guard) < 12, "the directory grew for keys that collide");
    for key in &keys {
        assert_eq!(owner.find(key, &guard).map(|record| record.key().to_vec()), Some(key.to_vec()));
    }
    let (records, _) = owner.scan(&guard);
    assert_eq!(records.len(), keys.len());
    for key in &keys {
        assert!(owner.remove(key, &guard));
    }
}

#[test]
fn seven_keys_fit_into_a_bucket_and_all_stay_when_the_eighth_displaces_one() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let empty = owner.index.bytes();
    let keys: Vec<_> = colliding_keys(12).take(14).collect();
    for (count, key) in (1..).zip(&keys[..8]) {
        owner.insert(key, &guard);
        assert!(keys[..count].iter().all(|key| owner.find(key, &guard).is_some()), "{count} keys");
        assert_eq!(owner.index.bytes() - empty, if count <= 7 { 0 } else { 64 }, "{count} keys");
    }
    assert!(keys[..8].iter().all(|key| owner.remove(key, &guard)));
    keys[1..].iter().for_each(|key| assert!(matches!(owner.insert(key, &guard), Insertion::Inserted { .. })));
    assert_eq!(owner.index.bytes() - empty, 64, "the slots of both buckets are used again");
    assert_eq!(owner.scan(&guard).0.len(), 13);
}

#[test]
fn places_of_removed_entries_are_used_again() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for at in 0..5_000 {
        owner.insert(&key(at), &guard);
        assert!(owner.remove(&key(at), &guard));
    }
    assert_eq!(owner.depth_of(&key(0), &guard), 0);
}

#[test]
fn an_insert_tells_the_versions_before_and_after() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let miss = owner.miss(b"a", &guard);
    let Insertion::Inserted { before, after, .. } = owner.insert(b"a", &guard) else {
        panic!("not inserted")
    };
    assert_eq!(before, miss.observed());
    assert!(std::ptr::eq(after.word(), miss.word()));
    assert!(after.is_current() && !miss.is_current());
}

#[test]
fn a_miss_holds_until_its_key_is_inserted() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let miss = owner.miss(b"a", &guard);
    assert!(miss.is_current());
    owner.find(b"b", &guard);
    owner.remove(b"b", &guard);
    assert!(miss.is_current(), "reading changed the version");
    owner.insert(b"a", &guard);
    assert!(!miss.is_current());
    let found = owner.miss(b"c", &guard);
    owner.insert(b"a", &guard);
    assert!(found.is_current(), "finding changed the version");
}

#[test]
fn a_miss_fails_after_insert_and_removal_of_its_key() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let miss = owner.miss(b"a", &guard);
    owner.insert(b"a", &guard);
    owner.remove(b"a", &guard);
    assert!(!miss.is_current());
}

#[test]
fn a_miss_fails_after_an_insert_into_an_overflow_bucket() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let keys: Vec<_> = colliding_keys(10).take(20).collect();
    for key in &keys {
        let miss = owner.miss(key, &guard);
        owner.insert(key, &guard);
        assert!(!miss.is_current());
    }
}

#[test]
fn a_miss_fails_after_a_split() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let misses: Vec<_> = (1_000_000..1_000_050).map(|at| owner.miss(&key(at), &guard)).collect();
    assert_eq!(owner.depth_of(&key(1_000_000), &guard), 0);
    let mut at = 0;
    while (1_000_000..1_000_050).any(|at| owner.depth_of(&key(at), &guard) == 0) {
        owner.insert(&key(at), &guard);
        at += 1;
    }
    assert!(misses.iter().all(|miss| !miss.is_current()));
    let again: Vec<_> = (1_000_000..1_000_050).map(|at| owner.miss(&key(at), &guard)).collect();
    assert!(again.iter().all(NodeVersion::is_current));
    owner.insert(&key(1_000_007), &guard);
    assert!(!again[7].is_current());
}

#[test]
fn at_every_step_of_a_split_misses_noted_where_nobody_writes_are_stale_once_somebody_may_write() {
    type Miss = (u64, &'static AtomicU64, u64);
    let (owner, guard) = (Owner::new(), epoch::pin());
    let (mut noted, mut steps): (Vec<Miss>, usize) = (Vec::new(), 0);
    let step_count = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = step_count.clone();
    SPLIT_OBSERVER.set(Some(Box::new(move |index, guard| {
        for &(hash, word, observed) in &noted {
            let writable = !index.bucket(hash, guard).0.is_frozen();
            let current = word.load(Ordering::Acquire) == observed;
            assert!(!(writable && current), "step {steps}: a key can come in, and its miss would hold");
        }
        for at in 1_000_000..1_000_016 {
            let hash = hash_key(&key(at));
            let Lookup::Missing(miss) = index.get(hash, &key(at), guard) else { panic!("never inserted") };
            if index.bucket(hash, guard).0.is_frozen() {
                // SAFETY: the outer guard is pinned for the whole test.
                let word = unsafe { &*std::ptr::from_ref(miss.word()) };
                noted.push((hash, word, miss.observed()));
            }
        }
        steps += 1;
        counted.set(steps);
    })));
    for at in 0..200 {
        owner.insert(&key(at), &guard);
    }
    SPLIT_OBSERVER.set(None);
    assert!(step_count.get() >= 20, "only {} steps", step_count.get());
}

#[test]
fn a_version_survives_the_retirement_of_its_segment_while_pinned() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let miss = owner.miss(b"never", &guard);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..2_000 {
                owner.insert(&key(at), &epoch::pin());
            }
            epoch::pin().flush();
        });
    });
    assert!(!miss.is_current());
}

#[test]
fn a_scan_of_an_empty_index_ends() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let (records, versions) = owner.scan(&guard);
    assert!(records.is_empty());
    assert_eq!(versions.len(), hash_segment::BUCKETS);
}

#[test]
fn a_scan_sees_every_record_once_and_any_insert_fails_its_versions() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for at in 0..3_000 {
        owner.insert(&key(at), &guard);
    }
    let (records, versions) = owner.scan(&guard);
    let numbers: HashSet<u64> = records.iter().map(|&record| number(record)).collect();
    assert_eq!((records.len(), numbers.len()), (3_000, 3_000));
    assert!(versions.iter().all(NodeVersion::is_current));
    owner.insert(&key(3_000), &guard);
    assert!(versions.iter().any(|version| !version.is_current()));
    let (_, versions) = owner.scan(&guard);
    owner.remove(&key(17), &guard);
    assert_eq!(versions.iter().filter(|version| !version.is_current()).count(), 1);
}

#[test]
fn a_scan_sees_every_record_once_while_segments_split_between_its_pages() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for at in 0..300 {
        owner.insert(&key(at), &guard);
    }
    let (mut records, mut versions) = (Vec::new(), Vec::new());
    let mut next = 300;
    let mut cursor = owner.index.page(None, &mut records, &mut versions, &guard);
    while cursor.is_some() {
        for _ in 0..20 {
            owner.insert(&key(next), &guard);
            next += 1;
        }
        cursor = owner.index.page(cursor, &mut records, &mut versions, &guard);
    }
    let numbers: HashSet<u64> = records.iter().map(|&record| number(record)).collect();
    assert_eq!(numbers.len(), records.len(), "a record was seen twice");
    assert!((0..300).all(|at| numbers.contains(&at)), "a record was not seen");
}

#[test]
fn prefetching_changes_nothing() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    for at in 0..100 {
        owner.insert(&key(at), &guard);
    }
    let (_, versions) = owner.scan(&guard);
    for at in 0..200 {
        owner.index.prefetch(hash_key(&key(at)), &guard);
    }
    assert!(versions.iter().all(NodeVersion::is_current));
}

#[test]
fn the_index_may_be_shared_and_sent() {
    fn shared_and_sent<T: Send + Sync>() {}
    shared_and_sent::<HashIndex>();
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    Get(u16),
    Scan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..300_u16).prop_map(Step::Insert),
        3 => (0..300_u16).prop_map(Step::Remove),
        3 => (0..300_u16).prop_map(Step::Get),
        1 => Just(Step::Scan),
    ];
    prop::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_does_what_a_map_does(steps in steps()) {
        let (owner, guard) = (Owner::new(), epoch::pin());
        let mut model: HashMap<[u8; 8], RecordPointer> = HashMap::new();
        // Misses, with how often their key had been inserted then.
        let mut inserts: HashMap<[u8; 8], u32> = HashMap::new();
        let mut misses: Vec<([u8; 8], u32, NodeVersion<'_>)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(at) => {
                    let key = key(at.into());
                    match owner.insert(&key, &guard) {
                        Insertion::Found(record) => prop_assert_eq!(model.get(&key), Some(&record.pointer())),
                        Insertion::Inserted { record, .. } => {
                            prop_assert!(model.insert(key, record.pointer()).is_none());
                            *inserts.entry(key).or_default() += 1;
                        }
                    }
                }
                Step::Remove(at) => {
                    let key = key(at.into());
                    prop_assert_eq!(owner.remove(&key, &guard), model.remove(&key).is_some());
                }
                Step::Get(at) => {
                    let key = key(at.into());
                    let found = owner.find(&key, &guard).map(Record::pointer);
                    prop_assert_eq!(found, model.get(&key).copied());
                    if found.is_none() {
                        misses.push((key, inserts.get(&key).copied().unwrap_or(0), owner.miss(&key, &guard)));
                    }
                }
                Step::Scan => {
                    let mut scanned: Vec<_> = owner.scan(&guard).0.into_iter().map(Record::pointer).collect();
                    let mut expected: Vec<_> = model.values().copied().collect();
                    scanned.sort();
                    expected.sort();
                    prop_assert_eq!(scanned, expected);
                }
            }
            for (key, then, miss) in &misses {
                let now = inserts.get(key).copied().unwrap_or(0);
                prop_assert!(now == *then || !miss.is_current(), "a miss outlived an insert");
            }
        }
    }
}
