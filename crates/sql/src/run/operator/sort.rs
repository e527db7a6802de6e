//! Sorting: in memory, in runs on disk beyond the memory limit, or only the first rows where a limit says how many.
//!
//! # Invariants
//! - The sort is stable.
//! - With a limit of N rows, at most 2 N rows and a batch are kept.
//! - Input that is sorted by the first keys is read until all rows that follow are behind the first N.
//!
//! # Concurrency
//! A large input is divided among threads if it can be ([`parallel`](super::parallel)): each sorts a part, and the parts are
//! merged in their order.

use std::borrow::Cow;

use crate::error::Result;
use crate::plan::node::{Limit, Plan, SortKey};
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::limit::Counts;
use crate::run::operator::parallel::{PartWork, in_parallel};
use crate::run::operator::sorted_rows::{Sorted, merge_sorted};
use crate::run::operator::{Operator, operator};
use crate::run::order::compare_rows;
use crate::run::spill::{Merging, SortedRuns};
use crate::types::Value;

/// The largest limit of rows that is kept by sorting again and again; above it, everything is sorted.
const TOP_ROWS_MAX: u64 = 100_000;

pub(crate) struct Sort<'e> {
    input: &'e Plan,
    keys: Cow<'e, [SortKey]>,
    limit: Option<&'e Limit>,
    presorted: usize,
    state: State,
}

enum State {
    Collecting,
    /// Sorted parts, and what they take.
    Memory(Vec<Sorted>, Held),
    Merging(Merging),
}

/// Rows that are to be sorted.
#[derive(Default)]
struct Collected {
    rows: Batch,
    held: Held,
    /// The last of the first rows that are wanted, once there are that many: rows that come later must be before it.
    cutoff: Option<Vec<Value>>,
}

impl Collected {
    /// Removes from a batch the rows that are not among the first ones; returns the memory of the others.
    fn admit(&self, batch: &mut Batch, keys: &[SortKey]) -> usize {
        if let Some(cutoff) = &self.cutoff {
            let kept: Result<()> = batch.retain(|row| Ok(compare_rows(row, cutoff, keys).is_lt()));
            debug_assert!(kept.is_ok());
        }
        batch.rows().map(row_bytes).sum()
    }

    fn append(&mut self, batch: Batch) {
        if self.rows.is_empty() {
            self.rows = batch;
        } else {
            self.rows.append(batch);
        }
    }

    /// Adds a batch that was admitted and is charged.
    fn add(&mut self, batch: Batch, keys: &[SortKey], needed: Option<u64>) {
        self.append(batch);
        let Some(needed) = needed else { return };
        if self.rows.len() as u64 > 2 * needed + BATCH_ROWS as u64 {
            let (width, needed) = (self.rows.width(), needed as usize);
            let first = Sorted::new(std::mem::take(&mut self.rows), keys).next(needed);
            self.rows = first.unwrap_or_else(|| Batch::new(width));
            self.cutoff = needed.checked_sub(1).map(|last| self.rows.row(last).to_vec());
            self.held.shrink_to(self.rows.rows().map(row_bytes).sum());
        }
    }
}

/// The place in input that is sorted by the first keys behind which no wanted row is.
struct Edge<'k> {
    /// The keys by which the input is sorted.
    keys: &'k [SortKey],
    /// Number of rows to be read until the edge is known.
    left: u64,
    /// The last of the first rows that are wanted, in the input's order.
    row: Option<Vec<Value>>,
}

impl Edge<'_> {
    /// Returns true if all rows behind a batch are behind the edge.
    fn is_passed(&mut self, batch: &Batch) -> bool {
        let Some(last) = batch.len().checked_sub(1) else { return false };
        if self.row.is_none() {
            let at = usize::try_from(self.left.max(1) - 1).unwrap_or(usize::MAX);
            self.left = self.left.saturating_sub(batch.len() as u64);
            self.row = (at <= last).then(|| batch.row(at).to_vec());
        }
        self.row.as_ref().is_some_and(|row| compare_rows(batch.row(last), row, self.keys).is_gt())
    }
}

