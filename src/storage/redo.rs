//! Redo: what a commit writes to the log, and how recovery reads it back.
//!
//! ```text
//! transaction   stamp 8 · bytes that follow 4 · changes …
//! change        kind 1 (1 row, 2 columns, 3 gone, 4 merged: see `merged`) · table id · schema version · key bytes · key · …
//!   row         every column's value, in order
//!   columns     how many · (column, value) …
//!   gone        nothing
//! value         0 NULL · 1 the value · 2 how many operands, and each: a top-K insert's entries
//! ```
//! Numbers are variable-length (LEB128), signed ones in zigzag. A value is written by its column's type: bool 1 byte,
//! integers, dates, timestamps and decimals as signed numbers, floats 8 bytes, UUIDs 16, the rest length and bytes.
//! Redo is physical, the new values of columns, except that a top-K insert logs the inserted entries,
//! which are far smaller than the set: entering twice changes nothing. Secondary indexes are not logged.

use bumpalo::Bump;

use crate::error::{Error, Result};
use crate::operation::{Applied, Operation};
use crate::storage::row::RowLayout;
use crate::storage::table::{MAXIMAL_KEY_BYTES, TableCore};
use crate::storage::word::Stamp;
use crate::storage::write_set::{Effect, WriteSet};
use crate::types::memory::Refused;
use crate::types::{DataType, Date, Decimal, Timestamp, Uuid, ValueRef};

mod changed;
mod copied;
mod loaded;
pub(crate) use changed::LoggedColumn;
pub(crate) use copied::{COPIED_BYTES_MIN, CopiedHead, append_copied};
pub(crate) use loaded::{LoadedRedo, RedoPart, TemporaryFiles};
mod merged;
mod varint;
pub(crate) use merged::MergedHead;
pub(crate) use merged::append_merged;
use varint::{number, signed, wide};

/// The schema version of every table without added columns. Each column that is added to a table's records raises it by one.
pub(crate) const SCHEMA_VERSION: u64 = 1;
/// The most bytes that one transaction's redo may take: its length has 32 bits in the log.
pub(crate) const MAXIMAL_REDO_BYTES: usize = 2 << 30;
const HEAD_BYTES: usize = 12;
/// More bytes than a change's head has, without its key; and than a value of one word.
const HEAD_BYTES_MAX: usize = 64;
const COLUMN_BYTES_MAX: usize = 40;
const ROW: u8 = 1;
const COLUMNS: u8 = 2;
const GONE: u8 = 3;
const NULL: u8 = 0;
const VALUE: u8 = 1;
const OPERANDS: u8 = 2;

/// Leaves room for a transaction's head; returns its offset.
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    start
}

/// Fills in a transaction's length.
pub(crate) fn finish(out: &mut [u8], start: usize) {
    finish_before(out, start, 0);
}

/// Fills in the length of a transaction of whose changes the last `behind` bytes are elsewhere.
pub(crate) fn finish_before(out: &mut [u8], start: usize, behind: usize) {
    let bytes = (out.len() - start - HEAD_BYTES + behind) as u32;
    out[start + 8..start + HEAD_BYTES].copy_from_slice(&bytes.to_le_bytes());
}

/// Returns true if a transaction has no changes.
pub(crate) fn is_empty(transaction: &[u8]) -> bool {
    transaction.len() <= HEAD_BYTES
}

/// Fills in a transaction's stamp.
pub(crate) fn set_stamp(out: &mut [u8], start: usize, stamp: Stamp) {
    out[start..start + 8].copy_from_slice(&stamp.to_bits().to_le_bytes());
}

/// Appends the change of a record to this row.
///
/// # Safety
/// `image` is a row of the table with live blocks.
pub(crate) unsafe fn append_row(out: &mut Vec<u8>, table: &TableCore, key: &[u8], image: &[u64]) {
    append_head(out, ROW, table, key);
    for column in 0..table.layout().len() {
        // SAFETY: the caller's promise.
        value(out, unsafe { table.layout().value(image, column) });
    }
}

