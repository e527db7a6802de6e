//! Walks a body without running it, for its footprint.
//!
//! # Invariants
//! - A variable that is assigned in a loop, or under a condition that the arguments do not decide, is not of the arguments alone
//!   behind it.
//! - Jumps are not followed: statements behind RETURN or EXIT are declared, too.

mod control_flow;

use crate::access;
use crate::bind::VariableRef;
use crate::error::Result;
use crate::routine::footprint::Start;
use crate::routine::footprint::collect::{Collector, Origin, Site};
use crate::routine::plpgsql::assigned::slots_of;
use crate::routine::plpgsql::interpret::{Interpreter, View};
use crate::routine::plpgsql::origins::Origins;
use crate::routine::plpgsql::tree::{Block, Fragment, Into, Kind, Program, Raise, Source, Statement, Target};
use crate::routine::query::{Door, Execution, QueryPlan};
use crate::routine::value::record;
use crate::types::record::RecordField;
use crate::types::{Type, Value};

/// Collects what a call with these arguments reads and writes.
///
/// # Errors
/// Of a call: something that the arguments tell cannot be computed.
pub(crate) fn derive(
    program: &Program,
    execution: &mut Execution<'_>,
    routine: &crate::catalog::Routine,
    start: &Start<'_>,
    collector: &mut Collector,
) -> Result<()> {
    let mut body = Interpreter::new(execution, program, routine);
    let mut origins = Origins::new(program.variables.len());
    body.set_arguments(start.arguments);
    for (slot, origin) in program.inputs.iter().zip(start.origins) {
        origins.set(*slot, origin.clone());
    }
    body.absent = start.absent.clone();
    for (name, value, origin) in start.variables {
        if let Some((_, slot)) = program.scopes[0].names.iter().find(|(known, _)| known == name) {
            body.values[*slot] = value.clone();
            origins.give(*slot, origin);
        }
    }
    origins.set(program.found, Origin::open(1, "FOUND"));
    let (control, loops) = (start.control, u32::from(start.is_repeated));
    let mut walk = Walk { body, origins, collector, line: 1, control, loops };
    walk.block(&program.block)
}

struct Walk<'a, 'b, 'c> {
    /// The variables, with the values that follow from the arguments and the fields of the rows.
    body: Interpreter<'a, 'b>,
    origins: Origins,
    collector: &'c mut Collector,
    line: u32,
    /// The level of the conditions around.
    control: u32,
    /// The number of loops around the statement.
    loops: u32,
}

impl<'a> Walk<'a, '_, '_> {
    fn block(&mut self, block: &'a Block) -> Result<()> {
        for &slot in &block.declared {
            self.declared(slot)?;
        }
        if block.error_variables.is_none() {
            return self.statements(&block.body);
        }
        self.collector.protected += 1;
        let done = self.statements(&block.body);
        self.collector.protected -= 1;
        done?;
        // Behind an error, the variables have the values that they had where it occurred.
        let mut slots = self.assigned(&block.body);
        block.handlers.iter().for_each(|handler| slots.append(&mut self.assigned(&handler.body)));
        slots.extend(block.error_variables.iter().flat_map(|(state, message)| [*state, *message]));
        self.spoil(&slots, "a block with EXCEPTION");
        let control = self.enter_condition(self.collector.phases.max(1));
        for handler in &block.handlers {
            self.statements(&handler.body)?;
        }
        self.control = control;
        self.spoil(&slots, "a block with EXCEPTION");
        Ok(())
    }

    fn declared(&mut self, slot: usize) -> Result<()> {
        let origin = match &self.body.program.variables[slot].default {
            Some(default) => self.expression(default)?,
            None => Origin::default(),
        };
        // Without its default a row variable has its fields.
        if self.is_computed(&origin) {
            self.body.initialize(slot)?;
        } else {
            self.body.clear(slot);
        }
        self.origins.set(slot, origin);
        Ok(())
    }

    fn statements(&mut self, statements: &'a [Statement]) -> Result<()> {
        for statement in statements {
            self.line = statement.line;
            crate::stack::grow(|| self.statement(&statement.kind))?;
        }
        Ok(())
    }

