//! UPDATE, DELETE, MERGE.
//!
//! Source: PostgreSQL 15, `transformUpdateStmt` in `analyze.c`, `parse_merge.c`.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::rows::always_generated;
use crate::bind::scope::Clause;
use crate::bind::tree::walk::is_leakproof;
use crate::bind::tree::{
    Arm, BoundCte, BoundDelete, BoundExpr, BoundFrom, BoundMerge, BoundStatement, BoundUpdate, MergeAction,
    MergeArm, RelationId, StatementKind, Subquery, SubqueryKind,
};
use crate::bind::view::ViewFilters;
use crate::catalog::rights::{DELETE, INSERT, UPDATE};
use crate::catalog::{ColumnOrigin, Table};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{
    Assignment, Delete, Expr, ExprKind, Merge, MergeActionSyntax, MergeWhen, Name, ObjectName, Statement,
    Update, With,
};
use crate::types::{Type, Value};

impl Binder<'_> {
    /// A query or a statement that writes rows.
    pub fn data_statement(&mut self, statement: &Statement) -> Result<BoundStatement> {
        match statement {
            Statement::Query(query) => {
                let query = self.query(query)?;
                let columns = query.columns.clone();
                let kind = StatementKind::Query(Box::new(query));
                Ok(BoundStatement { kind, parameters: Vec::new(), columns })
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.scoped(|binder| binder.update(update)),
            Statement::Delete(delete) => self.scoped(|binder| binder.delete(delete)),
            Statement::Merge(merge) => self.scoped(|binder| binder.merge(merge)),
            Statement::Call(call) => self.call_of_procedure(&call.call, call.at),
            _ => Err(self.unsupported(0, "this statement cannot be prepared")),
        }
    }

    fn scoped<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.enter();
        let bound = bind(self);
        self.leave();
        bound
    }

    fn with_clause(&mut self, with: Option<&With>) -> Result<Vec<BoundCte>> {
        with.map_or(Ok(Vec::new()), |with| self.with(with))
    }

    fn count_references(&self, ctes: &mut [BoundCte]) {
        for cte in ctes {
            cte.references = self.cte_references.get(&cte.id).copied().unwrap_or(0);
        }
    }

    /// Makes the target visible under its name or alias, with the conditions of a view.
    fn add_target(
        &mut self,
        name: &ObjectName,
        alias: Option<&Name>,
        verb: &'static str,
    ) -> Result<(Arc<Table>, RelationId, ViewFilters)> {
        let written = self.written(name, verb)?;
        let (target, entry) = self.written_entry(&written, alias);
        self.written_relation(&written, target)?;
        self.scope().entries.push(entry);
        Ok((written.table, target, written.filters))
    }

    fn update(&mut self, update: &Update) -> Result<BoundStatement> {
        let mut ctes = self.with_clause(update.with.as_ref())?;
        let (table, target, own) = self.add_target(&update.table, update.alias.as_ref(), "update")?;
        let from = self.bind_from(&update.from)?;
        let sets = self.assignments(&update.sets, &table)?;
        let of_views = own.checks.clone();
        let filter = self.filter(own, update.filter.as_ref())?;
        let mut changed: Vec<usize> = sets.iter().map(|(column, _)| *column).collect();
        self.requires_write(target, UPDATE, Some(&changed));
        // A trigger may change any column.
        let has_triggers = !self.context.catalog.triggers_of(table.oid).is_empty();
        let generated = self.generated(&table, target, (!has_triggers).then_some(&changed[..]))?;
        changed.extend(generated.iter().map(|(column, _)| *column));
        let mut checks = self.checks(&table, target, (!has_triggers).then_some(&changed[..]))?;
        checks.extend(of_views);
        let (returning, columns) = self.returning(&update.returning)?;
        self.count_references(&mut ctes);
        let relations = std::mem::take(&mut self.scope().relations);
        let update =
            BoundUpdate { ctes, table, target, relations, from, filter, sets, generated, checks, returning };
        Ok(BoundStatement { kind: StatementKind::Update(Box::new(update)), parameters: Vec::new(), columns })
    }

    /// The conditions of a view, if one is written, and the statement's.
    fn filter(&mut self, own: ViewFilters, filter: Option<&Expr>) -> Result<Option<BoundExpr>> {
        let mut all = own.conditions;
        if let Some(filter) = filter {
            all.push(self.clause_condition(filter, Clause::Where)?);
        }
        if own.is_barrier && !all.iter().all(is_leakproof) {
            // One after the other: the next is evaluated for rows only that have met those before.
            let is_false = || Box::new(BoundExpr::constant(Value::Bool(false), Type::Bool));
            let within = |inner: BoundExpr, when: BoundExpr| BoundExpr::Case {
                operand: None,
                arms: vec![Arm { when, then: inner }],
                otherwise: is_false(),
                ty: Type::Bool,
            };
            return Ok(all.into_iter().rev().reduce(within));
        }
        Ok(if all.len() > 1 { Some(BoundExpr::And(all)) } else { all.pop() })
    }

    fn delete(&mut self, delete: &Delete) -> Result<BoundStatement> {
        let mut ctes = self.with_clause(delete.with.as_ref())?;
        let (table, target, own) = self.add_target(&delete.table, delete.alias.as_ref(), "delete from")?;
        self.requires_write(target, DELETE, None);
        let from = self.bind_from(&delete.using)?;
        let filter = self.filter(own, delete.filter.as_ref())?;
        let (returning, columns) = self.returning(&delete.returning)?;
        self.count_references(&mut ctes);
        let relations = std::mem::take(&mut self.scope().relations);
        let delete = BoundDelete { ctes, table, target, relations, from, filter, returning };
        Ok(BoundStatement { kind: StatementKind::Delete(Box::new(delete)), parameters: Vec::new(), columns })
    }

    /// The assignments of SET: columns of the table and their values, cast to the columns' types.
    pub fn assignments(
        &mut self,
        sets: &[Assignment],
        table: &Arc<Table>,
    ) -> Result<Vec<(usize, BoundExpr)>> {
        let mut bound: Vec<(usize, BoundExpr)> = Vec::with_capacity(sets.len());
        for set in sets {
            if let Some(part) = &set.part {
                self.in_clause(Clause::UpdateSet, |binder| {
                    binder.assign_part(&set.columns[0], part, &set.value, table, &mut bound)
                })?;
                continue;
            }
            let values = self.in_clause(Clause::UpdateSet, |binder| binder.assignment(set, table))?;
            for (column, value) in values {
                if bound.iter().any(|(known, _)| *known == column) {
                    let message =
                        format!("multiple assignments to same column \"{}\"", table.columns[column].name);
                    return Err(self.error(set.at, SqlState::SYNTAX_ERROR, message));
                }
                bound.push((column, value));
            }
        }
        Ok(bound)
    }

    fn assignment(&mut self, set: &Assignment, table: &Arc<Table>) -> Result<Vec<(usize, BoundExpr)>> {
        if !set.row {
            return Ok(vec![self.assigned_column(&set.columns[0], &set.value, table)?]);
        }
        match &set.value.kind {
            ExprKind::Row(fields) if fields.len() == set.columns.len() && !fields.iter().any(is_star) => {
                let pairs = set.columns.iter().zip(fields);
                pairs.map(|(name, value)| self.assigned_column(name, value, table)).collect()
            }
            // `ROW(v.*)`: as many values as the relation has columns.
            ExprKind::Row(items) if items.iter().any(is_star) => {
                let BoundExpr::Row { fields, .. } = self.expr(&set.value)? else {
                    return Err(self.wrong_number(set));
                };
                if fields.len() != set.columns.len() {
                    return Err(self.wrong_number(set));
                }
                let mut bound = Vec::with_capacity(fields.len());
                for (name, value) in set.columns.iter().zip(fields) {
                    let position = self.settable(name, table)?;
                    let column = &table.columns[position];
                    let value = self.assigned(value, column.ty, column.modifier, &column.name, name.at)?;
                    bound.push((position, value));
                }
                Ok(bound)
            }
            ExprKind::Subquery(query) => {
                let query = self.subquery(query, set.value.at)?;
                if query.columns.len() != set.columns.len() {
                    return Err(self.wrong_number(set));
                }
                let mut bound = Vec::with_capacity(set.columns.len());
                for (number, name) in set.columns.iter().enumerate() {
                    let position = self.settable(name, table)?;
                    let column = &table.columns[position];
                    let kind = SubqueryKind::ScalarField { number, ty: query.columns[number].ty };
                    let field = BoundExpr::Subquery(Box::new(Subquery { kind, query: query.clone() }));
                    let value = self.assigned(field, column.ty, column.modifier, &column.name, name.at)?;
                    bound.push((position, value));
                }
                Ok(bound)
            }
            _ if set.columns.len() == 1 => {
                Ok(vec![self.assigned_column(&set.columns[0], &set.value, table)?])
            }
            ExprKind::Row(_) => Err(self.wrong_number(set)),
            _ => {
                let message =
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Err(self.error(set.value.at, SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    fn wrong_number(&self, set: &Assignment) -> crate::error::SqlError {
        self.error(set.value.at, SqlState::SYNTAX_ERROR, "number of columns does not match number of values")
    }

    pub(super) fn settable(&mut self, name: &Name, table: &Table) -> Result<usize> {
        let position = self.written_column(table, name)?;
        let column = &table.columns[position];
        match column.origin {
            ColumnOrigin::Generated(_) | ColumnOrigin::Identity { always: true, .. } => {
                Err(self.at(always_generated(column, "update"), name.at))
            }
            _ => Ok(position),
        }
    }

    fn assigned_column(
        &mut self,
        name: &Name,
        value: &Expr,
        table: &Arc<Table>,
    ) -> Result<(usize, BoundExpr)> {
        if value.kind == ExprKind::Default {
            let position = self.written_column(table, name)?;
            return Ok((position, self.default_value(&table.columns[position])?));
        }
        let position = self.settable(name, table)?;
        let column = &table.columns[position];
        let bound = self.expr(value)?;
        let bound = self.assigned(bound, column.ty, column.modifier, &column.name, value.at)?;
        Ok((position, bound))
    }

    fn merge(&mut self, merge: &Merge) -> Result<BoundStatement> {
        if merge.with.as_ref().is_some_and(|with| with.recursive) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(self.unsupported(merge.table.at(), message));
        }
        let mut ctes = self.with_clause(merge.with.as_ref())?;
        self.written_table(&merge.table, "merge into")?;
        let (table, target, _) = self.add_target(&merge.table, merge.alias.as_ref(), "merge into")?;
        let target_entry = self.scope().entries.clone();
        self.scope().entries.clear();
        let mut source = self.bind_from(std::slice::from_ref(&merge.source))?;
        let source_entries = self.scope().entries.clone();
        if let Some(name) = source_entries.iter().find_map(|it| {
            it.name.as_ref().filter(|name| target_entry.iter().any(|other| other.name.as_ref() == Some(name)))
        }) {
            let detail = "The name is used both as MERGE target table and data source.";
            let message = format!("name \"{name}\" specified more than once");
            let error = self.error(merge.table.at(), SqlState::DUPLICATE_ALIAS, message);
            return Err(error.with_detail(detail));
        }
        let both = [target_entry, source_entries.clone()].concat();
        self.scope().entries = both.clone();
        let on = self.clause_condition(&merge.on, Clause::JoinOn)?;
        let mut arms = Vec::with_capacity(merge.arms.len());
        let mut unreachable = [false, false];
        for arm in &merge.arms {
            if unreachable[usize::from(arm.matched)] {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(self.error(arm.at, SqlState::SYNTAX_ERROR, message));
            }
            unreachable[usize::from(arm.matched)] = arm.condition.is_none();
            self.scope().entries = if arm.matched { both.clone() } else { source_entries.clone() };
            arms.push(self.merge_arm(arm, &table, target)?);
        }
        let generated = self.generated(&table, target, None)?;
        let checks = self.checks(&table, target, None)?;
        self.count_references(&mut ctes);
        let relations = std::mem::take(&mut self.scope().relations);
        let source = source.pop().unwrap_or(BoundFrom::Relation(target));
        let merge = BoundMerge { ctes, table, target, relations, source, on, arms, generated, checks };
        let kind = StatementKind::Merge(Box::new(merge));
        Ok(BoundStatement { kind, parameters: Vec::new(), columns: Vec::new() })
    }

    fn merge_arm(&mut self, arm: &MergeWhen, table: &Arc<Table>, target: RelationId) -> Result<MergeArm> {
        let condition = match &arm.condition {
            Some(condition) => Some(self.clause_condition(condition, Clause::MergeWhen)?),
            None => None,
        };
        let action = match &arm.action {
            MergeActionSyntax::Nothing => MergeAction::Nothing,
            MergeActionSyntax::Delete => {
                self.requires_write(target, DELETE, None);
                MergeAction::Delete
            }
            MergeActionSyntax::Update(sets) => {
                let sets = self.assignments(sets, table)?;
                let changed: Vec<usize> = sets.iter().map(|(column, _)| *column).collect();
                self.requires_write(target, UPDATE, Some(&changed));
                MergeAction::Update(sets)
            }
            MergeActionSyntax::Insert { columns, overriding, values } => {
                let values = values.as_deref().unwrap_or_default();
                let columns = self.merge_insert_columns(columns, values, table)?;
                self.requires_write(target, INSERT, Some(&columns[..values.len()]));
                self.merge_insert(&columns, *overriding, values, table)?
            }
        };
        Ok(MergeArm { matched: arm.matched, condition, action })
    }

    /// The columns that an INSERT of MERGE gives values: those named, or all.
    fn merge_insert_columns(
        &mut self,
        names: &[Name],
        values: &[Expr],
        table: &Arc<Table>,
    ) -> Result<Vec<usize>> {
        let columns: Vec<usize> = if names.is_empty() {
            (0..table.visible().len()).collect()
        } else {
            names.iter().map(|name| self.written_column(table, name)).collect::<Result<_>>()?
        };
        let is_short = !names.is_empty() && !values.is_empty() && values.len() < columns.len();
        if values.len() > columns.len() || is_short {
            let message = if values.len() > columns.len() {
                "INSERT has more expressions than target columns"
            } else {
                "INSERT has more target columns than expressions"
            };
            return Err(self.error(values[0].at, SqlState::SYNTAX_ERROR, message));
        }
        Ok(columns)
    }

    fn merge_insert(
        &mut self,
        columns: &[usize],
        overriding: Option<bool>,
        values: &[Expr],
        table: &Arc<Table>,
    ) -> Result<MergeAction> {
        let mut bound = Vec::with_capacity(table.columns.len());
        for (position, column) in table.columns.iter().enumerate() {
            let given =
                columns.iter().position(|&column| column == position).and_then(|number| values.get(number));
            match given {
                // OVERRIDING USER VALUE: the sequence's value replaces the one given.
                Some(_) if overriding == Some(false) && column.is_identity() => {
                    bound.push(self.default_value(column)?);
                }
                Some(value) if value.kind != ExprKind::Default => {
                    let always = matches!(column.origin, ColumnOrigin::Identity { always: true, .. });
                    if matches!(column.origin, ColumnOrigin::Generated(_)) || (always && overriding.is_none())
                    {
                        return Err(always_generated(column, "insert"));
                    }
                    let expr = self.in_clause(Clause::Insert, |binder| binder.expr(value))?;
                    bound.push(self.assigned(expr, column.ty, column.modifier, &column.name, value.at)?);
                }
                _ => bound.push(self.default_value(column)?),
            }
        }
        Ok(MergeAction::Insert(bound))
    }
}

/// Returns true if an item of a row is `relation.*`.
fn is_star(item: &Expr) -> bool {
    matches!(item.kind, ExprKind::AllFields(_))
}
