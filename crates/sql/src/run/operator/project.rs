//! Operators without state of their own: rows of expressions, filters, projections, and inputs one after the other.

use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::Plan;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::{Operator, Running, operator};

/// Rows of expressions.
pub(crate) struct ValueRows<'e> {
    rows: &'e [Vec<Expr>],
    width: usize,
}

impl<'e> ValueRows<'e> {
    pub(crate) fn new(rows: &'e [Vec<Expr>], width: usize) -> ValueRows<'e> {
        ValueRows { rows, width }
    }
}

impl<'e> Operator<'e> for ValueRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut batch = Batch::new(self.width);
        while let Some((row, rest)) = self.rows.split_first() {
            let values = batch.push_nulls();
            for (value, expression) in values.iter_mut().zip(row) {
                *value = run.evaluate(expression, &[])?;
            }
            self.rows = rest;
            if batch.is_full() {
                break;
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// Rows for which a condition holds.
pub(crate) struct Filter<'e> {
    pub(crate) input: Running<'e>,
    pub(crate) condition: &'e Expr,
}

impl<'e> Operator<'e> for Filter<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        while let Some(mut batch) = self.input.next(run)? {
            batch.retain(|row| run.holds(self.condition, row))?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
            run.check_interrupt()?;
        }
        Ok(None)
    }
}

/// Computed rows.
pub(crate) struct Project<'e> {
    pub(crate) input: Running<'e>,
    pub(crate) expressions: &'e [Expr],
}

impl<'e> Operator<'e> for Project<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let Some(batch) = self.input.next(run)? else { return Ok(None) };
        let mut result = Batch::with_capacity(self.expressions.len(), batch.len());
        for row in batch.rows() {
            let values = result.push_nulls();
            for (value, expression) in values.iter_mut().zip(self.expressions) {
                *value = run.evaluate(expression, row)?;
            }
        }
        Ok(Some(result))
    }
}

/// The rows of all inputs, one input after the other.
pub(crate) struct Append<'e> {
    inputs: std::slice::Iter<'e, Plan>,
    current: Option<Running<'e>>,
}

impl<'e> Append<'e> {
    pub(crate) fn new(inputs: &'e [Plan]) -> Append<'e> {
        Append { inputs: inputs.iter(), current: None }
    }
}

impl<'e> Operator<'e> for Append<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(batch) = current.next(run)? {
                    return Ok(Some(batch));
                }
                self.current = None;
            }
            let Some(input) = self.inputs.next() else { return Ok(None) };
            self.current = Some(operator(input, run)?);
        }
    }
}
