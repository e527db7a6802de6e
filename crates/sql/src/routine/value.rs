//! Values on their way between columns, variables and results.

use std::sync::Arc;

use crate::error::Result;
use crate::session::SessionEnvironment;
use crate::types::cast::{Cast, CastContext};
use crate::types::record::{RecordField, RecordValue};
use crate::types::text::{from_text, to_text};
use crate::types::{Modifier, Type, Value};

/// A value as one of another type: by the cast of an assignment, else through text, as PL/pgSQL assigns.
///
/// # Errors
/// Class 22 for a value that the type does not have.
pub(crate) fn convert(
    environment: &mut SessionEnvironment,
    value: Value,
    from: Type,
    to: Type,
    modifier: Modifier,
) -> Result<Value> {
    if value.is_null() || (from == to && modifier.is_none()) || to == Type::Record {
        return Ok(value);
    }
    if to == Type::Void {
        return Ok(Value::Void);
    }
    match Cast::find(from, to, modifier, CastContext::Assignment) {
        Some(cast) => cast.apply(environment, &value),
        None => {
            let text = to_text(environment, from, &value)?;
            let value = from_text(environment, to, modifier, &text)?;
            Cast::find(to, to, modifier, CastContext::Assignment)
                .map_or(Ok(value.clone()), |cast| cast.apply(environment, &value))
        }
    }
}

/// A row of these fields.
pub(crate) fn record(fields: &Arc<[RecordField]>, values: Vec<Value>) -> Value {
    Value::Record(Arc::new(RecordValue { fields: fields.clone(), values: values.into() }))
}

/// As [`record`], of values that may be rows themselves.
///
/// # Errors
/// 54001: too many levels of rows lie in it.
pub(crate) fn composed(fields: &Arc<[RecordField]>, values: Vec<Value>) -> Result<Value> {
    RecordValue { fields: fields.clone(), values: values.into() }.composed()
}
