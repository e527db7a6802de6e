//! Schema changes: CREATE, ALTER and DROP.
//!
//! ```text
//! create_table        tables and their constraints
//! create_as           CREATE TABLE AS, SELECT INTO
//! alter_table         ALTER TABLE; alter_column, column_type: of its columns
//! column_users        the objects that use a column
//! keys, foreign_key   constraints that ALTER TABLE adds; foreign keys
//! index               CREATE INDEX; index_expressions: hidden columns; nominal_index: indexes without a use here
//! view, materialized  views; materialized views
//! on_commit           temporary tables that a commit empties or drops
//! objects             sequences, schemas, enums
//! domain, composite   domains; composite types
//! routine, trigger    functions and procedures, with routine_body; triggers
//! settled_bodies      what bodies of the standard's form name
//! temporary_routines  the objects that may call functions of pg_temp
//! extension           CREATE and ALTER EXTENSION
//! drop                DROP, TRUNCATE; dropped_calls: rules that call dropped routines
//! set_schema          ALTER … SET SCHEMA; rename_schema: ALTER SCHEMA … RENAME TO
//! definition_text     texts of expressions, with the schemas of the objects that they name
//! renamed_names       renames in these texts; renamed_in_queries: in stored queries
//! roles, privileges   CREATE, ALTER, DROP ROLE; GRANT, REVOKE, default privileges
//! ownership           checks of owners and privileges; OWNER TO
//! comments, implicit  COMMENT ON; messages about objects that a statement makes implicitly
//! ```
//!
//! # Invariants
//! - A schema change runs in a transaction of the engine's session, which writes both the catalog rows
//!   (`catalog::store`) and the engine's tables. Outside a transaction block, each change is a transaction of its own.
//! - The transaction works on a private copy of the catalog, which is published when it commits.
//! - The transaction holds the engine's schema lock until it ends. Schema changes are therefore serialized, and other
//!   sessions see none of them before it is durable together with the rest of its transaction.

mod alter_column;
mod alter_table;
mod column_type;
mod column_users;
mod comments;
mod composite;
mod create_as;
mod create_table;
mod definition_text;
mod domain;
mod drop;
mod dropped_calls;
mod extension;
mod foreign_key;
mod implicit;
mod index;
mod index_expressions;
mod keys;
mod materialized;
mod nominal_index;
mod objects;
mod on_commit;
mod rename_schema;
mod renamed_in_queries;
mod renamed_names;
pub(crate) mod routine;
mod routine_body;
mod set_schema;
mod settled_bodies;
mod temporary_routines;
mod trigger;
mod view;

pub(crate) use alter_table::qualified;
pub(crate) use index_expressions::text_key_name;
mod ownership;
mod privileges;
mod roles;

use std::sync::Arc;
use std::time::Duration;

use heddledb::TableChange;

use crate::bind::{BindContext, Binder};
use crate::catalog::rights::{CREATE, USAGE};
use crate::catalog::rules::EVALUATOR;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, UserType, no_relation, no_schema, system};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{AlterType, ObjectName, Query, QueryBodySyntax, Statement};
use crate::session::{Connection, Severity};

/// The table that a SELECT … INTO names.
pub(crate) fn select_into(query: &Query) -> Option<&ObjectName> {
    match &query.body {
        QueryBodySyntax::Select(select) => select.into.as_ref(),
        _ => None,
    }
}

/// The most retries of a schema change outside a transaction block, which aborts when concurrent transactions change
/// the rows that it copies.
const ATTEMPTS_MAX: u32 = 100;
/// The number of attempts that run concurrently with other transactions, before one blocks them.
const ATTEMPTS_BESIDE_OTHERS: u32 = 3;
/// The limit of time for which the first exclusive attempt blocks other transactions.
const FIRST_TIME_ALONE: Duration = Duration::from_secs(4);
/// The number of times that limit doubles: up to about four minutes.
const DOUBLINGS_MAX: u32 = 6;

