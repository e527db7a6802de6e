//! Left joins among other joins: the right side is an item of its own, whose rows may be missing.
//!
//! `a LEFT JOIN b ON p(a, b) JOIN c ON q(a, c)` has the rows of `(a JOIN c ON q(a, c)) LEFT JOIN b ON p(a, b)`: the right side
//! can be joined at any time after the items that its ON names, so that a condition on `c` leaves few rows of `a` before
//! `b` is looked up. If the rows without a partner alone are wanted (`WHERE b.key IS NULL`), it is an anti-join, and the
//! right side's columns are NULL.
//!
//! Source: PostgreSQL's optimizer/README, "Valid OUTER JOIN Optimizations", identities 1 and 2; `reduce_outer_joins`
//! (prepjointree.c) for the anti-join.
//!
//! # Invariants
//! - Conditions of WHERE and of inner joins that name the right side are evaluated on joined rows, never in ON.

use std::sync::Arc;

use crate::bind::tree::{BoundExpr, BoundRelation, RelationId, RelationKind};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::from::{Item, JoinTree, Optional, OuterJoin, rejects_missing};
use crate::plan::join::{Join, Side, equality};
use crate::plan::join_order::{ItemSet, Unit};
use crate::plan::layout::{Key, Stage};
use crate::plan::node::JoinKind;
use crate::plan::planner::{Frame, Planner};
use crate::plan::semi_join::SemiJoin;
use crate::plan::tree::{may_change, references, side_of};
use crate::plan::walk::is_volatile;
use crate::types::Value;

/// Minimum share of an anti-join's rows that is assumed to be left.
const ABSENT_SHARE_MIN: f64 = 0.005;

/// How an item is joined whose rows may be missing.
pub(crate) struct OuterUnit {
    pub(crate) on: Vec<BoundExpr>,
    /// Conditions on the joined rows that name no other item.
    after: Vec<BoundExpr>,
    /// The relation that it is, if only rows for which it is missing are wanted.
    absent: Option<Arc<BoundRelation>>,
    /// Expected number of partners of a row.
    partners: f64,
    /// The share of joined rows that meets the conditions.
    share: f64,
    pub(crate) has_keys: bool,
}

impl OuterUnit {
    /// Number of joined rows, for a number of rows to join.
    pub(crate) fn rows(&self, rows: f64) -> f64 {
        self.joined(rows) * self.share
    }

    fn joined(&self, rows: f64) -> f64 {
        match self.absent {
            Some(_) => rows * (1.0 - self.partners).max(ABSENT_SHARE_MIN),
            None => rows * self.partners.max(1.0),
        }
    }
}

