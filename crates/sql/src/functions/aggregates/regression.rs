//! Aggregates of pairs of floats: correlation, covariance, linear regression. The first argument is Y, the second X.

use super::folds::Count;
use crate::error::Result;
use crate::functions::arithmetic::{add_floats, float_overflow};
use crate::functions::definition::{Accumulator, Definition, FunctionContext, aggregate, same_state};
use crate::types::Value;

/// The table.
pub(super) const AGGREGATES: &[Definition] = &[
    aggregate("regr_count(float8, float8) int8", |_| Box::new(Count(0))),
    aggregate("regr_sxx(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.xx))),
    aggregate("regr_syy(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.yy))),
    aggregate("regr_sxy(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.xy))),
    aggregate("regr_avgx(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.x / it.count))),
    aggregate("regr_avgy(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.y / it.count))),
    aggregate("covar_pop(float8, float8) float8", |_| pairs(|it| it.unless_empty(it.xy / it.count))),
    aggregate("covar_samp(float8, float8) float8", |_| {
        pairs(|it| if it.count < 2.0 { Value::Null } else { Value::Float8(it.xy / (it.count - 1.0)) })
    }),
    aggregate("corr(float8, float8) float8", |_| {
        pairs(|it| {
            let is_flat = it.count < 1.0 || it.xx == 0.0 || it.yy == 0.0;
            if is_flat { Value::Null } else { Value::Float8(it.xy / (it.xx * it.yy).sqrt()) }
        })
    }),
    aggregate("regr_r2(float8, float8) float8", |_| {
        pairs(|it| match (it.count < 1.0 || it.xx == 0.0, it.yy == 0.0) {
            (true, _) => Value::Null,
            (false, true) => Value::Float8(1.0),
            (false, false) => Value::Float8((it.xy * it.xy) / (it.xx * it.yy)),
        })
    }),
    aggregate("regr_slope(float8, float8) float8", |_| {
        pairs(|it| if it.count < 1.0 || it.xx == 0.0 { Value::Null } else { Value::Float8(it.xy / it.xx) })
    }),
    aggregate("regr_intercept(float8, float8) float8", |_| {
        pairs(|it| {
            if it.count < 1.0 || it.xx == 0.0 {
                return Value::Null;
            }
            Value::Float8((it.y - it.x * it.xy / it.xx) / it.count)
        })
    }),
];

/// Number, sums, and sums of products of differences from the means.
struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
    result: fn(&Pairs) -> Value,
}

fn pairs(result: fn(&Pairs) -> Value) -> Box<dyn Accumulator> {
    Box::new(Pairs { count: 0.0, x: 0.0, xx: 0.0, y: 0.0, yy: 0.0, xy: 0.0, result })
}

impl Pairs {
    fn unless_empty(&self, value: f64) -> Value {
        if self.count < 1.0 { Value::Null } else { Value::Float8(value) }
    }

    /// A sum that became infinite is an error if all inputs were finite, and no number otherwise.
    fn check(&mut self, was_x_infinite: bool, was_y_infinite: bool) -> Result<()> {
        let is_x = self.x.is_infinite() || self.xx.is_infinite();
        let is_y = self.y.is_infinite() || self.yy.is_infinite();
        let is_product = self.xy.is_infinite();
        if is_x && !was_x_infinite
            || is_y && !was_y_infinite
            || is_product && !was_x_infinite && !was_y_infinite
        {
            return Err(float_overflow());
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }
}

impl Accumulator for Pairs {
    fn accumulate(&mut self, _: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()> {
        let (y, x) = (arguments[0].float8(), arguments[1].float8());
        let before = self.count;
        let was_x_infinite = self.x.is_infinite() || x.is_infinite();
        let was_y_infinite = self.y.is_infinite() || y.is_infinite();
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before == 0.0 {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let (across, up) = (x * self.count - self.x, y * self.count - self.y);
        let scale = 1.0 / (self.count * before);
        self.xx += across * across * scale;
        self.yy += up * up * scale;
        self.xy += across * up * scale;
        self.check(was_x_infinite, was_y_infinite)
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = same_state::<Pairs>(other)?;
        if self.count == 0.0 || other.count == 0.0 {
            if self.count == 0.0 {
                *self = other;
            }
            return Ok(());
        }
        let was_x_infinite = self.x.is_infinite() || other.x.is_infinite();
        let was_y_infinite = self.y.is_infinite() || other.y.is_infinite();
        let count = self.count + other.count;
        let across = self.x / self.count - other.x / other.count;
        let up = self.y / self.count - other.y / other.count;
        let weight = self.count * other.count;
        self.xx += other.xx + weight * across * across / count;
        self.yy += other.yy + weight * up * up / count;
        self.xy += other.xy + weight * across * up / count;
        self.x = add_floats(self.x, other.x)?;
        self.y = add_floats(self.y, other.y)?;
        self.count = count;
        self.check(was_x_infinite, was_y_infinite)
    }

    fn finish(&self, _: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
        Ok((self.result)(self))
    }

    fn size(&self) -> usize {
        size_of::<Pairs>()
    }
}
