//! Joins: the method by which two sides are joined.
//!
//! A table can be looked up by the left side's values; both sides can be hashed by equal keys; otherwise each row is
//! compared with each. The cheapest possible method is chosen.
//!
//! # Invariants
//! - A side that sees the other side's rows (LATERAL) is planned in a frame of its own and run for each row.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bind::tree::{BoundExpr, BoundRelation};
use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::functions::Volatility;
use crate::plan::explain::inputs;
use crate::plan::expression::{Comparison, Expr};
use crate::plan::layout::{Layout, Stage};
use crate::plan::node::{FunctionItem, HashNode, JoinKind, LookupNode, LoopNode, Node, Plan};
use crate::plan::path::{self, Candidate};
use crate::plan::planner::{Frame, Planner};
use crate::plan::statistics::TableStatistics;
use crate::plan::translate::orders_by_value;
use crate::plan::walk::{is_volatile, relations_of};

/// Cost of a row that is put into a hash table, and of one that looks for partners there.
const BUILD_COST: f64 = 1.8;
const PROBE_COST: f64 = 1.0;
/// Number of the left side's rows that are looked up as cheaply as rows are scanned: a statement that looks up few rows
/// keeps a small footprint.
const CHEAP_LOOKUPS: f64 = 1_000.0;
/// Extra cost of each further lookup, and of each row that it finds: that row is read at its own address, not with its
/// neighbors.
const LOOKUP_COST: f64 = 7.0;
/// Maximum cost of finding the first row of a lookup.
const FIRST_ROW_COST: f64 = 6.0;
/// Maximum share of the left side's rows with a partner at which the scan beneath looks for the partner itself.
const DROPPED_SHARE_MAX: f64 = 0.5;
/// Cost of a pair of rows in a nested loop.
const PAIR_COST: f64 = 0.4;
/// Minimum cost of a right side that sees the left side's row for its rows to be kept for further rows with the same
/// values.
const KEPT_COST_MIN: f64 = 20.0;

/// One side of a join, on its own.
pub(crate) struct Side {
    pub(crate) base: Base,
    /// Conditions on this side alone; those of a [`Base::Stage`] are in it already.
    pub(crate) own: Vec<BoundExpr>,
    pub(crate) rows: f64,
    pub(crate) cost: f64,
}

pub(crate) enum Base {
    Table {
        relation: Arc<BoundRelation>,
        table: Arc<Table>,
        statistics: Arc<TableStatistics>,
    },
    /// A plan, and the values that it sees of the other side.
    Stage(Box<Stage>, Frame),
}

/// An equality whose sides can be hashed: the left side's expression, and the right's.
pub(crate) fn equality(condition: &BoundExpr) -> Option<(&BoundExpr, &BoundExpr)> {
    let BoundExpr::Operator { operator, args, .. } = condition else { return None };
    let [left, right] = &args[..] else { return None };
    let is_int =
        |ty| matches!(ty, crate::types::Type::Int2 | crate::types::Type::Int4 | crate::types::Type::Int8);
    let compares =
        (left.ty() == right.ty() && orders_by_value(left.ty())) || (is_int(left.ty()) && is_int(right.ty()));
    let is_equal = Comparison::of_symbol(operator.name) == Some(Comparison::Equal);
    (is_equal && compares && !is_volatile(condition)).then_some((left, right))
}

/// The two sides of an equality between rows of one layout and rows of another, in this order.
fn key_pair<'c>(
    condition: &'c BoundExpr,
    left: &Layout,
    right: &Layout,
) -> Option<(&'c BoundExpr, &'c BoundExpr)> {
    let (one, other) = equality(condition)?;
    let only = |expr: &BoundExpr, layout: &Layout, not: &Layout| {
        let relations = relations_of(expr);
        let is_here = relations.iter().any(|relation| layout.has_relation(*relation));
        is_here && !relations.iter().any(|relation| not.has_relation(*relation))
    };
    if only(one, left, right) && only(other, right, left) {
        Some((one, other))
    } else if only(one, right, left) && only(other, left, right) {
        Some((other, one))
    } else {
        None
    }
}

