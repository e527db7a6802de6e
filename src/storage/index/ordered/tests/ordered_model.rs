//! The index against a standard map: random keys, operations and bounds.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    /// Removes with a record that has the key but was never put in.
    RemoveStranger(Vec<u8>),
    Get(Vec<u8>),
    Forward(Bound<Vec<u8>>),
    Backward(Bound<Vec<u8>>),
}

/// Keys that are close to each other: few bytes, zeros among them, prefixes shorter and longer than a head.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let tail = vec(prop_oneof![Just(0), Just(1), Just(b'a'), Just(255)], 0..5);
    let prefix = prop_oneof![
        3 => Just(&b""[..]),
        1 => Just(&b"a"[..]),
        1 => Just(&b"\0\0\0\0\0\0\0\0"[..]),
        2 => Just(&b"a long common prefix"[..]),
        1 => Just(&b"a long common prefix that goes on"[..]),
    ];
    (prefix, tail).prop_map(|(prefix, tail)| [prefix, &tail].concat())
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        4 => any_key().prop_map(Bound::Included),
        4 => any_key().prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_key().prop_map(Step::Insert),
        6 => any_key().prop_map(Step::Remove),
        1 => any_key().prop_map(Step::RemoveStranger),
        2 => any_key().prop_map(Step::Get),
        1 => any_bound().prop_map(Step::Forward),
        1 => any_bound().prop_map(Step::Backward),
    ]
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn check<const F: usize>(steps: &[Step]) {
    let records = Records::default();
    let index = OrderedIndex::<F>::with_fan_out();
    let guard = crossbeam_epoch::pin();
    let mut model: BTreeMap<Vec<u8>, Record<'_>> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(key) => match index.insert(records.make(key), |_| {}, &guard) {
                Insertion::Found(record) => assert_eq!(model.get(key), Some(&record)),
                Insertion::Inserted { record, after, .. } => {
                    assert!(after.is_current());
                    assert_eq!(model.insert(key.clone(), record), None);
                }
            },
            Step::Remove(key) => match model.remove(key) {
                Some(record) => {
                    assert!(index.remove(record, &guard));
                    assert!(!index.remove(record, &guard));
                }
                None => assert!(!index.remove(records.make(key), &guard)),
            },
            Step::RemoveStranger(key) => assert!(!index.remove(records.make(key), &guard)),
            Step::Get(key) => match index.get(key, &guard) {
                Lookup::Found(record) => assert_eq!(model.get(key), Some(&record)),
                Lookup::Missing(version) => {
                    assert!(version.is_current());
                    assert!(!model.contains_key(key));
                }
            },
            Step::Forward(from) => {
                let (found, versions) = scan_forward(&index, as_slice(from), &guard);
                let expected = model.range::<[u8], _>((as_slice(from), Bound::Unbounded));
                assert_eq!(found, expected.map(|(_, record)| *record).collect::<Vec<_>>());
                assert!(versions.iter().all(NodeVersion::is_current));
            }
            Step::Backward(to) => {
                let (found, versions) = scan_backward(&index, as_slice(to), &guard);
                let expected = model.range::<[u8], _>((Bound::Unbounded, as_slice(to))).rev();
                assert_eq!(found, expected.map(|(_, record)| *record).collect::<Vec<_>>());
                assert!(versions.iter().all(NodeVersion::is_current));
            }
        }
    }
    assert_eq!(shape_of(&index, &guard).entries, model.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn small_nodes_behave_as_a_map(steps in vec(any_step(), 0..400)) {
        check::<4>(&steps);
    }

    #[test]
    fn middling_nodes_behave_as_a_map(steps in vec(any_step(), 0..400)) {
        check::<9>(&steps);
    }

    #[test]
    fn full_sized_nodes_behave_as_a_map(steps in vec(any_step(), 0..600)) {
        check::<64>(&steps);
    }

    #[test]
    fn long_keys_of_any_bytes_are_kept_in_order(keys in vec(vec(any::<u8>(), 0..3000), 0..60)) {
        check::<4>(&keys.iter().cloned().map(Step::Insert).collect::<Vec<_>>());
    }
}
