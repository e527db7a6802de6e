//! Joins by looking up: the values of each row of the left side name rows of a table.

use crate::error::Result;
use crate::plan::node::{JoinKind, LookupNode};
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch, Side};
use crate::run::operator::scan::{Found, Request, open, requests};
use crate::run::operator::{Operator, Running};

/// How many rows are read at a time where one that meets the condition is enough.
const FIRST_PARTNERS: usize = 4;

pub(crate) struct LookupJoin<'e> {
    node: &'e LookupNode,
    left: Running<'e>,
    probe: Option<Probe<'e>>,
}

/// Where the join stands.
struct Probe<'e> {
    batch: Batch,
    position: usize,
    requests: std::vec::IntoIter<Request>,
    found: Found<'e>,
    /// Rows that were read and not joined yet.
    partners: (Batch, usize),
    has_partner: bool,
}

impl<'e> LookupJoin<'e> {
    pub(crate) fn new(node: &'e LookupNode, left: Running<'e>) -> LookupJoin<'e> {
        LookupJoin { node, left, probe: None }
    }

    fn start(&self, run: &mut Run<'e>, batch: Batch, position: usize) -> Result<Probe<'e>> {
        let requests = requests(&self.node.scan, run, batch.row(position))?.into_iter();
        let partners = (Batch::new(self.node.scan.decoder.len()), 0);
        Ok(Probe { batch, position, requests, found: Found::Ended, partners, has_partner: false })
    }

    /// Joins the current row; false if the result is full before it is done.
    fn join_row(&self, run: &mut Run<'e>, probe: &mut Probe<'e>, result: &mut Batch) -> Result<bool> {
        let node = self.node;
        // The first partner is enough for some.
        let most = if node.kind.shows_right() { BATCH_ROWS } else { FIRST_PARTNERS };
        loop {
            while probe.partners.1 < probe.partners.0.len() {
                if result.is_full() {
                    return Ok(false);
                }
                let partner = probe.partners.0.row(probe.partners.1);
                probe.partners.1 += 1;
                let left = probe.batch.row(probe.position);
                if let Some(condition) = &node.condition
                    && !run.holds_joined(condition, node.seen.as_ref(), left, partner)?
                {
                    continue;
                }
                probe.has_partner = true;
                match node.kind {
                    JoinKind::Semi | JoinKind::Anti => return Ok(true),
                    _ => result.push_picked(node.output.as_ref(), Side::Row(left), Side::Row(partner)),
                }
            }
            let mut partners = Batch::new(node.scan.decoder.len());
            while partners.is_empty() {
                if !probe.found.fill(&node.scan, run, &mut partners, most, &[])? && partners.is_empty() {
                    let Some(request) = probe.requests.next() else { return Ok(true) };
                    probe.found = open(&node.scan, run, request)?;
                }
            }
            probe.partners = (partners, 0);
        }
    }

    fn finish_row(&self, probe: &Probe<'e>, result: &mut Batch) {
        let row = Side::Row(probe.batch.row(probe.position));
        let missing = match (self.node.kind, probe.has_partner) {
            (JoinKind::Semi, true) | (JoinKind::Anti, false) => 0,
            (JoinKind::Left, false) => self.node.scan.decoder.len(),
            _ => return,
        };
        result.push_picked(self.node.output.as_ref(), row, Side::Missing(missing));
    }

    fn width(&self) -> usize {
        match &self.node.output {
            Some(output) => output.width(),
            None if self.node.kind.shows_right() => self.node.left.width + self.node.scan.decoder.len(),
            None => self.node.left.width,
        }
    }
}

impl<'e> Operator<'e> for LookupJoin<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut result = Batch::new(self.width());
        loop {
            let mut probe = match self.probe.take() {
                Some(probe) => probe,
                None => match self.left.next(run)? {
                    Some(batch) => self.start(run, batch, 0)?,
                    None => return Ok((!result.is_empty()).then_some(result)),
                },
            };
            if !self.join_row(run, &mut probe, &mut result)? {
                self.probe = Some(probe);
                return Ok(Some(result));
            }
            self.finish_row(&probe, &mut result);
            if probe.position + 1 < probe.batch.len() {
                self.probe = Some(self.start(run, probe.batch, probe.position + 1)?);
            }
            if result.is_full() {
                return Ok(Some(result));
            }
            run.check_interrupt()?;
        }
    }
}
