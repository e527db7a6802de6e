//! Elements and slices of arrays, and parts of documents by subscripts.
//!
//! # Invariants
//! - Where one pair of brackets of a chain holds a slice, all do: `a[1:2][3]` is `a[1:2][1:3]`. Parentheses end a chain.
//!
//! Source: PostgreSQL 15, `transformContainerSubscripts` in `parse_node.c`, `jsonb_subscript_transform` in `jsonbsubs.c`.

use crate::bind::binder::Binder;
use crate::bind::tree::{BoundExpr, SliceBounds};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{At, Expr, ExprKind};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type, Value};

/// The content of a pair of brackets.
enum Brackets<'e> {
    Index(&'e Expr),
    Slice(Option<&'e Expr>, Option<&'e Expr>),
}

/// The operand of a chain of brackets, the brackets from the first one on, and whether one of them holds a slice.
fn chain(expr: &Expr) -> (&Expr, Vec<Brackets<'_>>, bool) {
    let (mut bounds, mut part, mut is_slice) = (Vec::new(), expr, false);
    // The brackets of one chain have one position.
    while part.at == expr.at {
        part = match &part.kind {
            ExprKind::Subscript { operand, index } => {
                bounds.push(Brackets::Index(index));
                operand
            }
            ExprKind::Slice { operand, lower, upper } => {
                is_slice = true;
                bounds.push(Brackets::Slice(lower.as_deref(), upper.as_deref()));
                operand
            }
            _ => break,
        };
    }
    bounds.reverse();
    (part, bounds, is_slice)
}

impl Binder<'_> {
    /// `a[1]`, `a[1][2]`, `a[2:3]`.
    pub(super) fn subscripted(&mut self, expr: &Expr) -> Result<BoundExpr> {
        let (whole, bounds, is_slice) = chain(expr);
        match &expr.kind {
            ExprKind::Subscript { operand, index } if !is_slice => self.subscript(operand, index, expr.at),
            _ => self.slice(whole, &bounds, expr.at),
        }
    }

    fn subscript(&mut self, operand: &Expr, index: &Expr, at: At) -> Result<BoundExpr> {
        let array = self.expr(operand)?;
        let index_expr = self.expr(index)?;
        if array.ty() == Type::Jsonb {
            return self.jsonb_subscript(array, index_expr, at);
        }
        // `a[1][2]` is one element of two dimensions.
        if let BoundExpr::Subscript { .. } = &array
            && array.ty().element().is_none()
        {
            return self.deeper_subscript(array, index_expr, index.at);
        }
        if array.ty() == Type::Name {
            return self.letter(array, index_expr, index.at);
        }
        let Some(ty) = array.ty().element() else {
            return Err(self.no_subscripts(array.ty(), at));
        };
        let index = self.array_index(index_expr, index.at)?;
        Ok(BoundExpr::Subscript { array: Box::new(array), indexes: vec![index], ty })
    }

    fn deeper_subscript(&mut self, array: BoundExpr, index: BoundExpr, at: At) -> Result<BoundExpr> {
        let index = self.array_index(index, at)?;
        match array {
            BoundExpr::Subscript { array, mut indexes, ty } => {
                indexes.push(index);
                Ok(BoundExpr::Subscript { array, indexes, ty })
            }
            _ => Err(self.unsupported(at, "this subscript is not supported")),
        }
    }

    pub(super) fn array_index(&mut self, index: BoundExpr, at: At) -> Result<BoundExpr> {
        if !matches!(index.ty(), Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric | Type::Unknown) {
            return Err(self.error(
                at,
                SqlState::DATATYPE_MISMATCH,
                "array subscript must have type integer",
            ));
        }
        self.coerce(index, Type::Int4, Modifier::NONE, CastContext::Assignment, at)
    }

    /// `name[n]`: a name is an array of letters, counted from zero (of characters here, not of bytes).
    fn letter(&mut self, name: BoundExpr, index: BoundExpr, at: At) -> Result<BoundExpr> {
        let index = self.array_index(index, at)?;
        let one = || BoundExpr::Constant { value: Value::Int4(1), ty: Type::Int4 };
        let start = self.operator("+", index, one(), at)?;
        let text = self.coerce(name, Type::Text, Modifier::NONE, CastContext::Implicit, at)?;
        let letter = self.call_named("substr", vec![text, start, one()], at)?;
        self.coerce(letter, Type::Char, Modifier::NONE, CastContext::Assignment, at)
    }

    fn jsonb_subscript(&mut self, value: BoundExpr, index: BoundExpr, at: At) -> Result<BoundExpr> {
        let step = self.jsonb_step(index, at)?;
        let steps = BoundExpr::Array { elements: vec![step], ty: Type::array_of(Type::Text) };
        self.operator("#>", value, steps, at)
    }

    fn slice(&mut self, operand: &Expr, bounds: &[Brackets<'_>], at: At) -> Result<BoundExpr> {
        let array = self.expr(operand)?;
        let ty = array.ty();
        if ty == Type::Jsonb {
            return Err(self.no_jsonb_slices(at));
        }
        if !ty.is_array() {
            return Err(self.no_subscripts(ty, at));
        }
        let mut limit = |expr: Option<&Expr>| -> Result<Option<BoundExpr>> {
            let Some(expr) = expr else { return Ok(None) };
            let index = self.expr(expr)?;
            self.array_index(index, expr.at).map(Some)
        };
        let mut bound: Vec<SliceBounds> = Vec::with_capacity(bounds.len());
        for brackets in bounds {
            bound.push(match brackets {
                Brackets::Index(index) => {
                    let first = BoundExpr::Constant { value: Value::Int4(1), ty: Type::Int4 };
                    (Some(first), limit(Some(index))?)
                }
                Brackets::Slice(lower, upper) => (limit(*lower)?, limit(*upper)?),
            });
        }
        Ok(BoundExpr::Slice { array: Box::new(array), bounds: bound, ty })
    }

    fn no_subscripts(&self, ty: Type, at: At) -> SqlError {
        let message =
            format!("cannot subscript type {} because it does not support subscripting", self.type_text(ty));
        self.error(at, SqlState::DATATYPE_MISMATCH, message)
    }
}
