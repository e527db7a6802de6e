//! Assignment of values to columns: whether a value fits, and its form in the column.
//!
//! Invariants: a value that passed has exactly the column's type: an integer of its width, a decimal with
//! its scale and at most its precision, tuples made of its members.

use crate::error::{Error, Result};
use crate::types::{DataType, Date, Decimal, Timestamp, ValueRef, top_k, tuple};

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
        | (DataType::Uuid, ValueRef::Uuid(_)) => Ok(value),
        (DataType::Date, ValueRef::Date(date)) => match Date::from_days(date.days()) {
            Ok(_) => Ok(value),
            Err(error) => Err(error.in_column(what)),
        },
        (DataType::Timestamp, ValueRef::Timestamp(time)) => {
            match Timestamp::from_microseconds(time.microseconds()) {
                Ok(_) => Ok(value),
                Err(error) => Err(error.in_column(what)),
            }
        }
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
    if let (DataType::Int32 | DataType::Int64, ValueRef::Decimal(decimal)) = (data_type, value)
        && decimal.scale() == 0
        && i64::try_from(decimal.unscaled()).is_err()
    {
        return Error::Overflow {
            what: what.to_owned(),
            detail: format!("{value} is not within {} and {}", i64::MIN, i64::MAX),
        };
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::row;
    use crate::types::{OrderedTuple, TopK, TupleType};

    fn data_type(text: &str) -> DataType {
        text.parse().unwrap()
    }

    fn coerced<'a>(value: impl Into<ValueRef<'a>>, text: &str) -> Result<ValueRef<'a>> {
        coerce(value.into(), &data_type(text), true, "column \"price\"")
    }

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn null_goes_where_it_is_allowed_and_the_error_names_the_column() {
        for text in ["int32", "text", "top_k(3; int64)"] {
            assert!(check(ValueRef::Null, &data_type(text), false, "x").is_ok());
            let error = check(ValueRef::Null, &data_type(text), true, "column \"x\"").unwrap_err();
            assert!(matches!(error, Error::NullValue { .. }));
            assert!(error.to_string().contains("column \"x\""), "{error}");
        }
    }

    #[test]
    fn another_type_is_refused_with_both_types() {
        let error = coerced("text", "int64").unwrap_err();
        assert_eq!(error, wrong_type(ValueRef::Text(""), &DataType::Int64, "column \"price\""));
        assert!(error.to_string().contains("int64") && error.to_string().contains("a text"), "{error}");
        for (value, text) in [
            (ValueRef::Int(1), "bool"),
            (ValueRef::Float(1.0), "int64"),
            (ValueRef::Float(1.0), "decimal(3,0)"),
            (ValueRef::Decimal(Decimal::from(1)), "float64"),
            (ValueRef::Bytes(b"a"), "text"),
            (ValueRef::Text("a"), "bytes"),
            (ValueRef::Text("2024-01-01"), "date"),
            (ValueRef::Tuple(&[]), "top_k(3; int64)"),
            (ValueRef::TopK(&[]), "ordered_tuple(int64)"),
        ] {
            assert!(matches!(coerced(value, text), Err(Error::WrongType { .. })), "{value:?} as {text}");
        }
    }

    #[test]
    fn integers_keep_to_the_width_of_their_column() {
        assert!(
            coerced(i64::from(i32::MAX), "int32").is_ok() && coerced(i64::from(i32::MIN), "int32").is_ok()
        );
        for beyond in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1, i64::MIN] {
            let error = coerced(beyond, "int32").unwrap_err();
            assert!(
                matches!(error, Error::Overflow { .. }) && error.to_string().contains("-2147483648"),
                "{error}"
            );
            assert!(coerced(beyond, "int64").is_ok());
        }
    }

    #[test]
    fn decimals_get_the_scale_of_their_column_and_are_never_rounded() {
        let stored = |value: &str| match coerced(decimal(value), "decimal(5,2)") {
            Ok(ValueRef::Decimal(stored)) => Ok((stored.unscaled(), stored.scale())),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        assert_eq!(stored("1.5"), Ok((150, 2)));
        assert_eq!(stored("1.5000"), Ok((150, 2)));
        assert_eq!(stored("-999.99"), Ok((-99_999, 2)));
        assert!(matches!(stored("1.505"), Err(Error::Inexact { .. })));
        assert!(matches!(stored("1000.00"), Err(Error::Overflow { .. })));
        assert!(matches!(stored("99999999999999999999999999999999999999"), Err(Error::Overflow { .. })));
        assert_eq!(coerced(7, "decimal(5,2)").unwrap(), ValueRef::Decimal(decimal("7.00")));
        assert!(matches!(coerced(1000, "decimal(5,2)"), Err(Error::Overflow { .. })));
    }

    #[test]
    fn a_float_column_takes_nan_and_integers_that_are_floats() {
        assert!(coerced(f64::NAN, "float64").is_ok() && coerced(f64::NEG_INFINITY, "float64").is_ok());
        assert_eq!(coerced(1_i64 << 53, "float64").unwrap(), ValueRef::Float(9_007_199_254_740_992.0));
        assert!(matches!(coerced((1_i64 << 53) + 1, "float64"), Err(Error::Inexact { .. })));
        assert!(matches!(coerced(i64::MIN, "float64"), Err(Error::Inexact { .. })));
    }

    #[test]
    fn a_text_without_zero_goes_in_and_one_with_it_does_not() {
        assert!(coerced("", "text").is_ok() && coerced("höher \u{1}", "text").is_ok());
        let error = coerced("a\0b", "text").unwrap_err();
        assert!(error.to_string().contains("character zero"), "{error}");
        assert!(coerced(b"a\0b", "bytes").is_ok());
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let longest = "a".repeat(VALUE_BYTES_MAX);
        let too_long = "a".repeat(VALUE_BYTES_MAX + 1);
        assert!(coerced(&longest, "text").is_ok() && coerced(longest.as_bytes(), "bytes").is_ok());
        for result in [coerced(&too_long, "text"), coerced(too_long.as_bytes(), "bytes")] {
            assert!(matches!(result, Err(Error::InvalidValue { .. })));
        }
    }

    #[test]
    fn tuples_and_sets_have_the_members_of_their_column() {
        let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
        let tuple = OrderedTuple::new(&of, &row![1], &row!["a"]).unwrap();
        let other = OrderedTuple::new(&of, &row![2], &row!["b"]).unwrap();
        assert!(coerced(&tuple, "ordered_tuple(int64; text)").is_ok());
        assert!(coerced(&tuple, "ordered_tuple(int64)").is_err());
        assert!(coerced(&tuple, "ordered_tuple(text; int64)").is_err());
        let set = TopK::of(10, [&tuple, &other]).unwrap();
        assert!(coerced(&set, "top_k(2; int64; text)").is_ok());
        assert!(coerced(&set, "top_k(1; int64; text)").is_err());
        assert!(coerced(&set, "top_k(2; int64; int64)").is_err());
    }
}
