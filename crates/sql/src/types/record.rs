//! A row as one value.
//!
//! Invariant: there are as many fields as values. Rows compare value by value; names and types do not count.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::types::cast::{Cast, CastContext, no_cast};
use crate::types::{Environment, Modifier, Type, Value};

/// Maximum number of levels of rows in a row. Rows are walked by recursion.
const LEVELS_MAX: usize = 500;

/// A field of a row: its name for JSON, its type for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The name: a column's, or `f1`, `f2`, … for `ROW(…)`.
    pub name: Arc<str>,
    /// The type.
    pub kind: Type,
}

/// The fields of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Their names and types.
    pub fields: Arc<[RecordField]>,
    /// Their types' modifiers.
    pub modifiers: Vec<Modifier>,
}

impl Shape {
    /// A row as one of this shape: each value is cast to its field's type.
    ///
    /// # Errors
    /// 42846: it has another number of values, or one of a type that cannot be cast.
    pub fn conform(&self, environment: &mut dyn Environment, row: &RecordValue) -> Result<Value> {
        if row.values.len() != self.fields.len() {
            let many = if row.values.len() > self.fields.len() { "many" } else { "few" };
            let error = SqlError::new(SqlState::CANNOT_COERCE, "cannot cast type record to a composite type");
            return Err(error.with_detail(format!("Input has too {many} columns.")));
        }
        let mut values = Vec::with_capacity(row.values.len());
        for (at, (value, field)) in row.values.iter().zip(&row.fields[..]).enumerate() {
            let (wanted, modifier) = (self.fields[at].kind, self.modifiers[at]);
            if value.is_null() || (field.kind == wanted && modifier.is_none()) {
                values.push(value.clone());
                continue;
            }
            let cast = Cast::find(field.kind, wanted, modifier, CastContext::Explicit);
            let cast = cast.ok_or_else(|| {
                let error = no_cast(field.kind, wanted);
                error.with_detail(format!("The types differ in column {}.", at + 1))
            })?;
            values.push(cast.apply(environment, value)?);
        }
        RecordValue { fields: self.fields.clone(), values: values.into() }.composed()
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct RecordValue {
    /// The names of the values, and their types.
    pub fields: Arc<[RecordField]>,
    /// The values.
    pub values: Box<[Value]>,
}

impl RecordValue {
    /// A row whose fields are called `f1`, `f2`, …
    pub fn anonymous(kinds: &[Type], values: Vec<Value>) -> RecordValue {
        let field =
            |(at, kind): (usize, &Type)| RecordField { name: format!("f{}", at + 1).into(), kind: *kind };
        RecordValue { fields: kinds.iter().enumerate().map(field).collect(), values: values.into() }
    }

    /// Converts it to a value.
    ///
    /// # Errors
    /// 54001: more than 500 levels of rows are in it.
    pub fn composed(self) -> Result<Value> {
        if has_at_most_levels(&self.values, LEVELS_MAX) {
            return Ok(Value::Record(Arc::new(self)));
        }
        let error = SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded");
        Err(error.with_detail(format!("Rows nest at most {LEVELS_MAX} levels deep.")))
    }
}

/// Returns true if at most this many levels of rows are in these values.
fn has_at_most_levels(values: &[Value], levels: usize) -> bool {
    values.iter().all(|value| match value {
        Value::Record(row) => levels > 0 && has_at_most_levels(&row.values, levels - 1),
        Value::Array(array) if array.element == Type::Record => has_at_most_levels(&array.values, levels),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::array::ArrayValue;

    fn row(value: Value, kind: Type) -> Result<Value> {
        RecordValue::anonymous(&[kind], vec![value]).composed()
    }

    #[test]
    fn rows_nest_to_a_limit_also_through_arrays() {
        let through_array = |value| Value::array(ArrayValue::list(Type::Record, vec![value]));
        for is_array in [false, true] {
            let mut value = row(Value::Int4(1), Type::Int4).expect("one level");
            for _ in 0..LEVELS_MAX {
                let (inner, kind) = match is_array {
                    true => (through_array(value), Type::array_of(Type::Record)),
                    false => (value, Type::Record),
                };
                value = row(inner, kind).expect("within the limit");
            }
            let error = row(value, Type::Record).expect_err("one too many");
            assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
        }
    }
}
