//! Schema changes: tables are dropped, emptied and changed while transactions run.
//!
//! # Invariants
//! A schema change is a transaction on the catalog, and takes effect at its commit, behind the closed gate.
//! Schema changes run one after another. Transactions that are in progress then are retried against the new
//! schema.
//!
//! # Concurrency
//! A change that keeps a table's columns and key (names, defaults, NOT NULL, indexes) keeps its records; new indexes are
//! built beside other transactions ([`crate::storage::index_build`]). Other changes copy all rows into a new table, in one transaction,
//! which has other threads' transactions wait before they begin ([`crate::pipeline::hold_off`]) if it conflicts with them again; see
//! `docs/decisions/2026-11-22-schema-changes.md`.

use std::sync::Arc;
use std::time::Duration;

use super::foreign_keys::{self, Followers};
use super::{Database, catalog_rows};
use crate::error::{Error, Result};
use crate::pipeline::hold_off::HoldOff;
use crate::pipeline::nesting;
use crate::range::Range;
use crate::storage::catalog::RESERVED_PREFIX;
use crate::storage::checks::Checks;
use crate::storage::definition::{ForeignKey, TableDefinition};
use crate::storage::foreign_keys::TableView;
use crate::storage::index_build::Builds;
use crate::storage::schema::SchemaChange;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::table_change::{Changed, TableChange};
use crate::transaction::Tx;
use crate::types::{Value, ValueRef};

/// After this many attempts to copy a table that conflicted with other threads' transactions, those are held off.
const REBUILDS_BESIDE_WRITERS: usize = 2;
/// Longest time for which the next attempt holds them off. Each further one does for twice as long, up to a limit.
const HOLD_OFF_TIME: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: usize = 10;

