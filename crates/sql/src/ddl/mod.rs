//! Schema changes: CREATE, ALTER and DROP.
//!
//! ```text
//! create_table   tables and their constraints        alter_table   ALTER TABLE
//! create_as      CREATE TABLE AS, SELECT INTO        index         CREATE INDEX
//! objects        views, sequences, schemas, types    drop          DROP, TRUNCATE
//! ```
//!
//! Invariants: a schema change belongs to a transaction of the engine's session, with its definitions' rows
//! (`catalog::store`) and the engine's tables; outside of a block it is one by itself. The transaction has a catalog of its
//! own then, which is published when it has committed, and holds the engine's lock of schema changes until its end: so
//! changes come one after another, and are invisible to others until they are durable with everything else.

mod alter_column;
mod alter_table;
mod create_as;
mod create_table;
mod drop;
mod foreign_key;
mod index;
mod objects;

use std::time::Duration;

use crate::bind::{BindContext, Binder};
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, no_relation, no_schema};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ObjectName, Query, QueryBodySyntax, Statement};
use crate::session::{Connection, Severity};

/// The table that a SELECT … INTO names.
pub(crate) fn select_into(query: &Query) -> Option<&ObjectName> {
    match &query.body {
        QueryBodySyntax::Select(select) => select.into.as_ref(),
        _ => None,
    }
}

/// How often a schema change that is a transaction by itself is tried, if others change the rows that it copies.
const ATTEMPTS_MAX: u32 = 100;
/// How often it is tried before others are held off.
const ATTEMPTS_BESIDE_OTHERS: u32 = 3;
/// For how long others are held off at most, the first time.
const FIRST_TIME_ALONE: Duration = Duration::from_secs(4);
/// How often that time doubles: up to about four minutes.
const DOUBLINGS_MAX: u32 = 6;

impl Connection {
    /// A statement that changes the schema.
    pub(crate) fn schema_statement(&mut self, statement: &Statement, text: &str) -> Result<&'static str> {
        self.in_schema_transaction(|connection| connection.change_schema(statement, text))
    }

    /// Runs a schema change: in the open block, or as a transaction by itself, which is retried.
    pub(crate) fn in_schema_transaction<T>(
        &mut self,
        mut change: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        if self.environment().settings.derived.read_only {
            let message = "cannot change the schema in a read-only transaction";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        if self.has_transaction() {
            self.lock_schema(None)?;
            return change(self);
        }
        for attempt in 0..ATTEMPTS_MAX {
            match self.change_alone(attempt, &mut change) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        self.change_alone(ATTEMPTS_MAX, &mut change)
    }

    fn change_alone<T>(
        &mut self,
        attempt: u32,
        change: &mut impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        // Twice as long each time, so that it is long enough for any table in the end.
        let doublings = attempt.checked_sub(ATTEMPTS_BESIDE_OTHERS);
        let alone = doublings.map(|doublings| FIRST_TIME_ALONE * (1 << doublings.min(DOUBLINGS_MAX)));
        self.begin_alone()?;
        let changed = self.lock_schema(alone).and_then(|()| change(self));
        self.end_alone(changed)
    }

    fn change_schema(&mut self, statement: &Statement, text: &str) -> Result<&'static str> {
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
            Some(schema) if schema != "pg_temp" && self.environment().catalog.schema(schema).is_none() => {
                no_schema(schema)
            }
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

    /// Stores definitions, and makes the transaction's catalog the one that has them.
    pub(crate) fn publish(&mut self, objects: &[Object], catalog: Catalog) -> Result<()> {
        let shared = self.shared().clone();
        shared.store.put(self.session_mut(), objects)?;
        self.publish_catalog(catalog);
        Ok(())
    }

    /// A copy of the transaction's catalog to be changed.
    pub(crate) fn catalog_to_change(&mut self) -> Catalog {
        let current = self.current_catalog();
        self.environment_mut().catalog = current.clone();
        current.as_ref().clone()
    }
}
