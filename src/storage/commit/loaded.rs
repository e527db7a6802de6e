//! Rows that were loaded into a table which the commit publishes ([`TableCore::load`]): it logs them whole, and gives them its stamp.
//!
//! Invariants: until then no other thread has access to them. A loaded row that the transaction has written since is logged
//! as it becomes, once.

use crossbeam_epoch::Guard;

use super::Pending;
use crate::base::atomics::Ordering;
use crate::error::Error;
use crate::storage::redo;
use crate::storage::schema::SchemaChange;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, Stamp};
use crate::storage::write_set::WriteSet;
use crate::types::memory::{Refused, reserve};

/// The tables of these changes that have loaded rows.
fn loaded_tables(changes: &[SchemaChange]) -> impl Iterator<Item = &TableCore> {
    let tables = changes.iter().filter_map(|change| match change {
        SchemaChange::Add(table) | SchemaChange::Replace { new: table, .. } => Some(&**table),
        SchemaChange::Drop(_) => None,
    });
    tables.filter(|table| table.is_loaded())
}

/// Whether a record that a transaction writes is one of those that it has loaded.
#[inline]
pub(super) fn is_loaded(changes: &[SchemaChange], table: &TableCore, word: u64) -> bool {
    !changes.is_empty() && word & ABSENT == 0 && table.is_loaded()
}

/// Logs all loaded rows as they become.
///
/// # Errors
/// The system refuses the memory.
pub(super) fn append_redo(
    changes: &[SchemaChange],
    writes: &WriteSet,
    pending: &[Pending<'_>],
    redo: &mut Vec<u8>,
    guard: &Guard,
) -> Result<(), Error> {
    let mut result = Ok(());
    let mut words = Vec::new();
    for table in loaded_tables(changes) {
        table.for_each_record(guard, |record| {
            if result.is_err() {
                return;
            }
            words.clear();
            match writes.position(record.pointer()).map(|position| &pending[position]) {
                Some(entry) if entry.word & ABSENT != 0 => return,
                Some(entry) => match entry.own_write(table.layout()).after {
                    Some(row) => words.extend(row),
                    None => return,
                },
                None => {
                    words.resize(table.layout().words(), 0);
                    if record.read(table.layout(), &mut words) & ABSENT != 0 {
                        return;
                    }
                }
            }
            let layout = table.layout();
            // SAFETY: the row's blocks are the record's, or were made for this commit.
            let long = if layout.has_blocks() { unsafe { layout.image_bytes(&words) } } else { 0 };
            result = reserve(redo, redo::change_bytes_max(table, record.key()) + long);
            if result.is_ok() {
                // SAFETY: as above.
                unsafe { redo::append_row(redo, table, record.key(), &words) };
            }
        });
    }
    result.map_err(Refused::error)
}

/// Gives all loaded rows the commit's stamp: a transaction that reads one waits for this commit to be durable.
pub(super) fn stamp_all(changes: &[SchemaChange], stamp: Stamp, guard: &Guard) {
    for table in loaded_tables(changes) {
        table.for_each_record(guard, |record| {
            // Relaxed, both: no other thread has access to the table before it is published, behind the closed gate.
            let word = record.word().load(Ordering::Relaxed);
            if word & ABSENT == 0 && Stamp::of(word) < stamp {
                record.word().store(stamp.present(), Ordering::Relaxed);
            }
        });
        table.end_loading();
    }
}
