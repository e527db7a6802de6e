//! Runs a call to its end: attempts, until one commits or fails with an error of its own.
//!
//! An attempt runs the body, which reads records and buffers its writes, and then commits. It changes no row before its
//! commit section, so an attempt that aborts drops its buffers, and the body is executed again. Waits for log space and
//! for the next epoch, and the pause after a conflict, are between two attempts, after all protocol resources were
//! released: no other transaction waits for one that waits for the log. An attempt that needs the end of a split phase
//! does not wait here: its call is stashed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bumpalo::Bump;
use crossbeam_epoch::Guard;

use crate::base::atomics::Ordering;
use crate::diagnostics::activity::{Activity, Before};
use crate::diagnostics::work_time::waiting;
use crate::error::{Error, Result};
use crate::pipeline::call::Routine;
use crate::pipeline::engine::Engine;
use crate::pipeline::nesting::{self, Inside};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::{Held, Hold, Protocol, Try};
use crate::storage::commit::CommitFailure;
use crate::storage::garbage;
use crate::storage::reclaim::{collect_deleted, collect_placeholders, hand_over_garbage};
use crate::storage::word::Stamp;
use crate::storage::worker_context::{Counters, Memory, SlotGuard, SlotUse};
use crate::types::Args;

/// A transaction's body, which may be run several times.
pub(crate) trait Body {
    /// Runs it in this attempt.
    ///
    /// # Errors
    /// Its own; or [`Error::Conflict`], and it is retried.
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()>;

    /// The address of its code.
    fn code(&self) -> usize;

    /// Returns true if its end is the end of a transaction, and is counted as such.
    #[inline]
    fn is_whole(&self) -> bool {
        true
    }

