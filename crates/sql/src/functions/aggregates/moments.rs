//! Sums, averages and variances.
//!
//! Invariants: sums of integers are kept in 128 bits, of `numeric` exactly; floats are summed up as PostgreSQL does it
//! (Youngs and Cramer), so that `var_pop` of equal numbers is 0.

use crate::error::Result;
use crate::functions::arithmetic::{add_floats, float_overflow, out_of_range};
use crate::functions::definition::{Accumulator, Definition, FunctionContext, aggregate, same_state};
use crate::types::Value;
use crate::types::interval::Interval;
use crate::types::numeric::Numeric;

/// The table.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("sum(int2) int8", |_| integers(integer_sum)),
    aggregate("sum(int4) int8", |_| integers(integer_sum)),
    aggregate("sum(int8) numeric", |_| integers(|state| Ok(Value::Numeric(state.sum.into())))),
    aggregate("avg(int2) numeric", |_| integers(integer_average)),
    aggregate("avg(int4) numeric", |_| integers(integer_average)),
    aggregate("avg(int8) numeric", |_| integers(integer_average)),
    aggregate("sum(numeric) numeric", |_| sums(|state| Ok(Value::Numeric(state.sum.clone())))),
    aggregate("avg(numeric) numeric", |_| sums(|state| average(&state.sum, state.count))),
    aggregate("avg(float4) float8", |_| floats(|state| Some(state.sum / state.count))),
    aggregate("avg(float8) float8", |_| floats(|state| Some(state.sum / state.count))),
    aggregate("avg(interval) interval", |_| Box::new(IntervalAverage::default())),
    aggregate("var_pop(int2) numeric", |_| exact(var_pop)),
    aggregate("var_pop(int4) numeric", |_| exact(var_pop)),
    aggregate("var_pop(int8) numeric", |_| exact(var_pop)),
    aggregate("var_pop(numeric) numeric", |_| exact(var_pop)),
    aggregate("var_pop(float4) float8", |_| floats(float_var_pop)),
    aggregate("var_pop(float8) float8", |_| floats(float_var_pop)),
    aggregate("var_samp(int2) numeric", |_| exact(var_samp)),
    aggregate("var_samp(int4) numeric", |_| exact(var_samp)),
    aggregate("var_samp(int8) numeric", |_| exact(var_samp)),
    aggregate("var_samp(numeric) numeric", |_| exact(var_samp)),
    aggregate("var_samp(float4) float8", |_| floats(float_var_samp)),
    aggregate("var_samp(float8) float8", |_| floats(float_var_samp)),
    aggregate("variance(int2) numeric", |_| exact(var_samp)),
    aggregate("variance(int4) numeric", |_| exact(var_samp)),
    aggregate("variance(int8) numeric", |_| exact(var_samp)),
    aggregate("variance(numeric) numeric", |_| exact(var_samp)),
    aggregate("variance(float4) float8", |_| floats(float_var_samp)),
    aggregate("variance(float8) float8", |_| floats(float_var_samp)),
    aggregate("stddev_pop(int2) numeric", |_| exact(stddev_pop)),
    aggregate("stddev_pop(int4) numeric", |_| exact(stddev_pop)),
    aggregate("stddev_pop(int8) numeric", |_| exact(stddev_pop)),
    aggregate("stddev_pop(numeric) numeric", |_| exact(stddev_pop)),
    aggregate("stddev_pop(float4) float8", |_| floats(float_stddev_pop)),
    aggregate("stddev_pop(float8) float8", |_| floats(float_stddev_pop)),
    aggregate("stddev_samp(int2) numeric", |_| exact(stddev_samp)),
    aggregate("stddev_samp(int4) numeric", |_| exact(stddev_samp)),
    aggregate("stddev_samp(int8) numeric", |_| exact(stddev_samp)),
    aggregate("stddev_samp(numeric) numeric", |_| exact(stddev_samp)),
    aggregate("stddev_samp(float4) float8", |_| floats(float_stddev_samp)),
    aggregate("stddev_samp(float8) float8", |_| floats(float_stddev_samp)),
    aggregate("stddev(int2) numeric", |_| exact(stddev_samp)),
    aggregate("stddev(int4) numeric", |_| exact(stddev_samp)),
    aggregate("stddev(int8) numeric", |_| exact(stddev_samp)),
    aggregate("stddev(numeric) numeric", |_| exact(stddev_samp)),
    aggregate("stddev(float4) float8", |_| floats(float_stddev_samp)),
    aggregate("stddev(float8) float8", |_| floats(float_stddev_samp)),
];

