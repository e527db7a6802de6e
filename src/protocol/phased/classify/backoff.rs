//! Records that were split unnecessarily: they need more conflicts before they are split again.
//!
//! Invariants: no record changes to and fro. Each time that splitting it has kept more calls waiting than it
//! has helped, the next attempt needs twice as many conflicts as that one did, and so comes later; a record that
//! behaves differently for some seconds is as any other again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::sample::RecordKey;
use crate::storage::table::TableId;

/// The factor of conflicts that are needed after the first time that calls had to wait unnecessarily; doubled each
/// time.
const AFTER_STASHES: f64 = 4.0;
/// The most.
const MAX: f64 = 256.0;
/// And after splitting that did no harm, but was not used: a little, so that what is just at the limit stays as it is.
const AFTER_LACK_OF_WRITES: f64 = 2.0;
/// Time after which the backoff factor is halved.
const HALF_LIFE: Duration = Duration::from_secs(1);
/// The time before splitting that has made the engine slower is tried again; doubled each time.
const PAUSE_AFTER_SLOWNESS: Duration = Duration::from_secs(1);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// The factor below which a record's past is forgotten: three seconds after its backoff has ended, so that a record
/// which is contended again earlier is recognized.
const FORGOTTEN: f64 = 0.125;

/// The classifier's caution about each record.
#[derive(Default)]
pub(super) struct BackoffFactors {
    records: BTreeMap<RecordKey, Past>,
    /// Tables in which splitting has made the engine slower: what is less popular there is no better.
    tables: BTreeMap<TableId, Past>,
}

struct Past {
    factor: f64,
    /// The number of times that it was split unnecessarily.
    failures: i32,
    /// The time that is left in which it is not split at all.
    pause: Duration,
}

impl Default for Past {
    fn default() -> Past {
        Past { factor: 1.0, failures: 0, pause: Duration::ZERO }
    }
}

impl Past {
    fn factor(&self) -> f64 {
        if self.pause.is_zero() { self.factor.max(1.0) } else { f64::INFINITY }
    }

    /// Fades with time; returns true if it is still worth remembering.
    fn fade(&mut self, length: Duration, remaining: f64) -> bool {
        if self.pause.is_zero() {
            self.factor *= remaining;
        }
        self.pause = self.pause.saturating_sub(length);
        self.factor >= FORGOTTEN
    }

    fn was_slower(&mut self) {
        self.pause = (PAUSE_AFTER_SLOWNESS * (1 << self.failures.min(10))).min(PAUSE_MAX);
        self.factor = self.factor.max(AFTER_STASHES);
        self.failures += 1;
    }
}

impl BackoffFactors {
    /// The factor by which this record needs more conflicts than others; infinite if it is not to be split.
    pub(super) fn factor(&self, record: &RecordKey) -> f64 {
        let own = self.records.get(record).map_or(1.0, Past::factor);
        own.max(self.tables.get(&record.table).map_or(1.0, Past::factor))
    }

