//! A database with everything in it that the formats know: every type of column, indexes, split columns, merged operations
//! in its log, deleted rows, and a checkpoint if wanted.

use heddledb::ValueRef::Null;
use heddledb::testing::SimulatedDisk;
use heddledb::{DataType, Database, ProtocolKind, Range, TableDefinition, Value, key, row};

use crate::checkpoint::journal::{Journal, Made, options};

/// The calls of the journal that are in it.
const CALLS: i64 = 36;

fn values() -> Vec<Value> {
    vec![
        "long text".into(),
        true.into(),
        7.into(),
        0.5.into(),
        Value::Decimal("12.34".parse().expect("a number")),
        Value::Bytes(b"bytes".to_vec()),
        Value::Date("2026-11-21".parse().expect("a day")),
        Value::Timestamp("2026-11-21 10:00:00".parse().expect("a moment")),
        Value::Uuid("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().expect("a UUID")),
    ]
}

fn every_type() -> TableDefinition {
    TableDefinition::new("every_type")
        .column("id", DataType::Text)
        .column("truth", DataType::Bool)
        .column("small", DataType::Int32)
        .column("float", DataType::Float64)
        .column("price", DataType::Decimal { precision: 10, scale: 2 })
        .column("bytes", DataType::Bytes)
        .column("day", DataType::Date)
        .column("moment", DataType::Timestamp)
        .column("identity", DataType::Uuid)
        .primary_key(["id"])
        .index("by_bytes", ["bytes", "day"])
}

/// Makes it, on a disk of its own. `log`: where its log is, if not in its own directory.
pub fn make(with_checkpoint: bool, log: Option<&str>) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let protocol = ProtocolKind::Phased;
    let plain = options(&disk, protocol);
    let created = log.into_iter().fold(plain, |options, path| options.log(|log| log.directory(path)));
    Journal::create(created).db.close().expect("durable");
    let journal = Journal::open(options(&disk, protocol)).expect("opens");
    let table = journal.db.create_table(every_type()).expect("a table");
    let values = values();
    journal
        .db
        .run(|tx| {
            tx.insert(&table, values.iter().map(Value::as_value_ref).collect::<Vec<_>>())?;
            tx.insert(&table, row!["nothing", Null, Null, Null, Null, Null, Null, Null, Null])?;
            tx.insert(&table, row!["goes", Null, Null, Null, Null, Null, Null, Null, Null])
        })
        .expect("rows");
    (0..CALLS / 2).for_each(|number| journal.call(0, number).expect("committed"));
    if with_checkpoint {
        journal.db.checkpoint().expect("whole");
    }
    (CALLS / 2..CALLS).for_each(|number| journal.call(0, number).expect("committed"));
    journal.db.run(|tx| tx.delete(&table, key!["goes"])).expect("gone");
    journal.db.close().expect("durable");
    disk
}

/// Looks that everything is there, and goes on working with it.
pub fn check(disk: &SimulatedDisk, protocol: ProtocolKind, what: &str) {
    let journal = Journal::open(options(disk, protocol)).unwrap_or_else(|error| panic!("{what}: {error}"));
    journal.check(&Made { calls: vec![CALLS], tables: 0 }, what);
    assert_eq!(rows(&journal.db), [values(), nothing()], "{what}");
    journal.call(0, CALLS).unwrap_or_else(|error| panic!("{what}: {error}"));
    journal.db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    journal.db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    let journal = Journal::open(options(disk, protocol)).unwrap_or_else(|error| panic!("{what}: {error}"));
    journal.check(&Made { calls: vec![CALLS + 1], tables: 0 }, what);
    assert_eq!(rows(&journal.db), [values(), nothing()], "{what}");
}

fn nothing() -> Vec<Value> {
    let mut values = vec![Value::Null; 9];
    values[0] = "nothing".into();
    values
}

fn rows(db: &Database) -> Vec<Vec<Value>> {
    let table = db.table("every_type").expect("a table");
    db.run(|tx| tx.scan(&table, Range::all())?.map(|row| Ok(row?.to_values())).collect()).expect("readable")
}
