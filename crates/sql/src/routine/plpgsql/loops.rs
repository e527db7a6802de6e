//! The loops of PL/pgSQL.
//!
//! # Invariants
//! - The rows of a loop's query are all read before its body runs: the body may write what the query reads.

use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::interpret::{Flow, Interpreter};
use crate::routine::plpgsql::queries::Several;
use crate::routine::plpgsql::tree::{ForInteger, Fragment, Kind, Statement, Target};
use crate::types::array::ArrayValue;
use crate::types::{Type, Value};

/// The continuation of a loop behind one round of its body.
enum Round {
    Again,
    /// The loop ends, and control continues there.
    Ends(Flow),
}

fn round(flow: Flow, label: Option<&String>) -> Round {
    match flow {
        Flow::Next => Round::Again,
        Flow::Leave { is_continue, label: of } if of.is_none() || of.as_ref() == label => match is_continue {
            true => Round::Again,
            false => Round::Ends(Flow::Next),
        },
        flow => Round::Ends(flow),
    }
}

impl<'a> Interpreter<'a, '_> {
    pub(super) fn any_loop(&mut self, kind: &'a Kind) -> Result<Flow> {
        match kind {
            Kind::Loop { label, condition, body } => {
                self.plain_loop(label.as_ref(), condition.as_ref(), body)
            }
            Kind::ForInteger(integer) => self.for_integer(integer),
            Kind::ForRows { label, into, source, body } => {
                let (plan, mut rows) = self.rows_of(source, Several::Refused)?;
                let count = rows.len();
                for number in 0..count {
                    let mut row = rows.row(number)?.to_vec();
                    self.assign_row(into, &plan, Some(&mut row))?;
                    if let Round::Ends(flow) = self.round(label.as_ref(), body)? {
                        self.set_found(true);
                        return Ok(flow);
                    }
                }
                self.set_found(count > 0);
                Ok(Flow::Next)
            }
            Kind::ForCursor { label, row, cursor, arguments, body } => {
                self.open(*cursor, None, arguments)?;
                let flow = self.cursor_rounds(label.as_ref(), *row, *cursor, body);
                self.cursors.remove(cursor);
                flow
            }
            Kind::Foreach { label, target, slice, array, body } => {
                self.foreach(label.as_ref(), target, *slice, array, body)
            }
            _ => Ok(Flow::Next),
        }
    }

    fn round(&mut self, label: Option<&String>, body: &'a [Statement]) -> Result<Round> {
        self.check_interrupt()?;
        Ok(round(self.statements(body)?, label))
    }

    fn plain_loop(
        &mut self,
        label: Option<&String>,
        condition: Option<&'a Fragment>,
        body: &'a [Statement],
    ) -> Result<Flow> {
        loop {
            if let Some(condition) = condition
                && !self.holds(condition)?
            {
                return Ok(Flow::Next);
            }
            if let Round::Ends(flow) = self.round(label, body)? {
                return Ok(flow);
            }
        }
    }

    fn bound(&mut self, fragment: &Fragment, what: &str) -> Result<i32> {
        match self.evaluate_as(fragment, Type::Int4)? {
            Value::Int4(value) => Ok(value),
            _ => {
                let message = format!("{what} of FOR loop cannot be null");
                Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
            }
        }
    }

    fn for_integer(&mut self, integer: &'a ForInteger) -> Result<Flow> {
        let from = self.bound(&integer.from, "lower bound")?;
        let to = self.bound(&integer.to, "upper bound")?;
        let step = match &integer.step {
            Some(step) => self.bound(step, "BY value")?,
            None => 1,
        };
        if step <= 0 {
            let message = "BY value of FOR loop must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let mut value = from;
        let mut found = false;
        loop {
            let is_within = if integer.is_reverse { value >= to } else { value <= to };
            if !is_within {
                break;
            }
            found = true;
            self.values[integer.slot] = Value::Int4(value);
            if let Round::Ends(flow) = self.round(integer.label.as_ref(), &integer.body)? {
                self.set_found(true);
                return Ok(flow);
            }
            let next = if integer.is_reverse { value.checked_sub(step) } else { value.checked_add(step) };
            match next {
                Some(next) => value = next,
                None => break,
            }
        }
        self.set_found(found);
        Ok(Flow::Next)
    }

    fn cursor_rounds(
        &mut self,
        label: Option<&String>,
        row: usize,
        cursor: usize,
        body: &'a [Statement],
    ) -> Result<Flow> {
        let mut found = false;
        while let Some(value) = self.next_of_cursor(cursor)? {
            found = true;
            self.values[row] = value;
            if let Round::Ends(flow) = self.round(label, body)? {
                self.set_found(true);
                return Ok(flow);
            }
        }
        self.set_found(found);
        Ok(Flow::Next)
    }

    fn foreach(
        &mut self,
        label: Option<&String>,
        target: &'a Target,
        slice: usize,
        array: &'a Fragment,
        body: &'a [Statement],
    ) -> Result<Flow> {
        let (value, ty) = self.evaluate(array)?;
        let Some(element) = ty.element() else {
            let name = self.execution.environment.catalog.type_display(ty);
            let message = format!("FOREACH expression must yield an array, not type {name}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        };
        let Value::Array(array) = value else {
            let message = "FOREACH expression must not be null";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        if slice > array.dimensions.len() {
            let message =
                format!("slice dimension ({slice}) is out of the valid range 0..{}", array.dimensions.len());
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        let items: Vec<(Value, Type)> = match slice {
            0 => array.values.iter().map(|value| (value.clone(), element)).collect(),
            _ => slices(&array, slice).into_iter().map(|value| (value, ty)).collect(),
        };
        let found = !items.is_empty();
        for (value, ty) in items {
            self.assign(target, value, ty)?;
            if let Round::Ends(flow) = self.round(label, body)? {
                self.set_found(true);
                return Ok(flow);
            }
        }
        self.set_found(found);
        Ok(Flow::Next)
    }
}

/// The parts of an array along its first dimensions, of this many dimensions each.
fn slices(array: &ArrayValue, slice: usize) -> Vec<Value> {
    let dimensions = array.dimensions[array.dimensions.len() - slice..].to_vec();
    let size = dimensions.iter().map(|it| it.length.max(0) as usize).product::<usize>().max(1);
    let part = |values: &[Value]| {
        Value::array(ArrayValue {
            element: array.element,
            dimensions: dimensions.clone(),
            values: values.to_vec(),
        })
    };
    array.values.chunks(size).map(part).collect()
}
