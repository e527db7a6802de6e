//! Window functions: partitions are sorted, and each function is evaluated for each of their rows.
//!
//! # Invariants
//! - All rows of the input are kept, sorted by partition and order; the result is in that order.

use std::ops::Range;

use crate::error::{Result, SqlError};
use crate::functions::{Frame, FunctionContext, FunctionKind, WindowPartition};
use crate::plan::node::{SortKey, WindowCall, WindowNode};
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::row_bytes;
use crate::run::operator::sorted_rows::Sorted;
use crate::run::operator::window_frame::Frames;
use crate::run::operator::{Operator, Running};
use crate::run::order::{compare_rows, same_slots};
use crate::types::Value;

pub(crate) struct Windows<'e> {
    node: &'e WindowNode,
    input: Option<Running<'e>>,
    result: Vec<Batch>,
    given: usize,
    bytes: usize,
}

impl<'e> Windows<'e> {
    pub(crate) fn new(node: &'e WindowNode, input: Running<'e>) -> Windows<'e> {
        Windows { node, input: Some(input), result: Vec::new(), given: 0, bytes: 0 }
    }

    fn run_all(&mut self, run: &mut Run<'e>, mut input: Running<'e>) -> Result<()> {
        let node = self.node;
        let mut rows = Batch::new(node.input.width);
        while let Some(batch) = input.next(run)? {
            let bytes = batch.rows().map(row_bytes).sum::<usize>() + batch.len() * node.calls.len() * 24;
            run.memory.charge(bytes)?;
            self.bytes += bytes;
            rows.append(batch);
        }
        let by_partition =
            node.partition.iter().map(|&slot| SortKey { slot, descending: false, nulls_first: false });
        let keys: Vec<SortKey> = by_partition.chain(node.order.iter().copied()).collect();
        let Some(mut rows) = Sorted::new(rows, &keys).next(usize::MAX) else { return Ok(()) };
        let mut start = 0;
        let mut values = vec![Vec::with_capacity(rows.len()); node.calls.len()];
        while start < rows.len() {
            let mut end = start + 1;
            while end < rows.len()
                && same_slots(rows.row(start), &node.partition, rows.row(end), &node.partition)
            {
                end += 1;
            }
            for (call, values) in node.calls.iter().zip(&mut values) {
                Partition::new(node, call, &rows, start..end).evaluate(run, values)?;
            }
            run.check_interrupt()?;
            start = end;
        }
        self.put_together(&mut rows, values);
        Ok(())
    }

    fn put_together(&mut self, rows: &mut Batch, mut values: Vec<Vec<Value>>) {
        let mut batch = Batch::new(rows.width() + values.len());
        for position in 0..rows.len() {
            let results = values.iter_mut().map(|values| std::mem::take(&mut values[position]));
            batch.push(rows.row_mut(position).iter_mut().map(std::mem::take).chain(results));
            if batch.len() == BATCH_ROWS {
                let width = batch.width();
                self.result.push(std::mem::replace(&mut batch, Batch::new(width)));
            }
        }
        if !batch.is_empty() {
            self.result.push(batch);
        }
    }
}

impl<'e> Operator<'e> for Windows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if let Some(input) = self.input.take() {
            self.run_all(run, input)?;
        }
        let batch = self.result.get_mut(self.given).map(std::mem::take);
        self.given += 1;
        if batch.is_none() {
            run.memory.release(std::mem::take(&mut self.bytes));
        }
        Ok(batch)
    }
}

/// A partition, as one call sees it.
struct Partition<'p, 'e> {
    call: &'e WindowCall,
    rows: &'p Batch,
    range: Range<usize>,
    /// For each row in which group of peers it is, and where the groups begin.
    groups: Vec<usize>,
    starts: Vec<usize>,
    frames: Option<Vec<Frame>>,
    order: &'e [SortKey],
}

impl<'p, 'e> Partition<'p, 'e> {
    fn new(node: &'e WindowNode, call: &'e WindowCall, rows: &'p Batch, range: Range<usize>) -> Self {
        let (mut groups, mut starts) = (Vec::with_capacity(range.len()), Vec::new());
        for position in range.clone() {
            let is_new = position == range.start
                || compare_rows(rows.row(position - 1), rows.row(position), &node.order).is_ne();
            if is_new {
                starts.push(position - range.start);
            }
            groups.push(starts.len() - 1);
        }
        Partition { call, rows, range, groups, starts, frames: None, order: &node.order }
    }

