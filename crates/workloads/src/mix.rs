//! The choice of the next transaction, by the shares of a benchmark's mix.

use fastrand::Rng;

/// Shares of a hundred, looked up by one random number.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// A place in the list of transactions for each hundredth.
    hundredths: [u8; 100],
}

impl Mix {
    /// A mix of this many hundredths of each transaction; they add up to a hundred.
    pub fn of_shares(shares: &[u8]) -> Self {
        debug_assert_eq!(shares.iter().map(|share| u32::from(*share)).sum::<u32>(), 100);
        let mut places = shares
            .iter()
            .enumerate()
            .flat_map(|(place, share)| std::iter::repeat_n(place as u8, (*share).into()));
        Self { hundredths: std::array::from_fn(|_| places.next().unwrap_or_default()) }
    }

    /// One transaction only.
    pub fn only(place: usize) -> Self {
        Self { hundredths: [place as u8; 100] }
    }

    /// The next choice.
    #[inline]
    pub fn choose(&self, random: &mut Rng) -> usize {
        usize::from(self.hundredths[random.usize(0..100)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_given() {
        let mix = Mix::of_shares(&[35, 0, 60, 5]);
        let share = |place| mix.hundredths.iter().filter(|other| **other == place).count();
        assert_eq!([0, 1, 2, 3, 4].map(share), [35, 0, 60, 5, 0]);
        let mut random = Rng::with_seed(3);
        let mut found = [0; 4];
        (0..100_000).for_each(|_| found[mix.choose(&mut random)] += 1);
        assert_eq!(found[1], 0);
        assert!((34_000..36_000).contains(&found[0]) && (4_500..5_500).contains(&found[3]), "{found:?}");
    }

    #[test]
    fn one_transaction_alone_is_always_chosen() {
        let mut random = Rng::with_seed(3);
        let mix = Mix::only(2);
        assert!((0..1_000).all(|_| mix.choose(&mut random) == 2));
    }
}
