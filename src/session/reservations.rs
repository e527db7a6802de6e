//! Reservations: keys that one session has, and for which others queue in order.
//!
//! Plain state without threads: what is asked is answered at once, with the sessions that go on or must be aborted
//! because of it.
//!
//! Invariants:
//! - A key has one holder and a queue; a key that no thread holds has no entry. The thread that releases a key grants
//!   it to the first in its queue.
//! - A session waits for at most one key. It is blocked by the key's holder and by all that are before it in the queue.
//! - No cycle of sessions that wait for each other remains when a wait has begun: the youngest of each cycle is the victim.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::storage::session_buffer::Key;

/// A session's transaction; a higher number began later.
pub(super) type TransactionId = u64;

/// A key of a table.
pub(super) type ReservedKey = (u64, Key);

/// The holder of a key, and its waiters.
struct Queue {
    holder: TransactionId,
    waiting: VecDeque<TransactionId>,
}

/// What a transaction holds, and what it waits for.
#[derive(Default)]
struct Owner {
    held: Vec<ReservedKey>,
    waits_for: Option<ReservedKey>,
}

/// What came of asking for a key with patience.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is reserved.
    Reserved,
    /// The transaction is in the queue.
    Queued,
    /// The transaction is in the queue, and this one must be aborted first: it waits for this one, and is the youngest
    /// in the circle, unless it is this one itself.
    Deadlock(TransactionId),
}

/// All reservations of a database.
#[derive(Default)]
pub(super) struct Reservations {
    queues: HashMap<ReservedKey, Queue, FixedState>,
    owners: HashMap<TransactionId, Owner, FixedState>,
}

impl Reservations {
    /// Reserves a key unless another transaction has it. Whether it is reserved.
    pub(super) fn try_reserve(&mut self, transaction: TransactionId, table: u64, key: &[u8]) -> bool {
        let key: ReservedKey = (table, key.into());
        if let Some(queue) = self.queues.get(&key) {
            return queue.holder == transaction;
        }
        self.queues.insert(key.clone(), Queue { holder: transaction, waiting: VecDeque::new() });
        self.owners.entry(transaction).or_default().held.push(key);
        true
    }

    /// Reserves a key, or joins the queue for it.
    pub(super) fn reserve(&mut self, transaction: TransactionId, (table, key): ReservedKey) -> Answer {
        if self.try_reserve(transaction, table, &key) {
            return Answer::Reserved;
        }
        let key = (table, key);
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.waiting.push_back(transaction);
        }
        self.owners.entry(transaction).or_default().waits_for = Some(key);
        self.victim(transaction).map_or(Answer::Queued, Answer::Deadlock)
    }

    /// The deadlock victim of a waiting transaction: the youngest of the shortest cycle through it. After
    /// that was done there may be another one.
    pub(super) fn victim(&self, waiter: TransactionId) -> Option<TransactionId> {
        // Breadth first; for each transaction that was reached, from which one.
        let mut reached_from: HashMap<TransactionId, TransactionId, FixedState> = HashMap::default();
        let mut open: VecDeque<(TransactionId, Option<&ReservedKey>)> = VecDeque::from([(waiter, None)]);
        while let Some((blocked, reached_by)) = open.pop_front() {
            let waits_for = self.owners.get(&blocked).and_then(|owner| owner.waits_for.as_ref());
            let Some((key, queue)) = waits_for.and_then(|key| self.queues.get_key_value(key)) else {
                continue;
            };
            if reached_by == Some(key) {
                // It was reached as one of this very queue, with all that are before it.
                continue;
            }
            let before = queue.waiting.iter().copied().take_while(|&other| other != blocked);
            for blocker in before.chain([queue.holder]) {
                if blocker == waiter {
                    return Some(youngest(waiter, blocked, &reached_from));
                }
                if !reached_from.contains_key(&blocker) {
                    reached_from.insert(blocker, blocked);
                    open.push_back((blocker, Some(key)));
                }
            }
        }
        None
    }

    /// How many keys are reserved.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// How many keys a transaction has reserved.
    pub(super) fn count(&self, transaction: TransactionId) -> usize {
        self.owners.get(&transaction).map_or(0, |owner| owner.held.len())
    }

    /// Leaves the queue that the transaction waits in, if it does.
    pub(super) fn stop_waiting(&mut self, transaction: TransactionId) {
        let Some(owner) = self.owners.get_mut(&transaction) else { return };
        let Some(key) = owner.waits_for.take() else { return };
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.waiting.retain(|&other| other != transaction);
        }
    }

    /// Releases what the transaction has reserved, but for the first `kept` keys. Returns the transactions that were
    /// granted a key.
    pub(super) fn release(&mut self, transaction: TransactionId, kept: usize) -> Vec<TransactionId> {
        let Some(owner) = self.owners.get_mut(&transaction) else { return Vec::new() };
        let released = owner.held.split_off(kept.min(owner.held.len()));
        if owner.held.is_empty() && owner.waits_for.is_none() {
            self.owners.remove(&transaction);
        }
        released.into_iter().rev().filter_map(|key| self.pass_on(key)).collect()
    }

    /// Gives a key that was released to its first waiter.
    fn pass_on(&mut self, key: ReservedKey) -> Option<TransactionId> {
        let Some(next) = self.queues.get_mut(&key)?.waiting.pop_front() else {
            self.queues.remove(&key);
            return None;
        };
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.holder = next;
        }
        let owner = self.owners.entry(next).or_default();
        owner.waits_for = None;
        owner.held.push(key);
        Some(next)
    }
}

