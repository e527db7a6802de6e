//! Accesses of a session: what it has written is found, and what it reads is noted, by key.
//!
//! A session's access runs as an attempt of its own under the protocol in force, with what the session keeps at hand
//! ([`SessionAccess`]). The session's earlier writes enter the attempt's write set when the attempt accesses their keys: at the claim of
//! a key, or of a range ([`claim_in_session`], [`Attempt::begin_range_in_session`]). So everything above sees them as the
//! attempt's own. The keys and ranges claimed are noted; once the body has returned, [`Attempt::observe`] looks at each again, which
//! the protocol covers as any read: by a validation, by locks, or by the partition held.
//!
//! Invariant: a key's earlier writes are the first of the attempt's writes to its record, `carried` of them.

mod carry;
mod notes;
mod observe;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use super::load::Loading;
use super::scan::as_slice;
use super::{Access, Attempt, Claim, ClaimKey, DIRECT, KeyRange, Prediction, Reading, Target, claim_traced};
use crate::error::{Error, Result};
use crate::storage::dependency::Dependency;
use crate::storage::private_schema::PrivateSchema;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::session_buffer::{ColumnSet, Key, RangeRead, SessionBuffer};
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::versions::Found;
use crate::storage::word::Stamp;
use crate::storage::write_set::Mark;

use notes::{NotedRange, Notes};

/// The services that an attempt asks of the session that it runs for.
pub(crate) trait SessionControl: Send + Sync {
    /// Returns true if the session was ended from elsewhere, so that the attempt is futile.
    fn is_stopped(&self) -> bool;

    /// Reserves a key of a table, unless another session has it. Returns true if it is reserved.
    fn try_reserve(&self, table: u64, key: &[u8]) -> bool;

    /// Returns true if no other session has reserved a key.
    fn is_free(&self, table: u64, key: &[u8]) -> bool;

    /// Reserves a row that is about to be read if it is predicted that it will be written.
    fn try_reserve_predicted(&self, table: u64, key: &[u8]) -> Prediction;

    /// Returns true if a row shares its queue with others, because sessions have waited for them in a cycle.
    fn is_joined(&self, table: u64, key: &[u8]) -> bool;

    /// Same as [`try_reserve`](Self::try_reserve) for one of very many keys, of which only the first ones are reserved.
    /// Returns true if no other session has it.
    fn try_reserve_of_many(&self, table: u64, key: &[u8]) -> bool;
}

/// The state that an access reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionMode {
    /// The current state, to find out whether the access writes: if not, it is to read from a snapshot instead.
    Probe,
    /// A snapshot of this epoch.
    Snapshot(u64),
    /// The current state.
    Current,
}

/// The state that an attempt lacks: it must be retried with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A snapshot: it only reads.
    Snapshot,
    /// The current state: it writes.
    Current,
}

/// A session's state during an attempt, and what the attempt notes for it.
pub(crate) struct SessionAccess {
    pub(crate) buffer: SessionBuffer,
    pub(crate) mode: SessionMode,
    pub(crate) control: Arc<dyn SessionControl>,
    /// True if rows that are read may have to be reserved, because they are predicted to be written.
    pub(crate) predicts: bool,
    /// True if the snapshot is later than the one that earlier accesses read from.
    pub(crate) is_refreshed: bool,
    /// The transaction's own schema changes.
    pub(crate) schema: PrivateSchema,
    /// The definitions that the meaning of its statements depended on, each once.
    pub(crate) dependencies: Vec<Arc<dyn Dependency>>,
    /// The state of loading, if it loads rows; in a box, because hardly any does.
    pub(crate) loading: Option<Box<Loading>>,
    notes: Notes,
}

impl SessionAccess {
    /// The state for a session that has done nothing yet.
    pub(crate) fn new(control: Arc<dyn SessionControl>) -> SessionAccess {
        let mode = SessionMode::Current;
        let (buffer, schema) = (SessionBuffer::default(), PrivateSchema::default());
        SessionAccess {
            buffer,
            mode,
            control,
            predicts: false,
            is_refreshed: false,
            schema,
            dependencies: Vec::new(),
            loading: None,
            notes: Notes::default(),
        }
    }

