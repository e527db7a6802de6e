//! Min: the lesser of a column and a value. NaN is above every number, and so stays only beside itself.

use std::cmp::Ordering;

use super::max::{ACCEPTED, is_comparable, keep};
use super::{Applied, Commutative};
use crate::error::Result;
use crate::types::{DataType, ValueRef};

pub(super) struct Min;

impl Commutative for Min {
    const NAME: &'static str = "min";
    const ACCEPTED: &'static str = ACCEPTED;
    const RANKS_NULL: bool = true;

    fn accepts(data_type: &DataType) -> bool {
        is_comparable(data_type)
    }

    fn splittable(data_type: &DataType) -> bool {
        is_comparable(data_type)
    }

    fn apply_int(current: i64, operand: i64) -> Option<Result<i64>> {
        Some(Ok(current.min(operand)))
    }

    fn merge_int(first: i64, second: i64) -> Option<i64> {
        Some(first.min(second))
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        _buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        keep(current, operand, data_type, Ordering::Less, Self::NAME)
    }
}
