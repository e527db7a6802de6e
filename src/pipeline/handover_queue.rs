//! The queue between two stages: a consumer dequeues all that waits, so that the cost of synchronization is amortized.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicU64, Ordering};

/// A queue with many producers, and one or several consumers.
pub(crate) struct HandoverQueue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    batches: AtomicU64,
    items: AtomicU64,
}

struct State<T> {
    items: VecDeque<T>,
    sleeping: usize,
    closed: bool,
}

impl<T> HandoverQueue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), sleeping: 0, closed: false });
        HandoverQueue { state, filled: Condvar::new(), batches: AtomicU64::new(0), items: AtomicU64::new(0) }
    }

    /// Enqueues an item; returns false if the queue is closed.
    pub(crate) fn push(&self, item: T) -> bool {
        self.push_with(|items| items.push_back(item))
    }

    /// Puts all of these in.
    pub(crate) fn append(&self, more: &mut Vec<T>) -> bool {
        more.is_empty() || self.push_with(|items| items.extend(more.drain(..)))
    }

    fn push_with(&self, put: impl FnOnce(&mut VecDeque<T>)) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        put(&mut state.items);
        let wake = state.sleeping > 0;
        drop(state);
        if wake {
            self.filled.notify_one();
        }
        true
    }

    /// Takes what waits, at most this many; blocks while nothing does. Empty once the queue is closed and emptied.
    pub(crate) fn take(&self, at_most: usize, into: &mut Vec<T>) {
        let mut state = self.state.lock();
        while state.items.is_empty() && !state.closed {
            state.sleeping += 1;
            self.filled.wait(&mut state);
            state.sleeping -= 1;
        }
        let taken = state.items.len().min(at_most);
        into.extend(state.items.drain(..taken));
        if !state.items.is_empty() && state.sleeping > 0 {
            self.filled.notify_one();
        }
        drop(state);
        // Relaxed: statistics. Nothing is dequeued from a queue that is closed and empty.
        self.batches.fetch_add(u64::from(taken > 0), Ordering::Relaxed);
        self.items.fetch_add(taken as u64, Ordering::Relaxed);
    }

    /// Closes the queue: further items are refused, and consumers return once it is empty.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }

    /// Number of batch dequeues, and of items dequeued.
    pub(crate) fn batches(&self) -> (u64, u64) {
        (self.batches.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_put_in_comes_out_once_in_order_and_in_groups() {
        let queue = HandoverQueue::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for item in 0..10_000 {
                    assert!(queue.push(item));
                }
                queue.close();
            });
            let mut all: Vec<i32> = Vec::new();
            loop {
                let mut group = Vec::new();
                queue.take(64, &mut group);
                assert!(group.len() <= 64);
                if group.is_empty() {
                    break;
                }
                all.append(&mut group);
            }
            assert!(all.into_iter().eq(0..10_000));
        });
        assert!(!queue.push(1), "a closed queue takes nothing");
    }
}
