//! The slice: the operations of one worker context on one split column, merged into one operand.
//!
//! While a column is split for an operation, its value in the record does not change. Every worker context keeps a slice of
//! it instead, which no other thread writes; at the end of the split phase the slices of all worker contexts are applied to
//! the column. Invariants: a slice's size does not grow with the number of operations (a top-K column's is bounded by its K
//! entries), and an operation that cannot be merged leaves the slice as it was.
//!
//! All operands of one slice are of one operation, and have passed [`Operation::check_operand`] for its column.

use crate::error::Result;
use crate::operation::{Applied, Operation};
use crate::types::{DataType, ValueRef};

/// One worker context's merged operand for one split column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    merged: Merged,
}

#[derive(Clone, Debug, Default)]
enum Merged {
    /// No operation was applied, or none that changes anything.
    #[default]
    Untouched,
    /// The usual case: an integer column's operand.
    Int(i64),
    /// An operand without bytes outside of its word.
    Scalar(ValueRef<'static>),
    Tuple(Vec<u8>),
    TopK(Vec<u8>),
}

impl Slice {
    /// Merges one more operand into the slice; `buffer` is memory to work in, whose content does not matter.
    ///
    /// # Errors
    /// The operands have no merge that an operand can hold: the slice is as it was. The operation must wait until
    /// the column is no longer split.
    #[inline]
    pub(crate) fn merge(
        &mut self,
        operation: Operation,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        if let ValueRef::Int(operand) = operand {
            let merged = match self.merged {
                Merged::Untouched => Some(operand),
                Merged::Int(merged) => operation.merge_int(merged, operand),
                _ => None,
            };
            if let Some(merged) = merged {
                self.merged = Merged::Int(merged);
                return Ok(());
            }
        }
        self.merge_any(operation, operand, data_type, buffer)
    }

    #[cold]
    fn merge_any(
        &mut self,
        operation: Operation,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        if operand.is_null() {
            // It changes nothing, where it is an operand at all.
            return operation.check_operand(operand, data_type).map(drop);
        }
        let Some(first) = self.value() else {
            self.merged = Merged::of(operand);
            return Ok(());
        };
        match operation.merge(first, operand, data_type, buffer)? {
            Applied::Unchanged => {}
            Applied::Scalar(ValueRef::Int(int)) => self.merged = Merged::Int(int),
            Applied::Scalar(scalar) => self.merged = Merged::Scalar(scalar),
            Applied::Tuple => self.merged = Merged::Tuple(self.swap_bytes(buffer)),
            Applied::TopK => self.merged = Merged::TopK(self.swap_bytes(buffer)),
        }
        Ok(())
    }

    /// The buffer's bytes; the buffer gets the memory of the bytes that were merged here.
    fn swap_bytes(&mut self, buffer: &mut Vec<u8>) -> Vec<u8> {
        let old = match &mut self.merged {
            Merged::Tuple(bytes) | Merged::TopK(bytes) => std::mem::take(bytes),
            _ => Vec::new(),
        };
        std::mem::replace(buffer, old)
    }

    /// The merged operand of an integer column.
    #[inline]
    pub(crate) fn int(&self) -> Option<i64> {
        if let Merged::Int(int) = self.merged { Some(int) } else { None }
    }

    /// Sets the merged operand of an integer column; `None` for an untouched slice.
    #[inline]
    pub(crate) fn set_int(&mut self, int: Option<i64>) {
        self.merged = int.map_or(Merged::Untouched, Merged::Int);
    }

    /// The merged operand; `None` if nothing is to be applied.
    #[inline]
    pub(crate) fn value(&self) -> Option<ValueRef<'_>> {
        match &self.merged {
            Merged::Untouched => None,
            Merged::Int(int) => Some(ValueRef::Int(*int)),
            Merged::Scalar(scalar) => Some(*scalar),
            Merged::Tuple(bytes) => Some(ValueRef::Tuple(bytes)),
            Merged::TopK(bytes) => Some(ValueRef::TopK(bytes)),
        }
    }

    /// Returns true if nothing is to be applied.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.merged, Merged::Untouched)
    }
}

impl Merged {
    /// The first operand, kept as it is. Those that no operation takes, and NULL, are nothing.
    fn of(operand: ValueRef<'_>) -> Merged {
        match operand {
            ValueRef::Int(value) => Merged::Int(value),
            ValueRef::Float(value) => Merged::Scalar(ValueRef::Float(value)),
            ValueRef::Decimal(value) => Merged::Scalar(ValueRef::Decimal(value)),
            ValueRef::Date(value) => Merged::Scalar(ValueRef::Date(value)),
            ValueRef::Timestamp(value) => Merged::Scalar(ValueRef::Timestamp(value)),
            ValueRef::Tuple(bytes) => Merged::Tuple(bytes.to_vec()),
            ValueRef::TopK(bytes) => Merged::TopK(bytes.to_vec()),
            ValueRef::Null
            | ValueRef::Bool(_)
            | ValueRef::Uuid(_)
            | ValueRef::Text(_)
            | ValueRef::Bytes(_) => Merged::Untouched,
        }
    }
}

#[cfg(test)]
mod tests;
