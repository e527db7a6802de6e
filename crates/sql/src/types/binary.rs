//! The binary format of every type, as PostgreSQL's send and receive functions have it.
//!
//! Invariants: what [`to_binary`] writes, [`from_binary`] reads back as the same value; bytes from outside are checked
//! before anything is allocated for them, and wrong ones end in 22P03, 08P01, 22021 or 22008.

use crate::error::{Result, SqlError, SqlState};
use crate::types::array::{ArrayValue, DIMENSIONS_MAX, Dimension, check_size, too_many_dimensions};
use crate::types::datetime::{self, DATE_INFINITY, DATE_NEGATIVE_INFINITY};
use crate::types::interval::{DAY, Interval};
use crate::types::numeric::Numeric;
use crate::types::record::RecordValue;
use crate::types::text::{from_text, jsonb_text, parse_jsonb, shape_of, to_text};
use crate::types::{Environment, Modifier, Type, Value, bits, network, top_k};

/// The first byte of a `jsonb`.
const JSONB_VERSION: u8 = 1;
/// The first byte of a `jsonpath`.
const JSONPATH_VERSION: u8 = 1;
/// The length of NULL in arrays and records.
const NULL_LENGTH: i32 = -1;

/// Appends a value in binary format. NULL has none: callers handle it before.
pub fn to_binary(environment: &dyn Environment, kind: Type, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Null | Value::Void => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int2(value) => out.extend(value.to_be_bytes()),
        Value::Int4(value) | Value::Date(value) => out.extend(value.to_be_bytes()),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::Timestamptz(value) => {
            out.extend(value.to_be_bytes());
        }
        Value::Float4(value) => out.extend(value.to_be_bytes()),
        Value::Float8(value) => out.extend(value.to_be_bytes()),
        Value::Numeric(value) => out.extend(value.to_binary()),
        Value::Text(text) if kind == Type::Char => {
            out.push(text.chars().next().map_or(0, |code| code as u32 as u8))
        }
        Value::Text(text) if kind == Type::Jsonpath => {
            out.push(JSONPATH_VERSION);
            out.extend(text.as_bytes());
        }
        Value::Text(text) if matches!(kind, Type::Bit | Type::Varbit) => bits::write_binary(text, out),
        Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => out.extend(text.as_bytes()),
        Value::Bytes(bytes) if network::write_binary(kind, bytes, out) => {}
        Value::Bytes(bytes) if kind == Type::TopK => out.extend(top_k::text_of(bytes)?.as_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Timetz(time, zone) => {
            out.extend(time.to_be_bytes());
            out.extend(zone.to_be_bytes());
        }
        Value::Interval(interval) => {
            out.extend(interval.micros.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        Value::Uuid(bytes) => out.extend(bytes),
        Value::Jsonb(tree) => {
            out.push(JSONB_VERSION);
            out.extend(jsonb_text(tree)?.as_bytes());
        }
        Value::Oid(oid) => out.extend(oid.to_be_bytes()),
        Value::Enum(_) => out.extend(to_text(environment, kind, value)?.as_bytes()),
        Value::Array(array) => write_array(environment, array, out)?,
        Value::Record(record) => write_record(environment, record, out)?,
    }
    Ok(())
}

/// Appends a part with its length before it.
fn write_sized(environment: &dyn Environment, kind: Type, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    if value.is_null() {
        out.extend(NULL_LENGTH.to_be_bytes());
        return Ok(());
    }
    let at = out.len();
    out.extend([0; 4]);
    to_binary(environment, kind, value, out)?;
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_array(environment: &dyn Environment, array: &ArrayValue, out: &mut Vec<u8>) -> Result<()> {
    out.extend((array.dimensions.len() as i32).to_be_bytes());
    out.extend(i32::from(array.has_nulls()).to_be_bytes());
    out.extend(array.element.oid().to_be_bytes());
    for dimension in &array.dimensions {
        out.extend(dimension.length.to_be_bytes());
        out.extend(dimension.lower.to_be_bytes());
    }
    array.values.iter().try_for_each(|value| write_sized(environment, array.element, value, out))
}

fn write_record(environment: &dyn Environment, record: &RecordValue, out: &mut Vec<u8>) -> Result<()> {
    out.extend((record.values.len() as i32).to_be_bytes());
    for (field, value) in record.fields.iter().zip(&record.values) {
        out.extend(field.kind.oid().to_be_bytes());
        write_sized(environment, field.kind, value, out)?;
    }
    Ok(())
}

/// Bytes that are read from the front.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        if self.0.len() < count {
            let message = "insufficient data left in message";
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn int4(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn int8(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn oid(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// Bytes in binary format as a value of a type.
pub fn from_binary(environment: &dyn Environment, kind: Type, bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader(bytes);
    let value = read(environment, kind, &mut reader)?;
    if !reader.0.is_empty() {
        return Err(invalid("incorrect binary data format"));
    }
    Ok(value)
}

/// Bytes as a text: UTF-8 without the character zero.
///
/// # Errors
/// 22021.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let fail = |byte: u8| {
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| fail(bytes[error.valid_up_to()]))?;
    if text.contains('\0') { Err(fail(0)) } else { Ok(text) }
}

fn read(environment: &dyn Environment, kind: Type, reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match kind {
        Type::Bool => Value::Bool(reader.array::<1>()?[0] != 0),
        Type::Int2 => Value::Int2(i16::from_be_bytes(reader.array()?)),
        Type::Int4 => Value::Int4(reader.int4()?),
        Type::Int8 => Value::Int8(reader.int8()?),
        Type::Float4 => Value::Float4(f32::from_be_bytes(reader.array()?)),
        Type::Float8 => Value::Float8(f64::from_be_bytes(reader.array()?)),
        Type::Numeric => Value::Numeric(Numeric::from_binary(reader.rest())?.polled()?),
        Type::Bpchar => Value::Bpchar(utf8(reader.rest())?.into()),
        Type::Char => {
            let code = char::from(reader.array::<1>()?[0]);
            Value::text(if code == '\0' { String::new() } else { code.to_string() })
        }
        Type::Bit | Type::Varbit => bits::read_binary(reader.int4()?, reader.rest())?,
        Type::Bytea => Value::bytes(reader.rest()),
        Type::Inet | Type::Cidr => network::read_binary(kind, reader.rest())?,
        Type::Macaddr => Value::bytes(reader.array::<6>()?),
        Type::Date => Value::Date(checked_date(reader.int4()?)?),
        Type::Time => Value::Time(checked_time(reader.int8()?)?),
        Type::Timetz => {
            let time = checked_time(reader.int8()?)?;
            Value::Timetz(time, checked_zone(reader.int4()?)?)
        }
        Type::Timestamp => Value::Timestamp(checked_timestamp(reader.int8()?)?),
        Type::Timestamptz => Value::Timestamptz(checked_timestamp(reader.int8()?)?),
        Type::Interval => {
            let (micros, days, months) = (reader.int8()?, reader.int4()?, reader.int4()?);
            Value::Interval(Interval { months, days, micros })
        }
        Type::Uuid => Value::Uuid(reader.array()?),
        Type::Jsonb => match reader.array::<1>()? {
            [JSONB_VERSION] => Value::jsonb(parse_jsonb(utf8(reader.rest())?)?),
            [other] => return Err(SqlError::internal(format!("unsupported jsonb version number {other}"))),
        },
        Type::Jsonpath => match reader.array::<1>()? {
            [JSONPATH_VERSION] => from_text(environment, kind, Modifier::NONE, utf8(reader.rest())?)?,
            [other] => {
                return Err(SqlError::internal(format!("unsupported jsonpath version number: {other}")));
            }
        },
        Type::Array(_) | Type::Int2Vector | Type::OidVector => read_array(environment, kind, reader)?,
        Type::Record => read_record(environment, reader)?,
        Type::Composite(oid) => read_composite(environment, oid, reader)?,
        Type::Void => Value::Void,
        kind if kind.is_oid_like() || kind == Type::Xid => Value::Oid(reader.oid()?),
        // All others are texts in both formats.
        other => from_text(environment, other, Modifier::NONE, utf8(reader.rest())?)?,
    })
}

fn checked_date(days: i32) -> Result<i32> {
    match days {
        DATE_INFINITY | DATE_NEGATIVE_INFINITY => Ok(days),
        days => datetime::date_from_days(i64::from(days)),
    }
}

fn checked_time(micros: i64) -> Result<i64> {
    if (0..=DAY).contains(&micros) {
        return Ok(micros);
    }
    Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"))
}

fn checked_zone(seconds: i32) -> Result<i32> {
    if seconds.unsigned_abs() < 16 * 3600 {
        return Ok(seconds);
    }
    let message = "time zone displacement out of range";
    Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message))
}

fn checked_timestamp(micros: i64) -> Result<i64> {
    if datetime::is_infinite(micros) { Ok(micros) } else { datetime::check_timestamp(micros) }
}

/// A part with its length before it.
fn read_sized(environment: &dyn Environment, kind: Type, reader: &mut Reader<'_>) -> Result<Value> {
    match reader.int4()? {
        NULL_LENGTH => Ok(Value::Null),
        length => {
            let length = usize::try_from(length);
            let length = length.map_err(|_| {
                SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
            })?;
            from_binary(environment, kind, reader.take(length)?)
        }
    }
}

fn read_array(environment: &dyn Environment, kind: Type, reader: &mut Reader<'_>) -> Result<Value> {
    let count = reader.int4()?;
    let element = kind.element().unwrap_or(Type::Text);
    if count < 0 {
        return Err(invalid(format!("invalid number of dimensions: {count}")));
    }
    if count as usize > DIMENSIONS_MAX {
        return Err(too_many_dimensions(count as usize));
    }
    let flags = reader.int4()?;
    if !(0..=1).contains(&flags) {
        return Err(invalid("invalid array flags"));
    }
    let found = reader.oid()?;
    if found != element.oid() {
        let name = element.display_name();
        let message = format!(
            "binary data has array element type {found} instead of expected {} ({name})",
            element.oid()
        );
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut dimensions = Vec::new();
    let mut total = 1usize;
    for _ in 0..count {
        let (length, lower) = (reader.int4()?, reader.int4()?);
        let size = usize::try_from(length).map_err(|_| invalid("array size exceeds the maximum allowed"))?;
        total = total.saturating_mul(size);
        check_size(total)?;
        if i64::from(lower) + i64::from(length) > i64::from(i32::MAX) {
            let message = format!("array lower bound is too large: {lower}");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        dimensions.push(Dimension { length, lower });
    }
    if dimensions.is_empty() || total == 0 {
        return Ok(Value::array(ArrayValue::empty(element)));
    }
    let mut values = Vec::new();
    for _ in 0..total {
        values.push(read_sized(environment, element, reader)?);
    }
    Ok(Value::array(ArrayValue { element, dimensions, values }))
}

fn read_record(environment: &dyn Environment, reader: &mut Reader<'_>) -> Result<Value> {
    let count = reader.int4()?;
    let (mut kinds, mut values) = (Vec::new(), Vec::new());
    for _ in 0..count.max(0) {
        let oid = reader.oid()?;
        let kind = Type::from_oid(oid).ok_or_else(|| invalid(format!("unknown type oid {oid}")))?;
        kinds.push(kind);
        values.push(read_sized(environment, kind, reader)?);
    }
    Ok(Value::Record(RecordValue::anonymous(&kinds, values).into()))
}

/// A row of a composite type: as many values as it has fields, of their types.
fn read_composite(environment: &dyn Environment, oid: u32, reader: &mut Reader<'_>) -> Result<Value> {
    let shape = shape_of(environment, oid)?;
    let count = reader.int4()?;
    if usize::try_from(count).ok() != Some(shape.fields.len()) {
        let message = format!("wrong number of columns: {count}, expected {}", shape.fields.len());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut values = Vec::with_capacity(shape.fields.len());
    for (at, field) in shape.fields.iter().enumerate() {
        let found = reader.oid()?;
        if found != field.kind.oid() {
            let message = format!(
                "binary data has type {found} instead of expected {} ({}) in record column {}",
                field.kind.oid(),
                field.kind.display_name(),
                at + 1
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        values.push(read_sized(environment, field.kind, reader)?);
    }
    RecordValue { fields: shape.fields.clone(), values: values.into() }.composed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PlainEnvironment;
    use proptest::prelude::*;

    fn round(kind: Type, text: &str) {
        let environment = PlainEnvironment::new(0);
        let value = from_text(&environment, kind, Modifier::NONE, text).unwrap();
        let mut bytes = Vec::new();
        to_binary(&environment, kind, &value, &mut bytes).unwrap();
        let back = from_binary(&environment, kind, &bytes).unwrap();
        assert_eq!(to_text(&environment, kind, &back).unwrap(), to_text(&environment, kind, &value).unwrap());
        if kind.length() > 0 && kind != Type::Name {
            assert_eq!(bytes.len(), kind.length() as usize, "{kind:?}");
            assert!(from_binary(&environment, kind, &bytes[1..]).is_err());
        }
    }

    #[test]
    fn values_of_every_type_lead_back() {
        for (kind, text) in [
            (Type::Bool, "t"),
            (Type::Int2, "-5"),
            (Type::Int4, "7"),
            (Type::Int8, "-9000000000"),
            (Type::Float4, "1.5"),
            (Type::Float8, "-2e300"),
            (Type::Numeric, "12345.6780"),
            (Type::Text, "äöü"),
            (Type::Bpchar, "ab "),
            (Type::Name, "n"),
            (Type::Char, "x"),
            (Type::Bytea, "\\x0102"),
            (Type::Date, "2024-02-29"),
            (Type::Time, "12:34:56.789"),
            (Type::Timetz, "12:34:56+02"),
            (Type::Timestamp, "infinity"),
            (Type::Timestamptz, "2024-02-29 12:00:00+00"),
            (Type::Interval, "1 mon 2 days 03:04:05"),
            (Type::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (Type::Json, "{\"a\":1}"),
            (Type::Jsonb, "{\"a\":1}"),
            (Type::Oid, "4294967295"),
            (Type::Regtype, "integer"),
            (Type::array_of(Type::Int4), "[0:1]={1,NULL}"),
            (Type::array_of(Type::Text), "{{a,b},{c,d}}"),
            (Type::array_of(Type::Numeric), "{}"),
        ] {
            round(kind, text);
        }
    }

    #[test]
    fn wrong_bytes_are_refused() {
        let environment = PlainEnvironment::new(0);
        let state = |kind, bytes: &[u8]| from_binary(&environment, kind, bytes).unwrap_err().state();
        assert_eq!(state(Type::Int4, &[0; 3]), SqlState::PROTOCOL_VIOLATION);
        assert_eq!(state(Type::Int4, &[0; 5]), SqlState::INVALID_BINARY_REPRESENTATION);
        assert_eq!(state(Type::Text, &[0xff]), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(state(Type::Text, &[b'a', 0]), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(state(Type::Time, &(-1i64).to_be_bytes()), SqlState::DATETIME_FIELD_OVERFLOW);
        let huge = [1i32, 0, 23, i32::MAX, 1].map(i32::to_be_bytes).concat();
        assert_eq!(state(Type::array_of(Type::Int4), &huge), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..Type::BUILT_IN.len()) {
            let environment = PlainEnvironment::new(0);
            let kind = Type::BUILT_IN[at];
            let _ = from_binary(&environment, kind, &bytes);
            if let Some(array) = kind.array() {
                let _ = from_binary(&environment, array, &bytes);
            }
        }
    }
}
