//! Routing fields: the columns of a table's key by which its rows are divided, among serial sites or executors.
//!
//! Usually that is the key's first column, whose bytes begin the key; a definition may choose others.

use smallvec::{SmallVec, smallvec};

use crate::storage::definition::TableDefinition;
use crate::storage::table::TableCore;
use crate::types::key::{EncodedKey, decode_component};

impl TableDefinition {
    /// Whether a unique index forbids that two rows have the same in it though their routing columns differ: then who writes one
    /// of them meets who writes the other. An index that contains all routing columns forbids nothing beyond them.
    pub(crate) fn is_unique_beyond_routing(&self) -> bool {
        let routing = self.routing_columns();
        let reaches_beyond = |columns: &[usize]| routing.iter().any(|routing| !columns.contains(routing));
        self.indexes.iter().any(|index| index.unique && reaches_beyond(&index.columns))
    }
}

impl TableCore {
    /// Whether it is routed by other columns than the first of its key.
    #[inline]
    pub(crate) fn is_routed_by_others(&self) -> bool {
        !self.definition().routing.is_empty()
    }

    /// The routing fields in a key that has so many components, in the order in which they were chosen; none: it does
    /// not have all of them.
    pub(crate) fn routing_fields(&self, key: &[u8], components: usize) -> Option<EncodedKey> {
        let definition = self.definition();
        let mut ends: SmallVec<[usize; 8]> = smallvec![0];
        let mut rest = key;
        for &column in definition.key().iter().take(components) {
            decode_component(&mut rest, &self.layout().column(column).data_type, false).ok()?;
            ends.push(key.len() - rest.len());
        }
        let mut fields = EncodedKey::new();
        for column in definition.routing_columns() {
            let at = definition.key().iter().position(|other| other == column)?;
            fields.extend_from_slice(&key[*ends.get(at)?..*ends.get(at + 1)?]);
        }
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::rig::Rig;
    use crate::types::{DataType, ValueRef};

    fn rig(routing: &[&'static str]) -> Rig {
        let definition = TableDefinition::new("t")
            .column("day", DataType::Date)
            .column("town", DataType::Text)
            .column("account", DataType::Int64)
            .column("balance", DataType::Int64)
            .primary_key(["town", "account", "day"]);
        let definition = if routing.is_empty() { definition } else { definition.routing(routing.to_vec()) };
        Rig::new(definition.settled().expect("sound"))
    }

    fn key(rig: &Rig, components: usize) -> EncodedKey {
        let day = "2026-11-21".parse().expect("a day");
        let all = [ValueRef::Text("a\u{1}town"), ValueRef::Int(-7), ValueRef::Date(day)];
        rig.table.encode_key(&all[..components], components == 3).expect("it fits")
    }

    #[test]
    fn fields_are_there_when_the_key_reaches_to_the_last_of_them() {
        let rig = rig(&["account"]);
        let account = (-7_i64 as u64 ^ 1 << 63).to_be_bytes();
        let fields = |components| rig.table.routing_fields(&key(&rig, components), components);
        assert_eq!([fields(0), fields(1)], [None, None]);
        for components in 2..=3 {
            assert_eq!(fields(components).as_deref(), Some(&account[..]));
        }
        assert!(rig.table.is_routed_by_others());
    }

    #[test]
    fn several_fields_come_in_the_order_in_which_they_were_chosen() {
        let rig = rig(&["day", "town"]);
        let whole = key(&rig, 3);
        let town = key(&rig, 1);
        let fields = rig.table.routing_fields(&whole, 3).expect("all are there");
        assert_eq!(fields[..], [&whole[whole.len() - 4..], &town].concat());
        assert_eq!(rig.table.routing_fields(&key(&rig, 2), 2), None);
        // As many components as are said to be there, but the bytes end before.
        assert_eq!(rig.table.routing_fields(&town, 3), None);
    }

    #[test]
    fn the_first_column_is_chosen_where_none_is_or_it_itself() {
        for routing in [&[][..], &["town"]] {
            let rig = rig(routing);
            assert!(!rig.table.is_routed_by_others());
            let first = rig.table.routing_fields(&key(&rig, 3), 3).expect("it is there");
            assert_eq!(first, key(&rig, 1));
        }
    }

    #[test]
    fn only_columns_of_the_key_route() {
        let definition = TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("n", DataType::Int64)
            .primary_key(["id"]);
        let wrong = definition.clone().routing(["n"]).settled().expect_err("outside of the key");
        assert!(wrong.to_string().contains("\"n\", which is not in its primary key"), "{wrong}");
        assert!(definition.clone().routing(["m"]).settled().is_err());
        assert!(definition.routing(["id", "id"]).settled().is_err());
    }

    #[test]
    fn an_index_forbids_beyond_the_routing_columns_unless_it_contains_them_all() {
        let table = || {
            TableDefinition::new("t")
                .column("a", DataType::Int64)
                .column("b", DataType::Int64)
                .column("c", DataType::Int64)
                .primary_key(["a", "b"])
        };
        let reaches_beyond = |definition: TableDefinition| {
            let definition = definition.settled().expect("sound");
            let reaches = definition.is_unique_beyond_routing();
            assert_eq!(Rig::new(definition).table.is_unique_beyond_routing(), reaches);
            reaches
        };
        assert!(!reaches_beyond(table()));
        assert!(!reaches_beyond(table().index("i", ["c"])), "nothing is unique");
        assert!(reaches_beyond(table().unique_index("i", ["c"])));
        assert!(!reaches_beyond(table().unique_index("i", ["c", "a"])));
        assert!(reaches_beyond(table().unique_index("i", ["c", "a"]).routing(["b"])));
        assert!(reaches_beyond(table().unique_index("i", ["c", "a"]).routing(["a", "b"])));
        assert!(!reaches_beyond(table().unique_index("i", ["b", "a"]).routing(["a", "b"])));
        assert!(reaches_beyond(table().unique_index("i", ["a", "c"]).unique_index("j", ["b"])));
    }
}
