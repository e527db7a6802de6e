//! Planned arrivals of an open loop: one Poisson stream for all callers.
//!
//! One stream served by all callers is one queue with many servers: a caller that is stuck delays only the call that
//! it holds, while the others take what arrives next. The stream is planned from the start of the run, whatever the
//! callers do, so that a stall of the system is not hidden by calls that were never made.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The stream. Callers take arrivals one by one.
pub(super) struct Arrivals {
    rate: f64,
    next: Mutex<(Instant, fastrand::Rng)>,
}

impl Arrivals {
    /// A stream of `rate` arrivals per second from now on.
    pub fn new(rate: f64, seed: u64) -> Self {
        // Another stream than the callers' own, which are seeded from the same number.
        let random = fastrand::Rng::with_seed(seed ^ 0xA5A5_5A5A_C3C3_3C3C);
        Self { rate, next: Mutex::new((Instant::now(), random)) }
    }

    /// The planned time of the next arrival, which may lie ahead or in the past.
    pub fn take(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = exponential(next.1.f64()) / self.rate;
        next.0 += Duration::from_secs_f64(gap);
        next.0
    }

    /// The planned time of the next arrival if it is not later than `now`.
    pub fn take_due(&self, now: Instant) -> Option<Instant> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = next.1.clone();
        let planned = next.0 + Duration::from_secs_f64(exponential(random.f64()) / self.rate);
        if planned > now {
            return None;
        }
        *next = (planned, random);
        Some(planned)
    }
}

/// An exponentially distributed number with mean 1, from a uniform one in 0..1.
fn exponential(uniform: f64) -> f64 {
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    -(1.0 - uniform).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_rate_that_was_asked_for() {
        let start = Instant::now();
        let arrivals = Arrivals::new(1_000.0, 3);
        let last = (0..20_000).map(|_| arrivals.take()).last().unwrap();
        let seconds = (last - start).as_secs_f64();
        assert!((19.0..21.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn gaps_are_exponential() {
        let arrivals = Arrivals::new(1_000.0, 4);
        let mut before = arrivals.take();
        let mut long = 0;
        for _ in 0..20_000 {
            let next = arrivals.take();
            long += u32::from((next - before).as_secs_f64() > 0.001);
            before = next;
        }
        // A gap is longer than the mean with probability 1/e.
        assert!((7_000..7_720).contains(&long), "{long}");
    }

    #[test]
    fn only_due_arrivals_are_taken_and_none_is_lost() {
        let plan = |seed| Arrivals { next: Mutex::new((base(), fastrand::Rng::with_seed(seed))), rate: 10.0 };
        let (planned, polled) = (plan(5), plan(5));
        for _ in 0..100 {
            let time = planned.take();
            assert_eq!(polled.take_due(time - Duration::from_nanos(1)), None);
            assert_eq!(polled.take_due(time), Some(time));
        }
    }

    fn base() -> Instant {
        static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BASE.get_or_init(Instant::now)
    }

    #[test]
    fn the_ends_of_the_uniform_range_are_finite() {
        assert_eq!(exponential(0.0), 0.0);
        assert!(exponential(1.0 - f64::EPSILON).is_finite());
    }
}