/// The sum and the number of integers.
struct Integers {
    sum: i128,
    count: i64,
    result: fn(&Integers) -> Result<Value>,
}

fn integers(result: fn(&Integers) -> Result<Value>) -> Box<dyn Accumulator> {
    Box::new(Integers { sum: 0, count: 0, result })
}

fn integer_sum(state: &Integers) -> Result<Value> {
    i64::try_from(state.sum).map(Value::Int8).map_err(|_| out_of_range("bigint"))
}

fn integer_average(state: &Integers) -> Result<Value> {
    average(&state.sum.into(), state.count)
}

fn average(sum: &Numeric, count: i64) -> Result<Value> {
    sum.divide(&Numeric::from(count)).map(Value::Numeric)
}

impl Accumulator for Integers {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        self.sum += i128::from(arguments[0].any_int());
        self.count += 1;
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Integers>(other)?;
        self.sum += other.sum;
        self.count += other.count;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        if self.count == 0 { Ok(Value::Null) } else { (self.result)(self) }
    }

    fn size(&self) -> usize {
        size_of::<Integers>()
    }
}

/// The sum and the number of `numeric`s.
struct Sums {
    sum: Numeric,
    count: i64,
    result: fn(&Sums) -> Result<Value>,
}

fn sums(result: fn(&Sums) -> Result<Value>) -> Box<dyn Accumulator> {
    Box::new(Sums { sum: Numeric::ZERO, count: 0, result })
}

impl Accumulator for Sums {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        self.sum = self.sum.add(arguments[0].as_numeric())?;
        self.count += 1;
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Sums>(other)?;
        self.sum = self.sum.add(&other.sum)?;
        self.count += other.count;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        if self.count == 0 { Ok(Value::Null) } else { (self.result)(self) }
    }

    fn size(&self) -> usize {
        size_of::<Sums>() + self.sum.heap_size()
    }
}

/// Number, sum and sum of squares of exact numbers.
struct Exact {
    count: i64,
    sum: Numeric,
    squares: Numeric,
    result: fn(&Exact) -> Result<Value>,
}

fn exact(result: fn(&Exact) -> Result<Value>) -> Box<dyn Accumulator> {
    Box::new(Exact { count: 0, sum: Numeric::ZERO, squares: Numeric::ZERO, result })
}

impl Accumulator for Exact {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        let number = match &arguments[0] {
            Value::Numeric(number) => number.clone(),
            integer => Numeric::from(integer.any_int()),
        };
        self.count += 1;
        self.sum = self.sum.add(&number)?;
        self.squares = self.squares.add(&number.multiply(&number)?)?;
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Exact>(other)?;
        self.count += other.count;
        self.sum = self.sum.add(&other.sum)?;
        self.squares = self.squares.add(&other.squares)?;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        (self.result)(self)
    }

    fn size(&self) -> usize {
        size_of::<Exact>() + self.sum.heap_size() + self.squares.heap_size()
    }
}

