//! The lists of the highest bids and of the newest items: top-K columns, and what their entries are.

use heddledb::{ColumnName, DataType, Result, Row, TopK, TupleType, Value};

/// Entries of a list.
pub(super) const ENTRIES: u32 = 20;

/// An entry's order, higher first: an amount or a time, and the number of the row, so that no two are equal.
pub(super) type Entry = (i64, i64);

/// The type of an entry: its order, and the user that it belongs to.
pub(super) fn entry_type() -> Result<TupleType> {
    TupleType::new(vec![DataType::Int64; 2], vec![DataType::Int64])
}

/// The type of a list's column.
pub(super) fn list_type() -> Result<DataType> {
    Ok(DataType::TopK { limit: ENTRIES, of: entry_type()? })
}

/// An empty list.
pub(super) fn nothing() -> Result<Value> {
    Ok(Value::TopK(TopK::of(ENTRIES, [])?))
}

/// The entries of a row's list and their users, highest first.
pub(super) fn entries(row: &Row<'_>, column: impl ColumnName) -> Result<Vec<(Entry, i64)>> {
    Ok(row.top_k(column)?.iter().filter_map(|entry| entry_of(entry)).collect())
}

/// The parts of an entry.
pub(super) fn entry_of(entry: &[Value]) -> Option<(Entry, i64)> {
    match *entry {
        [Value::Int(order), Value::Int(number), Value::Int(user)] => Some(((order, number), user)),
        _ => None,
    }
}
