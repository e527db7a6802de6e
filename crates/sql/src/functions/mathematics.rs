//! Mathematical functions of floats and `numeric`.
//!
//! Invariant: arguments outside of a function's domain are 2201E, 2201F, 2201G or 22003, results beyond the type 22003.

use super::arithmetic::{
    checked4, checked8, decimal, divide_floats, double, float_overflow, float_underflow, multiply_floats,
};
use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::numeric::Numeric;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("ceil(numeric) numeric", |_, v| decimal(v[0].as_numeric().ceil())),
    scalar("ceil(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().ceil()))),
    scalar("ceiling(numeric) numeric", |_, v| decimal(v[0].as_numeric().ceil())),
    scalar("ceiling(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().ceil()))),
    scalar("floor(numeric) numeric", |_, v| decimal(v[0].as_numeric().floor())),
    scalar("floor(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().floor()))),
    scalar("round(numeric) numeric", |_, v| decimal(v[0].as_numeric().round(0))),
    scalar("round(numeric, int4) numeric", |_, v| decimal(v[0].as_numeric().round(v[1].int4()))),
    scalar("round(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().round_ties_even()))),
    scalar("trunc(numeric) numeric", |_, v| decimal(v[0].as_numeric().truncate(0))),
    scalar("trunc(numeric, int4) numeric", |_, v| decimal(v[0].as_numeric().truncate(v[1].int4()))),
    scalar("trunc(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().trunc()))),
    scalar("sign(numeric) numeric", |_, v| Ok(Value::Numeric(sign(v[0].as_numeric())))),
    scalar("sign(float8) float8", |_, v| {
        let value = v[0].float8();
        Ok(Value::Float8(if value > 0.0 {
            1.0
        } else if value < 0.0 {
            -1.0
        } else {
            0.0
        }))
    }),
    scalar("sqrt(numeric) numeric", |_, v| decimal(v[0].as_numeric().sqrt())),
    scalar("sqrt(float8) float8", |_, v| double(root(v[0].float8()))),
    scalar("cbrt(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().cbrt()))),
    scalar("exp(numeric) numeric", |_, v| decimal(v[0].as_numeric().exp())),
    scalar("exp(float8) float8", |_, v| double(exponential(v[0].float8()))),
    scalar("ln(numeric) numeric", |_, v| decimal(v[0].as_numeric().ln())),
    scalar("ln(float8) float8", |_, v| double(logarithm(v[0].float8(), f64::ln))),
    scalar("log(numeric) numeric", |_, v| decimal(log10(v[0].as_numeric()))),
    scalar("log(float8) float8", |_, v| double(logarithm(v[0].float8(), f64::log10))),
    scalar("log10(numeric) numeric", |_, v| decimal(log10(v[0].as_numeric()))),
    scalar("log10(float8) float8", |_, v| double(logarithm(v[0].float8(), f64::log10))),
    scalar("log(numeric, numeric) numeric", |_, v| {
        decimal(Numeric::log(v[0].as_numeric(), v[1].as_numeric()))
    }),
    scalar("power(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().power(v[1].as_numeric()))),
    scalar("power(float8, float8) float8", |_, v| double(power(v[0].float8(), v[1].float8()))),
    scalar("pow(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().power(v[1].as_numeric()))),
    scalar("pow(float8, float8) float8", |_, v| double(power(v[0].float8(), v[1].float8()))),
    scalar("div(numeric, numeric) numeric", |_, v| {
        decimal(v[0].as_numeric().divide_whole(v[1].as_numeric()))
    }),
    scalar("gcd(int4, int4) int4", |_, v| checked4(gcd(v)?.try_into().ok())),
    scalar("gcd(int8, int8) int8", |_, v| checked8(gcd(v)?.try_into().ok())),
    scalar("gcd(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().gcd(v[1].as_numeric()))),
    scalar("lcm(int4, int4) int4", |_, v| checked4(lcm(v)?.try_into().ok())),
    scalar("lcm(int8, int8) int8", |_, v| checked8(lcm(v)?.try_into().ok())),
    scalar("lcm(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().lcm(v[1].as_numeric()))),
    scalar("factorial(int8) numeric", |_, v| decimal(Numeric::factorial(v[0].int8()))),
    scalar("scale(numeric) int4", |_, v| Ok(v[0].as_numeric().scale().map_or(Value::Null, Value::Int4))),
    scalar("min_scale(numeric) int4", |_, v| {
        Ok(v[0].as_numeric().min_scale().map_or(Value::Null, Value::Int4))
    }),
    scalar("trim_scale(numeric) numeric", |_, v| v[0].as_numeric().trim_scale().map(Value::Numeric)),
    scalar("pi() float8", |_, _| Ok(Value::Float8(std::f64::consts::PI))),
    scalar("degrees(float8) float8", |_, v| double(divide_floats(v[0].float8(), RADIANS_PER_DEGREE))),
    scalar("radians(float8) float8", |_, v| double(multiply_floats(v[0].float8(), RADIANS_PER_DEGREE))),
    scalar("sin(float8) float8", |_, v| double(finite(v[0].float8(), f64::sin))),
    scalar("cos(float8) float8", |_, v| double(finite(v[0].float8(), f64::cos))),
    scalar("tan(float8) float8", |_, v| double(finite(v[0].float8(), f64::tan))),
    scalar("cot(float8) float8", |_, v| double(finite(v[0].float8(), |x| 1.0 / x.tan()))),
    scalar("asin(float8) float8", |_, v| double(within_one(v[0].float8(), f64::asin))),
    scalar("acos(float8) float8", |_, v| double(within_one(v[0].float8(), f64::acos))),
    scalar("atan(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().atan()))),
    scalar("atan2(float8, float8) float8", |_, v| Ok(Value::Float8(v[0].float8().atan2(v[1].float8())))),
    scalar("sinh(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().sinh()))),
    scalar("cosh(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().cosh()))),
    scalar("tanh(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().tanh()))),
    scalar("asinh(float8) float8", |_, v| Ok(Value::Float8(inverse_sinh(v[0].float8())))),
    scalar("acosh(float8) float8", |_, v| {
        if v[0].float8() < 1.0 { Err(out_of_domain()) } else { Ok(Value::Float8(v[0].float8().acosh())) }
    }),
    scalar("atanh(float8) float8", |_, v| {
        if v[0].float8().abs() > 1.0 {
            Err(out_of_domain())
        } else {
            Ok(Value::Float8(v[0].float8().atanh()))
        }
    }),
    scalar("sind(float8) float8", |_, v| double(finite(v[0].float8(), degrees::sine))),
    scalar("cosd(float8) float8", |_, v| double(finite(v[0].float8(), degrees::cosine))),
    scalar("tand(float8) float8", |_, v| double(finite(v[0].float8(), degrees::tangent))),
    scalar("cotd(float8) float8", |_, v| double(finite(v[0].float8(), degrees::cotangent))),
    scalar("asind(float8) float8", |_, v| double(within_one(v[0].float8(), degrees::arc_sine))),
    scalar("acosd(float8) float8", |_, v| double(within_one(v[0].float8(), degrees::arc_cosine))),
    scalar("atand(float8) float8", |_, v| Ok(Value::Float8(degrees::arc_tangent(v[0].float8())))),
    scalar("atan2d(float8, float8) float8", |_, v| {
        Ok(Value::Float8(degrees::of_arc_tangent(v[0].float8().atan2(v[1].float8()))))
    }),
    scalar("width_bucket(float8, float8, float8, int4) int4", width_bucket_of_floats),
    scalar("width_bucket(numeric, numeric, numeric, int4) int4", width_bucket_of_numbers),
    scalar("width_bucket(anycompatible, anycompatiblearray) int4", width_bucket_in_array),
    scalar("random() float8", |c, _| {
        Ok(Value::Float8((c.environment.random_bits() >> 11) as f64 / (1u64 << 53) as f64))
    })
    .volatile(),
    scalar("setseed(float8) void", setseed).volatile(),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("^(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().power(v[1].as_numeric()))),
    scalar("^(float8, float8) float8", |_, v| double(power(v[0].float8(), v[1].float8()))),
    scalar("|/(float8) float8", |_, v| double(root(v[0].float8()))),
    scalar("||/(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().cbrt()))),
];

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

fn out_of_domain() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn sign(number: &Numeric) -> Numeric {
    if number.is_nan() { Numeric::NaN } else { Numeric::from(number.signum()) }
}

fn log10(number: &Numeric) -> Result<Numeric> {
    Numeric::log(&Numeric::from(10i32), number)
}

fn root(value: f64) -> Result<f64> {
    if value < 0.0 {
        Err(invalid_power("cannot take square root of a negative number"))
    } else {
        Ok(value.sqrt())
    }
}

fn exponential(value: f64) -> Result<f64> {
    let result = value.exp();
    if value.is_finite() && result.is_infinite() {
        Err(float_overflow())
    } else if value.is_finite() && result == 0.0 {
        Err(float_underflow())
    } else {
        Ok(result)
    }
}

fn logarithm(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    let fail = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    if value == 0.0 {
        fail("cannot take logarithm of zero")
    } else if value < 0.0 {
        fail("cannot take logarithm of a negative number")
    } else {
        Ok(of(value))
    }
}

fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.floor() != exponent && !exponent.is_nan() {
        return Err(invalid_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let result = base.powf(exponent);
    let is_finite = base.is_finite() && exponent.is_finite();
    if is_finite && result.is_infinite() {
        Err(float_overflow())
    } else if is_finite && result == 0.0 && base != 0.0 {
        Err(float_underflow())
    } else {
        Ok(result)
    }
}

fn finite(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    if value.is_infinite() { Err(out_of_domain()) } else { Ok(of(value)) }
}

fn within_one(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    if value.abs() > 1.0 { Err(out_of_domain()) } else { Ok(of(value)) }
}

/// Exact for small arguments, and keeps the sign of zero.
fn inverse_sinh(value: f64) -> f64 {
    value.asinh()
}

fn pair(v: &[Value]) -> (i128, i128) {
    (i128::from(v[0].any_int()), i128::from(v[1].any_int()))
}

fn gcd(v: &[Value]) -> Result<i128> {
    let (left, right) = pair(v);
    Ok(num_integer::gcd(left, right))
}

fn lcm(v: &[Value]) -> Result<i128> {
    let (left, right) = pair(v);
    Ok(if left == 0 || right == 0 { 0 } else { num_integer::lcm(left, right).abs() })
}

fn setseed(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let seed = v[0].float8();
    if !(-1.0..=1.0).contains(&seed) {
        let shown = crate::types::text::float8_text(seed, 1);
        let message = format!("setseed parameter {shown} is out of allowed range [-1,1]");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    context.environment.set_seed(seed);
    Ok(Value::Void)
}

fn invalid_bucket(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message)
}

fn bucket_count(value: &Value) -> Result<i32> {
    if value.int4() <= 0 { Err(invalid_bucket("count must be greater than zero")) } else { Ok(value.int4()) }
}

/// One more than the last bucket.
fn behind_last(count: i32) -> Result<Value> {
    checked4(count.checked_add(1))
}

fn width_bucket_of_floats(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (operand, low, high) = (v[0].float8(), v[1].float8(), v[2].float8());
    let count = bucket_count(&v[3])?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid_bucket("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(invalid_bucket("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(invalid_bucket("lower bound cannot equal upper bound"));
    }
    let (is_before, is_behind) =
        if low < high { (operand < low, operand >= high) } else { (operand > low, operand <= high) };
    if is_before {
        return Ok(Value::Int4(0));
    }
    if is_behind {
        return behind_last(count);
    }
    let (distance, width) =
        if low < high { (operand - low, high - low) } else { (low - operand, low - high) };
    let bucket = f64::from(count) * distance / width + 1.0;
    // Bounds so far apart that the difference overflows still leave the operand within them.
    let bucket =
        if bucket.is_finite() { bucket } else { f64::from(count) * (distance / 2.0 / (width / 2.0)) + 1.0 };
    Ok(Value::Int4(bucket as i32))
}

fn width_bucket_of_numbers(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (operand, low, high) = (v[0].as_numeric(), v[1].as_numeric(), v[2].as_numeric());
    let count = bucket_count(&v[3])?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid_bucket("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(invalid_bucket("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(invalid_bucket("lower bound cannot equal upper bound"));
    }
    let (is_before, is_behind) =
        if low < high { (operand < low, operand >= high) } else { (operand > low, operand <= high) };
    if is_before {
        return Ok(Value::Int4(0));
    }
    if is_behind {
        return behind_last(count);
    }
    let distance = operand.subtract(low)?.multiply(&Numeric::from(count))?;
    let bucket = distance.divide(&high.subtract(low)?)?.floor()?;
    checked4(i32::try_from(bucket.to_i64("integer")?).ok().and_then(|bucket| bucket.checked_add(1)))
}

fn width_bucket_in_array(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let array = v[1].as_array();
    if array.dimensions.len() > 1 {
        let message = "thresholds must be one-dimensional array";
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    if array.has_nulls() {
        let message = "thresholds array must not contain NULLs";
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    Ok(Value::Int4(array.values.partition_point(|threshold| *threshold <= v[0]) as i32))
}

/// Trigonometry in degrees, exact where a result is 0, 0.5 or 1.
///
/// Source: PostgreSQL 15, `float.c`: `sind_q1`, `cosd_q1` and the like.
mod degrees {
    use super::RADIANS_PER_DEGREE;

    fn sine_to_30(x: f64) -> f64 {
        (x * RADIANS_PER_DEGREE).sin() / (30.0 * RADIANS_PER_DEGREE).sin() / 2.0
    }

    fn cosine_to_60(x: f64) -> f64 {
        let one_minus = 1.0 - (x * RADIANS_PER_DEGREE).cos();
        1.0 - one_minus / (1.0 - (60.0 * RADIANS_PER_DEGREE).cos()) / 2.0
    }

    /// The sine from 0 to 90 degrees.
    fn sine_of_quadrant(x: f64) -> f64 {
        if x <= 30.0 { sine_to_30(x) } else { cosine_to_60(90.0 - x) }
    }

    fn cosine_of_quadrant(x: f64) -> f64 {
        if x <= 60.0 { cosine_to_60(x) } else { sine_to_30(90.0 - x) }
    }

    /// The sine of an angle.
    pub(super) fn sine(angle: f64) -> f64 {
        let mut sign = if angle < 0.0 { -1.0 } else { 1.0 };
        let mut x = (angle % 360.0).abs();
        if x > 180.0 {
            x = 360.0 - x;
            sign = -sign;
        }
        if x > 90.0 {
            x = 180.0 - x;
        }
        sign * sine_of_quadrant(x)
    }

    /// The cosine of an angle.
    pub(super) fn cosine(angle: f64) -> f64 {
        let mut x = (angle % 360.0).abs();
        if x > 180.0 {
            x = 360.0 - x;
        }
        if x > 90.0 { -cosine_of_quadrant(180.0 - x) } else { cosine_of_quadrant(x) }
    }

    /// The angle in the first quadrant, and the signs that tangent and cotangent have.
    fn reduced(angle: f64) -> (f64, f64) {
        let mut sign = if angle < 0.0 { -1.0 } else { 1.0 };
        let mut x = (angle % 360.0).abs();
        if x > 180.0 {
            x = 360.0 - x;
            sign = -sign;
        }
        if x > 90.0 {
            x = 180.0 - x;
            sign = -sign;
        }
        (x, sign)
    }

    /// The tangent of an angle.
    pub(super) fn tangent(angle: f64) -> f64 {
        let (x, sign) = reduced(angle);
        let at_45 = sine_of_quadrant(45.0) / cosine_of_quadrant(45.0);
        let result = sign * (sine_of_quadrant(x) / cosine_of_quadrant(x) / at_45);
        if result == 0.0 { 0.0 } else { result }
    }

    /// The cotangent of an angle.
    pub(super) fn cotangent(angle: f64) -> f64 {
        let (x, sign) = reduced(angle);
        let at_45 = cosine_of_quadrant(45.0) / sine_of_quadrant(45.0);
        let result = sign * (cosine_of_quadrant(x) / sine_of_quadrant(x) / at_45);
        if result == 0.0 { 0.0 } else { result }
    }

    fn arc_sine_of_quadrant(x: f64) -> f64 {
        if x <= 0.5 { x.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5f64.acos() * 60.0 }
    }

    fn arc_cosine_of_quadrant(x: f64) -> f64 {
        if x <= 0.5 { 90.0 - x.asin() / 0.5f64.asin() * 30.0 } else { x.acos() / 0.5f64.acos() * 60.0 }
    }

    /// The angle with this sine.
    pub(super) fn arc_sine(x: f64) -> f64 {
        if x >= 0.0 { arc_sine_of_quadrant(x) } else { -arc_sine_of_quadrant(-x) }
    }

    /// The angle with this cosine.
    pub(super) fn arc_cosine(x: f64) -> f64 {
        if x >= 0.0 { arc_cosine_of_quadrant(x) } else { 90.0 + arc_sine_of_quadrant(-x) }
    }

    /// The angle with this tangent.
    pub(super) fn arc_tangent(x: f64) -> f64 {
        of_arc_tangent(x.atan())
    }

    /// An arc tangent in radians, in degrees.
    pub(super) fn of_arc_tangent(radians: f64) -> f64 {
        radians / 1.0f64.atan() * 45.0
    }
}
