//! Transaction blocks: BEGIN, COMMIT, ROLLBACK, savepoints, and the implicit block of several statements in one text.
//!
//! A statement outside of a block is a transaction of the engine, which the engine retries after a conflict. Inside of
//! a block the results of earlier statements have been returned, so the engine retries nothing: the block is one
//! interactive transaction of the engine's session, and a conflict fails it with 40001.
//!
//! # Invariants
//! - A transaction block is exactly one transaction of the engine's session.
//! - A failed block accepts only COMMIT, ROLLBACK and ROLLBACK TO SAVEPOINT.
//! - Every isolation level is implemented as serializable.
//! - A transaction that has changed the schema has a private catalog, which its commit publishes before it releases the
//!   schema lock.

mod commands;
mod kinds;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use heddledb::{Canceler, Dependency, PendingCommit, Session, SessionSavepoint, SessionState};

use crate::access;
use crate::catalog::Catalog;
use crate::catalog::history::History;
use crate::catalog::uses::{self, Uses};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement;
use crate::run::Access;
use crate::session::connection::Connection;
use crate::session::deferred::DeferredMark;
use crate::session::result::TransactionStatus;
use crate::session::sequences::Standing;
use crate::session::{Publication, SessionEnvironment, Shared};

/// The kind of transaction block that a session is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Each statement is a transaction of its own.
    None,
    /// Opened automatically around several statements of one query string.
    Implicit,
    /// Opened by BEGIN, closed by COMMIT or ROLLBACK.
    Explicit,
}

/// The transaction of a session.
pub(crate) struct Transaction {
    pub session: Session,
    block: Block,
    failed: bool,
    savepoints: Vec<Savepoint>,
    changes: Changes,
    /// True once a query has run in the block: its modes are fixed from then on.
    pub(super) has_queried: bool,
    /// True once a body that ends transactions has committed one.
    pub(super) has_committed: bool,
    /// The definitions that the open transaction's statements depended on.
    uses: Arc<Uses>,
    /// The version of the settings whose timeouts the engine's session has; 0: none's.
    settings_version: u64,
    /// True while a commit need not wait for the log: see [`Connection::commit_early`].
    commits_early: bool,
    /// The commit that did not wait.
    pending_commit: Option<PendingCommit>,
}

/// The changes of a transaction besides rows.
#[derive(Clone, Default)]
struct Changes {
    /// The transaction's private catalog, if it has changed the schema.
    catalog: Option<Arc<Catalog>>,
    /// The sequences that were restarted or dropped.
    sequences: Vec<SequenceChange>,
}

struct Savepoint {
    name: String,
    engine: SessionSavepoint,
    changes: Changes,
    /// The state of the sequences that the transaction had restarted.
    restarted: HashMap<u32, Standing>,
    /// The constraint modes set by SET CONSTRAINTS, and the number of deferred triggers.
    deferral: DeferredMark,
    /// The level of the settings that it began.
    settings_level: u32,
}

/// A point in the open transaction to which a block with handlers goes back.
pub(crate) struct BodyPoint {
    engine: SessionSavepoint,
    changes: Changes,
    restarted: HashMap<u32, Standing>,
}

/// The change of a sequence by a commit.
#[derive(Clone, Copy)]
pub(crate) enum SequenceChange {
    /// The sequence was restarted: this value comes next.
    Restart(u32, i64),
    /// The sequence was dropped.
    Forget(u32),
}

impl Transaction {
    pub fn new(session: Session, history: Arc<History>) -> Transaction {
        Transaction {
            session,
            uses: Arc::new(Uses::new(history)),
            block: Block::None,
            failed: false,
            savepoints: Vec::new(),
            changes: Changes::default(),
            has_queried: false,
            has_committed: false,
            settings_version: 0,
            commits_early: false,
            pending_commit: None,
        }
    }

    pub fn canceler(&self) -> Canceler {
        self.session.canceler()
    }

