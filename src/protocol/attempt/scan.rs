//! Reading ranges: a page of an index at a time, the call's own writes included.
//!
//! The records of a page are those that its node holds, present or not; the call's own inserts are among them, as
//! placeholders. Each page's version is passed to the protocol; absent records give their stamps.

use std::ops::Bound;

use super::read::Seen;
use super::{Attempt, Claim, Target};
use crate::error::{Error, Result};
use crate::protocol::footprint::Mode;
use crate::protocol::footprint::Reference;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::session_buffer::ColumnSet;
use crate::storage::table::{PageCursor, TableCore, is_above, is_below};
use crate::storage::write_set::Mark;
use crate::types::ValueRef;
use crate::types::key::EncodedKey;

/// The number of records ahead of the reader that are fetched.
const AHEAD: usize = 4;

/// A range that is being read, in one direction.
pub(crate) struct KeyRange<'a> {
    table: &'a TableCore,
    /// The base table, where `table` is the inside of one of its secondary indexes.
    base: Option<&'a TableCore>,
    lower: Bound<EncodedKey>,
    upper: Bound<EncodedKey>,
    backward: bool,
    place: ScanCursor<'a>,
    page: Vec<Record<'a>>,
    next: usize,
    /// The point in the call's writes at which the first row was asked for.
    begun: Option<Mark>,
    /// The rows are shown as they were at this point in the call's writes; `None` to show them as they are.
    moment: Option<Mark>,
    /// The range's number among those that a session notes, if the attempt is a session's.
    in_session: Option<usize>,
    /// The columns of the rows that the caller uses.
    columns: ColumnSet,
}

enum ScanCursor<'a> {
    Start,
    Forward(&'a [u8]),
    Backward(&'a [u8]),
    Table(PageCursor<'a>),
    End,
}

impl<'a> KeyRange<'a> {
    /// A range of a table's primary key.
    ///
    /// # Errors
    /// The table has no ordered index, and the range is not the whole table, forward.
    pub(crate) fn primary(
        table: &'a TableCore,
        lower: Bound<EncodedKey>,
        upper: Bound<EncodedKey>,
        backward: bool,
    ) -> Result<KeyRange<'a>> {
        let unbounded = matches!((&lower, &upper), (Bound::Unbounded, Bound::Unbounded));
        let everything = unbounded && !backward;
        if !everything {
            table.ordered()?;
        }
        Ok(KeyRange::new(table, None, lower, upper, backward, everything))
    }

    /// A range of a secondary index.
    pub(crate) fn secondary(
        table: &'a TableCore,
        position: usize,
        lower: Bound<EncodedKey>,
        upper: Bound<EncodedKey>,
        backward: bool,
    ) -> KeyRange<'a> {
        KeyRange::new(&table.secondary()[position].table, Some(table), lower, upper, backward, false)
    }

    fn new(
        table: &'a TableCore,
        base: Option<&'a TableCore>,
        lower: Bound<EncodedKey>,
        upper: Bound<EncodedKey>,
        backward: bool,
        everything: bool,
    ) -> KeyRange<'a> {
        let place = if everything { ScanCursor::Table(PageCursor::Start) } else { ScanCursor::Start };
        KeyRange {
            table,
            base,
            lower,
            upper,
            backward,
            place,
            page: Vec::new(),
            next: 0,
            begun: None,
            moment: None,
            in_session: None,
            columns: ColumnSet::WHOLE,
        }
    }

    /// A range of a table's keys, or of an index's, in their order; everything in any order where there is none.
    pub(super) fn all_of(
        table: &'a TableCore,
        lower: Bound<EncodedKey>,
        upper: Bound<EncodedKey>,
    ) -> KeyRange<'a> {
        let everything = table.ordered().is_err();
        KeyRange::new(table, None, lower, upper, false, everything)
    }

    /// The table or index that is read, and from where to where.
    pub(super) fn bounds(&self) -> (&'a TableCore, &Bound<EncodedKey>, &Bound<EncodedKey>) {
        (self.table, &self.lower, &self.upper)
    }

    /// Says which columns of the rows the caller uses.
    pub(crate) fn set_columns(&mut self, columns: ColumnSet) {
        self.columns = columns;
    }

    /// The columns of the rows that the caller uses.
    pub(crate) fn columns(&self) -> ColumnSet {
        self.columns
    }

    /// Shows the rows as they were at a point in the call's writes.
    pub(crate) fn set_moment(&mut self, moment: Mark) {
        self.moment = Some(moment);
    }

    /// Returns true if it is read from its end to its beginning.
    pub(super) fn is_backward(&self) -> bool {
        self.backward
    }

    /// The records of the page that was read last.
    pub(super) fn page(&self) -> &[Record<'a>] {
        &self.page
    }

    /// The table whose rows are returned.
    pub(crate) fn rows_of(&self) -> &'a TableCore {
        self.base.unwrap_or(self.table)
    }

    /// Drops the records of a page behind the range's end. Before its beginning there are none: pages are read from there
    /// on, in order.
    fn cut_page(&mut self) {
        let is_inside = |record: &Record<'a>| {
            let key = record.key();
            if self.backward { !is_below(key, &self.lower) } else { !is_above(key, &self.upper) }
        };
        if !self.page.last().is_none_or(is_inside) {
            let inside = self.page.partition_point(is_inside);
            self.page.truncate(inside);
        }
    }
}

