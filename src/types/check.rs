//! Whether a value may go into a column, and as which value.
//!
//! What it keeps true: a value that passed has exactly the column's type: an integer of its width, a decimal with
//! its scale and at most its precision, tuples made of its members.

use crate::error::{Error, Result};
use crate::types::{DataType, Decimal, ValueRef, top_k, tuple};

/// The longest text, byte string, tuple or top-K set. Small under test, so that tests reach it.
pub(crate) const VALUE_BYTES_MAX: usize = if cfg!(test) { 1 << 16 } else { 1 << 28 };

/// The largest integer up to which every integer is a floating point number.
const EXACT_FLOAT_MAX: u64 = 1 << f64::MANTISSA_DIGITS;

/// Refuses a value that a column of this type cannot hold; `what` names the column in the message.
pub(crate) fn check(value: ValueRef<'_>, data_type: &DataType, not_null: bool, what: &str) -> Result<()> {
    coerce(value, data_type, not_null, what).map(drop)
}

/// The value as the column holds it: an integer for a decimal or float column becomes one, a decimal gets the
/// column's scale. Nothing is ever rounded.
pub(crate) fn coerce<'a>(
    value: ValueRef<'a>,
    data_type: &DataType,
    not_null: bool,
    what: &str,
) -> Result<ValueRef<'a>> {
    match (data_type, value) {
        (_, ValueRef::Null) if not_null => Err(Error::NullValue { what: what.to_owned() }),
        (_, ValueRef::Null)
        | (DataType::Bool, ValueRef::Bool(_))
        | (DataType::Int64, ValueRef::Int(_))
        | (DataType::Float64, ValueRef::Float(_))
        | (DataType::Date, ValueRef::Date(_))
        | (DataType::Timestamp, ValueRef::Timestamp(_))
        | (DataType::Uuid, ValueRef::Uuid(_)) => Ok(value),
        (DataType::Int32, ValueRef::Int(int)) => check_int(int, data_type, what).map(ValueRef::Int),
        (DataType::Float64, ValueRef::Int(int)) => exact_float(int, what).map(ValueRef::Float),
        (DataType::Decimal { precision, scale }, ValueRef::Decimal(decimal)) => {
            fit_decimal(decimal, *precision, *scale, what).map(ValueRef::Decimal)
        }
        (DataType::Decimal { precision, scale }, ValueRef::Int(int)) => {
            fit_decimal(Decimal::from(int), *precision, *scale, what).map(ValueRef::Decimal)
        }
        (DataType::Text, ValueRef::Text(text)) => check_text(text, what).map(|()| value),
        (DataType::Bytes, ValueRef::Bytes(bytes)) => check_length(bytes.len(), what).map(|()| value),
        (DataType::OrderedTuple(of), ValueRef::Tuple(bytes)) => {
            check_length(bytes.len(), what)?;
            tuple::validate(bytes, of).map(|()| value)
        }
        (DataType::TopK { limit, of }, ValueRef::TopK(bytes)) => {
            check_length(bytes.len(), what)?;
            top_k::validate(bytes, *limit, of).map(|()| value)
        }
        _ => Err(wrong_type(value, data_type, what)),
    }
}

/// The error for a value of another type than its column.
pub(crate) fn wrong_type(value: ValueRef<'_>, data_type: &DataType, what: &str) -> Error {
    Error::WrongType {
        what: what.to_owned(),
        expected: data_type.to_string(),
        found: value.kind().to_owned(),
    }
}

/// Refuses an integer beyond an `Int32` column; every other column takes it.
pub(crate) fn check_int(value: i64, data_type: &DataType, what: &str) -> Result<i64> {
    if *data_type == DataType::Int32 && i32::try_from(value).is_err() {
        return Err(Error::Overflow {
            what: what.to_owned(),
            detail: format!("{value} is not within {} and {}", i32::MIN, i32::MAX),
        });
    }
    Ok(value)
}

/// The decimal with this scale, if it then has at most this precision.
pub(crate) fn fit_decimal(value: Decimal, precision: u8, scale: u8, what: &str) -> Result<Decimal> {
    if value.scale() == scale && value.precision() <= precision {
        return Ok(value);
    }
    match value.rescale(scale) {
        Ok(rescaled) if rescaled.precision() <= precision => Ok(rescaled),
        Err(Error::Inexact { detail, .. }) => Err(Error::Inexact { what: what.to_owned(), detail }),
        _ => Err(Error::Overflow {
            what: what.to_owned(),
            detail: format!("{value} is not within decimal({precision},{scale})"),
        }),
    }
}

/// The integer as a floating point number, if there is exactly that one.
pub(crate) fn exact_float(value: i64, what: &str) -> Result<f64> {
    if value.unsigned_abs() <= EXACT_FLOAT_MAX {
        return Ok(value as f64);
    }
    Err(Error::Inexact { what: what.to_owned(), detail: format!("{value} is no floating point number") })
}

/// Refuses a text with the character zero, which PostgreSQL's protocol and clients cannot carry, and one that is
/// too long.
pub(crate) fn check_text(text: &str, what: &str) -> Result<()> {
    if text.as_bytes().contains(&0) {
        return Err(Error::InvalidValue {
            what: what.to_owned(),
            detail: "a text has no character zero; store it as bytes, or leave that character out".to_owned(),
        });
    }
    check_length(text.len(), what)
}

/// Refuses a value that is too long to be stored.
pub(crate) fn check_length(bytes: usize, what: &str) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::InvalidValue {
        what: what.to_owned(),
        detail: format!("it has {bytes} bytes, and {VALUE_BYTES_MAX} is the most; store it in parts"),
    })
}
