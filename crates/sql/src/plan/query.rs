//! Queries as plans: WITH, SELECT, set operations, VALUES; then DISTINCT, ORDER BY and LIMIT.
//!
//! # Invariants
//! - A query's plan gives its columns in slots 0, 1, …; targets that exist only to be sorted by are removed.

use std::sync::Arc;

use crate::bind::tree::{
    BoundCte, BoundExpr, BoundQuery, BoundSelect, BoundSort, CteBody, Distinct, QueryBody, RelationId,
    SetOperation,
};
use crate::error::{Result, SqlError};
use crate::plan::expression::Expr;
use crate::plan::index_match::column_of;
use crate::plan::late_targets::{Late, late_of};
use crate::plan::layout::{Key, Layout, Sorted, Stage};
use crate::plan::node::{Limit, Node, Plan, RecursiveNode, SetOperationNode, SortKey};
use crate::plan::planner::{Cte, Planner};
use crate::plan::scan::satisfies;
use crate::plan::walk::{is_volatile_call, walk_query};
use crate::rewrite::substitute::substituted;

/// Number of rows that a LIMIT is assumed to leave if its value is not yet known.
const LIMIT_DEFAULT: f64 = 100.0;

impl Planner<'_> {
    /// Plans a query.
    pub(crate) fn query(&mut self, query: &BoundQuery) -> Result<Plan> {
        let kept = self.ctes(&query.ctes)?;
        let plan = self.query_body(query)?;
        if kept.is_empty() {
            return Ok(plan);
        }
        let (width, rows, cost) = (plan.width, plan.rows, plan.cost);
        Ok(self.plan(Node::With { ctes: kept, input: Box::new(plan) }, width, rows, cost))
    }

    pub(crate) fn query_body(&mut self, query: &BoundQuery) -> Result<Plan> {
        let (query, locks) = self.with_keys(query);
        let query = &*query;
        let limit = self.limit(query)?;
        // Rows that are skipped because others have them do not count.
        let sort_limit = limit.clone().filter(|limit| locks.is_empty() && limit.ties.is_none());
        let (mut plan, sorted, late) = match &query.body {
            QueryBody::Select(select) => self.select(query, select, locks.is_empty())?,
            QueryBody::Set { operation, all, left, right } => {
                (self.set_operation(*operation, *all, left, right)?, 0, None)
            }
            QueryBody::Values(rows) => (self.values(rows, query.columns.len())?, 0, None),
        };
        let first = late.as_ref().map_or(0, Late::first);
        let keys: Vec<SortKey> = query.order_by.iter().map(|sort| sort_key(sort, first)).collect();
        if let QueryBody::Select(select) = &query.body {
            plan = self.distinct(plan, select, &keys, first);
        }
        let is_sorted = sorted == keys.len()
            || matches!(&query.body, QueryBody::Select(select) if matches!(select.distinct, Distinct::On(_)));
        if !is_sorted {
            let (width, rows, cost) = (plan.width, plan.rows, plan.cost);
            let cost = cost + rows * rows.max(2.0).log2() * 0.2;
            let presorted = if sort_limit.is_some() { sorted } else { 0 };
            let sort = Node::Sort { input: Box::new(plan), keys, limit: sort_limit, presorted };
            plan = self.plan(sort, width, rows, cost);
        }
        if let Some(late) = late {
            plan = self.late_targets(plan, late)?;
        }
        plan = self.lock(plan, locks, limit.clone())?;
        if let Some(limit) = limit {
            plan = self.limited(plan, limit);
        }
        Ok(self.narrowed(plan, query.columns.len()))
    }

    /// The rows of a plan up to a limit. Columns that are computed from each row are computed above it: rows beyond the limit
    /// must neither fail nor draw numbers from a sequence. Rows that OFFSET skips are computed, as in PostgreSQL.
    fn limited(&mut self, plan: Plan, limit: Limit) -> Plan {
        // LIMIT NULL is no limit.
        let count = limit.count.as_ref().and_then(Expr::as_constant).filter(|count| !count.is_null());
        let count = count.map(|count| count.any_int().max(0) as f64);
        let rows = count.map_or(plan.rows, |count| count.min(plan.rows));
        let read = count.unwrap_or(if limit.count.is_some() { LIMIT_DEFAULT } else { plan.rows });
        let share = if streams(&plan) { (read / plan.rows.max(1.0)).min(1.0) } else { 1.0 };
        let (width, cost) = (plan.width, plan.cost * share);
        let is_movable = limit.offset.is_none() && limit.ties.is_none();
        match plan.node {
            Node::Project { input, expressions } if is_movable => {
                let below = (input.width, input.cost * share);
                let input = self.plan(Node::Limit { input, limit }, below.0, rows, below.1);
                self.plan(Node::Project { input: Box::new(input), expressions }, width, rows, cost)
            }
            _ => self.plan(Node::Limit { input: Box::new(plan), limit }, width, rows, cost),
        }
    }

    /// Keeps the first slots only.
    fn narrowed(&mut self, plan: Plan, width: usize) -> Plan {
        if plan.width == width {
            return plan;
        }
        let (rows, cost) = (plan.rows, plan.cost);
        let expressions = (0..width).map(Expr::Slot).collect();
        self.plan(Node::Project { input: Box::new(plan), expressions }, width, rows, cost)
    }

    fn limit(&mut self, query: &BoundQuery) -> Result<Option<Limit>> {
        if query.limit.is_none() && query.offset.is_none() {
            return Ok(None);
        }
        let none = Layout::default();
        let count = query.limit.as_ref().map(|count| self.expr(count, &none)).transpose()?;
        let offset = query.offset.as_ref().map(|offset| self.expr(offset, &none)).transpose()?;
        let ties = query.with_ties.then(|| query.order_by.iter().map(|sort| sort.target).collect());
        Ok(Some(Limit { count, offset, ties }))
    }

    fn distinct(&mut self, plan: Plan, select: &BoundSelect, keys: &[SortKey], first: usize) -> Plan {
        let (width, rows, cost) = (plan.width, plan.rows, plan.cost);
        match &select.distinct {
            Distinct::No => plan,
            Distinct::All => {
                let slots = (0..width).collect();
                let targets: Vec<BoundExpr> =
                    select.targets.iter().map(|target| target.expr.clone()).collect();
                let is_plain = select.grouping_sets.is_none() && select.windows.is_empty();
                let distinct = if is_plain { self.groups(&targets, rows) } else { rows };
                self.plan(Node::Distinct { input: Box::new(plan), slots }, width, distinct, cost + rows)
            }
            Distinct::On(targets) => {
                // The keys of ORDER BY are first; the binder has made sure that it begins with the same targets.
                let mut keys = keys.to_vec();
                let slots: Vec<usize> = targets.iter().map(|target| first + target).collect();
                for &slot in &slots {
                    if !keys.iter().any(|key| key.slot == slot) {
                        keys.push(SortKey { slot, descending: false, nulls_first: false });
                    }
                }
                let sort = Node::Sort { input: Box::new(plan), keys, limit: None, presorted: 0 };
                let sorted = self.plan(sort, width, rows, cost + rows * 3.0);
                let node = Node::DistinctOn { input: Box::new(sorted), slots };
                self.plan(node, width, rows, cost + rows * 3.0)
            }
        }
    }

    /// Plans the definitions that are kept; the others are planned where they are named.
    pub(crate) fn ctes(&mut self, ctes: &[BoundCte]) -> Result<Vec<(usize, Plan)>> {
        let mut kept = Vec::new();
        let depth = self.frames.len() - 1;
        let once = depth == 0 && self.rounds == 0;
        for cte in ctes {
            let width = cte.columns.len();
            match &cte.body {
                CteBody::Query(query) if inlines(cte, query) => {
                    self.ctes.insert(cte.id, Cte::Inline(Arc::new(query.clone())));
                    continue;
                }
                CteBody::Query(query) => {
                    let plan = self.query(query)?;
                    let number = self.keep();
                    self.ctes.insert(cte.id, Cte::Kept { number, width, rows: plan.rows, depth, once });
                    kept.push((number, plan));
                }
                CteBody::Recursive { initial, step, all } => {
                    let first = self.query(initial)?;
                    let work_table = self.keep();
                    let rows = first.rows * 10.0;
                    self.ctes
                        .insert(cte.id, Cte::Round { number: work_table, width, rows: first.rows, depth });
                    self.rounds += 1;
                    let again = self.query(step);
                    self.rounds -= 1;
                    let again = again?;
                    let cost = first.cost + again.cost * 10.0;
                    let node = RecursiveNode { first, again, work_table, distinct: !all };
                    let plan = self.plan(Node::Recursive(Box::new(node)), width, rows, cost);
                    let number = self.keep();
                    self.ctes.insert(cte.id, Cte::Kept { number, width, rows, depth, once });
                    kept.push((number, plan));
                }
                // It has run before the query: its rows are there under this number.
                CteBody::Statement(statement) => {
                    self.note_statement(statement);
                    let (inner, action) = self.statement(statement)?;
                    kept.extend(inner);
                    let number = self.keep();
                    self.ctes.insert(cte.id, Cte::Kept { number, width, rows: 100.0, depth, once });
                    self.first.push((number, action));
                }
            }
        }
        Ok(kept)
    }

    fn keep(&mut self) -> usize {
        self.kept += 1;
        self.kept - 1
    }

    fn set_operation(
        &mut self,
        operation: SetOperation,
        all: bool,
        left: &BoundQuery,
        right: &BoundQuery,
    ) -> Result<Plan> {
        if operation == SetOperation::Union {
            let mut inputs = Vec::new();
            self.union(all, left, &mut inputs)?;
            self.union(all, right, &mut inputs)?;
            let width = left.columns.len();
            let (rows, cost) =
                inputs.iter().fold((0.0, 0.0), |(rows, cost), plan| (rows + plan.rows, cost + plan.cost));
            let plan = self.plan(Node::Append(inputs), width, rows, cost);
            if all {
                return Ok(plan);
            }
            let slots = (0..width).collect();
            return Ok(self.plan(Node::Distinct { input: Box::new(plan), slots }, width, rows, cost + rows));
        }
        let (left, right) = (self.query(left)?, self.query(right)?);
        let kind = match operation {
            SetOperation::Except => crate::plan::node::SetOperation::Except,
            _ => crate::plan::node::SetOperation::Intersect,
        };
        let (width, rows, cost) = (left.width, left.rows, left.cost + right.cost + left.rows + right.rows);
        let node = SetOperationNode { left, right, kind, all };
        Ok(self.plan(Node::SetOperation(Box::new(node)), width, rows, cost))
    }

    /// The inputs of a chain of unions of the same kind.
    fn union(&mut self, all: bool, query: &BoundQuery, inputs: &mut Vec<Plan>) -> Result<()> {
        let is_bare = query.ctes.is_empty()
            && query.order_by.is_empty()
            && query.limit.is_none()
            && query.offset.is_none();
        match &query.body {
            QueryBody::Set { operation: SetOperation::Union, all: inner, left, right }
                if is_bare && (*inner == all || !all) =>
            {
                self.union(all, left, inputs)?;
                self.union(all, right, inputs)
            }
            _ => {
                inputs.push(self.query(query)?);
                Ok(())
            }
        }
    }

    fn values(&mut self, rows: &[Vec<BoundExpr>], width: usize) -> Result<Plan> {
        let none = Layout::default();
        let count = rows.len() as f64;
        let rows = rows.iter().map(|row| self.exprs(row, &none)).collect::<Result<Vec<_>>>()?;
        Ok(self.plan(Node::Values(rows), width, count, count))
    }

    /// A SELECT's targets, and the number of the leading keys of the query's order in which they are.
    fn select(
        &mut self,
        query: &BoundQuery,
        select: &BoundSelect,
        may_be_late: bool,
    ) -> Result<(Plan, usize, Option<Late>)> {
        // With several sets, equal columns of a subquery are NULL in different ones.
        let has_sets = select.grouping_sets.as_ref().is_some_and(|sets| sets.len() > 1);
        let merges = !(has_sets || select.grouping_sets.is_some() && has_outer_subquery(select));
        let tree = self.join_tree(select, &select.from, merges);
        let wanted = self.wanted(select, query);
        let mut stage = match self.extremes(select, &tree)? {
            Some(stage) => stage,
            None => {
                let is_in_order = !wanted.is_empty() || query.order_by.is_empty() && gives_each_row(select);
                self.wanted_rows = few_rows(query).filter(|_| is_in_order);
                self.join(tree, &wanted)?
            }
        };
        let is_in_order = |keys: &usize| satisfies(&stage.order, &wanted[..*keys]);
        let sorted = (1..=wanted.len()).rev().find(is_in_order).unwrap_or(0);
        let is_sorted = sorted > 0 && sorted == query.order_by.len();
        let around = self.grouping_sets.take();
        if select.grouping_sets.is_some() {
            stage = self.group(query.id, select, stage)?;
        }
        if let Some(having) = &select.having {
            let condition = self.expr(having, &stage.layout)?;
            let (width, rows, cost) = (stage.plan.width, stage.plan.rows * 0.5, stage.plan.cost);
            let input = Box::new(stage.plan);
            stage.plan = self.plan(Node::Filter { input, condition }, width, rows, cost);
        }
        if !select.windows.is_empty() {
            stage = self.windows(select, stage)?;
        }
        let mut targets: Vec<BoundExpr> = select.targets.iter().map(|target| target.expr.clone()).collect();
        if select.grouping_sets.is_none() && select.windows.is_empty() && wanted.is_empty() {
            stage = self.join_scalars(stage, &mut targets)?;
        }
        let mut late = None;
        let plan = match late_of(query, select, &targets) {
            Some(late_targets) if may_be_late && !is_sorted => {
                let (plan, found) = self.early_targets(targets, late_targets, stage)?;
                late = Some(found);
                plan
            }
            _ if select.set_returning => self.set_targets(&targets, stage)?,
            _ => self.targets(&targets, stage)?,
        };
        self.grouping_sets = around;
        Ok((plan, sorted, late))
    }

    pub(crate) fn targets(&mut self, targets: &[BoundExpr], stage: Stage) -> Result<Plan> {
        let Stage { plan, layout, .. } = stage;
        let expressions = self.exprs(targets, &layout)?;
        let (width, rows, cost) = (expressions.len(), plan.rows, plan.cost);
        let is_identity = plan.width == width
            && expressions
                .iter()
                .enumerate()
                .all(|(slot, expr)| matches!(expr, Expr::Slot(of) if *of == slot));
        if is_identity {
            return Ok(plan);
        }
        Ok(self.plan(Node::Project { input: Box::new(plan), expressions }, width, rows, cost))
    }

    /// The columns by which rows should be sorted so that no sort is needed, or only a part of the rows is sorted; empty if
    /// this is impossible.
    fn wanted(&self, select: &BoundSelect, query: &BoundQuery) -> Vec<Sorted> {
        if !gives_each_row(select) {
            return Vec::new();
        }
        let sorted = query.order_by.iter().map_while(|sort| {
            let target = select.targets.get(sort.target)?;
            let expr = substituted(&target.expr, &self.merged);
            let (relation, column) = match expr {
                BoundExpr::Column { relation, column, .. } => (relation, column),
                expr => select.relations.iter().find_map(|relation| column_of(&expr, relation))?,
            };
            Some(Sorted {
                key: Key::Column(relation, column),
                descending: sort.descending,
                is_fixed: false,
                nulls_first: Some(sort.nulls_first),
            })
        });
        let sorted: Vec<Sorted> = sorted.collect();
        let is_enough = sorted.len() == query.order_by.len() || few_rows(query).is_some();
        if is_enough { sorted } else { Vec::new() }
    }

    /// A number for a relation that no statement names.
    pub(crate) fn fresh_relation(&mut self) -> RelationId {
        self.fresh += 1;
        RelationId(u32::MAX - self.fresh)
    }
}