impl Connection {
    /// Runs a statement that changes the schema.
    pub(crate) fn schema_statement(&mut self, statement: &Statement, text: &str) -> Result<&'static str> {
        self.in_schema_transaction(|connection| connection.change_schema(statement, text))
    }

    /// Runs a schema change: in the open transaction block, or else in a transaction of its own, which is
    /// retried.
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
        // The limit doubles with each attempt, until it is long enough for a large table.
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
            Statement::Refresh(refresh) => self.refresh(refresh),
            Statement::CreateSequence(create) => self.create_sequence(create),
            Statement::AlterSequence(alter) => self.alter_sequence(alter),
            Statement::CreateSchema { name, owner, if_not_exists, elements } => {
                self.create_schema(name.as_ref(), owner.as_ref(), *if_not_exists, (elements, text))
            }
            Statement::CreateEnum { name, labels } => self.create_enum(name, labels),
            Statement::CreateComposite { name, attributes } => self.create_composite(name, attributes, text),
            Statement::AlterType { name, change: AlterType::Attributes(changes) } => {
                self.alter_attributes(name, changes, text)
            }
            Statement::AlterType { name, change } => self.alter_type(name, change),
            Statement::CreateDomain(create) => self.create_domain(create, text),
            Statement::AlterDomain(alter) => self.alter_domain(alter, text),
            Statement::SetSchema { kind, name, if_exists, to } => {
                self.set_schema(*kind, name, *if_exists, &to.text)
            }
            Statement::Extension(statement) => self.change_extension(statement),
            Statement::CreateRoutine(create) => self.create_routine(create, text),
            Statement::AlterRoutine(alter) => self.alter_routine(alter),
            Statement::DropRoutines(drop) => self.drop_routines(drop),
            Statement::CreateTrigger(create) => self.create_trigger(create),
            Statement::ChangeTrigger(change) => self.change_trigger(change),
            Statement::Drop(drop) => self.drop_objects(drop),
            Statement::Rename { kind, name, if_exists, to } => self.rename(*kind, name, *if_exists, &to.text),
            Statement::Comment(comment) => self.comment(comment),
            Statement::Role(role) => self.change_role(role),
            Statement::Privilege(privilege) => self.change_privileges(privilege),
            _ => Err(SqlError::unsupported("this statement is not supported")),
        }
    }

    /// The schema in which an object of this name is to be created.
    pub(crate) fn schema_for(&self, name: &ObjectName, temporary: bool) -> Result<String> {
        self.environment().check_database_of(name)?;
        let schema = match name.schema() {
            _ if temporary => self.environment().temporary.clone(),
            None => self.environment().creation_schema()?,
            Some("pg_temp") => self.environment().temporary.clone(),
            Some(schema) if self.environment().catalog.schema(schema).is_some() => schema.to_string(),
            Some(schema) if system::is_schema(schema) => schema.to_string(),
            Some(schema) => return Err(no_schema(schema)),
        };
        if system::is_schema(&schema) {
            return Err(roles::denied(format!("permission denied for schema {schema}")));
        }
        self.check_schema(&schema, CREATE)?;
        Ok(schema)
    }

    /// Resolves a name to a relation, through the search path unless it is qualified.
    pub(crate) fn find_relation(&self, name: &ObjectName) -> Result<Relation> {
        if let Some(schema) = name.schema() {
            self.environment().check_database_of(name)?;
            self.check_schema(schema, USAGE)?;
        }
        let path = self.environment().path();
        let catalog = &self.environment().catalog;
        catalog.find(name.schema(), name.last(), &path).cloned().ok_or_else(|| match name.schema() {
            _ if system::find(catalog, name.schema(), name.last(), &path).is_some() => {
                let message = format!("permission denied: \"{}\" is a system catalog", name.last());
                SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            }
            Some(system::PG_CATALOG | system::INFORMATION_SCHEMA) => no_relation(&name.to_string()),
            Some(schema) if schema != "pg_temp" && self.environment().catalog.schema(schema).is_none() => {
                no_schema(schema)
            }
            _ => no_relation(&name.to_string()),
        })
    }

    /// The relation that an ALTER names; none, and a notice, if it is missing and IF EXISTS was said.
    fn relation_to_alter(&mut self, name: &ObjectName, if_exists: bool) -> Result<Option<Relation>> {
        match self.find_relation(name) {
            Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                self.skip_missing("relation", &name.to_string());
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Returns true if a schema has no relation of this name yet. If it has one: an error, or with IF NOT EXISTS
    /// (`tolerant`) a notice and false.
    pub(crate) fn is_free(&mut self, schema: &str, name: &str, tolerant: bool) -> Result<bool> {
        let catalog = &self.environment().catalog;
        let is_row = matches!(catalog.user_type(schema, name), Some(UserType::Composite(_)));
        if catalog.relation(schema, name).is_none() && !is_row {
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

    /// Binds a part of a definition, such as a default or a check, with the transaction's catalog.
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
        binder.defines = true;
        let bound = bind(&mut binder)?;
        binder.check_expressions()?;
        Ok(bound)
    }

    /// Stores definitions in the catalog's tables, and installs the catalog that contains them as the transaction's
    /// own.
    pub(crate) fn publish(&mut self, objects: &[Object], catalog: Catalog) -> Result<()> {
        temporary_routines::refuse_calls(objects, &catalog)?;
        let shared = self.shared().clone();
        shared.store.put(self.session_mut(), objects)?;
        self.publish_catalog(catalog);
        let can_rule = |object: &Object| matches!(object, Object::Table(_) | Object::Trigger(_));
        if !objects.iter().any(can_rule) {
            return Ok(());
        }
        // The engine refuses writes of others to tables whose rules it does not know.
        for table in self.current_catalog().unmarked_tables() {
            self.change_engine(&table, TableChange::new().evaluator(Some(EVALUATOR)), "")?;
        }
        Ok(())
    }

    /// The transaction's catalog, in which the session looks names up from now on.
    pub(crate) fn catalog_to_read(&mut self) -> Arc<Catalog> {
        let current = self.current_catalog();
        self.environment_mut().catalog = current.clone();
        current
    }

    /// A copy of the transaction's catalog, for the caller to modify.
    pub(crate) fn catalog_to_change(&mut self) -> Catalog {
        self.catalog_to_read().as_ref().clone()
    }
}
