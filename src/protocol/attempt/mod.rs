//! One attempt to run a call: what it has read, what it has buffered, and how it reaches records.
//!
//! Bodies read records and buffer writes through an attempt; it never changes a record. How an access is made is the
//! protocol's: a table of functions ([`Access`]), chosen once for each attempt, so that an access costs one
//! predictable indirect call and no look at which protocol is in force; the most
//! frequent ones not even that ([`Reading`]).
//!
//! Invariants: the thread is pinned for as long as the attempt lasts, so that every record and every block
//! it has met stays alive; and `seen` is the highest stamp met, absent records included.

mod constraints;
mod foreign_keys;
mod load;
mod own_row;
mod predicted;
mod read;
mod scan;
mod session;
mod surely_outside;
mod write;

use std::cell::{Cell, RefCell};
use std::ops::Bound;

use bumpalo::Bump;
use crossbeam_epoch::Guard;

use crate::base::atomics::{Ordering, fence};
use crate::diagnostics::recent_counts::{ROWS_OF_COMMIT_MAX, SAMPLED_ONE_IN, interval_now};
use crate::error::{Error, Result};
use crate::protocol::Held;
use crate::protocol::footprint::{Mode, Reference};
use crate::protocol::hot_rows::HotRowQueues;
use crate::storage::commit::{CommitFailure, Committing, LockedWrites, WriteLocking, commit};
use crate::storage::epoch::SCHEMA_BITS;
use crate::storage::foreign_keys::SchemaLinks;
use crate::storage::index::ordered::Near;
use crate::storage::index::{Lookup, NodeVersion};
use crate::storage::private_schema::PrivateSchema;
pub(crate) use crate::storage::read_set::Part;
use crate::storage::read_set::ReadSet;
use crate::storage::reconcile::is_splittable;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::schema::SchemaChange;
use crate::storage::store::Store;
use crate::storage::table::{TableCore, is_dead};
use crate::storage::word::{DEAD, Stamp};
use crate::storage::worker_context::WorkerContext;
use crate::storage::workspace::Workspace;
use crate::storage::write_set::{Mark, WriteSet, WriteView};

pub(crate) use crate::lock::hot_rows::Prediction;
pub(crate) use scan::KeyRange;
pub(crate) use session::{Need, SessionAccess, SessionControl, SessionMode};
pub(crate) use write::{decode_primary_key, missing, show_key};

/// The access that a key is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The key is read.
    Read,
    /// The existence of the key's row is read.
    Presence,
    /// The key is changed.
    Write,
    /// The key is deleted.
    Delete,
    /// The key is inserted.
    Insert,
}

/// Claims a key: see [`Access::claim`].
pub(crate) type ClaimKey = for<'a> fn(&Attempt<'a>, &'a TableCore, &[u8], Claim) -> Result<()>;
/// Claims a range: see [`Access::range`].
pub(crate) type ClaimRange =
    for<'a> fn(&Attempt<'a>, &'a TableCore, Bound<&[u8]>, Bound<&[u8]>) -> Result<()>;

/// The way in which an attempt reads a record whose word has no bit of the protocol's set, and looks whether the record
/// is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The record as it is.
    Seen,
    /// The record as it is; its word is noted for validation.
    Noted,
    /// A call of [`Access::read`], as for all other records: from a snapshot, or broken on purpose.
    ByRead,
}

/// Copies a part of a record as the protocol has it read, and returns the word that it was read under.
type ReadRecord = for<'a> fn(&Attempt<'a>, Record<'a>, (Part, &RowLayout), &mut [u64]) -> Result<u64>;

/// A protocol's functions for accesses.
pub(crate) struct Access {
    /// Called before a key is looked up, with the access that it is claimed for; `None` if nothing is claimed.
    pub(crate) claim: Option<ClaimKey>,
    /// Called before a range of keys is read; `None` if nothing is claimed.
    pub(crate) range: Option<ClaimRange>,
    /// The way in which records that show nothing special are read, or looked for: without a call where possible.
    pub(crate) reading: Reading,
    /// Reads a record into `copy` (empty where only its existence is asked for), notes what the protocol wants to
    /// know later, and returns the record's word.
    pub(crate) read: ReadRecord,
    /// Notes that a key or a range was looked for where this version was found.
    pub(crate) missed: for<'a> fn(&Attempt<'a>, NodeVersion<'a>) -> Result<()>,
}

