//! Updatable views: a statement on a view becomes one on the table below it.
//!
//! A view is writable if its query reads one table, or one writable view, row by row. Its relation represents the
//! table's rows: columns of the view are expressions over them, and its conditions are the statement's, too.
//!
//! Source: PostgreSQL 15, `view_query_is_auto_updatable` and `rewriteTargetView` in `rewriteHandler.c`.
//!
//! # Invariants
//! - A view's column is written only if it is a column of the table; others can be read.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::bind::BindContext;
use crate::bind::binder::Binder;
use crate::bind::from::table_columns;
use crate::bind::privileges::times_named;
use crate::bind::scope::{Entry, VisibleColumn};
use crate::bind::tree::walk::{children_mut, walk};
use crate::bind::tree::{
    Arm, BoundCheck, BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundSelect, Distinct, QueryBody,
    RelationId, RelationKind, TruthValue,
};
use crate::catalog::relation::CheckOption;
use crate::catalog::{Catalog, CatalogEnvironment, Relation, Table, View};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Name, ObjectName};
use crate::rewrite::substitute::substituted;
use crate::types::{Type, Value};

/// The target of a statement that writes.
pub(crate) struct Written {
    pub table: Arc<Table>,
    /// The table's relation in the statement; `None` if it has none yet.
    pub target: Option<RelationId>,
    /// The view, if it is one.
    pub view: Option<Rc<WrittenView>>,
    /// The conditions on a row to be one of the view's.
    pub filters: ViewFilters,
}

/// The conditions of a view that is written, and of those below it, innermost first.
#[derive(Default)]
pub(crate) struct ViewFilters {
    pub conditions: Vec<BoundExpr>,
    /// True if one of the views has `security_barrier`.
    pub is_barrier: bool,
    /// The checks on rows that are written, innermost view first.
    pub checks: Vec<BoundCheck>,
}

/// A view that a statement writes.
#[derive(Debug)]
pub(crate) struct WrittenView {
    name: String,
    schema: String,
    columns: Vec<VisibleColumn>,
    /// The verb for the statement's action in messages.
    verb: &'static str,
}

impl WrittenView {
    /// The columns of the table that the view's are, up to the first that is none.
    pub fn table_columns(&self) -> Vec<usize> {
        self.columns.iter().map_while(|column| table_column(&column.expr)).collect()
    }
}

/// Returns the column of its table that an expression is.
fn table_column(expr: &BoundExpr) -> Option<usize> {
    match expr {
        BoundExpr::Column { column, .. } => Some(*column),
        _ => None,
    }
}

/// The columns of a view that are columns of its table, each with that column.
fn plain_columns(columns: &[BoundExpr]) -> Vec<(usize, usize)> {
    columns.iter().enumerate().filter_map(|(at, expr)| Some((at, table_column(expr)?))).collect()
}

/// Flags the columns of a view that can be written; `None` if rows cannot be deleted from it either.
pub(crate) fn writable_columns(catalog: &Catalog, view: &Arc<View>) -> Option<Vec<bool>> {
    let context = BindContext { catalog, path: &view.search_path, text: &view.query };
    let mut environment = CatalogEnvironment::new(catalog);
    let mut binder = Binder::new(context, &mut environment, &[]);
    let written = binder.written_view(view, &ObjectName { parts: Vec::new() }, "update").ok()?.view?;
    Some(written.columns.iter().map(|column| table_column(&column.expr).is_some()).collect())
}

/// The names that a view's query gives its columns.
pub(crate) fn names_of_query(catalog: &Catalog, view: &View) -> Option<Vec<String>> {
    let context = BindContext { catalog, path: &view.search_path, text: &view.query };
    let mut environment = CatalogEnvironment::new(catalog);
    let mut binder = Binder::new(context, &mut environment, &[]);
    binder.foreign_text = true;
    let query = binder.query(&crate::parse::parse_query(&view.query).ok()?).ok()?;
    Some(query.columns.into_iter().map(|column| column.name).collect())
}

/// A view's query, taken apart.
struct Parts {
    table: Arc<Table>,
    target: RelationId,
    columns: Vec<BoundExpr>,
    filters: Vec<BoundExpr>,
    is_barrier: bool,
    /// The views with a check option, and those below one that cascades, with their conditions.
    checks: Vec<(String, BoundExpr)>,
    /// The views between, each with those of its columns that are the table's.
    through: Vec<(RelationId, Vec<(usize, usize)>)>,
}

