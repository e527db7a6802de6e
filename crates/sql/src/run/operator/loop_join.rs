//! Nested loops: each row of the left side with the right side's rows for which a condition holds.
//!
//! # Invariants
//! - A right side that sees nothing of the left is run once and kept; one that does (LATERAL) is run for each row, or once for
//!   equal values that it sees.

use crate::error::Result;
use crate::plan::node::{JoinKind, LoopNode};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::kept_sides::KeptSides;
use crate::run::operator::{Operator, Running, operator};
use crate::run::subquery::is_spelled;
use crate::types::Value;

pub(crate) struct LoopJoin<'e> {
    node: &'e LoopNode,
    left: Running<'e>,
    /// The right side, if it is the same for all rows.
    kept: Option<Batch>,
    /// The right sides by what they saw, if they are kept.
    sides: Option<KeptSides>,
    matched: Vec<bool>,
    probe: Option<Probe<'e>>,
    unmatched: Option<usize>,
    held: Held,
}

/// Where the join stands: in the left side's batch, and within the right side for its current row.
struct Probe<'e> {
    batch: Batch,
    position: usize,
    /// How far the row has been joined with the right side's current batch.
    right_position: usize,
    right: Option<(Running<'e>, Option<Batch>)>,
    found: bool,
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
        let mut kept = Batch::new(self.node.right.width);
        while let Some(batch) = right.next(run)? {
            self.held.charge(&mut run.memory, batch.rows().map(row_bytes).sum())?;
            kept.append(batch);
        }
        if matches!(self.node.kind, JoinKind::Right | JoinKind::Full) {
            self.matched = vec![false; kept.len()];
        }
        self.kept = Some(kept);
        Ok(())
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

    /// Joins the current row of the left side; false if the result is full before it is done.
    fn join_row(&mut self, run: &mut Run<'e>, probe: &mut Probe<'e>, result: &mut Batch) -> Result<bool> {
        loop {
            let kept = self.kept.take();
            let lateral = probe.right.as_mut().and_then(|(_, batch)| batch.take());
            let outcome = match (&kept, &lateral) {
                (Some(batch), _) | (None, Some(batch)) => self.join_batch(run, probe, batch, result),
                (None, None) => Ok(Joined::All),
            };
            self.kept = kept;
            match outcome? {
                Joined::Full => {
                    if let Some((_, batch)) = &mut probe.right {
                        *batch = lateral;
                    }
                    return Ok(false);
                }
                Joined::Enough => return Ok(true),
                Joined::All => {}
            }
            probe.right_position = 0;
            match &mut probe.right {
                Some((right, batch)) => match right.next(run)? {
                    Some(next) => *batch = Some(next),
                    None => return Ok(true),
                },
                None => return Ok(true),
            }
        }
    }

    fn join_batch(
        &mut self,
        run: &mut Run<'e>,
        probe: &mut Probe<'e>,
        right: &Batch,
        result: &mut Batch,
    ) -> Result<Joined> {
        while probe.right_position < right.len() {
            if result.is_full() {
                return Ok(Joined::Full);
            }
            let position = probe.right_position;
            probe.right_position += 1;
            let (left, partner) = (probe.batch.row(probe.position), right.row(position));
            if !self.holds(run, left, partner)? {
                continue;
            }
            probe.found = true;
            if !self.node.kind.shows_right() {
                return Ok(Joined::Enough);
            }
            result.push_joined(left, partner);
            if let Some(matched) = self.matched.get_mut(position) {
                *matched = true;
            }
        }
        Ok(Joined::All)
    }

    /// Adds the row itself, where the kind of the join asks for it.
    fn finish_row(&self, probe: &Probe<'e>, result: &mut Batch) {
        let row = probe.batch.row(probe.position);
        match (self.node.kind, probe.found) {
            (JoinKind::Semi, true) | (JoinKind::Anti, false) => result.push_row(row),
            (JoinKind::Left | JoinKind::Full, false) => {
                result.push_nulls()[..row.len()].clone_from_slice(row);
            }
            _ => {}
        }
    }

    /// Starts the right side for the current row.
    fn start_row(&mut self, run: &mut Run<'e>, probe: &mut Probe<'e>) -> Result<()> {
        (probe.right_position, probe.found) = (0, false);
        if self.node.bindings.is_empty() {
            return Ok(());
        }
        let row = probe.batch.row(probe.position);
        let seen = self.node.bindings.iter().map(|binding| run.evaluate(&binding.value, row));
        let seen = seen.collect::<Result<Vec<Value>>>()?;
        probe.right = Some((self.right_side(run, seen)?, None));
        Ok(())
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
    fn rest(&mut self, from: usize) -> Option<Batch> {
        let mut result = Batch::new(self.width());
        let kept = self.kept.as_ref()?;
        let mut position = from;
        while position < kept.len() && !result.is_full() {
            if !self.matched[position] {
                result.push_nulls()[self.node.left.width..].clone_from_slice(kept.row(position));
            }
            position += 1;
        }
        self.unmatched = Some(position);
        (!result.is_empty()).then_some(result)
    }
}

/// How far a row was joined with a batch.
enum Joined {
    /// With all of it.
    All,
    /// As far as the join needs.
    Enough,
    /// Until the result was full.
    Full,
}

impl<'e> Operator<'e> for LoopJoin<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if self.node.bindings.is_empty() && self.kept.is_none() {
            self.keep(run)?;
        }
        if let Some(from) = self.unmatched {
            return Ok(self.rest(from));
        }
        let mut result = Batch::new(self.width());
        loop {
            let mut probe = match self.probe.take() {
                Some(probe) => probe,
                None => match self.left.next(run)? {
                    Some(batch) => {
                        let mut probe =
                            Probe { batch, position: 0, right_position: 0, right: None, found: false };
                        self.start_row(run, &mut probe)?;
                        probe
                    }
                    None if !result.is_empty() => return Ok(Some(result)),
                    None if matches!(self.node.kind, JoinKind::Right | JoinKind::Full) => {
                        self.unmatched = Some(0);
                        return Ok(self.rest(0));
                    }
                    None => {
                        self.kept = Some(Batch::new(self.node.right.width));
                        self.held.clear();
                        return Ok(None);
                    }
                },
            };
            if !self.join_row(run, &mut probe, &mut result)? {
                self.probe = Some(probe);
                return Ok(Some(result));
            }
            self.finish_row(&probe, &mut result);
            probe.position += 1;
            if probe.position < probe.batch.len() {
                self.start_row(run, &mut probe)?;
                self.probe = Some(probe);
            }
            if result.is_full() {
                return Ok(Some(result));
            }
            run.check_interrupt()?;
        }
    }
}
