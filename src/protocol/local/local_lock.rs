//! Local locks: a table with a prefix of its keys, or everything that an executor owns.
//!
//! # Invariants
//! Two identifiers overlap if one is a prefix of the other. Encoded keys keep the ends of their components, so a prefix of
//! bytes is a prefix of columns; a prefix that ends within a component causes a false conflict and no wrong result.
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.3: local locks conflict by prefixes of the primary key.

use crate::protocol::footprint::{Mode, Reference, Routed, partition_hash};
use crate::storage::table::{TableCore, TableId};
use crate::types::key::{EncodedKey, KeyKind};

/// The identifier of a lock. In their order every identifier follows its prefixes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identifier {
    /// The table; `None` for everything that the executor owns.
    pub(crate) table: Option<TableId>,
    /// The key, or a prefix of the keys.
    pub(crate) key: EncodedKey,
}

impl Identifier {
    /// Returns true if this is a prefix of the other, or equal.
    pub(crate) fn covers(&self, other: &Identifier) -> bool {
        self.table.is_none() || self.table == other.table && other.key.starts_with(&self.key)
    }

    /// Returns true if a row can belong to both.
    pub(crate) fn overlaps(&self, other: &Identifier) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// A shared or exclusive lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLock {
    pub(crate) identifier: Identifier,
    /// True if the identifier is a whole key.
    pub(crate) whole: bool,
    pub(crate) exclusive: bool,
    /// The partition hash; `None` for rows of every executor.
    pub(crate) partition_hash: Option<u64>,
}

impl LocalLock {
    /// The lock that an action declares.
    pub(crate) fn of_reference(reference: &Reference) -> LocalLock {
        LocalLock {
            identifier: Identifier { table: Some(reference.table), key: reference.key.clone() },
            whole: reference.whole,
            exclusive: reference.mode != Mode::Read,
            partition_hash: partition_hash_of(reference),
        }
    }

    /// An exclusive lock on a row that will be written.
    pub(crate) fn of_written(table: &TableCore, key: &[u8]) -> LocalLock {
        let identifier = Identifier { table: Some(table.id()), key: key.into() };
        let partition_hash = Some(partition_hash_of_row(table, key));
        LocalLock { identifier, whole: true, exclusive: true, partition_hash }
    }

    /// An exclusive lock on everything.
    pub(crate) fn on_everything() -> LocalLock {
        let identifier = Identifier { table: None, key: EncodedKey::new() };
        LocalLock { identifier, whole: false, exclusive: true, partition_hash: None }
    }

    /// Returns true if two transactions cannot hold these at the same time.
    pub(crate) fn conflicts(&self, other: &LocalLock) -> bool {
        (self.exclusive || other.exclusive) && self.identifier.overlaps(&other.identifier)
    }
}

/// The partition hash of a reference; `None` if its rows can belong to every executor.
#[inline]
pub(crate) fn partition_hash_of(reference: &Reference) -> Option<u64> {
    match reference.routing {
        Routed::Unknown => None,
        Routed::Prefix(bytes) => Some(partition_hash(&reference.key[..usize::from(bytes)])),
        Routed::Hash(hash) => Some(hash),
    }
}

/// Returns true if an action reads through a secondary index, whose records no executor owns: its reads are validated,
/// not locked.
#[inline]
pub(crate) fn is_index_read(reference: &Reference) -> bool {
    reference.has_secondary_indexes && reference.mode == Mode::Read && reference.routing == Routed::Unknown
}

/// Returns true if the executor that runs the whole transaction locks this reference. The present partition map does
/// not matter: it may have changed since the transaction was routed.
#[inline]
pub(crate) fn is_locked(reference: &Reference) -> bool {
    !reference.validated && !is_index_read(reference)
}

/// The partition hash of rows whose keys have this prefix of `components` components; `None` for all partitions.
pub(crate) fn partition_hash_of_key(table: &TableCore, key: &[u8], components: usize) -> Option<u64> {
    table.routing_fields(key, components).map(|fields| partition_hash(&fields))
}

