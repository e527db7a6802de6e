//! Join trees as plans: items get their own conditions, then their order, then they are joined one by one.
//!
//! # Invariants
//! - Every condition is applied exactly once, as soon as everything that it names is there; volatile ones at the end.

use std::sync::Arc;

use crate::bind::routines::is_call;
use crate::bind::tree::{BoundExpr, BoundQuery, BoundRelation, FunctionCall, RelationId, RelationKind};
use crate::catalog::Table;
use crate::error::Result;
use crate::functions::Volatility;
use crate::plan::expression::Expr;
use crate::plan::from::{Item, JoinTree, OuterJoin};
use crate::plan::join::{Base, Join, Side};
use crate::plan::join_order::{Condition, ItemSet, Unit, order};
use crate::plan::layout::{Layout, Sorted, Stage};
use crate::plan::node::{FunctionItem, FunctionsNode, JoinKind, Node, SetCall};
use crate::plan::path;
use crate::plan::planner::{Cte, Frame, Planner};
use crate::plan::pushed::pushed;
use crate::plan::semi_join::SemiJoin;
use crate::plan::statistics::TableStatistics;
use crate::plan::walk::{
    implied_restriction, is_volatile, is_volatile_call, relations_of, walk, walk_relations,
};

/// Maximum share of rows that a condition implied by others may let through to be worth its evaluation (PostgreSQL's
/// `extract_restriction_or_clauses` has the same bound).
const IMPLIED_SHARE_MAX: f64 = 0.9;

/// Minimum number of rows of an item that is joined with subqueries before others, and the maximum share of its rows
/// that they may leave: it cannot be looked up any longer.
const EARLY_ROWS_MIN: f64 = 1_000.0;
const EARLY_SHARE_MAX: f64 = 0.2;

