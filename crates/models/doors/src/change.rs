//! What a read-modify-write does to a word.

/// One read-modify-write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Swap(u64),
    Add(u64),
    And(u64),
    Or(u64),
    Max(u64),
    Min(u64),
    /// To the second if it is the first.
    Exchange(u64, u64),
}

impl Change {
    /// The value after; none: it is not the one to be exchanged.
    pub(crate) fn apply(self, before: u64) -> Option<u64> {
        Some(match self {
            Change::Swap(value) => value,
            Change::Add(value) => before.wrapping_add(value),
            Change::And(value) => before & value,
            Change::Or(value) => before | value,
            Change::Max(value) => before.max(value),
            Change::Min(value) => before.min(value),
            Change::Exchange(expected, new) => return (before == expected).then_some(new),
        })
    }

    /// The value after, whatever was expected.
    pub(crate) fn blindly(self, before: u64) -> u64 {
        match self {
            Change::Exchange(_, new) => new,
            other => other.apply(before).unwrap_or(before),
        }
    }

    pub(crate) fn expected(self) -> Option<u64> {
        if let Change::Exchange(expected, _) = self { Some(expected) } else { None }
    }
}
