//! The threads of a database: started here, and nowhere else in the engine; ended here, in the order of the stages.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, Ordering};
use crate::durability::LogWriter;
use crate::error::{Error, Result};
use crate::pipeline::checkpoint::Checkpointer;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::log::{LogStage, OwnLog, Preparation};
use crate::pipeline::maintenance::Maintenance;
use crate::pipeline::partition::executor;
use crate::pipeline::sampler::Sampler;
use crate::pipeline::{output, phases, worker};

/// A log, and what keeps its segments ready.
pub(crate) type Log = (LogWriter, Arc<Preparation>);

/// The running threads.
pub(crate) struct Threads {
    running: Mutex<Running>,
    stop_log: Arc<AtomicBool>,
    preparation: Option<Arc<Preparation>>,
    checkpointer: Option<Arc<Checkpointer>>,
    maintenance: Arc<Maintenance>,
}

#[derive(Default)]
struct Running {
    input: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    log: Vec<JoinHandle<()>>,
    output: Vec<JoinHandle<()>>,
    preparation: Vec<JoinHandle<()>>,
    phases: Vec<JoinHandle<()>>,
    checkpoint: Vec<JoinHandle<()>>,
    follower: Vec<JoinHandle<()>>,
    maintenance: Vec<JoinHandle<()>>,
    sampler: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts who makes checkpoints, and who serves a follower if one is waited for.
    fn start_checkpoints(&mut self, engine: &Arc<Engine>, checkpointer: &Arc<Checkpointer>) {
        for number in 0..checkpointer.threads() {
            let (engine, checkpointer) = (engine.clone(), checkpointer.clone());
            let life = move || match number {
                0 => checkpointer.lead(&engine),
                _ => checkpointer.help(&engine),
            };
            self.checkpoint.push(start(format!("checkpoint-{number}"), life));
        }
        if checkpointer.post().is_some() {
            let (engine, checkpointer) = (engine.clone(), checkpointer.clone());
            self.follower.push(start("follower".to_string(), move || checkpointer.serve(&engine)));
        }
    }

    /// Starts who looks where time goes, if it is sampled.
    fn start_sampler(&mut self, engine: &Arc<Engine>) {
        if engine.sampler().is_some() {
            let engine = engine.clone();
            let life = move || {
                engine.sampler().into_iter().for_each(|one| one.run(engine.store().worker_contexts()))
            };
            self.sampler.push(start("sample".to_string(), life));
        }
    }
}

