//! Runs PL/pgSQL: blocks, control flow, and the values of variables.
//!
//! # Invariants
//! - A block with handlers takes a savepoint; a handler starts from it. Errors that end the attempt of the transaction
//!   are never caught (`conditions::may_be_caught`).
//! - `at` is the statement that runs: the context of an error names it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bind::{NameConflict, Names, VariableRef};
use crate::catalog::{ResultColumn, Routine};
use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::compile::find_variable;
use crate::routine::plpgsql::conditions::may_be_caught;
use crate::routine::plpgsql::cursor::OpenCursor;
use crate::routine::plpgsql::tree::{Block, Fragment, Kind, Program, Statement, VariableKind};
use crate::routine::query::{Door, Execution, Frame};
use crate::routine::value::{as_domain, convert, record};
use crate::types::record::RecordField;
use crate::types::{Environment, Modifier, Type, Value};

/// The control flow behind a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Flow {
    Next,
    /// EXIT and CONTINUE, of the loop with this label or the innermost.
    Leave {
        is_continue: bool,
        label: Option<String>,
    },
    Return,
}

/// A body while it runs.
pub(super) struct Interpreter<'a, 'b> {
    pub(super) execution: &'a mut Execution<'b>,
    pub(super) program: &'a Program,
    pub(super) routine: &'a Routine,
    pub(super) values: Vec<Value>,
    pub(super) cursors: HashMap<usize, OpenCursor>,
    /// The value of ROW_COUNT.
    pub(super) row_count: u64,
    /// The errors whose handlers run, the innermost last.
    pub(super) errors: Vec<SqlError>,
    /// The line and the name of the statement that runs.
    at: (u32, &'static str),
    /// The number of open blocks with handlers: transactions cannot be ended inside of them.
    pub(super) protected: usize,
    pub(super) result: Option<Value>,
    pub(super) rows: Vec<Value>,
    /// The row of the statement that ran last, kept for its memory.
    pub(super) row: Vec<Value>,
    /// The fields of NEW and OLD of a trigger's function, also of the one that there is not.
    pub(super) absent: Option<Arc<[RecordField]>>,
}

/// The variables as the statements of one scope see them.
pub(super) struct View<'v> {
    pub(super) program: &'v Program,
    pub(super) values: &'v [Value],
    pub(super) scope: usize,
    /// The fields of NEW and OLD, as the body has them.
    pub(super) absent: Option<&'v Arc<[RecordField]>>,
}

impl View<'_> {
    /// The name of a variable, or of a field of one.
    pub(super) fn name_of(&self, variable: &VariableRef) -> String {
        let name = &self.program.variables[variable.slot].name;
        let fields = self.shape(variable.slot);
        match variable.field.and_then(|at| fields.as_ref()?.get(at)) {
            Some(field) => format!("{name}.{}", field.name),
            None => name.clone(),
        }
    }

    /// The fields of a row variable; an error if it has none yet.
    fn fields_of(&self, slot: usize) -> Result<Arc<[RecordField]>> {
        self.shape(slot).ok_or_else(|| {
            let message = format!("record \"{}\" is not assigned yet", self.program.variables[slot].name);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
        })
    }
}

impl Names for View<'_> {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        let Some((slot, used)) = find_variable(&self.program.scopes, self.scope, parts) else {
            return Ok(None);
        };
        let whole = VariableRef { slot, field: None };
        let variable = &self.program.variables[slot];
        match (&variable.kind, &parts[used..]) {
            (VariableKind::Value { ty, .. }, []) => Ok(Some((whole, *ty))),
            (VariableKind::Row(_), []) => Ok(Some((whole, Type::Record))),
            (VariableKind::Cursor { .. }, []) => Ok(Some((whole, Type::Text))),
            (VariableKind::Row(_), [name]) => {
                let fields = self.fields_of(slot)?;
                let Some(at) = fields.iter().position(|field| *field.name == **name) else {
                    let message = format!("record \"{}\" has no field \"{name}\"", variable.name);
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                Ok(Some((VariableRef { slot, field: Some(at) }, fields[at].kind)))
            }
            _ => Ok(None),
        }
    }

    fn fields(&self, parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        let Some((slot, used)) = find_variable(&self.program.scopes, self.scope, parts) else {
            return Ok(None);
        };
        if used != parts.len() || !matches!(self.program.variables[slot].kind, VariableKind::Row(_)) {
            return Ok(None);
        }
        let field = |(at, field): (usize, &RecordField)| {
            (field.name.to_string(), VariableRef { slot, field: Some(at) }, field.kind)
        };
        Ok(Some(self.fields_of(slot)?.iter().enumerate().map(field).collect()))
    }

    fn conflict(&self) -> NameConflict {
        self.program.conflict
    }
}

