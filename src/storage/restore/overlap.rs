//! Replay beside a *fuzzy* checkpoint, one that was made beside the commits which are replayed on it.
//!
//! The copies are of different moments, between the first epoch that the log is replayed from and the *last epoch* of
//! the copying. So for the groups of these epochs, and only for them, two things are as they never are otherwise:
//!
//! - **A record lacks operations that its word speaks for**: it was copied while it was split ([`Overlap::is_owed`]).
//! - **A change of some columns finds no row.** The row was there when the change was made, and was deleted before the
//!   copying reached it. The change is skipped. What makes this safe: the deletion was installed before the copying
//!   ended, so it is in the log, in an epoch not after the last one; nothing else that is replayed needs the row; and
//!   should the key be inserted again, the log has the whole row. All this is not taken on trust: a row that was missed
//!   must be deleted or written whole before the last epoch is over, or recovery is refused. The rows of a table that was
//!   dropped are deleted with it.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::malformed;
use crate::error::Result;
use crate::storage::redo::MergedHead;
use crate::storage::table::{TableCore, TableId};

/// A record by its name.
pub(crate) type RecordName = (TableId, Box<[u8]>);

/// The notes about the checkpoint; empty by default, where there is no checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Overlap {
    /// The last epoch of which anything may have been copied.
    last_epoch: u64,
    /// Records that were split when they were copied, with the epoch since which they were.
    split: Arc<HashMap<RecordName, u64>>,
    /// Records that were not there when some of their columns were to be changed.
    missing: HashSet<RecordName>,
}

impl Overlap {
    /// The copying ended in this epoch; these records were split since that one.
    pub(crate) fn new(last_epoch: u64, split: impl IntoIterator<Item = (RecordName, u64)>) -> Overlap {
        Overlap { last_epoch, split: Arc::new(split.into_iter().collect()), missing: HashSet::new() }
    }

    /// The notes about the same copying, for the thread that replays another share of the records.
    pub(crate) fn of_another_share(&self) -> Overlap {
        Overlap { last_epoch: self.last_epoch, split: self.split.clone(), missing: HashSet::new() }
    }

    /// Returns true if the record was copied without these operations on its split columns, whatever its word says.
    pub(super) fn is_owed(&self, table: &TableCore, head: &MergedHead<'_>) -> bool {
        !self.split.is_empty() && self.split.get(&(table.id(), head.key.into())) == Some(&head.since)
    }

    /// Notes that a row is not there of which some columns were changed in this epoch.
    ///
    /// # Errors
    /// It must have been there.
    pub(super) fn note_missing(&mut self, table: &TableCore, key: &[u8], epoch: u64) -> Result<()> {
        if table.is_gone() {
            return Ok(());
        }
        if epoch > self.last_epoch {
            return Err(malformed(format!(
                "operations on a row of {:?} that is not there",
                table.definition().name()
            )));
        }
        self.missing.insert((table.id(), key.into()));
        Ok(())
    }

    /// Notes that a record has been written whole, or deleted.
    pub(super) fn note_settled(&mut self, table: &TableCore, key: &[u8]) {
        if !self.missing.is_empty() {
            self.missing.remove(&(table.id(), key.into()));
        }
    }

    /// Says that the next group is of this epoch, or that there is none. `is_gone`: whether a table was dropped.
    ///
    /// # Errors
    /// The copying is over, and a row is still missing of which some columns were changed.
    pub(super) fn begin_epoch(
        &mut self,
        epoch: Option<u64>,
        is_gone: impl Fn(TableId) -> bool,
    ) -> Result<()> {
        if self.missing.is_empty() || epoch.is_some_and(|epoch| epoch <= self.last_epoch) {
            return Ok(());
        }
        self.missing.retain(|(id, _)| !is_gone(*id));
        if self.missing.is_empty() {
            return Ok(());
        }
        let tables: std::collections::BTreeSet<TableId> = self.missing.iter().map(|(id, _)| *id).collect();
        let count = self.missing.len();
        Err(malformed(format!("{count} rows of the tables {tables:?} were changed, but are not there")))
    }
}

#[cfg(test)]
mod tests;
