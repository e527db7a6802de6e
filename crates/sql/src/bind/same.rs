//! Equality of expressions, also of those with subqueries.
//!
//! # Invariants
//! - Relations and common table expressions that a subquery defines are numbered in the order of their definition, so that
//!   equal subqueries become equal trees; those of the queries around keep their ids.
//!
//! Source: PostgreSQL 15, `equal` in `equalfuncs.c`, whose trees number relations from each query's beginning.

use hashbrown::HashMap;

use crate::bind::grouping::contains;
use crate::bind::tree::walk::children_mut;
use crate::bind::tree::{
    BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundSelect, CteBody, CteId, FrameBound, FunctionCall,
    QueryBody, RelationId, RelationKind,
};

/// Returns true if two expressions mean the same.
pub(super) fn are_same(left: &BoundExpr, right: &BoundExpr) -> bool {
    let has_subquery = |expr| contains(expr, &|part| matches!(part, BoundExpr::Subquery(_)));
    left == right || (has_subquery(left) && has_subquery(right) && numbered(left) == numbered(right))
}

fn numbered(expr: &BoundExpr) -> BoundExpr {
    let mut expr = expr.clone();
    Numbers::default().expr(&mut expr);
    expr
}

/// The numbers of the definitions so far: from the highest downward, which no binder reaches.
#[derive(Default)]
struct Numbers {
    relations: HashMap<RelationId, RelationId>,
    ctes: HashMap<CteId, CteId>,
}

impl Numbers {
    fn define(&mut self, id: &mut RelationId) {
        let number = RelationId(u32::MAX - self.relations.len() as u32);
        self.relations.insert(*id, number);
        *id = number;
    }

    fn rename(&self, id: &mut RelationId) {
        *id = self.relations.get(id).copied().unwrap_or(*id);
    }

    fn expr(&mut self, expr: &mut BoundExpr) {
        crate::stack::grow(|| {
            children_mut(expr, &mut |child| self.expr(child));
            match expr {
                BoundExpr::Column { relation: id, .. } | BoundExpr::Aggregate { query: id, .. } => {
                    self.rename(id);
                }
                BoundExpr::Subquery(subquery) => self.query(&mut subquery.query),
                _ => {}
            }
        });
    }

    fn exprs<'b>(&mut self, exprs: impl IntoIterator<Item = &'b mut BoundExpr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn query(&mut self, query: &mut BoundQuery) {
        self.define(&mut query.id);
        for cte in &mut query.ctes {
            let number = CteId(u32::MAX - self.ctes.len() as u32);
            self.ctes.insert(cte.id, number);
            cte.id = number;
            // References are counted over the whole statement.
            cte.references = 0;
            match &mut cte.body {
                CteBody::Query(query) => self.query(query),
                CteBody::Recursive { initial, step, .. } => {
                    self.query(initial);
                    self.query(step);
                }
                // Only a statement itself has one that writes.
                CteBody::Statement(_) => {}
            }
        }
        match &mut query.body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::Set { left, right, .. } => {
                self.query(left);
                self.query(right);
            }
            QueryBody::Values(rows) => self.exprs(rows.iter_mut().flatten()),
        }
        self.exprs(query.limit.iter_mut().chain(&mut query.offset));
        query.locks.iter_mut().flat_map(|lock| &mut lock.relations).for_each(|id| self.rename(id));
    }

    fn select(&mut self, select: &mut BoundSelect) {
        select.relations.iter_mut().for_each(|relation| self.define(&mut relation.id));
        select.relations.iter_mut().for_each(|relation| self.relation(relation));
        select.from.iter_mut().for_each(|from| self.from(from));
        self.exprs(select.filter.iter_mut().chain(&mut select.having).chain(&mut select.group_by));
        for aggregate in &mut select.aggregates {
            self.exprs(aggregate.args.iter_mut().chain(&mut aggregate.filter));
            self.exprs(aggregate.order_by.iter_mut().map(|key| &mut key.expr));
        }
        for window in &mut select.windows {
            self.exprs(window.args.iter_mut().chain(&mut window.filter).chain(&mut window.partition_by));
            self.exprs(window.order_by.iter_mut().map(|key| &mut key.expr));
            for bound in [&mut window.frame.start, &mut window.frame.end] {
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                    self.expr(offset);
                }
            }
        }
        self.exprs(select.targets.iter_mut().map(|target| &mut target.expr));
    }

    fn relation(&mut self, relation: &mut BoundRelation) {
        self.exprs(relation.indexed.iter_mut().map(|indexed| &mut indexed.expr));
        match &mut relation.kind {
            RelationKind::Table(_) => {}
            RelationKind::Query(query) => self.query(query),
            RelationKind::Cte(id) => *id = self.ctes.get(id).copied().unwrap_or(*id),
            RelationKind::Function { calls, .. } => calls.iter_mut().for_each(|call| match call {
                FunctionCall::Set { args, .. } => self.exprs(args),
                FunctionCall::Scalar(expr) => self.expr(expr),
            }),
        }
    }

    fn from(&mut self, from: &mut BoundFrom) {
        match from {
            BoundFrom::Relation(id) => self.rename(id),
            BoundFrom::Join { left, right, on, .. } => {
                self.from(left);
                self.from(right);
                self.exprs(on);
            }
        }
    }
}
