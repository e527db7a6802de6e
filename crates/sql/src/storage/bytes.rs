//! Values of any type as bytes: a tag, then the content. In columns of types that the engine lacks, and in temporary
//! files.
//!
//! # Invariants
//! - A value is read back as it was, with its scale and its blanks. The bytes have no useful order.

use std::sync::Arc;

use crate::types::array::{ArrayValue, Dimension};
use crate::types::interval::Interval;
use crate::types::jsonb::{Jsonb, Members};
use crate::types::record::{RecordField, RecordValue};
use crate::types::{Type, Value};

fn put_bytes(tag: u8, bytes: &[u8], into: &mut Vec<u8>) {
    into.push(tag);
    into.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn put_long(tag: u8, number: i64, into: &mut Vec<u8>) {
    into.push(tag);
    into.extend_from_slice(&number.to_le_bytes());
}

/// Appends a value.
pub(crate) fn write_value(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Null => into.push(0),
        Value::Bool(value) => into.extend([1, u8::from(*value)]),
        Value::Int2(value) => put_long(2, i64::from(*value), into),
        Value::Int4(value) => put_long(3, i64::from(*value), into),
        Value::Int8(value) => put_long(4, *value, into),
        Value::Float4(value) => put_long(5, i64::from(value.to_bits()), into),
        Value::Float8(value) => put_long(6, value.to_bits() as i64, into),
        Value::Numeric(value) => put_bytes(7, value.to_string().as_bytes(), into),
        Value::Text(value) => put_bytes(8, value.as_bytes(), into),
        Value::Bpchar(value) => put_bytes(9, value.as_bytes(), into),
        Value::Bytes(value) => put_bytes(10, value, into),
        Value::Date(value) => put_long(11, i64::from(*value), into),
        Value::Time(value) => put_long(12, *value, into),
        Value::Timetz(value, zone) => {
            put_long(13, *value, into);
            into.extend_from_slice(&zone.to_le_bytes());
        }
        Value::Timestamp(value) => put_long(14, *value, into),
        Value::Timestamptz(value) => put_long(15, *value, into),
        Value::Interval(value) => {
            put_long(16, value.micros, into);
            into.extend_from_slice(&value.months.to_le_bytes());
            into.extend_from_slice(&value.days.to_le_bytes());
        }
        Value::Uuid(value) => {
            into.push(17);
            into.extend_from_slice(value);
        }
        Value::Json(value) => put_bytes(18, value.as_bytes(), into),
        Value::Jsonb(value) => {
            into.push(19);
            write_jsonb(value, into);
        }
        Value::Oid(value) => put_long(20, i64::from(*value), into),
        Value::Enum(value) => put_long(21, i64::from(*value), into),
        Value::Array(value) => write_array(value, into),
        Value::Record(value) => write_record(value, into),
        Value::Void => into.push(24),
    }
}

fn write_array(array: &ArrayValue, into: &mut Vec<u8>) {
    put_long(22, i64::from(array.element.oid()), into);
    into.extend_from_slice(&(array.dimensions.len() as u32).to_le_bytes());
    for dimension in &array.dimensions {
        into.extend_from_slice(&dimension.length.to_le_bytes());
        into.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    into.extend_from_slice(&(array.values.len() as u32).to_le_bytes());
    array.values.iter().for_each(|value| write_value(value, into));
}

fn write_record(record: &RecordValue, into: &mut Vec<u8>) {
    put_long(23, record.values.len() as i64, into);
    for (field, value) in record.fields.iter().zip(&record.values) {
        put_bytes(0, field.name.as_bytes(), into);
        into.extend_from_slice(&field.kind.oid().to_le_bytes());
        write_value(value, into);
    }
}

fn write_jsonb(value: &Jsonb, into: &mut Vec<u8>) {
    match value {
        Jsonb::Null => into.push(0),
        Jsonb::Bool(value) => into.extend([1, u8::from(*value)]),
        Jsonb::Number(value) => put_bytes(2, value.to_string().as_bytes(), into),
        Jsonb::String(value) => put_bytes(3, value.as_bytes(), into),
        Jsonb::Array(values) => {
            put_long(4, values.len() as i64, into);
            for value in values {
                write_jsonb(value, into);
            }
        }
        Jsonb::Object(members) => {
            put_long(5, members.len() as i64, into);
            for (name, value) in members.iter() {
                put_bytes(0, name.as_bytes(), into);
                write_jsonb(value, into);
            }
        }
    }
}

fn take<'b, const LENGTH: usize>(bytes: &mut &'b [u8]) -> Option<&'b [u8; LENGTH]> {
    let (head, rest) = bytes.split_first_chunk::<LENGTH>()?;
    *bytes = rest;
    Some(head)
}

