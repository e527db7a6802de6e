//! MERGE statements that are an UPDATE: one row of values, and nothing to do but to update the row that it matches. Object-relational
//! mappers write their updates so.
//!
//! # Invariants
//! The source has exactly one row, which depends on no table, and whose values may be computed where they are used. So no row is met twice,
//! and the join is a condition.

use std::collections::HashMap;

use crate::bind::tree::{
    BoundExpr, BoundFrom, BoundMerge, BoundQuery, BoundUpdate, Distinct, MergeAction, QueryBody, RelationKind,
};
use crate::plan::walk::{has_subquery, is_volatile};
use crate::rewrite::substitute::substituted;

/// The UPDATE that a MERGE is; `None` if it is more.
pub(super) fn as_update(merge: &BoundMerge) -> Option<BoundUpdate> {
    let ([arm], true) = (&merge.arms[..], merge.ctes.is_empty()) else { return None };
    let MergeAction::Update(sets) = &arm.action else { return None };
    let (BoundFrom::Relation(source), [target, relation]) = (&merge.source, &merge.relations[..]) else {
        return None;
    };
    let RelationKind::Query(query) = &relation.kind else { return None };
    if !arm.matched || relation.id != *source || target.id != merge.target || relation.lateral {
        return None;
    }
    let values = only_row(query)?;
    let is_plain = |value: &BoundExpr| !has_subquery(value) && !is_volatile(value);
    if !values.iter().all(is_plain) {
        return None;
    }
    let merged = HashMap::from([(*source, values)]);
    let conditions = std::iter::once(&merge.on).chain(&arm.condition);
    let conditions: Vec<BoundExpr> = conditions.map(|condition| substituted(condition, &merged)).collect();
    // What is in a subquery would keep the names of the source's columns.
    let sets: Vec<(usize, BoundExpr)> =
        sets.iter().map(|(column, value)| (*column, substituted(value, &merged))).collect();
    if conditions.iter().chain(sets.iter().map(|(_, value)| value)).any(has_subquery) {
        return None;
    }
    Some(BoundUpdate {
        ctes: Vec::new(),
        table: merge.table.clone(),
        target: merge.target,
        relations: vec![target.clone()],
        from: Vec::new(),
        filter: Some(BoundExpr::And(conditions)),
        sets,
        generated: merge.generated.clone(),
        checks: merge.checks.clone(),
        returning: Vec::new(),
    })
}

/// The values of a query that yields one row, whatever the tables hold.
fn only_row(query: &BoundQuery) -> Option<Vec<BoundExpr>> {
    let is_bare = query.ctes.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && query.view.is_none();
    match &query.body {
        _ if !is_bare => None,
        QueryBody::Values(rows) => match &rows[..] {
            [only] => Some(only.clone()),
            _ => None,
        },
        QueryBody::Select(select) => {
            let is_one = select.relations.is_empty()
                && select.filter.is_none()
                && select.group_by.is_empty()
                && select.grouping_sets.is_none()
                && select.aggregates.is_empty()
                && select.having.is_none()
                && select.windows.is_empty()
                && matches!(select.distinct, Distinct::No)
                && !select.set_returning;
            is_one.then(|| select.targets.iter().map(|target| target.expr.clone()).collect())
        }
        QueryBody::Set { .. } => None,
    }
}
