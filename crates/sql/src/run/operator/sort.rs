//! Sorting: in memory, in runs on disk beyond the memory limit, or only the first rows where a limit says how many.
//!
//! # Invariants
//! - The sort is stable.
//! - With a limit of N rows, at most 2 N rows and a batch are kept.

use std::cmp::Ordering;

use crate::error::Result;
use crate::plan::node::{Limit, SortKey};
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::row_bytes;
use crate::run::operator::limit::Counts;
use crate::run::operator::{Operator, Running};
use crate::run::order::compare_rows;
use crate::run::spill::{Reader, Writer};

/// Up to how many rows a limit is kept by sorting again and again; above, everything is sorted.
const TOP_ROWS_MAX: u64 = 100_000;

pub(crate) struct Sort<'e> {
    input: Running<'e>,
    keys: &'e [SortKey],
    limit: Option<&'e Limit>,
    state: State,
}

enum State {
    Collecting,
    Memory(Sorted),
    Merging(Vec<RunOfRows>),
}

/// Rows in memory, and the order in which they are given.
pub(crate) struct Sorted {
    rows: Batch,
    order: Vec<u32>,
    given: usize,
}

impl Sorted {
    /// Sorts rows.
    pub(crate) fn new(rows: Batch, keys: &[SortKey]) -> Sorted {
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_by(|&left, &right| compare_rows(rows.row(left as usize), rows.row(right as usize), keys));
        Sorted { rows, order, given: 0 }
    }

    /// The next rows, moved out.
    pub(crate) fn next(&mut self, limit: usize) -> Option<Batch> {
        let count = (self.order.len() - self.given).min(limit);
        if count == 0 {
            return None;
        }
        let mut batch = Batch::with_capacity(self.rows.width(), count);
        for &position in &self.order[self.given..self.given + count] {
            batch.push(self.rows.row_mut(position as usize).iter_mut().map(std::mem::take));
        }
        self.given += count;
        Some(batch)
    }
}

/// Sorted rows on disk, with the row that is to be given next.
struct RunOfRows {
    reader: Reader,
    batch: Batch,
    position: usize,
}

impl RunOfRows {
    fn row(&self) -> &[crate::types::Value] {
        self.batch.row(self.position)
    }

    /// Goes to the next row. Whether there is one.
    fn advance(&mut self) -> Result<bool> {
        self.position += 1;
        if self.position < self.batch.len() {
            return Ok(true);
        }
        self.position = 0;
        match self.reader.next()? {
            Some(batch) => {
                self.batch = batch;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

impl<'e> Sort<'e> {
    pub(crate) fn new(input: Running<'e>, keys: &'e [SortKey], limit: Option<&'e Limit>) -> Sort<'e> {
        Sort { input, keys, limit, state: State::Collecting }
    }

    fn collect(&mut self, run: &mut Run<'e>) -> Result<State> {
        let needed = match self.limit {
            Some(limit) => Counts::of(limit, run)?.needed().filter(|&needed| needed <= TOP_ROWS_MAX),
            None => None,
        };
        let Some(mut rows) = self.input.next(run)? else {
            return Ok(State::Memory(Sorted::new(Batch::new(0), self.keys)));
        };
        let mut bytes: usize = rows.rows().map(row_bytes).sum();
        run.memory.charge(bytes)?;
        let mut runs: Vec<Writer> = Vec::new();
        while let Some(batch) = self.input.next(run)? {
            let more: usize = batch.rows().map(row_bytes).sum();
            if !run.memory.has_room(more) && rows.len() > BATCH_ROWS {
                runs.push(self.write(std::mem::take(&mut rows))?);
                run.memory.release(bytes);
                (rows, bytes) = (Batch::new(batch.width()), 0);
            }
            run.memory.charge(more)?;
            bytes += more;
            rows.append(batch);
            if let Some(needed) = needed
                && rows.len() as u64 > 2 * needed + BATCH_ROWS as u64
            {
                rows = self.first(rows, needed as usize);
                let kept: usize = rows.rows().map(row_bytes).sum();
                run.memory.release(bytes - kept.min(bytes));
                bytes = kept;
            }
        }
        if runs.is_empty() {
            return Ok(State::Memory(Sorted::new(rows, self.keys)));
        }
        runs.push(self.write(rows)?);
        run.memory.release(bytes);
        let mut merged = Vec::with_capacity(runs.len());
        for writer in runs {
            let mut reader = writer.into_reader()?;
            if let Some(batch) = reader.next()? {
                merged.push(RunOfRows { reader, batch, position: 0 });
            }
        }
        Ok(State::Merging(merged))
    }

    /// The first rows of these in the order.
    fn first(&self, rows: Batch, count: usize) -> Batch {
        let width = rows.width();
        Sorted::new(rows, self.keys).next(count).unwrap_or_else(|| Batch::new(width))
    }

    /// Writes rows, sorted, to a file.
    fn write(&self, rows: Batch) -> Result<Writer> {
        let mut writer = Writer::new()?;
        let mut sorted = Sorted::new(rows, self.keys);
        while let Some(batch) = sorted.next(BATCH_ROWS) {
            writer.write(&batch)?;
        }
        Ok(writer)
    }

    /// The next rows of all runs together. Of equal rows, the earlier run's come first.
    fn merge(runs: &mut Vec<RunOfRows>, keys: &[SortKey]) -> Result<Option<Batch>> {
        let Some(first) = runs.first() else { return Ok(None) };
        let mut batch = Batch::new(first.batch.width());
        while !batch.is_full() && !runs.is_empty() {
            let mut least = 0;
            for other in 1..runs.len() {
                if compare_rows(runs[other].row(), runs[least].row(), keys) == Ordering::Less {
                    least = other;
                }
            }
            batch.push_row(runs[least].row());
            if !runs[least].advance()? {
                runs.remove(least);
            }
        }
        Ok(Some(batch))
    }
}

impl<'e> Operator<'e> for Sort<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if matches!(self.state, State::Collecting) {
            self.state = self.collect(run)?;
        }
        match &mut self.state {
            State::Memory(sorted) => Ok(sorted.next(BATCH_ROWS)),
            State::Merging(runs) => Self::merge(runs, self.keys),
            State::Collecting => Ok(None),
        }
    }
}
