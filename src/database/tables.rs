//! Tables: created, opened, found by name.
//!
//! Invariant: a table is created by one thread at a time, and only where none of its name exists.

use super::{Database, catalog_rows};
use crate::error::{Error, Result};
use crate::pipeline::nesting;
use crate::storage::catalog::RESERVED_PREFIX;
use crate::storage::definition::TableDefinition;
use crate::storage::foreign_keys::TableView;
use crate::storage::schema::SchemaChange;
use crate::table::Table;

impl Database {
    /// Creates a table.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`], [`Error::TableExists`]; inside a transaction [`Error::Nested`].
    pub fn create_table(&self, definition: TableDefinition) -> Result<Table> {
        let definition = Database::checked(definition)?;
        let _one_at_a_time = self.shared.lock_schema()?;
        if self.engine().store().table_by_name(definition.name()).is_ok() {
            return Err(Error::TableExists { table: definition.name().to_string() });
        }
        self.add_table(definition)
    }

    /// Opens the table of this definition, and creates it if it does not exist: the usual call at the start
    /// of a program.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Error, Options, TableDefinition};
    /// # let db = Database::in_memory()?;
    /// let definition = TableDefinition::new("account").column("id", DataType::Int64).primary_key(["id"]);
    /// let created = db.open_table(definition.clone())?;
    /// let opened = db.open_table(definition.clone())?;
    /// assert_eq!(opened.definition(), created.definition());
    /// let other = db.open_table(definition.column("balance", DataType::Int64));
    /// assert!(matches!(other, Err(Error::TableDiffers { .. })));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableDiffers`] if the table has another definition; [`Error::InvalidDefinition`]; inside a transaction
    /// [`Error::Nested`].
    pub fn open_table(&self, definition: TableDefinition) -> Result<Table> {
        let definition = Database::checked(definition)?;
        let _one_at_a_time = self.shared.lock_schema()?;
        let Ok(stored) = self.engine().store().table_by_name(definition.name()) else {
            return self.add_table(definition);
        };
        match stored.definition().difference(&definition) {
            None => Ok(Table::new(stored)),
            Some(difference) => Err(Error::TableDiffers { table: definition.name().to_string(), difference }),
        }
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.engine().store().table_by_name(name).map(Table::new)
    }

    /// An estimate of how many rows of a table transactions have inserted, changed or deleted since the
    /// database was opened; rows of other tables may be among them. It is cheap, for planners that call it
    /// frequently.
    pub fn row_changes(&self, table: &Table) -> u64 {
        self.engine().store().row_changes(table.core().id())
    }

    /// All tables.
    pub fn tables(&self) -> Vec<Table> {
        self.engine().store().user_tables().into_iter().map(Table::new).collect()
    }

    /// The definition as the catalog stores it, checked to be one that a user's table may have.
    pub(crate) fn checked(definition: TableDefinition) -> Result<TableDefinition> {
        nesting::check("making a table")?;
        let definition = definition.settled()?;
        if definition.name().starts_with(RESERVED_PREFIX) {
            let detail =
                format!("names that begin with {RESERVED_PREFIX:?} are the engine's own; choose another");
            return Err(Error::InvalidDefinition { table: definition.name().to_string(), detail });
        }
        Ok(definition)
    }

    /// Creates a table, of whose name there is none. The caller holds the lock of schema changes.
    fn add_table(&self, mut definition: TableDefinition) -> Result<Table> {
        let store = self.engine().store();
        super::foreign_keys::check_definition(&TableView::all(store.user_tables()), &definition)?;
        let id = store.next_table_id();
        self.make_identity(id, &mut definition)?;
        let sequence = definition.identity_sequence.0.clone();
        let table = store.make_table(id, definition);
        let added = self.run(|tx| {
            catalog_rows::write(store, tx, id, table.definition())?;
            tx.change_schema(SchemaChange::Add(table.clone()));
            Ok(())
        });
        if added.is_err() {
            self.drop_unused_identities(sequence);
        }
        added?;
        Ok(Table::new(table))
    }
}