impl Threads {
    /// Starts all stages: input and output threads only where those stages have queues of their own. `own_log`: the one
    /// worker logs what it has executed, and no later than so long after the first of a group.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn start(
        engine: &Arc<Engine>,
        input: &Arc<Input>,
        (input_threads, output_threads): (usize, usize),
        own_log: Option<Duration>,
        automatic_admission: bool,
        log: Option<Log>,
        checkpointer: Option<Arc<Checkpointer>>,
        log_stage: impl FnOnce(Option<Log>, Arc<AtomicBool>) -> LogStage,
    ) -> Threads {
        let mut running = Running::default();
        let preparation = log.as_ref().map(|(_, preparation)| preparation.clone());
        let stop_log = Arc::new(AtomicBool::new(false));
        let stage = Arc::new(log_stage(log, stop_log.clone()));
        let own_log = own_log.filter(|_| preparation.is_some());
        for number in 0..if input.is_staged() { input_threads } else { 0 } {
            let (engine, input) = (engine.clone(), input.clone());
            running.input.push(start(format!("input-{number}"), move || input.run(&engine)));
        }
        for number in 0..input.workers().len() {
            let (engine, input) = (engine.clone(), input.clone());
            let mut log = own_log.map(|time| OwnLog::new(stage.clone(), time));
            let life = move || worker::run(&engine, &input, number, log.as_mut());
            running.workers.push(start(format!("execute-{number}"), life));
        }
        if let Some(executors) = input.executors() {
            for number in 0..executors.len() {
                let (engine, executors) = (engine.clone(), executors.clone());
                let life = move || executor::run(&engine, &executors, number);
                running.workers.push(start(format!("execute-{number}"), life));
            }
        }
        let is_delivered_apart = engine.output().queue().is_some();
        for number in 0..if is_delivered_apart { output_threads } else { 0 } {
            let engine = engine.clone();
            running.output.push(start(format!("output-{number}"), move || output::run(&engine)));
        }
        if engine.protocol().phases().is_some() {
            let (engine, input) = (engine.clone(), input.clone());
            running.phases.push(start("phases".to_string(), move || phases::run(&engine, &input)));
        }
        if let Some(preparation) = preparation.clone() {
            let engine = engine.clone();
            running.preparation.push(start("prepare".to_string(), move || preparation.run(&engine)));
        }
        running.log.push(start("log".to_string(), move || stage.run()));
        checkpointer.iter().for_each(|checkpointer| running.start_checkpoints(engine, checkpointer));
        let maintenance = Arc::new(Maintenance::default());
        let has_boundaries = input.executors().is_some_and(|executors| executors.len() > 1);
        if automatic_admission || has_boundaries || input.schedule().needs_upkeep() {
            let (engine, input, maintenance) = (engine.clone(), input.clone(), maintenance.clone());
            let life = move || maintenance.run(&engine, &input, automatic_admission);
            running.maintenance.push(start("schedule".to_string(), life));
        }
        running.start_sampler(engine);
        Threads { running: Mutex::new(running), stop_log, preparation, checkpointer, maintenance }
    }

    /// Ends all stages, one after the other: what is under way flows out.
    ///
    /// # Errors
    /// The log has failed.
    pub(crate) fn stop(&self, engine: &Engine, input: &Input) -> Result<()> {
        let mut running = std::mem::take(&mut *self.running.lock());
        // First: nobody waits for it who is not told that the database is being closed.
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.stop();
        }
        join(&mut running.checkpoint);
        if let Some(post) = self.checkpointer.as_ref().and_then(|checkpointer| checkpointer.post()) {
            post.stop();
        }
        join(&mut running.follower);
        self.maintenance.stop();
        join(&mut running.maintenance);
        engine.sampler().into_iter().for_each(Sampler::stop);
        join(&mut running.sampler);
        input.close();
        join(&mut running.input);
        // What is stashed goes to the workers before they are told that nothing more comes.
        engine.phase_change().stop();
        join(&mut running.phases);
        input.close_workers();
        if input.executors().is_some() {
            // Who closes the database on one of these threads does so at the end of a call, and has others to run yet, which
            // the other executors may wait for: they end by themselves, as it does.
            let own = std::thread::current().id();
            if running.workers.iter().any(|thread| thread.thread().id() == own) {
                running.workers.clear();
            }
        }
        join(&mut running.workers);
        // Release pairs with the acquire in `LogStage::run`.
        self.stop_log.store(true, Ordering::Release);
        engine.log_event_count().ring();
        join(&mut running.log);
        let failure = engine.progress().failure();
        // Whoever runs a closure at this very moment must not wait for a log that writes no more.
        engine.progress().fail(Error::Closed);
        engine.output().release(engine);
        if let Some(queue) = engine.output().queue() {
            queue.close();
        }
        join(&mut running.output);
        if let Some(preparation) = &self.preparation {
            preparation.stop();
        }
        join(&mut running.preparation);
        failure.map_or(Ok(()), Err)
    }
}

/// The most threads that recovery uses.
const CREW_MAX: usize = 8;

/// Runs a job on as many threads as are useful at once, the caller's among them, and returns when all have come back:
/// for recovery, which divides its work by itself.
pub(crate) fn in_parallel(job: &(dyn Fn() + Sync)) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(CREW_MAX);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(job);
        }
        job();
    });
}

fn start(name: String, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    match Builder::new().name(format!("heddle-{name}")).spawn(body) {
        Ok(handle) => handle,
        Err(error) => panic!("the system starts no thread {name}: {error}"),
    }
}

fn join(threads: &mut Vec<JoinHandle<()>>) {
    // The last handle may go on one of these threads, with a procedure's body or a future's waker that owned it: that
    // thread ends by itself when it comes back from here.
    let own = std::thread::current().id();
    for thread in threads.drain(..).filter(|thread| thread.thread().id() != own) {
        if thread.join().is_err() {
            // A stage's thread runs no user code outside of catch_unwind: that it died is a fault of the engine's,
            // which its message on standard error tells. The others are ended all the same.
        }
    }
}
