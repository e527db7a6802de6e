//! Credits that bound how many transactions of workers' groups are in flight.
//!
//! The cost of a lock request and of a release grows with the requests that are parked in the same lock table. More
//! transactions in flight than keep the executors busy make them slower and nothing faster, so further workers wait here.
//!
//! # Invariants
//! A group waits for credits before it holds or sends anything, and executors never wait for credits: there is no deadlock.
//! A group larger than all credits takes all of them.
//!
//! # Concurrency
//! Waiting workers park. A thread that returns credits wakes one worker, which wakes the next one if credits are left.

use parking_lot::{Condvar, Mutex};

use crate::diagnostics::activity::Activity;
use crate::diagnostics::work_time::waiting;

/// The credits of all executors.
pub(super) struct Credits {
    free: Mutex<usize>,
    returned: Condvar,
    all: usize,
}

/// Credits that a group has taken; dropping it returns them.
pub(super) struct CreditsGuard<'c> {
    credits: &'c Credits,
    count: usize,
}

impl Credits {
    pub(super) fn new(all: usize) -> Credits {
        Credits { free: Mutex::new(all), returned: Condvar::new(), all }
    }

    /// Takes a credit for each transaction of a group; waits until they are free.
    pub(super) fn take(&self, transactions: usize) -> CreditsGuard<'_> {
        let count = transactions.min(self.all);
        let mut free = self.free.lock();
        if *free < count {
            // The executors show what happens to the transactions that are in flight.
            let _elsewhere = waiting(Activity::Elsewhere);
            while *free < count {
                self.returned.wait(&mut free);
            }
        }
        *free -= count;
        let are_left = *free > 0;
        drop(free);
        if are_left {
            self.returned.notify_one();
        }
        CreditsGuard { credits: self, count }
    }
}

impl Drop for CreditsGuard<'_> {
    fn drop(&mut self) {
        *self.credits.free.lock() += self.count;
        self.credits.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_transactions_are_in_flight_than_there_are_credits_and_every_group_gets_its_turn() {
        let (credits, in_flight) = (Credits::new(10), AtomicUsize::new(0));
        thread::scope(|scope| {
            for size in [1, 3, 4, 7, 10, 25] {
                let (credits, in_flight) = (&credits, &in_flight);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let taken = credits.take(size);
                        let now = in_flight.fetch_add(size.min(10), Ordering::SeqCst) + size.min(10);
                        assert!(now <= 10, "{now}");
                        thread::yield_now();
                        in_flight.fetch_sub(size.min(10), Ordering::SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        assert_eq!(*credits.free.lock(), 10);
    }
}
