//! An event count: one thread parks until another thread signals it.
//!
//! A signal costs one load while the waiter is awake.
//!
//! Invariants: no wakeup is lost. The waiter sets `asleep`, then checks once more for work; the signaling thread publishes
//! work, then checks `asleep`. Each executes a sequentially consistent fence in between, so at least one of the two sees
//! the other.

use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, Ordering, fence};

/// An event count with a single waiter.
#[derive(Default)]
pub(crate) struct EventCount {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl EventCount {
    /// Signals: unparks the waiter, if it is parked.
    pub(crate) fn notify(&self) {
        // Orders the caller's publication of work before the load of `asleep`; pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(sleeper) = &*self.sleeper.lock()
        {
            sleeper.unpark();
        }
    }

    /// Parks until a thread signals or the timeout expires, unless there is `something_to_do`.
    pub(crate) fn sleep(&self, at_most: Duration, something_to_do: impl Fn() -> bool) {
        let mut sleeper = self.sleeper.lock();
        if sleeper.as_ref().is_none_or(|thread| thread.id() != thread::current().id()) {
            *sleeper = Some(thread::current());
        }
        drop(sleeper);
        self.asleep.store(true, Ordering::SeqCst);
        // Orders the store of `asleep` before the last check for work; pairs with the fence in `notify`.
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
    fn no_wakeup_is_lost() {
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
                event_count.notify();
                while round % 64 == 0 && done.load(Ordering::SeqCst) < round {
                    thread::yield_now();
                }
            }
        });
        assert!(start.elapsed() < Duration::from_secs(50), "a lost notify costs a minute");
    }
}
