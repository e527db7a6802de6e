//! Window functions: partitions are sorted, and each function is evaluated for each of their rows.
//!
//! # Invariants
//! - The input is sorted by partition and order, in files beyond the memory limit; the result is in that order.
//! - One partition at a time is kept, in a file beyond what the sort has left of the memory.

use std::ops::Range;

use smallvec::SmallVec;

use crate::error::{Result, SqlError};
use crate::functions::{Accumulator, Frame, FunctionContext, FunctionKind, WindowPartition};
use crate::plan::node::{SortKey, WindowCall, WindowNode};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::Operator;
use crate::run::operator::sort::Sort;
use crate::run::operator::window_frame::{Frames, counts_groups};
use crate::run::operator::window_rows::PartitionRows;
use crate::types::Value;

pub(crate) struct Windows<'e> {
    node: &'e WindowNode,
    sorted: Sort<'e>,
    /// The sorted batch that is being read, and how far it was read.
    batch: Batch,
    position: usize,
    /// The partition that is being evaluated; none before the first one.
    partition: Option<PartitionRows<'e>>,
    calls: Vec<Call<'e>>,
    given: usize,
}

impl<'e> Windows<'e> {
    pub(crate) fn new(node: &'e WindowNode) -> Windows<'e> {
        let by_partition =
            node.partition.iter().map(|&slot| SortKey { slot, descending: false, nulls_first: false });
        let keys: Vec<SortKey> = by_partition.chain(node.order.iter().copied()).collect();
        Windows {
            node,
            sorted: Sort::new(&node.input, keys, None),
            batch: Batch::default(),
            position: 0,
            partition: None,
            calls: Vec::new(),
            given: 0,
        }
    }

    /// Reads the next partition; returns false if there is none.
    fn next_partition(&mut self, run: &mut Run<'e>) -> Result<bool> {
        let node = self.node;
        let mut partition = match self.partition.take() {
            Some(partition) => partition,
            None => {
                self.read_batch(run)?;
                PartitionRows::new(&node.order, node.calls.iter().any(|call| counts_groups(&call.frame)))
            }
        };
        partition.clear();
        let mut keys: Option<SmallVec<[Value; 2]>> = None;
        while self.position < self.batch.len() || self.read_batch(run)? {
            let row = self.batch.row_mut(self.position);
            match &keys {
                Some(keys) if !node.partition.iter().zip(keys).all(|(&slot, key)| row[slot] == *key) => break,
                Some(_) => {}
                None => keys = Some(node.partition.iter().map(|&slot| row[slot].clone()).collect()),
            }
            partition.rows.push_moved(&mut run.memory, row)?;
            self.position += 1;
            run.check_interrupt()?;
        }
        self.calls.clear();
        self.given = 0;
        if partition.len() > 0 {
            partition.start(&mut run.memory)?;
            for call in &node.calls {
                self.calls.push(Call::new(call, Frames::new(run, &call.frame, &node.order)?));
            }
        }
        let is_there = partition.len() > 0;
        self.partition = Some(partition);
        Ok(is_there)
    }

    fn read_batch(&mut self, run: &mut Run<'e>) -> Result<bool> {
        self.position = 0;
        self.batch = self.sorted.next(run)?.unwrap_or_default();
        Ok(!self.batch.is_empty())
    }

    /// Evaluates rows of the partition until the result is full.
    fn evaluate(&mut self, run: &mut Run<'e>, result: &mut Batch) -> Result<()> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        while self.given < partition.len() && !result.is_full() {
            let row = self.given;
            partition.go_to(row)?;
            let mut values: SmallVec<[Value; 4]> = SmallVec::new();
            for call in &mut self.calls {
                values.push(call.value(run, partition, row)?);
            }
            result.push(partition.rows.row(row)?.iter().cloned().chain(values));
            self.given += 1;
            run.check_interrupt()?;
        }
        Ok(())
    }
}

impl<'e> Operator<'e> for Windows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut result = Batch::new(self.node.input.width + self.node.calls.len());
        loop {
            self.evaluate(run, &mut result)?;
            if result.is_full() {
                return Ok(Some(result));
            }
            if !self.next_partition(run)? {
                // No more is asked of a partition.
                self.partition = None;
                return Ok((!result.is_empty()).then_some(result));
            }
        }
    }
}