/// The partition hash of a row. Bytes that are no key of the table, which no record has, are hashed as a whole.
pub(crate) fn partition_hash_of_row(table: &TableCore, key: &[u8]) -> u64 {
    let components = table.key_kinds().len();
    if !table.has_own_routing_columns() && table.key_kinds().first() == Some(&KeyKind::Int64) {
        return partition_hash(key.get(..8).unwrap_or(key));
    }
    table
        .routing_fields(key, components)
        .map_or_else(|| partition_hash(key), |fields| partition_hash(&fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(table: u32, key: &[u8]) -> Identifier {
        Identifier { table: Some(table), key: key.into() }
    }

    fn lock(table: u32, key: &[u8], exclusive: bool) -> LocalLock {
        LocalLock { identifier: identifier(table, key), whole: false, exclusive, partition_hash: None }
    }

    #[test]
    fn identifiers_overlap_where_one_is_a_prefix_of_the_other() {
        let everything = LocalLock::on_everything().identifier;
        let (table, one, two) = (identifier(1, b""), identifier(1, b"ab"), identifier(1, b"abc"));
        for (left, right) in [(&table, &one), (&one, &two), (&everything, &two), (&table, &two), (&one, &one)]
        {
            assert!(left.covers(right) && left.overlaps(right) && right.overlaps(left));
        }
        for (left, right) in
            [(&one, &identifier(1, b"ac")), (&one, &identifier(2, b"ab")), (&two, &identifier(1, b"abd"))]
        {
            assert!(!left.overlaps(right) && !right.overlaps(left));
        }
        assert!(!one.covers(&table) && !table.covers(&everything));
        assert!(everything < table && table < one && one < two && two < identifier(1, b"ac"));
    }

    #[test]
    fn readers_do_not_conflict() {
        assert!(!lock(1, b"a", false).conflicts(&lock(1, b"ab", false)));
        assert!(lock(1, b"a", false).conflicts(&lock(1, b"ab", true)));
        assert!(lock(1, b"a", true).conflicts(&lock(1, b"", false)));
        assert!(!lock(1, b"a", true).conflicts(&lock(2, b"a", true)));
        assert!(lock(3, b"x", false).conflicts(&LocalLock::on_everything()));
    }

    #[test]
    fn neighbors_are_spread_evenly() {
        for shares in [2_u128, 3, 8] {
            let mut counts = vec![0; shares as usize];
            for number in 1..=1_000_i64 {
                let key = (number as u64 ^ 1 << 63).to_be_bytes();
                counts[((u128::from(partition_hash(&key)) * shares) >> 64) as usize] += 1;
            }
            let fair = 1_000 / shares as i32;
            assert!(counts.iter().all(|count: &i32| (count - fair).abs() <= 3), "{counts:?}");
        }
        let shares: Vec<_> =
            (1..=2_u64).map(|number| partition_hash(&(number ^ 1 << 63).to_be_bytes()) >> 63).collect();
        assert_ne!(shares[0], shares[1], "two of a kind go to two executors");
    }

    #[test]
    fn the_first_column_of_a_key_decides_its_partition_hash() {
        use crate::storage::definition::TableDefinition;
        use crate::storage::rig::Rig;
        use crate::types::{DataType, ValueRef};
        for (first, value) in [
            (DataType::Text, ValueRef::Text("a town")),
            (DataType::Int64, ValueRef::Int(-3)),
            (DataType::Int32, ValueRef::Int(9)),
        ] {
            let definition = TableDefinition::new("t").column("a", first).column("b", DataType::Int64);
            let rig = Rig::new(definition.primary_key(["a", "b"]));
            let prefix = rig.table.encode_key(&[value], false).expect("it fits");
            let whole = rig.table.encode_key(&[value, ValueRef::Int(7)], true).expect("it fits");
            assert_eq!(rig.table.routing_fields(&whole, 2).as_deref(), Some(&prefix[..]));
            assert_eq!(rig.table.routing_fields(&prefix, 1).as_deref(), Some(&prefix[..]));
            let reference = Reference {
                table: rig.table.id(),
                key: prefix.clone(),
                routing: Routed::Prefix(prefix.len() as u16),
                mode: Mode::Write,
                ..Reference::default()
            };
            let (declared, written) =
                (LocalLock::of_reference(&reference), LocalLock::of_written(&rig.table, &whole));
            assert_eq!(declared.partition_hash, written.partition_hash);
            assert!(declared.conflicts(&written) && declared.exclusive && !declared.whole);
        }
        let everywhere = Reference::default();
        assert_eq!(LocalLock::of_reference(&everywhere).partition_hash, None);
    }
}
