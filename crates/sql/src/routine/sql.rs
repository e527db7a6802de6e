//! Bodies in SQL: statements one after the other; the rows of the last are the result.
//!
//! Source: PostgreSQL 15, `functions.c`.

use std::sync::Arc;

use crate::bind::{NameConflict, Names, VariableRef};
use crate::catalog::{Catalog, ResultColumn, Routine};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse;
use crate::routine::Returned;
use crate::routine::footprint::Start;
use crate::routine::footprint::collect::{Collector, Site};
use crate::routine::query::{Execution, Frame, Query, QueryPlan};
use crate::routine::value::{as_domain, convert, record};
use crate::session::SessionEnvironment;
use crate::types::record::RecordField;
use crate::types::{Modifier, Type, Value};

/// A body in SQL.
#[derive(Debug)]
pub(crate) struct SqlBody {
    queries: Vec<Query>,
    columns: Vec<ResultColumn>,
    fields: Arc<[RecordField]>,
}

/// The arguments of a call, as the statements of a body name them.
struct Arguments<'a> {
    routine: &'a Routine,
    catalog: Arc<Catalog>,
    values: &'a [Value],
}

impl Arguments<'_> {
    /// The name of an argument in the body.
    fn name(&self, variable: &VariableRef) -> String {
        match self.routine.inputs().nth(variable.slot) {
            Some(argument) if !argument.name.is_empty() => argument.name.clone(),
            _ => format!("${}", variable.slot + 1),
        }
    }
}

impl Names for Arguments<'_> {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        let (name, field) = match parts {
            [name] => (*name, None),
            [routine, name] if *routine == self.routine.name => (*name, None),
            [name, field] => (*name, Some(*field)),
            _ => return Ok(None),
        };
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let mut inputs = self.routine.inputs().enumerate();
        let found = inputs.find(|(at, argument)| match number {
            Some(number) => *at + 1 == number,
            None => !name.is_empty() && argument.name == name,
        });
        let Some((slot, argument)) = found else { return Ok(None) };
        let Some(field) = field else {
            return Ok(Some((VariableRef { slot, field: None }, argument.ty)));
        };
        let columns = argument.ty.row_relation().and_then(|oid| self.catalog.row_columns(oid));
        let at = columns.as_ref().and_then(|columns| columns.iter().position(|it| it.name == field));
        Ok(at.zip(columns).map(|(at, columns)| (VariableRef { slot, field: Some(at) }, columns[at].ty)))
    }

    fn fields(&self, _parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        Ok(None)
    }

    fn conflict(&self) -> NameConflict {
        NameConflict::Column
    }
}

impl Frame for Arguments<'_> {
    fn values(&self) -> &[Value] {
        self.values
    }

    fn shape(&self, _slot: usize) -> Option<Arc<[RecordField]>> {
        None
    }
}

/// An error of a body that is found before its first statement runs: the body was not checked when the routine was
/// made, or what it names has changed.
fn at_startup(error: SqlError, routine: &Routine) -> SqlError {
    error.with_context(format!("SQL function \"{}\" during startup", routine.name))
}

impl SqlBody {
    /// Parses a body.
    ///
    /// # Errors
    /// 42601.
    pub(crate) fn compile(routine: &Routine, catalog: &Catalog) -> Result<SqlBody> {
        let body = &routine.body;
        let queries =
            parse(body)?.into_iter().map(|it| Query::new(it.statement, &body[it.start..it.end])).collect();
        let columns = catalog.result_columns(routine);
        let field =
            |column: &ResultColumn| RecordField { name: column.name.as_str().into(), kind: column.ty };
        let fields = columns.iter().map(field).collect();
        Ok(SqlBody { queries, columns, fields })
    }

    /// Returns true if a call returns one value without fields.
    fn is_plain(&self, routine: &Routine) -> bool {
        routine.row_of.is_none() && self.columns.len() < 2
    }

    /// The domain of the one value.
    fn domain(&self, routine: &Routine) -> Option<u32> {
        routine.result_domain.or_else(|| self.columns.first()?.domain)
    }

