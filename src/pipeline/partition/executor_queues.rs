//! The executors' queues: incoming work, and notices of what has happened at other executors.
//!
//! # Invariants
//! - **Atomic entry.** Work for several queues enters all of them under all their mutexes, locked in the order of the
//!   queues. Of two requests that share two queues, the same one is first in both: they never wait for each other.
//! - **No work enters by an outdated partition map.** Every entry names the version of the map by which it was routed. The
//!   queue of an executor whose range has changed since refuses it, and then it enters no queue. The map changes under the
//!   mutexes of all executors whose ranges change: in each queue, everything before that moment was routed by the old map
//!   and everything after it by the new one ([`repartitioning`](super::repartitioning)).
//! - The queues are unbounded; the number of transactions in flight bounds them.
//! - An executor ends only when the queues are closed and no transaction is active, because an active one can still enter
//!   a queue.
//!
//! # Concurrency
//! One mutex and one condition variable for each executor. An executor without work parks, after it has spun for a while if there
//! are processors for all threads ([`runnable_threads`](super::runnable_threads)). A sender wakes an executor only if that is
//! parked, so a busy executor costs its senders one mutex and no system call.
//!
//! # Source
//! DORA (VLDB 2010), sections 4.1.3 (incoming and completed queues) and 4.2.3 (atomic submission of a phase).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use super::runnable_threads::RunnableThreads;
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::diagnostics::activity::{Activity, at};

/// Entries for the executors' queues, in ascending order of the executors.
pub(crate) type Entries<W> = SmallVec<[(usize, W); 4]>;

/// Entries that an executor has dequeued at once.
pub(crate) struct Taken<W, N> {
    /// Incoming work, in order.
    pub(crate) incoming: Vec<W>,
    /// Events at other executors; handled first.
    pub(crate) notices: Vec<N>,
}

impl<W, N> Default for Taken<W, N> {
    fn default() -> Taken<W, N> {
        Taken { incoming: Vec::new(), notices: Vec::new() }
    }
}

impl<W, N> Taken<W, N> {
    fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.notices.is_empty()
    }
}

/// Entries that a group sends to one executor, in order.
pub(crate) struct QueueEntries<W> {
    entries: Vec<W>,
    /// Number of transactions they contain.
    transactions: usize,
}

impl<W> Default for QueueEntries<W> {
    fn default() -> QueueEntries<W> {
        QueueEntries { entries: Vec::new(), transactions: 0 }
    }
}

impl<W> QueueEntries<W> {
    /// Adds an entry that contains this many transactions.
    pub(crate) fn push(&mut self, entry: W, transactions: usize) {
        self.entries.push(entry);
        self.transactions += transactions;
    }

    /// Takes the entries back.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = W> {
        self.transactions = 0;
        self.entries.drain(..)
    }
}

/// The queues of all executors.
pub(crate) struct ExecutorQueues<W, N> {
    queues: Box<[CachePadded<Queue<W, N>>]>,
    /// Transactions that have been admitted and have not ended.
    active: AtomicUsize,
    closed: AtomicBool,
    runnable: Arc<RunnableThreads>,
}

struct Queue<W, N> {
    state: Mutex<State<W, N>>,
    filled: Condvar,
    /// True if something waits: a hint for an executor that spins.
    is_filled: AtomicBool,
}

struct State<W, N> {
    waiting: Taken<W, N>,
    parked: bool,
    closed: bool,
    /// The first version of the partition map that has the executor's present range.
    range_since: u64,
    /// Number of transactions that the waiting entries contain.
    waiting_transactions: u64,
    /// Number of batch dequeues of transactions, and of transactions dequeued.
    batches: u64,
    transactions: u64,
    /// Time since which the executor is busy, and its earlier busy time in total.
    busy_since: Option<Instant>,
    busy: Duration,
}

/// The reason why work was refused; it is given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused<E> {
    /// The queues are closed.
    Closed(E),
    /// The work was routed by an outdated partition map.
    Misrouted(E),
}

impl<W, N> State<W, N> {
    /// Adds an entry that contains this many transactions.
    fn put(&mut self, entry: W, transactions: usize) {
        self.waiting.incoming.push(entry);
        self.waiting_transactions += transactions as u64;
    }

    /// Marks the executor as no longer parked, because something waits now; returns true if it has to be woken.
    fn wake(&mut self, queue: &Queue<W, N>, runnable: &RunnableThreads) -> bool {
        // Relaxed: a hint; the mutex orders what waits.
        queue.is_filled.store(true, Ordering::Relaxed);
        let was_parked = std::mem::take(&mut self.parked);
        if was_parked {
            runnable.add();
        }
        was_parked
    }

