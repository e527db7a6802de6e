//! Aggregates whose state is one value of the result's type, and `count`.

use std::cmp::Ordering;

use crate::error::Result;
use crate::functions::arithmetic::float_overflow;
use crate::functions::bits as bit_strings;
use crate::functions::definition::{Accumulator, Definition, FunctionContext, aggregate, same_state};
use crate::types::Value;

/// The table.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("count() int8", |_| Box::new(Count(0))),
    aggregate("count(any) int8", |_| Box::new(Count(0))),
    aggregate("min(int2) int2", |_| extreme(Ordering::Less)),
    aggregate("max(int2) int2", |_| extreme(Ordering::Greater)),
    aggregate("min(int4) int4", |_| extreme(Ordering::Less)),
    aggregate("max(int4) int4", |_| extreme(Ordering::Greater)),
    aggregate("min(int8) int8", |_| extreme(Ordering::Less)),
    aggregate("max(int8) int8", |_| extreme(Ordering::Greater)),
    aggregate("min(oid) oid", |_| extreme(Ordering::Less)),
    aggregate("max(oid) oid", |_| extreme(Ordering::Greater)),
    aggregate("min(float4) float4", |_| extreme(Ordering::Less)),
    aggregate("max(float4) float4", |_| extreme(Ordering::Greater)),
    aggregate("min(float8) float8", |_| extreme(Ordering::Less)),
    aggregate("max(float8) float8", |_| extreme(Ordering::Greater)),
    aggregate("min(numeric) numeric", |_| extreme(Ordering::Less)),
    aggregate("max(numeric) numeric", |_| extreme(Ordering::Greater)),
    aggregate("min(date) date", |_| extreme(Ordering::Less)),
    aggregate("max(date) date", |_| extreme(Ordering::Greater)),
    aggregate("min(time) time", |_| extreme(Ordering::Less)),
    aggregate("max(time) time", |_| extreme(Ordering::Greater)),
    aggregate("min(timetz) timetz", |_| extreme(Ordering::Less)),
    aggregate("max(timetz) timetz", |_| extreme(Ordering::Greater)),
    aggregate("min(timestamp) timestamp", |_| extreme(Ordering::Less)),
    aggregate("max(timestamp) timestamp", |_| extreme(Ordering::Greater)),
    aggregate("min(timestamptz) timestamptz", |_| extreme(Ordering::Less)),
    aggregate("max(timestamptz) timestamptz", |_| extreme(Ordering::Greater)),
    aggregate("min(interval) interval", |_| extreme(Ordering::Less)),
    aggregate("max(interval) interval", |_| extreme(Ordering::Greater)),
    aggregate("min(inet) inet", |_| extreme(Ordering::Less)),
    aggregate("max(inet) inet", |_| extreme(Ordering::Greater)),
    aggregate("min(text) text", |_| extreme(Ordering::Less)),
    aggregate("max(text) text", |_| extreme(Ordering::Greater)),
    aggregate("min(bpchar) bpchar", |_| extreme(Ordering::Less)),
    aggregate("max(bpchar) bpchar", |_| extreme(Ordering::Greater)),
    aggregate("min(anyarray) anyarray", |_| extreme(Ordering::Less)),
    aggregate("max(anyarray) anyarray", |_| extreme(Ordering::Greater)),
    aggregate("min(anyenum) anyenum", |_| extreme(Ordering::Less)),
    aggregate("max(anyenum) anyenum", |_| extreme(Ordering::Greater)),
    aggregate("bit_and(int2) int2", |_| fold(bit_and)),
    aggregate("bit_and(int4) int4", |_| fold(bit_and)),
    aggregate("bit_and(int8) int8", |_| fold(bit_and)),
    aggregate("bit_or(int2) int2", |_| fold(bit_or)),
    aggregate("bit_or(int4) int4", |_| fold(bit_or)),
    aggregate("bit_or(int8) int8", |_| fold(bit_or)),
    aggregate("bit_xor(int2) int2", |_| fold(bit_xor)),
    aggregate("bit_xor(int4) int4", |_| fold(bit_xor)),
    aggregate("bit_xor(int8) int8", |_| fold(bit_xor)),
    aggregate("bit_and(bit) bit", |_| fold(bit_strings::bit_and)),
    aggregate("bit_or(bit) bit", |_| fold(bit_strings::bit_or)),
    aggregate("bit_xor(bit) bit", |_| fold(bit_strings::bit_xor)),
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

/// The least or the greatest value so far.
struct Extreme {
    value: Option<Value>,
    /// The result of comparing it with all others.
    wanted: Ordering,
}

fn extreme(wanted: Ordering) -> Box<dyn Accumulator> {
    Box::new(Extreme { value: None, wanted })
}

impl Extreme {
    /// Keeps the last one of equal values that print differently, but the first one of `char(n)`.
    fn take(&mut self, value: &Value) {
        let stays = self.value.as_ref().is_some_and(|current| match current.cmp(value) {
            Ordering::Equal => matches!(current, Value::Bpchar(_)),
            ordering => ordering == self.wanted,
        });
        if !stays {
            self.value = Some(value.clone());
        }
    }
}

impl Accumulator for Extreme {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        self.take(&arguments[0]);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        same_state::<Extreme>(other)?.value.iter().for_each(|value| self.take(value));
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        Ok(self.value.clone().unwrap_or(Value::Null))
    }

    fn size(&self) -> usize {
        size_of::<Extreme>() + self.value.as_ref().map_or(0, Value::heap_size)
    }
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
