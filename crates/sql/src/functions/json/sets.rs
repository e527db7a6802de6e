//! Documents as rows: elements, members, keys.

use std::sync::Arc;

use super::paths::{invalid, shape_of, tree_text};
use super::raw::{self, Shape};
use crate::error::Result;
use crate::functions::definition::{Definition, Rows, RowsOf, set};
use crate::types::jsonb::Jsonb;
use crate::types::record::{RecordField, RecordValue};
use crate::types::{Type, Value};

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    set("json_array_elements(json) setof json", |_, v| {
        raw_elements(v, "json_array_elements", |part| Ok(Value::Json(part.into())))
    }),
    set("json_array_elements_text(json) setof text", |_, v| {
        raw_elements(v, "json_array_elements_text", raw::as_text)
    }),
    set("jsonb_array_elements(jsonb) setof jsonb", |_, v| elements(v, |part| Ok(Value::jsonb(part.clone())))),
    set("jsonb_array_elements_text(jsonb) setof text", |_, v| elements(v, |part| tree_text(Some(part)))),
    set("json_each(json) setof record key text; value json", |_, v| {
        raw_members(v, Type::Json, |part| Ok(Value::Json(part.into())))
    }),
    set("json_each_text(json) setof record key text; value text", |_, v| {
        raw_members(v, Type::Text, raw::as_text)
    }),
    set("jsonb_each(jsonb) setof record key text; value jsonb", |_, v| {
        members(v, "jsonb_each", Type::Jsonb, |part| Ok(Value::jsonb(part.clone())))
    }),
    set("jsonb_each_text(jsonb) setof record key text; value text", |_, v| {
        members(v, "jsonb_each_text", Type::Text, |part| tree_text(Some(part)))
    }),
    set("json_object_keys(json) setof text", |_, v| {
        let text = v[0].str();
        check_keys(raw::shape(text), "json_object_keys")?;
        Ok(rows(raw::members(text)?.into_iter().map(|(key, _)| Value::text(key)).collect()))
    }),
    set("jsonb_object_keys(jsonb) setof text", |_, v| {
        check_keys(shape_of(v[0].as_jsonb()), "jsonb_object_keys")?;
        let Jsonb::Object(members) = v[0].as_jsonb() else { return Ok(rows(Vec::new())) };
        Ok(rows(members.iter().map(|(key, _)| Value::Text(key.clone())).collect()))
    }),
];

fn rows(values: Vec<Value>) -> Box<dyn Rows> {
    Box::new(RowsOf(values.into_iter().map(Ok)))
}

fn check_keys(shape: Shape, function: &str) -> Result<()> {
    match shape {
        Shape::Object => Ok(()),
        Shape::Array => Err(invalid(format!("cannot call {function} on an array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn raw_elements(v: &[Value], function: &str, make: fn(&str) -> Result<Value>) -> Result<Box<dyn Rows>> {
    let text = v[0].str();
    match raw::shape(text) {
        Shape::Array => Ok(rows(raw::elements(text).into_iter().map(make).collect::<Result<_>>()?)),
        Shape::Object => Err(invalid(format!("cannot call {function} on a non-array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn elements(v: &[Value], make: fn(&Jsonb) -> Result<Value>) -> Result<Box<dyn Rows>> {
    match v[0].as_jsonb() {
        Jsonb::Array(values) => Ok(rows(values.iter().map(make).collect::<Result<_>>()?)),
        Jsonb::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

/// Rows of a key and a value.
fn pairs(kind: Type, values: impl Iterator<Item = (Value, Value)>) -> Box<dyn Rows> {
    let field = |name: &str, kind| RecordField { name: name.into(), kind };
    let fields: Arc<[RecordField]> = Arc::from([field("key", Type::Text), field("value", kind)]);
    let row = |(key, value)| RecordValue { fields: fields.clone(), values: Box::new([key, value]) };
    rows(values.map(|pair| Value::Record(Arc::new(row(pair)))).collect())
}

fn raw_members(v: &[Value], kind: Type, make: fn(&str) -> Result<Value>) -> Result<Box<dyn Rows>> {
    let text = v[0].str();
    match raw::shape(text) {
        Shape::Object => {
            let pair = |(key, part): (String, _)| Ok((Value::text(&key), make(part)?));
            let made = raw::members(text)?.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
            Ok(pairs(kind, made.into_iter()))
        }
        Shape::Array => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}

fn members(
    v: &[Value],
    function: &str,
    kind: Type,
    make: fn(&Jsonb) -> Result<Value>,
) -> Result<Box<dyn Rows>> {
    match v[0].as_jsonb() {
        Jsonb::Object(members) => {
            let pair = |(key, part): &(Arc<str>, Jsonb)| Ok((Value::Text(key.clone()), make(part)?));
            let made = members.iter().map(pair).collect::<Result<Vec<_>>>()?;
            Ok(pairs(kind, made.into_iter()))
        }
        _ => Err(invalid(format!("cannot call {function} on a non-object"))),
    }
}
