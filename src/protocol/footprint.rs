//! Footprints: what a call declares to touch before it runs.
//!
//! Made from a procedure's actions and a call's arguments; everything that wants to know beforehand comes from it:
//! which sites a call needs, which keys to look up and prefetch together, what a body may reach.

use crate::storage::index::hash::hash_key;
use crate::storage::table::{TableCore, TableId};
use crate::types::key::EncodedKey;

/// What an action does to its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads only.
    #[default]
    Read,
    /// Reads and writes.
    Write,
    /// Uses commutative operations only, which return nothing.
    Commute,
}

/// What of a key chooses its site or dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Routed {
    /// Nothing: the key does not have all of the routing fields.
    #[default]
    Nowhere,
    /// So many bytes at its beginning: its first component.
    By(u16),
    /// Other components, which lie at this place among their table's datasets.
    At(u64),
}

impl Routed {
    /// A key of so many components, of which the first has so many bytes.
    #[inline]
    pub(crate) fn of(table: &TableCore, key: &[u8], components: usize, first: u16) -> Routed {
        if table.is_routed_by_others() {
            let fields = table.routing_fields(key, components);
            return fields.map_or(Routed::Nowhere, |fields| Routed::At(place(&fields)));
        }
        if components > 0 { Routed::By(first) } else { Routed::Nowhere }
    }
}

/// How many bytes an integer of 32 bits has in a key.
const NARROW_BYTES: usize = 4;

/// Where routing fields lie: a number that spreads neighbours evenly, so that equal ranges of it have equal shares.
/// Equal fields of different tables lie at the same place, integers of either width too, so that what belongs together is together.
#[inline]
pub(crate) fn place(routing: &[u8]) -> u64 {
    if routing.len() > 8 {
        return hash_key(routing);
    }
    let mut number = [0; 8];
    number[8 - routing.len()..].copy_from_slice(routing);
    let mut number = u64::from_be_bytes(number);
    if routing.len() == NARROW_BYTES {
        // An integer of 32 bits lies where one of 64 bits does.
        number = number.wrapping_sub(1 << 31).wrapping_add(1 << 63);
    }
    // The golden ratio's fraction: multiples of it keep the largest distances from each other.
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// One identifier that a call touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    /// The table.
    pub(crate) table: TableId,
    /// The key, or the beginning of the keys; empty: the whole table.
    pub(crate) key: EncodedKey,
    /// Whether `key` is a whole key.
    pub(crate) whole: bool,
    /// The hash of a whole key.
    pub(crate) hash: u64,
    /// What is done.
    pub(crate) mode: Mode,
    /// What of `key` chooses the site or dataset.
    pub(crate) routing: Routed,
    /// Whether what is done reaches records that the key does not route: a secondary index's.
    pub(crate) unrouted: bool,
    /// Whether rows that the key does not route may forbid what is done: by a unique index.
    pub(crate) unique_beyond: bool,
    /// Whether `key` is where values led that were looked up before the call began: they may lead elsewhere by now.
    pub(crate) guessed: bool,
    /// Whether the call is given to somebody else than who owns this, which it reads and validates.
    pub(crate) elsewhere: bool,
}

/// Which instance of which action of a procedure a reference is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    pub(crate) action: u32,
    /// Counted from 0, within the action.
    pub(crate) number: u32,
}

/// Everything that a call declares: one reference for each action, or for each instance of a repeated one, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) references: Vec<Reference>,
    /// What each reference is, where an action of the procedure is repeated; of no meaning elsewhere.
    pub(crate) instances: Vec<Instance>,
    /// Whether one of them is more than read.
    pub(crate) writes: bool,
}

impl Footprint {
    /// Whether the call declares only reads.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        !self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DataType;
    use crate::types::ValueRef;
    use crate::types::key::encode_component;

    fn place_of(int: i64, data_type: &DataType) -> u64 {
        let mut key = EncodedKey::new();
        encode_component(&mut key, ValueRef::Int(int), data_type, false).expect("it fits");
        place(&key)
    }

    #[test]
    fn equal_integers_of_either_width_lie_at_one_place_and_others_elsewhere() {
        let ints = [0, 1, -1, 7, i64::from(i32::MIN), i64::from(i32::MAX)];
        for int in ints {
            assert_eq!(place_of(int, &DataType::Int32), place_of(int, &DataType::Int64), "{int}");
        }
        let mut places: Vec<u64> = ints.iter().map(|&int| place_of(int, &DataType::Int64)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), ints.len());
    }

    #[test]
    fn neighbours_are_spread_evenly() {
        let mut halves = [0; 2];
        for int in 1..=1_000 {
            halves[(place_of(int, &DataType::Int64) >> 63) as usize] += 1;
        }
        assert!(halves.iter().all(|&half| half > 450), "{halves:?}");
    }
}
