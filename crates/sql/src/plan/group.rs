//! GROUP BY and window functions as nodes: their arguments are computed into slots beneath them.
//!
//! The node's result has a layout of its own: the keys, the aggregates, then the number of the grouping set. Targets and
//! HAVING name these slots, and no longer the columns beneath.

use crate::bind::tree::{
    BoundAggregate, BoundExpr, BoundSelect, BoundWindow, FrameBound, RelationId, SortKey as BoundKey,
    WindowFunction,
};
use crate::error::Result;
use crate::functions::{AggregateKind, FunctionKind};
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout, Stage};
use crate::plan::node::{
    AggregateCall, AggregateNode, FrameEnd, FrameNode, Node, Plan, SortKey, WindowCall, WindowNode,
};
use crate::plan::planner::Planner;
use crate::rewrite::substitute::substituted;

impl Planner<'_> {
    /// Groups a stage's rows.
    pub(crate) fn group(
        &mut self,
        query: RelationId,
        select: &BoundSelect,
        mut stage: Stage,
    ) -> Result<Stage> {
        let sets = select.grouping_sets.clone().unwrap_or_default();
        let keys = self.exprs(&select.group_by, &stage.layout)?;
        let keys = self.slots(&mut stage, keys);
        let mut parts = Vec::new();
        for aggregate in &select.aggregates {
            parts.push(self.aggregate_slots(&mut stage, aggregate)?);
        }
        let mut layout = Layout::default();
        for (number, expr) in select.group_by.iter().enumerate() {
            layout.set(Key::Group(number), number);
            for column in [expr, &substituted(expr, &self.merged)] {
                if let BoundExpr::Column { relation, column, .. } = column {
                    layout.set(Key::Column(*relation, *column), number);
                }
            }
        }
        let calls = select.aggregates.iter().zip(parts).map(|(aggregate, mut call)| {
            if !call.direct.is_empty() || is_ordered_set(aggregate) {
                call.direct = self.exprs(&aggregate.args, &layout)?;
            }
            Ok(call)
        });
        let calls: Vec<AggregateCall> = calls.collect::<Result<_>>()?;
        for number in 0..calls.len() {
            layout.set(Key::Aggregate(query, number), keys.len() + number);
        }
        let width = keys.len() + calls.len() + usize::from(sets.len() != 1);
        if sets.len() != 1 {
            layout.set(Key::GroupingSet, width - 1);
        }
        let input_rows = stage.plan.rows;
        let rows = self.groups(&select.group_by, input_rows) * sets.len() as f64;
        let cost = stage.plan.cost + input_rows * (1.0 + 0.3 * calls.len() as f64) * sets.len() as f64;
        self.grouping_sets = Some(sets.clone());
        let node = AggregateNode { input: stage.plan, keys, sets, calls };
        let plan = self.plan(Node::Aggregate(Box::new(node)), width, rows, cost);
        Ok(Stage { plan, layout, order: Vec::new() })
    }

    /// Estimates the number of groups.
    pub(crate) fn groups(&self, keys: &[BoundExpr], rows: f64) -> f64 {
        if keys.is_empty() {
            return 1.0;
        }
        let distinct =
            |key: &BoundExpr| self.selectivity.distinct_of(&substituted(key, &self.merged)).unwrap_or(20.0);
        keys.iter().map(distinct).product::<f64>().min(rows * 0.9).max(1.0)
    }

    /// The slots of an aggregate's arguments, filter and order.
    fn aggregate_slots(&mut self, stage: &mut Stage, aggregate: &BoundAggregate) -> Result<AggregateCall> {
        let ordered: Vec<BoundExpr> = aggregate.order_by.iter().map(|key| key.expr.clone()).collect();
        let args = if is_ordered_set(aggregate) { &ordered } else { &aggregate.args };
        let types = args.iter().map(BoundExpr::ty).collect();
        let arguments = self.exprs(args, &stage.layout)?;
        let arguments = self.slots(stage, arguments);
        let filter = aggregate.filter.as_ref().map(|filter| self.expr(filter, &stage.layout)).transpose()?;
        let filter = filter.map(|filter| self.slots(stage, vec![filter])[0]);
        let order = self.sort_keys(stage, &aggregate.order_by)?;
        Ok(AggregateCall {
            function: aggregate.function,
            types,
            result: aggregate.ty,
            direct: Vec::new(),
            arguments,
            distinct: aggregate.distinct,
            filter,
            order,
        })
    }

    fn sort_keys(&mut self, stage: &mut Stage, keys: &[BoundKey]) -> Result<Vec<SortKey>> {
        let exprs = keys.iter().map(|key| self.expr(&key.expr, &stage.layout)).collect::<Result<Vec<_>>>()?;
        let slots = self.slots(stage, exprs);
        let key = |(key, slot): (&BoundKey, usize)| SortKey {
            slot,
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        Ok(keys.iter().zip(slots).map(key).collect())
    }

    /// Adds window functions' results to a stage's rows: one node for all calls with the same partitions and order.
    pub(crate) fn windows(&mut self, select: &BoundSelect, mut stage: Stage) -> Result<Stage> {
        let window_of = |window: &BoundWindow| format!("{:?} {:?}", window.partition_by, window.order_by);
        let mut done = vec![false; select.windows.len()];
        for first in 0..select.windows.len() {
            if done[first] {
                continue;
            }
            let name = window_of(&select.windows[first]);
            let same: Vec<usize> = (first..select.windows.len())
                .filter(|other| window_of(&select.windows[*other]) == name)
                .collect();
            let window = &select.windows[first];
            let partition = self.exprs(&window.partition_by, &stage.layout)?;
            let partition = self.slots(&mut stage, partition);
            let order = self.sort_keys(&mut stage, &window.order_by)?;
            let mut calls = Vec::new();
            for number in &same {
                done[*number] = true;
                calls.push(self.window_call(&mut stage, &select.windows[*number])?);
            }
            let width = stage.plan.width;
            for (at, number) in same.iter().enumerate() {
                stage.layout.set(Key::Window(*number), width + at);
            }
            let (rows, cost) = (stage.plan.rows, stage.plan.cost + stage.plan.rows * 4.0);
            let width = width + calls.len();
            let input = std::mem::replace(&mut stage.plan, Plan::nothing());
            let node = WindowNode { input, partition, order, calls };
            stage.plan = self.plan(Node::Window(Box::new(node)), width, rows, cost);
            stage.order.clear();
        }
        Ok(stage)
    }

    fn window_call(&mut self, stage: &mut Stage, window: &BoundWindow) -> Result<WindowCall> {
        let arguments = self.exprs(&window.args, &stage.layout)?;
        let arguments = self.slots(stage, arguments);
        let filter = window.filter.as_ref().map(|filter| self.expr(filter, &stage.layout)).transpose()?;
        let filter = filter.map(|filter| self.slots(stage, vec![filter])[0]);
        let (WindowFunction::Aggregate(function) | WindowFunction::Window(function)) = window.function;
        let frame = FrameNode {
            unit: window.frame.unit,
            start: self.frame_end(&window.frame.start)?,
            end: self.frame_end(&window.frame.end)?,
            exclusion: window.frame.exclusion,
        };
        let types = window.args.iter().map(BoundExpr::ty).collect();
        Ok(WindowCall { function, types, result: window.ty, arguments, filter, frame })
    }

    fn frame_end(&mut self, bound: &FrameBound) -> Result<FrameEnd> {
        let none = Layout::default();
        let mut offset = |expr: &BoundExpr| -> Result<Expr> { self.expr(expr, &none) };
        Ok(match bound {
            FrameBound::UnboundedPreceding => FrameEnd::UnboundedPreceding,
            FrameBound::Preceding(expr) => FrameEnd::Preceding(offset(expr)?),
            FrameBound::CurrentRow => FrameEnd::CurrentRow,
            FrameBound::Following(expr) => FrameEnd::Following(offset(expr)?),
            FrameBound::UnboundedFollowing => FrameEnd::UnboundedFollowing,
        })
    }
}

/// Returns true if an aggregate reads its rows in the order of WITHIN GROUP.
fn is_ordered_set(aggregate: &BoundAggregate) -> bool {
    matches!(
        aggregate.function.kind,
        FunctionKind::Aggregate { kind: AggregateKind::OrderedSet { .. } | AggregateKind::Hypothetical, .. }
    )
}
