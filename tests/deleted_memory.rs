//! The memory of many deleted rows goes back to the system, and rows that stay between them are as they were.
//!
//! In a process of its own, with one test: what is looked at is how much memory the process has.
#![cfg(target_os = "linux")]

use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, Durability, Options, PrimaryIndex, Range, Result, Table, TableDefinition, ValueRef,
};

const ROWS: i64 = 200_000;
const COLUMNS: usize = 24;
/// Rows that one transaction inserts or deletes.
const BATCH: i64 = 1_000;
/// The least memory of a row.
const ROW_BYTES: u64 = 8 * COLUMNS as u64;
/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn definition(name: &str, columns: usize) -> TableDefinition {
    let of = TableDefinition::new(name).column("id", DataType::Int64);
    let of = (1..columns).fold(of, |of, number| of.column(format!("c{number}"), DataType::Int64).not_null());
    of.primary_key(["id"]).primary_index(PrimaryIndex::Ordered)
}

fn fill(db: &Database, table: &Table, columns: usize) -> Result<()> {
    (0..ROWS).step_by(BATCH as usize).try_for_each(|from| {
        db.run(|tx| {
            (from..from + BATCH)
                .try_for_each(|id| tx.insert(table, vec![ValueRef::Int(id); columns].as_slice()))
        })
    })
}

fn delete(db: &Database, table: &Table, is_deleted: impl Fn(i64) -> bool) -> Result<()> {
    (0..ROWS).step_by(BATCH as usize).try_for_each(|from| {
        db.run(|tx| {
            (from..from + BATCH)
                .filter(|id| is_deleted(*id))
                .try_for_each(|id| tx.delete(table, id).map(drop))
        })
    })
}

/// Bytes of the process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line about memory");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Runs transactions, each of which collects some of what others have left, until so little is resident.
fn wait_for(db: &Database, bytes: u64) -> Result<()> {
    let start = Instant::now();
    while resident() > bytes {
        assert!(start.elapsed() < PATIENCE, "{} bytes are resident instead of {bytes}", resident());
        db.run(|_| Ok(()))?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn memory_of_many_deleted_rows_returns_to_the_system() -> Result<()> {
    let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
    let table = db.create_table(definition("wide", COLUMNS))?;
    fill(&db, &table, COLUMNS)?;
    let full = resident();
    // The first row of each thousand stays.
    delete(&db, &table, |id| id % BATCH != 0)?;
    wait_for(&db, full - ROWS as u64 * ROW_BYTES / 2)?;
    let left = db.read(|snapshot| {
        let rows = snapshot.scan(&table, Range::all())?;
        rows.map(|row| row.and_then(|row| Ok((row.int("id")?, row.int("c23")?)))).collect::<Result<Vec<_>>>()
    })?;
    assert_eq!(left, (0..ROWS / BATCH).map(|number| (number * BATCH, number * BATCH)).collect::<Vec<_>>());
    // Rows of another size come into the same memory.
    let narrow = db.create_table(definition("narrow", COLUMNS / 2))?;
    fill(&db, &narrow, COLUMNS / 2)?;
    assert!(resident() < full, "{} bytes are resident, and {full} were", resident());
    delete(&db, &table, |id| id % BATCH == 0)?;
    db.check().map(drop)
}
