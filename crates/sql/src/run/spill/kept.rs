//! Rows that are kept to be read in any order: those of a cursor, of a portal, of a COPY, of WITH, of a nested loop's right
//! side, and those that a statement returns until it is valid.
//!
//! # Invariants
//! - A batch is closed from [`BATCH_ROWS`] rows or [`BATCH_BYTES`] on. Rows for which memory has no room are in a
//!   temporary file, in closed batches; the [`READ_MAX`] batches that were read last are in memory, too, of wide rows
//!   one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use super::{BATCH_BYTES, decode, encode, failed, forget_large};
use crate::error::{Result, SqlError};
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::{Held, LEAST_BYTES, Memory, row_bytes};
use crate::types::Value;

/// The approximate memory of a table's row besides its values.
const ROW_BYTES: u64 = 48;

/// The number of a file's batches that are in memory: a reader may look at several places in turn.
const READ_MAX: usize = 4;
/// A batch that is larger, of wide rows, is the only one.
const READ_BYTES_MAX: usize = 4 * BATCH_BYTES;

/// A closed batch, and the number of its first row.
struct ClosedBatch {
    first: usize,
    location: BatchLocation,
}

/// The location of a closed batch.
enum BatchLocation {
    Memory(Batch),
    /// A batch in memory, in the form of the file.
    Packed(Box<[u8]>),
    /// Its offset in the file, and its length there.
    File(u64, usize),
}

/// Rows in memory, and beyond a limit in a temporary file.
pub(crate) struct KeptRows {
    closed: Vec<ClosedBatch>,
    /// Rows behind the closed batches, the number of the first, and what they take.
    last: Batch,
    last_first: usize,
    last_bytes: usize,
    /// The closed batch that was looked for last.
    near: usize,
    /// The bytes in memory, and the memory in which they have room.
    bytes: usize,
    memory: Memory,
    /// The part of the statement's memory that an operator's rows hold, and its limit.
    held: Held,
    held_max: usize,
    /// True if batches in memory are packed.
    is_packed: bool,
    file: Option<File>,
    /// The approximate size of the rows where they are stored.
    stored: u64,
    /// The offset at which the next batch is written.
    end: u64,
    /// The batches that were read last, with their numbers; the last one first.
    read: Vec<(usize, Batch)>,
    buffer: Vec<u8>,
}

