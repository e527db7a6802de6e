//! Idle mode: where conflicts are rare, calls go to one queue after another, and only a sample of them is examined.
//!
//! To look at a call costs its references and a decision, for a new order of TPC-C about a thirtieth of what the call itself
//! takes, for the shortest calls more. What it saves is at most the attempts that would have been aborted. So it
//! is not worth it where fewer than [`IDLE_BELOW`] of all attempts are aborted when calls are placed at random, and
//! certainly is again above [`ACTIVE_ABOVE`]; between them all stays as it is, so that chance does not have the schedule
//! change its mind.
//!
//! The sample, which is placed at random, says when idle mode begins: that few attempts abort overall may be due to the
//! schedule itself. All attempts say when idle mode ends, because in idle mode all are placed without regard to conflicts.

use super::Observation;

/// Idle mode begins below this share of aborted attempts, among calls that were placed at random.
const IDLE_BELOW: f64 = 0.01;
/// And ends above this share of all attempts.
const ACTIVE_ABOVE: f64 = 0.03;
/// How many calls of the sample decide whether idle mode begins. Where a share of 0.03 is aborted, they have 16 aborts on average, and
/// chance makes 5 of them once in 500 times.
const CALLS_TO_TELL: usize = 512;
/// How many attempts decide whether idle mode ends.
const ATTEMPTS_TO_TELL: f64 = 1_024.0;

/// What the counts say about idle mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleDecision {
    /// Nothing changes.
    Keep,
    /// Conflicts have become rare: idle mode begins.
    Begin,
    /// Conflicts have become frequent: idle mode ends.
    End,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct IdleMode {
    /// When attempts were last judged.
    judged: Observation,
    /// The calls of the sample, and their aborts, when they were last judged.
    sampled: (usize, usize),
}

impl IdleMode {
    /// Judges by what comes after this.
    pub(super) fn begin(&mut self, observation: Observation, sampled: (usize, usize)) {
        *self = IdleMode { judged: observation, sampled };
    }

    /// Whether this many aborts of this many calls that were placed at random begin idle mode.
    pub(super) fn is_idle_mode((calls, aborts): (usize, usize)) -> bool {
        calls >= CALLS_TO_TELL && share(aborts as f64, calls as f64) < IDLE_BELOW
    }

    /// Looks at what has happened since it was last judged. `sampled`: the calls that the present sample has seen, and their
    /// aborts.
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
            // All of them have been judged; or another sample has been begun.
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
    fn it_is_idle_when_the_sample_says_so_whatever_all_others_do() {
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
    fn idle_mode_ends_when_attempts_are_aborted_and_not_before_enough_have_been_seen() {
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
    fn between_both_shares_all_stays_as_it_is() {
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
