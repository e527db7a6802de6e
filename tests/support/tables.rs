//! Databases, tables and small looks at results that the tests of semantics share.

#![allow(dead_code)] // Each test file uses its own part of this one.

use std::path::Path;
use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Scan, Table,
    TableDefinition, Value,
};

/// The directory of databases on simulated disks.
pub const DATABASE: &str = "bank";

/// A database without files.
pub fn in_memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

/// The options for a database on a simulated disk, with segments that are small but roomy.
pub fn on_disk(disk: &SimulatedDisk) -> Options {
    Options::default().log(|log| log.segment_bytes(1 << 20)).disk(Arc::new(disk.clone()))
}

/// The database on this disk.
pub fn open(disk: &SimulatedDisk) -> Database {
    Database::open(DATABASE, on_disk(disk)).unwrap()
}

/// Runs a test under every protocol, in memory and on a simulated disk; `check` also after recovery, from the log and from a
/// checkpoint.
pub fn everywhere(change: impl Fn(&Database), check: impl Fn(&Database)) {
    for &protocol in ProtocolKind::ALL {
        let memory = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(memory).expect("options are right");
        change(&db);
        check(&db);
        let disk = SimulatedDisk::new();
        let open = || Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        let db = open();
        change(&db);
        check(&db);
        db.close().expect("closed");
        let db = open();
        check(&db);
        db.checkpoint().expect("a checkpoint");
        db.close().expect("closed");
        check(&open());
    }
}

/// A file of the database.
pub fn file(name: &str) -> std::path::PathBuf {
    Path::new(DATABASE).join(name)
}

/// Accounts with a name that is unique, a branch by which they are indexed, a balance and a small counter.
pub fn account_definition() -> TableDefinition {
    TableDefinition::new("account")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("branch", DataType::Int32)
        .column("balance", DataType::Int64)
        .not_null()
        .default(0)
        .column("visits", DataType::Int32)
        .primary_key(["id"])
        .unique_index("account_by_name", ["name"])
        .index("account_by_branch", ["branch"])
}

/// A table of two integers, `id` and `n`.
pub fn counter_definition() -> TableDefinition {
    TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["id"])
}

/// A table of orders whose key has two columns, customer and number.
pub fn order_definition() -> TableDefinition {
    TableDefinition::new("orders")
        .column("customer", DataType::Int64)
        .column("number", DataType::Int64)
        .column("total", DataType::Int64)
        .primary_key(["customer", "number"])
}

/// The first column of every row of a scan.
pub fn first_column(scan: Result<Scan<'_, '_>>) -> Result<Vec<i64>> {
    scan?.map(|row| row?.int_at(0)).collect()
}

/// Every value of every row of a scan.
pub fn rows_of(scan: Result<Scan<'_, '_>>) -> Result<Vec<Vec<Value>>> {
    scan?.map(|row| Ok(row?.to_values())).collect()
}

/// A whole table, in the order of its key.
pub fn dump(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    let mut rows = db.run(|tx| rows_of(tx.scan(table, Range::all()))).unwrap();
    let key = table.definition().key().to_vec();
    rows.sort_by(|left, right| {
        let of = |row: &[Value]| key.iter().map(|&at| row[at].clone()).collect::<Vec<_>>();
        let (left, right) = (of(left), of(right));
        let pairs = left.iter().zip(&right);
        pairs
            .map(|(left, right)| left.as_value_ref().partial_cmp(&right.as_value_ref()).unwrap())
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

trait IntAt {
    fn int_at(&self, position: usize) -> Result<i64>;
}

impl IntAt for heddledb::Row<'_> {
    fn int_at(&self, position: usize) -> Result<i64> {
        match &self.to_values()[position] {
            Value::Int(value) => Ok(*value),
            other => panic!("column {position} holds {other:?}"),
        }
    }
}

/// The error of what must fail, after a look that its message has these words: what is wrong, and what to do.
#[track_caller]
pub fn refused<T>(result: Result<T>, words: &[&str]) -> Error {
    let Err(error) = result else { panic!("it was not refused, but should say {words:?}") };
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    error
}

/// That the error is of a kind.
#[macro_export]
macro_rules! assert_kind {
    ($error:expr, $pattern:pat) => {{
        let error = $error;
        assert!(matches!(error, $pattern), "{error:?} is not {}", stringify!($pattern));
    }};
}
