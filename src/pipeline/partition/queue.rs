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

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What is to enter: for each executor, in ascending order, what it gets.
pub(super) type Entries<T> = SmallVec<[(usize, T); 4]>;

/// What an executor finds in its queue.
pub(super) struct Found<T, N> {
    /// What has come in, in order.
    pub(super) incoming: Vec<T>,
    /// What has happened elsewhere: looked at first.
    pub(super) notices: Vec<N>,
    /// How many calls have come in beyond the number of entries, because they have come together.
    together: usize,
}

impl<T, N> Default for Found<T, N> {
    fn default() -> Found<T, N> {
        Found { incoming: Vec::new(), notices: Vec::new(), together: 0 }
    }
}

/// The queues of all executors.
pub(super) struct Queues<T, N> {
    boxes: Box<[CachePadded<Inbox<T, N>>]>,
    /// How many have been let in, and have not left.
    under_way: AtomicUsize,
    closed: AtomicBool,
    takes: AtomicU64,
    taken: AtomicU64,
}

struct Inbox<T, N> {
    state: Mutex<State<T, N>>,
    filled: Condvar,
}

struct State<T, N> {
    found: Found<T, N>,
    asleep: bool,
    closed: bool,
    /// The first version of the boundaries that has the executor's present range.
    range_since: u64,
}

/// Why something was not let in: it is given back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<E> {
    /// The queues are closed.
    Closed(E),
    /// It was routed by boundaries that have moved.
    Moved(E),
}

impl<T, N> State<T, N> {
    /// Puts something in. Whether the executor is to be woken.
    fn put(&mut self, entry: T) -> bool {
        self.found.incoming.push(entry);
        std::mem::take(&mut self.asleep)
    }
}

impl<T, N> Queues<T, N> {
    /// So many.
    pub(super) fn new(executors: usize) -> Queues<T, N> {
        let inbox = || Inbox {
            state: Mutex::new(State {
                found: Found::default(),
                asleep: false,
                closed: false,
                range_since: 0,
            }),
            filled: Condvar::new(),
        };
        Queues {
            boxes: (0..executors).map(|_| CachePadded::new(inbox())).collect(),
            under_way: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            takes: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Lets `calls` in that are not under way yet, with what they have for the queues, of which each is named once.
    /// `version`: of the boundaries by which they were routed.
    pub(super) fn let_in(
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
        let to_wake = put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        Ok(())
    }

    /// Lets a call in that has something for the queues later. False: they are closed.
    pub(super) fn let_one_in(&self) -> bool {
        let first = self.boxes[0].state.lock();
        if !first.closed {
            // Relaxed: as in `let_in`; all queues are closed at one moment.
            self.under_way.fetch_add(1, Ordering::Relaxed);
        }
        !first.closed
    }

    /// Puts in what somebody has who is under way. False: it was routed by boundaries that have moved.
    pub(super) fn enter(&self, version: u64, entries: Entries<T>) -> bool {
        let mut open = self.open(&entries);
        if open.iter().any(|state| state.range_since > version) {
            return false;
        }
        let to_wake = put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        true
    }

    /// Lets somebody in at those whose ranges change, and changes the boundaries at this very moment: `change` gives their
    /// new version. False: the queues are closed, and nothing has changed.
    pub(super) fn change(&self, entries: Entries<T>, change: impl FnOnce() -> u64) -> bool {
        let mut open = self.open(&entries);
        if open.iter().any(|state| state.closed) {
            return false;
        }
        // Relaxed: as in `let_in`.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let version = change();
        open.iter_mut().for_each(|state| state.range_since = version);
        let to_wake = put(&mut open, entries);
        drop(open);
        self.wake(&to_wake);
        true
    }

    fn open(&self, entries: &Entries<T>) -> Open<'_, T, N> {
        debug_assert!(entries.is_sorted_by(|one, other| one.0 < other.0));
        entries.iter().map(|(number, _)| self.boxes[*number].state.lock()).collect()
    }

    fn wake(&self, asleep: &[usize]) {
        for &number in asleep {
            self.boxes[number].filled.notify_one();
        }
    }

    /// Lets `calls` in that go to one queue together, routed by this version of the boundaries.
    pub(super) fn let_many_in<B>(
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
        let wake = state.put(entry(batch));
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
    pub(super) fn notify(&self, number: usize, notice: N) {
        let mut state = self.boxes[number].state.lock();
        state.found.notices.push(notice);
        let wake = std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.boxes[number].filled.notify_one();
        }
    }

    /// `calls` have left: they have nothing more for any queue.
    pub(super) fn leave(&self, calls: usize) {
        // SeqCst, and the same in `close`: of who leaves last and who closes, one sees the other, and wakes everybody.
        if self.under_way.fetch_sub(calls, Ordering::SeqCst) == calls && self.closed.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    /// Nobody is let in any more.
    pub(super) fn close(&self) {
        // All of them at one moment: whoever was let in anywhere is counted before any executor finds its queue closed.
        let mut all: Vec<_> = self.boxes.iter().map(|inbox| inbox.state.lock()).collect();
        all.iter_mut().for_each(|state| state.closed = true);
        drop(all);
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for inbox in &self.boxes {
            inbox.state.lock().asleep = false;
            inbox.filled.notify_all();
        }
    }

    /// Takes all that has come in; waits while there is nothing. False: there will never be anything again.
    pub(super) fn take(&self, number: usize, into: &mut Found<T, N>) -> bool {
        let inbox = &self.boxes[number];
        let mut state = inbox.state.lock();
        while state.found.incoming.is_empty() && state.found.notices.is_empty() {
            // SeqCst: pairs with `leave`. Who was let in here is counted, because that was done under this mutex; and
            // who has left has put in before what it had.
            if state.closed && self.under_way.load(Ordering::SeqCst) == 0 {
                return false;
            }
            state.asleep = true;
            let _idle = at(Activity::Idle);
            inbox.filled.wait(&mut state);
        }
        state.asleep = false;
        std::mem::swap(&mut state.found.incoming, &mut into.incoming);
        std::mem::swap(&mut state.found.notices, &mut into.notices);
        let together = std::mem::take(&mut state.found.together);
        drop(state);
        // Relaxed: statistics.
        self.takes.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add((into.incoming.len() + together) as u64, Ordering::Relaxed);
        true
    }

    /// How often something was taken, and how much in all.
    pub(super) fn handovers(&self) -> (u64, u64) {
        // Relaxed: statistics.
        (self.takes.load(Ordering::Relaxed), self.taken.load(Ordering::Relaxed))
    }
}

type Open<'q, T, N> = SmallVec<[MutexGuard<'q, State<T, N>>; 4]>;

/// Puts everything in; who has to be woken.
fn put<T, N>(open: &mut Open<'_, T, N>, entries: Entries<T>) -> SmallVec<[usize; 4]> {
    let mut to_wake = SmallVec::new();
    for (state, (number, entry)) in open.iter_mut().zip(entries) {
        if state.put(entry) {
            to_wake.push(number);
        }
    }
    to_wake
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    #[test]
    fn what_enters_two_queues_is_in_the_same_order_in_both() {
        let queues: Queues<u64, ()> = Queues::new(3);
        const EACH: u64 = 2_000;
        let orders = thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|number| {
                    let queues = &queues;
                    scope.spawn(move || {
                        let (mut all, mut found) = (Vec::new(), Found::default());
                        while queues.take(number, &mut found) {
                            queues.leave(found.incoming.len());
                            all.append(&mut found.incoming);
                        }
                        all
                    })
                })
                .collect();
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let queues = &queues;
                    scope.spawn(move || {
                        for round in 0..EACH {
                            let item = writer * EACH + round;
                            let entries = [(0, 1), (0, 2), (1, 2)][(item % 3) as usize];
                            let entries = smallvec![(entries.0, item), (entries.1, item)];
                            assert!(queues.let_in(2, 0, entries).is_ok());
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
            queues.close();
            readers.into_iter().map(|reader| reader.join().expect("it ends")).collect::<Vec<Vec<u64>>>()
        });
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let common = |order: &Vec<u64>, with: &Vec<u64>| {
                let with: std::collections::HashSet<_> = with.iter().copied().collect();
                order.iter().copied().filter(|item| with.contains(item)).collect::<Vec<_>>()
            };
            let (left, right) = (common(&orders[one], &orders[other]), common(&orders[other], &orders[one]));
            assert!(!left.is_empty());
            assert_eq!(left, right);
        }
        assert_eq!(queues.handovers().1, 2 * 4 * EACH);
    }

