//! Statements and expressions of bodies: bound with the body's variables, planned once, run often.
//!
//! # Invariants
//! - A plan is used as long as the catalog, the settings that binding depends on, and the fields of the row variables that it
//!   names are the same.
//! - Planning inside of a transaction counts no rows: tables without statistics are noted, and counted before the next
//!   statement of the session.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bind::routines::routine_of;
use crate::bind::tree::walk::walk_statement;
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundStatement, FunctionCall, QueryBody, RelationKind, StatementKind,
};
use crate::bind::{BindContext, Names, VariableRef, bind_inside, definition_path};
use crate::catalog::{Argument, Catalog, Routine, Table, Trigger};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CallArg, Statement};
use crate::plan::expression::Expr;
use crate::plan::is_volatile_call;
use crate::plan::node::FunctionItem;
use crate::plan::statement::{Action, BoundRowRules};
use crate::plan::statistics::TableStatistics;
use crate::plan::{Known, Planned, plan};
use crate::rewrite::fold_statement;
use crate::routine::call::procedure;
use crate::routine::footprint::accesses::row_functions;
use crate::routine::footprint::expressions::calls_of;
use crate::run::parameters::Parameters;
use crate::run::{Access, KeptRows, evaluate_alone, execute, execute_compiled};
use crate::session::{BodyPoint, Connection, KnownNow, SessionEnvironment};
use crate::types::record::RecordField;
use crate::types::{Environment, Type, Value};

/// Variables with values, as the statements of a body see them.
pub(crate) trait Frame: Names {
    /// The variables' values, by their numbers; of a row variable, the row.
    fn values(&self) -> &[Value];

    /// The fields of a row variable; none if it has no value.
    fn shape(&self, slot: usize) -> Option<Arc<[RecordField]>>;
}

/// Where a body runs.
pub(crate) struct Execution<'a> {
    pub environment: &'a mut SessionEnvironment,
    pub door: Door<'a>,
    /// Whether its statements may write: not those of stable and immutable functions.
    pub may_write: bool,
}

