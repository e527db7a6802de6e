//! The output function of every type.

use std::fmt::Write;

use super::array::write_array;
use super::float::{float4_text, float8_text};
use super::input::char_text;
use super::json::write_jsonb;
use super::record::write_record;
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::ArrayValue;
use crate::types::datetime::print;
use crate::types::environment::{ByteaStyle, ObjectKind};
use crate::types::{Environment, Type, Value, network, top_k};

/// A value as text, as PostgreSQL prints it. NULL has no text: callers treat it before.
pub fn to_text(environment: &dyn Environment, kind: Type, value: &Value) -> Result<String> {
    let mut out = String::new();
    write_text(environment, kind, value, &mut out)?;
    Ok(out)
}

/// Appends a value to a text, as PostgreSQL prints it.
pub fn write_text(environment: &dyn Environment, kind: Type, value: &Value, out: &mut String) -> Result<()> {
    let formats = environment.formats();
    let written = match value {
        Value::Null | Value::Void => Ok(()),
        Value::Bool(value) => out.write_str(if *value { "t" } else { "f" }),
        Value::Int2(value) => write!(out, "{value}"),
        Value::Int4(value) => write!(out, "{value}"),
        Value::Int8(value) => write!(out, "{value}"),
        Value::Float4(value) => out.write_str(&float4_text(*value, formats.extra_float_digits)),
        Value::Float8(value) => out.write_str(&float8_text(*value, formats.extra_float_digits)),
        Value::Numeric(value) => write!(out, "{value}"),
        Value::Text(text) if kind == Type::Char => out.write_str(&char_text(text)),
        Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => out.write_str(text),
        Value::Bytes(bytes) if kind == Type::TopK => out.write_str(&top_k::text_of(bytes)?),
        Value::Bytes(bytes) => match network::text_of(kind, bytes) {
            Some(text) => out.write_str(&text),
            None => out.write_str(&bytea_text(bytes, formats.bytea_style)),
        },
        Value::Uuid(bytes) => out.write_str(&uuid_text(bytes)),
        Value::Oid(oid) => out.write_str(&oid_text(environment, kind, *oid)),
        Value::Enum(order) => out.write_str(&enum_label(environment, kind, *order)?),
        Value::Date(days) => out.write_str(&print::date_text(*days, formats)),
        Value::Time(time) => out.write_str(&print::time_text(*time)),
        Value::Timetz(time, zone) => out.write_str(&print::timetz_text(*time, *zone)),
        Value::Timestamp(micros) => out.write_str(&print::timestamp_text(*micros, formats)),
        Value::Timestamptz(micros) => out.write_str(&print::timestamptz_text(*micros, formats)?),
        Value::Interval(interval) => out.write_str(&print::interval_text(*interval, formats.interval_style)),
        Value::Jsonb(tree) => {
            write_jsonb(tree, out)?;
            Ok(())
        }
        Value::Array(array) if matches!(kind, Type::Int2Vector | Type::OidVector) => {
            return write_vector(environment, array, out);
        }
        Value::Array(array) => return write_array(environment, array, out),
        Value::Record(record) => return write_record(environment, record, out),
    };
    written.map_err(|_| SqlError::internal("a text could not be written"))
}

/// `int2vector` and `oidvector`: elements with blanks between.
fn write_vector(environment: &dyn Environment, array: &ArrayValue, out: &mut String) -> Result<()> {
    for (at, value) in array.values.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write_text(environment, array.element, value, out)?;
    }
    Ok(())
}

/// A `bytea` as text.
pub fn bytea_text(bytes: &[u8], style: ByteaStyle) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    match style {
        ByteaStyle::Hex => {
            text.push_str("\\x");
            push_hex(bytes, &mut text);
        }
        ByteaStyle::Escape => {
            for &byte in bytes {
                match byte {
                    b'\\' => text.push_str("\\\\"),
                    0x20..=0x7e => text.push(byte as char),
                    _ => text.push_str(&format!("\\{byte:03o}")),
                }
            }
        }
    }
    text
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn push_hex(bytes: &[u8], text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

/// A `uuid` as text.
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, part) in [(0, 4), (4, 6), (6, 8), (8, 10), (10, 16)] {
        if at > 0 {
            text.push('-');
        }
        push_hex(&bytes[at..part], &mut text);
    }
    text
}

/// The kind of a `reg…` type's object, for the catalog.
pub(crate) fn object_kind(kind: Type) -> Option<ObjectKind> {
    Some(match kind {
        Type::Regclass => ObjectKind::Relation,
        Type::Regtype => ObjectKind::Type,
        Type::Regproc => ObjectKind::Function,
        Type::Regprocedure => ObjectKind::FunctionSignature,
        Type::Regoper => ObjectKind::Operator,
        Type::Regoperator => ObjectKind::OperatorSignature,
        Type::Regnamespace => ObjectKind::Schema,
        Type::Regrole => ObjectKind::Role,
        Type::Regcollation => ObjectKind::Collation,
        _ => return None,
    })
}

fn oid_text(environment: &dyn Environment, kind: Type, oid: u32) -> String {
    let Some(object) = object_kind(kind) else { return oid.to_string() };
    if oid == 0 {
        return "-".to_string();
    }
    let built_in = match object {
        ObjectKind::Type => Type::from_oid(oid).and_then(|kind| match kind {
            Type::Enum(oid) | Type::Composite(oid) => environment.type_name(oid),
            Type::Array(element) => match element.get() {
                Type::Enum(oid) | Type::Composite(oid) => {
                    environment.type_name(oid).map(|name| format!("{name}[]"))
                }
                _ => kind.sql_name(),
            },
            _ => kind.sql_name(),
        }),
        _ => None,
    };
    built_in.or_else(|| environment.object_name(object, oid)).unwrap_or_else(|| oid.to_string())
}

fn enum_label(environment: &dyn Environment, kind: Type, order: i32) -> Result<String> {
    let Type::Enum(oid) = kind else {
        return Err(SqlError::internal("an enum's label was asked for without its type"));
    };
    let labels = environment.enum_labels(oid);
    let label = labels.as_ref().and_then(|labels| labels.iter().find(|(number, _)| *number == order));
    label.map(|(_, label)| label.to_string()).ok_or_else(|| {
        let message = format!("invalid internal value for enum: {order}");
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    })
}