    #[test]
    fn who_is_under_way_is_served_after_the_close_and_then_everybody_goes() {
        let (queues, served): (Queues<u32, u32>, AtomicU32) = (Queues::new(2), AtomicU32::new(0));
        thread::scope(|scope| {
            assert!(queues.let_in(1, 0, smallvec![(0, 3)]).is_ok());
            for number in 0..2 {
                let (queues, served) = (&queues, &served);
                scope.spawn(move || {
                    let mut found = Found::default();
                    while queues.take(number, &mut found) {
                        for left in found.incoming.drain(..).chain(found.notices.drain(..)) {
                            served.fetch_add(1, Ordering::SeqCst);
                            match left {
                                0 => queues.leave(1),
                                left if left % 2 == 0 => {
                                    assert!(queues.enter(0, smallvec![(1 - number, left - 1)]))
                                }
                                left => queues.notify(1 - number, left - 1),
                            }
                        }
                    }
                });
            }
            queues.close();
        });
        assert_eq!(served.load(Ordering::SeqCst), 4);
        assert!(matches!(queues.let_in(1, 0, smallvec![(0, 1), (1, 1)]), Err(Refused::Closed(_))));
        assert_eq!(queues.let_many_in(2, 0, 0, 7, |entry| entry), Err(Refused::Closed(7)));
        assert!(!queues.change(smallvec![(0, 1)], || unreachable!("nothing changes")));
        assert!(!queues.take(0, &mut Found::default()));
    }

    #[test]
    fn what_was_routed_by_boundaries_that_have_moved_enters_nowhere() {
        let queues: Queues<u32, ()> = Queues::new(3);
        assert!(queues.let_in(1, 0, smallvec![(0, 1), (1, 2)]).is_ok());
        assert!(queues.change(smallvec![(1, 3), (2, 4)], || 1));
        assert!(queues.enter(0, smallvec![(0, 5)]), "nothing has changed there");
        assert!(!queues.enter(0, smallvec![(0, 6), (1, 7)]));
        assert_eq!(queues.let_many_in(2, 2, 0, 8, |entry| entry), Err(Refused::Moved(8)));
        let entries = smallvec![(0, 9), (2, 9)];
        assert_eq!(queues.let_in(1, 0, entries), Err(Refused::Moved(smallvec![(0, 9), (2, 9)])));
        assert!(queues.enter(1, smallvec![(1, 10)]));
        let found = |number| {
            let mut found = Found::default();
            queues.take(number, &mut found);
            found.incoming
        };
        assert_eq!([found(0), found(1), found(2)], [vec![1, 5], vec![2, 3, 10], vec![4]]);
    }
}
