//! Calls of procedures: waited for, counted, or submitted.

use std::sync::Arc;

use super::Database;
use crate::error::{Error, Result};
use crate::pipeline::call::{Answer, Output, Routine, Submitted};
use crate::pipeline::input::Arrived;
use crate::pipeline::{caller_run, nesting};
use crate::procedure::Procedure;
use crate::types::Args;

impl Database {
    /// Calls a procedure through the pipeline, and waits for its result. If a worker is idle, this thread
    /// runs the call in its place.
    ///
    /// # Errors
    /// The call's own; [`Error::Nested`] inside a transaction.
    pub fn call(&self, procedure: &Procedure, args: impl Into<Args>) -> Result<Output> {
        self.call_counting(procedure, args.into()).0
    }

    /// Same as [`call`](Self::call); also returns the number of aborted attempts of the call.
    pub fn call_counting(&self, procedure: &Procedure, args: Args) -> (Result<Output>, u32) {
        if let Err(error) = nesting::check("a call").and_then(|()| self.shared.check_procedure(procedure)) {
            return (Err(error), 0);
        }
        self.call_again(procedure.routine(), args, false)
    }

    /// Makes a call, and makes it again where an executor could not wait for a sequence's values.
    pub(super) fn call_again(
        &self,
        routine: Arc<dyn Routine>,
        args: Args,
        is_callers: bool,
    ) -> (Result<Output>, u32) {
        let engine = self.engine();
        if engine.protocol().external_locks().is_none() {
            return self.call_routine(routine, args, is_callers);
        }
        let mut aborted = 0;
        loop {
            let (result, more) = self.call_routine(routine.clone(), args.clone(), is_callers);
            aborted += more;
            if !matches!(result, Err(Error::Conflict)) {
                return (result, aborted);
            }
            aborted += 1;
            engine.retry().pause(aborted);
        }
    }

    fn call_routine(&self, routine: Arc<dyn Routine>, args: Args, is_callers: bool) -> (Result<Output>, u32) {
        let engine = self.engine();
        engine.in_flight().enter();
        let answer = Answer::new();
        let arrived = Arrived { routine, args, answer: answer.clone() };
        match self.shared.input().execute_or_submit(engine, arrived, is_callers) {
            // The thread that releases the result counts the call as ended.
            Ok(None) => Submitted::new(answer).wait_counting(),
            Ok(Some((outcome, output))) => {
                let aborted = outcome.attempts.saturating_sub(1);
                let result = caller_run::release(engine, outcome, output);
                engine.in_flight().leave();
                (result, aborted)
            }
            Err(error) => {
                engine.in_flight().leave();
                (Err(error), 0)
            }
        }
    }

    /// Returns true if a footprint changes where a call runs, or what it locks before it runs: by the protocol, or by a
    /// schedule that chooses queues. If not, [`run`](Self::run) does the same as [`run_declared`](Self::run_declared),
    /// and costs less.
    pub fn uses_footprints(&self) -> bool {
        self.engine().protocol().uses_footprints() || self.shared.input().uses_footprints()
    }

    /// Same as [`call`](Self::call), for procedures whose bodies fail with an error of the application's own
    /// ([`Error::application`]), which is returned unchanged.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64)
    /// #     .column("stock", DataType::Int64).primary_key(["id"]))?;
    /// # #[derive(Clone, Debug, PartialEq, thiserror::Error)]
    /// # enum Shop {
    /// #     #[error("sold out")]
    /// #     SoldOut,
    /// #     #[error(transparent)]
    /// #     Database(#[from] heddledb::Error),
    /// # }
    /// let buy = Action::write(&items).key(|args, key| key.push(args.int(0)?)).body(|action| {
    ///     match action.get()?.map(|item| item.int("stock")).transpose()? {
    ///         None | Some(0) => Err(Error::application(Shop::SoldOut)),
    ///         Some(_) => action.add("stock", -1),
    ///     }
    /// });
    /// let buy = db.register(ProcedureDefinition::new("buy").parameter("id", DataType::Int64).phase([buy]))?;
    /// assert_eq!(db.try_call(&buy, args![7]).err(), Some(Shop::SoldOut));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The body's own; those of [`call`](Self::call).
    pub fn try_call<E: From<Error> + Clone + 'static>(
        &self,
        procedure: &Procedure,
        args: impl Into<Args>,
    ) -> Result<Output, E> {
        self.call(procedure, args).map_err(|error| match error.application_error::<E>() {
            Some(own) => own.clone(),
            None => E::from(error),
        })
    }

    /// Sends a call into the pipeline; waits only if too many calls are in flight.
    ///
    /// # Errors
    /// The arguments don't fit; [`Error::Nested`] inside a transaction.
    pub fn submit(&self, procedure: &Procedure, args: impl Into<Args>) -> Result<Submitted> {
        let args = args.into();
        nesting::check("a call")?;
        self.shared.check_procedure(procedure)?;
        self.engine().in_flight().enter();
        self.send(procedure, args, true)
    }

    /// Sends a call into the pipeline, if there is room.
    ///
    /// # Errors
    /// [`Error::Busy`]; those of [`submit`](Self::submit).
    pub fn try_submit(&self, procedure: &Procedure, args: impl Into<Args>) -> Result<Submitted> {
        let args = args.into();
        nesting::check("a call")?;
        self.shared.check_procedure(procedure)?;
        self.engine().in_flight().try_enter()?;
        self.send(procedure, args, false)
    }

    /// `waits`: whether the caller waits where the queue that the call is for is full.
    fn send(&self, procedure: &Procedure, args: Args, waits: bool) -> Result<Submitted> {
        let answer = Answer::new();
        let arrived = Arrived { routine: procedure.routine(), args, answer: answer.clone() };
        match self.shared.input().submit(arrived, waits) {
            Ok(()) => Ok(Submitted::new(answer)),
            Err(error) => {
                self.engine().in_flight().leave();
                Err(error)
            }
        }
    }
}
