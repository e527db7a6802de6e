//! The writes of one access of a session, on their way into the session's buffer.

use super::ColumnSet;
use crate::storage::write_set::CarriedWrite;

/// A write of an access to a key, for a look at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeenWrite<'w> {
    /// The table's number.
    pub(crate) table: u32,
    pub(crate) key: &'w [u8],
    /// True if a row is inserted.
    pub(crate) is_insert: bool,
    /// The columns of the row that it writes.
    pub(crate) columns: ColumnSet,
    /// True if the key was also written by the write before.
    pub(crate) is_again: bool,
}

/// The writes of an access, on their way into the buffer.
#[derive(Default)]
pub(crate) struct AccessWrites {
    pub(super) keys: Vec<u8>,
    /// Each write with the number of its table, and the end of its key.
    pub(super) writes: Vec<(CarriedWrite, u32, usize)>,
}

impl AccessWrites {
    /// Adds the writes to a key.
    pub(crate) fn push(&mut self, table: u32, key: &[u8], writes: impl Iterator<Item = CarriedWrite>) {
        for write in writes {
            self.keys.extend_from_slice(key);
            self.writes.push((write, table, self.keys.len()));
        }
    }

    /// Looks at each write until something is found.
    pub(crate) fn find<R>(&self, look: &mut dyn FnMut(SeenWrite<'_>) -> Option<R>) -> Option<R> {
        let (mut start, mut last) = (0, None);
        self.writes.iter().find_map(|(write, table, end)| {
            let key = &self.keys[std::mem::replace(&mut start, *end)..*end];
            let is_again = last.replace((*table, key)) == Some((*table, key));
            look(SeenWrite {
                table: *table,
                key,
                is_insert: matches!(write, CarriedWrite::Insert(_)),
                columns: written_columns(write.column()),
                is_again,
            })
        })
    }
}

/// The columns of a row that a write changes; `None`: all.
pub(crate) fn written_columns(column: Option<u16>) -> ColumnSet {
    column.map_or(ColumnSet::WHOLE, |column| ColumnSet::one(usize::from(column)))
}
