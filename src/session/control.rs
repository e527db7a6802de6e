//! The shared part of a session: the state of its transaction, its reservations, and its deadlines.
//!
//! A session belongs to one caller; its [`Control`] is what rivals, a canceler and the timer reach. They can abort the
//! transaction at any time except while it commits: its reservations are released at once, and its caller learns the
//! reason at the next access or in the wait that it is in.
//!
//! Invariants:
//! - A transaction that is marked for abort reserves nothing any more.
//! - A deadline that has passed aborts the transaction before anything else is done in it.
//!
//! Concurrency: [`Sessions::shared`] is locked before [`Control::state`], and that before a hot row. Wakers are called while none of them is held.

mod deadlines;
mod reserve;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use self::deadlines::Timer;
use super::reservations::{Reservations, TransactionId};
use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::error::{Error, Result, Timeout};
use crate::lock::hot_rows::{HotRows, Owner, Proceed};

/// The sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    shared: Mutex<Shared>,
    timer: Mutex<Timer>,
    /// The earliest deadline has changed, or the timer is to end.
    changed: Condvar,
    /// Number of keys that are reserved, for a look without the lock.
    reserved: AtomicUsize,
    /// The rows that are predicted to be written once they were read.
    hot_rows: Arc<HotRows>,
    /// The number that the last session was given.
    last_number: AtomicU64,
}

/// State shared by open transactions.
#[derive(Default)]
struct Shared {
    reservations: Reservations,
    open: HashMap<TransactionId, Weak<Control>>,
    last: TransactionId,
}

/// A session, as others reach it.
pub(crate) struct Control {
    /// The session's number; 0: it is one of the engine's own.
    number: u64,
    sessions: Arc<Sessions>,
    state: Mutex<State>,
    /// True if the transaction is marked for abort, for a look without the lock.
    is_stopped: AtomicBool,
    /// The session, as one that reserves hot rows.
    predicting: Arc<Owner>,
}

impl Proceed for Control {
    fn proceed(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        (state.is_through, state.predicted) = (true, None);
        state.waker.take()
    }
}

#[derive(Default)]
struct State {
    /// The open transaction.
    transaction: Option<TransactionId>,
    /// The reason why it must be rolled back, if so.
    aborted: Option<Error>,
    /// True if it is beyond the point at which others can abort it.
    is_committing: bool,
    /// True if the key that it waited for is its own now.
    is_granted: bool,
    /// True if it waits no more for a hot row.
    is_through: bool,
    waker: Option<Waker>,
    whole: Option<Instant>,
    step: Option<(Instant, Timeout)>,
    /// The time at which a wait for a predicted reservation ends.
    predicted: Option<Instant>,
    /// The earliest time at which the timer looks at this session.
    looked_at: Option<Instant>,
}

impl State {
    /// Resets the state to that before the first transaction; returns the transaction that was open.
    fn end(&mut self) -> Option<TransactionId> {
        let ended = std::mem::take(self);
        self.looked_at = ended.looked_at;
        ended.transaction
    }

    fn earliest(&self) -> Option<(Instant, Timeout)> {
        let whole = self.whole.map(|at| (at, Timeout::Transaction));
        whole.into_iter().chain(self.step).min_by_key(|&(at, _)| at)
    }

    /// The time at which the timer has something to do.
    fn next_look(&self) -> Option<Instant> {
        self.earliest().map(|(at, _)| at).into_iter().chain(self.predicted).min()
    }

    /// Lets the waiting transaction continue; returns its waker.
    fn go_on(&mut self) -> Option<Waker> {
        self.is_granted = true;
        self.waker.take()
    }
}

impl Sessions {
    /// The sessions of a new database.
    pub(crate) fn new(hot_rows: &Arc<HotRows>) -> Sessions {
        Sessions { hot_rows: hot_rows.clone(), ..Sessions::default() }
    }

    /// Aborts a transaction, unless it has ended, or commits, or is aborted already. Whom to wake.
    fn abort(
        &self,
        shared: &mut Shared,
        control: &Control,
        transaction: TransactionId,
        why: Error,
    ) -> Vec<Waker> {
        let mut state = control.state.lock();
        if state.transaction != Some(transaction) || state.is_committing || state.aborted.is_some() {
            return Vec::new();
        }
        state.aborted = Some(why);
        // Release pairs with the acquire in `is_stopped`.
        control.is_stopped.store(true, Ordering::Release);
        let own = state.waker.take();
        drop(state);
        let granted = shared.end(transaction);
        self.show_reserved(shared);
        let predicted = self.hot_rows.end(&control.predicting).0.wakers();
        own.into_iter().chain(shared.grant(granted)).chain(predicted).collect()
    }
}

