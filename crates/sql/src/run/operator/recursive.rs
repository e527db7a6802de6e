//! Common table expressions: evaluated once and kept, and `WITH RECURSIVE`.
//!
//! # Invariants
//! - Kept rows are written to files beyond the memory limit.
//! - A kept expression is evaluated batch by batch, as far as the reference that is ahead asks for rows, and again only
//!   when the query that defines it retries.

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Result;
use crate::plan::node::RecursiveNode;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::{Operator, Running, operator};
use crate::run::spill::{KeptRows, KeptSet, ROWS_PARTS};

/// A reader of kept rows.
pub(crate) struct Kept {
    rows: Rc<RefCell<KeptRows>>,
    given: usize,
}

impl Kept {
    pub(crate) fn new(rows: Rc<RefCell<KeptRows>>) -> Kept {
        Kept { rows, given: 0 }
    }
}

impl<'e> Operator<'e> for Kept {
    fn next(&mut self, _run: &mut Run<'e>) -> Result<Option<Batch>> {
        let batch = self.rows.borrow_mut().rows_from(self.given)?;
        self.given += batch.as_ref().map_or(0, Batch::len);
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
        let batch = run.cte_rows(self.number, self.given)?;
        self.given += batch.as_ref().map_or(0, Batch::len);
        Ok(batch)
    }
}

/// `WITH RECURSIVE`.
pub(crate) struct Recursion<'e> {
    node: &'e RecursiveNode,
    round: Option<Running<'e>>,
    /// The rows that the round in progress has added; `None` before its first row.
    added: Option<KeptRows>,
    /// All rows so far, where equal ones are left out.
    seen: Option<KeptSet>,
}

impl<'e> Recursion<'e> {
    pub(crate) fn new(node: &'e RecursiveNode, first: Running<'e>) -> Recursion<'e> {
        Recursion { node, round: Some(first), added: None, seen: None }
    }
}

impl<'e> Operator<'e> for Recursion<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        loop {
            run.check_interrupt()?;
            let Some(round) = &mut self.round else { return Ok(None) };
            if let Some(mut batch) = round.next(run)? {
                if self.node.distinct {
                    let seen = self.seen.get_or_insert_with(|| KeptSet::new(batch.width(), &run.memory));
                    batch.retain(|row| seen.add(&mut run.memory, &run.hashing, row))?;
                }
                if batch.is_empty() {
                    continue;
                }
                let added = self.added.get_or_insert_with(|| KeptRows::in_part(&run.memory, ROWS_PARTS));
                added.push_batch(Some(&mut run.memory), batch.clone())?;
                return Ok(Some(batch));
            }
            // No round reads the last one's rows.
            self.round = None;
            let added = self.added.take();
            let is_last = added.is_none();
            run.set_work_table(self.node.work_table, added.unwrap_or_else(KeptRows::of_operator));
            if is_last {
                return Ok(None);
            }
            self.round = Some(operator(&self.node.again, run)?);
        }
    }
}
