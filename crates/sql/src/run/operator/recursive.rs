//! Common table expressions: evaluated once and kept, and `WITH RECURSIVE`.
//!
//! # Invariants
//! - A kept expression is evaluated batch by batch, as far as the reference that is ahead asks for rows, and again only
//!   when the query that defines it retries.

use std::rc::Rc;

use crate::error::Result;
use crate::plan::node::RecursiveNode;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::distinct::RowSet;
use crate::run::operator::{Operator, Running, operator};

/// Gives kept batches.
pub(crate) struct Kept {
    batches: Rc<Vec<Batch>>,
    given: usize,
}

impl Kept {
    pub(crate) fn new(batches: Rc<Vec<Batch>>) -> Kept {
        Kept { batches, given: 0 }
    }
}

impl<'e> Operator<'e> for Kept {
    fn next(&mut self, _run: &mut Run<'e>) -> Result<Option<Batch>> {
        let batch = self.batches.get(self.given).cloned();
        self.given += 1;
        Ok(batch)
    }
}

/// A reference to a common table expression.
pub(crate) struct CteRows {
    number: usize,
    given: usize,
}

impl CteRows {
    pub(crate) fn new(number: usize) -> CteRows {
        CteRows { number, given: 0 }
    }
}

impl<'e> Operator<'e> for CteRows {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let batch = run.cte_batch(self.number, self.given)?;
        self.given += 1;
        Ok(batch)
    }
}

/// `WITH RECURSIVE`.
pub(crate) struct Recursion<'e> {
    node: &'e RecursiveNode,
    round: Option<Running<'e>>,
    /// What the round under way has added.
    added: Vec<Batch>,
    held: Held,
    seen: Option<RowSet>,
}

impl<'e> Recursion<'e> {
    pub(crate) fn new(node: &'e RecursiveNode, first: Running<'e>) -> Recursion<'e> {
        let width = node.first.width;
        let seen = node.distinct.then(|| RowSet::new(width, (0..width).collect()));
        Recursion { node, round: Some(first), added: Vec::new(), held: Held::default(), seen }
    }
}

impl<'e> Operator<'e> for Recursion<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        loop {
            run.check_interrupt()?;
            let Some(round) = &mut self.round else { return Ok(None) };
            if let Some(mut batch) = round.next(run)? {
                if let Some(seen) = &mut self.seen {
                    batch.retain(|row| seen.add(run, row))?;
                }
                if batch.is_empty() {
                    continue;
                }
                self.held.charge(&mut run.memory, batch.rows().map(row_bytes).sum())?;
                self.added.push(batch.clone());
                return Ok(Some(batch));
            }
            let (added, held) = (std::mem::take(&mut self.added), std::mem::take(&mut self.held));
            if added.is_empty() {
                self.round = None;
                // No round reads the last one's rows.
                run.set_work_table(self.node.work_table, added, held);
                return Ok(None);
            }
            run.set_work_table(self.node.work_table, added, held);
            self.round = Some(operator(&self.node.again, run)?);
        }
    }
}