impl Frame for View<'_> {
    fn values(&self) -> &[Value] {
        self.values
    }

    fn shape(&self, slot: usize) -> Option<Arc<[RecordField]>> {
        match &self.values[slot] {
            Value::Record(record) => Some(record.fields.clone()),
            _ => self.absent.filter(|_| is_row_of_trigger(self.program, slot)).cloned(),
        }
    }
}

/// Returns true if a variable is NEW or OLD of a trigger's function. Fields of the one that there is not are NULL.
pub(super) fn is_row_of_trigger(program: &Program, slot: usize) -> bool {
    program.scopes[0].names.iter().any(|(name, known)| *known == slot && (name == "new" || name == "old"))
}

/// The fields of columns.
pub(crate) fn fields_of(columns: &[ResultColumn]) -> Arc<[RecordField]> {
    columns.iter().map(|it| RecordField { name: it.name.as_str().into(), kind: it.ty }).collect()
}

impl<'a, 'b> Interpreter<'a, 'b> {
    pub(super) fn new(
        execution: &'a mut Execution<'b>,
        program: &'a Program,
        routine: &'a Routine,
    ) -> Interpreter<'a, 'b> {
        Interpreter {
            execution,
            program,
            routine,
            values: vec![Value::Null; program.variables.len()],
            cursors: HashMap::new(),
            row_count: 0,
            errors: Vec::new(),
            at: (0, "statement block"),
            protected: 0,
            result: None,
            rows: Vec::new(),
            row: Vec::new(),
            absent: None,
        }
    }

    /// Assigns the arguments to the parameters.
    pub(super) fn set_arguments(&mut self, arguments: &[Value]) {
        for (&slot, value) in self.program.inputs.iter().zip(arguments) {
            self.values[slot] = value.clone();
        }
    }

    /// Runs the body.
    pub(super) fn run(&mut self) -> Result<()> {
        self.values[self.program.found] = Value::Bool(false);
        for (argument, &slot) in self.routine.arguments.iter().zip(&self.program.arguments) {
            if argument.row_of.is_some() {
                self.clear(slot);
            }
        }
        let flow = self.block(&self.program.block).map_err(|error| self.described(error))?;
        match flow {
            Flow::Return | Flow::Next => {
                self.leave_cursors();
                Ok(())
            }
            Flow::Leave { is_continue, .. } => {
                let what = if is_continue { "CONTINUE" } else { "EXIT" };
                let message = format!("{what} cannot be used outside a loop");
                Err(self.described(SqlError::new(SqlState::SYNTAX_ERROR, message)))
            }
        }
    }

    /// The function and the line, as the context of an error names them.
    pub(super) fn context(&self) -> String {
        let name = &self.program.signature;
        match self.at {
            (line, "") => {
                format!(
                    "PL/pgSQL function {name} line {line} during statement block local variable initialization"
                )
            }
            // As `format!` writes it, in a third of the instructions: calls that fail by RAISE are no rare ones.
            (line, what) => ["PL/pgSQL function ", name, " line ", &line.to_string(), " at ", what].concat(),
        }
    }

    pub(super) fn described(&self, error: SqlError) -> SqlError {
        error.with_context(self.context())
    }

