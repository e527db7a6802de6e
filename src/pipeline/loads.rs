//! Keeps changes of the protocol away from running loads.
//!
//! An access that loads rows ([`Session::load`](crate::Session::load)) puts them into tables at once and cannot take them back, so
//! it must not be retried, as every attempt is that a change of the protocol meets. A change waits for such accesses; an access
//! that begins while one waits lets it go first, for a while.
//!
//! # Invariants
//! A change is made under the mutex, while no load is counted. A load is counted before its attempt begins: so it begins after the change, or
//! the change is made after its end.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The time after which a change that waits looks again whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// The longest time that a load lets a change go first: the load for which that waits may itself wait for this one.
const COURTESY: Duration = Duration::from_millis(200);

/// The running loads of a database.
#[derive(Default)]
pub(crate) struct Loads {
    state: Mutex<Counts>,
    /// Notified when a load ends, and when a change is made or given up.
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    running: usize,
    /// True while a change waits for running loads.
    is_change_waiting: bool,
}

/// A running load; it ends when this is dropped.
pub(crate) struct Load<'l>(&'l Loads);

impl Loads {
    /// Begins a load.
    pub(crate) fn begin(&self) -> Load<'_> {
        let mut state = self.state.lock();
        if state.is_change_waiting {
            self.changed.wait_for(&mut state, COURTESY);
        }
        state.running += 1;
        Load(self)
    }

    /// Makes a change while no load is running. `None`, and it was not made, if it is given up.
    pub(crate) fn between<T>(&self, is_given_up: impl Fn() -> bool, change: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.state.lock();
        while state.running > 0 && !is_given_up() {
            state.is_change_waiting = true;
            self.changed.wait_for(&mut state, LOOK);
        }
        state.is_change_waiting = false;
        let made = (state.running == 0).then(change);
        drop(state);
        self.changed.notify_all();
        made
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_change_is_made_after_the_loads_that_run() {
        let (loads, ended) = (Loads::default(), AtomicBool::new(false));
        let load = loads.begin();
        thread::scope(|scope| {
            let change = scope.spawn(|| loads.between(|| false, || ended.load(Ordering::SeqCst)));
            while !loads.state.lock().is_change_waiting {
                thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
            drop(load);
            assert_eq!(change.join().expect("no panic"), Some(true));
        });
        assert_eq!(
            loads.between(|| false, || loads.state.is_locked()),
            Some(true),
            "none can begin meanwhile"
        );
    }

    #[test]
    fn a_change_that_is_given_up_is_not_made() {
        let loads = Loads::default();
        let load = loads.begin();
        assert_eq!(loads.between(|| true, || ()), None);
        drop(load);
        assert_eq!(loads.between(|| true, || ()), Some(()), "nothing holds it off");
    }

    #[test]
    fn a_load_does_not_wait_forever_for_a_change_that_waits_for_another_load() {
        let loads = Loads::default();
        let first = loads.begin();
        thread::scope(|scope| {
            let change = scope.spawn(|| loads.between(|| false, || ()));
            while !loads.state.lock().is_change_waiting {
                thread::yield_now();
            }
            drop(loads.begin());
            drop(first);
            assert_eq!(change.join().expect("no panic"), Some(()));
        });
    }
}
