//! Walks over bound expressions and queries.
//!
//! # Invariants
//! - Every place of a bound tree that holds an expression is visited, in subqueries too, so that no column is missed.

use crate::bind::tree::{
    BoundAggregate, BoundCte, BoundExpr, BoundFrom, BoundMerge, BoundQuery, BoundRelation, BoundSelect,
    BoundStatement, BoundTarget, BoundWindow, ConflictAction, CteBody, FrameBound, FunctionCall, MergeAction,
    OnConflict, QueryBody, RelationId, RelationKind, StatementKind, SubqueryKind,
};
use crate::functions::Function;
use crate::types::Type;

/// Calls `visit` for an expression and everything in it, subqueries included.
pub(crate) fn walk<'b>(expr: &'b BoundExpr, visit: &mut dyn FnMut(&'b BoundExpr)) {
    visit(expr);
    children(expr, &mut |child| walk(child, visit));
    if let BoundExpr::Subquery(subquery) = expr {
        walk_query(&subquery.query, visit);
    }
}

/// Calls `visit` for an expression's parts; a subquery's query is not one.
pub(crate) fn children<'b>(expr: &'b BoundExpr, visit: &mut dyn FnMut(&'b BoundExpr)) {
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
        | BoundExpr::Row { fields: args, .. } => args.iter().for_each(visit),
        BoundExpr::Cast { operand, .. }
        | BoundExpr::Not(operand)
        | BoundExpr::IsNull { operand, .. }
        | BoundExpr::IsTruth { operand, .. }
        | BoundExpr::Field { row: operand, .. } => visit(operand),
        BoundExpr::IsDistinct { operands, .. } | BoundExpr::NullIf { operands, .. } => {
            operands.iter().for_each(visit)
        }
        BoundExpr::Case { operand, arms, otherwise, .. } => {
            operand.iter().for_each(|operand| visit(operand));
            arms.iter().for_each(|arm| {
                visit(&arm.when);
                visit(&arm.then);
            });
            visit(otherwise);
        }
        BoundExpr::InList { operand, list, .. } => {
            visit(operand);
            list.iter().for_each(visit);
        }
        BoundExpr::Quantified { operand, array, .. } => {
            visit(operand);
            visit(array);
        }
        BoundExpr::Subscript { array, indexes, .. } => {
            visit(array);
            indexes.iter().for_each(visit);
        }
        BoundExpr::Slice { array, bounds, .. } => {
            visit(array);
            bounds.iter().flat_map(|(lower, upper)| lower.iter().chain(upper)).for_each(visit);
        }
        BoundExpr::Subquery(subquery) => {
            if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                left.iter().for_each(visit);
            }
        }
    }
}

/// Calls `visit` for every expression of a statement but those of statements that write in its WITH.
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

/// Calls `visit` for every expression of a query.
pub(crate) fn walk_query<'b>(query: &'b BoundQuery, visit: &mut dyn FnMut(&'b BoundExpr)) {
    walk_ctes(&query.ctes, visit);
    match &query.body {
        QueryBody::Select(select) => walk_select(select, visit),
        QueryBody::Set { left, right, .. } => {
            walk_query(left, visit);
            walk_query(right, visit);
        }
        QueryBody::Values(rows) => rows.iter().flatten().for_each(|expr| walk(expr, visit)),
    }
    query.limit.iter().chain(&query.offset).for_each(|expr| walk(expr, visit));
}

/// Calls `visit` for every expression of common table expressions that are queries.
pub(crate) fn walk_ctes<'b>(ctes: &'b [BoundCte], visit: &mut dyn FnMut(&'b BoundExpr)) {
    for cte in ctes {
        match &cte.body {
            CteBody::Query(query) => walk_query(query, visit),
            CteBody::Recursive { initial, step, .. } => {
                walk_query(initial, visit);
                walk_query(step, visit);
            }
            // A statement that writes is planned separately.
            CteBody::Statement(_) => {}
        }
    }
}

fn walk_select<'b>(select: &'b BoundSelect, visit: &mut dyn FnMut(&'b BoundExpr)) {
    walk_relations(&select.relations, visit);
    select.from.iter().for_each(|from| walk_from(from, visit));
    select.filter.iter().chain(&select.having).for_each(|expr| walk(expr, visit));
    select.group_by.iter().for_each(|expr| walk(expr, visit));
    select.aggregates.iter().for_each(|aggregate| walk_aggregate(aggregate, visit));
    select.windows.iter().for_each(|window| walk_window(window, visit));
    select.targets.iter().for_each(|target| walk(&target.expr, visit));
}

