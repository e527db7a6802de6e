//! Roots, exponentials, logarithms and powers of `numeric`.
//!
//! Invariants: results have the scale that PostgreSQL chooses, and are computed with guard digits and rounded half away
//! from zero. Everything runs on fixed-point integers: `x` stands for `x / 10^scale`.
//!
//! Source: PostgreSQL 15, `numeric.c`: `sqrt_var`, `exp_var`, `ln_var`, `log_var`, `power_var`, `estimate_ln_dweight`.

use std::f64::consts::LOG10_E;

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::arithmetic::{
    SIGNIFICANT_DIGITS_MIN, display_scale, divide_rounded, division_by_zero, first_base_digit,
    leading_digits, rescale, too_large,
};
use super::{Numeric, digit_count, exponent_of, power_of_ten};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;

/// Beyond this power of ten, `exp` overflows or underflows.
const RESULT_SCALE_MAX: f64 = 2000.0;

fn invalid_logarithm(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message)
}

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
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
        // One digit more than asked for, then rounded; an inexact root never ends in exactly a half.
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

/// The greatest common divisor, by Euclid's algorithm: for long numbers it takes very many steps.
fn gcd(left: &BigInt, right: &BigInt) -> Result<BigInt> {
    let (mut larger, mut smaller) = (left.abs(), right.abs());
    while !smaller.is_zero() {
        interrupt::step()?;
        let rest = &larger % &smaller;
        larger = std::mem::replace(&mut smaller, rest);
    }
    Ok(larger)
}

/// e^x of a fixed-point number.
fn exp_fixed(x: &BigInt, scale: i32) -> Result<BigInt> {
    // Halve until the series converges fast, then square as often.
    let halvings = 8 + (x.bits().saturating_sub(power_of_ten(scale as u32).bits())) as u32;
    let guard = scale + 10 + halvings as i32;
    let one = power_of_ten(guard as u32);
    let reduced: BigInt = rescale(x.clone(), scale, guard) >> halvings;
    let mut sum = one.clone();
    let mut term = one.clone();
    let mut n = 1u32;
    while !term.is_zero() {
        interrupt::check()?;
        term = &term * &reduced / &one / n;
        // Floor division never reaches zero from below.
        if term == BigInt::from(-1) {
            term = BigInt::zero();
        }
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        interrupt::check()?;
        sum = &sum * &sum / &one;
    }
    Ok(rescale(sum, guard, scale))
}

/// ln of `coefficient / 10^scale` with `digits` behind the point.
fn ln_fixed(coefficient: &BigInt, scale: i32, digits: i32) -> Result<BigInt> {
    // x = m * 10^e with m in [0.1, 10); then square roots until m is close to 1.
    let exponent = exponent_of(coefficient, scale);
    let guard = digits + 20;
    let one = power_of_ten(guard as u32);
    let shift = i64::from(guard) - i64::from(scale) - exponent;
    let mantissa = if shift >= 0 {
        coefficient * power_of_ten(shift as u32)
    } else {
        coefficient / power_of_ten((-shift) as u32)
    };
    let mut sum = ln_near_one(mantissa, &one)?;
    if exponent != 0 {
        let ten = ln_near_one(&one * 10, &one)?;
        sum += ten * exponent;
    }
    Ok(rescale(sum, guard, digits))
}

/// ln(m) for m between 0.1 and 10, both in units of `one`.
fn ln_near_one(mut m: BigInt, one: &BigInt) -> Result<BigInt> {
    let mut roots = 0u32;
    let bound = one / 20;
    while (&m - one).abs() > bound {
        interrupt::check()?;
        m = (&m * one).sqrt();
        roots += 1;
    }
    // ln(m) = 2 artanh((m - 1) / (m + 1))
    let z = (&m - one) * one / (&m + one);
    let square = &z * &z / one;
    let mut term = z.clone();
    let mut sum = z;
    let mut n = 3u32;
    while term.magnitude() > &BigUint::one() {
        interrupt::check()?;
        term = &term * &square / one;
        sum += &term / n;
        n += 2;
    }
    Ok((sum * 2) << roots)
}

/// The power of ten of ln(x)'s first digit, estimated as PostgreSQL does it.
fn estimate_ln_weight(coefficient: &BigInt, scale: i32) -> i64 {
    let (one, tenth) = (power_of_ten(scale as u32 + 1), power_of_ten(scale as u32));
    let tenfold = coefficient * 10;
    if tenfold >= &one - &tenth && tenfold <= &one + &tenth {
        let difference = coefficient - power_of_ten(scale as u32);
        if difference.is_zero() {
            return 0;
        }
        let (weight, digit) = first_base_digit(&difference, scale);
        return weight * 4 + (digit as f64).log10() as i64;
    }
    let (weight, digit) = first_base_digit(coefficient, scale);
    let head_digits = exponent_of(coefficient, scale) - weight * 4 + 1;
    let is_longer = coefficient.to_string().trim_end_matches('0').len() as i64 > head_digits;
    let (digits, weight) = if is_longer {
        (leading_digits(coefficient, head_digits + 4), weight * 4 - 4)
    } else {
        (digit, weight * 4)
    };
    let logarithm = (digits as f64).ln() + weight as f64 * std::f64::consts::LN_10;
    logarithm.abs().log10() as i64
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
    // Each multiplication doubles what the ones before it have cut off.
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

/// log10 of a number, from its first 16 digits.
fn decimal_logarithm(coefficient: &BigInt, scale: i32) -> f64 {
    let exponent = exponent_of(coefficient, scale);
    (leading_digits(coefficient, 16) as f64).log10() + (exponent - 15) as f64
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
