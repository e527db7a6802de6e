//! What a session shares with others: whether its transaction goes on, what it has reserved, and its deadlines.
//!
//! A session belongs to one caller; its [`Control`] is what rivals, a canceler and the timer reach. They can abort the
//! transaction at any time but while it commits: its reservations go at once, and its caller learns the reason at the
//! next access or in the wait that it is in.
//!
//! Invariants:
//! - A transaction that is marked for abort reserves nothing any more.
//! - A deadline that has passed aborts the transaction before anything else is done in it.
//!
//! Concurrency: [`Sessions::shared`] is locked before [`Control::state`]. Wakers are called while neither is held.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::predictions::{Predicted, Predictions};
use super::reservations::{Answer, Reservations, ReservedKey, TransactionId};
use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::error::{Error, Result, Timeout};
use crate::protocol::attempt::{Prediction, SessionControl};

/// The sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    shared: Mutex<Shared>,
    timer: Mutex<Timer>,
    /// The earliest deadline has changed, or the timer is to end.
    changed: Condvar,
    /// How many keys are reserved, for a look without the lock.
    reserved: AtomicUsize,
    /// How many rows are predicted to be written once they were read, for a look without the lock.
    predicted: AtomicUsize,
    /// The number that the last session was given.
    last_number: AtomicU64,
}

/// What open transactions have in common.
#[derive(Default)]
struct Shared {
    reservations: Reservations,
    predictions: Predictions,
    open: HashMap<TransactionId, Weak<Control>>,
    last: TransactionId,
}

/// The deadlines that must be monitored.
#[derive(Default)]
struct Timer {
    /// By time, and by a number that tells those of one moment apart.
    deadlines: BTreeMap<(Instant, u64), Weak<Control>>,
    last: u64,
    /// Whether its thread was started.
    is_running: bool,
    is_stopped: bool,
}

/// A session, as others reach it.
pub(crate) struct Control {
    /// The session's number; 0: it is one of the engine's own.
    number: u64,
    sessions: Arc<Sessions>,
    state: Mutex<State>,
    /// Whether the transaction is marked for abort, for a look without the lock.
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The open transaction.
    transaction: Option<TransactionId>,
    /// Why it must be rolled back, if so.
    aborted: Option<Error>,
    /// Whether it is beyond the point at which others can abort it.
    is_committing: bool,
    /// Whether the key that it waited for is its own now.
    is_granted: bool,
    waker: Option<Waker>,
    whole: Option<Instant>,
    step: Option<(Instant, Timeout)>,
    /// The time at which a wait for a predicted reservation ends.
    predicted: Option<Instant>,
    /// The earliest time at which the timer looks at this session.
    looked_at: Option<Instant>,
}

impl State {
    /// As before the first transaction. The transaction that there was.
    fn end(&mut self) -> Option<TransactionId> {
        let ended = std::mem::take(self);
        self.looked_at = ended.looked_at;
        ended.transaction
    }

    fn earliest(&self) -> Option<(Instant, Timeout)> {
        let whole = self.whole.map(|at| (at, Timeout::Transaction));
        whole.into_iter().chain(self.step).min_by_key(|&(at, _)| at)
    }

    /// When the timer has something to do.
    fn next_look(&self) -> Option<Instant> {
        self.earliest().map(|(at, _)| at).into_iter().chain(self.predicted).min()
    }

    /// Lets the transaction go on that waits. What to wake.
    fn go_on(&mut self) -> Option<Waker> {
        (self.is_granted, self.predicted) = (true, None);
        self.waker.take()
    }
}

