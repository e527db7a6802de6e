//! The statements of transaction blocks: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION.

use heddledb::PendingCommit;

use super::{Block, Savepoint};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{SetScope, TransactionModes};
use crate::session::connection::Connection;
use crate::session::result::Severity;

impl Connection {
    pub(in crate::session) fn begin(&mut self, modes: TransactionModes) -> Result<()> {
        match self.transaction.block {
            Block::Explicit => {
                let message = "there is already a transaction in progress";
                self.environment.add_notice(Severity::Warning, SqlState::ACTIVE_SQL_TRANSACTION, message);
            }
            Block::Implicit => {
                self.transaction.block = Block::Explicit;
                self.pipeline.keep();
            }
            Block::None => self.transaction.begin(Block::Explicit)?,
        }
        self.set_modes(modes, false)?;
        Ok(())
    }

    /// Sets ISOLATION LEVEL, READ ONLY and DEFERRABLE, for this transaction or as the session's default.
    pub(in crate::session) fn set_modes(&mut self, modes: TransactionModes, session: bool) -> Result<()> {
        let prefix = if session { "default_transaction" } else { "transaction" };
        let scope = if session { SetScope::Session } else { SetScope::Local };
        let mut set = |name: &str, value: &str| {
            if !session {
                self.check_mode(&format!("{prefix}_{name}"), value)?;
            }
            let in_block = !self.transaction.is_idle();
            self.environment.settings.set(
                &format!("{prefix}_{name}"),
                Some(value),
                scope == SetScope::Local,
                in_block,
            )
        };
        if let Some(isolation) = modes.isolation {
            set("isolation", isolation.name())?;
        }
        let on = |value: bool| if value { "on" } else { "off" };
        if let Some(read_only) = modes.read_only {
            set("read_only", on(read_only))?;
        }
        if let Some(deferrable) = modes.deferrable {
            set("deferrable", on(deferrable))?;
        }
        Ok(())
    }

    /// Rejects a mode that a transaction cannot take on any more.
    ///
    /// # Errors
    /// 25001 in a subtransaction and after the first query; 0A000 on a standby.
    pub(in crate::session) fn check_mode(&self, name: &str, value: &str) -> Result<()> {
        let writes = name == "transaction_read_only" && value == "off";
        if writes && self.environment.settings.is_on("in_hot_standby") {
            return Err(SqlError::unsupported("cannot set transaction read-write mode during recovery"));
        }
        if self.transaction.is_idle() {
            return Ok(());
        }
        let is_nested = self.transaction.has_savepoints();
        let is_late = self.transaction.has_queried || self.transaction.session.has_snapshot();
        let message = match name {
            "transaction_read_only" if value == "on" || !self.environment.settings.is_on(name) => {
                return Ok(());
            }
            "transaction_read_only" if is_nested => {
                "cannot set transaction read-write mode inside a read-only transaction"
            }
            "transaction_read_only" if is_late => "transaction read-write mode must be set before any query",
            "transaction_deferrable" if is_nested => {
                "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
            }
            "transaction_deferrable" if is_late => {
                "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
            }
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    pub(in crate::session) fn commit(&mut self, chain: bool) -> Result<&'static str> {
        match self.transaction.block {
            _ if chain && !self.transaction.is_explicit() => {
                self.check_in_block("COMMIT AND CHAIN").map(|()| "")
            }
            Block::None => {
                self.warn_no_transaction();
                Ok("COMMIT")
            }
            _ if self.transaction.failed => self.rollback(chain),
            _ => {
                if !self.transaction.is_explicit() {
                    self.warn_no_transaction();
                }
                let modes = self.environment.settings.transaction_modes();
                self.commit_block()?;
                self.chain(chain, modes)?;
                Ok("COMMIT")
            }
        }
    }

    /// Commits the open transaction block as `COMMIT` does, but returns before the log has answered: others see the
    /// transaction, and the connection goes on, but the caller must not acknowledge it before the returned commit
    /// completes. `None`: there is nothing left to wait for. A transaction that changes definitions or notifies has
    /// waited already.
    ///
    /// # Errors
    /// Those of `COMMIT`, but for a failure of the log, which the returned commit reports.
    pub fn commit_early(&mut self) -> Result<Option<PendingCommit>> {
        self.transaction.commits_early = !self.environment.pending.notifies();
        let done = self.query("COMMIT");
        self.transaction.commits_early = false;
        let pending = self.transaction.pending_commit.take();
        done.map(|_| pending)
    }

    pub(in crate::session) fn rollback(&mut self, chain: bool) -> Result<&'static str> {
        if chain {
            self.check_in_block("ROLLBACK AND CHAIN")?;
        }
        if self.transaction.is_idle() {
            self.warn_no_transaction();
            return Ok("ROLLBACK");
        }
        if !self.transaction.is_explicit() {
            self.warn_no_transaction();
        }
        let modes = self.environment.settings.transaction_modes();
        let rolled_back = self.transaction.rollback(&self.shared);
        self.block_ended(false);
        rolled_back?;
        self.chain(chain, modes)?;
        Ok("ROLLBACK")
    }

