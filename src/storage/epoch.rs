//! The global epoch: how an epoch is sealed, and how the gate of the commit sections is closed.
//!
//! An epoch is the unit of group commit: its commits become durable together. A worker context publishes the epoch it
//! commits in around its commit section only, so that no user code holds an epoch open.
//!
//! Why sealing is right: a worker context stores the epoch `e` it read, then reads the global epoch again, and goes on
//! only if it is still `e`; the one that seals first raises the global epoch, then reads what worker contexts published.
//! Between store and read each passes its side of an asymmetric barrier ([`crate::base::barrier`]), so one of the two
//! sees the other: either the worker context sees the new epoch and publishes that, or the sealer sees `e` and waits. A
//! worker context inside its commit section may stamp with a later epoch than it published (the global epoch read while
//! it holds its records), never with an earlier one: so once no worker context shows `e` or less, no thread can add to `e`.
//!
//! The **gate** is the highest bit of the same word. While it is set no thread enters a commit section; the thread
//! that set it and then waited until no context shows an epoch has exclusive access to all records until it opens the
//! gate. By the same argument: a thread that enters sees the bit, or is seen. The gate is held for microseconds (a
//! change of phases), or by one call that has failed so often that it runs alone.

use crossbeam_utils::{Backoff, CachePadded};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Condvar, Mutex, RawMutex};

use crate::base::atomics::{AtomicU64, Ordering};
use crate::base::barrier::Barrier;
use crate::diagnostics::activity::{Activity, at};

/// What a worker context shows while it is in no commit section.
const OUTSIDE: u64 = 0;
/// The first epoch of a new database; epoch 0 is "nothing".
pub(crate) const FIRST: u64 = 1;
/// All epochs are over.
const CLOSED: u64 = u64::MAX;
/// Set in the global epoch's word while the gate is closed.
const GATE: u64 = 1 << 63;

/// The global epoch, and the gate.
pub(crate) struct Epochs {
    /// The epoch, and [`GATE`].
    current: CachePadded<AtomicU64>,
    barrier: Barrier,
    /// Held by the thread that has closed the gate.
    gate: RawMutex,
    /// Where threads wait for the gate to open.
    waiting: Mutex<()>,
    opened: Condvar,
    /// Commits are of later epochs than this.
    ended: AtomicU64,
    /// How many schema changes there were.
    generation: AtomicU64,
    limit: Option<Limit>,
}

/// Bounds how many transactions an epoch may have: TPK's TransactionsPerGroup.
#[derive(Debug)]
struct Limit {
    transactions: u64,
    /// For even epochs and for odd ones: the epoch, above how many transactions it has. Two are enough: an epoch is
    /// sealed, so that nothing is counted in it any more, before the next but one begins.
    counted: [AtomicU64; 2],
}

/// The most transactions that a limit can allow.
const LIMIT_MAXIMUM: u64 = (1 << COUNT_BITS) - 1;
/// How many bits of a counter hold the number of transactions; the rest are an epoch's 40.
const COUNT_BITS: u32 = 24;

/// The epoch that one worker context commits in, or that it does not commit now.
#[derive(Debug, Default)]
pub(crate) struct Published(CachePadded<AtomicU64>);

impl Epochs {
    /// Starts at this epoch.
    pub(crate) fn new(current: u64) -> Epochs {
        Epochs {
            current: CachePadded::new(AtomicU64::new(current)),
            barrier: Barrier::new(),
            gate: RawMutex::INIT,
            waiting: Mutex::new(()),
            opened: Condvar::new(),
            ended: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            limit: None,
        }
    }

