//! The check of a table's new expressions: defaults, generated columns and check constraints are bound once.

use std::sync::Arc;

use super::draft::TableDraft;
use crate::bind::Clause;
use crate::bind::routines::is_immutable;
use crate::bind::tree::walk::walk;
use crate::bind::tree::{BoundExpr, RelationId};
use crate::catalog::{Catalog, Column, ColumnOrigin, Table};
use crate::ddl::definition_text::{has_check, has_origin};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Connection;

impl Connection {
    /// Binds the defaults, generated columns and checks that a draft adds, to find what is wrong with them now; and what the
    /// table had, if a column gets another type, as it was stored.
    pub(crate) fn check_draft(&mut self, draft: &mut TableDraft, text: &str) -> Result<()> {
        let columns: Vec<Column> = draft.columns.clone();
        let probe = self.probe(draft);
        let known = self.current_catalog().table_by_oid(draft.oid).cloned();
        let known = known.as_deref();
        let is_retyped = known.is_some_and(|known| {
            known.columns.iter().zip(&columns).any(|(old, new)| (old.ty, old.domain) != (new.ty, new.domain))
        });
        self.with_binder(text, |binder| {
            let target = binder.new_relation();
            for column in &columns {
                binder.defines = !has_origin(known, column);
                if !binder.defines && !is_retyped {
                    continue;
                }
                match &column.origin {
                    ColumnOrigin::Default(_) => {
                        let value = binder.default_value(column)?;
                        if binder.defines {
                            refuse_subquery(&value, "DEFAULT expression")?;
                        }
                    }
                    ColumnOrigin::Generated(expr) => {
                        let value = binder.row_expression(&probe, target, expr, Clause::Generated)?;
                        let value = binder.assigned(value, column.ty, column.modifier, &column.name, 0)?;
                        if binder.defines {
                            check_generated(binder.context.catalog, &value, target, &columns)?;
                        }
                    }
                    _ => {}
                }
            }
            for check in &probe.checks {
                binder.defines = !has_check(known, check);
                if !binder.defines && !is_retyped {
                    continue;
                }
                let condition = binder.check_condition(&probe, target, &check.condition)?;
                if binder.defines {
                    refuse_subquery(&condition, "check constraint")?;
                }
            }
            Ok(())
        })?;
        self.qualify_draft(draft, &probe)
    }

    /// The draft as a table that the binder can look at; its rows are nowhere.
    fn probe(&self, draft: &TableDraft) -> Arc<Table> {
        Arc::new(Table {
            oid: draft.oid,
            schema: draft.schema.clone(),
            name: draft.name.clone(),
            columns: draft.columns.clone(),
            key: draft.key.clone(),
            key_name: None,
            key_oid: None,
            indexes: Vec::new(),
            nominal_indexes: Vec::new(),
            options: Vec::new(),
            checks: draft.checks.clone(),
            foreign_keys: Vec::new(),
            persistence: draft.persistence,
            comment: None,
            key_comments: Vec::new(),
            rights: draft.rights.clone(),
            stored_query: None,
            engine: self.shared().store.any_table(),
        })
    }
}

/// A generated column is an immutable expression over columns that are not generated.
fn check_generated(
    catalog: &Catalog,
    value: &BoundExpr,
    target: RelationId,
    columns: &[Column],
) -> Result<()> {
    let mut wrong = None;
    walk(value, &mut |part| match part {
        BoundExpr::Column { relation, column, .. }
            if *relation == target && matches!(columns[*column].origin, ColumnOrigin::Generated(_)) =>
        {
            let message = format!(
                "cannot use generated column \"{}\" in column generation expression",
                columns[*column].name
            );
            wrong = Some(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        part if !is_immutable(catalog, part) => {
            wrong = Some(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                "generation expression is not immutable",
            ));
        }
        BoundExpr::Subquery(_) => {
            wrong = Some(SqlError::unsupported("cannot use subquery in column generation expression"));
        }
        _ => {}
    });
    wrong.map_or(Ok(()), Err)
}

/// # Errors
/// 0A000: the expression of a definition holds a subquery.
pub(in crate::ddl) fn refuse_subquery(expr: &BoundExpr, what: &str) -> Result<()> {
    let mut is_found = false;
    walk(expr, &mut |part| is_found |= matches!(part, BoundExpr::Subquery(_)));
    if is_found { Err(SqlError::unsupported(format!("cannot use subquery in {what}"))) } else { Ok(()) }
}
