//! The stash: calls that wait for the end of the split phase (Doppel, OSDI 2014, section 5.2).
//!
//! Calls of procedures wait here themselves, and go to the workers' queues when the joined phase begins; who runs a
//! closure waits here on its own thread, and has given its slot back. What it keeps true: a call is taken in only while
//! the split phase lasts, so that none is left behind when it ends; and everything that was stashed is counted until it
//! has ended, so that the next split phase can wait for it.

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
    calls: Vec<Call>,
}

impl Stash {
    /// The split phase begins.
    pub(crate) fn open(&self) {
        self.state.lock().split = true;
    }

    /// The split phase has ended: nothing is taken in any more, and who waits goes on.
    pub(crate) fn close(&self) {
        self.state.lock().split = false;
        self.ended.notify_all();
    }

    /// Keeps a call until the split phase ends; if it has ended already, the call is given back.
    pub(crate) fn put(&self, mut call: Call) -> Option<Call> {
        let mut state = self.state.lock();
        if !state.split {
            return Some(call);
        }
        self.count();
        call.stashed = true;
        state.calls.push(call);
        None
    }

    /// Waits until the split phase has ended; the caller then runs again, and tells by [`has_ended`](Self::has_ended)
    /// when it is done. Whether it had to wait.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !state.split {
            return false;
        }
        self.count();
        while state.split {
            self.ended.wait(&mut state);
        }
        true
    }

    fn count(&self) {
        // Relaxed: it is looked at under the lock, or as a statistic.
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.stashed.fetch_add(1, Ordering::Relaxed);
    }

    /// The calls that waited: for the workers' queues.
    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// A call that was stashed has ended, or is stashed again.
    pub(crate) fn has_ended(&self) {
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
}