impl Planner<'_> {
    /// Joins everything in a tree; in this order, if that costs little.
    pub(crate) fn join(&mut self, tree: JoinTree, wanted: &[Sorted]) -> Result<Stage> {
        let JoinTree { items, conditions } = tree;
        if items.is_empty() {
            return self.without_from(conditions);
        }
        let relations: Vec<Vec<RelationId>> = items.iter().map(Item::relations).collect();
        let mut parts = Parts::new(items.len());
        for item in &items {
            if let Item::Relation(relation) = item
                && let RelationKind::Table(table) = &relation.kind
            {
                self.learn(relation, table);
            }
        }
        for condition in conditions {
            self.classify(condition, &relations, &mut parts);
        }
        let implied = self.add_implied(&mut parts, &relations);
        let mut units = Vec::with_capacity(items.len());
        let own = std::mem::take(&mut parts.own);
        for ((item, own), mine) in items.into_iter().zip(own).zip(&relations) {
            let mut requires = ItemSet::new(relations.len());
            for relation in self.all_relations(references(&item)) {
                if let Some(other) = relations.iter().position(|others| others.contains(&relation))
                    && !mine.contains(&relation)
                {
                    requires.insert(other);
                }
            }
            let wanted = if relations.len() == 1 { wanted } else { &[] };
            let mut side = self.side(item, own, !requires.is_empty(), wanted)?;
            if relations.len() > 1 && requires.is_empty() {
                side = self.join_semi_early(side, mine, &relations, &mut parts.semi)?;
            }
            units.push(Unit::new(side, mine.clone(), requires));
        }
        let between = parts.between.into_iter().zip(implied);
        let conditions: Vec<Condition> =
            between.map(|(expr, implied)| self.condition(expr, &units, implied)).collect();
        self.note_restrictions(&mut units, &conditions);
        let order = order(&units, &conditions);
        let stage = self.join_in_order(units, conditions, parts.semi, &order)?;
        let mut scalar = parts.scalar;
        let stage = self.join_scalars(stage, &mut scalar)?;
        let stage = self.filter(stage, &scalar)?;
        let stage = self.filter(stage, &parts.last)?;
        self.gate(stage, &parts.once)
    }

    /// One row without columns.
    fn without_from(&mut self, conditions: Vec<BoundExpr>) -> Result<Stage> {
        let plan = self.plan(Node::Values(vec![Vec::new()]), 0, 1.0, 0.0);
        let stage = Stage { plan, layout: Layout::default(), order: Vec::new() };
        self.filter(stage, &conditions)
    }

    /// Finds the place of a condition.
    fn classify(&self, condition: BoundExpr, relations: &[Vec<RelationId>], parts: &mut Parts) {
        let named = self.all_relations(relations_of(&condition));
        let item_of = |relation: &RelationId| relations.iter().position(|others| others.contains(relation));
        let mut items: Vec<usize> = named.iter().filter_map(item_of).collect();
        items.sort_unstable();
        items.dedup();
        // Also sees the items by the columns of a view that was merged into this query.
        let sees_item = |relation: RelationId| {
            self.all_relations(vec![relation]).iter().any(|relation| item_of(relation).is_some())
        };
        if is_volatile(&condition) {
            parts.last.push(condition);
        } else if !items.is_empty()
            && self.has_correlated_aggregation(&condition, &|relation| item_of(relation).is_some())
        {
            parts.scalar.push(condition);
        } else if let Some(semi) = SemiJoin::of(&condition, &sees_item) {
            parts.semi.push(semi);
        } else {
            match items[..] {
                [] => parts.once.push(condition),
                [item] => parts.own[item].push(condition),
                _ => parts.between.push(condition),
            }
        }
    }

    /// Joins an item with the subqueries that keep few of its rows, before it is joined with other items.
    fn join_semi_early(
        &mut self,
        mut side: Side,
        mine: &[RelationId],
        relations: &[Vec<RelationId>],
        semi: &mut Vec<SemiJoin>,
    ) -> Result<Side> {
        let is_own = |planner: &Self, semi: &SemiJoin| {
            let named = planner.all_relations(semi.relations());
            let is_item = |relation: &&RelationId| relations.iter().any(|item| item.contains(relation));
            named.iter().filter(is_item).all(|relation| mine.contains(relation))
        };
        let mut at = 0;
        while at < semi.len() {
            let Base::Table { relation, table, statistics } = &side.base else { break };
            if side.rows < EARLY_ROWS_MIN || !is_own(self, &semi[at]) {
                at += 1;
                continue;
            }
            let stage = self.scan(relation, table, statistics, side.own.clone(), &[])?;
            let before = stage.plan.rows;
            let stage = self.semi_join(stage, semi[at].clone())?;
            if stage.plan.rows <= before * EARLY_SHARE_MAX {
                semi.remove(at);
                side = side_of(stage, Frame::default());
            } else {
                at += 1;
            }
        }
        Ok(side)
    }

    /// Loads the statistics of a table's rows, once for each relation.
    fn learn(&mut self, relation: &BoundRelation, table: &Arc<Table>) -> Arc<TableStatistics> {
        if let Some(known) = self.selectivity.known(relation.id) {
            return known;
        }
        let statistics = self.known.statistics(table);
        self.selectivity.learn(relation.id, table, statistics.clone());
        statistics
    }

    /// Adds restrictions of single items, implied by ORs between items, to the items' own conditions, if this saves
    /// rows. Returns, for each condition between items, the share of the rows that these let through.
    fn add_implied(&self, parts: &mut Parts, relations: &[Vec<RelationId>]) -> Vec<f64> {
        let Parts { own, between, .. } = parts;
        let add = |condition: &BoundExpr| {
            let mut implied = 1.0;
            for (mine, own) in relations.iter().zip(own.iter_mut()) {
                let concerns = |expr: &BoundExpr| {
                    let named = self.all_relations(relations_of(expr));
                    !named.is_empty() && named.iter().all(|relation| mine.contains(relation))
                };
                let Some(restriction) = implied_restriction(condition, &concerns) else { continue };
                let share = self.selectivity.of(&restriction);
                if share <= IMPLIED_SHARE_MAX {
                    own.push(restriction);
                    implied *= share;
                }
            }
            implied
        };
        between.iter().map(add).collect()
    }

    fn join_in_order(
        &mut self,
        units: Vec<Unit>,
        mut conditions: Vec<Condition>,
        mut semi: Vec<SemiJoin>,
        order: &[(usize, f64)],
    ) -> Result<Stage> {
        let mut joined = ItemSet::new(units.len());
        let relations: Vec<Vec<RelationId>> = units.iter().map(|unit| unit.relations.clone()).collect();
        let mut units: Vec<Option<Unit>> = units.into_iter().map(Some).collect();
        let mut stage: Option<Stage> = None;
        for (number, rows) in order {
            let Some(unit) = units[*number].take() else { continue };
            joined.insert(*number);
            let ready = conditions.extract_if(.., |condition| condition.items.is_subset(&joined));
            let ready: Vec<BoundExpr> = ready.map(|condition| condition.expr).collect();
            let mut next = match stage {
                None => self.side_stage(unit.side)?.0,
                Some(left) => {
                    let join =
                        Join { kind: JoinKind::Inner, conditions: ready, null_aware: false, rows: *rows };
                    self.attach(left, unit.side, join)?
                }
            };
            let is_ready = |semi: &mut SemiJoin| {
                self.all_relations(semi.relations()).iter().all(|relation| {
                    relations
                        .iter()
                        .position(|others| others.contains(relation))
                        .is_none_or(|item| joined.contains(item))
                })
            };
            let ready: Vec<SemiJoin> = semi.extract_if(.., is_ready).collect();
            for semi in ready {
                next = self.semi_join(next, semi)?;
            }
            stage = Some(next);
        }
        stage.ok_or_else(|| crate::error::SqlError::internal("the join order names no item"))
    }

    /// Keeps the rows for which conditions hold.
    pub(crate) fn filter(&mut self, stage: Stage, conditions: &[BoundExpr]) -> Result<Stage> {
        let parts = self.exprs(conditions, &stage.layout)?;
        let Some(condition) = Expr::all(parts) else { return Ok(stage) };
        let share = self.selectivity.of_all(conditions);
        let Stage { plan, layout, order } = stage;
        let (width, rows, cost) = (plan.width, plan.rows * share, plan.cost + plan.rows * 0.2);
        let plan = self.plan(Node::Filter { input: Box::new(plan), condition }, width, rows, cost);
        Ok(Stage { plan, layout, order })
    }

    /// Keeps all rows or none.
    fn gate(&mut self, stage: Stage, conditions: &[BoundExpr]) -> Result<Stage> {
        let parts = self.exprs(conditions, &Layout::default())?;
        let Some(condition) = Expr::all(parts) else { return Ok(stage) };
        let Stage { plan, layout, order } = stage;
        let (width, rows, cost) = (plan.width, plan.rows, plan.cost);
        let plan = self.plan(Node::Gate { input: Box::new(plan), condition }, width, rows, cost);
        Ok(Stage { plan, layout, order })
    }

    /// The relations that are meant, with merged ones replaced by those that they represent.
    pub(crate) fn all_relations(&self, relations: Vec<RelationId>) -> Vec<RelationId> {
        if self.merged.is_empty() {
            return relations;
        }
        let mut all = Vec::new();
        for relation in relations {
            match self.merged.get(&relation) {
                Some(columns) => {
                    let inner = columns.iter().flat_map(relations_of).collect();
                    all.extend(self.all_relations(inner));
                }
                None => all.push(relation),
            }
        }
        all
    }

    /// A single item. `is_lateral`: it sees other items.
    pub(crate) fn side(
        &mut self,
        item: Item,
        own: Vec<BoundExpr>,
        is_lateral: bool,
        wanted: &[Sorted],
    ) -> Result<Side> {
        if let Item::Relation(relation) = &item
            && let RelationKind::Table(table) = &relation.kind
        {
            let statistics = self.learn(relation, table);
            if !wanted.is_empty() {
                let stage = self.scan(relation, table, &statistics, own, wanted)?;
                return Ok(side_of(stage, Frame::default()));
            }
            return Ok(self.table_side(relation.clone(), table.clone(), statistics, own));
        }
        if is_lateral {
            let changes = may_change(std::slice::from_ref(&item), &own);
            let (stage, mut frame) = self.framed(|planner| planner.item(item, &own))?;
            frame.changes |= changes;
            return Ok(side_of(stage, frame));
        }
        Ok(side_of(self.item(item, &own)?, Frame::default()))
    }

    pub(crate) fn table_side(
        &mut self,
        relation: Arc<BoundRelation>,
        table: Arc<Table>,
        statistics: Arc<TableStatistics>,
        own: Vec<BoundExpr>,
    ) -> Side {
        let restrictions = self.restrictions(&relation, own.iter().enumerate(), own.len());
        let best = path::best(&table, &statistics, &restrictions, &|_| true);
        let share = self.selectivity.of_all(&own);
        let rows = (statistics.rows.max(1.0) * share).min(best.rows).max(1e-3);
        Side { base: Base::Table { relation, table, statistics }, own, rows, cost: best.cost }
    }

    fn item(&mut self, item: Item, own: &[BoundExpr]) -> Result<Stage> {
        match item {
            Item::Relation(relation) => match self.pushed(&relation, own) {
                Some((query, kept)) => {
                    let plan = self.query(&query)?;
                    let layout = Layout::of_relation(relation.id, 0..relation.columns.len());
                    self.filter(Stage { plan, layout, order: Vec::new() }, &kept)
                }
                None => {
                    let stage = self.relation(&relation)?;
                    self.filter(stage, own)
                }
            },
            Item::Outer(join) => {
                let stage = self.outer_join(*join)?;
                self.filter(stage, own)
            }
        }
    }

    /// A relation that is a query, with conditions on its rows in it, and those that stay.
    fn pushed(&self, relation: &BoundRelation, own: &[BoundExpr]) -> Option<(BoundQuery, Vec<BoundExpr>)> {
        let query: &BoundQuery = match &relation.kind {
            RelationKind::Query(query) => query,
            RelationKind::Cte(id) => match self.ctes.get(id)? {
                Cte::Inline(query) => query,
                _ => return None,
            },
            _ => return None,
        };
        pushed(query, relation.id, own)
    }

    /// A relation that is no table.
    fn relation(&mut self, relation: &BoundRelation) -> Result<Stage> {
        let plan = match &relation.kind {
            RelationKind::Query(query) => self.query(query)?,
            RelationKind::Cte(id) => match self.ctes.get(id).cloned() {
                Some(Cte::Inline(query)) => self.query(&query)?,
                Some(Cte::Kept { number, width, rows, depth, once }) => {
                    if !once {
                        self.depends_on_frame(depth);
                    }
                    self.plan(Node::Cte(number), width, rows, rows)
                }
                Some(Cte::Round { number, width, rows, depth }) => {
                    self.depends_on_frame(depth);
                    self.plan(Node::WorkTable(number), width, rows, rows)
                }
                None => {
                    return Err(crate::error::SqlError::internal("a common table expression is not known"));
                }
            },
            RelationKind::Function { calls, ordinality } => self.functions(relation, calls, *ordinality)?,
            RelationKind::Table(table) => {
                let statistics = self.known.statistics(table);
                return self.scan(relation, table, &statistics, Vec::new(), &[]);
            }
        };
        let layout = Layout::of_relation(relation.id, 0..relation.columns.len());
        Ok(Stage { plan, layout, order: Vec::new() })
    }

    fn functions(
        &mut self,
        relation: &BoundRelation,
        calls: &[FunctionCall],
        ordinality: bool,
    ) -> Result<crate::plan::node::Plan> {
        let layout = Layout::default();
        let mut items = Vec::new();
        let mut left = relation.columns.len() - usize::from(ordinality);
        let runs_again = self.frames.len() > 1 || self.rounds > 0;
        for (number, call) in calls.iter().enumerate() {
            let is_last = number + 1 == calls.len();
            let item = match call {
                FunctionCall::Set { function, args, types: shape } => {
                    self.note_call(function);
                    let columns = if is_last { left } else { shape.len().max(1) };
                    let types = args.iter().map(BoundExpr::ty).collect();
                    let result = match columns {
                        1 => relation.columns[relation.columns.len() - usize::from(ordinality) - left].ty,
                        _ => crate::types::Type::Record,
                    };
                    let shape = if is_call(function) { shape.clone() } else { Vec::new() };
                    let arguments = self.exprs(args, &layout)?;
                    let may_change =
                        function.volatility == Volatility::Volatile || args.iter().any(is_volatile);
                    let keeps = runs_again && may_change && !arguments.iter().any(Expr::sees_outer);
                    FunctionItem::Set {
                        call: SetCall { function, arguments, types, result, shape },
                        columns,
                        keeps,
                    }
                }
                FunctionCall::Scalar(expr) => {
                    let columns = if is_last { left } else { 1 };
                    let value = self.expr(expr, &layout)?;
                    let keeps = runs_again && is_volatile(expr) && !value.sees_outer();
                    FunctionItem::Scalar { value, columns, keeps }
                }
            };
            left -= match &item {
                FunctionItem::Set { columns, .. } | FunctionItem::Scalar { columns, .. } => *columns,
            };
            items.push(item);
        }
        let node = FunctionsNode { calls: items, ordinality };
        Ok(self.plan(Node::Functions(Box::new(node)), relation.columns.len(), 100.0, 100.0))
    }

    fn outer_join(&mut self, join: OuterJoin) -> Result<Stage> {
        let OuterJoin { full, left, right, on } = join;
        let (left_relations, right_relations) = (left.relations(), right.relations());
        let references: Vec<RelationId> = right.items.iter().flat_map(references).collect();
        let is_lateral =
            self.all_relations(references).iter().any(|relation| left_relations.contains(relation));
        let left = self.join(left, &[])?;
        let is_plain =
            |condition: &BoundExpr| SemiJoin::of(condition, &|_| true).is_none() && !is_volatile(condition);
        let side = match <[Item; 1]>::try_from(right.items) {
            Ok([item]) if right.conditions.iter().all(is_plain) => {
                self.side(item, right.conditions, is_lateral, &[])?
            }
            items => {
                let items = match items {
                    Ok([item]) => vec![item],
                    Err(items) => items,
                };
                let right = JoinTree { items, conditions: right.conditions };
                if is_lateral {
                    let changes = may_change(&right.items, &right.conditions);
                    let (stage, mut frame) = self.framed(|planner| planner.join(right, &[]))?;
                    frame.changes |= changes;
                    side_of(stage, frame)
                } else {
                    side_of(self.join(right, &[])?, Frame::default())
                }
            }
        };
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

pub(crate) fn side_of(stage: Stage, frame: Frame) -> Side {
    let (rows, cost) = (stage.plan.rows, stage.plan.cost);
    Side { base: Base::Stage(Box::new(stage), frame), own: Vec::new(), rows, cost }
}

/// The conditions of a tree, divided by where they are evaluated.
struct Parts {
    own: Vec<Vec<BoundExpr>>,
    between: Vec<BoundExpr>,
    semi: Vec<SemiJoin>,
    /// Conditions with scalar subqueries that may be joined.
    scalar: Vec<BoundExpr>,
    /// Conditions that name no item.
    once: Vec<BoundExpr>,
    /// Conditions that must see whole rows.
    last: Vec<BoundExpr>,
}

impl Parts {
    fn new(items: usize) -> Parts {
        let own = std::iter::repeat_with(Vec::new).take(items).collect();
        Parts {
            own,
            between: Vec::new(),
            semi: Vec::new(),
            scalar: Vec::new(),
            once: Vec::new(),
            last: Vec::new(),
        }
    }
}

/// Returns true if items or conditions may give other rows each time.
fn may_change(items: &[Item], conditions: &[BoundExpr]) -> bool {
    let mut found = conditions.iter().any(is_volatile);
    items.iter().for_each(|item| visit_item(item, &mut |expr| found |= is_volatile_call(expr)));
    found
}

/// The relations that an item names, its own among them.
pub(crate) fn references(item: &Item) -> Vec<RelationId> {
    let mut found = Vec::new();
    let mut note = |expr: &BoundExpr| {
        if let BoundExpr::Column { relation, .. } = expr
            && !found.contains(relation)
        {
            found.push(*relation);
        }
    };
    visit_item(item, &mut note);
    found
}

fn visit_item(item: &Item, note: &mut dyn FnMut(&BoundExpr)) {
    match item {
        Item::Relation(relation) => walk_relations(std::slice::from_ref(relation), &mut |expr| note(expr)),
        Item::Outer(join) => {
            join.on.iter().for_each(|on| walk(on, &mut |expr| note(expr)));
            for side in [&join.left, &join.right] {
                side.conditions.iter().for_each(|condition| walk(condition, &mut |expr| note(expr)));
                side.items.iter().for_each(|item| visit_item(item, note));
            }
        }
    }
}
