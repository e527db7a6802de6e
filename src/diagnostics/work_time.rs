//! Work time of a thread: the time that has passed, without its waits.
//!
//! A thread that waits for the log, for a lock or for other threads says so with [`waiting`], which adds the wait to a count of its own;
//! [`WorkTime`] takes the difference of two readings of that count off the time between them. The waits are those that block
//! the thread or may: two looks at the clock disappear in them. Pauses of a few instructions are work.
//!
//! Invariants: a wait inside of another counts once; the work of a time is never more than the time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::diagnostics::activity::{Activity, At, at};

thread_local! {
    /// Time that this thread has waited since it was started, and number of waits that it is inside of.
    static WAITED: Cell<(Duration, u32)> = const { Cell::new((Duration::ZERO, 0)) };
}

/// The beginning of some work on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkTime {
    start: Instant,
    waited: Duration,
}

impl WorkTime {
    /// Begins now.
    #[inline]
    pub(crate) fn begin() -> WorkTime {
        WorkTime { start: Instant::now(), waited: WAITED.get().0 }
    }

    /// Work time since the beginning, which must have been on this thread.
    pub(crate) fn elapsed(self) -> Duration {
        self.until(Instant::now())
    }

    /// Work time until this moment, which is about now.
    pub(crate) fn until(self, end: Instant) -> Duration {
        let waited = WAITED.get().0.saturating_sub(self.waited);
        end.saturating_duration_since(self.start).saturating_sub(waited)
    }
}

/// A guard of a wait of this thread.
#[must_use]
pub(crate) struct Waiting {
    start: Instant,
    _at: At,
}

/// Begins a wait of this thread, which shows this activity meanwhile if it is watched.
#[cold]
pub(crate) fn waiting(activity: Activity) -> Waiting {
    let (waited, depth) = WAITED.get();
    WAITED.set((waited, depth + 1));
    Waiting { start: Instant::now(), _at: at(activity) }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (waited, depth) = WAITED.get();
        let own = if depth == 1 { self.start.elapsed() } else { Duration::ZERO };
        WAITED.set((waited + own, depth - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(20);

    #[test]
    fn waits_are_no_work_and_nested_ones_count_once() {
        let (all, work) = (Instant::now(), WorkTime::begin());
        let outer = waiting(Activity::Log);
        std::thread::sleep(NAP);
        let inner = waiting(Activity::LockAcquireWait);
        std::thread::sleep(NAP);
        drop(inner);
        drop(outer);
        let waited = WAITED.get().0;
        assert!(waited >= 2 * NAP && waited <= all.elapsed(), "{waited:?}");
        assert!(work.elapsed() <= all.elapsed() - 2 * NAP);
        let again = WorkTime::begin();
        std::thread::sleep(NAP);
        assert!(again.elapsed() >= NAP, "what is not said to be a wait is work");
    }

    #[test]
    fn another_threads_waits_are_its_own() {
        let work = WorkTime::begin();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _wait = waiting(Activity::Log);
                std::thread::sleep(NAP);
            });
        });
        assert!(work.elapsed() >= NAP);
    }
}
