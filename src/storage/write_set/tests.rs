//! Write sets: what is taken back leaves nothing behind.

use super::*;
use crate::storage::definition::TableDefinition;
use crate::types::DataType;

fn table() -> TableCore {
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"]);
    TableCore::new(1, &std::sync::Arc::default(), 16, definition)
}

fn records(count: usize) -> Vec<RecordPointer> {
    (0..count).map(|_| RecordPointer::allocate(0, b"key", 0)).collect()
}

fn free(records: Vec<RecordPointer>) {
    for record in records {
        // SAFETY: made by `records`, and used no more.
        unsafe { record.free() };
    }
}

#[test]
fn what_is_taken_back_leaves_nothing_behind() {
    let (table, records, mut set) = (table(), records(20), WriteSet::default());
    let text = ValueRef::Text("longer than a word");
    set.set(&table, records[0], 1, text);
    let mark = set.mark();
    for _ in 0..3 {
        for &record in &records {
            set.insert(&table, record, [ValueRef::Int(1), text].into_iter());
            set.delete(&table, record);
        }
        assert!(set.truncate(mark));
        assert_eq!((set.words.len(), set.bytes.len(), set.touched.len()), (0, 18, 1));
        assert_eq!(set.position(records[0]), Some(0));
        assert_eq!(set.position(records[19]), None);
        assert_eq!(set.value(Stored::Text(0, 18)), text);
    }
    free(records);
}

/// With 200 records every bit of the filter stands for several; after a truncation it has bits of removed records.
#[test]
fn records_that_share_a_bit_of_the_filter_are_distinguished() {
    let (table, records, mut set) = (table(), records(200), WriteSet::default());
    for count in [1, 2, FEW, FEW + 1, 100] {
        for round in 0..2 {
            records[..count].iter().for_each(|&record| set.set(&table, record, 1, ValueRef::Null));
            for (place, &record) in records.iter().enumerate() {
                assert_eq!(set.position(record), (place < count).then_some(place), "{count}, {place}");
            }
            if round == 0 {
                assert!(set.truncate(WriteSet::beginning()));
                assert!(records.iter().all(|&record| set.position(record).is_none()));
            }
        }
        set.clear();
        assert_eq!(set.filter, 0);
    }
    free(records);
}

#[test]
fn presence_follows_the_last_insert_or_delete_and_comes_back_with_a_mark() {
    let (table, records, mut set) = (table(), records(1), WriteSet::default());
    set.set(&table, records[0], 1, ValueRef::Null);
    assert!(set.presence(0, true) && !set.presence(0, false));
    let mark = set.mark();
    set.delete(&table, records[0]);
    assert!(!set.presence(0, true));
    set.insert(&table, records[0], [ValueRef::Int(1), ValueRef::Null].into_iter());
    set.set(&table, records[0], 1, ValueRef::Null);
    assert!(set.presence(0, false));
    assert!(set.truncate(mark));
    assert!(set.presence(0, true) && !set.presence(0, false));
    free(records);
}

#[test]
fn a_mark_whose_writes_are_gone_takes_nothing_back() {
    let (table, records, mut set) = (table(), records(1), WriteSet::default());
    let first = set.mark();
    set.delete(&table, records[0]);
    let void = set.mark();
    assert!(set.truncate(first));
    assert!(!set.truncate(void), "fewer writes than it has seen");
    set.set(&table, records[0], 1, ValueRef::Null);
    set.delete(&table, records[0]);
    assert!(!set.truncate(void), "other writes than it has seen");
    assert_eq!(set.writes.len(), 2);
    assert!(set.truncate(first) && set.is_empty());
    free(records);
}

#[test]
fn numbers_come_back_as_they_were_stored() {
    let mut set = WriteSet::default();
    let most = 10_i128.pow(38) - 1;
    for (unscaled, scale) in [(0, 0), (1, 38), (-1, 2), (most, 5), (-most, 0), (i128::from(u64::MAX) + 7, 9)]
    {
        let number = ValueRef::Decimal(Decimal::new(unscaled, scale).expect("in range"));
        let stored = set.store(number);
        assert_eq!(set.value(stored), number);
    }
}
