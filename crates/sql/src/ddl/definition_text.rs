//! Expressions of definitions as the catalog keeps them: defaults, checks, generated columns, conditions of triggers.
//!
//! # Invariants
//! - What a name means is settled when the definition is made, as in PostgreSQL: the names of users' functions and types have
//!   their schemas before them, so no session's search path gives them another meaning; dates, times and intervals are
//!   written as any session reads them.

use std::sync::Arc;

use crate::bind::fixed_literals;
use crate::bind::routines::calls_in_condition;
use crate::bind::tree::BoundExpr;
use crate::bind::{BindContext, Binder, Clause};
use crate::catalog::{Check, Column, ColumnOrigin, Routine, Table};
use crate::ddl::create_table::TableDraft;
use crate::error::Result;
use crate::parse::syntax::At;
use crate::parse::{
    Reference, TextEdit, parse_expression, qualified_name, with_literals, with_names_and_edits,
};
use crate::routine::trigger::names_of_rows;
use crate::session::Connection;
use crate::types::{Type, Value};

/// Returns true if a draft's column has the same source of values as one of the known table's.
pub(super) fn has_origin(known: Option<&Table>, column: &Column) -> bool {
    let is_same = |other: &Column| other.name == column.name && other.origin == column.origin;
    known.is_some_and(|known| known.columns.iter().any(is_same))
}

/// Returns true if a table had a check before.
pub(super) fn has_check(known: Option<&Table>, check: &Check) -> bool {
    known.is_some_and(|known| known.checks.contains(check))
}

impl Connection {
    /// A text with the schemas of what it names. `bind` binds it, with positions in this text.
    ///
    /// # Errors
    /// What `bind` reports.
    pub(super) fn definition_text(
        &mut self,
        text: &str,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<()>,
    ) -> Result<String> {
        let (called, casts, literals) = self.with_binder("", |binder| {
            (binder.called, binder.literals) = (Some(Vec::new()), Some(Vec::new()));
            bind(binder)?;
            let literals = binder.literals.take().unwrap_or_default();
            Ok((binder.called.take().unwrap_or_default(), std::mem::take(&mut binder.casts), literals))
        })?;
        let fixed = fixed_literals(text, &literals);
        Ok(with_literals(&self.with_schemas(text, &called, &casts)?, &fixed))
    }

    /// The condition of a trigger with the schemas of what it names.
    ///
    /// # Errors
    /// Class 42.
    pub(super) fn condition_text(&mut self, text: &str, table: &Table) -> Result<String> {
        let (catalog, path) = (self.environment().catalog.clone(), self.environment().path());
        let context = BindContext { catalog: &catalog, path: &path, text: "" };
        let names = names_of_rows(table);
        let condition = (text, &names as _);
        let (called, casts, literals) =
            calls_in_condition(context, self.environment_mut(), condition, false)?;
        let fixed = fixed_literals(text, &literals);
        Ok(with_literals(&self.with_schemas(text, &called, &casts)?, &fixed))
    }

    /// A text whose names of types have their schemas, and those of the functions that are called, whose arguments are
    /// converted to the types that these take.
    ///
    /// # Errors
    /// 42601: the names cannot be written so there.
    fn with_schemas(&self, text: &str, called: &[(At, Arc<Routine>)], casts: &[TextEdit]) -> Result<String> {
        let (catalog, path) = (self.current_catalog(), self.environment().path());
        let text = with_names_and_edits(text, casts, |kind, name| {
            if name.schema().is_some() {
                return None;
            }
            let schema = match kind {
                Reference::Function => called.iter().find(|(at, _)| *at == name.at())?.1.schema.clone(),
                Reference::Type if Type::from_name(name.last()).is_none() => {
                    catalog.find_type(None, name.last(), &path)?.schema().to_string()
                }
                _ => return None,
            };
            Some(qualified_name(&schema, name.last()))
        });
        parse_expression(&text)?;
        Ok(text)
    }

    /// Qualifies the names in a draft's new expressions with their schemas.
    pub(super) fn qualify_draft(&mut self, draft: &mut TableDraft, probe: &Arc<Table>) -> Result<()> {
        let known = self.current_catalog().table_by_oid(draft.oid).cloned();
        for (position, column) in draft.columns.iter_mut().enumerate() {
            if has_origin(known.as_deref(), column) {
                continue;
            }
            column.origin = match &column.origin {
                ColumnOrigin::Default(text) => {
                    let mut is_null = false;
                    let text = self.definition_text(text, |binder| {
                        let value = binder.default_value(&probe.columns[position])?;
                        is_null = matches!(value, BoundExpr::Constant { value: Value::Null, .. });
                        Ok(())
                    })?;
                    // NULL is no default; of a domain's column it takes the place of the domain's.
                    match is_null && column.domain.is_none() {
                        true => ColumnOrigin::Nothing,
                        false => ColumnOrigin::Default(text),
                    }
                }
                ColumnOrigin::Generated(text) => {
                    ColumnOrigin::Generated(self.row_text(probe, text, Clause::Generated)?)
                }
                other => other.clone(),
            };
        }
        for check in &mut draft.checks {
            if !has_check(known.as_deref(), check) {
                check.condition = self.row_text(probe, &check.condition, Clause::Check)?;
            }
        }
        Ok(())
    }

    /// An expression over a table's row with the schemas of what it names.
    pub(super) fn row_text(&mut self, table: &Arc<Table>, text: &str, clause: Clause) -> Result<String> {
        self.definition_text(text, |binder| {
            let target = binder.new_relation();
            binder.row_expression(table, target, text, clause).map(|_| ())
        })
    }
}
