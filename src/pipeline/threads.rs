//! The threads of a database: started here, and nowhere else in the engine; ended here, in the order of the stages.
//!
//! A stage is started after the stages to which it passes work, so the threads that run can always be stopped, also if
//! the system refuses the next one. They are stopped in the opposite order, from input to output: each stage ends when
//! its queue is closed and empty, so all work in the pipeline drains.

mod on_demand;

use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::diagnostics::time_samples::Sampler;
use crate::durability::log_store::LogStore;
use crate::error::{Error, Result};
use crate::pipeline::checkpoint::Checkpointer;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::log::{LogStage, OwnLog, Preparation};
use crate::pipeline::partition::executor;
use crate::pipeline::{output, reclaimer, worker_thread};
pub(crate) use on_demand::{MaintenanceThread, PhaseThread};

/// A log, and what keeps its segments ready if they are on a disk.
pub(crate) type Log = (Box<dyn LogStore>, Option<Arc<Preparation>>);

/// The running threads.
pub(crate) struct Threads {
    running: Mutex<Running>,
    stop_log: Arc<AtomicBool>,
    log_stage: OnceLock<Arc<LogStage>>,
    preparation: OnceLock<Arc<Preparation>>,
    checkpointer: OnceLock<Arc<Checkpointer>>,
    maintenance: Arc<MaintenanceThread>,
    phases: Arc<PhaseThread>,
}

#[derive(Default)]
struct Running {
    /// Number of threads that have been started.
    started: usize,
    input: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    log: Vec<JoinHandle<()>>,
    output: Vec<JoinHandle<()>>,
    preparation: Vec<JoinHandle<()>>,
    checkpoint: Vec<JoinHandle<()>>,
    follower: Vec<JoinHandle<()>>,
    sampler: Vec<JoinHandle<()>>,
    reclaimer: Vec<JoinHandle<()>>,
    upkeep: Vec<JoinHandle<()>>,
    /// Threads that public features have started when they were first used.
    on_demand: Vec<JoinHandle<()>>,
    /// True once they are being stopped.
    is_stopped: bool,
}

/// The stages and settings for which a database's threads are started.
pub(crate) struct ThreadPlan<'s> {
    pub(crate) engine: &'s Arc<Engine>,
    pub(crate) input: &'s Arc<Input>,
    /// Number of input and output threads, where those stages have queues of their own.
    pub(crate) input_threads: usize,
    pub(crate) output_threads: usize,
    /// If the one worker logs what it has executed: no later than this after the first transaction of a group, or as soon
    /// as it is idle.
    pub(crate) own_log: Option<Option<Duration>>,
    pub(crate) automatic_admission: bool,
    /// After this many threads further ones are refused: for tests.
    pub(crate) threads_max: usize,
}

/// Starts threads, up to the first that is refused.
struct Starting<'s> {
    plan: &'s ThreadPlan<'s>,
    running: Running,
}

