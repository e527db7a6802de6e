//! Max: the greater of a column and a value.
//!
//! Invariants: the result is one of the two, and the same one whatever the sequence, down to its bits: 0 is
//! above -0 here, although they are equal.

use std::cmp::Ordering;

use super::{Applied, Commutative};
use crate::error::Result;
use crate::types::assignment::wrong_type;
use crate::types::{DataType, ValueRef, compare_floats};

pub(super) struct Max;

impl Commutative for Max {
    const NAME: &'static str = "max";
    const ACCEPTED: &'static str = ACCEPTED;
    const RANKS_NULL: bool = true;

    fn accepts(data_type: &DataType) -> bool {
        is_comparable(data_type)
    }

    fn splittable(data_type: &DataType) -> bool {
        is_comparable(data_type)
    }

    fn apply_int(current: i64, operand: i64) -> Option<Result<i64>> {
        Some(Ok(current.max(operand)))
    }

    fn merge_int(first: i64, second: i64) -> Option<i64> {
        Some(first.max(second))
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        _buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        keep(current, operand, data_type, Ordering::Greater, Self::NAME)
    }
}

/// The types that max and min apply to.
pub(super) const ACCEPTED: &str = "int32, int64, float64, decimal, date and timestamp";

pub(super) fn is_comparable(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int32
            | DataType::Int64
            | DataType::Float64
            | DataType::Decimal { .. }
            | DataType::Date
            | DataType::Timestamp
    )
}

/// The operand if it compares so to the current value, or if there is none; else the current value.
pub(super) fn keep(
    current: ValueRef<'_>,
    operand: ValueRef<'_>,
    data_type: &DataType,
    side: Ordering,
    name: &str,
) -> Result<Applied> {
    let ordering = match (current, operand) {
        (_, ValueRef::Null) => return Ok(Applied::Unchanged),
        (ValueRef::Null, _) => side,
        (ValueRef::Float(current), ValueRef::Float(operand)) => {
            compare_floats(operand, current).then_with(|| operand.total_cmp(&current))
        }
        _ => operand.partial_cmp(&current).ok_or_else(|| wrong_type(operand, data_type, name))?,
    };
    if ordering != side {
        return Ok(Applied::Unchanged);
    }
    match operand {
        ValueRef::Int(value) => Ok(Applied::Scalar(ValueRef::Int(value))),
        ValueRef::Float(value) => Ok(Applied::Scalar(ValueRef::Float(value))),
        ValueRef::Decimal(value) => Ok(Applied::Scalar(ValueRef::Decimal(value))),
        ValueRef::Date(value) => Ok(Applied::Scalar(ValueRef::Date(value))),
        ValueRef::Timestamp(value) => Ok(Applied::Scalar(ValueRef::Timestamp(value))),
        _ => Err(wrong_type(operand, data_type, name)),
    }
}
