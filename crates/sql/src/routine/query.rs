//! Statements and expressions of bodies: bound with the body's variables, planned once, run often.
//!
//! # Invariants
//! - A plan is used as long as the catalog, the settings that binding depends on, and the fields of the row variables that it
//!   names are the same.
//! - Planning inside of a transaction counts no rows: tables without statistics are noted, and counted before the next
//!   statement of the session.

mod execution;
mod make_plan;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::bind::VariableRef;
use crate::bind::tree::BoundColumn;
use crate::catalog::uses::{self, Kept};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{SetScope, Statement};
use crate::plan::Planned;
use crate::plan::expression::Expr;
use crate::routine::call::procedure;
use crate::run::parameters::Parameters;
use crate::run::{Access, KeptRows, evaluate_alone, execute, execute_compiled};
use crate::session::SessionEnvironment;
use crate::types::record::RecordField;
use crate::types::{Environment, Type, Value};

pub(crate) use execution::{Door, Execution, Frame};
use make_plan::make_plan;

/// A statement of a body.
#[derive(Debug)]
pub(crate) struct Query {
    statement: Statement,
    /// The statement's own text.
    pub text: String,
    /// True if it is a text of the catalog's, whose names do not depend on the session's search path.
    pub is_definition: bool,
    plan: Mutex<Option<Arc<QueryPlan>>>,
}

/// A statement of a body that is ready to run.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    pub planned: Planned,
    /// The columns of its rows.
    pub columns: Vec<BoundColumn>,
    /// The fields of records of them.
    pub fields: Arc<[RecordField]>,
    /// `SELECT`, `INSERT`, …
    pub command: &'static str,
    /// The arguments to which the columns of a CALL's row belong.
    pub outputs: Vec<usize>,
    /// The variables that are its parameters.
    pub variables: Vec<VariableRef>,
    /// The reason why it reads or writes more than its plan and the routines tell, if it does.
    pub undeclared: Option<String>,
    /// The routines that it calls, each as often as it does.
    pub routines: Vec<u32>,
    /// True if it may return another result each time for the same rows.
    pub is_volatile: bool,
    /// The fields of the row variables of which it names fields.
    shapes: Vec<(usize, Option<Arc<[RecordField]>>)>,
    version: u64,
    kept: Kept,
    settings: Arc<str>,
}

impl Query {
    pub(crate) fn new(statement: Statement, text: &str) -> Query {
        Query { statement, text: text.trim().to_string(), is_definition: false, plan: Mutex::new(None) }
    }

