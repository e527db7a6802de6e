//! Predicted reservations: sessions queue for the rows about which transactions that read and then write have failed.
//!
//! A transaction that reads a row and writes it later fails if a rival has changed the row in between. Such rows are remembered
//! here. From then on a transaction that reads one by key reserves it until its end, so that rivals that read it wait instead of failing.
//! Predicted reservations are apart from those of `reservations.rs`, because they must never cause an error: to reserve a row
//! (FOR UPDATE), or to write it without reading it, is neither delayed nor refused because of one.
//!
//! This is plain state without threads: each request returns at once, with the sessions that may go on as a result.
//!
//! Invariants:
//! - A transaction waits only for a key after all those that it has in predicted reservations, and only while it has no other ones. So
//!   no wait is part of a deadlock. After a wait that has timed out it waits no more.
//! - At most [`ROWS_MAX`] rows are remembered. Each has a saturating counter, as a branch predictor has: it rises with a reservation
//!   that a write has followed, falls with one that was of no use, and the row is forgotten at zero.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::reservations::{ReservedKey, Sought, TransactionId};
use crate::protocol::attempt::Prediction;

/// How many rows are remembered at most.
const ROWS_MAX: usize = 256;
/// The confidence in a new row, and the most there is.
const CONFIDENCE_AT_FIRST: u8 = 4;
const CONFIDENCE_MAX: u8 = 16;
/// How much confidence is lost with a reservation that no write has followed: it has delayed others, which costs less than
/// a conflict, but happens at each transaction that only reads.
const LOST_UNWRITTEN: u8 = 2;
/// How much is lost with a wait that has timed out.
const LOST_TIMED_OUT: u8 = 4;

/// A row that transactions are predicted to write after reading it.
#[derive(Default)]
struct Row {
    confidence: u8,
    /// Transactions that have failed because of it.
    conflicts: u64,
    holder: Option<TransactionId>,
    /// Whether the holder has written the row.
    is_written: bool,
    waiting: VecDeque<TransactionId>,
}

/// What a transaction holds, and what it waits for.
#[derive(Default)]
struct Owner {
    held: SmallVec<[ReservedKey; 1]>,
    waits_for: Option<ReservedKey>,
    has_timed_out: bool,
}

/// A row that is remembered, for a report.
pub(crate) struct Predicted {
    pub(crate) row: ReservedKey,
    pub(crate) conflicts: u64,
    pub(crate) waiting: usize,
}

/// The rows that are remembered, and which transactions have reserved them.
#[derive(Default)]
pub(super) struct Predictions {
    rows: HashMap<ReservedKey, Row, FixedState>,
    owners: HashMap<TransactionId, Owner, FixedState>,
}

impl Predictions {
    /// How many rows are remembered.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows that are remembered.
    pub(super) fn all(&self) -> impl Iterator<Item = Predicted> {
        self.rows.iter().map(|(key, row)| Predicted {
            row: key.clone(),
            conflicts: row.conflicts,
            waiting: row.waiting.len(),
        })
    }

