//! The rest of the coordinator while nothing is split and nothing conflicts.
//!
//! # Invariants
//! No news is missed: the coordinator first says that it rests and then looks for news, and a thread with news first leaves them and then
//! looks whether it rests.
//!
//! # Concurrency
//! News lie under a mutex of their own (a sampler's, or that of the state), which orders the two looks: either the coordinator locks it
//! later and finds the news, or earlier, and then its word is visible to the thread with the news.

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, Ordering};

/// See the module's description.
#[derive(Default)]
pub(super) struct Idle {
    rests: AtomicBool,
    /// Locked by the coordinator from its last look for news until it sleeps.
    going: Mutex<()>,
    woken: Condvar,
}

impl Idle {
    /// Sleeps until the next [`wake`](Self::wake), unless there is something to do already. Returns true if it has slept.
    pub(super) fn rest(&self, has_nothing_to_do: impl FnOnce() -> bool) -> bool {
        let mut going = self.going.lock();
        // Relaxed: the mutexes of the news order it.
        self.rests.store(true, Ordering::Relaxed);
        let rests = has_nothing_to_do();
        if rests {
            self.woken.wait(&mut going);
        }
        self.rests.store(false, Ordering::Relaxed);
        rests
    }

    /// Tells that there is news, which were left before.
    #[inline]
    pub(super) fn has_news(&self) {
        // Relaxed: as above. Of several threads with news one wakes it.
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Ends a rest.
    pub(super) fn wake(&self) {
        // Under the mutex, so that a coordinator which has looked sleeps by now.
        let going = self.going.lock();
        drop(going);
        self.woken.notify_all();
    }

    /// Returns true if the coordinator rests, or is about to.
    #[cfg(test)]
    pub(super) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn while_it_rests(idle: &Idle, wake: impl FnOnce()) {
        thread::scope(|scope| {
            let coordinator = scope.spawn(|| idle.rest(|| true));
            while !idle.rests() {
                thread::yield_now();
            }
            wake();
            assert!(coordinator.join().expect("no panic"), "it has slept");
        });
        assert!(!idle.rests());
    }

    #[test]
    fn news_and_a_wish_to_stop_end_a_rest() {
        let idle = Idle::default();
        while_it_rests(&idle, || idle.has_news());
        while_it_rests(&idle, || idle.wake());
    }

    #[test]
    fn there_is_no_rest_while_there_is_something_to_do() {
        let idle = Idle::default();
        idle.has_news();
        assert!(!idle.rest(|| false) && !idle.rests());
    }
}
