//! The rows of a window's partition, and the peers of the row that is being evaluated.
//!
//! # Invariants
//! - The rows are in the window's order. Those beyond the memory limit are in a file.
//! - Rows are evaluated one after the other: [`PartitionRows::go_to`] is called with each row's position in turn.

use std::ops::Range;

use crate::error::Result;
use crate::plan::node::SortKey;
use crate::run::KeptRows;
use crate::run::memory::Memory;
use crate::run::order::compare_values;
use crate::types::Value;

/// The rows of a partition.
pub(crate) struct PartitionRows<'e> {
    order: &'e [SortKey],
    pub(crate) rows: KeptRows,
    /// The first row of each group of peers, if frames count groups.
    starts: Option<KeptRows>,
    /// The peers of the current row, and the number of their group.
    peers: Range<usize>,
    group: usize,
}

impl<'e> PartitionRows<'e> {
    pub(crate) fn new(order: &'e [SortKey], counts_groups: bool) -> PartitionRows<'e> {
        PartitionRows {
            order,
            rows: KeptRows::of_operator(),
            starts: counts_groups.then(KeptRows::of_operator),
            peers: 0..0,
            group: 0,
        }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.starts.iter_mut().for_each(KeptRows::clear);
        (self.peers, self.group) = (0..0, 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Prepares for the first row, when all rows are there.
    pub(crate) fn start(&mut self, memory: &mut Memory) -> Result<()> {
        let Some(mut starts) = self.starts.take() else { return Ok(()) };
        let mut start = 0;
        while start < self.len() {
            starts.push_moved(memory, &mut [Value::Int8(start as i64)])?;
            start = self.end_of_peers(start)?;
        }
        self.starts = Some(starts);
        Ok(())
    }

    /// Advances to a row: the first one, or the one behind the current one.
    pub(crate) fn go_to(&mut self, row: usize) -> Result<()> {
        if row == 0 || row >= self.peers.end {
            self.group = if row == 0 { 0 } else { self.group + 1 };
            self.peers = row..self.end_of_peers(row)?;
        }
        Ok(())
    }

    /// The position behind the last peer of a row that is the first one of its peers.
    fn end_of_peers(&mut self, first: usize) -> Result<usize> {
        let (order, mut end) = (self.order, first + 1);
        if order.is_empty() {
            return Ok(self.len());
        }
        let values: Vec<Value> = self.rows.row(first).map(|row| values_of(row, order))?;
        while end < self.len() {
            let row = self.rows.row(end)?;
            let is_peer = order
                .iter()
                .zip(&values)
                .all(|(key, value)| compare_values(value, &row[key.slot], key).is_eq());
            if !is_peer {
                break;
            }
            end += 1;
        }
        Ok(end)
    }

    /// The peers of the current row.
    pub(crate) fn peers(&self) -> Range<usize> {
        self.peers.clone()
    }

    /// The number of the current row's group of peers, from 0.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// The number of groups of peers, if frames count them.
    pub(crate) fn groups(&self) -> usize {
        self.starts.as_ref().map_or(0, KeptRows::len)
    }

    /// The first row of a group of peers; for a group behind the last one, the row behind the last row.
    pub(crate) fn group_start(&mut self, group: usize) -> Result<usize> {
        match &mut self.starts {
            Some(starts) if group < starts.len() => Ok(starts.row(group)?[0].any_int() as usize),
            _ => Ok(self.len()),
        }
    }

    pub(crate) fn value(&mut self, row: usize, slot: usize) -> Result<Value> {
        Ok(self.rows.row(row)?[slot].clone())
    }
}

fn values_of(row: &[Value], order: &[SortKey]) -> Vec<Value> {
    order.iter().map(|key| row[key.slot].clone()).collect()
}
