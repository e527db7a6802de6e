//! The catalog: the database's tables, sequences and feeds, kept in twelve ordinary tables.
//!
//! `heddle_table`, `heddle_column`, `heddle_index`, `heddle_check`, `heddle_foreign_key`, `heddle_identity`, `heddle_evaluator`, `heddle_added_column` and `heddle_routing` are written by the transaction that creates a
//! table, logged and recovered like any other rows; so are `heddle_successor`, by the transaction that puts one table in another's
//! place, `heddle_sequence`, which `crate::sequence` reads and writes, and `heddle_feed`, which is `crate::feed`'s.
//! Only their own definitions are fixed, here.

mod definition_rows;
mod own_tables;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::storage::index::Lookup;
use crate::storage::table::{TableCore, TableId};
use crate::storage::word::{ABSENT, Stamp};
use crate::types::key::decode_component;
use crate::types::{DataType, Value};

pub(crate) use definition_rows::{read_definition, rows};
pub(crate) use own_tables::definitions;

/// The table of tables.
pub(crate) const TABLES: TableId = 1;
/// The table of columns.
pub(crate) const COLUMNS: TableId = 2;
/// The table of secondary indexes.
pub(crate) const INDEXES: TableId = 3;
/// The table of the columns by which tables are routed, where that is not their key's first.
pub(crate) const ROUTING: TableId = 4;
/// The table of sequences.
pub(crate) const SEQUENCES: TableId = 5;
/// The table of checks.
pub(crate) const CHECKS: TableId = 6;
/// The table of foreign keys, with a row for each of their columns.
pub(crate) const FOREIGN_KEYS: TableId = 7;
/// The table of named change feeds.
pub(crate) const FEEDS: TableId = 8;
/// The table of the tables that have replaced others.
pub(crate) const SUCCESSORS: TableId = 9;
/// The table of identity columns.
pub(crate) const IDENTITIES: TableId = 10;
/// The table of tables that need an evaluator.
pub(crate) const EVALUATORS: TableId = 11;
/// The table of columns that were added to records which stay as they are. It is behind the table of columns, so that a copy
/// of the catalog that is made table by table has its rows about all columns that it has.
pub(crate) const ADDED_COLUMNS: TableId = 12;
/// The first number that a user's table can have.
pub(crate) const FIRST_USER_TABLE: TableId = 16;
/// The prefix of the names of the engine's own tables.
pub(crate) const RESERVED_PREFIX: &str = "heddle_";

/// The name of a dropped table in the table of tables: no table can be called so. Its rows stay, because recovery may have
/// to replay changes of the table that were made before it was dropped.
pub(crate) const DROPPED: &str = "";

/// Returns true if the table of this number was dropped.
///
/// # Errors
/// The catalog has no such table.
pub(crate) fn is_dropped(id: TableId, tables: &TableCore, guard: &Guard) -> Result<bool> {
    let row = read_rows(tables, id, guard)?.pop();
    let name = row.and_then(|row| row.into_iter().nth(1)).map(text);
    let detail = || format!("table {id}: no row in heddle_table");
    name.map(|name| name == DROPPED).ok_or_else(|| Error::Malformed { what: "catalog", detail: detail() })
}

/// The tables that were replaced: each one's number, its successor's, and the epoch of the change.
pub(crate) fn successors(table: &TableCore, guard: &Guard) -> Vec<(TableId, TableId, u64)> {
    let mut successors = Vec::new();
    let mut row = vec![0; table.layout().words()];
    table.for_each_record(guard, |record| {
        let word = record.read(table.layout(), &mut row);
        let id = |column| table.layout().int(&row, column).and_then(|id| TableId::try_from(id).ok());
        if word & ABSENT == 0
            && let (Some(old), Some(new)) = (id(0), id(1))
        {
            successors.push((old, new, Stamp::of(word).epoch()));
        }
    });
    successors
}

/// The numbers of all tables whose rows in the catalog were written before this epoch.
pub(crate) fn tables_made_before(epoch: u64, tables: &TableCore, guard: &Guard) -> Vec<TableId> {
    let mut ids = Vec::new();
    let mut row = vec![0; tables.layout().words()];
    tables.for_each_record(guard, |record| {
        let word = record.read(tables.layout(), &mut row);
        if word & ABSENT == 0 && Stamp::of(word).epoch() < epoch {
            ids.extend(tables.layout().int(&row, 0).map(|id| id as TableId));
        }
    });
    ids
}

/// The number of the table that the row of this key in the table of tables is about.
///
/// # Errors
/// No row has such a key.
pub(crate) fn id_of_key(mut key: &[u8]) -> Result<TableId> {
    match decode_component(&mut key, &DataType::Int64, false)? {
        Value::Int(id) if key.is_empty() => TableId::try_from(id).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::Malformed { what: "catalog", detail: "the key of no table".into() })
}

/// Returns true if the rows of a catalog table say how a table is defined. Those of sequences and feeds are data.
pub(crate) fn is_of_definitions(id: TableId) -> bool {
    id < FIRST_USER_TABLE && ![SEQUENCES, FEEDS].contains(&id)
}

/// The number of the table that a row of this key is about, in a catalog table of definitions.
///
/// # Errors
/// No row has such a key.
pub(crate) fn table_of_key(mut key: &[u8]) -> Result<TableId> {
    match decode_component(&mut key, &DataType::Int64, false)? {
        Value::Int(id) => TableId::try_from(id).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::Malformed { what: "catalog", detail: "the key of no table".into() })
}

/// The rows of a catalog table that are about the table `id`, in key order.
fn read_rows(table: &TableCore, id: TableId, guard: &Guard) -> Result<Vec<Vec<Value>>> {
    let prefix = table.encode_key(&[i64::from(id).into()], false)?;
    let mut rows = Vec::new();
    let mut read = |record: crate::storage::record::Record<'_>| {
        let mut words = vec![0; table.layout().words()];
        if record.read(table.layout(), &mut words) & ABSENT == 0 {
            // SAFETY: the caller is pinned, so the row's blocks are alive.
            rows.push(unsafe { table.layout().values(&words) });
        }
    };
    if table.definition().key().len() == 1 {
        if let Lookup::Found(record) = table.find(0, &prefix, guard) {
            read(record);
        }
    } else {
        table.for_each_record(guard, |record| {
            if record.key().starts_with(&prefix) {
                read(record);
            }
        });
    }
    Ok(rows)
}

fn text(value: Value) -> String {
    if let Value::Text(text) = value { text } else { String::new() }
}

#[cfg(test)]
mod tests;
