//! Per-worker queues with work stealing: each worker dequeues from its own queue; if queues are shared, an idle worker
//! steals from another's.
//!
//! A thread that dequeues a call publishes the call's conflict class under the lock of that queue. Calls of one conflict
//! class, which the schedule has put into one queue, are dequeued as a group; calls whose conflict class another worker is
//! running are skipped. So two conflicting calls seldom run at the same time, also where a queue holds several classes.
//!
//! A worker whose queue is empty steals one call: from the longest queue that has one whose conflict class no worker is
//! running. A call that probably conflicts with a running one is stolen only from a crowded queue; otherwise the worker
//! sleeps. Calls that usually conflict within their class are serialized: a worker sleeps rather than run two of them at
//! once, whichever queue they are in. Shared queues are also bounded, and a thread that enqueues a call into a full queue
//! blocks: this backpressure keeps producers from submitting short calls endlessly while a queue of long calls backs up.
//! A worker dequeues only a few of the waiting calls, so that the rest can be stolen.
//!
//! Invariants: no call waits in a queue while a worker that should run it sleeps.
//!
//! Whether queues are shared can change at any time ([`WorkQueues::share`]), as another schedule takes the place of the first.
//!
//! Concurrency: a worker sets `asleep` before it sleeps, then checks all queues once more; a thread that enqueues or
//! finishes a call publishes that, then looks for idle workers. All these accesses are sequentially consistent, so at least
//! one of the two sees the other. One call wakes one worker. A worker that dequeues a call and leaves others behind wakes
//! the next worker, so that calls that were enqueued together do not wait for a worker that is busy with the first.

mod sharing;
mod stealing;

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::diagnostics::activity::{Activity, at};
pub(crate) use sharing::Sharing;

/// An item of the queues.
pub(crate) trait Work {
    /// The class of calls with which it probably conflicts; 0: none known.
    fn conflict_class(&self) -> u64;

    /// Returns true if it must not run concurrently with a call of its class.
    fn waits_for_rivals(&self) -> bool {
        false
    }
}

/// One worker's queue.
struct Queue<T> {
    state: Mutex<State<T>>,
    /// The queue's worker waits here for calls.
    filled: Condvar,
    /// Threads wait here to enqueue a call while the queue is full.
    drained: Condvar,
    /// The queue's length, for threads that do not hold the lock.
    waiting: AtomicUsize,
    /// True if the queue's worker sleeps or is about to.
    asleep: AtomicBool,
    /// The conflict class of the calls that the queue's worker is running; 0: none.
    running: AtomicU64,
}

struct State<T> {
    items: VecDeque<T>,
    /// True if the worker was woken to look for a call to steal.
    nudged: bool,
    /// Number of threads that wait to enqueue a call.
    blocked: usize,
    closed: bool,
}

/// The outcome of enqueuing a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put<T> {
    /// The call is enqueued.
    In,
    /// The queue is full; returns the call.
    Full(T),
    /// The queue is closed.
    Closed,
}

/// Removes the items at these positions, which are in ascending order.
fn remove<T>(items: &mut VecDeque<T>, places: &[usize], into: &mut Vec<T>) {
    if places.last().is_some_and(|last| last + 1 == places.len()) {
        return into.extend(items.drain(..places.len()));
    }
    // Each removal moves the items behind it forward by one.
    let taken = places.iter().enumerate().filter_map(|(before, place)| items.remove(place - before));
    into.extend(taken);
}

/// A caller's thread runs a call in the place of an idle worker, for as long as this lives.
pub(crate) struct StandIn<'q>(&'q AtomicUsize);

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `stand_in`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All workers' queues.
pub(crate) struct WorkQueues<T> {
    queues: Box<[Queue<T>]>,
    /// The most calls in a queue if queues are shared; 0 if they are not.
    bound: AtomicUsize,
    /// Number of workers that sleep or are about to.
    idle: AtomicUsize,
    /// Number of callers' threads that run a call in the place of an idle worker.
    standing_in: AtomicUsize,
    batches: AtomicU64,
    items: AtomicU64,
    stolen: AtomicU64,
}