    /// Returns true if its attempts may have to reserve hot rows for as long as each lasts.
    #[inline]
    fn reserves(&self) -> bool {
        true
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The highest epoch that it wrote or met: its result is released once that is durable.
    pub(crate) epoch: u64,
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// True if it has changed anything.
    pub(crate) wrote: bool,
    /// The error that it ended in, if it did. In a box, as everywhere on the way out: so what is handed on after a call
    /// that succeeded, which is nearly every one, is small.
    pub(crate) failure: Option<Box<Error>>,
    /// True if it has not ended at all, but must wait for the end of the split phase.
    pub(crate) stashed: bool,
}

impl Outcome {
    /// The outcome of a call that has not executed.
    #[cold]
    pub(crate) fn refused(attempts: u32, error: Error) -> Outcome {
        Outcome { epoch: 0, attempts, wrote: false, failure: Some(Box::new(error)), stashed: false }
    }
}

/// The outcome of an attempt that has ended its call.
pub(super) struct Ended {
    pub(super) epoch: u64,
    pub(super) wrote: bool,
    pub(super) failure: Option<Box<Error>>,
}

/// The reason why an attempt has not ended its call. It is apart from [`Ended`], which nearly every attempt returns, so
/// that `Ended` is passed in registers.
pub(super) enum Unfinished {
    Again {
        /// True if the conflict is about a row that it would have written, rather than one that it had read.
        in_writes: bool,
    },
    Stash,
    NeedsLogSpace(usize),
    NextEpoch,
}

/// The outcome of one attempt.
pub(super) type Verdict = std::result::Result<Ended, Unfinished>;

/// Runs a body on the caller's thread, in a slot that it has for as long, until it has ended or is stashed. `is_reader`:
/// it reads from a snapshot.
pub(crate) fn execute_here(engine: &Engine, body: &mut dyn Body, is_reader: bool) -> Outcome {
    execute_in_own_slot(engine, body, is_reader)
}

/// Same as [`execute_here`], compiled into its caller, to which the outcome is given in registers.
// Without a closure, which two callers would call, as a function apart.
#[inline(always)]
pub(crate) fn execute_in_own_slot(engine: &Engine, body: &mut dyn Body, is_reader: bool) -> Outcome {
    let (mut slot_guard, mut held, _shown) = match take_own_slot(engine) {
        Ok(taken) => taken,
        Err(error) => return Outcome::refused(1, *error),
    };
    let guard = crossbeam_epoch::pin();
    let ended = match is_reader {
        true => execute_reading(engine, &mut slot_guard, &mut held, &guard, body),
        false => execute(engine, &mut slot_guard, &mut held, &guard, None, body),
    };
    if !ended.wrote && !engine.progress().is_released(ended.epoch) && body.is_whole() {
        Counters::count(&slot_guard.worker_context().counters.readers_waited);
    }
    slot_guard.parts().1.free_unusual();
    garbage::collect(&guard);
    keep_held(held);
    ended
}

/// Executes on the caller's thread, in a slot that it has for as long.
///
/// # Errors
/// [`Error::NoFreeSlot`], and nothing was executed.
pub(crate) fn with_own_slot<T>(
    engine: &Engine,
    work: impl FnOnce(&mut SlotGuard<'_>, &mut Held) -> T,
) -> Result<T, Box<Error>> {
    let (mut slot_guard, mut held, _shown) = take_own_slot(engine)?;
    let given = work(&mut slot_guard, &mut held);
    keep_held(held);
    Ok(given)
}

/// A slot for the caller's thread, what the thread holds of the protocol's, and that it shows there what it is at.
#[inline(always)]
fn take_own_slot(engine: &Engine) -> Result<(SlotGuard<'_>, Box<Held>, Option<Before<'_>>), Box<Error>> {
    let slot_guard = engine.store().worker_contexts().take_for(SlotUse::Transaction)?;
    let worker_context = slot_guard.worker_context();
    worker_context.set_executing(true);
    // Taken out and put back, not borrowed: so what is executed gives its outcome through no other function.
    Ok((slot_guard, HELD.take().unwrap_or_default(), engine.begin_to_show(worker_context, Activity::Work)))
}

/// Keeps what the thread holds of the protocol's for its next transaction.
#[inline(always)]
fn keep_held(held: Box<Held>) {
    if let Some(another) = HELD.replace(Some(held)) {
        free(another);
    }
}

thread_local! {
    /// Protocol resources of this thread, kept so that they are not allocated for each call.
    static HELD: Cell<Option<Box<Held>>> = const { Cell::new(None) };
}

/// Apart, as nearly never anything was put there meanwhile.
#[cold]
#[inline(never)]
fn free(_: Box<Held>) {}

/// Runs a call to its end. Its protocol resources are released, except within a group.
// Inlined, as what it calls is: apart, a call of a group would cost a twentieth more instructions.
#[inline(always)]
pub(crate) fn execute<B: Body + ?Sized>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    guard: &Guard,
    footprint: Option<&Footprint>,
    body: &mut B,
) -> Outcome {
    let declared_writes = footprint.is_some_and(|footprint| !footprint.is_read_only());
    let may_write = footprint.is_none() || declared_writes;
    let mut number = 0;
    let (mut reserved, mut replaced) = (false, false);
    let outcome = loop {
        wait_while_held_off(engine, held);
        number += 1;
        let (_, memory) = slot_guard.parts();
        let log_credit = &mut memory.workspace.log_credit;
        let refused = if may_write { engine.admit(log_credit).err() } else { None };
        if declared_writes {
            if let Some(error) = refused {
                break Outcome::refused(number, *error);
            }
            match engine.make_way(held, log_credit) {
                Ok(alone) => reserved |= alone,
                Err(error) => break Outcome::refused(number, error),
            }
        }
        let counters = &slot_guard.worker_context().counters;
        let attempted = Try { number, code: body.code() };
        match attempt(engine, slot_guard, held, guard, footprint, body, attempted, refused.as_deref()) {
            Ok(Ended { epoch, wrote, failure }) => {
                if body.is_whole() {
                    Counters::count(if failure.is_none() { &counters.committed } else { &counters.failed });
                }
                break Outcome { epoch, attempts: number, wrote, failure, stashed: false };
            }
            Err(unfinished) => match prepare_next(engine, slot_guard, held, unfinished, number) {
                Ok(next) => {
                    if next.is_replaced {
                        // Under another protocol it begins from the beginning.
                        number = 0;
                        count_replaced(engine, &mut replaced);
                    }
                    number -= u32::from(next.is_same_attempt);
                    reserved |= next.has_reserved;
                }
                Err(outcome) => break outcome,
            },
        }
    };
    if reserved {
        let (_, memory) = slot_guard.parts();
        engine.space().give_back(std::mem::take(&mut memory.workspace.log_credit));
    }
    if replaced {
        // Release: pairs with the acquire of the thread that wants the next change.
        engine.replaced().fetch_sub(1, Ordering::Release);
    }
    outcome
}

/// Counts a transaction whose protocol was replaced while it ran: until it has ended no other change is made, so that
/// changes starve no transaction.
#[cold]
fn count_replaced(engine: &Engine, replaced: &mut bool) {
    if !std::mem::replace(replaced, true) {
        // Relaxed: a change that misses it is made, and the transaction is retried once more.
        engine.replaced().fetch_add(1, Ordering::Relaxed);
    }
}

/// The attempt that follows one which has not ended the call.
struct NextAttempt {
    /// True if the last one met no conflict, so that it does not count.
    is_same_attempt: bool,
    /// True if room in the log was reserved for it.
    has_reserved: bool,
    /// True if the last one ran under a protocol that is no longer in force.
    is_replaced: bool,
}

/// Waits for what an attempt needs that has not ended the call, and makes ready for the next one.
///
/// # Errors
/// The outcome of the call, which ends here: no error of its own.
#[cold]
#[inline(never)]
fn prepare_next(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    unfinished: Unfinished,
    number: u32,
) -> Result<NextAttempt, Outcome> {
    let counters = &slot_guard.worker_context().counters;
    let (waited, has_reserved) = match unfinished {
        Unfinished::Stash => {
            engine.end_group(held);
            return Err(Outcome { epoch: 0, attempts: number, wrote: false, failure: None, stashed: true });
        }
        Unfinished::Again { .. } if engine.is_replaced(held) => {
            engine.end_group(held);
            return Ok(NextAttempt { is_same_attempt: false, has_reserved: false, is_replaced: true });
        }
        Unfinished::Again { in_writes } => {
            Counters::count(if in_writes { &counters.aborted_write } else { &counters.aborted_read });
            // What the retry waits for may need what the group holds: a sequence's values are reserved by a transaction.
            engine.end_group(held);
            engine.retry().pause(number);
            return Ok(NextAttempt { is_same_attempt: false, has_reserved: false, is_replaced: false });
        }
        Unfinished::NextEpoch => {
            // The next epoch begins when the log has written the last one: no partition is held over that.
            engine.end_group(held);
            (engine.wait_for_next_epoch(), false)
        }
        Unfinished::NeedsLogSpace(bytes) => (wait_for_log_space(engine, slot_guard, held, bytes), true),
    };
    match waited {
        Ok(()) => Ok(NextAttempt { is_same_attempt: true, has_reserved, is_replaced: false }),
        Err(error) => Err(Outcome::refused(number, error)),
    }
}

/// Lets a transaction through that others starve, with nothing of the protocol's in hand.
#[inline]
fn wait_while_held_off(engine: &Engine, held: &mut Held) {
    if engine.hold_offs().is_active() {
        engine.end_group(held);
        engine.hold_offs().wait();
    }
}

/// Runs a body that reads from a snapshot: once, and beside all protocols.
#[inline(never)]
fn execute_reading<B: Body + ?Sized>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    guard: &Guard,
    body: &mut B,
) -> Outcome {
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    arena.reset();
    let attempt = Attempt::new(engine.store(), worker_context, guard, arena, workspace, reads, held, None);
    let failure = run_body(body, &attempt);
    Outcome { epoch: attempt.seen().epoch(), attempts: 1, wrote: false, failure, stashed: false }
}