    /// Checks a body whose routine is created: it binds, and returns what the routine declares.
    ///
    /// # Errors
    /// Those of binding; 42P13.
    pub(crate) fn check(&self, environment: &mut SessionEnvironment, routine: &Routine) -> Result<()> {
        let values = vec![Value::Null; routine.inputs().count()];
        let arguments = Arguments { routine, catalog: environment.catalog.clone(), values: &values };
        let mut last = None;
        for query in &self.queries {
            if query.is_utility() {
                last = None;
                continue;
            }
            last = Some(query.plan(environment, &arguments)?);
        }
        if routine.result == Type::Void {
            return Ok(());
        }
        self.check_result(environment, routine, last.as_deref())
    }

    fn check_result(
        &self,
        environment: &SessionEnvironment,
        routine: &Routine,
        last: Option<&QueryPlan>,
    ) -> Result<()> {
        let wrong = |detail: String| {
            let declared = environment.catalog.type_display(routine.result);
            let message = format!("return type mismatch in function declared to return {declared}");
            SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message).with_detail(detail)
        };
        let Some(last) = last.filter(|last| !last.columns.is_empty()) else {
            let detail = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
            return Err(wrong(detail.to_string()));
        };
        let shape: Vec<Type> = match self.is_plain(routine) {
            true => vec![routine.result],
            false => self.columns.iter().map(|column| column.ty).collect(),
        };
        if shape == [Type::Record] && self.columns.is_empty() {
            return Ok(());
        }
        if self.returns_whole_row(routine, last) {
            return Ok(());
        }
        if last.columns.len() != shape.len() {
            return Err(wrong(match shape.len() {
                1 => "Final statement must return exactly one column.".to_string(),
                count if last.columns.len() > count => {
                    "Final statement returns too many columns.".to_string()
                }
                _ => "Final statement returns too few columns.".to_string(),
            }));
        }
        for (number, (column, &to)) in last.columns.iter().zip(&shape).enumerate() {
            use crate::types::cast::{CastContext, can_coerce};
            // A literal without a type is a text when the statement ends.
            let from = if column.ty == Type::Unknown { Type::Text } else { column.ty };
            if !can_coerce(from, to, CastContext::Assignment) {
                let actual = environment.catalog.type_display(from);
                let declared = environment.catalog.type_display(to);
                return Err(wrong(match shape.len() {
                    1 => format!("Actual return type is {actual}."),
                    _ => format!(
                        "Final statement returns {actual} instead of {declared} at column {}.",
                        number + 1
                    ),
                }));
            }
        }
        Ok(())
    }

    /// Returns true if a statement returns values of the types that the routine declares: nothing is to be converted.
    fn is_as_declared(&self, routine: &Routine, plan: &QueryPlan) -> bool {
        match &plan.columns[..] {
            [column] if self.is_plain(routine) => column.ty == routine.result,
            columns => {
                columns.len() == self.columns.len()
                    && !columns.is_empty()
                    && columns.iter().zip(&self.columns).all(|(column, declared)| column.ty == declared.ty)
            }
        }
    }

    /// Returns true if a statement's one column is the row that the routine returns.
    fn returns_whole_row(&self, routine: &Routine, plan: &QueryPlan) -> bool {
        let [column] = &plan.columns[..] else { return false };
        let is_row = match column.ty {
            Type::Record => self.columns.len() > 1 || self.columns.iter().any(|it| it.ty != Type::Record),
            ty => ty.row_relation().is_some() && ty.row_relation() == routine.row_of,
        };
        routine.row_of.is_some() && is_row
    }

    /// Collects what a call with these arguments reads and writes.
    ///
    /// # Errors
    /// Of a call: a key cannot be computed.
    pub(crate) fn derive(
        &self,
        execution: &mut Execution<'_>,
        routine: &Routine,
        start: &Start<'_>,
        collector: &mut Collector,
    ) -> Result<()> {
        let catalog = execution.environment.catalog.clone();
        let arguments = Arguments { routine, catalog, values: start.arguments };
        for (number, query) in self.queries.iter().enumerate() {
            let site = Site {
                line: number as u32 + 1,
                is_repeated: start.is_repeated,
                control: start.control,
                frame: &arguments,
                origin: &|variable| start.origins.get(variable.slot).cloned().unwrap_or_default(),
                name: &|variable| arguments.name(variable),
            };
            match query.plan(execution.environment, &arguments) {
                Ok(plan) => {
                    collector.statement(&plan, &site, execution)?;
                }
                Err(error) => collector.gap(site.line, error.message()),
            }
        }
        Ok(())
    }

    /// Runs a body: all rows of the last statement, or only the first.
    pub(crate) fn run(
        &self,
        execution: &mut Execution<'_>,
        routine: &Routine,
        values: &[Value],
    ) -> Result<Returned> {
        let catalog = execution.environment.catalog.clone();
        let arguments = Arguments { routine, catalog, values };
        let mut results = Returned::new();
        let last = self.queries.len().saturating_sub(1);
        let ends_in_rows = self.queries.last().is_some_and(|query| !query.is_utility());
        if routine.result != Type::Void && !ends_in_rows {
            self.check_result(execution.environment, routine, None).map_err(|it| at_startup(it, routine))?;
        }
        for (number, query) in self.queries.iter().enumerate() {
            let context = |error: SqlError| {
                error.with_context(format!("SQL function \"{}\" statement {}", routine.name, number + 1))
            };
            if query.is_utility() {
                query.run_utility(execution).map_err(context)?;
            } else if number < last || routine.result == Type::Void {
                query.run(execution, &arguments, &mut |_| Ok(true)).map_err(context)?;
            } else {
                let plan = query.plan(execution.environment, &arguments).map_err(context)?;
                if !self.is_as_declared(routine, &plan) {
                    self.check_result(execution.environment, routine, Some(&plan))
                        .map_err(|error| at_startup(error, routine))?;
                }
                results = self.last((query, &plan), execution, routine, &arguments).map_err(context)?;
            }
        }
        Ok(results)
    }

    fn last(
        &self,
        (query, plan): (&Query, &QueryPlan),
        execution: &mut Execution<'_>,
        routine: &Routine,
        arguments: &Arguments<'_>,
    ) -> Result<Returned> {
        if self.is_plain(routine) && plan.expression().is_some() {
            let (value, from) = query.evaluate(execution, arguments)?;
            let value = convert(execution.environment, value, from, routine.result, Modifier::NONE)?;
            let value = as_domain(execution, self.domain(routine), value)?;
            return Ok(Returned::from_buf([value]));
        }
        let mut rows: Vec<Vec<Value>> = Vec::new();
        query.run(execution, arguments, &mut |row| {
            rows.push(row.to_vec());
            Ok(routine.is_set || plan.command != "SELECT")
        })?;
        if !routine.is_set {
            rows.truncate(1);
        }
        rows.into_iter().map(|row| self.result(execution, routine, plan, row)).collect()
    }

    /// A row of the last statement as the routine's result.
    fn result(
        &self,
        execution: &mut Execution<'_>,
        routine: &Routine,
        plan: &QueryPlan,
        row: Vec<Value>,
    ) -> Result<Value> {
        if self.is_plain(routine) && routine.result != Type::Record {
            let value = row.into_iter().next().unwrap_or_default();
            let from = plan.columns[0].ty;
            let value = convert(execution.environment, value, from, routine.result, Modifier::NONE)?;
            return as_domain(execution, self.domain(routine), value);
        }
        if self.returns_whole_row(routine, plan) {
            let Some(Value::Record(row)) = row.into_iter().next() else {
                return as_domain(execution, routine.result_domain, Value::Null);
            };
            let mut values = Vec::with_capacity(self.columns.len());
            for ((value, field), to) in row.values.iter().zip(&row.fields[..]).zip(&self.columns) {
                let value = convert(execution.environment, value.clone(), field.kind, to.ty, to.modifier)?;
                values.push(as_domain(execution, to.domain, value)?);
            }
            return as_domain(execution, routine.result_domain, record(&self.fields, values));
        }
        if self.columns.is_empty() {
            let field = |column: &crate::bind::tree::BoundColumn| RecordField {
                name: column.name.as_str().into(),
                kind: column.ty,
            };
            return Ok(record(&plan.columns.iter().map(field).collect(), row));
        }
        let mut values = Vec::with_capacity(row.len());
        for ((value, from), to) in row.into_iter().zip(&plan.columns).zip(&self.columns) {
            let value = convert(execution.environment, value, from.ty, to.ty, to.modifier)?;
            values.push(as_domain(execution, to.domain, value)?);
        }
        as_domain(execution, routine.result_domain, record(&self.fields, values))
    }
}
