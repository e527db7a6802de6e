//! Scopes: the relations, columns and joined columns that names can mean at a point of a query.
//!
//! Source: PostgreSQL 15, `parse_relation.c`.

use crate::bind::binder::Binder;
use crate::bind::calls::columns_of;
use crate::bind::privileges::other_database;
use crate::bind::routines::{instance_of, is_call, routine_of};
use crate::bind::tree::{BoundColumn, BoundExpr, FunctionCall, QueryBody, RelationId, RelationKind};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Name, ObjectName};
use crate::types::{Modifier, Type, Value};

/// The clause that is being bound, for messages and for the constructs that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Other,
    Where,
    JoinOn,
    FromFunction,
    GroupBy,
    Having,
    Targets,
    OrderBy,
    DistinctOn,
    Window,
    Filter,
    Limit,
    Offset,
    Values,
    Insert,
    UpdateSet,
    Returning,
    Default,
    Check,
    Generated,
    /// USING of ALTER COLUMN … TYPE.
    Transform,
    IndexExpression,
    IndexPredicate,
    MergeWhen,
}

impl Clause {
    /// Its name in PostgreSQL's messages.
    pub fn name(self) -> &'static str {
        match self {
            Clause::Where => "WHERE",
            Clause::JoinOn => "JOIN conditions",
            Clause::FromFunction => "functions in FROM",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::Targets | Clause::Other => "SELECT",
            Clause::OrderBy => "ORDER BY",
            Clause::DistinctOn => "DISTINCT ON",
            Clause::Window => "window definitions",
            Clause::Filter => "FILTER",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::Values => "VALUES",
            Clause::Insert => "INSERT",
            Clause::UpdateSet => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Generated => "column generation expressions",
            Clause::Transform => "transform expressions",
            Clause::IndexExpression => "index expressions",
            Clause::IndexPredicate => "index predicates",
            Clause::MergeWhen => "MERGE WHEN conditions",
        }
    }

    /// Returns true if the clause allows aggregates.
    pub fn allows_aggregates(self) -> bool {
        matches!(
            self,
            Clause::Targets | Clause::Having | Clause::OrderBy | Clause::DistinctOn | Clause::Window
        )
    }

    /// Returns true if the clause allows window calls.
    pub fn allows_windows(self) -> bool {
        matches!(self, Clause::Targets | Clause::OrderBy | Clause::DistinctOn)
    }

    /// Returns true if the clause allows set-returning functions.
    pub fn allows_sets(self) -> bool {
        matches!(
            self,
            Clause::Targets | Clause::OrderBy | Clause::DistinctOn | Clause::GroupBy | Clause::FromFunction
        )
    }
}

/// The number of the column `xmax` of the target of INSERT … ON CONFLICT DO UPDATE, in its RETURNING.
pub(crate) const XMAX: usize = usize::MAX - 1;

/// A relation, or a join, whose columns may be named.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name before the point: an alias, or the relation's own. None for a join without one.
    pub name: Option<String>,
    /// The relation's schema, if it has no alias.
    pub schema: Option<String>,
    /// Its columns.
    pub columns: Vec<VisibleColumn>,
    /// True if columns may be named without a qualifier, and appear in `*`.
    pub unqualified: bool,
    /// The relation that the name means, for locks and whole rows.
    pub relation: Option<RelationId>,
    /// True if an outer join may put NULLs in place of its rows.
    pub is_nullable: bool,
}

/// A column that may be named.
#[derive(Clone, Debug)]
pub(crate) struct VisibleColumn {
    pub name: String,
    pub expr: BoundExpr,
    pub modifier: Modifier,
    pub source: Option<(u32, usize)>,
}

impl Entry {
    /// Columns of no relation, and without a name before the point.
    pub fn unnamed(columns: Vec<VisibleColumn>) -> Entry {
        Entry { name: None, schema: None, columns, unqualified: true, relation: None, is_nullable: false }
    }

    /// The columns of a relation.
    pub fn of_relation(name: &str, schema: Option<&str>, id: RelationId, columns: &[BoundColumn]) -> Entry {
        let columns = columns.iter().enumerate().map(|(column, it)| VisibleColumn {
            name: it.name.clone(),
            expr: BoundExpr::Column { relation: id, column, ty: it.ty },
            modifier: it.modifier,
            source: it.source,
        });
        Entry {
            name: Some(name.to_string()),
            schema: schema.map(str::to_string),
            columns: columns.collect(),
            unqualified: true,
            relation: Some(id),
            is_nullable: false,
        }
    }
}

