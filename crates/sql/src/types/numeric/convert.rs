//! `numeric` to and from integers, floats, modifiers and the binary format.

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

use super::arithmetic::rescale;
use super::{Numeric, exponent_of, overflow, power_of_ten};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Modifier;

macro_rules! from_integers {
    ($($kind:ty)*) => {
        $(impl From<$kind> for Numeric {
            fn from(value: $kind) -> Numeric {
                Numeric::Small { coefficient: i64::from(value), scale: 0 }
            }
        })*
    };
}

from_integers!(i16 i32 i64 u32);

impl From<i128> for Numeric {
    fn from(value: i128) -> Numeric {
        Numeric::from_wide(value, 0).unwrap_or(Numeric::NaN)
    }
}

impl Numeric {
    /// The nearest `bigint`, halves away from zero; `kind` names the wanted type in errors.
    pub fn to_i64(&self, kind: &str) -> Result<i64> {
        let special = match self {
            Numeric::NaN => Some("NaN"),
            Numeric::Infinity | Numeric::NegativeInfinity => Some("infinity"),
            _ => None,
        };
        if let Some(special) = special {
            return Err(SqlError::unsupported(format!("cannot convert {special} to {kind}")));
        }
        let rounded = self.round(0)?;
        let whole = match &rounded {
            Numeric::Small { coefficient, .. } => Some(*coefficient),
            _ => None,
        };
        whole.ok_or_else(|| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{kind} out of range"))
        })
    }

    /// The nearest float; an infinity where the number is too large.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::NaN => f64::NAN,
            Numeric::Infinity => f64::INFINITY,
            Numeric::NegativeInfinity => f64::NEG_INFINITY,
            Numeric::Small { coefficient, scale: 0 } => *coefficient as f64,
            finite => finite.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// A `double precision` with its 15 significant digits.
    pub fn from_f64(value: f64) -> Result<Numeric> {
        Numeric::from_float_text(value, 14)
    }

    /// A `real` with its 6 significant digits.
    pub fn from_f32(value: f32) -> Result<Numeric> {
        Numeric::from_float_text(f64::from(value), 5)
    }

    fn from_float_text(value: f64, digits: usize) -> Result<Numeric> {
        if value.is_nan() {
            return Ok(Numeric::NaN);
        }
        if value.is_infinite() {
            return Ok(Numeric::infinity_of_sign(if value > 0.0 { 1 } else { -1 }));
        }
        let number: Numeric = format!("{value:.digits$e}").parse()?;
        number.trim_scale()
    }

    /// Rounded to what `numeric(p, s)` can hold; an error where it can't.
    pub fn with_modifier(&self, modifier: Modifier) -> Result<Numeric> {
        let Some((precision, scale)) = modifier.numeric_parts() else { return Ok(self.clone()) };
        if self.is_nan() {
            return Ok(Numeric::NaN);
        }
        if !self.is_finite() {
            let detail =
                format!("A field with precision {precision}, scale {scale} cannot hold an infinite value.");
            return Err(field_overflow(detail));
        }
        let rounded = self.round(scale)?;
        let (coefficient, rounded_scale) = rounded.parts().ok_or_else(overflow)?;
        let whole_digits = i64::from(precision - scale);
        if !coefficient.is_zero() && exponent_of(&coefficient, rounded_scale) >= whole_digits {
            let bound = match whole_digits {
                0 => "1".to_string(),
                digits => format!("10^{digits}"),
            };
            let detail = format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
            );
            return Err(field_overflow(detail));
        }
        Ok(rounded)
    }

    /// PostgreSQL's binary format: digits in base 10,000.
    pub fn to_binary(&self) -> Vec<u8> {
        let (digits, weight, sign, scale) = match self.parts() {
            Some((coefficient, scale)) => {
                let (digits, weight) = base_digits(&coefficient, scale);
                (digits, weight, if coefficient.is_negative() { 0x4000u16 } else { 0 }, scale as u16)
            }
            None => {
                // PostgreSQL sends the scale that an infinity's header would have if it were a number's.
                let (sign, scale) = match self {
                    Numeric::Infinity => (0xD000, 0x20),
                    Numeric::NegativeInfinity => (0xF000, 0x20),
                    _ => (0xC000, 0),
                };
                (Vec::new(), 0, sign, scale)
            }
        };
        let mut bytes = Vec::with_capacity(8 + 2 * digits.len());
        bytes.extend((digits.len() as u16).to_be_bytes());
        bytes.extend((weight as i16).to_be_bytes());
        bytes.extend(sign.to_be_bytes());
        bytes.extend(scale.to_be_bytes());
        bytes.extend(digits.iter().flat_map(|digit| digit.to_be_bytes()));
        bytes
    }

    /// Reads the binary format.
    pub fn from_binary(bytes: &[u8]) -> Result<Numeric> {
        let invalid = |message: &str| SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message);
        let word = |at: usize| {
            let pair = bytes.get(at * 2..at * 2 + 2);
            pair.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).ok_or_else(|| {
                SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
            })
        };
        let (count, weight, sign, scale) = (word(0)? as usize, word(1)? as i16, word(2)?, word(3)?);
        match sign {
            0xC000 => return Ok(Numeric::NaN),
            0xD000 => return Ok(Numeric::Infinity),
            0xF000 => return Ok(Numeric::NegativeInfinity),
            0 | 0x4000 => {}
            _ => return Err(invalid("invalid sign in external \"numeric\" value")),
        }
        if scale > 0x3fff {
            return Err(invalid("invalid scale in external \"numeric\" value"));
        }
        let mut coefficient = BigInt::zero();
        for at in 0..count {
            let digit = word(4 + at)?;
            if digit >= 10_000 {
                return Err(invalid("invalid digit in external \"numeric\" value"));
            }
            coefficient = coefficient * 10_000 + digit;
        }
        // The last digit counts 10,000^(weight - count + 1).
        let found_scale = (count as i32 - 1 - i32::from(weight)) * 4;
        if found_scale < 0 {
            coefficient *= power_of_ten((-found_scale) as u32);
        }
        let found_scale = found_scale.max(0);
        let scale = i32::from(scale);
        let coefficient = if scale >= found_scale {
            rescale(coefficient, found_scale, scale)
        } else {
            coefficient / power_of_ten((found_scale - scale) as u32)
        };
        Numeric::from_parts(if sign == 0x4000 { -coefficient } else { coefficient }, scale)
    }
}

fn field_overflow(detail: String) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
}

/// Digits in base 10,000 without zeros at either end, and the weight of the first.
fn base_digits(coefficient: &BigInt, scale: i32) -> (Vec<u16>, i64) {
    if coefficient.is_zero() {
        return (Vec::new(), 0);
    }
    let padding = (4 - scale.rem_euclid(4)) % 4;
    let mut rest = coefficient.abs() * power_of_ten(padding as u32);
    let fraction_digits = i64::from((scale + padding) / 4);
    let base = BigInt::from(10_000);
    let mut digits = Vec::new();
    while !rest.is_zero() {
        digits.push((&rest % &base).to_u16().unwrap_or(0));
        rest /= &base;
    }
    let weight = digits.len() as i64 - 1 - fraction_digits;
    let first = digits.iter().position(|&digit| digit != 0).unwrap_or(0);
    digits.drain(..first);
    digits.reverse();
    (digits, weight)
}
