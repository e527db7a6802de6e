//! Texts cut into arrays and rows, and arrays joined to texts.

use crate::error::Result;
use crate::functions::definition::{FunctionContext, Rows, RowsOf};
use crate::interrupt::step;
use crate::run::large_values::LARGE_BYTES;
use crate::types::array::ArrayValue;
use crate::types::text::to_text;
use crate::types::{Type, Value};

/// The parts of a text: of its characters where the separator is NULL.
pub(super) fn parts(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Option<Vec<Value>>> {
    let Value::Text(text) = &v[0] else { return Ok(None) };
    let count = match &v[1] {
        Value::Null => text.len(),
        separator if separator.str().is_empty() => 1,
        separator => text.matches(separator.str()).count() + 1,
    };
    // Memory of a short part besides its bytes.
    let each = size_of::<Value>() + 16;
    context.environment.require_value(text.len() + count * each)?;
    let null = v.get(2).filter(|value| !value.is_null()).map(Value::str);
    let value = |part: &str| {
        step()?;
        Ok(if Some(part) == null { Value::Null } else { Value::text(part) })
    };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    Ok(Some(match &v[1] {
        Value::Null => text.chars().map(|c| value(c.encode_utf8(&mut [0; 4]))).collect::<Result<_>>()?,
        separator if separator.str().is_empty() => vec![value(text)?],
        separator => text.split(separator.str()).map(value).collect::<Result<_>>()?,
    }))
}

pub(super) fn string_to_array(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let parts = parts(context, v)?;
    Ok(parts.map_or(Value::Null, |parts| Value::array(ArrayValue::list(Type::Text, parts))))
}

pub(super) fn string_to_table(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Box<dyn Rows>> {
    Ok(Box::new(RowsOf(parts(context, v)?.unwrap_or_default().into_iter().map(Ok))))
}

pub(super) fn array_to_string(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() || v[1].is_null() {
        return Ok(Value::Null);
    }
    let array = v[0].as_array();
    let null = v.get(2).filter(|value| !value.is_null()).map(Value::str);
    let delimiter = v[1].str();
    let (mut joined, mut is_first, mut required) = (String::new(), true, LARGE_BYTES);
    for value in &array.values {
        step()?;
        let text = match (value, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => null.to_string(),
            (value, _) => to_text(context.environment, array.element, value)?,
        };
        if !std::mem::take(&mut is_first) {
            joined.push_str(delimiter);
        }
        joined.push_str(&text);
        if joined.len() >= required {
            required = 2 * joined.len();
            context.environment.require_value(joined.len())?;
        }
    }
    Ok(Value::text(joined))
}