/// A call in a partition.
struct Call<'e> {
    call: &'e WindowCall,
    frames: Frames<'e>,
    /// An aggregate's state after the rows of a frame.
    state: Option<(Box<dyn Accumulator>, Range<usize>)>,
    /// The last row's frame and value.
    last: Option<(Frame, Value)>,
}

impl<'e> Call<'e> {
    fn new(call: &'e WindowCall, frames: Frames<'e>) -> Call<'e> {
        Call { call, frames, state: None, last: None }
    }

    /// The value of the current row.
    fn value(&mut self, run: &mut Run<'e>, rows: &mut PartitionRows<'e>, row: usize) -> Result<Value> {
        let frame = self.frames.of(run, rows, row)?;
        match self.call.function.kind {
            FunctionKind::Window(code) => code(&mut View { call: self.call, rows, frame }, row),
            FunctionKind::Aggregate { start, .. } => {
                if let Some((last, value)) = &self.last
                    && *last == frame
                {
                    return Ok(value.clone());
                }
                let value = self.aggregate(run, rows, &frame, start)?;
                self.last = Some((frame, value.clone()));
                Ok(value)
            }
            _ => Err(SqlError::internal(format!("{} is not a window function", self.call.function.name))),
        }
    }

    /// An aggregate over a frame. A frame that only grows at its end continues with the state of the row before.
    fn aggregate(
        &mut self,
        run: &mut Run<'e>,
        rows: &mut PartitionRows<'e>,
        frame: &Frame,
        start: AggregateStart,
    ) -> Result<Value> {
        let call = self.call;
        let mut context = FunctionContext {
            environment: run.environment,
            argument_types: &call.types,
            result_type: call.result,
        };
        let (mut accumulator, done) = match (self.state.take(), &frame[..]) {
            (Some((accumulator, done)), [only])
                if only.start == done.start && only.end >= done.end && !done.is_empty() =>
            {
                (accumulator, done.end)
            }
            _ => (start(&context), 0),
        };
        for range in frame {
            for row in range.start.max(done)..range.end {
                feed(call, &mut *accumulator, &mut context, rows.rows.row(row)?)?;
            }
        }
        let value = accumulator.finish(&mut context, &[])?;
        if let [only] = &frame[..] {
            self.state = Some((accumulator, only.clone()));
        }
        Ok(value)
    }
}

/// Starts an aggregate.
type AggregateStart = fn(&FunctionContext<'_>) -> Box<dyn Accumulator>;

fn feed(
    call: &WindowCall,
    accumulator: &mut dyn Accumulator,
    context: &mut FunctionContext<'_>,
    row: &[Value],
) -> Result<()> {
    let is_out = call.filter.is_some_and(|filter| !matches!(row[filter], Value::Bool(true)));
    if is_out || (call.function.is_strict && call.arguments.iter().any(|&slot| row[slot].is_null())) {
        return Ok(());
    }
    let arguments: SmallVec<[Value; 2]> = call.arguments.iter().map(|&slot| row[slot].clone()).collect();
    accumulator.accumulate(context, &arguments)
}

/// A partition, as a window function sees it from the current row.
struct View<'p, 'e> {
    call: &'e WindowCall,
    rows: &'p mut PartitionRows<'e>,
    frame: Frame,
}

impl WindowPartition for View<'_, '_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn argument(&mut self, row: usize, argument: usize) -> Result<Value> {
        match self.call.arguments.get(argument) {
            Some(&slot) => self.rows.value(row, slot),
            None => Ok(Value::Null),
        }
    }

    fn peers(&self, row: usize) -> Range<usize> {
        debug_assert!(self.rows.peers().contains(&row));
        self.rows.peers()
    }

    fn peer_group(&self, row: usize) -> usize {
        debug_assert!(self.rows.peers().contains(&row));
        self.rows.group()
    }

    fn frame(&self, _row: usize) -> Frame {
        self.frame.clone()
    }

    fn arguments(&self) -> usize {
        self.call.arguments.len()
    }
}
