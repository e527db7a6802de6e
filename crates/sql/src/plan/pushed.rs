//! Conditions on the rows of a query in FROM, moved into its WHERE: rows that they reject are not grouped, sorted or joined there.
//!
//! A query that groups accepts conditions on its grouping expressions, one with window functions those on what all of its
//! windows are partitioned by, one with DISTINCT ON those on its keys; one of UNION, INTERSECT or EXCEPT passes them to
//! each of its parts.
//!
//! Source: PostgreSQL's `subquery_push_qual` (allpaths.c).
//!
//! # Invariants
//! - A condition is moved only if it decides on whole groups, or on rows that are equal, in the same way; and never
//!   before a LIMIT or past conditions of a view with `security_barrier` that could reveal the values they see.

use crate::bind::tree::walk::{is_leakproof, walk};
use crate::bind::tree::{BoundExpr, BoundQuery, BoundSelect, Distinct, QueryBody, RelationId};
use crate::plan::walk::{has_subquery, is_volatile};
use crate::rewrite::substitute::children_mut;

/// Moves conditions on a relation's rows into the query that it is. The query with them, and those that stay; none if all stay.
pub(crate) fn pushed(
    query: &BoundQuery,
    relation: RelationId,
    conditions: &[BoundExpr],
) -> Option<(BoundQuery, Vec<BoundExpr>)> {
    let is_movable = |condition: &BoundExpr| {
        let may_look = !query.is_barrier || is_leakproof(condition);
        may_look && names(condition, relation) && takes(query, relation, condition)
    };
    let (moved, kept): (Vec<BoundExpr>, Vec<BoundExpr>) = conditions.iter().cloned().partition(is_movable);
    if moved.is_empty() {
        return None;
    }
    let mut query = query.clone();
    moved.iter().for_each(|condition| add(&mut query, relation, condition));
    Some((query, kept))
}

fn names(condition: &BoundExpr, relation: RelationId) -> bool {
    let mut found = false;
    walk(condition, &mut |part| {
        found |= matches!(part, BoundExpr::Column { relation: of, .. } if *of == relation);
    });
    found && !is_volatile(condition) && !has_subquery(condition)
}

/// Returns true if a condition on a query's columns can select among its rows before it has computed them.
fn takes(query: &BoundQuery, relation: RelationId, condition: &BoundExpr) -> bool {
    let is_whole = query.limit.is_none() && query.offset.is_none() && query.locks.is_empty();
    is_whole
        && match &query.body {
            QueryBody::Select(select) => select_takes(select, relation, condition),
            QueryBody::Set { left, right, .. } => {
                takes(left, relation, condition) && takes(right, relation, condition)
            }
            QueryBody::Values(_) => false,
        }
}

fn select_takes(select: &BoundSelect, relation: RelationId, condition: &BoundExpr) -> bool {
    // Windows of a partition see none of its rows if the condition rejects them all, and all of them otherwise.
    let is_of_all_windows =
        |target: &BoundExpr| select.windows.iter().all(|window| window.partition_by.contains(target));
    let is_distinct = |column: usize| match &select.distinct {
        Distinct::On(targets) => targets.contains(&column),
        _ => true,
    };
    let mut all = !select.set_returning && !select.from.is_empty();
    walk(condition, &mut |part| {
        if let BoundExpr::Column { relation: of, column, .. } = part
            && *of == relation
        {
            all &= is_distinct(*column)
                && select
                    .targets
                    .get(*column)
                    .is_some_and(|target| is_fixed(select, &target.expr) && is_of_all_windows(&target.expr));
        }
    });
    all
}

/// Returns true if a target's value is known of each row that is read, and is one for all rows of a group.
fn is_fixed(select: &BoundSelect, target: &BoundExpr) -> bool {
    let mut all = !is_volatile(target) && !has_subquery(target);
    walk(target, &mut |part| match part {
        BoundExpr::Group { number, .. } => {
            let in_all = |sets: &Vec<Vec<usize>>| sets.iter().all(|set| set.contains(number));
            all &= select.grouping_sets.as_ref().is_some_and(in_all)
                && select.group_by.get(*number).is_some_and(|key| !is_volatile(key) && !has_subquery(key));
        }
        BoundExpr::Aggregate { .. } | BoundExpr::Window { .. } | BoundExpr::Grouping(_) => all = false,
        _ => {}
    });
    // A constant does not restrict groups: without rows the whole table's group still exists.
    all && select.grouping_sets.as_ref().is_none_or(|sets| sets.iter().all(|set| !set.is_empty()))
}

fn add(query: &mut BoundQuery, relation: RelationId, condition: &BoundExpr) {
    match &mut query.body {
        QueryBody::Select(select) => {
            let mut condition = condition.clone();
            name_targets(&mut condition, relation, select);
            let filter = select.filter.take().into_iter().chain([condition]);
            select.filter = Some(BoundExpr::And(filter.collect()));
        }
        QueryBody::Set { left, right, .. } => {
            add(left, relation, condition);
            add(right, relation, condition);
        }
        QueryBody::Values(_) => {}
    }
}

/// Replaces the relation's columns by the expressions that compute them, and groups by the grouped expressions.
fn name_targets(expr: &mut BoundExpr, relation: RelationId, select: &BoundSelect) {
    match expr {
        BoundExpr::Column { relation: of, column, .. } if *of == relation => {
            if let Some(target) = select.targets.get(*column) {
                *expr = target.expr.clone();
                name_groups(expr, select);
            }
        }
        _ => children_mut(expr, &mut |child| name_targets(child, relation, select)),
    }
}

fn name_groups(expr: &mut BoundExpr, select: &BoundSelect) {
    match expr {
        BoundExpr::Group { number, .. } => {
            if let Some(key) = select.group_by.get(*number) {
                *expr = key.clone();
            }
        }
        _ => children_mut(expr, &mut |child| name_groups(child, select)),
    }
}
