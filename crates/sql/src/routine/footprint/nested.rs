//! The reads and writes of the routines that a statement calls, and of the functions of the triggers that it fires.
//!
//! # Invariants
//! - A body that leads to itself is not derived.
//! - An argument is known to the body that is called exactly where it is known to the caller.
//! - Triggers see the rows that the triggers before them leave: a field that one assigns is not known to the next.

use std::sync::Arc;

use crate::catalog::{Event, Language, Routine, Trigger, TriggerTime};
use crate::error::Result;
use crate::plan::expression::{Call, Expr};
use crate::plan::node::FunctionItem;
use crate::plan::statement::RowRules;
use crate::routine::call::check_callable;
use crate::routine::footprint::accesses::{Change, Row, row_functions};
use crate::routine::footprint::collect::{Collector, NewFields, Origin, Site, origin_of};
use crate::routine::footprint::expressions::calls_of;
use crate::routine::footprint::{RowOrigin, Start, walk};
use crate::routine::plpgsql::fields_of;
use crate::routine::query::{Execution, QueryPlan};
use crate::routine::trigger::{about, columns_of, row_of, rows_of};
use crate::types::Value;

/// The limit of calls and triggers inside of each other that are followed.
const DEPTH_MAX: usize = 16;

/// A call of a routine: its oid, and the expressions of its arguments, where a plan tells them.
pub(super) struct Located<'p> {
    routine: u32,
    arguments: Option<&'p [Expr]>,
}

/// The calls of routines in a statement.
pub(super) fn located(plan: &QueryPlan) -> Vec<Located<'_>> {
    let (mut calls, mut within) = (Vec::new(), Vec::new());
    within.extend(plan.expression());
    for function in row_functions(&plan.planned) {
        match function {
            FunctionItem::Scalar { value, .. } => within.push(value),
            FunctionItem::Set { call, .. } => {
                calls.extend(function.routine().and_then(|_| of(&call.arguments)));
                within.extend(&call.arguments);
            }
        }
    }
    for expression in within {
        calls_of(expression, &mut |call: &Call| calls.extend(of(&call.arguments)));
    }
    let is_same = |call: &Located<'_>, routine: &u32| call.routine == *routine;
    let is_all = calls.len() == plan.routines.len()
        && plan.routines.iter().all(|routine| calls.iter().any(|call| is_same(call, routine)));
    match is_all {
        true => calls,
        // Some stand among the rows of tables: their arguments are many.
        false => plan.routines.iter().map(|&routine| Located { routine, arguments: None }).collect(),
    }
}

/// The call with these arguments, of which the first is the routine.
fn of(arguments: &[Expr]) -> Option<Located<'_>> {
    let (oid, arguments) = arguments.split_first()?;
    Some(Located { routine: oid.as_constant()?.oid(), arguments: Some(arguments) })
}

