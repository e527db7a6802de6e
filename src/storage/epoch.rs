//! The global epoch: the sealing of epochs, and the gate of the commit sections.
//!
//! An epoch is the unit of group commit: its commits become durable together. A worker context publishes the epoch it
//! commits in around its commit section only, so that no user code holds an epoch open.
//!
//! Why sealing is correct: a worker context reads the global epoch `e`, publishes it, and reads the global epoch again;
//! it proceeds only if the epoch is still `e`. The sealer first advances the global epoch, then reads what the worker
//! contexts have published. Between its store and its load, each side passes its half of an asymmetric barrier
//! ([`crate::base::barrier`]), so at least one of them sees the other's store: either the worker context sees the new
//! epoch and publishes that one, or the sealer sees `e` and waits. Inside its commit section a worker context may stamp
//! with a later epoch than it published (the global epoch, read while its write set is locked), never with an earlier
//! one. So once no worker context publishes `e` or less, no commit can be added to `e`.
//!
//! The **gate** is the highest bit of the same word. While it is set, no thread enters a commit section. The thread
//! that sets it, and then waits until no worker context publishes an epoch, has exclusive access to all records until it
//! opens the gate. The same argument holds: a thread that enters a commit section either sees the bit or is seen by the
//! thread that set it. The gate is closed for microseconds (a phase change), or for as long as one transaction runs
//! exclusively after too many aborted attempts.

use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_utils::{Backoff, CachePadded};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Condvar, Mutex, RawMutex};

use crate::base::atomics::{AtomicU64, Ordering};
use crate::base::barrier::Barrier;
use crate::diagnostics::activity::{Activity, at};
use crate::storage::word::Stamp;

/// Published by a worker context that is outside a commit section.
const OUTSIDE: u64 = 0;
/// The first epoch of a new database; 0 means no epoch.
pub(crate) const FIRST: u64 = 1;
/// The value of `ended` once no epoch accepts commits.
const CLOSED: u64 = u64::MAX;
/// Set in the global epoch's word while the gate is closed.
const GATE: u64 = 1 << 63;

/// A thread that waits for a commit section yields this many times before it sleeps, for as long at a time.
const MAX_YIELDS: u32 = 64;
const NAP: Duration = Duration::from_micros(20);

/// The global epoch, and the gate.
pub(crate) struct Epochs {
    /// The epoch, and [`GATE`].
    current: CachePadded<AtomicU64>,
    barrier: Barrier,
    /// Held by the thread that has closed the gate.
    gate: RawMutex,
    /// Threads park here until the gate opens.
    waiting: Mutex<()>,
    opened: Condvar,
    /// The last epoch that accepts no more commits.
    ended: AtomicU64,
    /// The number of schema changes so far, that of changes of the protocol, and which protocol is in force: see
    /// [`generation`](Epochs::generation).
    generation: AtomicU64,
    /// The record word of the last one's stamp.
    schema: AtomicU64,
    limit: OnceLock<Limit>,
}

/// The bits of a generation that count schema changes.
pub(crate) const SCHEMA_BITS: u64 = (1 << PROTOCOL_CHANGE_SHIFT) - 1;
/// The position of the bits of a generation that count changes of the protocol, and of those with the number of the
/// protocol that is in force.
const PROTOCOL_CHANGE_SHIFT: u32 = 28;
const PROTOCOL_SHIFT: u32 = 60;

/// The number of the protocol that is in force in a generation.
#[inline]
pub(crate) fn protocol_of(generation: u64) -> usize {
    (generation >> PROTOCOL_SHIFT) as usize
}

/// Returns true if the protocol was not changed between two generations.
pub(crate) fn is_of_one_protocol(one: u64, other: u64) -> bool {
    (one ^ other) & !SCHEMA_BITS == 0
}

/// The maximum number of transactions in an epoch: TPK's TransactionsPerGroup.
#[derive(Debug)]
struct Limit {
    transactions: u64,
    /// One counter for even epochs and one for odd: the epoch in the high bits, its number of transactions in the low
    /// bits. Two counters are enough, because an epoch is sealed, and no longer counted, before the next epoch but one
    /// begins.
    counted: [AtomicU64; 2],
}

