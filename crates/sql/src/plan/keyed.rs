//! Correlated subqueries whose answers are computed for all rows at once, and found by the values that correlate them.
//!
//! `(SELECT u.x FROM u WHERE u.k = t.k AND …)` sees the row around it in equalities only. Without them it is a query that is
//! run once, `SELECT u.x, u.k FROM u WHERE …`, and its rows by their keys `u.k` are the answers for every value of `t.k`. Unlike
//! a join this needs no place in FROM: it does for EXISTS, IN, ANY, ALL, arrays and single values, under OR and CASE and in the
//! select list.
//!
//! # Invariants
//! - The query without its equalities sees nothing of the row around it, and nothing in it is volatile.
//! - A key that no row has gets the answer of the subquery as it was written, which is the same for all such keys.

use crate::bind::tree::walk::walk;
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundQuery, BoundSelect, BoundTarget, Distinct, QueryBody, RelationId, Subquery,
    SubqueryKind,
};
use crate::error::Result;
use crate::plan::expression::Keyed;
use crate::plan::join::equality;
use crate::plan::layout::Layout;
use crate::plan::node::Plan;
use crate::plan::planner::Planner;
use crate::plan::prune::prune;
use crate::plan::walk::{conjuncts, has_subquery, relations_of};
use crate::types::Value;

/// Within how many subqueries others get a second plan: each doubles the plans of those in it.
const ALTERNATIVES_MAX: usize = 3;
/// Cost of starting and ending a run of a subquery's plan, in rows examined.
const RUN_COST: f64 = 20.0;
/// Cost of storing a row among the answers.
const ANSWER_COST: f64 = 2.0;

/// A subquery without the equalities by which it is correlated.
struct Uncorrelated {
    /// Its result's columns, then the keys.
    query: BoundQuery,
    /// The expressions over the row around it that the keys are equal to.
    outer: Vec<BoundExpr>,
    /// The maximum number of rows of each key that count.
    limit: Option<usize>,
}

impl Planner<'_> {
    /// The plan of all answers of a subquery, which is planned `by_row` already; none if it sees the row around it elsewhere than
    /// in equalities.
    pub(crate) fn keyed(
        &mut self,
        subquery: &Subquery,
        by_row: &Plan,
        layout: &Layout,
    ) -> Result<Option<Keyed>> {
        if self.alternatives > ALTERNATIVES_MAX {
            return Ok(None);
        }
        let Some(Uncorrelated { query, outer, limit }) = uncorrelated(subquery) else { return Ok(None) };
        let (mut plan, frame) = self.framed(|planner| planner.query(&query))?;
        if !frame.outers.is_empty() || frame.changes {
            return Ok(None);
        }
        prune(&mut plan);
        let keys = self.exprs(&outer, layout)?;
        let cost = plan.cost + plan.rows * ANSWER_COST;
        let runs_before = (cost / (by_row.cost + RUN_COST)).clamp(0.0, 1e9) as usize;
        Ok(Some(Keyed { plan, keys, limit, runs_before }))
    }
}

/// Removes from a subquery the equalities that correlate it, if its rows can be told apart by keys.
fn uncorrelated(subquery: &Subquery) -> Option<Uncorrelated> {
    let QueryBody::Select(select) = &subquery.query.body else { return None };
    let limit = limit_of(&subquery.query)?;
    if !has_rows_by_key(&subquery.query, select) {
        return None;
    }
    let own: Vec<RelationId> = select.relations.iter().map(|relation| relation.id).collect();
    let (mut conditions, mut inner, mut outer) = (Vec::new(), Vec::new(), Vec::new());
    conjuncts(select.filter.as_ref()?, &mut conditions);
    conditions.retain(|condition| match correlation(condition, &own) {
        Some((of_inner, of_outer)) => {
            inner.push(of_inner.clone());
            outer.push(of_outer.clone());
            false
        }
        None => true,
    });
    if inner.is_empty() {
        return None;
    }
    let mut query = subquery.query.clone();
    let QueryBody::Select(select) = &mut query.body else { return None };
    select.filter = match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(BoundExpr::And(conditions)),
    };
    query.limit = None;
    let is_ordered = limit.is_some() || matches!(subquery.kind, SubqueryKind::Array { .. });
    if !is_ordered {
        query.order_by.clear();
    }
    add_keys(&mut query, inner);
    Some(Uncorrelated { query, outer, limit })
}