    /// Returns true if the transaction has changed the schema.
    pub fn has_catalog(&self) -> bool {
        self.changes.catalog.is_some()
    }

    /// Returns true if no block is open.
    pub fn is_idle(&self) -> bool {
        self.block == Block::None
    }

    /// Returns true if a block opened by BEGIN is open.
    pub fn is_explicit(&self) -> bool {
        self.block == Block::Explicit
    }

    pub fn status(&self) -> TransactionStatus {
        match (self.block, self.failed) {
            (Block::Explicit, true) => TransactionStatus::Failed,
            (Block::Explicit, false) => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    /// Opens the implicit block of a query string with several statements.
    pub fn begin_implicit(&mut self) -> Result<()> {
        self.begin(Block::Implicit)
    }

    fn begin(&mut self, block: Block) -> Result<()> {
        self.session.begin()?;
        let uses: Arc<dyn Dependency> = self.uses.clone();
        self.session.depend_on(&uses)?;
        uses::set_transaction(Some(self.uses.clone()));
        (self.block, self.failed, self.has_queried) = (block, false, false);
        Ok(())
    }

    /// The definitions that the open transaction's statements depended on; `None` if no transaction is open.
    pub(super) fn uses(&self) -> Option<Arc<Uses>> {
        (self.session.state() != SessionState::Idle).then(|| self.uses.clone())
    }

    /// Runs a body in the engine's session, so that the definitions used are of the moment as of which the transaction
    /// reads: if the snapshot is of another moment, the transaction continues with the present definitions.
    ///
    /// # Errors
    /// The body's; 40001 if the rows or definitions that it has read have changed.
    pub(super) fn run_at_one_moment<T>(
        &mut self,
        mut body: impl FnMut(Access<'_>) -> Result<T>,
    ) -> Result<T> {
        let done = access::run_in(&mut self.session, &mut body);
        let is_as_of = |epoch| self.uses.are_as_of(epoch);
        if done.is_err() || self.session.snapshot_epoch().is_none_or(is_as_of) {
            return done;
        }
        self.session.read_current()?;
        let done = access::run_in(&mut self.session, &mut body)?;
        if self.uses.holds() { Ok(done) } else { Err(heddledb::Error::Conflict.into()) }
    }

    /// The transaction has ended: the thread notes nothing more for it.
    fn forget_uses(&self) {
        uses::set_transaction(None);
        self.uses.clear();
    }

    fn end(&mut self) {
        (self.block, self.failed) = (Block::None, false);
        self.savepoints.clear();
    }

    pub(super) fn rollback(&mut self, shared: &Shared) -> Result<()> {
        self.end();
        if let Some(catalog) = std::mem::take(&mut self.changes).catalog {
            shared.keep_oids_of(&catalog);
        }
        self.forget_uses();
        if self.session.state() == SessionState::Idle {
            return Ok(());
        }
        self.session.rollback()?;
        Ok(())
    }

    /// Commits, and publishes the catalog before the schema lock is released. `restarted`: the state of the sequences
    /// that the transaction has restarted.
    pub(super) fn commit(&mut self, shared: &Arc<Shared>, restarted: &HashMap<u32, Standing>) -> Result<()> {
        let committed = self.commit_now(shared, restarted);
        self.forget_uses();
        committed
    }

    fn commit_now(&mut self, shared: &Arc<Shared>, restarted: &HashMap<u32, Standing>) -> Result<()> {
        self.end();
        let Changes { catalog, sequences } = std::mem::take(&mut self.changes);
        let commit = |session: &mut Session, catalog: Option<Arc<Catalog>>| {
            match catalog {
                Some(catalog) => session.commit_publishing(Arc::new(Publication::new(shared, catalog)))?,
                None => session.commit()?,
            }
            Ok(())
        };
        if sequences.is_empty() {
            if self.commits_early && catalog.is_none() {
                self.pending_commit = Some(self.session.commit_early()?);
                return Ok(());
            }
            return commit(&mut self.session, catalog);
        }
        let changes: Vec<(u32, Option<Standing>)> = sequences
            .into_iter()
            .map(|change| match change {
                SequenceChange::Restart(oid, value) => {
                    (oid, Some(restarted.get(&oid).copied().unwrap_or((value, false))))
                }
                SequenceChange::Forget(oid) => (oid, None),
            })
            .collect();
        let committed =
            shared.sequences.commit_with(&mut self.session, &changes, |session| commit(session, catalog));
        if committed.is_err() && self.session.state() != SessionState::Idle {
            self.session.rollback()?;
        }
        committed
    }

    /// A point in the open transaction to which a block with handlers goes back.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn body_savepoint(&mut self, environment: &SessionEnvironment) -> Result<BodyPoint> {
        let (changes, restarted) = (self.changes.clone(), environment.restarted.clone());
        Ok(BodyPoint { engine: self.session.savepoint()?, changes, restarted })
    }

    /// Rolls back to such a point.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn rollback_body_to(
        &mut self,
        environment: &mut SessionEnvironment,
        point: &BodyPoint,
    ) -> Result<()> {
        self.session.rollback_to(&point.engine)?;
        self.changes = point.changes.clone();
        environment.restarted = point.restarted.clone();
        let private = self.changes.catalog.clone();
        environment.catalog = private.unwrap_or_else(|| environment.shared.catalog());
        Ok(())
    }

    /// Forgets such a point.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn release_of_body(&mut self, point: &BodyPoint) -> Result<()> {
        Ok(self.session.release(&point.engine)?)
    }

