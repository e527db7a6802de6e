//! A database: opening, closing, and the three ways to run transactions in it.

mod backup;
pub(crate) mod catalog_rows;
mod checkpoint;
mod contention;
mod follower;
pub(crate) mod foreign_keys;
mod open;
mod partitions;
mod phases;
mod placing;
mod procedures;
pub(crate) mod schema;
mod tables;
mod transaction_builder;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::check::{CheckReport, check_snapshot};
use crate::diagnostics::access_trace::AccessTrace;
use crate::diagnostics::time_samples::{Sampler, TimeSamples};
use crate::durability::recovery::Recovery;
use crate::error::{Error, OwnError, Result};
use crate::options::{Durability, Options};
use crate::pipeline::call::{Answer, Output, Routine, Submitted};
use crate::pipeline::caller_run;
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, Outcome, execute_here, execute_in_own_slot};
use crate::pipeline::input::Arrived;
use crate::pipeline::nesting;
use crate::pipeline::statistics::{Stage, Statistics};
use crate::procedure::Procedure;
use crate::procedure::one_body::OneBody;
use crate::protocol::attempt::{Attempt, show_key};
use crate::schedule::ScheduleReport;
use crate::session::Session;
use crate::storage::table::TableCore;
use crate::transaction::Tx;
use crate::types::Args;
use crate::worker::Worker;

pub use contention::{HotRecord, SessionLock};
pub(crate) use open::Shared;
pub use partitions::Partition;
pub use phases::{PhaseReport, SplitOperation, SplitReport};
pub use placing::Placing;
pub use transaction_builder::{Cancellation, TransactionBuilder, TransactionReport};

/// A database. Handles are cheap to clone; when the last one is dropped, the database is closed.
///
/// There are four ways to run a transaction:
/// - [`run`](Self::run) runs a closure, on the caller's thread;
/// - [`call`](Self::call) and [`submit`](Self::submit) send a registered procedure through the pipeline;
/// - [`worker`](Self::worker) makes the caller's thread a worker that runs procedures itself;
/// - [`session`](Self::session) runs one access after the other, any time apart.
///
/// All of them are serializable with each other, and tell a result only when all that it wrote and read is durable.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

impl Database {
    pub(crate) fn of(shared: Arc<Shared>) -> Database {
        Database { shared }
    }

