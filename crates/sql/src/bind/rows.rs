//! A table's additions to the statements that write it: defaults, generated columns, checks.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::from::table_columns;
use crate::bind::scope::{Clause, Entry, VisibleColumn};
use crate::bind::tree::walk::walk;
use crate::bind::tree::{Arm, BoundCheck, BoundExpr, IndexExpression, RelationId, TruthValue};
use crate::catalog::store::TEMPORARY;
use crate::catalog::{Column, ColumnOrigin, ForeignKey, KeyAction, PUBLIC, Relation, Table, UserType};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Name, ObjectName};
use crate::types::{Modifier, Type, Value};

impl Binder<'_> {
    /// The table that a statement writes.
    pub fn written_table(&mut self, name: &ObjectName, verb: &str) -> Result<Arc<Table>> {
        if name.parts.len() == 1 && self.cte(name.last()).is_some() && self.relation(name).is_err() {
            let message =
                format!("relation \"{}\" cannot be the target of a modifying statement", name.last());
            return Err(self.error(name.at(), SqlState::SYNTAX_ERROR, message));
        }
        match self.relation(name)? {
            Relation::Table(table) if table.stored_query.is_some() => {
                if verb == "merge into" {
                    let message = format!("cannot execute MERGE on relation \"{}\"", table.name);
                    let detail = "This operation is not supported for materialized views.";
                    return Err(SqlError::unsupported(message).with_detail(detail));
                }
                let message = format!("cannot change materialized view \"{}\"", table.name);
                Err(self.error(name.at(), SqlState::WRONG_OBJECT_TYPE, message).without_position())
            }
            Relation::Table(table) => Ok(table.clone()),
            Relation::View(_) => {
                let message = format!("cannot {verb} view \"{}\"", name.last());
                let hint = "Write the tables that the view reads.";
                Err(self.error(name.at(), SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint))
            }
            other => {
                let message = format!("cannot change {} \"{}\"", other.kind(), name.last());
                Err(self.error(name.at(), SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// The position of a column that a statement writes.
    pub fn written_column(&mut self, table: &Table, name: &Name) -> Result<usize> {
        if let Some(view) = self.scope().written.clone() {
            return self.view_column(&view, name);
        }
        table.visible().iter().position(|column| column.name == name.text).ok_or_else(|| {
            let message = format!("column \"{}\" of relation \"{}\" does not exist", name.text, table.name);
            self.error(name.at, SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// The value stored where a statement gives none: the column's default, cast to its type.
    pub fn default_value(&mut self, column: &Column) -> Result<BoundExpr> {
        let text = match &column.origin {
            ColumnOrigin::Default(text) => text.clone(),
            ColumnOrigin::Identity { sequence, .. } => {
                let sequence = BoundExpr::constant(Value::Oid(*sequence), Type::Regclass);
                let next = self.call_named("nextval", vec![sequence], 0)?;
                return self.assigned(next, column.ty, column.modifier, &column.name, 0);
            }
            ColumnOrigin::IndexKey(_) | ColumnOrigin::IndexPredicate(_) => {
                return Ok(BoundExpr::null(column.ty));
            }
            ColumnOrigin::Nothing | ColumnOrigin::Generated(_) => match self.domain_default(column) {
                Some(text) => text,
                None => return Ok(BoundExpr::null(column.ty)),
            },
        };
        let expr = crate::parse::parse_expression(&text)?;
        self.detached(|binder| {
            let bound = binder.in_clause(Clause::Default, |binder| binder.expr(&expr))?;
            binder.assigned(bound, column.ty, column.modifier, &column.name, 0)
        })
    }

    /// The defaults of the columns that the table's foreign keys set to them.
    pub fn key_defaults(&mut self, table: &Table) -> Result<Vec<(usize, BoundExpr)>> {
        let sets_default =
            |key: &&ForeignKey| [key.on_delete, key.on_update].contains(&KeyAction::SetDefault);
        let mut columns: Vec<usize> =
            table.foreign_keys.iter().filter(sets_default).flat_map(|key| key.columns.clone()).collect();
        columns.sort_unstable();
        columns.dedup();
        columns.into_iter().map(|column| Ok((column, self.default_value(&table.columns[column])?))).collect()
    }

    /// The default of a column's domain.
    pub fn domain_default(&self, column: &Column) -> Option<String> {
        match self.context.catalog.user_type_by_oid(column.domain?)? {
            UserType::Domain(domain) => domain.default.clone(),
            UserType::Enum(_) | UserType::Composite(_) => None,
        }
    }

    /// Binds a catalog text in a scope of its own, with the path of stored definitions unless it is being defined.
    pub fn detached<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let scopes = std::mem::take(&mut self.scopes);
        let foreign = std::mem::replace(&mut self.foreign_text, true);
        let is_defined = self.defines && !foreign;
        let session = (!is_defined).then(|| {
            let path = definition_path(&self.path);
            let settled = std::mem::replace(&mut self.settled, true);
            let (called, literals) = (self.called.take(), self.literals.take());
            (std::mem::replace(&mut self.path, path), settled, called, literals)
        });
        self.enter();
        let bound = bind(self);
        if let Some(session) = session {
            (self.path, self.settled, self.called, self.literals) = session;
        }
        self.foreign_text = foreign;
        self.scopes = scopes;
        bound
    }

    /// Binds a catalog expression over a row of a table.
    pub(super) fn over_row<T>(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let entry = Entry::of_relation(&table.name, Some(&table.schema), target, &table_columns(table));
        self.detached(|binder| {
            binder.scope().owned.push(target);
            binder.scope().entries.push(entry);
            bind(binder)
        })
    }

    /// An expression over a table's row, as ALTER TABLE and CREATE INDEX check one.
    pub fn row_expression(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        text: &str,
        clause: Clause,
    ) -> Result<BoundExpr> {
        let expr = crate::parse::parse_expression(text)?;
        self.over_row(table, target, |binder| binder.in_clause(clause, |binder| binder.expr(&expr)))
    }

    /// The table's generated columns, cast to their types; if `changed` is given, of those that depend on it or are in it: they
    /// were set to DEFAULT.
    pub fn generated(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        changed: Option<&[usize]>,
    ) -> Result<Vec<(usize, BoundExpr)>> {
        let mut generated = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            let (ColumnOrigin::Generated(text)
            | ColumnOrigin::IndexKey(text)
            | ColumnOrigin::IndexPredicate(text)) = &column.origin
            else {
                continue;
            };
            let text = match &column.origin {
                ColumnOrigin::IndexPredicate(_) => predicate_value(text),
                _ => text.clone(),
            };
            let expr = crate::parse::parse_expression(&text)?;
            let value = self.over_row(table, target, |binder| {
                let value = binder.in_clause(Clause::Generated, |binder| binder.expr(&expr))?;
                binder.assigned(value, column.ty, column.modifier, &column.name, 0)
            })?;
            let is_changed =
                |changed: &[usize]| changed.contains(&position) || depends_on(&value, target, changed);
            if changed.is_none_or(is_changed) {
                generated.push((position, value));
            }
        }
        Ok(generated)
    }

    /// The values of the hidden columns of a table's indexes, over its rows: the expressions, and the predicates as
    /// they were written.
    pub fn index_expressions(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
    ) -> Result<Vec<IndexExpression>> {
        let mut expressions = Vec::new();
        for (column, of) in table.columns.iter().enumerate().skip(table.visible().len()) {
            let is_predicate = matches!(of.origin, ColumnOrigin::IndexPredicate(_));
            let Some(text) = of.indexed() else { continue };
            let parsed = crate::parse::parse_expression(text)?;
            let expr = self.over_row(table, target, |binder| match is_predicate {
                true => binder.clause_condition(&parsed, Clause::IndexPredicate),
                false => binder.in_clause(Clause::IndexExpression, |binder| binder.expr(&parsed)),
            })?;
            expressions.push(IndexExpression { column, expr, is_predicate });
        }
        Ok(expressions)
    }

    /// The condition of a check over a table's row.
    pub fn check_condition(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        text: &str,
    ) -> Result<BoundExpr> {
        let expr = crate::parse::parse_expression(text)?;
        self.over_row(table, target, |binder| binder.clause_condition(&expr, Clause::Check))
    }

    /// The table's checks and those of its columns' domains; of those that depend on `changed`, if given.
    pub fn checks(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        changed: Option<&[usize]>,
    ) -> Result<Vec<BoundCheck>> {
        let mut checks = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            checks.extend(self.domain_checks(column, target, position)?);
        }
        // PostgreSQL checks in the order of the constraints' names.
        let mut own: Vec<_> = table.checks.iter().collect();
        own.sort_by(|left, right| left.name.cmp(&right.name));
        for check in own {
            let condition = self.check_condition(table, target, &check.condition)?;
            checks.push(BoundCheck { name: check.name.clone(), condition });
        }
        if let Some(changed) = changed {
            checks.retain(|check| depends_on(&check.condition, target, changed));
        }
        Ok(checks)
    }

    /// Makes VALUE visible, as a domain's checks name it.
    pub fn add_value(&mut self, ty: Type) {
        let expr = BoundExpr::null(ty);
        let value = VisibleColumn { name: "value".to_string(), expr, modifier: Modifier::NONE, source: None };
        let entry = Entry::unnamed(vec![value]);
        self.scope().entries.push(entry);
    }

    fn domain_checks(
        &mut self,
        column: &Column,
        target: RelationId,
        position: usize,
    ) -> Result<Vec<BoundCheck>> {
        let catalog = self.context.catalog;
        let Some(UserType::Domain(domain)) = column.domain.and_then(|oid| catalog.user_type_by_oid(oid))
        else {
            return Ok(Vec::new());
        };
        let value = VisibleColumn {
            name: "value".to_string(),
            expr: BoundExpr::Column { relation: target, column: position, ty: column.ty },
            modifier: Modifier::NONE,
            source: None,
        };
        let mut checks = Vec::new();
        for check in catalog.domain_checks(domain) {
            let expr = crate::parse::parse_expression(&check.condition)?;
            let entry = Entry {
                name: None,
                schema: None,
                columns: vec![value.clone()],
                unqualified: true,
                relation: None,
                is_nullable: false,
            };
            let condition = self.detached(|binder| {
                binder.scope().entries.push(entry);
                binder.clause_condition(&expr, Clause::Check)
            })?;
            let operand = Box::new(condition);
            let when = BoundExpr::IsTruth { operand, value: TruthValue::False, negated: false };
            let arms = vec![Arm { when, then: self.violation(domain, Some(&check.name), Type::Bool)? }];
            let otherwise = Box::new(BoundExpr::constant(Value::Bool(true), Type::Bool));
            let condition = BoundExpr::Case { operand: None, arms, otherwise, ty: Type::Bool };
            checks.push(BoundCheck { name: check.name.clone(), condition });
        }
        Ok(checks)
    }
}

/// The schemas in which names without one are looked up in texts of the catalog. Names of objects that are not built in
/// have their schema there; older definitions were stored with the default path or with the session's.
pub(crate) fn definition_path(session: &[String]) -> Vec<String> {
    let temporary = session.iter().find(|schema| schema.starts_with(TEMPORARY));
    let named = session.iter().filter(|schema| !schema.starts_with(TEMPORARY) && *schema != PUBLIC);
    temporary.cloned().into_iter().chain([PUBLIC.to_string()]).chain(named.cloned()).collect()
}

/// The value of the hidden column of a predicate.
pub(crate) fn predicate_value(predicate: &str) -> String {
    format!("case when ({predicate}) then true end")
}

/// Returns true if an expression names one of a relation's columns.
fn depends_on(expr: &BoundExpr, target: RelationId, columns: &[usize]) -> bool {
    let mut depends = false;
    walk(expr, &mut |part| {
        if let BoundExpr::Column { relation, column, .. } = part {
            depends |= *relation == target && columns.contains(column);
        }
    });
    depends
}

/// `cannot insert a non-DEFAULT value into column "id"` (428C9).
pub(crate) fn always_generated(column: &Column, verb: &str) -> SqlError {
    let (message, detail) = match (&column.origin, verb) {
        (ColumnOrigin::Generated(_), "insert") => (
            format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name),
            format!("Column \"{}\" is a generated column.", column.name),
        ),
        (ColumnOrigin::Generated(_), _) => (
            format!("column \"{}\" can only be updated to DEFAULT", column.name),
            format!("Column \"{}\" is a generated column.", column.name),
        ),
        (_, "insert") => (
            format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name),
            format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name),
        ),
        _ => (
            format!("column \"{}\" can only be updated to DEFAULT", column.name),
            format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name),
        ),
    };
    let error = SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail);
    match (&column.origin, verb) {
        (ColumnOrigin::Identity { .. }, "insert") => {
            error.with_hint("Use OVERRIDING SYSTEM VALUE to override.")
        }
        _ => error,
    }
}
