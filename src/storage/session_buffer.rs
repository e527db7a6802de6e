//! What a session keeps between its accesses: what it has read, by key and stamp, and what it will write.
//!
//! Everything is kept by key: no record, no node of an index and no pin is held, so that a session can wait for as
//! long as it likes. At each access the records are found again.
//!
//! Invariants:
//! - An entry's observation is the oldest that is still believed: what was observed again since was the same.
//! - `log` names the key of each write in the order in which they were made, so that a savepoint is a length.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::storage::read_set::Part;
use crate::storage::table::{TableCore, TableId};
use crate::storage::word::Stamp;
use crate::storage::write_set::CarriedWrite;

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

/// What is kept of one key.
#[derive(Default)]
struct Entry {
    read: Option<Observed>,
    writes: Vec<CarriedWrite>,
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
    entries: BTreeMap<Key, Entry>,
    ranges: Vec<RangeRead>,
    /// How many entries have writes.
    written: usize,
}

/// How many of the ranges read last are looked through for one that covers a new one.
const RECENT_RANGES: usize = 8;

/// What a session keeps of its transaction.
#[derive(Default)]
pub(crate) struct SessionBuffer {
    tables: Vec<TableBuffer>,
    log: Vec<(u32, Key)>,
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
        if let Some(table) = self.tables.iter_mut().find(|table| is_it(&table.core)) {
            table.core = core.clone();
            table.foreign_keys = core.foreign_keys_added();
        }
    }

    /// Forgets what was read of a table and its indexes, and what is written to them. Earlier marks hold no more.
    pub(crate) fn forget_table(&mut self, id: TableId) {
        let tables = &mut self.tables;
        self.log.retain(|(number, _)| tables[*number as usize].core.id() != id);
        for table in tables.iter_mut().filter(|table| table.core.id() == id) {
            (table.entries, table.ranges, table.written) = (BTreeMap::new(), Vec::new(), 0);
        }
    }

    /// Gives a table a number. `has_contended_keys`: whether rivals may insert the same keys into it.
    pub(crate) fn add_table(&mut self, core: Arc<TableCore>, has_contended_keys: bool) -> u32 {
        let table = TableBuffer {
            foreign_keys: core.foreign_keys_added(),
            core,
            has_contended_keys,
            entries: BTreeMap::new(),
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
        self.reads().next().is_none() && self.ranges().next().is_none()
    }

    /// Whether a range was read from a snapshot.
    pub(crate) fn has_ranges_of_snapshot(&self) -> bool {
        self.ranges().any(|(_, range)| range.as_of.is_some())
    }

    /// Whether nothing is written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.log.is_empty()
    }

    /// Whether something is written to this table.
    pub(crate) fn is_table_written(&self, table: u32) -> bool {
        self.tables[table as usize].written > 0
    }

    /// The writes to a key, if there are any.
    pub(crate) fn writes_to(&self, table: u32, key: &[u8]) -> Option<&[CarriedWrite]> {
        let table = &self.tables[table as usize];
        if table.written == 0 {
            return None;
        }
        table.entries.get(key).map(|entry| &entry.writes[..]).filter(|writes| !writes.is_empty())
    }

    /// The keys of a range that are written, with their writes.
    pub(crate) fn writes_within<'b>(
        &'b self,
        table: u32,
        (lower, upper): (Bound<&'b [u8]>, Bound<&'b [u8]>),
    ) -> impl Iterator<Item = (&'b [u8], &'b [CarriedWrite])> {
        let table = &self.tables[table as usize];
        let is_empty = table.written == 0 || is_empty_range(lower, upper);
        let entries = (!is_empty).then(|| table.entries.range::<[u8], _>((lower, upper)));
        let written = entries.into_iter().flatten().filter(|(_, entry)| !entry.writes.is_empty());
        written.map(|(key, entry)| (&key[..], &entry.writes[..]))
    }

    /// Everything that is written.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&TableCore, &[u8], &[CarriedWrite])> {
        self.tables.iter().filter(|table| table.written > 0).flat_map(|table| {
            let written = table.entries.iter().filter(|(_, entry)| !entry.writes.is_empty());
            written.map(|(key, entry)| (&*table.core, &key[..], &entry.writes[..]))
        })
    }

    /// What was observed of a key.
    pub(crate) fn observed(&self, table: u32, key: &[u8]) -> Option<&Observed> {
        self.tables[table as usize].entries.get(key)?.read.as_ref()
    }

    /// Everything that was observed.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (&TableCore, &[u8], &Observed)> {
        self.tables.iter().flat_map(|table| {
            let entries = table.entries.iter();
            entries.filter_map(|(key, entry)| Some((&*table.core, &key[..], entry.read.as_ref()?)))
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
    pub(crate) fn note_read(&mut self, table: u32, key: &Key, observed: Observed) {
        let entries = &mut self.tables[table as usize].entries;
        match entries.get_mut(key) {
            Some(entry) => match &mut entry.read {
                Some(read) if read.part == Part::Row || observed.part == Part::Existence => {}
                read => *read = Some(observed),
            },
            None => {
                entries.insert(key.clone(), Entry { read: Some(observed), writes: Vec::new() });
            }
        }
    }

    /// Notes that a range was read.
    pub(crate) fn note_range(&mut self, table: u32, range: RangeRead) {
        let ranges = &mut self.tables[table as usize].ranges;
        let recent = ranges.len().saturating_sub(RECENT_RANGES);
        if !ranges[recent..].iter().any(|earlier| earlier.covers(&range)) {
            ranges.push(range);
        }
    }

    /// Appends writes to a key.
    pub(crate) fn append(&mut self, number: u32, key: Key, writes: Vec<CarriedWrite>) {
        let table = &mut self.tables[number as usize];
        let entry = table.entries.entry(key.clone()).or_default();
        if entry.writes.is_empty() && !writes.is_empty() {
            table.written += 1;
        }
        self.log.extend(writes.iter().map(|_| (number, key.clone())));
        entry.writes.extend(writes);
    }

    /// The point reached in the writes.
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes writes since a savepoint. Reads since then stay, because the client has seen their results.
    pub(crate) fn truncate(&mut self, mark: usize) {
        for (number, key) in self.log.drain(mark.min(self.log.len())..).rev() {
            let table = &mut self.tables[number as usize];
            if let Some(entry) = table.entries.get_mut(&key) {
                entry.writes.pop();
                table.written -= usize::from(entry.writes.is_empty());
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        self.log = Vec::new();
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

    fn key(bytes: &[u8]) -> Key {
        bytes.into()
    }

    fn set(value: i64) -> Vec<CarriedWrite> {
        vec![CarriedWrite::Set { column: 1, value: Value::Int(value) }]
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
        buffer.note_read(0, &key(b"a"), observed(Part::Existence, 1));
        buffer.append(0, b"a"[..].into(), set(1));
        let mark = buffer.mark();
        buffer.append(0, b"a"[..].into(), set(2));
        buffer.append(0, b"b"[..].into(), set(3));
        buffer.note_read(0, &key(b"b"), observed(Part::Row, 1));
        let range = |from: &'static [u8], to: &'static [u8]| (Bound::Included(from), Bound::Excluded(to));
        assert_eq!(buffer.writes_within(0, range(b"a", b"c")).count(), 2);
        assert_eq!(buffer.writes_within(0, range(b"b", b"a")).count(), 0);
        buffer.truncate(mark);
        assert_eq!(buffer.writes_to(0, b"a"), Some(&set(1)[..]));
        assert_eq!((buffer.writes_to(0, b"b"), buffer.writes().count()), (None, 1));
        assert_eq!(buffer.reads().count(), 2);
        buffer.truncate(0);
        assert!(buffer.is_unwritten());
        assert_eq!(buffer.writes_within(0, (Bound::Unbounded, Bound::Unbounded)).count(), 0);
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
            buffer.note_read(0, &key(b"a"), observed(part, sequence));
            // An existence may be replaced by a later one: they compare alike.
            let found = buffer.observed(0, b"a").expect("noted");
            assert_eq!(found.part, kept.part);
            if kept.part == Part::Row {
                assert_eq!(*found, kept);
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
