//! What a session keeps between its accesses: what it has read, by key and stamp, and what it will write.
//!
//! Everything is kept by key: no record, no node of an index and no pin is held, so that a session can wait for as
//! long as it likes. At each access the records are found again.
//!
//! Invariants:
//! - An entry's observation is the oldest that is still believed: what was observed again since was the same.
//! - `log` has the writes in the order in which they were made, each linked to the one before it on the same key, so that a
//!   savepoint is a length.
//! - A write that continues one to the same column is merged into it, unless a savepoint lies between them ([`merge`]): so what an
//!   access takes over of a key does not grow with the number of its writes.
//! - A key whose first write is an insert, and of which nothing was noted, was free: its observation is implied by that write, and
//!   noted when the write is undone. So a row that comes in takes no more than its key, its write and sixteen bytes.

mod key_order;
mod merge;

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use self::key_order::KeyOrder;
use crate::error::Result;
use crate::storage::read_set::Part;
use crate::storage::table::{TableCore, TableId};
use crate::storage::word::Stamp;
use crate::storage::write_set::{CarriedWrite, check_bytes};

/// An encoded key that is shared between the places which name it.
pub(crate) type Key = Arc<[u8]>;

/// What was found where a key was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// What of the record was read.
    pub(crate) part: Part,
    /// Whether there was a row.
    pub(crate) present: bool,
    /// The stamp of the record's last writer; zero: no record, or an insert's placeholder.
    pub(crate) stamp: Stamp,
    /// Whether that is only known to be of the stamp's epoch or an earlier one: it was read from a snapshot.
    pub(crate) is_bound: bool,
    /// The split phase in which columns of the row were hidden; 0: none were.
    pub(crate) phase: u64,
}

/// How an observation compares with an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// What was read is unchanged.
    Same,
    /// It has changed.
    Changed,
    /// The row's columns are split now, and were not when it was read, or others were: the joined phase tells.
    HiddenNow,
}

impl Observed {
    /// That there was no row, and no trace of one.
    const FREE: Observed =
        Observed { part: Part::Existence, present: false, stamp: Stamp::ZERO, is_bound: false, phase: 0 };

    /// Whether what was read then is still what there is now.
    pub(crate) fn compare(&self, now: &Observed) -> Comparison {
        if self.present != now.present {
            return Comparison::Changed;
        }
        if !self.present || self.part == Part::Existence {
            return Comparison::Same;
        }
        let is_same = match self.is_bound {
            true => now.stamp.epoch() <= self.stamp.epoch(),
            false => now.stamp == self.stamp,
        };
        if !is_same {
            return Comparison::Changed;
        }
        if now.phase != 0 && now.phase != self.phase {
            return Comparison::HiddenNow;
        }
        Comparison::Same
    }

    /// Whether it is sure that all of this was so when the global epoch was `epoch`: its writer's epoch was sealed by
    /// then, and so everything of it installed.
    pub(crate) fn is_as_old_as(&self, epoch: u64) -> bool {
        self.stamp != Stamp::ZERO && self.stamp.epoch() + 2 <= epoch
    }
}

/// No observation, or no write.
const NONE: u32 = u32::MAX;

/// What is kept of one key.
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

/// What an access has written to a key, for a look at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeenWrite<'w> {
    /// The table's number.
    pub(crate) table: u32,
    pub(crate) key: &'w [u8],
    /// Whether a row comes in.
    pub(crate) is_insert: bool,
    /// Whether the key was written by the write before, too.
    pub(crate) is_again: bool,
}

/// What an access has written, on its way into the buffer.
#[derive(Default)]
pub(crate) struct AccessWrites {
    keys: Vec<u8>,
    /// Each write with the number of its table, and where its key ends.
    writes: Vec<(CarriedWrite, u32, usize)>,
}

