//! A session's buffer between its accesses: its reads, by key and stamp, and its writes.
//!
//! Everything is kept by key: no record, no node of an index and no pin is held, so that a session can wait without a
//! limit. At each access the records are found again.
//!
//! Invariants:
//! - An entry's observation is the oldest that is still believed: what was observed again since was the same, or the same in all
//!   columns that were used. One of more columns takes its place.
//! - `log` has the writes in the order in which they were made, each linked to the one before it on the same key, so that a
//!   savepoint is a length.
//! - A write that continues one to the same column is merged into it, unless a savepoint lies between them ([`merge`]): so the
//!   number of writes that an access carries in for a key does not grow with the number of its writes.
//! - A key whose first write is an insert, and of which nothing was noted, was free: its observation is implied by that write, and
//!   noted when the write is undone. So an inserted row takes no more than its key, its write and sixteen bytes.

mod access_writes;
mod key_order;
mod merge;
mod observed;
mod range_read;
mod read_columns;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use self::key_order::KeyOrder;
use self::range_read::is_empty_range;
use crate::error::Result;
use crate::storage::table::{TableCore, TableId};
use crate::storage::write_set::{CarriedWrite, check_bytes};

pub(crate) use access_writes::{AccessWrites, SeenWrite, written_columns};
pub(crate) use observed::{Comparison, Observed};
pub(crate) use range_read::RangeRead;
pub(crate) use read_columns::{ColumnSet, ReadColumns};

/// An encoded key that is shared between the places which name it.
pub(crate) type Key = Arc<[u8]>;

/// No observation, or no write.
const NONE: u32 = u32::MAX;

/// The reads and writes of one key.
#[derive(Clone, Copy)]
struct Entry {
    /// The place of its observation among its table's.
    read: u32,
    /// The place of its first write in the log, and of the last one.
    first: u32,
    last: u32,
}

/// A write of the log.
struct LoggedWrite {
    write: CarriedWrite,
    /// The table's number, or [`NONE`] for a write to a table that was forgotten; and the number of the key.
    table: u32,
    entry: u32,
    /// The place of the write before it on the same key.
    previous: u32,
}

/// The writes to a key, in order.
pub(crate) type Writes<'b> = SmallVec<[&'b CarriedWrite; 4]>;

/// The buffer of one table, or of the inside of one secondary index.
struct TableBuffer {
    core: Arc<TableCore>,
    /// True if rivals may insert the same keys: not in an index whose keys end with the primary key.
    has_contended_keys: bool,
    /// The number of foreign keys that concerned it when the transaction used it first.
    foreign_keys: u32,
    keys: KeyOrder,
    /// The entry of each key, by its number.
    entries: Vec<Entry>,
    reads: Vec<Observed>,
    ranges: Vec<RangeRead>,
    /// The number of entries that have writes.
    written: usize,
}

impl TableBuffer {
    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.find(key).map(|number| &self.entries[number as usize])
    }

    /// The number of a key's entry, which is made if there is none.
    fn entry_of(&mut self, key: &[u8]) -> u32 {
        let (number, is_new) = self.keys.insert(key);
        if is_new {
            self.entries.push(Entry { read: NONE, first: NONE, last: NONE });
        }
        number
    }

    /// Notes what was observed of the key of this number.
    fn note(&mut self, number: u32, observed: Observed) {
        let entry = &mut self.entries[number as usize];
        match self.reads.get_mut(entry.read as usize) {
            Some(read) if read.covers(observed.part, observed.read_columns()) => {}
            Some(read) => *read = observed,
            None => {
                entry.read = self.reads.len() as u32;
                self.reads.push(observed);
            }
        }
    }
}

/// A session keeps columns of rows while it has read fewer keys than this.
const MAX_ROWS_WITH_COLUMNS: usize = 1_024;
/// The number of the ranges read last among which one that covers a new range is looked for.
const RECENT_RANGES: usize = 8;

