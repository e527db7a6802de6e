//! Rows for serde, with the feature `serde`: maps of columns' names and values, in the order of the columns.

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};

use super::{OwnedRow, Row};
use crate::types::{DataType, OrderedTuple, TopK, ValueRef};

/// A map of names and values. The entries of tuples and top-K sets are lists of values.
impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = self.table.definition().columns();
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for (position, column) in columns.iter().enumerate() {
            let name = column.name.as_str();
            // A column that is split now is an error here, and the transaction is stashed.
            if self.is_null(name).map_err(S::Error::custom)? {
                map.serialize_entry(name, &ValueRef::Null)?;
                continue;
            }
            match (&column.data_type, self.value(position)) {
                (DataType::OrderedTuple(of), ValueRef::Tuple(entry)) => {
                    let entry = OrderedTuple::from_stored(entry).row(of).map_err(S::Error::custom)?;
                    map.serialize_entry(name, &entry)?;
                }
                (DataType::TopK { of, .. }, ValueRef::TopK(set)) => {
                    let entries = TopK::from_stored(set).rows(of).map_err(S::Error::custom)?;
                    map.serialize_entry(name, &entries)?;
                }
                (_, value) => map.serialize_entry(name, &value)?,
            }
        }
        map.end()
    }
}

/// Serializes like a [`Row`].
impl Serialize for OwnedRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.row().serialize(serializer)
    }
}
