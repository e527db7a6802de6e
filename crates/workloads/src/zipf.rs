//! Popularity after Zipf: the k-th most popular of n things is chosen in proportion to 1 / k^alpha, for any alpha from
//! 0 (all alike) on.
//!
//! A choice has to cost little beside a transaction, and its tables have to fit beside the transaction's data
//! in the fastest cache: therefore there is no table of n entries, and no logarithm for each choice. Ranks
//! are gathered into *buckets*: the first ones are buckets of their own, the later ones share buckets whose
//! last rank is about 3 % above the first. A bucket is chosen by its upper bound, size / first^alpha, from an
//! alias table (Walker 1977; Vose 1991), a rank within it evenly, and that rank is accepted with probability
//! (first / rank)^alpha; otherwise the choice is repeated. Therefore the distribution is exact. A lower bound
//! of the power for the whole bucket is kept: the power itself is computed for the few choices that lie above
//! it.

use fastrand::Rng;

/// Ranks that are buckets of their own.
const ALONE: u64 = 64;

/// A bucket has one rank for this many of its first rank, and at least one.
const WIDTH: u64 = 32;

/// Chooses ranks from 0, the most popular one.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    alpha: f64,
    columns: Box<[Column]>,
    buckets: Box<[Bucket]>,
}

/// A column of the alias table: below the threshold it selects the bucket of its own number, else for
/// another.
#[derive(Clone, Copy, Debug)]
struct Column {
    threshold: u64,
    other: u32,
}

/// Ranks that are chosen evenly among each other, and then accepted or not.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The first rank, counted from 1 as in the formula.
    first: u64,
    size: u64,
    /// The threshold below which a rank of the bucket is accepted.
    accepted: u64,
}

/// A share as a threshold for a random number of 64 bits. Conversion saturates.
fn threshold(share: f64) -> u64 {
    (share * 2_f64.powi(64)) as u64
}

impl Zipf {
    /// A distribution over `count` ranks; there is at least one.
    pub fn new(count: u64, alpha: f64) -> Self {
        let mut buckets = Vec::new();
        let mut first = 1;
        while first <= count {
            let size = if first <= ALONE { 1 } else { (first / WIDTH).max(1) };
            let size = size.min(count + 1 - first);
            let last = first + size - 1;
            buckets.push(Bucket { first, size, accepted: threshold(share(first, last, alpha)) });
            first += size;
        }
        let weights = buckets.iter().map(|bucket| bucket.size as f64 * (bucket.first as f64).powf(-alpha));
        Self { alpha, columns: alias_table(weights.collect()), buckets: buckets.into() }
    }

    /// The next choice.
    #[inline]
    pub fn choose(&self, random: &mut Rng) -> u64 {
        loop {
            let (column, rest) = split(random.u64(..), self.columns.len() as u64);
            let Column { threshold, other } = self.columns[column as usize];
            let bucket = if rest < threshold { column as usize } else { other as usize };
            let Bucket { first, size, accepted } = self.buckets[bucket];
            if size == 1 {
                return first - 1;
            }
            let (place, rest) = split(random.u64(..), size);
            if rest < accepted || self.accepts(first, first + place, rest) {
                return first + place - 1;
            }
        }
    }

    #[cold]
    fn accepts(&self, first: u64, rank: u64, rest: u64) -> bool {
        (rest as f64) < share(first, rank, self.alpha) * 2_f64.powi(64)
    }
}

/// The popularity of a rank, as a share of the first one's.
fn share(first: u64, rank: u64, alpha: f64) -> f64 {
    (first as f64 / rank as f64).powf(alpha)
}

/// A random number as one below `count`, and the random rest.
#[inline]
fn split(random: u64, count: u64) -> (u64, u64) {
    let wide = u128::from(random) * u128::from(count);
    ((wide >> 64) as u64, wide as u64)
}

/// Vose's way to fill the table: columns that are too low are filled up from those that are too high.
fn alias_table(weights: Vec<f64>) -> Box<[Column]> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut heights: Vec<f64> = weights.into_iter().map(|weight| weight / mean).collect();
    // A column that is not filled up selects its own bucket only.
    let mut columns: Vec<Column> =
        (0..heights.len()).map(|own| Column { threshold: u64::MAX, other: own as u32 }).collect();
    let (mut low, mut high): (Vec<usize>, Vec<usize>) =
        (0..heights.len()).partition(|&column| heights[column] < 1.0);
    while let (Some(&short), Some(&tall)) = (low.last(), high.last()) {
        low.pop();
        columns[short] = Column { threshold: threshold(heights[short]), other: tall as u32 };
        heights[tall] -= 1.0 - heights[short];
        if heights[tall] < 1.0 {
            high.pop();
            low.push(tall);
        }
    }
    columns.into()
}

