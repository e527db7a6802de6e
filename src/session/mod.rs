//! Sessions: transactions whose accesses are calls of their own, any time apart and from any thread.
//!
//! A session keeps what it has read by key and stamp, and what it will write by key
//! ([`crate::storage::session_buffer`]); between two accesses it holds no slot, no pin and no lock. Each access and
//! the commit run as transactions of the engine's under the protocol in force (`statement.rs`). What only sessions
//! know of each other, reservations, is in `reservations.rs`, and those that are only predicted in `predictions.rs`; how others reach a session (rivals, cancelers,
//! deadlines) in `control.rs`.
//!
//! Invariants:
//! - What a session reads is of one state, and of one that was durable: errors, too.
//! - A transaction that is marked for abort (a conflict, a deadlock, a timeout, a cancellation) does nothing any more
//!   but end; no savepoint revives it.
//! - An access that fails leaves no write and no reservation of its own. What it has read stays: the client has seen
//!   its error.
//!
//! What a session changes of the schema is private until its commit (`schema.rs`).

mod control;
mod exported_snapshot;
mod load;
mod predictions;
mod reservations;
mod schema;
mod statement;
#[cfg(test)]
mod tests;
mod waiting;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::control::Control;
pub(crate) use self::control::Sessions;
pub use self::exported_snapshot::ExportedSnapshot;
use self::load::encode_loaded;
pub(crate) use self::predictions::Predicted;
use self::reservations::{ReservedKey, TransactionId};
pub(crate) use self::schema::SchemaLock;
use self::schema::redefine_tables;
use self::statement::{Commit, Fresh, Statement, Stop};
pub(crate) use self::waiting::block_on_until;
use self::waiting::{Stashed, block_on};
use crate::database::Shared;
use crate::error::{Error, OwnError, Result, Timeout};
use crate::pipeline::execute::execute_here;
use crate::pipeline::hold_off::HoldOff;
use crate::pipeline::nesting;
use crate::pipeline::snapshots::Registered;
use crate::protocol::attempt::{Need, SessionAccess, SessionMode};
use crate::storage::index_build::Builds;
use crate::storage::private_schema::PrivateTable;
use crate::storage::table::TableCore;
use crate::transaction::Tx;

/// A connection's transactions, one after the other: begun, used and ended by calls of their own.
///
/// Between calls a session holds nothing that other transactions wait for, however long it waits. Its reads are
/// optimistic: when something that it has read was changed by another transaction, the next call that could notice
/// fails with
/// [`Error::Conflict`], and the transaction must be rolled back and retry. Sessions can avoid that among each
/// other by [`Tx::get_for_update`].
///
/// Until its first write a session reads from one snapshot, so a transaction that only reads never fails. While such a
/// transaction is open, versions of rows that change are kept for it, up to [`MemoryOptions::snapshot_limit`](crate::MemoryOptions::snapshot_limit).
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// # let accounts = db.create_table(TableDefinition::new("account").column("id", DataType::Int64)
/// #     .column("balance", DataType::Int64).primary_key(["id"]))?;
/// # db.run(|tx| { tx.insert(&accounts, row![7, 100])?; tx.insert(&accounts, row![9, 0]) })?;
/// let mut session = db.session()?;
/// session.begin()?;
/// let balance = session.run(|tx| {
///     tx.get_for_update(&accounts, key![7])?.map(|row| row.int("balance")).transpose()
/// })?;
/// // … a person thinks …
/// let amount = balance.unwrap_or(0) / 2;
/// session.run(|tx| tx.update(&accounts, key![7], &[("balance", (balance.unwrap_or(0) - amount).into())]))?;
/// let before_the_credit = session.savepoint()?;
/// session.run(|tx| tx.add(&accounts, key![9], "balance", amount))?;
/// session.rollback_to(&before_the_credit)?;
/// session.run(|tx| tx.add(&accounts, key![9], "balance", amount))?;
/// session.commit()?;
/// # let balances = db.run(|tx| tx.get(&accounts, key![9])?.map(|row| row.int("balance")).transpose())?;
/// # assert_eq!(balances, Some(50));
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct Session {
    shared: Arc<Shared>,
    control: Arc<Control>,
    /// What is read and written; taken out while an access runs.
    access: Option<Box<SessionAccess>>,
    savepoints: Vec<Point>,
    /// The sequences of identity columns that no table may have when the transaction has ended.
    identities: Vec<String>,
    last_savepoint: u64,
    /// The epoch as of which everything that was read was found unchanged.
    valid: Option<u64>,
    /// What it reads from until its first write, once it has read something.
    snapshot: Option<Arc<Registered>>,
    /// The snapshot before that, until everything read from it was found unchanged.
    earlier: Option<Arc<Registered>>,
    /// Whether other sessions read from the same one, so that no other may take its place.
    is_snapshot_shared: bool,
    /// Whether it reads what is there now: it has written, or tried to.
    is_current: bool,
    /// The transaction that the next one retries, and whose age it keeps.
    again: Option<TransactionId>,
    transaction: TransactionId,
    timeouts: Timeouts,
    /// Whether its caller has said that it only reads.
    is_read_only: bool,
    /// What keeps others from writing until the transaction has ended.
    hold_off: Option<HoldOff>,
}

