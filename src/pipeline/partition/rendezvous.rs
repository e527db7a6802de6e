//! Runs the actions of a transaction over several executors, lets them meet at rendezvous points, and commits them as
//! one.
//!
//! The last executor to report in a phase is at its rendezvous point. At the terminal one the fragments are joined in this
//! executor's memory, and the commit contract does the rest: one stamp, one redo record. Then all executors concerned are
//! reported that the transaction has ended, and release its locks, long before the log is written.
//!
//! # Invariants
//! - A body runs on the executor that owns what it declares; on rows of several executors, or in an attempt that runs
//!   alone, on one of them, after all have granted it. Debug builds assert it.
//! - The commit installs the writes of all fragments while the local locks at all their owners are held.
//!
//! # Source
//! DORA (VLDB 2010), sections 4.1.2 and 4.2.4: before each action the executor checks whether the transaction has aborted.

use std::cell::RefCell;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::executor::{Executor, Notice};
use super::flow_graph::{AfterPhase, Failure, Phase, Requests};
use super::fragment::Fragment;
use crate::diagnostics::activity::{Activity, at};
use crate::error::Result;
use crate::pipeline::call::{Gathered, Output};
use crate::pipeline::execute::{
    Body, Ended, Outcome, Unfinished, Verdict, conclude, run_body, wait_for_log_space,
};
use crate::protocol::Try;
use crate::protocol::attempt::Attempt;
use crate::storage::foreign_keys::Reach;
use crate::storage::garbage;
use crate::storage::reclaim::{collect_deleted, collect_placeholders, hand_over_garbage};
use crate::storage::worker_context::{Counters, Memory};
use crate::types::Value;

/// Actions of a phase, as a body.
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
        let parts = flow.incoming.routine.parts();
        for &number in &self.numbers {
            if self.phase.is_aborted_before(number) {
                break;
            }
            self.at = number;
            let found = parts.find(footprint, number, attempt.guard());
            let gathered = RefCell::default();
            let call = (&flow.incoming.args, &**values, &**footprint);
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
        // Only protocols without executors learn from what the same code did before.
        0
    }
}