/// Keys 1 to n with their popularity. Popular keys are scattered over all of them, always in the same way, so that the
/// neighbors of a popular key are none.
#[derive(Clone, Debug)]
pub(crate) struct PopularKeys {
    zipf: Zipf,
    keys: u64,
    /// A step without a common divisor with `keys`, so that its multiples reach every key once.
    step: u64,
}

impl PopularKeys {
    /// Keys 1 to `keys`, of which there are at least one and at most 2^32.
    pub fn new(keys: u64, alpha: f64) -> Self {
        // The golden section scatters multiples most evenly.
        let golden = (keys as f64 * 0.618_033_988_749_895) as u64;
        let step = (golden.max(1)..).find(|step| common_divisor(*step, keys) == 1).unwrap_or(1);
        Self { zipf: Zipf::new(keys, alpha), keys, step }
    }

    /// The key of a rank from 0.
    #[inline]
    pub fn key_of(&self, rank: u64) -> i64 {
        (rank * self.step % self.keys) as i64 + 1
    }

    /// The next choice.
    #[inline]
    pub fn choose(&self, random: &mut Rng) -> i64 {
        self.key_of(self.zipf.choose(random))
    }
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the number of choices in ranges of ranks with the expected number.
    fn compare(count: u64, alpha: f64, ranges: &[(u64, u64)]) {
        const CHOICES: u64 = 400_000;
        let zipf = Zipf::new(count, alpha);
        let mut random = Rng::with_seed(11);
        let mut found = vec![0_u64; ranges.len()];
        for _ in 0..CHOICES {
            let rank = zipf.choose(&mut random);
            assert!(rank < count);
            for (found, (from, until)) in found.iter_mut().zip(ranges) {
                *found += u64::from((*from..*until).contains(&rank));
            }
        }
        let weight =
            |from: u64, until: u64| (from..until).map(|k| (k as f64 + 1.0).powf(-alpha)).sum::<f64>();
        let all = weight(0, count);
        for (found, (from, until)) in found.into_iter().zip(ranges) {
            let expected = CHOICES as f64 * weight(*from, *until) / all;
            // Five standard deviations: one seed, which is always the same.
            let most = 5.0 * expected.sqrt().max(1.0);
            let off = (found as f64 - expected).abs();
            assert!(off <= most, "alpha {alpha}, ranks {from} to {until}: {found}, not {expected:.0}");
        }
    }

    #[test]
    fn shares_are_as_the_formula_has_them_for_every_alpha() {
        let ranges = [
            (0, 1),
            (1, 2),
            (2, 10),
            (60, 70),
            (100, 103),
            (1_000, 1_100),
            (5_000, 50_000),
            (90_000, 100_000),
        ];
        for alpha in [0.0, 0.2, 0.5, 0.8, 0.99, 1.0, 1.01, 1.4, 2.0, 3.0] {
            compare(100_000, alpha, &ranges);
        }
    }

    #[test]
    fn the_most_popular_of_a_million_are_as_popular_as_the_paper_says() {
        // Table 1 of the phase reconciliation paper's kind: 1.4 makes the first key 32 %.
        compare(1_000_000, 1.4, &[(0, 1), (1, 2), (2, 3), (10, 11), (100, 1_000_000)]);
        compare(1_000_000, 0.0, &[(0, 500_000), (250_000, 260_000), (999_000, 1_000_000)]);
    }

    #[test]
    fn few_ranks_and_one_are_chosen() {
        compare(3, 1.0, &[(0, 1), (1, 2), (2, 3)]);
        compare(65, 0.5, &[(63, 64), (64, 65)]);
        let mut random = Rng::with_seed(1);
        assert!((0..100).all(|_| Zipf::new(1, 1.0).choose(&mut random) == 0));
    }

    #[test]
    fn tables_stay_small() {
        let zipf = Zipf::new(100_000_000, 0.99);
        let bytes = zipf.columns.len() * size_of::<Column>() + zipf.buckets.len() * size_of::<Bucket>();
        assert!(bytes < 32 << 10, "{bytes} bytes");
        assert_eq!(zipf.buckets.iter().map(|bucket| bucket.size).sum::<u64>(), 100_000_000);
    }

    #[test]
    fn every_key_has_one_rank_and_popular_ones_are_no_neighbours() {
        for keys in [1, 2, 3, 10, 1_000, 4_096, 99_991] {
            let popular = PopularKeys::new(keys, 1.0);
            let mut all: Vec<i64> = (0..keys).map(|rank| popular.key_of(rank)).collect();
            if keys > 100 {
                assert!(all[..20].windows(2).all(|pair| pair[0].abs_diff(pair[1]) > keys / 4), "{all:?}");
            }
            all.sort_unstable();
            assert!(all.into_iter().eq(1..=keys as i64), "{keys} keys");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let popular = PopularKeys::new(1_000, 0.7);
        let choices = |seed| {
            let mut random = Rng::with_seed(seed);
            (0..50).map(|_| popular.choose(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }
}
