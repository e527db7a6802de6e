//! Options of a database: those that most users need, and groups for the rest.
//!
//! Each group is a type of its own. A protocol's or a schedule's options are given together with it, so that those of
//! another one cannot be given; the other groups are changed by closures. Invariant: an option that is out of range, or
//! that does not go together with another one, is refused by name before anything is read or written.

mod checkpoint_options;
mod choices;
mod diagnostic_options;
mod log_options;
mod memory_options;
mod protocol_options;
mod queue_options;
mod ranges;
mod schedule_options;
mod thread_options;

use std::fmt;
use std::sync::Arc;

use crate::base::disk::{Disk, RealDisk};
use crate::durability::watch::{RecoveryProgress, Watch};
use crate::error::Result;
use crate::pipeline::retry::Retry;

pub use self::checkpoint_options::CheckpointOptions;
pub use self::choices::{Durability, Stages};
pub use self::diagnostic_options::DiagnosticOptions;
pub use self::log_options::LogOptions;
pub use self::memory_options::MemoryOptions;
pub use self::protocol_options::{
    LockingOptions, PartitionedOptions, PhasedOptions, ProtocolOptions, SerialOptions,
};
pub use self::queue_options::QueueOptions;
use self::ranges::{invalid, within};
pub use self::schedule_options::{PredictOptions, ScheduleOptions};
pub use self::thread_options::ThreadOptions;

/// The options with which a database is opened: every option has a default that fits the machine. Seven matter to most
/// programs, and come first; the others are for experiments.
///
/// ```
/// use heddledb::{Database, Durability, Options};
/// let options =
///     Options::default().durability(Durability::None).memory(|memory| memory.limit(1 << 30));
/// let db = Database::in_memory_with(options)?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) protocol: ProtocolOptions,
    pub(crate) durability: Durability,
    pub(crate) workers: Option<usize>,
    pub(crate) read_only: bool,
    pub(crate) log: LogOptions,
    pub(crate) checkpoints: CheckpointOptions,
    pub(crate) memory: MemoryOptions,
    pub(crate) threads: ThreadOptions,
    pub(crate) queues: QueueOptions,
    pub(crate) schedule: ScheduleOptions,
    pub(crate) given: Given,
    pub(crate) retry: Retry,
    pub(crate) diagnostics: DiagnosticOptions,
    pub(crate) recovery_watch: Watch,
    pub(crate) disk: Arc<dyn Disk>,
    /// The log in memory of a database without a directory.
    #[cfg(test)]
    pub(crate) memory_log: Option<crate::durability::memory_log::MemoryLog>,
}

/// The options that come before saved settings, because they were given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    pub(crate) protocol: bool,
    pub(crate) schedule: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: ProtocolOptions::default(),
            durability: Durability::default(),
            workers: None,
            read_only: false,
            memory: MemoryOptions::default(),
            log: LogOptions::default(),
            checkpoints: CheckpointOptions::default(),
            schedule: ScheduleOptions::default(),
            given: Given::default(),
            threads: ThreadOptions::default(),
            queues: QueueOptions::default(),
            retry: Retry::default(),
            diagnostics: DiagnosticOptions::default(),
            recovery_watch: Watch::default(),
            disk: Arc::new(RealDisk),
            #[cfg(test)]
            memory_log: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("protocol", &self.protocol)
            .field("durability", &self.durability)
            .field("workers", &self.workers)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

/// The options that matter to most programs.
impl Options {
    /// Chooses the time at which results are released.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Limits the memory of rows and their versions.
    #[must_use]
    pub fn memory(mut self, change: impl FnOnce(MemoryOptions) -> MemoryOptions) -> Self {
        self.memory = change(self.memory);
        self
    }

    /// Only reads: nothing on disk is changed, every update is refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The number of threads that execute calls from the queue. Default: as many as the protocol can use of the
    /// processors found (`serial`: one for each partition). Under `partitioned` these threads are the executors: see
    /// [`PartitionedOptions::executors`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the size of the log's groups, and the log's directory: `.log(|log| log.group_milliseconds(2.0))`.
    #[must_use]
    pub fn log(mut self, change: impl FnOnce(LogOptions) -> LogOptions) -> Self {
        self.log = change(self.log);
        self
    }

