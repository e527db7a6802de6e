//! The index of a hash join's right side: finds the rows of a key.
//!
//! Keys of integers are packed into one word: each column counts from the least value that the right side has, and the columns are the
//! digits of a number, so that unequal keys are unequal words and a value outside of a column's range has no partner. Where the words
//! are dense, a row's place is found without hashing; else they are hashed instead of the values.
//!
//! # Invariants
//! - Rows with equal keys are a chain that begins with the one that was added last. Rows with a NULL key are in none.
//! - The form is the fastest for which there is memory to spare; the smallest one, by the values' hash, takes at most
//!   [`BYTES_PER_ROW`], which joins charge with each row.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::run::batch::Batch;
use crate::run::order::{Hashing, hash_slots, same_slots};
use crate::types::Value;

/// The end of a chain of rows with equal keys.
pub(crate) const END: u32 = u32::MAX;

/// The memory of the smallest form for each row: the row's place in its chain, and its share of a hash table at its
/// emptiest.
pub(crate) const BYTES_PER_ROW: usize = 16;

/// The limits of words for each row, and beyond those, up to which every word has a place.
const DENSE_WORDS_PER_ROW: u64 = 8;
const DENSE_WORDS_BESIDES: u64 = 64;

/// The chains of a right side's rows.
pub(crate) struct JoinIndex {
    next: Vec<u32>,
    heads: Heads,
    pub(crate) has_null: bool,
}

/// The first row of each chain.
enum Heads {
    /// Chains by the values' hash.
    Values(HashTable<u32>),
    /// Chains by the word, which is hashed.
    Words(Packing, HashTable<(u64, u32)>),
    /// Chains by the word, which is the position in this list.
    Dense(Packing, Vec<u32>),
}

impl Default for JoinIndex {
    fn default() -> Self {
        JoinIndex { next: Vec::new(), heads: Heads::Values(HashTable::new()), has_null: false }
    }
}

/// One column of a key as a digit.
#[derive(Clone, Copy)]
struct Digit {
    low: i64,
    /// The number of values from the least to the greatest.
    span: u64,
    /// The weight of the digit in the word.
    step: u64,
}

/// The rule by which keys become words.
struct Packing {
    digits: Vec<Digit>,
    /// The number of words.
    words: u64,
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int4(value) => Some(i64::from(*value)),
        Value::Int8(value) => Some(*value),
        Value::Int2(value) => Some(i64::from(*value)),
        _ => None,
    }
}

/// The part of `bytes` for this many rows beyond the bytes that were charged with the rows.
fn beyond_rows(bytes: usize, rows: usize) -> usize {
    bytes.saturating_sub(BYTES_PER_ROW * rows)
}

/// An upper bound of the memory of a hash table of this capacity: its buckets are at most seven eighths full and a
/// power of two in number, each with a byte of control, and a group of those besides.
fn table_bytes<T>(capacity: usize) -> usize {
    let buckets = (capacity * 8 / 7 + 1).next_power_of_two().max(4);
    buckets * (size_of::<T>() + 1) + 64
}

impl Packing {
    /// The packing of the keys in these slots; `None` if they are not integers, or too far apart.
    fn of(rows: &Batch, keys: &[usize]) -> Option<Packing> {
        let mut bounds = vec![(i64::MAX, i64::MIN); keys.len()];
        for row in rows.rows() {
            for (&slot, (low, high)) in keys.iter().zip(&mut bounds) {
                match integer(&row[slot]) {
                    Some(value) => (*low, *high) = ((*low).min(value), (*high).max(value)),
                    None if row[slot].is_null() => {}
                    None => return None,
                }
            }
        }
        let mut words = 1u64;
        let digit = |(low, high): (i64, i64)| {
            let span = if low > high { 1 } else { u64::try_from(high.checked_sub(low)?).ok()? + 1 };
            let digit = Digit { low, span, step: words };
            words = words.checked_mul(span)?;
            Some(digit)
        };
        let digits = bounds.into_iter().map(digit).collect::<Option<Vec<_>>>()?;
        Some(Packing { digits, words })
    }