/// Number of rows of a query that are wanted, if these are few; a number that is not known yet is assumed to be small.
fn few_rows(query: &BoundQuery) -> Option<f64> {
    let number = |expr: &BoundExpr| match expr {
        BoundExpr::Constant { value, .. } if value.is_null() => None,
        BoundExpr::Constant { value, .. } => Some(value.any_int().max(0) as f64),
        _ => Some(LIMIT_DEFAULT),
    };
    let offset = query.offset.as_ref().and_then(number).unwrap_or(0.0);
    query.limit.as_ref().and_then(number).map(|count| count + offset)
}

/// Returns true if a SELECT gives one row for each that it reads.
fn gives_each_row(select: &BoundSelect) -> bool {
    select.grouping_sets.is_none()
        && select.windows.is_empty()
        && !select.set_returning
        && select.distinct == Distinct::No
}

/// Returns true if a plan gives its first rows before it has read all of its input.
fn streams(plan: &Plan) -> bool {
    match &plan.node {
        Node::Scan(_) => true,
        Node::Filter { input, .. } | Node::Project { input, .. } => streams(input),
        Node::Lookup(node) => streams(&node.left),
        Node::Loop(node) => !node.bindings.is_empty() && streams(&node.left),
        _ => false,
    }
}

/// `first`: the slot of the first target.
fn sort_key(sort: &BoundSort, first: usize) -> SortKey {
    SortKey { slot: first + sort.target, descending: sort.descending, nulls_first: sort.nulls_first }
}

