//! Runs a call to its end: attempts, until one commits or fails with an error of its own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bumpalo::Bump;
use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::pipeline::call::Routine;
use crate::pipeline::engine::Engine;
use crate::pipeline::nesting::Inside;
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::{Held, Hold, Try};
use crate::storage::commit::CommitFailure;
use crate::storage::participant::{Counters, Memory, Seat};
use crate::storage::reclaim::{collect_deleted, collect_placeholders};
use crate::types::Args;

/// A transaction's body, which may be run several times.
pub(crate) trait Body {
    /// Runs it in this attempt.
    ///
    /// # Errors
    /// Its own; or [`Error::Conflict`], and it is run again.
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()>;
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The highest epoch that it wrote or met: its result is told once that is durable.
    pub(crate) epoch: u64,
    /// How many attempts it took.
    pub(crate) attempts: u32,
    /// Whether it has changed anything.
    pub(crate) wrote: bool,
    /// Whether it succeeded.
    pub(crate) result: Result<()>,
    /// Whether it has not ended at all, but must wait for the end of the split phase.
    pub(crate) stashed: bool,
}

impl Ending {
    fn refused(attempts: u32, error: Error) -> Ending {
        Ending { epoch: 0, attempts, wrote: false, result: Err(error), stashed: false }
    }
}

/// What one attempt came to.
enum Verdict {
    Done { epoch: u64, wrote: bool, result: Result<()> },
    Again,
    Stash,
    NeedsLogSpace(usize),
    NextEpoch,
}

/// Runs a call to its end. What it holds of the protocol's is given up, but within a group.
pub(crate) fn execute(
    engine: &Engine,
    seat: &mut Seat<'_>,
    held: &mut Held,
    guard: &Guard,
    footprint: Option<&Footprint>,
    body: &mut dyn Body,
) -> Ending {
    let declared_writes = footprint.is_some_and(|footprint| !footprint.is_read_only());
    let may_write = footprint.is_none() || declared_writes;
    let mut number = 0;
    let mut reserved = false;
    let ending = loop {
        number += 1;
        let (_, memory) = seat.parts();
        let log_credit = &mut memory.workspace.log_credit;
        let mut refused = if may_write { engine.admit(log_credit).err() } else { None };
        if declared_writes && refused.is_none() {
            match engine.make_way(held, log_credit) {
                Ok(alone) => reserved |= alone,
                Err(error) => refused = Some(error),
            }
        }
        if let (Some(error), true) = (&refused, declared_writes) {
            break Ending::refused(number, error.clone());
        }
        let counters = &seat.participant().counters;
        match attempt(engine, seat, held, guard, footprint, body, Try { number }, refused) {
            Verdict::Done { epoch, wrote, result } => {
                Counters::count(if result.is_ok() { &counters.committed } else { &counters.failed });
                break Ending { epoch, attempts: number, wrote, result, stashed: false };
            }
            Verdict::Stash => {
                engine.protocol().end_group(held);
                break Ending { epoch: 0, attempts: number, wrote: false, result: Ok(()), stashed: true };
            }
            Verdict::Again => {
                Counters::count(&counters.aborted);
                engine.retry().pause(number);
            }
            Verdict::NextEpoch => {
                // The next epoch comes when the log has written the last one: no site is held over that.
                engine.protocol().end_group(held);
                if let Err(error) = engine.wait_for_next_epoch() {
                    break Ending::refused(number, error);
                }
            }
            Verdict::NeedsLogSpace(bytes) => {
                engine.protocol().end_group(held);
                // All that it has goes back first: who waits for room keeps none, so nobody waits for each other.
                let (_, memory) = seat.parts();
                engine.space().give_back(std::mem::take(&mut memory.workspace.log_credit));
                if let Err(error) = engine.reserve(bytes) {
                    break Ending::refused(number, error);
                }
                memory.workspace.log_credit = bytes;
                reserved = true;
            }
        }
    };
    if reserved {
        let (_, memory) = seat.parts();
        engine.space().give_back(std::mem::take(&mut memory.workspace.log_credit));
    }
    ending
}

