//! INSERT and ON CONFLICT.
//!
//! Source: PostgreSQL 15, `transformInsertStmt` in `analyze.c`.

mod on_conflict;

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::query::plain_query;
use crate::bind::rows::always_generated;
use crate::bind::scope::{Clause, XMAX};
use crate::bind::tree::{
    BoundExpr, BoundInsert, BoundQuery, BoundStatement, ConflictAction, OnConflict, QueryBody, RelationId,
    StatementKind,
};
use crate::catalog::rights::INSERT;
use crate::catalog::{ColumnOrigin, Table};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{Expr, ExprKind, Insert, InsertColumn, Query, QueryBodySyntax};
use crate::types::{Type, Value};

/// The target of an assigned value.
#[derive(Clone, Copy)]
struct Given<'s> {
    column: usize,
    /// The part of the column, if it is not the whole.
    part: Option<&'s Expr>,
}

impl Binder<'_> {
    pub fn insert(&mut self, insert: &Insert) -> Result<BoundStatement> {
        self.enter();
        let bound = self.insert_in_scope(insert);
        self.leave();
        bound
    }

    fn insert_in_scope(&mut self, insert: &Insert) -> Result<BoundStatement> {
        let mut ctes = match &insert.with {
            Some(with) => self.with(with)?,
            None => Vec::new(),
        };
        let written = self.written(&insert.table, "insert into")?;
        let table = written.table.clone();
        let (target, entry) = self.written_entry(&written, insert.alias.as_ref());
        let columns = self.insert_columns(&table, &insert.columns)?;
        let source = self.new_relation();
        let query = match &insert.source {
            Some(query) => Some(self.insert_source(
                query,
                &table,
                &columns,
                !insert.columns.is_empty(),
                insert.overriding,
            )?),
            None => None,
        };
        let given = query.as_ref().map_or(0, |query| query.columns.len());
        let covered: Vec<usize> = columns.iter().take(given).map(|given| given.column).collect();
        self.requires_write(target, INSERT, Some(&covered));
        let values =
            self.insert_values(&table, &columns[..given], query.as_ref(), source, insert.overriding)?;
        let generated = self.generated(&table, target, None)?;
        let mut checks = self.checks(&table, target, None)?;
        checks.extend(written.filters.checks.iter().cloned());
        let on_conflict = match &insert.on_conflict {
            Some(clause) => Some(self.on_conflict(clause, &table, target, entry.clone())?),
            None => None,
        };
        self.scope().entries = vec![entry];
        self.scope().system_columns = match written.view {
            Some(_) => Vec::new(),
            None => system_columns(&table, target, on_conflict.as_ref()),
        };
        let (returning, result) = self.returning(&insert.returning)?;
        for cte in &mut ctes {
            cte.references = self.cte_references.get(&cte.id).copied().unwrap_or(0);
        }
        let insert = BoundInsert {
            ctes,
            table,
            target,
            query,
            source,
            values,
            generated,
            checks,
            on_conflict,
            returning,
        };
        Ok(BoundStatement {
            kind: StatementKind::Insert(Box::new(insert)),
            parameters: Vec::new(),
            columns: result,
        })
    }

    /// The columns that values are given for: those named, or all.
    fn insert_columns<'s>(&mut self, table: &Table, named: &'s [InsertColumn]) -> Result<Vec<Given<'s>>> {
        if named.is_empty() {
            let columns = match &self.scope().written {
                Some(view) => view.table_columns(),
                None => (0..table.visible().len()).collect(),
            };
            let repeated = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at]));
            if let Some(at) = repeated {
                let name = &table.columns[columns[at]].name;
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(self.error(0, SqlState::SYNTAX_ERROR, message));
            }
            return Ok(columns.into_iter().map(|column| Given { column, part: None }).collect());
        }
        let mut columns: Vec<Given<'s>> = Vec::with_capacity(named.len());
        for InsertColumn { name, part } in named {
            let column = self.written_column(table, name)?;
            let is_twice =
                |other: &Given<'_>| other.column == column && (part.is_none() || other.part.is_none());
            if columns.iter().any(is_twice) {
                let message = format!("column \"{}\" specified more than once", name.text);
                return Err(self.error(name.at, SqlState::DUPLICATE_COLUMN, message));
            }
            let definition = &table.columns[column];
            if part.is_some() && matches!(definition.origin, ColumnOrigin::Generated(_)) {
                return Err(always_generated(definition, "insert"));
            }
            columns.push(Given { column, part: part.as_ref() });
        }
        Ok(columns)
    }

    /// The type of the value given for a column, or for a part of it.
    fn given_type(&self, table: &Table, given: Given<'_>) -> Result<Type> {
        let column = &table.columns[given.column];
        given.part.map_or(Ok(column.ty), |part| self.type_of_part(column, part).map(|(ty, _)| ty))
    }

    /// The rows to be inserted: VALUES have the columns' types, and may contain DEFAULT.
    fn insert_source(
        &mut self,
        query: &Query,
        table: &Arc<Table>,
        columns: &[Given<'_>],
        named: bool,
        overriding: Option<bool>,
    ) -> Result<BoundQuery> {
        let plain = query.with.is_none()
            && query.order_by.is_empty()
            && query.limit.is_none()
            && query.offset.is_none();
        let bound = match &query.body {
            QueryBodySyntax::Values(rows) if plain => {
                let id = self.enter();
                let values = self.insert_rows(rows, table, columns, named, overriding, id);
                self.leave();
                values?
            }
            _ => {
                let mut bound = self.query_with_unknowns(query)?;
                self.check_width(bound.columns.len(), columns.len(), named, query.at)?;
                let mut types = Vec::with_capacity(columns.len());
                for (found, &given) in bound.columns.iter().zip(columns) {
                    types.push(match found.ty {
                        Type::Unknown => self.given_type(table, given)?,
                        ty => ty,
                    });
                }
                self.convert_columns(&mut bound, &types, query.at)?;
                bound
            }
        };
        Ok(bound)
    }

    fn check_width(&self, given: usize, wanted: usize, named: bool, at: u32) -> Result<()> {
        if given > wanted {
            let message = "INSERT has more expressions than target columns";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        if given < wanted && named {
            let message = "INSERT has more target columns than expressions";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        Ok(())
    }

    fn insert_rows(
        &mut self,
        rows: &[Vec<Expr>],
        table: &Arc<Table>,
        columns: &[Given<'_>],
        named: bool,
        overriding: Option<bool>,
        id: RelationId,
    ) -> Result<BoundQuery> {
        let width = rows.first().map_or(0, Vec::len);
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            let at = row.first().map_or(0, |expr| expr.at);
            if row.len() != width {
                return Err(self.error(
                    at,
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            self.check_width(width, columns.len(), named, row.get(columns.len()).map_or(at, |expr| expr.at))?;
            let mut cells = Vec::with_capacity(width);
            for (expr, &given) in row.iter().zip(columns) {
                cells.push(self.insert_cell(expr, table, given, overriding)?);
            }
            bound.push(cells);
        }
        let mut names = Vec::with_capacity(width);
        for (number, &given) in (1..=width).zip(columns) {
            let ty = self.given_type(table, given)?;
            names.push(crate::bind::from::plain_column(&format!("column{number}"), ty));
        }
        Ok(plain_query(id, QueryBody::Values(bound), names))
    }

    fn insert_cell(
        &mut self,
        expr: &Expr,
        table: &Arc<Table>,
        given: Given<'_>,
        overriding: Option<bool>,
    ) -> Result<BoundExpr> {
        let column = &table.columns[given.column];
        if let Some(part) = given.part {
            return self.in_clause(Clause::Values, |binder| binder.value_of_part(column, part, expr));
        }
        let generated = matches!(column.origin, ColumnOrigin::Generated(_));
        if expr.kind == ExprKind::Default {
            return if generated { Ok(BoundExpr::null(column.ty)) } else { self.default_value(column) };
        }
        let always = matches!(column.origin, ColumnOrigin::Identity { always: true, .. });
        if generated || (always && overriding.is_none()) {
            return Err(always_generated(column, "insert"));
        }
        let value = self.in_clause(Clause::Values, |binder| binder.expr(expr))?;
        let value = self.assigned(value, column.ty, column.modifier, &column.name, expr.at)?;
        let is_ignored = overriding == Some(false) && matches!(column.origin, ColumnOrigin::Identity { .. });
        if is_ignored { self.default_value(column) } else { Ok(value) }
    }

    /// The value of each column of the table.
    fn insert_values(
        &mut self,
        table: &Arc<Table>,
        given: &[Given<'_>],
        query: Option<&BoundQuery>,
        source: RelationId,
        overriding: Option<bool>,
    ) -> Result<Vec<BoundExpr>> {
        let typed = query.is_some_and(|query| matches!(query.body, QueryBody::Values(_)));
        let mut values = Vec::with_capacity(table.columns.len());
        for (position, column) in table.columns.iter().enumerate() {
            let from = given.iter().position(|given| given.column == position);
            let (Some(number), Some(query)) = (from, query) else {
                values.push(self.default_value(column)?);
                continue;
            };
            let column_of = |number: usize| {
                let ty = query.columns[number].ty;
                BoundExpr::Column { relation: source, column: number, ty }
            };
            if given[number].part.is_some() {
                let mut whole = BoundExpr::null(column.ty);
                for (number, part) in given.iter().enumerate().filter(|(_, given)| given.column == position) {
                    let Some(part) = part.part else { continue };
                    let (wanted, modifier) = self.type_of_part(column, part)?;
                    let value = self.assigned(column_of(number), wanted, modifier, &column.name, 0)?;
                    whole = self.in_clause(Clause::Insert, |binder| binder.with_part(whole, value, part))?;
                }
                values.push(whole);
                continue;
            }
            let value = column_of(number);
            if typed {
                values.push(value);
                continue;
            }
            match &column.origin {
                ColumnOrigin::Generated(_) => return Err(always_generated(column, "insert")),
                ColumnOrigin::Identity { always: true, .. } if overriding.is_none() => {
                    return Err(always_generated(column, "insert"));
                }
                ColumnOrigin::Identity { .. } if overriding == Some(false) => {
                    values.push(self.default_value(column)?);
                }
                _ => values.push(self.assigned(value, column.ty, column.modifier, &column.name, 0)?),
            }
        }
        Ok(values)
    }
}

/// The system columns that RETURNING of an INSERT may name: `xmax` is zero where the row was inserted, not where ON
/// CONFLICT updated it.
fn system_columns(
    table: &Table,
    target: RelationId,
    on_conflict: Option<&OnConflict>,
) -> Vec<(&'static str, BoundExpr)> {
    let may_update = on_conflict.is_some_and(|it| matches!(it.action, ConflictAction::Update { .. }));
    let xmax = match may_update {
        true => BoundExpr::Column { relation: target, column: XMAX, ty: Type::Xid },
        false => BoundExpr::constant(Value::Oid(0), Type::Xid),
    };
    vec![("xmax", xmax), ("tableoid", BoundExpr::constant(Value::Oid(table.oid), Type::Oid))]
}