/// The youngest on the way from `last` back to `first`.
fn youngest(
    first: TransactionId,
    last: TransactionId,
    reached_from: &HashMap<TransactionId, TransactionId, FixedState>,
) -> TransactionId {
    let mut at = last;
    let mut youngest = first.max(last);
    while let Some(&before) = reached_from.get(&at).filter(|_| at != first) {
        youngest = youngest.max(before);
        at = before;
    }
    youngest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ReservedKey {
        (1, name.as_bytes().into())
    }

    #[test]
    fn a_key_goes_from_one_to_the_next_in_the_order_in_which_they_asked() {
        let mut all = Reservations::default();
        assert_eq!(all.reserve(5, key("a")), Answer::Reserved);
        assert_eq!(all.reserve(5, key("a")), Answer::Reserved, "its own");
        for waiter in [9, 2, 7] {
            assert!(!all.try_reserve(waiter, 1, b"a"));
            assert_eq!(all.reserve(waiter, key("a")), Answer::Queued);
        }
        assert_eq!(all.release(5, 0), [9]);
        all.stop_waiting(2);
        assert_eq!(all.release(9, 0), [7]);
        assert_eq!(all.release(7, 0), []);
        assert!(all.queues.is_empty() && all.owners.keys().all(|&owner| owner == 2));
    }

    #[test]
    fn keys_of_different_tables_are_different() {
        let mut all = Reservations::default();
        assert!(all.try_reserve(1, 1, b"a") && all.try_reserve(2, 2, b"a"));
        assert!(!all.try_reserve(2, 1, b"a"));
    }

    #[test]
    fn what_was_reserved_since_a_point_is_released_alone() {
        let mut all = Reservations::default();
        assert!(all.try_reserve(1, 1, b"a"));
        let kept = all.count(1);
        assert!(all.try_reserve(1, 1, b"b") && all.try_reserve(1, 1, b"c"));
        assert_eq!(all.reserve(2, key("c")), Answer::Queued);
        assert_eq!(all.release(1, kept), [2]);
        assert_eq!((all.count(1), all.count(2)), (1, 1));
        assert!(!all.try_reserve(2, 1, b"a") && all.try_reserve(2, 1, b"b"));
    }

    #[test]
    fn the_youngest_of_a_circle_is_the_victim() {
        for [first, second, third] in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            let mut all = Reservations::default();
            assert!(all.try_reserve(first, 1, b"a") && all.try_reserve(second, 1, b"b"));
            assert!(all.try_reserve(third, 1, b"c"));
            assert_eq!(all.reserve(first, key("b")), Answer::Queued);
            assert_eq!(all.reserve(second, key("c")), Answer::Queued);
            assert_eq!(all.reserve(third, key("a")), Answer::Deadlock(3));
            all.stop_waiting(3);
            all.release(3, 0);
            assert_eq!(all.victim(third), None);
        }
    }

    #[test]
    fn those_before_it_in_the_queue_block_a_waiter_too() {
        let mut all = Reservations::default();
        assert!(all.try_reserve(1, 1, b"a") && all.try_reserve(3, 1, b"b"));
        assert_eq!(all.reserve(2, key("a")), Answer::Queued);
        assert_eq!(all.reserve(3, key("a")), Answer::Queued);
        // 2 stands before 3 in the queue for a, and wants what 3 has once it has a: not yet a circle.
        assert_eq!(all.release(1, 0), [2]);
        assert_eq!(all.reserve(2, key("b")), Answer::Deadlock(3));
    }

    #[test]
    fn a_chain_without_a_circle_is_no_deadlock() {
        let mut all = Reservations::default();
        let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
        for (transaction, name) in (0..).zip(&names) {
            assert!(all.try_reserve(transaction, 1, name.as_bytes()));
        }
        for transaction in (0..99).rev() {
            assert_eq!(all.reserve(transaction, key(&names[transaction as usize + 1])), Answer::Queued);
        }
        assert_eq!(all.reserve(99, key("0")), Answer::Deadlock(99));
    }
}
