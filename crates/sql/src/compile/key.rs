//! A primary key from expressions, in the engine's form.

use std::sync::Arc;

use heddledb::{Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::scan::key_columns;
use crate::run::Run;
use crate::run::operator::scan::stored_key;
use crate::types::{Type, Value};

/// The key of a row that a statement names.
#[derive(Debug)]
pub(crate) struct PointKey {
    pub(crate) table: Arc<Table>,
    /// The columns in the key's order, each with its value.
    parts: Vec<(usize, Expr)>,
}

/// A part of a key: kept as it is where its form is the engine's.
enum Part {
    Int(i64),
    Text(Arc<str>),
    Stored(Stored),
}

impl Part {
    /// None: no row has it.
    fn of(table: &Table, column: usize, value: Value) -> Option<Part> {
        let ty = table.columns.get(column).map_or(Type::Int8, |column| column.ty);
        match (ty, value) {
            (Type::Int4, Value::Int4(value)) => Some(Part::Int(i64::from(value))),
            (Type::Int8, Value::Int8(value)) => Some(Part::Int(value)),
            (Type::Text | Type::Varchar, Value::Text(value)) => Some(Part::Text(value)),
            (_, value) => stored_key(table, column, &value).map(Part::Stored),
        }
    }

    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Part::Int(value) => ValueRef::Int(*value),
            Part::Text(value) => ValueRef::Text(value),
            Part::Stored(value) => ValueRef::from(value),
        }
    }
}

impl PointKey {
    /// The key of these values, one for each column of the table's key.
    pub(crate) fn new(table: &Arc<Table>, values: &[Expr]) -> PointKey {
        PointKey {
            table: table.clone(),
            parts: key_columns(table).into_iter().zip(values.iter().cloned()).collect(),
        }
    }

    /// Gives the key to a step. None: a value is one that no key has.
    pub(crate) fn with<'e, T>(
        &'e self,
        run: &mut Run<'e>,
        step: impl FnOnce(&mut Run<'e>, &[ValueRef<'_>]) -> Result<T>,
    ) -> Result<Option<T>> {
        if let [(column, value)] = &self.parts[..] {
            let value = run.evaluate(value, &[])?;
            let Some(part) = Part::of(&self.table, *column, value) else { return Ok(None) };
            return step(run, &[part.as_ref()]).map(Some);
        }
        let mut parts = SmallVec::<[Part; 4]>::new();
        for (column, value) in &self.parts {
            let value = run.evaluate(value, &[])?;
            let Some(part) = Part::of(&self.table, *column, value) else { return Ok(None) };
            parts.push(part);
        }
        let key: SmallVec<[ValueRef<'_>; 4]> = parts.iter().map(Part::as_ref).collect();
        step(run, &key).map(Some)
    }
}
