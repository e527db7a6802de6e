//! Idle mode: where conflicts are rare, calls go to one queue after another, and only a sample of them is examined.
//!
//! Examining a call means collecting its references and choosing a queue. That adds about 3 % to the cost of a TPC-C New-Order
//! transaction, and more to shorter ones. It saves at most the attempts that would have aborted. So prediction does not pay
//! if less than [`IDLE_BELOW`] of the attempts abort under random placement, and it pays again above [`ACTIVE_ABOVE`].
//! Between the two thresholds the mode does not change: this hysteresis keeps noise from toggling it.
//!
//! Idle mode begins by the abort rate of the sample, which is placed at random, because a low overall rate may be due to
//! the schedule itself. It ends by the abort rate of all attempts, because in idle mode all calls are placed without regard
//! to conflicts.

use super::Observation;

/// Idle mode begins below this share of aborted attempts, among calls that were placed at random.
const IDLE_BELOW: f64 = 0.01;
/// Idle mode ends above this share of aborted attempts, among all.
const ACTIVE_ABOVE: f64 = 0.03;
/// Number of calls in the sample that are needed to decide whether idle mode begins. At an abort rate of 3 % they have 16
/// aborts on average; a count as low as 5 has a probability of about 1 in 500.
const CALLS_TO_TELL: usize = 512;
/// Number of attempts that are needed to decide whether idle mode ends.
const ATTEMPTS_TO_TELL: f64 = 1_024.0;

/// The decision about idle mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleDecision {
    /// The mode does not change.
    Keep,
    /// Conflicts have become rare: idle mode begins.
    Begin,
    /// Conflicts have become frequent: idle mode ends.
    End,
}

/// The counts at the last decision.
#[derive(Debug, Default)]
pub(super) struct IdleMode {
    /// All attempts at the last decision.
    judged: Observation,
    /// The calls of the sample, and their aborts, at the last decision.
    sampled: (usize, usize),
}

impl IdleMode {
    /// Starts a new measurement at these counts.
    pub(super) fn begin(&mut self, observation: Observation, sampled: (usize, usize)) {
        *self = IdleMode { judged: observation, sampled };
    }

    /// Returns true if idle mode begins after `aborts` in `calls` that were placed at random.
    pub(super) fn is_idle_mode((calls, aborts): (usize, usize)) -> bool {
        calls >= CALLS_TO_TELL && share(aborts as f64, calls as f64) < IDLE_BELOW
    }

    /// Decides by the attempts since the last decision. `sampled`: the calls of the current sample, and their aborts.
    pub(super) fn see(
        &mut self,
        idle: bool,
        observation: Observation,
        sampled: (usize, usize),
    ) -> IdleDecision {
        let aborted = observation.aborted.saturating_sub(self.judged.aborted) as f64;
        let committed = observation.committed.saturating_sub(self.judged.committed) as f64;
        if aborted + committed < ATTEMPTS_TO_TELL {
            return IdleDecision::Keep;
        }
        let is_frequent = share(aborted, committed) > ACTIVE_ABOVE;
        if idle || sampled.0 < self.sampled.0 {
            // These attempts are used up; or a new sample has begun.
            self.begin(observation, (0, 0));
        }
        if idle {
            return if is_frequent { IdleDecision::End } else { IdleDecision::Keep };
        }
        let since = (sampled.0 - self.sampled.0, sampled.1.saturating_sub(self.sampled.1));
        if since.0 < CALLS_TO_TELL {
            return IdleDecision::Keep;
        }
        self.begin(observation, sampled);
        if Self::is_idle_mode(since) && !is_frequent { IdleDecision::Begin } else { IdleDecision::Keep }
    }
}

/// The share of attempts that were aborted.
fn share(aborted: f64, committed: f64) -> f64 {
    aborted / (aborted + committed).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(committed: u64, aborted: u64) -> Observation {
        Observation { committed, aborted, ..Observation::default() }
    }

    #[test]
    fn the_sample_alone_decides_when_idle_mode_begins() {
        let mut idle_mode = IdleMode::default();
        assert_eq!(idle_mode.see(false, after(100_000, 0), (400, 0)), IdleDecision::Keep, "too few to tell");
        assert_eq!(
            idle_mode.see(false, after(200_000, 0), (600, 60)),
            IdleDecision::Keep,
            "the policy's own doing"
        );
        assert_eq!(
            idle_mode.see(false, after(300_000, 0), (1_200, 63)),
            IdleDecision::Begin,
            "3 of 600 since then"
        );
        assert_eq!(idle_mode.see(false, after(400_000, 0), (100, 0)), IdleDecision::Keep, "another sample");
        assert_eq!(idle_mode.see(false, after(500_000, 0), (700, 2)), IdleDecision::Begin);
        let mut idle_mode = IdleMode::default();
        assert_eq!(
            idle_mode.see(false, after(10_000, 1_000), (600, 0)),
            IdleDecision::Keep,
            "chance cannot be that kind"
        );
    }

    #[test]
    fn idle_mode_ends_once_enough_attempts_show_frequent_aborts() {
        let mut idle_mode = IdleMode::default();
        assert_eq!(idle_mode.see(true, after(500, 100), (0, 0)), IdleDecision::Keep, "too few to tell");
        assert_eq!(idle_mode.see(true, after(2_000, 100), (0, 0)), IdleDecision::End);
        assert_eq!(
            idle_mode.see(true, after(4_000, 140), (0, 0)),
            IdleDecision::Keep,
            "a fiftieth, since then"
        );
        assert_eq!(idle_mode.see(true, after(6_000, 240), (0, 0)), IdleDecision::End);
    }

    #[test]
    fn between_the_thresholds_the_mode_does_not_change() {
        for idle in [true, false] {
            let mut idle_mode = IdleMode::default();
            for step in 1..=20 {
                let sampled = (1_000 * step as usize, 20 * step as usize);
                assert_eq!(
                    idle_mode.see(idle, after(10_000 * step, 200 * step), sampled),
                    IdleDecision::Keep,
                    "{idle}"
                );
            }
        }
    }
}
