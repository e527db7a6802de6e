//! The partition map: which executor owns which partition hashes.
//!
//! A row's routing columns give its partition hash ([`local_lock`](super::local_lock)). Each executor owns a range of hashes,
//! the same range of every table: rows with equal routing columns belong to one executor, and a transaction that stays with
//! one of them conflicts with no transaction elsewhere. The ranges are equal at first; repartitioning changes them.
//!
//! # Concurrency
//! The map has a *version*. A thread reads the version before it routes a transaction, and the queue of an executor whose
//! range has changed since refuses the transaction (`pipeline/partition`). A thread may therefore read a mixture of two
//! versions: an executor whose range has *not* changed is named correctly by any mixture, because all boundaries up to its
//! own are at most its hashes in both versions and all others above; a wrong answer names an executor that refuses.
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.1 (routing rules and datasets).

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use crate::base::atomics::{AtomicU64, Ordering};

/// Executors, in ascending order.
pub(crate) type Route = SmallVec<[usize; 4]>;

/// The map; see the module's description.
#[derive(Debug)]
pub(crate) struct PartitionMap {
    /// The beginnings of the ranges of all executors but the first; a range ends where the next one begins. It may be
    /// empty.
    starts: Box<[AtomicU64]>,
    version: AtomicU64,
}

impl PartitionMap {
    /// Equal ranges for this many executors.
    pub(crate) fn new(executors: usize) -> PartitionMap {
        PartitionMap {
            starts: equal_starts(executors).into_iter().map(AtomicU64::new).collect(),
            version: AtomicU64::new(0),
        }
    }

    /// The number of executors.
    pub(crate) fn executors(&self) -> usize {
        self.starts.len() + 1
    }

    /// The version of the map, to be read before routing by it.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        // Acquire pairs with the release in `change`: a thread that has read a version reads its boundaries, or later ones.
        self.version.load(Ordering::Acquire)
    }

    /// The executor that owns this partition hash.
    #[inline]
    pub(crate) fn owner(&self, hash: u64) -> usize {
        // Relaxed: see the module's description.
        self.starts.partition_point(|start| start.load(Ordering::Relaxed) <= hash)
    }

    /// An executor for work that none owns, in turn.
    pub(crate) fn round_robin(&self, number: u64) -> usize {
        (number % self.executors() as u64) as usize
    }

    /// The executors that own these hashes; all of them if one is `None`.
    pub(crate) fn route(&self, hashes: impl Iterator<Item = Option<u64>>) -> Route {
        self.route_of(hashes.map(|hash| hash.map(|hash| self.owner(hash))))
    }

    /// These owners, each once; all of them if one is `None`.
    fn route_of(&self, mut owners: impl Iterator<Item = Option<usize>>) -> Route {
        let mut route = Route::new();
        let all = owners.any(|owner| {
            let Some(owner) = owner else { return true };
            if let Err(at) = route.binary_search(&owner) {
                route.insert(at, owner);
            }
            false
        });
        if all { (0..self.executors()).collect() } else { route }
    }

    /// The present owner of each of these hashes.
    pub(crate) fn owners(&self, hashes: impl Iterator<Item = Option<u64>>) -> Owners {
        let of: Box<[_]> = hashes.map(|hash| hash.map(|hash| self.owner(hash))).collect();
        Owners { route: self.route_of(of.iter().copied()), of }
    }

    /// The beginnings of the ranges of all executors but the first.
    pub(crate) fn starts(&self) -> Vec<u64> {
        // Relaxed: repartitioning is serialized by its caller, and all other readers only report.
        self.starts.iter().map(|start| start.load(Ordering::Relaxed)).collect()
    }

    /// Changes the boundaries to these, which ascend. Returns the version that they begin with: executors whose ranges have
    /// changed must refuse earlier ones. The caller serializes changes, and holds the queues of these executors.
    pub(crate) fn change(&self, starts: &[u64]) -> u64 {
        for (start, new) in self.starts.iter().zip(starts) {
            // Relaxed: the version publishes it.
            start.store(*new, Ordering::Relaxed);
        }
        // Release pairs with the acquire in `version`: a thread that reads this version reads these boundaries.
        self.version.fetch_add(1, Ordering::Release) + 1
    }
}

/// The beginnings of equal ranges, without the first one's.
pub(crate) fn equal_starts(executors: usize) -> Vec<u64> {
    (1..executors).map(|executor| (((executor as u128) << 64) / executors as u128) as u64).collect()
}

/// The owners of an attempt's locks as they were when the attempt entered the queues. Its executors use these and not the
/// present map, because what entered before a repartitioning is executed by its owners of that time.
#[derive(Debug)]
pub(crate) struct Owners {
    /// All of them.
    pub(crate) route: Route,
    of: Box<[Option<usize>]>,
}

impl Owners {
    /// The positions of this executor's hashes, and of those that belong to every executor.
    pub(crate) fn at(&self, executor: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.of.iter().enumerate();
        all.filter(move |(_, owner)| owner.is_none_or(|owner| owner == executor)).map(|(number, _)| number)
    }
}

