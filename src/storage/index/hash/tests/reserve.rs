//! Room that is made ahead: it changes how an index grows, and nothing else.

use super::*;

fn segments(index: &HashIndex) -> usize {
    index.structure.lock().segments
}

#[test]
fn what_room_was_made_for_comes_in_without_a_split() {
    for count in [0, 1, 12, 13, 100, 5_000] {
        let (owner, guard) = (Owner::new(), epoch::pin());
        owner.index.reserve(count, &guard);
        let reserved = segments(&owner.index);
        assert!(reserved * hash_segment::ENTRIES_AT_EASE >= count as usize, "{count}");
        assert!((reserved / 2) * hash_segment::ENTRIES_AT_EASE < count.max(1) as usize, "{count}: too many");
        // Chance crowds some of these tiny segments; by far most never split.
        (0..count).for_each(|at| _ = owner.insert(&key(at), &guard));
        assert!(segments(&owner.index) <= reserved + reserved / 4 + 1, "{count}: {}", segments(&owner.index));
        assert!((0..count).all(|at| owner.find(&key(at), &guard).map(number) == Some(at)), "{count}");
        assert!(owner.find(&key(count), &guard).is_none());
        let (mut records, _) = owner.scan(&guard);
        records.sort_by_key(|record| number(*record));
        assert_eq!(records.into_iter().map(number).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn an_index_grows_on_beyond_its_room() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    owner.index.reserve(100, &guard);
    let reserved = segments(&owner.index);
    (0..5_000).for_each(|at| _ = owner.insert(&key(at), &guard));
    assert!(segments(&owner.index) > 8 * reserved);
    assert!((0..5_000).all(|at| owner.find(&key(at), &guard).is_some()));
    assert!((0..5_000).all(|at| owner.remove(&key(at), &guard)));
}

#[test]
fn no_room_is_made_where_something_is() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    owner.insert(b"a", &guard);
    owner.index.reserve(1_000, &guard);
    assert_eq!(segments(&owner.index), 1);
    assert!(owner.find(b"a", &guard).is_some());
    assert!(matches!(owner.insert(b"b", &guard), Insertion::Inserted { .. }), "writers are let in again");
    let split = Owner::new();
    (0..200).for_each(|at| _ = split.insert(&key(at), &guard));
    let before = segments(&split.index);
    split.index.reserve(100_000, &guard);
    assert_eq!(segments(&split.index), before);
}

#[test]
fn a_miss_that_was_noted_before_is_one_no_more() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let before = owner.miss(b"a", &guard);
    assert!(before.is_current());
    owner.index.reserve(1_000, &guard);
    assert!(!before.is_current());
    let after = owner.miss(b"a", &guard);
    assert!(after.is_current());
    owner.insert(b"a", &guard);
    assert!(!after.is_current() && !before.is_current());
}

#[test]
fn a_scan_goes_on_in_the_room() {
    let (owner, guard) = (Owner::new(), epoch::pin());
    let (mut records, mut versions) = (Vec::new(), Vec::new());
    let cursor = owner.index.page(None, &mut records, &mut versions, &guard);
    assert!(records.is_empty() && cursor.is_some());
    owner.index.reserve(1_000, &guard);
    (0..1_000).for_each(|at| _ = owner.insert(&key(at), &guard));
    let mut cursor = cursor;
    while cursor.is_some() {
        cursor = owner.index.page(cursor, &mut records, &mut versions, &guard);
    }
    let found: HashSet<u64> = records.iter().map(|record| number(*record)).collect();
    assert_eq!(found.len(), records.len(), "a record twice");
    let first_page = |at: &u64| hash_segment::bucket_number(hash_key(&key(*at))) == 0;
    assert!((0..1_000).filter(|at| !first_page(at)).all(|at| found.contains(&at)));
}

/// Room may be made while others are at it: it is made or not, and nothing is lost.
#[test]
fn concurrent_inserts_and_lookups_notice_nothing() {
    for round in 0..200 {
        let owner = Owner::new();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let owner = &owner;
                scope.spawn(move || {
                    let guard = epoch::pin();
                    for at in (thread..60).step_by(2) {
                        assert!(owner.find(&key(at), &guard).is_none());
                        assert!(matches!(owner.insert(&key(at), &guard), Insertion::Inserted { .. }));
                        assert_eq!(owner.find(&key(at), &guard).map(number), Some(at));
                    }
                });
            }
            scope.spawn(|| {
                (0..round % 7).for_each(|_| std::thread::yield_now());
                owner.index.reserve(200, &epoch::pin());
            });
        });
        let guard = epoch::pin();
        assert!((0..60).all(|at| owner.find(&key(at), &guard).is_some()), "round {round}");
        assert_eq!(owner.scan(&guard).0.len(), 60);
    }
}
