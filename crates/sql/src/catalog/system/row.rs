//! Rows of system relations, given by the names of their columns.
//!
//! # Invariants
//! - A column that a row does not give is NULL, or, where it is NOT NULL, its type's zero: no, none, an empty text.

use std::sync::Arc;

use super::{SystemColumn, SystemRelation};
use crate::types::array::ArrayValue;
use crate::types::record::RecordValue;
use crate::types::{Type, Value};

/// The types of values that can be in a row.
pub(crate) trait Cell {
    /// The value.
    fn value(self) -> Value;
}

macro_rules! cells {
    ($($from:ty => $make:expr,)*) => {
        $(impl Cell for $from {
            fn value(self) -> Value {
                $make(self)
            }
        })*
    };
}

cells! {
    Value => |it| it,
    bool => Value::Bool,
    i16 => Value::Int2,
    i32 => Value::Int4,
    i64 => Value::Int8,
    f32 => Value::Float4,
    f64 => Value::Float8,
    u32 => Value::Oid,
    &str => |it: &str| Value::text(it),
    &String => |it: &String| Value::text(it),
    String => |it: String| Value::text(it),
    char => |it: char| Value::text(it.to_string()),
}

impl<T: Cell> Cell for Option<T> {
    fn value(self) -> Value {
        self.map_or(Value::Null, Cell::value)
    }
}

/// An array from 1.
pub(super) fn list<T: Cell>(element: Type, values: impl IntoIterator<Item = T>) -> Value {
    Value::array(ArrayValue::list(element, values.into_iter().map(Cell::value).collect()))
}

/// An `int2vector` or `oidvector`: an array from 0.
pub(super) fn vector<T: Cell>(element: Type, values: impl IntoIterator<Item = T>) -> Value {
    Value::array(ArrayValue::list_from(element, 0, values.into_iter().map(Cell::value).collect()))
}

/// The rows of a relation as they are made.
pub(crate) struct Output {
    relation: &'static SystemRelation,
    blank: Vec<Value>,
    rows: Vec<Value>,
}

impl Output {
    /// An output without rows.
    pub fn new(relation: &'static SystemRelation) -> Output {
        let blank = relation.columns.iter().map(blank).collect();
        Output { relation, blank, rows: Vec::new() }
    }

    /// Adds a row. Names that the relation does not have are left out, so that relations with common columns share
    /// their code.
    pub fn row(&mut self, cells: Vec<(&'static str, Value)>) {
        let mut row = self.blank.clone();
        let columns = &self.relation.columns;
        let mut next = 0;
        for (name, value) in cells {
            // Rows are written in the order of the columns: the search ends at its first step.
            let found = (next..columns.len()).chain(0..next).find(|&at| columns[at].name == name);
            if let Some(at) = found {
                row[at] = value;
                next = at + 1;
            }
        }
        let fields = self.relation.fields.clone();
        self.rows.push(Value::Record(Arc::new(RecordValue { fields, values: row.into() })));
    }

    /// The rows.
    pub fn finish(self) -> Vec<Value> {
        self.rows
    }
}

/// The value of a column that a row does not give.
fn blank(column: &SystemColumn) -> Value {
    if !column.not_null {
        return Value::Null;
    }
    match column.ty {
        Type::Bool => Value::Bool(false),
        Type::Int2 => Value::Int2(0),
        Type::Int4 => Value::Int4(0),
        Type::Int8 => Value::Int8(0),
        Type::Float4 => Value::Float4(0.0),
        Type::Float8 => Value::Float8(0.0),
        Type::Int2Vector => vector::<i16>(Type::Int2, []),
        Type::OidVector => vector::<u32>(Type::Oid, []),
        Type::Oid | Type::Xid => Value::Oid(0),
        kind if kind.is_reg() => Value::Oid(0),
        kind => match kind.element() {
            Some(element) => list::<i16>(element, []),
            None => Value::text(""),
        },
    }
}

/// Adds a row to an [`Output`]: `row!(out, oid = 1, relname = "t")`.
macro_rules! row {
    ($out:expr, $($name:ident = $value:expr),* $(,)?) => {
        $out.row(vec![$((stringify!($name), $crate::catalog::system::row::Cell::value($value))),*])
    };
}

pub(super) use row;
