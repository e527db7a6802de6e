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
use crate::plan::from::{Item, JoinTree, add_constants};
use crate::plan::join::{Base, Join, Side};
use crate::plan::join_order::{Condition, ItemSet, Unit, order};
use crate::plan::layout::{Layout, Sorted, Stage};
use crate::plan::node::{FunctionItem, FunctionsNode, JoinKind, Node, SetCall};
use crate::plan::path;
use crate::plan::pipeline::Few;
use crate::plan::planner::{Cte, Frame, Planner};
use crate::plan::pushed::pushed;
use crate::plan::semi_join::SemiJoin;
use crate::plan::semi_unit::SemiUnits;
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
        let around = std::mem::take(&mut self.streams);
        let joined = self.join_items(tree, wanted);
        self.streams = around;
        joined
    }

    fn join_items(&mut self, tree: JoinTree, wanted: &[Sorted]) -> Result<Stage> {
        let JoinTree { mut items, mut conditions } = self.spread(tree);
        self.note_absent(&mut items, &mut conditions);
        add_constants(&items, &mut conditions);
        if items.is_empty() {
            return self.without_from(conditions);
        }
        let relations: Vec<Vec<RelationId>> = items.iter().map(Item::relations).collect();
        let is_one = matches!(&items[..], [Item::Relation(_)]);
        let few = if is_one { None } else { self.wanted_rows.take() };
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
        let mut found = SemiUnits::default();
        let own = std::mem::take(&mut parts.own);
        for ((item, own), mine) in items.into_iter().zip(own).zip(&relations) {
            let requires = self.required(&item, mine, &relations);
            if let Item::Optional(optional) = item {
                units.push(self.optional_unit(*optional, &relations, requires, own)?);
                continue;
            }
            let is_alone = relations.len() == 1 && (parts.semi.is_empty() || self.wanted_rows.is_some());
            let wanted = if is_alone { wanted } else { &[] };
            let mut side = self.side(item, own, !requires.is_empty(), wanted)?;
            if requires.is_empty() {
                self.semi_units(&side, (mine, &relations), &mut parts.semi, &mut found)?;
            }
            if relations.len() > 1 && requires.is_empty() {
                side = self.join_semi_early(side, mine, &relations, &mut parts.semi)?;
            }
            units.push(Unit::new(side, mine.clone(), requires));
        }
        units.append(&mut found.units);
        let implied = implied.into_iter().chain(std::iter::repeat(1.0));
        let between = parts.between.into_iter().chain(found.conditions).zip(implied);
        let conditions: Vec<Condition> =
            between.map(|(expr, implied)| self.condition(expr, &units, implied)).collect();
        self.note_restrictions(&mut units, &conditions);
        let (mut order, cost) = order(&units, &conditions);
        let may_stream = parts.semi.is_empty() && parts.scalar.is_empty() && parts.last.is_empty();
        let mut first = Vec::new();
        if let Some(rows) = few.filter(|_| may_stream)
            && let Some(pipeline) = self.pipeline(&units, &conditions, wanted, Few { rows, cost })
        {
            (order, first) = (pipeline.order, pipeline.wanted);
            self.streams = true;
        }
        let stage = self.join_in_order(units, conditions, parts.semi, (&order, &first))?;
        self.streams = false;
        let mut scalar = parts.scalar;
        let stage = self.join_scalars(stage, &mut scalar)?;
        let stage = self.filter(stage, &scalar)?;
        let stage = self.filter(stage, &parts.last)?;
        self.gate(stage, &parts.once)
    }

    /// The items that are joined before an item: those that it sees.
    fn required(&self, item: &Item, mine: &[RelationId], relations: &[Vec<RelationId>]) -> ItemSet {
        let mut requires = ItemSet::new(relations.len());
        for relation in self.all_relations(references(item)) {
            if let Some(other) = relations.iter().position(|others| others.contains(&relation))
                && !mine.contains(&relation)
            {
                requires.insert(other);
            }
        }
        if let Item::Optional(optional) = item
            && requires.is_empty()
        {
            // A condition that names nothing of the left side waits for all of it.
            let is_left = |other: &usize| relations[*other].iter().any(|it| optional.left.contains(it));
            (0..relations.len()).filter(is_left).for_each(|other| requires.insert(other));
        }
        requires
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
        (order, wanted): (&[(usize, f64)], &[Sorted]),
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
                None => self.first_stage(unit.side, wanted, *rows)?,
                Some(left) => match unit.outer {
                    Some(outer) => self.attach_optional(left, unit.side, outer, ready)?,
                    None => {
                        let kind = JoinKind::Inner;
                        let join = Join { kind, conditions: ready, null_aware: false, rows: *rows };
                        self.attach(left, unit.side, join)?
                    }
                },
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

    /// The item that the others are joined with, in this order. `rows`: how many of its rows are expected to be read.
    fn first_stage(&mut self, side: Side, wanted: &[Sorted], rows: f64) -> Result<Stage> {
        let mut stage = match side.base {
            Base::Table { relation, table, statistics } if self.streams => {
                self.wanted_rows = Some(rows);
                self.scan(&relation, &table, &statistics, side.own, wanted)?
            }
            _ => self.side_stage(side)?.0,
        };
        stage.plan.rows = stage.plan.rows.min(rows);
        Ok(stage)
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
            Item::Optional(_) => Err(crate::error::SqlError::internal("an optional item has no left side")),
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
pub(crate) fn may_change(items: &[Item], conditions: &[BoundExpr]) -> bool {
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
        Item::Optional(optional) => {
            optional.on.iter().for_each(|on| walk(on, &mut |expr| note(expr)));
            optional.right.conditions.iter().for_each(|condition| walk(condition, &mut |expr| note(expr)));
            optional.right.items.iter().for_each(|item| visit_item(item, note));
        }
        Item::Outer(join) => {
            join.on.iter().for_each(|on| walk(on, &mut |expr| note(expr)));
            for side in [&join.left, &join.right] {
                side.conditions.iter().for_each(|condition| walk(condition, &mut |expr| note(expr)));
                side.items.iter().for_each(|item| visit_item(item, note));
            }
        }
    }
}
