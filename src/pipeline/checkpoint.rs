//! Checkpoints beside execution: when one is made, by which threads, and what becomes of it.
//!
//! `heddle-checkpoint-0` decides and leads; the others help it to copy. They take no part in anything else: no thread
//! waits for them except one that requests a checkpoint explicitly, and a committing thread shares no lock with them.
//! The copying is argued in `storage::fuzzy_scan`, the files in `durability::checkpoint`, and recovery from
//! them in `storage::restore`.
//!
//! Invariants, in this order:
//! 1. The first epoch is asked for before anything is copied: everything before it is durable, so installed.
//! 2. All is copied; then the global epoch is read: nothing that was copied, or found deleted, is of a later one.
//! 3. When the log is durable through that epoch, and not before, the manifest is written: a copy of what was not
//!    durable, or the lack of what was deleted and not durable, would come true after a power loss.
//! 4. When the manifest is durable, and not before, the log before the first epoch is removed, and older checkpoints.
//!
//! If there is a follower, it does step 2 with its own copy (`elsewhere`); the database still does steps 3
//! and 4.
//!
//! Whatever fails before that leaves the older checkpoint and its log as they were; it is reported, and tried again later.

mod copying;
mod elsewhere;
mod make;
mod pace;
mod report;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::copying::Job;
pub(crate) use self::copying::write_all;
use self::pace::{Pace, Plan, Size};
use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::durability::Segments;
use crate::durability::checkpoint::Checkpoints;
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::message_of;
use crate::pipeline::follower::FollowerConnection;

pub use report::{CheckpointReport, CheckpointStatus};

/// Interval between checks whether a checkpoint is due by time.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between checks whether the log has got far enough.
const SHORT: Duration = Duration::from_millis(1);
/// After a failure the next attempt waits this long, then twice as long, and so on.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
/// But not longer.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

/// Settings of checkpoints: when one is made, at which pace, and where.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointSettings {
    /// Growth of the log, in bytes, after which one is made; 0: never.
    pub(crate) log_bytes: u64,
    /// Time after which one is made.
    pub(crate) interval: Option<Duration>,
    /// Share of the way to the next checkpoint over which one is spread; 0: it is made as fast as it can be.
    pub(crate) spread: f64,
    /// 0: no limit.
    pub(crate) bytes_per_second: u64,
    pub(crate) threads: usize,
    /// Directories for the parts; if there are none, parts are beside the manifest.
    pub(crate) directories: Vec<PathBuf>,
}

impl CheckpointSettings {
    /// The size of the log at which a checkpoint is due, given the size at which the last one began.
    fn due_bytes(&self, begun: u64) -> u64 {
        if self.log_bytes == 0 { u64::MAX } else { begun.saturating_add(self.log_bytes) }
    }
}

/// Makes checkpoints.
pub(crate) struct Checkpointer {
    settings: CheckpointSettings,
    checkpoints: Checkpoints,
    segments: Arc<Segments>,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    /// True while a thread waits for the next checkpoint, so that the present one runs at full speed.
    hurried: AtomicBool,
    /// Bytes in the log at which a checkpoint is due; no check is needed while one is being made.
    due_bytes: AtomicU64,
    /// The connection at which a follower is awaited; `None` if none is.
    follower_connection: Option<FollowerConnection>,
}

struct State {
    /// Number of checkpoints that were requested explicitly, and how many of the requests are answered.
    asked: u64,
    answered: u64,
    /// The outcome of the last attempt.
    outcome: Result<CheckpointReport>,
    status: CheckpointStatus,
    size: Size,
    /// The job for helpers, its number, and the number of helpers at work.
    job: Option<Arc<Job>>,
    jobs: u64,
    at_work: usize,
    /// The start of the last attempt, and the size of the log at that time.
    last_begun: Instant,
    last_log_bytes: u64,
    /// True if the disk is too full for another segment of the log.
    log_cannot_grow: bool,
    /// The first segment of the log that the last checkpoint has kept; 0: not known.
    first_segment: u32,
    /// The highest number that was given to a checkpoint; a follower may not have made a file of it yet.
    number: u32,
    /// After a failure: from when on it is tried again.
    not_before: Option<Instant>,
    retry_delay: Duration,
}

