//! EXISTS and IN as joins: rows of the left side that have a partner, or none.
//!
//! A subquery whose correlation is in its WHERE is joined by these conditions; `x IN (uncorrelated query)` by its
//! equality. Any other subquery stays an expression, which runs the subquery for each row.
//!
//! # Invariants
//! - `NOT IN` becomes a join only where it is uncorrelated and has one column: the join then knows about NULLs on
//!   either side.

use crate::bind::tree::{
    BoundExpr, BoundQuery, BoundSelect, Distinct, Quantifier, QueryBody, RelationId, Subquery, SubqueryKind,
};
use crate::error::Result;
use crate::functions::Function;
use crate::plan::from::{Item, JoinTree};
use crate::plan::join::{Join, Side, equality};
use crate::plan::layout::{Layout, Stage};
use crate::plan::node::JoinKind;
use crate::plan::planner::{Frame, Planner};
use crate::plan::tree::{references, side_of};
use crate::plan::walk::{is_volatile, relations_of};
use crate::rewrite::substitute::substituted;

/// Number of different values assumed of an expression about which nothing is known.
const DISTINCT_DEFAULT: f64 = 200.0;
/// Minimum share of the rows that is assumed to be left.
const ROWS_SHARE_MIN: f64 = 0.005;

/// A condition that can be a join.
#[derive(Clone)]
pub(crate) struct SemiJoin {
    condition: BoundExpr,
    negated: bool,
}

impl SemiJoin {
    /// The semi-join that a condition is, if it sees items of the query around it.
    pub(crate) fn of(condition: &BoundExpr, is_item: &dyn Fn(RelationId) -> bool) -> Option<SemiJoin> {
        let (subquery, negated) = match condition {
            BoundExpr::Subquery(subquery) => (subquery, false),
            BoundExpr::Not(operand) => match &**operand {
                BoundExpr::Subquery(subquery) => (subquery, true),
                _ => return None,
            },
            _ => return None,
        };
        let sees_items = relations_of(condition).into_iter().any(is_item);
        let is_joinable = match &subquery.kind {
            SubqueryKind::Exists => plain_select(&subquery.query).is_some() && sees_items,
            SubqueryKind::Quantified { left, operators, quantifier: Quantifier::Any } => {
                let is_equal = |(left, operator): (&BoundExpr, &&'static Function)| {
                    let args = vec![left.clone(), BoundExpr::null(operator.arguments[1])];
                    let equal = BoundExpr::Operator { operator, args, ty: crate::types::Type::Bool };
                    equality(&equal).is_some()
                };
                left.iter().zip(operators).all(is_equal) && (!negated || left.len() == 1) && sees_items
            }
            _ => false,
        };
        is_joinable.then(|| SemiJoin { condition: condition.clone(), negated })
    }

    /// The relations that it names, those of the subquery among them.
    pub(crate) fn relations(&self) -> Vec<RelationId> {
        relations_of(&self.condition)
    }

    /// Returns true if rows without a partner are kept.
    pub(crate) fn negated(&self) -> bool {
        self.negated
    }