    /// Returns true if words are dense enough for a place for each.
    fn is_dense(&self, rows: usize) -> bool {
        self.words <= DENSE_WORDS_PER_ROW * rows as u64 + DENSE_WORDS_BESIDES
    }

    /// A row's word; `None` if a value is NULL, or out of the range of its column.
    #[inline]
    fn word(&self, row: &[Value], slots: &[usize]) -> Option<u64> {
        let mut word = 0;
        for (digit, &slot) in self.digits.iter().zip(slots) {
            let offset = integer(&row[slot])?.wrapping_sub(digit.low) as u64;
            if offset >= digit.span {
                return None;
            }
            word += offset * digit.step;
        }
        Some(word)
    }
}

impl JoinIndex {
    /// The chains of rows by the keys in these slots. `can_spare` returns true if there is memory for this many bytes
    /// more than [`BYTES_PER_ROW`].
    pub(crate) fn new(
        rows: &Batch,
        keys: &[usize],
        hashing: &Hashing,
        mut can_spare: impl FnMut(usize) -> bool,
    ) -> JoinIndex {
        let mut index = JoinIndex { next: vec![END; rows.len()], ..JoinIndex::default() };
        let mut can_take = |heads: usize| can_spare(beyond_rows(4 * rows.len() + heads, rows.len()));
        match Packing::of(rows, keys) {
            Some(packing) if packing.is_dense(rows.len()) && can_take(4 * packing.words as usize) => {
                index.add_words(rows, keys, hashing, packing, true);
            }
            Some(packing) if can_take(table_bytes::<(u64, u32)>(rows.len())) => {
                index.add_words(rows, keys, hashing, packing, false);
            }
            _ => index.add_values(rows, keys, hashing),
        }
        index
    }

    /// The memory in use beyond [`BYTES_PER_ROW`].
    pub(crate) fn bytes_beyond_rows(&self) -> usize {
        let heads = match &self.heads {
            Heads::Values(_) => return 0,
            Heads::Words(_, heads) => heads.allocation_size(),
            Heads::Dense(_, heads) => size_of_val(&heads[..]),
        };
        beyond_rows(size_of_val(&self.next[..]) + heads, self.next.len())
    }

    fn add_values(&mut self, rows: &Batch, keys: &[usize], hashing: &Hashing) {
        let mut heads = HashTable::with_capacity(rows.len());
        for (position, row) in rows.rows().enumerate() {
            if keys.iter().any(|&slot| row[slot].is_null()) {
                self.has_null = true;
                continue;
            }
            let entry = heads.entry(
                hash_slots(hashing, row, keys),
                |&head| same_slots(rows.row(head as usize), keys, row, keys),
                |&head| hash_slots(hashing, rows.row(head as usize), keys),
            );
            match entry {
                Entry::Occupied(mut head) => {
                    self.next[position] = std::mem::replace(head.get_mut(), position as u32);
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(position as u32);
                }
            }
        }
        self.heads = Heads::Values(heads);
    }

    fn add_words(
        &mut self,
        rows: &Batch,
        keys: &[usize],
        hashing: &Hashing,
        packing: Packing,
        is_dense: bool,
    ) {
        let mut dense = if is_dense { vec![END; packing.words as usize] } else { Vec::new() };
        let mut hashed = HashTable::with_capacity(if is_dense { 0 } else { rows.len() });
        for (position, row) in rows.rows().enumerate() {
            let Some(word) = packing.word(row, keys) else {
                self.has_null = true;
                continue;
            };
            if is_dense {
                self.next[position] = std::mem::replace(&mut dense[word as usize], position as u32);
                continue;
            }
            let entry = hashed.entry(
                hashing.hash_one(word),
                |&(other, _)| other == word,
                |&(other, _)| hashing.hash_one(other),
            );
            match entry {
                Entry::Occupied(mut head) => {
                    self.next[position] = std::mem::replace(&mut head.get_mut().1, position as u32);
                }
                Entry::Vacant(vacant) => {
                    vacant.insert((word, position as u32));
                }
            }
        }
        self.heads = match is_dense {
            true => Heads::Dense(packing, dense),
            false => Heads::Words(packing, hashed),
        };
    }

