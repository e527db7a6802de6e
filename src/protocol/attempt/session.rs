//! Accesses of a session: what it has written is found, and what it reads is noted, by key.
//!
//! A session's access runs as an attempt of its own under the protocol in force, with what the session keeps at hand
//! ([`SessionAccess`]). The session's earlier writes enter the attempt's write set when the attempt accesses their keys: at the claim of
//! a key, or of a range ([`claim_in_session`], [`Attempt::begin_range_in_session`]). So everything above sees them as the
//! attempt's own. The keys and ranges claimed are noted; once the body has returned, [`Attempt::observe`] looks at each again, which
//! the protocol covers as any read: by a validation, by locks, or by the partition held.
//!
//! Invariant: a key's earlier writes stand first among the attempt's writes to its record, `carried` of them.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::load::Loading;
use super::predicted::Prediction;
use super::scan::as_slice;
use super::{Access, Attempt, Claim, ClaimKey, DIRECT, KeyRange, Reading, Target, claim_traced};
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::storage::index::Lookup;
use crate::storage::private_schema::PrivateSchema;
use crate::storage::read_set::Part;
use crate::storage::record::{Record, RecordPointer};
use crate::storage::row::RowLayout;
use crate::storage::session_buffer::{
    AccessWrites, Key, Observed, RangeRead, SeenWrite, SessionBuffer, Writes,
};
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::versions::Found;
use crate::storage::word::{ABSENT, DEAD, SPLIT, Stamp};
use crate::storage::write_set::{CarriedWrite, Effect, Mark, WriteSet};
use crate::types::key::EncodedKey;

/// What an attempt asks of the session that it runs for.
pub(crate) trait SessionControl: Send + Sync {
    /// Whether the session was ended from elsewhere, so that the attempt is futile.
    fn is_stopped(&self) -> bool;

    /// Reserves a key of a table, unless another session has it. Whether it is reserved.
    fn try_reserve(&self, table: u64, key: &[u8]) -> bool;

    /// Reserves a row that is about to be read if it is predicted that it will be written.
    fn try_reserve_predicted(&self, table: u64, key: &[u8]) -> Prediction;

    /// As [`try_reserve`](Self::try_reserve) for one of very many keys, of which only the first ones are reserved. Whether
    /// no other session has it.
    fn try_reserve_of_many(&self, table: u64, key: &[u8]) -> bool;
}

/// From where an access reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionMode {
    /// What is there now, to find out whether it writes: if not, it is to read from a snapshot instead.
    Probe,
    /// A snapshot of this epoch.
    Snapshot(u64),
    /// What is there now.
    Current,
}

/// What an attempt lacks: it must be made again with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A snapshot: it only reads.
    Snapshot,
    /// What is there now: it writes.
    Current,
}

/// What a session brings into an attempt, and what is noted there for it.
pub(crate) struct SessionAccess {
    pub(crate) buffer: SessionBuffer,
    pub(crate) mode: SessionMode,
    pub(crate) control: Arc<dyn SessionControl>,
    /// Whether rows that are read may have to be reserved, because it is predicted that they will be written.
    pub(crate) predicts: bool,
    /// Whether the snapshot is a later one than what was read before is of.
    pub(crate) is_refreshed: bool,
    /// What the transaction has changed of the schema.
    pub(crate) schema: PrivateSchema,
    /// It loads rows; in a box, because hardly any does.
    pub(crate) loading: Option<Box<Loading>>,
    notes: Notes,
}

/// What one attempt notes.
#[derive(Default)]
struct Notes {
    keys: Vec<NotedKey>,
    bytes: Vec<u8>,
    ranges: Vec<NotedRange>,
    /// How many writes of the session's were carried in to a record.
    carried: HashMap<RecordPointer, u32, FixedState>,
    /// A key that another session has reserved.
    wanted: Option<(u64, Key)>,
    /// A key that is predicted to be written, and for which the session must wait or refresh its snapshot.
    predicted: Option<(u64, Key)>,
    need: Option<Need>,
    /// Whether it has accessed a key or a range, also one that is left out of the notes.
    has_accessed: bool,
    /// Whether it has accessed a key to write or to reserve it.
    is_writer: bool,
    /// Whether what is read is left out.
    is_paused: bool,
}

