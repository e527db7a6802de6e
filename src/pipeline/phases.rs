//! The coordinator: when a split phase begins and when it ends (Doppel, OSDI 2014, section 5.4).
//!
//! It decides; the log stage changes the phase, because a phase change is the sealing of an epoch: it raises the epoch
//! and closes the gate of the commit sections at one moment, waits for those who are inside, has the protocol merge or
//! mark, and opens the gate. So nobody has to agree to a change: a thread that sleeps inside a body, or has died, holds
//! nothing up, and a caller's thread is like a worker.
//!
//! Feedback: no split phase begins before something is worth splitting, and before everything that was stashed has
//! ended (or has had its time); a split phase ends early when too many calls wait, and is followed by the next one at
//! once, with its slices merged in between, if nobody waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::protocol::{Phase, Phases};

/// So often the coordinator looks whether a split phase should end early.
const LOOK: Duration = Duration::from_micros(500);
/// In joined phases what was sampled is looked at so often at least.
const SAMPLE: Duration = Duration::from_millis(10);
/// The shortest joined phase between two split ones, as a share of a split phase's length: so that calls which have just
/// come, and are not stashed yet, find one too.
const JOINED_SHARE: u32 = 16;
/// A call that was stashed and runs longer than so many phases holds the next split phase up no more.
const PATIENCE_PHASES: u32 = 4;
/// And not longer than this, if phases are short.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is wanted of the log stage.
#[derive(Default)]
pub(crate) struct PhaseChange {
    /// 0: nothing; else the phase, plus one.
    wanted: AtomicU32,
    /// What the last change came to.
    outcome: Mutex<Option<bool>>,
    changed: Condvar,
    stop: AtomicBool,
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

    /// Has the log stage change the phase, and waits for it. Whether it could be done.
    fn request(&self, engine: &Engine, phase: Phase) -> bool {
        let mut outcome = self.outcome.lock();
        *outcome = None;
        self.wanted.store(1 + phase as u32, Ordering::Release);
        engine.log_event_count().ring();
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
        self.stop.store(true, Ordering::Release);
    }
}

/// The life of the coordinator's thread.
pub(crate) fn run(engine: &Arc<Engine>, input: &Input) {
    let Some(phases) = engine.protocol().phases() else { return };
    let coordinator = Coordinator { engine, input, phases };
    while !coordinator.is_stopped() {
        if coordinator.joined_phase() && coordinator.change(Phase::Split) {
            coordinator.split_phases();
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
        // Acquire pairs with the release in `stop`.
        self.engine.phase_change().stop.load(Ordering::Acquire)
    }

    fn change(&self, phase: Phase) -> bool {
        self.engine.phase_change().request(self.engine, phase)
    }

    /// One turn of a joined phase: whether a split phase should follow.
    fn joined_phase(&self) -> bool {
        let begun = Instant::now();
        let least = if self.engine.stash().outstanding() > 0 || self.phases.has_just_joined() {
            self.phases.length() / JOINED_SHARE
        } else {
            self.phases.length().min(SAMPLE)
        };
        self.sleep(least, || false);
        let patience = (PATIENCE_PHASES * self.phases.length()).max(PATIENCE);
        while self.engine.stash().outstanding() > 0 && begun.elapsed() < patience && !self.is_stopped() {
            std::thread::sleep(LOOK);
        }
        !self.is_stopped() && self.phases.end_joined(self.engine.store(), begun.elapsed())
    }

    /// Split phases, one after another while nobody waits; the last has ended when it returns.
    fn split_phases(&self) {
        loop {
            let (begun, stashed) = (Instant::now(), self.engine.stash().stashed());
            let committed = self.engine.store().committed();
            let waiting = || self.engine.stash().stashed() - stashed;
            self.sleep(self.phases.length(), || {
                self.phases.should_hurry(waiting(), self.engine.store().committed() - committed)
            });
            let again = self.phases.end_split(self.engine.store(), begun.elapsed(), waiting());
            if again
                && !self.is_stopped()
                && self.engine.stash().outstanding() == 0
                && self.change(Phase::SplitAgain)
            {
                continue;
            }
            // Never refused: what is split can be merged in any epoch, and in one that cannot end, too.
            self.change(Phase::Joined);
            let mut calls = self.engine.stash().take();
            self.input.append_to_workers(self.engine, &mut calls);
            return;
        }
    }

    /// Sleeps so long, or until there is a reason not to.
    fn sleep(&self, time: Duration, reason: impl Fn() -> bool) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed())
            && !self.is_stopped()
            && !reason()
        {
            std::thread::sleep(left.min(LOOK.max(time / 16)));
        }
    }
}
