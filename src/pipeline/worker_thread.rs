//! The execute stage: workers take groups of calls from their queues and run them.
//!
//! The keys of a group's calls are looked up together before the first one runs, so that their cache misses overlap
//! and nothing is held meanwhile (docs/decisions, row layout and prefetching). And a protocol may keep what it holds
//! from one call of a group to the next.

use std::cell::RefCell;
use std::sync::Arc;

use crossbeam_epoch::{Guard, pin};

use crate::diagnostics::activity::{Activity, at};
use crate::diagnostics::work_time::WorkTime;
use crate::pipeline::call::{Call, Found, Gathered, Output, Routine, Run};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Outcome, execute};
use crate::pipeline::input::Input;
use crate::pipeline::log::OwnLog;
use crate::pipeline::output::Finished;
use crate::pipeline::statistics::Stage;
use crate::protocol::Held;
use crate::protocol::footprint::Footprint;
use crate::storage::garbage;
use crate::storage::worker_context::{Counters, SlotGuard};
use crate::types::Args;

/// The most calls that run as one group: what a group holds, it holds for this many calls at most.
pub(crate) const GROUP_CALLS: usize = 64;
/// Distance, in calls, at which a call's index lines are prefetched before its look-up.
const AHEAD: usize = 8;

/// A call that a group can look ahead to.
pub(crate) trait Pending {
    /// The procedure's type; `dyn` where it is not known.
    type Routine: Routine + ?Sized;

    /// The procedure, the arguments, and what they touch.
    fn parts(&self) -> (&Self::Routine, &Args, &Footprint);
}

impl<P: Pending> Pending for &P {
    type Routine = P::Routine;

    #[inline]
    fn parts(&self) -> (&P::Routine, &Args, &Footprint) {
        (*self).parts()
    }
}

impl Pending for Call {
    type Routine = dyn Routine;

    fn parts(&self) -> (&(dyn Routine + 'static), &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

/// Memory that a thread keeps from group to group.
#[derive(Default)]
pub(crate) struct GroupScratch {
    /// Records that were looked up ahead for the calls of the group.
    found: Vec<Found>,
    /// Rows and values that the running call has gathered.
    gathered: RefCell<Gathered>,
}

/// Runs a group of calls in order, and tells `done` how each ended.
pub(crate) fn execute_group<P: Pending>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    scratch: &mut GroupScratch,
    calls: impl ExactSizeIterator<Item = P> + Clone,
    mut done: impl FnMut(usize, Outcome, Output),
) {
    let _work = at(Activity::Work);
    let mut guard = pin();
    let GroupScratch { found, gathered } = scratch;
    found.clear();
    look_ahead(engine, slot_guard, found, calls.clone(), &guard);
    held.in_group = calls.len() > 1;
    let mut left = &found[..];
    let mut next = calls.clone();
    fetch_long_values(next.next(), left);
    for (number, call) in calls.enumerate() {
        let (own, others) = left.split_at(call.parts().2.references.len());
        left = others;
        fetch_long_values(next.next(), left);
        let (outcome, output) = execute_found(engine, slot_guard, held, &call, own, gathered, &guard);
        done(number, outcome, output);
    }
    gathered.get_mut().clear_and_free_unusual();
    held.in_group = false;
    engine.end_group(held);
    garbage::collect(&guard);
    guard.repin();
}

/// Runs one call of a group. `found`: what was looked up ahead for its keys, behind the same guard.
#[inline]
pub(crate) fn execute_found<P: Pending>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    call: &P,
    found: &[Found],
    gathered: &RefCell<Gathered>,
    guard: &Guard,
) -> (Outcome, Output) {
    let (routine, args, footprint) = call.parts();
    let mut body = Run { routine, args, footprint, found, gathered };
    let outcome = execute(engine, slot_guard, held, guard, Some(footprint), &mut body);
    (outcome, body.output())
}

/// Looks up the keys of all calls of a group before the first one runs: nothing is held then, and the cache misses of
/// many calls overlap. Each call's index lines are asked for some calls ahead of its look-up.
/// Puts one entry for each key behind those that are there.
fn look_ahead<P: Pending>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    found: &mut Vec<Found>,
    calls: impl Iterator<Item = P> + Clone,
    guard: &Guard,
) {
    let mut ahead = calls.clone();
    let prefetch = |call: P| {
        let (routine, _, footprint) = call.parts();
        routine.prefetch(footprint, guard);
    };
    ahead.by_ref().take(AHEAD).for_each(prefetch);
    for call in calls {
        ahead.next().into_iter().for_each(prefetch);
        let (routine, _, footprint) = call.parts();
        routine.find(footprint, found, guard);
    }
    let (_, memory) = slot_guard.parts();
    engine.store().slabs().fetch_ahead(&mut memory.workspace.cutter);
}

