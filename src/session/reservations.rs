//! Reservations: exclusive locks of sessions on keys, with FIFO wait queues and deadlock detection.
//!
//! This is plain state without threads: each request returns at once, with the sessions that were granted a key or must be
//! aborted as a result.
//!
//! Invariants:
//! - A reserved key has one holder and a queue; a key that is not reserved has no entry. Releasing a key grants it to the
//!   first waiter in its queue.
//! - A session waits for at most one key. It is blocked by the key's holder and by all waiters ahead of it in the queue.
//! - Every wait that closes a cycle in the waits-for graph is detected at once; the victim is the youngest transaction of
//!   the cycle.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap};

use crate::storage::session_buffer::Key;

/// A session's transaction; a higher number means a later start, so the highest is the youngest.
pub(super) type TransactionId = u64;

/// A key of a table.
pub(super) type ReservedKey = (u64, Key);

/// A key that is looked for. It has the hash of the [`ReservedKey`] that it is equivalent to.
#[derive(Hash)]
pub(super) struct Sought<'k>(pub(super) u64, pub(super) &'k [u8]);

impl Equivalent<ReservedKey> for Sought<'_> {
    fn equivalent(&self, (table, key): &ReservedKey) -> bool {
        (self.0, self.1) == (*table, &**key)
    }
}

/// The holder of a key, and its waiters.
struct Queue {
    holder: TransactionId,
    waiting: VecDeque<TransactionId>,
}

/// The reservations of a transaction, and the key that it waits for.
#[derive(Default)]
struct Owner {
    held: Vec<ReservedKey>,
    waits_for: Option<ReservedKey>,
}

/// The outcome of a request that may wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The key is reserved.
    Reserved,
    /// The transaction is in the queue.
    Queued,
    /// The transaction has joined the queue and closed a cycle; the given victim, the youngest transaction of the cycle, must
    /// be aborted. It may be the requesting transaction itself.
    Deadlock(TransactionId),
}

/// All reservations of a database.
#[derive(Default)]
pub(super) struct Reservations {
    queues: HashMap<ReservedKey, Queue, FixedState>,
    owners: HashMap<TransactionId, Owner, FixedState>,
}

impl Reservations {
    /// Reserves a key unless another transaction holds it. Returns whether the caller holds it now.
    pub(super) fn try_reserve(&mut self, transaction: TransactionId, table: u64, key: &[u8]) -> bool {
        if let Some(queue) = self.queues.get(&Sought(table, key)) {
            return queue.holder == transaction;
        }
        let key: ReservedKey = (table, key.into());
        self.queues.insert(key.clone(), Queue { holder: transaction, waiting: VecDeque::new() });
        self.owners.entry(transaction).or_default().held.push(key);
        true
    }

    /// Returns true if a transaction could reserve a key at once, or has.
    pub(super) fn is_free_for(&self, transaction: TransactionId, table: u64, key: &[u8]) -> bool {
        self.queues.get(&Sought(table, key)).is_none_or(|queue| queue.holder == transaction)
    }

    /// Reserves a key, or joins its queue and checks for a deadlock.
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

    /// The deadlock victim of a waiting transaction: the youngest of the shortest cycle through it. After the victim is
    /// aborted, another cycle may be left, so the caller asks again.
    pub(super) fn victim(&self, waiter: TransactionId) -> Option<TransactionId> {
        // Breadth-first search of the waits-for graph; maps each transaction to its predecessor.
        let mut reached_from: HashMap<TransactionId, TransactionId, FixedState> = HashMap::default();
        let mut open: VecDeque<(TransactionId, Option<&ReservedKey>)> = VecDeque::from([(waiter, None)]);
        while let Some((blocked, reached_by)) = open.pop_front() {
            let waits_for = self.owners.get(&blocked).and_then(|owner| owner.waits_for.as_ref());
            let Some((key, queue)) = waits_for.and_then(|key| self.queues.get_key_value(key)) else {
                continue;
            };
            if reached_by == Some(key) {
                // It was reached through this same queue, together with all waiters ahead of it.
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

    /// The keys that the transactions of a cycle through this one wait for, as far as holders lead.
    pub(super) fn keys_of_cycle(&self, waiter: TransactionId) -> Vec<ReservedKey> {
        let mut keys: Vec<ReservedKey> = Vec::new();
        let mut next = Some(waiter);
        while let Some(key) = next.and_then(|owner| self.owners.get(&owner)?.waits_for.as_ref())
            && !keys.contains(key)
        {
            keys.push(key.clone());
            next = self.queues.get(key).map(|queue| queue.holder);
        }
        keys
    }

    /// All reserved keys, with their holders and their waiters in order.
    pub(super) fn all(
        &self,
    ) -> impl Iterator<Item = (&ReservedKey, TransactionId, &VecDeque<TransactionId>)> {
        self.queues.iter().map(|(key, queue)| (key, queue.holder, &queue.waiting))
    }

    /// The number of reserved keys.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The number of keys that a transaction has reserved.
    pub(super) fn count(&self, transaction: TransactionId) -> usize {
        self.owners.get(&transaction).map_or(0, |owner| owner.held.len())
    }

    /// Removes the transaction from the queue in which it waits, if any.
    pub(super) fn stop_waiting(&mut self, transaction: TransactionId) {
        let Some(owner) = self.owners.get_mut(&transaction) else { return };
        let Some(key) = owner.waits_for.take() else { return };
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.waiting.retain(|&other| other != transaction);
        }
    }

    /// Releases the transaction's keys except the first `kept`. Returns the transactions that were granted a key.
    pub(super) fn release(&mut self, transaction: TransactionId, kept: usize) -> Vec<TransactionId> {
        let Some(owner) = self.owners.get_mut(&transaction) else { return Vec::new() };
        let released = owner.held.split_off(kept.min(owner.held.len()));
        if owner.held.is_empty() && owner.waits_for.is_none() {
            self.owners.remove(&transaction);
        }
        released.into_iter().rev().filter_map(|key| self.pass_on(key)).collect()
    }

    /// Grants a released key to its first waiter, if there is one.
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

/// The youngest transaction on the path from `last` back to `first`.
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
    fn a_key_is_granted_to_its_waiters_in_fifo_order() {
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
    fn rollback_to_a_savepoint_releases_only_later_reservations() {
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
    fn the_youngest_of_a_cycle_is_the_victim() {
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
    fn a_waiter_is_also_blocked_by_those_ahead_of_it_in_the_queue() {
        let mut all = Reservations::default();
        assert!(all.try_reserve(1, 1, b"a") && all.try_reserve(3, 1, b"b"));
        assert_eq!(all.reserve(2, key("a")), Answer::Queued);
        assert_eq!(all.reserve(3, key("a")), Answer::Queued);
        // 2 is ahead of 3 in the queue for a, and requests 3's key only after it was granted a: no cycle until then.
        assert_eq!(all.release(1, 0), [2]);
        assert_eq!(all.reserve(2, key("b")), Answer::Deadlock(3));
    }

    #[test]
    fn a_chain_of_waiters_is_no_deadlock_until_it_closes() {
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
