//! Routing columns: the columns of a table's primary key that decide which partition a row belongs to.
//!
//! By default that is the key's first column, whose bytes begin the encoded key; a definition may choose others.
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.1: routing rules on any columns of the primary key.

use smallvec::{SmallVec, smallvec};

use crate::storage::table::TableCore;
use crate::types::key::{EncodedKey, decode_component};

impl TableCore {
    /// Returns true if its definition chooses routing columns, so that the first column of the key does not decide.
    #[inline]
    pub(crate) fn has_own_routing_columns(&self) -> bool {
        !self.definition().routing.is_empty()
    }

    /// The encoded routing columns of a key that has `components` components, in the order in which the definition names
    /// them; `None` if the key does not contain all of them.
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
    use crate::storage::definition::TableDefinition;
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
    fn routing_columns_are_found_once_the_key_contains_all_of_them() {
        let rig = rig(&["account"]);
        let account = (-7_i64 as u64 ^ 1 << 63).to_be_bytes();
        let fields = |components| rig.table.routing_fields(&key(&rig, components), components);
        assert_eq!([fields(0), fields(1)], [None, None]);
        for components in 2..=3 {
            assert_eq!(fields(components).as_deref(), Some(&account[..]));
        }
        assert!(rig.table.has_own_routing_columns());
    }

    #[test]
    fn several_routing_columns_keep_the_order_of_the_definition() {
        let rig = rig(&["day", "town"]);
        let whole = key(&rig, 3);
        let town = key(&rig, 1);
        let fields = rig.table.routing_fields(&whole, 3).expect("all are there");
        assert_eq!(fields[..], [&whole[whole.len() - 4..], &town].concat());
        assert_eq!(rig.table.routing_fields(&key(&rig, 2), 2), None);
        // The bytes end before the components that are announced.
        assert_eq!(rig.table.routing_fields(&town, 3), None);
    }

    #[test]
    fn the_first_column_routes_by_default() {
        for routing in [&[][..], &["town"]] {
            let rig = rig(routing);
            assert!(!rig.table.has_own_routing_columns());
            let first = rig.table.routing_fields(&key(&rig, 3), 3).expect("it is there");
            assert_eq!(first, key(&rig, 1));
        }
    }

    #[test]
    fn routing_columns_outside_of_the_key_are_refused() {
        let definition = TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("n", DataType::Int64)
            .primary_key(["id"]);
        let wrong = definition.clone().routing(["n"]).settled().expect_err("outside of the key");
        assert!(wrong.to_string().contains("\"n\", which is not in its primary key"), "{wrong}");
        assert!(definition.clone().routing(["m"]).settled().is_err());
        assert!(definition.routing(["id", "id"]).settled().is_err());
    }
}