impl Checkpointer {
    /// `leftover`: why something useless that was found could not be removed.
    pub(crate) fn new(
        settings: CheckpointSettings,
        checkpoints: Checkpoints,
        segments: Arc<Segments>,
        leftover: Option<Error>,
        follower_connection: Option<FollowerConnection>,
    ) -> Arc<Checkpointer> {
        let state = State {
            asked: 0,
            answered: 0,
            outcome: Err(Error::Closed),
            status: CheckpointStatus { failure: leftover, ..CheckpointStatus::default() },
            size: Size::default(),
            job: None,
            jobs: 0,
            at_work: 0,
            last_begun: Instant::now(),
            // What had to be replayed counts: so the next recovery will be shorter.
            last_log_bytes: 0,
            log_cannot_grow: false,
            first_segment: 0,
            number: 0,
            not_before: None,
            retry_delay: RETRY_DELAY_MIN,
        };
        Arc::new(Checkpointer {
            settings,
            checkpoints,
            segments,
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            due_bytes: AtomicU64::new(u64::MAX),
            follower_connection,
        })
    }

    /// The log.
    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// The checkpoints that are there.
    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Number of threads that write a checkpoint.
    pub(crate) fn threads(&self) -> usize {
        self.settings.threads
    }

    /// Looks whether the log has grown enough: for the log stage, after each group.
    pub(crate) fn look(&self) {
        // Relaxed: the leader sets the bound, then looks at the bytes itself. Either it sees those of the last group, or
        // the lock around them lets this see the bound.
        if self.segments.log_bytes() >= self.due_bytes.load(Ordering::Relaxed) {
            let _state = self.state.lock();
            // Once is enough: the leader sets it again before it sleeps.
            self.due_bytes.store(u64::MAX, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Notes whether the disk is too full for another segment of the log. If it is, a checkpoint is due, because it frees
    /// the log before it; one that is being made no longer takes its time.
    pub(crate) fn log_cannot_grow(&self, cannot_grow: bool) {
        let mut state = self.state.lock();
        state.log_cannot_grow = cannot_grow;
        if cannot_grow {
            // Relaxed: the threads that copy look again and again.
            self.hurried.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Requests a checkpoint that begins after this call, and waits until it is whole.
    ///
    /// # Errors
    /// It could not be written; the database is being closed.
    pub(crate) fn make_now(&self) -> Result<CheckpointReport> {
        let mut state = self.state.lock();
        state.asked += 1;
        let own = state.asked;
        // Relaxed: the copiers look again and again.
        self.hurried.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        while state.answered < own {
            if self.is_stopped() {
                return Err(Error::Closed);
            }
            self.changed.wait(&mut state);
        }
        state.outcome.clone()
    }

    /// The checkpoints made so far, and the last failure.
    pub(crate) fn status(&self) -> CheckpointStatus {
        let status = self.state.lock().status.clone();
        CheckpointStatus {
            follower: self.follower_connection.as_ref().map(FollowerConnection::status),
            ..status
        }
    }

    /// Ends the threads, with whatever they are at.
    pub(crate) fn stop(&self) {
        // Under the lock, so that no thread misses it between a look and a sleep; else relaxed would do: nothing is
        // published by it.
        let _state = self.state.lock();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Returns true if it must end now, whatever it is doing.
    fn is_stopped(&self) -> bool {
        // Relaxed: sooner or later is enough.
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns true if a thread waits for the next checkpoint.
    fn is_hurried(&self) -> bool {
        // Relaxed: as above.
        self.hurried.load(Ordering::Relaxed)
    }

    /// Bytes appended to the log so far.
    fn log_bytes(&self) -> u64 {
        self.segments.log_bytes()
    }

    /// The pace of a checkpoint that begins now.
    fn pace(&self, engine: &Engine, state: &State) -> Pace {
        let CheckpointSettings { log_bytes, interval, spread, bytes_per_second, .. } = self.settings;
        let plan = (spread > 0.0).then(|| Plan {
            bytes: state.size.expected(engine.store().slabs().budget().used()),
            log_bytes: (log_bytes > 0).then_some((log_bytes as f64 * spread) as u64),
            time: interval.map(|interval| interval.mul_f64(spread)),
        });
        Pace::new(plan, bytes_per_second, state.last_log_bytes)
    }

    /// The life of the leading thread.
    pub(crate) fn lead(&self, engine: &Engine) {
        let mut state = self.state.lock();
        while !self.is_stopped() {
            self.due_bytes.store(self.settings.due_bytes(state.last_log_bytes), Ordering::Relaxed);
            if !self.is_due(&state) {
                self.wait_until_due(&mut state);
                continue;
            }
            let asked = state.asked;
            self.hurried.store(asked > state.answered || state.log_cannot_grow, Ordering::Relaxed);
            state.status.running = true;
            (state.last_begun, state.last_log_bytes) = (Instant::now(), self.segments.log_bytes());
            let pace = Arc::new(self.pace(engine, &state));
            drop(state);
            // A thread that requested it explicitly waits for an answer, whatever happens.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.make(engine, &pace)));
            let outcome = outcome.unwrap_or_else(|panic| Err(broken(&*panic)));
            self.follower_connection.iter().for_each(FollowerConnection::checkpoint_ended);
            state = self.state.lock();
            state.job = None;
            state.status.requested += u64::from(outcome.is_ok() && asked > state.answered);
            state.note(outcome, engine.store().slabs().budget().used());
            state.answered = asked;
            self.changed.notify_all();
        }
    }

    fn wait_until_due(&self, state: &mut MutexGuard<'_, State>) {
        if self.settings.interval.is_some() || state.not_before.is_some() {
            self.changed.wait_for(state, LOOK);
        } else {
            self.changed.wait(state);
        }
    }

    fn is_due(&self, state: &State) -> bool {
        if state.asked > state.answered {
            return true;
        }
        if state.not_before.is_some_and(|moment| Instant::now() < moment) {
            return false;
        }
        let grown = self.segments.log_bytes() - state.last_log_bytes;
        let has_waited =
            self.settings.interval.is_some_and(|interval| state.last_begun.elapsed() >= interval);
        let is_automatic = self.settings.log_bytes > 0 || self.settings.interval.is_some();
        let is_wanted = is_automatic || state.log_cannot_grow;
        let is_tried_again = is_wanted && state.not_before.is_some();
        let is_large = self.segments.log_bytes() >= self.settings.due_bytes(state.last_log_bytes);
        is_large
            || grown > 0 && has_waited
            || is_tried_again
            || state.log_cannot_grow && self.frees_log(state)
    }

    /// Returns true if a checkpoint that begins now frees a segment of the log.
    fn frees_log(&self, state: &State) -> bool {
        self.segments.start_before(self.segments.last_epoch()).segment > state.first_segment
    }

    /// The life of a thread that helps.
    pub(crate) fn help(&self, engine: &Engine) {
        let mut last_job = 0;
        let mut state = self.state.lock();
        while !self.is_stopped() {
            let job = match &state.job {
                Some(job) if state.jobs != last_job => job.clone(),
                _ => {
                    self.changed.wait(&mut state);
                    continue;
                }
            };
            (last_job, state.at_work) = (state.jobs, state.at_work + 1);
            drop(state);
            // The leader waits until all helpers have returned.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job.work(engine, self))) {
                job.fail(broken(&*panic));
            }
            state = self.state.lock();
            state.at_work -= 1;
            self.changed.notify_all();
        }
    }
}

/// A panic in one of these threads is a fault of the engine's: it costs the checkpoint, and nothing else.
fn broken(panic: &(dyn Any + Send)) -> Error {
    Error::Broken { what: "the making of a checkpoint", message: message_of(panic) }
}

impl State {
    /// Records the outcome of an attempt, and the memory that rows take now.
    fn note(&mut self, outcome: Result<CheckpointReport>, memory: u64) {
        self.status.running = false;
        match &outcome {
            Ok(report) => {
                self.status.made += 1;
                self.status.by_follower += u64::from(report.by_follower);
                self.status.bytes += report.bytes;
                self.status.time += report.time;
                self.size = Size { bytes: report.bytes, memory };
                self.status.failure = report.leftover.clone();
                self.status.last = Some(report.clone());
                (self.not_before, self.retry_delay) = (None, RETRY_DELAY_MIN);
            }
            Err(Error::Closed) => {}
            Err(failure) => {
                self.status.failed += 1;
                self.status.failure = Some(failure.clone());
                self.not_before = Some(Instant::now() + self.retry_delay);
                self.retry_delay = (2 * self.retry_delay).min(RETRY_DELAY_MAX);
            }
        }
        self.outcome = outcome;
    }
}