impl Exact {
    /// Variance or standard deviation, of a sample or of all there is.
    fn spread(&self, is_sample: bool, is_root: bool) -> Result<Value> {
        let least = if is_sample { 2 } else { 1 };
        if self.count < least {
            return Ok(Value::Null);
        }
        if !self.sum.is_finite() {
            return Ok(Value::Numeric(Numeric::NaN));
        }
        let count = Numeric::from(self.count);
        let numerator = count.multiply(&self.squares)?.subtract(&self.sum.multiply(&self.sum)?)?;
        if numerator <= Numeric::ZERO {
            return Ok(Value::Numeric(Numeric::ZERO));
        }
        let other = if is_sample { self.count - 1 } else { self.count };
        let variance = numerator.divide(&count.multiply(&Numeric::from(other))?)?;
        let scale = variance.scale().unwrap_or(0);
        Ok(Value::Numeric(if is_root { variance.sqrt_to_scale(scale)? } else { variance }))
    }
}

fn var_pop(state: &Exact) -> Result<Value> {
    state.spread(false, false)
}

fn var_samp(state: &Exact) -> Result<Value> {
    state.spread(true, false)
}

fn stddev_pop(state: &Exact) -> Result<Value> {
    state.spread(false, true)
}

fn stddev_samp(state: &Exact) -> Result<Value> {
    state.spread(true, true)
}

/// Number, sum, and sum of squared differences from the mean, of floats.
struct Floats {
    count: f64,
    sum: f64,
    squares: f64,
    result: fn(&Floats) -> Option<f64>,
}

fn floats(result: fn(&Floats) -> Option<f64>) -> Box<dyn Accumulator> {
    Box::new(Floats { count: 0.0, sum: 0.0, squares: 0.0, result })
}

impl Accumulator for Floats {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        let value = match &arguments[0] {
            Value::Float4(value) => f64::from(*value),
            other => other.float8(),
        };
        let (before, sum_before) = (self.count, self.sum);
        self.count += 1.0;
        self.sum += value;
        if before == 0.0 {
            if !value.is_finite() {
                self.squares = f64::NAN;
            }
            return Ok(());
        }
        let difference = value * self.count - self.sum;
        self.squares += difference * difference / (self.count * before);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if sum_before.is_finite() && value.is_finite() {
                return Err(float_overflow());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Floats>(other)?;
        if self.count == 0.0 || other.count == 0.0 {
            if self.count == 0.0 {
                *self = other;
            }
            return Ok(());
        }
        let difference = self.sum / self.count - other.sum / other.count;
        let count = self.count + other.count;
        let squares =
            self.squares + other.squares + self.count * other.count * difference * difference / count;
        if squares.is_infinite() && self.squares.is_finite() && other.squares.is_finite() {
            return Err(float_overflow());
        }
        self.sum = add_floats(self.sum, other.sum)?;
        self.count = count;
        self.squares = squares;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        let result = if self.count == 0.0 { None } else { (self.result)(self) };
        Ok(result.map_or(Value::Null, Value::Float8))
    }

    fn size(&self) -> usize {
        size_of::<Floats>()
    }
}

fn float_var_pop(state: &Floats) -> Option<f64> {
    Some(state.squares / state.count)
}

fn float_var_samp(state: &Floats) -> Option<f64> {
    (state.count > 1.0).then(|| state.squares / (state.count - 1.0))
}

fn float_stddev_pop(state: &Floats) -> Option<f64> {
    float_var_pop(state).map(f64::sqrt)
}

fn float_stddev_samp(state: &Floats) -> Option<f64> {
    float_var_samp(state).map(f64::sqrt)
}

/// The sum and the number of intervals.
#[derive(Default)]
struct IntervalAverage {
    sum: Interval,
    count: i64,
}

impl Accumulator for IntervalAverage {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        self.sum = self.sum.plus(arguments[0].interval())?;
        self.count += 1;
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<IntervalAverage>(other)?;
        self.sum = self.sum.plus(other.sum)?;
        self.count += other.count;
        Ok(())
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        if self.count == 0 {
            return Ok(Value::Null);
        }
        self.sum.divide(self.count as f64).map(Value::Interval)
    }

    fn size(&self) -> usize {
        size_of::<IntervalAverage>()
    }
}