/// What the statements of a body read and write through.
pub(crate) enum Door<'a> {
    /// The attempt of the statement that called the body.
    Attempt(Access<'a>),
    /// The session's transaction, which the body may end: each statement is an access of its own, or a schema change.
    Chain(&'a mut Connection),
}

/// A point to which a block with handlers goes back.
pub(crate) enum BodySavepoint {
    /// None: nothing can be written.
    Attempt(Option<heddledb::Savepoint>),
    Chain(BodyPoint),
}

impl Execution<'_> {
    /// Does something with access to rows. A chain may do it several times: only the last time counts.
    pub(crate) fn with_access<T>(
        &mut self,
        mut body: impl FnMut(Access<'_>, &mut SessionEnvironment) -> Result<T>,
    ) -> Result<T> {
        match &mut self.door {
            Door::Attempt(access) => body(*access, self.environment),
            Door::Chain(connection) => connection.transaction.run_statement(self.environment, body),
        }
    }

    /// A point to which [`rollback_to`](Self::rollback_to) goes back.
    pub(crate) fn savepoint(&mut self) -> Result<BodySavepoint> {
        Ok(match &mut self.door {
            Door::Attempt(access) => BodySavepoint::Attempt(access.savepoint()),
            Door::Chain(connection) => {
                BodySavepoint::Chain(connection.transaction.body_savepoint(self.environment)?)
            }
        })
    }

    /// Takes back what was written since the savepoint.
    pub(crate) fn rollback_to(&mut self, savepoint: &BodySavepoint) -> Result<()> {
        match (&mut self.door, savepoint) {
            (Door::Attempt(access), BodySavepoint::Attempt(savepoint)) => {
                access.rollback_to(savepoint.as_ref());
                Ok(())
            }
            (Door::Chain(connection), BodySavepoint::Chain(savepoint)) => {
                connection.transaction.rollback_body_to(self.environment, savepoint)
            }
            _ => Err(SqlError::internal("a savepoint is of another kind of transaction")),
        }
    }

    /// Forgets a savepoint; what was written since then stays.
    pub(crate) fn release(&mut self, savepoint: &BodySavepoint) -> Result<()> {
        match (&mut self.door, savepoint) {
            (Door::Chain(connection), BodySavepoint::Chain(savepoint)) => {
                connection.transaction.release_of_body(savepoint)
            }
            _ => Ok(()),
        }
    }
}

/// A statement of a body.
#[derive(Debug)]
pub(crate) struct Query {
    statement: Statement,
    /// As it was written.
    pub text: String,
    /// Whether it is a text of the catalog's, whose names do not depend on the session's search path.
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
    /// Of a CALL: which arguments the columns of its row belong to.
    pub outputs: Vec<usize>,
    /// What its parameters are.
    pub variables: Vec<VariableRef>,
    /// Why it reads or writes more than its plan and the routines tell, if it does.
    pub undeclared: Option<String>,
    /// The routines that it calls, each as often as it does.
    pub routines: Vec<u32>,
    /// Whether it may return another result each time for the same rows.
    pub is_volatile: bool,
    /// The fields of the row variables of which it names fields.
    shapes: Vec<(usize, Option<Arc<[RecordField]>>)>,
    version: u64,
    settings: Arc<str>,
}

impl Query {
    pub(crate) fn new(statement: Statement, text: &str) -> Query {
        Query { statement, text: text.trim().to_string(), is_definition: false, plan: Mutex::new(None) }
    }

    /// A query that stands in a definition, such as a trigger's condition.
    pub(crate) fn of_definition(statement: Statement, text: &str) -> Query {
        Query { is_definition: true, ..Query::new(statement, text) }
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Runs a schema change: as a statement of the session, where the body runs beside the engine's transactions; else the body
    /// is to be retried so. Whether the statement is one.
    ///
    /// # Errors
    /// The statement's; 0A000 in a body in which no schema may be changed.
    pub(crate) fn change_schema(&self, execution: &mut Execution<'_>) -> Result<bool> {
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
            return Ok(plan.clone());
        }
        let made = crate::stack::grow(|| make_plan(self, environment, frame))?;
        let made = Arc::new(made);
        *self.plan.lock() = Some(made.clone());
        Ok(made)
    }

    /// Runs the statement; its rows go to `each` until that has enough (`false`). How many rows it returned or wrote.
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
        let binding = &environment.settings.derived.binding;
        self.version == environment.catalog.version
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

    /// As [`Query::run`].
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

    /// Runs the statement in its compiled form: the row that it returns, if any, is put into `row`. How many rows it returned or
    /// wrote; none: nothing was done, and [`run`](Self::run) is to run it.
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

    /// Calls a procedure as a part of the body that CALL stands in: the row of its output arguments.
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

fn make_plan(query: &Query, environment: &mut SessionEnvironment, frame: &dyn Frame) -> Result<QueryPlan> {
    let statement = &query.statement;
    if !statement.is_planned() || statement.is_select_into() {
        return Err(SqlError::unsupported("statements of this kind are not supported in functions")
            .with_hint("Functions run queries, INSERT, UPDATE, DELETE, MERGE and CALL."));
    }
    let (catalog, mut path) = (environment.catalog.clone(), environment.path());
    if query.is_definition {
        path = definition_path(&path);
    }
    let context = BindContext { catalog: &catalog, path: &path, text: "" };
    let (mut bound, variables) =
        bind_inside(context, environment, statement, frame).map_err(SqlError::without_position)?;
    fold_statement(&mut bound)?;
    let shared = environment.shared.clone();
    let now = KnownNow { shared: &shared, catalog: &catalog, path: &path, has_consequences: true };
    let known = KnownInside { now, uncounted: RefCell::default() };
    let planned = plan(&bound, &known)?;
    environment.routines.uncounted.extend(known.uncounted.into_inner());
    let command = match (&bound.kind, statement) {
        (_, Statement::Call(_)) => "CALL",
        (StatementKind::Query(_), _) => "SELECT",
        (StatementKind::Insert(_), _) => "INSERT",
        (StatementKind::Update(_), _) => "UPDATE",
        (StatementKind::Delete(_), _) => "DELETE",
        (StatementKind::Merge(_), _) => "MERGE",
    };
    let called = called_procedure(&bound.kind, &catalog);
    let mut slots: Vec<usize> =
        variables.iter().filter(|it| it.field.is_some()).map(|variable| variable.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let field = |it: &BoundColumn| RecordField { name: it.name.as_str().into(), kind: it.ty };
    let routines = routines_of(&bound, &catalog, &planned);
    Ok(QueryPlan {
        undeclared: undeclared(&bound, &planned),
        routines,
        is_volatile: is_volatile(&bound),
        outputs: called.map_or_else(Vec::new, |routine| output_positions(&routine, statement)),
        fields: bound.columns.iter().map(field).collect(),
        columns: bound.columns,
        planned,
        command,
        variables,
        shapes: slots.into_iter().map(|slot| (slot, frame.shape(slot))).collect(),
        version: catalog.version,
        settings: environment.settings.derived.binding.clone(),
    })
}

/// Whether a statement calls a function that may return another value each time.
fn is_volatile(bound: &BoundStatement) -> bool {
    let mut found = false;
    walk_statement(bound, &mut |expr| found |= is_volatile_call(expr));
    found
}

/// Why a statement reads or writes more than the scans of its plan and the routines that it calls, if it does.
fn undeclared(bound: &BoundStatement, planned: &Planned) -> Option<String> {
    let mut found = None;
    // The subqueries of an expression that stands alone are looked into.
    let is_alone = planned.lone_expression().is_some();
    walk_statement(bound, &mut |expr| {
        if let BoundExpr::Call { function, .. } = expr
            && ["pg_sleep", "pg_advisory"].iter().any(|waits| function.name.starts_with(waits))
        {
            // The thread that the call leads to runs others' calls, too.
            found = Some(format!("{}() may wait", function.name));
        } else if !is_alone && matches!(expr, BoundExpr::Subquery(_)) && found.is_none() {
            found = Some("it has a subquery".to_string());
        }
    });
    found
}

/// The routines that a statement calls, and those of the rules of the rows that it writes.
fn routines_of(bound: &BoundStatement, catalog: &Catalog, planned: &Planned) -> Vec<u32> {
    let mut routines: Vec<u32> =
        row_functions(planned).into_iter().filter_map(FunctionItem::routine).collect();
    walk_statement(bound, &mut |expr| {
        routines.extend(routine_of(catalog, expr).map(|routine| routine.oid));
    });
    for expr in computed_columns(planned) {
        calls_of(expr, &mut |call| {
            routines.extend(call.arguments.first().and_then(Expr::as_constant).map(Value::oid));
        });
    }
    routines
}

/// What a statement evaluates for each row that it writes: generated columns and checks.
fn computed_columns(planned: &Planned) -> impl Iterator<Item = &Expr> {
    let rules = match &planned.action {
        Action::Insert(plan) => Some(&plan.rules),
        Action::Update(plan) => Some(&plan.rules),
        _ => None,
    };
    rules.into_iter().flat_map(|rules| {
        let generated = rules.generated.iter().map(|(_, expr)| expr);
        generated.chain(rules.checks.iter().map(|(_, expr)| expr))
    })
}

/// The procedure that a CALL calls.
fn called_procedure(kind: &StatementKind, catalog: &Catalog) -> Option<Arc<Routine>> {
    let StatementKind::Query(query) = kind else { return None };
    let QueryBody::Select(select) = &query.body else { return None };
    let [relation] = &select.relations[..] else { return None };
    let RelationKind::Function { calls, .. } = &relation.kind else { return None };
    let [FunctionCall::Set { args, .. }] = &calls[..] else { return None };
    match args.first() {
        Some(BoundExpr::Constant { value: Value::Oid(oid), .. }) => {
            catalog.routine_by_oid(*oid).filter(|routine| routine.is_procedure).cloned()
        }
        _ => None,
    }
}

/// Where a CALL writes the arguments that are outputs; of one that it leaves out, a place behind all.
fn output_positions(routine: &Routine, statement: &Statement) -> Vec<usize> {
    let Statement::Call(call) = statement else { return Vec::new() };
    let written = &call.call.args;
    let place = |(at, argument): (usize, &Argument)| {
        let is_named = |it: &CallArg| it.name.as_ref().is_some_and(|name| name.text == argument.name);
        let by_place = || written.get(at).filter(|it| it.name.is_none()).map(|_| at);
        written.iter().position(is_named).or_else(by_place).unwrap_or(written.len())
    };
    let inputs = routine.inputs().enumerate();
    inputs.filter(|(_, argument)| argument.mode.is_output()).map(place).collect()
}

/// What is known of the database inside of a transaction.
struct KnownInside<'s> {
    now: KnownNow<'s>,
    /// Tables without statistics.
    uncounted: RefCell<Vec<u32>>,
}

impl Known for KnownInside<'_> {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        self.now.table(oid)
    }

    fn referencing(&self, oid: u32) -> Vec<Arc<Table>> {
        self.now.referencing(oid)
    }

    fn triggers(&self, oid: u32) -> Vec<Arc<Trigger>> {
        self.now.triggers(oid)
    }

    fn row_rules(&self, table: &Arc<Table>) -> Result<BoundRowRules> {
        self.now.row_rules(table)
    }

    fn statistics(&self, table: &Table) -> Arc<TableStatistics> {
        self.now.shared.statistics.known(table).unwrap_or_else(|| {
            self.uncounted.borrow_mut().push(table.oid);
            Arc::new(TableStatistics::unknown(table.columns.len()))
        })
    }
}
