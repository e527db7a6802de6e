//! Reading records, the call's own writes included.
//!
//! A record that the call has not written, and whose word shows nothing special, is copied at once. For any other the
//! installed row is read as the protocol has it, and the call's own writes to it are applied to the copy: so a body
//! sees its writes although no record has them before the commit.

use super::{Attempt, Claim, Reading, Target};
use crate::error::Result;
use crate::protocol::footprint::Mode;
use crate::storage::index::Lookup;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, DEAD};
use crate::storage::write_set::{Effect, Mark};

impl<'a> Attempt<'a> {
    /// The row of a target, as the call sees it; its words live in the attempt's arena.
    #[inline(always)]
    pub(crate) fn get(&self, target: &Target<'_, 'a>) -> Result<Option<&'a [u64]>> {
        self.check_target(target, Mode::Read)?;
        self.claim(target.table, target.key, Claim::Read)?;
        let found = self.locate(target);
        if let Lookup::Found(record) = found
            && let Some(row) = self.unwritten_row_at_once(target.table, record)
        {
            return Ok(Some(row));
        }
        self.row_found(target.table, target.key, target.hash, found)
    }

    /// Same as `get`, but does not check what the action declares.
    pub(super) fn row_of_target(&self, target: &Target<'_, 'a>) -> Result<Option<&'a [u64]>> {
        self.claim(target.table, target.key, Claim::Read)?;
        self.row_found(target.table, target.key, target.hash, self.locate(target))
    }

    /// The row of a target which has been looked up.
    // Of the target's parts: so it need not be in memory where the row is had at once.
    #[inline(never)]
    fn row_found(
        &self,
        table: &'a TableCore,
        key: &[u8],
        hash: u64,
        mut found: Lookup<'a>,
    ) -> Result<Option<&'a [u64]>> {
        loop {
            match found {
                Lookup::Missing(version) => {
                    (self.access.get().missed)(self, version)?;
                    return Ok(None);
                }
                Lookup::Found(record) => match self.row_of(table, record)? {
                    Seen::Row(row) => return Ok(Some(row)),
                    Seen::Nothing => return Ok(None),
                    // It left the table since it was found: look again.
                    Seen::Dead => found = self.look_up(table, key, hash),
                },
            }
        }
    }

    /// Returns true if the target exists.
    pub(crate) fn exists(&self, target: &Target<'_, 'a>) -> Result<bool> {
        self.check_target(target, Mode::Read)?;
        self.is_present(target)
    }

    /// Same as `exists`, but does not check what the action declares.
    pub(super) fn is_present(&self, target: &Target<'_, 'a>) -> Result<bool> {
        self.claim(target.table, target.key, Claim::Presence)?;
        Ok(self.find_present(target)?.is_some())
    }

    /// Returns true if the record is present for this call; `None` if it is dead.
    #[inline(always)]
    pub(super) fn presence(&self, record: Record<'a>) -> Result<Option<bool>> {
        let access = self.access.get();
        let word = match access.reading {
            Reading::Noted => self.existence_noted(record),
            Reading::Seen => record.stable_word(),
            Reading::ByRead => (access.read)(self, record, (Part::Existence, RowLayout::empty()), &mut [])?,
        };
        if word == DEAD {
            return Ok(None);
        }
        self.note_seen(word);
        let present = word & ABSENT == 0;
        let writes = &self.workspace.borrow().writes;
        Ok(Some(match (writes.position(record.pointer()), self.moment.get()) {
            (None, _) => present,
            (Some(position), None) => writes.presence(position, present),
            (Some(position), Some(mark)) => {
                writes.presence_until((position, self.until(record, mark)), present)
            }
        }))
    }

    /// The record as the call sees it.
    #[inline]
    pub(super) fn row_of(&self, table: &TableCore, record: Record<'a>) -> Result<Seen<'a>> {
        match self.unwritten_row_at_once(table, record) {
            Some(row) => Ok(Seen::Row(row)),
            None => self.row_of_any(table, record),
        }
    }

    /// Same as [`row_of`](Self::row_of), for a record that the call has not written.
    #[inline]
    pub(super) fn unwritten_row_of(&self, table: &TableCore, record: Record<'a>) -> Result<Seen<'a>> {
        match self.unwritten_at_once(table, record) {
            Some(seen) => Ok(seen),
            None => self.row_of_any(table, record),
        }
    }

    #[inline(never)]
    fn row_of_any(&self, table: &TableCore, record: Record<'a>) -> Result<Seen<'a>> {
        let layout = table.layout();
        let row: &'a mut [u64] = self.arena.alloc_slice_fill_copy(layout.words(), 0);
        let word = self.read_row(layout, record, row)?;
        if word == DEAD {
            return Ok(Seen::Dead);
        }
        self.note_seen(word);
        let present = word & ABSENT == 0;
        let writes = &self.workspace.borrow().writes;
        let effect = match (writes.position(record.pointer()), self.moment.get()) {
            (None, _) if present => return Ok(Seen::Row(row)),
            (None, _) => return Ok(Seen::Nothing),
            (Some(position), None) => writes.apply(position, layout, row, present, self.arena)?,
            (Some(position), Some(mark)) => {
                let written = (position, self.until(record, mark));
                writes.apply_until(written, layout, row, present, self.arena)?
            }
        };
        Ok(if effect == Effect::Gone { Seen::Nothing } else { Seen::Row(row) })
    }

    /// Reads with only those of the attempt's writes that were made before a mark.
    pub(crate) fn read_as_of<T>(&self, mark: Option<Mark>, read: impl FnOnce() -> T) -> T {
        let before = self.moment.replace(mark);
        let done = read();
        self.moment.set(before);
        done
    }

    /// Returns true if the attempt has written to a key since a mark.
    pub(crate) fn has_written_since(&self, target: &Target<'_, 'a>, mark: Mark) -> bool {
        let Lookup::Found(record) = self.locate(target) else { return false };
        let writes = &self.workspace.borrow().writes;
        writes
            .position(record.pointer())
            .is_some_and(|position| writes.is_written_since(position, self.until(record, mark)))
    }
}

/// A record as a call sees it.
pub(crate) enum Seen<'a> {
    /// Its row.
    Row(&'a [u64]),
    /// The record is absent.
    Nothing,
    /// The record was removed from its table: its key may have another record by now.
    Dead,
}
