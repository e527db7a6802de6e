//! The tables whose rules only SQL evaluates: the engine refuses all writes to them that SQL does not make.
//!
//! Invariant: such a table's definition in the engine names SQL as its evaluator from the transaction on that gives it
//! its first rule. It remains so when the last rule is dropped.

use std::collections::HashSet;
use std::sync::Arc;

use heddledb::{Database, TableChange};

use crate::catalog::{Catalog, Check, Column, ColumnOrigin, ForeignKey, Index, Table};

/// The name under which SQL is the evaluator of tables.
pub(crate) const EVALUATOR: &str = "SQL";

impl Column {
    /// Returns true if SQL computes or checks the values of the column.
    fn is_ruled(&self) -> bool {
        let is_computed = matches!(
            self.origin,
            ColumnOrigin::Generated(_) | ColumnOrigin::IndexKey(_) | ColumnOrigin::IndexPredicate(_)
        );
        is_computed || self.domain.is_some()
    }
}

/// Returns true if rows with these columns, indexes, checks and foreign keys have rules that only SQL evaluates.
pub(crate) fn are_ruled(
    columns: &[Column],
    indexes: &[Index],
    checks: &[Check],
    foreign_keys: &[ForeignKey],
) -> bool {
    indexes.iter().any(Index::is_looked_up)
        || !checks.is_empty()
        || !foreign_keys.is_empty()
        || columns.iter().any(Column::is_ruled)
}

impl Catalog {
    /// The tables with such rules, also those that other tables and triggers give them, whose definitions in the engine do not name
    /// SQL yet.
    pub(crate) fn unmarked_tables(&self) -> Vec<Arc<Table>> {
        let keys = self.tables().flat_map(|table| &table.foreign_keys);
        let referenced: HashSet<u32> = keys.map(|key| key.table).collect();
        let is_ruled = |table: &Table| {
            are_ruled(&table.columns, &table.indexes, &table.checks, &table.foreign_keys)
                || referenced.contains(&table.oid)
                || !self.triggers_of(table.oid).is_empty()
        };
        let is_marked = |table: &Table| table.engine.definition().needed_evaluator().is_some();
        self.tables().filter(|table| !is_marked(table) && is_ruled(table)).cloned().collect()
    }
}

/// Marks the tables of a database that was written before tables were marked. One that cannot be changed now stays as it is.
pub(super) fn mark_earlier(database: &Database, catalog: &mut Catalog) {
    for table in catalog.unmarked_tables() {
        let change = TableChange::new().evaluator(Some(EVALUATOR));
        if let Ok(engine) = database.change_table(table.engine.definition().name(), change) {
            catalog.put_table(Arc::new(Table { engine: engine.fixed(), ..table.as_ref().clone() }));
        }
    }
}
