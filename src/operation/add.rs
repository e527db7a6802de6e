//! Add: the sum of a column and a number.
//!
//! Invariants: sums are exact (floats aside, which are never split) or an error. Operands of an integer
//! column are merged beyond 64 bits, as decimals without a fraction, so that merging refuses nothing that applying
//! one after the other would not.

use super::{Applied, Commutative, bounds_of_int};
use crate::error::{Error, Result};
use crate::types::assignment::{check_int, coerce, fit_decimal, wrong_type};
use crate::types::{DataType, Decimal, Value, ValueRef};

pub(super) struct Add;

const WHAT: &str = "the result of add";

impl Commutative for Add {
    const NAME: &'static str = "add";
    const ACCEPTED: &'static str = "int32, int64, float64 and decimal";

    fn accepts(data_type: &DataType) -> bool {
        Self::splittable(data_type) || *data_type == DataType::Float64
    }

    fn splittable(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::Decimal { .. })
    }

    fn check_operand<'a>(operand: ValueRef<'a>, data_type: &DataType) -> Result<ValueRef<'a>> {
        match (data_type, operand) {
            (_, ValueRef::Null) => Err(needs_a_value()),
            // A number beyond the column may still lead to a sum within it.
            (DataType::Int32 | DataType::Int64, ValueRef::Int(_)) => Ok(operand),
            (DataType::Decimal { scale, .. }, ValueRef::Decimal(decimal)) => {
                fit_decimal(decimal, Decimal::PRECISION_MAX, *scale, Self::NAME).map(ValueRef::Decimal)
            }
            (DataType::Decimal { scale, .. }, ValueRef::Int(int)) => {
                fit_decimal(Decimal::from(int), Decimal::PRECISION_MAX, *scale, Self::NAME)
                    .map(ValueRef::Decimal)
            }
            _ => coerce(operand, data_type, true, Self::NAME),
        }
    }

    fn apply_int(current: i64, operand: i64) -> Option<Result<i64>> {
        Some(current.checked_add(operand).ok_or_else(|| overflow(&format!("{current} + {operand}"))))
    }

    fn merge_int(first: i64, second: i64) -> Option<i64> {
        first.checked_add(second)
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        _buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        let sum = match (current, operand) {
            (_, ValueRef::Null) => return Err(needs_a_value()),
            // As in SQL, where NULL + 1 is NULL.
            (ValueRef::Null, _) => return Ok(Applied::Unchanged),
            (ValueRef::Float(current), ValueRef::Float(operand)) => {
                ValueRef::Float(add_floats(current, operand)?)
            }
            (ValueRef::Int(current), ValueRef::Int(operand)) => match current.checked_add(operand) {
                Some(sum) => ValueRef::Int(check_int(sum, data_type, WHAT)?),
                None => return Err(overflow(&format!("{current} + {operand}"))),
            },
            (ValueRef::Int(current), ValueRef::Decimal(operand)) => {
                let sum = Decimal::from(current).checked_add(operand)?;
                let int =
                    i64::try_from(sum.rescale(0)?.unscaled()).map_err(|_| overflow(&sum.to_string()))?;
                ValueRef::Int(check_int(int, data_type, WHAT)?)
            }
            (ValueRef::Decimal(current), operand) => {
                let sum = current.checked_add(exact(operand, data_type)?)?;
                coerce(ValueRef::Decimal(sum), data_type, true, WHAT)?
            }
            _ => return Err(wrong_type(operand, data_type, Self::NAME)),
        };
        Ok(Applied::Scalar(sum))
    }

    fn merge(
        first: ValueRef<'_>,
        second: ValueRef<'_>,
        data_type: &DataType,
        _buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        if !Self::splittable(data_type) {
            return Err(Error::WrongOperation {
                operation: "merging of add",
                data_type: data_type.to_string(),
                accepted: "int32, int64 and decimal",
            });
        }
        let sum = exact(first, data_type)?.checked_add(exact(second, data_type)?)?;
        let int = i64::try_from(sum.unscaled());
        Ok(Applied::Scalar(match int {
            Ok(int) if sum.scale() == 0 => ValueRef::Int(int),
            _ => ValueRef::Decimal(sum),
        }))
    }

    /// Everybody's sum is within an equal share of the room on its side, so that any of them together are within
    /// the room. For decimals the shares are also within what an operand holds, so that they can be merged.
    fn fits(base: ValueRef<'_>, total: ValueRef<'_>, data_type: &DataType, parties: u32) -> bool {
        let Some((base, total, (least, most), widest)) = in_units(base, total, data_type) else {
            return false;
        };
        // Where this saturates, it is far beyond what an operand holds.
        let room = if total < 0 { base.saturating_sub(least) } else { most.saturating_sub(base) };
        let of_all =
            i128::try_from(total.unsigned_abs()).ok().and_then(|one| one.checked_mul(parties.into()));
        of_all.is_some_and(|of_all| of_all <= room.min(widest))
    }
}