    /// Returns true if the tables that the transaction has used are the current ones.
    pub(crate) fn is_of_current_schema(&self, store: &Store) -> bool {
        // While it holds the lock of schema changes nothing can have changed.
        !self.schema.is_empty()
            || self
                .buffer
                .cores()
                .all(|core| self.schema.is_own(core.id()) || store.shared_table(core).is_some())
                && !self.buffer.misses_foreign_keys()
    }

    /// Notes something that the meaning of its statements depends on.
    pub(crate) fn depend_on(&mut self, dependency: &Arc<dyn Dependency>) {
        if !self.dependencies.iter().any(|known| Arc::ptr_eq(known, dependency)) {
            self.dependencies.push(dependency.clone());
        }
    }

    /// Returns true if everything that the meaning of its statements depended on is unchanged.
    pub(crate) fn is_of_current_definitions(&self) -> bool {
        self.dependencies.iter().all(|dependency| dependency.holds())
    }

    /// The key that another session has reserved, if the attempt met one.
    pub(crate) fn take_wanted(&mut self) -> Option<(u64, Key)> {
        self.notes.wanted.take()
    }

    /// Returns true if the attempt has written, or tried to.
    pub(crate) fn is_writer(&self) -> bool {
        self.notes.is_writer
    }

    /// The key that is predicted to be written, if the session must wait for it or refresh its snapshot.
    pub(crate) fn take_predicted(&mut self) -> Option<(u64, Key)> {
        self.notes.predicted.take()
    }

    /// Returns true if the attempt has accessed any key or range.
    pub(crate) fn has_accessed(&self) -> bool {
        self.notes.has_accessed
    }

    /// The state that the attempt lacks. One that has read from the current state, only to find that out, lacks a
    /// snapshot.
    pub(crate) fn need(&self) -> Option<Need> {
        let is_reader = self.mode == SessionMode::Probe && self.has_accessed() && !self.notes.is_writer;
        self.notes.need.or(is_reader.then_some(Need::Snapshot))
    }

