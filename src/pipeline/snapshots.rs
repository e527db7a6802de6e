//! Requests for snapshots: callers ask, and the log stage opens one for all that are asking at that moment.
//!
//! A snapshot ends with an epoch, so the log stage opens it where it ends one: it registers the snapshot, raises the global
//! epoch, waits for the commit sections of the epoch before, and answers. So a request waits for the group that is
//! being written at most, and not for the disk afterwards: that is the reader's, where it meets what is not durable yet.
//!
//! # Invariants
//!
//! - A request is answered with a snapshot that was registered after it was made. So the snapshot contains whatever was
//!   acknowledged before.
//! - Every request is answered: the log stage looks for requests before it sleeps, and refuses those made after
//!   its end.

use std::sync::Arc;

use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::storage::versions::OpenSnapshot;

/// A snapshot that is open for as long as this lives.
pub(crate) struct Registered {
    engine: Arc<Engine>,
    snapshot: Arc<OpenSnapshot>,
}

impl Registered {
    /// A snapshot that [`Versions::open`](crate::storage::versions::Versions::open) has given.
    pub(crate) fn new(engine: &Arc<Engine>, snapshot: Arc<OpenSnapshot>) -> Arc<Registered> {
        Arc::new(Registered { engine: engine.clone(), snapshot })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The last epoch that it contains.
    pub(crate) fn epoch(&self) -> u64 {
        self.snapshot.epoch()
    }

    /// Fails if a version that it needs may have been released; to be asked after each read.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`].
    pub(crate) fn check(&self) -> Result<()> {
        if !self.snapshot.has_failed() {
            return Ok(());
        }
        Err(Error::SnapshotTooOld { limit: self.engine.store().versions().limit() })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.engine.store().versions().close(&self.snapshot);
    }
}

/// Requests of callers for snapshots, and the log stage's answers.
#[derive(Default)]
pub(crate) struct SnapshotRequests {
    /// True if there is a request without an answer: polled by the log stage.
    wanted: AtomicBool,
    state: Mutex<State>,
    answered: Condvar,
    opened: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Number of requests that were made, and number of them, the first ones, that are answered.
    asked: u64,
    answered: u64,
    /// Number of callers that have not left with their answer yet.
    waiting: usize,
    /// Tasks that wait for their answers.
    tasks: Vec<Waker>,
    /// The last answer, while a caller waits.
    snapshot: Option<Arc<Registered>>,
    is_closed: bool,
}

/// A request that a task waits for.
pub(crate) struct SnapshotRequest<'r> {
    requests: &'r SnapshotRequests,
    own: u64,
}

impl SnapshotRequest<'_> {
    /// The answer, once it is there; asked again after that, there is none.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<Arc<Registered>>> {
        let mut state = self.requests.state.lock();
        if state.answered < self.own && !state.is_closed {
            state.tasks.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.snapshot.clone().filter(|_| state.answered >= self.own).ok_or(Error::Closed))
    }
}

impl Drop for SnapshotRequest<'_> {
    fn drop(&mut self) {
        self.requests.leave(self.requests.state.lock());
    }
}

impl SnapshotRequests {
    /// Same as [`ask`](Self::ask), for a task.
    pub(crate) fn request(&self, engine: &Engine) -> SnapshotRequest<'_> {
        let own = self.enter(&mut self.state.lock(), engine);
        SnapshotRequest { requests: self, own }
    }

    fn enter(&self, state: &mut State, engine: &Engine) -> u64 {
        state.asked += 1;
        state.waiting += 1;
        // SeqCst, as all that the log stage looks at before it sleeps (see `EventCount`).
        self.wanted.store(true, Ordering::SeqCst);
        engine.log_event_count().notify();
        state.asked
    }

    /// A caller leaves, with its answer or without.
    fn leave(&self, mut state: MutexGuard<'_, State>) {
        state.waiting -= 1;
        let kept = if state.waiting == 0 { state.snapshot.take() } else { None };
        drop(state);
        drop(kept);
    }

    /// Asks the log stage for a snapshot, and waits for it.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn ask(&self, engine: &Engine) -> Result<Arc<Registered>> {
        let mut state = self.state.lock();
        let own = self.enter(&mut state, engine);
        while state.answered < own && !state.is_closed {
            self.answered.wait(&mut state);
        }
        let answer = state.snapshot.clone().filter(|_| state.answered >= own);
        self.leave(state);
        answer.ok_or(Error::Closed)
    }

    /// Returns true if the log stage has something to do here.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// The requests made so far, if any of them has no answer.
    pub(crate) fn asked(&self) -> Option<u64> {
        if !self.is_wanted() {
            return None;
        }
        let state = self.state.lock();
        (state.asked > state.answered).then_some(state.asked)
    }

    /// Answers the first `asked` requests with a snapshot that has been registered since, and whose epoch is sealed.
    pub(crate) fn answer(&self, asked: u64, snapshot: Arc<Registered>) {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.answered = asked;
        self.wanted.store(state.asked > asked, Ordering::SeqCst);
        let before = state.snapshot.replace(snapshot);
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        // If its callers have not fetched it yet, this closes it, and they get the new one.
        drop(before);
        self.answered.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// The log stage ends: later requests are refused.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.answered.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Number of snapshots that were opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}
