//! Triggers: CREATE, ALTER and DROP.
//!
//! Source: PostgreSQL 15, `trigger.c`.

use std::sync::Arc;

use crate::catalog::rights::{EXECUTE, TRIGGER};
use crate::catalog::store::Object;
use crate::catalog::{Relation, Table, Trigger, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateTrigger, Name, ObjectName, TriggerChange};
use crate::session::{Connection, Severity};
use crate::types::Type;

fn missing(trigger: &str, table: &str) -> String {
    format!("trigger \"{trigger}\" for table \"{table}\" does not exist")
}

impl Connection {
    fn table_of_trigger(&self, name: &ObjectName) -> Result<Arc<Table>> {
        match self.find_relation(name)? {
            Relation::Table(table) if table.stored_query.is_none() => Ok(table),
            _ => {
                let message = format!("\"{}\" is not a table", name.last());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_detail("Triggers on views are not supported."))
            }
        }
    }

    pub(crate) fn create_trigger(&mut self, create: &CreateTrigger) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let table = self.table_of_trigger(&create.table)?;
        self.check_relation(&Relation::Table(table.clone()), TRIGGER)?;
        let name = create.name.text.clone();
        let known = catalog.triggers_of(table.oid).iter().find(|trigger| trigger.name == name).cloned();
        if known.is_some() && !create.or_replace {
            let message = format!("trigger \"{name}\" for relation \"{}\" already exists", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let path = self.environment().path();
        self.environment().check_usage_of(&create.function)?;
        let overloads = catalog.find_routines(create.function.schema(), create.function.last(), &path);
        let Some(function) = overloads.iter().find(|routine| routine.input_types().is_empty()) else {
            let message = format!("function {}() does not exist", create.function);
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        self.check_routine(function, EXECUTE)?;
        if function.result != Type::Trigger {
            let message = format!("function {} must return type trigger", function.name);
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        for column in &create.columns {
            if !table.visible().iter().any(|known| known.name == column.text) {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", column.text, table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            }
        }
        check_transition_tables(create)?;
        if create.on_truncate && create.for_each_row {
            return Err(SqlError::unsupported("TRUNCATE FOR EACH ROW triggers are not supported"));
        }
        if create.is_constraint && !(create.for_each_row && create.time == TriggerTime::After) {
            let message = "constraint triggers must be AFTER ROW triggers";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let condition =
            create.condition.as_ref().map(|it| self.condition_text(&it.text, &table)).transpose()?;
        let trigger = Trigger {
            oid: catalog.new_oid(),
            table: table.oid,
            name,
            time: create.time,
            for_each_row: create.for_each_row,
            on_insert: create.on_insert,
            on_update: create.on_update,
            on_delete: create.on_delete,
            columns: create.columns.iter().map(|column| column.text.clone()).collect(),
            condition,
            function: function.oid,
            arguments: create.arguments.clone(),
            comment: None,
            on_truncate: create.on_truncate,
            old_table: create.old_table.as_ref().map(|name| name.text.clone()),
            new_table: create.new_table.as_ref().map(|name| name.text.clone()),
            is_disabled: false,
            is_constraint: create.is_constraint,
            is_deferrable: create.is_deferrable,
            is_deferred: create.is_deferred,
        };
        crate::routine::trigger::check(self.environment_mut(), &trigger, &table)?;
        if let Some(known) = known {
            catalog.remove_trigger(known.oid);
            self.delete_definitions(&[known.oid])?;
        }
        catalog.put_trigger(Arc::new(trigger.clone()));
        self.publish(&[Object::Trigger(trigger)], catalog)?;
        Ok("CREATE TRIGGER")
    }

    /// ENABLE and DISABLE TRIGGER: one, or all.
    pub(crate) fn enable_triggers(
        &mut self,
        table: &Table,
        name: Option<&Name>,
        is_enabled: bool,
    ) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let (mut changed, mut is_known) = (Vec::new(), name.is_none());
        for trigger in catalog.triggers_of(table.oid).to_vec() {
            if name.is_some_and(|name| name.text != trigger.name) {
                continue;
            }
            is_known = true;
            let trigger = Trigger { is_disabled: !is_enabled, ..trigger.as_ref().clone() };
            catalog.put_trigger(Arc::new(trigger.clone()));
            changed.push(Object::Trigger(trigger));
        }
        if let Some(name) = name.filter(|_| !is_known) {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, missing(&name.text, &table.name)));
        }
        if changed.is_empty() { Ok(()) } else { self.publish(&changed, catalog) }
    }

    pub(crate) fn change_trigger(&mut self, change: &TriggerChange) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let tag = if change.to.is_some() { "ALTER TRIGGER" } else { "DROP TRIGGER" };
        let found = self.table_of_trigger(&change.table);
        if let Ok(table) = &found {
            let what = if change.to.is_some() { "table" } else { "relation" };
            self.check_owner(&table.rights, what, &table.name)?;
        }
        let (name, table) = (&change.name.text, change.table.last());
        let known = match &found {
            Ok(table) => catalog.triggers_of(table.oid).iter().find(|trigger| trigger.name == *name).cloned(),
            Err(_) => None,
        };
        let Some(known) = known else {
            if !change.if_exists {
                found?;
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, missing(name, table)));
            }
            let message = match found {
                Ok(_) => format!("{}, skipping", missing(name, table).replace("for table", "for relation")),
                Err(_) => format!("relation \"{table}\" does not exist, skipping"),
            };
            self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
            return Ok(tag);
        };
        catalog.remove_trigger(known.oid);
        let Some(to) = &change.to else {
            self.publish(&[], catalog)?;
            self.delete_definitions(&[known.oid])?;
            return Ok(tag);
        };
        if catalog.triggers_of(known.table).iter().any(|trigger| trigger.name == to.text) {
            let message = format!("trigger \"{}\" for relation \"{table}\" already exists", to.text);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let renamed = Trigger { name: to.text.clone(), ..known.as_ref().clone() };
        catalog.put_trigger(Arc::new(renamed.clone()));
        self.publish(&[Object::Trigger(renamed)], catalog)?;
        Ok(tag)
    }
}

/// Refuses transition tables that a trigger cannot have.
fn check_transition_tables(create: &CreateTrigger) -> Result<()> {
    let named = [&create.old_table, &create.new_table];
    if named.iter().all(|name| name.is_none()) {
        return Ok(());
    }
    let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    let events = [create.on_insert, create.on_update, create.on_delete, create.on_truncate];
    if create.time != TriggerTime::After {
        return wrong("transition table name can only be specified for an AFTER trigger");
    }
    if create.on_truncate {
        return wrong("TRUNCATE triggers with transition tables are not supported");
    }
    if events.iter().filter(|event| **event).count() != 1 {
        return Err(SqlError::unsupported(
            "transition tables cannot be specified for triggers with more than one event",
        ));
    }
    if !create.columns.is_empty() {
        return Err(SqlError::unsupported(
            "transition tables cannot be specified for triggers with column lists",
        ));
    }
    if create.new_table.is_some() && create.on_delete {
        return wrong("NEW TABLE can only be specified for an INSERT or UPDATE trigger");
    }
    if create.old_table.is_some() && create.on_insert {
        return wrong("OLD TABLE can only be specified for a DELETE or UPDATE trigger");
    }
    let same = |(old, new): (&Name, &Name)| old.text == new.text;
    if create.old_table.as_ref().zip(create.new_table.as_ref()).is_some_and(same) {
        return wrong("OLD TABLE name and NEW TABLE name cannot be the same");
    }
    Ok(())
}
