//! The schema changes of a session's transaction before its commit.
//!
//! A table that the transaction makes has its own records, which no other transaction has access to; its rows are the
//! session's buffered writes, like all that it writes. A table whose definition it changes keeps its records, so that the
//! session and others go on writing them; indexes that the change adds are filled by the commit, and can be used then.
//!
//! # Invariants
//! The session holds the lock of schema changes while there are entries, so the tables beneath them ([`PrivateTable::base`])
//! are those of the schema in force. Tables made here are private ([`TableCore::is_private`]) until the commit publishes
//! them, and dropped where it does not.
//!
//! Foreign keys are resolved between the tables as the transaction has them, after each change. Its accesses enforce these, and no
//! other transaction does: tables of the schema in force that they concern are marked ([`TableCore::watch_privately`]), so that
//! its writes to them are followed.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::storage::definition::TableDefinition;
use crate::storage::foreign_keys::{SchemaLinks, TableView};
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};

/// A table as the transaction has it.
#[derive(Clone)]
pub(crate) struct PrivateTable {
    /// The table of the schema in force that it replaces; `None` if the transaction has created it.
    pub(crate) base: Option<Arc<TableCore>>,
    /// The present definition; `None` if it is dropped.
    pub(crate) now: Option<PrivateDefinition>,
    /// The earlier definitions in this transaction.
    pub(crate) earlier: Vec<Arc<TableCore>>,
}

/// A table's definition in the transaction.
#[derive(Clone)]
pub(crate) struct PrivateDefinition {
    /// The table that the transaction uses: without the indexes that the commit will fill.
    pub(crate) core: Arc<TableCore>,
    /// The definition that the commit publishes.
    pub(crate) definition: TableDefinition,
}

impl PrivateTable {
    /// Returns true if it keeps the records of its base.
    pub(crate) fn keeps_records(&self) -> bool {
        let ids = (self.base.as_ref().map(|base| base.id()), self.now.as_ref().map(|now| now.core.id()));
        ids.0.is_some() && ids.0 == ids.1
    }
}

/// The schema changes of a transaction.
#[derive(Default)]
pub(crate) struct PrivateSchema {
    tables: Vec<PrivateTable>,
    /// Every table that the transaction has made.
    made: Vec<Arc<TableCore>>,
    /// The numbers of those whose records are its own.
    own: Vec<TableId>,
    links: Box<SchemaLinks>,
    /// The tables of the schema in force that foreign keys of the transaction concern.
    watched: Vec<Arc<TableCore>>,
}

impl PrivateSchema {
    /// Returns true if the transaction has not changed anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The changed tables.
    pub(crate) fn tables(&self) -> &[PrivateTable] {
        &self.tables
    }

    /// Goes back to what was changed at a savepoint.
    pub(crate) fn go_back_to(&mut self, tables: Vec<PrivateTable>) {
        self.tables = tables;
    }

    /// All tables of users, with the definitions that they will have.
    pub(crate) fn views(&self, store: &Store) -> Vec<TableView> {
        let pending = |core: Arc<TableCore>| {
            let mut own = self.tables.iter().filter_map(|table| table.now.as_ref());
            match own.find(|now| Arc::ptr_eq(&now.core, &core)) {
                Some(now) => TableView::pending(core, now.definition.clone()),
                None => TableView::as_it_is(core),
            }
        };
        self.user_tables(store).into_iter().map(pending).collect()
    }

    /// Resolves the foreign keys: after each change.
    ///
    /// # Errors
    /// One refers to nothing.
    pub(crate) fn resolve_foreign_keys(&mut self, store: &Store) -> Result<()> {
        let has_keys = |definition: &TableDefinition| !definition.foreign_keys().is_empty();
        let mut own = self.tables.iter().filter_map(|table| table.now.as_ref());
        if self.links.is_empty()
            && !own.any(|now| has_keys(&now.definition))
            && !store.user_tables().iter().any(|table| has_keys(table.definition()))
        {
            return Ok(());
        }
        let views = self.views(store);
        *self.links = SchemaLinks::of(&views)?;
        for TableView { core, .. } in views {
            let Some(links) = self.links.table(core.id()) else { continue };
            if core.is_private() {
                core.set_reach(links.reach(), false);
            } else if !core.is_linked() && !self.watched.iter().any(|own| Arc::ptr_eq(own, &core)) {
                core.watch_privately(true);
                self.watched.push(core);
            }
        }
        Ok(())
    }

    /// The foreign keys between the tables.
    pub(crate) fn links(&self) -> &SchemaLinks {
        &self.links
    }

    /// Returns true if this is the number of a table whose records are the transaction's own.
    pub(crate) fn is_own(&self, id: TableId) -> bool {
        self.own.contains(&id)
    }

    /// Makes a table with new records.
    pub(crate) fn make(&mut self, store: &Store, definition: TableDefinition) -> Arc<TableCore> {
        let core = store.make_table(store.next_table_id(), definition);
        self.own.push(core.id());
        self.keep(core)
    }

    /// Keeps another definition of a table's records as private.
    pub(crate) fn keep(&mut self, core: Arc<TableCore>) -> Arc<TableCore> {
        core.make_private();
        self.made.push(core.clone());
        core
    }

