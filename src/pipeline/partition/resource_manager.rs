//! The resource manager: how many executors have a range, and where the ranges begin.
//!
//! It considers three things. *Requests:* executors count the requests in each *hash bucket* ([`RequestCounts`]), and
//! how long they are busy with them; a bucket weighs by its requests, and more where its executor takes longer for
//! each. *Size:* the number of rows in each bucket ([`row_counts`](super::row_counts)) decides where there are no
//! requests, and hardly counts where there are some. *Processors:* there are no more executors than these, and more
//! than one only if they are busy or have enough rows each. The manager observes several times a second and balances
//! the load if the busiest executor has clearly more than its share. A bucket is never divided: the load of a single
//! hash stays with one executor.
//!
//! # Invariants
//! Counts are a hint. A count that is lost or late costs time and nothing else.
//!
//! # Source
//! DORA (VLDB 2010), appendix A.2.1; docs/decisions/2026-11-22-repartitioning.md.

use std::time::Duration;

use crate::base::atomics::{AtomicU32, Ordering};
use crate::base::random;

/// The number of hash buckets.
pub(super) const BUCKETS: usize = 1 << 12;
/// The shift that turns a partition hash into its bucket.
const SHIFT: u32 = u64::BITS - BUCKETS.trailing_zeros();
/// Sampling interval: one request in this many is counted, on average, where there are many.
const SAMPLING_INTERVAL: u32 = 8;
/// Number of known requests below which they are no reason for a repartitioning.
const REQUESTS_MIN: f64 = 64.0;
/// Number of known requests below which rows decide.
const REQUESTS_IDLE: f64 = REQUESTS_MIN / 4.0;
/// Number of known requests above which older ones are forgotten faster.
const REQUESTS_ENOUGH: f64 = 1_024.0;
/// The minimum and maximum part of the known requests that each observation keeps: half of them where there are many; where
/// there are few, requests count for ten seconds. Without new requests, all are forgotten within seconds.
const KEPT: (f64, f64) = (0.5, 1.0 - 1.0 / 128.0);
const KEPT_IDLE: f64 = 1.0 - 1.0 / 32.0;
/// All rows together weigh as much as this many requests.
const ROWS_WEIGHT: f64 = 16.0;
/// An executor pays for this many rows, even without requests.
const ROWS_EACH: u64 = 1_024;
/// Shares of busy time: there are more executors if each would be busy for more than the first part of the time, and
/// fewer if each would be busy for less than the second.
const BUSY: (f64, f64) = (0.5, 0.25);
/// The busiest executor has at least this many times its fair share before a repartitioning.
const UNEVEN: f64 = 1.2;
/// Largest part of that which it may have afterwards.
const BETTER: f64 = 0.9;
/// An executor that takes this many times as long for a request is not slower: its thread may have been preempted.
const SLOWER: f64 = 1.5;

/// The bucket of a partition hash.
#[inline]
pub(super) fn bucket_of(hash: u64) -> usize {
    (hash >> SHIFT) as usize
}

/// Chooses at random which requests of one thread are counted: if rows are requested in turn, every eighth request could
/// always be for the same row, which would seem to have all the load.
#[derive(Default)]
pub(super) struct RequestSampler {
    /// The requests to skip before the next one.
    skip: u32,
}

impl RequestSampler {
    /// Returns true if this request of an executor is counted.
    #[inline]
    pub(super) fn takes_next(&mut self, of: &RequestCounts) -> bool {
        let takes = self.skip == 0;
        // Relaxed: a hint.
        let every = || of.every.load(Ordering::Relaxed);
        self.skip = if takes { random::below(2 * every() - 1) } else { self.skip - 1 };
        takes
    }
}

/// The requests of one executor, by buckets.
pub(super) struct RequestCounts {
    buckets: Box<[AtomicU32]>,
    /// Sampling interval: one request in this many is counted, on average.
    every: AtomicU32,
}

impl Default for RequestCounts {
    fn default() -> RequestCounts {
        let buckets = (0..BUCKETS).map(|_| AtomicU32::new(0)).collect();
        RequestCounts { buckets, every: AtomicU32::new(SAMPLING_INTERVAL) }
    }
}

