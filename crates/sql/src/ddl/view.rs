//! CREATE VIEW.
//!
//! # Invariants
//! - A view's columns are those that its query had when it was created: the stars and natural joins of the stored
//!   query are written out, and names that could become ambiguous are qualified.
//! - A view that reads a temporary relation is temporary, too.

use std::sync::Arc;

use crate::bind::tree::BoundColumn;
use crate::bind::{LiteralUse, Stars, fixed_literals};
use crate::catalog::relation::{CheckOption, ViewOptions};
use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Relation, View};
use crate::ddl::alter_table::unrecognized;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateView, ObjectName, Statement};
use crate::parse::{TextEdit, parse, quote_identifier};
use crate::session::{Connection, Severity, parse_bool};
use crate::types::{Modifier, Type, format_type};

/// Names, types and modifiers of a query's columns.
type Columns = Vec<(String, Type, Modifier)>;

/// The parts of a view's query to rewrite.
type Noted = (Stars, Vec<TextEdit>, Vec<LiteralUse>);

/// A view's query, bound once.
pub(super) struct ExaminedQuery {
    columns: Columns,
    /// The query with its stars and natural joins written out, so that it keeps its columns.
    pub text: String,
    /// True if it reads a temporary relation.
    pub reads_temporary: bool,
}

impl Connection {
    /// The schemas that the names of a view's query are looked up in: those of the search path that are there, so that
    /// none that is made later is searched before them.
    pub(super) fn view_path(&self, temporary: bool) -> Vec<String> {
        let environment = self.environment();
        let mut path = environment.path();
        path.retain(|name| {
            if *name == environment.temporary {
                temporary
            } else {
                environment.catalog.schema(name).is_some()
            }
        });
        path
    }