    /// Opens the database in a directory: creates it where there is none, recovers it where there is one.
    ///
    /// # Errors
    /// The directory is no database's, is in use, is of a newer version, is damaged, or cannot be read or written;
    /// an option is out of range; the system refuses a thread ([`Error::ThreadRefused`]).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        nesting::check("opening a database")?;
        Ok(Database { shared: Shared::open(Some(path.as_ref()), options)? })
    }

    /// Opens the database in a directory for reading only: nothing on disk is changed, and every write fails with
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Self::open(path, Options::default().read_only(true))
    }

    /// A database without files, which is gone with its last handle.
    ///
    /// ```
    /// let db = heddledb::Database::in_memory()?;
    /// assert_eq!(db.log_directory(), None);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system refuses a thread ([`Error::ThreadRefused`]).
    pub fn in_memory() -> Result<Database> {
        Self::in_memory_with(Options::default().durability(Durability::None))
    }

    /// A database without files, with options of its own: its durability must be `None`.
    ///
    /// # Errors
    /// An option is out of range; the system refuses a thread ([`Error::ThreadRefused`]).
    pub fn in_memory_with(options: Options) -> Result<Database> {
        Ok(Database { shared: Shared::open(None, options)? })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.shared.engine()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.shared.check_open()
    }

    /// Runs a closure as a transaction, on this thread. It is retried when it met a concurrent change; it returns
    /// when everything that it wrote and read is durable.
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

    /// As [`run`](Self::run); `log_wait` becomes how long it has waited for the log.
    fn run_measuring<T>(
        &self,
        log_wait: &mut Duration,
        body: impl FnMut(&Tx<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let mut closure = Closure { body, value: None };
        self.run_body(&mut closure, Some(log_wait)).map_err(|error| *error)?;
        closure.into_value()
    }

    /// As [`run`](Self::run), for bodies with an error type of the application's own, which arrives as it is. The engine's errors
    /// become one of it by `From`, also inside of the body, by `?`.
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

    /// Calls a procedure through the pipeline, and waits for its result. Where a worker is idle, this thread runs the call in
    /// its place.
    ///
    /// # Errors
    /// The call's own; [`Error::Nested`] inside a transaction.
    pub fn call(&self, procedure: &Procedure, args: impl Into<Args>) -> Result<Output> {
        self.call_counting(procedure, args.into()).0
    }

    /// As [`call`](Self::call), and says how many attempts of the call have aborted.
    pub fn call_counting(&self, procedure: &Procedure, args: Args) -> (Result<Output>, u32) {
        if let Err(error) = nesting::check("a call").and_then(|()| self.shared.check_procedure(procedure)) {
            return (Err(error), 0);
        }
        self.call_again(procedure.routine(), args, false)
    }

    /// Makes a call, and makes it again where an executor could not wait for a sequence's values.
    fn call_again(&self, routine: Arc<dyn Routine>, args: Args, is_callers: bool) -> (Result<Output>, u32) {
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

    /// Whether a footprint changes where a call runs, or what it locks before it runs: by the protocol, or by a schedule that
    /// chooses queues. If not, [`run`](Self::run) does the same as [`run_declared`](Self::run_declared), and costs less.
    pub fn uses_footprints(&self) -> bool {
        self.engine().protocol().uses_footprints() || self.shared.input().uses_footprints()
    }

    /// Runs a closure as a transaction within the footprint of a procedure: routed, scheduled and locked as a call of it with
    /// these arguments, on whichever thread that leads to. The procedure's own bodies do not run; the closure reaches what any
    /// of its actions declares, in their modes.
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

    /// As [`call`](Self::call), for procedures whose bodies fail with an error of the application's own
    /// ([`Error::application`]): it arrives as it is.
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

    /// Sends a call into the pipeline; waits only where too many are under way.
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
    /// [`Error::Busy`]; as [`submit`](Self::submit).
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

    /// A session: transactions whose accesses are calls of their own, any time apart and from any thread.
    ///
    /// # Errors
    /// [`Error::Nested`] inside a transaction; [`Error::Closed`].
    pub fn session(&self) -> Result<Session> {
        nesting::check("opening a session")?;
        self.shared.check_open()?;
        Ok(Session::new(self.shared.clone()))
    }

    /// How much memory is left for rows up to [`MemoryOptions::limit`](crate::MemoryOptions::limit), in bytes; none: there is no
    /// limit. What a transaction is going to insert is counted when it commits: a caller that gathers many rows asks before.
    pub fn memory_left(&self) -> Option<u64> {
        self.engine().store().slabs().budget().left()
    }

    /// Whether any session has reserved a row ([`Tx::get_for_update`]): then what writes outside of transactions should run
    /// in a session, too ([`Session::run`]), to queue behind it. It may be an answer of a moment ago.
    pub fn has_reservations(&self) -> bool {
        self.shared.sessions().has_reservations()
    }

    /// Makes this thread a worker that runs procedures itself.
    ///
    /// The worker keeps one of the database's worker contexts (`ThreadOptions::max_worker_contexts`) until it is dropped, also
    /// between transactions. [`run`](Self::run) on the same thread takes another one for as long as it lasts.
    ///
    /// # Errors
    /// [`Error::Nested`] inside a transaction; [`Error::Closed`]; [`Error::NoFreeSlot`] if all worker contexts are kept by
    /// workers.
    pub fn worker(&self) -> Result<Worker<'_>> {
        nesting::check("becoming a worker")?;
        self.shared.check_open()?;
        Worker::new(&self.shared)
    }

    /// The epoch through which everything is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.engine().progress().durable()
    }

    /// Why the log has failed, if it has: no commit is acknowledged any more until the database is opened again.
    pub fn log_failure(&self) -> Option<Error> {
        self.engine().progress().failure()
    }

    /// Where the log's segments are; none, for a database in memory, or one that is closed.
    pub fn log_directory(&self) -> Option<PathBuf> {
        self.shared.log_path()
    }

    /// What was found when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        self.shared.recovery()
    }

    /// The most calls in the pipeline at once, now: it changes with
    /// [`QueueOptions::automatic_admission`](crate::QueueOptions::automatic_admission).
    pub fn max_in_flight(&self) -> usize {
        self.engine().in_flight().limit()
    }

    /// What has been counted since the database was opened.
    pub fn statistics(&self) -> Statistics {
        let engine = self.engine();
        let clocks = engine.clocks();
        let relaxed =
            |counter: &crate::base::atomics::AtomicU64| counter.load(crate::base::atomics::Ordering::Relaxed);
        let versions = engine.store().versions().counts();
        let mut statistics = Statistics {
            snapshots_opened: engine.snapshots().opened(),
            snapshots_open: versions.snapshots,
            snapshots_failed: versions.failures,
            snapshot_versions: versions.versions,
            snapshot_bytes: versions.bytes,
            memory_bytes: engine.store().slabs().budget().used(),
            index_bytes: engine.store().index_bytes(),
            log_groups: relaxed(&clocks.groups),
            log_transactions: relaxed(&clocks.grouped),
            log_bytes: relaxed(&clocks.bytes),
            log_flushes: relaxed(&clocks.flushes),
            execute_batches: self.shared.input().batches(),
            stolen: self.shared.input().workers().stolen(),
            log_batches: (relaxed(&clocks.groups), relaxed(&clocks.grouped)),
            output_batches: engine.output().queue().map_or((0, 0), |queue| queue.batches()),
            input_busy: clocks.busy(Stage::Input),
            execute_busy: clocks.busy(Stage::Execute),
            log_busy: clocks.busy(Stage::Log),
            output_busy: clocks.busy(Stage::Output),
            checkpoint_busy: clocks.busy(Stage::Checkpoint),
            follower_busy: clocks.busy(Stage::Follower),
            time: engine.sampler().map_or_else(TimeSamples::default, Sampler::samples),
            ..Statistics::default()
        };
        for worker_context in engine.store().worker_contexts().all() {
            statistics.committed += relaxed(&worker_context.counters.committed);
            statistics.aborted_write += relaxed(&worker_context.counters.aborted_write);
            statistics.aborted_read += relaxed(&worker_context.counters.aborted_read);
            statistics.failed += relaxed(&worker_context.counters.failed);
            statistics.readers_waited += relaxed(&worker_context.counters.readers_waited);
            statistics.locks_row += relaxed(&worker_context.counters.locks_row);
            statistics.locks_higher += relaxed(&worker_context.counters.locks_higher);
            statistics.locks_local += relaxed(&worker_context.counters.locks_local);
            statistics.went_parallel += relaxed(&worker_context.counters.went_parallel);
            statistics.went_serial += relaxed(&worker_context.counters.went_serial);
        }
        statistics.aborted = statistics.aborted_write + statistics.aborted_read;
        statistics
    }

    /// Takes what was noted of accesses since the last time, and starts over; none, if nothing is noted
    /// ([`DiagnosticOptions::access_trace`](crate::DiagnosticOptions::access_trace)).
    pub fn take_access_trace(&self) -> Option<AccessTrace> {
        let store = self.engine().store();
        let describe = |table: &Arc<TableCore>| (table.id(), table.definition().name().to_string());
        Some(store.trace()?.take(&store.user_tables(), describe, |table, key| show_key(table, key)))
    }

    /// What the schedule knows, if it is one that learns (`predict`).
    pub fn schedule(&self) -> Option<ScheduleReport> {
        self.shared.input().schedule().report()
    }

    /// Checks the whole database: constraints, and indexes against tables, as of one moment: in a
    /// snapshot, beside all transactions.
    ///
    /// # Errors
    /// [`Error::Inconsistent`]: the first thing that is wrong, and where; [`Error::SnapshotTooOld`]; [`Error::Nested`]
    /// inside a transaction.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(&mut |_, _| ())
    }

    /// The same; `progress` receives from time to time how many rows and index entries were looked at, and of how many.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_with(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        nesting::check("a check")?;
        self.shared.check_open()?;
        check_snapshot(&*self.engine().snapshots().ask(self.engine())?, progress)
    }

    /// Waits until everything is durable, and closes the database, for all its handles.
    ///
    /// # Errors
    /// The log has failed: what was not durable is unknown.
    pub fn close(self) -> Result<()> {
        nesting::check("closing the database")?;
        self.shared.close()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<_> = self.engine().store().user_tables();
        let names: Vec<_> = tables.iter().map(|table| table.definition().name()).collect();
        formatter
            .debug_struct("Database")
            .field("log", &self.shared.log_path())
            .field("tables", &names)
            .finish()
    }
}

/// A closure, as a body.
struct Closure<F, T> {
    body: F,
    value: Option<T>,
}

impl<F, T> Closure<F, T> {
    /// What it has given back.
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