/// A join to be planned.
pub(crate) struct Join {
    pub(crate) kind: JoinKind,
    pub(crate) conditions: Vec<BoundExpr>,
    pub(crate) null_aware: bool,
    /// Expected number of rows.
    pub(crate) rows: f64,
}

impl Planner<'_> {
    /// Joins a plan with another side.
    pub(crate) fn attach(&mut self, left: Stage, side: Side, join: Join) -> Result<Stage> {
        if let Base::Table { relation, table, statistics } = &side.base
            && !join.null_aware
            && matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
        {
            let all: Vec<&BoundExpr> = side.own.iter().chain(&join.conditions).collect();
            let restrictions = self.restrictions(relation, all.iter().copied().enumerate(), side.own.len());
            let candidate = path::best(table, statistics, &restrictions, &|_| true);
            let has_keys = join.conditions.iter().any(|condition| equality(condition).is_some());
            let path_cost = match join.kind {
                // The first partner is enough.
                JoinKind::Semi | JoinKind::Anti => candidate.cost.min(FIRST_ROW_COST),
                _ => candidate.cost,
            };
            let lookup_cost = lookup_cost(left.plan.rows, path_cost);
            let other_cost = join_cost(left.plan.rows, &side, has_keys, join.kind == JoinKind::Inner);
            let uses_left = restrictions
                .iter()
                .any(|restriction| restriction.condition.is_some_and(|at| at >= side.own.len()));
            if !candidate.is_full() && uses_left && (self.streams || lookup_cost < other_cost) {
                return self.lookup(left, &side, join, &candidate);
            }
        }
        let (stage, frame) = self.side_stage(side)?;
        if frame.outers.is_empty() {
            let keys = join
                .conditions
                .iter()
                .any(|condition| key_pair(condition, &left.layout, &stage.layout).is_some());
            if keys {
                return self.hash(left, stage, join);
            }
        }
        self.nested_loop(left, stage, frame, join)
    }

    /// A side as a plan of its own.
    pub(crate) fn side_stage(&mut self, side: Side) -> Result<(Stage, Frame)> {
        match side.base {
            Base::Stage(stage, frame) => Ok((*stage, frame)),
            Base::Table { relation, table, statistics } => {
                Ok((self.scan(&relation, &table, &statistics, side.own, &[])?, Frame::default()))
            }
        }
    }

    fn lookup(&mut self, left: Stage, side: &Side, join: Join, candidate: &Candidate<'_>) -> Result<Stage> {
        let Base::Table { relation, table, .. } = &side.base else {
            return Err(SqlError::internal("only tables are looked up"));
        };
        let own = side.own.len();
        let all: Vec<BoundExpr> = side.own.iter().cloned().chain(join.conditions).collect();
        let path = self.path(candidate, &left.layout, false)?;
        let columns = self.columns_of(relation);
        let layout = Layout::of_relation(relation.id, columns.iter().copied());
        let kept = |number: &usize| !candidate.covered.contains(number);
        let filter =
            (0..own).filter(kept).map(|number| self.expr(&all[number], &layout)).collect::<Result<_>>()?;
        let joined = left.layout.joined(left.plan.width, &layout);
        let condition = (own..all.len())
            .filter(kept)
            .map(|number| self.expr(&all[number], &joined))
            .collect::<Result<_>>()?;
        let width = left.plan.width + if join.kind.shows_right() { columns.len() } else { 0 };
        let cost = left.plan.cost + left.plan.rows * candidate.cost;
        let filter = Expr::all(filter);
        let named = (table, relation.name.as_str());
        let scan = crate::plan::node::ScanNode::new(named, path, columns, filter, candidate.rows)?;
        let layout = if join.kind.shows_right() { joined } else { left.layout };
        let node = LookupNode {
            left: left.plan,
            scan,
            kind: join.kind,
            condition: Expr::all(condition),
            seen: None,
            output: None,
        };
        let plan = self.plan(Node::Lookup(Box::new(node)), width, join.rows, cost);
        Ok(Stage { plan, layout, order: left.order })
    }

    fn hash(&mut self, mut left: Stage, mut right: Stage, mut join: Join) -> Result<Stage> {
        // The smaller side is hashed.
        let swaps = match join.kind {
            JoinKind::Inner | JoinKind::Full => left.plan.rows < right.plan.rows,
            JoinKind::Left => left.plan.rows * 4.0 < right.plan.rows,
            _ => false,
        };
        if swaps {
            std::mem::swap(&mut left, &mut right);
            if join.kind == JoinKind::Left {
                join.kind = JoinKind::Right;
            }
        }
        let (mut left_keys, mut right_keys, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for condition in &join.conditions {
            match key_pair(condition, &left.layout, &right.layout) {
                Some((of_left, of_right)) => {
                    // Integers of different widths that are equal hash alike.
                    left_keys.push(self.expr(of_left, &left.layout)?);
                    right_keys.push(self.expr(of_right, &right.layout)?);
                }
                None => rest.push(condition),
            }
        }
        let left_keys = self.slots(&mut left, left_keys);
        let right_keys = self.slots(&mut right, right_keys);
        let joined = left.layout.joined(left.plan.width, &right.layout);
        let condition =
            rest.into_iter().map(|condition| self.expr(condition, &joined)).collect::<Result<_>>()?;
        let shows_right = join.kind.shows_right();
        let width = left.plan.width + if shows_right { right.plan.width } else { 0 };
        let cost =
            left.plan.cost + right.plan.cost + right.plan.rows * BUILD_COST + left.plan.rows * PROBE_COST;
        let layout = if shows_right { joined } else { left.layout };
        let order =
            if matches!(join.kind, JoinKind::Full | JoinKind::Right) { Vec::new() } else { left.order };
        let drops_left = matches!(join.kind, JoinKind::Inner | JoinKind::Semi)
            && join.rows < left.plan.rows * DROPPED_SHARE_MAX;
        let node = HashNode {
            left: left.plan,
            right: right.plan,
            kind: join.kind,
            left_keys,
            right_keys,
            condition: Expr::all(condition),
            seen: None,
            output: None,
            null_aware: join.null_aware,
            drops_left,
        };
        let plan = self.plan(Node::Hash(Box::new(node)), width, join.rows, cost);
        // Hash joins that spill give their rows part by part.
        drop(order);
        Ok(Stage { plan, layout, order: Vec::new() })
    }

    /// The slots that hold expressions over a stage's rows; an expression without a slot is computed into one.
    pub(crate) fn slots(&mut self, stage: &mut Stage, exprs: Vec<Expr>) -> Vec<usize> {
        let width = stage.plan.width;
        let mut added = Vec::new();
        let mut slots = Vec::new();
        for expr in exprs {
            match expr {
                Expr::Slot(slot) => slots.push(slot),
                other => {
                    slots.push(width + added.len());
                    added.push(other);
                }
            }
        }
        if !added.is_empty() {
            self.add_slots(stage, added);
        }
        slots
    }

    /// Computes further slots. If a projection passes on the slots that they are computed from, it computes them, too.
    pub(crate) fn add_slots(&mut self, stage: &mut Stage, added: Vec<Expr>) {
        if let Node::Project { expressions, .. } = &mut stage.plan.node
            && added.iter().all(|expr| sees_handed_on(expr, expressions))
        {
            stage.plan.width += added.len();
            expressions.extend(added);
            return;
        }
        let (width, rows, cost) = (stage.plan.width, stage.plan.rows, stage.plan.cost);
        let expressions: Vec<Expr> = (0..width).map(Expr::Slot).chain(added).collect();
        let width = expressions.len();
        let input = Box::new(std::mem::replace(&mut stage.plan, Plan::nothing()));
        stage.plan = self.plan(Node::Project { input, expressions }, width, rows, cost);
    }

    fn nested_loop(&mut self, left: Stage, right: Stage, frame: Frame, join: Join) -> Result<Stage> {
        if !frame.outers.is_empty() && matches!(join.kind, JoinKind::Right | JoinKind::Full) {
            return Err(SqlError::new(
                crate::error::SqlState::INVALID_COLUMN_REFERENCE,
                "the combining JOIN type must be INNER or LEFT for a LATERAL reference",
            ));
        }
        let bindings = self.bindings(&frame, &left.layout);
        let joined = left.layout.joined(left.plan.width, &right.layout);
        let condition = self.exprs(&join.conditions, &joined)?;
        let shows_right = join.kind.shows_right();
        let width = left.plan.width + if shows_right { right.plan.width } else { 0 };
        let cost = match bindings.is_empty() {
            true => left.plan.cost + right.plan.cost + left.plan.rows * right.plan.rows * PAIR_COST,
            false => left.plan.cost + left.plan.rows * right.plan.cost.max(1.0),
        };
        let layout = if shows_right { joined } else { left.layout };
        // A right side that is in a file is joined with many rows of the left side at a time.
        let order = if bindings.is_empty() && shows_right { Vec::new() } else { left.order };
        let keeps = !bindings.is_empty()
            && !frame.changes
            && right.plan.cost >= KEPT_COST_MIN
            && gives_same_rows(&right.plan);
        let node = LoopNode {
            left: left.plan,
            right: right.plan,
            kind: join.kind,
            condition: Expr::all(condition),
            bindings,
            keeps,
        };
        let plan = self.plan(Node::Loop(Box::new(node)), width, join.rows, cost);
        Ok(Stage { plan, layout, order })
    }
}