impl Executor<'_> {
    /// Runs this executor's actions of a phase, which it has granted.
    pub(super) fn run_phase(&mut self, phase: Arc<Phase>) {
        self.pins.hold(phase.owner);
        let actions: Vec<usize> = phase.actions_at(self.number).collect();
        if !phase.is_serial && !actions.is_empty() {
            self.run_actions(&phase, Some(self.number), actions);
        }
        self.report(phase);
    }

    /// Runs actions of a phase on this executor's fragment, or on the joined one (`None`).
    fn run_actions(&mut self, phase: &Phase, fragment_of: Option<usize>, actions: Vec<usize>) {
        self.send_notices();
        let _work = at(Activity::Work);
        self.assert_owner(phase, &actions);
        if let Err(error) = self.admit(phase) {
            return phase.refuse(error);
        }
        let Executor { engine, slot_guard, held, .. } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let fragment = phase.take_fragment(fragment_of).put_into(&attempt);
        let protocol = engine.protocol_of(&attempt);
        protocol.begin(&attempt, Some(&phase.footprint), Try { number: 1, code: 0 });
        let mut body = Actions { phase, numbers: actions, gathered: Vec::new(), at: 0 };
        let failure = run_body(&mut body, &attempt);
        protocol.end(&attempt);
        // It belongs to this transaction, which may be concluded elsewhere.
        let needs_another = std::mem::take(&mut attempt.held().borrow_mut().needs_another);
        let failure = failure.map(|error| (body.at, Failure { error, needs_another }));
        phase.record(fragment_of, fragment.take_from(&attempt), body.gathered, failure);
    }

    /// Admits a transaction, which may then be executed: one that writes needs a log that accepts redo.
    fn admit(&mut self, phase: &Phase) -> Result<()> {
        let (_, memory) = self.slot_guard.parts();
        if phase.footprint.is_read_only() {
            return Ok(());
        }
        self.engine.admit(&mut memory.workspace.log_credit).map_err(|error| *error)
    }

    /// Reports that this executor has granted a serial phase, has run its part of a parallel one, or has learned that the
    /// attempt is the victim of a deadlock.
    pub(super) fn report(&mut self, phase: Arc<Phase>) {
        if !phase.countdown.report() {
            return;
        }
        if phase.countdown.is_marked_for_abort() {
            return self.retry(&phase, false);
        }
        self.run_steps(phase, 0);
    }

    /// Runs the steps of a serial phase from this one on, as far as they are this executor's; then the phase has ended.
    pub(super) fn run_steps(&mut self, phase: Arc<Phase>, mut number: usize) {
        while let Some((executor, actions)) = phase.step(number) {
            if executor != self.number {
                return self.notify(executor, Notice::Step(phase, number));
            }
            self.run_actions(&phase, None, actions.collect());
            number += 1;
        }
        self.end_phase(&phase);
    }

    /// Starts a phase of an attempt that has entered.
    fn start_phase(&mut self, phase: Arc<Phase>) {
        if phase.requests == Requests::Deferred {
            if !self.executors.enter_phase(&phase) {
                self.retry(&phase, false);
            }
        } else if phase.is_serial {
            self.run_steps(phase, 0);
        } else {
            let number = self.number;
            for &executor in phase.route.iter().filter(|executor| **executor != number) {
                self.notify(executor, Notice::Run(phase.clone()));
            }
            if phase.route.contains(&self.number) {
                self.run_phase(phase);
            }
        }
    }

    /// Ends a phase at its rendezvous point.
    fn end_phase(&mut self, phase: &Phase) {
        if let Some(error) = phase.take_refusal() {
            let outcome = Outcome::refused(phase.attempt, *error);
            return self.end(phase, outcome, Vec::new());
        }
        match phase.after(&self.executors.map) {
            AfterPhase::Next(next) => self.start_phase(next),
            AfterPhase::Conclude(failure, rows) => self.conclude(phase, failure, rows),
        }
    }

    /// Commits, or validates the reads of a transaction that has failed, so that its error can be reported.
    fn conclude(&mut self, phase: &Phase, failure: Option<Failure>, rows: Vec<Vec<Value>>) {
        let (mut fragment, fits) = phase.join_fragments();
        let mut failure = failure.or(fits.err().map(Failure::from));
        let writes = !phase.footprint.is_read_only();
        let (mut reserved, mut write_conflict) = (false, false);
        let outcome = loop {
            if let Err(error) = self.reserve_log_space(writes && failure.is_none(), &mut reserved) {
                break Some(Outcome::refused(phase.attempt, error));
            }
            let (verdict, left) = self.try_to_conclude(phase, fragment, failure.take());
            fragment = left;
            let waited = match verdict {
                Ok(Ended { epoch, wrote, failure }) => {
                    break Some(Outcome { epoch, attempts: phase.attempt, wrote, failure, stashed: false });
                }
                Err(Unfinished::Again { in_writes }) => {
                    write_conflict = in_writes;
                    break None;
                }
                // There are no split phases under this protocol.
                Err(Unfinished::Stash) => break None,
                Err(Unfinished::NextEpoch) => self.engine.wait_for_next_epoch(),
                Err(Unfinished::NeedsLogSpace(bytes)) => {
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
        self.collect(fragment);
        match outcome {
            Some(outcome) => {
                let rows = if outcome.failure.is_none() { rows } else { Vec::new() };
                self.end(phase, outcome, rows);
            }
            None => match phase.again(&self.executors.map) {
                Some(again) => {
                    self.count_aborted(write_conflict);
                    self.start_phase(again);
                }
                None => self.retry(phase, write_conflict),
            },
        }
    }

    /// Reserves log space before a commit.
    fn reserve_log_space(&mut self, writes: bool, reserved: &mut bool) -> Result<()> {
        if !writes {
            return Ok(());
        }
        let (_, memory) = self.slot_guard.parts();
        let log_credit = &mut memory.workspace.log_credit;
        self.engine.admit(log_credit).map_err(|error| *error)?;
        *reserved |= self.engine.make_way(&mut self.held, log_credit)?;
        Ok(())
    }

    fn try_to_conclude(
        &mut self,
        phase: &Phase,
        fragment: Fragment,
        failure: Option<Failure>,
    ) -> (Verdict, Fragment) {
        let _work = at(Activity::Work);
        let Executor { engine, slot_guard, held, .. } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let fragment = fragment.put_into(&attempt);
        let protocol = engine.protocol_of(&attempt);
        protocol.begin(&attempt, Some(&phase.footprint), Try { number: 1, code: 0 });
        attempt.set_deferred(phase.footprint.reach() != Reach::Nothing);
        let failure = failure.map(|Failure { error, needs_another }| {
            attempt.held().borrow_mut().needs_another = needs_another;
            error
        });
        let verdict = conclude(engine, protocol, &attempt, failure);
        protocol.end(&attempt);
        (verdict, fragment.take_from(&attempt))
    }

    /// Collects the placeholders that an attempt has not filled, and deleted records of earlier transactions.
    fn collect(&mut self, fragment: Fragment) {
        let (context, memory) = self.slot_guard.parts();
        let workspace = &mut memory.workspace;
        let guard = pin();
        fragment.leave_placeholders(workspace);
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
        garbage::collect(&guard);
    }

    fn end(&mut self, phase: &Phase, outcome: Outcome, rows: Vec<Vec<Value>>) {
        let (left, _) = phase.join_fragments();
        self.collect(left);
        let counters = &self.slot_guard.worker_context().counters;
        Counters::count(if outcome.failure.is_none() { &counters.committed } else { &counters.failed });
        Counters::count(if phase.is_serial { &counters.went_serial } else { &counters.went_parallel });
        phase.flow.incoming.routine.failures().note(outcome.failure.is_some());
        self.announce_end(phase.owner, &phase.involved, phase.was_parked());
        self.report_outcome(&phase.flow.incoming, outcome, Output { rows });
        self.end_flow(phase.flow.clone());
    }

    /// Counts an aborted attempt; the victim of a deadlock has no conflict in its writes.
    pub(super) fn count_aborted(&self, write_conflict: bool) {
        let counters = &self.slot_guard.worker_context().counters;
        Counters::count(if write_conflict { &counters.aborted_write } else { &counters.aborted_read });
    }

    /// Aborts the attempt, and enters the next one behind everything that waits.
    fn retry(&mut self, phase: &Phase, write_conflict: bool) {
        let (left, _) = phase.join_fragments();
        self.collect(left);
        self.count_aborted(write_conflict);
        self.announce_end(phase.owner, &phase.involved, phase.was_parked());
        self.executors.enter_flow(phase.flow.clone(), phase.attempt + 1);
    }
}