impl Shared {
    /// Ends a transaction's waits and releases its reservations; returns the transactions that may continue.
    fn end(&mut self, transaction: TransactionId) -> Vec<TransactionId> {
        self.reservations.stop_waiting(transaction);
        self.reservations.release(transaction, 0)
    }

    /// Tells transactions that the keys they waited for are theirs. Whom to wake.
    fn grant(&self, granted: Vec<TransactionId>) -> Vec<Waker> {
        let controls = granted.into_iter().filter_map(|transaction| self.open.get(&transaction)?.upgrade());
        controls.filter_map(|control| control.state.lock().go_on()).collect()
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl Control {
    /// Makes the control of a caller's new session.
    pub(super) fn numbered(sessions: &Arc<Sessions>) -> Arc<Control> {
        // Relaxed: numbers need only differ.
        Control::with(sessions, sessions.last_number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Makes the control of one of the engine's own sessions.
    pub(super) fn new(sessions: &Arc<Sessions>) -> Arc<Control> {
        Control::with(sessions, 0)
    }

    fn with(sessions: &Arc<Sessions>, number: u64) -> Arc<Control> {
        Arc::new_cyclic(|control: &Weak<Control>| Control {
            number,
            sessions: sessions.clone(),
            state: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            predicting: Owner::of_session(control.clone()),
        })
    }

    /// The session's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Begins a transaction. `instead_of`: one that it retries, whose age it keeps.
    pub(super) fn begin(self: &Arc<Control>, instead_of: Option<TransactionId>) -> TransactionId {
        let mut shared = self.sessions.shared.lock();
        let transaction = instead_of.unwrap_or(shared.last + 1);
        shared.last = shared.last.max(transaction);
        shared.open.insert(transaction, Arc::downgrade(self));
        let mut state = self.state.lock();
        *state = State { transaction: Some(transaction), looked_at: state.looked_at, ..State::default() };
        // Relaxed: no thread could have stopped it yet.
        self.is_stopped.store(false, Ordering::Relaxed);
        transaction
    }

    /// Ends the transaction, and releases what it has reserved.
    pub(super) fn end(&self) {
        let mut shared = self.sessions.shared.lock();
        let Some(transaction) = self.state.lock().end() else { return };
        shared.open.remove(&transaction);
        let granted = shared.end(transaction);
        self.sessions.show_reserved(&shared);
        let wakers = shared.grant(granted);
        drop(shared);
        self.sessions.hot_rows.end(&self.predicting).0.wake();
        wake(wakers);
    }

    /// The reason why the transaction must be rolled back, if so.
    pub(super) fn aborted(&self) -> Option<Error> {
        let overdue = self.state.lock().earliest().filter(|&(at, _)| at <= Instant::now());
        if let Some((_, what)) = overdue {
            self.abort(Error::TimedOut { what });
        }
        self.state.lock().aborted.clone()
    }

    /// Marks the transaction for abort, whatever it is at.
    pub(super) fn abort(&self, why: Error) {
        let mut shared = self.sessions.shared.lock();
        let Some(transaction) = self.state.lock().transaction else { return };
        let wakers = self.sessions.abort(&mut shared, self, transaction, why);
        drop(shared);
        wake(wakers);
    }

    /// Begins the commit: from here on no other thread aborts the transaction.
    ///
    /// # Errors
    /// Another thread has.
    pub(super) fn begin_commit(&self) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(why) = &state.aborted {
            return Err(why.clone());
        }
        state.is_committing = true;
        Ok(())
    }

    /// Marks a transaction for abort that its own caller releases in the middle of a step.
    pub(super) fn abandon(&self) {
        self.state.lock().is_committing = false;
        self.abort(Error::Canceled);
    }

    /// Returns true if there is a transaction, and true if it is marked for abort.
    pub(super) fn is_open(&self) -> (bool, bool) {
        let state = self.state.lock();
        (state.transaction.is_some(), state.aborted.is_some())
    }
}