    /// From here on an epoch has at most this many transactions.
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
        self.room() == 0
    }

    /// How many transactions the present epoch still takes.
    pub(crate) fn room(&self) -> u64 {
        let Some(limit) = &self.limit else { return u64::MAX };
        let epoch = self.current();
        // Relaxed: as in `count_in`.
        let counted = limit.counted[(epoch & 1) as usize].load(Ordering::Relaxed);
        limit.transactions.saturating_sub(limit.count(counted, epoch))
    }

    /// The global epoch now.
    ///
    /// SeqCst: a commit reads it between taking what it writes and validating what it has read, all of which are in the
    /// one total order; so of two commits of which one overwrites what the other has read, the reader's epoch is never
    /// the later one. It acquires what led to the epoch.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::SeqCst) & !GATE
    }

    /// Enters a commit section: from here to [`Published::leave`] the epoch given back, and later ones, stay open.
    /// Whether the gate is closed at this moment.
    pub(crate) fn is_gate_closed(&self) -> bool {
        // Acquire pairs with the SeqCst stores of `close_gate` and `open_gate`.
        self.current.load(Ordering::Acquire) & GATE != 0
    }

    /// Waits while the gate is closed.
    #[inline]
    pub(crate) fn enter(&self, published: &Published) -> u64 {
        // Relaxed: it is read again below.
        let mut epoch = self.current.load(Ordering::Relaxed);
        loop {
            if epoch & GATE == 0 {
                // A store and a load with the light barrier between: see the module's argument; the partners are in
                // `advance`, `close_gate` and `wait_for`. Release: a sealer of an earlier epoch that meets this store,
                // and not the `leave` before it, sees what was done before that all the same. Acquire: a thread that enters
                // after a gate has opened sees what was done behind it.
                published.0.store(epoch, Ordering::Release);
                self.barrier.light();
                let now = self.current.load(Ordering::Acquire);
                if now == epoch {
                    return epoch;
                }
                epoch = now;
            } else {
                published.leave();
                epoch = self.wait_for_gate();
            }
        }
    }

    /// As [`enter`](Self::enter), for a thread that has closed the gate.
    pub(crate) fn enter_alone(&self, published: &Published) -> u64 {
        loop {
            let epoch = self.current();
            published.0.store(epoch, Ordering::Release);
            self.barrier.light();
            if self.current() == epoch {
                return epoch;
            }
        }
    }

    #[cold]
    fn wait_for_gate(&self) -> u64 {
        let _latch = at(Activity::Latch);
        let backoff = Backoff::new();
        loop {
            let epoch = self.current.load(Ordering::Acquire);
            if epoch & GATE == 0 {
                return epoch;
            }
            if !backoff.is_completed() {
                backoff.snooze();
                continue;
            }
            let mut waiting = self.waiting.lock();
            // It is opened under this lock, so that no opening is missed between the look and the sleep.
            while self.current.load(Ordering::Acquire) & GATE != 0 {
                self.opened.wait(&mut waiting);
            }
        }
    }

    /// Closes the gate; no thread enters from here on. Waits for the thread that has it closed now. [`wait_for_all`]
    /// (Self::wait_for_all) must follow before anything is done.
    pub(crate) fn close_gate(&self) {
        let _latch = at(Activity::Latch);
        self.gate.lock();
        self.current.fetch_or(GATE, Ordering::SeqCst);
    }

    /// Closes the gate, unless another thread has closed it. Returns whether the caller closed it.
    pub(crate) fn try_close_gate(&self) -> bool {
        let closed = self.gate.try_lock();
        if closed {
            self.current.fetch_or(GATE, Ordering::SeqCst);
        }
        closed
    }

    /// Waits until no thread is inside a commit section; the caller has closed the gate.
    pub(crate) fn wait_for_all<'a>(&self, worker_contexts: impl Iterator<Item = &'a Published>) {
        debug_assert!(self.current.load(Ordering::Relaxed) & GATE != 0, "the gate is closed first");
        self.wait_for(u64::MAX, worker_contexts);
    }

    /// Opens the gate.
    ///
    /// # Safety
    /// The caller has closed it, and has not opened it since.
    pub(crate) unsafe fn open_gate(&self) {
        let waiting = self.waiting.lock();
        // SeqCst, which releases what was done behind the gate to the threads that enter.
        self.current.fetch_and(!GATE, Ordering::SeqCst);
        drop(waiting);
        self.opened.notify_all();
        // SAFETY: the caller's promise: it has the lock since `close_gate` or `try_close_gate`.
        unsafe { self.gate.unlock() }
    }

    /// Raises the global epoch by one and gives back the epoch that is now to be sealed. Only the log stage calls it.
    pub(crate) fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst) & !GATE
    }

    /// Closes all epochs: a thread that enters a commit section from here on learns it from `is_closed`, and one that
    /// entered before is waited for when the present epoch is sealed.
    ///
    /// SeqCst: as with the raising of the epoch, it comes before the sealer's look at what worker contexts published.
    pub(crate) fn close(&self) {
        self.ended.store(CLOSED, Ordering::SeqCst);
    }

    /// No commit is of this epoch any more, although it is the global one. The caller has closed the gate and waited
    /// for all, so that no commit section that is under way has to learn it.
    pub(crate) fn end_commits_of(&self, epoch: u64) {
        self.ended.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Whether a commit may be of this epoch, which is the global one as it has read it in its commit section. The
    /// argument is that of [`is_closed`](Self::is_closed).
    #[inline]
    pub(crate) fn takes_commits_of(&self, epoch: u64) -> bool {
        self.ended.load(Ordering::SeqCst) < epoch
    }

    /// How many schema changes there were. A transaction notes it when an attempt begins, and compares it in its commit
    /// section: another number means that a table it may have used is another one now.
    ///
    /// Acquire: a thread that sees a generation sees its tables. In a commit section the gate says as much, because a
    /// generation begins behind the closed gate.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins the next generation of the schema. The caller has closed the gate, so no commit section sees the change.
    pub(crate) fn next_generation(&self) {
        // Release: pairs with the load above.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Whether a thread inside a commit section must leave it without any effect.
    ///
    /// It comes after the publishing and the barrier in `enter`, so that either this sees the closing or the sealer
    /// sees what was published.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.ended.load(Ordering::SeqCst) == CLOSED
    }

    /// Waits until no thread can add to `epoch` any more. The waiting is short: commit sections run no user code.
    pub(crate) fn seal<'a>(&self, epoch: u64, worker_contexts: impl Iterator<Item = &'a Published>) {
        debug_assert!(self.current() > epoch, "an epoch is sealed after the global epoch has gone on");
        self.wait_for(epoch, worker_contexts);
    }

    fn wait_for<'a>(&self, epoch: u64, worker_contexts: impl Iterator<Item = &'a Published>) {
        let _latch = at(Activity::Latch);
        self.barrier.heavy();
        for published in worker_contexts {
            let backoff = Backoff::new();
            while published.shows_at_most(epoch) {
                if backoff.is_completed() {
                    // The worker context may have lost its processor in the middle: give it ours.
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
    /// Release: what was done in it, the redo appended too, is seen by the sealer, which reads this in `shows_at_most`.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(OUTSIDE, Ordering::Release);
    }

    fn shows_at_most(&self, epoch: u64) -> bool {
        // Acquire: it sees what the worker context did before `leave`. That it sees a store before the worker
        // context's look at the epoch is the barrier's doing.
        let shown = self.0.load(Ordering::Acquire);
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
        assert_eq!(epochs.room(), u64::MAX);
        epochs.set_limit(2);
        assert!(epochs.count_in(7) && !epochs.is_full() && epochs.room() == 1);
        assert!(epochs.count_in(7) && epochs.is_full() && !epochs.count_in(7));
        epochs.advance();
        assert!(!epochs.is_full() && epochs.count_in(8), "the next one is empty");
        assert!(!epochs.count_in(7), "a thread that is late for the previous epoch finds it full");
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

    /// Nothing is added to a sealed epoch: entering threads note what they add, the sealing thread compares.
    #[test]
    fn nothing_enters_a_sealed_epoch() {
        const ROUNDS: u64 = 2_000;
        let epochs = Epochs::new(FIRST);
        let worker_contexts: Vec<Published> = (0..4).map(|_| Published::default()).collect();
        let added: Vec<AtomicU64> = (0..ROUNDS + 10).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for published in &worker_contexts {
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
                epochs.seal(epoch, worker_contexts.iter());
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

    #[test]
    fn nobody_is_inside_while_the_gate_is_closed_and_all_go_on_when_it_opens() {
        const ROUNDS: u64 = 500;
        let epochs = Epochs::new(FIRST);
        let worker_contexts: Vec<Published> = (0..4).map(|_| Published::default()).collect();
        let (inside, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let entered: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (published, entered) in worker_contexts.iter().zip(&entered) {
                let (epochs, inside, stop) = (&epochs, &inside, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        epochs.enter(published);
                        inside.fetch_add(1, Ordering::Relaxed);
                        entered.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        published.leave();
                    }
                });
            }
            for round in 0..ROUNDS {
                if round % 2 == 0 {
                    epochs.close_gate();
                } else {
                    assert!(epochs.try_close_gate());
                }
                epochs.wait_for_all(worker_contexts.iter());
                assert_eq!(inside.load(Ordering::Relaxed), 0);
                let alone = Published::default();
                epochs.enter_alone(&alone);
                alone.leave();
                // SAFETY: closed above.
                unsafe { epochs.open_gate() };
            }
            let before: Vec<u64> = entered.iter().map(|entered| entered.load(Ordering::Relaxed)).collect();
            while entered.iter().zip(&before).any(|(now, before)| now.load(Ordering::Relaxed) == *before) {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_log_stage_does_not_wait_for_who_runs_alone() {
        let epochs = Epochs::new(7);
        epochs.close_gate();
        assert!(!epochs.try_close_gate());
        assert_eq!((epochs.advance(), epochs.current()), (7, 8));
        // SAFETY: closed above.
        unsafe { epochs.open_gate() };
        assert!(epochs.try_close_gate());
        // SAFETY: closed in the line above.
        unsafe { epochs.open_gate() };
        assert_eq!(epochs.current(), 8);
    }
}
