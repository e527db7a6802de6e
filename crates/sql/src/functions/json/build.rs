//! Documents made of values, and documents with parts set, inserted or deleted.

use std::sync::Arc;

use hashbrown::HashSet;

use super::convert::{composed_json, composed_jsonb, json_text, jsonb_of, members, object_of, write_json};
use super::paths::{array_index, invalid};
use super::raw;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::stack;
use crate::types::Value;
use crate::types::array::subscript_error;
use crate::types::jsonb::{Jsonb, Members};
use crate::types::text::{pretty_text, push_json_string};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("to_json(anyelement) json", |c, v| {
        json_text(c.environment, c.argument_type(0), &v[0]).and_then(composed_json)
    })
    .stable(),
    scalar("to_jsonb(anyelement) jsonb", |c, v| {
        jsonb_of(c.environment, c.argument_type(0), &v[0]).map(Value::jsonb)
    })
    .stable(),
    scalar("row_to_json(record) json", |c, v| lines(c, &v[0], false)).stable(),
    scalar("row_to_json(record, bool) json", |c, v| lines(c, &v[0], v[1].bool())).stable(),
    scalar("array_to_json(anyarray) json", |c, v| lines(c, &v[0], false)).stable(),
    scalar("array_to_json(anyarray, bool) json", |c, v| lines(c, &v[0], v[1].bool())).stable(),
    scalar("json_build_array() json", |_, _| Ok(Value::Json("[]".into()))).nullable().stable(),
    scalar("json_build_array(variadic any) json", json_build_array).nullable().stable(),
    scalar("jsonb_build_array() jsonb", |_, _| Ok(Value::jsonb(Jsonb::Array(Vec::new()))))
        .nullable()
        .stable(),
    scalar("jsonb_build_array(variadic any) jsonb", jsonb_build_array).nullable().stable(),
    scalar("json_build_object() json", |_, _| Ok(Value::Json("{}".into()))).nullable().stable(),
    scalar("json_build_object(variadic any) json", json_build_object).nullable().stable(),
    scalar("jsonb_build_object() jsonb", |_, _| Ok(Value::jsonb(Jsonb::Object(Members::default()))))
        .nullable()
        .stable(),
    scalar("jsonb_build_object(variadic any) jsonb", jsonb_build_object).nullable().stable(),
    scalar("json_object(text[]) json", |_, v| text_pairs(v).map(|pairs| json_object(&pairs))),
    scalar("json_object(text[], text[]) json", |_, v| text_pairs(v).map(|pairs| json_object(&pairs))),
    scalar("jsonb_object(text[]) jsonb", |_, v| text_pairs(v).map(jsonb_object)),
    scalar("jsonb_object(text[], text[]) jsonb", |_, v| text_pairs(v).map(jsonb_object)),
    scalar("json_strip_nulls(json) json", |_, v| {
        let mut text = String::new();
        raw::without_nulls(v[0].str(), &mut text)?;
        Ok(Value::Json(text.into()))
    }),
    scalar("jsonb_strip_nulls(jsonb) jsonb", |_, v| Ok(Value::jsonb(without_nulls(v[0].as_jsonb())))),
    scalar("jsonb_pretty(jsonb) text", |_, v| pretty_text(v[0].as_jsonb()).map(Value::text)),
    scalar(
        "jsonb_set(jsonb_in jsonb, path text[], replacement jsonb, create_if_missing bool = true) jsonb",
        |_, v| change(v, if v[3].bool() { Change::SetOrCreate } else { Change::Set }),
    ),
    scalar(
        "jsonb_set_lax(jsonb_in jsonb, path text[], replacement jsonb, create_if_missing bool = true, null_value_treatment text = 'use_json_null') jsonb",
        set_lax,
    )
    .nullable(),
    scalar(
        "jsonb_insert(jsonb_in jsonb, path text[], replacement jsonb, insert_after bool = false) jsonb",
        |_, v| change(v, if v[3].bool() { Change::InsertAfter } else { Change::InsertBefore }),
    ),
    scalar("jsonb_delete(jsonb, text) jsonb", |_, v| delete_keys(v[0].as_jsonb(), &[v[1].str()])),
    scalar("jsonb_delete_path(jsonb, text[]) jsonb", |_, v| change(v, Change::Delete)),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("||(jsonb, jsonb) jsonb", |_, v| composed_jsonb(concatenated(v[0].as_jsonb(), v[1].as_jsonb()))),
    scalar("-(jsonb, text) jsonb", |_, v| delete_keys(v[0].as_jsonb(), &[v[1].str()])),
    scalar("-(jsonb, text[]) jsonb", |_, v| {
        if v[1].as_array().dimensions.len() > 1 {
            return Err(subscript_error("wrong number of array subscripts"));
        }
        let keys: Vec<&str> =
            v[1].as_array().values.iter().filter(|key| !key.is_null()).map(Value::str).collect();
        delete_keys(v[0].as_jsonb(), &keys)
    }),
    scalar("-(jsonb, int4) jsonb", |_, v| delete_element(v[0].as_jsonb(), v[1].int4())),
    scalar("#-(jsonb, text[]) jsonb", |_, v| change(v, Change::Delete)),
];