    /// Returns true if it remembers nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.tables.is_empty()
    }

    /// Fades all factors by this much time.
    pub(super) fn fade(&mut self, length: Duration) {
        let remaining = (-length.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        self.records.retain(|_, past| past.fade(length, remaining));
        self.tables.retain(|_, past| past.fade(length, remaining));
    }

    /// Notes that a column of this record was split, and too many calls had to wait.
    pub(super) fn stashed_without_gain(&mut self, record: &RecordKey) {
        let past = self.records.entry(record.clone()).or_default();
        past.factor = (AFTER_STASHES * f64::from(past.failures).exp2()).min(MAX);
        past.failures += 1;
    }

    /// Notes that these records were split, and the engine commits more without.
    pub(super) fn was_slower(&mut self, records: &[RecordKey]) {
        let mut tables: Vec<TableId> = records.iter().map(|record| record.table).collect();
        tables.dedup();
        tables.into_iter().for_each(|table| self.tables.entry(table).or_default().was_slower());
        records.iter().for_each(|record| self.records.entry(record.clone()).or_default().was_slower());
    }

    /// Forgets the past of these records: splitting them was worth while.
    pub(super) fn forget(&mut self, records: &[RecordKey]) {
        for record in records {
            self.records.remove(record);
            self.tables.remove(&record.table);
        }
    }

    /// Notes that a column of this record was split, and hardly written.
    pub(super) fn hardly_written(&mut self, record: &RecordKey) {
        let past = self.records.entry(record.clone()).or_default();
        past.factor = past.factor.max(AFTER_LACK_OF_WRITES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::EncodedKey;

    fn record(number: u8) -> RecordKey {
        RecordKey { table: 1, key: EncodedKey::from([number].as_slice()) }
    }

    fn seconds(backoff_factors: &mut BackoffFactors, seconds: u32) {
        (0..50 * seconds).for_each(|_| backoff_factors.fade(Duration::from_millis(20)));
    }

    #[test]
    fn it_doubles_with_each_failure_up_to_a_bound_and_is_of_one_record() {
        let mut backoff_factors = BackoffFactors::default();
        let mut expected = 4.0;
        for _ in 0..12 {
            backoff_factors.stashed_without_gain(&record(1));
            assert_eq!(backoff_factors.factor(&record(1)), expected);
            expected = (2.0 * expected).min(256.0);
        }
        assert_eq!(backoff_factors.factor(&record(2)), 1.0);
    }

    #[test]
    fn it_is_halved_every_second_and_forgotten_after_some() {
        let mut backoff_factors = BackoffFactors::default();
        backoff_factors.stashed_without_gain(&record(1));
        seconds(&mut backoff_factors, 1);
        assert!((backoff_factors.factor(&record(1)) - 2.0).abs() < 1e-6);
        seconds(&mut backoff_factors, 2);
        assert_eq!(backoff_factors.factor(&record(1)), 1.0);
        // Not forgotten yet.
        backoff_factors.stashed_without_gain(&record(1));
        assert_eq!(backoff_factors.factor(&record(1)), 8.0);
        seconds(&mut backoff_factors, 7);
        backoff_factors.stashed_without_gain(&record(1));
        assert_eq!(backoff_factors.factor(&record(1)), 4.0);
        seconds(&mut backoff_factors, 6);
        assert!(backoff_factors.records.is_empty());
    }

    #[test]
    fn after_slowness_a_table_is_left_alone_longer_each_time_until_it_is_worth_while() {
        let mut backoff_factors = BackoffFactors::default();
        for pause in [1, 2, 4, 8, 16, 16] {
            backoff_factors.was_slower(&[record(1)]);
            (0..50 * pause - 1).for_each(|_| backoff_factors.fade(Duration::from_millis(20)));
            assert_eq!(backoff_factors.factor(&record(1)), f64::INFINITY, "{pause} seconds");
            assert_eq!(backoff_factors.factor(&record(2)), f64::INFINITY, "its neighbours as well");
            let elsewhere = RecordKey { table: 2, ..record(1) };
            assert_eq!(backoff_factors.factor(&elsewhere), 1.0);
            seconds(&mut backoff_factors, 3);
            assert_eq!(backoff_factors.factor(&record(1)), 1.0, "then as others");
        }
        backoff_factors.forget(&[record(1)]);
        backoff_factors.was_slower(&[record(1)]);
        seconds(&mut backoff_factors, 2);
        assert!(backoff_factors.factor(&record(1)) < 4.0 && backoff_factors.factor(&record(2)) < 4.0);
    }

    #[test]
    fn lack_of_writes_asks_for_little_and_takes_nothing_back() {
        let mut backoff_factors = BackoffFactors::default();
        backoff_factors.hardly_written(&record(1));
        backoff_factors.hardly_written(&record(1));
        assert_eq!(backoff_factors.factor(&record(1)), 2.0);
        backoff_factors.stashed_without_gain(&record(1));
        backoff_factors.hardly_written(&record(1));
        assert_eq!(backoff_factors.factor(&record(1)), 4.0);
    }
}