/// An upper bound on the bytes of a record's change, without its long values.
pub(crate) fn change_bytes_max(table: &TableCore, key: &[u8]) -> usize {
    HEAD_BYTES_MAX + key.len() + COLUMN_BYTES_MAX * table.layout().len()
}

fn append_head(out: &mut Vec<u8>, kind: u8, table: &TableCore, key: &[u8]) {
    out.push(kind);
    number(out, u64::from(table.id()));
    number(out, table.row_version());
    bytes(out, key);
}

/// Appends the effect of the writes to the record at `position`, without these columns.
///
/// # Safety
/// `image` is a row of the table with live blocks.
pub(crate) unsafe fn append_change(
    out: &mut Vec<u8>,
    writes: &WriteSet,
    (position, but): (usize, &[u16]),
    effect: Effect,
    image: &[u64],
) {
    let touched = writes.touched()[position];
    let table = touched.table();
    // SAFETY: the call is pinned, so every record that it touched is alive.
    let key = unsafe { touched.record.as_record() }.key();
    match effect {
        // SAFETY: the caller's promise.
        Effect::Row => unsafe { append_row(out, table, key, image) },
        Effect::Gone => append_head(out, GONE, table, key),
        Effect::Changed => {
            append_head(out, COLUMNS, table, key);
            let mut columns = 0;
            writes.changed_columns((position, but), |_| columns += 1);
            number(out, columns);
            // SAFETY: the caller's promise.
            writes.changed_columns((position, but), |column| unsafe {
                append_column(out, writes, position, column, image)
            });
        }
    }
}

/// Appends the change of columns of a record, which hold numbers or times in one word, to these values; decimals are
/// unscaled.
#[inline]
pub(crate) fn append_numbers(
    out: &mut Vec<u8>,
    table: &TableCore,
    key: &[u8],
    numbers: impl ExactSizeIterator<Item = (usize, i64)>,
) {
    append_head(out, COLUMNS, table, key);
    number(out, numbers.len() as u64);
    for (column, new) in numbers {
        number(out, column as u64);
        out.push(VALUE);
        signed(out, new);
    }
}

/// # Safety
/// Same duties as for [`append_change`].
unsafe fn append_column(out: &mut Vec<u8>, writes: &WriteSet, position: usize, column: usize, image: &[u64]) {
    let layout = writes.touched()[position].table().layout();
    number(out, column as u64);
    if let DataType::TopK { .. } = layout.column(column).data_type {
        let start = out.len();
        out.push(OPERANDS);
        let mut operands = 0;
        writes.operands(position, column, Operation::TopKInsert, |_| operands += 1);
        number(out, operands);
        let mut only_entries = true;
        let only_operands = writes.operands(position, column, Operation::TopKInsert, |operand| {
            only_entries &= matches!(operand, ValueRef::Tuple(_) | ValueRef::Null);
            value(out, operand);
        });
        if only_operands && only_entries {
            return;
        }
        out.truncate(start);
    }
    // SAFETY: the caller's promise.
    value(out, unsafe { layout.value(image, column) });
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    if let ValueRef::Null = value {
        out.push(NULL);
        return;
    }
    out.push(VALUE);
    match value {
        ValueRef::Null => {}
        ValueRef::Bool(value) => out.push(u8::from(value)),
        ValueRef::Int(value) => signed(out, value),
        ValueRef::Float(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
        ValueRef::Decimal(value) => wide(out, value.unscaled()),
        ValueRef::Date(value) => signed(out, i64::from(value.days())),
        ValueRef::Timestamp(value) => signed(out, value.microseconds()),
        ValueRef::Uuid(value) => out.extend_from_slice(&value.bytes()),
        ValueRef::Text(text) => bytes(out, text.as_bytes()),
        ValueRef::Bytes(slice) | ValueRef::Tuple(slice) | ValueRef::TopK(slice) => bytes(out, slice),
    }
}

/// One transaction in a log group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedTransaction<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) changes: &'a [u8],
}

