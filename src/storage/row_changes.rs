//! Counts of changed rows by table, for planners that look at a table again once it has changed much.
//!
//! Each worker context counts in separate memory, which only its thread writes; a planner that asks adds up all contexts. So a
//! commit shares no counter with another one, and waits for none.
//!
//! # Invariants
//! - Numbers only rise. Tables whose identities differ by a multiple of [`COUNTERS`] share a counter, so that the number of
//!   one may rise with the other: that costs a planner a look at a table, and nothing else.
//! - What slices add to split columns is not counted: it changes no key.

use super::table::TableId;
use super::worker_context::Counters;
use crate::base::atomics::{AtomicU64, Ordering};

/// The number of counters of a worker context.
const COUNTERS: usize = 256;

/// One worker context's counters.
pub(crate) struct RowChanges([AtomicU64; COUNTERS]);

impl Default for RowChanges {
    fn default() -> RowChanges {
        RowChanges(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl RowChanges {
    /// Counts a row that the context's thread has changed.
    #[inline]
    pub(crate) fn count(&self, table: TableId) {
        Counters::count(&self.0[table as usize % COUNTERS]);
    }

    /// The number of rows of a table that the context's transactions have changed.
    pub(crate) fn of(&self, table: TableId) -> u64 {
        // Relaxed: a recent number is enough.
        self.0[table as usize % COUNTERS].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use crate::{
        DataType, Database, Durability, Options, Result, Table, TableDefinition, ValueRef, fail, key, row,
    };

    fn database() -> Database {
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("it opens")
    }

    fn table(db: &Database, name: &str) -> Table {
        let definition =
            TableDefinition::new(name).column("id", DataType::Int64).column("n", DataType::Int64);
        db.create_table(definition.primary_key(["id"])).expect("it is made")
    }

    #[test]
    fn each_committed_change_of_a_row_counts_for_its_table_and_what_aborts_does_not() {
        let db = database();
        let (one, other) = (table(&db, "one"), table(&db, "other"));
        db.run(|tx| (0..10_i64).try_for_each(|id| tx.insert(&one, row![id, 0_i64]))).expect("it commits");
        assert_eq!((db.row_changes(&one), db.row_changes(&other)), (10, 0));
        db.run(|tx| tx.update(&one, key![3_i64], &[("n", ValueRef::Int(7))])).expect("it commits");
        db.run(|tx| tx.delete(&one, key![4_i64])).expect("it commits");
        assert_eq!(db.row_changes(&one), 12);
        let failed: Result<()> = db.run(|tx| {
            tx.delete(&one, key![5_i64])?;
            Err(fail("no"))
        });
        assert!(failed.is_err());
        db.run(|tx| tx.exists(&one, key![5_i64])).expect("it is read");
        assert_eq!((db.row_changes(&one), db.row_changes(&other)), (12, 0));
    }

    #[test]
    fn contexts_count_apart_and_are_added_up() {
        let db = database();
        let table = table(&db, "t");
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4_i64 {
                let (db, table, start) = (&db, &table, &start);
                scope.spawn(move || {
                    start.wait();
                    for id in 0..100_i64 {
                        db.run(|tx| tx.insert(table, row![thread * 100 + id, 0_i64])).expect("it commits");
                    }
                });
            }
        });
        assert_eq!(db.row_changes(&table), 400);
    }
}