/// The highest limit that a counter can hold.
const LIMIT_MAXIMUM: u64 = (1 << COUNT_BITS) - 1;
/// The bits of a counter that hold the number of transactions; the other 40 hold the epoch.
const COUNT_BITS: u32 = 24;

/// The epoch that one worker context is committing in, or [`OUTSIDE`].
#[derive(Debug, Default)]
pub(crate) struct Published(CachePadded<AtomicU64>);

impl Epochs {
    /// Starts with `current` as the global epoch.
    pub(crate) fn new(current: u64) -> Epochs {
        Epochs {
            current: CachePadded::new(AtomicU64::new(current)),
            barrier: Barrier::new(),
            gate: RawMutex::INIT,
            waiting: Mutex::new(()),
            opened: Condvar::new(),
            ended: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            schema: AtomicU64::new(0),
            limit: OnceLock::new(),
        }
    }

    /// Limits every epoch from now on to at most this many transactions: once, while no thread commits.
    pub(crate) fn set_limit(&self, transactions: usize) {
        let transactions = (transactions as u64).min(LIMIT_MAXIMUM);
        self.limit.get_or_init(|| Limit { transactions, counted: [AtomicU64::new(0), AtomicU64::new(0)] });
    }

    /// Counts a transaction toward the limit of `epoch`; returns false if the epoch is full. The caller is in its commit
    /// section, which keeps the epoch open, and calls this last, when nothing else can abort the commit.
    pub(crate) fn count_in(&self, epoch: u64) -> bool {
        let Some(limit) = self.limit.get() else { return true };
        // Relaxed: the counter bounds a number and publishes no other data.
        let counted = &limit.counted[(epoch & 1) as usize];
        let next = |counted| {
            let count = limit.count(counted, epoch);
            (count < limit.transactions).then_some(epoch << COUNT_BITS | (count + 1))
        };
        counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Returns true if the current epoch has reached its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining_transactions() == 0
    }

    /// The number of transactions that the current epoch still accepts.
    pub(crate) fn remaining_transactions(&self) -> u64 {
        let Some(limit) = self.limit.get() else { return u64::MAX };
        let epoch = self.current();
        // Relaxed: as in `count_in`.
        let counted = limit.counted[(epoch & 1) as usize].load(Ordering::Relaxed);
        limit.transactions.saturating_sub(limit.count(counted, epoch))
    }

