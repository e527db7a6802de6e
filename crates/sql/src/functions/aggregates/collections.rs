//! Aggregates that keep their rows: arrays, concatenated strings, JSON arrays and objects.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Accumulator, Definition, FunctionContext, aggregate, same_state};
use crate::functions::json::convert::{
    composed_json, composed_jsonb, json_key, jsonb_of, members, write_json,
};
use crate::run::memory::Memory;
use crate::types::array::{ArrayValue, Dimension, subscript_error};
use crate::types::jsonb::Jsonb;
use crate::types::text::push_json_string;
use crate::types::{Type, Value};

/// The table.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("array_agg(anynonarray) anyarray", |c| collect(c, 1, array_of)).nullable(),
    aggregate("array_agg(anyarray) anyarray", |c| collect(c, 1, array_of)).nullable(),
    aggregate("string_agg(text, text) text", |c| collect(c, 2, joined_text)).nullable(),
    aggregate("string_agg(bytea, bytea) bytea", |c| collect(c, 2, joined_bytes)).nullable(),
    aggregate("json_agg(anyelement) json", |c| collect(c, 1, json_array)).nullable().stable(),
    aggregate("jsonb_agg(anyelement) jsonb", |c| collect(c, 1, jsonb_array)).nullable().stable(),
    aggregate("json_object_agg(any, any) json", |c| collect(c, 2, json_object)).nullable().stable(),
    aggregate("jsonb_object_agg(any, any) jsonb", |c| collect(c, 2, jsonb_object)).nullable(),
];

/// Makes the result of the rows, of which there is at least one; their arguments are one after the other.
type Finish = fn(&mut FunctionContext<'_>, &[Value]) -> Result<Value>;

/// All rows' arguments.
struct Collected {
    width: usize,
    values: Vec<Value>,
    bytes: usize,
    memory: Memory,
    finish: Finish,
}

fn collect(context: &FunctionContext<'_>, width: usize, finish: Finish) -> Box<dyn Accumulator> {
    let memory = context.environment.state_memory();
    Box::new(Collected { width, values: Vec::new(), bytes: 0, memory, finish })
}

impl Accumulator for Collected {
    fn accumulate(&mut self, context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        // string_agg skips NULL; the others keep it. Keys of objects are checked when their row is added.
        let is_string = matches!(context.result_type, Type::Text | Type::Bytea);
        if is_string && arguments[0].is_null() {
            return Ok(());
        }
        let bytes = arguments.iter().map(Value::heap_size).sum::<usize>();
        self.memory.charge(bytes + self.width * size_of::<Value>())?;
        self.bytes += bytes;
        self.values.extend_from_slice(&arguments[..self.width]);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Collected>(other)?;
        self.memory.charge(other.bytes + other.values.len() * size_of::<Value>())?;
        self.bytes += other.bytes;
        self.values.extend(other.values);
        Ok(())
    }

    fn finish(&self, context: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        if self.values.is_empty() { Ok(Value::Null) } else { (self.finish)(context, &self.values) }
    }

    fn size(&self) -> usize {
        size_of::<Collected>() + self.values.capacity() * size_of::<Value>() + self.bytes
    }
}

fn array_of(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let kind = context.argument_type(0);
    if let Type::Array(element) = kind {
        return accumulated_arrays(element.get(), values);
    }
    Ok(Value::array(ArrayValue::list(kind, values.to_vec())))
}

/// Arrays of arrays: all of the same, non-empty shape.
fn accumulated_arrays(element: Type, values: &[Value]) -> Result<Value> {
    let mut shape: Option<&[Dimension]> = None;
    for value in values {
        let Value::Array(array) = value else {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
        };
        if array.dimensions.is_empty() {
            return Err(subscript_error("cannot accumulate empty arrays"));
        }
        if *shape.get_or_insert(&array.dimensions) != array.dimensions.as_slice() {
            return Err(subscript_error("cannot accumulate arrays of different dimensionality"));
        }
    }
    ArrayValue::nest(element, values).map(Value::array)
}

/// The delimiter of a row is before its text, so that of the first row is not used.
fn joined_text(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let mut joined = String::new();
    for (at, row) in values.chunks(2).enumerate() {
        if at > 0 && !row[1].is_null() {
            joined.push_str(row[1].str());
        }
        joined.push_str(row[0].str());
    }
    Ok(Value::text(joined))
}

fn joined_bytes(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let mut joined = Vec::new();
    for (at, row) in values.chunks(2).enumerate() {
        if at > 0 && !row[1].is_null() {
            joined.extend_from_slice(row[1].as_bytes());
        }
        joined.extend_from_slice(row[0].as_bytes());
    }
    Ok(Value::bytes(joined))
}

fn json_array(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let kind = context.argument_type(0);
    let mut text = "[".to_string();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
            if matches!(value, Value::Array(_) | Value::Record(_)) {
                text.push_str("\n ");
            }
        }
        write_json(context.environment, kind, value, false, &mut text)?;
    }
    text.push(']');
    composed_json(text)
}

fn jsonb_array(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let kind = context.argument_type(0);
    let trees =
        values.iter().map(|value| jsonb_of(context.environment, kind, value)).collect::<Result<Vec<_>>>()?;
    composed_jsonb(Jsonb::Array(trees))
}

fn json_object(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let (key_kind, kind) = (context.argument_type(0), context.argument_type(1));
    let mut text = "{ ".to_string();
    for (at, row) in values.chunks(2).enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        push_json_string(&json_key(context.environment, key_kind, &row[0], 0)?, &mut text);
        text.push_str(" : ");
        write_json(context.environment, kind, &row[1], false, &mut text)?;
    }
    text.push_str(" }");
    composed_json(text)
}

fn jsonb_object(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let (key_kind, kind) = (context.argument_type(0), context.argument_type(1));
    let mut pairs = Vec::new();
    for row in values.chunks(2) {
        let key = json_key(context.environment, key_kind, &row[0], 0)?;
        pairs.push((key, jsonb_of(context.environment, kind, &row[1])?));
    }
    composed_jsonb(members(pairs))
}
