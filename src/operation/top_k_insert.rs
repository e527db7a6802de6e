//! Top-K insert: a column keeps the K greatest entries, at most one for each order.
//!
//! An operand is one entry (an ordered tuple), or, once merged, a set of entries.

use super::{Applied, Commutative};
use crate::error::Result;
use crate::types::assignment::{coerce, wrong_type};
use crate::types::top_k::{SET_OF_ONE_BYTES, Set, insert, union};
use crate::types::{DataType, ValueRef, tuple};

pub(super) struct TopKInsert;

impl Commutative for TopKInsert {
    const NAME: &'static str = "top-K insert";
    const ACCEPTED: &'static str = "top_k";
    const RANKS_NULL: bool = true;

    fn accepts(data_type: &DataType) -> bool {
        matches!(data_type, DataType::TopK { .. })
    }

    fn splittable(data_type: &DataType) -> bool {
        Self::accepts(data_type)
    }

    fn merged_bytes(bytes: usize, parties: usize) -> usize {
        // A total may be a tuple, which is longer as a set of one.
        (bytes + SET_OF_ONE_BYTES).saturating_mul(parties)
    }

    fn check_operand<'a>(operand: ValueRef<'a>, data_type: &DataType) -> Result<ValueRef<'a>> {
        match (data_type, operand) {
            (DataType::TopK { of, .. }, ValueRef::Tuple(bytes)) => {
                tuple::validate(bytes, of).map(|()| operand)
            }
            _ => coerce(operand, data_type, false, Self::NAME),
        }
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        let DataType::TopK { limit, .. } = data_type else {
            return Err(wrong_type(operand, data_type, Self::NAME));
        };
        if operand.is_null() {
            return Ok(Applied::Unchanged);
        }
        let set = entries(current, data_type)?;
        let changed = match operand {
            ValueRef::Tuple(tuple) => insert(set, tuple, *limit, buffer)?,
            _ => union(set, entries(operand, data_type)?, *limit, buffer)?,
        };
        Ok(if changed { Applied::TopK } else { Applied::Unchanged })
    }
}

fn entries<'a>(value: ValueRef<'a>, data_type: &DataType) -> Result<Set<'a>> {
    match value {
        ValueRef::Null => Ok(Set::EMPTY),
        ValueRef::Tuple(tuple) => Ok(Set::of_tuple(tuple)),
        ValueRef::TopK(set) => Set::parse(set),
        _ => Err(wrong_type(value, data_type, TopKInsert::NAME)),
    }
}
