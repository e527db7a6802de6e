//! `numeric`: exact decimal numbers of up to 131,072 digits before the point and 16,383 after it, NaN, and infinities.
//!
//! ```text
//! mod         representation, order, text form       arithmetic   + - * / % and rounding, with PostgreSQL's scales
//! functions   sqrt, exp, ln, log, power, gcd, …       convert      integers, floats, modifiers, the binary format
//! ```
//!
//! Invariants: a coefficient that fits 64 bits is kept inline (`Small`), any other behind an `Arc` (`Large`), so that
//! each number has one representation per scale; equality and hash ignore the scale. The scale is the number of digits
//! printed after the point, as PostgreSQL computes it for every operation.
//!
//! Source: PostgreSQL 15, `src/backend/utils/adt/numeric.c`, for the choice of scales.

mod arithmetic;
mod convert;
mod functions;
#[cfg(test)]
mod tests;

pub use arithmetic::division_by_zero;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;

/// The most digits after the point.
pub const SCALE_MAX: i32 = 16383;
/// The most digits before the point.
pub const INTEGER_DIGITS_MAX: i64 = 131_072;

/// Minimum number of bits of a coefficient for which an operation polls for an interrupt: a batch of them is slow.
const LONG_BITS: u64 = 4096;

/// An exact decimal number, NaN or an infinity.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// `coefficient / 10^scale`
    Small {
        /// The digits with their sign.
        coefficient: i64,
        /// Number of digits after the point.
        scale: u16,
    },
    /// A number whose coefficient exceeds 64 bits.
    Large(Arc<Large>),
    /// Not a number; equal to itself and above everything.
    NaN,
    /// Above every number.
    Infinity,
    /// Below every number.
    NegativeInfinity,
}

/// A number whose coefficient exceeds 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub struct Large {
    coefficient: BigInt,
    scale: u16,
}

/// 10 to the n-th.
pub(crate) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10u8).pow(exponent)
}

/// The error of a number beyond all bounds.
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

impl Numeric {
    /// Zero with scale 0.
    pub const ZERO: Numeric = Numeric::Small { coefficient: 0, scale: 0 };
    /// One with scale 0.
    pub const ONE: Numeric = Numeric::Small { coefficient: 1, scale: 0 };

    /// `coefficient / 10^scale`; an error if the number is beyond the bounds of `numeric`. Never polls for an interrupt, since stored
    /// values are read through it.
    pub fn from_parts(coefficient: BigInt, scale: i32) -> Result<Numeric> {
        if let Some(coefficient) = coefficient.to_i64() {
            return Numeric::from_small(coefficient, scale);
        }
        if !(0..=SCALE_MAX).contains(&scale) || exponent_of(&coefficient, scale) >= INTEGER_DIGITS_MAX {
            return Err(overflow());
        }
        Ok(Numeric::of_coefficient(coefficient, scale as u16))
    }

    /// Combines parts that are known to be within the bounds.
    fn of_coefficient(coefficient: BigInt, scale: u16) -> Numeric {
        match coefficient.to_i64() {
            Some(coefficient) => Numeric::Small { coefficient, scale },
            None => Numeric::Large(Arc::new(Large { coefficient, scale })),
        }
    }

    /// Like [`from_parts`](Self::from_parts), for a coefficient of 64 bits.
    pub fn from_small(coefficient: i64, scale: i32) -> Result<Numeric> {
        if (0..=SCALE_MAX).contains(&scale) {
            Ok(Numeric::Small { coefficient, scale: scale as u16 })
        } else {
            Err(overflow())
        }
    }

    /// Like [`from_parts`](Self::from_parts), for a coefficient of 128 bits.
    pub fn from_wide(coefficient: i128, scale: i32) -> Result<Numeric> {
        match i64::try_from(coefficient) {
            Ok(coefficient) => Numeric::from_small(coefficient, scale),
            Err(_) => Numeric::from_parts(BigInt::from(coefficient), scale),
        }
    }

    /// The result of an operation that is slow if the result is long: polls for an interrupt.
    pub(crate) fn polled(self) -> Result<Numeric> {
        if let Numeric::Large(large) = &self
            && large.coefficient.bits() > LONG_BITS
        {
            interrupt::check()?;
        }
        Ok(self)
    }

