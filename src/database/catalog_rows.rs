//! The catalog's rows about tables, as a schema change's transaction writes them.
//!
//! Invariant: a transaction that makes tables writes these rows before the tables' own, because replay makes a table from
//! them before it meets its rows.

use crate::error::{Error, Result};
use crate::storage::catalog::{self, DROPPED};
use crate::storage::definition::TableDefinition;
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};
use crate::table::Table;
use crate::transaction::Tx;
use crate::types::{Value, ValueRef};

fn catalog_table(store: &Store, id: TableId) -> Result<Table> {
    store.table(id).map(Table::new).ok_or(Error::Closed)
}

/// Describes a new table.
pub(crate) fn write(store: &Store, tx: &Tx<'_, '_>, id: TableId, definition: &TableDefinition) -> Result<()> {
    catalog::rows(id, definition)?.iter().try_for_each(|(table, values)| {
        tx.insert(&catalog_table(store, *table)?, values.iter().map(ValueRef::from).collect::<Vec<_>>())
    })
}

/// Records that a table has replaced another one, which is dropped.
pub(crate) fn mark_replaced(store: &Store, tx: &Tx<'_, '_>, old: TableId, new: TableId) -> Result<()> {
    let row = [ValueRef::Int(i64::from(old)), ValueRef::Int(i64::from(new))];
    tx.insert(&catalog_table(store, catalog::SUCCESSORS)?, row)?;
    mark_dropped(store, tx, old)
}

/// Says that a table is gone.
pub(crate) fn mark_dropped(store: &Store, tx: &Tx<'_, '_>, id: TableId) -> Result<()> {
    let key = [ValueRef::Int(i64::from(id))];
    tx.update(&catalog_table(store, catalog::TABLES)?, key, &[("name", ValueRef::Text(DROPPED))])
}

/// Brings a table's rows up to date. It always writes, also if the new definition is like the old one: only a
/// transaction that writes can change the schema.
pub(crate) fn rewrite(
    store: &Store,
    tx: &Tx<'_, '_>,
    table: &TableCore,
    definition: &TableDefinition,
) -> Result<()> {
    let before = catalog::rows(table.id(), table.definition())?;
    let after = catalog::rows(table.id(), definition)?;
    if before == after {
        let key = [ValueRef::Int(i64::from(table.id()))];
        let name = [("name", ValueRef::Text(definition.name()))];
        return tx.update(&catalog_table(store, catalog::TABLES)?, key, &name);
    }
    let changed = |rows: &[(TableId, Vec<Value>)], others: &[(TableId, Vec<Value>)]| {
        rows.iter().filter(|row| !others.contains(row)).cloned().collect::<Vec<_>>()
    };
    for (id, values) in changed(&before, &after) {
        let table = catalog_table(store, id)?;
        let key: Vec<_> = table.definition().key().iter().map(|&at| ValueRef::from(&values[at])).collect();
        tx.delete(&table, key)?;
    }
    for (id, values) in changed(&after, &before) {
        tx.insert(&catalog_table(store, id)?, values.iter().map(ValueRef::from).collect::<Vec<_>>())?;
    }
    Ok(())
}
