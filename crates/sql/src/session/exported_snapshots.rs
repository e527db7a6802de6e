//! `pg_export_snapshot` and SET TRANSACTION SNAPSHOT: transactions of several sessions that read from one snapshot.
//!
//! # Invariants
//! - An identifier is valid as long as the transaction that has exported it is open.

use std::sync::Arc;

use hashbrown::HashMap;
use heddledb::ExportedSnapshot;
use parking_lot::Mutex;

use crate::error::{Result, SqlError, SqlState};
use crate::session::Connection;

/// The snapshots that open transactions have exported, by identifier.
pub(crate) type ExportedSnapshots = Arc<Mutex<HashMap<String, KnownSnapshot>>>;

/// A snapshot, and the modes of the transaction that has exported it.
#[derive(Clone)]
pub(crate) struct KnownSnapshot {
    snapshot: ExportedSnapshot,
    is_serializable: bool,
    read_only: bool,
}

/// The snapshots that a session exports.
#[derive(Default)]
pub(crate) struct Exports {
    /// The identifiers that the statement in progress has returned: they are valid when it has ended.
    pub wanted: Vec<String>,
    /// The number of identifiers given so far.
    count: u32,
    /// The snapshots exported by the open transaction.
    exported: Vec<Exported>,
}

/// An identifier that is valid until this is dropped.
struct Exported {
    all: ExportedSnapshots,
    id: String,
}

impl Drop for Exported {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

impl Exports {
    /// The next identifier, in PostgreSQL's form.
    pub fn next(&mut self, process_id: i32) -> String {
        self.count += 1;
        let id = format!("{process_id:08X}-{:08X}-1", self.count);
        self.wanted.push(id.clone());
        id
    }

    /// The transaction has ended.
    pub fn clear(&mut self) {
        self.wanted.clear();
        self.exported.clear();
    }
}

impl Connection {
    /// Makes the identifiers valid that a statement which has succeeded has answered. Outside of a block they would end with it.
    ///
    /// # Errors
    /// 0A000: the transaction has written; 25001: a savepoint is open.
    pub(super) fn export_snapshots(&mut self) -> Result<()> {
        let wanted = std::mem::take(&mut self.environment.exports.wanted);
        if wanted.is_empty() || self.transaction.is_idle() {
            return Ok(());
        }
        if self.transaction.has_savepoints() {
            let message = "cannot export a snapshot from a subtransaction";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let Some(snapshot) = self.transaction.session.export_snapshot()? else {
            let message = "exporting a snapshot after the transaction has written is not supported";
            return Err(SqlError::unsupported(message).with_hint("Export it at the transaction's begin."));
        };
        let settings = &self.environment.settings;
        let known = KnownSnapshot {
            snapshot,
            is_serializable: settings.get("transaction_isolation") == Some("serializable"),
            read_only: settings.derived.read_only,
        };
        for id in wanted {
            let all = self.shared.snapshots.clone();
            all.lock().insert(id.clone(), known.clone());
            self.environment.exports.exported.push(Exported { all, id });
        }
        Ok(())
    }

    /// SET TRANSACTION SNAPSHOT.
    ///
    /// # Errors
    /// 25001 after a query or a savepoint, 22023 for an unknown identifier, 0A000 if the modes of the two transactions
    /// are incompatible.
    pub(super) fn set_snapshot(&mut self, id: &str) -> Result<&'static str> {
        if self.transaction.has_savepoints() {
            let message = "SET TRANSACTION SNAPSHOT must not be called in a subtransaction";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if !self.transaction.is_idle() && self.transaction.session.has_snapshot() {
            let message = "SET TRANSACTION SNAPSHOT must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let settings = &self.environment.settings;
        let isolation = settings.get("transaction_isolation");
        if !isolation.is_some_and(|level| matches!(level, "serializable" | "repeatable read")) {
            let message =
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
            return Err(SqlError::unsupported(message));
        }
        let (is_serializable, read_only) = (isolation == Some("serializable"), settings.derived.read_only);
        let Some(known) = self.shared.snapshots.lock().get(id).cloned() else {
            let message = format!("invalid snapshot identifier: \"{id}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        if is_serializable && !known.is_serializable {
            let message =
                "a serializable transaction cannot import a snapshot from a non-serializable transaction";
            return Err(SqlError::unsupported(message));
        }
        if is_serializable && known.read_only && !read_only {
            let message = "a non-read-only serializable transaction cannot import a snapshot from a read-only transaction";
            return Err(SqlError::unsupported(message));
        }
        if self.transaction.is_idle() || self.transaction.session.import_snapshot(&known.snapshot)? {
            return Ok("SET");
        }
        Err(SqlError::unsupported("a snapshot of another database cannot be imported"))
    }
}