    /// Returns true if a savepoint is open.
    pub(super) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// The index of the most recent savepoint of this name.
    fn savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|known| known.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }
}

impl Connection {
    /// Rejects a statement if the block has failed.
    pub(super) fn check_not_failed(&self) -> Result<()> {
        if self.transaction.failed {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    pub(crate) fn refuse_in_block(&self, what: &str) -> Result<()> {
        self.check_no_block(what)
    }

    /// Returns true if a transaction block is open, explicit or implicit.
    pub(crate) fn has_transaction(&self) -> bool {
        !self.transaction.is_idle()
    }

    /// Begins a transaction for a single statement.
    pub(crate) fn begin_alone(&mut self) -> Result<()> {
        self.transaction.begin(Block::Implicit)
    }

    /// Ends the transaction of a single statement: commits it if the statement succeeded, else rolls it back.
    pub(crate) fn end_alone<T>(&mut self, done: Result<T>) -> Result<T> {
        let done = done.and_then(|done| self.check_deferred().map(|()| done));
        self.environment.deferred.clear();
        let ended = match &done {
            Ok(_) => self.transaction.commit(&self.shared, &self.environment.restarted),
            Err(_) => self.transaction.rollback(&self.shared),
        };
        self.environment.restarted.clear();
        self.environment.catalog = self.shared.catalog();
        let done = done?;
        ended.map(|()| done)
    }

    /// Acquires the schema lock for the open transaction. `alone`: block other transactions, for at most this long.
    pub(crate) fn lock_schema(&mut self, alone: Option<Duration>) -> Result<()> {
        self.apply_lock_timeout()?;
        let session = &mut self.transaction.session;
        match alone {
            None => session.lock_schema(),
            Some(time) => session.lock_schema_alone(time),
        }?;
        self.environment.catalog = self.current_catalog();
        Ok(())
    }

    /// Sets the engine session's lock timeout by `lock_timeout` and `statement_timeout`, and its mode if it only reads.
    pub(super) fn apply_lock_timeout(&mut self) -> Result<()> {
        let settings = &self.environment.settings;
        if self.transaction.settings_version != settings.derived.version {
            let lock_timeout = settings.milliseconds("lock_timeout");
            let timeout = lock_timeout.into_iter().chain(settings.derived.statement_timeout).min();
            self.transaction.session.set_wait_timeout(timeout.map(Duration::from_millis))?;
            self.transaction.session.set_read_only(settings.derived.read_only);
            self.transaction.settings_version = settings.derived.version;
        }
        Ok(())
    }

    /// The open transaction's private catalog if it has one, else the current shared one.
    pub(crate) fn current_catalog(&self) -> Arc<Catalog> {
        self.transaction.changes.catalog.clone().unwrap_or_else(|| self.shared.catalog())
    }

    /// Installs a catalog as the open transaction's private one, under a new version number.
    pub(crate) fn publish_catalog(&mut self, mut catalog: Catalog) {
        (catalog.version, catalog.is_private) = (self.shared.new_version(), true);
        let catalog = Arc::new(catalog);
        self.environment.catalog = catalog.clone();
        self.transaction.changes.catalog = Some(catalog);
    }

    /// Makes the transaction's commit change a sequence; the transaction itself sees the change at once.
    pub(crate) fn change_sequence_at_commit(&mut self, change: SequenceChange) {
        match change {
            SequenceChange::Restart(oid, value) => self.environment.restarted.insert(oid, (value, false)),
            SequenceChange::Forget(oid) => self.environment.restarted.remove(&oid),
        };
        self.transaction.changes.sequences.push(change);
    }

    /// Rejects a statement that cannot run inside an explicit block.
    pub(super) fn check_no_block(&self, what: &str) -> Result<()> {
        if self.transaction.is_explicit() {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Opens the implicit block of a query string with several statements, unless the next one opens a block itself.
    pub(super) fn open_implicit_block(&mut self, next: &Statement) -> Result<()> {
        if self.transaction.is_idle() && next.runs_in_transactions() {
            self.transaction.begin_implicit()?;
        }
        Ok(())
    }

    /// Commits the implicit block, if there is one.
    pub(super) fn close_implicit_block(&mut self) -> Result<()> {
        if self.transaction.block == Block::Implicit {
            return self.commit_block();
        }
        self.end_temporary()
    }

    /// Empties or drops temporary tables as ON COMMIT says, once no transaction is open.
    fn end_temporary(&mut self) -> Result<()> {
        if self.environment.has_brief_tables && self.transaction.is_idle() {
            return self.end_temporary_rows();
        }
        Ok(())
    }

    /// Commits the open block.
    fn commit_block(&mut self) -> Result<()> {
        if let Err(error) = self.check_deferred() {
            // The violation is what the client has to know; an error of the rollback would add nothing to it.
            let _ = self.transaction.rollback(&self.shared);
            self.block_ended(false);
            return Err(error);
        }
        self.environment.order_notifications();
        let committed = self.transaction.commit(&self.shared, &self.environment.restarted);
        self.block_ended(committed.is_ok());
        committed?;
        self.end_temporary()
    }

    /// Handles the failure of a statement: an explicit block is marked as failed, an implicit one is rolled back.
    pub(super) fn fail_transaction(&mut self) {
        match self.transaction.block {
            Block::None => self.block_ended(false),
            Block::Implicit => {
                // The client gets the statement's own error; an error of the rollback would add nothing to it.
                let _ = self.transaction.rollback(&self.shared);
                self.block_ended(false);
            }
            Block::Explicit => self.transaction.failed = true,
        }
    }

    /// Releases whatever ends with a transaction: portals, cursors without HOLD, local settings, advisory locks.
    pub(super) fn block_ended(&mut self, committed: bool) {
        self.environment.catalog = self.current_catalog();
        if committed {
            self.pipeline.keep();
        }
        self.environment.transaction_ended(committed);
        self.environment.exports.clear();
        self.portals.clear();
        self.environment.cursors.retain(|_, cursor| cursor.survives(committed));
    }
}
