//! Replaces columns of relations that were merged into the query around them by what they stand for.

use std::collections::HashMap;

use crate::bind::tree::{BoundExpr, RelationId, SubqueryKind};

/// An expression with the columns of merged relations replaced. Inside subqueries they stay: the planner replaces
/// them when it comes there.
pub(crate) fn substituted(expr: &BoundExpr, merged: &HashMap<RelationId, Vec<BoundExpr>>) -> BoundExpr {
    let mut expr = expr.clone();
    if !merged.is_empty() {
        substitute(&mut expr, merged);
    }
    expr
}

fn substitute(expr: &mut BoundExpr, merged: &HashMap<RelationId, Vec<BoundExpr>>) {
    if let BoundExpr::Column { relation, column, .. } = expr {
        if let Some(value) = merged.get(relation).and_then(|columns| columns.get(*column)) {
            *expr = value.clone();
        }
        return;
    }
    children_mut(expr, &mut |child| substitute(child, merged));
}

/// Calls `visit` for an expression's parts; a subquery's query is not one.
pub(crate) fn children_mut(expr: &mut BoundExpr, visit: &mut dyn FnMut(&mut BoundExpr)) {
    match expr {
        BoundExpr::Constant { .. }
        | BoundExpr::Parameter { .. }
        | BoundExpr::Column { .. }
        | BoundExpr::Group { .. }
        | BoundExpr::Aggregate { .. }
        | BoundExpr::Window { .. }
        | BoundExpr::Grouping(_)
        | BoundExpr::CaseOperand { .. } => {}
        BoundExpr::Call { args, .. }
        | BoundExpr::Operator { args, .. }
        | BoundExpr::SetReturning { args, .. }
        | BoundExpr::And(args)
        | BoundExpr::Or(args)
        | BoundExpr::Coalesce { operands: args, .. }
        | BoundExpr::MinMax { operands: args, .. }
        | BoundExpr::Array { elements: args, .. }
        | BoundExpr::Row { fields: args } => args.iter_mut().for_each(visit),
        BoundExpr::Cast { operand, .. }
        | BoundExpr::Not(operand)
        | BoundExpr::IsNull { operand, .. }
        | BoundExpr::IsTruth { operand, .. }
        | BoundExpr::Field { row: operand, .. } => visit(operand),
        BoundExpr::IsDistinct { operands, .. } | BoundExpr::NullIf { operands, .. } => {
            operands.iter_mut().for_each(visit);
        }
        BoundExpr::Case { operand, arms, otherwise, .. } => {
            operand.iter_mut().for_each(|operand| visit(operand));
            arms.iter_mut().for_each(|arm| {
                visit(&mut arm.when);
                visit(&mut arm.then);
            });
            visit(otherwise);
        }
        BoundExpr::InList { operand, list, .. } => {
            visit(operand);
            list.iter_mut().for_each(visit);
        }
        BoundExpr::Quantified { operand, array, .. } => {
            visit(operand);
            visit(array);
        }
        BoundExpr::Subscript { array, indexes, .. } => {
            visit(array);
            indexes.iter_mut().for_each(visit);
        }
        BoundExpr::Slice { array, lower, upper, .. } => {
            visit(array);
            lower.iter_mut().chain(upper).for_each(|bound| visit(bound));
        }
        BoundExpr::Subquery(subquery) => {
            if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(visit);
            }
        }
    }
}