fn lines(context: &mut FunctionContext<'_>, value: &Value, has_lines: bool) -> Result<Value> {
    let mut text = String::new();
    write_json(context.environment, context.argument_type(0), value, has_lines, &mut text)?;
    composed_json(text)
}

fn json_build_array(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let mut text = "[".to_string();
    for (at, value) in v.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        write_json(context.environment, context.argument_type(at), value, false, &mut text)?;
    }
    text.push(']');
    composed_json(text)
}

fn jsonb_build_array(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let tree = |(at, value): (usize, &Value)| jsonb_of(context.environment, context.argument_type(at), value);
    composed_jsonb(Jsonb::Array(v.iter().enumerate().map(tree).collect::<Result<Vec<_>>>()?))
}

fn json_build_object(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let mut text = "{".to_string();
    for (at, (key, place)) in
        object_of(context.environment, |at| context.argument_type(at), v)?.into_iter().enumerate()
    {
        if at > 0 {
            text.push_str(", ");
        }
        push_json_string(&key, &mut text);
        text.push_str(" : ");
        write_json(context.environment, context.argument_type(place), &v[place], false, &mut text)?;
    }
    text.push('}');
    composed_json(text)
}

fn jsonb_build_object(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let mut pairs = Vec::new();
    for (key, place) in object_of(context.environment, |at| context.argument_type(at), v)? {
        pairs.push((key, jsonb_of(context.environment, context.argument_type(place), &v[place])?));
    }
    composed_jsonb(members(pairs))
}

/// Keys and values of one array of alternating ones, of an array of pairs, or of two arrays.
fn text_pairs(v: &[Value]) -> Result<Vec<(String, Option<String>)>> {
    let first = v[0].as_array();
    let (keys, values): (Vec<&Value>, Vec<&Value>) = match v.get(1) {
        Some(second) => {
            let second = second.as_array();
            if first.dimensions.len() > 1 || second.dimensions.len() > 1 {
                return Err(subscript_error("wrong number of array subscripts"));
            }
            if first.values.len() != second.values.len() {
                return Err(subscript_error("mismatched array dimensions"));
            }
            (first.values.iter().collect(), second.values.iter().collect())
        }
        None => {
            match first.dimensions.as_slice() {
                [] => {}
                [only] if only.length % 2 == 0 => {}
                [_] => return Err(subscript_error("array must have even number of elements")),
                [_, pair] if pair.length == 2 => {}
                [_, _] => return Err(subscript_error("array must have two columns")),
                _ => return Err(subscript_error("wrong number of array subscripts")),
            }
            let pairs = first.values.chunks_exact(2);
            pairs.map(|pair| (&pair[0], &pair[1])).unzip()
        }
    };
    let pair = |(key, value): (&Value, &Value)| {
        if key.is_null() {
            let message = "null value not allowed for object key";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Ok((key.str().to_string(), (!value.is_null()).then(|| value.str().to_string())))
    };
    keys.into_iter().zip(values).map(pair).collect()
}

fn json_object(pairs: &[(String, Option<String>)]) -> Value {
    let mut text = "{".to_string();
    for (at, (key, value)) in pairs.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        push_json_string(key, &mut text);
        text.push_str(" : ");
        match value {
            Some(value) => push_json_string(value, &mut text),
            None => text.push_str("null"),
        }
    }
    text.push('}');
    Value::Json(text.into())
}

