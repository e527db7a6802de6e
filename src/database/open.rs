//! Opening and closing of a database: directory, recovery, threads; and the same backwards.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use parking_lot::{Mutex, MutexGuard};

use super::procedures::Procedures;
use crate::base::atomics::{AtomicBool, Ordering};
use crate::base::disk::Disk;
use crate::database::archive::ArchiveStatus;
use crate::database::backup::no_files;
use crate::database::log_writing::{begin_to_write, segment_sizes, temporary_files};
use crate::diagnostics::time_samples::Sampler;
use crate::durability::DatabaseDirectory;
use crate::durability::checkpoint::Crew;
use crate::durability::log_tail::{StandbyBase, home_of_log, load_beside_a_writer};
use crate::durability::position::LogPosition;
use crate::durability::progress::{Progress, Release};
#[cfg(test)]
use crate::durability::recovery::recover_from;
use crate::durability::recovery::{Recovered, Recovery, recover};
use crate::durability::space::LogSpace;
use crate::error::{Error, Result, StandbyError};
use crate::options::{Durability, Given, Options, Stages};
use crate::pipeline::call::{Answer, Call, InFlight, Submitted};
use crate::pipeline::checkpoint::Checkpointer;
use crate::pipeline::choice_log::ChoiceLog;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::log::LogStage;
use crate::pipeline::output::Output;
use crate::pipeline::partition::Executors;
use crate::pipeline::protocol_change::ProtocolChange;
use crate::pipeline::schedule_change::{ScheduleChange, reserves_hot_rows};
use crate::pipeline::standby::Standby;
use crate::pipeline::threads::{Log, ThreadPlan, Threads, in_parallel};
use crate::procedure::Procedure;
use crate::protocol::ProtocolKind;
use crate::protocol::footprint::Footprint;
use crate::protocol::hot_rows::HotRowQueues;
use crate::protocol::in_force::Protocols;
use crate::schedule::in_force::Schedules;
use crate::sequence::{Sequences, serve_identities};
use crate::session::{SchemaLock, Sessions};
use crate::storage::epoch::FIRST;
use crate::storage::store::Store;
use crate::types::Args;

/// State shared by the handles of one database.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    input: Arc<Input>,
    threads: Threads,
    protocol_change: ProtocolChange,
    schedule_change: ScheduleChange,
    choices: Arc<ChoiceLog>,
    given: Given,
    /// Empty if nothing is logged, so that there is nothing to shorten.
    checkpointer: OnceLock<Arc<Checkpointer>>,
    recovery: Recovery,
    sessions: Arc<Sessions>,
    sequences: Arc<Sequences>,
    procedures: Procedures,
    archive_status: Mutex<Option<ArchiveStatus>>,
    /// Empty if nothing is logged.
    own_term: OnceLock<OwnTerm>,
    /// The state of replay, if the database is a standby.
    standby: Option<Arc<Standby>>,
    /// Options of the database that a standby becomes once it is promoted.
    promoted: OnceLock<Options>,
    closed: AtomicBool,
    /// The outcome of closing, once there is one; locked by the thread that closes.
    closing: Mutex<Option<Result<()>>>,
    /// Given up last: while it is there, no other process can open the directory.
    directory: Mutex<Option<DatabaseDirectory>>,
}

/// The term in which this process writes the log.
#[derive(Clone, Copy)]
pub(crate) struct OwnTerm {
    pub(crate) number: u64,
    /// The position of the last group before it.
    pub(crate) behind: LogPosition,
    /// The last epoch before it of which everything is there.
    pub(crate) through: u64,
}

impl OwnTerm {
    /// The term of this number, behind what was recovered.
    fn behind(recovery: &Recovery, number: u64) -> OwnTerm {
        let through = recovery.durable_epoch;
        OwnTerm { number, behind: recovery.last_position.unwrap_or(LogPosition::new(0, through)), through }
    }
}

/// An empty store with the options' bounds.
fn new_store(options: &Options, logged: bool) -> Store {
    let store = Store::new(FIRST, options.threads.max_worker_contexts, logged);
    store.versions().set_limit(options.memory.snapshot_limit);
    if options.memory.counts_long_values {
        store.slabs().budget().count_blocks_always();
    }
    if let Some(bytes) = options.memory.limit {
        store.slabs().budget().set_limit(bytes);
    }
    store
}

