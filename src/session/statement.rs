//! The two bodies of a session: one access, and the commit.
//!
//! Both are ordinary transactions under the protocol in force, which hold something only while they run.
//!
//! - An access runs the caller's closure on the present state, with the session's earlier writes applied. It commits
//!   nothing: its writes are kept in the session, and its reads are recorded by key and stamp.
//! - A read that names its columns is recorded with their values, too: if another stamp is found later, they are compared.
//! - The commit applies all writes, finds everything that was read again, compares the stamps, reads the ranges
//!   again, and commits.
//!
//! All reads of a session's transaction are of one state. An access that meets something that may be newer than the
//! earlier reads validates all of them again, in the same attempt, so that the attempt's own validation covers both
//! (the snapshot extension of LSA, Riegel, Felber and Fetzer, DISC 2006; epochs replace its clock). A row with the
//! stamp of an epoch that was sealed before the last such validation had the same state then.
//!
//! Invariant: the reads of an attempt are kept in [`Fresh`] until the engine reports that the attempt was valid.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::pipeline::execute::{Body, panicked};
use crate::protocol::attempt::{Attempt, Need, SessionAccess, SessionMode};
use crate::session::reservations::ReservedKey;
use crate::session::schema::{self, Redefined};
use crate::session::touched::{Touched, touched, unreserved};
use crate::storage::dependency::DefinitionChange;
use crate::storage::redo::LoadedRedo;
use crate::storage::schema::SchemaChange;
use crate::storage::session_buffer::{
    AccessWrites, ColumnSet, Comparison, Key, Observed, RangeRead, SeenWrite, SessionBuffer,
};
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::storage::write_set::WriteSet;
use crate::transaction::Tx;

/// The reason why an access stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// A row or range read before has changed: this row, if it was to be written.
    Conflict(Option<ReservedKey>),
    /// Another session has reserved this key.
    Reserved(ReservedKey),
    /// The key is predicted to be written: another session has reserved it, or this one has, after its snapshot.
    Predicted(ReservedKey),
    /// A read made before has another result in the refreshed snapshot.
    Stale,
    /// The access must be retried with something that it lacks.
    Needs(Need),
    /// The transaction was marked for abort meanwhile.
    Aborted,
}

/// The reads and writes of an attempt, to be kept if it was valid.
#[derive(Default)]
pub(super) struct Fresh {
    reads: Vec<(u32, Key, Observed)>,
    ranges: Vec<(u32, RangeRead)>,
    writes: AccessWrites,
    /// The global epoch before all reads were validated again, if they were.
    validated: Option<u64>,
}

impl Fresh {
    /// Drops one of the reads.
    #[cfg(test)]
    pub(super) fn without_a_read(mut self) -> Fresh {
        self.reads.pop();
        self
    }

    /// Puts what was found into the session's buffer. `keeps_writes`: the access has succeeded, and the writes since this savepoint
    /// go together with it. The epoch as of which everything in the buffer was found unchanged.
    pub(super) fn keep(
        self,
        buffer: &mut SessionBuffer,
        keeps_writes: Option<usize>,
        valid: Option<u64>,
    ) -> Option<u64> {
        self.reads.into_iter().for_each(|(table, key, observed)| buffer.note_read(table, &key, observed));
        self.ranges.into_iter().for_each(|(table, range)| buffer.note_range(table, range));
        if let Some(savepoint) = keeps_writes {
            buffer.append(self.writes, savepoint);
        }
        self.validated.or(valid)
    }
}

/// One access: a closure that the session's caller has given.
pub(super) struct Statement<'b, F, T> {
    body: &'b mut F,
    access: Option<Box<SessionAccess>>,
    /// The epoch as of which what was read before was found unchanged.
    valid: Option<u64>,
    /// True if it is a transaction of its own, which commits what it writes.
    is_single: bool,
    pub(super) value: Option<T>,
    pub(super) fresh: Fresh,
    pub(super) stop: Option<Stop>,
}

impl<'b, T, F: FnMut(&Tx<'_, '_>) -> Result<T>> Statement<'b, F, T> {
    pub(super) fn new(
        body: &'b mut F,
        access: Box<SessionAccess>,
        valid: Option<u64>,
        is_single: bool,
    ) -> Self {
        let fresh = Fresh::default();
        Statement { body, access: Some(access), valid, is_single, value: None, fresh, stop: None }
    }

