//! The activity of a thread, shown for the code that samples where time is spent.
//!
//! A thread that is watched knows one word, in its worker context's slot, and stores there what it is at whenever that
//! changes: one relaxed store, which a sampler reads some hundred times a second. A thread that is not watched knows none,
//! and pays one comparison. A thread that waits deep inside an index or the lock manager needs no way to its slot: it
//! is the thread that has it.
//!
//! Invariants: a thread's word is alive for as long as the thread knows it, because it is known only while
//! [`Shown::during`] runs, which borrows it; and when that returns, by a panic too, the thread knows again what it knew
//! before.

use std::cell::Cell;
use std::ptr;

use crossbeam_utils::Backoff;
use parking_lot::{Mutex, MutexGuard};

use crate::base::atomics::{AtomicU32, Ordering};
use crate::diagnostics::work_time::waiting;

/// An activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Activity {
    /// Not counted: the slot is free, or other threads do its work meanwhile, and show that.
    Elsewhere,
    /// No work.
    Idle,
    /// Footprints, bodies, what they read and write, validation and installing.
    Work,
    /// Inside the lock manager, taking locks.
    LockAcquire,
    /// Waiting there.
    LockAcquireWait,
    /// Inside the lock manager, giving locks up.
    LockRelease,
    /// Waiting there.
    LockReleaseWait,
    /// Waiting for a thread that is in the middle of a few instructions, at an index or a record, or for the gate.
    Latch,
    /// Handing redo to the log, and waiting for room in it.
    Log,
    /// Taking calls, and passing on their results.
    Handover,
}

impl Activity {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Activity; 10] = [
        Activity::Elsewhere,
        Activity::Idle,
        Activity::Work,
        Activity::LockAcquire,
        Activity::LockAcquireWait,
        Activity::LockRelease,
        Activity::LockReleaseWait,
        Activity::Latch,
        Activity::Log,
        Activity::Handover,
    ];
}

/// The word in which a thread shows its activity.
#[derive(Debug, Default)]
pub(crate) struct Shown(AtomicU32);

thread_local! {
    /// The word that this thread knows; null: it is not watched.
    static WORD: Cell<*const AtomicU32> = const { Cell::new(ptr::null()) };
}

/// The thread's previous word, which is restored when this is dropped.
#[must_use]
pub(crate) struct Before<'s> {
    word: *const AtomicU32,
    own: &'s Shown,
    shown: u32,
}

impl Drop for Before<'_> {
    fn drop(&mut self) {
        // Relaxed: as all stores here.
        self.own.0.store(self.shown, Ordering::Relaxed);
        WORD.set(self.word);
    }
}

impl Shown {
    /// Shows something from outside, while no thread knows the word.
    pub(crate) fn set(&self, activity: Activity) {
        // Relaxed: a sample wants what is there about now, and nothing else is read on the strength of it.
        self.0.store(activity as u32, Ordering::Relaxed);
    }

    /// The activity that is shown.
    pub(crate) fn get(&self) -> Activity {
        Activity::ALL[self.0.load(Ordering::Relaxed) as usize]
    }

    /// Runs something on this thread, which shows here what it is at, if there is where to: this, to begin with.
    // One call of `run` for both: so it is compiled into its caller.
    #[inline(always)]
    pub(crate) fn during<T>(shown: Option<&Shown>, activity: Activity, run: impl FnOnce() -> T) -> T {
        let _before = shown.map(|shown| shown.begin(activity));
        run()
    }

    /// Has this thread know the word, and show this, until what is returned is dropped: it must be, on this thread.
    #[cold]
    pub(crate) fn begin(&self, activity: Activity) -> Before<'_> {
        let before = Before { word: WORD.get(), own: self, shown: self.0.load(Ordering::Relaxed) };
        WORD.set(&self.0);
        self.set(activity);
        before
    }
}

/// A guard of an activity: the thread shows it as long as this lives, and then its previous activity again.
#[must_use]
pub(crate) struct At {
    before: u32,
}