pub(crate) fn read_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(|bytes| u32::from_le_bytes(*bytes))
}

fn read_i32(bytes: &mut &[u8]) -> Option<i32> {
    take(bytes).map(|bytes| i32::from_le_bytes(*bytes))
}

fn read_long(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|bytes| i64::from_le_bytes(*bytes))
}

fn read_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = read_u32(bytes)? as usize;
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

fn read_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(read_bytes(bytes)?).ok()
}

/// The next value.
pub(crate) fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    let [tag] = *take(bytes)?;
    Some(match tag {
        0 => Value::Null,
        1 => Value::Bool(take::<1>(bytes)?[0] != 0),
        2 => Value::Int2(read_long(bytes)? as i16),
        3 => Value::Int4(read_long(bytes)? as i32),
        4 => Value::Int8(read_long(bytes)?),
        5 => Value::Float4(f32::from_bits(read_long(bytes)? as u32)),
        6 => Value::Float8(f64::from_bits(read_long(bytes)? as u64)),
        7 => Value::Numeric(read_text(bytes)?.parse().ok()?),
        8 => Value::Text(read_text(bytes)?.into()),
        9 => Value::Bpchar(read_text(bytes)?.into()),
        10 => Value::Bytes(read_bytes(bytes)?.into()),
        11 => Value::Date(read_long(bytes)? as i32),
        12 => Value::Time(read_long(bytes)?),
        13 => Value::Timetz(read_long(bytes)?, read_i32(bytes)?),
        14 => Value::Timestamp(read_long(bytes)?),
        15 => Value::Timestamptz(read_long(bytes)?),
        16 => {
            let micros = read_long(bytes)?;
            Value::Interval(Interval { micros, months: read_i32(bytes)?, days: read_i32(bytes)? })
        }
        17 => Value::Uuid(*take(bytes)?),
        18 => Value::Json(read_text(bytes)?.into()),
        19 => Value::Jsonb(Arc::new(read_jsonb(bytes)?)),
        20 => Value::Oid(read_long(bytes)? as u32),
        21 => Value::Enum(read_long(bytes)? as i32),
        22 => read_array(bytes)?,
        23 => read_record(bytes)?,
        24 => Value::Void,
        _ => return None,
    })
}

fn read_array(bytes: &mut &[u8]) -> Option<Value> {
    let element = Type::from_oid(read_long(bytes)? as u32)?;
    let dimension = |bytes: &mut &[u8]| Some(Dimension { length: read_i32(bytes)?, lower: read_i32(bytes)? });
    let dimensions = (0..read_u32(bytes)?).map(|_| dimension(bytes)).collect::<Option<_>>()?;
    let values = (0..read_u32(bytes)?).map(|_| read_value(bytes)).collect::<Option<_>>()?;
    Some(Value::array(ArrayValue { element, dimensions, values }))
}

fn read_record(bytes: &mut &[u8]) -> Option<Value> {
    let (mut fields, mut values) = (Vec::new(), Vec::new());
    for _ in 0..read_long(bytes)? {
        take::<1>(bytes)?;
        let name = read_text(bytes)?.into();
        fields.push(RecordField { name, kind: Type::from_oid(read_u32(bytes)?)? });
        values.push(read_value(bytes)?);
    }
    Some(Value::Record(Arc::new(RecordValue { fields: fields.into(), values: values.into() })))
}

