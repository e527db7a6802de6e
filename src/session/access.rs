//! One access of a session: it is retried, after waits for other sessions, until everything that it is based
//! on is of one state, and durable.
//!
//! Each access is an attempt of the protocol: it reads and validates like a transaction, but its writes stay in the
//! session's buffer until the commit. Between two accesses the session holds no worker context and no lock, only its
//! reservations. Until its first write it reads from a snapshot; from then on its reads are validated again at later
//! accesses and at the commit. An access that meets another session's reservation stops, waits outside of the attempt,
//! and is retried.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reservations::ReservedKey;
use super::statement::{Fresh, Statement, Stop};
use super::waiting::{Stashed, block_on};
use super::{Running, Session, SessionState};
use crate::diagnostics::recent_counts::interval_now;
use crate::error::{Error, OwnError, Result, Timeout};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Outcome, execute_here};
use crate::pipeline::nesting;
use crate::protocol::attempt::{Need, SessionMode};
use crate::storage::table::TableCore;
use crate::transaction::Tx;

/// Longest wait of an access for a row that another session is predicted to write.
const MAX_PREDICTED_WAIT: Duration = Duration::from_secs(1);

/// Executes an access; no change of the protocol, if it loads rows.
fn execute_access<T, F: FnMut(&Tx<'_, '_>) -> Result<T>>(
    engine: &Engine,
    statement: &mut Statement<'_, F, T>,
    is_reader: bool,
) -> Outcome {
    let _load = statement.loads().then(|| engine.loads().begin());
    execute_here(engine, statement, is_reader)
}

impl Session {
    /// Runs one access of the transaction, or several that succeed or fail together: `body` may contain
    /// everything that a transaction's body may. It is retried after a conflict with a concurrent change, or
    /// a wait for another session; only its last execution counts. It returns when everything that it is
    /// based on is durable. If it fails, it leaves no trace, and the transaction continues, except after a
    /// conflict, a deadlock, a timeout or a cancellation.
    ///
    /// Without an open transaction the access is a transaction of its own, which commits.
    ///
    /// # Errors
    /// The closure's own; [`Error::Conflict`], [`Error::Deadlock`], [`Error::TimedOut`], [`Error::Canceled`]:
    /// roll the transaction back, and retry it; [`Error::Nested`] inside another transaction.
    pub fn run<T>(&mut self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        block_on(self.run_async(body))
    }

