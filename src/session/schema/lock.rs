//! The lock of schema changes: a reservation like those of keys, which the first change acquires.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::pipeline::hold_off::HoldOff;
use crate::pipeline::nesting;
use crate::session::Session;
use crate::session::control::{Control, Sessions};
use crate::session::reservations::ReservedKey;
use crate::session::waiting::block_on;

/// The lock of schema changes among reservations: no table has this number.
fn schema_key() -> ReservedKey {
    (0, [][..].into())
}

/// The lock of schema changes, held by a change that is a transaction of its own.
pub(crate) struct SchemaLock {
    control: Arc<Control>,
}

impl SchemaLock {
    /// Acquires it once no session holds it, and no other change.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn acquire(sessions: &Arc<Sessions>) -> Result<SchemaLock> {
        let control = Control::new(sessions);
        control.begin(None);
        let lock = SchemaLock { control };
        if !lock.control.reserve(schema_key())? {
            block_on(poll_fn(|context| lock.control.poll_reserved(context)))?;
        }
        Ok(lock)
    }
}

impl Drop for SchemaLock {
    fn drop(&mut self) {
        self.control.end();
    }
}

impl Session {
    /// Acquires the lock of schema changes for the rest of the transaction, or of its savepoint. Every change does so; asking
    /// early keeps what the transaction knows of the schema from being changed.
    ///
    /// # Errors
    /// [`Error::NoTransaction`]; [`Error::Conflict`]: a table that the transaction has used was changed meanwhile;
    /// [`Error::Deadlock`], [`Error::TimedOut`], [`Error::Canceled`]; [`Error::Nested`] inside a transaction's body.
    pub fn lock_schema(&mut self) -> Result<()> {
        nesting::check("a schema change")?;
        self.shared.check_open()?;
        self.check_transaction()?;
        if self.control.reserve(schema_key())? {
            return self.check_tables();
        }
        block_on(self.wait_until_reserved())?;
        self.check_tables()
    }

    /// Same as [`lock_schema`](Self::lock_schema), and makes all other threads wait until the transaction has ended, or
    /// for this long at most. It is for the retry of a change that conflicts again and again, because others write the
    /// table that it copies. The transaction must continue in this thread.
    ///
    /// Queries from snapshots continue. So do procedures under the partitioned protocol.
    ///
    /// # Errors
    /// Same errors as [`lock_schema`](Self::lock_schema).
    pub fn lock_schema_alone(&mut self, time: Duration) -> Result<()> {
        self.lock_schema()?;
        // An earlier one ends first: it would end this one.
        self.hold_off = None;
        self.hold_off = Some(HoldOff::begin(self.shared.shared_engine(), time));
        Ok(())
    }

    fn check_tables(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let store = shared.engine().store();
        let is_current = self.access.as_ref().is_none_or(|access| access.is_of_current_schema(store));
        if is_current { Ok(()) } else { Err(self.abort(Error::Conflict)) }
    }
}
