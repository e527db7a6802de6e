//! The locks of one transaction: its own list, so that a lock that it has already costs nothing but a look here.
//!
//! Most requests are for a lock that is held: the intention locks of database and table, and a row accessed again. A
//! short list is searched from its start; beyond `LISTED_MAX` locks a hash table finds the place. The list is also the
//! order in which the locks are released, from the youngest to the oldest.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashTable;

use super::key_range::{Key, KeyRange};
use super::mode::Mode;
use super::name::{LockName, OwnerId};
use super::signal::Signal;

/// Number of locks beyond which a lookup uses a hash table.
const LISTED_MAX: usize = 24;

/// Capacity in locks beyond which memory is freed when all locks have been released.
const KEPT_MAX: usize = 4096;

/// Number of the ranges read last that are examined for one that covers a new one: enough for a body that returns to
/// where it just was.
const RANGES_LOOKED_AT: usize = 4;

/// Number of locks acquired from the lock manager. One that was there already is not counted; one that was made
/// stronger is counted once more, as it was requested once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Locks on records.
    pub(crate) rows: u64,
    /// Locks on key ranges, and on keys that are inserted or deleted.
    pub(crate) gap_locks: u64,
    /// Locks on tables and the database.
    pub(crate) higher: u64,
}

/// The locks of one attempt of one transaction. It belongs to a thread, and is reused for the next attempt; all locks in
/// it must be released (by [`LockManager::release`](super::LockManager::release)) before it is dropped.
#[derive(Default)]
pub(crate) struct Locks {
    owner: Option<(OwnerId, Arc<Signal>)>,
    start_timestamp: u64,
    /// The locks, in the order of acquisition.
    pub(super) held: Vec<Held>,
    /// Places in `held`, by name; used only while there are many.
    places: HashTable<u32>,
    /// Each with its table.
    pub(super) points: Vec<(u64, Key)>,
    /// Each with its table.
    ranges: Vec<(u64, KeyRange)>,
    taken: Taken,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) name: LockName,
    pub(super) mode: Mode,
}

impl Locks {
    /// Begins an attempt of a call with this start timestamp, see [`LockManager::start_timestamp`](super::LockManager::start_timestamp).
    pub(crate) fn begin(&mut self, start_timestamp: u64) {
        debug_assert!(self.is_empty(), "the last attempt's locks are held still");
        self.start_timestamp = start_timestamp;
        self.taken = Taken::default();
    }

    /// Number of locks acquired since the attempt began; releasing them does not change it.
    pub(crate) fn taken(&self) -> Taken {
        self.taken
    }

    /// Returns true if nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The mode in which a lock is held.
    pub(super) fn mode(&self, name: LockName) -> Option<Mode> {
        self.place(name).map(|place| self.held[place].mode)
    }

    /// The start timestamp of the transaction that it was begun with last.
    pub(crate) fn start_timestamp(&self) -> u64 {
        self.start_timestamp
    }

    /// The owner that other transactions see; created when it is first needed.
    pub(super) fn owner(&mut self) -> (OwnerId, &Arc<Signal>) {
        let (id, signal) = self.owner.get_or_insert_with(|| (OwnerId::new(), Arc::default()));
        (*id, signal)
    }

    /// Remembers that a lock was granted, or made stronger.
    pub(super) fn note(&mut self, name: LockName, mode: Mode) {
        match name {
            LockName::Database | LockName::Table(_) => self.taken.higher += 1,
            LockName::Record { .. } => self.taken.rows += 1,
            LockName::GapLocks(_) => self.taken.gap_locks += 1,
        }
        match self.place(name) {
            Some(place) => self.held[place].mode = self.held[place].mode.supremum(mode),
            None => self.add(Held { name, mode }),
        }
    }

    /// Remembers a range that was granted.
    pub(super) fn note_range(&mut self, table: u64, key_range: KeyRange) {
        self.note(LockName::GapLocks(table), Mode::Shared);
        self.ranges.push((table, key_range));
    }

    /// Remembers a point that was granted.
    pub(super) fn note_point(&mut self, table: u64, key: Key) {
        self.note(LockName::GapLocks(table), Mode::IntentionExclusive);
        self.points.push((table, key));
    }

    /// Returns true if one of the last ranges covers this one.
    pub(super) fn covers_range(&self, table: u64, key_range: &KeyRange) -> bool {
        let last = self.ranges.iter().rev().take(RANGES_LOOKED_AT);
        last.into_iter().any(|(other, held)| *other == table && held.covers(key_range))
    }

