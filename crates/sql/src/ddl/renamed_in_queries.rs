//! Stored queries follow the relations and columns that they read, when these get other names.
//!
//! # Invariants
//! - A query is looked at before the change, while it can still be bound, and bound again after it: one that would not have
//!   the columns that it had refuses the change.

use std::sync::Arc;

use crate::bind::NameSites;
use crate::catalog::store::{Object, TEMPORARY};
use crate::catalog::{Relation, StoredQuery, Table, View};
use crate::ddl::drop::may_name;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement;
use crate::parse::{names_column, qualified_name, quote_identifier, with_edits};
use crate::session::Connection;
use crate::types::Type;

/// The stored queries that name what is renamed, each with the types of its columns.
#[derive(Default)]
pub(super) struct QueriesToFollow {
    queries: Vec<(Arc<View>, NameSites, Vec<Type>)>,
    /// The renamed object's description in messages.
    what: String,
    /// The schema and the name of the relation, if that is what is renamed.
    relation: Option<(String, String)>,
}

impl Connection {
    /// The stored queries that name a relation, or one of its columns: its position and its name.
    ///
    /// # Errors
    /// 2BP01: one of them cannot be bound.
    pub(super) fn queries_naming(
        &mut self,
        relation: (u32, &str),
        column: Option<(usize, &str)>,
    ) -> Result<QueriesToFollow> {
        let (oid, name) = relation;
        let what = match column {
            Some((_, column)) => format!("column {column} of {name}"),
            None => name.to_string(),
        };
        let mut queries = Vec::new();
        let catalog = self.current_catalog();
        for view in catalog.stored_queries().filter(|view| may_name(&view.query, name)) {
            let mut sites = NameSites::new(oid, column);
            match self.bound_types(&view, &mut Some(&mut sites)) {
                Ok(types) if !sites.is_empty() => queries.push((view, sites, types)),
                Ok(_) => {}
                // A query that no longer binds prevents renames of the objects that it names.
                Err(_) if column.is_none_or(|(_, column)| names_column(&view.query, column)) => {
                    return Err(still_named(&what, &view));
                }
                Err(_) => {}
            }
        }
        let relation = catalog.relation_name(oid).filter(|_| column.is_none()).cloned();
        Ok(QueriesToFollow { queries, what, relation })
    }

    /// Rewrites the queries to use the new name.
    ///
    /// # Errors
    /// 2BP01: one of them cannot.
    pub(super) fn follow_in_queries(&mut self, follow: QueriesToFollow, to: &str) -> Result<()> {
        for (view, mut sites, types) in follow.queries {
            let mut renamed = view.as_ref().clone();
            renamed.query = with_edits(&view.query, sites.edits(&view.query, to));
            if self.bound_types(&renamed, &mut None).ok().as_ref() != Some(&types) {
                sites.pin_all();
                renamed.query = with_edits(&view.query, sites.edits(&view.query, to));
                if self.bound_types(&renamed, &mut None).ok().as_ref() != Some(&types) {
                    return Err(still_named(&follow.what, &view));
                }
            }
            self.keep_query(view.oid, renamed.query)?;
        }
        match &follow.relation {
            Some(relation) => self.follow_in_bodies(relation, to),
            None => Ok(()),
        }
    }

    /// A relation's name as a stored query has it.
    pub(super) fn name_in_queries(schema: &str, name: &str) -> String {
        match schema.starts_with(TEMPORARY) {
            true => quote_identifier(name).to_string(),
            false => qualified_name(schema, name),
        }
    }

    /// Replaces the text of the query of a view, or of a materialized one.
    fn keep_query(&mut self, oid: u32, query: String) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let object = match catalog.relation_by_oid(oid).cloned() {
            Some(Relation::View(view)) => {
                let view = View { query, ..view.as_ref().clone() };
                let relation = Relation::View(Arc::new(view.clone()));
                catalog.put_relation(&view.schema, &view.name, relation);
                Object::View(view)
            }
            Some(Relation::Table(table)) => {
                let stored = table.stored_query.clone();
                let stored_query = stored.map(|stored| StoredQuery { query, ..stored });
                let table = Arc::new(Table { stored_query, ..table.as_ref().clone() });
                catalog.put_table(table.clone());
                Object::table(&table)
            }
            _ => return Ok(()),
        };
        self.publish(&[object], catalog)
    }

    /// The types of a stored query's columns. `sites`: notes what it names.
    fn bound_types(&mut self, view: &View, sites: &mut Option<&mut NameSites>) -> Result<Vec<Type>> {
        let query = Statement::Query(Box::new(crate::parse::parse_query(&view.query)?));
        self.with_binder(&view.query, |binder| {
            binder.path.clone_from(&view.search_path);
            binder.settled = true;
            binder.sites = sites.as_mut().map(|sites| std::mem::replace(*sites, NameSites::new(0, None)));
            let bound = binder.data_statement(&query)?;
            if let (Some(sites), Some(found)) = (sites.as_mut(), binder.sites.take()) {
                **sites = found;
            }
            Ok(bound.columns.iter().map(|column| column.ty).collect())
        })
    }
}

fn still_named(what: &str, view: &View) -> SqlError {
    let message = format!("cannot rename {what} because view {} depends on it", view.name);
    let hint = "Drop the view first, and create it again.";
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_hint(hint)
}
