//! Latency histograms of statements, each written by one session and read by others.
//!
//! # Invariants
//! A duration counts in exactly one bucket; each bucket's bounds are at most a quarter apart, from 4 µs on. Bounds that
//! are powers of two are bounds of buckets.
//!
//! # Concurrency
//! One thread writes a histogram at a time, so it needs no read-modify-write; a reader sees a recent state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Four buckets for each power of two, up to 2^32 µs, more than an hour.
const BUCKETS: usize = 124;

/// A histogram in progress.
pub(crate) struct Latency {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { buckets: [const { AtomicU64::new(0) }; BUCKETS], nanoseconds: AtomicU64::new(0) }
    }
}

/// The bucket of a duration in microseconds.
fn bucket(microseconds: u64) -> usize {
    if microseconds < 4 {
        return microseconds as usize;
    }
    let octave = microseconds.ilog2() as usize;
    let quarter = (microseconds >> (octave - 2)) as usize & 3;
    ((octave - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// The upper end of a bucket, in microseconds.
fn bound(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64 + 1;
    }
    (4 + bucket as u64 % 4 + 1) << (bucket / 4 - 1)
}

impl Latency {
    /// Counts a duration.
    pub fn add(&self, time: Duration) {
        let nanoseconds = time.as_nanos() as u64;
        // Relaxed, and no read-modify-write: one thread writes, readers want a recent count.
        let add = |to: &AtomicU64, number| to.store(to.load(Ordering::Relaxed) + number, Ordering::Relaxed);
        add(&self.buckets[bucket(nanoseconds / 1_000)], 1);
        add(&self.nanoseconds, nanoseconds);
    }

    /// Adds what was counted to a sum.
    pub fn add_to(&self, sum: &mut LatencyReport) {
        for (to, from) in sum.buckets.iter_mut().zip(&self.buckets) {
            *to += from.load(Ordering::Relaxed);
        }
        sum.total += Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
    }
}

/// The times of statements that have ended, failed ones too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyReport {
    buckets: [u64; BUCKETS],
    total: Duration,
}

impl Default for LatencyReport {
    fn default() -> LatencyReport {
        LatencyReport { buckets: [0; BUCKETS], total: Duration::ZERO }
    }
}

impl LatencyReport {
    /// The number of statements.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time of all of them.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The number of statements that took less than a power of two in microseconds.
    pub fn below(&self, octave: u32) -> u64 {
        let limit = 1_u64 << octave.min(32);
        self.buckets.iter().enumerate().filter(|(at, _)| bound(*at) <= limit).map(|(_, count)| count).sum()
    }

    /// The time below which this share of the statements was, at most a quarter too high; none without statements.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        let found = self.buckets.iter().position(|bucket| {
            sum += bucket;
            sum >= rank
        })?;
        (count > 0).then(|| Duration::from_micros(bound(found)))
    }

    /// The statements that ended since an earlier report.
    #[must_use]
    pub fn since(&self, before: &LatencyReport) -> LatencyReport {
        let mut since = self.clone();
        since.buckets.iter_mut().zip(&before.buckets).for_each(|(now, before)| *now -= (*before).min(*now));
        since.total = self.total.saturating_sub(before.total);
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for bucket_number in 0..BUCKETS - 1 {
            assert_eq!(bucket(bound(bucket_number) - 1), bucket_number);
            assert_eq!(bucket(bound(bucket_number)), bucket_number + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bound(BUCKETS - 1), 1 << 32);
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_high() {
        let latency = Latency::default();
        (1..=1_000).for_each(|number| latency.add(Duration::from_micros(number * 10)));
        let mut report = LatencyReport::default();
        latency.add_to(&mut report);
        assert_eq!((report.count(), report.total()), (1_000, Duration::from_micros(5_005_000)));
        for (share, exact) in [(0.5, 5_000), (0.99, 9_900), (1.0, 10_000), (0.0, 10)] {
            let quantile = report.quantile(share).expect("there are statements").as_micros() as u64;
            assert!((exact..=exact * 5 / 4 + 1).contains(&quantile), "{share}: {quantile}");
        }
        assert_eq!(report.below(12), 409);
        assert_eq!(report.below(32), 1_000);
        assert_eq!(LatencyReport::default().quantile(0.5), None);
    }

    #[test]
    fn a_difference_is_what_came_meanwhile() {
        let latency = Latency::default();
        latency.add(Duration::from_millis(1));
        let mut before = LatencyReport::default();
        latency.add_to(&mut before);
        latency.add(Duration::from_millis(8));
        let mut after = LatencyReport::default();
        latency.add_to(&mut after);
        let since = after.since(&before);
        assert_eq!((since.count(), since.total()), (1, Duration::from_millis(8)));
    }
}
