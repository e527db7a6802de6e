//! What the planner asks about bound expressions.

use crate::bind::tree::BoundExpr;
use crate::functions::Volatility;

pub(crate) use crate::bind::tree::walk::{
    relations_of, walk, walk_aggregate, walk_query, walk_relations, walk_statement,
};

/// Whether an expression may give another value each time: it is then evaluated where it was written.
pub(crate) fn is_volatile(expr: &BoundExpr) -> bool {
    let mut volatile = false;
    walk(expr, &mut |part| volatile |= is_volatile_call(part));
    volatile
}

/// Whether an expression, without its parts, may give another value each time.
pub(crate) fn is_volatile_call(expr: &BoundExpr) -> bool {
    match expr {
        BoundExpr::Call { function, .. } => function.volatility == Volatility::Volatile,
        BoundExpr::SetReturning { .. } => true,
        _ => false,
    }
}

/// Whether an expression has a subquery in it.
pub(crate) fn has_subquery(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| found |= matches!(part, BoundExpr::Subquery(_)));
    found
}

/// The parts that AND connects.
pub(crate) fn conjuncts(expr: &BoundExpr, into: &mut Vec<BoundExpr>) {
    match expr {
        BoundExpr::And(parts) => parts.iter().for_each(|part| conjuncts(part, into)),
        other => into.push(other.clone()),
    }
}
