//! Constraints that ALTER TABLE adds, validates and drops.

use std::sync::Arc;

use heddledb::TableChange;

use super::qualified;
use crate::bind::Checks;
use crate::catalog::Table;
use crate::catalog::relation::MIXED_KEY;
use crate::ddl::create_table::{TableDraft, deferral};
use crate::ddl::keys::{UniqueRules, refuse_second_key};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::{TableConstraint, TableConstraintKind};
use crate::session::{Connection, Severity};
use crate::types::Value;

impl Connection {
    pub(super) fn add_constraint(
        &mut self,
        table: &Arc<Table>,
        constraint: &TableConstraint,
        text: &str,
    ) -> Result<()> {
        let name = constraint.name.as_ref().map(|name| name.text.clone());
        name.as_deref().map_or(Ok(()), |name| check_free(table, name))?;
        let draft = TableDraft::of(table);
        match &constraint.kind {
            TableConstraintKind::Check(condition) => {
                let mut draft = draft;
                draft.check(constraint.name.as_ref(), condition)?;
                self.check_draft(&mut draft, text)?;
                let added = draft.checks.pop();
                let Some(check) = added else { return Ok(()) };
                self.add_check(table, check.name, check.condition, !constraint.not_valid)
            }
            TableConstraintKind::Unique { columns, nulls_equal, timing, .. } => {
                let columns = draft.positions(columns)?;
                let rules =
                    UniqueRules { deferral: deferral(*timing), primary: false, nulls_equal: *nulls_equal };
                self.add_unique(table, name, &columns, rules)
            }
            TableConstraintKind::PrimaryKey { columns, timing, .. } => {
                let columns = draft.positions(columns)?;
                if deferral(*timing).is_none() {
                    return self.add_primary_key(table, name, columns);
                }
                refuse_second_key(&table.name, &table.key, &table.indexes)?;
                let rules = UniqueRules { deferral: deferral(*timing), primary: true, nulls_equal: false };
                self.add_unique(table, name, &columns, rules)?;
                columns.iter().try_for_each(|&column| self.forbid_nulls(&self.current(table.oid)?, column))
            }
            TableConstraintKind::UsingIndex { timing, .. } if deferral(*timing).is_some() => {
                Err(SqlError::unsupported("deferrable constraints over an existing index are not supported"))
            }
            TableConstraintKind::UsingIndex { index, primary: false, .. } => {
                let known = table.indexes.iter().position(|known| known.name == index.text);
                let Some(position) = known else {
                    let message = format!("index \"{}\" does not exist", index.text);
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                };
                self.redefine(table, |table| table.indexes[position].constraint = true)?;
                match name.filter(|name| *name != index.text) {
                    Some(name) => self.rename_constraint(&self.current(table.oid)?, &index.text, &name),
                    None => Ok(()),
                }
            }
            TableConstraintKind::UsingIndex { index, primary: true, .. } => {
                let found = table.indexes.iter().find(|it| it.name == index.text);
                let Some(found) = found else {
                    let message = format!("index \"{}\" does not exist", index.text);
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                };
                let columns = found.columns.iter().map(|column| column.column).collect();
                self.add_primary_key(table, name, columns)
            }
            TableConstraintKind::ForeignKey { columns, reference } => {
                let columns = draft.referencing(columns)?;
                self.add_foreign_key(table, (name, columns, reference.clone()), !constraint.not_valid)
            }
        }
    }

    pub(super) fn add_check(
        &mut self,
        table: &Arc<Table>,
        name: String,
        condition: String,
        validate: bool,
    ) -> Result<()> {
        if validate {
            self.validate_check(table, &name, &condition)?;
        }
        self.redefine(table, |table| {
            table.checks.push(crate::catalog::Check { name, condition, comment: None })
        })
    }

