//! A call whose work is one closure of its caller's, within the footprint that a procedure declares.
//!
//! The procedure says what is touched; the bodies of its actions do not run. So work that cannot be cut into actions, such as an
//! interpreted function, is routed, scheduled and locked like any call.
//!
//! # Invariants
//! - The closure is lent for as long as the caller waits: [`Lent`] takes it back before the caller continues, by a
//!   panic too, and the thread that runs it holds the lock meanwhile.
//! - It runs once in an attempt, as the last action, when everything declared is locked; it reaches what any action declares.
//! - Under `locking`, whole keys are locked before it runs, in the order of tables and keys, so that calls which declare all of
//!   their keys never wait for each other in a circle.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Gathered, Parts, Routine};
use crate::pipeline::partition::plan::Failures;
use crate::procedure::run::Registered;
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::schedule::reference::{Form, References, Scalar};
use crate::storage::table::TableCore;
use crate::transaction::Tx;
use crate::types::Args;
use crate::types::values::Values;

/// The closure that a caller lends.
type Body<'b> = dyn FnMut(&Tx<'_, '_>) -> Result<()> + Send + 'b;

/// A closure whose lifetime is not told any more.
struct Borrowed(*mut Body<'static>);

// SAFETY: the closure is `Send`, and the lock around keeps all threads but one from it.
unsafe impl Send for Borrowed {}

/// A call of a procedure, with one body in place of its actions'.
pub(crate) struct OneBody {
    registered: Arc<Registered>,
    body: Mutex<Option<Borrowed>>,
}

/// The time for which a closure is lent.
pub(crate) struct Lent<'b> {
    call: Arc<OneBody>,
    _lent: PhantomData<&'b mut Body<'b>>,
}

impl OneBody {
    /// A call that runs this closure.
    pub(crate) fn lend<'b>(registered: Arc<Registered>, body: &'b mut Body<'b>) -> Lent<'b> {
        let address: *mut Body<'b> = body;
        // SAFETY: only the lifetime changes, and `Lent`, which has it, takes the address back when it is dropped.
        let borrowed = Borrowed(unsafe { std::mem::transmute::<*mut Body<'b>, *mut Body<'static>>(address) });
        let call = Arc::new(OneBody { registered, body: Mutex::new(Some(borrowed)) });
        Lent { call, _lent: PhantomData }
    }

    fn run_body(&self, attempt: &Attempt<'_>, footprint: &Footprint) -> Result<()> {
        self.registered.check_schema(attempt)?;
        self.lock_declared(attempt, footprint)?;
        let _scope = attempt.enter_scopes(&footprint.references);
        let lent = self.body.lock();
        let Some(body) = &*lent else { return Err(Error::Closed) };
        // SAFETY: it is lent until the lock around it says otherwise, and the lock is held: no other thread reaches it.
        let body = unsafe { &mut *body.0 };
        body(&Tx::new(attempt))
    }

    /// Acquires the locks of whole keys, in order, under a protocol that locks keys when they are used.
    fn lock_declared(&self, attempt: &Attempt<'_>, footprint: &Footprint) -> Result<()> {
        if !attempt.claims_keys() {
            return Ok(());
        }
        let mut declared: Vec<(&TableCore, &Reference)> = self.registered.declared(footprint);
        declared.retain(|(_, reference)| reference.whole);
        declared.sort_unstable_by_key(|(_, one)| (one.table, one.key.as_slice(), one.mode == Mode::Read));
        declared.dedup_by_key(|(_, one)| (one.table, one.key.as_slice()));
        declared.into_iter().try_for_each(|(table, one)| attempt.claim_declared(table, one))
    }
}

impl Lent<'_> {
    /// The call, for the pipeline.
    pub(crate) fn routine(&self) -> Arc<dyn Routine> {
        self.call.clone()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.call.body.lock().take();
    }
}

impl Routine for OneBody {
    fn failures(&self) -> &Failures {
        self.registered.failures()
    }

    fn footprint(&self, args: &Args, into: &mut Footprint) -> Result<()> {
        self.registered.footprint(args, into)
    }

    fn references(
        &self,
        args: &Args,
        footprint: &Footprint,
        form: Form,
        into: &mut References,
    ) -> Result<()> {
        Routine::references(&*self.registered, args, footprint, form, into)
    }

    fn partition_value(&self, args: &Args, footprint: &Footprint) -> Result<Option<Scalar>> {
        self.registered.partition_value(args, footprint)
    }

    fn prefetch(&self, footprint: &Footprint, guard: &Guard) {
        self.registered.prefetch(footprint, guard);
    }

    fn find(&self, footprint: &Footprint, found: &mut Vec<Found>, guard: &Guard) {
        Routine::find(&*self.registered, footprint, found, guard);
    }

    fn fetch_long_values(&self, _args: &Args, _footprint: &Footprint, _found: &[Found]) {}

    fn run(
        &self,
        attempt: &Attempt<'_>,
        _args: &Args,
        footprint: &Footprint,
        _found: &[Found],
        _gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        self.run_body(attempt, footprint)
    }

    fn parts(&self) -> &dyn Parts {
        self
    }
}

impl Parts for OneBody {
    fn phases(&self) -> usize {
        1
    }

    fn references(&self, footprint: &Footprint, _phase: usize) -> Range<usize> {
        0..footprint.references.len()
    }

    fn is_one_body(&self) -> bool {
        true
    }

    fn is_led(&self, _footprint: &Footprint, _number: usize) -> bool {
        false
    }

    fn lead(&self, _args: &Args, _values: &Values, _number: usize, _footprint: &mut Footprint) -> Result<()> {
        Ok(())
    }

    fn find(&self, footprint: &Footprint, number: usize, guard: &Guard) -> Found {
        Parts::find(&*self.registered, footprint, number, guard)
    }

    fn run(
        &self,
        attempt: &Attempt<'_>,
        (_, _, footprint): (&Args, &Values, &Footprint),
        number: usize,
        _found: Found,
        _gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        if number + 1 < footprint.references.len() {
            return Ok(());
        }
        self.run_body(attempt, footprint)
    }
}