    /// Returns true if it may load rows, which cannot be taken back.
    pub(super) fn loads(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.loading.is_some())
    }

    /// Returns the parts that were given to it, and its results.
    pub(super) fn into_parts(self) -> (Option<Box<SessionAccess>>, Option<T>, Fresh, Option<Stop>) {
        (self.access, self.value, self.fresh, self.stop)
    }

    fn settle(
        &mut self,
        attempt: &Attempt<'_>,
        access: &mut SessionAccess,
        ran: Result<T>,
        epoch: u64,
    ) -> Result<()> {
        if !is_of_current_schema(attempt, access) {
            return stop(&mut self.stop, Stop::Conflict(None));
        }
        if let Some(wanted) = access.take_wanted() {
            return stop(&mut self.stop, Stop::Reserved(wanted));
        }
        if let Some(predicted) = access.take_predicted() {
            return stop(&mut self.stop, Stop::Predicted(predicted));
        }
        if access.control.is_stopped() {
            return stop(&mut self.stop, Stop::Aborted);
        }
        if let Some(need) = access.need() {
            return stop(&mut self.stop, Stop::Needs(need));
        }
        if matches!(access.mode, SessionMode::Snapshot(_))
            && matches!(ran, Err(Error::Conflict | Error::TableChanged { .. }))
        {
            // A table was changed under the access: what there is now is the protocol's business.
            return stop(&mut self.stop, Stop::Needs(Need::Current));
        }
        if attempt.has_lost_a_record() || matches!(ran, Err(Error::Conflict)) {
            return Err(Error::Conflict);
        }
        if ran.is_err() {
            attempt.note_undone_inserts(WriteSet::beginning());
        }
        // There is nothing to compare, and what the transaction reads as of is left to its first access.
        if access.mode == SessionMode::Probe && !access.has_accessed() {
            self.value = Some(ran?);
            return Ok(());
        }
        let touched = touched(access);
        if let SessionMode::Snapshot(epoch) = access.mode {
            self.note_as_of(attempt, access, &touched, epoch)?;
            self.value = Some(ran?);
            return Ok(());
        }
        self.fresh.ranges.extend(access.noted_ranges());
        if !self.is_single
            && let Some(changed) = self.note_reads(attempt, access, &touched, epoch)?
        {
            let written = changed.row_if(|table, key| is_written(attempt, access, table, key));
            return stop(&mut self.stop, Stop::Conflict(written));
        }
        let value = ran?;
        let wanted = if self.is_single {
            // The attempt commits what it has written: nothing is kept.
            unreserved(access, &touched, |look| attempt.find_written(access, look))
        } else {
            self.fresh.writes = attempt.written(access);
            access.buffer.check_size(&self.fresh.writes)?;
            unreserved(access, &touched, |look| self.fresh.writes.find(look))
        };
        if let Some(wanted) = wanted {
            return stop(&mut self.stop, Stop::Reserved(wanted));
        }
        self.value = Some(value);
        Ok(())
    }

    /// Notes what was read from a snapshot: it needs no look at anything else.
    fn note_as_of(
        &mut self,
        attempt: &Attempt<'_>,
        access: &SessionAccess,
        touched: &[Touched<'_>],
        epoch: u64,
    ) -> Result<()> {
        if access.is_refreshed && !attempt.is_unchanged_as_of(&access.buffer, epoch)? {
            return stop(&mut self.stop, Stop::Stale);
        }
        let buffer = &access.buffer;
        for Touched { table, key, part, columns, .. } in touched {
            let before = buffer.observed(*table, key);
            let columns = self.columns_to_keep(buffer, before.as_ref(), *columns);
            let now = attempt.observe_as_of(buffer.core(*table), key, (*part, columns), epoch)?;
            self.fresh.reads.push((*table, (*key).into(), now));
        }
        self.fresh.ranges.extend(access.noted_ranges());
        Ok(())
    }

    /// The columns of a row that count when it is noted: those that the access has used, and those of before.
    fn columns_to_keep(
        &self,
        buffer: &SessionBuffer,
        before: Option<&Observed>,
        used: ColumnSet,
    ) -> ColumnSet {
        let before = before.map_or(ColumnSet::NONE, Observed::read_columns);
        let may_keep = before.contains(used) || buffer.may_keep_columns(self.fresh.reads.len());
        if may_keep { before.union(used) } else { ColumnSet::WHOLE }
    }

    /// Examines again all that the closure has accessed, and everything that was read before if it may be older.
    /// Returns the change, if not all of it is of one state.
    fn note_reads<'s>(
        &mut self,
        attempt: &Attempt<'_>,
        access: &'s SessionAccess,
        touched: &[Touched<'s>],
        epoch: u64,
    ) -> Result<Option<Changed<'s>>> {
        let buffer = &access.buffer;
        let mut may_be_newer = false;
        for Touched { table, key, part, columns, is_insert } in touched {
            let core = buffer.core(*table);
            let before = buffer.observed(*table, key);
            let wanted = (*part, self.columns_to_keep(buffer, before.as_ref(), *columns));
            // First what is known already: the same columns are compared.
            let known = before.as_ref().filter(|before| before.columns.is_some());
            let look = known.map_or(wanted, |known| (known.part, known.read_columns()));
            let mut now = attempt.observe(core, key, look, before.as_ref())?;
            if let Some(before) = &before
                && !is_unchanged(attempt, before, &now)?
            {
                return Ok(Some(Changed::Row(core, key)));
            }
            if before.is_some_and(|before| before.covers(wanted.0, wanted.1)) {
                continue;
            }
            if look != wanted {
                now = attempt.observe(core, key, wanted, None)?;
            }
            // That a key is free for an insert is known by its success only: the commit looks at it again.
            let is_free = *is_insert && !now.present && now.stamp == Stamp::ZERO;
            may_be_newer |= !is_free && !self.valid.is_some_and(|valid| now.is_as_old_as(valid));
            self.fresh.reads.push((*table, (*key).into(), now));
        }
        // What has gone from a range since shows nowhere.
        may_be_newer |= !self.fresh.ranges.is_empty() || self.valid.is_none();
        if may_be_newer {
            self.fresh.validated = Some(epoch);
            return find_changed(attempt, access, true);
        }
        Ok(None)
    }
}