/// A key that was claimed: its place among the bytes noted.
#[derive(Clone, Copy)]
struct NotedKey {
    table: u32,
    length: u32,
    start: usize,
    part: Part,
    is_insert: bool,
}

/// A range that was claimed.
struct NotedRange {
    table: u32,
    range: RangeRead,
    is_backward: bool,
    /// Whether it has no order, so that what was seen of it is no part of it.
    is_unordered: bool,
    /// The last key that was met in it, if one was.
    last: Option<Vec<u8>>,
    /// Whether it was read to its end.
    is_whole: bool,
}

/// A key that an attempt has accessed.
pub(crate) struct Noted<'n> {
    pub(crate) table: u32,
    pub(crate) key: &'n [u8],
    pub(crate) part: Part,
    /// Whether it was to be inserted.
    pub(crate) is_insert: bool,
}

impl SessionAccess {
    /// For a session that has done nothing yet.
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
            loading: None,
            notes: Notes::default(),
        }
    }

    /// Whether the tables that the transaction has used are those that there are.
    pub(crate) fn is_of_current_schema(&self, store: &Store) -> bool {
        // While it holds the lock of schema changes nothing can have changed.
        !self.schema.is_empty()
            || self
                .buffer
                .cores()
                .all(|core| self.schema.is_own(core.id()) || store.shared_table(core).is_some())
                && !self.buffer.misses_foreign_keys()
    }

    /// The keys that the attempt has accessed, in order.
    pub(crate) fn noted(&self) -> impl Iterator<Item = Noted<'_>> {
        self.notes.keys.iter().map(|key| {
            let bytes = &self.notes.bytes[key.start..key.start + key.length as usize];
            Noted { table: key.table, key: bytes, part: key.part, is_insert: key.is_insert }
        })
    }

    /// The ranges that the attempt has read, as far as it has.
    pub(crate) fn noted_ranges(&self) -> impl Iterator<Item = (u32, RangeRead)> {
        self.notes.ranges.iter().map(|noted| {
            let mut range = noted.range.clone();
            let last = noted.last.as_ref().filter(|_| !noted.is_whole && !noted.is_unordered);
            if let Some(last) = last {
                let last = Bound::Included(last[..].into());
                *(if noted.is_backward { &mut range.lower } else { &mut range.upper }) = last;
            }
            (noted.table, range)
        })
    }

    /// The key that another session has reserved, if the attempt met one.
    pub(crate) fn take_wanted(&mut self) -> Option<(u64, Key)> {
        self.notes.wanted.take()
    }

    /// Whether the attempt has written, or tried to.
    pub(crate) fn is_writer(&self) -> bool {
        self.notes.is_writer
    }

    /// The key that is predicted to be written, if the session must wait for it or refresh its snapshot.
    pub(crate) fn take_predicted(&mut self) -> Option<(u64, Key)> {
        self.notes.predicted.take()
    }

    /// Whether the attempt has accessed any key or range.
    pub(crate) fn has_accessed(&self) -> bool {
        self.notes.has_accessed
    }

    /// What the attempt lacks. One that has only read from what is there now, to find that out, lacks a snapshot.
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

    /// Reserves a key, or notes that another session has it. Whether it is reserved.
    fn reserve(&mut self, table: u64, key: &[u8]) -> bool {
        let is_reserved = self.write().is_ok() && self.control.try_reserve(table, key);
        if !is_reserved && self.notes.need.is_none() {
            self.notes.wanted = Some((table, key.into()));
        }
        is_reserved
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
        // What is not there any more was changed since the attempt began.
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

    fn clear_notes(&mut self) {
        self.notes.keys.clear();
        self.notes.bytes.clear();
        self.notes.ranges.clear();
        self.notes.carried.clear();
        self.notes.wanted = None;
        self.notes.predicted = None;
        self.notes.need = None;
        self.notes.has_accessed = false;
        self.notes.is_writer = false;
        self.notes.is_paused = false;
    }
}

impl Notes {
    fn note(&mut self, table: u32, key: &[u8], what: Claim) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let part = if what == Claim::Read { Part::Row } else { Part::Existence };
        let is_insert = what == Claim::Insert;
        self.keys.push(NotedKey { table, length: key.len() as u32, start, part, is_insert });
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
        session.notes.note(number, key, what);
    }
    if let Some(writes) = session.buffer.writes_to(number, key) {
        attempt.carry_in(table, key, &writes, &mut session.notes.carried)?;
    }
    Ok(())
}

