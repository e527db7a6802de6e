//! Keys in their order, each with a number: the one inserted first has zero.
//!
//! A key takes its bytes, eight for where they end, and four for its place in the order. A tree of the standard library, with a
//! separate key for each entry, takes five times as much.
//!
//! Invariants: a key stays, with its number, until all are forgotten. No chunk is empty, none has more than [`CHUNK_KEYS`]
//! numbers, and the keys of a chunk are all less than those of the next one.

use std::ops::Bound;

/// The most numbers in a chunk, and the most that an insert moves.
const CHUNK_KEYS: usize = 512;

/// See the top of the file.
#[derive(Default)]
pub(super) struct KeyOrder {
    bytes: Vec<u8>,
    /// The end of each key's bytes, by its number.
    ends: Vec<usize>,
    chunks: Vec<Vec<u32>>,
}

/// A place in the order: the chunk's, and the one in it.
type Place = (usize, usize);

impl KeyOrder {
    /// The key of this number.
    pub(super) fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    /// The number of a key, if it is there.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.place(key).ok().map(|place| self.at(place))
    }

    /// The number of a key, which is inserted if it is not there; true if it was inserted.
    pub(super) fn insert(&mut self, key: &[u8]) -> (u32, bool) {
        let (chunk, at) = match self.place(key) {
            Ok(place) => return (self.at(place), false),
            Err(place) => place,
        };
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let is_full = self.chunks.get(chunk).is_none_or(|numbers| numbers.len() == CHUNK_KEYS);
        match self.chunks.get_mut(chunk) {
            Some(numbers) if !is_full => numbers.insert(at, number),
            // Keys are often inserted in their order: then chunks stay full.
            Some(numbers) if at < numbers.len() => {
                let mut upper = numbers.split_off(CHUNK_KEYS / 2);
                match at.checked_sub(CHUNK_KEYS / 2) {
                    Some(at) => upper.insert(at, number),
                    None => numbers.insert(at, number),
                }
                self.chunks.insert(chunk + 1, upper);
            }
            Some(_) => self.chunks.insert(chunk + 1, vec![number]),
            None => self.chunks.push(vec![number]),
        }
        (number, true)
    }

    /// The numbers of all keys, in the order of the keys.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().flatten().copied()
    }

    /// The numbers of the keys in a range, in their order.
    pub(super) fn within<'o>(
        &'o self,
        (lower, upper): (Bound<&[u8]>, Bound<&'o [u8]>),
    ) -> impl Iterator<Item = u32> + use<'o> {
        let (chunk, at) = match lower {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.place(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => match self.place(key) {
                Ok((chunk, at)) => (chunk, at + 1),
                Err(place) => place,
            },
        };
        let first = self.chunks.get(chunk).map_or(&[][..], |numbers| &numbers[at.min(numbers.len())..]);
        let rest = self.chunks.get(chunk + 1..).unwrap_or_default();
        let numbers = first.iter().chain(rest.iter().flatten()).copied();
        numbers.take_while(move |&number| match upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => self.key(number) <= upper,
            Bound::Excluded(upper) => self.key(number) < upper,
        })
    }

    /// The place of a key; or the one at which it would be inserted, in an existing chunk, unless there is none.
    fn place(&self, key: &[u8]) -> Result<Place, Place> {
        if let Some(last) = self.chunks.last()
            && let Some(&greatest) = last.last()
            && self.key(greatest) < key
        {
            return Err((self.chunks.len() - 1, last.len()));
        }
        let begins_behind = |numbers: &Vec<u32>| numbers.first().is_some_and(|&first| self.key(first) > key);
        let chunk = self.chunks.partition_point(|numbers| !begins_behind(numbers)).saturating_sub(1);
        let Some(numbers) = self.chunks.get(chunk) else { return Err((0, 0)) };
        match numbers.binary_search_by(|&number| self.key(number).cmp(key)) {
            Ok(at) => Ok((chunk, at)),
            Err(at) => Err((chunk, at)),
        }
    }

    fn at(&self, (chunk, at): Place) -> u32 {
        self.chunks[chunk][at]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(order: &KeyOrder, model: &BTreeMap<Vec<u8>, u32>) {
        assert_eq!(order.ends.len(), model.len());
        assert!(order.numbers().eq(model.values().copied()));
        for (key, &number) in model {
            assert_eq!((order.find(key), order.key(number)), (Some(number), &key[..]));
        }
        assert!(order.chunks.iter().all(|chunk| (1..=CHUNK_KEYS).contains(&chunk.len())));
    }

    #[test]
    fn keys_stand_in_their_order_whatever_the_order_in_which_they_come_in() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shuffled: Vec<u32> = (0..5_000).collect();
        random.shuffle(&mut shuffled);
        let ascending = (0..5_000).collect::<Vec<u32>>();
        let descending = (0..5_000).rev().collect::<Vec<u32>>();
        for keys in [ascending, descending, shuffled] {
            let (mut order, mut model) = (KeyOrder::default(), BTreeMap::new());
            for (at, key) in keys.iter().map(|key| key.to_be_bytes()).enumerate() {
                assert_eq!(order.insert(&key), (at as u32, true), "seed {seed}");
                model.insert(key.to_vec(), at as u32);
            }
            assert_eq!(order.insert(&keys[77].to_be_bytes()), (77, false));
            check(&order, &model);
            assert_eq!(order.find(&5_000_u32.to_be_bytes()), None);
            assert_eq!(order.find(b""), None);
        }
    }

    #[test]
    fn ranges_are_those_of_a_map() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut order, mut model) = (KeyOrder::default(), BTreeMap::new());
        let mut key = || -> Vec<u8> { (0..random.usize(0..3)).map(|_| random.u8(..)).collect() };
        for _ in 0..3_000 {
            let key = key();
            let (number, is_new) = order.insert(&key);
            assert_eq!(model.insert(key, number).is_none(), is_new, "seed {seed}");
        }
        check(&order, &model);
        for _ in 0..1_000 {
            let mut bounds = [key(), key()];
            bounds.sort();
            let [lower, upper] = &bounds;
            let within = |lower: Bound<&[u8]>, upper: Bound<&[u8]>| {
                let found: Vec<u32> = order.within((lower, upper)).collect();
                let known: Vec<u32> = model.range::<[u8], _>((lower, upper)).map(|(_, &n)| n).collect();
                assert_eq!(found, known, "seed {seed}");
            };
            within(Bound::Included(lower), Bound::Included(upper));
            within(Bound::Included(lower), Bound::Excluded(upper));
            within(Bound::Excluded(lower), Bound::Included(upper));
            within(Bound::Unbounded, Bound::Excluded(upper));
            within(Bound::Excluded(lower), Bound::Unbounded);
        }
    }

    #[test]
    fn an_order_without_keys_has_none() {
        let order = KeyOrder::default();
        assert_eq!((order.find(b"a"), order.numbers().count()), (None, 0));
        assert_eq!(order.within((Bound::Unbounded, Bound::Unbounded)).count(), 0);
    }
}