impl<T, F: FnMut(&Tx<'_, '_>) -> Result<T>> Body for Statement<'_, F, T> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        (self.fresh, self.stop, self.value) = (Fresh::default(), None, None);
        let has_loaded =
            |access: &SessionAccess| access.loading.as_ref().is_some_and(|loading| loading.has_loaded);
        if self.access.as_deref().is_some_and(has_loaded) {
            // What it has loaded cannot be taken back.
            return stop(&mut self.stop, Stop::Conflict(None));
        }
        let epoch = attempt.store().epochs().current();
        let Some(access) = self.access.take() else { return Err(Error::Closed) };
        attempt.enter_session(access);
        let body = || {
            let value = (self.body)(&Tx::new(attempt))?;
            // While it is the session's, so that what is read is claimed.
            if self.is_single && attempt.has_deferred() {
                attempt.check_deferred()?;
            }
            Ok(value)
        };
        let ran = catch_unwind(AssertUnwindSafe(body));
        let Some(mut access) = attempt.leave_session() else { return Err(Error::Closed) };
        let ran = ran.unwrap_or_else(|panic| Err(panicked(&*panic)));
        let ran = attempt.take_fault().map_or(ran, |fault| Err(*fault));
        let settled = self.settle(attempt, &mut access, ran, epoch);
        self.access = Some(access);
        if !self.is_single {
            attempt.drop_writes();
        }
        settled
    }

    fn code(&self) -> usize {
        <Self as Body>::run as *const () as usize
    }

    fn is_whole(&self) -> bool {
        self.is_single && self.stop.is_none()
    }

    fn reserves(&self) -> bool {
        self.is_single
    }
}

/// The commit of everything that a session has written.
pub(super) struct Commit {
    pub(super) access: Box<SessionAccess>,
    pub(super) stop: Option<Stop>,
    /// The next definitions of tables that keep their records: one for each table that the transaction has changed.
    pub(super) redefined: Vec<Option<Redefined>>,
    /// The tables that the transaction has changed, as the commit publishes them.
    pub(super) published: Vec<Option<Arc<TableCore>>>,
    /// The redo of rows that it has loaded.
    pub(super) loaded: Option<Arc<LoadedRedo>>,
    /// The definitions that it publishes for a crate above.
    pub(super) definitions: Option<Arc<dyn DefinitionChange>>,
}