impl<T: Work> WorkQueues<T> {
    /// Makes one queue for each worker; without `sharing`, queues are unbounded and no worker steals.
    pub(crate) fn new(workers: usize, sharing: Option<Sharing>) -> WorkQueues<T> {
        let queue = |_| Queue {
            state: Mutex::new(State { items: VecDeque::new(), nudged: false, blocked: 0, closed: false }),
            filled: Condvar::new(),
            drained: Condvar::new(),
            waiting: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            running: AtomicU64::new(0),
        };
        WorkQueues {
            queues: (0..workers).map(queue).collect(),
            bound: AtomicUsize::new(sharing.map_or(0, |sharing| sharing.bound)),
            idle: AtomicUsize::new(0),
            standing_in: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            items: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// The number of queues.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Enqueues a call; blocks while the queue is full. Returns false if the queue is closed.
    pub(crate) fn push(&self, queue: usize, item: T) -> bool {
        let state = self.queues[queue].state.lock();
        let state = self.wait_for_room(queue, state);
        self.put(queue, state, |items| items.push_back(item))
    }

    fn wait_for_room<'q>(
        &'q self,
        queue: usize,
        mut state: MutexGuard<'q, State<T>>,
    ) -> MutexGuard<'q, State<T>> {
        while state.items.len() >= self.most_calls() && !state.closed {
            state.blocked += 1;
            self.queues[queue].drained.wait(&mut state);
            state.blocked -= 1;
        }
        state
    }

    /// Enqueues a call unless the queue is full.
    pub(crate) fn try_push(&self, queue: usize, item: T) -> Put<T> {
        let state = self.queues[queue].state.lock();
        if state.items.len() >= self.most_calls() && !state.closed {
            return Put::Full(item);
        }
        if self.put(queue, state, |items| items.push_back(item)) { Put::In } else { Put::Closed }
    }

    /// Enqueues calls that were admitted before, regardless of the bound. Returns false if the queue is closed.
    pub(crate) fn append(&self, queue: usize, more: &mut Vec<T>) -> bool {
        let state = self.queues[queue].state.lock();
        more.is_empty() || self.put(queue, state, |items| items.extend(more.drain(..)))
    }

    fn put(
        &self,
        queue: usize,
        mut state: MutexGuard<'_, State<T>>,
        put: impl FnOnce(&mut VecDeque<T>),
    ) -> bool {
        if state.closed {
            return false;
        }
        put(&mut state.items);
        let own = &self.queues[queue];
        // SeqCst: publishes the call before the search for idle workers (see the module docs).
        own.waiting.store(state.items.len(), Ordering::SeqCst);
        let asleep = own.asleep.load(Ordering::SeqCst);
        let another = !asleep
            && self.are_shared()
            && self.idle.load(Ordering::SeqCst) > 0
            && self.has_stealable(&state);
        drop(state);
        if asleep {
            own.filled.notify_one();
        } else if another {
            self.nudge_another(queue);
        }
        true
    }

    /// Wakes one idle worker other than `busy`, so that it looks for a call to steal.
    fn nudge_another(&self, busy: usize) {
        let number = self.queues.len();
        let others = (1..number).map(|step| &self.queues[(busy + step) % number]);
        for other in others.filter(|other| other.asleep.load(Ordering::SeqCst)) {
            let mut state = other.state.lock();
            // The worker may be awake again, or already nudged for another call. A worker whose own calls wait for
            // conflicting ones is woken by `wake_for` when those have ended.
            if !state.nudged && state.items.is_empty() && other.asleep.load(Ordering::Relaxed) {
                state.nudged = true;
                drop(state);
                other.filled.notify_one();
                return;
            }
        }
    }

    /// Dequeues at most `at_most` calls for a worker that has finished the calls it dequeued before. With shared queues
    /// it dequeues a few calls of one conflict class, or steals one call. Blocks while there are none; `into` stays empty
    /// only once the queue is closed and drained.
    pub(crate) fn take(&self, worker: usize, at_most: usize, into: &mut Vec<T>) {
        let own = &self.queues[worker];
        loop {
            let state = own.state.lock();
            let (waiting, are_shared) = (state.items.len(), self.are_shared());
            if waiting > 0
                && are_shared
                && let Some(group) = self.group(&state, worker, at_most)
            {
                let freed = self.runs(worker, state.items[group[0]].conflict_class());
                self.take_from(worker, state, |items| remove(items, &group, into));
                return self.wake_for(freed, worker);
            }
            if waiting > 0 && !are_shared {
                return self
                    .take_from(worker, state, |items| into.extend(items.drain(..waiting.min(at_most))));
            }
            let closed = state.closed;
            drop(state);
            self.wake_for(self.runs(worker, 0), worker);
            if self.steal(worker, into) || closed || self.sleep(worker, into) {
                return;
            }
        }
    }