impl Starting<'_> {
    /// Starts every stage after the stages that it hands work to, so that those that have been started can be stopped in
    /// any case.
    fn all(&mut self, threads: &Threads, stage: LogStage) -> Result<()> {
        let (engine, stage) = (self.plan.engine, Arc::new(stage));
        let _ = threads.log_stage.set(stage.clone());
        let own_log = self.plan.own_log.filter(|_| stage.is_logged());
        let own_log = own_log.map(|time| (stage.clone(), time));
        let has_second = stage.has_second() && own_log.is_none();
        let (preparation, checkpointer) = (threads.preparation.get(), threads.checkpointer.get());
        for life in log_threads(engine, (&stage, has_second), preparation, checkpointer) {
            self.start(life.name, life.group, life.body)?;
        }
        let is_delivered_apart = engine.output().queue().is_some();
        for number in 0..if is_delivered_apart { self.plan.output_threads } else { 0 } {
            let engine = engine.clone();
            let life = move || output::run(&engine);
            self.start(format!("output-{number}"), |running| &mut running.output, life)?;
        }
        self.execution(own_log)?;
        for number in 0..if self.plan.input.is_staged() { self.plan.input_threads } else { 0 } {
            let (engine, input) = (engine.clone(), self.plan.input.clone());
            self.start(format!("input-{number}"), |running| &mut running.input, move || input.run(&engine))?;
        }
        if engine.protocol().phases().is_some() {
            self.count("phases")?;
            threads.phases.start(engine, self.plan.input)?;
        }
        self.upkeep(threads)
    }

    /// The workers, or the executors.
    fn execution(&mut self, own_log: Option<(Arc<LogStage>, Option<Duration>)>) -> Result<()> {
        let (engine, input) = (self.plan.engine, self.plan.input);
        for number in 0..input.workers().len() {
            let (engine, input) = (engine.clone(), input.clone());
            let mut log = own_log.clone().map(|(stage, time)| OwnLog::new(stage, time));
            let life = move || worker_thread::run(&engine, &input, number, log.as_mut());
            self.start(format!("execute-{number}"), |running| &mut running.workers, life)?;
        }
        let Some(executors) = input.executors() else { return Ok(()) };
        for number in 0..executors.len() {
            let (engine, executors) = (engine.clone(), executors.clone());
            let life = move || executor::run(&engine, &executors, number);
            self.start(format!("execute-{number}"), |running| &mut running.workers, life)?;
        }
        Ok(())
    }

    /// The threads beside the stages: each only where it has something to do.
    fn upkeep(&mut self, threads: &Threads) -> Result<()> {
        let ThreadPlan { engine, input, .. } = *self.plan;
        if threads.maintenance.is_needed(input) {
            self.count("schedule")?;
            threads.maintenance.start(engine, input)?;
        }
        if engine.sampler().is_some() {
            let engine = engine.clone();
            let contexts = move || {
                engine
                    .sampler()
                    .into_iter()
                    .for_each(|one| one.run(|| engine.store().worker_contexts().activities()));
            };
            self.start("sample".to_string(), |running| &mut running.sampler, contexts)?;
        }
        let reclaimed = engine.clone();
        let life = move || reclaimer::run(&reclaimed);
        self.start("reclaim".to_string(), |running| &mut running.reclaimer, life)?;
        let engine = engine.clone();
        let life = move || engine.store().slabs().keep_up();
        self.start("memory".to_string(), |running| &mut running.upkeep, life)
    }

    /// Counts a thread that is about to be started.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`]: it would be one too many.
    fn count(&mut self, name: &str) -> Result<()> {
        if self.running.started >= self.plan.threads_max {
            return Err(refused(name, &std::io::ErrorKind::WouldBlock.into()));
        }
        self.running.started += 1;
        Ok(())
    }

    fn start(
        &mut self,
        name: String,
        group: impl FnOnce(&mut Running) -> &mut Vec<JoinHandle<()>>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        self.count(&name)?;
        let handle = spawn(&name, body)?;
        group(&mut self.running).push(handle);
        Ok(())
    }
}

impl Threads {
    /// Starts all stages.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`]; then the threads that had been started have been stopped.
    pub(crate) fn start(
        plan: &ThreadPlan<'_>,
        log: Option<Log>,
        checkpointer: Option<Arc<Checkpointer>>,
        log_stage: impl FnOnce(Option<Log>, Arc<AtomicBool>) -> LogStage,
    ) -> Result<Threads> {
        let threads = Threads {
            running: Mutex::default(),
            stop_log: Arc::new(AtomicBool::new(false)),
            log_stage: OnceLock::new(),
            preparation: once(log.as_ref().and_then(|(_, preparation)| preparation.clone())),
            checkpointer: once(checkpointer),
            maintenance: Arc::new(MaintenanceThread::new(plan.automatic_admission)),
            phases: Arc::default(),
        };
        let mut starting = Starting { plan, running: Running::default() };
        let started = starting.all(&threads, log_stage(log, threads.stop_log.clone()));
        *threads.running.lock() = starting.running;
        if let Err(refused) = started {
            // Nothing has been committed, so nothing can fail to be written.
            let _ = threads.stop(plan.engine, plan.input);
            return Err(refused);
        }
        Ok(threads)
    }

    /// The coordinator of the phases.
    pub(crate) fn phases(&self) -> &Arc<PhaseThread> {
        &self.phases
    }

