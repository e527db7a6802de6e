//! The commutative operations: what a call may do to a column without reading it.
//!
//! Each operation is one small file with one implementation of [`Commutative`], and one line in the table below.
//!
//! Invariants, for every operation on a column that it can split: of operands that [`check_operand`] passed,
//! the sequence does not matter, and operands may be merged before they are applied:
//! `apply(apply(x, a), b) == apply(apply(x, b), a) == apply(x, merge(a, b))`, as long as each of these succeeds.
//! An operation fails only by its column's bounds (never by a wrap), and then changes nothing.
//!
//! [`check_operand`]: Operation::check_operand

mod add;
mod max;
mod min;
mod multiply;
mod ordered_put;
mod top_k_insert;

pub(crate) use add::merge_summands;

use crate::error::{Error, Result};
use crate::types::assignment::{check_int, coerce};
use crate::types::{DataType, Value, ValueRef};

/// The result of an operation on a value: the new value, or that the old one stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Applied {
    /// The value stays as it was.
    Unchanged,
    /// The new value, which has no bytes of its own.
    Scalar(ValueRef<'static>),
    /// The new value is the ordered tuple that was put into the buffer.
    Tuple,
    /// The new value is the top-K set that was put into the buffer.
    TopK,
}

impl Applied {
    /// The value after the operation: `before`, a scalar, or what is in the buffer.
    pub(crate) fn value<'a>(self, before: ValueRef<'a>, buffer: &'a [u8]) -> ValueRef<'a> {
        match self {
            Applied::Unchanged => before,
            Applied::Scalar(value) => value,
            Applied::Tuple => ValueRef::Tuple(buffer),
            Applied::TopK => ValueRef::TopK(buffer),
        }
    }
}

/// A commutative operation on a column.
trait Commutative {
    /// The operation's name, for messages and statistics.
    const NAME: &'static str;
    /// The types of the columns that it applies to, for messages.
    const ACCEPTED: &'static str;

    /// Returns true if it applies to a column of this type.
    fn accepts(data_type: &DataType) -> bool;

    /// Returns true if its operands on a column of this type may be gathered in slices and merged later: the result
    /// must then be exactly the same.
    fn splittable(data_type: &DataType) -> bool;

    /// See [`Operation::ranks_null`].
    const RANKS_NULL: bool = false;