    fn end_work(&mut self) {
        self.busy += self.busy_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
}

impl<W, N> Queue<W, N> {
    fn new() -> Queue<W, N> {
        let state = State {
            waiting: Taken::default(),
            parked: false,
            closed: false,
            range_since: 0,
            waiting_transactions: 0,
            batches: 0,
            transactions: 0,
            busy_since: None,
            busy: Duration::ZERO,
        };
        Queue { state: Mutex::new(state), filled: Condvar::new(), is_filled: AtomicBool::new(false) }
    }
}

impl<W, N> ExecutorQueues<W, N> {
    /// Queues for this many executors, which spin only while there are processors for all threads.
    pub(crate) fn new(executors: usize, processors: usize) -> ExecutorQueues<W, N> {
        ExecutorQueues {
            runnable: Arc::new(RunnableThreads::new(executors, processors)),
            queues: (0..executors).map(|_| CachePadded::new(Queue::new())).collect(),
            active: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The runnable threads, which workers count themselves among.
    pub(crate) fn runnable(&self) -> &Arc<RunnableThreads> {
        &self.runnable
    }

    /// The number of executors.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Admits a transaction with its first entries, each executor named once. `version`: of the map that routed them.
    pub(crate) fn admit(&self, version: u64, entries: Entries<W>) -> Result<(), Refused<Entries<W>>> {
        let locked = self.lock(&entries);
        if locked.iter().any(|state| state.closed) {
            return Err(Refused::Closed(entries));
        }
        if locked.iter().any(|state| state.range_since > version) {
            return Err(Refused::Misrouted(entries));
        }
        // Relaxed: the mutex that is held orders it before the close; see there.
        self.active.fetch_add(1, Ordering::Relaxed);
        self.put(locked, entries, 1);
        Ok(())
    }

    /// Admits a transaction that will enter queues later. False: they are closed.
    pub(crate) fn admit_without_entry(&self) -> bool {
        let first = self.queues[0].state.lock();
        if !first.closed {
            // Relaxed: as in `admit`; all queues are closed at one moment.
            self.active.fetch_add(1, Ordering::Relaxed);
        }
        !first.closed
    }

    /// Admits `transactions` that enter one queue together.
    pub(crate) fn admit_batch<B>(
        &self,
        transactions: usize,
        executor: usize,
        version: u64,
        batch: B,
        entry: impl FnOnce(B) -> W,
    ) -> Result<(), Refused<B>> {
        let queue = &self.queues[executor];
        let mut state = queue.state.lock();
        if state.closed {
            return Err(Refused::Closed(batch));
        }
        if state.range_since > version {
            return Err(Refused::Misrouted(batch));
        }
        state.put(entry(batch), transactions);
        let wake = state.wake(queue, &self.runnable);
        // Relaxed: as in `admit`.
        self.active.fetch_add(transactions, Ordering::Relaxed);
        drop(state);
        if wake {
            queue.filled.notify_one();
        }
        Ok(())
    }

    /// Admits the transactions of a group: what it sends to each executor, in order of the executors, enters all queues at one
    /// moment. Nothing has entered a queue if it is refused.
    pub(crate) fn admit_group(
        &self,
        transactions: usize,
        version: u64,
        entries: &mut [QueueEntries<W>],
    ) -> Result<(), Refused<()>> {
        let concerned = self.queues.iter().zip(entries).filter(|(_, entries)| !entries.entries.is_empty());
        let mut locked: SmallVec<[_; 4]> =
            concerned.map(|(queue, entries)| (queue, queue.state.lock(), entries)).collect();
        if locked.iter().any(|(_, state, _)| state.closed) {
            return Err(Refused::Closed(()));
        }
        if locked.iter().any(|(_, state, _)| state.range_since > version) {
            return Err(Refused::Misrouted(()));
        }
        // Relaxed: as in `admit`.
        self.active.fetch_add(transactions, Ordering::Relaxed);
        let mut parked: SmallVec<[_; 4]> = SmallVec::new();
        for (queue, state, entries) in &mut locked {
            state.waiting.incoming.append(&mut entries.entries);
            state.waiting_transactions += std::mem::take(&mut entries.transactions) as u64;
            if state.wake(queue, &self.runnable) {
                parked.push(*queue);
            }
        }
        drop(locked);
        parked.into_iter().for_each(|queue| {
            queue.filled.notify_one();
        });
        Ok(())
    }

    /// Enters further work of an active transaction. False: it was routed by an outdated map.
    pub(crate) fn enter(&self, version: u64, entries: Entries<W>) -> bool {
        let locked = self.lock(&entries);
        if locked.iter().any(|state| state.range_since > version) {
            return false;
        }
        self.put(locked, entries, 1);
        true
    }

    /// Enters a repartitioning at the executors whose ranges change, and changes the map at the same moment: `change`
    /// returns its new version. False: the queues are closed, and nothing has changed.
    pub(crate) fn repartition(&self, entries: Entries<W>, change: impl FnOnce() -> u64) -> bool {
        let mut locked = self.lock(&entries);
        if locked.iter().any(|state| state.closed) {
            return false;
        }
        // Relaxed: as in `admit`.
        self.active.fetch_add(1, Ordering::Relaxed);
        let version = change();
        locked.iter_mut().for_each(|state| state.range_since = version);
        // It is no transaction, and is not counted as one.
        self.put(locked, entries, 0);
        true
    }

    fn lock(&self, entries: &Entries<W>) -> LockedQueues<'_, W, N> {
        debug_assert!(entries.is_sorted_by(|one, other| one.0 < other.0));
        entries.iter().map(|(executor, _)| self.queues[*executor].state.lock()).collect()
    }

    /// Puts each entry into its queue, unlocks the queues and wakes the executors that are parked.
    fn put(&self, mut locked: LockedQueues<'_, W, N>, entries: Entries<W>, transactions: usize) {
        let mut parked: SmallVec<[_; 4]> = SmallVec::new();
        for (state, (executor, entry)) in locked.iter_mut().zip(entries) {
            let queue = &self.queues[executor];
            state.put(entry, transactions);
            if state.wake(queue, &self.runnable) {
                parked.push(queue);
            }
        }
        drop(locked);
        parked.into_iter().for_each(|queue| {
            queue.filled.notify_one();
        });
    }

    /// Sends an executor a notice.
    pub(crate) fn notify(&self, executor: usize, notice: N) {
        self.notify_all(executor, &mut vec![notice]);
    }

    /// Sends an executor notices, in order.
    pub(crate) fn notify_all(&self, executor: usize, notices: &mut Vec<N>) {
        let queue = &self.queues[executor];
        let mut state = queue.state.lock();
        state.waiting.notices.append(notices);
        let wake = state.wake(queue, &self.runnable);
        drop(state);
        if wake {
            queue.filled.notify_one();
        }
    }

    /// `transactions` have ended: they enter no queue any more.
    pub(crate) fn leave(&self, transactions: usize) {
        // SeqCst, and the same in `close`: of the last transaction and the thread that closes, one sees the other and wakes
        // all executors.
        if self.active.fetch_sub(transactions, Ordering::SeqCst) == transactions
            && self.closed.load(Ordering::SeqCst)
        {
            self.wake_all();
        }
    }

    /// Admits no transactions any more.
    pub(crate) fn close(&self) {
        // All queues at one moment: a transaction admitted anywhere is counted before any executor finds its queue closed.
        let mut locked: Vec<_> = self.queues.iter().map(|queue| queue.state.lock()).collect();
        locked.iter_mut().for_each(|state| state.closed = true);
        drop(locked);
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for queue in &self.queues {
            queue.state.lock().wake(queue, &self.runnable);
            queue.filled.notify_all();
        }
    }

    /// Takes everything from an executor's queue; parks while it is empty. False: nothing will ever enter it again.
    pub(crate) fn take(&self, executor: usize, into: &mut Taken<W, N>) -> bool {
        let queue = &self.queues[executor];
        let mut state = queue.state.lock();
        state.end_work();
        let _wait;
        if state.waiting.is_empty() {
            drop(state);
            let _idle = at(Activity::Idle);
            // Relaxed: a hint, as in `wake`.
            _wait = self.runnable.spin_until(|| queue.is_filled.load(Ordering::Relaxed));
            state = queue.state.lock();
        }
        while state.waiting.is_empty() {
            // SeqCst: pairs with `leave`. A transaction that was admitted here is counted, because that was done under this
            // mutex; one that has ended has entered before whatever it had to enter.
            if state.closed && self.active.load(Ordering::SeqCst) == 0 {
                return false;
            }
            if !std::mem::replace(&mut state.parked, true) {
                self.runnable.remove();
            }
            let _idle = at(Activity::Idle);
            queue.filled.wait(&mut state);
        }
        queue.is_filled.store(false, Ordering::Relaxed);
        state.busy_since = Some(Instant::now());
        std::mem::swap(&mut state.waiting.incoming, &mut into.incoming);
        std::mem::swap(&mut state.waiting.notices, &mut into.notices);
        let transactions = std::mem::take(&mut state.waiting_transactions);
        state.batches += u64::from(transactions > 0);
        state.transactions += transactions;
        true
    }

    /// Total busy time of an executor.
    pub(crate) fn busy(&self, executor: usize) -> Duration {
        let state = self.queues[executor].state.lock();
        state.busy + state.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Number of batch dequeues of transactions by executors, and of transactions dequeued: a transaction over several
    /// executors counts once at each of them in each phase.
    pub(crate) fn batches(&self) -> (u64, u64) {
        let states = self.queues.iter().map(|queue| queue.state.lock());
        states.fold((0, 0), |sum, state| (sum.0 + state.batches, sum.1 + state.transactions))
    }
}

type LockedQueues<'q, W, N> = SmallVec<[MutexGuard<'q, State<W, N>>; 4]>;

#[cfg(test)]
mod tests;
