//! The gap locks of all tables, which prevent phantoms without locking whole tables.
//!
//! A table's [`RangeLocks`] is here only while something in it is held or waited for. Tables are spread over the shards; a
//! shard's mutex is never held while another one is taken, nor while a thread is woken.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;

use super::detector::WaitPlace;
use super::key_range::{Claim, Key};
use super::lock_queue::Answer;
use super::name::{LockName, OwnerId};
use super::range_locks::RangeLocks;
use super::signal::{Signal, ToWake};
use crate::diagnostics::activity::{Activity, lock};

/// The number of shards, a power of two: more than there are busy tables and indexes.
const SHARDS: usize = 64;

/// Insert intentions that are released with the mutex held once, so that the end of a very large transaction does not
/// keep all others away from the table.
const POINTS_AT_ONCE: usize = 256;

/// The locks of each table.
type Shard = HashMap<u64, RangeLocks, FixedState>;

/// See the module's description.
pub(super) struct RangeLockTable {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

impl RangeLockTable {
    pub(super) fn new() -> RangeLockTable {
        RangeLockTable { shards: (0..SHARDS).map(|_| CachePadded::default()).collect() }
    }

    /// Asks for a range or a point of the table. With a signal the claim may be left in the queue.
    pub(super) fn request(
        &self,
        table: u64,
        owner: OwnerId,
        claim: Claim,
        signal: Option<&Arc<Signal>>,
    ) -> Answer {
        lock(self.shard(table), Activity::LockAcquireWait)
            .entry(table)
            .or_default()
            .request(owner, claim, signal)
    }

    /// Releases the points from the end of the list, all of them.
    pub(super) fn release_points(&self, owner: OwnerId, points: &mut Vec<(u64, Key)>) {
        while let Some(&(table, _)) = points.last() {
            let run =
                points.iter().rev().take(POINTS_AT_ONCE).take_while(|(other, _)| *other == table).count();
            let keys = points.drain(points.len() - run..).rev().map(|(_, key)| key);
            self.change(table, |space| space.release_points(owner, keys));
        }
    }

    /// Releases all ranges of the owner in the table.
    pub(super) fn release_ranges(&self, owner: OwnerId, table: u64) {
        self.change(table, |space| space.release_ranges(owner));
    }

    fn change(&self, table: u64, change: impl FnOnce(&mut RangeLocks) -> ToWake) {
        let mut shard = lock(self.shard(table), Activity::LockReleaseWait);
        let Entry::Occupied(mut entry) = shard.entry(table) else { return };
        let to_wake = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        drop(shard);
        to_wake.wake();
    }

    fn shard(&self, table: u64) -> &Mutex<Shard> {
        &self.shards[LockName::GapLocks(table).hash() as usize & (SHARDS - 1)]
    }

    /// Number of tables with locks that are held or waited for.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl WaitPlace for RangeLockTable {
    fn edges(&self, waiter: OwnerId, name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        let LockName::GapLocks(table) = name else { return };
        if let Some(space) = self.shard(table).lock().get(&table) {
            space.edges(waiter, report);
        }
    }

    fn mark_for_abort(&self, waiter: OwnerId, name: LockName) {
        if let LockName::GapLocks(table) = name {
            self.change(table, |space| space.mark_for_abort(waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::key_range::KeyRange;
    use std::ops::Bound;

    fn point(number: u32) -> Claim {
        Claim::InsertIntention(Key::from_slice(&number.to_be_bytes()))
    }

    fn everything() -> Claim {
        Claim::Range(KeyRange::new(Bound::Unbounded, Bound::Unbounded).expect("it is not empty"))
    }

    #[test]
    fn tables_have_nothing_to_do_with_each_other() {
        let (range_locks, reader, writer) = (RangeLockTable::new(), OwnerId::new(), OwnerId::new());
        for table in 0..100 {
            assert_eq!(range_locks.request(table, reader, everything(), None), Answer::Granted);
            assert_eq!(range_locks.request(table + 100, writer, point(1), None), Answer::Granted);
        }
        assert_eq!(range_locks.len(), 200);
        assert_eq!(range_locks.request(7, writer, point(1), None), Answer::Refused);
        (0..100).for_each(|table| range_locks.release_ranges(reader, table));
        assert_eq!(range_locks.len(), 100);
        assert_eq!(range_locks.request(7, writer, point(1), None), Answer::Granted);
    }

    #[test]
    fn very_many_points_of_several_tables_are_all_given_up() {
        let (range_locks, owner) = (RangeLockTable::new(), OwnerId::new());
        let mut points = Vec::new();
        for number in 0..3_000_u32 {
            let table = u64::from(number / 700 % 3);
            assert_eq!(range_locks.request(table, owner, point(number), None), Answer::Granted);
            points.push((table, Key::from_slice(&number.to_be_bytes())));
        }
        assert_eq!(range_locks.request(1, OwnerId::new(), everything(), None), Answer::Refused);
        range_locks.release_points(owner, &mut points);
        assert!(points.is_empty());
        assert_eq!(range_locks.len(), 0);
    }

    #[test]
    fn a_refused_claim_leaves_no_space_behind() {
        let (range_locks, owner, other) = (RangeLockTable::new(), OwnerId::new(), OwnerId::new());
        range_locks.request(1, owner, everything(), None);
        assert_eq!(range_locks.request(1, other, point(1), None), Answer::Refused);
        range_locks.mark_for_abort(other, LockName::GapLocks(1));
        range_locks.edges(other, LockName::GapLocks(1), &mut |_, _| unreachable!("it does not wait"));
        range_locks.release_ranges(owner, 1);
        assert_eq!(range_locks.len(), 0);
    }
}
