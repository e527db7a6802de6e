//! How the parts of a call over several executors run, meet, and become one commit.
//!
//! Who reports last in a phase is at its rendezvous point, on whichever executor that is. At the last one the parts
//! are joined in this executor's memory, and the one commit contract does the rest: one stamp, one piece of redo. Then
//! all executors concerned are told that the call has ended, and give its locks up, long before the log is written.

use std::cell::RefCell;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::executor::Bench;
use super::flow::{Meeting, Phase};
use super::part::Part;
use crate::base::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::pipeline::call::{Gathered, Output};
use crate::pipeline::execute::{Body, Outcome, Verdict, conclude, run_body, wait_for_log_space};
use crate::protocol::Try;
use crate::protocol::attempt::Attempt;
use crate::storage::reclaim::{collect_deleted, collect_placeholders, hand_over_garbage};
use crate::storage::worker_context::{Counters, Memory};
use crate::types::Value;

/// Some actions of a phase, as a body.
struct Actions<'p> {
    phase: &'p Phase,
    numbers: Vec<usize>,
    gathered: Vec<(usize, Gathered)>,
    /// The action that is running.
    at: usize,
}

impl Body for Actions<'_> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        let Phase { flow, footprint, values, .. } = self.phase;
        let parts = flow.entrant.routine.parts();
        for &number in &self.numbers {
            if self.phase.leaves_out(number) {
                break;
            }
            self.at = number;
            let found = parts.find(footprint, number, attempt.guard());
            let gathered = RefCell::default();
            let call = (&flow.entrant.args, &**values, &**footprint);
            let ran = parts.run(attempt, call, number, found, &gathered);
            match attempt.take_fault() {
                Some(fault) => return Err(*fault),
                None => ran?,
            }
            self.gathered.push((number, gathered.into_inner()));
        }
        Ok(())
    }

    fn code(&self) -> usize {
        // Nobody asks here: only phases learn from what the same code did before.
        0
    }
}

