//! LIMIT and OFFSET: passes on the rows between two counts.

use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::plan::node::Limit;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::{Operator, Running};
use crate::types::Value;

/// The number of rows that are skipped, and the number passed on after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) offset: u64,
    pub(crate) count: Option<u64>,
}

impl Counts {
    /// Evaluates both. NULL limits nothing.
    pub(crate) fn of<'e>(limit: &'e Limit, run: &mut Run<'e>) -> Result<Counts> {
        let count = number(limit.count.as_ref(), run, SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT")?;
        let offset =
            number(limit.offset.as_ref(), run, SqlState::INVALID_ROW_COUNT_IN_OFFSET_CLAUSE, "OFFSET")?;
        Ok(Counts { offset: offset.unwrap_or(0), count })
    }

    /// The number of the input's rows that matter; `None` for all.
    pub(crate) fn needed(self) -> Option<u64> {
        self.count.map(|count| count.saturating_add(self.offset))
    }
}

fn number<'e>(
    expression: Option<&'e Expr>,
    run: &mut Run<'e>,
    state: SqlState,
    clause: &str,
) -> Result<Option<u64>> {
    let Some(expression) = expression else { return Ok(None) };
    match run.evaluate(expression, &[])? {
        Value::Null => Ok(None),
        value => match u64::try_from(value.any_int()) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(SqlError::new(state, format!("{clause} must not be negative"))),
        },
    }
}

pub(crate) struct LimitRows<'e> {
    /// `None` once no more rows of it are wanted: its memory is released.
    input: Option<Running<'e>>,
    limit: &'e Limit,
    counts: Option<Counts>,
    /// The number of rows that may be wanted.
    expected: Option<usize>,
    /// The last row of the limit, as long as rows that equal it follow.
    tie: Option<Vec<Value>>,
}

impl<'e> LimitRows<'e> {
    pub(crate) fn new(input: Running<'e>, limit: &'e Limit) -> LimitRows<'e> {
        LimitRows { input: Some(input), limit, counts: None, expected: None, tie: None }
    }

    /// The next rows of the input.
    fn read(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        match &mut self.input {
            Some(input) => input.next(run),
            None => Ok(None),
        }
    }

    /// The rows that equal the last one in the order and follow it.
    fn ties(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let (Some(slots), Some(last)) = (&self.limit.ties, self.tie.take()) else { return Ok(None) };
        let Some(mut batch) = self.read(run)? else { return Ok(None) };
        let equal = batch.rows().take_while(|row| slots.iter().all(|&slot| row[slot] == last[slot])).count();
        self.tie = (equal == batch.len()).then_some(last);
        batch.truncate(equal);
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Cuts a batch at the limit.
    fn cut(&mut self, batch: &mut Batch, left: u64) {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        if batch.len() < wanted {
            return;
        }
        let mut end = wanted;
        if let (Some(slots), true) = (&self.limit.ties, wanted > 0) {
            let last = batch.row(wanted - 1).to_vec();
            while end < batch.len() && slots.iter().all(|&slot| batch.row(end)[slot] == last[slot]) {
                end += 1;
            }
            self.tie = (end == batch.len()).then_some(last);
        }
        batch.truncate(end);
    }
}

impl<'e> Operator<'e> for LimitRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut counts = match self.counts {
            Some(counts) => counts,
            None => {
                let counts = Counts::of(self.limit, run)?;
                let expected = self.expected.map(|rows| counts.offset.saturating_add(rows as u64));
                let needed = counts.needed().into_iter().chain(expected).min();
                if let Some(needed) = needed.filter(|_| self.limit.ties.is_none()) {
                    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
                    self.input.iter_mut().for_each(|input| input.expect_few(needed));
                }
                counts
            }
        };
        loop {
            if counts.count == Some(0) {
                self.counts = Some(counts);
                let ties = self.ties(run)?;
                if ties.is_none() {
                    self.input = None;
                }
                return Ok(ties);
            }
            let Some(mut batch) = self.read(run)? else { return Ok(None) };
            let skipped = usize::try_from(counts.offset).unwrap_or(usize::MAX).min(batch.len());
            batch.skip(skipped);
            counts.offset -= skipped as u64;
            if batch.is_empty() {
                continue;
            }
            if let Some(left) = counts.count {
                self.cut(&mut batch, left);
                counts.count = Some(left.saturating_sub(batch.len() as u64));
            }
            self.counts = Some(counts);
            return Ok(Some(batch));
        }
    }

    fn expect_few(&mut self, rows: usize) {
        self.expected = Some(rows);
    }
}
