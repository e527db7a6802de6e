//! Labels by hand: `heddle_split` and `heddle_unsplit`.
//!
//! # Invariants
//! A label belongs to the database that is open, not to its files: it is set again after a restart. Only the owner of a table labels its
//! rows.

use heddledb::{SplitOperation, SplitPolicy, Value as Stored, ValueRef};

use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::storage::encode;
use crate::types::text::{from_text, to_text};
use crate::types::{Environment, Type, Value};

/// The functions.
pub(crate) const SPLITTING: &[Definition] = &[
    scalar("heddle_split(regclass, any, text, text) void", split).volatile(),
    scalar("heddle_unsplit(regclass, any, text) void", unsplit).volatile(),
];

/// Labels a column of a row for an operation.
fn split(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let operation = operation_of(values[3].str())?;
    on_row(context, values, |database, table, (key, column)| {
        let name = &table.columns[column].name;
        let handle = table.engine_column(column)?;
        if database.split_policy(&table.engine, handle)? == SplitPolicy::Never {
            let message =
                format!("column \"{name}\" of relation \"{}\" is set never to be split", table.name);
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            return Err(error.with_hint("Use ALTER TABLE … ALTER COLUMN … RESET (heddle.split)."));
        }
        Ok(database.split(&table.engine, key, handle, operation)?)
    })
}

/// Takes the label of a column of a row away.
fn unsplit(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    on_row(context, values, |database, table, (key, column)| {
        Ok(database.unsplit(&table.engine, key, table.engine_column(column)?)?)
    })
}

fn operation_of(name: &str) -> Result<SplitOperation> {
    let wanted = name.to_lowercase().replace([' ', '_'], "-");
    SplitOperation::all().find(|operation| operation.name() == wanted).ok_or_else(|| {
        let all: Vec<String> = SplitOperation::all().map(SplitOperation::name).collect();
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized operation: \"{name}\""))
            .with_hint(format!("Available operations: {}.", all.join(", ")))
    })
}

/// Calls `act` with the table, the key and the position of the column that the arguments name.
fn on_row(
    context: &mut FunctionContext<'_>,
    values: &[Value],
    act: impl FnOnce(&heddledb::Database, &Table, (&[ValueRef<'_>], usize)) -> Result<()>,
) -> Result<Value> {
    let Value::Oid(oid) = values[0] else { return Ok(Value::Null) };
    let Some(system) = context.environment.system_catalog() else {
        return Err(SqlError::internal("labels need a session"));
    };
    let Some(table) = system.objects().table_by_oid(oid).cloned() else {
        let name = values[0].clone();
        let shown = to_text(context.environment, Type::Regclass, &name)?;
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a table")));
    };
    if !system.owns(&table.rights) {
        let message = format!("must be owner of table {}", table.name);
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let database = system.session.shared().database.clone();
    let name = values[2].str();
    let Some(column) = table.columns.iter().position(|column| column.name == name) else {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let key = key_of(context.environment, &table, (context.argument_types[1], &values[1]))?;
    let key: Vec<ValueRef<'_>> = key.iter().map(ValueRef::from).collect();
    act(&database, &table, (&key, column))?;
    Ok(Value::Void)
}

/// The key that a value names: a row of as many values as the primary key has columns, or the only one.
fn key_of(environment: &dyn Environment, table: &Table, given: (Type, &Value)) -> Result<Vec<Stored>> {
    if table.key.is_empty() {
        let message = format!("table \"{}\" has no primary key, by which a row could be named", table.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let parts: Vec<(Type, &Value)> = match given {
        (_, Value::Record(record)) => {
            record.fields.iter().map(|field| field.kind).zip(&record.values[..]).collect()
        }
        one => vec![one],
    };
    if parts.len() != table.key.len() {
        let (has, found) = (table.key.len(), parts.len());
        let message =
            format!("the primary key of \"{}\" has {has} columns, and {found} values are given", table.name);
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        return Err(error.with_hint("Give the values of a key of several columns as a row: ROW(1, 'a')."));
    }
    let mut key = Vec::with_capacity(parts.len());
    for ((ty, value), &column) in parts.into_iter().zip(&table.key) {
        let column = &table.columns[column];
        let (wanted, modifier) = (column.ty, column.modifier);
        if value.is_null() {
            let message = format!("column \"{}\" of a primary key is never NULL", column.name);
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        let value = match ty == wanted && modifier.is_none() {
            true => value.clone(),
            false => from_text(environment, wanted, modifier, &to_text(environment, ty, value)?)?,
        };
        key.push(encode(wanted, modifier, &value)?);
    }
    Ok(key)
}
