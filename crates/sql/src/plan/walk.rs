//! What the planner asks about bound expressions, and the walk over whole statements.

use crate::bind::tree::{
    BoundExpr, BoundMerge, BoundStatement, BoundTarget, ConflictAction, MergeAction, OnConflict,
    StatementKind,
};
use crate::functions::Volatility;

pub(crate) use crate::bind::tree::walk::{
    relations_of, walk, walk_aggregate, walk_ctes, walk_from, walk_query, walk_relations,
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

/// Calls `visit` for every expression of a statement.
pub(crate) fn walk_statement<'b>(statement: &'b BoundStatement, visit: &mut dyn FnMut(&'b BoundExpr)) {
    match &statement.kind {
        StatementKind::Query(query) => walk_query(query, visit),
        StatementKind::Insert(insert) => {
            walk_ctes(&insert.ctes, visit);
            insert.query.iter().for_each(|query| walk_query(query, visit));
            insert.values.iter().for_each(|value| walk(value, visit));
            walk_targets(&insert.returning, visit);
            if let Some(OnConflict { action: ConflictAction::Update { sets, filter, .. }, .. }) =
                &insert.on_conflict
            {
                sets.iter().for_each(|(_, value)| walk(value, visit));
                filter.iter().for_each(|filter| walk(filter, visit));
            }
        }
        StatementKind::Update(update) => {
            walk_ctes(&update.ctes, visit);
            walk_relations(&update.relations, visit);
            update.from.iter().for_each(|from| walk_from(from, visit));
            update.filter.iter().for_each(|filter| walk(filter, visit));
            update.sets.iter().for_each(|(_, value)| walk(value, visit));
            walk_targets(&update.returning, visit);
        }
        StatementKind::Delete(delete) => {
            walk_ctes(&delete.ctes, visit);
            walk_relations(&delete.relations, visit);
            delete.from.iter().for_each(|from| walk_from(from, visit));
            delete.filter.iter().for_each(|filter| walk(filter, visit));
            walk_targets(&delete.returning, visit);
        }
        StatementKind::Merge(merge) => walk_merge(merge, visit),
    }
}

fn walk_merge<'b>(merge: &'b BoundMerge, visit: &mut dyn FnMut(&'b BoundExpr)) {
    walk_ctes(&merge.ctes, visit);
    walk_relations(&merge.relations, visit);
    walk_from(&merge.source, visit);
    walk(&merge.on, visit);
    for arm in &merge.arms {
        arm.condition.iter().for_each(|condition| walk(condition, visit));
        match &arm.action {
            MergeAction::Nothing | MergeAction::Delete => {}
            MergeAction::Update(sets) => sets.iter().for_each(|(_, value)| walk(value, visit)),
            MergeAction::Insert(values) => values.iter().for_each(|value| walk(value, visit)),
        }
    }
}

fn walk_targets<'b>(targets: &'b [BoundTarget], visit: &mut dyn FnMut(&'b BoundExpr)) {
    targets.iter().for_each(|target| walk(&target.expr, visit));
}