    /// AND CHAIN: begins a transaction with the modes of the one that has ended.
    fn chain(&mut self, chain: bool, modes: [(&'static str, String); 3]) -> Result<()> {
        if !chain {
            return Ok(());
        }
        self.transaction.begin(Block::Explicit)?;
        for (name, value) in modes {
            self.environment.settings.set(name, Some(&value), true, true)?;
        }
        Ok(())
    }

    fn warn_no_transaction(&mut self) {
        let message = "there is no transaction in progress";
        self.environment.add_notice(Severity::Warning, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
    }

    fn check_in_block(&self, what: &str) -> Result<()> {
        if self.transaction.is_explicit() {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    pub(in crate::session) fn savepoint(&mut self, name: &str) -> Result<&'static str> {
        self.check_in_block("SAVEPOINT")?;
        let engine = self.transaction.session.savepoint()?;
        let changes = self.transaction.changes.clone();
        let restarted = self.environment.restarted.clone();
        let (name, deferral) = (name.to_string(), self.environment.deferred.mark());
        let settings_level = self.environment.settings.begin_level();
        let savepoint = Savepoint { name, engine, changes, restarted, deferral, settings_level };
        self.transaction.savepoints.push(savepoint);
        self.environment.pending.savepoint();
        Ok("SAVEPOINT")
    }

    pub(in crate::session) fn rollback_to(&mut self, name: &str) -> Result<&'static str> {
        self.check_in_block("ROLLBACK TO SAVEPOINT")?;
        let place = self.transaction.savepoint(name)?;
        let savepoint = &self.transaction.savepoints[place];
        self.transaction.session.rollback_to(&savepoint.engine)?;
        self.transaction.changes = savepoint.changes.clone();
        self.environment.restarted = savepoint.restarted.clone();
        self.environment.deferred.restore(&savepoint.deferral);
        self.environment.settings.end_level(savepoint.settings_level, false);
        self.environment.settings.begin_level();
        self.environment.catalog = self.current_catalog();
        self.transaction.savepoints.truncate(place + 1);
        self.environment.pending.rollback_to(place);
        self.transaction.failed = false;
        Ok("ROLLBACK")
    }

    pub(in crate::session) fn release(&mut self, name: &str) -> Result<&'static str> {
        self.check_in_block("RELEASE SAVEPOINT")?;
        let place = self.transaction.savepoint(name)?;
        let savepoint = &self.transaction.savepoints[place];
        self.transaction.session.release(&savepoint.engine)?;
        self.environment.settings.end_level(savepoint.settings_level, true);
        self.transaction.savepoints.truncate(place);
        self.environment.pending.release(place);
        Ok("RELEASE")
    }
}