fn jsonb_object(pairs: Vec<(String, Option<String>)>) -> Value {
    let value = |value: Option<String>| value.map_or(Jsonb::Null, Jsonb::string);
    Value::jsonb(members(pairs.into_iter().map(|(key, text)| (key, value(text))).collect()))
}

fn without_nulls(value: &Jsonb) -> Jsonb {
    match value {
        Jsonb::Array(values) => {
            let mut kept = Vec::with_capacity(values.len());
            for value in values {
                kept.push(without_nulls(value));
            }
            Jsonb::Array(kept)
        }
        Jsonb::Object(members) => {
            let mut kept = Vec::new();
            for (key, value) in members.iter() {
                if !matches!(value, Jsonb::Null) {
                    kept.push((key.clone(), without_nulls(value)));
                }
            }
            Jsonb::Object(Members::from_pairs(kept))
        }
        scalar => scalar.clone(),
    }
}

/// Objects merge; everything else is put into one array.
fn concatenated(left: &Jsonb, right: &Jsonb) -> Jsonb {
    if let (Jsonb::Object(left), Jsonb::Object(right)) = (left, right) {
        let pairs = left.iter().chain(right.iter()).cloned().collect();
        return Jsonb::Object(Members::from_pairs(pairs));
    }
    let elements = |value: &Jsonb| match value {
        Jsonb::Array(values) => values.clone(),
        other => vec![other.clone()],
    };
    Jsonb::Array([elements(left), elements(right)].concat())
}

/// The document without the members, or the string elements, with these names.
fn delete_keys(value: &Jsonb, keys: &[&str]) -> Result<Value> {
    let keys: HashSet<&str> = keys.iter().copied().collect();
    Ok(Value::jsonb(match value {
        Jsonb::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !keys.contains(&**key));
            Jsonb::Object(Members::from_pairs(kept.cloned().collect()))
        }
        Jsonb::Array(values) => {
            let is_named = |value: &Jsonb| matches!(value, Jsonb::String(text) if keys.contains(&**text));
            Jsonb::Array(values.iter().filter(|value| !is_named(value)).cloned().collect())
        }
        _ => return Err(invalid("cannot delete from scalar")),
    }))
}

