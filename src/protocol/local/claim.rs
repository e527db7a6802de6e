//! Identifiers: what local locks are on.
//!
//! An identifier is a table with the beginning of its keys: all of it (one row), some of it, or nothing (the whole
//! table); or it is everything there is. Two of them meet where one is the beginning of the other: encoded keys keep
//! their components' ends, so that a beginning of bytes is a beginning of columns (a beginning that ends within a
//! component would be a false conflict, and no harm).

use crate::protocol::footprint::{Mode, Reference, Routed, place};
use crate::storage::table::{TableCore, TableId};
use crate::types::key::{EncodedKey, KeyKind};

/// What is locked. They are ordered so that everything behind a beginning follows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identifier {
    /// None: everything that the executor owns.
    pub(crate) table: Option<TableId>,
    /// The key, or its beginning.
    pub(crate) key: EncodedKey,
}

impl Identifier {
    /// Whether this is the beginning of the other, or the same.
    pub(crate) fn covers(&self, other: &Identifier) -> bool {
        self.table.is_none() || self.table == other.table && other.key.starts_with(&self.key)
    }

    /// Whether there is something that both of them name.
    pub(crate) fn meets(&self, other: &Identifier) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// A lock that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) identifier: Identifier,
    /// Whether the identifier is a whole key.
    pub(crate) whole: bool,
    /// Whether it is wanted alone.
    pub(crate) exclusive: bool,
    /// Where it lies among its table's datasets; none: in all of them.
    pub(crate) place: Option<u64>,
}

impl Want {
    /// What a footprint declares.
    pub(crate) fn of_reference(reference: &Reference) -> Want {
        Want {
            identifier: Identifier { table: Some(reference.table), key: reference.key.clone() },
            whole: reference.whole,
            exclusive: reference.mode != Mode::Read,
            place: place_of_reference(reference),
        }
    }

    /// A row that will be written.
    pub(crate) fn of_written(table: &TableCore, key: &[u8]) -> Want {
        let identifier = Identifier { table: Some(table.id()), key: key.into() };
        Want { identifier, whole: true, exclusive: true, place: Some(place_of_row(table, key)) }
    }

    /// Everything, alone.
    pub(crate) fn of_everything() -> Want {
        let identifier = Identifier { table: None, key: EncodedKey::new() };
        Want { identifier, whole: false, exclusive: true, place: None }
    }

    /// Whether two who hold these would disturb each other.
    pub(crate) fn conflicts(&self, other: &Want) -> bool {
        (self.exclusive || other.exclusive) && self.identifier.meets(&other.identifier)
    }
}

/// Where a reference lies among its table's datasets; none: in all of them.
#[inline]
pub(crate) fn place_of_reference(reference: &Reference) -> Option<u64> {
    match reference.routing {
        Routed::Nowhere => None,
        Routed::By(bytes) => Some(place(&reference.key[..usize::from(bytes)])),
        Routed::At(place) => Some(place),
    }
}

/// Whether it is read wherever the call is: by a secondary index, which nobody owns, so that it is noted and validated,
/// and not locked.
#[inline]
pub(crate) fn is_floating(reference: &Reference) -> bool {
    reference.unrouted && reference.mode == Mode::Read && reference.routing == Routed::Nowhere
}

/// Where the rows lie that have a key of so many components, or begin with them; none: in all datasets.
pub(crate) fn place_of_key(table: &TableCore, key: &[u8], components: usize) -> Option<u64> {
    table.routing_fields(key, components).map(|fields| place(&fields))
}

/// Where a row lies. What is no key of the table's, which no record has, would be routed by all of it.
pub(crate) fn place_of_row(table: &TableCore, key: &[u8]) -> u64 {
    let components = table.key_kinds().len();
    if !table.is_routed_by_others() && table.key_kinds().first() == Some(&KeyKind::Int64) {
        return place(key.get(..8).unwrap_or(key));
    }
    table.routing_fields(key, components).map_or_else(|| place(key), |fields| place(&fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(table: u32, key: &[u8]) -> Identifier {
        Identifier { table: Some(table), key: key.into() }
    }

    fn want(table: u32, key: &[u8], exclusive: bool) -> Want {
        Want { identifier: identifier(table, key), whole: false, exclusive, place: None }
    }

    #[test]
    fn identifiers_meet_where_one_begins_the_other() {
        let everything = Want::of_everything().identifier;
        let (table, one, two) = (identifier(1, b""), identifier(1, b"ab"), identifier(1, b"abc"));
        for (left, right) in [(&table, &one), (&one, &two), (&everything, &two), (&table, &two), (&one, &one)]
        {
            assert!(left.covers(right) && left.meets(right) && right.meets(left));
        }
        for (left, right) in
            [(&one, &identifier(1, b"ac")), (&one, &identifier(2, b"ab")), (&two, &identifier(1, b"abd"))]
        {
            assert!(!left.meets(right) && !right.meets(left));
        }
        assert!(!one.covers(&table) && !table.covers(&everything));
        assert!(everything < table && table < one && one < two && two < identifier(1, b"ac"));
    }

    #[test]
    fn who_only_reads_disturbs_no_reader() {
        assert!(!want(1, b"a", false).conflicts(&want(1, b"ab", false)));
        assert!(want(1, b"a", false).conflicts(&want(1, b"ab", true)));
        assert!(want(1, b"a", true).conflicts(&want(1, b"", false)));
        assert!(!want(1, b"a", true).conflicts(&want(2, b"a", true)));
        assert!(want(3, b"x", false).conflicts(&Want::of_everything()));
    }

    #[test]
    fn neighbours_lie_far_apart_and_in_equal_shares() {
        for shares in [2_u128, 3, 8] {
            let mut counts = vec![0; shares as usize];
            for number in 1..=1_000_i64 {
                let key = (number as u64 ^ 1 << 63).to_be_bytes();
                counts[((u128::from(place(&key)) * shares) >> 64) as usize] += 1;
            }
            let fair = 1_000 / shares as i32;
            assert!(counts.iter().all(|count: &i32| (count - fair).abs() <= 3), "{counts:?}");
        }
        let shares: Vec<_> =
            (1..=2_u64).map(|number| place(&(number ^ 1 << 63).to_be_bytes()) >> 63).collect();
        assert_ne!(shares[0], shares[1], "two of a kind go to two executors");
    }

    #[test]
    fn the_first_column_of_a_key_chooses_its_place() {
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
                routing: Routed::By(prefix.len() as u16),
                mode: Mode::Write,
                ..Reference::default()
            };
            let (declared, written) = (Want::of_reference(&reference), Want::of_written(&rig.table, &whole));
            assert_eq!(declared.place, written.place);
            assert!(declared.conflicts(&written) && declared.exclusive && !declared.whole);
        }
        let everywhere = Reference::default();
        assert_eq!(Want::of_reference(&everywhere).place, None);
    }
}
