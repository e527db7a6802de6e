//! The search for the rate at which the mean response time is as long as was asked for.
//!
//! A run without a rate tells what the database can do at most. Below that, halving finds the highest rate whose mean
//! response time is not above the target; the measured run is made at it. Response times grow steeply near what can be
//! done at most, so that most of the answers lie there, and are looked for there first.

use heddle_workloads::driver::{self, Settings};
use heddledb::Database;

use super::progress::Progress;
use super::workloads::Plan;
use crate::failure::Result;

/// The share of what can be done at most above which the rate is looked for first.
const FIRST_SHARE: f64 = 0.75;
/// Trials there.
const TRIALS: u32 = 3;
/// Trials below, if all of those have failed.
const TRIALS_BELOW: u32 = 5;
/// The longest trial, in seconds.
const LONGEST_TRIAL: f64 = 2.0;
/// Before a trial counts.
const WARMUP: f64 = 0.3;

/// What the search has found, and left in the database.
pub struct Found {
    /// Calls per second.
    pub rate: f64,
    /// Marks of all calls that were made on the way.
    pub marks: u64,
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
    let mut trial = |rate: Option<f64>, warmup: f64| -> Result<(f64, f64)> {
        let seconds = settings.seconds.min(LONGEST_TRIAL);
        let settings = Settings { rate, warmup, seconds, acknowledgements: None, ..settings.clone() };
        let bound = plan.workload.bind(db, settings.callers())?;
        progress.start(plan.workload.as_ref(), &settings);
        let report =
            driver::run(db, plan.workload.as_ref(), bound.as_ref(), &settings, &|tick| progress.tick(tick))?;
        marks += report.marks;
        Ok((report.throughput(), report.latency.mean() / 1e6))
    };
    let (capacity, mean) = trial(None, settings.warmup)?;
    if mean <= milliseconds {
        // Even with all that it can do it answers in time; the queues are too short to make anybody wait longer.
        return Ok(Found { rate: capacity, marks });
    }
    let rate = halve(capacity, milliseconds, |rate| trial(Some(rate), WARMUP).map(|(_, mean)| mean))?;
    Ok(Found { rate, marks })
}

/// The highest rate tried whose response time is within the target; the lowest one tried, if none is.
fn halve(capacity: f64, target: f64, mut mean_at: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let mut within = |mut low: f64, mut high: f64, trials: u32| -> Result<(bool, f64, f64)> {
        let mut found = false;
        for _ in 0..trials {
            let middle = 0.5 * (low + high);
            if mean_at(middle)? <= target {
                (low, found) = (middle, true);
            } else {
                high = middle;
            }
        }
        Ok((found, low, high))
    };
    let (found, low, _) = within(FIRST_SHARE * capacity, capacity, TRIALS)?;
    if found {
        return Ok(low);
    }
    let (found, low, high) = within(0.0, FIRST_SHARE * capacity, TRIALS_BELOW)?;
    Ok(if found { low } else { high.max(0.001) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_within_the_target_is_found() {
        // A queue with one server of 1,000 calls a second.
        let mean = |rate: f64| Ok(if rate < 1_000.0 { 1e3 / (1_000.0 - rate) } else { 1e9 });
        let rate = halve(1_000.0, 10.0, mean).unwrap();
        assert!((870.0..=900.0).contains(&rate), "{rate}");
        let rate = halve(1_000.0, 1.5, mean).unwrap();
        assert!((305.0..=334.0).contains(&rate), "far below what can be done at most: {rate}");
    }

    #[test]
    fn where_no_rate_is_low_enough_it_is_the_lowest() {
        let rate = halve(1_000.0, 10.0, |_| Ok(1e9)).unwrap();
        assert!(rate > 0.0 && rate < 30.0, "{rate}");
        assert!(halve(0.0, 10.0, |_| Ok(1e9)).unwrap() > 0.0);
    }
}
