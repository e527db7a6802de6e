//! The context in which a statement of a body runs: the session's environment, its variables, and the way to the rows.

use std::sync::Arc;

use crate::bind::Names;
use crate::error::{Result, SqlError};
use crate::run::Access;
use crate::session::{BodyPoint, Connection, SessionEnvironment};
use crate::types::Value;
use crate::types::record::RecordField;

/// Variables with values, as the statements of a body see them.
pub(crate) trait Frame: Names {
    /// The variables' values, by their numbers; of a row variable, the row.
    fn values(&self) -> &[Value];

    /// The fields of a row variable; `None` if it has no value.
    fn shape(&self, slot: usize) -> Option<Arc<[RecordField]>>;
}

/// The context in which a body runs.
pub(crate) struct Execution<'a> {
    pub environment: &'a mut SessionEnvironment,
    pub door: Door<'a>,
    /// True if its statements may write: not those of stable and immutable functions.
    pub may_write: bool,
}

/// The interface through which the statements of a body read and write.
pub(crate) enum Door<'a> {
    /// The attempt of the statement that called the body.
    Attempt(Access<'a>),
    /// The session's transaction, which the body may end: each statement is an access of its own, or a schema change.
    Chain(&'a mut Connection),
}

/// A point to which a block with handlers rolls back.
pub(crate) struct BodySavepoint {
    rows: RowsPoint,
    /// The level of the settings that it began.
    settings_level: u32,
}

/// The point to which a block with handlers restores rows and the schema.
enum RowsPoint {
    /// `None` if nothing can be written.
    Attempt(Option<heddledb::Savepoint>),
    Chain(BodyPoint),
}

impl Execution<'_> {
    /// Runs `body` with access to rows. A chain may run it several times: only the last time counts.
    pub(crate) fn with_access<T>(
        &mut self,
        mut body: impl FnMut(Access<'_>, &mut SessionEnvironment) -> Result<T>,
    ) -> Result<T> {
        match &mut self.door {
            Door::Attempt(access) => body(*access, self.environment),
            Door::Chain(connection) => connection.transaction.run_statement(self.environment, body),
        }
    }

    /// A point to which [`rollback_to`](Self::rollback_to) goes back.
    pub(crate) fn savepoint(&mut self) -> Result<BodySavepoint> {
        let rows = match &mut self.door {
            Door::Attempt(access) => RowsPoint::Attempt(access.savepoint()),
            Door::Chain(connection) => {
                RowsPoint::Chain(connection.transaction.body_savepoint(self.environment)?)
            }
        };
        Ok(BodySavepoint { rows, settings_level: self.environment.settings.begin_level() })
    }

    /// Rolls back writes and settings since the savepoint, and forgets it.
    pub(crate) fn rollback_to(&mut self, savepoint: &BodySavepoint) -> Result<()> {
        self.environment.settings.end_level(savepoint.settings_level, false);
        match (&mut self.door, &savepoint.rows) {
            (Door::Attempt(access), RowsPoint::Attempt(savepoint)) => {
                access.rollback_to(savepoint.as_ref());
                Ok(())
            }
            (Door::Chain(connection), RowsPoint::Chain(savepoint)) => {
                connection.transaction.rollback_body_to(self.environment, savepoint)
            }
            _ => Err(SqlError::internal("a savepoint is of another kind of transaction")),
        }
    }

    /// Forgets a savepoint; writes and settings since then stay.
    pub(crate) fn release(&mut self, savepoint: &BodySavepoint) -> Result<()> {
        self.environment.settings.end_level(savepoint.settings_level, true);
        match (&mut self.door, &savepoint.rows) {
            (Door::Chain(connection), RowsPoint::Chain(savepoint)) => {
                connection.transaction.release_of_body(savepoint)
            }
            _ => Ok(()),
        }
    }
}