impl Binder<'_> {
    /// The table below a view, and the view's columns and conditions over it.
    pub fn written_view(
        &mut self,
        view: &Arc<View>,
        name: &ObjectName,
        verb: &'static str,
    ) -> Result<Written> {
        let own = self.requires_select(view.oid, None);
        let query = self.view_query(view, name.at())?;
        let (sources, modifiers): (Vec<_>, Vec<_>) =
            query.columns.iter().map(|column| (column.source, column.modifier)).unzip();
        let parts = self.take_apart(query, false).map_err(|detail| {
            let message = format!("cannot {verb} view \"{}\"", view.name);
            let hint = "Write the tables that the view reads.";
            let error = self.error(name.at(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            error.with_detail(detail).with_hint(hint)
        })?;
        let own_columns = plain_columns(&parts.columns);
        let named = view.columns.iter().zip(parts.columns).zip(sources.into_iter().zip(modifiers));
        let columns = named.map(|((name, expr), (source, modifier))| VisibleColumn {
            name: name.clone(),
            expr,
            modifier,
            source,
        });
        for (number, required) in self.required[own..].iter_mut().enumerate() {
            let is_between = |(id, _): &&(RelationId, _)| required.relation == Some(*id);
            let columns = match (number, parts.through.iter().find(is_between)) {
                (0, _) => &own_columns,
                (_, Some((_, columns))) => columns,
                _ => continue,
            };
            required.relation = Some(parts.target);
            (required.privileges, required.selects_if_read) = (0, true);
            required.columns_of_view = Some(columns.clone());
            required.named_by_view = times_named(&parts.filters, parts.target);
        }
        let columns = columns.collect();
        let written = WrittenView { name: view.name.clone(), schema: view.schema.clone(), columns, verb };
        Ok(Written {
            table: parts.table,
            target: Some(parts.target),
            view: Some(Rc::new(written)),
            filters: ViewFilters {
                conditions: parts.filters,
                is_barrier: parts.is_barrier,
                checks: self.view_checks(parts.checks)?,
            },
        })
    }

    /// The table that a query reads row by row, or why it does not.
    /// `is_checked`: a view above has a check option that cascades.
    fn take_apart(&self, query: BoundQuery, is_checked: bool) -> std::result::Result<Parts, &'static str> {
        if !query.ctes.is_empty() {
            return Err("Views containing WITH are not automatically updatable.");
        }
        if query.limit.is_some() || query.offset.is_some() {
            return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
        }
        let (width, is_barrier) = (query.columns.len(), query.is_barrier);
        let option = query.view.as_ref().and_then(|view| view.check_option);
        let cascades = is_checked || option == Some(CheckOption::Cascaded);
        let view = query.view.filter(|_| is_checked || option.is_some());
        let own_check = |filters: &[BoundExpr]| {
            let checked = view.iter().zip(filters);
            checked.map(|(view, filter)| (view.name.clone(), filter.clone())).collect::<Vec<_>>()
        };
        let QueryBody::Select(mut select) = query.body else {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        };
        check_select(&select)?;
        let relation = select.relations.swap_remove(0);
        let mut columns: Vec<BoundExpr> =
            select.targets.into_iter().take(width).map(|target| target.expr).collect();
        let mut filters: Vec<BoundExpr> = select.filter.into_iter().collect();
        match relation.kind {
            RelationKind::Table(table) => {
                let checks = own_check(&filters);
                Ok(Parts {
                    table,
                    target: relation.id,
                    columns,
                    filters,
                    is_barrier,
                    checks,
                    through: Vec::new(),
                })
            }
            // A view, for whose rows privileges are needed; not a subquery.
            RelationKind::Query(inner)
                if self.required.iter().any(|needed| needed.relation == Some(relation.id)) =>
            {
                let mut parts = self.take_apart(*inner, cascades)?;
                if columns.iter().chain(&filters).any(has_subquery) {
                    return Err("Views on views are not automatically updatable if they contain subqueries.");
                }
                parts.through.push((relation.id, plain_columns(&parts.columns)));
                let merged = HashMap::from([(relation.id, parts.columns)]);
                for expr in columns.iter_mut().chain(&mut filters) {
                    *expr = substituted(expr, &merged);
                }
                parts.checks.extend(own_check(&filters));
                parts.filters.extend(filters);
                parts.is_barrier |= is_barrier;
                Ok(Parts { columns, ..parts })
            }
            _ => Err(ONE_RELATION),
        }
    }

    /// The conditions of views with a check option as checks of rows, which must be true.
    fn view_checks(&mut self, conditions: Vec<(String, BoundExpr)>) -> Result<Vec<BoundCheck>> {
        let mut checks = Vec::with_capacity(conditions.len());
        for (name, condition) in conditions {
            let operand = Box::new(condition);
            let when = BoundExpr::IsTruth { operand, value: TruthValue::True, negated: true };
            let view = BoundExpr::constant(Value::text(&name), Type::Text);
            let then = self.call_named("heddle_view_violation", vec![view], 0)?;
            let otherwise = Box::new(BoundExpr::constant(Value::Bool(true), Type::Bool));
            let arms = vec![Arm { when, then }];
            let condition = BoundExpr::Case { operand: None, arms, otherwise, ty: Type::Bool };
            checks.push(BoundCheck { name, condition });
        }
        Ok(checks)
    }

    /// Makes the target visible under its name or alias, in the statement's own scope.
    pub fn written_entry(&mut self, written: &Written, alias: Option<&Name>) -> (RelationId, Entry) {
        let Written { table, view, .. } = written;
        let target = written.target.unwrap_or_else(|| self.new_relation());
        let (own, schema) = match view {
            Some(view) => (&view.name, &view.schema),
            None => (&table.name, &table.schema),
        };
        let shown = alias.map_or(own.as_str(), |alias| alias.text.as_str());
        let schema = alias.is_none().then_some(schema.as_str());
        if view.is_none() {
            self.requires_target(table.oid, target);
        }
        let mut entry = Entry::of_relation(shown, schema, target, &table_columns(table));
        if let Some(view) = view {
            entry.columns.clone_from(&view.columns);
            entry.relation = None;
        }
        self.scope().owned.push(target);
        self.scope().written = view.clone();
        (target, entry)
    }

    /// The entry that `excluded` names: the columns of the written relation, of the row that was to be inserted.
    pub fn excluded_entry(&mut self, entry: &Entry, target: RelationId, excluded: RelationId) -> Entry {
        let mut columns = entry.columns.clone();
        columns.iter_mut().for_each(|column| rename(&mut column.expr, target, excluded));
        Entry {
            name: Some("excluded".to_string()),
            schema: None,
            columns,
            unqualified: true,
            relation: Some(excluded),
            is_nullable: false,
        }
    }

    /// The relation that represents the rows that are written, for a statement that reads them.
    pub fn written_relation(&mut self, written: &Written, target: RelationId) -> Result<()> {
        let columns = table_columns(&written.table);
        let kind = RelationKind::Table(written.table.clone());
        let name = written.table.name.clone();
        let indexed = self.index_expressions(&written.table, target)?;
        let relation = BoundRelation { id: target, name, kind, columns, lateral: false, indexed };
        self.scope().relations.push(relation);
        Ok(())
    }

    /// The position in the table of a column of a view that a statement writes.
    pub fn view_column(&self, view: &WrittenView, name: &Name) -> Result<usize> {
        let Some(column) = view.columns.iter().find(|column| column.name == name.text) else {
            let message = format!("column \"{}\" of relation \"{}\" does not exist", name.text, view.name);
            return Err(self.error(name.at, SqlState::UNDEFINED_COLUMN, message));
        };
        table_column(&column.expr).ok_or_else(|| self.not_writable(view, name))
    }

    fn not_writable(&self, view: &WrittenView, name: &Name) -> SqlError {
        let message = format!("cannot {} column \"{}\" of view \"{}\"", view.verb, name.text, view.name);
        let detail = "View columns that are not columns of their base relation are not updatable.";
        self.error(name.at, SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail)
    }

    /// Resolves the target of a statement that writes: a table, or the table below a view.
    pub fn written(&mut self, name: &ObjectName, verb: &'static str) -> Result<Written> {
        if let Ok(Relation::View(view)) = self.relation(name) {
            let view = view.clone();
            return self.written_view(&view, name, verb);
        }
        let table = self.written_table(name, verb)?;
        Ok(Written { table, target: None, view: None, filters: ViewFilters::default() })
    }
}

const ONE_RELATION: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Checks that a SELECT gives one row for each of its relation's.
fn check_select(select: &BoundSelect) -> std::result::Result<(), &'static str> {
    if select.distinct != Distinct::No {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !select.group_by.is_empty() {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if !select.aggregates.is_empty() || select.grouping_sets.is_some() {
        return Err("Views that return aggregate functions are not automatically updatable.");
    }
    if !select.windows.is_empty() {
        return Err("Views that return window functions are not automatically updatable.");
    }
    if select.set_returning {
        return Err("Views that return set-returning functions are not automatically updatable.");
    }
    match (&select.from[..], &select.relations[..]) {
        ([BoundFrom::Relation(_)], [_]) => Ok(()),
        _ => Err(ONE_RELATION),
    }
}

fn has_subquery(expr: &BoundExpr) -> bool {
    let mut found = false;
    walk(expr, &mut |part| found |= matches!(part, BoundExpr::Subquery(_)));
    found
}

/// Names another relation's columns instead.
fn rename(expr: &mut BoundExpr, from: RelationId, to: RelationId) {
    if let BoundExpr::Column { relation, .. } = expr
        && *relation == from
    {
        *relation = to;
    }
    children_mut(expr, &mut |child| rename(child, from, to));
}