    fn take_from(
        &self,
        number: usize,
        mut state: MutexGuard<'_, State<T>>,
        take: impl FnOnce(&mut VecDeque<T>),
    ) {
        let queue = &self.queues[number];
        let before = state.items.len();
        take(&mut state.items);
        let left = state.items.len();
        // Relaxed: a thread that reads a stale, higher length checks again under the lock.
        queue.waiting.store(left, Ordering::Relaxed);
        let blocked = state.blocked;
        // Calls that were enqueued while the worker slept, or in one batch, have woken only one worker. SeqCst: the
        // remaining calls were published before this search for idle workers (see the module docs).
        let another = left > 0
            && self.are_shared()
            && self.idle.load(Ordering::SeqCst) > 0
            && self.has_stealable(&state);
        drop(state);
        if blocked > 0 {
            queue.drained.notify_all();
        }
        if another {
            self.nudge_another(number);
        }
        // Relaxed: statistics.
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.items.fetch_add((before - left) as u64, Ordering::Relaxed);
    }

    /// Sleeps until there is a call in the worker's own queue or the worker is nudged, unless it can steal a call right
    /// away. Returns whether it stole one.
    fn sleep(&self, worker: usize, into: &mut Vec<T>) -> bool {
        let own = &self.queues[worker];
        // SeqCst: publishes that the worker sleeps before it checks all queues (see the module docs).
        own.asleep.store(true, Ordering::SeqCst);
        self.idle.fetch_add(1, Ordering::SeqCst);
        let found = self.steal(worker, into);
        let _idle = at(Activity::Idle);
        let mut state = own.state.lock();
        while !found && !self.has_runnable(&state, worker) && !state.nudged && !state.closed {
            own.filled.wait(&mut state);
        }
        state.nudged = false;
        own.asleep.store(false, Ordering::SeqCst);
        drop(state);
        self.idle.fetch_sub(1, Ordering::SeqCst);
        // A call that arrived in the own queue meanwhile has woken only this worker, which is busy with a stolen call.
        if found && own.waiting.load(Ordering::SeqCst) > 0 && self.idle.load(Ordering::SeqCst) > 0 {
            self.nudge_another(worker);
        }
        found
    }

    /// Returns true if a worker sleeps in whose place no caller runs a call: a hint for [`stand_in`](Self::stand_in).
    pub(crate) fn has_idle(&self) -> bool {
        // Relaxed: as in `stand_in`.
        self.standing_in.load(Ordering::Relaxed) < self.idle.load(Ordering::Relaxed)
    }

    /// Lets a caller's thread run one call in the place of an idle worker, unless other callers already stand in for all of
    /// them. Counts the call as a batch.
    pub(crate) fn stand_in(&self) -> Option<StandIn<'_>> {
        // Relaxed: a bound on concurrency, on which no memory access depends. A worker that wakes meanwhile exceeds it for
        // one call.
        let before = self.standing_in.fetch_add(1, Ordering::Relaxed);
        let stand_in = StandIn(&self.standing_in);
        if before >= self.idle.load(Ordering::Relaxed) {
            return None;
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.items.fetch_add(1, Ordering::Relaxed);
        Some(stand_in)
    }

    /// Removes all waiting calls, for a caller that enqueues them again.
    pub(crate) fn take_out(&self) -> Vec<T> {
        let mut all = Vec::new();
        for queue in &self.queues {
            let mut state = queue.state.lock();
            all.extend(state.items.drain(..));
            // Relaxed: a thread that reads a stale, higher length checks again under the lock.
            queue.waiting.store(0, Ordering::Relaxed);
            drop(state);
            queue.drained.notify_all();
        }
        all
    }

    /// Refuses further calls; each worker stops once its queue is drained.
    pub(crate) fn close(&self) {
        for queue in &self.queues {
            queue.state.lock().closed = true;
            queue.filled.notify_all();
            queue.drained.notify_all();
        }
    }

    /// The number of batches that workers have dequeued, and of the calls in them.
    pub(crate) fn batches(&self) -> (u64, u64) {
        (self.batches.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed))
    }

    /// The approximate length of a queue.
    pub(crate) fn waiting(&self, queue: usize) -> usize {
        self.queues[queue].waiting.load(Ordering::Relaxed)
    }

    /// Number of calls that were stolen.
    pub(crate) fn stolen(&self) -> u64 {
        self.stolen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
