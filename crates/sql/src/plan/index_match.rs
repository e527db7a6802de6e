//! Restrictions of a table's columns by conditions, the hidden columns of its indexes included.
//!
//! # Invariants
//! - A condition on an index's expression restricts the hidden column that stores it. Conditions that imply the
//!   predicate of a partial index restrict the predicate's column to true; those that the predicate implies need no
//!   filter where that column is read.

use crate::bind::tree::walk::{children_mut, walk};
use crate::bind::tree::{BoundExpr, BoundRelation, RelationId};
use crate::plan::path::{self, Restriction};
use crate::plan::planner::Planner;
use crate::rewrite::implies;

impl Planner<'_> {
    /// Collects the restrictions that numbered conditions put on the columns of a relation. The first `own` ones name
    /// no other relation.
    pub(crate) fn restrictions<'c>(
        &mut self,
        relation: &BoundRelation,
        conditions: impl Iterator<Item = (usize, &'c BoundExpr)>,
        own: usize,
    ) -> Vec<Restriction> {
        let mut found = Vec::new();
        let mut of_relation = Vec::new();
        for (number, condition) in conditions {
            found.extend(path::restriction(condition, number, relation.id, &|_| true));
            if relation.indexed.is_empty() {
                continue;
            }
            self.depends_on_values |= has_parameter(condition);
            if number < own {
                of_relation.push((number, condition));
            }
            let mut seen = condition.clone();
            if name_hidden_columns(&mut seen, relation) {
                found.extend(path::restriction(&seen, number, relation.id, &|_| true));
            }
        }
        let all: Vec<&BoundExpr> = of_relation.iter().map(|(_, condition)| *condition).collect();
        for indexed in relation.indexed.iter().filter(|indexed| indexed.is_predicate) {
            if implies(&all, &indexed.expr) {
                let follows = |(_, condition): &&(usize, &BoundExpr)| implies(&[&indexed.expr], condition);
                let settles = of_relation.iter().filter(follows).map(|(number, _)| *number).collect();
                found.push(Restriction::implied(indexed.column, settles));
            }
        }
        found
    }
}

/// Replaces the expressions of indexes by the hidden columns that store them. Returns true if there were any.
fn name_hidden_columns(expr: &mut BoundExpr, relation: &BoundRelation) -> bool {
    let keys = relation.indexed.iter().filter(|indexed| !indexed.is_predicate);
    for indexed in keys {
        if *expr == indexed.expr {
            *expr = BoundExpr::Column { relation: relation.id, column: indexed.column, ty: expr.ty() };
            return true;
        }
    }
    let mut found = false;
    children_mut(expr, &mut |child| found |= name_hidden_columns(child, relation));
    found
}

/// The column that an expression is, or that stores it for an index on it.
pub(super) fn column_of(expr: &BoundExpr, relation: &BoundRelation) -> Option<(RelationId, usize)> {
    if let BoundExpr::Column { relation, column, .. } = expr {
        return Some((*relation, *column));
    }
    let mut keys = relation.indexed.iter().filter(|indexed| !indexed.is_predicate);
    keys.find(|indexed| indexed.expr == *expr).map(|indexed| (relation.id, indexed.column))
}

/// Returns true if an expression has a parameter in it.
pub(super) fn has_parameter(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| found |= matches!(part, BoundExpr::Parameter { .. }));
    found
}
