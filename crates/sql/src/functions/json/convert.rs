//! Values of any type as JSON: the text that `to_json` makes, and the tree that `to_jsonb` makes.

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;
use crate::types::array::ArrayValue;
use crate::types::datetime::print::{offset_text, timestamp_text};
use crate::types::datetime::{is_infinite, utc_to_local, zone};
use crate::types::environment::{DateStyle, FormatSettings};
use crate::types::jsonb::{DEPTH_MAX, Jsonb, Members};
use crate::types::numeric::Numeric;
use crate::types::text::{check_depth, jsonb_text, parse_jsonb, push_json_string, to_text, too_deep};
use crate::types::{Environment, Type, Value};

/// A document composed of parts. Every function that adds a level ends here.
///
/// # Errors
/// 54001: it nests deeper than [`DEPTH_MAX`].
pub fn composed_jsonb(tree: Jsonb) -> Result<Value> {
    if tree.has_at_most_levels(DEPTH_MAX) { Ok(Value::jsonb(tree)) } else { Err(too_deep()) }
}

/// Like [`composed_jsonb`], for `json`.
pub fn composed_json(text: String) -> Result<Value> {
    check_depth(&text)?;
    Ok(Value::Json(text.into()))
}

/// Appends a value as JSON. `has_lines` puts line breaks between rows of arrays (`array_to_json(…, true)`).
pub fn write_json(
    environment: &dyn Environment,
    kind: Type,
    value: &Value,
    has_lines: bool,
    out: &mut String,
) -> Result<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => out.push_str(&to_text(environment, kind, value)?),
        Value::Float4(number) if number.is_finite() => out.push_str(&to_text(environment, kind, value)?),
        Value::Float8(number) if number.is_finite() => out.push_str(&to_text(environment, kind, value)?),
        Value::Numeric(number) if number.is_finite() => out.push_str(&number.to_string()),
        Value::Json(text) => out.push_str(text),
        Value::Jsonb(tree) => out.push_str(&jsonb_text(tree)?),
        Value::Date(_) | Value::Timestamp(_) | Value::Timestamptz(_) => {
            push_json_string(&moment_text(environment, kind, value)?, out);
        }
        Value::Array(array) => write_array(environment, array, has_lines, out)?,
        Value::Record(record) => {
            out.push('{');
            for (at, (field, value)) in record.fields.iter().zip(&record.values).enumerate() {
                if at > 0 {
                    out.push_str(if has_lines { ",\n " } else { "," });
                }
                push_json_string(&field.name, out);
                out.push(':');
                write_json(environment, field.kind, value, false, out)?;
            }
            out.push('}');
        }
        other => push_json_string(&to_text(environment, kind, other)?, out),
    }
    Ok(())
}

/// A value as JSON text.
pub fn json_text(environment: &dyn Environment, kind: Type, value: &Value) -> Result<String> {
    let mut text = String::new();
    write_json(environment, kind, value, false, &mut text)?;
    Ok(text)
}

fn write_array(
    environment: &dyn Environment,
    array: &ArrayValue,
    has_lines: bool,
    out: &mut String,
) -> Result<()> {
    let lengths: Vec<usize> = array.dimensions.iter().map(|it| it.length as usize).collect();
    write_level(environment, array, &lengths, &array.values, has_lines, out)
}

fn write_level(
    environment: &dyn Environment,
    array: &ArrayValue,
    lengths: &[usize],
    values: &[Value],
    has_lines: bool,
    out: &mut String,
) -> Result<()> {
    out.push('[');
    if let [length, inner @ ..] = lengths {
        let stride = (values.len() / length).max(1);
        for (at, part) in values.chunks(stride).enumerate() {
            step()?;
            if at > 0 {
                out.push_str(if has_lines { ",\n " } else { "," });
            }
            if inner.is_empty() {
                write_json(environment, array.element, &part[0], false, out)?;
            } else {
                write_level(environment, array, inner, part, false, out)?;
            }
        }
    }
    out.push(']');
    Ok(())
}

