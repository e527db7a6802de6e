//! The lock table: every lock that is held or waited for, in shards.
//!
//! A lock is here only while it is held or waited for. Names are spread over the shards by hash, so that two
//! threads meet at a shard's mutex rarely unless they want the same lock; a shard's mutex is never held while another
//! one is taken, nor while a thread is woken.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use super::detector::WaitPlace;
use super::lock_queue::{Answer, Queue};
use super::mode::Mode;
use super::name::{LockName, OwnerId};
use super::signal::Signal;
use crate::diagnostics::activity::{Activity, lock};

/// The number of shards, a power of two.
const SHARDS: usize = 256;

type Shard = HashTable<(LockName, Queue)>;

/// See the module's description.
pub(super) struct LockTable {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

impl LockTable {
    pub(super) fn new() -> LockTable {
        LockTable { shards: (0..SHARDS).map(|_| CachePadded::default()).collect() }
    }

    /// Asks for a lock. With a signal the request may be left in the queue.
    pub(super) fn request(
        &self,
        name: LockName,
        owner: OwnerId,
        mode: Mode,
        signal: Option<&Arc<Signal>>,
    ) -> Answer {
        let hash = name.hash();
        let mut shard = lock(self.shard(hash), Activity::LockAcquireWait);
        let entry = shard.entry(hash, |(other, _)| *other == name, |(other, _)| other.hash());
        entry.or_insert_with(|| (name, Queue::default())).into_mut().1.request(owner, mode, signal)
    }

    /// Gives a lock up that is held.
    pub(super) fn release(&self, name: LockName, owner: OwnerId) {
        if let Some(to_wake) = self.change(name, |queue| queue.release(owner)) {
            to_wake.wake();
        }
    }

    fn change<T>(&self, name: LockName, change: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        let hash = name.hash();
        let mut shard = lock(self.shard(hash), Activity::LockReleaseWait);
        let entry = shard.entry(hash, |(other, _)| *other == name, |(other, _)| other.hash());
        let Entry::Occupied(mut entry) = entry else { return None };
        let changed = change(&mut entry.get_mut().1);
        if entry.get().1.is_empty() {
            entry.remove();
        }
        Some(changed)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The highest bits and the lowest are the map's.
        &self.shards[(hash >> 32) as usize & (SHARDS - 1)]
    }

    /// Number of locks that are held or waited for.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl WaitPlace for LockTable {
    fn edges(&self, waiter: OwnerId, name: LockName, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        let hash = name.hash();
        if let Some((_, queue)) = self.shard(hash).lock().find(hash, |(other, _)| *other == name) {
            queue.edges(waiter, report);
        }
    }

    fn mark_for_abort(&self, waiter: OwnerId, name: LockName) {
        if let Some(to_wake) = self.change(name, |queue| queue.mark_for_abort(waiter)) {
            to_wake.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_in_the_table_while_somebody_holds_it() {
        let (table, owners) = (LockTable::new(), [OwnerId::new(), OwnerId::new()]);
        for key in 0..1000 {
            let name = LockName::Record { table: 1, key };
            for owner in owners {
                assert_eq!(table.request(name, owner, Mode::Shared, None), Answer::Granted);
            }
        }
        assert_eq!(table.len(), 1000);
        for key in 0..1000 {
            table.release(LockName::Record { table: 1, key }, owners[0]);
        }
        assert_eq!(table.len(), 1000);
        let name = LockName::Record { table: 1, key: 5 };
        assert_eq!(table.request(name, owners[0], Mode::Exclusive, None), Answer::Refused);
        for key in 0..1000 {
            table.release(LockName::Record { table: 1, key }, owners[1]);
        }
        assert_eq!(table.len(), 0);
        assert_eq!(table.request(name, owners[0], Mode::Exclusive, None), Answer::Granted);
    }

    #[test]
    fn names_that_are_not_there_have_no_edges_and_no_victims() {
        let (table, owner) = (LockTable::new(), OwnerId::new());
        table.edges(owner, LockName::Database, &mut |_, _| unreachable!("there is no waiter"));
        table.mark_for_abort(owner, LockName::Database);
        table.release(LockName::Database, owner);
        assert_eq!(table.len(), 0);
        assert_eq!(table.request(LockName::Database, owner, Mode::Shared, None), Answer::Granted);
        table.edges(owner, LockName::Database, &mut |_, _| unreachable!("it holds, and does not wait"));
        table.mark_for_abort(owner, LockName::Database);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn locks_are_spread_over_the_shards() {
        let (table, owner) = (LockTable::new(), OwnerId::new());
        for key in 0..SHARDS as u64 * 64 {
            table.request(LockName::Record { table: 1 << 40, key: key << 20 }, owner, Mode::Shared, None);
        }
        let counts: Vec<_> = table.shards.iter().map(|shard| shard.lock().len()).collect();
        assert!(counts.iter().all(|count| (16..=160).contains(count)), "{counts:?}");
    }
}