/// Fetches the long values that the next call will read while another one runs, as far as they are known. `found`
/// begins with its records.
#[inline]
fn fetch_long_values<P: Pending>(next: Option<P>, found: &[Found]) {
    if let Some(call) = &next {
        let (routine, args, footprint) = call.parts();
        routine.fetch_long_values(args, footprint, &found[..footprint.references.len()]);
    }
}

/// Empties a group that has run: its stashed calls go into the stash, or stay if the split phase has ended meanwhile.
fn keep_stashed(engine: &Engine, calls: &mut Vec<Call>, stashed: &mut Vec<usize>) {
    let waiting: Vec<Call> = stashed.drain(..).rev().map(|number| calls.swap_remove(number)).collect();
    calls.clear();
    calls.extend(waiting.into_iter().filter_map(|call| engine.stash().put(call)));
}

/// The life of a worker. `own_log`: it logs itself what it has executed.
pub(crate) fn run(engine: &Arc<Engine>, input: &Input, number: usize, own_log: Option<&mut OwnLog>) {
    let mut slot_guard = engine.store().worker_contexts().take();
    let worker_context = slot_guard.worker_context();
    engine.show(worker_context, Activity::Handover, || {
        take_and_execute(engine, input, &mut slot_guard, number, own_log)
    });
}

fn take_and_execute(
    engine: &Arc<Engine>,
    input: &Input,
    slot_guard: &mut SlotGuard<'_>,
    number: usize,
    mut own_log: Option<&mut OwnLog>,
) {
    let mut held = Held::default();
    let mut calls = Vec::new();
    let mut scratch = GroupScratch::default();
    let mut finished = Vec::new();
    let mut stashed = Vec::new();
    loop {
        if calls.is_empty() {
            // A worker that logs itself executes no more than the log group takes: else it would wait in the middle of a
            // batch for another thread to write the full group.
            let room = own_log
                .as_ref()
                .map_or(u64::MAX, |_| engine.store().epochs().remaining_transactions().max(1));
            let at_most = usize::try_from(room).unwrap_or(usize::MAX).min(GROUP_CALLS);
            input.workers().take(number, at_most, &mut calls);
        }
        if calls.is_empty() {
            return;
        }
        let work = WorkTime::begin();
        let counters = &slot_guard.worker_context().counters;
        let mut wrote = false;
        execute_group(engine, slot_guard, &mut held, &mut scratch, calls.iter(), |place, outcome, output| {
            wrote |= outcome.wrote;
            if let Some(since) = calls[place].stashed {
                engine.stash().has_ended(since, outcome.stashed);
            }
            if outcome.stashed {
                return stashed.push(place);
            }
            if let Some(references) = &calls[place].noted {
                input.schedule().ended(references, outcome.attempts.saturating_sub(1));
            }
            if outcome.attempts > 1 {
                calls[place].answer.count_aborted(outcome.attempts - 1);
            }
            if !outcome.wrote && !engine.progress().is_released(outcome.epoch) {
                Counters::count(&counters.readers_waited);
            }
            let result = outcome.failure.map_or(Ok(output), |error| Err(*error));
            finished.push(Finished { answer: calls[place].answer.clone(), epoch: outcome.epoch, result });
        });
        engine.clocks().add(Stage::Execute, work);
        engine.output().put(engine, &mut finished);
        match &mut own_log {
            Some(log) => {
                let _log = at(Activity::Log);
                log.after_group(engine, wrote, input.workers().waiting(number) == 0);
            }
            None if wrote => engine.notify_log(),
            None => {}
        }
        // Last: with a call its procedure may go, and with that the last handle, which closes the database.
        keep_stashed(engine, &mut calls, &mut stashed);
    }
}
