//! Schema changes inside a session's transaction: private until its commit, undone by its rollback or by a savepoint's.
//!
//! The first change acquires the lock of schema changes, a reservation like those of keys: it is released with the
//! transaction, waits as long as a key's, and takes part in the search for deadlocks. Transactions that change no schema
//! ignore it.
//!
//! - A table that the transaction creates, empties or rebuilds (columns, types, key) has records of its own
//!   ([`crate::storage::private_schema`]). A rebuild copies the rows by reads and writes of the session: the commit fails
//!   with a conflict if another transaction has changed one of them.
//! - A change of names, defaults, NOT NULL and indexes keeps the records. The rows are checked when it is made, and again at
//!   the commit, which builds new indexes beside other transactions before it begins: they write the table until then, and
//!   cause no conflict.
//!
//! # Invariants
//! The commit writes the catalog's rows, the new states of the tables and all rows as one transaction behind the closed
//! gate ([`crate::storage::schema`]). So a crash leaves all of it or nothing.

mod commit_changes;
mod lock;
mod row_check;

use std::sync::Arc;

use super::Session;
use crate::database::Database;
use crate::database::foreign_keys::{Followers, check_definition, check_own, check_unreferenced};
use crate::database::schema::{check_name, is_unproven};
use crate::error::{Error, Result};
use crate::protocol::attempt::SessionAccess;
use crate::range::Range;
use crate::storage::definition::{AddedColumns, ForeignKey, TableDefinition};
use crate::storage::foreign_keys::TableView;
use crate::storage::private_schema::{PrivateDefinition, PrivateTable};
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::table_change::{Changed, TableChange};
use crate::types::ValueRef;

pub(super) use commit_changes::{Redefined, check_changes, redefine_tables, write_changes};
pub(crate) use lock::SchemaLock;

/// # Schema changes in a transaction
///
/// They are private until the commit: other transactions continue with the schema as it was, and a rollback leaves
/// nothing. One transaction changes the schema at a time; others wait ([`Session::set_wait_timeout`]).
///
/// A handle of a table that the transaction has changed or dropped fails with [`Error::TableChanged`] or
/// [`Error::TableDropped`] inside of it: use the handle that the change returns. From the commit on all handles follow.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, TableChange, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// let mut session = db.session()?;
/// session.begin()?;
/// let definition = TableDefinition::new("city").column("id", DataType::Int64).primary_key(["id"]);
/// let cities = session.create_table(definition)?;
/// session.run(|tx| tx.insert(&cities, row![1]))?;
/// let cities = session.change_table("city", TableChange::new().add_column("name", DataType::Text, "?"))?;
/// session.run(|tx| tx.insert(&cities, row![2, "Bergen"]))?;
/// assert!(db.table("city").is_err());
/// session.commit()?;
/// let names = db.run(|tx| tx.get(&cities, key![1])?.map(|row| row.text("name").map(str::to_string)).transpose())?;
/// assert_eq!(names.as_deref(), Some("?"));
/// # Ok::<(), heddledb::Error>(())
/// ```
impl Session {
    /// Same as `Database::create_table`, in the transaction.
    ///
    /// # Errors
    /// Same errors as `Database::create_table` and [`lock_schema`](Self::lock_schema).
    pub fn create_table(&mut self, definition: TableDefinition) -> Result<Table> {
        let mut definition = Database::checked(definition)?;
        self.lock_schema()?;
        let shared = self.shared.clone();
        let store = shared.engine().store();
        let access = self.access()?;
        if access.schema.find(store, definition.name()).is_ok() {
            return Err(Error::TableExists { table: definition.name().to_string() });
        }
        check_definition(&access.schema.views(store), &definition)?;
        self.make_identity(&mut definition)?;
        let access = self.access()?;
        let core = access.schema.make(store, definition.clone());
        access.schema.put(None, Some(PrivateDefinition { core: core.clone(), definition }));
        access.schema.resolve_foreign_keys(store)?;
        Ok(Table::new(core))
    }

