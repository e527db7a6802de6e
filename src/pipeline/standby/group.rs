//! A group of the log, replayed on a standby.
//!
//! The merged operations on split columns are first, then the commits in the order of their stamps, as recovery replays them
//! (`storage::restore::group_replay` argues why). All changes up to one of the schema are one transaction: a group is usually
//! one.

use std::collections::BTreeSet;

use super::rows::{RowChange, Rows};
use super::schema::SchemaReplay;
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::storage::catalog;
use crate::storage::redo::{LoggedTransaction, Reader, split_transactions};
use crate::storage::table::TableId;

/// The contents of a group that was replayed.
#[derive(Debug, Default)]
pub(super) struct GroupReport {
    /// The number of its transactions; merged operations of one worker context count as one.
    pub(super) transactions: u64,
    /// True if it has changed the schema.
    pub(super) changes_schema: bool,
    /// The tables that it has changed.
    pub(super) tables: BTreeSet<TableId>,
}

/// Replays a group.
///
/// # Errors
/// The bytes are no redo of this database; memory is short; the database is being closed.
pub(super) fn replay_group(engine: &Engine, payload: &[u8]) -> Result<GroupReport> {
    let mut transactions = split_transactions(payload)?;
    let mut group = Group {
        engine,
        pending: Vec::new(),
        report: GroupReport { transactions: transactions.len() as u64, ..GroupReport::default() },
    };
    for transaction in transactions.extract_if(.., |transaction| transaction.is_merged()) {
        group.merged(transaction.changes)?;
    }
    transactions.sort_by_key(|transaction| transaction.stamp);
    transactions.iter().try_for_each(|transaction| group.commit(transaction))?;
    group.write()?;
    Ok(group.report)
}

struct Group<'e, 'p> {
    engine: &'e Engine,
    /// Changes that are not written yet.
    pending: Vec<RowChange<'p>>,
    report: GroupReport,
}

impl<'p> Group<'_, 'p> {
    /// Takes a worker context's merged operations.
    fn merged(&mut self, changes: &'p [u8]) -> Result<()> {
        let mut reader = Reader::new(changes);
        loop {
            let bytes = &changes[changes.len() - reader.left()..];
            let Some(head) = reader.next_merged()? else { return Ok(()) };
            let table = self.engine.store().table(head.table).ok_or_else(|| unknown(head.table))?;
            (0..head.columns).try_for_each(|_| reader.merged_column(&table).map(drop))?;
            self.report.tables.insert(head.table);
            self.pending.push(RowChange { table, bytes, is_merged: true });
        }
    }

    /// Takes the changes of a commit.
    fn commit(&mut self, transaction: &LoggedTransaction<'p>) -> Result<()> {
        let (changes, begin) = (transaction.changes, self.pending.len());
        let mut reader = Reader::new(changes);
        loop {
            let bytes = &changes[changes.len() - reader.left()..];
            let Some(head) = reader.next_head()? else { return Ok(()) };
            if catalog::is_of_definitions(head.table) {
                // What was taken of it is taken again.
                self.pending.truncate(begin);
                self.write()?;
                self.report.changes_schema = true;
                return SchemaReplay::new(self.engine).replay(changes, &mut self.report.tables);
            }
            let table = self.engine.store().table(head.table).ok_or_else(|| unknown(head.table))?;
            reader.skip(head.change, &table)?;
            self.report.tables.insert(head.table);
            self.pending.push(RowChange { table, bytes, is_merged: false });
        }
    }

    /// Writes the changes that were taken.
    fn write(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.pending);
        Rows { changes: &changes, ..Rows::default() }.commit(self.engine)
    }
}

fn unknown(id: TableId) -> Error {
    let detail = format!("a change of table {id}, which no catalog row names");
    Error::Malformed { what: "redo of this database", detail }
}
