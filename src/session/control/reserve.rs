//! Reservations of keys by a session: acquiring, waiting and releasing, and an attempt's requests to its session.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Control, Sessions, Shared, State, wake};
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::lock::hot_rows::{HotRow, Kind, Prediction, Tag};
use crate::protocol::attempt::SessionControl;
use crate::session::reservations::{Answer, ReservedKey, TransactionId};

impl Sessions {
    /// Returns true if any key is reserved; the answer may be slightly outdated.
    pub(crate) fn has_reservations(&self) -> bool {
        // Relaxed: the number carries no data; a transaction that misses a reservation conflicts with it.
        self.reserved.load(Ordering::Relaxed) > 0
    }

    /// Returns the reserved keys, each with the numbers of sessions: the holder's, and the waiters' in order. A session
    /// that has just ended has none.
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
    pub(crate) fn predicted(&self) -> Vec<HotRow> {
        self.hot_rows.all()
    }

    /// Shows how many keys are reserved, by a thread that holds the lock.
    pub(super) fn show_reserved(&self, shared: &Shared) {
        // Relaxed: as in `has_reservations`.
        self.reserved.store(shared.reservations.len(), Ordering::Relaxed);
    }
}

impl Control {
    /// Number of keys that the transaction has reserved.
    pub(in super::super) fn reserved(&self) -> usize {
        let shared = self.sessions.shared.lock();
        self.state.lock().transaction.map_or(0, |transaction| shared.reservations.count(transaction))
    }

    /// Releases all reservations except the first ones, of this number.
    pub(in super::super) fn release(&self, kept: usize) {
        let mut shared = self.sessions.shared.lock();
        let Some(transaction) = self.state.lock().transaction else { return };
        let granted = shared.reservations.release(transaction, kept);
        self.sessions.show_reserved(&shared);
        let wakers = shared.grant(granted);
        drop(shared);
        wake(wakers);
    }

    /// Reserves a key, or joins the queue for it; breaks deadlocks. Returns true if it is reserved already.
    pub(in super::super) fn reserve(&self, key: ReservedKey) -> Result<bool> {
        let mut shared = self.sessions.shared.lock();
        let state = self.state.lock();
        let Some(transaction) = state.transaction.filter(|_| state.aborted.is_none()) else {
            return Err(state.aborted.clone().unwrap_or(Error::NoTransaction));
        };
        drop(state);
        self.state.lock().is_granted = false;
        let mut answer = shared.reservations.reserve(transaction, key);
        let mut wakers = Vec::new();
        if matches!(answer, Answer::Deadlock(_)) {
            // From now on whichever of them a transaction reads first keeps its rivals from all.
            self.sessions.hot_rows.join_keys(&shared.reservations.keys_of_cycle(transaction));
        }
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

    /// Returns true if any row is predicted to be written once it was read.
    pub(in super::super) fn has_predictions(&self) -> bool {
        !self.sessions.hot_rows.is_empty(Kind::Session)
    }

    /// The transaction fails because of this row, if one is given.
    pub(in super::super) fn note_conflict(&self, row: Option<ReservedKey>) {
        if let Some((table, key)) = row {
            self.sessions.hot_rows.note_conflict(Kind::Session, table, &key);
        }
    }

    /// Joins the queue for a row that another session is predicted to write, until `until` at most, or for half of the
    /// time that the transaction has. Returns true if there is something to wait for.
    pub(in super::super) fn wait_for_predicted(
        self: &Arc<Control>,
        (table, key): &ReservedKey,
        until: Instant,
    ) -> bool {
        let shared = self.sessions.shared.lock();
        let mut state = self.state.lock();
        let transaction = state.transaction.filter(|_| state.aborted.is_none());
        if transaction.is_none_or(|own| shared.reservations.count(own) > 0) {
            return false;
        }
        drop(shared);
        // While the state is locked, so that no answer arrives before it is awaited.
        state.is_through = false;
        if !self.sessions.hot_rows.wait(&self.predicting, Tag::of(*table, key)) {
            return false;
        }
        let now = Instant::now();
        let half = state.whole.map(|at| now + at.saturating_duration_since(now) / 2);
        state.predicted = half.into_iter().chain([until]).min();
        drop(state);
        self.set_timer();
        true
    }

    /// Polls for the reservation of the key that was requested.
    pub(in super::super) fn poll_reserved(&self, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll(context, |state| &mut state.is_granted)
    }

    /// Polls for the end of a wait for a hot row.
    pub(in super::super) fn poll_predicted(&self, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll(context, |state| &mut state.is_through)
    }

    fn poll(&self, context: &Context<'_>, done: impl Fn(&mut State) -> &mut bool) -> Poll<Result<()>> {
        let mut state = self.state.lock();
        if let Some(why) = &state.aborted {
            return Poll::Ready(Err(why.clone()));
        }
        if std::mem::take(done(&mut state)) {
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Number of reserved keys at which a transaction reserves no more of those that it writes: it would take more memory
/// than its rows. It still waits for the reservations of others.
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
        if !self.sessions.hot_rows.is_empty(Kind::Session) {
            self.sessions.hot_rows.note_write(&self.predicting, Tag::of(table, key));
        }
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

    fn is_free(&self, table: u64, key: &[u8]) -> bool {
        self.try_reserve_if(table, key, |_| false)
    }

    fn try_reserve_predicted(&self, table: u64, key: &[u8]) -> Prediction {
        let hot_rows = &self.sessions.hot_rows;
        let Some(row) = hot_rows.hot(table, key) else { return Prediction::None };
        let shared = self.sessions.shared.lock();
        let state = self.state.lock();
        let transaction = state.transaction.filter(|_| state.aborted.is_none());
        let Some(transaction) = transaction else { return Prediction::None };
        drop(state);
        let holds_others = shared.reservations.count(transaction) > 0;
        drop(shared);
        match hot_rows.try_reserve(&self.predicting, row) {
            // Such a wait could be part of a deadlock.
            Prediction::Wait if holds_others => Prediction::None,
            prediction => prediction,
        }
    }

    fn is_joined(&self, table: u64, key: &[u8]) -> bool {
        let hot_rows = &self.sessions.hot_rows;
        hot_rows.hot(table, key).is_some_and(|row| hot_rows.is_joined(row))
    }

    fn try_reserve_of_many(&self, table: u64, key: &[u8]) -> bool {
        self.try_reserve_if(table, key, |reserved| reserved < MAX_AUTOMATIC_RESERVATIONS)
    }
}
