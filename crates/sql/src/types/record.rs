//! A row as one value.
//!
//! Invariant: there are as many fields as values. Rows compare value by value; names and types do not count.

use std::sync::Arc;

use crate::types::{Type, Value};

/// A field of a row: its name for JSON, its type for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The name: a column's, or `f1`, `f2`, … for `ROW(…)`.
    pub name: Arc<str>,
    /// The type.
    pub kind: Type,
}

/// A row.
#[derive(Clone, Debug)]
pub struct RecordValue {
    /// What the values are called, and their types.
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
}