    /// Same as [`run`](Self::run), for bodies with an error type of the application's own, as with
    /// [`Database::try_run`](crate::Database::try_run).
    ///
    /// # Errors
    /// The closure's own; those of [`run`](Self::run).
    pub fn try_run<T, E: From<Error>>(
        &mut self,
        mut body: impl FnMut(&Tx<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut own = OwnError::none();
        let result = self.run(|tx| own.keep(body(tx)));
        own.or_kept(result)
    }

    /// Same as [`run`](Self::run), without blocking the thread for the log or for another session. If the
    /// future is dropped before it completes, the transaction can only be rolled back.
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub async fn run_async<T>(&mut self, mut body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        nesting::check("an access of a session")?;
        self.shared.check_open()?;
        if self.state() == SessionState::Idle {
            return self.run_autocommit(&mut body).await;
        }
        if let Some(why) = self.control.aborted() {
            return Err(why);
        }
        self.control.go_on_within(None, Timeout::Idle);
        let mut running = Running::new(&self.control, false);
        let result = self.run_to_end(&mut body, false).await;
        running.is_done = true;
        self.control.go_on_within(self.timeouts.idle, Timeout::Idle);
        result
    }

    /// Runs an access as an autocommit transaction; again, where it was the victim of a deadlock, or a schema change came in between.
    async fn run_autocommit<T>(&mut self, body: &mut impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        let mut again = None;
        loop {
            self.transaction = self.control.begin(again);
            again = Some(self.transaction);
            let mut running = Running::new(&self.control, true);
            let result = self.run_to_end(body, true).await;
            running.is_done = true;
            self.end();
            if !matches!(result, Err(Error::Deadlock | Error::Conflict)) {
                return result;
            }
        }
    }

    async fn run_to_end<T>(
        &mut self,
        body: &mut impl FnMut(&Tx<'_, '_>) -> Result<T>,
        is_single: bool,
    ) -> Result<T> {
        let shared = self.shared.clone();
        let mut stashed = Stashed::new(shared.engine().stash());
        let reserved = self.control.reserved();
        let mut predicted_until = None;
        let (outcome, value) = loop {
            let Some(mut access) = self.access.take() else { return Err(Error::Closed) };
            access.mode = self.mode(is_single);
            access.is_refreshed = self.earlier.is_some();
            let predicts = !is_single && !self.is_read_only && !self.is_snapshot_shared;
            access.predicts = predicts && self.control.has_predictions();
            let mut statement = Statement::new(body, access, self.valid, is_single);
            let outcome =
                execute_access(shared.engine(), &mut statement, self.snapshot.is_some() && !self.is_current);
            let (access, value, fresh, stop) = statement.into_parts();
            self.access = access;
            if stashed.has_run(outcome.stashed).is_some() {
                poll_fn(|context| shared.engine().stash().poll_ended(context)).await;
                continue;
            }
            if let Some(stop) = stop {
                self.go_on_after(stop, &mut predicted_until).await?;
            } else if self.has_lost_its_snapshot() {
                self.leave_lost_snapshot()?;
            } else {
                self.earlier = None;
                if !is_single {
                    self.keep(fresh, outcome.failure.is_none());
                }
                break (outcome, value);
            }
        };
        if outcome.failure.is_some() || is_single {
            self.control.release(if is_single { 0 } else { reserved });
        }
        self.wait_until_durable(outcome.epoch, outcome.wrote).await?;
        match (outcome.failure, self.control.aborted()) {
            (_, Some(why)) if !is_single => Err(why),
            (Some(error), _) => Err(*error),
            (None, _) => value.ok_or(Error::Closed),
        }
    }

    /// The state from which an access reads: one snapshot until the first write, so that reads alone never fail.
    fn mode(&self, is_single: bool) -> SessionMode {
        match &self.snapshot {
            _ if is_single || self.is_current => SessionMode::Current,
            Some(snapshot) => SessionMode::Snapshot(snapshot.epoch()),
            None => SessionMode::Probe,
        }
    }

    /// Makes the open transaction read the present state from here on, as after its first write: its reads so
    /// far are compared with that state. Without a transaction, or if it reads the present state already,
    /// nothing happens.
    ///
    /// # Errors
    /// [`Error::Conflict`]: other sessions read from the same snapshot; the transaction can only be rolled back.
    pub fn read_current(&mut self) -> Result<()> {
        if self.is_snapshot_shared && !self.is_current {
            return Err(self.abort(Error::Conflict));
        }
        self.is_current |= self.snapshot.is_some();
        Ok(())
    }

    /// Returns true if versions that the snapshot needs were released: the values just read from it may be wrong.
    fn has_lost_its_snapshot(&self) -> bool {
        !self.is_current && self.snapshot.as_ref().is_some_and(|snapshot| snapshot.check().is_err())
    }

    /// Compares its reads so far with the present state.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`]: others read from the same snapshot.
    fn leave_lost_snapshot(&mut self) -> Result<()> {
        if self.is_snapshot_shared
            && let Some(Err(error)) = self.snapshot.as_ref().map(|snapshot| snapshot.check())
        {
            return Err(self.abort(error));
        }
        self.is_current = self.access.as_ref().is_some_and(|access| !access.buffer.is_unread());
        (self.snapshot, self.earlier) = (None, None);
        Ok(())
    }

    /// Returns true if the access that was stopped was going to write.
    fn is_about_to_write(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.is_writer())
    }

    /// Returns true if a table that was accessed begins after the snapshot.
    fn has_newer_tables(&self) -> bool {
        let (Some(snapshot), Some(access)) = (&self.snapshot, &self.access) else { return false };
        let store = self.shared.engine().store();
        let begins = |core: &Arc<TableCore>| store.table(core.id()).map_or(0, |table| table.begins());
        access.buffer.cores().any(|core| begins(core) > snapshot.epoch())
    }

