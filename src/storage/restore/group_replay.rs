//! Replays a share of a log group: everything that was committed in one epoch, to some of the records.
//!
//! An epoch's group has the transactions of its commits and, while columns are split, for each worker context the merged
//! operations that its calls have given to split columns in this epoch. The engine's invariants about them:
//!
//! - A split phase begins with an epoch: no earlier commit of that epoch has touched what is split now.
//! - It may end inside an epoch: then the slices are applied to the record, and commits after that may do with the
//!   column what they like. So in any one epoch, every operation on a split column is before every other write of
//!   that column.
//! - While the column is split, commits change other columns of the row only (and log these only), and do not delete
//!   it. They raise the record's word, which says nothing about the split column.
//! - Merged operations commute, and none of their prefixes fails ([`Operation::fits`]).
//!
//! So a group is replayed in three steps:
//!
//! 1. All merged operations, of all worker contexts, in any sequence. They are applied if the group's epoch is above the
//!    epoch of the record's word, *and the word stays as it is*: else the first worker context's operations would shut
//!    out the second's, and both the commits of step 2 that have a lower stamp.
//! 2. The commits, in the order of their stamps, each change applied if its stamp is above its record's word.
//! 3. The word of every record of step 1 is raised to the highest stamp that its merged operations have, if that
//!    is higher.
//!
//! Why this is right: call a record *through* epoch e when it holds all effects of epochs up to e and no others.
//! Replaying group e takes a record that is through e - 1 to one that is through e. Its word's epoch is below e
//! then, since words have come from groups up to e - 1 only; so step 1 applies all, step 2 applies all in their order,
//! and by the points above every column's effects happen in an order in which they may have happened. Steps 2 and 3
//! raise the word into epoch e if anything at all happened to the record in e, be it in split columns only. So if
//! group e, or any group before it, is replayed once more on a record that is through e or later, then either the
//! group has nothing for this record, or the record's word has an epoch of at least the group's own: step 1 then
//! applies nothing, step 2 nothing either (every stamp of the group is at most the word that the record had at the
//! group's end, and words only rise), and step 3 changes nothing.
//!
//! The word alone is enough where every record is always through a whole epoch. A copy of a *live* record, as
//! checkpoints hold them, need not be:
//!
//! - Copied while it is not split, it holds all commits up to its word and none behind it. Its word is of epoch e,
//!   and a phase that ended with or inside e has been merged into it, one that begins later begins with an epoch above
//!   e: so merged operations are needed exactly if their epoch is above the word's, as in step 1, and of the commits
//!   those above the word, as in step 2.
//! - Copied while it is split, its word may be of epoch e while its split columns still are as before the phase. So the
//!   copy says with which epoch, `since`, the phase began, and the merged operations of that very phase are applied
//!   whatever the word says: the log is there from `since` on. Its other columns are as the word says.
//! - A record that was deleted before the copying reached it is not there at all, while earlier operations on it are
//!   replayed: these are skipped, as [`Overlap`] argues.
//!
//! [`Operation::fits`]: crate::operation::Operation::fits

use bumpalo::Bump;
use crossbeam_epoch::Guard;

#[cfg(doc)]
use super::Overlap;
use super::{Scattered, Tools, apply_change, install_row, malformed, table_of};
use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::operation::Operation;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::redo::{MergedHead, Reader, SCHEMA_VERSION};
use crate::storage::row::RowLayout;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, Stamp};
use crate::types::memory::Refused;
use crate::types::{ValueRef, assignment};

/// A record whose word is raised once the group is replayed.
struct Raise {
    table: u32,
    key: Box<[u8]>,
    stamp: Stamp,
}

/// Replays a share of a group.
///
/// # Errors
/// The bytes are no redo of this database.
pub(crate) fn apply_share(
    store: &Store,
    group: &Scattered,
    share: usize,
    tools: &mut Tools,
    guard: &Guard,
) -> Result<()> {
    tools.begin_epoch(Some(group.epoch))?;
    let mut raises = Vec::new();
    // The merged operations are in front, then the commits in the order of their stamps.
    let steps = &group.shares[share];
    for (place, step) in steps.iter().enumerate() {
        tools.arena.reset();
        tools.look_ahead(&steps[place..], &group.payload, guard);
        let mut reader = Reader::new(&group.payload[step.at..]);
        if step.merged {
            apply_merged(store, step.stamp, &mut reader, tools, guard, &mut raises)?;
        } else if let Some(head) = reader.next_head()? {
            tools.on_table(store, (head.table, reader.version()), |tools, table| {
                apply_change(table, (step.stamp, step.hash), &head, &mut reader, tools, guard)
            })?;
        }
    }
    for raise in &raises {
        raise_word(store, raise, guard)?;
    }
    Ok(())
}