impl AccessWrites {
    /// Adds the writes to a key.
    pub(crate) fn push(&mut self, table: u32, key: &[u8], writes: impl Iterator<Item = CarriedWrite>) {
        for write in writes {
            self.keys.extend_from_slice(key);
            self.writes.push((write, table, self.keys.len()));
        }
    }

    /// Looks at each write until something is found.
    pub(crate) fn find<R>(&self, look: &mut dyn FnMut(SeenWrite<'_>) -> Option<R>) -> Option<R> {
        let (mut start, mut last) = (0, None);
        self.writes.iter().find_map(|(write, table, end)| {
            let key = &self.keys[std::mem::replace(&mut start, *end)..*end];
            let is_again = last.replace((*table, key)) == Some((*table, key));
            look(SeenWrite {
                table: *table,
                key,
                is_insert: matches!(write, CarriedWrite::Insert(_)),
                is_again,
            })
        })
    }
}

/// A range that was read, of a table's or an index's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeRead {
    pub(crate) lower: Bound<Key>,
    pub(crate) upper: Bound<Key>,
    /// The epoch of the snapshot in which it was read, if it was: its keys are not noted one by one then.
    pub(crate) as_of: Option<u64>,
}

impl RangeRead {
    /// Whether everything in the other range is in this one.
    fn covers(&self, other: &RangeRead) -> bool {
        let begins = match (&self.lower, &other.lower) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(key)) => {
                own < key || own == key && matches!(self.lower, Bound::Included(_))
            }
            (Bound::Included(own) | Bound::Excluded(own), Bound::Excluded(key)) => own <= key,
        };
        let ends = match (&self.upper, &other.upper) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Included(own) | Bound::Excluded(own), Bound::Included(key)) => {
                own > key || own == key && matches!(self.upper, Bound::Included(_))
            }
            (Bound::Included(own) | Bound::Excluded(own), Bound::Excluded(key)) => own >= key,
        };
        begins && ends && self.as_of == other.as_of
    }
}

/// What is kept of one table, or of the inside of one secondary index.
struct TableBuffer {
    core: Arc<TableCore>,
    /// Whether a key that comes in is one that a rival may want: not in an index whose keys end with the primary key.
    has_contended_keys: bool,
    /// How many foreign keys had come to concern it when the transaction used it first.
    foreign_keys: u32,
    keys: KeyOrder,
    /// What is kept of each key, by its number.
    entries: Vec<Entry>,
    reads: Vec<Observed>,
    ranges: Vec<RangeRead>,
    /// How many entries have writes.
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
            Some(read) if read.part == Part::Row || observed.part == Part::Existence => {}
            Some(read) => *read = observed,
            None => {
                entry.read = self.reads.len() as u32;
                self.reads.push(observed);
            }
        }
    }
}

/// How many of the ranges read last are looked through for one that covers a new one.
const RECENT_RANGES: usize = 8;

/// What a session keeps of its transaction.
#[derive(Default)]
pub(crate) struct SessionBuffer {
    tables: Vec<TableBuffer>,
    log: Vec<LoggedWrite>,
    /// What the values of these writes take.
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

    /// Whether a foreign key concerns one of them that did not when it was used first: what was done may violate it.
    pub(crate) fn misses_foreign_keys(&self) -> bool {
        self.tables.iter().any(|table| table.foreign_keys != table.core.foreign_keys_added())
    }

