//! Reads in split phases: columns that are split are hidden.
//!
//! A row that is read keeps its other columns; a split one is marked as NULL in the copy, and its word, which is zero
//! where a column really is NULL, holds the address of the worker context's flag that a hidden column was looked at. Only the cold path of a read,
//! that of a NULL, finds out (`crate::row`): so reads cost nothing for it, and a body that does not look at a split
//! column is not stashed. Nor do reads of records that are not split cost anything: their words say so.

use super::super::attempt::{self, Attempt, TRACKED};
use super::super::hot_rows::reserve_hot;
use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::word::{ABSENT, DEAD, SPLIT};

/// Accesses that note everything that was read, and hide what is split. A record whose word has no bit of the protocol's is not split,
/// and is read as under `optimistic`, without a call.
pub(super) static SPLIT_AWARE: attempt::Access = attempt::Access { read: read_around, ..TRACKED };

/// Same as [`SPLIT_AWARE`], for an attempt that may have to reserve what it reads.
pub(super) static SPLIT_AWARE_AND_RESERVED: attempt::Access =
    attempt::Access { claim: Some(reserve_hot), ..SPLIT_AWARE };

fn read_around<'a>(
    attempt: &Attempt<'a>,
    record: Record<'a>,
    part: (Part, &RowLayout),
    copy: &mut [u64],
) -> Result<u64> {
    let word = (TRACKED.read)(attempt, record, part, copy)?;
    if word & (SPLIT | ABSENT) == SPLIT && word != DEAD && part.0 == Part::Row {
        hide(attempt, record, copy);
    }
    Ok(word)
}

#[cold]
fn hide<'a>(attempt: &Attempt<'a>, record: Record<'a>, copy: &mut [u64]) {
    let met = &attempt.worker_context().met_hidden;
    let set = attempt.store().splits().current(attempt.guard());
    // None: the phase has ended since the record was read, or is just beginning. The record's word may be the same in the
    // next one, or in this; so what was noted about it does not say that it holds.
    attempt.reads().borrow_mut().note_phase(set.map(|set| set.phase()));
    let Some(set) = set else { return };
    let (_, columns) = set.of_record(record.pointer());
    for column in columns {
        column.table.layout().hide(copy, column.column, met);
    }
    if attempt.workspace().borrow().writes.position(record.pointer()).is_some() {
        // Its own operations would be applied to what is hidden: the call cannot read its own writes.
        met.store(true, Ordering::Relaxed);
    }
}
