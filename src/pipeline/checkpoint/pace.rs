//! The pace at which a checkpoint is copied.
//!
//! One that is made because the log has grown, or time has passed, has until the next one is due: so it is spread over most
//! of that, a little at a time, instead of taking a processor from the workers until it is done. It hurries if a thread
//! waits for it, and when nothing commits, since then it delays nothing.
//!
//! Invariants: at no moment has the log grown further towards the next checkpoint than the copying has got, as far as
//! its size was known, unless the copying is at full speed. So with a spread below 1 a checkpoint is whole before the
//! next one is due, if the machine can do that at all.

use std::time::{Duration, Instant};

use crate::base::atomics::{AtomicU64, Ordering};

/// Interval at which a waiting thread checks whether to continue.
const LOOK: Duration = Duration::from_millis(2);
/// Interval at which a thread that waits because of the limit checks whether it is to end.
const LONG_LOOK: Duration = Duration::from_millis(10);
/// Time without growth of the log after which nothing is taken to commit.
const IDLE: Duration = Duration::from_millis(100);

/// The size of the last checkpoint, and the memory that rows took then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) memory: u64,
}

impl Size {
    /// About how large one is given the memory that rows occupy. Copies are smaller than what they are copied from; an
    /// estimate that is too large makes a checkpoint end before its time.
    pub(super) fn expected(self, memory: u64) -> u64 {
        if self.memory == 0 {
            memory
        } else {
            (self.bytes as f64 / self.memory as f64 * memory as f64) as u64
        }
    }
}

/// The schedule of a checkpoint: the bytes to copy, and the log's growth and the time until it should be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// About this many bytes are to be copied.
    pub(super) bytes: u64,
    /// Growth of the log, in bytes, at which it should be done,
    pub(super) log_bytes: Option<u64>,
    /// or when this much time has passed, if that is earlier.
    pub(super) time: Option<Duration>,
}

impl Plan {
    /// Returns true if more has been copied than is due now.
    fn is_ahead(&self, copied: u64, grown: u64, elapsed: Duration) -> bool {
        let by_log = self.log_bytes.map_or(0.0, |bytes| grown as f64 / bytes.max(1) as f64);
        let by_time = self.time.map_or(0.0, |time| elapsed.as_secs_f64() / time.as_secs_f64().max(1e-9));
        let due = by_log.max(by_time);
        // Behind the plan's end it is late, however much there turns out to be.
        due < 1.0 && copied as f64 / self.bytes.max(1) as f64 > due
    }
}

/// Holds all threads that make one checkpoint to their pace. Relaxed throughout: sums and hints.
pub(super) struct Pace {
    plan: Option<Plan>,
    /// The most bytes that may be written in a second; 0: any.
    bytes_per_second: u64,
    start: Instant,
    copied: AtomicU64,
    written: AtomicU64,
    /// Size of the log at the beginning, and when it was last checked.
    first_log_bytes: u64,
    seen_log_bytes: AtomicU64,
    /// Time at which it was last seen to have grown, in microseconds since the beginning.
    seen_at: AtomicU64,
}

impl Pace {
    /// A checkpoint begins now, at this size of the log. Without a plan, it is made as fast as the limit allows.
    pub(super) fn new(plan: Option<Plan>, bytes_per_second: u64, log_bytes: u64) -> Pace {
        Pace {
            plan,
            bytes_per_second,
            start: Instant::now(),
            copied: AtomicU64::new(0),
            written: AtomicU64::new(0),
            first_log_bytes: log_bytes,
            seen_log_bytes: AtomicU64::new(log_bytes),
            seen_at: AtomicU64::new(0),
        }
    }