    /// The first row of the right side whose keys equal those in these slots of a row; [`END`] if there is none. `keys`: where the
    /// right side has them.
    #[inline]
    pub(crate) fn find(
        &self,
        rows: &Batch,
        keys: &[usize],
        hashing: &Hashing,
        row: &[Value],
        slots: &[usize],
    ) -> u32 {
        match &self.heads {
            Heads::Dense(packing, heads) => packing.word(row, slots).map_or(END, |word| heads[word as usize]),
            Heads::Words(packing, heads) => {
                let Some(word) = packing.word(row, slots) else { return END };
                let found = heads.find(hashing.hash_one(word), |&(other, _)| other == word);
                found.map_or(END, |&(_, head)| head)
            }
            Heads::Values(heads) => {
                if heads.is_empty() || slots.iter().any(|&slot| row[slot].is_null()) {
                    return END;
                }
                let same = |head: &u32| same_slots(rows.row(*head as usize), keys, row, slots);
                heads.find(hash_slots(hashing, row, slots), same).map_or(END, |head| *head)
            }
        }
    }

    /// The next row of the chain.
    #[inline]
    pub(crate) fn next(&self, position: u32) -> u32 {
        self.next[position as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[[Value; 2]]) -> Batch {
        let mut batch = Batch::new(2);
        keys.iter().for_each(|row| batch.push(row.clone()));
        batch
    }

    /// The positions that a key finds.
    fn found(rows: &Batch, index: &JoinIndex, hashing: &Hashing, row: &[Value; 2]) -> Vec<u32> {
        let first = index.find(rows, &[0, 1], hashing, row, &[0, 1]);
        std::iter::successors((first != END).then_some(first), |&at| {
            let next = index.next(at);
            (next != END).then_some(next)
        })
        .collect()
    }

    /// The index that is made where only the first `refused` of the faster forms do not fit.
    fn refusing(rows: &Batch, hashing: &Hashing, refused: usize) -> JoinIndex {
        let mut asked = 0;
        JoinIndex::new(rows, &[0, 1], hashing, |_| {
            asked += 1;
            asked > refused
        })
    }

    fn form(index: &JoinIndex) -> &'static str {
        match index.heads {
            Heads::Dense(..) => "dense",
            Heads::Words(..) => "words",
            Heads::Values(_) => "values",
        }
    }

    /// Checks the rows that each row's key finds, whichever forms fit.
    fn check(keys: &[[Value; 2]]) {
        let (rows, hashing) = (rows(keys), Hashing::default());
        for refused in 0..3 {
            let index = &refusing(&rows, &hashing, refused);
            for key in keys {
                let equals = |row: &[Value; 2]| row == key && !key.iter().any(Value::is_null);
                let expected = (0..keys.len() as u32).rev().filter(|&at| equals(&keys[at as usize]));
                assert_eq!(found(&rows, index, &hashing, key), expected.collect::<Vec<_>>(), "{key:?}");
            }
            assert_eq!(index.has_null, keys.iter().flatten().any(Value::is_null));
        }
    }

    #[test]
    fn equal_keys_are_found_from_the_last_on() {
        check(&[[1, 1], [1, 2], [2, 1], [1, 1], [-3, 7], [1, 1]].map(|row: [i32; 2]| row.map(Value::Int4)));
    }

    #[test]
    fn null_keys_find_nothing_and_are_noticed() {
        check(&[[Value::Int4(1), Value::Null], [Value::Int4(1), Value::Int4(2)], [Value::Null, Value::Null]]);
        check(&[[Value::Null, Value::Int8(2)]]);
    }

