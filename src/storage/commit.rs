//! The commit section: where a call's effects happen, the same for every protocol.
//!
//! In order: enter (publish the epoch); lock what will be written; compute every row that will be installed and encode
//! the redo; read the global epoch while all of it is held; validate what was read; stamp; append the redo to log space
//! that was reserved before; install each row and its new word; leave.
//!
//! Invariants: no user code and no wait for disk runs between entering and leaving; nothing that can fail
//! runs after the stamp; and a record's word is busy while its row is not whole. So no reader of any kind sees
//! uncommitted data, and what a commit logs is what it installs.
//!
//! The locking of present records is the protocol's choice ([`WriteLocking`]): where it has excluded rival writers already,
//! a plain store at the install is enough; else by compare-and-swap, in the order of the records' addresses, so that
//! two commits never wait for each other in a circle (Silo's commit: Doppel, 2014, figure 2). Absent ones are locked by
//! compare-and-swap under every protocol, because the collector of absent records ([`crate::storage::reclaim`]) is
//! excluded by none.

mod after_images;
mod install;
pub(crate) mod loaded;
mod lock_writes;
mod one_slice;
mod one_word;
mod simple_writes;
mod slice_operations;

use std::cell::Cell;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use crossbeam_epoch::Guard;

use self::after_images::{Unfeasible, after_images};
pub(super) use self::install::install_row;
use self::install::{install, preserve};
pub(crate) use self::lock_writes::{Excluded, InOrder, WriteLocking};
use self::lock_writes::{lock_order, lock_writes, unlock};
use self::one_slice::commit_one_slice;
use self::one_word::commit_one_word;
use self::simple_writes::ChangedWord;
use self::slice_operations::Staged;
use crate::diagnostics::activity::{Activity, at};
use crate::error::Error;
use crate::storage::epoch::Published;
use crate::storage::index_build::OwnWrite;
use crate::storage::record::Record;
use crate::storage::redo;
use crate::storage::row::{RowLayout, free_block};
use crate::storage::schema::{self, SchemaChange};
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, Stamp};
use crate::storage::worker_context::WorkerContext;
use crate::storage::workspace::Workspace;
use crate::storage::write_set::{Touched, WriteSet};
use crate::types::memory::{Refused, reserve};

/// The reason why nothing was committed. Nothing was changed either.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// Something that was read, or is to be written, is not what it was: retry.
    Conflict,
    /// The epoch takes no more commits (it has no sequence numbers left, or as many transactions as it may): retry
    /// in the next one.
    EpochFull,
    /// The redo needs this many bytes of log space, more than are reserved: reserve them and retry.
    NeedsLogSpace(usize),
    /// A write to a split record is impossible before the split phase has ended: retry then.
    Stash,
    /// The writes cannot be applied to the records as they are, the last of which has this stamp; what was read holds.
    /// The call fails with this. In a box, as in `Outcome`: so the result of a commit that succeeded is small.
    Refused(Box<Error>, Stamp),
}

/// A call that is to be committed.
pub(crate) struct Committing<'c> {
    pub(crate) store: &'c Store,
    pub(crate) worker_context: &'c WorkerContext,
    pub(crate) workspace: &'c mut Workspace,
    pub(crate) arena: &'c Bump,
    pub(crate) guard: &'c Guard,
    /// The highest stamp that the call has met; it may rise in its validation.
    pub(crate) seen: &'c Cell<Stamp>,
    /// The generation of schema and protocol when the attempt began.
    pub(crate) generation: u64,
    /// True if the caller has closed the gate, so that it alone may enter.
    pub(crate) alone: bool,
}

/// One record on its way to its new row.
pub(crate) struct Pending<'a> {
    record: Record<'a>,
    /// The word that the record had before.
    word: u64,
    locked: bool,
    /// The columns that are split, and whose operations have gone into slices, if there are others besides.
    sliced: &'a [u16],
    /// The number of bytes that slices may add to the row, if they have bytes.
    room_of_slices: Option<usize>,
    /// True if a value of the image may lie in a block of the arena.
    has_blocks: bool,
    change: Change<'a>,
}

