//! The random values of the specification: uneven numbers (clause 2.1.6), texts (4.3.2), last names (4.3.2.3).

use fastrand::Rng;

/// The text that makes an item's or a stock's data "original".
pub(super) const ORIGINAL: &str = "ORIGINAL";

/// The constant C of last names, while tables are filled and while calls are made: their distance is one that clause
/// 2.1.6.1 allows (65 to 119, but neither 96 nor 112).
pub(super) const NAMES_OF_LOAD: i64 = 100;
pub(super) const NAMES_OF_RUN: i64 = 180;
/// The constant C of customers' numbers, and of items'.
pub(super) const CUSTOMERS_OF_RUN: i64 = 259;
pub(super) const ITEMS_OF_RUN: i64 = 7_911;

/// Number of last names.
pub(super) const LAST_NAMES: i64 = 1_000;

/// Numbers from 0 that come up unevenly: two random numbers, joined by OR, and shifted around by a constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uneven {
    /// A of the specification, one less than a power of two.
    joined_up_to: i64,
    constant: i64,
    /// The least of them, by the specification; here they count from 0.
    least: i64,
    count: i64,
}

impl Uneven {
    /// The numbers of last names, of which this many are in use.
    pub fn last_names(constant: i64, in_use: i64) -> Self {
        Self { joined_up_to: 255, constant, least: 0, count: in_use.min(LAST_NAMES) }
    }

    /// The numbers of a district's customers, less one.
    pub fn customers(count: i64) -> Self {
        Self { joined_up_to: 1_023, constant: CUSTOMERS_OF_RUN, least: 1, count }
    }

    /// The numbers of items, less one.
    pub fn items(count: i64) -> Self {
        Self { joined_up_to: 8_191, constant: ITEMS_OF_RUN, least: 1, count }
    }

    /// The next choice.
    #[inline]
    pub fn choose(self, random: &mut Rng) -> i64 {
        let joined = random.i64(0..=self.joined_up_to) | random.i64(self.least..self.least + self.count);
        (joined + self.constant) % self.count
    }
}

/// A last name.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastName {
    letters: [u8; 15],
    length: usize,
}

impl LastName {
    /// The name of this number: a syllable for each of its three digits.
    pub fn new(number: i64) -> Self {
        const SYLLABLES: [&[u8]; 10] =
            [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
        let number = number.rem_euclid(LAST_NAMES) as usize;
        let (mut letters, mut length) = ([0; 15], 0);
        for digit in [number / 100, number / 10 % 10, number % 10] {
            let syllable = SYLLABLES[digit];
            letters[length..length + syllable.len()].copy_from_slice(syllable);
            length += syllable.len();
        }
        Self { letters, length }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.length]).unwrap_or_default()
    }
}

/// Letters and digits, this many of them.
pub(super) fn text(random: &mut Rng, lengths: std::ops::RangeInclusive<usize>) -> String {
    const CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let length = random.usize(lengths);
    (0..length).map(|_| char::from(CHARACTERS[random.usize(0..CHARACTERS.len())])).collect()
}

/// Digits, this many of them.
pub(super) fn digits(random: &mut Rng, length: usize) -> String {
    (0..length).map(|_| char::from(random.u8(b'0'..=b'9'))).collect()
}

/// The data of an item or of a stock: every tenth is original.
pub(super) fn data(random: &mut Rng) -> String {
    let mut data = text(random, 26..=50);
    if random.u32(0..10) == 0 {
        let place = random.usize(0..=data.len() - ORIGINAL.len());
        data.replace_range(place..place + ORIGINAL.len(), ORIGINAL);
    }
    data
}

/// Returns true if data say that they are original.
#[inline]
pub(super) fn is_original(data: &str) -> bool {
    let (data, wanted) = (data.as_bytes(), ORIGINAL.as_bytes());
    let last = wanted.len() - 1;
    // At any place of the word, one of its letters is at every eighth place: nearly all others need no look.
    (last..data.len()).step_by(wanted.len()).any(|place| {
        wanted.contains(&data[place]) && {
            let end = data.len().min(place + wanted.len());
            data[place - last..end].windows(wanted.len()).any(|window| window == wanted)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_syllables() {
        assert_eq!(LastName::new(0).as_str(), "BARBARBAR");
        assert_eq!(LastName::new(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(LastName::new(999).as_str(), "EINGEINGEING");
        assert_eq!(LastName::new(777).as_str(), "CALLYCALLYCALLY");
    }

    #[test]
    fn uneven_numbers_are_in_range_and_uneven() {
        let mut random = Rng::with_seed(2);
        for uneven in [
            Uneven::last_names(NAMES_OF_RUN, 3_000),
            Uneven::last_names(NAMES_OF_LOAD, 30),
            Uneven::customers(3_000),
            Uneven::items(100_000),
        ] {
            let mut found = vec![0_u32; uneven.count as usize];
            (0..200_000).for_each(|_| found[uneven.choose(&mut random) as usize] += 1);
            let mean = 200_000 / found.len() as u32;
            assert!(found.iter().max() > Some(&(mean + mean / 5)), "{uneven:?}");
        }
        // With few of them they are even, but all there.
        let few: std::collections::BTreeSet<i64> =
            (0..1_000).map(|_| Uneven::items(7).choose(&mut random)).collect();
        assert!(few.into_iter().eq(0..7));
        let distance = NAMES_OF_RUN - NAMES_OF_LOAD;
        assert!((65..=119).contains(&distance) && ![96, 112].contains(&distance));
    }

    /// NURand(A, x, y) as clause 2.1.6 writes it.
    fn as_specified(random: &mut Rng, (a, x, y): (i64, i64, i64), c: i64) -> i64 {
        ((random.i64(0..=a) | random.i64(x..=y)) + c) % (y - x + 1) + x
    }

    #[test]
    fn uneven_numbers_are_those_of_the_specification() {
        let all = [
            (Uneven::last_names(NAMES_OF_RUN, 3_000), (255, 0, 999), NAMES_OF_RUN),
            (Uneven::customers(3_000), (1_023, 1, 3_000), CUSTOMERS_OF_RUN),
            (Uneven::items(100_000), (8_191, 1, 100_000), ITEMS_OF_RUN),
        ];
        for (uneven, (a, x, y), c) in all {
            let (mut one, mut other) = (Rng::with_seed(5), Rng::with_seed(5));
            for _ in 0..10_000 {
                assert_eq!(uneven.choose(&mut one) + x, as_specified(&mut other, (a, x, y), c));
            }
        }
    }

    #[test]
    fn texts_are_as_long_as_wanted_and_every_tenth_is_original() {
        let mut random = Rng::with_seed(2);
        let lengths: Vec<usize> = (0..100).map(|_| text(&mut random, 3..=5).len()).collect();
        assert!(lengths.iter().all(|length| (3..=5).contains(length)) && lengths.contains(&5));
        assert!(digits(&mut random, 9).parse::<u32>().is_ok());
        let all: Vec<String> = (0..2_000).map(|_| data(&mut random)).collect();
        assert!(all.iter().all(|data| (26..=50).contains(&data.len())));
        assert!(all.iter().all(|data| is_original(data) == data.contains(ORIGINAL)));
        assert!((120..280).contains(&all.iter().filter(|data| is_original(data)).count()));
        assert!(is_original("ORIGINAL") && !is_original("ORIGINA") && !is_original(""));
    }
}
