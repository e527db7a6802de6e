//! FROM: tables, views, common table expressions, queries, functions, joins.
//!
//! Source: PostgreSQL 15, `parse_clause.c`, `parse_relation.c`.

use crate::bind::binder::{Binder, CteState};
use crate::bind::json_rows::makes_records;
use crate::bind::routines::{RoutineCall, rows_entry, with_oid};
use crate::bind::scope::{Clause, Entry, VisibleColumn};
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundFrom, BoundQuery, BoundRelation, FunctionCall, JoinKind, RelationId,
    RelationKind,
};
use crate::catalog::system::{self, SystemColumn, SystemRelation};
use crate::catalog::{Relation, Table, View};
use crate::error::{Result, SqlState};
use crate::functions::FunctionKind;
use crate::parse::syntax::{
    Alias, At, Call, ColumnOfFunction, Expr, JoinCondition, JoinType, Name, ObjectName, Query, TableRef,
};
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

    /// Makes an entry visible, unless its name is taken.
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
            if cte.state == CteState::Initial {
                let message = format!(
                    "recursive reference to query \"{}\" must not appear within its non-recursive term",
                    name.last()
                );
                return Err(self.error(name.at(), SqlState::INVALID_RECURSION, message));
            }
            *self.cte_references.entry(cte.id).or_default() += 1;
            return self.relation_item(
                name.last(),
                None,
                RelationKind::Cte(cte.id),
                cte.columns,
                false,
                alias,
            );
        }
        if let Some(relation) = system::find(self.context.catalog, name.schema(), name.last(), &self.path) {
            return self.system_item(relation, alias);
        }
        match self.relation(name)? {
            Relation::Table(table) => {
                let table = table.clone();
                let columns = table_columns(&table);
                let (oid, schema) = (table.oid, table.schema.clone());
                let kind = RelationKind::Table(table);
                let item = self.relation_item(name.last(), Some(&schema), kind, columns, false, alias)?;
                self.requires_select(oid, item.relation());
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

    /// `SELECT last_value FROM sequence`: a call of the function that tells where the sequence stands.
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
        let checked_as = self.checked_as.replace(view.rights.owner);
        let bound = self.query(&query);
        self.checked_as = checked_as;
        self.path = path;
        self.foreign_text = foreign;
        self.scopes = scopes;
        self.views.pop();
        let mut bound = bound?;
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

    /// Functions in FROM: each may name columns of what stands to its left.
    fn function_item(
        &mut self,
        calls: &[(Call, Vec<ColumnOfFunction>)],
        ordinality: bool,
        alias: Option<&Alias>,
        declared: &[ColumnOfFunction],
    ) -> Result<Item> {
        let calls = unnest_calls(calls);
        let (mut bound, mut columns) = (Vec::new(), Vec::new());
        for (call, own) in &calls {
            let declared = if own.is_empty() { declared } else { own };
            let single = calls.len() == 1;
            let (call, mut names) = self.in_clause(Clause::FromFunction, |binder| {
                binder.function_in_from(call, declared, single, alias)
            })?;
            bound.push(call);
            columns.append(&mut names);
        }
        if ordinality {
            columns.push(plain_column("ordinality", Type::Int8));
        }
        let name = calls.first().map_or("", |(call, _)| call.name.last());
        let kind = RelationKind::Function { calls: bound, ordinality };
        self.relation_item(name, None, kind, columns, true, alias)
    }

    fn function_in_from(
        &mut self,
        call: &Call,
        declared: &[ColumnOfFunction],
        single: bool,
        alias: Option<&Alias>,
    ) -> Result<(FunctionCall, Vec<BoundColumn>)> {
        let at = call.name.at();
        let name = call.name.last();
        let is_set =
            crate::functions::functions_named(name).any(|it| matches!(it.kind, FunctionKind::Set(_)));
        let own_name = match alias {
            Some(alias) if single => alias.name.text.clone(),
            _ => name.to_string(),
        };
        if let Some(found) = self.routine_named(call, at)? {
            return self.routine_rows(found, declared, &own_name, at);
        }
        if makes_records(name) {
            return self.json_rows(call, declared, at);
        }
        if !is_set {
            let value = self.call(call, at)?;
            let value = self.known(value, at)?;
            let columns = vec![plain_column(&own_name, value.ty())];
            return Ok((FunctionCall::Scalar(value), columns));
        }
        let resolved = match self.call_in_from(call, at)? {
            Ok(resolved) => resolved,
            Err(value) => {
                let columns = vec![plain_column(&own_name, value.ty())];
                return Ok((FunctionCall::Scalar(value), columns));
            }
        };
        if !matches!(resolved.function.kind, FunctionKind::Set(_)) {
            let ty = resolved.result;
            let value = BoundExpr::Call { function: resolved.function, args: resolved.args, ty };
            return Ok((FunctionCall::Scalar(value), vec![plain_column(&own_name, ty)]));
        }
        let mut columns: Vec<BoundColumn> = if !declared.is_empty() {
            self.declared_columns(declared)?
        } else if resolved.function.columns.is_empty() {
            vec![plain_column(out_column(name).unwrap_or(&own_name), resolved.result)]
        } else {
            resolved.function.columns.iter().map(|(name, ty)| plain_column(name, *ty)).collect()
        };
        if declared.is_empty() && resolved.result == Type::Record && resolved.function.columns.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        columns.truncate(1600);
        let set = FunctionCall::Set {
            function: resolved.function,
            args: resolved.args,
            types: columns.iter().map(|column| column.ty).collect(),
        };
        Ok((set, columns))
    }

    /// The columns of `AS (name type, …)`.
    pub(super) fn declared_columns(&self, declared: &[ColumnOfFunction]) -> Result<Vec<BoundColumn>> {
        let column = |column: &ColumnOfFunction| {
            let named = self.named_type(&column.ty)?;
            let name = column.name.text.clone();
            Ok(BoundColumn { name, ty: named.ty, modifier: named.modifier, source: None })
        };
        declared.iter().map(column).collect()
    }

    /// A routine in FROM, and the columns of its rows.
    fn routine_rows(
        &mut self,
        call: RoutineCall,
        declared: &[ColumnOfFunction],
        own_name: &str,
        at: At,
    ) -> Result<(FunctionCall, Vec<BoundColumn>)> {
        let result = call.routine.result;
        let mut columns: Vec<BoundColumn> = self
            .context
            .catalog
            .result_columns(&call.routine)
            .into_iter()
            .map(|it| BoundColumn { name: it.name, ty: it.ty, modifier: it.modifier, source: None })
            .collect();
        if !declared.is_empty() {
            columns = self.declared_columns(declared)?;
        } else if columns.is_empty() && result == Type::Record {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        } else if columns.is_empty() {
            columns = vec![plain_column(own_name, result)];
        }
        if call.routine.is_procedure || result == Type::Trigger {
            self.routine_expr(call, at)?;
            return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, "this routine returns no rows"));
        }
        let types = columns.iter().map(|column| column.ty).collect();
        let args = with_oid(&call.routine, call.args);
        Ok((FunctionCall::Set { function: rows_entry()?, args, types }, columns))
    }

    fn join_item(
        &mut self,
        left: &TableRef,
        right: &TableRef,
        kind: JoinType,
        condition: &JoinCondition,
        alias: Option<&Alias>,
        at: At,
    ) -> Result<Item> {
        let left = self.bind_item(left)?;
        // What stands to the left may be named by LATERAL on the right.
        let before = self.scope().entries.len();
        self.scope().entries.extend(left.entries.iter().cloned());
        let right_item = self.bind_item(right);
        self.scope().entries.truncate(before);
        let right_item = right_item?;
        self.check_names_across(&left, &right_item, right)?;
        let kind = match kind {
            JoinType::Cross => JoinKind::Cross,
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left => JoinKind::Left,
            JoinType::Right => JoinKind::Right,
            JoinType::Full => JoinKind::Full,
        };
        let (mut left, mut right_item) = (left, right_item);
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            left.entries.iter_mut().for_each(|entry| entry.is_nullable = true);
        }
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            right_item.entries.iter_mut().for_each(|entry| entry.is_nullable = true);
        }
        let (on, entries) = match condition {
            JoinCondition::None => (None, [left.entries, right_item.entries].concat()),
            JoinCondition::On(condition) => {
                let entries = [left.entries, right_item.entries].concat();
                (Some(self.join_on(condition, &entries)?), entries)
            }
            JoinCondition::Using(names, joined) => {
                self.join_using(left.entries, right_item.entries, names, joined.as_ref(), kind, at)?
            }
            JoinCondition::Natural(end) => {
                let names = common_names(&left.entries, &right_item.entries, at);
                self.note_natural_join(at, *end, &names);
                self.join_using(left.entries, right_item.entries, &names, None, kind, at)?
            }
        };
        let from = BoundFrom::Join { kind, left: Box::new(left.from), right: Box::new(right_item.from), on };
        let entries = match alias {
            Some(alias) => vec![self.aliased_join(entries, alias)?],
            None => entries,
        };
        Ok(Item { from, entries })
    }

    fn check_names_across(&self, left: &Item, right: &Item, item: &TableRef) -> Result<()> {
        for entry in right.entries.iter().filter(|entry| entry.name.is_some()) {
            if left.entries.iter().any(|other| other.name == entry.name && other.schema == entry.schema) {
                let name = entry.name.as_deref().unwrap_or_default();
                let message = format!("table name \"{name}\" specified more than once");
                return Err(self.error(position_of(item), SqlState::DUPLICATE_ALIAS, message));
            }
        }
        Ok(())
    }

    /// ON names only the two sides, and the queries around.
    fn join_on(&mut self, condition: &Expr, entries: &[Entry]) -> Result<BoundExpr> {
        let outer = std::mem::replace(&mut self.scope().entries, entries.to_vec());
        let on = self.clause_condition(condition, Clause::JoinOn);
        self.scope().entries = outer;
        on
    }

    /// USING and NATURAL: the joined columns come first, once.
    fn join_using(
        &mut self,
        mut left: Vec<Entry>,
        mut right: Vec<Entry>,
        names: &[Name],
        joined: Option<&Name>,
        kind: JoinKind,
        at: At,
    ) -> Result<(Option<BoundExpr>, Vec<Entry>)> {
        let (mut conditions, mut merged) = (Vec::new(), Vec::new());
        for (position, name) in names.iter().enumerate() {
            if names[..position].iter().any(|other| other.text == name.text) {
                let message = format!("column name \"{}\" appears more than once in USING clause", name.text);
                return Err(self.error(name.at, SqlState::DUPLICATE_COLUMN, message));
            }
            let left_column = self.using_column(&left, name, "left")?;
            let right_column = self.using_column(&right, name, "right")?;
            let (left_expr, right_expr) = (left_column.expr.clone(), right_column.expr.clone());
            conditions.push(self.operator("=", left_expr.clone(), right_expr.clone(), at)?);
            let (pair, ty) = self.unify(vec![left_expr, right_expr], "JOIN/USING", at)?;
            let expr = match (kind, &pair[..]) {
                (JoinKind::Right, [_, right]) => right.clone(),
                (JoinKind::Full, _) => BoundExpr::Coalesce { operands: pair, ty },
                (_, [left, ..]) => left.clone(),
                _ => BoundExpr::null(ty),
            };
            let same = left_column.modifier == right_column.modifier;
            let modifier = if same { left_column.modifier } else { Modifier::NONE };
            let source = if kind == JoinKind::Right { right_column.source } else { left_column.source };
            merged.push(VisibleColumn { name: name.text.clone(), expr, modifier, source });
        }
        let is_merged = |column: &VisibleColumn| names.iter().any(|name| name.text == column.name);
        let visible = left.iter().chain(&right).filter(|entry| entry.unqualified);
        let rest =
            visible.flat_map(|entry| entry.columns.iter()).filter(|column| !is_merged(column)).cloned();
        let columns: Vec<VisibleColumn> = merged.iter().cloned().chain(rest).collect();
        let on = match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(BoundExpr::And(conditions)),
        };
        for entry in left.iter_mut().chain(&mut right) {
            entry.unqualified = false;
        }
        let mut entries = [left, right].concat();
        entries.push(Entry::unnamed(columns));
        if let Some(joined) = joined {
            let name = Some(joined.text.clone());
            entries.push(Entry {
                name,
                schema: None,
                columns: merged,
                unqualified: false,
                relation: None,
                is_nullable: false,
            });
        }
        Ok((on, entries))
    }

    fn using_column(&self, entries: &[Entry], name: &Name, side: &str) -> Result<VisibleColumn> {
        let visible = entries.iter().filter(|entry| entry.unqualified).flat_map(|entry| &entry.columns);
        let mut matching = visible.filter(|column| column.name == name.text);
        match (matching.next(), matching.next()) {
            (Some(column), None) => Ok(column.clone()),
            (Some(_), Some(_)) => {
                let message =
                    format!("common column name \"{}\" appears more than once in {side} table", name.text);
                Err(self.error(name.at, SqlState::AMBIGUOUS_COLUMN, message))
            }
            (None, _) => {
                let message = format!(
                    "column \"{}\" specified in USING clause does not exist in {side} table",
                    name.text
                );
                Err(self.error(name.at, SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// `(a JOIN b …) AS j`: only `j` may be named from then on.
    fn aliased_join(&mut self, entries: Vec<Entry>, alias: &Alias) -> Result<Entry> {
        let visible = entries.into_iter().filter(|entry| entry.unqualified);
        let mut columns: Vec<VisibleColumn> = visible.flat_map(|entry| entry.columns).collect();
        if alias.columns.len() > columns.len() {
            let message = format!(
                "join expression \"{}\" has {} columns available but {} columns specified",
                alias.name.text,
                columns.len(),
                alias.columns.len()
            );
            return Err(self.error(alias.name.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, name) in columns.iter_mut().zip(&alias.columns) {
            column.name = name.text.clone();
        }
        Ok(Entry {
            name: Some(alias.name.text.clone()),
            schema: None,
            columns,
            unqualified: true,
            relation: None,
            is_nullable: false,
        })
    }
}

/// `unnest(a, b)` in FROM is `ROWS FROM (unnest(a), unnest(b))`.
fn unnest_calls(calls: &[(Call, Vec<ColumnOfFunction>)]) -> Vec<(Call, Vec<ColumnOfFunction>)> {
    let spread = calls.iter().flat_map(|(call, columns)| {
        if call.name.last() != "unnest" || call.args.len() < 2 {
            return vec![(call.clone(), columns.clone())];
        }
        let single = |arg: &crate::parse::syntax::CallArg| {
            let mut one = call.clone();
            one.args = vec![arg.clone()];
            (one, columns.clone())
        };
        call.args.iter().map(single).collect()
    });
    spread.collect()
}

/// The names that columns of both sides have, in the left side's order.
fn common_names(left: &[Entry], right: &[Entry], at: At) -> Vec<Name> {
    let columns = |entries: &'_ [Entry]| -> Vec<String> {
        let visible = entries.iter().filter(|entry| entry.unqualified);
        visible.flat_map(|entry| entry.columns.iter().map(|column| column.name.clone())).collect()
    };
    let right = columns(right);
    let mut names: Vec<Name> = Vec::new();
    for text in columns(left) {
        if right.contains(&text) && !names.iter().any(|name| name.text == text) {
            names.push(Name { text, at });
        }
    }
    names
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

/// What PostgreSQL names the column of a function's rows with an OUT parameter: an alias of the function does not change it.
fn out_column(function: &str) -> Option<&'static str> {
    let elements = ["json_array_elements", "jsonb_array_elements"];
    elements.contains(&function.trim_end_matches("_text")).then_some("value")
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