impl Bench<'_> {
    /// This executor has granted its part of a phase.
    pub(super) fn run_phase(&mut self, phase: Arc<Phase>) {
        self.pins.hold(phase.owner);
        if !phase.is_gathered {
            self.run_actions(&phase, Some(self.number));
        }
        self.report(phase);
    }

    /// Runs actions of a phase: this executor's, or all of them.
    fn run_actions(&mut self, phase: &Phase, executor: Option<usize>) {
        let _work = at(Activity::Work);
        if let Err(error) = self.admit(phase) {
            return phase.refuse(error);
        }
        let Bench { engine, slot_guard, held, .. } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let part = phase.take_part(executor).put_into(&attempt);
        let protocol = engine.protocol();
        protocol.begin(&attempt, Some(&phase.footprint), Try { number: 1, code: 0 });
        let numbers = phase.actions(executor);
        let mut actions = Actions { phase, numbers, gathered: Vec::new(), at: 0 };
        let failure = run_body(&mut actions, &attempt);
        protocol.end(&attempt);
        let failure = failure.map(|error| (actions.at, error));
        phase.bring(executor, part.take_from(&attempt), actions.gathered, failure);
    }

    /// Whether a call may be executed now: who will write needs a log that takes it.
    fn admit(&mut self, phase: &Phase) -> Result<()> {
        let (_, memory) = self.slot_guard.parts();
        if phase.footprint.is_read_only() {
            return Ok(());
        }
        self.engine.admit(&mut memory.workspace.log_credit)
    }

    /// This executor has done its part of a phase, or has given way in it.
    pub(super) fn report(&mut self, phase: Arc<Phase>) {
        if !phase.turn.report() {
            return;
        }
        if phase.turn.is_marked_for_abort() {
            return self.run_again(&phase, false);
        }
        if phase.is_gathered {
            self.run_actions(&phase, None);
        }
        if let Some(error) = phase.take_refusal() {
            let outcome = Outcome::refused(phase.attempt, *error);
            return self.end(&phase, outcome, Vec::new());
        }
        match phase.meet(&self.executors.routing) {
            Meeting::Next(next) => {
                if !self.executors.enter_phase(next.clone()) {
                    self.run_again(&next, false);
                }
            }
            Meeting::Conclude(failure, rows) => self.conclude(&phase, failure, rows),
        }
    }

    /// Commits, or finds out whether the failure may be told.
    fn conclude(&mut self, phase: &Phase, failure: Option<Box<Error>>, rows: Vec<Vec<Value>>) {
        let (mut part, fits) = phase.all_parts();
        let mut failure = failure.or(fits.err().map(Box::new));
        let writes = !phase.footprint.is_read_only();
        let (mut reserved, mut met_in_writes) = (false, false);
        let outcome = loop {
            if let Err(error) = self.make_way(writes && failure.is_none(), &mut reserved) {
                break Some(Outcome::refused(phase.attempt, error));
            }
            let (verdict, left) = self.try_to_conclude(phase, part, failure.take());
            part = left;
            let waited = match verdict {
                Verdict::Done { epoch, wrote, failure } => {
                    break Some(Outcome { epoch, attempts: phase.attempt, wrote, failure, stashed: false });
                }
                Verdict::Again { in_writes } => {
                    met_in_writes = in_writes;
                    break None;
                }
                // There are no split phases here.
                Verdict::Stash => break None,
                Verdict::NextEpoch => self.engine.wait_for_next_epoch(),
                Verdict::NeedsLogSpace(bytes) => {
                    reserved = true;
                    wait_for_log_space(self.engine, &mut self.slot_guard, &mut self.held, bytes)
                }
            };
            if let Err(error) = waited {
                break Some(Outcome::refused(phase.attempt, error));
            }
        };
        if reserved {
            let (_, memory) = self.slot_guard.parts();
            self.engine.space().give_back(std::mem::take(&mut memory.workspace.log_credit));
        }
        self.collect(part);
        match outcome {
            Some(outcome) => {
                let rows = if outcome.failure.is_none() { rows } else { Vec::new() };
                self.end(phase, outcome, rows);
            }
            None => self.run_again(phase, met_in_writes),
        }
    }

    /// Sees to room in the log before a commit.
    fn make_way(&mut self, writes: bool, reserved: &mut bool) -> Result<()> {
        if !writes {
            return Ok(());
        }
        let (_, memory) = self.slot_guard.parts();
        let log_credit = &mut memory.workspace.log_credit;
        self.engine.admit(log_credit)?;
        *reserved |= self.engine.make_way(&mut self.held, log_credit)?;
        Ok(())
    }

    fn try_to_conclude(&mut self, phase: &Phase, part: Part, failure: Option<Box<Error>>) -> (Verdict, Part) {
        let _work = at(Activity::Work);
        let Bench { engine, slot_guard, held, .. } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let part = part.put_into(&attempt);
        let protocol = engine.protocol();
        protocol.begin(&attempt, Some(&phase.footprint), Try { number: 1, code: 0 });
        let verdict = conclude(engine, &attempt, failure);
        protocol.end(&attempt);
        (verdict, part.take_from(&attempt))
    }

    /// Takes out what an attempt has left: its placeholders that were not filled, and deleted records of earlier calls.
    fn collect(&mut self, part: Part) {
        let (context, memory) = self.slot_guard.parts();
        let workspace = &mut memory.workspace;
        let guard = pin();
        part.leave_placeholders(workspace);
        collect_placeholders(workspace, &guard);
        collect_deleted(
            workspace,
            self.engine.store().versions(),
            || self.engine.progress().durable(),
            &guard,
        );
        if self.engine.store().slabs().budget().is_limited() {
            hand_over_garbage(context, workspace, &guard);
        }
    }

    fn end(&mut self, phase: &Phase, outcome: Outcome, rows: Vec<Vec<Value>>) {
        let (left, _) = phase.all_parts();
        self.collect(left);
        let counters = &self.slot_guard.worker_context().counters;
        Counters::count(if outcome.failure.is_none() { &counters.committed } else { &counters.failed });
        Counters::count(&counters.went_parallel);
        phase.flow.entrant.routine.failures().note(outcome.failure.is_some());
        self.tell_ended(phase.owner, &phase.involved, phase.was_parked());
        self.tell(&phase.flow.entrant, outcome, Output { rows });
        self.let_go(phase.flow.clone());
    }

    /// An attempt will be run again. A deadlock's victim has met nobody in what it would have written.
    pub(super) fn count_aborted(&self, met_in_writes: bool) {
        let counters = &self.slot_guard.worker_context().counters;
        Counters::count(if met_in_writes { &counters.aborted_write } else { &counters.aborted_read });
    }

    /// The attempt comes to nothing: another one begins behind all that waits.
    fn run_again(&mut self, phase: &Phase, met_in_writes: bool) {
        let (left, _) = phase.all_parts();
        self.collect(left);
        self.count_aborted(met_in_writes);
        self.tell_ended(phase.owner, &phase.involved, phase.was_parked());
        self.executors.enter(phase.flow.clone(), phase.attempt + 1);
    }
}