/// A guard: while it lives, the body may reach only what its action declares.
pub(crate) struct InScope<'s, 'a> {
    attempt: &'s Attempt<'a>,
}

impl Drop for InScope<'_, '_> {
    fn drop(&mut self) {
        self.attempt.scope.set(None);
    }
}

/// A guard: while it lives, an evaluator writes.
pub(crate) struct Evaluating<'s, 'a> {
    attempt: &'s Attempt<'a>,
}

impl Drop for Evaluating<'_, '_> {
    fn drop(&mut self) {
        self.attempt.is_evaluated.set(false);
    }
}

/// A record that a body names: by table and key, and the record itself where it was found beforehand. The table is one
/// that the attempt holds (see [`Attempt::hold`]).
#[derive(Clone, Copy)]
pub(crate) struct Target<'t, 'a> {
    pub(crate) table: &'a TableCore,
    pub(crate) key: &'t [u8],
    pub(crate) hash: u64,
    pub(crate) found: Option<Record<'a>>,
    /// True for the running action's own row, of which only the mode is left to check.
    pub(crate) declared: bool,
}

/// One attempt to run a call.
pub(crate) struct Attempt<'a> {
    store: &'a Store,
    worker_context: &'a WorkerContext,
    guard: &'a Guard,
    arena: &'a Bump,
    workspace: RefCell<&'a mut Workspace>,
    held: RefCell<&'a mut Held>,
    access: Cell<&'static Access>,
    /// Called before a key is looked up: the protocol's, or the trace's if there is one.
    claims: Cell<Option<ClaimKey>>,
    reads: RefCell<&'a mut ReadSet>,
    seen: Cell<Stamp>,
    /// The references that the running action may reach, or that all of the transaction's actions may where one body
    /// does their work; `None` for everything (closures).
    scope: Cell<Option<&'a [Reference]>>,
    /// An error because of which the attempt must not commit, even if its body has ignored the error.
    fault: Cell<Option<Box<Error>>>,
    /// The record that was found last, and the table in which: bodies often go on with the row that they have read.
    met: Cell<Option<(&'a TableCore, Record<'a>)>>,
    /// The place of the last insert into an ordered index: rows are often inserted next to each other.
    near: Cell<Near<'a>>,
    /// The point up to which reads show the attempt's writes; `None` for all.
    moment: Cell<Option<Mark>>,
    updates_refused: Option<&'a Error>,
    /// The foreign keys of the schema as the session's transaction that it runs for has it, whose tables it may use; `None` if it
    /// has changed nothing of it.
    private: Cell<Option<&'a SchemaLinks>>,
    /// The rows that the running access has changed, while their foreign keys are followed.
    cascade: Cell<Option<Vec<foreign_keys::Change<'a>>>>,
    /// True if it has written something whose foreign keys are checked at the end.
    has_deferred: Cell<bool>,
    /// True while the running code evaluates the rules that the engine cannot.
    is_evaluated: Cell<bool>,
    /// The generation of schema and protocol when the attempt began.
    generation: Cell<u64>,
    /// The hot rows, if the attempt may have to reserve some of them.
    hot_rows: Cell<Option<&'a HotRowQueues>>,
}