impl RequestCounts {
    /// Counts a request for this hash.
    #[inline]
    pub(super) fn count(&self, hash: u64) {
        let bucket = &self.buckets[bucket_of(hash)];
        // Relaxed: only the executor's thread counts.
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts every request if there were few at the last observation, and samples them if there were many.
    fn adapt(&self, counted: u32) {
        let few = f64::from(counted) < REQUESTS_MIN / 2.0;
        let many = f64::from(counted) > REQUESTS_MIN * 2.0 * f64::from(SAMPLING_INTERVAL);
        if few || many {
            // Relaxed: a hint.
            self.every.store(if few { 1 } else { SAMPLING_INTERVAL }, Ordering::Relaxed);
        }
    }
}

/// The observations of one executor.
struct Observed {
    /// Its counts at the last observation.
    counted: Box<[u32]>,
    /// Its total busy time at that observation.
    was_busy: Duration,
    /// Its recent requests, and how long it was busy with them, in seconds.
    requests: f64,
    busy: f64,
}

/// The resource manager; see the module's description.
pub(super) struct ResourceManager {
    executors: Vec<Observed>,
    /// The weight of each bucket, in requests of average length.
    weights: Box<[f64]>,
    /// The number of requests behind the weights.
    known: f64,
    /// The recent busy time, in executors.
    busy: f64,
    /// The rows of each bucket, and of all; `None` before all were counted for the first time.
    rows: Box<[u32]>,
    all_rows: Option<u64>,
    /// True if it decides how many executors have a range.
    chooses_number: bool,
}

impl ResourceManager {
    /// Makes a resource manager for at most this many executors. `chooses_number`: it may use fewer.
    pub(super) fn new(executors: usize, chooses_number: bool) -> ResourceManager {
        let known = || Observed {
            counted: vec![0; BUCKETS].into(),
            was_busy: Duration::ZERO,
            requests: 0.0,
            busy: 0.0,
        };
        ResourceManager {
            executors: (0..executors).map(|_| known()).collect(),
            weights: vec![0.0; BUCKETS].into(),
            known: 0.0,
            busy: 0.0,
            rows: vec![0; BUCKETS].into(),
            all_rows: None,
            chooses_number,
        }
    }

    /// Adds the counts of each executor since the last observation, `elapsed` ago, and its total busy time.
    pub(super) fn collect<'l>(
        &mut self,
        elapsed: Duration,
        seen: impl IntoIterator<Item = (&'l RequestCounts, Duration)>,
    ) {
        let seen = self.executors.iter_mut().zip(seen).map(|(of, (load, busy))| of.take(load, busy));
        let new: Vec<New> = seen.collect();
        let counted: f64 = new.iter().map(|new| new.requests).sum();
        let kept = match KEPT {
            _ if counted == 0.0 => KEPT_IDLE,
            (least, most) => (REQUESTS_ENOUGH / self.known.max(1.0)).clamp(least, most),
        };
        for (of, new) in self.executors.iter_mut().zip(&new) {
            of.requests = of.requests * kept + new.requests;
            of.busy = of.busy * kept + new.busy;
        }
        self.known = self.known * kept + counted;
        let busy: f64 = new.iter().map(|new| new.busy).sum();
        self.busy = (self.busy + busy / elapsed.as_secs_f64().max(1e-3)) / 2.0;
        self.weights.iter_mut().for_each(|weight| *weight *= kept);
        for (executor, new) in new.into_iter().enumerate() {
            let length = self.length(executor);
            new.counts.iter().for_each(|(bucket, count)| self.weights[*bucket] += f64::from(*count) * length);
        }
    }

    /// Time that an executor takes for a request, relative to all executors; small differences count as chance.
    fn length(&self, executor: usize) -> f64 {
        let all = self.executors.iter().fold((0.0, 0.0), |all, one| (all.0 + one.requests, all.1 + one.busy));
        let Observed { requests, busy, .. } = &self.executors[executor];
        let length = (busy / requests) / (all.1 / all.0);
        // Without busy time or requests it is not a number.
        match length {
            slower if slower > 1.0 => (slower / SLOWER).max(1.0),
            faster if faster > 0.0 => (faster * SLOWER).min(1.0),
            _ => 1.0,
        }
    }

    /// Returns true if there are so few requests that rows are worth counting.
    pub(super) fn is_idle(&self) -> bool {
        self.known < REQUESTS_MIN
    }

    /// Sets the number of rows in each bucket.
    pub(super) fn set_rows(&mut self, rows: &[u32]) {
        self.rows.copy_from_slice(rows);
        self.all_rows = Some(rows.iter().map(|rows| u64::from(*rows)).sum());
    }

    /// Records that there are at least this many rows.
    pub(super) fn set_rows_at_least(&mut self, rows: u64) {
        if self.all_rows.is_some_and(|all| all < rows) || rows >= ROWS_EACH * self.executors.len() as u64 {
            self.all_rows = Some(self.all_rows.unwrap_or(0).max(rows));
        }
    }

    /// The recent load of each executor's range.
    pub(super) fn shares(&self, starts: &[u64]) -> Vec<f64> {
        shares(&self.weights, starts)
    }

