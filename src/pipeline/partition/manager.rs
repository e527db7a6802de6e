//! The resource manager: where requests fall, and where boundaries should be (DORA, appendix A.2.1).
//!
//! Executors count what they are asked for by *stretches*, equal ranges of places ([`Load`]); the manager looks at the counts
//! several times a second, forgets the older half of what it knows at each look, and has boundaries moved to where each
//! executor has an equal share, if the busiest one has clearly more than that now. A stretch is never divided: what falls on one
//! single place stays with one executor. docs/decisions, moving boundaries.
//!
//! What it keeps true: counts are a hint. What is lost of them, or counted late, costs time and nothing else.

use crate::base::atomics::{AtomicU32, Ordering};
use crate::base::random;

/// How many stretches there are.
const STRETCHES: usize = 1 << 12;
/// By how much a place is shifted to give its stretch.
const SHIFT: u32 = u64::BITS - STRETCHES.trailing_zeros();
/// One request of so many is counted, on the average.
pub(super) const SAMPLED: u32 = 8;
/// Who knows of fewer requests moves nothing.
const LEAST: f64 = 256.0;
/// So many times its fair share the busiest executor has before boundaries move.
const UNEVEN: f64 = 1.2;
/// And so many times what it has it must have at most afterwards.
const BETTER: f64 = 0.9;

/// Chooses the requests that are counted, of those that one thread sees. By chance: of rows that are asked for in turns, every eighth
/// request might always be for the same one, which would seem to have all the load.
#[derive(Default)]
pub(super) struct Sampler {
    /// So many are left out before the next one.
    skip: u32,
}

impl Sampler {
    /// Whether this request is one to be counted.
    #[inline]
    pub(super) fn takes_next(&mut self) -> bool {
        let takes = self.skip == 0;
        self.skip = if takes { random::below(2 * SAMPLED - 1) } else { self.skip - 1 };
        takes
    }
}

/// What one executor was asked for, by stretches.
pub(super) struct Load {
    stretches: Box<[AtomicU32]>,
}

