//! Schema changes: CREATE, ALTER and DROP.
//!
//! ```text
//! create_table   tables and their constraints        alter_table   ALTER TABLE
//! create_as      CREATE TABLE AS, SELECT INTO        index         CREATE INDEX
//! objects        views, sequences, schemas, types    drop          DROP, TRUNCATE
//! ```
//!
//! Invariants: one schema change runs at a time (`Shared::changes`). Its definition is stored, then the engine's tables are
//! changed, then the new catalog is published; `catalog::store` finishes what a crash interrupts. A schema change takes
//! effect at once. Inside a transaction block, objects can be created, and a rollback drops them again; other changes are
//! refused there.

mod alter_column;
mod alter_table;
mod create_as;
mod create_table;
mod drop;
mod foreign_key;
mod index;
mod objects;

use crate::bind::{BindContext, Binder};
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, no_relation, no_schema};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ObjectKind, ObjectName, Query, QueryBodySyntax, Statement};
use crate::session::{Connection, Severity};

/// The table that a SELECT … INTO names.
pub(crate) fn select_into(query: &Query) -> Option<&ObjectName> {
    match &query.body {
        QueryBodySyntax::Select(select) => select.into.as_ref(),
        _ => None,
    }
}

/// An object that a block has created, which a rollback drops.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub kind: ObjectKind,
    pub schema: String,
    pub name: String,
}

impl Connection {
    /// A statement that changes the schema.
    pub(crate) fn schema_statement(&mut self, statement: &Statement, text: &str) -> Result<&'static str> {
        let creates = matches!(
            statement,
            Statement::CreateTable(_)
                | Statement::CreateIndex(_)
                | Statement::CreateView(_)
                | Statement::CreateSequence(_)
                | Statement::CreateSchema { .. }
                | Statement::CreateEnum { .. }
                | Statement::CreateDomain(_)
        );
        if self.is_in_block() && !creates {
            let message = "this schema change is not supported inside a transaction block";
            return Err(SqlError::unsupported(message).with_hint("Run it outside of BEGIN and COMMIT."));
        }
        match statement {
            Statement::CreateTable(create) => self.create_table(create, text),
            Statement::AlterTable(alter) => self.alter_table(alter, text),
            Statement::CreateIndex(create) => self.create_index(create, text),
            Statement::CreateView(create) => self.create_view(create, text),
            Statement::CreateSequence(create) => self.create_sequence(create),
            Statement::AlterSequence(alter) => self.alter_sequence(alter),
            Statement::CreateSchema { name, if_not_exists } => self.create_schema(&name.text, *if_not_exists),
            Statement::CreateEnum { name, labels } => self.create_enum(name, labels),
            Statement::AlterType { name, change } => self.alter_type(name, change),
            Statement::CreateDomain(create) => self.create_domain(create, text),
            Statement::Drop(drop) => self.drop_objects(drop),
            Statement::Rename { kind, name, if_exists, to } => self.rename(*kind, name, *if_exists, &to.text),
            Statement::Comment(comment) => self.comment(comment),
            _ => Err(SqlError::unsupported("this statement is not supported")),
        }
    }

    /// The schema in which a new object of this name belongs.
    pub(crate) fn schema_for(&self, name: &ObjectName, temporary: bool) -> Result<String> {
        if temporary {
            return Ok(self.environment().temporary.clone());
        }
        match name.schema() {
            None => self.environment().creation_schema(),
            Some("pg_temp") => Ok(self.environment().temporary.clone()),
            Some(schema) if self.environment().catalog.schema(schema).is_some() => Ok(schema.to_string()),
            Some(schema) => Err(no_schema(schema)),
        }
    }

    /// The relation that a name means.
    pub(crate) fn find_relation(&self, name: &ObjectName) -> Result<Relation> {
        let path = self.environment().path();
        let found = self.environment().catalog.find(name.schema(), name.last(), &path);
        found.cloned().ok_or_else(|| match name.schema() {
            Some(schema) if self.environment().catalog.schema(schema).is_none() => no_schema(schema),
            _ => no_relation(&name.to_string()),
        })
    }

    /// Whether a name is free in a schema; with IF NOT EXISTS a notice instead of an error.
    pub(crate) fn is_free(&mut self, schema: &str, name: &str, tolerant: bool) -> Result<bool> {
        if self.environment().catalog.relation(schema, name).is_none() {
            return Ok(true);
        }
        let message = format!("relation \"{name}\" already exists");
        if tolerant {
            let message = format!("{message}, skipping");
            self.environment_mut().add_notice(Severity::Notice, SqlState::DUPLICATE_TABLE, message);
            return Ok(false);
        }
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }

    /// Binds something of a definition.
    pub(crate) fn with_binder<T>(
        &mut self,
        text: &str,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<T> {
        let catalog = self.environment().catalog.clone();
        let path = self.environment().path();
        let context = BindContext { catalog: &catalog, path: &path, text };
        let mut binder = Binder::new(context, self.environment_mut(), &[]);
        binder.new_parameters = false;
        bind(&mut binder)
    }

    /// Stores definitions and publishes the catalog that has them.
    pub(crate) fn publish(&mut self, objects: &[Object], catalog: Catalog) -> Result<()> {
        self.shared().store.put(&self.shared().database, objects)?;
        self.publish_catalog(catalog);
        Ok(())
    }

    /// Publishes a catalog whose definitions are stored already.
    pub(crate) fn publish_catalog(&mut self, catalog: Catalog) {
        let published = self.shared().set_catalog(catalog);
        self.environment_mut().catalog = published;
    }

    /// A copy of the catalog to be changed, as it is now.
    pub(crate) fn catalog_to_change(&mut self) -> Catalog {
        let current = self.shared().catalog();
        self.environment_mut().catalog = current.clone();
        current.as_ref().clone()
    }
}