impl Body for Commit {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        self.stop = None;
        // What changes after these looks begins a generation, and the attempt is retried.
        if !is_of_current_schema(attempt, &self.access) || !self.access.is_of_current_definitions() {
            return stop(&mut self.stop, Stop::Conflict(None));
        }
        self.published = schema::write_changes(attempt, &mut self.access, &self.redefined)?;
        if let Some(change) = &self.definitions {
            let private = self.access.schema.private_and_published(&self.published);
            let private = private.map(|(private, published)| (private.clone(), published.clone())).collect();
            attempt.change_schema(SchemaChange::Definitions(change.clone(), private));
        }
        let SessionAccess { buffer, schema, .. } = &*self.access;
        let mut written = None;
        if attempt.carry_in_everything(buffer, |core| schema.is_live(core, &self.published))? {
            schema::check_changes(attempt, schema, &self.published)?;
            attempt.set_loaded(self.loaded.clone());
            let Some(changed) = find_changed(attempt, &self.access, false)? else { return Ok(()) };
            written = changed.row_if(|table, key| is_written(attempt, &self.access, table, key));
        }
        stop(&mut self.stop, Stop::Conflict(written))
    }

    fn code(&self) -> usize {
        <Self as Body>::run as *const () as usize
    }

    fn reserves(&self) -> bool {
        false
    }
}

/// Returns true if a session has used the current tables. The usual case first: the schema was never changed.
fn is_of_current_schema(attempt: &Attempt<'_>, access: &SessionAccess) -> bool {
    attempt.is_of_first_schema() || access.is_of_current_schema(attempt.store())
}

/// Ends an attempt with something that the session deals with.
fn stop(place: &mut Option<Stop>, why: Stop) -> Result<()> {
    *place = Some(why);
    Err(Error::Failed { message: String::new() })
}

/// Returns true if the row read of a key is the present one.
///
/// # Errors
/// Only the joined phase tells: the attempt retries then.
fn is_unchanged(attempt: &Attempt<'_>, before: &Observed, now: &Observed) -> Result<bool> {
    match before.compare(now) {
        Comparison::Same => Ok(true),
        Comparison::Changed => Ok(false),
        Comparison::HiddenNow => Err(attempt.wait_for_joined_phase()),
    }
}

/// A row or range that was read and has changed.
enum Changed<'s> {
    Row(&'s TableCore, &'s [u8]),
    Range,
}

impl Changed<'_> {
    /// The row, if it is one of a table's and fulfills a condition.
    fn row_if(&self, is_it: impl FnOnce(&TableCore, &[u8]) -> bool) -> Option<ReservedKey> {
        match *self {
            Changed::Row(table, key) if !table.is_internal() && is_it(table, key) => {
                Some((table.records_identity(), key.into()))
            }
            _ => None,
        }
    }
}

/// Returns true if a session has written a row, in this access or before.
fn is_written(attempt: &Attempt<'_>, access: &SessionAccess, table: &TableCore, key: &[u8]) -> bool {
    let Some(number) = access.buffer.table_number(table) else { return false };
    let is_it = &mut |write: SeenWrite<'_>| (write.table == number && write.key == key).then_some(());
    access.buffer.writes_to(number, key).is_some() || attempt.find_written(access, is_it).is_some()
}

/// Finds a read of the session that has changed since. `with_implied`: also of what its inserts imply.
fn find_changed<'s>(
    attempt: &Attempt<'_>,
    access: &'s SessionAccess,
    with_implied: bool,
) -> Result<Option<Changed<'s>>> {
    let SessionAccess { buffer, schema, .. } = access;
    // No other transaction has access to the records of tables that it has made itself.
    for (table, key, before) in buffer.reads(with_implied).filter(|(table, ..)| !schema.is_own(table.id())) {
        let now = attempt.observe(table, key, (before.part, before.read_columns()), Some(&before))?;
        if !is_unchanged(attempt, &before, &now)? {
            return Ok(Some(Changed::Row(table, key)));
        }
    }
    for (table, range) in buffer.ranges().filter(|(table, _)| !schema.is_own(buffer.core(*table).id())) {
        let is_known = |key: &[u8]| buffer.observed(table, key).is_some_and(|observed| observed.present);
        if !attempt.has_only(buffer.core(table), range, is_known)? {
            return Ok(Some(Changed::Range));
        }
    }
    Ok(None)
}
