//! Caller-run execution: a thread that is going to wait for its call runs it itself, in the place of a worker that sleeps.
//!
//! A call through a worker's queue costs two context switches, to wake the worker and to wake the caller: twenty
//! times what a short transaction costs. A caller that would do nothing but wait saves both. What a call does, and when its
//! result is released, is the same either way.
//!
//! # Invariants
//!
//! - No more callers run calls than workers sleep ([`WorkQueues::stand_in`]): so calls that run at one time are as many as the
//!   workers, but for those that are just being woken.
//! - A call that the schedule has placed, or wants to learn of, is queued; so is every call where executors own
//!   the data, or the one worker writes the log itself (`Stages::Single`).
//!
//! [`WorkQueues::stand_in`]: crate::pipeline::work_queues::WorkQueues::stand_in

use crate::diagnostics::work_time::WorkTime;
use crate::error::{Error, Result};
use crate::pipeline::call::{Call, Output};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Outcome, with_own_slot};
use crate::pipeline::statistics::Stage;
use crate::pipeline::worker_thread::{GroupScratch, execute_group};
use crate::storage::worker_context::Counters;

/// Runs a call to its end on this thread, as a group of one. Its result is not released yet.
///
/// # Errors
/// [`Error::NoFreeSlot`], and it has not run.
pub(crate) fn execute_call(engine: &Engine, call: &Call) -> Result<(Outcome, Output)> {
    let work = WorkTime::begin();
    let mut executed = None;
    with_own_slot(engine, |slot_guard, held| {
        let scratch = &mut GroupScratch::default();
        execute_group(engine, slot_guard, held, scratch, std::iter::once(call), |_, outcome, output| {
            executed = Some((outcome, output));
        });
        let waits = |outcome: &Outcome| {
            !outcome.wrote && !outcome.stashed && !engine.progress().is_released(outcome.epoch)
        };
        if executed.as_ref().is_some_and(|(outcome, _)| waits(outcome)) {
            Counters::count(&slot_guard.worker_context().counters.readers_waited);
        }
    })
    .map_err(|error| *error)?;
    engine.clocks().add(Stage::Execute, work);
    executed.ok_or(Error::Closed)
}

/// Waits until the result of a call that has run may be released, and gives it.
///
/// # Errors
/// The call's own error; [`Error::LogFailed`] if its outcome is unknown.
pub(crate) fn release(engine: &Engine, outcome: Outcome, output: Output) -> Result<Output> {
    if outcome.wrote {
        engine.notify_log();
    }
    engine.progress().wait(outcome.epoch)?;
    outcome.failure.map_or(Ok(output), |error| Err(*error))
}
