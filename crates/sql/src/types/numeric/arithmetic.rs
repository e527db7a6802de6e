//! Sums, products, quotients and rounding of `numeric`, with the scales of PostgreSQL's results.
//!
//! Invariant: results are exact, quotients rounded half away from zero to the scale that PostgreSQL chooses.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::{Numeric, SCALE_MAX, exponent_of, overflow, power_of_ten};
use crate::error::{Result, SqlError, SqlState};

/// The digits that a quotient, a root or a logarithm has at least.
pub(super) const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// The most digits after the point that an inexact function computes.
pub(super) const DISPLAY_SCALE_MAX: i64 = 1000;

/// `division by zero` (22012).
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Divides and rounds half away from zero.
pub(super) fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let (quotient, rest) = dividend.div_rem(divisor);
    if rest.magnitude() * 2u8 >= *divisor.magnitude() {
        let is_negative = dividend.is_negative() != divisor.is_negative();
        if is_negative { quotient - 1 } else { quotient + 1 }
    } else {
        quotient
    }
}

/// Changes a coefficient to another scale, rounded half away from zero.
pub(super) fn rescale(coefficient: BigInt, from: i32, to: i32) -> BigInt {
    if to >= from {
        if to == from { coefficient } else { coefficient * power_of_ten((to - from) as u32) }
    } else {
        divide_rounded(&coefficient, &power_of_ten((from - to) as u32))
    }
}

/// A number in base 10,000, as PostgreSQL keeps it: the weight of its first digit, and that digit.
pub(super) fn first_base_digit(coefficient: &BigInt, scale: i32) -> (i64, i64) {
    if coefficient.is_zero() {
        return (0, 0);
    }
    let exponent = exponent_of(coefficient, scale);
    let weight = exponent.div_euclid(4);
    (weight, leading_digits(coefficient, exponent - weight * 4 + 1))
}

/// The first `count` decimal digits, filled up with zeros.
pub(super) fn leading_digits(coefficient: &BigInt, count: i64) -> i64 {
    let digits = super::digit_count(coefficient) as i64;
    let magnitude = coefficient.abs();
    let leading = if digits >= count {
        magnitude / power_of_ten((digits - count) as u32)
    } else {
        magnitude * power_of_ten((count - digits) as u32)
    };
    leading.to_i64().unwrap_or(0)
}

/// The scale of a quotient (`select_div_scale`).
fn quotient_scale(left: (&BigInt, i32), right: (&BigInt, i32)) -> i32 {
    let (left_weight, left_digit) = first_base_digit(left.0, left.1);
    let (right_weight, right_digit) = first_base_digit(right.0, right.1);
    let weight = left_weight - right_weight - i64::from(left_digit <= right_digit);
    let scale = (SIGNIFICANT_DIGITS_MIN - weight * 4).max(i64::from(left.1)).max(i64::from(right.1)).max(0);
    scale.min(DISPLAY_SCALE_MAX) as i32
}

