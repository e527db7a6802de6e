//! The stash: calls that wait for the end of the split phase (Doppel, OSDI 2014, section 5.2).
//!
//! A stashed procedure call is kept here and enqueued again when the joined phase begins. A thread whose closure is stashed
//! releases its slot and blocks here.
//!
//! Invariants:
//! - A call is stashed only during a split phase, so no call is left in the stash when the phase has ended.
//! - Every stashed transaction is counted until it ends, so that the next split phase can wait for it. One that arrives
//!   just after the phase has ended is counted, too; otherwise the next split phase could begin before it has run.

use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::pipeline::call::Call;

/// The stash of a database.
#[derive(Default)]
pub(crate) struct Stash {
    state: Mutex<State>,
    /// Signaled when the split phase ends.
    ended: Condvar,
    /// Calls that were stashed and have not ended.
    outstanding: AtomicUsize,
    /// Calls that were ever stashed.
    stashed: AtomicU64,
}

#[derive(Default)]
struct State {
    split: bool,
    /// The number of split phases so far, except those that directly followed another.
    begun: u64,
    calls: Vec<Call>,
    /// Callers' threads that wait here with a closure.
    waiting: usize,
    /// Tasks that wait for the end of the phase.
    tasks: Vec<Waker>,
    /// The maximum number of joined phases that any one call has missed.
    missed: u64,
}

/// The number of split phases that had begun when a call was first stashed; kept until the call ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u64);

impl Stash {
    /// Begins a split phase.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.split = true;
        state.begun += 1;
    }

    /// Ends the split phase: no more calls are stashed, and all waiting threads and tasks are woken.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.split = false;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.ended.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Stashes a call until the split phase ends; if it has already ended, returns the call, to be executed now.
    pub(crate) fn put(&self, mut call: Call) -> Option<Call> {
        let mut state = self.state.lock();
        call.stashed = Some(self.count(&state, call.stashed));
        if !state.split {
            return Some(call);
        }
        state.calls.push(call);
        None
    }

    /// Blocks until the split phase has ended. The caller then retries, and reports the end by
    /// [`has_ended`](Self::has_ended). `before`: from an earlier stash of the same transaction.
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

    /// Counts a task that waits until the split phase has ended, as [`wait`](Self::wait) does. The task then polls
    /// [`poll_ended`](Self::poll_ended).
    pub(crate) fn enter(&self, before: Option<Since>) -> Since {
        self.count(&self.state.lock(), before)
    }

    /// Polls for the end of the split phase.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.split {
            return Poll::Ready(());
        }
        state.tasks.push(context.waker().clone());
        Poll::Pending
    }

    fn count(&self, state: &State, before: Option<Since>) -> Since {
        // Relaxed: read under the lock, or as a statistic.
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.stashed.fetch_add(1, Ordering::Relaxed);
        before.unwrap_or(Since(state.begun))
    }

    /// Removes all stashed calls, for the workers' queues.
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
        // Relaxed: the coordinator polls, so a delayed store is seen at its next pass.
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of stashed transactions that have not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// The number of transactions that were ever stashed.
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
    fn a_waiter_is_woken_when_the_phase_ends_and_counted_until_it_has_ended() {
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
    fn a_transaction_that_arrives_after_the_phase_is_counted_and_does_not_wait() {
        let stash = Stash::default();
        stash.open();
        stash.close();
        let since = stash.wait(None);
        assert_eq!(stash.outstanding(), 1, "the next phase waits for it");
        stash.has_ended(since, false);
        assert_eq!((stash.outstanding(), stash.missed()), (0, 0));
    }

    #[test]
    fn each_further_stash_counts_as_a_missed_joined_phase() {
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
