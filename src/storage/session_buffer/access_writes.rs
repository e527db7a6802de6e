//! What one access of a session has written, on its way into the session's buffer.

use crate::storage::write_set::CarriedWrite;

/// What an access has written to a key, for a look at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeenWrite<'w> {
    /// The table's number.
    pub(crate) table: u32,
    pub(crate) key: &'w [u8],
    /// Whether a row comes in.
    pub(crate) is_insert: bool,
    /// Whether the key was written by the write before, too.
    pub(crate) is_again: bool,
}

/// What an access has written, on its way into the buffer.
#[derive(Default)]
pub(crate) struct AccessWrites {
    pub(super) keys: Vec<u8>,
    /// Each write with the number of its table, and where its key ends.
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
                is_again,
            })
        })
    }
}