    /// Puts another definition of the same records in a table's place.
    pub(crate) fn redefine(&mut self, core: &Arc<TableCore>) {
        let is_it = |own: &TableCore| !own.is_internal() && own.id() == core.id();
        let Some(number) = self.tables.iter().position(|table| is_it(&table.core)) else { return };
        let table = &mut self.tables[number];
        let before = std::mem::replace(&mut table.core, core.clone());
        table.foreign_keys = core.foreign_keys_added();
        if before.layout().words() != core.layout().words() {
            let own = self.log.iter_mut().filter(|write| write.table as usize == number);
            own.for_each(|write| write.write.redefine(before.layout(), core.layout()));
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

    /// Whether rivals may insert the same keys into this table.
    pub(crate) fn has_contended_keys(&self, table: u32) -> bool {
        self.tables[table as usize].has_contended_keys
    }

    /// Whether nothing was read.
    pub(crate) fn is_unread(&self) -> bool {
        self.reads(true).next().is_none() && self.ranges().next().is_none()
    }

    /// Whether a range was read from a snapshot.
    pub(crate) fn has_ranges_of_snapshot(&self) -> bool {
        self.ranges().any(|(_, range)| range.as_of.is_some())
    }

    /// Whether nothing is written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.tables.iter().all(|table| table.written == 0)
    }

    /// Whether something is written to this table.
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

    /// Those of a table's keys that are written, with their writes.
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

    /// Whether anything is written to this table or one of its indexes.
    pub(crate) fn writes_table(&self, id: TableId) -> bool {
        self.tables.iter().any(|table| table.written > 0 && table.core.id() == id)
    }

    /// How many rows are written of the table that has this number in the catalog.
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

    /// What an entry's first write implies, if nothing else was observed of its key.
    fn implied(&self, entry: Entry) -> Option<Observed> {
        let first = self.log.get(entry.first as usize).filter(|_| entry.read == NONE)?;
        matches!(first.write, CarriedWrite::Insert(_)).then_some(Observed::FREE)
    }

    fn observed_of(&self, table: &TableBuffer, entry: Entry) -> Option<Observed> {
        table.reads.get(entry.read as usize).copied().or_else(|| self.implied(entry))
    }

    /// What was observed of a key.
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
                let noted = table.reads.get(entry.read as usize).copied();
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

/// Whether nothing can be in a range; `BTreeMap::range` panics at such ones.
fn is_empty_range(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
        | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::storage::rig::Rig;
    use crate::types::{DataType, Value};

    fn observed(part: Part, sequence: u64) -> Observed {
        Observed { part, present: true, stamp: Stamp::new(5, sequence), is_bound: false, phase: 0 }
    }

    fn buffer() -> SessionBuffer {
        let rig = Rig::new(TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]));
        let mut buffer = SessionBuffer::default();
        assert_eq!(buffer.add_table(rig.table.clone(), true), 0);
        buffer
    }

    fn set(value: i64) -> CarriedWrite {
        CarriedWrite::Set { column: 1, value: Box::new(Value::Int(value)) }
    }

    fn append(buffer: &mut SessionBuffer, key: &[u8], write: CarriedWrite) {
        let mut writes = AccessWrites::default();
        writes.push(0, key, [write].into_iter());
        buffer.append(writes, usize::MAX);
    }

    #[test]
    fn a_row_is_compared_by_its_stamp_and_existence_by_presence() {
        let row = observed(Part::Row, 1);
        assert_eq!(row.compare(&row), Comparison::Same);
        assert_eq!(row.compare(&observed(Part::Row, 2)), Comparison::Changed);
        assert_eq!(observed(Part::Existence, 1).compare(&observed(Part::Row, 2)), Comparison::Same);
        let gone = Observed { present: false, ..row };
        assert_eq!(row.compare(&gone), Comparison::Changed);
        assert_eq!(observed(Part::Existence, 1).compare(&gone), Comparison::Changed);
        let later = Observed { stamp: Stamp::new(6, 1), ..gone };
        assert_eq!(gone.compare(&later), Comparison::Same, "it came and went: it is absent");
    }

    #[test]
    fn a_row_that_is_split_now_tells_only_in_the_phase_in_which_it_was_read() {
        let (joined, split) = (observed(Part::Row, 1), Observed { phase: 7, ..observed(Part::Row, 1) });
        assert_eq!(joined.compare(&split), Comparison::HiddenNow);
        assert_eq!(split.compare(&split), Comparison::Same);
        assert_eq!(split.compare(&joined), Comparison::Same, "nothing was merged into it");
        assert_eq!(split.compare(&Observed { phase: 8, ..split }), Comparison::HiddenNow);
        assert_eq!(split.compare(&observed(Part::Row, 2)), Comparison::Changed);
    }