/// Gives a store that was recovered the bounds and the trace that the options ask for.
fn prepare_store(store: &mut Store, options: &Options, is_logged: bool) {
    if let (Some(transactions), true) = (options.log.group_size, is_logged) {
        store.limit_epochs(transactions);
    }
    if options.diagnostics.access_trace {
        store.trace_accesses();
    }
}

/// The layout of the stages over threads, and the number of workers that the protocol can keep busy.
fn layout(options: &Options, protocols: &Protocols, processors: usize) -> (Stages, usize) {
    let kind = options.protocol.kind;
    // Workers that the engine chooses itself leave a worker context's place to callers.
    let most = processors.min(options.threads.max_worker_contexts - 1);
    let default_stages = if processors < 4 { Stages::Folded } else { Stages::Staged };
    let stages = options.threads.stages.unwrap_or(default_stages);
    let useful = match stages {
        Stages::Single => 1,
        _ => protocols.get(protocols.build(kind)).useful_workers().min(most),
    };
    (stages, useful)
}

/// The number of workers, or of executors if the protocol has them.
fn workers(options: &Options, useful: usize, processors: usize) -> usize {
    let partitioned = &options.protocol.partitioned;
    let workers = options.workers.unwrap_or(useful);
    let bounded = options
        .protocol
        .kind
        .has_executors()
        .then(|| partitioned.executors.unwrap_or(workers.min(processors)));
    bounded.unwrap_or(workers)
}

/// The results that may be released.
pub(super) fn release(is_logged: bool, durability: Durability) -> Release {
    match durability {
        _ if !is_logged => Release::Always,
        Durability::Group => Release::Durable,
        Durability::Async | Durability::None => Release::UntilFailure,
    }
}

/// The way in to the workers, or to the executors if the protocol has them; each of them has a worker context reserved.
fn way_in(options: &Options, engine: &Arc<Engine>, workers: usize, stages: Stages) -> Arc<Input> {
    let executors = engine.protocol().external_locks().map(|place| {
        let partitioned = &options.protocol.partitioned;
        let managed = (partitioned.repartitioning, partitioned.executors.is_none());
        let executors = Arc::new(Executors::new(engine, workers, managed, partitioned.plan));
        place.get_or_init(|| executors.clone());
        executors
    });
    let kind = options.schedule.kind;
    let sharing = options.queues.sharing().under(kind);
    let schedules = Schedules::new(kind, options.schedule.predict_settings(), workers);
    engine.store().worker_contexts().reserve(workers);
    Arc::new(Input::new(
        workers,
        // The one worker of `Single` logs what it executes.
        (stages != Stages::Folded, stages != Stages::Single),
        sharing,
        (schedules, options.schedule.partition_key.clone()),
        executors,
    ))
}

/// The parts that change the protocol and the schedule.
fn changes(
    options: &Options,
    (engine, input): (&Arc<Engine>, &Arc<Input>),
    threads: &Threads,
    choices: &Arc<ChoiceLog>,
) -> (ProtocolChange, ScheduleChange) {
    let both = || (engine.clone(), input.clone());
    let (upkeep, sharing) = (threads.maintenance().clone(), options.queues.sharing());
    (
        ProtocolChange::new(both(), threads.phases().clone(), choices.clone()),
        ScheduleChange::new(both(), upkeep, sharing, choices.clone()),
    )
}

/// The state read from a directory, or of a new database.
struct Opened {
    store: Store,
    recovery: Recovery,
    directory: Option<DatabaseDirectory>,
    log: Option<Log>,
    checkpointer: Option<Arc<Checkpointer>>,
    /// The state of replay, if the database is a standby.
    standby: Option<Arc<Standby>>,
}

impl Shared {
    pub(crate) fn open(path: Option<&Path>, options: Options) -> Result<Arc<Shared>> {
        options.validate()?;
        let opened = match path {
            Some(path) => open_directory(path, &options)?,
            #[cfg(test)]
            None if options.memory_log.is_some() => open_memory_log(&options)?,
            None if options.durability == Durability::None => Opened {
                store: new_store(&options, false),
                recovery: Recovery::default(),
                directory: None,
                log: None,
                checkpointer: None,
                standby: None,
            },
            None => {
                return Err(Error::InvalidOption {
                    option: "durability",
                    given: options.durability.to_string(),
                    expected: "Durability::None, because a database in memory has no files".to_string(),
                });
            }
        };
        Self::begin(&options, opened)
    }