    /// The maintenance thread.
    pub(crate) fn maintenance(&self) -> &Arc<MaintenanceThread> {
        &self.maintenance
    }

    /// Starts a thread that is needed from now on; it ends on request, before [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`Error::ThreadRefused`].
    pub(crate) fn start_on_demand(&self, name: &str, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let handle = spawn(name, life)?;
        self.running.lock().on_demand.push(handle);
        Ok(())
    }

    /// Has a log stage that writes a log take the place of one that logs nothing, with the threads that belong to a log.
    /// `switch` runs when the old one has ended: until the new one begins, epochs stand still and no snapshot is opened.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`], [`Error::Closed`]; then nothing has changed.
    pub(crate) fn begin_to_log(
        &self,
        engine: &Arc<Engine>,
        (log, checkpointer): (Log, &Arc<Checkpointer>),
        log_stage: impl FnOnce(Log, Arc<AtomicBool>) -> LogStage,
        switch: impl FnOnce(),
    ) -> Result<()> {
        // Locked to the end: a thread that closes the database finds all threads, or keeps them from being started.
        let mut running = self.running.lock();
        if running.is_stopped {
            return Err(Error::Closed);
        }
        let preparation = log.1.clone();
        let stage = Arc::new(log_stage(log, self.stop_log.clone()));
        // The new threads wait behind it; if one of them cannot be started, the others end.
        let gate = Arc::new(RwLock::new(false));
        let mut opened = gate.write();
        let lives =
            log_threads(engine, (&stage, stage.has_second()), preparation.as_ref(), Some(checkpointer));
        let start = |life: Life| {
            let (gate, body) = (gate.clone(), life.body);
            let behind = move || {
                let is_opened = *gate.read();
                if is_opened {
                    body();
                }
            };
            Ok((life.group, spawn(&life.name, behind)?))
        };
        let started = lives.into_iter().map(start).collect::<Result<Vec<_>>>()?;
        if let Some(before) = self.log_stage.get() {
            before.replace();
        }
        join(&mut running.log);
        switch();
        let _ = self.checkpointer.set(checkpointer.clone());
        preparation.into_iter().for_each(|preparation| _ = self.preparation.set(preparation));
        *opened = true;
        running.started += started.len();
        for (group, thread) in started {
            group(&mut running).push(thread);
        }
        Ok(())
    }

    /// Ends all stages, one after the other: what is under way flows out.
    ///
    /// # Errors
    /// The log has failed.
    pub(crate) fn stop(&self, engine: &Engine, input: &Input) -> Result<()> {
        let stopped = Running { is_stopped: true, ..Running::default() };
        let mut running = std::mem::replace(&mut *self.running.lock(), stopped);
        join(&mut running.on_demand);
        // First: no thread waits for it that does not learn that the database is being closed.
        if let Some(checkpointer) = self.checkpointer.get() {
            checkpointer.stop();
        }
        join(&mut running.checkpoint);
        if let Some(follower_connection) =
            self.checkpointer.get().and_then(|checkpointer| checkpointer.follower_connection())
        {
            follower_connection.stop();
        }
        join(&mut running.follower);
        self.maintenance.stop();
        engine.store().retired_tables().stop();
        join(&mut running.reclaimer);
        engine.sampler().into_iter().for_each(Sampler::stop);
        join(&mut running.sampler);
        input.close();
        join(&mut running.input);
        // Stashed calls return to the workers' queues before the workers learn that no more calls arrive.
        self.phases.stop(engine);
        input.close_workers();
        if input.executors().is_some() {
            // A thread that closes the database on one of these threads does so at the end of a call, and has others
            // to run yet, which the other executors may wait for: they end on their own, as it does.
            let own = std::thread::current().id();
            if running.workers.iter().any(|thread| thread.thread().id() == own) {
                running.workers.clear();
            }
        }
        join(&mut running.workers);
        // Release pairs with the acquire in `LogStage::run`.
        self.stop_log.store(true, Ordering::Release);
        engine.log_event_count().notify();
        engine.second_log_event_count().notify();
        join(&mut running.log);
        let failure = engine.progress().failure();
        // A thread that runs a closure at this very moment must not wait for a log that writes no more.
        engine.progress().fail(Error::Closed);
        engine.output().release(engine);
        if let Some(queue) = engine.output().queue() {
            queue.close();
        }
        join(&mut running.output);
        if let Some(preparation) = self.preparation.get() {
            preparation.stop();
        }
        join(&mut running.preparation);
        engine.store().slabs().stop_upkeep();
        join(&mut running.upkeep);
        failure.map_or(Ok(()), Err)
    }
}

