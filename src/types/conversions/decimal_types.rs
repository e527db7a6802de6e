//! Conversions between [`Decimal`] and the type of the crate `rust_decimal`.

use super::{AsValue, WHAT, wrong_read};
use crate::error::{Error, Result};
use crate::types::{Decimal, Value, ValueRef};

impl From<rust_decimal::Decimal> for Decimal {
    fn from(value: rust_decimal::Decimal) -> Decimal {
        // It has at most 29 digits, 28 of them behind the point.
        Decimal::from_stored(value.mantissa(), value.scale() as u8)
    }
}

impl TryFrom<Decimal> for rust_decimal::Decimal {
    type Error = Error;

    fn try_from(value: Decimal) -> Result<rust_decimal::Decimal> {
        rust_decimal::Decimal::try_from_i128_with_scale(value.unscaled(), value.scale().into()).map_err(
            |_| Error::Overflow {
                what: WHAT.to_owned(),
                detail: format!("{value} has more digits than a rust_decimal::Decimal"),
            },
        )
    }
}

from_scalar! {
    rust_decimal::Decimal: value => ValueRef::Decimal(value.into());
}

try_from_value! {
    rust_decimal::Decimal, "a decimal",
    ValueRef::Decimal(value) => value.try_into(), ValueRef::Int(value) => Ok(value.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn a_number_of_the_crate_rust_decimal_goes_in_and_comes_out() {
        for text in ["19.90", "-0.0000000000000000000000000001", "79228162514264337593543950335", "0"] {
            let number: rust_decimal::Decimal = text.parse().unwrap();
            let row = row![number, Some(number)];
            assert_eq!(row[0].to_string(), text);
            assert_eq!(rust_decimal::Decimal::try_from(row[1]), Ok(number));
            assert_eq!(Value::from(number), row[0]);
        }
        let long: Decimal = "99999999999999999999999999999999999999".parse().unwrap();
        assert!(matches!(rust_decimal::Decimal::try_from(row![long][0]), Err(Error::Overflow { .. })));
        assert!(rust_decimal::Decimal::try_from(ValueRef::Text("1")).is_err());
    }
}
