//! Sessions beside debit-credit: ten thousand that are idle in a transaction, and one that commits many rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{DataType, Database, ProtocolKind, Range, Session, Table, TableDefinition, key, row};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates, Waits, largest, median, milliseconds, resident};
use crate::load::{Load, Slices, options};

const ACCOUNTS: u32 = 100_000;
/// Rows that one transaction loads.
const BATCH: i64 = 1_000;

/// A table of items, whose values are all zero.
fn items(db: &Database, count: i64) -> Result<Table> {
    let definition = TableDefinition::new("item").column("id", DataType::Int64);
    let definition = definition.column("value", DataType::Int64).not_null().primary_key(["id"]);
    let table = db.create_table(definition)?;
    for first in (0..count).step_by(BATCH as usize) {
        db.run(|tx| (first..count.min(first + BATCH)).try_for_each(|id| tx.insert(&table, row![id, 0])))?;
    }
    Ok(table)
}

/// The smallest value, the largest, and the sum of all values, in a snapshot.
fn values(db: &Database, table: &Table) -> heddledb::Result<(i64, i64, i64)> {
    db.read(|snapshot| {
        let mut found = (i64::MAX, i64::MIN, 0);
        for row in snapshot.scan(table, Range::all())? {
            let value = row?.int("value")?;
            found = (found.0.min(value), found.1.max(value), found.2 + value);
        }
        Ok(found)
    })
}

/// The memory of sessions that have read one row and written another, and debit-credit beside them.
pub fn idle(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 6, 1.0)?;
    let count: i64 = arguments.get("sessions", 10_000)?;
    let threads = arguments.get("threads", 2)?;
    let options = options(arguments, ProtocolKind::Optimistic, threads)?;
    arguments.finish()?;
    let mut load = Load::bank(Database::in_memory_with(options)?, ACCOUNTS, threads)?;
    let items = items(&load.db, 2 * count)?;
    let (mut rates, mut memory) = (Rates::default(), Vec::new());
    for _ in 0..slices.rounds {
        rates.push(0, load.run(slices.seconds)?.throughput());
        let before = resident();
        let mut sessions =
            (0..count).map(|id| begun(&load.db, &items, (id, count + id))).collect::<Result<Vec<_>>>()?;
        memory.push(resident().saturating_sub(before) as f64);
        rates.push(1, load.run(slices.seconds)?.throughput());
        // No other transaction has touched their rows: none may conflict.
        sessions.iter_mut().try_for_each(Session::commit)?;
    }
    load.check()?;
    let found = values(&load.db, &items)?;
    let rounds = slices.rounds as i64;
    if found != (0, rounds, rounds * count) {
        return Err(
            format!("smallest, largest and sum of the items are {found:?} after {rounds} rounds").into()
        );
    }
    let mut figures = Figures::default();
    figures.add_ratio(["alone", "beside idle sessions"], &rates, Asked::AtLeast(0.95));
    figures.add("sessions", count as f64);
    // The first time; later ones reuse memory.
    figures.add_asked("memory of all, MB", memory[0] / 1e6, Asked::AtMost(100.0));
    figures.add("memory of each, bytes", memory[0] / count as f64);
    Ok(figures)
}

/// A session that has read one item and added to another.
fn begun(db: &Database, items: &Table, (read, written): (i64, i64)) -> Result<Session> {
    let mut session = db.session()?;
    session.begin()?;
    session.run(|tx| tx.get(items, key![read]).map(drop))?;
    session.run(|tx| tx.add(items, key![written], "value", 1))?;
    Ok(session)
}

/// Measures the waits of other transactions while a session writes and commits many rows.
pub fn commit(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 4, 2.0)?;
    let rows: i64 = arguments.get("rows", 100_000)?;
    let threads = arguments.get("threads", 2)?;
    let options = options(arguments, ProtocolKind::Optimistic, threads)?;
    arguments.finish()?;
    let mut load = Load::bank(Database::in_memory_with(options)?, ACCOUNTS, threads)?.in_closures();
    let items = items(&load.db, rows)?;
    let (mut alone, mut beside) = (Waits::default(), Waits::default());
    let (mut rates, mut commits) = (Rates::default(), Vec::new());
    for _ in 0..slices.rounds {
        let report = load.run(slices.seconds)?;
        alone.add(&report.latency);
        rates.push(0, report.throughput());
        let first = commits.len() as i64;
        let write = |db: &Database, over: &AtomicBool| write_and_watch(db, &items, (rows, first), over);
        let (report, times) = load.run_beside(slices.seconds, write)?;
        beside.add(&report.latency);
        rates.push(1, report.throughput());
        commits.extend(times);
    }
    load.check()?;
    let last = commits.len() as i64;
    let found = values(&load.db, &items)?;
    if found != (last, last, last * rows) {
        return Err(
            format!("smallest, largest and sum of the rows are {found:?} after {last} commits").into()
        );
    }
    let [without, with] = rates.medians();
    let mut figures = Figures::default();
    alone.report(&mut figures, "alone", None);
    beside.report(&mut figures, "beside commits", Some(Asked::AtMost(10.0)));
    figures.add("transactions alone, per second", without);
    figures.add("transactions beside commits, per second", with);
    figures.add("commits", last as f64).add("median commit, ms", median(&commits));
    figures.add("longest commit, ms", largest(&commits));
    Ok(figures)
}

/// Commits one transaction of all rows after the other; gives the time of each commit in milliseconds. A second thread looks at
/// some of the rows meanwhile, which must be of one transaction.
fn write_and_watch(
    db: &Database,
    items: &Table,
    (rows, first): (i64, i64),
    over: &AtomicBool,
) -> Result<Vec<f64>> {
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch_until(db, items, rows, over));
        let mut times = Vec::new();
        let mut session = db.session()?;
        // Relaxed: a late look costs one more commit.
        while !over.load(Ordering::Relaxed) {
            let value = first + times.len() as i64 + 1;
            session.begin()?;
            for from in (0..rows).step_by(BATCH as usize) {
                session.run(|tx| {
                    let mut ids = from..rows.min(from + BATCH);
                    ids.try_for_each(|id| tx.update(items, key![id], &[("value", value.into())]))
                })?;
            }
            let start = Instant::now();
            session.commit()?;
            times.push(milliseconds(start.elapsed()));
        }
        watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(times)
    })
}

fn watch_until(db: &Database, items: &Table, rows: i64, over: &AtomicBool) -> Result {
    // Relaxed: as above.
    while !over.load(Ordering::Relaxed) {
        let snapshot = db.snapshot()?;
        let value = |id: i64| -> Result<i64> {
            Ok(snapshot.get(items, key![id])?.ok_or("a row is missing")?.int("value")?)
        };
        let seen = (value(0)?, value(rows / 2)?, value(rows - 1)?);
        if (seen.1, seen.2) != (seen.0, seen.0) {
            return Err(format!("a snapshot shows rows of several commits: {seen:?}").into());
        }
        drop(snapshot);
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
