//! Objects as rows of declared columns: `json_to_record`, `json_populate_recordset` and the like.
//!
//! Calls are in FROM. The binder adds a last argument, a record whose fields are the columns and whose values are their
//! modifiers (`bind/json_rows.rs`); the functions that populate have the row to start from before the document.
//!
//! Source: PostgreSQL 15, `jsonfuncs.c`, `populate_record_worker` and the functions that it calls.

use std::sync::Arc;

use super::paths::invalid;
use super::raw::{self, Shape};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, set};
use crate::types::cast::apply_modifier;
use crate::types::record::RecordValue;
use crate::types::text::{from_text, jsonb_text};
use crate::types::{Modifier, Type, Value};

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    set("json_to_record(json) setof record", |c, v| one(c, "json_to_record", v)).nullable().stable(),
    set("jsonb_to_record(jsonb) setof record", |c, v| one(c, "jsonb_to_record", v)).nullable().stable(),
    set("json_to_recordset(json) setof record", |c, v| all(c, "json_to_recordset", v)).nullable().stable(),
    set("jsonb_to_recordset(jsonb) setof record", |c, v| all(c, "jsonb_to_recordset", v)).nullable().stable(),
    set("json_populate_record(record, json) setof record", |c, v| one(c, "json_populate_record", v))
        .nullable()
        .stable(),
    set("jsonb_populate_record(record, jsonb) setof record", |c, v| one(c, "jsonb_populate_record", v))
        .nullable()
        .stable(),
    set("json_populate_recordset(record, json) setof record", |c, v| all(c, "json_populate_recordset", v))
        .nullable()
        .stable(),
    set("jsonb_populate_recordset(record, jsonb) setof record", |c, v| all(c, "jsonb_populate_recordset", v))
        .nullable()
        .stable(),
];

/// The input from which a call makes rows.
struct Source<'v> {
    /// The document's text.
    text: Option<String>,
    base: Option<&'v RecordValue>,
    columns: &'v Arc<RecordValue>,
}

fn source(values: &[Value]) -> Result<Source<'_>> {
    let (base, document, columns) = match values {
        [document, Value::Record(columns)] => (None, document, columns),
        [Value::Record(base), document, Value::Record(columns)] => (Some(base.as_ref()), document, columns),
        [_, document, Value::Record(columns)] => (None, document, columns),
        _ => return Err(SqlError::internal("a function that makes records of JSON has no columns")),
    };
    let text = match document {
        Value::Null => None,
        Value::Jsonb(tree) => Some(jsonb_text(tree)?),
        text => Some(text.str().to_string()),
    };
    Ok(Source { text, base, columns })
}

/// One row of a document that is an object.
fn one(context: &mut FunctionContext<'_>, function: &str, values: &[Value]) -> Result<Box<dyn Rows>> {
    let source = source(values)?;
    let row = match &source.text {
        None => source.row(context, &[])?,
        Some(text) => match raw::shape(text) {
            Shape::Object => source.row(context, &raw::members(text)?)?,
            Shape::Null if source.base.is_none() => source.row(context, &[])?,
            Shape::Array => return Err(invalid(format!("cannot call {function} on an array"))),
            _ => return Err(invalid(format!("cannot call {function} on a scalar"))),
        },
    };
    Ok(Box::new(RowsOf(std::iter::once(Ok(row)))))
}

/// A row for each object of a document that is an array.
fn all(context: &mut FunctionContext<'_>, function: &str, values: &[Value]) -> Result<Box<dyn Rows>> {
    let source = source(values)?;
    let Some(text) = &source.text else { return Ok(Box::new(RowsOf(std::iter::empty()))) };
    match raw::shape(text) {
        Shape::Array => {}
        Shape::Object => return Err(invalid(format!("cannot call {function} on an object"))),
        _ => return Err(invalid(format!("cannot call {function} on a scalar"))),
    }
    let row = |element: &str| match raw::shape(element) {
        Shape::Object => source.row(context, &raw::members(element)?),
        _ => Err(invalid(format!("argument of {function} must be an array of objects"))),
    };
    let rows: Result<Vec<Value>> = raw::elements(text).into_iter().map(row).collect();
    Ok(Box::new(RowsOf(rows?.into_iter().map(Ok))))
}

impl Source<'_> {
    fn row(&self, context: &FunctionContext<'_>, members: &[(String, &str)]) -> Result<Value> {
        let fields = self.columns.fields.iter().zip(self.columns.values.iter()).enumerate();
        let value = |(at, (field, modifier)): (usize, (&crate::types::record::RecordField, &Value))| {
            // The last of several members of one name counts.
            match members.iter().rev().find(|(name, _)| **name == *field.name) {
                Some((_, part)) => convert(context, part, field.kind, Modifier(modifier.int4())),
                None => Ok(self.base.map_or(Value::Null, |base| base.values[at].clone())),
            }
        };
        let mut values: Vec<Value> = fields.map(value).collect::<Result<_>>()?;
        // A row of one column is its value.
        if let [only] = values.as_mut_slice() {
            return Ok(std::mem::replace(only, Value::Null));
        }
        let row = RecordValue { fields: self.columns.fields.clone(), values: values.into() };
        Ok(Value::Record(Arc::new(row)))
    }
}

/// A part of a document as a value of a type.
fn convert(context: &FunctionContext<'_>, part: &str, ty: Type, modifier: Modifier) -> Result<Value> {
    let environment = &*context.environment;
    let text = match (raw::shape(part), ty) {
        (Shape::Null, _) => return Ok(Value::Null),
        (_, Type::Json | Type::Jsonb) => part.to_string(),
        (Shape::Array, _) if ty.element().is_some() => {
            let mut text = String::new();
            array_text(part, ty, &mut text)?;
            text
        }
        (Shape::Object | Shape::Number | Shape::Bool, _) if ty.element().is_some() => {
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array"));
        }
        (Shape::String, _) => raw::unquoted(part)?,
        _ => part.to_string(),
    };
    from_text(environment, ty, modifier, &text).and_then(|value| apply_modifier(ty, modifier, value, false))
}

/// A JSON array as the text of an array of SQL's.
fn array_text(part: &str, ty: Type, out: &mut String) -> Result<()> {
    let is_document = matches!(ty.element(), Some(Type::Json | Type::Jsonb));
    out.push('{');
    for (at, element) in raw::elements(part).into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match raw::shape(element) {
            Shape::Null => out.push_str("NULL"),
            Shape::Array if !is_document => array_text(element, ty, out)?,
            Shape::String if !is_document => quoted(&raw::unquoted(element)?, out),
            _ => quoted(element, out),
        }
    }
    out.push('}');
    Ok(())
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
