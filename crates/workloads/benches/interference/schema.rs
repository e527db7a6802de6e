//! Schema changes under load: an index of a table that transactions write, and a column of a large table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, PrimaryIndex, ProtocolKind, Range, Result as EngineResult, Table, TableChange,
    TableDefinition, key, row,
};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates, Waits, largest, median, milliseconds};
use crate::load::{Load, Slices, options};

const ACCOUNT: &str = "account";
const INDEX: &str = "by_balance";
/// Rows that one transaction loads.
const BATCH: i64 = 1_000;
/// The value of existing rows in the first new column; in each next one, one more.
const DEFAULT: i64 = 7;
/// Time that transactions run alone before each column is added.
const ALONE: Duration = Duration::from_millis(200);

/// Debit-credit while its accounts get an index of the balance, which every transaction changes.
pub fn create_index(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 3, 3.0)?;
    let accounts: u32 = arguments.get("accounts", 1_000_000)?;
    let threads = arguments.get("threads", 2)?;
    let options = options(arguments, ProtocolKind::Optimistic, threads)?;
    arguments.finish()?;
    let mut load = Load::bank(Database::in_memory_with(options)?, accounts, threads)?.in_closures();
    let (mut alone, mut beside) = (Waits::default(), Waits::default());
    let (mut rates, mut builds) = (Rates::default(), Vec::new());
    for _ in 0..slices.rounds {
        let report = load.run(slices.seconds)?;
        alone.add(&report.latency);
        rates.push(0, report.throughput());
        let (report, times) = load.run_beside(slices.seconds, build_until)?;
        beside.add(&report.latency);
        rates.push(1, report.throughput());
        builds.extend(times);
    }
    load.check()?;
    load.db.check()?;
    let [without, with] = rates.medians();
    let mut figures = Figures::default();
    alone.report(&mut figures, "alone", None);
    beside.report(&mut figures, "beside builds", Some(Asked::AtMost(50.0)));
    figures.add("transactions alone, per second", without);
    figures.add("transactions beside builds, per second", with);
    figures.add("indexes, each equal to a scan", builds.len() as f64);
    figures.add("median build, ms", median(&builds)).add("longest build, ms", largest(&builds));
    Ok(figures)
}

/// Builds the index, compares it with the table in one snapshot, and drops it, again and again; gives each build's time in
/// milliseconds.
fn build_until(db: &Database, over: &AtomicBool) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let table = db.change_table(ACCOUNT, TableChange::new().add_index(INDEX, ["balance"]))?;
        times.push(milliseconds(start.elapsed()));
        let snapshot = db.snapshot()?;
        let entry = |row: heddledb::Row<'_>| EngineResult::Ok((row.int("balance")?, row.int("account")?));
        let rows = snapshot.scan(&table, Range::all())?.map(|row| entry(row?.row()));
        let mut rows = rows.collect::<EngineResult<Vec<_>>>()?;
        rows.sort_unstable();
        let mut indexed = 0;
        for row in snapshot.scan_index(&table, INDEX, Range::all())? {
            let found = entry(row?.row())?;
            if rows.get(indexed) != Some(&found) {
                return Err(format!(
                    "entry {indexed} of the index is {found:?}, not {:?}",
                    rows.get(indexed)
                )
                .into());
            }
            indexed += 1;
        }
        if indexed != rows.len() {
            return Err(format!("the index has {indexed} entries, but the table {} rows", rows.len()).into());
        }
        drop(snapshot);
        db.change_table(ACCOUNT, TableChange::new().drop_index(INDEX))?;
        // Relaxed: a late look costs one more build.
        if over.load(Ordering::Relaxed) {
            return Ok(times);
        }
    }
}