    /// The attempt accesses a key to write or to reserve it.
    ///
    /// # Errors
    /// [`Error::Conflict`]: it reads from a snapshot.
    fn write(&mut self) -> Result<()> {
        (self.notes.is_writer, self.notes.has_accessed) = (true, true);
        if matches!(self.mode, SessionMode::Snapshot(_)) {
            self.notes.need = Some(Need::Current);
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// Same as [`predict`](Self::predict), for a row that is about to be reserved, but only if the row was part of a deadlock, which an order
    /// among the rivals for all of its rows prevents.
    ///
    /// # Errors
    /// Same errors as [`predict`](Self::predict).
    fn predict_deadlock(&mut self, table: &TableCore, key: &[u8]) -> Result<()> {
        let is_joined = self.predicts && self.control.is_joined(table.records_identity(), key);
        if is_joined { self.predict(table, key) } else { Ok(()) }
    }

    /// Reserves a key, or notes that another session has it. Returns true if it is reserved.
    fn reserve(&mut self, table: u64, key: &[u8]) -> bool {
        let is_reserved = self.write().is_ok() && self.control.try_reserve(table, key);
        if !is_reserved && self.notes.need.is_none() {
            self.notes.wanted = Some((table, key.into()));
        }
        is_reserved
    }

    /// Notes that another session has a key, if so. Returns true if it is free, or reserved for this one.
    fn await_free(&mut self, table: u64, key: &[u8]) -> bool {
        let is_free = self.write().is_ok() && self.control.is_free(table, key);
        if !is_free && self.notes.need.is_none() {
            self.notes.wanted = Some((table, key.into()));
        }
        is_free
    }

    /// Reserves a key that is about to be read, if it is predicted that it will be written. Only before the first write, and
    /// while no range was read: such a snapshot is not refreshed, so what a wait ends in would not be seen.
    ///
    /// # Errors
    /// [`Error::Conflict`]: the session must wait, or refresh its snapshot.
    fn predict(&mut self, table: &TableCore, key: &[u8]) -> Result<()> {
        let table = table.records_identity();
        let is_writer = self.mode == SessionMode::Current || self.notes.is_writer;
        let has_ranges = || !self.notes.ranges.is_empty() || self.buffer.has_ranges_of_snapshot();
        if is_writer || self.notes.is_paused || has_ranges() {
            return Ok(());
        }
        match self.control.try_reserve_predicted(table, key) {
            Prediction::None => return Ok(()),
            Prediction::Reserved if self.mode == SessionMode::Probe => return Ok(()),
            Prediction::Reserved | Prediction::Wait => {}
        }
        self.notes.predicted = Some((table, key.into()));
        Err(Error::Conflict)
    }

    pub(super) fn number_of(&mut self, store: &Store, table: &TableCore) -> Result<u32> {
        let private = if self.schema.is_empty() { None } else { self.schema.shared_table(table)? };
        if let Some(number) = self.buffer.table_number(table) {
            return Ok(number);
        }
        // A table that is not there any more was changed since the attempt began.
        let found = private.or_else(|| store.shared_table(table));
        let (core, has_contended_keys) = found.ok_or(Error::Conflict)?;
        if let SessionMode::Snapshot(epoch) = self.mode
            && store.table(table.id()).is_some_and(|table| table.begins() > epoch)
        {
            self.notes.need = Some(Need::Current);
            return Err(Error::Conflict);
        }
        Ok(self.buffer.add_table(core, has_contended_keys))
    }
}

impl fmt::Debug for SessionAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionAccess").field("keys", &self.notes.keys.len()).finish_non_exhaustive()
    }
}

/// The number of a range that is left out of the notes.
const UNNOTED_RANGE: usize = usize::MAX;

/// Reads from the snapshot that the session has.
static AS_OF: Access =
    Access { claim: None, range: None, reading: Reading::ByRead, read: read_as_of, missed: DIRECT.missed };

fn read_as_of<'a>(
    attempt: &Attempt<'a>,
    record: Record<'a>,
    (part, layout): (Part, &RowLayout),
    copy: &mut [u64],
) -> Result<u64> {
    let copy = if part == Part::Row { copy } else { &mut [] };
    Ok(match attempt.store.versions().read(layout, record, attempt.as_of(), copy) {
        Found::Row(epoch) => Stamp::new(epoch, 0).present(),
        Found::Nothing(epoch) => Stamp::new(epoch, 0).absent(),
    })
}

/// Claims a key as the protocol does, notes it, and brings in what the session has written to it.
fn claim_in_session<'a>(attempt: &Attempt<'a>, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
    attempt.claim_below_session(table, key, what)?;
    let mut held = attempt.held.borrow_mut();
    let Some(session) = &mut held.session else { return Ok(()) };
    if session.control.is_stopped() {
        return Err(Error::Canceled);
    }
    session.notes.has_accessed = true;
    if matches!(what, Claim::Write | Claim::Delete | Claim::Insert) {
        session.write()?;
    }
    if session.predicts && what == Claim::Read {
        session.predict(table, key)?;
    }
    let number = session.number_of(attempt.store, table)?;
    // A key for an insert is noted once it is known whether that is needed: see `note_insert`.
    if what != Claim::Insert && (!session.notes.is_paused || what != Claim::Read) {
        session.notes.note(number, key, what, !table.is_internal());
    }
    if let Some(writes) = session.buffer.writes_to(number, key) {
        attempt.carry_in(table, key, &writes, &mut session.notes.carried)?;
    }
    Ok(())
}