/// Reserves room in the log for a call of this size.
#[cold]
pub(super) fn wait_for_log_space(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    bytes: usize,
) -> Result<()> {
    engine.end_group(held);
    // All its resources are released first: a thread that waits for room keeps none, so no two threads wait for each
    // other.
    let (_, memory) = slot_guard.parts();
    engine.space().give_back(std::mem::take(&mut memory.workspace.log_credit));
    engine.reserve(bytes)?;
    memory.workspace.log_credit = bytes;
    Ok(())
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn attempt<B: Body + ?Sized>(
    engine: &Engine,
    slot_guard: &mut SlotGuard<'_>,
    held: &mut Held,
    guard: &Guard,
    footprint: Option<&Footprint>,
    body: &mut B,
    attempted: Try,
    updates_refused: Option<&Error>,
) -> Verdict {
    engine.release_what_is_replaced(held);
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    arena.reset();
    let arena: &Bump = arena;
    let attempt =
        Attempt::new(engine.store(), worker_context, guard, arena, workspace, reads, held, updates_refused);
    if engine.hot_rows().concern(attempted) && body.reserves() {
        attempt.set_hot_rows(engine.hot_rows());
    }
    let protocol = engine.protocol_of(&attempt);
    protocol.begin(&attempt, footprint, attempted);
    let ran = run_body(body, &attempt);
    let verdict = conclude(engine, protocol, &attempt, ran);
    if let Ok(Ended { wrote: true, epoch, .. }) = &verdict
        && engine.store().is_logged()
        && protocol.hold() == Hold::UntilDurable
    {
        wait_until_durable(engine, *epoch);
    }
    protocol.end(&attempt);
    drop(attempt);
    if !workspace.placeholders.is_empty() {
        collect_placeholders(workspace, guard);
    }
    collect_deleted(workspace, engine.store().versions(), || engine.progress().durable(), guard);
    if engine.store().slabs().budget().is_limited() {
        hand_over_garbage(worker_context, workspace, guard);
    }
    verdict
}

/// Waits for the log with everything in the call's hands.
#[cold]
fn wait_until_durable(engine: &Engine, epoch: u64) {
    let _log = waiting(Activity::Log);
    engine.notify_log();
    // A failure is returned to the caller when the result is released.
    let _ = engine.progress().wait(epoch);
}

/// Runs the body; what it ended in, if not well.
#[inline(always)]
pub(super) fn run_body<B: Body + ?Sized>(body: &mut B, attempt: &Attempt<'_>) -> Option<Box<Error>> {
    let _inside = Inside::enter();
    let mut failure = None;
    // A body that panicked is not called again in that state unless it says so itself: closures may be called again,
    // like any `FnMut`, and what they have changed outside of the transaction is theirs.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        if let Err(error) = body.run(attempt) {
            failure = Some(Box::new(error));
        }
    }));
    if let Err(panic) = ran {
        failure = Some(Box::new(panicked(&*panic)));
    }
    if failure.is_some() && nesting::has_met_conflict() {
        failure = Some(Box::new(Error::Conflict));
        attempt.held().borrow_mut().needs_another = true;
    }
    failure
}

