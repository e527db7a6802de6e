//! The coordinator: when a split phase begins and when it ends (Doppel, OSDI 2014, section 5.4).
//!
//! It decides; the log stage changes the phase, because a phase change is the sealing of an epoch: it raises the epoch
//! and closes the gate of the commit sections at one moment, waits for those that are inside, has the protocol merge or
//! mark, and opens the gate. So no thread has to agree to a change: a thread that sleeps inside a body, or has died, holds
//! nothing up, and a caller's thread is like a worker.
//!
//! Feedback: no split phase begins before something is worth splitting, and before everything that was stashed has
//! ended (or has had its time); a split phase ends early when too many transactions are stashed, or all active callers
//! wait for stashed ones, and is followed by the next one at once, with its slices merged in between, if none is stashed. While nothing
//! is split and nothing conflicts, the coordinator sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::protocol::{Phase, Phases};
use crate::storage::worker_context::WorkerContext;

/// Interval at which the coordinator checks whether a split phase should end early, once something is stashed.
const LOOK: Duration = Duration::from_micros(500);
/// The longest time between two such checks while nothing is stashed.
const LOOK_MAX: Duration = Duration::from_millis(5);
/// Longest time in a joined phase until samples are evaluated.
const SAMPLE: Duration = Duration::from_millis(10);
/// The shortest joined phase between two split ones, as a share of a split phase's length: so that calls which have just
/// arrived, and are not stashed yet, find one too.
const JOINED_SHARE: u32 = 16;
/// A call that was stashed and runs longer than this many phases no longer holds up the next split phase.
const PATIENCE_PHASES: u32 = 4;
/// The least time for which such a call may hold it up, if phases are short.
const PATIENCE: Duration = Duration::from_millis(50);

/// A change of phase that the coordinator requests of the log stage.
#[derive(Default)]
pub(crate) struct PhaseChange {
    /// 0: nothing; else the phase, plus one.
    wanted: AtomicU32,
    /// The outcome of the last change.
    outcome: Mutex<Option<bool>>,
    changed: Condvar,
    stop: AtomicBool,
    /// Locked by the coordinator while it begins to sleep.
    pausing: Mutex<()>,
    stopped: Condvar,
}

impl PhaseChange {
    /// The phase that is wanted, if one is.
    #[inline]
    pub(crate) fn wanted(&self) -> Option<Phase> {
        // Acquire pairs with the release in `request`.
        match self.wanted.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Phase::Joined),
            2 => Some(Phase::Split),
            _ => Some(Phase::SplitAgain),
        }
    }

    /// Has the log stage change the phase, and waits for it; returns true if the phase was changed.
    fn request(&self, engine: &Engine, phase: Phase) -> bool {
        let mut outcome = self.outcome.lock();
        *outcome = None;
        self.wanted.store(1 + phase as u32, Ordering::Release);
        engine.log_event_count().notify();
        while outcome.is_none() {
            self.changed.wait(&mut outcome);
        }
        outcome.unwrap_or(false)
    }

    /// Changes the phase; the caller, the log stage, has closed the gate and waited for all. `epoch` is the last that
    /// the present phase has commits of, `next` the first of the next phase.
    pub(crate) fn perform(&self, engine: &Engine, phase: Phase, (epoch, next): (u64, u64), guard: &Guard) {
        let Some(phases) = engine.protocol().phases() else { return };
        let done = phases.change(engine.store(), phase, (epoch, next), guard);
        if done {
            match phase {
                Phase::Joined => engine.stash().close(),
                Phase::Split => engine.stash().open(),
                Phase::SplitAgain => {}
            }
        }
        self.answer(done);
    }

    /// The change that is wanted cannot be made now.
    pub(crate) fn refuse(&self) {
        self.answer(false);
    }

    fn answer(&self, done: bool) {
        let mut outcome = self.outcome.lock();
        self.wanted.store(0, Ordering::Release);
        *outcome = Some(done);
        self.changed.notify_all();
    }

    /// Ends the last split phase, and begins no more.
    pub(crate) fn stop(&self) {
        // Under the mutex of the coordinator's pauses, so that it misses no wake-up.
        let pausing = self.pausing.lock();
        self.stop.store(true, Ordering::Release);
        drop(pausing);
        self.stopped.notify_all();
    }

    /// Lets split phases begin again, once the coordinator that was stopped has ended.
    pub(crate) fn resume(&self) {
        self.stop.store(false, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        // Acquire pairs with the release in `stop`.
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps for this time, or until the coordinator is stopped.
    fn pause(&self, time: Duration) {
        let mut pausing = self.pausing.lock();
        if !self.is_stopped() {
            self.stopped.wait_for(&mut pausing, time);
        }
    }
}

/// The life of the coordinator's thread.
pub(crate) fn run(engine: &Arc<Engine>, input: &Input) {
    let Some(phases) = engine.protocol().phases() else { return };
    let coordinator = Coordinator { engine, input, phases };
    while !coordinator.is_stopped() {
        if coordinator.joined_phase() {
            coordinator.split_phases();
        } else {
            phases.rest(engine.store(), &|| coordinator.is_stopped());
        }
    }
}

struct Coordinator<'e> {
    engine: &'e Engine,
    input: &'e Input,
    phases: &'e dyn Phases,
}

