//! Assignments to elements and slices of arrays: `SET a[1] = 5, a[3:4] = '{7,8}'`.
//!
//! # Invariants
//! - The column gets a new array: a call of `heddle_set_element` or `heddle_set_slice` over the array before it. Several
//!   assignments to parts of one column are calls inside of each other, in their order.
//!
//! Source: PostgreSQL 15, `transformAssignmentIndirection` in `parse_target.c`.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::tree::BoundExpr;
use crate::catalog::Table;
use crate::error::{Result, SqlState};
use crate::parse::syntax::{Expr, ExprKind, Name};
use crate::types::{Type, Value};

/// The names of the functions.
const ELEMENT: &str = "heddle_set_element";
const SLICE: &str = "heddle_set_slice";

/// What stands in one pair of brackets.
struct Bounds<'e> {
    lower: Option<&'e Expr>,
    upper: Option<&'e Expr>,
    is_slice: bool,
}

/// The brackets behind a column, from the first one on.
fn brackets(part: &Expr) -> Vec<Bounds<'_>> {
    let (mut found, mut part) = (Vec::new(), part);
    loop {
        part = match &part.kind {
            ExprKind::Subscript { operand, index } => {
                found.push(Bounds { lower: None, upper: Some(index), is_slice: false });
                operand
            }
            ExprKind::Slice { operand, lower, upper } => {
                found.push(Bounds { lower: lower.as_deref(), upper: upper.as_deref(), is_slice: true });
                operand
            }
            _ => break,
        };
    }
    found.reverse();
    found
}

impl Binder<'_> {
    /// Adds an assignment to a part of a column, or puts it around the one that is there.
    pub(super) fn assign_part(
        &mut self,
        name: &Name,
        part: &Expr,
        value: &Expr,
        table: &Arc<Table>,
        bound: &mut Vec<(usize, BoundExpr)>,
    ) -> Result<()> {
        let position = self.settable(name, table)?;
        let column = &table.columns[position];
        let Some(element) = column.ty.element() else {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                self.type_text(column.ty)
            );
            return Err(match column.ty {
                Type::Jsonb => self.unsupported(part.at, "assigning to a part of a jsonb is not supported"),
                _ => self.error(part.at, SqlState::DATATYPE_MISMATCH, message),
            });
        };
        if value.kind == ExprKind::Default {
            return Err(self.unsupported(value.at, "cannot set an array element to DEFAULT"));
        }
        let known = bound.iter().position(|(known, _)| *known == position);
        let before = match known {
            Some(known) if !is_part(&bound[known].1) => {
                let message = format!("multiple assignments to same column \"{}\"", column.name);
                return Err(self.error(name.at, SqlState::SYNTAX_ERROR, message));
            }
            Some(known) => bound[known].1.clone(),
            None => self.before(name)?,
        };
        let brackets = brackets(part);
        let is_slice = brackets.iter().any(|bracket| bracket.is_slice);
        let (mut lowers, mut uppers) = (Vec::new(), Vec::new());
        for bracket in &brackets {
            // Beside a slice, an index alone counts as one from 1.
            let one = BoundExpr::Constant { value: Value::Int4(1), ty: Type::Int4 };
            lowers.push(if bracket.is_slice { self.bound_of_slice(bracket.lower)? } else { one });
            uppers.push(self.bound_of_slice(bracket.upper)?);
        }
        let wanted = if is_slice { column.ty } else { element };
        let given = self.expr(value)?;
        let given = self.assigned(given, wanted, column.modifier, &column.name, value.at)?;
        let indexes = |elements| BoundExpr::Array { elements, ty: Type::Int4.array().unwrap_or(Type::Int4) };
        let call = if is_slice {
            self.call_named(SLICE, vec![before, given, indexes(lowers), indexes(uppers)], part.at)?
        } else {
            self.call_named(ELEMENT, vec![before, given, indexes(uppers)], part.at)?
        };
        match known {
            Some(known) => bound[known].1 = call,
            None => bound.push((position, call)),
        }
        Ok(())
    }

    /// A bound of a slice, or an index: NULL for one that is left out, which no slice has otherwise.
    fn bound_of_slice(&mut self, expr: Option<&Expr>) -> Result<BoundExpr> {
        let Some(expr) = expr else { return Ok(BoundExpr::null(Type::Int4)) };
        let index = self.expr(expr)?;
        let index = self.array_index(index, expr.at)?;
        if matches!(index, BoundExpr::Constant { value: Value::Null, .. }) {
            let message = "array subscript in assignment must not be null";
            return Err(self.error(expr.at, SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Ok(index)
    }

    /// The column of the row that is changed, as it was.
    fn before(&mut self, name: &Name) -> Result<BoundExpr> {
        let column = self.scope().entries.first().and_then(|target| {
            target.columns.iter().find(|column| column.name == name.text).map(|column| column.expr.clone())
        });
        column.ok_or_else(|| crate::error::SqlError::internal("an assigned column is not visible"))
    }
}

/// Whether an assigned value is an assignment to a part.
fn is_part(value: &BoundExpr) -> bool {
    matches!(value, BoundExpr::Call { function, .. } if matches!(function.name, ELEMENT | SLICE))
}