#[allow(clippy::too_many_arguments)]
fn attempt(
    engine: &Engine,
    seat: &mut Seat<'_>,
    held: &mut Held,
    guard: &Guard,
    footprint: Option<&Footprint>,
    body: &mut dyn Body,
    attempted: Try,
    updates_refused: Option<Error>,
) -> Verdict {
    let (participant, memory) = seat.parts();
    let Memory { workspace, arena } = memory;
    arena.reset();
    let arena: &Bump = arena;
    let attempt = Attempt::new(engine.store(), participant, guard, arena, workspace, held, updates_refused);
    let protocol = engine.protocol();
    protocol.begin(&attempt, footprint, attempted);
    let ran = run_body(body, &attempt);
    let verdict = conclude(engine, &attempt, ran);
    if let (Verdict::Done { wrote: true, epoch, .. }, Hold::UntilDurable) = (&verdict, protocol.hold()) {
        engine.ring_log();
        // A failure is told to the caller when the result is released.
        let _ = engine.progress().wait(*epoch);
    }
    protocol.end(&attempt);
    drop(attempt);
    if !workspace.placeholders.is_empty() {
        collect_placeholders(workspace, guard);
    }
    collect_deleted(workspace, engine.progress().durable(), guard);
    verdict
}

fn run_body(body: &mut dyn Body, attempt: &Attempt<'_>) -> Result<()> {
    let _inside = Inside::enter();
    // A body that panicked is not run again in that state unless it says so itself: closures may be called again,
    // like any `FnMut`, and what they have changed outside of the transaction is theirs.
    catch_unwind(AssertUnwindSafe(|| body.run(attempt)))
        .unwrap_or_else(|panic| Err(Error::Panicked { message: message_of(&*panic) }))
}

fn conclude(engine: &Engine, attempt: &Attempt<'_>, ran: Result<()>) -> Verdict {
    let protocol = engine.protocol();
    let done = |wrote: bool, result: Result<()>| {
        let highest = attempt.seen().epoch();
        Verdict::Done { epoch: protocol.release_epoch(attempt, highest), wrote, result }
    };
    match attempt.take_fault().map_or(ran, Err) {
        Err(Error::Conflict) => again(engine, attempt),
        // An error of a body that has lost sight of its own insert is no result.
        Err(_) if attempt.has_lost_a_record() => Verdict::Again,
        Err(error) if protocol.confirm(attempt) => done(false, Err(error)),
        Err(_) => again(engine, attempt),
        Ok(()) => match protocol.commit(attempt) {
            Ok(None) => done(false, Ok(())),
            Ok(Some(stamp)) => {
                let epoch = protocol.release_epoch(attempt, stamp.epoch());
                Verdict::Done { epoch, wrote: true, result: Ok(()) }
            }
            Err(CommitFailure::Conflict) => Verdict::Again,
            Err(CommitFailure::Stash) => Verdict::Stash,
            Err(CommitFailure::EpochFull) => Verdict::NextEpoch,
            Err(CommitFailure::NeedsLogSpace(bytes)) => Verdict::NeedsLogSpace(bytes),
            Err(CommitFailure::Refused(Error::Closed, _)) => {
                // The log has ended: because it has failed, if so.
                done(false, Err(engine.progress().failure().unwrap_or(Error::Closed)))
            }
            Err(CommitFailure::Refused(error, met)) => {
                let epoch = protocol.release_epoch(attempt, attempt.seen().max(met).epoch());
                Verdict::Done { epoch, wrote: false, result: Err(error) }
            }
        },
    }
}

#[cold]
fn again(engine: &Engine, attempt: &Attempt<'_>) -> Verdict {
    if engine.protocol().is_stashed(attempt) { Verdict::Stash } else { Verdict::Again }
}

/// Works out what a call with these arguments touches. The functions that make keys are the procedure's: what a panic
/// in one of them ends is the call, not the thread; and no call is made inside of them.
pub(crate) fn work_out_footprint(routine: &dyn Routine, args: &Args, into: &mut Footprint) -> Result<()> {
    let _inside = Inside::enter();
    catch_unwind(AssertUnwindSafe(|| routine.footprint(args, into)))
        .unwrap_or_else(|panic| Err(Error::Panicked { message: message_of(&*panic) }))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}

#[cfg(test)]
mod tests;