impl Coordinator<'_> {
    fn is_stopped(&self) -> bool {
        self.engine.phase_change().is_stopped()
    }

    fn change(&self, phase: Phase) -> bool {
        self.engine.phase_change().request(self.engine, phase)
    }

    /// Waits for one turn of a joined phase; returns true if a split phase should follow.
    fn joined_phase(&self) -> bool {
        let begun = Instant::now();
        let least = if self.engine.stash().outstanding() > 0 || self.phases.has_just_joined() {
            self.phases.length() / JOINED_SHARE
        } else {
            self.phases.length().min(SAMPLE)
        };
        self.sleep(least);
        let timeout = (PATIENCE_PHASES * self.phases.length()).max(PATIENCE);
        while self.engine.stash().outstanding() > 0 && begun.elapsed() < timeout && !self.is_stopped() {
            self.engine.phase_change().pause(LOOK);
        }
        !self.is_stopped() && self.phases.end_joined(self.engine.store(), begun.elapsed())
    }

    /// Split phases, one after another while none is stashed; the last has ended when it returns.
    fn split_phases(&self) {
        let mut phase = Phase::Split;
        loop {
            // Counted before the change: this thread may run so late that all callers are stashed by then.
            let (stashed, committed) = (self.engine.stash().stashed(), self.engine.store().committed());
            if !self.change(phase) {
                break;
            }
            let begun = Instant::now();
            self.wait_in_split_phase(stashed, committed);
            let waiting = self.engine.stash().stashed() - stashed;
            let again = self.phases.end_split(self.engine.store(), begun.elapsed(), waiting);
            phase = Phase::SplitAgain;
            if !again || self.is_stopped() || self.engine.stash().outstanding() > 0 {
                break;
            }
        }
        if matches!(phase, Phase::Split) {
            return;
        }
        // Never refused: what is split can be merged in any epoch, and in one that cannot end, too.
        self.change(Phase::Joined);
        let mut calls = self.engine.stash().take();
        self.input.append_to_workers(self.engine, &mut calls);
    }

    /// Sleeps until the split phase has had its length or should end early. `stashed` and `committed` are the numbers
    /// of transactions at its beginning.
    fn wait_in_split_phase(&self, stashed: u64, committed: u64) {
        let (begun, length) = (Instant::now(), self.phases.length());
        let mut committed_before = committed;
        while let Some(left) = length.checked_sub(begun.elapsed())
            && !self.is_stopped()
        {
            let (stashed, committed_now) =
                (self.engine.stash().stashed() - stashed, self.engine.store().committed());
            // A caller that works in a loop is outside of the engine for a moment between two transactions: only if none
            // has committed since the last check are all of them stashed.
            let all_stashed = stashed > 0 && committed_now == committed_before && self.all_are_stashed();
            committed_before = committed_now;
            if self.phases.should_end_split_early(stashed, committed_now - committed, all_stashed) {
                return;
            }
            let pause = if stashed > 0 { LOOK } else { (length / 16).clamp(LOOK, LOOK_MAX) };
            self.engine.phase_change().pause(left.min(pause));
        }
    }

    /// Returns true if every active caller waits for a stashed transaction: none executes, is queued, or waits for the
    /// log.
    fn all_are_stashed(&self) -> bool {
        let (store, (calls, closures)) = (self.engine.store(), self.engine.stash().waiting());
        calls + closures > 0
            && self.engine.in_flight().count() <= calls
            && !store.worker_contexts().all().any(WorkerContext::is_executing)
            && self.engine.progress().is_released(store.epochs().current() - 1)
    }

    /// Sleeps for this time, or until no more split phases are wanted.
    fn sleep(&self, time: Duration) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed())
            && !self.is_stopped()
        {
            self.engine.phase_change().pause(left);
        }
    }
}
