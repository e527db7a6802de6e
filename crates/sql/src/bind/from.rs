//! FROM: tables, views, common table expressions, queries, functions, joins.
//!
//! Source: PostgreSQL 15, `parse_clause.c`, `parse_relation.c`.

mod functions;
mod joins;

use crate::bind::binder::{Binder, CteState};
use crate::bind::query::traversal::BEFORE;
use crate::bind::scope::{Clause, Entry};
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundFrom, BoundQuery, BoundRelation, FunctionCall, RelationId, RelationKind,
    ViewOfQuery,
};
use crate::catalog::system::{self, SystemColumn, SystemRelation};
use crate::catalog::{Relation, Table, View};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{Alias, At, ObjectName, Query, TableRef};
use crate::types::{Modifier, Type, Value};
use std::sync::Arc;

/// An item of FROM, and what of it may be named.
struct Item {
    from: BoundFrom,
    entries: Vec<Entry>,
}

impl Item {
    /// The relation that it is, unless it is a join.
    fn relation(&self) -> Option<RelationId> {
        match self.from {
            BoundFrom::Relation(relation) => Some(relation),
            BoundFrom::Join { .. } => None,
        }
    }

    /// Hides the last columns of a recursive query from all but its SEARCH and CYCLE.
    fn hide_last(&mut self, count: usize) {
        let Some(entry) = self.entries.first_mut() else { return };
        let columns = entry.columns.split_off(entry.columns.len().saturating_sub(count));
        let hidden = Entry { name: Some(BEFORE.to_string()), columns, unqualified: false, ..entry.clone() };
        self.entries.push(hidden);
    }
}

