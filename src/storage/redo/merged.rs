//! Redo of split columns: per worker context and epoch, one merged operation for each.
//!
//! ```text
//! change        kind 1 (4 merged) · table id · schema version · key bytes · key · since · how many · columns …
//!   column      position · operation code 1 · operand
//! operand       kind 1 · 1 integer: signed number
//!                        2 float: 8 bytes
//!                        3 decimal: scale 1 · signed number of up to 128 bits
//!                        4 date, 5 timestamp: signed number
//!                        6 ordered tuple, 7 top-K set: length · bytes
//! ```
//! An operand says itself of what kind it is, because merged operands need not be values of their column: a sum of
//! integers may be beyond 64 bits (a decimal), and a top-K column's operand may be one entry. `since` is the first
//! epoch of the split phase. A transaction has merged changes only, or none.

use super::{LoggedTransaction, Reader, bytes, malformed, number, signed, wide};
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::storage::table::TableCore;
use crate::types::{Date, Decimal, Timestamp, ValueRef};

const MERGED: u8 = 4;
const INT: u8 = 1;
const FLOAT: u8 = 2;
const DECIMAL: u8 = 3;
const DATE: u8 = 4;
const TIMESTAMP: u8 = 5;
const TUPLE: u8 = 6;
const TOP_K: u8 = 7;

/// Appends to a transaction, of a table of this schema version, a worker context's merged operations of one epoch on one record's split columns. The
/// split phase began with the epoch `since`.
pub(crate) fn append_merged(
    out: &mut Vec<u8>,
    (table_id, version): (u32, u64),
    key: &[u8],
    since: u64,
    columns: &[(usize, Operation, ValueRef<'_>)],
) {
    out.push(MERGED);
    number(out, u64::from(table_id));
    number(out, version);
    bytes(out, key);
    number(out, since);
    number(out, columns.len() as u64);
    for &(column, operation, operand) in columns {
        number(out, column as u64);
        out.push(operation.code());
        append_operand(out, operand);
    }
}

fn append_operand(out: &mut Vec<u8>, operand: ValueRef<'_>) {
    match operand {
        ValueRef::Int(value) => {
            out.push(INT);
            signed(out, value);
        }
        ValueRef::Float(value) => {
            out.push(FLOAT);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        ValueRef::Decimal(value) => {
            out.extend_from_slice(&[DECIMAL, value.scale()]);
            wide(out, value.unscaled());
        }
        ValueRef::Date(value) => {
            out.push(DATE);
            signed(out, i64::from(value.days()));
        }
        ValueRef::Timestamp(value) => {
            out.push(TIMESTAMP);
            signed(out, value.microseconds());
        }
        ValueRef::Tuple(tuple) => {
            out.push(TUPLE);
            bytes(out, tuple);
        }
        ValueRef::TopK(set) => {
            out.push(TOP_K);
            bytes(out, set);
        }
        ValueRef::Null | ValueRef::Bool(_) | ValueRef::Uuid(_) | ValueRef::Text(_) | ValueRef::Bytes(_) => {
            unreachable!("no operation takes {} as an operand", operand.kind())
        }
    }
}

impl LoggedTransaction<'_> {
    /// Returns true if these are the merged operations of a worker context, and not the writes of a commit.
    pub(crate) fn is_merged(&self) -> bool {
        self.changes.first() == Some(&MERGED)
    }
}

/// The head of a merged change: which record, and of how many columns operations follow.
#[derive(Debug)]
pub(crate) struct MergedHead<'a> {
    pub(crate) table: u32,
    pub(crate) key: &'a [u8],
    /// The first epoch of the split phase.
    pub(crate) since: u64,
    pub(crate) columns: u64,
}

impl<'a> Reader<'a> {
    /// The next merged change's head; its columns must be read next ([`Reader::merged_column`]).
    ///
    /// # Errors
    /// The bytes are no redo of split columns.
    pub(crate) fn next_merged(&mut self) -> Result<Option<MergedHead<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let kind = self.byte()?;
        if kind != MERGED {
            return Err(malformed(format!("a change of kind {kind} among merged operations")));
        }
        let (table, key) = self.record()?;
        Ok(Some(MergedHead { table, key, since: self.number()?, columns: self.number()? }))
    }

    /// The next column of a merged change: its position, the operation, and the operand, which fits the operation
    /// and the column.
    ///
    /// # Errors
    /// The bytes are no redo of this table's split columns.
    pub(crate) fn merged_column(&mut self, table: &TableCore) -> Result<(usize, Operation, ValueRef<'a>)> {
        let layout = table.layout();
        let column = self.column_position(table)?;
        let (code, data_type) = (self.byte()?, &layout.column(column).data_type);
        let Some(operation) = Operation::from_code(code) else {
            return Err(malformed(format!("an operation with the code {code}")));
        };
        let operand = self.operand()?;
        if !operation.splittable(data_type) {
            let name = &layout.column(column).name;
            return Err(malformed(format!("a merged {} of {name}", operation.name())));
        }
        // A sum of integers is the one operand whose kind need not be its column's.
        let is_wide_sum = operation == Operation::Add
            && layout.column(column).is_int()
            && matches!(operand, ValueRef::Decimal(sum) if sum.scale() == 0);
        if is_wide_sum {
            return Ok((column, operation, operand));
        }
        Ok((column, operation, operation.check_operand(operand, data_type).map_err(unfit)?))
    }

    fn operand(&mut self) -> Result<ValueRef<'a>> {
        Ok(match self.byte()? {
            INT => ValueRef::Int(self.signed()?),
            FLOAT => ValueRef::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            DECIMAL => {
                let scale = self.byte()?;
                ValueRef::Decimal(Decimal::new(self.wide()?, scale).map_err(unfit)?)
            }
            DATE => {
                let days = i32::try_from(self.signed()?);
                let days = days.map_err(|_| malformed("a date out of range".into()))?;
                ValueRef::Date(Date::from_days(days).map_err(unfit)?)
            }
            TIMESTAMP => ValueRef::Timestamp(Timestamp::from_microseconds(self.signed()?).map_err(unfit)?),
            TUPLE => ValueRef::Tuple(self.bytes()?),
            TOP_K => ValueRef::TopK(self.bytes()?),
            other => return Err(malformed(format!("an operand of kind {other}"))),
        })
    }
}

fn unfit(error: Error) -> Error {
    malformed(format!("a merged operand: {error}"))
}

#[cfg(test)]
mod tests;
