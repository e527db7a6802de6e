//! One run of a model: what the doors keep for as long as it lasts, and how many runs a check has.
//!
//! All threads of a run are coroutines of one thread of the system's; so the doors' own state is that thread's, and is
//! never touched by two at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::checker;
use crate::futex::Queue;
use crate::memory;
use crate::reclamation::Garbage;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static GARBAGE: RefCell<Garbage> = RefCell::default();
    static QUEUE: RefCell<Rc<Queue>> = RefCell::default();
}

/// Limits of a check.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// loom: most interruptions of a runnable thread in a schedule; `None`: no limit.
    pub interruptions: Option<usize>,
    /// shuttle: number of schedules of each kind.
    pub schedules: usize,
}

/// Checks a model: panics in the schedule that breaks it.
pub fn check(bounds: Bounds, model: fn()) {
    checker::check(bounds, move || {
        begin();
        model();
        memory::end();
        INSIDE.set(false);
    });
}

/// Factor by which the usual number of schedules is multiplied.
#[cfg(not(feature = "loom"))]
pub(crate) fn factor() -> usize {
    std::env::var("HEDDLE_MODEL_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn begin() {
    // What the run before has left is freed outside of the cells: it may come through the doors again.
    let (garbage, queue) = (GARBAGE.take(), QUEUE.take());
    checker::begin();
    drop((garbage, queue));
    crate::faults::forget();
    QUIET.set(false);
    INSIDE.set(true);
    memory::begin();
}

/// Runs the preparations of a model, while there is one thread only: nothing is scheduled, which saves time.
pub fn prepare<T>(preparations: impl FnOnce() -> T) -> T {
    QUIET.set(true);
    let made = preparations();
    QUIET.set(false);
    made
}

/// Returns true if accesses are to be scheduled.
#[cfg(not(feature = "loom"))]
pub(crate) fn is_scheduled() -> bool {
    INSIDE.get() && !QUIET.get()
}

pub(crate) fn with_garbage<T>(act: impl FnOnce(&mut Garbage) -> T) -> T {
    GARBAGE.with_borrow_mut(act)
}

pub(crate) fn queue() -> Rc<Queue> {
    QUEUE.with_borrow(Rc::clone)
}
