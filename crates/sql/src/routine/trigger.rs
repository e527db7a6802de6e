//! Triggers: their conditions, and the functions that they call.
//!
//! # Invariants
//! - A trigger runs inside the statement that fires it, with its access to rows: its effects commit and abort with the
//!   statement.
//!
//! Source: PostgreSQL 15, `trigger.c`, `plpgsql_exec_trigger` in `pl_exec.c`.

use std::sync::Arc;

use crate::bind::{NameConflict, Names, VariableRef};
use crate::catalog::{Column, Event, ResultColumn, Table, Trigger, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse;
use crate::routine::call::trigger_program;
use crate::routine::plpgsql;
use crate::routine::query::{Door, Execution, Frame, Query};
use crate::routine::value::record;
use crate::run::Access;
use crate::session::SessionEnvironment;
use crate::types::array::ArrayValue;
use crate::types::record::RecordField;
use crate::types::{Type, Value};

/// A trigger that fires.
pub struct Firing<'a> {
    pub(crate) trigger: &'a Trigger,
    pub(crate) table: &'a Arc<Table>,
    pub(crate) event: Event,
    /// The row as it was, of an update and a delete for each row.
    pub(crate) old: Option<&'a [Value]>,
    /// The row as it will be, of an insert and an update for each row.
    pub(crate) new: Option<&'a [Value]>,
    /// All rows that the statement has changed, as they were and as they are.
    pub(crate) changed: Option<&'a ChangedRows>,
}

/// The rows that a statement has changed by one kind of event.
#[derive(Clone, Default)]
pub struct ChangedRows {
    pub(crate) old: Arc<Vec<Value>>,
    pub(crate) new: Arc<Vec<Value>>,
}

/// A transition table, as the statements of a trigger's function name it.
#[derive(Clone)]
pub(crate) struct Transition {
    pub(crate) name: String,
    pub(crate) columns: Vec<ResultColumn>,
    /// Its rows, as records.
    pub(crate) rows: Arc<Vec<Value>>,
}

/// The transition tables of a trigger that fires.
fn transitions(firing: &Firing<'_>, columns: &[ResultColumn]) -> Vec<Transition> {
    let Some(changed) = firing.changed else { return Vec::new() };
    let tables = [(&firing.trigger.old_table, &changed.old), (&firing.trigger.new_table, &changed.new)];
    let named = tables.into_iter().filter_map(|(name, rows)| Some((name.clone()?, rows)));
    named.map(|(name, rows)| Transition { name, columns: columns.to_vec(), rows: rows.clone() }).collect()
}

/// The columns of a table's rows as triggers see them.
pub(super) fn columns_of(table: &Table) -> Vec<ResultColumn> {
    let column =
        |it: &Column| ResultColumn { name: it.name.clone(), ty: it.ty, modifier: it.modifier, domain: None };
    table.visible().iter().map(column).collect()
}

/// The fields of a table's rows.
pub(crate) fn fields_of(table: &Table) -> Arc<[RecordField]> {
    plpgsql::fields_of(&columns_of(table))
}

/// OLD and NEW, as a condition names them.
pub(super) struct Rows {
    fields: Arc<[RecordField]>,
    /// OLD and NEW, in this order.
    rows: [Value; 2],
}

impl Names for Rows {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        let slot = match parts.first() {
            Some(&"old") => 0,
            Some(&"new") => 1,
            _ => return Ok(None),
        };
        let name = match parts {
            [_] => return Ok(Some((VariableRef { slot, field: None }, Type::Record))),
            [_, name] => name,
            _ => return Ok(None),
        };
        let at = self.fields.iter().position(|field| *field.name == **name).ok_or_else(|| {
            let message = format!("column {}.{name} does not exist", parts[0]);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok(Some((VariableRef { slot, field: Some(at) }, self.fields[at].kind)))
    }

    fn fields(&self, _parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        Ok(None)
    }

    fn conflict(&self) -> NameConflict {
        NameConflict::Error
    }
}

impl Frame for Rows {
    fn values(&self) -> &[Value] {
        &self.rows
    }

