//! Statements of SQL inside of PL/pgSQL: INTO, PERFORM, EXECUTE, CALL, RETURN QUERY and what a routine returns.
//!
//! Source: PostgreSQL 15, `pl_exec.c`.

use std::sync::Arc;

use crate::bind::{NameConflict, Names, VariableRef};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse;
use crate::routine::plpgsql::interpret::{Interpreter, View};
use crate::routine::plpgsql::tree::{Fragment, Into, Source, Target};
use crate::routine::query::{Frame, Query, QueryPlan};
use crate::routine::value::{as_domain, convert, record};
use crate::run::KeptRows;
use crate::types::record::RecordField;
use crate::types::{Environment, Modifier, Type, Value};

/// The treatment of a text with several statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Several {
    /// An error: a cursor reads one query.
    Refused,
    /// The rows of the last count.
    Last,
    /// The rows of all count.
    All,
}

/// The values behind USING, as the text of an EXECUTE names them.
struct Using {
    values: Vec<Value>,
    types: Vec<Type>,
}

impl Names for Using {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        let [name] = parts else { return Ok(None) };
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let slot = number.and_then(|number| number.checked_sub(1));
        Ok(slot.and_then(|slot| Some((VariableRef { slot, field: None }, *self.types.get(slot)?))))
    }

    fn fields(&self, _parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        Ok(None)
    }

    fn conflict(&self) -> NameConflict {
        NameConflict::Column
    }
}

impl Frame for Using {
    fn values(&self) -> &[Value] {
        &self.values
    }

    fn shape(&self, _slot: usize) -> Option<Arc<[RecordField]>> {
        None
    }
}

/// The error with the statement that it happened in.
fn in_statement(error: SqlError, text: &str) -> SqlError {
    error.with_context(format!("SQL statement \"{text}\""))
}

impl Interpreter<'_, '_> {
    /// Runs a statement; its rows are passed to `each` until that has enough.
    fn run_fragment(
        &mut self,
        fragment: &Fragment,
        check: impl FnOnce(&QueryPlan) -> Result<()>,
        each: &mut dyn FnMut(&[Value]) -> Result<bool>,
    ) -> Result<(Arc<QueryPlan>, u64)> {
        let view = View {
            program: self.program,
            values: &self.values,
            scope: fragment.scope,
            absent: self.absent.as_ref(),
        };
        let described = |error| in_statement(error, &fragment.query.text);
        let plan = fragment.query.plan(self.execution.environment, &view).map_err(described)?;
        check(&plan)?;
        let count = plan.run(self.execution, &view, each).map_err(described)?;
        Ok((plan, count))
    }

    pub(super) fn run_query(&mut self, query: &Fragment, into: Option<&Into>) -> Result<()> {
        if into.is_none()
            && query
                .query
                .run_utility(self.execution)
                .map_err(|error| in_statement(error, &query.query.text))?
        {
            return Ok(());
        }
        let Some(into) = into else {
            let check = |plan: &QueryPlan| match plan.columns.is_empty() {
                true => Ok(()),
                false => Err(no_destination(plan)),
            };
            let (_, count) = self.run_fragment(query, check, &mut |_| Ok(true))?;
            self.row_count = count;
            self.set_found(count > 0);
            return Ok(());
        };
        self.run_into(query, into)
    }

