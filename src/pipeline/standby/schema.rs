//! A transaction of the log that has changed the schema, on a standby.
//!
//! The log has the rows that the transaction has written to the catalog, and no list of changes. So they are written first, by a
//! transaction of their own; what they say is compared with the tables in force, and the difference is published by further
//! transactions, together with the rows of the tables:
//! 1. A table with added columns gets a definition that differs from the old one in these columns alone, so that its rows have a
//!    place for them.
//! 2. The rows are written. New tables come in with theirs; dropped and replaced ones go.
//! 3. A table that keeps its records gets its new definition, with new indexes, built of the rows that are there now.
//!
//! No snapshot is opened between these steps ([`super`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::rows::{RowChange, Rows};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::storage::catalog::{self, FIRST_USER_TABLE};
use crate::storage::definition::TableDefinition;
use crate::storage::index_build::Builds;
use crate::storage::redo::Reader;
use crate::storage::schema::SchemaChange;
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};

/// A transaction that changes the schema, as it is read.
pub(super) struct SchemaReplay<'e, 'p> {
    engine: &'e Engine,
    /// Changes of the catalog that are not written yet.
    catalog: Vec<RowChange<'p>>,
    /// Changes of other tables.
    rows: Vec<RowChange<'p>>,
    /// The tables that the catalog's rows are about.
    concerned: BTreeSet<TableId>,
    /// New tables, which no transaction can see yet.
    made: BTreeMap<TableId, Arc<TableCore>>,
    /// Tables in force with the columns that were added to them.
    extended: BTreeMap<TableId, Arc<TableCore>>,
}

impl<'e, 'p> SchemaReplay<'e, 'p> {
    pub(super) fn new(engine: &'e Engine) -> SchemaReplay<'e, 'p> {
        SchemaReplay {
            engine,
            catalog: Vec::new(),
            rows: Vec::new(),
            concerned: BTreeSet::new(),
            made: BTreeMap::new(),
            extended: BTreeMap::new(),
        }
    }

    /// Replays the changes of the transaction, and adds the tables that it has changed to those that were `met`.
    ///
    /// # Errors
    /// They are none of this database; memory is short; the database is being closed.
    pub(super) fn replay(mut self, changes: &'p [u8], met: &mut BTreeSet<TableId>) -> Result<()> {
        let mut reader = Reader::new(changes);
        loop {
            let bytes = &changes[changes.len() - reader.left()..];
            let Some(head) = reader.next_head()? else { break };
            let table = self.table_of(head.table, reader.version())?;
            reader.skip(head.change, &table)?;
            met.insert(head.table);
            let change = RowChange { table, bytes, is_merged: false };
            if catalog::is_of_definitions(head.table) {
                self.concerned.insert(catalog::table_of_key(head.key)?);
                self.catalog.push(change);
            } else {
                self.rows.push(change);
            }
        }
        self.write_catalog()?;
        self.extend_tables()?;
        self.write_rows()?;
        self.redefine_tables()
    }

