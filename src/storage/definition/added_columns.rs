//! The columns of a table that were added to its records, which stay as they are.
//!
//! Invariants: they are the table's last columns. Each keeps, for as long as the records stay, the value that rows have there
//! which were written before: the default at the time when it was added, whatever the default is now. A table that is copied has
//! none: its rows have all columns.

use super::TableDefinition;
use crate::types::Value;

/// The values of the past of a definition's last columns. They are no part of what a user writes down, so that they do not tell
/// definitions apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedColumns(Vec<Value>);

impl PartialEq for AddedColumns {
    fn eq(&self, _: &AddedColumns) -> bool {
        true
    }
}

impl AddedColumns {
    /// One value for each column.
    pub(crate) fn values(&self) -> &[Value] {
        &self.0
    }

    /// Adds a column's.
    pub(crate) fn push(&mut self, value: Value) {
        self.0.push(value);
    }
}

impl TableDefinition {
    /// The version of the rows that this definition describes: the first one, and one more for each column that was
    /// added since.
    pub(crate) fn row_version(&self) -> u64 {
        1 + self.added.values().len() as u64
    }

    /// The definition when its rows were of this version, with the present names of all columns, and without later
    /// columns' defaults and constraints; `None` if there was no such version.
    pub(crate) fn of_version(&self, version: u64) -> Option<TableDefinition> {
        let columns = self.columns_of_version(version)?;
        let mut definition = self.clone();
        if columns < self.columns.len() {
            definition.columns.truncate(columns);
            definition.added.0.truncate((version - 1) as usize);
            (definition.indexes, definition.checks, definition.foreign_keys) = Default::default();
        }
        Some(definition)
    }

    /// The number of columns of rows of a version; `None` if it is a later one.
    pub(crate) fn columns_of_version(&self, version: u64) -> Option<usize> {
        let later = self.row_version().checked_sub(version).filter(|_| version > 0)?;
        Some(self.columns.len() - later as usize)
    }

    /// Returns true if records that have the first columns can be given the others without a copy: the NULL bits of all
    /// fit the last word of them.
    pub(crate) fn can_extend_from(&self, columns: usize) -> bool {
        columns > 0 && (columns - 1) / 64 == (self.columns.len() - 1) / 64
    }
}
