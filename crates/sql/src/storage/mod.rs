//! The stored form of SQL values: the engine's column type for each SQL type, and the conversions between the two.
//!
//! A SQL type is stored as an engine type that holds its values wherever there is one, so that keys, indexes and
//! operations of the engine work on it directly. All other types are stored as bytes, which only SQL reads.
//!
//! ```text
//! boolean                                       bool
//! smallint, integer, date, enums                int32
//! bigint, time, timestamp, timestamptz          int64
//! oid and reg… types                            int64
//! real, double                                  float64
//! numeric(p, s), p up to 38                     decimal
//! text and its kin, json                        text
//! bit strings                                   text, of zeros and ones
//! uuid                                          uuid
//! bytea                                         bytes
//! inet, cidr, macaddr                           bytes, by `types::network`
//! topk(k)                                       top_k, of a decimal and two texts
//! everything else                               bytes, by `bytes`
//! ```
//!
//! Dates are days and timestamps microseconds since 2000-01-01, as in [`Value`], because the engine's own types end
//! with the year 9999. `char(n)` is stored without its blanks. Columns that a program has made with the engine's types
//! ([`Modifier::ENGINE_TIME`]) hold those, counted from 1970.
//!
//! # Invariants
//! - Of the types of which [`keeps_order`] says so, stored values are equal exactly if the values are, and compare
//!   alike.
//! - What was encoded decodes to the same value, or encoding has failed.

pub(crate) mod bytes;
pub(crate) mod words;

use std::sync::Arc;

use heddledb::{DataType, Date, Decimal, Timestamp, Uuid, Value as Stored, ValueRef};

use crate::error::{Result, SqlError, SqlState};
use crate::storage::bytes::{read_value, write_value};
use crate::types::datetime::UNIX_EPOCH_DAYS;
use crate::types::numeric::Numeric;
use crate::types::{Modifier, Type, Value, top_k};

/// From 1970 to 2000.
const UNIX_EPOCH_MICROSECONDS: i64 = UNIX_EPOCH_DAYS as i64 * 86_400_000_000;

/// The precision and scale of a numeric column that the engine's decimals hold.
fn decimal_of(modifier: Modifier) -> Option<(u8, u8)> {
    let (precision, scale) = modifier.numeric_parts()?;
    let fits =
        (1..=i32::from(Decimal::PRECISION_MAX)).contains(&precision) && (0..=precision).contains(&scale);
    fits.then_some((precision as u8, scale as u8))
}

/// Returns true if a numeric column's numbers are of one word, so that bounds of them can be proven.
pub(crate) fn is_one_word(modifier: Modifier) -> bool {
    decimal_of(modifier).is_some_and(|(precision, _)| precision <= 18)
}

/// The type of the engine's column.
pub(crate) fn engine_type(ty: Type, modifier: Modifier) -> DataType {
    match ty {
        Type::Bool => DataType::Bool,
        Type::Date if modifier == Modifier::ENGINE_TIME => DataType::Date,
        Type::Timestamptz if modifier == Modifier::ENGINE_TIME => DataType::Timestamp,
        Type::Int2 | Type::Int4 | Type::Date | Type::Enum(_) => DataType::Int32,
        Type::Int8 | Type::Time | Type::Timestamp | Type::Timestamptz => DataType::Int64,
        Type::Float4 | Type::Float8 => DataType::Float64,
        Type::Numeric => match decimal_of(modifier) {
            Some((precision, scale)) => DataType::Decimal { precision, scale },
            None => DataType::Bytes,
        },
        Type::Text | Type::Varchar | Type::Bpchar | Type::Name | Type::Char | Type::Json => DataType::Text,
        Type::Bit | Type::Varbit | Type::Refcursor | Type::Jsonpath => DataType::Text,
        Type::Uuid => DataType::Uuid,
        Type::TopK => top_k::engine_type(modifier),
        ty if ty.is_oid_like() => DataType::Int64,
        _ => DataType::Bytes,
    }
}

