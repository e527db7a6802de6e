//! The pause of a call between two attempts.

use std::time::Duration;

use crate::base::random;
use crate::diagnostics::activity::{Activity, at};
use crate::diagnostics::work_time::waiting;

/// The pause of a call that has met a conflicting change, before it is retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// The call waits for a random time, which may be twice as long after each attempt, up to a bound.
    #[default]
    Backoff,
    /// The call is retried at once.
    Immediate,
}

/// The longest pause after the first attempt, in turns of a waiting loop (some nanoseconds each).
const FIRST: u32 = 16;
/// Number of doublings after which the pause grows no further.
const DOUBLINGS: u32 = 8;
/// Attempt from which on the thread yields its processor, too: its rival may have lost its own.
const YIELDING: u32 = 4;

impl Retry {
    /// Waits after the attempt of this number has failed.
    pub(crate) fn pause(self, attempts: u32) {
        if self == Retry::Immediate {
            return;
        }
        let _out_of_a_rivals_way = at(Activity::LockAcquireWait);
        let longest = FIRST << attempts.min(DOUBLINGS);
        for _ in 0..random::below(longest) {
            std::hint::spin_loop();
        }
        if attempts < YIELDING {
            return;
        }
        let _wait = waiting(Activity::LockAcquireWait);
        std::thread::yield_now();
        if attempts > 2 * YIELDING {
            // A transaction that fails this often has conflicts whose retries coincide: jitter separates them.
            std::thread::sleep(Duration::from_micros(u64::from(random::below(50))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn pauses_are_bounded() {
        let start = Instant::now();
        for attempts in (1..=40).chain([u32::MAX]) {
            Retry::Backoff.pause(attempts);
            Retry::Immediate.pause(attempts);
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
