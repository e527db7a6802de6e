//! ANALYZE: statistics of tables, taken at once and for all connections.
//!
//! # Invariants
//! - The rows are read on a snapshot: no transaction waits for it, and it waits for none.

use std::sync::Arc;

use crate::catalog::{Relation, Table, system};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Maintenance, Name, ObjectName};
use crate::session::connection::Connection;
use crate::session::result::Severity;

impl Connection {
    /// The tables that the current role owns, which it may maintain; a warning for the others. All of its tables if none is named.
    pub(super) fn maintained(
        &mut self,
        names: &[(ObjectName, Vec<Name>)],
        verb: &str,
    ) -> Result<Vec<Arc<Table>>> {
        let catalog = self.environment.catalog.clone();
        if names.is_empty() {
            let owned = |table: &&Arc<Table>| {
                catalog.relation_by_oid(table.oid).is_some_and(|it| self.check_relation_owner(it).is_ok())
            };
            return Ok(catalog.tables().filter(owned).cloned().collect());
        }
        let path = self.environment.path();
        let mut own = Vec::with_capacity(names.len());
        for (name, columns) in names {
            // vacuumdb names every table, those of the catalog too: they have nothing to maintain.
            if system::find(&catalog, name.schema(), name.last(), &path).is_some() {
                continue;
            }
            let relation = self.find_relation(name)?;
            if self.check_relation_owner(&relation).is_err() {
                let message = format!("permission denied to {verb} \"{}\", skipping it", name.last());
                self.environment.add_notice(Severity::Warning, SqlState::WARNING, message);
                continue;
            }
            match relation {
                Relation::Table(table) => {
                    check_columns(&table, columns)?;
                    own.push(table);
                }
                _ => {
                    let message = format!(
                        "skipping \"{}\" --- cannot {verb} non-tables or special system tables",
                        name.last()
                    );
                    self.environment.add_notice(Severity::Warning, SqlState::WARNING, message);
                }
            }
        }
        Ok(own)
    }

    /// Looks at tables, and lets plans that were made by the statistics of before be made again.
    pub(super) fn analyze(&mut self, asked: &Maintenance, tables: &[Arc<Table>]) -> Result<()> {
        let target = self.environment.settings.get("default_statistics_target");
        let target = target.and_then(|target| target.parse().ok()).unwrap_or(100);
        for table in tables {
            self.environment_check()?;
            let shared = self.shared.clone();
            if asked.verbose {
                let message = format!("analyzing \"{}.{}\"", table.schema, table.name);
                self.environment.add_notice(Severity::Info, SqlState::SUCCESSFUL_COMPLETION, message);
            }
            if !self.transaction.is_idle() {
                // What the open transaction has written is not on a snapshot: the next statement looks again.
                self.environment.routines.uncounted.push(table.oid);
            }
            let Ok(found) = shared.statistics.analyze(&shared.database, table, target) else {
                shared.statistics.forget(Some(table.oid));
                continue;
            };
            if asked.verbose {
                let message = format!(
                    "\"{}\": {} rows in sample, {} estimated total rows",
                    table.name, found.sampled, found.rows
                );
                self.environment.add_notice(Severity::Info, SqlState::SUCCESSFUL_COMPLETION, message);
            }
        }
        self.shared.templates.clear();
        (self.plans, self.templates, self.parsed) = Default::default();
        Ok(())
    }
}

/// The columns that ANALYZE names are the table's, each once.
fn check_columns(table: &Table, names: &[Name]) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        let (text, table_name) = (&name.text, &table.name);
        if !table.visible().iter().any(|column| column.name == *text) {
            let message = format!("column \"{text}\" of relation \"{table_name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        }
        if names[..at].iter().any(|known| known.text == *text) {
            let message = format!("column \"{text}\" of relation \"{table_name}\" appears more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}