/// Returns true if stored values compare in the same order as the SQL values, so that index keys find them.
pub(crate) fn keeps_order(ty: Type, modifier: Modifier) -> bool {
    match ty {
        Type::Numeric => decimal_of(modifier).is_some(),
        Type::Json | Type::Jsonpath | Type::TopK => false,
        // The blanks of one without a length are kept.
        Type::Bpchar => modifier.characters().is_some(),
        Type::Bytea | Type::Inet | Type::Cidr | Type::Macaddr => true,
        ty => engine_type(ty, modifier) != DataType::Bytes,
    }
}

/// A stored value as a value of SQL.
///
/// # Errors
/// XX001: the column holds what this type does not have.
#[inline]
pub(crate) fn decode(ty: Type, modifier: Modifier, stored: ValueRef<'_>) -> Result<Value> {
    match (stored, ty) {
        (ValueRef::Null, _) => Ok(Value::Null),
        (ValueRef::Int(value), Type::Int8) => Ok(Value::Int8(value)),
        (ValueRef::Int(value), Type::Int4) => Ok(Value::Int4(value as i32)),
        (ValueRef::Bool(value), Type::Bool) => Ok(Value::Bool(value)),
        (stored, ty) => decode_other(ty, modifier, stored),
    }
}

fn decode_other(ty: Type, modifier: Modifier, stored: ValueRef<'_>) -> Result<Value> {
    Ok(match (ty, stored) {
        (
            Type::Text
            | Type::Varchar
            | Type::Name
            | Type::Char
            | Type::Bit
            | Type::Varbit
            | Type::Refcursor
            | Type::Jsonpath,
            ValueRef::Text(value),
        ) => Value::Text(value.into()),
        (Type::Int2, ValueRef::Int(value)) => Value::Int2(value as i16),
        (Type::Float8, ValueRef::Float(value)) => Value::Float8(value),
        (Type::Float4, ValueRef::Float(value)) => Value::Float4(value as f32),
        (Type::Numeric, ValueRef::Decimal(value)) => decimal_value(modifier, value)?,
        (Type::Bpchar, ValueRef::Text(value)) => Value::Bpchar(padded(value, modifier)),
        (Type::Bytea | Type::Inet | Type::Cidr | Type::Macaddr, ValueRef::Bytes(value)) => {
            Value::Bytes(value.into())
        }
        (Type::Date, ValueRef::Int(value)) => Value::Date(value as i32),
        (Type::Time, ValueRef::Int(value)) => Value::Time(value),
        (Type::Timestamp, ValueRef::Int(value)) => Value::Timestamp(value),
        (Type::Timestamptz, ValueRef::Int(value)) => Value::Timestamptz(value),
        (Type::Date, ValueRef::Date(value)) => Value::Date(value.days() - UNIX_EPOCH_DAYS),
        (Type::Timestamptz, ValueRef::Timestamp(value)) => {
            Value::Timestamptz(value.microseconds() - UNIX_EPOCH_MICROSECONDS)
        }
        (Type::Uuid, ValueRef::Uuid(value)) => Value::Uuid(value.bytes()),
        (Type::TopK, ValueRef::TopK(value)) => Value::Bytes(value.into()),
        (Type::Json, ValueRef::Text(value)) => Value::Json(value.into()),
        (Type::Enum(_), ValueRef::Int(value)) => Value::Enum(value as i32),
        (_, ValueRef::Int(value)) => Value::Oid(value as u32),
        (_, ValueRef::Bytes(mut value)) => read_value(&mut value).ok_or_else(|| damaged(ty))?,
        _ => return Err(damaged(ty)),
    })
}

fn damaged(ty: Type) -> SqlError {
    let message = format!("a column of type {} holds what is no value of it", ty.display_name());
    SqlError::new(SqlState::DATA_CORRUPTED, message)
}

/// A decimal with the scale of its column.
fn decimal_value(modifier: Modifier, value: Decimal) -> Result<Value> {
    let scale = decimal_of(modifier).map_or(value.scale(), |(_, scale)| scale);
    let value = if value.scale() == scale { value } else { value.rescale(scale)? };
    Ok(Value::Numeric(Numeric::from_wide(value.unscaled(), i32::from(value.scale()))?))
}

