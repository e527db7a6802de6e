//! Queries: set operations, VALUES, WITH, LIMIT, row locks.
//!
//! Source: PostgreSQL 15, `transformSetOperationStmt` in `analyze.c`, `parse_cte.c`.

mod locks;
mod set_operation;
pub(in crate::bind) mod traversal;
mod with;

use crate::bind::binder::Binder;
use crate::bind::from::plain_column;
use crate::bind::scope::Clause;
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundSelect, BoundTarget, Distinct,
    QueryBody, RelationId,
};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{Expr, Query, QueryBodySyntax, SetOperator};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type};

impl Binder<'_> {
    /// A query whose columns of unknown type are text.
    pub fn query(&mut self, query: &Query) -> Result<BoundQuery> {
        let mut bound = self.query_with_unknowns(query)?;
        if bound.columns.iter().any(|column| column.ty == Type::Unknown) {
            let types: Vec<Type> = bound
                .columns
                .iter()
                .map(|column| if column.ty == Type::Unknown { Type::Text } else { column.ty })
                .collect();
            self.convert_columns(&mut bound, &types, query.at)?;
        }
        Ok(bound)
    }

    /// A query whose literals may still be of unknown type, for a caller that knows their target types.
    pub fn query_with_unknowns(&mut self, query: &Query) -> Result<BoundQuery> {
        let id = self.enter();
        let bound = self.query_in_scope(query, id);
        self.leave();
        bound
    }

    fn query_in_scope(&mut self, query: &Query, id: RelationId) -> Result<BoundQuery> {
        let mut ctes = match &query.with {
            Some(with) => self.with(with)?,
            None => Vec::new(),
        };
        let mut bound = match &query.body {
            QueryBodySyntax::Select(select) => {
                let parts = self.select(select, &query.order_by)?;
                let mut bound = plain_query(id, QueryBody::Select(Box::new(parts.select)), parts.columns);
                bound.order_by = parts.order_by;
                bound
            }
            QueryBodySyntax::Values(rows) if query.order_by.is_empty() => self.values(rows, id)?,
            body => {
                let inner = self.body(body)?;
                self.sorted(inner, &query.order_by, id)?
            }
        };
        self.limits(query, &mut bound)?;
        self.locks(query, &mut bound)?;
        for cte in &mut ctes {
            cte.references = self.cte_references.get(&cte.id).copied().unwrap_or(0);
        }
        ctes.append(&mut bound.ctes);
        bound.ctes = ctes;
        Ok(bound)
    }

    /// One side of a set operation, or a query in parentheses.
    fn body(&mut self, body: &QueryBodySyntax) -> Result<BoundQuery> {
        crate::stack::grow(|| match body {
            QueryBodySyntax::Query(query) => self.query_with_unknowns(query),
            QueryBodySyntax::Set { operator, all, left, right, at } => {
                let both = (*operator == SetOperator::Intersect && *all).then_some("INTERSECT");
                let behind = if *operator == SetOperator::Except { Some("EXCEPT") } else { both };
                let left = self.in_place(both, |binder| binder.body(left))?;
                let right = self.in_place(behind, |binder| binder.body(right))?;
                self.set_operation(*operator, *all, left, right, *at)
            }
            QueryBodySyntax::Values(rows) => {
                let id = self.enter();
                let values = self.values(rows, id);
                self.leave();
                values
            }
            QueryBodySyntax::Select(select) => {
                let id = self.enter();
                let parts = self.select(select, &[]);
                self.leave();
                let parts = parts?;
                Ok(plain_query(id, QueryBody::Select(Box::new(parts.select)), parts.columns))
            }
        })
    }

    /// VALUES: all rows with the same number of cells, each column of one type.
    fn values(&mut self, rows: &[Vec<Expr>], id: RelationId) -> Result<BoundQuery> {
        let width = rows.first().map_or(0, Vec::len);
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != width {
                let at = row.first().map_or(0, |expr| expr.at);
                return Err(self.error(
                    at,
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            bound.push(self.in_clause(Clause::Values, |binder| binder.exprs(row))?);
        }
        let mut columns = Vec::with_capacity(width);
        for position in 0..width {
            let at = rows[0][position].at;
            let types: Vec<Type> = bound.iter().map(|row| row[position].ty()).collect();
            let ty = if types.iter().all(|&ty| ty == Type::Unknown) {
                Type::Unknown
            } else {
                self.common(&types, "VALUES", at)?
            };
            for (row, syntax) in bound.iter_mut().zip(rows) {
                if ty != Type::Unknown {
                    let cell = std::mem::replace(&mut row[position], BoundExpr::null(ty));
                    row[position] = self.implicit(cell, ty, syntax[position].at)?;
                }
            }
            let mut modifiers = bound.iter().map(|row| self.modifier_of(&row[position]));
            let first = modifiers.next().unwrap_or(Modifier::NONE);
            let modifier = if modifiers.all(|it| it == first) { first } else { Modifier::NONE };
            columns.push(BoundColumn { modifier, ..plain_column(&format!("column{}", position + 1), ty) });
        }
        Ok(plain_query(id, QueryBody::Values(bound), columns))
    }

    fn limits(&mut self, query: &Query, bound: &mut BoundQuery) -> Result<()> {
        if let Some(limit) = &query.limit {
            bound.limit = Some(self.limit(limit, Clause::Limit)?);
        }
        if let Some(offset) = &query.offset {
            bound.offset = Some(self.limit(offset, Clause::Offset)?);
        }
        bound.with_ties = query.with_ties;
        if query.with_ties && bound.order_by.is_empty() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(self.error(query.at, SqlState::SYNTAX_ERROR, message));
        }
        Ok(())
    }

    fn limit(&mut self, expr: &Expr, clause: Clause) -> Result<BoundExpr> {
        let bound = self.in_clause(clause, |binder| binder.expr(expr))?;
        let owned = self.scope().owned.clone();
        if crate::bind::tree::walk::relations_of(&bound).iter().any(|relation| owned.contains(relation)) {
            let message = format!("argument of {} must not contain variables", clause.name());
            return Err(self.error(expr.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        let from = bound.ty();
        if from != Type::Unknown && from.category() != crate::types::Category::Numeric {
            let message = format!(
                "argument of {} must be type bigint, not type {}",
                clause.name(),
                self.type_text(from)
            );
            return Err(self.error(expr.at, SqlState::DATATYPE_MISMATCH, message));
        }
        self.coerce(bound, Type::Int8, Modifier::NONE, CastContext::Assignment, expr.at)
    }
}

/// A query of a body alone.
pub(crate) fn plain_query(id: RelationId, body: QueryBody, columns: Vec<BoundColumn>) -> BoundQuery {
    BoundQuery {
        id,
        ctes: Vec::new(),
        body,
        order_by: Vec::new(),
        limit: None,
        with_ties: false,
        offset: None,
        locks: Vec::new(),
        columns,
        is_barrier: false,
        view: None,
    }
}

/// A SELECT of these targets from one relation.
pub(crate) fn plain_select(
    relations: Vec<BoundRelation>,
    relation: RelationId,
    targets: Vec<BoundTarget>,
) -> BoundSelect {
    BoundSelect {
        relations,
        from: vec![BoundFrom::Relation(relation)],
        filter: None,
        group_by: Vec::new(),
        grouping_sets: None,
        aggregates: Vec::new(),
        having: None,
        windows: Vec::new(),
        targets,
        distinct: Distinct::No,
        set_returning: false,
    }
}
