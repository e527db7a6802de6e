//! The protection that versions give: ranges against phantoms, and misses.

use std::cell::Cell;

use super::*;
use crate::storage::read_set::ReadSet;
use crate::storage::table::NodeChanges;

/// An index with the even numbers below 400.
fn even_numbers<'r>(records: &'r Records, guard: &'r Guard) -> OrderedIndex {
    let index = OrderedIndex::new();
    for number in (0..400_u32).step_by(2) {
        index.insert(records.make(&number.to_be_bytes()), |_| {}, guard);
    }
    index
}

fn are_current(versions: &[NodeVersion<'_>]) -> bool {
    versions.iter().all(NodeVersion::is_current)
}

/// The versions of the pages that cover the numbers from `from` up to and without `to`.
fn versions_between<'g>(
    index: &'g OrderedIndex,
    from: u32,
    to: u32,
    guard: &'g Guard,
) -> Vec<NodeVersion<'g>> {
    let (mut versions, mut from) = (Vec::new(), from.to_be_bytes().to_vec());
    loop {
        let page = index.page_forward(Bound::Included(&from), &mut Vec::new(), guard);
        versions.push(page.version);
        match page.next {
            Some(next) if next < &to.to_be_bytes()[..] => from = next.to_vec(),
            _ => return versions,
        }
    }
}

#[test]
fn an_insert_into_any_gap_of_a_scanned_range_is_noticed() {
    for number in (101..151_u32).step_by(2) {
        let (records, guard) = (Records::default(), crossbeam_epoch::pin());
        let index = even_numbers(&records, &guard);
        let versions = versions_between(&index, 100, 151, &guard);
        assert!(are_current(&versions));
        assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), |_| {}, &guard)));
        assert!(!are_current(&versions), "{number}");
    }
}

#[test]
fn an_insert_into_a_range_scanned_backward_is_noticed() {
    for number in (1..400_u32).step_by(2) {
        let (records, guard) = (Records::default(), crossbeam_epoch::pin());
        let index = even_numbers(&records, &guard);
        let (_, versions) = scan_backward(&index, Bound::Included(&number.to_be_bytes()), &guard);
        assert!(are_current(&versions));
        assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), |_| {}, &guard)));
        assert!(!are_current(&versions), "{number}");
    }
}

#[test]
fn a_removal_from_a_scanned_range_is_noticed() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = even_numbers(&records, &guard);
    let versions = versions_between(&index, 100, 151, &guard);
    let Lookup::Found(record) = index.get(&120_u32.to_be_bytes(), &guard) else { panic!("120 is there") };
    assert!(index.remove(record, &guard));
    assert!(!are_current(&versions));
}

#[test]
fn what_happens_far_away_or_changes_nothing_is_not_noticed() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = even_numbers(&records, &guard);
    let versions = versions_between(&index, 100, 151, &guard);
    // Many, so that nodes split and merge, the root among them.
    for number in (200..400_u32).chain(0..50) {
        let record = records.make(&number.to_be_bytes());
        assert_eq!(was_inserted(&index.insert(record, |_| {}, &guard)), !number.is_multiple_of(2));
    }
    for number in 200..400_u32 {
        let Lookup::Found(record) = index.get(&number.to_be_bytes(), &guard) else { panic!("{number}") };
        assert!(index.remove(record, &guard));
    }
    let here = records.make(&120_u32.to_be_bytes());
    assert!(!was_inserted(&index.insert(here, |_| {}, &guard)), "120 was there");
    assert!(!index.remove(here, &guard), "but another record");
    assert!(are_current(&versions));
}

#[test]
fn a_miss_holds_until_the_key_comes() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = even_numbers(&records, &guard);
    let Lookup::Missing(version) = index.get(&121_u32.to_be_bytes(), &guard) else { panic!("121 is odd") };
    index.insert(records.make(&301_u32.to_be_bytes()), |_| {}, &guard);
    assert!(version.is_current());
    let record = records.make(&121_u32.to_be_bytes());
    index.insert(record, |_| {}, &guard);
    assert!(!version.is_current());
    index.remove(record, &guard);
    assert!(!version.is_current(), "gone again, but it was there");
}

