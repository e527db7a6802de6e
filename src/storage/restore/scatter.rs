//! Cuts a log group into shares, which are replayed side by side.
//!
//! Invariants: all changes of a record are in one share, in the order in which `group` argues that they must be
//! replayed; nothing in that argument speaks about more than one record. So shares need no order among themselves, within a
//! group or between groups. The one thing that changes need besides their record is their table: what commits have put
//! into the catalog is replayed here, before anything that follows it is passed on.

use std::ops::Range;

use crossbeam_epoch::Guard;
use smallvec::SmallVec;

use super::{Tools, apply_change};
use crate::error::Result;
use crate::storage::catalog::{self, FIRST_USER_TABLE};
use crate::storage::index::hash::hash_key;
use crate::storage::redo::{LoggedTransaction, Reader, split_transactions};
use crate::storage::store::Store;
use crate::storage::table::TableId;
use crate::storage::word::Stamp;

/// A group, cut into shares.
pub(crate) struct Scattered {
    /// Its epoch.
    pub(crate) epoch: u64,
    /// The number of its transactions; the merged operations of one worker context count as one.
    pub(crate) transactions: u64,
    pub(super) payload: Vec<u8>,
    pub(super) shares: Vec<Vec<Step>>,
}

/// One change of one record.
pub(super) struct Step {
    pub(super) stamp: Stamp,
    pub(super) table: TableId,
    /// True for merged operations, false for a commit's writes.
    pub(super) merged: bool,
    /// The offset of its beginning in the payload.
    pub(super) at: usize,
    /// The range of its record's key in the payload, and that key's hash: so the record can be fetched ahead.
    pub(super) key: Range<usize>,
    pub(super) hash: u64,
}

/// Cuts a group of this epoch into this many shares. `tools`: for what is replayed here.
///
/// # Errors
/// The bytes are no redo of this database.
pub(crate) fn scatter(
    store: &Store,
    (epoch, payload): (u64, Vec<u8>),
    shares: usize,
    tools: &mut Tools,
    guard: &Guard,
) -> Result<Scattered> {
    tools.begin_epoch(Some(epoch))?;
    let mut steps: Vec<Vec<Step>> = (0..shares).map(|_| Vec::new()).collect();
    let mut transactions = split_transactions(&payload)?;
    let count = transactions.len() as u64;
    let mut scattering = Scattering { store, payload: &payload, steps: &mut steps };
    for transaction in transactions.extract_if(.., |transaction| transaction.is_merged()) {
        scattering.merged(transaction, tools)?;
    }
    transactions.sort_by_key(|transaction| transaction.stamp);
    for transaction in transactions {
        scattering.commit(transaction, tools, guard)?;
    }
    Ok(Scattered { epoch, transactions: count, payload, shares: steps })
}

struct Scattering<'s> {
    store: &'s Store,
    payload: &'s [u8],
    steps: &'s mut [Vec<Step>],
}

impl Scattering<'_> {
    /// The offset in the payload of the rest of these changes.
    fn place(&self, changes: &[u8], reader: &Reader<'_>) -> usize {
        changes.as_ptr().addr() - self.payload.as_ptr().addr() + changes.len() - reader.left()
    }

    /// Puts a change of this record, which begins at this place, into its share.
    fn put(&mut self, (table, key): (TableId, &[u8]), stamp: Stamp, at: usize, merged: bool) {
        let hash = hash_key(key);
        // The upper half of the hash: the lower one is the record's place in a hash index.
        let share = ((hash >> 32) as usize).wrapping_add(table as usize) % self.steps.len();
        let start = key.as_ptr().addr() - self.payload.as_ptr().addr();
        self.steps[share].push(Step { stamp, table, merged, at, key: start..start + key.len(), hash });
    }

    /// A worker context's merged operations.
    fn merged(&mut self, transaction: LoggedTransaction<'_>, tools: &mut Tools) -> Result<()> {
        let LoggedTransaction { stamp, changes } = transaction;
        let mut reader = Reader::new(changes);
        loop {
            let at = self.place(changes, &reader);
            let Some(head) = reader.next_merged()? else { return Ok(()) };
            tools.on_table(self.store, (head.table, reader.version()), |_, table| {
                (0..head.columns).try_for_each(|_| reader.merged_column(table).map(drop))
            })?;
            self.put((head.table, head.key), stamp, at, true);
        }
    }

    /// Scatters the changes that one commit has logged. The tables that it has put into the catalog are made: with its
    /// changes all rows about them are there, which need not be true of tables that later commits make, although a
    /// checkpoint may have some of their rows already.
    fn commit(&mut self, transaction: LoggedTransaction<'_>, tools: &mut Tools, guard: &Guard) -> Result<()> {
        let LoggedTransaction { stamp, changes } = transaction;
        let mut reader = Reader::new(changes);
        let mut made: SmallVec<[TableId; 1]> = SmallVec::new();
        loop {
            let at = self.place(changes, &reader);
            let Some(head) = reader.next_head()? else { break };
            if head.table < FIRST_USER_TABLE {
                if head.table == catalog::TABLES {
                    made.push(catalog::id_of_key(head.key)?);
                }
                tools.arena.reset();
                tools.on_table(self.store, (head.table, reader.version()), |tools, table| {
                    apply_change(table, (stamp, table.hash(head.key)), &head, &mut reader, tools, guard)
                })?;
            } else {
                if self.store.table(head.table).is_none() {
                    // The transaction has made it: its rows in the catalog are before its own.
                    made.iter().try_for_each(|&id| self.store.add_table_of_catalog(id, guard))?;
                }
                let of = (head.table, reader.version());
                tools.on_table(self.store, of, |_, table| reader.skip(head.change, table))?;
                self.put((head.table, head.key), stamp, at, false);
            }
        }
        made.into_iter().try_for_each(|id| self.store.add_table_of_catalog(id, guard))
    }
}