    /// Forgets all locks, once they have been released.
    pub(super) fn clear(&mut self) {
        if !self.places.is_empty() {
            self.places.clear();
        }
        self.held.clear();
        self.points.clear();
        self.ranges.clear();
        if self.held.capacity().max(self.points.capacity()).max(self.ranges.capacity()) > KEPT_MAX {
            self.held.shrink_to(KEPT_MAX);
            self.points.shrink_to(KEPT_MAX);
            self.ranges.shrink_to(KEPT_MAX);
            self.places = HashTable::new();
        }
    }

    fn place(&self, name: LockName) -> Option<usize> {
        if self.places.is_empty() {
            return self.held.iter().position(|held| held.name == name);
        }
        let is_it = |place: &u32| self.held[*place as usize].name == name;
        self.places.find(name.hash(), is_it).map(|place| *place as usize)
    }

    fn add(&mut self, new: Held) {
        self.held.push(new);
        if self.held.len() <= LISTED_MAX {
            return;
        }
        let first = if self.places.is_empty() { 0 } else { self.held.len() - 1 };
        let held = &self.held;
        for (place, lock) in held.iter().enumerate().skip(first) {
            let hash = |place: &u32| held[*place as usize].name.hash();
            self.places.insert_unique(lock.name.hash(), place as u32, hash);
        }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Locks")
            .field("owner", &self.owner.as_ref().map(|(id, _)| id))
            .field("start_timestamp", &self.start_timestamp)
            .field("held", &self.held)
            .field("points", &self.points.len())
            .field("ranges", &self.ranges.len())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    fn record(key: u64) -> LockName {
        LockName::Record { table: 1, key }
    }

    #[test]
    fn few_and_many_locks_are_found_by_name() {
        for count in [1, LISTED_MAX as u64, LISTED_MAX as u64 + 1, 1000] {
            let mut locks = Locks::default();
            (0..count).for_each(|key| locks.note(record(key), Mode::Shared));
            assert!((0..count).all(|key| locks.mode(record(key)) == Some(Mode::Shared)));
            assert_eq!((locks.mode(record(count)), locks.mode(LockName::Table(1))), (None, None));
            locks.note(record(count - 1), Mode::IntentionExclusive);
            assert_eq!(locks.mode(record(count - 1)), Some(Mode::SharedIntentionExclusive));
            assert_eq!(locks.held.len() as u64, count);
            locks.clear();
            assert!(locks.is_empty() && locks.mode(record(0)).is_none());
        }
    }

    #[test]
    fn what_was_taken_is_counted_by_level_until_the_next_attempt() {
        let mut locks = Locks::default();
        locks.begin(1);
        locks.note(LockName::Database, Mode::IntentionExclusive);
        locks.note(LockName::Table(1), Mode::IntentionExclusive);
        (0..30).for_each(|key| locks.note(record(key), Mode::Shared));
        locks.note(record(3), Mode::Exclusive);
        locks.note_point(1, Key::from_slice(b"a"));
        locks.note_range(1, KeyRange::new(Bound::Unbounded, Bound::Unbounded).expect("it is not empty"));
        let taken = Taken { rows: 31, gap_locks: 2, higher: 2 };
        assert_eq!(locks.taken(), taken);
        locks.clear();
        assert_eq!(locks.taken(), taken);
        locks.begin(2);
        assert_eq!(locks.taken(), Taken::default());
    }

    #[test]
    fn memory_is_kept_unless_it_is_very_much() {
        let mut locks = Locks::default();
        (0..100).for_each(|key| locks.note(record(key), Mode::Shared));
        locks.clear();
        assert!(locks.held.capacity() >= 100);
        (0..100_000).for_each(|key| locks.note(record(key), Mode::Shared));
        locks.clear();
        assert!(locks.held.capacity() <= KEPT_MAX && locks.places.capacity() == 0);
    }

    #[test]
    fn a_range_just_read_is_remembered() {
        let key_range = |low: u8, high: u8| {
            KeyRange::new(Bound::Included(&[low][..]), Bound::Included(&[high][..])).expect("it is not empty")
        };
        let mut locks = Locks::default();
        locks.note_range(1, key_range(1, 9));
        locks.note_range(1, key_range(20, 30));
        assert!(locks.covers_range(1, &key_range(2, 9)) && locks.covers_range(1, &key_range(20, 20)));
        assert!(!locks.covers_range(1, &key_range(9, 20)) && !locks.covers_range(2, &key_range(2, 9)));
    }

    #[test]
    fn an_owner_stays_the_same_and_differs_from_others() {
        let (mut one, mut other) = (Locks::default(), Locks::default());
        let first = one.owner().0;
        one.begin(9);
        assert_eq!(one.owner().0, first);
        assert_ne!(other.owner().0, first);
        assert!(format!("{one:?}").contains("start_timestamp: 9"));
    }
}