impl Sessions {
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
        own.into_iter().chain(shared.grant(granted)).collect()
    }

    /// Has the timer's thread started, unless it runs or the database is being closed.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn start_timer(&self, start: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut timer = self.timer.lock();
        if !timer.is_running && !timer.is_stopped {
            start()?;
            timer.is_running = true;
        }
        Ok(())
    }

    /// The life of the timer's thread: aborts transactions whose time is over.
    pub(crate) fn run_timer(&self) {
        let mut timer = self.timer.lock();
        while !timer.is_stopped {
            let now = Instant::now();
            match timer.deadlines.first_key_value().map(|(&(at, _), _)| at) {
                None => self.changed.wait(&mut timer),
                Some(at) if at > now => drop(self.changed.wait_until(&mut timer, at)),
                Some(_) => {
                    let Some((_, control)) = timer.deadlines.pop_first() else { continue };
                    drop(timer);
                    if let Some(control) = control.upgrade() {
                        control.look_at_deadlines(now);
                    }
                    timer = self.timer.lock();
                }
            }
        }
    }

    /// Aborts all transactions, because the database is being closed, and ends the timer's thread.
    pub(crate) fn close(&self) {
        self.timer.lock().is_stopped = true;
        self.changed.notify_all();
        let open: Vec<_> = self.shared.lock().open.values().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|control| control.abort(Error::Closed));
    }

    /// Whether any key is reserved; it may be an answer of a moment ago.
    pub(crate) fn has_reservations(&self) -> bool {
        // Relaxed: the number carries no data; a transaction that misses a reservation conflicts with it.
        self.reserved.load(Ordering::Relaxed) > 0
    }

    /// What is reserved, and by the numbers of which sessions: the holder's, and the waiters' in order. A session that has
    /// just ended has none.
    pub(crate) fn locks(&self) -> Vec<(ReservedKey, Option<u64>, Vec<u64>)> {
        let shared = self.shared.lock();
        let number = |transaction: TransactionId| {
            let control = shared.open.get(&transaction)?.upgrade()?;
            (control.number > 0).then_some(control.number)
        };
        let lock = |(key, holder, waiting): (&ReservedKey, TransactionId, &VecDeque<TransactionId>)| {
            (key.clone(), number(holder), waiting.iter().copied().filter_map(number).collect())
        };
        shared.reservations.all().map(lock).collect()
    }

    /// The rows that are predicted to be written once they were read.
    pub(crate) fn predicted(&self) -> Vec<Predicted> {
        self.shared.lock().predictions.all().collect()
    }

    /// Shows how many keys are reserved and predicted, by a thread that holds the lock.
    fn show_reserved(&self, shared: &Shared) {
        // Relaxed: as in `has_reservations`.
        self.reserved.store(shared.reservations.len(), Ordering::Relaxed);
        self.predicted.store(shared.predictions.len(), Ordering::Relaxed);
    }

    fn look_at(&self, at: Instant, control: Weak<Control>) {
        let mut timer = self.timer.lock();
        timer.last += 1;
        let number = timer.last;
        timer.deadlines.insert((at, number), control);
        drop(timer);
        self.changed.notify_all();
    }
}

