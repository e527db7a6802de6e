//! Footprints: what a call declares to touch before it runs.
//!
//! Made from a procedure's actions and a call's arguments; everything that must be known beforehand is derived from it:
//! which partitions a call needs, which keys to look up and prefetch together, what a body may reach.

use crate::storage::foreign_keys::Reach;
use crate::storage::index::hash::hash_key;
use crate::storage::table::{TableCore, TableId};
use crate::types::key::EncodedKey;

/// The kind of access that an action makes to its table.
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

/// The part of a key that chooses its partition or dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Routed {
    /// None, because the key does not contain all routing columns.
    #[default]
    Unknown,
    /// A prefix of this many bytes: its first component.
    Prefix(u16),
    /// Other components, which have this partition hash.
    Hash(u64),
}

impl Routed {
    /// The routing of a key with this many components, in a table whose routing columns were chosen. Apart: it needs room on
    /// the stack that others would make for it.
    #[inline(never)]
    pub(crate) fn of_own_columns(table: &TableCore, key: &[u8], components: usize) -> Routed {
        let fields = table.routing_fields(key, components);
        fields.map_or(Routed::Unknown, |fields| Routed::Hash(partition_hash(&fields)))
    }
}

/// The bytes of a 32-bit integer in a key.
const NARROW_BYTES: usize = 4;

/// The partition hash of encoded routing columns. It spreads neighbors evenly, so that equal ranges of hashes hold equal
/// shares of the keys. Equal routing columns of different tables have equal hashes, and so have equal integers of 32 and
/// 64 bits: rows that belong together share a partition.
#[inline]
pub(crate) fn partition_hash(routing: &[u8]) -> u64 {
    if routing.len() > 8 {
        return hash_key(routing);
    }
    let mut number = [0; 8];
    number[8 - routing.len()..].copy_from_slice(routing);
    let mut number = u64::from_be_bytes(number);
    if routing.len() == NARROW_BYTES {
        // Sign-extend the encoded 32-bit integer to the encoding of 64 bits.
        number = number.wrapping_sub(1 << 31).wrapping_add(1 << 63);
    }
    // Fibonacci hashing: multiples of the golden ratio's fraction keep the largest distances from each other.
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// One identifier that a call touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    /// The table.
    pub(crate) table: TableId,
    /// The key, or the beginning of the keys; empty: the whole table.
    pub(crate) key: EncodedKey,
    /// The changes that its writes cause through foreign keys, in rows that are not declared.
    pub(crate) reach: Reach,
    /// True if `key` is a whole key.
    pub(crate) whole: bool,
    /// The hash of a whole key.
    pub(crate) hash: u64,
    /// The kind of access.
    pub(crate) mode: Mode,
    /// The part of `key` that decides its partition hash.
    pub(crate) routing: Routed,
    /// True if the table has secondary indexes, whose records belong to no partition.
    pub(crate) has_secondary_indexes: bool,
    /// True if key resolution filled in `key` before the transaction began: the values may lead to another key by now.
    pub(crate) resolved_ahead: bool,
    /// True for a read of another partition's row that is validated at the commit instead of locked.
    pub(crate) validated: bool,
}

impl Reference {
    /// Returns true if it declares accesses of this mode.
    #[inline]
    pub(crate) fn allows(&self, wanted: Mode) -> bool {
        self.mode == Mode::Write || self.mode == wanted
    }
}

/// The instance of an action that a reference was made for.
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
    /// The instance of each reference, where an action of the procedure is repeated; meaningless elsewhere.
    pub(crate) instances: Vec<Instance>,
    /// True if one of them is more than a read.
    pub(crate) writes: bool,
}

impl Footprint {
    /// The changes that the writes cause through foreign keys, in rows that are not declared.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        self.references.iter().map(|reference| reference.reach).max().unwrap_or_default()
    }
}

impl Footprint {
    /// Returns true if the call declares only reads.
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

    fn hash_of(int: i64, data_type: &DataType) -> u64 {
        let mut key = EncodedKey::new();
        encode_component(&mut key, ValueRef::Int(int), data_type, false).expect("it fits");
        partition_hash(&key)
    }

    #[test]
    fn equal_integers_of_either_width_have_one_partition_hash() {
        let ints = [0, 1, -1, 7, i64::from(i32::MIN), i64::from(i32::MAX)];
        for int in ints {
            assert_eq!(hash_of(int, &DataType::Int32), hash_of(int, &DataType::Int64), "{int}");
        }
        let mut hashes: Vec<u64> = ints.iter().map(|&int| hash_of(int, &DataType::Int64)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), ints.len());
    }

    #[test]
    fn neighbours_are_spread_evenly() {
        let mut halves = [0; 2];
        for int in 1..=1_000 {
            halves[(hash_of(int, &DataType::Int64) >> 63) as usize] += 1;
        }
        assert!(halves.iter().all(|&half| half > 450), "{halves:?}");
    }
}