impl<'a> Attempt<'a> {
    /// From here on the attempt is a session's.
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

    /// Whether the attempt is a session's.
    #[inline]
    pub(super) fn is_in_session(&self) -> bool {
        self.claims.get().is_some() && self.held.borrow().session.is_some()
    }

    /// Notes a key for which an insert was tried. `is_new`: there was no trace of it, which the insert itself says from then on.
    pub(super) fn note_insert(&self, table: &TableCore, key: &[u8], is_new: bool) {
        if let Some(session) = &mut self.held.borrow_mut().session
            && let Some(number) = session.buffer.table_number(table)
            && !(is_new && session.buffer.observed(number, key).is_none())
        {
            session.notes.note(number, key, Claim::Insert);
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

    /// Buffers writes to a key that were made in an earlier attempt, unless they are there.
    fn carry_in(
        &self,
        table: &'a TableCore,
        key: &[u8],
        writes: &Writes<'_>,
        carried: &mut HashMap<RecordPointer, u32, FixedState>,
    ) -> Result<()> {
        let hash = table.hash(key);
        let record = if matches!(writes.first(), Some(CarriedWrite::Insert(_))) {
            self.find_or_place(table, hash, key)?.record
        } else {
            match table.find(hash, key, self.guard) {
                Lookup::Found(record) => record,
                // It has gone since it was written: what is read of the key tells.
                Lookup::Missing(_) => return Ok(()),
            }
        };
        if self.workspace.borrow().writes.position(record.pointer()).is_none() {
            self.buffer_carried(table, record, writes)?;
            carried.insert(record.pointer(), writes.len() as u32);
        }
        Ok(())
    }

    /// Buffers writes that were made in an earlier attempt to this record, of which there are none yet.
    fn buffer_carried(&self, table: &TableCore, record: Record<'a>, writes: &Writes<'_>) -> Result<()> {
        let buffered = &mut self.workspace.borrow_mut().writes;
        let bytes = writes.iter().map(|write| write.bytes()).sum();
        buffered.reserve(table.layout().words() * writes.len(), bytes)?;
        buffered.carry_in(table, record.pointer(), writes.iter().copied());
        Ok(())
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

    /// A range was read to its end.
    pub(super) fn end_range_in_session(&self, range: usize) {
        if let Some(session) = &mut self.held.borrow_mut().session
            && let Some(noted) = session.notes.ranges.get_mut(range)
        {
            noted.is_whole = true;
        }
    }

    /// The epoch of the snapshot that it reads from; 0: none.
    fn as_of(&self) -> u64 {
        match self.held.borrow().session.as_ref().map(|session| session.mode) {
            Some(SessionMode::Snapshot(epoch)) => epoch,
            _ => 0,
        }
    }

    /// What a key had in a snapshot of this epoch.
    pub(crate) fn observe_as_of(
        &self,
        table: &TableCore,
        key: &[u8],
        part: Part,
        epoch: u64,
    ) -> Result<Observed> {
        let table = self.hold(table)?;
        let present = match table.find(table.hash(key), key, self.guard) {
            Lookup::Missing(_) => false,
            Lookup::Found(record) => {
                matches!(self.store.versions().read(table.layout(), record, epoch, &mut []), Found::Row(_))
            }
        };
        Ok(Observed { part, present, stamp: Stamp::new(epoch, 0), is_bound: true, phase: 0 })
    }

    /// Whether the session had written this record before the attempt began.
    pub(super) fn is_carried(&self, record: Record<'a>) -> bool {
        let held = self.held.borrow();
        held.session.as_ref().is_some_and(|session| session.notes.carried.contains_key(&record.pointer()))
    }

    /// Reserves a key for the session, if the attempt is a session's.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another session has it; the attempt is futile, and which key it is was noted.
    pub(crate) fn reserve(&self, target: &Target<'_, 'a>) -> Result<()> {
        let mut held = self.held.borrow_mut();
        let is_free = held
            .session
            .as_mut()
            .is_none_or(|session| session.reserve(target.table.records_identity(), target.key));
        if is_free { Ok(()) } else { Err(Error::Conflict) }
    }

    /// As [`reserve`](Self::reserve), without waiting: whether no other session has the key.
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

    /// From here on what the session reads is noted, or left out: then the commit does not look at it again. Keys that are
    /// accessed for a write are noted always.
    pub(crate) fn pause_notes(&self, is_paused: bool) {
        if let Some(session) = &mut self.held.borrow_mut().session {
            session.notes.is_paused = is_paused;
        }
    }

    /// Tries the attempt's writes to a record on the row that is there: an operation that nothing has read yet. On a
    /// column that is split there is nothing to try.
    ///
    /// # Errors
    /// What an operation refuses; then the row counts as read.
    pub(super) fn try_operations(&self, target: &Target<'_, 'a>, record: Record<'a>) -> Result<()> {
        let layout = target.table.layout();
        let row = self.arena.alloc_slice_fill_copy(layout.words(), 0);
        let word = record.read(layout, row);
        if word & SPLIT != 0 {
            return Ok(());
        }
        let tried = {
            let writes = &self.workspace.borrow().writes;
            let Some(position) = writes.position(record.pointer()) else { return Ok(()) };
            writes.apply(position, layout, row, word & ABSENT == 0, self.arena)
        };
        match tried {
            Ok(Effect::Gone) => Ok(()),
            Ok(_) => self.check_tried(target, row),
            // As a read, which is noted: it fails in the same way, or the row has changed meanwhile.
            Err(_) => self.row_of_target(target).map(drop),
        }
    }

    /// Looks a key up again and notes what is there.
    ///
    /// # Errors
    /// What the protocol answers a reader.
    pub(crate) fn observe(&self, table: &TableCore, key: &[u8], part: Part) -> Result<Observed> {
        let table = self.hold(table)?;
        self.claim_below_session(table, key, Claim::Read)?;
        let hash = table.hash(key);
        loop {
            let record = match table.find(hash, key, self.guard) {
                Lookup::Found(record) => record,
                Lookup::Missing(version) => {
                    (self.access.get().missed)(self, version)?;
                    return Ok(Observed {
                        part,
                        present: false,
                        stamp: Stamp::ZERO,
                        is_bound: false,
                        phase: 0,
                    });
                }
            };
            let word = record.stable_word();
            self.reads.borrow_mut().note(record, word, part);
            if word == DEAD {
                continue;
            }
            self.note_seen(word);
            let present = word & ABSENT == 0;
            let is_split = present && part == Part::Row && word & SPLIT != 0;
            let phase = self.phase_if(is_split);
            return Ok(Observed { part, present, stamp: Stamp::of(word), is_bound: false, phase });
        }
    }

    /// The number of the split phase, in which the attempt must end then.
    fn phase_if(&self, is_split: bool) -> u64 {
        if !is_split {
            return 0;
        }
        let phase = self.store.splits().current(self.guard).map(|set| set.phase());
        self.reads.borrow_mut().note_phase(phase);
        phase.unwrap_or(0)
    }

    /// Whether a range has no row but those that are known; one that was read from a snapshot: whether nothing in it
    /// is newer.
    ///
    /// # Errors
    /// What the protocol answers a reader.
    pub(crate) fn has_only(
        &self,
        table: &TableCore,
        range: &RangeRead,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Result<bool> {
        let table = self.hold(table)?;
        let owned = |bound: &Bound<Key>| bound.as_ref().map(|key| EncodedKey::from(&key[..]));
        let mut pages = KeyRange::all_of(table, owned(&range.lower), owned(&range.upper));
        if let Some(claim) = self.access.get().range {
            let (_, lower, upper) = pages.bounds();
            claim(self, table, as_slice(lower), as_slice(upper))?;
        }
        while self.next_page(&mut pages)? {
            for &record in pages.page() {
                if range.as_of.is_some() {
                    // The range stands for the rows in it, too: until the commit they must not change.
                    self.claim_below_session(table, record.key(), Claim::Read)?;
                }
                let word = record.stable_word();
                let part = if range.as_of.is_some() { Part::Row } else { Part::Existence };
                self.reads.borrow_mut().note(record, word, part);
                self.note_seen(word);
                let is_unchanged = match range.as_of {
                    _ if word == DEAD => true,
                    None => word & ABSENT != 0 || is_known(record.key()),
                    Some(_) if word & (SPLIT | ABSENT) == SPLIT => return Err(self.wait_for_joined_phase()),
                    Some(epoch) => Stamp::of(word).epoch() <= epoch,
                };
                if !is_unchanged {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What the attempt has written besides what the session had.
    pub(crate) fn written(&self, session: &SessionAccess) -> AccessWrites {
        let mut written = AccessWrites::default();
        self.find_record(session, |writes, table, key, position, carried| {
            written.push(table, key, writes.carry_out(position, carried));
            None::<()>
        });
        written
    }

    /// Looks at what the attempt has written besides what the session had, until something is found.
    pub(crate) fn find_written<R>(
        &self,
        session: &SessionAccess,
        look: &mut dyn FnMut(SeenWrite<'_>) -> Option<R>,
    ) -> Option<R> {
        self.find_record(session, |writes, table, key, position, carried| {
            let mut inserts = writes.inserts(position, carried).enumerate();
            inserts.find_map(|(at, is_insert)| look(SeenWrite { table, key, is_insert, is_again: at > 0 }))
        })
    }

    /// Looks at the written records until something is found: the table's number, the key, the position, and how many of the
    /// writes the session had.
    fn find_record<R>(
        &self,
        session: &SessionAccess,
        mut look: impl FnMut(&WriteSet, u32, &[u8], usize, usize) -> Option<R>,
    ) -> Option<R> {
        let writes = &self.workspace.borrow().writes;
        let mut table = None;
        for (position, touched) in writes.touched().iter().enumerate() {
            let core = touched.table();
            let number = match table {
                Some((known, number)) if std::ptr::eq::<TableCore>(known, core) => number,
                _ => match session.buffer.table_number(core) {
                    Some(number) => table.insert((core, number)).1,
                    None => continue,
                },
            };
            let carried = match session.notes.carried.is_empty() {
                true => 0,
                false => session.notes.carried.get(&touched.record).map_or(0, |&carried| carried as usize),
            };
            let found = look(writes, number, self.key_of(touched.record), position, carried);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The key of a record that the attempt has touched.
    fn key_of(&self, record: RecordPointer) -> &'a [u8] {
        // SAFETY: the attempt is pinned, so every record that it has touched is alive.
        unsafe { record.as_record() }.key()
    }

    /// Brings in everything that the session has written, to be committed, but for what is written to tables that are
    /// none any more. Whether the keys are free whose inserts imply it.
    ///
    /// # Errors
    /// Updates are refused; what the protocol answers a writer.
    pub(crate) fn carry_in_everything(
        &self,
        buffer: &SessionBuffer,
        is_live: impl Fn(&TableCore) -> bool,
    ) -> Result<bool> {
        self.check_writable()?;
        for (table, key, writes, implies_free) in buffer.writes().filter(|(table, ..)| is_live(table)) {
            let table = self.hold(table)?;
            let is_delete = |write: &&CarriedWrite| matches!(write, CarriedWrite::Delete);
            let is_insert = matches!(writes.first(), Some(CarriedWrite::Insert(_)));
            let what = match is_insert {
                true => Claim::Insert,
                false if writes.iter().any(is_delete) => Claim::Delete,
                false => Claim::Write,
            };
            if table.is_linked() {
                self.set_deferred(true);
            }
            self.claim_below_session(table, key, what)?;
            let hash = table.hash(key);
            let record = if is_insert {
                let placed = self.find_or_place(table, hash, key)?;
                if implies_free && !placed.is_new && self.presence(placed.record)? == Some(true) {
                    return Ok(false);
                }
                placed.record
            } else {
                // What has gone since it was written: what is read of the key tells.
                let Lookup::Found(record) = table.find(hash, key, self.guard) else { continue };
                record
            };
            self.buffer_carried(table, record, &writes)?;
            self.workspace.borrow().writes.check_size()?;
        }
        Ok(true)
    }

    /// Forgets what it has written: the session keeps it.
    pub(crate) fn drop_writes(&self) {
        self.workspace.borrow_mut().writes.clear();
        self.set_deferred(false);
    }

    /// Has the attempt retried in the next joined phase.
    pub(crate) fn wait_for_joined_phase(&self) -> Error {
        // Relaxed: the protocol looks at it on this thread.
        self.worker_context.met_hidden.store(true, Ordering::Relaxed);
        Error::Conflict
    }
}