    /// The table of this name in the transaction.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub(crate) fn find(&self, store: &Store, name: &str) -> Result<PrivateDefinition> {
        let own = self.tables.iter().filter_map(|table| table.now.as_ref());
        if let Some(now) = own.clone().find(|now| now.definition.name() == name) {
            return Ok(now.clone());
        }
        let core = store.table_by_name(name)?;
        if self.tables.iter().filter_map(|table| table.base.as_ref()).any(|base| base.id() == core.id()) {
            let known = own.map(|now| now.definition.name()).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownTable { table: name.to_string(), known });
        }
        let definition = core.definition().clone();
        Ok(PrivateDefinition { core, definition })
    }

    /// The table of the schema in force of which this one is a definition.
    pub(crate) fn base_of(&self, core: &Arc<TableCore>) -> Arc<TableCore> {
        let is_it =
            |table: &&PrivateTable| table.now.as_ref().is_some_and(|now| Arc::ptr_eq(&now.core, core));
        let table = self.tables.iter().find(is_it);
        table.and_then(|table| table.base.clone()).unwrap_or_else(|| core.clone())
    }

    /// All tables of users in the transaction.
    pub(crate) fn user_tables(&self, store: &Store) -> Vec<Arc<TableCore>> {
        let replaced = |id: TableId| {
            self.tables.iter().any(|table| table.base.as_ref().is_some_and(|base| base.id() == id))
        };
        let mut tables = store.user_tables();
        tables.retain(|table| !replaced(table.id()));
        tables.extend(self.tables.iter().filter_map(|table| Some(table.now.as_ref()?.core.clone())));
        tables
    }

    /// Puts something in the place of a table that [`find`](Self::find) has found, or adds a table.
    pub(crate) fn put(&mut self, old: Option<&Arc<TableCore>>, now: Option<PrivateDefinition>) {
        let found = old.and_then(|old| {
            let is_it =
                |table: &PrivateTable| table.now.as_ref().is_some_and(|now| Arc::ptr_eq(&now.core, old));
            self.tables.iter().position(is_it)
        });
        let Some(at) = found else {
            self.tables.push(PrivateTable { base: old.cloned(), now, earlier: Vec::new() });
            return;
        };
        let table = &mut self.tables[at];
        table.earlier.extend(table.now.take().map(|now| now.core));
        table.now = now;
        if table.base.is_none() && table.now.is_none() {
            self.tables.remove(at);
        }
    }

    /// A share in a table that the transaction may use, or in the inside of an index; and whether others may insert the same
    /// keys. `None` if it is the schema's in force.
    ///
    /// # Errors
    /// The transaction has dropped or changed the table.
    pub(crate) fn shared_table(&self, core: &TableCore) -> Result<Option<(Arc<TableCore>, bool)>> {
        for table in &self.tables {
            if let Some(found) = table.now.as_ref().and_then(|now| share_of(&now.core, core)) {
                let is_contended = found.1 && !self.is_own(core.id());
                return Ok(Some((found.0, is_contended)));
            }
            let before = table.base.iter().chain(&table.earlier);
            if before.into_iter().any(|before| share_of(before, core).is_some()) {
                let name = core.definition().name().to_string();
                return Err(match &table.now {
                    Some(_) => Error::TableChanged { table: name },
                    None => Error::TableDropped { table: name },
                });
            }
        }
        match core.is_private() {
            true => Err(Error::TableDropped { table: core.definition().name().to_string() }),
            false => Ok(None),
        }
    }

    /// Returns true if writes of the transaction to a table, or to the inside of an index, are committed: not where it
    /// has replaced the table or index. `published` are the definitions that the commit makes.
    pub(crate) fn is_live(&self, core: &TableCore, published: &[Option<Arc<TableCore>>]) -> bool {
        let replaced =
            self.tables.iter().any(|table| table.base.as_ref().is_some_and(|base| base.id() == core.id()));
        if !replaced && !self.is_own(core.id()) {
            return true;
        }
        published.iter().flatten().any(|table| share_of(table, core).is_some())
    }

    /// The definitions that only the transaction has, each with what its commit has made of the table.
    pub(crate) fn private_and_published<'s>(
        &'s self,
        published: &'s [Option<Arc<TableCore>>],
    ) -> impl Iterator<Item = (&'s Arc<TableCore>, &'s Arc<TableCore>)> {
        let tables = self.tables.iter().zip(published);
        tables.filter_map(|(table, published)| Some((table, published.as_ref()?))).flat_map(
            |(table, published)| {
                let now = table.now.as_ref().map(|now| &now.core);
                let others =
                    table.earlier.iter().chain(now).filter(move |core| !Arc::ptr_eq(core, published));
                others.map(move |core| (core, published))
            },
        )
    }

    /// Ends the schema changes with their transaction; the caller still has the lock of schema changes. `published`:
    /// the tables that its commit has published, in their order; empty if it was rolled back. Handles of earlier
    /// definitions follow, or say that the table is gone.
    pub(crate) fn end(&mut self, published: &[Option<Arc<TableCore>>]) {
        for (private, published) in self.private_and_published(published) {
            private.end_private(published);
        }
        self.tables.clear();
        self.own.clear();
        *self.links = SchemaLinks::default();
        // Others may watch them, too: a transaction that went back behind the lock of schema changes does so until it ends.
        self.watched.drain(..).for_each(|core| core.watch_privately(false));
        self.made.drain(..).filter(|core| core.is_private()).for_each(|core| core.drop_table(1));
    }
}

impl Drop for PrivateSchema {
    /// A call that was released in the middle takes what it had with it, before its transaction is rolled back.
    fn drop(&mut self) {
        self.end(&[]);
    }
}

/// A share in a table, or in the inside of one of its indexes, if `core` is that; and whether keys are inserted into it
/// that others may insert, too.
fn share_of(table: &Arc<TableCore>, core: &TableCore) -> Option<(Arc<TableCore>, bool)> {
    if std::ptr::eq(&**table, core) {
        return Some((table.clone(), true));
    }
    let index = table.secondary().iter().find(|index| std::ptr::eq(&*index.table, core))?;
    Some((index.table.clone(), index.definition.unique))
}