    #[test]
    fn a_row_of_a_snapshot_is_the_same_while_nobody_has_written_it_in_a_later_epoch() {
        let read = Observed { is_bound: true, ..observed(Part::Row, 0) };
        assert_eq!(read.compare(&observed(Part::Row, 7)), Comparison::Same);
        let later = Observed { stamp: Stamp::new(6, 1), ..observed(Part::Row, 1) };
        assert_eq!(read.compare(&later), Comparison::Changed);
        assert_eq!(read.compare(&Observed { phase: 3, ..observed(Part::Row, 7) }), Comparison::HiddenNow);
    }

    #[test]
    fn an_observation_is_old_once_its_epoch_was_sealed() {
        let old = observed(Part::Row, 1);
        assert!(!old.is_as_old_as(5) && !old.is_as_old_as(6) && old.is_as_old_as(7));
        assert!(!Observed { stamp: Stamp::ZERO, ..old }.is_as_old_as(100), "it may have gone a moment ago");
    }

    #[test]
    fn a_savepoint_takes_back_writes_and_keeps_reads() {
        let mut buffer = buffer();
        buffer.note_read(0, b"a", observed(Part::Existence, 1));
        append(&mut buffer, b"a", set(1));
        let mark = buffer.mark();
        append(&mut buffer, b"a", set(2));
        append(&mut buffer, b"b", set(3));
        buffer.note_read(0, b"b", observed(Part::Row, 1));
        let range = |from: &'static [u8], to: &'static [u8]| (Bound::Included(from), Bound::Excluded(to));
        assert_eq!(buffer.writes_within(0, range(b"a", b"c")).count(), 2);
        assert_eq!(buffer.writes_within(0, range(b"b", b"a")).count(), 0);
        assert_eq!(buffer.writes_to(0, b"a").as_deref(), Some(&[&set(1), &set(2)][..]));
        buffer.truncate(mark);
        assert_eq!(buffer.writes_to(0, b"a").as_deref(), Some(&[&set(1)][..]));
        assert_eq!((buffer.writes_to(0, b"b"), buffer.writes().count()), (None, 1));
        assert_eq!(buffer.reads(true).count(), 2);
        buffer.truncate(0);
        assert!(buffer.is_unwritten());
        assert_eq!(buffer.writes_within(0, (Bound::Unbounded, Bound::Unbounded)).count(), 0);
    }

    #[test]
    fn an_insert_implies_that_its_key_was_free_and_an_undone_one_has_noted_it() {
        let mut buffer = buffer();
        let insert = || CarriedWrite::Insert(Box::default());
        append(&mut buffer, b"a", insert());
        append(&mut buffer, b"a", CarriedWrite::Delete);
        buffer.note_read(0, b"b", observed(Part::Existence, 1));
        append(&mut buffer, b"b", CarriedWrite::Delete);
        append(&mut buffer, b"b", insert());
        assert_eq!(buffer.observed(0, b"a"), Some(Observed::FREE));
        assert_eq!(buffer.observed(0, b"b"), Some(observed(Part::Existence, 1)));
        let implied: Vec<bool> = buffer.writes().map(|(.., implies)| implies).collect();
        assert_eq!(implied, [true, false]);
        assert_eq!((buffer.reads(true).count(), buffer.reads(false).count()), (2, 1));
        buffer.truncate(1);
        assert_eq!(buffer.observed(0, b"a"), Some(Observed::FREE));
        assert_eq!(buffer.reads(false).count(), 1);
        buffer.truncate(0);
        assert_eq!(buffer.observed(0, b"a"), Some(Observed::FREE));
        assert_eq!(buffer.reads(false).count(), 2, "the client has seen that it was free");
    }

