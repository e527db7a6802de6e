//! The global epoch, and how an epoch is sealed.
//!
//! An epoch is the unit of group commit: its commits become durable together. A participant publishes the epoch it
//! commits in around its commit section only, so that no user code holds an epoch open.
//!
//! Why sealing is right: a participant stores the epoch `e` it read, then reads the global epoch again, and goes on
//! only if it is still `e`; the one who seals first raises the global epoch, then reads what participants published.
//! Both stores and both reads are sequentially consistent, so one of the two sees the other: either the participant
//! sees the new epoch and publishes that, or the sealer sees `e` and waits. A participant inside its commit section
//! may stamp with a later epoch than it published (the global epoch read while it holds its records), never with an
//! earlier one: so once nobody shows `e` or less, nobody can add to `e`.

use crossbeam_utils::{Backoff, CachePadded};

use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};

/// What a participant shows while it is in no commit section.
const OUTSIDE: u64 = 0;
/// The first epoch of a new database; epoch 0 is "nothing".
pub(crate) const FIRST: u64 = 1;

/// The global epoch.
#[derive(Debug)]
pub(crate) struct Epochs {
    current: CachePadded<AtomicU64>,
    /// Whether nothing is taken into any epoch any more.
    closed: AtomicBool,
    limit: Option<Limit>,
}

/// Bounds how many transactions an epoch may have: TPK's TransactionsPerGroup.
#[derive(Debug)]
struct Limit {
    transactions: u64,
    /// For even epochs and for odd ones: the epoch, above how many transactions it has. Two are enough: an epoch is
    /// sealed, so that nobody counts in it any more, before the next but one begins.
    counted: [AtomicU64; 2],
}

/// The most transactions that a limit can allow.
const LIMIT_MAXIMUM: u64 = (1 << COUNT_BITS) - 1;
/// How many bits of a counter hold the number of transactions; the rest are an epoch's 40.
const COUNT_BITS: u32 = 24;

/// The epoch that one participant commits in, or that it does not commit now.
#[derive(Debug, Default)]
pub(crate) struct Published(CachePadded<AtomicU64>);

impl Epochs {
    /// Starts at this epoch.
    pub(crate) fn new(current: u64) -> Epochs {
        Epochs { current: CachePadded::new(AtomicU64::new(current)), closed: AtomicBool::new(false), limit: None }
    }

    /// From here on an epoch has at most so many transactions.
    pub(crate) fn set_limit(&mut self, transactions: usize) {
        let transactions = (transactions as u64).min(LIMIT_MAXIMUM);
        self.limit = Some(Limit { transactions, counted: [AtomicU64::new(0), AtomicU64::new(0)] });
    }

    /// Counts a transaction into an epoch, unless that is full. The caller is in its commit section, so that the epoch
    /// stays open; it counts once everything else is sure.
    pub(crate) fn count_in(&self, epoch: u64) -> bool {
        let Some(limit) = &self.limit else { return true };
        // Relaxed: it is a bound on a number, through which nothing else is seen.
        let counted = &limit.counted[(epoch & 1) as usize];
        let next = |counted| {
            let count = limit.count(counted, epoch);
            (count < limit.transactions).then_some(epoch << COUNT_BITS | (count + 1))
        };
        counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Whether the present epoch takes no more transactions.
    pub(crate) fn is_full(&self) -> bool {
        let Some(limit) = &self.limit else { return false };
        let epoch = self.current();
        // Relaxed: as in `count_in`.
        let counted = limit.counted[(epoch & 1) as usize].load(Ordering::Relaxed);
        limit.count(counted, epoch) >= limit.transactions
    }

    /// The global epoch now.
    ///
    /// Acquire pairs with the store in [`Epochs::advance`]: who sees an epoch sees what led to it.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Enters a commit section: from here to [`Published::leave`] the epoch given back, and later ones, stay open.
    pub(crate) fn enter(&self, published: &Published) -> u64 {
        let mut epoch = self.current.load(Ordering::Relaxed);
        loop {
            // SeqCst, store and load: see the module's argument; the partners are in `advance` and `seal`.
            published.0.swap(epoch, Ordering::SeqCst);
            let now = self.current.load(Ordering::SeqCst);
            if now == epoch {
                return epoch;
            }
            epoch = now;
        }
    }

    /// Raises the global epoch by one and gives back the epoch that is now to be sealed. Only the log stage calls it.
    pub(crate) fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Closes all epochs: who enters a commit section from here on is told so by `is_closed`, and who entered before
    /// is waited for when the present epoch is sealed.
    ///
    /// SeqCst: as with the raising of the epoch, it comes before the sealer's look at what participants published.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether who has entered a commit section must leave it with nothing done.
    ///
    /// SeqCst: it comes after the publishing in `enter`, so that either this sees the closing or the sealer sees what
    /// was published.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits until nobody can add to `epoch` any more. The waiting is short: commit sections run no user code.
    pub(crate) fn seal<'a>(&self, epoch: u64, participants: impl Iterator<Item = &'a Published>) {
        debug_assert!(self.current() > epoch, "an epoch is sealed after the global epoch has gone on");
        for published in participants {
            let backoff = Backoff::new();
            while published.shows_at_most(epoch) {
                if backoff.is_completed() {
                    // The participant may have lost its processor in the middle: give it ours.
                    std::thread::yield_now();
                } else {
                    backoff.snooze();
                }
            }
        }
    }
}

