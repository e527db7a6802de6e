//! A primary key, or a unique index's, from expressions, in the engine's form.

use std::borrow::Cow;
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
    /// The columns in the key's order, with their types.
    columns: Vec<(usize, Type)>,
    values: Vec<Expr>,
}

/// A part of a key.
enum Part<'v> {
    /// A value whose form is the engine's.
    Value(Cow<'v, Value>),
    Stored(Stored),
}

impl<'v> Part<'v> {
    /// `None` if no row has it.
    #[inline]
    fn of(table: &Table, (column, ty): (usize, Type), value: Cow<'v, Value>) -> Option<Part<'v>> {
        match as_stored(ty, &value) {
            Some(_) => Some(Part::Value(value)),
            None => stored_key(table, column, &value).map(Part::Stored),
        }
    }

    #[inline]
    fn as_ref(&self, ty: Type) -> ValueRef<'_> {
        match self {
            Part::Value(value) => as_stored(ty, value).unwrap_or(ValueRef::Null),
            Part::Stored(value) => ValueRef::from(value),
        }
    }
}

/// A value as the engine's, if it has the same form there.
#[inline]
fn as_stored(ty: Type, value: &Value) -> Option<ValueRef<'_>> {
    match (ty, value) {
        (Type::Int8, Value::Int8(value)) => Some(ValueRef::Int(*value)),
        (Type::Int4 | Type::Int8, Value::Int4(value)) => Some(ValueRef::Int(i64::from(*value))),
        // One that the column is too narrow for is no key.
        (Type::Int4, Value::Int8(value)) => {
            i32::try_from(*value).ok().map(|value| ValueRef::Int(value.into()))
        }
        (Type::Text | Type::Varchar, Value::Text(value)) => Some(ValueRef::Text(value)),
        _ => None,
    }
}

impl PointKey {
    /// The key of these values, one for each column of the table's key.
    pub(crate) fn new(table: &Arc<Table>, values: &[Expr]) -> PointKey {
        PointKey::of_columns(table, key_columns(table).into_iter(), values)
    }

    /// The key of an index on these columns.
    pub(crate) fn of_columns(
        table: &Arc<Table>,
        columns: impl Iterator<Item = usize>,
        values: &[Expr],
    ) -> PointKey {
        PointKey { table: table.clone(), columns: typed(table, columns), values: values.to_vec() }
    }

    /// Gives the key to a step. `None` if a value is one that no key has.
    pub(crate) fn with<'e, T>(
        &'e self,
        run: &mut Run<'e>,
        step: impl FnOnce(&mut Run<'e>, &[ValueRef<'_>]) -> Result<T>,
    ) -> Result<Option<T>> {
        with_key(run, &self.table, (&self.columns, &self.values), &[], step)
    }
}

/// Columns with their types.
pub(crate) fn typed(table: &Table, columns: impl Iterator<Item = usize>) -> Vec<(usize, Type)> {
    let ty = |column: usize| table.columns.get(column).map_or(Type::Int8, |column| column.ty);
    columns.map(|column| (column, ty(column))).collect()
}

/// Gives the key of these columns to a step, with the values that they have for a row. `None` if a value is one that no
/// key has.
pub(crate) fn with_key<'e, T>(
    run: &mut Run<'e>,
    table: &Table,
    (columns, values): (&[(usize, Type)], &'e [Expr]),
    row: &[Value],
    step: impl FnOnce(&mut Run<'e>, &[ValueRef<'_>]) -> Result<T>,
) -> Result<Option<T>> {
    let mut key = SmallVec::<[ValueRef<'_>; 4]>::new();
    for ((_, ty), value) in columns.iter().zip(values) {
        let Some(value) = run.lent(value, row).and_then(|value| as_stored(*ty, value)) else { break };
        key.push(value);
    }
    if key.len() == columns.len() {
        return step(run, &key).map(Some);
    }
    let mut parts = SmallVec::<[Part<'_>; 4]>::new();
    for (column, value) in columns.iter().zip(values) {
        let value = run.operand(value, row)?;
        let Some(part) = Part::of(table, *column, value) else { return Ok(None) };
        parts.push(part);
    }
    let key: SmallVec<[ValueRef<'_>; 4]> =
        columns.iter().zip(&parts).map(|((_, ty), part)| part.as_ref(*ty)).collect();
    step(run, &key).map(Some)
}
