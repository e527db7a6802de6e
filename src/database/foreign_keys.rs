//! Foreign keys in schema changes: what a definition may refer to, what a table that is referred to may become, and
//! whether the rows that there are have their referenced rows.
//!
//! Invariant: after every schema change each foreign key can be resolved ([`SchemaLinks`](crate::storage::foreign_keys)), and
//! holds for all rows. The caller holds the lock of schema changes, and gives the tables that there are: of the schema in force,
//! or as a session's transaction has them.

use std::collections::HashSet;
use std::sync::Arc;

use super::catalog_rows;
use crate::error::{Error, Result};
use crate::range::Range;
use crate::storage::definition::{ForeignKey, TableDefinition};
use crate::storage::foreign_keys::{Link, TableView, parent_of};
use crate::storage::schema::SchemaChange;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::table_change::Changed;
use crate::transaction::Tx;
use crate::types::ValueRef;

/// The foreign keys of other tables that refer to a table, each with its table.
fn referring<'t>(
    tables: &'t [TableView],
    table: &TableCore,
) -> impl Iterator<Item = (&'t TableView, &'t ForeignKey)> {
    let (id, name) = (table.id(), table.definition().name().to_string());
    let others = tables.iter().filter(move |other| other.core.id() != id);
    let keys = others.flat_map(|other| other.definition().foreign_keys().iter().map(move |key| (other, key)));
    keys.filter(move |(_, key)| key.table() == name)
}

/// Refuses to take a table away, or its rows, that others refer to; but for these, which go with it.
///
/// # Errors
/// [`Error::TableReferenced`].
pub(crate) fn check_unreferenced(
    tables: &[TableView],
    table: &TableCore,
    with: &[Arc<TableCore>],
) -> Result<()> {
    let stays = |other: &TableView| !with.iter().any(|gone| gone.id() == other.core.id());
    match referring(tables, table).find(|(other, _)| stays(other)) {
        Some((other, key)) => Err(referenced(table, other, key)),
        None => Ok(()),
    }
}

fn referenced(table: &TableCore, by: &TableView, key: &ForeignKey) -> Error {
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
pub(crate) fn check_definition(tables: &[TableView], definition: &TableDefinition) -> Result<()> {
    definition.foreign_keys().iter().try_for_each(|key| {
        if key.table() == definition.name() {
            return Link::of(key, definition, definition).map(drop);
        }
        Link::of(key, definition, parent_of(tables, definition, key)?.definition()).map(drop)
    })
}

/// The consequences of a table's change for the tables that refer to it.
pub(crate) struct Followers {
    /// The tables whose definitions name something that was renamed, with the definitions that follow.
    pub(crate) renamed: Vec<(Arc<TableCore>, TableDefinition)>,
    /// The foreign keys of other tables, by name, whose referenced values may be others now.
    unproven: Vec<(String, ForeignKey)>,
}

impl Followers {
    /// # Errors
    /// [`Error::TableReferenced`]: a foreign key does not allow the change; its own foreign keys cannot be resolved.
    pub(crate) fn of(tables: &[TableView], table: &TableCore, changed: &Changed) -> Result<Followers> {
        check_definition(tables, &changed.definition)?;
        let mut followers = Followers { renamed: Vec::new(), unproven: Vec::new() };
        for (child, key) in referring(tables, table) {
            let mut following = key.clone();
            changed.follow(&mut following);
            let link = Link::of(&following, child.definition(), &changed.definition)
                .map_err(|_| referenced(table, child, key))?;
            if !link.referenced.iter().all(|&column| changed.keeps_values(column)) {
                followers.unproven.push((child.definition().name().to_string(), following.clone()));
            }
            if following != *key {
                followers.rename(child, key, following);
            }
        }
        Ok(followers)
    }

    fn rename(&mut self, child: &TableView, key: &ForeignKey, following: ForeignKey) {
        let known = self.renamed.iter().position(|(table, _)| table.id() == child.core.id());
        let at = known.unwrap_or_else(|| {
            self.renamed.push((child.core.clone(), child.definition().clone()));
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
        self.check(tx, &TableView::all(store.user_tables()), &TableView::as_it_is(new.clone()))
    }

    /// Returns true if rows of other tables may refer to values that are gone.
    pub(crate) fn leave_unproven(&self) -> bool {
        !self.unproven.is_empty()
    }

    /// Checks what the change of values has left unproven. `tables` has those that refer; `new`: the table as it is now.
    ///
    /// # Errors
    /// Same errors as [`write`](Self::write).
    pub(crate) fn check(&self, tx: &Tx<'_, '_>, tables: &[TableView], new: &TableView) -> Result<()> {
        for (child, key) in &self.unproven {
            let Some(child) = tables.iter().find(|table| table.definition().name() == child) else {
                continue;
            };
            let link = Link::of(key, child.definition(), new.definition())?;
            check_rows(tx, &link.between(child.core.clone(), new.core.clone()))?;
        }
        Ok(())
    }
}

/// Checks the rows of a table by foreign keys of it: `wanted` of them. `table` has the rows, and is what the foreign keys
/// that refer to the table itself refer to; `tables` has the others.
///
/// # Errors
/// Same errors as [`Followers::write`].
pub(crate) fn check_own(
    tables: &[TableView],
    tx: &Tx<'_, '_>,
    table: &TableView,
    wanted: impl Fn(&ForeignKey) -> bool,
) -> Result<()> {
    let definition = table.definition();
    for key in definition.foreign_keys().iter().filter(|key| wanted(key)) {
        let is_own = key.table() == definition.name();
        let parent = if is_own { table } else { parent_of(tables, definition, key)? };
        let link = Link::of(key, definition, parent.definition())?;
        check_rows(tx, &link.between(table.core.clone(), parent.core.clone()))?;
    }
    Ok(())
}

fn check_rows(tx: &Tx<'_, '_>, link: &Link) -> Result<()> {
    // Without an index of the referenced values they are collected first.
    let known = if link.parent_index.is_none() { Some(referenced_values(tx, link)?) } else { None };
    for row in tx.scan(&Table::new(link.child.clone()), Range::all())? {
        let values = row?.to_values();
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        if let Some(known) = &known
            && let Some(key) = link.encoded(&link.columns, &values)?
            && known.contains(&key)
        {
            continue;
        }
        tx.check_row_refers(link, &link.child.encode_key_of_row(&values)?, &values)?;
    }
    Ok(())
}

fn referenced_values(tx: &Tx<'_, '_>, link: &Link) -> Result<HashSet<Box<[u8]>>> {
    let mut known = HashSet::new();
    for row in tx.scan(&Table::new(link.parent.clone()), Range::all())? {
        let values = row?.to_values();
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        known.extend(link.encoded(&link.referenced, &values)?);
    }
    Ok(known)
}

#[cfg(test)]
mod canary;