/// A session's buffer of its transaction.
#[derive(Default)]
pub(crate) struct SessionBuffer {
    tables: Vec<TableBuffer>,
    log: Vec<LoggedWrite>,
    /// The memory that the values of these writes take.
    value_bytes: usize,
}

impl SessionBuffer {
    /// The number of a table that was met before.
    pub(crate) fn table_number(&self, core: &TableCore) -> Option<u32> {
        let found = self.tables.iter().position(|table| std::ptr::eq(&*table.core, core));
        found.map(|number| number as u32)
    }

    /// The tables that were used, with the insides of their indexes.
    pub(crate) fn cores(&self) -> impl Iterator<Item = &Arc<TableCore>> {
        self.tables.iter().map(|table| &table.core)
    }

    /// Returns true if a foreign key concerns one of them that did not when it was used first: earlier writes may
    /// violate it.
    pub(crate) fn misses_foreign_keys(&self) -> bool {
        self.tables.iter().any(|table| table.foreign_keys != table.core.foreign_keys_added())
    }

    /// Puts another definition of the same records in a table's place.
    pub(crate) fn redefine(&mut self, core: &Arc<TableCore>) {
        let is_it = |own: &TableCore| !own.is_internal() && own.id() == core.id();
        let Some(number) = self.tables.iter().position(|table| is_it(&table.core)) else { return };
        let table = &mut self.tables[number];
        // What was kept of columns is of the definition before.
        table.reads.iter_mut().for_each(|read| read.columns = None);
        let before = std::mem::replace(&mut table.core, core.clone());
        table.foreign_keys = core.foreign_keys_added();
        if before.layout().words() != core.layout().words() {
            for LoggedWrite { write, .. } in
                self.log.iter_mut().filter(|write| write.table as usize == number)
            {
                self.value_bytes -= write.bytes();
                write.redefine(before.layout(), core.layout());
                self.value_bytes += write.bytes();
            }
        }
    }

    /// Forgets what was read of a table and its indexes, and what is written to them.
    pub(crate) fn forget_table(&mut self, id: TableId) {
        let tables = &mut self.tables;
        let is_of_it = |write: &&mut LoggedWrite| {
            tables.get(write.table as usize).is_some_and(|table| table.core.id() == id)
        };
        for write in self.log.iter_mut().filter(is_of_it) {
            self.value_bytes -= write.write.bytes();
            (write.write, write.table) = (CarriedWrite::Delete, NONE);
        }
        for table in tables.iter_mut().filter(|table| table.core.id() == id) {
            (table.keys, table.entries, table.reads) = Default::default();
            (table.ranges, table.written) = (Vec::new(), 0);
        }
    }

    /// Gives a table a number. `has_contended_keys`: whether rivals may insert the same keys into it.
    pub(crate) fn add_table(&mut self, core: Arc<TableCore>, has_contended_keys: bool) -> u32 {
        let table = TableBuffer {
            foreign_keys: core.foreign_keys_added(),
            core,
            has_contended_keys,
            keys: KeyOrder::default(),
            entries: Vec::new(),
            reads: Vec::new(),
            ranges: Vec::new(),
            written: 0,
        };
        self.tables.push(table);
        (self.tables.len() - 1) as u32
    }

    /// The table of this number.
    pub(crate) fn core(&self, table: u32) -> &Arc<TableCore> {
        &self.tables[table as usize].core
    }

    /// Returns true if rivals may insert the same keys into this table.
    pub(crate) fn has_contended_keys(&self, table: u32) -> bool {
        self.tables[table as usize].has_contended_keys
    }

    /// Returns true if nothing was read.
    pub(crate) fn is_unread(&self) -> bool {
        self.reads(true).next().is_none() && self.ranges().next().is_none()
    }

    /// Returns true if the columns of another row that is read may be kept. Of the rows behind these the stamps count.
    pub(crate) fn may_keep_columns(&self, fresh: usize) -> bool {
        self.tables.iter().map(|table| table.reads.len()).sum::<usize>() + fresh < MAX_ROWS_WITH_COLUMNS
    }

