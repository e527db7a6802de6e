//! Values of a foreign key whose columns are of another type than what they refer to.
//!
//! The two sides are compared as PostgreSQL compares them: by an operator over both types, or as values of the referenced type,
//! into which those of the foreign key are cast.
//!
//! # Invariants
//! - Types of one family have an exact counterpart in each other, or none: a look-up in an index finds all equal values.

use crate::catalog::{Column, ForeignKey, Table};
use crate::error::Result;
use crate::run::Run;
use crate::run::operator::scan;
use crate::types::cast::{Cast, CastContext, can_coerce};
use crate::types::{Category, Environment, Modifier, Type, Value};

/// Types whose values are compared with each other directly.
const FAMILIES: [&[Type]; 4] = [
    &[Type::Int2, Type::Int4, Type::Int8],
    &[Type::Float4, Type::Float8],
    &[Type::Date, Type::Timestamp, Type::Timestamptz],
    &[Type::Text, Type::Varchar],
];

fn are_of_family(left: Type, right: Type) -> bool {
    left == right || FAMILIES.iter().any(|family| family.contains(&left) && family.contains(&right))
}

/// Returns true if a foreign key's column may refer to a column of this type.
pub(crate) fn may_refer(column: Type, referenced: Type) -> bool {
    are_of_family(column, referenced)
        || column.category() != Category::Unknown && can_coerce(column, referenced, CastContext::Implicit)
}

/// Returns true if values of the referenced columns have counterparts in the foreign key's, so that its indexes find
/// them.
pub(super) fn has_counterparts(table: &Table, key: &ForeignKey, parent: &Table) -> bool {
    let mut pairs = key.columns.iter().zip(&key.references);
    pairs.all(|(&column, &referenced)| are_of_family(table.columns[column].ty, parent.columns[referenced].ty))
}

/// Values of columns as values of others; `None` if one of them is no value of the other type.
pub(super) fn converted<'c>(
    run: &mut Run<'_>,
    values: &[Value],
    from: impl Iterator<Item = &'c Column>,
    to: impl Iterator<Item = &'c Column>,
) -> Result<Option<Vec<Value>>> {
    let mut found = Vec::with_capacity(values.len());
    for ((value, from), to) in values.iter().zip(from).zip(to) {
        if from.ty == to.ty {
            found.push(value.clone());
            continue;
        }
        let environment = &mut *run.environment;
        let Ok(other) = cast(environment, value, from.ty, to.ty) else { return Ok(None) };
        // A value that was rounded or cut has no counterpart; of other families the cast is the comparison.
        let is_exact = !are_of_family(from.ty, to.ty)
            || cast(environment, &other, to.ty, from.ty).is_ok_and(|back| back == *value);
        if !is_exact {
            return Ok(None);
        }
        found.push(other);
    }
    Ok(Some(found))
}

/// A value as one of another type, as an assignment makes it.
pub(super) fn cast(environment: &mut dyn Environment, value: &Value, from: Type, to: Type) -> Result<Value> {
    match Cast::find(from, to, Modifier::NONE, CastContext::Assignment) {
        Some(cast) => cast.apply(environment, value),
        None => Ok(value.clone()),
    }
}

/// Returns true if the columns can hold these values: one with fewer digits or characters may not.
pub(super) fn fit(table: &Table, columns: &[usize], values: &[Value]) -> bool {
    columns.iter().zip(values).all(|(&column, value)| scan::stored_key(table, column, value).is_some())
}