    pub(crate) fn subquery(&self) -> Option<&Subquery> {
        match &self.condition {
            BoundExpr::Subquery(subquery) => Some(subquery),
            BoundExpr::Not(operand) => match &**operand {
                BoundExpr::Subquery(subquery) => Some(subquery),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The SELECT of a query whose rows are those of its FROM and WHERE.
fn plain_select(query: &BoundQuery) -> Option<&BoundSelect> {
    let QueryBody::Select(select) = &query.body else { return None };
    let is_plain = query.ctes.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && select.grouping_sets.is_none()
        && select.having.is_none()
        && select.windows.is_empty()
        && !matches!(select.distinct, Distinct::On(_))
        && !select.set_returning
        && !select.from.is_empty()
        && !select.targets.iter().any(|target| is_volatile(&target.expr));
    is_plain.then_some(&**select)
}

/// Returns true if both sides of an equality depend on rows: a constant is no key of a hash join, and NULL must not be
/// overlooked.
fn has_keys(condition: &BoundExpr) -> bool {
    equality(condition)
        .is_some_and(|(left, right)| !relations_of(left).is_empty() && !relations_of(right).is_empty())
}

impl Planner<'_> {
    /// Keeps the rows of a stage that have a partner, or that have none.
    pub(crate) fn semi_join(&mut self, stage: Stage, semi: SemiJoin) -> Result<Stage> {
        let Some(subquery) = semi.subquery() else { return Ok(stage) };
        let kind = if semi.negated { JoinKind::Anti } else { JoinKind::Semi };
        let is_in = !matches!(subquery.kind, SubqueryKind::Exists);
        let is_seen = |relation: RelationId| stage.layout.has_relation(relation);
        if let Some((side, mut conditions)) = self.decorrelated(&is_seen, subquery)? {
            let is_correlated = !conditions.is_empty();
            if !(is_in && semi.negated && is_correlated) {
                self.equalities_of(subquery, &mut conditions);
                let is_key = |condition: &BoundExpr| {
                    has_keys(condition)
                        && !equality(condition).is_some_and(|(_, value)| self.sees_in(&stage, value))
                };
                if is_in && semi.negated && !conditions.iter().all(is_key) {
                    return self.filter(stage, std::slice::from_ref(&semi.condition));
                }
                let rows = self.rows_with_partner(&stage, side.rows, &conditions, kind);
                let join = Join { kind, conditions, null_aware: is_in && semi.negated, rows };
                return self.attach(stage, side, join);
            }
        }
        let uncorrelated = !self.sees(&is_seen, &subquery.query);
        if let (SubqueryKind::Quantified { left, operators, .. }, true) = (&subquery.kind, uncorrelated) {
            let plan = self.query(&subquery.query)?;
            let relation = self.fresh_relation();
            let layout = Layout::of_relation(relation, 0..plan.width);
            let column = |(column, operator): (usize, &&'static Function)| BoundExpr::Column {
                relation,
                column,
                ty: operator.arguments[1],
            };
            let values = operators.iter().enumerate().map(column).collect();
            let mut conditions = Vec::new();
            self.equalities(left, operators, values, &mut conditions);
            if semi.negated && !conditions.iter().all(has_keys) {
                return self.filter(stage, std::slice::from_ref(&semi.condition));
            }
            let rows = self.rows_with_partner(&stage, plan.rows, &conditions, kind);
            let side = side_of(Stage { plan, layout, order: Vec::new() }, Frame::default());
            return self.attach(stage, side, Join { kind, conditions, null_aware: semi.negated, rows });
        }
        self.filter(stage, std::slice::from_ref(&semi.condition))
    }

    /// Estimates the number of a stage's rows that have a partner among `others` rows, or that have none: as many
    /// different keys as there are others have one.
    fn rows_with_partner(&self, stage: &Stage, others: f64, conditions: &[BoundExpr], kind: JoinKind) -> f64 {
        let (mut keys, mut share) = (1.0, 1.0);
        for condition in conditions {
            match equality(condition) {
                Some((left, right)) => {
                    let mine = if self.sees_in(stage, left) { left } else { right };
                    keys *= self.selectivity.distinct_of(mine).unwrap_or(DISTINCT_DEFAULT);
                }
                None => share *= 0.5,
            }
        }
        share *= (others / keys.min(stage.plan.rows).max(1.0)).min(1.0);
        let share = if kind == JoinKind::Anti { 1.0 - share } else { share };
        stage.plan.rows * share.max(ROWS_SHARE_MIN)
    }

    /// Adds the equalities of IN with the values of a subquery that is a plain SELECT.
    pub(crate) fn equalities_of(&self, subquery: &Subquery, into: &mut Vec<BoundExpr>) {
        let SubqueryKind::Quantified { left, operators, .. } = &subquery.kind else { return };
        let Some(select) = plain_select(&subquery.query) else { return };
        let values = select.targets.iter().map(|target| substituted(&target.expr, &self.merged));
        self.equalities(left, operators, values.collect(), into);
    }

    pub(crate) fn equalities(
        &self,
        left: &[BoundExpr],
        operators: &[&'static Function],
        values: Vec<BoundExpr>,
        into: &mut Vec<BoundExpr>,
    ) {
        for ((left, operator), value) in left.iter().zip(operators).zip(values) {
            let args = vec![substituted(left, &self.merged), value];
            into.push(BoundExpr::Operator { operator, args, ty: crate::types::Type::Bool });
        }
    }

    /// Returns true if a query names columns of relations.
    pub(crate) fn sees(&self, is_seen: &dyn Fn(RelationId) -> bool, query: &BoundQuery) -> bool {
        let mut relations = Vec::new();
        crate::plan::walk::walk_query(query, &mut |expr| {
            if let BoundExpr::Column { relation, .. } = expr {
                relations.push(*relation);
            }
        });
        self.all_relations(relations).into_iter().any(is_seen)
    }

    /// Returns true if a value of a subquery names columns of a stage.
    fn sees_in(&self, stage: &Stage, value: &BoundExpr) -> bool {
        self.all_relations(relations_of(value)).iter().any(|relation| stage.layout.has_relation(*relation))
    }

    /// Splits a subquery into the side that it joins on its own and the conditions in which it sees the rows around it;
    /// `None` if it sees them elsewhere, too. `is_seen`: the relations of these rows.
    pub(crate) fn decorrelated(
        &mut self,
        is_seen: &dyn Fn(RelationId) -> bool,
        subquery: &Subquery,
    ) -> Result<Option<(Side, Vec<BoundExpr>)>> {
        let Some(select) = plain_select(&subquery.query) else { return Ok(None) };
        let mut tree = self.join_tree(select, &select.from, true);
        let sees = |planner: &Self, relations: Vec<RelationId>| {
            planner.all_relations(relations).into_iter().any(is_seen)
        };
        if tree.items.iter().any(|item| sees(self, references(item))) {
            return Ok(None);
        }
        let (correlated, own): (Vec<BoundExpr>, Vec<BoundExpr>) =
            tree.conditions.drain(..).partition(|condition| sees(self, relations_of(condition)));
        if correlated.iter().any(is_volatile) {
            return Ok(None);
        }
        let has_table = matches!(&tree.items[..], [Item::Relation(_)]);
        let plain = own.iter().all(|own| SemiJoin::of(own, &|_| true).is_none() && !is_volatile(own));
        let side = match tree.items.pop() {
            Some(item) if has_table && plain => self.side(item, own, false, &[])?,
            item => {
                tree.items.extend(item);
                let tree = JoinTree { items: tree.items, conditions: own };
                side_of(self.join(tree, &[])?, Frame::default())
            }
        };
        Ok(Some((side, correlated)))
    }
}
