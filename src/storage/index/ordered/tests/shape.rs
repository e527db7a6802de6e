//! The shape of the tree after many inserts and removals in telling orders.

use super::*;

/// Puts the keys in and takes them out again, looking at the tree's invariants on the way; returns its full shape.
fn fill_and_empty<const F: usize>(insert_order: &[u64], remove_order: &[u64]) -> Shape {
    let records = Records::default();
    let index = OrderedIndex::<F>::with_fan_out();
    let guard = crossbeam_epoch::pin();
    for (at, number) in insert_order.iter().enumerate() {
        assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), |_| {}, &guard)));
        if at.is_multiple_of(499) {
            assert_eq!(shape_of(&index, &guard).entries, at + 1);
        }
    }
    let full = shape_of(&index, &guard);
    for (at, number) in remove_order.iter().enumerate() {
        let Lookup::Found(record) = index.get(&number.to_be_bytes(), &guard) else {
            panic!("{number} is missing")
        };
        assert!(index.remove(record, &guard));
        if at.is_multiple_of(499) {
            assert_eq!(shape_of(&index, &guard).entries, insert_order.len() - at - 1);
        }
    }
    assert_eq!(shape_of(&index, &guard), Shape { levels: 1, leaves: 1, entries: 0 });
    full
}

fn shuffled(numbers: &[u64]) -> Vec<u64> {
    let mut shuffled = numbers.to_vec();
    fastrand::Rng::with_seed(7).shuffle(&mut shuffled);
    shuffled
}

#[test]
fn the_number_of_records_is_estimated_roughly() {
    for count in [0_u64, 1, 100, 3_000, 50_000] {
        let ascending: Vec<u64> = (0..count).collect();
        for order in [shuffled(&ascending), ascending] {
            let (records, index) = (Records::default(), OrderedIndex::<8>::with_fan_out());
            let guard = crossbeam_epoch::pin();
            for number in order {
                assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), |_| {}, &guard)));
            }
            let estimated = index.estimated_len(&guard);
            assert!((count / 4..=count * 4).contains(&estimated), "{count}: {estimated}");
        }
    }
}

#[test]
fn every_order_of_removals_leaves_one_empty_leaf() {
    let ascending: Vec<u64> = (0..3000).collect();
    let descending: Vec<u64> = (0..3000).rev().collect();
    let random = shuffled(&ascending);
    let orders = [&ascending, &descending, &random];
    for insert_order in orders {
        for remove_order in orders {
            fill_and_empty::<4>(insert_order, remove_order);
        }
    }
}

#[test]
fn full_sized_nodes_fill_and_empty_too() {
    let ascending: Vec<u64> = (0..20_000).collect();
    let random = shuffled(&ascending);
    let full = fill_and_empty::<64>(&random, &random);
    assert!(full.levels <= 3 && full.leaves < 20_000 / 32 + 200, "{full:?}");
}

#[test]
fn ascending_keys_fill_leaves_almost_whole() {
    let ascending: Vec<u64> = (0..20_000).collect();
    let full = fill_and_empty::<64>(&ascending, &ascending);
    assert!(full.leaves <= 20_000 / 56 + 1, "{full:?}");
}

#[test]
fn an_empty_index_has_one_empty_page_each_way() {
    let index = OrderedIndex::new();
    let guard = crossbeam_epoch::pin();
    assert!(!is_found(&index.get(b"", &guard)));
    for bound in [Bound::Unbounded, Bound::Included(&b""[..]), Bound::Excluded(&b"a"[..])] {
        let mut records = Vec::new();
        assert!(index.page_forward(bound, &mut records, &guard).next.is_none());
        assert!(index.page_backward(bound, &mut records, &guard).next.is_none());
        assert!(records.is_empty());
    }
}

#[test]
fn pages_append_to_what_is_there() {
    let records = Records::default();
    let index = OrderedIndex::new();
    let guard = crossbeam_epoch::pin();
    let (first, second) = (records.make(b"1"), records.make(b"2"));
    index.insert(second, |_| {}, &guard);
    index.insert(first, |_| {}, &guard);
    let mut out = vec![second];
    index.page_forward(Bound::Unbounded, &mut out, &guard);
    index.page_backward(Bound::Excluded(b"2"), &mut out, &guard);
    assert_eq!(out, [second, first, second, first]);
}

#[test]
fn nothing_lies_below_the_empty_key() {
    let records = Records::default();
    let index = OrderedIndex::new();
    let guard = crossbeam_epoch::pin();
    for key in [&b""[..], b"\0", b"\0\0", b"a", b"b", b"c"] {
        index.insert(records.make(key), |_| {}, &guard);
    }
    assert!(scan_backward(&index, Bound::Excluded(b""), &guard).0.is_empty());
    assert_eq!(keys(&scan_backward(&index, Bound::Included(b""), &guard).0), [b""]);
    assert_eq!(keys(&scan_forward(&index, Bound::Excluded(b"b"), &guard).0), [b"c"]);
}

#[test]
fn fences_between_leaves_are_as_short_as_can_be() {
    let records = Records::default();
    let index = OrderedIndex::<4>::with_fan_out();
    let guard = crossbeam_epoch::pin();
    for key in ["apple tree", "apricot tree", "banana tree", "blueberry bush", "cherry tree"] {
        index.insert(records.make(key.as_bytes()), |_| {}, &guard);
    }
    let page = index.page_forward(Bound::Unbounded, &mut Vec::new(), &guard);
    assert_eq!(page.next, Some(&b"b"[..]));
}