    /// The starts of the ranges, if a repartitioning pays; otherwise `None`.
    pub(super) fn plan(&self, starts: &[u64]) -> Option<Vec<u64>> {
        let present = in_use(starts);
        let wanted = self.number(present);
        let (weights, known) = self.conflict_counts();
        let total: f64 = weights.iter().sum();
        if starts.is_empty() || total <= 0.0 {
            return None;
        }
        let even = self.even(&weights, wanted);
        if self.chooses_number && wanted != present {
            return (in_use(&even) != present).then_some(even);
        }
        // Between the two limits there is too little evidence.
        let is_known = known >= REQUESTS_MIN && (self.known >= REQUESTS_MIN || self.known < REQUESTS_IDLE);
        // Random counts differ by about their square roots.
        let chance = 3.0 * (known / wanted as f64).sqrt() * (total / known);
        let busiest = |starts: &[u64]| shares(&weights, starts).into_iter().fold(0.0, f64::max);
        let now = busiest(starts);
        if !is_known || now < UNEVEN * total / wanted as f64 + chance {
            return None;
        }
        (busiest(&even) < BETTER * now).then_some(even)
    }

    /// Weights of the buckets, and the number of observations behind them: requests, and rows a little; or rows alone,
    /// where there are next to no requests.
    fn conflict_counts(&self) -> (Vec<f64>, f64) {
        let rows = self.rows.iter().map(|rows| f64::from(*rows));
        let all: f64 = rows.clone().sum();
        if self.known < REQUESTS_MIN && all > 0.0 {
            return (rows.collect(), all);
        }
        let weights = self.weights.iter().zip(rows);
        (weights.map(|(weight, rows)| weight + ROWS_WEIGHT * rows / all.max(1.0)).collect(), self.known)
    }

    /// The number of executors that should have a range, given the present number.
    fn number(&self, present: usize) -> usize {
        let all = self.executors.len();
        if !self.chooses_number {
            return all;
        }
        let for_each_busy = |part: f64| ((self.busy / part).ceil() as usize).max(1);
        let by_requests = present.clamp(for_each_busy(BUSY.0), for_each_busy(BUSY.1));
        // As long as the size is unknown there is no reason for a change.
        let by_size = self.all_rows.map_or(present, |rows| (rows / ROWS_EACH) as usize);
        by_requests.max(by_size).clamp(1, all)
    }

    /// The starts of ranges of equal weight, as far as buckets allow; further ranges are empty.
    fn even(&self, weights: &[f64], executors: usize) -> Vec<u64> {
        let mut left: f64 = weights.iter().sum();
        let mut starts = Vec::with_capacity(self.executors.len());
        let mut bucket = 0;
        for to_come in (2..=executors).rev() {
            let share = left / to_come as f64;
            let mut weight = 0.0;
            // The bucket that crosses the share is assigned to the executor that it brings closer to its share, but no
            // executor stays empty while there is a bucket left.
            while bucket < BUCKETS && (weight == 0.0 || weight + weights[bucket] / 2.0 <= share) {
                weight += weights[bucket];
                bucket += 1;
            }
            left -= weight;
            starts.push(if bucket < BUCKETS { (bucket as u64) << SHIFT } else { u64::MAX });
        }
        starts.resize(self.executors.len() - 1, u64::MAX);
        starts
    }
}

/// Changes at an executor since the last observation.
struct New {
    /// The counts by bucket.
    counts: Vec<(usize, u32)>,
    requests: f64,
    busy: f64,
}

impl Observed {
    /// The difference to the last observation. `busy`: its total busy time.
    fn take(&mut self, counts_of: &RequestCounts, busy: Duration) -> New {
        let (mut counts, mut requests) = (Vec::new(), 0);
        for (bucket, (counted, now)) in self.counted.iter_mut().zip(&counts_of.buckets).enumerate() {
            // Relaxed: see `RequestCounts::count`.
            let now = now.load(Ordering::Relaxed);
            if now != *counted {
                let count = now.wrapping_sub(*counted);
                counts.push((bucket, count));
                requests += count;
                *counted = now;
            }
        }
        counts_of.adapt(requests);
        let busy = busy.saturating_sub(std::mem::replace(&mut self.was_busy, busy));
        New { counts, requests: f64::from(requests), busy: busy.as_secs_f64() }
    }
}

/// The number of executors with a range.
fn in_use(starts: &[u64]) -> usize {
    let ends = starts.iter().copied().chain([u64::MAX]);
    [0].into_iter().chain(starts.iter().copied()).zip(ends).filter(|(start, end)| start < end).count()
}

/// The weight in each executor's range.
fn shares(weights: &[f64], starts: &[u64]) -> Vec<f64> {
    let mut shares = vec![0.0; starts.len() + 1];
    for (bucket, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        let first = (bucket as u64) << SHIFT;
        let last = first | ((1 << SHIFT) - 1);
        let mut from = first;
        let owner = starts.partition_point(|start| *start <= first);
        for (executor, share) in shares.iter_mut().enumerate().skip(owner) {
            // A bucket that belongs to two executors counts by its length on either side.
            let end = starts.get(executor).map_or(last, |start| last.min(start.saturating_sub(1)));
            if end >= from {
                *share += weight * ((end - from) as f64 + 1.0) / (1_u64 << SHIFT) as f64;
                from = end.saturating_add(1);
            }
            if end == last {
                break;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests;
