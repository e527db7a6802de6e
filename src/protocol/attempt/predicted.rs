//! The check that allows a session's snapshot to be replaced by a later one, because of a row that the session is
//! predicted to write.

use super::Attempt;
use crate::error::Result;
use crate::storage::index::Lookup;
use crate::storage::session_buffer::SessionBuffer;
use crate::storage::versions::Found;

impl Attempt<'_> {
    /// Returns true if every row that a session has read from an earlier snapshot is unchanged in this one.
    pub(crate) fn is_unchanged_as_of(&self, buffer: &SessionBuffer, epoch: u64) -> Result<bool> {
        for (table, key, before) in buffer.reads(false) {
            let table = self.hold(table)?;
            let found = match table.find(table.hash(key), key, self.guard) {
                Lookup::Missing(_) => Found::Nothing(epoch),
                Lookup::Found(record) => self.store.versions().read(table.layout(), record, epoch, &mut []),
            };
            let is_unchanged = match found {
                Found::Row(written) => before.present && written <= before.stamp.epoch(),
                Found::Nothing(_) => !before.present,
            };
            if !is_unchanged {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
