//! What a statement may reach of the database: rows to read, and rows to write.

use crate::access::{Rows, RunsIn, Writes};

/// The interfaces through which a statement reads and writes.
#[derive(Clone, Copy)]
pub struct Access<'e> {
    pub(super) rows: &'e dyn Rows,
    pub(super) writes: Option<&'e dyn Writes>,
    pub(super) runs_in: RunsIn,
}

impl<'e> Access<'e> {
    /// Access for read-only statements.
    pub(crate) fn reads(rows: &'e dyn Rows) -> Access<'e> {
        Access { rows, writes: None, runs_in: RunsIn::Engine }
    }

    /// A point to which what was written can be taken back; none where nothing can be written.
    pub(crate) fn savepoint(&self) -> Option<heddledb::Savepoint> {
        self.writes.map(Writes::savepoint)
    }

    /// Takes back what was written since the savepoint.
    pub(crate) fn rollback_to(&self, savepoint: Option<&heddledb::Savepoint>) {
        if let (Some(writes), Some(savepoint)) = (self.writes, savepoint) {
            writes.rollback_to(savepoint);
        }
    }

    /// The interface for reads.
    pub(crate) fn rows(&self) -> &'e dyn Rows {
        self.rows
    }

    /// Access for all statements; `rows` and `writes` must belong to the same transaction.
    pub(crate) fn writes(rows: &'e dyn Rows, writes: &'e dyn Writes, runs_in: RunsIn) -> Access<'e> {
        Access { rows, writes: Some(writes), runs_in }
    }
}
