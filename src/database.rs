//! A database: opening, closing, and the four ways to run transactions in it.

mod archive;
mod backup;
mod calls;
pub(crate) mod catalog_rows;
mod checkpoint;
mod choices;
mod closures;
mod contention;
mod follower;
pub(crate) mod foreign_keys;
mod log_writing;
mod open;
mod partitions;
mod phases;
mod placing;
mod procedures;
mod promotion;
mod protocol;
mod schedule;
pub(crate) mod schema;
mod standby;
mod tables;
mod transaction_builder;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::{CheckReport, check_snapshot};
use crate::diagnostics::access_trace::AccessTrace;
use crate::diagnostics::time_samples::{Sampler, TimeSamples};
use crate::durability::recovery::Recovery;
use crate::error::{Error, Result};
use crate::options::{Durability, Options};
use crate::pipeline::engine::Engine;
use crate::pipeline::nesting;
use crate::pipeline::statistics::{Stage, Statistics};
use crate::protocol::attempt::show_key;
use crate::session::Session;
use crate::storage::table::TableCore;
use crate::worker::Worker;

pub use archive::{ArchiveSource, ArchiveStatus, DirectoryRebuild};
pub use contention::{HotRecord, SessionLock};
pub(crate) use open::Shared;
pub use partitions::Partition;
pub use phases::{PhaseReport, SplitOperation, SplitReport};
pub use placing::Placing;
pub use standby::Fenced;
pub use transaction_builder::{Cancellation, TransactionBuilder, TransactionReport};

/// A database. Handles are cheap to clone; when the last one is dropped, the database is closed.
///
/// There are four ways to run a transaction:
/// - [`run`](Self::run) runs a closure, on the caller's thread;
/// - [`call`](Self::call) and [`submit`](Self::submit) send a registered procedure through the pipeline;
/// - [`worker`](Self::worker) makes the caller's thread a worker that runs procedures itself;
/// - [`session`](Self::session) runs a transaction whose accesses are separate calls, with any time between
///   them.
///
/// All of them are serializable with each other, and return a result only when all that it wrote and read is
/// durable.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

impl Database {
    pub(crate) fn of(shared: Arc<Shared>) -> Database {
        Database { shared }
    }

    /// Opens the database in a directory: creates it if there is none, recovers it if there is one.
    ///
    /// # Errors
    /// The directory is not a database's, is in use, is of a newer version, is damaged, or cannot be read or
    /// written; an option is out of range; the system refuses a thread ([`Error::ThreadRefused`]).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        nesting::check("opening a database")?;
        Ok(Database { shared: Shared::open(Some(path.as_ref()), options)? })
    }

    /// Opens the database in a directory for reading only: nothing on disk is changed, and every write fails with
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// Same errors as [`open`](Self::open).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Self::open(path, Options::default().read_only(true))
    }

    /// A database without files, which is gone when its last handle is dropped.
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

    /// A session: transactions whose accesses are separate calls, from any thread, with any time between
    /// them.
    ///
    /// # Errors
    /// [`Error::Nested`] inside a transaction; [`Error::Closed`].
    pub fn session(&self) -> Result<Session> {
        nesting::check("opening a session")?;
        self.shared.check_open()?;
        Ok(Session::new(self.shared.clone()))
    }

    /// Returns the memory left for rows up to [`MemoryOptions::limit`](crate::MemoryOptions::limit), in bytes; `None`
    /// if there is no limit. Rows that a transaction is going to insert are counted when it commits: a caller
    /// that gathers many rows should ask before it commits.
    pub fn memory_left(&self) -> Option<u64> {
        self.engine().store().slabs().budget().left()
    }

    /// Returns true if any session has reserved a row ([`Tx::get_for_update`](crate::Tx::get_for_update)): then writes
    /// outside of transactions should run in a session, too ([`Session::run`]), to queue behind it. The answer may be
    /// slightly outdated.
    pub fn has_reservations(&self) -> bool {
        self.shared.sessions().has_reservations()
    }

    /// Makes this thread a worker that runs procedures itself.
    ///
    /// The worker keeps one of the database's worker contexts (`ThreadOptions::max_worker_contexts`) until it
    /// is dropped, also between transactions. [`run`](Self::run) on the same thread acquires another one for
    /// its duration.
    ///
    /// # Errors
    /// [`Error::Nested`] inside a transaction; [`Error::Closed`]; [`Error::NoFreeSlot`] if all worker contexts are kept by
    /// workers.
    pub fn worker(&self) -> Result<Worker<'_>> {
        nesting::check("becoming a worker")?;
        self.shared.check_open()?;
        Worker::new(&self.shared)
    }

    /// The highest epoch through which everything is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.engine().progress().durable()
    }

    /// Returns the reason why the log has failed, if it has: no commit is acknowledged any more until the database is
    /// opened again.
    pub fn log_failure(&self) -> Option<Error> {
        self.engine().progress().failure()
    }

    /// Returns the directory of the log's segments; `None` for a database in memory, or one that is closed.
    pub fn log_directory(&self) -> Option<PathBuf> {
        self.shared.log_path()
    }

    /// Returns the result of the recovery when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        self.shared.recovery()
    }

    /// The most calls in the pipeline at once, now: it changes with
    /// [`QueueOptions::automatic_admission`](crate::QueueOptions::automatic_admission).
    pub fn max_in_flight(&self) -> usize {
        self.engine().in_flight().limit()
    }

    /// Returns the counts since the database was opened.
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
            statistics.lock_requests_local += relaxed(&worker_context.counters.lock_requests_local);
            statistics.went_parallel += relaxed(&worker_context.counters.went_parallel);
            statistics.went_serial += relaxed(&worker_context.counters.went_serial);
        }
        statistics.aborted = statistics.aborted_write + statistics.aborted_read;
        statistics
    }

    /// Takes the accesses that were recorded since the last call. `None` if none are recorded
    /// ([`DiagnosticOptions::access_trace`](crate::DiagnosticOptions::access_trace)).
    pub fn take_access_trace(&self) -> Option<AccessTrace> {
        let store = self.engine().store();
        let describe = |table: &Arc<TableCore>| (table.id(), table.definition().name().to_string());
        Some(store.whole_trace()?.take(&store.user_tables(), describe, |table, key| show_key(table, key)))
    }

    /// Starts or stops the recording of accesses, if
    /// [`DiagnosticOptions::access_trace`](crate::DiagnosticOptions::access_trace) is on: a program that
    /// looks at accesses only at times need not pay for them in between.
    pub fn trace_accesses(&self, is_on: bool) {
        if let Some(trace) = self.engine().store().whole_trace() {
            trace.switch(is_on);
        }
    }

    /// Returns the reason why no update is accepted now, if so: the log has failed, the disk or the memory for rows is
    /// full, or the database is only read.
    pub fn updates_refused(&self) -> Option<Error> {
        let engine = self.engine();
        let refused = engine
            .updates_refused()
            .or_else(|| engine.progress().failure())
            .or_else(|| engine.space().refused());
        refused.or_else(|| engine.store().slabs().budget().admit().err())
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

    /// Same as [`check`](Self::check); `progress` receives from time to time the number of rows and index entries
    /// checked, and the number in all.
    ///
    /// # Errors
    /// Same errors as [`check`](Self::check).
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
