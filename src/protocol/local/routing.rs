//! Routing: which executor owns what (DORA, section 4.1.1).
//!
//! Where a row lies among its table's datasets is a number that its routing fields give ([`claim`](super::claim)).
//! Executors own equal ranges of these numbers, of every table alike: so rows with equal routing fields belong to one
//! executor, and a call that stays with one of them meets nobody.

use smallvec::{SmallVec, smallvec};

/// Executors, in ascending order.
pub(crate) type Route = SmallVec<[usize; 4]>;

/// See the module's description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    executors: usize,
}

impl Routing {
    /// So many executors.
    pub(crate) fn new(executors: usize) -> Routing {
        Routing { executors }
    }

    /// Who owns what lies at this place.
    #[inline]
    pub(crate) fn owner(&self, place: u64) -> usize {
        // The executors' share of all places: the product is below `executors` × 2⁶⁴.
        ((u128::from(place) * self.executors as u128) >> 64) as usize
    }

    /// Who does what nobody owns: they take turns.
    pub(crate) fn turn(&self, number: u64) -> usize {
        (number % self.executors as u64) as usize
    }

    /// Whom something at these places belongs to; `None` among them: to all.
    pub(crate) fn route(&self, mut places: impl Iterator<Item = Option<u64>>) -> Route {
        let mut route: Route = smallvec![];
        let all = places.any(|place| {
            let Some(place) = place else { return true };
            let owner = self.owner(place);
            if let Err(at) = route.binary_search(&owner) {
                route.insert(at, owner);
            }
            false
        });
        if all { (0..self.executors).collect() } else { route }
    }
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
}
