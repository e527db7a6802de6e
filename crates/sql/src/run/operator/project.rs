//! Operators without state of their own: rows of expressions, filters, projections, and inputs one after the other.

use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::Plan;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::operator::{KeyFilter, Operator, Running, operator};

/// Rows of expressions.
pub(crate) struct ValueRows<'e> {
    rows: &'e [Vec<Expr>],
    width: usize,
    /// The limit of rows in the next batch.
    most: usize,
}

impl<'e> ValueRows<'e> {
    pub(crate) fn new(rows: &'e [Vec<Expr>], width: usize) -> ValueRows<'e> {
        ValueRows { rows, width, most: BATCH_ROWS }
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
            if batch.len() >= self.most || batch.is_full() {
                break;
            }
        }
        self.most = BATCH_ROWS;
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn expect_few(&mut self, rows: usize) {
        self.most = self.most.min(rows.max(1));
    }
}

/// Rows for which a condition holds.
pub(crate) struct Filter<'e> {
    pub(crate) input: Running<'e>,
    pub(crate) condition: &'e Expr,
}

impl<'e> Operator<'e> for Filter<'e> {
    fn drop_unmatched(&mut self, filter: KeyFilter<'e>) {
        self.input.drop_unmatched(filter);
    }

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

    fn expect_few(&mut self, rows: usize) {
        self.input.expect_few(rows);
    }
}

/// Computed rows.
pub(crate) struct Project<'e> {
    input: Running<'e>,
    expressions: &'e [Expr],
    /// The expressions that are computed.
    computed: Vec<usize>,
    /// The expressions that are slots, with the slot, and true if no later one is the same: its value is moved then.
    moved: Vec<(usize, usize, bool)>,
    /// The batch that is being projected, and how far.
    current: Option<(Batch, usize)>,
    /// The limit of rows in the next batch.
    most: usize,
}

impl<'e> Project<'e> {
    pub(crate) fn new(input: Running<'e>, expressions: &'e [Expr]) -> Project<'e> {
        let slot_of = |expression: &Expr| match expression {
            Expr::Slot(slot) => Some(*slot),
            _ => None,
        };
        let is_computed = |at: &usize| slot_of(&expressions[*at]).is_none();
        let moved = expressions.iter().enumerate().filter_map(|(at, expression)| {
            let slot = slot_of(expression)?;
            let is_last = !expressions[at + 1..].iter().any(|later| slot_of(later) == Some(slot));
            Some((at, slot, is_last))
        });
        let (moved, computed) = (moved.collect(), (0..expressions.len()).filter(is_computed).collect());
        Project { input, expressions, computed, moved, current: None, most: BATCH_ROWS }
    }
}

impl<'e> Operator<'e> for Project<'e> {
    fn drop_unmatched(&mut self, filter: KeyFilter<'e>) {
        let slot = |slot: &usize| match self.expressions.get(*slot) {
            Some(Expr::Slot(below)) => Some(*below),
            _ => None,
        };
        let slots: Option<Vec<usize>> = filter.slots.iter().map(slot).collect();
        // What is computed may fail, and must: rows are left out where nothing is.
        if let (Some(slots), true) = (slots, self.computed.is_empty()) {
            self.input.drop_unmatched(filter.with_slots(slots));
        }
    }

    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let (mut batch, mut position) = match self.current.take() {
            Some(current) => current,
            None => match self.input.next(run)? {
                Some(batch) => (batch, 0),
                None => return Ok(None),
            },
        };
        let mut result = Batch::with_capacity(self.expressions.len(), batch.len() - position);
        // What is computed may be wider than what is read.
        while position < batch.len() && !result.is_full() && result.len() < self.most {
            let values = result.push_nulls();
            let row = batch.row_mut(position);
            for &at in &self.computed {
                values[at] = run.evaluate(&self.expressions[at], row)?;
            }
            for &(at, slot, is_last) in &self.moved {
                values[at] = if is_last { std::mem::take(&mut row[slot]) } else { row[slot].clone() };
            }
            position += 1;
        }
        if position < batch.len() {
            self.current = Some((batch, position));
        }
        self.most = BATCH_ROWS;
        Ok(Some(result))
    }

    fn expect_few(&mut self, rows: usize) {
        self.most = self.most.min(rows.max(1));
        self.input.expect_few(rows);
    }
}

/// The rows of all inputs, one input after the other.
pub(crate) struct Append<'e> {
    inputs: std::slice::Iter<'e, Plan>,
    current: Option<Running<'e>>,
    /// The number of rows that may be wanted of the next input.
    most: Option<usize>,
}

impl<'e> Append<'e> {
    pub(crate) fn new(inputs: &'e [Plan]) -> Append<'e> {
        Append { inputs: inputs.iter(), current: None, most: None }
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
            let mut input = operator(input, run)?;
            if let Some(most) = self.most.take() {
                input.expect_few(most);
            }
            self.current = Some(input);
        }
    }

    fn expect_few(&mut self, rows: usize) {
        self.most = Some(rows);
        if let Some(current) = &mut self.current {
            current.expect_few(rows);
        }
    }
}