    /// Opens a standby of the database whose log is at this path.
    pub(crate) fn open_standby(log: &Path, mut options: Options) -> Result<Arc<Shared>> {
        options.validate()?;
        let promoted = options.clone();
        options.protocol.kind = ProtocolKind::OF_ONE_WRITER;
        options.durability = Durability::None;
        options.validate()?;
        let home = home_of_log(&*options.disk, log)?;
        let tools: (Crew<'_>, _) = (&in_parallel, &options.recovery_watch);
        let new_store = || new_store(&options, false);
        let StandbyBase { mut store, recovery, tail } =
            load_beside_a_writer(&options.disk, &home, new_store, tools)?;
        store.start_at(tail.position().epoch() + 1);
        let standby = Standby::new(&home, &tail);
        let opened = Opened {
            store,
            recovery,
            directory: None,
            log: None,
            checkpointer: None,
            standby: Some(standby.clone()),
        };
        let shared = Self::begin(&options, opened)?;
        let _ = shared.promoted.set(promoted);
        let engine = shared.engine.clone();
        shared.threads.start_on_demand("standby", move || standby.run(&engine, tail))?;
        Ok(shared)
    }

    fn begin(options: &Options, opened: Opened) -> Result<Arc<Shared>> {
        let shared = Self::start(options, opened)?;
        if shared.engine.updates_refused().is_none() {
            serve_identities(&shared)?;
        }
        Ok(shared)
    }

    fn start(options: &Options, opened: Opened) -> Result<Arc<Shared>> {
        let Opened { mut store, recovery, directory, log, checkpointer, standby } = opened;
        let refused = standby.as_ref().map(|_| Error::Standby(StandbyError::OnlyRead));
        let own_term = log.as_ref().map(|(writer, _)| OwnTerm::behind(&recovery, writer.term()));
        prepare_store(&mut store, options, log.is_some());
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let contexts = options.threads.max_worker_contexts;
        let kind = options.protocol.kind;
        let protocols = Protocols::new(kind, options.protocol.settings(contexts));
        let (stages, useful) = layout(options, &protocols, processors);
        let workers = workers(options, useful, processors);
        let release = release(log.is_some(), options.durability);
        let preparation = log.as_ref().and_then(|(_, preparation)| preparation.as_ref());
        let segments = preparation.map(|preparation| preparation.segments().clone());
        let space = LogSpace::new(options.log.buffer_bytes, segments);
        space.set_refused(preparation.and_then(|preparation| preparation.begin()));
        let engine = Engine::new(
            store,
            (protocols, kind),
            Progress::new(recovery.durable_epoch, options.log.waiter_slots, release),
            space,
            Output::new(stages == Stages::Staged),
            InFlight::new(options.queues.max_in_flight),
            refused.or(options.read_only.then_some(Error::ReadOnly)),
            options.retry,
            HotRowQueues::new(reserves_hot_rows(options.schedule.kind)),
            (options.diagnostics.time_samples > 0)
                .then(|| Sampler::new(options.diagnostics.time_samples as f64)),
        );
        let input = way_in(options, &engine, workers, stages);
        let group_time = options.log.group_time(options.durability).filter(|_| log.is_some());
        let plan = ThreadPlan {
            engine: &engine,
            input: &input,
            input_threads: options.threads.input,
            output_threads: options.threads.output,
            own_log: (stages == Stages::Single && options.durability == Durability::Group)
                .then_some(group_time),
            automatic_admission: options.queues.automatic_admission,
            threads_max: options.threads.most,
        };
        let threads = Threads::start(&plan, log, checkpointer.clone(), |log, stop| {
            LogStage::new(engine.clone(), log, group_time, stop, checkpointer.clone())
        })?;
        let choices = Arc::new(ChoiceLog::new());
        let (protocol_change, schedule_change) = changes(options, (&engine, &input), &threads, &choices);
        Ok(Arc::new(Shared {
            protocol_change,
            schedule_change,
            choices,
            given: options.given,
            sessions: Arc::new(Sessions::new(engine.hot_rows().rows())),
            engine,
            input,
            threads,
            checkpointer: checkpointer.map_or_else(OnceLock::new, OnceLock::from),
            recovery,
            sequences: Arc::default(),
            procedures: Procedures::default(),
            archive_status: Mutex::default(),
            own_term: own_term.map_or_else(OnceLock::new, OnceLock::from),
            standby,
            promoted: OnceLock::new(),
            closed: AtomicBool::new(false),
            closing: Mutex::new(None),
            directory: Mutex::new(directory),
        }))
    }

    /// The term in which this process writes the log; `None` if nothing is logged.
    pub(crate) fn own_term(&self) -> Option<OwnTerm> {
        self.own_term.get().copied()
    }

    /// The state of replay, if the database is a standby.
    pub(crate) fn standby(&self) -> Option<&Arc<Standby>> {
        self.standby.as_ref().filter(|standby| !standby.is_promoted())
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Options of the database that a standby becomes once it is promoted.
    ///
    /// # Errors
    /// [`StandbyError::NoStandby`].
    pub(super) fn promoted(&self) -> Result<&Options> {
        self.promoted.get().ok_or(Error::Standby(StandbyError::NoStandby))
    }

    /// Keeps the database from being closed while this lives.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(super) fn hold_open(&self) -> Result<MutexGuard<'_, Option<Result<()>>>> {
        let closing = self.closing.lock();
        if closing.is_some() { Err(Error::Closed) } else { Ok(closing) }
    }

    /// Notes what a standby has from its promotion on.
    pub(super) fn note_writing(
        &self,
        term: OwnTerm,
        checkpointer: &Arc<Checkpointer>,
        directory: DatabaseDirectory,
    ) {
        let _ = self.own_term.set(term);
        let _ = self.checkpointer.set(checkpointer.clone());
        *self.directory.lock() = Some(directory);
    }

    pub(crate) fn procedures(&self) -> &Procedures {
        &self.procedures
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, for what may live longer than a call.
    pub(crate) fn shared_engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn protocol_change(&self) -> &ProtocolChange {
        &self.protocol_change
    }

    pub(crate) fn schedule_change(&self) -> &ScheduleChange {
        &self.schedule_change
    }

    /// The options that were given, and not left to saved settings.
    pub(crate) fn given(&self) -> Given {
        self.given
    }

    /// The choices of the protocol and the schedule.
    pub(crate) fn choices(&self) -> &ChoiceLog {
        &self.choices
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn archive_status(&self) -> &Mutex<Option<ArchiveStatus>> {
        &self.archive_status
    }

    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    pub(crate) fn checkpointer(&self) -> Option<&Checkpointer> {
        self.checkpointer.get().map(|checkpointer| &**checkpointer)
    }

    /// The database's directory, and the disk that it is on.
    pub(crate) fn files(&self) -> Result<(Arc<dyn Disk>, PathBuf)> {
        let directory = self.directory.lock();
        directory
            .as_ref()
            .map(|directory| (directory.disk().clone(), directory.path().to_path_buf()))
            .ok_or_else(no_files)
    }

    /// The directory of the log's segments, if the database has a directory.
    pub(crate) fn log_path(&self) -> Option<PathBuf> {
        self.directory.lock().as_ref().map(|directory| directory.log_path().to_path_buf())
    }

    /// State shared by all sessions.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Locks the schema for a change, once all sessions that have changed it have ended their transactions.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn lock_schema(&self) -> Result<SchemaLock> {
        SchemaLock::acquire(&self.sessions)
    }

    /// The sequences that are in use.
    pub(crate) fn sequences(&self) -> &Arc<Sequences> {
        &self.sequences
    }

    /// Starts the thread that reserves sequences' values, unless it runs.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`].
    pub(crate) fn start_sequences(&self) -> Result<()> {
        let (sequences, engine) = (self.sequences.clone(), self.engine.clone());
        self.sequences.start(|| self.threads.start_on_demand("sequences", move || sequences.run(&engine)))
    }

    /// Starts the thread that looks at sessions' deadlines, unless it runs.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`].
    pub(crate) fn start_session_timer(&self) -> Result<()> {
        let sessions = self.sessions.clone();
        self.sessions.start_timer(|| self.threads.start_on_demand("sessions", move || sessions.run_timer()))
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Stashes a call that a caller's own worker has begun: a worker of the database's runs it in the next joined phase.
    pub(crate) fn stash(&self, procedure: &Procedure, args: Args, footprint: Footprint) -> Submitted {
        let answer = Answer::new();
        self.engine.in_flight().add();
        let call = Call::unplaced(procedure.routine(), args, footprint, answer.clone());
        if let Some(call) = self.engine.stash().put(call) {
            // The split phase has ended in the meantime.
            self.input.append_to_workers(&self.engine, &mut vec![call]);
        }
        Submitted::new(answer)
    }

    /// Refuses a procedure of another database.
    pub(crate) fn check_procedure(&self, procedure: &Procedure) -> Result<()> {
        self.check_open()?;
        if procedure.store() == self.engine.store().identity() {
            return Ok(());
        }
        let detail = "it was registered with another database; register it with this one".to_string();
        Err(Error::InvalidProcedure { procedure: procedure.name().to_string(), detail })
    }

    /// Ends all stages in the order in which calls flow, so that every result is released; then lets the directory go.
    pub(crate) fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        // A thread that closes a database that another thread is closing waits for that one, and learns the same.
        let mut closing = self.closing.lock();
        closing
            .get_or_insert_with(|| {
                self.standby.iter().for_each(|standby| standby.stop());
                self.sessions.close();
                self.sequences.close();
                self.protocol_change.close();
                self.schedule_change.close();
                let stopped = self.threads.stop(&self.engine, &self.input);
                *self.directory.lock() = None;
                stopped
            })
            .clone()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last handle is gone: no caller is left to receive a failure; a thread that waits for a result has
        // received it.
        let _ = self.close();
    }
}

/// Opens the database of a log in memory, as its only writer from then on.
#[cfg(test)]
fn open_memory_log(options: &Options) -> Result<Opened> {
    let log = options.memory_log.as_ref().ok_or_else(no_files)?;
    let (mut source, writer) = log.open();
    let new_store = new_store(options, true);
    let (mut store, recovery) =
        recover_from(&mut source, new_store, (&in_parallel, &options.recovery_watch))?;
    store.start_at(recovery.durable_epoch + 1);
    let log: Option<Log> = Some((Box::new(writer), None));
    Ok(Opened { store, recovery, directory: None, log, checkpointer: None, standby: None })
}

fn open_directory(path: &Path, options: &Options) -> Result<Opened> {
    let segment_sizes = segment_sizes(options);
    let disk = options.disk.clone();
    let log = options.log.directory.as_deref();
    let directory = if options.read_only {
        DatabaseDirectory::open_existing(disk.clone(), path, log)?
    } else {
        DatabaseDirectory::open(disk.clone(), path, &segment_sizes, log)?
    };
    open_in(directory, options)
}

/// Recovers the database in a directory that is locked.
fn open_in(directory: DatabaseDirectory, options: &Options) -> Result<Opened> {
    let disk = options.disk.clone();
    let logged = options.durability != Durability::None && !options.read_only;
    let new_store = || new_store(options, logged);
    let recovered = recover(&disk, &directory, new_store, &in_parallel, &options.recovery_watch)?;
    let Recovered { mut store, recovery, end } = recovered;
    // The epoch that new commits get is known only now: it is above everything that was read, torn groups too.
    store.start_at(end.highest_epoch_seen.max(recovery.durable_epoch) + 1);
    if !logged {
        let (directory, standby) = (Some(directory), None);
        return Ok(Opened { store, recovery, directory, log: None, checkpointer: None, standby });
    }
    let newest = (recovery.checkpoint > 0).then_some(recovery.checkpoint);
    let writing = begin_to_write(&directory, options, &store, (end, newest))?;
    store.set_temporary_files(temporary_files(&directory));
    Ok(Opened {
        store,
        recovery,
        directory: Some(directory),
        log: Some((writing.log, Some(writing.preparation))),
        checkpointer: Some(writing.checkpointer),
        standby: None,
    })
}
