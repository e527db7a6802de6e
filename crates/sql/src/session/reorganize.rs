//! REINDEX and CLUSTER: rows and indexes are in memory in an order of their own, so that only the named objects are
//! checked.
//!
//! Source: PostgreSQL 15, `ExecReindex` in `indexcmds.c`, `cluster` in `cluster.c`.

use crate::catalog::system::{self, PG_CATALOG};
use crate::catalog::{Relation, no_schema};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Name, ObjectKind, ObjectName, Reorganize, ReorganizeTarget};
use crate::session::Connection;

impl Connection {
    /// # Errors
    /// 42704, 42P01, 3F000 for what is not there, 42809 for what is of another kind, 42501 for what is another role's, 25001 in
    /// a block for what PostgreSQL does in several transactions, 0A000 for another database.
    pub(super) fn reorganize(&self, statement: &Reorganize) -> Result<&'static str> {
        let refuse = || {
            let message = "cannot reindex system catalogs concurrently";
            if statement.concurrently { Err(SqlError::unsupported(message)) } else { Ok(()) }
        };
        if statement.concurrently {
            self.check_no_block("REINDEX CONCURRENTLY")?;
        }
        match &statement.target {
            ReorganizeTarget::All => self.check_no_block("CLUSTER")?,
            ReorganizeTarget::Relation(kind, name) if self.is_of_system(name) => {
                self.check_system_relation(*kind, name)?;
                refuse()?;
            }
            ReorganizeTarget::Relation(kind, name) => {
                self.check_reorganized(*kind, name, statement.index.as_ref())?;
            }
            ReorganizeTarget::Schema(name) => {
                self.check_no_block("REINDEX SCHEMA")?;
                self.check_reindexed_schema(&name.text)?;
            }
            ReorganizeTarget::Database { name, is_system } => {
                self.check_no_block(if *is_system { "REINDEX SYSTEM" } else { "REINDEX DATABASE" })?;
                if *is_system {
                    refuse()?;
                }
                if !self.environment().is_database(&name.text) {
                    return Err(SqlError::unsupported("can only reindex the currently open database"));
                }
                self.check_owner(&self.current_catalog().database.rights, "database", &name.text)?;
            }
        }
        Ok(statement.tag)
    }

    fn check_reindexed_schema(&self, name: &str) -> Result<()> {
        if matches!(name, PG_CATALOG | "information_schema") {
            return self.check_superuser("schema", name);
        }
        let catalog = self.current_catalog();
        let Some(schema) = catalog.schema(name) else { return Err(no_schema(name)) };
        self.check_owner(&schema.rights, "schema", name)
    }

    /// Returns an error for an object of the system unless the current role is a superuser.
    fn check_superuser(&self, kind: &str, name: &str) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let message = format!("must be owner of {kind} {name}");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    fn is_of_system(&self, name: &ObjectName) -> bool {
        let path = self.environment().path();
        system::find(&self.environment().catalog, name.schema(), name.last(), &path).is_some()
    }

    fn check_system_relation(&self, kind: ObjectKind, name: &ObjectName) -> Result<()> {
        if kind == ObjectKind::Index {
            return Err(wrong_kind(name, kind));
        }
        self.check_superuser("table", name.last())
    }

    fn check_reorganized(&self, kind: ObjectKind, name: &ObjectName, index: Option<&Name>) -> Result<()> {
        let relation = self.find_relation(name)?;
        let fits = match kind {
            ObjectKind::Index => matches!(relation, Relation::Index { .. }),
            _ => matches!(relation, Relation::Table(_)),
        };
        if !fits {
            return Err(wrong_kind(name, kind));
        }
        self.check_relation_owner(&relation)?;
        let (Relation::Table(table), Some(index)) = (&relation, index) else { return Ok(()) };
        let (state, message) = match self.current_catalog().relation(&table.schema, &index.text) {
            Some(Relation::Index { table: of, .. }) if *of == table.oid => return Ok(()),
            Some(_) => {
                let message = format!("\"{}\" is not an index for table \"{}\"", index.text, table.name);
                (SqlState::WRONG_OBJECT_TYPE, message)
            }
            None => {
                let message = format!("index \"{}\" for table \"{}\" does not exist", index.text, table.name);
                (SqlState::UNDEFINED_OBJECT, message)
            }
        };
        Err(SqlError::new(state, message))
    }
}

fn wrong_kind(name: &ObjectName, kind: ObjectKind) -> SqlError {
    let what = if kind == ObjectKind::Index { "an index" } else { "a table or materialized view" };
    let message = format!("\"{}\" is not {what}", name.last());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
