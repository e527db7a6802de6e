//! The door to shuttle: chosen schedules, sequentially consistent words.
//!
//! A word is plain memory; an access lets the scheduler choose the thread that goes on, and then happens as one step.

use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

use crate::atomics::{Ordering, Word};
use crate::execution::{self, Bounds};

pub(crate) use shuttle::sync;
pub(crate) use shuttle::thread;

pub(crate) use crate::change::Change;

/// Debug builds of the engine's calls are deep.
const STACK_BYTES: usize = 512 << 10;
/// Number of changes of priority in a PCT schedule: bugs that need more orders between two steps are rare.
const PCT_DEPTH: usize = 3;

/// Runs the model under random schedules, and under such as have few interruptions at bad moments.
pub(crate) fn check(bounds: Bounds, model: impl Fn() + Send + Sync + Clone + 'static) {
    let schedules = bounds.schedules * execution::factor();
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(model.clone());
    Runner::new(PctScheduler::new(PCT_DEPTH, schedules), config).run(model);
}

pub(crate) fn begin() {}

/// The scheduler's choice of the thread that goes on.
fn choose() {
    if execution::is_scheduled() {
        // Of all that shuttle offers this is the one that chooses, and neither says that the thread waits.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

pub(crate) fn yield_now() {
    shuttle::thread::yield_now();
}

pub(crate) fn load(word: &Word, _ordering: Ordering) -> u64 {
    choose();
    // SAFETY: the word is borrowed, and no other coroutine runs now.
    let value = unsafe { *word.bits() };
    assert_ne!(value, crate::FREED, "a word is read whose memory has been freed");
    value
}

pub(crate) fn store(word: &Word, value: u64, _ordering: Ordering) {
    choose();
    // SAFETY: as in `load`.
    unsafe {
        assert_ne!(*word.bits(), crate::FREED, "a word is written whose memory has been freed");
        *word.bits() = value;
    }
}

pub(crate) fn change(word: &Word, change: Change, _success: Ordering, failure: Ordering) -> Result<u64, u64> {
    let before = load(word, failure);
    let after = change.apply(before).ok_or(before)?;
    // SAFETY: as in `load`; no thread has run since.
    unsafe { *word.bits() = after };
    Ok(before)
}

/// Every access is sequentially consistent already.
pub(crate) fn fence(_ordering: Ordering) {}

/// It is plain already.
pub(crate) fn make_plain(_word: &Word) {}
