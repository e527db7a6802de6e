//! How a database is opened.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::disk::{Disk, RealDisk};
use crate::durability::watch::{RecoveryProgress, Watch};
use crate::error::{Error, Result};
use crate::pipeline::partition::plan::Plan;
use crate::pipeline::retry::Retry;
use crate::protocol::{LockConflict, ProtocolKind, SerialVariant};
use crate::schedule::{Policy, PredictSettings, ScheduleKind, StatePrune};

/// How long a group may grow where no caller waits for it, unless a time is given.
const DEFAULT_GROUP_MILLISECONDS: f64 = 10.0;

/// When a result is released, relative to its durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is logged: the data lives as long as the process.
    None,
    /// Results are released at once; the log follows by at most the group's time. A crash may lose the last of them, and
    /// never leaves one half done. Once the log has failed, only results of durable data are released.
    Async,
    /// Results are released when all that they wrote and read is durable (group commit).
    #[default]
    Group,
}

/// How the stages of the pipeline are laid out over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// Input on the caller's thread, execution on workers, log and output on one thread: for few processors.
    #[default]
    Folded,
    /// Input, execution, log and output on threads of their own.
    Staged,
    /// Input on threads of its own; execution, log and output on the one worker's: for one processor. What does not come
    /// through the worker (closures, `Async`, a full disk) is logged by the log's own thread, which sleeps otherwise.
    Single,
}

macro_rules! named {
    ($type:ty, $option:literal, $($variant:path => $name:literal),+) => {
        impl $type {
            /// Every choice.
            pub const ALL: &'static [$type] = &[$($variant),+];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<$type> {
                Self::ALL.iter().copied().find(|choice| choice.name() == text).ok_or_else(|| Error::InvalidOption {
                    option: $option,
                    given: text.to_string(),
                    expected: [$($name),+].join(", "),
                })
            }
        }
    };
}

named!(Durability, "durability", Durability::None => "none", Durability::Async => "async", Durability::Group => "group");
named!(Retry, "retry", Retry::Backoff => "backoff", Retry::Immediate => "immediate");
named!(LockConflict, "lock-conflict", LockConflict::Wait => "wait", LockConflict::NoWait => "no-wait");
named!(ScheduleKind, "schedule", ScheduleKind::Random => "random", ScheduleKind::Partition => "partition", ScheduleKind::Predict => "predict");
named!(StatePrune, "state-prune", StatePrune::Stable => "stable", StatePrune::Direct => "direct", StatePrune::Off => "off");
named!(Stages, "stages", Stages::Folded => "folded", Stages::Staged => "staged", Stages::Single => "single");