    /// Same as `Database::drop_table`, in the transaction.
    ///
    /// # Errors
    /// Same errors as `Database::drop_table` and [`lock_schema`](Self::lock_schema).
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let old = self.own_table(name)?;
        let shared = self.shared.clone();
        let store = shared.engine().store();
        check_unreferenced(&self.access()?.schema.views(store), &old.core, &[])?;
        self.note_identity(&old.definition);
        let schema = &mut self.access()?.schema;
        schema.put(Some(&old.core), None);
        schema.resolve_foreign_keys(store)?;
        self.forget(&old.core);
        Ok(())
    }

    /// Same as `Database::truncate`, in the transaction.
    ///
    /// # Errors
    /// Same errors as `Database::truncate` and [`lock_schema`](Self::lock_schema).
    pub fn truncate(&mut self, names: &[&str]) -> Result<()> {
        let tables = names.iter().map(|name| self.own_table(name)).collect::<Result<Vec<_>>>()?;
        let shared = self.shared.clone();
        let store = shared.engine().store();
        let views = self.access()?.schema.views(store);
        let cores: Vec<_> = tables.iter().map(|table| table.core.clone()).collect();
        cores.iter().try_for_each(|core| check_unreferenced(&views, core, &cores))?;
        for PrivateDefinition { core: old, definition } in tables {
            let schema = &mut self.access()?.schema;
            let core = schema.make(store, definition);
            // Its own: a table that is made has no added columns.
            let definition = core.definition().clone();
            schema.put(Some(&old), Some(PrivateDefinition { core, definition }));
            self.forget(&old);
        }
        self.access()?.schema.resolve_foreign_keys(store)
    }

    /// Same as `Database::change_table`, in the transaction. An index that is added to a table which the transaction
    /// has not made is filled by the commit, and can be read from then on.
    ///
    /// # Errors
    /// Same errors as `Database::change_table` and [`lock_schema`](Self::lock_schema).
    pub fn change_table(&mut self, name: &str, change: TableChange) -> Result<Table> {
        let old = self.own_table(name)?;
        let mut changed = change.apply(&old.definition)?;
        let new_name = changed.definition.name();
        if new_name != name {
            check_name(new_name)?;
            if self.table(new_name).is_ok() {
                return Err(Error::TableExists { table: new_name.to_string() });
            }
        }
        let shared = self.shared.clone();
        let store = shared.engine().store();
        let schema = &self.access()?.schema;
        let before = schema.tables().to_vec();
        let followers = Followers::of(&schema.views(store), &old.core, &changed)?;
        self.note_identity(&old.definition);
        self.make_identity(&mut changed.definition)?;
        match self.change_with_followers(&old, changed, &followers) {
            Ok(core) => {
                self.forget_replaced(&before);
                Ok(Table::new(core))
            }
            Err(error) => {
                self.access()?.go_back_to(store, before)?;
                Err(error)
            }
        }
    }

    /// Changes a table and the definitions of those that refer to it, and checks the foreign keys.
    fn change_with_followers(
        &mut self,
        old: &PrivateDefinition,
        changed: Changed,
        followers: &Followers,
    ) -> Result<Arc<TableCore>> {
        let definition = changed.definition.clone();
        let converted = match changed.keeps_records(&old.definition) {
            true => Vec::new(),
            false => changed.converted_foreign_keys()?,
        };
        let shared = self.shared.clone();
        let store = shared.engine().store();
        let core = self.put_changed(old, changed)?;
        for (child, definition) in &followers.renamed {
            let child = self.access()?.schema.find(store, child.definition().name())?;
            let mut renamed = TableChange::new().apply(&child.definition)?;
            renamed.definition = definition.clone();
            self.put_changed(&child, renamed)?;
        }
        let schema = &mut self.access()?.schema;
        schema.resolve_foreign_keys(store)?;
        let views = schema.views(store);
        let view = TableView::pending(core.clone(), definition.clone());
        let is_converted = |key: &ForeignKey| converted.iter().any(|name| name == key.name());
        if !converted.is_empty() {
            self.run(|tx| check_own(&views, tx, &view, is_converted))?;
        }
        let is_new = |key: &ForeignKey| !is_converted(key) && is_unproven(&old.definition, &definition, key);
        if definition.foreign_keys().iter().any(is_new) {
            // The commit looks again, so others may write the tables until then.
            self.run(|tx| tx.search(|| check_own(&views, tx, &view, is_new)))?;
        }
        if followers.leave_unproven() {
            self.run(|tx| followers.check(tx, &views, &view))?;
        }
        Ok(core)
    }

    /// Puts a table with another definition in a table's place.
    fn put_changed(&mut self, old: &PrivateDefinition, changed: Changed) -> Result<Arc<TableCore>> {
        let is_own = self.access()?.schema.is_own(old.core.id());
        match changed.keeps_records(&old.definition) && !is_own {
            true => self.redefine(old, &changed),
            false => self.rebuild(&old.core, changed),
        }
    }

    /// The table of this name, as the transaction has it.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        let store = self.shared.engine().store();
        match &self.access {
            Some(access) => access.schema.find(store, name).map(|found| Table::new(found.core)),
            None => store.table_by_name(name).map(Table::new),
        }
    }

    /// All tables, as the transaction has them.
    pub fn tables(&self) -> Vec<Table> {
        let store = self.shared.engine().store();
        let tables = match &self.access {
            Some(access) => access.schema.user_tables(store),
            None => store.user_tables(),
        };
        tables.into_iter().map(Table::new).collect()
    }

    pub(super) fn access(&mut self) -> Result<&mut SessionAccess> {
        self.access.as_deref_mut().ok_or(Error::Closed)
    }

    /// A table that the transaction is to change, with the lock held.
    fn own_table(&mut self, name: &str) -> Result<PrivateDefinition> {
        check_name(name)?;
        self.lock_schema()?;
        let shared = self.shared.clone();
        self.access()?.schema.find(shared.engine().store(), name)
    }

    /// Makes the sequence of an identity column, which is dropped at the transaction's end if no table has it then.
    fn make_identity(&mut self, definition: &mut TableDefinition) -> Result<()> {
        let db = Database::of(self.shared.clone());
        db.make_identity(db.engine().store().next_table_id(), definition)?;
        self.note_identity(definition);
        Ok(())
    }

    /// Notes a sequence that no table may have at the transaction's end.
    fn note_identity(&mut self, definition: &TableDefinition) {
        self.identities.extend(definition.identity_sequence.0.clone());
    }

    /// Drops the sequences that no table has, at the transaction's end.
    pub(super) fn drop_unused_identities(&mut self) {
        if !self.identities.is_empty() {
            let names = std::mem::take(&mut self.identities);
            Database::of(self.shared.clone()).drop_unused_identities(names);
        }
    }

    /// Drops the buffered rows of a table that is dropped, unless a savepoint may bring it back.
    fn forget(&mut self, core: &TableCore) {
        if self.savepoints.is_empty()
            && let Some(access) = &mut self.access
            && access.schema.is_own(core.id())
        {
            access.buffer.forget_table(core.id());
        }
    }

    /// Drops the buffered rows of tables that a change has replaced.
    fn forget_replaced(&mut self, before: &[PrivateTable]) {
        let Some(access) = &self.access else { return };
        let is_there = |core: &TableCore| {
            let mut now = access.schema.tables().iter().filter_map(|table| table.now.as_ref());
            now.any(|now| now.core.id() == core.id())
        };
        let replaced: Vec<_> = before
            .iter()
            .filter_map(|table| Some(table.now.as_ref()?.core.clone()))
            .filter(|core| !is_there(core))
            .collect();
        replaced.iter().for_each(|core| self.forget(core));
    }

    /// Gives a table's records another definition.
    fn redefine(&mut self, old: &PrivateDefinition, changed: &Changed) -> Result<Arc<TableCore>> {
        let definition = changed.definition.clone();
        let base = self.access()?.schema.base_of(&old.core);
        self.check_rows_of(old, &base, &changed.definition)?;
        // Of its own last definition, because the session has not written an index that it dropped.
        let (_, empty) = old.core.redefined(definition.clone());
        let mut without = definition.clone();
        let mut position = 0..;
        without.indexes.retain(|_| position.next().is_some_and(|position| !empty.contains(&position)));
        let access = self.access()?;
        let core = access.schema.keep(Arc::new(old.core.redefined(without).0));
        access.buffer.redefine(&core);
        access.schema.put(Some(&old.core), Some(PrivateDefinition { core: core.clone(), definition }));
        Ok(core)
    }

    /// Copies a table's rows into a new one with another definition.
    fn rebuild(&mut self, old: &Arc<TableCore>, mut changed: Changed) -> Result<Arc<TableCore>> {
        let shared = self.shared.clone();
        changed.definition.added = AddedColumns::default();
        let core = self.access()?.schema.make(shared.engine().store(), changed.definition.clone());
        // While the rows are copied, the transaction has both tables.
        let copy = PrivateDefinition { core: core.clone(), definition: changed.definition.clone() };
        let tables = self.access()?.schema.tables().to_vec();
        self.access()?.schema.put(None, Some(copy.clone()));
        let (from, to) = (Table::new(old.clone()), Table::new(core.clone()));
        let copied = self.load_rows(|tx| {
            // The rows were evaluated when they were written.
            tx.set_evaluated();
            tx.scan(&from, Range::all())?.try_for_each(|row| {
                let values = changed.row(row?.to_values())?;
                tx.insert_overriding(&to, values.iter().map(ValueRef::from).collect::<Vec<_>>())
            })
        });
        let copied = copied.and_then(|(copied, _)| copied);
        let access = self.access()?;
        access.schema.go_back_to(tables);
        copied?;
        access.schema.put(Some(old), Some(copy));
        Ok(core)
    }
}

impl SessionAccess {
    /// Restores the tables of a savepoint.
    ///
    /// # Errors
    /// Cannot fail: the foreign keys between them could be resolved then.
    pub(super) fn go_back_to(&mut self, store: &Store, tables: Vec<PrivateTable>) -> Result<()> {
        // Without a change there is nothing to resolve, and the lock of schema changes is not held.
        if self.schema.is_empty() && tables.is_empty() {
            return Ok(());
        }
        let changed = self.schema.tables().to_vec();
        self.schema.go_back_to(tables);
        for base in changed.iter().filter_map(|table| table.base.as_ref()) {
            let restored = self.schema.tables().iter().find_map(|table| {
                let is_it = table.base.as_ref().is_some_and(|other| Arc::ptr_eq(other, base));
                (is_it && table.keeps_records()).then_some(table.now.as_ref()?.core.clone())
            });
            self.buffer.redefine(restored.as_ref().unwrap_or(base));
        }
        self.schema.resolve_foreign_keys(store)
    }
}