impl<'a> Attempt<'a> {
    /// A fresh attempt. `updates_refused`: why writes are not taken now, if so.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(crate) fn new(
        store: &'a Store,
        worker_context: &'a WorkerContext,
        guard: &'a Guard,
        arena: &'a Bump,
        workspace: &'a mut Workspace,
        reads: &'a mut ReadSet,
        held: &'a mut Held,
        updates_refused: Option<&'a Error>,
    ) -> Attempt<'a> {
        workspace.reset();
        reads.clear();
        let generation = store.epochs().generation();
        held.generation = generation;
        Attempt {
            store,
            worker_context,
            guard,
            arena,
            workspace: RefCell::new(workspace),
            held: RefCell::new(held),
            access: Cell::new(&DIRECT),
            claims: Cell::new(None),
            reads: RefCell::new(reads),
            seen: Cell::new(Stamp::ZERO),
            scope: Cell::new(None),
            fault: Cell::new(None),
            met: Cell::new(None),
            near: Cell::new(Near::nowhere()),
            moment: Cell::new(None),
            updates_refused,
            private: Cell::new(None),
            cascade: Cell::new(None),
            has_deferred: Cell::new(false),
            is_evaluated: Cell::new(false),
            generation: Cell::new(generation),
            hot_rows: Cell::new(None),
        }
    }

    /// Has the attempt reserve hot rows before it reads them, if its protocol validates what was read.
    #[cold]
    pub(crate) fn set_hot_rows(&self, queues: &'a HotRowQueues) {
        self.hot_rows.set(Some(queues));
    }

    /// The hot rows, if the attempt may have to reserve some of them.
    #[inline]
    pub(crate) fn hot_rows(&self) -> Option<&'a HotRowQueues> {
        self.hot_rows.get()
    }

    /// Accepts writes to tables that need an evaluator from here on.
    pub(crate) fn set_evaluated(&self) {
        self.is_evaluated.set(true);
    }

    /// Returns true if writes to tables that need an evaluator are accepted.
    pub(crate) fn is_evaluated(&self) -> bool {
        self.is_evaluated.get()
    }

    /// Accepts writes to tables that need an evaluator while the returned guard lives.
    pub(crate) fn evaluate(&self) -> Evaluating<'_, 'a> {
        self.is_evaluated.set(true);
        Evaluating { attempt: self }
    }

    /// Refuses a write to a table whose rows have rules that no part of the engine knows.
    pub(super) fn check_evaluated(&self, table: &TableCore) -> Result<()> {
        match table.definition().needed_evaluator() {
            Some(evaluator) if !self.is_evaluated.get() => Err(Error::NeedsEvaluator {
                table: table.definition().name().to_string(),
                evaluator: evaluator.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The store.
    #[inline]
    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// The worker context that runs it.
    #[inline]
    pub(crate) fn worker_context(&self) -> &'a WorkerContext {
        self.worker_context
    }

    /// The pin.
    #[inline]
    pub(crate) fn guard(&self) -> &'a Guard {
        self.guard
    }

    /// The buffered writes and the rest of the worker context's memory.
    #[inline]
    pub(crate) fn workspace(&self) -> &RefCell<&'a mut Workspace> {
        &self.workspace
    }

    /// The thread's locks and notes under the protocol.
    #[inline]
    pub(crate) fn held(&self) -> &RefCell<&'a mut Held> {
        &self.held
    }

    /// The read set.
    #[inline]
    pub(crate) fn reads(&self) -> &RefCell<&'a mut ReadSet> {
        &self.reads
    }

    /// Chooses how accesses are made.
    #[inline]
    pub(crate) fn set_access(&self, access: &'static Access) {
        self.access.set(access);
        self.claims.set(if self.store.trace().is_some() { Some(claim_traced) } else { access.claim });
    }

    /// Returns true if reads are noted for validation.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        std::ptr::eq(self.access.get(), &TRACKED)
    }

    /// The highest stamp met.
    #[inline]
    pub(crate) fn seen(&self) -> Stamp {
        self.seen.get()
    }

    /// The cell of [`seen`](Self::seen), for a validation that meets higher stamps.
    #[inline]
    pub(crate) fn highest_seen(&self) -> &Cell<Stamp> {
        &self.seen
    }

    /// Returns true if a record that the attempt writes was removed from its table: later reads may not have shown its
    /// own write. The collector of absent records is excluded by no protocol, so an insert may lose its place to it.
    pub(crate) fn has_lost_a_record(&self) -> bool {
        let workspace = self.workspace.borrow();
        // SAFETY: the call is pinned, so every record that it touched is alive.
        let records = workspace.writes.touched().iter().map(|touched| unsafe { touched.record.as_record() });
        // Acquire pairs with the swap that killed the record; a look-up that missed it came after that.
        let mut words = records.map(|record| record.word().load(Ordering::Acquire));
        words.any(|word| word == DEAD)
    }

    /// Returns true if a rival has locked, changed or deleted a record that the attempt, which must be retried, would have written, and
    /// not only what it has read. Counts the conflict for that record. `splits`: the protocol splits columns for operations that
    /// commute, and conflicts are what tells it which.
    #[cold]
    pub(crate) fn met_rival_in_writes(&self, hot_rows: &HotRowQueues, splits: bool) -> bool {
        if self.held.borrow().denied_write || self.has_lost_a_record() {
            return true;
        }
        let Some((record, part)) = self.reads.borrow().first_changed() else { return false };
        let workspace = self.workspace.borrow();
        let Some(position) = workspace.writes.position(record) else { return false };
        let table = workspace.writes.touched()[position].table();
        // SAFETY: the call is pinned, so every record that it has read is alive.
        let key = unsafe { record.as_record() }.key();
        self.worker_context.conflicts.report(table.id(), key);
        self.worker_context.recent_conflicts.report(interval_now(), table.id().into(), key, 1);
        if part == Part::Row && !(splits && only_commutes(&workspace.writes, position)) {
            hot_rows.note_conflict(table, key);
        }
        true
    }

    /// Restricts what the body may reach, for as long as the answer lives.
    #[inline]
    pub(crate) fn enter_scope<'s>(&'s self, declared: &'s Reference) -> InScope<'s, 'a> {
        self.enter_scopes(std::slice::from_ref(declared))
    }

    /// Same as [`enter_scope`](Self::enter_scope), for a body that may reach what any of these declares.
    #[inline]
    pub(crate) fn enter_scopes<'s>(&'s self, declared: &'s [Reference]) -> InScope<'s, 'a> {
        // SAFETY: they are looked at through `scope` only, which is emptied when `InScope` is dropped, by a panic too;
        // and that borrows the references.
        self.scope.set(Some(unsafe { &*std::ptr::from_ref(declared) }));
        InScope { attempt: self }
    }

    /// Returns true if the protocol locks keys when they are used.
    pub(crate) fn claims_keys(&self) -> bool {
        self.access.get().claim.is_some()
    }

    /// Locks a declared key before the body runs.
    ///
    /// # Errors
    /// [`Error::Conflict`]; the table is another one by now.
    pub(crate) fn claim_declared(&self, table: &TableCore, declared: &Reference) -> Result<()> {
        let Some(claim) = self.access.get().claim else { return Ok(()) };
        let what = if declared.mode == Mode::Read { Claim::Read } else { Claim::Write };
        claim(self, self.hold(table)?, &declared.key, what)
    }

    /// Marks the attempt as misrouted: its values lead to another key than key resolution found.
    #[cold]
    pub(crate) fn was_misrouted(&self) -> Error {
        self.held.borrow_mut().misrouted = true;
        Error::Conflict
    }

    /// The point reached in the writes.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.workspace.borrow().writes.mark()
    }

    /// Takes back the writes made since. A mark that holds no more fails the attempt.
    pub(crate) fn roll_back(&self, mark: Mark) {
        if self.claims.get().is_some() {
            self.note_undone_inserts(mark);
        }
        if !self.workspace.borrow_mut().writes.truncate(mark) {
            self.fault.set(Some(Box::new(Error::UnknownSavepoint)));
            return;
        }
        // An operation that failed while a scan applied it to a row was taken back with the other writes.
        let fault = self.fault.take().filter(|error| !error.is_of_values_met());
        self.fault.set(fault);
    }

    /// Keeps an error of a scan: a body that goes on as if the scan had ended must not commit. The first one counts.
    #[cold]
    pub(crate) fn keep_fault(&self, error: &Error) {
        let kept = self.fault.take().unwrap_or_else(|| Box::new(error.clone()));
        self.fault.set(Some(kept));
    }

    /// Takes the error because of which the attempt must not commit.
    #[inline]
    pub(crate) fn take_fault(&self) -> Option<Box<Error>> {
        self.fault.take()
    }

    /// A table for as long as the attempt lasts, if it is one of this database's.
    ///
    /// # Errors
    /// [`Error::ForeignTable`].
    #[inline]
    pub(crate) fn hold(&self, table: &TableCore) -> Result<&'a TableCore> {
        if table.store() != self.store.identity() {
            return Err(foreign(table));
        }
        if !(table.is_current() || self.private.get().is_some() && table.is_private()) {
            return Err(self.met_changed(table));
        }
        // SAFETY: the store frees no table before it is dropped itself, and the attempt borrows the store for 'a; a private
        // table is the session's that the attempt runs for, which keeps it until its transaction has ended.
        Ok(unsafe { &*std::ptr::from_ref(table) })
    }

    /// The error of an access to a table that is none any more. Where that is only just so, the attempt is to be retried,
    /// whatever its body makes of the error: the next generation begins before the gate opens.
    #[cold]
    fn met_changed(&self, table: &TableCore) -> Error {
        // Acquire pairs with the release in `TableCore::drop_table` and in the successor's cell.
        fence(Ordering::Acquire);
        // An attempt that runs alone has closed the gate itself: no schema change is taking effect.
        if self.store.epochs().is_gate_closed() && !self.is_alone() {
            self.generation.set(u64::MAX);
        }
        changed(table)
    }

    /// Allows the attempt to use the schema changes of a session's transaction: the caller sees to it that it meets no
    /// other transaction's tables.
    pub(crate) fn let_private_in(&self, schema: &PrivateSchema) {
        // SAFETY: the session that the attempt runs for keeps its schema as it is until the attempt has ended.
        self.private.set(Some(unsafe { &*std::ptr::from_ref(schema.links()) }));
    }

    /// The foreign keys of the session's transaction that it runs for, if that has changed the schema.
    #[inline]
    fn private_links(&self) -> Option<&'a SchemaLinks> {
        self.private.get()
    }

    /// Returns true if the schema had never been changed when the attempt began.
    #[inline]
    pub(crate) fn is_of_first_schema(&self) -> bool {
        self.generation() & SCHEMA_BITS == 0
    }

    /// Returns true if neither the schema nor the protocol has changed since the attempt began.
    #[inline]
    pub(crate) fn is_of_current_schema(&self) -> bool {
        self.store.epochs().generation() == self.generation()
    }

    /// Returns true if the attempt notes what it reads and has read nothing, and the schema has not changed since it began:
    /// then it depends on no protocol.
    #[cold]
    pub(crate) fn has_read_nothing(&self) -> bool {
        let changed = self.store.epochs().generation() ^ self.generation();
        matches!(self.access.get().reading, Reading::Noted)
            && changed & SCHEMA_BITS == 0
            && self.reads.borrow().is_empty()
    }

    /// The generation of schema and protocol when the attempt began.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Has the attempt count as one of an older generation, in which a part of its transaction ran.
    pub(crate) fn age(&self, generation: Option<u64>) {
        // One that must not commit has a generation that no schema reaches: it counts as older than all.
        let generation = generation.map_or(u64::MAX, |generation| generation % u64::MAX);
        self.generation.set(self.generation.get().min(generation));
    }

    /// Changes the schema when the attempt commits.
    pub(crate) fn change_schema(&self, change: SchemaChange) {
        self.workspace.borrow_mut().schema.push(change);
    }

    #[inline]
    fn note_seen(&self, word: u64) {
        if word != DEAD {
            self.seen.set(self.seen.get().max(Stamp::of(word)));
        }
    }

    /// Refuses a target that the running action does not declare, or not in this mode.
    #[inline(always)]
    fn check_target(&self, target: &Target<'_, '_>, wanted: Mode) -> Result<()> {
        match self.scope.get() {
            Some([scope]) if target.declared && scope.allows(wanted) => Ok(()),
            None => Ok(()),
            Some(_) => self.check_scope(target.table, target.key, true, wanted),
        }
    }

    /// Refuses what the running action does not declare.
    #[inline(never)]
    fn check_scope(&self, table: &TableCore, key: &[u8], whole: bool, wanted: Mode) -> Result<()> {
        let Some(scope) = self.scope.get() else { return Ok(()) };
        let covers = |one: &Reference| {
            let covered =
                if one.whole { whole && key == one.key.as_slice() } else { key.starts_with(&one.key) };
            one.table == table.id() && covered && one.allows(wanted)
        };
        if scope.iter().any(covers) { Ok(()) } else { Err(self.outside(table, scope, wanted)) }
    }

    /// The running action's reference to a table; `None` if it declares nothing of the table, or everything is allowed.
    fn scope_of(&self, table: &TableCore) -> Option<&'a Reference> {
        let mut scope = self.scope.get()?.iter().filter(|one| one.table == table.id());
        let first = scope.next()?;
        Some(if first.mode == Mode::Commute {
            scope.find(|one| one.mode != Mode::Commute).unwrap_or(first)
        } else {
            first
        })
    }

    #[cold]
    fn outside(&self, table: &TableCore, scope: &[Reference], wanted: Mode) -> Error {
        let name = table.definition().name();
        let of_table = scope.iter().find(|one| one.table == table.id());
        let what = match of_table {
            None => format!("table {name:?} is outside of what the action declares"),
            Some(one) if scope.len() == 1 && !one.allows(wanted) => {
                format!("the action declares {name:?} as {:?}, and this is a {wanted:?}", one.mode)
            }
            Some(_) => format!("this key of {name:?} is outside of what the action declares"),
        };
        Error::OutsideFootprint { what }
    }

    /// A record's word, noted as what says whether it is there.
    #[inline(always)]
    fn existence_noted(&self, record: Record<'a>) -> u64 {
        let mut reads = self.reads.borrow_mut();
        if let Some(word) = reads.word_noted_last(record) {
            return word;
        }
        let word = record.stable_word();
        reads.note(record, word, Part::Existence);
        word
    }

    /// Reads a row as the protocol has it read: see [`Access::read`].
    #[inline(always)]
    fn read_row(&self, layout: &RowLayout, record: Record<'a>, copy: &mut [u64]) -> Result<u64> {
        if self.is_tracked() {
            return Ok(self.row_noted(layout, record, copy));
        }
        (self.access.get().read)(self, record, (Part::Row, layout), copy)
    }

    #[inline(always)]
    fn row_noted(&self, layout: &RowLayout, record: Record<'a>, copy: &mut [u64]) -> u64 {
        let word = record.read(layout, copy);
        self.reads.borrow_mut().note(record, word, Part::Row);
        word
    }

    /// Tells the protocol which key will be looked up, and what for.
    #[inline]
    fn claim(&self, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
        match self.claims.get() {
            None => Ok(()),
            Some(claim) => claim(self, table, key, what),
        }
    }

    /// Closes the gate of the commit sections, so that nothing which the body reads can change, until
    /// [`end_exclusive`](Self::end_exclusive).
    #[cold]
    pub(crate) fn run_exclusively(&self) {
        let mut held = self.held.borrow_mut();
        if !held.alone {
            let epochs = self.store.epochs();
            epochs.close_gate();
            epochs.wait_for_all(self.store.worker_contexts().all().map(WorkerContext::published));
            held.alone = true;
        }
    }

    /// Returns true if this call has closed the gate, so that nothing it has read can have changed. An index node may
    /// look as if it had: where the call's own inserts have split a hash index's segment that it had read.
    #[cold]
    pub(crate) fn is_alone(&self) -> bool {
        self.held.borrow().alone
    }

    /// Opens the gate again, if this call has closed it.
    #[inline]
    pub(crate) fn end_exclusive(&self) {
        if self.held.borrow().alone {
            self.open_gate();
        }
    }

    #[cold]
    fn open_gate(&self) {
        self.held.borrow_mut().alone = false;
        // SAFETY: `alone` has said that this thread has closed it.
        unsafe { self.store.epochs().open_gate() };
    }

    /// Commits the buffered writes, as the protocol would have them taken; `validate` says whether what was read still
    /// holds.
    ///
    /// # Errors
    /// See [`CommitFailure`].
    #[inline]
    pub(crate) fn commit<T: WriteLocking>(
        &self,
        taking: &T,
        validate: impl Fn(&LockedWrites<'_, '_>) -> bool,
    ) -> Result<Stamp, CommitFailure> {
        let committed = {
            let call = Committing {
                store: self.store,
                worker_context: self.worker_context,
                workspace: &mut self.workspace.borrow_mut(),
                arena: self.arena,
                guard: self.guard,
                seen: &self.seen,
                generation: self.generation.get(),
                alone: self.held.borrow().alone,
            };
            commit(taking, call, validate)
        };
        if committed.is_ok() && self.workspace.borrow_mut().sample_gaps.is_due() {
            self.note_written_rows();
        }
        committed
    }

    /// Notes the rows that the commit has written, one of many commits for all of them.
    #[cold]
    fn note_written_rows(&self) {
        let (interval, workspace) = (interval_now(), self.workspace.borrow());
        for touched in workspace.writes.touched().iter().take(ROWS_OF_COMMIT_MAX) {
            let table = touched.table();
            if table.is_internal() {
                continue;
            }
            // SAFETY: the call is pinned, so every record that it touched is alive.
            let key = unsafe { touched.record.as_record() }.key();
            let counts = &self.worker_context.recent_writes;
            counts.report(interval, table.id().into(), key, SAMPLED_ONE_IN.into());
        }
    }

    /// The record that a target names, or the version of the miss.
    #[inline(always)]
    fn locate(&self, target: &Target<'_, 'a>) -> Lookup<'a> {
        match target.found {
            Some(record) => Lookup::Found(record),
            None => self.look_up(target.table, target.key, target.hash),
        }
    }

    /// Same as [`locate`](Self::locate), but ignores a record that was found beforehand.
    #[inline(always)]
    fn look_up(&self, table: &'a TableCore, key: &[u8], hash: u64) -> Lookup<'a> {
        let found = table.find(hash, key, self.guard);
        if let Lookup::Found(record) = found {
            self.met.set(Some((table, record)));
        }
        found
    }
}

