//! Routing: which executor owns what (DORA, section 4.1.1).
//!
//! Where a row lies among its table's datasets is a number that its routing fields give ([`claim`](super::claim)).
//! Each executor owns a range of these numbers, of every table alike: so rows with equal routing fields belong to one
//! executor, and a call that stays with one of them meets nobody. The ranges are equal at first; boundaries move.
//!
//! What it keeps true: a table of boundaries has a *version*. Whoever routes reads the version first, and is refused at
//! the entrance of every queue whose executor's range has changed since (`pipeline/partition`); so what he reads of
//! boundaries that are just moving may be of both versions, and no harm. That is enough, because whose range has *not*
//! changed is named rightly by any mixture: all boundaries up to its own are below its places in both versions, and all
//! others above. A wrong answer names somebody who will refuse.

use smallvec::SmallVec;

use crate::base::atomics::{AtomicU64, Ordering};

/// Executors, in ascending order.
pub(crate) type Route = SmallVec<[usize; 4]>;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Routing {
    /// Where the range of each executor but the first begins: it ends where the next one's begins. A range may be empty.
    starts: Box<[AtomicU64]>,
    version: AtomicU64,
}

impl Routing {
    /// So many executors, with equal ranges.
    pub(crate) fn new(executors: usize) -> Routing {
        let start = |executor: usize| (((executor as u128) << 64) / executors as u128) as u64;
        Routing {
            starts: (1..executors).map(|executor| AtomicU64::new(start(executor))).collect(),
            version: AtomicU64::new(0),
        }
    }

    /// How many executors there are.
    pub(crate) fn executors(&self) -> usize {
        self.starts.len() + 1
    }

    /// Which table of boundaries this is: to be read before anything is routed by it.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        // Acquire pairs with the release in `change`: whoever knows a version reads its boundaries, or later ones.
        self.version.load(Ordering::Acquire)
    }

    /// Who owns what lies at this place.
    #[inline]
    pub(crate) fn owner(&self, place: u64) -> usize {
        // Relaxed: see the module's description.
        self.starts.partition_point(|start| start.load(Ordering::Relaxed) <= place)
    }

    /// Who does what nobody owns: they take turns.
    pub(crate) fn turn(&self, number: u64) -> usize {
        (number % self.executors() as u64) as usize
    }

    /// Whom something at these places belongs to; `None` among them: to all.
    pub(crate) fn route(&self, places: impl Iterator<Item = Option<u64>>) -> Route {
        self.route_of(places.map(|place| place.map(|place| self.owner(place))))
    }

    /// These owners, each once; `None` among them: all.
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

    /// Whose each of these places is, now.
    pub(crate) fn owners(&self, places: impl Iterator<Item = Option<u64>>) -> Owners {
        let of: Box<[_]> = places.map(|place| place.map(|place| self.owner(place))).collect();
        Owners { route: self.route_of(of.iter().copied()), of }
    }

    /// Where the ranges of all executors but the first begin.
    pub(crate) fn starts(&self) -> Vec<u64> {
        // Relaxed: who moves boundaries is alone with that, and others want a picture only.
        self.starts.iter().map(|start| start.load(Ordering::Relaxed)).collect()
    }

    /// Changes the boundaries to these, which ascend. The version that they are from: earlier ones are to be refused by
    /// those whose ranges have changed. One at a time; and nothing comes in at those meanwhile.
    pub(crate) fn change(&self, starts: &[u64]) -> u64 {
        for (start, new) in self.starts.iter().zip(starts) {
            // Relaxed: the version publishes it.
            start.store(*new, Ordering::Relaxed);
        }
        // Release: whoever reads this version reads these boundaries.
        self.version.fetch_add(1, Ordering::Release) + 1
    }
}

/// Whose something is that an attempt locks, as it was when it entered: its executors ask here, because the boundaries
/// may have moved meanwhile, and what came in before they did is done by those who owned it then.
#[derive(Debug)]
pub(crate) struct Owners {
    /// All of them.
    pub(crate) route: Route,
    of: Box<[Option<usize>]>,
}

impl Owners {
    /// Which of the places are this executor's; those that are everybody's among them.
    pub(crate) fn at(&self, executor: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.of.iter().enumerate();
        all.filter(move |(_, owner)| owner.is_none_or(|owner| owner == executor)).map(|(number, _)| number)
    }
}

