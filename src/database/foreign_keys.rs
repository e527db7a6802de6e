//! Foreign keys in schema changes: what a definition may refer to, what a table that is referred to may become, and
//! whether the rows that there are have their referenced rows.
//!
//! Invariant: after every schema change each foreign key can be resolved ([`SchemaLinks`](crate::storage::foreign_keys)), and
//! holds for all rows. The caller holds the lock of schema changes.

use std::sync::Arc;

use super::catalog_rows;
use crate::error::{Error, Result};
use crate::range::Range;
use crate::storage::definition::{ForeignKey, TableDefinition};
use crate::storage::foreign_keys::{Link, unknown_parent};
use crate::storage::schema::SchemaChange;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::table_change::Changed;
use crate::transaction::Tx;
use crate::types::ValueRef;

/// The foreign keys of other tables that refer to a table, each with its table.
fn referring(store: &Store, table: &TableCore) -> Vec<(Arc<TableCore>, ForeignKey)> {
    let others = store.user_tables().into_iter().filter(|other| other.id() != table.id());
    let all = others.flat_map(|other| {
        let keys = other.definition().foreign_keys().to_vec();
        keys.into_iter().map(move |key| (other.clone(), key))
    });
    all.filter(|(_, key)| key.table() == table.definition().name()).collect()
}

/// Refuses to take a table away, or its rows, that others refer to; but for these, which go with it.
///
/// # Errors
/// [`Error::TableReferenced`].
pub(super) fn check_unreferenced(store: &Store, table: &TableCore, with: &[Arc<TableCore>]) -> Result<()> {
    let stays = |other: &TableCore| !with.iter().any(|gone| gone.id() == other.id());
    match referring(store, table).into_iter().find(|(other, _)| stays(other)) {
        Some((other, key)) => Err(referenced(table, &other, &key)),
        None => Ok(()),
    }
}

fn referenced(table: &TableCore, by: &TableCore, key: &ForeignKey) -> Error {
    Error::TableReferenced {
        table: table.definition().name().to_string(),
        constraint: key.name().to_string(),
        referring: by.definition().name().to_string(),
    }
}

/// Refuses a definition whose foreign keys refer to nothing, or to what can be in several rows.
///
/// # Errors
/// [`Error::InvalidDefinition`], [`Error::UnknownColumn`].
pub(super) fn check_definition(store: &Store, definition: &TableDefinition) -> Result<()> {
    definition.foreign_keys().iter().try_for_each(|key| {
        if key.table() == definition.name() {
            return Link::of(key, definition, definition).map(drop);
        }
        let parent = store.table_by_name(key.table()).map_err(|_| unknown_parent(definition, key))?;
        Link::of(key, definition, parent.definition()).map(drop)
    })
}

/// What a change of a table means for the tables that refer to it.
pub(super) struct Followers {
    /// Those whose definitions name what has another name now, with the definitions that follow.
    renamed: Vec<(Arc<TableCore>, TableDefinition)>,
    /// The foreign keys of other tables whose referenced values may be others now.
    unproven: Vec<(Arc<TableCore>, ForeignKey)>,
}

impl Followers {
    /// # Errors
    /// [`Error::TableReferenced`]: a foreign key does not allow the change; its own foreign keys cannot be resolved.
    pub(super) fn of(store: &Store, table: &TableCore, changed: &Changed) -> Result<Followers> {
        check_definition(store, &changed.definition)?;
        let mut followers = Followers { renamed: Vec::new(), unproven: Vec::new() };
        for (child, key) in referring(store, table) {
            let mut following = key.clone();
            changed.follow(&mut following);
            let link = Link::of(&following, child.definition(), &changed.definition)
                .map_err(|_| referenced(table, &child, &key))?;
            if !link.referenced.iter().all(|&column| changed.keeps_values(column)) {
                followers.unproven.push((child.clone(), following.clone()));
            }
            if following != key {
                followers.rename(&child, &key, following);
            }
        }
        Ok(followers)
    }

    fn rename(&mut self, child: &Arc<TableCore>, key: &ForeignKey, following: ForeignKey) {
        let known = self.renamed.iter().position(|(table, _)| table.id() == child.id());
        let at = known.unwrap_or_else(|| {
            self.renamed.push((child.clone(), child.definition().clone()));
            self.renamed.len() - 1
        });
        let keys = &mut self.renamed[at].1.foreign_keys;
        if let Some(own) = keys.iter_mut().find(|own| own.name() == key.name()) {
            *own = following;
        }
    }

    /// Gives the tables that refer their new definitions, and checks what the change of values has left unproven. `new`: the
    /// table as it will be.
    ///
    /// # Errors
    /// [`Error::NoReferencedRow`]; what the transaction's accesses fail with.
    pub(super) fn write(&self, store: &Store, tx: &Tx<'_, '_>, new: &Arc<TableCore>) -> Result<()> {
        for (child, definition) in &self.renamed {
            catalog_rows::rewrite(store, tx, child, definition)?;
            // Only names change, so there is no index to build.
            let (renamed, _) = child.redefined(definition.clone());
            let new = Arc::new(renamed);
            tx.change_schema(SchemaChange::Replace { old: child.clone(), new, build: None });
        }
        for (child, key) in &self.unproven {
            let link = Link::of(key, child.definition(), new.definition())?;
            check_rows(tx, child, &link.between(child.clone(), new.clone()))?;
        }
        Ok(())
    }
}

/// Checks the rows of a table by foreign keys of it: `wanted` of them. `table` has the rows, and is what the foreign keys
/// that refer to the table itself refer to.
///
/// # Errors
/// As [`Followers::write`].
pub(super) fn check_own(
    store: &Store,
    tx: &Tx<'_, '_>,
    table: &Arc<TableCore>,
    definition: &TableDefinition,
    wanted: impl Fn(&ForeignKey) -> bool,
) -> Result<()> {
    for key in definition.foreign_keys().iter().filter(|key| wanted(key)) {
        let (parent, link) = if key.table() == definition.name() {
            (table.clone(), Link::of(key, definition, definition)?)
        } else {
            let parent = store.table_by_name(key.table())?;
            let link = Link::of(key, definition, parent.definition())?;
            (parent, link)
        };
        check_rows(tx, table, &link.between(table.clone(), parent))?;
    }
    Ok(())
}

fn check_rows(tx: &Tx<'_, '_>, table: &Arc<TableCore>, link: &Link) -> Result<()> {
    for row in tx.scan(&Table::new(table.clone()), Range::all())? {
        let values = row?.to_values();
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        tx.check_row_refers(link, &table.encode_key_of_row(&values)?, &values)?;
    }
    Ok(())
}

#[cfg(test)]
mod canary;