fn delete_element(value: &Jsonb, at: i32) -> Result<Value> {
    match value {
        Jsonb::Array(values) => {
            let place = if at < 0 { values.len() as i64 + i64::from(at) } else { i64::from(at) };
            let kept = values.iter().enumerate().filter(|(index, _)| *index as i64 != place);
            Ok(Value::jsonb(Jsonb::Array(kept.map(|(_, value)| value.clone()).collect())))
        }
        Jsonb::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// The change at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Set,
    SetOrCreate,
    InsertBefore,
    InsertAfter,
    Delete,
}

fn change(v: &[Value], change: Change) -> Result<Value> {
    let (value, path) = (v[0].as_jsonb(), v[1].as_array());
    if path.dimensions.len() > 1 {
        return Err(subscript_error("wrong number of array subscripts"));
    }
    if value.is_scalar() {
        let what = if change == Change::Delete {
            "cannot delete path in scalar"
        } else {
            "cannot set path in scalar"
        };
        return Err(invalid(what));
    }
    let is_empty = match value {
        Jsonb::Array(values) => values.is_empty(),
        Jsonb::Object(members) => members.is_empty(),
        _ => false,
    };
    if path.values.is_empty() || is_empty && matches!(change, Change::Set | Change::Delete) {
        return Ok(v[0].clone());
    }
    let new = if change == Change::Delete { &Jsonb::Null } else { v[2].as_jsonb() };
    change_at(value, &path.values, 0, new, change).and_then(composed_jsonb)
}

/// `jsonb_set`, but the last argument decides the effect of NULL as the new value.
fn set_lax(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let [target, path, new, create, treatment] = v else { return Ok(Value::Null) };
    if target.is_null() || path.is_null() || create.is_null() {
        return Ok(Value::Null);
    }
    let set = if create.bool() { Change::SetOrCreate } else { Change::Set };
    if !new.is_null() && !treatment.is_null() {
        return change(v, set);
    }
    // A NULL as the treatment is refused, even where none is needed.
    match if treatment.is_null() { "" } else { treatment.str() } {
        "use_json_null" => change(&[target.clone(), path.clone(), Value::jsonb(Jsonb::Null)], set),
        "delete_key" => change(v, Change::Delete),
        "return_target" => Ok(target.clone()),
        "raise_exception" => {
            let message = "JSON value must not be null";
            let error = SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message);
            let detail = "Exception was raised because null_value_treatment is \"raise_exception\".";
            let hint = "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.";
            Err(error.with_detail(detail).with_hint(hint))
        }
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn change_at(value: &Jsonb, path: &[Value], depth: usize, new: &Jsonb, change: Change) -> Result<Jsonb> {
    if path[depth].is_null() {
        let message = format!("path element at position {} is null", depth + 1);
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    let (step, is_last) = (path[depth].str(), depth + 1 == path.len());
    match value {
        Jsonb::Object(members) => {
            let mut members = members.clone();
            match (members.get(step).cloned(), is_last) {
                (Some(found), false) => {
                    let changed = stack::grow(|| change_at(&found, path, depth + 1, new, change))?;
                    members.insert(step.into(), changed)
                }
                (Some(_), true) => match change {
                    Change::Delete => {
                        members.remove(step);
                    }
                    Change::InsertBefore | Change::InsertAfter => {
                        let error = invalid("cannot replace existing key");
                        return Err(error.with_hint("Try using the function jsonb_set to replace key value."));
                    }
                    _ => members.insert(step.into(), new.clone()),
                },
                (None, true) if !matches!(change, Change::Set | Change::Delete) => {
                    members.insert(Arc::from(step), new.clone());
                }
                (None, _) => {}
            }
            Ok(Jsonb::Object(members))
        }
        Jsonb::Array(values) => change_element(values, path, depth, new, change),
        scalar => Ok(scalar.clone()),
    }
}

fn change_element(
    values: &[Jsonb],
    path: &[Value],
    depth: usize,
    new: &Jsonb,
    change: Change,
) -> Result<Jsonb> {
    let mut index = array_index(path[depth].str(), depth + 1)?;
    let length = values.len() as i64;
    if index < 0 {
        // Before the first element stays before it.
        index = if -index > length { -1 - length } else { length + index };
    }
    let is_last = depth + 1 == path.len();
    let mut values = values.to_vec();
    let is_inside = (0..length).contains(&index);
    match (is_inside, is_last) {
        (true, false) => {
            let at = index as usize;
            values[at] = stack::grow(|| change_at(&values[at], path, depth + 1, new, change))?;
        }
        (true, true) => {
            let at = index as usize;
            match change {
                Change::Delete => {
                    values.remove(at);
                }
                Change::InsertBefore => values.insert(at, new.clone()),
                Change::InsertAfter => values.insert(at + 1, new.clone()),
                _ => values[at] = new.clone(),
            }
        }
        (false, true) if !matches!(change, Change::Set | Change::Delete) => {
            let at = if index < 0 { 0 } else { values.len() };
            values.insert(at, new.clone());
        }
        (false, _) => {}
    }
    Ok(Jsonb::Array(values))
}
