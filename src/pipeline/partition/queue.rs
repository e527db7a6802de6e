//! The executors' queues: what comes in, and who has ended (DORA, section 4.1.3).
//!
//! What it keeps true:
//!
//! - **Atomic entry.** What enters several queues enters all of them at once: under all their mutexes, taken in the
//!   order of the queues. So of two that share two queues, one is first in both, and they never wait for each other.
//! - **Nothing enters by boundaries that have moved.** What comes in says by which version of the boundaries it was routed. A
//!   queue whose executor's range has changed since refuses it, and then it enters nowhere. Boundaries change under the
//!   mutexes of all whose ranges change, so that in each queue everything before that moment was routed by the old ones,
//!   and everything after it by the new ones ([`boundaries`](super::boundaries)).
//! - Queues between executors are unbounded; what bounds them is how many calls are under way.
//! - An executor is told to go only when the queues are closed and nobody who was let in is left, who might still have
//!   something for it.
//! - **Visits** ([`visits`]). While an executor sleeps that has nothing locked and nothing to do, others may stand in for it,
//!   each in a room of its own, and the executor stays asleep until all have left. What comes in meanwhile wakes
//!   nobody: the last one who leaves looks for it under the mutex under which it was put in, and wakes the executor then.

mod visits;

use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};

use self::visits::{Door, Rooms};
pub(crate) use self::visits::{Route, Unfree, executor_of, executors_of, room_of, rooms_of};

/// What is to enter: for each executor, in ascending order, what it gets.
pub(crate) type Entries<T> = SmallVec<[(usize, T); 4]>;

/// What an executor finds in its queue.
pub(crate) struct Found<T, N> {
    /// What has come in, in order.
    pub(crate) incoming: Vec<T>,
    /// What has happened elsewhere: looked at first.
    pub(crate) notices: Vec<N>,
    /// How many calls have come in beyond the number of entries, because they have come together.
    together: usize,
}

impl<T, N> Default for Found<T, N> {
    fn default() -> Found<T, N> {
        Found { incoming: Vec::new(), notices: Vec::new(), together: 0 }
    }
}

impl<T, N> Found<T, N> {
    fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.notices.is_empty()
    }
}

/// The queues of all executors.
pub(crate) struct Queues<T, N> {
    boxes: Box<[CachePadded<Inbox<T, N>>]>,
    /// How many have been let in, and have not left.
    under_way: AtomicUsize,
    closed: AtomicBool,
}

struct Inbox<T, N> {
    state: Mutex<State<T, N>>,
    filled: Condvar,
    rooms: Rooms,
}

struct State<T, N> {
    found: Found<T, N>,
    asleep: bool,
    /// Whether the executor, when it fell asleep, had nothing locked: then it may be visited.
    at_rest: bool,
    closed: bool,
    /// The first version of the boundaries that has the executor's present range.
    range_since: u64,
    /// How often something was taken or a visitor came, and how much was taken or brought in all.
    takes: u64,
    taken: u64,
    /// Since when the executor is at work, and how long it and its visitors have been before, in all.
    busy_since: Option<Instant>,
    busy: Duration,
}

/// Why something was not let in: it is given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused<E> {
    /// The queues are closed.
    Closed(E),
    /// It was routed by boundaries that have moved.
    Moved(E),
}

impl<T, N> State<T, N> {
    /// What is told by the door.
    fn door(&self) -> Door {
        let is_open = self.asleep && self.at_rest && !self.closed && self.found.is_empty();
        Door { is_open, range_since: self.range_since }
    }

    fn begin_work(&mut self) {
        self.busy_since = Some(Instant::now());
    }

    fn end_work(&mut self) {
        self.busy += self.busy_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
}

impl<T, N> Inbox<T, N> {
    fn new() -> Inbox<T, N> {
        let state = State {
            found: Found::default(),
            asleep: false,
            at_rest: false,
            closed: false,
            range_since: 0,
            takes: 0,
            taken: 0,
            busy_since: None,
            busy: Duration::ZERO,
        };
        Inbox { state: Mutex::new(state), filled: Condvar::new(), rooms: Rooms::new() }
    }

