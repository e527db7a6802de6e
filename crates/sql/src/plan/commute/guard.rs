//! Guards: conditions on a column that additions change, which the commit proves where a statement would read (O'Neil, The
//! Escrow Transactional Method, TODS 1986).
//!
//! `stock >= $1` of `SET stock = stock - $1`, and `CHECK (stock >= 0)`, give bounds of the new value. The engine is
//! asked to prove them with the addition itself. If they cannot be proven, the statement is retried as an ordinary
//! update, which finds that there is no such row, or the error.
//!
//! # Invariants
//! - A guard is at least as strict as the condition: NULL passes a check, and no guard.
//! - The operand that a column is compared with is constant for the statement, or a value of another column, which is
//!   validated.

use std::collections::BTreeSet;

use crate::bind::tree::{BoundExpr, RelationId};
use crate::catalog::Table;
use crate::plan::commute::assigned::Taker;
use crate::plan::commute::columns_of;
use crate::plan::expression::Expr;
use crate::plan::walk::{has_subquery, is_volatile};
use crate::storage::is_one_word;
use crate::types::Type;

/// A condition on a column after its operations.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) column: usize,
    /// The column in the engine's table.
    pub(crate) handle: heddledb::Column,
    pub(crate) limits: Vec<Limit<Expr>>,
}

/// One side of the numbers that a column may hold.
#[derive(Clone, Debug)]
pub(crate) struct Limit<E> {
    pub(crate) column: usize,
    pub(crate) is_low: bool,
    /// The limit itself is outside.
    pub(crate) is_strict: bool,
    pub(crate) value: E,
    /// The value added to the column before it is compared; with `true`, it is subtracted.
    pub(crate) addend: Option<(bool, E)>,
    /// True for a limit of the value before the operations; otherwise of the one after them.
    pub(crate) is_of_old: bool,
}

/// The limits that a condition expresses; `None` if it is of another form.
pub(super) fn limits(
    table: &Table,
    target: RelationId,
    operated: &BTreeSet<usize>,
    (condition, is_of_old): (&BoundExpr, bool),
) -> Option<Vec<Limit<BoundExpr>>> {
    match condition {
        BoundExpr::And(parts) => {
            let parts = parts.iter().map(|part| limits(table, target, operated, (part, is_of_old)));
            Some(parts.collect::<Option<Vec<_>>>()?.concat())
        }
        BoundExpr::Operator { operator, args, .. } => {
            let [left, right] = &args[..] else { return None };
            let (is_low, is_strict) = match operator.name {
                ">=" => (true, false),
                ">" => (true, true),
                "<=" => (false, false),
                "<" => (false, true),
                _ => return None,
            };
            let of = |compared, value, is_low| {
                limit(table, target, operated, (compared, value), (is_low, is_strict, is_of_old))
            };
            let found = of(left, right, is_low).or_else(|| of(right, left, !is_low));
            found.map(|limit| vec![limit])
        }
        _ => None,
    }
}

fn limit(
    table: &Table,
    target: RelationId,
    operated: &BTreeSet<usize>,
    (compared, value): (&BoundExpr, &BoundExpr),
    (is_low, is_strict, is_of_old): (bool, bool, bool),
) -> Option<Limit<BoundExpr>> {
    let column = *operated.iter().find(|column| columns_of(compared, target).contains(column))?;
    let taker = Taker::new(table, target, column);
    let is_fixed = |expr: &BoundExpr| {
        let of_kind = if table.columns[column].ty == Type::Numeric {
            expr.ty() == Type::Numeric && is_one_word(table.columns[column].modifier)
        } else {
            matches!(expr.ty(), Type::Int2 | Type::Int4 | Type::Int8)
        };
        of_kind && columns_of(expr, target).is_disjoint(operated) && !has_subquery(expr) && !is_volatile(expr)
    };
    let addend = match compared {
        _ if taker.is_own(compared) => None,
        BoundExpr::Operator { operator, args, .. } => match (&args[..], operator.name) {
            ([left, right], "-") if taker.is_own(left) && is_fixed(right) => Some((true, right.clone())),
            ([left, right], "+") if taker.is_own(left) && is_fixed(right) => Some((false, right.clone())),
            ([left, right], "+") if taker.is_own(right) && is_fixed(left) => Some((false, left.clone())),
            _ => return None,
        },
        _ => return None,
    };
    is_fixed(value).then(|| Limit { column, is_low, is_strict, value: value.clone(), addend, is_of_old })
}

impl Limit<BoundExpr> {
    /// The expressions that it is computed from.
    pub(super) fn values(&self) -> impl Iterator<Item = &BoundExpr> {
        std::iter::once(&self.value).chain(self.addend.iter().map(|(_, addend)| addend))
    }
}
