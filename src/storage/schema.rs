//! Schema changes as commits apply them: behind the closed gate, together with the transaction's rows in the catalog.
//!
//! # Invariants
//! All changes of one transaction are visible at one moment: no commit section is open then, and a transaction that began
//! before fails its commit and is retried against the new schema. New indexes are filled before the stamp, so a row that
//! violates one fails the schema change, and no other transaction. They contain what the transaction itself writes, too.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::storage::record::Record;
use crate::storage::restore::{Written, fill_indexes};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::TableCore;

/// One change of the schema.
pub(crate) enum SchemaChange {
    /// A table that did not exist.
    Add(Arc<TableCore>),
    /// A table in another one's place: another definition of the same records, whose indexes at these positions are
    /// still empty, or a table with records of its own.
    Replace { old: Arc<TableCore>, new: Arc<TableCore>, empty: Vec<usize> },
    /// A table that does not exist any more.
    Drop(Arc<TableCore>),
}

/// Prepares what a transaction changes of the schema: fills new indexes from the rows. The caller has closed the gate and
/// has not stamped yet. `written`: what the transaction makes of the records that it writes.
///
/// # Errors
/// A table has changed since the transaction began ([`Error::Conflict`]); two rows share a value of a unique index.
pub(crate) fn prepare(
    changes: &[SchemaChange],
    written: &dyn Fn(Record<'_>) -> Option<Written>,
    cutter: &mut Cutter,
    guard: &Guard,
) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::Add(_) => {}
            SchemaChange::Replace { old, .. } | SchemaChange::Drop(old) if !old.is_current() => {
                return Err(Error::Conflict);
            }
            SchemaChange::Drop(_) => {}
            SchemaChange::Replace { new, empty, .. } => fill(new, empty, written, cutter, guard)?,
        }
    }
    Ok(())
}

/// Fills new indexes, one after another, so that the error names the index.
fn fill(
    table: &TableCore,
    empty: &[usize],
    written: &dyn Fn(Record<'_>) -> Option<Written>,
    cutter: &mut Cutter,
    guard: &Guard,
) -> Result<()> {
    empty.iter().try_for_each(|&position| {
        fill_indexes(table, &[position], written, cutter, guard).map_err(|error| match error {
            Error::Inconsistent { .. } => Error::NotUnique {
                table: table.definition().name().to_string(),
                index: table.secondary()[position].definition.name.clone(),
            },
            other => other,
        })
    })
}

impl Store {
    /// Makes the schema changes of a transaction of this epoch visible. The caller has closed the gate, and has installed the
    /// rows.
    pub(crate) fn change_schema(
        &self,
        changes: impl Iterator<Item = SchemaChange>,
        epoch: u64,
        guard: &Guard,
    ) {
        let mut only_adds = true;
        for change in changes {
            // A table that comes concerns no transaction that is under way, unless it refers to others.
            only_adds &=
                matches!(&change, SchemaChange::Add(table) if table.definition().foreign_keys.is_empty());
            match change {
                SchemaChange::Add(table) => {
                    table.begin(epoch);
                    self.put_table(table);
                }
                SchemaChange::Replace { old, new, .. } => {
                    new.begin(epoch);
                    old.supersede(new.clone());
                    self.take_table(&old);
                    self.put_table(new);
                }
                SchemaChange::Drop(old) => {
                    old.drop_table(epoch);
                    self.take_table(&old);
                }
            }
        }
        if let Err(error) = self.resolve_foreign_keys(guard) {
            debug_assert!(false, "a schema change has left a foreign key that cannot be resolved: {error}");
        }
        if !only_adds {
            self.epochs().next_generation();
        }
    }
}
