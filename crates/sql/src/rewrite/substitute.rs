//! Replaces columns of relations that were merged into the query around them by their expressions.

use std::collections::HashMap;

use crate::bind::tree::{BoundExpr, RelationId};

pub(crate) use crate::bind::tree::walk::children_mut;

/// An expression with the columns of merged relations replaced. Inside subqueries they stay: the planner replaces them
/// when it plans those.
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
