//! The phases of a run: its warm-up, the interval that is measured, and the end, when its callers stop.
//!
//! Invariants: a release at time t counts if and only if `measured_from <= t < measured_until`; a run
//! bounded by a number of calls, or by its input, is measured until its last release.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Settings;

/// The times of one run, shared by its callers.
pub(super) struct Interval {
    start: Instant,
    measured_from: Instant,
    /// `None` where the number of calls ends the run.
    measured_until: Option<Instant>,
    /// Calls that may still be made, where their number is bounded.
    remaining: Option<AtomicU64>,
    stopped: AtomicBool,
    released: AtomicU64,
}

impl Interval {
    /// Starts the clock.
    pub fn start(settings: &Settings, finite: bool) -> Self {
        let start = Instant::now();
        let measured_from = start + settings.warmup_duration();
        let bounded = finite || settings.transactions.is_some();
        Self {
            start,
            measured_from,
            measured_until: (!bounded).then(|| measured_from + settings.measured_duration()),
            remaining: settings.transactions.map(AtomicU64::new),
            stopped: AtomicBool::new(false),
            released: AtomicU64::new(0),
        }
    }

    pub fn measured_from(&self) -> Instant {
        self.measured_from
    }

    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// The place of a release in the measured interval. `None` outside of it.
    pub fn measured_offset(&self, released_at: Instant) -> Option<Duration> {
        if self.measured_until.is_some_and(|until| released_at >= until) {
            return None;
        }
        released_at.checked_duration_since(self.measured_from)
    }

    /// The length of the measured interval so far: zero before it.
    pub fn since_measured(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.measured_from)
    }

    /// Returns true if the measured interval has ended.
    pub fn is_over(&self, now: Instant) -> bool {
        self.measured_until.is_some_and(|until| now >= until)
    }

    /// Returns true if callers make no more calls.
    pub fn is_stopped(&self, now: Instant) -> bool {
        // Relaxed: a late look costs one more call, and nothing else is read on the strength of it.
        self.stopped.load(Ordering::Relaxed) || self.is_over(now)
    }

    /// Makes all callers stop, because one has failed.
    pub fn stop(&self) {
        // Relaxed: see `is_stopped`.
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Takes up to `wanted` calls out of the number that may be made.
    pub fn claim(&self, wanted: usize) -> usize {
        let Some(remaining) = &self.remaining else { return wanted };
        let wanted = wanted as u64;
        // Relaxed: the counter itself is all that callers share here.
        let before = remaining
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)))
            .unwrap_or_else(|left| left);
        before.min(wanted) as usize
    }

    /// Gives back claimed calls that were not made after all.
    pub fn give_back(&self, calls: usize) {
        if let Some(remaining) = &self.remaining {
            // Relaxed: see `claim`.
            remaining.fetch_add(calls as u64, Ordering::Relaxed);
        }
    }

    /// Counts released calls, for the code that watches the run.
    pub fn count_released(&self, calls: u64) {
        // Relaxed: a figure on a progress bar.
        self.released.fetch_add(calls, Ordering::Relaxed);
    }

    /// Calls released so far.
    pub fn released(&self) -> u64 {
        // Relaxed: see `count_released`.
        self.released.load(Ordering::Relaxed)
    }

    /// Time until the measured interval begins or ends, whichever is next.
    pub fn next_event(&self, now: Instant) -> Duration {
        let until = |time: Instant| time.checked_duration_since(now).filter(|wait| !wait.is_zero());
        let next = until(self.measured_from).or_else(|| self.measured_until.and_then(until));
        // Nothing lies ahead while the callers finish: look again soon.
        next.unwrap_or(Duration::from_millis(5))
    }

    /// The length of the measured interval, given the last release where the number of calls ends the run.
    pub fn measured_seconds(&self, last_release: Option<Instant>) -> f64 {
        let until = self.measured_until.or(last_release).unwrap_or(self.measured_from);
        until.saturating_duration_since(self.measured_from).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed() -> Interval {
        Interval::start(&Settings { warmup: 1.0, seconds: 2.0, ..Settings::default() }, false)
    }

    #[test]
    fn only_releases_within_the_interval_count() {
        let interval = timed();
        let at = |seconds| interval.start + Duration::from_secs_f64(seconds);
        assert_eq!(interval.measured_offset(at(0.999)), None);
        assert_eq!(interval.measured_offset(at(1.0)), Some(Duration::ZERO));
        assert_eq!(interval.measured_offset(at(2.5)), Some(Duration::from_millis(1_500)));
        assert_eq!(interval.measured_offset(at(3.0)), None);
        assert!(!interval.is_over(at(2.9)) && interval.is_over(at(3.0)));
        assert_eq!(interval.measured_seconds(Some(at(9.0))), 2.0);
        assert_eq!([0.5, 1.25].map(|s| interval.since_measured(at(s)).as_millis()), [0, 250]);
    }

    #[test]
    fn events_lie_ahead_one_after_another() {
        let interval = timed();
        let at = |seconds| interval.start + Duration::from_secs_f64(seconds);
        assert_eq!(interval.next_event(at(0.25)), Duration::from_millis(750));
        assert_eq!(interval.next_event(at(1.5)), Duration::from_millis(1_500));
        assert!(interval.next_event(at(4.0)) < Duration::from_millis(100));
    }

    #[test]
    fn a_bounded_run_gives_out_its_calls_once_and_lasts_to_its_last_release() {
        let interval = Interval::start(&Settings { transactions: Some(70), ..Settings::default() }, false);
        assert_eq!(
            (interval.claim(32), interval.claim(32), interval.claim(32), interval.claim(32)),
            (32, 32, 6, 0)
        );
        interval.give_back(2);
        assert_eq!(interval.claim(32), 2);
        let late = interval.start + Duration::from_secs(1_000);
        assert!(!interval.is_over(late));
        assert_eq!(interval.measured_offset(late), Some(Duration::from_secs(1_000)));
        assert_eq!(interval.measured_seconds(Some(late)), 1_000.0);
        assert_eq!(interval.measured_seconds(None), 0.0);
    }

    #[test]
    fn a_failure_stops_every_caller() {
        let interval = timed();
        assert!(!interval.is_stopped(interval.start));
        interval.stop();
        assert!(interval.is_stopped(interval.start));
    }
}