    pub(in crate::ddl) fn validate_check(
        &mut self,
        table: &Table,
        name: &str,
        condition: &str,
    ) -> Result<()> {
        let sql = format!("select 1 from {} where not ({condition}) limit 1", qualified(table));
        if self.run_own(&sql, Checks::Nothing)?.is_empty() {
            return Ok(());
        }
        let message =
            format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
        Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
            .with_table(table.schema.clone(), table.name.clone())
            .with_constraint(name))
    }

    /// VALIDATE CONSTRAINT: the rows that were there when it was added NOT VALID must meet it, too.
    pub(super) fn validate_constraint(&mut self, table: &Arc<Table>, name: &str) -> Result<()> {
        if let Some(check) = table.checks.iter().find(|check| check.name == name) {
            return self.validate_check(table, name, &check.condition);
        }
        if let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) {
            return self.validate_foreign_key(table, key);
        }
        let is_unique = table.key_name.as_deref() == Some(name)
            || table.indexes.iter().any(|index| index.constraint && index.name == name);
        Err(if is_unique {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                table.name
            );
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        } else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    pub(super) fn add_foreign_key(
        &mut self,
        table: &Arc<Table>,
        declared: crate::ddl::foreign_key::Declared,
        validate: bool,
    ) -> Result<()> {
        let catalog = self.catalog_to_change();
        let draft = TableDraft::of(table);
        let mut keys = self.resolve_references(&draft, &[declared], &catalog)?;
        let Some(key) = keys.pop() else { return Ok(()) };
        if validate {
            self.validate_foreign_key(table, &key)?;
        }
        self.redefine(table, |table| table.foreign_keys.push(key))
    }

    pub(crate) fn validate_foreign_key(
        &mut self,
        table: &Arc<Table>,
        key: &crate::catalog::ForeignKey,
    ) -> Result<()> {
        let other = self.current(key.table)?;
        let column = |table: &Table, position: usize| quote_identifier(&table.columns[position].name);
        let is_given = |&position: &usize| format!("a.{} is not null", column(table, position));
        let given: Vec<String> = key.columns.iter().map(is_given).collect();
        let whole = given.join(" and ");
        // With MATCH FULL, a row with one value refers to what is not there.
        let given = given.join(if key.is_full { " or " } else { " and " });
        let equal: Vec<String> = key
            .columns
            .iter()
            .zip(&key.references)
            .map(|(&own, &theirs)| format!("b.{} = a.{}", column(&other, theirs), column(table, own)))
            .collect();
        let sql = format!(
            "select {whole} from {} a where ({given}) and not exists (select 1 from {} b where {}) limit 1",
            qualified(table),
            qualified(&other),
            equal.join(" and ")
        );
        let found = self.run_own(&sql, Checks::Nothing)?;
        let Some(row) = found.first() else { return Ok(()) };
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, key.name
        );
        let detail = match row.first() {
            Some(Value::Bool(false)) => MIXED_KEY.to_string(),
            _ => format!("A row refers to a key that is not present in table \"{}\".", other.name),
        };
        Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(detail)
            .with_table(table.schema.clone(), table.name.clone())
            .with_constraint(key.name.clone()))
    }

    pub(super) fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        if table.key_name.as_deref() == Some(name) {
            return self.drop_primary_key(table, name, cascade);
        }
        if let Some(index) = table.indexes.iter().find(|index| index.constraint && index.name == name) {
            let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            self.release_constraint(table, (name, &columns), cascade)?;
            let table = &self.current(table.oid)?;
            self.change_engine(table, TableChange::new().drop_index(name), name)?;
            return self.redefine(table, |table| table.indexes.retain(|index| index.name != name));
        }
        let known = table.checks.iter().any(|check| check.name == name)
            || table.foreign_keys.iter().any(|key| key.name == name);
        if known {
            return self.redefine(table, |table| {
                table.checks.retain(|check| check.name != name);
                table.foreign_keys.retain(|key| key.name != name);
            });
        }
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        if if_exists {
            self.environment_mut().add_notice(
                Severity::Notice,
                SqlState::SUCCESSFUL_COMPLETION,
                message + ", skipping",
            );
            return Ok(());
        }
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }
}

/// # Errors
/// 42710: the table has a constraint of this name.
fn check_free(table: &Table, name: &str) -> Result<()> {
    let taken = table.checks.iter().any(|check| check.name == name)
        || table.foreign_keys.iter().any(|key| key.name == name)
        || table.key_name.as_deref() == Some(name);
    if taken {
        let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    Ok(())
}
