//! Bounds that a transaction asks for: a column holds a number within them after the writes so far.
//!
//! Invariants: a bound changes nothing and is logged nowhere. It is proven where the writes are applied to the row, while the record
//! is locked; or, of a split column, by the bounds that escrow quotas keep.

use super::{Kind, WriteSet};
use crate::error::{Error, Result};
use crate::storage::record::RecordPointer;
use crate::storage::row::RowLayout;
use crate::storage::table::TableCore;

impl WriteSet {
    /// Buffers a guard: a column must hold a number within these bounds after the writes so far.
    pub(crate) fn bound(
        &mut self,
        table: &TableCore,
        record: RecordPointer,
        column: usize,
        (low, high): (i64, i64),
    ) {
        self.push(table, record, Kind::Bound { column: column as u16, low, high });
    }
}

/// Refuses a row whose column holds no number within these bounds.
pub(super) fn check_bound(
    layout: &RowLayout,
    row: &[u64],
    column: usize,
    (low, high): (i64, i64),
) -> Result<()> {
    let number = (!layout.is_null(row, column)).then(|| row[layout.words_of(column).0.start] as i64);
    if number.is_some_and(|number| low <= number && number <= high) {
        return Ok(());
    }
    let found = number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
    let detail = format!("{found} is not within {low} and {high}");
    Err(Error::Overflow { what: layout.column(column).name.clone(), detail })
}