    /// Runs a statement, and assigns the row that it returns.
    fn run_into(&mut self, query: &Fragment, into: &Into) -> Result<()> {
        let view = View {
            program: self.program,
            values: &self.values,
            scope: query.scope,
            absent: self.absent.as_ref(),
        };
        let described = |error| in_statement(error, &query.query.text);
        let plan = query.query.plan(self.execution.environment, &view).map_err(described)?;
        if plan.columns.is_empty() {
            let message = "INTO used with a command that cannot return data";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if let Some(count) = plan.run_compiled(self.execution, &view, &mut self.row).map_err(described)? {
            let mut row = std::mem::take(&mut self.row);
            self.store_row(into, &plan, (count > 0).then_some(&mut row))?;
            self.row = row;
            return Ok(());
        }
        let mut rows = Vec::new();
        let is_query = !matches!(
            query.query.statement(),
            crate::parse::syntax::Statement::Insert(_)
                | crate::parse::syntax::Statement::Update(_)
                | crate::parse::syntax::Statement::Delete(_)
                | crate::parse::syntax::Statement::Merge(_)
        );
        // More rows than one are an error of a statement that writes, as of INTO STRICT.
        let is_single = into.is_strict || !is_query;
        let most = if is_single { 2 } else { 1 };
        let mut each = |row: &[Value]| {
            rows.push(row.to_vec());
            Ok(rows.len() < most)
        };
        plan.run(self.execution, &view, &mut each).map_err(described)?;
        self.store_rows(into, &plan, rows, is_single)
    }

    /// Assigns the first of a query's rows.
    fn store_rows(
        &mut self,
        into: &Into,
        plan: &QueryPlan,
        rows: Vec<Vec<Value>>,
        is_single: bool,
    ) -> Result<()> {
        if rows.len() > 1 && is_single {
            let message = "query returned more than one row";
            return Err(SqlError::new(SqlState::TOO_MANY_ROWS, message)
                .with_hint("Make sure the query returns a single row, or use LIMIT 1."));
        }
        self.store_row(into, plan, rows.into_iter().next().as_mut())
    }

    /// Assigns a query's row, or that there is none.
    fn store_row(&mut self, into: &Into, plan: &QueryPlan, row: Option<&mut Vec<Value>>) -> Result<()> {
        let found = row.is_some();
        if !found && into.is_strict {
            return Err(SqlError::new(SqlState::NO_DATA_FOUND, "query returned no rows"));
        }
        self.row_count = u64::from(found);
        self.assign_row(into, plan, row)?;
        self.set_found(found);
        Ok(())
    }

    pub(super) fn perform(&mut self, query: &Fragment) -> Result<()> {
        let (_, count) = self.run_fragment(query, |_| Ok(()), &mut |_| Ok(true))?;
        self.row_count = count;
        self.set_found(count > 0);
        Ok(())
    }

    /// CALL: the values of output arguments go back into the variables that were given.
    pub(super) fn call(&mut self, query: &Fragment, targets: &[Option<Target>]) -> Result<()> {
        let (plan, row) = self.called(query)?;
        for ((value, column), &at) in row.into_iter().zip(&plan.columns).zip(&plan.outputs) {
            let Some(Some(target)) = targets.get(at) else {
                let message = format!(
                    "procedure parameter \"{}\" is an output parameter but corresponding argument is not writable",
                    column.name
                );
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            self.assign(target, value, column.ty)?;
        }
        Ok(())
    }

    /// Calls a procedure: its plan, and the row of its output arguments.
    fn called(&mut self, query: &Fragment) -> Result<(Arc<QueryPlan>, Vec<Value>)> {
        let mut row = Vec::new();
        if self.protected > 0 || !self.execution.environment.routines.may_change_schema() {
            let (plan, _) = self.run_fragment(query, |_| Ok(()), &mut |found| {
                row = found.to_vec();
                Ok(true)
            })?;
            return Ok((plan, row));
        }
        let view = View {
            program: self.program,
            values: &self.values,
            scope: query.scope,
            absent: self.absent.as_ref(),
        };
        let described = |error| in_statement(error, &query.query.text);
        let plan = query.query.plan(self.execution.environment, &view).map_err(described)?;
        let row = plan.call(self.execution, &view).map_err(described)?;
        Ok((plan, row))
    }

    pub(super) fn execute(&mut self, source: &Source, into: Option<&Into>) -> Result<()> {
        let Some(into) = into else {
            let mut rows = KeptRows::new(self.execution.environment.memory());
            let counted = match source {
                Source::Dynamic { text, using } => {
                    let last = self.run_dynamic(text, using, Several::Last, &mut rows)?;
                    last.map_or(0, |(_, count)| count)
                }
                Source::Query(query) => {
                    rows = self.rows_of_query(query)?.1;
                    self.row_count
                }
            };
            self.row_count = counted.max(rows.len() as u64);
            return Ok(());
        };
        let found = self.values[self.program.found].clone();
        let (plan, mut rows) = self.rows_of(source, Several::Last)?;
        let mut first = Vec::new();
        for number in 0..rows.len().min(2) {
            first.push(rows.row(number)?.to_vec());
        }
        self.store_rows(into, &plan, first, into.is_strict)?;
        // EXECUTE leaves FOUND as it was.
        self.values[self.program.found] = found;
        Ok(())
    }

    /// The rows of a query, or of the text that EXECUTE runs; the statement's count is in `row_count`.
    pub(super) fn rows_of(
        &mut self,
        source: &Source,
        several: Several,
    ) -> Result<(Arc<QueryPlan>, KeptRows)> {
        let mut rows = KeptRows::new(self.execution.environment.memory());
        let (plan, count) = match source {
            Source::Query(query) => return self.rows_of_query(query),
            Source::Dynamic { text, using } => {
                let last = self.run_dynamic(text, using, several, &mut rows)?;
                last.ok_or_else(|| SqlError::unsupported("EXECUTE needs a statement with rows in its text"))?
            }
        };
        self.row_count = count;
        Ok((plan, rows))
    }

    /// Runs the text of an EXECUTE: the plan and the count of its last statement; none after a schema change.
    fn run_dynamic(
        &mut self,
        text: &Fragment,
        using: &[Fragment],
        several: Several,
        rows: &mut KeptRows,
    ) -> Result<Option<(Arc<QueryPlan>, u64)>> {
        let text = match self.evaluate_as(text, Type::Text)? {
            Value::Null => {
                let message = "query string argument of EXECUTE is null";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            text => text.str().to_string(),
        };
        let mut given = Using { values: Vec::new(), types: Vec::new() };
        for value in using {
            let (value, ty) = self.evaluate(value)?;
            given.values.push(value);
            given.types.push(ty);
        }
        self.run_text(&text, &given, several, rows).map_err(|error| in_statement(error, &text))
    }

    pub(super) fn rows_of_query(&mut self, query: &Fragment) -> Result<(Arc<QueryPlan>, KeptRows)> {
        let mut rows = KeptRows::new(self.execution.environment.memory());
        let (plan, count) = self.run_fragment(query, |_| Ok(()), &mut |row| {
            rows.push(row)?;
            Ok(true)
        })?;
        self.row_count = count;
        Ok((plan, rows))
    }

    /// Runs the statements of a text one after another: the plan and the count of the last.
    fn run_text(
        &mut self,
        text: &str,
        using: &Using,
        several: Several,
        rows: &mut KeptRows,
    ) -> Result<Option<(Arc<QueryPlan>, u64)>> {
        let statements = parse(text)?;
        if several == Several::Refused && statements.len() > 1 {
            let message = "cannot open multi-query plan as cursor";
            return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message));
        }
        let mut last = None;
        for statement in statements {
            if several == Several::Last {
                rows.clear();
            }
            let query = Query::new(statement.statement, text);
            if query.run_utility(self.execution)? {
                last = None;
                continue;
            }
            let plan = query.plan(self.execution.environment, using)?;
            let count = plan.run(self.execution, using, &mut |row| {
                rows.push(row)?;
                Ok(true)
            })?;
            last = Some((plan, count));
        }
        Ok(last)
    }

    /// RETURN: the value of the routine.
    pub(super) fn return_value(&mut self, value: Option<&Fragment>) -> Result<()> {
        let Some(fragment) = value else { return Ok(()) };
        let (value, ty) = self.evaluate(fragment)?;
        let value = self.as_result(value, ty)?;
        self.result = Some(value);
        Ok(())
    }

    /// A value as one of the routine's result.
    pub(super) fn as_result(&mut self, value: Value, ty: Type) -> Result<Value> {
        let is_row = self.routine.result == Type::Record || self.routine.result == Type::Trigger;
        match value {
            Value::Record(_) | Value::Null if is_row && self.program.result.columns.is_empty() => Ok(value),
            Value::Null => as_domain(self.execution, self.routine.result_domain, Value::Null),
            Value::Record(row) if is_row => {
                if row.values.len() != self.program.result.columns.len() {
                    let message = "returned record type does not match expected record type";
                    let detail = format!(
                        "Number of returned columns ({}) does not match expected column count ({}).",
                        row.values.len(),
                        self.program.result.columns.len()
                    );
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail));
                }
                let columns = &self.program.result.columns;
                let values = self.row_as(columns, Some(&row))?;
                let row = record(&self.program.result.fields, values);
                as_domain(self.execution, self.routine.result_domain, row)
            }
            _ if is_row => {
                let message = "cannot return non-composite value from function returning composite type";
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
            value => {
                let result = self.routine.result;
                let value = convert(self.execution.environment, value, ty, result, Modifier::NONE)?;
                as_domain(self.execution, self.routine.result_domain, value)
            }
        }
    }

