//! ALTER TABLE: columns are added and dropped, constraints added and dropped, things renamed.
//!
//! The actions of one statement take effect together, in their order.

mod columns;
mod constraints;
mod renames;
mod settings;

use std::sync::Arc;

use self::settings::change_settings;
use crate::bind::Checks;
use crate::catalog::store::Object;
use crate::catalog::{Persistence, Relation, Table};
use crate::ddl::column_type::check_changed_at_once;
use crate::ddl::materialized::check_materialized;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::is_storage_parameter;
use crate::parse::quote_identifier;
use crate::parse::syntax::{AlterAction, AlterTable, ObjectKind, PersistenceName};
use crate::session::Connection;
use crate::types::Value;

pub(crate) use columns::{insert_column, without_column};

/// A table's name as SQL text.
pub(crate) fn qualified(table: &Table) -> String {
    format!("{}.{}", quote_identifier(&table.schema), quote_identifier(&table.name))
}

impl Connection {
    pub(crate) fn alter_table(&mut self, alter: &AlterTable, text: &str) -> Result<&'static str> {
        let tag = tag_of(alter.kind);
        let Some(relation) = self.relation_to_alter(&alter.name, alter.if_exists)? else { return Ok(tag) };
        check_kind(alter, &relation)?;
        self.check_relation_owner(&relation)?;
        if let (
            Relation::View(_) | Relation::Sequence(_) | Relation::Index { .. },
            [AlterAction::RenameTable(to)],
        ) = (&relation, &alter.actions[..])
        {
            self.rename_relation(&relation, &to.text)?;
            return Ok(tag);
        }
        if let [AlterAction::SetSchema(to)] = &alter.actions[..] {
            self.move_relation(&relation, &to.text)?;
            return Ok(tag);
        }
        if let (Relation::View(view), [AlterAction::RenameColumn { from, to }]) =
            (&relation, &alter.actions[..])
        {
            self.rename_view_column(view, &from.text, &to.text)?;
            return Ok(tag);
        }
        if let (Relation::View(view), [AlterAction::Parameters { resets, parameters }]) =
            (&relation, &alter.actions[..])
        {
            self.change_view_options(view, *resets, parameters)?;
            return Ok(tag);
        }
        let Relation::Table(table) = relation else {
            for action in &alter.actions {
                match action {
                    AlterAction::Ignored => {}
                    AlterAction::Parameters { parameters, .. } => check_storage_parameters(parameters)?,
                    _ => {
                        let message =
                            format!("this form of {tag} is not supported for a {}", relation.kind());
                        return Err(SqlError::unsupported(message));
                    }
                }
            }
            return Ok(tag);
        };
        if table.stored_query.is_some() {
            check_materialized(&table.name, &alter.actions)?;
        }
        check_changed_at_once(&alter.actions)?;
        for action in &alter.actions {
            self.alter_action(table.oid, action, text)?;
        }
        Ok(tag)
    }

    fn alter_action(&mut self, oid: u32, action: &AlterAction, text: &str) -> Result<()> {
        let catalog = self.catalog_to_change();
        let Some(table) = catalog.table_by_oid(oid).cloned() else {
            return Err(crate::catalog::no_relation(""));
        };
        match action {
            AlterAction::AddColumn { column, if_not_exists } => {
                self.add_column(&table, column, *if_not_exists, text)
            }
            AlterAction::DropColumn { name, if_exists, cascade } => {
                self.drop_column(&table, &name.text, *if_exists, *cascade)
            }
            AlterAction::AddConstraint(constraint) => self.add_constraint(&table, constraint, text),
            AlterAction::DropConstraint { name, if_exists, cascade } => {
                self.drop_constraint(&table, &name.text, *if_exists, *cascade)
            }
            AlterAction::RenameTable(to) => self.rename_relation(&Relation::Table(table), &to.text),
            AlterAction::RenameColumn { from, to } => self.rename_column(&table, from, to),
            AlterAction::RenameConstraint { from, to } => {
                self.rename_constraint(&table, &from.text, &to.text)
            }
            AlterAction::AlterConstraint { name, timing } => {
                self.alter_constraint(&table, &name.text, *timing)
            }
            AlterAction::SetPersistence(persistence) => {
                let persistence = match persistence {
                    PersistenceName::Unlogged => Persistence::Unlogged,
                    _ => Persistence::Permanent,
                };
                if table.persistence == persistence {
                    return Ok(());
                }
                self.check_persistence(&table, persistence)?;
                self.redefine(&table, |table| table.persistence = persistence)
            }
            AlterAction::ValidateConstraint(name) => self.validate_constraint(&table, &name.text),
            AlterAction::Ignored => Ok(()),
            AlterAction::Parameters { resets, parameters } => {
                check_storage_parameters(parameters)?;
                let options = crate::parse::option_texts(parameters);
                self.redefine(&table, |table| change_settings(&mut table.options, &options, *resets))
            }
            AlterAction::ColumnSetting { column, setting } => {
                self.set_column_setting(&table, &column.text, setting)
            }
            AlterAction::EnableTrigger { name, is_enabled } => {
                self.enable_triggers(&table, name.as_ref(), *is_enabled)
            }
            AlterAction::SetSchema(to) => self.move_relation(&Relation::Table(table), &to.text),
            _ => self.alter_column(&table, action, text),
        }
    }

    /// Changes a table's definition, without touching the engine's.
    pub(crate) fn redefine(&mut self, table: &Table, change: impl FnOnce(&mut Table)) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let engine = catalog.table_by_oid(table.oid).map_or(&table.engine, |current| &current.engine).clone();
        let mut changed = Table { engine, ..table.clone() };
        change(&mut changed);
        let changed = Arc::new(changed);
        catalog.remove_table(table);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)
    }

    /// The position of a column that must be there.
    pub(crate) fn column_of(&self, table: &Table, name: &str) -> Result<usize> {
        table.visible().iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// The table as it is now.
    pub(crate) fn current(&self, oid: u32) -> Result<Arc<Table>> {
        let found = self.current_catalog().table_by_oid(oid).cloned();
        found.ok_or_else(|| crate::catalog::no_relation(&oid.to_string()))
    }

    /// An error if a column holds NULLs.
    pub(crate) fn refuse_nulls(&mut self, table: &Table, column: &str) -> Result<()> {
        self.refuse_nulls_in(table, column, column)
    }

    /// Returns an error if `stored`, which has the values that `column` is to have, holds NULLs.
    pub(super) fn refuse_nulls_in(&mut self, table: &Table, stored: &str, column: &str) -> Result<()> {
        let sql =
            format!("select 1 from {} where {} is null limit 1", qualified(table), quote_identifier(stored));
        if self.run_own(&sql, Checks::Nothing)?.is_empty() {
            return Ok(());
        }
        let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
        Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
            .with_table(table.schema.clone(), table.name.clone())
            .with_column(column))
    }

    /// Runs an internal statement, which fires no triggers, and returns its rows. Its user-written parts need the
    /// user's privileges.
    pub(crate) fn run_internal(&mut self, sql: &str) -> Result<Vec<Vec<Value>>> {
        self.run_own(sql, Checks::Privileges)
    }

    /// Runs a statement of which the user wrote nothing, and which needs no privileges.
    pub(super) fn run_own(&mut self, sql: &str, checks: Checks) -> Result<Vec<Vec<Value>>> {
        let statements = crate::parse::parse(sql)?;
        let mut rows = Vec::new();
        for parsed in &statements {
            let collected = self.collect_rows(&parsed.statement, sql, checks, &mut rows);
            collected.map_err(SqlError::without_position)?;
        }
        Ok(rows)
    }
}