impl<'a> Attempt<'a> {
    /// The record that a target names, if it is the one that was found last: a body often writes the row that it has just
    /// read.
    #[inline]
    fn met_last(&self, target: &Target<'_, 'a>) -> Option<Record<'a>> {
        let (table, record) = self.met.get()?;
        // At most one living record has the key, so a look into the index would find this one.
        let is_it = std::ptr::eq(table, target.table) && record.has_key(target.key) && !is_dead(record);
        is_it.then_some(record)
    }
}

/// Accesses that record nothing: for a thread that has excluded all rivals.
pub(crate) static DIRECT: Access =
    Access { claim: None, range: None, reading: Reading::Seen, read: read_directly, missed: note_nothing };
/// Accesses that note everything that was read, for a validation at commit.
pub(crate) static TRACKED: Access =
    Access { claim: None, range: None, reading: Reading::Noted, read: read_tracked, missed: note_miss };

/// Claims a key, and notes the access.
#[cold]
fn claim_traced<'a>(attempt: &Attempt<'a>, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
    if let Some(claim) = attempt.access.get().claim {
        claim(attempt, table, key, what)?;
    }
    if let Some(trace) = attempt.store.trace().filter(|_| !table.is_internal()) {
        let context = attempt.worker_context;
        trace.note(context.number(), context.executor(), table.id(), key);
    }
    Ok(())
}

