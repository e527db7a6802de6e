//! Targets that are computed after ORDER BY and DISTINCT ON: volatile functions, which run for the rows that LIMIT
//! leaves in their order, and functions that return sets, whose rows DISTINCT ON does not compare.
//!
//! The rows are sorted with all slots that the targets see in front, followed by the targets that are keys.
//!
//! Source: PostgreSQL 15, `make_sort_input_target` in `planner.c`.

use crate::bind::tree::walk::children;
use crate::bind::tree::{BoundExpr, BoundQuery, BoundSelect, Distinct};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::layout::{Layout, Stage};
use crate::plan::node::{Node, Plan};
use crate::plan::planner::Planner;
use crate::plan::walk::is_volatile_call;

/// Targets that are computed after the sort.
pub(crate) struct Late {
    /// Layout of the sorted rows as the targets see them.
    layout: Layout,
    /// Number of slots that they see.
    width: usize,
    targets: Vec<BoundExpr>,
    /// Flags the targets that are computed late.
    is_late: Vec<bool>,
    returns_sets: bool,
}

impl Late {
    /// The slot of the first target in the rows that are sorted.
    pub(crate) fn first(&self) -> usize {
        self.width
    }
}

/// Flags the targets of a query that are computed late; `None` if no target is.
pub(crate) fn late_of(query: &BoundQuery, select: &BoundSelect, targets: &[BoundExpr]) -> Option<Vec<bool>> {
    let distinct: &[usize] = match &select.distinct {
        Distinct::No => &[],
        Distinct::On(on) => on,
        Distinct::All => return None,
    };
    if query.order_by.is_empty() && distinct.is_empty() {
        return None;
    }
    let is_key = |at: usize| distinct.contains(&at) || query.order_by.iter().any(|sort| sort.target == at);
    let is_set = |target: &BoundExpr| has(target, &|part| matches!(part, BoundExpr::SetReturning { .. }));
    let is_volatile = |target: &BoundExpr| {
        has(target, &|part| is_volatile_call(part) && !matches!(part, BoundExpr::SetReturning { .. }))
    };
    let keys = || targets.iter().enumerate().filter(|(at, _)| is_key(*at)).map(|(_, target)| target);
    if select.set_returning {
        // Then all targets are computed from the sorted rows, once for each row of a set.
        let is_movable = !keys().any(|key| is_set(key) || is_volatile(key));
        return is_movable.then(|| vec![true; targets.len()]);
    }
    let late: Vec<bool> =
        targets.iter().enumerate().map(|(at, target)| !is_key(at) && is_volatile(target)).collect();
    late.contains(&true).then_some(late)
}

/// Returns true if an expression has such a part; the bodies of queries in it do not count.
fn has(expr: &BoundExpr, is_such: &dyn Fn(&BoundExpr) -> bool) -> bool {
    let mut found = is_such(expr);
    children(expr, &mut |part| found = found || has(part, is_such));
    found
}

impl Planner<'_> {
    /// The slots that the targets see, followed by the targets that are not late.
    pub(crate) fn early_targets(
        &mut self,
        targets: Vec<BoundExpr>,
        is_late: Vec<bool>,
        stage: Stage,
    ) -> Result<(Plan, Late)> {
        let Stage { plan, layout, .. } = stage;
        let (width, rows, cost) = (plan.width, plan.rows, plan.cost);
        let mut expressions: Vec<Expr> = (0..width).map(Expr::Slot).collect();
        let returns_sets = is_late.iter().all(|&late| late);
        for (target, &late) in targets.iter().zip(&is_late) {
            let is_set = has(target, &|part| matches!(part, BoundExpr::SetReturning { .. }));
            let is_early = !late || returns_sets && !is_set && !has(target, &|part| is_volatile_call(part));
            expressions.push(match is_early {
                true => self.expr(target, &layout)?,
                false => Expr::Constant(crate::types::Value::Null),
            });
        }
        let count = expressions.len();
        let plan = self.plan(Node::Project { input: Box::new(plan), expressions }, count, rows, cost);
        Ok((plan, Late { layout, width, targets, is_late, returns_sets }))
    }

    /// The targets, of rows that are sorted.
    pub(crate) fn late_targets(&mut self, plan: Plan, late: Late) -> Result<Plan> {
        let Late { layout, width, targets, is_late, returns_sets } = late;
        if returns_sets {
            let (rows, cost) = (plan.rows, plan.cost);
            let expressions = (0..width).map(Expr::Slot).collect();
            let plan = self.plan(Node::Project { input: Box::new(plan), expressions }, width, rows, cost);
            return self.set_targets(&targets, Stage { plan, layout, order: Vec::new() });
        }
        let mut expressions = Vec::with_capacity(targets.len());
        for (at, (target, &late)) in targets.iter().zip(&is_late).enumerate() {
            expressions.push(if late { self.expr(target, &layout)? } else { Expr::Slot(width + at) });
        }
        let (count, rows, cost) = (expressions.len(), plan.rows, plan.cost);
        Ok(self.plan(Node::Project { input: Box::new(plan), expressions }, count, rows, cost))
    }
}
