//! DISTINCT, DISTINCT ON, INTERSECT and EXCEPT.
//!
//! # Invariants
//! - NULL equals NULL. Of equal rows the first one that comes in is kept, so that an order below survives.

use hashbrown::HashTable;

use crate::error::Result;
use crate::plan::node::{SetOperation, SetOperationNode};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::row_bytes;
use crate::run::operator::{Operator, Running};
use crate::run::order::{hash_slots, same_slots};
use crate::types::Value;

/// Rows, each of which is there once, found by the values in some slots.
pub(crate) struct RowSet {
    rows: Batch,
    slots: Vec<usize>,
    table: HashTable<u32>,
    bytes: usize,
}

impl RowSet {
    pub(crate) fn new(width: usize, slots: Vec<usize>) -> RowSet {
        RowSet { rows: Batch::new(width), slots, table: HashTable::new(), bytes: 0 }
    }

    /// Adds a row unless an equal one is there. Its position, and whether it is new.
    pub(crate) fn add(&mut self, run: &mut Run<'_>, row: &[Value]) -> Result<(usize, bool)> {
        let (rows, slots) = (&self.rows, &self.slots);
        let hash = hash_slots(&run.hashing, row, slots);
        let entry = self.table.entry(
            hash,
            |&other| same_slots(rows.row(other as usize), slots, row, slots),
            |&other| hash_slots(&run.hashing, rows.row(other as usize), slots),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => Ok((*found.get() as usize, false)),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                let bytes = row_bytes(row) + 8;
                run.memory.charge(bytes)?;
                self.bytes += bytes;
                vacant.insert(rows.len() as u32);
                self.rows.push_row(row);
                Ok((self.rows.len() - 1, true))
            }
        }
    }

    /// The position of the row that equals this one.
    pub(crate) fn find(&self, run: &Run<'_>, row: &[Value]) -> Option<usize> {
        let hash = hash_slots(&run.hashing, row, &self.slots);
        let same = |other: &u32| same_slots(self.rows.row(*other as usize), &self.slots, row, &self.slots);
        self.table.find(hash, same).map(|position| *position as usize)
    }

    fn forget(&mut self, run: &mut Run<'_>) {
        run.memory.release(std::mem::take(&mut self.bytes));
        *self = RowSet::new(self.rows.width(), std::mem::take(&mut self.slots));
    }
}

/// One row of each group of rows that are equal in some slots.
pub(crate) struct DistinctRows<'e> {
    input: Running<'e>,
    seen: RowSet,
}

impl<'e> DistinctRows<'e> {
    pub(crate) fn new(input: Running<'e>, width: usize, slots: &[usize]) -> DistinctRows<'e> {
        DistinctRows { input, seen: RowSet::new(width, slots.to_vec()) }
    }
}

impl<'e> Operator<'e> for DistinctRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        while let Some(mut batch) = self.input.next(run)? {
            batch.retain(|row| self.seen.add(run, row).map(|(_, is_new)| is_new))?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
            run.check_interrupt()?;
        }
        self.seen.forget(run);
        Ok(None)
    }
}

/// The first row of each run of rows that are equal in some slots.
pub(crate) struct FirstOfEach<'e> {
    pub(crate) input: Running<'e>,
    pub(crate) slots: &'e [usize],
    pub(crate) last: Option<Vec<Value>>,
}

impl<'e> Operator<'e> for FirstOfEach<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        while let Some(mut batch) = self.input.next(run)? {
            let (slots, last) = (self.slots, &mut self.last);
            batch.retain(|row| -> Result<bool> {
                let is_first = last.as_ref().is_none_or(|last| !same_slots(last, slots, row, slots));
                if is_first {
                    *last = Some(row.to_vec());
                }
                Ok(is_first)
            })?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// INTERSECT and EXCEPT: the right side's rows are counted, then the left side's rows are passed on or not.
pub(crate) struct SetRows<'e> {
    node: &'e SetOperationNode,
    left: Running<'e>,
    right: Option<Running<'e>>,
    rows: RowSet,
    /// For each row of `rows` how often the right side still has it; of a row that was given once, nothing.
    counts: Vec<u64>,
}

impl<'e> SetRows<'e> {
    pub(crate) fn new(node: &'e SetOperationNode, left: Running<'e>, right: Running<'e>) -> SetRows<'e> {
        let width = node.left.width;
        SetRows {
            node,
            left,
            right: Some(right),
            rows: RowSet::new(width, (0..width).collect()),
            counts: Vec::new(),
        }
    }

    fn keeps(&mut self, run: &mut Run<'e>, row: &[Value]) -> Result<bool> {
        let found = self.rows.find(run, row);
        let is_right = found.is_some_and(|position| self.counts[position] > 0);
        match (self.node.kind, self.node.all) {
            (SetOperation::Intersect, all) => {
                if let (Some(position), true) = (found, is_right) {
                    self.counts[position] = if all { self.counts[position] - 1 } else { 0 };
                }
                Ok(is_right)
            }
            (SetOperation::Except, true) => {
                if let (Some(position), true) = (found, is_right) {
                    self.counts[position] -= 1;
                }
                Ok(!is_right)
            }
            // What was given is put among the right side's rows, so that it is not given again.
            (SetOperation::Except, false) => {
                let (position, is_new) = self.rows.add(run, row)?;
                if is_new {
                    self.counts.push(1);
                }
                debug_assert!(position < self.counts.len());
                Ok(is_new)
            }
        }
    }
}

impl<'e> Operator<'e> for SetRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if let Some(mut right) = self.right.take() {
            while let Some(batch) = right.next(run)? {
                for row in batch.rows() {
                    let (position, is_new) = self.rows.add(run, row)?;
                    if is_new {
                        self.counts.push(0);
                    }
                    self.counts[position] += 1;
                }
            }
        }
        while let Some(mut batch) = self.left.next(run)? {
            batch.retain(|row| self.keeps(run, row))?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
            run.check_interrupt()?;
        }
        self.rows.forget(run);
        Ok(None)
    }
}
