//! Functions in FROM: their rows and columns, several at once, WITH ORDINALITY.

use super::{Item, plain_column};
use crate::bind::binder::Binder;
use crate::bind::calls::columns_of;
use crate::bind::json_rows::makes_records;
use crate::bind::routines::{RoutineCall, instance_of, is_call, rows_entry, with_oid};
use crate::bind::scope::Clause;
use crate::bind::tree::{BoundColumn, BoundExpr, FunctionCall, RelationKind};
use crate::error::{Result, SqlState};
use crate::functions::FunctionKind;
use crate::parse::syntax::{Alias, At, Call, ColumnOfFunction};
use crate::types::Type;

impl Binder<'_> {
    /// Functions in FROM: each may name columns of items to its left.
    pub(super) fn function_item(
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
        let table = match &bound[..] {
            [FunctionCall::Set { function, args, .. }] if is_call(function) => self.table_of_rows(args),
            _ => None,
        };
        let kind = RelationKind::Function { calls: bound, ordinality };
        let mut item = self.relation_item(name, None, kind, columns, true, alias)?;
        if let ([(call, own)], [entry]) = (&calls[..], &mut item.entries[..])
            && makes_records(name)
        {
            let declared = if own.is_empty() { declared } else { own };
            let domains = self.domains_of_rows(call, declared);
            self.check_columns(&mut entry.columns, &domains, call.name.at())?;
        }
        self.rows_of.extend(table.zip(item.relation()));
        Ok(item)
    }

    /// The table whose rows a routine returns.
    fn table_of_rows(&self, args: &[BoundExpr]) -> Option<u32> {
        let routine = instance_of(self.context.catalog, args)?;
        routine.row_of.or_else(|| routine.result.row_relation())
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
        let row = resolved.result.row_relation().and_then(|oid| self.context.catalog.row_columns(oid));
        let mut columns: Vec<BoundColumn> = if !declared.is_empty() {
            self.declared_columns(declared)?
        } else if let Some(row) = row {
            let column = |it: crate::catalog::ResultColumn| BoundColumn {
                name: it.name,
                ty: it.ty,
                modifier: it.modifier,
                source: None,
            };
            row.into_iter().map(column).collect()
        } else if resolved.function.columns.is_empty() {
            vec![plain_column(out_column(name).unwrap_or(&own_name), resolved.result)]
        } else {
            let columns = columns_of(resolved.function, &resolved.args);
            columns.map(|(name, ty)| plain_column(name, ty)).collect()
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
    pub(in crate::bind) fn declared_columns(
        &self,
        declared: &[ColumnOfFunction],
    ) -> Result<Vec<BoundColumn>> {
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

/// PostgreSQL's name for the column of a function's rows with an OUT parameter: an alias of the function does not
/// change it.
fn out_column(function: &str) -> Option<&'static str> {
    let elements = ["json_array_elements", "jsonb_array_elements"];
    elements.contains(&function.trim_end_matches("_text")).then_some("value")
}