impl Default for Load {
    fn default() -> Load {
        Load { stretches: (0..STRETCHES).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Load {
    /// Counts a request at this place.
    #[inline]
    pub(super) fn note(&self, place: u64) {
        let stretch = &self.stretches[(place >> SHIFT) as usize];
        // Relaxed, and no addition in one piece: one thread at a time counts here, and nothing depends on it.
        stretch.store(stretch.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// See the module's description.
pub(super) struct Manager {
    /// What was counted until the last look.
    counted: Box<[u32]>,
    /// What each stretch weighs.
    weights: Box<[f64]>,
}

impl Default for Manager {
    fn default() -> Manager {
        Manager { counted: vec![0; STRETCHES].into(), weights: vec![0.0; STRETCHES].into() }
    }
}

impl Manager {
    /// Takes in what was counted since the last look.
    pub(super) fn collect<'l>(&mut self, loads: impl IntoIterator<Item = &'l Load> + Clone) {
        for (stretch, (counted, weight)) in self.counted.iter_mut().zip(&mut self.weights).enumerate() {
            // Relaxed: see `Load::note`.
            let all = loads.clone().into_iter().map(|load| load.stretches[stretch].load(Ordering::Relaxed));
            let now = all.fold(0_u32, u32::wrapping_add);
            *weight = *weight / 2.0 + f64::from(now.wrapping_sub(*counted));
            *counted = now;
        }
    }

    /// What lies in each executor's range.
    pub(super) fn shares(&self, starts: &[u64]) -> Vec<f64> {
        let mut shares = vec![0.0; starts.len() + 1];
        for (stretch, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let first = (stretch as u64) << SHIFT;
            let last = first | ((1 << SHIFT) - 1);
            let mut from = first;
            let owner = starts.partition_point(|start| *start <= first);
            for (executor, share) in shares.iter_mut().enumerate().skip(owner) {
                // A stretch that a boundary divides weighs by its length on either side.
                let end = starts.get(executor).map_or(last, |start| last.min(start.saturating_sub(1)));
                if end >= from {
                    *share += weight * ((end - from) as f64 + 1.0) / (1_u64 << SHIFT) as f64;
                    from = end.saturating_add(1);
                }
                if end == last {
                    break;
                }
            }
        }
        shares
    }

    /// Where the boundaries should be, if they should be elsewhere.
    pub(super) fn plan(&self, starts: &[u64]) -> Option<Vec<u64>> {
        let total: f64 = self.weights.iter().sum();
        let fair = total / (starts.len() + 1) as f64;
        let busiest = |starts: &[u64]| self.shares(starts).into_iter().fold(0.0, f64::max);
        let now = busiest(starts);
        // Chance alone makes counts differ by about their square roots.
        if starts.is_empty() || total < LEAST || now < UNEVEN * fair + 3.0 * fair.sqrt() {
            return None;
        }
        let even = self.even(starts.len() + 1);
        (busiest(&even) < BETTER * now).then_some(even)
    }

    /// Boundaries such that each range weighs the same, as nearly as stretches allow.
    fn even(&self, executors: usize) -> Vec<u64> {
        let mut left: f64 = self.weights.iter().sum();
        let mut starts = Vec::with_capacity(executors - 1);
        let mut stretch = 0;
        for to_come in (2..=executors).rev() {
            let share = left / to_come as f64;
            let mut weight = 0.0;
            // The stretch that crosses the share goes to whom it brings nearer to it; but nobody stays without any while
            // there is something left.
            while stretch < STRETCHES && (weight == 0.0 || weight + self.weights[stretch] / 2.0 <= share) {
                weight += self.weights[stretch];
                stretch += 1;
            }
            left -= weight;
            starts.push(if stretch < STRETCHES { (stretch as u64) << SHIFT } else { u64::MAX });
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager that has seen this: so many requests at each of these places.
    fn seen(requests: impl IntoIterator<Item = (u64, u32)>) -> Manager {
        let (load, mut manager) = (Load::default(), Manager::default());
        for (place, times) in requests {
            (0..times).for_each(|_| load.note(place));
        }
        manager.collect([&load]);
        manager
    }

    fn stretch(number: u64) -> u64 {
        number << SHIFT
    }

    fn quarters() -> Vec<u64> {
        vec![1 << 62, 1 << 63, 3 << 62]
    }

    #[test]
    fn an_even_load_moves_nothing() {
        let manager = seen((0..STRETCHES as u64).map(|number| (stretch(number), 2)));
        assert_eq!(manager.plan(&quarters()), None);
        assert_eq!(manager.plan(&[]), None, "one executor has no boundaries");
        assert_eq!(manager.even(4), quarters());
    }

    #[test]
    fn all_load_in_one_range_is_divided_among_all() {
        let manager = seen((0..STRETCHES as u64 / 4).map(|number| (stretch(number) + 99, 4)));
        let starts = manager.plan(&quarters()).expect("it is uneven");
        assert_eq!(starts, vec![1 << 60, 2 << 60, 3 << 60]);
        assert_eq!(manager.shares(&starts), vec![1024.0; 4]);
        assert_eq!(manager.plan(&starts), None, "it is even now");
    }

    #[test]
    fn a_single_hot_place_is_not_divided_and_the_rest_goes_elsewhere() {
        let warm = (0..1_000).map(|number| (stretch(number), 1));
        let manager = seen(warm.chain([(stretch(500) + 7, 3_000)]));
        let starts = manager.plan(&quarters()).expect("the first has all");
        let shares = manager.shares(&starts);
        let hot = shares.iter().copied().fold(0.0, f64::max);
        assert!((3_000.0..3_600.0).contains(&hot), "{shares:?}");
        assert!(shares.iter().filter(|share| **share > 100.0).count() >= 3, "{shares:?}");
        assert_eq!(manager.plan(&starts), None, "what is left cannot be helped");
        // Nothing but the hot place: there is nothing to gain.
        assert_eq!(seen([(stretch(500), 3_000)]).plan(&quarters()), None);
    }

    #[test]
    fn of_requests_that_come_in_turns_each_is_counted_alike() {
        let (mut sampler, mut counted) = (Sampler::default(), [0; 8]);
        for request in 0..80_000 {
            counted[request % 8] += u32::from(sampler.takes_next());
        }
        // About 1,250 each: nobody has seen the chance that makes it half or double of that.
        assert!(counted.iter().all(|times| (625..2_500).contains(times)), "{counted:?}");
        assert!((8_000..12_000).contains(&counted.iter().sum::<u32>()), "{counted:?}");
    }

    #[test]
    fn who_comes_before_a_hot_place_does_not_stay_empty() {
        for hot in [0, 500, 999] {
            let manager =
                seen((0..1_000).map(|number| (stretch(number), if number == hot { 9_000 } else { 1 })));
            for executors in [2, 4, 8] {
                let shares = manager.shares(&manager.even(executors));
                // Whoever comes after the last place has nothing, if it is the hot one.
                let with_some = shares.iter().filter(|share| **share > 0.0).count();
                assert!(with_some == executors || hot == 999, "{hot} {shares:?}");
            }
        }
    }

    #[test]
    fn few_requests_and_chance_move_nothing() {
        assert_eq!(seen([(0, 100), (stretch(1), 100)]).plan(&quarters()), None);
        let by_chance = [(0, 78), (1 << 62, 64), (1 << 63, 60), (3 << 62, 60)];
        assert_eq!(seen(by_chance).plan(&quarters()), None);
    }

    #[test]
    fn older_counts_are_forgotten() {
        let (load, mut manager) = (Load::default(), Manager::default());
        (0..1_000).for_each(|_| load.note(0));
        manager.collect([&load]);
        (0..1_000).for_each(|_| load.note(u64::MAX));
        (0..6).for_each(|_| manager.collect([&load]));
        let shares = manager.shares(&[1 << 63]);
        assert!(shares[0] < shares[1] && shares[0] > 0.0 && shares[1] < 40.0, "{shares:?}");
    }

    #[test]
    fn counts_of_all_executors_are_one() {
        let (one, other) = (Load::default(), Load::default());
        (0..300).for_each(|_| one.note(7));
        (0..200).for_each(|_| other.note(7));
        let mut manager = Manager::default();
        manager.collect([&one, &other]);
        assert_eq!(manager.shares(&[1 << 63]), vec![500.0, 0.0]);
    }

    #[test]
    fn a_boundary_within_a_part_divides_its_weight_by_length() {
        let manager = seen([(stretch(3) + 5, 100)]);
        let middle = stretch(3) + (1 << (SHIFT - 1));
        assert_eq!(manager.shares(&[middle]), vec![50.0, 50.0]);
        assert_eq!(manager.shares(&[stretch(3), stretch(3), u64::MAX]), vec![0.0, 0.0, 100.0, 0.0]);
        assert_eq!(manager.shares(&[0]), vec![0.0, 100.0]);
    }

    #[test]
    fn boundaries_ascend_whatever_the_load_is() {
        for seed in 1..200_u64 {
            let random = |number: u64| (number + 1).wrapping_mul(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let few = 1 + seed % 7;
            let manager = seen((0..few).map(|number| (random(number), 1 + (random(number) >> 56) as u32)));
            for executors in [2, 3, 8, 64] {
                let starts = manager.even(executors);
                assert!(starts.is_sorted() && starts.len() == executors - 1, "{starts:?}");
                let all: f64 = manager.shares(&starts).iter().sum();
                let total: f64 = manager.weights.iter().sum();
                assert!((all - total).abs() < 1e-6, "{all} {total}");
            }
        }
    }
}
