//! Translation of FROM and WHERE into items to join and the conditions that join them.
//!
//! Inner joins and the comma list become one list of items in any order; an outer join is one item with two sides. Simple queries in FROM
//! (views, mostly) are merged into the query around them. Conditions are cut at their ANDs, and each is put where all that it
//! names is known.
//!
//! # Invariants
//! - A condition of WHERE is not moved into the side of an outer join whose rows may be missing; but if it is never true
//!   of missing rows, the join is an inner one.

use std::sync::Arc;

use crate::bind::tree::walk::is_leakproof;
use crate::bind::tree::{
    BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundSelect, Distinct, JoinKind, QueryBody, RelationId,
    RelationKind,
};
use crate::plan::join::equality;
use crate::plan::planner::Planner;
use crate::plan::walk::{conjuncts, has_subquery, is_volatile, relations_of};
use crate::rewrite::substitute::substituted;

/// Items that are joined in any order, and the conditions between them.
#[derive(Debug, Default)]
pub(crate) struct JoinTree {
    pub(crate) items: Vec<Item>,
    pub(crate) conditions: Vec<BoundExpr>,
}

/// An item of a join.
#[derive(Debug)]
pub(crate) enum Item {
    Relation(Arc<BoundRelation>),
    Outer(Box<OuterJoin>),
    Optional(Box<Optional>),
}

/// An outer join: `full`, or else the right side's rows may be missing.
#[derive(Debug)]
pub(crate) struct OuterJoin {
    pub(crate) full: bool,
    pub(crate) left: JoinTree,
    pub(crate) right: JoinTree,
    pub(crate) on: Vec<BoundExpr>,
}

/// The right side of a left join whose left side's items are in the same list: its rows may be missing.
#[derive(Debug)]
pub(crate) struct Optional {
    pub(crate) right: JoinTree,
    pub(crate) on: Vec<BoundExpr>,
    /// The relations of the left side.
    pub(crate) left: Vec<RelationId>,
    /// The relation that it is, if only rows for which it is missing are wanted.
    pub(crate) absent: Option<Arc<BoundRelation>>,
}

impl Item {
    /// The relations that it consists of.
    pub(crate) fn relations(&self) -> Vec<RelationId> {
        match self {
            Item::Relation(relation) => vec![relation.id],
            Item::Optional(optional) => optional.right.relations(),
            Item::Outer(join) => {
                [&join.left, &join.right].into_iter().flat_map(JoinTree::relations).collect()
            }
        }
    }
}

impl JoinTree {
    /// The relations that it consists of.
    pub(crate) fn relations(&self) -> Vec<RelationId> {
        self.items.iter().flat_map(Item::relations).collect()
    }
}

/// Context of flattening: the query whose FROM is flattened.
struct Flatten<'q, 'p, 's> {
    planner: &'p mut Planner<'s>,
    relations: &'q [BoundRelation],
    /// True if queries may be merged into this one.
    merges: bool,
    /// True if conditions that are evaluated with those of a merged query could reveal the values they see: no view
    /// with `security_barrier` is merged then.
    leaks: bool,
}

impl Planner<'_> {
    /// Builds the join tree of a query.
    pub(crate) fn join_tree(&mut self, select: &BoundSelect, from: &[BoundFrom], merges: bool) -> JoinTree {
        let mut tree = JoinTree::default();
        let leaks = leaks(select, from);
        let mut flatten = Flatten { planner: self, relations: &select.relations, merges, leaks };
        for item in from {
            flatten.add(item, &mut tree, false);
        }
        if let Some(filter) = &select.filter {
            let filter = substituted(filter, &self.merged);
            conjuncts(&filter, &mut tree.conditions);
        }
        push_down(tree)
    }
}