/// How a database is opened: every choice has a default that fits the machine.
///
/// ```
/// use heddledb::{Database, Durability, Options};
/// let options = Options::default().durability(Durability::None).workers(2);
/// let db = Database::in_memory(options)?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) protocol: ProtocolKind,
    pub(crate) durability: Durability,
    pub(crate) workers: Option<usize>,
    pub(crate) executors: Option<usize>,
    pub(crate) stages: Option<Stages>,
    pub(crate) input_threads: usize,
    pub(crate) output_threads: usize,
    pub(crate) group_size: Option<usize>,
    pub(crate) group_milliseconds: Option<f64>,
    pub(crate) max_in_flight: usize,
    pub(crate) automatic_admission: bool,
    pub(crate) schedule: ScheduleKind,
    pub(crate) policy: Policy,
    pub(crate) partition_key: Option<String>,
    pub(crate) history_seconds: f64,
    pub(crate) history_renewal_seconds: f64,
    pub(crate) state_prune: StatePrune,
    pub(crate) schedule_memory_bytes: usize,
    pub(crate) work_stealing: Option<bool>,
    pub(crate) queue_calls: usize,
    pub(crate) max_worker_contexts: usize,
    pub(crate) threads_max: usize,
    pub(crate) serial_partitions: usize,
    pub(crate) serial_variant: SerialVariant,
    pub(crate) retry: Retry,
    pub(crate) lock_conflict: LockConflict,
    pub(crate) phase_milliseconds: f64,
    pub(crate) repartitioning: bool,
    pub(crate) plan: Plan,
    pub(crate) waiter_slots: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) log_buffer_bytes: usize,
    pub(crate) checkpoint_log_bytes: u64,
    pub(crate) checkpoint_seconds: f64,
    pub(crate) checkpoint_spread: f64,
    pub(crate) checkpoint_bytes_per_second: u64,
    pub(crate) checkpoint_threads: Option<usize>,
    pub(crate) checkpoint_directories: Vec<PathBuf>,
    pub(crate) follower_socket: Option<PathBuf>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) snapshot_limit: u64,
    pub(crate) log_directory: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) time_samples: usize,
    pub(crate) access_trace: bool,
    pub(crate) recovery_watch: Watch,
    pub(crate) disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: ProtocolKind::default(),
            durability: Durability::default(),
            workers: None,
            executors: None,
            stages: None,
            input_threads: 1,
            output_threads: 1,
            group_size: None,
            group_milliseconds: None,
            max_in_flight: 4_096,
            automatic_admission: false,
            schedule: ScheduleKind::default(),
            policy: Policy::default(),
            partition_key: None,
            history_seconds: 5.0,
            history_renewal_seconds: 30.0,
            state_prune: StatePrune::default(),
            schedule_memory_bytes: 32 << 20,
            work_stealing: None,
            queue_calls: 256,
            max_worker_contexts: 256,
            threads_max: usize::MAX,
            serial_partitions: 1,
            serial_variant: SerialVariant::default(),
            retry: Retry::default(),
            lock_conflict: LockConflict::default(),
            phase_milliseconds: 20.0,
            repartitioning: true,
            plan: Plan::default(),
            waiter_slots: 64,
            segment_bytes: 64 << 20,
            log_buffer_bytes: 16 << 20,
            checkpoint_log_bytes: 256 << 20,
            checkpoint_seconds: 0.0,
            checkpoint_spread: 0.8,
            checkpoint_bytes_per_second: 0,
            checkpoint_threads: None,
            checkpoint_directories: Vec::new(),
            follower_socket: None,
            memory_limit: None,
            snapshot_limit: 1 << 30,
            log_directory: None,
            read_only: false,
            time_samples: 0,
            access_trace: false,
            recovery_watch: Watch::default(),
            disk: Arc::new(RealDisk),
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
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// How calls are isolated.
    #[must_use]
    pub fn protocol(mut self, protocol: ProtocolKind) -> Self {
        self.protocol = protocol;
        self
    }

    /// When results are released.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many threads execute calls that come through the queue. Default: as many as the protocol can use of the
    /// processors found (`serial`: one for each partition). Under `partitioned` these threads are the executors: see
    /// [`executors`](Self::executors).
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How many executors own the data, under `partitioned`. Default: as many as `workers`, but no more than
    /// processors, since callers' workers, of which there may be many, run no actions themselves; with
    /// [`repartitioning`](Self::repartitioning), only as many of them have a range as rows and load call for.
    #[must_use]
    pub fn executors(mut self, executors: usize) -> Self {
        self.executors = Some(executors);
        self
    }

    /// How the stages are laid out. Default: `Folded` on fewer than four processors, else `Staged`.
    #[must_use]
    pub fn stages(mut self, stages: Stages) -> Self {
        self.stages = Some(stages);
        self
    }

    /// How many threads prepare input, where the stages are `Staged`. Default: 1.
    #[must_use]
    pub fn input_threads(mut self, threads: usize) -> Self {
        self.input_threads = threads;
        self
    }

    /// How many threads deliver output, where the stages are `Staged`. Default: 1.
    #[must_use]
    pub fn output_threads(mut self, threads: usize) -> Self {
        self.output_threads = threads;
        self
    }

    /// The most transactions in one group. Default: no bound but the log buffer's.
    #[must_use]
    pub fn group_size(mut self, transactions: usize) -> Self {
        self.group_size = Some(transactions);
        self
    }

    /// The longest time, in milliseconds, from a group's first record until it is written; together with
    /// [`group_size`](Self::group_size) TPK's two limits of a group, whichever comes first. A larger group costs fewer
    /// writes, and each of its transactions waits longer. Default: 10 where no caller waits for the log (`Async`); else
    /// none: a group is written as soon as the log is idle.
    #[must_use]
    pub fn group_milliseconds(mut self, milliseconds: f64) -> Self {
        self.group_milliseconds = Some(milliseconds);
        self
    }

    /// How many calls may be under way through the queue. Default: 4,096.
    #[must_use]
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls;
        self
    }

    /// Whether the engine itself finds out how many calls under way give the most throughput, up to
    /// [`max_in_flight`](Self::max_in_flight). Default: no.
    #[must_use]
    pub fn automatic_admission(mut self, automatic: bool) -> Self {
        self.automatic_admission = automatic;
        self
    }

    /// Which worker's queue a call goes to. Default: `Random`.
    #[must_use]
    pub fn schedule(mut self, schedule: ScheduleKind) -> Self {
        self.schedule = schedule;
        self
    }

    /// How `ScheduleKind::Predict` weighs what it knows. Default: `count-max-canonical-single`.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The column by whose value `ScheduleKind::Partition` places calls: its name, or `table.column`. Columns that
    /// reference it count as it does. Calls that do not tell its value go to one queue after the other.
    #[must_use]
    pub fn partition_key(mut self, column: impl Into<String>) -> Self {
        self.partition_key = Some(column.into());
        self
    }

    /// For how many seconds, from the first call on, `ScheduleKind::Predict` places calls at random, to see what
    /// conflicts. Default: 5.
    #[must_use]
    pub fn history_seconds(mut self, seconds: f64) -> Self {
        self.history_seconds = seconds;
        self
    }

    /// For how many seconds, at least, `ScheduleKind::Predict` uses what it has learned, before that is replaced by what
    /// it has learned meanwhile. Default: 30.
    #[must_use]
    pub fn history_renewal_seconds(mut self, seconds: f64) -> Self {
        self.history_renewal_seconds = seconds;
        self
    }

    /// When `ScheduleKind::Predict` forgets in which queues a reference was placed. Default: `Stable`.
    #[must_use]
    pub fn state_prune(mut self, prune: StatePrune) -> Self {
        self.state_prune = prune;
        self
    }

    /// The memory that `ScheduleKind::Predict` takes, in bytes, whatever comes. Default: 32 MiB.
    #[must_use]
    pub fn schedule_memory_bytes(mut self, bytes: usize) -> Self {
        self.schedule_memory_bytes = bytes;
        self
    }

    /// Whether an idle worker takes calls from the others' queues, which are bounded then. Default: where the schedule is
    /// not `Random`.
    #[must_use]
    pub fn work_stealing(mut self, stealing: bool) -> Self {
        self.work_stealing = Some(stealing);
        self
    }

    /// The most calls that wait in a worker's queue, where workers steal; a caller with one more waits. Default: 256.
    #[must_use]
    pub fn queue_calls(mut self, calls: usize) -> Self {
        self.queue_calls = calls;
        self
    }

    /// How many worker contexts there are: how many threads may be inside the engine at once. Each of the database's own
    /// workers, or executors, keeps one, and so does each [`Worker`](crate::Worker) until it is dropped;
    /// [`Database::run`](crate::Database::run) has one while its transaction executes. A transaction waits for one
    /// that another transaction has; if all are kept by workers, it fails ([`Error::NoFreeSlot`]). Must leave at least one
    /// to callers. Default: 256.
    #[must_use]
    pub fn max_worker_contexts(mut self, worker_contexts: usize) -> Self {
        self.max_worker_contexts = worker_contexts;
        self
    }

    /// How many serial partitions the data is divided into, by the first column of the primary key. Default: 1.
    #[must_use]
    pub fn serial_partitions(mut self, partitions: usize) -> Self {
        self.serial_partitions = partitions;
        self
    }

    /// Which way of serial execution.
    #[must_use]
    pub fn serial_variant(mut self, variant: SerialVariant) -> Self {
        self.serial_variant = variant;
        self
    }

    /// What a call does that has met a rival's change, before it is retried. Default: `Backoff`.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What a call does that meets another call's lock, under `locking`. Default: `Wait`.
    #[must_use]
    pub fn lock_conflict(mut self, lock_conflict: LockConflict) -> Self {
        self.lock_conflict = lock_conflict;
        self
    }

    /// How long a split phase lasts at most under `phased`, in milliseconds: about this long a reader of a split record
    /// waits. Default: 20.
    #[must_use]
    pub fn phase_milliseconds(mut self, milliseconds: f64) -> Self {
        self.phase_milliseconds = milliseconds;
        self
    }

    /// Whether ranges move between executors until the load is even (without load, the rows), under `partitioned`.
    /// Default: yes.
    #[must_use]
    pub fn repartitioning(mut self, automatic: bool) -> Self {
        self.repartitioning = automatic;
        self
    }

    /// How the actions of transactions over several executors run, under `partitioned`. Default: `Auto`.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// How many waiter slots the ring for durable epochs has. Default: 64.
    #[must_use]
    pub fn waiter_slots(mut self, places: usize) -> Self {
        self.waiter_slots = places;
        self
    }

    /// The size of a log segment, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The most bytes of redo that may wait to become durable, in bytes. Default: 16 MiB.
    #[must_use]
    pub fn log_buffer_bytes(mut self, bytes: usize) -> Self {
        self.log_buffer_bytes = bytes;
        self
    }

    /// A checkpoint is made when the log has grown by this many bytes since the last one began; 0: never for that reason.
    /// Default: 256 MiB.
    #[must_use]
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_log_bytes = bytes;
        self
    }

    /// A checkpoint is made when the last one began this many seconds ago, if there is anything in the log since; 0: never
    /// for that reason. Default: 0.
    #[must_use]
    pub fn checkpoint_seconds(mut self, seconds: f64) -> Self {
        self.checkpoint_seconds = seconds;
        self
    }

    /// A checkpoint that is made for either reason is spread over this share of the way to the next one, so that it
    /// takes little from the workers at any moment; it does not wait where nothing commits, or where a thread waits for
    /// [`Database::checkpoint`](crate::Database::checkpoint). The log may grow by so much more than `checkpoint_log_bytes`
    /// before the checkpoint is whole. 0: a checkpoint is made as fast as it can be. Default: 0.8.
    #[must_use]
    pub fn checkpoint_spread(mut self, share: f64) -> Self {
        self.checkpoint_spread = share;
        self
    }

    /// The most bytes that a checkpoint of the database's own writes in a second; 0: no limit. A follower writes as
    /// fast as it can. Default: 0.
    #[must_use]
    pub fn checkpoint_bytes_per_second(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes_per_second = bytes;
        self
    }

    /// How many threads write a checkpoint. Default: 1 on fewer than four processors, else 2; but at least one for each
    /// [`checkpoint_directory`](Self::checkpoint_directory), so that all of them are written at once.
    #[must_use]
    pub fn checkpoint_threads(mut self, threads: usize) -> Self {
        self.checkpoint_threads = Some(threads);
        self
    }

    /// Stripes checkpoints over these directories; called again, over one more. They are noted in the checkpoint as they
    /// are given here: give absolute paths, unless the working directory is always the same. What lies there belongs to one
    /// directory of a database, which a mark beside it names: a copy of that which was not made by a backup names the
    /// same parts, and is refused ([`Error::ForeignCheckpoints`](crate::Error::ForeignCheckpoints)), unless the other
    /// one is gone. Default: the database's own directory.
    #[must_use]
    pub fn checkpoint_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.checkpoint_directories.push(path.into());
        self
    }

    /// Waits for a follower at this socket: another process ([`Database::follow`](crate::Database::follow), or
    /// `heddle follow`) which keeps a copy of all data from the log that it is sent, and writes checkpoints in the
    /// database's place. Without one, and whenever it fails, the database writes them itself. The socket is made when
    /// the database is opened, for its owner only, and removed when it is closed. Without a log it does not listen.
    /// Default: none is waited for.
    #[must_use]
    pub fn follower_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.follower_socket = Some(path.into());
        self
    }

    /// How many bytes rows may take: records, and their values of more than 7 bytes, but not indexes, buffers and threads,
    /// which come on top. Beyond it inserts end in [`Error::MemoryFull`], and updates that bring long values; reads,
    /// deletes and all other updates go on. What is deleted makes room within a tenth of a second of being durable,
    /// unless a transaction that is still running may read it. The limit is kept to within a few hundred kilobytes. A
    /// database that is larger can be opened. Default: no limit.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// How many bytes versions of rows may take that only open snapshots need
    /// ([`Database::snapshot`](crate::Database::snapshot)), apart from [`memory_limit`](Self::memory_limit); a long
    /// value counts for each version that has it. Beyond it the oldest snapshot fails with [`Error::SnapshotTooOld`];
    /// transactions go on. Default: 1 GiB.
    #[must_use]
    pub fn snapshot_limit(mut self, bytes: u64) -> Self {
        self.snapshot_limit = bytes;
        self
    }

    /// Keeps a new database's log in this directory, which must be new or empty: on a disk of its own, the log's
    /// writes wait for no others. The database's own directory says where it is from then on, so that the option can
    /// be left out. Copies of such a database are made with [`Database::backup`](crate::Database::backup): one of the
    /// files would have the same log as the original, and is refused. Default: the database's own directory.
    #[must_use]
    pub fn log_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.log_directory = Some(path.into());
        self
    }

    /// Tells how far recovery has got while a database is opened: called by the threads that recover, after every
    /// few hundred kilobytes. The callback must not open, close or use databases.
    #[must_use]
    pub fn recovery_progress(mut self, told: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        self.recovery_watch = Watch::new(told);
        self
    }

    /// Only reads: nothing on disk is changed, every update is refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The disk that the files are on: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// After this many threads further ones are refused, as the system may refuse them: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn threads_max(mut self, threads: usize) -> Self {
        self.threads_max = threads;
        self
    }

    /// Whether workers take calls from each other's queues.
    pub(crate) fn shares_queues(&self) -> bool {
        self.work_stealing.unwrap_or(self.schedule != ScheduleKind::Random)
    }

    /// The configuration of the schedule `predict`. The options have been validated.
    pub(crate) fn predict_settings(&self) -> PredictSettings {
        PredictSettings {
            policy: self.policy,
            history: Duration::from_secs_f64(self.history_seconds),
            renew: Duration::from_secs_f64(self.history_renewal_seconds),
            prune: self.state_prune,
            memory_bytes: self.schedule_memory_bytes,
        }
    }

    /// # Errors
    /// Schedule and protocol, or schedule and key, do not go together.
    fn validate_schedule(&self) -> Result<()> {
        let wrong = |option, given: &dyn fmt::Display, expected: &str| {
            Err(Error::InvalidOption { option, given: given.to_string(), expected: expected.to_string() })
        };
        if self.schedule != ScheduleKind::Random && self.protocol.places_calls() {
            let expected = format!(
                "random: the protocol {} places calls itself; or a protocol that runs them side by side: {}",
                self.protocol,
                ProtocolKind::beside_each_other()
            );
            return wrong("schedule", &self.schedule, &expected);
        }
        if self.schedule == ScheduleKind::Partition && self.partition_key.is_none() {
            return wrong(
                "partition_key",
                &"nothing",
                "the name of the column by whose value calls are placed",
            );
        }
        for (option, seconds) in [
            ("history_seconds", self.history_seconds),
            ("history_renewal_seconds", self.history_renewal_seconds),
        ] {
            if !(0.0..=1e6).contains(&seconds) {
                return wrong(option, &seconds, "0 to 1000000");
            }
        }
        Ok(())
    }

    /// How often a second it is looked what the threads that execute are at; 0: never. What comes of it is
    /// [`Statistics::time`](crate::Statistics::time). Default: 0.
    #[must_use]
    pub fn time_samples(mut self, per_second: usize) -> Self {
        self.time_samples = per_second;
        self
    }

    /// Whether it is noted which thread touches which record when, as samples in bounded memory, for
    /// [`Database::take_access_trace`](crate::Database::take_access_trace). Every access costs more then. Default: no.
    #[must_use]
    pub fn access_trace(mut self, traced: bool) -> Self {
        self.access_trace = traced;
        self
    }

    /// # Errors
    /// The stages are `Single`, and there is more than one worker, or none.
    fn validate_stages(&self) -> Result<()> {
        if self.stages != Some(Stages::Single) {
            return Ok(());
        }
        let wrong =
            |given: String, expected: String| Err(Error::InvalidOption { option: "stages", given, expected });
        if self.protocol.has_executors() {
            return wrong(
                format!("single under {}", self.protocol),
                "folded or staged; or a protocol whose calls workers run".to_string(),
            );
        }
        match self.workers {
            None | Some(1) => Ok(()),
            Some(workers) => {
                wrong(format!("single with {workers} workers"), "one worker; or folded or staged".to_string())
            }
        }
    }

    /// The longest time from a group's first record until it is written; none: it is written as soon as the log is idle.
    /// The options have been validated.
    pub(crate) fn group_time(&self) -> Option<Duration> {
        let default = (self.durability == Durability::Async).then_some(DEFAULT_GROUP_MILLISECONDS);
        let milliseconds = self.group_milliseconds.or(default);
        milliseconds.map(|milliseconds| Duration::from_secs_f64(milliseconds / 1_000.0))
    }

    /// # Errors
    /// The first option that is out of range.
    pub(crate) fn validate(&self) -> Result<()> {
        let within = |option: &'static str, given: u64, least: u64, most: u64| {
            if (least..=most).contains(&given) {
                return Ok(());
            }
            Err(Error::InvalidOption {
                option,
                given: given.to_string(),
                expected: format!("{least} to {most}"),
            })
        };
        within("workers", self.workers.unwrap_or(1) as u64, 1, 1_024)?;
        within("executors", self.executors.unwrap_or(1) as u64, 1, 1_024)?;
        within("input_threads", self.input_threads as u64, 1, 64)?;
        within("output_threads", self.output_threads as u64, 1, 64)?;
        within("group_size", self.group_size.unwrap_or(1) as u64, 1, (1 << 24) - 1)?;
        within("max_in_flight", self.max_in_flight as u64, 1, 1 << 24)?;
        let executors = self.executors.filter(|_| self.protocol.has_executors());
        let workers = executors.or(self.workers).unwrap_or(1) as u64;
        within("max_worker_contexts", self.max_worker_contexts as u64, workers + 1, 1 << 16)?;
        within("time_samples", self.time_samples as u64, 0, 10_000)?;
        within("serial_partitions", self.serial_partitions as u64, 1, 64)?;
        within("queue_calls", self.queue_calls as u64, 1, 1 << 24)?;
        within("schedule_memory_bytes", self.schedule_memory_bytes as u64, 1 << 16, 1 << 36)?;
        self.validate_schedule()?;
        self.validate_stages()?;
        within("waiter_slots", self.waiter_slots as u64, 2, 1 << 16)?;
        within("segment_bytes", self.segment_bytes, 64 << 10, 4 << 30)?;
        within("log_buffer_bytes", self.log_buffer_bytes as u64, 4 << 10, 1 << 30)?;
        within("checkpoint_threads", self.checkpoint_threads.unwrap_or(1) as u64, 1, 64)?;
        if !(self.checkpoint_seconds >= 0.0 && self.checkpoint_seconds <= 1e9) {
            return Err(Error::InvalidOption {
                option: "checkpoint_seconds",
                given: self.checkpoint_seconds.to_string(),
                expected: "0 to 1000000000".to_string(),
            });
        }
        if !(0.0..=1.0).contains(&self.checkpoint_spread) {
            return Err(Error::InvalidOption {
                option: "checkpoint_spread",
                given: self.checkpoint_spread.to_string(),
                expected: "0 to 1".to_string(),
            });
        }
        // A checkpoint's manifest names them as text: another name could not be found again, and the log would be gone.
        if let Some(directory) = self.checkpoint_directories.iter().find(|path| path.to_str().is_none()) {
            return Err(Error::InvalidOption {
                option: "checkpoint_directory",
                given: directory.display().to_string(),
                expected: "a path that is valid UTF-8".to_string(),
            });
        }
        if !(self.phase_milliseconds >= 0.1 && self.phase_milliseconds <= 60_000.0) {
            return Err(Error::InvalidOption {
                option: "phase_milliseconds",
                given: self.phase_milliseconds.to_string(),
                expected: "0.1 to 60000".to_string(),
            });
        }
        // Written so that NaN is refused, too.
        let group_milliseconds = self.group_milliseconds.unwrap_or(DEFAULT_GROUP_MILLISECONDS);
        if !(group_milliseconds > 0.0 && group_milliseconds <= 60_000.0) {
            return Err(Error::InvalidOption {
                option: "group_milliseconds",
                given: group_milliseconds.to_string(),
                expected: "more than 0, at most 60000".to_string(),
            });
        }
        Ok(())
    }
}
