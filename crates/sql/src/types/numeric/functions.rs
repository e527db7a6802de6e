//! Roots, exponentials, logarithms and powers of `numeric`.
//!
//! Invariants: results have the scale that PostgreSQL chooses, and are computed with guard digits and rounded half away
//! from zero. Everything runs on fixed-point integers: `x` represents `x / 10^scale`.
//!
//! Source: PostgreSQL 15, `numeric.c`: `sqrt_var`, `exp_var`, `ln_var`, `log_var`, `power_var`, `estimate_ln_dweight`.

mod logarithm;
mod power;

use std::f64::consts::LOG10_E;

use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};

use self::logarithm::{estimate_ln_weight, exp_fixed, ln_fixed};
use self::power::invalid_power;
use super::arithmetic::{
    SIGNIFICANT_DIGITS_MIN, display_scale, divide_rounded, division_by_zero, first_base_digit, rescale,
    too_large,
};
use super::{Numeric, power_of_ten};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;

/// Beyond this power of ten, `exp` overflows or underflows.
const RESULT_SCALE_MAX: f64 = 2000.0;

fn invalid_logarithm(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message)
}

impl Numeric {
    /// The square root.
    pub fn sqrt(&self) -> Result<Numeric> {
        let Some((coefficient, scale)) = self.parts() else {
            return match self {
                Numeric::NegativeInfinity => {
                    Err(invalid_power("cannot take square root of a negative number"))
                }
                other => Ok(other.clone()),
            };
        };
        if coefficient.is_negative() {
            return Err(invalid_power("cannot take square root of a negative number"));
        }
        let weight = first_base_digit(&coefficient, scale).0;
        self.sqrt_to_scale(display_scale(SIGNIFICANT_DIGITS_MIN - ((weight + 1) * 2 - 1), &[scale]))
    }

    /// The square root of a number that is not negative, with this scale.
    pub fn sqrt_to_scale(&self, result_scale: i32) -> Result<Numeric> {
        let Some((coefficient, scale)) = self.parts() else { return Ok(self.clone()) };
        // One digit more than requested, then rounded; an inexact root never ends in exactly a half.
        let wide = rescale(coefficient, scale, 2 * (result_scale + 1));
        let root = wide.sqrt();
        let is_exact = &root * &root == wide;
        let nudged = if is_exact { root * 10 } else { root * 10 + 1 };
        Numeric::from_parts(rescale(nudged, result_scale + 2, result_scale), result_scale)?.polled()
    }

    /// e to this power.
    pub fn exp(&self) -> Result<Numeric> {
        let Some((coefficient, scale)) = self.parts() else {
            return Ok(match self {
                Numeric::NegativeInfinity => Numeric::ZERO,
                other => other.clone(),
            });
        };
        let value = self.to_f64();
        let estimate = (value * LOG10_E).clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX);
        let result_scale = display_scale(SIGNIFICANT_DIGITS_MIN - estimate as i64, &[scale]);
        if value.abs() >= RESULT_SCALE_MAX * 3.0 {
            return if value > 0.0 { Err(too_large()) } else { Numeric::from_small(0, result_scale) };
        }
        let digits = (value.abs() * LOG10_E) as i32 + result_scale + 12;
        let result = exp_fixed(&rescale(coefficient, scale, digits.max(scale)), digits.max(scale))?;
        Numeric::from_parts(rescale(result, digits.max(scale), result_scale), result_scale)?.polled()
    }

    /// The natural logarithm.
    pub fn ln(&self) -> Result<Numeric> {
        let Some((coefficient, scale)) = self.logarithm_argument()? else { return Ok(self.clone()) };
        let weight = estimate_ln_weight(&coefficient, scale);
        let result_scale = display_scale(SIGNIFICANT_DIGITS_MIN - weight, &[scale]);
        let digits = result_scale + 12;
        let result = ln_fixed(&coefficient, scale, digits)?;
        Numeric::from_parts(rescale(result, digits, result_scale), result_scale)?.polled()
    }

    /// The logarithm to a base.
    pub fn log(base: &Numeric, number: &Numeric) -> Result<Numeric> {
        if base.is_nan() || number.is_nan() {
            return Ok(Numeric::NaN);
        }
        let (base_parts, number_parts) = (base.logarithm_argument()?, number.logarithm_argument()?);
        let (Some(base), Some(number)) = (base_parts, number_parts) else {
            return match (base.is_finite(), number.is_finite()) {
                (false, false) => Ok(Numeric::NaN),
                (false, true) => Ok(Numeric::ZERO),
                _ => Ok(Numeric::Infinity),
            };
        };
        let weight = estimate_ln_weight(&number.0, number.1) - estimate_ln_weight(&base.0, base.1);
        let result_scale = display_scale(SIGNIFICANT_DIGITS_MIN - weight, &[base.1, number.1]);
        let digits = result_scale + 24 + weight.unsigned_abs().min(1000) as i32;
        let divisor = ln_fixed(&base.0, base.1, digits)?;
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        let dividend = ln_fixed(&number.0, number.1, digits)? * power_of_ten(result_scale as u32);
        Numeric::from_parts(divide_rounded(&dividend, &divisor), result_scale)?.polled()
    }

    /// Coefficient and scale of a positive number; none for NaN and infinity.
    fn logarithm_argument(&self) -> Result<Option<(BigInt, i32)>> {
        match self {
            Numeric::NaN | Numeric::Infinity => Ok(None),
            number if number.is_zero() => Err(invalid_logarithm("cannot take logarithm of zero")),
            number if number.is_negative() => {
                Err(invalid_logarithm("cannot take logarithm of a negative number"))
            }
            number => Ok(number.parts()),
        }
    }

    /// The factorial.
    pub fn factorial(number: i64) -> Result<Numeric> {
        if number < 0 {
            let message = "factorial of a negative number is undefined";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        if number > 32177 {
            return Err(too_large());
        }
        let mut product = BigInt::one();
        for factor in 2..=number {
            crate::interrupt::step()?;
            product *= factor;
        }
        Numeric::from_parts(product, 0)?.polled()
    }

    /// The greatest common divisor.
    pub fn gcd(&self, other: &Numeric) -> Result<Numeric> {
        self.with_common_scale(other, gcd)
    }

    /// The least common multiple.
    pub fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        self.with_common_scale(other, |left, right| {
            let divisor = gcd(left, right)?;
            Ok(if divisor.is_zero() { divisor } else { (left / divisor * right).abs() })
        })
    }

    fn with_common_scale(
        &self,
        other: &Numeric,
        combine: impl Fn(&BigInt, &BigInt) -> Result<BigInt>,
    ) -> Result<Numeric> {
        let (Some((left, left_scale)), Some((right, right_scale))) = (self.parts(), other.parts()) else {
            return Ok(Numeric::NaN);
        };
        let scale = left_scale.max(right_scale);
        let (left, right) = (rescale(left, left_scale, scale), rescale(right, right_scale, scale));
        Numeric::from_parts(combine(&left, &right)?, scale)?.polled()
    }
}

/// The greatest common divisor, by Euclid's algorithm: for long numbers it needs very many steps.
fn gcd(left: &BigInt, right: &BigInt) -> Result<BigInt> {
    let (mut larger, mut smaller) = (left.abs(), right.abs());
    while !smaller.is_zero() {
        interrupt::step()?;
        let rest = &larger % &smaller;
        larger = std::mem::replace(&mut smaller, rest);
    }
    Ok(larger)
}