/// Returns true if a record's writes are all operations for which its columns can be split.
fn only_commutes(writes: &WriteSet, position: usize) -> bool {
    let table = writes.touched()[position].table();
    let mut only = true;
    writes.visit(position, |write| {
        only &= matches!(write, WriteView::Operate { column, operation, .. } if is_splittable(table, column, operation));
        only
    });
    only
}

#[cold]
fn changed(table: &TableCore) -> Error {
    let table_name = table.definition().name().to_string();
    if table.is_gone() {
        Error::TableDropped { table: table_name }
    } else {
        Error::TableChanged { table: table_name }
    }
}

#[cold]
fn foreign(table: &TableCore) -> Error {
    Error::ForeignTable { table: table.definition().name().to_string() }
}

fn read_directly<'a>(
    _: &Attempt<'a>,
    record: Record<'a>,
    (part, layout): (Part, &RowLayout),
    copy: &mut [u64],
) -> Result<u64> {
    Ok(match part {
        Part::Row => record.read(layout, copy),
        Part::Existence => record.stable_word(),
    })
}

fn note_nothing<'a>(_: &Attempt<'a>, _: NodeVersion<'a>) -> Result<()> {
    Ok(())
}

fn read_tracked<'a>(
    attempt: &Attempt<'a>,
    record: Record<'a>,
    (part, layout): (Part, &RowLayout),
    copy: &mut [u64],
) -> Result<u64> {
    Ok(match part {
        Part::Row => attempt.row_noted(layout, record, copy),
        Part::Existence => attempt.existence_noted(record),
    })
}

fn note_miss<'a>(attempt: &Attempt<'a>, version: NodeVersion<'a>) -> Result<()> {
    attempt.reads.borrow_mut().note_node(version);
    Ok(())
}