impl Database {
    /// Drops a table. Handles of it refuse every access from then on.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Error, Options, TableDefinition, key};
    /// # let db = Database::in_memory()?;
    /// let draft = db.create_table(TableDefinition::new("draft").column("id", DataType::Int64).primary_key(["id"]))?;
    /// db.drop_table("draft")?;
    /// assert!(matches!(db.run(|tx| tx.exists(&draft, key![1])), Err(Error::TableDropped { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::TableReferenced`]; inside a transaction [`Error::Nested`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        nesting::check("a schema change")?;
        let _one_at_a_time = self.shared.lock_schema()?;
        let table = self.own_table(name)?;
        let store = self.engine().store();
        foreign_keys::check_unreferenced(&TableView::all(store.user_tables()), &table, &[])?;
        self.run(|tx| {
            catalog_rows::mark_dropped(store, tx, table.id())?;
            tx.change_schema(SchemaChange::Drop(table.clone()));
            Ok(())
        })?;
        self.drop_unused_identities(table.definition().identity_sequence.0.clone());
        Ok(())
    }

    /// Removes all rows of these tables, at one moment. Its time does not depend on their number.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::TableReferenced`] by a table that is not one of these; inside a transaction
    /// [`Error::Nested`].
    pub fn truncate(&self, names: &[&str]) -> Result<()> {
        nesting::check("a schema change")?;
        let _one_at_a_time = self.shared.lock_schema()?;
        let tables = names.iter().map(|name| self.own_table(name)).collect::<Result<Vec<_>>>()?;
        let store = self.engine().store();
        let all = TableView::all(store.user_tables());
        tables.iter().try_for_each(|table| foreign_keys::check_unreferenced(&all, table, &tables))?;
        let emptied: Vec<_> = tables
            .iter()
            .map(|table| store.make_table(store.next_table_id(), table.definition().clone()))
            .collect();
        self.run(|tx| {
            tables.iter().zip(&emptied).try_for_each(|(old, new)| {
                catalog_rows::write(store, tx, new.id(), new.definition())?;
                catalog_rows::mark_replaced(store, tx, old.id(), new.id())?;
                tx.change_schema(replacement(old, new));
                Ok(())
            })
        })
    }

    /// Changes a table: all steps of the change take effect at one moment, or none.
    ///
    /// Handles of the table follow. Procedures that were registered before fail with [`Error::TableChanged`],
    /// and must be registered again.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableChange, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// let users = db.create_table(
    ///     TableDefinition::new("user").column("id", DataType::Int64).column("name", DataType::Text).primary_key(["id"]),
    /// )?;
    /// db.run(|tx| tx.insert(&users, row![1, "Ada"]))?;
    /// let change = TableChange::new()
    ///     .add_column("visits", DataType::Int64, 0).not_null("visits")
    ///     .add_index("user_by_name", ["name"]);
    /// db.change_table("user", change)?;
    /// let visits = db.run(|tx| tx.get(&users, key![1])?.map(|row| row.int("visits")).transpose())?;
    /// assert_eq!(visits, Some(0));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::UnknownColumn`], [`Error::UnknownIndex`]; what a definition can be refused for; rows that do not
    /// fit the new definition ([`Error::NullValue`], [`Error::NotUnique`], [`Error::DuplicateKey`],
    /// [`Error::NoReferencedRow`], …), which then stays as it was; [`Error::TableReferenced`]; inside a transaction [`Error::Nested`].
    pub fn change_table(&self, name: &str, change: TableChange) -> Result<Table> {
        nesting::check("a schema change")?;
        let _one_at_a_time = self.shared.lock_schema()?;
        let table = self.own_table(name)?;
        let mut changed = change.apply(table.definition())?;
        let new_name = changed.definition.name();
        if new_name != name {
            check_name(new_name)?;
            if self.engine().store().table_by_name(new_name).is_ok() {
                return Err(Error::TableExists { table: new_name.to_string() });
            }
        }
        let tables = TableView::all(self.engine().store().user_tables());
        let followers = Followers::of(&tables, &table, &changed)?;
        self.make_identity(table.id(), &mut changed.definition)?;
        let sequences = [table.definition(), &changed.definition].map(|of| of.identity_sequence.0.clone());
        let new = if changed.keeps_records(table.definition()) {
            self.redefine(&table, &changed, &followers)
        } else {
            self.rebuild(&table, &changed, &followers)
        };
        self.drop_unused_identities(sequences.into_iter().flatten());
        new.map(Table::new)
    }

    /// Gives a table's records another definition.
    fn redefine(
        &self,
        table: &Arc<TableCore>,
        changed: &Changed,
        followers: &Followers,
    ) -> Result<Arc<TableCore>> {
        let definition = &changed.definition;
        let past = changed.past_values();
        let refuses_null = newly_not_null(table.definition(), definition);
        let store = self.engine().store();
        let (new, empty) = table.redefined(definition.clone());
        let new = Arc::new(new);
        let mut builds = Builds::new(store);
        let build = builds.add(&new, empty, 0)?;
        let checks = Checks::of_new(definition, table.definition());
        let is_new = |key: &ForeignKey| is_unproven(table.definition(), definition, key);
        let tables = TableView::all(store.user_tables());
        let view = TableView::pending(table.clone(), definition.clone());
        loop {
            builds.catch_up()?;
            let changed = self.run(|tx| {
                if !refuses_null.is_empty() || checks.is_some() {
                    // The columns are read as a transaction reads them, so a split phase that hides them ends first.
                    check_rows(tx, (table, definition), past, &refuses_null, checks.as_ref())?;
                }
                foreign_keys::check_own(&tables, tx, &view, is_new)?;
                catalog_rows::rewrite(store, tx, table, definition)?;
                followers.write(store, tx, &new)?;
                let (old, new, build) = (table.clone(), new.clone(), build.clone());
                tx.change_schema(SchemaChange::Replace { old, new, build });
                Ok(())
            });
            if changed.is_ok() || !builds.take_behind() {
                return changed.map(|()| new);
            }
        }
    }

    /// Copies a table's rows into a new one with another definition.
    fn rebuild(
        &self,
        table: &Arc<TableCore>,
        changed: &Changed,
        followers: &Followers,
    ) -> Result<Arc<TableCore>> {
        let store = self.engine().store();
        let id = store.next_table_id();
        let old = Table::new(table.clone());
        // Of every attempt: what a failed one has inserted is collected from its table afterwards.
        let mut made = Vec::new();
        let tables = TableView::all(store.user_tables());
        let mut hold_off = None;
        self.run(|tx| {
            // An earlier one ends first: it would end this one.
            drop(hold_off.take());
            if made.len() >= REBUILDS_BESIDE_WRITERS {
                let doublings = (made.len() - REBUILDS_BESIDE_WRITERS).min(MAX_DOUBLINGS);
                let time = HOLD_OFF_TIME * (1 << doublings);
                hold_off = Some(HoldOff::begin(self.shared.shared_engine(), time));
            }
            let core = store.make_table(id, changed.definition.clone());
            made.push(core.clone());
            // Rows are copied: they were evaluated when they were written.
            tx.set_evaluated();
            let new = Table::new(core.clone());
            // First the catalog: replay makes the table from these rows before it meets the table's own.
            catalog_rows::write(store, tx, id, core.definition())?;
            catalog_rows::mark_replaced(store, tx, table.id(), id)?;
            for row in tx.scan(&old, Range::all())? {
                let values = changed.row(row?.to_values())?;
                tx.insert_overriding(&new, values.iter().map(ValueRef::from).collect::<Vec<_>>())?;
            }
            let copied = TableView::as_it_is(core.clone());
            foreign_keys::check_own(&tables, tx, &copied, |_| true)?;
            followers.write(store, tx, &core)?;
            tx.change_schema(replacement(table, &core));
            Ok(())
        })?;
        made.pop().ok_or(Error::Closed)
    }

    /// A table that users may change.
    fn own_table(&self, name: &str) -> Result<Arc<TableCore>> {
        check_name(name)?;
        self.engine().store().table_by_name(name)
    }
}

