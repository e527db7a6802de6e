//! The content of a session's buffer, and what is gone after a rollback to a savepoint.

use super::*;
use crate::storage::definition::TableDefinition;
use crate::storage::read_set::Part;
use crate::storage::rig::Rig;
use crate::storage::word::Stamp;
use crate::types::{DataType, Value};

fn observed(part: Part, sequence: u64) -> Observed {
    let (present, stamp) = (true, Stamp::new(5, sequence));
    Observed { part, present, stamp, is_bound: false, phase: 0, columns: None }
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
    let gone = Observed { present: false, ..row.clone() };
    assert_eq!(row.compare(&gone), Comparison::Changed);
    assert_eq!(observed(Part::Existence, 1).compare(&gone), Comparison::Changed);
    let later = Observed { stamp: Stamp::new(6, 1), ..gone.clone() };
    assert_eq!(gone.compare(&later), Comparison::Same, "it came and went: it is absent");
}

#[test]
fn a_row_that_is_split_now_tells_only_in_the_phase_in_which_it_was_read() {
    let (joined, split) = (observed(Part::Row, 1), Observed { phase: 7, ..observed(Part::Row, 1) });
    assert_eq!(joined.compare(&split), Comparison::HiddenNow);
    assert_eq!(split.compare(&split), Comparison::Same);
    assert_eq!(split.compare(&joined), Comparison::Same, "nothing was merged into it");
    assert_eq!(split.compare(&Observed { phase: 8, ..split.clone() }), Comparison::HiddenNow);
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