    /// A transaction has failed because of a row that it had read and would have written.
    pub(super) fn note_conflict(&mut self, key: ReservedKey) {
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            // The counters of all fall, until one is free (the frequent algorithm: Misra and Gries, 1982).
            self.rows.retain(|_, row| {
                row.confidence = row.confidence.saturating_sub(1);
                row.holder.is_some() || row.confidence > 0
            });
            return;
        }
        let row = self.rows.entry(key).or_default();
        row.conflicts += 1;
        row.confidence = (row.confidence + CONFIDENCE_AT_FIRST).min(CONFIDENCE_MAX);
    }

    /// Reserves a row that is about to be read, if it is remembered and free. `holds_others`: whether the transaction has
    /// reservations of the other kind.
    pub(super) fn try_reserve(
        &mut self,
        transaction: TransactionId,
        table: u64,
        key: &[u8],
        holds_others: bool,
    ) -> Prediction {
        let sought = Sought(table, key);
        let Some((found, row)) = self.rows.get_key_value_mut(&sought) else { return Prediction::None };
        let owner = self.owners.entry(transaction).or_default();
        match row.holder {
            None => {
                (row.holder, row.is_written) = (Some(transaction), false);
                owner.held.push(found.clone());
                Prediction::Reserved
            }
            Some(holder) if holder == transaction || holds_others || owner.has_timed_out => Prediction::None,
            // Waits have timed out so often that the row is forgotten when its holder ends.
            Some(_) if row.confidence == 0 => Prediction::None,
            Some(_) if owner.held.iter().any(|held| held > found) => Prediction::None,
            Some(_) => Prediction::Wait,
        }
    }

    /// Joins the queue for a row. Whether the transaction is to wait.
    pub(super) fn wait(&mut self, transaction: TransactionId, key: ReservedKey) -> bool {
        let Some(row) = self.rows.get_mut(&key) else { return false };
        if row.holder.is_none_or(|holder| holder == transaction) {
            return false;
        }
        row.waiting.push_back(transaction);
        self.owners.entry(transaction).or_default().waits_for = Some(key);
        true
    }

    /// A wait has timed out: the transaction goes on without the reservation, and with it all that wait for the row, if
    /// there is no confidence in it left. Returns those that go on; none if the transaction did not wait.
    pub(super) fn time_out(&mut self, transaction: TransactionId) -> Vec<TransactionId> {
        let Some(row) = self.stop_waiting(transaction) else { return Vec::new() };
        row.confidence = row.confidence.saturating_sub(LOST_TIMED_OUT);
        let mut released = vec![transaction];
        if row.confidence == 0 {
            released.extend(row.waiting.drain(..));
        }
        for waiter in &released {
            let owner = self.owners.entry(*waiter).or_default();
            (owner.waits_for, owner.has_timed_out) = (None, true);
        }
        released
    }

    fn stop_waiting(&mut self, transaction: TransactionId) -> Option<&mut Row> {
        let key = self.owners.get_mut(&transaction)?.waits_for.take()?;
        let row = self.rows.get_mut(&key)?;
        row.waiting.retain(|&other| other != transaction);
        Some(row)
    }

    /// A transaction is going to write a row.
    pub(super) fn note_write(&mut self, transaction: TransactionId, table: u64, key: &[u8]) {
        if self.owners.contains_key(&transaction)
            && let Some(row) = self.rows.get_mut(&Sought(table, key))
        {
            row.is_written |= row.holder == Some(transaction);
        }
    }

    /// A transaction has ended: releases its reservations. Returns the transactions that may go on.
    pub(super) fn end(&mut self, transaction: TransactionId) -> Vec<TransactionId> {
        self.stop_waiting(transaction);
        let Some(owner) = self.owners.remove(&transaction) else { return Vec::new() };
        owner.held.into_iter().flat_map(|key| self.pass_on(key)).collect()
    }

    /// Grants a released row to its first waiter. If the row is forgotten, all waiters go on without it.
    fn pass_on(&mut self, key: ReservedKey) -> VecDeque<TransactionId> {
        let Some(row) = self.rows.get_mut(&key) else { return VecDeque::new() };
        row.confidence = match row.is_written {
            true => (row.confidence + 1).min(CONFIDENCE_MAX),
            false => row.confidence.saturating_sub(LOST_UNWRITTEN),
        };
        (row.holder, row.is_written) = (None, false);
        if row.confidence == 0 {
            let waiting = std::mem::take(&mut row.waiting);
            self.rows.remove(&key);
            for waiter in &waiting {
                self.owners.entry(*waiter).or_default().waits_for = None;
            }
            return waiting;
        }
        row.holder = row.waiting.pop_front();
        if let Some(next) = row.holder {
            let owner = self.owners.entry(next).or_default();
            owner.waits_for = None;
            owner.held.push(key);
        }
        row.holder.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ReservedKey {
        (1, name.as_bytes().into())
    }

    /// Predictions about these rows.
    fn about(names: &[&str]) -> Predictions {
        let mut predictions = Predictions::default();
        names.iter().for_each(|name| predictions.note_conflict(key(name)));
        predictions
    }

    #[test]
    fn only_rows_of_conflicts_are_reserved_and_granted_in_fifo_order() {
        let mut all = about(&["a"]);
        assert_eq!(all.try_reserve(1, 1, b"b", false), Prediction::None);
        assert_eq!(all.try_reserve(5, 1, b"a", false), Prediction::Reserved);
        assert_eq!(all.try_reserve(5, 1, b"a", false), Prediction::None, "its own");
        for waiter in [9, 2, 7] {
            assert_eq!(all.try_reserve(waiter, 1, b"a", false), Prediction::Wait);
            assert!(all.wait(waiter, key("a")));
        }
        all.note_write(5, 1, b"a");
        assert_eq!(all.end(5), [9]);
        assert_eq!(all.end(2), [], "it waits no more");
        assert_eq!(all.try_reserve(9, 1, b"a", false), Prediction::None, "it was granted");
        all.note_write(9, 1, b"a");
        assert_eq!(all.end(9), [7]);
        assert_eq!(all.end(7), []);
        assert!(all.owners.is_empty() && all.rows[&key("a")].holder.is_none());
    }

    #[test]
    fn a_transaction_waits_only_in_the_order_of_keys_and_without_other_reservations() {
        let mut all = about(&["a", "b"]);
        assert_eq!(all.try_reserve(1, 1, b"a", false), Prediction::Reserved);
        assert_eq!(all.try_reserve(2, 1, b"b", false), Prediction::Reserved);
        assert_eq!(all.try_reserve(2, 1, b"a", false), Prediction::None, "it would be a deadlock");
        assert_eq!(all.try_reserve(3, 1, b"a", true), Prediction::None, "it has reserved something else");
        assert_eq!(all.try_reserve(1, 1, b"b", false), Prediction::Wait);
        assert!(all.wait(1, key("b")));
        all.note_write(2, 1, b"b");
        assert_eq!(all.end(2), [1]);
        assert_eq!(all.end(1), []);
    }

    #[test]
    fn a_holder_that_does_not_end_is_waited_for_a_bounded_number_of_times() {
        let mut all = about(&["a"]);
        (0..10).for_each(|_| all.note_conflict(key("a")));
        assert_eq!(all.try_reserve(1, 1, b"a", false), Prediction::Reserved);
        let waits = 2..100;
        let mut timed_out = 0;
        for waiter in waits {
            if all.try_reserve(waiter, 1, b"a", false) == Prediction::Wait {
                assert!(all.wait(waiter, key("a")) && all.wait(waiter + 1000, key("a")));
                timed_out += 1;
                let released = all.time_out(waiter);
                assert_eq!(released[0], waiter);
                assert_eq!(released.len() > 1, timed_out == 4, "the last one releases all that wait");
            }
        }
        assert_eq!(timed_out, CONFIDENCE_MAX / LOST_TIMED_OUT);
        assert_eq!(all.end(1), []);
        assert_eq!(all.len(), 0, "it is forgotten");
    }

    #[test]
    fn a_transaction_whose_wait_has_timed_out_waits_no_more() {
        let mut all = about(&["a"]);
        assert_eq!(all.try_reserve(1, 1, b"a", false), Prediction::Reserved);
        assert!(!all.wait(1, key("a")), "it has it");
        assert!(all.wait(2, key("a")));
        assert_eq!((all.time_out(2), all.time_out(2)), (vec![2], vec![]));
        assert_eq!(all.try_reserve(2, 1, b"a", false), Prediction::None);
        assert_eq!(all.end(1), []);
    }

    #[test]
    fn a_row_that_is_only_read_is_forgotten_and_its_waiters_go_on() {
        let mut all = about(&["a"]);
        assert_eq!(all.try_reserve(1, 1, b"a", false), Prediction::Reserved);
        assert!(all.wait(2, key("a")) && all.wait(3, key("a")) && all.wait(4, key("a")));
        assert_eq!(all.end(1), [2]);
        assert_eq!(all.end(2), [3, 4]);
        assert_eq!(all.len(), 0);
        assert_eq!(all.try_reserve(3, 1, b"a", false), Prediction::None);
        assert!(!all.wait(5, key("a")), "nobody has it");
    }

    #[test]
    fn a_row_that_is_written_two_times_of_three_is_kept() {
        let mut all = about(&["a"]);
        for transaction in 1..100 {
            assert_eq!(all.try_reserve(transaction, 1, b"a", false), Prediction::Reserved);
            if transaction % 3 > 0 {
                all.note_write(transaction, 1, b"a");
            }
            all.end(transaction);
        }
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn a_hot_row_stays_among_many_with_one_conflict_each() {
        let mut all = about(&[]);
        for number in 0..10_000_u32 {
            all.note_conflict((1, number.to_be_bytes()[..].into()));
            if number % 64 == 0 {
                all.note_conflict(key("hot"));
            }
            assert!(all.len() <= ROWS_MAX);
        }
        assert!(all.rows.contains_key(&key("hot")));
    }
}
