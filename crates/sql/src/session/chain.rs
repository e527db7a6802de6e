//! The transactions of a body that ends them or changes the schema: COMMIT, ROLLBACK and schema changes in a procedure that CALL
//! runs outside of a block, and in DO.
//!
//! Such a body runs beside the engine's transactions, not inside of one: each of its statements is an access of the
//! session's open transaction, a schema change is a statement of the session, and COMMIT and ROLLBACK end the
//! transaction and begin the next. A body is first run as any other, inside of one attempt; when it reaches its first
//! such statement, the attempt is abandoned and the body is retried from its beginning, as a chain. From then on the
//! connection runs such a procedure as a chain at once. DO in a block of the client's runs so in the block's
//! transaction, which it cannot end.
//!
//! # Invariants
//! - A transaction is open whenever a statement of the body runs.
//! - Nothing is retried once a transaction of the body has been committed, nor in a block of the client's.
//! - Deferrable constraints are checked with each statement, unless a block of the client's waits for its end.
//! - While a body runs, the environment is lent to it, and the connection has a substitute, which has it back for each
//!   schema change.

use crate::access;
use crate::error::Result;
use crate::parse::syntax::{Do, Statement};
use crate::routine::call::{Inline, procedure};
use crate::routine::query::{Door, Execution};
use crate::run::Access;
use crate::session::SessionEnvironment;
use crate::session::connection::{ConnectOptions, Connection};
use crate::session::result::Collected;
use crate::session::run::Plan;
use crate::session::sequences::SHORTAGE;
use crate::session::transaction::Transaction;
use crate::types::{Environment, Value};

/// The limit of attempts for a chain that conflicts before it has committed anything.
const ATTEMPTS_MAX: u32 = 1_000;

impl Transaction {
    /// Runs a statement of the body as an access of the open transaction; only its last attempt counts.
    ///
    /// # Errors
    /// The statement's; a conflict, after which the transaction can only be rolled back.
    pub(crate) fn run_statement<T>(
        &mut self,
        environment: &mut SessionEnvironment,
        mut body: impl FnMut(Access<'_>, &mut SessionEnvironment) -> Result<T>,
    ) -> Result<T> {
        environment.pending.begin_statement();
        environment.deferred.begin_statement();
        environment.begin_attempts();
        loop {
            environment.shortage = None;
            let done = self.run_at_one_moment(|access| {
                environment.begin_attempt();
                body(access, environment)
            });
            match (done, environment.shortage.take()) {
                (Err(error), Some(sequence)) if error.state() == SHORTAGE => {
                    environment.check_interrupt()?;
                    environment.refill(sequence)?;
                }
                (done, _) => {
                    let done = done?;
                    environment.finish_sequences()?;
                    return Ok(done);
                }
            }
        }
    }

    /// COMMIT or ROLLBACK in the body: ends the open transaction, and begins the next one.
    ///
    /// # Errors
    /// Those of the commit.
    pub(crate) fn end_in_body(&mut self, environment: &mut SessionEnvironment, commits: bool) -> Result<()> {
        let shared = environment.shared.clone();
        let ended = if commits {
            environment.order_notifications();
            let catalog = environment.catalog.clone();
            let committed = match self.check_deferred(environment, &catalog) {
                Ok(()) => self.commit(&shared, &environment.restarted),
                // The violation is what the caller has to know; an error of the rollback would add nothing to it.
                Err(error) => self.rollback(&shared).and(Err(error)),
            };
            self.has_committed |= committed.is_ok();
            environment.transaction_ended(committed.is_ok());
            committed
        } else {
            let rolled_back = self.rollback(&shared);
            environment.transaction_ended(false);
            rolled_back
        };
        environment.catalog = shared.catalog();
        ended?;
        self.begin_implicit()
    }
}

impl Connection {
    /// CALL outside of a block.
    pub(super) fn call_procedure(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<u64> {
        let oid = plan.planned.called_procedure();
        if !self.environment.routines.is_chain(oid) {
            self.environment.routines.offer_chain(true);
            let done = self.run_attempts(&mut |connection| connection.attempt(plan, parameters, each));
            if !self.environment.routines.take_wish_for_chain(oid) {
                return done;
            }
        }
        let mut row = Vec::new();
        self.run_chain(&mut |environment, connection| {
            environment.routines.begin_chain();
            let mut execution = Execution { environment, door: Door::Chain(connection), may_write: true };
            let done = procedure(&mut execution, &plan.planned, parameters.into(), plan.fields.len());
            environment.routines.take_wish_for_chain(None);
            row = done?;
            Ok(())
        })?;
        if plan.returns {
            each(&row)?;
        }
        Ok(1)
    }

    /// DO: a body without a name, as a statement of its own.
    pub(super) fn do_block(&mut self, block: &Do) -> Result<()> {
        self.with_plan(&mut |connection, _| {
            let body = Inline::compile(&mut connection.environment, block)?;
            connection.run_inline(&body)
        })
    }

    fn run_inline(&mut self, body: &Inline) -> Result<()> {
        let is_alone = self.transaction.is_idle();
        self.environment.routines.offer_chain(is_alone);
        let done = self.run_attempts(&mut |connection| {
            let in_session =
                !connection.transaction.is_idle() || connection.shared.database.has_reservations();
            let environment = &mut connection.environment;
            let attempt = |access: Access<'_>| {
                environment.begin_attempt();
                environment.check_definitions()?;
                body.run(environment, Door::Attempt(access))?;
                environment.end_attempt(access).map(|()| 0)
            };
            match in_session {
                true => connection.transaction.run_at_one_moment(attempt),
                false => access::run(&connection.shared.database, attempt),
            }
        });
        if !self.environment.routines.take_wish_for_chain(None) {
            return done.map(|_| ());
        }
        let mut run = |environment: &mut SessionEnvironment, connection: &mut Connection| {
            environment.routines.offer_chain(is_alone);
            let done = body.run(environment, Door::Chain(connection));
            environment.routines.take_wish_for_chain(None);
            done
        };
        if is_alone {
            return self.run_chain(&mut run);
        }
        self.environment.notices.begin_attempt();
        self.lend_environment(&mut run)
    }

