//! DISTINCT, DISTINCT ON, INTERSECT and EXCEPT.
//!
//! # Invariants
//! - NULL equals NULL. Of equal rows the first one read is kept, so that an order below DISTINCT survives.
//! - Beyond the memory limit, rows that equal none in memory are written to files, divided by their hash, and looked at part
//!   after part. From the first such row on no row is added in memory: an equal one may be in a file.
//! - At least one row is in memory before others are written, so that each part has fewer different rows than the whole.

use hashbrown::HashTable;

use crate::error::Result;
use crate::plan::node::{SetOperation, SetOperationNode, SortKey};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::{Operator, Running};
use crate::run::order::{hash_slots, same_slots};
use crate::run::spill::{Division, Merging, Part, Reader, SortedRuns, Writer};
use crate::types::Value;

/// Rows, each of which is there once, found by the values in some slots.
struct RowSet {
    rows: Batch,
    slots: Vec<usize>,
    table: HashTable<u32>,
    held: Held,
}

/// The result of adding a row to a [`RowSet`].
enum Added {
    /// An equal one is there, at this position.
    Found(usize),
    /// The row is new, and the last one now.
    New,
    /// The row would be new, but has no room; its hash.
    NoRoom(u64),
}

impl RowSet {
    fn new(width: usize, slots: Vec<usize>) -> RowSet {
        RowSet { rows: Batch::new(width), slots, table: HashTable::new(), held: Held::default() }
    }

    /// Adds a row unless an equal one is there, or others are in files already, or there is no room. The first row is added
    /// however large it is: in a file, it would be as large when it is read again.
    fn add_or_spill(&mut self, run: &mut Run<'_>, row: &[Value], has_files: bool) -> Added {
        let (rows, slots) = (&self.rows, &self.slots);
        let hash = hash_slots(&run.hashing, row, slots);
        let entry = self.table.entry(
            hash,
            |&other| same_slots(rows.row(other as usize), slots, row, slots),
            |&other| hash_slots(&run.hashing, rows.row(other as usize), slots),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => Added::Found(*found.get() as usize),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                let bytes = row_bytes(row) + 8;
                if has_files || !self.held.admit_first(&mut run.memory, bytes) {
                    return Added::NoRoom(hash);
                }
                vacant.insert(rows.len() as u32);
                self.rows.push_row(row);
                Added::New
            }
        }
    }

    /// The position of the row that equals this one.
    fn find(&self, run: &Run<'_>, row: &[Value]) -> Option<usize> {
        let hash = hash_slots(&run.hashing, row, &self.slots);
        let same = |other: &u32| same_slots(self.rows.row(*other as usize), &self.slots, row, &self.slots);
        self.table.find(hash, same).map(|position| *position as usize)
    }

    fn forget(&mut self) {
        *self = RowSet::new(self.rows.width(), std::mem::take(&mut self.slots));
    }
}

/// One row of each group of rows that are equal in some slots.
pub(crate) struct DistinctRows<'e> {
    input: Running<'e>,
    seen: RowSet,
    /// Rows beyond the memory limit, numbered in one more slot.
    division: Option<Division<1>>,
    numbered: i64,
    /// The first ones of those, in their order.
    rest: Option<Merging>,
}

impl<'e> DistinctRows<'e> {
    pub(crate) fn new(input: Running<'e>, width: usize, slots: &[usize]) -> DistinctRows<'e> {
        let seen = RowSet::new(width, slots.to_vec());
        DistinctRows { input, seen, division: None, numbered: 0, rest: None }
    }

    /// The order of numbered rows.
    fn by_number(&self) -> [SortKey; 1] {
        [SortKey { slot: self.seen.rows.width(), descending: false, nulls_first: false }]
    }

    /// Returns true if a row is the first of its kind in memory; one that may be in a file is written there.
    fn is_first(&mut self, run: &mut Run<'e>, row: &[Value]) -> Result<bool> {
        match self.seen.add_or_spill(run, row, self.division.is_some()) {
            Added::New => Ok(true),
            Added::Found(_) => Ok(false),
            Added::NoRoom(hash) => {
                let division = match &mut self.division {
                    Some(division) => division,
                    None => self.division.insert(Division::new(0)),
                };
                division.push_with(0, hash, row, Value::Int8(self.numbered))?;
                self.numbered += 1;
                Ok(false)
            }
        }
    }

    /// The first rows of each kind among those in files.
    fn look_at_files(&self, run: &mut Run<'e>, division: Division<1>) -> Result<Merging> {
        let order = self.by_number();
        let mut runs = SortedRuns::default();
        let mut parts: Vec<Part<1>> = division.into_parts().collect();
        while let Some(part) = parts.pop() {
            let ([mut reader], level) = part.read()?;
            let mut seen = RowSet::new(self.seen.rows.width() + 1, self.seen.slots.clone());
            let mut division: Option<Division<1>> = None;
            while let Some(batch) = reader.next()? {
                for row in batch.rows() {
                    if let Added::NoRoom(hash) = seen.add_or_spill(run, row, division.is_some()) {
                        let division = match &mut division {
                            Some(division) => division,
                            None => division.insert(Division::new(level)),
                        };
                        division.push(0, hash, row)?;
                    }
                }
                run.check_interrupt()?;
            }
            parts.extend(division.into_iter().flat_map(Division::into_parts));
            // Rows are in a part in the order of their numbers.
            let mut writer = Writer::new();
            writer.write(&seen.rows)?;
            seen.forget();
            runs.push(writer, &order)?;
        }
        runs.merge(&order)
    }
}

impl<'e> Operator<'e> for DistinctRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if self.rest.is_none() {
            while let Some(mut batch) = self.input.next(run)? {
                batch.retain(|row| self.is_first(run, row))?;
                if !batch.is_empty() {
                    return Ok(Some(batch));
                }
                run.check_interrupt()?;
            }
            self.seen.forget();
            let Some(division) = self.division.take() else { return Ok(None) };
            self.rest = Some(self.look_at_files(run, division)?);
        }
        let order = self.by_number();
        let Some(numbered) = self.rest.as_mut().map(|rest| rest.next(&order)).transpose()?.flatten() else {
            return Ok(None);
        };
        let width = numbered.width() - 1;
        let mut batch = Batch::with_capacity(width, numbered.len());
        numbered.rows().for_each(|row| batch.push_row(&row[..width]));
        Ok(Some(batch))
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
    /// The inputs, then those of each part.
    right: Option<Source<'e>>,
    left: Source<'e>,
    rows: RowSet,
    /// The number of equal rows that the right side still has, for each row of `rows`; 0 for a row that was given once.
    counts: Vec<u64>,
    /// The files to which rows of both sides are written beyond the memory limit, and the level of their division.
    division: Option<Division<2>>,
    level: u32,
    parts: Vec<Part<2>>,
}

