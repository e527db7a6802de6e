//! Powers: of integers by squaring, of fractions by logarithms, and of NaN and infinities.

use std::f64::consts::LOG10_E;

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::RESULT_SCALE_MAX;
use super::logarithm::{decimal_logarithm, exp_fixed, ln_fixed};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;
use crate::types::numeric::arithmetic::{
    SIGNIFICANT_DIGITS_MIN, display_scale, divide_rounded, rescale, too_large,
};
use crate::types::numeric::{Numeric, digit_count, exponent_of, power_of_ten};

pub(super) fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

impl Numeric {
    /// This number to a power.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        let (Some((base, base_scale)), Some((power, power_scale))) = (self.parts(), exponent.parts()) else {
            return self.power_special(exponent);
        };
        if base.is_zero() && power.is_negative() {
            return Err(invalid_power("zero raised to a negative power is undefined"));
        }
        let is_integer = (&power % power_of_ten(power_scale as u32)).is_zero();
        if base.is_negative() && !is_integer {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(invalid_power(message));
        }
        let whole = &power / power_of_ten(power_scale as u32);
        if let (true, Some(whole)) = (is_integer, whole.to_i32()) {
            return power_of_integer((base, base_scale), whole);
        }
        if base.is_zero() {
            return Numeric::from_small(0, SIGNIFICANT_DIGITS_MIN as i32);
        }
        let result = power_of_fraction((base.abs(), base_scale), (power, power_scale))?;
        Ok(if base.is_negative() && whole.is_odd() { result.negate() } else { result })
    }

    fn power_special(&self, exponent: &Numeric) -> Result<Numeric> {
        if self == &Numeric::ONE || exponent.is_zero() {
            return Ok(Numeric::ONE);
        }
        if self.is_nan() || exponent.is_nan() {
            return Ok(Numeric::NaN);
        }
        if self.is_zero() && exponent.is_negative() {
            return Err(invalid_power("zero raised to a negative power is undefined"));
        }
        if !exponent.is_finite() {
            return Ok(self.power_to_infinity(exponent));
        }
        let is_integer = exponent.min_scale() == Some(0);
        let is_odd = is_integer && !exponent.remainder(&Numeric::from(2i64))?.is_zero();
        if matches!(self, Numeric::NegativeInfinity) && !is_integer {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(invalid_power(message));
        }
        if exponent.is_negative() {
            return Ok(Numeric::ZERO);
        }
        Ok(if matches!(self, Numeric::NegativeInfinity) && is_odd {
            Numeric::NegativeInfinity
        } else {
            Numeric::Infinity
        })
    }

    fn power_to_infinity(&self, exponent: &Numeric) -> Numeric {
        let grows = matches!(exponent, Numeric::Infinity);
        match self.abs().cmp(&Numeric::ONE) {
            std::cmp::Ordering::Equal => Numeric::ONE,
            std::cmp::Ordering::Greater if grows => Numeric::Infinity,
            std::cmp::Ordering::Less if !grows => Numeric::Infinity,
            _ => Numeric::ZERO,
        }
    }
}

/// A power with a whole exponent (`power_var_int`).
fn power_of_integer(base: (BigInt, i32), exponent: i32) -> Result<Numeric> {
    let (coefficient, scale) = base;
    let weight = if coefficient.is_zero() {
        0.0
    } else {
        f64::from(exponent) * decimal_logarithm(&coefficient, scale)
    };
    let result_scale = display_scale(SIGNIFICANT_DIGITS_MIN, &[scale]);
    if weight > 32768.0 * 4.0 {
        return Err(too_large());
    }
    if weight + 1.0 < -f64::from(result_scale) {
        return Numeric::from_small(0, result_scale);
    }
    if exponent == 0 {
        return Numeric::from_parts(power_of_ten(result_scale as u32), result_scale);
    }
    if coefficient.is_zero() {
        return Numeric::from_small(0, result_scale);
    }
    let count = exponent.unsigned_abs();
    let digits = digit_count(&coefficient) as u64;
    if digits * u64::from(count) <= 20_000 {
        let power = coefficient.pow(count);
        let power_scale = scale * count as i32;
        return if exponent > 0 {
            Numeric::from_parts(rescale(power, power_scale, result_scale), result_scale)?.polled()
        } else {
            let dividend = power_of_ten((power_scale + result_scale) as u32);
            Numeric::from_parts(divide_rounded(&dividend, &power), result_scale)?.polled()
        };
    }
    let power = magnitude_of_power((&coefficient, scale), exponent, result_scale, weight)?;
    let magnitude = Numeric::from_parts(power, result_scale)?.polled()?;
    Ok(if coefficient.is_negative() && exponent % 2 != 0 { magnitude.negate() } else { magnitude })
}

