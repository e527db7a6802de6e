//! Key resolution: a first phase of index reads is run before a transaction is routed, so that it can go to one executor.
//!
//! Some transactions know the keys of their rows only after a lookup in a secondary index, which no executor owns. The worker
//! runs this first phase itself and puts the keys that its values lead to into the footprint; then the transaction is routed
//! like any other.
//!
//! # Invariants
//! The resolved keys are a guess that nothing depends on. The executor runs the first phase again and validates its reads; if
//! the values lead to another key by then, the attempt is misrouted: it is routed again, phase by phase. Whatever fails here
//! (an error, a panic, a value that a later phase sets) is left to the transaction itself.
//!
//! # Source
//! DORA (VLDB 2010), section 4.2.2 (secondary actions): an index record names the whole primary key, which contains the
//! routing columns.

use std::cell::RefCell;
use std::ops::Range;

use crossbeam_epoch::pin;

use crate::diagnostics::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::pipeline::call::{Gathered, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, keep_panics_in, run_body};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::local_lock::{is_index_read, partition_hash_of};
use crate::protocol::{Held, Try};
use crate::storage::foreign_keys::Reach;
use crate::storage::worker_context::{Memory, SlotGuard};
use crate::types::Args;
use crate::types::values::Values;

/// A thread with a slot that resolves keys.
pub(crate) struct KeyResolver<'s, 'p> {
    pub(crate) engine: &'s Engine,
    pub(crate) slot_guard: &'s mut SlotGuard<'p>,
    pub(crate) held: &'s mut Held,
}

/// The first phase, as a body.
struct FirstPhase<'c> {
    routine: &'c dyn Routine,
    args: &'c Args,
    footprint: &'c Footprint,
    range: Range<usize>,
    values: Values,
}

impl Body for FirstPhase<'_> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        let gathered = RefCell::<Gathered>::default();
        let parts = self.routine.parts();
        for number in self.range.clone() {
            let found = parts.find(self.footprint, number, attempt.guard());
            parts.run(attempt, (self.args, Values::none(), self.footprint), number, found, &gathered)?;
        }
        self.values.take(&mut gathered.borrow_mut().fresh);
        match attempt.take_fault() {
            Some(fault) => Err(*fault),
            None => Ok(()),
        }
    }

    fn code(&self) -> usize {
        // It is not retried.
        0
    }
}

impl KeyResolver<'_, '_> {
    /// Fills the keys that the first phase leads to into the footprint. False: the footprint is unchanged.
    pub(super) fn resolve(&mut self, routine: &dyn Routine, args: &Args, footprint: &mut Footprint) -> bool {
        let Some(range) = first_phase(routine, footprint) else { return false };
        let Some(values) = self.values_of(routine, args, footprint, range.clone()) else { return false };
        let parts = routine.parts();
        let declared = footprint.references[range.end..].to_vec();
        let led = keep_panics_in(|| {
            for number in range.end..footprint.references.len() {
                if parts.is_led(footprint, number) {
                    parts.lead(args, &values, number, footprint)?;
                    footprint.references[number].resolved_ahead = true;
                }
            }
            Ok(())
        });
        if led.is_err() {
            footprint.references.truncate(range.end);
            footprint.references.extend(declared);
        }
        led.is_ok()
    }

    /// The values that the first phase sets now.
    fn values_of(
        &mut self,
        routine: &dyn Routine,
        args: &Args,
        footprint: &Footprint,
        range: Range<usize>,
    ) -> Option<Values> {
        let _work = at(Activity::Work);
        let KeyResolver { engine, slot_guard, held } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let protocol = engine.protocol_of(&attempt);
        // Without a footprint: only executors run actions that declare one.
        protocol.begin(&attempt, None, Try { number: 1, code: 0 });
        let mut body = FirstPhase { routine, args, footprint, range, values: Values::default() };
        let failure = run_body(&mut body, &attempt);
        protocol.end(&attempt);
        failure.is_none().then_some(body.values)
    }
}

/// The references of the first phase, if it only reads by secondary indexes, and all later keys are known or depend on
/// values.
fn first_phase(routine: &dyn Routine, footprint: &Footprint) -> Option<Range<usize>> {
    let parts = routine.parts();
    if parts.phases() < 2 || footprint.reach() == Reach::Writes {
        return None;
    }
    let range = parts.references(footprint, 0);
    let later = range.end..footprint.references.len();
    let references = &footprint.references;
    let is_led = |number: &usize| parts.is_led(footprint, *number);
    let is_known = |number: &usize| partition_hash_of(&references[*number]).is_some();
    let fits = references[range.clone()].iter().all(is_index_read)
        && later.clone().all(|number| is_known(&number) || is_led(&number))
        && later.into_iter().any(|number| !is_known(&number));
    (fits && !range.is_empty()).then_some(range)
}

/// Returns true if keys of the transaction can be resolved.
pub(super) fn can_resolve(routine: &dyn Routine, footprint: &Footprint) -> bool {
    first_phase(routine, footprint).is_some()
}

/// Drops resolved keys.
///
/// # Errors
/// The procedure's own, when it computes its keys again.
pub(super) fn forget(routine: &dyn Routine, args: &Args, footprint: &mut Footprint) -> Result<(), Error> {
    keep_panics_in(|| routine.footprint(args, footprint))
}
