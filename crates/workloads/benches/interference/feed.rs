//! A change feed of debit-credit's history: what it takes from the writers, how far it lags, and that it is complete and in order.
//!
//! # Invariants
//! - Each caller numbers its calls, and commits them in that order: so the feed has to give each caller's numbers without a gap,
//!   and together as many rows as there were commits.
//! - The same holds for a feed from the beginning after a restart, and for one from an epoch in the middle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heddledb::{Change, ChangeBatch, Database, Feed, Options, ProtocolKind, Range};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates, largest, median};
use crate::load::{Load, Slices, of_protocol};

const HISTORY: &str = "history";
const ACCOUNTS: u32 = 100_000;

pub fn run(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 4, 1.0)?;
    // 0: as many as there can be.
    let rate: f64 = arguments.get("rate", 0.0)?;
    let threads = arguments.get("threads", 2)?;
    let protocol = arguments.get("protocol", ProtocolKind::Optimistic)?;
    arguments.finish()?;
    let directory = tempfile::tempdir()?;
    // The log keeps everything, for the feeds from old epochs.
    let options =
        || -> Options { of_protocol(protocol, threads).checkpoints(|checkpoints| checkpoints.log_bytes(0)) };
    let mut load = Load::bank(Database::open(directory.path(), options())?, ACCOUNTS, threads)?;
    load.settings.rate = (rate > 0.0).then_some(rate);
    let (mut rates, mut lags, mut middle, mut drained) = (Rates::default(), Vec::new(), (0, 0), Vec::new());
    for round in 0..slices.rounds {
        rates.push(0, load.run(slices.seconds)?.throughput());
        let before = load.db.snapshot()?.epoch();
        let rows = rows(&load.db)?;
        let (report, read) = load.run_beside(slices.seconds, |db, over| follow(db, before, over))?;
        read.seen.check(report.marks)?;
        rates.push(1, report.throughput());
        lags.push(read.most_behind as f64 / report.throughput().max(1.0) * 1e3);
        drained.push(read.after.as_secs_f64() * 1e3);
        if round == slices.rounds / 2 {
            middle = (before, rows);
        }
    }
    load.check()?;
    let (db, all) = load.into_database();
    db.close()?;
    let start = Instant::now();
    check_reopened(&Database::open(directory.path(), options())?, all, middle)?;
    let mut figures = Figures::default();
    figures.add_ratio(["alone", "with a reader"], &rates, Asked::AtLeast(0.9));
    figures.add("commits, all given in order", all as f64);
    figures.add("median of the largest lags, ms of commits", median(&lags));
    figures.add("largest lag, ms of commits", largest(&lags));
    figures.add("longest until the last change, ms", largest(&drained));
    figures.add("recovery and two feeds of the log, s", start.elapsed().as_secs_f64());
    Ok(figures)
}

/// The changes that were read beside a slice.
struct Read {
    seen: Seen,
    /// The largest number of commits that were not given yet.
    most_behind: u64,
    /// From the end of the slice to the last change.
    after: Duration,
}

/// Reads the feed until the slice is over and everything was given.
fn follow(db: &Database, from_epoch: u64, over: &AtomicBool) -> Result<Read> {
    let mut feed = db.watch(&db.table(HISTORY)?, from_epoch)?;
    let committed_before = db.statistics().committed;
    let (mut seen, mut most_behind) = (Seen::default(), 0);
    // Relaxed: a late look costs one more batch.
    while !over.load(Ordering::Relaxed) {
        let Some(batch) = feed.next_timeout(Duration::from_millis(10))? else { continue };
        seen.add(&batch)?;
        let committed = db.statistics().committed.saturating_sub(committed_before);
        most_behind = most_behind.max(committed.saturating_sub(seen.rows));
    }
    let end = Instant::now();
    // Every call was acknowledged before the slice was over, and so is durable.
    drain(&mut feed, &mut seen)?;
    Ok(Read { seen, most_behind, after: end.elapsed() })
}

fn drain(feed: &mut Feed, seen: &mut Seen) -> Result {
    while let Some(batch) = feed.try_next()? {
        seen.add(&batch)?;
    }
    Ok(())
}

/// The changes that a feed has returned: the last number of each caller, and all rows.
#[derive(Default)]
struct Seen {
    epoch: u64,
    last: HashMap<i64, i64>,
    rows: u64,
}

impl Seen {
    fn add(&mut self, batch: &ChangeBatch) -> Result {
        if batch.epoch() <= self.epoch {
            return Err(format!("epoch {} comes after {}", batch.epoch(), self.epoch).into());
        }
        self.epoch = batch.epoch();
        for change in batch.changes() {
            let Change::Insert { row, .. } = change else {
                return Err(format!("the history was changed otherwise than by an insert: {change:?}").into());
            };
            let (caller, number) = (row.int("caller")?, row.int("sequence")?);
            let before = self.last.insert(caller, number);
            // A feed from the middle begins between two runs, whose callers are others.
            if number != before.unwrap_or(0) + 1 {
                return Err(format!("caller {caller}: {number} comes after {before:?}").into());
            }
            self.rows += 1;
        }
        Ok(())
    }

    fn check(&self, expected: u64) -> Result {
        if self.rows == expected {
            return Ok(());
        }
        Err(format!("the feed has given {} rows of {expected} commits", self.rows).into())
    }
}

/// The number of rows of the history.
fn rows(db: &Database) -> Result<u64> {
    let history = db.table(HISTORY)?;
    let count = db.read(|snapshot| {
        snapshot.scan(&history, Range::all())?.try_fold(0, |rows, row| row.map(|_| rows + 1))
    })?;
    Ok(count)
}

/// Feeds from the beginning and from the middle give everything behind their epoch, after a restart.
fn check_reopened(db: &Database, all: u64, (middle, before): (u64, u64)) -> Result {
    for (epoch, expected) in [(0, all), (middle, all - before)] {
        let mut seen = Seen::default();
        drain(&mut db.watch(&db.table(HISTORY)?, epoch)?, &mut seen)?;
        seen.check(expected).map_err(|failure| format!("from epoch {epoch}, after a restart: {failure}"))?;
    }
    Ok(())
}