/// The positions of the two sides in a part.
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// The source of rows.
enum Source<'e> {
    Input(Running<'e>),
    File(Reader),
}

impl<'e> Source<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        match self {
            Source::Input(input) => input.next(run),
            Source::File(reader) => reader.next(),
        }
    }
}

impl<'e> SetRows<'e> {
    pub(crate) fn new(node: &'e SetOperationNode, left: Running<'e>, right: Running<'e>) -> SetRows<'e> {
        let width = node.left.width;
        SetRows {
            node,
            left: Source::Input(left),
            right: Some(Source::Input(right)),
            rows: RowSet::new(width, (0..width).collect()),
            counts: Vec::new(),
            division: None,
            level: 0,
            parts: Vec::new(),
        }
    }

    fn put_aside(&mut self, side: usize, hash: u64, row: &[Value]) -> Result<()> {
        let division = match &mut self.division {
            Some(division) => division,
            None => self.division.insert(Division::new(self.level)),
        };
        division.push(side, hash, row)
    }

    fn count_right(&mut self, run: &mut Run<'e>, right: &mut Source<'e>) -> Result<()> {
        while let Some(batch) = right.next(run)? {
            for row in batch.rows() {
                match self.rows.add_or_spill(run, row, self.division.is_some()) {
                    Added::New => self.counts.push(1),
                    Added::Found(position) => self.counts[position] += 1,
                    Added::NoRoom(hash) => self.put_aside(RIGHT, hash, row)?,
                }
            }
            run.check_interrupt()?;
        }
        Ok(())
    }

    /// Returns true if a row of the left side is passed on now.
    fn keeps(&mut self, run: &mut Run<'e>, row: &[Value]) -> Result<bool> {
        if (self.node.kind, self.node.all) == (SetOperation::Except, false) {
            // What was given is put among the right side's rows, so that it is not given again.
            return match self.rows.add_or_spill(run, row, self.division.is_some()) {
                Added::New => Ok(true),
                Added::Found(_) => Ok(false),
                Added::NoRoom(hash) => self.put_aside(LEFT, hash, row).map(|()| false),
            };
        }
        let Some(position) = self.rows.find(run, row) else {
            if self.division.is_some() {
                let hash = hash_slots(&run.hashing, row, &self.rows.slots);
                return self.put_aside(LEFT, hash, row).map(|()| false);
            }
            return Ok(self.node.kind == SetOperation::Except);
        };
        let count = &mut self.counts[position];
        let is_right = *count > 0;
        match self.node.all {
            true => *count = count.saturating_sub(1),
            false => *count = 0,
        }
        Ok(is_right == (self.node.kind == SetOperation::Intersect))
    }

    /// Advances to the next part on disk; returns false if there is none.
    fn next_part(&mut self) -> Result<bool> {
        self.rows.forget();
        self.counts.clear();
        self.parts.extend(self.division.take().into_iter().flat_map(Division::into_parts));
        let Some(part) = self.parts.pop() else { return Ok(false) };
        let ([left, right], level) = part.read()?;
        (self.left, self.right, self.level) = (Source::File(left), Some(Source::File(right)), level);
        Ok(true)
    }
}

impl<'e> Operator<'e> for SetRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        loop {
            if let Some(mut right) = self.right.take() {
                self.count_right(run, &mut right)?;
            }
            while let Some(mut batch) = self.left.next(run)? {
                batch.retain(|row| self.keeps(run, row))?;
                if !batch.is_empty() {
                    return Ok(Some(batch));
                }
                run.check_interrupt()?;
            }
            if !self.next_part()? {
                return Ok(None);
            }
        }
    }
}
