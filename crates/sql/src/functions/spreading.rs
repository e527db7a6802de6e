//! Calls `f(…, VARIADIC array)` of functions whose last argument is VARIADIC "any": the array's elements become the
//! last arguments.
//!
//! Invariants: these entries are found by [`spreading`] only; a call without VARIADIC never reaches them. A NULL array
//! makes the result NULL, but in `format`, where it means no arguments.

use std::sync::LazyLock;

use super::definition::{Definition, Function, FunctionContext, scalar};
use super::registry::functions_named;
use crate::error::{Result, SqlError};
use crate::types::{Type, Value};

const DEFINITIONS: &[Definition] = &[
    scalar("concat(anyarray) text", |c, v| spread(c, v, "concat")).nullable().stable(),
    scalar("concat_ws(text, anyarray) text", |c, v| spread(c, v, "concat_ws")).nullable().stable(),
    scalar("format(text, anyarray) text", |c, v| spread(c, v, "format")).nullable().stable(),
    scalar("json_build_array(anyarray) json", |c, v| spread(c, v, "json_build_array")).nullable().stable(),
    scalar("jsonb_build_array(anyarray) jsonb", |c, v| spread(c, v, "jsonb_build_array")).nullable().stable(),
    scalar("json_build_object(anyarray) json", |c, v| spread(c, v, "json_build_object")).nullable().stable(),
    scalar("jsonb_build_object(anyarray) jsonb", |c, v| spread(c, v, "jsonb_build_object"))
        .nullable()
        .stable(),
    scalar("num_nulls(anyarray) int4", |c, v| spread(c, v, "num_nulls")).nullable(),
    scalar("num_nonnulls(anyarray) int4", |c, v| spread(c, v, "num_nonnulls")).nullable(),
];

static FUNCTIONS: LazyLock<Vec<Function>> =
    LazyLock::new(|| DEFINITIONS.iter().map(|it| it.parse()).collect());

/// The entries with this name that accept an array in place of their VARIADIC "any" arguments.
pub fn spreading(name: &str) -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().filter(move |function| function.name == name)
}

fn spread(context: &mut FunctionContext<'_>, arguments: &[Value], name: &str) -> Result<Value> {
    let Some((last, first)) = arguments.split_last() else { return Ok(Value::Null) };
    if last.is_null() && name != "format" {
        return Ok(Value::Null);
    }
    let mut values = first.to_vec();
    let mut types: Vec<Type> = (0..first.len()).map(|at| context.argument_type(at)).collect();
    if !last.is_null() {
        let array = last.as_array();
        values.extend(array.values.iter().cloned());
        types.resize(values.len(), array.element);
    }
    let takes = |it: &&Function| it.is_variadic && it.arguments.last() == Some(&Type::Any);
    let run = functions_named(name).find(takes).and_then(Function::scalar);
    let run = run.ok_or_else(|| SqlError::internal("a spread function has no VARIADIC form"))?;
    let environment = &mut *context.environment;
    let mut inner = FunctionContext { environment, argument_types: &types, result_type: context.result_type };
    run(&mut inner, &values)
}
