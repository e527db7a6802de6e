//! What an attempt does about rows that sessions are predicted to write: what follows from a prediction, and whether a session's
//! snapshot may be replaced by a later one because of it.

use super::Attempt;
use crate::error::Result;
use crate::storage::index::Lookup;
use crate::storage::session_buffer::SessionBuffer;
use crate::storage::versions::Found;

/// What follows from the predictions for a row that is about to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prediction {
    /// Nothing, or the row was reserved before.
    None,
    /// The row is reserved from here on.
    Reserved,
    /// The session must wait first, because another one has reserved it.
    Wait,
}

impl Attempt<'_> {
    /// Whether every row that a session has read from an earlier snapshot is in this one as it was there.
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
