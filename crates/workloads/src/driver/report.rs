//! The figures of a run, merged from all its callers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use heddledb::{AccessTrace, Statistics};

use super::counted::Counted;
use super::interval::Interval;
use super::recorder::{Counts, Recorder, SLOTS_PER_SECOND, record};
use super::{CallPath, Settings};
use crate::workload::Workload;

/// Runs shorter than this many seconds show their rate per tenth of a second.
const SHORT_RUN: f64 = 5.0;

/// The figures of one transaction of the mix.
#[derive(Clone, Debug)]
pub struct TransactionReport {
    /// Its name.
    pub name: &'static str,
    /// Calls released as committed within the measured interval.
    pub committed: u64,
    /// Attempts that aborted; `None` for closures and connections, of which only the engine's total is known.
    pub aborted: Option<u64>,
    /// Calls that ended in their own error.
    pub failed: u64,
    /// Number of failed calls by their reason.
    pub failed_by_reason: BTreeMap<Cow<'static, str>, u64>,
    /// Mean latency in microseconds; none where none was sampled.
    pub mean_microseconds: Option<f64>,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Length of the measured interval.
    pub seconds: f64,
    /// Calls released as committed within it.
    pub committed: u64,
    /// Attempts that were retried.
    pub aborted: u64,
    /// Calls that ended in their own error.
    pub failed: u64,
    /// Latencies of all calls in nanoseconds.
    pub latency: Histogram<u64>,
    /// Latencies of calls that only read.
    pub read_latency: Histogram<u64>,
    /// Latencies of calls that wrote.
    pub write_latency: Histogram<u64>,
    /// Figures of each transaction, in the workload's order.
    pub by_transaction: Vec<TransactionReport>,
    /// Pairs of second and committed calls per second.
    pub throughput_over_time: Vec<(f64, f64)>,
    /// Committed calls per tenth of a second.
    slots: Vec<u64>,
    /// The engine's counters over the measured interval.
    pub statistics: Statistics,
    /// Processor time of the whole process over the measured interval, if the system tells it.
    pub processor_time: Option<Duration>,
    /// Committed calls of the whole run that left a mark in the database.
    pub marks: u64,
    /// Access trace of the measured interval, if the database records one: which thread touched which record,
    /// and when.
    pub access_trace: Option<AccessTrace>,
}

impl Report {
    pub(super) fn new(
        workload: &dyn Workload,
        settings: &Settings,
        interval: &Interval,
        recorders: Vec<Recorder>,
        counted: Counted,
    ) -> Self {
        let Counted { statistics, processor_time } = counted;
        let last_release: Option<Instant> =
            recorders.iter().filter_map(|recorder| recorder.last_release).max();
        let seconds = interval.measured_seconds(last_release);
        let all = merge(recorders);
        let mut latency = all.read_latency.clone();
        add(&mut latency, &all.write_latency);
        let own_calls = matches!(settings.path, CallPath::OwnCalls { .. });
        let closures =
            matches!(settings.path, CallPath::Clients { closures: true, .. } | CallPath::Connections { .. });
        let sum = |count: fn(&Counts) -> u64| all.by_procedure.iter().map(count).sum();
        let aborted = if own_calls { sum(|counts| counts.retries) } else { statistics.aborted };
        let names = workload.transactions();
        let by_transaction = names
            .iter()
            .zip(counts_by_transaction(workload, &all.by_procedure))
            .map(|(name, counts)| {
                let known = (!closures).then_some(counts.retries);
                transaction(name, &counts, known.or((names.len() == 1).then_some(aborted)))
            })
            .collect();
        Self {
            seconds,
            committed: sum(|counts| counts.committed),
            aborted,
            failed: sum(|counts| counts.failed),
            latency,
            read_latency: all.read_latency,
            write_latency: all.write_latency,
            by_transaction,
            throughput_over_time: over_time(&all.slots, seconds, usual_step(seconds)),
            slots: all.slots,
            statistics,
            processor_time,
            marks: all.marks,
            access_trace: None,
        }
    }

    /// Share of the processors that this process may use which it used in the measured interval, if the system tells it:
    /// DORA's axis of load.
    pub fn processor_load(&self) -> Option<f64> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let used = self.processor_time?.as_secs_f64();
        Some((used / self.seconds.max(f64::MIN_POSITIVE) / processors).min(1.0))
    }

    /// Committed calls per second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.committed as f64 / self.seconds } else { 0.0 }
    }

    /// Pairs of second and committed calls per second, in steps of this many seconds, rounded to tenths.
    pub fn throughput_in_steps(&self, seconds: f64) -> Vec<(f64, f64)> {
        let slots = (seconds * SLOTS_PER_SECOND).round().max(1.0) as usize;
        over_time(&self.slots, self.seconds, slots)
    }

    /// Attempts that were retried, as a share of all attempts that ended in a commit or in another attempt.
    pub fn abort_rate(&self) -> f64 {
        let attempts = self.aborted + self.committed;
        if attempts > 0 { self.aborted as f64 / attempts as f64 } else { 0.0 }
    }

    /// The share of calls answered within a second.
    pub fn share_under_a_second(&self) -> f64 {
        if self.latency.is_empty() { 1.0 } else { self.latency.percentile_below(999_999_999) / 100.0 }
    }
}

