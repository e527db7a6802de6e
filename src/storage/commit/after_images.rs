//! Computing the after-images of a commit's records, and its redo, while the records are locked.
//!
//! Writes are operations on rows, whose result is only known once no other transaction can change the record. Whatever
//! can be wrong with them is found here, before the stamp: an operation overflows, a check refuses a row, a row or the
//! redo is too long, memory is refused. So the steps that follow the stamp cannot fail.
//!
//! Invariant: no row changes here. A commit that fails leaves behind only blocks, which are noted in `made` and freed,
//! and room in the extensions of short records.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use crossbeam_epoch::Guard;

use super::simple_writes::{changed_words, row_that_comes_in};
use super::{Change, Pending, WriteLocking, loaded};
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::storage::redo::{self, MAXIMAL_REDO_BYTES};
use crate::storage::row::MAXIMAL_ROW_BYTES;
use crate::storage::store::Store;
use crate::storage::word::ABSENT;
use crate::storage::workspace::Workspace;
use crate::storage::write_set::{Effect, WriteSet};
use crate::types::memory::{Refused, reserve};

/// The reason why a commit's writes cannot be installed.
pub(super) enum Unfeasible {
    /// They cannot be applied to the records as they are.
    Refused(Box<Error>),
    /// They would leave no room to the slices of a split record.
    InThisPhase,
}

impl From<Refused> for Unfeasible {
    fn from(refused: Refused) -> Unfeasible {
        Unfeasible::from(refused.error())
    }
}

impl From<Error> for Unfeasible {
    fn from(error: Error) -> Unfeasible {
        Unfeasible::Refused(Box::new(error))
    }
}

/// Computes what each record becomes, and encodes the redo. Blocks that were made for it are put into `made`.
///
/// # Errors
/// See [`Unfeasible`].
pub(super) fn after_images<'a, T: WriteLocking>(
    store: &Store,
    workspace: &mut Workspace,
    arena: &'a Bump,
    pending: &mut [Pending<'a>],
    made: &mut ArenaVec<'a, u64>,
    guard: &Guard,
) -> Result<(), Unfeasible> {
    let Workspace { writes, redo, schema, loaded, .. } = workspace;
    let logged = store.is_logged();
    let start = if logged { redo::begin(redo) } else { 0 };
    for (position, entry) in pending.iter_mut().enumerate() {
        if T::SPLITS && !entry.locked {
            // All that is written to it has gone into slices.
            continue;
        }
        let present = entry.word & ABSENT == 0;
        // The usual write first.
        if present && let Some(change) = changed_words::<T>(writes, position, entry, arena) {
            entry.change = change;
        } else if present && writes.is_only_delete(position) {
            entry.change = Change::Gone;
        } else {
            let layout = writes.touched()[position].table().layout();
            if layout.has_blocks() {
                made.try_reserve(layout.len()).map_err(|_| Refused::of(made.len() * size_of::<u64>()))?;
            }
            match if present { None } else { row_that_comes_in(writes, position, made, arena)? } {
                Some(image) => entry.change = Change::Image { image, is_new: true },
                None => compute_after_image(writes, position, entry, arena)?,
            }
        }
        let table = || writes.touched()[position].table();
        if logged && loaded::is_loaded(schema, table(), entry.word) {
            loaded::append_written(entry, table(), redo)?;
        } else if logged && !table().is_internal() {
            reserve(redo, redo_bytes_max(writes, position, entry))?;
            append_redo(writes, position, entry, redo);
        }
        if entry.has_blocks {
            move_blocks(writes, position, entry, made)?;
        }
        if let Change::Image { image, .. } = &entry.change
            && table().layout().is_short(entry.record)
        {
            table().layout().make_room(entry.record, image, table().slabs().budget(), guard)?;
        }
    }
    if !logged {
        return Ok(());
    }
    debug_assert_eq!(loaded.is_some(), loaded::has_loaded(schema), "loaded rows are encoded before");
    let behind = loaded.as_ref().map_or(0, |loaded| loaded.len());
    if redo.len() + behind > MAXIMAL_REDO_BYTES {
        // Values that an operation leaves as they are may be far longer than its operand.
        let (what, bytes, maximum) = ("redo", redo.len() + behind, MAXIMAL_REDO_BYTES);
        return Err(Error::TransactionTooLarge { what, bytes, maximum }.into());
    }
    redo::finish_before(redo, start, behind);
    Ok(())
}