    fn peers_of(&self, row: usize) -> Range<usize> {
        let group = self.groups[row];
        self.starts[group]..self.starts.get(group + 1).copied().unwrap_or(self.range.len())
    }

    fn row(&self, row: usize) -> &'p [Value] {
        self.rows.row(self.range.start + row)
    }

    fn evaluate(mut self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<()> {
        let frames = Frames {
            frame: &self.call.frame,
            order: self.order,
            groups: &self.groups,
            starts: &self.starts,
            rows: self.range.len(),
            row: &|row| self.row(row),
        };
        let frames = frames.all(run)?;
        match self.call.function.kind {
            FunctionKind::Window(code) => {
                self.frames = Some(frames);
                for row in 0..self.range.len() {
                    into.push(code(&mut self, row)?);
                }
                Ok(())
            }
            FunctionKind::Aggregate { .. } => self.aggregate(run, &frames, into),
            _ => Err(SqlError::internal(format!("{} is not a window function", self.call.function.name))),
        }
    }

    /// An aggregate over each row's frame. A frame that only grows at its end goes on with the state of the row before.
    fn aggregate(&self, run: &mut Run<'e>, frames: &[Frame], into: &mut Vec<Value>) -> Result<()> {
        let FunctionKind::Aggregate { start, .. } = self.call.function.kind else { return Ok(()) };
        let call = self.call;
        let mut state = None;
        let mut done: Range<usize> = 0..0;
        for (number, frame) in frames.iter().enumerate() {
            if number > 0 && frames[number - 1] == *frame {
                let same = into.last().cloned().unwrap_or_default();
                into.push(same);
                continue;
            }
            let mut context = FunctionContext {
                environment: run.environment,
                argument_types: &call.types,
                result_type: call.result,
            };
            let goes_on = match &frame[..] {
                [only] => only.start == done.start && only.end >= done.end && !done.is_empty(),
                _ => false,
            };
            let mut accumulator = match state.take() {
                Some(accumulator) if goes_on => accumulator,
                _ => {
                    done = 0..0;
                    start(&context)
                }
            };
            for range in frame {
                let from = if goes_on { done.end } else { range.start };
                for row in from..range.end {
                    self.feed(&mut *accumulator, &mut context, row)?;
                }
            }
            into.push(accumulator.finish(&mut context, &[])?);
            if let [only] = &frame[..] {
                done = only.clone();
                state = Some(accumulator);
            }
            if number % 256 == 0 {
                run.check_interrupt()?;
            }
        }
        Ok(())
    }

    fn feed(
        &self,
        accumulator: &mut dyn crate::functions::Accumulator,
        context: &mut FunctionContext<'_>,
        row: usize,
    ) -> Result<()> {
        let row = self.row(row);
        let call = self.call;
        let is_out = call.filter.is_some_and(|filter| !matches!(row[filter], Value::Bool(true)));
        if is_out || (call.function.is_strict && call.arguments.iter().any(|&slot| row[slot].is_null())) {
            return Ok(());
        }
        let arguments: smallvec::SmallVec<[Value; 2]> =
            call.arguments.iter().map(|&slot| row[slot].clone()).collect();
        accumulator.accumulate(context, &arguments)
    }
}

impl WindowPartition for Partition<'_, '_> {
    fn rows(&self) -> usize {
        self.range.len()
    }

    fn argument(&mut self, row: usize, argument: usize) -> Result<Value> {
        let slot = self.call.arguments.get(argument);
        Ok(slot.map(|&slot| self.row(row)[slot].clone()).unwrap_or_default())
    }

    fn peers(&self, row: usize) -> Range<usize> {
        self.peers_of(row)
    }

    fn peer_group(&self, row: usize) -> usize {
        self.groups[row]
    }

    fn frame(&self, row: usize) -> Frame {
        self.frames.as_ref().map(|frames| frames[row].clone()).unwrap_or_default()
    }

    fn arguments(&self) -> usize {
        self.call.arguments.len()
    }
}
