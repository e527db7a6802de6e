//! Inserts into tables with an identity column.
//!
//! Invariant: a body that is retried draws again, so that values are skipped, and none is used twice.

use smallvec::SmallVec;

use super::insert_as_given;
use crate::error::{Error, Result};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Reference;
use crate::sequence::no_identity;
use crate::storage::definition::{Identity, IdentityColumn};
use crate::storage::table::TableCore;
use crate::types::ValueRef;

/// A row, with its value in the identity column drawn.
type Row<'v> = SmallVec<[ValueRef<'v>; 16]>;

/// Inserts a row, and draws the value that it does not give.
#[inline(never)]
pub(super) fn insert(
    attempt: &Attempt<'_>,
    table: &TableCore,
    identity: &IdentityColumn,
    row: &[ValueRef<'_>],
    declared: Option<&Reference>,
) -> Result<()> {
    match row.get(identity.position) {
        Some(ValueRef::Null) => {
            let (row, _) = draw(attempt, table, identity, row)?;
            insert_as_given(attempt, table, &row, declared)
        }
        Some(_) if identity.kind == Identity::Always => Err(generated(table, identity)),
        _ => insert_as_given(attempt, table, row, declared),
    }
}

/// Inserts a row with a new value.
pub(super) fn insert_new(attempt: &Attempt<'_>, table: &TableCore, row: &[ValueRef<'_>]) -> Result<i64> {
    let Some(identity) = table.identity_column() else { return Err(no_identity(table.definition())) };
    let (row, value) = draw(attempt, table, identity, row)?;
    insert_as_given(attempt, table, &row, None).map(|()| value)
}

fn draw<'v>(
    attempt: &Attempt<'_>,
    table: &TableCore,
    identity: &IdentityColumn,
    row: &[ValueRef<'v>],
) -> Result<(Row<'v>, i64)> {
    // A handle follows to the table in force, or says that it is gone, before a value is drawn.
    attempt.hold(table)?;
    let value = attempt.store().next_identity(&identity.sequence)?;
    let mut row = Row::from_slice(row);
    // A row that is too short is refused by the insert.
    if let Some(place) = row.get_mut(identity.position) {
        *place = ValueRef::Int(value);
    }
    Ok((row, value))
}

/// Returns true if the sequence gives the value of this row.
pub(super) fn is_drawn(table: &TableCore, row: &[ValueRef<'_>]) -> bool {
    let position = table.identity_column().map(|identity| identity.position);
    position.and_then(|position| row.get(position)).is_some_and(|value| value.is_null())
}

#[cold]
fn generated(table: &TableCore, identity: &IdentityColumn) -> Error {
    let definition = table.definition();
    let column = definition.columns[identity.position].name.clone();
    Error::GeneratedAlways { table: definition.name().to_string(), column }
}
