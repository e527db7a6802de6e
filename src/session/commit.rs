//! The commit of a session's transaction: new indexes are built beside others, then its reads are validated and its writes
//! installed as one transaction of the engine's.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::load::encode_loaded;
use super::schema::redefine_tables;
use super::statement::{Commit, Stop};
use super::waiting::{Stashed, block_on};
use super::{Running, Session, SessionState};
use crate::database::Shared;
use crate::error::{Error, Result, Timeout};
use crate::pipeline::execute::execute_here;
use crate::pipeline::nesting;
use crate::protocol::attempt::SessionAccess;
use crate::storage::dependency::DefinitionChange;
use crate::storage::index_build::Builds;

/// A commit whose durability is not known yet: see [`Session::commit_early`]. A future; [`wait`](Self::wait) blocks instead.
///
/// Dropping it changes nothing but that its caller never learns whether the transaction became durable.
#[must_use = "the transaction may not be acknowledged before it completes"]
pub struct PendingCommit {
    shared: Arc<Shared>,
    /// 0: nothing was written.
    epoch: u64,
}

impl PendingCommit {
    /// The epoch of the transaction's group; 0 if it has written nothing. Of two pending commits of one database, the one
    /// with the lower epoch completes first, or both at once.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Blocks until the commit is durable.
    ///
    /// # Errors
    /// [`Error::LogFailed`]: its durability is unknown.
    pub fn wait(self) -> Result<()> {
        block_on(self)
    }

    fn notify_log(&self) {
        if self.epoch > 0 {
            self.shared.engine().notify_log();
        }
    }
}

impl std::fmt::Debug for PendingCommit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PendingCommit").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Future for PendingCommit {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.shared.engine().progress().poll(self.epoch, context)
    }
}

impl Session {
    /// Commits the transaction, which has ended then, whatever is returned. The call returns when everything
    /// that the transaction wrote and read is durable.
    ///
    /// # Errors
    /// [`Error::Conflict`]: something that the transaction has read was changed; it was rolled back. The
    /// reason for which it was marked for abort. [`Error::LogFailed`]: its durability is unknown.
    /// [`Error::NoTransaction`].
    pub fn commit(&mut self) -> Result<()> {
        block_on(self.commit_async())
    }

    /// Same as [`commit`](Self::commit). If it succeeds, it also publishes the change at the same moment:
    /// other transactions see both or neither. A transaction that has written nothing publishes nothing.
    ///
    /// # Errors
    /// Same errors as [`commit`](Self::commit).
    pub fn commit_publishing(&mut self, change: Arc<dyn DefinitionChange>) -> Result<()> {
        block_on(self.commit_with(Some(change)))
    }

    /// Same as [`commit`](Self::commit), without blocking the thread for the log. If the future is dropped
    /// before it completes, the transaction has committed or can only be rolled back.
    ///
    /// # Errors
    /// Same errors as [`commit`](Self::commit).
    pub async fn commit_async(&mut self) -> Result<()> {
        self.commit_with(None).await
    }

    /// Same as [`commit`](Self::commit), but returns before the log has answered. The transaction has committed, and
    /// others see it, but its caller must not acknowledge it before the returned [`PendingCommit`] completes.
    ///
    /// # Errors
    /// Same errors as [`commit`](Self::commit), but for [`Error::LogFailed`], which the [`PendingCommit`] returns.
    pub fn commit_early(&mut self) -> Result<PendingCommit> {
        let epoch = block_on(self.commit_in_memory(None))?;
        let pending = PendingCommit { shared: self.shared.clone(), epoch };
        pending.notify_log();
        Ok(pending)
    }

    async fn commit_with(&mut self, definitions: Option<Arc<dyn DefinitionChange>>) -> Result<()> {
        let epoch = self.commit_in_memory(definitions).await?;
        self.wait_until_durable(epoch, epoch > 0).await
    }

    /// Commits without the wait for the log. The epoch that must be durable before it is acknowledged; 0: nothing was written.
    async fn commit_in_memory(&mut self, definitions: Option<Arc<dyn DefinitionChange>>) -> Result<u64> {
        nesting::check("the commit of a session")?;
        if self.state() == SessionState::Idle {
            return Err(Error::NoTransaction);
        }
        self.control.go_on_within(None, Timeout::Idle);
        let mut running = Running::new(&self.control, false);
        let committed = self.commit_to_end(definitions).await;
        running.is_done = true;
        if let Err(why) = &committed
            && why.is_retryable()
        {
            self.again = Some(self.transaction);
        }
        self.end();
        committed
    }

    /// Commits a transaction that has written nothing. Its reads from a snapshot are of that moment; else its reads
    /// were found to be of one state at its last access, and the definitions that it has used must be current now.
    fn commit_of_reader(&self) -> Result<u64> {
        let holds = |access: &SessionAccess| !self.is_current || access.is_of_current_definitions();
        if self.access.as_deref().is_none_or(holds) { Ok(0) } else { Err(Error::Conflict) }
    }

    /// Commits. The epoch that must be durable then; 0: nothing was written.
    async fn commit_to_end(&mut self, definitions: Option<Arc<dyn DefinitionChange>>) -> Result<u64> {
        if let Some(why) = self.control.aborted() {
            return Err(why);
        }
        self.shared.check_open()?;
        self.control.begin_commit()?;
        let changes =
            |access: &mut Box<SessionAccess>| !access.buffer.is_unwritten() || !access.schema.is_empty();
        let Some(access) = self.access.take_if(changes) else { return self.commit_of_reader() };
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
        let mut commit = Commit { access, stop: None, redefined, published: Vec::new(), loaded, definitions };
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
                    self.note_failure(row.as_ref());
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
}