impl KeptRows {
    /// Keeps as many rows in memory as it has room for.
    pub(crate) fn new(memory: Memory) -> KeptRows {
        KeptRows {
            closed: Vec::new(),
            last: Batch::new(0),
            last_first: 0,
            last_bytes: 0,
            near: 0,
            bytes: 0,
            memory,
            held: Held::default(),
            held_max: usize::MAX,
            is_packed: false,
            file: None,
            stored: 0,
            end: 0,
            read: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Keeps rows that [`push_moved`](Self::push_moved) and [`push_batch`](Self::push_batch) add in the statement's memory.
    pub(crate) fn of_operator() -> KeptRows {
        KeptRows::new(Memory::new(0))
    }

    /// Keeps rows in half of the statement's remaining memory: the other half is for data that cannot be written to
    /// files.
    pub(crate) fn in_half(memory: &Memory) -> KeptRows {
        KeptRows::in_part(memory, 2)
    }

    /// Keeps rows in the statement's remaining memory divided by `parts`.
    pub(crate) fn in_part(memory: &Memory, parts: usize) -> KeptRows {
        let held_max = memory.limit().saturating_sub(memory.used()) / parts;
        KeptRows { held_max, ..KeptRows::of_operator() }
    }

    /// Packs the rows in memory: they take less of it, and each reading unpacks them, a batch at a time.
    pub(crate) fn packed(self) -> KeptRows {
        KeptRows { is_packed: true, ..self }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.last_first + self.last.len()
    }

    /// Returns true if some of the rows are in a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The part of the statement's memory that an operator's rows hold.
    pub(crate) fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    /// The approximate size in a table of the rows that were pushed one by one.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.closed.clear();
        self.last = Batch::new(0);
        (self.last_first, self.last_bytes, self.near) = (0, 0, 0);
        self.memory.release(self.bytes);
        self.held.clear();
        (self.bytes, self.stored, self.end) = (0, 0, 0);
        self.read.clear();
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(crate) fn push(&mut self, row: &[Value]) -> Result<()> {
        if self.last.is_empty() {
            self.last = Batch::new(row.len());
        }
        self.last.push_row(row);
        self.stored += row.iter().map(|value| 8 + value.heap_size() as u64).sum::<u64>() + ROW_BYTES;
        self.last_bytes += row_bytes(row);
        self.close_full(None)
    }

    /// Adds an operator's row, whose values it moves out.
    ///
    /// # Errors
    /// Same errors as [`push`](Self::push).
    pub(crate) fn push_moved(&mut self, memory: &mut Memory, row: &mut [Value]) -> Result<()> {
        if self.last.is_empty() {
            self.last = Batch::new(row.len());
        }
        self.last_bytes += row_bytes(row);
        self.last.push(row.iter_mut().map(std::mem::take));
        self.close_full(Some(memory))
    }

    /// Adds the rows of a batch; `statement`: the memory of which an operator holds what fits.
    ///
    /// # Errors
    /// Same errors as [`push`](Self::push).
    pub(crate) fn push_batch(&mut self, statement: Option<&mut Memory>, batch: Batch) -> Result<()> {
        self.last_bytes += batch.rows().map(row_bytes).sum::<usize>();
        match self.last.is_empty() {
            true => self.last = batch,
            false => self.last.append(batch),
        }
        self.close_full(statement)
    }

    /// Closes the last batch if it is full.
    fn close_full(&mut self, statement: Option<&mut Memory>) -> Result<()> {
        let is_full = self.last.len() >= BATCH_ROWS || self.last_bytes >= BATCH_BYTES;
        if is_full { self.close_batch(statement) } else { Ok(()) }
    }

    fn close_batch(&mut self, statement: Option<&mut Memory>) -> Result<()> {
        let batch = std::mem::replace(&mut self.last, Batch::new(0));
        let bytes = std::mem::take(&mut self.last_bytes);
        if self.is_packed {
            encode(&batch, &mut self.buffer);
        }
        let bytes = if self.is_packed { self.buffer.len() } else { bytes };
        let first = self.last_first;
        self.last_first += batch.len();
        let location = match self.has_room(statement, bytes) {
            true if self.is_packed => BatchLocation::Packed(self.buffer.as_slice().into()),
            true => BatchLocation::Memory(batch),
            false => {
                if !self.is_packed {
                    encode(&batch, &mut self.buffer);
                }
                self.write()?
            }
        };
        self.closed.push(ClosedBatch { first, location });
        Ok(())
    }

    /// Returns true if this much more may be in memory; then it is counted.
    fn has_room(&mut self, statement: Option<&mut Memory>, bytes: usize) -> bool {
        if let Some(statement) = statement {
            let held = self.held.bytes() + bytes;
            return (held <= self.held_max || held <= LEAST_BYTES) && self.held.admit(statement, bytes);
        }
        let is_charged = self.memory.charge(bytes).is_ok();
        self.bytes += if is_charged { bytes } else { 0 };
        is_charged
    }

    /// Writes what the buffer holds.
    fn write(&mut self) -> Result<BatchLocation> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile().map_err(failed)?),
        };
        file.seek(SeekFrom::Start(self.end)).map_err(failed)?;
        file.write_all(&self.buffer).map_err(failed)?;
        let location = BatchLocation::File(self.end, self.buffer.len());
        self.end += self.buffer.len() as u64;
        forget_large(&mut self.buffer);
        Ok(location)
    }

    /// The row of this number, from 0.
    ///
    /// # Errors
    /// There is none; those of the temporary file.
    pub(crate) fn row(&mut self, number: usize) -> Result<&[Value]> {
        let (at, row) = self.locate(number);
        let batch = self.batch(at)?;
        if row < batch.len() { Ok(batch.row(row)) } else { Err(no_row()) }
    }

    /// The batch of the row of this number, and its place there.
    fn locate(&mut self, number: usize) -> (usize, usize) {
        if number >= self.last_first {
            return (self.closed.len(), number - self.last_first);
        }
        let end = |at: usize| self.closed.get(at + 1).map_or(self.last_first, |next| next.first);
        let is_near =
            |at: usize| self.closed.get(at).is_some_and(|it| it.first <= number) && number < end(at);
        if !is_near(self.near) {
            self.near = self.closed.partition_point(|it| it.first <= number).saturating_sub(1);
        }
        (self.near, number - self.closed[self.near].first)
    }

    /// The rows from this number on, as far as they are in one batch; none behind the last row.
    ///
    /// # Errors
    /// Same errors as [`row`](Self::row).
    pub(crate) fn rows_from(&mut self, number: usize) -> Result<Option<Batch>> {
        if number >= self.len() {
            return Ok(None);
        }
        let (at, row) = self.locate(number);
        let batch = self.batch(at)?;
        if row == 0 {
            return Ok(Some(batch.clone()));
        }
        let mut rest = Batch::with_capacity(batch.width(), batch.len() - row);
        (row..batch.len()).for_each(|row| rest.push_row(batch.row(row)));
        Ok(Some(rest))
    }

    /// The number of the first row of a batch.
    pub(crate) fn first_of(&self, batch: usize) -> usize {
        self.closed.get(batch).map_or(self.last_first, |closed| closed.first)
    }

    /// The number of batches.
    pub(crate) fn batches(&self) -> usize {
        self.closed.len() + usize::from(!self.last.is_empty())
    }

    /// The batch of this number, from 0.
    ///
    /// # Errors
    /// Same errors as [`row`](Self::row).
    pub(crate) fn batch(&mut self, number: usize) -> Result<&Batch> {
        if number == self.closed.len() {
            return Ok(&self.last);
        }
        let location = &self.closed.get(number).ok_or_else(no_row)?.location;
        if let BatchLocation::Memory(batch) = location {
            return Ok(batch);
        }
        match self.read.iter().position(|(known, _)| *known == number) {
            Some(0) => {}
            Some(place) => self.read[..=place].rotate_right(1),
            None => {
                let batch = match location {
                    BatchLocation::Packed(bytes) => decode(bytes)?,
                    &BatchLocation::File(offset, length) => {
                        let file = self.file.as_mut().ok_or_else(no_row)?;
                        self.buffer.resize(length, 0);
                        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
                        file.read_exact(&mut self.buffer).map_err(failed)?;
                        decode(&self.buffer)?
                    }
                    BatchLocation::Memory(_) => return Err(no_row()),
                };
                forget_large(&mut self.buffer);
                let bytes: usize = batch.rows().map(row_bytes).sum();
                self.read.truncate(if bytes > READ_BYTES_MAX { 0 } else { READ_MAX - 1 });
                self.read.insert(0, (number, batch));
            }
        }
        Ok(&self.read[0].1)
    }

    /// Passes all rows to `each`, in order.
    ///
    /// # Errors
    /// Those of `each`; those of the temporary file.
    pub(crate) fn each(&mut self, each: &mut dyn FnMut(&[Value]) -> Result<()>) -> Result<()> {
        (0..self.len()).try_for_each(|number| each(self.row(number)?))
    }
}

