//! Counts of events by row over about the last minute: writes that were sampled, conflicts, waits.
//!
//! A minute is divided into intervals, each with a list of its own; a list that is too old makes room for the present one. So nothing
//! has to fade by itself, and a row that was hot an hour ago is not hot any more.
//!
//! # Invariants
//! The list of an interval has at most [`ENTRIES_MAX`] rows. The one with the lowest count makes room for a newcomer, which inherits its
//! count (the space-saving scheme: Metwally et al., 2005). The reported count excludes the inheritance, so that it is never higher than
//! the number of events.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

use parking_lot::Mutex;

/// The length of an interval, in seconds.
const INTERVAL_SECONDS: u64 = 10;
/// The number of intervals that are counted: the present one, and those of a minute before it.
const INTERVALS: u64 = 7;
/// Largest number of rows in a list.
const ENTRIES_MAX: usize = 64;
/// The mean number of commits between two of which the writes are noted.
pub(crate) const SAMPLED_ONE_IN: u32 = 64;
/// The most rows of one commit that are noted.
pub(crate) const ROWS_OF_COMMIT_MAX: usize = 64;

/// A row, by a number of its table and its encoded key.
pub(crate) type RowKey = (u64, Box<[u8]>);

/// The number of the present interval, the same for all lists of the process.
pub(crate) fn interval_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs() / INTERVAL_SECONDS
}

/// Counts of the last minute.
#[derive(Default)]
pub(crate) struct RecentCounts(Mutex<[Interval; INTERVALS as usize]>);

#[derive(Default)]
struct Interval {
    number: u64,
    entries: Vec<Entry>,
}

struct Entry {
    row: RowKey,
    count: u64,
    /// The part of the count that belongs to rows whose place this one has taken.
    inherited: u64,
}

impl RecentCounts {
    /// Counts events of a row in the interval of this number.
    pub(crate) fn report(&self, interval: u64, table: u64, key: &[u8], events: u64) {
        let mut intervals = self.0.lock();
        let list = &mut intervals[(interval % INTERVALS) as usize];
        if list.number != interval {
            list.number = interval;
            list.entries.clear();
        }
        if let Some(entry) =
            list.entries.iter_mut().find(|entry| entry.row.0 == table && *entry.row.1 == *key)
        {
            entry.count += events;
            return;
        }
        let new = Entry { row: (table, key.into()), count: events, inherited: 0 };
        if list.entries.len() < ENTRIES_MAX {
            list.entries.push(new);
        } else if let Some(least) = list.entries.iter_mut().min_by_key(|entry| entry.count) {
            *least = Entry { count: least.count + events, inherited: least.count, ..new };
        }
    }

    /// Adds the counts of the minute before the end of this interval to others.
    pub(crate) fn add_to(&self, interval: u64, sums: &mut BTreeMap<RowKey, u64>) {
        let is_recent = |list: &&Interval| list.number <= interval && list.number + INTERVALS > interval;
        for entry in self.0.lock().iter().filter(is_recent).flat_map(|list| &list.entries) {
            *sums.entry(entry.row.clone()).or_insert(0) += entry.count - entry.inherited;
        }
    }
}

/// The gaps between the commits of one thread of which the written rows are noted.
///
/// Only the thread itself has access, so a commit that is not noted costs a decrement.
pub(crate) struct SampleGaps {
    /// The number of commits that pass before the next one is noted.
    left: u32,
    /// The state of the pseudo-random numbers that vary the gaps: a fixed gap would meet the same transaction of a regular sequence
    /// each time.
    random: u32,
}

impl Default for SampleGaps {
    fn default() -> SampleGaps {
        SampleGaps { left: SAMPLED_ONE_IN / 2, random: 0 }
    }
}

impl SampleGaps {
    /// Returns true if the commit that has just been made is to be noted.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.begin();
        true
    }

    /// The next gap: from none to twice the mean. A linear congruential generator (the constants of "Numerical Recipes"), by its
    /// better upper bits.
    #[cold]
    fn begin(&mut self) {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.left = (self.random >> 16) % (2 * SAMPLED_ONE_IN - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(counts: &RecentCounts, interval: u64) -> Vec<(u64, Vec<u8>, u64)> {
        let mut sums = BTreeMap::new();
        counts.add_to(interval, &mut sums);
        sums.into_iter().map(|((table, key), count)| (table, key.to_vec(), count)).collect()
    }

    #[test]
    fn events_of_the_last_minute_count_by_table_and_key() {
        let counts = RecentCounts::default();
        counts.report(100, 1, b"a", 3);
        counts.report(103, 1, b"a", 2);
        counts.report(103, 2, b"a", 1);
        let both = [(1, b"a".to_vec(), 5), (2, b"a".to_vec(), 1)];
        assert_eq!(sums(&counts, 103), both);
        assert_eq!(sums(&counts, 106), both);
        assert_eq!(
            sums(&counts, 107),
            [(1, b"a".to_vec(), 2), (2, b"a".to_vec(), 1)],
            "the oldest is too old"
        );
        assert!(sums(&counts, 110).is_empty());
        counts.report(110, 1, b"b", 1);
        assert_eq!(sums(&counts, 110), [(1, b"b".to_vec(), 1)], "the interval's place was an earlier one's");
    }

    #[test]
    fn a_hot_row_stays_among_many_cold_ones_and_none_is_overcounted() {
        let counts = RecentCounts::default();
        for number in 0..10_000_u32 {
            counts.report(5, 1, &number.to_be_bytes(), 1);
            counts.report(5, 1, b"hot", 1);
        }
        let sums = sums(&counts, 5);
        assert!(sums.len() <= ENTRIES_MAX);
        assert!(sums.contains(&(1, b"hot".to_vec(), 10_000)));
        assert!(sums.iter().all(|(_, key, count)| key == b"hot" || *count == 1));
    }

    #[test]
    fn about_one_commit_in_as_many_is_due_and_gaps_vary() {
        let mut sample = SampleGaps::default();
        let mut gaps = Vec::new();
        let mut last = None;
        for commit in 0..64_000_u32 {
            if sample.is_due() {
                gaps.extend(last.replace(commit).map(|last| commit - last));
            }
        }
        assert!((800..=1_200).contains(&gaps.len()), "{}", gaps.len());
        assert!(gaps.iter().any(|gap| *gap < 32) && gaps.iter().any(|gap| *gap > 96));
    }
}
