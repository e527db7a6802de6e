//! Members, elements, paths, containment and existence.

use super::raw::{self, Shape};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, scalar};
use crate::interrupt::step;
use crate::types::Value;
use crate::types::jsonb::Jsonb;
use crate::types::text::jsonb_text;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("json_typeof(json) text", |_, v| Ok(Value::text(shape_name(raw::shape(v[0].str()))))),
    scalar("jsonb_typeof(jsonb) text", |_, v| Ok(Value::text(shape_name(shape_of(v[0].as_jsonb()))))),
    scalar("json_array_length(json) int4", |_, v| match raw::shape(v[0].str()) {
        Shape::Array => Ok(Value::Int4(raw::elements(v[0].str()).len() as i32)),
        Shape::Object => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }),
    scalar("jsonb_array_length(jsonb) int4", |_, v| match v[0].as_jsonb() {
        Jsonb::Array(values) => Ok(Value::Int4(values.len() as i32)),
        Jsonb::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }),
    scalar("json_extract_path(json, variadic text[]) json", |_, v| raw_path(v).map(json)),
    scalar("json_extract_path_text(json, variadic text[]) text", |_, v| raw_path(v).and_then(raw_text)),
    scalar("jsonb_extract_path(jsonb, variadic text[]) jsonb", |_, v| Ok(tree(tree_path(v)))),
    scalar("jsonb_extract_path_text(jsonb, variadic text[]) text", |_, v| tree_text(tree_path(v))),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("->(json, text) json", |_, v| raw::member(v[0].str(), v[1].str()).map(json)),
    scalar("->(json, int4) json", |_, v| Ok(json(raw::element(v[0].str(), v[1].int4())))),
    scalar("->>(json, text) text", |_, v| raw::member(v[0].str(), v[1].str()).and_then(raw_text)),
    scalar("->>(json, int4) text", |_, v| raw_text(raw::element(v[0].str(), v[1].int4()))),
    scalar("#>(json, text[]) json", |_, v| raw_path(v).map(json)),
    scalar("#>>(json, text[]) text", |_, v| raw_path(v).and_then(raw_text)),
    scalar("->(jsonb, text) jsonb", |_, v| Ok(tree(member(v[0].as_jsonb(), v[1].str())))),
    scalar("->(jsonb, int4) jsonb", |_, v| Ok(tree(element(v[0].as_jsonb(), v[1].int4())))),
    scalar("->>(jsonb, text) text", |_, v| tree_text(member(v[0].as_jsonb(), v[1].str()))),
    scalar("->>(jsonb, int4) text", |_, v| tree_text(element(v[0].as_jsonb(), v[1].int4()))),
    scalar("#>(jsonb, text[]) jsonb", |_, v| Ok(tree(tree_path(v)))),
    scalar("#>>(jsonb, text[]) text", |_, v| tree_text(tree_path(v))),
    scalar("@>(jsonb, jsonb) bool", |_, v| contains(v[0].as_jsonb(), v[1].as_jsonb()).map(Value::Bool)),
    scalar("<@(jsonb, jsonb) bool", |_, v| contains(v[1].as_jsonb(), v[0].as_jsonb()).map(Value::Bool)),
    scalar("?(jsonb, text) bool", |_, v| Ok(Value::Bool(exists(v[0].as_jsonb(), v[1].str())))),
    scalar("?|(jsonb, text[]) bool", |_, v| {
        Ok(Value::Bool(keys(&v[1]).any(|key| exists(v[0].as_jsonb(), key))))
    }),
    scalar("?&(jsonb, text[]) bool", |_, v| {
        Ok(Value::Bool(keys(&v[1]).all(|key| exists(v[0].as_jsonb(), key))))
    }),
];

/// 22023 with a message.
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The shape of a tree at its top.
pub(super) fn shape_of(value: &Jsonb) -> Shape {
    match value {
        Jsonb::Null => Shape::Null,
        Jsonb::Bool(_) => Shape::Bool,
        Jsonb::Number(_) => Shape::Number,
        Jsonb::String(_) => Shape::String,
        Jsonb::Array(_) => Shape::Array,
        Jsonb::Object(_) => Shape::Object,
    }
}

fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Object => "object",
        Shape::Array => "array",
        Shape::String => "string",
        Shape::Number => "number",
        Shape::Bool => "boolean",
        Shape::Null => "null",
    }
}

fn json(part: Option<&str>) -> Value {
    part.map_or(Value::Null, |part| Value::Json(part.into()))
}

