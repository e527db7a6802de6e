//! Updates that are commutative operations of the engine's: `n = n + $1` and its kin.
//!
//! # Invariants
//! - An update is one only if nothing reads what it writes: no RETURNING, no check, index, key or generated column depends on the
//!   column; and if the operation gives what the expression gives, NULLs included.

use crate::access::Commute;
use crate::bind::tree::{BoundExpr, MinMax, RelationId};
use crate::catalog::Table;
use crate::plan::decoder::handle;
use crate::plan::expression::Expr;
use crate::plan::layout::Layout;
use crate::plan::node::{Node, Path, Plan};
use crate::plan::planner::Planner;
use crate::plan::statement::RowRules;
use crate::plan::walk::{has_subquery, is_volatile, relations_of};
use crate::types::Type;

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Commuting {
    pub(crate) column: usize,
    /// The column in the engine's table.
    pub(crate) handle: heddledb::Column,
    pub(crate) operation: Commute,
    /// Subtracted, not added.
    pub(crate) negated: bool,
    pub(crate) operand: Expr,
}

impl Planner<'_> {
    /// The operations that assignments are; none: they are not all of them operations. The operands see rows of this layout.
    pub(crate) fn commuting(
        &mut self,
        rules: &RowRules,
        sets: &[(usize, BoundExpr)],
        target: RelationId,
        layout: &Layout,
    ) -> Option<Vec<Commuting>> {
        if !rules.generated.is_empty() || !rules.checks.is_empty() || !rules.triggers.is_empty() {
            return None;
        }
        let mut operations = Vec::with_capacity(sets.len());
        for (column, value) in sets {
            if !is_free(&rules.table, *column) || has_subquery(value) || is_volatile(value) {
                return None;
            }
            let (operation, negated, operand) = operation(&rules.table, target, *column, value)?;
            let sees_row = relations_of(operand).contains(&target);
            if sees_row {
                return None;
            }
            let operand = self.expr(operand, layout).ok()?;
            let handle = handle(&rules.table, rules.table.columns[*column].engine).ok()?;
            operations.push(Commuting { column: *column, handle, operation, negated, operand });
        }
        Some(operations)
    }

    /// The key that a plan looks up, if it reads one row by its whole key and looks at nothing else of it.
    pub(crate) fn point_of(&self, plan: &Plan) -> Option<Vec<Expr>> {
        match &plan.node {
            Node::Scan(scan) => match &scan.path {
                Path::Point(key) if scan.filter.is_none() => Some(key.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Whether nothing depends on a column but its own row, and the engine bounds it as SQL does.
fn is_free(table: &Table, column: usize) -> bool {
    let of = &table.columns[column];
    let is_number = match of.ty {
        Type::Int4 | Type::Int8 => true,
        Type::Numeric => of.modifier.numeric_parts().is_some_and(|(precision, _)| precision <= 18),
        _ => false,
    };
    let is_indexed =
        table.indexes.iter().any(|index| index.columns.iter().any(|indexed| indexed.column == column));
    let is_foreign = table.foreign_keys.iter().any(|key| key.columns.contains(&column));
    is_number && !is_indexed && !is_foreign && !table.key.contains(&column)
}

fn is_column(expr: &BoundExpr, target: RelationId, column: usize) -> bool {
    match expr {
        BoundExpr::Column { relation, column: of, .. } => *relation == target && *of == column,
        // What is assigned is cast to the column's type and modifier.
        BoundExpr::Cast { operand, .. } => is_column(operand, target, column),
        _ => false,
    }
}

/// The operation that an assigned value is.
fn operation<'v>(
    table: &Table,
    target: RelationId,
    column: usize,
    value: &'v BoundExpr,
) -> Option<(Commute, bool, &'v BoundExpr)> {
    let of = &table.columns[column];
    let is_mine = |expr: &BoundExpr| is_column(expr, target, column);
    match value {
        // A cast to the column's own type is exact; of numerics, an operand with too many digits is found when it is there.
        BoundExpr::Cast { operand, ty, .. } if *ty == of.ty && operand.ty() == of.ty => {
            operation(table, target, column, operand)
        }
        BoundExpr::Operator { operator, args, ty } if *ty == of.ty => {
            let [left, right] = &args[..] else { return None };
            // The operand may be narrower than the column, never wider.
            let same = |operand: &BoundExpr| operand.ty() == of.ty || widens(operand.ty(), of.ty);
            match operator.name {
                "+" if is_mine(left) && same(right) => Some((Commute::Add, false, right)),
                "+" if is_mine(right) && same(left) => Some((Commute::Add, false, left)),
                "-" if is_mine(left) && same(right) => Some((Commute::Add, true, right)),
                // A product of numerics is rounded: in another order it is another one.
                "*" if of.ty == Type::Numeric => None,
                "*" if is_mine(left) && same(right) => Some((Commute::Multiply, false, right)),
                "*" if is_mine(right) && same(left) => Some((Commute::Multiply, false, left)),
                _ => None,
            }
        }
        BoundExpr::MinMax { kind, operands, .. } => {
            let [left, right] = &operands[..] else { return None };
            let operand = if is_mine(left) {
                right
            } else if is_mine(right) {
                left
            } else {
                return None;
            };
            let operation = match kind {
                MinMax::Greatest => Commute::Max,
                // NULL is ignored by LEAST, and below everything to the engine.
                MinMax::Least if of.not_null => Commute::Min,
                MinMax::Least => return None,
            };
            (operand.ty() == of.ty).then_some((operation, false, operand))
        }
        _ => None,
    }
}

fn widens(from: Type, to: Type) -> bool {
    matches!((from, to), (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8))
}
