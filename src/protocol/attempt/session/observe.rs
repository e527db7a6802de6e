//! The look at each key and range that a session has read, once more: what is there now, or was there in its snapshot.
//!
//! The protocol covers these looks as any read.

use std::ops::Bound;
use std::sync::Arc;

use super::SessionMode;
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::protocol::attempt::scan::as_slice;
use crate::protocol::attempt::{Attempt, Claim, KeyRange};
use crate::storage::index::Lookup;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::session_buffer::{ColumnSet, Key, Observed, RangeRead, ReadColumns};
use crate::storage::table::TableCore;
use crate::storage::versions::Found;
use crate::storage::word::{ABSENT, DEAD, SPLIT, Stamp};
use crate::types::key::EncodedKey;

impl<'a> Attempt<'a> {
    /// The epoch of the snapshot that it reads from; 0: none.
    pub(super) fn as_of(&self) -> u64 {
        match self.held.borrow().session.as_ref().map(|session| session.mode) {
            Some(SessionMode::Snapshot(epoch)) => epoch,
            _ => 0,
        }
    }

    /// The state of a key in a snapshot of this epoch. Of its row these columns count.
    pub(crate) fn observe_as_of(
        &self,
        table: &TableCore,
        key: &[u8],
        (part, columns): (Part, ColumnSet),
        epoch: u64,
    ) -> Result<Observed> {
        let table = self.hold(table)?;
        let nothing = Observed { stamp: Stamp::new(epoch, 0), is_bound: true, ..Observed::nothing(part) };
        let Lookup::Found(record) = table.find(table.hash(key), key, self.guard) else { return Ok(nothing) };
        let (columns, layout) = (counted(part, columns), table.layout());
        let row = self.memory_for(layout, columns);
        let versions = self.store.versions();
        let (found, columns) = ReadColumns::read_as_of(versions, (layout, record), epoch, columns, row);
        let present = matches!(found, Found::Row(_));
        Ok(Observed { present, columns: columns.map(Arc::new), ..nothing })
    }

    /// Memory for a copy of a row, unless the whole row counts: then its stamp is enough.
    fn memory_for(&self, layout: &RowLayout, columns: ColumnSet) -> &'a mut [u64] {
        self.arena.alloc_slice_fill_copy(if columns.is_whole() { 0 } else { layout.words() }, 0)
    }

    /// Looks a key up again and notes what is there. Of its row these columns count. `before`: what was observed of it earlier, if
    /// anything.
    ///
    /// # Errors
    /// Same errors as a read under the protocol.
    pub(crate) fn observe(
        &self,
        table: &TableCore,
        key: &[u8],
        (part, columns): (Part, ColumnSet),
        before: Option<&Observed>,
    ) -> Result<Observed> {
        let table = self.hold(table)?;
        self.claim_below_session(table, key, Claim::Read)?;
        let (columns, layout, hash) = (counted(part, columns), table.layout(), table.hash(key));
        loop {
            let record = match table.find(hash, key, self.guard) {
                Lookup::Found(record) => record,
                Lookup::Missing(version) => {
                    (self.access.get().missed)(self, version)?;
                    return Ok(Observed::nothing(part));
                }
            };
            let (word, values) = self.columns_of(layout, record, columns, before);
            self.reads.borrow_mut().note(record, word, part);
            if word == DEAD {
                continue;
            }
            self.note_seen(word);
            let present = word & ABSENT == 0;
            let is_split = present && part == Part::Row && word & SPLIT != 0;
            let (phase, hidden) = if is_split { self.hidden_columns(record) } else { (0, ColumnSet::NONE) };
            let (phase, columns) = match columns.meets(hidden) {
                true => (phase, None),
                false => (0, values),
            };
            return Ok(Observed { part, present, stamp: Stamp::of(word), is_bound: false, phase, columns });
        }
    }

    /// A record's word, and the values that these columns have under it. The row is not read if they are known.
    fn columns_of(
        &self,
        layout: &RowLayout,
        record: Record<'a>,
        columns: ColumnSet,
        before: Option<&Observed>,
    ) -> (u64, Option<Arc<ReadColumns>>) {
        let word = record.stable_word();
        let is_known = |before: &&Observed| {
            word & ABSENT == 0 && before.read_columns() == columns && before.is_of(Stamp::of(word))
        };
        match before.filter(is_known) {
            _ if columns.is_whole() => (word, None),
            Some(before) => (word, before.columns.clone()),
            None => {
                let (word, values) =
                    ReadColumns::read(layout, record, columns, self.memory_for(layout, columns));
                (word, values.map(Arc::new))
            }
        }
    }

    /// The number of the split phase, in which the attempt must end then, and the columns of a split record that are
    /// hidden in it: all, if the phase is over.
    fn hidden_columns(&self, record: Record<'a>) -> (u64, ColumnSet) {
        let set = self.store.splits().current(self.guard);
        // Even if none of these is read: in another phase others may be hidden, under the same word.
        self.reads.borrow_mut().note_phase(set.map(|set| set.phase()));
        let Some(set) = set else { return (0, ColumnSet::WHOLE) };
        let (_, columns) = set.of_record(record.pointer());
        (set.phase(), ColumnSet::of(columns.iter().map(|column| column.column)))
    }

    /// Returns true if a range has no rows but known ones; for one that was read from a snapshot: if nothing in it is
    /// newer.
    ///
    /// # Errors
    /// Same errors as a read under the protocol.
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
                    // The range includes the rows in it: until the commit they must not change.
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

    /// Has the attempt retried in the next joined phase.
    pub(crate) fn wait_for_joined_phase(&self) -> Error {
        // Relaxed: the protocol looks at it on this thread.
        self.worker_context.met_hidden.store(true, Ordering::Relaxed);
        Error::Conflict
    }
}

/// The columns whose values are looked at: none of them where only existence counts.
fn counted(part: Part, columns: ColumnSet) -> ColumnSet {
    if part == Part::Row { columns } else { ColumnSet::WHOLE }
}