impl Shared {
    /// Ends a transaction's waits and releases what it has reserved. The transactions that may go on.
    fn end(&mut self, transaction: TransactionId) -> Vec<TransactionId> {
        self.reservations.stop_waiting(transaction);
        let mut granted = self.reservations.release(transaction, 0);
        granted.extend(self.predictions.end(transaction));
        granted
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
    /// Of a new session of a caller's.
    pub(super) fn numbered(sessions: &Arc<Sessions>) -> Arc<Control> {
        // Relaxed: numbers need only differ.
        Control::with(sessions, sessions.last_number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Of one of the engine's own.
    pub(super) fn new(sessions: &Arc<Sessions>) -> Arc<Control> {
        Control::with(sessions, 0)
    }

    fn with(sessions: &Arc<Sessions>, number: u64) -> Arc<Control> {
        Arc::new(Control {
            number,
            sessions: sessions.clone(),
            state: Mutex::default(),
            is_stopped: AtomicBool::new(false),
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
        wake(wakers);
    }

    /// Why the transaction must be rolled back, if so.
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

    /// From here on no other thread aborts the transaction.
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

    /// Whether there is a transaction, and whether it is marked for abort.
    pub(super) fn is_open(&self) -> (bool, bool) {
        let state = self.state.lock();
        (state.transaction.is_some(), state.aborted.is_some())
    }

    /// How many keys the transaction has reserved.
    pub(super) fn reserved(&self) -> usize {
        let shared = self.sessions.shared.lock();
        self.state.lock().transaction.map_or(0, |transaction| shared.reservations.count(transaction))
    }

    /// Releases all reservations except the first ones, of this number.
    pub(super) fn release(&self, kept: usize) {
        let mut shared = self.sessions.shared.lock();
        let Some(transaction) = self.state.lock().transaction else { return };
        let granted = shared.reservations.release(transaction, kept);
        self.sessions.show_reserved(&shared);
        let wakers = shared.grant(granted);
        drop(shared);
        wake(wakers);
    }

    /// Reserves a key, or joins the queue for it; breaks deadlocks. Whether it is reserved already.
    pub(super) fn reserve(&self, key: ReservedKey) -> Result<bool> {
        let mut shared = self.sessions.shared.lock();
        let state = self.state.lock();
        let Some(transaction) = state.transaction.filter(|_| state.aborted.is_none()) else {
            return Err(state.aborted.clone().unwrap_or(Error::NoTransaction));
        };
        drop(state);
        self.state.lock().is_granted = false;
        let mut answer = shared.reservations.reserve(transaction, key);
        let mut wakers = Vec::new();
        while let Answer::Deadlock(victim) = answer {
            let Some(control) = shared.open.get(&victim).and_then(Weak::upgrade) else { break };
            wakers.extend(self.sessions.abort(&mut shared, &control, victim, Error::Deadlock));
            if victim == transaction {
                break;
            }
            answer = shared.reservations.victim(transaction).map_or(Answer::Queued, Answer::Deadlock);
        }
        self.sessions.show_reserved(&shared);
        drop(shared);
        wake(wakers);
        Ok(answer == Answer::Reserved)
    }

    /// Whether any row is predicted to be written once it was read.
    pub(super) fn has_predictions(&self) -> bool {
        // Relaxed: the number carries no data; a transaction that misses a prediction may conflict.
        self.sessions.predicted.load(Ordering::Relaxed) > 0
    }

    /// The transaction fails because of this row, if one is given.
    pub(super) fn note_conflict(&self, row: Option<ReservedKey>) {
        let Some(row) = row else { return };
        let mut shared = self.sessions.shared.lock();
        shared.predictions.note_conflict(row);
        self.sessions.show_reserved(&shared);
    }

    /// Joins the queue for a row that another session is predicted to write, until then at most, or for half of the time that
    /// the transaction has. Whether there is something to wait for.
    pub(super) fn wait_for_predicted(self: &Arc<Control>, row: ReservedKey, until: Instant) -> bool {
        let mut shared = self.sessions.shared.lock();
        let mut state = self.state.lock();
        let transaction = state.transaction.filter(|_| state.aborted.is_none());
        let Some(transaction) = transaction.filter(|&own| shared.reservations.count(own) == 0) else {
            return false;
        };
        if !shared.predictions.wait(transaction, row) {
            return false;
        }
        let now = Instant::now();
        let half = state.whole.map(|at| now + at.saturating_duration_since(now) / 2);
        (state.is_granted, state.predicted) = (false, half.into_iter().chain([until]).min());
        drop((state, shared));
        self.set_timer();
        true
    }

    /// Whether the key that was asked for is reserved now.
    pub(super) fn poll_reserved(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let mut state = self.state.lock();
        if let Some(why) = &state.aborted {
            return Poll::Ready(Err(why.clone()));
        }
        if std::mem::take(&mut state.is_granted) {
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Sets the time at which the whole transaction must have ended.
    pub(super) fn end_by(self: &Arc<Control>, whole: Option<Instant>) {
        self.state.lock().whole = whole;
        self.set_timer();
    }

    /// Sets the time by which what the session is at must have ended.
    pub(super) fn go_on_within(self: &Arc<Control>, time: Option<Duration>, what: Timeout) {
        let step = time.and_then(|time| Instant::now().checked_add(time)).map(|at| (at, what));
        self.state.lock().step = step;
        if step.is_some() {
            self.set_timer();
        }
    }

    /// Has the timer look at the session at its earliest deadline.
    fn set_timer(self: &Arc<Control>) {
        let mut state = self.state.lock();
        let Some(at) = state.next_look() else { return };
        if state.looked_at.is_some_and(|looked_at| looked_at <= at) {
            return;
        }
        state.looked_at = Some(at);
        drop(state);
        self.sessions.look_at(at, Arc::downgrade(self));
    }

    fn look_at_deadlines(self: &Arc<Control>, now: Instant) {
        // Held until the abort, so that the transaction whose time is over does not end meanwhile and another begin.
        let mut shared = self.sessions.shared.lock();
        let mut state = self.state.lock();
        state.looked_at = None;
        let (earliest, transaction) = (state.earliest(), state.transaction);
        let has_waited = state.predicted.take_if(|at| *at <= now).and(transaction);
        drop(state);
        let released = has_waited.map(|transaction| shared.predictions.time_out(transaction));
        if let Some(released) = released.filter(|released| !released.is_empty()) {
            let wakers = shared.grant(released);
            drop(shared);
            wake(wakers);
            self.set_timer();
            return;
        }
        match (earliest, transaction) {
            (Some((at, what)), Some(transaction)) if at <= now => {
                let wakers = self.sessions.abort(&mut shared, self, transaction, Error::TimedOut { what });
                drop(shared);
                wake(wakers);
            }
            _ => {
                drop(shared);
                self.set_timer();
            }
        }
    }
}

/// With this many keys reserved a transaction reserves no more of those that it writes: it would take more memory than
/// its rows. It still waits for the reservations of others.
const MAX_AUTOMATIC_RESERVATIONS: usize = 10_000;

impl Control {
    /// Reserves a key, or only looks whether another session has it, as the number of those that the transaction has says.
    /// Whether no other session has it.
    fn try_reserve_if(&self, table: u64, key: &[u8], reserves: impl FnOnce(usize) -> bool) -> bool {
        let mut shared = self.sessions.shared.lock();
        let state = self.state.lock();
        let Some(transaction) = state.transaction.filter(|_| state.aborted.is_none()) else { return true };
        drop(state);
        if !reserves(shared.reservations.count(transaction)) {
            return shared.reservations.is_free_for(transaction, table, key);
        }
        shared.predictions.note_write(transaction, table, key);
        let is_reserved = shared.reservations.try_reserve(transaction, table, key);
        self.sessions.show_reserved(&shared);
        is_reserved
    }
}

impl SessionControl for Control {
    fn is_stopped(&self) -> bool {
        // Acquire pairs with the release in `Sessions::abort`.
        self.is_stopped.load(Ordering::Acquire)
    }

    fn try_reserve(&self, table: u64, key: &[u8]) -> bool {
        self.try_reserve_if(table, key, |_| true)
    }

    fn try_reserve_predicted(&self, table: u64, key: &[u8]) -> Prediction {
        let mut shared = self.sessions.shared.lock();
        let state = self.state.lock();
        let transaction = state.transaction.filter(|_| state.aborted.is_none());
        let Some(transaction) = transaction else { return Prediction::None };
        drop(state);
        let holds_others = shared.reservations.count(transaction) > 0;
        shared.predictions.try_reserve(transaction, table, key, holds_others)
    }

    fn try_reserve_of_many(&self, table: u64, key: &[u8]) -> bool {
        self.try_reserve_if(table, key, |reserved| reserved < MAX_AUTOMATIC_RESERVATIONS)
    }
}
