//! Rows that an update names by a unique index: the index tells the key, and nothing else of the row is read for it.
//!
//! # Invariants
//! The condition on the index's columns stays a part of the update's condition: that the row has these values is validated with the
//! columns that it names.

use crate::catalog::Table;
use crate::plan::expression::Expr;
use crate::plan::node::IndexRanges;

/// The values of a unique index's columns that name a row.
#[derive(Clone, Debug)]
pub(crate) struct UniqueKey {
    /// The name of the index in the engine's table.
    pub(crate) index: String,
    /// Its columns, in its order.
    pub(crate) columns: Vec<usize>,
    /// Their values, which see no row.
    pub(crate) values: Vec<Expr>,
}

impl UniqueKey {
    /// The values by which a scan finds at most one row; `None` if it may find several, or the table has no key of its own.
    pub(super) fn of(table: &Table, parts: &[IndexRanges]) -> Option<UniqueKey> {
        let [part] = parts else { return None };
        let [range] = &part.ranges[..] else { return None };
        let index = &table.indexes[part.index?];
        let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        let is_whole =
            range.prefix.len() == columns.len() && range.more.is_empty() && range.bounds.is_empty();
        let is_one = is_whole && index.is_unique_in_engine() && !table.key.is_empty();
        is_one.then(|| UniqueKey { index: index.name.clone(), columns, values: range.prefix.clone() })
    }
}
