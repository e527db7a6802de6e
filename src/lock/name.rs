//! Names of locks, and owners of locks.

use crate::base::atomics::{AtomicU64, Ordering};

/// A lock's name. Tables and records are named by numbers that the caller chooses, so that this folder knows neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockName {
    /// The whole database.
    Database,
    /// A table, by a number that is its own.
    Table(u64),
    /// A record, by its table and a hash of its key. Keys that collide have one lock: a false conflict, no harm.
    Record {
        /// The table's number.
        table: u64,
        /// The hash of its key.
        key: u64,
    },
    /// The gaps between the keys of a table (or index): key ranges that are read, insert intentions.
    GapLocks(u64),
}

impl LockName {
    /// The name that has to be locked in an intention mode before this is locked.
    pub(super) fn parent(self) -> Option<LockName> {
        match self {
            LockName::Database => None,
            LockName::Table(_) => Some(LockName::Database),
            LockName::Record { table, .. } | LockName::GapLocks(table) => Some(LockName::Table(table)),
        }
    }

    /// A hash, good in its high and in its low bits.
    pub(super) fn hash(self) -> u64 {
        let (level, table, key) = match self {
            LockName::Database => (1, 0, 0),
            LockName::Table(table) => (2, table, 0),
            LockName::Record { table, key } => (3, table, key),
            LockName::GapLocks(table) => (4, table, 0),
        };
        // Two different odd numbers, so that a table's number and a key's hash never cancel each other out.
        fold(fold(table ^ 0x9E37_79B9_7F4A_7C15, level), key ^ 0xD6E8_FEB8_6659_FD93)
    }
}

/// Both halves of a product, so that every bit of both factors counts.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0xA076_1D64_78BD_642F) * u128::from(b ^ 0xE703_7ED1_A0B4_28DB);
    (product >> 64) as u64 ^ product as u64
}

/// An owner of locks. Numbers are never reused, so an old owner is never mistaken for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(u64);

impl OwnerId {
    /// Below and above every owner: for the ends of searches.
    pub(super) const LEAST: OwnerId = OwnerId(0);
    /// See [`OwnerId::LEAST`].
    pub(super) const GREATEST: OwnerId = OwnerId(u64::MAX);

    /// A new one.
    pub(crate) fn new() -> OwnerId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that no two are equal counts.
        OwnerId(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_of_different_levels_differ_even_with_equal_numbers() {
        let names = [
            LockName::Database,
            LockName::Table(0),
            LockName::Record { table: 0, key: 0 },
            LockName::GapLocks(0),
            LockName::Table(1),
            LockName::Record { table: 0, key: 1 },
            LockName::Record { table: 1, key: 0 },
        ];
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                assert_ne!(one, other);
                assert_ne!(one.hash(), other.hash());
            }
        }
    }

    #[test]
    fn hashes_are_spread_in_both_halves() {
        let address = |number: u64| 0x7F00_0000_0000 + number * 4096;
        let names = (0..64).flat_map(|table| {
            (0..64).map(move |key| LockName::Record { table: address(table), key: address(key) })
        });
        let hashes: Vec<u64> = names.map(LockName::hash).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 4096);
        for shift in [0, 56] {
            let mut counts = [0; 256];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & 255] += 1);
            assert!(counts.iter().all(|count| (1..=48).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn everything_is_below_the_database() {
        let record = LockName::Record { table: 7, key: 8 };
        assert_eq!(record.parent(), Some(LockName::Table(7)));
        assert_eq!(LockName::GapLocks(7).parent(), Some(LockName::Table(7)));
        assert_eq!(LockName::Table(7).parent(), Some(LockName::Database));
        assert_eq!(LockName::Database.parent(), None);
    }

    #[test]
    fn owners_are_never_the_same() {
        let threads =
            (0..4).map(|_| std::thread::spawn(|| (0..500).map(|_| OwnerId::new()).collect::<Vec<_>>()));
        let threads: Vec<_> = threads.collect();
        let all: HashSet<_> = threads.into_iter().flat_map(|one| one.join().expect("it ends")).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().all(|one| (OwnerId::LEAST..OwnerId::GREATEST).contains(one)));
    }
}