/// Shows an activity of this thread, if it is watched.
#[inline]
pub(crate) fn at(activity: Activity) -> At {
    // Not watched: the value kept here is never read.
    At { before: exchange(activity as u32) }
}

impl Drop for At {
    #[inline]
    fn drop(&mut self) {
        exchange(self.before);
    }
}

/// Shows a number, and returns the one that was shown; 0 where no sampler watches.
#[inline]
fn exchange(number: u32) -> u32 {
    let word = WORD.get();
    if word.is_null() {
        return 0;
    }
    // SAFETY: this thread knows it, so a `Before` borrows it, which `Shown::during` and those that call `begin` drop. Relaxed: as in `Shown::set`; only this
    // thread stores there now, so that load and store need not be one.
    unsafe {
        let before = (*word).load(Ordering::Relaxed);
        (*word).store(number, Ordering::Relaxed);
        before
    }
}

/// Locks a mutex; waiting for it is shown as this activity.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>, waiting: Activity) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Some(guard) => guard,
        None => lock_later(mutex, waiting),
    }
}

#[cold]
fn lock_later<T>(mutex: &Mutex<T>, activity: Activity) -> MutexGuard<'_, T> {
    let _wait = waiting(activity);
    mutex.lock()
}

/// Waits a little for a thread that is in the middle of a few instructions, and may have lost its processor.
#[cold]
pub(crate) fn snooze(backoff: &Backoff) {
    let _at = at(Activity::Latch);
    backoff.snooze();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_shows_what_it_is_at_and_then_what_it_was_at_before() {
        let shown = Shown::default();
        assert_eq!(shown.get(), Activity::Elsewhere);
        shown.set(Activity::Idle);
        Shown::during(Some(&shown), Activity::Handover, || {
            assert_eq!(shown.get(), Activity::Handover);
            {
                let _work = at(Activity::Work);
                assert_eq!(shown.get(), Activity::Work);
                let _acquire = at(Activity::LockAcquire);
                assert_eq!(shown.get(), Activity::LockAcquire);
            }
            assert_eq!(shown.get(), Activity::Handover);
        });
        assert_eq!(shown.get(), Activity::Idle);
        let _nobody_watches = at(Activity::Work);
        assert_eq!(shown.get(), Activity::Idle);
    }

    #[test]
    fn a_thread_in_anothers_slot_shows_its_activity_there_until_a_panic() {
        let (own, other) = (Shown::default(), Shown::default());
        Shown::during(Some(&own), Activity::Handover, || {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                Shown::during(Some(&other), Activity::Work, || {
                    let _log = at(Activity::Log);
                    assert_eq!((own.get(), other.get()), (Activity::Handover, Activity::Log));
                    panic!("on purpose");
                });
            }));
            assert!(ran.is_err());
            let _latch = at(Activity::Latch);
            assert_eq!((own.get(), other.get()), (Activity::Latch, Activity::Elsewhere));
        });
    }

    #[test]
    fn threads_have_nothing_to_do_with_each_other() {
        let shown = Shown::default();
        Shown::during(Some(&shown), Activity::Work, || {
            std::thread::scope(|scope| {
                scope.spawn(|| drop(at(Activity::Log)));
            });
            assert_eq!(shown.get(), Activity::Work);
        });
    }

    #[test]
    fn a_thread_shows_that_it_waits_for_a_mutex_only_while_it_does() {
        let (shown, mutex) = (Shown::default(), Mutex::new(0));
        let held = mutex.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Shown::during(Some(&shown), Activity::Work, || *lock(&mutex, Activity::LockReleaseWait) += 1);
            });
            while shown.get() != Activity::LockReleaseWait {
                std::thread::yield_now();
            }
            drop(held);
        });
        Shown::during(Some(&shown), Activity::Work, || {
            let held = lock(&mutex, Activity::LockReleaseWait);
            assert_eq!((*held, shown.get()), (1, Activity::Work));
        });
    }

    #[test]
    fn the_list_is_in_the_order_of_the_numbers() {
        assert!(Activity::ALL.iter().enumerate().all(|(number, activity)| *activity as usize == number));
    }
}
