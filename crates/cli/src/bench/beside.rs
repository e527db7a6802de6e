//! Runs a background thread alongside a piece of work, and stops it when the work ends.
//!
//! # Concurrency
//! The thread is signaled to stop and then joined, even if the work panics, so that the join cannot block forever.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};

use crate::failure::{Failure, Result};

/// A flag that says whether the work has ended.
#[derive(Default)]
pub struct Ended(AtomicBool);

impl Ended {
    /// Returns true if it was set.
    pub fn is_set(&self) -> bool {
        // Relaxed: nothing is read on the strength of it, and a late look costs one more round.
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag and wakes the thread when it goes out of scope.
struct EndOfWork<'a> {
    ended: &'a Ended,
    thread: thread::Thread,
}

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        // Relaxed: see `Ended::is_set`.
        self.ended.0.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Does `work` on this thread while another one, of this name, does `companion`, which is to return soon after the end
/// of the work; it may park.
///
/// # Errors
/// The system refuses the thread; then `work` is not done.
pub fn beside<T, C: Send>(
    name: &str,
    companion: impl FnOnce(&Ended) -> C + Send,
    work: impl FnOnce() -> T,
) -> Result<(T, C)> {
    let ended = Ended::default();
    thread::scope(|scope| {
        let companion = Builder::new().name(name.to_owned()).spawn_scoped(scope, || companion(&ended));
        let companion = companion.map_err(|reason| {
            Failure::Failed(format!("cannot start the thread {name:?}: {reason}; raise the limit on threads"))
        })?;
        let end_of_work = EndOfWork { ended: &ended, thread: companion.thread().clone() };
        let done = work();
        drop(end_of_work);
        match companion.join() {
            Ok(made) => Ok((done, made)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn until(ended: &Ended) -> &'static str {
        while !ended.is_set() {
            thread::park();
        }
        "seen"
    }

    #[test]
    fn the_companion_works_until_the_work_ends() {
        assert_eq!(beside("companion", until, || 7).unwrap(), (7, "seen"));
    }

    #[test]
    fn work_that_panics_ends_the_companion_too() {
        let panic =
            catch_unwind(AssertUnwindSafe(|| beside("companion", until, || panic!("the work")))).err();
        assert_eq!(panic.unwrap().downcast_ref::<&str>(), Some(&"the work"));
    }
}
