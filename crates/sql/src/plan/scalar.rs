//! Correlated scalar subqueries as joins: `(SELECT sum(x) FROM u WHERE u.k = t.k)` becomes a left join with `u`, grouped by `k`.
//!
//! # Invariants
//! - Only aggregates are joined whose result over no rows is known: NULL, or 0 for `count`.
//! - It is done where running the subquery for each row is expected to cost more.

use crate::bind::tree::{
    BoundExpr, BoundQuery, BoundSelect, Distinct, QueryBody, RelationId, Subquery, SubqueryKind,
};
use crate::error::Result;
use crate::plan::from::JoinTree;
use crate::plan::join::{Join, equality};
use crate::plan::layout::{Layout, Stage};
use crate::plan::node::JoinKind;
use crate::plan::planner::{Frame, Planner};
use crate::plan::tree::{references, side_of};
use crate::plan::walk::{is_volatile, relations_of, walk, walk_aggregate};
use crate::rewrite::substitute::{children_mut, substituted};
use crate::types::{Type, Value};

/// Aggregates whose result over no rows is NULL.
const NULL_OF_NOTHING: &[&str] = &[
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "string_agg",
    "array_agg",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
];

/// Minimum number of rows for which a subquery is joined.
const ROWS_MIN: f64 = 20.0;

/// The SELECT of a scalar subquery that is one aggregation of its rows.
fn aggregation(subquery: &Subquery) -> Option<(&BoundQuery, &BoundSelect)> {
    let SubqueryKind::Scalar { .. } = subquery.kind else { return None };
    let QueryBody::Select(select) = &subquery.query.body else { return None };
    let query = &subquery.query;
    let is_bare = query.ctes.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && select.having.is_none()
        && select.windows.is_empty()
        && select.distinct == Distinct::No
        && !select.set_returning
        && !select.from.is_empty();
    let is_whole = matches!(select.grouping_sets.as_deref(), Some([set]) if set.is_empty())
        && select.group_by.is_empty();
    let is_known = |name: &str| name == "count" || NULL_OF_NOTHING.contains(&name);
    let aggregates = !select.aggregates.is_empty()
        && select.aggregates.iter().all(|aggregate| is_known(aggregate.function.name));
    (is_bare && is_whole && aggregates).then_some((query, &**select))
}

/// Returns true if an expression has a subquery in it that could be joined.
fn has_aggregation(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| {
        if let BoundExpr::Subquery(subquery) = part {
            found |= aggregation(subquery).is_some();
        }
    });
    found
}

