//! Reports on contended rows: the rows about which transactions abort, and the rows that sessions hold and
//! wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Database;
use crate::database::SplitReport;
use crate::diagnostics::conflict_counts::CountedKey;
use crate::lock::hot_rows::HotRow;
use crate::protocol::attempt::show_key;
use crate::storage::table::TableCore;

/// A row about which transactions have aborted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HotRecord {
    /// The table's name.
    pub table: String,
    /// The row's key, as text.
    pub key: String,
    /// Attempts that were retried, and transactions of sessions that failed, because the row, which they would have written,
    /// was changed by a rival: at least this many since the database was opened. Rows with few conflicts among many others are forgotten.
    pub write_conflicts: u64,
    /// Sessions that wait for the row now.
    pub waiting_sessions: usize,
    /// True if a transaction that reads the row by key now reserves it, because it is predicted to write it, too.
    pub is_predicted: bool,
    /// Number of such reservations.
    pub predicted_reservations: u64,
    /// Number of times that a transaction waited for another one that had reserved it.
    pub predicted_waits: u64,
    /// The row's columns that are split now.
    pub splits: Vec<SplitReport>,
}

/// A row, or the right to change the schema, that a session's transaction has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLock {
    /// The row's table and its key, as text; `None` for the right to change the schema.
    pub row: Option<(String, String)>,
    /// The number of the session that has it ([`Session::number`](crate::Session::number)); `None` for an
    /// internal session.
    pub holder: Option<u64>,
    /// The sessions that wait for it, in the order in which it will be granted to them.
    pub waiters: Vec<u64>,
}

impl Database {
    /// The rows with the most write conflicts, sorted by them, then by table and key; with those that sessions wait for,
    /// and those that are split now.
    pub fn hot_records(&self) -> Vec<HotRecord> {
        let store = self.engine().store();
        let mut counts: BTreeMap<CountedKey, u64> = BTreeMap::new();
        store.worker_contexts().all().for_each(|context| context.conflicts.add_to(&mut counts));
        let mut rows: BTreeMap<(String, String), HotRecord> = BTreeMap::new();
        let mut row = |table: &str, key: &str, change: &mut dyn FnMut(&mut HotRecord)| {
            let new = || HotRecord {
                table: table.to_string(),
                key: key.to_string(),
                write_conflicts: 0,
                waiting_sessions: 0,
                is_predicted: false,
                predicted_reservations: 0,
                predicted_waits: 0,
                splits: Vec::new(),
            };
            change(rows.entry((table.to_string(), key.to_string())).or_insert_with(new));
        };
        for ((table, key), count) in counts {
            // A table that was dropped since has no rows to report.
            if let Some(table) = store.table(table).filter(|table| !table.is_internal()) {
                let name = table.definition().name();
                row(name, &show_key(&table, &key), &mut |row| row.write_conflicts += count);
            }
        }
        for lock in self.session_locks() {
            if let Some((table, key)) = lock.row.filter(|_| !lock.waiters.is_empty()) {
                row(&table, &key, &mut |row| row.waiting_sessions = lock.waiters.len());
            }
        }
        let tables = self.tables_by_records();
        for hot in self.shared.sessions().predicted() {
            let HotRow { row: (identity, key), .. } = &hot;
            if let Some(table) = tables.get(identity).filter(|table| !table.is_internal()) {
                row(table.definition().name(), &show_key(table, key), &mut |row| {
                    row.write_conflicts += hot.failed_sessions;
                    row.waiting_sessions += hot.waiting_sessions;
                    row.is_predicted = hot.is_predicted.contains(&true);
                    (row.predicted_reservations, row.predicted_waits) = (hot.reserved, hot.waits);
                });
            }
        }
        let columns = self.phases().map_or_else(Vec::new, |phases| phases.columns);
        for split in columns.into_iter().filter(|split| split.now) {
            row(&split.table, &split.key, &mut |row| row.splits.push(split.clone()));
        }
        let mut sorted: Vec<HotRecord> = rows.into_values().collect();
        sorted.sort_by_key(|row| std::cmp::Reverse(row.write_conflicts));
        sorted
    }

    /// Returns the reservations of sessions, and the sessions that wait for each.
    pub fn session_locks(&self) -> Vec<SessionLock> {
        let tables = self.tables_by_records();
        let shown = |(identity, key): (u64, Arc<[u8]>)| {
            let table = tables.get(&identity)?;
            Some((table.definition().name().to_string(), show_key(table, &key)))
        };
        let locks = self.shared.sessions().locks().into_iter();
        locks.map(|(key, holder, waiters)| SessionLock { row: shown(key), holder, waiters }).collect()
    }

    fn tables_by_records(&self) -> BTreeMap<u64, Arc<TableCore>> {
        let tables = self.engine().store().all_tables().into_iter();
        tables.map(|table| (table.records_identity(), table)).collect()
    }
}