#[test]
fn an_insert_tells_how_to_go_on_from_a_noted_version() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = OrderedIndex::new();
    let Lookup::Missing(noted) = index.get(b"b", &guard) else { panic!("nothing is there") };
    let insertion = index.insert(records.make(b"a"), |_| {}, &guard);
    let Insertion::Inserted { before, after, .. } = insertion else { panic!("nothing was there") };
    assert!(std::ptr::eq(noted.word(), after.word()));
    assert_eq!(noted.observed(), before);
    assert!(!noted.is_current() && after.is_current());
}

#[test]
fn a_split_makes_the_noted_leaf_stale_for_good_and_tells_how_to_go_on() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = OrderedIndex::<4>::with_fan_out();
    for key in [b"a", b"b", b"c", b"d"] {
        index.insert(records.make(key), |_| panic!("there is room"), &guard);
    }
    let (_, versions) = scan_forward(&index, Bound::Unbounded, &guard);
    let mut splits = Vec::new();
    let inserted = index.insert(records.make(b"e"), |split| splits.push(split), &guard);
    let Insertion::Inserted { before, after, .. } = inserted else { panic!("e was not there") };
    assert!(!are_current(&versions));
    assert!(!std::ptr::eq(versions[0].word(), after.word()), "another leaf");
    let [LeafSplit { whole, halves: [left, right] }] = splits[..] else { panic!("{splits:?}") };
    assert!(is_same(whole, versions[0]) && !whole.is_current());
    assert!(left.is_current(), "nothing was put in there");
    assert!(std::ptr::eq(right.word(), after.word()) && right.observed() == before);
}

fn is_same(one: NodeVersion<'_>, other: NodeVersion<'_>) -> bool {
    std::ptr::eq(one.word(), other.word()) && one.observed() == other.observed()
}

/// Leaves that are split while others wait for them, and inner nodes that are split besides: every page that was noted
/// leads to versions that are current, as long as no other thread changes anything.
#[test]
fn own_splits_lead_from_every_noted_page_to_current_leaves() {
    for order in [|number: u32| number, |number: u32| 199 - number, |number: u32| number * 77 % 200] {
        let (records, guard) = (Records::default(), crossbeam_epoch::pin());
        let index = even_numbers(&records, &guard);
        let noted = versions_between(&index, 0, 400, &guard);
        let mut reads = ReadSet::default();
        noted.iter().for_each(|&version| reads.note_node(version));
        for number in (0..200).map(order) {
            let record = records.make(&(2 * number + 1).to_be_bytes());
            let inserted = index.insert(record, |split| reads.split(split), &guard);
            let Insertion::Inserted { before, after, .. } = inserted else { panic!("it was there") };
            reads.inserted(before, after);
        }
        assert!(!noted.iter().any(NodeVersion::is_current), "every leaf has been changed");
        assert!(reads.still_holds(|_| false, &Cell::default()));
        // A rival's insert, anywhere.
        index.insert(records.make(&[0, 0, 1, 7, 7]), |_| {}, &guard);
        assert!(!reads.still_holds(|_| false, &Cell::default()));
    }
}

/// A rival puts something into a half before the call's own insert gets there.
#[test]
fn a_rivals_insert_into_a_half_is_noticed() {
    for rival in [b"a5", b"d5"] {
        let (records, guard) = (Records::default(), crossbeam_epoch::pin());
        let index = OrderedIndex::<4>::with_fan_out();
        for key in [b"a", b"b", b"c", b"d"] {
            index.insert(records.make(key), |_| {}, &guard);
        }
        let mut reads = ReadSet::default();
        let (_, versions) = scan_forward(&index, Bound::Unbounded, &guard);
        reads.note_node(versions[0]);
        let split = |split| {
            reads.split(split);
            index.insert(records.make(rival), |_| {}, &guard);
        };
        let inserted = index.insert(records.make(b"e"), split, &guard);
        let Insertion::Inserted { before, after, .. } = inserted else { panic!("it was there") };
        reads.inserted(before, after);
        assert!(!reads.still_holds(|_| false, &Cell::default()));
    }
}
