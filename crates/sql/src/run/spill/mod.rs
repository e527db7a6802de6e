//! Rows in temporary files, in batches.
//!
//! A batch is the number of its rows and the row's width, then the values one after the other (`value`); numbers are
//! little-endian. The files have no names: they end with the process.
//!
//! # Invariants
//! - A file is read by the process that wrote it: nothing in it is checked against damage.
//! - A writer and a reader hold one batch, of at most [`BATCH_ROWS`] rows or about [`BATCH_BYTES`].

mod division;
mod kept;
mod runs;
mod set;

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use crate::error::{Result, SqlError, SqlState};
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::row_bytes;
use crate::storage::bytes::{read_u32, read_value, write_value};
use crate::types::Value;

pub(crate) use division::{Division, Part};
pub(crate) use kept::KeptRows;
pub(crate) use runs::{Merging, SortedRuns};
pub(crate) use set::{KeptSet, ROWS_PARTS};

/// The size at which a batch is written.
const BATCH_BYTES: usize = 32 << 10;

fn failed(error: std::io::Error) -> SqlError {
    let state = match error.kind() {
        std::io::ErrorKind::StorageFull => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    let directory = std::env::temp_dir();
    SqlError::new(state, format!("a temporary file in {} failed: {error}", directory.display()))
}

/// A writer of rows. The file is made when the first batch is written.
pub(crate) struct Writer {
    file: Option<BufWriter<File>>,
    rows: Batch,
    /// The memory of the rows.
    bytes: usize,
    /// The memory of the largest batch that was written.
    bytes_max: usize,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { file: None, rows: Batch::new(0), bytes: 0, bytes_max: 0, buffer: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: &[Value]) -> Result<()> {
        if self.rows.is_empty() {
            self.rows = Batch::new(row.len());
        }
        self.rows.push_row(row);
        self.bytes += row_bytes(row);
        if self.rows.is_full() || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Adds a row of these values and one more.
    pub(crate) fn push_with(&mut self, row: &[Value], last: Value) -> Result<()> {
        if self.rows.is_empty() {
            self.rows = Batch::new(row.len() + 1);
        }
        self.bytes += row_bytes(row) + row_bytes(std::slice::from_ref(&last));
        self.rows.push_joined(row, &[last]);
        if self.rows.is_full() || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Adds the rows of a batch.
    pub(crate) fn write(&mut self, batch: &Batch) -> Result<()> {
        batch.rows().try_for_each(|row| self.push(row))
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        encode(&std::mem::replace(&mut self.rows, Batch::new(0)), &mut self.buffer);
        self.bytes_max = self.bytes_max.max(std::mem::take(&mut self.bytes));
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(tempfile::tempfile().map_err(failed)?)),
        };
        file.write_all(&(self.buffer.len() as u64).to_le_bytes()).map_err(failed)?;
        file.write_all(&self.buffer).map_err(failed)?;
        forget_large(&mut self.buffer);
        Ok(())
    }

    /// Ends the writing.
    pub(crate) fn into_reader(mut self) -> Result<Reader> {
        self.flush()?;
        let Some(file) = self.file else { return Ok(Reader { file: None, buffer: Vec::new() }) };
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Reader { file: Some(BufReader::new(file)), buffer: Vec::new() })
    }
}

/// A reader of the rows in the order in which they were written.
pub(crate) struct Reader {
    file: Option<BufReader<File>>,
    buffer: Vec<u8>,
}

impl Reader {
    /// The next rows.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut length = [0; 8];
        match file.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        self.buffer.resize(u64::from_le_bytes(length) as usize, 0);
        file.read_exact(&mut self.buffer).map_err(failed)?;
        let batch = decode(&self.buffer)?;
        forget_large(&mut self.buffer);
        Ok(Some(batch))
    }

    /// Returns to the first row.
    pub(crate) fn rewind(&mut self) -> Result<()> {
        self.file.iter_mut().try_for_each(|file| file.rewind()).map_err(failed)
    }
}

/// Releases a buffer's memory if a wide row has made it large: many files are open at a time.
fn forget_large(buffer: &mut Vec<u8>) {
    if buffer.capacity() > 2 * BATCH_BYTES {
        *buffer = Vec::new();
    }
}

/// Writes a batch in place of what the buffer holds.
fn encode(rows: &Batch, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&(rows.width() as u32).to_le_bytes());
    for value in rows.rows().flatten() {
        write_value(value, buffer);
    }
}

fn decode(mut bytes: &[u8]) -> Result<Batch> {
    let damaged = || SqlError::internal("a temporary file is damaged");
    let rows = read_u32(&mut bytes).ok_or_else(damaged)? as usize;
    let width = read_u32(&mut bytes).ok_or_else(damaged)? as usize;
    let mut batch = Batch::with_capacity(width, rows.min(BATCH_ROWS));
    for _ in 0..rows {
        for slot in batch.push_nulls() {
            *slot = read_value(&mut bytes).ok_or_else(damaged)?;
        }
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_and_whole() {
        let mut writer = Writer::new();
        let row = |number: i64| {
            vec![
                Value::Int8(number),
                Value::text(format!("row {number}")),
                Value::Null,
                Value::Bool(number % 2 == 0),
            ]
        };
        (0..3_000).for_each(|number| writer.push(&row(number)).unwrap());
        let mut reader = writer.into_reader().unwrap();
        let mut number = 0;
        while let Some(batch) = reader.next().unwrap() {
            for read in batch.rows() {
                assert_eq!(read, &row(number)[..]);
                number += 1;
            }
        }
        assert_eq!(number, 3_000);
        assert!(reader.next().unwrap().is_none(), "the end stays the end");
        reader.rewind().unwrap();
        assert_eq!(reader.next().unwrap().map(|batch| batch.row(0).to_vec()), Some(row(0)));
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut writer = Writer::new();
        (0..5).for_each(|_| writer.push(&[]).unwrap());
        assert_eq!(writer.into_reader().unwrap().next().unwrap().map(|batch| batch.len()), Some(5));
    }

    #[test]
    fn nothing_written_is_nothing_read() {
        assert!(Writer::new().into_reader().unwrap().next().unwrap().is_none());
    }
}