    fn statement(&mut self, kind: &'a Kind) -> Result<()> {
        match kind {
            Kind::Block(block) => self.block(block),
            Kind::Assign { target, value } => self.assign(target, value),
            Kind::If { arms, otherwise } => self.branches(arms, otherwise),
            Kind::Case { operand, arms, otherwise } => {
                if let Some((slot, operand)) = operand {
                    self.operand(*slot, operand)?;
                }
                self.branches(arms, otherwise.as_deref().unwrap_or_default())
            }
            Kind::Loop { condition, body, .. } => {
                let slots = self.assigned(body);
                self.spoil(&slots, "a loop");
                let level = match condition {
                    Some(condition) => self.expression(condition)?.level,
                    None => 0,
                };
                self.rounds(level, body)
            }
            Kind::ForInteger(integer) => self.for_integer(integer),
            Kind::Foreach { target, slice, array, body, .. } => self.foreach(target, *slice, array, body),
            Kind::ForRows { into, source, body, .. } => self.for_rows(into, source, body),
            Kind::Run { query, into } => self.run(query, into.as_ref()),
            _ => self.plain(kind),
        }
    }

    /// Statements that assign nothing, and those that are not looked into.
    fn plain(&mut self, kind: &'a Kind) -> Result<()> {
        match kind {
            Kind::Exit { condition, .. } => self.expressions(condition.iter()),
            Kind::Return(value) | Kind::ReturnNext(value) => {
                value.iter().for_each(|value| self.note_returned(value));
                self.expressions(value.iter())
            }
            Kind::ReturnQuery(Source::Query(query)) | Kind::Perform(query) => self.run(query, None),
            Kind::Assert { condition, message } => self.expressions([condition].into_iter().chain(message)),
            Kind::Raise(raise) => self.raise(raise),
            Kind::Call { query, targets } => {
                self.run(query, None)?;
                let slots = self.outputs(query, targets);
                self.spoil(&slots, "CALL");
                Ok(())
            }
            Kind::Diagnostics { items, .. } => {
                self.spoil(&slots_of(items.iter().map(|(target, _)| target)), "GET DIAGNOSTICS");
                Ok(())
            }
            Kind::Execute { into, .. } => {
                self.spoil(&slots_of(into.iter().flat_map(|into| &into.targets)), "EXECUTE");
                self.gap("EXECUTE makes its statement when it runs")
            }
            Kind::ReturnQuery(Source::Dynamic { .. }) => self.gap("EXECUTE makes its statement when it runs"),
            Kind::Open { .. } | Kind::Fetch { .. } | Kind::Close(_) | Kind::ForCursor { .. } => {
                self.gap("cursors are not looked into")
            }
            _ => Ok(()),
        }
    }

    fn gap(&mut self, reason: &str) -> Result<()> {
        self.collector.gap(self.line, reason);
        Ok(())
    }

    fn raise(&mut self, raise: &'a Raise) -> Result<()> {
        let options = raise.options.iter().map(|(_, value)| value);
        self.expressions(raise.arguments.iter().chain(options))
    }

    fn expressions(&mut self, fragments: impl Iterator<Item = &'a Fragment>) -> Result<()> {
        for fragment in fragments {
            self.expression(fragment)?;
        }
        Ok(())
    }

    /// Collects the reads of an expression, and returns the origin of its value.
    fn expression(&mut self, fragment: &'a Fragment) -> Result<Origin> {
        Ok(self.collect(fragment)?.1)
    }

    /// Plans a statement and collects its accesses.
    fn collect(&mut self, fragment: &'a Fragment) -> Result<(Option<std::sync::Arc<QueryPlan>>, Origin)> {
        let program = self.body.program;
        let view = View {
            program,
            values: &self.body.values,
            scope: fragment.scope,
            absent: self.body.absent.as_ref(),
        };
        let plan = match fragment.query.plan(self.body.execution.environment, &view) {
            Ok(plan) => plan,
            Err(error) => {
                self.collector.gap(self.line, error.message());
                return Ok((
                    None,
                    Origin::open(self.collector.phases + 1, "a statement that cannot be planned"),
                ));
            }
        };
        let origins = &self.origins;
        let site = Site {
            line: self.line,
            is_repeated: self.loops > 0,
            control: self.control,
            frame: &view,
            origin: &|variable: &VariableRef| origins.of(variable),
            name: &|variable: &VariableRef| view.name_of(variable),
        };
        let origin = self.collector.statement(&plan, &site, self.body.execution)?;
        self.collector.phases = self.collector.phases.max(origin.level);
        Ok((Some(plan), origin))
    }

    /// Returns true if the value of an expression of this origin is computed.
    fn is_computed(&self, origin: &Origin) -> bool {
        self.collector.is_of_call() && origin.is_known()
    }