#[inline(always)]
pub(super) fn conclude(
    engine: &Engine,
    protocol: &dyn Protocol,
    attempt: &Attempt<'_>,
    failure: Option<Box<Error>>,
) -> Verdict {
    let mut failure = attempt.take_fault().or(failure);
    if attempt.has_deferred() && failure.is_none() {
        failure = attempt.check_deferred().err().map(Box::new);
    }
    if let Some(failure) = failure {
        return conclude_failed(engine, protocol, attempt, failure);
    }
    let committed = match protocol.commit(attempt) {
        Ok(committed) => committed,
        Err(failure) => return conclude_uncommitted(engine, protocol, attempt, failure),
    };
    // A schema change since the attempt began may have put tables in place of those that it has read, and commits of
    // another protocol may have changed what it read in between.
    if committed.is_none() && !attempt.is_of_current_schema() && !attempt.has_read_nothing() {
        return Err(Unfinished::Again { in_writes: false });
    }
    let seen = committed.unwrap_or_else(|| attempt.seen());
    Ok(ended(protocol, attempt, seen, committed.is_some(), None))
}

/// An attempt that has met this stamp has ended its call.
#[inline(always)]
fn ended(
    protocol: &dyn Protocol,
    attempt: &Attempt<'_>,
    seen: Stamp,
    wrote: bool,
    failure: Option<Box<Error>>,
) -> Ended {
    let epoch = protocol.release_epoch(attempt, seen.epoch());
    Ended { epoch, wrote, failure }
}

