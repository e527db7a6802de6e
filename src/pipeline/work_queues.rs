//! The workers' queues: each worker takes from its own, and where they share, an idle worker steals from another's.
//!
//! A worker that finds its queue empty takes one call from another's: from the longest that has one whose rivals nobody is
//! running, or else from the longest; only if all are empty it sleeps.
//! Where workers share, queues are bounded as well: who puts a call into a full one waits, so that a queue of long calls
//! holds back what is made for it instead of being overtaken without end by the short calls of another queue; and a
//! worker takes only a few of those that wait, so that the rest can be stolen.
//!
//! What it keeps true: no call waits in a queue while a worker sleeps that could run it. Who goes to sleep says so, then
//! looks into all queues once more; who puts a call in makes it visible, then looks who sleeps. Both accesses are
//! sequentially consistent, so one of the two sees the other. One call wakes one worker; who takes a call and leaves others
//! behind wakes the next, so that several that came together are not left to a worker that is busy with the first.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The most calls that a worker takes at once where workers share: what it has taken nobody can steal.
const GROUP_SHARED: usize = 8;
/// So far a thief looks into a queue for a call that suits it.
const LOOKED_AT: usize = 32;

/// What can wait in the queues.
pub(crate) trait Work {
    /// What it probably conflicts about with all that have the same; 0: nobody knows.
    fn rivalry(&self) -> u64;
}

/// How workers share their queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The most calls that wait in a queue.
    pub(crate) bound: usize,
}

/// One worker's queue.
struct Queue<T> {
    state: Mutex<State<T>>,
    /// Its worker waits here.
    filled: Condvar,
    /// Who wants to put something in waits here.
    drained: Condvar,
    /// How many calls wait in it, for those who don't hold the lock.
    waiting: AtomicUsize,
    /// Whether its worker sleeps, or is about to.
    asleep: AtomicBool,
    /// The rivalry of the call that its worker runs.
    running: AtomicU64,
}

struct State<T> {
    items: VecDeque<T>,
    /// Whether the worker is to look around although its own queue is empty.
    nudged: bool,
    /// How many wait to put something in.
    blocked: usize,
    closed: bool,
}

/// What came of putting a call in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put<T> {
    /// It is in.
    In,
    /// The queue is full; the call comes back.
    Full(T),
    /// The queue takes no more.
    Closed,
}

/// All workers' queues.
pub(crate) struct WorkQueues<T> {
    queues: Box<[Queue<T>]>,
    sharing: Option<Sharing>,
    /// How many workers sleep, or are about to.
    idle: AtomicUsize,
    handovers: AtomicU64,
    items: AtomicU64,
    stolen: AtomicU64,
}

