//! What versions protect: ranges against phantoms, and misses.

use super::*;

/// An index with the even numbers below 400.
fn even_numbers<'r>(records: &'r Records, guard: &'r Guard) -> OrderedIndex {
    let index = OrderedIndex::new();
    for number in (0..400_u32).step_by(2) {
        index.insert(records.make(&number.to_be_bytes()), guard);
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
        assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), &guard)));
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
        assert!(was_inserted(&index.insert(records.make(&number.to_be_bytes()), &guard)));
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
        assert_eq!(was_inserted(&index.insert(record, &guard)), !number.is_multiple_of(2));
    }
    for number in 200..400_u32 {
        let Lookup::Found(record) = index.get(&number.to_be_bytes(), &guard) else { panic!("{number}") };
        assert!(index.remove(record, &guard));
    }
    let here = records.make(&120_u32.to_be_bytes());
    assert!(!was_inserted(&index.insert(here, &guard)), "120 was there");
    assert!(!index.remove(here, &guard), "but another record");
    assert!(are_current(&versions));
}

#[test]
fn a_miss_holds_until_the_key_comes() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = even_numbers(&records, &guard);
    let Lookup::Missing(version) = index.get(&121_u32.to_be_bytes(), &guard) else { panic!("121 is odd") };
    index.insert(records.make(&301_u32.to_be_bytes()), &guard);
    assert!(version.is_current());
    let record = records.make(&121_u32.to_be_bytes());
    index.insert(record, &guard);
    assert!(!version.is_current());
    index.remove(record, &guard);
    assert!(!version.is_current(), "gone again, but it was there");
}

#[test]
fn an_insert_tells_how_to_go_on_from_a_noted_version() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = OrderedIndex::new();
    let Lookup::Missing(noted) = index.get(b"b", &guard) else { panic!("nothing is there") };
    let insertion = index.insert(records.make(b"a"), &guard);
    let Insertion::Inserted { before, after, .. } = insertion else { panic!("nothing was there") };
    assert!(std::ptr::eq(noted.word(), after.word()));
    assert_eq!(noted.observed(), before);
    assert!(!noted.is_current() && after.is_current());
}

#[test]
fn a_split_makes_the_noted_leaf_stale_for_good() {
    let (records, guard) = (Records::default(), crossbeam_epoch::pin());
    let index = OrderedIndex::<4>::with_fan_out();
    for key in [b"a", b"b", b"c", b"d"] {
        index.insert(records.make(key), &guard);
    }
    let (_, versions) = scan_forward(&index, Bound::Unbounded, &guard);
    let Insertion::Inserted { before, after, .. } = index.insert(records.make(b"e"), &guard) else {
        panic!("e was not there")
    };
    assert!(!are_current(&versions));
    assert!(!std::ptr::eq(versions[0].word(), after.word()), "another leaf");
    assert_ne!(before, after.observed());
}
