//! ON COMMIT DELETE ROWS and ON COMMIT DROP of temporary tables.
//!
//! # Invariants
//! - Only the session sees its temporary tables, so they are emptied and dropped by a transaction that directly follows
//!   the commit. A rollback does neither: it undoes what the transaction did to them.
//! - A table that is emptied is referenced only by others that are emptied, so that their order does not matter: rows
//!   that refer to a deleted one are not looked for.

use std::sync::Arc;

use crate::bind::Checks;
use crate::catalog::{Persistence, Relation, Table};
use crate::ddl::qualified;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{OnCommit, PersistenceName};
use crate::session::Connection;

impl Connection {
    /// The lifetime of the rows of a new table.
    ///
    /// # Errors
    /// 42P16: ON COMMIT of a table that is not temporary.
    pub(super) fn persistence(
        &mut self,
        name: PersistenceName,
        schema: &str,
        on_commit: OnCommit,
    ) -> Result<Persistence> {
        let is_temporary = name == PersistenceName::Temporary || schema == self.environment().temporary;
        self.environment_mut().has_brief_tables |= on_commit != OnCommit::PreserveRows;
        match on_commit {
            _ if !is_temporary && on_commit != OnCommit::PreserveRows => {
                let message = "ON COMMIT can only be used on temporary tables";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
            }
            OnCommit::DeleteRows => Ok(Persistence::EmptiedAtCommit),
            OnCommit::Drop => Ok(Persistence::DroppedAtCommit),
            OnCommit::PreserveRows if is_temporary => Ok(Persistence::Temporary),
            OnCommit::PreserveRows if name == PersistenceName::Unlogged => Ok(Persistence::Unlogged),
            OnCommit::PreserveRows => Ok(Persistence::Permanent),
        }
    }

    /// Empties and drops the temporary tables that live as long as a transaction, after its commit.
    pub(crate) fn end_temporary_rows(&mut self) -> Result<()> {
        let catalog = self.current_catalog();
        let (mut emptied, mut dropped): (Vec<Arc<Table>>, Vec<Arc<Table>>) = (Vec::new(), Vec::new());
        for (_, relation) in catalog.relations_in(&self.environment().temporary) {
            match relation {
                Relation::Table(table) if table.persistence == Persistence::EmptiedAtCommit => {
                    emptied.push(table.clone());
                }
                Relation::Table(table) if table.persistence == Persistence::DroppedAtCommit => {
                    dropped.push(table.clone());
                }
                _ => {}
            }
        }
        for table in &emptied {
            self.run_own(&format!("delete from {}", qualified(table)), Checks::Nothing)?;
        }
        self.environment_mut().has_brief_tables = !(emptied.is_empty() && dropped.is_empty());
        if dropped.is_empty() {
            return Ok(());
        }
        self.in_schema_transaction(|connection| connection.drop_tables(&dropped))
    }
}
