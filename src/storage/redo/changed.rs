//! Redo read as changes, without a row to apply them to: for change feeds.

use super::{NULL, OPERANDS, Reader, VALUE, malformed};
use crate::error::Result;
use crate::storage::table::TableCore;
use crate::types::ValueRef;

/// One column's part of a change of some columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LoggedColumn<'a> {
    /// Its value from then on.
    Value(ValueRef<'a>),
    /// Entries that were put into a top-K set; a set takes an entry that it has already as nothing new.
    Entries(Vec<ValueRef<'a>>),
}

impl<'a> Reader<'a> {
    /// The columns of the change whose head was read last, which changes columns: their positions, and what they got.
    ///
    /// # Errors
    /// The bytes are no redo of this table.
    pub(crate) fn changed_columns(&mut self, table: &TableCore) -> Result<Vec<(usize, LoggedColumn<'a>)>> {
        let mut columns = Vec::new();
        for _ in 0..self.number()? {
            let column = self.column_position(table)?;
            let data_type = &table.layout().column(column).data_type;
            let new = match self.byte()? {
                NULL => LoggedColumn::Value(ValueRef::Null),
                VALUE => LoggedColumn::Value(self.value(data_type)?),
                OPERANDS => LoggedColumn::Entries(self.entries()?),
                other => return Err(malformed(format!("value of kind {other}"))),
            };
            columns.push((column, new));
        }
        Ok(columns)
    }

    fn entries(&mut self) -> Result<Vec<ValueRef<'a>>> {
        let mut entries = Vec::new();
        for _ in 0..self.number()? {
            if self.byte()? == VALUE {
                entries.push(ValueRef::Tuple(self.bytes()?));
            }
        }
        Ok(entries)
    }
}
