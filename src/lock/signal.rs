//! Waits of a thread for a lock: a word that is set once for each wait, when the request leaves its queue.
//!
//! Invariant: a wake-up is not lost. The waiter sleeps only on the value `ASLEEP` (the system compares it once more),
//! and the thread that settles the wait replaces that value before it wakes the waiter. A late wake-up, during the next
//! wait, only makes the waiter look once more.

use std::sync::Arc;

use smallvec::SmallVec;

use super::name::OwnerId;
use crate::base::atomics::{AtomicU32, Ordering};

const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const GRANTED: u32 = 2;
const MARKED_FOR_ABORT: u32 = 3;

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Outcome {
    /// The lock is held.
    Granted = GRANTED,
    /// The request was taken out of the queue, because it was part of a deadlock.
    MarkedForAbort = MARKED_FOR_ABORT,
}

/// An owner's word to wait on; used again for its next wait.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: AtomicU32,
}

impl Signal {
    /// Before the request is queued: no other thread knows the signal then.
    pub(super) fn arm(&self) {
        // Relaxed: others get to know the signal through the queue, whose mutex orders this before.
        self.state.store(WAITING, Ordering::Relaxed);
    }

    /// Looks that many times whether the wait is over.
    pub(super) fn spin(&self, looks: u32) -> Option<Outcome> {
        for _ in 0..looks {
            if let Some(outcome) = self.outcome() {
                return Some(outcome);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Sleeps until the wait is over.
    pub(super) fn sleep(&self) -> Outcome {
        // Relaxed where it fails and where it succeeds: `outcome` is what acquires.
        let _ = self.state.compare_exchange(WAITING, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
        loop {
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            atomic_wait::wait(&self.state, ASLEEP);
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        // Acquire, with the release in `settle`: what the lock's last holder did is visible to its next one.
        match self.state.load(Ordering::Acquire) {
            GRANTED => Some(Outcome::Granted),
            MARKED_FOR_ABORT => Some(Outcome::MarkedForAbort),
            _ => None,
        }
    }

    /// Ends the wait; true if the waiter has to be woken. Called by the thread that takes the request out of its queue, with the
    /// queue's mutex held: so it happens once for each wait.
    fn settle(&self, outcome: Outcome) -> bool {
        // Release: see `outcome`.
        self.state.swap(outcome as u32, Ordering::Release) == ASLEEP
    }
}

/// A request that waits in a queue.
#[derive(Debug)]
pub(super) struct Waiter<R> {
    pub(super) owner: OwnerId,
    pub(super) request: R,
    pub(super) signal: Arc<Signal>,
}

/// Sleeping waiters whose wait is over: to be woken when the queue's mutex has been released, so that they do not
/// wake only to wait for it.
#[must_use = "they sleep until they are woken"]
#[derive(Debug, Default)]
pub(super) struct ToWake(SmallVec<[Arc<Signal>; 4]>);

impl ToWake {
    /// Ends the wait of a request that has just left its queue.
    pub(super) fn settle<R>(&mut self, waiter: Waiter<R>, outcome: Outcome) {
        if waiter.signal.settle(outcome) {
            self.0.push(waiter.signal);
        }
    }

    /// Wakes them.
    pub(super) fn wake(self) {
        self.0.iter().for_each(|signal| atomic_wait::wake_one(&signal.state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn waiter(signal: &Arc<Signal>) -> Waiter<()> {
        Waiter { owner: OwnerId::new(), request: (), signal: Arc::clone(signal) }
    }

    #[test]
    fn a_thread_that_does_not_sleep_is_not_woken() {
        let signal = Arc::new(Signal::default());
        signal.arm();
        assert_eq!(signal.spin(10), None);
        let mut to_wake = ToWake::default();
        to_wake.settle(waiter(&signal), Outcome::Granted);
        assert!(to_wake.0.is_empty());
        assert_eq!(signal.spin(1), Some(Outcome::Granted));
        assert_eq!(signal.sleep(), Outcome::Granted);
    }

    #[test]
    fn a_wait_without_looks_looks_not_at_all() {
        let signal = Signal::default();
        signal.arm();
        assert_eq!(signal.spin(0), None);
    }

    #[test]
    fn no_wake_up_is_lost_over_many_waits_of_one_signal() {
        let signal = Arc::new(Signal::default());
        let (armed, go) = std::sync::mpsc::channel();
        let settler = {
            let signal = Arc::clone(&signal);
            std::thread::spawn(move || {
                for round in go {
                    if round % 3 == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    let mut to_wake = ToWake::default();
                    let outcome = if round % 2 == 0 { Outcome::Granted } else { Outcome::MarkedForAbort };
                    to_wake.settle(waiter(&signal), outcome);
                    to_wake.wake();
                }
            })
        };
        for round in 0..2_000_u32 {
            signal.arm();
            armed.send(round).expect("the settler is there");
            let expected = if round % 2 == 0 { Outcome::Granted } else { Outcome::MarkedForAbort };
            assert_eq!(signal.spin(round % 50).unwrap_or_else(|| signal.sleep()), expected);
        }
        drop(armed);
        settler.join().expect("it ends");
    }
}
