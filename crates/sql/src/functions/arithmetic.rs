//! Arithmetic of integers, floats and `numeric`: operators and the functions of the same subject.
//!
//! Invariant: a result beyond its type is 22003, a division by zero 22012; nothing wraps.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::numeric::Numeric;

/// Arithmetic functions; more are in `mathematics`.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("abs(int2) int2", |_, v| checked2(v[0].int2().checked_abs())),
    scalar("abs(int4) int4", |_, v| checked4(v[0].int4().checked_abs())),
    scalar("abs(int8) int8", |_, v| checked8(v[0].int8().checked_abs())),
    scalar("abs(float4) float4", |_, v| Ok(Value::Float4(v[0].float4().abs()))),
    scalar("abs(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().abs()))),
    scalar("abs(numeric) numeric", |_, v| Ok(Value::Numeric(v[0].as_numeric().abs()))),
    scalar("mod(int2, int2) int2", remainder2),
    scalar("mod(int4, int4) int4", remainder4),
    scalar("mod(int8, int8) int8", remainder8),
    scalar("mod(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().remainder(v[1].as_numeric()))),
];

/// The operators of one pair of integer types whose result has the given width.
macro_rules! integer_operators {
    ($($left:literal $right:literal $result:literal $add:path, $subtract:path, $multiply:path, $divide:path;)*) => {
        /// Operators of pairs of integers.
        pub(super) const INTEGERS: &[Definition] = &[$(
            scalar(concat!("+(", $left, ", ", $right, ") ", $result), $add),
            scalar(concat!("-(", $left, ", ", $right, ") ", $result), $subtract),
            scalar(concat!("*(", $left, ", ", $right, ") ", $result), $multiply),
            scalar(concat!("/(", $left, ", ", $right, ") ", $result), $divide),
        )*];
    };
}

integer_operators! {
    "int2" "int2" "int2" add2, subtract2, multiply2, divide2;
    "int2" "int4" "int4" add4, subtract4, multiply4, divide4;
    "int4" "int2" "int4" add4, subtract4, multiply4, divide4;
    "int4" "int4" "int4" add4, subtract4, multiply4, divide4;
    "int2" "int8" "int8" add8, subtract8, multiply8, divide8;
    "int8" "int2" "int8" add8, subtract8, multiply8, divide8;
    "int4" "int8" "int8" add8, subtract8, multiply8, divide8;
    "int8" "int4" "int8" add8, subtract8, multiply8, divide8;
    "int8" "int8" "int8" add8, subtract8, multiply8, divide8;
}

/// All other operators of numbers.
pub(super) const NUMBERS: &[Definition] = &[
    scalar("+(int2) int2", |_, v| Ok(v[0].clone())),
    scalar("+(int4) int4", |_, v| Ok(v[0].clone())),
    scalar("+(int8) int8", |_, v| Ok(v[0].clone())),
    scalar("+(float4) float4", |_, v| Ok(v[0].clone())),
    scalar("+(float8) float8", |_, v| Ok(v[0].clone())),
    scalar("+(numeric) numeric", |_, v| Ok(v[0].clone())),
    scalar("-(int2) int2", |_, v| checked2(v[0].int2().checked_neg())),
    scalar("-(int4) int4", |_, v| checked4(v[0].int4().checked_neg())),
    scalar("-(int8) int8", |_, v| checked8(v[0].int8().checked_neg())),
    scalar("-(float4) float4", |_, v| Ok(Value::Float4(-v[0].float4()))),
    scalar("-(float8) float8", |_, v| Ok(Value::Float8(-v[0].float8()))),
    scalar("-(numeric) numeric", |_, v| Ok(Value::Numeric(v[0].as_numeric().negate()))),
    scalar("@(int2) int2", |_, v| checked2(v[0].int2().checked_abs())),
    scalar("@(int4) int4", |_, v| checked4(v[0].int4().checked_abs())),
    scalar("@(int8) int8", |_, v| checked8(v[0].int8().checked_abs())),
    scalar("@(float4) float4", |_, v| Ok(Value::Float4(v[0].float4().abs()))),
    scalar("@(float8) float8", |_, v| Ok(Value::Float8(v[0].float8().abs()))),
    scalar("@(numeric) numeric", |_, v| Ok(Value::Numeric(v[0].as_numeric().abs()))),
    scalar("%(int2, int2) int2", remainder2),
    scalar("%(int4, int4) int4", remainder4),
    scalar("%(int8, int8) int8", remainder8),
    scalar("%(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().remainder(v[1].as_numeric()))),
    scalar("+(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().add(v[1].as_numeric()))),
    scalar("-(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().subtract(v[1].as_numeric()))),
    scalar("*(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().multiply(v[1].as_numeric()))),
    scalar("/(numeric, numeric) numeric", |_, v| decimal(v[0].as_numeric().divide(v[1].as_numeric()))),
    scalar("+(float4, float4) float4", |_, v| real(v[0].float4(), v[1].float4(), |a, b| a + b)),
    scalar("-(float4, float4) float4", |_, v| real(v[0].float4(), v[1].float4(), |a, b| a - b)),
    scalar("*(float4, float4) float4", |_, v| real_product(v[0].float4(), v[1].float4())),
    scalar("/(float4, float4) float4", |_, v| real_quotient(v[0].float4(), v[1].float4())),
    scalar("+(float8, float8) float8", |_, v| double(add_floats(v[0].float8(), v[1].float8()))),
    scalar("-(float8, float8) float8", |_, v| double(add_floats(v[0].float8(), -v[1].float8()))),
    scalar("*(float8, float8) float8", |_, v| double(multiply_floats(v[0].float8(), v[1].float8()))),
    scalar("/(float8, float8) float8", |_, v| double(divide_floats(v[0].float8(), v[1].float8()))),
    scalar("+(float4, float8) float8", |_, v| double(add_floats(v[0].float4().into(), v[1].float8()))),
    scalar("-(float4, float8) float8", |_, v| double(add_floats(v[0].float4().into(), -v[1].float8()))),
    scalar("*(float4, float8) float8", |_, v| double(multiply_floats(v[0].float4().into(), v[1].float8()))),
    scalar("/(float4, float8) float8", |_, v| double(divide_floats(v[0].float4().into(), v[1].float8()))),
    scalar("+(float8, float4) float8", |_, v| double(add_floats(v[0].float8(), v[1].float4().into()))),
    scalar("-(float8, float4) float8", |_, v| double(add_floats(v[0].float8(), -f64::from(v[1].float4())))),
    scalar("*(float8, float4) float8", |_, v| double(multiply_floats(v[0].float8(), v[1].float4().into()))),
    scalar("/(float8, float4) float8", |_, v| double(divide_floats(v[0].float8(), v[1].float4().into()))),
    scalar("&(int2, int2) int2", |_, v| Ok(Value::Int2(v[0].int2() & v[1].int2()))),
    scalar("|(int2, int2) int2", |_, v| Ok(Value::Int2(v[0].int2() | v[1].int2()))),
    scalar("#(int2, int2) int2", |_, v| Ok(Value::Int2(v[0].int2() ^ v[1].int2()))),
    scalar("~(int2) int2", |_, v| Ok(Value::Int2(!v[0].int2()))),
    scalar("<<(int2, int4) int2", |_, v| {
        Ok(Value::Int2((i32::from(v[0].int2()).wrapping_shl(v[1].int4() as u32)) as i16))
    }),
    scalar(">>(int2, int4) int2", |_, v| {
        Ok(Value::Int2((i32::from(v[0].int2()).wrapping_shr(v[1].int4() as u32)) as i16))
    }),
    scalar("&(int4, int4) int4", |_, v| Ok(Value::Int4(v[0].int4() & v[1].int4()))),
    scalar("|(int4, int4) int4", |_, v| Ok(Value::Int4(v[0].int4() | v[1].int4()))),
    scalar("#(int4, int4) int4", |_, v| Ok(Value::Int4(v[0].int4() ^ v[1].int4()))),
    scalar("~(int4) int4", |_, v| Ok(Value::Int4(!v[0].int4()))),
    scalar("<<(int4, int4) int4", |_, v| Ok(Value::Int4(v[0].int4().wrapping_shl(v[1].int4() as u32)))),
    scalar(">>(int4, int4) int4", |_, v| Ok(Value::Int4(v[0].int4().wrapping_shr(v[1].int4() as u32)))),
    scalar("&(int8, int8) int8", |_, v| Ok(Value::Int8(v[0].int8() & v[1].int8()))),
    scalar("|(int8, int8) int8", |_, v| Ok(Value::Int8(v[0].int8() | v[1].int8()))),
    scalar("#(int8, int8) int8", |_, v| Ok(Value::Int8(v[0].int8() ^ v[1].int8()))),
    scalar("~(int8) int8", |_, v| Ok(Value::Int8(!v[0].int8()))),
    scalar("<<(int8, int4) int8", |_, v| Ok(Value::Int8(v[0].int8().wrapping_shl(v[1].int4() as u32)))),
    scalar(">>(int8, int4) int8", |_, v| Ok(Value::Int8(v[0].int8().wrapping_shr(v[1].int4() as u32)))),
];

/// `smallint out of range` and the like (22003).
pub(super) fn out_of_range(kind: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{kind} out of range"))
}

/// `value out of range: overflow` (22003).
pub(super) fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// `value out of range: underflow` (22003).
pub(super) fn float_underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

pub(super) use crate::types::numeric::division_by_zero;

/// A `numeric` result.
pub(super) fn decimal(result: Result<Numeric>) -> Result<Value> {
    result.map(Value::Numeric)
}

/// A `double precision` result.
pub(super) fn double(result: Result<f64>) -> Result<Value> {
    result.map(Value::Float8)
}

pub(super) fn checked2(result: Option<i16>) -> Result<Value> {
    result.map(Value::Int2).ok_or_else(|| out_of_range("smallint"))
}

pub(super) fn checked4(result: Option<i32>) -> Result<Value> {
    result.map(Value::Int4).ok_or_else(|| out_of_range("integer"))
}

pub(super) fn checked8(result: Option<i64>) -> Result<Value> {
    result.map(Value::Int8).ok_or_else(|| out_of_range("bigint"))
}

macro_rules! integer_functions {
    ($kind:ty, $checked:ident, $add:ident $subtract:ident $multiply:ident $divide:ident $remainder:ident) => {
        fn $add(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
            let (left, right) = (v[0].any_int() as $kind, v[1].any_int() as $kind);
            $checked(left.checked_add(right))
        }

        fn $subtract(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
            let (left, right) = (v[0].any_int() as $kind, v[1].any_int() as $kind);
            $checked(left.checked_sub(right))
        }

        fn $multiply(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
            let (left, right) = (v[0].any_int() as $kind, v[1].any_int() as $kind);
            $checked(left.checked_mul(right))
        }

        fn $divide(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
            let (left, right) = (v[0].any_int() as $kind, v[1].any_int() as $kind);
            if right == 0 { Err(division_by_zero()) } else { $checked(left.checked_div(right)) }
        }

        fn $remainder(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
            let (left, right) = (v[0].any_int() as $kind, v[1].any_int() as $kind);
            // The smallest number modulo -1 is 0, although the quotient overflows.
            if right == 0 { Err(division_by_zero()) } else { $checked(Some(left.wrapping_rem(right))) }
        }
    };
}

integer_functions!(i16, checked2, add2 subtract2 multiply2 divide2 remainder2);
integer_functions!(i32, checked4, add4 subtract4 multiply4 divide4 remainder4);
integer_functions!(i64, checked8, add8 subtract8 multiply8 divide8 remainder8);

/// The sum; infinite only if an operand is.
pub(super) fn add_floats(left: f64, right: f64) -> Result<f64> {
    let sum = left + right;
    if sum.is_infinite() && left.is_finite() && right.is_finite() { Err(float_overflow()) } else { Ok(sum) }
}

/// The product; infinite only if a factor is, zero only if a factor is.
pub(super) fn multiply_floats(left: f64, right: f64) -> Result<f64> {
    let product = left * right;
    if product.is_infinite() && left.is_finite() && right.is_finite() {
        Err(float_overflow())
    } else if product == 0.0 && left != 0.0 && right != 0.0 {
        Err(float_underflow())
    } else {
        Ok(product)
    }
}

/// The quotient, with the same rules.
pub(super) fn divide_floats(left: f64, right: f64) -> Result<f64> {
    if right == 0.0 && !left.is_nan() {
        return Err(division_by_zero());
    }
    let quotient = left / right;
    if quotient.is_infinite() && left.is_finite() {
        Err(float_overflow())
    } else if quotient == 0.0 && left != 0.0 && right.is_finite() {
        Err(float_underflow())
    } else {
        Ok(quotient)
    }
}

fn real(left: f32, right: f32, operation: fn(f32, f32) -> f32) -> Result<Value> {
    let result = operation(left, right);
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(float_overflow());
    }
    Ok(Value::Float4(result))
}

fn real_product(left: f32, right: f32) -> Result<Value> {
    if left * right == 0.0 && left != 0.0 && right != 0.0 {
        return Err(float_underflow());
    }
    real(left, right, |a, b| a * b)
}

fn real_quotient(left: f32, right: f32) -> Result<Value> {
    if right == 0.0 && !left.is_nan() {
        return Err(division_by_zero());
    }
    if left / right == 0.0 && left != 0.0 && right.is_finite() {
        return Err(float_underflow());
    }
    real(left, right, |a, b| a / b)
}