impl Flatten<'_, '_, '_> {
    /// Adds an item of FROM. `nullable`: its rows may be missing in the result.
    fn add(&mut self, from: &BoundFrom, tree: &mut JoinTree, nullable: bool) {
        match from {
            BoundFrom::Relation(id) => self.add_relation(*id, tree, nullable),
            BoundFrom::Join { kind: JoinKind::Cross | JoinKind::Inner, left, right, on } => {
                self.add(left, tree, nullable);
                self.add(right, tree, nullable);
                self.conditions(on.as_ref(), &mut tree.conditions);
            }
            BoundFrom::Join { kind, left, right, on } => {
                // A right join is a left join with its sides swapped.
                let (left, right) = if *kind == JoinKind::Right { (right, left) } else { (left, right) };
                let full = *kind == JoinKind::Full;
                let mut join =
                    OuterJoin { full, left: JoinTree::default(), right: JoinTree::default(), on: Vec::new() };
                self.add(left, &mut join.left, nullable || full);
                self.add(right, &mut join.right, true);
                self.conditions(on.as_ref(), &mut join.on);
                tree.items.push(Item::Outer(Box::new(join)));
            }
        }
    }

    fn conditions(&mut self, on: Option<&BoundExpr>, into: &mut Vec<BoundExpr>) {
        if let Some(on) = on {
            conjuncts(&substituted(on, &self.planner.merged), into);
        }
    }

    fn add_relation(&mut self, id: RelationId, tree: &mut JoinTree, nullable: bool) {
        let Some(relation) = self.relations.iter().find(|relation| relation.id == id) else { return };
        if let (RelationKind::Query(query), true) = (&relation.kind, self.merges)
            && let Some(select) = mergeable(query, nullable)
            && !(query.is_barrier && self.leaks)
        {
            let leaks = self.leaks || leaks(select, &select.from);
            let relations = &select.relations;
            let mut inner = Flatten { planner: self.planner, relations, merges: true, leaks };
            for from in &select.from {
                inner.add(from, tree, nullable);
            }
            if let Some(filter) = &select.filter {
                conjuncts(&substituted(filter, &self.planner.merged), &mut tree.conditions);
            }
            let columns = select.targets.iter().map(|target| substituted(&target.expr, &self.planner.merged));
            let columns: Vec<BoundExpr> = columns.collect();
            self.planner.merged.insert(id, columns);
            return;
        }
        let mut relation = relation.clone();
        if relation.lateral
            && let RelationKind::Function { calls, .. } = &mut relation.kind
        {
            for call in calls {
                match call {
                    crate::bind::tree::FunctionCall::Set { args, .. } => {
                        args.iter_mut().for_each(|arg| *arg = substituted(arg, &self.planner.merged));
                    }
                    crate::bind::tree::FunctionCall::Scalar(expr) => {
                        *expr = substituted(expr, &self.planner.merged)
                    }
                }
            }
        }
        tree.items.push(Item::Relation(Arc::new(relation)));
    }
}

/// Returns true if one of a query's conditions could reveal the values it sees.
fn leaks(select: &BoundSelect, from: &[BoundFrom]) -> bool {
    fn on_leaks(from: &BoundFrom) -> bool {
        match from {
            BoundFrom::Relation(_) => false,
            BoundFrom::Join { left, right, on, .. } => {
                on.as_ref().is_some_and(|on| !is_leakproof(on)) || on_leaks(left) || on_leaks(right)
            }
        }
    }
    select.filter.as_ref().is_some_and(|filter| !is_leakproof(filter))
        || select.relations.iter().any(|relation| relation.lateral)
        || from.iter().any(on_leaks)
}