fn no_row() -> SqlError {
    SqlError::internal("a kept row is not there")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> [Value; 2] {
        [
            Value::Int8(number as i64),
            if number.is_multiple_of(3) { Value::Null } else { Value::text(format!("row {number}")) },
        ]
    }

    #[test]
    fn rows_are_there_in_any_order_in_memory_and_in_a_file() {
        // Nothing, some batches, all: packed batches take about a third.
        let limits = [
            (0, false),
            (100_000, false),
            (usize::MAX, false),
            (0, true),
            (30_000, true),
            (usize::MAX, true),
        ];
        for (limit, is_packed) in limits {
            let mut kept = KeptRows { is_packed, ..KeptRows::new(Memory::new(limit)) };
            let count = 3 * BATCH_ROWS + 7;
            for round in 0..2 {
                (0..count).for_each(|number| kept.push(&row(number)).expect("a temporary file"));
                assert_eq!((kept.len(), kept.file.is_some()), (count, limit < usize::MAX), "{round}");
                for number in [0, count - 1, BATCH_ROWS, 2 * BATCH_ROWS + 5, BATCH_ROWS - 1, 1] {
                    assert_eq!(kept.row(number).expect("a row"), row(number), "{limit}");
                }
                let mut next = 0;
                kept.each(&mut |found| {
                    assert_eq!(found, row(next));
                    next += 1;
                    Ok(())
                })
                .expect("all rows");
                assert_eq!(next, count);
                assert!(kept.row(count).is_err());
                kept.clear();
                assert_eq!(kept.len(), 0);
            }
        }
    }

    #[test]
    fn batches_of_every_length_are_taken() {
        let mut kept = KeptRows::new(Memory::new(0));
        let mut count = 0;
        for length in [1, BATCH_ROWS, 5, 0, 2 * BATCH_ROWS, BATCH_ROWS - 6, BATCH_ROWS] {
            let mut batch = Batch::new(2);
            (count..count + length).for_each(|number| batch.push(row(number)));
            count += length;
            kept.push_batch(None, batch).expect("a temporary file");
        }
        assert_eq!(kept.len(), count);
        (0..count).for_each(|number| assert_eq!(kept.row(number).expect("a row"), row(number)));
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut kept = KeptRows::new(Memory::new(0));
        (0..BATCH_ROWS + 1).for_each(|_| kept.push(&[]).expect("a temporary file"));
        assert_eq!(kept.len(), BATCH_ROWS + 1);
        assert!(kept.row(0).is_ok_and(<[Value]>::is_empty));
    }
}
