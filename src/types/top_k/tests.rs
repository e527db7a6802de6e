//! A top-K set holds what a sorted map of all entries would hold at its top.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::row;
use crate::types::DataType;
use crate::types::strategies::{ordered_tuple, tuple_type, value};

fn score() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap()
}

fn tuple(order: i64, payload: &str) -> OrderedTuple {
    OrderedTuple::new(&score(), &row![order], &row![payload]).unwrap()
}

fn rows(bytes: &[u8]) -> Vec<(i64, String)> {
    let rows = TopK::from_stored(bytes).rows(&score()).unwrap();
    let pair = |row: Vec<Value>| match row.as_slice() {
        [Value::Int(order), Value::Text(payload)] => (*order, payload.clone()),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(pair).collect()
}

/// Inserts one after the other, as calls do.
fn inserted(limit: u32, tuples: &[OrderedTuple]) -> TopK {
    let mut set = TopK::of(limit, []).unwrap();
    for tuple in tuples {
        let mut out = vec![0xEE];
        if insert(Set::parse(set.as_bytes()).unwrap(), tuple.as_bytes(), limit, &mut out).unwrap() {
            set = TopK::from_stored(&out);
        }
    }
    set
}

#[test]
fn entries_descend_and_the_lowest_leaves_a_full_set() {
    let set = inserted(2, &[tuple(5, "five"), tuple(7, "seven"), tuple(6, "six")]);
    assert_eq!(rows(set.as_bytes()), [(7, "seven".to_owned()), (6, "six".to_owned())]);
}

#[test]
fn of_two_entries_with_one_order_the_greater_payload_stays() {
    for tuples in [[tuple(5, "a"), tuple(5, "b")], [tuple(5, "b"), tuple(5, "a")]] {
        assert_eq!(rows(inserted(3, &tuples).as_bytes()), [(5, "b".to_owned())]);
        assert_eq!(rows(TopK::of(3, &tuples).unwrap().as_bytes()), [(5, "b".to_owned())]);
    }
}

#[test]
fn what_does_not_enter_leaves_the_set_and_the_buffer_alone() {
    let full = inserted(2, &[tuple(5, "five"), tuple(7, "seven")]);
    for refused in [tuple(4, "z"), tuple(5, "five"), tuple(5, "f"), tuple(7, "a")] {
        let mut out = vec![0xEE];
        assert!(!insert(Set::parse(full.as_bytes()).unwrap(), refused.as_bytes(), 2, &mut out).unwrap());
        assert_eq!(out, [0xEE]);
    }
    let mut out = Vec::new();
    assert!(insert(Set::parse(full.as_bytes()).unwrap(), tuple(5, "six").as_bytes(), 2, &mut out).unwrap());
    assert_eq!(rows(&out), [(7, "seven".to_owned()), (5, "six".to_owned())]);
}

#[test]
fn a_single_tuple_is_a_set_of_one() {
    let (low, high) = (tuple(1, "low"), tuple(2, "high"));
    let mut out = Vec::new();
    assert!(insert(Set::of_tuple(low.as_bytes()), high.as_bytes(), 2, &mut out).unwrap());
    assert_eq!(rows(&out), [(2, "high".to_owned()), (1, "low".to_owned())]);
    assert!(!insert(Set::of_tuple(high.as_bytes()), low.as_bytes(), 1, &mut out).unwrap());
    assert!(union(Set::EMPTY, Set::of_tuple(low.as_bytes()), 2, &mut out).unwrap());
    assert_eq!(rows(&out), [(1, "low".to_owned())]);
}

#[test]
fn the_empty_set_has_no_rows() {
    let empty = TopK::of(5, []).unwrap();
    assert_eq!(empty.as_bytes(), [0; 4]);
    assert!(empty.rows(&score()).unwrap().is_empty());
    assert!(validate(empty.as_bytes(), 5, &score()).is_ok());
}

#[test]
fn a_set_that_is_too_long_is_refused() {
    let long = "a".repeat(assignment::VALUE_BYTES_MAX / 2);
    let tuples = [tuple(1, &long), tuple(2, &long)];
    assert!(matches!(TopK::of(2, &tuples), Err(Error::InvalidValue { .. })));
    let mut out = Vec::new();
    assert!(insert(Set::of_tuple(tuples[0].as_bytes()), tuples[1].as_bytes(), 2, &mut out).is_err());
}

#[test]
fn damaged_sets_are_refused() {
    let (low, high) = (tuple(1, "a"), tuple(2, "b"));
    let whole = TopK::of(2, [&low, &high]).unwrap();
    for cut in 0..whole.as_bytes().len() {
        assert!(validate(&whole.as_bytes()[..cut], 2, &score()).is_err(), "cut at {cut}");
    }
    let mut longer = whole.as_bytes().to_vec();
    longer.push(0);
    assert!(validate(&longer, 2, &score()).is_err());
    let mut ascending = Vec::new();
    write(&[low.as_bytes(), high.as_bytes()], &mut ascending).unwrap();
    assert!(validate(&ascending, 2, &score()).unwrap_err().to_string().contains("descend"));
    let mut repeated = Vec::new();
    write(&[low.as_bytes(), low.as_bytes()], &mut repeated).unwrap();
    assert!(validate(&repeated, 2, &score()).is_err());
    assert!(validate(whole.as_bytes(), 1, &score()).is_err());
    assert!(Set::parse(&[255; 8]).is_err());
}

fn entries() -> impl Strategy<Value = (TupleType, Vec<OrderedTuple>, Vec<OrderedTuple>)> {
    tuple_type().prop_flat_map(|of| {
        let tuples = || prop::collection::vec(ordered_tuple(of.clone()), 0..12);
        (Just(of.clone()), tuples(), tuples())
    })
}

/// What a set of all these entries holds: the greatest payload of each of the greatest orders.
fn expected(limit: u32, tuples: &[OrderedTuple]) -> Vec<OrderedTuple> {
    let mut by_order: BTreeMap<&[u8], &OrderedTuple> = BTreeMap::new();
    for tuple in tuples {
        let kept = by_order.entry(Entry::parse(tuple.as_bytes()).unwrap().order).or_insert(tuple);
        *kept = tuple.max(kept);
    }
    by_order.into_values().rev().take(limit as usize).cloned().collect()
}

fn tuples_of(bytes: &[u8]) -> Vec<OrderedTuple> {
    let set = Set::parse(bytes).unwrap();
    (0..set.len()).map(|index| OrderedTuple::from_stored(set.tuple(index).unwrap())).collect()
}

proptest! {
    #[test]
    fn inserting_and_building_agree_with_a_sorted_map((of, tuples, _) in entries(), limit in 1..6_u32) {
        let set = inserted(limit, &tuples);
        prop_assert_eq!(tuples_of(set.as_bytes()), expected(limit, &tuples));
        prop_assert_eq!(&TopK::of(limit, &tuples).unwrap(), &set);
        validate(set.as_bytes(), limit, &of).unwrap();
        prop_assert_eq!(set.rows(&of).unwrap().len(), tuples_of(set.as_bytes()).len());
    }

    #[test]
    fn the_sequence_of_inserts_does_not_matter((_, tuples, _) in entries(), limit in 1..6_u32) {
        let backwards: Vec<_> = tuples.iter().rev().cloned().collect();
        prop_assert_eq!(inserted(limit, &tuples), inserted(limit, &backwards));
    }

    #[test]
    fn the_union_holds_what_the_entries_of_both_would((of, left, right) in entries(), limit in 1..6_u32) {
        let (left_set, right_set) = (TopK::of(limit, &left).unwrap(), TopK::of(limit, &right).unwrap());
        let parsed = (Set::parse(left_set.as_bytes()).unwrap(), Set::parse(right_set.as_bytes()).unwrap());
        let mut out = vec![0xEE];
        let changed = union(parsed.0, parsed.1, limit, &mut out).unwrap();
        let united = if changed { TopK::from_stored(&out) } else { left_set.clone() };
        let all: Vec<_> = left.iter().chain(&right).cloned().collect();
        prop_assert_eq!(&united, &TopK::of(limit, &all).unwrap());
        prop_assert_eq!(changed, united != left_set);
        validate(united.as_bytes(), limit, &of).unwrap();
    }

    #[test]
    fn any_bytes_are_a_set_or_an_error(
        of in tuple_type(),
        count in 0_u8..4,
        rest in prop::collection::vec(0_u8..12, 0..48),
    ) {
        let mut bytes = vec![count, 0, 0, 0];
        bytes.extend_from_slice(&rest);
        let _ = validate(&bytes, 5, &of);
        let _ = TopK::from_stored(&bytes).rows(&of);
        if let Ok(set) = Set::parse(&bytes) {
            let _ = union(set, set, 5, &mut Vec::new());
            let _ = insert(set, &[1, 1, 0, 0, 0], 3, &mut Vec::new());
        }
    }

    #[test]
    fn a_set_with_one_byte_changed_never_panics(
        set in value(&"top_k(4; int64, text; bytes)".parse().unwrap()),
        position: prop::sample::Index,
        byte: u8,
    ) {
        let DataType::TopK { limit, of } = "top_k(4; int64, text; bytes)".parse().unwrap() else { unreachable!() };
        let Value::TopK(set) = set else { unreachable!() };
        let mut bytes = set.as_bytes().to_vec();
        let position = position.index(bytes.len());
        bytes[position] = byte;
        if validate(&bytes, limit, &of).is_ok() {
            prop_assert!(TopK::from_stored(&bytes).rows(&of).is_ok());
        }
    }
}
