//! A value on its way between a file and a table: its text or its value, and the conversion by the column's type.
//!
//! Invariant: what [`text_of`] and [`json_of`] write of a value, [`Field::to_value`] reads as the same value.

use std::fmt::Write as _;

use heddledb::{DataType, OrderedTuple, TopK, TupleType, Value, ValueRef};
use serde_json::Value as Json;

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// No value.
    Null,
    /// A text, or a number or list as text.
    Text(String),
    /// A value of a type.
    Value(Value),
}

impl Field {
    /// The value for a column of this type; otherwise what is wrong. Bounds of the column are the table's to check.
    pub fn to_value(&self, data_type: &DataType) -> std::result::Result<Value, String> {
        match self {
            Field::Null => Ok(Value::Null),
            Field::Text(text) => parse(text, data_type),
            Field::Value(Value::Text(text)) => parse(text, data_type),
            Field::Value(value) => Ok(value.clone()),
        }
    }

    /// The text, as `psql` writes it; none for NULL.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Field::Null | Field::Value(Value::Null) => None,
            Field::Text(text) => Some(text.clone()),
            Field::Value(value) => Some(value.to_string()),
        }
    }

    pub(crate) fn of_json(json: Json) -> Field {
        match json {
            Json::Null => Field::Null,
            Json::Bool(value) => Field::Value(Value::Bool(value)),
            Json::String(text) => Field::Text(text),
            // Numbers keep their digits; lists and objects are read by their column's type.
            other => Field::Text(other.to_string()),
        }
    }
}

fn parse(text: &str, data_type: &DataType) -> std::result::Result<Value, String> {
    let trimmed = text.trim();
    let no = |example: &str| format!("{text:?} is no {data_type}; write it as {example}");
    let engine = |error: heddledb::Error| error.to_string();
    match data_type {
        DataType::Text => Ok(Value::Text(text.to_string())),
        DataType::Bool => bool_of(trimmed).map(Value::Bool).ok_or_else(|| no("true or false")),
        DataType::Int32 | DataType::Int64 => int_of(trimmed).map(Value::Int).ok_or_else(|| no("-12")),
        DataType::Float64 => float_of(trimmed).map(Value::Float).ok_or_else(|| no("1.5, 1e9 or NaN")),
        DataType::Decimal { .. } => decimal_of(trimmed).map(Value::Decimal).map_err(engine),
        DataType::Bytes => bytes_of(trimmed).map(Value::Bytes).ok_or_else(|| no("\\x00ff")),
        DataType::Date => trimmed.parse().map(Value::Date).map_err(engine),
        DataType::Timestamp => trimmed.parse().map(Value::Timestamp).map_err(engine),
        DataType::Uuid => trimmed.parse().map(Value::Uuid).map_err(engine),
        DataType::OrderedTuple(of) => tuple_of(list_of(text)?, of).map(Value::Tuple),
        DataType::TopK { limit, of } => {
            let entries: Vec<OrderedTuple> = list_of(text)?
                .into_iter()
                .map(|entry| match entry {
                    Json::Array(members) => tuple_of(members, of),
                    other => Err(format!("{other} is no entry; write it as a list of values")),
                })
                .collect::<std::result::Result<_, _>>()?;
            TopK::of(*limit, &entries).map(Value::TopK).map_err(engine)
        }
    }
}

fn bool_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// An integer, also one that is written as `1.0` or `1e3`.
fn int_of(text: &str) -> Option<i64> {
    if let Ok(int) = text.parse() {
        return Some(int);
    }
    let decimal = decimal_of(text).ok()?.rescale(0).ok()?;
    i64::try_from(decimal.unscaled()).ok()
}

/// A number; none for digits that are beyond the greatest one.
fn float_of(text: &str) -> Option<f64> {
    let float: f64 = text.parse().ok()?;
    let says_so = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    (float.is_infinite() == says_so).then_some(float)
}

/// A decimal, also with an exponent.
fn decimal_of(text: &str) -> heddledb::Result<heddledb::Decimal> {
    let plain: heddledb::Result<heddledb::Decimal> = text.parse();
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return plain };
    let (Ok(mantissa), Ok(exponent)) = (mantissa.parse::<heddledb::Decimal>(), exponent.parse::<i32>())
    else {
        return plain;
    };
    let scale = i32::from(mantissa.scale()) - exponent;
    let digits = mantissa.unscaled();
    match u8::try_from(scale) {
        Ok(scale) => heddledb::Decimal::new(digits, scale),
        Err(_) if scale < 0 => 10_i128
            .checked_pow(scale.unsigned_abs())
            .and_then(|factor| digits.checked_mul(factor))
            .map_or(plain, |digits| heddledb::Decimal::new(digits, 0)),
        Err(_) => plain,
    }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect()
}

fn list_of(text: &str) -> std::result::Result<Vec<Json>, String> {
    serde_json::from_str(text).map_err(|error| format!("{text:?} is no list in JSON: {error}"))
}

fn tuple_of(members: Vec<Json>, of: &TupleType) -> std::result::Result<OrderedTuple, String> {
    let (order, payload) = (of.order(), of.payload());
    if members.len() != order.len() + payload.len() {
        return Err(format!("an entry has {} values, not {}", order.len() + payload.len(), members.len()));
    }
    let values: Vec<Value> = members
        .into_iter()
        .zip(order.iter().chain(payload))
        .map(|(member, data_type)| Field::of_json(member).to_value(data_type))
        .collect::<std::result::Result<_, _>>()?;
    let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_value_ref).collect();
    let (order, payload) = values.split_at(order.len());
    OrderedTuple::new(of, order, payload).map_err(|error| error.to_string())
}

/// Appends the text of a value that is not NULL, for CSV.
pub(crate) fn text_of(value: &Value, data_type: &DataType, into: &mut String) -> heddledb::Result<()> {
    match value {
        Value::Tuple(_) | Value::TopK(_) => json_of(value, data_type, into),
        // Writing to a string cannot fail.
        other => {
            let _ = write!(into, "{other}");
            Ok(())
        }
    }
}

/// Appends a value as JSON.
pub(crate) fn json_of(value: &Value, data_type: &DataType, into: &mut String) -> heddledb::Result<()> {
    match (value, data_type) {
        (Value::Null, _) => into.push_str("null"),
        (Value::Bool(value), _) => into.push_str(if *value { "true" } else { "false" }),
        (Value::Tuple(entry), DataType::OrderedTuple(of)) => json_entry(&entry.row(of)?, of, into)?,
        (Value::TopK(set), DataType::TopK { of, .. }) => {
            into.push('[');
            for (position, entry) in set.rows(of)?.iter().enumerate() {
                into.push_str(if position > 0 { "," } else { "" });
                json_entry(entry, of, into)?;
            }
            into.push(']');
        }
        (Value::Int(_), _) => text_of(value, data_type, into)?,
        (Value::Float(float), _) if float.is_finite() => text_of(value, data_type, into)?,
        _ => into.push_str(&Json::String(value.to_string()).to_string()),
    }
    Ok(())
}

fn json_entry(values: &[Value], of: &TupleType, into: &mut String) -> heddledb::Result<()> {
    into.push('[');
    for (position, (value, data_type)) in values.iter().zip(of.order().iter().chain(of.payload())).enumerate()
    {
        into.push_str(if position > 0 { "," } else { "" });
        json_of(value, data_type, into)?;
    }
    into.push(']');
    Ok(())
}
