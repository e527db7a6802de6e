//! Looks ahead where a call's values lead, so that it need not go from executor to executor to find out.
//!
//! A call whose first phase only reads by secondary indexes, which nobody owns, touches rows of one executor as often as
//! not, but its arguments do not tell whose. A worker of the caller's runs this phase beforehand, on its own thread, and
//! puts what its values lead to into the footprint: then the call is one executor's, whole.
//!
//! What it keeps true: what was looked up here is a guess, on which nothing depends. The call runs the phase again and
//! validates what it reads; if its values lead elsewhere by then, the attempt comes to nothing, and the call goes the
//! long way. Whatever does not go well here (an error, a panic, a value that is set later only) is left to the call itself.

use std::cell::RefCell;
use std::ops::Range;

use crossbeam_epoch::pin;

use crate::base::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::pipeline::call::{Gathered, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, keep_panics_in, run_body};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::claim::{is_floating, place_of_reference};
use crate::protocol::{Held, Try};
use crate::storage::worker_context::{Memory, SlotGuard};
use crate::types::Args;
use crate::types::values::Values;

/// Who looks ahead: a thread that has a slot.
pub(crate) struct Scout<'s, 'p> {
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
            parts.run(attempt, (self.args, &Values::NONE, self.footprint), number, found, &gathered)?;
        }
        self.values.take(&mut gathered.borrow_mut().fresh);
        match attempt.take_fault() {
            Some(fault) => Err(*fault),
            None => Ok(()),
        }
    }

    fn code(&self) -> usize {
        // It is not run again.
        0
    }
}

impl Scout<'_, '_> {
    /// Puts what the first phase leads to into the footprint. False: it is as it was.
    pub(super) fn look_ahead(
        &mut self,
        routine: &dyn Routine,
        args: &Args,
        footprint: &mut Footprint,
    ) -> bool {
        let Some(range) = first_phase(routine, footprint) else { return false };
        let Some(values) = self.values_of(routine, args, footprint, range.clone()) else { return false };
        let parts = routine.parts();
        let declared = footprint.references[range.end..].to_vec();
        let led = keep_panics_in(|| {
            for number in range.end..footprint.references.len() {
                if parts.is_led(footprint, number) {
                    parts.lead(args, &values, number, footprint)?;
                    footprint.references[number].guessed = true;
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

    /// What the first phase finds now.
    fn values_of(
        &mut self,
        routine: &dyn Routine,
        args: &Args,
        footprint: &Footprint,
        range: Range<usize>,
    ) -> Option<Values> {
        let _work = at(Activity::Work);
        let Scout { engine, slot_guard, held } = self;
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let guard = pin();
        let attempt =
            Attempt::new(engine.store(), worker_context, &guard, arena, workspace, reads, held, None);
        let protocol = engine.protocol();
        protocol.begin(&attempt, Some(footprint), Try { number: 1, code: 0 });
        let mut body = FirstPhase { routine, args, footprint, range, values: Values::default() };
        let failure = run_body(&mut body, &attempt);
        protocol.end(&attempt);
        failure.is_none().then_some(body.values)
    }
}

/// The references of the first phase, if it only reads by secondary indexes, and all that comes after it has its place, or
/// will be led to it.
fn first_phase(routine: &dyn Routine, footprint: &Footprint) -> Option<Range<usize>> {
    let parts = routine.parts();
    if parts.phases() < 2 {
        return None;
    }
    let range = parts.references(footprint, 0);
    let later = range.end..footprint.references.len();
    let references = &footprint.references;
    let is_led = |number: &usize| parts.is_led(footprint, *number);
    let has_place = |number: &usize| place_of_reference(&references[*number]).is_some();
    let fits = references[range.clone()].iter().all(is_floating)
        && later.clone().all(|number| has_place(&number) || is_led(&number))
        && later.into_iter().any(|number| !has_place(&number));
    (fits && !range.is_empty()).then_some(range)
}

/// Forgets what was looked up ahead.
///
/// # Errors
/// The procedure's own: it works its keys out anew.
pub(super) fn forget(routine: &dyn Routine, args: &Args, footprint: &mut Footprint) -> Result<(), Error> {
    keep_panics_in(|| routine.footprint(args, footprint))
}
