//! Aggregates WITHIN GROUP: percentiles and the most frequent value. Their rows arrive in order.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{
    Accumulator, AggregateKind, Definition, FunctionContext, aggregate, same_state,
};
use crate::types::array::ArrayValue;
use crate::types::{Type, Value};

/// One direct argument, one in order.
const ONE_DIRECT: AggregateKind = AggregateKind::OrderedSet { direct: 1 };

/// The table. The executor sorts the rows; direct arguments are given when the state is finished.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("percentile_cont(float8, float8) float8", |_| ordered(continuous))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("percentile_cont(float8, interval) interval", |_| ordered(continuous))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("percentile_cont(float8[], float8) float8[]", |_| ordered(continuous))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("percentile_cont(float8[], interval) interval[]", |_| ordered(continuous))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("percentile_disc(float8, anyelement) anyelement", |_| ordered(discrete))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("percentile_disc(float8[], anyelement) anyarray", |_| ordered(discrete))
        .ordered_set(ONE_DIRECT)
        .nullable(),
    aggregate("mode(anyelement) anyelement", |_| Box::new(Mode::default()))
        .ordered_set(AggregateKind::OrderedSet { direct: 0 })
        .nullable(),
];

/// Answers one percentile of sorted values, of which there is at least one.
type Percentile = fn(&[Value], f64) -> Result<Value>;

/// The values in order, without NULLs.
struct Ordered {
    values: Vec<Value>,
    bytes: usize,
    percentile: Percentile,
}

fn ordered(percentile: Percentile) -> Box<dyn Accumulator> {
    Box::new(Ordered { values: Vec::new(), bytes: 0, percentile })
}

impl Ordered {
    fn at(&self, fraction: &Value) -> Result<Value> {
        if fraction.is_null() {
            return Ok(Value::Null);
        }
        let fraction = fraction.float8();
        if !(0.0..=1.0).contains(&fraction) {
            let shown = crate::types::text::float8_text(fraction, 1);
            let message = format!("percentile value {shown} is not between 0 and 1");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        if self.values.is_empty() { Ok(Value::Null) } else { (self.percentile)(&self.values, fraction) }
    }
}

impl Accumulator for Ordered {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        let Some(value) = arguments.last().filter(|value| !value.is_null()) else { return Ok(()) };
        self.bytes += value.heap_size();
        self.values.push(value.clone());
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Ordered>(other)?;
        self.bytes += other.bytes;
        self.values.extend(other.values);
        Ok(())
    }

    fn finish(&self, context: &mut FunctionContext<'_>, direct: &[Value]) -> Result<Value> {
        match direct.first() {
            Some(Value::Array(fractions)) if !self.values.is_empty() => {
                let results =
                    fractions.values.iter().map(|fraction| self.at(fraction)).collect::<Result<Vec<_>>>()?;
                let element = context.result_type.element().unwrap_or(Type::Float8);
                Ok(Value::array(ArrayValue::with_dimensions(element, fractions.dimensions.clone(), results)))
            }
            Some(Value::Array(_)) | None => Ok(Value::Null),
            Some(fraction) => self.at(fraction),
        }
    }

    fn size(&self) -> usize {
        size_of::<Ordered>() + self.values.capacity() * size_of::<Value>() + self.bytes
    }
}

/// The first value at or above the fraction.
fn discrete(values: &[Value], fraction: f64) -> Result<Value> {
    let row = (fraction * values.len() as f64).ceil() as usize;
    Ok(values[row.max(1) - 1].clone())
}

/// A value between the two values around the fraction.
fn continuous(values: &[Value], fraction: f64) -> Result<Value> {
    let place = fraction * (values.len() - 1) as f64;
    let (first, second) = (place.floor() as usize, place.ceil() as usize);
    if first == second {
        return Ok(values[first].clone());
    }
    let part = place - first as f64;
    match (&values[first], &values[second]) {
        (Value::Float8(low), Value::Float8(high)) => Ok(Value::Float8(low + part * (high - low))),
        (Value::Interval(low), Value::Interval(high)) => {
            let step = high.minus(*low)?.multiply(part)?;
            step.plus(*low).map(Value::Interval)
        }
        (low, _) => Ok(low.clone()),
    }
}

/// The most frequent value, the first of those.
#[derive(Default)]
struct Mode {
    best: Option<(Value, u64)>,
    current: Option<(Value, u64)>,
}

impl Mode {
    fn take(&mut self, value: Value, times: u64) {
        match &mut self.current {
            Some((current, count)) if *current == value => *count += times,
            _ => self.current = Some((value, times)),
        }
        let is_better = match (&self.current, &self.best) {
            (Some((_, count)), Some((_, most))) => count > most,
            (current, _) => current.is_some(),
        };
        if is_better {
            self.best = self.current.clone();
        }
    }
}

impl Accumulator for Mode {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        if let Some(value) = arguments.last().filter(|value| !value.is_null()) {
            self.take(value.clone(), 1);
        }
        Ok(())
    }

    fn merge(&mut self, _: Box<dyn Accumulator>) -> Result<()> {
        Err(SqlError::internal("mode() is computed over rows in order, which partial states are not"))
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        Ok(self.best.as_ref().map_or(Value::Null, |(value, _)| value.clone()))
    }

    fn size(&self) -> usize {
        size_of::<Mode>()
    }
}
