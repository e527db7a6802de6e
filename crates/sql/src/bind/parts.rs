//! Assignments to parts of columns: `SET a[1] = 5, a[3:4] = '{7,8}', j['key'][0] = '1', c.field = 1`.
//!
//! # Invariants
//! - The column gets a new value: a row of its fields with one replaced; or a call of `heddle_set_element`, `heddle_set_slice` or `heddle_set_path` over the value before
//!   it. Several assignments to parts of one column are calls inside of each other, in their order.
//!
//! Source: PostgreSQL 15, `transformAssignmentIndirection` in `parse_target.c`, `jsonbsubs.c`.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::tree::BoundExpr;
use crate::catalog::{Column, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{At, Expr, ExprKind, Name};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type, Value};

/// The names of the functions.
const ELEMENT: &str = "heddle_set_element";
const SLICE: &str = "heddle_set_slice";
const PATH: &str = "heddle_set_path";

/// A step from a value to a part of it.
enum Step<'e> {
    /// The content of one pair of brackets.
    Brackets(Bounds<'e>),
    Field(&'e Name),
}

/// The content of one pair of brackets.
#[derive(Clone, Copy)]
struct Bounds<'e> {
    lower: Option<&'e Expr>,
    upper: Option<&'e Expr>,
    is_slice: bool,
}

/// The brackets and fields after a column, from the first one on.
fn steps(part: &Expr) -> Vec<Step<'_>> {
    let (mut found, mut part) = (Vec::new(), part);
    loop {
        part = match &part.kind {
            ExprKind::Subscript { operand, index } => {
                found.push(Step::Brackets(Bounds { lower: None, upper: Some(index), is_slice: false }));
                operand
            }
            ExprKind::Slice { operand, lower, upper } => {
                let bounds = Bounds { lower: lower.as_deref(), upper: upper.as_deref(), is_slice: true };
                found.push(Step::Brackets(bounds));
                operand
            }
            ExprKind::Field { operand, name } => {
                found.push(Step::Field(name));
                operand
            }
            _ => break,
        };
    }
    found.reverse();
    found
}