/// Sorting a part of the rows, all in memory.
struct SortedPart<'e, 'k> {
    input: &'e Plan,
    keys: &'k [SortKey],
    needed: Option<u64>,
}

impl<'e> PartWork<'e> for SortedPart<'e, '_> {
    type Output = (Sorted, usize);

    fn run<'p>(&self, run: &mut Run<'p>) -> Result<(Sorted, usize)>
    where
        'e: 'p,
    {
        let mut input = operator(self.input, run)?;
        let mut collected = Collected::default();
        while let Some(mut batch) = input.next(run)? {
            let bytes = collected.admit(&mut batch, self.keys);
            collected.held.charge(&mut run.memory, bytes)?;
            collected.add(batch, self.keys, self.needed);
        }
        Ok((Sorted::new(collected.rows, self.keys), collected.held.bytes()))
    }
}

impl<'e> Sort<'e> {
    pub(crate) fn new(
        input: &'e Plan,
        keys: impl Into<Cow<'e, [SortKey]>>,
        limit: Option<&'e Limit>,
    ) -> Sort<'e> {
        let keys = keys.into();
        Sort { input, keys, limit, presorted: 0, state: State::Collecting }
    }

    /// Says by how many of the first keys the input is sorted.
    pub(crate) fn presorted(self, presorted: usize) -> Sort<'e> {
        Sort { presorted, ..self }
    }

    fn collect(&mut self, run: &mut Run<'e>) -> Result<State> {
        let needed = match self.limit {
            Some(limit) => Counts::of(limit, run)?.needed().filter(|&needed| needed <= TOP_ROWS_MAX),
            None => None,
        };
        if let Some(needed) = needed.filter(|_| self.presorted > 0) {
            return self.collect_alone(run, Some(needed));
        }
        let work = SortedPart { input: self.input, keys: &self.keys, needed };
        if let Some(parts) = in_parallel(self.input, run, &work)? {
            let bytes = parts.iter().map(|(_, bytes)| bytes).sum();
            let mut held = Held::default();
            if held.charge(&mut run.memory, bytes).is_ok() {
                return Ok(State::Memory(parts.into_iter().map(|(sorted, _)| sorted).collect(), held));
            }
        }
        self.collect_alone(run, needed)
    }

    /// Sorts by this thread alone, in files beyond the memory limit.
    fn collect_alone(&mut self, run: &mut Run<'e>, needed: Option<u64>) -> Result<State> {
        let mut input = operator(self.input, run)?;
        let mut collected = Collected::default();
        let mut runs = SortedRuns::default();
        let mut edge = needed.filter(|_| self.presorted > 0).map(|needed| {
            let rows = usize::try_from(needed.max(1)).unwrap_or(usize::MAX);
            input.expect_few(rows.saturating_add(1));
            Edge { keys: &self.keys[..self.presorted], left: needed, row: None }
        });
        let mut is_last = false;
        while !is_last && let Some(mut batch) = input.next(run)? {
            is_last = edge.as_mut().is_some_and(|edge| edge.is_passed(&batch));
            let bytes = collected.admit(&mut batch, &self.keys);
            if !collected.held.admit(&mut run.memory, bytes) {
                // The batch, which is in memory anyway, is written with them.
                collected.held.take(&mut run.memory, bytes);
                collected.append(batch);
                runs.sort(std::mem::take(&mut collected.rows), &self.keys)?;
                collected.held.clear();
                continue;
            }
            collected.add(batch, &self.keys, needed);
        }
        if runs.is_empty() {
            return Ok(State::Memory(vec![Sorted::new(collected.rows, &self.keys)], collected.held));
        }
        runs.sort(collected.rows, &self.keys)?;
        Ok(State::Merging(runs.merge(&self.keys)?))
    }
}

impl<'e> Operator<'e> for Sort<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if matches!(self.state, State::Collecting) {
            self.state = self.collect(run)?;
        }
        match &mut self.state {
            State::Memory(parts, held) => {
                let batch = merge_sorted(parts, &self.keys);
                if batch.is_none() {
                    parts.clear();
                    held.clear();
                }
                Ok(batch)
            }
            State::Merging(runs) => runs.next(&self.keys),
            State::Collecting => Ok(None),
        }
    }
}