impl Numeric {
    /// The sum.
    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        if let Some(sum) = small_sum(self, other, false) {
            return sum;
        }
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                let scale = left_scale.max(right_scale);
                let sum = rescale(left, left_scale, scale) + rescale(right, right_scale, scale);
                Numeric::from_parts(sum, scale)?.polled()
            }
            _ => Ok(self.add_special(other)),
        }
    }

    fn add_special(&self, other: &Numeric) -> Numeric {
        match (self, other) {
            (Numeric::NaN, _) | (_, Numeric::NaN) => Numeric::NaN,
            (Numeric::Infinity, Numeric::NegativeInfinity)
            | (Numeric::NegativeInfinity, Numeric::Infinity) => Numeric::NaN,
            (left, _) if !left.is_finite() => left.clone(),
            (_, right) => right.clone(),
        }
    }

    /// The difference.
    pub fn subtract(&self, other: &Numeric) -> Result<Numeric> {
        match small_sum(self, other, true) {
            Some(difference) => difference,
            None => self.add(&other.negate()),
        }
    }

    /// The product.
    pub fn multiply(&self, other: &Numeric) -> Result<Numeric> {
        if let (
            Numeric::Small { coefficient: left, scale: left_scale },
            Numeric::Small { coefficient: right, scale: right_scale },
        ) = (self, other)
        {
            let scale = i32::from(*left_scale) + i32::from(*right_scale);
            if scale <= SCALE_MAX {
                return Numeric::from_wide(i128::from(*left) * i128::from(*right), scale);
            }
        }
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                let scale = left_scale + right_scale;
                let kept = scale.min(SCALE_MAX);
                Numeric::from_parts(rescale(left * right, scale, kept), kept)?.polled()
            }
            _ => Ok(self.multiply_special(other)),
        }
    }

    fn multiply_special(&self, other: &Numeric) -> Numeric {
        if self.is_nan() || other.is_nan() {
            return Numeric::NaN;
        }
        Numeric::infinity_of_sign(self.signum() * other.signum())
    }

    /// An infinity of this sign; NaN for 0.
    pub(super) fn infinity_of_sign(sign: i32) -> Numeric {
        match sign {
            0 => Numeric::NaN,
            1.. => Numeric::Infinity,
            _ => Numeric::NegativeInfinity,
        }
    }

    /// The quotient.
    pub fn divide(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                let scale = quotient_scale((&left, left_scale), (&right, right_scale));
                divide_parts((left, left_scale), (right, right_scale), scale)
            }
            (_, _) if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            (None, None) => Ok(Numeric::NaN),
            (None, Some(_)) if other.is_zero() => Err(division_by_zero()),
            (None, Some(_)) => Ok(Numeric::infinity_of_sign(self.signum() * other.signum())),
            (Some(_), None) => Ok(Numeric::ZERO),
        }
    }

    /// The quotient, rounded to this scale.
    pub fn divide_to_scale(&self, other: &Numeric, scale: i32) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some(left), Some(right)) => divide_parts(left, right, scale),
            _ => self.divide(other),
        }
    }

    /// The quotient without its fraction (`div`).
    pub fn divide_whole(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                if right.is_zero() {
                    return Err(division_by_zero());
                }
                let scale = left_scale.max(right_scale);
                let quotient = rescale(left, left_scale, scale) / rescale(right, right_scale, scale);
                Numeric::from_parts(quotient, 0)?.polled()
            }
            _ => self.divide(other),
        }
    }

    /// The remainder, with the sign of the dividend.
    pub fn remainder(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                if right.is_zero() {
                    return Err(division_by_zero());
                }
                let scale = left_scale.max(right_scale);
                let rest = rescale(left, left_scale, scale) % rescale(right, right_scale, scale);
                Numeric::from_parts(rest, scale)?.polled()
            }
            (_, _) if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            (None, Some(_)) if other.is_zero() => Err(division_by_zero()),
            (None, _) => Ok(Numeric::NaN),
            (Some(_), None) => Ok(self.clone()),
        }
    }

    /// The number with the other sign.
    pub fn negate(&self) -> Numeric {
        match self {
            Numeric::Small { coefficient, scale } => match coefficient.checked_neg() {
                Some(coefficient) => Numeric::Small { coefficient, scale: *scale },
                None => Numeric::of_coefficient(-BigInt::from(*coefficient), *scale),
            },
            Numeric::Large(large) => Numeric::of_coefficient(-&large.coefficient, large.scale),
            Numeric::NaN => Numeric::NaN,
            Numeric::Infinity => Numeric::NegativeInfinity,
            Numeric::NegativeInfinity => Numeric::Infinity,
        }
    }

    /// The number without its sign.
    pub fn abs(&self) -> Numeric {
        if self.is_negative() { self.negate() } else { self.clone() }
    }

    /// Rounded half away from zero; negative scales round before the point.
    pub fn round(&self, scale: i32) -> Result<Numeric> {
        self.to_scale(scale, rescale)
    }

    /// Cut off at a scale; negative scales cut before the point.
    pub fn truncate(&self, scale: i32) -> Result<Numeric> {
        self.to_scale(scale, |coefficient, from, to| {
            if to >= from {
                rescale(coefficient, from, to)
            } else {
                coefficient / power_of_ten((from - to) as u32)
            }
        })
    }

    fn to_scale(&self, scale: i32, rescale_to: impl Fn(BigInt, i32, i32) -> BigInt) -> Result<Numeric> {
        let Some((coefficient, from)) = self.parts() else { return Ok(self.clone()) };
        let scale = scale.clamp(-(super::INTEGER_DIGITS_MAX as i32) - 1, SCALE_MAX);
        if scale >= 0 {
            return Numeric::from_parts(rescale_to(coefficient, from, scale), scale)?.polled();
        }
        if i64::from(-scale) > exponent_of(&coefficient, from) + 2 {
            return Ok(Numeric::ZERO);
        }
        let cut = rescale_to(coefficient, from, scale);
        Numeric::from_parts(cut * power_of_ten((-scale) as u32), 0)?.polled()
    }

    /// The greatest whole number that is not above this one.
    pub fn floor(&self) -> Result<Numeric> {
        let Some((coefficient, scale)) = self.parts() else { return Ok(self.clone()) };
        Numeric::from_parts(coefficient.div_floor(&power_of_ten(scale as u32)), 0)?.polled()
    }

    /// The smallest whole number that is not below this one.
    pub fn ceil(&self) -> Result<Numeric> {
        Ok(self.negate().floor()?.negate())
    }

    /// The number without zeros at the end of the fraction.
    pub fn trim_scale(&self) -> Result<Numeric> {
        self.min_scale().map_or_else(|| Ok(self.clone()), |scale| self.truncate(scale))
    }

    /// The smallest scale that shows all digits.
    pub fn min_scale(&self) -> Option<i32> {
        self.normalized().map(|(_, scale)| scale.max(0))
    }
}

