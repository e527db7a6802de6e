//! Nested loops: each row of the left side with the right side's rows for which a condition holds.
//!
//! # Invariants
//! - A right side that sees nothing of the left is run once and kept; one that does (LATERAL) is run for each row, or once for
//!   equal values that it sees.
//! - A right side that is kept in memory is joined with the left side's rows one after the other. One of which a part is in a file is
//!   read once for as many rows of the left side as the memory has room for.

use std::ops::Range;

use crate::error::Result;
use crate::plan::node::{JoinKind, LoopNode};
use crate::run::Run;
use crate::run::batch::{BATCH_HEAP_BYTES, Batch};
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::kept_sides::KeptSides;
use crate::run::operator::{Operator, Running, operator};
use crate::run::spill::KeptRows;
use crate::run::subquery::is_spelled;
use crate::types::Value;

pub(crate) struct LoopJoin<'e> {
    node: &'e LoopNode,
    left: Running<'e>,
    /// The right side, if it is the same for all rows.
    kept: Option<KeptRows>,
    /// The right sides by what they saw, if they are kept.
    sides: Option<KeptSides>,
    /// The rows of the right side that have had a partner, if the join needs them.
    matched: Vec<bool>,
    probe: Option<Probe<'e>>,
    unmatched: Option<usize>,
    /// The memory of `matched` and of several rows of the left side.
    held: Held,
}

/// The state of the join.
struct Probe<'e> {
    batch: Batch,
    /// The rows of the batch that are being joined, and which of them have had a partner.
    rows: Range<usize>,
    found: Vec<bool>,
    /// The row that is being joined, and how far it has been joined with the right side's current batch.
    position: usize,
    right_position: usize,
    /// The number of the right side's current batch, if it is kept.
    right_batch: usize,
    /// A right side that sees the row, and its current batch.
    lateral: Option<(Running<'e>, Option<Batch>)>,
}

impl Probe<'_> {
    /// Advances to the next rows of the batch, at most this many; returns false if there are none.
    fn go_on(&mut self, most: usize) -> bool {
        self.rows = self.rows.end..self.batch.len().min(self.rows.end + most);
        self.found.clear();
        self.found.resize(self.rows.len(), false);
        (self.position, self.right_position, self.right_batch) = (self.rows.start, 0, 0);
        !self.rows.is_empty()
    }
}