/// Returns true if an expression sees only slots of a projection that are the same slots of its input.
fn sees_handed_on(expr: &Expr, projected: &[Expr]) -> bool {
    let mut seen = BTreeSet::new();
    let is_same = |slot: &usize| matches!(projected.get(*slot), Some(Expr::Slot(of)) if of == slot);
    expr.slots(&mut seen) && seen.iter().all(is_same)
}

/// Returns true if a plan gives the same rows each time that it runs, as far as the functions in FROM and row locks are
/// concerned.
fn gives_same_rows(plan: &Plan) -> bool {
    let is_same = |item: &FunctionItem| match item {
        FunctionItem::Set { call, .. } => call.function.volatility != Volatility::Volatile,
        FunctionItem::Scalar { .. } => true,
    };
    let is_same = match &plan.node {
        Node::Lock(_) => false,
        Node::Functions(node) => node.calls.iter().all(is_same),
        _ => true,
    };
    is_same && inputs(plan).into_iter().all(gives_same_rows)
}

/// Cost of looking up the partners of this many rows, where the path to those of one row has this cost.
pub(crate) fn lookup_cost(left_rows: f64, path_cost: f64) -> f64 {
    left_rows * (path_cost + 1.0) + (left_rows - CHEAP_LOOKUPS).max(0.0) * (LOOKUP_COST + path_cost)
}

/// Cost of reading one side of a join and joining it with the other side's rows, by hash if they share keys. `swaps`:
/// the smaller side can be the one that is hashed.
fn join_cost(left_rows: f64, side: &Side, has_keys: bool, swaps: bool) -> f64 {
    if !has_keys {
        return side.cost + side.rows * left_rows * PAIR_COST;
    }
    let (probe, build) =
        if swaps && left_rows < side.rows { (side.rows, left_rows) } else { (left_rows, side.rows) };
    side.cost + build * BUILD_COST + probe * PROBE_COST
}

/// Estimates the cost of a join without planning it, from the left side's rows, the right side, and whether they share
/// keys.
pub(crate) fn estimated_cost(left_rows: f64, side: &Side, lookup: Option<f64>, has_keys: bool) -> f64 {
    let other = join_cost(left_rows, side, has_keys, true);
    lookup.map_or(other, |cost| other.min(lookup_cost(left_rows, cost)))
}
