//! Handles of tables and columns.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::storage::definition::TableDefinition;
use crate::storage::table::{TableCore, TableMemory};

/// A handle of a table: cheap to clone, valid as long as its database is open. It follows schema changes:
/// after one it is a handle of the changed table. A dropped table's handle refuses every access.
#[derive(Clone)]
pub struct Table {
    core: Arc<TableCore>,
    /// True if it does not follow schema changes.
    is_fixed: bool,
}

impl Table {
    pub(crate) fn new(core: Arc<TableCore>) -> Table {
        Table { core, is_fixed: false }
    }

    /// A handle of the table as it is now, which does not follow schema changes: after one its accesses fail with
    /// [`Error::TableChanged`]. For plans that know the table's columns and indexes.
    pub fn fixed(&self) -> Table {
        Table { core: self.core.current().clone(), is_fixed: true }
    }

    /// Returns true if no schema change has dropped the table, or replaced the one of a [fixed](Self::fixed)
    /// handle.
    pub fn is_current(&self) -> bool {
        self.core().is_current()
    }

    pub(crate) fn core(&self) -> &TableCore {
        self.shared()
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<TableCore> {
        if self.is_fixed { &self.core } else { self.core.current() }
    }

    /// The table as it was at the end of an epoch.
    ///
    /// # Errors
    /// [`Error::TableDropped`] if it was dropped by then; [`Error::TableNewer`] if this handle was made after a later
    /// schema change of it.
    pub(crate) fn at(&self, epoch: u64) -> Result<&Arc<TableCore>> {
        let core = self.core.at(epoch);
        let table = || core.definition().name().to_string();
        if self.is_fixed && !Arc::ptr_eq(core, &self.core) {
            return Err(Error::TableChanged { table: table() });
        }
        if core.begins() > epoch {
            return Err(Error::TableNewer { table: table() });
        }
        if core.ends() <= epoch { Err(Error::TableDropped { table: table() }) } else { Ok(core) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.core().definition().name()
    }

    /// Returns the table's definition.
    pub fn definition(&self) -> &TableDefinition {
        self.core().definition()
    }

    /// An estimate of the number of rows, mostly within a factor of two for large tables; `None` if it is
    /// unknown. It is cheap, for planners that call it frequently: nothing is counted.
    pub fn estimated_rows(&self) -> Option<u64> {
        self.core.estimated_len()
    }

    /// Returns its use of memory. It visits all rows, concurrently with transactions: not for planners.
    pub fn memory(&self) -> TableMemory {
        self.core().memory()
    }

    /// Bytes of memory that one of its secondary indexes takes, with the index's records; `None` if there is
    /// no index of this name. It visits all of them, as [`memory`](Self::memory) does.
    pub fn index_memory(&self, name: &str) -> Option<u64> {
        self.core().index_memory(name)
    }

    /// A handle of a column, which finds it faster than its name does.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn column(&self, name: &str) -> Result<Column> {
        let position = self.definition().position(name)?;
        Ok(Column { table: self.core().identity(), position: position as u32 })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Table").field(&self.name()).finish()
    }
}

/// A handle of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The numbers of database and table: a position has no meaning in another one.
    table: (u64, u32),
    position: u32,
}

/// A reference to a column: its name, or its handle.
pub trait ColumnName {
    /// The column's position in the table.
    #[doc(hidden)]
    fn position_in(&self, table: &TableLookup<'_>) -> Result<usize>;
}

/// A table in which a column is looked for.
#[doc(hidden)]
pub struct TableLookup<'t>(pub(crate) &'t TableCore);

impl ColumnName for Column {
    #[inline]
    fn position_in(&self, table: &TableLookup<'_>) -> Result<usize> {
        if self.table == table.0.identity() {
            return Ok(self.position as usize);
        }
        Err(of_another_table(table.0))
    }
}

#[cold]
fn of_another_table(table: &TableCore) -> Error {
    let definition = table.definition();
    let known: Vec<_> = definition.columns().iter().map(|column| column.name.as_str()).collect();
    Error::UnknownColumn {
        table: definition.name().to_string(),
        column: "a column of another table".to_string(),
        known: known.join(", "),
    }
}

impl ColumnName for str {
    fn position_in(&self, table: &TableLookup<'_>) -> Result<usize> {
        table.0.definition().position(self)
    }
}

impl ColumnName for String {
    fn position_in(&self, table: &TableLookup<'_>) -> Result<usize> {
        table.0.definition().position(self)
    }
}

impl<N: ColumnName + ?Sized> ColumnName for &N {
    #[inline]
    fn position_in(&self, table: &TableLookup<'_>) -> Result<usize> {
        (**self).position_in(table)
    }
}

#[inline]
pub(crate) fn position(table: &TableCore, name: impl ColumnName) -> Result<usize> {
    name.position_in(&TableLookup(table))
}
