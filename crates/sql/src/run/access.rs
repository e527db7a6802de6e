//! The rows of the database that a statement may read and write.
//!
//! # Invariants
//! - A statement sees the rows as they were when it began: not what it, its triggers and the functions that it calls write.
//! - The statements of a volatile function see all that was written before each of them; those of stable and immutable
//!   functions see what the statement sees that calls the function.
//!
//! Source: PostgreSQL 15, command counters and snapshots in `xact.c`, `functions.c` and `_SPI_execute_plan` of `spi.c`.

use heddledb::Moment;

use crate::access::{AsOf, Rows, RunsIn, Writes};

/// The interfaces through which a statement reads and writes.
#[derive(Clone, Copy)]
pub struct Access<'e> {
    pub(super) rows: &'e dyn Rows,
    pub(super) writes: Option<&'e dyn Writes>,
    pub(super) runs_in: RunsIn,
    /// True if statements see these rows, which the statement that calls their function sees, instead of the rows
    /// current when they begin.
    pub(super) is_fixed: bool,
    /// True if updates read the rows that they change, because an operation did not fit the value that it met.
    pub(super) is_ordinary: bool,
}

/// The rows as a statement sees them.
pub(super) struct View<'e> {
    access: Access<'e>,
    as_of: Option<AsOf<'e>>,
}

impl View<'_> {
    pub(super) fn rows(&self) -> &dyn Rows {
        match &self.as_of {
            Some(as_of) => as_of,
            None => self.access.latest(),
        }
    }

    /// The moment at which the statement began; `None` if its own writes are not hidden from it.
    pub(super) fn moment(&self) -> Option<Moment> {
        self.as_of.as_ref().map(AsOf::moment)
    }
}

impl<'e> Access<'e> {
    /// Access for read-only statements.
    pub(crate) fn reads(rows: &'e dyn Rows) -> Access<'e> {
        Access { rows, writes: None, runs_in: RunsIn::Engine, is_fixed: false, is_ordinary: false }
    }

    /// A point to which writes can be rolled back; `None` if nothing can be written.
    pub(crate) fn savepoint(&self) -> Option<heddledb::Savepoint> {
        self.writes.map(Writes::savepoint)
    }

    /// Rolls back the writes since the savepoint.
    pub(crate) fn rollback_to(&self, savepoint: Option<&heddledb::Savepoint>) {
        if let (Some(writes), Some(savepoint)) = (self.writes, savepoint) {
            writes.rollback_to(savepoint);
        }
    }

    /// The context in which the statement runs.
    pub(crate) fn runs_in(&self) -> RunsIn {
        self.runs_in
    }

    /// The interface for reads.
    pub(crate) fn rows(&self) -> &'e dyn Rows {
        self.rows
    }

    /// Access for all statements; `rows` and `writes` must belong to the same transaction.
    pub(crate) fn writes(rows: &'e dyn Rows, writes: &'e dyn Writes, runs_in: RunsIn) -> Access<'e> {
        Access { rows, writes: Some(writes), runs_in, is_fixed: false, is_ordinary: false }
    }

    /// Access for an attempt whose updates read the rows that they change, if `is_ordinary`.
    pub(crate) fn ordinary(self, is_ordinary: bool) -> Access<'e> {
        Access { is_ordinary, ..self }
    }

    /// Access for the statements of a function: `is_fixed`: they see what the statement sees that calls it.
    pub(crate) fn of_function(self, is_fixed: bool) -> Access<'e> {
        Access { is_fixed, ..self }
    }

    /// The rows as a statement sees them that begins now. `hides`: its own writes are hidden from it.
    pub(super) fn view(self, hides: bool) -> View<'e> {
        let writes = self.writes.filter(|_| hides && !self.is_fixed);
        View { access: self, as_of: writes.map(AsOf::now) }
    }

    /// The rows as they are, or as the statement sees them that calls the function.
    pub(super) fn latest(&self) -> &'e dyn Rows {
        match self.writes {
            Some(writes) if !self.is_fixed => writes,
            _ => self.rows,
        }
    }
}