/// A column that a name was found to mean.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub column: VisibleColumn,
    /// The level of the scope that it was found in.
    pub level: usize,
}

impl Binder<'_> {
    /// The expression that a column's name means.
    pub fn column(&mut self, parts: &[Name], at: At) -> Result<BoundExpr> {
        self.check_database_of(parts)?;
        let found = self.find_column(parts, at)?;
        if let Some(variable) = self.column_or_variable(parts, at, found.is_some())? {
            return Ok(variable);
        }
        match found {
            Some(found) => {
                self.note_outer(&found, at);
                self.note_name(parts, &found);
                self.note_column_site(parts, &found);
                if let BoundExpr::Column { relation, column, .. } = found.column.expr
                    && !self.scopes[found.level].in_aggregate
                {
                    self.scopes[found.level].column_positions.entry((relation, column)).or_insert(at);
                }
                Ok(found.column.expr)
            }
            None => self.whole_row_or_error(parts, at),
        }
    }

    /// A column of a query around this one may have to be grouped there.
    fn note_outer(&mut self, found: &Found, at: At) {
        if found.level + 1 < self.scopes.len() {
            let scope = &mut self.scopes[found.level];
            let checked = matches!(
                scope.clause,
                Clause::Targets | Clause::Having | Clause::OrderBy | Clause::DistinctOn
            );
            if checked
                && (!scope.in_aggregate || scope.in_direct_arguments)
                && let BoundExpr::Column { relation, column, .. } = found.column.expr
            {
                scope.outer_columns.push((relation, column, at));
            }
        }
    }

    /// Checks that a column's name is not of another database.
    pub fn check_database_of(&self, parts: &[Name]) -> Result<()> {
        match parts {
            [database, _, _, _, ..] if !self.environment.is_database(&database.text) => {
                let name = ObjectName { parts: parts.to_vec() };
                Err(self.at(other_database(&name), database.at))
            }
            _ => Ok(()),
        }
    }

    /// Finds the column that a name means, from the innermost level outward.
    pub fn find_column(&self, parts: &[Name], at: At) -> Result<Option<Found>> {
        let Some((name, qualifier)) = parts.split_last() else { return Ok(None) };
        if qualifier.is_empty() {
            self.find_unqualified(&name.text, at)
        } else {
            self.find_qualified(qualifier, name)
        }
    }

    fn find_unqualified(&self, name: &str, at: At) -> Result<Option<Found>> {
        for (level, scope) in self.scopes.iter().enumerate().rev() {
            if !scope.visible {
                continue;
            }
            let columns =
                scope.entries.iter().filter(|entry| entry.unqualified).flat_map(|entry| &entry.columns);
            let mut matching = columns.filter(|column| column.name == name);
            let Some(column) = matching.next() else { continue };
            if matching.next().is_some() {
                let message = format!("column reference \"{name}\" is ambiguous");
                return Err(self.error(at, SqlState::AMBIGUOUS_COLUMN, message));
            }
            return Ok(Some(Found { column: column.clone(), level }));
        }
        Ok(None)
    }

    fn find_qualified(&self, qualifier: &[Name], name: &Name) -> Result<Option<Found>> {
        let Some((level, entry)) = self.entry(qualifier) else { return Ok(None) };
        let mut matching = entry.columns.iter().filter(|column| column.name == name.text);
        let Some(column) = matching.next() else { return Ok(None) };
        if matching.next().is_some() {
            let message = format!("column reference \"{}\" is ambiguous", name.text);
            return Err(self.error(qualifier[0].at, SqlState::AMBIGUOUS_COLUMN, message));
        }
        Ok(Some(Found { column: column.clone(), level }))
    }

    /// The relation that a qualifier names, with its level.
    pub fn entry(&self, qualifier: &[Name]) -> Option<(usize, &Entry)> {
        let (name, schema) = qualifier.split_last()?;
        let schema = schema.last().map(|name| name.text.as_str());
        let matches = |entry: &&Entry| {
            entry.name.as_deref() == Some(name.text.as_str())
                && (schema.is_none() || entry.schema.as_deref() == schema)
        };
        let levels = self.scopes.iter().enumerate().rev().filter(|(_, scope)| scope.visible);
        levels
            .into_iter()
            .find_map(|(level, scope)| scope.entries.iter().find(matches).map(|entry| (level, entry)))
    }

    /// A relation's name alone means its whole row; anything else is an error.
    fn whole_row_or_error(&mut self, parts: &[Name], at: At) -> Result<BoundExpr> {
        if let Some((_, entry)) = self.entry(parts) {
            let columns: Vec<BoundExpr> = entry.columns.iter().map(|column| column.expr.clone()).collect();
            if let [BoundExpr::Column { .. }] = &columns[..]
                && let Some(scalar) = self.scalar_function_entry(parts)
            {
                return Ok(scalar);
            }
            let names = entry.columns.iter().map(|column| column.name.as_str().into()).collect();
            let is_nullable = entry.is_nullable;
            return Ok(BoundExpr::Row { fields: columns, names: Some(names), is_nullable });
        }
        let system_column = self.system_column(parts).or_else(|| self.table_oid(parts));
        system_column.ok_or_else(|| self.no_column(parts, at))
    }

    /// A system column of the table that the innermost statement around writes.
    fn system_column(&mut self, parts: &[Name]) -> Option<BoundExpr> {
        let (name, qualifier) = parts.split_last()?;
        let level = match qualifier {
            [] => self.scopes.iter().rposition(|scope| scope.visible && !scope.entries.is_empty())?,
            qualifier => self.entry(qualifier)?.0,
        };
        let scope = &self.scopes[level];
        let found = scope.system_columns.iter().find(|(column, _)| *column == name.text)?;
        let (expr, target) = (found.1.clone(), scope.entries.first().and_then(|entry| entry.relation));
        if let Some(target) = target {
            self.requires_system_column(target);
        }
        Some(expr)
    }

    /// `tableoid`: the oid of the table, or of the system relation, that a row is of. (A row of NULLs of an outer join has
    /// it, too.)
    fn table_oid(&mut self, parts: &[Name]) -> Option<BoundExpr> {
        let (name, qualifier) = parts.split_last()?;
        if name.text != "tableoid" {
            return None;
        }
        let (level, entry) = match qualifier {
            [] => {
                let level = self.scopes.iter().rposition(|scope| scope.visible)?;
                let mut entries = self.scopes[level].entries.iter().filter(|entry| entry.relation.is_some());
                (level, entries.next().filter(|_| entries.next().is_none())?)
            }
            qualifier => self.entry(qualifier)?,
        };
        let relation = self.scopes[level].relations.iter().find(|it| Some(it.id) == entry.relation)?;
        let value = match &relation.kind {
            RelationKind::Table(table) => Value::Oid(table.oid),
            RelationKind::Function { calls, .. } => match &calls[..] {
                [FunctionCall::Set { function, args, .. }]
                    if function.name == crate::catalog::system::ROWS =>
                {
                    match args.first() {
                        Some(BoundExpr::Constant { value, .. }) => value.clone(),
                        _ => return None,
                    }
                }
                _ => return None,
            },
            _ => return None,
        };
        let read = relation.id;
        self.requires_system_column(read);
        Some(BoundExpr::Constant { value, ty: Type::Oid })
    }

    /// `SELECT n FROM generate_series(1, 3) AS n`: found as a column before; a function's alias with another column name
    /// still means its one value.
    fn scalar_function_entry(&self, parts: &[Name]) -> Option<BoundExpr> {
        let (level, entry) = self.entry(parts)?;
        let id = entry.relation?;
        let relation = self.scopes[level].relations.iter().find(|relation| relation.id == id)?;
        match (&relation.kind, &entry.columns[..]) {
            // The rows of a routine that returns rows of a table, or records, are rows of one column.
            (RelationKind::Function { calls, .. }, [_]) if self.returns_record(calls) => None,
            (RelationKind::Function { .. }, [column]) => Some(column.expr.clone()),
            _ => None,
        }
    }

    fn returns_record(&self, calls: &[FunctionCall]) -> bool {
        let [FunctionCall::Set { function, args, .. }] = calls else { return false };
        let routine = instance_of(self.context.catalog, args);
        is_call(function) && routine.is_some_and(|routine| routine.result == Type::Record)
    }

    /// The fields of a record that a function returns, also where a subquery in FROM passes it on.
    pub fn record_columns(&self, row: &BoundExpr) -> Option<Vec<(String, Type)>> {
        let called = routine_of(self.context.catalog, row).and_then(|_| match row {
            BoundExpr::Call { args, .. } | BoundExpr::SetReturning { args, .. } => {
                instance_of(self.context.catalog, args)
            }
            _ => None,
        });
        if let Some(routine) = called {
            // A function with one output argument returns its value.
            if routine.result != Type::Record {
                return None;
            }
            let columns = self.context.catalog.result_columns(&routine);
            return Some(columns.into_iter().map(|column| (column.name, column.ty)).collect());
        }
        if let Some(relation) = row.ty().row_relation() {
            let columns = self.context.catalog.row_columns(relation)?;
            return Some(columns.into_iter().map(|column| (column.name, column.ty)).collect());
        }
        match row {
            BoundExpr::SetReturning { function, args, .. } | BoundExpr::Call { function, args, .. } => {
                Some(columns_of(function, args).map(|(name, ty)| (name.to_string(), ty)).collect())
            }
            BoundExpr::Column { relation, column, ty: Type::Record } => {
                let mut relations = self.scopes.iter().flat_map(|scope| &scope.relations);
                let found = relations.find(|it| it.id == *relation)?;
                if let RelationKind::Function { calls, .. } = &found.kind {
                    return self.row_in_result(calls, *column);
                }
                let RelationKind::Query(query) = &found.kind else { return None };
                let QueryBody::Select(select) = &query.body else { return None };
                self.record_columns(&select.targets.get(*column)?.expr)
            }
            _ => None,
        }
    }

    /// The fields of a row that a routine returns.
    fn row_in_result(&self, calls: &[FunctionCall], column: usize) -> Option<Vec<(String, Type)>> {
        let [FunctionCall::Set { args, .. }] = calls else { return None };
        let routine = instance_of(self.context.catalog, args).filter(|routine| routine.row_of.is_none())?;
        let columns = self.context.catalog.row_columns(routine.outputs().nth(column)?.row_of?)?;
        Some(columns.into_iter().map(|column| (column.name, column.ty)).collect())
    }

    fn no_column(&self, parts: &[Name], at: At) -> crate::error::SqlError {
        let Some((name, qualifier)) = parts.split_last() else {
            return self.error(at, SqlState::UNDEFINED_COLUMN, "a column without a name");
        };
        if qualifier.is_empty() {
            let message = format!("column \"{}\" does not exist", name.text);
            return self.error(at, SqlState::UNDEFINED_COLUMN, message);
        }
        let qualified: Vec<&str> = qualifier.iter().map(|part| part.text.as_str()).collect();
        let qualified = qualified.join(".");
        if self.entry(qualifier).is_some() {
            let message = format!("column {qualified}.{} does not exist", name.text);
            return self.error(at, SqlState::UNDEFINED_COLUMN, message);
        }
        self.no_entry(qualifier, at)
    }

    /// `missing FROM-clause entry for table "t"`, or that it may not be named here.
    pub fn no_entry(&self, qualifier: &[Name], at: At) -> crate::error::SqlError {
        let name = qualifier.last().map_or("", |name| name.text.as_str());
        let hidden = self.scopes.iter().flat_map(|scope| &scope.entries);
        if hidden.into_iter().any(|entry| entry.name.as_deref() == Some(name)) {
            let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
            let detail = format!(
                "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
            );
            return self.error(at, SqlState::UNDEFINED_TABLE, message).with_detail(detail);
        }
        let message = format!("missing FROM-clause entry for table \"{name}\"");
        self.error(at, SqlState::UNDEFINED_TABLE, message)
    }

    /// The columns that `*` expands to.
    pub fn all_columns(&mut self, at: At) -> Result<Vec<VisibleColumn>> {
        let entries = &self.scope().entries;
        let columns: Vec<VisibleColumn> = entries
            .iter()
            .filter(|entry| entry.unqualified)
            .flat_map(|entry| entry.columns.clone())
            .collect();
        if entries.is_empty() {
            return Err(self.error(
                at,
                SqlState::SYNTAX_ERROR,
                "SELECT * with no tables specified is not valid",
            ));
        }
        Ok(columns)
    }

    /// The columns that `relation.*` expands to.
    pub fn columns_of(&mut self, qualifier: &[Name], at: At) -> Result<Vec<VisibleColumn>> {
        if let [database, _, _] = qualifier
            && !self.environment.is_database(&database.text)
        {
            return Err(self.at(other_database(&ObjectName { parts: qualifier.to_vec() }), database.at));
        }
        match self.entry(qualifier) {
            Some((_, entry)) => Ok(entry.columns.clone()),
            None => match self.variable_fields(qualifier)? {
                Some(fields) => Ok(fields.into_iter().map(variable_column).collect()),
                None => Err(self.no_entry(qualifier, at)),
            },
        }
    }

    /// The display name of a type, users' types by their names.
    pub fn type_text(&self, ty: Type) -> String {
        self.context.catalog.type_display(ty)
    }
}

/// A field of a row variable as a column.
fn variable_column((name, expr): (String, BoundExpr)) -> VisibleColumn {
    VisibleColumn { name, expr, modifier: Modifier::NONE, source: None }
}