impl Pending<'_> {
    /// The present row, and the one that replaces it.
    fn own_write(&self, layout: &RowLayout) -> OwnWrite {
        let row = || layout.held_row(self.record).into_vec();
        let before = (self.word & ABSENT == 0).then(row);
        let after = match &self.change {
            Change::Gone => None,
            Change::Nothing => before.clone(),
            Change::Word(_) | Change::Words(_) => {
                let mut row = row();
                self.change.words().iter().for_each(|change| change.put_into(&mut row));
                Some(row)
            }
            Change::Image { image, .. } => Some(image.to_vec()),
        };
        OwnWrite { key: self.record.key().into(), before, after }
    }
}

/// The records that a commit has locked while it validates.
pub(crate) enum LockedWrites<'t, 'a> {
    /// Nothing: all that is written goes into slices.
    Nothing,
    /// This one record.
    One(Record<'a>),
    /// The records of the write set, some of them locked; and the position behind the one that was asked for last:
    /// records are often read in the order in which they are written.
    Several(&'t WriteSet, &'t [Pending<'a>], Cell<usize>),
}

impl LockedWrites<'_, '_> {
    /// Returns true if no record is locked, so that no other commit can be waiting for this one.
    pub(crate) fn is_none(&self) -> bool {
        match self {
            LockedWrites::Nothing => true,
            LockedWrites::One(_) => false,
            LockedWrites::Several(_, pending, _) => pending.iter().all(|entry| !entry.locked),
        }
    }

    /// Returns true if this commit itself has made the record busy.
    #[inline]
    pub(crate) fn is_own(&self, record: Record<'_>) -> bool {
        match self {
            LockedWrites::Nothing => false,
            LockedWrites::One(own) => own.pointer() == record.pointer(),
            LockedWrites::Several(writes, pending, next) => {
                let expected = next.get();
                match pending.get(expected) {
                    Some(entry) if entry.record == record => {
                        next.set(expected + 1);
                        entry.locked
                    }
                    _ => writes.position(record.pointer()).is_some_and(|position| {
                        next.set(position + 1);
                        pending[position].locked
                    }),
                }
            }
        }
    }
}

/// The pending change of a record.
enum Change<'a> {
    /// Nothing, or it is not computed yet.
    Nothing,
    /// The record is deleted.
    Gone,
    /// One word of the row changes, as usual; it takes no memory of the arena's.
    Word(ChangedWord),
    /// Some words of the row change.
    Words(&'a [ChangedWord]),
    /// The whole row; `is_new` if there was none before.
    Image { image: &'a mut [u64], is_new: bool },
}

impl Change<'_> {
    /// The words that change, if only words do.
    fn words(&self) -> &[ChangedWord] {
        match self {
            Change::Word(only) => std::slice::from_ref(only),
            Change::Words(words) => words,
            Change::Nothing | Change::Gone | Change::Image { .. } => &[],
        }
    }
}

/// Commits the buffered writes.
///
/// `validate` says whether what the call has read still holds. It may be asked twice.
///
/// # Errors
/// See [`CommitFailure`].
#[inline]
pub(crate) fn commit<T: WriteLocking>(
    locking: &T,
    mut call: Committing<'_>,
    validate: impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Result<Stamp, CommitFailure> {
    if T::SPLITS
        && let Some(stamp) = commit_one_slice(&mut call, &validate)
    {
        return Ok(stamp);
    }
    match commit_one_word(locking, &mut call, &validate) {
        Some(stamp) => Ok(stamp),
        None => commit_any(locking, &mut call, &validate),
    }
}

/// Same as [`commit`], but never in a straight line: to compare the two.
#[cfg(test)]
pub(crate) fn commit_generally<T: WriteLocking>(
    locking: &T,
    mut call: Committing<'_>,
    validate: impl Fn(&LockedWrites<'_, '_>) -> bool,
) -> Result<Stamp, CommitFailure> {
    commit_any(locking, &mut call, &validate)
}

/// Same as [`commit`], for any writes.
#[inline(never)]
fn commit_any<T: WriteLocking>(
    locking: &T,
    call: &mut Committing<'_>,
    validate: &dyn Fn(&LockedWrites<'_, '_>) -> bool,
) -> Result<Stamp, CommitFailure> {
    let &mut Committing { store, worker_context, arena, guard, seen, generation, alone, .. } = call;
    let workspace = &mut *call.workspace;
    workspace.redo.clear();
    // What takes no lock is done before the section, for which others may wait.
    let refused = |refused: Refused| CommitFailure::Refused(Box::new(refused.error()), Stamp::ZERO);
    let pending = nothing_pending(&workspace.writes, (arena, guard)).map_err(refused)?;
    let order = lock_order::<T>(&workspace.writes, arena).map_err(refused)?;
    let published = worker_context.published();
    let closes = enter(store, published, (alone, generation), workspace)?;
    let mut made = ArenaVec::new_in(arena);
    let mut staged = Staged::new(arena);
    let context = (store, worker_context, guard, arena);
    let locked = lock_writes(locking, context, (&workspace.writes, order), pending, &mut staged);
    let stamp = locked.and_then(|highest| {
        let floor = highest.max(workspace.last_stamp).max(store.epochs().schema_stamp());
        let mut computed = after_images::<T>(store, workspace, arena, pending, &mut made, guard);
        if computed.is_ok() && !workspace.schema.is_empty() {
            computed = prepare_schema(workspace, pending, (floor, store), validate, guard);
        }
        let charge = |writes: &WriteSet, epoch| {
            if T::SPLITS { staged.charge(worker_context, writes, epoch) } else { 0 }
        };
        let locked = LockedWrites::Several(&workspace.writes, pending, Cell::new(0));
        let validate = || validate(&locked);
        stamp::<T>((store, worker_context), workspace, (floor, seen), computed, validate, charge)
            .inspect_err(|_| unlock(pending))
    });
    let mut is_noted = false;
    match stamp {
        Ok((stamp, charged)) => {
            if store.is_logged() && is_logged_apart::<T>(workspace) {
                append(worker_context, workspace, stamp);
            }
            if T::SPLITS {
                workspace.log_credit -= charged;
                let charged = store.is_logged().then_some(charged);
                staged.keep(worker_context, &workspace.writes, stamp, charged);
            }
            is_noted = install_all::<T>((store, worker_context), workspace, pending, stamp, guard);
            if !workspace.schema.is_empty() {
                loaded::stamp_all(&workspace.schema, &worker_context.row_changes, stamp, guard);
                store.change_schema(workspace.schema.drain(..), stamp, guard);
            }
            published.leave();
        }
        Err(_) => {
            if T::SPLITS {
                staged.put_back(worker_context);
            }
            published.leave();
            for block in made {
                // SAFETY: made for this commit, which did not happen.
                unsafe { free_block(block) };
            }
        }
    }
    if closes {
        // SAFETY: it was closed above, by this commit.
        unsafe { store.epochs().open_gate() };
    }
    if is_noted && !alone {
        store.versions().work_off_own(worker_context.number(), guard);
    }
    stamp.map(|(stamp, _)| stamp)
}

/// An entry for each record of the write set, in its order, of which nothing is known yet.
///
/// # Errors
/// The system refuses the memory.
// As the arena's own functions: the slice is new.
#[allow(clippy::mut_from_ref)]
fn nothing_pending<'a>(
    writes: &WriteSet,
    (arena, _pinned): (&'a Bump, &'a Guard),
) -> Result<&'a mut [Pending<'a>], Refused> {
    let records = writes.touched().iter().map(|touched| Pending {
        // SAFETY: the call is pinned, so every record that it touched is alive.
        record: unsafe { touched.record.as_record() },
        word: 0,
        locked: false,
        has_blocks: false,
        sliced: &[],
        room_of_slices: None,
        change: Change::Nothing,
    });
    let bytes = records.len() * size_of::<Pending<'_>>();
    arena.try_alloc_slice_fill_iter(records).map_err(|_| Refused::of(bytes))
}

/// Installs each record's change. Nothing here can fail. Returns true if an index that is being built must catch up with
/// it.
#[inline]
fn install_all<T: WriteLocking>(
    (store, worker_context): (&Store, &WorkerContext),
    workspace: &mut Workspace,
    pending: &[Pending<'_>],
    stamp: Stamp,
    guard: &Guard,
) -> bool {
    workspace.last_stamp = stamp;
    let mut is_noted = false;
    // After the global epoch was read: see `storage::versions`.
    let bound = store.versions().bound();
    // Not by a zip, which would compute both addresses from a number for each record.
    let mut touched = workspace.writes.touched().iter();
    for entry in pending {
        let Some(table) = touched.next().map(Touched::table) else { break };
        if entry.word < bound {
            is_noted |= preserve((store.versions(), worker_context.number()), table, entry, stamp, guard);
        }
        if !matches!(entry.change, Change::Nothing) {
            worker_context.row_changes.count(table.id());
        }
        install::<T>(table, entry, stamp, &mut workspace.deleted, guard);
    }
    is_noted
}

/// Enters the commit section; a transaction that changes the schema closes the gate for it. Returns true if it has
/// closed it.
///
/// # Errors
/// [`CommitFailure::Conflict`]: the generation of the attempt is over, and nothing was entered. This is known before anything is
/// locked: an attempt whose protocol is no longer in force must not touch a record, because other commits may rely on having
/// excluded it.
#[inline]
fn enter(
    store: &Store,
    published: &Published,
    (alone, generation): (bool, u64),
    workspace: &Workspace,
) -> Result<bool, CommitFailure> {
    let closes = !alone && !workspace.schema.is_empty();
    if closes {
        store.close_commits();
    }
    if alone || closes {
        store.epochs().enter_exclusively(published);
    } else {
        store.epochs().enter(published);
    }
    if store.epochs().generation() == generation {
        return Ok(closes);
    }
    published.leave();
    if closes {
        // SAFETY: it was closed above, by this commit.
        unsafe { store.epochs().open_gate() };
    }
    Err(CommitFailure::Conflict)
}

/// Makes the indexes whole that the transaction adds: it changes the schema.
#[cold]
#[inline(never)]
fn prepare_schema(
    workspace: &mut Workspace,
    pending: &[Pending<'_>],
    (floor, store): (Stamp, &Store),
    validate: &dyn Fn(&LockedWrites<'_, '_>) -> bool,
    guard: &Guard,
) -> Result<(), Unfeasible> {
    // No other commit waits for one that will not happen.
    if !validate(&LockedWrites::Several(&workspace.writes, pending, Cell::new(0))) {
        return Err(Unfeasible::from(Error::Conflict));
    }
    let Workspace { writes, schema, .. } = workspace;
    let split = store.splits().current(guard);
    if split.is_some_and(|split| schema.iter().any(|change| change.meets_split(split))) {
        return Err(Unfeasible::InThisPhase);
    }
    // Below the commit's own stamp, and above all that was there: no snapshot reads by an index that is not there yet.
    let stamp = floor.max(Stamp::new(store.epochs().current(), 0));
    let own = |table: &TableCore| {
        let all = writes.touched().iter().zip(pending);
        let of_table =
            all.filter(|(touched, _)| touched.table().records_identity() == table.records_identity());
        of_table.map(|(_, entry)| entry.own_write(table.layout())).collect()
    };
    Ok(schema::prepare(schema, &own, stamp, guard)?)
}

/// Makes the stamp, while everything that will be written is held; and the room in the log that is charged for slices.
fn stamp<T: WriteLocking>(
    (store, worker_context): (&Store, &WorkerContext),
    workspace: &Workspace,
    (floor, seen): (Stamp, &Cell<Stamp>),
    computed: Result<(), Unfeasible>,
    validate: impl FnOnce() -> bool,
    charge: impl FnOnce(&WriteSet, u64) -> usize,
) -> Result<(Stamp, usize), CommitFailure> {
    let epoch = store.epochs().current();
    if !validate() {
        return Err(CommitFailure::Conflict);
    }
    let floor = floor.max(seen.get());
    if floor.epoch() > epoch {
        // The validation has met what is of a later epoch: this commit may not become durable before that.
        return Err(CommitFailure::Conflict);
    }
    computed.map_err(|unfeasible| match unfeasible {
        Unfeasible::Refused(error) if matches!(*error, Error::Conflict) => CommitFailure::Conflict,
        Unfeasible::Refused(error) => CommitFailure::Refused(error, floor),
        Unfeasible::InThisPhase => CommitFailure::Stash,
    })?;
    if store.epochs().is_closed() {
        return Err(CommitFailure::Refused(Box::new(Error::Closed), Stamp::ZERO));
    }
    if !store.epochs().takes_commits_of(epoch) {
        return Err(CommitFailure::EpochFull);
    }
    let mut charged = 0;
    if store.is_logged() {
        charged = charge(&workspace.writes, epoch);
        let bytes = if is_logged_apart::<T>(workspace) { redo_bytes(workspace) + charged } else { charged };
        if bytes > workspace.log_credit {
            return Err(CommitFailure::NeedsLogSpace(bytes));
        }
        // The stamp is of this epoch: from it on nothing may fail.
        let buffer = &mut worker_context.redo(epoch).bytes;
        if !becomes_buffer(&workspace.redo, buffer) {
            reserve(buffer, workspace.redo.len())
                .map_err(|refused| CommitFailure::Refused(Box::new(refused.error()), floor))?;
        }
    }
    let stamp = match workspace.schema.iter().any(SchemaChange::replaces_table) {
        true => Stamp::of_schema_change(floor, epoch),
        false => Stamp::next(floor, epoch),
    };
    match stamp {
        Some(stamp) if store.epochs().count_in(epoch) => Ok((stamp, charged)),
        _ => Err(CommitFailure::EpochFull),
    }
}

/// Returns true if the commit has redo apart from what its slices will log.
fn is_logged_apart<T: WriteLocking>(workspace: &Workspace) -> bool {
    !(T::SPLITS && redo::is_empty(&workspace.redo))
}

/// Redo of more bytes is not copied where it can be the buffer itself.
const MAX_COPIED_REDO_BYTES: usize = 1 << 20;

/// Returns true if a commit's redo replaces its epoch's buffer, which is empty, instead of being copied into it. The
/// buffer stays empty until then: only this worker context appends to it.
fn becomes_buffer(redo: &[u8], buffer: &[u8]) -> bool {
    redo.len() > MAX_COPIED_REDO_BYTES && buffer.is_empty()
}

fn append(worker_context: &WorkerContext, workspace: &mut Workspace, stamp: Stamp) {
    let _log = at(Activity::Log);
    redo::set_stamp(&mut workspace.redo, 0, stamp);
    workspace.log_credit -= redo_bytes(workspace);
    let mut buffer = worker_context.redo(stamp.epoch());
    if becomes_buffer(&workspace.redo, &buffer.bytes) {
        std::mem::swap(&mut buffer.bytes, &mut workspace.redo);
    } else {
        buffer.bytes.extend_from_slice(&workspace.redo);
    }
    if let Some(loaded) = workspace.loaded.take() {
        let before = buffer.bytes.len();
        buffer.loaded.push((before, loaded));
    }
    buffer.transactions += 1;
}

/// The number of bytes that the commit logs, without those that its slices will log.
fn redo_bytes(workspace: &Workspace) -> usize {
    workspace.redo.len() + workspace.loaded.as_ref().map_or(0, |loaded| loaded.len())
}

#[cfg(test)]
mod tests;