    /// The current global epoch.
    ///
    /// SeqCst: a commit reads it after locking its write set and before validating its read set, and all three are in
    /// the single total order. So if one commit overwrites what another has read, the reader's epoch is never the later
    /// one (Silo, section 4.2). The load also acquires everything that happened before the epoch began.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::SeqCst) & !GATE
    }

    /// Returns true if the gate is closed at this moment.
    pub(crate) fn is_gate_closed(&self) -> bool {
        // Acquire pairs with the SeqCst stores of `close_gate` and `open_gate`.
        self.current.load(Ordering::Acquire) & GATE != 0
    }

    /// Enters a commit section and returns its epoch, which, like all later ones, cannot be sealed before
    /// [`Published::leave`]. Waits while the gate is closed.
    #[inline]
    pub(crate) fn enter(&self, published: &Published) -> u64 {
        // Relaxed: it is read again below.
        let mut epoch = self.current.load(Ordering::Relaxed);
        loop {
            if epoch & GATE == 0 {
                // A store and a load with the light barrier between them (see the module docs); the partners are in
                // `advance`, `close_gate` and `wait_for`. Release: a sealer of an earlier epoch may read this store
                // instead of the `leave` before it, and must still see the writes before that `leave`. Acquire: a thread
                // that enters after the gate was opened sees what was done while the gate was closed.
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

    /// Same as [`enter`](Self::enter), for a thread that has closed the gate.
    pub(crate) fn enter_exclusively(&self, published: &Published) -> u64 {
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
            // The gate is opened under this lock, so no wakeup is lost between this check and the wait.
            while self.current.load(Ordering::Acquire) & GATE != 0 {
                self.opened.wait(&mut waiting);
            }
        }
    }

    /// Closes the gate, so that no thread enters a commit section. Blocks while another thread has it closed. The caller
    /// must call [`wait_for_all`](Self::wait_for_all) before it relies on exclusive access.
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
        // SeqCst, which also releases what was done behind the closed gate to the threads that enter next.
        self.current.fetch_and(!GATE, Ordering::SeqCst);
        drop(waiting);
        self.opened.notify_all();
        // SAFETY: by this function's contract, the caller has held the lock since `close_gate` or `try_close_gate`.
        unsafe { self.gate.unlock() }
    }

    /// Advances the global epoch by one and returns the previous epoch, which can now be sealed. Only the log stage calls
    /// it.
    pub(crate) fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst) & !GATE
    }

    /// Raises the global epoch to this one, unless it is higher, and by one at least; returns it. The caller has closed the gate
    /// and called `wait_for_all`, so all earlier epochs are sealed; and there is no log stage that advances it.
    pub(crate) fn skip_to(&self, epoch: u64) -> u64 {
        let epoch = epoch.max(self.current() + 1);
        // SeqCst: as an advance.
        self.current.store(epoch | GATE, Ordering::SeqCst);
        epoch
    }

    /// Closes all epochs: a thread that enters a commit section from here on sees it in `is_closed`; the sealer of the
    /// current epoch waits for threads that entered before.
    ///
    /// SeqCst: like the advance of the epoch, this store precedes the sealer's loads of what worker contexts published.
    pub(crate) fn close(&self) {
        self.ended.store(CLOSED, Ordering::SeqCst);
    }

    /// Ends commits in `epoch`, although it is still the global epoch. The caller has closed the gate and called
    /// `wait_for_all`, so no commit section is in progress that would have to notice.
    pub(crate) fn end_commits_of(&self, epoch: u64) {
        self.ended.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Returns true if a commit may use `epoch`, the global epoch that it has read in its commit section. The argument is
    /// that of [`is_closed`](Self::is_closed).
    #[inline]
    pub(crate) fn takes_commits_of(&self, epoch: u64) -> bool {
        self.ended.load(Ordering::SeqCst) < epoch
    }

    /// The present generation: the schema, and the protocol that is in force. A transaction records it when an attempt
    /// begins and compares it in its commit section: if the schema has changed, a table that the transaction used may have
    /// been replaced; if the protocol has changed, the attempt is isolated by rules that no longer hold.
    ///
    /// Acquire: a thread that sees a generation sees its tables and its protocol. Inside a commit section the gate already
    /// guarantees this, because a generation begins only while the gate is closed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The stamp of the last schema change: that of a commit that enters its section afterwards is higher, so that replay has made
    /// a table before it meets rows of it, also where these are new and of the same epoch.
    #[inline]
    pub(crate) fn schema_stamp(&self) -> Stamp {
        // Relaxed: it is set behind the closed gate, and asked inside a commit section.
        Stamp::of(self.schema.load(Ordering::Relaxed))
    }

    /// Notes the stamp of a schema change. The caller has closed the gate.
    pub(crate) fn note_schema_change(&self, stamp: Stamp) {
        self.schema.store(stamp.present(), Ordering::Relaxed);
    }

    /// Begins the next generation of the schema. The caller has closed the gate, so no commit section sees the change.
    pub(crate) fn next_generation(&self) {
        // Release: pairs with the load above.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Puts the protocol of this number in force, from the next generation on. The caller has closed the gate, so no commit
    /// section sees the change; or no transaction has begun yet.
    pub(crate) fn put_in_force(&self, protocol: usize) {
        // Relaxed: no other thread changes it while the gate is closed.
        let generation = self.generation.load(Ordering::Relaxed);
        // The count of changes begins again before it reaches the number of the protocol.
        let counters = !(u64::MAX << PROTOCOL_SHIFT);
        let changed = ((generation & counters) + (1 << PROTOCOL_CHANGE_SHIFT)) & counters;
        // Release: pairs with the load in `generation`.
        self.generation.store(changed | (protocol as u64) << PROTOCOL_SHIFT, Ordering::Release);
    }

    /// Returns true if all epochs are closed, so that a thread inside a commit section must leave it without
    /// committing.
    ///
    /// The load follows the store and the barrier in `enter`, so either it sees the store of `close`, or the sealer sees
    /// the published epoch.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.ended.load(Ordering::SeqCst) == CLOSED
    }

    /// Waits until no thread can commit in `epoch`. The wait is short, because commit sections run no user code.
    pub(crate) fn seal<'a>(&self, epoch: u64, worker_contexts: impl Iterator<Item = &'a Published>) {
        debug_assert!(self.current() > epoch, "an epoch is sealed after the global epoch has gone on");
        self.wait_for(epoch, worker_contexts);
    }

    fn wait_for<'a>(&self, epoch: u64, worker_contexts: impl Iterator<Item = &'a Published>) {
        let _latch = at(Activity::Latch);
        self.barrier.heavy();
        for published in worker_contexts {
            let (backoff, mut yields) = (Backoff::new(), 0);
            while published.shows_at_most(epoch) {
                if !backoff.is_completed() {
                    backoff.snooze();
                } else if yields < MAX_YIELDS {
                    // The worker's thread may have been preempted in its commit section: yield to it.
                    std::thread::yield_now();
                    yields += 1;
                } else {
                    // A commit of very many writes takes milliseconds: others need the processor.
                    std::thread::sleep(NAP);
                }
            }
        }
    }
}