/// The LIMIT of a query, if there is none or a known one, and nothing is skipped.
fn limit_of(query: &BoundQuery) -> Option<Option<usize>> {
    match &query.limit {
        _ if query.offset.is_some() || query.with_ties => None,
        None => Some(None),
        Some(BoundExpr::Constant { value: Value::Int8(count), .. }) if *count > 0 => {
            Some(Some(usize::try_from(*count).ok()?))
        }
        Some(_) => None,
    }
}

/// Returns true if each row of a query is derived from rows of one key only, if the key is grouped by.
fn has_rows_by_key(query: &BoundQuery, select: &BoundSelect) -> bool {
    let is_plain = query.ctes.is_empty()
        && query.locks.is_empty()
        && select.windows.is_empty()
        && !matches!(select.distinct, Distinct::On(_))
        && !select.set_returning
        && !select.from.is_empty();
    // Without groups there is a row for each key, also where HAVING leaves none: a missing key would then prove
    // nothing.
    let sets = select.grouping_sets.iter().flatten();
    let has_whole = sets.clone().any(Vec::is_empty);
    is_plain && !(has_whole && (select.having.is_some() || query.limit.is_some()))
}

/// The sides of an equality between an expression over a subquery's own rows and one over the row around it.
fn correlation<'c>(condition: &'c BoundExpr, own: &[RelationId]) -> Option<(&'c BoundExpr, &'c BoundExpr)> {
    let (left, right) = equality(condition)?;
    if has_subquery(condition) {
        return None;
    }
    let is_inner = |expr: &BoundExpr| {
        let relations = relations_of(expr);
        !relations.is_empty()
            && relations.iter().all(|relation| own.contains(relation))
            && !names_groups(expr)
    };
    let is_outer = |expr: &BoundExpr| {
        let relations = relations_of(expr);
        let is_around = !relations.is_empty() || names_groups(expr);
        is_around && !relations.iter().any(|relation| own.contains(relation))
    };
    match (is_inner(left) && is_outer(right), is_inner(right) && is_outer(left)) {
        (true, _) => Some((left, right)),
        (_, true) => Some((right, left)),
        _ => None,
    }
}

/// Returns true if an expression names groups or aggregates: in WHERE, those of a query around.
fn names_groups(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| {
        found |= matches!(part, BoundExpr::Aggregate { .. } | BoundExpr::Group { .. });
    });
    found
}

/// Adds keys to a query's result; where it groups, it groups by them, too.
fn add_keys(query: &mut BoundQuery, keys: Vec<BoundExpr>) {
    let QueryBody::Select(select) = &mut query.body else { return };
    let (width, count) = (query.columns.len(), keys.len());
    let column = |key: &BoundExpr| BoundColumn {
        name: "key".to_string(),
        ty: key.ty(),
        modifier: Default::default(),
        source: None,
    };
    query.columns.extend(keys.iter().map(column));
    let mut targets = keys;
    if let Some(sets) = &mut select.grouping_sets {
        let first = select.group_by.len();
        let group = |(at, key): (usize, &BoundExpr)| BoundExpr::Group { number: first + at, ty: key.ty() };
        let groups = targets.iter().enumerate().map(group).collect();
        select.group_by.append(&mut targets);
        targets = groups;
        sets.iter_mut().for_each(|set| set.extend(first..first + count));
    }
    let target = |expr| BoundTarget { expr, name: "key".to_string() };
    select.targets.splice(width..width, targets.into_iter().map(target));
    for sort in &mut query.order_by {
        sort.target += if sort.target >= width { count } else { 0 };
    }
}
