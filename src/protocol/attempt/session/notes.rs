//! An attempt's notes for its session: the keys and ranges that it accesses, and the reason to retry it.

use std::ops::Bound;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Need, SessionAccess};
use crate::protocol::attempt::Claim;
use crate::storage::read_set::Part;
use crate::storage::record::RecordPointer;
use crate::storage::session_buffer::{ColumnSet, Key, RangeRead};

/// One attempt's notes.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) keys: Vec<NotedKey>,
    bytes: Vec<u8>,
    pub(super) ranges: Vec<NotedRange>,
    /// The number of the session's earlier writes that were carried in, by record.
    pub(super) carried: HashMap<RecordPointer, u32, FixedState>,
    /// A key that another session has reserved.
    pub(super) wanted: Option<(u64, Key)>,
    /// A key that is predicted to be written, and for which the session must wait or refresh its snapshot.
    pub(super) predicted: Option<(u64, Key)>,
    pub(super) need: Option<Need>,
    /// True if it has accessed a key or a range, even one that is left out of the notes.
    pub(super) has_accessed: bool,
    /// True if it has accessed a key to write or to reserve it.
    pub(super) is_writer: bool,
    /// True if reads are left out.
    pub(super) is_paused: bool,
    /// The columns that the running read uses of its rows; `None` if it may use all.
    pub(super) columns: Option<ColumnSet>,
}

/// A key that was claimed: its place among the bytes noted.
#[derive(Clone, Copy)]
pub(super) struct NotedKey {
    table: u32,
    length: u32,
    start: usize,
    part: Part,
    columns: ColumnSet,
    is_insert: bool,
}

/// A range that was claimed.
pub(super) struct NotedRange {
    pub(super) table: u32,
    pub(super) range: RangeRead,
    pub(super) is_backward: bool,
    /// True if it has no order, so that the keys seen determine no part of it.
    pub(super) is_unordered: bool,
    /// The last key that was met in it, if one was.
    pub(super) last: Option<Vec<u8>>,
    /// True if it was read to its end.
    pub(super) is_whole: bool,
}

/// A key that an attempt has accessed.
pub(crate) struct Noted<'n> {
    pub(crate) table: u32,
    pub(crate) key: &'n [u8],
    pub(crate) part: Part,
    /// The columns of its row that are used.
    pub(crate) columns: ColumnSet,
    /// True if the access was an insert.
    pub(crate) is_insert: bool,
}

impl Notes {
    /// Notes a key. `is_row`: it is that of a table's row, and not of an index's record.
    pub(super) fn note(&mut self, table: u32, key: &[u8], what: Claim, is_row: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let (part, columns) = match what {
            Claim::Read => (Part::Row, self.columns.filter(|_| is_row).unwrap_or(ColumnSet::WHOLE)),
            _ => (Part::Existence, ColumnSet::NONE),
        };
        let is_insert = what == Claim::Insert;
        self.keys.push(NotedKey { table, length: key.len() as u32, start, part, columns, is_insert });
    }
}

impl SessionAccess {
    /// The keys that the attempt has accessed, in order.
    pub(crate) fn noted(&self) -> impl Iterator<Item = Noted<'_>> {
        self.notes.keys.iter().map(|key| {
            let bytes = &self.notes.bytes[key.start..key.start + key.length as usize];
            let NotedKey { table, part, columns, is_insert, .. } = *key;
            Noted { table, key: bytes, part, columns, is_insert }
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

    pub(super) fn clear_notes(&mut self) {
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
        self.notes.columns = None;
    }
}
