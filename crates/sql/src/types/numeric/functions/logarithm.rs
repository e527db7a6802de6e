//! Exponentials and logarithms in fixed point, and estimates of their size.

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Signed, Zero};

use crate::error::Result;
use crate::interrupt;
use crate::types::numeric::arithmetic::{first_base_digit, leading_digits, rescale};
use crate::types::numeric::{exponent_of, power_of_ten};

/// e^x of a fixed-point number.
pub(super) fn exp_fixed(x: &BigInt, scale: i32) -> Result<BigInt> {
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

/// ln of `coefficient / 10^scale` with `digits` after the point.
pub(super) fn ln_fixed(coefficient: &BigInt, scale: i32, digits: i32) -> Result<BigInt> {
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
pub(super) fn estimate_ln_weight(coefficient: &BigInt, scale: i32) -> i64 {
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

/// log10 of a number, from its first 16 digits.
pub(super) fn decimal_logarithm(coefficient: &BigInt, scale: i32) -> f64 {
    let exponent = exponent_of(coefficient, scale);
    (leading_digits(coefficient, 16) as f64).log10() + (exponent - 15) as f64
}
