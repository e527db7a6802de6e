//! Unique constraints that are deferrable or NULLS NOT DISTINCT: while a statement writes, rows may be equal; when it has ended, or at
//! COMMIT, they may not.
//!
//! # Invariants
//! - The engine's index is not unique. Every row whose values of such a constraint are new is looked up in it.
//! - Values with a NULL in them are never equal, unless the constraint says so.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::catalog::{Deferral, Table};
use crate::error::Result;
use crate::run::Run;
use crate::run::write::rows::{each_by_index, unique_violation};
use crate::types::{DeferrableKey, KeySide, Value};

/// Values that may be there twice: of a table's index, by its place.
#[derive(Default)]
pub(super) struct Unsure {
    values: HashSet<(u32, usize, Vec<Value>)>,
    tables: Vec<Arc<Table>>,
}

impl Unsure {
    /// Notes what a written row changes in constraints.
    pub(super) fn note(&mut self, table: &Arc<Table>, old: Option<&[Value]>, new: &[Value]) {
        for (number, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.is_looked_up()) {
            let columns = || index.columns.iter().map(|column| column.column);
            let is_same = old.is_some_and(|old| columns().all(|column| old[column] == new[column]));
            if is_same || table.may_repeat(index, new) {
                continue;
            }
            let values = columns().map(|column| new[column].clone()).collect();
            self.values.insert((table.oid, number, values));
            if !self.tables.iter().any(|known| known.oid == table.oid) {
                self.tables.push(table.clone());
            }
        }
    }

    /// Looks the noted values up, once all rows are written.
    ///
    /// # Errors
    /// 23505 for values that two rows have, unless the constraint is checked at COMMIT.
    pub(super) fn check(self, run: &mut Run<'_>) -> Result<()> {
        for (oid, number, values) in &self.values {
            let Some(table) = self.tables.iter().find(|table| table.oid == *oid) else { continue };
            let mut found = Vec::new();
            each_by_index(run, table, *number, values, &mut |_, row| {
                found.push(row);
                Ok(found.len() < 2)
            })?;
            let [row, _] = &found[..] else { continue };
            let index = &table.indexes[*number];
            let key = DeferrableKey {
                table: table.oid,
                name: &index.name,
                deferred: index.deferral == Some(Deferral::InitiallyDeferred),
            };
            let waits = |run: &mut Run<'_>| run.environment.defer_check(key, values, KeySide::Referencing);
            if index.deferral.is_none() || !waits(run) {
                let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
                return Err(unique_violation(&*run.environment, table, &index.name, &columns, row));
            }
        }
        Ok(())
    }
}