/// Splits a worker context's part of a group into its transactions.
///
/// # Errors
/// The bytes are no redo.
pub(crate) fn split_transactions(mut group: &[u8]) -> Result<Vec<LoggedTransaction<'_>>> {
    let mut transactions = Vec::new();
    while !group.is_empty() {
        let mut reader = Reader::new(group);
        let stamp = u64::from_le_bytes(reader.array()?);
        let length = u32::from_le_bytes(reader.array()?) as usize;
        transactions
            .push(LoggedTransaction { stamp: Stamp::from_bits(stamp), changes: reader.take(length)? });
        group = reader.rest;
    }
    Ok(transactions)
}

/// A logged change of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedChange {
    /// The whole row is set.
    Row,
    /// Some columns are set.
    Columns,
    /// The record is deleted.
    Gone,
}

/// Reads the changes of one transaction, one after the other.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The schema version of the change whose head was read last.
    version: u64,
}

/// The head of a change: what it does, and to which record.
#[derive(Debug)]
pub(crate) struct ChangeHead<'a> {
    pub(crate) change: LoggedChange,
    pub(crate) table: u32,
    pub(crate) key: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of the changes of one transaction.
    pub(crate) fn new(changes: &'a [u8]) -> Self {
        Reader { rest: changes, version: SCHEMA_VERSION }
    }

    /// The number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next change's head; its values must be read next ([`Reader::apply`]).
    ///
    /// # Errors
    /// The bytes are no redo.
    pub(crate) fn next_head(&mut self) -> Result<Option<ChangeHead<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let change = match self.byte()? {
            ROW => LoggedChange::Row,
            COLUMNS => LoggedChange::Columns,
            GONE => LoggedChange::Gone,
            other => return Err(malformed(format!("change of kind {other}"))),
        };
        let (table, key) = self.record()?;
        Ok(Some(ChangeHead { change, table, key }))
    }

    /// The record that is changed: its table's id, and its key.
    fn record(&mut self) -> Result<(u32, &'a [u8])> {
        Ok((self.table()?, self.key()?))
    }

    /// A record's key.
    fn key(&mut self) -> Result<&'a [u8]> {
        let key = self.bytes()?;
        if key.len() > MAXIMAL_KEY_BYTES {
            return Err(malformed(format!("a key of {} bytes", key.len())));
        }
        Ok(key)
    }

    /// A table's id, with a schema version that is known.
    fn table(&mut self) -> Result<u32> {
        let table = u32::try_from(self.number()?).map_err(|_| malformed("a table id over 32 bits".into()))?;
        self.version = self.number()?;
        Ok(table)
    }

    /// The schema version of the change whose head was read last: its table's definition must be of that version or a later
    /// one.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The number of columns of the row whose head was read last.
    fn columns(&self, table: &TableCore) -> Result<usize> {
        table
            .definition()
            .columns_of_version(self.version)
            .ok_or_else(|| malformed(format!("schema version {} of table {}", self.version, table.id())))
    }

    fn column_position(&mut self, table: &TableCore) -> Result<usize> {
        let column = self.number()? as usize;
        if column >= table.layout().len() {
            return Err(unknown_column(table, column));
        }
        Ok(column)
    }

    /// Reads the values of the change whose head was read last, and applies them to `row`.
    ///
    /// # Errors
    /// The bytes are no redo of this table.
    pub(crate) fn apply(
        &mut self,
        change: LoggedChange,
        table: &TableCore,
        row: &mut [u64],
        arena: &Bump,
    ) -> Result<()> {
        let layout = table.layout();
        match change {
            LoggedChange::Gone => Ok(()),
            LoggedChange::Row => {
                let columns = self.columns(table)?;
                row.fill(0);
                (0..columns).try_for_each(|column| self.column(layout, column, row, arena))?;
                layout.complete_columns(row, columns);
                Ok(())
            }
            LoggedChange::Columns => {
                for _ in 0..self.number()? {
                    let column = self.column_position(table)?;
                    self.column(layout, column, row, arena)?;
                }
                Ok(())
            }
        }
    }

    /// Reads past the values of the change whose head was read last: its record is newer.
    ///
    /// # Errors
    /// The bytes are no redo of this table.
    pub(crate) fn skip(&mut self, change: LoggedChange, table: &TableCore) -> Result<()> {
        let layout = table.layout();
        let columns = match change {
            LoggedChange::Gone => 0,
            LoggedChange::Row => self.columns(table)? as u64,
            LoggedChange::Columns => self.number()?,
        };
        for next in 0..columns {
            let column =
                if change == LoggedChange::Row { next as usize } else { self.column_position(table)? };
            self.skip_column(&layout.column(column).data_type)?;
        }
        Ok(())
    }

    fn skip_column(&mut self, data_type: &DataType) -> Result<()> {
        match self.byte()? {
            NULL => {}
            VALUE => drop(self.value(data_type)?),
            OPERANDS => {
                for _ in 0..self.number()? {
                    if self.byte()? == VALUE {
                        self.bytes()?;
                    }
                }
            }
            other => return Err(malformed(format!("value of kind {other}"))),
        }
        Ok(())
    }

    fn column(&mut self, layout: &RowLayout, column: usize, row: &mut [u64], arena: &Bump) -> Result<()> {
        let data_type = &layout.column(column).data_type;
        match self.byte()? {
            NULL => layout.put(row, column, ValueRef::Null, arena).map_err(Refused::error)?,
            VALUE => {
                let value = self.value(data_type)?;
                layout.put(row, column, value, arena).map_err(Refused::error)?;
            }
            OPERANDS => {
                let mut buffer = Vec::new();
                for _ in 0..self.number()? {
                    if self.byte()? != VALUE {
                        continue;
                    }
                    let operand = ValueRef::Tuple(self.bytes()?);
                    let words = arena.alloc_slice_copy(row);
                    // SAFETY: the row is recovery's own image, its blocks are in the arena or in the installed row.
                    let current = unsafe { layout.value(words, column) };
                    buffer.clear();
                    match Operation::TopKInsert.apply(current, operand, data_type, &mut buffer)? {
                        Applied::Unchanged => {}
                        changed => layout
                            .put(row, column, changed.value(current, &buffer), arena)
                            .map_err(Refused::error)?,
                    }
                }
            }
            other => return Err(malformed(format!("value of kind {other}"))),
        }
        Ok(())
    }

    fn value(&mut self, data_type: &DataType) -> Result<ValueRef<'a>> {
        Ok(match *data_type {
            DataType::Bool => ValueRef::Bool(self.byte()? != 0),
            DataType::Int32 | DataType::Int64 => ValueRef::Int(self.signed()?),
            DataType::Float64 => ValueRef::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            DataType::Decimal { scale, .. } => ValueRef::Decimal(Decimal::from_stored(self.wide()?, scale)),
            DataType::Date => {
                let days =
                    i32::try_from(self.signed()?).map_err(|_| malformed("a date out of range".into()))?;
                ValueRef::Date(Date::from_stored(days))
            }
            DataType::Timestamp => ValueRef::Timestamp(Timestamp::from_stored(self.signed()?)),
            DataType::Uuid => ValueRef::Uuid(Uuid::from_bytes(self.array()?)),
            DataType::Text => {
                let text = std::str::from_utf8(self.bytes()?)
                    .map_err(|_| malformed("a text not in UTF-8".into()))?;
                ValueRef::Text(text)
            }
            DataType::Bytes => ValueRef::Bytes(self.bytes()?),
            DataType::OrderedTuple(_) => ValueRef::Tuple(self.bytes()?),
            DataType::TopK { .. } => ValueRef::TopK(self.bytes()?),
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(malformed(format!("{length} bytes wanted, {} left", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                Ok(byte)
            }
            None => Ok(self.array::<1>()?[0]),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length =
            usize::try_from(self.number()?).map_err(|_| malformed("a length over 64 bits".into()))?;
        self.take(length)
    }
}

fn unknown_column(table: &TableCore, column: usize) -> Error {
    malformed(format!("column {column} of table {:?}", table.definition().name()))
}

fn malformed(detail: String) -> Error {
    Error::Malformed { what: "redo of this database", detail }
}