    #[test]
    fn texts_and_distant_integers_are_found() {
        check(&[[Value::text("a"), Value::Int4(1)], [Value::text("b"), Value::Int4(1)]]);
        let far = [[i64::MIN, 1], [i64::MAX, 1], [0, i64::MAX], [i64::MIN, 1]];
        check(&far.map(|row| row.map(Value::Int8)));
        check(&[[0, 0], [1 << 40, 1 << 20], [1 << 40, 0]].map(|row: [i64; 2]| row.map(Value::Int8)));
    }

    #[test]
    fn integers_of_other_widths_and_out_of_range_are_looked_for_by_number() {
        let rows = rows(&[[5, 1], [9, 3], [7, 2]].map(|row: [i64; 2]| row.map(Value::Int8)));
        let hashing = Hashing::default();
        for (refused, expected) in ["dense", "words", "values"].into_iter().enumerate() {
            let index = refusing(&rows, &hashing, refused);
            assert_eq!(form(&index), expected);
            assert_eq!(found(&rows, &index, &hashing, &[Value::Int2(9), Value::Int4(3)]), [1]);
            for absent in [[4, 1], [10, 1], [5, 0], [5, 4], [i64::MAX, 1], [i64::MIN, i64::MIN]] {
                assert_eq!(found(&rows, &index, &hashing, &absent.map(Value::Int8)), [0u32; 0], "{absent:?}");
            }
        }
    }

    #[test]
    fn a_side_without_rows_has_no_partner() {
        let (rows, hashing) = (Batch::new(2), Hashing::default());
        let index = JoinIndex::new(&rows, &[0, 1], &hashing, |_| true);
        assert_eq!(found(&rows, &index, &hashing, &[Value::Int4(0), Value::Int4(0)]), [0u32; 0]);
        assert_eq!(found(&rows, &JoinIndex::default(), &hashing, &[Value::Null, Value::Null]), [0u32; 0]);
    }

    #[test]
    fn what_is_asked_for_is_what_is_allocated() {
        let hashing = Hashing::default();
        for count in [0, 1, 3, 7, 8, 100, 1_000, 20_000] {
            for distance in [1, 7, 1 << 30] {
                let keys: Vec<[Value; 2]> =
                    (0..count).map(|key| [Value::Int8(key * distance), Value::Int4(1)]).collect();
                let rows = rows(&keys);
                for refused in 0..3 {
                    let mut admitted = (0, 0);
                    let index = JoinIndex::new(&rows, &[0, 1], &hashing, |bytes| {
                        admitted = (admitted.0 + 1, bytes);
                        admitted.0 > refused
                    });
                    let taken = index.bytes_beyond_rows();
                    match &index.heads {
                        Heads::Dense(..) => assert_eq!(taken, admitted.1, "{count} {distance}"),
                        Heads::Words(..) => {
                            assert!(taken <= admitted.1, "{count} {distance}: {taken} {}", admitted.1);
                        }
                        Heads::Values(heads) => {
                            let all = 4 * index.next.len() + heads.allocation_size();
                            assert!(all <= BYTES_PER_ROW * rows.len() + 64, "{count}: {all}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_fastest_form_that_fits_is_made() {
        let keys: Vec<[Value; 2]> = (0..1_000).map(|key| [Value::Int8(key * 7), Value::Int4(1)]).collect();
        let (rows, hashing) = (rows(&keys), Hashing::default());
        let made = |spare: usize| JoinIndex::new(&rows, &[0, 1], &hashing, |bytes| bytes <= spare);
        assert_eq!(form(&made(0)), "values");
        assert_eq!(form(&made(usize::MAX)), "dense");
        let dense = made(usize::MAX).bytes_beyond_rows();
        assert_eq!(dense, 4 * 6_994 + 4 * 1_000 - BYTES_PER_ROW * 1_000);
        assert_eq!(form(&made(dense)), "dense");
        assert_ne!(form(&made(dense - 1)), "dense");
        assert_eq!(made(0).bytes_beyond_rows(), 0);
    }
}