impl<'a> Attempt<'a> {
    /// Refuses a range that the running action does not declare; a secondary index's may be read where the table is
    /// declared, and each row found is checked.
    pub(crate) fn check_range(&self, table: &TableCore, prefix: &[u8], secondary: bool) -> Result<()> {
        let Some(scope) = self.scope.get() else { return Ok(()) };
        let covers = |one: &Reference| {
            let covered = secondary
                || if one.whole { one.key.as_slice() == prefix } else { prefix.starts_with(&one.key) };
            one.table == table.id() && covered && one.allows(Mode::Read)
        };
        if scope.iter().any(covers) {
            return Ok(());
        }
        match scope {
            [one] if one.table == table.id() && one.whole && !secondary && one.key.as_slice() != prefix => {
                Err(Error::OutsideFootprint {
                    what: format!(
                        "a range of {:?} where the action declares one key",
                        table.definition().name()
                    ),
                })
            }
            _ => Err(self.outside(table, scope, Mode::Read)),
        }
    }

    /// The next row of a range, with its primary key.
    ///
    /// What the call itself has put in since the range began is not shown: a body that inserts, or moves rows within
    /// an index, while it reads would run after its own rows.
    pub(crate) fn next_row(&self, key_range: &mut KeyRange<'a>) -> Result<Option<(&'a [u8], &'a [u64])>> {
        let (moment, columns) = (key_range.moment, key_range.columns);
        let mut read = || match moment {
            None => self.next_row_now(key_range),
            moment => self.read_as_of(moment, || self.next_row_now(key_range)),
        };
        if columns.is_whole() { read() } else { self.using_columns(columns, read) }
    }

    fn next_row_now(&self, key_range: &mut KeyRange<'a>) -> Result<Option<(&'a [u8], &'a [u64])>> {
        let begun = match key_range.begun {
            Some(begun) => begun,
            None => {
                if let Some(claim) = self.access.get().range {
                    claim(self, key_range.table, as_slice(&key_range.lower), as_slice(&key_range.upper))?;
                }
                key_range.in_session = self.begin_range_in_session(key_range)?;
                *key_range.begun.insert(self.mark())
            }
        };
        loop {
            while let Some(&record) = key_range.page.get(key_range.next) {
                if let Some(&ahead) = key_range.page.get(key_range.next + AHEAD) {
                    key_range.table.prefetch_record(ahead);
                }
                key_range.next += 1;
                if let Some(range) = key_range.in_session {
                    // First: what the session has written to it may enter only now.
                    self.meet_in_range(range, key_range.table, record)?;
                }
                let is_written = {
                    let writes = &self.workspace.borrow().writes;
                    let position = writes.position(record.pointer());
                    let is_new = position.is_some_and(|position| writes.came_since(position, begun));
                    if is_new && !(key_range.in_session.is_some() && self.is_carried(record)) {
                        continue;
                    }
                    position.is_some()
                };
                if key_range.in_session.is_none() {
                    self.claim(key_range.table, record.key(), Claim::Read)?;
                }
                // A dead record's successor, if it has one, came into the node after the page was read: the page's
                // the version informs the protocol.
                let seen = match is_written {
                    true => self.row_of(key_range.table, record)?,
                    false => self.unwritten_row_of(key_range.table, record)?,
                };
                let Seen::Row(row) = seen else { continue };
                match key_range.base {
                    None => {
                        self.met.set(Some((key_range.table, record)));
                        return Ok(Some((record.key(), row)));
                    }
                    Some(base) => {
                        if let Some(found) = self.follow(base, key_range.table, row)? {
                            return Ok(Some(found));
                        }
                    }
                }
            }
            if !self.next_page(key_range)? {
                if let Some(range) = key_range.in_session {
                    self.end_range_in_session(range);
                }
                return Ok(None);
            }
        }
    }

