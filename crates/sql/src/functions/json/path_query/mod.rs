//! Functions and operators that evaluate a jsonpath.
//!
//! ```text
//! evaluate    items, accessors and arithmetic       conditions   predicates in three-valued logic
//! methods     `.size()`, `.double()` and kin        moments      `.datetime()`, and how its results compare
//! ```
//!
//! Source: PostgreSQL 15, `jsonpath_exec.c`.

mod conditions;
mod evaluate;
mod methods;
mod moments;

use self::evaluate::{Evaluation, Failure};
use super::paths::invalid;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::types::Value;
use crate::types::jsonb::Jsonb;
use crate::types::jsonpath::compiled;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar(
        "jsonb_path_exists(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) bool",
        |c, v| exists(c, v, false),
    ),
    scalar(
        "jsonb_path_exists_tz(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) bool",
        |c, v| exists(c, v, true),
    )
    .stable(),
    scalar(
        "jsonb_path_match(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) bool",
        |c, v| matches(c, v, false),
    ),
    scalar(
        "jsonb_path_match_tz(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) bool",
        |c, v| matches(c, v, true),
    )
    .stable(),
    set(
        "jsonb_path_query(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) setof jsonb",
        |c, v| rows(c, v, false),
    ),
    set(
        "jsonb_path_query_tz(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) setof jsonb",
        |c, v| rows(c, v, true),
    )
    .stable(),
    scalar(
        "jsonb_path_query_array(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) jsonb",
        |c, v| Ok(Value::jsonb(Jsonb::Array(items(c, v, false)?))),
    ),
    scalar(
        "jsonb_path_query_array_tz(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) jsonb",
        |c, v| Ok(Value::jsonb(Jsonb::Array(items(c, v, true)?))),
    )
    .stable(),
    scalar(
        "jsonb_path_query_first(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) jsonb",
        |c, v| first(c, v, false),
    ),
    scalar(
        "jsonb_path_query_first_tz(target jsonb, path jsonpath, vars jsonb = '{}', silent bool = false) jsonb",
        |c, v| first(c, v, true),
    )
    .stable(),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("@?(jsonb, jsonpath) bool", |c, v| {
        exists(c, &[v[0].clone(), v[1].clone(), Value::Null, Value::Bool(true)], false)
    }),
    scalar("@@(jsonb, jsonpath) bool", |c, v| {
        matches(c, &[v[0].clone(), v[1].clone(), Value::Null, Value::Bool(true)], false)
    }),
];

/// Runs something over an evaluation; `None` if it failed and is silent.
fn evaluated<T>(
    context: &FunctionContext<'_>,
    v: &[Value],
    uses_zone: bool,
    run: impl FnOnce(&mut Evaluation<'_, '_>, &crate::types::jsonpath::Path) -> Result<T, Failure>,
) -> Result<Option<T>> {
    let path = compiled(v[1].str())?;
    let variables = match &v[2] {
        Value::Null => None,
        given => match given.as_jsonb() {
            Jsonb::Object(members) => Some(members),
            _ => {
                return Err(invalid("\"vars\" argument is not an object").with_detail(
                    "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.",
                ));
            }
        },
    };
    let mut evaluation = Evaluation {
        root: v[0].as_jsonb(),
        variables,
        is_strict: path.is_strict,
        ignores_structure: !path.is_strict,
        throws: !v[3].bool(),
        current: None,
        array_size: None,
        uses_zone,
        formats: context.formats(),
        now: context.environment.transaction_start(),
    };
    match run(&mut evaluation, &path) {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Silent) => Ok(None),
        Err(Failure::Error(error)) => Err(error),
    }
}

fn exists(context: &mut FunctionContext<'_>, v: &[Value], uses_zone: bool) -> Result<Value> {
    let found = evaluated(context, v, uses_zone, |evaluation, path| {
        if !path.is_strict {
            return evaluation.node(&path.root, None);
        }
        // Strict: an error behind the first item counts.
        let mut found = Vec::new();
        evaluation.node(&path.root, Some(&mut found))?;
        Ok(!found.is_empty())
    })?;
    Ok(found.map_or(Value::Null, Value::Bool))
}

/// All items; an evaluation that fails silently has those that it found before.
fn items(context: &mut FunctionContext<'_>, v: &[Value], uses_zone: bool) -> Result<Vec<Jsonb>> {
    let found = evaluated(context, v, uses_zone, |evaluation, path| {
        let mut found = Vec::new();
        let ended = evaluation.node(&path.root, Some(&mut found));
        let documents = found.into_iter().map(|item| item.into_document(evaluation.formats)).collect();
        match ended {
            Ok(_) | Err(Failure::Silent) => Ok(documents),
            Err(error) => Err(error),
        }
    })?;
    Ok(found.unwrap_or_default())
}

fn first(context: &mut FunctionContext<'_>, v: &[Value], uses_zone: bool) -> Result<Value> {
    Ok(items(context, v, uses_zone)?.into_iter().next().map_or(Value::Null, Value::jsonb))
}

fn rows(context: &mut FunctionContext<'_>, v: &[Value], uses_zone: bool) -> Result<Box<dyn Rows>> {
    let items = items(context, v, uses_zone)?;
    Ok(Box::new(RowsOf(items.into_iter().map(|item| Ok(Value::jsonb(item))))))
}

fn matches(context: &mut FunctionContext<'_>, v: &[Value], uses_zone: bool) -> Result<Value> {
    match items(context, v, uses_zone)?.as_slice() {
        [Jsonb::Bool(value)] => Ok(Value::Bool(*value)),
        [Jsonb::Null] => Ok(Value::Null),
        _ if v[3].bool() => Ok(Value::Null),
        _ => {
            let message = "single boolean result is expected";
            Err(SqlError::new(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, message))
        }
    }
}
