//! Sessions: transactions whose accesses are separate calls, from any thread, with any time between them.
//!
//! A session keeps what it has read by key and stamp, and what it will write by key
//! ([`crate::storage::session_buffer`]); between two accesses it holds no slot, no pin and no lock. Each access and the
//! commit run as engine transactions under the protocol in force, so a session is serializable under every protocol.
//!
//! | file | content |
//! | --- | --- |
//! | `access`, `commit`, `statement` | one access; the commit; the bodies of both, as the protocol runs them |
//! | `savepoints`, `load`, `exported_snapshot` | savepoints; bulk inserts; snapshots that sessions share |
//! | `reservations`, `control` | reservations of keys; the part that rivals, cancelers and deadlines reach |
//! | `schema` | schema changes, private until the commit |
//! | `timeouts`, `waiting` | limits on time; blocking and asynchronous waits |
//!
//! Reservations that are only predicted are `lock::hot_rows`.
//!
//! Invariants:
//! - What a session reads is of one state, and of one that was durable: errors, too.
//! - A transaction that is marked for abort (a conflict, a deadlock, a timeout, a cancellation) does nothing any more
//!   but end; no savepoint revives it.
//! - An access that fails leaves no write and no reservation of its own. What it has read stays: the client has seen
//!   its error.
//!
//! A session's schema changes are private until its commit (`schema`).

mod access;
mod commit;
mod control;
mod exported_snapshot;
mod load;
mod reservations;
mod savepoints;
mod schema;
mod statement;
#[cfg(test)]
mod tests;
mod timeouts;
mod touched;
mod waiting;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use self::control::Control;
pub(crate) use self::control::Sessions;
pub use self::exported_snapshot::ExportedSnapshot;
use self::reservations::TransactionId;
use self::savepoints::Point;
pub(crate) use self::schema::SchemaLock;
use self::statement::Stop;
use self::timeouts::Timeouts;
pub(crate) use self::waiting::block_on_until;
use crate::database::Shared;
use crate::error::{Error, Result, Timeout};
use crate::pipeline::hold_off::HoldOff;
use crate::pipeline::snapshots::Registered;
use crate::protocol::attempt::SessionAccess;
use crate::storage::dependency::Dependency;

pub use commit::PendingCommit;
pub use savepoints::SessionSavepoint;

/// A connection's transactions, one after the other, which are begun, used and ended by separate calls.
///
/// Between calls a session holds no lock, so that transactions outside of sessions never wait for it, however
/// long it pauses. Rows that it has written are reserved: other sessions that write them wait until its
/// transaction ends. Its reads are optimistic: if another transaction has changed something that it has read,
/// the next call that can notice it fails with [`Error::Conflict`]; the transaction must then be rolled back
/// and retried. Sessions can avoid such conflicts among each other by
/// [`Tx::get_for_update`](crate::Tx::get_for_update).
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
    /// The transaction's reads and writes; taken out while an access runs.
    access: Option<Box<SessionAccess>>,
    savepoints: Vec<Point>,
    /// The sequences of identity columns that no table may have when the transaction has ended.
    identities: Vec<String>,
    last_savepoint: u64,
    /// The epoch as of which everything that was read was found unchanged.
    valid: Option<u64>,
    /// The snapshot from which it reads until its first write, once it has read something.
    snapshot: Option<Arc<Registered>>,
    /// The snapshot before that, until everything read from it was found unchanged.
    earlier: Option<Arc<Registered>>,
    /// True if other sessions read from the same one, so that no other may take its place.
    is_snapshot_shared: bool,
    /// True if it reads the present state: it has written, or tried to.
    is_current: bool,
    /// The transaction that the next one retries, and whose age it keeps.
    again: Option<TransactionId>,
    transaction: TransactionId,
    timeouts: Timeouts,
    /// True if its caller has declared that it only reads.
    is_read_only: bool,
    /// Keeps others from writing until the transaction has ended.
    hold_off: Option<HoldOff>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No transaction: each access is one of its own.
    Idle,
    /// An open transaction.
    Open,
    /// A transaction that can only be rolled back.
    Aborted,
}

/// Cancels a session's transaction from another thread.
#[derive(Clone)]
pub struct Canceler {
    control: Arc<Control>,
}

impl Canceler {
    /// Marks the session's transaction, if there is one, for abort: the call in progress, or else the next
    /// one, fails with [`Error::Canceled`]. A commit that has begun is not canceled.
    pub fn cancel(&self) {
        self.control.abort(Error::Canceled);
    }
}

/// A call of a session's that runs. If it is released in the middle, as a future may be, it is unknown how far it has
/// come: the transaction is marked for abort.
struct Running {
    control: Arc<Control>,
    /// True for an autocommit transaction, which ends with the call.
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

    /// The session's number, which is unique among all sessions of the database.
    pub fn number(&self) -> u64 {
        self.control.number()
    }

    /// Returns the state of the session.
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

    /// Makes the open transaction depend on a definition: it commits only if that is current then.
    ///
    /// # Errors
    /// [`Error::NoTransaction`].
    pub fn depend_on(&mut self, dependency: &Arc<dyn Dependency>) -> Result<()> {
        self.check_transaction()?;
        if let Some(access) = &mut self.access {
            access.depend_on(dependency);
        }
        Ok(())
    }

    /// The epoch of the snapshot from which the open transaction reads; `None` if it reads nothing yet, or the present
    /// state.
    pub fn snapshot_epoch(&self) -> Option<u64> {
        self.snapshot.as_ref().filter(|_| !self.is_current).map(|snapshot| snapshot.epoch())
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
                access.dependencies.clear();
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

    fn check_transaction(&self) -> Result<()> {
        match (self.state(), self.control.aborted()) {
            (SessionState::Idle, _) => Err(Error::NoTransaction),
            (_, Some(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// Declares that the next transactions, or the open one from here on, are going to only read: then they do not wait
    /// for rows that other sessions have read and are predicted to write. Writes are not forbidden, but a
    /// transaction that writes nevertheless fails more often.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// Returns a handle that cancels this session's transactions from another thread.
    pub fn canceler(&self) -> Canceler {
        Canceler { control: self.control.clone() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
