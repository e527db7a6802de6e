//! A transaction that may reserve hot rows: which ones it holds, which one it waits for, and how it is woken.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicU32, Ordering};
use crate::diagnostics::activity::Activity;
use crate::diagnostics::work_time::waiting;

/// The kind of transactions of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Transactions of a session.
    Session,
    /// The attempts of a thread.
    Attempt,
}

/// Notification of a session that it waits no more.
pub(crate) trait Proceed: Send + Sync {
    /// Notes it. Returns what is to be woken.
    fn proceed(&self) -> Option<Waker>;
}

/// Looks at the signal before a thread sleeps: a few microseconds, in which a short body ends on another processor.
const SPINS: u32 = if cfg!(heddle_model) { 2 } else { 1000 };

/// A transaction that may reserve rows.
pub(crate) struct Owner {
    kind: Kind,
    session: Option<Weak<dyn Proceed>>,
    state: Mutex<State>,
    /// Signal of an attempt: set when a row that it waits for has changed.
    signal: AtomicU32,
}

#[derive(Default)]
struct State {
    /// The places of the rows that it holds.
    held: SmallVec<[usize; 2]>,
    waits_for: Option<usize>,
    waits_no_more: bool,
    thread: Option<Thread>,
}

impl Owner {
    /// Makes an owner for the transactions of a session.
    pub(crate) fn of_session(session: Weak<dyn Proceed>) -> Arc<Owner> {
        Arc::new(Owner::new(Kind::Session, Some(session)))
    }

    /// Makes an owner for the attempts of a thread.
    pub(crate) fn of_attempts() -> Arc<Owner> {
        Arc::new(Owner::new(Kind::Attempt, None))
    }

    fn new(kind: Kind, session: Option<Weak<dyn Proceed>>) -> Owner {
        Owner { kind, session, state: Mutex::default(), signal: AtomicU32::new(0) }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The place of the row that it waits for.
    pub(super) fn waits_for(&self) -> Option<usize> {
        self.state.lock().waits_for
    }

    /// Returns true if it continues without rows that are not free.
    pub(super) fn waits_no_more(&self) -> bool {
        self.state.lock().waits_no_more
    }

    /// Returns true if it holds any row.
    pub(crate) fn holds_any(&self) -> bool {
        !self.state.lock().held.is_empty()
    }

    /// The places of the rows that it holds.
    #[cfg(test)]
    pub(super) fn held_places(&self) -> SmallVec<[usize; 2]> {
        self.state.lock().held.clone()
    }

    pub(super) fn begin_to_wait(&self, place: usize) {
        let mut state = self.state.lock();
        state.waits_for = Some(place);
        if self.kind == Kind::Attempt {
            // Relaxed: set again by threads that find it in the queue, whose mutex orders this before.
            self.signal.store(0, Ordering::Relaxed);
            state.thread = Some(thread::current());
        }
    }

    pub(super) fn has_got(&self, place: usize) {
        let mut state = self.state.lock();
        state.waits_for = None;
        state.held.push(place);
    }

    /// Ends its waits, now and until its end.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        (state.waits_for, state.waits_no_more) = (None, true);
    }

    /// The row that it waits for was forgotten.
    pub(super) fn stop_waiting(self: &Arc<Owner>) -> Arc<Owner> {
        self.state.lock().waits_for = None;
        self.clone()
    }

    /// Its transaction has ended. The places of the rows that it has held.
    pub(super) fn end(&self) -> SmallVec<[usize; 2]> {
        let mut state = self.state.lock();
        (state.waits_for, state.waits_no_more) = (None, false);
        std::mem::take(&mut state.held)
    }

    /// Waits until there is something to look at, or until a moment. Returns false if that has passed.
    pub(super) fn sleep_until(&self, deadline: Instant) -> bool {
        // Acquire pairs with the release in `wake`: what the holder has done is visible.
        let is_signaled = || self.signal.swap(0, Ordering::Acquire) > 0;
        for _ in 0..SPINS {
            if self.signal.load(Ordering::Relaxed) > 0 {
                break;
            }
            std::hint::spin_loop();
        }
        let _wait = waiting(Activity::LockAcquireWait);
        while !is_signaled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
        true
    }

    fn wake(&self) -> Option<Waker> {
        if let Some(session) = &self.session {
            return session.upgrade()?.proceed();
        }
        // Release pairs with the acquire in `sleep_until`. A thread that was woken and has not looked yet is not woken again.
        if self.signal.swap(1, Ordering::Release) == 0
            && let Some(thread) = &self.state.lock().thread
        {
            thread.unpark();
        }
        None
    }
}

/// Transactions that may continue: to be woken when no mutex of a row is held.
#[must_use = "they wait until they are woken"]
#[derive(Default)]
pub(crate) struct ToProceed(SmallVec<[Arc<Owner>; 2]>);

impl ToProceed {
    pub(super) fn one(owner: Arc<Owner>) -> ToProceed {
        ToProceed(SmallVec::from_iter([owner]))
    }

    pub(super) fn extend(&mut self, owners: impl Iterator<Item = Arc<Owner>>) {
        self.0.extend(owners);
    }

    pub(super) fn append(&mut self, others: ToProceed) {
        self.0.extend(others.0);
    }

    /// Number of owners.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Notifies them; returns the wakers of sessions.
    pub(crate) fn wakers(self) -> Vec<Waker> {
        self.0.into_iter().filter_map(|owner| owner.wake()).collect()
    }

    /// Tells them, and wakes them.
    pub(crate) fn wake(self) {
        self.wakers().into_iter().for_each(Waker::wake);
    }
}

impl FromIterator<Arc<Owner>> for ToProceed {
    fn from_iter<T: IntoIterator<Item = Arc<Owner>>>(owners: T) -> ToProceed {
        ToProceed(owners.into_iter().collect())
    }
}
