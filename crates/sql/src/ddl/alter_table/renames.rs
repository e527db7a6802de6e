//! Relations, constraints and columns that get another name, and the texts that name them.

use std::sync::Arc;

use heddledb::TableChange;

use crate::catalog::rights::CREATE;
use crate::catalog::store::Object;
use crate::catalog::{ColumnOrigin, Relation, Table};
use crate::ddl::create_table::check_column_name;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Name;
use crate::parse::with_renamed_table;
use crate::session::Connection;

impl Connection {
    /// Renames a relation within its schema.
    pub(crate) fn rename_relation(&mut self, relation: &Relation, to: &str) -> Result<()> {
        let catalog = self.catalog_to_change();
        let Some((schema, from)) = catalog.relation_name(relation.oid()).cloned() else { return Ok(()) };
        self.check_relation_owner(relation)?;
        self.check_schema(&schema, CREATE)?;
        self.is_free(&schema, to, false)?;
        let follow = self.queries_naming((relation.oid(), &from), None)?;
        self.rename_alone(relation, (&schema, &from), to)?;
        self.follow_in_queries(follow, &Self::name_in_queries(&schema, to))
    }

    /// Renames a relation without the stored queries that name it.
    fn rename_alone(&mut self, relation: &Relation, (schema, from): (&str, &str), to: &str) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        match relation {
            Relation::Table(table) => {
                let engine_name = self.engine_name(schema, to);
                self.change_engine(table, TableChange::new().rename(engine_name), to)?;
                self.redefine(table, |table| {
                    table.name = to.to_string();
                    let renamed = |text: &mut String| *text = with_renamed_table(text, from, to);
                    table.checks.iter_mut().for_each(|check| renamed(&mut check.condition));
                    table.columns.iter_mut().filter_map(|column| column.origin.text_mut()).for_each(renamed);
                })
            }
            Relation::View(view) => {
                let mut changed = view.as_ref().clone();
                changed.name = to.to_string();
                catalog.remove_relation(schema, from);
                catalog.put_relation(schema, to, Relation::View(Arc::new(changed.clone())));
                self.publish(&[Object::View(changed)], catalog)
            }
            Relation::Sequence(sequence) => {
                let mut changed = sequence.as_ref().clone();
                changed.name = to.to_string();
                catalog.remove_relation(schema, from);
                catalog.put_relation(schema, to, Relation::Sequence(Arc::new(changed.clone())));
                self.publish(&[Object::Sequence(changed)], catalog)
            }
            Relation::Index { table, .. } => {
                let table = self.current(*table)?;
                self.rename_constraint(&table, from, to)
            }
        }
    }

    pub(super) fn rename_constraint(&mut self, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
        let is_index = table.indexes.iter().any(|index| index.name == from);
        if is_index {
            self.is_free(&table.schema.clone(), to, false)?;
            self.change_engine(table, TableChange::new().rename_index(from, to), to)?;
        }
        let known = is_index
            || table.nominal_indexes.iter().any(|index| index.name == from)
            || table.key_name.as_deref() == Some(from)
            || table.checks.iter().any(|check| check.name == from)
            || table.foreign_keys.iter().any(|key| key.name == from);
        if !known {
            let message = format!("constraint \"{from}\" for table \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        self.redefine(table, |table| {
            let rename = |name: &mut String| {
                if name == from {
                    *name = to.to_string();
                }
            };
            table.indexes.iter_mut().for_each(|index| rename(&mut index.name));
            table.nominal_indexes.iter_mut().for_each(|index| rename(&mut index.name));
            table.checks.iter_mut().for_each(|check| rename(&mut check.name));
            table.foreign_keys.iter_mut().for_each(|key| rename(&mut key.name));
            table.key_name.iter_mut().for_each(rename);
        })
    }

    pub(super) fn rename_column(&mut self, table: &Arc<Table>, from: &Name, to: &Name) -> Result<()> {
        let position = self.column_of(table, &from.text)?;
        if table.columns.iter().any(|column| column.name == to.text) {
            let message = format!("column \"{}\" of relation \"{}\" already exists", to.text, table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        check_column_name(&to.text)?;
        let follow = self.queries_naming((table.oid, &table.name), Some((position, &from.text)))?;
        self.rename_in_triggers(table, &from.text, &to.text)?;
        let change = TableChange::new().rename_column(from.text.as_str(), to.text.as_str());
        self.change_engine(table, change, &from.text)?;
        self.redefine(table, |table| {
            table.columns[position].name = to.text.clone();
            let renamed = |text: &mut String| *text = crate::parse::with_renamed(text, &from.text, &to.text);
            table.checks.iter_mut().for_each(|check| renamed(&mut check.condition));
            table.nominal_indexes.iter_mut().flat_map(|index| index.texts_mut()).for_each(renamed);
            for column in &mut table.columns {
                if let ColumnOrigin::Generated(text)
                | ColumnOrigin::IndexKey(text)
                | ColumnOrigin::IndexPredicate(text) = &mut column.origin
                {
                    renamed(text);
                }
            }
        })?;
        self.follow_in_queries(follow, &to.text)
    }

    /// Renames a column in the table's triggers: where they fire at an update of it, and in their conditions.
    fn rename_in_triggers(&mut self, table: &Table, from: &str, to: &str) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let mut changed = Vec::new();
        for trigger in catalog.triggers_of(table.oid).to_vec() {
            let mut trigger = trigger.as_ref().clone();
            trigger.columns.iter_mut().filter(|name| *name == from).for_each(|name| *name = to.to_string());
            if let Some(condition) = &mut trigger.condition {
                *condition = crate::parse::with_renamed(condition, from, to);
            }
            catalog.put_trigger(Arc::new(trigger.clone()));
            changed.push(Object::Trigger(trigger));
        }
        if changed.is_empty() { Ok(()) } else { self.publish(&changed, catalog) }
    }
}