    #[test]
    fn a_table_that_is_forgotten_leaves_the_others_and_the_marks() {
        let mut buffer = buffer();
        let other = TableDefinition::new("u").column("id", DataType::Int64).primary_key(["id"]);
        let other = Arc::new(TableCore::new(1, &Arc::default(), 77, other));
        assert_eq!(buffer.add_table(other.clone(), true), 1);
        append(&mut buffer, b"a", set(1));
        let mut writes = AccessWrites::default();
        writes.push(1, b"a", [set(2), set(3)].into_iter());
        let mut found = Vec::new();
        let look = &mut |write: SeenWrite<'_>| {
            found.push((write.table, write.key.to_vec(), write.is_insert, write.is_again));
            None::<()>
        };
        assert!(writes.find(look).is_none());
        assert_eq!(found, [(1, b"a".to_vec(), false, false), (1, b"a".to_vec(), false, true)]);
        buffer.append(writes, usize::MAX);
        append(&mut buffer, b"a", set(4));
        assert!(buffer.writes_table(other.id()));
        buffer.forget_table(other.id());
        assert!(!buffer.writes_table(other.id()) && buffer.writes_to(1, b"a").is_none());
        assert_eq!(buffer.writes_to(0, b"a").as_deref(), Some(&[&set(1), &set(4)][..]));
        buffer.truncate(1);
        assert_eq!(buffer.writes_to(0, b"a").as_deref(), Some(&[&set(1)][..]));
        buffer.truncate(0);
        assert!(buffer.is_unwritten());
    }

    #[test]
    fn a_read_of_the_row_replaces_one_of_its_existence_and_not_the_other_way() {
        let mut buffer = buffer();
        for (part, sequence, kept) in [
            (Part::Existence, 1, observed(Part::Existence, 1)),
            (Part::Existence, 2, observed(Part::Existence, 1)),
            (Part::Row, 3, observed(Part::Row, 3)),
            (Part::Existence, 4, observed(Part::Row, 3)),
            (Part::Row, 3, observed(Part::Row, 3)),
        ] {
            buffer.note_read(0, b"a", observed(part, sequence));
            // An existence may be replaced by a later one: they compare alike.
            let found = buffer.observed(0, b"a").expect("noted");
            assert_eq!(found.part, kept.part);
            if kept.part == Part::Row {
                assert_eq!(found, kept);
            }
        }
    }

    #[test]
    fn a_range_inside_one_that_was_read_is_not_kept_again() {
        let mut buffer = buffer();
        let (included, excluded) =
            (|key: &[u8]| Bound::Included(key.into()), |key: &[u8]| Bound::Excluded(key.into()));
        let inside = [
            RangeRead { lower: included(b"b"), upper: excluded(b"d"), as_of: None },
            RangeRead { lower: excluded(b"b"), upper: excluded(b"d"), as_of: None },
            RangeRead { lower: included(b"b"), upper: included(b"c"), as_of: None },
        ];
        let outside = [
            RangeRead { lower: included(b"b"), upper: included(b"d"), as_of: None },
            RangeRead { lower: included(b"a"), upper: excluded(b"c"), as_of: None },
            RangeRead { lower: Bound::Unbounded, upper: excluded(b"c"), as_of: None },
            RangeRead { lower: included(b"c"), upper: Bound::Unbounded, as_of: None },
        ];
        buffer.note_range(0, inside[0].clone());
        inside.iter().for_each(|range| buffer.note_range(0, range.clone()));
        assert_eq!(buffer.ranges().count(), 1);
        outside.iter().for_each(|range| buffer.note_range(0, range.clone()));
        assert_eq!(buffer.ranges().count(), 5);
        let everything = RangeRead { lower: Bound::Unbounded, upper: Bound::Unbounded, as_of: None };
        buffer.note_range(0, everything);
        outside.iter().for_each(|range| buffer.note_range(0, range.clone()));
        assert_eq!(buffer.ranges().count(), 6);
    }
}