/// How long an access waits for a row that another session is predicted to write.
const MAX_PREDICTED_WAIT: Duration = Duration::from_secs(1);

/// How long a session may take.
#[derive(Clone, Copy, Default)]
struct Timeouts {
    wait: Option<Duration>,
    transaction: Option<Duration>,
    idle: Option<Duration>,
}

/// A point in a transaction.
struct Point {
    number: u64,
    writes: usize,
    reserved: usize,
    tables: Vec<PrivateTable>,
}

/// A point in a session's transaction to which it can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSavepoint {
    number: u64,
}

/// What a session is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It has no transaction: each access is one of its own.
    Idle,
    /// It has a transaction.
    Open,
    /// It has a transaction that can only be rolled back.
    Aborted,
}

/// Cancels a session's transaction from another thread.
#[derive(Clone)]
pub struct Canceler {
    control: Arc<Control>,
}

impl Canceler {
    /// Marks the transaction that the session has, if it has one, for abort: the call that it is in, or else the next
    /// one, fails with [`Error::Canceled`]. A commit that has begun is not canceled.
    pub fn cancel(&self) {
        self.control.abort(Error::Canceled);
    }
}

/// A call of a session's that runs. If it is released in the middle, as a future may be, it is unknown how far it has
/// come: the transaction is marked for abort.
struct Running {
    control: Arc<Control>,
    /// Whether it is an autocommit transaction, which ends with the call.
    is_single: bool,
    is_done: bool,
}

impl Running {
    fn new(control: &Arc<Control>, is_single: bool) -> Running {
        Running { control: control.clone(), is_single, is_done: false }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.is_done {
            true => {}
            false if self.is_single => self.control.end(),
            false => self.control.abandon(),
        }
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        let control = Control::numbered(shared.sessions());
        let access = Some(Box::new(SessionAccess::new(control.clone())));
        Session {
            shared,
            control,
            access,
            savepoints: Vec::new(),
            identities: Vec::new(),
            last_savepoint: 0,
            valid: None,
            snapshot: None,
            earlier: None,
            is_snapshot_shared: false,
            is_current: false,
            again: None,
            transaction: 0,
            timeouts: Timeouts::default(),
            is_read_only: false,
            hold_off: None,
        }
    }

    /// The session's number, which no other session of the database has had.
    pub fn number(&self) -> u64 {
        self.control.number()
    }

