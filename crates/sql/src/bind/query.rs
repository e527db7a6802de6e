//! Queries: set operations, VALUES, WITH, LIMIT, row locks.
//!
//! Source: PostgreSQL 15, `transformSetOperationStmt` in `analyze.c`, `parse_cte.c`.

use crate::bind::binder::{Binder, CteState, VisibleCte};
use crate::bind::from::plain_column;
use crate::bind::scope::{Clause, Entry};
use crate::bind::tree::{
    BoundColumn, BoundCte, BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundSelect, BoundSort,
    BoundTarget, CteBody, Distinct, LockStrength, LockWait, QueryBody, RelationId, RelationKind, RowLock,
    SetOperation,
};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{
    At, Cte, Expr, ExprKind, LockClause, LockStrengthName, LockWaitName, OrderItem, Query, QueryBodySyntax,
    SetOperator, Statement, With,
};
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
                let left = self.body(left)?;
                let right = self.body(right)?;
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

    fn set_operation(
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
    fn sorted(&mut self, inner: BoundQuery, items: &[OrderItem], id: RelationId) -> Result<BoundQuery> {
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

    /// ORDER BY behind a set operation names result columns only.
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

    /// FOR UPDATE and its kin.
    fn locks(&mut self, query: &Query, bound: &mut BoundQuery) -> Result<()> {
        for clause in &query.locks {
            let strength = match clause.strength {
                LockStrengthName::KeyShare => LockStrength::KeyShare,
                LockStrengthName::Share => LockStrength::Share,
                LockStrengthName::NoKeyUpdate => LockStrength::NoKeyUpdate,
                LockStrengthName::Update => LockStrength::Update,
            };
            let wait = match clause.wait {
                LockWaitName::Wait => LockWait::Wait,
                LockWaitName::NoWait => LockWait::NoWait,
                LockWaitName::SkipLocked => LockWait::SkipLocked,
            };
            let relations = self.locked_relations(clause, bound)?;
            if let QueryBody::Select(select) = &bound.body {
                let is_named = |it: &&BoundRelation| {
                    clause.of.is_empty() || clause.of.iter().any(|of| of.text == it.name)
                };
                let views = select.relations.iter().filter(is_named).map(|it| it.id);
                let all: Vec<RelationId> =
                    views.filter(|id| !relations.contains(id)).chain(relations.iter().copied()).collect();
                self.requires_locks(&all);
            }
            bound.locks.push(RowLock { strength, wait, relations });
        }
        Ok(())
    }

    fn locked_relations(&self, clause: &LockClause, bound: &BoundQuery) -> Result<Vec<RelationId>> {
        let name = match clause.strength {
            LockStrengthName::KeyShare => "FOR KEY SHARE",
            LockStrengthName::Share => "FOR SHARE",
            LockStrengthName::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrengthName::Update => "FOR UPDATE",
        };
        let refused = |what: &str| {
            let message = format!("{name} is not allowed with {what}");
            Err(self.error(clause.at, SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        let QueryBody::Select(select) = &bound.body else { return refused("UNION/INTERSECT/EXCEPT") };
        match () {
            () if select.distinct != Distinct::No => return refused("DISTINCT clause"),
            () if select.grouping_sets.is_some() && !select.group_by.is_empty() => {
                return refused("GROUP BY clause");
            }
            () if select.having.is_some() => return refused("HAVING clause"),
            () if select.grouping_sets.is_some() => return refused("aggregate functions"),
            () if !select.windows.is_empty() => return refused("window functions"),
            () if select.set_returning => return refused("set-returning functions in the target list"),
            () => {}
        }
        if clause.of.is_empty() {
            let lockable =
                select.relations.iter().filter(|relation| !matches!(relation.kind, RelationKind::Cte(_)));
            return Ok(lockable.flat_map(tables_of).collect());
        }
        let mut relations = Vec::new();
        for of in &clause.of {
            let found = select.relations.iter().find(|relation| relation.name == of.text);
            let Some(found) = found else {
                let message = format!("relation \"{}\" in {name} clause not found in FROM clause", of.text);
                return Err(self.error(of.at, SqlState::UNDEFINED_TABLE, message));
            };
            relations.extend(tables_of(found));
        }
        Ok(relations)
    }

    /// WITH: its expressions become visible one after the other.
    pub fn with(&mut self, with: &With) -> Result<Vec<BoundCte>> {
        let mut bound = Vec::with_capacity(with.ctes.len());
        for (position, cte) in with.ctes.iter().enumerate() {
            if with.ctes[..position].iter().any(|other| other.name.text == cte.name.text) {
                let message = format!("WITH query name \"{}\" specified more than once", cte.name.text);
                return Err(self.error(cte.name.at, SqlState::DUPLICATE_ALIAS, message));
            }
            let cte = self.cte_definition(cte, with.recursive)?;
            let silent = matches!(&cte.body, CteBody::Statement(statement) if statement.columns.is_empty());
            let state = if silent { CteState::Silent } else { CteState::Whole };
            let visible =
                VisibleCte { id: cte.id, name: cte.name.clone(), columns: cte.columns.clone(), state };
            self.scope().ctes.push(visible);
            bound.push(cte);
        }
        Ok(bound)
    }

    fn cte_definition(&mut self, cte: &Cte, recursive: bool) -> Result<BoundCte> {
        let id = self.new_cte();
        let (body, columns) = match cte.statement.as_ref() {
            Statement::Query(query) => {
                let found = if recursive { self.recursive_cte(cte, query, id)? } else { None };
                match found {
                    Some(found) => found,
                    None => {
                        let mut query = self.query(query)?;
                        self.name_columns(&mut query.columns, cte)?;
                        let columns = query.columns.clone();
                        (CteBody::Query(query), columns)
                    }
                }
            }
            statement => {
                if self.scopes.len() > 1 {
                    let message =
                        "WITH clause containing a data-modifying statement must be at the top level";
                    return Err(self.error(cte.name.at, SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let mut statement = self.data_statement(statement)?;
                self.name_columns(&mut statement.columns, cte)?;
                let columns = statement.columns.clone();
                (CteBody::Statement(Box::new(statement)), columns)
            }
        };
        let (name, materialized) = (cte.name.text.clone(), cte.materialized);
        Ok(BoundCte { id, name, columns, body, materialized, references: 0 })
    }

    fn name_columns(&self, columns: &mut [BoundColumn], cte: &Cte) -> Result<()> {
        if cte.columns.len() > columns.len() {
            let message = format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                cte.name.text,
                columns.len(),
                cte.columns.len()
            );
            return Err(self.error(cte.name.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, name) in columns.iter_mut().zip(&cte.columns) {
            column.name = name.text.clone();
        }
        Ok(())
    }

    /// `initial UNION [ALL] step`, if the step names the expression itself.
    fn recursive_cte(
        &mut self,
        cte: &Cte,
        query: &Query,
        id: crate::bind::tree::CteId,
    ) -> Result<Option<(CteBody, Vec<BoundColumn>)>> {
        let QueryBodySyntax::Set { operator: SetOperator::Union, all, left, right, at } = &query.body else {
            return Ok(None);
        };
        if query.with.is_some() {
            return Ok(None);
        }
        self.enter();
        let bound = self.recursive_parts(cte, left, right, id, *at);
        self.leave();
        let Some((initial, step, columns)) = bound? else { return Ok(None) };
        if !query.order_by.is_empty() || query.limit.is_some() || query.offset.is_some() {
            let message = "ORDER BY, LIMIT and OFFSET in a recursive query are not implemented";
            return Err(self.error(query.at, SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Some((CteBody::Recursive { initial, step, all: *all }, columns)))
    }

    fn recursive_parts(
        &mut self,
        cte: &Cte,
        left: &QueryBodySyntax,
        right: &QueryBodySyntax,
        id: crate::bind::tree::CteId,
        at: At,
    ) -> Result<Option<(BoundQuery, BoundQuery, Vec<BoundColumn>)>> {
        let name = cte.name.text.clone();
        self.scope().ctes.push(VisibleCte { id, name, columns: Vec::new(), state: CteState::Initial });
        let mut initial = self.body(left)?;
        self.scope().ctes.pop();
        let known: Vec<Type> = initial
            .columns
            .iter()
            .map(|column| if column.ty == Type::Unknown { Type::Text } else { column.ty })
            .collect();
        self.convert_columns(&mut initial, &known, at)?;
        let mut columns = initial.columns.clone();
        columns.iter_mut().for_each(|column| column.source = None);
        self.name_columns(&mut columns, cte)?;
        let name = cte.name.text.clone();
        let visible = VisibleCte { id, name, columns: columns.clone(), state: CteState::Recursive };
        self.scope().ctes.push(visible);
        let mut step = self.body(right)?;
        match self.cte_references.get(&id).copied().unwrap_or(0) {
            0 => return Ok(None),
            1 => {}
            _ => {
                let message = format!(
                    "recursive reference to query \"{}\" must not appear more than once",
                    cte.name.text
                );
                return Err(self.error(at, SqlState::INVALID_RECURSION, message));
            }
        }
        if let QueryBody::Select(select) = &step.body
            && !select.aggregates.is_empty()
        {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(self.error(at, SqlState::INVALID_RECURSION, message));
        }
        if step.columns.len() != columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        for (position, (column, found)) in columns.iter().zip(&step.columns).enumerate() {
            let overall = self.common(&[column.ty, found.ty], "UNION", at)?;
            if overall != column.ty {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    cte.name.text,
                    position + 1,
                    self.type_text(column.ty),
                    self.type_text(overall)
                );
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
            }
        }
        self.convert_columns(&mut step, &known, at)?;
        Ok(Some((initial, step, columns)))
    }
}

/// The relations of tables that a relation consists of: a view's or a subquery's, too.
fn tables_of(relation: &BoundRelation) -> Vec<RelationId> {
    match &relation.kind {
        RelationKind::Table(_) => vec![relation.id],
        RelationKind::Query(query) => match &query.body {
            QueryBody::Select(select) => select.relations.iter().flat_map(tables_of).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
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
