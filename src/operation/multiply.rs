//! Multiply: the product of a column and an integer.
//!
//! Invariants: products are exact or an error. A product that has passed the column's bounds never returns within them,
//! except by a zero; so a split column takes no zero, and any other operand only while the products of all products
//! together stay within the bounds.

use super::{Applied, Commutative, bounds_of_int};
use crate::error::{Error, Result};
use crate::types::assignment::{check_int, wrong_type};
use crate::types::{DataType, ValueRef};

pub(super) struct Multiply;

const WHAT: &str = "the result of multiply";

impl Commutative for Multiply {
    const NAME: &'static str = "multiply";
    const ACCEPTED: &'static str = "int32 and int64";

    fn accepts(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Int32 | DataType::Int64)
    }

    fn splittable(data_type: &DataType) -> bool {
        Self::accepts(data_type)
    }

    fn check_operand<'a>(operand: ValueRef<'a>, data_type: &DataType) -> Result<ValueRef<'a>> {
        match operand {
            ValueRef::Null => Err(needs_a_value()),
            // A factor beyond the column may still lead to a product within it, if the column is zero.
            ValueRef::Int(_) => Ok(operand),
            _ => Err(wrong_type(operand, data_type, Self::NAME)),
        }
    }

    fn apply_int(current: i64, operand: i64) -> Option<Result<i64>> {
        Some(current.checked_mul(operand).ok_or_else(|| overflow(current, operand)))
    }

    fn merge_int(first: i64, second: i64) -> Option<i64> {
        first.checked_mul(second)
    }

    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        _buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        match (current, operand) {
            (_, ValueRef::Null) => Err(needs_a_value()),
            // As in SQL, where NULL * 2 is NULL.
            (ValueRef::Null, _) => Ok(Applied::Unchanged),
            (ValueRef::Int(current), ValueRef::Int(operand)) => {
                let product = current.checked_mul(operand).ok_or_else(|| overflow(current, operand))?;
                check_int(product, data_type, WHAT).map(|product| Applied::Scalar(ValueRef::Int(product)))
            }
            _ => Err(wrong_type(operand, data_type, Self::NAME)),
        }
    }

    /// A product of operands has 64 bits, whatever the column's width.
    fn merge(
        first: ValueRef<'_>,
        second: ValueRef<'_>,
        _data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        match first {
            ValueRef::Null => Err(needs_a_value()),
            _ => Self::apply(first, second, &DataType::Int64, buffer),
        }
    }

    /// Checks that no product has a greater magnitude than its quota, the root of the distance; magnitudes never fall,
    /// since zero is refused. A base of zero counts as one, so that the worker contexts' products can also be merged.
    fn fits(base: ValueRef<'_>, total: ValueRef<'_>, data_type: &DataType, parties: u32) -> bool {
        let (ValueRef::Int(base), ValueRef::Int(total), Some((_, most))) =
            (base, total, bounds_of_int(data_type))
        else {
            return false;
        };
        let (factor, mut product) = (total.unsigned_abs(), base.unsigned_abs().max(1));
        if factor <= 1 {
            // However often it is taken: what the operands before it came to has fitted, and was no zero.
            return factor == 1 && product <= most.unsigned_abs();
        }
        for _ in 0..parties {
            match product.checked_mul(factor) {
                Some(larger) if larger <= most.unsigned_abs() => product = larger,
                _ => return false,
            }
        }
        true
    }
}

fn needs_a_value() -> Error {
    Error::WrongType {
        what: "the operand of multiply".to_owned(),
        expected: "an integer (multiply needs a value)".to_owned(),
        found: "NULL".to_owned(),
    }
}

fn overflow(current: i64, operand: i64) -> Error {
    Error::Overflow {
        what: WHAT.to_owned(),
        detail: format!("{current} * {operand} is beyond the column's type"),
    }
}