fn raw_text(part: Option<&str>) -> Result<Value> {
    part.map_or(Ok(Value::Null), raw::as_text)
}

fn tree(part: Option<&Jsonb>) -> Value {
    part.map_or(Value::Null, |part| Value::jsonb(part.clone()))
}

/// A tree as text: strings without marks, `null` as nothing.
pub(super) fn tree_text(part: Option<&Jsonb>) -> Result<Value> {
    Ok(match part {
        None | Some(Jsonb::Null) => Value::Null,
        Some(Jsonb::String(text)) => Value::Text(text.clone()),
        Some(other) => Value::text(jsonb_text(other)?),
    })
}

fn member<'t>(value: &'t Jsonb, key: &str) -> Option<&'t Jsonb> {
    match value {
        Jsonb::Object(members) => members.get(key),
        _ => None,
    }
}

fn element(value: &Jsonb, at: i32) -> Option<&Jsonb> {
    // A bare scalar counts as an array of itself here.
    let Jsonb::Array(values) = value else {
        return (value.is_scalar() && matches!(at, 0 | -1)).then_some(value);
    };
    let place = if at < 0 { values.len().checked_sub(at.unsigned_abs() as usize)? } else { at as usize };
    values.get(place)
}

/// A path's step into an array; PostgreSQL reads it with C's `strtol`.
fn index(step: &str) -> Option<i32> {
    step.trim_start().parse().ok()
}

/// The steps of a path that are not NULL; none if one is.
fn steps(path: &Value) -> Option<Vec<&str>> {
    let step = |value| if Value::is_null(value) { None } else { Some(value.str()) };
    path.as_array().values.iter().map(step).collect()
}

fn raw_path(v: &[Value]) -> Result<Option<&str>> {
    let Some(steps) = steps(&v[1]) else { return Ok(None) };
    steps.into_iter().try_fold(Some(v[0].str()), |part, step| {
        let Some(part) = part else { return Ok(None) };
        match raw::shape(part) {
            Shape::Object => raw::member(part, step),
            Shape::Array => Ok(index(step).and_then(|at| raw::element(part, at))),
            _ => Ok(None),
        }
    })
}

fn tree_path(v: &[Value]) -> Option<&Jsonb> {
    steps(&v[1])?.into_iter().try_fold(v[0].as_jsonb(), |part, step| match part {
        Jsonb::Object(members) => members.get(step),
        Jsonb::Array(_) => element(part, index(step)?),
        _ => None,
    })
}

fn keys(array: &Value) -> impl Iterator<Item = &str> {
    array.as_array().values.iter().filter(|value| !value.is_null()).map(Value::str)
}

/// Returns true if a text is a key of an object, an element of an array, or the string itself.
fn exists(value: &Jsonb, key: &str) -> bool {
    let is_key = |value: &Jsonb| matches!(value, Jsonb::String(text) if **text == *key);
    match value {
        Jsonb::Object(members) => members.get(key).is_some(),
        Jsonb::Array(values) => values.iter().any(is_key),
        scalar => is_key(scalar),
    }
}

/// Returns true if all of the right document is in the left one. An array at the top also contains a bare scalar.
fn contains(left: &Jsonb, right: &Jsonb) -> Result<bool> {
    match (left, right) {
        (Jsonb::Array(values), scalar) if scalar.is_scalar() => {
            Ok(values.iter().any(|value| value == scalar))
        }
        (left, right) => contains_part(left, right),
    }
}

fn contains_part(left: &Jsonb, right: &Jsonb) -> Result<bool> {
    step()?;
    match (left, right) {
        (Jsonb::Object(members), Jsonb::Object(wanted)) => {
            for (key, value) in wanted.iter() {
                let Some(found) = members.get(key) else { return Ok(false) };
                if !contains_part(found, value)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Jsonb::Array(values), Jsonb::Array(wanted)) => {
            for wanted in wanted {
                if !is_among(values, wanted)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (left, right) => Ok(left.is_scalar() && right.is_scalar() && left == right),
    }
}

/// Returns true if one of the values contains the wanted one.
fn is_among(values: &[Jsonb], wanted: &Jsonb) -> Result<bool> {
    for value in values {
        if contains_part(value, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads a path's step into an array while a document is changed: wrong ones are errors there.
pub(super) fn array_index(step: &str, position: usize) -> Result<i64> {
    step.parse::<i32>().map(i64::from).map_err(|_| {
        let message = format!("path element at position {position} is not an integer: \"{step}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })
}
