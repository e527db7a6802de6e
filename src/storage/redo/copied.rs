//! Copies of whole records, as checkpoints hold them.
//!
//! ```text
//! record        table id · schema version · stamp 8 · since · key bytes · key · every column's value, in order
//! ```
//! Numbers and values are written as in redo. `since` is 0, or the first epoch of the split phase in which the record was
//! copied: then its split columns are as they were before that phase, whatever its stamp says.

use super::{Reader, SCHEMA_VERSION, bytes, number, value};
use crate::error::Result;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;

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
    number(out, SCHEMA_VERSION);
    out.extend_from_slice(&stamp.to_bits().to_le_bytes());
    number(out, since);
    bytes(out, key);
    for column in 0..table.layout().len() {
        // SAFETY: the caller's promise.
        value(out, unsafe { table.layout().value(row, column) });
    }
}

impl<'a> Reader<'a> {
    /// The next copied record's head; its values must be read next ([`Reader::apply`], as a row).
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
        Ok(Some(CopiedHead { table, stamp, since, key: self.bytes()? }))
    }
}