    pub(crate) fn create_view(&mut self, create: &CreateView, text: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let name = create.name.last().to_string();
        let examined = self.examine(create, text)?;
        if create.name.schema().is_some() {
            self.schema_for(&create.name, create.temporary)?;
        }
        let temporary = self.is_temporary_view(create, examined.reads_temporary)?;
        let schema = self.schema_for(&create.name, temporary)?;
        let columns = column_names(create, &examined.columns)?;
        let existing = catalog.relation(&schema, &name).cloned();
        let (mut rights, mut column_acls) = (self.new_rights(RightsKind::Table, &schema), Vec::new());
        let (mut comment, mut column_comments) = (None, Vec::new());
        let oid = match existing {
            Some(Relation::View(view)) if create.or_replace => {
                self.check_owner(&view.rights, "view", &name)?;
                if columns.len() < view.columns.len() {
                    return Err(SqlError::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        "cannot drop columns from view",
                    ));
                }
                if let Some((old, new)) = view.columns.iter().zip(&columns).find(|(old, new)| old != new) {
                    let message = format!("cannot change name of view column \"{old}\" to \"{new}\"");
                    let hint = "Drop the view and create it again.";
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).with_hint(hint));
                }
                self.check_column_types(&view, &examined.columns)?;
                (rights, column_acls) = (view.rights.clone(), view.column_acls.clone());
                (comment, column_comments) = (view.comment.clone(), view.column_comments.clone());
                view.oid
            }
            Some(_) if create.or_replace => {
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view")));
            }
            _ => {
                self.is_free(&schema, &name, false)?;
                catalog.new_oid()
            }
        };
        let asks = create.options.iter().any(|(name, _)| name == "check_option");
        let mut view = View {
            oid,
            schema: schema.clone(),
            name: name.clone(),
            columns,
            query: examined.text,
            search_path: self.view_path(temporary),
            comment,
            column_comments,
            rights,
            column_acls,
            options: ViewOptions {
                check_option: asks.then_some(CheckOption::Local),
                ..ViewOptions::default()
            },
        };
        // Before the option's own value is looked at.
        self.check_updatable(&view)?;
        view.options = changed_options(ViewOptions::default(), &create.options)?;
        catalog.put_relation(&schema, &name, Relation::View(Arc::new(view.clone())));
        self.publish(&[Object::View(view)], catalog)?;
        Ok("CREATE VIEW")
    }

    /// Refuses a check option of a view through which no rows are written.
    fn check_updatable(&mut self, view: &View) -> Result<()> {
        if view.options.check_option.is_none() {
            return Ok(());
        }
        let no_name = ObjectName { parts: Vec::new() };
        let view = Arc::new(view.clone());
        let written = self.with_binder("", |binder| {
            binder.foreign_text = true;
            binder.written_view(&view, &no_name, "update").map(|_| ())
        });
        written.map_err(|error| {
            let message = "WITH CHECK OPTION is supported only on automatically updatable views";
            SqlError::unsupported(message).with_hint(error.detail().unwrap_or_default())
        })
    }

    /// Checks that a view's query keeps the types of the view's columns, which other definitions rely on.
    fn check_column_types(&mut self, view: &View, columns: &Columns) -> Result<()> {
        let text =
            format!("SELECT * FROM {}.{}", quote_identifier(&view.schema), quote_identifier(&view.name));
        let Some(parsed) = parse(&text)?.pop() else { return Ok(()) };
        // A query that cannot be bound any more has no types to keep.
        let Ok(before) = self.plan_for_columns(&parsed.statement, &text) else { return Ok(()) };
        let mut pairs = before.iter().zip(columns);
        let changes = |(old, (_, ty, modifier)): &(&BoundColumn, &(String, Type, Modifier))| {
            (old.ty, old.modifier) != (*ty, *modifier)
        };
        let Some((old, (_, ty, modifier))) = pairs.find(changes) else { return Ok(()) };
        let catalog = &self.environment().catalog;
        let shown = |ty, modifier| format_type(ty, modifier, &|oid| catalog.user_type_name(oid));
        let (from, to) = (shown(old.ty, old.modifier), shown(*ty, *modifier));
        let message = format!("cannot change data type of view column \"{}\" from {from} to {to}", old.name);
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// ALTER VIEW … SET and RESET of options.
    pub(super) fn change_view_options(
        &mut self,
        view: &View,
        resets: bool,
        parameters: &[(String, Option<String>)],
    ) -> Result<()> {
        let mut options = view.options;
        match resets {
            true => parameters.iter().for_each(|(name, _)| match name.as_str() {
                "security_barrier" => options.barrier = None,
                "security_invoker" => options.invoker = None,
                "check_option" => options.check_option = None,
                _ => {}
            }),
            false => options = changed_options(options, parameters)?,
        }
        let mut catalog = self.catalog_to_change();
        let changed = View { options, ..view.clone() };
        self.check_updatable(&changed)?;
        catalog.put_relation(&view.schema, &view.name, Relation::View(Arc::new(changed.clone())));
        self.publish(&[Object::View(changed)], catalog)
    }

    pub(super) fn rename_view_column(&mut self, view: &View, from: &str, to: &str) -> Result<()> {
        let missing = || {
            let message = format!("column \"{from}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        };
        let position = view.columns.iter().position(|name| name == from).ok_or_else(missing)?;
        if view.columns.iter().any(|name| name == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let follow = self.queries_naming((view.oid, &view.name), Some((position, from)))?;
        let mut catalog = self.catalog_to_change();
        let mut changed = view.clone();
        changed.columns[position] = to.to_string();
        catalog.put_relation(&view.schema, &view.name, Relation::View(Arc::new(changed.clone())));
        self.publish(&[Object::View(changed)], catalog)?;
        self.follow_in_queries(follow, to)
    }

    /// Returns true if a view is to be temporary: because the statement says so, or because it reads a temporary
    /// relation.
    fn is_temporary_view(&mut self, create: &CreateView, reads_temporary: bool) -> Result<bool> {
        let named = create.name.schema();
        let in_temporary = named == Some("pg_temp") || named == Some(self.environment().temporary.as_str());
        let is_temporary = create.temporary || in_temporary;
        if is_temporary || !reads_temporary {
            return Ok(is_temporary);
        }
        let message = format!("view \"{}\" will be a temporary view", create.name.last());
        self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        match named {
            None => Ok(true),
            Some(_) => Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "cannot create temporary relation in non-temporary schema",
            )),
        }
    }

    /// Examines a view's query for CREATE VIEW. Privileges are checked where the query runs.
    pub(super) fn examine(&mut self, create: &CreateView, text: &str) -> Result<ExaminedQuery> {
        let query = Statement::Query(create.query.clone());
        let (columns, (mut stars, mut casts, mut literals), relations) =
            self.columns_and_stars(&query, text)?;
        let environment = self.environment();
        let schema_of = |oid: &u32| environment.catalog.relation_name(*oid).map(|(schema, _)| schema);
        let reads_temporary = relations.iter().any(|oid| schema_of(oid) == Some(&environment.temporary));
        if stars.is_incomplete {
            stars.found.clear();
        }
        let mut examined = ExaminedQuery { text: create.text.clone(), columns, reads_temporary };
        for literal in &mut literals {
            literal.moved(create.text_at);
        }
        let fixed = fixed_literals(&create.text, &literals);
        stars.names.extend(fixed.into_iter().map(|(_, at, text)| (at + create.text_at, text)));
        if stars.found.is_empty() && stars.names.is_empty() && stars.joins.is_empty() && casts.is_empty() {
            return Ok(examined);
        }
        let from = create.text_at as usize;
        casts.iter_mut().for_each(|(start, end, _)| (*start, *end) = (*start - from, *end - from));
        stars.found.iter_mut().chain(&mut stars.names).for_each(|(at, _)| *at -= create.text_at);
        for join in &mut stars.joins {
            join.at -= create.text_at;
            join.end -= create.text_at;
        }
        let fixed =
            crate::parse::with_columns(&create.text, (&stars.found, &stars.names, &stars.joins), &casts);
        if let Ok(query) = crate::parse::parse_query(&fixed)
            && let Ok((columns, ..)) = self.columns_and_stars(&Statement::Query(Box::new(query)), &fixed)
            && columns == examined.columns
        {
            examined.text = fixed;
        }
        Ok(examined)
    }

    /// A query's columns, its stars, the conversions of arguments and what its literals mean, and the relations that it
    /// reads.
    fn columns_and_stars(&mut self, query: &Statement, text: &str) -> Result<(Columns, Noted, Vec<u32>)> {
        self.with_binder(text, |binder| {
            (binder.stars, binder.literals) = (Some(Stars::default()), Some(Vec::new()));
            let bound = binder.data_statement(query)?;
            let columns = bound.columns.into_iter().map(|column| (column.name, column.ty, column.modifier));
            let relations = binder.required.drain(..).map(|required| required.oid).collect();
            let stars = binder.stars.take().unwrap_or_default();
            let literals = binder.literals.take().unwrap_or_default();
            Ok((columns.collect(), (stars, std::mem::take(&mut binder.casts), literals), relations))
        })
    }
}

/// The names of a view's columns: those that are given, and for the others those of its query.
fn column_names(create: &CreateView, made: &Columns) -> Result<Vec<String>> {
    let mut columns: Vec<String> = made.iter().map(|(name, ..)| name.clone()).collect();
    if create.columns.len() > columns.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    for (column, name) in columns.iter_mut().zip(&create.columns) {
        *column = name.text.clone();
    }
    let is_twice = |position: &usize| columns[..*position].contains(&columns[*position]);
    if let Some(twice) = (0..columns.len()).find(is_twice).map(|position| &columns[position]) {
        let message = format!("column \"{twice}\" specified more than once");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    Ok(columns)
}

/// A view's options with those that a statement sets.
///
/// # Errors
/// 22023 for options and values that there are not.
fn changed_options(mut options: ViewOptions, set: &[(String, Option<String>)]) -> Result<ViewOptions> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    for (position, (name, value)) in set.iter().enumerate() {
        if set[..position].iter().any(|(other, _)| other == name) {
            return Err(invalid(format!("parameter \"{name}\" specified more than once")));
        }
        let value = value.as_deref().unwrap_or("true");
        let is_on = || {
            let invalid = || invalid(format!("invalid value for boolean option \"{name}\": {value}"));
            parse_bool(value).ok_or_else(invalid)
        };
        match name.as_str() {
            "security_barrier" => options.barrier = Some(is_on()?),
            "security_invoker" => options.invoker = Some(is_on()?),
            "check_option" => {
                options.check_option = Some(match value.to_ascii_lowercase().as_str() {
                    "local" => CheckOption::Local,
                    "cascaded" => CheckOption::Cascaded,
                    _ => {
                        let message = format!("invalid value for enum option \"check_option\": {value}");
                        let detail = "Valid values are \"local\" and \"cascaded\".";
                        return Err(invalid(message).with_detail(detail));
                    }
                });
            }
            _ => return Err(unrecognized(name)),
        }
    }
    Ok(options)
}