/// The hashes that an executor owns if the ranges begin at `starts`; the range may be empty.
pub(crate) fn range_of(starts: &[u64], executor: usize) -> RangeInclusive<u64> {
    let start = executor.checked_sub(1).map_or(0, |before| starts[before]);
    match starts.get(executor) {
        None => start..=u64::MAX,
        // An empty range, whatever it begins with.
        Some(&end) if end <= start => RangeInclusive::new(1, 0),
        Some(&end) => start..=end - 1,
    }
}

/// The executors whose ranges differ between two maps. An empty range that begins elsewhere differs, too: a mixture of the
/// two maps could give it hashes.
pub(crate) fn executors_that_change(from: &[u64], to: &[u64]) -> Route {
    let ends = |starts: &[u64], executor: usize| {
        let start = executor.checked_sub(1).map_or(0, |before| starts[before]);
        (start, starts.get(executor).copied())
    };
    (0..=from.len()).filter(|&executor| ends(from, executor) != ends(to, executor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_has_one_owner_and_ranges_are_equal() {
        for executors in [1, 2, 3, 7] {
            let map = PartitionMap::new(executors);
            assert_eq!(map.owner(0), 0);
            assert_eq!(map.owner(u64::MAX), executors - 1);
            let hashes = (0..=700_u64).map(|part| part * (u64::MAX / 700));
            let owners: Vec<_> = hashes.map(|hash| map.owner(hash)).collect();
            assert!(owners.is_sorted());
            let counts = (0..executors).map(|one| owners.iter().filter(|owner| **owner == one).count());
            let counts: Vec<_> = counts.collect();
            assert!(counts.iter().all(|count| count.abs_diff(701 / executors) <= 1), "{counts:?}");
        }
    }

    #[test]
    fn a_route_names_each_executor_once_in_order() {
        let map = PartitionMap::new(4);
        let part = u64::MAX / 4 + 1;
        let route = map.route([3, 0, 3, 1, 0].into_iter().map(|executor| Some(executor * part)));
        assert_eq!(route.as_slice(), [0, 1, 3]);
        assert_eq!(map.route([Some(0), None].into_iter()).as_slice(), [0, 1, 2, 3]);
        assert!(map.route(std::iter::empty()).is_empty());
    }

    #[test]
    fn owners_are_those_at_the_entry() {
        let map = PartitionMap::new(2);
        let owners = map.owners([Some(0), Some(u64::MAX), None].into_iter());
        map.change(&[0]);
        assert_eq!(owners.route.as_slice(), [0, 1]);
        assert!(owners.at(0).eq([0, 2]) && owners.at(1).eq([1, 2]));
        assert_eq!(map.owners([Some(0), Some(7)].into_iter()).route.as_slice(), [1]);
    }

    #[test]
    fn ranges_may_become_empty() {
        let map = PartitionMap::new(3);
        assert_eq!(map.version(), 0);
        assert_eq!(map.change(&[10, 10]), 1);
        assert_eq!((map.version(), map.starts()), (1, vec![10, 10]));
        assert_eq!([0, 9, 10, u64::MAX].map(|hash| map.owner(hash)), [0, 0, 2, 2]);
    }

    #[test]
    fn ranges_are_what_the_map_gives_each_executor() {
        let starts = [10, 10, u64::MAX];
        let map = PartitionMap::new(4);
        map.change(&starts);
        for hash in [0, 9, 10, 11, u64::MAX - 1, u64::MAX] {
            let owners: Vec<usize> =
                (0..4).filter(|executor| range_of(&starts, *executor).contains(&hash)).collect();
            assert_eq!(owners, [map.owner(hash)], "{hash}");
        }
    }

    #[test]
    fn executors_that_change_are_those_with_other_ranges() {
        assert!(executors_that_change(&[10, 20, 30], &[10, 20, 30]).is_empty());
        assert_eq!(executors_that_change(&[10, 20, 30], &[10, 25, 30]).as_slice(), [1, 2]);
        assert_eq!(executors_that_change(&[10, 20, 30], &[20, 30, 40]).as_slice(), [0, 1, 2, 3]);
        assert_eq!(executors_that_change(&[10, 20, 30], &[10, 20, 20]).as_slice(), [2, 3]);
        assert!(executors_that_change(&[], &[]).is_empty());
    }

    /// The argument in the module's description: any mixture of two maps names the owner of a hash, or an executor
    /// whose range changes.
    #[test]
    fn a_mixture_of_two_maps_misroutes_only_to_executors_that_change() {
        let tables = [[10, 20, 30], [10, 12, 30], [20, 30, 30], [5, 20, 40], [30, 30, 30], [0, 20, 21]];
        for (from, to) in tables.iter().flat_map(|from| tables.iter().map(move |to| (from, to))) {
            let changed = executors_that_change(from, to);
            for mixture in 0..8 {
                let map = PartitionMap::new(4);
                let mixed = [0, 1, 2].map(|at| if mixture >> at & 1 == 0 { from[at] } else { to[at] });
                map.change(&mixed);
                for hash in 0..50 {
                    let named = map.owner(hash);
                    map.change(to);
                    let owner = map.owner(hash);
                    map.change(&mixed);
                    assert!(named == owner || changed.contains(&named), "{from:?} {to:?} {mixed:?} {hash}");
                }
            }
        }
    }
}
