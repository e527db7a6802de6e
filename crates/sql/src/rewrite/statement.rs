//! Constant folding of whole statements, and the order of their conditions.
//!
//! The rules are PostgreSQL's (`canonicalize_qual`, `order_qual_clauses`): see [`fold`](super::fold).
//!
//! # Invariants
//! - A condition that keeps rows is true of the same rows before and after; that it is false instead of NULL may change.

use std::collections::HashSet;

use crate::bind::tree::walk::{children, walk};
use crate::bind::tree::{
    BoundCte, BoundExpr, BoundFrom, BoundInsert, BoundQuery, BoundRelation, BoundSelect, BoundStatement,
    CteBody, FrameBound, FunctionCall, QueryBody, RelationKind, StatementKind,
};
use crate::error::Result;
use crate::rewrite::fold::{boolean, fold, truth};

/// Folds every expression of a statement.
///
/// # Errors
/// What evaluating its constants reports.
pub(crate) fn fold_statement(statement: &mut BoundStatement) -> Result<()> {
    match &mut statement.kind {
        StatementKind::Query(query) => fold_query(query),
        StatementKind::Insert(insert) => fold_insert(insert),
        StatementKind::Update(update) => {
            fold_ctes(&mut update.ctes)?;
            fold_source(&mut update.relations, &mut update.from)?;
            update.sets.iter_mut().try_for_each(|(_, value)| fold(value))?;
            fold_filter(&mut update.filter)
        }
        StatementKind::Delete(delete) => {
            fold_ctes(&mut delete.ctes)?;
            fold_source(&mut delete.relations, &mut delete.from)?;
            fold_filter(&mut delete.filter)
        }
        StatementKind::Merge(merge) => {
            fold_ctes(&mut merge.ctes)?;
            fold_source(&mut merge.relations, std::slice::from_mut(&mut merge.source))
        }
    }
}

fn fold_insert(insert: &mut BoundInsert) -> Result<()> {
    fold_ctes(&mut insert.ctes)?;
    insert.query.iter_mut().try_for_each(fold_query)?;
    insert.values.iter_mut().try_for_each(fold)
}

pub(super) fn fold_query(query: &mut BoundQuery) -> Result<()> {
    crate::stack::grow(|| {
        fold_ctes(&mut query.ctes)?;
        match &mut query.body {
            QueryBody::Select(select) => fold_select(select)?,
            QueryBody::Set { left, right, .. } => {
                fold_query(left)?;
                fold_query(right)?;
            }
            QueryBody::Values(rows) => rows.iter_mut().flatten().try_for_each(fold)?,
        }
        query.limit.iter_mut().chain(&mut query.offset).try_for_each(fold)
    })
}

fn fold_ctes(ctes: &mut [BoundCte]) -> Result<()> {
    ctes.iter_mut().try_for_each(|cte| match &mut cte.body {
        CteBody::Query(query) => fold_query(query),
        CteBody::Recursive { initial, step, .. } => {
            fold_query(initial)?;
            fold_query(step)
        }
        CteBody::Statement(statement) => fold_statement(statement),
    })
}

fn fold_select(select: &mut BoundSelect) -> Result<()> {
    fold_source(&mut select.relations, &mut select.from)?;
    select.targets.iter_mut().try_for_each(|target| fold(&mut target.expr))?;
    fold_filter(&mut select.filter)?;
    select.group_by.iter_mut().try_for_each(fold)?;
    fold_filter(&mut select.having)?;
    let named = named_aggregates(select);
    for (number, aggregate) in select.aggregates.iter_mut().enumerate() {
        if !named.contains(&number) {
            // What names it was folded away: what it would be given does not matter.
            aggregate.args.iter_mut().for_each(|arg| *arg = BoundExpr::null(arg.ty()));
            continue;
        }
        aggregate.args.iter_mut().try_for_each(fold)?;
        aggregate.order_by.iter_mut().try_for_each(|key| fold(&mut key.expr))?;
        fold_filter(&mut aggregate.filter)?;
    }
    for window in &mut select.windows {
        window.args.iter_mut().chain(&mut window.partition_by).try_for_each(fold)?;
        window.order_by.iter_mut().try_for_each(|key| fold(&mut key.expr))?;
        fold_filter(&mut window.filter)?;
        for bound in [&mut window.frame.start, &mut window.frame.end] {
            if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                fold(offset)?;
            }
        }
    }
    Ok(())
}

