//! Counts the write conflicts of single records: the rows about which transactions abort.
//!
//! Each worker context has one list, which its own thread writes when an attempt has aborted, and others only read: on
//! the path of a commit nothing is counted.
//!
//! # Invariants
//! A list has at most [`ENTRIES_MAX`] records. The one with the fewest conflicts makes room for a newcomer, which
//! inherits its count (the space-saving scheme: Metwally et al., 2005). The reported count excludes the
//! inheritance: never more conflicts than there were, and nearly all of those of a record that has a fair
//! share of them.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Largest number of records in a list.
const ENTRIES_MAX: usize = 64;

/// A record, by the number of its table and its encoded key.
pub(crate) type CountedKey = (u32, Box<[u8]>);

struct Entry {
    table: u32,
    key: Box<[u8]>,
    count: u64,
    /// The part of the count that belongs to records whose place this one has taken.
    inherited: u64,
}

/// The write conflicts of one worker context.
#[derive(Default)]
pub(crate) struct ConflictCounts(Mutex<Vec<Entry>>);

impl ConflictCounts {
    /// Counts a conflict.
    pub(crate) fn report(&self, table: u32, key: &[u8]) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.table == table && *entry.key == *key) {
            entry.count += 1;
            return;
        }
        let new = Entry { table, key: key.into(), count: 1, inherited: 0 };
        if entries.len() < ENTRIES_MAX {
            entries.push(new);
        } else if let Some(least) = entries.iter_mut().min_by_key(|entry| entry.count) {
            *least = Entry { count: least.count + 1, inherited: least.count, ..new };
        }
    }

    /// Adds the counts to those of other worker contexts.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<CountedKey, u64>) {
        for entry in self.0.lock().iter() {
            *sums.entry((entry.table, entry.key.clone())).or_insert(0) += entry.count - entry.inherited;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(counts: &[&ConflictCounts]) -> BTreeMap<CountedKey, u64> {
        let mut sums = BTreeMap::new();
        counts.iter().for_each(|counts| counts.add_to(&mut sums));
        sums
    }

    #[test]
    fn conflicts_are_counted_by_table_and_key_over_all_lists() {
        let (first, second) = (ConflictCounts::default(), ConflictCounts::default());
        (0..3).for_each(|_| first.report(1, b"a"));
        second.report(1, b"a");
        second.report(2, b"a");
        let sums = sums(&[&first, &second]);
        assert_eq!(sums.get(&(1, b"a"[..].into())), Some(&4));
        assert_eq!(sums.get(&(2, b"a"[..].into())), Some(&1));
    }

    #[test]
    fn a_hot_record_stays_among_many_cold_ones_and_none_is_overcounted() {
        let counts = ConflictCounts::default();
        for number in 0..10_000_u32 {
            counts.report(1, &number.to_be_bytes());
            counts.report(1, b"hot");
        }
        let sums = sums(&[&counts]);
        assert!(sums.len() <= ENTRIES_MAX);
        let hot: CountedKey = (1, b"hot"[..].into());
        assert_eq!(sums[&hot], 10_000);
        assert!(sums.iter().all(|(key, &count)| *key == hot || count == 1), "each cold one conflicted once");
    }
}