impl Collector {
    /// Collects what the routines do that a statement calls.
    pub(super) fn calls(
        &mut self,
        plan: &QueryPlan,
        calls: &[Located<'_>],
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        for call in calls {
            let Some(routine) = execution.environment.catalog.routine_by_oid(call.routine).cloned() else {
                continue;
            };
            if routine.is_polymorphic() {
                self.gap(site.line, "a function whose types its calls decide");
                continue;
            }
            if self.is_of_call() {
                check_callable(execution.environment, &routine)?;
            }
            let (mut values, mut origins) = (Vec::new(), Vec::new());
            for argument in call.arguments.unwrap_or_default() {
                let origin = origin_of(plan, argument, site);
                let is_computed = self.is_of_call() && origin.is_known();
                values.push(match is_computed {
                    true => plan.evaluate_part(argument, execution, site.frame)?,
                    false => Value::Null,
                });
                origins.push(origin);
            }
            if call.arguments.is_none() {
                let unknown = Origin::open(site.control, "a column of another row of the statement");
                origins.resize(routine.arguments.len(), unknown);
            }
            let start = Start {
                arguments: &values,
                origins: &origins,
                control: site.control,
                is_repeated: site.is_repeated,
                ..Start::default()
            };
            let what = format!("{}()", routine.name);
            self.follow(&routine, &what, &start, site.line, execution)?;
        }
        Ok(())
    }

    /// Walks the body of a routine that the one around it leads to.
    fn follow(
        &mut self,
        routine: &Arc<Routine>,
        what: &str,
        start: &Start<'_>,
        line: u32,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        if routine.language == Language::C {
            // The code of extensions reads no table.
            return Ok(());
        }
        if self.around.iter().any(|(oid, _)| *oid == routine.oid) || self.around.len() >= DEPTH_MAX {
            self.gap(line, format!("{what} leads to itself"));
            return Ok(());
        }
        let outer = self.around.last().map(|(_, within)| within.clone()).unwrap_or_default();
        self.around.push((routine.oid, format!("{outer}line {line}: in {what}, ").into()));
        let walked = walk(execution.environment, routine, start, self);
        self.around.pop();
        match walked {
            Err(error) if !self.is_of_call() => {
                self.gap(line, format!("{what}: {}", error.message()));
                Ok(())
            }
            walked => walked,
        }
    }

    /// Collects what the triggers do that a change fires.
    pub(super) fn triggers(
        &mut self,
        plan: &QueryPlan,
        change: Change<'_>,
        phase: u32,
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let Change { rules, event, old, new, sets } = change;
        let mut old = old.map(|row| self.known_row(plan, rules, &row, site, execution)).transpose()?;
        let mut new = new.map(|row| self.known_row(plan, rules, &row, site, execution)).transpose()?;
        let is_set = |name: &str| sets.iter().any(|&column| rules.table.columns[column].name == *name);
        let order = [(TriggerTime::Before, false), (TriggerTime::Before, true), (TriggerTime::After, true)];
        for (time, for_each_row) in order.into_iter().chain([(TriggerTime::After, false)]) {
            let meant = rules.triggers.iter().filter(|trigger| {
                (trigger.time, trigger.for_each_row) == (time, for_each_row)
                    && trigger.fires_on(event, is_set)
            });
            for trigger in meant {
                let rows = if for_each_row { (old.as_mut(), new.as_mut()) } else { (None, None) };
                self.trigger((rules, trigger, event), rows, phase, site, execution)?;
            }
        }
        Ok(())
    }

    /// The values of a row's columns, and their origins.
    fn known_row(
        &self,
        plan: &QueryPlan,
        rules: &RowRules,
        row: &Row<'_>,
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<KnownRow> {
        let mut known = KnownRow::default();
        for value in &row[..rules.table.visible().len()] {
            let origin = match value {
                Some(value) => origin_of(plan, value, site),
                None => Origin::open(1, "a column of the row that is changed"),
            };
            known.values.push(match value {
                Some(value) if self.is_of_call() && origin.is_known() => {
                    plan.evaluate_part(value, execution, site.frame)?
                }
                _ => Value::Null,
            });
            known.origins.push(origin);
        }
        Ok(known)
    }

    fn trigger(
        &mut self,
        (rules, trigger, event): (&RowRules, &Trigger, Event),
        (old, new): (Option<&mut KnownRow>, Option<&mut KnownRow>),
        phase: u32,
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        if let Some(reason) = condition_gap(execution, rules, trigger)? {
            self.gap(site.line, reason);
            return Ok(());
        }
        let Some(routine) = execution.environment.catalog.routine_by_oid(trigger.function).cloned() else {
            return Ok(());
        };
        let fields = fields_of(&columns_of(&rules.table));
        let of_row = |row: &Option<&mut KnownRow>| match row {
            Some(row) => (row_of(&fields, Some(&row.values)), RowOrigin::Fields(row.origins.clone())),
            None => (Value::Null, RowOrigin::Value(Origin::ARGUMENTS)),
        };
        let mut variables = Vec::new();
        for (name, row) in [("old", &old), ("new", &new)] {
            let (value, origin) = of_row(row);
            variables.push((name, value, origin));
        }
        let about = about(trigger, &rules.table, event).into_iter();
        variables.extend(about.map(|(name, value)| (name, value, RowOrigin::Value(Origin::ARGUMENTS))));
        let start = Start {
            variables: &variables,
            absent: Some(fields.clone()),
            control: phase,
            is_repeated: site.is_repeated,
            ..Start::default()
        };
        self.new_fields = NewFields::default();
        self.follow(&routine, &format!("trigger {}", trigger.name), &start, site.line, execution)?;
        let assigned = std::mem::take(&mut self.new_fields);
        if let (Some(new), TriggerTime::Before, true) = (new, trigger.time, trigger.for_each_row) {
            self.assigned(rules, trigger, new, &assigned, site.line);
        }
        Ok(())
    }

    /// Notes that a trigger before a row has assigned some of its fields.
    fn assigned(
        &mut self,
        rules: &RowRules,
        trigger: &Trigger,
        new: &mut KnownRow,
        assigned: &NewFields,
        line: u32,
    ) {
        let table = &rules.table;
        let keyed = table.foreign_keys.iter().flat_map(|key| &key.columns).chain(&table.key);
        let keyed: Vec<usize> = keyed.copied().collect();
        for (at, origin) in new.origins.iter_mut().enumerate() {
            if assigned.is_replaced || assigned.names.contains(&table.columns[at].name) {
                *origin = Origin::open(1, &format!("what trigger {} assigns", trigger.name));
                if keyed.contains(&at) {
                    let column = &table.columns[at].name;
                    self.gap(line, format!("trigger {} may change the key column {column}", trigger.name));
                }
            }
        }
    }
}

/// A row as far as it is known in advance.
#[derive(Default)]
struct KnownRow {
    values: Vec<Value>,
    origins: Vec<Origin>,
}

/// The reason why a trigger's condition may read more than is declared, if it may.
fn condition_gap(
    execution: &mut Execution<'_>,
    rules: &RowRules,
    trigger: &Trigger,
) -> Result<Option<String>> {
    let Some(text) = &trigger.condition else { return Ok(None) };
    let environment = &mut *execution.environment;
    let query = environment.routines.condition(trigger.oid, text)?;
    let plan = query.plan(environment, &rows_of(&rules.table, None, None))?;
    Ok(match plan.routines.is_empty() {
        true => plan.undeclared.clone(),
        false => Some(format!("the condition of trigger {} calls a routine", trigger.name)),
    })
}
