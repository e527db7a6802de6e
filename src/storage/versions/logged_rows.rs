//! Rows as the log has them, for readers of the log that keep them.

use std::sync::Arc;

use bumpalo::Bump;

use super::Rows;
use crate::error::Result;
use crate::storage::redo::{LoggedChange, Reader};
use crate::storage::table::TableCore;

/// Rows of one table, as they are read.
pub(crate) struct LoggedRows {
    table: Arc<TableCore>,
    words: Vec<u64>,
    len: usize,
    /// The memory that the rows' words point to, unless they hold their values.
    arena: Bump,
}

impl LoggedRows {
    /// No rows.
    pub(crate) fn new(table: Arc<TableCore>) -> LoggedRows {
        LoggedRows { table, words: Vec::new(), len: 0, arena: Bump::new() }
    }

    /// The table of the rows.
    pub(crate) fn table(&self) -> &Arc<TableCore> {
        &self.table
    }

    /// Reads the row of the change whose head was read last, which sets a whole row. Its position among these rows.
    ///
    /// # Errors
    /// The bytes are no redo of this table.
    pub(crate) fn push(&mut self, reader: &mut Reader<'_>) -> Result<usize> {
        let start = self.words.len();
        self.words.resize(start + self.table.layout().words(), 0);
        reader.apply(LoggedChange::Row, &self.table, &mut self.words[start..], &self.arena)?;
        self.len += 1;
        Ok(self.len - 1)
    }

    /// The rows, with long values of their own.
    ///
    /// # Errors
    /// The system refuses the memory for that, or a row was not read to its end.
    pub(crate) fn finish(self) -> Result<Rows> {
        let LoggedRows { table, words, len, arena } = self;
        // SAFETY: `push` has written whole rows of the table, and left zeros where it failed; their blocks are in the arena.
        let rows = unsafe { Rows::of_words(table, words, len) };
        drop(arena);
        rows
    }
}