fn divide_parts(left: (BigInt, i32), right: (BigInt, i32), scale: i32) -> Result<Numeric> {
    if right.0.is_zero() {
        return Err(division_by_zero());
    }
    // left / 10^ls : right / 10^rs = q / 10^scale, so q = left * 10^(scale - ls + rs) / right.
    let shift = scale - left.1 + right.1;
    let quotient = if shift >= 0 {
        divide_rounded(&(left.0 * power_of_ten(shift as u32)), &right.0)
    } else {
        divide_rounded(&left.0, &(right.0 * power_of_ten((-shift) as u32)))
    };
    Numeric::from_parts(quotient, scale)?.polled()
}

/// Sum or difference of two small numbers in 128 bits, where it fits.
fn small_sum(left: &Numeric, right: &Numeric, subtract: bool) -> Option<Result<Numeric>> {
    let (Numeric::Small { coefficient, scale }, Numeric::Small { coefficient: other, scale: other_scale }) =
        (left, right)
    else {
        return None;
    };
    if scale == other_scale {
        let sum = if subtract { coefficient.checked_sub(*other) } else { coefficient.checked_add(*other) };
        if let Some(sum) = sum {
            return Some(Ok(Numeric::Small { coefficient: sum, scale: *scale }));
        }
    }
    let common = (*scale).max(*other_scale);
    let raise =
        |value: i64, from: u16| i128::from(value).checked_mul(10i128.checked_pow(u32::from(common - from))?);
    let (left, right) = (raise(*coefficient, *scale)?, raise(*other, *other_scale)?);
    let sum = if subtract { left.checked_sub(right)? } else { left.checked_add(right)? };
    Some(Numeric::from_wide(sum, i32::from(common)))
}

/// Clamps a computed scale to what functions print.
pub(super) fn display_scale(scale: i64, inputs: &[i32]) -> i32 {
    let least = inputs.iter().map(|&input| i64::from(input)).max().unwrap_or(0);
    scale.max(least).clamp(0, DISPLAY_SCALE_MAX) as i32
}

/// An error for a number that is too large.
pub(super) fn too_large() -> SqlError {
    overflow()
}
