//! Reports on contended rows: the rows about which transactions abort, and the rows that sessions hold and
//! wait for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Database;
use crate::database::SplitReport;
use crate::diagnostics::conflict_counts::CountedKey;
use crate::diagnostics::recent_counts::{RowKey, interval_now};
use crate::lock::hot_rows::HotRow;
use crate::protocol::attempt::show_key;
use crate::storage::table::{TableCore, TableId};

/// A row that transactions write often, or have aborted about.
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
    /// Commits that have written the row in about the last minute, estimated from a sample of one in 64.
    pub recent_writes: u64,
    /// Attempts that were retried, and transactions of sessions that failed, because of the row, in about the last minute.
    pub recent_conflicts: u64,
    /// Transactions that have waited for the row because others had reserved it, in about the last minute.
    pub recent_waits: u64,
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

/// The most rows in a report for no other reason than that they were written.
const WRITTEN_ROWS_MAX: usize = 100;

/// Reports on rows, by table and key.
#[derive(Default)]
struct Rows(BTreeMap<(String, String), HotRecord>);

impl Rows {
    fn row(&mut self, table: &str, key: &str) -> &mut HotRecord {
        let new = || HotRecord {
            table: table.to_string(),
            key: key.to_string(),
            write_conflicts: 0,
            waiting_sessions: 0,
            is_predicted: false,
            predicted_reservations: 0,
            predicted_waits: 0,
            splits: Vec::new(),
            recent_writes: 0,
            recent_conflicts: 0,
            recent_waits: 0,
        };
        self.0.entry((table.to_string(), key.to_string())).or_insert_with(new)
    }

    fn of(&mut self, table: &TableCore, key: &[u8]) -> Option<&mut HotRecord> {
        if table.is_internal() {
            return None;
        }
        Some(self.row(table.definition().name(), &show_key(table, key)))
    }
}

impl HotRecord {
    /// Returns true if it is in a report for another reason than that it was written.
    fn is_contended(&self) -> bool {
        self.write_conflicts + self.recent_conflicts + self.recent_waits > 0
            || self.waiting_sessions > 0
            || self.is_predicted
            || !self.splits.is_empty()
    }
}

impl Database {
    /// The rows with the most write conflicts, sorted by them, then by table and key; with those that sessions wait for,
    /// and those that are split now.
    pub fn hot_records(&self) -> Vec<HotRecord> {
        let mut rows = Rows::default();
        self.add_conflicts(&mut rows);
        let mut sorted: Vec<HotRecord> = rows.0.into_values().collect();
        sorted.sort_by_key(|row| Reverse(row.write_conflicts));
        sorted
    }

    /// The rows that transactions have written most in about the last minute, the hottest first; with those that
    /// [`hot_records`](Self::hot_records) lists. Of rows that were only written at most 100 are listed.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, TableDefinition, key, row};
    /// let db = Database::in_memory()?;
    /// let page = TableDefinition::new("page").column("id", DataType::Int64).column("likes", DataType::Int64);
    /// let page = db.create_table(page.primary_key(["id"]))?;
    /// db.run(|tx| (0..9_i64).try_for_each(|id| tx.insert(&page, row![id, 0_i64])))?;
    /// for _ in 0..1_000 {
    ///     db.run(|tx| tx.add(&page, key![3_i64], "likes", 1))?;
    /// }
    /// let hottest = &db.hot_rows()[0];
    /// assert_eq!((&*hottest.table, &*hottest.key), ("page", "3"));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn hot_rows(&self) -> Vec<HotRecord> {
        let mut rows = Rows::default();
        self.add_conflicts(&mut rows);
        self.add_recent(&mut rows);
        let mut sorted: Vec<HotRecord> = rows.0.into_values().collect();
        sorted.sort_by_key(|row| Reverse((row.recent_writes, row.recent_conflicts, row.write_conflicts)));
        let mut written = 0;
        sorted.retain(|row| {
            written += 1;
            written <= WRITTEN_ROWS_MAX || row.is_contended()
        });
        sorted
    }

    /// Adds what is counted since the database was opened, and what is so now.
    fn add_conflicts(&self, rows: &mut Rows) {
        let store = self.engine().store();
        let mut counts: BTreeMap<CountedKey, u64> = BTreeMap::new();
        store.worker_contexts().all().for_each(|context| context.conflicts.add_to(&mut counts));
        for ((table, key), count) in counts {
            // A table that was dropped since has no rows to report.
            if let Some(table) = store.table(table)
                && let Some(row) = rows.of(&table, &key)
            {
                row.write_conflicts += count;
            }
        }
        for lock in self.session_locks() {
            if let Some((table, key)) = lock.row.filter(|_| !lock.waiters.is_empty()) {
                rows.row(&table, &key).waiting_sessions = lock.waiters.len();
            }
        }
        let tables = self.tables_by_records();
        for hot in self.shared.sessions().predicted() {
            let HotRow { row: (identity, key), .. } = &hot;
            if let Some(row) = tables.get(identity).and_then(|table| rows.of(table, key)) {
                row.write_conflicts += hot.failed_sessions;
                row.waiting_sessions += hot.waiting_sessions;
                row.is_predicted = hot.is_predicted.contains(&true);
                (row.predicted_reservations, row.predicted_waits) = (hot.reserved, hot.waits);
            }
        }
        let columns = self.phases().map_or_else(Vec::new, |phases| phases.columns);
        for split in columns.into_iter().filter(|split| split.now) {
            rows.row(&split.table, &split.key).splits.push(split.clone());
        }
    }

    /// Adds what is counted over the last minute.
    fn add_recent(&self, rows: &mut Rows) {
        let (store, interval) = (self.engine().store(), interval_now());
        let (mut writes, mut conflicts) = (BTreeMap::new(), BTreeMap::new());
        for context in store.worker_contexts().all() {
            context.recent_writes.add_to(interval, &mut writes);
            context.recent_conflicts.add_to(interval, &mut conflicts);
        }
        let by_number = |table: u64| store.table(TableId::try_from(table).ok()?);
        add(rows, writes, by_number, |row, count| row.recent_writes += count);
        add(rows, conflicts, by_number, |row, count| row.recent_conflicts += count);
        let (mut waits, mut failures) = (BTreeMap::new(), BTreeMap::new());
        store.recent_waits().add_to(interval, &mut waits);
        store.recent_failures().add_to(interval, &mut failures);
        let tables = self.tables_by_records();
        let by_records = |table: u64| tables.get(&table).cloned();
        add(rows, waits, by_records, |row, count| row.recent_waits += count);
        add(rows, failures, by_records, |row, count| row.recent_conflicts += count);
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

/// Adds counts of rows; a table that was dropped since has none to report.
fn add(
    rows: &mut Rows,
    counts: BTreeMap<RowKey, u64>,
    table: impl Fn(u64) -> Option<Arc<TableCore>>,
    add: impl Fn(&mut HotRecord, u64),
) {
    for ((number, key), count) in counts {
        if let Some(table) = table(number)
            && let Some(row) = rows.of(&table, &key)
        {
            add(row, count);
        }
    }
}
