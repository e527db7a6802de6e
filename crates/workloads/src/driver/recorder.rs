//! What one calling thread has seen: counts, reasons, latencies. Threads share nothing while they run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::interval::Interval;

/// Rates over time are kept per tenth of a second.
pub(super) const SLOTS_PER_SECOND: f64 = 10.0;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Committed, and its result released.
    Committed,
    /// It ended in its own error, for this reason.
    Failed(Cow<'static, str>),
}

/// One released call.
pub(super) struct Release {
    pub transaction: usize,
    pub read_only: bool,
    pub outcome: Outcome,
    /// How often the call was run again; 0 where nobody knows.
    pub run_again: u32,
    pub at: Instant,
    /// Time from arrival to release, where it was sampled.
    pub latency: Option<Duration>,
}

/// Counts of one transaction of the mix, within the measured interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub committed: u64,
    pub run_again: u64,
    pub failed: u64,
    pub failed_by_reason: BTreeMap<Cow<'static, str>, u64>,
    pub latency_sum: Duration,
    pub latency_samples: u64,
}

impl Counts {
    pub fn merge(&mut self, other: &Counts) {
        self.committed += other.committed;
        self.run_again += other.run_again;
        self.failed += other.failed;
        for (reason, calls) in &other.failed_by_reason {
            *self.failed_by_reason.entry(reason.clone()).or_default() += calls;
        }
        self.latency_sum += other.latency_sum;
        self.latency_samples += other.latency_samples;
    }
}

/// The figures of one thread.
pub(super) struct Recorder {
    pub by_transaction: Vec<Counts>,
    /// Latencies of read-only and of writing calls in nanoseconds. Committed and failed calls count alike: both
    /// waited for an answer.
    pub read_latency: Histogram<u64>,
    pub write_latency: Histogram<u64>,
    /// Committed calls per tenth of a second of the measured interval.
    pub slots: Vec<u64>,
    /// Committed writing calls of the whole run, warm-up and all: the marks that the database has to show.
    pub marks: u64,
    pub last_release: Option<Instant>,
}

impl Recorder {
    /// An empty recorder for a mix of so many transactions.
    pub fn new(transactions: usize) -> Self {
        Self {
            by_transaction: vec![Counts::default(); transactions],
            read_latency: histogram(),
            write_latency: histogram(),
            slots: Vec::new(),
            marks: 0,
            last_release: None,
        }
    }

    /// Counts a released call.
    pub fn record(&mut self, interval: &Interval, release: Release) {
        let committed = release.outcome == Outcome::Committed;
        self.marks += u64::from(committed && !release.read_only);
        self.last_release = self.last_release.max(Some(release.at));
        let Some(offset) = interval.measured_offset(release.at) else { return };
        let counts = &mut self.by_transaction[release.transaction];
        counts.run_again += u64::from(release.run_again);
        match release.outcome {
            Outcome::Committed => {
                counts.committed += 1;
                self.count_in_slot(offset);
            }
            Outcome::Failed(reason) => {
                counts.failed += 1;
                *counts.failed_by_reason.entry(reason).or_default() += 1;
            }
        }
        if let Some(latency) = release.latency {
            self.sample(release.transaction, release.read_only, latency);
        }
    }

    fn count_in_slot(&mut self, offset: Duration) {
        let slot = (offset.as_secs_f64() * SLOTS_PER_SECOND) as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += 1;
    }

    fn sample(&mut self, transaction: usize, read_only: bool, latency: Duration) {
        let counts = &mut self.by_transaction[transaction];
        counts.latency_sum += latency;
        counts.latency_samples += 1;
        let histogram = if read_only { &mut self.read_latency } else { &mut self.write_latency };
        record(histogram, u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX), 1);
    }
}

/// A histogram that keeps three digits and grows by itself.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are within the histogram's 0 to 5"))
}

/// Adds samples of one value. A histogram that can't grow any more keeps them as its largest value.
pub(super) fn record(histogram: &mut Histogram<u64>, value: u64, samples: u64) {
    if histogram.record_n(value, samples).is_err() {
        histogram.saturating_record_n(value, samples);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn release(interval: &Interval, seconds: f64, outcome: Outcome) -> Release {
        Release {
            transaction: 0,
            read_only: false,
            outcome,
            run_again: 1,
            at: interval.measured_from() + Duration::from_secs_f64(seconds),
            latency: Some(Duration::from_micros(100)),
        }
    }

    #[test]
    fn releases_outside_of_the_interval_leave_only_marks() {
        let interval = Interval::start(&Settings { seconds: 1.0, ..Settings::default() }, false);
        let mut recorder = Recorder::new(1);
        recorder.record(&interval, release(&interval, 0.05, Outcome::Committed));
        recorder.record(&interval, release(&interval, 0.95, Outcome::Committed));
        recorder.record(&interval, release(&interval, 1.5, Outcome::Committed));
        let counts = &recorder.by_transaction[0];
        assert_eq!((counts.committed, counts.run_again, recorder.marks), (2, 2, 3));
        assert_eq!(recorder.slots, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(recorder.write_latency.len(), 2);
        assert_eq!(recorder.last_release, Some(interval.measured_from() + Duration::from_millis(1_500)));
    }

    #[test]
    fn failures_are_counted_by_reason_and_leave_no_mark() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        for reason in ["code", "floor", "code"] {
            recorder.record(&interval, release(&interval, 0.1, Outcome::Failed(Cow::Borrowed(reason))));
        }
        let counts = &recorder.by_transaction[0];
        assert_eq!((counts.committed, counts.failed, recorder.marks), (0, 3, 0));
        assert_eq!(counts.failed_by_reason.get("code"), Some(&2));
        assert!(recorder.slots.is_empty());
    }

    #[test]
    fn readers_and_writers_have_their_own_latencies_and_only_writers_leave_marks() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        recorder.record(&interval, release(&interval, 0.1, Outcome::Committed));
        let read = Release { read_only: true, latency: None, ..release(&interval, 0.1, Outcome::Committed) };
        recorder.record(&interval, read);
        assert_eq!((recorder.read_latency.len(), recorder.write_latency.len(), recorder.marks), (0, 1, 1));
    }

    #[test]
    fn counts_merge() {
        let mut left = Counts { committed: 1, failed: 1, ..Counts::default() };
        left.failed_by_reason.insert("a".into(), 1);
        let mut right = Counts { committed: 2, latency_samples: 3, ..Counts::default() };
        right.failed_by_reason.insert("a".into(), 4);
        left.merge(&right);
        assert_eq!((left.committed, left.failed, left.latency_samples), (3, 1, 3));
        assert_eq!(left.failed_by_reason.get("a"), Some(&5));
    }
}