    fn block(&mut self, block: &'a Block) -> Result<Flow> {
        let what = self.at.1;
        self.at.1 = "";
        for &slot in &block.declared {
            self.initialize(slot)?;
        }
        self.at.1 = what;
        let Some((state, message)) = block.error_variables else { return self.statements(&block.body) };
        let savepoint = self.execution.savepoint()?;
        let deferral = self.execution.environment.deferred.mark();
        self.protected += 1;
        self.execution.environment.routines.protected += 1;
        let done = self.statements(&block.body);
        self.execution.environment.routines.protected -= 1;
        self.protected -= 1;
        match done {
            Err(error) if may_be_caught(&error) && !self.execution.environment.routines.is_given_up() => {
                let Some(handler) = block
                    .handlers
                    .iter()
                    .find(|handler| handler.conditions.iter().any(|condition| condition.is_met_by(&error)))
                else {
                    return Err(error);
                };
                self.execution.rollback_to(&savepoint)?;
                self.execution.environment.deferred.restore(&deferral);
                self.values[state] = Value::text(error.state().as_str());
                self.values[message] = Value::text(error.message());
                let error = self.described(error);
                self.errors.push(error);
                let flow = self.statements(&handler.body);
                self.errors.pop();
                flow
            }
            Err(error) => Err(error),
            Ok(flow) => self.execution.release(&savepoint).map(|()| flow),
        }
    }

    /// COMMIT and ROLLBACK. With AND CHAIN the next transaction has the modes of this one.
    fn end_transaction(&mut self, name: &str, chains: bool) -> Result<()> {
        let refused =
            |message: String| Err(SqlError::new(SqlState::INVALID_TRANSACTION_TERMINATION, message));
        let environment = &mut *self.execution.environment;
        if !environment.routines.may_end_transactions() {
            return refused("invalid transaction termination".to_string());
        }
        let commits = name == "COMMIT";
        if self.protected > 0 {
            let what = if commits { "commit" } else { "roll back" };
            return refused(format!("cannot {what} while a subtransaction is active"));
        }
        match &mut self.execution.door {
            Door::Chain(connection) => {
                let modes = chains.then(|| environment.settings.transaction_modes());
                connection.transaction.end_in_body(environment, commits)?;
                let mut modes = modes.into_iter().flatten();
                modes.try_for_each(|(name, value)| environment.settings.set(name, Some(&value), true, true))
            }
            Door::Attempt(_) => {
                environment.routines.wants_chain = true;
                refused("the body is retried as a chain of transactions".to_string())
            }
        }
    }

    /// Assigns a declared variable its first value.
    pub(super) fn initialize(&mut self, slot: usize) -> Result<()> {
        if let Some(default) = &self.program.variables[slot].default {
            let (value, ty) = self.evaluate(default)?;
            return self.assign_variable(slot, value, ty);
        }
        self.clear(slot);
        let domain = match &self.program.variables[slot].kind {
            VariableKind::Value { domain, .. } => *domain,
            VariableKind::Row(Some(row_type)) => row_type.domain,
            _ => None,
        };
        as_domain(self.execution, domain, Value::Null)?;
        Ok(())
    }

    /// Assigns a variable the value that it has without a default.
    pub(super) fn clear(&mut self, slot: usize) {
        self.values[slot] = match &self.program.variables[slot].kind {
            VariableKind::Row(Some(row)) => row.empty.clone(),
            _ => Value::Null,
        };
    }

