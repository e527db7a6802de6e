//! A bell: one thread sleeps until another rings.
//!
//! Ringing costs one load while the thread is awake. Invariants: a ring after the last look is not lost.
//! The sleeper says that it will sleep, then looks once more whether there is something to do; the ringer makes
//! something to do, then looks whether a thread sleeps. Each passes a sequentially consistent fence in between, so one
//! of the two sees the other.

use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, Ordering, fence};

/// The bell.
#[derive(Default)]
pub(crate) struct EventCount {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl EventCount {
    /// Wakes the sleeper, if it sleeps.
    pub(crate) fn ring(&self) {
        // Between what there is to do now and the look at the sleeper: see the module's argument.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(sleeper) = &*self.sleeper.lock()
        {
            sleeper.unpark();
        }
    }

    /// Sleeps until a thread signals or the time is over, unless there is `something_to_do`.
    pub(crate) fn sleep(&self, at_most: Duration, something_to_do: impl Fn() -> bool) {
        let mut sleeper = self.sleeper.lock();
        if sleeper.as_ref().is_none_or(|thread| thread.id() != thread::current().id()) {
            *sleeper = Some(thread::current());
        }
        drop(sleeper);
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !something_to_do() {
            thread::park_timeout(at_most);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    #[test]
    fn no_ring_is_lost() {
        let (event_count, made, done) = (EventCount::default(), AtomicU64::new(0), AtomicU64::new(0));
        const ROUNDS: u64 = 20_000;
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                while done.load(Ordering::SeqCst) < ROUNDS {
                    event_count.sleep(Duration::from_secs(60), || {
                        made.load(Ordering::SeqCst) > done.load(Ordering::SeqCst)
                    });
                    done.store(made.load(Ordering::SeqCst), Ordering::SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                made.store(round, Ordering::SeqCst);
                event_count.ring();
                while round % 64 == 0 && done.load(Ordering::SeqCst) < round {
                    thread::yield_now();
                }
            }
        });
        assert!(start.elapsed() < Duration::from_secs(50), "a lost ring costs a minute");
    }
}