impl<'a> Attempt<'a> {
    /// Makes the attempt a session's from here on.
    pub(crate) fn enter_session(&self, mut session: Box<SessionAccess>) {
        session.clear_notes();
        if !session.schema.is_empty() {
            self.let_private_in(&session.schema);
        }
        if matches!(session.mode, SessionMode::Snapshot(_)) {
            self.access.set(&AS_OF);
        }
        self.held.borrow_mut().session = Some(session);
        let claim: ClaimKey = claim_in_session;
        self.claims.set(Some(claim));
    }

    /// The attempt's notes, and what it was given; it is not a session's any more.
    pub(crate) fn leave_session(&self) -> Option<Box<SessionAccess>> {
        self.claims.set(None);
        self.held.borrow_mut().session.take()
    }

    /// Notes something that the meaning of a session's statements depends on. An attempt without a session sees one
    /// generation only.
    pub(crate) fn depend_on(&self, dependency: &Arc<dyn Dependency>) {
        if let Some(session) = &mut self.held.borrow_mut().session {
            session.depend_on(dependency);
        }
    }

    /// Returns true if the attempt is a session's.
    #[inline]
    pub(crate) fn is_in_session(&self) -> bool {
        self.claims.get().is_some() && self.held.borrow().session.is_some()
    }

    /// Notes a key for which an insert was tried. `is_new`: there was no trace of it, which the insert itself says from then on.
    pub(super) fn note_insert(&self, table: &TableCore, key: &[u8], is_new: bool) {
        if let Some(session) = &mut self.held.borrow_mut().session
            && let Some(number) = session.buffer.table_number(table)
            && !(is_new && session.buffer.observed(number, key).is_none())
        {
            session.notes.note(number, key, Claim::Insert, !table.is_internal());
        }
    }

    /// Notes the keys whose inserts since the mark are about to be undone: the body has seen that they were free.
    pub(crate) fn note_undone_inserts(&self, mark: Mark) {
        if !self.is_in_session() {
            return;
        }
        let writes = &self.workspace.borrow().writes;
        for touched in writes.inserted_since(mark) {
            self.note_insert(touched.table(), self.key_of(touched.record), false);
        }
    }

    fn claim_below_session(&self, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
        if self.store.trace().is_some() {
            return claim_traced(self, table, key, what);
        }
        self.access.get().claim.map_or(Ok(()), |claim| claim(self, table, key, what))
    }

    /// Notes that a range is read, and brings in what the session has written to its keys. The range's number, if the
    /// attempt is a session's.
    pub(super) fn begin_range_in_session(&self, key_range: &KeyRange<'a>) -> Result<Option<usize>> {
        if !self.is_in_session() {
            return Ok(None);
        }
        let mut held = self.held.borrow_mut();
        let Some(session) = &mut held.session else { return Ok(None) };
        session.notes.has_accessed = true;
        if session.need() == Some(Need::Snapshot) {
            // Ranges may be long: what only reads is not to read them twice.
            session.notes.need = Some(Need::Snapshot);
            return Err(Error::Conflict);
        }
        let as_of = if let SessionMode::Snapshot(epoch) = session.mode { Some(epoch) } else { None };
        let (table, lower, upper) = key_range.bounds();
        let number = session.number_of(self.store, table)?;
        let shared = |bound: Bound<&[u8]>| bound.map(Key::from);
        let range = RangeRead { lower: shared(as_slice(lower)), upper: shared(as_slice(upper)), as_of };
        let written = session.buffer.writes_within(number, (as_slice(lower), as_slice(upper)));
        for (key, writes) in written {
            self.carry_in(table, key, &writes, &mut session.notes.carried)?;
        }
        if session.notes.is_paused {
            return Ok(Some(UNNOTED_RANGE));
        }
        session.notes.ranges.push(NotedRange {
            table: number,
            range,
            is_backward: key_range.is_backward(),
            is_unordered: table.ordered().is_err(),
            last: None,
            is_whole: false,
        });
        Ok(Some(session.notes.ranges.len() - 1))
    }