/// The aggregates that targets, HAVING and window calls name; those that subqueries name are counted whosever they are.
fn named_aggregates(select: &BoundSelect) -> HashSet<usize> {
    let mut named = HashSet::new();
    let mut note = |part: &BoundExpr| {
        if let BoundExpr::Aggregate { number, .. } = part {
            named.insert(*number);
        }
    };
    if select.aggregates.is_empty() {
        return named;
    }
    select.targets.iter().for_each(|target| walk(&target.expr, &mut note));
    select.having.iter().for_each(|having| walk(having, &mut note));
    for window in &select.windows {
        window
            .args
            .iter()
            .chain(&window.filter)
            .chain(&window.partition_by)
            .for_each(|expr| walk(expr, &mut note));
        window.order_by.iter().for_each(|key| walk(&key.expr, &mut note));
    }
    named
}

fn fold_source(relations: &mut [BoundRelation], from: &mut [BoundFrom]) -> Result<()> {
    for relation in relations {
        match &mut relation.kind {
            RelationKind::Table(_) | RelationKind::Cte(_) => {}
            RelationKind::Query(query) => fold_query(query)?,
            RelationKind::Function { calls, .. } => calls.iter_mut().try_for_each(|call| match call {
                FunctionCall::Set { args, .. } => args.iter_mut().try_for_each(fold),
                FunctionCall::Scalar(expr) => fold(expr),
            })?,
        }
    }
    from.iter_mut().try_for_each(fold_from)
}

fn fold_from(from: &mut BoundFrom) -> Result<()> {
    let BoundFrom::Join { left, right, on, .. } = from else { return Ok(()) };
    crate::stack::grow(|| {
        fold_from(left)?;
        fold_from(right)?;
        match on {
            Some(on) => {
                fold(on)?;
                simplify_condition(on);
                Ok(())
            }
            None => Ok(()),
        }
    })
}

/// Folds a condition that keeps the rows for which it is true; one that always is goes.
fn fold_filter(filter: &mut Option<BoundExpr>) -> Result<()> {
    let Some(condition) = filter else { return Ok(()) };
    fold(condition)?;
    simplify_condition(condition);
    if let BoundExpr::And(parts) = condition {
        // The cheap ones first, as PostgreSQL does it: they may spare the others.
        parts.sort_by_cached_key(cost);
    }
    if truth(condition) == Some(Some(true)) {
        *filter = None;
    }
    Ok(())
}

/// How many functions and operators evaluating an expression may call; a subquery counts for many.
fn cost(expr: &BoundExpr) -> usize {
    let mut sum = match expr {
        BoundExpr::Call { .. } | BoundExpr::Operator { .. } | BoundExpr::NullIf { .. } => 2,
        BoundExpr::IsDistinct { .. } | BoundExpr::MinMax { .. } => 2,
        BoundExpr::Cast { .. } => 2,
        // Half of a list is looked at on average.
        BoundExpr::InList { list, .. } => list.len(),
        BoundExpr::Quantified { .. } => 10,
        BoundExpr::Subquery(_) => 1000,
        _ => 0,
    };
    crate::stack::grow(|| children(expr, &mut |child| sum += cost(child)));
    sum
}

/// In a condition NULL is as good as false.
fn simplify_condition(condition: &mut BoundExpr) {
    let (parts, is_or) = match condition {
        BoundExpr::And(parts) => (parts, false),
        BoundExpr::Or(parts) => (parts, true),
        other => {
            if truth(other) == Some(None) {
                *other = boolean(false);
            }
            return;
        }
    };
    parts.iter_mut().for_each(simplify_condition);
    if parts.iter().any(|part| truth(part) == Some(Some(is_or))) {
        *condition = boolean(is_or);
        return;
    }
    parts.retain(|part| truth(part).is_none());
    match parts.len() {
        0 => *condition = boolean(!is_or),
        1 => *condition = parts.remove(0),
        _ => {}
    }
}
