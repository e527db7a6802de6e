//! The stash: calls that wait for the end of the split phase (Doppel, OSDI 2014, section 5.2).
//!
//! Calls of procedures wait here themselves, and go to the workers' queues when the joined phase begins; a thread that
//! runs a closure waits here on its own thread, and has given its slot back. Invariants: a call is taken in only while
//! the split phase lasts, so that none is left behind when it ends; and everything that was stashed is counted until it
//! has ended, so that the next split phase can wait for it. A thread that comes when the phase has just ended is
//! counted, too: else the next phase could be there before it has run.

use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::pipeline::call::Call;

/// The stash of a database.
#[derive(Default)]
pub(crate) struct Stash {
    state: Mutex<State>,
    /// The split phase has ended.
    ended: Condvar,
    /// Calls that were stashed and have not ended.
    outstanding: AtomicUsize,
    /// Calls that were ever stashed.
    stashed: AtomicU64,
}

#[derive(Default)]
struct State {
    split: bool,
    /// How many split phases have begun, but for those that followed another at once.
    begun: u64,
    calls: Vec<Call>,
    /// Callers' threads that wait here with a closure.
    waiting: usize,
    /// Tasks that wait for the end of the phase.
    tasks: Vec<Waker>,
    /// The most joined phases that a call has missed.
    missed: u64,
}

/// What is known of a stashed call until it has ended: how many split phases had begun when it was stashed first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u64);

impl Stash {
    /// The split phase begins.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.split = true;
        state.begun += 1;
    }

    /// The split phase has ended: nothing is taken in any more, and a thread that waits goes on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.split = false;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.ended.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Keeps a call until the split phase ends; if it has ended already, the call is given back, to be run now.
    pub(crate) fn put(&self, mut call: Call) -> Option<Call> {
        let mut state = self.state.lock();
        call.stashed = Some(self.count(&state, call.stashed));
        if !state.split {
            return Some(call);
        }
        state.calls.push(call);
        None
    }

    /// Waits until the split phase has ended; the caller then retries, and tells by [`has_ended`](Self::has_ended)
    /// when it is done. `before`: it has been stashed already.
    pub(crate) fn wait(&self, before: Option<Since>) -> Since {
        let mut state = self.state.lock();
        let since = self.count(&state, before);
        state.waiting += 1;
        while state.split {
            self.ended.wait(&mut state);
        }
        state.waiting -= 1;
        since
    }

    /// Counts a task that waits until the split phase has ended; as [`wait`](Self::wait) does.
    /// [`poll_ended`](Self::poll_ended) follows.
    pub(crate) fn enter(&self, before: Option<Since>) -> Since {
        self.count(&self.state.lock(), before)
    }

    /// Whether the split phase has ended.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.split {
            return Poll::Ready(());
        }
        state.tasks.push(context.waker().clone());
        Poll::Pending
    }

    fn count(&self, state: &State, before: Option<Since>) -> Since {
        // Relaxed: it is looked at under the lock, or as a statistic.
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.stashed.fetch_add(1, Ordering::Relaxed);
        before.unwrap_or(Since(state.begun))
    }

    /// The calls that waited: for the workers' queues.
    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// The calls in the stash, and the closures that wait on their callers' threads.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.calls.len(), state.waiting)
    }

    /// A call that was stashed has ended, or is to be stashed `again`.
    pub(crate) fn has_ended(&self, since: Since, again: bool) {
        if !again {
            let mut state = self.state.lock();
            state.missed = state.missed.max(state.begun - since.0);
        }
        // Relaxed: the coordinator looks again and again; a later look is as good.
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many that were stashed have not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// How many were ever stashed.
    pub(crate) fn stashed(&self) -> u64 {
        self.stashed.load(Ordering::Relaxed)
    }

    /// The most joined phases that a stashed call has missed: in which it did not end, and after which columns were split
    /// again.
    pub(crate) fn missed(&self) -> u64 {
        self.state.lock().missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn who_waits_goes_on_when_the_phase_ends_and_is_counted_until_it_has_ended() {
        let stash = Stash::default();
        stash.open();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| stash.wait(None));
            while stash.outstanding() == 0 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            assert!(!waiting.is_finished());
            stash.close();
            let since = waiting.join().expect("no panic");
            assert_eq!((stash.outstanding(), stash.stashed()), (1, 1));
            stash.has_ended(since, false);
        });
        assert_eq!((stash.outstanding(), stash.stashed(), stash.missed()), (0, 1, 0));
    }

    #[test]
    fn who_comes_when_the_phase_has_just_ended_is_counted_and_does_not_wait() {
        let stash = Stash::default();
        stash.open();
        stash.close();
        let since = stash.wait(None);
        assert_eq!(stash.outstanding(), 1, "the next phase waits for it");
        stash.has_ended(since, false);
        assert_eq!((stash.outstanding(), stash.missed()), (0, 0));
    }

    #[test]
    fn what_is_stashed_again_has_missed_a_joined_phase_for_each_time() {
        let stash = Stash::default();
        let mut since = None;
        for _ in 0..3 {
            stash.open();
            stash.close();
            let now = stash.wait(since);
            stash.has_ended(now, true);
            since = Some(now);
        }
        assert_eq!((stash.missed(), stash.outstanding(), stash.stashed()), (0, 0, 3), "it has not ended");
        let last = stash.wait(since);
        stash.has_ended(last, false);
        assert_eq!(stash.missed(), 2);
        let other = stash.wait(None);
        stash.has_ended(other, false);
        assert_eq!(stash.missed(), 2, "the most");
    }
}