/// Whose range changes from the one table of boundaries to the other.
pub(crate) fn concerned(from: &[u64], to: &[u64]) -> Route {
    let range = |starts: &[u64], executor: usize| {
        let start = executor.checked_sub(1).map_or(0, |before| starts[before]);
        (start, starts.get(executor).copied())
    };
    (0..=from.len()).filter(|&executor| range(from, executor) != range(to, executor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_one_owner_and_ranges_are_equal() {
        for executors in [1, 2, 3, 7] {
            let routing = Routing::new(executors);
            assert_eq!(routing.owner(0), 0);
            assert_eq!(routing.owner(u64::MAX), executors - 1);
            let places = (0..=700_u64).map(|part| part * (u64::MAX / 700));
            let owners: Vec<_> = places.map(|place| routing.owner(place)).collect();
            assert!(owners.is_sorted());
            let counts = (0..executors).map(|one| owners.iter().filter(|owner| **owner == one).count());
            let counts: Vec<_> = counts.collect();
            assert!(counts.iter().all(|count| count.abs_diff(701 / executors) <= 1), "{counts:?}");
        }
    }

    #[test]
    fn a_route_names_each_executor_once_in_order() {
        let routing = Routing::new(4);
        let part = u64::MAX / 4 + 1;
        let route = routing.route([3, 0, 3, 1, 0].into_iter().map(|executor| Some(executor * part)));
        assert_eq!(route.as_slice(), [0, 1, 3]);
        assert_eq!(routing.route([Some(0), None].into_iter()).as_slice(), [0, 1, 2, 3]);
        assert!(routing.route(std::iter::empty()).is_empty());
    }

    #[test]
    fn owners_are_those_of_the_moment_and_what_is_everybodys_is_each_ones() {
        let routing = Routing::new(2);
        let owners = routing.owners([Some(0), Some(u64::MAX), None].into_iter());
        routing.change(&[0]);
        assert_eq!(owners.route.as_slice(), [0, 1]);
        assert!(owners.at(0).eq([0, 2]) && owners.at(1).eq([1, 2]));
        assert_eq!(routing.owners([Some(0), Some(7)].into_iter()).route.as_slice(), [1]);
    }

    #[test]
    fn boundaries_move_and_ranges_may_become_empty() {
        let routing = Routing::new(3);
        assert_eq!(routing.version(), 0);
        assert_eq!(routing.change(&[10, 10]), 1);
        assert_eq!((routing.version(), routing.starts()), (1, vec![10, 10]));
        assert_eq!([0, 9, 10, u64::MAX].map(|place| routing.owner(place)), [0, 0, 2, 2]);
    }

    #[test]
    fn concerned_is_whose_range_changes() {
        assert!(concerned(&[10, 20, 30], &[10, 20, 30]).is_empty());
        assert_eq!(concerned(&[10, 20, 30], &[10, 25, 30]).as_slice(), [1, 2]);
        assert_eq!(concerned(&[10, 20, 30], &[20, 30, 40]).as_slice(), [0, 1, 2, 3]);
        assert_eq!(concerned(&[10, 20, 30], &[10, 20, 20]).as_slice(), [2, 3]);
        assert!(concerned(&[], &[]).is_empty());
    }

    /// What the module's description argues: any mixture of two tables names a place's owner rightly, or one whose range
    /// changes.
    #[test]
    fn a_mixture_of_two_tables_misleads_only_to_those_who_are_concerned() {
        let tables = [[10, 20, 30], [10, 12, 30], [20, 30, 30], [5, 20, 40], [30, 30, 30], [0, 20, 21]];
        for (from, to) in tables.iter().flat_map(|from| tables.iter().map(move |to| (from, to))) {
            let concerned = concerned(from, to);
            for mixture in 0..8 {
                let routing = Routing::new(4);
                let mixed = [0, 1, 2].map(|at| if mixture >> at & 1 == 0 { from[at] } else { to[at] });
                routing.change(&mixed);
                for place in 0..50 {
                    let named = routing.owner(place);
                    routing.change(to);
                    let owner = routing.owner(place);
                    routing.change(&mixed);
                    assert!(
                        named == owner || concerned.contains(&named),
                        "{from:?} {to:?} {mixed:?} {place}"
                    );
                }
            }
        }
    }
}
