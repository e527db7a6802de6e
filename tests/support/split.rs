//! A table with a column for every operation that columns are split for, and waits for phases: what the tests of the
//! phased protocol share.

#![allow(dead_code)] // Each test file uses its own part of this one.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, Durability, Error, Options, OrderedTuple, PhaseReport, PhasedOptions, Result,
    SplitOperation, Table, TableDefinition, TopK, TupleType, Tx, Value, ValueRef, key, row,
};

/// This many entries a top-K column keeps.
pub const TOP: u32 = 3;
/// The row that no test labels: a place for ordinary writes.
pub const PLAIN_ROW: i64 = 9;
/// A test that needs this long hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Phased, without a log.
pub fn options(phase_milliseconds: f64) -> Options {
    Options::default()
        .protocol(PhasedOptions::default().phase_milliseconds(phase_milliseconds))
        .durability(Durability::None)
}

/// Without a log.
pub fn in_memory(phase_milliseconds: f64) -> (Database, Table) {
    let db = Database::in_memory_with(options(phase_milliseconds)).expect("options");
    let table = board(&db);
    (db, table)
}

/// Entries of one integer for the order and one for the payload.
pub fn entry_type() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Int64]).expect("a type")
}

/// A table with the rows 0 to 9.
pub fn board(db: &Database) -> Table {
    let definition = TableDefinition::new("board")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("small", DataType::Int32)
        .not_null()
        .column("high", DataType::Int64)
        .not_null()
        .column("product", DataType::Int64)
        .not_null()
        .column("best", DataType::OrderedTuple(entry_type()))
        .not_null()
        .column("top", DataType::TopK { limit: TOP, of: entry_type() })
        .not_null()
        .column("plain", DataType::Int64)
        .not_null()
        .column("tag", DataType::Int64)
        .column("note", DataType::Text)
        .primary_key(["id"])
        .index("board_by_tag", ["tag"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (0..10).try_for_each(|id| insert_row(tx, &table, id))).expect("rows");
    table
}

/// Inserts a row: numbers 0, a product of 1, no entries, the tenth of its number as its tag.
pub fn insert_row(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<()> {
    let best = Value::Tuple(OrderedTuple::new(&entry_type(), &row![-1], &row![-1])?);
    let top = Value::TopK(TopK::of(TOP, [])?);
    let (best, top): (ValueRef<'_>, ValueRef<'_>) = ((&best).into(), (&top).into());
    tx.insert(table, row![id, 0, 0, 0, 1, best, top, 0, id / 10, "a note that is longer than a word"])
}

/// Labels every column of a row that has an operation.
pub fn label_row(db: &Database, table: &Table, id: i64) {
    let labels = [
        ("n", SplitOperation::ADD),
        ("high", SplitOperation::MAX),
        ("product", SplitOperation::MULTIPLY),
        ("best", SplitOperation::ORDERED_PUT),
        ("top", SplitOperation::TOP_K_INSERT),
    ];
    for (column, operation) in labels {
        db.split(table, key![id], column, operation).expect("a label");
    }
}

/// An integer of a row.
pub fn int(db: &Database, table: &Table, id: i64, column: &str) -> Result<i64> {
    db.run(|tx| tx.get(table, key![id])?.ok_or(Error::Closed)?.int(column))
}

/// The entries of an ordered-put or top-K column, the highest first.
pub fn entries(value: &Value) -> Vec<(i64, i64)> {
    let of = entry_type();
    let rows = match value {
        Value::Tuple(tuple) => vec![tuple.row(&of).expect("an entry")],
        Value::TopK(entries) => entries.rows(&of).expect("entries"),
        other => panic!("no entries: {other:?}"),
    };
    let entry = |row: Vec<Value>| match row[..] {
        [Value::Int(order), Value::Int(payload)] => (order, payload),
        _ => panic!("no entry: {row:?}"),
    };
    let mut entries: Vec<_> = rows.into_iter().map(entry).collect();
    entries.sort_by(|one, other| other.cmp(one));
    entries
}

/// Waits for what must come.
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < LIMIT - Duration::from_secs(10), "timed out: {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// The statistics of phases.
pub fn report(db: &Database) -> PhaseReport {
    db.phases().expect("phased")
}

/// Returns true if anything is split now.
pub fn is_split(db: &Database) -> bool {
    report(db).columns.iter().any(|column| column.now)
}

/// Waits until a split phase lasts; labels alone lead to one only where calls commit.
pub fn wait_for_split(db: &Database, table: &Table) {
    wait_until("a split phase", || {
        db.run(|tx| tx.add(table, key![PLAIN_ROW], "plain", 1)).expect("an addition");
        is_split(db)
    });
}

/// Does something wholly inside of one split phase: it is tried again where the phase has ended meanwhile.
pub fn in_one_split_phase<T>(db: &Database, table: &Table, mut body: impl FnMut() -> T) -> T {
    let start = Instant::now();
    loop {
        wait_for_split(db, table);
        let before = report(db);
        let done = body();
        let after = report(db);
        if before.columns.iter().any(|column| column.now)
            && after.columns.iter().any(|column| column.now)
            && before.split == after.split
        {
            return done;
        }
        assert!(start.elapsed() < LIMIT, "no split phase is long enough");
    }
}

/// Runs work that must end, on a thread of its own: a thread that hangs fails.
pub fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let worker = thread::spawn(move || drop(done.send(work())));
    match wait.recv_timeout(LIMIT) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end after {LIMIT:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}