/// The SELECT of a query that can be merged into the one around it.
fn mergeable(query: &BoundQuery, nullable: bool) -> Option<&BoundSelect> {
    let QueryBody::Select(select) = &query.body else { return None };
    let is_plain = query.ctes.is_empty()
        && query.locks.is_empty()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && select.grouping_sets.is_none()
        && select.having.is_none()
        && select.windows.is_empty()
        && select.distinct == Distinct::No
        && !select.set_returning
        && !select.from.is_empty()
        && !select.relations.iter().any(|relation| relation.lateral);
    // A column of a query around it, or a constant, would not become NULL with the rows that are missing.
    let own = |id: &RelationId| select.relations.iter().any(|relation| relation.id == *id);
    let keeps_nulls = || {
        let targets = &mut select.targets.iter();
        targets.all(|target| matches!(&target.expr, BoundExpr::Column { relation, .. } if own(relation)))
    };
    let one_relation = matches!(select.from[..], [BoundFrom::Relation(_)]) && select.filter.is_none();
    let is_simple = |expr: &BoundExpr| !is_volatile(expr) && !crate::plan::walk::has_subquery(expr);
    let merges = is_plain
        && select.targets.iter().all(|target| is_simple(&target.expr))
        && (!nullable || (keeps_nulls() && one_relation));
    merges.then_some(&**select)
}

/// Puts conditions into the sides of outer joins where they can be, and makes inner joins of outer ones where they must be.
fn push_down(mut tree: JoinTree) -> JoinTree {
    let mut items = Vec::new();
    let mut conditions = std::mem::take(&mut tree.conditions);
    let mut waiting = tree.items;
    waiting.reverse();
    while let Some(item) = waiting.pop() {
        let mut join = match item {
            Item::Outer(join) => join,
            relation => {
                items.push(relation);
                continue;
            }
        };
        let rejects = |tree: &JoinTree, conditions: &[BoundExpr]| {
            let relations = tree.relations();
            let is_missing = |relation: RelationId, _: usize| relations.contains(&relation);
            conditions.iter().any(|condition| rejects_missing(condition, &is_missing))
        };
        let (rejects_left, rejects_right) =
            (rejects(&join.left, &conditions), rejects(&join.right, &conditions));
        if join.full && rejects_left && !rejects_right {
            join.full = false;
        } else if join.full && rejects_right && !rejects_left {
            join.full = false;
            std::mem::swap(&mut join.left, &mut join.right);
        } else if rejects_right && (!join.full || rejects_left) {
            // An inner join after all.
            conditions.append(&mut join.on);
            for side in [join.right, join.left] {
                conditions.extend(side.conditions);
                waiting.extend(side.items.into_iter().rev());
            }
            continue;
        }
        if !join.full {
            let left = join.left.relations();
            let is_left = |condition: &mut BoundExpr| {
                let relations = relations_of(condition);
                !relations.is_empty()
                    && relations.iter().all(|relation| left.contains(relation))
                    && !is_volatile(condition)
            };
            join.left.conditions.extend(conditions.extract_if(.., is_left));
            let right = join.right.relations();
            let is_right = |condition: &mut BoundExpr| {
                let relations = relations_of(condition);
                relations.iter().all(|relation| right.contains(relation)) && !is_volatile(condition)
            };
            join.right.conditions.extend(join.on.extract_if(.., is_right));
            let implied = implied_of_right(&join, &right);
            join.right.conditions.extend(implied);
        }
        join.left = push_down(join.left);
        join.right = push_down(join.right);
        items.push(Item::Outer(join));
    }
    JoinTree { items, conditions }
}

/// Adds conditions on the rows of queries in FROM: with `a.x = 5` and `a.x = q.y`, only rows of `q` with `q.y = 5` have a
/// partner, and the query computes no others. A table's rows are looked up instead.
pub(super) fn add_constants(items: &[Item], conditions: &mut Vec<BoundExpr>) {
    let is_query = |id: RelationId| {
        let is_it = |item: &Item| match item {
            Item::Relation(relation) => {
                relation.id == id && matches!(relation.kind, RelationKind::Query(_) | RelationKind::Cte(_))
            }
            _ => false,
        };
        items.iter().any(is_it)
    };
    let is_of_query =
        |expr: &BoundExpr| matches!(expr, BoundExpr::Column { relation, .. } if is_query(*relation));
    let implied = implied_by(conditions, conditions, &is_of_query);
    let is_new = |condition: &BoundExpr| !conditions.contains(condition);
    let implied: Vec<BoundExpr> = implied.into_iter().filter(is_new).collect();
    conditions.extend(implied);
}