/// Calls `visit` for every expression of these relations.
pub(crate) fn walk_relations<'b>(relations: &'b [BoundRelation], visit: &mut dyn FnMut(&'b BoundExpr)) {
    for relation in relations {
        match &relation.kind {
            RelationKind::Table(_) | RelationKind::Cte(_) => {}
            RelationKind::Query(query) => walk_query(query, visit),
            RelationKind::Function { calls, .. } => calls.iter().for_each(|call| match call {
                FunctionCall::Set { args, .. } => args.iter().for_each(|arg| walk(arg, visit)),
                FunctionCall::Scalar(expr) => walk(expr, visit),
            }),
        }
    }
}

/// Calls `visit` for every expression of an item of FROM; relations are visited with their query.
pub(crate) fn walk_from<'b>(from: &'b BoundFrom, visit: &mut dyn FnMut(&'b BoundExpr)) {
    if let BoundFrom::Join { left, right, on, .. } = from {
        walk_from(left, visit);
        walk_from(right, visit);
        on.iter().for_each(|on| walk(on, visit));
    }
}

/// Calls `visit` for every expression of an aggregate call.
pub(crate) fn walk_aggregate<'b>(aggregate: &'b BoundAggregate, visit: &mut dyn FnMut(&'b BoundExpr)) {
    aggregate.args.iter().chain(&aggregate.filter).for_each(|expr| walk(expr, visit));
    aggregate.order_by.iter().for_each(|key| walk(&key.expr, visit));
}

fn walk_window<'b>(window: &'b BoundWindow, visit: &mut dyn FnMut(&'b BoundExpr)) {
    window.args.iter().chain(&window.filter).chain(&window.partition_by).for_each(|expr| walk(expr, visit));
    window.order_by.iter().for_each(|key| walk(&key.expr, visit));
    for bound in [&window.frame.start, &window.frame.end] {
        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
            walk(offset, visit);
        }
    }
}

/// The relations that an expression names, subqueries included.
pub(crate) fn relations_of(expr: &BoundExpr) -> Vec<RelationId> {
    let mut relations = Vec::new();
    walk(expr, &mut |part| {
        if let BoundExpr::Column { relation, .. } = part
            && !relations.contains(relation)
        {
            relations.push(*relation);
        }
    });
    relations
}

/// Returns true if an expression names a column of any relation.
pub(crate) fn names_columns(expr: &BoundExpr) -> bool {
    !relations_of(expr).is_empty()
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
        | BoundExpr::Row { fields: args, .. } => args.iter_mut().for_each(visit),
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
        BoundExpr::Slice { array, bounds, .. } => {
            visit(array);
            bounds.iter_mut().flat_map(|(lower, upper)| lower.iter_mut().chain(upper)).for_each(visit);
        }
        BoundExpr::Subquery(subquery) => {
            if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(visit);
            }
        }
    }
}

/// Returns true if evaluating an expression reveals nothing of the values that it sees: it calls nothing but
/// comparisons, none of which can fail. A condition that could tell is not evaluated before those of a view with
/// `security_barrier`.
pub(crate) fn is_leakproof(expr: &BoundExpr) -> bool {
    let mut is_safe = true;
    walk(expr, &mut |part| {
        is_safe &= match part {
            BoundExpr::Constant { .. }
            | BoundExpr::Parameter { .. }
            | BoundExpr::Column { .. }
            | BoundExpr::And(_)
            | BoundExpr::Or(_)
            | BoundExpr::Not(_)
            | BoundExpr::IsNull { .. }
            | BoundExpr::IsTruth { .. } => true,
            BoundExpr::Operator { operator, .. }
            | BoundExpr::IsDistinct { equals: operator, .. }
            | BoundExpr::InList { equals: operator, .. }
            | BoundExpr::Quantified { operator, .. } => is_plain_comparison(operator),
            _ => false,
        };
    });
    is_safe
}

fn is_plain_comparison(operator: &Function) -> bool {
    let is_plain = |ty: &Type| {
        matches!(ty, Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid | Type::Text | Type::Uuid)
            || matches!(ty, Type::Date | Type::Timestamp | Type::Timestamptz)
    };
    matches!(operator.name, "=" | "<>" | "<" | "<=" | ">" | ">=") && operator.arguments.iter().all(is_plain)
}