fn once<T>(value: Option<T>) -> OnceLock<T> {
    value.map_or_else(OnceLock::new, OnceLock::from)
}

/// A group of running threads.
type Group = fn(&mut Running) -> &mut Vec<JoinHandle<()>>;

/// A thread that is to be started.
struct Life {
    name: String,
    group: Group,
    body: Box<dyn FnOnce() + Send>,
}

impl Life {
    fn new(name: impl Into<String>, group: Group, body: impl FnOnce() + Send + 'static) -> Life {
        Life { name: name.into(), group, body: Box::new(body) }
    }
}

/// The threads of a log: those of its stage, of its segments and of checkpoints. The log stage is the first.
fn log_threads(
    engine: &Arc<Engine>,
    (stage, has_second): (&Arc<LogStage>, bool),
    preparation: Option<&Arc<Preparation>>,
    checkpointer: Option<&Arc<Checkpointer>>,
) -> Vec<Life> {
    let mut lives = Vec::new();
    if has_second {
        let stage = stage.clone();
        lives.push(Life::new("log-2", |running| &mut running.log, move || stage.run_second()));
    }
    let stage = stage.clone();
    lives.push(Life::new("log", |running| &mut running.log, move || stage.run()));
    if let Some(preparation) = preparation.cloned() {
        let engine = engine.clone();
        let body = move || preparation.run(&engine);
        lives.push(Life::new("prepare", |running| &mut running.preparation, body));
    }
    let Some(checkpointer) = checkpointer else { return lives };
    for number in 0..checkpointer.threads() {
        let (engine, checkpointer) = (engine.clone(), checkpointer.clone());
        let body = move || match number {
            0 => checkpointer.lead(&engine),
            _ => checkpointer.help(&engine),
        };
        let name = format!("checkpoint-{number}");
        lives.push(Life::new(name, |running| &mut running.checkpoint, body));
    }
    if checkpointer.follower_connection().is_some() {
        let (engine, checkpointer) = (engine.clone(), checkpointer.clone());
        let body = move || checkpointer.serve(&engine);
        lives.push(Life::new("follower", |running| &mut running.follower, body));
    }
    lives
}

/// Starts a thread.
///
/// # Errors
/// [`Error::ThreadRefused`].
fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = Builder::new().name(format!("heddle-{name}"));
    builder.spawn(life).map_err(|error| refused(name, &error))
}

fn refused(name: &str, error: &std::io::Error) -> Error {
    Error::ThreadRefused { thread: format!("heddle-{name}"), reason: error.to_string() }
}

/// The most threads that recovery uses.
const CREW_MAX: usize = 8;

/// Runs a job on as many threads as are useful at once, the caller's among them, and returns when all have returned:
/// for recovery, which divides its work on its own.
pub(crate) fn in_parallel(job: &(dyn Fn() + Sync)) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(CREW_MAX);
    std::thread::scope(|scope| {
        for number in 1..threads {
            let builder = Builder::new().name(format!("heddle-recover-{number}"));
            if builder.spawn_scoped(scope, job).is_err() {
                // The system refuses it: the others do its share.
                break;
            }
        }
        job();
    });
}

fn join(threads: &mut Vec<JoinHandle<()>>) {
    // The last handle may be dropped on one of these threads, with a procedure's body or a future's waker that owned
    // it: that thread ends on its own when it returns from here.
    let own = std::thread::current().id();
    for thread in threads.drain(..).filter(|thread| thread.thread().id() != own) {
        if thread.join().is_err() {
            // A stage's thread runs no user code outside of catch_unwind: that it died is a fault of the engine's,
            // which its message on standard error tells. The others are ended all the same.
        }
    }
}