    /// A query in a definition, such as a trigger's condition.
    pub(crate) fn of_definition(statement: Statement, text: &str) -> Query {
        Query { is_definition: true, ..Query::new(statement, text) }
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Returns true if it is neither a query nor writes rows, nor changes the schema: SET, RESET, NOTIFY and SET
    /// CONSTRAINTS.
    pub(crate) fn is_utility(&self) -> bool {
        matches!(
            self.statement,
            Statement::SetConstraints { .. }
                | Statement::Set { .. }
                | Statement::Reset(_)
                | Statement::Notify { .. }
        )
    }

    /// Runs a statement that is neither a query nor writes rows: a setting, a notification, SET CONSTRAINTS, or a schema change.
    /// Returns true if it is one.
    ///
    /// # Errors
    /// The statement's; 0A000 where it is not allowed.
    pub(crate) fn run_utility(&self, execution: &mut Execution<'_>) -> Result<bool> {
        if !self.is_utility() {
            return self.change_schema(execution);
        }
        let refused =
            |what: &str| SqlError::unsupported(format!("{what} is not allowed in a non-volatile function"));
        let may_write = execution.may_write;
        let allowed = |what: &str| if may_write { Ok(()) } else { Err(refused(what)) };
        match &self.statement {
            Statement::Set { scope, name, value } => {
                allowed("SET")?;
                let is_local = *scope == SetScope::Local;
                execution.environment.set_in_body(name, value.text(name).as_deref(), is_local)?;
            }
            Statement::Reset(Some(name)) => {
                allowed("RESET")?;
                execution.environment.set_in_body(name, None, false)?;
            }
            Statement::Reset(None) => {
                allowed("RESET")?;
                execution.environment.settings.reset_all(true)?;
            }
            Statement::Notify { channel, payload } => {
                allowed("NOTIFY")?;
                let payload = payload.as_deref().unwrap_or_default();
                execution.environment.notify(&channel.text, payload)?;
            }
            Statement::SetConstraints { names, deferred } => {
                allowed("SET CONSTRAINTS")?;
                execution.with_access(|access, environment| {
                    environment.set_constraints(access, names, *deferred)
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Runs a schema change: as a statement of the session, where the body runs beside the engine's transactions; else
    /// the body is to be retried so. Returns true if the statement is one.
    ///
    /// # Errors
    /// The statement's; 0A000 in a body in which no schema may be changed.
    fn change_schema(&self, execution: &mut Execution<'_>) -> Result<bool> {
        if !self.statement.changes_schema() {
            return Ok(false);
        }
        let routines = &mut execution.environment.routines;
        let may_change_schema = routines.may_change_schema();
        if let (Door::Chain(connection), true) = (&mut execution.door, may_change_schema) {
            connection.change_schema_in_body(execution.environment, &self.statement, &self.text)?;
            return Ok(true);
        }
        routines.wants_chain |= may_change_schema;
        Err(SqlError::unsupported("schema changes are not supported in functions")
            .with_hint("DO runs them, and a procedure that CALL runs outside of a block."))
    }

    /// The plan for the session's catalog and the variables as they are.
    pub(crate) fn plan(
        &self,
        environment: &mut SessionEnvironment,
        frame: &dyn Frame,
    ) -> Result<Arc<QueryPlan>> {
        if let Some(plan) = &*self.plan.lock()
            && plan.is_current(environment, frame)
        {
            uses::note_kept(&plan.kept);
            return Ok(plan.clone());
        }
        let position = environment.catalog.position;
        let (made, kept) =
            uses::record(position, || crate::stack::grow(|| make_plan(self, environment, frame)));
        let made = Arc::new(QueryPlan { kept, ..made? });
        *self.plan.lock() = Some(made.clone());
        Ok(made)
    }

    /// Runs the statement; its rows are passed to `each` until that has enough (`false`). Returns the number of rows
    /// that it returned or wrote.
    pub(crate) fn run(
        &self,
        execution: &mut Execution<'_>,
        frame: &dyn Frame,
        each: &mut dyn FnMut(&[Value]) -> Result<bool>,
    ) -> Result<u64> {
        let plan = self.plan(execution.environment, frame)?;
        plan.run(execution, frame, each)
    }

    /// The value of an expression, and its type.
    pub(crate) fn evaluate(&self, execution: &mut Execution<'_>, frame: &dyn Frame) -> Result<(Value, Type)> {
        let plan = self.plan(execution.environment, frame)?;
        if plan.columns.len() != 1 {
            let message = format!("query returned {} columns", plan.columns.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let ty = plan.columns[0].ty;
        if let Some(expr) = plan.expression() {
            let parameters = plan.parameters(frame);
            if let Some(value) = value_at_once(expr, parameters) {
                return Ok((value, ty));
            }
            let value = execution.with_access(|access, environment| {
                evaluate_alone(expr, &plan.planned, access, parameters, environment)
            });
            return Ok((value?, ty));
        }
        let (mut value, mut count) = (Value::Null, 0);
        plan.run(execution, frame, &mut |row| {
            count += 1;
            value = row[0].clone();
            Ok(count < 2)
        })?;
        if count > 1 {
            let message = "query returned more than one row";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
        }
        Ok((value, ty))
    }
}

/// The value of an expression that takes nothing but a look, such as the condition of IF NOT FOUND.
fn value_at_once(expr: &Expr, parameters: Parameters<'_>) -> Option<Value> {
    match expr {
        Expr::Constant(value) => Some(value.clone()),
        Expr::Parameter(number) => parameters.get(*number).cloned(),
        Expr::Not(operand) => match value_at_once(operand, parameters)? {
            Value::Bool(value) => Some(Value::Bool(!value)),
            other => Some(other),
        },
        _ => None,
    }
}

impl QueryPlan {
    fn is_current(&self, environment: &SessionEnvironment, frame: &dyn Frame) -> bool {
        let (binding, shared) = (&environment.settings.derived.binding, environment.shared());
        let now = environment.statement_start;
        self.version == environment.catalog.version
            && !self.planned.age.is_over(now, &shared.database, &shared.statistics)
            && (Arc::ptr_eq(&self.settings, binding) || self.settings == *binding)
            && self.shapes.iter().all(|(slot, shape)| is_same_shape(shape, &frame.shape(*slot)))
    }

    /// The expression that the statement computes, if it is nothing else.
    pub(crate) fn expression(&self) -> Option<&Expr> {
        self.planned.lone_expression()
    }

    /// The value of an expression of the plan that sees no row.
    pub(crate) fn evaluate_part(
        &self,
        expression: &Expr,
        execution: &mut Execution<'_>,
        frame: &dyn Frame,
    ) -> Result<Value> {
        let parameters = self.parameters(frame);
        execution.with_access(|access, environment| {
            evaluate_alone(expression, &self.planned, access, parameters, environment)
        })
    }

    fn parameters<'p>(&'p self, frame: &'p dyn Frame) -> Parameters<'p> {
        Parameters::Variables(frame.values(), &self.variables)
    }

    fn check_allowed(&self, execution: &Execution<'_>) -> Result<()> {
        if !self.planned.writes && !self.planned.locks {
            return Ok(());
        }
        let command = if self.planned.writes { self.command } else { "SELECT FOR UPDATE" };
        if !execution.may_write {
            let message = format!("{command} is not allowed in a non-volatile function");
            return Err(SqlError::unsupported(message));
        }
        if execution.environment.settings.derived.read_only {
            let message = format!("cannot execute {command} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Runs the plan as [`Query::run`] does.
    pub(crate) fn run(
        &self,
        execution: &mut Execution<'_>,
        frame: &dyn Frame,
        each: &mut dyn FnMut(&[Value]) -> Result<bool>,
    ) -> Result<u64> {
        self.check_allowed(execution)?;
        let parameters = self.parameters(frame);
        let access = match &mut execution.door {
            Door::Attempt(access) => *access,
            Door::Chain(_) => return self.run_in_chain(execution, parameters, each),
        };
        self.run_once(access, execution.environment, parameters, each)
    }

    /// Runs the statement in its compiled form: the row that it returns, if any, is put into `row`. Returns the number
    /// of rows that it returned or wrote; `None` if nothing was done, and [`run`](Self::run) is to run it.
    pub(crate) fn run_compiled(
        &self,
        execution: &mut Execution<'_>,
        frame: &dyn Frame,
        row: &mut Vec<Value>,
    ) -> Result<Option<u64>> {
        row.clear();
        let access = match execution.door {
            Door::Attempt(access) if self.planned.procedure.is_some() => access,
            _ => return Ok(None),
        };
        self.check_allowed(execution)?;
        execute_compiled(&self.planned, access, self.parameters(frame), execution.environment, row)
    }

    /// Calls a procedure as a part of the body that has the CALL, and returns the row of its output arguments.
    pub(crate) fn call(&self, execution: &mut Execution<'_>, frame: &dyn Frame) -> Result<Vec<Value>> {
        let parameters = self.parameters(frame);
        procedure(execution, &self.planned, parameters, self.columns.len())
    }

    /// Runs the statement as an access of a chain's transaction: its rows are given when it has ended.
    fn run_in_chain(
        &self,
        execution: &mut Execution<'_>,
        parameters: Parameters<'_>,
        each: &mut dyn FnMut(&[Value]) -> Result<bool>,
    ) -> Result<u64> {
        let mut kept = KeptRows::new(execution.environment.memory());
        let count = execution.with_access(|access, environment| {
            kept.clear();
            self.run_once(access, environment, parameters, &mut |row| kept.push(row).map(|()| true))
        })?;
        for number in 0..kept.len() {
            if !each(kept.row(number)?)? {
                return Ok(number as u64 + 1);
            }
        }
        Ok(count)
    }

    fn run_once(
        &self,
        access: Access<'_>,
        environment: &mut SessionEnvironment,
        parameters: Parameters<'_>,
        each: &mut dyn FnMut(&[Value]) -> Result<bool>,
    ) -> Result<u64> {
        let mut row = Vec::new();
        if let Some(count) = execute_compiled(&self.planned, access, parameters, environment, &mut row)? {
            if count > 0 && !self.columns.is_empty() {
                each(&row)?;
            }
            return Ok(count);
        }
        let (mut has_enough, mut given) = (false, 0);
        let done = execute(&self.planned, access, parameters, environment, &mut |batch| {
            for row in batch.rows() {
                given += 1;
                if !each(row)? {
                    has_enough = true;
                    // A query ends here; a statement that writes has ended before its first row was given.
                    return Err(SqlError::internal("enough rows were read"));
                }
            }
            Ok(())
        });
        if has_enough { Ok(given) } else { done }
    }
}

fn is_same_shape(left: &Option<Arc<[RecordField]>>, right: &Option<Arc<[RecordField]>>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right) || left == right,
        (left, right) => left.is_none() && right.is_none(),
    }
}