    /// The operand as `apply` and `merge` take it.
    fn check_operand<'a>(operand: ValueRef<'a>, data_type: &DataType) -> Result<ValueRef<'a>> {
        coerce(operand, data_type, false, Self::NAME)
    }

    /// The new value of an integer column. None if the operation does not apply to integers.
    fn apply_int(_current: i64, _operand: i64) -> Option<Result<i64>> {
        None
    }

    /// `merge` of two operands of an integer column; `None` if they have to be merged the general way.
    fn merge_int(_first: i64, _second: i64) -> Option<i64> {
        None
    }

    /// The new value of a column whose value is `current`.
    fn apply(
        current: ValueRef<'_>,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<Applied>;

    /// One operand that does what `first` and then `second` would do.
    fn merge(
        first: ValueRef<'_>,
        second: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<Applied> {
        Self::apply(first, second, data_type, buffer)
    }

    /// See [`Operation::merged_bytes`]. Where one of the values that there are is kept, it is as long as the longest.
    fn merged_bytes(bytes: usize, _parties: usize) -> usize {
        bytes
    }

    /// See [`Operation::fits`]. True of operations that have no bounds but their operands'.
    fn fits(_base: ValueRef<'_>, _total: ValueRef<'_>, _data_type: &DataType, _parties: u32) -> bool {
        true
    }
}

/// The least and the greatest value of an integer column.
fn bounds_of_int(data_type: &DataType) -> Option<(i64, i64)> {
    match data_type {
        DataType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
        DataType::Int64 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

/// Makes the enum of all operations, with one line for each, and hands each call to its implementation.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $code:literal => $implementation:ty,)*) => {
        /// A commutative operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Operation {
            $($(#[$doc])* $name = $code,)*
        }

        impl Operation {
            /// Every operation.
            pub(crate) const ALL: &'static [Operation] = &[$(Operation::$name),*];

            /// The operation with this code in the log.
            pub(crate) fn from_code(code: u8) -> Option<Operation> {
                match code {
                    $($code => Some(Operation::$name),)*
                    _ => None,
                }
            }

            /// The operation's name, for messages and statistics.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Operation::$name => <$implementation>::NAME,)*
                }
            }

            const fn accepted(self) -> &'static str {
                match self {
                    $(Operation::$name => <$implementation>::ACCEPTED,)*
                }
            }

            fn does_accept(self, data_type: &DataType) -> bool {
                match self {
                    $(Operation::$name => <$implementation>::accepts(data_type),)*
                }
            }

            /// Returns true if operands on a column of this type may be gathered in slices and merged later.
            pub(crate) fn splittable(self, data_type: &DataType) -> bool {
                match self {
                    $(Operation::$name => <$implementation>::splittable(data_type),)*
                }
            }

            /// True if NULL is below every operand, so that a column which is NULL takes the first one. The others
            /// leave NULL as it is, whatever the operand.
            pub(crate) const fn ranks_null(self) -> bool {
                match self {
                    $(Operation::$name => <$implementation>::RANKS_NULL,)*
                }
            }

            /// The operand as `apply` and `merge` take it; an error if the column has no use for it.
            pub(crate) fn check_operand<'a>(
                self,
                operand: ValueRef<'a>,
                data_type: &DataType,
            ) -> Result<ValueRef<'a>> {
                self.accepts(data_type)?;
                match self {
                    $(Operation::$name => <$implementation>::check_operand(operand, data_type),)*
                }
            }

            /// The new value of a column whose value is `current`: a scalar, or the bytes that replace those in
            /// `buffer`. NULL is no entry to the operations that keep the greatest or least; NULL as an operand
            /// changes nothing, but for `add`, which refuses it.
            pub(crate) fn apply(
                self,
                current: ValueRef<'_>,
                operand: ValueRef<'_>,
                data_type: &DataType,
                buffer: &mut Vec<u8>,
            ) -> Result<Applied> {
                match self {
                    $(Operation::$name => <$implementation>::apply(current, operand, data_type, buffer),)*
                }
            }

            /// One operand that does what `first` and then `second` would do, as `apply` gives its result:
            /// `Unchanged` is `first`. For splittable columns only.
            pub(crate) fn merge(
                self,
                first: ValueRef<'_>,
                second: ValueRef<'_>,
                data_type: &DataType,
                buffer: &mut Vec<u8>,
            ) -> Result<Applied> {
                match self {
                    $(Operation::$name => <$implementation>::merge(first, second, data_type, buffer),)*
                }
            }

            /// `merge` of two operands of an integer column, without the detour through values; `None` if they have to
            /// be merged the general way.
            #[inline]
            pub(crate) fn merge_int(self, first: i64, second: i64) -> Option<i64> {
                match self {
                    $(Operation::$name => <$implementation>::merge_int(first, second),)*
                }
            }

            /// Returns true if each of `parties` worker contexts may have such a total: the merge of all operands that
            /// it has given to the column since that had the value `base`, the newest operand included. If this was so
            /// after each of its operands, for each of them, then applying all operands one after the other succeeds,
            /// however the worker contexts' sequences interleave; and so does applying the totals, merged or one after
            /// the other.
            pub(crate) fn fits(
                self,
                base: ValueRef<'_>,
                total: ValueRef<'_>,
                data_type: &DataType,
                parties: u32,
            ) -> bool {
                match self {
                    $(Operation::$name => <$implementation>::fits(base, total, data_type, parties),)*
                }
            }

            /// Bound on the growth, in bytes of its own, of a column's value when the totals of this many worker
            /// contexts, none of which has more than `bytes`, have been applied to it.
            pub(crate) fn merged_bytes(self, bytes: usize, parties: usize) -> usize {
                match self {
                    $(Operation::$name => <$implementation>::merged_bytes(bytes, parties),)*
                }
            }

            fn apply_any_int(self, current: i64, operand: i64) -> Option<Result<i64>> {
                match self {
                    $(Operation::$name => <$implementation>::apply_int(current, operand),)*
                }
            }
        }
    };
}

