//! Rows that were loaded into a table which the commit publishes ([`TableCore::load`]): it logs them whole, and gives them its stamp.
//!
//! Invariants: until then no other thread has access to them, so that their redo is encoded before the commit section. A loaded
//! row that the transaction has written since is logged as it becomes, once.

use std::sync::Arc;

use crossbeam_epoch::{Guard, pin};

use super::Pending;
use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::storage::redo::{self, LoadedRedo, TemporaryFiles};
use crate::storage::row_changes::RowChanges;
use crate::storage::schema::SchemaChange;
use crate::storage::table::{ScanPlace, TableCore};
use crate::storage::word::{ABSENT, Stamp};
use crate::types::memory::{Refused, reserve};

/// The tables of these changes that have loaded rows.
fn loaded_tables(changes: &[SchemaChange]) -> impl Iterator<Item = &TableCore> {
    let tables = changes.iter().filter_map(|change| match change {
        SchemaChange::Add(table) | SchemaChange::Replace { new: table, .. } => Some(&**table),
        SchemaChange::Drop(_) | SchemaChange::Definitions(..) => None,
    });
    tables.filter(|table| table.is_loaded())
}

/// Returns true if a record that a transaction writes is one of those that it has loaded.
#[inline]
pub(super) fn is_loaded(changes: &[SchemaChange], table: &TableCore, word: u64) -> bool {
    !changes.is_empty() && word & ABSENT == 0 && table.is_loaded()
}

/// Returns true if these changes publish loaded rows.
pub(super) fn has_loaded(changes: &[SchemaChange]) -> bool {
    loaded_tables(changes).next().is_some()
}

/// Encodes the redo of the rows that were loaded into these tables, but those that `is_written` says the transaction has
/// written since: they are logged as they become, by [`append_written`].
///
/// # Errors
/// The disk is full, or fails; the system refuses the memory.
pub(crate) fn encode<'t>(
    tables: impl Iterator<Item = &'t TableCore>,
    files: &Arc<TemporaryFiles>,
    is_written: impl Fn(&TableCore, &[u8]) -> bool,
) -> Result<LoadedRedo> {
    let mut redo = LoadedRedo::new(files);
    for table in tables {
        let mut words = vec![0; table.layout().words()];
        let mut place = Some(ScanPlace::Start);
        while let Some(from) = place {
            // Page by page, so that memory of others is reclaimed meanwhile.
            let (guard, mut records) = (pin(), Vec::new());
            place = table.page_at(&from, &mut records, &guard);
            for record in records.into_iter().filter(|record| !is_written(table, record.key())) {
                if record.read(table.layout(), &mut words) & ABSENT == 0 {
                    encode_row(table, record.key(), &words, &mut redo)?;
                }
            }
        }
    }
    Ok(redo)
}

fn encode_row(table: &TableCore, key: &[u8], words: &[u64], redo: &mut LoadedRedo) -> Result<()> {
    let layout = table.layout();
    // SAFETY: the row's blocks are the record's, which no other thread writes.
    let long = if layout.has_blocks() { unsafe { layout.image_bytes(words) } } else { 0 };
    // SAFETY: as above.
    redo.append(redo::change_bytes_max(table, key) + long, |out| unsafe {
        redo::append_row(out, table, key, words);
    })
}

/// Appends the redo of a loaded row that the transaction has written since, if it is left.
///
/// # Errors
/// The system refuses the memory.
pub(super) fn append_written(
    entry: &Pending<'_>,
    table: &TableCore,
    redo: &mut Vec<u8>,
) -> Result<(), Refused> {
    let layout = table.layout();
    let Some(row) = entry.own_write(layout).after else { return Ok(()) };
    // SAFETY: the row's blocks are the record's, or the call's.
    let long = if layout.has_blocks() { unsafe { layout.image_bytes(&row) } } else { 0 };
    reserve(redo, redo::change_bytes_max(table, entry.record.key()) + long)?;
    // SAFETY: as above.
    unsafe { redo::append_row(redo, table, entry.record.key(), &row) };
    Ok(())
}

/// Gives all loaded rows the commit's stamp: a transaction that reads one waits for this commit to be durable. Each counts as a
/// change of its table.
pub(super) fn stamp_all(changes: &[SchemaChange], counts: &RowChanges, stamp: Stamp, guard: &Guard) {
    for table in loaded_tables(changes) {
        table.for_each_record(guard, |record| {
            // Relaxed, both: no other thread has access to the table before it is published, behind the closed gate.
            let word = record.word().load(Ordering::Relaxed);
            if word & ABSENT == 0 && Stamp::of(word) < stamp {
                record.word().store(stamp.present(), Ordering::Relaxed);
                counts.count(table.id());
            }
        });
        table.end_loading();
    }
}