    /// Follows an index record's row to the row of its table.
    fn follow(
        &self,
        base: &'a TableCore,
        index: &'a TableCore,
        row: &'a [u64],
    ) -> Result<Option<(&'a [u8], &'a [u64])>> {
        // SAFETY: the row is in the attempt's arena, its block is pinned or there too.
        let ValueRef::Bytes(key) = (unsafe { index.layout().value(row, 0) }) else { return Ok(None) };
        self.check_scope(base, key, true, Mode::Read)?;
        let target = Target { table: base, key, hash: base.hash(key), found: None, declared: false };
        self.claim(base, key, Claim::Read)?;
        let record = match self.locate(&target) {
            Lookup::Found(record) => record,
            Lookup::Missing(version) => {
                (self.access.get().missed)(self, version)?;
                return Ok(None);
            }
        };
        let row = self.row_of_target(&Target { found: Some(record), ..target })?;
        Ok(row.map(|row| (record.key(), row)))
    }

    pub(super) fn next_page(&self, key_range: &mut KeyRange<'a>) -> Result<bool> {
        key_range.page.clear();
        key_range.next = 0;
        let place = std::mem::replace(&mut key_range.place, ScanCursor::End);
        let missed = self.access.get().missed;
        if let ScanCursor::Table(cursor) = place {
            if matches!(cursor, PageCursor::End) {
                return Ok(false);
            }
            let mut versions = Vec::new();
            key_range.place = ScanCursor::Table(key_range.table.page(
                cursor,
                &mut key_range.page,
                &mut versions,
                self.guard,
            ));
            versions.into_iter().try_for_each(|version| missed(self, version))?;
            return Ok(true);
        }
        let index = key_range.table.ordered()?;
        let page = match (place, key_range.backward) {
            (ScanCursor::Start, false) => {
                let (from, to) = (as_slice(&key_range.lower), as_slice(&key_range.upper));
                index.page_within(from, to, &mut key_range.page, self.guard)
            }
            (ScanCursor::Start, true) => {
                index.page_backward(as_slice(&key_range.upper), &mut key_range.page, self.guard)
            }
            (ScanCursor::Forward(from), _) if is_above(from, &key_range.upper) => return Ok(false),
            (ScanCursor::Backward(to), _) if below(to, &key_range.lower) => return Ok(false),
            (ScanCursor::Forward(from), _) => index.page_within(
                Bound::Included(from),
                as_slice(&key_range.upper),
                &mut key_range.page,
                self.guard,
            ),
            (ScanCursor::Backward(to), _) => {
                index.page_backward(Bound::Excluded(to), &mut key_range.page, self.guard)
            }
            (ScanCursor::Table(_) | ScanCursor::End, _) => return Ok(false),
        };
        missed(self, page.version)?;
        key_range.cut_page();
        key_range.page.iter().take(AHEAD).for_each(|&record| key_range.table.prefetch_record(record));
        key_range.place = match page.next {
            None => ScanCursor::End,
            Some(key) if key_range.backward => ScanCursor::Backward(key),
            Some(key) => ScanCursor::Forward(key),
        };
        Ok(true)
    }
}

pub(super) fn as_slice(bound: &Bound<EncodedKey>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key.as_slice()),
        Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Returns true if nothing below `to` can be in a range that begins at `lower`.
fn below(to: &[u8], lower: &Bound<EncodedKey>) -> bool {
    match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => to <= lower.as_slice(),
        Bound::Unbounded => false,
    }
}