impl Binder<'_> {
    /// The comma list of FROM: its entries become visible in the innermost scope, one item after the other.
    pub fn bind_from(&mut self, items: &[TableRef]) -> Result<Vec<BoundFrom>> {
        let mut from = Vec::with_capacity(items.len());
        for item in items {
            let bound = self.bind_item(item)?;
            for entry in bound.entries {
                self.add_entry(entry, item)?;
            }
            from.push(bound.from);
        }
        Ok(from)
    }

    /// Makes an entry visible, unless its name is in use.
    fn add_entry(&mut self, entry: Entry, item: &TableRef) -> Result<()> {
        self.check_name(&entry, item)?;
        self.scope().entries.push(entry);
        Ok(())
    }

    fn check_name(&mut self, entry: &Entry, item: &TableRef) -> Result<()> {
        let Some(name) = &entry.name else { return Ok(()) };
        let same = |other: &Entry| other.name.as_deref() == Some(name) && (other.schema == entry.schema);
        if self.scope().entries.iter().any(same) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(self.error(position_of(item), SqlState::DUPLICATE_ALIAS, message));
        }
        Ok(())
    }

    fn bind_item(&mut self, item: &TableRef) -> Result<Item> {
        crate::stack::grow(|| match item {
            TableRef::Table { name, alias } => self.table_item(name, alias.as_ref()),
            TableRef::Query { query, alias, lateral, at } => {
                self.query_item(query, alias.as_ref(), *lateral, *at)
            }
            TableRef::Function { calls, ordinality, alias, columns, .. } => {
                self.function_item(calls, *ordinality, alias.as_ref(), columns)
            }
            TableRef::Join { left, right, kind, condition, alias, at } => {
                self.join_item(left, right, *kind, condition, alias.as_ref(), *at)
            }
        })
    }

    /// Adds a relation to the query.
    pub fn add_relation(
        &mut self,
        name: &str,
        kind: RelationKind,
        columns: Vec<BoundColumn>,
        lateral: bool,
    ) -> RelationId {
        let id = self.new_relation();
        let scope = self.scope();
        scope.owned.push(id);
        let indexed = Vec::new();
        scope.relations.push(BoundRelation { id, name: name.to_string(), kind, columns, lateral, indexed });
        id
    }

    fn relation_item(
        &mut self,
        name: &str,
        schema: Option<&str>,
        kind: RelationKind,
        columns: Vec<BoundColumn>,
        lateral: bool,
        alias: Option<&Alias>,
    ) -> Result<Item> {
        let columns = self.renamed(columns, name, alias)?;
        let shown = alias.map_or(name, |alias| alias.name.text.as_str());
        let table = match &kind {
            RelationKind::Table(table) => Some(table.clone()),
            _ => None,
        };
        let id = self.add_relation(shown, kind, columns.clone(), lateral);
        if let Some(table) = table {
            let indexed = self.index_expressions(&table, id)?;
            self.scope()
                .relations
                .last_mut()
                .into_iter()
                .for_each(|relation| relation.indexed = indexed.clone());
        }
        let schema = if alias.is_some() { None } else { schema };
        Ok(Item {
            from: BoundFrom::Relation(id),
            entries: vec![Entry::of_relation(shown, schema, id, &columns)],
        })
    }

    /// The columns with the names that an alias gives them.
    fn renamed(
        &self,
        mut columns: Vec<BoundColumn>,
        name: &str,
        alias: Option<&Alias>,
    ) -> Result<Vec<BoundColumn>> {
        let Some(alias) = alias else { return Ok(columns) };
        if alias.columns.len() > columns.len() {
            let message = format!(
                "table \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                alias.columns.len()
            );
            return Err(self.error(alias.name.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, name) in columns.iter_mut().zip(&alias.columns) {
            column.name = name.text.clone();
        }
        Ok(columns)
    }

    fn table_item(&mut self, name: &ObjectName, alias: Option<&Alias>) -> Result<Item> {
        if name.parts.len() == 1
            && let Some(cte) = self.cte(name.last())
        {
            if cte.state == CteState::Silent {
                let message = format!("WITH query \"{}\" does not have a RETURNING clause", name.last());
                return Err(self.error(name.at(), SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            self.check_recursion(&cte, name.at())?;
            *self.cte_references.entry(cte.id).or_default() += 1;
            self.cte_uses.push((self.defining, cte.id));
            let kind = RelationKind::Cte(cte.id);
            let mut item = self.relation_item(name.last(), None, kind, cte.columns, false, alias)?;
            if cte.hidden > 0 {
                item.hide_last(cte.hidden);
            }
            return Ok(item);
        }
        if name.parts.len() == 1
            && let Some(columns) = self.environment.transition_columns(name.last())
        {
            return self.transition_item(name, columns, alias);
        }
        if let Some(relation) = system::find(self.context.catalog, name.schema(), name.last(), &self.path) {
            return self.system_item(relation, alias);
        }
        let found = self.relation(name)?;
        self.note_relation(name, found.oid());
        match found {
            Relation::Table(table) => {
                let table = table.clone();
                let columns = table_columns(&table);
                let (oid, schema) = (table.oid, table.schema.clone());
                let kind = RelationKind::Table(table);
                let item = self.relation_item(name.last(), Some(&schema), kind, columns, false, alias)?;
                self.requires_select(oid, item.relation());
                if let Some(id) = item.relation() {
                    self.note_site(name, oid, alias, id);
                }
                Ok(item)
            }
            Relation::View(view) => {
                let view = view.clone();
                let required = self.requires_select(view.oid, None);
                let query = self.view_query(&view, name.at())?;
                let columns = query.columns.clone();
                let kind = RelationKind::Query(Box::new(query));
                let item =
                    self.relation_item(name.last(), Some(&view.schema), kind, columns, false, alias)?;
                self.required[required].relation = item.relation();
                if let Some(id) = item.relation() {
                    self.note_site(name, view.oid, alias, id);
                }
                Ok(item)
            }
            Relation::Sequence(sequence) => {
                let (oid, schema) = (sequence.oid, sequence.schema.clone());
                self.requires_select(oid, None);
                self.sequence_item(name.last(), &schema, oid, alias)
            }
            Relation::Index { .. } => {
                let message = format!("cannot open relation \"{}\"", name.last());
                let detail = "This operation is not supported for indexes.";
                Err(self.error(name.at(), SqlState::WRONG_OBJECT_TYPE, message).with_detail(detail))
            }
        }
    }

    /// A transition table of the trigger whose function is bound.
    fn transition_item(
        &mut self,
        name: &ObjectName,
        columns: Vec<(String, Type, Modifier)>,
        alias: Option<&Alias>,
    ) -> Result<Item> {
        let Some(function) = crate::functions::functions_named("heddle_transition_rows").next() else {
            return Err(crate::catalog::no_relation(name.last()));
        };
        let column =
            |(name, ty, modifier): (String, Type, Modifier)| BoundColumn { name, ty, modifier, source: None };
        let columns: Vec<BoundColumn> = columns.into_iter().map(column).collect();
        let types = columns.iter().map(|column| column.ty).collect();
        let args = vec![BoundExpr::constant(Value::text(name.last()), Type::Text)];
        let kind = RelationKind::Function {
            calls: vec![FunctionCall::Set { function, args, types }],
            ordinality: false,
        };
        self.relation_item(name.last(), None, kind, columns, false, alias)
    }

    /// A relation of `pg_catalog` or `information_schema`: a call of the function that yields its rows.
    fn system_item(&mut self, relation: &'static SystemRelation, alias: Option<&Alias>) -> Result<Item> {
        if relation.is_secret() {
            self.requires_select(relation.oid, None);
        }
        let Some(function) = crate::functions::functions_named(system::ROWS).next() else {
            return Err(crate::error::SqlError::internal("system relations have no function"));
        };
        let oid = BoundExpr::Constant { value: Value::Oid(relation.oid), ty: Type::Oid };
        let column = |(at, column): (usize, &SystemColumn)| BoundColumn {
            name: column.name.to_string(),
            ty: column.ty,
            modifier: Modifier::NONE,
            source: Some((relation.oid, at)),
        };
        let columns: Vec<BoundColumn> = relation.columns.iter().enumerate().map(column).collect();
        let types = columns.iter().map(|column| column.ty).collect();
        let kind = RelationKind::Function {
            calls: vec![FunctionCall::Set { function, args: vec![oid], types }],
            ordinality: false,
        };
        self.relation_item(relation.name, Some(relation.schema), kind, columns, false, alias)
    }

    /// `SELECT last_value FROM sequence`: a call of the function that returns the sequence's state.
    fn sequence_item(&mut self, name: &str, schema: &str, oid: u32, alias: Option<&Alias>) -> Result<Item> {
        let Some(function) = crate::functions::functions_named("heddle_sequence_state").next() else {
            return Err(crate::error::SqlError::internal("sequences have no function"));
        };
        let column = |(at, (name, ty)): (usize, &(&str, Type))| BoundColumn {
            name: (*name).to_string(),
            ty: *ty,
            modifier: Modifier::NONE,
            source: Some((oid, at)),
        };
        let columns: Vec<BoundColumn> = function.columns.iter().enumerate().map(column).collect();
        let types = columns.iter().map(|column| column.ty).collect();
        let args = vec![BoundExpr::Constant { value: Value::Oid(oid), ty: Type::Oid }];
        let calls = vec![FunctionCall::Set { function, args, types }];
        let kind = RelationKind::Function { calls, ordinality: false };
        self.relation_item(name, Some(schema), kind, columns, false, alias)
    }

    /// A view's query, bound as if it stood in parentheses, with the path that the view was made under.
    pub(crate) fn view_query(&mut self, view: &View, at: At) -> Result<BoundQuery> {
        if self.views.contains(&view.oid) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(self.error(at, SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let query = crate::parse::parse_query(&view.query)?;
        self.views.push(view.oid);
        let scopes = std::mem::take(&mut self.scopes);
        let foreign = std::mem::replace(&mut self.foreign_text, true);
        let path = std::mem::replace(&mut self.path, view.search_path.clone());
        let settled = std::mem::replace(&mut self.settled, true);
        let (called, literals) = (self.called.take(), self.literals.take());
        let role = if view.options.invoker == Some(true) { None } else { Some(view.rights.owner) };
        let checked_as = std::mem::replace(&mut self.checked_as, role);
        let bound = self.query(&query);
        self.checked_as = checked_as;
        (self.path, self.settled, self.called) = (path, settled, called);
        self.literals = literals;
        self.foreign_text = foreign;
        self.scopes = scopes;
        self.views.pop();
        let mut bound = bound?;
        bound.is_barrier = view.options.barrier == Some(true);
        bound.view = Some(ViewOfQuery { name: view.name.clone(), check_option: view.options.check_option });
        for (column, name) in bound.columns.iter_mut().zip(&view.columns) {
            column.name = name.clone();
        }
        Ok(bound)
    }

    fn query_item(&mut self, query: &Query, alias: Option<&Alias>, lateral: bool, at: At) -> Result<Item> {
        let Some(alias) = alias else {
            let hint = "For example, FROM (SELECT ...) [AS] foo.";
            let what = if matches!(query.body, crate::parse::syntax::QueryBodySyntax::Values(_)) {
                "VALUES"
            } else {
                "subquery"
            };
            let message = format!("{what} in FROM must have an alias");
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message).with_hint(hint));
        };
        let visible = std::mem::replace(&mut self.scope().visible, lateral);
        let bound = self.in_clause(Clause::FromFunction, |binder| binder.query(query));
        self.scope().visible = visible;
        let bound = bound?;
        let columns = bound.columns.clone();
        self.relation_item(
            &alias.name.text,
            None,
            RelationKind::Query(Box::new(bound)),
            columns,
            lateral,
            Some(alias),
        )
    }
}

fn position_of(item: &TableRef) -> At {
    match item {
        TableRef::Table { name, alias } => alias.as_ref().map_or(name.at(), |alias| alias.name.at),
        TableRef::Query { alias: Some(alias), .. } | TableRef::Function { alias: Some(alias), .. } => {
            alias.name.at
        }
        TableRef::Query { at, .. } | TableRef::Function { at, .. } | TableRef::Join { at, .. } => *at,
    }
}

/// A column without a modifier that is no table's.
pub(crate) fn plain_column(name: &str, ty: Type) -> BoundColumn {
    BoundColumn { name: name.to_string(), ty, modifier: Modifier::NONE, source: None }
}

/// A table's columns as a relation's.
pub(crate) fn table_columns(table: &Arc<Table>) -> Vec<BoundColumn> {
    let columns = table.visible().iter().enumerate().map(|(position, column)| BoundColumn {
        name: column.name.clone(),
        ty: column.ty,
        modifier: column.modifier,
        source: Some((table.oid, position)),
    });
    columns.collect()
}
