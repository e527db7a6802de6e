//! The usual accesses, in a straight line: a copy of a row that has not been written yet, or a change of integer columns.
//! An action has its own row, which was found before the body ran; a closure that has declared nothing looks its row up here.
//!
//! They do what [`Attempt::get`], [`Attempt::operate`] and [`Attempt::update`] would do. Wherever
//! anything is unusual they do nothing and say so, and the general way is taken.
//!
//! Gain, when each was made, of a transaction's instructions: the look at the action's own row and the change of one integer about a
//! tenth, the copy of an unwritten row at once 6 to 18 of a hundred, several columns set together a tenth. `cargo bench --bench
//! hot_path` counts what transactions take now.

use super::read::Seen;
use super::{Access, Attempt, Reading, Target};
use crate::protocol::footprint::Mode;
use crate::storage::index::Lookup;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::word::ABSENT;
use crate::storage::write_set::IntChange;
use crate::types::ValueRef;

impl<'a> Attempt<'a> {
    /// The row of the running action, if that is the usual look.
    pub(crate) fn row_at_once(&self, table: &TableCore, found: Option<Record<'a>>) -> Option<&'a [u64]> {
        let record = found?;
        let allowed = match self.scope.get() {
            Some([scope]) => scope.mode != Mode::Commute,
            Some(scopes) => scopes.iter().all(|one| one.mode != Mode::Commute),
            None => false,
        };
        if !allowed || self.claims.get().is_some() || !table.is_current() {
            return None;
        }
        self.unwritten_row_at_once(table, record)
    }

    /// The row of a record that the call has not written, if it can be had in one look.
    #[inline(always)]
    pub(super) fn unwritten_row_at_once(&self, table: &TableCore, record: Record<'a>) -> Option<&'a [u64]> {
        let access = self.access.get();
        if !matches!(access.reading, Reading::Seen | Reading::Noted) {
            return None;
        }
        if self.workspace.borrow().writes.position(record.pointer()).is_some() {
            return None;
        }
        let (word, row) = record.read_at_once(table.layout().words(), self.arena)?;
        self.note_row(access, record, word);
        Some(row)
    }

    /// The record as the call sees it, if the call has not written it and one look tells; absence included.
    #[inline]
    pub(super) fn unwritten_at_once(&self, table: &TableCore, record: Record<'a>) -> Option<Seen<'a>> {
        let access = self.access.get();
        if !matches!(access.reading, Reading::Seen | Reading::Noted) {
            return None;
        }
        if let Some((word, row)) = record.read_at_once(table.layout().words(), self.arena) {
            self.note_row(access, record, word);
            return Some(Seen::Row(row));
        }
        let word = record.absent_at_once()?;
        self.note_row(access, record, word);
        Some(Seen::Nothing)
    }

    /// Notes a row that was read under this word, or its absence.
    #[inline(always)]
    fn note_row(&self, access: &Access, record: Record<'a>, word: u64) {
        if access.reading == Reading::Noted {
            self.reads.borrow_mut().note(record, word, Part::Row);
        }
        self.note_seen(word);
    }

    /// Same as [`change_int`](Self::change_int), for the record that a target names, where nothing is declared.
    #[inline(always)]
    pub(crate) fn change_int_of(&self, target: &Target<'_, 'a>, column: usize, change: IntChange) -> bool {
        self.scope.get().is_none()
            && self.change_int_of_record(target.table, self.undeclared(target), column, change)
    }

    /// The record that a target names, where nothing is declared and nothing is claimed.
    #[inline(always)]
    fn undeclared(&self, target: &Target<'_, 'a>) -> Option<Record<'a>> {
        if self.claims.get().is_some() {
            return None;
        }
        // A match, which the compiler keeps in line, unlike a closure.
        match self.met_last(target) {
            Some(record) => Some(record),
            None => match self.locate(target) {
                Lookup::Found(record) => Some(record),
                Lookup::Missing(_) => None,
            },
        }
    }

    /// Buffers new values of several columns, if all of them are integers and each is the usual write. Returns true if they
    /// were; if not, none of them is buffered.
    pub(crate) fn set_ints(&self, target: &Target<'_, 'a>, changes: &[(usize, ValueRef<'_>)]) -> bool {
        let table = target.table;
        let is_plain = |change: &(usize, ValueRef<'_>)| match *change {
            (column, ValueRef::Int(int)) => table.takes_plain_int(column, int),
            _ => false,
        };
        if changes.is_empty() || !changes.iter().all(is_plain) {
            return false;
        }
        let found = match self.scope.get() {
            None => self.undeclared(target),
            // Of the row that the running action declares its mode says what may be done with it.
            Some(_) if target.declared => target.found,
            Some(_) => None,
        };
        let mark = self.mark();
        let set = |change: &(usize, ValueRef<'_>)| match *change {
            (column, ValueRef::Int(int)) => self.change_int(table, found, column, IntChange::Set(int)),
            _ => false,
        };
        let all = changes.iter().all(set);
        if !all && self.mark() != mark {
            self.roll_back(mark);
        }
        all
    }

    /// Buffers the change, if it is the usual write. Returns true if it was.
    ///
    /// `table` and `found` are those of the running action, or, where nothing is declared, any.
    pub(crate) fn change_int(
        &self,
        table: &TableCore,
        found: Option<Record<'a>>,
        column: usize,
        change: IntChange,
    ) -> bool {
        self.change_int_of_record(table, found, column, change)
    }

    /// Same as [`change_int`](Self::change_int), compiled into its caller.
    #[inline(always)]
    fn change_int_of_record(
        &self,
        table: &TableCore,
        found: Option<Record<'a>>,
        column: usize,
        change: IntChange,
    ) -> bool {
        let Some(record) = found else { return false };
        let access = self.access.get();
        let allowed = match (self.scope.get(), change) {
            (Some([scope]), IntChange::Set(_)) => scope.mode == Mode::Write,
            (Some([scope]), IntChange::Operate(operation, _)) => {
                scope.mode != Mode::Read && operation.takes_every_int()
            }
            (None, IntChange::Set(_)) => true,
            (None, IntChange::Operate(operation, _)) => operation.takes_every_int(),
            _ => false,
        };
        let taken = match change {
            IntChange::Set(value) => table.takes_plain_int(column, value),
            IntChange::Operate(_, operand) => table.takes_plain_operand(column, operand),
        };
        if !allowed || !taken || self.updates_refused.is_some() || self.claims.get().is_some() {
            return false;
        }
        let mut workspace = self.workspace.borrow_mut();
        let word = match access.reading {
            Reading::Noted => self.existence_noted(record),
            Reading::Seen => record.stable_word(),
            Reading::ByRead => return false,
        };
        // A dead record's word says so, too.
        if word & ABSENT != 0 {
            return false;
        }
        match workspace.writes.position(record.pointer()) {
            None => workspace.writes.change_int_first(table, record.pointer(), column, change),
            Some(position) if workspace.writes.presence(position, true) => {
                workspace.writes.change_int(position, column, change);
            }
            Some(_) => return false,
        }
        self.note_seen(word);
        let fits = workspace.writes.check_size().is_ok();
        if !fits {
            // The general way says so, and leaves nothing.
            workspace.writes.take_back_last();
        }
        fits
    }
}

#[cfg(test)]
mod tests;
