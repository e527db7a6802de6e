//! RANGE frames with an offset: tests if a value is within an offset of another.
//!
//! Invariants: as PostgreSQL's `in_range` functions decide it. Numbers never overflow; NaN lies behind all other
//! numbers and only beside itself; the value infinitely far before infinity, or behind minus infinity, is any value.
//!
//! Source: PostgreSQL 15, `in_range_float8_float8` and its kin.

use std::cmp::Ordering;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve::resolve_operator;
use crate::functions::{FunctionContext, ScalarFunction};
use crate::run::Run;
use crate::types::datetime::date_to_timestamp_clamped;
use crate::types::{Type, Value};

/// The end of a frame: an offset before or behind a row's value.
pub(super) struct RangeEnd<'o> {
    pub offset: &'o Value,
    /// True if the offset is subtracted.
    pub subtracts: bool,
    /// True to ask for values up to the end, false for values from it on.
    pub up_to: bool,
}

impl RangeEnd<'_> {
    /// Returns true if a value is on the side of the end that is asked for. Neither value is NULL.
    ///
    /// # Errors
    /// 22013 for an offset that is negative; those of moments out of range; 0A000 for types without order and distance.
    pub fn contains(&self, run: &mut Run<'_>, value: &Value, base: &Value) -> Result<bool> {
        match (value, base, self.offset) {
            (
                Value::Int2(_) | Value::Int4(_) | Value::Int8(_),
                _,
                Value::Int2(_) | Value::Int4(_) | Value::Int8(_),
            ) => {
                self.check(self.offset.any_int() < 0)?;
                let offset = i128::from(self.offset.any_int());
                let end = i128::from(base.any_int()) + if self.subtracts { -offset } else { offset };
                Ok(self.holds(i128::from(value.any_int()).cmp(&end)))
            }
            (Value::Float8(value), Value::Float8(base), Value::Float8(offset)) => {
                self.float(*value, *base, *offset)
            }
            (Value::Float4(value), Value::Float4(base), Value::Float8(offset)) => {
                self.float(f64::from(*value), f64::from(*base), *offset)
            }
            (Value::Numeric(_), Value::Numeric(_), Value::Numeric(_)) => self.numeric(run, value, base),
            (Value::Time(value), Value::Time(base), Value::Interval(offset)) => {
                self.check(offset.micros < 0)?;
                let end = base.saturating_add(if self.subtracts { -offset.micros } else { offset.micros });
                Ok(self.holds(value.cmp(&end)))
            }
            (Value::Timetz(..), Value::Timetz(base, zone), Value::Interval(offset)) => {
                self.check(offset.micros < 0)?;
                let end = base.saturating_add(if self.subtracts { -offset.micros } else { offset.micros });
                Ok(self.holds(value.cmp(&Value::Timetz(end, *zone))))
            }
            (_, _, Value::Interval(offset)) => {
                self.check(offset.total_micros() < 0)?;
                let end = moved(run, self.subtracts, base, self.offset)?;
                Ok(self.holds(match (value, &end) {
                    (Value::Date(value), Value::Timestamp(end)) => date_to_timestamp_clamped(*value).cmp(end),
                    (value, end) => value.cmp(end),
                }))
            }
            _ => Err(unsupported(type_of(base), type_of(self.offset))),
        }
    }

    fn check(&self, is_negative: bool) -> Result<()> {
        if is_negative {
            let message = "invalid preceding or following size in window function";
            return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
        }
        Ok(())
    }

    /// Returns true if a value with this order relative to the end is on the side that is asked for.
    fn holds(&self, ordering: Ordering) -> bool {
        if self.up_to { ordering.is_le() } else { ordering.is_ge() }
    }

    fn float(&self, value: f64, base: f64, offset: f64) -> Result<bool> {
        self.check(offset < 0.0 || offset.is_nan())?;
        if value.is_nan() || base.is_nan() {
            return Ok(self.holds(value.is_nan().cmp(&base.is_nan())));
        }
        if offset.is_infinite() && base.is_infinite() && self.subtracts == (base > 0.0) {
            return Ok(true);
        }
        let end = if self.subtracts { base - offset } else { base + offset };
        Ok(value.partial_cmp(&end).is_some_and(|ordering| self.holds(ordering)))
    }

    fn numeric(&self, run: &mut Run<'_>, value: &Value, base: &Value) -> Result<bool> {
        let (Value::Numeric(number), Value::Numeric(of_base), Value::Numeric(offset)) =
            (value, base, self.offset)
        else {
            return Ok(false);
        };
        self.check(offset.is_nan() || offset.is_negative())?;
        if number.is_nan() || of_base.is_nan() {
            return Ok(self.holds(number.is_nan().cmp(&of_base.is_nan())));
        }
        if !offset.is_finite() && !of_base.is_finite() && self.subtracts != of_base.is_negative() {
            return Ok(true);
        }
        let end = moved(run, self.subtracts, base, self.offset)?;
        Ok(self.holds(value.cmp(&end)))
    }
}

/// The refusal of a pair of types.
fn unsupported(key: Type, offset: Type) -> SqlError {
    SqlError::unsupported(format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
        key.display_name(),
        offset.display_name()
    ))
}

/// A value minus or plus an offset.
fn moved(run: &mut Run<'_>, subtracts: bool, base: &Value, offset: &Value) -> Result<Value> {
    let types = [type_of(base), type_of(offset)];
    let Some((code, result)) = operator(if subtracts { "-" } else { "+" }, types) else {
        return Err(unsupported(types[0], types[1]));
    };
    let mut context =
        FunctionContext { environment: run.environment, argument_types: &types, result_type: result };
    code(&mut context, &[base.clone(), offset.clone()])
}

fn operator(symbol: &str, types: [Type; 2]) -> Option<(ScalarFunction, Type)> {
    let resolved = resolve_operator(symbol, types[0], types[1]).ok()?;
    (resolved.arguments[..] == types)
        .then(|| resolved.function.scalar().map(|code| (code, resolved.result)))
        .flatten()
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Int2(_) => Type::Int2,
        Value::Int4(_) => Type::Int4,
        Value::Int8(_) => Type::Int8,
        Value::Float4(_) => Type::Float4,
        Value::Float8(_) => Type::Float8,
        Value::Numeric(_) => Type::Numeric,
        Value::Date(_) => Type::Date,
        Value::Time(_) => Type::Time,
        Value::Timetz(..) => Type::Timetz,
        Value::Timestamp(_) => Type::Timestamp,
        Value::Timestamptz(_) => Type::Timestamptz,
        Value::Interval(_) => Type::Interval,
        _ => Type::Unknown,
    }
}