    /// Claims a key that was met in a range. Of a range of a snapshot only the last one is noted.
    pub(super) fn meet_in_range(&self, range: usize, table: &'a TableCore, record: Record<'a>) -> Result<()> {
        let is_current = {
            let mut held = self.held.borrow_mut();
            let Some(session) = &mut held.session else { return Ok(()) };
            if session.control.is_stopped() {
                return Err(Error::Canceled);
            }
            if let Some(noted) = session.notes.ranges.get_mut(range) {
                let last = noted.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(record.key());
            }
            !matches!(session.mode, SessionMode::Snapshot(_))
        };
        if is_current { self.claim(table, record.key(), Claim::Read) } else { Ok(()) }
    }

    /// Notes that a range was read to its end.
    pub(super) fn end_range_in_session(&self, range: usize) {
        if let Some(session) = &mut self.held.borrow_mut().session
            && let Some(noted) = session.notes.ranges.get_mut(range)
        {
            noted.is_whole = true;
        }
    }

    /// Reserves a key for the session, if the attempt is a session's.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another session has it; the attempt is futile, and which key it is was noted.
    pub(crate) fn reserve(&self, target: &Target<'_, 'a>) -> Result<()> {
        let mut held = self.held.borrow_mut();
        let Some(session) = &mut held.session else { return Ok(()) };
        session.predict_deadlock(target.table, target.key)?;
        let is_free = session.reserve(target.table.records_identity(), target.key);
        if is_free { Ok(()) } else { Err(Error::Conflict) }
    }

    /// Waits for the session that has reserved a key, if the attempt is a session's. It reserves none itself, unless it had to
    /// wait.
    ///
    /// # Errors
    /// Same errors as [`reserve`](Self::reserve).
    pub(crate) fn await_free(&self, target: &Target<'_, 'a>) -> Result<()> {
        let mut held = self.held.borrow_mut();
        let is_free = held
            .session
            .as_mut()
            .is_none_or(|session| session.await_free(target.table.records_identity(), target.key));
        if is_free { Ok(()) } else { Err(Error::Conflict) }
    }

    /// Same as [`reserve`](Self::reserve), but does not wait; returns true if no other session has the key.
    ///
    /// # Errors
    /// [`Error::Conflict`]: it reads from a snapshot, and must be retried without it.
    pub(crate) fn try_reserve(&self, target: &Target<'_, 'a>) -> Result<bool> {
        let table = self.hold(target.table)?;
        let mut held = self.held.borrow_mut();
        let Some(session) = &mut held.session else { return Ok(true) };
        session.write()?;
        Ok(session.control.try_reserve(table.records_identity(), target.key))
    }

    /// Makes a read of rows of which only these columns are used: in a session's transaction the others may change until
    /// its commit.
    pub(crate) fn using_columns<T>(&self, columns: ColumnSet, read: impl FnOnce() -> T) -> T {
        let set = |columns| {
            if let Some(session) = &mut self.held.borrow_mut().session {
                session.notes.columns = columns;
            }
        };
        set(Some(columns));
        let done = read();
        set(None);
        done
    }

    /// A row of which only these columns are used. With debug assertions the others are NULL in it, so that a caller
    /// which uses more columns than it names fails its tests.
    pub(crate) fn only_columns(&self, table: &TableCore, row: &'a [u64], columns: ColumnSet) -> &'a [u64] {
        #[cfg(debug_assertions)]
        if !columns.is_whole() {
            let copy = self.arena.alloc_slice_copy(row);
            table.layout().clear_others(copy, |position| columns.contains(ColumnSet::one(position)));
            return copy;
        }
        let _ = (table, columns);
        row
    }

    /// Pauses or resumes notes of the session's reads: the commit does not look again at those that are left out. Keys
    /// that are accessed for a write are noted always.
    pub(crate) fn pause_notes(&self, is_paused: bool) {
        if let Some(session) = &mut self.held.borrow_mut().session {
            session.notes.is_paused = is_paused;
        }
    }
}