    /// The number of digits after the point; `None` for NaN and infinities.
    pub fn scale(&self) -> Option<i32> {
        match self {
            Numeric::Small { scale, .. } => Some(i32::from(*scale)),
            Numeric::Large(large) => Some(i32::from(large.scale)),
            _ => None,
        }
    }

    /// Coefficient and scale; none for NaN and infinities.
    pub(crate) fn parts(&self) -> Option<(BigInt, i32)> {
        match self {
            Numeric::Small { coefficient, scale } => Some((BigInt::from(*coefficient), i32::from(*scale))),
            Numeric::Large(large) => Some((large.coefficient.clone(), i32::from(large.scale))),
            _ => None,
        }
    }

    /// Returns true if this is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::NaN)
    }

    /// Returns true if this is neither NaN nor an infinity.
    pub fn is_finite(&self) -> bool {
        matches!(self, Numeric::Small { .. } | Numeric::Large(_))
    }

    /// Returns true if this is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Numeric::Small { coefficient: 0, .. })
    }

    /// -1, 0 or 1; 1 for NaN.
    pub fn signum(&self) -> i32 {
        match self {
            Numeric::Small { coefficient, .. } => coefficient.signum() as i32,
            Numeric::Large(large) if large.coefficient.is_negative() => -1,
            Numeric::NegativeInfinity => -1,
            _ => 1,
        }
    }

    /// Returns true if this is below zero.
    pub fn is_negative(&self) -> bool {
        self.signum() < 0
    }

    /// The number without zeros at the end: a coefficient that 10 does not divide, and a scale that may be negative.
    fn normalized(&self) -> Option<(BigInt, i32)> {
        let (mut coefficient, mut scale) = self.parts()?;
        if coefficient.is_zero() {
            return Some((coefficient, 0));
        }
        let ten = BigInt::from(10u8);
        loop {
            let (quotient, rest) = num_integer::Integer::div_rem(&coefficient, &ten);
            if !rest.is_zero() {
                return Some((coefficient, scale));
            }
            coefficient = quotient;
            scale -= 1;
        }
    }

    /// Approximate number of bytes that are allocated.
    pub fn heap_size(&self) -> usize {
        match self {
            Numeric::Large(large) => 48 + (large.coefficient.bits() / 8) as usize,
            _ => 0,
        }
    }
}

/// The power of ten of the first digit.
pub(crate) fn exponent_of(coefficient: &BigInt, scale: i32) -> i64 {
    digit_count(coefficient) as i64 - 1 - i64::from(scale)
}

/// Number of decimal digits of a coefficient; 1 for zero.
pub(crate) fn digit_count(coefficient: &BigInt) -> usize {
    if let Some(small) = coefficient.to_i64() {
        return small.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1);
    }
    let estimate = ((coefficient.bits() - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    let magnitude = coefficient.magnitude();
    let mut digits = estimate as usize;
    let mut bound = num_bigint::BigUint::from(10u8).pow(estimate);
    while magnitude >= &bound {
        digits += 1;
        bound *= 10u8;
    }
    digits.max(1)
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let class = |number: &Numeric| match number {
            Numeric::NegativeInfinity => 0,
            Numeric::Small { .. } | Numeric::Large(_) => 1,
            Numeric::Infinity => 2,
            Numeric::NaN => 3,
        };
        if let (
            Numeric::Small { coefficient, scale },
            Numeric::Small { coefficient: other_coefficient, scale: other_scale },
        ) = (self, other)
        {
            if scale == other_scale {
                return coefficient.cmp(other_coefficient);
            }
            if let Some(order) = compare_scaled(*coefficient, *scale, *other_coefficient, *other_scale) {
                return order;
            }
        }
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                if left.sign() != right.sign() {
                    return left.sign().cmp(&right.sign());
                }
                match left_scale.cmp(&right_scale) {
                    Ordering::Equal => left.cmp(&right),
                    Ordering::Less => (left * power_of_ten((right_scale - left_scale) as u32)).cmp(&right),
                    Ordering::Greater => left.cmp(&(right * power_of_ten((left_scale - right_scale) as u32))),
                }
            }
            _ => class(self).cmp(&class(other)),
        }
    }
}