    pub(super) fn statements(&mut self, statements: &'a [Statement]) -> Result<Flow> {
        for statement in statements {
            self.at = (statement.line, statement.kind.name());
            match crate::stack::grow(|| self.statement(&statement.kind))? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, kind: &'a Kind) -> Result<Flow> {
        match kind {
            Kind::Block(block) => {
                return match self.block(block)? {
                    Flow::Leave { is_continue: false, label: Some(label) }
                        if block.label.as_ref() == Some(&label) =>
                    {
                        Ok(Flow::Next)
                    }
                    flow => Ok(flow),
                };
            }
            Kind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.holds(condition)? {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            Kind::Case { operand, arms, otherwise } => {
                return self.case(operand.as_ref(), arms, otherwise.as_deref());
            }
            Kind::Exit { is_continue, label, condition } => {
                let leaves = match condition {
                    Some(condition) => self.holds(condition)?,
                    None => true,
                };
                if leaves {
                    return Ok(Flow::Leave { is_continue: *is_continue, label: label.clone() });
                }
            }
            Kind::Return(value) => {
                self.return_value(value.as_ref())?;
                return Ok(Flow::Return);
            }
            Kind::Loop { .. }
            | Kind::ForInteger(_)
            | Kind::ForRows { .. }
            | Kind::ForCursor { .. }
            | Kind::Foreach { .. } => return self.any_loop(kind),
            _ => self.plain_statement(kind)?,
        }
        Ok(Flow::Next)
    }

    fn plain_statement(&mut self, kind: &'a Kind) -> Result<()> {
        match kind {
            Kind::Assign { target, value } => {
                let subscripts = self.subscripts(target)?;
                let (value, ty) = self.evaluate(value)?;
                self.assign_at(target, &subscripts, value, ty)
            }
            Kind::ReturnNext(value) => self.return_next(value.as_ref()),
            Kind::ReturnQuery(source) => self.return_query(source),
            Kind::Raise(raise) => self.raise(raise),
            Kind::Assert { condition, message } => self.assert(condition, message.as_ref()),
            Kind::Run { query, into } => self.run_query(query, into.as_ref()),
            Kind::Call { query, targets } => self.call(query, targets),
            Kind::Perform(query) => self.perform(query),
            Kind::Execute { source, into } => self.execute(source, into.as_ref()),
            Kind::Diagnostics { is_stacked, items } => self.diagnostics(*is_stacked, items),
            Kind::Open { cursor, source, arguments } => self.open(*cursor, source.as_ref(), arguments),
            Kind::Fetch { cursor, direction, into } => self.fetch(*cursor, direction, into.as_ref()),
            Kind::Close(cursor) => self.close(*cursor),
            Kind::EndTransaction { name, chains } => self.end_transaction(name, *chains),
            _ => Ok(()),
        }
    }

    fn case(
        &mut self,
        operand: Option<&'a (usize, Fragment)>,
        arms: &'a [(Fragment, Vec<Statement>)],
        otherwise: Option<&'a [Statement]>,
    ) -> Result<Flow> {
        if let Some((slot, value)) = operand {
            let (value, kind) = self.evaluate(value)?;
            let fields: Arc<[RecordField]> = Arc::from([RecordField { name: "value".into(), kind }]);
            self.values[*slot] = record(&fields, vec![value]);
        }
        for (condition, body) in arms {
            if self.holds(condition)? {
                return self.statements(body);
            }
        }
        match otherwise {
            Some(body) => self.statements(body),
            None => Err(SqlError::new(SqlState::CASE_NOT_FOUND, "case not found")
                .with_hint("CASE statement is missing ELSE part.")),
        }
    }

    /// The value of an expression, and its type.
    pub(super) fn evaluate(&mut self, fragment: &Fragment) -> Result<(Value, Type)> {
        let view = View {
            program: self.program,
            values: &self.values,
            scope: fragment.scope,
            absent: self.absent.as_ref(),
        };
        fragment.query.evaluate(self.execution, &view)
    }

    /// The value of an expression as one of a type.
    pub(super) fn evaluate_as(&mut self, fragment: &Fragment, ty: Type) -> Result<Value> {
        let (value, from) = self.evaluate(fragment)?;
        convert(self.execution.environment, value, from, ty, Modifier::NONE)
    }

    /// Returns true if a condition is true.
    pub(super) fn holds(&mut self, fragment: &Fragment) -> Result<bool> {
        Ok(matches!(self.evaluate_as(fragment, Type::Bool)?, Value::Bool(true)))
    }

    pub(super) fn set_found(&mut self, found: bool) {
        self.values[self.program.found] = Value::Bool(found);
    }

    /// Ends the statement if it was canceled or takes too long.
    pub(super) fn check_interrupt(&mut self) -> Result<()> {
        self.execution.environment.check_interrupt()
    }
}