fn read_jsonb(bytes: &mut &[u8]) -> Option<Jsonb> {
    Some(match take::<1>(bytes)?[0] {
        0 => Jsonb::Null,
        1 => Jsonb::Bool(take::<1>(bytes)?[0] != 0),
        2 => Jsonb::Number(read_text(bytes)?.parse().ok()?),
        3 => Jsonb::String(read_text(bytes)?.into()),
        4 => Jsonb::Array(read_elements(bytes)?),
        5 => Jsonb::Object(read_members(bytes)?),
        _ => return None,
    })
}

fn read_elements(bytes: &mut &[u8]) -> Option<Vec<Jsonb>> {
    let mut values = Vec::new();
    for _ in 0..read_long(bytes)? {
        values.push(read_jsonb(bytes)?);
    }
    Some(values)
}

fn read_members(bytes: &mut &[u8]) -> Option<Members> {
    let mut pairs = Vec::new();
    for _ in 0..read_long(bytes)? {
        take::<1>(bytes)?;
        pairs.push((read_text(bytes)?.into(), read_jsonb(bytes)?));
    }
    Some(Members::from_pairs(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::{self, Interrupt};
    use crate::types::numeric::Numeric;

    fn round_trip(value: &Value) -> Value {
        let mut bytes = Vec::new();
        write_value(value, &mut bytes);
        let mut left = &bytes[..];
        let read = read_value(&mut left).unwrap();
        assert!(left.is_empty());
        read
    }

    #[test]
    fn every_kind_of_value_comes_back() {
        let array = ArrayValue::list(Type::Int4, vec![Value::Int4(1), Value::Null]);
        let record =
            RecordValue::anonymous(&[Type::Int4, Type::Text], vec![Value::Int4(1), Value::text("x")]);
        let object = vec![("a".into(), Jsonb::Array(vec![Jsonb::Null, Jsonb::Bool(true)]))];
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int2(-2),
            Value::Int4(-4),
            Value::Int8(i64::MIN),
            Value::Float4(-0.5),
            Value::Float8(f64::NAN),
            Value::Numeric("-123456789012345678901234567890.0012".parse().unwrap()),
            Value::text("żółw"),
            Value::Bpchar("a  ".into()),
            Value::bytes([0, 255]),
            Value::Date(-1),
            Value::Time(1),
            Value::Timetz(1, -3600),
            Value::Timestamp(i64::MAX),
            Value::Timestamptz(5),
            Value::Interval(Interval { months: 1, days: -2, micros: 3 }),
            Value::Uuid([7; 16]),
            Value::Json("{ }".into()),
            Value::jsonb(Jsonb::Object(Members::from_pairs(object))),
            Value::Oid(u32::MAX),
            Value::Enum(3),
            Value::array(array),
            Value::Record(Arc::new(record)),
            Value::Void,
        ];
        for value in &values {
            assert_eq!(format!("{:?}", round_trip(value)), format!("{value:?}"));
        }
    }

    #[test]
    fn values_of_an_interrupted_statement_come_back() {
        let number: Numeric = "7".repeat(4000).parse().unwrap();
        let canceled = Interrupt::new();
        canceled.cancel();
        let _entered = interrupt::enter(Some(canceled));
        for value in [Value::Numeric(number.clone()), Value::jsonb(Jsonb::Number(number))] {
            assert_eq!(format!("{:?}", round_trip(&value)), format!("{value:?}"));
        }
    }

    #[test]
    fn truncated_bytes_are_no_value() {
        let mut bytes = Vec::new();
        write_value(&Value::text("cut"), &mut bytes);
        bytes.pop();
        assert!(read_value(&mut &bytes[..]).is_none());
    }
}
