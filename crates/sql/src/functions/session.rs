//! Functions that ask or change the session: sequences and settings.
//!
//! Invariants: they are volatile, because each call counts: a plan never holds their results.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("nextval(regclass) int8", next_value).volatile(),
    scalar("currval(regclass) int8", current_value).volatile(),
    scalar("lastval() int8", last_value).volatile(),
    scalar("setval(regclass, int8) int8", set_value).volatile(),
    scalar("setval(regclass, int8, bool) int8", set_value).volatile(),
    scalar("current_setting(text) text", current_setting).stable(),
    scalar("current_setting(text, bool) text", current_setting).stable(),
    scalar("set_config(text, text, bool) text", set_config).volatile().nullable(),
];

fn next_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    context.environment.next_value(arguments[0].oid()).map(Value::Int8)
}

fn current_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    context.environment.current_value(arguments[0].oid()).map(Value::Int8)
}

fn last_value(context: &mut FunctionContext<'_>, _arguments: &[Value]) -> Result<Value> {
    context.environment.last_value().map(Value::Int8)
}

fn set_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let is_called = arguments.get(2).is_none_or(Value::bool);
    context.environment.set_value(arguments[0].oid(), arguments[1].int8(), is_called).map(Value::Int8)
}

fn current_setting(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let name = arguments[0].str();
    match context.environment.setting(name) {
        Some(value) => Ok(Value::text(value)),
        None if arguments.get(1).is_some_and(Value::bool) => Ok(Value::Null),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

fn set_config(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    if arguments[0].is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    }
    let value = if arguments[1].is_null() { "" } else { arguments[1].str() };
    let is_local = !arguments[2].is_null() && arguments[2].bool();
    context.environment.change_setting(arguments[0].str(), value, is_local).map(Value::text)
}
