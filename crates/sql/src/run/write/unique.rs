//! The key of a row that a commuting update names by a unique index.

use heddledb::{Range, Value as Stored, ValueRef};

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::commute::UniqueKey;
use crate::run::Run;
use crate::run::operator::scan::stored_key;
use crate::run::write::rows::refs;

/// The result of a search by a unique index.
pub(super) enum Found {
    Row(Vec<Stored>),
    /// There is no such row.
    Nothing,
    /// Only the usual way compares with these values.
    Unknown,
}

/// Finds the key of the row that has these values. Of the row only its key is read.
pub(super) fn find<'e>(run: &mut Run<'e>, table: &Table, unique: &'e UniqueKey) -> Result<Found> {
    let mut wanted = Vec::with_capacity(unique.values.len());
    for (&column, value) in unique.columns.iter().zip(&unique.values) {
        let value = run.evaluate(value, &[])?;
        match stored_key(table, column, &value) {
            Some(value) => wanted.push(value),
            None => return Ok(Found::Unknown),
        }
    }
    let handles = table.key.iter().map(|&column| table.engine_column(column));
    let handles = handles.collect::<heddledb::Result<Vec<_>>>()?;
    let range = Range::prefix(refs(&wanted));
    let mut key: Option<Vec<Stored>> = None;
    let mut scan = run.rows.scan(&table.engine, Some(&unique.index), range, Some(&handles))?;
    scan.read(&mut |row| {
        let values = handles.iter().map(|handle| row.get(*handle).map(ValueRef::to_value));
        key = Some(values.collect::<heddledb::Result<Vec<Stored>>>()?);
        // There is no other one; the end is reached, so that the whole range counts as read.
        Ok(true)
    })?;
    Ok(key.map_or(Found::Nothing, Found::Row))
}