    /// The output arguments as a row, or as the one value that they are.
    pub(super) fn output(&self) -> Value {
        let arguments = self.routine.arguments.iter().zip(&self.program.arguments);
        let values = arguments.filter(|(argument, _)| argument.mode.is_output());
        let mut values: Vec<Value> = values.map(|(_, &slot)| self.values[slot].clone()).collect();
        if values.len() == 1 && (self.routine.result != Type::Record || self.routine.row_of.is_some()) {
            return values.remove(0);
        }
        record(&self.program.result.fields, values)
    }

    pub(super) fn return_next(&mut self, value: Option<&Fragment>) -> Result<()> {
        let row = match value {
            None => self.output(),
            Some(fragment) => {
                let (value, ty) = self.evaluate(fragment)?;
                self.as_result(value, ty)?
            }
        };
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn return_query(&mut self, source: &Source) -> Result<()> {
        let (plan, mut rows) = self.rows_of(source, Several::All)?;
        let wrong = |detail: String| {
            let message = "structure of query does not match function result type";
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail))
        };
        let is_row = self.routine.result == Type::Record;
        let shape: Vec<Type> = match is_row {
            true => self.program.result.columns.iter().map(|column| column.ty).collect(),
            false => vec![self.routine.result],
        };
        if !(is_row && shape.is_empty()) {
            if plan.columns.len() != shape.len() {
                return wrong(format!(
                    "Number of returned columns ({}) does not match expected column count ({}).",
                    plan.columns.len(),
                    shape.len()
                ));
            }
            for (at, (column, &expected)) in plan.columns.iter().zip(&shape).enumerate() {
                if column.ty != expected {
                    let catalog = &self.execution.environment.catalog;
                    return wrong(format!(
                        "Returned type {} does not match expected type {} in column {}.",
                        catalog.type_display(column.ty),
                        catalog.type_display(expected),
                        at + 1
                    ));
                }
            }
        }
        let column = self.program.result.columns.first();
        let domain = self.routine.result_domain.or_else(|| column?.domain);
        let count = rows.len();
        for number in 0..count {
            let row = rows.row(number)?.to_vec();
            let value = match is_row {
                true => self.as_result(record(&plan.fields, row), Type::Record)?,
                false => {
                    let value = row.into_iter().next().unwrap_or_default();
                    as_domain(self.execution, domain, value)?
                }
            };
            self.rows.push(value);
        }
        self.set_found(count > 0);
        Ok(())
    }
}

fn no_destination(plan: &QueryPlan) -> SqlError {
    let error = SqlError::new(SqlState::SYNTAX_ERROR, "query has no destination for result data");
    match plan.command {
        "SELECT" => error.with_hint("If you want to discard the results of a SELECT, use PERFORM instead."),
        _ => error,
    }
}