fn transaction(name: &'static str, counts: &Counts, aborted: Option<u64>) -> TransactionReport {
    let samples = counts.latency_samples;
    TransactionReport {
        name,
        committed: counts.committed,
        aborted,
        failed: counts.failed,
        failed_by_reason: counts.failed_by_reason.clone(),
        mean_microseconds: (samples > 0).then(|| counts.latency_sum.as_secs_f64() * 1e6 / samples as f64),
    }
}

/// Puts the counts of all procedures of each transaction together.
fn counts_by_transaction(workload: &dyn Workload, by_procedure: &[Counts]) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); workload.transactions().len()];
    for (procedure, of_procedure) in by_procedure.iter().enumerate() {
        if let Some(counts) = counts.get_mut(workload.transaction_of(procedure)) {
            counts.merge(of_procedure);
        }
    }
    counts
}

fn merge(recorders: Vec<Recorder>) -> Recorder {
    let procedures = recorders.iter().map(|one| one.by_procedure.len()).max();
    let mut all = Recorder::new(procedures.unwrap_or(0));
    for one in recorders {
        for (into, counts) in all.by_procedure.iter_mut().zip(&one.by_procedure) {
            into.merge(counts);
        }
        add(&mut all.read_latency, &one.read_latency);
        add(&mut all.write_latency, &one.write_latency);
        all.slots.resize(all.slots.len().max(one.slots.len()), 0);
        for (into, calls) in all.slots.iter_mut().zip(one.slots) {
            *into += calls;
        }
        all.marks += one.marks;
    }
    all
}

/// Adds the samples of one histogram to another. Both grow automatically, so that nothing is out of range; the
/// values are added one by one all the same if the fast way is refused.
fn add(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    if into.add(from).is_err() {
        for step in from.iter_recorded() {
            record(into, step.value_iterated_to(), step.count_at_value());
        }
    }
}

/// Slots of a step: a tenth of a second for a short run, a second for a long one.
fn usual_step(seconds: f64) -> usize {
    if seconds < SHORT_RUN { 1 } else { SLOTS_PER_SECOND as usize }
}

/// Turns counts per tenth of a second into rates per step of this many tenths. The last piece may be shorter than the
/// others, and its rate is counted over its own length.
fn over_time(slots: &[u64], seconds: f64, slots_per_step: usize) -> Vec<(f64, f64)> {
    let step = slots_per_step as f64 / SLOTS_PER_SECOND;
    let steps = (seconds / step).ceil() as usize;
    (0..steps)
        .map(|index| {
            // Divided rather than multiplied, so that the third tenth reads 0.3.
            let begin = (index * slots_per_step) as f64 / SLOTS_PER_SECOND;
            let length = (seconds - begin).min(step);
            let calls: u64 = slots.iter().skip(index * slots_per_step).take(slots_per_step).sum();
            (begin, calls as f64 / length)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorder::histogram;
    use super::*;

    #[test]
    fn short_runs_show_tenths_and_long_ones_seconds() {
        let tenths = over_time(&[10, 0, 5], 0.25, usual_step(0.25));
        assert_eq!(tenths.len(), 3);
        assert_eq!(tenths[0], (0.0, 100.0));
        assert_eq!(tenths[1].1, 0.0);
        assert!((tenths[2].1 - 100.0).abs() < 1e-6, "5 calls in the last 0.05 s: {tenths:?}");
        let seconds = over_time(&[7; 60], 6.0, usual_step(6.0));
        assert_eq!(seconds.len(), 6);
        assert!(seconds.iter().all(|(_, rate)| *rate == 70.0));
    }

    #[test]
    fn steps_of_half_a_second_begin_where_they_should() {
        assert_eq!(over_time(&[1; 12], 1.2, 5)[..2], [(0.0, 10.0), (0.5, 10.0)]);
        let last = over_time(&[1; 12], 1.2, 5)[2];
        assert!(last.0 == 1.0 && (last.1 - 10.0).abs() < 1e-6, "{last:?}");
    }

    #[test]
    fn missing_slots_are_zero() {
        assert_eq!(over_time(&[], 0.2, 1), [(0.0, 0.0), (0.1, 0.0)]);
        assert_eq!(over_time(&[], 0.0, 1), []);
    }

    #[test]
    fn histograms_of_different_size_add_up() {
        let (mut small, mut large) = (histogram(), histogram());
        record(&mut small, 100, 1);
        record(&mut large, 10_000_000_000, 1);
        add(&mut small, &large);
        assert_eq!((small.len(), small.max() >= 9_990_000_000), (2, true));
    }
}