/// An attempt has met a rival, and is retried.
#[cold]
fn again(engine: &Engine, protocol: &dyn Protocol, attempt: &Attempt<'_>) -> Unfinished {
    if engine.is_replaced(&attempt.held().borrow()) {
        // No rival has failed it.
        return Unfinished::Again { in_writes: false };
    }
    let splits = protocol.phases().is_some();
    Unfinished::Again { in_writes: attempt.met_rival_in_writes(engine.hot_rows(), splits) }
}

/// Concludes an attempt whose commit has failed.
#[cold]
fn conclude_uncommitted(
    engine: &Engine,
    protocol: &dyn Protocol,
    attempt: &Attempt<'_>,
    failure: CommitFailure,
) -> Verdict {
    match failure {
        CommitFailure::Conflict => Err(again(engine, protocol, attempt)),
        CommitFailure::Stash => Err(Unfinished::Stash),
        CommitFailure::EpochFull => Err(Unfinished::NextEpoch),
        CommitFailure::NeedsLogSpace(bytes) => Err(Unfinished::NeedsLogSpace(bytes)),
        CommitFailure::Refused(error, _) if matches!(*error, Error::Closed) => {
            // The log has ended: because it has failed, if it has.
            let failure = Box::new(engine.progress().failure().unwrap_or(Error::Closed));
            Ok(ended(protocol, attempt, attempt.seen(), false, Some(failure)))
        }
        CommitFailure::Refused(error, met) => {
            Ok(ended(protocol, attempt, attempt.seen().max(met), false, Some(error)))
        }
    }
}

/// Concludes an attempt whose body has ended in an error.
#[cold]
fn conclude_failed(
    engine: &Engine,
    protocol: &dyn Protocol,
    attempt: &Attempt<'_>,
    failure: Box<Error>,
) -> Verdict {
    let needs_another = std::mem::take(&mut attempt.held().borrow_mut().needs_another);
    // An executor that retries it would keep the other transaction from its locks: the caller retries.
    let is_final = needs_another && attempt.worker_context().executor().is_some();
    // An error of a body that has lost sight of its own insert is no result.
    if matches!(*failure, Error::Conflict) && !is_final
        || attempt.has_lost_a_record()
        || !attempt.is_of_current_schema()
        || !protocol.validate_reads(attempt)
    {
        return if protocol.is_stashed(attempt) {
            Err(Unfinished::Stash)
        } else {
            Err(again(engine, protocol, attempt))
        };
    }
    Ok(ended(protocol, attempt, attempt.seen(), false, Some(failure)))
}

/// Computes what a call with these arguments touches. The functions that make keys are the procedure's: what a panic
/// in one of them ends is the call, not the thread; and no call is made inside of them.
pub(crate) fn compute_footprint(routine: &dyn Routine, args: &Args, into: &mut Footprint) -> Result<()> {
    keep_panics_in(|| routine.footprint(args, into))
}

/// Runs what makes keys: for one call, or for several, one after the other.
///
/// # Errors
/// Its own; [`Error::Panicked`].
pub(crate) fn keep_panics_in(make_keys: impl FnOnce() -> Result<()>) -> Result<()> {
    let _inside = Inside::enter();
    catch_unwind(AssertUnwindSafe(make_keys)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

#[cold]
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::Panicked { message: message_of(panic) }
}

/// The message of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_string())
}

#[cfg(test)]
mod tests;
