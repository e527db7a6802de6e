//! `atomic_wait`: sleeping until a word has another value.
//!
//! As the system's futex: the look at the word and the going to sleep are one step, which the lock of a queue makes
//! one; a thread that wakes goes through the same lock. One queue serves all words: a wake-up too many is allowed.

use crate::atomics::{AtomicU32, Ordering};
use crate::execution;
use crate::locks::{Condvar, Mutex};

/// The sleepers of one execution.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    lock: Mutex<()>,
    woken: Condvar,
}

/// Sleeps until woken, unless the word has another value.
pub fn wait(word: &AtomicU32, value: u32) {
    let queue = execution::queue();
    let mut lock = queue.lock.lock();
    if word.load(Ordering::Relaxed) == value {
        queue.woken.wait(&mut lock);
    }
}

/// Wakes one that sleeps: here all, who look again.
pub fn wake_one(word: *const AtomicU32) {
    wake_all(word);
}

/// Wakes every sleeping thread.
pub fn wake_all(_word: *const AtomicU32) {
    let queue = execution::queue();
    drop(queue.lock.lock());
    queue.woken.notify_all();
}
