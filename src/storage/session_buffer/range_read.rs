//! Ranges of keys that a session has read.

use std::ops::Bound;

use super::Key;

/// A range that was read, of a table's or an index's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeRead {
    pub(crate) lower: Bound<Key>,
    pub(crate) upper: Bound<Key>,
    /// The epoch of the snapshot in which it was read, if it was: its keys are not noted one by one then.
    pub(crate) as_of: Option<u64>,
}

impl RangeRead {
    /// Returns true if everything in the other range is in this one.
    pub(super) fn covers(&self, other: &RangeRead) -> bool {
        let begins = match (&self.lower, &other.lower) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(key)) => {
                own < key || own == key && matches!(self.lower, Bound::Included(_))
            }
            (Bound::Included(own) | Bound::Excluded(own), Bound::Excluded(key)) => own <= key,
        };
        let ends = match (&self.upper, &other.upper) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(key)) => {
                own > key || own == key && matches!(self.upper, Bound::Included(_))
            }
            (Bound::Included(own) | Bound::Excluded(own), Bound::Excluded(key)) => own >= key,
        };
        begins && ends && self.as_of == other.as_of
    }
}

/// Returns true if nothing can be in a range; `BTreeMap::range` panics at such ones.
pub(super) fn is_empty_range(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
        | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
        _ => false,
    }
}