    fn shape(&self, _slot: usize) -> Option<Arc<[RecordField]>> {
        Some(self.fields.clone())
    }
}

pub(super) fn condition_of(text: &str) -> Result<Query> {
    let text = format!("SELECT {text}");
    match parse(&text)?.pop() {
        Some(parsed) => Ok(Query::of_definition(parsed.statement, &text)),
        None => Err(SqlError::internal("a trigger's condition is empty")),
    }
}

/// Returns true if a query was made of this condition.
pub(super) fn is_condition(query: &Query, condition: &str) -> bool {
    query.text.strip_prefix("SELECT ").is_some_and(|text| text == condition.trim_end())
}

pub(super) fn rows_of(table: &Table, old: Option<&[Value]>, new: Option<&[Value]>) -> Rows {
    let fields = plpgsql::fields_of(&columns_of(table));
    let rows = [old, new].map(|row| row_of(&fields, row));
    Rows { fields, rows }
}

/// A row as a record of these fields; NULL, if there is none.
pub(super) fn row_of(fields: &Arc<[RecordField]>, row: Option<&[Value]>) -> Value {
    row.map_or(Value::Null, |row| record(fields, row[..fields.len()].to_vec()))
}

/// OLD and NEW of a table, as a condition names them.
pub(crate) fn names_of_rows(table: &Table) -> impl Names + use<> {
    rows_of(table, None, None)
}

/// Checks a trigger that is created: its condition binds, and names no rows that there are not.
///
/// # Errors
/// Class 42.
pub(crate) fn check(environment: &mut SessionEnvironment, trigger: &Trigger, table: &Table) -> Result<()> {
    let Some(text) = &trigger.condition else { return Ok(()) };
    condition_of(text)?.plan(environment, &rows_of(table, None, None))?;
    let names = |row: &str| crate::parse::names_row(text, row);
    let wrong = match () {
        () if !trigger.for_each_row && (names("old") || names("new")) => {
            "statement trigger's WHEN condition cannot reference column values"
        }
        () if trigger.on_insert && names("old") => {
            "INSERT trigger's WHEN condition cannot reference OLD values"
        }
        () if trigger.on_delete && names("new") => {
            "DELETE trigger's WHEN condition cannot reference NEW values"
        }
        () => return Ok(()),
    };
    Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, wrong))
}

/// Fires a trigger, and returns the row to write instead of the one given; `None` if the row is left out. Only triggers
/// before the event and for each row return a row.
///
/// # Errors
/// The function's.
pub(crate) fn fire(
    environment: &mut SessionEnvironment,
    firing: &Firing<'_>,
    access: Access<'_>,
) -> Result<Option<Vec<Value>>> {
    let unchanged = || Some(firing.new.or(firing.old).unwrap_or_default().to_vec());
    if let Some(text) = &firing.trigger.condition {
        let query = environment.routines.condition(firing.trigger.oid, text)?;
        let mut execution =
            Execution { environment, door: Door::Attempt(access.of_function(true)), may_write: false };
        let rows = rows_of(firing.table, firing.old, firing.new);
        if !matches!(query.evaluate(&mut execution, &rows)?.0, Value::Bool(true)) {
            return Ok(unchanged());
        }
    }
    let columns = columns_of(firing.table);
    let fields = plpgsql::fields_of(&columns);
    let mut variables = vec![("old", row_of(&fields, firing.old)), ("new", row_of(&fields, firing.new))];
    variables.extend(about(firing.trigger, firing.table, firing.event));
    let outer = std::mem::replace(&mut environment.transitions, transitions(firing, &columns));
    let of = (firing.trigger.function, firing.trigger.oid);
    let returned = trigger_program(environment, of, &variables, &columns, access);
    environment.transitions = outer;
    let returned = returned?;
    if firing.trigger.time == TriggerTime::After || !firing.trigger.for_each_row {
        return Ok(unchanged());
    }
    let Some(values) = returned else { return Ok(None) };
    let mut row = unchanged().unwrap_or_default();
    if firing.event != Event::Delete {
        row.splice(..values.len(), values);
    }
    Ok(Some(row))
}

/// The variables that tell a function what fires it.
pub(super) fn about(trigger: &Trigger, table: &Table, event: Event) -> Vec<(&'static str, Value)> {
    let arguments: Vec<Value> = trigger.arguments.iter().map(Value::text).collect();
    let count = i32::try_from(arguments.len()).unwrap_or(i32::MAX);
    vec![
        ("tg_name", Value::text(&trigger.name)),
        ("tg_when", Value::text(if trigger.time == TriggerTime::Before { "BEFORE" } else { "AFTER" })),
        ("tg_level", Value::text(if trigger.for_each_row { "ROW" } else { "STATEMENT" })),
        ("tg_op", Value::text(event.name())),
        ("tg_relid", Value::Oid(table.oid)),
        ("tg_relname", Value::text(&table.name)),
        ("tg_table_name", Value::text(&table.name)),
        ("tg_table_schema", Value::text(&table.schema)),
        ("tg_nargs", Value::Int4(count)),
        ("tg_argv", Value::array(ArrayValue::list_from(Type::Text, 0, arguments))),
    ]
}
