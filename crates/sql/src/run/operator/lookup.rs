//! Joins by looking up: the values of each row of the left side name rows of a table.

use crate::compile::{typed, with_key};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::{JoinKind, LookupNode, Path};
use crate::plan::scan::key_columns;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch, Side};
use crate::run::operator::scan::{Search, requests};
use crate::run::operator::{Operator, Running};
use crate::types::{Type, Value};

/// The number of rows read at a time if one that meets the condition is enough.
const FIRST_PARTNERS: usize = 4;

pub(crate) struct LookupJoin<'e> {
    node: &'e LookupNode,
    left: Running<'e>,
    /// The lookup by primary key, if each left row names one row by its key.
    key: Option<Key<'e>>,
    probe: Option<Probe<'e>>,
    /// Number of rows of the next batch, if few may be wanted.
    few: Option<usize>,
}

/// A lookup of one row, and the state of the join.
struct Key<'e> {
    columns: Vec<(usize, Type)>,
    values: &'e [Expr],
    /// A left batch with rows from this position on that are not joined yet.
    waiting: Option<(Batch, usize)>,
    /// The row that was looked up; a buffer, reused to avoid allocations.
    partner: Vec<Value>,
}

/// The state of a join of several rows for each left row.
struct Probe<'e> {
    batch: Batch,
    position: usize,
    search: Search<'e>,
    /// Rows that were read and not joined yet.
    partners: (Batch, usize),
    has_partner: bool,
}

impl<'e> LookupJoin<'e> {
    pub(crate) fn new(node: &'e LookupNode, left: Running<'e>) -> LookupJoin<'e> {
        LookupJoin { node, left, key: Key::of(node), probe: None, few: None }
    }

    fn start(&self, run: &mut Run<'e>, batch: Batch, position: usize) -> Result<Probe<'e>> {
        let search = Search::new(requests(&self.node.scan, run, batch.row(position))?);
        let partners = (Batch::new(self.node.scan.decoder.len()), 0);
        Ok(Probe { batch, position, search, partners, has_partner: false })
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
            if !probe.search.fill(&node.scan, run, &mut partners, most, &[])? && partners.is_empty() {
                return Ok(true);
            }
            probe.partners = (partners, 0);
        }
    }

    /// Joins left rows that name one row each.
    fn next_by_key(&mut self, run: &mut Run<'e>, key: &mut Key<'e>) -> Result<Option<Batch>> {
        let mut result = Batch::new(width(self.node));
        let few = self.few.take();
        loop {
            let (batch, first) = match key.waiting.take() {
                Some(waiting) => waiting,
                None => match self.left.next(run)? {
                    Some(batch) => (batch, 0),
                    None => return Ok((!result.is_empty()).then_some(result)),
                },
            };
            for position in first..batch.len() {
                if result.is_full() || few.is_some_and(|few| result.len() >= few) {
                    key.waiting = Some((batch, position));
                    return Ok(Some(result));
                }
                run.check_interrupt()?;
                let left = batch.row(position);
                let has_partner = key.has_partner(run, self.node, left)?;
                if has_partner && self.node.kind.shows_right() {
                    let partner = Side::Row(&key.partner);
                    result.push_picked(self.node.output.as_ref(), Side::Row(left), partner);
                }
                finish_row(self.node, left, has_partner, &mut result);
            }
        }
    }
}

impl<'e> Key<'e> {
    fn of(node: &'e LookupNode) -> Option<Key<'e>> {
        let scan = &node.scan;
        let Path::Point(values) = &scan.path else { return None };
        let is_whole = scan.output.iter().copied().eq(0..scan.decoder.len());
        let columns = typed(&scan.table, key_columns(&scan.table).into_iter());
        is_whole.then(|| Key { columns, values, waiting: None, partner: Vec::new() })
    }

    /// Looks a left row's partner up; returns true if there is one that meets the conditions.
    fn has_partner(&mut self, run: &mut Run<'e>, node: &'e LookupNode, left: &[Value]) -> Result<bool> {
        let (scan, partner) = (&node.scan, &mut self.partner);
        partner.clear();
        let found = with_key(run, &scan.table, (&self.columns, self.values), left, |run, key| {
            let columns = Some(scan.decoder.columns());
            run.rows.get(&scan.table.engine, key, columns, &mut |row| {
                scan.decoder.each(row, |value| partner.push(value))
            })
        })?;
        if found != Some(true) {
            return Ok(false);
        }
        if let Some(filter) = &scan.filter
            && !run.holds(filter, partner)?
        {
            return Ok(false);
        }
        match &node.condition {
            Some(condition) => run.holds_joined(condition, node.seen.as_ref(), left, partner),
            None => Ok(true),
        }
    }
}

/// Adds a left row whose partners have been joined, if the kind of join shows it alone.
fn finish_row(node: &LookupNode, left: &[Value], has_partner: bool, result: &mut Batch) {
    let missing = match (node.kind, has_partner) {
        (JoinKind::Semi, true) | (JoinKind::Anti, false) => 0,
        (JoinKind::Left, false) => node.scan.decoder.len(),
        _ => return,
    };
    result.push_picked(node.output.as_ref(), Side::Row(left), Side::Missing(missing));
}

fn width(node: &LookupNode) -> usize {
    match &node.output {
        Some(output) => output.width(),
        None if node.kind.shows_right() => node.left.width + node.scan.decoder.len(),
        None => node.left.width,
    }
}

impl<'e> Operator<'e> for LookupJoin<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if let Some(mut key) = self.key.take() {
            let joined = self.next_by_key(run, &mut key);
            self.key = Some(key);
            return joined;
        }
        let mut result = Batch::new(width(self.node));
        let few = self.few.take();
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
            finish_row(self.node, probe.batch.row(probe.position), probe.has_partner, &mut result);
            if probe.position + 1 < probe.batch.len() {
                self.probe = Some(self.start(run, probe.batch, probe.position + 1)?);
            }
            if result.is_full() || few.is_some_and(|few| result.len() >= few) {
                return Ok(Some(result));
            }
            run.check_interrupt()?;
        }
    }

    fn expect_few(&mut self, rows: usize) {
        self.few = Some(rows.max(1));
        self.left.expect_few(rows);
    }
}