/// Returns true if there are subqueries where groups are visible: they name columns of the relations as they were
/// written.
fn has_outer_subquery(select: &BoundSelect) -> bool {
    let targets = select.targets.iter().map(|target| &target.expr);
    targets.chain(&select.having).any(crate::plan::walk::has_subquery)
}

/// Returns true if a common table expression is planned where it is named.
fn inlines(cte: &BoundCte, query: &BoundQuery) -> bool {
    let mut volatile = false;
    walk_query(query, &mut |expr| {
        volatile |= is_volatile_call(expr);
    });
    match cte.materialized {
        Some(true) => false,
        Some(false) => !volatile,
        None => cte.references <= 1 && !volatile && query.locks.is_empty(),
    }
}

impl Planner<'_> {
    /// Targets of which some return sets.
    pub(crate) fn set_targets(&mut self, targets: &[BoundExpr], mut stage: Stage) -> Result<Plan> {
        // A query within an argument has sets of its own.
        let around = std::mem::take(&mut self.sets);
        let mut calls = Vec::new();
        for target in targets {
            crate::plan::walk::walk(target, &mut |expr| {
                if matches!(expr, BoundExpr::SetReturning { .. }) {
                    calls.push(expr);
                }
            });
        }
        // Inner calls are first: those around them use their values.
        calls.reverse();
        for call in calls {
            let name = format!("{call:?}");
            if self.sets.contains_key(&name) {
                continue;
            }
            let BoundExpr::SetReturning { function, args, ty } = call else { continue };
            self.note_call(function);
            let types = args.iter().map(BoundExpr::ty).collect();
            let arguments = self.exprs(args, &stage.layout)?;
            let shape = Vec::new();
            let set = crate::plan::node::SetCall { function, arguments, types, result: *ty, shape };
            stage = self.add_set(stage, set, name);
        }
        let plan = self.targets(targets, stage);
        self.sets = around;
        plan
    }

    /// A further slot with the rows of a function; functions beside each other advance together.
    fn add_set(&mut self, mut stage: Stage, set: crate::plan::node::SetCall, name: String) -> Stage {
        use crate::plan::node::ProjectItem;
        let depends =
            set.arguments.iter().any(|argument| self.sets.values().any(|slot| names_slot(argument, *slot)));
        let (rows, cost) = (stage.plan.rows, stage.plan.cost);
        let input = std::mem::replace(&mut stage.plan, Plan::nothing());
        let slot = input.width;
        self.sets.insert(name, slot);
        let plan = match input.node {
            Node::ProjectSet { input, mut items } if !depends => {
                items.push(ProjectItem::Set(set));
                self.plan(Node::ProjectSet { input, items }, slot + 1, rows, cost)
            }
            node => {
                let items = (0..slot).map(|slot| ProjectItem::Value(Expr::Slot(slot)));
                let items = items.chain([ProjectItem::Set(set)]).collect();
                let input = Box::new(Plan { node, ..input });
                self.plan(Node::ProjectSet { input, items }, slot + 1, rows * 10.0, cost + rows * 10.0)
            }
        };
        stage.plan = plan;
        stage
    }
}

/// Returns true if an argument is the value of this slot, or is computed from slots that set-returning functions fill.
fn names_slot(argument: &Expr, slot: usize) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    match argument.slots(&mut seen) {
        true => seen.contains(&slot),
        // Subqueries number slots of their own: this may find one too many.
        false => format!("{argument:?}").contains(&format!("Slot({slot})")),
    }
}

/// An internal error for a construct that earlier passes should have removed.
pub(crate) fn unexpected(what: &str) -> SqlError {
    SqlError::internal(format!("{what} was not expected here"))
}