operations! {
    /// Adds a number.
    Add = 1 => add::Add,
    /// Keeps the greatest value.
    Max = 2 => max::Max,
    /// Keeps the least value.
    Min = 3 => min::Min,
    /// Keeps the greatest tuple.
    OrderedPut = 4 => ordered_put::OrderedPut,
    /// Keeps the greatest entries.
    TopKInsert = 5 => top_k_insert::TopKInsert,
    /// Multiplies by a number.
    Multiply = 6 => multiply::Multiply,
}

impl Operation {
    /// The operation's code in the log.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Refuses a column of a type for which the operation has no meaning.
    pub(crate) fn accepts(self, data_type: &DataType) -> Result<()> {
        if self.does_accept(data_type) {
            return Ok(());
        }
        Err(Error::WrongOperation {
            operation: self.name(),
            data_type: data_type.to_string(),
            accepted: self.accepted(),
        })
    }

    /// One operand that does what `first` and then `second` would do to every value, and fails for exactly those values
    /// for which one of them would. `None` if there is none, or the operation does not say.
    pub(crate) fn compose(
        self,
        first: ValueRef<'_>,
        second: ValueRef<'_>,
        data_type: &DataType,
    ) -> Option<Value> {
        match (self, first, second) {
            // Of summands of one sign, the sum fits if the last partial sum does.
            (Operation::Add, ValueRef::Int(one), ValueRef::Int(other)) => {
                let has_one_sign = one.signum() * other.signum() >= 0;
                one.checked_add(other).filter(|_| has_one_sign).map(Value::Int)
            }
            (Operation::Add, ValueRef::Decimal(one), ValueRef::Decimal(other)) => {
                let has_one_sign = one.unscaled().signum() * other.unscaled().signum() >= 0;
                let sum = ValueRef::Decimal(one.checked_add(other).ok().filter(|_| has_one_sign)?);
                Some(self.check_operand(sum, data_type).ok()?.to_value())
            }
            (Operation::Max | Operation::Min, ..) => {
                let kept = self.merge(first, second, data_type, &mut Vec::new()).ok()?;
                Some(kept.value(first, &[]).to_value())
            }
            _ => None,
        }
    }

    /// Returns true if every integer is an operand for a column of type `Int64`, as it is.
    #[inline]
    pub(crate) fn takes_every_int(self) -> bool {
        matches!(self, Operation::Add | Operation::Max | Operation::Min | Operation::Multiply)
    }

    /// Same as [`apply_int`](Self::apply_int) on a column of type `Int64`, where that succeeds; otherwise `apply_int`
    /// reports the error.
    #[inline]
    pub(crate) fn try_int(self, current: i64, operand: i64) -> Option<i64> {
        match self {
            Operation::Add => current.checked_add(operand),
            Operation::Max => Some(current.max(operand)),
            Operation::Min => Some(current.min(operand)),
            Operation::Multiply => current.checked_mul(operand),
            Operation::OrderedPut | Operation::TopKInsert => None,
        }
    }

    /// The new value of a column of type `Int32` or `Int64`: `apply` without the detour through values.
    pub(crate) fn apply_int(self, current: i64, operand: i64, data_type: &DataType) -> Result<i64> {
        match self.apply_any_int(current, operand) {
            Some(result) => check_int(result?, data_type, self.name()),
            None => Err(Error::WrongOperation {
                operation: self.name(),
                data_type: data_type.to_string(),
                accepted: self.accepted(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