fn padded(text: &str, modifier: Modifier) -> Arc<str> {
    let length = text.chars().count();
    match modifier.characters() {
        Some(wanted) if wanted > length => {
            let mut padded = String::with_capacity(text.len() + wanted - length);
            padded.push_str(text);
            padded.extend(std::iter::repeat_n(' ', wanted - length));
            padded.into()
        }
        _ => text.into(),
    }
}

/// A value of SQL as it is stored; borrowed where it needs no other form.
///
/// # Errors
/// The value is none of the column's type: NaN in a numeric with precision, which is not stored; a text with the
/// character zero.
pub(crate) fn encode_ref<'v>(
    ty: Type,
    modifier: Modifier,
    value: &'v Value,
    scratch: &'v mut Vec<u8>,
) -> Result<ValueRef<'v>> {
    Ok(match (ty, value) {
        (_, Value::Null) => ValueRef::Null,
        (_, Value::Int4(value)) => ValueRef::Int(i64::from(*value)),
        (_, Value::Int8(value)) => ValueRef::Int(*value),
        (_, Value::Text(value)) | (Type::Json, Value::Json(value)) => ValueRef::Text(value),
        (_, Value::Bool(value)) => ValueRef::Bool(*value),
        (_, Value::Int2(value)) => ValueRef::Int(i64::from(*value)),
        (_, Value::Float8(value)) => ValueRef::Float(*value),
        (_, Value::Float4(value)) => ValueRef::Float(f64::from(*value)),
        (Type::Numeric, Value::Numeric(number)) => match decimal_of(modifier) {
            Some((_, scale)) => ValueRef::Decimal(decimal(number, scale)?),
            None => in_bytes(value, scratch),
        },
        (_, Value::Bpchar(value)) => match modifier.characters() {
            Some(_) => ValueRef::Text(value.trim_end_matches(' ')),
            None => ValueRef::Text(value),
        },
        (Type::TopK, Value::Bytes(value)) => ValueRef::TopK(value),
        (_, Value::Bytes(value)) => ValueRef::Bytes(value),
        (_, Value::Date(_) | Value::Timestamptz(_)) if modifier == Modifier::ENGINE_TIME => {
            engine_time(value)?
        }
        (_, Value::Date(value)) => ValueRef::Int(i64::from(*value)),
        (_, Value::Time(value) | Value::Timestamp(value) | Value::Timestamptz(value)) => {
            ValueRef::Int(*value)
        }
        (_, Value::Uuid(value)) => ValueRef::Uuid(Uuid::from_bytes(*value)),
        (_, Value::Oid(value)) => ValueRef::Int(i64::from(*value)),
        (_, Value::Enum(value)) => ValueRef::Int(i64::from(*value)),
        _ => in_bytes(value, scratch),
    })
}

/// The engine's form of a date or a timestamp; the engine's end with the year 9999.
fn engine_time(value: &Value) -> Result<ValueRef<'static>> {
    let time = match *value {
        Value::Date(days) => {
            days.checked_add(UNIX_EPOCH_DAYS).and_then(|days| Date::from_days(days).ok()).map(ValueRef::Date)
        }
        Value::Timestamptz(time) => time
            .checked_add(UNIX_EPOCH_MICROSECONDS)
            .and_then(|time| Timestamp::from_microseconds(time).ok())
            .map(ValueRef::Timestamp),
        _ => None,
    };
    time.ok_or_else(|| {
        let message = "the time is out of the range of the column, which a program has made: years 1 to 9999";
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    })
}

fn in_bytes<'v>(value: &Value, scratch: &'v mut Vec<u8>) -> ValueRef<'v> {
    scratch.clear();
    write_value(value, scratch);
    ValueRef::Bytes(scratch)
}

/// Encodes a value of SQL as an owned stored value.
///
/// # Errors
/// Same errors as [`encode_ref`].
pub(crate) fn encode(ty: Type, modifier: Modifier, value: &Value) -> Result<Stored> {
    let mut scratch = Vec::new();
    encode_ref(ty, modifier, value, &mut scratch).map(ValueRef::to_value)
}

