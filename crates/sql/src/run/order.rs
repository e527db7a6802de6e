//! Comparison and hashing of rows by the values in some of their slots.
//!
//! # Invariants
//! - Values that compare as equal hash alike; integers of different widths compare and hash by their number.
//! - NULLs are equal to each other here; an operator for which NULL equals nothing looks for NULLs itself.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};

use crate::plan::node::SortKey;
use crate::types::Value;

/// The hasher of hash tables: seeded at random in each process.
pub(crate) type Hashing = foldhash::fast::RandomState;

/// The process's seed.
pub(crate) fn hashing() -> Hashing {
    static SEED: std::sync::LazyLock<Hashing> = std::sync::LazyLock::new(Hashing::default);
    SEED.clone()
}

/// Compares two values by one key of an order.
#[inline]
pub(crate) fn compare_values(left: &Value, right: &Value, key: &SortKey) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (false, false) => {
            let ordering = left.cmp(right);
            if key.descending { ordering.reverse() } else { ordering }
        }
        (true, true) => Ordering::Equal,
        (true, false) if key.nulls_first => Ordering::Less,
        (false, true) if !key.nulls_first => Ordering::Less,
        _ => Ordering::Greater,
    }
}

/// Compares two rows by an order.
#[inline]
pub(crate) fn compare_rows(left: &[Value], right: &[Value], keys: &[SortKey]) -> Ordering {
    for key in keys {
        let ordering = compare_values(&left[key.slot], &right[key.slot], key);
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Returns true if two rows hold the same values in these slots of each; NULL equals NULL.
#[inline]
pub(crate) fn same_slots(
    left: &[Value],
    left_slots: &[usize],
    right: &[Value],
    right_slots: &[usize],
) -> bool {
    left_slots.iter().zip(right_slots).all(|(&left_slot, &right_slot)| left[left_slot] == right[right_slot])
}

/// The hash of the values in these slots.
#[inline]
pub(crate) fn hash_slots(hashing: &Hashing, row: &[Value], slots: &[usize]) -> u64 {
    let mut hasher = hashing.build_hasher();
    for &slot in slots {
        row[slot].hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(descending: bool, nulls_first: bool) -> SortKey {
        SortKey { slot: 0, descending, nulls_first }
    }

    #[test]
    fn nulls_stand_where_the_key_says_whatever_its_direction() {
        let (one, null) = (Value::Int4(1), Value::Null);
        for descending in [false, true] {
            assert_eq!(compare_values(&null, &one, &key(descending, true)), Ordering::Less);
            assert_eq!(compare_values(&null, &one, &key(descending, false)), Ordering::Greater);
            assert_eq!(compare_values(&one, &null, &key(descending, false)), Ordering::Less);
            assert_eq!(compare_values(&null, &null, &key(descending, false)), Ordering::Equal);
        }
    }

    #[test]
    fn the_second_key_decides_between_equals() {
        let keys = [key(false, false), SortKey { slot: 1, descending: true, nulls_first: true }];
        let low = [Value::Int4(1), Value::Int4(2)];
        let high = [Value::Int4(1), Value::Int4(3)];
        assert_eq!(compare_rows(&low, &high, &keys), Ordering::Greater);
    }

    #[test]
    fn rows_with_the_same_slots_hash_alike() {
        let hashing = Hashing::default();
        let left = [Value::Int4(1), Value::text("x"), Value::Null];
        let right = [Value::Null, Value::text("x"), Value::Int4(1)];
        assert!(same_slots(&left, &[0, 1, 2], &right, &[2, 1, 0]));
        assert_eq!(hash_slots(&hashing, &left, &[0, 1, 2]), hash_slots(&hashing, &right, &[2, 1, 0]));
    }
}
