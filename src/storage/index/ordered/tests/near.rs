//! A search that starts at the last leaf finds the same as one that starts at the root: also where that leaf has been
//! split, merged, filled or emptied meanwhile, or is another index's. And a page that ends with its range leaves
//! nothing of it out.

use crossbeam_epoch::pin;
use proptest::prelude::*;

use super::*;
use crate::storage::index::ordered::Near;

fn key_of(number: u16) -> [u8; 2] {
    number.to_be_bytes()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    /// Inserts into another index, from where the last insert has been.
    Elsewhere(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Neighbors, mostly.
        6 => (0..8_u16, 0..6_u16).prop_map(|(group, number)| Step::Insert(group * 256 + number)),
        3 => (0..8_u16, 0..6_u16).prop_map(|(group, number)| Step::Remove(group * 256 + number)),
        1 => (0..60_u16).prop_map(Step::Elsewhere),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_put_in_from_nearby_is_where_it_belongs(steps in prop::collection::vec(step(), 1..120)) {
        let (records, index, other) = (Records::default(), OrderedIndex::<4>::with_fan_out(), OrderedIndex::new());
        let guard = pin();
        let mut near = Near::nowhere();
        let mut there = std::collections::BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(number) => {
                    let record = records.make(&key_of(number));
                    let inserted = index.insert_near(record, &mut near, |_| {}, &guard);
                    prop_assert_eq!(was_inserted(&inserted), !there.contains_key(&number));
                    there.entry(number).or_insert(record);
                }
                Step::Remove(number) => {
                    if let Some(record) = there.remove(&number) {
                        prop_assert!(index.remove(record, &guard));
                    }
                }
                Step::Elsewhere(number) => {
                    let record = records.make(&key_of(number));
                    other.insert_near(record, &mut near, |_| {}, &guard);
                }
            }
            prop_assert_eq!(shape_of(&index, &guard).entries, there.len());
        }
        let (found, _) = scan_forward(&index, Bound::Unbounded, &guard);
        prop_assert!(found.iter().eq(there.values()));
        shape_of(&other, &guard);
    }

    #[test]
    fn pages_within_a_range_have_all_of_it(
        numbers in prop::collection::btree_set(0..40_u16, 0..40),
        (from, to) in (0..41_u16, 0..41_u16),
        (skips, ends) in any::<(bool, bool)>(),
    ) {
        let (records, index, guard) = (Records::default(), OrderedIndex::<4>::with_fan_out(), pin());
        for &number in &numbers {
            index.insert(records.make(&key_of(number)), |_| {}, &guard);
        }
        let (from_key, to_key) = (key_of(from), key_of(to));
        let mut bound = if skips { Bound::Excluded(&from_key[..]) } else { Bound::Included(&from_key[..]) };
        let upper = if ends { Bound::Included(&to_key[..]) } else { Bound::Excluded(&to_key[..]) };
        let mut found = Vec::new();
        loop {
            let page = index.page_within(bound, upper, &mut found, &guard);
            match page.next {
                Some(next) if next <= &to_key[..] => bound = Bound::Included(next),
                _ => break,
            }
        }
        let is_inside = |number: u16| {
            (if skips { number > from } else { number >= from }) && if ends { number <= to } else { number < to }
        };
        let expected: Vec<_> = numbers.into_iter().filter(|&number| is_inside(number)).map(key_of).collect();
        let found: Vec<_> = found.iter().map(|record| record.key()).collect();
        prop_assert!(found.is_sorted());
        // Some behind the end may be among them, and are cut by the caller.
        let inside: Vec<_> = found
            .into_iter()
            .filter(|key| is_inside(u16::from_be_bytes([key[0], key[1]])))
            .collect();
        prop_assert_eq!(inside, expected);
    }
}