/// A numeric as a decimal of this scale.
fn decimal(number: &Numeric, scale: u8) -> Result<Decimal> {
    let unscaled = match number {
        Numeric::Small { coefficient, scale: of } => {
            Decimal::new(i128::from(*coefficient), u8::try_from(*of).unwrap_or(u8::MAX)).ok()
        }
        _ => number.to_string().parse().ok(),
    };
    let decimal = unscaled.and_then(|decimal| decimal.rescale(scale).ok());
    decimal.ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{number} cannot be stored in a numeric column with a precision"),
        )
        .with_hint("store NaN in a column of type numeric without precision")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::array::ArrayValue;
    use crate::types::interval::Interval;

    fn round_trip(ty: Type, modifier: Modifier, value: &Value) -> Value {
        let stored = encode(ty, modifier, value).unwrap();
        decode(ty, modifier, ValueRef::from(&stored)).unwrap()
    }

    #[test]
    fn values_of_every_type_come_back() {
        let none = Modifier::NONE;
        let array = ArrayValue::list(Type::Int4, vec![Value::Int4(1), Value::Null]);
        let values = [
            (Type::Bool, none, Value::Bool(true)),
            (Type::Int2, none, Value::Int2(-2)),
            (Type::Int4, none, Value::Int4(i32::MIN)),
            (Type::Int8, none, Value::Int8(i64::MAX)),
            (Type::Float4, none, Value::Float4(0.1)),
            (Type::Float8, none, Value::Float8(f64::INFINITY)),
            (Type::Numeric, Modifier::numeric(10, 2), Value::Numeric("1.50".parse().unwrap())),
            (Type::Numeric, none, Value::Numeric("NaN".parse().unwrap())),
            (Type::Text, none, Value::text("żółw")),
            (Type::Bpchar, Modifier::length(4), Value::Bpchar("ab  ".into())),
            (Type::Bytea, none, Value::bytes([0, 1])),
            (Type::Date, none, Value::Date(i32::MAX)),
            (Type::Time, none, Value::Time(1)),
            (Type::Timestamp, none, Value::Timestamp(i64::MIN)),
            (Type::Timestamptz, none, Value::Timestamptz(7)),
            (Type::Timestamptz, Modifier::ENGINE_TIME, Value::Timestamptz(-7)),
            (Type::Date, Modifier::ENGINE_TIME, Value::Date(-7)),
            (Type::Interval, none, Value::Interval(Interval { months: 1, days: 2, micros: 3 })),
            (Type::Uuid, none, Value::Uuid([9; 16])),
            (Type::Json, none, Value::Json("{ }".into())),
            (Type::Oid, none, Value::Oid(u32::MAX)),
            (Type::Enum(20_000), none, Value::Enum(2)),
            (Type::array_of(Type::Int4), none, Value::array(array)),
            (Type::Int4, none, Value::Null),
        ];
        for (ty, modifier, value) in &values {
            let back = round_trip(*ty, *modifier, value);
            assert_eq!(format!("{back:?}"), format!("{value:?}"), "{ty:?}");
        }
    }

    #[test]
    fn the_scale_of_a_column_is_kept() {
        let modifier = Modifier::numeric(10, 2);
        let back = round_trip(Type::Numeric, modifier, &Value::Numeric("7".parse().unwrap()));
        assert_eq!(format!("{}", back.as_numeric()), "7.00");
    }

    #[test]
    fn a_value_that_a_decimal_cannot_hold_is_an_error() {
        let modifier = Modifier::numeric(10, 2);
        for text in ["NaN", "1.234"] {
            let error = encode(Type::Numeric, modifier, &Value::Numeric(text.parse().unwrap())).unwrap_err();
            assert_eq!(error.state(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        }
    }

    #[test]
    fn a_stored_value_of_another_type_is_damage() {
        let error = decode(Type::Int4, Modifier::NONE, ValueRef::Text("x")).unwrap_err();
        assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
    }

    #[test]
    fn keys_are_kept_of_types_that_compare_as_they_are_stored() {
        assert!(keeps_order(Type::Int4, Modifier::NONE));
        assert!(keeps_order(Type::Numeric, Modifier::numeric(18, 4)));
        assert!(!keeps_order(Type::Numeric, Modifier::NONE));
        assert!(!keeps_order(Type::Interval, Modifier::NONE));
        assert!(!keeps_order(Type::Jsonb, Modifier::NONE));
    }
}