    /// Counts what was copied.
    pub(super) fn copied(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what was written.
    pub(super) fn written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until more is to be copied; returns how long it has waited. `log_bytes` is the size of the log, `is_over`
    /// ends the wait, and `is_hurried` suspends the plan.
    pub(super) fn wait(
        &self,
        log_bytes: impl Fn() -> u64,
        is_over: impl Fn() -> bool,
        is_hurried: impl Fn() -> bool,
    ) -> Duration {
        let begun = Instant::now();
        let mut now = begun;
        while !is_over() {
            let elapsed = now - self.start;
            let wait = if let Some(left) = self.left_of_limit(elapsed) {
                left.min(LONG_LOOK)
            } else if !is_hurried() && self.is_ahead(log_bytes(), elapsed) {
                LOOK
            } else {
                break;
            };
            std::thread::sleep(wait);
            now = Instant::now();
        }
        now - begun
    }

    /// Time until the limit has caught up with the bytes that were written; `None` if it has.
    fn left_of_limit(&self, elapsed: Duration) -> Option<Duration> {
        if self.bytes_per_second == 0 {
            return None;
        }
        let written = self.written.load(Ordering::Relaxed);
        let due = Duration::from_secs_f64(written as f64 / self.bytes_per_second as f64);
        due.checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    /// Returns true if more has been copied than is due, and transactions commit.
    fn is_ahead(&self, log_bytes: u64, elapsed: Duration) -> bool {
        let Some(plan) = &self.plan else { return false };
        let now = elapsed.as_micros() as u64;
        if self.seen_log_bytes.swap(log_bytes, Ordering::Relaxed) != log_bytes {
            self.seen_at.store(now, Ordering::Relaxed);
        }
        let is_idle = now.saturating_sub(self.seen_at.load(Ordering::Relaxed)) >= IDLE.as_micros() as u64;
        let (copied, grown) = (self.copied.load(Ordering::Relaxed), log_bytes - self.first_log_bytes);
        !is_idle && plan.is_ahead(copied, grown, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_plan_is_kept_to_the_logs_growth_and_to_time_whichever_is_further() {
        let plan = Plan { bytes: 1_000, log_bytes: Some(100), time: Some(10 * SECOND) };
        // Copied, grown by, after this many seconds: ahead?
        for (copied, grown, seconds, ahead) in [
            (0, 0, 0, false),
            (1, 0, 0, true),
            (500, 49, 0, true),
            (500, 50, 0, false),
            (500, 0, 4, true),
            (500, 0, 5, false),
            (500, 60, 1, false),
            (2_000, 99, 0, true),
            (2_000, 100, 0, false),
            (2_000, 0, 10, false),
        ] {
            let found = plan.is_ahead(copied, grown, seconds * SECOND);
            assert_eq!(found, ahead, "{copied} copied, grown by {grown}, {seconds} s");
        }
    }

    #[test]
    fn the_next_checkpoint_is_as_much_larger_as_memory_has_grown() {
        assert_eq!(Size::default().expected(5_000), 5_000, "before the first one");
        assert_eq!(Size { bytes: 1_000, memory: 4_000 }.expected(8_000), 2_000);
        assert_eq!(Size { bytes: 1_000, memory: 4_000 }.expected(0), 0);
        let large = Size { bytes: 1 << 40, memory: 1 << 41 };
        assert_eq!(large.expected(1 << 42), 1 << 41, "beyond what 64 bits hold of a product");
    }

    #[test]
    fn nothing_expected_and_no_time_are_no_division_by_zero() {
        let plan = Plan { bytes: 0, log_bytes: Some(0), time: Some(Duration::ZERO) };
        assert!(plan.is_ahead(5, 0, Duration::ZERO));
        assert!(!plan.is_ahead(5, 1, SECOND));
        assert!(Plan { bytes: 10, log_bytes: None, time: None }.is_ahead(1, 1 << 40, SECOND));
    }

    /// A pace whose plan nothing but the log's growth brings forward.
    fn pace_by_log() -> Pace {
        let pace = Pace::new(Some(Plan { bytes: 100, log_bytes: Some(1_000), time: None }), 0, 7_000);
        pace.copied(50);
        pace
    }

    #[test]
    fn a_checkpoint_that_is_ahead_waits_for_the_log_to_grow() {
        let (pace, looks) = (pace_by_log(), Cell::new(0));
        let grow = || {
            looks.set(looks.get() + 1);
            7_000 + 100 * looks.get()
        };
        assert!(pace.wait(grow, || false, || false) >= 4 * LOOK);
        assert_eq!(looks.get(), 5, "half of it was copied, so half of the growth is waited for");
    }

    #[test]
    fn a_checkpoint_does_not_wait_for_a_log_that_does_not_grow() {
        let waited = pace_by_log().wait(|| 7_000, || false, || false);
        assert!(waited >= IDLE, "{waited:?}");
        let late = Pace { start: Instant::now() - SECOND, ..pace_by_log() };
        assert!(late.wait(|| 7_000, || false, || false) < IDLE, "it is known to be idle");
    }

    #[test]
    fn a_hurried_or_finished_checkpoint_does_not_wait() {
        let (pace, log_bytes) = (pace_by_log(), Cell::new(7_000));
        let grow = || {
            log_bytes.set(log_bytes.get() + 1);
            log_bytes.get()
        };
        assert!(pace.wait(grow, || false, || true) < IDLE);
        assert!(pace.wait(grow, || true, || false) < IDLE);
        assert!(Pace::new(None, 0, 0).wait(grow, || false, || false) < IDLE);
    }

    #[test]
    fn the_limit_holds_even_for_who_is_hurried() {
        let pace = Pace::new(None, 1_000, 0);
        pace.written(50);
        let waited = pace.wait(|| 0, || false, || true);
        assert!(waited + Duration::from_millis(1) >= Duration::from_millis(50), "{waited:?}");
        assert!(pace.wait(|| 0, || false, || true) < Duration::from_millis(40), "once was enough");
    }
}
