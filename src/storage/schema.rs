//! Schema changes as commits apply them: behind the closed gate, together with the transaction's rows in the catalog.
//!
//! # Invariants
//! All changes of one transaction are visible at one moment: no commit section is open then, and a transaction that began
//! before fails its commit and is retried against the new schema. New indexes, which were built beside the commits of before
//! ([`crate::storage::index_build`]), are made whole before the stamp, so a row that
//! violates one fails the schema change, and no other transaction. They contain what the transaction itself writes, too.
//!
//! A change of tables that have rows has the highest stamp of its epoch, whose commits it ends: rows that were written by the
//! definition before have lower stamps, and those by the next one are of a later epoch, although commits that do not meet
//! make their stamps apart from each other. So a change feed, which reads commits in the order of their stamps, is a history
//! that a copy can follow.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::storage::dependency::DefinitionChange;
use crate::storage::index_build::{IndexBuild, OwnWrite};
use crate::storage::split_columns::SplitSet;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;

/// One change of the schema.
pub(crate) enum SchemaChange {
    /// A table that did not exist.
    Add(Arc<TableCore>),
    /// The replacement of a table: another definition of the same records, of which indexes may be being built, or a
    /// table with new records.
    Replace { old: Arc<TableCore>, new: Arc<TableCore>, build: Option<Arc<IndexBuild>> },
    /// A table that does not exist any more.
    Drop(Arc<TableCore>),
    /// Definitions that a crate above keeps; and the tables that they name which only the transaction has, each with what
    /// comes of it.
    Definitions(Arc<dyn DefinitionChange>, Vec<(Arc<TableCore>, Arc<TableCore>)>),
}

impl SchemaChange {
    /// Returns true if rows were written by a definition that it ends.
    pub(crate) fn replaces_table(&self) -> bool {
        matches!(self, SchemaChange::Replace { .. } | SchemaChange::Drop(_))
    }

    /// Returns true if one of these columns is split, which no index may contain: their values are whole when the phase
    /// has ended.
    pub(crate) fn meets_split(&self, set: &SplitSet) -> bool {
        let SchemaChange::Replace { new, build: Some(_), .. } = self else { return false };
        set.columns().iter().any(|split| split.table.id() == new.id() && !new.is_plain(split.column))
    }
}

/// Prepares what a transaction changes of the schema: makes new indexes whole. The caller has closed the gate and
/// has not stamped yet. `own`: what the transaction makes of the rows of a table; `stamp`: that of index records for them.
///
/// # Errors
/// A table has changed since the transaction began ([`Error::Conflict`]); those of [`IndexBuild::finish`].
pub(crate) fn prepare(
    changes: &[SchemaChange],
    own: &dyn Fn(&TableCore) -> Vec<OwnWrite>,
    stamp: Stamp,
    guard: &Guard,
) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::Add(_) | SchemaChange::Definitions(..) => {}
            SchemaChange::Replace { old, .. } | SchemaChange::Drop(old) if !old.is_current() => {
                return Err(Error::Conflict);
            }
            SchemaChange::Replace { new, build: Some(build), .. } => {
                build.finish(&own(new), stamp, guard)?;
            }
            SchemaChange::Replace { .. } | SchemaChange::Drop(_) => {}
        }
    }
    Ok(())
}

impl Store {
    /// Makes the schema changes of a transaction with this stamp visible. The caller has closed the gate, and has installed the
    /// rows.
    pub(crate) fn change_schema(
        &self,
        changes: impl Iterator<Item = SchemaChange>,
        stamp: Stamp,
        guard: &Guard,
    ) {
        let epoch = stamp.epoch();
        self.epochs().note_schema_change(stamp);
        let (mut only_adds, mut replaces) = (true, false);
        let (mut definitions, mut has_tables) = (None, false);
        for change in changes {
            // A new table concerns no transaction that is under way, unless it refers to others.
            only_adds &= match &change {
                SchemaChange::Add(table) => table.definition().foreign_keys.is_empty(),
                SchemaChange::Definitions(..) => true,
                SchemaChange::Replace { .. } | SchemaChange::Drop(_) => false,
            };
            replaces |= change.replaces_table();
            has_tables |= !matches!(change, SchemaChange::Definitions(..));
            match change {
                SchemaChange::Add(table) => {
                    table.begin(epoch);
                    self.put_table(table);
                }
                SchemaChange::Replace { old, new, .. } => {
                    new.begin(epoch);
                    old.supersede(new.clone());
                    self.retire_table(&old, Some(&new), epoch);
                    self.put_table(new);
                }
                SchemaChange::Drop(old) => {
                    old.drop_table(epoch);
                    self.retire_table(&old, None, epoch);
                }
                SchemaChange::Definitions(change, private) => definitions = Some((change, private)),
            }
        }
        if has_tables && let Err(error) = self.resolve_foreign_keys(guard) {
            debug_assert!(false, "a schema change has left a foreign key that cannot be resolved: {error}");
        }
        // After the tables, which they name.
        let concerns_others = definitions.is_some_and(|(change, private)| {
            private.iter().for_each(|(private, published)| private.end_private(published));
            change.publish(epoch)
        });
        if !only_adds || concerns_others {
            self.epochs().next_generation();
        }
        if replaces {
            // Its stamp is the last one of a commit in the epoch.
            self.epochs().end_commits_of(epoch);
        }
    }
}