    /// Runs a body that has the connection's environment and the connection itself, each for its own.
    fn lend_environment(
        &mut self,
        body: &mut dyn FnMut(&mut SessionEnvironment, &mut Connection) -> Result<()>,
    ) -> Result<()> {
        let own = &self.environment;
        let options = ConnectOptions {
            user: own.user.clone(),
            is_superuser: own.is_bootstrap,
            database: own.database.clone(),
        };
        let session = (self.transaction.session.number(), self.transaction.canceler());
        let is_bootstrap = own.is_bootstrap;
        let mut lent = SessionEnvironment::new(self.shared.clone(), options, own.number, session)?;
        lent.is_bootstrap = is_bootstrap;
        std::mem::swap(&mut lent, &mut self.environment);
        let done = body(&mut lent, self);
        std::mem::swap(&mut lent, &mut self.environment);
        done
    }

    /// Runs a schema change of a body, which has the environment.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) fn change_schema_in_body(
        &mut self,
        environment: &mut SessionEnvironment,
        statement: &Statement,
        text: &str,
    ) -> Result<()> {
        std::mem::swap(environment, &mut self.environment);
        let done = self.statement(statement, text, &mut Collected::default());
        std::mem::swap(environment, &mut self.environment);
        done
    }

    /// Runs a body as a chain of transactions: again after a conflict, as long as none of them has been committed.
    fn run_chain(
        &mut self,
        body: &mut dyn FnMut(&mut SessionEnvironment, &mut Connection) -> Result<()>,
    ) -> Result<()> {
        self.apply_lock_timeout()?;
        let mut attempts = 1;
        loop {
            self.environment.notices.begin_attempt();
            self.transaction.begin_implicit()?;
            self.transaction.has_committed = false;
            let done = self.lend_environment(body);
            let has_committed = self.transaction.has_committed;
            let ended = match done {
                Ok(()) => self.close_implicit_block(),
                Err(error) => {
                    self.fail_transaction();
                    Err(error)
                }
            };
            match ended {
                Err(error) if error.is_retryable() && !has_committed && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    self.environment_check()?;
                }
                ended => {
                    return ended.map_err(|error| {
                        let error = self.hide_unreadable(error);
                        if has_committed { error.without_engine() } else { error }
                    });
                }
            }
        }
    }
}
