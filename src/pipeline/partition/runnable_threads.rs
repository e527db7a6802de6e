//! The number of runnable executors and workers, which decides whether a thread that waits spins for a while before it
//! parks.
//!
//! Parking and waking a thread costs more than a batch of small transactions takes. While every runnable thread has a processor of
//! its own, a thread that waits spins for at most [`LOOKS`] looks before it parks. Other threads and other programs are not counted,
//! but they show: where they need the processors, the thread that is waited for is preempted, and the wait is *long*. So it is where
//! there is no work, or a batch takes that long: there a spin gains little. A thread
//! whose waits are long parks at once the next times, the more of them were long the more times ([`Spinner`]). A wait that is
//! longer than the spin and no longer than parking takes is not long: otherwise the first thread to park would make all others park.
//!
//! # Invariants
//! All this only decides which threads spin: nothing depends on it but time. A thread is counted from its wake-up on,
//! by the thread that wakes it: that one would otherwise spin on the processor that the other one needs.
//!
//! # Source
//! docs/decisions/2026-11-24-spinning-before-parking.md.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::atomics::{AtomicUsize, Ordering};

/// Number of looks before a thread parks: some dozens of microseconds, about what parking and waking up cost.
const LOOKS: u32 = 1_000;
/// A wait that has begun with a spin and takes longer is long.
const LONG_WAIT: Duration = Duration::from_micros(100);
/// Number of other waits that make up for a long one.
const WAITS_PER_LONG_WAIT: u32 = 16;
/// After a long wait, a thread parks at once at most two to this power times.
const DOUBLINGS_MAX: u32 = 10;

thread_local! {
    static SPINNER: Cell<Spinner> = const { Cell::new(Spinner { debt: 0, parks: 0 }) };
}

/// The count.
pub(crate) struct RunnableThreads {
    count: AtomicUsize,
    processors: usize,
}

/// Counts a thread as runnable as long as it lives.
pub(super) struct Runnable<'r>(&'r RunnableThreads);

/// A wait, which ends when this is dropped; when it began, if it began with a spin.
#[must_use = "the wait ends when it is dropped"]
pub(super) struct Wait(Option<Instant>);

/// A thread's record of its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spinner {
    /// The waits that would have to be short to make up for the long ones.
    debt: u32,
    /// Number of waits in which it parks at once before it spins again.
    parks: u32,
}

impl RunnableThreads {
    /// Counts this many threads as runnable. Without processors no thread ever spins.
    pub(crate) fn new(count: usize, processors: usize) -> RunnableThreads {
        RunnableThreads { count: AtomicUsize::new(count), processors }
    }

    /// The calling thread is runnable.
    pub(super) fn enter(&self) -> Runnable<'_> {
        self.add();
        Runnable(self)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// A thread is woken.
    pub(super) fn add(&self) {
        // Relaxed, as in all these: see the invariants.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread parks.
    pub(super) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins a wait: spins until it is done, if spinning is worth it. The caller parks if it is not done then.
    pub(super) fn spin_until(&self, is_done: impl Fn() -> bool) -> Wait {
        let has_processor = || self.count.load(Ordering::Relaxed) <= self.processors;
        if is_done() || !has_processor() || !Spinner::update(Spinner::is_next_a_spin) {
            return Wait(None);
        }
        let start = Instant::now();
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if is_done() || !has_processor() {
                break;
            }
        }
        Wait(Some(start))
    }
}

impl Spinner {
    /// Changes the thread's own.
    fn update<R>(change: impl FnOnce(&mut Spinner) -> R) -> R {
        let mut spinner = SPINNER.get();
        let result = change(&mut spinner);
        SPINNER.set(spinner);
        result
    }

    fn is_next_a_spin(&mut self) -> bool {
        let spins = self.parks == 0;
        self.parks = self.parks.saturating_sub(1);
        spins
    }

    fn note(&mut self, took: Duration) {
        if took < LONG_WAIT {
            self.debt = self.debt.saturating_sub(1);
        } else {
            self.debt = (self.debt + WAITS_PER_LONG_WAIT).min(WAITS_PER_LONG_WAIT * DOUBLINGS_MAX);
            self.parks = 1 << (self.debt / WAITS_PER_LONG_WAIT);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(start) = self.0 {
            Spinner::update(|spinner| spinner.note(start.elapsed()));
        }
    }
}

impl Drop for Runnable<'_> {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_millis(2);

    /// The number of looks of a new thread for something that never happens, in waits that end after these times.
    fn looks(runnable: &RunnableThreads, waits: &[Duration]) -> Vec<u32> {
        let wait = |took: &Duration| {
            let looks = Cell::new(0);
            let wait = runnable.spin_until(|| {
                looks.set(looks.get() + 1);
                false
            });
            thread::sleep(*took);
            drop(wait);
            looks.get()
        };
        thread::scope(|scope| scope.spawn(|| waits.iter().map(wait).collect()).join().expect("it ends"))
    }

    #[test]
    fn a_thread_spins_only_while_all_have_a_processor() {
        let runnable = RunnableThreads::new(2, 2);
        assert_eq!(looks(&runnable, &[Duration::ZERO]), [1 + LOOKS]);
        let guard = runnable.enter();
        assert_eq!(looks(&runnable, &[Duration::ZERO]), [1]);
        drop(guard);
        assert_eq!(looks(&runnable, &[Duration::ZERO]), [1 + LOOKS]);
        runnable.remove();
        assert_eq!(runnable.count(), 1);
    }

    #[test]
    fn a_spin_ends_when_it_is_done() {
        let spin = || {
            let (runnable, looks) = (RunnableThreads::new(1, 1), Cell::new(0));
            drop(runnable.spin_until(|| {
                looks.set(looks.get() + 1);
                looks.get() == 5
            }));
            looks.get()
        };
        assert_eq!(thread::spawn(spin).join().expect("it ends"), 5);
    }

    #[test]
    fn a_thread_whose_waits_are_long_parks_at_once_more_and_more_often() {
        let looks = looks(&RunnableThreads::new(1, 1), &[LONG; 16]);
        let spins: Vec<usize> = (0..looks.len()).filter(|wait| looks[*wait] > 1).collect();
        assert_eq!(spins, [0, 3, 8]);
        let mut spinner = Spinner { debt: 0, parks: 0 };
        (0..2 * DOUBLINGS_MAX).for_each(|_| spinner.note(LONG));
        assert_eq!(spinner.parks, 1 << DOUBLINGS_MAX);
        assert_eq!((0..1 + (1 << DOUBLINGS_MAX)).filter(|_| spinner.is_next_a_spin()).count(), 1);
    }

    #[test]
    fn other_waits_make_up_for_long_ones() {
        let mut spinner = Spinner { debt: 0, parks: 0 };
        (0..3).for_each(|_| spinner.note(LONG));
        assert_eq!(spinner.parks, 8);
        (0..2 * WAITS_PER_LONG_WAIT).for_each(|_| spinner.note(LONG_WAIT / 2));
        spinner.note(LONG);
        assert_eq!(spinner.parks, 4, "as after two");
    }

    #[test]
    fn a_panic_leaves_no_thread_counted() {
        let runnable = RunnableThreads::new(0, 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = runnable.enter();
            assert_eq!(runnable.count(), 1);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(runnable.count(), 0);
    }
}
