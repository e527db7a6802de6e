//! The output of a feed: changes of one table, in batches of one epoch each.

use std::fmt;
use std::sync::Arc;

use crate::database::SplitOperation;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::row::OwnedRow;
use crate::storage::definition::TableDefinition;
use crate::storage::table::TableCore;
use crate::types::{DataType, Value, ValueRef, assignment};

/// A change of a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A row was inserted. If a row with this key was there, the same transaction has deleted it.
    Insert {
        /// The primary key's columns.
        key: Vec<Value>,
        /// The whole row.
        row: OwnedRow,
    },
    /// Columns of a row were changed. The log has neither the other columns nor the old values: a reader that needs the whole
    /// row keeps a copy, or reads it from the table.
    Update {
        /// The primary key's columns.
        key: Vec<Value>,
        /// The columns and their changes.
        columns: ChangedColumns,
    },
    /// A row was deleted.
    Delete {
        /// The primary key's columns.
        key: Vec<Value>,
    },
    /// All rows are gone: the table was emptied ([`Database::truncate`](crate::Database::truncate)), or a schema change has
    /// rewritten it (columns dropped, types, key). The rows that it has from then on follow as inserts.
    Rewrite {
        /// The table's definition from then on.
        definition: Box<TableDefinition>,
    },
    /// A column was added behind the others. Earlier rows have this value there; inserts that follow include the
    /// column.
    AddColumn {
        /// Its name.
        name: String,
        /// The column's value in rows that were there before.
        value: Value,
    },
    /// The table was dropped. No change follows.
    Drop,
}

impl Change {
    /// The primary key of the row that has changed; `None` if the whole table has.
    pub fn key(&self) -> Option<&[Value]> {
        match self {
            Change::Insert { key, .. } | Change::Update { key, .. } | Change::Delete { key } => Some(key),
            Change::Rewrite { .. } | Change::AddColumn { .. } | Change::Drop => None,
        }
    }
}

/// The change of a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ColumnChange {
    /// A value.
    Set(Value),
    /// An operation, of which only the operand is known: the changes of all transactions of an epoch to a
    /// split column, or the entries that were put into a top-K set. [`ChangedColumns::apply_to`] applies it.
    Apply {
        /// The operation.
        operation: SplitOperation,
        /// The operands, merged to one.
        operand: Value,
    },
}

/// The columns of a row that an update has changed, each of them once.
#[derive(Clone)]
pub struct ChangedColumns {
    pub(super) table: Arc<TableCore>,
    pub(super) columns: Vec<(usize, ColumnChange)>,
}

impl ChangedColumns {
    /// Each changed column's name and change.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &ColumnChange)> {
        let name = |&at: &usize| self.table.definition().columns()[at].name.as_str();
        self.columns.iter().map(move |(at, change)| (name(at), change))
    }

    /// The change of a column, if it has changed.
    pub fn get(&self, column: &str) -> Option<&ColumnChange> {
        self.iter().find(|(name, _)| *name == column).map(|(_, change)| change)
    }

    /// Turns the old row into the new one: its values, one for each column of the table, in order. For a copy
    /// that keeps structs, see [`apply_to_row`](Self::apply_to_row).
    ///
    /// # Errors
    /// [`Error::WrongRow`] for another number of values; the row is not the one that was changed: an operation fails on it.
    pub fn apply_to(&self, row: &mut [Value]) -> Result<()> {
        let (definition, expected) = (self.table.definition(), self.table.layout().len());
        if row.len() != expected {
            let table = definition.name().to_string();
            return Err(Error::WrongRow { table, expected, given: row.len() });
        }
        self.apply_to_first(row)
    }

    /// The table that they are columns of.
    pub(crate) fn table(&self) -> &TableCore {
        &self.table
    }

    /// Makes the new row of the old one, of which these are the first columns.
    ///
    /// # Errors
    /// An operation fails on a value.
    pub(crate) fn apply_to_first(&self, row: &mut [Value]) -> Result<()> {
        for (at, change) in &self.columns {
            let Some(value) = row.get_mut(*at) else { continue };
            *value = match change {
                ColumnChange::Set(new) => new.clone(),
                ColumnChange::Apply { operation, operand } => {
                    let data_type = &self.table.layout().column(*at).data_type;
                    apply(operation.operation(), value, operand, data_type)?
                }
            };
        }
        Ok(())
    }
}

fn apply(operation: Operation, value: &Value, operand: &Value, data_type: &DataType) -> Result<Value> {
    let (current, mut buffer) = (ValueRef::from(value), Vec::new());
    let applied = operation.apply(current, operand.into(), data_type, &mut buffer)?;
    let value = applied.value(current, &buffer);
    Ok(assignment::coerce(value, data_type, false, operation.name())?.to_value())
}

impl fmt::Debug for ChangedColumns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// All changes of a table in one epoch.
///
/// After a whole batch a copy of the table is in a state that a serial execution could have left. Within a batch, the changes
/// of each row are in the order in which they happened, and a transaction that has read another one's writes
/// is behind it; independent transactions are in any order.
#[derive(Clone, Debug)]
pub struct ChangeBatch {
    pub(super) epoch: u64,
    pub(super) changes: Vec<Change>,
}

impl ChangeBatch {
    /// The epoch: higher than that of the batch before.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The changes; at least one.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}

impl IntoIterator for ChangeBatch {
    type Item = Change;
    type IntoIter = std::vec::IntoIter<Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.changes.into_iter()
    }
}

impl<'b> IntoIterator for &'b ChangeBatch {
    type Item = &'b Change;
    type IntoIter = std::slice::Iter<'b, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.changes.iter()
    }
}