    fn store(&self) -> &'e Store {
        self.engine.store()
    }

    /// The table of this number, under a definition that knows the columns of this version of its rows.
    fn table_of(&mut self, id: TableId, version: u64) -> Result<Arc<TableCore>> {
        let known = self.made.get(&id).or_else(|| self.extended.get(&id)).cloned();
        let known = known.or_else(|| self.store().table(id));
        if let Some(table) = known.filter(|table| table.row_version() >= version) {
            return Ok(table);
        }
        // Its rows in the catalog come before its own.
        self.write_catalog()?;
        let guard = pin();
        let Some(old) = self.store().table(id).filter(|_| id >= FIRST_USER_TABLE) else {
            let table = self.store().make_table_of_catalog(id, &guard)?;
            self.made.insert(id, table.clone());
            return Ok(table);
        };
        let definition = self.store().new_definition_in_catalog(&old, &guard)?;
        let Some(definition) = definition.filter(|definition| definition.row_version() >= version) else {
            let detail = format!("a row of schema version {version} of table {id}");
            return Err(Error::Malformed { what: "redo of this database", detail });
        };
        let extended = Arc::new(old.redefined(extension(old.definition(), &definition)).0);
        self.extended.insert(id, extended.clone());
        Ok(extended)
    }

    /// Writes the rows of the catalog that were read so far.
    fn write_catalog(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.catalog);
        Rows { changes: &changes, ..Rows::default() }.commit(self.engine)
    }

    /// Publishes the added columns of tables.
    fn extend_tables(&self) -> Result<()> {
        let store = self.store();
        let ids: Vec<_> = self.extended.keys().copied().collect();
        let schema = || {
            let replaced = |(id, new): (&TableId, &Arc<TableCore>)| {
                let old = store.table(*id)?;
                Some(SchemaChange::Replace { old, new: new.clone(), build: None })
            };
            self.extended.iter().filter_map(replaced).collect()
        };
        if ids.is_empty() {
            return Ok(());
        }
        Rows { rewritten: &ids, schema: Some(&schema), ..Rows::default() }.commit(self.engine)
    }

    /// Writes the rows, and publishes what comes and goes with them.
    fn write_rows(&mut self) -> Result<()> {
        let (store, guard) = (self.store(), pin());
        let mut gone = BTreeSet::new();
        let mut successors = BTreeMap::new();
        for &id in &self.concerned {
            if store.is_dropped_in_catalog(id, &guard)? {
                gone.insert(id);
                let successor = store.successor_in_catalog(id, &guard)?;
                successors.extend(successor.map(|successor| (id, successor)));
            } else if store.table(id).is_none() && !self.made.contains_key(&id) {
                self.made.insert(id, store.make_table_of_catalog(id, &guard)?);
            }
        }
        // What becomes of the rows of a table that is gone at the end no reader can see.
        self.rows.retain(|change| !gone.contains(&change.table.id()));
        for change in &mut self.rows {
            if let Some(extended) = self.extended.get(&change.table.id()) {
                change.table = extended.clone();
            }
        }
        let replacing: BTreeSet<_> = successors
            .iter()
            .filter(|(old, new)| store.table(**old).is_some() && self.made.contains_key(new))
            .map(|(_, new)| *new)
            .collect();
        let schema = || {
            let mut changes = Vec::new();
            let is_added = |id: &TableId| !gone.contains(id) && !replacing.contains(id);
            let added = self.made.iter().filter(|(id, _)| is_added(id));
            changes.extend(added.map(|(_, table)| SchemaChange::Add(table.clone())));
            for old in gone.iter().filter_map(|id| store.table(*id)) {
                let new = successors.get(&old.id()).and_then(|new| self.made.get(new)).cloned();
                changes.push(match new.filter(|new| !gone.contains(&new.id())) {
                    Some(new) => SchemaChange::Replace { old, new, build: None },
                    None => SchemaChange::Drop(old),
                });
            }
            changes
        };
        let changes_schema = !schema().is_empty();
        let rewritten: Vec<_> = self.concerned.iter().copied().filter(|_| changes_schema).collect();
        let schema: Option<&dyn Fn() -> Vec<SchemaChange>> = changes_schema.then_some(&schema);
        Rows { changes: &self.rows, rewritten: &rewritten, schema }.commit(self.engine)
    }

    /// Publishes the new definitions of tables that keep their records.
    fn redefine_tables(&self) -> Result<()> {
        let (store, guard) = (self.store(), pin());
        let mut builds = Builds::new(store);
        let mut redefined = Vec::new();
        for &id in &self.concerned {
            let Some(old) = store.table(id) else { continue };
            if let Some(definition) = store.new_definition_in_catalog(&old, &guard)? {
                let (new, empty) = old.redefined(definition);
                let new = Arc::new(new);
                let build = builds.add(&new, empty, 0)?;
                redefined.push((old, new, build));
            }
        }
        if redefined.is_empty() {
            return Ok(());
        }
        builds.catch_up()?;
        let ids: Vec<_> = redefined.iter().map(|(old, ..)| old.id()).collect();
        let schema =
            || {
                let replaced = |(old, new, build): &(Arc<TableCore>, Arc<TableCore>, _)| {
                    SchemaChange::Replace { old: old.clone(), new: new.clone(), build: Option::clone(build) }
                };
                redefined.iter().map(replaced).collect()
            };
        Rows { rewritten: &ids, schema: Some(&schema), ..Rows::default() }.commit(self.engine)
    }
}

/// A definition with the columns that another one has behind its own, and otherwise unchanged.
fn extension(old: &TableDefinition, new: &TableDefinition) -> TableDefinition {
    let mut extended = old.clone();
    extended.columns.extend(new.columns.iter().skip(old.columns.len()).cloned());
    extended.added = new.added.clone();
    extended
}
