//! The users of a column besides its own table's constraints and indexes: views, triggers, generated columns.
//!
//! Source: PostgreSQL 15, `ATExecAlterColumnType` and `ATExecDropColumn` in `tablecmds.c`.

use std::sync::Arc;

use crate::bind::columns_read;
use crate::catalog::{Catalog, ColumnOrigin, Table, Trigger, View};
use crate::ddl::drop::{may_name, names_relation};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::names_column;
use crate::parse::syntax::Statement;
use crate::session::Connection;

/// The objects that use a column.
#[derive(Default)]
pub(super) struct ColumnUsers {
    pub views: Vec<Arc<View>>,
    pub triggers: Vec<Arc<Trigger>>,
    /// The names of generated columns.
    pub generated: Vec<String>,
}

impl ColumnUsers {
    pub fn is_empty(&self) -> bool {
        self.views.is_empty() && self.triggers.is_empty() && self.generated.is_empty()
    }

    /// One of them, as messages call it.
    fn first(&self, table: &Table) -> Option<String> {
        let view = self.views.first().map(|view| format!("view {}", view.name));
        let trigger = || {
            self.triggers.first().map(|trigger| format!("trigger {} on table {}", trigger.name, table.name))
        };
        let generated =
            || self.generated.first().map(|name| format!("column {name} of table {}", table.name));
        view.or_else(trigger).or_else(generated)
    }

    /// # Errors
    /// 2BP01, if there is any.
    pub fn refuse_drop(&self, table: &Table, column: &str) -> Result<()> {
        let Some(user) = self.first(table) else { return Ok(()) };
        let object = format!("column {column} of table {}", table.name);
        let message = format!("cannot drop {object} because other objects depend on it");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(format!("{user} depends on {object}"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    /// # Errors
    /// 0A000, if the column is used where it must keep its type.
    pub fn refuse_type(&self, catalog: &Catalog, table: &Table, column: &str) -> Result<()> {
        let (what, user) = match (self.views.first(), self.triggers.first()) {
            (Some(view), _) => {
                let kind = catalog.table_by_oid(view.oid).map_or("view", |table| table.kind());
                ("by a view or rule", format!("rule _RETURN on {kind} {}", view.name))
            }
            (None, Some(trigger)) => {
                ("in a trigger definition", format!("trigger {} on table {}", trigger.name, table.name))
            }
            (None, None) => return Ok(()),
        };
        Err(SqlError::unsupported(format!("cannot alter type of a column used {what}"))
            .with_detail(format!("{user} depends on column \"{column}\"")))
    }
}

impl Connection {
    /// Finds the objects that use a column of a table.
    pub(super) fn column_users(&mut self, table: &Arc<Table>, position: usize) -> Result<ColumnUsers> {
        let name = &table.columns[position].name;
        let catalog = self.current_catalog();
        let mut users = ColumnUsers::default();
        // A view of a function that returns the table's rows reads them, too.
        let of_rows: Vec<&str> = catalog
            .routines()
            .filter(|routine| routine.names_row_of(table.oid))
            .map(|routine| routine.name.as_str())
            .collect();
        let may_read = |view: &Arc<View>| {
            names_relation(view, &table.schema, &table.name)
                || of_rows.iter().any(|name| may_name(&view.query, name))
        };
        for view in catalog.stored_queries().filter(may_read) {
            let read = self.columns_of_view(&view, table.oid);
            // One that no longer binds reads what it names.
            if read.map_or_else(|_| names_column(&view.query, name), |read| read.contains(&position)) {
                users.views.push(view);
            }
        }
        let uses = |trigger: &&Arc<Trigger>| {
            trigger.columns.contains(name)
                || trigger.condition.as_deref().is_some_and(|condition| names_column(condition, name))
        };
        users.triggers = catalog.triggers_of(table.oid).iter().filter(uses).cloned().collect();
        let is_generated = |column: &&crate::catalog::Column| match &column.origin {
            ColumnOrigin::Generated(text) => column.name != *name && names_column(text, name),
            _ => false,
        };
        users.generated =
            table.visible().iter().filter(is_generated).map(|column| column.name.clone()).collect();
        Ok(users)
    }

    /// The columns of a table that a view reads.
    fn columns_of_view(&mut self, view: &View, table: u32) -> Result<Vec<usize>> {
        let query = Statement::Query(Box::new(crate::parse::parse_query(&view.query)?));
        self.with_binder("", |binder| {
            binder.path.clone_from(&view.search_path);
            (binder.foreign_text, binder.settled) = (true, true);
            let bound = binder.data_statement(&query)?;
            let required = binder.required.iter().filter(|required| required.oid == table);
            let read = required.filter_map(|required| required.relation);
            let of_functions = binder.rows_of.iter().filter(|(of, _)| *of == table).map(|(_, read)| *read);
            Ok(columns_read(&bound, read.chain(of_functions)))
        })
    }
}