/// The leading brackets.
fn leading_brackets<'e>(steps: &[Step<'e>]) -> Vec<Bounds<'e>> {
    let brackets = steps.iter().map_while(|step| match step {
        Step::Brackets(bounds) => Some(*bounds),
        Step::Field(_) => None,
    });
    brackets.collect()
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
        let known = bound.iter().position(|(known, _)| *known == position);
        let before = match known {
            Some(known) if !is_part(&bound[known].1) => {
                let message = format!("multiple assignments to same column \"{}\"", column.name);
                return Err(self.error(name.at, SqlState::SYNTAX_ERROR, message));
            }
            Some(known) => bound[known].1.clone(),
            None => self.before(name)?,
        };
        let given = self.value_of_part(column, part, value)?;
        let call = self.with_part(before, given, part)?;
        match known {
            Some(known) => bound[known].1 = call,
            None => bound.push((position, call)),
        }
        Ok(())
    }

    /// The value that is assigned to a part of a column, of the part's type.
    pub(super) fn value_of_part(&mut self, column: &Column, part: &Expr, value: &Expr) -> Result<BoundExpr> {
        let (wanted, modifier) = self.type_of_part(column, part)?;
        if value.kind == ExprKind::Default {
            let what = if wanted == column.ty { "an array element" } else { "a subfield" };
            return Err(self.unsupported(value.at, &format!("cannot set {what} to DEFAULT")));
        }
        let given = self.expr(value)?;
        self.assigned(given, wanted, modifier, &column.name, value.at)
    }

    /// The type of a part of a column, and its modifier.
    pub(super) fn type_of_part(&self, column: &Column, part: &Expr) -> Result<(Type, Modifier)> {
        let (mut ty, mut modifier) = (column.ty, column.modifier);
        let steps = steps(part);
        let mut rest = &steps[..];
        while let Some(step) = rest.first() {
            if let Step::Field(name) = step {
                (_, ty, modifier) = self.field_of(ty, name, &column.name)?;
                rest = &rest[1..];
                continue;
            }
            let brackets = leading_brackets(rest);
            ty = self.type_in_brackets(ty, &brackets, part.at)?;
            rest = &rest[brackets.len()..];
        }
        Ok((ty, modifier))
    }

    /// The number, type and modifier of a field that is assigned.
    fn field_of(&self, ty: Type, name: &Name, column: &str) -> Result<(usize, Type, Modifier)> {
        let Some(columns) = ty.row_relation().and_then(|oid| self.context.catalog.row_columns(oid)) else {
            let message = format!(
                "cannot assign to field \"{}\" of column \"{column}\" because its type {} is not a composite type",
                name.text,
                self.type_text(ty)
            );
            return Err(self.error(name.at, SqlState::DATATYPE_MISMATCH, message));
        };
        match columns.iter().position(|field| field.name == name.text) {
            Some(at) => Ok((at, columns[at].ty, columns[at].modifier)),
            None => {
                let message = format!(
                    "cannot assign to field \"{}\" of column \"{column}\" because there is no such column in data type {}",
                    name.text,
                    self.type_text(ty)
                );
                Err(self.error(name.at, SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// The type of what brackets mean of a value.
    fn type_in_brackets(&self, ty: Type, brackets: &[Bounds<'_>], at: At) -> Result<Type> {
        match ty {
            Type::Jsonb => Ok(Type::Jsonb),
            array if brackets.iter().any(|bracket| bracket.is_slice) && array.is_array() => Ok(array),
            ty => ty.element().ok_or_else(|| {
                let message = format!(
                    "cannot subscript type {} because it does not support subscripting",
                    self.type_text(ty)
                );
                self.error(at, SqlState::DATATYPE_MISMATCH, message)
            }),
        }
    }

    /// A column's value before, with a part replaced.
    pub(super) fn with_part(
        &mut self,
        before: BoundExpr,
        given: BoundExpr,
        part: &Expr,
    ) -> Result<BoundExpr> {
        self.with_step(before, given, &steps(part), part)
    }

    fn with_step(
        &mut self,
        before: BoundExpr,
        given: BoundExpr,
        steps: &[Step<'_>],
        part: &Expr,
    ) -> Result<BoundExpr> {
        match steps.first() {
            None => Ok(given),
            Some(Step::Field(name)) => {
                let row = before.ty();
                let (number, ..) = self.field_of(row, name, "")?;
                let columns = self.record_columns(&before).unwrap_or_default();
                let mut fields = Vec::with_capacity(columns.len());
                for (at, (_, ty)) in columns.into_iter().enumerate() {
                    let field = match &before {
                        // A row of which nothing is known yet.
                        BoundExpr::Constant { value: Value::Null, .. } => BoundExpr::null(ty),
                        // The result of an earlier assignment.
                        BoundExpr::Cast { operand, .. } if let BoundExpr::Row { fields, .. } = &**operand => {
                            fields[at].clone()
                        }
                        _ => BoundExpr::Field { row: Box::new(before.clone()), number: at, ty },
                    };
                    fields.push(match at == number {
                        true => {
                            let value = self.with_step(field, given.clone(), &steps[1..], part)?;
                            self.checked_field(value, (row, number), part.at)?
                        }
                        false => field,
                    });
                }
                Ok(self.row_of(fields, row))
            }
            Some(Step::Brackets(_)) => {
                let brackets = leading_brackets(steps);
                let rest = &steps[brackets.len()..];
                if rest.is_empty() {
                    return self.in_brackets(before, given, &brackets, part);
                }
                let Some(ty) = before.ty().element().filter(|_| !brackets.iter().any(|it| it.is_slice))
                else {
                    return Err(self.unsupported(part.at, "fields of slices cannot be assigned"));
                };
                let mut indexes = Vec::with_capacity(brackets.len());
                for bracket in &brackets {
                    indexes.push(self.bound_of_slice(bracket.upper)?);
                }
                let element = BoundExpr::Subscript { array: Box::new(before.clone()), indexes, ty };
                let element = self.with_step(element, given, rest, part)?;
                self.in_brackets(before, element, &brackets, part)
            }
        }
    }

    /// An array or a document with a part replaced.
    fn in_brackets(
        &mut self,
        before: BoundExpr,
        given: BoundExpr,
        brackets: &[Bounds<'_>],
        part: &Expr,
    ) -> Result<BoundExpr> {
        let is_slice = brackets.iter().any(|bracket| bracket.is_slice);
        if before.ty() == Type::Jsonb {
            return self.with_path(before, given, brackets, part);
        }
        let (mut lowers, mut uppers) = (Vec::new(), Vec::new());
        for bracket in brackets {
            // Beside a slice, an index alone counts as one from 1.
            let one = BoundExpr::Constant { value: Value::Int4(1), ty: Type::Int4 };
            lowers.push(if bracket.is_slice { self.bound_of_slice(bracket.lower)? } else { one });
            uppers.push(self.bound_of_slice(bracket.upper)?);
        }
        let indexes = |elements| BoundExpr::Array { elements, ty: Type::Int4.array().unwrap_or(Type::Int4) };
        if is_slice {
            self.call_named(SLICE, vec![before, given, indexes(lowers), indexes(uppers)], part.at)
        } else {
            self.call_named(ELEMENT, vec![before, given, indexes(uppers)], part.at)
        }
    }

    fn with_path(
        &mut self,
        before: BoundExpr,
        given: BoundExpr,
        brackets: &[Bounds<'_>],
        part: &Expr,
    ) -> Result<BoundExpr> {
        let (mut steps, mut begins_with_index) = (Vec::with_capacity(brackets.len()), false);
        for bracket in brackets {
            let (Some(index), false) = (bracket.upper, bracket.is_slice) else {
                return Err(self.no_jsonb_slices(part.at));
            };
            let step = self.expr(index)?;
            begins_with_index |= steps.is_empty() && matches!(step.ty(), Type::Int2 | Type::Int4);
            steps.push(self.jsonb_step(step, index.at)?);
        }
        let steps = BoundExpr::Array { elements: steps, ty: Type::array_of(Type::Text) };
        let is_index = BoundExpr::constant(Value::Bool(begins_with_index), Type::Bool);
        self.call_named(PATH, vec![before, given, steps, is_index], part.at)
    }

    /// A subscript of a `jsonb` as a step of a path: a key, or an index.
    pub(super) fn jsonb_step(&mut self, step: BoundExpr, at: At) -> Result<BoundExpr> {
        match step.ty() {
            Type::Int2 | Type::Int4 => {
                self.coerce(step, Type::Text, Modifier::NONE, CastContext::Explicit, at)
            }
            Type::Unknown | Type::Text | Type::Varchar | Type::Bpchar | Type::Name => {
                self.implicit(step, Type::Text, at)
            }
            ty => {
                let message = format!("subscript type {} is not supported", self.type_text(ty));
                let hint = "jsonb subscript must be coercible to either integer or text.";
                Err(self.error(at, SqlState::DATATYPE_MISMATCH, message).with_hint(hint))
            }
        }
    }

    pub(super) fn no_jsonb_slices(&self, at: At) -> SqlError {
        self.error(at, SqlState::DATATYPE_MISMATCH, "jsonb subscript does not support slices")
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
        column.ok_or_else(|| SqlError::internal("an assigned column is not visible"))
    }
}

/// Returns true if an assigned value is an assignment to a part.
fn is_part(value: &BoundExpr) -> bool {
    if let BoundExpr::Cast { operand, ty: Type::Composite(_), .. } = value {
        return matches!(&**operand, BoundExpr::Row { fields, .. } if fields.iter().any(is_before));
    }
    matches!(value, BoundExpr::Call { function, .. } if matches!(function.name, ELEMENT | SLICE | PATH))
}

/// Returns true if a field is one of the column as it was, or a part of it is assigned.
fn is_before(field: &BoundExpr) -> bool {
    matches!(field, BoundExpr::Field { .. }) || is_part(field)
}
