//! Properties of bound expressions that the planner asks for.

use crate::bind::tree::BoundExpr;
use crate::functions::Volatility;
use crate::plan::join::equality;

pub(crate) use crate::bind::tree::walk::{
    relations_of, walk, walk_aggregate, walk_query, walk_relations, walk_statement,
};

/// Returns true if an expression may give another value each time: it is then evaluated where it was written.
pub(crate) fn is_volatile(expr: &BoundExpr) -> bool {
    let mut volatile = false;
    walk(expr, &mut |part| volatile |= is_volatile_call(part));
    volatile
}

/// Returns true if an expression, without its parts, may give another value each time.
pub(crate) fn is_volatile_call(expr: &BoundExpr) -> bool {
    match expr {
        BoundExpr::Call { function, .. } => function.volatility == Volatility::Volatile,
        BoundExpr::SetReturning { .. } => true,
        _ => false,
    }
}

/// Returns true if an expression has a subquery in it.
pub(crate) fn has_subquery(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| found |= matches!(part, BoundExpr::Subquery(_)));
    found
}

/// The parts that AND connects. Those that all alternatives of an OR share are among them, as `a` of `a AND b OR a AND c`:
/// a join finds its keys there.
pub(crate) fn conjuncts(expr: &BoundExpr, into: &mut Vec<BoundExpr>) {
    match expr {
        BoundExpr::And(parts) => parts.iter().for_each(|part| conjuncts(part, into)),
        BoundExpr::Or(alternatives) => conjuncts_of_or(expr, alternatives, into),
        other => into.push(other.clone()),
    }
}

/// Returns true if two conditions are the same, also `a = b` and `b = a`.
fn is_same(one: &BoundExpr, other: &BoundExpr) -> bool {
    let swapped = || match (equality(one), equality(other)) {
        (Some((left, right)), Some((other_left, other_right))) => left == other_right && right == other_left,
        _ => false,
    };
    one == other || swapped()
}

/// `expr`: the OR of the alternatives.
fn conjuncts_of_or(expr: &BoundExpr, alternatives: &[BoundExpr], into: &mut Vec<BoundExpr>) {
    let parts_of = |alternative: &BoundExpr| {
        let mut parts = Vec::new();
        conjuncts(alternative, &mut parts);
        parts
    };
    let mut alternatives: Vec<Vec<BoundExpr>> = alternatives.iter().map(parts_of).collect();
    let Some((first, others)) = alternatives.split_first() else { return into.push(expr.clone()) };
    let is_shared = |part: &&BoundExpr| {
        let has = |other: &Vec<BoundExpr>| other.iter().any(|known| is_same(known, part));
        others.iter().all(has) && !is_volatile(part) && !has_subquery(part)
    };
    let shared: Vec<BoundExpr> = first.iter().filter(is_shared).cloned().collect();
    if shared.is_empty() {
        return into.push(expr.clone());
    }
    alternatives.iter_mut().for_each(|parts| {
        parts.retain(|part| !shared.iter().any(|known| is_same(known, part)));
    });
    into.extend(shared);
    // An alternative of nothing else is true where the shared parts are.
    if alternatives.iter().all(|parts| !parts.is_empty()) {
        let and =
            |mut parts: Vec<BoundExpr>| if parts.len() > 1 { BoundExpr::And(parts) } else { parts.remove(0) };
        into.push(BoundExpr::Or(alternatives.into_iter().map(and).collect()));
    }
}

/// Derives from an OR the condition on one item alone, where each alternative says something of it: `a = 1 OR a = 2` of
/// `a = 1 AND b = 1 OR a = 2 AND b = 2`. `concerns`: whether an expression names this item and no other.
///
/// Source: PostgreSQL's `extract_restriction_or_clauses` (orclauses.c).
pub(crate) fn implied_restriction(
    condition: &BoundExpr,
    concerns: &dyn Fn(&BoundExpr) -> bool,
) -> Option<BoundExpr> {
    let BoundExpr::Or(alternatives) = condition else { return None };
    let of_alternative = |alternative: &BoundExpr| {
        let mut parts = Vec::new();
        conjuncts(alternative, &mut parts);
        parts.retain(|part| concerns(part) && !is_volatile(part) && !has_subquery(part));
        match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(BoundExpr::And(parts)),
        }
    };
    alternatives.iter().map(of_alternative).collect::<Option<_>>().map(BoundExpr::Or)
}
