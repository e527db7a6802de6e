//! Bounds of single columns that follow from a check: `stock >= 0`, `balance BETWEEN -1000 AND 1000000`.
//!
//! A conjunction of such comparisons with constants is nothing but bounds of columns, so that whether a number lies between
//! them decides it, and a split phase can divide the distance to them as escrow quotas (O'Neil, 1986).
//!
//! Invariants: bounds are in the unit in which the column stores its number (a decimal's last digit); a number is within
//! them exactly if the check is not false for it.

use super::{Comparison, Expression};
use crate::types::{DataType, Decimal, Value};

/// The least and the greatest number that a column may hold by one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) column: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// The bounds equivalent to the expression; `None` if it has more meaning than that.
pub(crate) fn bounds(expression: &Expression<usize>, types: &[&DataType]) -> Option<Vec<Bound>> {
    match expression {
        Expression::And(left, right) => {
            let mut found = bounds(left, types)?;
            found.extend(bounds(right, types)?);
            Some(found)
        }
        Expression::Compare(comparison, left, right) => {
            let found = match (&**left, &**right) {
                (Expression::Column(column), constant) => bound(*column, *comparison, constant, types),
                (constant, Expression::Column(column)) => {
                    bound(*column, comparison.flipped(), constant, types)
                }
                _ => None,
            };
            found.map(|bound| vec![bound])
        }
        Expression::Between(one, low, high) => {
            let Expression::Column(column) = **one else { return None };
            Some(vec![
                bound(column, Comparison::GreaterOrEqual, low, types)?,
                bound(column, Comparison::LessOrEqual, high, types)?,
            ])
        }
        _ => None,
    }
}

fn bound(
    column: usize,
    comparison: Comparison,
    constant: &Expression<usize>,
    types: &[&DataType],
) -> Option<Bound> {
    let scale = match *types[column] {
        DataType::Int32 | DataType::Int64 => 0,
        DataType::Decimal { precision, scale } if precision <= 18 => scale,
        _ => return None,
    };
    let (floor, is_exact) = floor_in_units(constant_of(constant)?, scale)?;
    let above = floor.checked_add(1)?;
    let (low, high) = match comparison {
        Comparison::Equal if is_exact => (floor, floor),
        // No number of the column equals it.
        Comparison::Equal => (1, 0),
        Comparison::NotEqual => return None,
        Comparison::Less => (i128::MIN, if is_exact { floor.checked_sub(1)? } else { floor }),
        Comparison::LessOrEqual => (i128::MIN, floor),
        Comparison::Greater => (above, i128::MAX),
        Comparison::GreaterOrEqual => (if is_exact { floor } else { above }, i128::MAX),
    };
    let clamp = |number: i128| number.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let is_reachable = low <= i128::from(i64::MAX) && high >= i128::from(i64::MIN) && low <= high;
    let (low, high) = if is_reachable { (clamp(low), clamp(high)) } else { (1, 0) };
    Some(Bound { column, low, high })
}

/// A number literal, also one with a sign.
fn constant_of(expression: &Expression<usize>) -> Option<Decimal> {
    match expression {
        Expression::Constant(Value::Int(int)) => Some(Decimal::from(*int)),
        Expression::Constant(Value::Decimal(decimal)) => Some(*decimal),
        Expression::Negative(one) => {
            let number = constant_of(one)?;
            Decimal::new(number.unscaled().checked_neg()?, number.scale()).ok()
        }
        _ => None,
    }
}

/// The greatest multiple of the scale's unit that is not above the number, in units; and whether it is the number.
fn floor_in_units(number: Decimal, scale: u8) -> Option<(i128, bool)> {
    if number.scale() <= scale {
        return Some((number.rescale(scale).ok()?.unscaled(), true));
    }
    let unit = 10_i128.checked_pow(u32::from(number.scale() - scale))?;
    let floor = number.unscaled().div_euclid(unit);
    Some((floor, floor.checked_mul(unit)? == number.unscaled()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::bind::bind;
    use crate::expression::parse::parse;

    const COLUMNS: [(&str, &DataType); 5] = [
        ("n", &DataType::Int64),
        ("m", &DataType::Int32),
        ("price", &DataType::Decimal { precision: 8, scale: 2 }),
        ("wide", &DataType::Decimal { precision: 30, scale: 2 }),
        ("name", &DataType::Text),
    ];

    fn of(text: &str) -> Option<Vec<(usize, i64, i64)>> {
        let bound = bind(&parse(text).expect("an expression"), &COLUMNS).expect("it has types");
        let bounds = bounds(&bound, &COLUMNS.map(|(_, data_type)| data_type))?;
        Some(bounds.into_iter().map(|bound| (bound.column, bound.low, bound.high)).collect())
    }

    #[test]
    fn comparisons_with_constants_are_bounds() {
        let (least, most) = (i64::MIN, i64::MAX);
        assert_eq!(of("n >= 0"), Some(vec![(0, 0, most)]));
        assert_eq!(of("0 <= n"), Some(vec![(0, 0, most)]));
        assert_eq!(of("n > 0"), Some(vec![(0, 1, most)]));
        assert_eq!(of("n < -5"), Some(vec![(0, least, -6)]));
        assert_eq!(of("n = 7"), Some(vec![(0, 7, 7)]));
        assert_eq!(of("n BETWEEN -1000 AND 1000000"), Some(vec![(0, -1000, most), (0, least, 1_000_000)]));
        assert_eq!(of("n >= 0 AND m <= 9"), Some(vec![(0, 0, most), (1, least, 9)]));
    }

    #[test]
    fn bounds_of_decimals_are_in_their_last_digit() {
        let (least, most) = (i64::MIN, i64::MAX);
        assert_eq!(of("price >= 1"), Some(vec![(2, 100, most)]));
        assert_eq!(of("price < 1.5"), Some(vec![(2, least, 149)]));
        assert_eq!(of("price < 1.505"), Some(vec![(2, least, 150)]));
        assert_eq!(of("price >= 1.505"), Some(vec![(2, 151, most)]));
        assert_eq!(of("price > -1.505"), Some(vec![(2, -150, most)]));
        assert_eq!(of("price = 1.505"), Some(vec![(2, 1, 0)]));
        assert_eq!(of("n >= 0.5"), Some(vec![(0, 1, most)]));
        assert_eq!(of("n <= -0.5"), Some(vec![(0, least, -1)]));
        assert_eq!(of("n < 99999999999999999999"), Some(vec![(0, least, most)]));
        assert_eq!(of("n > 99999999999999999999"), Some(vec![(0, 1, 0)]));
    }

    #[test]
    fn anything_else_is_no_bound() {
        for text in
            ["n <> 0", "n >= m", "n + 1 >= 0", "n >= 0 OR m >= 0", "NOT n < 0", "wide >= 0", "n IN (1, 2)"]
        {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of("n >= 0 AND name = 'x'"), None);
        assert_eq!(of("n >= NULL"), None);
    }
}