impl Limit {
    /// The number of transactions of `epoch` in a counter; 0 if the counter still holds an earlier epoch.
    fn count(&self, counted: u64, epoch: u64) -> u64 {
        if counted >> COUNT_BITS == epoch { counted & LIMIT_MAXIMUM } else { 0 }
    }
}

impl Published {
    /// Leaves the commit section.
    ///
    /// Release: the sealer, which loads this in `shows_at_most`, sees everything done in the section, including the
    /// appended redo.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(OUTSIDE, Ordering::Release);
    }

    fn shows_at_most(&self, epoch: u64) -> bool {
        // Acquire: pairs with the release in `leave`. The asymmetric barrier, not this ordering, guarantees that the
        // sealer sees a store of `enter` that precedes the worker context's second load of the epoch.
        let shown = self.0.load(Ordering::Acquire);
        shown != OUTSIDE && shown <= epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_generation_tells_changes_of_the_protocol_from_those_of_the_schema() {
        let epochs = Epochs::new(7);
        epochs.put_in_force(2);
        let first = epochs.generation();
        epochs.next_generation();
        assert!(is_of_one_protocol(first, epochs.generation()) && first != epochs.generation());
        for protocol in [3, 2] {
            epochs.put_in_force(protocol);
            assert_eq!(protocol_of(epochs.generation()), protocol);
            assert!(!is_of_one_protocol(first, epochs.generation()), "also when it is the same again");
        }
        assert_eq!(epochs.generation() & SCHEMA_BITS, first & SCHEMA_BITS | 1);
    }

    #[test]
    fn sealing_waits_until_worker_contexts_of_the_epoch_have_left() {
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
    fn an_epoch_accepts_transactions_up_to_its_limit_and_neighbors_are_counted_separately() {
        let epochs = Epochs::new(7);
        assert!((0..100).all(|_| epochs.count_in(7)) && !epochs.is_full(), "no limit yet");
        assert_eq!(epochs.remaining_transactions(), u64::MAX);
        epochs.set_limit(2);
        assert!(epochs.count_in(7) && !epochs.is_full() && epochs.remaining_transactions() == 1);
        assert!(epochs.count_in(7) && epochs.is_full() && !epochs.count_in(7));
        epochs.advance();
        assert!(!epochs.is_full() && epochs.count_in(8), "the next one is empty");
        assert!(!epochs.count_in(7), "a thread that is late for the previous epoch finds it full");
        epochs.advance();
        assert!(epochs.count_in(9) && epochs.count_in(8) && !epochs.count_in(8));
    }

    #[test]
    fn a_thread_that_enters_after_the_advance_does_not_delay_the_seal() {
        let epochs = Epochs::new(7);
        let published = Published::default();
        let old = epochs.advance();
        assert_eq!(epochs.enter(&published), 8);
        epochs.seal(old, [&published].into_iter());
        published.leave();
    }

    /// Entering threads count their commits in each epoch; the sealer checks that a sealed epoch's count stays the same.
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
    fn a_closed_gate_excludes_all_threads_and_they_proceed_when_it_opens() {
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
                epochs.enter_exclusively(&alone);
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
    fn the_log_stage_does_not_wait_for_an_exclusive_transaction() {
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
