//! The choice of a call's key.

use std::time::Duration;

use fastrand::Rng;

use super::{Increment, Pattern};
use crate::zipf::PopularKeys;

/// Distance by which the hot key moves. A prime number, so that few numbers of keys have it as a divisor and
/// make it move in place.
const MOVE: u64 = 7_919;

/// Chooses keys from 1 on.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    OneHot(OneHot),
    Zipf(PopularKeys),
}

/// One hot key, and all others alike.
#[derive(Clone, Debug)]
pub(super) struct OneHot {
    keys: u64,
    /// A random number below it takes the hot key.
    threshold: u64,
    rotate: Option<Duration>,
}

impl Choice {
    pub fn new(settings: &Increment) -> Self {
        let keys = u64::from(settings.keys);
        match settings.pattern {
            Pattern::OneHot { percent, rotate_seconds } => Choice::OneHot(OneHot {
                keys,
                threshold: (percent / 100.0 * 2_f64.powi(64)) as u64,
                rotate: (rotate_seconds > 0.0).then(|| Duration::from_secs_f64(rotate_seconds)),
            }),
            Pattern::Zipf { alpha } => Choice::Zipf(PopularKeys::new(keys, alpha)),
        }
    }

    /// Chooses this many keys, at a time after the beginning of what is measured.
    #[inline]
    pub fn choose_each(&self, elapsed: Duration, random: &mut Rng, wanted: usize, mut take: impl FnMut(i64)) {
        match self {
            Choice::OneHot(one) => {
                let hot = one.hot_key(elapsed);
                (0..wanted).for_each(|_| take(one.choose(hot, random)));
            }
            Choice::Zipf(popular) => (0..wanted).for_each(|_| take(popular.choose(random))),
        }
    }
}

impl OneHot {
    /// The hot key: 1 at first.
    pub fn hot_key(&self, elapsed: Duration) -> i64 {
        let moves = self.rotate.map_or(0, |every| (elapsed.as_nanos() / every.as_nanos().max(1)) as u64);
        // Where the distance is a multiple of the number of keys, the next key is as good.
        let distance = if MOVE.is_multiple_of(self.keys) { 1 } else { MOVE };
        ((moves % self.keys) * distance % self.keys) as i64 + 1
    }

    #[inline]
    fn choose(&self, hot: i64, random: &mut Rng) -> i64 {
        if random.u64(..) < self.threshold {
            return hot;
        }
        // One of the others, all alike: the hot one is skipped.
        let other = ((u128::from(random.u64(..)) * u128::from(self.keys - 1)) >> 64) as i64 + 1;
        other + i64::from(other >= hot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_hot(keys: u32, percent: f64, rotate_seconds: f64) -> OneHot {
        let pattern = Pattern::OneHot { percent, rotate_seconds };
        match Choice::new(&Increment { keys, pattern, ..Increment::one_hot() }) {
            Choice::OneHot(one) => one,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_hot_key_takes_its_share_and_the_others_are_alike() {
        for percent in [0.0, 0.5, 10.0, 50.0, 100.0] {
            let one = one_hot(11, percent, 0.0);
            let mut random = Rng::with_seed(5);
            let mut found = [0_u32; 11];
            (0..100_000).for_each(|_| found[one.choose(4, &mut random) as usize - 1] += 1);
            let hot = f64::from(found[3]);
            assert!((hot - percent * 1_000.0).abs() <= 800.0, "{percent} %: {hot}");
            if percent == 0.0 || percent == 100.0 {
                assert_eq!(hot, percent * 1_000.0);
            }
            let expected = (100_000.0 - hot) / 10.0;
            for (key, count) in (1..).zip(found).filter(|(key, _)| *key != 4) {
                assert!((f64::from(count) - expected).abs() <= 600.0, "{percent} %, key {key}: {count}");
            }
        }
    }

    #[test]
    fn the_hot_key_moves_when_its_time_is_over() {
        let one = one_hot(1_000_000, 10.0, 5.0);
        let at = |seconds| one.hot_key(Duration::from_secs_f64(seconds));
        assert_eq!([at(0.0), at(4.999), at(5.0), at(9.9), at(10.0)], [1, 1, 7_920, 7_920, 15_839]);
        assert_eq!(one_hot(1_000_000, 10.0, 0.0).hot_key(Duration::from_secs(1_000)), 1);
    }

    #[test]
    fn every_move_leads_to_another_key() {
        for keys in [2, 3, 7_919, 1_000] {
            let one = one_hot(keys, 10.0, 1.0);
            let hot: Vec<i64> = (0..30).map(|second| one.hot_key(Duration::from_secs(second))).collect();
            assert!(hot.windows(2).all(|pair| pair[0] != pair[1]), "{keys}: {hot:?}");
            assert!(hot.iter().all(|key| (1..=i64::from(keys)).contains(key)));
        }
    }
}
