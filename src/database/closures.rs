//! Closures as transactions: run until they commit, and retried after conflicts.

use std::time::{Duration, Instant};

use super::Database;
use crate::error::{Error, OwnError, Result};
use crate::pipeline::execute::{Body, Outcome, execute_here, execute_in_own_slot};
use crate::pipeline::nesting;
use crate::procedure::Procedure;
use crate::procedure::one_body::OneBody;
use crate::protocol::attempt::Attempt;
use crate::transaction::Tx;
use crate::types::Args;

impl Database {
    /// Runs a closure as a transaction, on this thread. It is retried after a conflict with a concurrent
    /// change; it returns when everything that it wrote and read is durable.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let accounts = db.create_table(TableDefinition::new("account").column("id", DataType::Int64)
    /// #     .column("balance", DataType::Int64).primary_key(["id"]))?;
    /// db.run(|tx| tx.insert(&accounts, row![7, 100]))?;
    /// let balance = db.run(|tx| tx.get(&accounts, key![7])?.map(|row| row.int("balance")).transpose())?;
    /// assert_eq!(balance, Some(100));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's own; [`Error::Panicked`] if it panicked; [`Error::Nested`] inside another transaction;
    /// [`Error::NoFreeSlot`] if all worker contexts are kept by workers.
    pub fn run<T>(&self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        let mut closure = Closure { body, value: None };
        self.run_body(&mut closure, None).map_err(|error| *error)?;
        closure.into_value()
    }

    /// Same as [`run`](Self::run); sets `log_wait` to the time that it has waited for the log.
    pub(super) fn run_measuring<T>(
        &self,
        log_wait: &mut Duration,
        body: impl FnMut(&Tx<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let mut closure = Closure { body, value: None };
        self.run_body(&mut closure, Some(log_wait)).map_err(|error| *error)?;
        closure.into_value()
    }

    /// Same as [`run`](Self::run), for bodies with an error type of the application's own, which is returned unchanged.
    /// The engine's errors are converted to it by `From`, also inside of the body, by `?`.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64)
    /// #     .column("stock", DataType::Int64).primary_key(["id"]))?;
    /// #[derive(Debug, PartialEq, thiserror::Error)]
    /// enum Shop {
    ///     #[error("sold out")]
    ///     SoldOut,
    ///     #[error(transparent)]
    ///     Database(#[from] heddledb::Error),
    /// }
    ///
    /// # db.run(|tx| tx.insert(&items, row![7, 1]))?;
    /// let buy = || {
    ///     db.try_run(|tx| {
    ///         let Some(item) = tx.get(&items, 7)? else { return Err(Shop::SoldOut) };
    ///         if item.int("stock")? == 0 {
    ///             return Err(Shop::SoldOut); // leaves no trace
    ///         }
    ///         tx.add(&items, 7, "stock", -1)?;
    ///         Ok(())
    ///     })
    /// };
    /// assert_eq!(buy(), Ok(()));
    /// assert_eq!(buy(), Err(Shop::SoldOut));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's own; those of [`run`](Self::run).
    pub fn try_run<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&Tx<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut own = OwnError::none();
        let result = self.run(|tx| own.keep(body(tx)));
        own.or_kept(result)
    }

    /// Runs a body until it has ended and its result may be released; `log_wait` becomes how long it has waited for the log.
    ///
    /// # Errors
    /// That which it has ended in; [`Error::Nested`], [`Error::Closed`]: it has not run.
    fn run_body(&self, body: &mut dyn Body, log_wait: Option<&mut Duration>) -> Result<(), Box<Error>> {
        nesting::check("a transaction").and_then(|()| self.shared.check_open())?;
        let mut outcome = execute_in_own_slot(self.engine(), body, false);
        if outcome.stashed {
            outcome = self.run_again_when_joined(body);
        }
        let executed = log_wait.is_some().then(Instant::now);
        let released = self.release(outcome);
        if let (Some(log_wait), Some(executed)) = (log_wait, executed) {
            *log_wait = executed.elapsed();
        }
        released
    }

    /// Waits until an outcome may be told, and tells it.
    #[inline]
    fn release(&self, outcome: Outcome) -> Result<(), Box<Error>> {
        let engine = self.engine();
        if outcome.wrote {
            engine.notify_log();
        }
        engine.progress().wait(outcome.epoch)?;
        outcome.failure.map_or(Ok(()), Err)
    }

    /// Runs a body that is stashed, after the split phase.
    #[cold]
    fn run_again_when_joined(&self, body: &mut dyn Body) -> Outcome {
        let stash = self.engine().stash();
        let mut stashed = None;
        loop {
            // Its slot has gone back: it waits here with nothing in its hands.
            let since = stash.wait(stashed);
            let outcome = execute_here(self.engine(), body, false);
            stash.has_ended(since, outcome.stashed);
            if !outcome.stashed {
                return outcome;
            }
            stashed = Some(since);
        }
    }

    /// Runs a closure as a transaction within the footprint of a procedure: it is routed, scheduled and
    /// locked as a call with these arguments, and runs on the thread that such a call is routed to. The
    /// procedure's own bodies do not run; the closure may access all rows that any of its actions declares,
    /// in their modes.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).column("n", DataType::Int64)
    /// #     .primary_key(["id"]))?;
    /// # db.run(|tx| tx.insert(&items, row![7, 1]))?;
    /// let one = Action::write(&items).key(|args, key| key.push(args.int(0)?)).body(|_| Ok(()));
    /// let one = db.register(ProcedureDefinition::new("one item").parameter("id", DataType::Int64).phase([one]))?;
    /// let n = db.run_declared(&one, args![7], |tx| tx.get(&items, 7)?.map(|item| item.int("n")).transpose())?;
    /// assert_eq!(n, Some(1));
    /// assert!(db.run_declared(&one, args![7], |tx| tx.get(&items, 8).map(|_| ())).is_err()); // outside of the footprint
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's own; [`Error::OutsideFootprint`]; those of [`call`](Self::call).
    pub fn run_declared<T: Send>(
        &self,
        procedure: &Procedure,
        args: Args,
        mut body: impl FnMut(&Tx<'_, '_>) -> Result<T> + Send,
    ) -> Result<T> {
        nesting::check("a call").and_then(|()| self.shared.check_procedure(procedure))?;
        let mut value = None;
        let mut run = |tx: &Tx<'_, '_>| {
            value = None;
            value = Some(body(tx)?);
            Ok(())
        };
        let lent = OneBody::lend(procedure.shared().clone(), &mut run);
        let (result, _) = self.call_again(lent.routine(), args, true);
        drop(lent);
        result.and_then(|_| value.ok_or(Error::Closed))
    }
}

/// A closure, as a body.
struct Closure<F, T> {
    body: F,
    value: Option<T>,
}

impl<F, T> Closure<F, T> {
    /// The value that the closure has returned.
    #[inline]
    fn into_value(self) -> Result<T> {
        // A match: `ok_or` would make and drop an error each time.
        match self.value {
            Some(value) => Ok(value),
            None => Err(Error::Closed),
        }
    }
}

impl<T, F: FnMut(&Tx<'_, '_>) -> Result<T>> Body for Closure<F, T> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        self.value = Some((self.body)(&Tx::new(attempt))?);
        Ok(())
    }

    fn code(&self) -> usize {
        // Each closure has a type of its own, and so each has a function of its own here.
        <Self as Body>::run as *const () as usize
    }
}
