//! UNION, INTERSECT, EXCEPT: the common types of their columns, and the order of their rows.
//!
//! Source: PostgreSQL 15, `transformSetOperationStmt` in `analyze.c`.

use super::{plain_query, plain_select};
use crate::bind::binder::Binder;
use crate::bind::scope::{Clause, Entry};
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundQuery, BoundRelation, BoundSort, BoundTarget, Distinct, QueryBody,
    RelationId, RelationKind, SetOperation,
};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Expr, ExprKind, OrderItem, SetOperator};
use crate::types::{Modifier, Type};

impl Binder<'_> {
    pub(super) fn set_operation(
        &mut self,
        operator: SetOperator,
        all: bool,
        mut left: BoundQuery,
        mut right: BoundQuery,
        at: At,
    ) -> Result<BoundQuery> {
        let (operation, name) = match operator {
            SetOperator::Union => (SetOperation::Union, "UNION"),
            SetOperator::Intersect => (SetOperation::Intersect, "INTERSECT"),
            SetOperator::Except => (SetOperation::Except, "EXCEPT"),
        };
        if left.columns.len() != right.columns.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        let mut types = Vec::with_capacity(left.columns.len());
        for (left, right) in left.columns.iter().zip(&right.columns) {
            let ty = if left.ty == Type::Unknown && right.ty == Type::Unknown {
                Type::Text
            } else {
                self.common(&[left.ty, right.ty], name, at)?
            };
            if !(all && operation == SetOperation::Union) {
                self.check_equality(ty, at)?;
            }
            types.push(ty);
        }
        self.convert_columns(&mut left, &types, at)?;
        self.convert_columns(&mut right, &types, at)?;
        let pairs = left.columns.iter().zip(&right.columns);
        let columns = pairs.map(|(left, right)| BoundColumn {
            name: left.name.clone(),
            ty: left.ty,
            modifier: if left.modifier == right.modifier { left.modifier } else { Modifier::NONE },
            source: None,
        });
        let columns = columns.collect();
        let id = self.new_relation();
        let body = QueryBody::Set { operation, all, left: Box::new(left), right: Box::new(right) };
        Ok(plain_query(id, body, columns))
    }

    /// A set operation, VALUES or query in parentheses with an ORDER BY of its own.
    pub(super) fn sorted(
        &mut self,
        inner: BoundQuery,
        items: &[OrderItem],
        id: RelationId,
    ) -> Result<BoundQuery> {
        if items.is_empty() && inner.order_by.is_empty() && inner.limit.is_none() && inner.offset.is_none() {
            return Ok(inner);
        }
        let is_set = matches!(inner.body, QueryBody::Set { .. })
            && inner.order_by.is_empty()
            && inner.limit.is_none()
            && inner.offset.is_none();
        if is_set {
            let mut inner = inner;
            for item in items {
                let target = self.sort_by_column(&item.expr, &inner.columns)?;
                self.check_ordering(inner.columns[target].ty, item.expr.at)?;
                if !inner.order_by.iter().any(|known: &BoundSort| known.target == target) {
                    let sort =
                        BoundSort { target, descending: item.descending, nulls_first: item.nulls_first };
                    inner.order_by.push(sort);
                }
            }
            return Ok(inner);
        }
        self.select_from_query(inner, items, id)
    }

    /// `SELECT * FROM (query) ORDER BY …`.
    fn select_from_query(
        &mut self,
        inner: BoundQuery,
        items: &[OrderItem],
        id: RelationId,
    ) -> Result<BoundQuery> {
        let name = "*VALUES*";
        let columns = inner.columns.clone();
        let relation = self.add_relation(name, RelationKind::Query(Box::new(inner)), columns.clone(), false);
        let entry = Entry::of_relation(name, None, relation, &columns);
        self.scope().entries.push(entry);
        let mut targets = wrapped_targets(relation, &columns);
        let mut order_by = Vec::with_capacity(items.len());
        for item in items {
            let position = match self.ordinal(&item.expr, columns.len(), Clause::OrderBy)? {
                Some(position) => position,
                None => {
                    let expr = self.in_clause(Clause::OrderBy, |binder| binder.expr(&item.expr))?;
                    let expr = self.known(expr, item.expr.at)?;
                    targets.iter().position(|target| target.expr == expr).unwrap_or_else(|| {
                        targets.push(BoundTarget { expr, name: "?column?".to_string() });
                        targets.len() - 1
                    })
                }
            };
            self.check_ordering(targets[position].expr.ty(), item.expr.at)?;
            order_by.push(BoundSort {
                target: position,
                descending: item.descending,
                nulls_first: item.nulls_first,
            });
        }
        let relations = std::mem::take(&mut self.scope().relations);
        let mut select = plain_select(relations, relation, targets);
        select.set_returning = self.scope().set_returning;
        let mut query = plain_query(id, QueryBody::Select(Box::new(select)), columns);
        query.order_by = order_by;
        Ok(query)
    }

    /// ORDER BY after a set operation names result columns only.
    fn sort_by_column(&self, expr: &Expr, columns: &[BoundColumn]) -> Result<usize> {
        if let Some(position) = self.ordinal(expr, columns.len(), Clause::OrderBy)? {
            return Ok(position);
        }
        if let ExprKind::Column(parts) = &expr.kind
            && let [name] = &parts[..]
        {
            let mut matching = columns.iter().enumerate().filter(|(_, column)| column.name == name.text);
            return match (matching.next(), matching.next()) {
                (Some((position, _)), None) => Ok(position),
                (Some(_), Some(_)) => {
                    let message = format!("ORDER BY \"{}\" is ambiguous", name.text);
                    Err(self.error(expr.at, SqlState::AMBIGUOUS_COLUMN, message))
                }
                (None, _) => {
                    let message = format!("column \"{}\" does not exist", name.text);
                    Err(self.error(expr.at, SqlState::UNDEFINED_COLUMN, message))
                }
            };
        }
        let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
        let hint = "Add the expression/function to every SELECT, or move the UNION into a FROM clause.";
        Err(self.error(expr.at, SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint))
    }

    /// Makes a query's columns these types.
    pub fn convert_columns(&mut self, query: &mut BoundQuery, types: &[Type], at: At) -> Result<()> {
        if query.columns.iter().zip(types).all(|(column, &ty)| column.ty == ty) {
            return Ok(());
        }
        let sorted = !query.order_by.is_empty();
        match &mut query.body {
            QueryBody::Values(rows) => {
                for row in rows {
                    for (cell, &ty) in row.iter_mut().zip(types) {
                        let taken = std::mem::replace(cell, BoundExpr::null(ty));
                        *cell = self.implicit(taken, ty, at)?;
                    }
                }
            }
            QueryBody::Select(select) if select.distinct == Distinct::No && !sorted => {
                for (target, &ty) in select.targets.iter_mut().zip(types) {
                    let taken = std::mem::replace(&mut target.expr, BoundExpr::null(ty));
                    target.expr = self.implicit(taken, ty, at)?;
                }
            }
            _ => return self.convert_around(query, types, at),
        }
        set_types(&mut query.columns, types);
        Ok(())
    }

    /// Converts by a SELECT around the query, so that its sorting and its duplicates stay what they were.
    fn convert_around(&mut self, query: &mut BoundQuery, types: &[Type], at: At) -> Result<()> {
        let relation = self.new_relation();
        let id = self.new_relation();
        let columns = query.columns.clone();
        let placeholder = plain_query(id, QueryBody::Values(Vec::new()), columns.clone());
        let mut inner = std::mem::replace(query, placeholder);
        if let QueryBody::Select(select) = &mut inner.body {
            // Literals do not change what is sorted or equal: they get their type in place.
            for (target, (column, &ty)) in select.targets.iter_mut().zip(inner.columns.iter_mut().zip(types))
            {
                if column.ty == Type::Unknown {
                    let taken = std::mem::replace(&mut target.expr, BoundExpr::null(ty));
                    target.expr = self.implicit(taken, ty, at)?;
                    column.ty = ty;
                }
            }
        }
        let inner_columns = inner.columns.clone();
        let mut targets = wrapped_targets(relation, &inner_columns);
        for (target, &ty) in targets.iter_mut().zip(types) {
            let taken = std::mem::replace(&mut target.expr, BoundExpr::null(ty));
            target.expr = self.implicit(taken, ty, at)?;
        }
        let kind = RelationKind::Query(Box::new(inner));
        let around = BoundRelation {
            id: relation,
            name: "*SELECT*".to_string(),
            kind,
            columns: inner_columns,
            lateral: false,
            indexed: Vec::new(),
        };
        query.body = QueryBody::Select(Box::new(plain_select(vec![around], relation, targets)));
        set_types(&mut query.columns, types);
        Ok(())
    }
}

fn wrapped_targets(relation: RelationId, columns: &[BoundColumn]) -> Vec<BoundTarget> {
    let targets = columns.iter().enumerate().map(|(column, it)| BoundTarget {
        expr: BoundExpr::Column { relation, column, ty: it.ty },
        name: it.name.clone(),
    });
    targets.collect()
}

fn set_types(columns: &mut [BoundColumn], types: &[Type]) {
    for (column, &ty) in columns.iter_mut().zip(types) {
        if column.ty != ty {
            (column.ty, column.modifier) = (ty, Modifier::NONE);
        }
    }
}