    /// Waits for what the stopped access lacks, so that it can be retried. `predicted_until`: the end of the access's
    /// waits for rows that others are predicted to write, if there were any.
    ///
    /// # Errors
    /// The reason why the transaction cannot continue.
    pub(super) async fn go_on_after(
        &mut self,
        stop: Stop,
        predicted_until: &mut Option<Instant>,
    ) -> Result<()> {
        match stop {
            Stop::Reserved(key) => self.wait_for(key).await,
            Stop::Predicted(key) => {
                let until = *predicted_until.get_or_insert_with(|| self.end_of_predicted_waits());
                self.go_on_with_predicted(key, until).await
            }
            Stop::Stale => {
                self.snapshot = self.earlier.take();
                // A table that the later snapshot has shown is not in this one: then what is there now is read.
                self.is_current |= self.has_newer_tables();
                Ok(())
            }
            // A table was changed since the snapshot that others read from, too.
            Stop::Needs(Need::Current) if self.is_snapshot_shared && !self.is_about_to_write() => {
                Err(self.abort(Error::Conflict))
            }
            Stop::Needs(Need::Current) => {
                self.is_current = true;
                Ok(())
            }
            Stop::Needs(Need::Snapshot) => self.open_snapshot().await,
            Stop::Conflict(row) => {
                self.note_failure(row.as_ref());
                self.control.note_conflict(row);
                Err(self.abort(Error::Conflict))
            }
            Stop::Aborted => Err(self.control.aborted().unwrap_or(Error::Canceled)),
        }
    }

    async fn open_snapshot(&mut self) -> Result<()> {
        let engine = self.shared.engine();
        let request = engine.snapshots().request(engine);
        self.snapshot = Some(poll_fn(|context| request.poll(context)).await?);
        Ok(())
    }

    /// Keeps what a valid access has found.
    fn keep(&mut self, fresh: Fresh, is_kept: bool) {
        #[cfg(test)]
        let fresh = if self.shared.engine().protocol().forgets_session_reads() {
            fresh.without_a_read()
        } else {
            fresh
        };
        if let Some(access) = &mut self.access {
            // A transaction that has written, or tried to, without a snapshot continues without one.
            self.is_current |= self.snapshot.is_none() && access.has_accessed();
            let savepoint = self.savepoints.last().map_or(0, |point| point.writes);
            self.valid = fresh.keep(&mut access.buffer, is_kept.then_some(savepoint), self.valid);
            // What was deleted from a range that was read from it is found again only while it is open.
            if self.is_current && !access.buffer.has_ranges_of_snapshot() {
                self.snapshot = None;
            }
        }
    }

    /// Waits until another session has released a key, and reserves it.
    async fn wait_for(&mut self, key: ReservedKey) -> Result<()> {
        if self.control.reserve(key.clone())? {
            return Ok(());
        }
        self.note_wait(&key);
        self.wait_until_reserved().await
    }

    /// Counts a failure because of a row, for reports.
    pub(super) fn note_failure(&self, row: Option<&ReservedKey>) {
        if let Some((table, key)) = row {
            self.shared.engine().store().recent_failures().report(interval_now(), *table, key, 1);
        }
    }

    /// Counts a wait for a row, for reports.
    fn note_wait(&self, (table, key): &ReservedKey) {
        self.shared.engine().store().recent_waits().report(interval_now(), *table, key, 1);
    }

    /// The time at which all waits of an access that begins now for rows that others are predicted to write have ended.
    fn end_of_predicted_waits(&self) -> Instant {
        // Half of the caller's timeout: it is that of the whole statement, too.
        let caller = self.timeouts.wait.map_or(MAX_PREDICTED_WAIT, |timeout| timeout / 2);
        Instant::now() + caller.min(MAX_PREDICTED_WAIT)
    }

    /// Waits until a rival that has read a row is predicted to have written it, or for a bounded time. Has the access
    /// retried on a snapshot that shows what the wait has ended in.
    async fn go_on_with_predicted(&mut self, key: ReservedKey, until: Instant) -> Result<()> {
        self.shared.start_session_timer()?;
        if self.control.wait_for_predicted(&key, until) {
            self.note_wait(&key);
            poll_fn(|context| self.control.poll_predicted(context)).await?;
        }
        self.earlier = self.earlier.take().or(self.snapshot.take());
        if self.earlier.is_some() { self.open_snapshot().await } else { Ok(()) }
    }
}