/// Compares numbers of different scales in 128 bits, where they fit.
fn compare_scaled(left: i64, left_scale: u16, right: i64, right_scale: u16) -> Option<Ordering> {
    let scale = left_scale.max(right_scale);
    let raise =
        |value: i64, from: u16| i128::from(value).checked_mul(10i128.checked_pow(u32::from(scale - from))?);
    Some(raise(left, left_scale)?.cmp(&raise(right, right_scale)?))
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Numeric::Small { coefficient, scale } => {
                let (mut coefficient, mut scale) = (*coefficient, i32::from(*scale));
                while coefficient != 0 && coefficient % 10 == 0 {
                    coefficient /= 10;
                    scale -= 1;
                }
                if coefficient == 0 {
                    scale = 0;
                }
                coefficient.hash(state);
                scale.hash(state);
            }
            Numeric::Large(_) => {
                if let Some((coefficient, scale)) = self.normalized() {
                    match coefficient.to_i64() {
                        Some(small) => small.hash(state),
                        None => coefficient.hash(state),
                    }
                    scale.hash(state);
                }
            }
            Numeric::NaN => state.write_u8(1),
            Numeric::Infinity => state.write_u8(2),
            Numeric::NegativeInfinity => state.write_u8(3),
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numeric::Small { coefficient, scale } => {
                write_decimal(formatter, *coefficient < 0, &coefficient.unsigned_abs().to_string(), *scale)
            }
            Numeric::Large(large) => {
                let digits = large.coefficient.magnitude().to_str_radix(10);
                write_decimal(formatter, large.coefficient.is_negative(), &digits, large.scale)
            }
            Numeric::NaN => formatter.write_str("NaN"),
            Numeric::Infinity => formatter.write_str("Infinity"),
            Numeric::NegativeInfinity => formatter.write_str("-Infinity"),
        }
    }
}

fn write_decimal(out: &mut fmt::Formatter<'_>, is_negative: bool, digits: &str, scale: u16) -> fmt::Result {
    let scale = usize::from(scale);
    let sign = if is_negative { "-" } else { "" };
    if scale == 0 {
        write!(out, "{sign}{digits}")
    } else if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(out, "{sign}{whole}.{fraction}")
    } else {
        write!(out, "{sign}0.{digits:0>scale$}")
    }
}

impl FromStr for Numeric {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Numeric> {
        let invalid = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        match parse_special(trimmed) {
            Some(special) => Ok(special),
            None => parse_decimal(trimmed, invalid),
        }
    }
}

fn parse_special(text: &str) -> Option<Numeric> {
    let (sign, word) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => (0, text),
    };
    if word.eq_ignore_ascii_case("nan") && sign == 0 {
        Some(Numeric::NaN)
    } else if word.eq_ignore_ascii_case("infinity") || word.eq_ignore_ascii_case("inf") {
        Some(if sign < 0 { Numeric::NegativeInfinity } else { Numeric::Infinity })
    } else {
        None
    }
}

fn parse_decimal(text: &str, invalid: impl Fn() -> SqlError) -> Result<Numeric> {
    let (is_negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return Err(invalid());
    }
    let exponent = match exponent {
        None => 0,
        Some(digits) => parse_exponent(digits).ok_or_else(&invalid)?,
    };
    if exponent.unsigned_abs() >= (i32::MAX / 2) as u64 {
        return Err(overflow());
    }
    let scale = fraction.len() as i64 - exponent;
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return Numeric::from_small(0, i32::try_from(scale.max(0)).map_err(|_| overflow())?);
    }
    if digits.len() as i64 - scale > INTEGER_DIGITS_MAX || scale > i64::from(SCALE_MAX) {
        return Err(overflow());
    }
    let zeros = (-scale).max(0) as u32;
    if digits.len() + zeros as usize <= 18 {
        let value: i64 = digits.parse::<i64>().map_err(|_| invalid())? * 10i64.pow(zeros);
        return Numeric::from_small(if is_negative { -value } else { value }, scale.max(0) as i32);
    }
    let magnitude = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(invalid)?;
    let coefficient = magnitude * power_of_ten(zeros);
    let sign = if is_negative { Sign::Minus } else { Sign::Plus };
    Numeric::from_parts(BigInt::from_biguint(sign, coefficient.magnitude().clone()), scale.max(0) as i32)
}

/// The number after `e`; digits beyond any use are clipped.
fn parse_exponent(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<i64>().unwrap_or(i64::from(i32::MAX));
    Some(if is_negative { -value } else { value })
}
