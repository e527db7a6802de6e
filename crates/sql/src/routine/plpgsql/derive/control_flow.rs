//! Branches and loops: sides that the arguments do not decide are all walked, and what they assign is not of the arguments
//! alone behind them.

use std::collections::BTreeSet;

use super::Walk;
use crate::error::{Result, SqlError};
use crate::routine::footprint::collect::{KEYS_MAX, Origin};
use crate::routine::plpgsql::assigned::{assigned, slots_of};
use crate::routine::plpgsql::interpret::View;
use crate::routine::plpgsql::tree::{ForInteger, Fragment, Into, Source, Statement, Target};
use crate::types::{Type, Value};

impl<'a> Walk<'a, '_, '_> {
    /// Walks the side that the arguments decide; all sides, where they decide none.
    pub(super) fn branches(
        &mut self,
        arms: &'a [(Fragment, Vec<Statement>)],
        otherwise: &'a [Statement],
    ) -> Result<()> {
        let mut origin = Origin::ARGUMENTS;
        let mut sides: Vec<&'a [Statement]> = Vec::new();
        let mut is_decided = false;
        for (condition, body) in arms {
            origin = origin.and(self.expression(condition)?);
            if !self.is_computed(&origin) {
                sides.push(body);
            } else if self.body.holds(condition)? {
                sides.push(body);
                is_decided = true;
                break;
            }
        }
        if !is_decided {
            sides.push(otherwise);
        }
        match (&sides[..], self.is_computed(&origin)) {
            ([side], true) => self.statements(side),
            _ => self.all_sides(&sides, origin),
        }
    }

    /// Walks sides of which one is taken, each from the same start.
    fn all_sides(&mut self, sides: &[&'a [Statement]], condition: Origin) -> Result<()> {
        let outer = self.enter_condition(condition.level);
        let (values, origins) = (self.body.values.clone(), self.origins.clone());
        let mut merged = origins.clone();
        // Row variables that a side assigns keep the fields that they have behind it.
        let mut rows = Vec::new();
        for side in sides {
            self.statements(side)?;
            let slots = self.assigned(side);
            let is_new = |slot: &usize| !matches!(values[*slot], Value::Record(_));
            let given = |slot: usize| match &self.body.values[slot] {
                row @ Value::Record(_) => Some((slot, row.clone())),
                _ => None,
            };
            rows.extend(slots.into_iter().filter(is_new).filter_map(given));
            merged.merge(&self.origins);
            self.body.values.clone_from(&values);
            self.origins.clone_from(&origins);
        }
        self.origins = merged;
        self.control = outer;
        if !condition.is_known() {
            let slots = sides.iter().flat_map(|side| self.assigned(side)).collect();
            let what = "a condition that the arguments do not decide";
            self.spoil_from(&slots, Origin::open(condition.level, what));
        }
        for (slot, row) in rows {
            self.body.values[slot] = row;
        }
        Ok(())
    }

    pub(super) fn enter_condition(&mut self, level: u32) -> u32 {
        let outer = self.control;
        self.control = outer.max(level);
        outer
    }

    /// The body of a loop, once.
    pub(super) fn rounds(&mut self, level: u32, body: &'a [Statement]) -> Result<()> {
        let slots = self.assigned(body);
        self.spoil(&slots, "a loop");
        let outer = self.enter_condition(level);
        self.loops += 1;
        self.statements(body)?;
        self.loops -= 1;
        self.control = outer;
        self.spoil(&slots, "a loop");
        Ok(())
    }

    pub(super) fn for_integer(&mut self, integer: &'a ForInteger) -> Result<()> {
        let mut origin = self.expression(&integer.from)?.and(self.expression(&integer.to)?);
        if let Some(step) = &integer.step {
            origin = origin.and(self.expression(step)?);
        }
        self.origins.set(integer.slot, origin.clone());
        if !self.is_computed(&origin) {
            return self.rounds(origin.level, &integer.body);
        }
        let mut bound = |fragment| match self.body.evaluate_as(fragment, Type::Int4)? {
            Value::Int4(value) => Ok(i64::from(value)),
            _ => Err(SqlError::internal("a bound of a loop is null")),
        };
        let (from, to) = (bound(&integer.from)?, bound(&integer.to)?);
        let step = integer.step.as_ref().map_or(Ok(1), &mut bound)?.max(1);
        let (low, high) = if integer.is_reverse { (to, from) } else { (from, to) };
        if (high - low) / step >= KEYS_MAX as i64 {
            return Err(SqlError::internal("a loop has too many rounds"));
        }
        let mut value = from;
        while (low..=high).contains(&value) {
            self.body.values[integer.slot] = Value::Int4(value as i32);
            self.rounds(0, &integer.body)?;
            value += if integer.is_reverse { -step } else { step };
        }
        Ok(())
    }

    pub(super) fn foreach(
        &mut self,
        target: &'a Target,
        slice: usize,
        array: &'a Fragment,
        body: &'a [Statement],
    ) -> Result<()> {
        let mut origin = self.expression(array)?;
        if slice > 0 || target.field.is_some() || !target.subscripts.is_empty() {
            origin = origin.and(Origin::open(1, "FOREACH over parts of an array"));
        }
        self.origins.set(target.slot, origin.clone());
        if !self.is_computed(&origin) {
            return self.rounds(origin.level, body);
        }
        let (value, ty) = self.body.evaluate(array)?;
        let (Value::Array(array), Some(element)) = (value, ty.element()) else {
            return Err(SqlError::internal("FOREACH over no array"));
        };
        if array.values.len() > KEYS_MAX {
            return Err(SqlError::internal("a loop has too many rounds"));
        }
        for value in array.values.iter() {
            self.body.assign(target, value.clone(), element)?;
            self.rounds(0, body)?;
        }
        Ok(())
    }

    pub(super) fn for_rows(
        &mut self,
        into: &'a Into,
        source: &'a Source,
        body: &'a [Statement],
    ) -> Result<()> {
        let Source::Query(query) = source else {
            return self.gap("EXECUTE makes its statement when it runs");
        };
        let (plan, origin) = self.collect(query)?;
        let origin =
            origin.and(Origin::open(self.collector.phases, &format!("the rows of line {}", self.line)));
        if let Some(plan) = plan {
            self.put_row(into, &plan, &origin);
        }
        self.rounds(origin.level.max(1), body)
    }

    /// The variables that statements assign.
    pub(super) fn assigned(&mut self, statements: &[Statement]) -> BTreeSet<usize> {
        assigned(statements, &mut |query, targets| self.outputs(query, targets))
    }

    /// The variables that a CALL assigns: those that it passes as output arguments.
    pub(super) fn outputs(&mut self, query: &Fragment, targets: &[Option<Target>]) -> BTreeSet<usize> {
        let view = View {
            program: self.body.program,
            values: &self.body.values,
            scope: query.scope,
            absent: self.body.absent.as_ref(),
        };
        match query.query.plan(self.body.execution.environment, &view) {
            Ok(plan) => slots_of(plan.outputs.iter().filter_map(|&at| targets.get(at)?.as_ref())),
            // It is not derived.
            Err(_) => slots_of(targets.iter().flatten()),
        }
    }

    pub(super) fn spoil(&mut self, slots: &BTreeSet<usize>, what: &str) {
        self.spoil_from(slots, Origin::open(self.collector.phases.max(1), what));
    }

    /// The variables are not of the arguments alone any more.
    fn spoil_from(&mut self, slots: &BTreeSet<usize>, origin: Origin) {
        for &slot in slots {
            self.origins.spoil(slot, &origin);
        }
    }
}
