//! Pipelines of the extended protocol: all that is executed up to a Sync is one transaction.
//!
//! A lone Execute is an autocommit statement, which the engine retries on its own. Several share the implicit block, a
//! transaction of the engine's session; after a serialization failure the server may execute them again, as long as the
//! client has received none of their answers.
//!
//! # Invariants
//! A pipeline can be replayed only while its implicit block is open or has just failed: not once anything is committed,
//! BEGIN has made the block the client's own, or a statement ran whose effects a rollback does not undo.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::error::{Result, SqlError};
use crate::parse::syntax::Statement;
use crate::session::connection::Connection;
use crate::session::prepared::{Portal, Portals, Prepared};

/// Prepared statements by their names. A copy shares them until one of the two is changed.
#[derive(Clone, Default)]
pub(crate) struct PreparedStatements {
    unnamed: Option<Arc<Prepared>>,
    named: Arc<HashMap<String, Arc<Prepared>>>,
}

impl PreparedStatements {
    pub fn get(&self, name: &str) -> Option<&Arc<Prepared>> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub fn insert(&mut self, name: &str, prepared: Arc<Prepared>) {
        if name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            Arc::make_mut(&mut self.named).insert(name.to_string(), prepared);
        }
    }

    /// The statements that have a name.
    pub fn named(&self) -> impl Iterator<Item = (&String, &Arc<Prepared>)> {
        self.named.iter()
    }

    /// Removes one; returns true if there was one of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        match name.is_empty() {
            true => self.unnamed.take().is_some(),
            false => self.named.contains_key(name) && Arc::make_mut(&mut self.named).remove(name).is_some(),
        }
    }

    pub fn clear(&mut self) {
        *self = PreparedStatements::default();
    }
}

/// The pipeline that a connection is in.
#[derive(Default)]
pub(crate) struct Pipeline {
    /// True if the next Execute shares a transaction with those that follow up to the Sync.
    is_shared: bool,
    /// The session's state when the implicit block was opened, as long as the pipeline can be replayed from there.
    start: Option<Start>,
}

/// The state beside the transaction that messages of a pipeline change.
struct Start {
    prepared: PreparedStatements,
    portals: Portals,
}

impl Pipeline {
    /// Makes the messages executed so far permanent: they cannot be undone any more.
    pub(super) fn keep(&mut self) {
        self.start = None;
    }
}

impl Connection {
    /// Begins a pipeline: the messages executed up to [`sync`](Self::sync) are one transaction. Without this, each
    /// [`execute`](Self::execute) outside of a block is a transaction of its own.
    pub fn begin_pipeline(&mut self) {
        self.pipeline.is_shared = true;
    }

    /// Returns true if neither a block of the client's nor a pipeline's transaction is open.
    pub fn is_idle(&self) -> bool {
        self.transaction.is_idle()
    }

    /// Returns true if [`rewind_pipeline`](Self::rewind_pipeline) can undo the messages executed so far.
    pub fn can_rewind_pipeline(&self) -> bool {
        self.pipeline.start.is_some()
    }

    /// Opens the implicit block for the first statement of a pipeline that runs in one.
    pub(super) fn enter_pipeline(&mut self, portal: &str) -> Result<()> {
        if !self.pipeline.is_shared {
            return Ok(());
        }
        let Some(statement) = self.portals.get(portal).and_then(Portal::statement) else { return Ok(()) };
        if !statement.can_be_replayed() {
            self.pipeline.keep();
        }
        if !self.transaction.is_idle() || !statement.runs_in_transactions() {
            return Ok(());
        }
        let start = statement
            .can_be_replayed()
            .then(|| Start { prepared: self.environment.prepared.clone(), portals: self.portals.clone() });
        self.transaction.begin_implicit()?;
        self.pipeline.start = start;
        Ok(())
    }

    /// Rolls the pipeline's transaction back, and returns to where it began: the same messages can be executed again.
    /// Otherwise, the answer is `false` and nothing has happened.
    pub fn rewind_pipeline(&mut self) -> bool {
        let Some(start) = self.pipeline.start.take() else { return false };
        self.fail_transaction();
        (self.environment.prepared, self.portals) = (start.prepared, start.portals);
        true
    }

    /// The end of a pipeline: its transaction commits, and portals end with it.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn sync(&mut self) -> Result<()> {
        self.unit_started = None;
        let closed = self.close_implicit_block();
        if self.transaction.is_idle() {
            self.portals.clear();
        }
        closed.map_err(|error| self.failed(error))?;
        self.pipeline = Pipeline::default();
        Ok(())
    }

    /// A message of the extended protocol begins: the time that its unit of messages may take runs from the first one on, waits for the
    /// client between them included, as in PostgreSQL.
    ///
    /// # Errors
    /// 57014: `statement_timeout` was exceeded.
    pub(super) fn begin_message(&mut self) -> Result<()> {
        let Some(timeout) = self.environment.settings.derived.statement_timeout else { return Ok(()) };
        let started = *self.unit_started.get_or_insert_with(Instant::now);
        if started.elapsed() < Duration::from_millis(timeout) {
            return Ok(());
        }
        Err(self.failed(SqlError::statement_timeout()))
    }

    /// A message of a pipeline has failed for good: so does its transaction.
    pub fn abort_pipeline(&mut self) {
        self.fail_transaction();
        self.pipeline = Pipeline::default();
    }
}

impl Statement {
    /// Returns true if a rollback undoes all that the statement does, and its input can be read again.
    fn can_be_replayed(&self) -> bool {
        self.runs_in_transactions() && !self.changes_schema() && !matches!(self, Statement::Copy(_))
    }
}