    /// Puts something in. Whether the executor is to be woken.
    fn put(&self, state: &mut State<T, N>, entry: T) -> bool {
        state.found.incoming.push(entry);
        self.wakes(state)
    }

    /// Whether the executor has to be woken for what has just been put in: the last visitor does so when it leaves.
    fn wakes(&self, state: &mut State<T, N>) -> bool {
        self.rooms.show(state.door());
        state.asleep && self.rooms.are_left() && std::mem::take(&mut state.asleep)
    }
}

impl<T, N> Queues<T, N> {
    /// So many.
    pub(crate) fn new(executors: usize) -> Queues<T, N> {
        Queues {
            boxes: (0..executors).map(|_| CachePadded::new(Inbox::new())).collect(),
            under_way: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Lets `calls` in that are not under way yet, with what they have for the queues, of which each is named once.
    /// `version`: of the boundaries by which they were routed.
    pub(crate) fn let_in(
        &self,
        calls: usize,
        version: u64,
        entries: Entries<T>,
    ) -> Result<(), Refused<Entries<T>>> {
        let mut open = self.open(&entries);
        if open.iter().any(|state| state.closed) {
            return Err(Refused::Closed(entries));
        }
        if open.iter().any(|state| state.range_since > version) {
            return Err(Refused::Moved(entries));
        }
        // Relaxed: the mutex that is held orders it before the close; see there.
        self.under_way.fetch_add(calls, Ordering::Relaxed);
        let to_wake = self.put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        Ok(())
    }

    /// Lets a call in that has something for the queues later. False: they are closed.
    pub(crate) fn let_one_in(&self) -> bool {
        let first = self.boxes[0].state.lock();
        if !first.closed {
            // Relaxed: as in `let_in`; all queues are closed at one moment.
            self.under_way.fetch_add(1, Ordering::Relaxed);
        }
        !first.closed
    }

    /// Puts in what somebody has who is under way. False: it was routed by boundaries that have moved.
    pub(crate) fn enter(&self, version: u64, entries: Entries<T>) -> bool {
        let mut open = self.open(&entries);
        if open.iter().any(|state| state.range_since > version) {
            return false;
        }
        let to_wake = self.put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        true
    }

    /// Lets somebody in at those whose ranges change, and changes the boundaries at this very moment: `change` gives their
    /// new version. False: the queues are closed, and nothing has changed.
    pub(crate) fn change(&self, entries: Entries<T>, change: impl FnOnce() -> u64) -> bool {
        let mut open = self.open(&entries);
        if open.iter().any(|state| state.closed) {
            return false;
        }
        // Relaxed: as in `let_in`.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        // Before: else somebody might come to the new owner who does not find it shut.
        entries.iter().for_each(|(number, _)| self.boxes[*number].rooms.shut());
        let version = change();
        open.iter_mut().for_each(|state| state.range_since = version);
        let to_wake = self.put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        true
    }

    fn open(&self, entries: &Entries<T>) -> Open<'_, T, N> {
        debug_assert!(entries.is_sorted_by(|one, other| one.0 < other.0));
        entries.iter().map(|(number, _)| self.boxes[*number].state.lock()).collect()
    }

    /// Puts everything in; who has to be woken.
    fn put(&self, open: &mut Open<'_, T, N>, entries: Entries<T>) -> SmallVec<[usize; 4]> {
        let mut to_wake = SmallVec::new();
        for (state, (number, entry)) in open.iter_mut().zip(entries) {
            if self.boxes[number].put(state, entry) {
                to_wake.push(number);
            }
        }
        to_wake
    }

    fn wake(&self, asleep: &[usize]) {
        for &number in asleep {
            self.boxes[number].filled.notify_one();
        }
    }

    /// Lets `calls` in that go to one queue together, routed by this version of the boundaries.
    pub(crate) fn let_many_in<B>(
        &self,
        calls: usize,
        number: usize,
        version: u64,
        batch: B,
        entry: impl FnOnce(B) -> T,
    ) -> Result<(), Refused<B>> {
        let mut state = self.boxes[number].state.lock();
        if state.closed {
            return Err(Refused::Closed(batch));
        }
        if state.range_since > version {
            return Err(Refused::Moved(batch));
        }
        let wake = self.boxes[number].put(&mut state, entry(batch));
        state.found.together += calls - 1;
        // Relaxed: as in `let_in`.
        self.under_way.fetch_add(calls, Ordering::Relaxed);
        drop(state);
        if wake {
            self.boxes[number].filled.notify_one();
        }
        Ok(())
    }

    /// Tells an executor what has happened.
    pub(crate) fn notify(&self, number: usize, notice: N) {
        let mut state = self.boxes[number].state.lock();
        state.found.notices.push(notice);
        let wake = self.boxes[number].wakes(&mut state);
        drop(state);
        if wake {
            self.boxes[number].filled.notify_one();
        }
    }

    /// `calls` have left: they have nothing more for any queue.
    pub(crate) fn leave(&self, calls: usize) {
        // SeqCst, and the same in `close`: of who leaves last and who closes, one sees the other, and wakes everybody.
        if self.under_way.fetch_sub(calls, Ordering::SeqCst) == calls && self.closed.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    /// Nobody is let in any more.
    pub(crate) fn close(&self) {
        // All of them at one moment: whoever was let in anywhere is counted before any executor finds its queue closed.
        let mut all: Vec<_> = self.boxes.iter().map(|inbox| inbox.state.lock()).collect();
        for (state, inbox) in all.iter_mut().zip(&self.boxes) {
            state.closed = true;
            inbox.rooms.show(state.door());
        }
        drop(all);
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for inbox in &self.boxes {
            let mut state = inbox.state.lock();
            state.asleep = false;
            inbox.rooms.show(state.door());
            drop(state);
            inbox.filled.notify_all();
        }
    }

    /// Takes all that has come in; waits while there is nothing, or it is visited. `at_rest`: whether it may be,
    /// because nothing is locked. False: there will never be anything again.
    pub(crate) fn take(&self, number: usize, at_rest: bool, into: &mut Found<T, N>) -> bool {
        let inbox = &self.boxes[number];
        let mut state = inbox.state.lock();
        state.end_work();
        while state.found.is_empty() || !inbox.rooms.are_left() {
            // SeqCst: pairs with `leave`. Who was let in here is counted, because that was done under this mutex; and
            // who has left has put in before what it had. Visitors are waited for: they may have something to log.
            let is_last = state.closed && self.under_way.load(Ordering::SeqCst) == 0;
            if is_last && state.found.is_empty() && inbox.rooms.are_left() {
                return false;
            }
            (state.asleep, state.at_rest) = (true, at_rest);
            inbox.rooms.show(state.door());
            let _idle = at(Activity::Idle);
            inbox.filled.wait(&mut state);
        }
        state.asleep = false;
        state.begin_work();
        inbox.rooms.show(state.door());
        std::mem::swap(&mut state.found.incoming, &mut into.incoming);
        std::mem::swap(&mut state.found.notices, &mut into.notices);
        let together = std::mem::take(&mut state.found.together);
        state.takes += 1;
        state.taken += (into.incoming.len() + together) as u64;
        true
    }

    /// How long somebody was at work at an executor, in all.
    pub(crate) fn busy(&self, number: usize) -> Duration {
        let state = self.boxes[number].state.lock();
        state.busy + state.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// How often something was taken or brought, and how much in all.
    pub(crate) fn batches(&self) -> (u64, u64) {
        let all = self.boxes.iter().map(|inbox| inbox.state.lock());
        all.fold((0, 0), |sum, state| (sum.0 + state.takes, sum.1 + state.taken))
    }
}

type Open<'q, T, N> = SmallVec<[MutexGuard<'q, State<T, N>>; 4]>;

#[cfg(test)]
mod tests;