/// Derives conditions on an outer join's right side from its left side: with `l.a = 5` and `ON l.a = r.b`, only rows
/// with `r.b = 5` have a partner. `right`: the right side's relations.
///
/// Source: PostgreSQL's `reconsider_outer_join_clauses` (equivclass.c).
fn implied_of_right(join: &OuterJoin, right: &[RelationId]) -> Vec<BoundExpr> {
    let is_of_right = |expr: &BoundExpr| {
        let relations = relations_of(expr);
        let is_right = !relations.is_empty() && relations.iter().all(|relation| right.contains(relation));
        is_right && !is_volatile(expr) && !has_subquery(expr)
    };
    implied_by(&join.left.conditions, &join.on, &is_of_right)
}

/// Derives from equalities with constants, and from equalities between expressions, the constants that wanted
/// expressions are equal to.
fn implied_by(
    conditions: &[BoundExpr],
    equalities: &[BoundExpr],
    is_wanted: &dyn Fn(&BoundExpr) -> bool,
) -> Vec<BoundExpr> {
    let is_plain = |expr: &BoundExpr| !is_volatile(expr) && !has_subquery(expr);
    let mut implied = Vec::new();
    for fixed in conditions {
        let BoundExpr::Operator { operator, ty, .. } = fixed else { continue };
        let Some((one, other)) = equality(fixed) else { continue };
        let (value, constant) = if relations_of(one).is_empty() { (other, one) } else { (one, other) };
        if !relations_of(constant).is_empty() || !is_plain(constant) || value.ty() != constant.ty() {
            continue;
        }
        let partners = equalities.iter().filter_map(equality).filter_map(|(one, other)| match (one, other) {
            (one, partner) if one == value => Some(partner),
            (partner, other) if other == value => Some(partner),
            _ => None,
        });
        let partners = partners.filter(|partner| partner.ty() == value.ty() && is_wanted(partner));
        implied.extend(partners.map(|partner| BoundExpr::Operator {
            operator,
            args: vec![partner.clone(), constant.clone()],
            ty: *ty,
        }));
    }
    implied
}

/// Returns true if a condition is never true where all columns that are missing are NULL.
pub(super) fn rejects_missing(condition: &BoundExpr, is_missing: &dyn Fn(RelationId, usize) -> bool) -> bool {
    match condition {
        BoundExpr::Operator { operator, args, .. } if operator.is_strict => {
            args.iter().any(|arg| is_null_of_missing(arg, is_missing))
        }
        BoundExpr::IsNull { operand, negated: true } => is_null_of_missing(operand, is_missing),
        BoundExpr::InList { operand, .. } => is_null_of_missing(operand, is_missing),
        BoundExpr::Quantified { operand, .. } => is_null_of_missing(operand, is_missing),
        BoundExpr::And(parts) => parts.iter().any(|part| rejects_missing(part, is_missing)),
        BoundExpr::Or(parts) => parts.iter().all(|part| rejects_missing(part, is_missing)),
        BoundExpr::Column { .. } => is_null_of_missing(condition, is_missing),
        _ => false,
    }
}

/// Returns true if an expression is NULL where all columns that are missing are.
fn is_null_of_missing(expr: &BoundExpr, is_missing: &dyn Fn(RelationId, usize) -> bool) -> bool {
    match expr {
        BoundExpr::Column { relation, column, .. } => is_missing(*relation, *column),
        BoundExpr::Operator { operator, args, .. } if operator.is_strict => {
            args.iter().any(|arg| is_null_of_missing(arg, is_missing))
        }
        BoundExpr::Call { function, args, .. } if function.is_strict => {
            args.iter().any(|arg| is_null_of_missing(arg, is_missing))
        }
        BoundExpr::Cast { operand, .. } => is_null_of_missing(operand, is_missing),
        _ => false,
    }
}
