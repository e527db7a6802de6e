//! Execution time of a caller's worker: each group is timed while they are long, and one in sixteen while they are
//! short.
//!
//! Two looks at the clock, and an addition to a counter that all threads share, cost as much as half of a short call.
//!
//! Invariants: a group that is timed counts for those before it that were not, which are taken to be as long as it, but short; and
//! never for more than the time that has passed since the last one. So the sum is never more than the time of all workers, and
//! right where the groups of one worker are alike; up to fifteen groups behind a short one are not seen whatever they take.

use std::time::{Duration, Instant};

use crate::diagnostics::work_time::WorkTime;
use crate::pipeline::statistics::{Stage, StageClocks};

/// A timed group that takes less is short, and so those after it are taken to be.
const SHORT: Duration = Duration::from_millis(1);
/// Number of groups that a timed one counts for where groups are short.
const EVERY: u32 = 16;

/// The clock of one worker.
#[derive(Default)]
pub(crate) struct GroupClock {
    /// Number of groups to skip before the next timed one, and number of groups skipped since the last timed one.
    to_skip: u32,
    skipped: u32,
    /// End of the last timed group.
    last_end: Option<Instant>,
}

impl GroupClock {
    /// A group begins: when, if it is timed.
    #[inline]
    pub(crate) fn begin(&mut self) -> Option<WorkTime> {
        if self.to_skip == 0 {
            return Some(WorkTime::begin());
        }
        self.to_skip -= 1;
        self.skipped += 1;
        None
    }

    /// It has ended.
    #[inline]
    pub(crate) fn end(&mut self, work: Option<WorkTime>, clocks: &StageClocks) {
        if let Some(work) = work {
            let end = Instant::now();
            clocks.add_time(Stage::Execute, self.count(work.until(end), end));
        }
    }

    /// The time that a timed group counts for. `own`: the time it worked itself, without waits.
    #[cold]
    fn count(&mut self, own: Duration, end: Instant) -> Duration {
        let since = self.last_end.map_or(own, |last| end - last);
        let counted = (own + own.min(SHORT) * std::mem::take(&mut self.skipped)).min(since);
        self.to_skip = if own < SHORT { EVERY - 1 } else { 0 };
        self.last_end = Some(end);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs groups that take and are apart this many microseconds; what was counted.
    fn counted(clock: &mut GroupClock, now: &mut Instant, groups: &[(u64, u64)]) -> Duration {
        let mut sum = Duration::ZERO;
        for (takes, apart) in groups {
            let end = *now + Duration::from_micros(*takes);
            if clock.begin().is_some() {
                sum += clock.count(Duration::from_micros(*takes), end);
            }
            *now = end + Duration::from_micros(*apart);
        }
        sum
    }

    #[test]
    fn long_groups_are_all_timed() {
        let (mut clock, mut now) = (GroupClock::default(), Instant::now());
        let sum = counted(&mut clock, &mut now, &[(1_000, 5), (1_100, 0), (10_000, 7), (1_000, 0)]);
        assert_eq!(sum, Duration::from_micros(13_100));
    }

    #[test]
    fn one_of_sixteen_short_groups_counts_for_all() {
        let (mut clock, mut now) = (GroupClock::default(), Instant::now());
        let groups = [(900, 300); 161];
        assert_eq!(counted(&mut clock, &mut now, &groups), Duration::from_micros(900 * 161));
    }

    #[test]
    fn a_long_group_after_short_ones_counts_for_itself() {
        let (mut clock, mut now) = (GroupClock::default(), Instant::now());
        let mut groups = vec![(1, 60_000_000); 16];
        groups.push((2_000_000, 0));
        let sum = counted(&mut clock, &mut now, &groups);
        // Those before it that were not timed are taken to be short.
        assert_eq!(sum, Duration::from_micros(1 + 15 * 1_000 + 2_000_000));
    }

    #[test]
    fn no_group_counts_for_more_than_the_time() {
        let (mut clock, mut now) = (GroupClock::default(), Instant::now());
        let first = now;
        let mut groups = vec![(1, 0); 16];
        groups.push((900, 0));
        assert_eq!(counted(&mut clock, &mut now, &groups), now - first);
    }
}