/// The magnitude of a power that is too long to be computed exactly, as a coefficient of this scale; `weight`: log10 of the power.
fn magnitude_of_power(base: (&BigInt, i32), exponent: i32, result_scale: i32, weight: f64) -> Result<BigInt> {
    let (coefficient, scale) = base;
    let count = u64::from(exponent.unsigned_abs());
    // Each multiplication doubles the error of the ones before it.
    let digits = weight.max(0.0) + f64::from(result_scale) + 10.0;
    let bits = (digits / std::f64::consts::LOG10_2) as u64 + 2 * u64::from(u64::BITS - count.leading_zeros());
    // coefficient^count / 10^(scale * count), which is 5^(scale * count) * 2^(scale * count).
    let tens = scale as u64 * count;
    let (dividend, raised) = binary_power(coefficient.magnitude(), count, bits)?;
    let (divisor, lowered) = binary_power(&BigUint::from(5u8), tens, bits)?;
    let shift = raised - lowered - tens as i64;
    let ((mut dividend, mut divisor), shift) =
        if exponent > 0 { ((dividend, divisor), shift) } else { ((divisor, dividend), -shift) };
    dividend *= power_of_ten(result_scale as u32).magnitude();
    if shift >= 0 {
        dividend <<= shift;
    } else {
        divisor <<= -shift;
    }
    Ok(divide_rounded(&dividend.into(), &divisor.into()))
}

/// A power as `mantissa * 2^exponent`, cut off to this many bits.
fn binary_power(base: &BigUint, mut count: u64, bits: u64) -> Result<(BigUint, i64)> {
    let cut = |mantissa: BigUint, exponent: i64| {
        let extra = mantissa.bits().saturating_sub(bits);
        (mantissa >> extra, exponent + extra as i64)
    };
    let (mut power, mut square) = ((BigUint::one(), 0), cut(base.clone(), 0));
    while count > 0 {
        interrupt::check()?;
        if count % 2 == 1 {
            power = cut(power.0 * &square.0, power.1 + square.1);
        }
        count /= 2;
        if count > 0 {
            square = cut(&square.0 * &square.0, 2 * square.1);
        }
    }
    Ok(power)
}

/// A power with a fractional exponent (`power_var`).
fn power_of_fraction(base: (BigInt, i32), exponent: (BigInt, i32)) -> Result<Numeric> {
    let power = Numeric::from_parts(exponent.0.clone(), exponent.1)?;
    let logarithm = decimal_logarithm(&base.0, base.1) * std::f64::consts::LN_10;
    let value = if logarithm.abs() < 1e-6 {
        // The difference from 1 and the power are multiplied exactly: as floats, one may be zero and the other infinite.
        let difference = Numeric::from_parts(&base.0 - power_of_ten(base.1 as u32), base.1)?;
        let float = difference.to_f64();
        let curvature = if float == 0.0 { 1.0 } else { float.ln_1p() / float };
        difference.multiply(&power)?.to_f64() * curvature
    } else {
        logarithm * power.to_f64()
    };
    if value.abs() > RESULT_SCALE_MAX * 3.01 {
        return if value > 0.0 { Err(too_large()) } else { Numeric::from_small(0, 1000) };
    }
    let weight = value * LOG10_E;
    let scale = display_scale(SIGNIFICANT_DIGITS_MIN - weight as i64, &[base.1, exponent.1]);
    power_of_fraction_scaled(base, exponent, scale, weight)
}

fn power_of_fraction_scaled(
    base: (BigInt, i32),
    exponent: (BigInt, i32),
    scale: i32,
    weight: f64,
) -> Result<Numeric> {
    let whole_digits = exponent_of(&exponent.0, exponent.1).max(0) as i32;
    let digits = scale + weight.abs() as i32 + whole_digits + 20;
    let logarithm = ln_fixed(&base.0, base.1, digits)?;
    let product = rescale(logarithm * exponent.0, digits + exponent.1, digits);
    Numeric::from_parts(rescale(exp_fixed(&product, digits)?, digits, scale), scale)?.polled()
}
