//! CREATE VIEW.
//!
//! # Invariants
//! - A view's columns are those that its query had when it was created: the stars of the stored query are written out.
//! - A view that reads a temporary relation is temporary, too.

use std::sync::Arc;

use crate::bind::Stars;
use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Relation, View};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateView, Query, Statement};
use crate::session::{Connection, Severity};
use crate::types::{Modifier, Type};

/// Names, types and modifiers of a query's columns.
type Columns = Vec<(String, Type, Modifier)>;

impl Connection {
    /// The schemas that the names of a view's query are looked up in: those of the search path that are there, so that
    /// none that is made later comes before them.
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
        let query = Statement::Query(create.query.clone());
        let found = self.plan_for_columns(&query, text)?;
        let temporary = self.is_temporary_view(create, text)?;
        let schema = self.schema_for(&create.name, temporary)?;
        let mut columns: Vec<String> = found.iter().map(|(name, ..)| name.clone()).collect();
        if create.columns.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (column, name) in columns.iter_mut().zip(&create.columns) {
            *column = name.text.clone();
        }
        if let Some((position, twice)) =
            columns.iter().enumerate().find(|(position, name)| columns[..*position].contains(name))
        {
            let _ = position;
            let message = format!("column \"{twice}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
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
        let view = View {
            oid,
            schema: schema.clone(),
            name: name.clone(),
            columns,
            query: self.with_fixed_columns(&create.text)?,
            search_path: self.view_path(temporary),
            comment,
            column_comments,
            rights,
            column_acls,
        };
        catalog.put_relation(&schema, &name, Relation::View(Arc::new(view.clone())));
        self.publish(&[Object::View(view)], catalog)?;
        Ok("CREATE VIEW")
    }

    /// Whether a view is to be temporary: because it is said, or because it reads what is temporary.
    fn is_temporary_view(&mut self, create: &CreateView, text: &str) -> Result<bool> {
        let named = create.name.schema();
        let in_temporary = named == Some("pg_temp") || named == Some(self.environment().temporary.as_str());
        let is_temporary = create.temporary || in_temporary;
        if is_temporary || !self.reads_temporary(&create.query, text)? {
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

    /// The text of a query with its stars written out, so that it keeps its columns.
    pub(super) fn with_fixed_columns(&mut self, text: &str) -> Result<String> {
        let (columns, stars) = self.columns_and_stars(text)?;
        if stars.is_incomplete || stars.found.is_empty() {
            return Ok(text.to_string());
        }
        let mut items = stars.found;
        items.sort_unstable();
        let fixed = crate::parse::with_columns(text, &items);
        match self.columns_and_stars(&fixed) {
            Ok((same, _)) if same == columns => Ok(fixed),
            _ => Ok(text.to_string()),
        }
    }

    fn columns_and_stars(&mut self, text: &str) -> Result<(Columns, Stars)> {
        let query = Statement::Query(Box::new(crate::parse::parse_query(text)?));
        self.with_binder(text, |binder| {
            binder.stars = Some(Stars::default());
            let bound = binder.data_statement(&query)?;
            binder.required.clear();
            let columns = bound.columns.into_iter().map(|column| (column.name, column.ty, column.modifier));
            Ok((columns.collect(), binder.stars.take().unwrap_or_default()))
        })
    }

    /// Whether a query reads a temporary relation.
    pub(super) fn reads_temporary(&mut self, query: &Query, text: &str) -> Result<bool> {
        let query = Statement::Query(Box::new(query.clone()));
        let oids: Vec<u32> = self.with_binder(text, |binder| {
            binder.data_statement(&query)?;
            Ok(binder.required.drain(..).map(|required| required.oid).collect())
        })?;
        let environment = self.environment();
        let is_temporary = |oid: &u32| {
            environment
                .catalog
                .relation_name(*oid)
                .is_some_and(|(schema, _)| *schema == environment.temporary)
        };
        Ok(oids.iter().any(is_temporary))
    }
}