/// Returns true if a definition has a foreign key whose rows are checked already, under whatever names.
pub(crate) fn refers_alike(definition: &TableDefinition, key: &ForeignKey) -> bool {
    let is_alike = |own: &ForeignKey| {
        (&own.columns, &own.table, &own.referenced) == (&key.columns, &key.table, &key.referenced)
    };
    definition.foreign_keys.iter().any(is_alike)
}

/// Returns true if rows may violate a foreign key that a change adds: false if it is checked already, or if it has a
/// new column, which is NULL in all rows.
pub(crate) fn is_unproven(before: &TableDefinition, now: &TableDefinition, key: &ForeignKey) -> bool {
    let old = &now.columns[..before.columns.len().min(now.columns.len())];
    let is_old = |name: &String| old.iter().any(|column| column.name == *name);
    !refers_alike(before, key) && key.columns.iter().all(is_old)
}

fn replacement(old: &Arc<TableCore>, new: &Arc<TableCore>) -> SchemaChange {
    SchemaChange::Replace { old: old.clone(), new: new.clone(), build: None }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if !name.starts_with(RESERVED_PREFIX) {
        return Ok(());
    }
    let detail = format!("names that begin with {RESERVED_PREFIX:?} are the engine's own; choose another");
    Err(Error::InvalidDefinition { table: name.to_string(), detail })
}

/// The columns that refuse NULL now, and did not before; those that were not there before, too.
pub(crate) fn newly_not_null(before: &TableDefinition, now: &TableDefinition) -> Vec<usize> {
    let did = |at: usize| before.columns.get(at).is_some_and(|column| column.not_null);
    let refuses = |at: usize| now.columns[at].not_null && !did(at);
    (0..now.columns.len()).filter(|&at| refuses(at)).collect()
}

/// Refuses NULL in columns that are to be NOT NULL, and rows that do not pass the checks. The rows are those of `table`; under the
/// definition, they have these values of the past behind them.
pub(crate) fn check_rows(
    tx: &Tx<'_, '_>,
    (table, definition): (&Arc<TableCore>, &TableDefinition),
    past: &[Value],
    refuses_null: &[usize],
    checks: Option<&Checks>,
) -> Result<()> {
    let first = definition.columns.len() - past.len();
    // Values that all rows share are checked once, if there are rows; and the rows are not read if nothing else is to
    // be checked.
    let is_asked = |at: &usize| if *at < first { true } else { past[*at - first].is_null() };
    let refuses_null: Vec<usize> = refuses_null.iter().copied().filter(is_asked).collect();
    let is_decided = checks.is_none_or(|checks| checks.pass_alike(first, past));
    if refuses_null.is_empty() && is_decided {
        return Ok(());
    }
    for row in tx.scan(&Table::new(table.clone()), Range::all())? {
        let row = row?;
        // Only what is asked for: a column that is split would end the split phase.
        let value = |at: usize| match at.checked_sub(first) {
            Some(at) => ValueRef::from(&past[at]),
            None => row.value(at),
        };
        if let Some(&at) = refuses_null.iter().find(|&&at| value(at).is_null()) {
            let what = format!("{}.{}", definition.name(), definition.columns[at].name);
            return Err(Error::NullValue { what });
        }
        if let Some(checks) = checks {
            checks.check_row(&value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