impl Limit {
    /// How many transactions of `epoch` a counter tells of: none, if it is still about an earlier one.
    fn count(&self, counted: u64, epoch: u64) -> u64 {
        if counted >> COUNT_BITS == epoch { counted & LIMIT_MAXIMUM } else { 0 }
    }
}

impl Published {
    /// Leaves the commit section.
    ///
    /// SeqCst orders it before the caller's look at the log stage's demand flag (`pipeline::log`), and it releases
    /// the redo that was appended to the sealer, which reads it in `shows_at_most`.
    pub(crate) fn leave(&self) {
        self.0.swap(OUTSIDE, Ordering::SeqCst);
    }

    fn shows_at_most(&self, epoch: u64) -> bool {
        // SeqCst: the partner of the swap in `enter`; it also acquires what the participant did before `leave`.
        let shown = self.0.load(Ordering::SeqCst);
        shown != OUTSIDE && shown <= epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn an_epoch_is_sealed_only_when_who_shows_it_has_left() {
        let epochs = Epochs::new(7);
        let slow = Published::default();
        assert_eq!(epochs.enter(&slow), 7);
        let sealed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let epoch = epochs.advance();
                epochs.seal(epoch, [&slow].into_iter());
                sealed.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!sealed.load(Ordering::SeqCst));
            slow.leave();
        });
        assert!(sealed.load(Ordering::SeqCst));
    }

    #[test]
    fn an_epoch_takes_as_many_transactions_as_it_may_and_its_neighbour_counts_apart() {
        let mut epochs = Epochs::new(7);
        assert!((0..100).all(|_| epochs.count_in(7)) && !epochs.is_full(), "no limit yet");
        epochs.set_limit(2);
        assert!(epochs.count_in(7) && !epochs.is_full());
        assert!(epochs.count_in(7) && epochs.is_full() && !epochs.count_in(7));
        epochs.advance();
        assert!(!epochs.is_full() && epochs.count_in(8), "the next one is empty");
        assert!(!epochs.count_in(7), "who is late for the one before finds it as full as it was");
        epochs.advance();
        assert!(epochs.count_in(9) && epochs.count_in(8) && !epochs.count_in(8));
    }

    #[test]
    fn who_enters_after_the_advance_shows_the_new_epoch_and_holds_nobody_up() {
        let epochs = Epochs::new(7);
        let published = Published::default();
        let old = epochs.advance();
        assert_eq!(epochs.enter(&published), 8);
        epochs.seal(old, [&published].into_iter());
        published.leave();
    }

    /// Nothing is added to a sealed epoch: entrants note what they add, the sealer compares.
    #[test]
    fn nothing_enters_a_sealed_epoch() {
        const ROUNDS: u64 = 2_000;
        let epochs = Epochs::new(FIRST);
        let participants: Vec<Published> = (0..4).map(|_| Published::default()).collect();
        let added: Vec<AtomicU64> = (0..ROUNDS + 10).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for published in &participants {
                let (epochs, added, stop) = (&epochs, &added, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        epochs.enter(published);
                        let stamped = epochs.current();
                        added[stamped as usize].fetch_add(1, Ordering::Relaxed);
                        published.leave();
                    }
                });
            }
            let mut sums = Vec::new();
            for _ in 0..ROUNDS {
                let epoch = epochs.advance();
                epochs.seal(epoch, participants.iter());
                sums.push((epoch, added[epoch as usize].load(Ordering::Relaxed)));
            }
            stop.store(true, Ordering::Relaxed);
            for (epoch, sum) in sums {
                assert_eq!(
                    added[epoch as usize].load(Ordering::Relaxed),
                    sum,
                    "epoch {epoch} grew after its seal"
                );
            }
        });
    }
}
