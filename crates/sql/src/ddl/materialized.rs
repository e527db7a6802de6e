//! Materialized views: tables that hold the rows of a stored query, and that only REFRESH changes.
//!
//! The query is run as the owner, functions included, as a security-restricted operation, and along the search path under
//! which it was written. To that
//! end REFRESH puts a view beside the table into the transaction's private catalog, for as long as it reads it.
//!
//! # Invariants
//! - A REFRESH is part of one transaction: others read the earlier rows until it commits. Without CONCURRENTLY the table gets
//!   new records, as by TRUNCATE; with it, rows are deleted and inserted, so that transactions that have read the view
//!   conflict with rows that changed, and not with the table.
//! - A view that was never populated is not read (`bind/privileges.rs`).

use std::sync::Arc;

use crate::catalog::store::Object;
use crate::catalog::{Relation, StoredQuery, Table};
use crate::ddl::alter_table::check_storage_parameters;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::{
    AlterAction, CreateTableAs, CreateView, ObjectName, OnCommit, PersistenceName, Refresh, Statement,
};
use crate::session::{Connection, ResultSink};

/// The name of the view through which a REFRESH reads: no user's statement can say it without quotes.
const READ_THROUGH: &str = "#refresh";

impl Connection {
    /// CREATE MATERIALIZED VIEW.
    pub(crate) fn create_materialized_view(
        &mut self,
        create: &CreateView,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let table = CreateTableAs {
            name: create.name.clone(),
            persistence: PersistenceName::Permanent,
            if_not_exists: create.if_not_exists,
            columns: create.columns.clone(),
            on_commit: OnCommit::PreserveRows,
            query: create.query.clone(),
            with_data: create.with_data,
        };
        check_storage_parameters(&create.options)?;
        let filled = self.in_schema_transaction(|connection| {
            let examined = connection.examine(create, text)?;
            if examined.reads_temporary {
                let message = "materialized views must not use temporary tables or views";
                return Err(SqlError::unsupported(message));
            }
            if connection.schema_for(&create.name, false)? == connection.environment().temporary {
                let message = "cannot create temporary table within security-restricted operation";
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            let query = Statement::Query(table.query.clone());
            let role = connection.role();
            let filled =
                connection.restricted(role, |connection| connection.make_filled_table(&table, &query, text));
            let Some(count) = filled? else { return Ok(None) };
            let search_path = connection.view_path(false);
            let stored = StoredQuery { query: examined.text, search_path, populated: create.with_data };
            let made = connection.plain_table(&create.name)?;
            connection.redefine(&made, |table| {
                table.stored_query = Some(stored);
                table.options = crate::parse::option_texts(&create.options);
            })?;
            Ok(count)
        })?;
        match filled {
            Some(count) => sink.complete(&format!("SELECT {count}")),
            None => sink.complete("CREATE MATERIALIZED VIEW"),
        }
    }

    fn plain_table(&self, name: &ObjectName) -> Result<Arc<Table>> {
        match self.find_relation(name)? {
            Relation::Table(table) => Ok(table),
            _ => Err(SqlError::internal("a table that was made is not there")),
        }
    }

    /// REFRESH MATERIALIZED VIEW.
    pub(super) fn refresh(&mut self, refresh: &Refresh) -> Result<&'static str> {
        let relation = self.find_relation(&refresh.name)?;
        let Relation::Table(table) = &relation else { return Err(not_materialized(refresh.name.last())) };
        let Some(stored) = &table.stored_query else { return Err(not_materialized(&table.name)) };
        self.check_relation_owner(&relation)?;
        if refresh.concurrently {
            check_concurrent(refresh, table, stored)?;
        } else {
            self.empty_tables(std::slice::from_ref(table))?;
        }
        if refresh.with_data {
            let (oid, owner) = (table.oid, table.rights.owner);
            self.restricted(owner, |connection| connection.fill_again(oid, refresh.concurrently))?;
        }
        let mut catalog = self.catalog_to_change();
        let Some(current) = catalog.table_by_oid(table.oid).cloned() else { return Ok(TAG) };
        let mut changed = current.as_ref().clone();
        changed.stored_query = Some(StoredQuery { populated: refresh.with_data, ..stored.clone() });
        let changed = Arc::new(changed);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)?;
        Ok(TAG)
    }

    /// Fills the table with the rows of its query; in the transaction's catalog it is a plain table from then on.
    fn fill_again(&mut self, oid: u32, deletes_first: bool) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let Some(table) = catalog.table_by_oid(oid).cloned() else { return Ok(()) };
        let Some(mut view) = table.as_view() else { return Ok(()) };
        view.oid = catalog.new_oid();
        view.name = READ_THROUGH.to_string();
        let (schema, source) = (quote_identifier(&view.schema), quote_identifier(&view.name));
        let name = format!("{schema}.{}", quote_identifier(&table.name));
        let of = view.schema.clone();
        catalog.put_relation(&of, READ_THROUGH, Relation::View(Arc::new(view)));
        catalog.put_table(Arc::new(Table { stored_query: None, ..table.as_ref().clone() }));
        self.publish_catalog(catalog);
        let delete = deletes_first.then(|| format!("DELETE FROM {name}"));
        let insert = format!("INSERT INTO {name} SELECT * FROM {schema}.{source}");
        let mut written = Ok(());
        for text in delete.into_iter().chain([insert]) {
            written = written.and_then(|()| self.run_internal(&text).map(|_| ()));
        }
        let mut catalog = self.catalog_to_change();
        catalog.remove_relation(&of, READ_THROUGH);
        catalog.put_table(table);
        self.publish_catalog(catalog);
        written
    }
}