    /// What the session is at.
    pub fn state(&self) -> SessionState {
        match self.control.is_open() {
            (false, _) => SessionState::Idle,
            (true, false) => SessionState::Open,
            (true, true) => SessionState::Aborted,
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::TransactionOpen`]; [`Error::Closed`].
    pub fn begin(&mut self) -> Result<()> {
        self.shared.check_open()?;
        if self.state() != SessionState::Idle {
            return Err(Error::TransactionOpen);
        }
        self.transaction = self.control.begin(self.again.take());
        let whole = self.timeouts.transaction.and_then(|time| Instant::now().checked_add(time));
        self.control.end_by(whole);
        self.control.go_on_within(self.timeouts.idle, Timeout::Idle);
        Ok(())
    }

    /// One access of the transaction, or several that succeed or fail together: `body` may do whatever a transaction's
    /// may. It is retried when it met a concurrent change, or had to wait for another session; only its last execution
    /// counts. It returns when everything that it is based on is durable. If it fails, it has left no trace, and the
    /// transaction goes on; but not after a conflict, a deadlock, a timeout or a cancellation.
    ///
    /// Without an open transaction the access is a transaction of its own, which commits.
    ///
    /// # Errors
    /// The closure's own; [`Error::Conflict`], [`Error::Deadlock`], [`Error::TimedOut`], [`Error::Canceled`]: roll
    /// back, and run the transaction again; [`Error::Nested`] inside another transaction.
    pub fn run<T>(&mut self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        block_on(self.run_async(body))
    }

    /// As [`run`](Self::run), for bodies with an error type of the application's own, as with
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

    /// As [`run`](Self::run), without blocking the thread for the log or for another session. If the future is dropped
    /// before it is done, the transaction can only be rolled back.
    ///
    /// # Errors
    /// As there.
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

    /// Runs an access as an autocommit transaction; again, where it was the victim of a deadlock.
    async fn run_autocommit<T>(&mut self, body: &mut impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        let mut again = None;
        loop {
            self.transaction = self.control.begin(again);
            again = Some(self.transaction);
            let mut running = Running::new(&self.control, true);
            let result = self.run_to_end(body, true).await;
            running.is_done = true;
            self.end();
            if !matches!(result, Err(Error::Deadlock)) {
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
                execute_here(shared.engine(), &mut statement, self.snapshot.is_some() && !self.is_current);
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

    /// From where an access reads: from one snapshot until the first write, so that what only reads never fails.
    fn mode(&self, is_single: bool) -> SessionMode {
        match &self.snapshot {
            _ if is_single || self.is_current => SessionMode::Current,
            Some(snapshot) => SessionMode::Snapshot(snapshot.epoch()),
            None => SessionMode::Probe,
        }
    }

    /// Whether versions that the snapshot needs were released: what was just read from it may be wrong.
    fn has_lost_its_snapshot(&self) -> bool {
        !self.is_current && self.snapshot.as_ref().is_some_and(|snapshot| snapshot.check().is_err())
    }

    /// Has what it has read so far compared with what is there now.
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

    /// Whether the access that was stopped was going to write.
    fn is_about_to_write(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.is_writer())
    }

    /// Whether a table that was accessed begins after the snapshot.
    fn has_newer_tables(&self) -> bool {
        let (Some(snapshot), Some(access)) = (&self.snapshot, &self.access) else { return false };
        let store = self.shared.engine().store();
        let begins = |core: &Arc<TableCore>| store.table(core.id()).map_or(0, |table| table.begins());
        access.buffer.cores().any(|core| begins(core) > snapshot.epoch())
    }

    /// Does what an access needs that was stopped, so that it can be retried. `predicted_until`: when the access's waits for
    /// rows that others are predicted to write end, if there were any.
    ///
    /// # Errors
    /// Why the transaction cannot go on.
    async fn go_on_after(&mut self, stop: Stop, predicted_until: &mut Option<Instant>) -> Result<()> {
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
            // What has written, or tried to, without a snapshot goes on like that.
            self.is_current |= self.snapshot.is_none() && access.has_accessed();
            let savepoint = self.savepoints.last().map_or(0, |point| point.writes);
            self.valid = fresh.keep(&mut access.buffer, is_kept.then_some(savepoint), self.valid);
            // What was deleted from a range that was read from it is found again only while it is open.
            if self.is_current && !access.buffer.has_ranges_of_snapshot() {
                self.snapshot = None;
            }
        }
    }

    /// Waits until what an access is based on is durable.
    async fn wait_until_durable(&mut self, epoch: u64, wrote: bool) -> Result<()> {
        let engine = self.shared.engine();
        if wrote || !engine.progress().is_released(epoch) {
            engine.notify_log();
        }
        let reported = poll_fn(|context| engine.progress().poll(epoch, context)).await;
        reported.map_err(|error| self.abort(error))
    }

    /// Waits until another session has released a key, and reserves it.
    async fn wait_for(&mut self, key: ReservedKey) -> Result<()> {
        if self.control.reserve(key)? { Ok(()) } else { self.wait_until_reserved().await }
    }

    /// When all waits of an access that begins now for rows that others are predicted to write have ended.
    fn end_of_predicted_waits(&self) -> Instant {
        // Half of the caller's timeout: it is that of the whole statement, too.
        let caller = self.timeouts.wait.map_or(MAX_PREDICTED_WAIT, |timeout| timeout / 2);
        Instant::now() + caller.min(MAX_PREDICTED_WAIT)
    }

    /// Waits until a rival that has read a row is predicted to have written it, or for a bounded time. Has the access
    /// retried on a snapshot that shows what the wait has ended in.
    async fn go_on_with_predicted(&mut self, key: ReservedKey, until: Instant) -> Result<()> {
        self.shared.start_session_timer()?;
        if self.control.wait_for_predicted(key, until) {
            poll_fn(|context| self.control.poll_reserved(context)).await?;
        }
        self.earlier = self.earlier.take().or(self.snapshot.take());
        if self.earlier.is_some() { self.open_snapshot().await } else { Ok(()) }
    }

    /// Waits for what another session has reserved, in whose queue this one is.
    async fn wait_until_reserved(&mut self) -> Result<()> {
        self.control.go_on_within(self.timeouts.wait, Timeout::Wait);
        let granted = poll_fn(|context| self.control.poll_reserved(context)).await;
        self.control.go_on_within(None, Timeout::Wait);
        granted
    }

    /// Marks the transaction for abort. The error that says why.
    fn abort(&mut self, why: Error) -> Error {
        if why.is_retryable() {
            self.again = Some(self.transaction);
        }
        self.control.abort(why.clone());
        why
    }

    /// Commits the transaction; it has ended then, whatever is returned. It returns when everything that the transaction
    /// wrote and read is durable.
    ///
    /// # Errors
    /// [`Error::Conflict`]: something that it has read was changed; it was rolled back. The reason for which it was
    /// marked for abort.
    /// [`Error::LogFailed`]: whether it is durable is unknown. [`Error::NoTransaction`].
    pub fn commit(&mut self) -> Result<()> {
        block_on(self.commit_async())
    }

    /// As [`commit`](Self::commit). Once the commit has succeeded, `publish` runs before the lock of schema changes is
    /// released, and before the log is waited for: for what is kept beside the database, and must change in the same order.
    ///
    /// # Errors
    /// As there.
    pub fn commit_and(&mut self, publish: impl FnOnce()) -> Result<()> {
        block_on(self.commit_publishing(publish))
    }

    /// As [`commit`](Self::commit), without blocking the thread for the log. If the future is dropped before it is
    /// done, the transaction has committed or can only be rolled back.
    ///
    /// # Errors
    /// As there.
    pub async fn commit_async(&mut self) -> Result<()> {
        self.commit_publishing(|| ()).await
    }

    async fn commit_publishing(&mut self, publish: impl FnOnce()) -> Result<()> {
        nesting::check("the commit of a session")?;
        if self.state() == SessionState::Idle {
            return Err(Error::NoTransaction);
        }
        self.control.go_on_within(None, Timeout::Idle);
        let mut running = Running::new(&self.control, false);
        let committed = self.commit_to_end().await;
        running.is_done = true;
        if let Err(why) = &committed
            && why.is_retryable()
        {
            self.again = Some(self.transaction);
        }
        if committed.is_ok() {
            publish();
        }
        self.end();
        let epoch = committed?;
        self.wait_until_durable(epoch, epoch > 0).await
    }

    /// Commits. The epoch that must be durable then; 0: nothing was written.
    async fn commit_to_end(&mut self) -> Result<u64> {
        if let Some(why) = self.control.aborted() {
            return Err(why);
        }
        self.shared.check_open()?;
        self.control.begin_commit()?;
        let changes =
            |access: &mut Box<SessionAccess>| !access.buffer.is_unwritten() || !access.schema.is_empty();
        let Some(access) = self.access.take_if(changes) else { return Ok(0) };
        let shared = self.shared.clone();
        let mut stashed = Stashed::new(shared.engine().stash());
        let mut builds = Builds::new(shared.engine().store());
        // The loaded rows first: while an index is built, what others write is collected.
        let prepared = encode_loaded(&access, shared.engine().store())
            .and_then(|loaded| Ok((loaded, redefine_tables(&access, &mut builds)?)));
        let (loaded, redefined) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.access = Some(access);
                return Err(error);
            }
        };
        let mut commit = Commit { access, stop: None, redefined, published: Vec::new(), loaded };
        let outcome = loop {
            let mut outcome = execute_here(shared.engine(), &mut commit, false);
            if outcome.failure.is_some() && builds.take_behind() {
                match builds.catch_up() {
                    Ok(()) => continue,
                    Err(error) => outcome.failure = Some(Box::new(error)),
                }
            }
            if stashed.has_run(outcome.stashed).is_none() {
                break outcome;
            }
            poll_fn(|context| shared.engine().stash().poll_ended(context)).await;
        };
        if commit.stop.is_none() && outcome.failure.is_none() {
            commit.access.schema.end(&commit.published);
        }
        let keeps_schema = commit.access.schema.is_empty();
        self.access = Some(commit.access);
        match (commit.stop, outcome.failure) {
            (Some(stop), _) => {
                if let Stop::Conflict(row) = stop {
                    self.control.note_conflict(row);
                }
                Err(Error::Conflict)
            }
            // An operation fitted when it was made, and does not any more. The retry meets the error in its place. A
            // check that the session adds is another matter: rows that violate it do so the next time, too.
            (None, Some(error)) if error.is_of_values_met() && keeps_schema => Err(Error::Conflict),
            (None, Some(error)) => Err(*error),
            (None, None) => Ok(outcome.epoch),
        }
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// [`Error::NoTransaction`].
    pub fn rollback(&mut self) -> Result<()> {
        let is_open = self.state() != SessionState::Idle;
        self.end();
        if is_open { Ok(()) } else { Err(Error::NoTransaction) }
    }

    fn end(&mut self) {
        self.hold_off = None;
        match &mut self.access {
            Some(access) => {
                access.buffer.clear();
                access.schema.end(&[]);
            }
            // The access was released in the middle, and what it had with it.
            None => self.access = Some(Box::new(SessionAccess::new(self.control.clone()))),
        }
        // After the schema has ended: the lock of schema changes is released.
        self.control.end();
        self.savepoints = Vec::new();
        self.valid = None;
        (self.snapshot, self.earlier) = (None, None);
        (self.is_current, self.is_snapshot_shared) = (false, false);
        self.drop_unused_identities();
    }

    /// A point to which [`rollback_to`](Self::rollback_to) can go back.
    ///
    /// # Errors
    /// [`Error::NoTransaction`]; the reason for which the transaction was marked for abort.
    pub fn savepoint(&mut self) -> Result<SessionSavepoint> {
        self.check_transaction()?;
        self.last_savepoint += 1;
        let number = self.last_savepoint;
        let access = self.access.as_ref();
        let writes = access.map_or(0, |access| access.buffer.mark());
        let tables = access.map_or_else(Vec::new, |access| access.schema.tables().to_vec());
        self.savepoints.push(Point { number, writes, reserved: self.control.reserved(), tables });
        Ok(SessionSavepoint { number })
    }

    /// Takes back what was written since the savepoint, and releases what was reserved since. Later savepoints are
    /// gone; this one stays. What was read since stays read.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`]; as [`savepoint`](Self::savepoint).
    pub fn rollback_to(&mut self, savepoint: &SessionSavepoint) -> Result<()> {
        let at = self.position(savepoint)?;
        self.savepoints.truncate(at + 1);
        let Point { writes, reserved, tables, .. } = &self.savepoints[at];
        let reserved = *reserved;
        if let Some(access) = &mut self.access {
            access.buffer.truncate(*writes);
            access.go_back_to(self.shared.engine().store(), tables.clone())?;
        }
        self.control.release(reserved);
        Ok(())
    }

    /// Forgets a savepoint and all later ones; what was written since stays.
    ///
    /// # Errors
    /// As [`rollback_to`](Self::rollback_to).
    pub fn release(&mut self, savepoint: &SessionSavepoint) -> Result<()> {
        let at = self.position(savepoint)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn position(&self, savepoint: &SessionSavepoint) -> Result<usize> {
        self.check_transaction()?;
        let mut points = self.savepoints.iter();
        points.position(|point| point.number == savepoint.number).ok_or(Error::UnknownSavepoint)
    }

    fn check_transaction(&self) -> Result<()> {
        match (self.state(), self.control.aborted()) {
            (SessionState::Idle, _) => Err(Error::NoTransaction),
            (_, Some(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// How long an access waits for what another session has reserved; none, the default: as long as it takes.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`]: the thread that looks at timeouts cannot be started.
    pub fn set_wait_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.wait = timeout;
        Ok(())
    }

    /// How long a transaction may take, from its beginning; none, the default: as long as it likes. It applies to
    /// those that begin later.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`]: the thread that looks at timeouts cannot be started.
    pub fn set_transaction_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.transaction = timeout;
        Ok(())
    }

    /// How long the session may pause inside a transaction; none, the default: as long as it likes. It applies from
    /// the next call on.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`]: the thread that looks at timeouts cannot be started.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.idle = timeout;
        Ok(())
    }

    /// Whether the next transactions, or the open one from here on, are going to only read: then they do not wait for rows
    /// that other sessions have read and are predicted to write. It forbids no write; a transaction that writes none the less
    /// fails more often.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    fn start_timer(&self, timeout: Option<Duration>) -> Result<()> {
        if timeout.is_some() { self.shared.start_session_timer() } else { Ok(()) }
    }

    /// What cancels this session's transactions from another thread.
    pub fn canceler(&self) -> Canceler {
        Canceler { control: self.control.clone() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