/// A record's whole new row.
fn compute_after_image<'a>(
    writes: &WriteSet,
    position: usize,
    entry: &mut Pending<'a>,
    arena: &'a Bump,
) -> Result<(), Unfeasible> {
    let table = writes.touched()[position].table();
    let layout = table.layout();
    let present = entry.word & ABSENT == 0;
    let image = if layout.is_short(entry.record) {
        let image = arena.alloc_slice_fill_copy(layout.words(), 0);
        if present {
            image.copy_from_slice(&layout.held_row(entry.record));
        }
        image
    } else {
        // Relaxed: the record is held, and its row was acquired with the word.
        let words =
            entry.record.row().iter().map(|word| if present { word.load(Ordering::Relaxed) } else { 0 });
        arena.alloc_slice_fill_iter(words)
    };
    let effect = if entry.sliced.is_empty() {
        writes.apply(position, layout, image, present, arena)?
    } else {
        writes.apply_but(entry.sliced, position, layout, image, arena)?
    };
    entry.has_blocks = match effect {
        Effect::Row => layout.has_blocks(),
        Effect::Changed => layout.has_blocks() && writes.changes_variable_column(position),
        Effect::Gone => false,
    };
    if let Some(checks) = table.checks()
        && effect != Effect::Gone
    {
        // SAFETY: the image's blocks are in the arena or belong to the installed row.
        checks.check_row(&|column| unsafe { layout.value(image, column) })?;
    }
    if entry.has_blocks {
        // SAFETY: the image's blocks are in the arena or belong to the installed row.
        let bytes = unsafe { layout.image_bytes(image) };
        match entry.room_of_slices {
            // Statements that each change some columns may have made it too large together.
            None => layout.check_length(bytes)?,
            // Only the joined phase can tell whether the row is too large.
            Some(room) if bytes > MAXIMAL_ROW_BYTES - room => return Err(Unfeasible::InThisPhase),
            Some(_) => {}
        }
    }
    entry.change = match effect {
        Effect::Gone if present => Change::Gone,
        Effect::Gone => Change::Nothing,
        Effect::Row => Change::Image { image, is_new: true },
        Effect::Changed => Change::Image { image, is_new: false },
    };
    Ok(())
}

/// An upper bound on the bytes of a record's redo.
fn redo_bytes_max(writes: &WriteSet, position: usize, entry: &Pending<'_>) -> usize {
    let table = writes.touched()[position].table();
    let long = match &entry.change {
        Change::Image { image, is_new } if table.layout().has_blocks() => {
            // Of a row that was there, operands may be logged, beside other columns' values.
            let operands = if *is_new { 0 } else { writes.bytes() };
            // SAFETY: the image's blocks are in the arena or belong to the installed row.
            operands + unsafe { table.layout().image_bytes(image) }
        }
        _ => 0,
    };
    redo::change_bytes_max(table, entry.record.key()) + long
}

fn append_redo(writes: &WriteSet, position: usize, entry: &Pending<'_>, redo: &mut Vec<u8>) {
    let (effect, image) = match &entry.change {
        Change::Nothing => return,
        Change::Word(_) | Change::Words(_) => {
            let table = writes.touched()[position].table();
            let numbers = entry.change.words().iter().map(|change| (change.column(), change.new as i64));
            return redo::append_numbers(redo, table, entry.record.key(), numbers);
        }
        Change::Gone => (Effect::Gone, &[][..]),
        Change::Image { image, is_new: true } => (Effect::Row, &**image),
        Change::Image { image, is_new: false } => (Effect::Changed, &**image),
    };
    // SAFETY: the image's blocks are in the arena or belong to the installed row.
    unsafe { redo::append_change(redo, writes, (position, entry.sliced), effect, image) }
}

fn move_blocks(
    writes: &WriteSet,
    position: usize,
    entry: &mut Pending<'_>,
    made: &mut ArenaVec<'_, u64>,
) -> Result<(), Refused> {
    let Change::Image { image, .. } = &mut entry.change else { return Ok(()) };
    let layout = writes.touched()[position].table().layout();
    let installed = layout.held_row(entry.record);
    // SAFETY: the image's blocks are in the call's arena; the installed row's are its own.
    unsafe { layout.move_blocks_to_heap(image, &installed, made) }
}