/// Dates and timestamps as ISO 8601 has them: `2024-02-29T12:34:56+00:00`.
fn moment_text(environment: &dyn Environment, kind: Type, value: &Value) -> Result<String> {
    let formats = FormatSettings { date_style: DateStyle::Iso, ..FormatSettings::default() };
    let iso = |micros: i64| {
        if is_infinite(micros) {
            return timestamp_text(micros, &formats);
        }
        timestamp_text(micros, &formats).replacen(' ', "T", 1)
    };
    Ok(match value {
        Value::Date(days) => crate::types::datetime::print::date_text(*days, &formats),
        Value::Timestamp(micros) => iso(*micros),
        Value::Timestamptz(micros) if is_infinite(*micros) => iso(*micros),
        Value::Timestamptz(micros) => {
            let session = &environment.formats().time_zone;
            let local = iso(utc_to_local(*micros, session)?);
            let offset = offset_text(zone::offset_at(*micros, session));
            let offset = if offset.len() == 3 { format!("{offset}:00") } else { offset };
            match local.strip_suffix(" BC") {
                Some(date) => format!("{date}{offset} BC"),
                None => format!("{local}{offset}"),
            }
        }
        other => to_text(environment, kind, other)?,
    })
}

/// A value as a JSON tree.
pub fn jsonb_of(environment: &dyn Environment, kind: Type, value: &Value) -> Result<Jsonb> {
    Ok(match value {
        Value::Null => Jsonb::Null,
        Value::Bool(value) => Jsonb::Bool(*value),
        Value::Int2(number) => Jsonb::Number((*number).into()),
        Value::Int4(number) => Jsonb::Number((*number).into()),
        Value::Int8(number) => Jsonb::Number((*number).into()),
        Value::Float4(number) if number.is_finite() => {
            Jsonb::Number(to_text(environment, kind, value)?.parse()?)
        }
        Value::Float8(number) if number.is_finite() => {
            Jsonb::Number(to_text(environment, kind, value)?.parse()?)
        }
        Value::Numeric(number) if number.is_finite() => Jsonb::Number(Numeric::clone(number)),
        Value::Json(text) => parse_jsonb(text)?,
        Value::Jsonb(tree) => Jsonb::clone(tree),
        Value::Date(_) | Value::Timestamp(_) | Value::Timestamptz(_) => {
            Jsonb::string(moment_text(environment, kind, value)?)
        }
        Value::Array(_) | Value::Record(_) => parse_jsonb(&json_text(environment, kind, value)?)?,
        other => Jsonb::string(to_text(environment, kind, other)?),
    })
}

/// A value as the key of a member; NULL and structured values are refused.
pub fn json_key(environment: &dyn Environment, kind: Type, value: &Value, position: usize) -> Result<String> {
    let refuse = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match value {
        Value::Null if position == 0 => refuse("field name must not be null".to_string()),
        Value::Null => refuse(format!("argument {position}: key must not be null")),
        Value::Json(_) | Value::Jsonb(_) | Value::Array(_) | Value::Record(_) => {
            refuse("key value must be scalar, not array, composite, or json".to_string())
        }
        Value::Bool(value) => Ok(if *value { "true" } else { "false" }.to_string()),
        Value::Date(_) | Value::Timestamp(_) | Value::Timestamptz(_) => moment_text(environment, kind, value),
        other => to_text(environment, kind, other),
    }
}

/// An object of alternating keys and values.
pub fn object_of(
    environment: &dyn Environment,
    kinds: impl Fn(usize) -> Type,
    values: &[Value],
) -> Result<Vec<(String, usize)>> {
    if !values.len().is_multiple_of(2) {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "argument list must have even number of elements",
        );
        let hint = "The arguments of json_build_object() must consist of alternating keys and values.";
        return Err(error.with_hint(hint));
    }
    let key = |at: usize| json_key(environment, kinds(at), &values[at], at + 1).map(|key| (key, at + 1));
    (0..values.len()).step_by(2).map(key).collect()
}

/// Members that were collected, as a tree.
pub fn members(pairs: Vec<(String, Jsonb)>) -> Jsonb {
    Jsonb::Object(Members::from_pairs(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()))
}
