//! A slice: what one participant's operations on a split column have been merged into.

use crate::error::Result;
use crate::operation::Operation;
use crate::types::{DataType, Value, ValueRef};

/// Nothing yet, or one operand that stands for all that were merged.
#[derive(Clone, Debug, Default)]
pub(crate) enum Slice {
    #[default]
    Untouched,
    Int(i64),
    Value(Value),
}

impl Slice {
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self, Slice::Untouched)
    }

    pub(crate) fn int(&self) -> Option<i64> {
        if let Slice::Int(value) = self { Some(*value) } else { None }
    }

    pub(crate) fn value(&self) -> Option<ValueRef<'_>> {
        match self {
            Slice::Untouched => None,
            Slice::Int(value) => Some(ValueRef::Int(*value)),
            Slice::Value(value) => Some(value.into()),
        }
    }

    pub(crate) fn merge(
        &mut self,
        operation: Operation,
        operand: ValueRef<'_>,
        data_type: &DataType,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        if let (Slice::Int(before), ValueRef::Int(operand)) = (&*self, operand)
            && let Some(merged) = operation.merge_int(*before, operand)
        {
            *self = Slice::Int(merged);
            return Ok(());
        }
        let merged = match self.value() {
            None => operand.to_value(),
            Some(before) => {
                operation.merge(before, operand, data_type, buffer)?.value(before, buffer).to_value()
            }
        };
        *self = match merged {
            Value::Int(value) => Slice::Int(value),
            value => Slice::Value(value),
        };
        Ok(())
    }
}