/// Columns are added to a large table, while threads add to its rows if asked; rows are read by the default and written after that.
pub fn add_column(arguments: &mut Arguments) -> Result<Figures> {
    let rounds: usize = arguments.get("rounds", 5)?;
    let rows: i64 = arguments.get("rows", 1_000_000)?;
    let writers: usize = arguments.get("writers", 1)?;
    let options = options(arguments, ProtocolKind::Optimistic, 2)?;
    arguments.finish()?;
    let db = Database::in_memory_with(options)?;
    let table = large_table(&db, rows)?;
    let (phase, mut added) = (Phase::default(), Vec::new());
    let writes = thread::scope(|scope| {
        let (db, table, phase) = (&db, &table, &phase);
        let add = |seed| scope.spawn(move || add_until(db, table, (rows, seed as u64), phase));
        let writers: Vec<_> = (0..writers).map(add).collect();
        let changes = (0..rounds).try_for_each(|round| {
            thread::sleep(ALONE);
            added.push(change(db, rows, round, &phase.changes)?);
            Ok(())
        });
        // Relaxed: a late look costs one more addition.
        phase.is_over.store(true, Ordering::Relaxed);
        let join = |writer: thread::ScopedJoinHandle<'_, Result<Additions>>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let writes = writers.into_iter().map(join).collect::<Result<Vec<_>>>();
        changes.and(writes)
    })?;
    let count: i64 = writes.iter().map(|one| one.count).sum();
    let table = db.table("large")?;
    let sum = db.read(|snapshot| {
        let scan = snapshot.scan(&table, Range::all())?;
        scan.map(|row| row?.int("value")).sum::<EngineResult<i64>>()
    })?;
    if sum != count {
        return Err(format!("the rows hold {sum}, but {count} was added").into());
    }
    let longest =
        |beside: usize| writes.iter().map(|one| milliseconds(one.longest[beside])).fold(0.0, f64::max);
    let mut figures = Figures::default();
    figures.add("rows", rows as f64).add("columns added", rounds as f64);
    figures.add("median, ms", median(&added));
    figures.add_asked("longest, ms", largest(&added), Asked::AtMost(50.0));
    figures.add("additions", count as f64).add("longest addition alone, ms", longest(0));
    figures.add_asked("longest addition beside, ms", longest(1), Asked::AtMost(50.0));
    Ok(figures)
}

fn large_table(db: &Database, rows: i64) -> Result<Table> {
    let definition = TableDefinition::new("large")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash);
    let table = db.create_table(definition)?;
    for first in (0..rows).step_by(BATCH as usize) {
        db.run(|tx| (first..rows.min(first + BATCH)).try_for_each(|id| tx.insert(&table, row![id, 0])))?;
    }
    Ok(table)
}

/// Adds a column, and gives the time in milliseconds; then reads some rows, which have the default, and writes and reads them again.
fn change(db: &Database, rows: i64, round: usize, changes: &AtomicBool) -> Result<f64> {
    let name = format!("more_{round}");
    let default = DEFAULT + round as i64;
    // Release and acquire: an addition that waits for the change has ended after it has begun.
    changes.store(true, Ordering::Release);
    let start = Instant::now();
    let table = db.change_table("large", TableChange::new().add_column(&name, DataType::Int64, default))?;
    let added = milliseconds(start.elapsed());
    changes.store(false, Ordering::Release);
    let some = || (0..rows).step_by(1 + rows as usize / 1_000);
    let expect = |expected: &dyn Fn(i64) -> i64| -> Result {
        let snapshot = db.snapshot()?;
        for id in some() {
            let more = snapshot.get(&table, key![id])?.ok_or("a row is missing")?.int(&name)?;
            if more != expected(id) {
                return Err(format!("row {id} has {more} in the new column, not {}", expected(id)).into());
            }
        }
        Ok(())
    };
    expect(&|_| default)?;
    for id in some() {
        db.run(|tx| tx.update(&table, key![id], &[(name.as_str(), (default + id).into())]))?;
    }
    expect(&|id| default + id)?;
    Ok(added)
}

/// State that the threads that add read.
#[derive(Default)]
struct Phase {
    /// True while a column is being added.
    changes: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Additions {
    count: i64,
    /// The longest one alone, and the longest beside a schema change.
    longest: [Duration; 2],
}

fn add_until(db: &Database, table: &Table, (rows, seed): (i64, u64), phase: &Phase) -> Result<Additions> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = Additions::default();
    // Relaxed: as above.
    while !phase.is_over.load(Ordering::Relaxed) {
        let id = random.i64(0..rows);
        let (start, began_beside) = (Instant::now(), phase.changes.load(Ordering::Acquire));
        db.run(|tx| tx.add(table, key![id], "value", 1))?;
        let is_beside = began_beside || phase.changes.load(Ordering::Acquire);
        let longest = &mut done.longest[usize::from(is_beside)];
        *longest = (*longest).max(start.elapsed());
        done.count += 1;
    }
    Ok(done)
}
