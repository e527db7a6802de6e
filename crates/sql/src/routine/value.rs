//! Values on their way between columns, variables and results.

use std::sync::Arc;

use crate::bind::{NameConflict, Names, VariableRef};
use crate::error::Result;
use crate::parse::qualified_name;
use crate::routine::query::{Execution, Frame};
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

/// The value of a cast, as its text names it.
struct Operand {
    value: [Value; 1],
    ty: Type,
}

impl Names for Operand {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        Ok((parts == ["$1"]).then_some((VariableRef { slot: 0, field: None }, self.ty)))
    }

    fn fields(&self, _parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        Ok(None)
    }

    fn conflict(&self) -> NameConflict {
        NameConflict::Column
    }
}

impl Frame for Operand {
    fn values(&self) -> &[Value] {
        &self.value
    }

    fn shape(&self, _slot: usize) -> Option<Arc<[RecordField]>> {
        None
    }
}

/// A value of the type beneath a domain, once it meets the domain's constraints.
///
/// # Errors
/// 23502, 23514.
pub(crate) fn as_domain(execution: &mut Execution<'_>, domain: Option<u32>, value: Value) -> Result<Value> {
    let Some(oid) = domain else { return Ok(value) };
    let catalog = &execution.environment.catalog;
    let Some(domain) = catalog.domain_by_oid(oid).cloned() else { return Ok(value) };
    if !catalog.domain_refuses_null(&domain) && catalog.domain_checks(&domain).is_empty() {
        return Ok(value);
    }
    let text = format!("SELECT $1::{}", qualified_name(&domain.schema, &domain.name));
    let query = execution.environment.routines.domain(oid, &text)?;
    Ok(query.evaluate(execution, &Operand { value: [value], ty: domain.ty })?.0)
}

/// A row of these fields.
pub(crate) fn record(fields: &Arc<[RecordField]>, values: Vec<Value>) -> Value {
    Value::Record(Arc::new(RecordValue { fields: fields.clone(), values: values.into() }))
}

/// A row as [`record`] makes it, of values that may be rows themselves.
///
/// # Errors
/// 54001: too many levels of rows lie in it.
pub(crate) fn composed(fields: &Arc<[RecordField]>, values: Vec<Value>) -> Result<Value> {
    RecordValue { fields: fields.clone(), values: values.into() }.composed()
}
