//! Evaluation with SQL's three-valued logic: what is computed from NULL is NULL, and a check passes unless it is false.
//!
//! Invariant: nothing is allocated; a value is a number or a truth value, or borrowed from the row or the expression.

use std::cmp::Ordering;

use super::like;
use super::{Arithmetic, Expression};
use crate::error::{Error, Result};
use crate::types::{Decimal, ValueRef};

/// The subject of errors in a check's arithmetic.
const WHAT: &str = "the arithmetic of a check";

impl Expression<usize> {
    /// Returns true if the row passes: the condition is not false.
    ///
    /// # Errors
    /// Arithmetic that overflows, or divides by zero.
    pub(crate) fn passes<'v>(&'v self, row: &impl Fn(usize) -> ValueRef<'v>) -> Result<bool> {
        Ok(self.truth(row)? != Some(false))
    }

    /// The truth value of a condition; `None` if it is unknown.
    fn truth<'v>(&'v self, row: &impl Fn(usize) -> ValueRef<'v>) -> Result<Option<bool>> {
        Ok(match self.evaluate(row)? {
            ValueRef::Bool(truth) => Some(truth),
            _ => None,
        })
    }

    fn evaluate<'v>(&'v self, row: &impl Fn(usize) -> ValueRef<'v>) -> Result<ValueRef<'v>> {
        let known = |truth: Option<bool>| truth.map_or(ValueRef::Null, ValueRef::Bool);
        Ok(match self {
            Expression::Column(column) => row(*column),
            Expression::Constant(value) => value.into(),
            Expression::Negative(one) => compute(Arithmetic::Subtract, ValueRef::Int(0), one.evaluate(row)?)?,
            Expression::Arithmetic(operator, left, right) => {
                compute(*operator, left.evaluate(row)?, right.evaluate(row)?)?
            }
            Expression::Compare(comparison, left, right) => {
                let ordering = compare(left.evaluate(row)?, right.evaluate(row)?);
                known(ordering.map(|ordering| comparison.holds(ordering)))
            }
            Expression::And(left, right) => match left.truth(row)? {
                Some(false) => ValueRef::Bool(false),
                left => known(match right.truth(row)? {
                    Some(false) => Some(false),
                    right => left.and(right),
                }),
            },
            Expression::Or(left, right) => match left.truth(row)? {
                Some(true) => ValueRef::Bool(true),
                left => known(match right.truth(row)? {
                    Some(true) => Some(true),
                    right => left.and(right),
                }),
            },
            Expression::Not(one) => known(one.truth(row)?.map(|truth| !truth)),
            Expression::IsNull(one) => ValueRef::Bool(one.evaluate(row)?.is_null()),
            Expression::In(one, among) => known(is_among(one.evaluate(row)?, among, row)?),
            Expression::Between(one, low, high) => {
                let one = one.evaluate(row)?;
                let above = compare(one, low.evaluate(row)?).map(Ordering::is_ge);
                let below = compare(one, high.evaluate(row)?).map(Ordering::is_le);
                known(match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (above, below) => above.and(below),
                })
            }
            Expression::Like(one, pattern) => match (one.evaluate(row)?, pattern.evaluate(row)?) {
                (ValueRef::Text(text), ValueRef::Text(pattern)) => {
                    ValueRef::Bool(like::matches(text, pattern))
                }
                _ => ValueRef::Null,
            },
            Expression::Length(one) => match one.evaluate(row)? {
                ValueRef::Text(text) => ValueRef::Int(text.chars().count() as i64),
                ValueRef::Bytes(bytes) => ValueRef::Int(bytes.len() as i64),
                _ => ValueRef::Null,
            },
        })
    }
}

/// Returns true if a value equals one of these; `None` if it equals none that is known.
fn is_among<'v>(
    one: ValueRef<'v>,
    among: &'v [Expression<usize>],
    row: &impl Fn(usize) -> ValueRef<'v>,
) -> Result<Option<bool>> {
    let mut answer = Some(false);
    for other in among {
        match compare(one, other.evaluate(row)?) {
            Some(Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => answer = None,
        }
    }
    Ok(answer)
}

/// Compares two values; `None` if one of them is NULL.
fn compare(left: ValueRef<'_>, right: ValueRef<'_>) -> Option<Ordering> {
    match (left, right) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => None,
        (ValueRef::Int(left), ValueRef::Decimal(right)) => Some(Decimal::from(left).cmp(&right)),
        (ValueRef::Decimal(left), ValueRef::Int(right)) => Some(left.cmp(&Decimal::from(right))),
        (ValueRef::Float(_), ValueRef::Int(_) | ValueRef::Decimal(_))
        | (ValueRef::Int(_) | ValueRef::Decimal(_), ValueRef::Float(_)) => {
            ValueRef::Float(to_float(left)?).partial_cmp(&ValueRef::Float(to_float(right)?))
        }
        (left, right) => left.partial_cmp(&right),
    }
}

fn to_float(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int(int) => Some(int as f64),
        ValueRef::Float(float) => Some(float),
        ValueRef::Decimal(decimal) => decimal.to_string().parse().ok(),
        _ => None,
    }
}

fn compute<'v>(operator: Arithmetic, left: ValueRef<'_>, right: ValueRef<'_>) -> Result<ValueRef<'v>> {
    match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => compute_ints(operator, left, right),
        (ValueRef::Decimal(left), ValueRef::Decimal(right)) => compute_decimals(operator, left, right),
        (ValueRef::Int(left), ValueRef::Decimal(right)) => compute_decimals(operator, left.into(), right),
        (ValueRef::Decimal(left), ValueRef::Int(right)) => compute_decimals(operator, left, right.into()),
        (left, right) => match (to_float(left), to_float(right)) {
            (Some(left), Some(right)) => compute_floats(operator, left, right),
            _ => Ok(ValueRef::Null),
        },
    }
}

fn compute_ints<'v>(operator: Arithmetic, left: i64, right: i64) -> Result<ValueRef<'v>> {
    if right == 0 && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
        return Err(Error::DivisionByZero { what: WHAT });
    }
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => Some(left.wrapping_rem(right)),
    };
    result.map(ValueRef::Int).ok_or_else(|| Error::Overflow {
        what: WHAT.to_string(),
        detail: format!("{left} {} {right} exceeds 64 bits", operator.symbol()),
    })
}

fn compute_decimals<'v>(operator: Arithmetic, left: Decimal, right: Decimal) -> Result<ValueRef<'v>> {
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        // Binding lets decimals be multiplied only, besides.
        Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder => left.checked_mul(right),
    };
    result.map(ValueRef::Decimal)
}

fn compute_floats<'v>(operator: Arithmetic, left: f64, right: f64) -> Result<ValueRef<'v>> {
    if right == 0.0 && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
        return Err(Error::DivisionByZero { what: WHAT });
    }
    Ok(ValueRef::Float(match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    }))
}
