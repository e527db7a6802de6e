//! Ordered put: a column keeps the tuple that is the greatest by (order, payload).
//!
//! Doppel lets the worker's number decide between tuples of equal order; here the payload does, so that the result
//! is the same whichever thread put it.

use super::{Applied, Commutative};
use crate::error::Result;
use crate::types::assignment::wrong_type;
use crate::types::{DataType, ValueRef};

pub(super) struct OrderedPut;

impl Commutative for OrderedPut {
    const NAME: &'static str = "ordered put";
    const ACCEPTED: &'static str = "ordered_tuple";
    const RANKS_NULL: bool = true;

    fn accepts(data_type: &DataType) -> bool {
        matches!(data_type, DataType::OrderedTuple(_))
    }

    fn splittable(data_type: &DataType) -> bool {
        Self::accepts(data_type)
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        match (current, operand) {
            (_, ValueRef::Null) => Ok(Applied::Unchanged),
            // The bytes of tuples compare as (order, payload).
            (ValueRef::Tuple(current), ValueRef::Tuple(operand)) if operand <= current => {
                Ok(Applied::Unchanged)
            }
            (ValueRef::Null | ValueRef::Tuple(_), ValueRef::Tuple(operand)) => {
                buffer.clear();
                buffer.extend_from_slice(operand);
                Ok(Applied::Tuple)
            }
            _ => Err(wrong_type(operand, data_type, Self::NAME)),
        }
    }
}
