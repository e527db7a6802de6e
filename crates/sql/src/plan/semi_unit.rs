//! IN and EXISTS as items to join: the different keys of a subquery, with which rows of a table are looked up.
//!
//! A semi-join reads all rows that it keeps some of. `DELETE FROM orders WHERE id IN (SELECT order_id FROM returned)` needs
//! only those that a few keys name: the subquery's keys without duplicates are an item like any other, and the order of
//! joins begins with it.
//!
//! Source: PostgreSQL's `create_unique_path` (pathnode.c).
//!
//! # Invariants
//! - The rows of such an item differ in their keys, so that a row has at most one partner.

use crate::bind::tree::{BoundExpr, RelationId, SubqueryKind};
use crate::error::Result;
use crate::plan::join::{Base, Side, equality, lookup_cost};
use crate::plan::join_order::{ItemSet, Unit};
use crate::plan::layout::{Layout, Stage};
use crate::plan::node::Node;
use crate::plan::path;
use crate::plan::planner::{Frame, Planner};
use crate::plan::semi_join::SemiJoin;
use crate::plan::tree::side_of;
use crate::plan::walk::relations_of;

/// Minimum cost of an item for which it is tried.
const READ_COST_MIN: f64 = 200.0;
/// The factor by which looking up must be estimated to be cheaper than reading.
const LOOKUP_FACTOR: f64 = 2.0;
/// Maximum nesting of such attempts: each plans its subquery once more.
const ATTEMPTS_MAX: usize = 2;

/// Subqueries as items, and the equalities that join them.
#[derive(Default)]
pub(crate) struct SemiUnits {
    pub(crate) units: Vec<Unit>,
    pub(crate) conditions: Vec<BoundExpr>,
}

impl Planner<'_> {
    /// Makes items of those subqueries whose keys find an item's rows with less work than reading them all. `mine`: the
    /// item's relations; `relations`: those of all items.
    pub(crate) fn semi_units(
        &mut self,
        side: &Side,
        (mine, relations): (&[RelationId], &[Vec<RelationId>]),
        semi: &mut Vec<SemiJoin>,
        found: &mut SemiUnits,
    ) -> Result<()> {
        if !matches!(side.base, Base::Table { .. })
            || side.cost < READ_COST_MIN
            || self.attempts >= ATTEMPTS_MAX
        {
            return Ok(());
        }
        let mut at = 0;
        while at < semi.len() {
            let named = self.all_relations(semi[at].relations());
            let is_item = |relation: &&RelationId| relations.iter().any(|item| item.contains(relation));
            let is_own = named.iter().filter(is_item).all(|relation| mine.contains(relation));
            self.attempts += 1;
            let keys = if is_own { self.distinct_keys(&semi[at], mine) } else { Ok(None) };
            self.attempts -= 1;
            match keys? {
                Some((stage, conditions)) if self.finds_rows(side, &stage, &conditions) => {
                    let relations = stage.layout.relations();
                    let none = ItemSet::new(1);
                    found.units.push(Unit::new(side_of(stage, Frame::default()), relations, none));
                    found.conditions.extend(conditions);
                    semi.remove(at);
                }
                _ => at += 1,
            }
        }
        Ok(())
    }

    /// The different keys of a subquery, and the equalities with them; `None` if it is joined by other conditions, too.
    fn distinct_keys(
        &mut self,
        semi: &SemiJoin,
        mine: &[RelationId],
    ) -> Result<Option<(Stage, Vec<BoundExpr>)>> {
        let Some(subquery) = semi.subquery().filter(|_| !semi.negated()) else { return Ok(None) };
        let is_mine = |relation: RelationId| mine.contains(&relation);
        let (mut stage, equalities) = match self.decorrelated(&is_mine, subquery)? {
            Some((side, mut conditions)) => {
                self.equalities_of(subquery, &mut conditions);
                (self.side_stage(side)?.0, conditions)
            }
            None => {
                let SubqueryKind::Quantified { left, operators, .. } = &subquery.kind else {
                    return Ok(None);
                };
                if self.sees(&is_mine, &subquery.query) {
                    return Ok(None);
                }
                let plan = self.query(&subquery.query)?;
                let relation = self.fresh_relation();
                let layout = Layout::of_relation(relation, 0..plan.width);
                let types = operators.iter().map(|operator| operator.arguments[1]).enumerate();
                let column = |(column, ty)| BoundExpr::Column { relation, column, ty };
                let mut conditions = Vec::new();
                self.equalities(left, operators, types.map(column).collect(), &mut conditions);
                (Stage { plan, layout, order: Vec::new() }, conditions)
            }
        };
        let relation = self.fresh_relation();
        let (mut keys, mut conditions, mut distinct) = (Vec::new(), Vec::new(), 1.0);
        for mut condition in equalities {
            let Some(at) = self.inner_side(&condition, mine, &stage.layout) else { return Ok(None) };
            let BoundExpr::Operator { args, .. } = &mut condition else { return Ok(None) };
            let column = BoundExpr::Column { relation, column: keys.len(), ty: args[at].ty() };
            let inner = std::mem::replace(&mut args[at], column);
            distinct *= self.selectivity.distinct_of(&inner).unwrap_or(stage.plan.rows).max(1.0);
            keys.push(self.expr(&inner, &stage.layout)?);
            conditions.push(condition);
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let (width, rows, cost) = (keys.len(), stage.plan.rows, stage.plan.cost);
        let project = Node::Project { input: Box::new(stage.plan), expressions: keys };
        let input = self.plan(project, width, rows, cost);
        let slots = (0..width).collect();
        let node = Node::Distinct { input: Box::new(input), slots };
        stage.plan = self.plan(node, width, rows.min(distinct), cost + rows);
        stage.layout = Layout::of_relation(relation, 0..width);
        stage.order.clear();
        Ok(Some((stage, conditions)))
    }

    /// The position of the argument of an equality that the subquery computes, where the other one is the item's alone.
    fn inner_side(&self, condition: &BoundExpr, mine: &[RelationId], layout: &Layout) -> Option<usize> {
        let (left, right) = equality(condition)?;
        let is_inner = |expr: &BoundExpr| {
            let named = self.all_relations(relations_of(expr));
            !named.is_empty() && named.iter().all(|relation| layout.has_relation(*relation))
        };
        let is_outer = |expr: &BoundExpr| {
            let named = self.all_relations(relations_of(expr));
            !named.is_empty() && named.iter().all(|relation| mine.contains(relation))
        };
        [(left, right, 1), (right, left, 0)]
            .into_iter()
            .find_map(|(outer, inner, at)| (is_outer(outer) && is_inner(inner)).then_some(at))
    }

    /// Returns true if keys find an item's rows with less work than reading them.
    fn finds_rows(&mut self, side: &Side, keys: &Stage, conditions: &[BoundExpr]) -> bool {
        let Base::Table { relation, table, statistics } = &side.base else { return false };
        let own = side.own.len();
        let all = side.own.iter().chain(conditions).enumerate();
        let restrictions = self.restrictions(relation, all, own);
        let best = path::best(table, statistics, &restrictions, &|_| true);
        let by_own = path::best(table, statistics, &restrictions, &|restriction| {
            restriction.condition.is_none_or(|at| at < own)
        });
        let cost = keys.plan.cost + lookup_cost(keys.plan.rows, best.cost) * LOOKUP_FACTOR;
        !best.is_full() && best.cost < by_own.cost && cost < side.cost + keys.plan.cost
    }
}
