//! LOCK TABLE.
//!
//! A lock is a reservation of the row that holds the table's definition (`catalog::store`). It therefore conflicts with
//! every other LOCK TABLE of the table and with changes of its definition, takes part in deadlock detection, and ends
//! with the transaction.
//!
//! Invariants: the modes that conflict only with definitions being changed in PostgreSQL (ACCESS SHARE, ROW SHARE, ROW
//! EXCLUSIVE) reserve nothing. All others are one mode.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ObjectName;
use crate::session::connection::Connection;

/// The modes that queries and statements that write rows take on their own.
const WEAK_MODES: [&str; 3] = ["access share", "row share", "row exclusive"];

impl Connection {
    pub(super) fn lock_tables(
        &mut self,
        tables: &[ObjectName],
        mode: &str,
        no_wait: bool,
    ) -> Result<&'static str> {
        if !self.transaction.is_explicit() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        self.check_relations(tables)?;
        self.check_lockable(tables, mode)?;
        for name in tables {
            let oid = self.find_relation(name)?.oid();
            if WEAK_MODES.contains(&mode) {
                continue;
            }
            self.apply_lock_timeout()?;
            let (shared, session) = (&self.shared, &mut self.transaction.session);
            if !shared.store.reserve(session, oid, !no_wait)? {
                let message = format!("could not obtain lock on relation \"{}\"", name.last());
                return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
            }
        }
        Ok("LOCK TABLE")
    }
}
