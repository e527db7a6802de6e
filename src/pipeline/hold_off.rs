//! Holds other threads' transactions off for a while, so that one that others always overtake gets to its end.
//!
//! A transaction of a session that reads much conflicts with every writer of any of its rows meanwhile, and no protocol
//! helps it, because between two of its accesses it holds nothing. While a hold-off lasts, the attempts of other threads wait
//! before they begin, with nothing of the protocol's in their hands.
//!
//! # Invariants
//! A hold-off ends with its [`HoldOff`], and at its deadline at the latest. So nothing depends on it but fairness: a thread
//! that its owner waits for, and which waits here, resumes at the deadline.
//!
//! # Concurrency
//! The usual look is one relaxed load. An attempt that misses the beginning of a hold-off is like one that began before.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::pipeline::engine::Engine;

/// The hold-offs of a database: one at a time.
#[derive(Default)]
pub(crate) struct HoldOffs {
    is_active: AtomicBool,
    current: Mutex<Option<Current>>,
    ended: Condvar,
}

/// The hold-off that lasts.
#[derive(Clone, Copy)]
struct Current {
    owner: ThreadId,
    until: Instant,
}

impl HoldOffs {
    /// Returns true if a hold-off may be in effect.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        // Relaxed: it carries no data; `wait` looks under the lock.
        self.is_active.load(Ordering::Relaxed)
    }

    /// Waits for the end of a hold-off that another thread owns.
    #[cold]
    pub(crate) fn wait(&self) {
        let mut current = self.current.lock();
        while let Some(Current { owner, until }) = *current {
            if owner == thread::current().id() {
                return;
            }
            if self.ended.wait_until(&mut current, until).timed_out() {
                return;
            }
        }
    }

    fn begin(&self, time: Duration) {
        let now = Instant::now();
        let until = now.checked_add(time).unwrap_or(now);
        *self.current.lock() = Some(Current { owner: thread::current().id(), until });
        // Relaxed: as in `is_active`.
        self.is_active.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        let mut current = self.current.lock();
        *current = None;
        // Relaxed: as in `is_active`.
        self.is_active.store(false, Ordering::Relaxed);
        drop(current);
        self.ended.notify_all();
    }
}

/// A hold-off, which ends when this is dropped.
pub(crate) struct HoldOff {
    engine: Arc<Engine>,
}

impl HoldOff {
    /// Holds off all threads but this one. The caller sees to it that there is no other hold-off.
    pub(crate) fn begin(engine: &Arc<Engine>, time: Duration) -> HoldOff {
        engine.hold_offs().begin(time);
        HoldOff { engine: engine.clone() }
    }
}

impl Drop for HoldOff {
    fn drop(&mut self) {
        self.engine.hold_offs().end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn others_wait_until_the_end_and_the_owner_does_not() {
        let hold_offs = HoldOffs::default();
        assert!(!hold_offs.is_active());
        hold_offs.begin(LONG);
        assert!(hold_offs.is_active());
        hold_offs.wait();
        let (sender, passed) = mpsc::channel();
        thread::scope(|scope| {
            let hold_offs = &hold_offs;
            scope.spawn(move || {
                hold_offs.wait();
                sender.send(hold_offs.is_active()).expect("it is received");
            });
            assert!(passed.try_recv().is_err(), "nobody passes while it lasts");
            hold_offs.end();
            assert_eq!(passed.recv(), Ok(false));
        });
    }

    #[test]
    fn others_go_on_at_the_deadline_although_it_has_not_ended() {
        let hold_offs = HoldOffs::default();
        hold_offs.begin(Duration::from_millis(1));
        thread::scope(|scope| scope.spawn(|| hold_offs.wait()).join().expect("no panic"));
        assert!(hold_offs.is_active());
    }

    #[test]
    fn no_writer_waits_without_a_hold_off() {
        let hold_offs = HoldOffs::default();
        hold_offs.wait();
        hold_offs.begin(LONG);
        hold_offs.end();
        thread::scope(|scope| scope.spawn(|| hold_offs.wait()).join().expect("no panic"));
    }
}