/// The tag of an ALTER of this kind.
fn tag_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Index => "ALTER INDEX",
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::MaterializedView => "ALTER MATERIALIZED VIEW",
        _ => "ALTER TABLE",
    }
}

/// Checks that a relation is of the kind that the statement says.
///
/// # Errors
/// 42809.
fn check_kind(alter: &AlterTable, relation: &Relation) -> Result<()> {
    let wanted = match alter.kind {
        ObjectKind::Index => "an index",
        ObjectKind::View => "a view",
        ObjectKind::MaterializedView => "a materialized view",
        _ => return Ok(()),
    };
    // Columns are renamed whatever the statement says.
    if matches!(alter.actions[..], [AlterAction::RenameColumn { .. }]) {
        return Ok(());
    }
    if wanted.split_once(' ').is_some_and(|(_, kind)| kind == relation.kind()) {
        return Ok(());
    }
    let message = format!("\"{}\" is not {wanted}", alter.name.last());
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
}

pub(super) fn check_storage_parameters(parameters: &[(String, Option<String>)]) -> Result<()> {
    match parameters.iter().find(|(name, _)| !is_storage_parameter(name)) {
        Some((name, _)) => Err(unrecognized(name)),
        None => Ok(()),
    }
}

/// 22023: there is no parameter of this name.
pub(super) fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))
}