const TAG: &str = "REFRESH MATERIALIZED VIEW";

fn not_materialized(name: &str) -> SqlError {
    let message = format!("\"{name}\" is not a materialized view");
    SqlError::unsupported(message)
}

fn check_concurrent(refresh: &Refresh, table: &Table, stored: &StoredQuery) -> Result<()> {
    if !refresh.with_data {
        let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if !stored.populated {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::unsupported(message));
    }
    let is_plain = |index: &&crate::catalog::Index| index.unique && table.hidden_columns(index).is_empty();
    if table.indexes.iter().find(is_plain).is_none() {
        let message =
            format!("cannot refresh materialized view \"{}.{}\" concurrently", table.schema, table.name);
        let hint =
            "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(hint));
    }
    Ok(())
}

/// Refuses what ALTER TABLE does to tables only.
pub(super) fn check_materialized(name: &str, actions: &[AlterAction]) -> Result<()> {
    let refused = |action: &AlterAction| match action {
        AlterAction::RenameTable(_)
        | AlterAction::RenameColumn { .. }
        | AlterAction::RenameConstraint { .. }
        | AlterAction::SetSchema(_)
        | AlterAction::Parameters { .. }
        | AlterAction::ColumnSetting { .. }
        | AlterAction::Ignored => None,
        AlterAction::AddColumn { .. } => Some("ADD COLUMN"),
        AlterAction::DropColumn { .. } => Some("DROP COLUMN"),
        AlterAction::AddConstraint(_) => Some("ADD CONSTRAINT"),
        AlterAction::DropConstraint { .. } => Some("DROP CONSTRAINT"),
        AlterAction::ValidateConstraint(_) => Some("VALIDATE CONSTRAINT"),
        AlterAction::SetPersistence(PersistenceName::Unlogged) => Some("SET UNLOGGED"),
        AlterAction::SetPersistence(_) => Some("SET LOGGED"),
        _ => Some("ALTER COLUMN"),
    };
    let Some(action) = actions.iter().find_map(refused) else { return Ok(()) };
    let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .with_detail("This operation is not supported for materialized views."))
}