/// Three summands with the same sum as these four, which fail for exactly the values for which one of the four partial
/// sums would: the sum is within bounds at its greatest, at its least, and where it ends, or it fails. `None` if they
/// are no exact numbers of one form, or too large for it.
pub(crate) fn merge_summands(summands: [ValueRef<'_>; 4], data_type: &DataType) -> Option<[Value; 3]> {
    let (mut sum, mut greatest, mut least) = (0_i128, 0, 0);
    for summand in summands {
        let units = match (summands[0], summand) {
            (ValueRef::Int(_), ValueRef::Int(int)) => i128::from(int),
            (ValueRef::Decimal(first), ValueRef::Decimal(other)) if first.scale() == other.scale() => {
                other.unscaled()
            }
            _ => return None,
        };
        sum = sum.checked_add(units)?;
        (greatest, least) = (sum.max(greatest), sum.min(least));
    }
    let summand = |units: i128| match summands[0] {
        ValueRef::Decimal(first) => {
            let decimal = ValueRef::Decimal(Decimal::from_stored(units, first.scale()));
            Add::check_operand(decimal, data_type).ok().map(ValueRef::to_value)
        }
        _ => i64::try_from(units).ok().map(Value::Int),
    };
    let (down, up) = (least.checked_sub(greatest)?, sum.checked_sub(least)?);
    Some([summand(greatest)?, summand(down)?, summand(up)?])
}

/// Base and total as whole numbers of the column's last digit, the column's bounds, and an operand's greatest
/// magnitude. `None` if they are no numbers, or the column is NULL.
fn in_units(
    base: ValueRef<'_>,
    total: ValueRef<'_>,
    data_type: &DataType,
) -> Option<(i128, i128, (i128, i128), i128)> {
    let whole = |value: ValueRef<'_>, scale: u8| match value {
        ValueRef::Int(int) if scale == 0 => Some(i128::from(int)),
        ValueRef::Int(int) => Decimal::from(int).rescale(scale).ok().map(Decimal::unscaled),
        ValueRef::Decimal(decimal) => decimal.rescale(scale).ok().map(Decimal::unscaled),
        _ => None,
    };
    if let DataType::Decimal { precision, scale } = *data_type {
        let most = |digits: u8| 10_i128.checked_pow(digits.into()).map(|beyond| beyond - 1);
        let (most, widest) = (most(precision)?, most(Decimal::PRECISION_MAX)?);
        return Some((whole(base, scale)?, whole(total, scale)?, (-most, most), widest));
    }
    let (least, most) = bounds_of_int(data_type)?;
    Some((whole(base, 0)?, whole(total, 0)?, (least.into(), most.into()), i128::MAX))
}

fn exact(operand: ValueRef<'_>, data_type: &DataType) -> Result<Decimal> {
    match operand {
        ValueRef::Null => Err(needs_a_value()),
        ValueRef::Int(int) => Ok(Decimal::from(int)),
        ValueRef::Decimal(decimal) => Ok(decimal),
        _ => Err(wrong_type(operand, data_type, Add::NAME)),
    }
}

fn add_floats(current: f64, operand: f64) -> Result<f64> {
    let sum = current + operand;
    if sum.is_infinite() && current.is_finite() && operand.is_finite() {
        return Err(overflow(&format!("{current} + {operand}")));
    }
    Ok(sum)
}

fn needs_a_value() -> Error {
    Error::WrongType {
        what: "the operand of add".to_owned(),
        expected: "a number (add needs a value)".to_owned(),
        found: "NULL".to_owned(),
    }
}

fn overflow(sum: &str) -> Error {
    Error::Overflow { what: WHAT.to_owned(), detail: format!("{sum} is beyond the column's type") }
}
