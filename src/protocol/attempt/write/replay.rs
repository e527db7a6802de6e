//! Writes of a standby, which replays what another database has committed.
//!
//! They are buffered like all writes, with their index records, and committed in the same way. But a row that is in the log has passed
//! its checks, its foreign keys and its triggers, and what these have changed is in the log, too: so nothing is checked
//! and nothing follows from them, and that other writes are refused on a standby does not concern them.

use crate::error::Result;
use crate::protocol::attempt::{Attempt, Target};
use crate::storage::row::byte_length;
use crate::types::ValueRef;

use super::{duplicate, missing};

impl<'a> Attempt<'a> {
    /// The row of a target, as far as the transaction has changed it; its words live in the attempt's arena.
    pub(crate) fn replayed_row(&self, target: &Target<'_, 'a>) -> Result<Option<&'a [u64]>> {
        self.row_of_target(target)
    }

    /// Buffers a row that is not there.
    pub(crate) fn replay_row(&self, target: &Target<'_, 'a>, values: &[ValueRef<'_>]) -> Result<()> {
        let (table, layout) = (target.table, target.table.layout());
        table.slabs().budget().admit()?;
        let bytes = if layout.has_blocks() { values.iter().copied().map(byte_length).sum() } else { 0 };
        self.workspace.borrow_mut().writes.reserve(2 * layout.words(), bytes)?;
        let Some(placed) = self.place_new(table, target.hash, target.key)? else {
            return Err(duplicate(table, target.key));
        };
        for position in 0..table.secondary().len() {
            self.insert_index_record(table, position, target.key, |column| Ok(values[column]))?;
        }
        let writes = &mut self.workspace.borrow_mut().writes;
        writes.insert(table, placed.record.pointer(), values.iter().copied());
        writes.check_size()
    }

    /// Buffers new values of some columns of a row that is there.
    pub(crate) fn replay_columns(
        &self,
        target: &Target<'_, 'a>,
        changes: &[(usize, ValueRef<'_>)],
    ) -> Result<()> {
        let table = target.table;
        let Some(record) = self.find_present(target)? else { return Err(missing(table, target.key)) };
        if changes.iter().any(|&(_, value)| byte_length(value) > super::INLINE_BYTES) {
            table.slabs().budget().admit()?;
        }
        if changes.iter().any(|&(column, _)| table.is_indexed(column)) {
            self.move_index_records(table, target, changes)?;
        }
        let mut workspace = self.workspace.borrow_mut();
        for &(column, value) in changes {
            workspace.writes.reserve(0, byte_length(value))?;
            workspace.writes.set(table, record.pointer(), column, value);
        }
        workspace.writes.check_size()
    }

    /// Buffers the delete of a row; returns true if there was one.
    pub(crate) fn replay_delete(&self, target: &Target<'_, 'a>) -> Result<bool> {
        self.delete_present(target)
    }
}
