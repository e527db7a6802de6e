//! The rows that aggregates with DISTINCT or ORDER BY keep beyond the memory limit: in files, sorted by their group,
//! then in the order in which they are fed.
//!
//! # Invariants
//! - Once rows of a call have been written, all of its rows are, before the first group ends.
//! - Groups end in the order of their numbers, so that each file is read once.

use crate::error::Result;
use crate::plan::node::{AggregateCall, SortKey};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::Held;
use crate::run::operator::accumulate::{State, feeding_order, keeps_rows};
use crate::run::operator::sorted_rows::Sorted;
use crate::run::spill::{Merging, SortedRuns, Writer};
use crate::types::Value;

/// The kept rows of all calls: the memory of those in memory, and those in files.
#[derive(Default)]
pub(crate) struct SpilledStates {
    /// The memory of the rows in memory.
    held: Held,
    /// The spilled calls, by their positions; empty as long as nothing was written.
    calls: Vec<Option<SpilledCall>>,
}

/// The rows of one call: the arguments, the sort keys, the number of the group.
struct SpilledCall {
    keys: Vec<SortKey>,
    runs: SortedRuns,
    merging: Option<Merging>,
    /// The batch that is being read, and how far it was read.
    batch: Batch,
    position: usize,
}

impl SpilledStates {
    /// Counts rows that the states keep; returns true if they are to be written.
    pub(crate) fn add(&mut self, run: &mut Run<'_>, bytes: usize) -> bool {
        let is_full = !self.held.admit(&mut run.memory, bytes);
        if is_full {
            self.held.take(&mut run.memory, bytes);
        }
        is_full
    }

    /// Writes what the states keep.
    pub(crate) fn write(
        &mut self,
        run: &mut Run<'_>,
        calls: &[AggregateCall],
        states: &mut [Option<State>],
    ) -> Result<()> {
        if self.calls.is_empty() {
            self.calls = calls.iter().map(|call| keeps_rows(call).then(|| SpilledCall::new(call))).collect();
        }
        for (at, (call, spilled)) in calls.iter().zip(&mut self.calls).enumerate() {
            let Some(spilled) = spilled else { continue };
            let order = feeding_order(call);
            let mut writer = Writer::new();
            for (group, states) in states.chunks_mut(calls.len()).enumerate() {
                let Some(state) = &mut states[at] else { continue };
                let mut sorted = Sorted::new(state.take_rows(), &order);
                while let Some(batch) = sorted.next(usize::MAX) {
                    batch.rows().try_for_each(|row| writer.push_with(row, Value::Int8(group as i64)))?;
                }
            }
            spilled.runs.push(writer, &spilled.keys)?;
            run.check_interrupt()?;
        }
        self.held.clear();
        Ok(())
    }

    /// Ends the reading of rows: those left in memory follow those written.
    pub(crate) fn finish_reading(
        &mut self,
        run: &mut Run<'_>,
        calls: &[AggregateCall],
        states: &mut [Option<State>],
    ) -> Result<()> {
        if self.calls.is_empty() {
            return Ok(());
        }
        self.write(run, calls, states)?;
        for spilled in self.calls.iter_mut().flatten() {
            spilled.merging = Some(std::mem::take(&mut spilled.runs).merge(&spilled.keys)?);
        }
        Ok(())
    }

    /// The rows of a call in a group, in order; `None` if they are in memory.
    pub(crate) fn rows(&mut self, call: usize, group: usize) -> Option<GroupRows<'_>> {
        let call = self.calls.get_mut(call)?.as_mut()?;
        Some(GroupRows { call, group: group as i64 })
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.calls.clear();
    }
}

impl SpilledCall {
    fn new(call: &AggregateCall) -> SpilledCall {
        let group = call.arguments.len() + call.order.len();
        let mut keys = vec![SortKey { slot: group, descending: false, nulls_first: false }];
        keys.extend(feeding_order(call));
        SpilledCall { keys, runs: SortedRuns::default(), merging: None, batch: Batch::default(), position: 0 }
    }
}

/// The rows of a call in one group.
pub(crate) struct GroupRows<'s> {
    call: &'s mut SpilledCall,
    group: i64,
}

impl GroupRows<'_> {
    /// Passes each row to `each`, in order.
    pub(crate) fn each(&mut self, each: &mut dyn FnMut(&[Value]) -> Result<()>) -> Result<()> {
        let SpilledCall { keys, merging, batch, position, .. } = &mut *self.call;
        let Some(merging) = merging else { return Ok(()) };
        loop {
            if *position == batch.len() {
                let Some(next) = merging.next(keys)? else { return Ok(()) };
                (*batch, *position) = (next, 0);
            }
            let row = batch.row(*position);
            if row[keys[0].slot].any_int() != self.group {
                return Ok(());
            }
            each(row)?;
            *position += 1;
        }
    }
}