/// Applies merged operations on a record, and notes it if its word is to be raised.
fn apply_merged(
    store: &Store,
    stamp: Stamp,
    reader: &mut Reader<'_>,
    tools: &mut Tools,
    guard: &Guard,
    raises: &mut Vec<Raise>,
) -> Result<()> {
    let Some(head) = reader.next_merged()? else { return Ok(()) };
    if head.since > stamp.epoch() {
        let (since, epoch) = (head.since, stamp.epoch());
        return Err(malformed(format!("operations of epoch {epoch} on what is split since epoch {since}")));
    }
    let applied = tools.on_table(store, (head.table, reader.version()), |tools, table| {
        apply_merged_change(table, stamp, &head, reader, tools, guard)
    })?;
    if applied {
        raises.push(Raise { table: head.table, key: head.key.into(), stamp });
    }
    Ok(())
}

/// Applies the merged operations on one record's columns, unless the record has them. Returns true if it did not have
/// them.
fn apply_merged_change(
    table: &TableCore,
    stamp: Stamp,
    head: &MergedHead<'_>,
    reader: &mut Reader<'_>,
    tools: &mut Tools,
    guard: &Guard,
) -> Result<bool> {
    let Tools { arena, overlap, .. } = tools;
    let image = arena.alloc_slice_fill_copy(table.layout().words(), 0);
    let found = match table.find(table.hash(head.key), head.key, guard) {
        Lookup::Found(record) => Some((record, record.read(table.layout(), image))),
        Lookup::Missing(_) => None,
    };
    let (word, is_owed) = (found.map_or(ABSENT, |(_, word)| word), overlap.is_owed(table, head));
    let is_new = is_owed || stamp.epoch() > Stamp::of(word).epoch();
    let record = match found {
        Some((record, word)) if is_new && word & ABSENT == 0 => Some(record),
        _ => None,
    };
    if is_new && record.is_none() {
        overlap.note_missing(table, head.key, stamp.epoch())?;
    }
    for _ in 0..head.columns {
        let (column, operation, operand) = reader.merged_column(table)?;
        if record.is_some() {
            operate(table.layout(), image, column, operation, operand, arena)?;
        }
    }
    if let Some(record) = record {
        install_row(table, record, image)?;
    }
    Ok(record.is_some())
}

/// Applies a merged operation to a column of a row, whose long values may lie in the arena.
///
/// # Errors
/// The operation fails on the value.
pub(crate) fn operate(
    layout: &RowLayout,
    row: &mut [u64],
    column: usize,
    operation: Operation,
    operand: ValueRef<'_>,
    arena: &Bump,
) -> Result<()> {
    let data_type = &layout.column(column).data_type;
    // The copy keeps short values, which lie in their words, in place while the row changes.
    let words = arena.alloc_slice_copy(row);
    // SAFETY: the row is recovery's own image, its blocks are in the arena or in the installed row.
    let current = unsafe { layout.value(words, column) };
    let mut buffer = Vec::new();
    let applied = operation.apply(current, operand, data_type, &mut buffer);
    let applied = applied.map_err(|error| malformed(format!("a merged {}: {error}", operation.name())))?;
    let value = applied.value(current, &buffer);
    // A row must hold values of its columns' types, whatever the log says.
    let value = assignment::coerce(value, data_type, false, operation.name());
    let value = value.map_err(|error| malformed(error.to_string()))?;
    layout.put(row, column, value, arena).map_err(Refused::error)
}

fn raise_word(store: &Store, raise: &Raise, guard: &Guard) -> Result<()> {
    let table = table_of(store, (raise.table, SCHEMA_VERSION))?;
    // Commits of the same epoch may have deleted the record, but it is still in the indexes.
    let Lookup::Found(record) = table.find(table.hash(&raise.key), &raise.key, guard) else {
        return Err(no_such_row(&table));
    };
    raise_to(record, raise.stamp);
    Ok(())
}

fn raise_to(record: Record<'_>, stamp: Stamp) {
    // Relaxed throughout: recovery is alone.
    let word = record.word().load(Ordering::Relaxed);
    if stamp > Stamp::of(word) {
        let raised = if word & ABSENT == 0 { stamp.present() } else { stamp.absent() };
        record.word().store(raised, Ordering::Relaxed);
    }
}

fn no_such_row(table: &TableCore) -> crate::Error {
    malformed(format!("operations on a row of {:?} that is not there", table.definition().name()))
}

#[cfg(test)]
mod tests;