impl<'e> LoopJoin<'e> {
    pub(crate) fn new(node: &'e LoopNode, left: Running<'e>) -> LoopJoin<'e> {
        let (matched, held) = (Vec::new(), Held::default());
        LoopJoin { node, left, kept: None, sides: None, matched, probe: None, unmatched: None, held }
    }

    fn width(&self) -> usize {
        self.node.left.width + if self.node.kind.shows_right() { self.node.right.width } else { 0 }
    }

    /// Runs the right side once.
    fn keep(&mut self, run: &mut Run<'e>) -> Result<()> {
        let mut right = operator(&self.node.right, run)?;
        let mut kept = KeptRows::in_half(&run.memory);
        while let Some(batch) = right.next(run)? {
            kept.push_batch(Some(&mut run.memory), batch)?;
        }
        if matches!(self.node.kind, JoinKind::Right | JoinKind::Full) {
            self.matched = vec![false; kept.len()];
            self.held.take(&mut run.memory, kept.len());
        }
        self.kept = Some(kept);
        Ok(())
    }

    /// Returns true if a part of the right side is in a file.
    fn reads_file(&self) -> bool {
        self.kept.as_ref().is_some_and(KeptRows::has_file)
    }

    /// The number of rows of the left side that are joined at a time.
    fn rows_at_a_time(&self) -> usize {
        if self.reads_file() { usize::MAX / 2 } else { 1 }
    }

    /// The next rows of the left side: as many as fit, where each reading of the right side reads a file.
    fn next_left(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let Some(mut batch) = self.left.next(run)? else { return Ok(None) };
        if self.reads_file() {
            self.held.shrink_to(self.matched.len());
            self.held.take(&mut run.memory, batch.rows().map(row_bytes).sum());
            while run.memory.admits(self.held.bytes(), BATCH_HEAP_BYTES) {
                let Some(next) = self.left.next(run)? else { break };
                self.held.take(&mut run.memory, next.rows().map(row_bytes).sum());
                batch.append(next);
            }
        }
        Ok(Some(batch))
    }

    fn holds(&self, run: &mut Run<'e>, left: &[Value], right: &[Value]) -> Result<bool> {
        let Some(condition) = &self.node.condition else { return Ok(true) };
        let mut joined = std::mem::take(&mut run.joined);
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        let holds = run.holds(condition, &joined);
        run.joined = joined;
        holds
    }

    /// Joins the current rows of the left side; false if the result is full before they are done.
    fn join_rows(&mut self, run: &mut Run<'e>, probe: &mut Probe<'e>, result: &mut Batch) -> Result<bool> {
        let mut kept = self.kept.take();
        let is_done = self.join_with(run, probe, kept.as_mut(), result);
        self.kept = kept;
        is_done
    }

    fn join_with(
        &mut self,
        run: &mut Run<'e>,
        probe: &mut Probe<'e>,
        mut kept: Option<&mut KeptRows>,
        result: &mut Batch,
    ) -> Result<bool> {
        let needs_all = self.node.kind.shows_right();
        while needs_all || probe.found.contains(&false) {
            let is_joined = match (&mut kept, probe.lateral.take()) {
                (Some(kept), _) if probe.right_batch < kept.batches() => {
                    let first = kept.first_of(probe.right_batch);
                    self.join_batch(run, probe, (kept.batch(probe.right_batch)?, first), result)?
                }
                (None, Some((mut right, batch))) => {
                    let next = if batch.is_some() { batch } else { right.next(run)? };
                    let Some(batch) = next else { return Ok(true) };
                    let is_joined = self.join_batch(run, probe, (&batch, 0), result)?;
                    probe.lateral = Some((right, (!is_joined).then_some(batch)));
                    is_joined
                }
                _ => return Ok(true),
            };
            if !is_joined {
                return Ok(false);
            }
            (probe.position, probe.right_position) = (probe.rows.start, 0);
            probe.right_batch += 1;
        }
        Ok(true)
    }

    /// Joins the current rows with a batch of the right side, whose first row has this number; false if the result is full
    /// before they are done.
    fn join_batch(
        &mut self,
        run: &mut Run<'e>,
        probe: &mut Probe<'e>,
        (right, first): (&Batch, usize),
        result: &mut Batch,
    ) -> Result<bool> {
        let needs_all = self.node.kind.shows_right();
        while probe.position < probe.rows.end {
            let at = probe.position - probe.rows.start;
            while probe.right_position < right.len() && (needs_all || !probe.found[at]) {
                if result.is_full() {
                    return Ok(false);
                }
                let (left, partner) = (probe.batch.row(probe.position), right.row(probe.right_position));
                probe.right_position += 1;
                if !self.holds(run, left, partner)? {
                    continue;
                }
                probe.found[at] = true;
                if needs_all {
                    result.push_joined(left, partner);
                }
                if let Some(matched) = self.matched.get_mut(first + probe.right_position - 1) {
                    *matched = true;
                }
            }
            probe.position += 1;
            probe.right_position = 0;
            run.check_interrupt()?;
        }
        Ok(true)
    }

    /// Adds the rows themselves, where the kind of the join asks for it.
    fn finish_rows(&self, probe: &Probe<'e>, result: &mut Batch) {
        for (position, &found) in probe.rows.clone().zip(&probe.found) {
            let row = probe.batch.row(position);
            match (self.node.kind, found) {
                (JoinKind::Semi, true) | (JoinKind::Anti, false) => result.push_row(row),
                (JoinKind::Left | JoinKind::Full, false) => {
                    result.push_nulls()[..row.len()].clone_from_slice(row);
                }
                _ => {}
            }
        }
    }

    /// Advances to the next rows of the left side's batch; returns false if there are none.
    fn start_rows(&mut self, run: &mut Run<'e>, probe: &mut Probe<'e>) -> Result<bool> {
        if !probe.go_on(self.rows_at_a_time()) {
            return Ok(false);
        }
        if self.node.bindings.is_empty() {
            return Ok(true);
        }
        let row = probe.batch.row(probe.position);
        let seen = self.node.bindings.iter().map(|binding| run.evaluate(&binding.value, row));
        let seen = seen.collect::<Result<Vec<Value>>>()?;
        probe.lateral = Some((self.right_side(run, seen)?, None));
        Ok(true)
    }

    /// The right side's rows for what it sees.
    fn right_side(&mut self, run: &mut Run<'e>, seen: Vec<Value>) -> Result<Running<'e>> {
        let keeps = self.node.keeps && !seen.iter().any(is_spelled);
        let sides = keeps.then(|| self.sides.get_or_insert_with(|| KeptSides::new(run)).clone());
        if let Some(kept) = sides.as_ref().and_then(|sides| sides.get(&seen)) {
            return Ok(kept);
        }
        for (binding, value) in self.node.bindings.iter().zip(&seen) {
            run.set_outer(binding.outer, value.clone());
        }
        let rows = operator(&self.node.right, run)?;
        Ok(match sides {
            Some(sides) => sides.keeping(run, seen, rows),
            None => rows,
        })
    }

    /// Rows of the right side that have had no partner.
    fn rest(&mut self, from: usize) -> Result<Option<Batch>> {
        let mut result = Batch::new(self.width());
        let Some(kept) = &mut self.kept else { return Ok(None) };
        let mut position = from;
        while position < kept.len() && !result.is_full() {
            if !self.matched[position] {
                result.push_nulls()[self.node.left.width..].clone_from_slice(kept.row(position)?);
            }
            position += 1;
        }
        self.unmatched = Some(position);
        Ok((!result.is_empty()).then_some(result))
    }
}

impl<'e> Operator<'e> for LoopJoin<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if self.node.bindings.is_empty() && self.kept.is_none() {
            self.keep(run)?;
        }
        if let Some(from) = self.unmatched {
            return self.rest(from);
        }
        let mut result = Batch::new(self.width());
        loop {
            let mut probe = match self.probe.take() {
                Some(probe) => probe,
                None => match self.next_left(run)? {
                    Some(batch) => {
                        let mut probe = Probe {
                            batch,
                            rows: 0..0,
                            found: Vec::new(),
                            position: 0,
                            right_position: 0,
                            right_batch: 0,
                            lateral: None,
                        };
                        self.start_rows(run, &mut probe)?;
                        probe
                    }
                    None if !result.is_empty() => return Ok(Some(result)),
                    None if matches!(self.node.kind, JoinKind::Right | JoinKind::Full) => {
                        self.unmatched = Some(0);
                        return self.rest(0);
                    }
                    None => {
                        self.kept = Some(KeptRows::of_operator());
                        self.held.clear();
                        return Ok(None);
                    }
                },
            };
            if !self.join_rows(run, &mut probe, &mut result)? {
                self.probe = Some(probe);
                return Ok(Some(result));
            }
            self.finish_rows(&probe, &mut result);
            if self.start_rows(run, &mut probe)? {
                self.probe = Some(probe);
            }
            if result.is_full() {
                return Ok(Some(result));
            }
            run.check_interrupt()?;
        }
    }
}