    fn run(&mut self, query: &'a Fragment, into: Option<&'a Into>) -> Result<()> {
        let (plan, origin) = self.collect(query)?;
        let found = Origin::open(self.collector.phases.max(1), "FOUND");
        self.origins.set(self.body.program.found, found);
        if let (Some(into), Some(plan)) = (into, plan) {
            self.put_row(into, &plan, &origin);
            if self.is_computed(&origin) {
                self.look_up(query, into, &plan)?;
            }
        }
        Ok(())
    }

    /// Reads a row ahead, in a transaction of its own. The body reads it again: if it is another one by then, the call meets a
    /// key that it has not declared.
    fn look_up(&mut self, query: &'a Fragment, into: &'a Into, plan: &QueryPlan) -> Result<()> {
        let program = self.body.program;
        let environment = &mut *self.body.execution.environment;
        let database = environment.shared.database.clone();
        let view = View {
            program,
            values: &self.body.values,
            scope: query.scope,
            absent: self.body.absent.as_ref(),
        };
        let mut first = None;
        access::run(&database, |access| {
            first = None;
            let mut execution =
                Execution { environment: &mut *environment, door: Door::Attempt(access), may_write: false };
            plan.run(&mut execution, &view, &mut |row| {
                first = Some(row.to_vec());
                Ok(false)
            })
        })?;
        self.body.assign_row(into, plan, first.as_mut())
    }

    /// Assigns the fields of a statement's rows to the variables of a row.
    fn put_row(&mut self, into: &Into, plan: &QueryPlan, origin: &Origin) {
        // A NULL may not be assigned where none is allowed: only the fields matter here.
        let _ = self.body.assign_row(into, plan, None);
        for target in &into.targets {
            self.note_new(target);
            self.origins.set(target.slot, origin.clone());
        }
    }

    fn assign(&mut self, target: &'a Target, value: &'a Fragment) -> Result<()> {
        let mut origin = self.expression(value)?;
        for subscript in &target.subscripts {
            origin = origin.and(self.expression(subscript)?);
        }
        self.note_new(target);
        if !target.subscripts.is_empty() {
            origin = origin.and(self.origins.of_slot(target.slot));
        }
        if self.is_computed(&origin) {
            let (value, ty) = self.body.evaluate(value)?;
            self.body.assign(target, value, ty)?;
        }
        let field = target.field.as_ref().and_then(|name| self.field_of(target.slot, name));
        match field {
            Some(field) if self.origins.set_field(target.slot, field, &origin) => {}
            None if target.field.is_none() => self.origins.set(target.slot, origin),
            _ => self.origins.spoil(target.slot, &origin),
        }
        Ok(())
    }

    /// The place of a field of a row variable that has a row.
    fn field_of(&self, slot: usize, name: &str) -> Option<usize> {
        match &self.body.values[slot] {
            Value::Record(row) => row.fields.iter().position(|field| *field.name == *name),
            _ => None,
        }
    }

    /// Notes that something is assigned, if it is the row NEW of a trigger's function.
    fn note_new(&mut self, target: &Target) {
        let is_new = self.body.program.scopes[0]
            .names
            .iter()
            .any(|(name, slot)| name == "new" && *slot == target.slot);
        if is_new {
            match &target.field {
                Some(field) => self.collector.new_fields.names.push(field.clone()),
                None => self.collector.new_fields.is_replaced = true,
            }
        }
    }

    /// Notes that a row is returned, which may be another one than NEW.
    fn note_returned(&mut self, value: &Fragment) {
        if !["new", "old", "null"].iter().any(|row| value.query.text.eq_ignore_ascii_case(row)) {
            self.collector.new_fields.is_replaced = true;
        }
    }

    /// The operand of CASE, which the conditions name as the field of a row.
    fn operand(&mut self, slot: usize, operand: &'a Fragment) -> Result<()> {
        let (plan, origin) = self.collect(operand)?;
        let (value, kind) = match plan {
            Some(_) if self.is_computed(&origin) => self.body.evaluate(operand)?,
            Some(plan) => (Value::Null, plan.columns.first().map_or(Type::Text, |column| column.ty)),
            // The conditions are planned all the same.
            None => (Value::Null, Type::Text),
        };
        let fields = [RecordField { name: "value".into(), kind }].into();
        self.body.values[slot] = record(&fields, vec![value]);
        self.origins.set(slot, origin);
        Ok(())
    }
}
