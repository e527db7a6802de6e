//! Searches the highest rate at which the mean response time is at most the target.
//!
//! A trial without a rate measures the capacity. Below that, bisection finds the highest rate whose mean response time is
//! at most the target; the measured run has that rate. Response times grow steeply near the capacity, so most answers lie
//! there, and the search begins there.
//!
//! Invariant: a trial in which no response arrived counts as too slow. It says nothing about the mean, and under a heavy
//! overload no response may arrive at all.

use hdrhistogram::Histogram;
use heddle_workloads::driver::{self, Settings};
use heddledb::Database;

use super::progress::Progress;
use super::workloads::Plan;
use crate::failure::Result;

/// The share of the capacity above which the search begins.
const FIRST_SHARE: f64 = 0.75;
/// Trials there.
const TRIALS: u32 = 3;
/// Trials below, if all of those have failed.
const TRIALS_BELOW: u32 = 5;
/// The longest trial, in seconds.
const TRIAL_SECONDS_MAX: f64 = 2.0;
/// Seconds before a trial counts.
const WARMUP_SECONDS: f64 = 0.3;
/// The lowest rate that is tried, in transactions per second.
const RATE_MIN: f64 = 0.001;

/// The outcome of a search.
pub struct Found {
    /// Transactions per second; `None`: the target is met at full load, without throttling.
    pub rate: Option<f64>,
    /// Marks that the transactions of all trials left in the database.
    pub marks: u64,
}

/// Results of one trial.
#[derive(Clone, Copy)]
struct Trial {
    throughput: f64,
    /// Mean response time in milliseconds; infinite if no response arrived.
    mean: f64,
}

impl Trial {
    /// `latency` is in nanoseconds.
    fn new(throughput: f64, latency: &Histogram<u64>) -> Trial {
        let mean = if latency.is_empty() { f64::INFINITY } else { latency.mean() / 1e6 };
        Trial { throughput, mean }
    }
}

/// Searches. The first trial warms up as the run itself would.
pub fn search(
    db: &Database,
    plan: &Plan,
    settings: &Settings,
    milliseconds: f64,
    progress: &Progress,
) -> Result<Found> {
    let mut marks = 0;
    let rate = rate_within(milliseconds, |rate| {
        let seconds = settings.seconds.min(TRIAL_SECONDS_MAX);
        let warmup = if rate.is_some() { WARMUP_SECONDS } else { settings.warmup };
        let settings = Settings { rate, warmup, seconds, acknowledgements: None, ..settings.clone() };
        let bound = plan.workload.bind(db, settings.callers())?;
        progress.start(plan.workload.as_ref(), &settings);
        let report =
            driver::run(db, plan.workload.as_ref(), bound.as_ref(), &settings, &|tick| progress.tick(tick))?;
        marks += report.marks;
        Ok(Trial::new(report.throughput(), &report.latency))
    })?;
    Ok(Found { rate, marks })
}

/// The highest rate tried whose mean is at most the target, or the lowest one tried if none is; `None` if the trial without
/// a rate meets the target.
fn rate_within(target: f64, mut trial: impl FnMut(Option<f64>) -> Result<Trial>) -> Result<Option<f64>> {
    let capacity = trial(None)?;
    if capacity.mean <= target {
        return Ok(None);
    }
    let capacity = capacity.throughput;
    let mut bisect = |mut low: f64, mut high: f64, trials: u32| -> Result<(bool, f64, f64)> {
        let mut found = false;
        for _ in 0..trials {
            let middle = (0.5 * (low + high)).max(RATE_MIN);
            if trial(Some(middle))?.mean <= target {
                (low, found) = (middle, true);
            } else {
                high = middle;
            }
        }
        Ok((found, low, high))
    };
    let (found, low, _) = bisect(FIRST_SHARE * capacity, capacity, TRIALS)?;
    if found {
        return Ok(Some(low));
    }
    let (found, low, high) = bisect(0.0, FIRST_SHARE * capacity, TRIALS_BELOW)?;
    Ok(Some(if found { low } else { high.max(RATE_MIN) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with one server of 1,000 transactions a second, whose mean response time at full load is a second.
    fn queue(rate: Option<f64>) -> Result<Trial> {
        let mean = match rate {
            None => 1_000.0,
            Some(rate) if rate < 1_000.0 => 1e3 / (1_000.0 - rate),
            Some(_) => f64::INFINITY,
        };
        Ok(Trial { throughput: 1_000.0, mean })
    }

    #[test]
    fn the_highest_rate_within_the_target_is_found() {
        let rate = rate_within(10.0, queue).unwrap().unwrap();
        assert!((870.0..=900.0).contains(&rate), "{rate}");
        let rate = rate_within(1.5, queue).unwrap().unwrap();
        assert!((305.0..=334.0).contains(&rate), "far below the capacity: {rate}");
    }

    #[test]
    fn a_target_that_is_met_at_full_load_needs_no_rate() {
        assert_eq!(rate_within(1_000.0, queue).unwrap(), None);
    }

    #[test]
    fn where_no_rate_is_low_enough_it_is_the_lowest() {
        let slow = |_| Ok(Trial { throughput: 1_000.0, mean: 1e9 });
        let rate = rate_within(10.0, slow).unwrap().unwrap();
        assert!(rate > 0.0 && rate < 30.0, "{rate}");
    }

    #[test]
    fn trials_without_responses_are_too_slow() {
        let none = || Ok(Trial::new(0.0, &Histogram::new(3).unwrap()));
        // At more than 100 a second no response arrives.
        let choked = |rate: Option<f64>| match rate {
            Some(rate) if rate <= 100.0 => Ok(Trial { throughput: rate, mean: 5.0 }),
            Some(_) => none(),
            None => Ok(Trial { throughput: 1_000.0, mean: f64::INFINITY }),
        };
        let rate = rate_within(10.0, choked).unwrap().unwrap();
        assert!((50.0..=100.0).contains(&rate), "{rate}");
        // Not even at full load: every rate stays one that the driver accepts.
        let dead = |rate: Option<f64>| {
            assert!(rate.is_none_or(|rate| rate >= RATE_MIN), "{rate:?}");
            none()
        };
        assert_eq!(rate_within(10.0, dead).unwrap(), Some(RATE_MIN));
    }
}
