//! Aggregates whose state is one value of the result's type, and `count`.

use crate::error::Result;
use crate::functions::arithmetic::float_overflow;
use crate::functions::definition::{Accumulator, Definition, FunctionContext, aggregate, same_state};
use crate::types::Value;

/// The table.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("count() int8", |_| Box::new(Count(0))),
    aggregate("count(any) int8", |_| Box::new(Count(0))),
    aggregate("min(int2) int2", |_| fold(least)),
    aggregate("max(int2) int2", |_| fold(greatest)),
    aggregate("min(int4) int4", |_| fold(least)),
    aggregate("max(int4) int4", |_| fold(greatest)),
    aggregate("min(int8) int8", |_| fold(least)),
    aggregate("max(int8) int8", |_| fold(greatest)),
    aggregate("min(oid) oid", |_| fold(least)),
    aggregate("max(oid) oid", |_| fold(greatest)),
    aggregate("min(float4) float4", |_| fold(least)),
    aggregate("max(float4) float4", |_| fold(greatest)),
    aggregate("min(float8) float8", |_| fold(least)),
    aggregate("max(float8) float8", |_| fold(greatest)),
    aggregate("min(numeric) numeric", |_| fold(least)),
    aggregate("max(numeric) numeric", |_| fold(greatest)),
    aggregate("min(date) date", |_| fold(least)),
    aggregate("max(date) date", |_| fold(greatest)),
    aggregate("min(time) time", |_| fold(least)),
    aggregate("max(time) time", |_| fold(greatest)),
    aggregate("min(timetz) timetz", |_| fold(least)),
    aggregate("max(timetz) timetz", |_| fold(greatest)),
    aggregate("min(timestamp) timestamp", |_| fold(least)),
    aggregate("max(timestamp) timestamp", |_| fold(greatest)),
    aggregate("min(timestamptz) timestamptz", |_| fold(least)),
    aggregate("max(timestamptz) timestamptz", |_| fold(greatest)),
    aggregate("min(interval) interval", |_| fold(least)),
    aggregate("max(interval) interval", |_| fold(greatest)),
    aggregate("min(text) text", |_| fold(least)),
    aggregate("max(text) text", |_| fold(greatest)),
    aggregate("min(bpchar) bpchar", |_| fold(least)),
    aggregate("max(bpchar) bpchar", |_| fold(greatest)),
    aggregate("min(anyarray) anyarray", |_| fold(least)),
    aggregate("max(anyarray) anyarray", |_| fold(greatest)),
    aggregate("min(anyenum) anyenum", |_| fold(least)),
    aggregate("max(anyenum) anyenum", |_| fold(greatest)),
    aggregate("bit_and(int2) int2", |_| fold(bit_and)),
    aggregate("bit_and(int4) int4", |_| fold(bit_and)),
    aggregate("bit_and(int8) int8", |_| fold(bit_and)),
    aggregate("bit_or(int2) int2", |_| fold(bit_or)),
    aggregate("bit_or(int4) int4", |_| fold(bit_or)),
    aggregate("bit_or(int8) int8", |_| fold(bit_or)),
    aggregate("bit_xor(int2) int2", |_| fold(bit_xor)),
    aggregate("bit_xor(int4) int4", |_| fold(bit_xor)),
    aggregate("bit_xor(int8) int8", |_| fold(bit_xor)),
    aggregate("bool_and(bool) bool", |_| fold(|a, b| Ok(Value::Bool(a.bool() && b.bool())))),
    aggregate("every(bool) bool", |_| fold(|a, b| Ok(Value::Bool(a.bool() && b.bool())))),
    aggregate("bool_or(bool) bool", |_| fold(|a, b| Ok(Value::Bool(a.bool() || b.bool())))),
    aggregate("sum(float4) float4", |_| fold(add_reals)),
    aggregate("sum(float8) float8", |_| fold(add_doubles)),
    aggregate("sum(interval) interval", |_| {
        fold(|a, b| a.interval().plus(b.interval()).map(Value::Interval))
    }),
];

/// Puts two values into one, in the order of their rows.
type Combine = fn(&Value, &Value) -> Result<Value>;

/// The values so far, combined; none before the first.
struct Fold {
    value: Option<Value>,
    combine: Combine,
}

fn fold(combine: Combine) -> Box<dyn Accumulator> {
    Box::new(Fold { value: None, combine })
}

impl Fold {
    fn take(&mut self, value: &Value) -> Result<()> {
        self.value = Some(match &self.value {
            None => value.clone(),
            Some(current) => (self.combine)(current, value)?,
        });
        Ok(())
    }
}

impl Accumulator for Fold {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        self.take(&arguments[0])
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        match same_state::<Fold>(other)?.value {
            Some(value) => self.take(&value),
            None => Ok(()),
        }
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        Ok(self.value.clone().unwrap_or(Value::Null))
    }

    fn size(&self) -> usize {
        size_of::<Fold>() + self.value.as_ref().map_or(0, Value::heap_size)
    }
}

/// Of equal values that print differently, the last one stays, but the first one of `char(n)`.
fn keeps_first(left: &Value, right: &Value) -> bool {
    matches!(left, Value::Bpchar(_)) && left == right
}

fn least(left: &Value, right: &Value) -> Result<Value> {
    Ok(if left < right || keeps_first(left, right) { left.clone() } else { right.clone() })
}

fn greatest(left: &Value, right: &Value) -> Result<Value> {
    Ok(if left > right || keeps_first(left, right) { left.clone() } else { right.clone() })
}

fn add_reals(left: &Value, right: &Value) -> Result<Value> {
    let (left, right) = (left.float4(), right.float4());
    let sum = left + right;
    if sum.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(float_overflow());
    }
    Ok(Value::Float4(sum))
}

fn add_doubles(left: &Value, right: &Value) -> Result<Value> {
    crate::functions::arithmetic::add_floats(left.float8(), right.float8()).map(Value::Float8)
}

/// A function of two integers of one width.
fn bits(left: &Value, right: &Value, combine: fn(i64, i64) -> i64) -> Result<Value> {
    let result = combine(left.any_int(), right.any_int());
    Ok(match left {
        Value::Int2(_) => Value::Int2(result as i16),
        Value::Int4(_) => Value::Int4(result as i32),
        _ => Value::Int8(result),
    })
}

fn bit_and(left: &Value, right: &Value) -> Result<Value> {
    bits(left, right, |a, b| a & b)
}

fn bit_or(left: &Value, right: &Value) -> Result<Value> {
    bits(left, right, |a, b| a | b)
}

fn bit_xor(left: &Value, right: &Value) -> Result<Value> {
    bits(left, right, |a, b| a ^ b)
}

/// The number of rows.
pub(super) struct Count(pub(super) i64);

impl Accumulator for Count {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        self.0 += same_state::<Count>(other)?.0;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        Ok(Value::Int8(self.0))
    }

    fn size(&self) -> usize {
        size_of::<Count>()
    }
}
