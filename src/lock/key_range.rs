//! Claims on a table's keys against phantoms: a range that is read, or a key that is inserted or deleted.

use std::ops::Bound;

use smallvec::SmallVec;

/// A key, as bytes that compare as keys do. Short ones need no memory of their own.
pub(super) type Key = SmallVec<[u8; 32]>;

/// A range of keys that has something in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    low: Bound<Key>,
    high: Bound<Key>,
}

impl KeyRange {
    /// `None` if there can be no key between the bounds.
    pub(super) fn new(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<KeyRange> {
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) =
            (low, high)
        {
            let closed = matches!((low, high), (Bound::Included(_), Bound::Included(_)));
            if from > to || from == to && !closed {
                return None;
            }
        }
        Some(KeyRange { low: low.map(Key::from_slice), high: high.map(Key::from_slice) })
    }

    /// Its bounds.
    pub(super) fn bounds(&self) -> (Bound<&Key>, Bound<&Key>) {
        (self.low.as_ref(), self.high.as_ref())
    }

    /// Returns true if the key is in it.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.low {
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
            Bound::Unbounded => true,
        };
        above
            && match &self.high {
                Bound::Included(high) => key <= high.as_slice(),
                Bound::Excluded(high) => key < high.as_slice(),
                Bound::Unbounded => true,
            }
    }

    /// Returns true if all of the other range is in it.
    pub(super) fn covers(&self, other: &KeyRange) -> bool {
        let low = match (&self.low, &other.low) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(own), Bound::Included(its)) => own < its,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(its) | Bound::Excluded(its)) => {
                own <= its
            }
        };
        low && match (&self.high, &other.high) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(own), Bound::Included(its)) => own > its,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(its) | Bound::Excluded(its)) => {
                own >= its
            }
        }
    }
}

/// A request to a table's gap locks.
#[derive(Clone, Debug)]
pub(super) enum Claim {
    /// A range that is read: no key may be inserted into it or deleted from it.
    Range(KeyRange),
    /// An insert intention: a key that is inserted or deleted.
    InsertIntention(Key),
}

impl Claim {
    /// A range conflicts with a point in it. Ranges don't conflict, and of two points with one key the record's own
    /// lock takes care.
    pub(super) fn conflicts(&self, other: &Claim) -> bool {
        match (self, other) {
            (Claim::Range(key_range), Claim::InsertIntention(key))
            | (Claim::InsertIntention(key), Claim::Range(key_range)) => key_range.contains(key),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Vec<Bound<[u8; 1]>> {
        let keys = [1, 3, 5].map(|key| [key]);
        keys.into_iter()
            .flat_map(|key| [Bound::Included(key), Bound::Excluded(key)])
            .chain([Bound::Unbounded])
            .collect()
    }

    type End = Bound<[u8; 1]>;

    fn key_ranges() -> Vec<(End, End, Option<KeyRange>)> {
        let pairs = bounds().into_iter().flat_map(|low| bounds().into_iter().map(move |high| (low, high)));
        pairs
            .map(|(low, high)| {
                (
                    low,
                    high,
                    KeyRange::new(low.as_ref().map(|key| &key[..]), high.as_ref().map(|key| &key[..])),
                )
            })
            .collect()
    }

    /// Keys below, on, between and above all bounds.
    const KEYS: std::ops::Range<u8> = 0..7;

    #[test]
    fn a_span_contains_what_its_bounds_say() {
        use std::ops::RangeBounds;
        for (low, high, key_range) in key_ranges() {
            for key in KEYS {
                let expected = (low, high).contains(&[key]);
                let found = key_range.as_ref().is_some_and(|key_range| key_range.contains(&[key]));
                assert_eq!(found, expected, "{key} in {low:?} .. {high:?}");
            }
        }
    }

    #[test]
    fn a_span_covers_another_only_if_it_has_all_its_keys() {
        let key_ranges: Vec<KeyRange> =
            key_ranges().into_iter().filter_map(|(_, _, key_range)| key_range).collect();
        for one in &key_ranges {
            assert!(one.covers(one));
            for other in &key_ranges {
                let all = KEYS.filter(|key| other.contains(&[*key])).all(|key| one.contains(&[key]));
                assert!(!one.covers(other) || all, "{one:?} {other:?}");
            }
        }
        let [wide, narrow, open] = [(0, 9), (2, 5), (0, 5)].map(|(low, high)| {
            KeyRange::new(Bound::Included(&[low][..]), Bound::Excluded(&[high][..])).expect("it is not empty")
        });
        assert!(wide.covers(&narrow) && open.covers(&narrow) && !narrow.covers(&open) && !open.covers(&wide));
    }

    #[test]
    fn only_a_range_and_a_point_in_it_conflict() {
        let key_range = |low: u8, high: u8| {
            KeyRange::new(Bound::Included(&[low][..]), Bound::Included(&[high][..])).expect("it is not empty")
        };
        let point = |key: u8| Claim::InsertIntention(Key::from_slice(&[key]));
        assert!(
            Claim::Range(key_range(2, 4)).conflicts(&point(3))
                && point(3).conflicts(&Claim::Range(key_range(2, 4)))
        );
        assert!(
            !Claim::Range(key_range(2, 4)).conflicts(&point(5))
                && !point(1).conflicts(&Claim::Range(key_range(2, 4)))
        );
        assert!(!Claim::Range(key_range(2, 4)).conflicts(&Claim::Range(key_range(3, 5))));
        assert!(!point(3).conflicts(&point(3)));
    }
}