impl Planner<'_> {
    /// Returns true if an expression has a subquery in it that sees items and could be joined.
    pub(crate) fn has_correlated_aggregation(
        &self,
        expr: &BoundExpr,
        is_item: &dyn Fn(&RelationId) -> bool,
    ) -> bool {
        let mut found = false;
        walk(expr, &mut |part| {
            if let BoundExpr::Subquery(subquery) = part {
                found |= aggregation(subquery).is_some()
                    && self.all_relations(relations_of(part)).iter().any(is_item);
            }
        });
        found
    }

    /// Joins a stage with the scalar subqueries of expressions, which then name the joined columns.
    pub(crate) fn join_scalars(&mut self, mut stage: Stage, exprs: &mut [BoundExpr]) -> Result<Stage> {
        for expr in exprs {
            if stage.plan.rows >= ROWS_MIN && has_aggregation(expr) {
                stage = self.join_scalar(stage, expr)?;
            }
        }
        Ok(stage)
    }

    fn join_scalar(&mut self, stage: Stage, expr: &mut BoundExpr) -> Result<Stage> {
        if let BoundExpr::Subquery(subquery) = expr {
            let Some((mut group, conditions, value)) = self.grouped(&stage, subquery)? else {
                return Ok(stage);
            };
            let rows = stage.plan.rows;
            group.plan.rows = group.plan.rows.max(1.0);
            let join = Join { kind: JoinKind::Left, conditions, null_aware: false, rows };
            *expr = value;
            return self.attach(stage, side_of(group, Frame::default()), join);
        }
        let (mut stage, mut failure) = (Some(stage), None);
        children_mut(expr, &mut |child| {
            if let Some(before) = stage.take() {
                match self.join_scalar(before, child) {
                    Ok(after) => stage = Some(after),
                    Err(error) => failure = Some(error),
                }
            }
        });
        match (stage, failure) {
            (Some(stage), None) => Ok(stage),
            (_, failure) => Err(failure.unwrap_or_else(|| crate::plan::query::unexpected("a subquery"))),
        }
    }

    /// A subquery's rows grouped by what correlates it, the conditions of the join, and the subquery's value.
    fn grouped(
        &mut self,
        stage: &Stage,
        subquery: &Subquery,
    ) -> Result<Option<(Stage, Vec<BoundExpr>, BoundExpr)>> {
        let Some((query, select)) = aggregation(subquery) else { return Ok(None) };
        let tree = self.join_tree(select, &select.from, true);
        let Some(correlation) = self.correlation(stage, select, &tree) else { return Ok(None) };
        let by_row = self.framed(|planner| planner.query(query))?.0.cost * stage.plan.rows;
        let own: Vec<BoundExpr> = tree
            .conditions
            .into_iter()
            .enumerate()
            .filter(|(at, _)| !correlation.used.contains(at))
            .map(|(_, own)| own)
            .collect();
        let inner = self.join(JoinTree { items: tree.items, conditions: own }, &[])?;
        let keys = correlation.inner.len();
        let grouped = BoundSelect {
            group_by: correlation.inner,
            grouping_sets: Some(vec![(0..keys).collect()]),
            ..select.clone()
        };
        let around = self.grouping_sets.take();
        let group = self.group(query.id, &grouped, inner);
        self.grouping_sets = around;
        let group = group?;
        if group.plan.cost + stage.plan.rows >= by_row {
            return Ok(None);
        }
        let relation = self.fresh_relation();
        let column = |column: usize, ty: Type| BoundExpr::Column { relation, column, ty };
        let conditions = correlation.outer.into_iter().enumerate().map(|(at, (operator, outer))| {
            let args = vec![outer, column(at, grouped.group_by[at].ty())];
            BoundExpr::Operator { operator, args, ty: Type::Bool }
        });
        let conditions = conditions.collect();
        let mut value = substituted(&select.targets[0].expr, &self.merged);
        self.name_aggregates(&mut value, query.id, relation, keys, &grouped);
        let layout = Layout::of_relation(relation, 0..group.plan.width);
        Ok(Some((Stage { plan: group.plan, layout, order: Vec::new() }, conditions, value)))
    }

    /// Replaces a query's aggregates by columns of the joined relation.
    fn name_aggregates(
        &self,
        expr: &mut BoundExpr,
        query: RelationId,
        relation: RelationId,
        keys: usize,
        select: &BoundSelect,
    ) {
        if let BoundExpr::Aggregate { query: of, number, ty } = expr {
            if *of == query {
                let (number, ty) = (*number, *ty);
                let column = BoundExpr::Column { relation, column: keys + number, ty };
                *expr = match select.aggregates[number].function.name {
                    "count" => BoundExpr::Coalesce {
                        operands: vec![column, BoundExpr::constant(Value::Int8(0), Type::Int8)],
                        ty,
                    },
                    _ => column,
                };
            }
            return;
        }
        children_mut(expr, &mut |child| self.name_aggregates(child, query, relation, keys, select));
    }

    /// Finds the equalities by which a subquery sees a stage's rows; `None` if it sees them outside its WHERE or in
    /// other ways.
    fn correlation(&self, stage: &Stage, select: &BoundSelect, tree: &JoinTree) -> Option<Correlation> {
        let sees = |relations: Vec<RelationId>| {
            self.all_relations(relations).iter().any(|relation| stage.layout.has_relation(*relation))
        };
        let mine = tree.relations();
        let is_inner = |expr: &BoundExpr| {
            let relations = self.all_relations(relations_of(expr));
            !relations.is_empty() && relations.iter().all(|relation| mine.contains(relation))
        };
        let is_outer = |expr: &BoundExpr| {
            let relations = self.all_relations(relations_of(expr));
            !relations.is_empty() && relations.iter().all(|relation| stage.layout.has_relation(*relation))
        };
        let mut inner_sees = tree.items.iter().any(|item| sees(references(item)));
        let mut note = |expr: &BoundExpr| {
            inner_sees |= matches!(expr, BoundExpr::Column { relation, .. } if sees(vec![*relation]));
        };
        select.aggregates.iter().for_each(|aggregate| walk_aggregate(aggregate, &mut |expr| note(expr)));
        walk(&select.targets.first()?.expr, &mut |expr| note(expr));
        if inner_sees {
            return None;
        }
        let mut correlation = Correlation { used: Vec::new(), inner: Vec::new(), outer: Vec::new() };
        for (at, condition) in tree.conditions.iter().enumerate() {
            if !sees(relations_of(condition)) {
                continue;
            }
            let BoundExpr::Operator { operator, .. } = condition else { return None };
            let (left, right) = equality(condition).filter(|_| !is_volatile(condition))?;
            let (inner, outer) = match (is_inner(left) && is_outer(right), is_inner(right) && is_outer(left))
            {
                (true, _) => (left, right),
                (_, true) => (right, left),
                _ => return None,
            };
            correlation.used.push(at);
            correlation.inner.push(inner.clone());
            correlation.outer.push((operator, outer.clone()));
        }
        (!correlation.used.is_empty()).then_some(correlation)
    }
}

/// The equalities by which a subquery is correlated.
struct Correlation {
    /// Indexes of those conditions.
    used: Vec<usize>,
    inner: Vec<BoundExpr>,
    outer: Vec<(&'static crate::functions::Function, BoundExpr)>,
}
