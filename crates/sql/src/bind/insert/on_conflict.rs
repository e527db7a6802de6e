//! ON CONFLICT: the indexes that decide a conflict, and the action taken then.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::scope::{Clause, Entry};
use crate::bind::tree::{BoundExpr, ConflictAction, ConflictTarget, OnConflict, RelationId};
use crate::catalog::rights::UPDATE;
use crate::catalog::{Index, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{At, ConflictClause, ConflictTargetSyntax, Expr, ExprKind};
use crate::rewrite::implies;

impl Binder<'_> {
    pub(super) fn on_conflict(
        &mut self,
        clause: &ConflictClause,
        table: &Arc<Table>,
        target: RelationId,
        entry: Entry,
    ) -> Result<OnConflict> {
        let conflict = self.conflict_target(clause, table, target)?;
        match conflict {
            ConflictTarget::Any => {}
            ConflictTarget::PrimaryKey => self.requires_key(target, &table.key),
            ConflictTarget::Index(index) => {
                let key: Vec<usize> = table.indexes[index].columns.iter().map(|it| it.column).collect();
                self.requires_key(target, &key);
            }
        }
        let Some((sets, filter)) = &clause.update else {
            return Ok(OnConflict { target: conflict, action: ConflictAction::Nothing });
        };
        if conflict == ConflictTarget::Any {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let hint = "For example, ON CONFLICT (column_name).";
            return Err(self.error(clause.at, SqlState::SYNTAX_ERROR, message).with_hint(hint));
        }
        let excluded = self.new_relation();
        self.scope().owned.push(excluded);
        let excluded_entry = self.excluded_entry(&entry, target, excluded);
        self.scope().entries = vec![entry, excluded_entry];
        let sets = self.assignments(sets, table)?;
        let filter = match filter {
            Some(filter) => Some(self.clause_condition(filter, Clause::Where)?),
            None => None,
        };
        let changed: Vec<usize> = sets.iter().map(|(column, _)| *column).collect();
        self.requires_write(target, UPDATE, Some(&changed));
        let generated = self.generated(table, target, Some(&changed))?;
        Ok(OnConflict {
            target: conflict,
            action: ConflictAction::Update { excluded, sets, filter, generated },
        })
    }

    fn conflict_target(
        &mut self,
        clause: &ConflictClause,
        table: &Arc<Table>,
        target: RelationId,
    ) -> Result<ConflictTarget> {
        match &clause.target {
            ConflictTargetSyntax::None if table.indexes.iter().any(|index| index.deferral.is_some()) => {
                Err(self.deferrable_arbiter(clause.at))
            }
            ConflictTargetSyntax::None => Ok(ConflictTarget::Any),
            ConflictTargetSyntax::Constraint(name) => {
                if table.key_name.as_deref() == Some(name.text.as_str()) {
                    return Ok(ConflictTarget::PrimaryKey);
                }
                let found = table
                    .indexes
                    .iter()
                    .position(|index| index.constraint && index.unique && index.name == name.text);
                if found.is_some_and(|found| table.indexes[found].deferral.is_some()) {
                    return Err(self.deferrable_arbiter(name.at));
                }
                found.map(ConflictTarget::Index).ok_or_else(|| {
                    let message =
                        format!("constraint \"{}\" for table \"{}\" does not exist", name.text, table.name);
                    self.error(name.at, SqlState::UNDEFINED_OBJECT, message)
                })
            }
            ConflictTargetSyntax::Columns(exprs, filter) => {
                let index = self.inferred(exprs, filter.as_ref(), table, target)?;
                match index {
                    Some(index) => Ok(index),
                    None => {
                        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                        Err(self.error(clause.at, SqlState::INVALID_COLUMN_REFERENCE, message))
                    }
                }
            }
        }
    }

    /// The unique index over exactly these columns and expressions. A partial one serves if the condition implies its
    /// predicate.
    fn inferred(
        &mut self,
        exprs: &[Expr],
        filter: Option<&Expr>,
        table: &Arc<Table>,
        target: RelationId,
    ) -> Result<Option<ConflictTarget>> {
        let indexed = self.index_expressions(table, target)?;
        let mut columns = Vec::with_capacity(exprs.len());
        for expr in exprs {
            columns.push(match &expr.kind {
                ExprKind::Column(parts) => {
                    let [name] = &parts[..] else {
                        let message = "qualified names are not supported in ON CONFLICT";
                        return Err(self.unsupported(expr.at, message));
                    };
                    self.written_column(table, name)?
                }
                _ => {
                    let bound = self.target_expression(expr, table, target, Clause::IndexExpression)?;
                    let key = indexed.iter().find(|key| !key.is_predicate && key.expr == bound);
                    match key {
                        Some(key) => key.column,
                        None => return Ok(None),
                    }
                }
            });
        }
        let filter = filter
            .map(|filter| self.target_expression(filter, table, target, Clause::IndexPredicate))
            .transpose()?;
        let same = |key: &[usize]| {
            key.iter().all(|column| columns.contains(column))
                && columns.iter().all(|column| key.contains(column))
        };
        if !table.key.is_empty() && same(&table.key) {
            return Ok(Some(ConflictTarget::PrimaryKey));
        }
        let serves = |index: &Index| {
            let key: Vec<usize> = table.index_keys(index).iter().map(|column| column.column).collect();
            let predicate = table.predicate(index).map(|_| index.columns[0].column);
            let predicate = indexed.iter().find(|known| predicate == Some(known.column));
            let is_implied = predicate.is_none_or(|predicate| {
                filter.as_ref().is_some_and(|filter| implies(&[filter], &predicate.expr))
            });
            index.unique && same(&key) && is_implied
        };
        let found = table.indexes.iter().position(serves);
        if found.is_some_and(|found| table.indexes[found].deferral.is_some()) {
            return Err(self.deferrable_arbiter(0));
        }
        Ok(found.map(ConflictTarget::Index))
    }

    fn deferrable_arbiter(&self, at: At) -> SqlError {
        let message = "ON CONFLICT does not support deferrable unique constraints as arbiters";
        self.error(at, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    }

    /// An expression over the row that the statement writes.
    fn target_expression(
        &mut self,
        expr: &Expr,
        table: &Arc<Table>,
        target: RelationId,
        clause: Clause,
    ) -> Result<BoundExpr> {
        self.over_row(table, target, |binder| match clause {
            Clause::IndexPredicate => binder.clause_condition(expr, clause),
            _ => binder.in_clause(clause, |binder| binder.expr(expr)),
        })
    }
}
