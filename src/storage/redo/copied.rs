//! Copies of whole records, as checkpoints hold them.
//!
//! ```text
//! record        table id · schema version · stamp 8 · since · key bytes · key · every column's value, in order
//! ```
//! Numbers and values are written as in redo. `since` is 0, or the first epoch of the split phase in which the record was
//! copied: then its split columns are as they were before that phase, whatever its stamp says.

use super::{NULL, Reader, VALUE, bytes, malformed, number, value};
use crate::error::Result;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::types::ValueRef;
use crate::types::memory::Refused;

/// No copy takes fewer bytes: two numbers, a stamp, two more numbers, and a value.
pub(crate) const COPIED_BYTES_MIN: u64 = 1 + 1 + 8 + 1 + 1 + 1;

/// The head of a copied record; its values must be read next, as those of a whole row.
#[derive(Debug)]
pub(crate) struct CopiedHead<'a> {
    pub(crate) table: u32,
    pub(crate) stamp: Stamp,
    /// The first epoch of the split phase in which it was copied; 0: it was not split.
    pub(crate) since: u64,
    pub(crate) key: &'a [u8],
}

/// Appends a record's copy.
///
/// # Safety
/// `row` is a row of the table with live blocks.
pub(crate) unsafe fn append_copied(
    out: &mut Vec<u8>,
    table: &TableCore,
    key: &[u8],
    (stamp, since): (Stamp, u64),
    row: &[u64],
) {
    number(out, u64::from(table.id()));
    number(out, table.row_version());
    out.extend_from_slice(&stamp.to_bits().to_le_bytes());
    number(out, since);
    bytes(out, key);
    for column in 0..table.layout().len() {
        // SAFETY: the caller's promise.
        value(out, unsafe { table.layout().value(row, column) });
    }
}

impl<'a> Reader<'a> {
    /// The next copied record's head; its values must be read next ([`Reader::row_in_heap`], or [`Reader::apply`], as a row).
    ///
    /// # Errors
    /// The bytes are no copies of records.
    pub(crate) fn next_copied(&mut self) -> Result<Option<CopiedHead<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let table = self.table()?;
        let stamp = Stamp::from_bits(u64::from_le_bytes(self.array()?));
        let since = self.number()?;
        Ok(Some(CopiedHead { table, stamp, since, key: self.key()? }))
    }

    /// Reads the values of the copy whose head was read last into a row of zeros. Long values get blocks of their own on the
    /// heap, also if something later in the row is wrong.
    ///
    /// # Errors
    /// The bytes are no copy of a row of this table.
    pub(crate) fn row_in_heap(&mut self, table: &TableCore, row: &mut [u64]) -> Result<()> {
        let layout = table.layout();
        let columns = self.columns(table)?;
        for position in 0..columns {
            match self.byte()? {
                VALUE => {
                    let column = layout.column(position);
                    match column.int_word() {
                        // The usual one.
                        Some(at) => row[at] = self.signed()? as u64,
                        None => layout
                            .put_in_heap(row, position, self.value(&column.data_type)?)
                            .map_err(Refused::error)?,
                    }
                }
                NULL => layout.put_in_heap(row, position, ValueRef::Null).map_err(Refused::error)?,
                other => return Err(malformed(format!("a copied value of kind {other}"))),
            }
        }
        for position in columns..layout.len() {
            let value = layout.past_value(position).unwrap_or(ValueRef::Null);
            layout.put_in_heap(row, position, value).map_err(Refused::error)?;
        }
        Ok(())
    }
}
