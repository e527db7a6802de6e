//! SQL on a standby: the catalog follows the rows of the definitions, which the other database changes.
//!
//! # Invariants
//! The catalog is read again between two groups of the log, and published before a snapshot can be opened that contains the change. So a statement
//! that finds its catalog current once its snapshot is open means what was in force at the snapshot's moment.

use std::sync::{Arc, Weak};

use heddledb::ReplayedDefinitions;

use crate::catalog::Catalog;
use crate::error::{Result, SqlError, SqlState};
use crate::session::connection::Connection;
use crate::session::{Shared, Sql, system_settings};

/// The shared state whose catalog follows.
struct Following(Weak<Shared>);

impl ReplayedDefinitions for Following {
    fn changed(&self, epoch: u64) -> heddledb::Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let catalog = shared.store.catalog(&shared.database);
        let catalog = catalog.map_err(|error| heddledb::fail(format!("SQL's definitions: {error}")))?;
        shared.replace_catalog(catalog, epoch);
        Ok(())
    }
}

/// Has the catalog follow the definitions, if the database is a standby.
///
/// # Errors
/// The engine's; XX001 for damaged definitions.
pub(super) fn follow(shared: &Arc<Shared>) -> Result<()> {
    shared.database.follow_definitions(&shared.store.any_table(), || {
        // What was replayed since the catalog was made.
        shared.replace_catalog(shared.store.catalog(&shared.database)?, 0);
        Ok(Arc::new(Following(Arc::downgrade(shared))) as Arc<dyn ReplayedDefinitions>)
    })
}

impl Shared {
    /// Replaces the catalog by one that was read from the rows as of this epoch.
    fn replace_catalog(&self, mut catalog: Catalog, epoch: u64) {
        let before = self.catalog();
        let changed = catalog.changed_since(&before);
        catalog.skip_oids_of(&before);
        catalog.position = match changed.things.is_empty() {
            true => before.position,
            false => self.history.append(epoch, changed.things),
        };
        self.set_catalog(catalog);
    }
}

impl Sql {
    /// Makes a standby the database that it replays. Sessions go on: each learns of it between two transactions, by the parameters
    /// that change.
    ///
    /// # Errors
    /// Those of [`Database::fence`](heddledb::Database::fence), and then the standby goes on;
    /// those of [`Database::promote`](heddledb::Database::promote), and then it has stopped.
    pub fn promote(&self) -> Result<()> {
        let (store, database) = (&self.shared.store, &self.shared.database);
        let fenced = database.fence()?;
        // Those of the other database's sessions: before sessions of this one make some.
        let left = store.temporary(database)?;
        database.promote(fenced)?;
        // One that cannot be in force stays saved: a warning at the next opening.
        system_settings::restore(database, &self.shared.catalog());
        // What cannot be removed now no session sees, and it is removed when the database is opened next.
        let _ = store.remove_left(database, &left);
        Ok(())
    }
}

impl Connection {
    /// Has the session learn that the standby was promoted: between two transactions, as one that has begun stays what it is.
    pub(super) fn note_promotion(&mut self) {
        let environment = &mut self.environment;
        if environment.is_on_standby && self.transaction.is_idle() && !self.shared.database.is_standby() {
            environment.is_on_standby = false;
            // It is a setting, and this one of its values.
            let _ = environment.settings.set_fixed("in_hot_standby", "off");
        }
    }

    /// Refuses a command that a standby cannot carry out, although it writes no rows.
    ///
    /// # Errors
    /// 25006.
    pub(super) fn check_no_standby(&self, command: &str) -> Result<()> {
        check_no_standby(&self.shared, command)
    }
}

/// Same as [`Connection::check_no_standby`].
///
/// # Errors
/// 25006.
pub(super) fn check_no_standby(shared: &Shared, command: &str) -> Result<()> {
    if !shared.database.is_standby() {
        return Ok(());
    }
    let message = format!("cannot execute {command} during recovery");
    Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
}
