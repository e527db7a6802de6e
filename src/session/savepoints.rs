//! Savepoints of a session's transaction: what was written and reserved since one can be undone.

use super::Session;
use crate::error::{Error, Result};
use crate::storage::private_schema::PrivateTable;

/// A point in a transaction.
pub(super) struct Point {
    number: u64,
    pub(super) writes: usize,
    reserved: usize,
    tables: Vec<PrivateTable>,
}

/// A point in a session's transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSavepoint {
    number: u64,
}

impl Session {
    /// A point to which [`rollback_to`](Self::rollback_to) can roll back.
    ///
    /// # Errors
    /// [`Error::NoTransaction`]; the reason for which the transaction was marked for abort.
    pub fn savepoint(&mut self) -> Result<SessionSavepoint> {
        self.check_transaction()?;
        self.last_savepoint += 1;
        let number = self.last_savepoint;
        let access = self.access.as_ref();
        let writes = access.map_or(0, |access| access.buffer.mark());
        let tables = access.map_or_else(Vec::new, |access| access.schema.tables().to_vec());
        self.savepoints.push(Point { number, writes, reserved: self.control.reserved(), tables });
        Ok(SessionSavepoint { number })
    }

    /// Undoes the writes since the savepoint, and releases the reservations since. Later savepoints are
    /// discarded; this one is kept. Reads since then stay in the read set.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`]; those of [`savepoint`](Self::savepoint).
    pub fn rollback_to(&mut self, savepoint: &SessionSavepoint) -> Result<()> {
        let at = self.position(savepoint)?;
        self.savepoints.truncate(at + 1);
        let Point { writes, reserved, tables, .. } = &self.savepoints[at];
        let reserved = *reserved;
        if let Some(access) = &mut self.access {
            access.buffer.truncate(*writes);
            access.go_back_to(self.shared.engine().store(), tables.clone())?;
        }
        self.control.release(reserved);
        Ok(())
    }

    /// Discards a savepoint and all later ones; the writes since are kept.
    ///
    /// # Errors
    /// Same errors as [`rollback_to`](Self::rollback_to).
    pub fn release(&mut self, savepoint: &SessionSavepoint) -> Result<()> {
        let at = self.position(savepoint)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn position(&self, savepoint: &SessionSavepoint) -> Result<usize> {
        self.check_transaction()?;
        let mut points = self.savepoints.iter();
        points.position(|point| point.number == savepoint.number).ok_or(Error::UnknownSavepoint)
    }
}
