//! Carrying a session's writes between its buffer and its attempts.
//!
//! The session's earlier writes enter the write set of an attempt when it accesses their keys, so that its body reads
//! its own writes by the usual path; once the body has returned, the writes that the attempt has added are carried out
//! to the session's buffer. At the commit all of them are carried in, and validated and installed like those of any
//! transaction.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::SessionAccess;
use crate::error::Result;
use crate::protocol::attempt::{Attempt, Claim, Target};
use crate::storage::index::Lookup;
use crate::storage::record::{Record, RecordPointer};
use crate::storage::session_buffer::{AccessWrites, SeenWrite, SessionBuffer, Writes, written_columns};
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, SPLIT};
use crate::storage::write_set::{CarriedWrite, Effect, Mark, Until, WriteSet};

impl<'a> Attempt<'a> {
    /// Buffers writes to a key that were made in an earlier attempt, unless they are there.
    pub(super) fn carry_in(
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
                // It was deleted since it was written: the read of the key will tell.
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

    /// Returns true if the session had written this record before the attempt began.
    pub(in super::super) fn is_carried(&self, record: Record<'a>) -> bool {
        let held = self.held.borrow();
        held.session.as_ref().is_some_and(|session| session.notes.carried.contains_key(&record.pointer()))
    }

    /// The position up to which the attempt's writes to a record count at a moment.
    pub(in super::super) fn until(&self, record: Record<'a>, mark: Mark) -> Until {
        let held = self.held.borrow();
        let carried = held.session.as_ref().and_then(|session| session.notes.carried.get(&record.pointer()));
        Until { mark, carried: carried.copied().unwrap_or(0) }
    }

    /// Tries the attempt's writes to a record on the row that is there: an operation that nothing has read yet. On a
    /// column that is split there is nothing to try.
    ///
    /// # Errors
    /// What an operation refuses; then the row counts as read.
    pub(in super::super) fn try_operations(&self, target: &Target<'_, 'a>, record: Record<'a>) -> Result<()> {
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
            // Counts as a read, which is noted: it fails in the same way, or the row has changed meanwhile.
            Err(_) => self.row_of_target(target).map(drop),
        }
    }

    /// The attempt's writes without those that the session had made before.
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
            let mut seen = writes.seen_writes(position, carried).enumerate();
            seen.find_map(|(at, (is_insert, column))| {
                let columns = written_columns(column);
                look(SeenWrite { table, key, is_insert, columns, is_again: at > 0 })
            })
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
    pub(super) fn key_of(&self, record: RecordPointer) -> &'a [u8] {
        // SAFETY: the attempt is pinned, so every record that it has touched is alive.
        unsafe { record.as_record() }.key()
    }

    /// Buffers everything that the session has written, to be committed, except writes to tables that exist no more.
    /// Returns true if the keys whose inserts imply it are free.
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
                // Deleted since it was written: the read of the key will tell.
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
}