impl<T: Work> WorkQueues<T> {
    /// One queue for each worker.
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
            sharing,
            idle: AtomicUsize::new(0),
            handovers: AtomicU64::new(0),
            items: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// Whether workers steal.
    pub(crate) fn are_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Puts one in, and waits while the queue is full. Whether the queue is open.
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
        let bound = self.sharing.map_or(usize::MAX, |sharing| sharing.bound);
        while state.items.len() >= bound && !state.closed {
            state.blocked += 1;
            self.queues[queue].drained.wait(&mut state);
            state.blocked -= 1;
        }
        state
    }

    /// Puts one in, if there is room.
    pub(crate) fn try_push(&self, queue: usize, item: T) -> Put<T> {
        let state = self.queues[queue].state.lock();
        let bound = self.sharing.map_or(usize::MAX, |sharing| sharing.bound);
        if state.items.len() >= bound && !state.closed {
            return Put::Full(item);
        }
        if self.put(queue, state, |items| items.push_back(item)) { Put::In } else { Put::Closed }
    }

    /// Puts all of these in, whatever the bound: they were let in before.
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
        // SeqCst: first the call is to be seen, then it is looked who sleeps (the module's argument).
        own.waiting.store(state.items.len(), Ordering::SeqCst);
        drop(state);
        if own.asleep.load(Ordering::SeqCst) {
            own.filled.notify_one();
        } else if self.sharing.is_some() && self.idle.load(Ordering::SeqCst) > 0 {
            self.nudge_another(queue);
        }
        true
    }

    /// Wakes one idle worker, so that it looks around.
    fn nudge_another(&self, busy: usize) {
        let number = self.queues.len();
        let others = (1..number).map(|step| &self.queues[(busy + step) % number]);
        for other in others.filter(|other| other.asleep.load(Ordering::SeqCst)) {
            let mut state = other.state.lock();
            // Its worker may be awake again, or have been nudged by another call.
            if !state.nudged && state.items.is_empty() && other.asleep.load(Ordering::Relaxed) {
                state.nudged = true;
                drop(state);
                other.filled.notify_one();
                return;
            }
        }
    }

    /// Takes what waits for a worker, at most so many; where workers share, half of it, or one of another's. Blocks while
    /// there is nothing. Empty once the queue is closed and emptied.
    pub(crate) fn take(&self, worker: usize, at_most: usize, into: &mut Vec<T>) {
        let own = &self.queues[worker];
        loop {
            let state = own.state.lock();
            let waiting = state.items.len();
            if waiting > 0 {
                let share =
                    if self.sharing.is_some() { waiting.div_ceil(2).min(GROUP_SHARED) } else { waiting };
                let taken = share.min(at_most);
                return self.take_from(worker, state, |items| into.extend(items.drain(..taken)));
            }
            let closed = state.closed;
            drop(state);
            if self.steal(worker, into) || closed {
                return;
            }
            self.sleep(worker);
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
        // Relaxed: whoever sees too many looks under the lock.
        queue.waiting.store(left, Ordering::Relaxed);
        let blocked = state.blocked;
        drop(state);
        if blocked > 0 {
            queue.drained.notify_all();
        }
        // What was put in while its worker slept, or together with others, has woken one worker only. SeqCst: what is left
        // was made visible before this look at who sleeps (the module's argument).
        if left > 0 && self.sharing.is_some() && self.idle.load(Ordering::SeqCst) > 0 {
            self.nudge_another(number);
        }
        // Relaxed: statistics.
        self.handovers.fetch_add(1, Ordering::Relaxed);
        self.items.fetch_add((before - left) as u64, Ordering::Relaxed);
    }

    /// A worker runs a call of this rivalry now; 0: none.
    pub(crate) fn runs(&self, worker: usize, rivalry: u64) {
        // Relaxed: advice for thieves.
        self.queues[worker].running.store(rivalry, Ordering::Relaxed);
    }

    /// Takes one from another's queue: the first whose rivals nobody is running, from the longest queue that has one; if
    /// none has, the first of the longest.
    fn steal(&self, worker: usize, into: &mut Vec<T>) -> bool {
        if self.sharing.is_none() {
            return false;
        }
        // Relaxed: a guess; the queue itself is looked at under its lock.
        let waiting = |queue: &Queue<T>| queue.waiting.load(Ordering::Relaxed);
        let others = self.queues.iter().enumerate().filter(|(number, _)| *number != worker);
        let mut others: SmallVec<[(usize, usize); 32]> = others
            .map(|(number, queue)| (waiting(queue), number))
            .filter(|(waiting, _)| *waiting > 0)
            .collect();
        others.sort_unstable_by_key(|(waiting, _)| std::cmp::Reverse(*waiting));
        let running: SmallVec<[u64; 32]> = self
            .queues
            .iter()
            .map(|queue| queue.running.load(Ordering::Relaxed))
            .filter(|one| *one != 0)
            .collect();
        let suits = |item: &T| !running.contains(&item.rivalry());
        others.iter().any(|(_, other)| self.steal_from(*other, suits, into))
            || others.iter().any(|(_, other)| self.steal_from(*other, |_| true, into))
    }

    /// Takes the first that suits, if there is one.
    fn steal_from(&self, queue: usize, suits: impl Fn(&T) -> bool, into: &mut Vec<T>) -> bool {
        let state = self.queues[queue].state.lock();
        let Some(place) = state.items.iter().take(LOOKED_AT).position(suits) else { return false };
        self.take_from(queue, state, |items| into.extend(items.remove(place)));
        self.stolen.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Sleeps until there is something in the own queue, or the worker is to look around.
    fn sleep(&self, worker: usize) {
        let _idle = at(Activity::Idle);
        let own = &self.queues[worker];
        // SeqCst: first the worker is seen to sleep, then it looks into all queues (the module's argument).
        own.asleep.store(true, Ordering::SeqCst);
        self.idle.fetch_add(1, Ordering::SeqCst);
        let waits = |queue: &Queue<T>| queue.waiting.load(Ordering::SeqCst) > 0;
        let something = if self.sharing.is_some() { self.queues.iter().any(waits) } else { waits(own) };
        let mut state = own.state.lock();
        while !something && state.items.is_empty() && !state.nudged && !state.closed {
            own.filled.wait(&mut state);
        }
        state.nudged = false;
        own.asleep.store(false, Ordering::SeqCst);
        drop(state);
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// Refuses what comes, and lets the workers go once their queues are empty.
    pub(crate) fn close(&self) {
        for queue in &self.queues {
            queue.state.lock().closed = true;
            queue.filled.notify_all();
            queue.drained.notify_all();
        }
    }

    /// How often something was taken, and how much in all.
    pub(crate) fn handovers(&self) -> (u64, u64) {
        (self.handovers.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed))
    }

    /// How many wait in a queue, about.
    pub(crate) fn waiting(&self, queue: usize) -> usize {
        self.queues[queue].waiting.load(Ordering::Relaxed)
    }

    /// How many calls were stolen.
    pub(crate) fn stolen(&self) -> u64 {
        self.stolen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Numbers are rivals in their hundreds.
    impl Work for i32 {
        fn rivalry(&self) -> u64 {
            *self as u64 / 100
        }
    }

    const SHARED: Option<Sharing> = Some(Sharing { bound: 8 });

    fn take(queues: &WorkQueues<i32>, worker: usize) -> Vec<i32> {
        let mut taken = Vec::new();
        queues.take(worker, 64, &mut taken);
        taken
    }

    #[test]
    fn who_does_not_share_takes_all_of_its_own_in_order() {
        let queues = WorkQueues::new(2, None);
        (0..100).for_each(|item| assert!(queues.push(0, item)));
        assert!(queues.append(1, &mut vec![7]));
        assert!(take(&queues, 0).into_iter().eq(0..64) && take(&queues, 0).into_iter().eq(64..100));
        assert_eq!((take(&queues, 1), queues.stolen(), queues.handovers()), (vec![7], 0, (3, 101)));
        queues.close();
        assert!(!queues.push(0, 1) && !queues.append(0, &mut vec![1]));
        assert_eq!(queues.try_push(0, 1), Put::Closed);
        assert_eq!(take(&queues, 0), [], "closed and empty");
    }

    #[test]
    fn who_shares_takes_half_and_steals_one_of_the_longest() {
        let queues = WorkQueues::new(3, SHARED);
        (0..8).for_each(|item| assert!(queues.push(0, item)));
        assert!(queues.push(1, 100));
        assert_eq!(queues.try_push(0, 9), Put::Full(9));
        assert_eq!(take(&queues, 2), [0]);
        assert_eq!(take(&queues, 0), [1, 2, 3, 4]);
        assert_eq!((take(&queues, 1), take(&queues, 1)), (vec![100], vec![5]));
        assert_eq!(queues.stolen(), 2);
    }

    #[test]
    fn a_thief_prefers_what_nobody_runs_the_rivals_of() {
        let queues = WorkQueues::new(3, Some(Sharing { bound: 64 }));
        [501, 502, 701, 503].into_iter().for_each(|item| assert!(queues.push(0, item)));
        [801, 502].into_iter().for_each(|item| assert!(queues.push(1, item)));
        queues.runs(0, 5);
        assert_eq!(take(&queues, 2), [701], "of the longest queue, but not the first");
        queues.runs(2, 7);
        assert_eq!(take(&queues, 2), [801], "of the other queue");
        queues.runs(2, 8);
        assert_eq!(take(&queues, 2), [501], "better than nothing");
        queues.runs(0, 0);
        assert_eq!(take(&queues, 2), [502]);
    }

    #[test]
    fn who_finds_the_queue_full_waits_for_room() {
        let queues = WorkQueues::new(1, SHARED);
        (0..8).for_each(|item| assert!(queues.push(0, item)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queues.push(0, 8));
            thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            assert_eq!(take(&queues, 0), [0, 1, 2, 3]);
            assert!(waiting.join().expect("no panic"));
            (9..12).for_each(|item| assert!(queues.push(0, item)));
            let waiting = scope.spawn(|| queues.push(0, 12));
            thread::sleep(Duration::from_millis(20));
            queues.close();
            assert!(!waiting.join().expect("no panic"), "closing lets it go");
            assert!(queues.append(0, &mut Vec::new()));
        });
        assert_eq!(take(&queues, 0), [4, 5, 6, 7]);
    }

    #[test]
    fn an_idle_worker_is_woken_for_what_a_busy_one_has_no_time_for() {
        let queues = WorkQueues::new(2, SHARED);
        thread::scope(|scope| {
            // Worker 0 is busy: it never comes.
            let thief = scope.spawn(|| take(&queues, 1));
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            assert!(queues.push(0, 5));
            assert_eq!(thief.join().expect("no panic"), [5]);
            assert!(start.elapsed() < Duration::from_secs(5));
        });
    }

    #[test]
    fn what_came_together_is_not_left_to_a_worker_that_is_busy_with_the_first() {
        let queues = WorkQueues::new(3, SHARED);
        thread::scope(|scope| {
            // Each takes once, and is busy for ever.
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let queues = &queues;
                    scope.spawn(move || queues.take(worker, 1, &mut Vec::new()))
                })
                .collect();
            thread::sleep(Duration::from_millis(20));
            assert!(queues.append(0, &mut vec![1, 2, 3]));
            let start = Instant::now();
            while !workers.iter().all(|worker| worker.is_finished()) && start.elapsed().as_secs() < 10 {
                thread::sleep(Duration::from_millis(1));
            }
            let all_woke = workers.iter().all(|worker| worker.is_finished());
            queues.close();
            assert!(all_woke, "a worker slept while a call waited");
        });
    }

    #[test]
    fn everything_put_in_by_several_comes_out_once_whoever_takes_it() {
        for sharing in [None, SHARED] {
            let queues = WorkQueues::new(3, sharing);
            let mut all: Vec<i32> = thread::scope(|scope| {
                let workers: Vec<_> = (0..3)
                    .map(|worker| {
                        let queues = &queues;
                        scope.spawn(move || {
                            let mut all = Vec::new();
                            loop {
                                let mut group = take(queues, worker);
                                if group.is_empty() {
                                    return all;
                                }
                                all.append(&mut group);
                            }
                        })
                    })
                    .collect();
                let makers: Vec<_> = (0..2)
                    .map(|maker| {
                        let queues = &queues;
                        // One queue gets nearly everything.
                        scope.spawn(move || {
                            for item in 0..10_000 {
                                assert!(
                                    queues.push(if item % 50 == 0 { 1 } else { 0 }, 10_000 * maker + item)
                                );
                            }
                        })
                    })
                    .collect();
                makers.into_iter().for_each(|maker| maker.join().expect("no panic"));
                queues.close();
                workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
            });
            all.sort_unstable();
            assert!(all.into_iter().eq(0..20_000));
            assert_eq!(queues.stolen() > 0, sharing.is_some());
        }
    }
}