    /// Sets the time, pace and directories of checkpoints: `.checkpoints(|checkpoints| checkpoints.threads(2))`.
    #[must_use]
    pub fn checkpoints(mut self, change: impl FnOnce(CheckpointOptions) -> CheckpointOptions) -> Self {
        self.checkpoints = change(self.checkpoints);
        self
    }

    /// Reports the progress of recovery while a database is opened: called by the threads that recover, after
    /// every few hundred kilobytes. The callback must not open, close or use databases.
    #[must_use]
    pub fn recovery_progress(mut self, report: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        self.recovery_watch = Watch::new(report);
        self
    }
}

/// Options for experiments: the defaults choose by themselves, or fit the machine.
impl Options {
    /// Fixes the concurrency control, which `Auto` otherwise chooses for single columns and rows: a [`ProtocolKind`](crate::ProtocolKind), or a protocol's options
    /// ([`SerialOptions`], [`LockingOptions`], [`PhasedOptions`], [`PartitionedOptions`]). Default: `Auto`, or what SQL's ALTER SYSTEM
    /// has saved.
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<ProtocolOptions>) -> Self {
        self.protocol = protocol.into();
        self.given.protocol = true;
        self
    }

    /// Same as [`protocol`](Self::protocol), unless SQL's ALTER SYSTEM has saved another one.
    #[must_use]
    pub fn protocol_unless_saved(mut self, protocol: impl Into<ProtocolOptions>) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// Chooses the schedule, which places calls in workers' queues: a [`ScheduleKind`](crate::ScheduleKind),
    /// [`PredictOptions`], or [`ScheduleOptions::partition_by`] a column. Default: `Random`, or what SQL's ALTER SYSTEM has saved.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Into<ScheduleOptions>) -> Self {
        self.schedule = schedule.into();
        self.given.schedule = true;
        self
    }

    /// Same as [`schedule`](Self::schedule), unless SQL's ALTER SYSTEM has saved another one.
    #[must_use]
    pub fn schedule_unless_saved(mut self, schedule: impl Into<ScheduleOptions>) -> Self {
        self.schedule = schedule.into();
        self
    }

    /// Assigns the stages to threads, and limits the threads inside the engine.
    #[must_use]
    pub fn threads(mut self, change: impl FnOnce(ThreadOptions) -> ThreadOptions) -> Self {
        self.threads = change(self.threads);
        self
    }

    /// The queues through which calls reach workers: admission, bounds and work stealing.
    #[must_use]
    pub fn queues(mut self, change: impl FnOnce(QueueOptions) -> QueueOptions) -> Self {
        self.queues = change(self.queues);
        self
    }

    /// Chooses the pause of a call that has met a conflicting change, before it is retried. Default: `Backoff`.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Switches on observations of the engine about itself.
    #[must_use]
    pub fn diagnostics(mut self, change: impl FnOnce(DiagnosticOptions) -> DiagnosticOptions) -> Self {
        self.diagnostics = change(self.diagnostics);
        self
    }
}

impl Options {
    /// The disk that the files are on: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// # Errors
    /// The stages are `Single`, and there is more than one worker, or none.
    fn validate_stages(&self) -> Result<()> {
        if self.threads.stages != Some(Stages::Single) {
            return Ok(());
        }
        let protocol = self.protocol.kind;
        if protocol.has_executors() {
            let expected = "folded or staged; or a protocol whose calls workers run";
            return Err(invalid("threads.stages", &format!("single under {protocol}"), expected));
        }
        match self.workers {
            None | Some(1) => Ok(()),
            Some(workers) => {
                let given = format!("single with {workers} workers");
                Err(invalid("threads.stages", &given, "one worker; or folded or staged"))
            }
        }
    }

    /// # Errors
    /// The first option that is out of range.
    pub(crate) fn validate(&self) -> Result<()> {
        within("workers", self.workers.unwrap_or(1) as u64, 1, 1_024)?;
        self.protocol.validate()?;
        let executors = self.protocol.partitioned.executors.filter(|_| self.protocol.kind.has_executors());
        self.threads.validate(executors.or(self.workers).unwrap_or(1) as u64)?;
        self.log.validate()?;
        self.checkpoints.validate()?;
        self.queues.validate()?;
        self.diagnostics.validate()?;
        self.schedule.validate(self.protocol.kind)?;
        self.validate_stages()
    }
}
