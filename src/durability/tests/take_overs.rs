//! Take-overs: databases in one process on one log in memory, each of which fences the one before.
//!
//! Clients write to every database that is open, and know what was acknowledged. Then: no acknowledged transaction is lost, none
//! is there twice or by half, each was asked for, and a database that was fenced acknowledges nothing more.
//!
//! CI runs some. The long run, and the run of one seed:
//! `HEDDLE_TAKE_OVERS=100000 cargo test -p heddledb --lib --release take_overs -- --nocapture`,
//! `HEDDLE_SEED=17 cargo test -p heddledb --lib take_overs`. The seed draws the faults, the calls and the moments of take-overs; how
//! threads meet is the machine's.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::database::Database;
use crate::durability::memory_log::{Defect, MemoryLog};
use crate::{DataType, Options, Range, TableDefinition, Value, key, row};

/// Take-overs of one log.
const OF_ONE_LOG: u64 = 6;
/// Clients of each database.
const CLIENTS: i64 = 2;
/// Logs with a defect that are looked at before it counts as not found.
const LOGS_WITH_DEFECT: u64 = 60;

type Found = std::result::Result<(), String>;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

/// What clients know of all calls.
#[derive(Default)]
struct Journal {
    next: AtomicI64,
    acknowledged: Mutex<Vec<i64>>,
    /// What clients have found that must not be.
    wrong: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

fn open(log: &MemoryLog) -> Result<Database> {
    let mut options = Options::default()
        .workers(1)
        .threads(|threads| threads.max_worker_contexts(8))
        .log(|log| log.buffer_bytes(1 << 16));
    options.memory_log = Some(log.clone());
    Database::in_memory_with(options)
}

fn create(log: &MemoryLog) -> Result<()> {
    let db = open(log)?;
    let call = TableDefinition::new("call").column("id", DataType::Int64).primary_key(["id"]);
    let sum = TableDefinition::new("sum").column("k", DataType::Int64).column("n", DataType::Int64);
    db.create_table(call)?;
    let sums = db.create_table(sum.primary_key(["k"]))?;
    db.run(|tx| tx.insert(&sums, row![0, 0]))?;
    db.close()
}

/// Calls until the log has failed, or all is over: each inserts its number and counts itself.
fn call(db: &Database, journal: &Journal, is_fenced: &AtomicBool) -> Found {
    let text = |error: Error| error.to_string();
    let (calls, sums) = (db.table("call").map_err(text)?, db.table("sum").map_err(text)?);
    while !journal.is_over.load(Ordering::SeqCst) {
        let number = journal.next.fetch_add(1, Ordering::Relaxed);
        let was_fenced = is_fenced.load(Ordering::SeqCst);
        let called = db.run(|tx| {
            tx.insert(&calls, row![number])?;
            tx.add(&sums, key![0], "n", 1)
        });
        match called {
            Ok(_) if was_fenced => {
                return Err(format!("call {number} began behind a take-over and was acknowledged"));
            }
            Ok(_) => journal.acknowledged.lock().push(number),
            // It is there whole, or it is not there.
            Err(Error::LogFailed { .. }) => return Ok(()),
            Err(other) => return Err(format!("call {number}: {other}")),
        }
    }
    Ok(())
}

/// What is in a database is what was acknowledged, and whole calls that were unknown.
fn check(db: &Database, journal: &Journal) -> Found {
    let text = |error: Error| error.to_string();
    let (calls, sums) = (db.table("call").map_err(text)?, db.table("sum").map_err(text)?);
    let acknowledged = journal.acknowledged.lock().clone();
    let snapshot = db.snapshot().map_err(text)?;
    let numbers: Result<Vec<i64>> =
        snapshot.scan(&calls, Range::all()).map_err(text)?.map(|row| row?.int("id")).collect();
    let numbers = numbers.map_err(text)?;
    let sum = snapshot.get(&sums, key![0]).map_err(text)?.map(|row| row.to_values());
    if sum != Some(vec![Value::Int(0), Value::Int(numbers.len() as i64)]) {
        return Err(format!("{} calls are there, and the sum is {sum:?}", numbers.len()));
    }
    let lost: Vec<_> = acknowledged.iter().filter(|number| numbers.binary_search(number).is_err()).collect();
    if !lost.is_empty() {
        return Err(format!("acknowledged and lost: {lost:?}"));
    }
    Ok(())
}

/// Take-overs of one log: two or three databases are open at a time, all of them called. How many calls were acknowledged.
fn take_over(log: &MemoryLog, seed: u64) -> std::result::Result<usize, String> {
    let text = |error: Error| error.to_string();
    let (mut random, journal) = (fastrand::Rng::with_seed(seed), Journal::default());
    create(log).map_err(|error| format!("creation: {error}"))?;
    thread::scope(|scope| {
        let mut open_ones: Vec<(Arc<Database>, Arc<AtomicBool>)> = Vec::new();
        let mut next = || -> std::result::Result<(), String> {
            let db = Arc::new(open(log).map_err(text)?);
            open_ones.iter().for_each(|(_, is_fenced)| is_fenced.store(true, Ordering::SeqCst));
            check(&db, &journal)?;
            let is_fenced = Arc::new(AtomicBool::new(false));
            for _ in 0..CLIENTS {
                let (db, is_fenced, journal) = (db.clone(), is_fenced.clone(), &journal);
                scope.spawn(move || {
                    let called = call(&db, journal, &is_fenced);
                    called.unwrap_or_else(|what| journal.wrong.lock().push(what));
                });
            }
            open_ones.push((db, is_fenced));
            if open_ones.len() > 2 {
                open_ones.remove(0);
            }
            thread::sleep(Duration::from_micros(random.u64(..3_000)));
            Ok(())
        };
        let taken_over = (0..OF_ONE_LOG).try_for_each(|_| next());
        // The last one's clients end by this; those of the others have ended because their log has failed.
        journal.is_over.store(true, Ordering::SeqCst);
        taken_over
    })?;
    let last = open(log).map_err(text)?;
    check(&last, &journal)?;
    journal.wrong.lock().pop().map_or(Ok(()), Err)?;
    last.close().map_err(text)?;
    Ok(journal.acknowledged.into_inner().len())
}

#[test]
fn no_take_over_loses_or_repeats_what_was_acknowledged() {
    let (first, take_overs) = (setting("HEDDLE_SEED"), setting("HEDDLE_TAKE_OVERS").unwrap_or(60));
    let logs = if first.is_some() { 1 } else { take_overs.div_ceil(OF_ONE_LOG) };
    let mut acknowledged = 0;
    for seed in (first.unwrap_or(1)..).take(logs as usize) {
        acknowledged += take_over(&MemoryLog::new(seed), seed)
            .unwrap_or_else(|what| panic!("HEDDLE_SEED={seed}: {what}"));
    }
    println!("{logs} logs, {OF_ONE_LOG} take-overs each, {acknowledged} calls acknowledged");
    assert!(acknowledged as u64 >= logs, "clients hardly come to call");
}

#[test]
fn stores_that_lose_or_forget_are_found_beneath_databases() {
    for defect in [Defect::ForgetsFence, Defect::AcknowledgesEarly, Defect::LosesAcknowledgedTail] {
        let found = (0..LOGS_WITH_DEFECT)
            .find_map(|seed| take_over(&MemoryLog::with_defect(seed, defect), seed).err());
        println!("{defect:?}: {}", found.unwrap_or_else(|| panic!("{defect:?} was not found")));
    }
}