    /// Returns true if a range was read from a snapshot.
    pub(crate) fn has_ranges_of_snapshot(&self) -> bool {
        self.ranges().any(|(_, range)| range.as_of.is_some())
    }

    /// Returns true if nothing is written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.tables.iter().all(|table| table.written == 0)
    }

    /// Returns true if something is written to this table.
    pub(crate) fn is_table_written(&self, table: u32) -> bool {
        self.tables[table as usize].written > 0
    }

    /// The writes to a key, if there are any.
    pub(crate) fn writes_to(&self, table: u32, key: &[u8]) -> Option<Writes<'_>> {
        let table = &self.tables[table as usize];
        if table.written == 0 {
            return None;
        }
        let entry = table.entry(key)?;
        (entry.last != NONE).then(|| self.chain(*entry))
    }

    /// The writes to an entry, in order.
    fn chain(&self, entry: Entry) -> Writes<'_> {
        let mut writes = Writes::new();
        let mut next = entry.last;
        while let Some(logged) = self.log.get(next as usize) {
            writes.push(&logged.write);
            next = logged.previous;
        }
        writes.reverse();
        writes
    }

    /// The keys of a range that are written, with their writes.
    pub(crate) fn writes_within<'b>(
        &'b self,
        table: u32,
        (lower, upper): (Bound<&'b [u8]>, Bound<&'b [u8]>),
    ) -> impl Iterator<Item = (&'b [u8], Writes<'b>)> {
        let table = &self.tables[table as usize];
        let is_empty = table.written == 0 || is_empty_range(lower, upper);
        let numbers = (!is_empty).then(|| table.keys.within((lower, upper)));
        self.written(table, numbers.into_iter().flatten())
    }

    /// The keys of a table that are written, with their writes.
    fn written<'b>(
        &'b self,
        table: &'b TableBuffer,
        numbers: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = (&'b [u8], Writes<'b>)> {
        let entries = numbers.map(|number| (table.keys.key(number), table.entries[number as usize]));
        entries.filter(|(_, entry)| entry.last != NONE).map(|(key, entry)| (key, self.chain(entry)))
    }

    /// Everything that is written; whether the first write implies that the key was free.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&TableCore, &[u8], Writes<'_>, bool)> {
        self.tables.iter().filter(|table| table.written > 0).flat_map(move |table| {
            let entries = table.keys.numbers().map(|number| (number, table.entries[number as usize]));
            entries.filter(|(_, entry)| entry.last != NONE).map(move |(number, entry)| {
                let implies = self.implied(entry).is_some();
                (&*table.core, table.keys.key(number), self.chain(entry), implies)
            })
        })
    }

    /// Returns true if anything is written to this table or one of its indexes.
    pub(crate) fn writes_table(&self, id: TableId) -> bool {
        self.tables.iter().any(|table| table.written > 0 && table.core.id() == id)
    }

    /// The number of written rows of the table that has this number in the catalog.
    pub(crate) fn written_rows(&self, id: TableId) -> usize {
        let of_table = |table: &&TableBuffer| !table.core.is_internal() && table.core.id() == id;
        self.tables.iter().filter(of_table).map(|table| table.written).sum()
    }

    /// The keys of these rows.
    pub(crate) fn written_keys(&self, id: TableId) -> impl Iterator<Item = &[u8]> {
        let of_table = move |table: &&TableBuffer| !table.core.is_internal() && table.core.id() == id;
        let tables = self.tables.iter().filter(of_table);
        tables.flat_map(|table| self.written(table, table.keys.numbers()).map(|(key, _)| key))
    }

    /// The observation that an entry's first write implies, if nothing else was observed of its key.
    fn implied(&self, entry: Entry) -> Option<Observed> {
        let first = self.log.get(entry.first as usize).filter(|_| entry.read == NONE)?;
        matches!(first.write, CarriedWrite::Insert(_)).then_some(Observed::FREE)
    }

    fn observed_of(&self, table: &TableBuffer, entry: Entry) -> Option<Observed> {
        table.reads.get(entry.read as usize).cloned().or_else(|| self.implied(entry))
    }

    /// The observation of a key.
    pub(crate) fn observed(&self, table: u32, key: &[u8]) -> Option<Observed> {
        let table = &self.tables[table as usize];
        self.observed_of(table, *table.entry(key)?)
    }

    /// Everything that was observed; `with_implied`: also what is implied by inserts.
    pub(crate) fn reads(&self, with_implied: bool) -> impl Iterator<Item = (&TableCore, &[u8], Observed)> {
        let has_reads = move |table: &&TableBuffer| with_implied || !table.reads.is_empty();
        self.tables.iter().filter(has_reads).flat_map(move |table| {
            table.keys.numbers().filter_map(move |number| {
                let entry = table.entries[number as usize];
                let noted = table.reads.get(entry.read as usize).cloned();
                let observed = if with_implied { self.observed_of(table, entry) } else { noted };
                Some((&*table.core, table.keys.key(number), observed?))
            })
        })
    }

    /// Every range that was read, with its table's number.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u32, &RangeRead)> {
        (0..)
            .zip(&self.tables)
            .flat_map(|(number, table)| table.ranges.iter().map(move |range| (number, range)))
    }

    /// Notes what was observed of a key. The caller has found it to be the same as what was observed before, if
    /// anything was.
    pub(crate) fn note_read(&mut self, table: u32, key: &[u8], observed: Observed) {
        let table = &mut self.tables[table as usize];
        let number = table.entry_of(key);
        table.note(number, observed);
    }

    /// Notes that a range was read.
    pub(crate) fn note_range(&mut self, table: u32, range: RangeRead) {
        let ranges = &mut self.tables[table as usize].ranges;
        let recent = ranges.len().saturating_sub(RECENT_RANGES);
        if !ranges[recent..].iter().any(|earlier| earlier.covers(&range)) {
            ranges.push(range);
        }
    }

    /// Appends what an access has written. `savepoint`: the mark of the last one to which the transaction can go back.
    pub(crate) fn append(&mut self, access: AccessWrites, savepoint: usize) {
        let AccessWrites { keys, writes } = access;
        let mut start = 0;
        for (write, number, end) in writes {
            let table = &mut self.tables[number as usize];
            let at = table.entry_of(&keys[std::mem::replace(&mut start, end)..end]);
            let last = table.entries[at as usize].last;
            if self.merge((number, last), &write, savepoint) {
                continue;
            }
            let table = &mut self.tables[number as usize];
            let entry = &mut table.entries[at as usize];
            let previous = std::mem::replace(&mut entry.last, self.log.len() as u32);
            if previous == NONE {
                entry.first = entry.last;
                table.written += 1;
            }
            self.value_bytes += write.bytes();
            self.log.push(LoggedWrite { write, table: number, entry: at, previous });
        }
    }

    /// Refuses to grow beyond what one transaction may hold, by what an access has written.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge).
    pub(crate) fn check_size(&self, access: &AccessWrites) -> Result<()> {
        let writes = self.log.len() + access.writes.len();
        let values: usize = access.writes.iter().map(|(write, ..)| write.bytes()).sum();
        check_bytes(writes * size_of::<LoggedWrite>() + self.value_bytes + values)
    }

    /// The point reached in the writes.
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes writes since a savepoint. Reads since then stay, because the client has seen their results.
    pub(crate) fn truncate(&mut self, mark: usize) {
        while self.log.len() > mark
            && let Some(undone) = self.log.pop()
        {
            let LoggedWrite { write, table, entry: number, previous } = undone;
            self.value_bytes -= write.bytes();
            let Some(table) = self.tables.get_mut(table as usize) else { continue };
            table.entries[number as usize].last = previous;
            if previous == NONE {
                table.entries[number as usize].first = NONE;
                table.written -= 1;
                if matches!(write, CarriedWrite::Insert(_)) {
                    table.note(number, Observed::FREE);
                }
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        (self.log, self.value_bytes) = (Vec::new(), 0);
    }
}