impl Planner<'_> {
    /// Puts the two sides of left joins into the list of items around them.
    pub(crate) fn spread(&self, tree: JoinTree) -> JoinTree {
        let JoinTree { items, mut conditions } = tree;
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Outer(join) if self.is_movable(&join) => {
                    let OuterJoin { left, right, on, .. } = *join;
                    let relations = left.relations();
                    let left = self.spread(left);
                    all.extend(left.items);
                    conditions.extend(left.conditions);
                    let optional = Optional { right, on, left: relations, absent: None };
                    all.push(Item::Optional(Box::new(optional)));
                }
                other => all.push(other),
            }
        }
        JoinTree { items: all, conditions }
    }

    fn is_movable(&self, join: &OuterJoin) -> bool {
        let right = self.all_relations(join.right.relations());
        let sees_right = |item: &Item| {
            self.all_relations(references(item)).iter().any(|relation| right.contains(relation))
        };
        !join.full
            && !join.on.iter().chain(&join.left.conditions).any(is_volatile)
            && !join.left.items.iter().any(sees_right)
    }

    /// Notes which optional items must be missing, and removes the conditions that say so.
    pub(crate) fn note_absent(&self, items: &mut [Item], conditions: &mut Vec<BoundExpr>) {
        for item in items {
            let Item::Optional(optional) = item else { continue };
            let [Item::Relation(relation)] = &optional.right.items[..] else { continue };
            let relation = relation.clone();
            let before = conditions.len();
            if !relation.lateral {
                conditions.retain(|condition| !says_absent(condition, &relation, optional));
            }
            optional.absent = (conditions.len() < before).then_some(relation);
        }
    }

    /// An item whose rows may be missing. `after`: conditions on the joined rows that name no other item.
    pub(crate) fn optional_unit(
        &mut self,
        optional: Optional,
        relations: &[Vec<RelationId>],
        requires: ItemSet,
        after: Vec<BoundExpr>,
    ) -> Result<Unit> {
        let Optional { right, on, absent, .. } = optional;
        let mine = right.relations();
        let seen: Vec<RelationId> = right.items.iter().flat_map(references).collect();
        let is_other = |relation: &RelationId| {
            !mine.contains(relation) && relations.iter().any(|item| item.contains(relation))
        };
        let is_lateral = self.all_relations(seen).iter().any(is_other);
        let side = self.right_side(right, is_lateral)?;
        let partners = side.rows * self.selectivity.of_all(&on);
        self.selectivity.note_missing(mine.clone());
        let share = self.selectivity.of_all(&after);
        let has_keys = on.iter().any(|condition| equality(condition).is_some());
        let outer = OuterUnit { on, after, absent, partners, share, has_keys };
        let mut unit = Unit::new(side, mine, requires);
        unit.outer = Some(outer);
        Ok(unit)
    }

    /// The right side of an outer join. `is_lateral`: it sees other items.
    fn right_side(&mut self, right: JoinTree, is_lateral: bool) -> Result<Side> {
        let is_plain =
            |condition: &BoundExpr| SemiJoin::of(condition, &|_| true).is_none() && !is_volatile(condition);
        let JoinTree { mut items, conditions } = right;
        if items.len() == 1
            && conditions.iter().all(is_plain)
            && let Some(item) = items.pop()
        {
            return self.side(item, conditions, is_lateral, &[]);
        }
        let right = JoinTree { items, conditions };
        if !is_lateral {
            return Ok(side_of(self.join(right, &[])?, Frame::default()));
        }
        let changes = may_change(&right.items, &right.conditions);
        let (stage, mut frame) = self.framed(|planner| planner.join(right, &[]))?;
        frame.changes |= changes;
        Ok(side_of(stage, frame))
    }

    /// Joins an item whose rows may be missing. `ready`: further conditions on the joined rows.
    pub(crate) fn attach_optional(
        &mut self,
        left: Stage,
        side: Side,
        outer: OuterUnit,
        ready: Vec<BoundExpr>,
    ) -> Result<Stage> {
        let kind = if outer.absent.is_some() { JoinKind::Anti } else { JoinKind::Left };
        let rows = outer.joined(left.plan.rows);
        let OuterUnit { on, mut after, absent, .. } = outer;
        let mut stage = self.attach(left, side, Join { kind, conditions: on, null_aware: false, rows })?;
        if let Some(relation) = absent {
            self.add_missing(&mut stage, &relation);
        }
        after.extend(ready);
        self.filter(stage, &after)
    }

    /// Adds the columns of a relation whose row is missing.
    fn add_missing(&mut self, stage: &mut Stage, relation: &BoundRelation) {
        let columns = match &relation.kind {
            RelationKind::Table(_) => self.columns_of(relation),
            _ => (0..relation.columns.len()).collect(),
        };
        if columns.is_empty() {
            return;
        }
        let missing = vec![Expr::Constant(Value::Null); columns.len()];
        let width = stage.plan.width;
        self.add_slots(stage, missing);
        for (at, column) in columns.into_iter().enumerate() {
            stage.layout.set(Key::Column(relation.id, column), width + at);
        }
    }

    /// A full join, or a left join whose conditions must be evaluated where they were written.
    pub(crate) fn outer_join(&mut self, join: OuterJoin) -> Result<Stage> {
        let OuterJoin { full, left, right, on } = join;
        let (left_relations, right_relations) = (left.relations(), right.relations());
        let references: Vec<RelationId> = right.items.iter().flat_map(references).collect();
        let is_lateral =
            self.all_relations(references).iter().any(|relation| left_relations.contains(relation));
        let left = self.join(left, &[])?;
        let side = self.right_side(right, is_lateral)?;
        let share = self.selectivity.of_all(&on);
        self.selectivity.note_missing(right_relations);
        if full {
            self.selectivity.note_missing(left_relations);
        }
        let rows = left.plan.rows * (side.rows * share).max(1.0);
        let kind = if full { JoinKind::Full } else { JoinKind::Left };
        self.attach(left, side, Join { kind, conditions: on, null_aware: false, rows })
    }
}

/// Returns true if a condition is true only of rows for which an optional relation is missing: it wants NULL where the
/// relation's own rows have none, or where ON is not true of NULL.
fn says_absent(condition: &BoundExpr, relation: &BoundRelation, optional: &Optional) -> bool {
    let BoundExpr::IsNull { operand, negated: false } = condition else { return false };
    let BoundExpr::Column { relation: of, column, .. } = **operand else { return false };
    if of != relation.id {
        return false;
    }
    let is_column = |other: RelationId, number: usize| (other, number) == (of, column);
    let is_required = match &relation.kind {
        RelationKind::Table(table) => {
            table.key.contains(&column) || table.columns.get(column).is_some_and(|column| column.not_null)
        }
        _ => false,
    };
    let mut on = optional.on.iter().chain(&optional.right.conditions);
    is_required || on.any(|on| rejects_missing(on, &is_column))
}
