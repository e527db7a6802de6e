//! The memory of relations: `pg_relation_size` and its kin.
//!
//! # Invariants
//! - The size of a table and the sizes of its indexes, by their names, add up to `pg_total_relation_size`.
//! - Every question walks over the table, beside transactions: sizes are exact, and not for planners.

use super::SystemCatalog;
use crate::catalog::{Relation, Table};
use crate::error::Result;
use crate::types::numeric::Numeric;

/// The size of one sequence on PostgreSQL's disk: a page. Tools show it; here a sequence is a row of the catalog.
const SEQUENCE_BYTES: i64 = 8192;

/// A relation's own bytes, without those of its indexes; of an index: the index's.
pub(super) fn relation(system: &SystemCatalog<'_>, oid: u32) -> Option<i64> {
    match system.objects().relation_by_oid(oid)? {
        Relation::Table(table) => Some(row_bytes(table)),
        Relation::View(_) => Some(0),
        Relation::Sequence(_) => Some(SEQUENCE_BYTES),
        Relation::Index { table, oid } => {
            let table = system.objects().table_by_oid(*table)?;
            Some(index_bytes(table, *oid))
        }
    }
}

/// The size of a table, that of its [`relation`]: there is nothing beside its rows.
pub(super) fn table(system: &SystemCatalog<'_>, oid: u32) -> Option<i64> {
    relation(system, oid)
}

/// The bytes of all indexes of a table.
pub(super) fn indexes(system: &SystemCatalog<'_>, oid: u32) -> Option<i64> {
    match system.objects().relation_by_oid(oid)? {
        Relation::Table(table) => {
            let oids = table.key_oid.into_iter().chain(table.indexes.iter().map(|index| index.oid));
            Some(oids.map(|oid| index_bytes(table, oid)).sum())
        }
        _ => Some(0),
    }
}

/// The bytes of a relation and its indexes.
pub(super) fn total(system: &SystemCatalog<'_>, oid: u32) -> Option<i64> {
    Some(relation(system, oid)? + indexes(system, oid)?)
}

/// The bytes of all tables.
pub(super) fn database(system: &SystemCatalog<'_>) -> i64 {
    let tables = system.session.shared().database.tables();
    let bytes = tables.iter().map(|table| {
        let memory = table.memory();
        memory.all_row_bytes() + memory.index_bytes()
    });
    bytes.sum::<u64>() as i64
}

/// Rows, and the index of a hidden key, which is no index that has a name.
fn row_bytes(table: &Table) -> i64 {
    let memory = table.engine.memory();
    let of_hidden_key = match table.key_oid {
        Some(_) => 0,
        None => memory.hash_index_bytes + memory.ordered_index_bytes,
    };
    (memory.all_row_bytes() + of_hidden_key) as i64
}

/// The bytes of an index by its oid. An index that the open transaction has added has none yet.
fn index_bytes(table: &Table, oid: u32) -> i64 {
    if table.key_oid == Some(oid) {
        let memory = table.engine.memory();
        return (memory.hash_index_bytes + memory.ordered_index_bytes) as i64;
    }
    let index = table.indexes.iter().find(|index| index.oid == oid);
    index.and_then(|index| table.engine.index_memory(&index.name)).unwrap_or(0) as i64
}

/// The units of sizes.
const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

/// Formats any number as [`pretty`] does: bytes with their decimals, larger units rounded from halves of one.
///
/// Source: PostgreSQL 15, `pg_size_pretty_numeric` in `dbsize.c`.
pub(super) fn pretty_number(bytes: &Numeric) -> Result<String> {
    let (mut size, mut unit) = (bytes.clone(), 0);
    loop {
        let limit = if unit == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if unit + 1 == UNITS.len() || size.abs() < Numeric::from(limit) {
            break;
        }
        // A size that is not printed in bytes keeps one binary place to round by.
        let divisor = if unit == 0 { 512 } else { 1024 };
        (size, unit) = (size.divide_whole(&Numeric::from(divisor))?, unit + 1);
    }
    if unit > 0 {
        let one = Numeric::from(if size.is_negative() { -1 } else { 1 });
        size = size.add(&one)?.divide_whole(&Numeric::from(2))?;
    }
    Ok(format!("{size} {}", UNITS[unit]))
}

/// A number of bytes in the largest unit of which there are at least ten, rounded.
pub(super) fn pretty(bytes: i64) -> String {
    let (mut size, mut unit) = (i128::from(bytes), 0);
    while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        // Rounded once, half away from zero, at the unit that is printed.
        unit += 1;
        let divisor = 1_i128 << (10 * unit);
        size = (i128::from(bytes) + i128::from(bytes.signum()) * divisor / 2) / divisor;
    }
    format!("{size} {}", UNITS[unit])
}
